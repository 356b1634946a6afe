"""The likelihood of the parameters with the records integrated out.

Given the parameters the records are independent, and a release that works record by record tells about each of them
apart: p(release | parameters) is a product of integrals over one record. Normal records with normal noise have them in
closed form. Any other law is summed over nodes: the likelihood of the release at the nodes is data, the density of the
records there is the model's. So the released data and the mask's parameters are data of one compiled model, and every
release that is integrated in the same way shares it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...beliefs.pymc import keeping_starts, without_notices
from ...channels.likelihood import Between, ColumnLikelihood, ReleaseLikelihood, join_rows
from ...channels.likelihood.product import combine_observations
from ...protocols import Array
from .model import CompiledModel, Theta, point_count
from .programs import vectorised
from .support import ORDER, RecordGrid, SupportMap, cuts_of, find_grid, informative_entries, row_ends

if TYPE_CHECKING:
    from pymc import Model
    from pytensor.tensor.variable import TensorVariable

    Graphs = Mapping[str, TensorVariable]

CHUNK = 1_000_000
"""Numbers held at a time when a likelihood is taken at many parameter points."""
LARGEST_GRID, MOST_CUTS = 4096, 256
PROBES = 257
"""Places that are looked at for laws narrower than the nodes' distance."""
RESOLVED = 4.0
"""Distances of nodes that a law must be wide."""
CLOSER, TINY = 16, 1e-7
"""Times that a peak is looked at more closely."""
OWN_NODES, APART = 37, 0.5
"""Nodes of a law that is narrower than the others' distance, and how many standard deviations lie between them."""
WHOLE, FLOOR = 1e-6, -690.0
PANELS = 4
"""Panels of one record, where records do not share their nodes."""


