"""The intruder of identity: which row of a release is whose, against enumeration, quadrature and simulation."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import integrate, stats

from ruvdecision.beliefs.finite import FiniteBelief
from ruvdecision.beliefs.normal import NormalBelief
from ruvdecision.beliefs.table.belief import TableBelief
from ruvdecision.channels.likelihood.laws import noise_law
from ruvdecision.channels.steps import FileFacts
from ruvdecision.engines import pick
from ruvdecision.engines.identity.coarse_rows import CoarseRows, log_box
from ruvdecision.engines.identity.identity import Identification
from ruvdecision.engines.identity.row_laws import LinearRows
from ruvdecision.engines.normal.exact import Exact
from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.evaluate import evaluate, posterior
from ruvdecision.losses import CustomLoss, LogScore, Quadratic, ZeroOne
from ruvdecision.masks import (
    PRAM,
    Bottomcode,
    Clip,
    Microaggregate,
    MomentNoise,
    Noise,
    RankSwap,
    Recode,
    Release,
    Round,
    Shuffle,
    Stochastic,
    Subsample,
    Suppress,
    Topcode,
)
from ruvdecision.masks.frame import Frame
from ruvdecision.targets import Identity, Parameter, Record
from ruvdecision.users.user import User

SPREAD = np.array([[1.0, 0.6], [0.6, 2.0]])
MEAN = np.array([0.3, -1.0])


def normal(n=5, **prior):
    prior = prior or {"prior": "known"}
    return NormalBelief(records=n, covariance=SPREAD, prior_mean=MEAN, columns=["a", "b"], **prior)


def chances(belief, mask, release, **target):
    user = User(belief, Identity(0, **target), ZeroOne())
    return posterior(user, mask, release).probabilities


def solve(belief, target, masks, loss=None, **options):
    user = User(belief, target, loss or ZeroOne())
    seed = np.random.SeedSequence(options.pop("seed", 1))
    return Identification().solve(user, masks, seed=seed, **options)


@pytest.fixture
def finite():
    """A finite belief of two states and three labels."""
    return lambda n=4, **kw: FiniteBelief(
        [0, 1],
        probabilities=[0.3, 0.7],
        likelihood=[[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]],
        outcomes=["x", "y", "z"],
        records=n,
        **kw,
    )


# -- enumeration of all orders -----------------------------------------------------------------------------


def by_permutations(belief, released, sizes, known, z, errors):
    """Bayes over all n! orders.

    The joint normal density of the release and of what is known, with the mean integrated out.
    """
    n, k = released.shape
    doubt = np.zeros((k, k)) if belief.mu_covariance is None else belief.mu_covariance
    records = np.kron(np.eye(n), belief.record_covariance) + np.kron(np.ones((n, n)), doubt)
    pick_known = np.eye(k)[known]
    weight = np.zeros(n)
    for order in permutations(range(n)):
        place = order.index(0)
        rows = np.kron(np.eye(n)[list(order)], np.eye(k))
        own = np.kron(np.eye(n)[0], pick_known)
        full = np.concatenate([rows, own])
        noise = np.zeros((len(full), len(full)))
        for i in range(n):
            noise[i * k : i * k + k, i * k : i * k + k] = sizes[i]
        noise[n * k :, n * k :] = np.diag(errors)
        seen = np.concatenate([released.ravel(), z])
        use = ~np.isnan(seen)
        mean = np.concatenate([np.tile(belief.mu_mean, n), belief.mu_mean[known]])
        cov = full @ records @ full.T + noise
        weight[place] += stats.multivariate_normal(mean[use], cov[np.ix_(use, use)]).pdf(seen[use])
    return weight / weight.sum()


@pytest.mark.parametrize(
    "prior", [{"prior": "known"}, {"prior_covariance": [[4.0, 1.0], [1.0, 3.0]]}], ids=["known", "normal"]
)
@pytest.mark.parametrize("known", [[0], [1], [0, 1]])
@pytest.mark.parametrize("error", [0.0, 0.5])
def test_normal_noise_is_bayes_over_all_orders(prior, known, error):
    belief = normal(4, **prior)
    size = np.array([[0.5, 0.1], [0.1, 0.3]])
    mask = Noise(covariance=size) | Shuffle()
    records = belief.draw(np.random.default_rng(3))
    release = mask.release(records, 4)
    z = records[0, known] + error
    expected = by_permutations(belief, release, [size] * 4, known, z, [error**2] * len(known))
    found = chances(belief, mask, release, known=known, values=z, error_sd=error)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_five_rows_three_columns():
    spread = np.array([[1.0, 0.4, -0.3], [0.4, 2.0, 0.5], [-0.3, 0.5, 1.5]])
    belief = NormalBelief(records=5, covariance=spread, prior_covariance=np.eye(3))
    records = belief.draw(np.random.default_rng(1))
    release = Noise(variance=[0.2, 0.4, 0.6]).release(records, 2)
    z = records[0, [2, 0]]
    expected = by_permutations(belief, release, [np.diag([0.2, 0.4, 0.6])] * 5, [2, 0], z, [0.0, 0.0])
    np.testing.assert_allclose(
        chances(belief, Noise(variance=[0.2, 0.4, 0.6]), release, known=[2, 0], values=z), expected, rtol=1e-9
    )


def test_flat_prior_is_the_limit_of_wide_ones():
    records = normal(5).draw(np.random.default_rng(3)) + 7
    release = Noise(sd=0.7).release(records, 1)
    flat = NormalBelief(records=5, covariance=SPREAD, prior="flat")
    wide = NormalBelief(records=5, covariance=SPREAD, prior_covariance=1e7 * np.eye(2))
    z = records[0, [1]]
    found = chances(flat, Noise(sd=0.7), release, known=[1], values=z)
    np.testing.assert_allclose(found, by_permutations(wide, release, [0.49 * np.eye(2)] * 5, [1], z, [0.0]), rtol=1e-5)


def test_noise_sized_by_place_and_suppressed_rows():
    """The places' sizes are public, the respondent's place is not."""
    belief = normal(4, prior_covariance=np.eye(2))
    mask = Noise(variance=[0.1, 0.5, 0.1, 3.0]) | Suppress(rows=[2], columns=[0])
    records = belief.draw(np.random.default_rng(6))
    release = mask.release(records, 7)
    expected = by_permutations(
        belief, release, [s * np.eye(2) for s in (0.1, 0.5, 0.1, 3.0)], [0, 1], records[0], [0.2, 0.2]
    )
    np.testing.assert_allclose(
        chances(belief, mask, release, values=records[0], error_variance=0.2), expected, rtol=1e-9
    )


def test_sample_leaves_mass_outside():
    """Five places, two released: the other three share what is left evenly."""
    belief = normal(5, prior_covariance=2 * np.eye(2))
    mask = Noise(sd=0.5) | Subsample(size=2) | Shuffle()
    records = belief.draw(np.random.default_rng(8))
    release = mask.release(records, 9)
    padded = np.concatenate([release, np.full((3, 2), np.nan)])
    expected = by_permutations(belief, padded, [0.25 * np.eye(2)] * 5, [0], records[0, [0]], [0.0])
    found = chances(belief, mask, release, known=["a"], values=records[0, [0]])
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert found[2] == found[3] == found[4] > 0


def test_the_ratio_of_densities():
    """With a known population the weight is f(y | known) / f(y)."""
    belief = normal(6)
    records = belief.draw(np.random.default_rng(2))
    release = Noise(sd=0.8).release(records, 3)
    total = SPREAD + 0.64 * np.eye(2)
    slope = SPREAD[:, 0] / SPREAD[0, 0]
    given_x = stats.multivariate_normal(MEAN + slope * (records[0, 0] - MEAN[0]), total - np.outer(slope, SPREAD[0]))
    ratio = given_x.pdf(release) / stats.multivariate_normal(MEAN, total).pdf(release)
    np.testing.assert_allclose(
        chances(belief, Noise(sd=0.8), release, known="a", values=records[0, 0]), ratio / ratio.sum(), rtol=1e-10
    )


@pytest.mark.parametrize(
    "mask",
    [Noise(sd=0.4), Noise(sd=0.4, columns=1) | Suppress(rows=[2], columns=[0]), Release() | Subsample(size=5)],
    ids=str,
)
@pytest.mark.parametrize("error", [0.0, 0.4])
def test_two_engines_agree(mask, error):
    """Conditioning the whole file, and reading entry by entry: two codes, one answer."""
    belief = NormalBelief(records=7, covariance=SPREAD, prior_mean=MEAN, prior="known")
    records = belief.draw(np.random.default_rng(12))
    z, errors = records[[0, 3]][:, [1]] + error, np.array([error**2])
    one, two = LinearRows(belief, mask, [1], errors), CoarseRows.of(belief, mask, [1], errors)
    frame = Frame.of(mask.release(np.array(records), 5))
    weights = [law.log_match_weights(law.prepare(frame), z) for law in (one, two)]
    chance = [np.exp(w - w.max(axis=1, keepdims=True)) for w in weights]
    np.testing.assert_allclose(*[c / c.sum(axis=1, keepdims=True) for c in chance], rtol=1e-9, atol=1e-300)


def by_worlds(belief, matrix, released, like):
    """Bayes over every state, every file and every order, for a finite belief; like[x] = p(known | x)."""
    n, size = belief.records, len(belief.levels)
    weight = np.zeros(n)
    for state, prior in enumerate(belief.prior):
        for file in product(range(size), repeat=n):
            chance = prior * np.prod(belief.law[state, list(file)]) * like[file[0]]
            if chance == 0:
                continue
            for order in permutations(range(n)):
                rows = [matrix[file[order[i]], released[i]] for i in range(len(released))]
                weight[order.index(0)] += chance * np.prod(rows)
    return weight / weight.sum()


@pytest.mark.parametrize("kept", [4, 2])
def test_finite_belief_is_bayes_over_all_worlds(finite, kept):
    belief = finite(4)
    matrix = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    mask = Stochastic(matrix) | Subsample(size=kept) | Shuffle()
    for codes in ([0, 0, 1, 2], [2, 1, 2, 2]):
        seen = codes[:kept]
        release = [["x", "y", "z"][c] for c in seen]
        found = chances(belief, mask, np.array(release, dtype=object), values="y")
        np.testing.assert_allclose(found, by_worlds(belief, matrix, seen, [0, 1, 0]), rtol=1e-10)


@pytest.mark.parametrize(
    ("mask", "matrix", "release", "seen"),
    [
        (PRAM(stay=0.6), [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]], ["z", "x", "x"], [2, 0, 0]),
        (Recode(categories={"x": "p", "y": "p", "z": "q"}), [[1, 0], [1, 0], [0, 1]], ["p", "q", "p"], [0, 1, 0]),
        (
            PRAM(stay=0.6) | Recode(categories={"x": "p", "y": "p", "z": "q"}),
            [[0.8, 0.2], [0.8, 0.2], [0.4, 0.6]],
            ["p", "q", "p"],
            [0, 1, 0],
        ),
    ],
    ids=["pram", "recode", "chain"],
)
def test_categorical_masks(finite, mask, matrix, release, seen):
    belief = finite(3)
    found = chances(belief, mask, np.array(release, dtype=object), values="x")
    np.testing.assert_allclose(found, by_worlds(belief, np.array(matrix), seen, [1, 0, 0]), rtol=1e-10)


def test_finite_vectors_masked_column_by_column(finite):
    """Two columns of codes, PRAM on one and rounding on the other; known is the first, with an error."""
    points = np.array(list(product([0.0, 1.0], [1.0, 4.0, 6.0])))
    law = np.array([[0.1, 0.2, 0.1, 0.2, 0.1, 0.3], [0.3, 0.1, 0.1, 0.1, 0.2, 0.2]])
    belief = FiniteBelief([0, 1], likelihood=law, outcomes=points, records=3)
    mask = PRAM(stay=0.7, columns=[0]) | Round(base=5, columns=[1])
    outputs = [(a, b) for a in (0.0, 1.0) for b in (0.0, 5.0)]
    matrix = np.array(
        [[(0.7 if a == p[0] else 0.3) * (b == np.rint(p[1] / 5) * 5) for a, b in outputs] for p in points]
    )
    seen = [1, 2, 3]
    like = np.exp(-((points[:, 0] - 0.9) ** 2) / (2 * 0.25))
    found = chances(belief, mask, np.array([outputs[s] for s in seen]), known=[0], values=[0.9], error_sd=0.5)
    np.testing.assert_allclose(found, by_worlds(belief, matrix, seen, like), rtol=1e-10)


def test_finite_noise(finite):
    belief = FiniteBelief([0, 1], likelihood=[[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]], outcomes=[0.0, 1.0, 3.0], records=3)
    release = np.array([0.2, 2.7, 1.1])
    density = stats.norm(0, 0.6).pdf(release[None, :] - np.array([0.0, 1.0, 3.0])[:, None])
    found = chances(belief, Noise(sd=0.6), release, values=3.0)
    np.testing.assert_allclose(found, by_worlds(belief, density, [0, 1, 2], [0, 0, 1]), rtol=1e-10)


# -- intervals and other noise, against scipy ----------------------------------------------------------------


def box(low, high, mean, cov):
    law = stats.multivariate_normal(mean, cov, abseps=1e-9, releps=1e-7, maxpts=500_000)
    return law.cdf(np.asarray(high), lower_limit=np.asarray(low))


def test_rounding_of_correlated_columns():
    belief = normal(5)
    records = belief.draw(np.random.default_rng(4))
    mask = Round(base=1.0)
    release = mask.release(records, 0)
    z = records[0, 0]
    slope = SPREAD[1, 0] / SPREAD[0, 0]
    sd = np.sqrt(SPREAD[1, 1] - slope * SPREAD[0, 1])
    mean = MEAN[1] + slope * (z - MEAN[0])
    weight = []
    for a, b in release:
        inside = stats.norm(mean, sd).cdf(b + 0.5) - stats.norm(mean, sd).cdf(b - 0.5)
        weight.append((np.rint(z) == a) * inside / box([a - 0.5, b - 0.5], [a + 0.5, b + 0.5], MEAN, SPREAD))
    np.testing.assert_allclose(
        chances(belief, mask, release, known="a", values=z), np.array(weight) / sum(weight), rtol=1e-6, atol=1e-12
    )


def test_noise_then_rounding_with_errors():
    belief = normal(5)
    mask = Noise(sd=0.4) | Round(base=0.5, columns=1) | Topcode(at=0.8, columns=0)
    records = belief.draw(np.random.default_rng(14))
    release = mask.release(records, 2)
    assert (release[:, 0] == 0.8).any() and (release[:, 0] < 0.8).any()
    z, v = records[0, 1] + 0.2, 2.25
    cov = np.zeros((3, 3))
    cov[:2, :2] = SPREAD + 0.16 * np.eye(2)
    cov[2, :2] = cov[:2, 2] = SPREAD[1]
    cov[2, 2] = SPREAD[1, 1] + v
    mean = np.append(MEAN, MEAN[1])
    weight = []
    for a, b in release:
        if a == 0.8:
            low, high, fixed, at = [0.8, b - 0.25], [np.inf, b + 0.25], [], []
        else:
            low, high, fixed, at = [b - 0.25], [b + 0.25], [0], [a]
        open_ = [j for j in (0, 1) if j not in fixed]

        def chance(condition, at, low=low, high=high, open_=open_):
            if not condition:
                return 1.0 * box(low, high, mean[open_], cov[np.ix_(open_, open_)])
            solve_ = np.linalg.solve(cov[np.ix_(condition, condition)], cov[np.ix_(condition, open_)]).T
            m = mean[open_] + solve_ @ (np.array(at) - mean[condition])
            c = cov[np.ix_(open_, open_)] - solve_ @ cov[np.ix_(condition, open_)]
            return stats.multivariate_normal(mean[condition], cov[np.ix_(condition, condition)]).pdf(at) * box(
                low, high, m, c
            )

        weight.append(chance([*fixed, 2], [*at, z]) / chance(fixed, at))
    found = chances(belief, mask, release, known="b", values=z, error_variance=v)
    assert np.sort(found)[-2] > 1e-3
    np.testing.assert_allclose(found, np.array(weight) / sum(weight), rtol=1e-6, atol=1e-10)


@pytest.mark.slow
@pytest.mark.campaign(2)
@pytest.mark.parametrize(
    ("noise", "law"),
    [
        (Noise(sd=0.6, kind="laplace"), stats.laplace(scale=0.6 / np.sqrt(2))),
        (Noise(sd=0.6, kind="t", df=3.5), stats.t(3.5, scale=0.6 * np.sqrt(1.5 / 3.5))),
    ],
    ids=["laplace", "t"],
)
@pytest.mark.parametrize("error", [0.0, 0.3])
def test_other_noise_by_quadrature(noise, law, error):
    belief = NormalBelief(records=4, variance=2.0, prior_mean=1.0, prior="known")
    release = np.array([0.5, 2.0, -1.5, 9.0])
    z = 0.4
    population = stats.norm(1.0, np.sqrt(2.0))
    weight = []
    for y in release:
        limits = {"points": sorted({y, z, 1.0}), "limit": 400, "epsabs": 1e-14, "epsrel": 1e-11}
        alone = integrate.quad(lambda x: population.pdf(x) * law.pdf(y - x), -12, 14, **limits)[0]  # noqa: B023
        both = (
            law.pdf(y - z) * population.pdf(z)
            if error == 0
            else integrate.quad(
                lambda x: population.pdf(x) * law.pdf(y - x) * stats.norm(x, error).pdf(z),  # noqa: B023
                -12,
                14,
                **limits,
            )[0]
        )
        weight.append(both / alone)
    found = chances(belief, noise, release, values=z, error_sd=error)
    np.testing.assert_allclose(found, np.array(weight) / sum(weight), rtol=1e-7)


@pytest.mark.slow
def test_mixture_noise_and_random_rounding_by_quadrature():
    population = stats.norm(1.0, np.sqrt(2.0))
    spread = np.sqrt(1 - 0.81) * 0.5
    kernels = {
        "mixture": (
            Noise(sd=0.5, kind="mixture"),
            [0.3, 1.7, -1.0],
            lambda e: 0.5 * (stats.norm(-0.45, spread).pdf(e) + stats.norm(0.45, spread).pdf(e)),
        ),
        "dither": (Round(base=2.0, random=True), [0.0, 2.0, -2.0], lambda e: np.maximum(1 - abs(e) / 2.0, 0.0)),
    }
    for mask, release, kernel in kernels.values():
        belief = NormalBelief(records=3, variance=2.0, prior_mean=1.0, prior="known")
        product_ = lambda x, y, kernel=kernel: population.pdf(x) * kernel(y - x)  # noqa: E731
        alone = [
            integrate.quad(product_, y - 8, y + 8, args=(y,), points=[y - 2, y, y + 2], limit=400)[0] for y in release
        ]
        weight = np.array([kernel(y - 0.4) for y in release]) / alone
        np.testing.assert_allclose(
            chances(belief, mask, np.array(release), values=0.4), weight / weight.sum(), rtol=1e-8
        )


@pytest.mark.newest
@pytest.mark.parametrize("k", [2, 3, 4])
def test_boxes_against_scipy(k):
    rng = np.random.default_rng(k)
    root = rng.standard_normal((k, k)) * 0.5 + np.eye(k)
    cov = root @ root.T
    low = rng.standard_normal((6, k)) - 0.8
    high = low + rng.uniform(0.3, 2.5, (6, k))
    low[0, 0], high[1, 1] = -np.inf, np.inf
    mean = 0.3 * rng.standard_normal((6, k))
    expected = [box(a, b, m, cov) for a, b, m in zip(low, high, mean, strict=True)]
    np.testing.assert_allclose(np.exp(log_box(low, high, mean, cov)), expected, rtol=5e-4 if k > 2 else 1e-9)


@pytest.mark.parametrize("kind", [{"kind": "laplace"}, {"kind": "t", "df": 5.0}, {"kind": "mixture"}])
def test_laws_of_noise_integrate_to_one(kind):
    law = noise_law(Noise(sd=0.7, **kind).steps(FileFacts(1, (0,)), np.array([[0.7]]))[0].kind, np.array([0.7]))
    for variance in (0.0, 1e-4, 0.3, 50.0):
        reach = 400 * (0.7 + np.sqrt(variance))
        total = integrate.quad(
            lambda y, v=variance: float(np.exp(law.log_density_convolved_with_normal(np.array([y]), np.sqrt(v))[0])),
            0,
            reach,
            points=[0.1, 1, 10],
            limit=800,
        )[0]
        mirrored = integrate.quad(
            lambda y, v=variance: float(np.exp(law.log_density_convolved_with_normal(np.array([-y]), np.sqrt(v))[0])),
            0,
            reach,
            points=[0.1, 1, 10],
            limit=800,
        )[0]
        assert total == pytest.approx(0.5, abs=1e-7) and mirrored == pytest.approx(0.5, abs=1e-7)


def test_chains_of_coarse_steps_tell_one_interval():
    belief = NormalBelief(records=3, variance=4.0, prior_mean=0.0, prior="known")
    mask = Topcode(at=3) | Bottomcode(at=-3) | Round(base=2)
    values = np.array([7.0, 0.4, -3.4])
    release = mask.release(values, 0)
    np.testing.assert_array_equal(release, [4.0, 0.0, -4.0])
    law = stats.norm(0, 2)
    # 4 is what comes of anything from 3 up: 3 itself is halfway between 2 and 4 and goes to the even multiple.
    alone = np.array([law.sf(3), law.cdf(1) - law.cdf(-1), law.cdf(-3)])
    own = np.array(
        [stats.norm(3.4, 1).sf(3), stats.norm(3.4, 1).cdf(1) - stats.norm(3.4, 1).cdf(-1), stats.norm(3.4, 1).cdf(-3)]
    )
    # An error with variance v turns x | z into N(z s2 / (s2 + v), s2 v / (s2 + v)): here z = 4.25 and v = 1 / 0.75 give
    # N(3.1875, 1).
    v = 1 / (1 - 1 / 4.0)
    z = 3.4 * (4 + v) / 4
    found = chances(belief, mask, release, values=z, error_variance=v)
    np.testing.assert_allclose(found, own / alone / (own / alone).sum(), rtol=1e-9)


@pytest.mark.parametrize(
    "mask",
    [
        Recode(bins=[-np.inf, -1, 0, 1, np.inf]),
        Recode(bins=[-20, -1, 0, 1, 20], label="midpoint"),
        Recode(bins=[-20, -1, 0, 1, 20], label=["low", "below", "above", "high"]),
        Recode(bins=[-20, -1, 0, 1, 20], label="lower") | Shuffle(),
    ],
    ids=str,
)
def test_names_of_intervals_do_not_matter(mask):
    values = pd.DataFrame({"x": [1.0, 0.0, -0.5, 0.3, 2.2]})
    belief = NormalBelief(records=5, variance=1.5, prior="known", columns=["x"])
    found = chances(belief, mask, mask.release(values, 5), values=1.0)
    high = stats.norm(0, np.sqrt(1.5)).sf(1)
    # 1.0 lies in [1, ...), not in [0, 1): two rows fit.
    assert sorted(found) == pytest.approx([0, 0, 0, 0.5, 0.5]) and 0 < high < 1


@pytest.mark.parametrize("label", ["interval", "midpoint", "lower"])
def test_recode_by_width(label):
    mask = Recode(width=0.5, label=label)
    values = np.array([0.5, 0.49, -0.2, 0.74])
    belief = NormalBelief(records=4, variance=1.5, prior="known")
    np.testing.assert_allclose(
        chances(belief, mask, mask.release(pd.Series(values), 5), values=0.6), [0.5, 0, 0, 0.5], atol=1e-15
    )


# -- limits and invariance -----------------------------------------------------------------------------------


def test_no_noise_is_certain_and_endless_noise_tells_nothing():
    belief = normal(30, prior_covariance=np.eye(2))
    solution = solve(
        belief,
        Identity(3, known=["a"]),
        [Release(), Noise(variance=1e-20), Noise(variance=1e12), Suppress(), Noise(variance=np.inf)],
        replicates=5,
    )
    np.testing.assert_allclose(solution.uncertainty, [0, 0, 29 / 30, 29 / 30, 29 / 30], atol=1e-5)
    assert solution.uncertainty[0] == 0 and solution.before == pytest.approx(29 / 30)
    np.testing.assert_allclose(solution.diagnostics["correct_match"][:2], 1.0)


def test_large_and_ill_conditioned_numbers_stay_certain():
    spread = np.array([[4.0, 3.99999], [3.99999, 4.0]])
    belief = NormalBelief(records=40, covariance=spread, prior="flat")
    data = np.random.default_rng(1).multivariate_normal([1e6, -1e5], spread, 40)
    for masks in ([Release()], [Suppress(columns=[1])], [Subsample(size=40)]):
        solution = solve(belief, Identity("all", known=[0]), masks, data=data, replicates=2)
        assert solution.uncertainty[0] == 0 and solution.diagnostics["correct_match"][0] == 1


def test_equal_records_share():
    data = np.array([[1.0, 2.0], [1.0, 5.0], [3.0, 4.0], [1.0, 2.0]])
    belief = normal(4)
    solution = solve(belief, Identity("all", known=["a"]), [Release()], data=data)
    # Records 0, 1 and 3 agree in a, and b makes no difference when it is not known: the ratio of densities cancels.
    assert solution.uncertainty[0] == pytest.approx(3 / 4 * 2 / 3)
    assert solution.error[0] == 0
    both = solve(belief, Identity("all"), [Release()], data=data)
    assert both.uncertainty[0] == pytest.approx(2 / 4 * 1 / 2)
    assert both.diagnostics["highest_match"][0] == 1 and both.diagnostics["expected_match"][0] == pytest.approx(0.75)


def test_more_noise_never_helps_in_expectation():
    belief = normal(15, prior_covariance=np.eye(2))
    masks = [Noise(variance=v) for v in (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)]
    solution = solve(belief, Identity("all", known=["a"]), masks, replicates=60)
    assert np.all(np.diff(solution.uncertainty) > 4e-3)
    assert np.all(solution.error[1:] > 0)


@pytest.mark.slow
def test_masks_that_tell_less():
    """Garbling: a release made of another can only be worse for him."""
    belief = normal(12)
    finer = [Noise(sd=0.3), Release(), Round(base=0.5), Noise(sd=0.3)]
    coarser = [
        Noise(sd=0.3) | Round(base=0.5),
        Round(base=0.5),
        Round(base=0.5) | Topcode(at=0.5),
        Noise(sd=0.3) | Subsample(size=4),
    ]
    a = solve(belief, Identity("all", error_sd=0.2), finer, replicates=12)
    b = solve(belief, Identity("all", error_sd=0.2), coarser, replicates=12)
    assert np.all(b.uncertainty > a.uncertainty)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.permutations(range(6)))
def test_order_of_the_release_does_not_matter(seed, order):
    belief = normal(6, prior_covariance=np.eye(2))
    records = belief.draw(np.random.default_rng(seed))
    mask = Noise(sd=0.5) | Suppress(columns=1)
    release = mask.release(records, seed)
    target = {"known": ["b", "a"], "values": records[0, ::-1], "error_sd": [0.1, 0.4]}
    one = chances(belief, mask, release, **target)
    other = chances(belief, mask, release[list(order)], **target)
    np.testing.assert_allclose(other, one[list(order)], rtol=1e-9)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.floats(0.01, 100.0), st.floats(-1e3, 1e3))
def test_units_do_not_matter(seed, scale, shift):
    rng = np.random.default_rng(seed)
    records = normal(6).draw(rng)
    release = Noise(sd=0.5).release(records, seed)
    plain = chances(normal(6), Noise(sd=0.5), release, known="a", values=records[0, 0], error_sd=0.3)
    moved = NormalBelief(
        records=6, covariance=SPREAD * scale**2, prior_mean=MEAN * scale + shift, prior="known", columns=["a", "b"]
    )
    found = chances(
        moved,
        Noise(sd=0.5 * scale),
        release * scale + shift,
        known="a",
        values=records[0, 0] * scale + shift,
        error_sd=0.3 * scale,
    )
    np.testing.assert_allclose(found, plain, rtol=1e-6, atol=1e-12)


# -- calibration -----------------------------------------------------------------------------------------------


@pytest.mark.campaign(3)
@pytest.mark.parametrize(
    "mask",
    [
        Noise(sd=0.6),
        Noise(covariance=[[0.5, 0.2], [0.2, 0.4]]) | Shuffle(),
        Noise(sd=0.3) | Subsample(share=0.5) | Shuffle(),
        Microaggregate(groups=5),
        Suppress(columns=["a"]),
    ],
    ids=str,
)
def test_claims_are_kept_normal_prior(mask):
    """The chance of a match that the intruder claims is the rate at which he is right."""
    belief = normal(10, prior_covariance=[[2.0, 0.5], [0.5, 1.0]])
    solution = solve(belief, Identity(4, known=["a", "b"], error_sd=[0.3, 0.1]), [mask], replicates=250, seed=11)
    claimed, right = solution.diagnostics["expected_match"][0], solution.diagnostics["correct_match"][0]
    assert claimed == pytest.approx(1 - solution.uncertainty[0])
    assert 0.105 < claimed < 0.95
    assert abs(right - claimed) < 4 * np.sqrt(claimed * (1 - claimed) / 250)


@pytest.mark.slow
@pytest.mark.campaign(2)
@pytest.mark.parametrize(
    "mask",
    [
        Round(base=1.5) | Shuffle(),
        Noise(sd=0.4) | Topcode(at=0.5) | Recode(width=0.7),
        Noise(sd=0.8, kind="laplace", columns="a"),
        Noise(sd=0.5) | Clip(lower=-1),
    ],
    ids=str,
)
def test_claims_are_kept_known_population(mask):
    solution = solve(normal(10), Identity(4, known=["a"], error_sd=0.2), [mask], replicates=150, seed=5)
    claimed, right = solution.diagnostics["expected_match"][0], solution.diagnostics["correct_match"][0]
    assert 0.12 < claimed < 0.9
    assert abs(right - claimed) < 4 * np.sqrt(claimed * (1 - claimed) / 150)


def test_claims_are_kept_finite(finite):
    masks = [PRAM(stay=0.8), Stochastic(np.eye(3)) | Subsample(size=3), Release()]
    solution = solve(finite(6), Identity(2), masks, replicates=500, seed=4)
    claimed, right = solution.diagnostics["expected_match"], solution.diagnostics["correct_match"]
    assert np.all(np.abs(right - claimed) < 4 * np.sqrt(claimed * (1 - claimed) / 500))
    assert claimed[0] < claimed[2] and claimed[1] < claimed[2]


def test_values_given_without_data_draw_the_record_around_them():
    """Matheron's rule: averaging over records drawn around drawn values is averaging over records."""
    belief = normal(6, prior_covariance=np.eye(2))
    mask = [Noise(sd=0.5)]
    rng = np.random.default_rng(3)
    direct = solve(belief, Identity(1, known="b", error_sd=0.3), mask, replicates=300, seed=7)
    inner = []
    for s in range(80):
        z = belief.draw(rng)[1, 1] + 0.3 * rng.standard_normal()
        inner.append(
            solve(belief, Identity(1, known="b", error_sd=0.3, values=z), mask, replicates=2, seed=s).uncertainty[0]
        )
    error = np.hypot(direct.error[0], np.std(inner, ddof=1) / np.sqrt(80))
    assert abs(np.mean(inner) - direct.uncertainty[0]) < 4 * error


