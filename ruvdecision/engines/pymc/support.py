"""Where the records can lie, and nodes there: what is needed to integrate one record out of any law.

The line is mapped so that densities are easy to sum: as it is, by the logarithm of the distance from the end of a
half-line, or by the logit between two ends. There the trapezoid rule with an even step is exact to many digits for
smooth densities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import optimize, special

from ...channels.likelihood import Observation, nodes
from ...errors import InputError
from ...numerics.quadrature import gauss_legendre
from ...protocols import Array
from .model import CompiledModel, Theta

DROP = 34.0
"""Densities this far below their peak, in logs, are nothing."""
MOST_COUNTS = 20_000
"""Values of a count that are summed."""
CLOUD = 24
"""Parameter points that stand for all plausible ones."""


@dataclass(frozen=True)
class Line:
    """A map from the whole line to where the records can be.

    ``low`` and ``high`` are the ends, infinite if there is none.
    """

    low: float = -np.inf
    high: float = np.inf

    def x(self, t: Any) -> Array:
        if np.isfinite(self.low) and np.isfinite(self.high):
            return np.asarray(self.low + (self.high - self.low) * special.expit(t))
        if np.isfinite(self.low):
            return np.asarray(self.low + np.exp(t))
        return np.asarray(self.high - np.exp(-t)) if np.isfinite(self.high) else np.asarray(t, dtype=np.float64)

    def t(self, x: Any) -> Array:
        x = np.asarray(x, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            if np.isfinite(self.low) and np.isfinite(self.high):
                return np.asarray(special.logit(np.clip((x - self.low) / (self.high - self.low), 0, 1)))
            if np.isfinite(self.low):
                return np.log(np.maximum(x - self.low, 0.0))
            return -np.log(np.maximum(self.high - x, 0.0)) if np.isfinite(self.high) else x

    def log_slope(self, t: Any) -> Array:
        """Log of dx/dt."""
        t = np.asarray(t, dtype=np.float64)
        if np.isfinite(self.low) and np.isfinite(self.high):
            return np.log(self.high - self.low) + special.log_expit(t) + special.log_expit(-t)
        if np.isfinite(self.low):
            return t
        return -t if np.isfinite(self.high) else np.zeros_like(t)


@dataclass(frozen=True)
class Reach:
    """The part of the line where the released records can lie, with how finely it is cut: a device for their evidence.

    ``count`` is the number of points of the shared grid, ``fine`` multiplies the panels of nodes of single records.
    Discrete records have ``values``.
    """

    line: Line
    low: float
    high: float
    """Ends on the mapped line."""
    count: int = 512
    fine: int = 1
    values: Array | None = None
    open: tuple[bool, bool] = (False, False)
    """Whether a release says that a count may lie anywhere below or above."""

    def grid(self) -> tuple[Array, Array]:
        """Points and log weights for integrals over the records' law."""
        if self.values is not None:
            return self.values, np.zeros(len(self.values))
        t = np.linspace(self.low, self.high, self.count)
        return self.line.x(t), np.log((self.high - self.low) / (self.count - 1)) + self.line.log_slope(t)

    def refined(self) -> Reach:
        """Twice as fine, and a little wider; counts twice as far where a release does not end them."""
        if self.values is not None:
            more = len(self.values) * np.array(self.open)
            return replace(self, values=np.arange(self.values[0] - more[0], self.values[-1] + more[1] + 1))
        margin = 0.1 * (self.high - self.low)
        return replace(
            self, low=self.low - margin, high=self.high + margin, count=int(2.4 * self.count), fine=2 * self.fine
        )

    def for_release(self, column: Observation, largest: int) -> Reach | None:
        """Cut to where this release can come from, and fine enough for it.

        None if that takes more than ``largest`` points.
        """
        told = np.flatnonzero(~np.asarray(column.uninformative))
        if not len(told) or self.values is not None:
            return self
        part = column.take(told)
        a, b = part.window()
        low, high = max(self.low, float(np.min(self.line.t(a)))), min(self.high, float(np.max(self.line.t(b))))
        if not low < high:
            low, high = self.low, self.high  # the release lies outside of all that is plausible
        near = np.clip(part.window(1.0)[1], *self.line.x(np.array([low, high])))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            steps = 0.5 * part.scale * np.exp(-self.line.log_slope(np.clip(self.line.t(near), low, high)))
        step = float(np.min(steps[np.isfinite(steps)], initial=np.inf))
        count = max(self.count, int(np.ceil((high - low) / step)) + 1 if step > 0 else largest + 1)
        return None if count > largest else replace(self, low=low, high=high, count=count)

    def nodes(self, column: Observation, panels: int, order: int) -> tuple[Array, Array]:
        """Nodes and log weights, likelihood included, of each entry of a column: ``(K, n)`` both."""
        if self.values is not None and column.support is None:
            x = np.repeat(self.values[:, None], column.n, axis=1)
            sure = column.known
            logs = np.where(
                np.isnan(sure),
                np.asarray(column.log(np.where(np.isnan(sure), x, 0.0))),
                np.where(x == sure, 0.0, -np.inf),
            )
            return x, logs
        if column.support is not None or not np.isnan(column.known).any():
            return nodes(column, -np.inf, np.inf)
        if np.isinf(self.line.low) and np.isinf(self.line.high):
            return nodes(column, self.low, self.high, panels=panels * self.fine, order=order)
        return self._mapped(column, panels * self.fine, order)

    def _mapped(self, column: Observation, panels: int, order: int) -> tuple[Array, Array]:
        known, places = column.known, column.cuts.places
        sure = ~np.isnan(known)
        a, b = (np.clip(self.line.t(np.where(sure, known, w)), self.low, self.high) for w in column.window())
        cuts = np.clip(self.line.t(places.T), a, b) if places.shape[1] else np.empty((0, column.n))
        even = a + (b - a) * np.linspace(0, 1, panels + 1)[:, None]
        edges = np.sort(np.concatenate([even, np.where(np.isfinite(cuts), cuts, a)]), axis=0)
        node, weight = gauss_legendre(order)
        half = np.diff(edges, axis=0) / 2
        t = ((edges[1:] + edges[:-1]) / 2 + half * node[:, None, None]).reshape(-1, column.n)
        x = self.line.x(t)
        with np.errstate(divide="ignore"):
            logw = (np.log(half) + np.log(weight)[:, None, None]).reshape(-1, column.n) + self.line.log_slope(t)
        if not sure.all():
            rows = np.flatnonzero(~sure)
            logw[:, rows] += np.asarray(column.take(rows).log(x[:, rows]))
        if sure.any():
            x[:, sure], logw[:, sure] = known[sure], -np.inf
            logw[0, sure] = 0.0
        return x, logw


