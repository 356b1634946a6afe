"""Users who are not told the mask's numbers: mixtures over what the mask may have been, and the price of publishing."""

from __future__ import annotations

import itertools
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import scipy.integrate
import scipy.stats
from hypothesis import given, settings, strategies as st

from ruvdecision.analyses.publishing import price_of_publishing
from ruvdecision.beliefs import FiniteBelief, NormalBelief
from ruvdecision.engines import Problem, plan_for
from ruvdecision.engines.normal.affine import log_density
from ruvdecision.engines.normal.conditioning import Conditioned
from ruvdecision.engines.normal.releases import channel_of
from ruvdecision.engines.normal.wrong_belief import NormalMixture
from ruvdecision.engines.wrong_belief import WrongBelief
from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.losses import Absolute, LogScore, Quadratic, ZeroOne
from ruvdecision.masks import Microaggregate, Noise, Release, Shuffle, Stochastic, Subsample, Suppress
from ruvdecision.targets import Average, Functional, Maximum, NewRecord, Parameter, Record, Records
from ruvdecision.users.mask_prior import MaskPrior, as_mask_prior
from ruvdecision.users.panel import Panel
from ruvdecision.users.user import Snooper, User

mpl.use("Agg")

BELIEF = NormalBelief(records=3, variance=2.0, prior_mean=0.5, prior_variance=5.0)
WIDE = NormalBelief(
    records=4, covariance=[[2.0, 0.6], [0.6, 1.0]], prior_mean=[1.0, 0.0], prior_covariance=np.diag([3.0, 2.0])
)


def after(user: User, mask: Any, release: Any = None) -> Any:
    """The user's own posterior."""
    return plan_for("auto", Problem.of(user, [mask])).posterior(mask, release)


def solve(user: User, masks: Any, **options: Any) -> Any:
    masks = list(masks) if isinstance(masks, (list, tuple)) else [masks]
    return plan_for("auto", Problem.of(user, masks, **options)).run()[0]


def root(seed: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed)


# -- the density of a release --------------------------------------------------------------------------


def dense_log_density(belief: NormalBelief, mask: Any, release: Any) -> float:
    """By the covariance of the whole file, on its range."""
    n = belief.records
    a, r = channel_of(belief, mask).dense()
    covariance = (
        a @ (np.kron(np.eye(n), belief.record_covariance) + np.kron(np.ones((n, n)), belief.mu_covariance)) @ a.T + r
    )
    mean = a @ np.tile(belief.mu_mean, n)
    y = np.asarray(release).reshape(-1)
    seen = ~np.isnan(y)
    law = scipy.stats.multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)], allow_singular=True)
    return float(law.logpdf(y[seen]))


@pytest.mark.parametrize(
    "mask",
    [
        Release(),
        Noise(variance=1.3),
        Noise(covariance=[[1.0, 0.4], [0.4, 2.0]]),
        Noise(variance=[0.1, 0.5, 1.0, 2.0]),
        Noise(variance=0.5, common=True) | Noise(variance=0.2),
        Suppress(columns=[1]) | Noise(variance=0.4),
        Suppress(rows=[2]) | Noise(variance=0.4),
        Noise(variance=0.4, columns=[0]),
    ],
    ids=str,
)
def test_density_against_the_whole_file(mask: Any) -> None:
    release = mask.release(np.random.default_rng(1).normal(size=(4, 2)), 2)
    found = log_density(Conditioned(WIDE, channel_of(WIDE, mask)), np.asarray(release))
    assert found.log[0] == pytest.approx(dense_log_density(WIDE, mask, release), rel=1e-10)


@pytest.mark.parametrize("groups", [1, 2])
def test_density_of_averages_is_that_of_the_averages(groups: int) -> None:
    """Repeated averages are one number each; ratios between noises do not depend on how the space is measured."""
    belief = NormalBelief(records=4, variance=2.0, prior_mean=0.5, prior_variance=5.0)
    release = np.repeat([1.7, -0.3], 2) if groups == 2 else np.full(4, 1.7)
    log, dense = [], []
    for variance in (0.3, 3.0):
        mask = Noise(variance=variance) | Microaggregate(groups=groups)
        log.append(float(log_density(Conditioned(belief, channel_of(belief, mask)), release[:, None]).log[0]))
        size = 4 // groups
        covariance = (2.0 + variance) / size * np.eye(groups) + 5.0
        dense.append(scipy.stats.multivariate_normal(np.full(groups, 0.5), covariance).logpdf(release[::size]))
    assert log[0] - log[1] == pytest.approx(dense[0] - dense[1], rel=1e-10)


