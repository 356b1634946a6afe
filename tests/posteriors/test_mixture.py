"""Averages of closed-form laws, and laws on a grid: against the same law in another form, quadrature and draws."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import integrate, stats

from ruvdecision.errors import InputError
from ruvdecision.losses import (
    CRPS,
    Absolute,
    CustomLoss,
    Huber,
    IntervalScore,
    Linex,
    LogScore,
    Pinball,
    Power,
    Quadratic,
    ZeroOne,
)
from ruvdecision.posteriors import Curve, Drawn, Finite, Gaussian, Mixture
from ruvdecision.posteriors.curvespline import _well_spaced
from ruvdecision.protocols import Array, Posterior

LOSSES = {
    "quadratic": Quadratic(),
    "absolute": Absolute(),
    "power 1.5": Power(1.5),
    "power 3": Power(3.0),
    "power 0.5": Power(0.5),
    "huber": Huber(0.8),
    "pinball": Pinball(0.7),
    "linex": Linex(0.5),
    "zero-one": ZeroOne(0.4),
    "zero-one, no width": ZeroOne(),
    "log score": LogScore(),
    "crps": CRPS(),
    "interval": IntervalScore(0.9),
    "custom": CustomLoss(lambda e, t: np.abs(e - t) ** 1.2),
}
VECTOR = {
    **{name: loss for name, loss in LOSSES.items() if name not in ("power 0.5", "custom", "zero-one, no width")},
    "weighted": Quadratic([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 3.0]]),
    "weighted absolute": Absolute([1.0, 2.0, 0.0]),
}


def scalars(count=200, seed=3):
    rng = np.random.default_rng(seed)
    return rng.normal(0.7, 0.5, count), np.exp(rng.normal(0.0, 0.3, count))


def vectors(count=200, k=3, seed=4):
    rng = np.random.default_rng(seed)
    root = 0.3 * rng.normal(size=(count, k, k)) + np.eye(k)
    return rng.normal(0.2, 0.4, (count, k)), root @ np.swapaxes(root, 1, 2)


def grid_of(means, variances, points=301):
    x = np.linspace(-14, 16, points)
    return Curve(x, stats.norm.logpdf(x, means[:, None], np.sqrt(variances)[:, None]))


# -- the same law in another form -----------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_nodes_of_a_rule_are_the_mixture_without_error(name):
    means, variances = scalars(60)
    weights = np.random.default_rng(1).dirichlet(np.ones(60))
    exact = Mixture(Gaussian.scalar(means, variances), weights)
    mixture = Mixture(Gaussian.scalar(means, variances), weights)
    mine, theirs = LOSSES[name].uncertainty(exact), LOSSES[name].uncertainty(mixture)
    assert mine.error == pytest.approx(float(theirs.error), abs=1e-9)
    assert mine.value == pytest.approx(float(theirs.value), rel=1e-10)


@pytest.mark.parametrize("name", ["quadratic", "absolute", "huber", "pinball", "linex", "crps", "interval", "custom"])
def test_a_share_of_the_mass_that_is_uncertain_is_in_every_error(name):
    law = Mixture(Gaussian.scalar([-1.0, 0.5, 2.0], [0.4, 0.0, 1.0]), [0.2, 0.5, 0.3])
    plain, vague = (LOSSES[name].uncertainty(p) for p in (law, law.less_certain(1e-3)))
    assert vague.value == pytest.approx(float(plain.value), rel=1e-12)
    assert 0.9e-3 < (vague.error - plain.error) / plain.value < 4e-3


@pytest.mark.campaign(4)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", ["gaussian", "curve", "mixtures"])
def test_draws_give_the_mixture_and_an_error(name, kind):
    means, variances = scalars()
    flat = np.full(len(means), 1 / len(means))
    components = {
        "gaussian": lambda: Gaussian.scalar(means, variances),
        "curve": lambda: grid_of(means, variances),
        "mixtures": lambda: Mixture(
            Gaussian.scalar(np.stack([means, means], 1), variances[:, None]), np.full((len(means), 2), 0.5)
        ),
    }[kind]()
    average = Mixture(components, sampled=True, chains=4)
    value = LOSSES[name].uncertainty(average)
    truth = LOSSES[name].uncertainty(Mixture(Gaussian.scalar(means, variances), flat))
    # The value is that of the mixture of these draws; the error is about other draws.
    assert value.value == pytest.approx(float(truth.value), rel=1e-6)
    if name == "zero-one, no width":
        assert value.error == 0
    else:
        assert 0 < value.error < 0.06 * abs(value.value)


@pytest.mark.campaign(3, "slow")
@pytest.mark.parametrize("name", VECTOR)
def test_vectors_agree_with_many_draws(name):
    means, covs = vectors()
    exact = Mixture(Gaussian(means, covs))
    sampled = Mixture(Gaussian(means, covs), sampled=True, chains=2)
    draws = Drawn(exact.sample(40_000, np.random.default_rng(5)))
    value, other, rough = (VECTOR[name].uncertainty(p) for p in (exact, sampled, draws))
    # Nearest neighbours have a small bias of their own, and a window chosen on the draws is a little too good.
    slack = {"log score": 0.02, "zero-one": 0.002}.get(name, 0.0)
    assert abs(value.value - rough.value) < 4.5 * np.hypot(value.error, rough.error) + slack
    assert abs(value.value - other.value) < 4.5 * np.hypot(value.error, other.error) + 1e-9
    assert 0 < other.error < 0.1 * value.value
    assert value.error < 0.003 * value.value


@pytest.mark.slow
def test_any_function_of_a_vector():
    means, covs = vectors()
    flat = np.full(len(means), 1 / len(means))
    value = Mixture(Gaussian(means, covs)).expect(lambda t: np.sum(np.abs(t - 0.1), axis=-1))
    truth = Mixture(Gaussian(means, covs), flat).power(np.full(3, 0.1), 1.0).value.sum()
    assert abs(value.value - truth) < 4 * value.error and 0 < value.error < 1e-3
    found = CustomLoss(lambda e, t: np.sum((e - t) ** 2, axis=-1)).estimate(Mixture(Gaussian(means[:9], covs[:9])))
    np.testing.assert_allclose(found, means[:9].mean(axis=0), atol=2e-3)


@pytest.mark.parametrize("k", [2, 3])
def test_chance_of_leaving_a_box_is_that_of_the_mixture(k):
    means, covs = vectors(40, k)
    mixture = Mixture(Gaussian(means, covs), np.full(40, 1 / 40))
    average = Mixture(Gaussian(means, covs))
    at = np.array([np.zeros(k), np.full(k, 0.5)])
    mine, theirs = average.outside(at, 0.7), mixture.outside(at, 0.7)
    assert mine.value.shape == (2,)
    np.testing.assert_allclose(mine.value, theirs.value, atol=1e-12 if k == 2 else 4e-5)


def test_finite_components_are_a_finite_law():
    rng = np.random.default_rng(2)
    values, chances = np.array([0.0, 1.0, 2.5, 7.0]), rng.dirichlet(np.ones(4), 200)
    average, whole = Mixture(Finite(values, chances), sampled=True), Finite(values, chances.mean(axis=0))
    np.testing.assert_array_equal(average.support, values)
    for name, loss in LOSSES.items():
        mine, theirs = loss.uncertainty(average), loss.uncertainty(whole)
        assert mine.value == pytest.approx(float(theirs.value), rel=1e-9), name
        assert mine.error >= 0
    assert Absolute().uncertainty(average, "target").value >= Absolute().uncertainty(average).value


# -- errors ------------------------------------------------------------------------------------------------


def scores(loss, make, repeats=60):
    """Errors in units of the stated ones, over repeated sets of draws."""
    found = []
    for seed in range(repeats):
        average, truth = make(np.random.default_rng(seed))
        value = loss.uncertainty(average)
        found.append((float(value.value) - float(loss.uncertainty(truth).value)) / float(value.error))
    return np.array(found)


def chain(rng, rho, length):
    noise = rng.normal(size=length) * np.sqrt(1 - rho**2)
    out = np.empty(length)
    out[0] = rng.normal()
    for i in range(1, length):
        out[i] = rho * out[i - 1] + noise[i]
    return out


@pytest.mark.campaign(3)
@pytest.mark.parametrize(
    "name", ["absolute", "quadratic", "huber", "linex", "log score", "crps", "interval", "zero-one"]
)
def test_stated_errors_are_the_real_ones(name):
    # theta given mu is N(mu, 1), mu standard normal: the marginal is N(0, 2).
    z = scores(
        LOSSES[name],
        lambda rng: (Mixture(Gaussian.scalar(rng.normal(size=300), 1.0), sampled=True), Gaussian.scalar(0.0, 2.0)),
    )
    assert 0.72 < np.sqrt(np.mean(z**2)) < 1.35


def test_errors_allow_for_chains_and_for_weights():
    truth = Gaussian.scalar(0.0, 2.0)

    def chained(rng):
        return Mixture(
            Gaussian.scalar(np.concatenate([chain(rng, 0.8, 600) for _ in range(3)]), 1.0), sampled=True, chains=3
        ), truth

    def weighted(rng):
        mu = rng.normal(0.3, 1.3, 800)
        return Mixture(Gaussian.scalar(mu, 1.0), stats.norm.pdf(mu) / stats.norm.pdf(mu, 0.3, 1.3), sampled=True), truth

    for make in (chained, weighted):
        z = scores(Absolute(), make, repeats=80)
        assert 0.7 < np.sqrt(np.mean(z**2)) < 1.4
    # Without chains the same draws would claim far too much.
    naive = scores(
        Absolute(), lambda rng: (Mixture(Gaussian.scalar(chain(rng, 0.9, 900), 1.0), sampled=True), truth), repeats=60
    )
    assert np.sqrt(np.mean(naive**2)) > 2


def test_error_is_far_below_that_of_draws_of_the_target():
    rng = np.random.default_rng(8)
    mu = rng.normal(0, 0.07, 4000)
    average = Mixture(Gaussian.scalar(mu, 1.0), sampled=True)
    plain = Drawn(mu + rng.normal(size=4000))
    assert 20 * Quadratic().uncertainty(average).error < Quadratic().uncertainty(plain).error


# -- the protocol ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(st.integers(2, 30), st.integers(0, 2**31), st.sampled_from(["gaussian", "mixture", "finite"]))
def test_shapes_and_summaries(count, seed, kind):
    rng = np.random.default_rng(seed)
    means, variances = rng.normal(5, 3, count), np.exp(rng.normal(size=count))
    components = {
        "gaussian": lambda: Gaussian.scalar(means, variances),
        "mixture": lambda: Mixture(
            Gaussian.scalar(np.stack([means, means + 1], 1), variances[:, None]), rng.dirichlet(np.ones(2), count)
        ),
        "finite": lambda: Finite(means[: min(4, count)], rng.dirichlet(np.ones(min(4, count)), count)),
    }[kind]()
    weights = rng.dirichlet(np.ones(count))
    p = Mixture(components, weights, sampled=True)
    assert isinstance(p, Posterior) and p.batch == () and p.event == ()
    m, v = components.mean(), components.var()
    assert p.mean() == pytest.approx(weights @ m, rel=1e-12)
    assert p.var() == pytest.approx(weights @ (v + m**2) - (weights @ m) ** 2, rel=1e-8, abs=1e-10)
    assert p.cov().shape == (1, 1) and p.select(()) is p
    at = p.quantile(0.3)
    assert p.cdf(at) >= 0.3 - 1e-12
    for value in (
        p.lower_partial_moment(at),
        p.upper_partial_moment(at),
        p.power(at, 1.3),
        p.huber(at, 0.5),
        p.outside(at, 0.2),
        p.mean_difference(),
        p.entropy(),
        p.log_mgf(0.1),
    ):
        assert np.shape(value.value) == np.shape(value.error) == () and value.error >= 0
    assert p.lower_partial_moment(np.zeros((2, 3))).value.shape == (2, 3)
    assert p.power(at, 1.0).value == pytest.approx(
        float(p.lower_partial_moment(at).value + p.upper_partial_moment(at).value), rel=1e-12
    )
    assert p.upper_partial_moment(at).value - p.lower_partial_moment(at).value == pytest.approx(
        float(p.mean() - at), rel=1e-9, abs=1e-9
    )
    assert p.recentred().quadratic().value == pytest.approx(float(p.quadratic().value), rel=1e-7)
    assert p.sample(7, rng).shape == (7,)


@pytest.mark.long
def test_vector_shapes():
    means, covs = vectors(20)
    p = Mixture(Gaussian(means, covs), sampled=True)
    assert p.event == (3,) and p.mean().shape == p.quantile(0.2).shape == p.mode().shape == p.mode(0.5).shape == (3,)
    np.testing.assert_allclose(p.cov(), np.cov(means.T, bias=True) + covs.mean(axis=0), rtol=1e-12)
    assert p.lower_partial_moment(np.zeros((5, 3))).value.shape == (5, 3) and p.sample(
        4, np.random.default_rng(0)
    ).shape == (4, 3)
    assert p.log_density(np.zeros((6, 3))).shape == (6,) and p.cdf(np.zeros(3)).shape == (3,)
    best = p.log_density(p.mode())
    assert best >= p.log_density(p.sample(500, np.random.default_rng(1))).max() - 1e-9
    assert p.recentred().mean() == pytest.approx(np.zeros(3), abs=1e-15)


def test_common_centre_is_seen():
    assert Mixture(Gaussian.scalar(2.0, np.array([1.0, 3.0])), sampled=True).centre == 2.0
    assert Mixture(Gaussian.scalar(np.array([1.0, 2.0]), 1.0), sampled=True).centre is None


def test_point_masses_and_far_places():
    points = Mixture(Gaussian.scalar(np.array([0.0, 1.0, 5.0]), 0.0))
    assert points.power(1.0, 1.0).value == pytest.approx(5 / 3) and points.quantile(0.5) == 1.0
    assert CustomLoss(lambda e, t: abs(e - t)).uncertainty(points).value == pytest.approx(5 / 3)
    far = Mixture(Gaussian.scalar(1e9 + np.array([0.0, 1.0]), 1.0))
    assert Absolute().uncertainty(far).value == pytest.approx(
        float(Absolute().uncertainty(Mixture(Gaussian.scalar([0, 1], [1, 1]), [0.5, 0.5])).value)
    )


def test_through_asks_each_component():
    means, variances = scalars(50)
    p = Mixture(Gaussian.scalar(means, variances), sampled=True)
    np.testing.assert_allclose(
        p.through(lambda law, at: law.power(at, 1.0), lambda t: np.abs(t - 0.3), 0.3), p.power(0.3, 1.0), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Mixture(Drawn(np.arange(5.0)), sampled=True), "parts must be a posterior with batch"),
        (lambda: Mixture(Gaussian.scalar(0.0, 1.0), sampled=True), "batch"),
        (lambda: Mixture(Gaussian.scalar(np.zeros(1), 1.0), sampled=True), "at least two"),
        (lambda: Mixture(Gaussian.scalar(np.zeros(5), 1.0), sampled=True, chains=2), "chains must divide"),
        (lambda: Mixture(Gaussian.scalar(np.zeros(4), 1.0), chains=2), "chains"),
        (lambda: Mixture(Gaussian.scalar(np.zeros(4), 1.0), np.ones(3), sampled=True), "weights must have shape"),
        (lambda: Mixture(Gaussian.scalar(np.zeros(2), 1.0), [1.0, -1.0], sampled=True), "not be negative"),
        (lambda: Mixture(Gaussian.scalar(np.zeros(2), 1.0), sampled=1), "sampled must be"),
        (lambda: Mixture(Gaussian.scalar(np.zeros(2), 1.0), sampled=True).select(0), "no batch"),
        (lambda: Curve([0, 1, 2, 3], [0.0, 0.0, 0.0]), "log_density must have shape"),
        (lambda: Curve([0, 2, 1, 3], np.zeros(4)), "ascending"),
        (lambda: Curve([0, 1, 1, 1, 2], np.zeros(5)), "ascending"),
        (lambda: Curve(np.arange(5.0), [0, 0, np.nan, 0, 0]), "numbers below infinity"),
        (lambda: Curve(np.arange(5.0), [0, 0, -np.inf, 0, 0]), "minus infinity inside"),
        (lambda: Curve(np.arange(5.0), np.full(5, -np.inf)), "finite somewhere"),
        (lambda: Curve(np.arange(9.0), np.zeros(9), breaks=[2.5]), "points of the grid"),
        (lambda: Curve(np.linspace(-40, 40, 41), -0.5 * np.linspace(-40, 40, 41) ** 2 / 0.09), "too coarse"),
        (lambda: Curve(np.linspace(-6, 6, 13), stats.t.logpdf(np.linspace(-6, 6, 13) * 5, 2)), "too coarse"),
        (lambda: Curve(np.arange(9.0), np.zeros(9)).quantile(1.2), "q must be"),
        (lambda: Curve(np.arange(9.0), np.zeros(9)).outside(0.0, -1.0), "width"),
    ],
)
def test_bad_input(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_reprs_hold_no_values():
    assert (
        repr(Mixture(Gaussian.scalar(np.zeros(4), 1.0), sampled=True, chains=2))
        == "Mixture(Gaussian, parts=4, sampled=True, chains=2, batch=(), event=())"
    )
    assert repr(Curve(np.linspace(0, 1, 11), np.zeros(11))) == "Curve(points=11, from 0 to 1, batch=())"


# -- laws on a grid -----------------------------------------------------------------------------------------------

GRIDS = {
    "normal": (stats.norm(0.3, 1.2), np.linspace(-13, 13, 131), None),
    "student": (stats.t(30), np.linspace(-20, 20, 401), None),
    "exponential": (stats.expon(), np.linspace(0, 40, 201), None),
    "lognormal": (stats.lognorm(0.5), np.geomspace(1e-2, 100, 301), None),
    "gamma": (stats.gamma(2), np.concatenate([[0], np.geomspace(1e-7, 60, 401)]), None),
    "truncated": (stats.truncnorm(-0.5, 2), np.linspace(-0.5, 2, 41), None),
    "uniform": (stats.uniform(), np.linspace(0, 1, 11), None),
    "laplace": (stats.laplace(), np.linspace(-40, 40, 401), [0.0]),
}


@pytest.mark.slow
@pytest.mark.campaign(3)
@pytest.mark.parametrize("name", GRIDS)
def test_curve_against_the_law_itself(name):
    law, x, breaks = GRIDS[name]
    curve = Curve(x, law.logpdf(x) + 3.0, breaks)
    a, (low, high) = float(law.ppf(0.7)), curve.ends
    assert curve.error == 0
    assert curve.mean() == pytest.approx(law.mean(), abs=1e-10)
    assert curve.var() == pytest.approx(law.var(), rel=1e-9)
    for q in (0.001, 0.5, 0.99):
        assert curve.quantile(q) == pytest.approx(law.ppf(q), rel=1e-9, abs=1e-9)
        assert curve.cdf(law.ppf(q)) == pytest.approx(q, abs=1e-10)
    assert curve.log_density(a) == pytest.approx(law.logpdf(a), abs=1e-9)
    assert curve.entropy().value == pytest.approx(law.entropy(), abs=1e-9)
    assert curve.outside(a, 0.4).value == pytest.approx(law.sf(a + 0.4) + law.cdf(a - 0.4), abs=1e-10)

    def mean(f):
        return integrate.quad(
            lambda t: f(t) * law.pdf(t), low, high, points=[a, a - 0.5, a + 0.5, 0.0], limit=500, epsabs=1e-12
        )[0]

    assert curve.lower_partial_moment(a).value == pytest.approx(mean(lambda t: max(a - t, 0)), abs=1e-9)
    assert curve.upper_partial_moment(a).value == pytest.approx(mean(lambda t: max(t - a, 0)), abs=1e-9)
    assert curve.power(a, 0.5).value == pytest.approx(mean(lambda t: abs(t - a) ** 0.5), abs=1e-9)
    assert curve.power(a, 1.7, signed=True).value == pytest.approx(
        mean(lambda t: np.sign(t - a) * abs(t - a) ** 1.7), rel=1e-8, abs=1e-8
    )
    assert curve.huber(a, 0.5).value == pytest.approx(mean(lambda t: float(Huber(0.5)(a, t))), abs=1e-9)
    assert curve.log_mgf(0.3).value == pytest.approx(np.log(mean(lambda t: np.exp(0.3 * t))), abs=1e-9)
    assert curve.expect(lambda t: np.abs(t - a) ** 1.5, at=a).value == pytest.approx(
        mean(lambda t: abs(t - a) ** 1.5), rel=1e-8
    )
    gini = 2 * integrate.quad(lambda t: law.cdf(t) * law.sf(t), low, high, points=[0.0, a], limit=500, epsabs=1e-12)[0]
    assert curve.mean_difference().value == pytest.approx(gini, abs=1e-9)
    draws = curve.sample(4000, np.random.default_rng(1))
    assert stats.kstest(draws, law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", LOSSES)
def test_curve_of_a_normal_is_the_normal(name):
    x = np.linspace(-13, 13, 131)
    curve, normal = Curve(x, stats.norm.logpdf(x, 0.3, 1.2)), Gaussian.scalar(0.3, 1.44)
    mine, theirs = LOSSES[name].uncertainty(curve), LOSSES[name].uncertainty(normal)
    assert mine.value == pytest.approx(float(theirs.value), rel=1e-9) and mine.error == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.integers(1, 6), st.integers(0, 2**31))
def test_batches_of_curves(count, seed):
    rng = np.random.default_rng(seed)
    means = rng.normal(size=count)
    x = np.linspace(-14, 14, 161)
    curve, normal = Curve(x, stats.norm.logpdf(x, means[:, None], 1.1)), Gaussian.scalar(means, np.full(count, 1.21))
    assert curve.batch == (count,)
    questions = [
        lambda p: p.lower_partial_moment(0.3).value,
        lambda p: p.lower_partial_moment(means + 0.1).value,
        lambda p: p.power(np.linspace(-1, 1, 3)[:, None], 1.5).value,
        lambda p: p.huber(means, 0.7).value,
        lambda p: p.outside(np.full((2, count), 0.2), 0.5).value,
        lambda p: p.quantile(0.3),
        lambda p: p.cdf(np.zeros((3, count))),
        lambda p: p.log_density(0.4),
        lambda p: p.mean_difference().value,
        lambda p: p.entropy().value,
        lambda p: p.log_mgf(0.01, centred=True).value,
        lambda p: p.expect(lambda t: np.abs(t - 0.2), at=0.2).value,
        lambda p: p.select(0).quadratic().value,
        lambda p: p.select(slice(0, 1)).lower_partial_moment(0.1).value,
        lambda p: p.cov(),
    ]
    for ask in questions:
        mine, theirs = ask(curve), ask(normal)
        assert np.shape(mine) == np.shape(theirs)
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(curve.mode(), means, atol=1e-6)
    mixed = curve.mixed(np.full(count, 1 / count))
    np.testing.assert_allclose(mixed.var(), 1.21 + means.var(), rtol=1e-9)


def test_jumps_and_empty_pieces():
    x = np.concatenate([np.linspace(0, 1, 21), np.linspace(1, 3, 21)])
    steps = np.log(np.repeat([0.5, 0.25], 21))
    empty = np.repeat([-np.inf, 0.0], 21)
    curve = Curve(x, np.stack([steps, empty]))
    np.testing.assert_allclose(curve.mean(), [1.25, 2.0], rtol=1e-12)
    np.testing.assert_allclose(curve.quantile(0.5), [1.0, 2.0], rtol=1e-12)
    np.testing.assert_allclose(curve.select(0).cdf([0.5, 1.0, 2.0, 4.0, -1.0]), [0.25, 0.5, 0.75, 1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(curve.select(0).log_density([1.0, 2.0]), np.log([0.5, 0.25]), atol=1e-12)
    assert curve.select(0).log_density(3.5) == -np.inf


def test_coarse_grids_say_so_and_bound_their_error():
    truth = Curve(np.linspace(-8, 8, 2001), stats.t.logpdf(np.linspace(-8, 8, 2001), 5)).quadratic().value
    for points in (21, 31, 41, 61):
        x = np.linspace(-8, 8, points)
        value = Curve(x, stats.t.logpdf(x, 5)).quadratic()
        assert 0 < value.error < 0.01
        assert abs(value.value - truth) < value.error


@pytest.mark.parametrize("grows", [lambda t: np.abs(t - 0.1) ** 1.2, np.cos, lambda t: np.exp(2 * t), lambda t: t**8])
def test_shared_nodes_give_what_each_part_gives(grows):
    means, variances = scalars(400)
    law = Mixture(Gaussian.scalar(means, variances))
    alone = law.parts.expect_last(grows, np.array([0.1]))
    found = law.expect(grows, 0.1)
    assert found.value == pytest.approx(float(alone.value.mean()), rel=1e-11) and found.error == 0


# -- points that stand nearly together -------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [1e-5, 1e-7, 1e-9, 1e-11, 1e-13])
@pytest.mark.parametrize("more", [1, 2, 6])
@pytest.mark.parametrize("where", [0, 1, 20, 39, 40])
def test_points_that_stand_together_leave_the_curve_as_it_is(where: int, more: int, gap: float) -> None:
    """Slopes and curvatures between such points are rounding error (Gumbel: mean and variance known)."""
    even = np.linspace(-4.0, 30.0, 201)
    close = even[where] + (-1 if where == 40 else 1) * 34.0 * gap * np.arange(1, more + 1)
    x = np.unique(np.concatenate([even, even[-1:] - 34.0 * gap * np.arange(1, more + 1), close]))
    law = Curve(x, stats.gumbel_r.logpdf(x))
    assert law.mean() == pytest.approx(np.euler_gamma, abs=1e-7)
    assert law.var() == pytest.approx(np.pi**2 / 6, abs=1e-6)
    assert law.cdf(1.3) == pytest.approx(stats.gumbel_r.cdf(1.3), abs=1e-8)


@pytest.mark.parametrize(
    ("grid", "dropped"),
    [
        (np.geomspace(1e-10, 1e10, 30), []),
        (np.concatenate([np.linspace(-90, -10, 9), np.linspace(-0.01, 0.01, 50), np.linspace(10, 90, 9)]), []),
        (np.array([0.0, 1e-9, 1.0, 2.0, 3.0 - 1e-9, 3.0]), [1, 4]),
        (np.array([0.0, 1.0, 1.0 + 1e-9, 1.0 + 2e-9, 1.0 + 2e-9 + 1e-13, 2.0]), [2, 3, 4]),
        (np.array([0.0, 1.0, 1.002, 2.0]), []),
        (np.array([0.0, 1e-12]), []),
    ],
)
def test_one_point_of_each_cluster_stays(grid: Array, dropped: list[int]) -> None:
    """A fine part of the grid and gaps that grow little by little are no clusters; both ends stay."""
    assert np.setdiff1d(np.arange(len(grid)), _well_spaced(grid)).tolist() == dropped


def test_the_error_of_a_sampled_mixture_holds_that_of_its_parts() -> None:
    """Monte Carlo error and the parts' own, which they share: root of the sum of squares."""
    values = np.random.default_rng(3).normal(size=400)
    law = Mixture(Gaussian.scalar(values, 1.0), sampled=True)
    plain, more = (law._mean_with_error(values, own, joint=True).error for own in (0.0, 0.3))
    assert plain == pytest.approx(values.std() / 20, rel=0.2)
    assert more == pytest.approx(np.hypot(plain, 0.3), rel=1e-12)
    assert law._mean_with_error(np.ones(400), np.full(400, 0.3), joint=True).error == pytest.approx(0.3, rel=1e-12)
