"""Entries whose released number, an interval around it, or what was made of it later, was drawn from a density."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from ...errors import UnsupportedError
from ...protocols import Array
from .base import (
    Change,
    ColumnLikelihood,
    Ints,
    Pair,
    evenly_spaced_points,
    midpoints,
    no_cuts,
    numbers_of,
    unbounded_ends,
)
from .entries import Between, Uninformative, nothing_observed, observe_by_case
from .mathematics import LEGENDRE, LOG_ROOT_2PI, NUMPY, TINY, Mathematics, Values, legendre_for, logsumexp

MOST_COST = 50_000


class TransitionDensity(Change):
    """A change by chance: a density p(y | x) for each of n entries."""

    def log(self, y: Values, x: Values, math: Mathematics = NUMPY) -> Values:
        """Log density of ``y`` given ``x``; both broadcast to (..., n)."""
        raise NotImplementedError

    def log_between(self, lower: Values, upper: Values, x: Values, math: Mathematics = NUMPY) -> Values:
        """Log probability that y lies between two finite numbers."""
        raise NotImplementedError

    def log_below(self, upper: Values, x: Values, math: Mathematics = NUMPY) -> Values:
        """Log probability that y is at most a finite number."""
        raise NotImplementedError

    def log_above(self, lower: Values, x: Values, math: Mathematics = NUMPY) -> Values:
        """Log probability that y is at least a finite number."""
        raise NotImplementedError

    def cuts(self, x: Values, math: Mathematics = NUMPY) -> list[Values]:
        """Values of y that cut p(y | x) into smooth panels, each of shape (..., n).

        The outermost hold nearly all of it.
        """
        raise NotImplementedError

    @property
    def normal(self) -> Pair | None:
        """Mean and variance of y - x if it is normal, else None."""
        return None

    # What a value y, or an end of an interval for y, says about x. All of shape (n,) or (n, m).

    def support_bounds(self, y: Array) -> Pair:
        """Least and largest x from which ``y`` can come."""
        return unbounded_ends(self.n)

    def window(self, y: Array, drop: float) -> Pair:
        """Where p(y | x) is within ``drop`` of its largest value over x, or a little more."""
        raise NotImplementedError

    def cuts_at(self, y: Array) -> Array:
        """Values of x where p(y | x) is not smooth."""
        raise NotImplementedError

    def cuts_between(self, low: Array, high: Array) -> Array:
        """Values of x between two ends where p(y | x) is not smooth whatever y is."""
        return no_cuts(self.n)

    def panel_edges(self, y: Array) -> Array:
        """Values of x that cut p(y | x), as a function of x, into smooth panels."""
        raise NotImplementedError

    def scale(self, y: Array) -> Array:
        """Length in x over which p(y | x) changes."""
        raise NotImplementedError

    # What is known before the change.

    def likelihood_from_value(self, values: NDArray[np.float64]) -> ColumnLikelihood:
        return NoisyValue(self, numbers_of(values))

    def likelihood_from_interval(self, interval: Between) -> ColumnLikelihood:
        below, above = np.isneginf(interval.lower), np.isposinf(interval.upper)

        def make(rows: Ints) -> ColumnLikelihood:
            return NoisyInterval(self.take(rows), interval.take(rows))

        cases = [(below & ~above, make), (above & ~below, make), (~below & ~above, make)]
        return observe_by_case(interval.n, [(below & above, nothing_observed), *cases])

    def likelihood_from_observation(self, later: ColumnLikelihood) -> ColumnLikelihood:
        if later.support is None:
            return Convolved(self, later)
        if np.all(later.uninformative):
            return Uninformative(later.n)
        raise UnsupportedError(
            "Noise before a mask for categories has no likelihood: noisy numbers are no categories",
            do="Use Recode(bins=...) between them, or PRAM alone",
        )


@dataclass(frozen=True, repr=False, eq=False)
class _Noisy(ColumnLikelihood):
    """A change by chance, and what is known after it."""

    kernel: TransitionDensity

    def pulled_back(self, change: Change) -> ColumnLikelihood:
        both = change.followed_by(self.kernel)
        return change.likelihood_from_observation(self) if both is None else replace(self, kernel=both)


@dataclass(frozen=True, repr=False, eq=False)
class NoisyValue(_Noisy):
    """Every entry's released number was drawn from a density p(y | x)."""

    per_entry = ("kernel", "values")

    values: Array

    def log(self, x: Values, math: Mathematics = NUMPY) -> Values:
        if self.normal is None:
            return self.kernel.log(self.values, math.asarray(x), math)
        # The common case, in as few passes over the numbers as can be.
        centre, sd = self.normal[0], np.sqrt(self.normal[1])
        return -0.5 * ((math.asarray(x) - centre) / sd) ** 2 - (np.log(sd) + LOG_ROOT_2PI)

    @cached_property
    def normal(self) -> Pair | None:
        law = self.kernel.normal
        return None if law is None else (self.values - law[0], law[1])

    @property
    def support_bounds(self) -> Pair:
        return self.kernel.support_bounds(self.values)

    @property
    def cuts(self) -> Array:
        return self.kernel.cuts_at(self.values)

    @property
    def panel_edges(self) -> Array:
        if self.normal is None:
            return self.kernel.panel_edges(self.values)
        centre, variance = self.normal
        return centre[:, None] + np.sqrt(variance)[:, None] * np.array([-6.0, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6])

    def window(self, drop: float = 40.0) -> Pair:
        return _clip_window(self.kernel.window(self.values, drop), self.support_bounds)

    @property
    def scale(self) -> Array:
        return self.kernel.scale(self.values)


