"""Cases of additive noise that a reviewer tried: outlying records, exact maps of records at hand, odd arguments."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from ruvdecision import plots
from ruvdecision.engines import FixedRule
from ruvdecision.engines.rules.clipped_noise import ranked_record_mse, scientist_mse
from ruvdecision.errors import InfeasibleError, InputError, UnsupportedError
from ruvdecision.evaluate import evaluate
from ruvdecision.losses import Absolute, Quadratic
from ruvdecision.masks import Clip
from ruvdecision.masks.noise import Noise
from ruvdecision.masks.rows import Suppress
from ruvdecision.scenarios import Masked, RankPosterior, additive_noise, curves, empirical, optimal_noise
from ruvdecision.targets import Average, Maximum, Minimum, OrderStatistic, Parameter, Percentile, Record, Records
from ruvdecision.users.rules import WeightedSum
from ruvdecision.users.user import Snooper

INCOMES = np.random.default_rng(0).lognormal(3, 1, 60)
SCIENTIST = Snooper("mean", Parameter("mu"))


# -- a record far from all others ----------------------------------------------------------------------------


@pytest.mark.parametrize("far", [1e3, 1e6, 1e9])
def test_a_rank_far_from_the_others_has_the_error_of_the_noise(far: float) -> None:
    # 100, 130 and 180 are 30 noise sds apart: each keeps its rank.
    x = np.array([100.0, 130.0, 180.0, 200.0 + far])
    # Numbers near 1e9 are 1e-7 apart, so the largest is told to as many digits.
    for rank in (1, 2, 4):
        assert ranked_record_mse(x, [1.0], rank)[0] == pytest.approx(1.0, rel=1e-9 if rank < 4 else 1e-9 + 1e-15 * far)


def test_close_records_beside_one_far_off() -> None:
    # Nobody but the two close records matters for rank 2: the larger of two normals, by quadrature.
    x, v = np.array([50.0, 51.0, 4e7]), 2.0

    def density(y: float) -> float:
        a, b = (stats.norm(m, np.sqrt(v)) for m in x[:2])
        return float(a.pdf(y) * b.cdf(y) + b.pdf(y) * a.cdf(y))

    known = integrate.quad(lambda y: (y - 51.0) ** 2 * density(y), 30, 70, epsabs=1e-12, limit=200)[0]
    assert ranked_record_mse(x, [v], 2)[0] == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize(
    ("means", "sds"), [((0.0, 1.0), (1e-4, 50.0)), ((0.0, 5.0), (1e-3, 40.0)), ((-3.0, 1.0), (1.0, 1e-4))]
)
def test_a_record_with_little_noise_beside_one_with_much(means: tuple[float, float], sds: tuple[float, float]) -> None:
    # The larger of two normals: Clark (1961), with the second mean as the origin.
    gap, wide = means[0] - means[1], np.hypot(*sds)
    a = gap / wide
    known = (gap**2 + sds[0] ** 2) * stats.norm.cdf(a) + sds[1] ** 2 * stats.norm.sf(a) + gap * wide * stats.norm.pdf(a)
    found = ranked_record_mse(means, [np.square(sds)], 2, lower=None)
    assert found[0] == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_far_release_does_not_blur_the_posterior_of_a_rank(rank: int) -> None:
    near = RankPosterior([0.0, 0.1, 0.3, 50.0], rank, 1.0, 0.21, prior="known")
    far = RankPosterior([0.0, 0.1, 0.3, 1e7], rank, 1.0, 0.21, prior="known")
    assert far.mean() == pytest.approx(near.mean(), abs=1e-9)
    assert far.var() == pytest.approx(near.var(), rel=1e-8)


def test_the_posterior_of_a_middle_rank_of_many_records() -> None:
    n = 500
    y = np.random.default_rng(1).normal(size=n)
    posterior = RankPosterior(y, 180, 1.0, 0.5, prior="known")
    draws = y / 1.5 + np.sqrt(0.5 / 1.5) * np.random.default_rng(2).normal(size=(1000, n))
    ranked = np.sort(draws, axis=1)[:, 179]
    assert posterior.mean() == pytest.approx(ranked.mean(), abs=4 * ranked.std() / np.sqrt(1000))
    assert posterior.var() == pytest.approx(ranked.var(), rel=4 * np.sqrt(2 / 1000))


@pytest.mark.parametrize(
    ("law", "rank"), [(stats.beta(0.1, 0.1), 50), (stats.beta(0.1, 0.1), 49), (stats.beta(0.05, 1.0), 1)]
)
def test_a_population_that_piles_up_at_its_ends(law: Any, rank: int) -> None:
    # Many of its values are rounded to 0 or 1, the ends of its range.
    n, v, times = 50, 1e-4, 4000
    rng = np.random.default_rng(1)
    x = law.rvs((times, n), random_state=rng)
    y = x + np.sqrt(v) * rng.normal(size=x.shape)
    loss = (np.partition(x, rank - 1)[:, rank - 1] - np.partition(y, rank - 1)[:, rank - 1]) ** 2
    assert Masked(law, v).order_statistic_mse(n, rank) == pytest.approx(
        loss.mean(), abs=4 * loss.std() / np.sqrt(times)
    )


# -- exact maps of records at hand -----------------------------------------------------------------------------


MASKS = [
    Noise(variance=5.0) | Clip(lower=0),
    Noise(variance=100.0) | Clip(lower=0),
    Noise(variance=100.0),
    Noise(sd=0.3 * INCOMES) | Clip(lower=0, upper=500),
    Noise(sd=lambda v: 0.2 * v) | Clip(upper=500),
    Noise(variance=np.where(INCOMES > 35, 45.0, 5.0)) | Clip(lower=0),
]


@pytest.mark.parametrize(
    ("rule", "target"),
    [
        ("max", Maximum()),
        ("row", Maximum()),
        (Percentile(0.9), Percentile(0.9)),
        ("min", Maximum()),
        ("max", Record(3)),
        ("mean", Average()),
        ("mean", Record(2)),
        ("lower median", Average()),
        (WeightedSum(np.r_[0.5, np.zeros(59)], offset=2.0), Record(0)),
    ],
)
def test_exact_and_simulated_snoopers_of_records_at_hand_agree(rule: Any, target: Any) -> None:
    snooper = Snooper(rule, target)
    exact = evaluate(MASKS, intruder=snooper, scientist=SCIENTIST, data=INCOMES, engine="exact").to_dataframe()
    drawn = evaluate(MASKS, intruder=snooper, scientist=SCIENTIST, data=INCOMES, replicates=600, seed=5).to_dataframe()
    assert set(exact["engine"]) == {"exact"}
    for user, room in (("intruder", 1e-9), ("scientist", 0.0)):
        assert (exact[f"{user}_error"] == 0).all()
        gap = (drawn[f"{user}_uncertainty"] - exact[f"{user}_uncertainty"]).abs()
        assert (gap <= 4 * drawn[f"{user}_error"] + room).all()


def test_evaluate_and_empirical_give_the_same_exact_map() -> None:
    grid = [5.0, 80.0]
    whole = empirical(INCOMES, grid, ["maximum", "minimum", 0.9], method="exact")
    for (name, target), (state, rule) in product(
        {"maximum": Maximum(), "minimum": Minimum(), "percentile 0.9": Percentile(0.9)}.items(),
        {"index": "row", "position": None}.items(),
    ):
        one = evaluate(
            [Noise(variance=v) | Clip(lower=0) for v in grid],
            intruder=Snooper(rule or target, target),
            scientist=SCIENTIST,
            data=INCOMES,
            engine="exact",
        )
        there = whole.select(target=name, knowledge=state)
        np.testing.assert_allclose(one.intruder_uncertainty, there.intruder_uncertainty, rtol=1e-10)
        np.testing.assert_allclose(one.scientist_uncertainty, there.scientist_uncertainty, rtol=1e-10)


def test_a_weighted_loss_is_weighted_exactly() -> None:
    plain, double = (
        evaluate(
            [MASKS[0]], intruder=Snooper("max", Maximum(), loss), scientist=SCIENTIST, data=INCOMES, engine="exact"
        )
        for loss in (Quadratic(), Quadratic(weights=[[2.0]]))
    )
    np.testing.assert_allclose(double.intruder_uncertainty, 2 * plain.intruder_uncertainty, rtol=1e-12)


@pytest.mark.parametrize(
    ("mask", "snooper"),
    [
        (Noise(variance=1, kind="laplace"), Snooper("max", Maximum())),
        (Noise(variance=1) | Clip(lower=0), Snooper("max", Maximum(), Absolute())),
        (Noise(variance=1) | Clip(lower=0), Snooper(lambda y: y.max(), Maximum())),
        (Noise(variance=np.inf), Snooper("max", Maximum())),
        (Suppress(), Snooper("max", Maximum())),
    ],
)
def test_what_has_no_exact_value_is_refused(mask: Any, snooper: Snooper) -> None:
    with pytest.raises(UnsupportedError, match="engine='auto'"):
        evaluate([mask], intruder=snooper, scientist=SCIENTIST, data=INCOMES, engine="exact")


def test_a_vector_target_needs_a_vector_rule() -> None:
    with pytest.raises((InputError, UnsupportedError)):
        FixedRule("exact").solve(Snooper("max", Records()), [MASKS[0]], data=INCOMES)


def test_a_rank_for_another_value() -> None:
    x = np.array([1.0, 4.0, 9.0])
    assert ranked_record_mse(x, [0.0], 3, target=4.0)[0] == 25.0
    # Far apart and no bound near: noise variance plus squared distance.
    assert ranked_record_mse(100 * x, [1.0], 3, target=400.0)[0] == pytest.approx(500.0**2 + 1, rel=1e-10)
    assert ranked_record_mse([3.0, 1e9], [1.0], 2, target=3.0)[0] == pytest.approx((1e9 - 3) ** 2 + 1, rel=1e-13)
    # Much noise and both bounds: Y_(3) is far from x_(3); brute force over the law of the maximum of three.
    at = np.linspace(0, 12, 400_001)
    law = np.prod([stats.norm(m, 4.0).cdf(at) for m in x], axis=0)
    known = (
        (0 - 4.0) ** 2 * law[0]
        + (12 - 4.0) ** 2 * (1 - law[-1])
        + np.sum(((at[1:] + at[:-1]) / 2 - 4.0) ** 2 * np.diff(law))
    )
    assert ranked_record_mse(x, [16.0], 3, upper=12.0, target=4.0)[0] == pytest.approx(known, rel=1e-7)
    with pytest.raises(InputError, match="target"):
        ranked_record_mse(x, [1.0], 3, target=np.nan)


def test_the_scientist_is_that_of_equation_14() -> None:
    found = evaluate([MASKS[1]], intruder=Snooper("max", Maximum()), scientist=SCIENTIST, data=INCOMES, engine="exact")
    assert found.scientist_uncertainty[0] == pytest.approx(scientist_mse(INCOMES, 100.0)[0], rel=1e-12)


# -- arguments ---------------------------------------------------------------------------------------------------


def test_states_of_knowledge_may_come_in_an_array() -> None:
    listed = additive_noise(n=20, noise_variance=[0.1], knowledge=["record", "sample"], method=["paper", "exact"])
    array = additive_noise(
        n=20, noise_variance=[0.1], knowledge=np.array(["record", "sample"]), method=np.array(["paper", "exact"])
    )
    np.testing.assert_array_equal(listed.risk, array.risk)
    with pytest.raises(InputError, match="'population', 'sample', 'record'"):
        additive_noise(n=20, noise_variance=[0.1], knowledge=np.array(["record", "nothing"]))


def test_an_error_about_where_does_not_show_which_records_are_sensitive() -> None:
    with pytest.raises(InputError, match="where alone") as caught:
        empirical(INCOMES, [5.0], where=INCOMES > 35)
    assert "False" not in str(caught.value)


def test_a_rule_that_fails_is_named() -> None:
    def theirRule(release: Any) -> str:
        return "a"

    for rule, words in ((theirRule, "The rule theirRule fails"), (lambda release: "a", "A rule of their own fails")):
        with pytest.raises(InputError, match=words):
            evaluate(
                [MASKS[0]],
                intruder=Snooper(rule, OrderStatistic(3)),
                scientist=SCIENTIST,
                data=INCOMES,
                replicates=2,
                seed=1,
            )


@pytest.mark.long
def test_the_risk_at_an_optimum_is_allowed() -> None:
    # Not by rounding a little above the threshold, which a comparison would refuse.
    listed = curves(n=200, target="percentile", p=0.99, knowledge=["population", "sample"], method=["paper", "exact"])
    listed += curves(n=77, variance=9, target="maximum", rank=3, method=["paper", "exact", "bayes"])
    for max_risk in (0.4, 0.5, 0.7):
        for best in optimal_noise(listed, max_risk):
            assert best.risk <= max_risk and best.risk == pytest.approx(max_risk, rel=1e-10)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_risk": np.nan}, "max_risk"),
        ({"max_risk": "five"}, "max_risk"),
        ({"risk_range": (0.0, 1.0), "log": "y"}, "risk_range must be positive"),
        ({"risk_range": (2.0, 1.0)}, "lower and an upper end"),
    ],
)
def test_a_picture_of_knowledge_refuses_what_it_cannot_draw(options: dict[str, Any], words: str) -> None:
    rumap = additive_noise(n=20, noise_variance=[0.1, 0.5, 1.0], knowledge=["record", "population"])
    with pytest.raises(InputError, match=words):
        plots.knowledge(rumap, **options)
    with pytest.raises(InputError, match="rumap must be an RUMap"):
        plots.knowledge(3)  # type: ignore[arg-type]


def test_one_infeasible_curve_does_not_cost_the_others():
    """With the mean known, a row's Bayes risk never falls below 1 / variance; the plug-in risk of eq. 4 does."""
    both = curves(n=200, knowledge="record", method=["paper", "bayes"], prior="known")
    paper, bayes = optimal_noise(both, max_risk=0.5)
    assert paper.noise_variance == pytest.approx(2.0, rel=1e-12)
    assert np.isnan(bayes.noise_variance)
    with pytest.raises(InfeasibleError):
        optimal_noise([both[1]], max_risk=0.5)
