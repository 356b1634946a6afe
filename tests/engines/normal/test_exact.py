"""The exact engine against brute-force conditioning with every matrix written out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from brute import condition, dense_channel
from hypothesis import example, given, settings, strategies as st
from scipy.integrate import quad
from scipy.stats import norm

import ruvdecision as ruv
from ruvdecision.engines import pick
from ruvdecision.engines.normal.conditioning import Conditioned
from ruvdecision.engines.normal.releases import channel_of


def random_covariance(rng, k):
    a = rng.standard_normal((k, k))
    return a @ a.T + 0.3 * np.eye(k)


def pool(rng, n, k):
    """Masks of every kind that has a dense form, for n records of k variables."""
    return [
        ruv.Release(),
        ruv.Suppress(),
        ruv.Suppress(rows=[0]),
        ruv.Suppress(columns=[0]),
        ruv.Suppress(columns=[k - 1], rows=[n - 1]),
        ruv.Noise(variance=0.7),
        ruv.Noise(variance=list(np.arange(k) + 0.5)),
        ruv.Noise(covariance=random_covariance(rng, k)),
        ruv.Noise(variance=0.4, common=True),
        ruv.Noise(sd=1.2, columns=[0]),
        ruv.Microaggregate(groups=1),
        ruv.Microaggregate(groups=min(2, n)),
        ruv.Microaggregate(groups=min(3, n)),
        ruv.Microaggregate(groups=[i % 2 for i in range(n)]),
        ruv.Microaggregate(groups=n),
        ruv.Microaggregate(size=min(2, n), by="rows"),
        ruv.Microaggregate(groups=1, columns=[0]),
    ]


def compose(masks):
    chain = masks[0]
    for mask in masks[1:]:
        chain = chain | mask
    return chain


@settings(deadline=None, max_examples=150)
@given(
    n=st.integers(1, 8),
    k=st.sampled_from([1, 2, 3]),
    steps=st.lists(st.integers(0, 16), min_size=1, max_size=3),
    seed=st.integers(0, 10**6),
)
# Noise common to records of which some are then not released: what is left tells of the average by their mean.
@example(n=4, k=1, steps=[8, 2], seed=0)
@example(n=5, k=2, steps=[8, 4, 5], seed=1)
def test_chains_of_masks_agree_with_brute_force(n, k, steps, seed):
    """Posterior covariance and mean of the mean, every record and a new record, jointly."""
    rng = np.random.default_rng(seed)
    spread, doubt = random_covariance(rng, k), random_covariance(rng, k)
    centre = rng.standard_normal(k)
    belief = ruv.NormalBelief(records=n, covariance=spread, prior_mean=centre, prior_covariance=doubt)
    kinds = pool(rng, n, k)
    mask = compose([kinds[i] for i in steps])
    channel = channel_of(belief, mask)
    a, r, alive = dense_channel(mask, n, k)
    a2, r2 = channel.dense()
    np.testing.assert_allclose(a2, a * alive[:, None], atol=1e-12)
    np.testing.assert_allclose(r2, r * np.outer(alive, alive), atol=1e-11)
    expected, gain, view, keep = condition(mask, n, spread, doubt)
    given_ = Conditioned(belief, channel)
    parts = [t.term for t in (ruv.Parameter("mu"), *(ruv.Record(j) for j in range(n)), ruv.NewRecord())]
    scale = np.abs(expected).max() + 1
    np.testing.assert_allclose(given_.covariance(parts)[0], expected, atol=1e-9 * scale)
    to_average = np.zeros((k, len(expected)))
    for j in range(n):
        to_average[:, (j + 1) * k : (j + 2) * k] = np.eye(k) / n
    rows = np.concatenate([to_average, np.eye(len(expected))[k : 2 * k]])
    np.testing.assert_allclose(
        given_.covariance([ruv.Average().term, ruv.Record(0).term])[0], rows @ expected @ rows.T, atol=1e-9 * scale
    )
    # A release that the channel can give, and its posterior mean.
    eigenvalues, vectors = np.linalg.eigh(r)
    y = a @ rng.standard_normal(n * k) + vectors @ (np.sqrt(np.clip(eigenvalues, 0, None)) * rng.standard_normal(n * k))
    prior = np.tile(centre, n + 2)
    expected_mean = prior + gain @ (y[keep] - view @ prior)
    release = np.where(alive, y, np.nan).reshape(n, k)
    np.testing.assert_allclose(
        given_.means(release).of(parts), expected_mean, atol=1e-7 * (1 + np.abs(expected_mean).max())
    )


@pytest.mark.parametrize("k", [1, 2, 3, 10])
@pytest.mark.parametrize("n", [1, 5, 30])
def test_every_loss_in_many_dimensions(n, k):
    """U of a map equals U of the brute-force posterior, for every loss."""
    rng = np.random.default_rng(n * 100 + k)
    spread, doubt = random_covariance(rng, k), random_covariance(rng, k)
    belief = ruv.NormalBelief(records=n, covariance=spread, prior_mean=0, prior_covariance=doubt)
    mask = (
        ruv.Noise(covariance=random_covariance(rng, k))
        | ruv.Microaggregate(groups=min(n, 3))
        | ruv.Noise(variance=0.2, common=True)
    )
    expected = condition(mask, n, spread, doubt)[0]
    cov = expected[k : 2 * k, k : 2 * k]
    losses = [
        ruv.Quadratic(), ruv.Quadratic(weights=random_covariance(rng, k)), ruv.Absolute(), ruv.Power(3), ruv.LogScore(), ruv.Pinball(0.9),
        ruv.Linex(0.7), ruv.Huber(1.0), ruv.CRPS(), ruv.IntervalScore(0.9), ruv.ZeroOne(tolerance=0.5),
    ]  # fmt: skip
    for loss in losses:
        rumap = ruv.evaluate(
            [mask],
            intruder=ruv.User(belief, ruv.Record(0), loss),
            scientist=ruv.User(belief, ruv.Parameter("mu"), loss),
        )
        told = loss.uncertainty(ruv.posteriors.Gaussian(np.zeros(k), cov))
        room = 6 * float(told.error) + 6 * float(rumap.intruder.error[0])
        assert rumap.intruder_uncertainty[0] == pytest.approx(float(told.value), rel=1e-9, abs=room + 1e-12), loss


@pytest.mark.parametrize("n", [1, 10, 1000, 1_000_000])
def test_any_number_of_records(n):
    """One formula covers all masks of example 1 (FORMULAS section 2): U_I = s2 (1 - rho/k) + (1 - rho)^2 V."""
    s2, f2 = 2.0, 5.0
    belief = ruv.NormalBelief(records=n, variance=s2, prior_variance=f2)
    intruder = ruv.User(belief, ruv.Record(n - 1), ruv.Quadratic())
    scientist = ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic())
    for groups in {1, n, max(1, n // 5)}:
        if n % groups:
            continue
        for r2 in (0.0, 0.5, 2.08, 40.0):
            rumap = ruv.evaluate(
                [ruv.Noise(variance=r2) | ruv.Microaggregate(groups=groups)], intruder=intruder, scientist=scientist
            )
            rho, v = s2 / (s2 + r2), 1 / (1 / f2 + n / (s2 + r2))
            assert rumap.scientist_uncertainty[0] == pytest.approx(v, rel=1e-12)
            assert rumap.intruder_uncertainty[0] == pytest.approx(
                s2 * (1 - rho * groups / n) + (1 - rho) ** 2 * v, rel=1e-9, abs=1e-12
            )


def test_unequal_groups_are_as_even_as_possible():
    belief = ruv.NormalBelief(records=11, variance=2, prior="known")
    users = {j: ruv.User(belief, ruv.Record(j), ruv.Quadratic()) for j in (0, 10)}
    masks = [ruv.Microaggregate(groups=3)]
    first = ruv.evaluate(masks, intruder=users[0], scientist=users[0]).intruder_uncertainty[0]
    last = ruv.evaluate(masks, intruder=users[10], scientist=users[10]).intruder_uncertainty[0]
    assert first == pytest.approx(2 * (1 - 1 / 4), rel=1e-12)  # groups of 4, 4 and 3
    assert last == pytest.approx(2 * (1 - 1 / 3), rel=1e-12)


# -- priors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mask",
    [
        ruv.Noise(variance=0.3),
        ruv.Noise(variance=0.3) | ruv.Microaggregate(groups=2),
        ruv.Noise(variance=0.2, common=True) | ruv.Noise(variance=0.1),
    ],
)
def test_flat_prior_is_the_limit_of_wide_priors(mask):
    spread = np.array([[1.0, 0.3], [0.3, 2.0]])
    flat = ruv.NormalBelief(records=6, covariance=spread, prior="flat")
    wide = ruv.NormalBelief(records=6, covariance=spread, prior_covariance=1e9 * np.eye(2))
    for target in (ruv.Record(0), ruv.Parameter("mu"), ruv.NewRecord(), ruv.Average()):
        a, b = (
            ruv.evaluate(
                [mask], intruder=ruv.User(x, target, ruv.Quadratic()), scientist=ruv.User(x, target, ruv.Quadratic())
            )
            for x in (flat, wide)
        )
        assert a.intruder_uncertainty[0] == pytest.approx(b.intruder_uncertainty[0], rel=1e-6)


def test_known_mean_is_the_limit_of_narrow_priors():
    known = ruv.NormalBelief(records=4, variance=2, prior="known")
    row = ruv.evaluate(
        [ruv.Noise(variance=0.5)],
        intruder=ruv.User(known, ruv.Record(0), ruv.Quadratic()),
        scientist=ruv.User(known, ruv.Parameter("mu"), ruv.Quadratic()),
    )[0]
    assert row.intruder_uncertainty == pytest.approx(1 / (1 / 2 + 1 / 0.5), rel=1e-12)
    assert row.scientist_uncertainty == 0.0


def test_flat_prior_and_nothing_released_is_infinite_uncertainty():
    flat = ruv.NormalBelief(records=4, covariance=np.eye(2), prior="flat")
    user = ruv.User(flat, ruv.Record(0), ruv.Quadratic())
    rumap = ruv.evaluate([ruv.Suppress(), ruv.Suppress(columns=[1])], intruder=user, scientist=user)
    assert np.all(np.isinf(rumap.intruder_uncertainty)) and np.all(rumap.risk == 0)
    first = ruv.User(flat, ruv.Parameter("mu", component=0), ruv.Quadratic())
    assert ruv.evaluate([ruv.Suppress(columns=[1])], intruder=first, scientist=first).intruder_uncertainty[
        0
    ] == pytest.approx(1 / 4)


# -- where rows are drawn or not known -------------------------------------------------------------------


def test_subsample_averages_over_who_is_in_it():
    """U = (m/n) U(in the sample) + (1 - m/n) U(outside), each by brute force with fixed rows."""
    spread, doubt = np.array([[2.0]]), np.array([[5.0]])
    belief = ruv.NormalBelief(records=6, covariance=spread, prior_covariance=doubt)
    user = ruv.User(belief, ruv.Record(3), ruv.Quadratic())
    for mask, fixed in (
        (ruv.Subsample(size=4), ruv.Suppress(rows=[4, 5])),
        (ruv.Noise(variance=0.5) | ruv.Subsample(size=4), ruv.Noise(variance=0.5) | ruv.Suppress(rows=[4, 5])),
        (ruv.Subsample(size=4) | ruv.Noise(variance=0.5), ruv.Suppress(rows=[4, 5]) | ruv.Noise(variance=0.5)),
        (
            ruv.Subsample(size=4) | ruv.Microaggregate(groups=1),
            ruv.Suppress(rows=[4, 5]) | ruv.Microaggregate(groups=1),
        ),
        (
            ruv.Subsample(size=4) | ruv.Microaggregate(groups=2),
            ruv.Suppress(rows=[4, 5]) | ruv.Microaggregate(groups=[0, 0, 1, 1, 2, 2]),
        ),
    ):
        expected = condition(fixed, 6, spread, doubt)[0]
        inside, outside = expected[1, 1], expected[6, 6]
        rumap = ruv.evaluate([mask], intruder=user, scientist=user)
        assert rumap.intruder_uncertainty[0] == pytest.approx(4 / 6 * inside + 2 / 6 * outside, rel=1e-10), mask


def unordered_posterior(y, n, s2, f2, r2):
    """Mean and variance of X_J for J uniform, straight from the mixture (FORMULAS section 2)."""
    rho, v = s2 / (s2 + r2), 1 / (1 / f2 + n / (s2 + r2))
    m = v * n * y.mean() / (s2 + r2)
    means = (1 - rho) * m + rho * y
    return means, s2 * (1 - rho) + (1 - rho) ** 2 * v


def test_unknown_row_gives_the_mixture():
    """y0 of FORMULAS: U_I(y) = s2 (1-rho) + (1-rho)^2 V + rho^2 mean (y - ybar)^2."""
    y0 = np.array([-2.1, 0.4, 1.3, 2.2, -0.7, 3.9, 0.1, 1.8, -1.2, 2.6])
    belief = ruv.NormalBelief(records=10, variance=2, prior_variance=5)
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    posterior = ruv.posterior(user, ruv.Noise(variance=2.08) | ruv.Shuffle(), release=y0)
    means, within = unordered_posterior(y0, 10, 2, 5, 2.08)
    assert float(posterior.mean()) == pytest.approx(means.mean(), rel=1e-12)
    assert float(posterior.var()) == pytest.approx(within + means.var(), rel=1e-12)


def test_unknown_row_ties_with_the_average_in_mean_uncertainty():
    """E U_I is the M2 value exactly, for noise and for any grouping (FORMULAS section 2)."""
    belief = ruv.NormalBelief(records=10, variance=2, prior_variance=5)
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    average = ruv.Microaggregate(groups=1)
    for r2 in (0.0, 0.5, 2.08):
        noise = ruv.Noise(variance=r2)
        tied = [
            noise | average,
            noise | ruv.Shuffle(),
            ruv.Shuffle() | noise,
            ruv.Shuffle() | noise | ruv.Microaggregate(groups=5),
            noise | ruv.Microaggregate(groups=2) | ruv.Shuffle(),
        ]
        u = ruv.evaluate(tied, intruder=user, scientist=user).intruder_uncertainty
        np.testing.assert_allclose(u, u[0], rtol=1e-12)


@pytest.mark.campaign(3, "slow")
@pytest.mark.parametrize("loss", [ruv.Absolute(), ruv.LogScore(), ruv.CRPS()])
def test_unknown_row_with_other_losses_is_simulated_with_its_error(loss):
    """A second way: draw releases and average the mixture's U by numerical integration of its density."""
    belief = ruv.NormalBelief(records=4, variance=2, prior_variance=5)
    user = ruv.User(belief, ruv.Record(0), loss)
    mask = ruv.Shuffle() | ruv.Noise(variance=1.0)
    rumap = ruv.evaluate([mask], intruder=user, scientist=user, replicates=150, seed=3)
    rng = np.random.default_rng(11)
    grid = np.linspace(-25, 25, 4001)
    width = grid[1] - grid[0]
    seen = []
    for _ in range(600):
        y = rng.normal(rng.normal(0, np.sqrt(5)), np.sqrt(2), 4) + rng.normal(0, 1.0, 4)
        means, within = unordered_posterior(y, 4, 2, 5, 1.0)
        density = np.mean(np.exp(-((grid[:, None] - means) ** 2) / (2 * within)) / np.sqrt(2 * np.pi * within), axis=1)
        cdf = np.cumsum(density) * width
        if isinstance(loss, ruv.Absolute):
            median = np.interp(0.5, cdf, grid)
            seen.append(np.sum(np.abs(grid - median) * density) * width)
        elif isinstance(loss, ruv.LogScore):
            seen.append(-np.sum(density * np.log(np.maximum(density, 1e-300))) * width)
        else:
            seen.append(np.sum(cdf * (1 - cdf)) * width)
    error = np.hypot(rumap.intruder.error[0], np.std(seen) / np.sqrt(len(seen)))
    assert rumap.intruder.error[0] > 0
    assert abs(rumap.intruder_uncertainty[0] - np.mean(seen)) < 4 * error
    assert "averaged" in rumap.engine[0]


