"""Masks as densities p(y | x) of one released number given one original."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InputError, UnsupportedError
from ...protocols import Array
from .base import Cuts
from .ends import middle_of
from .laws import Law
from .mathematics import NUMPY


class Kernel:
    """A density p(y | x) for each of n entries."""

    n: int

    def log(self, y: Any, x: Any, math: Any = NUMPY) -> Any:
        """Log density of ``y`` given ``x``; both broadcast to (..., n)."""
        raise NotImplementedError

    def log_between(self, lower: Any, upper: Any, x: Any, math: Any = NUMPY) -> Any:
        """Log probability that y lies between two finite numbers."""
        raise NotImplementedError

    def log_below(self, upper: Any, x: Any, math: Any = NUMPY) -> Any:
        """Log probability that y is at most a finite number."""
        raise NotImplementedError

    def log_above(self, lower: Any, x: Any, math: Any = NUMPY) -> Any:
        """Log probability that y is at least a finite number."""
        raise NotImplementedError

    def cuts(self, x: Any, math: Any = NUMPY) -> list[Any]:
        """Values of y that cut p(y | x) into smooth panels, each of shape (..., n).

        The outermost hold nearly all of it.
        """
        raise NotImplementedError

    def take(self, rows: Any) -> Kernel:
        """The same for some entries."""
        raise NotImplementedError

    # What a value y, or an end of an interval for y, says about x. All of shape (n,) or (n, m).

    def low(self, y: Array) -> Array:
        """Least x from which ``y`` can come."""
        return np.full(self.n, -np.inf)

    def high(self, y: Array) -> Array:
        """Largest x from which ``y`` can come."""
        return np.full(self.n, np.inf)

    def window(self, y: Array, drop: float) -> tuple[Array, Array]:
        """Where p(y | x) is within ``drop`` of its largest value over x, or a little more."""
        raise NotImplementedError

    def breaks(self, y: Array) -> Cuts:
        """Values of x where p(y | x) is not smooth."""
        return Cuts.none(self.n)

    def bends(self, low: Array, high: Array) -> Cuts:
        """Values of x between two ends where p(y | x) is not smooth whatever y is."""
        return Cuts.none(self.n)

    def grades(self, y: Array) -> Array:
        """Values of x that cut p(y | x), as a function of x, into smooth panels."""
        raise NotImplementedError

    def scale(self, y: Array) -> Array:
        """Length in x over which p(y | x) changes."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False, eq=False)
class Location(Kernel):
    """y = x + noise."""

    law: Law

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.law.n

    def log(self, y: Any, x: Any, math: Any = NUMPY) -> Any:
        return self.law.log_density(y - x, math)

    def log_between(self, lower: Any, upper: Any, x: Any, math: Any = NUMPY) -> Any:
        return self.law.log_between(lower - x, upper - x, math)

    def log_below(self, upper: Any, x: Any, math: Any = NUMPY) -> Any:
        return self.law.log_below(upper - x, math)

    def log_above(self, lower: Any, x: Any, math: Any = NUMPY) -> Any:
        return self.law.log_above(lower - x, math)

    def cuts(self, x: Any, math: Any = NUMPY) -> list[Any]:
        return [x + row for row in self.law.cuts]

    def take(self, rows: Any) -> Location:
        return Location(self.law.take(rows))

    def window(self, y: Array, drop: float) -> tuple[Array, Array]:
        least, most = self.law.reach(drop)
        return y - most, y - least

    def breaks(self, y: Array) -> Cuts:
        return Cuts.at_kinks(y[:, None]) if self.law.kink else Cuts.none(self.n)

    def grades(self, y: Array) -> Array:
        return (y - self.law.cuts).T

    def scale(self, y: Array) -> Array:
        return self.law.spread


