"""Which points no other one dominates, in any number of criteria.

Values are turned into ranks first, so that ties are exact, and points that tie in everything are one point. Two
criteria need one sort and one pass; more are compared with the front found so far, the points with the least sum of
ranks first, so that time grows with points times the size of the front.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import as_float_array, check_choice, check_list, check_number
from ..errors import InputError
from ..protocols import Array

BETTER = ("lower", "higher")
BLOCK = 256
"""Points that are compared with all others at a time."""

Marks = NDArray[np.bool_]
Ranks = NDArray[np.integer]


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
    listed = check_list("values", values, "Give one array per criterion")
    better = check_list("better", better, 'Write "lower" or "higher" for each')
    criteria = [as_float_array(f"criterion {j + 1}", v) for j, v in enumerate(listed)]
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
        costs = [sign * ranks_with_ties(v[known], tolerance) for v, sign in zip(criteria, signs, strict=True)]
        keep[known] = minimal_rows(np.stack(costs, axis=1))
    return keep


def minimal_rows(costs: Ranks) -> Marks:
    """Return True for every row that no other row dominates; small is good in every column and equal is a tie.

    >>> minimal_rows(np.array([[0, 1], [1, 0], [1, 1], [0, 1]])).tolist()
    [True, True, False, True]
    """
    order = np.lexsort(costs.T[::-1])
    points = costs[order]
    first = np.r_[True, (points[1:] != points[:-1]).any(axis=1)]
    # Among distinct points "at least as good" is "better somewhere", and here nobody is dominated by a later one.
    points = points[first]
    if points.shape[1] == 2:
        good = np.r_[True, points[1:, 1] < np.minimum.accumulate(points[:, 1])[:-1]]
    else:
        good = _front_of_distinct(points)
    keep = np.empty(len(costs), dtype=bool)
    keep[order] = good[np.cumsum(first) - 1]
    return keep


def ranks_with_ties(values: Array, tolerance: float) -> Ranks:
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


def snap_ties(values: Array, tolerance: float) -> Array:
    """The values with each tie replaced by its lowest member, so that a tie is an equality; NaN stays."""
    result = np.array(values, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(result))
    if known.size:
        place = ranks_with_ties(result[known], tolerance)
        lowest = np.full(place.max() + 1, np.inf)
        np.minimum.at(lowest, place, result[known])
        result[known] = lowest[place]
    return result


def _front_of_distinct(points: Ranks) -> Marks:
    """The front of distinct points: whoever dominates has the smaller sum, so blocks in that order decide for good."""
    good = np.zeros(len(points), dtype=bool)
    rest = np.argsort(points.sum(axis=1), kind="stable")
    while rest.size:
        block, rest = rest[:BLOCK], rest[BLOCK:]
        best = block[~(_nowhere_above(points[block], points[block]).sum(axis=0) > 1)]  # each covers itself
        good[best] = True
        rest = rest[~_nowhere_above(points[best], points[rest]).any(axis=0)]
    return good


def _nowhere_above(a: Ranks, b: Ranks) -> Marks:
    """True where a row of ``a`` (down) is nowhere above a row of ``b`` (across)."""
    found = np.ones((len(a), len(b)), dtype=bool)
    for x, y in zip(a.T, b.T, strict=True):
        found &= x[:, None] <= y[None, :]
    return found