def test_same_seed_same_map_and_other_seed_other_map():
    belief = ruv.NormalBelief(records=4, variance=2, prior_variance=5)
    user = ruv.User(belief, ruv.Record(0), ruv.Absolute())

    def make(seed):
        masks = [ruv.Shuffle() | ruv.Noise(variance=1.0)]
        return ruv.evaluate(masks, intruder=user, scientist=user, replicates=20, seed=seed).intruder_uncertainty[0]

    assert make(5) == make(5) != make(6)


# -- targets and losses of the user's own ----------------------------------------------------------------


def test_linear_functionals_stay_exact():
    rng = np.random.default_rng(2)
    spread, doubt = random_covariance(rng, 2), random_covariance(rng, 2)
    belief = ruv.NormalBelief(records=5, covariance=spread, prior_covariance=doubt)
    mask = ruv.Noise(variance=[0.4, 0.9]) | ruv.Microaggregate(groups=2)
    expected = condition(mask, 5, spread, doubt)[0]
    target = ruv.Functional(lambda a, b, m: a - 2 * b + m[0], of=[ruv.Record(0), ruv.Record(4), ruv.Parameter("mu")])
    user = ruv.User(belief, target, ruv.Quadratic())
    rumap = ruv.evaluate([mask], intruder=user, scientist=user)
    rows = np.zeros((2, len(expected)))
    rows[:, 2:4], rows[:, 10:12] = np.eye(2), -2 * np.eye(2)
    rows[:, 0] += 1
    assert rumap.engine[0] == "exact"
    assert rumap.intruder_uncertainty[0] == pytest.approx(np.trace(rows @ expected @ rows.T), rel=1e-10)
    matrix = ruv.User(belief, ruv.Functional([[1, 0, -1, 0]], of=[ruv.Record(0), ruv.Record(1)]), ruv.Quadratic())
    u = ruv.evaluate([mask], intruder=matrix, scientist=matrix).intruder_uncertainty[0]
    c = expected[2:6, 2:6]
    assert u == pytest.approx(c[0, 0] + c[2, 2] - 2 * c[0, 2], rel=1e-10)