def test_density_under_a_flat_prior_is_the_limit_of_proper_ones() -> None:
    y = np.array([[1.0], [2.5], [-0.3]])
    flat = NormalBelief(records=3, variance=2.0, prior="flat")
    wide = NormalBelief(records=3, variance=2.0, prior_variance=1e9)
    for mask in (Noise(variance=0.5), Noise(variance=2.0), Noise(variance=1.0, common=True) | Noise(variance=0.5)):
        pair = [float(log_density(Conditioned(b, channel_of(b, mask)), y).log[0]) for b in (flat, wide)]
        assert pair[0] - pair[1] == pytest.approx(0.5 * np.log(1e9), abs=1e-6)


def test_releases_in_smaller_spaces() -> None:
    """A release whose rows are equal was averaged.

    Masks that do not average are out of the question, and the other way round.
    """
    belief = NormalBelief(records=4, variance=2.0, prior_variance=5.0)
    masks = [
        Noise(variance=1.0),
        Noise(variance=1.0) | Microaggregate(groups=2),
        Noise(variance=4.0) | Microaggregate(groups=2),
        Suppress(),
    ]
    mixture = NormalMixture(User(belief, Record(0), Quadratic(), knows_mask=False, mask_prior=masks), masks[0])
    averaged = mixture.candidate_weights(masks[1].release(np.arange(4.0), 3)[:, None])
    assert averaged[0] == 0 and averaged[3] == 0 and averaged[1] > 0 and averaged[2] > 0
    np.testing.assert_allclose(mixture.candidate_weights(np.array([[0.1], [2.0], [1.0], [5.0]])), [1, 0, 0, 0])
    np.testing.assert_allclose(mixture.candidate_weights(np.full((4, 1), np.nan)), [0, 0, 0, 1])
    # Far from the origin the equal averages are equal up to more rounding.
    far = NormalBelief(records=4, variance=2.0, prior_mean=1e9, prior_variance=5.0)
    distant = NormalMixture(User(far, Record(0), Quadratic(), knows_mask=False, mask_prior=masks[:3]), masks[0])
    assert distant.candidate_weights(masks[1].release(1e9 + np.arange(4.0) / 3, 3)[:, None])[0] == 0
    with pytest.raises(InputError, match="cannot come from any mask"):
        mixture.candidate_weights(np.array([[0.1], [np.nan], [1.0], [5.0]]))


# -- posteriors ----------------------------------------------------------------------------------------


def normal_posterior(belief: NormalBelief, variance: float, y: Any) -> tuple[float, float, float, float, float]:
    """By hand for one variable: log density, mean and variance of mu, mean and variance of record 0."""
    n, s2, t2, m = (
        belief.records,
        float(belief.record_covariance[0, 0]),
        float(belief.mu_covariance[0, 0]),
        float(belief.mu_mean[0]),
    )
    v = s2 + variance
    density = scipy.stats.multivariate_normal(np.full(n, m), v * np.eye(n) + t2).logpdf(y)
    precision = 1 / t2 + n / v
    mu = (m / t2 + np.sum(y) / v) / precision
    ratio = s2 / v
    return density, mu, 1 / precision, mu + ratio * (y[0] - mu), s2 * (1 - ratio) + (1 - ratio) ** 2 / precision


def test_posterior_by_quadrature_over_the_variance() -> None:
    """A fine log-uniform grid against an integral over the log variance."""
    y = np.array([1.2, -2.0, 4.0])
    low, high = 0.05, 20.0

    def integral(f: Any) -> float:
        return float(
            scipy.integrate.quad(
                lambda u: f(*normal_posterior(BELIEF, np.exp(u), y)), np.log(low), np.log(high), epsabs=1e-13
            )[0]
        )

    total = integral(lambda d, *_: np.exp(d))
    for target, at in ((Parameter("mu"), 1), (Record(0), 3)):
        user = User(
            BELIEF, target, Quadratic(), knows_mask=False, mask_prior=MaskPrior(low=low, high=high, points=4001)
        )
        posterior = after(user, Noise(variance=1.0), y)
        mean = integral(lambda *x, at=at: np.exp(x[0]) * x[at]) / total
        square = integral(lambda *x, at=at: np.exp(x[0]) * (x[at] ** 2 + x[at + 1])) / total
        # The grid weighs its two end points fully, which is a difference of order one step.
        assert float(posterior.mean()) == pytest.approx(mean, abs=2e-4)
        assert float(posterior.var()) == pytest.approx(square - mean**2, rel=5e-4)


