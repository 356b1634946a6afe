"""The quadrature engine: against closed forms.

Against the exact engine and against sums over fine grids written here.
"""

import numpy as np
import pytest
from scipy import stats

import ruvdecision as ruv
from ruvdecision.beliefs.normal import NormalBelief
from ruvdecision.beliefs.pymc import PyMCBelief
from ruvdecision.engines.base import Problem
from ruvdecision.engines.normal.exact import Exact
from ruvdecision.engines.pymc.log_posterior import log_posteriors
from ruvdecision.engines.pymc.model import compiled_model
from ruvdecision.engines.pymc.node_uncertainty import SettledUncertainties, _boxes_that_miss_no_mass
from ruvdecision.engines.pymc.quadrature import Quadrature
from ruvdecision.engines.pymc.replicates import observed_in
from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.losses import CRPS, Absolute, CustomLoss, IntervalScore, Linex, LogScore, Pinball, Quadratic, ZeroOne
from ruvdecision.masks import Microaggregate, Noise, Release, Round, Shuffle, Subsample, Suppress, Topcode
from ruvdecision.masks.base import Batch
from ruvdecision.posteriors import Curve, Mixture
from ruvdecision.targets import Average, Functional, Identity, Maximum, NewRecord, Parameter, Record, Records
from ruvdecision.users.user import User

pytest.importorskip("pymc")

SEED = np.random.SeedSequence(1)


def pm():
    import pymc

    return pymc


def known_variance(n):
    with pm().Model() as model:
        mu = pm().Normal("mu", 0, np.sqrt(5.0))
        pm().Normal("x", mu, np.sqrt(2.0), shape=n)
    return model


def mean_and_sd(n):
    with pm().Model() as model:
        mu = pm().Normal("mu", 0, 10)
        sigma = pm().HalfNormal("sigma", 5)
        pm().Deterministic("level", pm().math.exp(0.1 * mu + 0.1 * sigma))
        pm().Normal("x", mu, sigma, shape=n)
    return model


def conjugate(n):
    with pm().Model() as model:
        v = pm().InverseGamma("v", 3, 4)
        mu = pm().Normal("mu", 1, pm().math.sqrt(v / 2))
        pm().Normal("x", mu, pm().math.sqrt(v), shape=n)
    return model


def waiting(n):
    with pm().Model() as model:
        rate = pm().Gamma("rate", 2, 1)
        pm().Exponential("x", rate, shape=n)
    return model


def incomes(n):
    with pm().Model() as model:
        mu = pm().Normal("mu", 1, 1)
        pm().LogNormal("x", mu, 0.5, shape=n)
    return model


def trait(n):
    with pm().Model() as model:
        p = pm().Beta("p", 2, 3)
        pm().Bernoulli("x", p, shape=n)
    return model


@pytest.fixture(scope="module")
def beliefs():
    builders = [known_variance, mean_and_sd, conjugate, waiting, incomes, trait]
    return {b.__name__: PyMCBelief(b) for b in builders}


DATA = np.random.default_rng(3).normal(1.0, 1.4, 12)


def solved(belief, target, loss, masks, data=DATA, replicates=1, **options):
    """One release of each mask: what is tested is the number that it has."""
    user = User(belief, target, loss)
    return Quadrature().solve(user, masks, data=data, seed=SEED, replicates=replicates, **options)


# -- against the exact engine ------------------------------------------------------------------------------


TARGETS = {
    "record": Record(0),
    "mean": Parameter("mu"),
    "somebody else": NewRecord(),
    "average": Average(),
    "linear": Functional(lambda a, b, m: a - 2 * m + 0.5 * b + 1, of=[Record(0), Record(3), Parameter("mu")]),
    "coefficients": Functional([1.0, -1.0], of=[Record(1), Average()]),
}
LOSSES = {
    "quadratic": Quadratic(),
    "absolute": Absolute(),
    "pinball": Pinball(0.8),
    "linex": Linex(0.3),
    "zero-one": ZeroOne(0.4),
    "log score": LogScore(),
    "crps": CRPS(),
    "interval": IntervalScore(0.8),
}


@pytest.mark.slow
@pytest.mark.campaign(4)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("loss", LOSSES)
def test_known_variance_is_the_exact_study(beliefs, target, loss):
    exact = NormalBelief(records=12, variance=2, prior_mean=0, prior_variance=5)
    masks = [Noise(variance=v) for v in (0.05, 1.0, 30.0)] + [Suppress(), Noise(sd=0.5) | Noise(sd=1.5)]
    if target == "mean":
        masks.append(Release())
    found = solved(beliefs["known_variance"], TARGETS[target], LOSSES[loss], masks)
    truth = Exact().solve(User(exact, TARGETS[target], LOSSES[loss]), masks, data=DATA, seed=SEED)
    np.testing.assert_allclose(found.uncertainty, truth.uncertainty, rtol=1e-9)
    assert found.before == pytest.approx(truth.before, rel=1e-9)
    assert np.all(np.array(found.diagnostics["node_error"]) <= 1e-8)
    words = ["nothing is released" if mask == Suppress() else "closed form" for mask in masks]
    assert all(found.diagnostics["converged"]) and found.diagnostics["marginalization"] == words


