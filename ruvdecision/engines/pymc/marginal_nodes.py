"""Records of any law, summed over nodes: on a grid that all share, or on nodes of each record's own.

The likelihood of the release at the nodes is data, the density of the records there is the model's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...channels.likelihood import ColumnLikelihood
from ...numerics.quadrature import gauss_legendre
from ...protocols import Array
from .marginal_base import CHUNK, MarginalLikelihood
from .model import CompiledModel, Theta, point_count
from .support import ORDER, SupportMap

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from .marginal_base import Graphs

PROBES = 257
"""Places that are looked at for laws narrower than the nodes' distance."""
RESOLVED = 4.0
"""Distances of nodes that a law must be wide."""
CLOSER, TINY = 16, 1e-7
"""Times that a peak is looked at more closely."""
OWN_NODES, APART = 37, 0.5
"""Nodes of a law that is narrower than the others' distance, and how many standard deviations lie between them."""
SHARPENED = 6
"""Times that a peak is looked at ten times more closely where it may be a kink."""
TAILS = np.arange(0.0, 14.5, 0.5)
"""Edges of panels for a law with heavy tails: inverse hyperbolic sines of standard deviations from its peak."""
SMOOTH, UNSEEN = 5e-4, 0.2
"""How far fewer of such nodes may move a record's log likelihood; the part of the others' distance that loses a law."""
WHOLE, FLOOR = 1e-6, -690.0
PANELS = 4
"""Panels of one record, where records do not share their nodes."""