# -- in maps -----------------------------------------------------------------------------------------------------


def test_in_a_map():
    data = pd.DataFrame(normal(40).draw(np.random.default_rng(5)), columns=["a", "b"])
    belief = normal(40, prior_covariance=np.eye(2))
    intruder = User(belief, Identity(7, known=["a"], error_sd=0.1), ZeroOne())
    scientist = User(belief, Parameter("mu"), Quadratic())
    masks = [Noise(variance=v) for v in (0.1, 0.5, 1.0)] + [Suppress()]
    rumap = evaluate(
        masks, intruder=intruder, scientist=scientist, data=data, replicates=20, seed=3, risk=lambda u: 1 - u
    )
    table = rumap.to_dataframe()
    np.testing.assert_allclose(table["risk"], table["intruder_expected_match"])
    assert np.all(np.diff(table["intruder_uncertainty"]) > 0) and (table["intruder_error"][:3] > 0).all()
    assert table["engine"].str.startswith("identification").all()
    again = evaluate(
        masks, intruder=intruder, scientist=scientist, data=data, replicates=20, seed=3, risk=lambda u: 1 - u
    )
    np.testing.assert_array_equal(again.intruder_uncertainty, rumap.intruder_uncertainty)
    # Common random numbers: a mask's value does not depend on which others are in the map.
    alone = evaluate(masks[1:2], intruder=intruder, scientist=scientist, data=data, replicates=20, seed=3)
    assert alone.intruder_uncertainty[0] == rumap.intruder_uncertainty[1]


