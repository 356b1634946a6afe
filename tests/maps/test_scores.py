"""Risk and utility as decreasing functions of U."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ruvdecision.errors import InputError
from ruvdecision.maps.rumap import RUMap
from ruvdecision.maps.scores import Column, Decreasing, Gain, NegativeLog, Reciprocal, RelativeGain, Tabulated, as_score

SCORES = [
    "reciprocal",
    "relative_gain",
    "gain",
    "negative_log",
    lambda u: 1 / (1 + u),
    lambda u: math.exp(-float(u) / 50),
]


def test_values_of_example_1():
    # T-F section 5.1 with variance 2.08: U = 2 after and 7 before the release.
    assert as_score("reciprocal")(2.0) == 0.5
    assert as_score("relative_gain")(2.0, before=7.0) == pytest.approx(0.7142857143, rel=1e-9)
    assert as_score("gain")(2.0, before=7.0) == 5.0
    assert as_score("negative_log")(2.0) == pytest.approx(-math.log(2), rel=1e-15)


def test_limits_at_zero_and_infinity_without_warnings():
    ends = np.array([0.0, -0.0, np.inf])
    assert Reciprocal()(ends).tolist() == [np.inf, np.inf, 0.0]
    assert NegativeLog()(ends).tolist() == [np.inf, np.inf, -np.inf]
    assert Gain()(ends, before=3.0).tolist() == [3.0, 3.0, -np.inf]
    assert RelativeGain()(ends, before=3.0).tolist() == [1.0, 1.0, -np.inf]
    assert Decreasing(lambda u: 1 / u)(ends[[0, 2]]).tolist() == [np.inf, 0.0]
    assert np.isnan(Reciprocal()(np.nan))


@pytest.mark.parametrize("score", SCORES)
def test_error_is_the_delta_method(score):
    score = as_score(score)
    u = np.array([0.3, 2.0, 40.0])
    h = 1e-6 * u
    slope = (score(u + h, 50.0) - score(u - h, 50.0)) / (2 * h)
    np.testing.assert_allclose(score.error(u, 0.1, 50.0), np.abs(slope) * 0.1, rtol=1e-7)
    np.testing.assert_allclose(score.slope(u, np.array(50.0)), slope, rtol=1e-7)
    start = (score(u, 50.0 + h) - score(u, 50.0 - h)) / (2 * h)
    np.testing.assert_allclose(score.slope_before(u, np.array(50.0)), start, rtol=1e-6, atol=1e-9)
    assert score.error(0.0, 0.0, 50.0) == 0


def test_error_agrees_with_simulation():
    rng = np.random.default_rng(4)
    draws = rng.normal(2.0, 0.01, size=200_000)
    for score in map(as_score, SCORES):
        seen = np.std(score(draws, 7.0))
        # The standard error of a standard deviation is sd / sqrt(2 n); curvature adds less than 1e-4 of it.
        assert score.error(2.0, 0.01, 7.0) == pytest.approx(seen, rel=4 / math.sqrt(2 * 200_000) + 1e-4)


@pytest.mark.parametrize("score", SCORES)
@settings(deadline=None, max_examples=40)
@given(u=st.floats(1e-3, 300))
def test_inverse_undoes_the_score(score, u):
    score = as_score(score)
    assert score.inverse(float(score(u, 500.0)), before=500.0) == pytest.approx(u, rel=1e-9)


@settings(deadline=None, max_examples=40)
@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_every_score_keeps_the_order(a, b):
    for score in (Reciprocal(), RelativeGain(), Gain(), NegativeLog()):
        if a < b * (1 - 1e-9):
            assert score(a, 2e6) > score(b, 2e6)


def test_inverse_at_the_ends():
    assert Reciprocal().inverse(0.0) == np.inf
    assert Reciprocal().inverse(np.inf) == 0.0
    assert Decreasing(lambda u: 1 / (1 + u)).inverse(2.0) < 0  # 1 / (1 + U) = 2 at U = -0.5
    assert Decreasing(lambda u: 1 / (1 + u)).inverse(2.0) == pytest.approx(-0.5, rel=1e-9)
    assert Decreasing(lambda u: 1 / (1 + u)).inverse(-1.0) == np.inf
    assert Decreasing(lambda u: np.exp(-u)).inverse(np.e) == pytest.approx(-1.0, rel=1e-9)
    assert Decreasing(lambda u: 1 / u).inverse(4.0) == pytest.approx(0.25, rel=1e-12)
    with pytest.raises(InputError, match="never negative"):
        Reciprocal().inverse(-1.0)


def test_scalar_and_vectorised_functions_agree():
    u = np.linspace(0.1, 9, 50)
    np.testing.assert_allclose(as_score(lambda x: math.exp(-x))(u), as_score(lambda x: np.exp(-x))(u), rtol=1e-15)
    assert as_score(lambda x: math.exp(-x))(1.0).shape == ()
    assert as_score(lambda x: 1 if x < 2 else 0)(u[:1]).tolist() == [1.0]


def test_names():
    def falls(u):
        return -u

    assert as_score(falls).name == "falls"
    assert as_score(lambda u: -u).name == "function of U"
    assert Decreasing(falls, "my scale").name == "my scale"
    assert as_score(Reciprocal) == Reciprocal()
    assert as_score(as_score("gain")) == Gain()
    assert as_score("linkage", ["linkage"]) == Column("linkage")
    for name in ("reciprocal", "relative_gain", "gain", "negative_log"):
        assert "intruder" in as_score(name).words("intruder")


def build(u, risk, before=(10.0, 10.0)):
    u = np.asarray(u, dtype=float)
    return RUMap.build(
        labels=[f"r{i}" for i in range(len(u))], intruder=u, scientist=np.ones(len(u)), before=before, risk=risk
    )


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda u: u, "strictly decreasing"),
        (lambda u: 0 * u, "strictly decreasing"),
        (lambda u: 1.0, "strictly decreasing"),
        (lambda u: (u - 3) ** 2, "strictly decreasing"),
        (lambda u: -np.floor(u), "strictly decreasing"),
        (lambda u: np.sin(50 * u) / 10 - u, "strictly decreasing"),
        (lambda u: np.sqrt(3 - u), "NaN at U"),
        (lambda u: math.sqrt(3 - u), "fails at U"),
        (lambda u: "text", "fails at U"),
        (lambda u: np.array([1, 2, 3]), "fails at U"),
    ],
)
def test_a_function_that_does_not_fall_is_refused(function, message):
    with pytest.raises(InputError, match=message):
        build([1.0, 2.0, 5.0], function)


def test_a_rise_between_the_maps_own_values_is_seen():
    # At the map's own U it falls; between them it does not.
    with pytest.raises(InputError, match=r"f\(.*\) = "):
        build([1.0, 5.0], lambda u: -u + 2 * np.exp(-((u - 3) ** 2) * 8))
    with pytest.raises(InputError, match="strictly decreasing"):
        build([2.0], lambda u: u)
    assert build([2.0], lambda u: -u).risk.tolist() == [-2.0]


def test_values_that_differ_in_the_last_digit_are_no_reason_to_refuse():
    u = [1.0, np.nextafter(1.0, 2), 2.0]
    assert build(u, lambda x: 1 / (1 + x)).risk[0] == 0.5


def test_negative_and_infinite_uncertainty():
    # U itself is fine: the map stands, and says what is wrong when 1/U is looked at.
    entropies = build([-1.0, 2.0], "reciprocal")
    assert entropies.intruder_uncertainty.tolist() == [-1.0, 2.0] and "not negative" in repr(entropies)
    with pytest.raises(InputError, match=r"not negative.*gain"):
        entropies.risk  # noqa: B018
    with pytest.raises(InputError, match="not negative"):
        build([-1.0, 2.0], "negative_log")
    assert build([-1.0, 2.0], "gain").risk.tolist() == [11.0, 8.0]
    assert build([-1.0, 2.0], lambda u: np.exp(-u)).risk[0] == pytest.approx(np.e)
    for name in ("gain", "relative_gain"):
        with pytest.raises(InputError, match="proper prior"):
            build([1.0, 2.0], name, before=(np.inf, 10.0))
        with pytest.raises(InputError, match="before"):
            build([1.0, 2.0], name, before=None)
    for zero in (0.0, -1.0):
        with pytest.raises(InputError, match="must be positive"):
            build([0.0, 0.0], "relative_gain", before=(zero, 1.0))


def test_unknown_scores_are_refused():
    with pytest.raises(InputError, match="Did you mean 'reciprocal'"):
        as_score("reciprocl")
    for bad in (3, None, ["gain"]):
        with pytest.raises(InputError, match="function of U"):
            as_score(bad)
    with pytest.raises(InputError, match="function of U"):
        Decreasing(3)
    with pytest.raises(InputError, match="without U0"):
        Column("KL", "gain")
    with pytest.raises(InputError, match="column must be text"):
        Column("")


def test_tabulated_knows_its_own_values_only():
    score = Tabulated("mine", (1.0, 2.0, 4.0), (1.0, 0.5, 0.25), (-1.0, -0.25, -0.0625))
    assert score([1.0, 2.0, 4.0]).tolist() == [1.0, 0.5, 0.25]
    assert score.error(2.0, 0.1) == pytest.approx(0.025, rel=1e-14)
    assert score.inverse(0.5) == 2.0
    assert np.isnan(score(9.0))
    with pytest.raises(InputError, match="known between"):
        score.inverse(7.0)
    with pytest.raises(InputError, match="read from a file"):
        build([1.0, 9.0], score)
