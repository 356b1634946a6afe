"""Points of many intervals at once, whose ends may be infinite."""

from __future__ import annotations

import numpy as np

from ..protocols import Array


def midpoints(low: Array, high: Array) -> Array:
    """The middle of intervals; of a half-line its end, of everything 0.

    >>> midpoints(np.array([0.0, 1.0, -np.inf]), np.array([4.0, np.inf, np.inf]))
    array([2., 1., 0.])
    """
    a, b = np.where(np.isfinite(low), low, high), np.where(np.isfinite(high), high, low)
    whole = np.isfinite(a) & np.isfinite(b)
    return 0.5 * np.where(whole, a, 0.0) + 0.5 * np.where(whole, b, 0.0)


def evenly_spaced_points(low: Array, high: Array, count: int) -> Array:
    """Evenly spaced places from low to high, shape (n, count); missing where an end is infinite."""
    with np.errstate(invalid="ignore"):
        even = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, count)
    return np.where(np.isfinite(even), even, np.nan)