def test_log_score_is_the_entropy_over_places():
    belief = normal(8)
    solution = solve(
        belief,
        Identity(0, known="a"),
        [Suppress(), Release(), Noise(sd=0.5), Subsample(size=2)],
        loss=LogScore(),
        replicates=30,
    )
    np.testing.assert_allclose(solution.uncertainty[:2], [np.log(8), 0], atol=1e-12)
    assert 0 < solution.uncertainty[2] < np.log(8) and solution.before == pytest.approx(np.log(8))
    assert np.log(6) * 0.4 < solution.uncertainty[3] < np.log(6)


def test_loss_of_ones_own_over_listed_rows():
    belief = normal(5)
    target = Identity(0, known="a", error_sd=0.5)
    zero_one = solve(belief, target, [Noise(sd=0.5)], replicates=10)
    user = User(belief, target, CustomLoss(lambda e, t: np.where(np.equal(e, t), 0.0, 1.0)), estimates="target")
    own = Identification().solve(user, [Noise(sd=0.5)], replicates=10, seed=np.random.SeedSequence(1))
    np.testing.assert_allclose(own.uncertainty, zero_one.uncertainty, rtol=1e-9)


def test_several_respondents_are_averaged():
    belief = normal(9, prior_covariance=np.eye(2))
    data = belief.draw(np.random.default_rng(1))
    mask = [Noise(sd=0.4)]
    each = [solve(belief, Identity(r, known="a"), mask, data=data, replicates=15) for r in (0, 4, 8)]
    some = solve(belief, Identity([0, 4, 8], known="a"), mask, data=data, replicates=15)
    assert some.uncertainty[0] == pytest.approx(np.mean([e.uncertainty[0] for e in each]))
    assert some.diagnostics["highest_match"][0] == pytest.approx(max(e.diagnostics["expected_match"][0] for e in each))