def test_posteriors_are_those_of_the_exact_engine(beliefs):
    exact = NormalBelief(records=12, variance=2, prior_mean=0, prior_variance=5)
    mask = Noise(sd=0.7)
    release = mask.release(DATA, 5)
    for target in (Record(4), Parameter("mu"), NewRecord()):
        mine = Quadrature().posterior(User(beliefs["known_variance"], target, Quadratic()), mask, release)
        theirs = Exact().posterior(User(exact, target, Quadratic()), mask, release)
        assert isinstance(mine, Curve if isinstance(target, Parameter) else Mixture)
        np.testing.assert_allclose(mine.mean(), theirs.mean(), rtol=1e-10)
        np.testing.assert_allclose(mine.quantile(0.9), theirs.quantile(0.9), rtol=1e-9)
    shuffled = Noise(sd=0.7) | Shuffle()
    release = shuffled.release(DATA, 5)
    mine = solved(beliefs["known_variance"], Record(4), Absolute(), [shuffled])
    assert mine.diagnostics["node_error"][0] < 1e-8
    law = Exact().posterior(User(exact, Record(4), Absolute()), shuffled, shuffled.release(DATA[:, None], _mask_seed()))
    assert mine.uncertainty[0] == pytest.approx(float(Absolute().uncertainty(law).value), rel=1e-8)


def _mask_seed():
    from ruvdecision.running.replication import replicate_seeds

    return next(iter(replicate_seeds(SEED, 1)))[1]


@pytest.mark.long
def test_several_variables_are_the_exact_study():
    cov, prior = np.array([[2.0, 0.8], [0.8, 1.0]]), np.array([[3.0, 1.0], [1.0, 2.0]])

    def pairs(n):
        with pm().Model() as model:
            mu = pm().MvNormal("mu", np.zeros(2), prior)
            pm().MvNormal("x", mu, cov, shape=(n, 2))
        return model

    data = np.random.default_rng(5).multivariate_normal([1, 0], cov, 15)
    exact = NormalBelief(records=15, covariance=cov, prior_mean=[0, 0], prior_covariance=prior)
    masks = [Noise(covariance=np.array([[1.0, 0.3], [0.3, 0.5]])), Noise(sd=0.4)]
    for target in (Record(2), Parameter("mu"), Parameter("mu", component=1)):
        found = solved(PyMCBelief(pairs), target, Quadratic(), masks, data=data)
        truth = Exact().solve(User(exact, target, Quadratic()), masks, data=data, seed=SEED)
        np.testing.assert_allclose(found.uncertainty, truth.uncertainty, rtol=1e-9)


@pytest.mark.slow
def test_a_regression_is_solved_row_by_row():
    t = np.linspace(-1, 1, 9)

    def line(n):
        with pm().Model() as model:
            a, b = pm().Normal("a", 0, 2), pm().Normal("b", 0, 3)
            pm().Normal("x", a + b * t[:n], 0.7, shape=n)
        return model

    data = 1 + 2 * t + np.random.default_rng(2).normal(0, 0.7, 9)
    found = {
        name: solved(PyMCBelief(line), Parameter(name), Quadratic(), [Noise(sd=0.5)], data=data).uncertainty[0]
        for name in "ab"
    }
    design = np.stack([np.ones(9), t], axis=1)
    cov = np.linalg.inv(np.diag([1 / 4, 1 / 9]) + design.T @ design / (0.49 + 0.25))
    assert found["a"] == pytest.approx(cov[0, 0], rel=1e-9) and found["b"] == pytest.approx(cov[1, 1], rel=1e-9)
    record = solved(PyMCBelief(line), Record(8), Quadratic(), [Noise(sd=0.5)], data=data).uncertainty[0]
    gain = 0.49 / (0.49 + 0.25)
    row = design[8] * (1 - gain)
    assert record == pytest.approx(0.49 * (1 - gain) + row @ cov @ row, rel=1e-9)


# -- against Student's law ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_unknown_variance_gives_students_law(beliefs):
    n, mean = len(DATA), DATA.mean()
    a, kappa = 3 + n / 2, 2 + n
    b = 4 + 0.5 * np.sum((DATA - mean) ** 2) + 0.5 * n * 2 / kappa * (mean - 1) ** 2
    place = (2 * 1 + n * mean) / kappa
    laws = {
        "mean": (Parameter("mu"), stats.t(2 * a, place, np.sqrt(b / (a * kappa)))),
        "variance": (Parameter("v"), stats.invgamma(a, scale=b)),
        "somebody else": (NewRecord(), stats.t(2 * a, place, np.sqrt(b * (kappa + 1) / (a * kappa)))),
    }
    for target, law in laws.values():
        belief = beliefs["conjugate"]

        def ask(loss, target=target, belief=belief):
            return float(solved(belief, target, loss, [Release()]).uncertainty[0])

        assert ask(Quadratic()) == pytest.approx(law.var(), rel=1e-9)
        assert ask(LogScore()) == pytest.approx(law.entropy(), rel=1e-8)
        x = np.linspace(law.ppf(1e-15), law.ppf(1 - 1e-13), 400_001)
        assert ask(Absolute()) == pytest.approx(np.trapezoid(np.abs(x - law.median()) * law.pdf(x), x), rel=1e-7)
        posterior = Quadrature().posterior(User(belief, target, Quadratic()), Release(), DATA)
        for q in (0.01, 0.5, 0.975):
            assert posterior.quantile(q) == pytest.approx(law.ppf(q), rel=1e-8)
        at = law.ppf([0.1, 0.6])
        np.testing.assert_allclose(posterior.log_density(at), law.logpdf(at), atol=1e-8)