@dataclass(frozen=True, repr=False, eq=False)
class NoisyInterval(_Noisy):
    """A number drawn from p(y | x) lies in an interval; all entries have the same ends at infinity, at most one."""

    per_entry = ("kernel", "interval")

    interval: Between

    def log(self, x: Values, math: Mathematics = NUMPY) -> Values:
        x = math.asarray(x) + np.zeros(self.n)
        if np.isneginf(self.interval.lower[0]):
            return self.kernel.log_below(self.interval.upper, x, math)
        if np.isposinf(self.interval.upper[0]):
            return self.kernel.log_above(self.interval.lower, x, math)
        return self.kernel.log_between(self.interval.lower, self.interval.upper, x, math)

    @property
    def _finite_ends(self) -> list[Array]:
        return [end for end in self.interval.support_bounds if np.isfinite(end).all()]

    def _hull_of_both_ends(self, pairs: list[Pair]) -> Pair:
        """The hull of what both ends of the interval say, endless where the interval is."""
        low, high = np.min([a for a, _ in pairs], axis=0), np.max([b for _, b in pairs], axis=0)
        return np.where(np.isneginf(self.interval.lower), -np.inf, low), np.where(
            np.isposinf(self.interval.upper), np.inf, high
        )

    @property
    def support_bounds(self) -> Pair:
        return self._hull_of_both_ends([self.kernel.support_bounds(end) for end in self._finite_ends])

    @property
    def cuts(self) -> Array:
        return np.concatenate([self.kernel.cuts_at(end) for end in self._finite_ends], axis=1)

    @property
    def panel_edges(self) -> Array:
        return np.concatenate([self.kernel.panel_edges(end) for end in self._finite_ends], axis=1)

    def window(self, drop: float = 40.0) -> Pair:
        # A probability falls a little more slowly than the density at the interval's end.
        return _clip_window(
            self._hull_of_both_ends([self.kernel.window(end, drop + 5.0) for end in self._finite_ends]),
            self.support_bounds,
        )

    @property
    def scale(self) -> Array:
        return np.asarray(np.max([self.kernel.scale(end) for end in self._finite_ends], axis=0))