@pytest.mark.slow
def test_nonlinear_functional_is_sampled_from_the_exact_posterior():
    """x^2 for a normal posterior: Var = 2 v^2 + 4 m^2 v, and E over releases is closed form."""
    belief = ruv.NormalBelief(records=3, variance=1, prior_variance=1)
    user = ruv.User(belief, ruv.Functional(lambda x: x**2, of=ruv.Record(0)), ruv.Quadratic())
    rumap = ruv.evaluate([ruv.Noise(variance=0.5)], intruder=user, scientist=user, replicates=200, seed=1)
    simple = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    v = ruv.evaluate([ruv.Noise(variance=0.5)], intruder=simple, scientist=simple).intruder_uncertainty[0]
    expected = 2 * v**2 + 4 * v * (2 - v)
    assert abs(rumap.intruder_uncertainty[0] - expected) < 4 * rumap.intruder.error[0]
    assert rumap.intruder.error[0] < 0.2 * expected


def test_all_records_at_once():
    rng = np.random.default_rng(4)
    spread, doubt = random_covariance(rng, 2), random_covariance(rng, 2)
    belief = ruv.NormalBelief(records=5, covariance=spread, prior_covariance=doubt)
    mask = ruv.Noise(variance=0.5) | ruv.Microaggregate(groups=2) | ruv.Noise(variance=0.1)
    cov = condition(mask, 5, spread, doubt)[0][2:12, 2:12]
    for loss, expected in (
        (ruv.Quadratic(), np.trace(cov)),
        (ruv.Absolute(), np.sqrt(np.diag(cov) * 2 / np.pi).sum()),
        (ruv.LogScore(), 0.5 * np.linalg.slogdet(2 * np.pi * np.e * cov)[1]),
    ):
        user = ruv.User(belief, ruv.Records(), loss)
        assert ruv.evaluate([mask], intruder=user, scientist=user).intruder_uncertainty[0] == pytest.approx(
            expected, rel=1e-9
        )


