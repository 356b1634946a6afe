"""Exact moments of order statistics: of normal samples, of noisy copies of them, and of any scipy law.

Rank r of n is the r-th smallest, so rank n is the maximum.
"""

from .paired import paired_gap as paired_gap, paired_product as paired_product, same_record as same_record
from .single import (
    Moments as Moments,
    extreme_constants as extreme_constants,
    group_variances as group_variances,
    moments as moments,
    normal_covariance as normal_covariance,
    normal_moments as normal_moments,
    order_nodes as order_nodes,
    percentile_rank as percentile_rank,
)
