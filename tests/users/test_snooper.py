"""Snoopers: fixed rules, their exact expected loss, and the simulation where there is none."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from ruvdecision.analyses.optimise import optimise
from ruvdecision.beliefs import FiniteBelief, NormalBelief
from ruvdecision.engines import Exact, FixedRule, pick
from ruvdecision.engines.normal.forms import form_of
from ruvdecision.engines.normal.releases import channel_of
from ruvdecision.engines.rules import clipped_noise as incomes
from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.evaluate import evaluate, posterior
from ruvdecision.losses import CRPS, Absolute, Huber, IntervalScore, Linex, LogScore, Pinball, Power, Quadratic, ZeroOne
from ruvdecision.masks import Clip, Microaggregate, Noise, Release, Shuffle, Subsample, Suppress
from ruvdecision.numerics.orderstatistics import normal_moments
from ruvdecision.scenarios import exact as closed
from ruvdecision.targets import (
    Average,
    Functional,
    Kind,
    Maximum,
    Minimum,
    NewRecord,
    OrderStatistic,
    Parameter,
    Percentile,
    Record,
    Records,
)
from ruvdecision.users.rules import Custom, Mean, Median, Ranked, Row, WeightedSum, as_rule, order_rows
from ruvdecision.users.user import Snooper, User

FLAT = NormalBelief(records=200, variance=1, prior="flat")
MEAN = Snooper("mean", Parameter("mu"), belief=FLAT)
GRID = [0.05, 0.21, 1.0, 3.0]


def uncertainty(snooper, masks, **options):
    """One user's U and error, by the engine that `evaluate` would take."""
    masks = masks if isinstance(masks, list) else [masks]
    rumap = evaluate(masks, intruder=snooper, scientist=snooper, **options)
    return rumap.intruder_uncertainty, rumap.intruder.error


# -- rules -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_", "rule", "answer"),
    [
        ("mean", Mean(), 4.0),
        ("median", Median(), 3.0),
        ("lower median", Ranked(Percentile(0.5)), 2.0),
        ("max", Ranked(Maximum()), 9.0),
        ("min", Ranked(Minimum()), 1.0),
        (Average(), Mean(), 4.0),
        (Record(2), Row(2), 9.0),
        (Record(-1), Row(-1), 4.0),
        (Maximum(), Ranked(Maximum()), 9.0),
        (OrderStatistic(2), Ranked(OrderStatistic(2)), 2.0),
        (Percentile(0.6), Ranked(Percentile(0.6)), 4.0),  # ceil(4 * .6) = 3
        (WeightedSum([1, 0, 0, -1], offset=0.5), WeightedSum((1.0, 0.0, 0.0, -1.0), 0.5), -2.5),
    ],
)
def test_rules_by_name_target_and_object(given_, rule, answer):
    found = as_rule(given_)
    assert found == rule
    release = np.array([1.0, 2.0, 9.0, 4.0])
    assert found(release) == answer
    assert found(pd.DataFrame({"a": release})) == answer
    assert isinstance(found.describe(), str)


def test_rules_of_several_variables_and_of_missing_values():
    values = np.array([[1.0, 5.0], [3.0, np.nan], [2.0, 7.0]])
    assert_allclose(Mean()(values), [2.0, 6.0])
    assert_allclose(Ranked(Maximum())(values), [3.0, 7.0])
    assert_allclose(Ranked(OrderStatistic(2))(values), [2.0, 7.0])
    assert_allclose(Ranked(Percentile(0.5))(values), [2.0, 5.0])  # rank 2 of 3, rank 1 of 2
    assert (
        np.isnan(Mean().of(np.full((3, 1), np.nan))).all()
        and np.isnan(Ranked(Minimum()).of(np.full((3, 1), np.nan))).all()
    )


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.data())
@settings(deadline=None, max_examples=60)
def test_order_rows_agree_with_a_stable_sort(numbers, data):
    rank = data.draw(st.integers(1, len(numbers)))
    x = np.array(numbers, dtype=float)[:, None]
    row = int(order_rows(x, rank)[0])
    ordered = sorted(range(len(numbers)), key=lambda i: (numbers[i], i))
    assert row == ordered[rank - 1]
    assert Ranked(OrderStatistic(rank))(x) == x[row, 0]


@given(st.integers(1, 400), st.floats(0.001, 0.999))
@settings(deadline=None, max_examples=60)
def test_percentile_uses_the_next_rank_up(n, p):
    rank = Percentile(p).rank(n)
    assert 1 <= rank <= n and rank >= n * p - 1e-9 * n and rank - 1 < n * p


# -- the paper's snoopers, exactly ---------------------------------------------------------------------------------


