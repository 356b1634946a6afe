"""A belief written as a PyMC model. PyMC is imported when the model is first built, not before."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import traceback
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..checks import check_index, check_integer, check_list, check_names, check_text, name_of, suggest
from ..errors import ConvergenceError, InputError
from ..protocols import Array
from ..targets import BaseTarget, Kind
from .base import BaseBelief, DrawnFile

if TYPE_CHECKING:
    from pymc import Model
    from pytensor.compile.function.types import Function
    from pytensor.compile.mode import Mode
    from pytensor.tensor.variable import TensorVariable

CHAINS, DRAWS = 4, 1000
"""Of the draws given what a model observes."""


@dataclass(frozen=True, init=False, eq=False)
class PyMCBelief(BaseBelief):
    """A user's belief as a PyMC model: any population model, any prior.

    Parameters
    ----------
    builder : callable or pymc.Model
        ``builder(n, **settings)`` gives back a `pymc.Model` for a file of n records. One variable of it holds the
        confidential records: n of them, or an n by k matrix for k variables. Everything else in the model is a
        parameter that a target may name. A model itself will do where the number of records is fixed.
    records : str, default "x"
        Name of that variable.
    size : int, optional
        How many records there are, where no data say so: planning before any data exist.
    name : str, optional
        The belief in words, for reports ("incomes are lognormal with ...").
    columns : list of names, optional
        Names of the k variables; those of the model's coords along the second dim of the records if not given. A
        DataFrame must have exactly these columns, in any order; without names they are taken in the order in which
        they come.
    **settings
        Passed on to the builder. ``Panel.vary(user, scale=[...])`` and `sensitivity` vary them by name, and those that
        the builder has defaults for.

    Notes
    -----
    The model must not contain the release: the mask adds its own likelihood. Where the records are independent given
    the parameters (most models), they are integrated out and only the parameters are sampled; put ``x`` last, and write
    it as one distribution with ``shape=n`` (or dims), so that this can be seen.

    What the user knows besides (a pilot survey as ``observed=``, a `pymc.Potential` on a parameter or on the total) is
    part of the belief: the uncertainty before any release, planned files and `draw` are given it too. Dims and coords
    give names to targets, ``Parameter("beta", component="age")``, and to the draws of a map.

    Examples
    --------
    >>> def incomes(n, scale=0.4):
    ...     import pymc as pm
    ...
    ...     with pm.Model() as model:
    ...         mu = pm.Normal("mu", 10, 1)
    ...         sigma = pm.HalfNormal("sigma", scale)
    ...         pm.LogNormal("x", mu, sigma, shape=n)
    ...     return model
    >>> belief = PyMCBelief(incomes, size=200, scale=0.3)
    >>> belief
    PyMCBelief(incomes, records='x', size=200, scale=0.3)
    """

    builder: Callable[..., Model] | Model
    variable: str
    size: int | None
    name: str | None
    columns: tuple[Hashable, ...] | None
    settings: Mapping[str, Any]

    def __init__(
        self,
        builder: Callable[..., Model] | Model,
        records: str = "x",
        *,
        size: int | None = None,
        name: str | None = None,
        columns: Sequence[Hashable] | None = None,
        **settings: Any,
    ) -> None:
        put = lambda key, value: object.__setattr__(self, key, value)  # noqa: E731
        check_text("records", records, 'Name the variable that holds the records, records="x"; their number is size=')
        size = None if size is None else check_integer("size", size, low=1)
        if hasattr(builder, "free_RVs"):
            size = _size_of(builder, records, size, settings)
        elif not callable(builder):
            do = "Write a function builder(n) that makes the model for n records and gives it back"
            raise InputError("builder must be a function of n, or a pymc.Model", type(builder).__name__, do)
        else:
            _check_settings(builder, settings)
        if columns is not None:
            columns = check_names("columns", columns, len(check_list("columns", columns, "Name each variable once")))
        put("builder", builder)
        put("variable", records)
        put("size", size)
        put("name", None if name is None else check_text("name", name, "Leave it out, or say what is believed"))
        put("columns", columns)
        put("settings", dict(settings))

    # -- settings and names ----------------------------------------------------------------------------

    @property
    def adjustable_settings(self) -> dict[str, Any]:
        """What can be varied by name: the builder's settings, given or by default, and size."""
        known = _settings_of_builder(self.builder) or {}
        defaults = {name: p.default for name, p in known.items() if p.default is not p.empty}
        return {"size": self.size, **defaults, **self.settings}

    def adjusted(self, **changes: Any) -> PyMCBelief:
        """The same belief with other settings."""
        own = {"size": self.size, "name": self.name, "columns": self.columns, **self.settings}
        return PyMCBelief(self.builder, self.variable, **(own | changes))

    def column_names(self, n: int | None = None) -> Sequence[Hashable] | None:
        """Names of the variables of a record in a file of n: as given, or the model's coords."""
        if self.columns is not None:
            return self.columns
        axes = self.built(self.size or n or self.records).labels(self.variable)
        return None if len(axes) < 2 or list(axes[1]) == list(range(len(axes[1]))) else axes[1]

    def entry_names(self, name: str, n: int | None = None) -> Sequence[Sequence[Hashable]]:
        """Names of the entries of a parameter along its axes: the model's coords, positions where it has none."""
        return (self._any_built_model if n is None else self.built(self.size or n)).labels(name)

    @property
    def _models_by_size(self) -> dict[int, BuiltModel]:
        # Not a field: what was built is no part of what is believed.
        return self.__dict__.setdefault("_models", {})  # type: ignore[no-any-return]

    @property
    def records(self) -> int:
        """How many records there are."""
        if self.size is None:
            raise InputError(
                "This belief does not say how many records there are",
                None,
                "Pass data=, or PyMCBelief(builder, size=200)",
            )
        return self.size

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters that a target may ask for."""
        return tuple(self._any_built_model.names)

    @property
    def _any_built_model(self) -> BuiltModel:
        """The model for some number of records.

        What it is in words does not depend on that, and building takes time.
        """
        n = self.size or max(self._models_by_size, default=0)
        if n:
            return self.built(n)
        try:
            return self.built(2)
        except InputError as error:
            what = "This belief does not say how many records there are, and its builder does not take two"
            raise InputError(what, f"{error.what}; {error.got}", "Give size=, PyMCBelief(builder, size=200)") from None

    def built(self, n: int) -> BuiltModel:
        """The model for ``n`` records, built once and looked at."""
        if n not in self._models_by_size:
            if len(self._models_by_size) >= 8:
                self._models_by_size.pop(next(iter(self._models_by_size)))
            self._models_by_size[n] = BuiltModel.of(self, n)
        return self._models_by_size[n]

    def build(self, n: int, traced: bool = False) -> Model:
        """Call the builder and check what it gives back.

        Unless ``traced``, its variables do not know where in the code they were made: to look that up takes as long
        as to make them.
        """
        pm = quiet_pymc()
        import pytensor

        if isinstance(self.builder, pm.Model):
            if n != self.size:
                do = "Give a function of n instead of a model"
                raise InputError(f"The model is for {self.size} records", n, do)
            from pymc.model.fgraph import clone_model

            with without_notices():
                return keeping_starts(self.builder, clone_model)
        try:
            limit = pytensor.config.traceback__limit if traced else 0
            with warnings.catch_warnings(), pytensor.config.change_flags(traceback__limit=limit):
                # Records are integrated out: which way a sampler would go over them is nobody's concern.
                warnings.filterwarnings("ignore", message="No safe default transform found for Mixture")
                model = self.builder(n, **self.settings)
        except Exception as error:
            do = "Call the builder yourself to see where; arrays in it must have a row for each record"
            own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == _file_of(self.builder)]
            where = f" (line {own[-1].lineno}: {own[-1].line})" if own else ""
            got = f"{type(error).__name__}: {error}{where}"
            raise InputError(f"The builder fails for {n} records", got, do) from error
        if not isinstance(model, pm.Model):
            raise InputError(
                "The builder must give back a pymc.Model", type(model).__name__, "End it with `return model`"
            )
        return model

    def check_target(self, target: BaseTarget) -> None:
        """Refuse a target that this belief can never have; names are checked when the model is built."""
        if target.asks_row:
            raise InputError(
                "PyMCBelief does not have this target",
                target,
                "Use Record(j), Parameter(name), NewRecord(), Average() ...",
            )

    def check_names(self, target: BaseTarget, n: int) -> None:
        """Refuse a parameter that is not in the model and a row that is not in the file."""
        names = self.built(n).names
        for term in target.terms:
            if term.kind is Kind.PARAMETER and term.name not in names:
                raise InputError(
                    "The model has no parameter of this name", term.name, f"Choose one of {', '.join(names) or 'none'}"
                )
            if term.kind is Kind.PARAMETER and term.component is not None:
                entries = max(int(np.prod(self.built(n).shapes[term.name])), 1)
                check_index(f"component of {term.name}", term.component, entries)
            if term.kind is Kind.RECORD and not -n <= term.row < n:
                raise InputError(f"There are {n} records", term.row, "Count rows from 0")
        target.rows_in(n)
        if target.entry is not None:
            check_index("column", target.entry[1], self.built(n).k)

    def draw(self, rng: np.random.Generator) -> Array:
        """Draw a data set of ``size`` records from the belief: parameters, given what it observes, then records."""
        return self.draw_with_parameters(rng)[0]

    def draw_with_parameters(self, rng: np.random.Generator) -> tuple[Array, dict[str, Array]]:
        return self.built(self.records).draw(rng)

    def draw_file(self, rng: np.random.Generator, new: bool = False) -> DrawnFile:
        if not new:
            return super().draw_file(rng)
        # One record more than there are: all are alike, so the last one is somebody outside the file.
        records, parameters = self.built(self.records + 1).draw(rng)
        return self._as_file(records[:-1], parameters, records[-1])

    def describe(self) -> str:
        try:
            return self.name or self._any_built_model.describe()
        except InputError:
            # What is wrong is said when a file is there.
            return f"the model {name_of(self.builder) or 'that its builder makes'}"

    def __getstate__(self) -> dict[str, Any]:
        # Compiled functions stay in the process that made them.
        return {name: value for name, value in self.__dict__.items() if name != "_models"}

    def __repr__(self) -> str:
        said = {"size": self.size, "columns": self.columns, **self.settings}
        shown = "".join(f", {key}={value!r}" for key, value in said.items() if value is not None)
        return f"PyMCBelief({name_of(self.builder) or '<lambda>'}, records={self.variable!r}{shown})"


@dataclass(frozen=True, eq=False)
class BuiltModel:
    """One built model: which variable holds the records, and how they come from the parameters.

    ``kind`` says what the records are given the parameters:
    ``"normal"`` (independent and normal, entry by entry), ``"mvnormal"`` (independent normal rows),
    ``"elementwise"`` (independent, any law), or ``"joint"`` (rows depend on each other, or something else in the model
    depends on them).
    """

    belief: PyMCBelief = field(repr=False)
    n: int
    model: Model = field(repr=False)
    x: TensorVariable = field(repr=False)
    shape: tuple[int, ...]
    kind: str
    discrete: bool
    order: tuple[str, ...] = field(repr=False)
    """Names of the free variables as the builder made them."""
    kept: dict[type, Any] = field(default_factory=dict, repr=False)
    """What engines made of it, by its type: compiled once, gone with the belief."""

    # -- making --------------------------------------------------------------------------------------

    @classmethod
    def of(cls, belief: PyMCBelief, n: int) -> Self:
        """Build the model for ``n`` records and look at it."""
        quiet_pymc()  # first, and quietly: PyMC's own imports give notices
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
            with without_notices():
                model = keeping_starts(model, lambda m: remove_value_transforms(m, [m[name]]))
            x = model[name]
        shape = _static_shape(x)
        if len(shape) not in (1, 2) or shape[0] != n:
            raise InputError(
                f"The variable {name!r} must hold {n} records, one per row",
                f"shape {shape}",
                "Write shape=n, or shape=(n, k) for k variables, with the n that the builder is given",
            )
        if free:
            _check_lengths(x, shape, belief)
        kind = _kind_of_record_law(model, x, shape) if free else "joint"
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
    def free(self) -> list[TensorVariable]:
        """The free variables other than the records."""
        return sorted((rv for rv in self.model.free_RVs if rv is not self.x), key=lambda rv: self.order.index(rv.name))

    @cached_property
    def deterministics(self) -> list[TensorVariable]:
        """Deterministic quantities of the parameters alone."""
        from pytensor.graph.traversal import ancestors

        return [d for d in self.model.deterministics if d is not self.x and self.x not in set(ancestors([d]))]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What a target may name."""
        return tuple(v.name for v in (*self.free, *self.deterministics))

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each named quantity."""
        return {v.name: _static_shape(v) for v in (*self.free, *self.deterministics)}

    def labels(self, name: str) -> tuple[tuple[Hashable, ...], ...]:
        """Names of the entries of a variable along its axes: the model's coords, or positions."""
        shape = self.shape if name == self.belief.variable else self.shapes.get(name, ())
        dims = self.model.named_vars_to_dims.get(name) or (None,) * len(shape)
        known = [None if dim is None else self.model.coords.get(dim) for dim in dims]
        return tuple(tuple(range(size) if c is None else c) for size, c in zip(shape, known, strict=True))

    @property
    def continuous(self) -> bool:
        """True if no parameter is discrete."""
        return all(np.dtype(v.dtype).kind == "f" for v in self.free)

    def describe(self) -> str:
        """The model in words: what the records are given the parameters, and the parameters' names."""
        law = _law_in_words(self.x) if self.x in self.model.free_RVs else "made from other variables"
        names = ", ".join(v.name for v in self.free)
        return f"the records to be {law}" + (f" with {names} unknown" if names else "")

    # -- forward -----------------------------------------------------------------------------------------

    @cached_property
    def flat(self) -> tuple[str, ...]:
        """Names of variables with a flat prior, which has no law to draw from."""
        from pymc import Flat, HalfFlat
        from pytensor.graph.traversal import ancestors

        outputs, laws = [self.x, *self.free, *self.deterministics], (type(Flat.rv_op), type(HalfFlat.rv_op))
        flat = [v for v in set(ancestors(outputs)) if v.owner is not None and type(v.owner.op) in laws]
        return tuple(sorted(v.name or "?" for v in flat))

    @property
    def is_improper(self) -> bool:
        """True if some prior is flat, and nothing that the model observes makes up for it."""
        return bool(self.flat) and not self.informed

    @cached_property
    def informed(self) -> bool:
        """Whether the model knows more than its priors: observed variables or Potentials."""
        return bool(self.model.observed_RVs or self.model.potentials)

    def _refuse_flat(self) -> None:
        if self.is_improper:
            raise InputError(
                "A flat prior has no law to draw from", ", ".join(self.flat), "Give it a proper prior, or pass data="
            )

    @cached_property
    def _forward_function(self) -> Function:
        from pymc.pytensorf import compile as compile_forward

        self._refuse_flat()
        with without_notices():
            return compile_forward([], [self.x, *self.free, *self.deterministics], mode=cheap_mode(), random_seed=0)

    @cached_property
    def _batched_prior_draws(self) -> Function | None:
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
            with without_notices():
                return compile_forward(
                    [count], vectorize_graph(list(self.free), batched), mode=cheap_mode(), random_seed=0
                )
        except (NotImplementedError, ValueError, TypeError):
            return None

    def _draw_at_once(self, count: int, seed: int) -> list[Array] | None:
        """Draws of the parameters in one call; None where that cannot be."""
        function = self._batched_prior_draws
        if function is None:
            return None
        _reseed(function, seed)
        with without_notices():
            found = [np.asarray(a) for a in function(count)]
        shapes = [(count, *self.shapes[v.name]) for v in self.free]
        return found if [a.shape for a in found] == shapes else None

    def prior(self, count: int, rng: np.random.Generator) -> dict[str, Array]:
        """Independent draws of the free parameters from their prior, ``(count,) + shape`` each.

        Fewer where that is slow.
        """
        self._refuse_flat()
        # A copy says the seed: the slow way takes the generator as it was given.
        found = self._draw_at_once(count, int(deepcopy(rng).integers(2**63)))
        if found is not None:
            return {v.name: a for v, a in zip(self.free, found, strict=True)}
        # One call per draw is slow: a tenth will do.
        rows = [self.draw(rng)[1] for _ in range(max(500, count // 10))]
        return {v.name: np.stack([row[v.name] for row in rows]) for v in self.free}

    @cached_property
    def draws_given_observed(self) -> dict[str, Array]:
        """Draws given what the model observes, ``(CHAINS, DRAWS) + shape`` of every named quantity.

        The records are among them where something that is observed depends on them.
        """
        pm = quiet_pymc()
        model, x, tied = self.belief.build(self.n), self.belief.variable, self.kind == "joint"
        if tied and self.discrete:
            what, do = "Discrete records that something observed depends on cannot be drawn", "Sum them out"
            raise InputError(what, x, do)
        with without_notices():
            if not tied:
                zeros = np.zeros(self.shape, dtype=self.x.dtype)
                model = keeping_starts(model, lambda m: pm.do(m, {x: zeros}))
            fast = importlib.util.find_spec("nutpie") is not None and not model.discrete_value_vars
            settings: dict[str, Any] = {"tune": DRAWS, "chains": CHAINS, "cores": 1, "random_seed": 20_000}
            settings |= {"nuts_sampler": "nutpie" if fast else "pymc", "compute_convergence_checks": False}
            settings["progressbar"] = False
            try:
                trace = pm.sample(DRAWS, model=model, **settings)["posterior"]
            except Exception as error:
                do = "Check that the priors allow what is observed; pm.sample(builder(n)) shows where it has trouble"
                first = (str(error).strip().splitlines() or [""])[0][:200]
                what = "The model, given what it observes, cannot be sampled"
                raise InputError(what, f"{type(error).__name__}: {first}", do) from None
        names = (*self.names, x) if tied else self.names
        found = {name: np.asarray(trace[name].values) for name in names}
        # Chains that disagree about a mean by more than their own spread have not found the law.
        for name, values in found.items():
            apart, within = values.mean(axis=1).std(axis=0, ddof=1), values.std(axis=1).mean(axis=0)
            if np.any(apart > 0.3 * within + 1e-12 * np.abs(values).max()):
                do = "Reparametrise the model; pm.sample(builder(n)) shows where it has trouble"
                raise ConvergenceError("The model, given what it observes, cannot be sampled", name, do)
        return found

    @cached_property
    def prior_draws(self) -> dict[str, Array]:
        """Draws of the free parameters before any release, the same whoever asks: given what the model observes."""
        if self.informed:
            return {v.name: _flatten_chains(self.draws_given_observed[v.name]) for v in self.free}
        return self.prior(20_000, np.random.default_rng(20_000))

    def draw(self, rng: np.random.Generator) -> tuple[Array, dict[str, Array]]:
        """Parameters as they are believed before any release and records from them: ``(records, parameters)``."""
        if self.informed:
            place = int(rng.integers(CHAINS * DRAWS))
            found = {name: _flatten_chains(values)[place] for name, values in self.draws_given_observed.items()}
            records = found.pop(self.belief.variable, None)
            return self.records_given(found, rng) if records is None else records, found
        function = self._forward_function
        _reseed(function, rng)
        with without_notices():
            records, *rest = (np.asarray(a) for a in function())
        return records, {v.name: a for v, a in zip((*self.free, *self.deterministics), rest, strict=True)}

    def records_given(self, parameters: dict[str, Array], rng: np.random.Generator) -> Array:
        """Another file that these parameters give."""
        _reseed(self._records_given_parameters, rng)
        with without_notices():
            return np.asarray(
                self._records_given_parameters(*(np.asarray(parameters[v.name], dtype=v.dtype) for v in self.free))[0]
            )

    @cached_property
    def _records_given_parameters(self) -> Function:
        from pymc.pytensorf import compile as compile_forward
        from pytensor.graph.replace import clone_replace

        inputs = [rv.type(name=rv.name) for rv in self.free]
        known = dict(zip(self.free, inputs, strict=True))
        known |= {rv: self.model.rvs_to_values[rv] for rv in self.model.observed_RVs}
        with without_notices():
            graph = clone_replace([self.x], known)
            return compile_forward(inputs, graph, mode=cheap_mode(), random_seed=0, on_unused_input="ignore")


def quiet_pymc() -> ModuleType:
    """PyMC, imported without the notices that its libraries print about their own future."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pymc
    return pymc


@contextmanager
def building_graphs() -> Iterator[None]:
    """Graphs are made without warnings, and without a search for where in the code each node was made.

    Loggers are left alone: to change their levels takes longer.
    """
    import pytensor

    quick = {"traceback__limit": 0, "traceback__compile_limit": 0}
    with warnings.catch_warnings(action="ignore"), pytensor.config.change_flags(**quick):
        yield


@contextmanager
def without_notices() -> Iterator[None]:
    """Silence notices that PyMC and PyTensor give about themselves."""
    # PyMC logs what it does at every run; a map has its own progress bar.
    names = ("pymc", "pymc.sampling.mcmc", "pymc.stats.convergence", "nutpie")
    levels = [(logger, logger.level) for logger in map(logging.getLogger, names)]
    with warnings.catch_warnings(action="ignore"):
        for logger, _ in levels:
            logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for logger, level in levels:
                logger.setLevel(level)


def cheap_mode() -> Mode:
    """Numpy code, and as few rewrites as stable numbers need."""
    from pytensor.compile.mode import Mode

    # Stable forms of log-sum-exp and the like are wanted; compiled code is not.
    return Mode(linker="py", optimizer="fast_compile").including("canonicalize", "stabilize")


def keeping_starts(model: Model, change: Callable[[Model], Model]) -> Model:
    """A changed copy of a model with the starting values (``initval=``) of the old one, which PyMC cannot copy."""
    own = dict(model.rvs_to_initial_values)
    starts = {rv.name: value for rv, value in own.items() if value is not None}
    for rv in own:
        model.rvs_to_initial_values[rv] = None
    try:
        found = change(model)
    finally:
        model.rvs_to_initial_values.update(own)
    for name, value in starts.items():
        if name in found.named_vars and found[name] in found.rvs_to_initial_values:
            found.rvs_to_initial_values[found[name]] = value
    return found


def _size_of(model: Any, records: str, size: int | None, settings: Mapping[str, Any]) -> int:
    """How many records a model is about."""
    if settings:
        do = "Give a function builder(n, **settings) instead"
        raise InputError("A model that is built already takes no settings", ", ".join(settings), do)
    if records not in model.named_vars:
        got = f"no {records!r} among {', '.join(model.named_vars) or 'no variables'}"
        raise InputError(
            "The model has no variable for the records", got, "Name it with PyMCBelief(model, records=...)"
        )
    found = (*_static_shape(model[records]), 0)[0]
    if size not in (None, found):
        raise InputError(f"The model is for {found} records", f"size={size}", "Leave out size=")
    return found


def _check_settings(builder: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Refuse settings that the builder does not have, where that can be seen."""
    known = _settings_of_builder(builder)
    if known is not None and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
        for name in (name for name in settings if name not in known):
            do = suggest(name, list(known)) if known else "Let it take settings: builder(n, scale=1)"
            raise InputError("The builder has no such setting", name, do)


def _settings_of_builder(builder: Any) -> dict[str, inspect.Parameter] | None:
    """What a builder takes beside the number of records; None where that cannot be seen."""
    try:
        return dict(list(inspect.signature(builder).parameters.items())[1:])
    except (TypeError, ValueError):
        return None


def _flatten_chains(values: Array) -> Array:
    """Draws of all chains in a row."""
    return values.reshape(-1, *values.shape[2:])


def _file_of(builder: object) -> str | None:
    """The file that a builder is written in."""
    return getattr(getattr(builder, "__code__", None), "co_filename", None)


def _reseed(function: Function, rng: np.random.Generator | int) -> None:
    from pymc.pytensorf import reseed_rngs

    holders = [v for v in function.get_shared() if isinstance(v.get_value(borrow=True), np.random.Generator)]
    reseed_rngs(holders, rng if isinstance(rng, int) else int(rng.integers(2**63)))


def _static_shape(variable: TensorVariable) -> tuple[int, ...]:
    known = variable.type.shape
    return tuple(int(s) for s in (known if None not in known else variable.shape.eval(mode=cheap_mode())))


def _check_lengths(x: TensorVariable, shape: tuple[int, ...], belief: PyMCBelief) -> None:
    """Refuse parameters of the records' law that are for another number of records."""
    from pytensor.tensor.random.op import RandomVariable

    op = x.owner.op
    if not isinstance(op, RandomVariable) or op.ndim_supp or any(op.ndims_params):
        return
    for i, parameter in enumerate(op.dist_params(x.owner)):
        for own, wanted in zip(parameter.type.shape[::-1], shape[::-1], strict=False):
            if own not in (None, 1, wanted):
                traced = belief.build(shape[0], traced=True)[belief.variable]
                made = (frame for trace in getattr(op.dist_params(traced.owner)[i].tag, "trace", []) for frame in trace)
                lines = [f" (line {line}: {text})" for file, line, _, text in made if file == _file_of(belief.builder)]
                where = lines[-1] if lines else ""
                what = f"The law of {x.name!r} has a parameter of length {own} for {shape[0]} records{where}"
                do = "Give a file of that length, or cut arrays in the builder to the n that it is given: z[:n]"
                raise InputError(what, f"{parameter.name or 'a vector'} of length {own}", do)


def _kind_of_record_law(model: Model, x: TensorVariable, shape: tuple[int, ...]) -> str:
    from pytensor.graph.traversal import ancestors
    from pytensor.tensor.random.basic import MvNormalRV, NormalRV

    others = [v for v in (*model.basic_RVs, *model.potentials) if v is not x]
    if x in set(ancestors(others)):
        return "joint"
    op = x.owner.op
    if op.ndim_supp == 0:
        return "normal" if type(op) is NormalRV else "elementwise"
    if op.ndim_supp == 1 and len(shape) == 2 and type(op) is MvNormalRV:
        return "mvnormal"
    return "joint"


def _law_in_words(x: TensorVariable) -> str:
    words = type(x.owner.op).__name__.removesuffix("RV")
    return {"MvNormal": "multivariate normal", "LogNormal": "lognormal", "Normal": "normal"}.get(
        words, f"of the law {words}"
    )
