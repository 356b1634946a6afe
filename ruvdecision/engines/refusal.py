"""A refusal as an error: what cannot be done first, what can be done instead after it."""

from __future__ import annotations

import re

from ..errors import UnsupportedError

__all__ = ["refusal"]


def refusal(reason: str) -> UnsupportedError:
    """The error for what an engine's ``refuses`` said; its first sentence is what is wrong, the others are what can be done.

    >>> refusal("Quadrature needs a PyMCBelief. Use engine='auto'.").do
    "Use engine='auto'."
    """
    what, *rest = re.split(r"(?<=\S)\. (?=[A-Z])", reason.strip(), maxsplit=1)
    return UnsupportedError(what.rstrip("."), do=rest[0] if rest else "Use engine='auto', or another mask, target or loss")
