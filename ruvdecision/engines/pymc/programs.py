"""PyTensor graphs as numpy functions of many points at once, compiled in milliseconds without a compiler.

A graph becomes a list of numpy calls: what PyTensor's own Python mode does, without the cost of each call. Measured
beside `pytensor.function` in that mode, a first map of a normal model takes two thirds of the time and every further
one half of it; that is why this stays. Most of what is left is rewriting, so graphs that need none are read as they are
(`plain_graphs`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...beliefs.pymc import building_graphs, cheap_mode
from ...errors import InputError
from ...protocols import Array
from .numpy_calls import Program
from .plain_graphs import program_without_rewriting

if TYPE_CHECKING:
    from pytensor.graph.basic import Variable
    from pytensor.graph.fg import FunctionGraph


class vectorised:
    """Outputs as a numpy function of many points at once, compiled in milliseconds without a compiler.

    An output has the points along its first axis, or a length of one there if it is the same at all of them. Unless
    ``stable`` is wanted, the graphs are taken as they are, which is far quicker where only a few points are looked at.
    """

    def __init__(
        self,
        outputs: Sequence[Variable],
        inputs: Sequence[Variable],
        extra: Sequence[Variable] = (),
        stable: bool = True,
        program: Program | None = None,
    ) -> None:
        with building_graphs():
            self.function: Any = (
                program
                or program_without_rewriting(outputs, inputs, extra, strict=stable)
                or _rewritten_program(outputs, inputs, extra, stable)
            )
        self.types = [v.dtype for v in inputs]
        self.extra = [v.dtype for v in extra]
        self.ranks = [v.type.ndim for v in outputs]

    @classmethod
    def without_rewriting(
        cls,
        outputs: Sequence[Variable],
        inputs: Sequence[Variable],
        instead: Mapping[Variable, Variable] | None = None,
        lead: int = 1,
    ) -> vectorised | None:
        """The same where no graph must be rewritten, with points along several axes if wanted; None where one must.

        ``instead`` has graphs that stand in place of some variables.
        """
        with building_graphs():
            program = program_without_rewriting(outputs, inputs, instead=instead, lead=lead)
        return None if program is None else cls(outputs, inputs, program=program)

    def __call__(self, points: Sequence[Array], extra: Sequence[Array] = ()) -> list[Array]:
        ready = [np.ascontiguousarray(p).astype(t, copy=False) for p, t in zip(points, self.types, strict=True)]
        more = [np.asarray(e, dtype=t) for e, t in zip(extra, self.extra, strict=True)]
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            try:
                found = self.function(*ready, *more)
            except (ValueError, IndexError, AssertionError) as error:
                do = "Check the lengths of the arrays in the builder: one entry for each of its n records"
                first = str(error).strip().splitlines()[0][:200] if str(error).strip() else ""
                raise InputError("The model cannot be evaluated", f"{type(error).__name__}: {first}", do) from error
        return [
            np.asarray(a) if np.ndim(a) > rank else np.asarray(a)[None]
            for a, rank in zip(found, self.ranks, strict=True)
        ]


def _rewritten_program(
    outputs: Sequence[Variable], inputs: Sequence[Variable], extra: Sequence[Variable], stable: bool
) -> Any:
    """The graphs for many points as numpy calls, rewritten into stable forms if wanted."""
    import pytensor
    import pytensor.tensor as pt
    from pytensor.compile.sharedvalue import SharedVariable
    from pytensor.graph.fg import FunctionGraph
    from pytensor.graph.replace import vectorize_graph
    from pytensor.graph.traversal import graph_inputs

    many = [pt.tensor(f"{v.name}_many", dtype=v.dtype, shape=(None, *v.type.shape)) for v in inputs]
    graphs, places = _without_parameter_checks(outputs, [*inputs, *extra])
    own, rest = places[: len(many)], places[len(many) :]
    graphs = vectorize_graph(graphs, dict(zip(own, many, strict=True))) if own else graphs
    given = [*many, *rest]
    shared = [v for v in graph_inputs(list(graphs)) if isinstance(v, SharedVariable) and v not in given]
    graph = FunctionGraph([*given, *shared], list(graphs), clone=True)
    _allocate_at_once(graph)
    if stable:
        cheap_mode().optimizer.rewrite(graph)
    program = Program.of(graph, len(given))
    return program or pytensor.function(given, graphs, mode=cheap_mode(), on_unused_input="ignore")


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
