"""What the snooper's mean squared error really is for n normal records with normal noise.

Same snoopers as in `formulas`, finite n, no approximation. Sources: Duncan et al. (2001), section IV, corrected: the
target of a sample is part of the released mean, and x_(r) and Y_(r) come from the same records.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ..numerics.orderstatistics import normal_moments, paired_gap
from ..protocols import Array


def sample_average_target_mse(n: int, variance: float, noise_variance: ArrayLike) -> Array:
    """The released mean for a record of the sample, averaged over records: ((n - 1) s2 + l2) / n."""
    return np.asarray(((n - 1) * variance + np.asarray(noise_variance)) / n)


def sample_given_target_mse(n: int, variance: float, noise_variance: ArrayLike, distance: float) -> Array:
    """The released mean for a record of the sample that lies ``distance`` = tau - mu from the population mean."""
    return np.asarray((1 - 1 / n) ** 2 * distance**2 + (n - 1) * variance / n**2 + np.asarray(noise_variance) / n)


def sample_given_data_mse(records: ArrayLike, noise_variance: ArrayLike) -> Array:
    """The released mean for a record of the sample, averaged over the records at hand.

    >>> round(float(1 / sample_given_data_mse([1, 2, 3, 4, 10], 2.0)), 10)
    0.0961538462
    """
    x = np.asarray(records, dtype=np.float64)
    return np.asarray((np.sum((x - x.mean()) ** 2) + np.asarray(noise_variance)) / len(x))


def population_percentile_mse(n: int, variance: float, noise_variance: ArrayLike, p: float, rank: int) -> Array:
    """The released order statistic of the given rank for the population percentile p; what eq. 8 approximates.

    >>> round(float(1 / population_percentile_mse(200, 1.0, 0.0, 0.99, 198)), 6)
    15.165699
    """
    mean, rank_variance = normal_moments(n, rank)
    released = variance + np.asarray(noise_variance, dtype=np.float64)
    return np.asarray(
        rank_variance * released + (mean * np.sqrt(released) - float(special.ndtri(p)) * np.sqrt(variance)) ** 2
    )


def order_statistic_mse(n: int, variance: float, noise_variance: ArrayLike, rank: int) -> Array:
    """E (x_(r) - Y_(r))^2, from the joint law of both order statistics; what eqs. 6 and 10 approximate.

    With sd s and t before and after masking and correlation cos(a) = s/t it is (t - s)^2 E Z_(r)^2 + s t times
    the gap between two correlated normal samples, a sum of positive terms for every noise variance.

    >>> round(float(1 / order_statistic_mse(200, 1.0, 0.21, 200)), 9)
    4.964624211
    """
    noise_variance = np.asarray(noise_variance, dtype=np.float64)
    mean, rank_variance = normal_moments(n, rank)
    before, after = np.sqrt(variance), np.sqrt(variance + noise_variance)
    drift = noise_variance / (before + after)
    gap = paired_gap(n, rank, np.arctan(np.sqrt(noise_variance / variance)))
    return np.asarray((mean**2 + rank_variance) * drift**2 + before * after * gap)


def best_linear_mse(n: int, variance: float, noise_variance: ArrayLike, rank: int) -> Array:
    """Least mean squared error for x_(r) among linear functions a + b Y_(r), for a snooper who knows the model.

    Between the plug-in rule and the Bayes rule, which uses the other released records too.

    >>> round(float(best_linear_mse(200, 1.0, 0.21, 200)), 10)
    0.0932034186
    """
    noise_variance = np.asarray(noise_variance, dtype=np.float64)
    rank_variance = normal_moments(n, rank).variance
    # 1 - (correlation of the two order statistics), without a difference of near numbers
    lack = paired_gap(n, rank, np.arctan(np.sqrt(noise_variance / variance))) / (2 * rank_variance)
    return np.asarray(variance * rank_variance * lack * (2 - lack))