def test_batched_posterior_of_several():
    belief = normal(4)
    records = belief.draw(np.random.default_rng(1))
    release = Noise(sd=0.5).release(records, 1)
    both = posterior(
        User(belief, Identity([0, 2], known=["a"], values=records[[0, 2]][:, [0]]), ZeroOne()), Noise(sd=0.5), release
    )
    assert both.batch == (2,)
    np.testing.assert_allclose(
        both.probabilities[1], chances(belief, Noise(sd=0.5), release, known="a", values=records[2, 0])
    )


def test_a_hundred_thousand_records():
    belief = normal(100_000, prior="flat")
    records = normal(100_000).draw(np.random.default_rng(1))
    release = Noise(sd=0.1).release(records, 2)
    found = chances(belief, Noise(sd=0.1), release, values=records[0], error_sd=0.05)
    assert found.shape == (100_000,) and found.sum() == pytest.approx(1) and found[0] > 1e-4


def test_deterministic_releases_are_done_once():
    belief = normal(6)
    data = belief.draw(np.random.default_rng(1))
    solution = solve(belief, Identity(0, known="a"), [Round(base=1), Noise(sd=1.0)], data=data, replicates=6)
    assert solution.error[0] == 0 < solution.error[1]
    assert list(solution.engine) == ["identification", "identification, averaged over releases"]


