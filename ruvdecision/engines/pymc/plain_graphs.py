"""PyTensor graphs that give right numbers as they are: read as numpy calls over many points, without a rewrite.

To rewrite a graph takes PyTensor far longer than to run it. Most priors and laws of records are sums, products and
powers, whose numbers no rewrite would change, and a few forms that would lose digits or overflow (`_stable_form`).
Those are replaced here; a graph with any other that PyTensor has a stable form for is left to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from ...protocols import Array
from .numpy_calls import Call, Program, entrywise_function, numpy_call, runs_by_perform

if TYPE_CHECKING:
    from pytensor.graph.basic import Apply, Variable

PRODUCTS = {"Mul", "TrueDiv", "Reciprocal", "Sqr", "Sqrt", "Pow", "Abs", "DimShuffle", "Exp"}
"""Operations that keep all digits of numbers without a sign."""
FRAGILE = {"Log2", "Log10", "Erfc", "Erfcx", "Erfcinv", "Expm1", "Log1mexp"}
"""Operations that PyTensor takes apart or puts together with others."""


def program_without_rewriting(
    outputs: Sequence[Variable],
    inputs: Sequence[Variable],
    extra: Sequence[Variable] = (),
    instead: Mapping[Variable, Variable] | None = None,
    strict: bool = True,
    lead: int = 1,
) -> Program | None:
    """The graphs as numpy calls over many points, laid along ``lead`` axes in front; None if they must be rewritten.

    ``instead`` has graphs that stand in place of some variables. Unless ``strict``, forms that lose digits far out
    are taken as they are.
    """
    try:
        with np.errstate(all="ignore"):
            return _Reader(inputs, extra, instead or {}, strict, lead).program(outputs)
    except (_NotPlain, RecursionError, ValueError, IndexError, AssertionError):
        # What is wrong with the graph itself is said when it is rewritten.
        return None


class _NotPlain(Exception):
    """A graph that must be rewritten."""


class _Reader:
    """Reads graphs from their outputs down to their inputs."""

    def __init__(
        self,
        inputs: Sequence[Variable],
        extra: Sequence[Variable],
        instead: Mapping[Variable, Variable],
        strict: bool,
        lead: int,
    ) -> None:
        self.instead, self.strict, self.lead = instead, strict, lead
        self.values: list[Any] = [None] * (len(inputs) + len(extra))
        self.place: dict[Variable, int] = {v: i for i, v in enumerate([*inputs, *extra])}
        self.count = len(self.values)
        self.many = set(range(len(inputs)))
        """Places of values that differ from point to point."""
        self.fixed: set[int] = set()
        """Places of values that are the same at every run."""
        self.shared: list[tuple[int, Any]] = []
        self.steps: list[tuple[Call, list[int], int]] = []

    def program(self, outputs: Sequence[Variable]) -> Program:
        places = [self.place_of(v) for v in outputs]
        # What only leads to a branch that is never taken is left out.
        used, steps = set(places), []
        for call, reads, write in reversed(self.steps):
            if write in used:
                used.update(reads)
                steps.append((call, reads, [write]))
        return Program(self.values, self.count, self.shared, steps[::-1], places)

    def place_of(self, v: Variable) -> int:
        """The place of a variable's value, after all steps that it takes."""
        v = self.variable_behind(v)
        if v not in self.place:
            self.place[v] = self._place_of_new_variable(v)
        return self.place[v]

    def variable_behind(self, v: Variable) -> Variable:
        """The variable that is taken in place of another."""
        from pytensor.compile.ops import TypeCastingOp

        while v not in self.place:
            if v in self.instead:
                v = self.instead[v]
            elif v.owner is not None and isinstance(v.owner.op, TypeCastingOp):  # the name of a Deterministic, and such
                v = v.owner.inputs[0]
            else:
                break
        return v

    def _place_of_new_variable(self, v: Variable) -> int:
        from pytensor.compile.sharedvalue import SharedVariable
        from pytensor.graph.basic import Constant
        from pytensor.tensor.random.type import RandomType

        if isinstance(v, Constant):
            return self._add_value(v.data, fixed=True)
        if isinstance(v, SharedVariable):
            place = self._add_value(None)
            self.shared.append((place, v))
            return place
        node = v.owner
        if node is None or len(node.outputs) != 1 or not runs_by_perform(node.op):
            raise _NotPlain
        if any(isinstance(i.type, RandomType) for i in node.inputs):
            raise _NotPlain  # a draw
        name = _name_of(node)
        if name == "Shape" and None not in node.inputs[0].type.shape:
            return self._add_value(np.array(node.inputs[0].type.shape, dtype=np.int64), fixed=True)
        if name == "Switch":
            cond = self.place_of(node.inputs[0])
            if cond in self.fixed and np.size(self.values[cond]) == 1:
                taken = node.inputs[1 if np.all(self.values[cond]) else 2]
                if taken.type.broadcastable == v.type.broadcastable and taken.type.dtype == v.type.dtype:
                    return self.place_of(taken)
        reads = [self.place_of(i) for i in node.inputs]
        if all(i in self.fixed for i in reads):
            call = WHOLE.get(name) or numpy_call(node)
            return self._add_value(call([self.values[i] for i in reads])[0], fixed=True)
        mended = self._stable_form(node, name)
        if mended is not None:
            call, a = mended
            reads = [self.place_of(a)]
        else:
            if self.strict:
                self._refuse_fragile(node, name)
            call = self._call_at_points(node, name, reads)
        place = self._add_value(None)
        if self.many & set(reads):
            self.many.add(place)
        self.steps.append((call, reads, place))
        return place

    def _add_value(self, value: Any, fixed: bool = False) -> int:
        self.values.append(value)
        if fixed:
            self.fixed.add(len(self.values) - 1)
        return len(self.values) - 1

    # -- forms that lose digits ------------------------------------------------------------------------

    def _argument_of_operation(self, v: Variable, name: str) -> Variable | None:
        """The first argument of an operation, if this variable is made by it."""
        v = self.variable_behind(v)
        node = None if self._is_given(v) else v.owner
        return node.inputs[0] if node is not None and _name_of(node) == name else None

    def _stable_form(self, node: Apply, name: str) -> tuple[Call, Variable] | None:
        """The stable form of an operation: a function of what its argument was made of."""
        first = node.inputs[0]
        if name == "Log":
            if (a := self._argument_of_operation(first, "Exp")) is not None:
                return (lambda values: values), a
            if (a := self._argument_of_operation(first, "Sigmoid")) is not None:
                return (lambda values: [-np.logaddexp(0.0, -values[0])]), a
        if name == "Log1p":
            negated = self._argument_of_operation(first, "Neg")
            if negated is not None and (a := self._argument_of_operation(negated, "Sigmoid")) is not None:
                return (lambda values: [-np.logaddexp(0.0, values[0])]), a
        if (
            name == "Sub"
            and self._is_one(first)
            and (a := self._argument_of_operation(node.inputs[1], "Sigmoid")) is not None
        ):
            return (lambda values: [special.expit(-values[0])]), a
        return None

    def _is_given(self, v: Variable) -> bool:
        place = self.place_of(v)
        return place < self.count or place in self.fixed

    def _is_one(self, v: Variable) -> bool:
        place = self.place_of(v)
        return place in self.fixed and np.ndim(self.values[place]) == 0 and bool(self.values[place] == 1)

    def _refuse_fragile(self, node: Apply, name: str) -> None:
        """Refuse what PyTensor would rewrite into a form that keeps more digits."""
        if (
            name in FRAGILE
            or (name == "Log" and not self._is_product(node.inputs[0]))
            or (name == "Log1p" and not self._is_square(node.inputs[0]))
            or (name in ("Add", "Sub") and self._takes_from_one(node))
        ):
            raise _NotPlain

    def _takes_from_one(self, node: Apply) -> bool:
        """Whether an exponential, a share or an error function is added to one, or taken from it."""
        fixed = [place for place in map(self.place_of, node.inputs) if place in self.fixed]
        return any(np.any(np.abs(self.values[place]) == 1) for place in fixed) and any(
            self._argument_of_operation(v, name) is not None for v in node.inputs for name in ("Exp", "Sigmoid", "Erf")
        )

    def _is_product(self, v: Variable) -> bool:
        """Whether a number is a product of powers of what is given."""
        v = self.variable_behind(v)
        if self._is_given(v):
            return True
        return v.owner is not None and _name_of(v.owner) in PRODUCTS and all(map(self._is_product, v.owner.inputs))

    def _is_square(self, v: Variable) -> bool:
        """Whether a number is a square, perhaps times known numbers."""
        v = self.variable_behind(v)
        place = self.place_of(v)
        if place in self.fixed or place < self.count or v.owner is None:
            return place in self.fixed
        name = _name_of(v.owner)
        if name == "Pow":
            return bool(np.all(self.values[self.place_of(v.owner.inputs[1])] == 2))
        return name == "Sqr" or (name in ("Mul", "TrueDiv", "DimShuffle") and all(map(self._is_square, v.owner.inputs)))

    # -- operations at many points ---------------------------------------------------------------------

    def _call_at_points(self, node: Apply, name: str, reads: list[int]) -> Call:
        from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise

        many = [i in self.many for i in reads]
        if not any(many):
            return numpy_call(node)
        if isinstance(node.op, Elemwise):
            node.op.prepare_node(node, None, None, "py")
            found = ENTRYWISE.get(name) or entrywise_function(node)
        elif isinstance(node.op, DimShuffle):
            found = _dimshuffle_call(node, self.lead)
        elif isinstance(node.op, CAReduce):
            found = _reduction_call(node, self.lead)
        elif name == "Alloc":
            found = _alloc_call(node, self.lead) if not any(many[1:]) else None
        else:
            found = WHOLE.get(name)
            if name == "CheckParameterValue" and not node.op.can_be_replaced_by_ninf:
                found = None
        if found is None:
            raise _NotPlain
        return found


