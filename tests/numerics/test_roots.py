"""Roots and least values of many functions at once."""

import numpy as np
import pytest

from ruvdecision.numerics.roots import border, brent_root, least_near, monotone_root


def test_roots_of_many_functions_at_once():
    target = np.array([-3.0, 0.0, 1e-9, 2.0, 1e6])
    root = monotone_root(lambda x: np.arctan(x - target), np.full(5, -1e8), np.full(5, 1e8))
    np.testing.assert_allclose(root, target, rtol=1e-12, atol=1e-7)
    jump = monotone_root(lambda x: np.where(x >= 0.25, 1.0, -1.0), np.array([-1.0]), np.array([1.0]))
    assert jump[0] == pytest.approx(0.25, abs=1e-15) and jump[0] >= 0.25


def test_the_root_of_one_function_that_is_not_monotone():
    assert brent_root(lambda x: (x - 0.3) * (x**2 + 1e-3), -5.0, 7.0) == pytest.approx(0.3, rel=1e-15)
    # A root far closer to zero than the ends are.
    assert brent_root(lambda x: x - 1e-200, -1.0, 1.0) == pytest.approx(1e-200, rel=1e-14)


@pytest.mark.parametrize(("parts", "rounds"), [(2, 52), (16, 13), (32, 11)])
def test_the_border_of_what_holds(parts, rounds):
    ends = np.array([0.3, -2.0, 1e-9, 4.0])
    good, bad = np.array([-1.0, 5.0, -1.0, 3.9]), np.array([1.0, -5.0, 1.0, 4.1])
    sign = np.sign(bad - good)
    found = border(lambda x: sign * x < sign * ends, good, bad, parts=parts, rounds=rounds)
    np.testing.assert_allclose(found, ends, atol=1e-14)
    assert np.all(sign * found >= sign * ends)


def test_the_deeper_of_two_valleys_is_found_between_repeated_candidates():
    def g(x):
        return np.minimum((x - 1.3) ** 2 + 0.1, (x + 2.2) ** 2)

    grid = np.array([-4.0, -2.0, -2.0, -2.0, 0.0, 1.3, 4.0])[:, None]
    best, least = least_near(g, grid, g(grid))
    assert best[0] == pytest.approx(-2.2, abs=1e-7) and least[0] == pytest.approx(0, abs=1e-14)
