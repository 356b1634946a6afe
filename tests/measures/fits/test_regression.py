"""Fits: exact ones, separated ones, and what their errors may say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from measured import AWKWARD, MANY, two_columns

from ruvdecision.errors import InputError
from ruvdecision.measures import (
    EllipsoidOverlap,
    IntervalOverlap,
    Logistic,
    Means,
    Poisson,
)


@pytest.mark.parametrize("value", AWKWARD)
def test_constant_response_has_an_exact_fit(value: float) -> None:
    original, released = two_columns(), two_columns().assign(c=value)
    seen = IntervalOverlap("c ~ x")(original, released).table
    assert seen is not None
    assert seen["released"].tolist() == [pytest.approx(value, rel=1e-15), 0.0]
    assert seen["released_se"].tolist() == [0.0, 0.0]
    assert EllipsoidOverlap("c ~ x")(original, released) in (0.0, 0.5)
    means = IntervalOverlap(Means(["c"]))(original, released).table
    assert means is not None and means["released_se"].tolist() == [0.0]


def test_errors_quote_no_record() -> None:
    table = two_columns().assign(c=np.linspace(-4321.5, 1, MANY))
    for model in (Logistic("c ~ x"), Poisson("c ~ x")):
        with pytest.raises(InputError) as caught:
            IntervalOverlap(model)(table, table)
        assert "4321" not in str(caught.value) and "values in c" in str(caught.value)
    people = pd.DataFrame({"who": ["Ann", "Bob"] * 10, "x": np.arange(20.0) % 7})
    with pytest.raises(InputError, match="no category of who in common") as caught:
        IntervalOverlap("x ~ who")(people, people.assign(who=["P", "Q"] * 10))
    assert "Ann" not in str(caught.value) and "2 in one and 2 others" in str(caught.value)


@pytest.mark.parametrize("kind", [Logistic, Poisson])
def test_a_category_that_separates_the_response_is_refused(kind) -> None:
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"g": ["a", "b"] * 50, "x": rng.normal(size=100)})
    table["y"] = np.where(table.g == "a", 0, rng.integers(0, 2, 100))
    # The likelihood grows for ever with the coefficient of g; its estimate would be where the search happened to stop.
    with pytest.raises(InputError, match="no finite estimate in the original"):
        IntervalOverlap(kind("y ~ g + x"))(table, table)
    with pytest.raises(InputError, match="no finite estimate in the release"):
        IntervalOverlap(kind("y ~ g + x"))(table.assign(y=rng.integers(0, 2, 100)), table)


def test_a_rare_event_is_no_separation() -> None:
    x = np.zeros(20_000)
    x[:40] = 1.0
    y = np.zeros(20_000)
    y[[0, 50]] = 1.0
    fit = Logistic("y ~ x").fit(pd.DataFrame({"x": x, "y": y}))
    # Saturated: log odds of 1 in 19,960 and of 1 in 40.
    low, high = -np.log(19_959), -np.log(39)
    assert fit.estimate == pytest.approx([low, high - low], rel=1e-9)
    assert fit.se[0] == pytest.approx(np.sqrt(1 + 1 / 19_959), rel=1e-6)


@pytest.mark.parametrize("kind", [Logistic, Poisson])
def test_standard_errors_far_from_zero(kind) -> None:
    """A predictor's offset moves the intercept alone: nearly collinear columns must not cost its variance the sign."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"x": rng.normal(size=200)})
    table["y"] = rng.random(200) < 0.4 if kind is Logistic else rng.poisson(3, 200)
    plain, far = (kind("y ~ x").fit(table.assign(x=table["x"] + offset, y=table["y"] * 1)) for offset in (0.0, 1e8))
    assert far.se[1] == pytest.approx(plain.se[1], rel=1e-5) and far.se[0] == pytest.approx(1e8 * plain.se[1], rel=1e-5)
