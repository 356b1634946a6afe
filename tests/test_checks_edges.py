"""The validators with every kind of junk.

The right value or an `InputError`, and nothing that numpy would have made of it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from edges import attempt
from junk import JUNK

from ruvdecision import checks
from ruvdecision.errors import RuvError

CHECKS = {
    "number": lambda v: checks.check_number("v", v),
    "positive number": lambda v: checks.check_number("v", v, low=0, open_low=True, infinite=True),
    "integer": lambda v: checks.check_integer("v", v, low=0),
    "index": lambda v: checks.check_index("v", v, 3),
    "vector": lambda v: checks.check_vector("v", v),
    "covariance": lambda v: checks.check_covariance("v", v),
    "definite covariance": lambda v: checks.check_covariance("v", v, 2, definite=True),
    "probabilities": lambda v: checks.check_probabilities("v", v),
    "choice": lambda v: checks.check_choice("v", v, ["a", "b"]),
    "columns": lambda v: checks.check_columns("v", v, ["a", 1, ("b", 2)]),
    "floats": lambda v: checks.as_float_array("v", v),
    "seed": checks.as_seed_sequence,
    "generator": checks.as_generator,
}


@pytest.mark.parametrize("name", CHECKS)
def test_junk(name):
    for junk, thing in JUNK.items():
        found = attempt(CHECKS[name], thing(), kind="validators")
        if isinstance(found, RuvError):
            continue
        if name in ("number", "positive number"):
            assert type(found) is float and not np.isnan(found), junk
        elif name in ("integer", "index"):
            assert type(found) is int, junk
        elif name not in ("floats", "choice", "columns", "seed", "generator"):
            assert found.dtype == np.float64 and np.all(np.isfinite(found)), junk


def test_what_numpy_would_convert_is_refused():
    """Text, dates and complex numbers become floats in numpy's hands; True becomes the column 1."""
    for odd in (
        ["1", "2"],
        [b"1"],
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        [np.timedelta64(1, "D")],
        [1j],
        [1.0, "2"],
    ):
        with pytest.raises(RuvError, match="made of numbers"):
            checks.as_float_array("v", odd)
    for odd in (
        b"3",
        "3",
        True,
        np.array(True),
        np.complex64(1),
        np.ma.masked,
        [[1], [1, 2]],
        10**400,
        pd.Series([1.0]),
    ):
        with pytest.raises(RuvError):
            checks.check_number("v", odd)
    for odd in (np.timedelta64(3, "D"), np.ma.masked, np.array(True)):
        with pytest.raises(RuvError):
            checks.check_integer("v", odd)
    with pytest.raises(RuvError, match="not there"):
        checks.check_columns("v", True, ["a", 1])
    assert checks.check_columns("v", [1, "a"], ["a", "b", 1]) == [2, 0]


def test_masked_entries_are_missing_and_not_what_lies_under_the_mask():
    found = checks.as_float_array("v", np.ma.array([1, 2, 3], mask=[False, True, False]))
    np.testing.assert_array_equal(found, [1.0, np.nan, 3.0])
    with pytest.raises(RuvError, match="1 missing"):
        checks.check_vector("v", np.ma.array([1.0, 2.0], mask=[False, True]))


def test_covariances_of_any_scale():
    for scale in (1e-300, 1e-150, 1.0, 1e150, 1.6e308):
        np.testing.assert_array_equal(
            checks.check_covariance("v", scale * np.array([[1.0, 0.5], [0.5, 1.0]]), definite=True)[0, 1], scale / 2
        )
        with pytest.raises(RuvError, match="semidefinite"):
            checks.check_covariance("v", scale * np.array([[0.5, 1.0], [1.0, 0.5]]))
