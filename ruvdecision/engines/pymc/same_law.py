"""Whether every record of a model follows the law of the only record of a smaller one.

It is seen by comparing graphs, or log densities at a few points of the parameter space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .parameters import TRANSFORMS_WITHOUT_NUMBERS

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from .model import CompiledModel, ModelValues, Theta


def has_law_of_every_record(one: CompiledModel, many: CompiledModel) -> bool:
    """Whether the model of one record has the same prior, and its record the law of all of these."""
    if _same_graphs(one, many):
        return True
    rng = np.random.default_rng(7)
    u = one.initial + rng.normal(0, 0.3, size=(3, many.size))
    theirs = one.values_at(u)
    # Most models are alike at first sight; others are looked at again with numbers that are right to all digits.
    try:
        mine = many.values_without_rewriting(u)
    except NotImplementedError:  # an operation that only stands for others until it is rewritten
        mine = many.values_at(u)
    if not _same_prior_and_law(theirs, mine):
        mine = many.values_at(u)
        if not _same_prior_and_law(theirs, mine):
            return False
    if mine.normal is not None:
        return True
    start = np.asarray(one.initial_point[one.model.rvs_to_values[one.x].name])
    point = np.broadcast_to(start, one.shape)[None]
    here = many.log_density(mine.theta, np.broadcast_to(point, (1, *many.shape)))
    there = np.broadcast_to(one.log_density(mine.theta, point), here.shape)
    alike = bool(np.isfinite(here).any() and np.allclose(here, there, rtol=1e-10, atol=1e-10, equal_nan=True))
    return alike and _same_point_masses(one, many, mine.theta)


def _same_point_masses(one: CompiledModel, many: CompiledModel, theta: Theta) -> bool:
    """Whether every record has the point masses of the model of one record: densities do not tell."""
    if many.point_masses is None or one.point_masses is None:
        return many.point_masses is one.point_masses
    if len(many.point_masses.places) != len(one.point_masses.places):
        return False
    pairs = (many.point_masses.places, one.point_masses.places), (many.log_chances(theta), one.log_chances(theta))
    return all(np.allclose(mine, np.broadcast_to(own, mine.shape), rtol=1e-10, atol=1e-10) for mine, own in pairs)


def _same_graphs(one: CompiledModel, many: CompiledModel) -> bool:
    """Whether priors and the law of every record are the same graph in both models: then no number can differ."""
    from pytensor.graph.basic import equal_computations
    from pytensor.tensor.random.op import RandomVariable

    if many.informed or one.informed or any(size != 1 for p in _law_parameters(many.x) for size in p.type.shape):
        return False
    for a, b in zip((*many.free, many.x), (*one.free, one.x), strict=True):
        transforms = [m.model.rvs_to_transforms.get(v) for m, v in ((many, a), (one, b))]
        if not isinstance(a.owner.op, RandomVariable) or a.owner.op != b.owner.op:
            return False
        if (
            type(transforms[0]) is not type(transforms[1])
            or type(transforms[0]).__name__ not in TRANSFORMS_WITHOUT_NUMBERS
        ):
            return False
        if not equal_computations(_law_parameters(a), _law_parameters(b), many.free, one.free):
            return False
    return True


def _law_parameters(rv: TensorVariable) -> list[TensorVariable]:
    """Parameters of the law of a random variable."""
    op = rv.owner.op
    return list(op.dist_params(rv.owner)) if hasattr(op, "dist_params") else []


def _same_prior_and_law(one: ModelValues, many: ModelValues) -> bool:
    """Whether a model and that of one record have the same prior, and normal records the same moments."""
    if not np.allclose(one.log_prior, many.log_prior, rtol=1e-10, atol=1e-10, equal_nan=True):
        return False
    if many.normal is None or one.normal is None:
        return True
    return all(
        np.allclose(np.broadcast_to(b, np.broadcast_shapes(a.shape, b.shape)), a, rtol=1e-12, atol=0)
        for a, b in zip(many.normal, one.normal, strict=True)
    )
