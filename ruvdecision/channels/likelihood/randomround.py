"""Rounding up or down at random, so that values are kept in expectation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from ...protocols import Array
from .base import Cuts, Observation
from .ends import middle_of
from .maps import Multiples, grid_between
from .mathematics import NUMPY, TINY
from .simple import Known


@dataclass(frozen=True, repr=False, eq=False)
class RandomMultiple(Observation):
    """y is the multiple of the base below x or above it, at random with mean x; y is observed as ``later`` says.

    A known multiple makes a tent: probability 1 - |x - y| / base.

    >>> np.exp(RandomMultiple(Known([10.0]), np.array([5.0])).log([[9.0], [10.0], [16.0]])).ravel().round(6)
    array([0.8, 1. , 0. ])
    """

    later: Observation
    base: Any

    @classmethod
    def of(cls, later: Observation, base: Array) -> Observation:
        """The observation, or ``later`` if it is uninformative; known multiples are put exactly in their place."""
        if np.all(later.uninformative):
            return later
        if not np.isnan(later.known).any():
            later = Known(Multiples(base).counts(later.known) * base)
        return cls(later, base)

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.later.n

    def log(self, x: Any, math: Any = NUMPY) -> Any:
        x = math.asarray(x) + np.zeros(self.n)
        known = self.later.known
        if not np.isnan(known).any():
            away = math.abs(x - known) / self.base
            return math.where(away < 1.0, math.log(math.maximum(1.0 - away, TINY)), -np.inf)
        ratio = x / self.base
        below = math.floor(ratio)
        up = ratio - below
        low, high = self.later.log(below * self.base, math), self.later.log((below + 1.0) * self.base, math)
        # Finite stand-ins for -inf keep gradients finite; what they add is nothing.
        low, high = math.maximum(low, -1e300), math.maximum(high, -1e300)
        found = math.logaddexp(math.log(math.maximum(1.0 - up, TINY)) + low, math.log(math.maximum(up, TINY)) + high)
        return math.where(found > np.array(-1e299), found, -np.inf)

    @property
    def cost(self) -> int:
        return self.later.cost

    def take(self, rows: Any) -> RandomMultiple:
        return RandomMultiple(self.later.take(rows), self.base[rows])

    def _back(self, low: Array, high: Array) -> tuple[Array, Array]:
        below, above = Multiples(self.base).around(middle_of(low, high))
        low, high = np.minimum(low, below), np.maximum(high, above)
        # Only multiples inside count, and each is reached from less than one base away.
        first, last = np.ceil(low / self.base - 1e-9), np.floor(high / self.base + 1e-9)
        return (first - 1) * self.base, (last + 1) * self.base

    @property
    def low(self) -> Array:
        return self._back(self.later.low, self.later.high)[0]

    @property
    def high(self) -> Array:
        return self._back(self.later.low, self.later.high)[1]

    def window(self, drop: float = 40.0) -> tuple[Array, Array]:
        return self._back(*self.later.window(drop))

    @property
    def cuts(self) -> Cuts:
        return Cuts.at_kinks(grid_between(self.base, *self.window(), 0.0))

    @property
    def scale(self) -> Array:
        return np.maximum(self.later.scale, self.base)


def log_chance_on_normal(gap: Array, sd: float, base: float) -> Array:
    """Log chance that a normal value ``gap`` below a multiple is rounded to it: E max(1 - |x - y| / base, 0)."""
    if sd < 1e-9 * base:
        return np.asarray(np.log(np.maximum(1.0 - np.abs(gap) / base, 0.0)))
    # The law is symmetric about zero; on the left the three terms are small and keep their digits.
    t = -np.abs(gap)
    part = lambda a: a * special.ndtr(a / sd) + sd * np.exp(-0.5 * (a / sd) ** 2) / np.sqrt(2 * np.pi)  # noqa: E731
    return np.asarray(np.log(np.maximum(part(t + base) - 2 * part(t) + part(t - base), 0.0) / base))