def test_a_loss_that_depends_on_the_place_is_averaged_over_the_posterior_mean():
    """Relative squared error (e - x)^2 / (1 + x^2): checked by simulation of the posterior mean."""
    loss = ruv.CustomLoss(lambda e, x: (e - x) ** 2 / (1 + x**2))
    belief = ruv.NormalBelief(records=3, variance=1, prior_mean=1, prior_variance=1)
    user = ruv.User(belief, ruv.Record(0), loss)
    u = ruv.evaluate([ruv.Noise(variance=0.5)], intruder=user, scientist=user).intruder
    plain = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    v = ruv.evaluate([ruv.Noise(variance=0.5)], intruder=plain, scientist=plain).intruder_uncertainty[0]
    rng = np.random.default_rng(0)
    z, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    seen = []
    for m in 1 + np.sqrt(2 - v) * rng.standard_normal(4000):
        x = m + np.sqrt(v) * z
        weight = w / (1 + x**2)
        e = (weight @ x) / weight.sum()
        seen.append(weight @ (e - x) ** 2)
    assert abs(u.value[0] - np.mean(seen)) < 4 * np.std(seen) / np.sqrt(len(seen))
    assert u.error[0] < 1e-4 * u.value[0]


def test_restricted_estimates_are_averaged_over_the_posterior_mean():
    """Two allowed estimates -1 and 1 under squared error: U = v + E (1 - |m|)^2, with m the posterior mean."""
    belief = ruv.NormalBelief(records=3, variance=1, prior_mean=0.4, prior_variance=1)
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic(), estimates=[-1.0, 1.0])
    u = ruv.evaluate([ruv.Noise(variance=0.5)], intruder=user, scientist=user).intruder
    free = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    v = ruv.evaluate([ruv.Noise(variance=0.5)], intruder=free, scientist=free).intruder_uncertainty[0]
    s = np.sqrt(2 - v)
    expected = v + quad(lambda m: (1 - abs(m)) ** 2 * norm.pdf(m, 0.4, s), -15, 15, points=[0], epsabs=1e-12)[0]
    assert u.value[0] == pytest.approx(expected, rel=1e-4)
    assert abs(u.value[0] - expected) < 4 * u.error[0] + 1e-12


