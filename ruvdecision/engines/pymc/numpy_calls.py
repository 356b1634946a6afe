"""Operations of PyTensor graphs as numpy calls, and programs that are made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...protocols import Array

if TYPE_CHECKING:
    from pytensor.graph.basic import Apply, Variable
    from pytensor.graph.fg import FunctionGraph
    from pytensor.graph.op import Op

Call = Callable[[list[Array]], Sequence[Array]]


class Program:
    """Steps that read earlier values and give new ones, in their order.

    The first ``count`` values are given at every run, and shared variables are read at every run.
    """

    def __init__(
        self,
        values: list[Any],
        count: int,
        shared: Sequence[tuple[int, Any]],
        steps: Sequence[tuple[Call, list[int], list[int]]],
        outputs: list[int],
    ) -> None:
        self.start, self.count, self.shared, self.outputs = values, count, shared, outputs
        last = {i: at for at, (_, reads, writes) in enumerate(steps) for i in (*reads, *writes)}
        done: list[list[int]] = [[] for _ in steps]
        for i, at in last.items():
            # What is the same at every run stays.
            if i not in outputs and values[i] is None:
                done[at].append(i)
        self.steps = [(*step, mine) for step, mine in zip(steps, done, strict=True)]

    @classmethod
    def of(cls, graph: FunctionGraph, count: int) -> Program | None:
        """The program of a graph that was rewritten already.

        Shared variables come after the first ``count`` inputs. None where an operation has ways of its own to run,
        which only PyTensor knows.
        """
        nodes = graph.toposort()
        if not all(runs_by_perform(node.op) for node in nodes):
            return None
        place: dict[Variable, int] = {v: i for i, v in enumerate(graph.inputs)}
        for v in (*(v for node in nodes for v in (*node.inputs, *node.outputs)), *graph.outputs):
            place.setdefault(v, len(place))
        places = lambda variables: [place[v] for v in variables]  # noqa: E731
        steps = [(numpy_call(node), places(node.inputs), places(node.outputs)) for node in nodes]
        shared = [(place[v], v) for v in graph.inputs[count:]]
        return cls([getattr(v, "data", None) for v in place], count, shared, steps, places(graph.outputs))

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


def runs_by_perform(op: Op) -> bool:
    """Whether an operation runs by its ``perform`` alone."""
    from pytensor.graph.op import Op
    from pytensor.link.c.op import COp

    return all(
        getattr(type(op), name) in (getattr(Op, name), getattr(COp, name)) for name in ("make_thunk", "make_py_thunk")
    )


def numpy_call(node: Apply) -> Call:
    """What a node does to arrays."""
    from pytensor.tensor.elemwise import Elemwise

    node.op.prepare_node(node, None, None, "py")
    if isinstance(node.op, Elemwise) and not node.op.inplace_pattern and len(node.outputs) == 1:
        ready = entrywise_function(node)
        if ready is not None:
            return ready

    def call(values: list[Array]) -> list[Array]:
        cells: list[list[Any]] = [[None] for _ in node.outputs]
        node.op.perform(node, values, cells)
        return [cell[0] for cell in cells]

    return call


def entrywise_function(node: Apply) -> Call | None:
    """One numpy function over all entries, of a node that is prepared; None if numpy has none for it."""
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
    squared = function is np.power and _is_constant_two(node.inputs[1])

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


def _is_constant_two(variable: Variable) -> bool:
    data = getattr(variable, "data", None)
    return data is not None and np.size(data) == 1 and bool(np.all(data == 2))


def _axes_of_unknown_length(node: Apply) -> list[tuple[int, list[int]]]:
    """Axes along which lengths are known when the graph runs only, each with the inputs that must agree there."""
    found = []
    # Counted from the last, as points may lie along others in front.
    for axis in range(-node.outputs[0].type.ndim, 0):
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
