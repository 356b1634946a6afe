"""p(release | parameters) with the records integrated out: what every way to integrate them gives.

Given the parameters the records are independent, and a release that works record by record tells about each of them
apart: p(release | parameters) is a product of integrals over one record. The released data and the mask's parameters
are data of one compiled model, and every release that is integrated in the same way shares it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...beliefs.pymc import keeping_starts, without_notices
from ...channels.likelihood import ReleaseLikelihood
from ...protocols import Array
from .model import CompiledModel, Theta, point_count
from .programs import vectorised
from .support import RecordGrid

if TYPE_CHECKING:
    from pymc import Model
    from pytensor.tensor.variable import TensorVariable

    Graphs = Mapping[str, TensorVariable]

CHUNK = 1_000_000
"""Numbers held at a time when a likelihood is taken at many parameter points."""


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

    def missed_by_sampler(self, theta: Theta) -> Array:
        """What `log_likelihood` adds to that of the graph, which samplers follow, up to a constant: ``(S,)``."""
        return np.zeros(point_count(theta))

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
