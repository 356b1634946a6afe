"""Roots and least values of many functions at once."""

import numpy as np
import pytest

from ruvdecision.numerics.roots import least_near, monotone_root


def test_roots_of_many_functions_at_once():
    target = np.array([-3.0, 0.0, 1e-9, 2.0, 1e6])
    root = monotone_root(lambda x: np.arctan(x - target), np.full(5, -1e8), np.full(5, 1e8))
    np.testing.assert_allclose(root, target, rtol=1e-12, atol=1e-7)
    jump = monotone_root(lambda x: np.where(x >= 0.25, 1.0, -1.0), np.array([-1.0]), np.array([1.0]))
    assert jump[0] == pytest.approx(0.25, abs=1e-15) and jump[0] >= 0.25


def test_the_deeper_of_two_valleys_is_found_between_repeated_candidates():
    def g(x):
        return np.minimum((x - 1.3) ** 2 + 0.1, (x + 2.2) ** 2)

    grid = np.array([-4.0, -2.0, -2.0, -2.0, 0.0, 1.3, 4.0])[:, None]
    best, least = least_near(g, grid, g(grid))
    assert best[0] == pytest.approx(-2.2, abs=1e-7) and least[0] == pytest.approx(0, abs=1e-14)
