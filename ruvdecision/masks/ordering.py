"""Sorting records so that ties keep the order of the file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def stable_order(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Return the stable sorting order of ``keys``, which must hold no NaN: ``np.argsort(keys, kind="stable")``.

    numpy's unstable sort is several times faster on most machines; here ties are put right after it.

    >>> stable_order(np.array([2.0, 1.0, 2.0, 1.0]))
    array([1, 3, 0, 2])
    """
    order = np.argsort(keys)
    ranked = keys[order]
    new = ranked[1:] != ranked[:-1]
    if new.all():
        return order
    n = len(order)
    run = np.concatenate([[0], np.cumsum(new)])
    return np.asarray(np.sort(run * n + order) - run * n)