def find_reach(compiled: CompiledModel, column: Observation, place: int = 0) -> tuple[Reach, Array]:
    """Where the records of a column can lie after a release, and plausible parameter points on the unconstrained scale.

    The parameters are first fitted to the middle of what is known about each record, as if that were the record: rough,
    but noise only widens it. ``place`` is the column among those of the model.
    """
    told = np.flatnonzero(~np.asarray(column.uninformative))
    middle = _middles(column.take(told)) if len(told) else np.empty(0)
    cloud = _cloud(compiled, told, np.round(middle) if compiled.discrete else middle, place)
    if compiled.discrete:
        return _counts(compiled, compiled.natural(cloud), column, place), cloud
    return _cover(compiled, compiled.natural(cloud), middle, place), cloud


def reach_at(
    compiled: CompiledModel, theta: Theta, column: Observation, place: int = 0, old: Reach | None = None
) -> Reach:
    """Where the records of a column can lie for these parameters."""
    if compiled.discrete:
        return old if old is not None else _counts(compiled, theta, column, place)
    told = np.flatnonzero(~np.asarray(column.uninformative))
    return _cover(compiled, theta, _middles(column.take(told)) if len(told) else np.empty(0), place)


def find_lines(compiled: CompiledModel, theta: Theta, columns: Sequence[Observation]) -> tuple[Line, ...]:
    """The ends between which the model's records of each column lie, at some of these parameters."""
    count = len(next(iter(theta.values()))) if theta else 1
    some = np.unique(np.linspace(0, count - 1, CLOUD).astype(int))
    few = {name: values[some] for name, values in theta.items()}
    return tuple(
        Line() if compiled.discrete else _ends(compiled, few, *middle_of_released(c), j) for j, c in enumerate(columns)
    )


def middle_of_released(column: Observation) -> tuple[float, float]:
    """A middle of what a release makes likely for the entries of a column, and how far they lie apart.

    0 and 1 for none.
    """
    told = np.flatnonzero(~np.asarray(column.uninformative))
    middle = _middles(column.take(told)) if len(told) else np.zeros(0)
    if not len(middle):
        return 0.0, 1.0
    centre, apart = float(np.median(middle)), float(np.ptp(middle))
    return centre, apart or 0.1 * abs(centre) or 1.0


