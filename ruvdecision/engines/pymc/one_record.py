"""One record behind a release: its evidence and its law given the parameters.

Given parameters theta a record has the model's density f(x | theta); a release tells of it by a likelihood l(x). Two
quantities are enough for everything: the evidence m(theta), the integral of f l, and the conditional law q(x | theta) =
f l / m. A record about which nothing was released has m = 1 and q = f: the model's own law, wherever it lies.

The line is cut where l jumps or has a kink. Every piece has points of its own, and l is taken inside of it. The points
are doubled until evidence and law settle; what remains is the law's error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ...channels.likelihood import ColumnLikelihood
from ...posteriors import Curve, Finite
from ...protocols import Array
from .support import SupportMap, finite_cuts, no_density_error

Density = Callable[[Array], Array]
"""Log density of a record at points ``(P,)`` given each of S parameter points, ``(S, P)``."""

Index = NDArray[np.int_]
ALL = slice(None)
DROP = 36.0
"""Densities this far below their top, in logs, are nothing."""
SEARCHES = 12
SEARCH_POINTS, FIRST_SEARCH_POINTS = 400, 1600
"""Points of a search for where the mass is."""
SOME = 100
"""Parameter points that are looked at for it."""
POINTS, FEWEST_POINTS = 1024, 256
"""Points of a first layout; where there is a law for each of many draws, whose average knows fewer digits anyway."""
MOST_POINTS = 13_000
WORK = 16_000_000
"""Densities after which no finer points are tried."""
CELLS = 16_000_000
"""Densities that are held at a time."""
NARROW = 0.5
"""Square of a step over the width of a law from which on its points do not see it."""
SETTLED_LAW_ERROR = 1e-6
"""Error of laws that are averaged over many parameter points that is not worth finer points."""
NEGLIGIBLE_MASS = 1e-9
"""An uncertain share of the mass that counts as nothing."""
MOST_COUNTS = 200_000
NEGLIGIBLE_WEIGHT = 1e-14
FAR_OUT = (1e2, 1e4, 1e6)
"""Lengths of the core from it at which the tails of a density are looked at."""
BENT = 1.02
"""Growth of a tail's power from one to the next that makes it lighter than any power."""


@dataclass(frozen=True)
class Axis:
    """A scale that suits a density: the model's mapped line, fine around a centre and wider and wider away from it."""

    support_map: SupportMap
    centre: float
    scale: float
    """Both on the mapped line."""

    def x(self, v: Array) -> Array:
        return self.support_map.x(self.centre + self.scale * np.sinh(v))

    def v(self, x: float | Array) -> Array:
        return np.arcsinh((np.clip(self.support_map.t(x), *self.support_map.mapped_ends) - self.centre) / self.scale)

    def log_slope(self, v: Array) -> Array:
        widening = np.log(self.scale / 2) + np.logaddexp(v, -v)
        return self.support_map.log_slope(self.centre + self.scale * np.sinh(v)) + widening


