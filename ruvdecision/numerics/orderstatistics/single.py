"""Exact moments of order statistics of one sample: normal, or from any scipy law.

Rank r of n is the r-th smallest, so rank n is the maximum. Nothing here is asymptotic except
`extreme_constants`, which says so. All integrals are trapezoidal sums of functions that die out in both
directions, which converge faster than any power of the step; no moment is a difference of large numbers.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from ...checks import check_integer, check_number
from ...errors import InputError
from ...numerics.quadrature import gauss_legendre
from ...protocols import Array

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


def normal_covariance(n: int, first: int, second: int) -> float:
    """Covariance of two order statistics of ``n`` independent standard normals.

    Given the higher one at y, the lower one of rank r below rank s is Q(F(y) B) with B ~ Beta(r, s - r)
    independent of y, so the covariance is an integral over two independent variables without a kink.

    >>> round(normal_covariance(2, 1, 2), 12)  # 1 / pi
    0.318309886184
    """
    n, first = check_rank(n, first, "first")
    n, second = check_rank(n, second, "second")
    low, high = min(first, second), max(first, second)
    if low == high:
        return cached_moments(n, low).variance
    upper, lower, weight = _neighbours(n, low, high)
    return float(np.sum(weight * (upper - cached_moments(n, high).mean) * (lower - cached_moments(n, low).mean)))


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


def moments(distribution: Any, n: int, rank: int) -> Moments:
    """Mean and variance of an order statistic of n draws from any continuous scipy.stats law.

    The r-th smallest of n draws is Q(Phi(z)) with z the r-th smallest of n normals and Q the quantile function;
    the sum over z is refined until it settles.

    >>> from scipy import stats
    >>> [round(x, 10) for x in moments(stats.expon(), 3, 3)]  # 1 + 1/2 + 1/3 and 1 + 1/4 + 1/9
    [1.8333333333, 1.3611111111]
    """
    n, rank = check_rank(n, rank)
    if not all(hasattr(distribution, name) for name in ("ppf", "isf", "pdf")):
        what = "distribution must be a frozen continuous scipy.stats law"
        raise InputError(what, distribution, "Use scipy.stats.gamma(2), for example")
    last: Moments | None = None
    for points in (401, 801, 1601, 3201, 6401):
        z, weight = _wide_nodes(n, rank, points)
        with np.errstate(over="ignore"):
            value = np.where(z < 0, distribution.ppf(special.ndtr(z)), distribution.isf(special.ndtr(-z)))
            keep = weight > 0
            value, weight = value[keep], weight[keep]
            terms = weight * value**2
        if not np.all(np.isfinite(terms)) or max(terms[0], terms[-1]) > 1e-11 * np.sum(terms):
            what = f"The order statistic of rank {rank} of {n} must have a finite variance"
            raise InputError(what, str(distribution), "Use a population with lighter tails")
        mean = float(np.sum(weight * value))
        now = Moments(mean, float(np.sum(weight * (value - mean) ** 2)))
        scale = np.sqrt(now.variance) or 1.0
        if (
            last is not None
            and abs(now.mean - last.mean) < 1e-12 * (scale + abs(mean))
            and abs(now.variance - last.variance) < 1e-11 * scale**2
        ):
            return now
        last = now
    # A quantile function with a kink converges slowly but is still right to about the step squared.
    return now


# -- one order statistic ---------------------------------------------------------------------------------


def order_nodes(n: int, rank: int, points: int = 401) -> tuple[Array, Array]:
    """Nodes and weights (summing to one) of the law of the ``rank``-th smallest of n standard normals."""
    return order_law(n, rank, points)[:2]


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
    """Return nodes, weights and the log of the constant n C(n-1, r-1) / sqrt(2 pi), found by normalising."""
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


def _wide_nodes(n: int, rank: int, points: int) -> tuple[Array, Array]:
    """As `order_law`, out to where double precision ends, for laws whose tails are heavier than normal."""
    constant = order_law(n, rank, 401)[2]
    low, high = order_window(n, rank, 690.0)
    z = np.linspace(max(low, -37.0), min(high, 37.0), 4 * points)
    return z, np.exp(_log_density(n, rank, z) + constant) * (z[1] - z[0])


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

    mode = optimize.brentq(slope, -40.0, 40.0)
    peak = log(mode)

    def edge(direction: float) -> float:
        step = 0.01
        while peak - log(mode + direction * step) < drop:
            step *= 2
        return float(optimize.brentq(lambda z: peak - log(z) - drop, mode, mode + direction * step, xtol=1e-6))

    return edge(-1.0), edge(1.0)


def check_rank(n: Any, rank: Any, name: str = "rank") -> tuple[int, int]:
    """Both as integers that go together."""
    n = check_integer("n", n, low=1)
    return n, check_integer(name, rank, low=1, high=n)


# -- two order statistics of one sample --------------------------------------------------------------------


def _neighbours(n: int, low: int, high: int, points: int = 161) -> tuple[Array, Array, Array]:
    """Return the higher statistic, the lower one and the weight, on a product of nodes."""
    upper, weight_upper, _ = order_law(n, high, points)
    # B ~ Beta(low, high - low) is Phi of the low-th of high - 1 normals.
    share, weight_share, _ = order_law(high - 1, low, points)
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
        variance = float(np.sum(weight * _tail_variance(z)))
    else:
        upper, lower, weight = _neighbours(n, start, stop + 1)
        keep = weight > 1e-25
        variance = float(
            np.sum(weight[keep] * _interval_variance(lower[keep], np.broadcast_to(upper, lower.shape)[keep]))
        )
    return (size - 1) / size * variance


def _tail_variance(a: Array) -> Array:
    """Variance of a standard normal given that it exceeds ``a``."""
    hazard = np.exp(-a * a / 2 - special.log_ndtr(-a)) / np.sqrt(2 * np.pi)
    return np.asarray(1 + a * hazard - hazard**2)


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
