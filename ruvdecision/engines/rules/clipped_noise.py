"""Exact risks and utility of noise added to the records at hand, cut off at natural bounds.

Section V of Duncan et al. (2001) simulates these; here they are integrals. The released record is
Y_i = max(lower, x_i + e_i) with e_i ~ N(0, v_i), eq. 11 (and min(upper, .) if there is an upper bound). The records
are fixed, only the noise is random. ``noise_variance`` may be one number, a grid, or (grid, records) when the noise
differs between records; results have one entry per grid point.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ...checks import as_float_array, check_finite, check_integer, check_number, check_vector
from ...errors import InputError
from ...numerics.counts import order_statistic_cdf, order_statistic_sf
from ...numerics.quadrature import adaptive
from ...protocols import Array


def noise_variances_by_threshold(
    records: ArrayLike, noise_variance: ArrayLike, above: float, times: float = 2.0
) -> Array:
    """Noise variances, one row per grid point, that are ``times`` larger for records above a value.

    Duncan et al.'s figure 7 doubles the variance for incomes over 35,000.

    >>> noise_variances_by_threshold([20_000.0, 36_000.0], [1.0, 2.0], above=35_000).tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """
    x = check_vector("records", records)
    grid = np.atleast_1d(check_finite("noise_variance", as_float_array("noise_variance", noise_variance)))
    factor = np.where(x > check_number("above", above), check_number("times", times, low=0), 1.0)
    return np.asarray(grid[:, None] * factor)


def clipped_moments(
    centre: ArrayLike, variance: ArrayLike, lower: float | None = 0.0, upper: float | None = None
) -> tuple[Array, Array]:
    """Mean and variance of a normal value that is set to a bound where it falls beyond it.

    E max(0, x + e) = x Phi(c) + sd phi(c), c = x/sd, for the bound 0; both bounds by the same pieces.

    >>> mean, variance = clipped_moments(0.0, 1.0)
    >>> round(float(mean), 6), round(float(variance), 6)  # 1/sqrt(2 pi), (1 - 1/pi)/2
    (0.398942, 0.340845)
    """
    low, high = as_bounds(lower, upper)
    x, v = np.broadcast_arrays(np.asarray(centre, dtype=np.float64), np.asarray(variance, dtype=np.float64))
    mean = x + _moment_of_clipped(x, v, x, low, high, 1)
    return mean, _moment_of_clipped(x, v, mean, low, high, 2)


def linked_record_mse(
    target: ArrayLike, noise_variance: ArrayLike, lower: float | None = 0.0, upper: float | None = None
) -> Array:
    """E (Y_t - x_t)^2 of a snooper who knows which released record is the target's.

    v (Phi(c) - c phi(c)) + x^2 Phi(-c) with c = x/sd for the bound 0. ``target`` is the confidential value (or
    values, broadcast against the noise variance).

    >>> round(float(linked_record_mse(0.0, 1.0)), 12)
    0.5
    """
    low, high = as_bounds(lower, upper)
    x, v = np.broadcast_arrays(np.asarray(target, dtype=np.float64), np.asarray(noise_variance, dtype=np.float64))
    return _moment_of_clipped(x, v, x, low, high, 2)


def ranked_record_mse(
    records: ArrayLike,
    noise_variance: ArrayLike,
    rank: int,
    lower: float | None = 0.0,
    upper: float | None = None,
    target: float | None = None,
) -> Array:
    """E (Y_(r) - x_(r))^2 of a snooper who knows the target's rank and takes the released value of that rank.

    ``target`` is another confidential value for which Y_(r) is taken.

    The number of released values below b is a sum of n independent indicators, so the law of Y_(r) is a
    Poisson-binomial tail, and the error is an integral over b of tail probabilities on either side of x_(r).
    The work grows as n times the distance of the rank from the nearer end.

    >>> round(float(ranked_record_mse([0.0, 10.0], [1.0], rank=2)[0]), 9)  # far apart: the noise alone
    1.0
    """
    x = check_vector("records", records)
    rank = check_integer("rank", rank, low=1, high=len(x))
    order = np.argsort(x, kind="stable")
    low, high = as_bounds(lower, upper)
    check_inside(x, low, high)
    aim = float(x[order[rank - 1]]) if target is None else check_number("target", target)
    deviations = np.sqrt(_per_record(x, noise_variance)[:, order])
    return np.array([_one_position(x[order], sd, rank, aim, low, high) for sd in deviations])


def released_variance(
    records: ArrayLike, noise_variance: ArrayLike, lower: float | None = 0.0, upper: float | None = None
) -> Array:
    """Expected sample variance of the released records, E S_y^2."""
    x, mean, variance = _moments_of_released(records, noise_variance, lower, upper)
    n = len(x)
    return np.asarray(
        (variance.sum(axis=1) * (1 - 1 / n) + ((mean - mean.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)) / (n - 1)
    )


def scientist_mse(
    records: ArrayLike,
    noise_variance: ArrayLike,
    lower: float | None = 0.0,
    upper: float | None = None,
    replicates: int | None = None,
) -> Array:
    """Expectation of eq. 14, the mean squared error of the released mean for the population mean.

    The sampling part is E S_y^2 / n, the bias is that of the cut-off. With ``replicates`` M the mean of M
    simulated means stands for the expected one, as in the paper, which adds its variance over M.

    >>> round(float(scientist_mse([1.0, 2.0, 3.0], [0.0])[0]), 12)  # S^2 / n
    0.333333333333
    """
    x, mean, variance = _moments_of_released(records, noise_variance, lower, upper)
    n = len(x)
    error = released_variance(records, noise_variance, lower, upper) / n + (mean.mean(axis=1) - x.mean()) ** 2
    if replicates is not None:
        error = error + variance.sum(axis=1) / n**2 / check_integer("replicates", replicates, low=1)
    return np.asarray(error)


# -- helpers -------------------------------------------------------------------------------------------------


def _moments_of_released(
    records: ArrayLike, noise_variance: ArrayLike, lower: float | None, upper: float | None
) -> tuple[Array, Array, Array]:
    x = check_vector("records", records)
    if len(x) < 2:
        raise InputError("A sample variance needs at least two records", len(x), "Give the whole file")
    low, high = as_bounds(lower, upper)
    check_inside(x, low, high)
    mean, variance = clipped_moments(x, _per_record(x, noise_variance), lower, upper)
    return x, mean, variance


def _per_record(x: Array, noise_variance: ArrayLike) -> Array:
    v = check_finite("noise_variance", as_float_array("noise_variance", noise_variance))
    if np.any(v < 0):
        do = "Give variances, not standard deviations with signs"
        raise InputError("noise_variance must not be negative", float(v.min()), do)
    if v.ndim == 2 and v.shape[1] == len(x):
        return v
    if v.ndim <= 1:
        return np.broadcast_to(np.atleast_1d(v)[:, None], (v.size, len(x)))
    what = "noise_variance must be a number, a grid, or one row of n variances per grid point"
    raise InputError(
        what, f"shape {v.shape}", "Use noise_variances_by_threshold(...) for noise that differs between records"
    )


def as_bounds(lower: float | None, upper: float | None) -> tuple[float, float]:
    """Bounds as numbers, infinite where there is none."""
    low = -np.inf if lower is None else check_number("lower", lower)
    high = np.inf if upper is None else check_number("upper", upper)
    if not low < high:
        raise InputError("lower must be below upper", [low, high], "Swap the bounds, or leave one out")
    return low, high


def check_inside(x: Array, low: float, high: float) -> None:
    """Refuse records beyond the bounds of their releases."""
    outside = int(np.sum((x < low) | (x > high)))
    if outside:
        do = "A natural bound holds for the records too: check lower and upper, or use lower=None"
        raise InputError(f"The records must lie between the bounds {low:g} and {high:g}", f"{outside} outside", do)


def _moment_of_clipped(x: Array, v: Array, about: Array, low: float, high: float, power: int) -> Array:
    """E (clip(x + e) - about)^power for power 1 or 2."""
    sd = np.sqrt(v)
    safe = np.where(sd > 0, sd, 1.0)
    offset = x - about
    a, b = (low - x) / safe, (high - x) / safe
    inside = special.ndtr(b) - special.ndtr(a)
    if np.isfinite(low) and not np.isfinite(high):
        inside = special.ndtr(-a)
    pa, pb = (np.exp(-np.square(t) / 2) / np.sqrt(2 * np.pi) for t in (a, b))
    first = sd * (pa - pb)
    if power == 1:
        middle = offset * inside + first
    else:
        ta, tb = (np.where(np.isfinite(t), t, 0.0) * p for t, p in ((a, pa), (b, pb)))
        middle = offset**2 * inside + 2 * offset * first + v * (inside + ta - tb)
    ends = (special.ndtr(a) * (low - about) ** power if np.isfinite(low) else 0.0) + (
        special.ndtr(-b) * (high - about) ** power if np.isfinite(high) else 0.0
    )
    exact = np.clip(x, low, high) - about
    return np.asarray(np.where(sd > 0, middle + ends, exact**power))


def _one_position(x: Array, sd: Array, rank: int, target: float, low: float, high: float) -> float:
    # Integrals start at the record of this rank, near which Y_(r) lies; another target is a shift from there.
    centre = float(x[rank - 1])
    away = centre - target
    if not np.any(sd > 0):
        return away**2
    noisy = sd > 0
    safe = np.where(noisy, sd, 1.0)

    def chances(b: Array) -> tuple[Array, Array]:
        z = (b - x[:, None]) / safe[:, None]
        fixed = x[:, None] <= b
        return np.where(noisy[:, None], special.ndtr(z), fixed), np.where(noisy[:, None], special.ndtr(-z), ~fixed)

    def above(b: Array) -> Array:
        return order_statistic_sf(*chances(b), rank)

    def below(b: Array) -> Array:
        return order_statistic_cdf(*chances(b), rank)

    top = min(high, float((x + 9.5 * sd).max()))
    bottom = max(low, float((x - 9.5 * sd).min()))
    total = away**2
    for tail, end, sign in ((above, top, 1.0), (below, bottom, -1.0)):
        if (end - centre) * sign > 0:
            # Records without noise make the tail jump at their values; panels end there.
            stops = np.unique(x[~noisy])
            total += _tail_integral(tail, centre, end, stops, sign * away)
    return total


def _tail_integral(tail: Callable[[Array], Array], start: float, end: float, stops: Array, shift: float) -> float:
    """Integral of 2 (|b - start| + shift) tail(b) from start to end, the tail falling from start on."""
    # Find where the tail has died out, so that the nodes serve the part that counts. A record far off may make that
    # part a tiny one, so the search goes on until the tail fills a good share of what is left.
    for _ in range(12):
        grid = start + (end - start) * np.linspace(0, 1, 65)
        alive = np.flatnonzero(tail(grid) > 1e-17)
        if alive.size == 0:
            return 0.0
        end = float(grid[min(alive[-1] + 1, 64)])
        if alive[-1] >= 8:
            break
    # Ever shorter panels towards the start: a record with little noise makes the tail fall there in no time.
    near = start + (end - start) * 8.0 ** -np.arange(12.0)
    edges = np.unique(np.concatenate([[start], near, stops[(stops - start) * (end - stops) > 0]]))
    return float(adaptive(lambda b: 2 * (np.abs(b - start) + shift) * tail(b), edges, relative=1e-11).value)
