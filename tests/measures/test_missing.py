"""The six choices for missing values: what each does to a pair of files, and who takes which."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from ruvdecision import measures
from ruvdecision.errors import InputError
from ruvdecision.masks.localsuppress import key_matches
from ruvdecision.measures import KAnonymity, Marginals, NormalKL, Propensity, SampleUniques
from ruvdecision.measures.missing import CHOICES, UNFILLED, OmittedWarning, fill_missing

FILE = pd.DataFrame(
    {
        "age": [20.0, np.nan, 40.0, 50.0],
        "sex": ["f", "m", None, "m"],
        "town": pd.Categorical(["A", "B", "A", None]),
        "born": pd.to_datetime(["2000-01-01", None, "1980-01-01", "1970-01-01"]),
        "n": pd.array([1, 2, None, 4], dtype="Int64"),
    }
)


def test_category_makes_levels_and_indicators() -> None:
    found = fill_missing("category", FILE, FILE, list(FILE.columns))
    assert not found.isna().any().any()
    assert found["sex"].tolist() == ["f", "m", "(missing)", "m"] and found["town"].tolist()[-1] == "(missing)"
    assert found["age"].tolist() == [20, 40, 40, 50] and found["age (missing)"].tolist() == [0, 1, 0, 0]
    assert found["n"].tolist() == [1, 2, 2, 4] and found["born (missing)"].sum() == 1


def test_impute_fills_both_files_from_the_original() -> None:
    other = FILE.assign(age=[np.nan, 90, 90, 90], sex=[None, "x", "x", "x"])
    found = fill_missing("impute", FILE, other, list(FILE.columns))
    assert list(found.columns) == list(FILE.columns) and not found.isna().any().any()
    assert found["age"].tolist() == [40, 90, 90, 90] and found["sex"].tolist() == ["m", "x", "x", "x"]


def test_columns_that_nobody_knows() -> None:
    empty = pd.DataFrame({"a": [np.nan, np.nan], "b": [None, None]})
    for choice in ("category", "impute"):
        assert not fill_missing(choice, empty, empty, ["a", "b"]).isna().any().any()


def test_every_measure_states_its_choices() -> None:
    kinds = [getattr(measures, name) for name in measures.__all__]
    kinds = [k for k in kinds if isinstance(k, type) and issubclass(k, measures.Measure)]
    for kind in kinds:
        takes = kind.missing_choices
        assert set(takes) <= set(CHOICES) and takes[-1] == "raise" and takes[0] != "raise", kind
        assert set(kind.own_missing) <= {"category", *UNFILLED}, kind
    assert {"wildcard", "pairwise"} == set(UNFILLED)


def test_refusals_by_name() -> None:
    with pytest.raises(InputError, match=r"KL cannot take missing values as 'wildcard'.*'impute', 'omit', 'raise'"):
        NormalKL(missing="wildcard")
    with pytest.raises(InputError, match="Did you mean 'omit'"):
        NormalKL(missing="omitt")


def test_the_result_says_what_was_done() -> None:
    holes = pd.DataFrame({"a": [1.0, np.nan, 3.0, 4.0]})
    full = holes.fillna(2.0)
    assert Marginals()(full, full).missing == "" and Marginals()(full, holes).missing == "category"
    assert "missing" not in repr(Marginals()) and "missing='omit'" in repr(Marginals(missing="omit"))


def test_omit_warns_of_protected_records() -> None:
    full = pd.DataFrame({"a": [1, 1, 2, 3], "b": [1, 1, 1, 1]})
    blanked = full.assign(a=[1, 1, None, None])
    with pytest.warns(OmittedWarning, match="left out 2 of 4 records for missing values, 2 more than in the original"):
        assert SampleUniques(missing="omit")(full, blanked) == 0
    assert SampleUniques(missing="omit")(blanked, blanked).parts["omitted"] == 2  # nothing that the release did


def test_an_indicator_tells_blanks_from_values() -> None:
    rng = np.random.default_rng(1)
    a = pd.DataFrame({"x": rng.normal(size=400), "y": rng.normal(size=400)})
    blank = a.mask(rng.random(a.shape) < 0.3)
    assert Propensity()(a, blank) > 0.03 and Propensity()(blank, blank) == 0
    assert Propensity(missing="impute")(a, blank) < 0.01


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 30), st.integers(1, 4))
def test_more_blanks_never_raise_the_risk_of_keys(seed: int, n: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    file = pd.DataFrame(rng.integers(0, 3, size=(n, p)).astype(float))
    some = file.mask(rng.random((n, p)) < 0.2)
    more = some.mask(rng.random((n, p)) < 0.2)
    for kind in (KAnonymity, SampleUniques):
        risks = [kind().per_record(file, f) for f in (file, some, more)]
        assert np.all(risks[0] >= risks[1]) and np.all(risks[1] >= risks[2])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 8), st.sampled_from([1.0, 0.5, 0.0]))
def test_matches_by_their_definition(seed: int, n: int, p: int, alpha: float) -> None:
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((n, p)) < 0.3, np.nan, rng.integers(0, 2, size=(n, p)))
    w = rng.integers(1, 9, size=n).astype(float)
    blank = np.isnan(x).any(axis=1)
    expected = np.zeros(n)
    for i in range(n):
        for j in range(n):
            if np.all((x[i] == x[j]) | np.isnan(x[i]) | np.isnan(x[j])):
                same = np.array_equal(x[i], x[j], equal_nan=True)
                expected[i] += w[j] * (alpha if blank[j] and not same else 1.0)
    np.testing.assert_allclose(key_matches(pd.DataFrame(x), weights=w, alpha=alpha), expected)
