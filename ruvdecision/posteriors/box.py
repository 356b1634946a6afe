"""The chance that a normal vector leaves a box: exact in one and two dimensions, quasi-Monte Carlo above."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ..numerics.semidefinite import lower_root
from ..protocols import Array, Value
from . import normal
from .integrate import scrambled_mean, sobol_normal

_POINTS = 512


def outside_box(d: ArrayLike, cov: ArrayLike, width: ArrayLike) -> Value:
    """P(some |X_j| > width_j) for X normal with mean ``d`` (..., k) and covariance ``cov`` (..., k, k).

    Uncorrelated components multiply; two correlated ones use Owen's T function (1956); more use the
    separation of variables of Genz (1992) with scrambled Sobol points and the error that they show.
    """
    d, cov = np.asarray(d, dtype=np.float64), np.asarray(cov, dtype=np.float64)
    width = np.broadcast_to(np.asarray(width, dtype=np.float64), d.shape[-1:])
    sd = np.sqrt(np.diagonal(cov, axis1=-2, axis2=-1))
    alone = normal.outside(d, sd, width)
    k = d.shape[-1]
    off = np.where(np.eye(k, dtype=bool), 0.0, cov)
    if k == 1 or not np.any(off):
        with np.errstate(divide="ignore"):
            return Value.exact(-np.expm1(np.sum(np.log1p(-np.minimum(alone, 1.0)), axis=-1)))
    certain = np.any(np.isinf(sd), axis=-1) | np.any(alone >= 1.0, axis=-1)
    cov = np.where(np.isinf(cov), 1.0, cov)
    value = _pair(d, cov, width, alone) if k == 2 else _many(d, cov, width)
    certain = np.broadcast_to(certain, value.value.shape)
    return Value(np.where(certain, 1.0, value.value), np.where(certain, 0.0, value.error))


def _pair(d: Array, cov: Array, width: Array, alone: Array) -> Value:
    sd = np.sqrt(np.diagonal(cov, axis1=-2, axis2=-1))
    flat = np.any(sd == 0, axis=-1)
    safe = np.where(sd > 0, sd, 1.0)
    rho = np.clip(cov[..., 0, 1] / (safe[..., 0] * safe[..., 1]), -1.0, 1.0)
    # The determinant on its own keeps digits that 1 - rho**2 has lost.
    rest = np.sqrt(np.maximum(cov[..., 0, 0] * cov[..., 1, 1] - cov[..., 0, 1] ** 2, 0.0)) / (
        safe[..., 0] * safe[..., 1]
    )
    low, high = (-width - d) / safe, (d - width) / safe
    both = (
        _orthant(low[..., 0], low[..., 1], rho, rest)
        + _orthant(high[..., 0], high[..., 1], rho, rest)
        + _orthant(low[..., 0], high[..., 1], -rho, rest)
        + _orthant(high[..., 0], low[..., 1], -rho, rest)
    )
    union = alone[..., 0] + alone[..., 1] - both
    union = np.maximum(union, np.max(alone, axis=-1))
    # A component without variance is a matter of yes or no.
    union = np.where(flat, np.max(alone, axis=-1), union)
    return Value.exact(np.clip(union, 0.0, 1.0))


def _orthant(h: Array, k: Array, rho: Array, rest: Array) -> Array:
    """P(X < h, Y < k) for standard normals with correlation rho; ``rest`` is sqrt(1 - rho**2)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(h == 0, np.copysign(np.inf, k), (k - rho * h) / (h * rest))
        second = np.where(k == 0, np.copysign(np.inf, h), (h - rho * k) / (k * rest))
        first, second = np.where(np.isnan(first), 0.0, first), np.where(np.isnan(second), 0.0, second)
    value = 0.5 * (special.ndtr(h) + special.ndtr(k)) - special.owens_t(h, first) - special.owens_t(k, second)
    value = value - np.where((h * k > 0) | ((h * k == 0) & (h + k >= 0)), 0.0, 0.5)
    value = np.where((h == 0) & (k == 0), 0.25 + np.arcsin(rho) / (2 * np.pi), value)
    together = special.ndtr(np.minimum(h, k))
    apart = np.maximum(special.ndtr(h) - special.ndtr(-k), 0.0)
    value = np.where(rest < 1e-15, np.where(rho > 0, together, apart), value)
    return np.asarray(np.maximum(value, 0.0))


def _many(d: Array, cov: Array, width: Array) -> Value:
    shape = np.broadcast_shapes(d.shape[:-1], cov.shape[:-2])
    k = d.shape[-1]
    lower = np.broadcast_to(lower_root(cov), shape + (k, k)).reshape(-1, k, k)
    d = np.broadcast_to(d, shape + (k,)).reshape(-1, k)
    points = sobol_normal(k, _POINTS)
    block = max(1, 4_000_000 // (_POINTS * k))
    values, errors = np.empty(len(d)), np.empty(len(d))
    for start in range(0, len(d), block):
        part = slice(start, start + block)
        value = scrambled_mean([_separated(d[part], lower[part], width, special.ndtr(z)) for z in points])
        values[part], errors[part] = value
    return Value(values.reshape(shape), errors.reshape(shape))


def _separated(d: Array, lower: Array, width: Array, uniform: Array) -> Array:
    """Mean over points of 1 - prod_j P(component j inside | components before it)."""
    k = d.shape[-1]
    drawn = np.zeros((len(uniform), len(d), k))
    inside = np.zeros((len(uniform), len(d)))
    for j in range(k):
        mean = d[:, j] + np.einsum("nbi,bi->nb", drawn[..., :j], lower[:, j, :j])
        sd = np.broadcast_to(lower[:, j, j], mean.shape)
        out = np.minimum(normal.outside(mean, sd, width[j]), 1.0)
        with np.errstate(divide="ignore"):
            inside += np.log1p(-out)
        safe = np.where(sd > 0, sd, 1.0)
        a, b = special.ndtr((-width[j] - mean) / safe), special.ndtr((width[j] - mean) / safe)
        drawn[..., j] = special.ndtri(np.clip(a + uniform[:, j, None] * (b - a), 1e-300, 1 - 1e-16))
    return np.asarray(np.mean(-np.expm1(inside), axis=0))