def _name_of(node: Apply) -> str:
    """What a node does, in PyTensor's word."""
    op = node.op
    return type(op.scalar_op if hasattr(op, "inplace_pattern") else op).__name__


ENTRYWISE: dict[str, Call] = {
    "Second": lambda values: [np.broadcast_arrays(*values)[1]],
    "Softplus": lambda values: [np.logaddexp(0.0, values[0])],
}
"""Operations entry by entry that numpy has under no name of PyTensor's."""


def _none_where_forbidden(values: list[Array]) -> list[Array]:
    """Log density -inf at points where a parameter is not allowed."""
    value, *allowed = values
    for good in allowed:
        good = np.asarray(good)
        value = np.where(good.reshape(good.shape + (1,) * (np.ndim(value) - good.ndim)), value, -np.inf)
    return [value]


WHOLE: dict[str, Call] = {
    "MakeVector": lambda values: [np.stack(np.broadcast_arrays(*values), axis=-1)],
    "ScalarFromTensor": lambda values: values,
    "TensorFromScalar": lambda values: values,
    "CheckParameterValue": _none_where_forbidden,
}


def _dimshuffle_call(node: Apply, lead: int) -> Call | None:
    order, rank = node.op.new_order, node.inputs[0].type.ndim
    own = [i for i in order if i != "x"]
    dropped = [i for i in range(rank) if i not in own]
    if any(node.inputs[0].type.shape[i] != 1 for i in dropped):
        return None
    axes = [*range(lead), *(lead + i for i in (*own, *dropped))]
    key = (*[slice(None)] * lead, *(None if i == "x" else slice(None) for i in order), *[0] * len(dropped))
    return lambda values: [values[0].transpose(axes)[key]]


def _reduction_call(node: Apply, lead: int) -> Call | None:
    op, dtype = node.op, node.outputs[0].dtype
    if getattr(op, "nfunc_spec", None) is None:
        return None
    function = getattr(np, op.nfunc_spec[0])
    axes = tuple(lead + i for i in (range(node.inputs[0].type.ndim) if op.axis is None else op.axis))
    return lambda values: [np.asarray(function(values[0], axis=axes), dtype=dtype)]


def _alloc_call(node: Apply, lead: int) -> Call:
    missing = node.outputs[0].type.ndim - node.inputs[0].type.ndim

    def call(values: list[Array]) -> list[Array]:
        value, *lengths = values
        value = value.reshape(*value.shape[:lead], *(1,) * missing, *value.shape[lead:])
        return [np.broadcast_to(value, (*value.shape[:lead], *map(int, lengths)))]

    return call
