"""Releasing a random sample of the records."""

from __future__ import annotations

from dataclasses import dataclass

from ..channels.layout import Partition
from ..channels.steps import About, SampleRows, Step
from ..checks import check_integer, check_number
from ..errors import InputError
from ..protocols import Array
from .base import Mask


@dataclass(frozen=True, repr=False)
class Subsample(Mask):
    """Release a simple random sample of the records, in their order and with their labels.

    The labels tell whose record is in the sample. A user's uncertainty is averaged over the draw of the
    sample. Follow it with `Shuffle` if the labels are taken off.

    Parameters
    ----------
    size : int, optional
        Number of records to keep.
    share : float, optional
        Share of the records to keep, in (0, 1]; rounded to at least one record.
    """

    size: int | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        if (self.size is None) == (self.share is None):
            raise InputError(
                "Subsample needs size or share",
                {"size": self.size, "share": self.share},
                "Give one of them, Subsample(size=100)",
            )
        if self.size is not None:
            object.__setattr__(self, "size", check_integer("size", self.size, low=1))
        else:
            object.__setattr__(self, "share", check_number("share", self.share, low=0, high=1, open_low=True))

    def kept(self, n: int) -> int:
        """How many of ``n`` records are kept."""
        if self.size is None:
            return max(1, round(float(self.share or 0) * n))
        if self.size > n:
            raise InputError(
                f"Subsample(size={self.size}) needs at least {self.size} records", n, "Ask for a smaller sample"
            )
        return self.size

    def steps(self, about: About, numbers: Array) -> list[Step]:
        kept = self.kept(about.n)
        return [SampleRows(kept=kept, rows=None if kept == about.n else Partition.sample(about.n, kept))]