def by_hand(noise_sd, release, points=1201):
    """Posterior of mean and sd on a fine grid in their own units, the noise added."""
    # Midpoints, since the density does not vanish where the sd does.
    mu, sigma = np.linspace(-14, 16, points)[:, None], (np.arange(points) + 0.5) * 25 / points
    total = sigma**2 + noise_sd**2
    n, mean = len(release), release.mean()
    logs = -0.5 * mu**2 / 100 - 0.5 * sigma**2 / 25 - 0.5 * n * np.log(total)
    logs = logs - 0.5 * (np.sum((release - mean) ** 2) + n * (mean - mu) ** 2) / total
    weights = np.exp(logs - logs.max())
    return mu, sigma, weights / weights.sum()


@pytest.mark.slow
@pytest.mark.campaign(3, "slow")
@pytest.mark.parametrize("noise_sd", [0.3, 1.5, 6.0])
def test_noise_with_unknown_sd_against_a_fine_grid(beliefs, noise_sd):
    mask = Noise(sd=noise_sd)
    release = np.asarray(mask.release(DATA[:, None], _mask_seed()))[:, 0]
    mu, sigma, w = by_hand(noise_sd, release)
    belief = beliefs["mean_and_sd"]
    gain = sigma**2 / (sigma**2 + noise_sd**2)
    means = mu + gain * (release[0] - mu)
    record = np.sum(w * (means**2 + sigma**2 * (1 - gain))) - np.sum(w * means) ** 2
    assert solved(belief, Record(0), Quadratic(), [mask]).uncertainty[0] == pytest.approx(record, rel=1e-5)

    def spread(values):
        return np.sum(w * values**2) - np.sum(w * values) ** 2

    derived = Functional(lambda m, s: m + 1.5 * s, of=[Parameter("mu"), Parameter("sigma")])
    for target, values in (
        (Parameter("mu"), mu + 0 * sigma),
        (Parameter("sigma"), sigma + 0 * mu),
        (derived, mu + 1.5 * sigma),
        (Parameter("level"), np.exp(0.1 * mu + 0.1 * sigma)),
    ):
        assert solved(belief, target, Quadratic(), [mask]).uncertainty[0] == pytest.approx(spread(values), rel=1e-4)
        found = Quadrature().posterior(User(belief, target, Quadratic()), mask, release)
        # Wide noise leaves the other parameter summed out to six digits, and the law says so.
        assert isinstance(found, Curve) and found.error < 2e-6
        order = np.argsort(values, axis=None)
        sums = np.cumsum(w.ravel()[order])
        for q in (0.05, 0.5, 0.9):
            # The fine grid is even, so that its distribution function is known to about a cell.
            assert found.quantile(q) == pytest.approx(values.ravel()[order][np.searchsorted(sums, q)], abs=0.03)


@pytest.mark.slow
@pytest.mark.campaign(3, "slow")
@pytest.mark.parametrize("loss", ["absolute", "log score", "linex"])
def test_a_function_that_is_a_parameter_is_that_parameter(beliefs, loss):
    belief, masks = beliefs["mean_and_sd"], [Noise(sd=0.8)]
    for name, function in (("mu", lambda m, s: m), ("sigma", lambda m, s: s)):
        plain = solved(belief, Parameter(name), LOSSES[loss], masks)
        same = solved(belief, Functional(function, of=[Parameter("mu"), Parameter("sigma")]), LOSSES[loss], masks)
        np.testing.assert_allclose(same.uncertainty, plain.uncertainty, rtol=1e-8)
        assert plain.diagnostics["node_error"][0] <= 1e-8


@pytest.mark.long
def test_a_function_that_turns_is_summed_over_nodes(beliefs):
    target = Functional(lambda m, s: (m - 1) ** 2, of=[Parameter("mu"), Parameter("sigma")])
    found = solved(beliefs["mean_and_sd"], target, Absolute(), [Noise(sd=0.8)])
    release = np.asarray(Noise(sd=0.8).release(DATA[:, None], _mask_seed()))[:, 0]
    mu, _, w = by_hand(0.8, release)
    values = np.broadcast_to((mu - 1) ** 2, w.shape)
    order = np.argsort(values, axis=None)
    middle = values.ravel()[order][np.searchsorted(np.cumsum(w.ravel()[order]), 0.5)]
    truth = np.sum(w * np.abs(values - middle))
    error = found.diagnostics["node_error"][0] * found.uncertainty[0]
    assert abs(found.uncertainty[0] - truth) < 4 * error + 1e-3 * truth
    with pytest.raises(UnsupportedError, match="no density"):
        solved(beliefs["mean_and_sd"], target, LogScore(), [Noise(sd=0.8)])