def test_record_knowledge_is_equation_4():
    rumap = evaluate(
        [Noise(variance=v) for v in (0.2, 0.21)], intruder=Snooper("row", Record(7), belief=FLAT), scientist=MEAN
    )
    assert_allclose(rumap.risk, [5.0, 4.761904761904762], rtol=1e-13)
    assert_allclose(rumap.utility, [166.66666666666669, 165.28925619834712], rtol=1e-13)
    assert set(rumap.engine) == {"exact"} and not rumap.risk_error.any()


def test_population_and_sample_knowledge():
    masks = [Noise(variance=v) for v in (0.0, 0.21)]
    outside = uncertainty(Snooper("mean", NewRecord(), belief=FLAT), masks)[0]
    assert_allclose(1 / outside, [0.9950248756218906, 0.9939863823865612], rtol=1e-12)  # eq. 2
    for chain in (masks, [m | Shuffle() for m in masks], [Shuffle() | m for m in masks]):
        assert_allclose(
            uncertainty(Snooper("mean", Record(3), belief=FLAT), chain)[0], [199 / 200, (199 + 0.21) / 200], rtol=1e-12
        )


def test_given_target_is_equation_1():
    # A record whose value is tau: a known mean, and the target as a constant shift of the mean.
    belief = NormalBelief(records=10, variance=2, prior="known", prior_mean=3.0)
    target = Functional(lambda mu: mu + 1.5, of=Parameter("mu"))
    assert_allclose(
        uncertainty(Snooper("mean", target, belief=belief), Noise(variance=0.4))[0], (2 + 0.4) / 10 + 1.5**2, rtol=1e-12
    )


@pytest.mark.parametrize("mask", [Noise(variance=0.7), Noise(variance=0.7) | Microaggregate(groups=3), Noise(variance=0.4, common=True),
                                  Microaggregate(groups=2) | Noise(sd=1.1), Suppress(rows=[0, 4]) | Noise(variance=0.5), Release(),
                                  Noise(variance=[0.1, 0.4, 0.9, 0.2, 0.3, 0.8, 0.5]),
                                  Noise(variance=np.where([True, False, False, True, False, True, False], 3.9, 1.3))])  # fmt: skip
@pytest.mark.parametrize("rule", ["mean", Row(2), WeightedSum([0.1, 0.2, 0.4, 0, 0, -0.1, 0.3], offset=0.25)])
@pytest.mark.parametrize(
    "target",
    [
        Record(2),
        Average(),
        Parameter("mu"),
        NewRecord(),
        Functional(lambda a, b: a - 2 * b + 1, of=[Record(1), Average()]),
    ],
)
def test_exact_moments_agree_with_full_matrices(mask, rule, target):
    belief = NormalBelief(records=7, variance=2.0, prior_mean=1.5, prior_variance=0.8)
    found, error = uncertainty(Snooper(rule, target, belief=belief), mask)
    assert error[0] == 0
    if isinstance(rule, WeightedSum) and "Suppress" in str(mask):
        assert found[0] == np.inf  # it has a weight on a row that is not released
        return
    assert found[0] == pytest.approx(brute(belief, mask, as_rule(rule), target), rel=1e-11)


def brute(belief, mask, rule, target):
    """E (a'y - t)^2 with A and R written out."""
    n = belief.records
    channel = channel_of(belief, mask)
    a, r = channel.dense()
    released = np.concatenate(
        [
            channel.blocks[t].released[c]
            for t, c in zip(*[v for i, v in enumerate(channel.layout.place_of_rows()) if i != 1], strict=True)
        ]
    )
    weights = rule.weights(released[:, None])[:, 0]
    form = form_of(belief, target)
    # The latent vector: mu, the n deviations of the records, the deviation of a new record.
    spread = np.diag([belief.prior_variance, *[belief.variance] * (n + 1)])
    mean = np.array([belief.prior_mean, *[0.0] * (n + 1)])
    record = np.hstack([np.ones((n, 1)), np.eye(n), np.zeros((n, 1))])
    rows = {Kind.RECORD: lambda t: record[t.row], Kind.AVERAGE: lambda t: record.mean(axis=0), Kind.PARAMETER: lambda t: np.eye(n + 2)[0],
            Kind.NEW: lambda t: np.eye(n + 2)[0] + np.eye(n + 2)[-1]}  # fmt: skip
    wanted = form.matrix[0] @ np.stack([rows[t.kind](t) for t in form.terms])
    gap = weights @ a @ record - wanted
    bias = gap @ mean + rule.constant() - form.constant[0]
    return float(gap @ spread @ gap + weights @ r @ weights + bias**2)


