"""Chances of boxes: that normal vectors lie in intervals."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy import special

from ...numerics.quadrature import gauss_legendre
from ...numerics.semidefinite import lower_root
from ...protocols import Array

NODES = {3: 32, 4: 16}
"""Gauss-Legendre nodes per direction for boxes of this many columns."""
BLOCK = 2_000_000


def log_interval(low: Array, high: Array) -> Array:
    """Log P(low < Z < high) of a standard normal, in either tail."""
    flip = low > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    top, bottom = special.log_ndtr(b), special.log_ndtr(a)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(bottom == -np.inf, top, top + np.log1p(-np.exp(np.minimum(bottom - top, 0.0)))))


def log_box(low: Array, high: Array, mean: Array, cov: Array) -> Array:
    """Log P(low < X < high) for rows of normal vectors with these means and one covariance.

    Uncorrelated columns multiply. Two correlated ones are integrated piece by piece, good to ten digits in the tails
    too. Three and four use the separation of variables of Genz (1992) with Gauss-Legendre nodes, good to about three
    digits.
    """
    size = len(cov)
    sd = np.sqrt(np.maximum(np.diag(cov), 0.0))
    flat = sd == 0
    # A column without variance is a matter of yes or no.
    total = np.sum(np.where((low <= mean) & (mean <= high) | ~flat, 0.0, -np.inf), axis=1)
    live = np.flatnonzero(~flat)
    a, b = (low[:, live] - mean[:, live]) / sd[live], (high[:, live] - mean[:, live]) / sd[live]
    rho = cov[np.ix_(live, live)] / np.outer(sd[live], sd[live])
    alone = log_interval(a, b)
    size = len(live)
    if size < 2 or not np.any(np.where(np.eye(size, dtype=bool), 0.0, np.abs(rho)) > 1e-14):
        return np.asarray(total + alone.sum(axis=1))
    # The rarest interval first: what comes after it is smooth on it.
    orders, which = np.unique(np.argsort(alone, axis=1, kind="stable"), axis=0, return_inverse=True)
    for kind, order in enumerate(orders):
        rows = np.flatnonzero(which.reshape(-1) == kind)
        lower = lower_root(rho[np.ix_(order, order)])
        step = max(1, BLOCK // (_PIECES if size == 2 else len(_grid(size)[0]) * size))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            left, right = a[part][:, order], b[part][:, order]
            total[part] += _pair(left, right, lower) if size == 2 else _separated(left, right, lower)
    return total


_NODE, _WEIGHT = gauss_legendre(14)
_PIECES = 14 * 12


def _pair(low: Array, high: Array, lower: Array) -> Array:
    """Two standard normals with lower factor ((1, 0), (slope, rest)): integrate over the first."""
    slope, rest = lower[1, 0], lower[1, 1]
    a, b = low[:, 0], high[:, 0]
    # Beyond these ends nothing counts that has forty e-folds less than the best.
    start = np.where(b < 0, np.maximum(a, -np.sqrt(np.where(b < 0, b, 0.0) ** 2 + 80.0)), np.maximum(a, -9.5))
    stop = np.where(a > 0, np.minimum(b, np.sqrt(np.where(a > 0, a, 0.0) ** 2 + 80.0)), np.minimum(b, 9.5))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Where the second interval begins and ends to matter.
        turns = [edge / slope + shift * rest / slope for edge in (low[:, 1], high[:, 1]) for shift in (-4.0, 0.0, 4.0)]
        fixed = [np.full(len(a), x) for x in (-4.0, -1.5, 0.0, 1.5, 4.0)]
        ends = np.sort(np.clip(np.nan_to_num(np.stack([start, *turns, *fixed, stop]), nan=0.0), start, stop), axis=0)
        half = np.diff(ends, axis=0) / 2
        x = (ends[:-1] + half)[:, None] + half[:, None] * _NODE[:, None]
        weight = np.log(half[:, None] * _WEIGHT[:, None])
        if rest > 0:
            second = log_interval((low[:, 1] - slope * x) / rest, (high[:, 1] - slope * x) / rest)
        else:
            second = np.where((low[:, 1] <= slope * x) & (slope * x <= high[:, 1]), 0.0, -np.inf)
        terms = weight - 0.5 * x**2 - 0.5 * np.log(2 * np.pi) + second
        return np.asarray(special.logsumexp(terms.reshape(-1, len(a)), axis=0))


@cache
def _grid(size: int) -> tuple[Array, Array]:
    """Nodes (points, size - 1) in the unit cube and the logarithms of their weights."""
    node, weight = gauss_legendre(NODES[size])
    grid = np.stack(np.meshgrid(*[(node + 1) / 2] * (size - 1), indexing="ij"), axis=-1).reshape(-1, size - 1)
    weights: Any = np.ones(1)
    for _ in range(size - 1):
        weights = np.kron(weights, weight / 2)
    return grid, np.log(weights)


def _separated(low: Array, high: Array, lower: Array) -> Array:
    grid, log_weight = _grid(len(lower))
    size = len(lower)
    drawn = np.zeros((size, len(grid), len(low)))
    total = np.zeros((len(grid), len(low)))
    for j in range(size):
        shift = np.tensordot(lower[j, :j], drawn[:j], axes=1) if j else np.zeros((len(grid), len(low)))
        if lower[j, j] == 0:
            total += np.where((low[:, j] <= shift) & (shift <= high[:, j]), 0.0, -np.inf)
            continue
        a, b = (low[:, j] - shift) / lower[j, j], (high[:, j] - shift) / lower[j, j]
        total += log_interval(a, b)
        if j < size - 1:
            flip = a > 0
            a, b = np.where(flip, -b, a), np.where(flip, -a, b)
            pa, pb = special.ndtr(a), special.ndtr(b)
            u = np.where(flip, 1.0 - grid[:, j, None], grid[:, j, None])
            x = special.ndtri(np.clip(pa + u * (pb - pa), 1e-300, 1 - 1e-16))
            drawn[j] = np.where(flip, -x, x)
    return np.asarray(special.logsumexp(total + log_weight[:, None], axis=0))