# -- other laws ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_topcoded_waiting_times_in_closed_form(beliefs):
    data = np.random.default_rng(4).exponential(0.7, 20)
    cut = 0.8
    top = int(np.argmax(data))
    a, b = 2 + np.sum(data < cut), 1 + np.minimum(data, cut).sum()
    mask = Topcode(at=cut)
    rate = solved(beliefs["waiting"], Parameter("rate"), Quadratic(), [mask], data=data)
    assert rate.uncertainty[0] == pytest.approx(a / b**2, rel=1e-9)
    assert solved(beliefs["waiting"], Parameter("rate"), LogScore(), [mask], data=data).uncertainty[0] == pytest.approx(
        stats.gamma(a, scale=1 / b).entropy(), rel=1e-8
    )
    beyond = stats.lomax(a, loc=cut, scale=b)
    record = solved(beliefs["waiting"], Record(top), Absolute(), [mask], data=data)
    x = cut + b * (np.expm1(np.linspace(0, 40 / a, 400_001)))
    assert record.uncertainty[0] == pytest.approx(
        np.trapezoid(np.abs(x - beyond.median()) * beyond.pdf(x), x), rel=1e-6
    )
    seen = solved(beliefs["waiting"], Record(int(np.argmin(data))), Quadratic(), [mask], data=data)
    assert seen.uncertainty[0] == pytest.approx(0, abs=1e-12)


@pytest.mark.slow
@pytest.mark.campaign(3, "slow")
@pytest.mark.parametrize("mask", [Noise(sd=1.0), Noise(sd=1.0, kind="laplace"), Round(base=2.0)])
def test_lognormal_records_against_fine_grids(beliefs, mask):
    data = np.random.default_rng(6).lognormal(1.2, 0.5, 8)
    release = np.asarray(mask.release(data[:, None], _mask_seed()))[:, 0]
    mu = np.linspace(-1, 3.5, 401)
    if isinstance(mask, Round):
        x = np.stack([np.linspace(max(y - 1.0, 1e-9), y + 1.0, 2001) for y in release])
        like = np.ones_like(x)
    else:
        law = stats.laplace(scale=1 / np.sqrt(2)) if mask.kind == "laplace" else stats.norm()
        # The kink of the noise's law lies on a point.
        x = np.stack(
            [
                np.concatenate([np.geomspace(1e-3, y, 4001), np.geomspace(y, 300, 4001)[1:]])
                for y in np.maximum(release, 0.01)
            ]
        )
        like = law.pdf(release[:, None] - x)
    moments = np.empty((len(mu), 3))
    logs = -0.5 * (mu - 1) ** 2
    for i, m in enumerate(mu):
        density = stats.lognorm.pdf(x, 0.5, scale=np.exp(m))
        logs[i] += np.sum(np.log(np.trapezoid(like * density, x, axis=1)))
        moments[i] = [np.trapezoid(like[2] * density[2] * x[2] ** k, x[2]) for k in range(3)]
    w = np.exp(logs - logs.max())
    w /= w.sum()
    first, second = (np.sum(w * moments[:, k] / moments[:, 0]) for k in (1, 2))
    tolerance = 1e-5  # of the sums written here
    found = solved(beliefs["incomes"], Record(2), Quadratic(), [mask], data=data)
    assert found.uncertainty[0] == pytest.approx(second - first**2, rel=tolerance)
    assert found.diagnostics["node_error"][0] <= 1e-6
    mean = solved(beliefs["incomes"], Parameter("mu"), Quadratic(), [mask], data=data)
    assert mean.uncertainty[0] == pytest.approx(np.sum(w * mu**2) - np.sum(w * mu) ** 2, rel=tolerance)


def test_a_sample_of_categories_in_closed_form(beliefs):
    data = np.array([1, 0, 0, 1, 1, 0, 1, 1, 0, 1])
    everything = solved(beliefs["trait"], Parameter("p"), Quadratic(), [Release()], data=data)
    a, b = 2 + data.sum(), 3 + len(data) - data.sum()
    assert everything.uncertainty[0] == pytest.approx(stats.beta(a, b).var(), rel=1e-8)
    nothing = solved(beliefs["trait"], Record(0), ZeroOne(), [Suppress()], data=data)
    assert nothing.uncertainty[0] == pytest.approx(0.4, rel=1e-9)


def test_nothing_unknown():
    def plain(n):
        with pm().Model() as model:
            pm().Normal("x", 1.0, 2.0, shape=n)
        return model

    found = solved(PyMCBelief(plain), Record(0), Quadratic(), [Noise(sd=1.0)])
    assert found.uncertainty[0] == pytest.approx(0.8, rel=1e-12) and found.before == pytest.approx(4.0)


# -- the engine -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_far_away_and_other_units():
    def rescaled(n):
        with pm().Model() as model:
            mu = pm().Normal("mu", 0, 1e7)
            sigma = pm().HalfNormal("sigma", 5e6)
            pm().Normal("x", mu, sigma, shape=n)
        return model

    mask, data = Noise(sd=3e4), 1e6 + 3e4 * DATA
    found = solved(PyMCBelief(rescaled), Record(0), Quadratic(), [mask], data=data)
    assert 0.1 < found.uncertainty[0] / 9e8 < 1
    assert found.diagnostics["node_error"][0] < 1e-8


