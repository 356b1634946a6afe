"""PyTensor graphs as numpy functions of many points at once, compiled in milliseconds without a compiler.

A graph becomes a list of numpy calls: what PyTensor's own Python mode does, without the cost of each call. Measured
beside `pytensor.function` in that mode, a first map of a normal model takes two thirds of the time and every further
one half of it; that is why this stays.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from ...beliefs.pymc import cheap_mode, without_notices
from ...errors import InputError
from ...protocols import Array

if TYPE_CHECKING:
    from pytensor.graph.basic import Apply, Variable
    from pytensor.graph.fg import FunctionGraph
    from pytensor.graph.op import Op

Call = Callable[[list[Array]], Sequence[Array]]


class vectorised:
    """Outputs as a numpy function of many points at once, compiled in milliseconds without a compiler.

    Unless ``stable`` is wanted, the graphs are taken as they are, which is far quicker where only a few points are
    looked at.
    """

    def __init__(
        self,
        outputs: Sequence[Variable],
        inputs: Sequence[Variable],
        extra: Sequence[Variable] = (),
        stable: bool = True,
    ) -> None:
        import pytensor
        import pytensor.tensor as pt
        from pytensor.graph.replace import vectorize_graph

        many = [pt.tensor(f"{v.name}_many", dtype=v.dtype, shape=(None, *v.type.shape)) for v in inputs]
        with without_notices(), without_traces():
            graphs, places = _without_parameter_checks(outputs, [*inputs, *extra])
            own, rest = places[: len(many)], places[len(many) :]
            graphs = vectorize_graph(graphs, dict(zip(own, many, strict=True))) if own else graphs
            self.function: Any = _numpy_program([*many, *rest], graphs, stable)
            if self.function is None:
                self.function = pytensor.function([*many, *rest], graphs, mode=cheap_mode(), on_unused_input="ignore")
        self.types = [v.dtype for v in inputs]
        self.extra = [v.dtype for v in extra]

    def __call__(self, points: Sequence[Array], extra: Sequence[Array] = ()) -> list[Array]:
        ready = [np.ascontiguousarray(p).astype(t, copy=False) for p, t in zip(points, self.types, strict=True)]
        more = [np.asarray(e, dtype=t) for e, t in zip(extra, self.extra, strict=True)]
        # Loggers are left alone here: to change their levels takes longer than most calls.
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            try:
                return self.function(*ready, *more)  # type: ignore[no-any-return]
            except (ValueError, IndexError, AssertionError) as error:
                do = "Check the lengths of the arrays in the builder: one entry for each of its n records"
                first = str(error).strip().splitlines()[0][:200] if str(error).strip() else ""
                raise InputError("The model cannot be evaluated", f"{type(error).__name__}: {first}", do) from error


def without_traces() -> AbstractContextManager[object]:
    """Where in the code a node was made is of no use to anybody here, and takes time to find out."""
    import pytensor

    return pytensor.config.change_flags(traceback__limit=0, traceback__compile_limit=0)  # type: ignore[no-any-return]


def _numpy_program(inputs: Sequence[Variable], outputs: Sequence[Variable], stable: bool) -> Program | None:
    """The graphs as numpy calls, rewritten into stable forms if wanted."""
    from pytensor.compile.sharedvalue import SharedVariable
    from pytensor.graph.fg import FunctionGraph
    from pytensor.graph.traversal import graph_inputs

    shared = [v for v in graph_inputs(list(outputs)) if isinstance(v, SharedVariable) and v not in inputs]
    graph = FunctionGraph([*inputs, *shared], list(outputs), clone=True)
    _allocate_at_once(graph)
    if stable:
        cheap_mode().optimizer.rewrite(graph)
    return Program.of(graph, len(inputs))


def _allocate_at_once(graph: FunctionGraph) -> None:
    """One allocation for all points instead of one for each: the lengths are the same for all of them."""
    import pytensor.tensor as pt
    from pytensor.tensor.basic import Alloc
    from pytensor.tensor.blockwise import Blockwise

    for node in graph.toposort():
        if not isinstance(node.op, Blockwise) or not isinstance(node.op.core_op, Alloc):
            continue
        value, *lengths = node.inputs
        out = node.outputs[0]
        many = out.type.ndim - len(lengths)
        own = value.type.ndim - many
        value = value.dimshuffle(*range(many), *["x"] * (len(lengths) - own), *range(many, value.type.ndim))
        # Of several inputs that are laid along an axis of points one with its full length tells how many there are.
        batch = [next((v for v in node.inputs if not v.type.broadcastable[i]), value).shape[i] for i in range(many)]
        found = pt.alloc(value, *batch, *(length.ravel()[0] for length in lengths))
        graph.replace(out, found.astype(out.dtype), import_missing=True)


def _without_parameter_checks(
    outputs: Sequence[Variable], inputs: Sequence[Variable]
) -> tuple[list[Variable], list[Variable]]:
    """The same graphs with log density -inf at points where a parameter is not allowed, instead of an error for all.

    An exponential that underflows makes a scale of zero: such a point has no density, and its neighbours have theirs.
    """
    import pytensor.tensor as pt
    from pymc.logprob.utils import CheckParameterValue
    from pytensor.compile.ops import ViewOp
    from pytensor.compile.sharedvalue import SharedVariable
    from pytensor.graph.fg import FunctionGraph
    from pytensor.graph.traversal import graph_inputs

    # Lengths of dims and data are shared variables, which a graph wants among its inputs.
    shared = [v for v in graph_inputs(list(outputs)) if isinstance(v, SharedVariable) and v not in inputs]
    graph = FunctionGraph([*inputs, *shared], list(outputs), clone=True, copy_orphans=False)
    for node in graph.toposort():
        if isinstance(node.op, CheckParameterValue) and node.op.can_be_replaced_by_ninf:
            value, *allowed = node.inputs
            good = pt.all([pt.all(a) for a in allowed]) if len(allowed) > 1 else pt.all(allowed[0])
            graph.replace(node.outputs[0], pt.switch(good, value, -np.inf).astype(value.dtype), import_missing=True)
        elif isinstance(node.op, ViewOp):  # the name of a Deterministic, which PyTensor would give point by point
            graph.replace(node.outputs[0], node.inputs[0])
    return list(graph.outputs), list(graph.inputs)[: len(inputs)]


class Program:
    """A function graph, rewritten already, as steps that read earlier values and give new ones.

    Shared variables, which come after the first ``count`` inputs, are read at every run. `of` gives None where an
    operation has ways of its own to run, which only PyTensor knows.
    """

    def __init__(self, graph: FunctionGraph, count: int) -> None:
        place: dict[Variable, int] = {v: i for i, v in enumerate(graph.inputs)}
        self.shared = [(place[v], v) for v in graph.inputs[count:]]
        self.count = count
        nodes = graph.toposort()
        for v in (*(v for node in nodes for v in (*node.inputs, *node.outputs)), *graph.outputs):
            place.setdefault(v, len(place))
        self.start: list[Any] = [getattr(v, "data", None) for v in place]
        self.outputs = [place[v] for v in graph.outputs]
        last = {i: step for step, node in enumerate(nodes) for i in (place[v] for v in (*node.inputs, *node.outputs))}
        self.steps: list[tuple[Call, list[int], list[int], list[int]]] = []
        for step, node in enumerate(nodes):
            done = [i for i, when in last.items() if when == step and i not in self.outputs]
            self.steps.append(
                (_numpy_call(node), [place[v] for v in node.inputs], [place[v] for v in node.outputs], done)
            )

    @classmethod
    def of(cls, graph: FunctionGraph, count: int) -> Program | None:
        """The program of a graph, or None."""
        return cls(graph, count) if all(_runs_by_perform(node.op) for node in graph.toposort()) else None

    def __call__(self, *values: Array) -> list[Array]:
        held = self.start.copy()
        held[: self.count] = values
        for i, variable in self.shared:
            held[i] = variable.get_value(borrow=True)
        for call, reads, writes, done in self.steps:
            found = call([held[i] for i in reads])
            for i, value in zip(writes, found, strict=True):
                held[i] = value
            del found
            for i in done:
                held[i] = None  # large arrays go as soon as nobody needs them
        return [held[i] for i in self.outputs]


def _runs_by_perform(op: Op) -> bool:
    """Whether an operation runs by its ``perform`` alone."""
    from pytensor.graph.op import Op
    from pytensor.link.c.op import COp

    return all(
        getattr(type(op), name) in (getattr(Op, name), getattr(COp, name)) for name in ("make_thunk", "make_py_thunk")
    )


def _numpy_call(node: Apply) -> Call:
    from pytensor.tensor.elemwise import Elemwise

    node.op.prepare_node(node, None, None, "py")
    if isinstance(node.op, Elemwise) and not node.op.inplace_pattern and len(node.outputs) == 1:
        ready = _entrywise_function(node)
        if ready is not None:
            return ready

    def call(values: list[Array]) -> list[Array]:
        cells: list[list[Any]] = [[None] for _ in node.outputs]
        node.op.perform(node, values, cells)
        return [cell[0] for cell in cells]

    return call


def _entrywise_function(node: Apply) -> Call | None:
    """One numpy function over all entries; None if numpy has none for it."""
    from pytensor.scalar.basic import Add, Mul

    # The numpy or scipy function that PyTensor names for the operation, and how many numbers it takes.
    function, count = (node.op.nfunc, node.op.nfunc_spec[1]) if node.op.nfunc is not None else (None, 0)
    dtype = np.dtype(node.outputs[0].dtype)
    options: dict[str, Any] = {}
    if isinstance(function, np.ufunc) and dtype.kind == "f" and np.dtype(node.inputs[0].dtype).kind in "iub":
        # Numpy would take small whole numbers to half precision.
        options["sig"] = dtype.char * len(node.inputs) + "->" + dtype.char
    loose = _axes_of_unknown_length(node)
    pairs = isinstance(node.op.scalar_op, (Add, Mul)) and len(node.inputs) > 2 and not options
    if function is None or not (pairs or count == len(node.inputs)):
        return None
    squared = function is np.power and _is_two(node.inputs[1])

    def call(values: list[Array]) -> tuple[Array]:
        if loose:
            _check_lengths(values, loose)
        if squared:
            found = np.square(values[0], dtype=dtype)
        elif pairs:
            # PyTensor would add three or more terms number by number in Python.
            found = values[0]
            for value in values[1:]:
                found = function(found, value)
        else:
            found = function(*values, **options)
        return (np.asarray(found, dtype=dtype),)

    return call


def _is_two(variable: Variable) -> bool:
    data = getattr(variable, "data", None)
    return data is not None and np.size(data) == 1 and bool(np.all(data == 2))


def _axes_of_unknown_length(node: Apply) -> list[tuple[int, list[int]]]:
    """Axes along which lengths are known when the graph runs only, each with the inputs that must agree there."""
    found = []
    for axis in range(node.outputs[0].type.ndim):
        own = [i for i, v in enumerate(node.inputs) if not v.type.broadcastable[axis]]
        if len(own) > 1 and any(node.inputs[i].type.shape[axis] is None for i in own):
            found.append((axis, own))
    return found


def _check_lengths(values: Sequence[Array], loose: Sequence[tuple[int, Sequence[int]]]) -> None:
    """PyTensor stretches an input only if the graph says that it may."""
    for axis, own in loose:
        lengths = {values[i].shape[axis] for i in own}
        if len(lengths) > 1:
            raise ValueError("Inputs of different lengths where the graph does not allow one to be stretched")
