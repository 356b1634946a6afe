"""A later observation seen through a density p(y | x), by integrating over y."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...protocols import Array
from .base import Cuts, Observation
from .ends import middle_of
from .kernel import Kernel, Location
from .laws import Law
from .mathematics import LEGENDRE, NUMPY, TINY, legendre_for, logsumexp

MOST_COST = 50_000


@dataclass(frozen=True, repr=False, eq=False)
class Convolved(Observation):
    """p(released | x) as the integral of p(released | y) p(y | x) over y.

    Gauss-Legendre panels are cut where either factor bends, and graded around both, so they move with x; the error is
    that of sixteen points on a panel of a smooth function, near the last digit. Right within 40 of the largest log
    likelihood; further out it may be too small.
    """

    later: Observation
    kernel: Kernel

    def __post_init__(self) -> None:
        if self.cost > MOST_COST:
            raise UnsupportedError(
                "A chain of several kinds of noise, or of noise and many steps, takes too many sums to compose",
                do="Use normal noise for all but one of the steps, or put Noise before Round",
            )

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.later.n

    def log(self, x: Any, math: Any = NUMPY) -> Any:
        x = math.asarray(x) + np.zeros(self.n)
        low, high = self.later.window()
        own = self.kernel.cuts(x, math)
        # A later observation that never falls is cut off where the density p(y | x) ends.
        least = (
            low
            if np.isfinite(low).all()
            else math.where(np.isfinite(low), np.where(np.isfinite(low), low, 0.0), _least(own, math))
        )
        most = (
            high
            if np.isfinite(high).all()
            else math.where(np.isfinite(high), np.where(np.isfinite(high), high, 0.0), _most(own, math))
        )
        fixed = np.concatenate([self.later.cuts.places, self.later.grades], axis=1).T
        zero = math.zeros_like(x)
        cuts = [
            *own,
            *(math.where(np.isfinite(row), np.where(np.isfinite(row), row, 0.0), zero + least) for row in fixed),
            zero + least,
            zero + most,
        ]
        edges = math.sort(math.stack([math.minimum(math.maximum(c, least), most) for c in cuts], axis=0), axis=0)
        half, middle = (edges[1:] - edges[:-1]) / 2, (edges[1:] + edges[:-1]) / 2
        node, weight = legendre_for(half)
        y = middle + half * node
        terms = (
            np.log(weight) + math.log(math.maximum(half, TINY)) + self.kernel.log(y, x, math) + self.later.log(y, math)
        )
        return logsumexp(logsumexp(terms, math), math)

    @property
    def cost(self) -> int:
        panels = (
            len(self.kernel.cuts(np.zeros(self.n))) + self.later.cuts.places.shape[1] + self.later.grades.shape[1] + 1
        )
        return len(LEGENDRE[0]) * panels * self.later.cost

    def before_noise(self, law: Law) -> Observation:
        if isinstance(self.kernel, Location):
            both = law.plus(self.kernel.law)
            if both is not None:
                return Convolved(self.later, Location(both))
            # Independent noises may be added in any order: the later one may take this one up.
            inner = self.later.before_noise(law)
            if not isinstance(inner, Convolved):
                return Convolved(inner, self.kernel)
        return super().before_noise(law)

    def take(self, rows: Any) -> Convolved:
        return Convolved(self.later.take(rows), self.kernel.take(rows))

    @property
    def low(self) -> Array:
        return self._hull(self.kernel.low, self.later.low, self.later.high)[0]

    @property
    def high(self) -> Array:
        return self._hull(self.kernel.high, self.later.low, self.later.high)[1]

    def _hull(self, end: Any, low: Array, high: Array) -> tuple[Array, Array]:
        """Ends over all y between two: those of the ends themselves, for kernels that move with y."""
        with np.errstate(invalid="ignore"):
            at_low = np.where(np.isfinite(low), end(np.where(np.isfinite(low), low, 0.0)), -np.inf)
            at_high = np.where(np.isfinite(high), end(np.where(np.isfinite(high), high, 0.0)), np.inf)
            return np.where(np.isfinite(low), np.minimum(at_low, at_high), -np.inf), np.where(
                np.isfinite(high), np.maximum(at_low, at_high), np.inf
            )

    def window(self, drop: float = 40.0) -> tuple[Array, Array]:
        low, high = self.later.window(drop)
        starts = self.kernel.window(np.where(np.isfinite(low), low, 0.0), drop)
        ends = self.kernel.window(np.where(np.isfinite(high), high, 0.0), drop)
        least = np.where(np.isfinite(low), np.minimum(starts[0], np.where(np.isfinite(high), ends[0], np.inf)), -np.inf)
        most = np.where(np.isfinite(high), np.maximum(ends[1], np.where(np.isfinite(low), starts[1], -np.inf)), np.inf)
        return np.maximum(least, self.low), np.minimum(most, self.high)

    @property
    def grades(self) -> Array:
        # Where the later observation has its kinks, and around those: the density smooths them over its own length.
        fixed = np.concatenate([self.later.cuts.places, self.later.grades], axis=1)
        around = [self.kernel.grades(np.where(np.isfinite(row), row, 0.0)) for row in self.later.cuts.places.T]
        around = [
            np.where(np.isfinite(row)[:, None], grid, np.nan)
            for row, grid in zip(self.later.cuts.places.T, around, strict=True)
        ]
        low, high = self.window()
        with np.errstate(invalid="ignore"):
            even = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, 33)
        return np.concatenate([fixed, np.where(np.isfinite(even), even, np.nan), *around], axis=1)

    @property
    def cuts(self) -> Cuts:
        # A kink of one factor is smoothed by the other, except where both have one; a jump of both leaves a kink.
        rows = self.later.cuts.places.T
        found = [self.kernel.breaks(np.where(np.isfinite(row), row, 0.0)).places for row in rows]
        kept = [np.where(np.isfinite(row)[:, None], f, np.nan) for row, f in zip(rows, found, strict=True)]
        return Cuts.joined([self.kernel.bends(*self.window()), *(Cuts.at_kinks(f) for f in kept)])

    @property
    def scale(self) -> Array:
        low, high = self.later.window()
        return np.hypot(self.later.scale, self.kernel.scale(middle_of(low, high)))


def _least(rows: list[Any], math: Any) -> Any:
    least = rows[0]
    for row in rows[1:]:
        least = math.minimum(least, row)
    return least


def _most(rows: list[Any], math: Any) -> Any:
    most = rows[0]
    for row in rows[1:]:
        most = math.maximum(most, row)
    return most
