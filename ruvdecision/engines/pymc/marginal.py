"""Ways to integrate the records out, so that only the parameters of a PyMC model are left.

Given the parameters the records are independent, and a release that works record by record tells about each of them
apart: p(release | parameters) is a product of integrals over one record. Normal records with normal noise have them in
closed form. Any other law is summed over nodes: the likelihood of the release at the nodes is data, the density of the
records there is the model's. So the released data and the mask's parameters are data of one compiled model, and every
mask that takes the same route shares it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...beliefs.pymc import keeping_starts, quiet
from ...channels.likelihood import ReleaseLikelihood
from ...protocols import Array
from .model import CompiledModel, Theta
from .programs import vectorised
from .support import Reach

Data = Mapping[str, Array]
CHUNK = 8_000_000
"""Numbers held at a time when a likelihood is taken at many parameter points."""
LARGEST_GRID = 4096
PANELS, ORDER = 4, 12
"""Panels and nodes per panel of one record, where records do not share their nodes."""


@dataclass(frozen=True, eq=False)
class Route:
    """How the records are integrated out of one model."""

    compiled: CompiledModel
    """The model that is sampled: that of one record where one stands for all."""
    name: ClassVar[str] = ""
    fields: ClassVar[tuple[tuple[str, int], ...]] = ()
    """Names and numbers of axes of the data that the model takes."""
    needs_reach: ClassVar[bool] = False

    def data(self, observed: ReleaseLikelihood, reach: Sequence[Reach] | None) -> dict[str, Array]:
        """What the model takes for a release; ``reach`` says where the records of each column can lie."""
        raise NotImplementedError

    def graph(self, compiled: CompiledModel, data: Mapping[str, Any]) -> Any:
        """Log likelihood of a release as a graph of the parameters of ``compiled`` and of the data."""
        raise NotImplementedError

    def width(self, data: Data) -> int:
        """How many numbers the likelihood makes at one parameter point."""
        return max(a.size for a in data.values())

    @property
    def key(self) -> tuple[Any, ...]:
        """Routes with the same key share a compiled model."""
        return (self.name,)

    def model(self, data: Data) -> Any:
        """The PyMC model with the records integrated out and the release as its data."""
        import pymc as pm

        fresh = CompiledModel.of(self.compiled.belief, self.compiled.n)
        with quiet(), fresh.model:
            symbols = {name: pm.Data(f"release::{name}", data[name]) for name, _ in self.fields}
            pm.Potential("release", self.graph(fresh, symbols))
        with quiet():
            zeros = np.zeros(fresh.shape, dtype=fresh.x.dtype)
            return keeping_starts(fresh.model, lambda m: pm.do(m, {fresh.x.name: zeros}))

    @property
    def _many(self) -> Any:
        key = ("many", *self.key)
        if key not in self.compiled.cache:
            import pytensor.tensor as pt

            symbols = {name: pt.tensor(name, dtype="float64", shape=(None,) * axes) for name, axes in self.fields}
            self.compiled.cache[key] = vectorised(
                [self.graph(self.compiled, symbols)], self.compiled.free, extra=list(symbols.values())
            )
        return self.compiled.cache[key]

    def log_likelihood(self, theta: Theta, data: Data) -> Array:
        """Log likelihood of a release at many parameter points, up to a constant of the release: ``(S,)``."""
        points = [theta[rv.name] for rv in self.compiled.free]
        count = len(points[0]) if points else 1
        step = max(1, CHUNK // max(1, self.width(data)))
        extra = [np.asarray(data[name], dtype=np.float64) for name, _ in self.fields]
        parts = [self._many([p[i : i + step] for p in points], extra)[0] for i in range(0, count, step)]
        return np.concatenate([np.broadcast_to(part, (min(step, count - i * step),)) for i, part in enumerate(parts)])


@dataclass(frozen=True, eq=False)
class NormalRoute(Route):
    """Normal records, normal noise, entry by entry: variances add."""

    name = "closed form"
    fields = (("centre", 2), ("variance", 2), ("weight", 2))

    def data(self, observed: ReleaseLikelihood, reach: Sequence[Reach] | None) -> dict[str, Array]:
        pairs = [column.normal for column in observed.columns]
        assert all(pair is not None for pair in pairs)
        centre, variance = (np.stack([pair[i] for pair in pairs], axis=1) for i in (0, 1))  # type: ignore[index]
        weight = np.isfinite(variance).astype(float)
        return {
            "centre": np.where(weight > 0, centre, 0.0),
            "variance": np.where(weight > 0, variance, 1.0),
            "weight": weight,
        }

    def graph(self, compiled: CompiledModel, data: Mapping[str, Any]) -> Any:
        import pytensor.tensor as pt

        mean, variance = (_entries(g, compiled) for g in compiled.normal_graph())
        total = variance + data["variance"]
        return -0.5 * pt.sum(data["weight"] * ((data["centre"] - mean) ** 2 / total + pt.log(2 * np.pi * total)))


@dataclass(frozen=True, eq=False)
class RowsRoute(Route):
    """Normal rows of several variables, released whole with the same normal noise: covariances add."""

    name = "closed form, rows"
    fields = (("centre", 2), ("covariance", 2), ("weight", 1))

    def data(self, observed: ReleaseLikelihood, reach: Sequence[Reach] | None) -> dict[str, Array]:
        centre, covariance, told = normal_rows(observed)
        return {"centre": centre, "covariance": covariance[0], "weight": told[:, 0]}

    def graph(self, compiled: CompiledModel, data: Mapping[str, Any]) -> Any:
        import pytensor.tensor as pt

        mean, covariance = _one_row(compiled)
        root = pt.linalg.cholesky(covariance + data["covariance"])
        solved = pt.linalg.solve_triangular(root, (data["centre"] - mean).T, lower=True)
        logs = pt.sum(pt.log(pt.diag(root))) + 0.5 * compiled.k * np.log(2 * np.pi)
        return -pt.sum(data["weight"] * (0.5 * pt.sum(solved**2, axis=0) + logs))


@dataclass(frozen=True, eq=False)
class UnevenRowsRoute(Route):
    """Normal rows with noise or released entries that differ from row to row; entries that are missing are left out."""

    name = "closed form, uneven rows"
    fields = (("centre", 2), ("covariance", 3), ("weight", 2))

    def data(self, observed: ReleaseLikelihood, reach: Sequence[Reach] | None) -> dict[str, Array]:
        centre, covariance, told = normal_rows(observed)
        return {
            "centre": centre,
            "covariance": np.broadcast_to(covariance, (len(centre), *covariance.shape[1:])),
            "weight": told,
        }

    def width(self, data: Data) -> int:
        return int(data["covariance"].size)

    def graph(self, compiled: CompiledModel, data: Mapping[str, Any]) -> Any:
        import pytensor.tensor as pt

        mean, covariance = _one_row(compiled) if compiled.n == 1 else compiled.normal_graph()
        told = data["weight"]
        # An entry that is missing has variance one and no residual, so that it counts for nothing.
        both = told[:, :, None] * told[:, None, :]
        own = covariance if covariance.ndim == 3 else covariance[None]
        total = both * (data["covariance"] + own) + (1 - told)[:, :, None] * pt.eye(compiled.k)[None]
        root = pt.linalg.cholesky(total)
        residual = told * (data["centre"] - mean)
        solved = pt.linalg.solve_triangular(root, residual[:, :, None], lower=True, b_ndim=2)
        logs = pt.sum(pt.log(pt.diagonal(root, axis1=-2, axis2=-1)))
        return -0.5 * pt.sum(solved**2) - logs - 0.5 * np.log(2 * np.pi) * pt.sum(told)


def _one_row(compiled: CompiledModel) -> tuple[Any, Any]:
    """Mean and covariance that all rows share."""
    mean, covariance = compiled.normal_graph()
    return mean if mean.ndim == 1 else mean[0], covariance if covariance.ndim == 2 else covariance[0]


def normal_rows(observed: ReleaseLikelihood) -> tuple[Array, Array, Array]:
    """Released rows, covariance of their noise (one for all where it is the same), and which entries were told."""
    pairs = [column.normal for column in observed.columns]
    centre, variance = (np.stack([pair[i] for pair in pairs], axis=1) for i in (0, 1))  # type: ignore[index]
    told = np.isfinite(variance)
    covariance = np.where(told, variance, 0.0)[:, :, None] * np.eye(observed.k)
    if observed.joint is not None:
        covariance = covariance + observed.joint.covariance
        centre = np.where(np.isnan(observed.joint.centre), centre, observed.joint.centre)
        told = told | ~np.isnan(observed.joint.centre)
        covariance = covariance * (told[:, :, None] & told[:, None, :])
    if len(covariance) > 1 and (covariance == covariance[:1]).all():
        covariance = covariance[:1]
    return np.where(told, centre, 0.0), covariance, told.astype(float)


@dataclass(frozen=True, eq=False)
class GridRoute(Route):
    """Records of one law share a grid, or the values of a count; the release's likelihood there is a matrix.

    A density that is narrower than the grid's step may pile up more than all of its mass on one point; it is cut back
    to one.
    """

    name = "integrated on a shared grid"
    fields = (("nodes", 2), ("logw", 1), ("table", 2), ("weight", 1))
    needs_reach = True

    def data(self, observed: ReleaseLikelihood, reach: Sequence[Reach] | None) -> dict[str, Array]:
        assert reach is not None
        column = observed.columns[0]
        x, logw = reach[0].grid()
        told = ~np.asarray(column.uninformative)
        logs = np.asarray(column.take(np.flatnonzero(told)).log(x[:, None])) + logw[:, None]
        with np.errstate(invalid="ignore"):
            top = np.where(np.isfinite(logs.max(axis=0)), logs.max(axis=0), 0.0)
        table, counts = np.unique(np.exp(logs - top).T, axis=0, return_counts=True)
        return {"nodes": x[:, None], "logw": logw, "table": table, "weight": counts.astype(float)}

    def graph(self, compiled: CompiledModel, data: Mapping[str, Any]) -> Any:
        import pytensor.tensor as pt

        logs = compiled.density_at(data["nodes"].astype(compiled.x.dtype))[:, 0]
        top = pt.max(logs)
        mass = pt.dot(data["table"], pt.exp(logs - top))
        whole = pt.log(pt.sum(pt.exp(logs + data["logw"] - top))) + top
        # Far from the data the sum may vanish: a floor keeps the log finite there.
        return pt.sum(data["weight"] * (pt.log(pt.maximum(mass, 1e-300)) + top - pt.maximum(whole, 0.0)))

    def width(self, data: Data) -> int:
        return int(data["nodes"].size + data["weight"].size)

    def log_likelihood(self, theta: Theta, data: Data) -> Array:
        # One product for all points; the graph would take the table anew for each.
        count = len(next(iter(theta.values()))) if theta else 1
        step = max(1, CHUNK // max(1, self.width(data)))
        out = np.empty(count)
        for i in range(0, count, step):
            logs = self.compiled.log_density({k: v[i : i + step] for k, v in theta.items()}, data["nodes"])[:, :, 0]
            with np.errstate(invalid="ignore", divide="ignore"):
                top = logs.max(axis=1, keepdims=True)
                heights = np.exp(logs - top)
                whole = np.log(heights @ np.exp(data["logw"]))[:, None] + top
                mass = heights @ data["table"].T
                out[i : i + step] = (np.log(np.maximum(mass, 1e-300)) + top - np.maximum(whole, 0.0)) @ data["weight"]
        return out


@dataclass(frozen=True, eq=False)
class NodesRoute(Route):
    """Any law: every record has nodes of its own, cut where the release's likelihood is not smooth.

    As on a shared grid, a density narrower than the nodes' distance is cut back to a mass of one.
    """

    name = "integrated over nodes"
    fields = (("nodes", 3), ("logw", 3), ("plain", 3), ("weight", 2))
    needs_reach = True

    def data(self, observed: ReleaseLikelihood, reach: Sequence[Reach] | None) -> dict[str, Array]:
        assert reach is not None
        found = [r.nodes(column, PANELS, ORDER) for r, column in zip(reach, observed.columns, strict=True)]
        count = max(len(x) for x, _ in found)
        x = np.stack([_padded(x, count, x[0]) for x, _ in found], axis=2)
        logw = np.stack([_padded(w, count, np.full(w.shape[1], -np.inf)) for _, w in found], axis=2)
        plain = np.stack([self._plain(c, x[:, :, j], logw[:, :, j]) for j, c in enumerate(observed.columns)], axis=2)
        weight = np.stack([~np.asarray(column.uninformative) for column in observed.columns], axis=1).astype(float)
        if self.compiled.n == 1 and observed.n > 1 and observed.k == 1:
            # Records that were released alike count several times.
            both = np.concatenate([x[:, :, 0], logw[:, :, 0], plain[:, :, 0]])[:, weight[:, 0] > 0]
            if both.shape[1]:
                both, counts = np.unique(both, axis=1, return_counts=True)
                x, logw, plain = (both[i * count : (i + 1) * count, :, None] for i in range(3))
                weight = counts[:, None].astype(float)
        # Nothing is told about an entry without weight: any node will do.
        return {"nodes": x, "logw": np.where(weight > 0, logw, 0.0), "plain": plain, "weight": weight}

    def _plain(self, column: Any, x: Array, logw: Array) -> Array:
        """Log weights of the nodes without the likelihood; nothing for entries that are known or categories."""
        if self.compiled.discrete or column.support is not None:
            return np.full(x.shape, -np.inf)
        vague = np.flatnonzero(np.isnan(column.known) & ~np.asarray(column.uninformative))
        out = np.full(x.shape, -np.inf)
        if len(vague):
            with np.errstate(invalid="ignore"):
                logs = logw[:, vague] - np.asarray(column.take(vague).log(x[:, vague]))
            out[:, vague] = np.where(np.isfinite(logs), logs, -np.inf)
        return out

    def graph(self, compiled: CompiledModel, data: Mapping[str, Any]) -> Any:
        import pytensor.tensor as pt

        x = data["nodes"]
        if compiled.n == 1:
            flat = x.reshape((-1, 1, compiled.k)) if not compiled.scalar else x.reshape((-1, 1))
            logs = compiled.density_at(flat.astype(compiled.x.dtype)).reshape(x.shape)
        else:
            flat = x if not compiled.scalar else x[:, :, 0]
            logs = compiled.density_at(flat.astype(compiled.x.dtype)).reshape(x.shape)
        inside = logs + data["logw"]
        top = pt.max(inside, axis=0)
        # An entry that nothing can explain has an infinite top: its exponentials are taken from zero instead.
        base = pt.switch(pt.isinf(top), 0.0, top)
        mass = pt.sum(pt.exp(inside - base), axis=0)
        peak = pt.max(logs, axis=0)
        safe = pt.switch(pt.isinf(peak), 0.0, peak)
        whole = pt.log(pt.maximum(pt.sum(pt.exp(logs - safe + data["plain"]), axis=0), 1e-300)) + safe
        return pt.sum(data["weight"] * (pt.log(pt.maximum(mass, 1e-300)) + base - pt.maximum(whole, 0.0)))


@dataclass(frozen=True)
class Choice:
    """How a release is worked on: by a route, or with the records sampled too, and why."""

    route: type[Route] | None
    reason: str = ""


def choose_route(compiled: CompiledModel, observed: ReleaseLikelihood) -> Choice:
    """The route for a release, or why the records cannot be integrated out."""
    if compiled.kind == "joint":
        return Choice(None, "the records depend on each other given the parameters")
    if observed.averages is not None:
        return Choice(None, "averages tie records together")
    if observed.shuffled and compiled.single is None:
        return Choice(None, "rows in unknown order need records of one law")
    normal = all(column.normal is not None for column in observed.columns)
    if compiled.kind == "mvnormal":
        if not normal:
            return Choice(None, "only normal noise can be integrated out of correlated variables")
        _, covariance, told = normal_rows(observed)
        even = len(covariance) == 1 and (told == told[:, :1]).all() and compiled.single is not None
        return Choice(RowsRoute if even and told.any() else UnevenRowsRoute)
    if observed.joint is not None:
        return Choice(None, "noise that is correlated across columns ties the variables together")
    if compiled.kind == "normal" and normal:
        return Choice(NormalRoute)
    if compiled.single is None or not compiled.scalar:
        return Choice(NodesRoute)
    if compiled.discrete:
        return Choice(GridRoute)
    column = observed.columns[0]
    smooth = not np.isfinite(column.cuts.places).any() and column.support is None and np.isnan(column.known).all()
    open_ends = np.isinf(column.low).all() and np.isinf(column.high).all()
    return Choice(GridRoute if smooth and open_ends else NodesRoute)


def fit_route(
    kind: type[Route], observed: ReleaseLikelihood, reach: tuple[Reach, ...] | None
) -> tuple[type[Route], tuple[Reach, ...] | None]:
    """The route with nodes that are fine enough for a release.

    A shared grid that would be too large gives way to nodes of each.
    """
    if not kind.needs_reach or reach is None:
        return kind, None
    if kind is not GridRoute:
        return kind, reach
    cut = reach[0].for_release(observed.columns[0], LARGEST_GRID)
    return (GridRoute, (cut,)) if cut is not None else (NodesRoute, reach)


def _entries(graph: Any, compiled: CompiledModel) -> Any:
    """A graph that broadcasts against an n by k matrix of entries."""
    if graph.ndim == 0 or not compiled.scalar:
        return graph
    return graph[:, None]


def _padded(array: Array, count: int, filler: Array) -> Array:
    return (
        array
        if len(array) == count
        else np.concatenate([array, np.broadcast_to(filler, (count - len(array), array.shape[1]))])
    )
