"""Choosing with errors and by the agency's own rule; frontiers of many measures; why a release is dominated."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from ruvdecision.decide import (
    Errors,
    choose,
    dominance,
    dominated_releases,
    explain,
    frontier,
    not_dominated,
    probability,
    undominated,
)
from ruvdecision.decide.criteria import ExpectedLoss, Lexicographic, Weighted, best_positions
from ruvdecision.decide.probability import (
    _count_best,
    _count_on_front,
    _possibly_undominated,
    degrees_of,
    frontier_probability,
    probability_below_threshold,
    quantile,
)
from ruvdecision.errors import InfeasibleError, InputError
from ruvdecision.maps.rumap import RUMap
from ruvdecision.maps.scores import Column
from ruvdecision.protocols import Value

ENDS = {"risk": "lower", "utility": "higher"}


def brute(costs):
    """The definition, point by point."""
    return np.array([not np.any((costs <= c).all(axis=1) & (costs < c).any(axis=1)) for c in costs])


def measured(risk, utility, risk_error=0.0, utility_error=0.0, **more):
    """A map whose risk and utility are columns, so that errors are on the shown scale."""
    n = len(risk)
    columns = {
        "r": np.asarray(risk, float),
        "u": np.asarray(utility, float),
        "r_error": np.broadcast_to(risk_error, n).astype(float),
        "u_error": np.broadcast_to(utility_error, n).astype(float),
        **more.pop("columns", {}),
    }
    labels = more.pop("labels", [f"m{i}" for i in range(n)])
    return RUMap.build(labels=labels, risk=Column("r"), utility=Column("u"), columns=columns, **more)


# -- frontiers of many measures ------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 6), st.integers(1, 80), st.integers(1, 7), st.integers(0, 10**6), st.booleans())
def test_fronts_agree_with_brute_force_whatever_the_blocks(d, n, levels, seed, slanted):
    rng = np.random.default_rng(seed)
    costs = rng.integers(0, levels, (n, d))
    if slanted and d > 1:  # nearly everything is on the front
        costs[:, 0] = levels * d - costs[:, 1:].sum(axis=1) + rng.integers(0, 2, n)
    before = dominance.BLOCK
    try:
        for size in (1, 16, before):
            dominance.BLOCK = size
            assert_array_equal(dominance.minimal_rows(costs), brute(costs))
    finally:
        dominance.BLOCK = before


@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_fronts_of_thousands_agree_with_brute_force(d):
    rng = np.random.default_rng(d)
    for values in (
        rng.random((1200, d)),
        np.round(6 * rng.random((1200, d))),
        rng.dirichlet(np.ones(d), 1200),
        -np.abs(rng.normal(size=(1200, d))),
    ):
        assert_array_equal(undominated(list(values.T), ["lower"] * d, tolerance=0), brute(values))


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 5), st.integers(1, 40), st.integers(0, 10**6))
def test_a_frontier_does_not_depend_on_order_or_on_what_it_dominates(d, n, seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 6, (n, d)).astype(float)
    on = undominated(list(values.T), ["lower"] * d)
    shuffled = rng.permutation(n)
    assert_array_equal(undominated(list(values[shuffled].T), ["lower"] * d), on[shuffled])
    assert undominated(list(values[on].T), ["lower"] * d).all()
    # Turning a column round and its end with it changes nothing.
    turned = np.column_stack([-values[:, 0], values[:, 1:]])
    assert_array_equal(undominated(list(turned.T), ["higher"] + ["lower"] * (d - 1)), on)


def test_infinite_values_and_nan_in_many_columns():
    inf, nan = np.inf, np.nan
    values = [[1, inf, -inf, nan, 1], [1, 0, 5, 0, 1], [2, 2, 2, 0, 2], [3, 3, 3, 0, 3]]
    assert undominated(values, ["lower"] * 4).tolist() == [True, True, True, False, True]


@pytest.mark.slow
def test_a_large_front_is_found_whole():
    rng = np.random.default_rng(7)
    for d in (3, 5):
        values = rng.dirichlet(np.ones(d), 20_000)  # on a plane nobody dominates anybody
        assert undominated(list(values.T), ["lower"] * d).all()
        worse = np.vstack([values, values[:500] + 1e-3])
        assert_array_equal(np.flatnonzero(~undominated(list(worse.T), ["lower"] * d)), 20_000 + np.arange(500))


# -- does it meet the threshold? -----------------------------------------------------------------------


def test_probability_of_meeting_the_threshold_is_that_of_the_average():
    """Risk is 1/U: it is U that is averaged, so P(1/U <= t) = P(U >= 1/t), not a normal law of 1/U."""
    u, error, t = np.array([2.2, 2.0, 1.5, 3.0]), np.array([0.1, 0.3, 0.2, 0.0]), 0.5
    rumap = RUMap.build(labels=list("abcd"), intruder=Value(u, error), scientist=np.ones(4))
    assert_allclose(probability_below_threshold(rumap, t)[:3], stats.norm.cdf((u[:3] - 2) / error[:3]), rtol=1e-12)
    assert probability_below_threshold(rumap, t)[3] == 1.0
    draws = np.random.default_rng(3).normal(u[0], error[0], 200_000)
    chance = np.mean(1 / draws <= t)
    assert abs(chance - probability_below_threshold(rumap, t)[0]) < 4 * np.sqrt(chance * (1 - chance) / 200_000)
    for score in ("negative_log", "gain", "relative_gain", lambda x: 1 / (1 + x)):
        other = RUMap.build(
            labels=list("abcd"), intruder=Value(u, error), scientist=np.ones(4), before=(5.0, 5.0), risk=score
        )
        threshold = float(other.risk_score(2.0, 5.0))
        assert_allclose(probability_below_threshold(other, threshold), probability_below_threshold(rumap, t), rtol=1e-9)


def test_few_replicates_are_less_sure():
    risk, error = [0.4], 0.05
    normal = measured(risk, [1], error)
    few = measured(risk, [1], error, attrs={"replicates": 4})
    assert degrees_of(few) == 3
    assert degrees_of(normal) == np.inf
    assert degrees_of(measured(risk, [1], attrs={"replicates": "default"})) == np.inf
    assert probability_below_threshold(normal, 0.5)[0] == pytest.approx(stats.norm.cdf(2), rel=1e-12)
    assert probability_below_threshold(few, 0.5)[0] == pytest.approx(stats.t.cdf(2, 3), rel=1e-12)
    assert quantile(0.975, 3) == pytest.approx(3.182446, rel=1e-6)


def test_reciprocal_columns_are_judged_on_their_own_scale():
    rumap = RUMap.build(
        labels=["a"],
        risk=Column("KL", "reciprocal"),
        utility=Column("u"),
        columns={"KL": [2.2], "KL_error": [0.1], "u": [1.0]},
    )
    assert probability_below_threshold(rumap, 0.5)[0] == pytest.approx(stats.norm.cdf(2), rel=1e-9)


def test_gains_with_a_uzero_of_each_release_fall_back_to_the_shown_scale():
    value = Value(np.array([2.0, 3.0]), np.array([0.5, 0.5]))
    rumap = RUMap.build(
        labels=["a", "b"], intruder=value, scientist=[1.0, 1.0], before=([4.0, 8.0], [2.0, 2.0]), risk="relative_gain"
    )
    assert_allclose(
        probability_below_threshold(rumap, 0.5), stats.norm.cdf((0.5 - rumap.risk) / rumap.risk_error), rtol=1e-12
    )


def test_unknown_errors_are_not_confident():
    rumap = measured([0.4, 0.3], [2, 1], [np.nan, 0.01])
    assert np.isnan(probability_below_threshold(rumap, 0.5)[0])
    assert choose(rumap, 0.5).release == "m0"
    assert "its error is not" in str(choose(rumap, 0.5))
    assert choose(rumap, 0.5, confidence=0.9).release == "m1"
    with pytest.raises(InfeasibleError, match="known error"):
        choose(rumap[:1], 0.5, confidence=0.9)


# -- is it on the frontier? ----------------------------------------------------------------------------


def test_two_releases_have_a_closed_form():
    """b leaves the frontier when a is safer and as useful: P(r_a < r_b) P(u_a > u_b), errors independent."""
    rumap = measured([0.4, 0.45], [2.0, 2.1], [0.05, 0.02], [0.1, 0.2])
    safer = stats.norm.cdf(0.05 / np.hypot(0.05, 0.02))
    useful = stats.norm.cdf(0.1 / np.hypot(0.1, 0.2))
    expected = np.array([1 - (1 - safer) * useful, 1 - safer * (1 - useful)])
    got = frontier_probability(rumap, ENDS, Errors(draws=40_000, seed=1))
    assert np.all(np.abs(got - expected) < 4 * np.sqrt(expected * (1 - expected) / 40_000))
    # The same error for everybody: the order of a and b is as certain as the larger error lets it be.
    shared = frontier_probability(rumap, ENDS, Errors("shared", 40_000, 1))
    flips = stats.norm.cdf(-0.05 / 0.03), stats.norm.cdf(-0.1 / 0.1)
    b_gone = (1 - flips[0]) * flips[1]
    assert abs(shared[1] - (1 - b_gone)) < 4 * np.sqrt(b_gone * (1 - b_gone) / 40_000)


def test_three_releases_by_quadrature():
    """P(i on the frontier) = E prod_j (1 - P(r_j <= r_i) P(u_j >= u_i)), an integral over r_i and u_i."""
    risk, utility, re, ue = (
        np.array([0.3, 0.32, 0.5]),
        np.array([1.0, 1.05, 1.1]),
        np.array([0.03, 0.05, 0.1]),
        np.array([0.1, 0.05, 0.2]),
    )
    i = 1

    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    r, u = risk[i] + re[i] * nodes[:, None], utility[i] + ue[i] * nodes[None, :]
    stays = [
        1 - stats.norm.cdf((r - risk[j]) / re[j]) * stats.norm.sf((u - utility[j]) / ue[j]) for j in range(3) if j != i
    ]
    expected = float(weights @ np.prod(stays, axis=0) @ weights)
    rumap = measured(risk, utility, re, ue)
    got = frontier_probability(rumap, ENDS, Errors(draws=20_000, seed=5))[i]
    assert abs(got - expected) < 4 * np.sqrt(expected * (1 - expected) / 20_000)
    one = choose(rumap, 0.4, errors=Errors(draws=20_000, seed=6))
    assert one.release == "m1"
    assert abs(one.on_frontier - expected) < 4 * np.sqrt(expected * (1 - expected) / 20_000)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 25), st.integers(2, 4), st.integers(0, 10**6))
def test_without_errors_probability_is_membership(n, d, seed):
    rng = np.random.default_rng(seed)
    names = [f"c{j}" for j in range(d)]
    columns = {k: rng.integers(0, 4, n).astype(float) for k in names}
    rumap = RUMap.build(labels=[f"m{i}" for i in range(n)], risk=Column("c0"), utility=Column("c1"), columns=columns)
    ends = dict(zip(names, ["lower", "higher", "lower", "lower"], strict=False))
    assert_array_equal(
        frontier_probability(rumap, ends, Errors()), undominated(list(columns.values()), list(ends.values()))
    )
    # Errors far below the gaps change nothing but ties, and errors that all share keep even those.
    tiny = rumap.columns | {f"{k}_error": np.full(n, 1e-9) for k in names}
    nearly = RUMap.build(labels=rumap.releases, risk=Column("c0"), utility=Column("c1"), columns=tiny)
    assert_array_equal(
        frontier_probability(nearly, ends, Errors("shared", 20)),
        undominated(list(columns.values()), list(ends.values())),
    )


def test_probabilities_as_a_table():
    rumap = measured([0.4, 0.49, 0.9], [1, 2, 3], [0.0, 0.02, 0.01], 0.05, columns={"converged": [True, True, False]})
    table = rumap.probabilities(0.5)
    assert list(table.columns) == ["release", "meets", "on_frontier", "best", "converged"]
    assert_allclose(table["meets"], [1, stats.norm.cdf(0.5), 0], atol=1e-12)
    # m1 is the best whenever it meets the threshold, m0 otherwise.
    p = stats.norm.cdf(0.5)
    assert_allclose(table["best"], [1 - p, p, 0], atol=4 * np.sqrt(p * (1 - p) / 2000))
    assert table["best"].sum() == pytest.approx(1, abs=1e-12)
    assert table["converged"].tolist() == [True, True, False]
    assert "meets" not in rumap.probabilities()
    exact = measured([0.4, 0.5, 0.9], [1, 2, 3])
    assert exact.probabilities(0.5)["best"].tolist() == [0, 1, 0]
    assert exact.probabilities(0.5)["meets"].tolist() == [1, 1, 0]


def test_frontier_carries_its_probability():
    rumap = measured([0.3, 0.31, 0.6], [1.0, 1.01, 2.0], 0.02, 0.02)
    front = rumap.frontier(probability=Errors(seed=2))
    assert front.releases == frontier(rumap).releases
    assert "frontier_probability" not in frontier(rumap).columns
    chance = front.columns["frontier_probability"]
    assert_array_equal(chance, frontier_probability(rumap, ENDS, Errors(seed=2)))
    assert (chance[:2] < 0.9).all()
    assert chance[2] == 1
    assert_array_equal(measured([1, 2], [1, 2]).frontier(probability=True).columns["frontier_probability"], [1, 1])
    assert "frontier_probability" in front.to_dataframe()
    with pytest.raises(InputError, match="probability must be"):
        rumap.frontier(probability="shared")


def test_scores_read_from_a_file_are_judged_on_the_shown_scale(tmp_path):
    value = Value(np.array([2.2, 3.0]), np.array([0.1, 0.1]))
    rumap = RUMap.build(labels=["a", "b"], intruder=value, scientist=[1.0, 2.0], risk=lambda u: 1 / (1 + u))
    rumap.save(tmp_path / "map.nc")
    again = RUMap.load(tmp_path / "map.nc")
    # Above all stored risks the function has no inverse.
    assert choose(again, 0.4).release == "a"
    assert choose(again, 0.4).meets == pytest.approx(
        stats.norm.cdf((0.4 - again.risk[0]) / again.risk_error[0]), rel=1e-6
    )


def test_what_has_no_value_is_not_said_to_be_dominated():
    rumap = measured([0.3, 0.4], [1, 2], columns={"KL": [1.0, np.nan]})
    choice = choose(rumap, 0.5, columns={"risk": "lower", "KL": "lower"})
    assert np.isnan(choice.on_frontier)
    assert choice.remarks == ()


def test_draws_are_the_callers_alone():
    rumap = measured([0.3, 0.31], [1.0, 1.01], 0.02, 0.02)
    np.random.seed(1)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    a, b = (choose(rumap, 0.5, errors=Errors(seed=4)).on_frontier for _ in range(2))
    assert a == b
    assert choose(rumap, 0.5, errors=Errors(seed=5)).on_frontier != a
    assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


# -- the choice ----------------------------------------------------------------------------------------


def test_confidence_demands_room_below_the_threshold():
    rumap = measured([0.49, 0.45, 0.4], [3, 2, 1], 0.02)
    assert choose(rumap, 0.5).release == "m0"
    assert choose(rumap, 0.5).meets == pytest.approx(
        stats.norm.cdf(0.5), rel=1e-6
    )  # the tolerance of the threshold counts
    sure = choose(rumap, 0.5, confidence=0.95)
    assert sure.release == "m1"
    assert sure.allowed == 2
    assert sure.meets == pytest.approx(stats.norm.cdf(2.5), rel=1e-6)
    assert "(0.95 was demanded)" in str(sure)
    assert choose(rumap, 0.5, confidence=0.999).release == "m2"
    with pytest.raises(InfeasibleError, match=r"with probability 0\.9999999.*got m2 as the nearest miss"):
        choose(rumap, 0.5, confidence=0.9999999999)
    # Of an exact map the estimate is the truth.
    exact = measured([0.5, 0.4], [2, 1])
    assert str(choose(exact, 0.5, confidence=0.99)) == str(choose(exact, 0.5))
    assert choose(exact, 0.5).meets == choose(exact, 0.5).on_frontier == choose(exact, 0.5).best == 1


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=12),
    st.floats(0.5, 0.999),
)
def test_confident_choices_agree_with_brute_force(points, confidence):
    risk, utility, error = np.array(points, dtype=float).T
    rumap = measured(risk, utility, error)
    chance = np.array(
        [float(r <= 5) if e == 0 else stats.norm.cdf((5 + 5e-9 - r) / e) for r, e in zip(risk, error, strict=True)]
    )
    allowed = np.flatnonzero(chance >= confidence)
    if allowed.size == 0:
        with pytest.raises(InfeasibleError):
            choose(rumap, 5, confidence=confidence)
        return
    best = min(allowed, key=lambda i: (-utility[i], risk[i], i))
    assert choose(rumap, 5, confidence=confidence, errors=Errors(draws=10)).position == best


def test_a_choice_says_how_sure_it_is():
    rumap = measured([0.49, 0.485], [3, 2.99], 0.02, 0.05)
    choice = choose(rumap, 0.5)
    text = str(choice)
    assert f"truly meets the threshold with probability {choice.meets:.3f}".rstrip("0") in text
    assert "truly on the frontier with probability" in text
    assert 0.2 < choice.best < 0.8
    clear = choose(measured([0.3, 0.8], [1, 3], 0.001, 0.001), 0.5)
    assert (clear.on_frontier, clear.best, clear.remarks) == (1.0, 1.0, ())
    assert pickle.loads(pickle.dumps(choice)).meets == choice.meets


def test_frontier_confidence():
    rumap = measured([0.3, 0.31, 0.1], [1.0, 1.001, 0.5], 0.02, 0.02)
    assert choose(rumap, 0.5).release == "m1"
    assert choose(rumap, 0.5, frontier_confidence=0.95).release == "m2"
    with pytest.raises(InfeasibleError, match="on the frontier with probability"):
        choose(rumap[:2], 0.5, frontier_confidence=0.95)


def test_releases_that_did_not_converge_are_never_chosen_silently():
    rumap = measured([0.3, 0.2, 0.1], [3, 2, 1], 0.01, columns={"intruder_converged": [False, True, True]})
    assert choose(rumap, 0.5).release == "m0"
    assert "did not converge" in str(choose(rumap, 0.5))
    sure = choose(rumap, 0.5, confidence=0.9)
    assert sure.release == "m1"
    assert sure.left_out == 1
    assert "1 release left out" in str(sure)
    assert choose(rumap, 0.5, converged=True).release == "m1"
    assert choose(rumap, 0.5, confidence=0.9, converged=False).release == "m0"
    with pytest.raises(InfeasibleError, match="has converged"):
        choose(rumap[:1], 0.5, confidence=0.9)


# -- the agency's rule ---------------------------------------------------------------------------------


def karr():
    columns = {"IO": [0.9, 0.8, 0.7, 0.85], "KL": [0.5, 0.1, 0.05, 0.3], "KL_error": [0.0, 0.0, 0.0, 0.0]}
    return measured(
        [0.5, 0.3, 0.1, 0.4], [4, 3, 1, 3.5], columns=columns, attrs={"better": {"IO": "higher", "KL": "lower"}}
    )


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(*[st.integers(1, 6)] * 3), min_size=1, max_size=15), st.tuples(*[st.floats(0.1, 3)] * 3))
def test_weights_take_the_greatest_sum(points, weights):
    risk, utility, kl = np.array(points, dtype=float).T
    rumap = measured(risk, utility, columns={"KL": kl})
    names = ("risk", "utility", "KL")
    chosen = choose(
        rumap,
        by=Weighted(dict(zip(names, weights, strict=True))),
        columns={"risk": "lower", "utility": "higher", "KL": "lower"},
    )
    total = -weights[0] * risk + weights[1] * utility - weights[2] * kl
    assert total[chosen.position] == pytest.approx(total.max(), rel=1e-9)
    assert chosen.value == pytest.approx(total.max(), rel=1e-9, abs=1e-12)
    assert chosen.on_frontier == 1.0  # positive weights never take a dominated release


def test_weights_do_not_depend_on_other_candidates():
    rumap = karr()
    value = choose(rumap, 0.3, by=Weighted({"IO": 1, "KL": 0.2})).value
    assert value == pytest.approx(0.8 - 0.02)
    assert choose(rumap.take([1, 2]), 0.3, by=Weighted({"IO": 1, "KL": 0.2})).value == value
    assert "1 IO − 0.2 KL = 0.78" in str(choose(rumap, 0.3, by=Weighted({"IO": 1, "KL": 0.2})))


def test_order_with_and_without_slack():
    rumap = karr()
    assert choose(rumap, by=Lexicographic(["IO", "KL"])).release == "m0"
    assert choose(rumap, by=Lexicographic(["IO", "KL"], slack={"IO": 0.06})).release == "m3"
    assert choose(rumap, by=Lexicographic(["IO", "KL"], slack={"IO": 0.11})).release == "m1"
    assert choose(rumap, 0.35, by=Lexicographic(["IO"])).release == "m1"
    assert "chosen by IO (within 0.06), then by KL" in str(
        choose(rumap, by=Lexicographic(["IO", "KL"], slack={"IO": 0.06}))
    )
    assert choose(rumap, by=Lexicographic(["risk"])).release == "m2"


def test_first_is_lexicographic():
    rng = np.random.default_rng(3)
    for _ in range(50):
        values = rng.integers(0, 3, (3, 12)).astype(float)
        allowed = rng.random(12) < 0.7
        if allowed.any():
            best = min(np.flatnonzero(allowed), key=lambda i: (*-values[:, i], i))
            assert best_positions([(v, 0.0) for v in values], allowed) == best
            both = best_positions([(np.stack([v, -v]), 0.0) for v in values], np.stack([allowed, allowed]))
            assert both[0] == best


def test_the_agencys_own_loss():
    rumap = karr()
    loss = lambda risk, utility: 10 * risk**2 - utility  # noqa: E731
    expected = 10 * rumap.risk**2 - rumap.utility
    chosen = choose(rumap, by=ExpectedLoss(loss))
    assert chosen.position == np.argmin(expected)
    assert chosen.value == pytest.approx(expected.min())
    assert "expected loss" in str(chosen)
    by_column = choose(rumap, by=ExpectedLoss(lambda KL, risk: KL + risk))
    assert by_column.position == np.argmin(rumap.columns["KL"] + rumap.risk)
    one_by_one = choose(rumap, by=ExpectedLoss(lambda risk, utility: 5.0 if risk > 0.35 else -utility))
    assert one_by_one.release == "m1"
    assert choose(rumap, 0.2, by=ExpectedLoss(loss)).release == "m2"


def test_expected_loss_averages_over_the_errors():
    """E (r - 0.3)^2 = bias^2 + error^2, so a precise release wins over one whose estimate lies nearer."""
    rumap = measured([0.3, 0.35], [1, 1], [0.1, 0.0])
    choice = choose(rumap, by=ExpectedLoss(lambda risk, utility: (risk - 0.3) ** 2), errors=Errors(draws=20_000))
    assert choice.release == "m1"
    noisy = choose(rumap[:1], by=ExpectedLoss(lambda risk, utility: (risk - 0.3) ** 2), errors=Errors(draws=20_000))
    assert noisy.value == pytest.approx(0.01, abs=4 * np.sqrt(2) * 0.01 / np.sqrt(10_000))


def test_ties_in_the_loss_go_to_the_safer_release():
    rumap = measured([0.4, 0.2, 0.2], [1, 1, 2])
    assert choose(rumap, by=ExpectedLoss(lambda risk, utility: 0 * risk)).release == "m2"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (dict, "max_risk"),
        (lambda: {"max_risk": 0.5, "by": "utility"}, "Criterion"),
        (lambda: {"by": Weighted({})}, "weights"),
        (lambda: {"by": Weighted({"IO": -1})}, "weights"),
        (lambda: {"by": Weighted({"nobody": 1})}, "does not have"),
        (lambda: {"by": Weighted({"r_error": 1})}, "which values of r_error are better"),
        (lambda: {"by": Lexicographic([])}, "order must not be empty"),
        (lambda: {"by": Lexicographic(["IO"], slack={"KL": 1})}, "not in order"),
        (lambda: {"by": Lexicographic(["IO"], slack={"IO": -1})}, "slack"),
        (lambda: {"by": Lexicographic(["IO"], slack=0.1)}, "slack"),
        (lambda: {"by": ExpectedLoss(3)}, "function"),
        (lambda: {"by": ExpectedLoss(lambda a, b, c: 0)}, "arguments"),
        (lambda: {"by": ExpectedLoss(lambda risk, utility: "high")}, "number"),
        (lambda: {"max_risk": 0.5, "confidence": 1.5}, "confidence"),
        (lambda: {"by": ExpectedLoss(lambda risk, utility: risk), "confidence": 0.9}, "no max_risk"),
        (lambda: {"max_risk": 0.5, "errors": Errors("related")}, "'independent', 'shared'"),
        (lambda: {"max_risk": 0.5, "errors": Errors(2)}, "correlation"),
        (lambda: {"max_risk": 0.5, "errors": Errors(draws=0)}, "draws"),
        (lambda: {"max_risk": 0.5, "errors": "shared"}, "errors must be an Errors"),
        (lambda: {"max_risk": 0.5, "converged": "yes"}, "converged"),
        (lambda: {"max_risk": 0.5, "frontier_confidence": 0}, "frontier_confidence"),
    ],
)
def test_rules_that_cannot_be(bad, message):
    with pytest.raises(InputError, match=message):
        choose(karr(), **bad())


# -- why not? ------------------------------------------------------------------------------------------


def test_a_dominated_release_is_explained():
    rumap = measured([0.44, 0.5, 0.2, 0.5], [2.06, 2.0, 1.0, 2.06], labels=["good", "bad", "safe", "near"])
    said = explain(rumap, "bad")
    assert str(said) == "bad is dominated by good (and by 1 other): risk −12 %, utility +3 %."
    assert said.dominated
    assert (said.by.release, said.dominators, said.probability) == ("good", 2, 1.0)
    assert str(rumap.explain("near")) == "near is dominated by good: risk −12 %, utility the same."
    on = rumap.explain(0)
    assert not on.dominated
    assert str(on).startswith("good is on the frontier: no other release is as good in risk and utility")
    assert "The next better in risk is safe: risk −55 %, utility −51 %." in str(on)
    assert str(rumap.explain(rumap.choose(0.3))).startswith("safe is on the frontier")


def test_the_table_of_dominated_releases():
    rumap = measured(
        [0.44, 0.5, 0.2, 0.5, np.nan],
        [2.06, 2.0, 1.0, 2.06, 1],
        [0.05, 0.0, 0, 0, 0],
        labels=["good", "bad", "safe", "near", "lost"],
    )
    table = rumap.dominated()
    assert table["release"].tolist() == ["bad", "near"]
    assert table["dominated_by"].tolist() == ["good", "good"]
    assert table["dominators"].tolist() == [2, 1]
    assert_allclose(table["risk_change"], [-0.12, -0.12], rtol=1e-12)
    assert_allclose(table["utility_change"], [0.03, 0.0], atol=1e-12)
    assert_allclose(table["probability"], stats.norm.cdf(0.06 / 0.05), rtol=1e-12)
    assert "with probability 0.885" in table["explanation"][0]
    assert str(rumap.explain("lost")) == "lost is not compared: it has no risk."
    assert len(dominated_releases(measured([1, 2], [1, 2]))) == 0
    assert isinstance(dominated_releases(measured([1], [1])), pd.DataFrame)


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 30), st.integers(2, 4), st.integers(0, 10**6))
def test_explanations_agree_with_the_frontier(n, d, seed):
    rng = np.random.default_rng(seed)
    names = [f"c{j}" for j in range(d)]
    columns = {k: rng.integers(1, 5, n).astype(float) for k in names}
    rumap = RUMap.build(labels=[f"m{i}" for i in range(n)], risk=Column("c0"), utility=Column("c1"), columns=columns)
    ends = {k: "lower" if j % 2 == 0 else "higher" for j, k in enumerate(names)}
    costs = np.column_stack([columns[k] * (1 if ends[k] == "lower" else -1) for k in names])
    on = brute(costs)
    table = dominated_releases(rumap, columns=ends)
    assert table["release"].tolist() == [f"m{i}" for i in np.flatnonzero(~on)]
    for row in table.itertuples():
        i, j = int(row.release[1:]), int(row.dominated_by[1:])
        assert on[j]
        assert (costs[j] <= costs[i]).all()
        assert (costs[j] < costs[i]).any()
        assert row.dominators == sum((costs <= costs[i]).all(axis=1) & (costs < costs[i]).any(axis=1))
        assert str(explain(rumap, i, columns=ends)) == row.explanation
    for i in np.flatnonzero(on):
        assert not explain(rumap, int(i), columns=ends).dominated


def test_changes_from_and_to_the_edges():
    rumap = measured([np.inf, 1.0, 0.0, 1e-9], [1.0, 1.0, -1.0, -1.0])
    assert "risk ∞ → 1" in str(rumap.explain(0))
    assert "risk 1e−09 → 0" in str(rumap.explain(3)) or "risk −100 %" in str(rumap.explain(3))
    with pytest.raises(InputError, match="label"):
        rumap.explain("nobody")
    with pytest.raises(InputError, match="one release"):
        rumap.explain([0, 1])


def test_old_names_stay():
    risk, utility = np.random.default_rng(0).random((2, 300))
    assert_array_equal(not_dominated(risk, utility), undominated([risk, utility], ["lower", "higher"]))


@pytest.mark.parametrize(
    ("errors", "replicates"), [("independent", None), ("shared", None), (0.5, None), ("independent", 12)]
)
def test_releases_that_cannot_matter_need_not_be_drawn(monkeypatch, errors, replicates):
    rng = np.random.default_rng(5)
    n, draws = 400, 4000
    error = rng.uniform(0.02, 0.2, n)
    attrs = {} if replicates is None else {"replicates": replicates}
    rumap = RUMap.build(
        labels=[str(i) for i in range(n)],
        intruder=Value(rng.uniform(1, 10, n), error),
        scientist=Value(1 / rng.uniform(1, 10, n), error / 20),
        attrs=attrs,
    )
    whole = choose(rumap, 0.3, errors=Errors(errors, draws=draws))
    drawn, units = [], Errors.units

    def counted(self, columns, size, degrees):
        drawn.append(size)
        return units(self, columns, size, degrees)

    monkeypatch.setattr(Errors, "units", counted)
    monkeypatch.setattr(probability, "MANY", 100)
    part = choose(rumap, 0.3, errors=Errors(errors, draws=draws, seed=9))
    assert part.release == whole.release
    assert len(drawn) == 1 and (drawn[0] < n / 2 or replicates is not None)  # Student's law has longer arms
    for a, b in ((part.on_frontier, whole.on_frontier), (part.best, whole.best)):
        assert 0 < b < 1
        assert abs(a - b) < 4 * np.sqrt(2 * b * (1 - b) / draws)


# -- drawn maps ----------------------------------------------------------------------------------------


def _many(columns, seed, ties):
    """Costs, errors and draws of releases of which some cannot matter; ties where numbers are whole and errors zero."""
    rng = np.random.default_rng(seed)
    n = 700
    costs = rng.integers(0, 12, (columns, n)).astype(float) if ties else rng.normal(size=(columns, n))
    costs[0, 5], costs[-1, 6] = np.inf, -np.inf
    scale = np.where(rng.random((columns, n)) < (0.8 if ties else 0.1), 0.0, 0.1)
    scale[~np.isfinite(costs)] = 0.0
    return costs, scale, rng.standard_normal((37, columns, n))


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_leaving_out_who_cannot_matter_changes_no_front(columns, ties):
    costs, scale, units = _many(columns, columns, ties)
    expected = np.zeros(costs.shape[1])
    for c in costs + scale * units:
        beaten = (c[:, :, None] <= c[:, None, :]).all(axis=0) & (c[:, :, None] < c[:, None, :]).any(axis=0)
        expected += ~beaten.any(axis=0)
    play = _possibly_undominated(costs, scale, np.inf)
    found = np.zeros(costs.shape[1])
    found[play] = _count_on_front(costs[:, play] + scale[:, play] * units[:, :, play])
    assert np.array_equal(found, expected)
    assert 0 < np.count_nonzero(expected) < costs.shape[1] and play.size < costs.shape[1]


@pytest.mark.parametrize("edge", [-np.inf, -0.5, 3.0, np.inf])
@pytest.mark.parametrize("ties", [True, False])
def test_winners_of_drawn_maps_one_by_one(ties, edge):
    costs, scale, units = _many(2, 9, ties)
    expected = np.zeros(costs.shape[1])
    for risk, loss in costs + scale * units:
        allowed = [(loss[i], risk[i], i) for i in range(risk.size) if risk[i] <= edge]
        if allowed:
            expected[min(allowed)[2]] += 1
    assert np.array_equal(_count_best(costs + scale * units, edge), expected)


def test_probabilities_do_not_depend_on_how_often_the_draws_are_made():
    """One pass over the draws gives what a pass for each column of the table gives."""
    rng = np.random.default_rng(3)
    error = rng.uniform(0.1, 0.5, 500)
    rumap = RUMap.build(
        labels=[f"r{i}" for i in range(500)],
        intruder=Value(rng.uniform(1, 10, 500), error),
        scientist=Value(rng.uniform(1, 10, 500), error),
    )
    once = rumap.probabilities(0.3, errors=Errors(draws=200, seed=8))
    turned = rumap.probabilities(0.3, columns=["utility", "risk"], errors=Errors(draws=200, seed=8))
    assert np.array_equal(once["best"], turned["best"])
    assert np.array_equal(once["on_frontier"], frontier_probability(rumap, ENDS, Errors(draws=200, seed=8)))
    assert once["on_frontier"].max() > 0 and once["best"].sum() == pytest.approx(1)