def test_sampled_rows_and_unequal_noise(beliefs):
    exact = NormalBelief(records=12, variance=2, prior_mean=0, prior_variance=5)
    mask = Noise(variance=np.linspace(0.1, 3, 12))
    found = solved(beliefs["known_variance"], Parameter("mu"), Quadratic(), [mask])
    precision = 1 / 5 + np.sum(1 / (2 + np.linspace(0.1, 3, 12)))
    assert found.uncertainty[0] == pytest.approx(1 / precision, rel=1e-10)
    part = solved(beliefs["known_variance"], Parameter("mu"), Quadratic(), [Subsample(size=5)])
    truth = Exact().solve(User(exact, Parameter("mu"), Quadratic()), [Subsample(size=5)], data=DATA, seed=SEED)
    assert part.uncertainty[0] == pytest.approx(float(truth.uncertainty[0]), rel=1e-9)


@pytest.mark.slow
def test_replicates_and_planning(beliefs):
    user = User(beliefs["mean_and_sd"], Record(0), Quadratic())
    options = {"data": DATA, "seed": SEED}
    many = Quadrature().solve(user, [Noise(sd=1.0), Noise(sd=2.0)], replicates=12, **options)
    once = Quadrature().solve(user, [Noise(sd=1.0), Noise(sd=2.0)], replicates=1, **options)
    again = Quadrature().solve(user, [Noise(sd=2.0)], replicates=12, **options)
    assert np.all(many.error > 0) and np.all(np.isnan(once.error))  # one release has no error
    assert again.uncertainty[0] == pytest.approx(many.uncertainty[1], rel=1e-9)
    planned = PyMCBelief(known_variance, size=12)
    found = Quadrature().solve(User(planned, Record(0), Quadratic()), [Noise(variance=1.0)], replicates=3, seed=SEED)
    exact = NormalBelief(records=12, variance=2, prior_mean=0, prior_variance=5)
    truth = Exact().solve(User(exact, Record(0), Quadratic()), [Noise(variance=1.0)])
    assert found.uncertainty[0] == pytest.approx(float(truth.uncertainty[0]), rel=1e-9) and found.error[0] < 1e-9


def test_a_budget_is_said(beliefs, monkeypatch):
    monkeypatch.setattr("ruvdecision.engines.pymc.quadrature.WORK", 1)
    found = solved(beliefs["known_variance"], Record(0), Quadratic(), [Noise(sd=1.0)], replicates=None)
    assert found.diagnostics["budget"] == ["3 releases, as each takes long"] and found.diagnostics["releases"] == [3]


@pytest.mark.long
def test_users_are_solved_together_and_progress_is_told(beliefs):
    users = [User(beliefs["mean_and_sd"], t, Quadratic()) for t in (Record(0), Parameter("sigma"))]
    shares_done = []
    problem = Problem(tuple(users), Batch([Noise(sd=1.0), Topcode(at=1.5)]), DATA, seed=SEED)
    both = Quadrature().plan(problem).run(on_progress=shares_done.append)
    alone = [Quadrature().solve(u, [Noise(sd=1.0), Topcode(at=1.5)], data=DATA, seed=SEED) for u in users]
    for a, b in zip(both, alone, strict=True):
        np.testing.assert_allclose(a.uncertainty, b.uncertainty, rtol=1e-9)
    assert shares_done[-1] == pytest.approx(1.0) and len({*both[0].diagnostics["marginalization"]}) == 2


@pytest.mark.long
def test_any_loss_and_listed_estimates(beliefs):
    belief, masks = beliefs["mean_and_sd"], [Noise(sd=1.0)]
    fourth = solved(belief, Record(0), CustomLoss(lambda e, t: (e - t) ** 2), masks)
    assert fourth.uncertainty[0] == pytest.approx(
        solved(belief, Record(0), Quadratic(), masks).uncertainty[0], rel=1e-8
    )
    listed = User(belief, Parameter("mu"), Quadratic(), estimates=np.array([-1.0, 0.0, 1.0, 2.0]))
    free = solved(belief, Parameter("mu"), Quadratic(), masks).uncertainty[0]
    assert Quadrature().solve(listed, masks, data=DATA, seed=SEED, replicates=1).uncertainty[0] > free


def three(n):
    with pm().Model() as model:
        m = pm().Normal("m", 0, 1, shape=3)
        pm().Normal("x", m.sum(), 1, shape=n)
    return model


def counts(n):
    with pm().Model() as model:
        k = pm().Poisson("k", 3)
        pm().Normal("x", k, 1, shape=n)
    return model


