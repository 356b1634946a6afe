"""Exact error of a fixed rule on the records at hand: normal noise cut off at bounds, or a rule that is a rank.

Section V of Duncan et al. (2001) without simulation: truncated-normal moments for linear rules, Poisson-binomial tails
for ranks, the expectation of eq. 14 for the scientist.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...losses import Quadratic
from ...masks.base import Mask
from ...posteriors.base import as_weight_matrix
from ...targets import Kind
from ...users.rules import Ranked, Rule
from .losses import check_sizes
from .source import Drawing, EntryNoise, Source, truth_of


def has_clipped_error(user: Any, source: Source, mask: Mask, linear: Rule | None) -> bool:
    """Whether `clipped_error` knows the case; ``linear`` is the snooper's rule if it is linear."""
    return (
        source.table is not None
        and source.k == 1
        and source.n > 1
        and isinstance(user.loss, Quadratic)
        and (linear is not None or isinstance(user.estimator, Ranked))
        and _normal(mask, source) is not None
    )


def clipped_error(user: Any, source: Source, mask: Any, linear: Rule | None) -> float:
    """Expected loss of the rule over the noise, the records being fixed."""
    # The closed forms live with the scenarios, which need the engines.
    from .clipped_noise import clipped_moments, position_error, scientist_error

    noise = _normal(mask, source)
    assert source.table is not None and noise is not None
    x = source.table[:, 0]
    low, high = (float(end[0]) if np.isfinite(end[0]) else None for end in (noise.lower, noise.upper))
    variances = np.broadcast_to(np.square(noise.sizes[:, 0]), (source.n,))
    weight = float(as_weight_matrix(user.loss.weights, (1,))[0, 0])
    if user.target.is_a(Kind.PARAMETER):
        return weight * float(scientist_error(x, variances[None], low, high)[0])
    wanted = truth_of(user.target, Drawing(source.table[None]))[0]
    check_sizes(1, len(wanted), user.estimator)
    truth = float(wanted[0])
    if linear is None:
        rank = user.estimator.target.rank(len(x))
        return weight * float(position_error(x, variances[None], rank, low, high, target=truth)[0])
    each = linear.weights(np.ones((len(x), 1), dtype=bool))
    assert each is not None
    mean, variance = clipped_moments(x, variances, low, high)
    bias = float(each[:, 0] @ (mean - x)) + (float(each[:, 0] @ x) + linear.constant() - truth)
    return weight * (float(each[:, 0] ** 2 @ variance) + bias**2)


def _normal(mask: Mask, source: Source) -> EntryNoise | None:
    """The noise if it is normal, record by record, else None."""
    noise = EntryNoise.of(mask, source)
    return noise if noise is not None and noise.kind.name == "normal" else None
