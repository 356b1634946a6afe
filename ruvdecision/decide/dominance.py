"""Which points no other one dominates, in any number of criteria.

Values are turned into ranks first, so that ties are exact, and points that tie in everything are one point. Two
criteria need one sort and one pass, three a sweep with a staircase, more are divided: a half cannot be dominated by
what comes after it, and what comes before it is compared in one criterion less (Kung, Luccio and Preparata 1975).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import as_float_array, check_choice, check_number
from ..errors import InputError
from ..protocols import Array

BETTER = ("lower", "higher")
PAIRS = 1 << 16
"""So many comparisons are made at once rather than divided further."""

Marks = NDArray[np.bool_]
Ranks = NDArray[np.integer[Any]]


def not_dominated(risk: ArrayLike, utility: ArrayLike, tolerance: float = 1e-12) -> Marks:
    """Return True for every point that no other one dominates; low risk and high utility are good.

    One sort and one pass: O(n log n).

    >>> not_dominated([1, 2, 2], [1, 3, 2]).tolist()
    [True, True, False]
    """
    r, u = as_float_array("risk", risk), as_float_array("utility", utility)
    if r.ndim != 1 or r.shape != u.shape:
        got, do = f"shapes {r.shape} and {u.shape}", "Give flat arrays of the same length"
        raise InputError("risk and utility must have one entry per release", got, do)
    return undominated([r, u], ["lower", "higher"], tolerance)


def undominated(values: Sequence[ArrayLike], better: Sequence[str], tolerance: float = 1e-12) -> Marks:
    """Return True for every point that no other one dominates, in any number of criteria.

    Point i is dominated if some point is at least as good in every criterion and better in one (Karr et al. 2006, eq.
    11). Points that tie in all of them stay together. Points with a NaN are never kept and dominate nobody.

    Parameters
    ----------
    values : sequence of arrays
        One array per criterion, each with one entry per point.
    better : sequence of "lower" or "higher"
        Which values of each criterion are better.
    tolerance : float, default 1e-12
        Values whose relative difference is at most this are ties.

    Examples
    --------
    >>> undominated([[0.1, 0.2, 0.2], [0.9, 0.8, 0.95], [3.0, 1.0, 4.0]], ["lower", "higher", "lower"]).tolist()
    [True, True, True]
    """
    criteria = [as_float_array(f"criterion {j + 1}", v) for j, v in enumerate(values)]
    if not criteria or len(criteria) != len(better):
        got, do = f"{len(criteria)} criteria and {len(better)} ends", 'Write "lower" or "higher" for each'
        raise InputError("Every criterion needs its better end", got, do)
    if any(v.ndim != 1 or v.shape != criteria[0].shape for v in criteria):
        got, do = f"shapes {[v.shape for v in criteria]}", "Give flat arrays of the same length"
        raise InputError("Criteria must have one entry per point", got, do)
    tolerance = check_number("tolerance", tolerance, low=0, high=1, open_high=True)
    keep = np.zeros(criteria[0].shape, dtype=bool)
    known = np.flatnonzero(~np.any([np.isnan(v) for v in criteria], axis=0))
    signs = [1 if check_choice("better", b, BETTER) == "lower" else -1 for b in better]
    if known.size:
        costs = [sign * ranks(v[known], tolerance) for v, sign in zip(criteria, signs, strict=True)]
        keep[known] = minimal(np.stack(costs, axis=1))
    return keep


def minimal(costs: Ranks) -> Marks:
    """Return True for every row that no other row dominates; small is good in every column and equal is a tie.

    >>> minimal(np.array([[0, 1], [1, 0], [1, 1], [0, 1]])).tolist()
    [True, True, False, True]
    """
    order = np.lexsort(costs.T[::-1])
    points = costs[order]
    first = np.r_[True, (points[1:] != points[:-1]).any(axis=1)]
    # Among distinct points in this order nobody is dominated by a later one, and "at least as good" is "better
    # somewhere".
    points = points[first]
    d = points.shape[1]
    if d == 1:
        good = np.arange(len(points)) == 0
    elif d == 2:
        good = np.r_[True, points[1:, 1] < np.minimum.accumulate(points[:, 1])[:-1]]
    elif d == 3:
        good = _sweep(points)
    else:
        good = np.zeros(len(points), dtype=bool)
        rest = _thinned(points)
        good[rest[_divided(points[rest].astype(np.int32))]] = True  # half the size, twice as fast
    keep = np.empty(len(costs), dtype=bool)
    keep[order] = good[np.cumsum(first) - 1]
    return keep


def ranks(values: Array, tolerance: float) -> Ranks:
    """Rank values, the lowest first; values closer than the tolerance to their neighbour share a rank."""
    order = np.argsort(values, kind="stable")
    v = values[order]
    with np.errstate(invalid="ignore"):
        gap = v[1:] - v[:-1]
        larger = (v[1:] != v[:-1]) & (np.isinf(gap) | (gap > tolerance * np.maximum(np.abs(v[1:]), np.abs(v[:-1]))))
    # An infinite neighbour makes the tolerance infinite; it is never a tie with a finite value.
    found = np.empty(len(v), dtype=np.int64)
    found[order] = np.concatenate([[0], np.cumsum(larger)])[: len(v)]
    return found


def snapped(values: Array, tolerance: float) -> Array:
    """The values with each tie replaced by its lowest member, so that a tie is an equality; NaN stays."""
    result = np.array(values, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(result))
    if known.size:
        place = ranks(result[known], tolerance)
        lowest = np.full(place.max() + 1, np.inf)
        np.minimum.at(lowest, place, result[known])
        result[known] = lowest[place]
    return result


# -- three criteria ------------------------------------------------------------------------------------


def _sweep(points: Ranks) -> Marks:
    """Walk along the first criterion with the staircase of the other two: along it y rises and z falls."""
    good = np.zeros(len(points), dtype=bool)
    ys: list[int] = []
    zs: list[int] = []
    for i, (y, z) in enumerate(zip(points[:, 1].tolist(), points[:, 2].tolist(), strict=True)):
        at = bisect_right(ys, y)
        if at and zs[at - 1] <= z:
            continue
        good[i] = True
        start = at - 1 if at and ys[at - 1] == y else at
        end = at
        while end < len(zs) and zs[end] >= z:
            end += 1
        ys[start:end], zs[start:end] = [y], [z]
    return good


# -- four criteria and more ----------------------------------------------------------------------------


def _thinned(points: Ranks) -> NDArray[np.int64]:
    """Positions that remain when a few good points have removed what they dominate.

    In most maps nearly everything is dominated by a handful; where it is not, this stops at once.
    """
    rest = np.arange(len(points))
    total = points.sum(axis=1)
    columns = np.ascontiguousarray(points.T)
    for _ in range(64):
        if rest.size < 256:
            break
        best = rest[np.argmin(total[rest])]
        beaten = np.ones(rest.size, dtype=bool)
        for column in columns:
            beaten &= column[rest] >= column[best]
        beaten[np.searchsorted(rest, best)] = False
        total[best] = np.iinfo(total.dtype).max  # it has had its turn
        rest = rest[~beaten]
        if np.count_nonzero(beaten) * 200 < rest.size:
            break
    return rest


def _divided(points: Ranks) -> NDArray[np.int64]:
    """Positions of the front of distinct points in lexicographic order."""
    if len(points) ** 2 <= PAIRS:
        beats = np.triu(np.ones((len(points), len(points)), dtype=bool), 1)
        for column in points.T:
            beats &= column[:, None] <= column[None, :]
        return np.flatnonzero(~beats.any(axis=0))
    half = len(points) // 2
    early = _divided(points[:half])
    late = half + _divided(points[half:])
    # The first criterion is settled by the order.
    return np.concatenate([early, late[~_covered(points[early, 1:], points[late, 1:])]])


def _covered(a: Ranks, b: Ranks) -> Marks:
    """True for each row of ``b`` that some row of ``a`` is nowhere above."""
    found = np.zeros(len(b), dtype=bool)
    if not len(a) or not len(b):
        return found
    rows = np.flatnonzero((b >= a.min(axis=0)).all(axis=1))
    if not rows.size:
        return found
    b = b[rows]
    a = a[(a <= b.max(axis=0)).all(axis=1)]
    if not len(a):
        return found
    k = a.shape[1]
    if k == 1:
        found[rows] = True  # the least of a is not above any that remains
    elif k == 2:
        order = np.argsort(a[:, 0], kind="stable")
        lowest = np.r_[np.inf, np.minimum.accumulate(a[order, 1])]  # nobody of a may come before
        found[rows] = lowest[np.searchsorted(a[order, 0], b[:, 0], side="right")] <= b[:, 1]
    elif len(a) * len(b) <= PAIRS:
        below = np.ones((len(a), len(b)), dtype=bool)
        for x, y in zip(a.T, b.T, strict=True):
            below &= x[:, None] <= y[None, :]
        found[rows] = below.any(axis=0)
    else:
        found[rows] = _split(a, b)
    return found


def _split(a: Ranks, b: Ranks) -> Marks:
    """Divide both at the median of the first column; across the divide that column is settled."""
    both = np.concatenate([a[:, 0], b[:, 0]])
    low, high = both.min(), both.max()
    if low == high:
        return _covered(a[:, 1:], b[:, 1:])
    pivot = np.partition(both, both.size // 2)[both.size // 2]
    if pivot == high:  # both sides must have somebody
        pivot = both[both < high].max()
    below, lower = a[:, 0] <= pivot, b[:, 0] <= pivot
    found = np.zeros(len(b), dtype=bool)
    found[lower] = _covered(a[below], b[lower])
    upper = np.flatnonzero(~lower)
    found[upper] = _covered(a[below, 1:], b[upper, 1:])
    upper = upper[~found[upper]]
    found[upper] = _covered(a[~below], b[upper])
    return found
