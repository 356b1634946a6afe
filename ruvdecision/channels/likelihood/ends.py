"""Intervals with ends that may be infinite."""

from __future__ import annotations

import numpy as np

from ...protocols import Array


def middle_of(low: Array, high: Array) -> Array:
    """The middle of intervals; of a half-line its end, of everything 0.

    >>> middle_of(np.array([0.0, 1.0, -np.inf]), np.array([4.0, np.inf, np.inf]))
    array([2., 1., 0.])
    """
    a, b = np.where(np.isfinite(low), low, high), np.where(np.isfinite(high), high, low)
    return np.where(
        np.isfinite(a) & np.isfinite(b),
        0.5 * np.where(np.isfinite(a), a, 0.0) + 0.5 * np.where(np.isfinite(b), b, 0.0),
        0.0,
    )