@pytest.mark.parametrize(
    "prior", [[0.2, 1.0, 5.0], MaskPrior(variances=[0.0, 1.0, 9.0], weights=[1, 2, 1])], ids=["equal", "weighted"]
)
def test_posterior_is_the_mixture_by_hand(prior: Any) -> None:
    y = np.array([1.2, -2.0, 4.0])
    user = User(BELIEF, Record(0), Quadratic(), knows_mask=False, mask_prior=prior)
    sizes, weights = user.mask_prior.grid(1.0)
    parts = np.array([normal_posterior(BELIEF, v, y) for v in sizes])
    chance = weights * np.exp(parts[:, 0])
    chance /= chance.sum()
    posterior = after(user, Noise(sd=2.0), y)
    mean = chance @ parts[:, 3]
    assert float(posterior.mean()) == pytest.approx(mean, rel=1e-12)
    assert float(posterior.var()) == pytest.approx(chance @ (parts[:, 4] + parts[:, 3] ** 2) - mean**2, rel=1e-12)


def test_posterior_by_importance_of_the_prior() -> None:
    """Draw variance, mu and records from the prior, weigh by the density of the release: no formula is shared."""
    y = np.array([1.2, -1.0, 2.0])
    rng = np.random.default_rng(5)
    size = 400_000
    variance = np.exp(rng.uniform(np.log(0.1), np.log(10.0), size))
    mu = 0.5 + np.sqrt(5.0) * rng.standard_normal(size)
    records = mu[:, None] + np.sqrt(2.0) * rng.standard_normal((size, 3))
    logs = -0.5 * np.sum((y - records) ** 2, axis=1) / variance - 1.5 * np.log(variance)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    for target, draws in ((Record(1), records[:, 1]), (Average(), records.mean(axis=1)), (Parameter("mu"), mu)):
        user = User(BELIEF, target, Quadratic(), knows_mask=False, mask_prior=MaskPrior(low=0.1, high=10.0, points=801))
        posterior = after(user, Noise(variance=1.0), y)
        mean = weights @ draws
        error = np.sqrt(weights**2 @ (draws - mean) ** 2)
        assert abs(float(posterior.mean()) - mean) < 4 * error
        second = weights @ (draws - mean) ** 2
        spread = np.sqrt(weights**2 @ ((draws - mean) ** 2 - second) ** 2)
        assert abs(float(posterior.var()) - second) < 4 * spread


def test_unknown_rows_samples_functions_and_all_records() -> None:
    prior = [0.5, 2.0]
    y = np.array([1.2, -2.0, 4.0])
    by_hand = []
    for order in itertools.permutations(range(3)):
        parts = np.array([normal_posterior(BELIEF, v, y[list(order)]) for v in prior])
        by_hand.append(parts)
    stacked = np.concatenate(by_hand)
    chance = np.exp(stacked[:, 0])
    chance /= chance.sum()
    user = User(BELIEF, Record(0), Quadratic(), knows_mask=False, mask_prior=prior)
    mask = Shuffle() | Noise(variance=1.0)
    posterior = after(user, mask, y)
    mean = chance @ stacked[:, 3]
    assert float(posterior.mean()) == pytest.approx(mean, rel=1e-10)
    assert float(posterior.var()) == pytest.approx(chance @ (stacked[:, 4] + stacked[:, 3] ** 2) - mean**2, rel=1e-10)
    # All records: the mixture's margin is the record's own posterior.
    whole = User(BELIEF, Records(), Quadratic(), knows_mask=False, mask_prior=prior)
    single = User(BELIEF, Record(2), Quadratic(), knows_mask=False, mask_prior=prior)
    joint, one = (after(u, Noise(variance=1.0), y) for u in (whole, single))
    assert joint.mean()[2] == pytest.approx(float(one.mean()), rel=1e-12)
    assert joint.var()[2] == pytest.approx(float(one.var()), rel=1e-12)
    square = User(BELIEF, Functional(lambda x: x**2, of=Record(2)), Quadratic(), knows_mask=False, mask_prior=prior)
    drawn = after(square, Noise(variance=1.0), y)
    assert float(drawn.mean()) == pytest.approx(float(one.var() + one.mean() ** 2), rel=0.1)
    sampled = Subsample(size=2) | Noise(variance=1.0)
    table = pd.DataFrame({"x": [4.0, 1.0]}, index=[2, 0])
    found = after(single, sampled, table)
    pair = NormalBelief(records=2, variance=2.0, prior_mean=0.5, prior_variance=5.0)
    same = User(pair, Record(0), Quadratic(), knows_mask=False, mask_prior=prior)
    assert float(found.mean()) == pytest.approx(float(after(same, Noise(variance=1.0), [4.0, 1.0]).mean()))


