"""Laws defined outside the package, with nothing but expect, cdf and sample: every loss works with them."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from ruvdecision.losses import (
    CRPS,
    Absolute,
    CustomLoss,
    Huber,
    IntervalScore,
    KullbackLeibler,
    Linex,
    LogScore,
    Pinball,
    Power,
    Quadratic,
    ZeroOne,
)
from ruvdecision.posteriors import BasePosterior, Curve, Finite, Gaussian, Mixture
from ruvdecision.protocols import Posterior, Value

LOSSES = {
    "quadratic": Quadratic(2.0),
    "absolute": Absolute(),
    "power 1.5": Power(1.5),
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
LEVELS = np.concatenate([10.0 ** np.arange(-14, -1), np.linspace(0.05, 0.95, 19)])
NEAR = np.concatenate([-(10.0 ** np.arange(-7, 0)), [0.0], 10.0 ** np.arange(-7, 0)])
"""Panels crowd towards a kink."""
Z, W = special.roots_legendre(24)


class Outside(BasePosterior):
    """One law of scipy's, known by an integral, its distribution function and its draws."""

    def __init__(self, law):
        self.law = law

    def cdf(self, at):
        return self.law.cdf(at)

    def sample(self, size, rng):
        return self.law.rvs(size=size, random_state=rng)

    def expect(self, f, at=None):
        kinks = np.zeros(0) if at is None else np.add.outer(NEAR, np.ravel(at)).ravel()
        edges = np.concatenate([self.law.ppf(LEVELS), self.law.isf(LEVELS), kinks])
        edges = np.unique(np.clip(edges, *self.law.ppf([1e-14, 1 - 1e-14])))
        half = 0.5 * np.diff(edges)[:, None]
        x = 0.5 * (edges[1:] + edges[:-1])[:, None] + half * Z
        density = (self.law.pdf(x) * half * W).ravel()
        return Value(np.asarray(density @ f(x.ravel())), np.asarray(0.0))


class OutsideBatch(BasePosterior):
    """Normal laws of numbers, a batch of them."""

    def __init__(self, means):
        self.means, self.batch = np.asarray(means, dtype=float), np.shape(means)

    def cdf(self, at):
        return special.ndtr(at - self.means)

    def sample(self, size, rng):
        return self.means + rng.standard_normal((size, *self.batch))

    def expect(self, f, at=None):
        kinks = np.zeros((0, *self.batch)) if at is None else np.asarray(at, dtype=float)
        kinks = kinks if kinks.ndim > len(self.batch) else kinks[None]
        kinks = np.concatenate([near + np.broadcast_to(kinks, (len(kinks), *self.batch)) for near in NEAR])
        kinks = np.clip(kinks - self.means, -9.0, 9.0)
        even = np.broadcast_to(np.linspace(-9, 9, 25).reshape((-1,) + (1,) * len(self.batch)), (25, *self.batch))
        edges = np.sort(np.concatenate([even, kinks]), axis=0)
        half, middle = 0.5 * np.diff(edges, axis=0)[:, None], 0.5 * (edges[1:] + edges[:-1])[:, None]
        rule = (1, -1) + (1,) * len(self.batch)
        z = middle + half * Z.reshape(rule)
        share = (half * W.reshape(rule) * stats.norm.pdf(z)).reshape(-1, *self.batch)
        return Value(np.sum(share * f(self.means + z.reshape(-1, *self.batch)), axis=0), np.zeros(self.batch))


class OutsideVector(BasePosterior):
    """A normal pair, known by many draws."""

    event = (2,)

    def __init__(self, mean, cov, size=200_000):
        self.mean_, self.cov_ = np.asarray(mean), np.asarray(cov)
        self.draws = np.random.default_rng(5).multivariate_normal(self.mean_, self.cov_, size)

    def cdf(self, at):
        return special.ndtr((np.asarray(at) - self.mean_) / np.sqrt(np.diag(self.cov_)))

    def sample(self, size, rng):
        return rng.multivariate_normal(self.mean_, self.cov_, size)

    def expect(self, f, at=None):
        seen = f(self.draws)
        return Value(seen.mean(), seen.std() / np.sqrt(len(seen)))


