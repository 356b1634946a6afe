"""Records that are sampled with the parameters.

Averages met exactly, entries inside their bounds, records that depend on each other.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from ruvdecision.beliefs.normal import NormalBelief
from ruvdecision.beliefs.pymc import PyMCBelief
from ruvdecision.engines.normal.exact import Exact
from ruvdecision.engines.pymc import nuts
from ruvdecision.engines.pymc.latent import ALL
from ruvdecision.engines.pymc.sampling import Sampling
from ruvdecision.errors import UnsupportedError
from ruvdecision.evaluate import evaluate
from ruvdecision.losses import Absolute, LogScore, Quadratic, ZeroOne
from ruvdecision.masks import Microaggregate, Noise, Round, Shuffle
from ruvdecision.masks.base import Mask
from ruvdecision.targets import Average, Functional, Maximum, NewRecord, Parameter, Record
from ruvdecision.users.user import User

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")

N, VARIANCE, DOUBT = 5, 2.0, 5.0
S1 = np.array([[2.0, 0.6, 0.2], [0.6, 1.0, -0.3], [0.2, -0.3, 1.5]])
S0 = np.diag([4.0, 2.0, 3.0])
ONE = pd.DataFrame({0: np.array([1.3, -0.4, 2.2, 0.1, 3.0])})
THREE = pd.DataFrame(np.random.default_rng(4).multivariate_normal(np.zeros(3), S1, size=N))
ENGINE = Sampling(draws=1500, tune=500, chains=2)


def scalar_model(n):
    import pymc as pm

    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, np.sqrt(DOUBT))
        pm.Normal("x", mu, np.sqrt(VARIANCE), shape=n)
    return model


def vector_model(n):
    import pymc as pm

    with pm.Model() as model:
        mu = pm.MvNormal("mu", np.zeros(3), S0, shape=3)
        pm.MvNormal("x", mu, S1, shape=(n, 3))
    return model


def joint_model(n):
    """The scalar model with the mean integrated out: records that depend on each other."""
    import pymc as pm

    with pm.Model() as model:
        tau = pm.Normal("tau", 0.0, 1.0)
        pm.MvNormal("x", np.zeros(n) + 0.0 * tau, VARIANCE * np.eye(n) + DOUBT, shape=n)
    return model


def gamma_model(n):
    import pymc as pm

    with pm.Model() as model:
        rate = pm.Gamma("rate", 3.0, 3.0)
        pm.Gamma("x", 2.0, rate, shape=n)
    return model


@pytest.fixture(scope="module")
def scalar() -> PyMCBelief:
    return PyMCBelief(scalar_model, size=N)


@pytest.fixture(scope="module")
def joint() -> PyMCBelief:
    return PyMCBelief(joint_model, size=N)


EXACT = {1: NormalBelief(N, VARIANCE, prior_variance=DOUBT), 3: NormalBelief(N, covariance=S1, prior_covariance=S0)}
LOSSES = [Quadratic(), Absolute(), ZeroOne(tolerance=1.0), LogScore()]


def agree(belief: PyMCBelief, mask: Mask, data: pd.DataFrame, targets, losses=LOSSES, k: int = 1) -> None:
    release = mask.release(data, 11)
    for target in targets:
        user = User(belief, target, Quadratic())
        point = ENGINE.solve_release(user, mask, release)
        assert point.marginalization.startswith("records sampled too")
        assert point.rhat < 1.02
        right = Exact().posterior(User(EXACT[k], target, Quadratic()), mask, release)
        found = point.posteriors[0]
        where = np.atleast_1d(found.mean() - right.mean()) / np.sqrt(
            np.atleast_1d(right.var()) / (0.3 * point.ess_bulk)
        )
        assert np.all(np.abs(where) < 4), target
        for loss in losses:
            value, error = loss.uncertainty(found)
            # Windows and entropies of raw draws have a small bias beside their error.
            bias = 0.01 if isinstance(loss, (ZeroOne, LogScore)) else 0.0
            assert abs(value - loss.uncertainty(right).value) <= 4 * error + bias, (target, loss)


# -- averages ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_noise_then_averages_of_one_variable(joint: PyMCBelief) -> None:
    agree(joint, Noise(variance=1.5) | Microaggregate(groups=2), ONE, [Record(0), Average()])


@pytest.mark.long
def test_an_average_without_noise_is_met_exactly(joint: PyMCBelief) -> None:
    mask = Microaggregate(groups=2)
    release = mask.release(ONE, 1)
    point = ENGINE.solve_release(User(joint, Record(0), Quadratic()), mask, release)
    files = point.chains.values[ALL].reshape(-1, N)
    groups = release.to_numpy()[:, 0]
    for value in np.unique(groups):
        means = files[:, groups == value].mean(axis=1)
        np.testing.assert_allclose(means, value, rtol=0, atol=1e-12 * max(1, abs(value)) * 10)
    agree(joint, mask, ONE, [Record(0), Record(4)])


@pytest.mark.slow
def test_what_a_known_total_tells_before_any_release_has_the_model_of_the_releases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, init = [], nuts.Sampler.__init__
    monkeypatch.setattr(nuts.Sampler, "__init__", lambda *given, **named: made.append(1) or init(*given, **named))
    knows, masks = Microaggregate(groups=1), [Noise(sd=0.7), Noise(sd=2)]
    asked = [
        User(belief, Record(0), Quadratic(), knows=knows) for belief in (PyMCBelief(joint_model, size=N), EXACT[1])
    ]
    found, right = (
        evaluate(masks, intruder=user, scientist=user, data=ONE, engine=engine, replicates=1, seed=1)
        for user, engine in zip(asked, (Sampling(draws=1000, tune=500, chains=2), "auto"), strict=True)
    )
    assert len(made) == 1
    draws = 0.3 * 2000  # effective ones; their squares have twice the variance of a normal law's
    for own, exact in ((found.intruder.value, right.intruder.value), (found.before[0], right.before[0])):
        np.testing.assert_allclose(own, exact, rtol=4 * np.sqrt(2 / draws))


@pytest.mark.long
def test_noise_then_averages_of_three_variables() -> None:
    vector = PyMCBelief(vector_model, size=N)
    mask = Noise(variance=[0.5, 1.0, 2.0]) | Microaggregate(groups=2)
    agree(vector, mask, THREE, [Record(0), Parameter("mu", component=2)], [Quadratic(), Absolute()], k=3)


@pytest.mark.slow
def test_another_size_of_noise_and_other_data_take_the_same_compiled_model(
    joint: PyMCBelief, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = User(joint, Record(0), Quadratic())
    small = Sampling(draws=50, tune=50, chains=1)
    for v in (1.0, 1.5):
        mask = Noise(variance=v) | Microaggregate(groups=2)
        small.solve_release(user, mask, mask.release(ONE, 1))

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(nuts.Sampler, "__init__", fail)
    mask = Noise(variance=9.0) | Microaggregate(groups=2)
    small.solve_release(user, mask, mask.release(ONE + 3, 2))


@pytest.mark.long
def test_positive_records_stay_positive_behind_an_average() -> None:
    """Two gamma records with a known mean: x_0 is a share of the sum, Beta(2, 2), whatever the rate is."""
    belief = PyMCBelief(gamma_model, size=2)
    mask = Microaggregate(groups=1)
    release = mask.release(pd.DataFrame({0: [0.5, 2.5]}), 1)
    point = ENGINE.solve_release(User(belief, Record(0), Quadratic()), mask, release)
    files = point.chains.values[ALL].reshape(-1, 2)
    assert files.min() > 0
    np.testing.assert_allclose(files.sum(axis=1), 3.0, rtol=1e-12)
    value, error = point.values[0]
    assert abs(value - 9 * stats.beta.var(2, 2)) <= 4 * error
    draws = point.posteriors[0].draws
    assert stats.kstest(draws[::10] / 3.0, stats.beta(2, 2).cdf).pvalue > 1e-3
    rate = ENGINE.posterior(User(belief, Parameter("rate"), Quadratic()), mask, release)
    right = stats.gamma(3 + 4, scale=1 / (3 + 3.0))  # conjugate: the sum is sufficient
    assert abs(float(rate.mean()) - right.mean()) <= 4 * np.sqrt(right.var() / 500)


# -- records that depend on each other ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_joint_model_behind_noise(joint: PyMCBelief) -> None:
    agree(joint, Noise(variance=1.5), ONE, [Record(0), Average()])


@pytest.mark.long
def test_bounded_entries_of_a_joint_model_against_the_integrated_route(joint: PyMCBelief, scalar: PyMCBelief) -> None:
    """Rounding leaves an interval: the joint model samples inside it, the model with a mean integrates over it."""
    mask = Round(base=2.0)
    release = mask.release(ONE, 1)
    for target in (Record(0), Record(3)):
        latent = ENGINE.solve_release(User(joint, target, Quadratic()), mask, release)
        whole = ENGINE.solve_release(User(scalar, target, Quadratic()), mask, release)
        assert latent.marginalization.startswith("records sampled too")
        assert whole.marginalization == "integrated over nodes"
        gap = latent.values[0].value - whole.values[0].value
        assert abs(gap) <= 4 * np.hypot(latent.values[0].error, whole.values[0].error)
        files = latent.chains.values[ALL].reshape(-1, N)
        assert np.all(np.abs(files - release.to_numpy()[:, 0]) <= 1.0 + 1e-12)
        away = float(latent.posteriors[0].mean() - whole.posteriors[0].mean())
        assert abs(away) <= 4 * np.sqrt(whole.values[0].value / (0.3 * latent.ess_bulk))


@pytest.mark.long
def test_bounds_of_the_release_and_of_the_law_meet() -> None:
    """Waiting times whose sum is known roughly, rounded: the first is between 0 and 0.5, not between -0.5 and 0.5."""

    def waiting(n):
        import pymc as pm

        with pm.Model() as model:
            pm.Normal("tau")
            x = pm.Exponential("x", 1.0, shape=n)
            pm.Normal("sum", x.sum(), 0.3, observed=2.4)
        return model

    mask = Round(base=1.0)
    release = mask.release(pd.DataFrame({0: [0.3, 1.9]}), 1)
    point = ENGINE.solve_release(User(PyMCBelief(waiting, size=2), Record(0), Quadratic()), mask, release)
    assert point.divergences == 0
    a, b = np.meshgrid(np.linspace(0, 0.5, 801), np.linspace(1.5, 2.5, 801), indexing="ij")
    weight = np.exp(-a - b - 0.5 * ((a + b - 2.4) / 0.3) ** 2)
    mean = np.sum(weight * a) / weight.sum()
    variance = np.sum(weight * (a - mean) ** 2) / weight.sum()
    value, error = point.values[0]
    assert abs(value - variance) <= 4 * error
    assert abs(float(point.posteriors[0].mean()) - mean) <= 4 * np.sqrt(variance / 1000)
    assert point.posteriors[0].draws.min() > 0


@pytest.mark.slow
def test_functions_of_files(joint: PyMCBelief) -> None:
    mask = Noise(variance=1.5)
    release = mask.release(ONE, 11)
    point = ENGINE.solve_release(User(joint, Maximum(), Quadratic()), mask, release)
    files = point.chains.values[ALL].reshape(-1, N)
    np.testing.assert_allclose(point.posteriors[0].draws, files.max(axis=1))
    gap = ENGINE.posterior(
        User(joint, Functional(lambda a, b: a - b, of=[Record(0), Record(1)]), Quadratic()), mask, release
    )
    right = Exact().posterior(
        User(EXACT[1], Functional(lambda a, b: a - b, of=[Record(0), Record(1)]), Quadratic()), mask, release
    )
    value, error = Quadratic().uncertainty(gap)
    assert abs(value - float(right.var())) <= 4 * error


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_new_record_is_not_defined_by_a_joint_model(joint: PyMCBelief) -> None:
    mask = Noise(variance=1.5)
    with pytest.raises(UnsupportedError, match="a new one is not defined"):
        Sampling(draws=50, tune=50, chains=1).solve_release(
            User(joint, NewRecord(), Quadratic()), mask, mask.release(ONE, 11)
        )


def test_rows_in_unknown_order_of_a_joint_model(joint: PyMCBelief) -> None:
    mask = Noise(variance=1.5) | Shuffle()
    with pytest.raises(UnsupportedError, match="unknown order"):
        Sampling(draws=50, tune=50, chains=1).solve_release(
            User(joint, Record(0), Quadratic()), mask, mask.release(ONE, 11)
        )


def test_records_between_two_ends_behind_an_exact_average() -> None:
    def shares(n):
        import pymc as pm

        with pm.Model() as model:
            a = pm.Gamma("a", 2.0, 1.0)
            pm.Beta("x", a, 2.0, shape=n)
        return model

    mask = Microaggregate(groups=1)
    user = User(PyMCBelief(shares, size=3), Record(0), Quadratic())
    release = mask.release(pd.DataFrame({0: [0.2, 0.5, 0.4]}), 1)
    with pytest.raises(UnsupportedError) as caught:
        Sampling(draws=50, tune=50, chains=1).solve_release(user, mask, release)
    assert "Add noise before the average" in str(caught.value)