@dataclass(frozen=True, repr=False, eq=False)
class Convolved(_Noisy):
    """p(released | x) as the integral of p(released | y) p(y | x) over y, where ``later`` says p(released | y).

    Gauss-Legendre panels are cut where either factor bends, and graded around both, so they move with x; the error is
    that of sixteen points on a panel of a smooth function, near the last digit. Right within 40 of the largest log
    likelihood; further out it may be too small.
    """

    per_entry = ("kernel", "later")

    later: ColumnLikelihood

    def __post_init__(self) -> None:
        if self.points_per_entry > MOST_COST:
            raise UnsupportedError(
                "A chain of several kinds of noise, or of noise and many steps, takes too many sums to compose",
                do="Use normal noise for all but one of the steps, or put Noise before Round",
            )

    @property
    def _panel_cuts(self) -> Array:
        """Places that cut the later likelihood into smooth panels, shape (n, m)."""
        return np.concatenate([self.later.cuts, self.later.panel_edges], axis=1)

    def log(self, x: Values, math: Mathematics = NUMPY) -> Values:
        x = math.asarray(x) + np.zeros(self.n)
        low, high = self.later.window()
        own = self.kernel.cuts(x, math)
        # A later observation that never falls is cut off where the density p(y | x) ends.
        least = low if np.isfinite(low).all() else _finite_or(low, reduce(math.minimum, own), math)
        most = high if np.isfinite(high).all() else _finite_or(high, reduce(math.maximum, own), math)
        zero = math.zeros_like(x)
        fixed = (_finite_or(row, zero + least, math) for row in self._panel_cuts.T)
        cuts = [math.minimum(math.maximum(c, least), most) for c in (*own, *fixed, zero + least, zero + most)]
        edges = math.sort(math.stack(cuts, axis=0), axis=0)
        half, middle = (edges[1:] - edges[:-1]) / 2, (edges[1:] + edges[:-1]) / 2
        node, weight = legendre_for(half)
        y = middle + half * node
        log_weight = np.log(weight) + math.log(math.maximum(half, TINY))
        terms = log_weight + self.kernel.log(y, x, math) + self.later.log(y, math)
        return logsumexp(logsumexp(terms, math), math)

    @property
    def points_per_entry(self) -> int:
        panels = len(self.kernel.cuts(np.zeros(self.n))) + self._panel_cuts.shape[1] + 1
        return len(LEGENDRE[0]) * panels * self.later.points_per_entry

    def pulled_back(self, change: Change) -> ColumnLikelihood:
        if change.additive and self.kernel.additive and change.followed_by(self.kernel) is None:
            # Independent noises may be added in any order: the later one may take this one up.
            inner = self.later.pulled_back(change)
            if not isinstance(inner, Convolved):
                return Convolved(self.kernel, inner)
        return super().pulled_back(change)

    def _hull_of_both_ends(self, find: Callable[[Array], Pair], low: Array, high: Array) -> Pair:
        """What is found over all y between two ends: at the ends themselves, for kernels that move with y."""
        bounded, capped = np.isfinite(low), np.isfinite(high)
        start, stop = find(np.where(bounded, low, 0.0)), find(np.where(capped, high, 0.0))
        least = np.minimum(start[0], np.where(capped, stop[0], np.inf))
        most = np.maximum(stop[1], np.where(bounded, start[1], -np.inf))
        return np.where(bounded, least, -np.inf), np.where(capped, most, np.inf)

    @property
    def support_bounds(self) -> Pair:
        return self._hull_of_both_ends(self.kernel.support_bounds, *self.later.support_bounds)

    def window(self, drop: float = 40.0) -> Pair:
        return _clip_window(
            self._hull_of_both_ends(lambda y: self.kernel.window(y, drop), *self.later.window(drop)),
            self.support_bounds,
        )

    def _around_cuts(self, find: Callable[[Array], Array]) -> list[Array]:
        """What is found around each cut of the later observation."""
        rows = self.later.cuts.T
        return [np.where(np.isfinite(row)[:, None], find(np.where(np.isfinite(row), row, 0.0)), np.nan) for row in rows]

    @property
    def panel_edges(self) -> Array:
        # Where the later observation has its kinks, and around those: the density smooths them over its own length.
        return np.concatenate(
            [self._panel_cuts, evenly_spaced_points(*self.window(), 33), *self._around_cuts(self.kernel.panel_edges)],
            axis=1,
        )

    @property
    def cuts(self) -> Array:
        # A kink of one factor is smoothed by the other, except where both have one; a jump of both leaves a kink.
        kept = self._around_cuts(self.kernel.cuts_at)
        return np.concatenate([self.kernel.cuts_between(*self.window()), *kept], axis=1)

    @property
    def scale(self) -> Array:
        return np.hypot(self.later.scale, self.kernel.scale(midpoints(*self.later.window())))


def _finite_or(row: Array, otherwise: Values, math: Mathematics) -> Values:
    """A row where it is finite, something else where it is not."""
    there = np.isfinite(row)
    return math.where(there, np.where(there, row, 0.0), otherwise)


def _clip_window(window: Pair, ends: Pair) -> Pair:
    return np.maximum(window[0], ends[0]), np.minimum(window[1], ends[1])