@pytest.mark.slow
def test_records_with_heavy_tails_beyond_a_top_code():
    """Against sums over a fine grid: even nodes over the whole range of a t law missed all of its middle."""

    def heavy(n):
        with pm().Model() as model:
            mu, sigma = pm().Normal("mu", 0, 2), pm().HalfNormal("sigma", 1.5)
            pm().StudentT("x", nu=4, mu=mu, sigma=sigma, shape=n)
        return model

    belief, mask, release = PyMCBelief(heavy, size=5), Topcode(at=2.0), np.array([0.3, 2.0, -1.1, 1.4, 2.0])
    m, u = (a.ravel() for a in np.meshgrid(np.linspace(-10, 10, 201), np.linspace(-12, 2.2, 401), indexing="ij"))
    sigma = np.exp(u)
    logs = stats.norm.logpdf(m, 0, 2) + stats.halfnorm.logpdf(sigma, scale=1.5) + u
    logs += sum(stats.t.logpdf(x, 4, m, sigma) for x in (0.3, -1.1, 1.4)) + 2 * stats.t.logsf(2.0, 4, m, sigma)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    for name, values in (("mu", m), ("sigma", sigma)):
        law = Quadrature().posterior(User(belief, Parameter(name), Quadratic()), mask, release)
        assert law.mean() == pytest.approx(weights @ values, rel=1e-5)
        assert law.var() == pytest.approx(weights @ (values - weights @ values) ** 2, rel=1e-5)
    # The law beyond the top code, and so its variance, is that of a t law cut off there.
    x = 2 + np.sinh((np.arange(2000) + 0.5) / 2000 * np.arcsinh(1e5))
    width = np.cosh(np.arcsinh(x - 2)) * np.arcsinh(1e5) / 2000
    some = np.flatnonzero(weights > 1e-8)
    ends = stats.t.logsf(2.0, 4, m, sigma)
    density = sum(weights[k] * np.exp(stats.t.logpdf(x, 4, m[k], sigma[k]) - ends[k]) for k in some) * width
    right = density @ x / density.sum()
    law = Quadrature().posterior(User(belief, Record(1), Absolute()), mask, release)
    assert law.mean() == pytest.approx(right, rel=1e-3)
    assert law.cdf(3.0) == pytest.approx(density[x < 3].sum() / density.sum(), abs=2e-3)


AVERAGES = [
    Microaggregate(groups=1),
    Noise(variance=1.5) | Microaggregate(groups=3),
    Microaggregate(groups=2) | Noise(variance=0.4),
    Noise(sd=0.7) & Microaggregate(groups=1),
    Release(rows=[1, 2]) & Microaggregate(groups=2),
    Suppress(rows=[0]) | Noise(sd=0.3) | Microaggregate(groups=3),
]


@pytest.mark.parametrize("mask", AVERAGES, ids=str)
@pytest.mark.parametrize("loss", [Quadratic(), Absolute()], ids=str)
def test_averages_of_normal_records_have_a_closed_form(beliefs, mask, loss):
    exact, belief = NormalBelief(records=12, variance=2.0, prior_variance=5.0), beliefs["known_variance"]
    release = mask.release(DATA, 3)
    targets = [Record(0), Record(7), Parameter("mu"), Average(), NewRecord()]
    targets += [Functional(lambda a, m, b: a - m + 2 * b, of=[Record(0), Parameter("mu"), Record(3)])]
    for target in targets if isinstance(loss, Absolute) else [*targets, Records()]:
        right, found = (ruv.posterior(User(b, target, loss), mask, release) for b in (exact, belief))
        np.testing.assert_allclose(found.mean(), right.mean(), rtol=0, atol=1e-11)
        value, error = loss.uncertainty(found)
        np.testing.assert_allclose(value, loss.uncertainty(right).value, rtol=1e-10, atol=1e-12)
        assert error <= 1e-9


def test_averages_of_one_of_two_columns_against_one_normal_law():
    """Exact averages of one column, two noisy copies of the other: all ten numbers conditioned at once."""

    def two_columns(n):
        with pm().Model() as model:
            mu = pm().Normal("mu", 0.0, 2.0)
            pm().Normal("x", pm().math.stack([mu, 1 - mu]), [1.5, 0.7], shape=(n, 2))
        return model

    belief, data = PyMCBelief(two_columns, size=5), np.random.default_rng(1).normal(size=(5, 2))
    mask = Noise(sd=0.8) & (Microaggregate(groups=[0, 1, 1, 0, 1], columns=[0]) | Noise(sd=0.5, columns=[1]))
    release = mask.release(data, 2)
    first, second = (np.asarray(a) for a in release)
    mean, way = np.tile([0.0, 1.0], 5), np.tile([1.0, -1.0], 5)
    prior = np.diag(np.tile([1.5**2, 0.7**2], 5)) + 4 * np.outer(way, way)
    rows = np.eye(10).reshape(5, 2, 10)
    seen = np.vstack([np.eye(10), rows[[0, 3], 0].mean(axis=0), rows[[1, 2, 4], 0].mean(axis=0), rows[:, 1]])
    values = np.concatenate([first.ravel(), second[:2, 0], second[:, 1]])
    noise = np.diag([0.64] * 10 + [0.0] * 2 + [0.25] * 5)
    gain = np.linalg.solve(seen @ prior @ seen.T + noise, seen @ prior).T
    mean, covariance = mean + gain @ (values - seen @ mean), prior - gain @ seen @ prior
    law = ruv.posterior(User(belief, Records(), Quadratic()), mask, release)
    np.testing.assert_allclose(law.mean(), mean, atol=1e-9)
    np.testing.assert_allclose(law.cov(), covariance, atol=1e-9)
    # Drawn files have the same moments, and the averages that were released.
    engine, weights = ruv.Sampling(importance=True, draws=5000), np.array([0.0, 1, 1, 2, 2, 0, 3, 0, 4, 1])
    for target in (Functional(weights, of=Records()), Functional(lambda x: x @ weights, of=Records())):
        drawn = engine.posterior(User(belief, target, Quadratic()), mask, release)
        variance = weights @ covariance @ weights
        assert abs(drawn.mean() - weights @ mean) < 4 * np.sqrt(variance / 20_000)
        assert abs(drawn.quadratic().value - variance) < 4 * drawn.quadratic().error < 0.1 * variance
    pair = Functional((rows[0, 0] + rows[3, 0]) / 2, of=Records())
    drawn = engine.posterior(User(belief, pair, Quadratic()), mask, release)
    np.testing.assert_allclose(drawn.draws, second[0, 0], atol=1e-12)


