"""A model's parameters: their unconstrained scale, how dense the prior is there, where to start, and prior draws.

Graphs of the model's own variables, run by numpy alone. PyMC's ways to the same (`Model.logp`, `Model.initial_point`)
rewrite or compile them first, which takes longer than a whole map; they are left the models that this has no graph for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...beliefs.pymc import building_graphs, quiet_pymc
from ...protocols import Array
from .plain_graphs import program_without_rewriting

if TYPE_CHECKING:
    from pymc import Model
    from pytensor.tensor.variable import TensorVariable

TRANSFORMS_WITHOUT_NUMBERS = ("NoneType", "LogTransform", "LogOddsTransform")
"""PyMC's transforms to the unconstrained scale that have no numbers of their own."""
ELEMENTWISE_TRANSFORMS = (*TRANSFORMS_WITHOUT_NUMBERS, "Interval")
"""Those that take each number by itself."""


def natural_graphs(model: Model, free: Sequence[TensorVariable]) -> dict[TensorVariable, TensorVariable] | None:
    """Each variable as a graph of the unconstrained ones; None if PyMC has other ways to that scale."""
    found = {}
    for rv in free:
        value, way = model.rvs_to_values[rv], model.rvs_to_transforms[rv]
        if type(way).__name__ not in ELEMENTWISE_TRANSFORMS:
            return None
        found[rv] = value if way is None else way.backward(value, *rv.owner.inputs)
    return found


def prior_terms(model: Model, free: Sequence[TensorVariable], records: TensorVariable) -> list[TensorVariable] | None:
    """Log densities whose sum is that of the unconstrained parameters and of what the model observes, or None."""
    pm = quiet_pymc()
    rest = [rv for rv in model.basic_RVs if rv is not records]
    if len({rv.owner for rv in rest}) < len(rest):
        return None  # parts of one variable, some of them observed, have one density together
    terms = list(model.potentials)
    for rv in rest:
        value, way = model.rvs_to_values[rv], model.rvs_to_transforms.get(rv)
        try:
            terms.append(pm.logp(rv, rv if rv in free else value, warn_rvs=False))
        except (NotImplementedError, ValueError, RuntimeError):
            return None
        if way is not None:
            terms.append(way.log_jac_det(value, *rv.owner.inputs))
    return terms


def starting_point(model: Model, free: Sequence[TensorVariable]) -> Sequence[Array] | None:
    """Where PyMC starts, each variable on the unconstrained scale; None if that is drawn, or takes a rewrite."""
    from pymc.initial_point import make_initial_point_expression

    with building_graphs():
        graphs = make_initial_point_expression(
            free_rvs=free,
            rvs_to_transforms=model.rvs_to_transforms,
            initval_strategies=model.rvs_to_initial_values,
            return_transformed=True,
        )
        program = program_without_rewriting(graphs, [], strict=False)
    return None if program is None else program()


def draw_with_numpy(
    free: Sequence[TensorVariable], shapes: Mapping[str, tuple[int, ...]], count: int, seed: int
) -> list[Array] | None:
    """Independent draws ``(count,) + shape`` of each variable, the numbers that PyMC's own function gives.

    None where a law is no plain random variable, or its parameters take more than numpy calls.
    """
    from pytensor.tensor.random.op import RandomVariable

    streams = np.random.SeedSequence(seed).spawn(len(free))
    drawn: list[Array] = []
    for i, rv in enumerate(free):
        op = rv.owner.op
        if not isinstance(op, RandomVariable) or op.ndim_supp or any(op.ndims_params):
            return None
        with building_graphs():
            program = program_without_rewriting(op.dist_params(rv.owner), free[:i])
        if program is None:
            return None
        with np.errstate(all="ignore"):
            parameters = program(*drawn)
        generator = np.random.Generator(np.random.PCG64(streams[i]))
        try:
            found = op.rng_fn(generator, *parameters, (count, *shapes[rv.name]))
        except ValueError:  # a scale of zero, where another was drawn far out
            return None
        drawn.append(np.asarray(found, dtype=rv.dtype))
    return drawn