def test_engines_are_found_by_target():
    belief = normal(4)
    user, other = User(belief, Identity(0), ZeroOne()), User(belief, Record(0), Quadratic())
    for engine in ("auto", "exact", Exact(), Identification()):
        assert isinstance(pick(engine, user, [Noise(sd=1)]), Identification)
        assert isinstance(pick(engine, other, [Noise(sd=1)]), Exact)
    assert "Use" in str(Identification().refuses(other, [Noise(sd=1)]))


@pytest.mark.slow
def test_rows_by_their_labels():
    belief = NormalBelief(records=4, covariance=np.diag([1.0, 2.0]), prior_mean=[0, 0], prior_covariance=np.eye(2))
    data = pd.DataFrame({"a": [0.1, 1.5, -0.3, 0.8], "b": [2.0, 0.4, -1.0, 0.3]}, index=list("wxyz"))

    def risk(row):
        user = User(belief, Identity(row, known=["a"]), ZeroOne())
        return float(evaluate([Noise(sd=0.5)], intruder=user, scientist=user, data=data, seed=1).risk[0])

    assert risk("y") == risk(2) and risk(["x", 3]) == risk([1, "z"]) and risk("y") != risk("x")
    assert Identity("y").describe() == "which row is record y's, knowing all columns exactly"
    with pytest.raises(InputError, match="No row has this label"):
        risk("q")


