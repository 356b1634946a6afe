"""Taking away what the order of the rows tells."""

from __future__ import annotations

from dataclasses import dataclass

from ..channels.steps import About, PermuteRows, Step
from ..protocols import Array
from .base import Mask


@dataclass(frozen=True, repr=False)
class Shuffle(Mask):
    """Put the records in random order, so that the row tells nothing about whose record it is.

    The index keeps its labels in their old order: it is the records that move. An intruder after one record
    then faces a mixture over all rows.
    """

    def steps(self, about: About, numbers: Array) -> list[Step]:
        return [PermuteRows()]
