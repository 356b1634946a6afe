"""The closed forms that Duncan, Keller-McNulty and Stokes (2001) print, as the snooper's mean squared error.

Each function gives E (target - estimate)^2; the paper's risk is its reciprocal. ``noise_variance`` is lambda^2 and
may be an array. The percentile and extreme formulas are large-sample approximations; `exact` has what they approximate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ..numerics.orderstatistics import extreme_constants
from ..protocols import Array


def scientist_mean_mse(n: int, variance: float, noise_variance: ArrayLike) -> Array:
    """Mean squared error of the released mean for the population mean; its reciprocal is the paper's utility.

    Knowing lambda does not help a scientist who wants the mean: the released mean needs no correction.

    >>> round(float(1 / scientist_mean_mse(200, 1.0, 0.21)), 4)
    165.2893
    """
    return np.asarray((variance + np.asarray(noise_variance)) / n)


def scientist_variance_mse(
    n: int, fourth: ArrayLike, variance: float, noise_variance: ArrayLike
) -> tuple[Array, Array]:
    """Mean squared error of S_y^2, and of S_y^2 - lambda^2, for the population variance.

    ``fourth`` is the fourth central moment of a released record. The second is for a scientist who knows
    lambda: the same variance without the bias lambda^2.

    >>> plain, informed = scientist_variance_mse(200, 3 * 1.21**2, 1.0, 0.21)
    >>> round(float(plain - informed), 6)  # the bias squared
    0.0441
    """
    noise_variance = np.asarray(noise_variance, dtype=np.float64)
    informed = (np.asarray(fourth) - (n - 3) / (n - 1) * (variance + noise_variance) ** 2) / n
    return np.asarray(informed + noise_variance**2), np.asarray(informed)


def given_target_mse(n: int, variance: float, noise_variance: ArrayLike, distance: float) -> Array:
    """Eq. 1: the snooper takes the released mean for a target ``distance`` = tau - mu away from the population mean.

    Right for a target outside the sample.
    """
    return np.asarray(scientist_mean_mse(n, variance, noise_variance) + distance**2)


def average_target_mse(n: int, variance: float, noise_variance: ArrayLike) -> Array:
    """Eq. 2: as eq. 1 with (tau - mu)^2 averaged over the population.

    >>> round(float(1 / average_target_mse(200, 1.0, 0.0)), 4)
    0.995
    """
    return given_target_mse(n, variance, noise_variance, np.sqrt(variance))


def sample_average_target_mse(n: int, variance: float, noise_variance: ArrayLike, squares: float) -> Array:
    """Eq. 3: as eq. 1 averaged over the sample; ``squares`` is the sum of (mu - x_i)^2.

    The paper lets the released mean vary with the records while it holds the records fixed; see
    `exact.sample_given_data_mse` for the value given the records.
    """
    return np.asarray(scientist_mean_mse(n, variance, noise_variance) + squares / n)


def linked_record_mse(noise_variance: ArrayLike) -> Array:
    """Eq. 4: the snooper knows which released record is the target's and takes its value as it stands."""
    return np.asarray(noise_variance, dtype=np.float64)


def percentile_mse(
    n: int, variance: float, noise_variance: ArrayLike, p: float, distance: float | None = None
) -> Array:
    """Eq. 8: the released order statistic Y_(np) for the population percentile p, normal records and noise.

    With ``distance`` = tau - mu it is eq. 6 instead, for a target of that value: the p-th percentile of the sample.

    >>> round(float(1 / percentile_mse(200, 1.0, 0.21, 0.99)), 6)
    7.223444
    """
    z = float(special.ndtri(p))
    density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    released, sd = variance + np.asarray(noise_variance, dtype=np.float64), np.sqrt(variance)
    place = z * sd if distance is None else distance
    return np.asarray(p * (1 - p) / (n * density**2) * released + (z * np.sqrt(released) - place) ** 2)


def extreme_mse(
    n: int, variance: float, noise_variance: ArrayLike, position: int = 1, distance: float | None = None
) -> Array:
    """Eq. 10: the largest released value for the largest record, normal records and noise.

    With ``distance`` = x_(n) - mu it is eq. 9. ``position`` 2, 3, ... is the second, third, ... largest. The
    smallest are the same with the sign of ``distance`` changed.

    >>> round(float(1 / extreme_mse(200, 1.0, 0.21)), 6)
    3.765869
    """
    mean, rank_variance = extreme_constants(n, position)
    released, sd = variance + np.asarray(noise_variance, dtype=np.float64), np.sqrt(variance)
    place = mean * sd if distance is None else distance
    return np.asarray(rank_variance * released + (mean * np.sqrt(released) - place) ** 2)
