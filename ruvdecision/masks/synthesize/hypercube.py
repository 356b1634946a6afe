"""Latin hypercube samples with the original's rank correlations put back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ...numerics.semidefinite import symmetric_root
from ...protocols import Array
from ..columnkinds import RankedColumn, kind_of, whole_like
from .copula import as_correlation, latent_correlation, spearman

ROUNDS = 20
CLOSE = 1e-3


def draw_hypercube(table: pd.DataFrame, ranked: Sequence[RankedColumn], rng: np.random.Generator) -> list[Any]:
    """Draw one value from each of n strata of equal probability, column by column, and pair them up again.

    Dandekar, Cohen and Kirkendall (2002). The strata cut the empirical distribution function. Numbers are
    interpolated between neighbouring order statistics, whole numbers then rounded; dates, booleans and ordered
    categories keep to values of the file. Pairing is by Iman and Conover (1982): normal scores are given the
    wanted correlation and the column takes over their ranks. The scores' correlation is then corrected for what
    the ranks still lack, as Dandekar et al. refine theirs, until no rank correlation is off by more than 0.001 or
    the rounds are over; the best round counts. Small files and columns with few values move in jumps and may stay
    farther off: with a two-valued column and n records, by about 3/n.
    """
    n, p = len(table), len(ranked)
    sorted_values = [_strata(table.iloc[:, j], ranked[j], (np.arange(n) + rng.random(n)) / n) for j in range(p)]
    places = [_midranks(v, n) for v in sorted_values]
    scores = ndtri((np.arange(n) + 0.5) / n)
    z = np.stack([scores[rng.permutation(n)] for _ in range(p)], axis=1)
    z = _white(z)
    ranks = _restore(z, places, spearman(ranked), latent_correlation(ranked))
    return [
        values[ranks[:, j]] if isinstance(values, np.ndarray) else values.take(ranks[:, j])
        for j, values in enumerate(sorted_values)
    ]


def _strata(column: pd.Series, ranked: RankedColumn, u: Array) -> Any:
    """Values at these points of the quantile function, in ascending order, in the column's own type."""
    if kind_of(column) != "number":
        return column.array.take(ranked.at(u))
    n = len(u)
    x = column.to_numpy(dtype=np.float64)[ranked.order]
    return whole_like(np.interp(u, (np.arange(n) + 0.5) / n, x), column)


def _midranks(values: Any, n: int) -> Array:
    """Centred, normalised mean ranks of values that are already in order."""
    series = pd.Series(values)
    new = np.concatenate([[True], (series.to_numpy()[1:] != series.to_numpy()[:-1])])
    group = np.cumsum(new) - 1
    middle = np.bincount(group, weights=np.arange(n)) / np.bincount(group)
    z = middle[group] - (n - 1) / 2
    size = float(np.sqrt(z @ z))
    return z / size if size > 0 else z


def _white(z: Array) -> Array:
    """Scores with sample correlation exactly zero, so that chance correlations do not come on top."""
    n, p = z.shape
    z = (z - z.mean(axis=0)) / np.maximum(z.std(axis=0), 1e-12)
    if n - 1 <= p:
        return z
    values, vectors = np.linalg.eigh(z.T @ z / n)
    if values[0] < 1e-8:
        return z
    return z @ ((vectors / np.sqrt(values)) @ vectors.T)


def _restore(z: Array, places: Sequence[Array], wanted: Array, start: Array) -> Any:
    """Ranks of correlated scores whose rank correlations are the wanted ones as nearly as may be."""
    n, p = z.shape
    target, best, best_gap = start, None, np.inf
    for turn in range(ROUNDS):
        y = z @ symmetric_root(as_correlation(target))
        ranks = np.empty((n, p), dtype=np.int64)
        for j in range(p):
            ranks[np.argsort(y[:, j], kind="stable"), j] = np.arange(n)
        placed = np.stack([places[j][ranks[:, j]] for j in range(p)], axis=1)
        got = placed.T @ placed
        np.fill_diagonal(got, 1.0)
        gap = float(np.max(np.abs(got - wanted)))
        if gap < best_gap:
            best, best_gap = ranks, gap
        if gap <= CLOSE:
            break
        # Full steps first; columns with few values move in jumps, and half steps keep those from swinging.
        target = np.clip(target + (wanted - got) * (1.0 if turn < 3 else 0.5), -1.0, 1.0)
    return best
