"""Records that are a few numbers with a positive chance and else have a density: zeros, censored ends."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import ruvdecision as ruv
from ruvdecision.errors import InputError, UnsupportedError

pytest.importorskip("pymc")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")

PSI = np.array([0.2, 0.5, 0.9])
"""Values of the only parameter, which then is summed."""


def pm():
    import pymc

    return pymc


def hurdle(n):
    with pm().Model() as model:
        psi = pm().Beta("psi", 3, 2)
        pm().HurdleGamma("x", psi=psi, alpha=2.0, beta=0.5, shape=n)
    return model


def censored(n):
    with pm().Model() as model:
        mu = pm().Normal("mu", 1, 2)
        pm().Censored("x", pm().Normal.dist(mu, 2.0), lower=0, upper=5.0, shape=n)
    return model


def with_zeros(n):
    with pm().Model() as model:
        mu = pm().Normal("mu", 1, 2)
        parts = [pm().DiracDelta.dist(0.0), pm().Normal.dist(mu, 1.0)]
        pm().Mixture("x", w=[0.3, 0.7], comp_dists=parts, shape=n)
    return model


def gauss(low, high, panels=40, order=20):
    """Nodes and weights of Gauss and Legendre in panels."""
    z, w = np.polynomial.legendre.leggauss(order)
    edges = np.linspace(low, high, panels + 1)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (z + 1)).ravel(), (half * w).ravel()


class Study:
    """The law of a record by sums over parameters, point masses and nodes: none of the package's code."""

    def __init__(self, theta, prior, places, chances, x, w, density, likelihoods):
        self.places, self.x = places, x
        self.joint = [
            (chances * like(places), density * w * like(x)) if like is not None else (chances, density * w)
            for like in likelihoods
        ]
        evidence = np.prod([a.sum(axis=1) + b.sum(axis=1) for a, b in self.joint], axis=0)
        self.posterior = prior * evidence / (prior @ evidence)
        self.theta, self.new = theta, (chances, density * w)

    def law(self, row):
        """Values with their probabilities."""
        own, dense = self.new if row is None else self.joint[row]
        mass = np.concatenate([own, dense], axis=1)
        chances = self.posterior @ (mass / mass.sum(axis=1, keepdims=True))
        return np.concatenate([self.places, self.x]), chances

    def variance_of_average(self):
        """Of the average of all records, which share the parameter."""
        values, moments = np.concatenate([self.places, self.x]), []
        for own, dense in self.joint:
            mass = np.concatenate([own, dense], axis=1)
            mass /= mass.sum(axis=1, keepdims=True)
            moments.append((mass @ values, mass @ values**2 - (mass @ values) ** 2))
        means, variances = np.mean(moments, axis=0)
        centre = self.posterior @ means
        return self.posterior @ (variances / len(self.joint) + (means - centre) ** 2)

    def variance(self, row):
        values, chances = self.law(row)
        return chances @ (values - chances @ values) ** 2

    def parameter_variance(self):
        return self.posterior @ (self.theta - self.posterior @ self.theta) ** 2


def hurdle_study(likelihoods):
    psi, w = gauss(0, 1, 4)
    x, wx = gauss(0, 60, 60)
    density = psi[:, None] * stats.gamma.pdf(x, 2, scale=2)
    return Study(psi, w * stats.beta.pdf(psi, 3, 2), np.zeros(1), 1 - psi[:, None], x, wx, density, likelihoods)


def censored_study(likelihoods):
    mu, w = gauss(-15, 17, 12)
    x, wx = gauss(0, 5, 10)
    chances = np.stack([stats.norm.cdf(0, mu, 2), stats.norm.sf(5, mu, 2)], axis=1)
    density = stats.norm.pdf(x, mu[:, None], 2)
    return Study(mu, w * stats.norm.pdf(mu, 1, 2), np.array([0.0, 5.0]), chances, x, wx, density, likelihoods)


def zeros_study(likelihoods):
    mu, w = gauss(-15, 17, 12)
    x, wx = gauss(-25, 27, 60)
    density = 0.7 * stats.norm.pdf(x, mu[:, None], 1)
    chances = np.full((len(mu), 1), 0.3)
    return Study(mu, w * stats.norm.pdf(mu, 1, 2), np.zeros(1), chances, x, wx, density, likelihoods)


def noise(y, sd):
    return lambda x: stats.norm.pdf(y, x, sd)


def between(low, high):
    return lambda x: ((x >= low) & (x <= high)).astype(float)


def exactly(y):
    """What is known is a point mass if it is one, else a density: the width is the same for all parameters."""
    return lambda x: np.where(np.abs(x - y) < 1e-9, 1.0, 0.0)


