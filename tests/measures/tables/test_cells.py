"""Codes of records: quick ways of numbering them against the obvious ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ruvdecision.errors import InputError
from ruvdecision.measures.tables.cells import common_codes, joint_codes_of_parts, joint_codes_of_tables
from ruvdecision.measures.utility.cdf import Law, step_differences

VALUES = st.lists(st.sampled_from(["x", "y", "z", None]), min_size=1, max_size=12)


def same_classes(codes: np.ndarray, values: list[object]) -> bool:
    """Whether two records have one code where they have one value, and only there."""
    return all((codes[i] == codes[j]) == (values[i] == values[j]) for i in range(len(values)) for j in range(i))


@given(first=VALUES, second=VALUES, backwards=st.booleans())
def test_categories_are_coded_by_their_values(
    first: list[str | None], second: list[str | None], backwards: bool
) -> None:
    # The files list their categories in another order, and one that nobody has.
    one = pd.DataFrame({"a": pd.Categorical(first, ["x", "y", "z", "unused"])})
    two = pd.DataFrame({"a": pd.Categorical(second, ["z", "y", "x"] if backwards else ["y", "z", "x"])})
    codes, levels = common_codes(one, two)
    assert same_classes(np.concatenate(codes)[:, 0], first + second)
    assert levels == [len(set(first + second))]
    assert set(np.concatenate(codes)[:, 0]) == set(range(levels[0]))
    plain, as_many = common_codes(one.astype(object), two.astype(object))
    assert as_many == levels and same_classes(np.concatenate(plain)[:, 0], first + second)


def test_categories_of_another_type_are_refused_as_values_are() -> None:
    text, number = pd.DataFrame({"a": pd.Categorical(["1", "2"])}), pd.DataFrame({"a": pd.Categorical([1, 2])})
    with pytest.raises(InputError, match="one kind"):
        common_codes(text, number)


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 1)), min_size=1, max_size=30),
    cut=st.integers(0, 30),
)
def test_rows_are_numbered_in_the_order_of_their_columns(rows: list[tuple[int, int, int]], cut: int) -> None:
    # Few rows of many possible ones are sorted, many rows of few are counted: both give the place among the different
    # rows.
    array = np.array(rows, dtype=np.int64)
    place = {row: i for i, row in enumerate(sorted(set(rows)))}
    for block, distinct in ((array, len(place)), (np.repeat(array, 200, axis=0), len(place))):
        parts, size = joint_codes_of_parts([block[:cut], block[cut:]])
        expected = [place[tuple(row)] for row in block.tolist()]
        assert np.concatenate(parts).tolist() == expected and size == distinct


def test_joint_codes_of_no_rows() -> None:
    (codes,), size = joint_codes_of_tables(pd.DataFrame({"a": pd.Categorical([], ["x"])}))
    assert len(codes) == size == 0


@given(
    first=st.lists(st.integers(-3, 3), min_size=1, max_size=9),
    second=st.lists(st.integers(-3, 3), min_size=1, max_size=9),
)
def test_differences_between_steps(first: list[int], second: list[int]) -> None:
    a, b = np.sort(np.array(first, dtype=float)), np.sort(np.array(second, dtype=float))
    [(values, gap)] = step_differences(Law(a), Law(b))
    assert values.tolist() == sorted(first + second)
    for i, value in enumerate(values):
        if i + 1 == len(values) or values[i + 1] != value:
            assert gap[i] == pytest.approx(np.mean(a <= value) - np.mean(b <= value), abs=1e-15)
