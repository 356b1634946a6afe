"""Statistics whose intervals are compared."""

from __future__ import annotations

import numpy as np
import pytest
from measured import MANY, two_columns

from ruvdecision.errors import InputError
from ruvdecision.measures import (
    IntervalOverlap,
    Means,
    Statistic,
)


def test_means_have_the_covariance_of_numpy() -> None:
    table = two_columns()
    assert Means().fit(table).scale == pytest.approx(np.cov(table.to_numpy(), rowvar=False) / MANY, rel=1e-12)


def test_statistic_of_varying_length_is_refused() -> None:
    with pytest.raises(InputError, match="as many numbers"):
        IntervalOverlap(Statistic(lambda x: np.unique(x), columns=["x"]))(two_columns(), two_columns())
