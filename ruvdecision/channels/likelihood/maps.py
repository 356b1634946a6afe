"""Masks that are functions y = g(x), increasing step by step: clipping and rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InputError, UnsupportedError
from ...protocols import Array
from ..steps import TOLERANCE
from .base import Cuts, Observation
from .ends import middle_of
from .mathematics import NUMPY
from .simple import Between, Known, split

MOST_JUMPS = 2000


class Map:
    """A function that never decreases, for each of n entries."""

    n: int

    def value(self, x: Any, math: Any = NUMPY) -> Any:
        """g(x)."""
        raise NotImplementedError

    def preimage(self, values: Any) -> Observation:
        """What is known about x if g(x) is known."""
        raise NotImplementedError

    def preimage_between(self, interval: Between) -> Observation:
        """What is known about x if g(x) lies in an interval."""
        raise NotImplementedError

    def pull(self, later: Observation) -> Observation:
        """What is known about x if something else is known about g(x)."""
        return Mapped(later, self)

    def around(self, y: Array) -> tuple[Array, Array]:
        """The nearest values of g at or below y, and at or above it."""
        raise NotImplementedError

    def bends(self, low: Array, high: Array) -> Cuts:
        """Where g jumps or has a kink between two finite ends."""
        raise NotImplementedError

    def take(self, rows: Any) -> Map:
        """The same for some entries."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False, eq=False)
class ClipMap(Map):
    """Values beyond a bound are set to it; bounds may be infinite.

    >>> ClipMap(np.array([0.0]), np.array([np.inf])).preimage(np.array([0.0])).high
    array([0.])
    """

    lower: Any
    upper: Any

    @property
    def n(self) -> int:  # type: ignore[override]
        return len(self.lower)

    def value(self, x: Any, math: Any = NUMPY) -> Any:
        # Infinite bounds are left out: they do nothing, and a gradient would see them.
        for chosen, bound, cut in (
            (np.isfinite(self.lower), self.lower, math.maximum),
            (np.isfinite(self.upper), self.upper, math.minimum),
        ):
            if chosen.all():
                x = cut(x, bound)
            elif chosen.any():
                x = math.where(chosen, cut(x, np.where(chosen, bound, 0.0)), x)
        return x

    def preimage(self, values: Any) -> Observation:
        if np.any((values < self.lower) | (values > self.upper)):
            raise not_from("values beyond its bounds")
        below, above = values == self.lower, values == self.upper

        def tail(rows: Any) -> Observation:
            low, high = np.where(below[rows], -np.inf, values[rows]), np.where(above[rows], np.inf, values[rows])
            return Between(low, high)

        return split(self.n, [(~below & ~above, lambda rows: Known(values[rows])), (below | above, tail)])

    def preimage_between(self, interval: Between) -> Observation:
        if np.any((interval.lower > self.upper) | (interval.upper < self.lower)):
            raise not_from("intervals beyond its bounds")
        low_in = (interval.lower < self.lower) | ((interval.lower == self.lower) & interval.closed_low)
        high_in = (interval.upper > self.upper) | ((interval.upper == self.upper) & interval.closed_high)
        return Between(
            np.where(low_in, -np.inf, interval.lower),
            np.where(high_in, np.inf, interval.upper),
            interval.closed_low,
            interval.closed_high,
        )

    def around(self, y: Array) -> tuple[Array, Array]:
        near = np.clip(y, self.lower, self.upper)
        return near, near

    def bends(self, low: Array, high: Array) -> Cuts:
        both = np.stack([self.lower, self.upper], axis=1)
        return Cuts.at_kinks(np.where(np.isfinite(both), both, np.nan))

    def take(self, rows: Any) -> ClipMap:
        return ClipMap(self.lower[rows], self.upper[rows])