NOISY = np.array([0.4, -0.8, 5.0, 2.0])
CASES = {
    "zeros of incomes, noise": (hurdle, hurdle_study, ruv.Noise(sd=1.0), NOISY, [noise(y, 1.0) for y in NOISY]),
    "censored, noise": (censored, censored_study, ruv.Noise(sd=1.0), NOISY, [noise(y, 1.0) for y in NOISY]),
    "zeros among normals, noise": (with_zeros, zeros_study, ruv.Noise(sd=1.0), NOISY, [noise(y, 1.0) for y in NOISY]),
    "censored, rounded": (
        censored,
        censored_study,
        ruv.Round(base=2.0),
        np.array([0.0, 2.0, 4.0, np.nan]),
        [between(0, 1), between(1, 3), between(3, 5), None],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_point_masses_beside_a_density(name: str) -> None:
    """They were refused: integrals over the density alone were 40 per cent off, with error 0."""
    build, study, mask, release, likelihoods = CASES[name]
    belief, truth = ruv.PyMCBelief(build, size=4), study(likelihoods)
    for target, row in ((ruv.Record(0), 0), (ruv.NewRecord(), None)):
        law = ruv.posterior(ruv.User(belief, target, ruv.Quadratic()), mask, release)
        assert float(law.var()) == pytest.approx(truth.variance(row), rel=1e-7)
        values, chances = truth.law(row)
        places = len(truth.places)
        for value, chance in zip(values[:places], chances[:places], strict=True):
            jump = float(law.cdf(value)) - float(law.cdf(np.nextafter(value, -np.inf)))
            assert jump == pytest.approx(chance, abs=1e-8)
        hit = float(ruv.ZeroOne().uncertainty(law).value)
        assert hit == pytest.approx(1 - chances[:places].max(), abs=1e-8)
    parameter = ruv.User(belief, ruv.Parameter("psi" if build is hurdle else "mu"), ruv.Quadratic())
    assert float(ruv.posterior(parameter, mask, release).var()) == pytest.approx(truth.parameter_variance(), rel=1e-5)


@pytest.mark.slow
def test_sampling_has_them_too() -> None:
    likelihoods = [noise(y, 1.0) for y in NOISY]
    truth, belief = hurdle_study(likelihoods), ruv.PyMCBelief(hurdle, size=4)
    engine = ruv.Sampling(draws=2000, tune=500, chains=2)
    for target, row in ((ruv.Record(0), 0), (ruv.NewRecord(), None)):
        user = ruv.User(belief, target, ruv.Quadratic())
        value, error = user.loss.uncertainty(ruv.posterior(user, ruv.Noise(sd=1.0), NOISY, engine=engine))
        assert abs(value - truth.variance(row)) < 4 * error
        assert error < 0.1 * value
    user = ruv.User(belief, ruv.Average(), ruv.Quadratic())
    law = ruv.posterior(user, ruv.Noise(sd=1.0), NOISY, engine=engine)
    value, error = user.loss.uncertainty(law)
    assert abs(value - truth.variance_of_average()) < 4 * error
    assert error < 0.1 * value
    assert error < 0.1 * value


def test_a_released_zero_counts_by_its_chance() -> None:
    """A released zero is known to be a point mass, any other number to be none."""
    belief, release = ruv.PyMCBelief(hurdle, size=5), np.array([0.0, 1.7, 0.0, 3.1, np.nan])
    mask = ruv.Suppress(rows=[4])
    law = ruv.posterior(ruv.User(belief, ruv.Parameter("psi"), ruv.Quadratic()), mask, release)
    assert float(law.mean()) == pytest.approx(5 / 9, rel=1e-8)  # Beta(3 + 2, 2 + 2)
    record = ruv.posterior(ruv.User(belief, ruv.Record(4), ruv.ZeroOne()), mask, release)
    assert float(ruv.ZeroOne().uncertainty(record).value) == pytest.approx(5 / 9, rel=1e-8)
    assert float(ruv.Quadratic().uncertainty(record).value) == pytest.approx(5 / 9 * 24 - (5 / 9 * 4) ** 2, rel=1e-7)
    known = ruv.posterior(ruv.User(belief, ruv.Record(0), ruv.Quadratic()), mask, release)
    assert float(known.mean()) == 0 and float(known.var()) == 0


def test_a_zero_that_hardly_can_be() -> None:
    """Far from zero the density has all of the evidence but for rounding, and some of it before."""
    user = ruv.User(ruv.PyMCBelief(hurdle, size=1), ruv.Record(0), ruv.ZeroOne())
    x, w = gauss(0.0, 60.0, panels=200)
    for y in np.linspace(2.0, 30.0, 15):
        density = w @ (stats.gamma.pdf(x, 2.0, scale=2.0) * stats.norm.pdf(y, x, 1.0))
        odds = 0.4 * stats.norm.pdf(y) / (0.6 * density)
        found = ruv.posterior(user, ruv.Noise(sd=1), [y], engine=ruv.Quadrature())
        np.testing.assert_allclose(found.cdf(0.0), odds / (1 + odds), rtol=1e-6, atol=1e-12)


def test_ends_that_differ_from_record_to_record() -> None:
    """Follow-up times are known, and differ; an exponential time has a conjugate prior."""
    end = np.array([1.0, 2.0, 4.0])

    def times(n):
        with pm().Model() as model:
            rate = pm().Gamma("rate", 3, 2)
            pm().Censored("x", pm().Exponential.dist(rate), lower=None, upper=end[:n], shape=n)
        return model

    belief, release = ruv.PyMCBelief(times, size=3), np.array([1.0, 0.6, np.nan])
    mask = ruv.Suppress(rows=[2])
    rate = ruv.posterior(ruv.User(belief, ruv.Parameter("rate"), ruv.Quadratic()), mask, release)
    assert float(rate.mean()) == pytest.approx(4 / 3.6, rel=1e-7)  # Gamma(3 + 1, 2 + 1.6)
    time = ruv.posterior(ruv.User(belief, ruv.Record(2), ruv.Quadratic()), mask, release)
    assert float(ruv.ZeroOne().uncertainty(time).value) == pytest.approx(1 - (3.6 / 7.6) ** 4, rel=1e-7)
    mean = integrate.quad(lambda t: (3.6 / (3.6 + t)) ** 4, 0, 4)[0]
    assert float(time.mean()) == pytest.approx(mean, rel=1e-7)
    with pytest.raises(UnsupportedError, match="new record is not defined"):
        ruv.posterior(ruv.User(belief, ruv.NewRecord(), ruv.Quadratic()), mask, release)


def test_places_that_depend_on_the_parameters() -> None:
    def moving(n):
        with pm().Model() as model:
            end = pm().Normal("end", 3, 1)
            pm().Censored("x", pm().Normal.dist(0, 1), lower=None, upper=end, shape=n)
        return model

    with pytest.raises(InputError, match="point masses that cannot be located") as error:
        ruv.posterior(
            ruv.User(ruv.PyMCBelief(moving, size=3), ruv.Record(0), ruv.Quadratic()), ruv.Noise(sd=1.0), NOISY[:3]
        )
    assert "pm.Deterministic" in error.value.do


def test_a_density_that_jumps_at_a_point_mass() -> None:
    """One part of a mixture ends there, and the other goes on: the mean was 1.5e-4 off."""

    def part(n):
        with pm().Model() as model:
            mu = pm().Normal("mu", 0, 1)
            parts = [pm().Censored.dist(pm().Normal.dist(mu, 1.0), lower=None, upper=2.0), pm().Normal.dist(1.0, 1.0)]
            pm().Mixture("x", w=[0.5, 0.5], comp_dists=parts, shape=n)
        return model

    user = ruv.User(ruv.PyMCBelief(part, size=3), ruv.Record(0), ruv.Quadratic())
    with pytest.raises(InputError, match="jumps at a point mass") as error:
        ruv.posterior(user, ruv.Noise(sd=1.0), NOISY[:3])
    assert error.value.got == "at 2"


def test_a_law_of_the_user_that_clips() -> None:
    """Its density was taken for all of it: no integral saw the zeros."""

    def clipped(n):
        def cut(mu, size):
            return pm().math.clip(pm().Normal.dist(mu, 1.0, size=size), 0.0, np.inf)

        with pm().Model() as model:
            mu = pm().Normal("mu", 0, 1)
            pm().CustomDist("x", mu, dist=cut, shape=n)
        return model

    with pytest.raises(InputError, match="point masses that cannot be located"):
        ruv.posterior(
            ruv.User(ruv.PyMCBelief(clipped, size=3), ruv.Record(0), ruv.Quadratic()), ruv.Noise(sd=1.0), NOISY[:3]
        )


def test_records_that_must_be_drawn_together() -> None:
    user = ruv.User(ruv.PyMCBelief(hurdle, size=4), ruv.Record(0), ruv.Quadratic())
    with pytest.raises(UnsupportedError, match="point masses cannot be sampled"):
        ruv.evaluate([ruv.Microaggregate(groups=1)], intruder=user, scientist=user, replicates=1, seed=1)


def place_inside(n):
    """A number inside the range of the density; the parameter says nothing of the records."""
    with pm().Model() as model:
        pm().Normal("aside", 0, 1)
        parts = [pm().DiracDelta.dist(2.0), pm().Normal.dist(1.5, 1.0)]
        pm().Mixture("x", w=[0.3, 0.7], comp_dists=parts, shape=n)
    return model


def censored_mixture(n):
    with pm().Model() as model:
        pm().Normal("aside", 0, 1)
        parts = [pm().DiracDelta.dist(0.0), pm().Gamma.dist(2.0, 1.0)]
        pm().Censored("x", pm().Mixture.dist(w=[0.3, 0.7], comp_dists=parts), lower=None, upper=5.0, shape=n)
    return model


def moments(places, chances, density, likelihood, low, high):
    """Mean and variance of a record by adaptive quadrature about the point masses."""
    inside = [p for p in places if low < p < high]

    def power(k):
        dense = integrate.quad(
            lambda x: x**k * density(x) * likelihood(x), low, high, points=inside or None, limit=500, epsabs=1e-14
        )[0]
        return dense + sum(c * p**k * likelihood(p) for p, c in zip(places, chances, strict=True))

    mean = power(1) / power(0)
    return mean, power(2) / power(0) - mean**2


@pytest.mark.parametrize(
    ("mask", "likelihood", "low", "high"),
    [
        (ruv.Round(1.0), lambda x: float(1.5 <= x <= 2.5), 1.5, 2.5),
        (ruv.Noise(sd=0.05), lambda x: stats.norm.pdf(2.0, x, 0.05), 1.4, 2.6),
    ],
    ids=["rounded to it", "released at it"],
)
def test_a_release_at_a_point_mass_inside_the_range(mask, likelihood, low, high) -> None:
    user = ruv.User(ruv.PyMCBelief(place_inside, records="x"), ruv.Record(0), ruv.Quadratic())
    found = ruv.posterior(user, mask, np.array([2.0, 1.0, 3.0]), engine=ruv.Quadrature())
    dense = lambda x: 0.7 * stats.norm.pdf(x, 1.5, 1.0)  # noqa: E731
    mean, variance = moments([2.0], [0.3], dense, likelihood, low, high)
    assert float(found.mean()) == pytest.approx(mean, rel=1e-9)
    assert float(found.var()) == pytest.approx(variance, rel=1e-8)


def test_a_censored_law_keeps_its_own_point_masses() -> None:
    user = ruv.User(ruv.PyMCBelief(censored_mixture, records="x"), ruv.Record(0), ruv.Quadratic())
    found = ruv.posterior(user, ruv.Noise(sd=0.5), np.array([0.1, 1.2, 2.3]), engine=ruv.Quadrature())
    dense = lambda x: 0.7 * stats.gamma.pdf(x, 2.0)  # noqa: E731
    near = lambda x: stats.norm.pdf(0.1, x, 0.5)  # noqa: E731
    chances = [0.3, 0.7 * stats.gamma.sf(5.0, 2.0)]
    mean, variance = moments([0.0, 5.0], chances, dense, near, 0.0, 5.0)
    assert float(found.mean()) == pytest.approx(mean, rel=1e-8)
    assert float(found.var()) == pytest.approx(variance, rel=1e-8)


def upper_end_at_a_mass(n):
    own = pm().Mixture.dist(w=[0.3, 0.7], comp_dists=[pm().DiracDelta.dist(2.0), pm().Normal.dist(0.0, 2.0)])
    return pm().Censored("x", own, lower=None, upper=2.0, shape=n)


def parts_along_an_axis(n):
    own = pm().Censored.dist(pm().Normal.dist(np.array([0.0, 5.0]), 1.0), 0.0, None)
    return pm().Mixture("x", w=[0.3, 0.7], comp_dists=own, shape=n)


def rare_mass_of_the_user(n):
    parts = [pm().DiracDelta.dist(0.0), pm().Gamma.dist(2.0, 1.0)]
    law = lambda size: pm().Mixture.dist(w=[0.002, 0.998], comp_dists=parts, size=size)  # noqa: E731
    return pm().CustomDist("x", dist=law, shape=n)


def tied_by_their_sum(n):
    x = pm().HurdleGamma("x", psi=0.7, alpha=2.0, beta=1.0, shape=n)
    pm().Normal("total", x.sum(), 3.0, observed=4.0)


def parameter_with_a_spike(n):
    mean = pm().Mixture("mean", w=[0.5, 0.5], comp_dists=[pm().DiracDelta.dist(0.0), pm().Normal.dist(0.0, 1.0)])
    pm().Normal("x", mean, 1.0, shape=n)


@pytest.mark.parametrize(
    "write",
    [upper_end_at_a_mass, parts_along_an_axis, rare_mass_of_the_user, tied_by_their_sum, parameter_with_a_spike],
    ids=lambda write: write.__name__,
)
def test_point_masses_that_nothing_would_count_are_refused(write) -> None:
    def builder(n):
        with pm().Model() as model:
            pm().Normal("aside", 0, 1)
            write(n)
        return model

    user = ruv.User(ruv.PyMCBelief(builder, records="x"), ruv.Record(0), ruv.Quadratic())
    with pytest.raises(InputError, match="point masses"):
        ruv.posterior(user, ruv.Noise(sd=0.5), np.array([0.1, 1.2, 2.3]))
