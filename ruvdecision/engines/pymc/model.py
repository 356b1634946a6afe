"""A PyMC model taken apart: its parameters, and the law of the records given them.

All functions work on many parameter points at once and run in plain numpy, so that nothing here needs a compiler.
``theta`` is a dictionary of the model's free variables in their natural scale, each of shape ``(S,) + its own shape``;
``u`` is an ``(S, d)`` matrix of the same points on the unconstrained scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InputError
from ...protocols import Array
from .graphs import cheap_mode, keeping_starts, quiet, vectorised

if TYPE_CHECKING:
    from ...beliefs.pymc import PyMCBelief

__all__ = ["Anatomy", "At", "Theta"]

Theta = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class At:
    """What a model says at S points of the unconstrained scale."""

    log_prior: Array
    """``(S,)``, as `Anatomy.log_prior`."""
    theta: dict[str, Array]
    """The points on their natural scale, as `Anatomy.natural`."""
    normal: tuple[Array, Array] | None
    """Mean and variance of the records, as `Anatomy.normal`; None if they are not normal, or were not wanted."""


@dataclass(frozen=True, eq=False)
class Anatomy:
    """One built model: which variable holds the records, and how they come from the parameters.

    ``kind`` says what the records are given the parameters:
    ``"normal"`` (independent and normal, entry by entry), ``"mvnormal"`` (independent normal rows),
    ``"elementwise"`` (independent, any law), or ``"joint"`` (rows depend on each other, or something else in the model
    depends on them).
    """

    belief: PyMCBelief = field(repr=False)
    n: int
    model: Any = field(repr=False)
    x: Any = field(repr=False)
    shape: tuple[int, ...]
    kind: str
    discrete: bool
    order: tuple[str, ...] = field(repr=False)
    """Names of the free variables as the builder made them."""
    cache: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Compiled functions and the like, for whoever needs them again."""
    samplers: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Compiled samplers by the shape of the releases that they take."""

    # -- making --------------------------------------------------------------------------------------

    @classmethod
    def of(cls, belief: PyMCBelief, n: int) -> Anatomy:
        """Build the model for ``n`` records and look at it."""
        _pymc()  # first, and quietly: PyMC's own imports give notices
        from pymc.model.transform.conditioning import remove_value_transforms

        name = belief.variable
        model = belief.build(n)
        if name not in model.named_vars:
            raise InputError(
                "The model has no variable for the records",
                f"no {name!r} among {', '.join(model.named_vars) or 'no variables'}",
                "Name it with PyMCBelief(builder, records=...)",
            )
        x = model[name]
        if x in model.observed_RVs:
            do = "Leave out observed=: the records are what nobody outside the agency has seen"
            raise InputError("The records must not be observed in the model", name, do)
        free, order = x in model.free_RVs, tuple(v.name for v in model.free_RVs)
        if free and model.rvs_to_transforms.get(x) is not None:
            with quiet():
                model = keeping_starts(model, lambda m: remove_value_transforms(m, [m[name]]))
            x = model[name]
        shape = _shape(x)
        if len(shape) not in (1, 2) or shape[0] != n:
            raise InputError(
                f"The variable {name!r} must hold {n} records, one per row",
                f"shape {shape}",
                "Write shape=n, or shape=(n, k) for k variables, with the n that the builder is given",
            )
        kind = _kind(model, x, shape) if free else "joint"
        return cls(belief, n, model, x, shape, kind, np.dtype(x.dtype).kind in "iub", order)

    # -- words and sizes -----------------------------------------------------------------------------

    @property
    def k(self) -> int:
        """How many variables a record has."""
        return self.shape[1] if len(self.shape) == 2 else 1

    @property
    def scalar(self) -> bool:
        """True if a record is one number."""
        return len(self.shape) == 1

    @cached_property
    def free(self) -> list[Any]:
        """The free variables other than the records."""
        return sorted((rv for rv in self.model.free_RVs if rv is not self.x), key=lambda rv: self.order.index(rv.name))

    @cached_property
    def derived(self) -> list[Any]:
        """Deterministic quantities of the parameters alone."""
        from pytensor.graph.traversal import ancestors

        return [d for d in self.model.deterministics if d is not self.x and self.x not in set(ancestors([d]))]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What a target may name."""
        return tuple(v.name for v in (*self.free, *self.derived))

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each named quantity."""
        return {v.name: _shape(v) for v in (*self.free, *self.derived)}

    @property
    def continuous(self) -> bool:
        """True if no parameter is discrete."""
        return all(np.dtype(v.dtype).kind == "f" for v in self.free)

    def describe(self) -> str:
        """The model in words: what the records are given the parameters, and the parameters' names."""
        law = _law(self.x) if self.x in self.model.free_RVs else "made from other variables"
        names = ", ".join(v.name for v in self.free)
        return f"the records to be {law}" + (f" with {names} unknown" if names else "")

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
        """Log density of parameters on the unconstrained scale (and of whatever the model has observed beside them), ``(S,)``."""
        u = np.atleast_2d(np.asarray(u, dtype=np.float64))
        return np.broadcast_to(self._log_prior(self._split(u))[0], (len(u),))

    @cached_property
    def _log_prior_density(self) -> Any:
        pm = _pymc()
        at = [rv.type(name=f"{rv.name}_at") for rv in self.free]
        with quiet():
            logs = [pm.logp(rv, value, warn_rvs=False).sum() for rv, value in zip(self.free, at, strict=True)]
        return vectorised([sum(logs[1:], logs[0])], [*self.free, *at])

    def log_prior_density(self, theta: Theta) -> Array:
        """Log prior density of the free variables on their natural scale, ``(S,)``; what the model has observed is left out."""
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
        """Log prior, natural scale and (if wanted) moments of normal records in one go, for whoever needs all of them."""
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
        """Mean and variance of normal records: ``(S, 1 or n)`` each, or ``(S, 1 or n, k)``; covariances ``(..., k, k)``."""
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

        pm = _pymc()
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
    def single(self) -> Anatomy | None:
        """The model for one record, if all records follow the same law given the parameters; None otherwise.

        It is seen by comparing log densities at a few points of the parameter space, and so are the priors.
        """
        if self.kind == "joint" or not self.continuous:
            return None
        if self.n == 1:
            return self
        try:
            one = self.belief.anatomy(1)
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

    # -- forward -----------------------------------------------------------------------------------------

    @cached_property
    def flat(self) -> tuple[str, ...]:
        """Names of variables with a flat prior, which has no law to draw from."""
        from pytensor.graph.traversal import ancestors

        outputs = [self.x, *self.free, *self.derived]
        flat = [
            v
            for v in set(ancestors(outputs))
            if v.owner is not None and type(v.owner.op).__name__ in ("FlatRV", "HalfFlatRV")
        ]
        return tuple(sorted(v.name or "?" for v in flat))

    @property
    def improper(self) -> bool:
        """True if some prior is flat."""
        return bool(self.flat)

    def _refuse_flat(self) -> None:
        if self.flat:
            raise InputError(
                "A flat prior has no law to draw from", ", ".join(self.flat), "Give it a proper prior, or pass data="
            )

    @cached_property
    def _forward(self) -> Any:
        from pymc.pytensorf import compile as compile_forward

        self._refuse_flat()
        with quiet():
            return compile_forward([], [self.x, *self.free, *self.derived], mode=cheap_mode(), random_seed=0)

    @cached_property
    def _priors(self) -> Any:
        """Many draws of the parameters in one call, or None where the graph cannot be batched."""
        import pytensor.tensor as pt
        from pymc.pytensorf import compile as compile_forward
        from pytensor.graph.replace import vectorize_graph
        from pytensor.graph.traversal import ancestors

        random = lambda graphs: [  # noqa: E731
            v for v in set(ancestors(graphs)) if v.owner is not None and hasattr(v.owner.op, "dist_params")
        ]
        count, batched = pt.lscalar("count"), {}
        for v in random(self.free):
            for p in v.owner.op.dist_params(v.owner):
                if not random([p]):
                    batched[p] = pt.alloc(p, count, *(p.shape[i] for i in range(p.ndim)))
        try:
            with quiet():
                return compile_forward(
                    [count], vectorize_graph(list(self.free), batched), mode=cheap_mode(), random_seed=0
                )
        except (NotImplementedError, ValueError, TypeError):
            return None

    def prior(self, count: int, rng: np.random.Generator) -> dict[str, Array]:
        """Many independent draws of the free parameters from their prior, ``(count,) + shape`` each, or fewer where that is slow."""
        self._refuse_flat()
        if self._priors is not None:
            _reseed(self._priors, rng)
            with quiet():
                found = self._priors(count)
            if all(np.shape(a) == (count, *self.shapes[v.name]) for v, a in zip(self.free, found, strict=True)):
                return {v.name: np.asarray(a) for v, a in zip(self.free, found, strict=True)}
        # One call per draw is slow: a tenth will do.
        rows = [self.draw(rng)[1] for _ in range(max(500, count // 10))]
        return {v.name: np.stack([row[v.name] for row in rows]) for v in self.free}

    @cached_property
    def prior_draws(self) -> dict[str, Array]:
        """Draws from the prior for what is known before any release, the same whoever asks."""
        return self.prior(20_000, np.random.default_rng(20_000))

    def draw(self, rng: np.random.Generator) -> tuple[Array, dict[str, Array]]:
        """Parameters from the prior and records from them: ``(records, parameters)``."""
        function = self._forward
        _reseed(function, rng)
        with quiet():
            found = function()
        records = np.asarray(found[0])
        return records, {v.name: np.asarray(a) for v, a in zip((*self.free, *self.derived), found[1:], strict=True)}


# -- graphs ------------------------------------------------------------------------------------------------


def _pymc() -> Any:
    from ...beliefs.pymc import quiet_pymc

    return quiet_pymc()


def _reseed(function: Any, rng: np.random.Generator) -> None:
    from pymc.pytensorf import reseed_rngs

    holders = [v for v in function.get_shared() if isinstance(v.get_value(borrow=True), np.random.Generator)]
    reseed_rngs(holders, int(rng.integers(2**63)))


def _shape(variable: Any) -> tuple[int, ...]:
    known = variable.type.shape
    return tuple(int(s) for s in (known if None not in known else variable.shape.eval(mode=cheap_mode())))


def _zero() -> Any:
    import pytensor.tensor as pt

    return pt.constant(0.0)


def _kind(model: Any, x: Any, shape: tuple[int, ...]) -> str:
    from pytensor.graph.traversal import ancestors

    others = [v for v in (*model.basic_RVs, *model.potentials) if v is not x]
    if x in set(ancestors(others)):
        return "joint"
    op = x.owner.op
    if op.ndim_supp == 0:
        return "normal" if type(op).__name__ == "NormalRV" else "elementwise"
    if op.ndim_supp == 1 and len(shape) == 2 and type(op).__name__ == "MvNormalRV":
        return "mvnormal"
    return "joint"


def _law(x: Any) -> str:
    words = type(x.owner.op).__name__.removesuffix("RV")
    return {"MvNormal": "multivariate normal", "LogNormal": "lognormal", "Normal": "normal"}.get(
        words, f"of the law {words}"
    )


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