def test_several_variables_against_full_matrices():
    rng = np.random.default_rng(4)
    b = rng.standard_normal((2, 2))
    spread, doubt = b @ b.T + np.eye(2), np.array([[0.7, 0.2], [0.2, 0.5]])
    belief = NormalBelief(records=5, covariance=spread, prior_covariance=doubt, prior_mean=[1.0, -2.0])
    noise, weights = np.array([[0.5, 0.1], [0.1, 0.3]]), np.array([[2.0, 0.3], [0.3, 1.0]])
    found = uncertainty(Snooper("mean", Record(1), Quadratic(weights), belief=belief), Noise(covariance=noise))[0]
    assert_allclose(found, np.trace(weights @ (spread * 4 / 5 + noise / 5)), rtol=1e-12)
    found = uncertainty(Snooper(Row(0), Parameter("mu"), Quadratic(weights), belief=belief), Noise(covariance=noise))[0]
    assert_allclose(found, np.trace(weights @ (spread + noise)), rtol=1e-12)
    half = WeightedSum([0.5, 0, 0, 0, 0])
    found = uncertainty(Snooper(half, Parameter("mu"), Quadratic(weights), belief=belief), Noise(covariance=noise))[0]
    bias = -0.5 * np.array([1.0, -2.0])
    assert_allclose(found, np.trace(weights @ (spread + noise + doubt)) / 4 + bias @ weights @ bias, rtol=1e-12)


def test_moved_and_drawn_rows():
    belief = NormalBelief(records=10, variance=2.0, prior_variance=3.0)
    # The mean of 4 of 10 records, for a record that is among them with probability .4.
    found = uncertainty(Snooper("mean", Record(0), belief=belief), Subsample(size=4) | Noise(variance=0.5))[0]
    inside, outside = 2 * 3 / 4 + 0.5 / 4, 2 * 5 / 4 + 0.5 / 4
    assert_allclose(found, 0.4 * inside + 0.6 * outside, rtol=1e-12)
    where = np.arange(10) < 3
    shuffled = uncertainty(
        Snooper("mean", Record(0), Absolute(), belief=belief), Shuffle() | Noise(variance=np.where(where, 4.0, 1.0))
    )[0]
    assert_allclose(shuffled, np.sqrt(2 / np.pi * (2 * 9 / 10 + (7 + 12) / 100)), rtol=1e-12)


LOSSES = [
    (Absolute(), lambda d: np.abs(d)), (Power(3.0), lambda d: np.abs(d) ** 3), (Pinball(0.3), lambda d: -d * (0.3 - (d > 0))),
    (Huber(0.6), lambda d: np.where(np.abs(d) < 0.6, d * d / 2, 0.6 * (np.abs(d) - 0.3))),
    (Linex(0.7), lambda d: np.exp(0.7 * d) - 0.7 * d - 1), (ZeroOne(tolerance=0.4), lambda d: 1.0 * (np.abs(d) > 0.4)), (CRPS(), np.abs),
]  # fmt: skip


@pytest.mark.campaign(2, "slow")
@pytest.mark.parametrize(("loss", "of_gap"), LOSSES, ids=lambda v: getattr(v, "__class__", type(v)).__name__)
def test_any_loss_of_a_biased_rule_against_quadrature(loss, of_gap):
    belief = NormalBelief(records=6, variance=1.5, prior="known", prior_mean=2.0)
    rule = WeightedSum([0.3, 0.1, 0.1, 0.1, 0.1, 0.1], offset=0.1)
    found = uncertainty(Snooper(rule, Record(0), loss, belief=belief), Noise(variance=0.5))[0][0]
    weights = np.array(rule.coefficients)
    gap = weights - np.eye(6)[0]
    mean, var = 2.0 * gap.sum() + 0.1, 1.5 * gap @ gap + 0.5 * weights @ weights
    d = np.linspace(mean - 12 * np.sqrt(var), mean + 12 * np.sqrt(var), 2_000_001)
    expected = np.trapezoid(of_gap(d) * stats.norm.pdf(d, mean, np.sqrt(var)), d)
    assert found == pytest.approx(expected, rel=2e-6)


def test_a_linear_callable_is_recognised():
    belief = NormalBelief(records=20, variance=1.0, prior_variance=2.0)
    told = WeightedSum([0.8 + 0.01, *[0.01] * 19], offset=-0.5)
    rumap = evaluate(
        [Noise(variance=v) for v in GRID],
        intruder=Snooper(lambda y: 0.8 * y[0] + 0.2 * y.mean() - 0.5, Record(0), belief=belief),
        scientist=Snooper(told, Record(0), belief=belief),
    )
    assert set(rumap.engine) == {"exact"}
    assert_allclose(rumap.intruder_uncertainty, rumap.scientist_uncertainty, rtol=1e-9)
    clipped = Snooper(lambda y: max(y.mean(), 0.0), Average(), belief=belief)
    assert pick("auto", clipped, [Noise(variance=1.0)]).solve(clipped, [Noise(variance=1.0)]).engine == "simulated"


