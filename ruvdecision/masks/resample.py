"""Replacing values by averages of bootstrap order statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..checks import check_integer, checked
from .applying import replace_keeping_integers
from .base import Mask
from .columnkinds import as_columns
from .frame import Frame
from .ordering import stable_order


@dataclass(frozen=True, repr=False)
class Resample(Mask):
    """Replace the value of each rank by the mean of that order statistic over bootstrap samples.

    Each column apart: draw ``times`` bootstrap samples of all n values and sort them; the i-th smallest value becomes
    the mean of their i-th smallest. Ranks are kept (equal values are ranked in the order of the file); with ``times=1``
    only original values come out. Heer (1993); Karr et al. (2006): Resamp(3) is ``Resample(times=3)``.

    Parameters
    ----------
    times : int, default 3
        Number of bootstrap samples.
    columns : names or positions, optional
        Numeric columns to resample, all of them if not given. Missing values are refused.

    >>> Resample(times=1).release([3.0, 1.0, 2.0], 3)
    array([3., 1., 1.])
    """

    times: int = checked(3, check_integer, low=1, high=1_000_000)
    columns: Any = checked(None, as_columns)

    opaque: ClassVar[str] = "each released value is a mean of order statistics of the whole file"

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        values, positions = frame.numeric("Resample", self.columns)
        n, values = frame.n, np.asfortranarray(values)
        out = np.empty_like(values)
        for j in range(values.shape[1]):
            order = stable_order(values[:, j])
            ranked = values[:, j][order]
            total = np.zeros(n)
            for _ in range(self.times):
                sample = ranked[rng.integers(0, n, size=n)]
                sample.sort()
                if self.times > 1:
                    # Distances from the smallest value keep a constant column as it is, to the last digit.
                    sample -= ranked[0]
                total += sample
            # Rounding must not carry a mean beyond the values that it is a mean of.
            out[order, j] = total if self.times == 1 else np.clip(ranked[0] + total / self.times, ranked[0], ranked[-1])
        # One sample gives original values back, so whole numbers stay whole numbers.
        return replace_keeping_integers(frame, out, positions) if self.times == 1 else frame.replace(out, positions)

    def settings(self) -> dict[str, Any]:
        """The number of bootstrap samples is always told."""
        return {"times": self.times, **({} if self.columns is None else {"columns": self.columns})}