# -- expected loss -------------------------------------------------------------------------------------


@pytest.mark.long
@settings(deadline=None, max_examples=12)
@given(
    st.floats(0.05, 8.0),
    st.sampled_from([Record(0), Parameter("mu"), NewRecord()]),
    st.sampled_from([Quadratic(), Absolute(), LogScore()]),
    st.integers(0, 10_000),
)
def test_a_secret_never_helps_the_user(variance: float, target: Any, loss: Any, seed: int) -> None:
    mask = Noise(variance=variance)
    known = solve(User(BELIEF, target, loss), mask).uncertainty[0]
    dark = User(BELIEF, target, loss, knows_mask=False, mask_prior=[0.1, 0.5, 2.0, 8.0])
    found = solve(dark, mask, seed=root(seed), replicates=5)
    assert found.uncertainty[0] >= known - 1e-9
    # One who thinks of nothing but the right variance knows the mask.
    sure = solve(
        User(BELIEF, target, loss, knows_mask=False, mask_prior=[variance]), mask, seed=root(seed), replicates=2
    )
    assert sure.uncertainty[0] == pytest.approx(known, rel=1e-9)
    # With both on his list, the right one and another, he loses no more than that.
    assert found.before == pytest.approx(solve(User(BELIEF, target, loss), mask).before, rel=1e-12)


@pytest.mark.slow
def test_expected_loss_against_direct_simulation() -> None:
    """Draw records from the belief, mask them with the true variance, estimate by the mixture by hand, and count."""
    prior, true = [0.2, 1.0, 5.0], 1.0
    rng = np.random.default_rng(8)
    size = 100_000
    records = 0.5 + np.sqrt(5.0) * rng.standard_normal((size, 1)) + np.sqrt(2.0) * rng.standard_normal((size, 3))
    y = records + np.sqrt(true) * rng.standard_normal((size, 3))
    logs, means = [], []
    for v in prior:
        logs.append(scipy.stats.multivariate_normal(np.full(3, 0.5), (2.0 + v) * np.eye(3) + 5.0).logpdf(y))
        mu = (0.5 / 5.0 + y.sum(axis=1) / (2.0 + v)) / (1 / 5.0 + 3 / (2.0 + v))
        means.append(mu + 2.0 / (2.0 + v) * (y[:, 0] - mu))
    chance = np.exp(np.array(logs) - np.max(logs, axis=0))
    costs = (np.sum(chance * means, axis=0) / chance.sum(axis=0) - records[:, 0]) ** 2
    user = User(BELIEF, Record(0), Quadratic(), knows_mask=False, mask_prior=prior)
    found = solve(user, Noise(variance=true), seed=root(1), replicates=200)
    assert abs(found.uncertainty[0] - np.mean(costs)) < 4 * np.hypot(np.std(costs) / np.sqrt(size), found.error[0])
    assert found.error[0] < 0.3 * np.std(costs) / np.sqrt(200)  # only the part that the secret adds is drawn


