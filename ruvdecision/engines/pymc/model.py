"""A PyMC model taken apart: its parameters, and the law of the records given them.

All functions work on many parameter points at once and run in plain numpy, so that nothing here needs a compiler.
``theta`` is a dictionary of the model's free variables in their natural scale, each of shape ``(S,) + its own shape``;
``u`` is an ``(S, d)`` matrix of the same points on the unconstrained scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ...beliefs.pymc import BuiltModel, PyMCBelief, _reseed, cheap_mode, quiet_pymc, without_notices
from ...errors import UnsupportedError
from ...protocols import Array
from ...targets import BaseTarget, Kind
from .programs import vectorised, without_traces

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

Theta = Mapping[str, Array]
FAR = 100.0
"""Standard deviations from the mean that no record is away."""
HELD = 1_000_000
"""Moments of records that are worked out at a time, where some of them are asked for."""
PRIOR_POINTS = 512
"""Draws from the prior that show whether nodes around a mode miss any mass."""
PLAIN_TRANSFORMS = ("NoneType", "LogTransform", "LogOddsTransform")
"""Ways to the unconstrained scale that have no numbers of their own."""
_FORM = attrgetter("kind", "names", "shapes", "k", "scalar", "size")


@dataclass(frozen=True, eq=False)
class ModelValues:
    """What a model says at S points of the unconstrained scale."""

    log_prior: Array
    """Log density ``(S,)`` of the parameters on the unconstrained scale, and of what the model has observed."""
    theta: dict[str, Array]
    """The points on their natural scale, as `CompiledModel.on_natural_scale`."""
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
    def _value_variables(self) -> list[TensorVariable]:
        return [self.model.rvs_to_values[rv] for rv in self.free]

    @cached_property
    def _initial_point(self) -> dict[str, Array]:
        # PyMC compiles a function for it at every call.
        with without_notices():
            return self.model.initial_point()

    @cached_property
    def initial(self) -> Array:
        """A starting point on the unconstrained scale."""
        return (
            np.concatenate([np.ravel(self._initial_point[v.name]).astype(float) for v in self._value_variables])
            if self._value_variables
            else np.zeros(0)
        )

    @cached_property
    def pieces(self) -> list[tuple[int, int, tuple[int, ...]]]:
        """First and last place of each free variable among the unconstrained numbers, and its shape there."""
        pieces, start = [], 0
        for v in self._value_variables:
            shape = v.type.shape if None not in v.type.shape else np.shape(self._initial_point[v.name])
            stop = start + int(np.prod(shape, dtype=int))
            pieces.append((start, stop, shape))
            start = stop
        return pieces

    @property
    def size(self) -> int:
        """How many unconstrained numbers the parameters are."""
        return self.pieces[-1][1] if self.pieces else 0

    @cached_property
    def _prior_graph(self) -> TensorVariable:
        import pytensor.tensor as pt

        terms = [*(v for v in self.model.basic_RVs if v is not self.x), *self.model.potentials]
        with without_notices(), without_traces():
            return self.model.logp(vars=terms, jacobian=True, sum=True) if terms else pt.constant(0.0)

    @cached_property
    def _log_prior_density(self) -> vectorised:
        pm = quiet_pymc()
        at = [rv.type(name=f"{rv.name}_at") for rv in self.free]
        with without_notices():
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
    def _functions_by_kind(self) -> dict[bool, vectorised]:
        return {}

    def at(self, u: ArrayLike, normal: bool = True) -> ModelValues:
        """Log prior, natural scale and (if wanted) moments of normal records in one go."""
        normal = normal and self.kind in ("normal", "mvnormal")
        if normal not in self._functions_by_kind:
            self._functions_by_kind[normal] = self._vectorised_at(normal)
        return self._evaluate_at(self._functions_by_kind[normal], u, normal)

    def _at_once(self, u: ArrayLike) -> ModelValues:
        """The same with graphs that nobody took the time to rewrite: for a look at a few points."""
        normal = self.kind in ("normal", "mvnormal")
        return self._evaluate_at(self._vectorised_at(normal, stable=False), u, normal)

    def _vectorised_at(self, normal: bool, stable: bool = True) -> vectorised:
        with without_notices():
            graphs = self.model.replace_rvs_by_values([*self.free, *(self.normal_graph() if normal else ())])
        return vectorised([self._prior_graph, *graphs], self._value_variables, stable=stable)

    def _evaluate_at(self, function: vectorised, u: ArrayLike, normal: bool) -> ModelValues:
        u = np.atleast_2d(np.asarray(u, dtype=np.float64))
        count, own = len(u), len(self.free)
        prior, *found = function(self._split_parameters(u))
        theta = self._parameters_by_name(found[:own], count)
        moments = self._as_moments(found[own], found[own + 1], count) if normal else None
        return ModelValues(np.broadcast_to(prior, (count,)), theta, moments)

    def _split_parameters(self, u: Array) -> list[Array]:
        return [
            u[:, a:b].reshape((len(u), *shape)).astype(v.dtype)
            for (a, b, shape), v in zip(self.pieces, self._value_variables, strict=True)
        ]

    def on_natural_scale(self, u: ArrayLike) -> dict[str, Array]:
        """Parameter points on their natural scale; the prior, which may hold the records too, is not asked."""
        u = np.atleast_2d(np.asarray(u, dtype=np.float64))
        return self._parameters_by_name(self._natural_function(self._split_parameters(u)), len(u))

    @cached_property
    def _natural_function(self) -> vectorised:
        with without_notices():
            return vectorised(self.model.replace_rvs_by_values(list(self.free)), self._value_variables)

    def _parameters_by_name(self, found: Sequence[Array], count: int) -> dict[str, Array]:
        return {
            v.name: np.broadcast_to(a, (count, *self.shapes[v.name])) for v, a in zip(self.free, found, strict=True)
        }

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
            logs = self.at(u, normal=next(iter(self._functions_by_kind), True)).log_prior
        good = np.isfinite(u).all(axis=1) & np.isfinite(logs)
        return (u[good], logs[good]) if good.any() else None

    @cached_property
    def _derived_function(self) -> vectorised:
        return vectorised(self.derived, self.free)

    def complete(self, theta: Theta) -> dict[str, Array]:
        """The parameters with everything that the model derives from them."""
        found = dict(theta)
        if self.derived:
            for v, a in zip(self.derived, self._derived_function([theta[rv.name] for rv in self.free]), strict=True):
                found[v.name] = np.broadcast_to(a, (count_of(theta), *self.shapes[v.name]))
        return found

    # -- the records given the parameters ------------------------------------------------------------

    def normal_graph(self) -> tuple[TensorVariable, TensorVariable]:
        """Mean and variance (covariance) of the records as graphs of the parameters: entry by entry, or of rows."""
        import pytensor.tensor as pt

        mean, scale = self.x.owner.op.dist_params(self.x.owner)
        if self.kind == "mvnormal":
            return pt.broadcast_to(mean, (*mean.shape[:-1], self.k)), scale
        return mean, scale**2

    def normal(self, theta: Theta, rows: Sequence[int] | None = None) -> tuple[Array, Array]:
        """Mean and variance of normal records: ``(S, 1 or n)`` each, or ``(S, 1 or n, k)``; of some rows if asked.

        Covariances ``(..., k, k)``.
        """
        count = count_of(theta)
        step = count if rows is None else max(1, HELD // self.n)
        parts = []
        for i in range(0, count, step):
            mean, variance = self._moments_function([theta[rv.name][i : i + step] for rv in self.free])
            pair = self._as_moments(mean, variance, min(step, count - i))
            parts.append([a if rows is None or a.shape[1] == 1 else a[:, list(rows)] for a in pair])
        mean, variance = (np.concatenate(a) if len(a) > 1 else a[0] for a in zip(*parts, strict=True))
        return mean, variance

    @cached_property
    def _moments_function(self) -> vectorised:
        return vectorised(self.normal_graph(), self.free)

    def _as_moments(self, mean: Array, variance: Array, count: int) -> tuple[Array, Array]:
        rank = len(self.shape)
        return _with_axes(mean, rank, count), _with_axes(variance, rank + (self.kind == "mvnormal"), count)

    @cached_property
    def _density_function(self) -> vectorised:
        import pytensor.tensor as pt

        nodes = pt.tensor("nodes", dtype=self.x.dtype, shape=(None, *self.shape))
        return vectorised([self.density_at(nodes)], self.free, extra=[nodes])

    def density_at(self, nodes: TensorVariable) -> TensorVariable:
        """Graph of the log density of each entry at ``nodes``, a graph of shape ``(K, *shape)``."""
        from pytensor.graph.replace import vectorize_graph

        if type(self.x.owner.op).__name__ == "CategoricalRV":
            return self._categories_at(nodes)
        value = self.x.type()
        return vectorize_graph(self._log_density_of(value), {value: nodes})

    def _log_density_of(self, value: TensorVariable) -> TensorVariable:
        """Graph of the log density of the records at a value of theirs."""
        pm = quiet_pymc()
        with without_notices():
            return _without_draws(pm.logp(_with_finite_ends(self.x), value, warn_rvs=False), self.free)

    def _categories_at(self, nodes: TensorVariable) -> TensorVariable:
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
        found = self._density_function([theta[rv.name] for rv in self.free], [nodes])[0]
        return np.broadcast_to(found, (count_of(theta), *nodes.shape))

    def entry_log_density(self, theta: Theta, x: Array, column: int = 0) -> Array:
        """Log density of the entries of a column at each of P numbers: ``(S, P, n)``, one row if records are alike."""
        one = self.single or self
        logs = one.log_density(theta, np.broadcast_to(x.reshape((-1,) + (1,) * len(one.shape)), (len(x), *one.shape)))
        return logs if one.scalar else logs[..., column]

    @cached_property
    def _pair_density(self) -> vectorised:
        value = self.x.type(name="at")
        return vectorised([self._log_density_of(value)], [*self.free, value])

    def pair_log_density(self, theta: Theta, x: Array) -> Array:
        """Log density of the only record at numbers of each parameter point's own, ``(S, K)`` both."""
        count, k = x.shape
        points = [np.repeat(theta[rv.name], k, axis=0) for rv in self.free]
        found = self._pair_density([*points, x.reshape(-1, *self.shape)])[0]
        return np.broadcast_to(found.reshape(-1), (count * k,)).reshape(count, k)

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
            return one if _FORM(one) == _FORM(self) and self._is_alike_single(one) else None
        except Exception:
            # A builder need not know what to do with another number of records than the file's.
            return None

    @cached_property
    def records_are_alike(self) -> bool:
        """Whether all records follow the same law given the parameters; a new one is defined by the model only then."""
        if self.single is not None or self.n == 1 or self.kind == "joint" or not self.continuous:
            return True  # where records depend on each other a new one is refused for that
        mine = self.at(self.initial + np.random.default_rng(7).normal(0, 0.3, size=(3, self.size)))
        laws = list(mine.normal or ())
        if not laws:
            start = np.asarray(self._initial_point[self.model.rvs_to_values[self.x].name])
            same = np.broadcast_to(start.reshape(self.shape)[:1], self.shape)
            laws = [self.log_density(mine.theta, same[None])[:, 0]]
        return all(np.allclose(a, a[:, :1], rtol=1e-10, atol=1e-10, equal_nan=True) for a in laws)

    def check_new_record(self, target: BaseTarget) -> None:
        """Refuse to say what nobody has said: which of several laws a record from outside the file follows."""
        if target.asks(Kind.NEW) and not self.records_are_alike:
            do = "Ask for Record(j), or add the new record to the model as a variable and ask for Parameter(name)"
            raise UnsupportedError("A new record is not defined by a model whose records differ", do=do)

    def _is_alike_single(self, one: CompiledModel) -> bool:
        """Whether the model of one record has the same prior, and its record the law of all of these."""
        if _same_graphs(self, one):
            return True
        rng = np.random.default_rng(7)
        u = one.initial + rng.normal(0, 0.3, size=(3, self.size))
        theirs = one.at(u)
        # Most models are alike at first sight; others are looked at again with numbers that are right to all digits.
        try:
            mine = self._at_once(u)
        except NotImplementedError:  # an operation that only stands for others until it is rewritten
            mine = self.at(u)
        if not _same_prior_and_law(mine, theirs):
            mine = self.at(u)
            if not _same_prior_and_law(mine, theirs):
                return False
        if mine.normal is not None:
            return True
        start = np.asarray(one._initial_point[one.model.rvs_to_values[one.x].name])
        point = np.broadcast_to(start, one.shape)[None]
        here = self.log_density(mine.theta, np.broadcast_to(point, (1, *self.shape)))
        there = np.broadcast_to(one.log_density(mine.theta, point), here.shape)
        return bool(np.isfinite(here).any() and np.allclose(here, there, rtol=1e-10, atol=1e-10, equal_nan=True))