# -- bad input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Identity(""), "whole number"),
        (lambda: Identity(1.5), "whole number"),
        (lambda: Identity([]), "row"),
        (lambda: Identity(0, known=[]), "known"),
        (lambda: Identity(0, error_sd=-1), "error_sd"),
        (lambda: Identity(0, error_sd=1, error_variance=1), "both"),
        (lambda: Identity(0, error_sd=np.nan), "finite"),
    ],
)
def test_bad_targets(make, words):
    with pytest.raises(InputError, match=words):
        make()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (Identity(9), "row"),
        (Identity([0, -4]), "different from each other"),
        (Identity(0, known=["c"]), "known names a column"),
        (Identity(0, known=["a", "a"]), "twice"),
        (Identity(0, known=["a"], error_sd=[1, 2]), "1 entries"),
        (Identity(0, known=["a"], values=[1, 2]), "values must have"),
        (Identity(0, known=["a"], values=["high"]), "made of numbers"),
    ],
)
def test_bad_targets_for_a_belief(target, words):
    with pytest.raises(InputError, match=words):
        solve(normal(4), target, [Noise(sd=1)], replicates=2)


@pytest.mark.parametrize(
    ("belief", "mask", "words"),
    [
        (normal(6), RankSwap(within=0.2), "Identity knows"),
        (normal(6), Microaggregate(size=2, by="zscore"), 'by="rows"'),
        (normal(6), Round(base=1) | Noise(sd=1), "Put normal noise first"),
        (normal(6), Topcode(quantile=0.9), "at="),
        (normal(6), Noise(sd=1, kind="laplace"), "uncorrelated columns"),
        (normal(6), MomentNoise(sd=1), "whole file's moments"),
        (normal(6), Noise(sd=lambda x: abs(x)), "same for all records"),
        (normal(6, prior_covariance=np.eye(2)), Round(base=1), 'prior="known"'),
        (normal(6), Noise(variance=[1, 2, 3, 4, 5, 6]) | Shuffle(), "put Shuffle"),
        (normal(6), Microaggregate(groups=3) | Shuffle(), "Put Shuffle"),
    ],
    ids=lambda x: str(x)[:40],
)
def test_masks_that_cannot_be_inverted_are_refused(belief, mask, words):
    user = User(belief, Identity(0, known="a"), ZeroOne())
    with pytest.raises(UnsupportedError, match=words):
        pick("auto", user, [mask])