def test_felt_and_paid_agree_on_average_over_the_prior() -> None:
    """Over the masks that the user thinks possible, with his weights, he pays what he expects to pay.

    Exact for finite beliefs.
    """
    belief = FiniteBelief(
        [0.2, 0.8], likelihood=[[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]], outcomes=[0.0, 1.0, 2.0], records=3
    )
    masks = [Stochastic(s * np.eye(3) + (1 - s) / 3) for s in (0.9, 0.5, 0.1)]
    weights = np.array([0.5, 0.2, 0.3])
    for target in (Record(1), Parameter("theta"), Average()):
        for loss in (Quadratic(), ZeroOne(), LogScore()):
            user = User(belief, target, loss, knows_mask=False, mask_prior=MaskPrior(masks=masks, weights=weights))
            found = solve(user, masks)
            assert found.engine == "enumeration" and not np.any(found.error)
            assert weights @ found.uncertainty == pytest.approx(weights @ found.diagnostics["believed"], rel=1e-11)
            known = solve(User(belief, target, loss), masks).uncertainty
            assert np.all(found.uncertainty >= known - 1e-12)


@pytest.mark.slow
def test_finite_belief_against_every_case() -> None:
    belief = FiniteBelief([0.2, 0.8], [0.4, 0.6], likelihood=[[0.7, 0.3], [0.2, 0.8]], outcomes=[0.0, 1.0], records=2)
    truth = FiniteBelief([0.2, 0.8], [0.8, 0.2], likelihood=[[0.6, 0.4], [0.3, 0.7]], outcomes=[0.0, 1.0], records=2)
    matrices = [np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[0.6, 0.4], [0.3, 0.7]])]
    weights = np.array([0.3, 0.7])

    def joint(b: FiniteBelief, matrix: Any, out: Any) -> Any:
        """Chance of the release with record 0 equal to 0 and 1."""
        total = np.zeros(2)
        for s, x in itertools.product(range(2), itertools.product(range(2), repeat=2)):
            total[x[0]] += b.prior[s] * b.law[s, x[0]] * b.law[s, x[1]] * matrix[x[0], out[0]] * matrix[x[1], out[1]]
        return total

    prior = MaskPrior(masks=[Stochastic(m) for m in matrices], weights=weights)
    for right in (belief, truth):
        expected = 0.0
        for out in itertools.product(range(2), repeat=2):
            mine = sum(w * joint(belief, m, out) for w, m in zip(weights, matrices, strict=True))
            theirs = joint(right, matrices[1], out)
            estimate = mine[1] / mine.sum()
            expected += theirs[0] * estimate**2 + theirs[1] * (1 - estimate) ** 2
        user = User(
            belief, Record(0), Quadratic(), knows_mask=False, mask_prior=prior, truth=None if right is belief else right
        )
        found = solve(user, Stochastic(matrices[1]))
        assert found.engine == "enumeration" and found.error[0] == 0
        assert found.uncertainty[0] == pytest.approx(expected, rel=1e-12)
    # Releases drawn instead of listed agree within their error.
    data = np.array([0.0, 1.0])
    given_ = solve(user, Stochastic(matrices[1]), data=data).uncertainty[0]
    assert given_ > 0
    shuffled = solve(
        User(belief, Record(0), Quadratic(), knows_mask=False, mask_prior=prior),
        Stochastic(matrices[1]) | Shuffle(),
        seed=root(1),
    )
    assert shuffled.engine == "enumeration, averaged over releases"


@pytest.mark.slow
def test_finite_numbers_with_noise_of_unknown_size() -> None:
    values, chances = np.array([0.0, 1.0, 3.0]), np.array([0.5, 0.3, 0.2])
    belief = FiniteBelief(values, chances)
    sizes = np.array([0.3, 1.0, 3.0])

    def density(y: float, actual: float) -> float:
        mine = sum(scipy.stats.norm.pdf(y, values, s) * chances for s in sizes)
        theirs = scipy.stats.norm.pdf(y, values, actual) * chances
        return float(theirs @ (mine @ values / mine.sum() - values) ** 2)

    user = User(belief, Record(0), Quadratic(), knows_mask=False, mask_prior=sizes**2)
    found = solve(user, [Noise(sd=s) for s in sizes])
    for i, s in enumerate(sizes):
        expected = scipy.integrate.quad(density, -10 * s - 2, 10 * s + 5, args=(s,), limit=400, epsabs=1e-11)[0]
        assert found.uncertainty[i] == pytest.approx(expected, rel=1e-7)
    assert found.uncertainty.mean() == pytest.approx(found.diagnostics["believed"].mean(), rel=1e-7)
    # Several records: the posterior after one release against a sum over all files.
    pair = FiniteBelief([0.0, 1.0], likelihood=[[0.7, 0.3], [0.2, 0.8]], outcomes=[0.0, 1.0], records=2)
    y = np.array([0.4, 1.9])
    joint = np.zeros(2)
    for s, a, b, v in itertools.product(range(2), range(2), range(2), (0.25, 4.0)):
        joint[a] += (
            pair.prior[s] * pair.law[s, a] * pair.law[s, b] * np.prod(scipy.stats.norm.pdf(y, [a, b], np.sqrt(v)))
        )
    two = User(pair, Record(0), Quadratic(), knows_mask=False, mask_prior=[0.25, 4.0])
    posterior = after(two, Noise(sd=1.0), y)
    assert float(posterior.mean()) == pytest.approx(joint[1] / joint.sum(), rel=1e-10)
    drawn = solve(two, Noise(sd=0.5), seed=root(2), replicates=60)
    assert drawn.engine == "enumeration, averaged over releases"
    assert (
        drawn.uncertainty[0]
        > solve(User(pair, Record(0), Quadratic()), Noise(sd=0.5), seed=root(2), replicates=100).uncertainty[0]
        - 4 * drawn.error[0]
    )


