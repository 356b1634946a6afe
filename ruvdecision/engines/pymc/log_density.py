"""The log density of a random variable of a model as a graph of its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...beliefs.pymc import building_graphs, cheap_mode, quiet_pymc
from ...errors import InputError

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

FAR = 100.0
"""Standard deviations from the mean that no record is away."""


def with_finite_ends(x: TensorVariable) -> TensorVariable:
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


def log_density_graph(x: TensorVariable, value: TensorVariable, parameters: Sequence[TensorVariable]) -> TensorVariable:
    """Graph of the log density of a random variable at a value, given the parameters.

    PyMC derives that of a law made by ``dist=`` from a copy of all random variables, of the parameters too: plain
    variables stand for them meanwhile, or the density would not know its parameters.
    """
    from pytensor.graph.replace import clone_replace, graph_replace

    plain = {rv: rv.type(name=rv.name) for rv in parameters if rv is not x}
    with building_graphs():
        try:
            (own,) = clone_replace([_with_plain_ends(x)], plain)
            found = _without_draws(quiet_pymc().logp(own, value, warn_rvs=False), list(plain.values()))
        except NotImplementedError as error:
            raise InputError(
                f"PyMC has no density for the law of {x.name!r}",
                str(error),
                "Give pm.CustomDist a logp=, or write the variable as a pm.Deterministic of others",
            ) from error
        return graph_replace([found], {v: rv for rv, v in plain.items()}, strict=False)[0]


def _with_plain_ends(x: TensorVariable) -> TensorVariable:
    """The same variable with numbers for the ends of a truncated law, where they are graphs of numbers alone.

    PyMC asks whether an end is the number infinity, and else gives a density without a slope.
    """
    import pytensor
    from pytensor.graph.basic import Constant
    from pytensor.graph.replace import graph_replace
    from pytensor.graph.traversal import ancestors
    from pytensor.tensor import constant

    if type(x.owner.op).__name__ not in ("TruncatedNormalRV", "TruncatedRV"):
        return x
    ends = [end for end in x.owner.inputs[-2:] if end.owner is not None]
    ends = [end for end in ends if all(isinstance(a, Constant) for a in ancestors([end]) if a.owner is None)]
    if not ends:
        return x
    numbers = pytensor.function([], ends, mode=cheap_mode())()
    plain = {v: v.type.filter_variable(constant(a, dtype=v.dtype)) for v, a in zip(ends, numbers, strict=True)}
    return graph_replace([x], plain)[0]


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
