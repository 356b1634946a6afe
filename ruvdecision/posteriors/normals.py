"""Many normal laws asked at once: expectations on nodes that all of them share, and what concerns their mixture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..numerics.quadrature import GAUSS, KRONROD, NODES, gauss_normal
from ..numerics.semidefinite import lower_root
from ..protocols import Array, Value
from . import normal
from .cloud import Cloud
from .gaussian import Gaussian
from .many import Sorted, mean_difference
from .shapes import shaped

_CELLS = 4_000_000
_REACH = 9.5
_STEP = 3.0
_TURNS = 40
_PANELS = 256


@dataclass(frozen=True, eq=False)
class Normals:
    """One mixture of normal laws: the quick ways that its parts have together."""

    weights: Array
    parts: Gaussian

    def expect(self, f: Callable[[Array], Array], cuts: Array | None, tolerance: float) -> Value | None:
        """E f of each part and the error of their weighted mean; None if they must be asked one by one."""
        if self.parts.event:
            return None if self._cloud is None else self._cloud.expect(f)
        series = None if self._line is None else self._line.expect(f, cuts, tolerance)
        return None if series is None else Value(series, np.zeros(()))

    @cached_property
    def tangled(self) -> bool:
        """Whether a chance of leaving a box has no closed form: three or more correlated components."""
        if not self.parts.event or self.parts.event[0] < 3 or self._cloud is None:
            return False
        return bool(np.any(np.where(np.eye(self.parts.event[0], dtype=bool), 0.0, self.parts.covariances)))

    def outside(self, at: Array, width: Array) -> Value:
        """P(some coordinate is farther than its width from ``at``) of each part, and the error of their mean."""
        assert self._cloud is not None
        return self._cloud.outside(at, width)

    def mean_difference(self) -> Array:
        """Gini's mean difference of the mixture, each coordinate apart."""
        columns = zip(self._columns(self.parts.mean()), self._columns(self._sd), strict=True)
        found = [mean_difference(self.weights, means, sd) for means, sd in columns]
        return np.array(found).reshape(self.parts.event)

    def entropy(self) -> Value:
        """Differential entropy of the mixture; minus infinity if some part with a chance is a point mass."""
        if len(self.weights) == 1:
            return self.parts.select(0).entropy()
        used = self.weights > 0
        covariances = self.parts.cov()[used]
        infinite = np.isinf(covariances).any()
        roots = np.diagonal(lower_root(np.where(np.isinf(covariances), 1.0, covariances)), axis1=-2, axis2=-1)
        if (roots == 0).any() or infinite:
            return Value.exact(-np.inf if (roots == 0).any() else np.inf)
        if not self.parts.event:
            return Sorted.of(self.weights, self.parts.mean(), self._sd).entropy()
        series = self.minus_log_density()
        return Value(np.asarray(self.weights @ series.value), series.error)

    def minus_log_density(self) -> Value:
        """Mean of minus the log density of a mixture of vectors under each part, and the error of their mean."""
        assert self._cloud is not None
        return self._cloud.minus_log_density

    def smooth_means(self, smooth: Callable[[Array], Array]) -> Array:
        """Mean of a smooth function under each part, for a few digits: a table of it, read at Gauss-Hermite's nodes.

        The function takes ``(points,) + event`` and answers for each coordinate; so do the laws, ``(S,) + event``.
        """
        z, share = gauss_normal(9)
        means, sds = self.parts.mean(), self._sd
        low, high = np.min(means - 5 * sds, axis=0), np.max(means + 5 * sds, axis=0)
        grid = low + (high - low) * np.linspace(0, 1, 129).reshape((-1,) + (1,) * low.ndim)
        columns = [
            np.interp(m[:, None] + s[:, None] * z, x, y) @ share
            for m, s, x, y in zip(*map(self._columns, (means, sds, grid, np.asarray(smooth(grid)))), strict=True)
        ]
        return np.stack(columns, axis=-1).reshape(means.shape)

    @staticmethod
    def _columns(array: Array) -> list[Array]:
        """Coordinates of an array of numbers ``(rows,)`` or vectors ``(rows, k)``."""
        return list(array.T) if array.ndim > 1 else [array]

    @property
    def _sd(self) -> Array:
        return np.broadcast_to(self.parts.sd, self.parts.batch + self.parts.event)

    @cached_property
    def _line(self) -> SharedNodes | None:
        """Nodes on the line with the density of every part, if they fit."""
        return SharedNodes.of(self.weights, self.parts.mean(), self._sd)

    @cached_property
    def _cloud(self) -> Cloud | None:
        """A few points in space for each part."""
        if np.isinf(self.parts.covariances).any():
            return None
        return Cloud.of(self.weights, self.parts.mean(), self.parts.cov())