@dataclass(frozen=True, eq=False)
class OneRecord:
    """One entry of the records at S parameter points, after a release."""

    log_density: Callable[[Array, slice | Index], Array]
    """The model's density at points ``(P,)``, for some of the parameter points or all of them: ``(S, P)``."""
    likelihood: ColumnLikelihood
    """Of the one entry."""
    support_map: SupportMap
    """The ends between which the model's records lie."""
    near: tuple[float, float]
    """A place and a length from which to look for the mass; neither needs to be near."""
    weights: Array
    """Of the parameter points, ``(S,)``."""

    # -- what is asked for -----------------------------------------------------------------------------

    def averaged_laws(self, weightings: Sequence[Array], tolerance: float = 0.0) -> list[Curve]:
        """The law averaged over the parameter points, for each of several weights of theirs.

        ``tolerance`` is an error that is not worth finer points.
        """
        best: list[Curve] = []
        for grid in self._doubled_layouts(int(np.clip(WORK // len(self.weights), MOST_POINTS // 2, MOST_POINTS))):
            found = self._average_densities(grid, np.stack(weightings))
            if not best or found[0].error < best[0].error:
                best = found
            if best[0].error <= tolerance:
                break
        return [law.with_tails(*self._tail_orders_of_average(w)) for law, w in zip(best, weightings, strict=True)]

    def laws(self) -> Curve:
        """The law at every parameter point, a batch ``(S,)``."""
        best: Curve | None = None
        for grid in self._doubled_layouts(CELLS // (3 * len(self.weights)), FEWEST_POINTS):  # splines hold more
            found = Curve.from_pieces(grid.pieces, grid.split(self._log_joint_density(grid.inside)))
            if best is None or np.max(found.error) < np.max(best.error):
                best = found
            if np.max(best.error) <= SETTLED_LAW_ERROR:
                break
        assert best is not None
        return best.with_tails(*self._tail_orders)

    def draws(self, rng: np.random.Generator) -> Array:
        """One draw at every parameter point, ``(S,)``."""
        grid = next(self._doubled_layouts())
        return np.concatenate([grid.draws(logs, rng) for _, logs in self._densities_in_blocks(grid)])

    def log_evidence(self) -> Array:
        """Log of the mass before it is scaled to one, at every parameter point: ``(S,)``."""
        return self.log_evidence_of_rules()[0]

    def log_evidence_of_rules(self) -> Array:
        """The same by all points and by every other one, ``(2, S)``."""
        grid, found = next(self._doubled_layouts()), []
        for _, logs in self._densities_in_blocks(grid):
            heights = logs + grid.log_slope
            top = heights.max(axis=1, keepdims=True)
            with np.errstate(invalid="ignore", divide="ignore"):
                found.append(np.log(np.maximum(np.exp(heights - top) @ grid.rules.T, 0.0)) + top)
        return np.concatenate(found).T

    def _average_densities(self, grid: _PiecewiseGrid, weights: Array) -> list[Curve]:
        mass, node_error = np.zeros((len(weights), len(grid.inside))), np.zeros(len(weights))
        for some, logs in self._densities_in_blocks(grid):
            densities, errors = grid.densities(logs)
            mass += weights[:, some] @ densities
            node_error += weights[:, some] @ errors
        with np.errstate(divide="ignore"):
            merged = np.log(mass) - grid.log_slope
        return [grid.curve(m, o / w.sum()) for m, o, w in zip(merged, node_error, weights, strict=True)]

    def _doubled_layouts(self, most: int = MOST_POINTS, points: int = POINTS) -> Iterator[_PiecewiseGrid]:
        """Points that are doubled from one layout to the next."""
        while True:
            grid = _PiecewiseGrid.between_ends(*self._scale_and_ends, np.array(finite_cuts(self.likelihood)), points)
            yield grid
            points = 2 * points
            if max(points, len(grid.inside)) > most:
                return

    def _densities_in_blocks(self, grid: _PiecewiseGrid) -> Iterator[tuple[slice, Array]]:
        """Densities of some parameter points after others."""
        step = max(1, CELLS // (8 * len(grid.inside)))
        for start in range(0, len(self.weights), step):
            some = slice(start, start + step)
            yield some, self._log_joint_density(grid.inside, some)

    # -- how it falls off --------------------------------------------------------------------------------

    @cached_property
    def _tail_orders(self) -> Array:
        """Orders from which moments are infinite at each parameter point, left and right: ``(2, S)``.

        A density falls like a power if its logarithm does so evenly over the logarithm of the distance: of x to the
        power -a the moments below a - 1 exist. A lighter tail falls faster and faster.
        """
        axis = self._scale_and_ends[0]
        core = self.support_map.x(axis.centre + axis.scale * np.array([-1.0, 0.0, 1.0]))
        distance = np.array(FAR_OUT) * (core[2] - core[0])
        found = []
        for x, end in ((core[1] - distance, self.support_map.low), (core[1] + distance, self.support_map.high)):
            if np.isfinite(end):
                found.append(np.full(len(self.weights), np.inf))
                continue
            with np.errstate(all="ignore"):
                near, far = -np.diff(self._log_joint_density(x), axis=1).T / np.diff(np.log(distance))[:, None]
            found.append(np.where(np.isfinite(far) & (far <= BENT * near), far - 1, np.inf))
        return np.stack(found)

    def _tail_orders_of_average(self, weights: Array) -> Array:
        """The same of the average over the points: those of the points whose tails are the heaviest, ``(2,)``."""
        found = []
        for orders in self._tail_orders:
            place = np.argsort(orders)
            found.append(orders[place][np.argmax(np.cumsum(weights[place]) > NEGLIGIBLE_MASS * weights.sum())])
        return np.array(found)

    # -- where it lies ---------------------------------------------------------------------------------

    def _log_joint_density(self, x: Array, some: slice | Index = ALL) -> Array:
        # In place: to get hold of large arrays costs more than to fill them.
        logs = np.require(self.log_density(x, some), requirements="W")
        logs += np.asarray(self.likelihood.log(x[:, None]))[:, 0]
        logs[np.isnan(logs)] = -np.inf
        return logs

    @cached_property
    def _scale_and_ends(self) -> tuple[Axis, float, float]:
        """A scale, and the ends of the mass on it and as numbers.

        Found by looking closer, and farther where it reaches an end.
        """
        for drop in (40.0, 160.0, 640.0, np.inf):
            found = self._search_window(drop)
            if found is not None:
                return found
        raise no_density_error()

    def _search_window(self, drop: float) -> tuple[Axis, float, float] | None:
        """None if the mass reaches beyond the window in which the likelihood is within ``drop`` of its largest."""
        low = max(self.support_map.low, float(self.likelihood.low[0]))
        high = min(self.support_map.high, float(self.likelihood.high[0]))
        start, stop = (float(end[0]) for end in self.likelihood.window(drop)) if np.isfinite(drop) else (low, high)
        a, b = max(low, start), min(high, stop)
        if not a < b:
            a, b = low, high
        axis = self._axis_over_support(a, b)
        some = np.unique(np.linspace(0, len(self.weights) - 1, SOME).astype(int))
        with np.errstate(divide="ignore"):
            shares = np.log(self.weights[some])[:, None]
        shares = shares - shares.max()
        for turn in range(SEARCHES):
            v = np.linspace(float(axis.v(a)), float(axis.v(b)), (SEARCH_POINTS if turn else FIRST_SEARCH_POINTS) + 1)
            x = np.clip(axis.x(v), low, high)
            heights = self._log_joint_density(_ends_moved_inside(x), some) + axis.log_slope(v)
            top = heights.max(axis=1, keepdims=True)
            if not np.isfinite(top).any():
                return None
            with np.errstate(invalid="ignore"):
                best = np.max(np.where(np.isfinite(top), heights - top + shares, -np.inf), axis=0)
            core = np.flatnonzero(best > best.max() - 2.0)
            there = _points_with_mass(best, x, core)
            i, j = max(there[0] - 1, 0), min(there[-1] + 1, len(v) - 1)
            cut = (i == 0 and a == start > low and best[0]), (j == len(v) - 1 and b == stop < high and best[-1])
            if any(end and end > best.max() - DROP for end in cut):
                return None
            fine = len(core) >= 8 and 2 * (j - i) >= len(v) and turn > 0
            a, b = float(x[i]), float(x[j])
            ends = self.support_map.t(x[[max(core[0] - 1, 0), min(core[-1] + 1, len(x) - 1)]])
            ends = np.clip(ends, *self.support_map.mapped_ends)
            axis = Axis(self.support_map, float(ends.mean()), float(ends[1] - ends[0]) / 2)
            if fine:
                break
        return axis, a, b

    def _axis_over_support(self, a: float, b: float) -> Axis:
        """A scale over the whole of what can be."""
        if np.isfinite(a) and np.isfinite(b):
            ends = np.clip(self.support_map.t(np.array([a, b])), *self.support_map.mapped_ends)
            return Axis(self.support_map, float(ends.mean()), float(ends[1] - ends[0]) / 4)
        place, length = self.near
        if np.isinf(self.support_map.low) and np.isinf(self.support_map.high):
            return Axis(self.support_map, place, length)
        return Axis(self.support_map, np.log(length) * (1 if np.isfinite(self.support_map.low) else -1), 1.0)


def _points_with_mass(best: Array, x: Array, core: Index) -> Index:
    """Points that count, for the mass and, where they exist, for its first two moments."""
    far = np.log1p(np.abs(x - x[core].mean()) / (x[min(core[-1] + 1, len(x) - 1)] - x[max(core[0] - 1, 0)]))
    there = best > best.max() - DROP
    for moment in (best + far, best + 2 * far):
        # A moment that still grows at an end does not exist, and is not reached for: the law's tails say so.
        if max(moment[0], moment[-1]) < moment.max() - 3.0:
            there |= moment > moment.max() - DROP
    return np.flatnonzero(there)


def _ends_moved_inside(x: Array) -> Array:
    """The same points, both ends moved inside by next to nothing: the density there is that of the inside."""
    moved = x.copy()
    moved[0] += min(1e-12 * max(abs(x[0]), abs(x[1])), 1e-3 * (x[1] - x[0]))
    moved[-1] -= min(1e-12 * max(abs(x[-1]), abs(x[-2])), 1e-3 * (x[-1] - x[-2]))
    return moved


@dataclass(frozen=True, eq=False)
class _PiecewiseGrid:
    """Points in every piece of the line, spaced evenly on the scale."""

    pieces: tuple[Array, ...]
    """Numbers of each piece, ends included."""
    inside: Array
    """All of them where densities are taken: ends of pieces moved inside."""
    v: Array
    """Their places on the scale."""
    log_slope: Array
    rules: Array
    """Weights of an integral over the scale, and those of every other point: ``(2, P)``."""

    @classmethod
    def between_ends(cls, axis: Axis, low: float, high: float, cuts: Array, points: int) -> _PiecewiseGrid:
        """About so many points between two ends."""
        margin = 1e-11 * max(abs(low), abs(high))
        inner = cuts[(cuts > low + margin) & (cuts < high - margin)]
        inner = inner[np.concatenate([[True], np.diff(inner) > margin])] if len(inner) else inner
        edges = np.concatenate([[low], inner, [high]])
        places = axis.v(edges)
        pieces, inside, scale, rules = [], [], [], []
        for (a, b), (start, stop) in zip(pairwise(edges), pairwise(places), strict=True):
            count = _even_intervals(points * (stop - start) / (places[-1] - places[0]))
            v = np.linspace(start, stop, count + 1)
            x = axis.x(v)
            x[0], x[-1] = a, b
            coarse = np.zeros(count + 1)
            coarse[::2] = 2 * _weights_of_even_points(count // 2)
            pieces.append(x)
            inside.append(_ends_moved_inside(x))
            scale.append(v)
            rules.append((stop - start) / count * np.stack([_weights_of_even_points(count), coarse]))
        v = np.concatenate(scale)
        return cls(tuple(pieces), np.concatenate(inside), v, axis.log_slope(v), np.concatenate(rules, axis=1))

    def densities(self, logs: Array) -> tuple[Array, Array]:
        """Densities on the scale that integrate to one, ``(S, P)``, and the errors of their masses; ``logs`` is spent.

        A prior that lets a scale come close to zero has laws narrower than any points. Such a law is a point mass to
        everybody who averages over it: a normal law on the scale, four steps wide, stands for it, and the square of its
        width is its error. What every other point gives otherwise counts too: halving the step takes off more than a
        sixteenth of it.
        """
        heights = np.add(logs, self.log_slope, out=logs)
        rows, top = np.arange(len(logs)), np.argmax(heights, axis=1)
        ends = np.cumsum([0, *(len(x) for x in self.pieces)])
        first, last = np.isin(top, ends[:-1]), np.isin(top, ends[1:] - 1)
        before, after = np.where(first, top, top - 1), np.where(last, top, top + 1)
        step = np.maximum(self.v[after] - self.v[top], self.v[top] - self.v[before])
        errors = np.zeros(len(logs))
        with np.errstate(invalid="ignore", divide="ignore"):
            falls = [heights[rows, top] - heights[rows, near] for near in (before, after)]
            curvature = falls[0] + falls[1]
            peak = heights[rows, top]
            there = np.isfinite(peak)
            narrow = np.flatnonzero(there & (curvature > NARROW))
            # Beside a jump the top falls off at once, however wide the law is.
            mass = np.exp(heights[narrow] - peak[narrow, None]) @ self.rules[0]
            narrow = narrow[mass < np.sqrt(2 * np.pi / NARROW) * step[narrow]]
            move = np.where(first | last | np.isinf(curvature), 0.0, 0.5 * (falls[0] - falls[1]) / curvature)
            away = self.v - (self.v[top] + move * step)[narrow, None]
            away /= 4 * step[narrow, None]
            np.square(away, out=away)
            away *= -0.5
            heights[narrow], peak[narrow] = away, away.max(axis=1, initial=-np.inf)
            errors[narrow] = (4 * step[narrow]) ** 2
            heights -= np.where(there, peak, 0.0)[:, None]
            level = np.exp(heights, out=heights)
            fine, coarse = np.maximum(level @ self.rules.T, 0.0).T
            there &= fine > 0
            errors += np.where(there, np.minimum(np.abs(np.log(fine / coarse)), 1.0), 0.0) / 16
            level *= np.where(there, 1 / fine, 0.0)[:, None]
        return level, errors

    def draws(self, logs: Array, rng: np.random.Generator) -> Array:
        """One draw from each of S laws, whose densities are taken as linear on the scale between points."""
        heights = logs + self.log_slope
        level = np.exp(heights - heights.max(axis=1, keepdims=True))
        steps = np.diff(self.v)
        # From the end of a piece to the start of the next nothing lies between.
        steps[np.cumsum([len(x) for x in self.pieces])[:-1] - 1] = 0.0
        sums = np.cumsum((level[:, 1:] + level[:, :-1]) / 2 * steps, axis=1)
        at = rng.random(len(level)) * sums[:, -1]
        place = np.minimum((sums < at[:, None]).sum(axis=1), len(steps) - 1)
        rows = np.arange(len(level))
        before = np.where(place > 0, sums[rows, np.maximum(place - 1, 0)], 0.0)
        share = np.clip((at - before) / np.maximum(sums[rows, place] - before, 1e-300), 0.0, 1.0)
        left, right = level[rows, place], level[rows, place + 1]
        share = share * (left + right) / np.maximum(left + np.sqrt(left**2 + share * (right**2 - left**2)), 1e-300)
        x = np.concatenate(self.pieces)
        return np.asarray(x[place] + share * (x[place + 1] - x[place]))

    def curve(self, logs: Array, node_error: float) -> Curve:
        """A law given by its log density at the points.

        What its splines do to its first two moments counts as error too.
        """
        found = Curve.from_pieces(self.pieces, self.split(logs))
        mass = np.exp(logs + self.log_slope) * self.rules[0]
        mass = mass / mass.sum()
        mean = mass @ self.inside
        variance = mass @ (self.inside - mean) ** 2
        with np.errstate(all="ignore"):
            gap = abs(found.mean() - mean) / np.sqrt(variance) + abs(found.var() / variance - 1)
        return found.less_certain(
            node_error + (float(min(gap, 1.0)) if gap > NEGLIGIBLE_MASS else 0.0) if np.isfinite(gap) else 1.0
        )

    def split(self, values: Array) -> list[Array]:
        """Values at all points, piece by piece."""
        return np.split(values, np.cumsum([len(x) for x in self.pieces])[:-1], axis=-1)


def _even_intervals(wanted: float) -> int:
    """How many intervals a piece gets: such that every other point makes a rule too."""
    return next((n for n in (4, 8, 16) if wanted <= n), 32 * int(np.ceil(wanted / 32)))


@lru_cache(maxsize=64)
def _weights_of_even_points(intervals: int) -> Array:
    """Weights of an integral over evenly spaced points, in steps; of order eight where there are so many points.

    Few points: the interpolating polynomial. Many: the trapezoid rule with the ends mended (Gregory), which is exact to
    all digits for a function that vanishes with its slopes at both ends.
    """
    if intervals < 16:
        powers = np.arange(intervals + 1)
        places = np.linspace(-1.0, 1.0, intervals + 1)
        moments = np.where(powers % 2 == 0, 2.0 / (powers + 1), 0.0)
        return np.linalg.solve(places[None, :] ** powers[:, None], moments) * intervals / 2
    order = 8
    powers = np.arange(order)
    # Sums of j^k from zero to infinity, read as zeta(-k), must be mended to the integral's nothing.
    gaps = np.concatenate([[-0.5], special.bernoulli(order)[2:] / np.arange(2, order + 1)])
    mend = np.linalg.solve(np.arange(order)[None, :].astype(float) ** powers[:, None], gaps)
    weights = np.ones(intervals + 1)
    weights[:order] += mend
    weights[-order:] += mend[::-1]
    return weights


@dataclass(frozen=True, eq=False)
class OneCount:
    """A category or a count at S parameter points, after a release; counts are summed until nothing remains."""

    log_density: Callable[[Array, slice | Index], Array]
    likelihood: ColumnLikelihood
    near: float
    """Where to look for the mass first."""
    weights: Array
    """Of the parameter points, ``(S,)``."""

    def laws(self) -> Finite:
        """The law at every parameter point, a batch ``(S,)``."""
        values = self.possible_values()
        return Finite(values, self.chances(values))

    def averaged_laws(self, weightings: Array) -> list[Finite]:
        """The law averaged over the parameter points, for each of several weights ``(W, S)``."""
        used = np.flatnonzero(weightings.max(axis=0) > NEGLIGIBLE_WEIGHT * weightings.max())
        weights = weightings[:, used]
        part = replace(self, log_density=lambda x, some: self.log_density(x, used[some]), weights=weights[0])
        values = part.possible_values()
        mixed = sum(weights[:, some] @ part.chances(values, some) for some in part.blocks_of_points(len(values)))
        return [Finite.of(values, row / row.sum()) for row in np.asarray(mixed)]

    def possible_values(self) -> Array:
        """All values that count for anybody: those that are told, or a range that leaves nothing out."""
        if self.likelihood.support is not None:
            return self.likelihood.support
        low, high = float(self.likelihood.low[0]), float(self.likelihood.high[0])
        start, stop = (float(end[0]) for end in self.likelihood.window())
        if np.isfinite(start) and np.isfinite(stop):
            first, last = np.floor(start), np.ceil(stop)
        else:
            first = last = _integer_near_mode(lambda x: self._log_joint_density(x, ALL), self.near, low, high)
        size = max(16.0, last - first)
        while True:
            values = np.arange(first, last + 1)
            if last - first >= min(MOST_COUNTS, CELLS / len(self.weights)):
                return values
            moment = np.zeros(len(values))
            for some in self.blocks_of_points(len(values)):
                share = self.chances(values, some)
                moment += self.weights[some] @ (share * (1 + (values - (share @ values)[:, None]) ** 2))
            # A sixteenth of the range at either end shows whether anything lies beyond it.
            edge, total = max(1, len(values) // 16), 1e-14 * moment.sum()
            more = [moment[:edge].sum() > total and first > low, moment[-edge:].sum() > total and last < high]
            if not any(more):
                return values
            first, last = max(first - size * more[0], low), min(last + size * more[1], high)
            size *= 2

    def blocks_of_points(self, width: int) -> list[slice]:
        """Parameter points that are worked on at a time."""
        step = max(1, CELLS // (32 * width))
        return [slice(i, i + step) for i in range(0, len(self.weights), step)]

    def chances(self, values: Array, some: slice = ALL) -> Array:
        """Chances of the values at some of the parameter points."""
        heights = self._log_joint_density(values, some)
        top = heights.max(axis=1, keepdims=True)
        if not np.isfinite(top).any():
            raise no_density_error()
        share = np.exp(heights - np.where(np.isfinite(top), top, 0.0))
        return share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300)

    def _log_joint_density(self, values: Array, some: slice) -> Array:
        found = self.log_density(values, some) + np.asarray(self.likelihood.log(values[:, None]))[:, 0]
        return np.where(np.isnan(found), -np.inf, found)


def _integer_near_mode(logs: Density, near: float, low: float, high: float) -> float:
    """A whole number where the law has its mass: over many sizes first, then closer."""
    steps = np.unique(np.rint(np.concatenate([[0.0], np.geomspace(1, 1e15, 200)])))
    values = np.unique(
        np.clip(np.concatenate([steps, -steps, np.rint(near) + steps, np.rint(near) - steps]), low, high)
    )
    for _ in range(60):
        found = logs(values).max(axis=0)
        best = int(np.argmax(found))
        a, b = values[max(best - 1, 0)], values[min(best + 1, len(values) - 1)]
        if b - a <= 4:
            break
        values = np.unique(np.rint(np.linspace(a, b, 65)))
    return float(values[best])
