"""A PyMC model taken apart: its parameters, and the law of the records given them.

All functions work on many parameter points at once and run in plain numpy, so that nothing here needs a compiler.
``theta`` is a dictionary of the model's free variables in their natural scale, each of shape ``(S,) + its own shape``;
``u`` is an ``(S, d)`` matrix of the same points on the unconstrained scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from ...beliefs.pymc import BuiltModel, PyMCBelief, quiet, quiet_pymc
from ...errors import InputError
from ...protocols import Array
from .programs import vectorised

Theta = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class At:
    """What a model says at S points of the unconstrained scale."""

    log_prior: Array
    """``(S,)``, as `CompiledModel.log_prior`."""
    theta: dict[str, Array]
    """The points on their natural scale, as `CompiledModel.natural`."""
    normal: tuple[Array, Array] | None
    """Mean and variance of the records, as `CompiledModel.normal`; None if they are not normal, or were not wanted."""


@dataclass(frozen=True, eq=False)
class CompiledModel(BuiltModel):
    """A built model with its densities as numpy functions of many parameter points."""

    cache: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Compiled functions and the like, for whoever needs them again."""
    samplers: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Compiled samplers by the shape of the releases that they take."""

    # -- parameters ----------------------------------------------------------------------------------

    @cached_property
    def _values(self) -> list[Any]:
        return [self.model.rvs_to_values[rv] for rv in self.free]

    @cached_property
    def _point(self) -> Any:
        # PyMC compiles a function for it at every call.
        with quiet():
            return self.model.initial_point()

    @cached_property
    def initial(self) -> Array:
        """A starting point on the unconstrained scale."""
        return (
            np.concatenate([np.ravel(self._point[v.name]).astype(float) for v in self._values])
            if self._values
            else np.zeros(0)
        )

    @cached_property
    def _pieces(self) -> list[tuple[int, int, tuple[int, ...]]]:
        pieces, start = [], 0
        for v in self._values:
            shape = v.type.shape if None not in v.type.shape else np.shape(self._point[v.name])
            stop = start + int(np.prod(shape, dtype=int))
            pieces.append((start, stop, shape))
            start = stop
        return pieces

    @property
    def size(self) -> int:
        """How many unconstrained numbers the parameters are."""
        return self._pieces[-1][1] if self._pieces else 0

    def _split(self, u: Array) -> list[Array]:
        return [
            u[:, a:b].reshape((len(u), *shape)).astype(v.dtype)
            for (a, b, shape), v in zip(self._pieces, self._values, strict=True)
        ]

    @cached_property
    def _prior_graph(self) -> Any:
        others = [v for v in self.model.basic_RVs if v is not self.x]
        terms = [*others, *self.model.potentials]
        with quiet():
            return self.model.logp(vars=terms, jacobian=True, sum=True) if terms else _zero()

    @cached_property
    def _log_prior(self) -> Any:
        return vectorised([self._prior_graph], self._values)

    def log_prior(self, u: Any) -> Array:
        """Log density of parameters on the unconstrained scale, and of what the model has observed: ``(S,)``."""
        u = np.atleast_2d(np.asarray(u, dtype=np.float64))
        return np.broadcast_to(self._log_prior(self._split(u))[0], (len(u),))

    @cached_property
    def _log_prior_density(self) -> Any:
        pm = quiet_pymc()
        at = [rv.type(name=f"{rv.name}_at") for rv in self.free]
        with quiet():
            logs = [pm.logp(rv, value, warn_rvs=False).sum() for rv, value in zip(self.free, at, strict=True)]
        return vectorised([sum(logs[1:], logs[0])], [*self.free, *at])

    def log_prior_density(self, theta: Theta) -> Array:
        """Log prior density of the free variables on their natural scale, ``(S,)``.

        What the model has observed is left out.
        """
        if not self.free:
            return np.zeros(1)
        points = [theta[rv.name] for rv in self.free]
        return np.broadcast_to(self._log_prior_density([*points, *points])[0], (len(points[0]),))

    @cached_property
    def _natural(self) -> Any:
        with quiet():
            return vectorised(self.model.replace_rvs_by_values(list(self.free)), self._values)

    def natural(self, u: Any) -> dict[str, Array]:
        """Parameter points on their natural scale."""
        u = np.atleast_2d(np.asarray(u, dtype=np.float64))
        return self._named(self._natural(self._split(u)), len(u))

    def _named(self, found: Any, count: int) -> dict[str, Array]:
        return {
            v.name: np.broadcast_to(a, (count, *self.shapes[v.name])) for v, a in zip(self.free, found, strict=True)
        }

    @cached_property
    def _at(self) -> dict[bool, Any]:
        return {}

    def at(self, u: Any, normal: bool = True) -> At:
        """Log prior, natural scale and (if wanted) moments of normal records in one go."""
        u = np.atleast_2d(np.asarray(u, dtype=np.float64))
        normal = normal and self.kind in ("normal", "mvnormal")
        if normal not in self._at:
            self._at[normal] = self._vectorised_at(normal)
        return self._read(self._at[normal], u, normal)

    def _at_once(self, u: Array) -> At:
        """The same with graphs that nobody took the time to rewrite: for a look at a few points."""
        normal = self.kind in ("normal", "mvnormal")
        return self._read(self._vectorised_at(normal, stable=False), u, normal)

    def _vectorised_at(self, normal: bool, stable: bool = True) -> Any:
        with quiet():
            graphs = self.model.replace_rvs_by_values([*self.free, *(self.normal_graph() if normal else ())])
        return vectorised([self._prior_graph, *graphs], self._values, stable=stable)

    def _read(self, function: Any, u: Array, normal: bool) -> At:
        prior, *found = function(self._split(u))
        own = len(self.free)
        moments = self._lifted(found[own], found[own + 1], len(u)) if normal else None
        return At(np.broadcast_to(prior, (len(u),)), self._named(found[:own], len(u)), moments)

    @cached_property
    def _derive(self) -> Any:
        return vectorised(self.derived, self.free)

    def complete(self, theta: Theta) -> dict[str, Array]:
        """The parameters with everything that the model derives from them."""
        found = dict(theta)
        if self.derived:
            count = len(next(iter(theta.values()))) if theta else 1
            for v, a in zip(self.derived, self._derive([theta[rv.name] for rv in self.free]), strict=True):
                found[v.name] = np.broadcast_to(a, (count, *self.shapes[v.name]))
        return found

    # -- the records given the parameters ------------------------------------------------------------

    @cached_property
    def _moments(self) -> Any:
        mean, scale = self.normal_graph()
        return vectorised([mean, scale], self.free)

    def normal_graph(self) -> tuple[Any, Any]:
        """Mean and variance (covariance) of the records as graphs of the parameters: entry by entry, or of rows."""
        import pytensor.tensor as pt

        mean, scale = self.x.owner.op.dist_params(self.x.owner)
        if self.kind == "mvnormal":
            return pt.broadcast_to(mean, (*mean.shape[:-1], self.k)), scale
        return mean, scale**2

    def normal(self, theta: Theta) -> tuple[Array, Array]:
        """Mean and variance of normal records: ``(S, 1 or n)`` each, or ``(S, 1 or n, k)``.

        Covariances ``(..., k, k)``.
        """
        mean, variance = self._moments([theta[rv.name] for rv in self.free])
        return self._lifted(mean, variance, len(next(iter(theta.values()))) if theta else 1)

    def _lifted(self, mean: Array, variance: Array, count: int) -> tuple[Array, Array]:
        rank = len(self.shape)
        mean = _lift(np.asarray(mean, dtype=np.float64), rank, count)
        variance = _lift(np.asarray(variance, dtype=np.float64), rank + (self.kind == "mvnormal"), count)
        return mean, variance

    @cached_property
    def _density(self) -> Any:
        import pytensor.tensor as pt

        nodes = pt.tensor("nodes", dtype=self.x.dtype, shape=(None, *self.shape))
        return vectorised([self.density_at(nodes)], self.free, extra=[nodes])

    def density_at(self, nodes: Any) -> Any:
        """Graph of the log density of each entry at ``nodes``, a graph of shape ``(K, *shape)``."""
        from pytensor.graph.replace import vectorize_graph

        pm = quiet_pymc()
        value = self.x.type()
        with quiet():
            return vectorize_graph(pm.logp(self.x, value, warn_rvs=False), {value: nodes})

    def log_density(self, theta: Theta, nodes: Array) -> Array:
        """Log density of each entry at ``nodes`` of shape ``(K, *shape)``, ``(S, K, *shape)``."""
        nodes = np.asarray(nodes).astype(self.x.dtype)
        count = len(next(iter(theta.values()))) if theta else 1
        found = self._density([theta[rv.name] for rv in self.free], [nodes])[0]
        return np.broadcast_to(found, (count, *nodes.shape))

    # -- one record stands for all ---------------------------------------------------------------------

    @cached_property
    def single(self) -> CompiledModel | None:
        """The model for one record, if all records follow the same law given the parameters; None otherwise.

        It is seen by comparing log densities at a few points of the parameter space, and so are the priors.
        """
        if self.kind == "joint" or not self.continuous:
            return None
        if self.n == 1:
            return self
        try:
            one = compiled_model(self.belief, 1)
        except InputError:
            return None
        if (
            one.kind != self.kind
            or one.names != self.names
            or one.shapes != self.shapes
            or one.k != self.k
            or one.scalar != self.scalar
        ):
            return None
        if one.size != self.size:
            return None
        rng = np.random.default_rng(7)
        u = one.initial + rng.normal(0, 0.3, size=(3, self.size))
        theirs = one.at(u)
        # Most models are alike at first sight; others are looked at again with numbers that are right to all digits.
        try:
            mine = self._at_once(u)
        except NotImplementedError:  # an operation that only stands for others until it is rewritten
            mine = self.at(u)
        if not _alike(mine, theirs):
            mine = self.at(u)
            if not _alike(mine, theirs):
                return None
        if mine.normal is not None:
            return one
        theta = mine.theta
        point = one.draw(rng)[0].reshape((1, *one.shape))
        here = self.log_density(theta, np.broadcast_to(point, (1, *self.shape)))
        there = one.log_density(theta, point)
        return (
            one
            if np.allclose(here, np.broadcast_to(there, here.shape), rtol=1e-10, atol=1e-10, equal_nan=True)
            else None
        )


def compiled_model(belief: PyMCBelief, n: int) -> CompiledModel:
    """The belief's model for ``n`` records, taken apart once."""
    built = belief.built(n)
    if CompiledModel not in built.kept:
        own = {f.name: getattr(built, f.name) for f in fields(built) if f.name != "kept"}
        built.kept[CompiledModel] = CompiledModel(**own)
    return built.kept[CompiledModel]  # type: ignore[no-any-return]


def _zero() -> Any:
    import pytensor.tensor as pt

    return pt.constant(0.0)


def _alike(mine: At, one: At) -> bool:
    """Whether a model and that of one record have the same prior, and normal records the same moments."""
    if not np.allclose(one.log_prior, mine.log_prior, rtol=1e-10, atol=1e-10, equal_nan=True):
        return False
    if mine.normal is None or one.normal is None:
        return True
    return all(
        np.allclose(np.broadcast_to(b, np.broadcast_shapes(a.shape, b.shape)), a, rtol=1e-12, atol=0)
        for a, b in zip(mine.normal, one.normal, strict=True)
    )


def _lift(array: Array, rank: int, count: int) -> Array:
    """Give a batched parameter ``rank`` axes after the first: missing ones are of length one."""
    array = array if array.ndim and array.shape[0] == count else np.broadcast_to(array, (count, *array.shape))
    return array.reshape((count,) + (1,) * (rank + 1 - array.ndim) + array.shape[1:])
