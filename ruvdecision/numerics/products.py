"""Sums and sums of products over the rows of a tall matrix, as fast as the linear algebra library can."""

from __future__ import annotations

import numpy as np

from ..protocols import Array

ROWS = 16
"""Rows that `column_sums` takes as one: the library has less overhead for few wide rows than for many narrow ones."""


def column_sums(matrix: Array) -> Array:
    """Sums of the columns.

    >>> column_sums(np.arange(6.0).reshape(3, 2)).tolist()
    [6.0, 9.0]
    """
    n, p = matrix.shape
    if not matrix.flags.c_contiguous or n < 2 * ROWS:
        return np.ones(n) @ matrix
    whole = n - n % ROWS
    folded = matrix[:whole].reshape(-1, ROWS * p)
    return (np.ones(len(folded)) @ folded).reshape(ROWS, p).sum(axis=0) + matrix[whole:].sum(axis=0)


def column_products(matrix: Array) -> Array:
    """Sums of the products of all pairs of columns, the matrix's transpose times itself.

    >>> column_products(np.arange(6.0).reshape(3, 2)).tolist()
    [[20.0, 26.0], [26.0, 35.0]]
    """
    n, p = matrix.shape
    if p > 7 or p in (1, 4) or n < 2 * ROWS or not matrix.flags.c_contiguous:
        return matrix.T @ matrix
    # Two rows as one: the library multiplies in tiles of four columns, and such narrow tables leave them half empty.
    whole = n - n % 2
    folded = matrix[:whole].reshape(-1, 2 * p)
    both = folded.T @ folded
    total = both[:p, :p] + both[p:, p:]
    return total if whole == n else total + matrix[whole:].T @ matrix[whole:]
