"""Ways to split a total."""

from math import comb

import pytest

from ruvdecision.numerics.counts import compositions


@pytest.mark.parametrize(("total", "parts"), [(0, 1), (0, 3), (4, 1), (5, 3), (2, 4), (3, 3), (9, 2)])
def test_compositions_are_all_and_once_and_fall(total, parts):
    listed = compositions(total, parts)
    assert listed.shape == (comb(total + parts - 1, parts - 1), parts)
    assert (listed.sum(axis=1) == total).all() and (listed >= 0).all()
    rows = [tuple(row) for row in listed.tolist()]
    assert rows == sorted(set(rows), reverse=True)