@given(
    st.integers(2, 8),
    st.floats(0.2, 4.0),
    st.floats(0.1, 5.0),
    st.floats(0.0, 4.0),
    st.integers(0, 3),
    st.sampled_from(["mean", "row", "half"]),
)
@settings(deadline=None, max_examples=50)
def test_bayes_is_never_worse(n, variance, prior, noise, kind, rule):
    belief = NormalBelief(records=n, variance=variance, prior_mean=0.5, prior_variance=prior)
    mask = [
        Noise(variance=noise),
        Noise(variance=noise) | Microaggregate(groups=1),
        Noise(variance=noise) | Shuffle(),
        Subsample(size=1),
    ][kind]
    estimator = {"mean": "mean", "row": Row(0), "half": WeightedSum([0.5, *[0.0] * (n - 1)])}[rule]
    if kind >= 2:
        estimator = "mean"
    rumap = evaluate(
        [mask], intruder=Snooper(estimator, Record(0), belief=belief), scientist=User(belief, Record(0), Quadratic())
    )
    assert rumap.engine == ("exact",)
    assert rumap.intruder_uncertainty[0] >= rumap.scientist_uncertainty[0] * (1 - 1e-10) - 1e-12


def test_bayes_and_plug_in_agree_where_the_plug_in_is_bayes():
    for target in (Parameter("mu"), NewRecord()):
        rumap = evaluate(
            [Noise(variance=v) for v in GRID],
            intruder=Snooper("mean", target, belief=FLAT),
            scientist=User(FLAT, target, Quadratic()),
        )
        assert_allclose(rumap.intruder_uncertainty, rumap.scientist_uncertainty, rtol=1e-12)


def test_a_biased_rule_under_a_flat_prior_is_infinitely_uncertain():
    found = uncertainty(
        Snooper(WeightedSum([0.5, 0.4]), Parameter("mu"), belief=NormalBelief(records=2, variance=1, prior="flat")),
        Noise(variance=1.0),
    )
    assert found[0] == np.inf
    wide = NormalBelief(records=2, variance=1, prior_variance=1e12)
    assert uncertainty(Snooper(WeightedSum([0.5, 0.4]), Parameter("mu"), belief=wide), Noise(variance=1.0))[0] > 1e9


def test_a_million_records():
    belief = NormalBelief(records=1_000_000, variance=1.0, prior="flat")
    found = uncertainty(Snooper("mean", Record(5), belief=belief), [Noise(variance=v) for v in (0.0, 1.0)])[0]
    assert_allclose(found, [1 - 1e-6, 1.0], rtol=1e-12)


# -- by simulation ---------------------------------------------------------------------------------------------------


@pytest.mark.campaign(3)
@pytest.mark.parametrize(
    ("n", "rank"), [(10, 10), (10, 4), (50, 1), (50, 25), (77, 77), (200, 198), (1000, 1000), (1000, 990)]
)
def test_order_statistics_against_the_exact_law(n, rank):
    belief = NormalBelief(records=n, variance=2.0, prior="flat")
    user = Snooper(OrderStatistic(rank), OrderStatistic(rank), belief=belief)
    found, error = uncertainty(user, [Noise(variance=v) for v in (0.1, 0.5, 4.0)], replicates=1500, seed=n + rank)
    expected = closed.order_statistic_mse(n, 2.0, np.array([0.1, 0.5, 4.0]), rank)
    assert np.all(error > 0) and np.all(np.abs(found - expected) < 4 * error)
    assert np.all(error < 0.08 * found)


def test_index_knowledge_of_an_order_statistic_is_the_noise():
    # Which record is the largest does not depend on the noise, so the error is the noise of that row.
    belief = NormalBelief(records=30, variance=2.0, prior="known")
    found, error = uncertainty(Snooper("row", Maximum(), belief=belief), Noise(variance=0.6), replicates=3000, seed=5)
    assert abs(found[0] - 0.6) < 4 * error[0] and error[0] < 0.03


@pytest.mark.slow
def test_exact_and_simulated_agree():
    belief = NormalBelief(records=9, variance=2.0, prior_mean=-1.0, prior_variance=1.5)
    masks = [
        Noise(variance=0.7),
        Noise(variance=0.7) | Microaggregate(groups=2),
        Suppress(rows=[3]) | Noise(variance=0.3),
        Subsample(size=5),
    ]
    for rule, target, loss in [
        ("mean", Record(1), Quadratic()),
        ("mean", NewRecord(), Absolute()),
        ("mean", Parameter("mu"), Linex(0.4)),
    ]:
        user = Snooper(rule, target, loss, belief=belief)
        exact = FixedRule().solve(user, masks)
        drawn = FixedRule(method="simulate").solve(user, masks, replicates=200, seed=np.random.SeedSequence(3))
        assert exact.engine == "exact" and drawn.engine == "simulated"
        assert np.all(np.abs(exact.uncertainty - drawn.uncertainty) < 4 * drawn.error)


