"""MDAV: groups of similar records by maximum distance to the average vector."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import as_float_array, check_finite, check_integer
from ..errors import InputError

__all__ = ["mdav"]


def mdav(points: Any, size: int) -> NDArray[np.int64]:
    """Group the rows of ``points`` by MDAV with Euclidean distances; gives the group number of each row.

    While at least ``3 * size`` records are left: r is the record farthest from their mean and s the record farthest
    from r. The ``size`` records nearest to r (r among them) form a group; of what is then left, the ``size`` nearest to
    s form the next. With ``2 * size`` to ``3 * size - 1`` left, the nearest to the record farthest from the mean form a
    group and the rest the last one; fewer form one group. Groups have ``size`` to ``2 * size - 1`` records and are numbered
    in the order in which they are made. Domingo-Ferrer and Torra (2005); Karr et al. (2006): Micm.

    Ties: squared distances are compared after rounding to 33 binary digits (ten decimal ones), so that rounding errors do
    not decide; of records at the same distance the one with the smaller row number goes first, as nearest and as farthest.

    The search is exact: its time grows with the square of the number of records. It holds a few copies of the data and no matrix of
    distances.

    Parameters
    ----------
    points : array, one row per record
        Standardise the columns first if their units differ.
    size : int
        Least number of records in a group.

    Examples
    --------
    >>> mdav([[0.0], [0.1], [5.0], [5.1], [5.2]], size=2)
    array([0, 0, 1, 1, 1])
    """
    array = as_float_array("points", points)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError("points must have rows and columns", f"shape {array.shape}", "Give one row per record")
    check_finite("points", array)
    size = check_integer("size", size, low=1)
    if size > len(array):
        raise InputError(f"size={size} is more than the {len(array)} records", size, "Use smaller groups")
    # A common scale changes no comparison, and squares of it cannot overflow or vanish.
    largest = float(np.abs(array).max())
    if largest > 0 and not 1e-60 < largest < 1e60:
        array = array / largest
    from .kernels import compiled

    # A copy of its own: read-only arrays would be compiled for once more.
    return compiled("mdav_labels")(np.array(array, order="C"), size)  # type: ignore[no-any-return]