# -- share of the data's covariance ------------------------------------------------------------------------


def test_share_of_covariance_uses_the_belief_or_the_data():
    belief = ruv.NormalBelief(records=20, covariance=[[2.0, 0.5], [0.5, 1.0]], prior="flat")
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    share = ruv.evaluate([ruv.Noise(share=0.16)], intruder=user, scientist=user).intruder_uncertainty[0]
    same = ruv.evaluate(
        [ruv.Noise(covariance=0.16 * belief.record_covariance)], intruder=user, scientist=user
    ).intruder_uncertainty[0]
    assert share == pytest.approx(same, rel=1e-12)
    data = np.random.default_rng(0).standard_normal((20, 2))
    with_data = ruv.evaluate([ruv.Noise(share=0.16)], intruder=user, scientist=user, data=data).intruder_uncertainty[0]
    own = ruv.evaluate(
        [ruv.Noise(covariance=0.16 * np.cov(data, rowvar=False))], intruder=user, scientist=user
    ).intruder_uncertainty[0]
    assert with_data == pytest.approx(own, rel=1e-12) and with_data != pytest.approx(share, rel=1e-3)


# -- what it refuses ---------------------------------------------------------------------------------------


def test_refusals_say_what_to_do():
    belief = ruv.NormalBelief(records=6, variance=1, prior_variance=1)
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    for mask, word in (
        (ruv.Microaggregate(size=2, by="zscore"), 'by="rows"'),
        (ruv.Microaggregate(groups=2) | ruv.Subsample(size=3), "Subsample first"),
        (ruv.Microaggregate(groups=4) | ruv.Shuffle(), "Shuffle() first"),
        (ruv.Suppress(rows=[0]) | ruv.Shuffle(), "Shuffle() first"),
        (ruv.Noise(variance=1.0) | ruv.Noise(share=0.1), "first in the chain"),
    ):
        with pytest.raises(ruv.UnsupportedError, match=word.replace("(", r"\(").replace(")", r"\)")):
            ruv.evaluate([mask], intruder=user, scientist=user)
    flat = ruv.User(ruv.NormalBelief(records=3, variance=1, prior="flat"), ruv.Record(0), ruv.Absolute())
    with pytest.raises(ruv.UnsupportedError, match="flat prior"):
        ruv.evaluate([ruv.Shuffle() | ruv.Noise(variance=1.0)], intruder=flat, scientist=flat)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ruv.Noise(variance=-1),
        lambda: ruv.Noise(variance=float("nan")),
        lambda: ruv.Noise(),
        lambda: ruv.Noise(variance=1, sd=1),
        lambda: ruv.Noise(variance="2"),
        lambda: ruv.Noise(covariance=[[1, 2], [2, 1]]),
        lambda: ruv.Noise(covariance=[[1, 0.5], [0.4, 1]]),
        lambda: ruv.Noise(covariance=[[1, 0, 0], [0, 1, 0]]),
        lambda: ruv.Microaggregate(),
        lambda: ruv.Microaggregate(groups=0),
        lambda: ruv.Microaggregate(groups=2.5),
        lambda: ruv.Microaggregate(groups=1, by="size"),
        lambda: ruv.Subsample(size=0),
        lambda: ruv.Subsample(share=1.5),
        lambda: ruv.Suppress(columns=[]),
        lambda: ruv.NormalBelief(records=0, variance=1, prior="flat"),
        lambda: ruv.NormalBelief(records=3, variance=0, prior="flat"),
        lambda: ruv.NormalBelief(records=3, variance=1),
        lambda: ruv.NormalBelief(records=3, variance=1, prior_variance=-1),
        lambda: ruv.NormalBelief(records=3, covariance=[[1, 1], [1, 1]], prior="flat"),
        lambda: ruv.NormalBelief(records=3, covariance=np.eye(2), prior_mean=[0, 0, 0], prior="flat"),
        lambda: ruv.NormalBelief(records=3, covariance=np.eye(2), prior_covariance=np.eye(3)),
        lambda: ruv.NormalBelief(records=3, variance=1, prior="flatt"),
        lambda: ruv.User(ruv.NormalBelief(records=3, variance=1, prior="flat"), ruv.Record(3), ruv.Quadratic()),
        lambda: ruv.User(
            ruv.NormalBelief(records=3, variance=1, prior="flat"), ruv.Parameter("sigma"), ruv.Quadratic()
        ),
        lambda: ruv.User(ruv.NormalBelief(records=3, variance=1, prior="flat"), ruv.Record(0), 3),
        lambda: ruv.Noise(variance=1) | 3,
    ],
)
def test_bad_input_says_what_got_and_do(make):
    with pytest.raises(ruv.RuvError) as caught:
        make()
    assert caught.value.what and caught.value.do and "; got " in str(caught.value)