class OutsideCounts(BasePosterior):
    """A binomial law, which says which values it can take."""

    @property
    def support(self):
        return np.arange(6.0)

    def cdf(self, at):
        return stats.binom.cdf(at, 5, 0.3)

    def sample(self, size, rng):
        return rng.binomial(5, 0.3, size).astype(float)

    def expect(self, f, at=None):
        return Value.exact(stats.binom.pmf(np.arange(6), 5, 0.3) @ f(self.support))


@pytest.mark.campaign(4, "slow")
@pytest.mark.parametrize("name", LOSSES)
def test_a_number_with_every_loss(name):
    mine, truth = Outside(stats.norm(0.3, 1.2)), Gaussian.scalar(0.3, 1.44)
    assert isinstance(mine, Posterior)
    found, exact = LOSSES[name].uncertainty(mine), LOSSES[name].uncertainty(truth)
    assert found.value == pytest.approx(float(exact.value), rel=2e-8) and found.value.shape == ()
    if name not in ("log score", "crps"):
        estimate, right = LOSSES[name].estimate(mine), LOSSES[name].estimate(truth)
        np.testing.assert_allclose(estimate, right, atol=1e-3)


@pytest.mark.campaign(4, "slow")
@pytest.mark.parametrize("name", LOSSES)
def test_a_skew_number_with_every_loss(name):
    law, x = stats.gamma(3.0), np.concatenate([[0.0], np.geomspace(1e-6, 90, 801)])
    found, exact = (LOSSES[name].uncertainty(p) for p in (Outside(law), Curve(x, law.logpdf(x))))
    assert found.value == pytest.approx(float(exact.value), rel=1e-6)


@pytest.mark.campaign(4, "slow")
@pytest.mark.parametrize("name", LOSSES)
def test_a_batch_with_every_loss(name):
    means = np.array([[0.0, 1.0, -3.0], [5.0, 0.5, 2.0]])
    found, exact = (LOSSES[name].uncertainty(p) for p in (OutsideBatch(means), Gaussian.scalar(means, 1.0)))
    assert found.value.shape == (2, 3)
    np.testing.assert_allclose(found.value, exact.value, rtol=3e-7)
    one = OutsideBatch(means).select((1, [0, 2, 2]))
    np.testing.assert_allclose(LOSSES[name].uncertainty(one).value, exact.value[1, [0, 2, 2]], rtol=3e-7)


@pytest.mark.parametrize("name", [n for n in LOSSES if n not in ("power 0.5", "custom")])
def test_a_vector_with_every_loss(name):
    mean, cov = [0.2, -0.1], [[1.0, 0.4], [0.4, 2.0]]
    mine, truth = OutsideVector(mean, cov), Gaussian(mean, cov)
    found, exact = LOSSES[name].uncertainty(mine), LOSSES[name].uncertainty(truth)
    # Densities and boxes of a vector are estimates from a few thousand draws.
    slack = {"log score": 0.03, "zero-one": 0.003}.get(name, 0.0)
    assert abs(found.value - exact.value) <= 4 * (found.error + exact.error) + slack


@pytest.mark.parametrize("name", [*LOSSES, "kullback-leibler"])
def test_a_finite_set_with_every_loss(name):
    loss = {**LOSSES, "kullback-leibler": KullbackLeibler()}[name]
    truth = Finite(np.arange(6.0), stats.binom.pmf(np.arange(6), 5, 0.3))
    for actions in (None, "target"):
        found, exact = loss.uncertainty(OutsideCounts(), actions), loss.uncertainty(truth, actions)
        assert found.value == pytest.approx(float(exact.value), rel=1e-9)


