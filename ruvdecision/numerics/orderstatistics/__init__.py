"""Exact moments of order statistics: of normal samples, of noisy copies of them, and of any scipy law.

Rank r of n is the r-th smallest, so rank n is the maximum.
"""

from .paired import paired_gap, paired_product, same_record
from .single import (
    Moments,
    extreme_constants,
    group_variances,
    moments,
    normal_covariance,
    normal_moments,
    order_nodes,
    percentile_rank,
)

__all__ = [
    "Moments",
    "extreme_constants",
    "group_variances",
    "moments",
    "normal_covariance",
    "normal_moments",
    "order_nodes",
    "paired_gap",
    "paired_product",
    "percentile_rank",
    "same_record",
]