def test_bad_maps():
    belief = ruv.NormalBelief(records=4, variance=1, prior_variance=1)
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    for masks in (
        [],
        [ruv.Noise(variance=1), ruv.Noise(variance=1.0)],
        [ruv.Noise(variance=[1, 2])],
        [ruv.Microaggregate(groups=5)],
        [3],
        3,
    ):
        with pytest.raises(ruv.RuvError):
            ruv.evaluate(masks, intruder=user, scientist=user)
    with pytest.raises(ruv.InputError, match="4 records"):
        ruv.evaluate([ruv.Noise(variance=1)], intruder=user, scientist=user, data=np.zeros(3))
    with pytest.raises(ruv.InputError, match="infinite"):
        ruv.evaluate([ruv.Noise(variance=1)], intruder=user, scientist=user, data=pd.Series([1.0, 2.0, np.inf, 4.0]))
    with pytest.raises(ruv.InputError):
        ruv.evaluate([ruv.Noise(variance=1)], intruder=user, scientist="nobody")
    with pytest.raises(ruv.InputError):
        ruv.evaluate([ruv.Noise(variance=1)], intruder=user, scientist=user, engine="fast")


def test_a_refusal_names_the_engines_that_come_near_and_no_others() -> None:
    """Engines made for other users or beliefs are left out; the last resort is the belief that is missing."""
    user = ruv.User(ruv.NormalBelief(records=3, variance=1.0, prior_variance=2.0), ruv.Record(0), ruv.Quadratic())
    with pytest.raises(ruv.UnsupportedError) as raised:
        pick("auto", user, [ruv.Round(base=1.0)])
    assert "values are rounded" in str(raised.value)
    assert not any(other in str(raised.value) for other in ("PyMCBelief", "FiniteBelief", "Ranks", "WholeFile"))
    with pytest.raises(ruv.UnsupportedError, match="needs a PyMCBelief"):
        pick("sampling", user, [ruv.Round(base=1.0)])