def test_summaries_of_a_number():
    law = stats.gamma(3.0)
    mine = Outside(law)
    assert mine.batch == mine.event == () and mine.support is None and mine.centre is None
    assert mine.select(()) is mine is mine.recentred()
    assert mine.mean() == pytest.approx(3.0, rel=1e-10) and mine.cov() == pytest.approx(np.array([[3.0]]), rel=1e-9)
    for q in (1e-6, 0.3, 0.999):
        assert mine.quantile(q) == pytest.approx(law.ppf(q), rel=1e-12)
    assert mine.upper_quantile(1e-6) == pytest.approx(law.isf(1e-6), rel=1e-9)
    assert mine.quantile(0.0) == pytest.approx(0.0, abs=1e-50)
    np.testing.assert_allclose(mine.log_density([0.2, 2.0, 9.0]), law.logpdf([0.2, 2.0, 9.0]), rtol=1e-8)
    assert mine.mode() == pytest.approx(2.0, abs=1e-4)
    assert mine.power([1.0, 2.0], 1.3, signed=True).value.shape == (2,)
    assert mine.log_mgf(0.2).value == pytest.approx(-3 * np.log(0.8), rel=1e-9)
    assert mine.thinned_sample(7, np.random.default_rng(1)).shape == (7,)
    assert "Outside" in repr(mine)


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, 5.0])
def test_moments_that_power_tails_make_infinite_are_infinite(order):
    mine = Outside(stats.t(order))
    finite = {
        "above": (mine.upper_partial_moment(0.3).value, order > 1),
        "mean difference": (mine.mean_difference().value, order > 1),
        "variance": (mine.var(), order > 2),
        "quadratic": (mine.quadratic().value, order > 2),
        "third": (mine.power(0.0, 3.0).value, order > 3),
        "generating function": (mine.log_mgf(0.1).value, False),
    }
    for name, (value, exists) in finite.items():
        assert np.isfinite(value) == exists, name
        assert not np.isnan(value), name
    assert np.isnan(mine.mean()) == (order <= 1)
    assert np.isfinite(mine.entropy().value) and mine.quantile(0.75) == pytest.approx(stats.t.ppf(0.75, order))
    assert Quadratic().uncertainty(Outside(stats.t(2))).value == np.inf


@pytest.mark.parametrize("law", [stats.norm(), stats.lognorm(1.0), stats.expon(), stats.uniform(), stats.lognorm(2.0)])
def test_lighter_tails_have_all_moments(law):
    mine = Outside(law)
    assert np.isinf(mine._tail_orders).all()
    assert np.isfinite(mine.power(0.0, 4.0).value)


def test_one_sided_tails_are_told_apart():
    mine = Outside(stats.pareto(0.9))
    assert (
        mine.mean() == np.inf
        and mine.upper_partial_moment(2.0).value == np.inf
        and np.isfinite(mine.lower_partial_moment(2.0).value)
    )
    assert mine.log_mgf(1.0).value == mine.log_mgf(-1.0, centred=True).value == np.inf
    exact = np.log(integrate.quad(lambda x: np.exp(-x) * stats.pareto.pdf(x, 0.9), 1.0, np.inf)[0])
    assert mine.log_mgf(-1.0).value == pytest.approx(exact, rel=1e-9)


@pytest.mark.slow
def test_parts_of_a_mixture_may_be_of_any_law():
    means, weights = np.array([-1.0, 0.5, 4.0]), np.array([0.2, 0.5, 0.3])
    mine, truth = Mixture(OutsideBatch(means), weights), Mixture(Gaussian.scalar(means, 1.0), weights)
    for name, loss in LOSSES.items():
        found, exact = loss.uncertainty(mine), loss.uncertainty(truth)
        assert found.value == pytest.approx(float(exact.value), rel=1e-6), name
    draws = mine.sample(4000, np.random.default_rng(2))
    assert stats.kstest(draws, truth.cdf).pvalue > 1e-3
