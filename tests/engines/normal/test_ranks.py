"""Bayesian users who want an order statistic of the records."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose

from ruvdecision.beliefs import NormalBelief
from ruvdecision.engines import Exact, Ranks, pick
from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.evaluate import evaluate, posterior
from ruvdecision.losses import Absolute, Quadratic
from ruvdecision.masks import Microaggregate, Noise, Release, Shuffle, Subsample, Suppress
from ruvdecision.numerics.orderstatistics import normal_moments
from ruvdecision.scenarios import Curve, RankPosterior
from ruvdecision.targets import Maximum, Minimum, OrderStatistic, Parameter, Percentile, Record
from ruvdecision.users.user import Snooper, User

GRID = [0.05, 0.21, 1.0, 3.0]


def solve(user, masks, **options):
    data = options.pop("data", None)
    seed = np.random.SeedSequence(options.pop("seed", 0))
    found = pick("auto", user, masks, data).solve(user, masks, data=data, seed=seed, **options)
    return found.uncertainty, found.error, (found.engine,) if isinstance(found.engine, str) else found.engine


@pytest.mark.campaign(3, "slow")
@pytest.mark.parametrize("prior", ["flat", "known", ("normal", 2.5)])
def test_noise_is_the_bayes_curve_of_the_scenarios(prior):
    settings_ = {"prior": prior} if isinstance(prior, str) else {"prior_variance": prior[1]}
    belief = NormalBelief(records=200, variance=1.0, **settings_)
    for target, curve in (
        (Maximum(), {"target": "maximum"}),
        (Minimum(), {"target": "minimum"}),
        (Percentile(0.9), {"target": "percentile", "p": 0.9}),
    ):
        told = Curve(n=200, knowledge="sample", method="bayes", prior=prior, **curve).uncertainty(GRID)
        for masks in ([Noise(variance=v) for v in GRID], [Noise(sd=np.sqrt(v)) | Shuffle() for v in GRID]):
            found, error, engine = solve(User(belief, target, Quadratic()), masks)
            assert_allclose(found, told, rtol=1e-9)
            assert not error.any() and set(engine) == {"exact"}
    # Maximum, n = 200, noise variance .21: .0883 with a standard error of .0002 in the reference simulation.
    if prior == "known":
        assert solve(User(belief, Maximum(), Quadratic()), [Noise(variance=0.21)])[0][0] == pytest.approx(
            0.0883, abs=0.0004
        )


def test_the_ends_of_the_scale():
    belief = NormalBelief(records=30, variance=2.0, prior_variance=3.0)
    prior = 3.0 + 2.0 * normal_moments(30, 30).variance
    rumap = evaluate(
        [Release(), Suppress(), Noise(variance=np.inf)],
        intruder=User(belief, Maximum(), Quadratic()),
        scientist=User(belief, Maximum(), Quadratic(3.0)),
    )
    assert_allclose(rumap.intruder_uncertainty, [0.0, prior, prior], rtol=1e-12)
    assert_allclose(rumap.scientist_uncertainty, 3 * rumap.intruder_uncertainty)
    gain = evaluate(
        [Noise(variance=1.0)],
        intruder=User(belief, Maximum(), Quadratic()),
        scientist=User(belief, Parameter("mu"), Quadratic()),
        risk="relative_gain",
    )
    assert 0 < gain.risk[0] < 1
    flat = NormalBelief(records=30, variance=2.0, prior="flat")
    assert solve(User(flat, Maximum(), Quadratic()), [Suppress()])[0][0] == np.inf


@pytest.mark.slow
@given(st.integers(2, 40), st.data(), st.floats(0.2, 4.0), st.floats(0.01, 5.0))
@settings(deadline=None, max_examples=25)
def test_bayes_is_never_worse_than_the_released_order_statistic(n, data, variance, noise):
    from ruvdecision.scenarios.exact import order_statistic_mse

    rank = data.draw(st.integers(1, n))
    belief = NormalBelief(records=n, variance=variance, prior="flat")
    found = solve(User(belief, OrderStatistic(rank), Quadratic()), [Noise(variance=noise)])[0][0]
    assert 0 < found <= order_statistic_mse(n, variance, noise, rank) * (1 + 1e-9)


@pytest.mark.slow
def test_drawing_agrees_with_the_closed_form():
    belief = NormalBelief(records=12, variance=1.0, prior_mean=2.0, prior_variance=0.7)
    user = User(belief, OrderStatistic(11), Quadratic())
    exact = solve(user, [Noise(variance=0.5)])[0][0]
    # Noise that differs in the tenth digit has no closed form here, so it is drawn.
    even = Noise(variance=0.25) | Noise(variance=[0.25] * 11 + [0.25 + 1e-9])
    found, error, engine = solve(user, [even], replicates=60, seed=3)
    assert engine == ("drawn",) and 0 < error[0] < 0.08 * exact
    assert abs(found[0] - exact) < 4 * error[0]


@pytest.mark.long
def test_posterior_of_one_release_agrees_with_the_exact_law():
    belief = NormalBelief(records=8, variance=1.5, prior="flat")
    release = np.array([0.3, 1.2, 4.0, -1.0, 2.2, 2.0, 0.1, 3.1])
    for rank in (8, 5):
        law = RankPosterior(release, rank=rank, variance=1.5, noise_variance=0.6, prior="flat")
        drawn = posterior(User(belief, OrderStatistic(rank), Quadratic()), Noise(variance=0.6), release)
        n = 2000
        assert abs(float(drawn.mean()) - law.mean()) < 4 * np.sqrt(law.var() / n)
        assert float(drawn.var()) == pytest.approx(law.var(), rel=4 * np.sqrt(2.5 / n))


@pytest.mark.long
def test_other_losses_masks_data_and_variables():
    belief = NormalBelief(records=6, variance=1.0, prior_variance=1.0)
    masks = [
        Release(),
        Noise(variance=0.5) | Microaggregate(groups=2),
        Shuffle() | Noise(variance=2.0),
        Subsample(size=3),
    ]
    found, error, _ = solve(User(belief, Maximum(), Absolute()), masks, replicates=15, seed=1)
    before = np.sqrt(2 / np.pi * (1 + normal_moments(6, 6).variance))  # near the normal law's, the maximum is skew
    assert found[0] < 1e-9 and np.all(found[1:] > 0) and np.all(found[1:] < 1.05 * before + 4 * error[1:])
    data = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 9.0])
    flat = NormalBelief(records=6, variance=4.0, prior="flat")
    far = solve(User(flat, Maximum(), Quadratic()), [Noise(variance=1.0)], data=data, replicates=15, seed=1)
    # The largest is far ahead: it is known as well as any record of its own.
    assert far[0][0] == pytest.approx(solve(User(flat, Record(5), Quadratic()), [Noise(variance=1.0)])[0][0], rel=0.15)
    two = NormalBelief(records=5, covariance=np.diag([1.0, 4.0]), prior_covariance=np.eye(2))
    pair = solve(User(two, Maximum(), Quadratic([1.0, 0.25])), [Noise(variance=[0.5, 2.0])], replicates=15, seed=1)
    one = (
        NormalBelief(records=5, variance=1.0, prior_variance=1.0),
        NormalBelief(records=5, variance=4.0, prior_variance=1.0),
    )
    told = sum(
        w * solve(User(b, Maximum(), Quadratic()), [Noise(variance=v)])[0][0]
        for b, w, v in zip(one, (1.0, 0.25), (0.5, 2.0), strict=True)
    )
    assert abs(pair[0][0] - told) < 4 * pair[1][0]


def test_mixes_with_snoopers_and_picks_its_engine():
    belief = NormalBelief(records=20, variance=1.0, prior="flat")
    bayes, plug_in = User(belief, Maximum(), Quadratic()), Snooper("max", Maximum(), belief=belief)
    for engine in ("auto", "exact", Exact(), Ranks()):
        assert isinstance(pick(engine, bayes, [Noise(variance=1.0)]), Ranks)
    assert isinstance(pick(Ranks(), User(belief, Record(0), Quadratic()), [Noise(variance=1.0)]), Exact)
    rumap = evaluate([Noise(variance=0.3)], intruder=plug_in, scientist=bayes, seed=1)
    assert rumap.scientist_uncertainty[0] < rumap.intruder_uncertainty[0]


def test_bad_input():
    belief = NormalBelief(records=5, variance=1.0, prior="flat")
    with pytest.raises(InputError, match="between 1 and 5"):
        solve(User(belief, OrderStatistic(6), Quadratic()), [Noise(variance=1.0)])
    with pytest.raises(UnsupportedError, match="flat prior"):
        solve(User(belief, Maximum(), Absolute()), [Noise(variance=1.0)])
    with pytest.raises(InputError, match="Pass release="):
        posterior(User(belief, Maximum(), Quadratic()), Noise(variance=1.0))
    normal = NormalBelief(records=6, variance=1.0, prior_variance=1.0)
    with pytest.raises(UnsupportedError, match="Shuffle"):
        solve(User(normal, Maximum(), Quadratic()), [Microaggregate(groups=2) | Shuffle()])
    with pytest.raises(UnsupportedError, match="Too many records"):
        solve(
            User(NormalBelief(records=10**6, variance=1.0, prior_variance=1.0), Maximum(), Absolute()),
            [Noise(variance=1.0)],
        )
