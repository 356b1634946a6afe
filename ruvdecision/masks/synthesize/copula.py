"""Records with the file's margins and rank correlations: a Gaussian copula, and Latin hypercube samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from ...numerics.roots import monotone_root
from ...numerics.semidefinite import symmetric_root
from ...protocols import Array
from ..columns import Ints, RankedColumn, kind_of, whole_like

TERMS = 128
SWEEPS = 20
ROUNDS = 20
CLOSE = 1e-3


def draw_copula(columns: Sequence[RankedColumn], given: Sequence[RankedColumn], rng: np.random.Generator) -> list[Ints]:
    """Draw records from the Gaussian copula of the columns; rows that hold the drawn values, one array per column.

    Each column keeps its empirical law, and every pair the rank correlation of the original in expectation, ties
    included, up to the correction that makes the latent correlations a correlation matrix. Columns ``given``
    stay as they are: the draw is conditional on them.
    """
    n, p, q = len(columns[0].codes), len(columns), len(given)
    r = latent_correlation([*given, *columns])
    if q:
        z = _latent_given(given, r[:q, :q], rng)
        slope = np.linalg.pinv(r[:q, :q], rcond=1e-10, hermitian=True) @ r[:q, q:]
        mean, covariance = z @ slope, r[q:, q:] - r[q:, :q] @ slope
        draw = mean + rng.standard_normal((n, p)) @ symmetric_root(covariance)
        # A pseudo-inverse or rounding may leave the latent variance off one, which would bend the margins.
        sd = np.sqrt(np.einsum("ij,ik,kj->j", slope, r[:q, :q], slope) + np.clip(np.diag(covariance), 0.0, None))
        draw = draw / np.where(sd > 0, sd, 1.0)
    else:
        draw = rng.standard_normal((n, p)) @ symmetric_root(r)
    u = ndtr(draw)
    return [column.rows_at_quantiles(u[:, j]) for j, column in enumerate(columns)]


def spearman(columns: Sequence[RankedColumn]) -> Array:
    """Rank correlations, ties at their mean rank; a constant column has correlation zero with the others."""
    z = np.stack([c.middle[c.codes] for c in columns], axis=1)
    z = z - z.mean(axis=0)
    size = np.sqrt((z**2).sum(axis=0))
    z = z / np.where(size > 1e-12, size, 1.0)
    r = z.T @ z
    np.fill_diagonal(r, 1.0)
    return np.clip(r, -1.0, 1.0)


def normal_scores(column: RankedColumn) -> Array:
    """Normal quantiles of the mid-distribution function (van der Waerden), scaled to variance one."""
    z = ndtri(column.middle)[column.codes]
    z = z - z.mean()
    size = np.sqrt(np.mean(z**2))
    return z / size if size > 1e-12 else np.zeros_like(z)


def latent_correlation(columns: Sequence[RankedColumn]) -> Array:
    """Correlations of the normal variables behind the columns, from their rank correlations.

    Without ties r = 2 sin(pi s / 6). With ties the columns are steps of the latent variables. By Hermite
    expansion the rank correlation is a power series in r, sum_k a_k b_k r^k, with the coefficients of the two
    step functions. It rises in r.
    """
    s = spearman(columns)
    p = len(columns)
    r = 2 * np.sin(np.pi * s / 6)
    rough = [j for j, c in enumerate(columns) if c.tied]
    if rough and p > 1:
        a = np.stack([_hermite_coefficients(c) for c in columns])
        left, right = np.triu_indices(p, 1)
        use = np.isin(left, rough) | np.isin(right, rough)
        left, right = left[use], right[use]
        series = a[left] * a[right]
        wanted = s[left, right]

        def excess(latent: Array) -> Array:
            powers = np.multiply.accumulate(np.broadcast_to(latent[:, None], series.shape), axis=1)
            return np.asarray(np.einsum("ij,ij->i", series, powers) - wanted)

        found = monotone_root(excess, np.full(len(left), -1.0), np.full(len(left), 1.0))
        flat = ~np.any(series != 0, axis=1)
        r[left, right] = r[right, left] = np.where(flat, 0.0, found)
    np.fill_diagonal(r, 1.0)
    return as_correlation(r)


def as_correlation(r: Array) -> Array:
    """Nearest correlation matrix in a simple sense: negative eigenvalues go to zero, the diagonal back to one."""
    values, vectors = np.linalg.eigh((r + r.T) / 2)
    if values[0] >= 0:
        return r
    fixed = (vectors * np.clip(values, 1e-12, None)) @ vectors.T
    size = np.sqrt(np.diag(fixed))
    fixed = fixed / np.outer(size, size)
    np.fill_diagonal(fixed, 1.0)
    return fixed


def _hermite_coefficients(column: RankedColumn) -> Array:
    """Coefficients of the standardised mid-ranks as a function of the latent normal, Hermite degrees 1, 2, ...

    The step function that jumps by d at t has the coefficient d phi(t) psi_(k-1)(t) / sqrt(k), psi normalised.
    """
    middle, upper = column.middle, column.upper
    share = column.counts / len(column.codes)
    variance = float(share @ (middle - share @ middle) ** 2)
    if variance <= 1e-24:
        return np.zeros(TERMS)
    t = ndtri(upper[:-1])
    weight = np.diff(middle) * np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)
    out = np.empty(TERMS)
    before, now = np.zeros_like(t), np.ones_like(t)
    for k in range(1, TERMS + 1):
        out[k - 1] = weight @ now / np.sqrt(k)
        before, now = now, (t * now - np.sqrt(k - 1) * before) / np.sqrt(k)
    return out / np.sqrt(variance)


def _latent_given(columns: Sequence[RankedColumn], r: Array, rng: np.random.Generator) -> Array:
    """Draw the latent normals behind observed columns, jointly given the values.

    A value without ties fixes its latent variable up to 1/n; tied values leave an interval. Several columns with
    ties are drawn together by Gibbs sampling of truncated normals.
    """
    n, q = len(columns[0].codes), len(columns)
    low, high = np.empty((n, q)), np.empty((n, q))
    for j, c in enumerate(columns):
        edges = np.concatenate([[0.0], c.upper[:-1], [1.0]])
        low[:, j], high[:, j] = ndtri(edges[c.codes]), ndtri(edges[c.codes + 1])
    z = np.stack([_draw_truncated_normal(np.zeros(n), 1.0, low[:, j], high[:, j], rng) for j in range(q)], axis=1)
    if q == 1 or not any(c.tied for c in columns):
        return z
    for _ in range(SWEEPS):
        for j in range(q):
            rest = [i for i in range(q) if i != j]
            slope = np.linalg.pinv(r[np.ix_(rest, rest)], rcond=1e-10, hermitian=True) @ r[rest, j]
            sd = np.sqrt(max(1.0 - float(r[rest, j] @ slope), 1e-6))
            z[:, j] = _draw_truncated_normal(z[:, rest] @ slope, sd, low[:, j], high[:, j], rng)
    return z


def _draw_truncated_normal(mean: Array, sd: float, low: Array, high: Array, rng: np.random.Generator) -> Array:
    """Draw normals between bounds; the tail is mirrored to the left, where the distribution function has digits."""
    a, b = (low - mean) / sd, (high - mean) / sd
    mirror = a > 0
    a, b = np.where(mirror, -b, a), np.where(mirror, -a, b)
    below, above = ndtr(a), ndtr(b)
    z = ndtri(below + rng.random(len(mean)) * (above - below))
    # Beyond 37 standard deviations the distribution function is zero; the near bound is then the answer.
    z = np.where(np.isfinite(z), np.clip(z, a, b), b)
    return np.clip(mean + sd * np.where(mirror, -z, z), low, high)


# -- Latin hypercube -------------------------------------------------------------------------------------


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
    sorted_values = [
        _quantile_values(table.iloc[:, j], ranked[j], (np.arange(n) + rng.random(n)) / n) for j in range(p)
    ]
    places = [_normalised_midranks(v, n) for v in sorted_values]
    scores = ndtri((np.arange(n) + 0.5) / n)
    z = np.stack([scores[rng.permutation(n)] for _ in range(p)], axis=1)
    z = _uncorrelated_scores(z)
    ranks = _restore_rank_correlations(z, places, spearman(ranked), latent_correlation(ranked))
    return [
        values[ranks[:, j]] if isinstance(values, np.ndarray) else values.take(ranks[:, j])
        for j, values in enumerate(sorted_values)
    ]


def _quantile_values(column: pd.Series, ranked: RankedColumn, u: Array) -> Any:
    """Values at these points of the quantile function, in ascending order, in the column's own type."""
    if kind_of(column) != "number":
        return column.array.take(ranked.rows_at_quantiles(u))
    n = len(u)
    x = column.to_numpy(dtype=np.float64)[ranked.order]
    return whole_like(np.interp(u, (np.arange(n) + 0.5) / n, x), column)


def _normalised_midranks(values: Any, n: int) -> Array:
    """Centred, normalised mean ranks of values that are already in order."""
    series = pd.Series(values)
    new = np.concatenate([[True], (series.to_numpy()[1:] != series.to_numpy()[:-1])])
    group = np.cumsum(new) - 1
    middle = np.bincount(group, weights=np.arange(n)) / np.bincount(group)
    z = middle[group] - (n - 1) / 2
    size = float(np.sqrt(z @ z))
    return z / size if size > 0 else z


def _uncorrelated_scores(z: Array) -> Array:
    """Scores with sample correlation exactly zero, so that chance correlations do not come on top."""
    n, p = z.shape
    z = (z - z.mean(axis=0)) / np.maximum(z.std(axis=0), 1e-12)
    if n - 1 <= p:
        return z
    correlation = z.T @ z / n
    if np.linalg.eigvalsh(correlation)[0] < 1e-8:
        return z
    return np.asarray(np.linalg.solve(symmetric_root(correlation), z.T).T)


def _restore_rank_correlations(z: Array, places: Sequence[Array], wanted: Array, start: Array) -> Any:
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