def test_exact_given_data_agrees_with_simulation():
    x = np.array([1.0, 4.0, 2.5, 9.0, 3.0])
    masks = [Noise(variance=0.5), Noise(variance=0.5) | Microaggregate(groups=2), Noise(sd=[0.1, 0.2, 0.3, 0.4, 0.5])]
    for user in (
        Snooper("row", Maximum()),
        Snooper("mean", Record(2)),
        Snooper(Row(1), Average(), Absolute()),
        Snooper("row", Percentile(0.5)),
    ):
        exact = FixedRule().solve(user, masks, data=x)
        drawn = FixedRule(method="simulate").solve(user, masks, data=x, replicates=200, seed=np.random.SeedSequence(9))
        assert exact.engine == "exact"
        assert np.all(np.abs(exact.uncertainty - drawn.uncertainty) <= 4 * drawn.error + 1e-12)
    assert_allclose(
        FixedRule().solve(Snooper("row", Maximum()), [Noise(variance=0.5)], data=x).uncertainty, 0.5, rtol=1e-13
    )
    assert_allclose(
        FixedRule().solve(Snooper("mean", Record(3)), [Noise(variance=0.5)], data=x).uncertainty,
        0.1 + 5.1**2,
        rtol=1e-13,
    )


def test_the_block_of_replicates_is_what_the_masks_would_release():
    x = np.random.default_rng(0).gamma(3.0, 5.0, 40)
    masks = [Noise(sd=s) | Clip(lower=0, upper=50) for s in (2.0, 9.0)] + [Noise(variance=9.0, kind="laplace"), Noise(sd=lambda v: 0.2 * v),
             Noise(variance=lambda v: 4.0 * (1 + (v > 20)))]  # fmt: skip
    for rule, same in [
        ("max", lambda y: float(np.max(y))),
        ("mean", lambda y: float(np.mean(y))),
        (Percentile(0.9), lambda y: float(np.sort(y)[35])),
    ]:
        together = uncertainty(Snooper(rule, Percentile(0.9)), masks, data=x, replicates=50, seed=4)
        apart = uncertainty(Snooper(same, Percentile(0.9)), masks, data=x, replicates=50, seed=4)
        # Linear masks may be exact for the linear rule; the simulated ones must match to rounding.
        for i in range(len(masks)):
            if together[1][i] > 0:
                assert together[0][i] == pytest.approx(apart[0][i], rel=1e-10)


def test_blocks_do_not_change_the_numbers(monkeypatch):
    x = np.random.default_rng(0).gamma(3.0, 5.0, 40)
    masks = [Noise(sd=s) | Clip(lower=0) for s in (2.0, 9.0)]
    whole = uncertainty(Snooper("max", Maximum()), masks, data=x, seed=4)
    monkeypatch.setattr("ruvdecision.engines.rules.fixed_rule.CHUNK", 100)
    assert_allclose(uncertainty(Snooper("max", Maximum()), masks, data=x, seed=4), whole, rtol=1e-13)


def test_seeds_reproduce_and_differ():
    belief = NormalBelief(records=15, variance=1.0, prior_variance=1.0)
    user = Snooper("max", Maximum(), belief=belief)
    first, again, other = (uncertainty(user, Noise(variance=0.3), seed=s)[0] for s in (1, 1, 2))
    assert first == again != other
    alone = uncertainty(user, Noise(variance=0.3), seed=1)[0]
    beside = uncertainty(
        user, [Noise(variance=v) for v in (0.1, 0.3)] + [Noise(variance=0.3) | Microaggregate(groups=1)], seed=1
    )[0]
    assert alone[0] == pytest.approx(beside[1], rel=1e-12)


def test_common_random_numbers_make_curves_smooth():
    belief = NormalBelief(records=20, variance=1.0, prior="flat")
    grid = np.linspace(0.2, 0.6, 41)
    found, error = uncertainty(
        Snooper("max", Maximum(), belief=belief), [Noise(variance=float(v)) for v in grid], seed=3
    )
    # With fresh numbers neighbours would differ by about error * sqrt(2).
    assert np.abs(np.diff(found, 2)).max() < 0.1 * error.min()


@pytest.mark.campaign(2, "slow")
@pytest.mark.parametrize("n", [10, 177])
def test_the_scientist_of_section_five(n):
    x = np.random.default_rng(8).gamma(2.0, 10.0, n)
    v = np.array([20.0, 200.0])
    found, error = uncertainty(
        Snooper("mean", Parameter("mu")),
        [Noise(variance=s) | Clip(lower=0) for s in v],
        data=x,
        replicates=2000,
        seed=2,
    )
    assert np.all(error > 0) and np.all(np.abs(found - incomes.scientist_mse(x, v)) < 4 * error)
    doubled, _ = uncertainty(
        Snooper("mean", Parameter("mu"), Quadratic(2.0)),
        [Noise(variance=s) | Clip(lower=0) for s in v],
        data=x,
        replicates=2000,
        seed=2,
    )
    assert_allclose(doubled, 2 * found, rtol=1e-12)