def _cover(compiled: CompiledModel, theta: Theta, middle: Array, place: int) -> Reach:
    centre, spread = (
        (float(np.median(middle)), float(np.ptp(middle) + 1e-9 * np.max(np.abs(middle)))) if len(middle) else (0.0, 1.0)
    )
    spread = spread if spread > 0 else 1.0
    line = _ends(compiled, theta, centre, spread, place)
    t = _coarse(line, centre, spread)
    logs = _density(compiled, theta, line.x(t), place) + line.log_slope(t)
    with np.errstate(invalid="ignore"):
        peak = np.max(np.where(np.isnan(logs), -np.inf, logs), axis=1, keepdims=True)
        inside = np.flatnonzero((logs > peak - DROP).any(axis=0) & np.isfinite(logs).any(axis=0))
    if not len(inside):
        raise InputError(
            "The model gives no density to any record near the release",
            "zero everywhere",
            "Check the prior and the records' law",
        )
    low, high = t[max(inside[0] - 1, 0)], t[min(inside[-1] + 1, len(t) - 1)]
    return Reach(line, float(low), float(high))


# -- helpers ----------------------------------------------------------------------------------------------


def _middles(column: Observation) -> Array:
    """One value per entry that the release makes likely."""
    known = column.known
    low, high = column.window(0.5)
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isfinite(low) & np.isfinite(high), (low + high) / 2, np.where(np.isfinite(low), low, high))
    middle = np.where(np.isnan(known), middle, known)
    good = np.isfinite(middle)
    return np.where(good, middle, np.median(middle[good])) if good.any() else np.zeros(len(middle))


def _density(compiled: CompiledModel, theta: Any, x: Array, place: int) -> Array:
    """Log density of the records at each x, the largest over records where they differ: ``(S, len(x))``."""
    one = compiled.single or compiled
    shape = (len(x), *one.shape)
    points = np.broadcast_to(x.reshape((-1,) + (1,) * len(one.shape)), shape)
    logs = one.log_density(theta, points)
    logs = logs[..., place] if not one.scalar else logs
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nanmax(np.where(np.isnan(logs), -np.inf, logs), axis=2))


def _cloud(compiled: CompiledModel, told: Any, middle: Array, place: int) -> Array:
    """Parameter points around the fit to these values."""
    start, size = compiled.initial, compiled.size
    if not size:
        return np.zeros((1, 0))
    one = compiled.single

    def objective(u: Array) -> Array:
        theta = compiled.natural(u)
        prior = compiled.log_prior(u)
        if not len(middle):
            return np.where(np.isfinite(prior), -prior, 1e300)
        if one is not None:
            x = middle.reshape((-1,) + (1,) * len(one.shape))
            logs = one.log_density(theta, np.broadcast_to(x, (len(middle), *one.shape)))
            logs = (logs[..., place] if not one.scalar else logs)[:, :, 0]
        else:
            full = np.full(compiled.shape, np.median(middle))
            full[(told, place) if not compiled.scalar else told] = middle
            logs = compiled.log_density(theta, full[None])[:, 0]
            logs = (logs[..., place] if not compiled.scalar else logs)[:, told]
        # A value that the law cannot have (noise took it out of the support) counts for little, not for everything.
        total = prior + np.sum(np.where(np.isfinite(logs), logs, -50.0), axis=1)
        return np.where(np.isfinite(total), -total, 1e300)

    def both(u: Array) -> tuple[float, Array]:
        step = 1e-5 * np.maximum(1.0, np.abs(u))
        around = objective(np.concatenate([u[None], u + np.diag(step), u - np.diag(step)]))
        slope = (around[1 : size + 1] - around[size + 1 :]) / (2 * step)
        return float(around[0]), np.where(np.isfinite(slope), slope, 0.0)

    with np.errstate(all="ignore"):
        best = optimize.minimize(both, start, jac=True, method="BFGS", options={"maxiter": 200}).x
        step = 1e-3 * np.maximum(1.0, np.abs(best))
        around = objective(np.concatenate([best[None], best + np.diag(step), best - np.diag(step)]))
        bend = (around[1 : size + 1] + around[size + 1 :] - 2 * around[0]) / step**2
    sd = 1 / np.sqrt(np.where(bend > 1e-12, bend, 1.0))
    rng = np.random.default_rng(11)
    cloud = best + 3 * sd * rng.standard_normal((CLOUD, size))
    cloud[0] = best
    good = objective(cloud) < objective(best[None])[0] + 200
    return cloud[good] if good.any() else best[None]


