"""The validators against a zoo of wrong things: a right answer or an `InputError`, never a traceback from a library."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from edges import attempt

from ruvdecision import checks
from ruvdecision.errors import InputError

#: Things that a user may hand over where a number, a list, a name or a seed is wanted. Tests of arguments use it too.
ZOO: dict[str, Any] = {
    "truth": True,
    "numpy truth": np.True_,
    "text that spells a number": "5",
    "bytes that spell a number": b"5",
    "text": "abc",
    "empty text": "",
    "nothing": None,
    "NaN": np.nan,
    "infinity": np.inf,
    "minus infinity": -np.inf,
    "minus one": -1,
    "huge integer": 10**400,
    "huge negative integer": -(10**400),
    "complex": 1j,
    "numpy complex": np.complex128(1),
    "span of time": np.timedelta64(5, "s"),
    "date": np.datetime64("2020"),
    "NA": pd.NA,
    "NaT": pd.NaT,
    "pandas span of time": pd.Timedelta("1s"),
    "empty list": [],
    "ragged list": [[1], [1, 2]],
    "list of text": ["a", "b"],
    "list of spelled numbers": ["1", "2"],
    "list of truths": [True, False],
    "list with nothing": [None, 1],
    "list of complex": [1j],
    "list of NaN": [np.nan, np.nan],
    "nested list": [[[1.0]]],
    "dictionary": {1: 2},
    "empty dictionary": {},
    "set": {1, 2},
    "text without dimensions": np.array("5"),
    "truth without dimensions": np.array(True),
    "nothing without dimensions": np.array(None),
    "empty array": np.empty(0),
    "empty matrix": np.empty((0, 0)),
    "array of text": np.array(["a", "b"]),
    "masked": np.ma.masked,
    "masked array": np.ma.masked_array([1.0, 2.0], [False, True]),
    "nullable series": pd.Series([1, pd.NA], dtype="Int64"),
    "table": pd.DataFrame({"a": [1.0, 2.0]}),
    "object": object(),
    "function": lambda x: x,
    "type": float,
    "ellipsis": ...,
    "slice": slice(1),
}
CALLS: dict[str, Callable[[Any], Any]] = {
    "number": lambda v: checks.check_number("x", v, low=0),
    "integer": lambda v: checks.check_integer("x", v, low=0),
    "index": lambda v: checks.check_index("x", v, 3),
    "vector": lambda v: checks.check_vector("x", v, 2),
    "covariance": lambda v: checks.check_covariance("x", v),
    "probabilities": lambda v: checks.check_probabilities("x", v),
    "choice": lambda v: checks.check_choice("x", v, ("p", "q")),
    "columns": lambda v: checks.check_columns("x", v, ["p", pd.NA, "q"]),
    "columns in a list": lambda v: checks.check_columns("x", [v], ["p", 7]),
    "generator": lambda v: checks.as_generator(v),
}
#: What a validator may take of the zoo; everything else it must refuse.
TAKES = {
    "index": {"minus one"},
    "vector": {"list of truths"},
    "probabilities": {"list of truths", "nested list"},
    "covariance": {"empty matrix"},
    "columns": {"NA", "empty list", "empty dictionary", "empty array", "empty matrix", "dictionary", "minus one"},
    "columns in a list": {"minus one"},
    "generator": {"nothing", "huge integer"},
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("thing", ZOO)
def test_a_validator_takes_what_is_right_and_refuses_the_rest(call: str, thing: str) -> None:
    result = attempt(CALLS[call], ZOO[thing], kind="arguments")
    assert isinstance(result, InputError) is (thing not in TAKES.get(call, set()))


@pytest.mark.parametrize("thing", ZOO)
def test_an_array_of_numbers_is_finite_or_missing_or_refused(thing: str) -> None:
    result = attempt(lambda v: checks.as_float_array("x", v), ZOO[thing], kind="arguments")
    if not isinstance(result, InputError):
        assert type(result) is np.ndarray and result.dtype == np.float64


@pytest.mark.parametrize(
    "value", [2, 2.0, np.float32(2), np.int8(2), np.array(2), np.array(2.0), decimal.Decimal(2), np.longdouble(2)]
)
def test_numbers_of_every_type_are_numbers(value: Any) -> None:
    assert checks.check_number("x", value) == 2.0 and checks.as_float_array("x", value) == 2.0
    if not isinstance(value, decimal.Decimal):
        assert checks.check_integer("x", value) == 2


def test_missing_values_of_every_kind_are_nan() -> None:
    want = [1.0, np.nan]
    for value in (
        np.ma.masked_array([1.0, 2.0], [False, True]),
        np.ma.masked_array([1, 2], [False, True]),
        pd.Series([1, pd.NA], dtype="Int64"),
        pd.array([True, None], dtype="boolean"),
        [1, None],
        pd.DataFrame({"a": [1.0, pd.NA]}, dtype="Float64")["a"],
    ):
        np.testing.assert_array_equal(checks.as_float_array("x", value), want)


def test_columns_by_name_by_position_and_by_odd_names() -> None:
    assert checks.check_columns("x", ["b", 0], ["a", "b"]) == [1, 0]
    assert checks.check_columns("x", np.array([1, -1]), ["a", "b", "c"]) == [1, 2]
    assert checks.check_columns("x", 1, ["a", 1, 0]) == [1]  # a name goes before a position
    assert checks.check_columns("x", [("a", 1)], [("a", 0), ("a", 1)]) == [1]
    assert checks.check_columns("x", [np.nan], ["a", np.nan]) == [1]
    assert checks.check_columns("x", [True], [False, True]) == [1]
    for wrong in ({"a"}, ["a", "a"], ["a", 0], [True], [2], [["a"]], ["A"]):
        with pytest.raises(InputError):
            checks.check_columns("x", wrong, ["a", "b"])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: checks.check_one_of("Mask", {"size": 1, "share": 0.5}, "Give one"), "one of size and share; got ."),
        (lambda: checks.check_one_of("Mask", {"size": None, "share": None}, "Give one"), "got none of them"),
        (lambda: checks.check_kind("x", 1, (str, dict), "Give it"), "x must be a str or a dict; got an int"),
        (lambda: checks.check_mapping("x", [1], "Give it"), "x must be a mapping"),
        (lambda: checks.check_filled("x", iter(()), "Name one"), "x must not be empty"),
        (lambda: checks.check_distinct("x", ["a", "a"], "Name each once"), "different from each other"),
        (lambda: checks.check_distinct("x", [[1], [2]], "Name each once"), "different from each other"),
        (lambda: checks.check_distinct_positions("rows", [0, -3], 3), "different from each other; got 2 rows"),
        (lambda: checks.check_square("x", [[1.0, 2.0]], "Give rows"), "square matrix"),
        (lambda: checks.check_square("x", np.eye(2), "Give rows", 3), "3 by 3"),
        (lambda: checks.check_per("x", [1.0, 2.0], 3), "3 entries, one per column; got 2"),
        (lambda: checks.check_shape("x", np.zeros(2), (3,), "Give three"), r"shape \(3,\)"),
    ],
)
def test_each_family_of_arguments_has_one_sentence(call: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()


def test_what_is_right_goes_through_each_family() -> None:
    assert checks.check_one_of("Mask", {"size": None, "share": 0.5}, "") == "share"
    assert checks.check_kind("x", True, (int, str), "") is True
    assert checks.check_distinct("x", "abc", "") == ("a", "b", "c")
    assert checks.check_distinct_positions("rows", [2, -3], 3).tolist() == [2, 0]
    assert checks.check_per("x", 2.0, 3).tolist() == [2.0, 2.0, 2.0]
    assert checks.is_number(np.float32(1)) and checks.is_number(True) and not checks.is_number(1j)
