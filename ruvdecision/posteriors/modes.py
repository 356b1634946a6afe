"""The highest point of a mixture of normal vectors, and its most probable box."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..protocols import Array
from .box import factor

if TYPE_CHECKING:
    from .mixture import GaussianMixture

__all__ = ["vector_mode"]

_STARTS = 8


def vector_mode(mixture: GaussianMixture, width: Array) -> Array:
    """Mode (all widths zero) or centre of the best box of one mixture, from the most promising components.

    Modes follow the fixed point of Carreira-Perpinan (2000), boxes the simplex of Nelder and Mead.
    """
    m = mixture.components
    means = np.broadcast_to(mixture.means, (m, *mixture.event))
    spreads = np.broadcast_to(mixture.spreads, (m,) + mixture.event * 2)
    roots = np.diagonal(factor(np.where(np.isinf(spreads), 1.0, spreads)), axis1=-2, axis2=-1)
    with np.errstate(divide="ignore"):
        heights = np.where(mixture.weights > 0, np.log(mixture.weights) - np.sum(np.log(roots), axis=-1), -np.inf)
    if not width.any() and np.isposinf(heights).any():
        # Where a component has no density of its own, the heaviest such component wins.
        return np.asarray(means[np.argmax(np.where(np.isposinf(heights), mixture.weights, -1.0))])
    promising = np.argsort(-heights, kind="stable")[:256]
    starts = np.concatenate([mixture.mean()[None], means[promising]])
    score = mixture.outside(starts, width).value if width.any() else -mixture.log_density(starts)
    starts = starts[np.argsort(score, kind="stable")[:_STARTS]]
    ends = [_box(mixture, x, width) if width.any() else _climb(mixture, means, spreads, x) for x in starts]
    final = np.array([float(mixture.outside(x, width).value if width.any() else -mixture.log_density(x)) for x in ends])
    return np.asarray(ends[int(np.argmin(final))])


def _climb(mixture: GaussianMixture, means: Array, spreads: Array, x: Array) -> Array:
    precision = np.linalg.inv(spreads)
    pulled = np.einsum("mij,mj->mi", precision, means)
    logdet = np.linalg.slogdet(precision)[1]
    with np.errstate(divide="ignore"):
        logs = np.log(mixture.weights)
    size = float(np.sqrt(np.max(np.diagonal(spreads, axis1=-2, axis2=-1))))
    for _ in range(2000):
        gap = x - means
        share = logs + 0.5 * logdet - 0.5 * np.einsum("mi,mij,mj->m", gap, precision, gap)
        share = np.exp(share - share.max())
        fresh = np.linalg.solve(np.einsum("m,mij->ij", share, precision), share @ pulled)
        done = np.max(np.abs(fresh - x)) <= 1e-14 * (np.max(np.abs(fresh)) + size)
        x = fresh
        if done:
            break
    return np.asarray(x)


def _box(mixture: GaussianMixture, x: Array, width: Array) -> Array:
    from scipy.optimize import minimize

    scale = np.sqrt(mixture.var()) + width
    scale = np.where(np.isfinite(scale), scale, 1.0 + width)
    simplex = np.concatenate([x[None], x + 0.25 * np.diag(scale)])
    options: Any = {
        "initial_simplex": simplex,
        "xatol": 1e-9 * float(scale.max()),
        "fatol": 1e-14,
        "maxfev": 400 * len(x),
    }
    search: Any = minimize
    return np.asarray(
        search(lambda at: float(mixture.outside(at, width).value), x, method="Nelder-Mead", options=options).x
    )
