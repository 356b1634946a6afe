"""Column sums and products of tall matrices against exact integer arithmetic, for widths and lengths that do not fold."""

import numpy as np
import pytest

from ruvdecision.numerics.products import column_products, column_sums


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n", [1, 31, 32, 33, 47, 1000, 1001])
@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 6, 7, 8, 13])
def test_sums_and_products_are_those_of_whole_numbers(n, p, order):
    whole = np.random.default_rng(n + p).integers(-999, 999, (n, p))
    matrix = np.asarray(whole, dtype=np.float64, order=order)
    assert np.array_equal(column_sums(matrix), whole.sum(axis=0))
    assert np.array_equal(column_products(matrix), whole.T @ whole)


def test_every_second_row_of_a_matrix():
    whole = np.arange(600.0).reshape(100, 6)
    assert np.array_equal(column_products(whole[::2]), whole[::2].T @ whole[::2])
    assert np.array_equal(column_sums(whole[::2]), whole[::2].sum(axis=0))
