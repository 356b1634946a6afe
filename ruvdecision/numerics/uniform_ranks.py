"""How far ranks may be from even: an exact test, and bands for how many ranks lie below each."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import special

from ..protocols import Array


@cache
def uniformity_p_value(counts: tuple[int, ...]) -> float:
    """Probability that even ranks look as uneven as these, given how often each rank occurred.

    >>> uniformity_p_value((10, 10, 10, 10)), uniformity_p_value((40, 0, 0, 0)) < 1e-12
    (1.0, True)
    """
    size, draws = sum(counts), len(counts) - 1
    count = np.cumsum(counts)[:-1]
    low, high = _rank_count_tails(size, draws)
    rows = np.arange(draws)
    depth = float(np.minimum(low[rows, count], high[rows, count]).min())
    # What lies as deep as this is outside; rounding must not take it in.
    return float(np.clip(1.0 - _probability_within_limits(size, draws, depth * (1 + 1e-9)), 0.0, 1.0))


@cache
def rank_count_bands(size: int, draws: int, alpha: float) -> tuple[Array, Array]:
    """Least and largest counts of ranks below 1, 2, ..., draws that all hold with probability at least 1 - alpha."""
    outer, inner = 0.0, alpha
    for _ in range(50):
        middle = (outer + inner) / 2
        outer, inner = (
            (middle, inner) if _probability_within_limits(size, draws, middle) >= 1 - alpha else (outer, middle)
        )
    return _rank_count_limits(size, draws, outer)


@cache
def _rank_count_tails(size: int, draws: int) -> tuple[Array, Array]:
    """P(X <= c) and P(X >= c) of the number of ranks below i = 1, ..., draws, for c = 0, ..., size."""
    share = (np.arange(1, draws + 1) / (draws + 1))[:, None]
    count = np.arange(size + 1)[None]
    low = special.bdtr(count, size, share)
    high = np.concatenate([np.ones((draws, 1)), special.bdtrc(count[:, :-1], size, share)], axis=1)
    return low, high


def _rank_count_limits(size: int, draws: int, depth: float) -> tuple[Array, Array]:
    low, high = _rank_count_tails(size, draws)
    return (low > depth).argmax(axis=1), size - (high > depth)[:, ::-1].argmax(axis=1)


def _probability_within_limits(size: int, draws: int, depth: float) -> float:
    """Probability that no count lies in a tail of at most ``depth``: the counts are a Markov chain."""
    low, high = _rank_count_limits(size, draws, depth)
    if (low > high).any():
        return 0.0
    log_factorial = special.gammaln(np.arange(size + 1) + 1.0)
    before, chance = np.array([0]), np.array([1.0])
    for i in range(draws):
        share = 1.0 / (draws + 1 - i)
        after = np.arange(low[i], high[i] + 1)
        step, rest = after[None] - before[:, None], size - before[:, None]
        there = step >= 0
        step = np.where(there, step, 0)
        logs = log_factorial[rest] - log_factorial[step] - log_factorial[np.maximum(rest - step, 0)]
        logs = logs + step * np.log(share) + (rest - step) * np.log1p(-share)
        before, chance = after, chance @ np.where(there & (step <= rest), np.exp(logs), 0.0)
    return float(chance.sum())
