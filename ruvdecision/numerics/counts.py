"""Counting: how many of n independent, unequal events happen, and the ways to split a total."""

from __future__ import annotations

from itertools import chain, combinations, combinations_with_replacement
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..protocols import Array


def compositions(total: int, parts: int) -> NDArray[np.int64]:
    """All ways to write a total as an ordered sum of parts of at least 0, one per row, the first part falling.

    >>> compositions(2, 2).tolist()
    [[2, 0], [1, 1], [0, 2]]
    """
    ways = comb(total + parts - 1, parts - 1)
    if 0 < total <= parts:
        # Few units: say for each unit which part it goes to.
        counts = np.zeros((ways, parts), dtype=np.int64)
        places = chain.from_iterable(combinations_with_replacement(range(parts), total))
        units = np.fromiter(places, dtype=np.int64, count=ways * total)
        np.add.at(counts, (np.repeat(np.arange(ways), total), units), 1)
        return counts
    # Few parts: say where the bars between them stand.
    places = chain.from_iterable(combinations(range(total + parts - 1), parts - 1))
    bars = np.fromiter(places, dtype=np.int64, count=ways * (parts - 1)).reshape(ways, parts - 1)
    edges = np.concatenate([np.full((ways, 1), -1), bars, np.full((ways, 1), total + parts - 1)], axis=1)
    return np.asarray((np.diff(edges, axis=1) - 1)[::-1], dtype=np.int64)


def order_statistic_cdf(below: Array, above: Array, rank: int) -> Array:
    """P(at least ``rank`` of independent events happen), for each column of their probabilities.

    ``below`` and ``above`` are the probabilities of each event and of its opposite, shape (n, points). Exact
    Poisson-binomial recursion over whichever side has fewer terms: the result is the law of an order statistic.
    """
    n = len(below)
    if rank > n - rank:
        # Fewer than n - rank + 1 opposites: sum their lower tail, all terms positive.
        return np.asarray(_poisson_binomial_counts(above, below, n - rank).sum(axis=0))
    return np.asarray(1 - _poisson_binomial_counts(below, above, rank - 1).sum(axis=0))


def order_statistic_sf(below: Array, above: Array, rank: int) -> Array:
    """1 - `order_statistic_cdf`, without its rounding."""
    return order_statistic_cdf(above, below, len(below) - rank + 1)


def _poisson_binomial_counts(yes: Array, no: Array, most: int) -> Array:
    """Probabilities of exactly 0, 1, ..., most events, shape (most + 1, points)."""
    if most == 0:
        return np.asarray(np.prod(no, axis=0)[None])
    counts = np.zeros((most + 1, *yes.shape[1:]))
    counts[0] = 1.0
    for i in range(len(yes)):
        top = min(i + 1, most)
        counts[1 : top + 1] = counts[1 : top + 1] * no[i] + counts[:top] * yes[i]
        counts[0] = counts[0] * no[i]
    return counts


def binomial_exceeds(many: int, p: Array, few: int, q: Array, excess: int) -> Array:
    """P(A >= B + excess) for independent A ~ Bin(many, p) and B ~ Bin(few, q), elementwise."""
    p, q = np.broadcast_arrays(p, q)
    if many < excess:
        return np.zeros(p.shape)
    if few == 0:
        return np.ones(p.shape) if excess == 0 else -np.expm1(many * np.log1p(-np.minimum(p, 1 - 1e-17)))
    flat_p, flat_q = p.ravel(), q.ravel()
    mean = np.stack([many * flat_p, few * flat_q])
    reach = 8.5 * np.sqrt(np.stack([mean[0] * (1 - flat_p), mean[1] * (1 - flat_q)])) + 16
    # Only counts that both can reach are in doubt.
    first = np.clip(np.floor((mean - reach).max(axis=0)), 0, None).astype(int)
    last = np.minimum(np.ceil((mean + reach).min(axis=0)), min(many, few) + 1).astype(int)
    result = (mean[0] > mean[1]).astype(np.float64)
    open_ = np.flatnonzero(last >= first)
    order = open_[np.lexsort((first[open_], last[open_] - first[open_]))]
    for block in np.array_split(order, max(1, order.size // 2048)):
        if block.size:
            result[block] = _exceedance_sum(
                many, flat_p[block], few, flat_q[block], excess, int(first[block].min()), int(last[block].max())
            )
    return np.clip(result, 0.0, 1.0).reshape(p.shape)


def _exceedance_sum(many: int, p: Array, few: int, q: Array, excess: int, first: int, last: int) -> Array:
    """Sum over B = k of P(B = k) P(A >= k + excess), for k near [first, last]."""
    k = np.arange(max(0, first - 1), min(few, last + 1) + 1, dtype=np.int64)
    if k.size == 0:
        return np.zeros_like(p)
    chance = _binomial_pmf(few, q, k)
    top = int(k[-1]) + excess
    # P(A >= k + excess) for every k: one incomplete beta function at the top, then add terms downwards.
    beyond = np.zeros_like(p) if top + 1 > many else special.betainc(top + 1, many - top, p)
    upper = beyond[:, None] + np.cumsum(_binomial_pmf(many, p, k + excess)[:, ::-1], axis=1)[:, ::-1]
    below = (
        np.zeros_like(p) if k[0] == 0 else 1 - special.betainc(int(k[0]), few - int(k[0]) + 1, q)
    )  # B < k[0]: A is larger for certain
    return np.asarray((chance * upper).sum(axis=1) + below)


def _binomial_pmf(count: int, p: Array, k: NDArray[np.int64]) -> Array:
    """P(Bin(count, p) = k), zero for k > count, shape (points, k)."""
    inside = k <= count
    j = np.where(inside, k, 0)
    log = special.gammaln(count + 1.0) - special.gammaln(j + 1.0) - special.gammaln(count - j + 1.0)
    chance = log + special.xlogy(j, p[:, None]) + special.xlog1py(count - j, -p[:, None])
    return np.asarray(np.where(inside, np.exp(chance), 0.0))
