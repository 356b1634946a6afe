"""Expectations under many normal laws of one number at once, on nodes that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..protocols import Array
from . import normal
from .gaussian import _shaped
from .integrate import GAUSS, KRONROD, NODES

__all__ = ["Line", "smooth_means"]

_CELLS = 4_000_000
_REACH = 9.5
_STEP = 3.0
_TURNS = 40
_PANELS = 256


@dataclass(frozen=True, eq=False)
class Line:
    """Kronrod panels over all components, each a few of the smallest sds wide, with every component's density at every node.

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
    """Width of a panel. Densities are per panel, so that neither they nor their products overflow, whatever the scale."""

    @classmethod
    def of(cls, weights: Array, means: Array, sds: Array) -> Line | None:
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

        Panels on which Gauss and Kronrod disagree are halved until their mean over components is right to ``tolerance``.
        """
        half = 0.5
        seen = _shaped(f(self.nodes), self.nodes.shape).reshape(-1, 21)
        if not np.isfinite(seen).all():
            return None
        average = self.average.reshape(-1, 21)
        _, error, size = _judge(seen * average * half)
        # Ends that still count hide growth beyond them.
        if size[[0, -1]].sum() > 0.1 * tolerance * size.sum():
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
            values = _shaped(f(x.reshape(-1)), (x.size,)).reshape(x.shape)
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
        """Panels beside the kinks, rows of (from, to, origin, reach) with u running away from the kink at the origin."""
        rows = []
        for place in places:
            low, high = self.edges[place], self.edges[place + 1]
            mine = cuts[(cuts >= low) & (cuts <= high)]
            ends = np.concatenate([[low], 0.5 * (mine[1:] + mine[:-1]), [high]])
            for i, cut in enumerate(mine):
                rows += [(0.0, 1.0, cut, end - cut) for end in ends[i : i + 2] if end != cut]
        return np.array(rows).reshape(-1, 4)


def smooth_means(smooth: Callable[[Array], Array], means: Array, sds: Array) -> Array:
    """Mean of a smooth function under normal laws, for a few digits: a table of it, read at Gauss-Hermite's nodes.

    The function takes ``(points,) + event`` and answers for each coordinate; so do the laws, ``(S,) + event``.
    """
    z, share = np.polynomial.hermite_e.hermegauss(9)
    share = share / share.sum()
    low, high = np.min(means - 5 * sds, axis=0), np.max(means + 5 * sds, axis=0)
    grid = low + (high - low) * np.linspace(0, 1, 129).reshape((-1,) + (1,) * low.ndim)
    table = np.asarray(smooth(grid))
    if means.ndim == 1:
        return np.asarray(np.interp(means[:, None] + sds[:, None] * z, grid, table) @ share)
    columns = [
        np.interp(means[:, j, None] + sds[:, j, None] * z, grid[:, j], table[:, j]) @ share
        for j in range(means.shape[1])
    ]
    return np.stack(columns, axis=-1)


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
