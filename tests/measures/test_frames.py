"""Numbers of columns: equal ones, and huge ones that cancel."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from measured import AWKWARD, MANY, two_columns

from ruvdecision.errors import InputError
from ruvdecision.measures.frames import numeric, standard_deviations


@pytest.mark.parametrize("value", AWKWARD)
def test_spread_of_equal_numbers_is_zero(value: float) -> None:
    assert np.full(MANY, value).std(ddof=1) > 0
    assert standard_deviations(np.full((MANY, 1), value)).tolist() == [0.0]
    values = two_columns().to_numpy()
    assert standard_deviations(values) == pytest.approx(values.std(axis=0, ddof=1), rel=1e-15)


def test_huge_numbers_that_cancel_are_seen() -> None:
    table = pd.DataFrame({"a": [1e200, -1e200, 1.0]})
    with pytest.raises(InputError, match="beyond 1e140 in columns a"):
        numeric("A measure", table)
    with pytest.raises(InputError, match="infinite, missing or beyond"):
        numeric("A measure", pd.DataFrame({"a": [np.inf, -np.inf]}))