@pytest.mark.slow
def test_the_scientist_does_not_depend_on_the_number_of_replicates():
    # The squared bias of a mean of few means is too large unless its variance is taken off.
    x = np.random.default_rng(8).gamma(2.0, 10.0, 30)
    user, mask = Snooper("mean", Parameter("mu")), Noise(variance=200.0) | Clip(lower=0)
    few = np.array([uncertainty(user, mask, data=x, replicates=3, seed=s)[0][0] for s in range(300)])
    assert abs(few.mean() - incomes.scientist_mse(x, [200.0])[0]) < 4 * few.std(ddof=1) / np.sqrt(len(few))


def test_the_scientist_of_several_variables():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(40, 2)) * [1.0, 3.0] + [5.0, 20.0]
    weights = np.array([[2.0, 0.5], [0.5, 1.0]])
    found, error = uncertainty(
        Snooper("mean", Parameter("mu"), Quadratic(weights)), Noise(variance=0.5), data=x, replicates=3000, seed=1
    )
    expected = np.trace(weights @ (np.cov(x, rowvar=False) + 0.5 * np.eye(2))) / 40
    assert abs(found[0] - expected) < 4 * error[0]


def test_other_beliefs_are_drawn_from():
    belief = FiniteBelief(values=[0.2, 0.6], probabilities=[0.5, 0.5], likelihood=[[0.8, 0.2], [0.4, 0.6]], records=12)
    found, error = uncertainty(Snooper("mean", Average(), belief=belief), Noise(variance=0.3), replicates=2000, seed=1)
    assert abs(found[0] - 0.3 / 12) < 4 * error[0]
    found, error = uncertainty(Snooper("max", Maximum(), belief=belief), Release(), replicates=20, seed=1)
    assert found[0] == 0


