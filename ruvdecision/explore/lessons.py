"""The built-in lessons, in the order in which the page lists them."""

from __future__ import annotations

from . import normal, snooper, twovariables

__all__ = ["LESSONS"]

LESSONS = (normal.LESSON, snooper.LESSON, twovariables.LESSON)