def test_wrong_and_in_the_dark() -> None:
    right = NormalBelief(records=3, variance=4.0, prior_mean=0.0, prior_variance=1.0)
    wrong = solve(User(BELIEF, Record(0), Quadratic(), truth=right), Noise(variance=1.0)).uncertainty[0]
    sure = User(BELIEF, Record(0), Quadratic(), truth=right, knows_mask=False, mask_prior=[1.0])
    found = solve(sure, Noise(variance=1.0), seed=root(4), replicates=150)
    assert abs(found.uncertainty[0] - wrong) < 4 * found.error[0]


# -- the prior -----------------------------------------------------------------------------------------


def test_the_default_prior_does_not_look_at_the_mask() -> None:
    for unit in ({"variance": 0.3}, {"sd": 7.0}):
        masks, weights = MaskPrior().candidates(Noise(**unit), scale=2.0, records=10)
        sizes = [float(m.matrix(1)[0, 0]) for m in masks]
        np.testing.assert_allclose(sizes, np.geomspace(0.002, 20.0, len(sizes)), rtol=1e-12)
        np.testing.assert_allclose(weights, 1 / len(sizes))
    assert len(MaskPrior().candidates(Noise(sd=1.0), 1.0, 10_000)[0]) > len(masks)  # a large file tells more
    assert MaskPrior().candidates(Suppress(), 1.0) == ((Suppress(),), np.ones(1))
    # That there is no noise is a secret too.
    assert MaskPrior(variances=[0.0, 4.0]).candidates(Noise(sd=0.0), 1.0)[0] == (Noise(sd=0.0), Noise(sd=2.0))
    assert MaskPrior(variances=[4.0]).candidates(Noise(covariance=np.zeros((2, 2))), 1.0)[0][0].matrix(2).tolist() == [
        [4, 0],
        [0, 4],
    ]


def test_the_shape_of_noise_is_known_and_its_size_is_not() -> None:
    matrix = np.array([[1.0, 0.5], [0.5, 3.0]])
    for mask in (Noise(covariance=matrix), Noise(variance=[1.0, 3.0]), Noise(sd=[1.0, 3.0]), Noise(share=0.2)):
        (small, large), _ = MaskPrior(variances=[1.0, 4.0]).candidates(mask, scale=2.0)
        spread = np.diag([1.0, 3.0])
        one, four = (np.asarray(m.matrix(2, spread)) for m in (small, large))
        np.testing.assert_allclose(four, 4 * one, rtol=1e-12)
        assert np.trace(one) / 2 == pytest.approx(1.0)
    found, weights = MaskPrior(variances=[1.0, 2.0]).candidates(
        Noise(sd=1.0) | Microaggregate(groups=1) | Noise(sd=2.0), 1.0
    )
    assert len(found) == 4 and weights.sum() == pytest.approx(1.0)
    assert len(MaskPrior().candidates(Noise(sd=1.0) | Microaggregate(groups=1) | Noise(sd=2.0), 1.0)[0]) <= 5000
    law = as_mask_prior(scipy.stats.gamma(2.0, scale=3.0))
    assert np.mean(law.variances) == pytest.approx(6.0, rel=0.02)