@dataclass(frozen=True, eq=False)
class SharedNodes:
    """Kronrod panels over all components, a few of the smallest sds wide, with every component's density at every node.

    The densities are computed once; then E f of every component is one matrix product, whatever f.
    """

    edges: Array
    nodes: Array
    densities: Array
    """``(nodes, S)``"""
    average: Array
    """The weighted mean of the densities."""
    weights: Array
    means: Array
    sds: Array
    unit: float
    """Width of a panel.

    Densities are per panel, so that neither they nor their products overflow, whatever the scale.
    """

    @classmethod
    def of(cls, weights: Array, means: Array, sds: Array) -> SharedNodes | None:
        """None if a component has no density, or the components are too far apart for their size to share nodes."""
        used = weights > 0
        if not (sds > 0).all() or np.isinf(sds).any():
            return None
        low, high = float(np.min((means - _REACH * sds)[used])), float(np.max((means + _REACH * sds)[used]))
        with np.errstate(over="ignore"):
            # A few narrow components may be seen too coarsely at first; their panels are halved where it matters.
            panels = np.ceil((high - low) / (_STEP * float(np.quantile(sds[used], 0.02))))
        if not panels * 21 * len(means) <= _CELLS:
            return None
        edges = np.linspace(low, high, int(panels) + 1)
        nodes = _panel_nodes(edges[:-1], edges[1:])
        unit = float(edges[1] - edges[0])
        densities = unit * _density(nodes, means, sds)
        return cls(edges, nodes, densities, densities @ weights, weights, means, sds, unit)

    def expect(self, f: Callable[[Array], Array], cuts: Array | None, tolerance: float) -> Array | None:
        """E f of each component, ``(S,)``; None if f is too rough for the nodes. ``cuts`` are the kinks of f.

        Panels on which Gauss and Kronrod disagree are halved until their mean over components is right to
        ``tolerance``.
        """
        half = 0.5
        seen = shaped(f(self.nodes), self.nodes.shape).reshape(-1, 21)
        if not np.isfinite(seen).all():
            return None
        average = self.average.reshape(-1, 21)
        _, error, size = _judge(seen * average * half)
        # Ends that still count hide growth beyond them.
        outer = np.abs(seen * average)
        if half * (outer[0, :5] @ KRONROD[:5] + outer[-1, -5:] @ KRONROD[-5:]) > 0.1 * tolerance * size.sum():
            return None
        inside = np.array([]) if cuts is None else np.unique(cuts[(cuts > self.edges[0]) & (cuts < self.edges[-1])])
        places = np.clip(np.searchsorted(self.edges, inside, side="right") - 1, 0, len(self.edges) - 2)
        bad = error > tolerance * size.sum() / 16
        bad[places] = False
        todo = np.concatenate(
            [self._around(inside, np.unique(places)), _halves(self.edges[:-1][bad], self.edges[1:][bad])]
        )
        weights = np.where(bad, 0.0, half)
        weights[places] = 0.0
        series = (seen * weights[:, None] * KRONROD).reshape(-1) @ self.densities
        total = float(size[weights > 0].sum())
        for turn in range(_TURNS):
            if not len(todo):
                break
            if len(todo) > _PANELS or turn == _TURNS - 1:
                return None
            start, stop, origin, reach = todo.T
            u = 0.5 * (start + stop)[:, None] + 0.5 * (stop - start)[:, None] * NODES
            curved = (reach != 0)[:, None]
            # Beside a kink nodes crowd towards it: x = origin + reach u^3 takes the edge off any power.
            x = np.where(curved, origin[:, None] + reach[:, None] * u**3, u)
            step = (
                0.5
                * (stop - start)[:, None]
                * np.where(curved, 3 * np.abs(reach / self.unit)[:, None] * u**2, 1.0 / self.unit)
            )
            values = shaped(f(x.reshape(-1)), (x.size,)).reshape(x.shape)
            if not np.isfinite(values).all():
                return None
            densities = self.unit * _density(x.reshape(-1), self.means, self.sds)
            _, error, size = _judge(values * (densities @ self.weights).reshape(x.shape) * step)
            bad = error > tolerance * (total + size.sum()) / 16
            total += float(size[~bad].sum())
            series = series + (values * step * KRONROD * ~bad[:, None]).reshape(-1) @ densities
            middle = 0.5 * (start + stop)
            todo = np.concatenate(
                [np.stack([start, middle, origin, reach], 1)[bad], np.stack([middle, stop, origin, reach], 1)[bad]]
            )
        return np.asarray(series)

    def _around(self, cuts: Array, places: Array) -> Array:
        """Panels next to the kinks: rows of (from, to, origin, reach), u running away from the kink at the origin."""
        rows = []
        for place in places:
            low, high = self.edges[place], self.edges[place + 1]
            mine = cuts[(cuts >= low) & (cuts <= high)]
            ends = np.concatenate([[low], 0.5 * (mine[1:] + mine[:-1]), [high]])
            for i, cut in enumerate(mine):
                rows += [(0.0, 1.0, cut, end - cut) for end in ends[i : i + 2] if end != cut]
        return np.array(rows).reshape(-1, 4)


def _panel_nodes(low: Array, high: Array) -> Array:
    return np.asarray((0.5 * (low + high)[:, None] + 0.5 * (high - low)[:, None] * NODES).reshape(-1))


def _density(x: Array, means: Array, sds: Array) -> Array:
    return np.asarray(normal.phi((x[:, None] - means) / sds) / sds)


def _judge(share: Array) -> tuple[Array, Array, Array]:
    """Kronrod's sum of each panel, its error by QUADPACK's rule, and its size."""
    kronrod, size = share @ KRONROD, np.abs(share) @ KRONROD
    error = np.abs(kronrod - share @ GAUSS)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.where(error > 0, np.minimum(error, size * np.minimum(1.0, (200 * error / size) ** 1.5)), 0.0)
    return kronrod, np.maximum(error - 1e-14 * size, 0.0), size


def _halves(low: Array, high: Array) -> Array:
    middle, zero = 0.5 * (low + high), np.zeros(len(low))
    return np.concatenate([np.stack([low, middle, zero, zero], 1), np.stack([middle, high, zero, zero], 1)])