class SummedMarginal(MarginalLikelihood):
    """A law that is summed over nodes. Where it is narrower than their distance it gets nodes of its own."""

    on_grid = True

    @staticmethod
    def _log_densities(model: CompiledModel, data: Graphs) -> TensorVariable:
        """Log densities of the records at the nodes."""
        raise NotImplementedError

    @staticmethod
    def _sum_and_slope(logs: TensorVariable, data: Graphs) -> tuple[TensorVariable, TensorVariable]:
        """The log likelihood from log densities at the nodes, and its slope with respect to them."""
        raise NotImplementedError

    @classmethod
    def graph(cls, model: CompiledModel, data: Graphs) -> TensorVariable:
        return cls._sum_and_slope(cls._log_densities(model, data), data)[0]

    @classmethod
    def potential(cls, model: CompiledModel, data: Graphs) -> TensorVariable:
        """The slope is given, not derived: fewer operations to compile, and no matrix is turned round at every call."""
        from inspect import signature

        from pytensor.compile.builders import OpFromGraph
        from pytensor.gradient import DisconnectedType

        names = [name for name in data if name != "nodes"]
        given = [cls._log_densities(model, data), *(data[name] for name in names)]
        own = [v.type() for v in given]

        def slopes(inputs: list[TensorVariable], _: object, above: list[TensorVariable]) -> list[Any]:
            slope = cls._sum_and_slope(inputs[0], dict(zip(names, inputs[1:], strict=True)))[1]
            return [above[0] * slope, *(DisconnectedType()() for _ in names)]

        # PyTensor 3 has another name for it.
        word = "pullback" if "pullback" in signature(OpFromGraph.__init__).parameters else "lop_overrides"
        value = cls._sum_and_slope(own[0], dict(zip(names, own[1:], strict=True)))[0]
        pattern = [[True], *([False] for _ in names)]
        return OpFromGraph(own, [value], inline=True, connection_pattern=pattern, **{word: slopes})(*given)

    def log_likelihood(self, theta: Theta) -> Array:
        if all(np.all(column.uninformative) for column in self.observed.columns):
            return np.zeros(point_count(theta))
        found = self._log_likelihood_by_nodes(theta)
        if not self._may_be_narrow or not len(found):
            return found
        found = np.array(found)
        for some, laws in self._narrow_points(theta):
            own, rough = self._log_likelihood_by_own_nodes({k: v[some] for k, v in theta.items()}, laws)
            # A likelihood with jumps and kinks is better off with nodes that are cut there, while they see the law.
            unseen = (laws.sd[:, self._rows_of_laws] < UNSEEN * self._largest_node_distance).all(axis=1)
            better = unseen | (rough < SMOOTH)
            found[some[better]] = own[better]
        return found

    def missed_by_sampler(self, theta: Theta) -> Array:
        """Laws that are narrower than the nodes' distance, which the graph does not give nodes of their own."""
        if not self._may_be_narrow or not len(self._vague_rows):
            return super().missed_by_sampler(theta)
        return self.log_likelihood(theta) - self._log_likelihood_by_nodes(theta)

    @cached_property
    def _may_be_narrow(self) -> bool:
        dense = self.model.scalar and not self.model.discrete and self.model.point_masses is None
        continuous = dense and bool(self.model.free) and self.observed.columns[0].support is None
        return continuous and bool(np.isfinite(self._largest_node_distance))

    @cached_property
    def _vague_rows(self) -> NDArray[np.int_]:
        """Records of which something is told, but not their value."""
        column = self.observed.columns[0]
        return np.flatnonzero(~np.asarray(column.uninformative) & np.isnan(column.known_values))

    @property
    def _rows_of_laws(self) -> NDArray[np.int_]:
        """Which laws of the model are those of such records."""
        return np.zeros(1, dtype=int) if self.model.n == 1 else self._vague_rows

    @property
    def _largest_node_distance(self) -> float:
        """The largest distance of two nodes, on the mapped line."""
        raise NotImplementedError

    @property
    def _log_constant(self) -> float:
        """By how much the log likelihood of `_log_likelihood_by_nodes` is larger than log p(release | parameters)."""
        return 0.0

    def _narrow_points(self, theta: Theta) -> Iterator[tuple[Array, NarrowLaws]]:
        """Parameter points at which the law of every record is narrower than the nodes can see, with these laws."""
        grid, count = self.grids[0], point_count(theta)
        half = 0.75 * (grid.high - grid.low)
        t = (grid.low + grid.high) / 2 + half * np.linspace(-1, 1, PROBES)
        x, slope = grid.support_map.x(t), grid.support_map.log_slope(t)
        rows, step = self._rows_of_laws, max(1, CHUNK // (PROBES * self.model.n))
        for start in range(0, count, step):
            part = {k: v[start : start + step] for k, v in theta.items()}
            heights = self.model.entry_log_density(part, x) + slope[:, None]
            heights = np.where(np.isnan(heights), -np.inf, heights)
            top = heights.max(axis=1)
            with np.errstate(invalid="ignore"):
                width = np.sum(np.exp(heights - top[:, None]), axis=1) * (t[1] - t[0])
            narrow = np.isfinite(top) & (width < RESOLVED * max(self._largest_node_distance, t[1] - t[0]))
            some = np.flatnonzero(narrow[:, rows].all(axis=1))
            for heavy_tails in (False, True):
                if not len(some):
                    break
                own = {k: v[some] for k, v in part.items()}
                peaks = np.broadcast_to(t[heights[some].argmax(axis=1)], (len(some), self.model.n))
                laws = NarrowLaws.around_peaks(self.model, grid.support_map, own, peaks, t[1] - t[0], heavy_tails)
                narrow = laws.sd * np.sqrt(2 * np.pi) < RESOLVED * self._largest_node_distance
                good = (laws.holds_all_mass & narrow)[:, rows].all(axis=1)
                if good.any():
                    yield start + some[good], laws.take(good)
                some = some[narrow[:, rows].all(axis=1) & ~good]

    def _log_likelihood_by_own_nodes(self, theta: Theta, laws: NarrowLaws) -> tuple[Array, Array]:
        """Log likelihood by the nodes of each law, and how far fewer of these would move a record's."""
        column, vague = self.observed.columns[0], self._vague_rows
        known = np.flatnonzero(~np.asarray(column.uninformative) & ~np.isnan(column.known_values))
        total, rough = np.full(len(laws.sd), self._log_constant), np.zeros(len(laws.sd))
        if len(known) and self.model.n == 1:
            total = total + self.model.entry_log_density(theta, column.known_values[known])[:, :, 0].sum(axis=1)
        elif len(known):
            at = laws.x[:, :1].copy()
            at[..., known] = column.known_values[known]
            total = total + self.model.log_density_at_own_numbers(theta, at)[:, 0, known].sum(axis=1)
        own = slice(None) if self.model.n == 1 else vague
        step = max(1, CHUNK // max(1, laws.x.shape[1] * len(vague)))
        for i in range(0, len(total) if len(vague) else 0, step):
            x, logs = laws.x[i : i + step, :, own], laws.log_mass[i : i + step, :, own]
            likelihood = np.asarray(column.take(vague).log(x.reshape(-1, x.shape[2])))
            likelihood = likelihood.reshape(*x.shape[:2], len(vague)) + logs
            top = np.maximum(likelihood.max(axis=1), FLOOR)
            share = np.exp(likelihood - top[:, None])
            sums = share.sum(axis=1), np.maximum((share * laws.coarser[:, None]).sum(axis=1), 0.0)
            with np.errstate(divide="ignore"):
                fine, coarse = (np.maximum(np.log(each) + top, FLOOR) for each in sums)
            total[i : i + step] += fine.sum(axis=1)
            rough[i : i + step] = np.abs(coarse - fine).max(axis=1)
        return total, rough


@dataclass(frozen=True, eq=False)
class NarrowLaws:
    """Laws of n records at S parameter points, each on nodes of its own around its peak.

    The trapezoid rule, or panels that reach far out on both sides of the peak if tails are heavy or it is a kink.
    """

    x: Array
    log_mass: Array
    """``(S, K, n)`` both."""
    sd: Array
    """Width of the peak on the mapped line, ``(S, n)``."""
    coarser: Array
    """By what to multiply each of the K masses for a rule on fewer nodes."""

    @property
    def holds_all_mass(self) -> NDArray[np.bool_]:
        """Which of them the nodes hold in full."""
        return np.abs(np.exp(self.log_mass).sum(axis=1) - 1) < WHOLE

    def take(self, some: NDArray[np.bool_]) -> NarrowLaws:
        """The laws at some of the parameter points."""
        return NarrowLaws(self.x[some], self.log_mass[some], self.sd[some], self.coarser)

    @classmethod
    def around_peaks(
        cls, model: CompiledModel, line: SupportMap, theta: Theta, t: Array, reach: float, heavy_tails: bool = False
    ) -> NarrowLaws:
        """Around the peaks that lie within ``reach`` of ``t``, found by looking closer and closer."""

        def heights(places: Array) -> Array:
            found = model.log_density_at_own_numbers(theta, line.x(places)) + line.log_slope(places)
            return np.where(np.isnan(found), -np.inf, found)

        def at(values: Array, place: NDArray[np.int_]) -> Array:
            return np.take_along_axis(values, place[:, None], axis=1)[:, 0]

        look = np.linspace(-1, 1, 33)[:, None]
        half, sd = np.full(t.shape, 1.01 * reach), np.full(t.shape, np.nan)
        for _ in range(CLOSER):
            places = t[:, None] + half[:, None] * look
            found = heights(places)
            top = np.clip(found.argmax(axis=1), 1, 31)
            t, step = at(places, top), half / 16
            with np.errstate(invalid="ignore", divide="ignore"):
                falls = [at(found, top) - at(found, top + way) for way in (-1, 1)]
                sd = step / np.sqrt(falls[0] + falls[1])
                t = t + np.where(np.isfinite(sd), 0.5 * (falls[0] - falls[1]) / (falls[0] + falls[1]) * step, 0.0)
            if np.all((step < sd) | ~np.isfinite(sd) | (half < TINY * reach)):
                break
            half = np.where(step < sd, half, half / 10)
        if heavy_tails:
            for turn in range(SHARPENED):
                places = t[:, None] + sd[:, None] * 0.1**turn * look
                t = at(places, heights(places).argmax(axis=1))
            z, log_weight, coarser = _nodes_of_tails()
            places = t[:, None] + sd[:, None] * z[:, None]
            with np.errstate(divide="ignore", invalid="ignore"):
                mass = heights(places) + log_weight[:, None] + np.log(sd)[:, None]
        else:
            # A law so narrow that rounding would show is a point mass, if the peak has all of it.
            point = sd < TINY * reach
            place = np.arange(OWN_NODES, dtype=np.float64)
            z, coarser = APART * (place - OWN_NODES // 2), 2.0 * (place % 2)
            with np.errstate(invalid="ignore", divide="ignore"):
                places = t[:, None] + np.where(point, 0.0, sd)[:, None] * z[:, None]
                mass = heights(places) + np.log(APART * sd)[:, None]
                peak = np.abs(np.exp(mass[:, OWN_NODES // 2]) * np.sqrt(2 * np.pi) / APART - 1) < 1e-3
            mass = np.where(point[:, None], np.where(peak, -np.log(OWN_NODES), -np.inf)[:, None], mass)
        there = np.isfinite(mass)
        # Where the law is nothing any number will do, but it must be one.
        return cls(line.x(np.where(there, places, t[:, None])), np.where(there, mass, -np.inf), sd, coarser)


@cache
def _nodes_of_tails() -> tuple[Array, Array, Array]:
    """Standard deviations from a peak, log weights, and by what to multiply the weights for a rule on fewer nodes."""
    node, weight = gauss_legendre(ORDER)
    half = np.diff(TAILS)[:, None] / 2
    v = (TAILS[:-1, None] + half * (1 + node)).ravel()
    log_weight = np.log(half * weight).ravel() + np.log(np.cosh(v))
    # Without a node in the middle a panel's rule is right for polynomials of a degree below the number of the others.
    kept = np.delete(np.arange(ORDER), ORDER // 2)
    powers = np.polynomial.legendre.legvander(node[kept], len(kept) - 1)
    coarser = np.zeros(ORDER)
    coarser[kept] = np.linalg.solve(powers.T, 2.0 * (kept == 0)) / weight[kept]
    coarser = np.tile(coarser, len(half))
    both = lambda a, sign=1: np.concatenate([sign * a[::-1], a])  # noqa: E731
    return both(np.sinh(v), -1), both(log_weight), both(coarser)


class GridMarginal(SummedMarginal):
    """Records of one law share a grid, or the values of a count; the release's likelihood there is a matrix.

    A density that is narrower than the grid's step may pile up more than all of its mass on one point; it is cut back
    to one.
    """

    name = "integrated on a shared grid"
    axes: ClassVar[Mapping[str, int]] = {"nodes": 2, "table": 1, "weight": 1}

    @cached_property
    def data(self) -> dict[str, Array]:
        """The last row of the table sums the whole law; its weight takes off for each record what is beyond one.

        The table is laid out flat: a compiled function would make a copy of a matrix at every call.
        """
        x, logw = self.grids[0].points()
        logs, top = self._node_log_weights
        table, counts = np.unique(np.exp(logs - top).T, axis=0, return_counts=True)
        weight = np.append(counts, -counts.sum()).astype(float)
        return {"nodes": x[:, None], "table": np.concatenate([table.ravel(), np.exp(logw)]), "weight": weight}

    @cached_property
    def _node_log_weights(self) -> tuple[Array, Array]:
        """Log weights of the nodes with the release's likelihood, ``(K, records)``, and the largest of each record."""
        column = self.observed.columns[0]
        x, logw = self.grids[0].points()
        informative = np.flatnonzero(~np.asarray(column.uninformative))
        logs = np.asarray(column.take(informative).log(x[:, None])) + logw[:, None]
        with np.errstate(invalid="ignore"):
            return logs, np.where(np.isfinite(logs.max(axis=0)), logs.max(axis=0), 0.0)

    @property
    def _largest_node_distance(self) -> float:
        return self.grids[0].step

    @property
    def _log_constant(self) -> float:
        return -float(self._node_log_weights[1].sum())

    @staticmethod
    def _log_densities(model: CompiledModel, data: Graphs) -> TensorVariable:
        return model.log_density_graph_at(data["nodes"].astype(model.x.dtype))[:, 0]

    @staticmethod
    def _sum_and_slope(logs: TensorVariable, data: Graphs) -> tuple[TensorVariable, TensorVariable]:
        import pytensor.tensor as pt

        weight, table = data["weight"], data["table"].reshape((data["weight"].shape[0], logs.shape[0]))
        top = pt.max(logs)
        heights = pt.exp(logs - top)
        # Far from the data the sum may vanish: a floor keeps the log finite there.
        mass = pt.maximum(pt.dot(table, heights), 1e-300)
        # A huge height is never added to be taken off again: rounding would be all that is left.
        logs, excess = pt.log(mass), pt.log(mass[-1]) + top > 0
        terms = pt.switch(excess, logs - logs[-1], logs + top)
        terms = pt.concatenate([terms[:-1], pt.zeros(1)])
        slope = heights * pt.dot(pt.switch(excess | pt.gt(weight, 0.0), weight / mass, 0.0), table)
        return pt.sum(weight * terms), slope

    def _log_likelihood_by_nodes(self, theta: Theta) -> Array:
        # One product for all points; the graph would take the table anew for each.
        x, weight, count = self.data["nodes"], self.data["weight"], point_count(theta)
        table = self.data["table"].reshape(len(weight), len(x))
        step = max(1, CHUNK // (len(x) + len(weight)))
        out = np.empty(count)
        for i in range(0, count, step):
            logs = self.model.log_density({k: v[i : i + step] for k, v in theta.items()}, x)[:, :, 0]
            with np.errstate(invalid="ignore", divide="ignore"):
                top = logs.max(axis=1, keepdims=True)
                each = np.log(np.maximum(np.exp(logs - top) @ table.T, 1e-300))
                each -= np.maximum(each[:, -1:], -top)
                out[i : i + step] = each[:, :-1] @ weight[:-1]
        return out


class NodesMarginal(SummedMarginal):
    """Any law: every record has nodes of its own, cut where the release's likelihood is not smooth.

    As on a shared grid, a density narrower than the nodes' distance is cut back to a mass of one.
    """

    name = "integrated over nodes"
    axes: ClassVar[Mapping[str, int]] = {"nodes": 3, "logw": 3, "plain": 3, "weight": 2}

    @cached_property
    def _largest_node_distance(self) -> float:
        grid, x = self.grids[0], self.data["nodes"][:, :, 0]
        t = np.sort(np.clip(grid.support_map.t(x), *grid.core(self.observed.columns[0])), axis=0)
        return float(np.max(np.diff(t, axis=0), initial=0.0)) or np.inf

    @cached_property
    def data(self) -> dict[str, Array]:
        columns = self.observed.columns
        found = [grid.nodes(column, PANELS, ORDER) for grid, column in zip(self.grids, columns, strict=True)]
        count = max(len(x) for x, _ in found)
        fill = lambda a, rows: np.concatenate([a, np.repeat(rows, count - len(a), axis=0)])  # noqa: E731
        x = np.stack([fill(x, x[:1]) for x, _ in found], axis=2)
        logw = np.stack([fill(w, np.full((1, w.shape[1]), -np.inf)) for _, w in found], axis=2)
        plain = np.stack(
            [self._log_weights_without_release(c, x[:, :, j], logw[:, :, j]) for j, c in enumerate(columns)], axis=2
        )
        weight = np.stack([~np.asarray(column.uninformative) for column in columns], axis=1).astype(float)
        if self.model.point_masses is not None:
            x, logw, plain = self._with_point_masses(self.model.point_masses.places, x, logw, plain)
            count = len(x)
        if self.model.n == 1 and self.observed.n > 1 and self.observed.k == 1:
            # Records that were released alike count several times.
            both = np.concatenate([x[:, :, 0], logw[:, :, 0], plain[:, :, 0]])[:, weight[:, 0] > 0]
            if both.shape[1]:
                both, counts = np.unique(both, axis=1, return_counts=True)
                x, logw, plain = (both[i * count : (i + 1) * count, :, None] for i in range(3))
                weight = counts[:, None].astype(float)
        # An entry without weight was not released: any node will do.
        return {"nodes": x, "logw": np.where(weight > 0, logw, 0.0), "plain": plain, "weight": weight}

    def _with_point_masses(self, places: Array, x: Array, logw: Array, plain: Array) -> tuple[Array, Array, Array]:
        """The same with a first node for each point mass, which has a chance instead of a density.

        A record that is known to be there keeps that node alone.
        """
        places = np.broadcast_to(places.reshape(len(places), self.model.n, self.model.k), (len(places), *x.shape[1:]))
        own, free = np.full(places.shape, -np.inf), np.full(places.shape, -np.inf)
        for j, (grid, column) in enumerate(zip(self.grids, self.observed.columns, strict=True)):
            known, at = column.known_values, places[:, :, j]
            vague = np.flatnonzero(np.isnan(known) & ~np.asarray(column.uninformative))
            if len(vague):
                own[:, vague, j], free[:, vague, j] = np.asarray(column.take(vague).log(at[:, vague])), 0.0
            own[:, :, j] = np.where(at == known, 0.0, own[:, :, j])
            there = (at == known).any(axis=0)
            logw[:, there, j] = -np.inf
            x[:, there, j] = float(grid.support_map.x((grid.low + grid.high) / 2))
        return np.concatenate([places, x]), np.concatenate([own, logw]), np.concatenate([free, plain])

    def _log_weights_without_release(self, column: ColumnLikelihood, x: Array, logw: Array) -> Array:
        """Log weights of the nodes without the likelihood; nothing for entries that are known or categories."""
        out = np.full(x.shape, -np.inf)
        vague = np.flatnonzero(np.isnan(column.known_values) & ~np.asarray(column.uninformative))
        if len(vague) and not self.model.discrete and column.support is None:
            with np.errstate(invalid="ignore"):
                logs = logw[:, vague] - np.asarray(column.take(vague).log(x[:, vague]))
            out[:, vague] = np.where(np.isfinite(logs), logs, -np.inf)
        return out

    @staticmethod
    def _log_densities(model: CompiledModel, data: Graphs) -> TensorVariable:
        x, masses = data["nodes"], model.point_masses
        dense = x if masses is None else x[len(masses.places) :]
        found = model.log_density_graph_at(dense.reshape((-1, *model.shape)).astype(model.x.dtype)).reshape(dense.shape)
        if masses is None:
            return found
        import pytensor.tensor as pt

        chances = masses.log_chances.reshape((len(masses.places), model.n, model.k))
        return pt.concatenate([pt.broadcast_to(chances, (len(masses.places), *x.shape[1:])), found])

    @staticmethod
    def _sum_and_slope(logs: TensorVariable, data: Graphs) -> tuple[TensorVariable, TensorVariable]:
        import pytensor.tensor as pt

        weight = data["weight"]
        peak = pt.max(logs, axis=0)
        # An entry that nothing can explain has an infinite top: its exponentials are taken from zero instead.
        safe = pt.switch(pt.isinf(peak), 0.0, peak)
        inside = logs - safe + data["logw"]
        top = pt.max(inside, axis=0)
        base = pt.switch(pt.isinf(top), 0.0, top)
        share, plain = pt.exp(inside - base), pt.exp(logs - safe + data["plain"])
        mass, total = (pt.maximum(pt.sum(each, axis=0), 1e-300) for each in (share, plain))
        # A huge peak is never added to be taken off again: rounding would be all that is left.
        excess = pt.log(total) + safe > 0
        slope = weight * (share / mass - pt.switch(excess, plain / total, 0.0))
        return pt.sum(weight * (pt.log(mass) + base - pt.switch(excess, pt.log(total), -safe))), slope
