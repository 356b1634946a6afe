"""The value of information: right numbers, never negative, and errors from common random numbers."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ruvdecision.analyses.worth import one_more_digit, one_more_record, one_more_variable, worth
from ruvdecision.beliefs import FiniteBelief, NormalBelief
from ruvdecision.errors import InputError
from ruvdecision.evaluate import evaluate
from ruvdecision.losses import Absolute, LogScore, Quadratic, ZeroOne
from ruvdecision.masks import Microaggregate, Noise, Release, Round, Shuffle, Stochastic, Suppress
from ruvdecision.targets import Functional, Parameter, Record
from ruvdecision.users.user import User

NORMAL = NormalBelief(records=10, variance=2, prior_variance=5)
AVERAGE = Microaggregate(groups=1)


def test_a_release_rather_than_nothing():
    found = worth(User(NORMAL, Parameter("mu"), Quadratic()), Noise(variance=2.0))
    assert found.gain == pytest.approx(5 - 1 / (1 / 5 + 10 / 4))
    assert found.error == 0
    assert found.before == found.without == 5
    assert float(found) == found.gain
    assert found.relative_gain == pytest.approx(found.gain / 5)
    assert "a gain of 4.6296 (92.6 %)" in str(found)


def test_one_more_record_in_closed_form():
    """Records are masked one by one, so that the file without a row is a file of one record less."""
    for variance in (0.5, 3.0):
        mask = Noise(variance=variance)
        scientist = User(NORMAL, Parameter("mu"), Quadratic())
        u = [1 / (1 / 5 + n / (2 + variance)) for n in (9, 10)]
        assert one_more_record(scientist, mask).gain == pytest.approx(u[0] - u[1], rel=1e-10)
        # The intruder's own row is worth far more to him than somebody else's.
        intruder = User(NORMAL, Record(0), Quadratic())
        assert one_more_record(intruder, mask, row=0).gain > 5 * one_more_record(intruder, mask, row=4).gain > 0
    # The other rows show the average too: the row adds nothing.
    assert one_more_record(scientist, Noise(sd=1) | AVERAGE).gain == pytest.approx(0, abs=1e-12)


def test_one_more_variable_in_closed_form():
    belief = NormalBelief(records=4, covariance=[[2, 0.8], [0.8, 1]], prior_covariance=[[3, 0.5], [0.5, 2]])
    user = User(belief, Parameter("mu", component=0), Quadratic())
    prior, noise = np.array([[3, 0.5], [0.5, 2]]), np.array([[2, 0.8], [0.8, 1]]) / 4
    both = np.linalg.inv(np.linalg.inv(prior) + np.linalg.inv(noise))[0, 0]
    alone = 3 - 9 / (3 + 0.5)
    found = one_more_variable(user, 1)
    assert found.gain == pytest.approx(alone - both, rel=1e-10)
    assert one_more_variable(user, 0).gain > found.gain > 0
    # A named column, and a mask before it.
    named = NormalBelief(
        records=4, covariance=[[2, 0.8], [0.8, 1]], prior_covariance=[[3, 0.5], [0.5, 2]], columns=["age", "income"]
    )
    assert one_more_variable(User(named, Record(0), Quadratic()), "income", Noise(sd=0.5)).gain > 0


def test_one_more_digit_by_brute_force():
    rng = np.random.default_rng(1)
    values = np.round(np.sort(rng.uniform(0, 30, 25)), 1)
    values = np.unique(values)
    chance = rng.dirichlet(np.ones(len(values)))
    user = User(FiniteBelief(values, probabilities=chance), Record(0), Quadratic())

    def left(labels):
        total = 0.0
        for label in np.unique(labels):
            p, x = chance[labels == label], values[labels == label]
            total += p @ (x - p @ x / p.sum()) ** 2
        return total

    fine = np.asarray(Round(1.0).release(values))
    coarse = np.asarray(Round(10.0).release(fine))
    assert one_more_digit(user, 10).gain == pytest.approx(left(coarse) - left(fine), rel=1e-9)
    assert one_more_digit(user, 10, digits=2).gain >= one_more_digit(user, 10).gain - 1e-12


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6))
def test_never_negative(seed):
    rng = np.random.default_rng(seed)
    states, outcomes = rng.integers(2, 4), int(rng.integers(2, 4))
    belief = FiniteBelief(
        rng.normal(size=states).round(3),
        probabilities=rng.dirichlet(np.ones(states)),
        likelihood=rng.dirichlet(np.ones(outcomes), size=states),
        outcomes=np.arange(outcomes) * 3.0,
        records=int(rng.integers(2, 4)),
    )
    loss = [Quadratic(), Absolute(), ZeroOne(), LogScore()][rng.integers(4)]
    target = Record(0) if rng.random() < 0.5 else Parameter("theta")
    user = User(belief, target, loss)
    mask = Stochastic(rng.dirichlet(np.ones(outcomes), size=outcomes))
    more = Stochastic(rng.dirichlet(np.ones(outcomes), size=outcomes))
    gains = [
        worth(user, mask),
        worth(user, Release(), than=mask),
        worth(user, mask, than=mask | more),
        one_more_record(user, mask, row=int(rng.integers(belief.records))),
        one_more_digit(user, 10),
        one_more_variable(user, 0, mask),
    ]
    assert all(g.gain >= -1e-12 and g.error == 0 for g in gains)
    assert gains[0].gain <= worth(user, Release()).gain + 1e-12


@pytest.mark.slow
def test_errors_of_drawn_worths_use_common_random_numbers():
    # A function that is not linear: U depends on the release and is averaged over releases.
    user = User(
        NormalBelief(records=4, variance=2, prior_variance=5),
        Functional(lambda m: np.exp(m / 3), of=Parameter("mu")),
        Quadratic(),
    )
    rich, poor = Noise(variance=1.0), Noise(variance=1.2)
    found = worth(user, rich, than=poor, replicates=60, seed=3)
    again = worth(user, rich, than=poor, replicates=60, seed=3)
    assert found == again
    assert found.error > 0
    rumap = evaluate([rich, poor], intruder=user, scientist=user, replicates=60, seed=3)
    apart = np.hypot(*(rumap.scientist.error))
    assert found.error < apart / 2  # the same releases, but for the noise: the difference is much sharper
    assert found.gain == pytest.approx(
        rumap.scientist_uncertainty[1] - rumap.scientist_uncertainty[0], abs=4 * (found.error + apart)
    )
    few = worth(user, rich, than=poor, replicates=5, seed=3)
    assert few.error > 0


def test_shuffling_away_is_worth_something_to_the_intruder():
    intruder = User(NORMAL, Record(0), Quadratic())
    assert worth(intruder, Noise(sd=1), than=Noise(sd=1) | Shuffle()).gain > 0.1
    scientist = User(NORMAL, Parameter("mu"), Quadratic())
    assert worth(scientist, Noise(sd=1), than=Noise(sd=1) | Shuffle()).gain == pytest.approx(0, abs=1e-12)


def test_bad_input():
    user = User(NORMAL, Record(0), Quadratic())
    with pytest.raises(InputError, match="user must be a User"):
        worth(NORMAL, Release())
    with pytest.raises(InputError, match="must be a mask"):
        worth(user, "noise")
    with pytest.raises(InputError, match="row"):
        one_more_record(user, row=10)
    with pytest.raises(InputError, match="base"):
        one_more_digit(user, -1)
    with pytest.raises(InputError, match="replicates"):
        worth(user, Release(), than=Suppress(), replicates=0)