def tied(n):
    with pm().Model() as model:
        s = pm().HalfNormal("s", 1)
        pm().GaussianRandomWalk("x", sigma=s, init_dist=pm().Normal.dist(0, 1), shape=n)
    return model


@pytest.mark.parametrize(
    ("belief", "target", "masks", "words"),
    [
        (NormalBelief(records=12, variance=2, prior_variance=5), Record(0), [Noise(sd=1.0)], "needs a PyMCBelief"),
        (PyMCBelief(three), Record(0), [Noise(sd=1.0)], "at most 2 unknown parameters; this model has 3.*Sampling"),
        (PyMCBelief(counts), Record(0), [Noise(sd=1.0)], "continuous parameters.*Sampling"),
        (PyMCBelief(tied), Record(0), [Noise(sd=1.0)], "independent given the parameters.*Sampling"),
        (PyMCBelief(known_variance), Maximum(), [Noise(sd=1.0)], "largest record.*Sampling"),
        (
            PyMCBelief(known_variance),
            Functional(lambda x: x**2, of=Record(0)),
            [Noise(sd=1.0)],
            "linear functions.*Sampling",
        ),
        (PyMCBelief(incomes), Average(), [Noise(sd=1.0)], "average of normal records.*Sampling"),
        (PyMCBelief(incomes), Records(), [Noise(sd=1.0)], "all records at once.*Sampling"),
        (PyMCBelief(incomes), Record(0), [Microaggregate(groups=3)], "Sampling"),
    ],
)
def test_refusals_say_what_can(belief, target, masks, words):
    import re

    reason = Quadrature().refuses(User(belief, target, Quadratic()), masks, np.abs(DATA))
    assert reason is not None and re.search(words, str(reason))


def test_refuses_nothing_that_it_can_do(beliefs):
    for target in (Record(0), Parameter("mu"), Average(), NewRecord()):
        assert (
            Quadrature().refuses(
                User(beliefs["known_variance"], target, Quadratic()), [Noise(sd=1.0), Suppress()], DATA
            )
            is None
        )


def test_bad_input(beliefs):
    user = User(beliefs["known_variance"], Record(0), Quadratic())
    with pytest.raises(InputError, match="needs a release"):
        Quadrature().posterior(user, Noise(sd=1.0))
    with pytest.raises(InputError, match="no parameter of this name"):
        Quadrature().solve(User(beliefs["known_variance"], Parameter("nu"), Quadratic()), [Noise(sd=1.0)], data=DATA)
    with pytest.raises(InputError, match="There are 12 records"):
        solved(beliefs["known_variance"], Record(99), Quadratic(), [Noise(sd=1.0)])
    with pytest.raises(InputError, match="tolerance"):
        Quadrature(tolerance=0.0)
    with pytest.raises(InputError, match="does not say how many records"):
        Quadrature().solve(user, [Noise(sd=1.0)])
    with pytest.raises(InputError):
        solved(beliefs["known_variance"], Record(0), Quadratic(), [Noise(sd=1.0)], data=np.append(DATA, np.inf))
    with pytest.raises(InputError, match="does not have this target"):
        User(beliefs["known_variance"], Identity(0), Quadratic())


@pytest.mark.parametrize("loss", ["quadratic", "absolute"])
def test_the_posterior_of_a_record_in_an_unknown_row(beliefs, loss):
    """It used to end in an AttributeError."""
    mask = Noise(sd=0.5) | Shuffle()
    release = np.asarray(mask.release(DATA[:, None], _mask_seed()))[:, 0]
    user = User(beliefs["known_variance"], Record(0), LOSSES[loss])
    found = LOSSES[loss].uncertainty(Quadrature().posterior(user, mask, release)).value
    assert found == pytest.approx(solved(user.belief, user.target, user.loss, [mask]).uncertainty[0], rel=1e-9)


def test_the_posterior_of_a_new_record_has_a_cheap_density(beliefs):
    """The entropy of thousands of normal parts used to take minutes."""
    mask = Noise(sd=0.8)
    release = np.asarray(mask.release(DATA[:, None], _mask_seed()))[:, 0]
    posterior = Quadrature().posterior(User(beliefs["mean_and_sd"], NewRecord(), LogScore()), mask, release)
    plain = Quadrature().posterior(User(beliefs["mean_and_sd"], NewRecord(), Quadratic()), mask, release)
    assert isinstance(posterior, Curve) and isinstance(plain, Mixture)
    np.testing.assert_allclose(posterior.log_density([0.0, 1.0, 5.0]), plain.log_density([0.0, 1.0, 5.0]), atol=1e-8)