def test_a_known_mean_for_simulation_beats_a_flat_one_only_where_it_matters():
    flat, known = (NormalBelief(records=40, variance=1.0, prior=p) for p in ("flat", "known"))
    values = [
        uncertainty(Snooper("max", Maximum(), belief=b), Noise(variance=0.5), seed=6)[0][0] for b in (flat, known)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def test_the_maximum_for_the_mean_of_the_population():
    # A rule and a target that have nothing to do with each other: E (Y_(n) - mu)^2 = (s2 + l2) E Z_(n)^2.
    belief = NormalBelief(records=25, variance=1.0, prior="flat")
    found, error = uncertainty(
        Snooper("max", Parameter("mu"), belief=belief), Noise(variance=0.5), replicates=3000, seed=6
    )
    mean, spread = normal_moments(25, 25)
    assert abs(found[0] - 1.5 * (mean**2 + spread)) < 4 * error[0]


def test_vector_rules_targets_and_intervals():
    x = np.array([1.0, 4.0, 2.5, 9.0])
    found, error = uncertainty(Snooper(lambda y: y, Records()), Noise(variance=0.5), data=x, replicates=2000, seed=1)
    assert abs(found[0] - 2.0) < 4 * error[0]
    interval = Snooper(lambda y: (y[0] - 1.0, y[0] + 1.0), Record(0), IntervalScore(0.9))
    found, error = uncertainty(interval, Noise(variance=0.5), data=x, replicates=4000, seed=1)
    s = np.sqrt(0.5)
    beyond = s * (stats.norm.pdf(1 / s) - stats.norm.sf(1 / s) / s)
    assert abs(found[0] - (2 + 2 / 0.1 * 2 * beyond)) < 4 * error[0]


def test_snoopers_and_bayesian_users_mix():
    belief = NormalBelief(records=20, variance=1.0, prior_variance=2.0)
    rumap = evaluate(
        [Noise(variance=v) for v in GRID],
        intruder=Snooper("max", Maximum(), belief=belief),
        scientist=User(belief, Parameter("mu"), Quadratic()),
        seed=1,
    )
    assert set(rumap.engine) == {"simulated / exact"}
    assert np.all(rumap.risk_error > 0) and not rumap.utility_error.any()
    assert "takes" in rumap.attrs["intruder"] and "wants" in rumap.attrs["scientist"]
    for engine in (Exact(), "exact"):
        with pytest.raises(UnsupportedError, match="simulates"):
            evaluate(
                [Noise(variance=1.0)],
                intruder=Snooper("max", Maximum(), belief=belief),
                scientist=rumap_user(belief),
                engine=engine,
            )
        assert evaluate(
            [Noise(variance=1.0)],
            intruder=Snooper("mean", Record(0), belief=belief),
            scientist=rumap_user(belief),
            engine=engine,
        ).engine == ("exact",)
    forced = evaluate(
        [Noise(variance=1.0)],
        intruder=Snooper("row", Record(0), belief=belief),
        scientist=rumap_user(belief),
        engine=FixedRule("simulate"),
    )
    assert forced.engine == ("simulated / exact",)


def rumap_user(belief):
    return User(belief, Parameter("mu"), Quadratic())


def test_optimise_takes_snoopers():
    best = optimise(
        lambda variance: Noise(variance=variance),
        intruder=Snooper("row", Record(0), belief=FLAT),
        scientist=MEAN,
        max_risk=5,
    )
    assert best.parameters["variance"] == pytest.approx(0.2, rel=1e-9) and best.utility == pytest.approx(
        1000 / 6, rel=1e-9
    )


def test_nothing_released_leaves_no_estimate():
    belief = NormalBelief(records=4, variance=1.0, prior_variance=1.0)
    masks = [Suppress(), Noise(variance=np.inf), Noise(variance=1.0)]
    for user in (
        Snooper("mean", Average(), belief=belief),
        Snooper("max", Maximum(), belief=belief),
        Snooper(Row(1), Record(1), belief=belief),
    ):
        rumap = evaluate(masks, intruder=user, scientist=rumap_user(belief), seed=1, replicates=20)
        assert rumap.risk[:2].tolist() == [0, 0] and rumap.risk[2] > 0
    hidden = evaluate(
        [Suppress(rows=[1]), Release()],
        intruder=Snooper(Row(1), Record(1), belief=belief),
        scientist=rumap_user(belief),
    )
    assert hidden.intruder_uncertainty.tolist() == [np.inf, 0.0]
    with pytest.raises(UnsupportedError, match="some releases hold no value"):
        uncertainty(Snooper(Row(1), Record(1), belief=belief), Subsample(size=2), seed=1)


def test_a_large_file_does_not_fill_the_memory():
    x = np.random.default_rng(1).gamma(2.0, 1.0, 100_000)
    masks = [Noise(variance=float(v)) | Clip(lower=0) for v in np.linspace(0.1, 1, 4)]
    tracemalloc.start()
    found, _ = uncertainty(Snooper("max", Maximum()), masks, data=x, replicates=20, seed=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.all(found > 0) and peak < 100e6


@pytest.mark.slow
def test_frames_and_named_columns():
    frame = pd.DataFrame({"income": [10.0, 30.0, 20.0], "age": [30.0, 50.0, 40.0]}, index=["a", "b", "c"])
    mask = Noise(sd=2.0, columns="income")
    found = uncertainty(Snooper("row", Record(1)), mask, data=frame)
    assert_allclose(found[0], 4.0, rtol=1e-12)
    by_hand = uncertainty(Snooper(lambda r: r.loc["b"].to_numpy(), Record(1)), mask, data=frame, replicates=500, seed=3)
    assert abs(by_hand[0][0] - 4.0) < 4 * by_hand[1][0]
    peak = uncertainty(
        Snooper("row", Maximum()), [mask, Noise(variance=1.0) | Clip(lower=0)], data=frame, replicates=500, seed=3
    )
    assert np.all(np.abs(peak[0] - [4.0, 2.0]) < 4 * peak[1])


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Snooper("maen", Record(0)), "Did you mean 'mean'"),
        (lambda: Snooper(3.0, Record(0)), "a rule, or a function"),
        (lambda: Snooper(Mean, Record(0)), "the class Mean"),
        (lambda: Snooper("mean", 3), "needs a target"),
        (lambda: Snooper("mean", Record), "needs a target"),
        (lambda: Snooper("row", Average()), "not one record"),
        (lambda: Snooper("row", Parameter("mu")), "give the row"),
        (lambda: Snooper("mean", Record(0), loss=3), "loss must be"),
        (lambda: Snooper("mean", Record(0), belief=3), "must be a belief"),
        (
            lambda: Snooper("mean", Record(9), belief=NormalBelief(records=5, variance=1, prior="flat")),
            "between 0 and 4",
        ),
        (
            lambda: Snooper("max", OrderStatistic(9), belief=NormalBelief(records=5, variance=1, prior="flat")),
            "between 1 and 5",
        ),
        (lambda: Snooper("mean", Parameter("nobody"), belief=FLAT), "no such parameter"),
        (lambda: Percentile(1.0), r"ceil\(n p\)"),
        (lambda: Percentile(0), "strictly between 0 and 1"),
        (lambda: Percentile("a"), "strictly between 0 and 1"),
        (lambda: OrderStatistic(0), "at least 1"),
        (lambda: OrderStatistic(1.5), "whole number"),
        (lambda: WeightedSum([]), "one number per row"),
        (lambda: WeightedSum([np.nan]), "finite"),
        (lambda: Row(1.5), "whole number"),
        (lambda: Row()([1.0, 2.0]), "row of the target's record"),
        (lambda: Row(5)([1.0, 2.0]), "between 0 and 1"),
        (lambda: Custom(3), "function of the release"),
        (lambda: Ranked(3), "a target with a rank"),
        (lambda: FixedRule("bayes"), "'auto', 'exact', 'simulate'"),
        (lambda: uncertainty(Snooper("mean", Record(0)), Noise(variance=1.0)), "data or a belief"),
        (
            lambda: uncertainty(Snooper("max", OrderStatistic(4)), Noise(variance=1.0), data=[1.0, 2.0, 3.0]),
            "between 1 and 3",
        ),
        (lambda: uncertainty(Snooper(Row(4), Record(0)), Noise(variance=1.0), data=[1.0, 2.0, 3.0]), "between 0 and 2"),
        (lambda: uncertainty(Snooper("mean", Record(4)), Noise(variance=1.0), data=[1.0, 2.0, 3.0]), "between 0 and 2"),
        (
            lambda: uncertainty(Snooper(WeightedSum([1.0]), Record(0)), Noise(variance=1.0), data=[1.0, 2.0]),
            "each of the 2 rows",
        ),
        (
            lambda: uncertainty(Snooper("mean", Record(0), belief=FLAT), Noise(variance=1.0), data=[1.0, 2.0]),
            "200 records",
        ),
        (lambda: uncertainty(Snooper("mean", Record(0)), Noise(variance=1.0), data=[1.0, np.nan]), "missing"),
        (lambda: uncertainty(Snooper("mean", Record(0)), Noise(variance=1.0), data=["a", "b"]), "numeric"),
        (
            lambda: uncertainty(Snooper("mean", Parameter("mu")), Noise(variance=1.0), data=[1.0]),
            "at least two records",
        ),
        (
            lambda: uncertainty(Snooper(lambda y: y[:2], Record(0)), Noise(variance=1.0), data=[1.0, 2.0, 3.0]),
            "must give 1 number",
        ),
        (
            lambda: uncertainty(Snooper(lambda y: "a", Record(0)), Noise(variance=1.0), data=[1.0, 2.0, 3.0]),
            "fails on a release",
        ),
        (
            lambda: uncertainty(Snooper(lambda y: y[7], Record(0)), Noise(variance=1.0), data=[1.0, 2.0, 3.0]),
            "fails on a release",
        ),
        (
            lambda: uncertainty(Snooper("mean", Record(0), IntervalScore()), Noise(variance=1.0), data=[1.0, 2.0, 3.0]),
            "interval",
        ),
        (lambda: evaluate([Noise(variance=1.0)], intruder="max", scientist=MEAN), "User, a Snooper or a Panel"),
        (lambda: evaluate([Noise(variance=1.0)], intruder=MEAN, scientist=MEAN, engine="gibbs"), "engine must be"),
        (
            lambda: evaluate([Noise(variance=1.0)], intruder=MEAN, scientist=MEAN, risk="relative_gain"),
            "before the release",
        ),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: uncertainty(Snooper("max", Parameter("mu")), Noise(variance=1.0), data=[1.0, 2.0]), "eqs 13 and 14"),
        (
            lambda: uncertainty(Snooper("mean", Parameter("mu"), Absolute()), Noise(variance=1.0), data=[1.0, 2.0]),
            "eqs 13 and 14",
        ),
        (lambda: uncertainty(Snooper("mean", NewRecord()), Noise(variance=1.0), data=[1.0, 2.0]), "not in the records"),
        (
            lambda: uncertainty(Snooper(lambda y: np.exp(y.max()), Maximum(), belief=FLAT), Noise(variance=1.0)),
            "flat prior",
        ),
        (lambda: posterior(MEAN, Noise(variance=1.0)), "no posterior"),
    ],
)
def test_what_is_not_offered_says_so(call, words):
    with pytest.raises(UnsupportedError, match=words):
        call()


def test_a_log_score_of_a_point_is_infinite():
    assert uncertainty(Snooper("mean", Record(0), LogScore(), belief=FLAT), Noise(variance=1.0))[0] == np.inf


@pytest.mark.parametrize(("n", "rank"), [(5, 3), (6, None), (1, 1)])
def test_the_median_of_an_odd_number_is_a_rank(n, rank):
    from ruvdecision.users.rules import Median

    assert Median().rank(n) == rank
    if rank is not None:
        values = np.random.default_rng(0).normal(size=n)
        assert Median()(values) == np.sort(values)[rank - 1]