def _ends(compiled: CompiledModel, theta: Any, centre: float, spread: float, place: int) -> Line:
    """Ends of the support, found by looking and halving; they are those of the widest law in the cloud."""

    def inside(x: Array) -> Any:
        return np.isfinite(_density(compiled, theta, np.atleast_1d(x), place)).any(axis=0)

    middle = centre
    if not inside(np.array([middle]))[0]:
        tries = centre + spread * np.concatenate([-np.geomspace(1e-6, 1e6, 200), np.geomspace(1e-6, 1e6, 200)])
        there = np.flatnonzero(inside(tries))
        if not len(there):
            return Line()
        middle = float(tries[there[len(there) // 2]])
    ends = []
    for sign in (-1.0, 1.0):
        away = middle + sign * max(spread, abs(middle)) * np.geomspace(1e-3, 1e4, 60)
        seen = inside(away)
        if seen[-1] or seen.all():
            ends.append(sign * np.inf)
            continue
        out = int(np.argmax(~seen))
        good, bad = (middle if out == 0 else float(away[out - 1])), float(away[out])
        for _ in range(40):
            # Many places at once: a call costs more than a density.
            places = good + (bad - good) * np.linspace(0, 1, 65)[1:-1]
            there = inside(places)
            good, bad = (
                float(places[there][-1]) if there.any() else good,
                float(places[~there][0]) if not there.all() else bad,
            )
            if abs(bad - good) <= np.spacing(max(abs(good), abs(bad))):
                break
        nearby = round(bad, 9)
        ends.append(nearby if abs(nearby - bad) <= 1e-9 * max(1.0, abs(bad)) else bad)
    low, high = ends
    # A density that only became too small to tell from zero has no end.
    for i, end in enumerate((low, high)):
        if np.isfinite(end) and not _sharp(compiled, theta, end, -1.0 if i == 0 else 1.0, spread, place):
            low, high = (-np.inf, high) if i == 0 else (low, np.inf)
    return Line(low, high)


def _sharp(compiled: CompiledModel, theta: Any, end: float, sign: float, spread: float, place: int) -> bool:
    just = _density(compiled, theta, np.array([end - sign * 1e-7 * max(spread, abs(end))]), place)
    return bool(np.isfinite(just).any() and np.nanmax(just) > -1e5)


def _coarse(line: Line, centre: float, spread: float) -> Array:
    """Points over many scales on the mapped line."""
    if np.isfinite(line.low) and np.isfinite(line.high):
        return np.linspace(-50, 50, 1201)
    if np.isfinite(line.low) or np.isfinite(line.high):
        middle = float(line.t(centre)) if np.isfinite(line.t(centre)) else np.log(spread)
        return middle + np.linspace(-60, 60, 1601)
    half = spread * np.sinh(np.linspace(0, 34, 1500)) / np.sinh(2.0)
    return centre + np.concatenate([-half[:0:-1], half])


def _counts(compiled: CompiledModel, theta: Theta, column: Observation, place: int) -> Reach:
    """The whole numbers that the released records can be.

    All that the model allows where the release does not end them.
    """
    if column.support is not None:
        values = np.asarray(column.support, dtype=np.float64)
        return Reach(Line(), float(values[0]), float(values[-1]), values=values)
    told = np.flatnonzero(~np.asarray(column.uninformative))
    if not len(told):
        return Reach(Line(), 0.0, 1.0, values=np.arange(2.0))
    low, high = column.take(told).window()
    ends = [np.concatenate([end[np.isfinite(end)] for end in (low, high)] + [_middles(column.take(told))])] * 2
    first, last = np.floor(ends[0].min()), np.ceil(ends[1].max())
    open_ends = bool(np.isneginf(low).any()), bool(np.isposinf(high).any())
    for i, (sign, end) in enumerate(((-1, first), (1, last))):
        if not open_ends[i]:
            continue
        size = max(16.0, last - first)
        # Beyond the last value the sum over as many again must be nothing, whatever the parameters.
        while size < MOST_COUNTS:
            beyond = end + sign * np.arange(1.0, size + 1)
            mass = np.exp(special.logsumexp(_density(compiled, theta, beyond, place), axis=1))
            if not np.nanmax(mass, initial=0.0) > 1e-14:
                break
            end, size = end + sign * size, 2 * size
        first, last = (end, last) if sign < 0 else (first, end)
    if last - first > MOST_COUNTS:
        raise InputError(
            "Counts with this release may have too many values", int(last - first), f"Use at most {MOST_COUNTS:,}"
        )
    return Reach(Line(), float(first), float(last), values=np.arange(first, last + 1), open=open_ends)


def find_line(compiled: CompiledModel, observed: Any) -> Line:
    """The ends between which records can lie, whatever was released; the widest over columns."""
    u = compiled.initial[None]
    theta = compiled.natural(u)
    lines = []
    for j, column in enumerate(observed.columns):
        told = np.flatnonzero(~np.asarray(column.uninformative))
        middle = _middles(column.take(told)) if len(told) else np.zeros(1)
        lines.append(_ends(compiled, theta, float(np.median(middle)), float(np.ptp(middle)) or 1.0, j))
    return Line(min(line.low for line in lines), max(line.high for line in lines))