@dataclass(frozen=True, eq=False)
class MarginalLikelihood:
    """log p(release | parameters) of one release."""

    model: CompiledModel
    """That of one record where one stands for all."""
    observed: ReleaseLikelihood
    grids: tuple[RecordGrid, ...] = ()
    """Where the records of each column can lie, for laws that are summed over nodes."""
    name: ClassVar[str] = ""
    axes: ClassVar[Mapping[str, int]] = {}
    """Names of the data that the compiled model takes, and how many axes they have."""
    on_grid: ClassVar[bool] = False

    @cached_property
    def data(self) -> dict[str, Array]:
        """The release as the compiled model takes it."""
        raise NotImplementedError

    @staticmethod
    def graph(model: CompiledModel, data: Graphs) -> TensorVariable:
        """The log likelihood as a graph of the parameters of ``model`` and of the data."""
        raise NotImplementedError

    @classmethod
    def potential(cls, model: CompiledModel, data: Graphs) -> TensorVariable:
        """The same for a sampler, which takes its gradient."""
        return cls.graph(model, data)

    def pymc_model(self) -> Model:
        """The PyMC model with the records integrated out and the release as its data."""
        import pymc as pm

        fresh = CompiledModel.of(self.model.belief, self.model.n)
        with without_notices(), fresh.model:
            pm.Potential(
                "release",
                self.potential(fresh, {name: pm.Data(f"release::{name}", self.data[name]) for name in self.axes}),
            )
        with without_notices():
            zeros = np.zeros(fresh.shape, dtype=fresh.x.dtype)
            return keeping_starts(fresh.model, lambda m: pm.do(m, {fresh.x.name: zeros}))

    def log_likelihood(self, theta: Theta) -> Array:
        """At many parameter points, up to a constant of the release: ``(S,)``."""
        return self._log_likelihood_by_nodes(theta)

    def _log_likelihood_by_nodes(self, theta: Theta) -> Array:
        import pytensor.tensor as pt

        key = ("marginal likelihood", self.name)
        if key not in self.model.cache:
            symbols = {name: pt.tensor(name, dtype="float64", shape=(None,) * axes) for name, axes in self.axes.items()}
            self.model.cache[key] = vectorised(
                [self.graph(self.model, symbols)], self.model.free, extra=list(symbols.values())
            )
        function = self.model.cache[key]
        points = [theta[rv.name] for rv in self.model.free]
        count, step = point_count(theta), max(1, CHUNK // max(1, *(a.size for a in self.data.values())))
        extra = [self.data[name] for name in self.axes]
        return np.concatenate(
            [
                np.broadcast_to(function([p[i : i + step] for p in points], extra)[0], (min(step, count - i),))
                for i in range(0, count, step)
            ]
        )

    @cached_property
    def refined(self) -> MarginalLikelihood:
        """The same with about twice as many nodes."""
        return replace(self, grids=tuple(grid.refined() for grid in self.grids))

    def refinement_error(self, theta: Theta, weight: Array | None = None) -> float:
        """How far finer nodes for the records would move the log likelihood at these parameters.

        ``weight`` says how much each of them counts, one at most.
        """
        if not self.grids:
            return 0.0
        with np.errstate(invalid="ignore"):
            moved = self.log_likelihood(theta) - self.refined.log_likelihood(theta)
        there = ~np.isnan(moved)  # without density either way
        weight = np.ones(len(moved)) if weight is None else np.where(np.isnan(weight), 0.0, weight)
        moved, weight = moved[there & (weight > 0)], weight[there & (weight > 0)]
        if not len(moved) or not np.isfinite(moved).all():
            return np.inf
        return float(np.ptp(weight * (moved - moved[weight.argmax()])))


class NormalMarginal(MarginalLikelihood):
    """Normal records, normal noise, entry by entry: variances add."""

    name = "closed form"
    axes: ClassVar[Mapping[str, int]] = {"centre": 2, "variance": 2, "weight": 2}

    @cached_property
    def data(self) -> dict[str, Array]:
        centre, variance = normal_entries(self.observed)
        weight = np.isfinite(variance)
        return {
            "centre": np.where(weight, centre, 0.0),
            "variance": np.where(weight, variance, 1.0),
            "weight": weight.astype(float),
        }

    @staticmethod
    def graph(model: CompiledModel, data: Graphs) -> TensorVariable:
        import pytensor.tensor as pt

        # Moments that broadcast against an n by k matrix of entries.
        mean, variance = (g[:, None] if g.ndim and model.scalar else g for g in model.normal_graph())
        total = variance + data["variance"]
        return -0.5 * pt.sum(data["weight"] * ((data["centre"] - mean) ** 2 / total + pt.log(2 * np.pi * total)))


class RowsMarginal(MarginalLikelihood):
    """Normal rows of several variables, released whole with the same normal noise: covariances add."""

    name = "closed form, rows"
    axes: ClassVar[Mapping[str, int]] = {"centre": 2, "covariance": 2, "weight": 1}

    @cached_property
    def data(self) -> dict[str, Array]:
        centre, covariance, released = normal_rows(self.observed)
        return {"centre": centre, "covariance": covariance[0], "weight": released[:, 0]}

    @staticmethod
    def graph(model: CompiledModel, data: Graphs) -> TensorVariable:
        import pytensor.tensor as pt

        mean, covariance = _one_row(model)
        root = pt.linalg.cholesky(covariance + data["covariance"])
        solved = pt.linalg.solve_triangular(root, (data["centre"] - mean).T, lower=True)
        logs = pt.sum(pt.log(pt.diag(root))) + 0.5 * model.k * np.log(2 * np.pi)
        return -pt.sum(data["weight"] * (0.5 * pt.sum(solved**2, axis=0) + logs))


class UnevenRowsMarginal(MarginalLikelihood):
    """Normal rows with noise or released entries that differ from row to row; entries that are missing are left out."""

    name = "closed form, uneven rows"
    axes: ClassVar[Mapping[str, int]] = {"centre": 2, "covariance": 3, "weight": 2}

    @cached_property
    def data(self) -> dict[str, Array]:
        centre, covariance, released = normal_rows(self.observed)
        covariance = np.broadcast_to(covariance, (len(centre), *covariance.shape[1:]))
        return {"centre": centre, "covariance": covariance, "weight": released}

    @staticmethod
    def graph(model: CompiledModel, data: Graphs) -> TensorVariable:
        import pytensor.tensor as pt

        mean, covariance = model.normal_graph()
        # One for all rows, whatever their number.
        mean = mean[0] if mean.ndim == 2 and 1 in (model.n, mean.type.shape[0]) else mean
        covariance = covariance[0] if covariance.ndim == 3 and 1 in (model.n, covariance.type.shape[0]) else covariance
        released = data["weight"]
        # An entry that is missing has variance one and no residual, so that it counts for nothing.
        both = released[:, :, None] * released[:, None, :]
        own = covariance if covariance.ndim == 3 else covariance[None]
        total = both * (data["covariance"] + own) + (1 - released)[:, :, None] * pt.eye(model.k)[None]
        root = pt.linalg.cholesky(total)
        residual = released * (data["centre"] - mean)
        solved = pt.linalg.solve_triangular(root, residual[:, :, None], lower=True, b_ndim=2)
        logs = pt.sum(pt.log(pt.diagonal(root, axis1=-2, axis2=-1)))
        return -0.5 * pt.sum(solved**2) - logs - 0.5 * np.log(2 * np.pi) * pt.sum(released)


def _one_row(model: CompiledModel) -> tuple[TensorVariable, TensorVariable]:
    """Mean and covariance that all rows share."""
    mean, covariance = model.normal_graph()
    return mean if mean.ndim == 1 else mean[0], covariance if covariance.ndim == 2 else covariance[0]


def normal_entries(observed: ReleaseLikelihood) -> tuple[Array, Array]:
    """Released values and variances of their normal noise, ``(n, k)`` each: 0 is known, infinite is not released."""
    pairs = [column.normal for column in observed.columns]
    centre, variance = (np.stack([pair[i] for pair in pairs], axis=1) for i in (0, 1))  # type: ignore[index]
    return centre, variance


def normal_rows(observed: ReleaseLikelihood) -> tuple[Array, Array, Array]:
    """Released rows, covariance of their noise (one for all where it is the same), and which entries were released."""
    centre, variance = normal_entries(observed)
    released = np.isfinite(variance)
    covariance = np.where(released, variance, 0.0)[:, :, None] * np.eye(observed.k)
    if observed.joint is not None:
        covariance = covariance + observed.joint.covariance
        centre = np.where(np.isnan(observed.joint.centre), centre, observed.joint.centre)
        released = released | ~np.isnan(observed.joint.centre)
        covariance = covariance * (released[:, :, None] & released[:, None, :])
    if len(covariance) > 1 and (covariance == covariance[:1]).all():
        covariance = covariance[:1]
    return np.where(released, centre, 0.0), covariance, released.astype(float)


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
            found[some] = self._by_own_nodes({k: v[some] for k, v in theta.items()}, laws)
        return found

    @cached_property
    def _may_be_narrow(self) -> bool:
        one = self.model.n == 1 and self.model.scalar and not self.model.discrete and bool(self.model.free)
        one = one and self.model.point_masses is None
        return one and self.observed.columns[0].support is None and bool(np.isfinite(self._largest_node_distance))

    @property
    def _largest_node_distance(self) -> float:
        """The largest distance of two nodes, on the mapped line."""
        raise NotImplementedError

    @property
    def _log_constant(self) -> float:
        """By how much the log likelihood of `_log_likelihood_by_nodes` is larger than log p(release | parameters)."""
        return 0.0

    def _narrow_points(self, theta: Theta) -> Iterator[tuple[Array, NarrowLaws]]:
        """Parameter points at which a record's law is narrower than the nodes can see, with these laws."""
        grid, count = self.grids[0], point_count(theta)
        half = 0.75 * (grid.high - grid.low)
        t = (grid.low + grid.high) / 2 + half * np.linspace(-1, 1, PROBES)
        x, slope = grid.support_map.x(t), grid.support_map.log_slope(t)
        step = max(1, CHUNK // PROBES)
        for start in range(0, count, step):
            part = {k: v[start : start + step] for k, v in theta.items()}
            heights = self.model.entry_log_density(part, x)[:, :, 0] + slope
            heights = np.where(np.isnan(heights), -np.inf, heights)
            top = heights.max(axis=1)
            with np.errstate(invalid="ignore"):
                width = np.sum(np.exp(heights - top[:, None]), axis=1) * (t[1] - t[0])
            some = np.flatnonzero(np.isfinite(top) & (width < RESOLVED * max(self._largest_node_distance, t[1] - t[0])))
            if len(some):
                own = {k: v[some] for k, v in part.items()}
                laws = NarrowLaws.around_peaks(
                    self.model, grid.support_map, own, t[heights[some].argmax(axis=1)], t[1] - t[0]
                )
                good = laws.whole & (laws.sd * np.sqrt(2 * np.pi) < RESOLVED * self._largest_node_distance)
                if good.any():
                    yield start + some[good], laws.take(good)

    def _by_own_nodes(self, theta: Theta, laws: NarrowLaws) -> Array:
        column = self.observed.columns[0]
        known, told = ~np.isnan(column.known_values), ~np.asarray(column.uninformative)
        total = np.full(len(laws.sd), self._log_constant)
        if (known & told).any():
            total = total + self.model.entry_log_density(theta, column.known_values[known & told])[:, :, 0].sum(axis=1)
        vague = np.flatnonzero(told & ~known)
        step = max(1, CHUNK // max(1, laws.x.shape[1] * len(vague)))
        for i in range(0, len(total) if len(vague) else 0, step):
            x, logs = laws.x[i : i + step], laws.log_mass[i : i + step]
            likelihood = np.asarray(column.take(vague).log(x.reshape(-1, 1))).reshape(*x.shape, len(vague))
            likelihood += logs[..., None]
            top = np.maximum(likelihood.max(axis=1), FLOOR)
            with np.errstate(divide="ignore"):
                each = np.log(np.exp(likelihood - top[:, None]).sum(axis=1)) + top
            total[i : i + step] += np.maximum(each, FLOOR).sum(axis=1)
        return total


@dataclass(frozen=True, eq=False)
class NarrowLaws:
    """Laws of one record at S parameter points, each on nodes of its own: the trapezoid rule around its peak."""

    x: Array
    log_mass: Array
    """``(S, K)`` both."""
    sd: Array
    """Width of the peak on the mapped line, ``(S,)``."""

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Which of them the nodes hold in full."""
        return np.abs(np.exp(self.log_mass).sum(axis=1) - 1) < WHOLE

    def take(self, some: NDArray[np.bool_]) -> NarrowLaws:
        """Some of the laws."""
        return NarrowLaws(self.x[some], self.log_mass[some], self.sd[some])

    @classmethod
    def around_peaks(cls, model: CompiledModel, line: SupportMap, theta: Theta, t: Array, reach: float) -> NarrowLaws:
        """Around the peaks that lie within ``reach`` of ``t``, found by looking closer and closer."""

        def heights(places: Array) -> Array:
            found = model.pair_log_density(theta, line.x(places)) + line.log_slope(places)
            return np.where(np.isnan(found), -np.inf, found)

        look, rows = np.linspace(-1, 1, 33), np.arange(len(t))
        half, sd = np.full(len(t), 1.01 * reach), np.full(len(t), np.nan)
        for _ in range(CLOSER):
            places = t[:, None] + half[:, None] * look
            found = heights(places)
            top = np.clip(found.argmax(axis=1), 1, 31)
            t, step = places[rows, top], half / 16
            with np.errstate(invalid="ignore", divide="ignore"):
                falls = [found[rows, top] - found[rows, top + way] for way in (-1, 1)]
                sd = step / np.sqrt(falls[0] + falls[1])
                t = t + np.where(np.isfinite(sd), 0.5 * (falls[0] - falls[1]) / (falls[0] + falls[1]) * step, 0.0)
            if np.all((step < sd) | ~np.isfinite(sd) | (half < TINY * reach)):
                break
            half = np.where(step < sd, half, half / 10)
        # A law so narrow that rounding would show is a point mass, if the peak has all of it.
        point = sd < TINY * reach
        with np.errstate(invalid="ignore", divide="ignore"):
            places = t[:, None] + np.where(point, 0.0, sd)[:, None] * APART * (np.arange(OWN_NODES) - OWN_NODES // 2)
            mass = heights(places) + np.log(APART * sd)[:, None]
            peak = np.abs(np.exp(mass[:, OWN_NODES // 2]) * np.sqrt(2 * np.pi) / APART - 1) < 1e-3
        mass = np.where(point[:, None], np.where(peak, -np.log(OWN_NODES), -np.inf)[:, None], mass)
        return cls(line.x(places), np.where(np.isfinite(mass), mass, -np.inf), sd)


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
        return model.density_at(data["nodes"].astype(model.x.dtype))[:, 0]

    @staticmethod
    def _sum_and_slope(logs: TensorVariable, data: Graphs) -> tuple[TensorVariable, TensorVariable]:
        import pytensor.tensor as pt

        weight, table = data["weight"], data["table"].reshape((data["weight"].shape[0], logs.shape[0]))
        top = pt.max(logs)
        heights = pt.exp(logs - top)
        # Far from the data the sum may vanish: a floor keeps the log finite there.
        mass = pt.maximum(pt.dot(table, heights), 1e-300)
        terms, floor = pt.log(mass) + top, pt.switch(pt.lt(weight, 0.0), 0.0, -np.inf)
        slope = heights * pt.dot(pt.switch(pt.gt(terms, floor), weight / mass, 0.0), table)
        return pt.sum(weight * pt.maximum(terms, floor)), slope

    def _log_likelihood_by_nodes(self, theta: Theta) -> Array:
        # One product for all points; the graph would take the table anew for each.
        x, weight, count = self.data["nodes"], self.data["weight"], point_count(theta)
        table, floor = self.data["table"].reshape(len(weight), len(x)), np.where(weight < 0, 0.0, -np.inf)
        step = max(1, CHUNK // (len(x) + len(weight)))
        out = np.empty(count)
        for i in range(0, count, step):
            logs = self.model.log_density({k: v[i : i + step] for k, v in theta.items()}, x)[:, :, 0]
            with np.errstate(invalid="ignore", divide="ignore"):
                top = logs.max(axis=1, keepdims=True)
                mass = np.exp(logs - top) @ table.T
                out[i : i + step] = np.maximum(np.log(np.maximum(mass, 1e-300)) + top, floor) @ weight
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
        t = np.sort(np.clip(grid.support_map.t(x), grid.low, grid.high), axis=0)
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
        found = model.density_at(dense.reshape((-1, *model.shape)).astype(model.x.dtype)).reshape(dense.shape)
        if masses is None:
            return found
        import pytensor.tensor as pt

        chances = masses.log_chances.reshape((len(masses.places), model.n, model.k))
        return pt.concatenate([pt.broadcast_to(chances, (len(masses.places), *x.shape[1:])), found])

    @staticmethod
    def _sum_and_slope(logs: TensorVariable, data: Graphs) -> tuple[TensorVariable, TensorVariable]:
        import pytensor.tensor as pt

        weight = data["weight"]
        inside = logs + data["logw"]
        top, peak = pt.max(inside, axis=0), pt.max(logs, axis=0)
        # An entry that nothing can explain has an infinite top: its exponentials are taken from zero instead.
        base, safe = pt.switch(pt.isinf(top), 0.0, top), pt.switch(pt.isinf(peak), 0.0, peak)
        share, plain = pt.exp(inside - base), pt.exp(logs - safe + data["plain"])
        mass, total = (pt.maximum(pt.sum(each, axis=0), 1e-300) for each in (share, plain))
        whole = pt.log(total) + safe
        slope = weight * (share / mass - pt.switch(pt.gt(whole, 0.0), plain / total, 0.0))
        return pt.sum(weight * (pt.log(mass) + base - pt.maximum(whole, 0.0))), slope


def why_records_are_dependent(compiled: CompiledModel, observed: ReleaseLikelihood) -> str:
    """Why the records cannot be integrated out one by one; empty if they can."""
    if compiled.kind == "joint":
        return "the records depend on each other given the parameters"
    if observed.averages is not None:
        return "averages tie records together"
    if observed.shuffled and compiled.one_record_model is None:
        return "rows in unknown order need records of one law"
    if compiled.kind == "mvnormal":
        normal = all(column.normal is not None for column in observed.columns)
        return "" if normal else "only normal noise can be integrated out of correlated variables"
    return "noise that is correlated across columns ties the variables together" if observed.joint is not None else ""


def marginal_kind(compiled: CompiledModel, observed: ReleaseLikelihood) -> type[MarginalLikelihood]:
    """How the records behind a release are integrated out, where nothing ties them together."""
    if compiled.kind == "mvnormal":
        _, covariance, released = normal_rows(observed)
        even = len(covariance) == 1 and (released == released[:, :1]).all() and compiled.one_record_model is not None
        return RowsMarginal if even and released.any() else UnevenRowsMarginal
    if compiled.kind == "normal" and all(column.normal is not None for column in observed.columns):
        return NormalMarginal
    if compiled.one_record_model is None or not compiled.scalar or compiled.point_masses is not None:
        return NodesMarginal
    column = observed.columns[0]
    few = len(cuts_of(informative_entries(column))) <= MOST_CUTS
    smooth = few and column.support is None and np.isnan(column.known_values).all()
    open_ends = np.isinf(column.low).all() and np.isinf(column.high).all()
    return GridMarginal if compiled.discrete or (smooth and open_ends) else NodesMarginal


def _within_support(compiled: CompiledModel, observed: ReleaseLikelihood) -> ReleaseLikelihood:
    """What is told of records, each between the ends of its own law where these differ: nodes are cut there."""
    if compiled.discrete or compiled.one_record_model is not None or compiled.kind != "elementwise":
        return observed
    columns = list(observed.columns)
    for j, column in enumerate(columns):
        ends = row_ends(compiled, column, j)
        if ends is not None:
            bounded = (np.isfinite(ends[0]) | np.isfinite(ends[1])) & ~np.asarray(column.uninformative)
            rows, rest = (np.flatnonzero(some & np.isnan(column.known_values)) for some in (bounded, ~bounded))
            rest = np.setdiff1d(np.arange(column.n), rows)
            own = (
                combine_observations(column.take(rows), Between(ends[0][rows], ends[1][rows])) if len(rows) else column
            )
            columns[j] = join_rows(column.n, [(rows, own), (rest, column.take(rest))]) if len(rows) else column
    return replace(observed, columns=tuple(columns))


def marginal_likelihood(
    compiled: CompiledModel, observed: ReleaseLikelihood, grids: tuple[RecordGrid, ...] | None = None
) -> MarginalLikelihood:
    """The likelihood for a release, with nodes that are fine enough for it; found afresh unless ``grids`` are known.

    A shared grid that would be too large gives way to nodes of each record.
    """
    observed = _within_support(compiled, observed)
    kind, core = marginal_kind(compiled, observed), compiled.one_record_model or compiled
    if not kind.on_grid:
        return kind(core, observed)
    if grids is None:
        grids = tuple(find_grid(compiled, column, j) for j, column in enumerate(observed.columns))
    if kind is GridMarginal:
        cut = grids[0].for_release(observed.columns[0], LARGEST_GRID)
        kind, grids = (NodesMarginal, grids) if cut is None else (GridMarginal, (cut,))
    return kind(core, observed, grids)
