"""Adaptive integration of a vectorised function over an interval, with its error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..protocols import Array

__all__ = ["integrate"]

# Kronrod's extension of the seven-point Gauss rule on (-1, 1): nodes from the middle outwards.
_NODES = np.array(
    [
        0.0,
        0.2077849550078984676,
        0.4058451513773971669,
        0.5860872354676911303,
        0.7415311855993944399,
        0.8648644233597690728,
        0.9491079123427585245,
        0.9914553711208126392,
    ]
)
_KRONROD = np.array(
    [
        0.2094821410847278280,
        0.2044329400752988924,
        0.1903505780647854099,
        0.1690047266392679028,
        0.1406532597159258951,
        0.1047900103222501838,
        0.0630920926299785533,
        0.0229353220105292250,
    ]
)
_GAUSS = np.array(
    [0.4179591836734693878, 0.0, 0.3818300505051189449, 0.0, 0.2797053914892766679, 0.0, 0.1294849661688696933, 0.0]
)


def integrate(f: Callable[[Array], Array], breaks: Array, tolerance: float, deepest: int = 60) -> tuple[float, float]:
    """Integral of ``f`` over the panels between ``breaks``, halved where needed, and a bound of its error.

    ``f`` takes and gives a flat array. All panels of one depth are evaluated in one call.
    """
    x = np.concatenate([-_NODES[:0:-1], _NODES])
    kronrod = np.concatenate([_KRONROD[:0:-1], _KRONROD])
    gauss = np.concatenate([_GAUSS[:0:-1], _GAUSS])
    left, right = breaks[:-1], breaks[1:]
    span = float(breaks[-1] - breaks[0])
    total, error = 0.0, 0.0
    for depth in range(deepest):
        half, middle = (right - left) / 2, (right + left) / 2
        values = f((middle[:, None] + half[:, None] * x).reshape(-1)).reshape(len(left), -1)
        fine, coarse = half * (values @ kronrod), half * (values @ gauss)
        gap = np.abs(fine - coarse)
        # A kink keeps the two rules apart, but only in its own ever shorter panel.
        good = (
            (gap <= tolerance * np.maximum(2 * half / span, 1e-3))
            | (gap <= 1e-15 * np.abs(fine))
            | (depth == deepest - 1)
        )
        total += float(fine[good].sum())
        error += float(gap[good].sum())
        left, right, middle = left[~good], right[~good], middle[~good]
        if len(left) == 0:
            break
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
    return total, error
