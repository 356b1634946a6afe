"""PyTensor graphs as numpy functions of many points at once, compiled in milliseconds without a compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...beliefs.pymc import cheap_mode, quiet
from ...protocols import Array
from .programs import Program

__all__ = ["vectorised"]


class vectorised:
    """Outputs as a numpy function of many points at once, compiled in milliseconds without a compiler.

    Unless ``stable`` is wanted, the graphs are taken as they are, which is far quicker where only a few points are looked at.
    """

    def __init__(
        self, outputs: Sequence[Any], inputs: Sequence[Any], extra: Sequence[Any] = (), stable: bool = True
    ) -> None:
        import pytensor
        import pytensor.tensor as pt
        from pytensor.graph.replace import vectorize_graph

        many = [pt.tensor(f"{v.name}_many", dtype=v.dtype, shape=(None, *v.type.shape)) for v in inputs]
        # Where in the code a node was made is of no use to anybody here, and takes time to find out.
        with quiet(), pytensor.config.change_flags(traceback__limit=0, traceback__compile_limit=0):
            graphs, places = _forgiving(outputs, [*inputs, *extra])
            own, rest = places[: len(many)], places[len(many) :]
            graphs = vectorize_graph(graphs, dict(zip(own, many, strict=True))) if own else graphs
            self.function: Any = _program([*many, *rest], graphs, stable)
            if self.function is None:
                self.function = pytensor.function([*many, *rest], graphs, mode=cheap_mode(), on_unused_input="ignore")
        self.types = [v.dtype for v in inputs]
        self.extra = [v.dtype for v in extra]

    def __call__(self, points: Sequence[Array], extra: Sequence[Array] = ()) -> list[Array]:
        ready = [np.ascontiguousarray(p).astype(t, copy=False) for p, t in zip(points, self.types, strict=True)]
        more = [np.asarray(e, dtype=t) for e, t in zip(extra, self.extra, strict=True)]
        with quiet(), np.errstate(all="ignore"):
            return self.function(*ready, *more)  # type: ignore[no-any-return]


def _program(inputs: Sequence[Any], outputs: Sequence[Any], stable: bool) -> Program | None:
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


def _allocate_at_once(graph: Any) -> None:
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


def _forgiving(outputs: Sequence[Any], inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The same graphs with log densities of -inf, point by point, where a parameter is not allowed, instead of an error for all points.

    An exponential that underflows makes a scale of zero: such a point has no density, and its neighbours have theirs.
    """
    import pytensor.tensor as pt
    from pymc.logprob.utils import CheckParameterValue
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
    return list(graph.outputs), list(graph.inputs)[: len(inputs)]
