"""Changes by chance: noise that is added, noise whose size depends on the value, multiplication by a factor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...errors import InputError, UnsupportedError
from ...protocols import Array
from ..steps import NORMAL
from .base import ColumnLikelihood, Pair, evenly_spaced_points, midpoints, no_cuts
from .entries import Known
from .laws import EntryLaw, NoiseLaw, noise_law
from .mathematics import NUMPY, Mathematics, Values
from .noisy import TransitionDensity


@dataclass(frozen=True, repr=False, eq=False)
class AdditiveNoise(TransitionDensity):
    """y = x + noise."""

    per_entry = ("law",)

    additive = True

    law: NoiseLaw

    def log(self, y: Values, x: Values, math: Mathematics = NUMPY) -> Values:
        return self.law.log_density(y - x, math)

    def log_between(self, lower: Values, upper: Values, x: Values, math: Mathematics = NUMPY) -> Values:
        return self.law.log_between(lower - x, upper - x, math)

    def log_below(self, upper: Values, x: Values, math: Mathematics = NUMPY) -> Values:
        return self.law.log_below(upper - x, math)

    def log_above(self, lower: Values, x: Values, math: Mathematics = NUMPY) -> Values:
        return self.law.log_above(lower - x, math)

    def cuts(self, x: Values, math: Mathematics = NUMPY) -> list[Values]:
        return [x + row for row in self.law.cuts]

    @property
    def normal(self) -> Pair | None:
        return self.law.normal

    def followed_by(self, later: TransitionDensity) -> TransitionDensity | None:
        both = self.law.plus(later.law) if isinstance(later, AdditiveNoise) else None
        return None if both is None else AdditiveNoise(both)

    def window(self, y: Array, drop: float) -> Pair:
        least, most = self.law.window(drop)
        return y - most, y - least

    def cuts_at(self, y: Array) -> Array:
        return y[:, None] if self.law.kink else no_cuts(self.n)

    def panel_edges(self, y: Array) -> Array:
        return (y - self.law.cuts).T

    def scale(self, y: Array) -> Array:
        return self.law.scale


def value_with_normal_noise(centre: Array, sd: Array) -> ColumnLikelihood:
    """Values with normal noise."""
    return Known(centre).pulled_back(AdditiveNoise(noise_law(NORMAL, sd)))


@dataclass(frozen=True, repr=False, eq=False)
class HeteroscedasticNoise(TransitionDensity):
    """y = x + b s(x) e: the noise's sd depends on the value. ``unit`` is the law of e, of sd one; b is one per entry.

    ``size(x, math)`` gives s. Jumps of s are found on a grid, a twenty-fifth of the noise's sd apart near the released
    value and wider further out, and closed in to the last digit; two that lie closer together are missed.
    """

    per_entry = ("unit", "base")

    unit: NoiseLaw
    base: Array
    size: Callable[[Values, Mathematics], Values]

    def log(self, y: Values, x: Values, math: Mathematics = NUMPY) -> Values:
        s = self._sd_at(x, math)
        away = math.minimum(math.maximum((y - x) / s, -1e150), 1e150)
        return self.unit.log_density(away, math) - math.log(s)

    def _sd_at(self, x: Values, math: Mathematics) -> Values:
        return math.maximum(self.base * self.size(x, math), 1e-150)

    def log_between(self, lower: Values, upper: Values, x: Values, math: Mathematics = NUMPY) -> Values:
        s = self._sd_at(x, math)
        return self.unit.log_between((lower - x) / s, (upper - x) / s, math)

    def log_below(self, upper: Values, x: Values, math: Mathematics = NUMPY) -> Values:
        return self.unit.log_below((upper - x) / self._sd_at(x, math), math)

    def log_above(self, lower: Values, x: Values, math: Mathematics = NUMPY) -> Values:
        return self.unit.log_above((lower - x) / self._sd_at(x, math), math)

    def cuts(self, x: Values, math: Mathematics = NUMPY) -> list[Values]:
        s = self._sd_at(x, math)
        return [x + row * s for row in self.unit.cuts]

    def window(self, y: Array, drop: float) -> Pair:
        """Walk away from y until the noise there, and at twice the distance, is too small to reach back."""
        least, most = self.unit.window(drop + 10.0)
        far = np.maximum(-least, most)
        ends = []
        for side in (-1.0, 1.0):
            step = np.maximum(self._size_at(y) * far, np.abs(y) * 1e-12 + np.finfo(float).tiny)
            done = np.zeros(self.n, dtype=bool)
            for _ in range(60):
                # The noise must be too small at the end and everywhere seen beyond it.
                reached = np.max(
                    [self._size_at(y + side * step * m) * far / (step * m) for m in (1.0, 1.5, 2.0, 4.0, 16.0, 256.0)],
                    axis=0,
                )
                done = reached < 1.0
                if done.all():
                    break
                step = np.where(done, step, step * 2.0)
            ends.append(np.where(done, y + side * step, side * np.inf))
        return ends[0], ends[1]

    def _size_at(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            s = np.broadcast_to(np.asarray(self.size(x, NUMPY), dtype=np.float64), x.shape)
        if not np.all(s >= 0):
            raise InputError(
                "The size of the noise must be a number of at least 0 for every value",
                "another",
                "Take its absolute value",
            )
        return np.asarray(s * self.base)

    def cuts_at(self, y: Array) -> Array:
        found = self.cuts_between(*self.window(y, 40.0))
        return np.concatenate([found, y[:, None]], axis=1) if self.unit.kink else found

    def cuts_between(self, low: Array, high: Array) -> Array:
        y = midpoints(low, high)
        s = np.maximum(self._size_at(y), np.abs(y) * 1e-9 + np.finfo(float).tiny)[:, None]
        # Evenly near the middle, then at growing distances, as far as an endless window needs.
        near, far = np.linspace(-60.0, 60.0, 3001), np.geomspace(60.0, 1e12, 1000)
        offsets = np.concatenate([-far[::-1], near, far])
        grid = np.clip(y[:, None] + s * offsets, low[:, None], high[:, None])
        found = _jumps_on_grid(
            lambda x: np.asarray(np.broadcast_to(self.size(x, NUMPY), np.shape(x)), dtype=np.float64), grid
        )
        # Sizes are often made from |x|, which bends at zero.
        zero = np.where((low < 0) & (high > 0), 0.0, np.nan)[:, None]
        return np.concatenate([zero, found], axis=1)

    def panel_edges(self, y: Array) -> Array:
        s = self._size_at(y)
        steps = s[:, None] * 2.0 ** np.arange(-2, 40)
        near, far = (y - self.unit.cuts * s).T, [y[:, None] - steps, y[:, None] + steps]
        return np.concatenate([near, evenly_spaced_points(*self.window(y, 40.0), 25), *far], axis=1)

    def scale(self, y: Array) -> Array:
        return self._size_at(y) * self.unit.scale


def _jumps_on_grid(function: Callable[[Array], Array], grid: Array) -> Array:
    """Where a function jumps, row by row between neighbours of a grid; shape (n, m), padded with missing values.

    The half with the larger change is halved again: a jump need not change a sign, as roots of `numerics/` do.
    """
    values = function(grid)
    row, place = np.nonzero(np.abs(np.diff(values, axis=1)) > 1e-3 * np.maximum(values[:, 1:], values[:, :-1]))
    a, b = grid[row, place], grid[row, place + 1]
    fa, fb = values[row, place], values[row, place + 1]
    whole = np.abs(fb - fa)
    for _ in range(80):
        middle = a + (b - a) / 2
        fm = function(middle)
        first = np.abs(fm - fa) >= np.abs(fb - fm)
        a, fa = np.where(first, a, middle), np.where(first, fa, fm)
        b, fb = np.where(first, middle, b), np.where(first, fm, fb)
    # What remains of the change where the interval has shrunk to nothing is a jump; of a steep slope nothing remains.
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


@dataclass(frozen=True, repr=False, eq=False)
class RandomFactor(TransitionDensity):
    """y = x f with the law of the factor f; at x = 0 nothing but y = 0 is possible."""

    per_entry = ("law",)

    law: EntryLaw

    def log(self, y: Values, x: Values, math: Mathematics = NUMPY) -> Values:
        safe = math.where(x == 0, 1.0, x)
        # A factor of 1e150 is as impossible as a larger one, and its square is still a number.
        f = math.minimum(math.maximum(y / math.where(math.abs(safe) < 1e-150, 1e-150, safe), -1e150), 1e150)
        found = self.law.log_density(f, math) - math.log(math.abs(safe))
        return math.where(x == 0, -np.inf, found)

    def log_below(self, upper: Values, x: Values, math: Mathematics = NUMPY) -> Values:
        f = upper / math.where(x == 0, 1.0, x)
        found = math.where(x > 0, self.law.log_below(f, math), self.law.log_above(f, math))
        return math.where(x == 0, np.where(upper >= 0, 0.0, -np.inf), found)

    def log_above(self, lower: Values, x: Values, math: Mathematics = NUMPY) -> Values:
        f = lower / math.where(x == 0, 1.0, x)
        found = math.where(x > 0, self.law.log_above(f, math), self.law.log_below(f, math))
        return math.where(x == 0, np.where(lower <= 0, 0.0, -np.inf), found)

    def log_between(self, lower: Values, upper: Values, x: Values, math: Mathematics = NUMPY) -> Values:
        safe = math.where(x == 0, 1.0, x)
        a, b = math.where(x > 0, lower, upper) / safe, math.where(x > 0, upper, lower) / safe
        inside = np.where((lower <= 0) & (upper >= 0), 0.0, -np.inf)
        return math.where(x == 0, inside, self.law.log_between(a, b, math))

    def cuts(self, x: Values, math: Mathematics = NUMPY) -> list[Values]:
        return [x * row for row in self.law.cuts]

    def _preimage_range(self, y: Array, factors: Pair) -> Pair:
        """Least and largest x from which y can come by factors between two ends; any if they may be negative."""
        with np.errstate(divide="ignore", invalid="ignore"):
            one, other = (np.where(y == 0, 0.0, y / f) for f in factors)
        either = factors[0] < 0
        return np.where(either, -np.inf, np.minimum(one, other)), np.where(either, np.inf, np.maximum(one, other))

    def support_bounds(self, y: Array) -> Pair:
        return self._preimage_range(y, self.law.bounds)

    def window(self, y: Array, drop: float) -> Pair:
        # Dividing by |x| moves the largest value a little: ten more are enough.
        return self._preimage_range(y, self.law.window(drop + 10.0))

    def _origins_by_factor(self, y: Array, factors: Array) -> Array:
        """The x from which y comes by each of these factors, shape (n, m)."""
        return y[:, None] / np.where(factors == 0, np.nan, factors).T

    def cuts_at(self, y: Array) -> Array:
        # Only a released zero comes from zero: on either side the density of the factor is another.
        return np.concatenate([np.zeros((self.n, 1)), self._origins_by_factor(y, self.law.jumps)], axis=1)

    def cuts_between(self, low: Array, high: Array) -> Array:
        return np.zeros((self.n, 1))

    def panel_edges(self, y: Array) -> Array:
        far = np.abs(y)[:, None] * 2.0 ** np.arange(0, 45)
        return np.concatenate([self._origins_by_factor(y, self.law.cuts), far, -far], axis=1)

    def scale(self, y: Array) -> Array:
        least, most = self.law.window(0.5)
        return np.maximum(np.abs(y) * (most - least) / 2, np.finfo(float).tiny)
