"""Data at the edge, the one rule for what may come of them, and a count of the cases tried.

The rule: a right answer, or a `RuvError` that says what, got and do. Never a bare traceback from a library, a silent
NaN, a changed input or a warning left over.
"""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from ruvdecision.errors import RuvError

#: How many cases of each kind this process has tried; `conftest.py` adds up the processes and prints the total.
CASES: Counter[str] = Counter()


def tried(kind: str, count: int = 1) -> None:
    """Count cases, under a word that the summary prints."""
    CASES[kind] += count


def numbers(rows: int = 12, columns: int = 3, seed: int = 0) -> np.ndarray[Any, Any]:
    """Correlated numbers without ties."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, columns)) @ (np.eye(columns) + 0.3) + 2.0


def frame(rows: int = 12, columns: int = 3, seed: int = 0) -> pd.DataFrame:
    """The same numbers with names: a, b, c and so on."""
    return pd.DataFrame(
        numbers(rows, columns, seed),
        columns=[chr(97 + i % 26) + (str(i // 26) if i >= 26 else "") for i in range(columns)],
    )


def with_cell(value: object) -> pd.DataFrame:
    """A frame with one odd entry."""
    odd = frame()
    odd.iloc[3, 1] = value
    return odd


def read_only(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array, closed to writing."""
    values.setflags(write=False)
    return values


def categories() -> pd.DataFrame:
    """Categories, text, booleans, dates and numbers side by side."""
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "g": pd.Categorical(rng.choice(list("xyz"), 12), categories=list("wxyz")),
            "o": pd.Categorical(rng.choice(["low", "high"], 12), categories=["low", "high"], ordered=True),
            "s": rng.choice(["north", "south"], 12),
            "t": pd.array(rng.choice(["red", "blue"], 12), dtype="string"),
            "f": rng.random(12) < 0.5,
            "d": pd.date_range("2020-01-01", periods=12),
            "n": rng.standard_normal(12),
        }
    )