@pytest.mark.slow
def test_nodes_of_the_records_are_judged_where_the_posterior_is():
    """At a sigma that hardly can be the log likelihood moves by 3e-4 with finer nodes; what is asked does not."""

    def spread(n):
        with pm().Model() as model:
            mu, sigma = pm().Normal("mu", 3, 1), pm().HalfNormal("sigma", 0.4)
            pm().LogNormal("x", mu, sigma, shape=n)
        return model

    belief, data = PyMCBelief(spread), np.random.default_rng(1).lognormal(3, 0.5, size=12)
    compiled = compiled_model(belief, 12)
    release = observed_in(Noise(sd=15), data[:, None], compiled, np.random.SeedSequence(7))
    ((_, coarse),) = log_posteriors(compiled, [release])
    boxes = _boxes_that_miss_no_mass(coarse)
    u = boxes.parameters_at(np.random.default_rng(0).standard_normal((16, boxes.size)) * 2)[0]
    u = np.vstack([u, [3.0, np.log(2.5)]])  # six standard deviations of its prior out
    assert (
        coarse.refinement_error(u)
        < 1e-6
        < 1e-4
        < coarse.likelihood.refinement_error(coarse.compiled.reduced_model.on_natural_scale(u))
    )
    users = [User(belief, Parameter("mu"), Quadratic())]
    values = [
        SettledUncertainties.of(some, users, 1e-4).values[0].value[0] for some in (coarse, coarse.refined().refined())
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


# -- records that differ -------------------------------------------------------------------------------------

SLOPES = np.array([0.0, 1.0, 2.0, 5.0])


def regression(n):
    with pm().Model() as model:
        a, b = pm().Normal("a", 0, 1), pm().Normal("b", 0, 1)
        pm().Normal("x", a + b * SLOPES[:n], 1.0, shape=n)
    return model


def common_mean(n):
    with pm().Model() as model:
        pm().Normal("x", pm().Normal("a", 0, 1), 1.0, shape=n)
    return model


@pytest.fixture(scope="module")
def by_covariates():
    return ruv.PyMCBelief(regression, size=4)


def test_a_regression_with_data_agrees_with_direct_conditioning(by_covariates):
    """Several releases are drawn by default, and their nodes are counted: there are none of the records here."""
    loads = np.vstack([np.eye(2), np.column_stack([np.ones(4), SLOPES])])
    joint = loads @ loads.T + np.diag([0, 0, 1, 1, 1, 1])  # of a, b and the records
    seen = joint[:, 2:]
    after = joint - seen @ np.linalg.solve(joint[2:, 2:] + 0.25 * np.eye(4), seen.T)
    mean = np.r_[0, 0, np.full(4, 0.25)]
    wanted = {
        Record(0): after[2, 2],
        Record(3): after[5, 5],
        Parameter("b"): after[1, 1],
        Average(): mean @ after @ mean,
    }
    for target, variance in wanted.items():
        user = User(by_covariates, target, Quadratic())
        found = ruv.evaluate(
            [Noise(sd=0.5)], intruder=user, scientist=user, data=np.array([1.0, 2, 3, 6]), engine=Quadrature(), seed=1
        )
        assert found.intruder_uncertainty[0] == pytest.approx(variance, rel=1e-8), target


def test_a_new_record_is_not_defined_where_records_differ(by_covariates):
    user, mask = User(by_covariates, NewRecord(), Quadratic()), Noise(sd=0.5)
    for engine in (Quadrature(), ruv.Sampling(draws=20, tune=20, chains=1), "auto"):
        with pytest.raises(UnsupportedError, match="records differ"):
            ruv.evaluate([mask], intruder=user, scientist=user, data=np.array([1.0, 2, 3, 6]), engine=engine)
        with pytest.raises(UnsupportedError, match="records differ"):
            ruv.posterior(user, mask, np.array([1.0, 2, 3, 6]), engine=engine)


def test_a_new_record_is_defined_by_a_model_of_fixed_size_whose_records_are_alike():
    user = User(ruv.PyMCBelief(common_mean(4), "x"), NewRecord(), Quadratic())
    found = Quadrature().posterior(user, Noise(sd=1.0), np.array([1.0, 2, 3, 6]))
    assert found.quadratic().value == pytest.approx(1 + 1 / (1 + 4 / 2), rel=1e-8)


def test_a_release_after_which_a_target_has_no_law_is_refused_by_name():
    """A bound that no value of the first release meets, and that of a later one does."""
    user = User(ruv.PyMCBelief(common_mean, size=4), Average(), Quadratic())
    with pytest.raises(UnsupportedError, match=r"Quadrature has .*engine='auto'"):
        ruv.evaluate(
            [Noise(sd=1.0) | ruv.masks.Clip(lower=0.0)],
            intruder=user,
            scientist=user,
            data=np.array([1.0, 2, 3, 6]),
            engine=Quadrature(),
            seed=1,
        )