def test_bad_input() -> None:
    with pytest.raises(InputError, match="knows_mask=False"):
        User(BELIEF, Record(0), Quadratic(), mask_prior=[1.0])
    with pytest.raises(InputError, match="True or False"):
        User(BELIEF, Record(0), Quadratic(), knows_mask="no")
    for bad in ("x", 3, []):
        with pytest.raises(InputError, match="mask_prior"):
            as_mask_prior(bad)
    for options in (
        {"variances": [-1.0]},
        {"variances": [1.0, 1.0]},
        {"masks": [3]},
        {"variances": [1.0], "masks": [Release()]},
    ):
        with pytest.raises(InputError):
            MaskPrior(**options)
    for options in (
        {"low": 2.0, "high": 1.0},
        {"variances": [1.0], "weights": [0.0]},
        {"weights": [1.0]},
        {"variances": [1.0], "low": 1.0},
    ):
        with pytest.raises(InputError):
            MaskPrior(**options)
    user = User(BELIEF, Record(0), Quadratic(), knows_mask=False)
    with pytest.raises(InputError, match="depends on what is released"):
        after(user, Noise(sd=1.0))
    with pytest.raises(UnsupportedError, match="Order statistics"):
        solve(User(BELIEF, Maximum(), Quadratic(), knows_mask=False), Noise(sd=1.0))
    mixed = User(
        BELIEF, Record(0), Quadratic(), knows_mask=False, mask_prior=[Noise(sd=1.0), Shuffle() | Noise(sd=1.0)]
    )
    with pytest.raises(UnsupportedError, match="order of the rows"):
        solve(mixed, Noise(sd=1.0))
    assert "log-uniform" in user.describe()
    assert repr(MaskPrior(variances=[1.0])) == "MaskPrior(variances=[1])"


# -- the price -----------------------------------------------------------------------------------------


@pytest.mark.long
def test_price_of_publishing() -> None:
    intruder, scientist = User(BELIEF, Record(0), Quadratic()), User(BELIEF, Parameter("mu"), Quadratic())
    masks = [Suppress(), *(Noise(variance=v) for v in (0.1, 1.0, 5.0))]
    price = price_of_publishing(masks, intruder=intruder, scientist=scientist, seed=1, replicates=25)
    assert np.all(price.risk_price >= 0) and np.all(price.utility_gain >= 0)
    assert price.risk_price[0] == 0 and np.all(price.risk_price[1:] > 0)
    table = price.to_dataframe()
    np.testing.assert_allclose(table["risk_published"] - table["risk_unpublished"], table["risk_price"])
    assert {"utility_gain_error", "variance", "release"} <= set(table)
    assert len(price.rumap) == 8
    assert "raises risk by at most" in str(price) and "Noise" in repr(price)
    axes = price.plot(max_risk=1.0)
    assert "better" in axes.get_xlabel() and len(axes.get_legend().get_texts()) >= 2
    # A narrow prior around the truth costs less than the default; a snooper does not care.
    near = price_of_publishing(
        [Noise(variance=1.0)], intruder=intruder, scientist=scientist, seed=1, replicates=25, mask_prior=[0.9, 1.0, 1.1]
    )
    assert near.risk_price[0] < price.risk_price[2]
    snooper = Snooper("row", Record(0), belief=BELIEF)
    deaf = price_of_publishing([Noise(variance=1.0)], intruder=snooper, scientist=scientist, seed=1, replicates=10)
    assert deaf.risk_price[0] == 0
    assert "does not raise risk" in str(deaf)
    with pytest.raises(InputError, match="intruder must be"):
        price_of_publishing(masks, intruder=3, scientist=scientist)


@pytest.mark.slow
def test_price_for_a_panel() -> None:
    panel = Panel(
        [User(BELIEF, Record(0), Quadratic(), name="first"), User(BELIEF, Record(2), Quadratic(), name="last")]
    )
    scientist = User(BELIEF, Parameter("mu"), Quadratic())
    price = price_of_publishing([Noise(variance=1.0)], intruder=panel, scientist=scientist, seed=1, replicates=10)
    assert price.risk_price[0] > 0
    hidden = Problem.of(User(BELIEF, Record(0), Quadratic(), knows_mask=False), [Noise(sd=1.0)])
    assert isinstance(plan_for("auto", hidden), WrongBelief)
