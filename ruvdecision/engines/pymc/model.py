"""A PyMC model taken apart: its parameters, and the law of the records given them.

All functions work on many parameter points at once and run in plain numpy, so that nothing here needs a compiler.
``theta`` is a dictionary of the model's free variables in their natural scale, each of shape ``(S,) + its own shape``;
``u`` is an ``(S, d)`` matrix of the same points on the unconstrained scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ...beliefs.pymc import BuiltModel, PyMCBelief, _reseed, building_graphs, cheap_mode, without_notices
from ...errors import InputError, UnsupportedError
from ...protocols import Array
from ...targets import BaseTarget, Kind
from .log_density import log_density_graph, with_finite_ends
from .parameters import draw_with_numpy, natural_graphs, prior_terms, starting_point
from .point_masses import PointMasses, refuse_masses_that_are_sampled
from .programs import vectorised
from .same_law import has_law_of_every_record

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

Theta = Mapping[str, Array]
HELD = 1_000_000
"""Moments of records that are worked out at a time, where some of them are asked for."""
PRIOR_POINTS = 512
"""Draws from the prior that show whether nodes around a mode miss any mass."""
_FORM = attrgetter("kind", "names", "shapes", "k", "scalar", "size")


@dataclass(frozen=True, eq=False)
class ModelValues:
    """What a model says at S points of the unconstrained scale."""

    log_prior: Array
    """Log density ``(S,)`` of the parameters on the unconstrained scale, and of what the model has observed."""
    theta: dict[str, Array]
    """The points on their natural scale, as `CompiledModel.on_natural_scale`."""
    normal: tuple[Array, Array] | None
    """Mean and variance of records, as `CompiledModel.record_moments`; None if they are not normal, or not wanted."""


@dataclass(frozen=True, eq=False)
class CompiledModel(BuiltModel):
    """A built model with its densities as numpy functions of many parameter points."""

    cache: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Compiled functions and the like, for whoever needs them again."""
    samplers: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Compiled samplers by the shape of the releases that they take."""

    # -- parameters ----------------------------------------------------------------------------------

    @cached_property
    def _value_variables(self) -> list[TensorVariable]:
        return [self.model.rvs_to_values[rv] for rv in self.free]

    @cached_property
    def initial_point(self) -> dict[str, Array]:
        # PyMC compiles a function for it at every call.
        with without_notices():
            return self.model.initial_point()

    @cached_property
    def initial(self) -> Array:
        """A starting point on the unconstrained scale."""
        if not self.free:
            return np.zeros(0)
        found = None if self.kind == "joint" else starting_point(self.model, self.free)
        if found is None:
            found = [self.initial_point[v.name] for v in self._value_variables]
        return np.concatenate([np.ravel(a).astype(float) for a in found])

    @cached_property
    def parameter_slices(self) -> list[tuple[int, int, tuple[int, ...]]]:
        """First and last place of each free variable among the unconstrained numbers, and its shape there."""
        pieces, start = [], 0
        for v in self._value_variables:
            shape = v.type.shape if None not in v.type.shape else np.shape(self.initial_point[v.name])
            stop = start + int(np.prod(shape, dtype=int))
            pieces.append((start, stop, shape))
            start = stop
        return pieces

    @property
    def size(self) -> int:
        """How many unconstrained numbers the parameters are."""
        return self.parameter_slices[-1][1] if self.parameter_slices else 0

    @cached_property
    def _prior_graph(self) -> TensorVariable:
        import pytensor.tensor as pt

        terms = [*(v for v in self.model.basic_RVs if v is not self.x), *self.model.potentials]
        with building_graphs():
            return self.model.logp(vars=terms, jacobian=True, sum=True) if terms else pt.constant(0.0)

    @cached_property
    def _log_prior_density(self) -> vectorised:
        at = [rv.type(name=f"{rv.name}_at") for rv in self.free]
        with building_graphs():
            logs = [log_density_graph(rv, v, self.free).sum() for rv, v in zip(self.free, at, strict=True)]
        return vectorised([sum(logs[1:], logs[0])], [*self.free, *at])

    def log_prior_density(self, theta: Theta) -> Array:
        """Log prior density of the free variables on their natural scale, ``(S,)``.

        What the model has observed is left out.
        """
        if not self.free:
            return np.zeros(1)
        points = [theta[rv.name] for rv in self.free]
        return np.broadcast_to(self._log_prior_density([*points, *points])[0], (len(points[0]),))

    def values_at(self, u: ArrayLike, normal: bool = True) -> ModelValues:
        """Log prior, natural scale and (if wanted) moments of normal records in one go."""
        normal = normal and self.kind in ("normal", "mvnormal")
        key = ("values", normal)
        if key not in self.cache:
            self.cache[key] = self._vectorised_at(normal)
        return self._evaluate_at(self.cache[key], u, normal)

    def values_without_rewriting(self, u: ArrayLike) -> ModelValues:
        """The same with graphs that nobody took the time to rewrite: for a look at a few points."""
        normal = self.kind in ("normal", "mvnormal")
        return self._evaluate_at(self._vectorised_at(normal, stable=False), u, normal)

    def _vectorised_at(self, normal: bool, stable: bool = True) -> vectorised:
        graphs = [*self.free, *(self.normal_graph() if normal else ())]
        found = self._function_without_rewriting(graphs, with_prior=True)
        if found is not None:
            return found
        with building_graphs():
            graphs = self.model.replace_rvs_by_values(graphs)
        return vectorised([self._prior_graph, *graphs], self._value_variables, stable=stable)

    def _function_without_rewriting(
        self, graphs: Sequence[TensorVariable], with_prior: bool = False
    ) -> vectorised | None:
        """Graphs of the free variables as a function of the unconstrained ones, the terms of the prior first."""
        with building_graphs():
            natural = natural_graphs(self.model, self.free)
            terms = prior_terms(self.model, self.free, self.x) if with_prior else []
        if not natural or terms is None:
            return None
        return vectorised.without_rewriting([*terms, *graphs], self._value_variables, instead=natural)

    def _evaluate_at(self, function: vectorised, u: ArrayLike, normal: bool) -> ModelValues:
        u = np.atleast_2d(np.asarray(u, dtype=np.float64))
        count, own = len(u), len(self.free)
        found = function(self._split_parameters(u))
        terms = len(found) - own - 2 * normal
        prior = sum((a.reshape(len(a), -1).sum(axis=1) for a in found[:terms]), np.zeros(count))
        theta = self._parameters_by_name(found[terms : terms + own], count)
        moments = self._as_moments(found[-2], found[-1], count) if normal else None
        return ModelValues(prior, theta, moments)

    def _split_parameters(self, u: Array) -> list[Array]:
        return [
            u[:, a:b].reshape((len(u), *shape)).astype(v.dtype)
            for (a, b, shape), v in zip(self.parameter_slices, self._value_variables, strict=True)
        ]

    def on_natural_scale(self, u: ArrayLike) -> dict[str, Array]:
        """Parameter points on their natural scale; the prior, which may hold the records too, is not asked."""
        u = np.atleast_2d(np.asarray(u, dtype=np.float64))
        return self._parameters_by_name(self._natural_function(self._split_parameters(u)), len(u))

    @cached_property
    def _natural_function(self) -> vectorised:
        found = self._function_without_rewriting(self.free)
        if found is not None:
            return found
        with building_graphs():
            return vectorised(self.model.replace_rvs_by_values(list(self.free)), self._value_variables)

    def _parameters_by_name(self, found: Sequence[Array], count: int) -> dict[str, Array]:
        return {
            v.name: np.broadcast_to(a, (count, *self.shapes[v.name])) for v, a in zip(self.free, found, strict=True)
        }

    def _draw_at_once(self, count: int, seed: int) -> list[Array] | None:
        found = draw_with_numpy(self.free, self.shapes, count, seed)
        return super()._draw_at_once(count, seed) if found is None else found

    @cached_property
    def prior_points(self) -> tuple[Array, Array] | None:
        """Draws from the prior on the unconstrained scale, ``(S, d)``, with their log densities there.

        What the model observes is left out. None where a prior is flat.
        """
        if self.flat or not self.size or not self.continuous:
            return None
        transforms = self.model.rvs_to_transforms
        graphs = [rv if (t := transforms[rv]) is None else t.forward(rv, *rv.owner.inputs) for rv in self.free]
        drawn = self.prior(PRIOR_POINTS, np.random.default_rng(20_001))
        theta = [drawn[rv.name] for rv in self.free]
        try:
            found = vectorised(graphs, self.free, stable=False)(theta)
        except NotImplementedError:  # an operation that only stands for others until it is rewritten
            found = vectorised(graphs, self.free)(theta)
        count = len(theta[0])
        u = np.concatenate([np.broadcast_to(a, (count, *np.shape(a)[1:])).reshape(count, -1) for a in found], axis=1)
        if self.informed:
            with without_notices():
                density = vectorised([self.model.logp(vars=self.free, jacobian=True, sum=True)], self._value_variables)
            logs = np.broadcast_to(density(self._split_parameters(u))[0], (count,))
        else:
            logs = self.values_at(u, normal=("values", False) not in self.cache).log_prior
        good = np.isfinite(u).all(axis=1) & np.isfinite(logs)
        return (u[good], logs[good]) if good.any() else None

    def _evaluate_graphs(self, name: str, graphs: Callable[[], Sequence[TensorVariable]], theta: Theta) -> list[Array]:
        """Graphs of the free variables at many points; the function is compiled once and known by its name."""
        if name not in self.cache:
            self.cache[name] = vectorised(graphs(), self.free)
        return self.cache[name]([theta[rv.name] for rv in self.free])  # type: ignore[no-any-return]

    def with_deterministics(self, theta: Theta) -> dict[str, Array]:
        """The parameters with everything that the model derives from them."""
        found = dict(theta)
        if self.deterministics:
            values = self._evaluate_graphs("deterministics", lambda: self.deterministics, theta)
            for v, a in zip(self.deterministics, values, strict=True):
                found[v.name] = np.broadcast_to(a, (point_count(theta), *self.shapes[v.name]))
        return found

    # -- the records given the parameters ------------------------------------------------------------

    def normal_graph(self) -> tuple[TensorVariable, TensorVariable]:
        """Mean and variance (covariance) of the records as graphs of the parameters: entry by entry, or of rows."""
        import pytensor.tensor as pt

        mean, scale = self.x.owner.op.dist_params(self.x.owner)
        if self.kind == "mvnormal":
            return pt.broadcast_to(mean, (*mean.shape[:-1], self.k)), scale
        return mean, scale**2

    def record_moments(self, theta: Theta, rows: Sequence[int] | None = None) -> tuple[Array, Array]:
        """Mean and variance of normal records: ``(S, 1 or n)`` each, or ``(S, 1 or n, k)``; of some rows if asked.

        Covariances ``(..., k, k)``.
        """
        count = point_count(theta)
        step = count if rows is None else max(1, HELD // self.n)
        parts = []
        for i in range(0, count, step):
            part = {rv.name: theta[rv.name][i : i + step] for rv in self.free}
            mean, variance = self._evaluate_graphs("moments", self.normal_graph, part)
            pair = self._as_moments(mean, variance, min(step, count - i))
            parts.append([a if rows is None or a.shape[1] == 1 else a[:, list(rows)] for a in pair])
        mean, variance = (np.concatenate(a) if len(a) > 1 else a[0] for a in zip(*parts, strict=True))
        return mean, variance

    def entry_moments(self, theta: Theta) -> tuple[Array, Array]:
        """Mean and variance of every entry of normal records, ``(S, n, k)`` each."""
        own = (a[..., None] if self.scalar else a for a in self.record_moments(theta))
        mean, variance = (np.broadcast_to(a, (len(a), self.n, self.k)) for a in own)
        return mean, variance

    def _as_moments(self, mean: Array, variance: Array, count: int) -> tuple[Array, Array]:
        rank = len(self.shape)
        return _with_record_axes(mean, rank, count), _with_record_axes(
            variance, rank + (self.kind == "mvnormal"), count
        )

    @cached_property
    def _density_function(self) -> vectorised:
        import pytensor.tensor as pt
        from pytensor.tensor.random.basic import CategoricalRV

        if type(self.x.owner.op) is not CategoricalRV:
            value = self.x.type(name="at")
            found = vectorised.without_rewriting([self._log_density_of(value)], [*self.free, value], lead=2)
            if found is not None:
                return found
        nodes = pt.tensor("nodes", dtype=self.x.dtype, shape=(None, *self.shape))
        return vectorised([self.log_density_graph_at(nodes)], self.free, extra=[nodes])

    def log_density_graph_at(self, nodes: TensorVariable) -> TensorVariable:
        """Graph of the log density of each entry at ``nodes``, a graph of shape ``(K, *shape)``."""
        from pytensor.graph.replace import vectorize_graph
        from pytensor.tensor.random.basic import CategoricalRV

        if type(self.x.owner.op) is CategoricalRV:
            return self._log_chances_of_categories(nodes)
        value = self.x.type()
        return vectorize_graph(self._log_density_of(value), {value: nodes})

    @cached_property
    def point_masses(self) -> PointMasses | None:
        """Numbers that a record is with a positive chance, where its law has such besides a density."""
        return PointMasses.of(self)

    @cached_property
    def _numbers_next_to_masses(self) -> Array:
        """Numbers next to the point masses, on the side on which the density goes on, ``(A, *shape)``.

        A density that jumps at a point mass inside of its support is refused: its nodes are not cut there.
        """
        from pytensor.graph.replace import vectorize_graph

        assert self.point_masses is not None
        places = self.point_masses.places
        value, nodes = self.x.type(), self.x.type.clone(shape=(None, *self.x.type.shape))(name="nodes")
        density = vectorize_graph(self._log_law_of(value), {value: nodes})
        theta = self.on_natural_scale(self.initial + np.random.default_rng(7).normal(0, 0.3, size=(3, self.size)))
        away = 1e-7 * np.maximum(1.0, np.abs(places))
        sides = np.concatenate([places - away, places + away])
        found = vectorised([density], self.free, extra=[nodes])([theta[rv.name] for rv in self.free], [sides])[0]
        below, above = np.split(np.broadcast_to(found, (3, *sides.shape)), 2, axis=1)
        with np.errstate(invalid="ignore"):
            jumps = np.isfinite(below) & np.isfinite(above) & (np.abs(above - below) > 1e-3)
        if jumps.any():
            raise InputError(
                f"The density of {self.belief.variable!r} jumps at a point mass inside of its range",
                f"at {places[jumps.any(axis=0)][0]:.6g}",
                "Censor the mixture instead of one part of it: pm.Censored('x', pm.Mixture.dist(...), ...)",
            )
        return places + np.where(np.isfinite(above).any(axis=0), away, -away) / 100

    def log_chances(self, theta: Theta) -> Array:
        """Log chances of the point masses of each entry, ``(S, A, *shape)``."""
        masses = self.point_masses
        assert masses is not None
        found = self._evaluate_graphs("chances of point masses", lambda: [masses.log_chances], theta)[0]
        return np.broadcast_to(found, (point_count(theta), *masses.places.shape))

    def _log_density_of(self, value: TensorVariable) -> TensorVariable:
        """Graph of the log density of the records at a value of theirs; at a point mass, that next to it."""
        import pytensor.tensor as pt

        if self.point_masses is not None:
            for place, beside in zip(self.point_masses.places, self._numbers_next_to_masses, strict=True):
                value = pt.switch(pt.eq(value, place), beside, value)
        return self._log_law_of(value)

    def _log_law_of(self, value: TensorVariable) -> TensorVariable:
        """The same as PyMC has it, with the log chance of a point mass at its place."""
        return log_density_graph(with_finite_ends(self.x), value, self.free)

    def _log_chances_of_categories(self, nodes: TensorVariable) -> TensorVariable:
        """The same for categories: the logs of their chances without an index, which many points would take in turn."""
        import pytensor.tensor as pt

        (chances,) = self.x.owner.op.dist_params(self.x.owner)
        count = chances.type.shape[-1] or int(chances.shape[-1].eval(mode=cheap_mode()))
        mine = pt.eq(nodes[..., None], np.arange(count))
        logs = pt.sum(pt.switch(mine, pt.log(chances), 0.0), axis=-1)
        return pt.switch(pt.and_(pt.ge(nodes, 0), pt.lt(nodes, count)), logs, -np.inf)

    def log_density(self, theta: Theta, nodes: Array) -> Array:
        """Log density of each entry at ``nodes`` of shape ``(K, *shape)``, ``(S, K, *shape)``."""
        nodes = np.asarray(nodes).astype(self.x.dtype)
        points, function = [theta[rv.name] for rv in self.free], self._density_function
        if function.extra:
            found = function(points, [nodes])[0]
        else:  # points along one axis, nodes along another
            found = function([*(a[:, None] for a in points), nodes[None]])[0]
        return np.broadcast_to(found, (point_count(theta), *nodes.shape))

    def entry_log_density(self, theta: Theta, x: Array, column: int = 0) -> Array:
        """Log density of the entries of a column at each of P numbers: ``(S, P, n)``, one row if records are alike."""
        one = self.reduced_model
        logs = one.log_density(theta, np.broadcast_to(x.reshape((-1,) + (1,) * len(one.shape)), (len(x), *one.shape)))
        return logs if one.scalar else logs[..., column]

    @cached_property
    def _pair_density(self) -> vectorised:
        value = self.x.type(name="at")
        return vectorised([self._log_density_of(value)], [*self.free, value])

    def log_density_at_own_numbers(self, theta: Theta, x: Array) -> Array:
        """Log density of every record at numbers of its own at each parameter point, ``(S, K, n)`` both."""
        count, k, n = x.shape
        points = [np.repeat(theta[rv.name], k, axis=0) for rv in self.free]
        found = self._pair_density([*points, x.reshape(-1, *self.shape)])[0]
        return np.broadcast_to(found.reshape(-1, n), (count * k, n)).reshape(x.shape)

    def forward_sample(self, count: int, rng: np.random.Generator) -> dict[str, Array]:
        """Records and parameters drawn from their laws, whatever the model observes or forbids."""
        rows = []
        for _ in range(count):
            _reseed(self._forward_function, rng)
            with without_notices():
                rows.append([np.asarray(a) for a in self._forward_function()])
        return {v.name: np.stack(a) for v, a in zip((self.x, *self.free), zip(*rows, strict=True), strict=False)}

    # -- one record stands for all ---------------------------------------------------------------------

    @cached_property
    def one_record_model(self) -> CompiledModel | None:
        """The model for one record, if all records follow the same law given the parameters; None otherwise.

        It is seen by comparing log densities at a few points of the parameter space, and so are the priors.
        """
        if self.kind == "joint" or not self.continuous:
            return None
        if self.n == 1:
            return self
        try:
            with building_graphs():
                one = compiled_model(self.belief, 1)
            return one if _FORM(one) == _FORM(self) and has_law_of_every_record(one, self) else None
        except Exception:
            # A builder need not know what to do with another number of records than the file's.
            return None

    @property
    def reduced_model(self) -> CompiledModel:
        """The model for one record where one stands for all, and else the model itself."""
        return self.one_record_model or self

    @cached_property
    def records_are_alike(self) -> bool:
        """Whether all records follow the same law given the parameters; a new one is defined by the model only then."""
        if self.one_record_model is not None or self.n == 1 or self.kind == "joint" or not self.continuous:
            return True  # where records depend on each other a new one is refused for that
        mine = self.values_at(self.initial + np.random.default_rng(7).normal(0, 0.3, size=(3, self.size)))
        laws = list(mine.normal or ())
        if not laws:
            start = np.asarray(self.initial_point[self.model.rvs_to_values[self.x].name])
            same = np.broadcast_to(start.reshape(self.shape)[:1], self.shape)
            laws = [self.log_density(mine.theta, same[None])[:, 0]]
            if self.point_masses is not None:
                laws += [self.point_masses.places, *self.log_chances(mine.theta)]
        return all(np.allclose(a, a[:, :1], rtol=1e-10, atol=1e-10, equal_nan=True) for a in laws)

    def check_new_record(self, target: BaseTarget) -> None:
        """Refuse to say what nobody has said: which of several laws a record from outside the file follows."""
        if target.asks(Kind.NEW) and not self.records_are_alike:
            do = "Ask for Record(j), or add the new record to the model as a variable and ask for Parameter(name)"
            raise UnsupportedError("A new record is not defined by a model whose records differ", do=do)


def compiled_model(belief: PyMCBelief, n: int) -> CompiledModel:
    """The belief's model for ``n`` records, taken apart once."""
    built = belief.built(n)
    if CompiledModel not in built.kept:
        refuse_masses_that_are_sampled(built)
        own = {f.name: getattr(built, f.name) for f in fields(built) if f.name != "kept"}
        built.kept[CompiledModel] = CompiledModel(**own)
    return built.kept[CompiledModel]  # type: ignore[no-any-return]


def point_count(theta: Theta) -> int:
    """How many parameter points there are; one if there are no parameters."""
    return len(next(iter(theta.values()))) if theta else 1


def _with_record_axes(array: Array, rank: int, count: int) -> Array:
    """A parameter at many points with ``rank`` axes after the first: missing ones are of length one."""
    array = np.broadcast_to(np.asarray(array, dtype=np.float64), (count, *array.shape[1:]))
    return array.reshape((count,) + (1,) * (rank + 1 - array.ndim) + array.shape[1:])