@dataclass(frozen=True, repr=False, eq=False)
class Multiples(Map):
    """Values go to the nearest multiple of a base, halfway ones to the even multiple.

    >>> Multiples(np.array([5.0])).preimage(np.array([10.0])).low
    array([7.5])
    """

    base: Any

    @property
    def n(self) -> int:  # type: ignore[override]
        return len(self.base)

    def value(self, x: Any, math: Any = NUMPY) -> Any:
        return math.rint(x / self.base) * self.base

    def counts(self, values: Any) -> Array:
        """Of how many bases each value is the multiple."""
        ratio = values / self.base
        count = np.rint(ratio)
        if np.any(np.abs(ratio - count) > TOLERANCE * np.maximum(np.abs(count), 1.0)):
            raise not_from("values that are no multiples of its base")
        return np.asarray(count)

    def preimage(self, values: Any) -> Observation:
        count = self.counts(values)
        even = count % 2 == 0
        return Between((count - 0.5) * self.base, (count + 0.5) * self.base, even, even)

    def preimage_between(self, interval: Between) -> Observation:
        least, most = _near_whole(interval.lower / self.base), _near_whole(interval.upper / self.base)
        first = np.ceil(least) + ((least == np.ceil(least)) & ~interval.closed_low)
        last = np.floor(most) - ((most == np.floor(most)) & ~interval.closed_high)
        if np.any(first > last):
            raise not_from("intervals without a multiple of its base")
        with np.errstate(invalid="ignore"):
            return Between((first - 0.5) * self.base, (last + 0.5) * self.base, first % 2 == 0, last % 2 == 0)

    def around(self, y: Array) -> tuple[Array, Array]:
        return np.floor(y / self.base) * self.base, np.ceil(y / self.base) * self.base

    def bends(self, low: Array, high: Array) -> Cuts:
        return Cuts.at_jumps(grid_between(self.base, low, high, 0.5))

    def take(self, rows: Any) -> Multiples:
        return Multiples(self.base[rows])


@dataclass(frozen=True, repr=False, eq=False)
class Mapped(Observation):
    """p(released | g(x)): a later observation of g(x), seen from x."""

    later: Observation
    function: Map

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.later.n

    def log(self, x: Any, math: Any = NUMPY) -> Any:
        return self.later.log(self.function.value(math.asarray(x) + np.zeros(self.n), math), math)

    @property
    def cost(self) -> int:
        return self.later.cost

    def take(self, rows: Any) -> Mapped:
        return Mapped(self.later.take(rows), self.function.take(rows))

    def _back(self, low: Array, high: Array) -> tuple[Array, Array]:
        """The x whose g(x) lies between these, or is the nearest to them that g can give."""
        below, above = self.function.around(middle_of(low, high))
        found = self.function.preimage_between(Between(np.minimum(low, below), np.maximum(high, above)))
        return found.low, found.high

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
        return Cuts.joined([self.later.cuts, self.function.bends(*self.window())])

    @property
    def grades(self) -> Array:
        return self.later.grades

    @property
    def scale(self) -> Array:
        return self.later.scale


def grid_between(base: Array, low: Array, high: Array, offset: float) -> Array:
    """Multiples of a base, shifted by a share of it, strictly between two finite ends.

    Shape (n, m), padded with missing values.
    """
    with np.errstate(invalid="ignore"):
        first, last = np.floor(low / base - offset) + 1, np.ceil(high / base - offset) - 1
    count = np.where(np.isfinite(last - first), np.maximum(last - first + 1, 0), np.inf)
    if np.any(count > MOST_JUMPS):
        raise UnsupportedError(
            f"A rounded value seen through wide noise has more than {MOST_JUMPS} steps",
            do="Put Noise before Round, or round to a larger base",
        )
    steps = np.arange(int(count.max(initial=0)))
    return np.where(steps < count[:, None], (first[:, None] + steps + offset) * base[:, None], np.nan)


def not_from(what: str) -> InputError:
    """The error for a release that a mask cannot have made; it never shows the values."""
    return InputError(
        "The mask cannot have made this release",
        what,
        "Give the release as mask.release returned it, with the same mask",
    )


def _near_whole(ratio: Array) -> Array:
    """0.3 / 0.1 is not 3 in binary, yet 0.3 is a multiple of 0.1."""
    with np.errstate(invalid="ignore"):
        whole = np.rint(ratio)
        return np.where(np.abs(ratio - whole) <= TOLERANCE * np.maximum(np.abs(whole), 1.0), whole, ratio)