def _with_finite_ends(x: TensorVariable) -> TensorVariable:
    """Truncated normal records with ends that are far away instead of infinite.

    Where some ends are infinite and others are not, PyMC's log density is no number.
    """
    import pytensor.tensor as pt

    if type(x.owner.op).__name__ != "TruncatedNormalRV":
        return x
    mu, sigma, lower, upper = x.owner.op.dist_params(x.owner)
    ends = [getattr(end, "data", None) for end in (lower, upper)]
    if not any(end is not None and np.size(np.unique(np.isinf(end))) == 2 for end in ends):
        return x
    lower = pt.switch(pt.isinf(lower), mu - FAR * sigma, lower)
    upper = pt.switch(pt.isinf(upper), mu + FAR * sigma, upper)
    return quiet_pymc().TruncatedNormal.dist(mu, sigma, lower=lower, upper=upper)


def _without_draws(graph: TensorVariable, parameters: Sequence[TensorVariable]) -> TensorVariable:
    """The same graph without the random variables that a mixture asks for their shape alone.

    Samplers do not take the generator that comes with one.
    """
    import pytensor.tensor as pt
    from pytensor.graph.replace import graph_replace
    from pytensor.graph.traversal import ancestors
    from pytensor.tensor.random.op import RandomVariable

    zeros = {}
    for v in ancestors([graph], blockers=parameters):
        if v.owner is not None and isinstance(v.owner.op, RandomVariable) and v not in parameters:
            op, node = v.owner.op, v.owner
            if v is node.outputs[1]:
                shape = op._infer_shape(op.size_param(node), op.dist_params(node))
                zeros[v] = v.type.filter_variable(pt.zeros(shape, dtype=v.dtype))
    return graph_replace([graph], zeros, strict=False)[0] if zeros else graph


