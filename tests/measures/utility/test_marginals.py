"""Margins and associations of constant columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from measured import AWKWARD, MANY, two_columns

from ruvdecision.measures import (
    Marginals,
    Pairwise,
)


@pytest.mark.parametrize("value", AWKWARD)
def test_association_of_a_constant_number_with_a_category_is_zero(value: float) -> None:
    table = pd.DataFrame(
        {"c": np.full(MANY, value), "d": np.full(MANY, value / 3), "k": ["a", "b"] * (MANY // 2) + ["a"]}
    )
    seen = Pairwise()(table, table.assign(c=np.arange(MANY), d=np.arange(MANY))).table
    assert seen is not None
    assert seen["original"].tolist() == pytest.approx([0.0, 0.0, 0.0], abs=1e-15)


@pytest.mark.parametrize("value", AWKWARD)
def test_shift_of_a_constant_margin_is_infinite(value: float) -> None:
    original = two_columns().assign(c=value)
    seen = Marginals()(original, original.assign(c=2 * value)).table
    assert seen is not None
    assert seen.loc["c", "sd"] == 0.0 and seen.loc["c", "shift"] == np.inf


def test_the_correlation_distance_is_that_of_whole_matrices():
    """The root of the sum of squares over all entries, each pair twice, as Frobenius' norm has it."""
    rng = np.random.default_rng(3)
    original = pd.DataFrame(rng.standard_normal((60, 3)), columns=list("abc"))
    released = original + rng.standard_normal((60, 3))
    distance = np.linalg.norm(original.corr() - released.corr())
    assert Pairwise()(original, released).parts["correlation distance"] == pytest.approx(distance, rel=1e-12)
