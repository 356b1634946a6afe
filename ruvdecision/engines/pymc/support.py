"""Where the records can lie, and nodes there: what is needed to integrate one record out of any law.

The line is mapped so that densities are easy to sum: as it is, by the logarithm of the distance from the end of a
half-line, or by the logit between two ends. There the trapezoid rule with an even step is exact to many digits for
smooth densities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ...channels.likelihood import ColumnLikelihood
from ...errors import InputError
from ...numerics.differences import climb_to_mode
from ...numerics.quadrature import gauss_legendre
from ...numerics.roots import border
from ...protocols import Array
from .model import CompiledModel, Theta, point_count

DROP = 34.0
"""Densities this far below their peak, in logs, are nothing."""
MOST_COUNTS = 20_000
"""Values of a count that are summed."""
HEAVY, CORE = 64.0, 4.0
"""Spreads of what was released: from how many on a law's range is that of heavy tails, and where its core ends."""
ORDER = 12
"""Gauss nodes of a panel."""
CHUNK = 4_000_000
"""Numbers that one look at a likelihood may need at a time; more are taken in turns."""
SAMPLE_POINTS = 24
"""Parameter points that stand for all plausible ones."""


@dataclass(frozen=True)
class SupportMap:
    """A map from the whole line to where the records can be.

    ``low`` and ``high`` are the ends, infinite if there is none.
    """

    low: float = -np.inf
    high: float = np.inf

    def x(self, t: ArrayLike) -> Array:
        t = np.asarray(t, dtype=np.float64)
        if np.isfinite(self.low) and np.isfinite(self.high):
            return np.asarray(self.low + (self.high - self.low) * special.expit(t))
        if np.isfinite(self.low):
            return np.asarray(self.low + np.exp(t))
        return np.asarray(self.high - np.exp(-t)) if np.isfinite(self.high) else t

    def t(self, x: ArrayLike) -> Array:
        x = np.asarray(x, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            if np.isfinite(self.low) and np.isfinite(self.high):
                return np.asarray(special.logit(np.clip((x - self.low) / (self.high - self.low), 0, 1)))
            if np.isfinite(self.low):
                return np.log(np.maximum(x - self.low, 0.0))
            return -np.log(np.maximum(self.high - x, 0.0)) if np.isfinite(self.high) else x

    def log_slope(self, t: ArrayLike) -> Array:
        """Log of dx/dt."""
        t = np.asarray(t, dtype=np.float64)
        if np.isfinite(self.low) and np.isfinite(self.high):
            return np.log(self.high - self.low) + special.log_expit(t) + special.log_expit(-t)
        if np.isfinite(self.low):
            return t
        return -t if np.isfinite(self.high) else np.zeros_like(t)

    @property
    def mapped_ends(self) -> tuple[float, float]:
        """Ends on the mapped line beyond which no number is worth looking at, or none differs from the end."""
        low, high = self.low, self.high
        if np.isinf(low) and np.isinf(high):
            return -1e40, 1e40
        if np.isinf(high):
            return (np.log(1e-14 * abs(low)) if low else -120.0), 120.0
        if np.isinf(low):
            return -120.0, (-np.log(1e-14 * abs(high)) if high else 120.0)
        near = np.log(1e-14 * max(abs(low), abs(high)) / (high - low))
        return (max(-60.0, near) if low else -60.0), (min(60.0, -near) if high else 60.0)


@dataclass(frozen=True)
class RecordGrid:
    """The part of the line where the released records can lie, with how finely it is cut: a device for their evidence.

    ``count`` is the number of points of the shared grid, ``fine`` multiplies the panels of nodes of single records.
    Discrete records have ``values``.
    """

    support_map: SupportMap
    low: float
    high: float
    """Ends on the mapped line."""
    count: int = 512
    fine: int = 1
    values: Array | None = None
    open: tuple[bool, bool] = (False, False)
    """Whether a release says that a count may lie anywhere below or above."""
    cuts: tuple[float, ...] = ()
    """Places where the likelihood of some record jumps or has a kink: the shared grid is cut there."""

    def points(self) -> tuple[Array, Array]:
        """Points and log weights for integrals over the records' law."""
        if self.values is not None:
            return self.values, np.zeros(len(self.values))
        if self.cuts:
            return self._gauss_panels()
        t = np.linspace(self.low, self.high, self.count)
        return self.support_map.x(t), np.log(self.step) + self.support_map.log_slope(t)

    @property
    def step(self) -> float:
        """The largest distance of two points on the mapped line, about."""
        return (1.5 if self.cuts else 1.0) * (self.high - self.low) / (self.count - 1)

    def _gauss_panels(self) -> tuple[Array, Array]:
        """About as many Gauss nodes, in panels from cut to cut."""
        inner = np.clip(self.support_map.t(self.cuts), self.low, self.high)
        ends = np.unique(np.concatenate([[self.low, self.high], inner]))
        counts = np.ceil(np.diff(ends) / (self.high - self.low) * self.count / ORDER).astype(int)
        panels = [np.linspace(a, b, k + 1) for (a, b), k in zip(pairwise(ends.tolist()), counts, strict=True)]
        start, stop = (np.concatenate([edges[some] for edges in panels]) for some in (slice(-1), slice(1, None)))
        node, weight = gauss_legendre(ORDER)
        half = (stop - start)[:, None] / 2
        t = ((start + stop)[:, None] / 2 + half * node).ravel()
        return self.support_map.x(t), np.log(half * weight).ravel() + self.support_map.log_slope(t)

    def refined(self) -> RecordGrid:
        """Twice as fine, and a little wider; counts twice as far where a release does not end them."""
        if self.values is not None:
            more = len(self.values) * np.array(self.open)
            return replace(self, values=np.arange(self.values[0] - more[0], self.values[-1] + more[1] + 1))
        margin = 0.03 * (self.high - self.low)
        return replace(
            self, low=self.low - margin, high=self.high + margin, count=int(2.1 * self.count), fine=2 * self.fine
        )

    def for_release(self, column: ColumnLikelihood, largest: int) -> RecordGrid | None:
        """Cut to where this release can come from, and fine enough for it.

        None if that takes more than ``largest`` points.
        """
        part = informative_entries(column)
        if not part.n or self.values is not None:
            return self
        a, b = part.window()
        low, high = (
            max(self.low, float(np.min(self.support_map.t(a)))),
            min(self.high, float(np.max(self.support_map.t(b)))),
        )
        if not low < high:
            low, high = self.low, self.high  # the release lies outside of all that is plausible
        cuts, (left, right) = finite_cuts(part), part.window(1.0)
        # A likelihood that stays as it is from the last cut on needs no fine grid out there.
        right = np.where(np.isposinf(right), np.maximum(left, cuts[-1] if cuts else -np.inf), right)
        near = np.clip(right, *self.support_map.x(np.array([low, high])))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            steps = 0.5 * part.scale * np.exp(-self.support_map.log_slope(np.clip(self.support_map.t(near), low, high)))
        step = float(np.min(steps[np.isfinite(steps)], initial=np.inf))
        count = max(self.count, int(np.ceil((high - low) / step)) + 1 if step > 0 else largest + 1)
        return None if count > largest else replace(self, low=low, high=high, count=count, cuts=cuts)

    def nodes(self, column: ColumnLikelihood, panels: int, order: int) -> tuple[Array, Array]:
        """Nodes x and log weights, likelihood included, of each entry of a column: ``(K, n)`` both.

        ``sum_k exp(logw[k, i]) f(x[k, i])`` is the integral of f(x) p(released_i | x). A known entry has one node of
        weight one; a category has one node per category. All x are finite, also where the weight is zero.

        >>> from ...channels.likelihood import observe
        >>> from ...masks import Noise
        >>> x, logw = RecordGrid(SupportMap(), -50, 50).nodes(observe(Noise(sd=2.0), [1.0], 1).columns[0], 8, 16)
        >>> float(np.sum(np.exp(logw) * x).round(9))
        1.0
        """
        n, known = column.n, column.known_values
        sure = ~np.isnan(known)
        if column.support is not None:
            x = np.repeat(column.support[:, None], n, axis=1)
            return x, np.asarray(column.log(x))
        if self.values is not None:
            x = np.repeat(self.values[:, None], n, axis=1)
            logs = np.asarray(column.log(np.where(sure, 0.0, x)))
            return x, np.where(sure, np.where(x == known, 0.0, -np.inf), logs)
        if sure.all():
            return known[None].copy(), np.zeros((1, n))
        rows = np.flatnonzero(~sure)
        tails = self._tail_edges(column)
        inner = self._panel_nodes(column.take(rows) if sure.any() else column, panels * self.fine, order, tails)
        if not sure.any():
            return inner
        x = np.repeat(np.where(sure, known, 0.0)[None], len(inner[0]), axis=0)
        logw = np.full(x.shape, -np.inf)
        x[:, rows], logw[:, rows] = inner
        logw[0, sure] = 0.0
        return x, logw

    def core(self, column: ColumnLikelihood) -> tuple[float, float]:
        """The part of the mapped line where nodes are even: around what was released if that is far narrower."""
        centre, scale = released_location_and_scale(column)
        whole = np.isfinite(self.support_map.low) or np.isfinite(self.support_map.high)
        if whole or self.high - self.low < HEAVY * scale:
            return self.low, self.high
        return max(self.low, centre - CORE * scale), min(self.high, centre + CORE * scale)

    def _tail_edges(self, column: ColumnLikelihood) -> Array:
        """Edges of panels for heavy tails: even in the core, and growing with the distance beyond it."""
        low, high = self.core(column)
        if (low, high) == (self.low, self.high):
            return np.empty(0)
        middle, half = (low + high) / 2, (high - low) / 2
        far = max(self.high - middle, middle - self.low) / half
        beyond = half * 2 ** (np.arange(1, int(np.log2(far) * self.fine) + 1) / self.fine)
        inner = np.linspace(low, high, int(4 * CORE) * self.fine + 1)
        return np.concatenate([middle - beyond, inner, middle + beyond])

    def _panel_nodes(self, part: ColumnLikelihood, panels: int, order: int, tails: Array) -> tuple[Array, Array]:
        """Gauss nodes of entries that are not known, in panels that are cut where the likelihood is not smooth."""
        line = self.support_map
        a, b = (np.clip(line.t(np.clip(end, part.low, part.high)), self.low, self.high) for end in part.window())
        if np.isinf(line.low) and np.isinf(line.high):
            further = np.repeat(tails[None], part.n, axis=0)
            fixed = np.concatenate([part.cuts, part.panel_edges, further], axis=1).T
        else:
            fixed = line.t(part.cuts.T)
            panels += int(np.max(b - a) / 4)  # a law has its mass within a few units of the mapped line
        even = a + (b - a) * np.linspace(0, 1, panels + 1)[:, None]
        even[-1] = b
        edges = np.sort(np.concatenate([even, np.clip(np.where(np.isfinite(fixed), fixed, a), a, b)]), axis=0)
        # Zero-width panels go last, and those that are empty for every entry are left out.
        wide = edges[1:] > edges[:-1]
        first = np.argsort(~wide, axis=0, kind="stable")[: int(wide.sum(axis=0).max(initial=0)) or 1]
        left, right = np.take_along_axis(edges[:-1], first, axis=0), np.take_along_axis(edges[1:], first, axis=0)
        node, weight = gauss_legendre(order)
        half = (right - left) / 2
        t = ((left + right) / 2 + half * node[:, None, None]).reshape(-1, part.n)
        x = line.x(t)
        with np.errstate(divide="ignore"):
            logw = (np.log(half) + np.log(weight)[:, None, None]).reshape(-1, part.n) + line.log_slope(t)
        step = max(1, CHUNK // (part.n * part.points_per_entry))
        return x, logw + np.concatenate([np.asarray(part.log(x[i : i + step])) for i in range(0, len(x), step)])


def find_grid(compiled: CompiledModel, column: ColumnLikelihood, place: int = 0) -> RecordGrid:
    """Where the records of a column can lie after a release.

    The parameters are first fitted to two numbers on both sides of the middle of what is known about each record, as
    if these were records: rough, but noise only widens it. ``place`` is the column among those of the model.
    """
    middle = released_locations(column)
    sample = _parameter_sample(compiled, column, np.round(middle) if compiled.discrete else middle, place)
    cover = _possible_counts if compiled.discrete else grid_at
    return cover(compiled, compiled.on_natural_scale(sample), column, place)


def grid_at(compiled: CompiledModel, theta: Theta, column: ColumnLikelihood, place: int = 0) -> RecordGrid:
    """Where the records of a column can lie for these parameters, if they are no counts."""
    middle = released_locations(column)
    centre = float(np.median(middle)) if len(middle) else 0.0
    length = (float(np.ptp(middle) + 1e-9 * np.max(np.abs(middle))) if len(middle) else 0.0) or 1.0
    support_map = _find_support_ends(compiled, theta, centre, length, place)
    t = _points_over_scales(support_map, centre, length)
    logs = _largest_log_density(compiled, theta, support_map.x(t), place) + support_map.log_slope(t)
    with np.errstate(invalid="ignore"):
        peak = np.max(np.where(np.isnan(logs), -np.inf, logs), axis=1, keepdims=True)
        inside = np.flatnonzero((logs > peak - DROP).any(axis=0) & np.isfinite(logs).any(axis=0))
    if not len(inside):
        raise no_density_error()
    low, high = t[max(inside[0] - 1, 0)], t[min(inside[-1] + 1, len(t) - 1)]
    return RecordGrid(support_map, float(low), float(high))


def support_ends_of_rows(
    compiled: CompiledModel, column: ColumnLikelihood, place: int = 0
) -> tuple[Array, Array] | None:
    """Ends of the support of each record of a column, ``(n,)`` both; None if all have the same, or are counts.

    They are looked for once, at the model's own start.
    """
    if compiled.discrete or compiled.one_record_model is not None or compiled.kind != "elementwise":
        return None
    key = ("row ends", place)
    if key not in compiled.cache:
        compiled.cache[key] = _find_support_ends_of_rows(compiled, *released_location_and_scale(column), place)
    found: tuple[Array, Array] | None = compiled.cache[key]
    return found


def _find_support_ends_of_rows(
    compiled: CompiledModel, centre: float, length: float, place: int
) -> tuple[Array, Array] | None:
    theta = compiled.on_natural_scale(compiled.initial[None])

    def inside(x: Array) -> NDArray[np.bool_]:
        """At numbers of each row's own, ``(K, n)``."""
        nodes = x if compiled.scalar else np.repeat(x[:, :, None], compiled.k, axis=2)
        logs = compiled.log_density(theta, nodes)
        return np.asarray(np.isfinite(logs if compiled.scalar else logs[..., place]).any(axis=0))

    away = max(length, abs(centre)) * np.geomspace(1e-3, 1e4, 120)
    line = np.concatenate([centre - away[::-1], [centre], centre + away])
    there = inside(np.repeat(line[:, None], compiled.n, axis=1))
    if (there == there[:, :1]).all() or not there.any(axis=0).all():
        return None
    first, last = there.argmax(axis=0), len(line) - 1 - there[::-1].argmax(axis=0)
    ends = []
    for good, sign in ((first, -1), (last, 1)):
        bad = np.clip(good + sign, 0, len(line) - 1)
        ends.append(np.where(bad == good, sign * np.inf, _end_of_support(inside, line[good], line[bad])))
    return ends[0], ends[1]


def _end_of_support(inside: Callable[[Array], NDArray[np.bool_]], good: Array, bad: Array) -> Array:
    """The ends of supports between a number inside and one outside of each; round where that is as near."""
    bad = border(inside, good, bad, parts=32, rounds=14)
    near = np.round(bad, 9)
    return np.where(np.abs(near - bad) <= 1e-9 * np.maximum(1.0, np.abs(bad)), near, bad)


def find_support_maps(
    compiled: CompiledModel, theta: Theta, columns: Sequence[ColumnLikelihood]
) -> tuple[SupportMap, ...]:
    """The ends between which the model's records of each column lie, at some of these parameters."""
    some = np.unique(np.linspace(0, point_count(theta) - 1, SAMPLE_POINTS).astype(int))
    few = {name: values[some] for name, values in theta.items()}
    return tuple(
        SupportMap() if compiled.discrete else _find_support_ends(compiled, few, *released_location_and_scale(c), j)
        for j, c in enumerate(columns)
    )


def released_location_and_scale(column: ColumnLikelihood) -> tuple[float, float]:
    """A middle of what a release makes likely for the entries of a column, and how far they lie apart.

    0 and 1 for none.
    """
    middle = released_locations(column)
    if not len(middle):
        return 0.0, 1.0
    centre, apart = float(np.median(middle)), float(np.ptp(middle))
    return centre, apart or 0.1 * abs(centre) or 1.0


def informative_entries(column: ColumnLikelihood) -> ColumnLikelihood:
    """The entries of a column about which something was released."""
    return column.take(np.flatnonzero(~np.asarray(column.uninformative)))


def released_locations(column: ColumnLikelihood) -> Array:
    """One value that the release makes likely, for each entry about which something was released."""
    part = informative_entries(column)
    if not part.n:
        return np.empty(0)
    known = part.known_values
    low, high = part.window(0.5)
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isfinite(low) & np.isfinite(high), (low + high) / 2, np.where(np.isfinite(low), low, high))
    middle = np.where(np.isnan(known), middle, known)
    good = np.isfinite(middle)
    return np.where(good, middle, np.median(middle[good])) if good.any() else np.zeros(len(middle))


def finite_cuts(part: ColumnLikelihood) -> tuple[float, ...]:
    """Places where what is told of some record is not smooth."""
    return tuple(np.unique(part.cuts[np.isfinite(part.cuts)]).tolist())


def no_density_error() -> InputError:
    """The error where model and release contradict each other."""
    return InputError(
        "The model gives no density to any record near the release",
        "zero everywhere",
        "Check the prior and the records' law",
    )


# -- helpers ----------------------------------------------------------------------------------------------


def _largest_log_density(compiled: CompiledModel, theta: Theta, x: Array, place: int) -> Array:
    """Log density of the records at each x, the largest over records where they differ: ``(S, len(x))``."""
    logs = compiled.entry_log_density(theta, x, place)
    return np.asarray(np.max(np.where(np.isnan(logs), -np.inf, logs), axis=2))


def _parameter_sample(compiled: CompiledModel, column: ColumnLikelihood, middle: Array, place: int) -> Array:
    """Parameter points around the fit to these values, on the unconstrained scale."""
    start, size = compiled.initial, compiled.size
    if not size:
        return np.zeros((1, 0))
    rows = np.flatnonzero(~np.asarray(column.uninformative))
    # Were the middles the records, equal ones would say that a scale is zero.
    away = np.zeros(len(rows)) if compiled.discrete else 0.5 * column.take(rows).scale
    away = np.where(np.isfinite(away) & np.isnan(column.known_values[rows]), away, 0.0)

    def heights(u: Array) -> Array:
        at = compiled.values_at(u, normal=False)
        theta, total = at.theta, at.log_prior
        for values in (middle - away, middle + away) if len(middle) else ():
            if compiled.one_record_model is not None:
                logs = compiled.entry_log_density(theta, values, place)[:, :, 0]
            else:
                full = np.full((compiled.n, compiled.k), np.median(middle))
                full[rows, place] = values
                logs = compiled.log_density(theta, full.reshape((1, *compiled.shape)))
                logs = logs.reshape(len(logs), compiled.n, compiled.k)[:, rows, place]
            # A value that the law cannot have (noise took it out of the support) counts for little.
            total = total + 0.5 * np.sum(np.where(np.isfinite(logs), logs, -50.0), axis=1)
        return np.where(np.isfinite(total), total, -1e300)

    best = climb_to_mode(heights, start)
    step = 1e-3 * np.maximum(1.0, np.abs(best))
    here, ends = heights(best[None])[0], heights(best + np.concatenate([np.diag(step), -np.diag(step)]))
    with np.errstate(all="ignore"):
        curvature = (2 * here - ends.reshape(2, size).sum(axis=0)) / step**2
        sd = 1 / np.sqrt(np.where(curvature > 1e-12, curvature, 1.0))
    sample = best + 3 * sd * np.random.default_rng(11).standard_normal((SAMPLE_POINTS, size))
    sample[0] = best
    good = heights(sample) > here - 200
    return sample[good] if good.any() else best[None]


def _find_support_ends(compiled: CompiledModel, theta: Theta, centre: float, length: float, place: int) -> SupportMap:
    """Ends of the support, found by looking and halving; they are those of the widest law among the parameters."""

    def inside(x: ArrayLike) -> NDArray[np.bool_]:
        return np.asarray(np.isfinite(_largest_log_density(compiled, theta, np.atleast_1d(x), place)).any(axis=0))

    middle = centre
    if not inside(middle)[0]:
        tries = centre + length * np.concatenate([-np.geomspace(1e-6, 1e6, 200), np.geomspace(1e-6, 1e6, 200)])
        allowed = tries[inside(tries)]
        if not len(allowed):
            return SupportMap()
        middle = float(allowed[len(allowed) // 2])
    ends = []
    for sign in (-1.0, 1.0):
        away = middle + sign * max(length, abs(middle)) * np.geomspace(1e-3, 1e4, 60)
        found = inside(away)
        if found[-1] or found.all():
            ends.append(sign * np.inf)
            continue
        out = int(np.argmax(~found))
        good = middle if out == 0 else away[out - 1]
        end = float(_end_of_support(lambda x: inside(x[:, 0])[:, None], np.array([good]), away[[out]])[0])
        # A density that only became too small to tell from zero has no end.
        just = _largest_log_density(compiled, theta, np.array([end - sign * 1e-7 * max(length, abs(end))]), place)
        ends.append(end if np.max(just) > -1e5 else sign * np.inf)
    return SupportMap(*ends)


def _points_over_scales(support_map: SupportMap, centre: float, length: float) -> Array:
    """Points over many scales on the mapped line."""
    if np.isfinite(support_map.low) and np.isfinite(support_map.high):
        return np.linspace(-50, 50, 1201)
    if np.isfinite(support_map.low) or np.isfinite(support_map.high):
        middle = float(support_map.t(centre)) if np.isfinite(support_map.t(centre)) else np.log(length)
        return middle + np.linspace(-60, 60, 1601)
    half = length * np.sinh(np.linspace(0, 34, 1500)) / np.sinh(2.0)
    return centre + np.concatenate([-half[:0:-1], half])


def _possible_counts(compiled: CompiledModel, theta: Theta, column: ColumnLikelihood, place: int) -> RecordGrid:
    """The whole numbers that the released records can be.

    All that the model allows where the release does not end them.
    """
    if column.support is not None:
        values = np.asarray(column.support, dtype=np.float64)
        return RecordGrid(SupportMap(), float(values[0]), float(values[-1]), values=values)
    middle = released_locations(column)
    if not len(middle):
        return RecordGrid(SupportMap(), 0.0, 1.0, values=np.arange(2.0))
    low, high = informative_entries(column).window()
    finite = np.concatenate([low[np.isfinite(low)], high[np.isfinite(high)], middle])
    ends = [np.floor(finite.min()), np.ceil(finite.max())]
    open_ends = bool(np.isneginf(low).any()), bool(np.isposinf(high).any())
    for i, sign in enumerate((-1, 1)):
        size = max(16.0, ends[1] - ends[0])
        # Beyond the last value the sum over as many again must be nothing, whatever the parameters.
        while open_ends[i] and size < MOST_COUNTS:
            beyond = ends[i] + sign * np.arange(1.0, size + 1)
            mass = np.exp(special.logsumexp(_largest_log_density(compiled, theta, beyond, place), axis=1))
            if not np.nanmax(mass, initial=0.0) > 1e-14:
                break
            ends[i], size = ends[i] + sign * size, 2 * size
    first, last = ends
    if last - first > MOST_COUNTS:
        raise InputError(
            "Counts with this release may have too many values", int(last - first), f"Use at most {MOST_COUNTS:,}"
        )
    return RecordGrid(SupportMap(), float(first), float(last), values=np.arange(first, last + 1), open=open_ends)
