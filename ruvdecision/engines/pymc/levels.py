"""The log posterior of the parameters after each of several releases, at many points at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...channels.likelihood import ReleaseLikelihood
from ...errors import UnsupportedError
from ...protocols import Array
from .marginal import NormalRoute, Route, choose_route, fit_route
from .model import At, CompiledModel
from .support import Line, Reach, find_reach

GROUPS = 32
"""Different sizes of noise in one release up to which sums stand for the records."""
FINER = 5
"""Times that the records' nodes are made finer before their error is taken as it is."""
CLOSE = 1e-10


@dataclass(frozen=True, eq=False)
class Levels:
    """Log posteriors of L releases; ``core`` is the model of one record where one stands for all."""

    compiled: CompiledModel
    core: CompiledModel
    seen: tuple[ReleaseLikelihood, ...]
    route: str
    sums: ClassVar[bool] = False
    """Whether sums stand for the records, so that their moments given the parameters are wanted."""

    def log_likelihood(self, at: At, shape: tuple[int, int]) -> Array:
        """``(L, S)``, for parameters laid out release after release."""
        raise NotImplementedError

    def lines(self, level: int) -> tuple[Line, ...] | None:
        """The ends between which the model's records lie, for laws that are not normal."""
        return None

    def integration_error(self, level: int, u: Array) -> float:
        """How far finer nodes for the records would move the log likelihood at these parameters."""
        return 0.0

    def take(self, levels: Sequence[int]) -> Levels:
        """Some of the releases."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.seen)

    def log_posterior(self, u: Array) -> Array:
        """At points ``(L, S, d)`` on the unconstrained scale, ``(L, S)``; up to a constant of each release."""
        return self.look(u)[0]

    def look(self, u: Array) -> tuple[Array, At]:
        """The log posterior, and what else the model says at the points, release after release."""
        levels, count, size = u.shape
        at = self.core.at(u.reshape(levels * count, size), self.sums)
        with np.errstate(all="ignore"):
            logs = at.log_prior.reshape(levels, count) + self.log_likelihood(at, (levels, count))
        logs[np.isnan(logs)] = -np.inf
        return logs, at


@dataclass(frozen=True, eq=False)
class NormalLevels(Levels):
    """Normal records of one law with normal noise.

    A mean and a sum of squares say all, for each size of noise and column.
    """

    sums: ClassVar[bool] = True
    noise: Array
    """``(L, k, g)`` variances of the noise."""
    counts: Array
    means: Array
    squares: Array

    def log_likelihood(self, at: At, shape: tuple[int, int]) -> Array:
        assert at.normal is not None
        mean, variance = at.normal
        total = np.zeros(shape)
        for j in range(self.noise.shape[1]):
            # A record's moments are (L S, 1) for numbers, (L S, 1, k) for vectors.
            m = np.broadcast_to(mean, (len(mean), *mean.shape[1:]))
            own = [(a[:, 0, min(j, a.shape[2] - 1)] if a.ndim == 3 else a[:, 0]).reshape(-1) for a in (m, variance)]
            centre, spread = (np.broadcast_to(a, (shape[0] * shape[1],)).reshape(shape) for a in own)
            for g in range(self.noise.shape[2]):
                count = self.counts[:, j, g, None]
                if not count.any():
                    continue
                # In place, where arrays are large: memory costs more than sums.
                wide = spread + self.noise[:, j, g, None]
                part = self.means[:, j, g, None] - centre
                part *= part
                part *= count
                part += self.squares[:, j, g, None]
                part /= wide
                np.log(wide, out=wide)
                wide *= count
                part += wide
                part *= 0.5
                total -= part
        return total

    def take(self, levels: Sequence[int]) -> NormalLevels:
        some = list(levels)
        parts = {name: getattr(self, name)[some] for name in ("noise", "counts", "means", "squares")}
        return replace(self, seen=tuple(self.seen[i] for i in some), **parts)


@dataclass(frozen=True, eq=False)
class RouteLevels(Levels):
    """Any other law: each release is integrated over the records by the route that fits it."""

    parts: tuple[tuple[Route, dict[str, Array], tuple[Reach, ...] | None], ...]
    """Route, its data and the reach of the records, of each release."""

    def log_likelihood(self, at: At, shape: tuple[int, int]) -> Array:
        count = shape[1]
        rows = []
        for i, (route, data, _) in enumerate(self.parts):
            mine = {name: values[i * count : (i + 1) * count] for name, values in at.theta.items()}
            rows.append(route.log_likelihood(mine, data))
        return np.stack(rows)

    def lines(self, level: int) -> tuple[Line, ...] | None:
        found = self.parts[level][2]
        return None if found is None else tuple(reach.line for reach in found)

    def integration_error(self, level: int, u: Array) -> float:
        route, data, reach = self.parts[level]
        if reach is None:
            return 0.0
        theta = self.core.natural(u)
        finer = route.data(self.seen[level], tuple(r.refined() for r in reach))
        moved = route.log_likelihood(theta, data) - route.log_likelihood(theta, finer)
        moved = moved[np.isfinite(moved)]
        return float(np.ptp(moved)) if len(moved) else np.inf

    def finer(self, level: int) -> RouteLevels:
        """The same with twice as many nodes for the records of one release."""
        route, _, reach = self.parts[level]
        assert reach is not None
        better = tuple(r.refined() for r in reach)
        parts = list(self.parts)
        parts[level] = (route, route.data(self.seen[level], better), better)
        return replace(self, parts=tuple(parts))

    def take(self, levels: Sequence[int]) -> RouteLevels:
        some = list(levels)
        return replace(self, seen=tuple(self.seen[i] for i in some), parts=tuple(self.parts[i] for i in some))


def levels_of(compiled: CompiledModel, seen: Sequence[ReleaseLikelihood]) -> list[tuple[list[int], Levels]]:
    """Releases sorted into groups that are worked on together, with their positions."""
    core = compiled.single or compiled
    normal: list[int] = []
    others: list[int] = []
    sums: dict[int, Any] = {}
    for i, observed in enumerate(seen):
        choice = choose_route(compiled, observed)
        if choice.route is None:
            raise UnsupportedError(
                f"Quadrature needs records that can be integrated out: {choice.reason}", do="Use engine=ruv.Sampling()"
            )
        found = _sums(observed) if choice.route is NormalRoute and core.n == 1 else None
        if found is None:
            others.append(i)
        else:
            normal.append(i)
            sums[i] = found
    groups: list[tuple[list[int], Levels]] = []
    if normal:
        most = max(s[0].shape[1] for s in sums.values())
        stacked = [_stacked([sums[i][j] for i in normal], most) for j in range(4)]
        groups.append((normal, NormalLevels(compiled, core, tuple(seen[i] for i in normal), "closed form", *stacked)))
    for i in others:
        groups.append(([i], _routed(compiled, core, seen[i])))
    return groups


def _sums(observed: ReleaseLikelihood) -> tuple[Array, Array, Array, Array] | None:
    """Noise variances, counts, means and sums of squares of each column.

    None if records have too many sizes of noise.
    """
    columns: list[tuple[Array, ...]] = []
    for column in observed.columns:
        pair = column.normal
        assert pair is not None
        y, sizes = pair
        told = np.isfinite(sizes)
        if not told.all():
            y, sizes = y[told], sizes[told]
        if not len(y):
            columns.append((np.zeros(1),) * 4)
            continue
        if (sizes == sizes[0]).all():
            middle = y.mean()
            columns.append(tuple(np.array([[sizes[0]], [len(y)], [middle], [np.square(y - middle).sum()]])))
            continue
        each, place = np.unique(sizes, return_inverse=True)
        if len(each) > GROUPS:
            return None
        counts = np.bincount(place).astype(float)
        means = np.bincount(place, weights=y) / counts
        columns.append((each, counts, means, np.bincount(place, weights=np.square(y - means[place])).astype(float)))
    most = max(len(c[0]) for c in columns)
    return tuple(_stacked([c[j] for c in columns], most) for j in range(4))  # type: ignore[return-value]


def _stacked(parts: Sequence[Array], width: int) -> Array:
    """Arrays on top of each other, each filled up with zeros to this width: the groups that are added hold nobody."""
    if all(part.shape[-1] == width for part in parts):
        return np.array(parts)
    found = np.zeros((len(parts), *parts[0].shape[:-1], width))
    for row, part in zip(found, parts, strict=True):
        row[..., : part.shape[-1]] = part
    return found


def _routed(compiled: CompiledModel, core: CompiledModel, observed: ReleaseLikelihood) -> Levels:
    kind = choose_route(compiled, observed).route
    assert kind is not None
    reach = None
    if kind.needs_reach:
        reach = tuple(find_reach(compiled, column, j)[0] for j, column in enumerate(observed.columns))
        kind, reach = fit_route(kind, observed, reach)
    route = kind(core)
    return RouteLevels(compiled, core, (observed,), route.name, ((route, route.data(observed, reach), reach),))