#: Every edge by name, as a function that makes it anew. Numeric ones first; the last group is about labels and types.
EDGES: dict[str, Callable[[], Any]] = {
    "plain frame": frame,
    "plain array": numbers,
    "one row": lambda: frame(rows=1),
    "one column": lambda: frame(columns=1),
    "one row, one column": lambda: frame(1, 1),
    "two rows": lambda: frame(rows=2),
    "one-dimensional array": lambda: numbers()[:, 0].copy(),
    "constant column": lambda: frame().assign(b=1.5),
    "all columns constant": lambda: frame() * 0 + 7.0,
    "duplicate rows": lambda: pd.concat([frame(rows=6)] * 2, ignore_index=True),
    "ties": lambda: frame().round(0),
    "one NaN": lambda: with_cell(np.nan),
    "a column of NaN": lambda: frame().assign(b=np.nan),
    "plus infinity": lambda: with_cell(np.inf),
    "minus infinity": lambda: with_cell(-np.inf),
    "huge scale": lambda: frame() * 1e150,
    "tiny scale": lambda: frame() * 1e-150,
    "mixed scales": lambda: frame() * np.array([1e-150, 1.0, 1e150]),
    "far from zero": lambda: frame() + 1e9,
    "collinear columns": lambda: frame().assign(c=lambda f: f["a"] - 2 * f["b"]),
    "wide data": lambda: frame(rows=5, columns=30),
    "integers": lambda: (frame() * 10).round().astype("int64"),
    "small integers": lambda: (frame() * 10).round().astype("int8"),
    "unsigned integers": lambda: (frame().abs() * 10).round().astype("uint8"),
    "float32": lambda: frame().astype("float32"),
    "float16": lambda: frame().astype("float16"),
    "long double": lambda: frame().astype(np.longdouble),
    "complex": lambda: frame().astype("complex128"),
    "nullable integers": lambda: (frame() * 10).round().astype("Int64"),
    "nullable floats with NA": lambda: frame().astype("Float64").mask(frame() > 3.5),
    "nullable integers with NA": lambda: (frame() * 10).round().astype("Int64").mask(frame() > 3.5),
    "booleans": lambda: frame() > 2,
    "nullable booleans": lambda: (frame() > 2).astype("boolean"),
    "numbers as objects": lambda: frame().astype(object),
    "objects with None": lambda: frame().astype(object).mask(frame() > 3.5, None),
    "numbers as text": lambda: frame().round(3).astype(str),
    "categorical numbers": lambda: frame().round(0).astype("category"),
    "categories, text and dates": categories,
    "one category": lambda: pd.DataFrame({"g": pd.Categorical(["x"] * 12), "s": ["north"] * 12}),
    "category with missing": lambda: pd.DataFrame(
        {"g": pd.Categorical(["x", None, "y"] * 4), "s": ["north", None, "south"] * 4}
    ),
    "dates": lambda: pd.DataFrame(
        {"a": pd.date_range("2020-01-01", periods=12), "b": pd.date_range("2021-01-01", periods=12, tz="UTC")}
    ),
    "durations": lambda: pd.DataFrame(
        {"a": pd.to_timedelta(np.arange(12), unit="h"), "b": pd.to_timedelta(np.arange(12), unit="D")}
    ),
    "periods and intervals": lambda: pd.DataFrame(
        {"a": pd.period_range("2020-01", periods=12, freq="M"), "b": pd.interval_range(0, 12, periods=12)}
    ),
    "duplicate column names": lambda: frame().set_axis(["a", "a", "b"], axis=1),
    "column names of several types": lambda: frame().set_axis(["a", 1, (2, "x")], axis=1),
    "columns in levels": lambda: frame().set_axis(
        pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["u", "v"]), axis=1
    ),
    "rows in levels": lambda: frame().set_axis(
        pd.MultiIndex.from_product([["p", "q"], range(6)], names=["u", "v"]), axis=0
    ),
    "repeated index": lambda: frame().set_axis([0, 0, 1, 1] * 3, axis=0),
    "index of dates": lambda: frame().set_axis(pd.date_range("2020-01-01", periods=12, freq="D"), axis=0),
    "index with missing": lambda: frame().set_axis([np.nan, *range(11)], axis=0),
    "empty frame": pd.DataFrame,
    "no rows": lambda: frame().iloc[:0],
    "no columns": lambda: frame()[[]],
    "empty array": lambda: np.empty((0, 3)),
    "array without columns": lambda: np.empty((3, 0)),
    "number": lambda: np.array(2.5),
    "three dimensions": lambda: np.zeros((3, 2, 2)),
    "read-only array": lambda: read_only(numbers()),
    "Fortran order": lambda: np.asfortranarray(numbers()),
    "strided array": lambda: np.repeat(numbers(), 2, axis=0)[::2],
    "backwards array": lambda: numbers()[::-1],
    "big-endian array": lambda: numbers().astype(">f8"),
    "integer array": lambda: (numbers() * 10).round().astype(int),
    "boolean array": lambda: numbers() > 2,
    "object array": lambda: numbers().astype(object),
    "text array": lambda: numbers().round(2).astype(str),
    "masked array": lambda: np.ma.masked_greater(numbers(), 3.5),
    "list of lists": lambda: numbers().tolist(),
    "series": lambda: frame()["a"],
    "dictionary": lambda: frame().to_dict("list"),
    "text": lambda: "not data",
    "nothing": lambda: None,
}


def attempt(call: Callable[..., Any], *inputs: Any, kind: str) -> Any | RuvError:
    """What comes of ``call(*inputs)``: its result, or the `RuvError` that it raised; all else fails the test.

    Inputs must come out as they went in, warnings are failures, and an error must say what, and what to do.
    """
    tried(kind)
    before = tuple(_copied(each) for each in inputs)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = call(*inputs)
    except RuvError as error:
        result = error
    if isinstance(result, RuvError):
        assert result.what and result.do, f"the error does not say what, or what to do: {result}"
    for now, then in zip(inputs, before, strict=True):
        assert same(now, then), "an input was changed"
    return result


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except TypeError:  # generators and modules have no copies, and nothing in them that could be changed
        return value


def same(one: Any, other: Any) -> bool:
    """Whether two inputs are the same in type, labels and values, missing ones included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, pd.DataFrame | pd.Series):
        try:
            compare = pd.testing.assert_frame_equal if isinstance(one, pd.DataFrame) else pd.testing.assert_series_equal
            compare(one, other, check_exact=True)
        except AssertionError:
            return False
        return True
    if isinstance(one, np.ma.MaskedArray):
        return bool(np.array_equal(one.mask, other.mask)) and bool(np.array_equal(one.filled(0), other.filled(0)))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and _equal(one, other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    return True


def _equal(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    if one.dtype.kind in "fc":
        return bool(np.array_equal(one, other, equal_nan=True))
    return bool(np.array_equal(one, other))
