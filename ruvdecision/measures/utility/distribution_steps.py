"""The distribution functions of two samples of one variable: what lies between their steps."""

from __future__ import annotations

import numpy as np

from ...protocols import Array

__all__ = ["step_differences"]


def step_differences(first: Array, second: Array) -> tuple[Array, Array]:
    """All values of two samples, each in order already, in one order, and F - G behind each of them.

    Of equal values only the last has both functions' whole step behind it.

    >>> values, gap = step_differences(np.array([1.0, 3.0]), np.array([2.0, 4.0]))
    >>> values.tolist(), gap.tolist()
    ([1.0, 2.0, 3.0, 4.0], [0.5, 0.0, 0.5, 0.0])
    """
    both = np.concatenate([first, second])
    order = np.argsort(both, kind="stable")  # two runs that are in order are merged in one pass
    below = np.cumsum(order < len(first))
    return both[order], below / len(first) - (np.arange(1, len(both) + 1) - below) / len(second)
