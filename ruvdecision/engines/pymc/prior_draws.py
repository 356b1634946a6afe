"""Draws of a model's parameters from their priors by numpy alone: what PyMC draws, without a function to compile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...beliefs.pymc import building_graphs
from ...protocols import Array
from .plain_graphs import program_without_rewriting

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable


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
