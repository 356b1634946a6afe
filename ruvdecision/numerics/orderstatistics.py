"""Exact moments of order statistics of normal samples, and of noisy copies of them.

Rank r of n is the r-th smallest, so rank n is the maximum. Nothing here is asymptotic except
`extreme_constants`, which says so. All integrals are trapezoidal sums of functions that die out in both
directions, which converge faster than any power of the step; no moment is a difference of large numbers. Pairs tell
what ties the largest released value to the largest record.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import legvander
from numpy.typing import ArrayLike
from scipy import special

from ..checks import as_float_array, check_finite, check_integer, check_number
from ..errors import InputError
from ..protocols import Array
from .quadrature import gauss_legendre
from .roots import brent_root

_DROP = 50.0  # nodes whose log density lies this far below the peak cannot be seen in double precision


class Moments(NamedTuple):
    """Mean and variance."""

    mean: float
    variance: float


def normal_moments(n: int, rank: int) -> Moments:
    """Mean and variance of the ``rank``-th smallest of ``n`` independent standard normals.

    Exact to about 1e-13 (inner ranks of a million records: 1e-11): a trapezoidal sum over the density of the order
    statistic, with the variance taken about the mean. Works for every rank and for n of a million and more.

    >>> [round(x, 10) for x in normal_moments(200, 200)]
    [2.7460424475, 0.1607244253]
    """
    n, rank = check_rank(n, rank)
    return cached_moments(n, rank)


def percentile_rank(n: int, p: float) -> int:
    """Rank of the p-th sample percentile, Y_(np): the next whole number where np is not whole.

    >>> percentile_rank(200, 0.99), percentile_rank(177, 0.10)
    (198, 18)
    """
    n = check_integer("n", n, low=1)
    p = check_number("p", p, low=0, high=1, open_low=True, open_high=True)
    # np that is whole up to rounding (200 * 0.99 = 198.00000000000003) is taken as whole.
    near = round(n * p)
    return int(near if abs(n * p - near) < 1e-9 * n and near >= 1 else np.ceil(n * p))


def extreme_constants(n: int, position: int = 1) -> Moments:
    """Fisher and Tippett's large-n mean and variance of the ``position``-th largest of n standard normals.

    K_n1 and K_n2 of Duncan et al. (2001), before eq. 9, for position 1; Cramér (1946), p. 376, for the others.
    Asymptotic: 6 % off at n = 10 and 1 % at n = 1000. Use `normal_moments` for the exact values.

    >>> [round(x, 9) for x in extreme_constants(200)]
    [2.787697185, 0.155231742]
    """
    n = check_integer("n", n, low=1)
    position = check_integer("position", position, low=1, high=n)
    if n < 2:
        raise InputError("The large-sample constants need at least two records", n, 'Use method="exact"')
    earlier = np.arange(1, position)
    log = np.log(n)
    root = np.sqrt(2 * log)
    mean = root - (np.log(log) + np.log(4 * np.pi) + 2 * (np.sum(1 / earlier) - np.euler_gamma)) / (2 * root)
    return Moments(float(mean), float((np.pi**2 / 6 - np.sum(1.0 / earlier**2)) / (2 * log)))


def group_variances(sizes: ArrayLike) -> Array:
    """Expected mean square within each group when n standard normals are sorted and cut into groups.

    ``sizes`` are the sizes of the groups from the lowest to the highest. Given the neighbours just outside it,
    a group of k holds k independent normals truncated to the interval between them, so the expectation of
    (1/k) sum (z - mean)^2 is (k - 1)/k times the expected variance of that truncated normal: an integral over
    one neighbour at the ends and over two inside. This is what sorted microaggregation leaves unknown.

    >>> round(2 * float(np.mean(group_variances([5, 5]))), 10)  # Trottini and Fienberg's example 1, two groups
    0.638382869
    """
    counts = [check_integer("a group size", k, low=1) for k in np.atleast_1d(np.asarray(sizes, dtype=object))]
    if not counts:
        raise InputError("There must be at least one group", sizes, "Give sizes=[5, 5], for example")
    n = sum(counts)
    edges = np.cumsum([0, *counts])
    return np.array([_group_variance(n, int(a), int(b)) for a, b in itertools.pairwise(edges)])


# -- one order statistic ---------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def cached_moments(n: int, rank: int) -> Moments:
    """Moments of one order statistic, kept."""
    z, weight, _ = order_law(n, rank, 401)
    mean = float(np.sum(weight * z))
    if 2 * rank == n + 1:
        mean = 0.0
    return Moments(mean, float(np.sum(weight * (z - mean) ** 2)))


@lru_cache(maxsize=1024)
def order_law(n: int, rank: int, points: int) -> tuple[Array, Array, float]:
    """Nodes and weights (summing to one) of the law of the ``rank``-th smallest of n standard normals.

    And the log of the constant n C(n-1, r-1) / sqrt(2 pi), found by normalising.
    """
    low, high = order_window(n, rank, _DROP)
    z = np.linspace(low, high, points)
    log = _log_density(n, rank, z)
    peak = float(np.max(log))
    weight = np.exp(log - peak)
    total = float(np.sum(weight))
    constant = -peak - np.log(total * (z[1] - z[0]))
    weight /= total
    for array in (z, weight):
        array.setflags(write=False)
    return z, weight, float(constant)


def _log_density(n: int, rank: int, z: Array) -> Array:
    # Dropping the constant here avoids log-gamma, which loses digits for large n.
    return np.asarray((rank - 1) * special.log_ndtr(z) + (n - rank) * special.log_ndtr(-z) - z * z / 2)


@lru_cache(maxsize=4096)
def order_window(n: int, rank: int, drop: float) -> tuple[float, float]:
    """Where the log-concave density of the order statistic lies within ``drop`` of its peak."""

    def log(z: float) -> float:
        return float((rank - 1) * special.log_ndtr(z) + (n - rank) * special.log_ndtr(-z) - z * z / 2)

    def slope(z: float) -> float:
        half = z * z / 2 + 0.5 * np.log(2 * np.pi)
        return float(
            (rank - 1) * np.exp(-half - special.log_ndtr(z)) - (n - rank) * np.exp(-half - special.log_ndtr(-z)) - z
        )

    mode = brent_root(slope, -40.0, 40.0, absolute=2e-12)
    peak = log(mode)

    def edge(direction: float) -> float:
        step = 0.01
        while peak - log(mode + direction * step) < drop:
            step *= 2
        return brent_root(lambda z: peak - log(z) - drop, mode, mode + direction * step, absolute=1e-6)

    return edge(-1.0), edge(1.0)


def check_rank(n: object, rank: object) -> tuple[int, int]:
    """Both as integers that go together."""
    count = check_integer("n", n, low=1)
    return count, check_integer("rank", rank, low=1, high=count)


# -- two order statistics of one sample --------------------------------------------------------------------


def _neighbouring_statistics(n: int, low: int, high: int) -> tuple[Array, Array, Array]:
    """Return the higher statistic, the lower one and the weight, on a product of nodes."""
    upper, weight_upper, _ = order_law(n, high, 161)
    # B ~ Beta(low, high - low) is Phi of the low-th of high - 1 normals.
    share, weight_share, _ = order_law(high - 1, low, 161)
    top = upper[:, None]
    # Survival and distribution function of the lower one, each as a sum or product of positive numbers.
    above = special.ndtr(-top) + special.ndtr(top) * special.ndtr(-share)
    log_below = special.log_ndtr(top) + special.log_ndtr(share)
    lower = np.where(above < 0.5, -special.ndtri(above), special.ndtri_exp(log_below))
    return top, lower, weight_upper[:, None] * weight_share


@lru_cache(maxsize=4096)
def _group_variance(n: int, start: int, stop: int) -> float:
    """Expected mean square of the order statistics of ranks start + 1 to stop about their mean."""
    size = stop - start
    if size == 1:
        return 0.0
    if size == n:
        return (n - 1) / n
    if start == 0 or stop == n:
        # By symmetry a group at the top: truncated from below at its one neighbour.
        z, weight, _ = order_law(n, n - size, 401)
        # The variance of a standard normal given that it exceeds z.
        hazard = np.exp(-z * z / 2 - special.log_ndtr(-z)) / np.sqrt(2 * np.pi)
        variance = float(np.sum(weight * (1 + z * hazard - hazard**2)))
    else:
        upper, lower, weight = _neighbouring_statistics(n, start, stop + 1)
        keep = weight > 1e-25
        variance = float(
            np.sum(weight[keep] * _interval_variance(lower[keep], np.broadcast_to(upper, lower.shape)[keep]))
        )
    return (size - 1) / size * variance


def _interval_variance(a: Array, b: Array) -> Array:
    """Variance of a standard normal between ``a`` and ``b``, by quadrature: exact for narrow intervals too."""
    # Beyond nine standard deviations nothing is left, and the nodes serve the part that counts.
    a, b = np.maximum(a, -9.0), np.minimum(b, np.maximum(9.0, a + 1e-3))
    nodes, weights = gauss_legendre(64)
    middle, half = (a + b) / 2, (b - a) / 2
    offset = half[:, None] * nodes
    # phi relative to the middle of the interval: no underflow far out.
    density = weights * np.exp(np.clip(-offset * (offset + 2 * middle[:, None]) / 2, -700.0, 700.0))
    total = density.sum(axis=1)
    mean = (density * offset).sum(axis=1) / total
    return np.asarray((density * (offset - mean[:, None]) ** 2).sum(axis=1) / total)


# -- the same rank in two correlated samples ----------------------------------------------------------


def paired_gap(n: int, rank: int, angle: ArrayLike) -> Array:
    r"""E (X_(r) - Z_(r))^2 for n independent standard normal pairs (X_i, Z_i) of correlation cos(angle).

    Each coordinate is ranked by itself. By Price's theorem the derivative of E X_(r) Z_(r) with respect to the
    correlation is the probability P that the same record holds rank r in both, so

        E (X_(r) - Z_(r))^2 = 2 \int_0^angle P(a) sin(a) da,

    a sum of positive terms: no digits are lost for small angles. P is computed on a few panels of the angle and
    interpolated, so a whole grid of angles costs hardly more than one.

    For a record x with variance s2 released as Y = x + noise of variance l2, tan(angle) = sqrt(l2 / s2).

    >>> round(float(paired_gap(1, 1, np.pi / 2)), 10)  # two independent normals
    2.0
    """
    n, rank = check_rank(n, rank)
    theta = _check_angle(angle)
    flat = np.atleast_1d(theta).ravel()
    if n == 1:
        return np.asarray(4 * np.sin(theta / 2) ** 2)
    edges, values = _same_record_panels(n, max(rank, n + 1 - rank), float(np.max(flat, initial=0.0)))
    return _integrate_panels(edges, values, flat).reshape(theta.shape)


# -- helpers of pairs -------------------------------------------------------------------------------------------------

_PANEL = 12  # Gauss-Legendre nodes of the angle per panel


def _same_record_panels(n: int, rank: int, largest: float) -> tuple[Array, Array]:
    """Return panel edges up to at least ``largest`` and P at the nodes of each panel."""
    # P falls from 1 on the scale of the gap to the next record, then ever more slowly: panels double.
    gap = _record_gap(n, rank)
    edges = [0.0]
    step = min(gap, np.pi / 4)
    while edges[-1] < largest:
        edges.append(min(edges[-1] + step, np.pi / 2) if edges[-1] + 1.6 * step < np.pi / 2 else np.pi / 2)
        step = max(step, edges[-1])
    if len(edges) == 1:
        edges.append(step)
    ends = np.array(edges)
    nodes = gauss_legendre(_PANEL)[0]
    theta = ends[:-1, None] + (ends[1:] - ends[:-1])[:, None] * (nodes + 1) / 2
    return ends, _same_record(n, rank, theta.ravel()).reshape(theta.shape)


def _integrate_panels(edges: Array, values: Array, theta: Array) -> Array:
    """2 times the integral of P(a) sin(a) from 0 to each theta, from P at the nodes of each panel."""
    nodes, weights = gauss_legendre(_PANEL)
    width = np.diff(edges)
    inner = edges[:-1, None] + width[:, None] * (nodes + 1) / 2
    whole = np.concatenate([[0.0], np.cumsum(np.sum(weights * width[:, None] / 2 * values * np.sin(inner), axis=1))])
    panel = np.clip(np.searchsorted(edges, theta, side="right") - 1, 0, len(width) - 1)
    # The part of the last panel: P interpolated at nodes between the panel's start and theta.
    reach = theta - edges[panel]
    at = reach[:, None] * (nodes + 1) / 2
    position = 2 * at / width[panel][:, None] - 1
    basis = legvander(nodes, _PANEL - 1)
    coefficients = (np.arange(_PANEL) + 0.5)[:, None] * (basis * weights[:, None]).T @ values.T
    part = np.einsum("tkc,ct->tk", legvander(position, _PANEL - 1), coefficients[:, panel])
    rest = np.sum(weights * reach[:, None] / 2 * part * np.sin(edges[panel][:, None] + at), axis=1)
    return np.asarray(2 * (whole[panel] + rest))


def _record_gap(n: int, rank: int) -> float:
    mean = cached_moments(n, rank).mean
    return float(np.sqrt(2 * np.pi) * np.exp(mean * mean / 2) / n)


def _same_record(n: int, rank: int, theta: Array) -> Array:
    """P that the record of rank r is the same in both coordinates, for each angle.

    With X = c s + d w and Z = c s - d w, c and d the cosine and sine of half the angle, s and w are independent
    standard normals, and P is the integral of n phi(s) phi(w) K, K the probability that of the n - 1 other
    records equally many are below in both coordinates.
    """
    rank = max(rank, n + 1 - rank)  # by symmetry work in the upper tail, where survival functions keep digits
    result = np.ones_like(theta)
    if n == 1:
        return result
    low, high = order_window(n, rank, 36.0)
    sd = np.sqrt(cached_moments(n, rank).variance)
    gap = _record_gap(n, rank)
    constant = order_law(n, rank, 401)[2] - 0.5 * np.log(2 * np.pi)
    # Inner order statistics are nearly normal and forgive wider steps than extremes, whose law is Gumbel's.
    wide = min(0.54, (0.44 if n <= 10_000 else 0.36) + 0.06 * (n - rank))
    for i, angle in enumerate(theta):
        if angle < 1e-200:
            continue
        c, d = np.cos(angle / 2), np.sin(angle / 2)
        # How far apart the two values may lie: their own noise, and the ranks that must agree.
        narrow = 1 / np.sqrt(1 + 2.5 * d / gap)
        step_w, step_s = wide * narrow, (wide - 0.04) * sd
        w = np.arange(0.0, min(8.6, (high - low) / (2 * d)) + step_w, step_w)
        middle = np.arange(low, high, step_s) + 1e-9 * step_s
        s = middle / c
        shift = d * w[:, None]
        # Both values must lie where the order statistic does; K is at most one, which bounds the rest.
        keep = (middle - shift > low) & (middle + shift < high) & (constant - (s**2 + w[:, None] ** 2) / 2 > -32.0)
        row, column = np.nonzero(keep)
        ss, ww = s[column], w[row]
        log = constant - (ss**2 + ww**2) / 2 + _log_agreement(n, rank, ss, ww, c, d)
        weight = np.where(row == 0, 0.5, 1.0)
        result[i] = 2 * step_w * step_s / c * np.sum(weight * np.exp(log))
    return result


def _log_agreement(n: int, rank: int, s: Array, w: Array, c: float, d: float) -> Array:
    """Log of K up to the constant C(n - 1, r - 1)."""
    a, b = c * s + d * w, c * s - d * w
    above_a, above_b = special.ndtr(-a), special.ndtr(-b)
    both = (above_a + above_b) / 2 - special.owens_t(a, (s * d - w * c) / a) - special.owens_t(b, (s * d + w * c) / b)
    both = np.where(a * b < 0, both - 0.5, both)
    both = np.clip(both, 0.0, np.minimum(above_a, above_b))
    with np.errstate(divide="ignore"):
        neither = np.log1p(both - above_a - above_b)
        if rank == n:
            return np.asarray((rank - 1) * neither)
        odds = np.log(above_b - both) + np.log(above_a - both) - np.log(both) - neither
        return np.asarray((rank - 1) * neither + (n - rank) * np.log(both) + _log_exchanges(rank - 1, n - rank, odds))


def _log_exchanges(below: int, above: int, odds: Array) -> Array:
    """Log of sum_k C(below, k) C(above, k) exp(k odds): k records go up and k come down."""
    top = min(below, above)
    k = np.arange(top, dtype=np.float64)
    table = np.concatenate([[0.0], np.cumsum(np.log((below - k) * (above - k) / (k + 1) ** 2))])
    odds = np.where(np.isfinite(odds), odds, -700.0)
    q = np.exp(np.minimum(odds, 300.0))
    total = float(below + above)
    product = float(below) * float(above)
    # The largest term solves (below - k)(above - k) q = k^2; written so that q = 1 is no exception.
    peak = 2 * product * q / (q * total + np.sqrt(np.maximum(q * q * total**2 + 4 * (1 - q) * q * product, 0.0)))
    curvature = 2 / np.maximum(peak, 0.5) + 1 / np.maximum(below - peak, 0.5) + 1 / np.maximum(above - peak, 0.5)
    reach = np.ceil(7.5 / np.sqrt(curvature)).astype(int) + 8
    start = np.clip(np.floor(peak).astype(int) - reach, 0, top)
    result = np.empty_like(odds)
    order = np.argsort(reach, kind="stable")
    # Records of similar reach are summed together, so that a few wide ones do not widen all.
    for block in np.array_split(order, max(1, -(-len(order) // 512))):
        exchanged = start[block][:, None] + np.arange(2 * int(reach[block].max(initial=0)) + 1)
        terms = np.where(
            exchanged <= top, table[np.minimum(exchanged, top)] + exchanged * odds[block][:, None], -np.inf
        )
        highest = terms.max(axis=1)
        result[block] = highest + np.log(np.exp(terms - highest[:, None]).sum(axis=1))
    return result


def _check_angle(angle: ArrayLike) -> Array:
    theta = check_finite("angle", as_float_array("angle", angle))
    if np.any(theta < 0) or np.any(theta > np.pi / 2 * (1 + 1e-15)):
        do = "Use arctan(sqrt(noise_variance / variance))"
        raise InputError("angle must lie in [0, pi/2]", [float(theta.min()), float(theta.max())], do)
    # Rounding may take a right angle beyond itself, where the panels never come.
    return np.asarray(np.minimum(theta, np.pi / 2))