def compiled_model(belief: PyMCBelief, n: int) -> CompiledModel:
    """The belief's model for ``n`` records, taken apart once."""
    built = belief.built(n)
    if CompiledModel not in built.kept:
        own = {f.name: getattr(built, f.name) for f in fields(built) if f.name != "kept"}
        built.kept[CompiledModel] = CompiledModel(**own)
    return built.kept[CompiledModel]  # type: ignore[no-any-return]


def count_of(theta: Theta) -> int:
    """How many parameter points there are; one if there are no parameters."""
    return len(next(iter(theta.values()))) if theta else 1


def _same_graphs(mine: CompiledModel, one: CompiledModel) -> bool:
    """Whether priors and the law of every record are the same graph in both models: then no number can differ."""
    from pytensor.graph.basic import equal_computations
    from pytensor.tensor.random.op import RandomVariable

    if mine.informed or one.informed or any(size != 1 for p in _law_of(mine.x) for size in p.type.shape):
        return False
    for a, b in zip((*mine.free, mine.x), (*one.free, one.x), strict=True):
        ways = [m.model.rvs_to_transforms.get(v) for m, v in ((mine, a), (one, b))]
        if not isinstance(a.owner.op, RandomVariable) or a.owner.op != b.owner.op:
            return False
        if type(ways[0]) is not type(ways[1]) or type(ways[0]).__name__ not in PLAIN_TRANSFORMS:
            return False
        if not equal_computations(_law_of(a), _law_of(b), mine.free, one.free):
            return False
    return True


def _law_of(rv: TensorVariable) -> list[TensorVariable]:
    """Parameters of the law of a random variable."""
    op = rv.owner.op
    return list(op.dist_params(rv.owner)) if hasattr(op, "dist_params") else []


def _same_prior_and_law(mine: ModelValues, one: ModelValues) -> bool:
    """Whether a model and that of one record have the same prior, and normal records the same moments."""
    if not np.allclose(one.log_prior, mine.log_prior, rtol=1e-10, atol=1e-10, equal_nan=True):
        return False
    if mine.normal is None or one.normal is None:
        return True
    return all(
        np.allclose(np.broadcast_to(b, np.broadcast_shapes(a.shape, b.shape)), a, rtol=1e-12, atol=0)
        for a, b in zip(mine.normal, one.normal, strict=True)
    )


def _with_axes(array: Array, rank: int, count: int) -> Array:
    """A parameter at many points with ``rank`` axes after the first: missing ones are of length one."""
    array = np.asarray(array, dtype=np.float64)
    array = array if array.ndim and array.shape[0] == count else np.broadcast_to(array, (count, *array.shape))
    return array.reshape((count,) + (1,) * (rank + 1 - array.ndim) + array.shape[1:])