@pytest.mark.parametrize("loss", [Quadratic(), ZeroOne(tolerance=1.0), CustomLoss(lambda e, t: (e - t) ** 2)])
def test_losses_that_measure_distances_are_refused(loss):
    with pytest.raises(UnsupportedError, match="rows"):
        pick("auto", User(normal(4), Identity(0), loss), [Noise(sd=1)])


def test_other_bad_input(finite):
    belief, mask = normal(4), Noise(sd=1)
    records = belief.draw(np.random.default_rng(1))
    user = User(belief, Identity(0, known="a", values=1.0), ZeroOne())
    with pytest.raises(InputError, match="depends on what is released"):
        posterior(user, mask)
    with pytest.raises(InputError, match="values"):
        posterior(User(belief, Identity(0), ZeroOne()), mask, records)
    with pytest.raises(InputError, match="4 rows and 2 columns"):
        posterior(user, mask, records[:3])
    with pytest.raises(InputError, match="missing values where"):
        posterior(user, mask, np.where(np.eye(4, 2) > 0, np.nan, records))
    with pytest.raises(InputError, match="No row of the release"):
        posterior(user, Release(), records)
    with pytest.raises(InputError, match="no multiples"):
        posterior(user, Round(base=1), records)
    with pytest.raises(InputError, match="4 records of 2 variables"):
        solve(belief, Identity(0), [mask], data=records[:3])
    with pytest.raises(UnsupportedError, match="flat prior"):
        solve(NormalBelief(records=4, variance=1, prior="flat"), Identity(0), [mask])
    with pytest.raises(UnsupportedError, match="several respondents"):
        solve(belief, Identity([0, 1], known="a", values=[[1.0], [2.0]]), [mask])
    table = TableBelief(shape=(2, 2), total=5)
    with pytest.raises(UnsupportedError, match="TableBelief"):
        Identification().solve(_user_without_checks(table, Identity(0)), [mask])
    with pytest.raises(UnsupportedError, match="Labels"):
        solve(finite(), Identity(0, error_sd=1), [Release()])
    with pytest.raises(InputError, match="No record of the belief"):
        chances(finite(), Release(), np.array(["x", "y", "z", "x"], dtype=object), values="w")
    with pytest.raises(UnsupportedError, match="margins"):
        solve(finite(), Identity(0), [PRAM(stay=0.5, invariant=True)])
    with pytest.raises(InputError, match="complete records"):
        solve(finite(), Identity(0), [Release()], data=["x", "y"])


def _user_without_checks(belief, target):
    user = object.__new__(User)
    for name, value in {
        "belief": belief,
        "target": target,
        "loss": ZeroOne(),
        "estimates": "free",
        "name": None,
    }.items():
        object.__setattr__(user, name, value)
    return user