@dataclass(frozen=True, repr=False, eq=False)
class Sized(Kernel):
    """y = x + b s(x) e: the noise's sd depends on the value. ``unit`` is the law of e, of sd one; b is one per entry.

    ``size(x, math)`` gives s. Jumps of s are found on a grid, a twenty-fifth of the noise's sd apart near the released
    value and wider further out, and closed in to the last digit; two that lie closer together are missed.
    """

    unit: Law
    base: Any
    size: Callable[..., Any]

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.unit.n

    def log(self, y: Any, x: Any, math: Any = NUMPY) -> Any:
        s = self._sd(x, math)
        away = math.minimum(math.maximum((y - x) / s, -1e150), 1e150)
        return self.unit.log_density(away, math) - math.log(s)

    def _sd(self, x: Any, math: Any) -> Any:
        return math.maximum(self.base * self.size(x, math), 1e-150)

    def log_between(self, lower: Any, upper: Any, x: Any, math: Any = NUMPY) -> Any:
        s = self._sd(x, math)
        return self.unit.log_between((lower - x) / s, (upper - x) / s, math)

    def log_below(self, upper: Any, x: Any, math: Any = NUMPY) -> Any:
        return self.unit.log_below((upper - x) / self._sd(x, math), math)

    def log_above(self, lower: Any, x: Any, math: Any = NUMPY) -> Any:
        return self.unit.log_above((lower - x) / self._sd(x, math), math)

    def cuts(self, x: Any, math: Any = NUMPY) -> list[Any]:
        s = self._sd(x, math)
        return [x + row * s for row in self.unit.cuts]

    def take(self, rows: Any) -> Sized:
        return Sized(self.unit.take(rows), self.base[rows], self.size)

    def window(self, y: Array, drop: float) -> tuple[Array, Array]:
        """Walk away from y until the noise there, and at twice the distance, is too small to reach back."""
        least, most = self.unit.reach(drop + 10.0)
        far = np.maximum(-least, most)
        ends = []
        for side in (-1.0, 1.0):
            step = np.maximum(self._plain(y) * far, np.abs(y) * 1e-12 + np.finfo(float).tiny)
            done = np.zeros(self.n, dtype=bool)
            for _ in range(60):
                # The noise must be too small at the end and everywhere seen beyond it.
                reached = np.max(
                    [self._plain(y + side * step * m) * far / (step * m) for m in (1.0, 1.5, 2.0, 4.0, 16.0, 256.0)],
                    axis=0,
                )
                done = reached < 1.0
                if done.all():
                    break
                step = np.where(done, step, step * 2.0)
            ends.append(np.where(done, y + side * step, side * np.inf))
        return ends[0], ends[1]

    def _plain(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            s = np.broadcast_to(np.asarray(self.size(x, NUMPY), dtype=np.float64), x.shape)
        if not np.all(s >= 0):
            raise InputError(
                "The size of the noise must be a number of at least 0 for every value",
                "another",
                "Take its absolute value",
            )
        return np.asarray(s * self.base)

    def breaks(self, y: Array) -> Cuts:
        found = self.bends(*self.window(y, 40.0))
        return Cuts.joined([found, Cuts.at_kinks(y[:, None])]) if self.unit.kink else found

    def bends(self, low: Array, high: Array) -> Cuts:
        y = middle_of(low, high)
        s = np.maximum(self._plain(y), np.abs(y) * 1e-9 + np.finfo(float).tiny)[:, None]
        # Evenly near the middle, then at growing distances, as far as an endless window needs.
        near, far = np.linspace(-60.0, 60.0, 3001), np.geomspace(60.0, 1e12, 1000)
        offsets = np.concatenate([-far[::-1], near, far])
        grid = np.clip(y[:, None] + s * offsets, low[:, None], high[:, None])
        found = _jumps(lambda x: np.asarray(np.broadcast_to(self.size(x, NUMPY), np.shape(x)), dtype=np.float64), grid)
        # Sizes are often made from |x|, which bends at zero.
        zero = Cuts.at_kinks(np.where((low < 0) & (high > 0), 0.0, np.nan)[:, None])
        return Cuts.joined([zero, Cuts.at_jumps(found)])

    def grades(self, y: Array) -> Array:
        s = self._plain(y)
        near = (y - self.unit.cuts * s).T
        low, high = self.window(y, 40.0)
        share = np.linspace(0, 1, 25)
        with np.errstate(invalid="ignore"):
            even = low[:, None] + (high - low)[:, None] * share
        steps = 2.0 ** np.arange(-2, 40)
        far = np.concatenate([y[:, None] - s[:, None] * steps, y[:, None] + s[:, None] * steps], axis=1)
        return np.concatenate([near, np.where(np.isfinite(even), even, np.nan), far], axis=1)

    def scale(self, y: Array) -> Array:
        return self._plain(y) * self.unit.spread


def _jumps(function: Callable[[Array], Array], grid: Array) -> Array:
    """Where a function jumps, row by row between neighbours of a grid; shape (n, m), padded with missing values."""
    values = function(grid)
    row, place = np.nonzero(np.abs(np.diff(values, axis=1)) > 1e-3 * np.maximum(values[:, 1:], values[:, :-1]))
    a, b = grid[row, place], grid[row, place + 1]
    fa, fb = values[row, place], values[row, place + 1]
    whole = np.abs(fb - fa)
    for _ in range(80):
        middle = a + (b - a) / 2
        fm = function(middle)
        left = np.abs(fm - fa) >= np.abs(fb - fm)
        a, fa = np.where(left, a, middle), np.where(left, fa, fm)
        b, fb = np.where(left, middle, b), np.where(left, fm, fb)
    # What is left of the change where the interval has shrunk to nothing is a jump; a steep slope has none left.
    jump = np.abs(fb - fa) > 0.3 * whole
    row, at = row[jump], b[jump]
    out = np.full((len(grid), int(np.bincount(row, minlength=1).max()) if len(row) else 0), np.nan)
    for i in np.unique(row):
        out[i, : np.sum(row == i)] = at[row == i]
    return out


def refuse_no_noise(name: str) -> UnsupportedError:
    """The error for noise that is nothing for some values only."""
    return UnsupportedError(
        f"{name} is 0 for some values and not for others: a released value may then be the record itself or a noisy "
        "one",
        do="Let the size be above 0 for every value",
    )
