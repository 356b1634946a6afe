"""Posteriors: closed forms against quadrature, sums against brute force, draws against their own errors."""

from __future__ import annotations

import inspect
import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import integrate, signal, special, stats

from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.losses import CustomLoss
from ruvdecision.posteriors import Curve, Drawn, Finite, Gaussian, Mixture
from ruvdecision.posteriors.modes import best_box
from ruvdecision.posteriors.normal_mixture import SortedMixture, mean_difference
from ruvdecision.protocols import Posterior

COV2 = np.array([[2.0, 0.9], [0.9, 1.0]])
COV3 = np.array([[2.0, 0.9, 0.3], [0.9, 1.0, 0.4], [0.3, 0.4, 3.0]])
WEIGHTS, MEANS, VARIANCES = np.array([0.2, 0.5, 0.3]), np.array([-1.0, 0.5, 4.0]), np.array([0.5, 1.0, 2.0])


def mixture() -> Mixture:
    return Mixture(Gaussian.scalar(MEANS, VARIANCES), WEIGHTS)


def mixture_density(x):
    return float(np.sum(WEIGHTS * stats.norm.pdf(x, MEANS, np.sqrt(VARIANCES))))


def by_quadrature(g, density, low, high, points):
    return integrate.quad(
        lambda x: g(x) * density(x), low, high, points=points, limit=1000, epsabs=1e-13, epsrel=1e-12
    )[0]


def examples():
    rng = np.random.default_rng(3)
    return {
        "gaussian": Gaussian.scalar([0.0, 1.0], [1.0, 2.0]),
        "gaussian, one covariance for all": Gaussian(np.zeros((4, 2)), COV2),
        "gaussian, one mean for all": Gaussian(np.zeros(3), np.stack([COV3, 2 * COV3])),
        "finite": Finite([0.0, 1.0, 2.0, 5.0], rng.dirichlet(np.ones(4), size=(2, 3))),
        "finite vectors": Finite(rng.normal(size=(5, 2)), rng.dirichlet(np.ones(5), size=3)),
        "mixture": mixture(),
        "mixtures": Mixture(Gaussian.scalar(rng.normal(size=(2, 3)), [1.0]), WEIGHTS),
        "mixture of vectors": Mixture(
            Gaussian(rng.normal(size=(2, 3, 2)), COV2[None]), rng.dirichlet(np.ones(3), size=2)
        ),
        "draws": Drawn(rng.normal(size=50)),
        "chains of vectors": Drawn(rng.normal(size=(4, 50, 3)), chains=4),
    }


@pytest.mark.parametrize("name", examples())
def test_every_answer_has_the_promised_shape(name):
    posterior = examples()[name]
    assert isinstance(posterior, Posterior)
    batch, event = posterior.batch, posterior.event
    k = event[0] if event else 1
    for array in (
        posterior.mean(),
        posterior.var(),
        posterior.quantile(0.3),
        posterior.cdf(0.2),
        posterior.mode(),
        posterior.mode(0.4),
    ):
        assert np.shape(array) == batch + event
    assert posterior.cov().shape == batch + (k, k)
    np.testing.assert_allclose(
        np.diagonal(posterior.cov(), axis1=-2, axis2=-1).reshape(batch + event), posterior.var(), rtol=1e-12
    )
    apart = [
        posterior.lower_partial_moment(0.1),
        posterior.upper_partial_moment(0.1),
        posterior.power(0.1, 1.5),
        posterior.huber(0.1, 1.0),
        posterior.log_mgf(0.3),
        posterior.mean_difference(),
    ]
    joint = [
        posterior.quadratic(),
        posterior.entropy(),
        posterior.outside(posterior.mean(), 0.5),
        posterior.expect(lambda x: np.cos(x).sum(-1) if event else np.cos(x)),
    ]
    for value in apart:
        assert np.shape(value.value) == np.shape(value.error) == batch + event
    for value in joint:
        assert np.shape(value.value) == np.shape(value.error) == batch
    many = posterior.power(np.zeros((7,) + (1,) * len(batch) + event), 1.0)
    assert many.value.shape == (7,) + batch + event
    assert posterior.sample(6, np.random.default_rng(0)).shape == (6,) + batch + event
    np.testing.assert_allclose(
        posterior.lower_partial_moment(0.1).value + posterior.upper_partial_moment(0.1).value,
        posterior.power(0.1, 1.0).value,
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        posterior.upper_partial_moment(0.1).value - posterior.lower_partial_moment(0.1).value,
        posterior.mean() - 0.1,
        atol=1e-12,
    )
    assert "batch" in repr(posterior) or "draws" in repr(posterior)


@pytest.mark.slow
@pytest.mark.campaign(2, "slow")
@pytest.mark.parametrize("name", [n for n in examples() if n not in ("mixture", "draws", "chains of vectors")])
def test_a_batch_is_its_members(name):
    posterior = examples()[name]
    for index in np.ndindex(posterior.batch):
        one = posterior.select(index)
        assert one.batch == ()
        np.testing.assert_allclose(one.cov(), posterior.cov()[index], rtol=1e-13)
        np.testing.assert_allclose(one.quantile(0.3), posterior.quantile(0.3)[index], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(one.power(0.3, 1.7).value, posterior.power(0.3, 1.7).value[index], rtol=1e-12)
        np.testing.assert_allclose(one.entropy().value, posterior.entropy().value[index], rtol=1e-12)
        np.testing.assert_allclose(one.mode(0.4), posterior.mode(0.4)[index], atol=1e-7)


@pytest.mark.parametrize("name", [n for n in examples() if "mixture of vectors" not in n])
def test_moving_to_the_origin_changes_place_only(name):
    posterior = examples()[name]
    moved = posterior.recentred()
    np.testing.assert_allclose(moved.cov(), posterior.cov(), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        moved.quantile(0.8) - moved.mean(), posterior.quantile(0.8) - posterior.mean(), rtol=1e-9, atol=1e-12
    )


# -- Gaussian ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "v"), [(1.3, 2.0), (-4.0, 0.01), (250.0, 9.0)])
def test_quadrature_of_smooth_growing_and_kinked_functions(m, v):
    posterior, s = Gaussian.scalar(m, v), np.sqrt(v)
    for n, moment in ((2, 1), (4, 3), (10, 945), (20, 654729075)):
        assert posterior.expect(lambda x, n=n: ((x - m) / s) ** n).value == pytest.approx(moment, rel=1e-12)
    for a in (-2.0, 0.5, 8.0, 18.0):
        assert posterior.expect(lambda x, a=a: np.exp(a * (x - m) / s)).value == pytest.approx(
            np.exp(a * a / 2), rel=1e-12
        )
    for z in (-2.0, 0.0, 0.3, 5.0):
        at = m + s * z
        for p in (0.3, 0.5, 1.0, 1.5, 3.0):
            value = posterior.expect(lambda x, p=p, at=at: np.abs(x - at) ** p, at=at)
            assert value.value == pytest.approx(float(posterior.power(at, p).value), rel=1e-12)
            assert value.error == 0
        jump = posterior.expect(lambda x, at=at: (x > at).astype(float), at=at).value
        assert jump == pytest.approx(stats.norm.sf(z), rel=1e-12)
    two = posterior.expect(lambda x: np.maximum(np.abs(x - m) - s, 0.0), at=[m - s, m + s]).value
    assert two == pytest.approx(2 * s * (stats.norm.pdf(1) - stats.norm.sf(1)), rel=1e-12)


def test_an_unmarked_kink_is_found_by_halving():
    value = Gaussian.scalar(0.0, 1.0).expect(lambda x: np.abs(x - 0.123456))
    exact = float(Gaussian.scalar(0.0, 1.0).power(0.123456, 1.0).value)
    assert value.value == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("d", [0.0, 0.3, -2.0, 9.0, -14.0, 60.0, 1e5])
@pytest.mark.parametrize("s", [1.0, 0.2, 30.0])
def test_closed_forms_of_one_normal_against_quadrature(d, s):
    posterior = Gaussian.scalar(d, s * s)
    for p in (0.5, 1.0, 1.5, 2.0, 3.0, 4.7, 8.0):
        plain = posterior.expect(lambda x, p=p: np.abs(x) ** p, at=0.0).value
        signed = posterior.expect(lambda x, p=p: np.sign(x) * np.abs(x) ** p, at=0.0).value
        assert posterior.power(0.0, p).value == pytest.approx(plain, rel=2e-12)
        assert posterior.power(0.0, p, signed=True).value == pytest.approx(signed, abs=2e-12 * plain)
    for delta in (0.1, 1.0, 25.0):
        told = posterior.expect(lambda x, delta=delta: special.huber(delta, x), at=[-delta, delta]).value
        assert posterior.huber(0.0, delta).value == pytest.approx(told, rel=1e-11)
        far = posterior.expect(lambda x, delta=delta: (np.abs(x) > delta).astype(float), at=[-delta, delta]).value
        assert posterior.outside(0.0, delta).value == pytest.approx(far, rel=1e-11, abs=1e-300)
    assert posterior.upper_partial_moment(0.0).value == pytest.approx(
        posterior.expect(lambda x: np.maximum(x, 0.0), at=0.0).value, rel=1e-11, abs=1e-300
    )
    assert posterior.lower_partial_moment(0.0).value == pytest.approx(
        posterior.expect(lambda x: np.maximum(-x, 0.0), at=0.0).value, rel=1e-11, abs=1e-300
    )


def test_point_masses_and_infinite_variances():
    posterior = Gaussian.scalar([2.0, 2.0, 2.0], [0.0, 1.0, np.inf])
    inf = np.inf
    np.testing.assert_array_equal(posterior.quadratic().value, [0, 1, inf])
    np.testing.assert_array_equal(posterior.power([2.0, 1.0, 1.0], 1.0).value[[0, 2]], [0, inf])
    np.testing.assert_array_equal(posterior.power(1.0, 3.0).value[[0, 2]], [1, inf])
    np.testing.assert_array_equal(posterior.huber(5.0, 1.0).value[[0, 2]], [2.5, inf])
    np.testing.assert_array_equal(posterior.lower_partial_moment(5.0).value[[0, 2]], [3, inf])
    np.testing.assert_array_equal(posterior.outside(2.0, 0.5).value[[0, 2]], [0, 1])
    np.testing.assert_array_equal(posterior.outside(2.0, 0.0).value, [0, 1, 1])
    np.testing.assert_array_equal(posterior.entropy().value[[0, 2]], [-inf, inf])
    np.testing.assert_array_equal(posterior.mean_difference().value[[0, 2]], [0, inf])
    np.testing.assert_array_equal(posterior.log_mgf(0.5, centred=True).value, [0, 0.125, inf])
    np.testing.assert_array_equal(posterior.quantile(0.5), [2, 2, 2])
    np.testing.assert_array_equal(posterior.quantile(0.9)[[0, 2]], [2, inf])
    np.testing.assert_array_equal(posterior.cdf(2.0), [1, 0.5, 0.5])
    np.testing.assert_array_equal(posterior.expect(lambda x: (x - 1) ** 2).value[[0, 2]], [1, inf])
    np.testing.assert_allclose(
        posterior.expect(lambda x: np.minimum(x**2, 1.0), at=[[-1.0], [1.0]]).value[[0, 2]], [1, 1], rtol=1e-12
    )
    vector = Gaussian([1.0, 2.0], [[np.inf, 0.0], [0.0, 1.0]])
    assert vector.quadratic([0.0, 2.0]).value == 2 and vector.quadratic().value == inf
    assert vector.entropy().value == inf and vector.outside([1.0, 2.0], 1.0).value == 1
    assert vector.expect(lambda x: x[..., 0] ** 2).value == inf
    assert vector.expect(lambda x: x[..., 1] ** 2).value == pytest.approx(5, rel=1e-2)
    flat = Gaussian([1.0, 2.0], [[1.0, 1.0], [1.0, 1.0]])
    assert flat.entropy().value == -inf
    assert flat.log_density([2.0, 3.0]) == inf and flat.log_density([2.0, 3.5]) == -inf
    with pytest.raises(InputError, match="cannot be sampled"):
        vector.sample(3, np.random.default_rng(0))


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_forms_hold_over_three_hundred_decades(scale):
    posterior = Gaussian.scalar(0.0, scale)
    s = np.sqrt(scale)
    assert posterior.power(0.0, 1.0).value == pytest.approx(s * np.sqrt(2 / np.pi), rel=1e-13)
    assert posterior.outside(0.0, 0.5 * s).value == pytest.approx(2 * stats.norm.sf(0.5), rel=1e-13)
    assert posterior.huber(0.0, s).value == pytest.approx(
        scale * float(Gaussian.scalar(0.0, 1.0).huber(0.0, 1.0).value), rel=1e-13
    )
    assert posterior.expect(lambda x: np.abs(x), at=0.0).value == pytest.approx(s * np.sqrt(2 / np.pi), rel=1e-12)


@pytest.mark.parametrize("rho", [-0.999999, -0.5, 0.0, 0.3, 0.98, 1.0])
@pytest.mark.parametrize("offset", [(0.0, 0.0), (0.4, -1.1), (3.0, 0.5)])
def test_box_of_two_against_quadrature(rho, offset):
    cov = np.array([[2.0, rho * np.sqrt(2.0)], [rho * np.sqrt(2.0), 1.0]])
    posterior, width = Gaussian(np.zeros(2), cov), np.array([1.0, 1.5])
    rest = np.sqrt(max(1 - rho**2, 0.0))

    def leaves(z):
        # Given the first component, the chance that the second one leaves its window.
        mean = rho * z - offset[1]
        if rest < 1e-12:
            return float(abs(mean) > 1.5)
        return stats.norm.cdf((-1.5 - mean) / rest) + stats.norm.sf((1.5 - mean) / rest)

    low, high = (offset[0] - 1) / np.sqrt(2), (offset[0] + 1) / np.sqrt(2)
    steps = [(offset[1] + side) / rho for side in (-1.5, 1.5)] if rho else []
    inner = [s + w for s in steps for w in (-8 * rest, 0.0, 8 * rest)]
    points = sorted(p for p in inner if low < p < high) or None
    both = integrate.quad(lambda z: leaves(z) * stats.norm.pdf(z), low, high, points=points, limit=500, epsabs=1e-13)[0]
    exact = stats.norm.cdf(low) + stats.norm.sf(high) + both
    value = posterior.outside(np.array(offset), width)
    assert value.value == pytest.approx(exact, abs=1e-10) and value.error == 0


def test_box_of_two_keeps_small_chances():
    value = float(Gaussian(np.zeros(2), [[1.0, 0.5], [0.5, 1.0]]).outside(np.zeros(2), 9.0).value)
    alone = 2 * stats.norm.sf(9.0)
    # The union is at least one and at most two of the single chances, and here the overlap is negligible.
    assert value == pytest.approx(2 * alone, rel=1e-6)


def test_box_of_three_and_uncorrelated_box():
    posterior = Gaussian(np.zeros(3), COV3)
    value = posterior.outside([0.2, 0.0, -0.1], [1.0, 1.5, 2.0])
    # scipy 1.15 takes no generator here; its error is the same.
    takes = inspect.signature(stats.multivariate_normal.cdf).parameters
    seeded = {"rng": np.random.default_rng(1)} if "rng" in takes else {}
    exact = 1 - stats.multivariate_normal.cdf(
        [1.2, 1.5, 1.9],
        np.zeros(3),
        COV3,
        lower_limit=[-0.8, -1.5, -2.1],
        maxpts=10**6,
        abseps=1e-8,
        releps=1e-8,
        **seeded,
    )
    assert 0 < value.error < 1e-4 and abs(value.value - exact) < 4 * value.error + 1e-6
    diagonal = Gaussian(np.zeros(3), np.diag([1.0, 4.0, 0.0])).outside(np.zeros(3), 1.0)
    assert (
        diagonal.value == pytest.approx(1 - (1 - 2 * stats.norm.sf(1)) * (1 - 2 * stats.norm.sf(0.5)), rel=1e-13)
        and diagonal.error == 0
    )
    singular = Gaussian(np.zeros(3), np.ones((3, 3))).outside(np.zeros(3), [1.0, 2.0, 3.0])
    assert singular.value == pytest.approx(2 * stats.norm.sf(1), abs=4 * float(singular.error) + 1e-12)


def test_vectors_against_scipy_and_sampling():
    posterior = Gaussian([1.0, -1.0, 0.0], COV3)
    frozen = stats.multivariate_normal([1.0, -1.0, 0.0], COV3)
    assert posterior.entropy().value == pytest.approx(frozen.entropy(), rel=1e-13)
    at = np.array([[0.1, 0.2, 0.3], [2.0, -3.0, 1.0]])
    np.testing.assert_allclose(posterior.log_density(at), frozen.logpdf(at), rtol=1e-12)
    weights = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 3.0]])
    assert posterior.quadratic(weights).value == pytest.approx(np.trace(weights @ COV3), rel=1e-13)
    value = posterior.expect(lambda x: np.abs(x).sum(axis=-1))
    exact = posterior.power(0.0, 1.0).value.sum()
    assert 0 < value.error < 0.01 and abs(value.value - exact) < 4 * value.error
    draws = posterior.sample(20_000, np.random.default_rng(5))
    assert np.all(np.abs(draws.mean(axis=0) - posterior.mean()) < 4 * np.sqrt(posterior.var() / 20_000))
    np.testing.assert_allclose(np.cov(draws.T), COV3, atol=0.1)


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: Gaussian.scalar(0.0, -1.0), "not negative; got -1"),
        (lambda: Gaussian.scalar(0.0, [1.0, np.nan]), "not negative"),
        (lambda: Gaussian.scalar(np.nan, 1.0), "mean must be finite"),
        (lambda: Gaussian.scalar([0.0, 1.0], [1.0, 2.0, 3.0]), "must agree"),
        (lambda: Gaussian.scalar("x", 1.0), "made of numbers"),
        (lambda: Gaussian(0.0, 1.0), "Gaussian.scalar"),
        (lambda: Gaussian([0.0, 0.0], np.eye(3)), "shapes"),
        (lambda: Gaussian([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]), "positive semidefinite"),
        (lambda: Gaussian([0.0, 0.0], [[1.0, 0.5], [0.2, 1.0]]), "symmetric"),
        (lambda: Gaussian([0.0, 0.0], [[1.0, 0.5], [0.5, 0.0]]), "positive semidefinite"),
        (lambda: Gaussian([0.0, 0.0], [[-1.0, 0.0], [0.0, 1.0]]), "negative or missing variance"),
        (lambda: Gaussian([0.0, 0.0], [[1.0, np.nan], [np.nan, 1.0]]), "finite covariances"),
        (lambda: Gaussian.scalar(0.0, 1.0).quantile(1.5), "q must be"),
        (lambda: Gaussian.scalar(0.0, 1.0).outside(0.0, -1.0), "width"),
        (lambda: Gaussian([0.0, 0.0], np.eye(2)).outside([0.0, 0.0], [1.0, 1.0, 1.0]), "width"),
        (lambda: Gaussian([0.0, 0.0], np.eye(2)).quadratic([1.0, 1.0, 1.0]), "weights must fit a target of 2"),
        (lambda: Gaussian.scalar([0.0, 1.0], 1.0).expect(lambda x: np.zeros(3)), "must give back shape"),
    ],
)
def test_gaussian_refuses_bad_input(build, match):
    with pytest.raises(InputError, match=match):
        build()


# -- Finite --------------------------------------------------------------------------------------------


@st.composite
def finite_laws(draw, vector=False):
    states = draw(st.integers(1, 6))
    width = draw(st.integers(1, 3)) if vector else 0
    shape = (states, width) if vector else (states,)
    size = int(np.prod(shape))
    values = (
        np.array(draw(st.lists(st.integers(-20, 20), min_size=size, max_size=size)), dtype=float).reshape(shape) / 4
    )
    raw = np.array(draw(st.lists(st.integers(0, 9), min_size=states, max_size=states)), dtype=float)
    raw[draw(st.integers(0, states - 1))] += 1
    return Finite(values, raw / raw.sum())


@settings(deadline=None, max_examples=60)
@given(finite_laws(), st.integers(-30, 30))
def test_finite_sums_against_brute_force(law, quarter):
    at, x, p = quarter / 5, law.values, law.probabilities
    mean = sum(pi * xi for pi, xi in zip(p, x, strict=True))
    assert law.mean() == pytest.approx(mean, abs=1e-12)
    assert law.quadratic(3.0).value == pytest.approx(3 * sum(p * (x - mean) ** 2), abs=1e-12)
    assert law.power(at, 1.7).value == pytest.approx(sum(p * np.abs(x - at) ** 1.7), rel=1e-12)
    assert law.huber(at, 0.7).value == pytest.approx(sum(p * special.huber(0.7, x - at)), rel=1e-12)
    assert law.log_mgf(0.4).value == pytest.approx(np.log(sum(p * np.exp(0.4 * x))), rel=1e-10, abs=1e-12)
    pairs = sum(a * b * abs(c - d) for (a, c), (b, d) in itertools.product(zip(p, x, strict=True), repeat=2))
    assert law.mean_difference().value == pytest.approx(pairs, abs=1e-12)
    merged = {}
    for value, chance in zip(x, p, strict=True):
        merged[value] = merged.get(value, 0.0) + chance
    entropy = -sum(c * np.log(c) for c in merged.values() if c > 0)
    assert law.entropy().value == pytest.approx(entropy, abs=1e-12)
    assert law.outside(law.mode(), 0.0).value == pytest.approx(1 - max(merged.values()), abs=1e-12)
    centres = [(a + b) / 2 for a in merged for b in merged]
    window = max(sum(c for v, c in merged.items() if abs(v - e) <= 1.25 + 1e-12) for e in centres)
    assert law.outside(law.mode(1.25), 1.25).value == pytest.approx(1 - window, abs=1e-12)
    q = float(law.quantile(0.5))
    assert law.cdf(q) >= 0.5 - 1e-9 and law.cdf(q - 1e-9) < 0.5 + 1e-9


@settings(deadline=None, max_examples=40)
@given(finite_laws(vector=True))
def test_finite_vectors_against_brute_force(law):
    x, p = law.values, law.probabilities
    mean = p @ x
    cov = sum(pi * np.outer(xi - mean, xi - mean) for pi, xi in zip(p, x, strict=True))
    np.testing.assert_allclose(law.cov(), cov, atol=1e-12)
    # Every best box can be pushed until it starts at some value along each axis.
    best = 0.0
    for corner in itertools.product(*x.T):
        inside = np.all((x >= np.array(corner) - 1e-12) & (x <= np.array(corner) + 2.5 + 1e-9), axis=1)
        best = max(best, p[inside].sum())
    assert law.outside(law.mode(1.25), 1.25).value == pytest.approx(1 - best, abs=1e-12)
    weights = np.arange(1.0, 1 + x.shape[1])
    assert law.quadratic(weights).value == pytest.approx(np.sum(weights * np.diag(cov)), abs=1e-12)


def test_values_that_repeat_are_one_value():
    law = Finite([1.0, 2.0, 1.0], [0.3, 0.4, 0.3])
    assert law.mode() == 1.0
    assert law.outside(1.0, 0.0).value == pytest.approx(0.4)
    assert law.entropy().value == pytest.approx(-(0.6 * np.log(0.6) + 0.4 * np.log(0.4)), rel=1e-13)
    assert np.exp(law.log_density(1.0)) == pytest.approx(0.6) and law.log_density(1.5) == -np.inf


def test_small_tilts_of_a_finite_law_keep_their_digits():
    law = Finite([0.0, 1.0, 2.0, 5.0], [0.1, 0.35, 0.3, 0.25])
    third = float(law.expect(lambda x: (x - 2.2) ** 3).value)
    t = 1e-6
    assert law.log_mgf(t, centred=True).value == pytest.approx(t**2 / 2 * 2.96 + t**3 / 6 * third, rel=1e-9)
    assert law.log_mgf(400.0).value == pytest.approx(2000 + np.log(0.25), rel=1e-13)
    assert law.log_mgf(-400.0).value == pytest.approx(np.log(0.1), rel=1e-13)


def test_impossible_values_count_for_nothing():
    law = Finite([0.0, 1.0, 1e9], [0.5, 0.5, 0.0])
    assert law.quantile(1.0) == 1.0 and law.quantile(0.0) == 0.0
    assert Finite([0.0, 1.0], [0.0, 1.0]).quantile(0.0) == 1.0
    with np.errstate(divide="ignore"):
        assert law.expect(lambda x: np.where(x > 10, np.inf, x)).value == 0.5
    assert law.log_mgf(0.5).value == pytest.approx(np.log((1 + np.exp(0.5)) / 2), rel=1e-13)


def test_too_many_boxes_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(UnsupportedError, match="most probable box"):
        best_box(rng.normal(size=(400, 6)), np.full(400, 1 / 400), np.full(6, 1.0), budget=50)


def test_finite_samples_follow_the_law():
    law = Finite([0.0, 1.0, 5.0], [[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    draws = law.sample(20_000, np.random.default_rng(2))
    assert np.all(draws[:, 1] == 0)
    assert abs(draws[:, 0].mean() - 2.8) < 4 * np.sqrt(law.var()[0] / 20_000)


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: Finite([0.0, 1.0], [0.5, 0.6]), "sum to 1"),
        (lambda: Finite([0.0, 1.0], [-0.5, 1.5]), "negative"),
        (lambda: Finite([0.0, 1.0], [1.0]), "2 entries"),
        (lambda: Finite([0.0, np.nan], [0.5, 0.5]), "finite"),
        (lambda: Finite([], []), "states"),
        (lambda: Finite(1.0, 1.0), "states"),
        (lambda: Finite([0.0], 1.0), "1 entries"),
        (lambda: Finite(np.zeros((2, 2, 2)), [0.5, 0.5]), "states"),
    ],
)
def test_finite_refuses_bad_input(build, match):
    with pytest.raises(InputError, match=match):
        build()


# -- Mixture -----------------------------------------------------------------------------------


def test_mixture_against_dense_integration():
    law, mean = mixture(), 1.25
    ends, kinks = (-20.0, 25.0), [-1.0, 0.5, 4.0]

    def exact(g, *more):
        return by_quadrature(g, mixture_density, *ends, [*kinks, *more])

    assert law.mean() == pytest.approx(exact(lambda x: x), rel=1e-12) == pytest.approx(mean)
    assert law.quadratic().value == pytest.approx(exact(lambda x: (x - mean) ** 2), rel=1e-12)
    assert law.lower_partial_moment(0.7).value == pytest.approx(exact(lambda x: max(0.7 - x, 0), 0.7), rel=1e-11)
    assert law.upper_partial_moment(0.7).value == pytest.approx(exact(lambda x: max(x - 0.7, 0), 0.7), rel=1e-11)
    assert law.power(0.7, 1.5).value == pytest.approx(exact(lambda x: abs(x - 0.7) ** 1.5, 0.7), rel=1e-9)
    assert law.power(0.7, 3.0).value == pytest.approx(exact(lambda x: abs(x - 0.7) ** 3, 0.7), rel=1e-11)
    assert law.huber(0.7, 1.2).value == pytest.approx(
        exact(lambda x: float(special.huber(1.2, x - 0.7)), -0.5, 1.9), rel=1e-11
    )
    assert law.outside(0.7, 1.0).value == pytest.approx(exact(lambda x: float(abs(x - 0.7) > 1), -0.3, 1.7), rel=1e-10)
    assert law.log_mgf(0.7).value == pytest.approx(np.log(exact(lambda x: np.exp(0.7 * x))), rel=1e-12)
    assert law.entropy().value == pytest.approx(exact(lambda x: -np.log(mixture_density(x))), rel=1e-10)
    gini = 2 * integrate.quad(lambda x: float(law.cdf(x) * (1 - law.cdf(x))), *ends, limit=500, epsabs=1e-13)[0]
    assert law.mean_difference().value == pytest.approx(gini, rel=1e-10)
    for q in (1e-6, 0.3, 0.5, 0.999):
        assert law.cdf(law.quantile(q)) == pytest.approx(q, rel=1e-12)
    grid = np.linspace(-4, 8, 200_001)
    assert law.log_density(law.mode()) >= law.log_density(grid).max() - 1e-12
    assert law.outside(law.mode(1.0), 1.0).value <= law.outside(grid, 1.0).value.min() + 1e-12
    assert law.expect(lambda x: np.abs(x - 0.7) ** 1.5, at=0.7).value == pytest.approx(
        float(law.power(0.7, 1.5).value), rel=1e-12
    )
    assert law.log_density(0.3) == pytest.approx(np.log(mixture_density(0.3)), rel=1e-13)


@pytest.mark.parametrize("vector", [False, True])
def test_mixture_of_one_is_a_gaussian(vector):
    one = Mixture(Gaussian([[0.3, -0.2]], [COV2]), [1.0]) if vector else Mixture(Gaussian.scalar([0.3], [2.0]), [1.0])
    plain = Gaussian([0.3, -0.2], COV2) if vector else Gaussian.scalar(0.3, 2.0)
    twice = (
        Mixture(Gaussian([[0.3, -0.2]] * 2, COV2), [0.4, 0.6])
        if vector
        else Mixture(Gaussian.scalar([0.3, 0.3], 2.0), [0.4, 0.6])
    )
    for law in (one, twice):
        for ask in (
            lambda p: p.mean(),
            lambda p: p.cov(),
            lambda p: p.quantile(0.2),
            lambda p: p.mode(0.5),
            lambda p: p.cdf(0.9),
            lambda p: p.centre,
            lambda p: p.log_density([0.1, 0.5] if vector else 0.1),
            lambda p: p.quadratic([1.0, 2.0] if vector else 1.5).value,
            lambda p: p.lower_partial_moment(0.9).value,
            lambda p: p.power(0.9, 0.5).value,
            lambda p: p.huber(0.9, 0.5).value,
            lambda p: p.outside(p.mean() + 0.1, 0.5).value,
            lambda p: p.log_mgf(0.9).value,
            lambda p: p.log_mgf(1e-7, centred=True).value,
            lambda p: p.mean_difference().value,
        ):
            np.testing.assert_allclose(ask(law), ask(plain), rtol=1e-11, atol=1e-13)
    assert one.entropy().value == pytest.approx(float(plain.entropy().value), rel=1e-13)
    value = twice.entropy()
    assert abs(value.value - plain.entropy().value) < 4 * value.error + 1e-10


def test_mixture_of_vectors():
    rng = np.random.default_rng(8)
    weights, means = np.array([0.3, 0.7]), np.array([[0.0, 0.0], [3.0, 1.0]])
    law = Mixture(Gaussian(means, np.stack([COV2, 0.5 * np.eye(2)])), weights)
    centre = weights @ means
    exact = 0.3 * (COV2 + np.outer(-centre, -centre)) + 0.7 * (
        0.5 * np.eye(2) + np.outer(means[1] - centre, means[1] - centre)
    )
    np.testing.assert_allclose(law.cov(), exact, rtol=1e-13)
    assert law.quadratic([[1.0, 0.5], [0.5, 2.0]]).value == pytest.approx(
        exact[0, 0] + 0.5 * 2 * exact[0, 1] + 2 * exact[1, 1], rel=1e-13
    )
    draws = law.sample(40_000, rng)
    np.testing.assert_allclose(np.cov(draws.T), exact, atol=0.1)
    at, width = np.array([2.5, 0.8]), np.array([0.7, 1.0])
    share = np.mean(np.any(np.abs(draws - at) > width, axis=1))
    assert abs(law.outside(at, width).value - share) < 4 * np.sqrt(share * (1 - share) / 40_000)
    grid = np.stack(np.meshgrid(np.linspace(-1, 4, 81), np.linspace(-1, 2, 81)), axis=-1).reshape(-1, 2)
    assert law.log_density(law.mode()) >= law.log_density(grid).max() - 1e-12
    assert law.outside(law.mode(width), width).value <= law.outside(grid, width).value.min() + 1e-10
    entropy, logs = law.entropy(), -law.log_density(draws)
    assert abs(entropy.value - logs.mean()) < 4 * np.hypot(logs.std() / 200, entropy.error)
    many = Mixture(Gaussian(rng.normal(size=(50, 2)), np.eye(2)[None]), np.full(50, 0.02))
    value = many.expect(lambda x: np.abs(x).sum(axis=-1))
    assert abs(value.value - many.power(0.0, 1.0).value.sum()) < 4 * value.error < 0.1


def test_mixture_with_atoms_and_infinite_variances():
    law = Mixture(Gaussian.scalar([0.0, 2.0, 2.0], [1.0, 0.0, 0.0]), [0.4, 0.35, 0.25])
    assert law.quantile(0.7) == 2.0 and law.mode() == 2.0
    assert law.outside(2.0, 0.0).value == pytest.approx(0.4)
    assert law.entropy().value == -np.inf and law.log_density(2.0) == np.inf
    assert law.power(2.0, 0.5).value == pytest.approx(
        0.4 * float(Gaussian.scalar(0.0, 1.0).power(2.0, 0.5).value), rel=1e-13
    )
    wide = Mixture(Gaussian.scalar([0.0, 1.0, 0.0], [1.0, np.inf, np.inf]), [0.5, 0.5, 0.0])
    assert (
        wide.quadratic().value == np.inf
        and wide.mean_difference().value == np.inf
        and wide.log_mgf(1.0).value == np.inf
    )
    assert wide.quantile(0.1) == -np.inf and wide.quantile(0.9) == np.inf
    assert wide.quantile(0.5) == pytest.approx(0.0, abs=1e-12)
    assert wide.outside(0.0, 1.0).value == pytest.approx(0.5 * 2 * stats.norm.sf(1) + 0.5, rel=1e-13)
    unused = Mixture(Gaussian.scalar([0.0, 5.0], [1.0, np.inf]), [1.0, 0.0])
    assert unused.quadratic().value == 1 and unused.power(0.0, 1.0).value == pytest.approx(np.sqrt(2 / np.pi))
    points = Mixture(Gaussian.scalar(np.arange(400.0), [0.0]), np.full(400, 1 / 400))
    assert points.mean_difference().value == pytest.approx(
        2 * sum(i * (400 - i) for i in range(400)) / 400**2, rel=1e-12
    )


@pytest.mark.parametrize("sd", [1e-5, 0.01, 0.1, 3.0, "mixed"])
def test_mean_difference_of_many_components_equals_all_pairs(sd):
    rng = np.random.default_rng(4)
    m = 700
    means, weights = rng.normal(size=m), rng.dirichlet(np.ones(m))
    sds = np.where(means > 0, 0.3, 1e-4) if sd == "mixed" else np.full(m, sd)
    s = np.hypot(sds[:, None], sds)
    d = means[:, None] - means
    z = d / s
    pairs = float(weights @ (d * (2 * special.ndtr(z) - 1) + 2 * s * stats.norm.pdf(z)) @ weights)
    assert mean_difference(weights, means, sds) == pytest.approx(pairs, rel=1e-12)


def test_entropy_of_many_components_by_two_routes():
    rng = np.random.default_rng(6)
    law = SortedMixture.of(np.full(300, 1 / 300), rng.normal(size=300), np.full(300, 0.01))
    line, apart = law.entropy(), law._entropy_apart()
    assert line.value == pytest.approx(float(apart.value), abs=1e-6)
    far = Mixture(Gaussian.scalar(1000.0 * np.arange(300), [1e-4]), np.full(300, 1 / 300))
    assert far.entropy().value == pytest.approx(np.log(300) + 0.5 * np.log(2 * np.pi * np.e * 1e-4), abs=1e-6)


def test_two_hundred_thousand_components():
    rng = np.random.default_rng(7)
    n = 200_000
    law = Mixture(Gaussian.scalar(rng.normal(size=n), [0.09]), np.full(n, 1 / n))
    total = float(law.quadratic().value)
    s = np.sqrt(total)
    # So many components blend into a normal law, up to the luck of the draw.
    assert law.quantile(0.9) == pytest.approx(float(law.mean()) + s * stats.norm.ppf(0.9), abs=0.01)
    assert law.mean_difference().value == pytest.approx(2 * s / np.sqrt(np.pi), rel=0.005)
    assert law.power(law.mean(), 1.0).value == pytest.approx(s * np.sqrt(2 / np.pi), rel=0.005)
    assert law.cdf(law.quantile(0.37)) == pytest.approx(0.37, rel=1e-12)


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: Mixture(Gaussian.scalar([0.0, 1.0], [1.0, -1.0]), [0.5, 0.5]), "not negative"),
        (lambda: Mixture(Gaussian.scalar([0.0, 1.0, 2.0], [1.0, 1.0]), [0.5, 0.5]), "agree"),
        (lambda: Mixture(Gaussian.scalar([0.0, np.nan], [1.0, 1.0]), [0.5, 0.5]), "finite"),
        (lambda: Mixture(Gaussian(np.zeros((2, 2)), [1.0, 1.0]), [0.5, 0.5]), "cov"),
        (lambda: Mixture(Gaussian(np.zeros((2, 2)), [[1.0, 2.0], [2.0, 1.0]]), [0.5, 0.5]), "semidefinite"),
        (lambda: Mixture(Gaussian.scalar(0.0, 1.0), 1.0), "batch"),
        (lambda: Mixture(Gaussian.scalar([0.0, 1.0], [1.0]), [1.0]), "weights must have shape"),
    ],
)
def test_mixture_refuses_bad_input(build, match):
    with pytest.raises(InputError, match=match):
        build()


# -- Drawn ---------------------------------------------------------------------------------------------

QUESTIONS = {
    "quadratic": lambda p: p.quadratic(),
    "power": lambda p: p.power(p.quantile(0.5), 1.0),
    "log_mgf": lambda p: p.log_mgf(0.5),
    "centred log_mgf": lambda p: p.log_mgf(0.5, centred=True),
    "spread": lambda p: p.mean_difference(),
    "above": lambda p: p.upper_partial_moment(1.0),
    "outside": lambda p: p.outside(0.3, 0.5),
    "expect": lambda p: p.expect(np.cos),
}


def chains(rng, phi, count, length):
    noise = rng.normal(size=(count, length)) * np.sqrt(1 - phi**2)
    noise[:, 0] /= np.sqrt(1 - phi**2)
    return signal.lfilter([1.0], [1.0, -phi], noise, axis=1)


def z_scores(make, repeats=200):
    exact = {name: ask(Gaussian.scalar(0.0, 1.0)).value for name, ask in QUESTIONS.items()}
    rng = np.random.default_rng(11)
    scores = {name: [] for name in QUESTIONS}
    for _ in range(repeats):
        law = make(rng)
        for name, ask in QUESTIONS.items():
            value = ask(law)
            scores[name].append(float((value.value - exact[name]) / value.error))
    return scores


def weighted(rng):
    draws = rng.standard_t(5, size=800)
    return Drawn(draws, weights=np.exp(stats.norm.logpdf(draws) - stats.t.logpdf(draws, 5)))


@pytest.mark.slow
@pytest.mark.campaign(3)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda rng: Drawn(rng.normal(size=500)), id="independent"),
        pytest.param(lambda rng: Drawn(chains(rng, 0.7, 4, 600), chains=4), id="four chains"),
        pytest.param(lambda rng: Drawn(chains(rng, 0.5, 1, 1500), chains=1), id="one chain"),
        pytest.param(lambda rng: Drawn(chains(rng, -0.5, 2, 500), chains=2), id="antithetic"),
        pytest.param(weighted, id="weighted"),
    ],
)
def test_errors_of_draws_are_calibrated(make):
    for name, scores in z_scores(make).items():
        # 200 repetitions know a standard deviation to 5 percent.
        assert 0.8 < np.std(scores) < 1.25, name
        assert abs(np.mean(scores)) < 0.4, name


def test_ignoring_autocorrelation_would_show():
    scores = z_scores(lambda rng: Drawn(chains(rng, 0.9, 4, 300).ravel()), repeats=60)
    assert np.std(scores["quadratic"]) > 1.7


def test_draws_agree_with_their_law():
    posterior = Gaussian([1.0, -1.0, 0.0], COV3)
    law = Drawn(posterior.sample(8000, np.random.default_rng(21)))
    for ask in (
        lambda p: p.quadratic([1.0, 2.0, 3.0]),
        lambda p: p.quadratic(COV3),
        lambda p: p.outside([1.0, -1.0, 0.0], [1.0, 1.0, 2.0]),
        lambda p: p.power([1.0, -1.0, 0.0], 1.5),
        lambda p: p.huber([1.0, -1.0, 0.0], 0.5),
        lambda p: p.mean_difference(),
        lambda p: p.log_mgf(-0.4),
    ):
        seen, told = ask(law), ask(posterior)
        assert np.all(seen.error > 0)
        assert np.all(np.abs(seen.value - told.value) < 4 * np.hypot(seen.error, told.error))
    seen = law.entropy()
    assert abs(seen.value - posterior.entropy().value) < 4 * seen.error + 0.03
    np.testing.assert_allclose(law.log_density([[1.0, -1.0, 0.0]]), posterior.log_density([[1.0, -1.0, 0.0]]), atol=0.5)
    assert np.all(np.abs(law.mode() - posterior.mean()) < 1.0)
    box = law.outside(law.mode([1.0, 1.0, 2.0]), [1.0, 1.0, 2.0])
    assert abs(box.value - posterior.outside([1.0, -1.0, 0.0], [1.0, 1.0, 2.0]).value) < 5 * box.error


def test_weights_are_relative_and_zero_weights_do_not_count():
    x = np.random.default_rng(1).normal(size=300)
    plain, doubled = Drawn(x), Drawn(x, weights=np.full(300, 2.0))
    np.testing.assert_allclose(doubled.quadratic(), plain.quadratic(), rtol=1e-12)
    padded = Drawn(np.concatenate([x, [1e6]]), weights=np.append(np.ones(300), 0.0))
    assert padded.quadratic().value == pytest.approx(float(plain.quadratic().value), rel=1e-12)
    assert padded.quantile(1.0) == x.max()
    for q in (0.1, 0.5, 0.77):
        assert plain.quantile(q) == np.quantile(x, q, method="inverted_cdf")


def test_discrete_draws_are_a_finite_law():
    rng = np.random.default_rng(2)
    law = Drawn(rng.choice([0.0, 1.0, 2.0], p=[0.2, 0.5, 0.3], size=5000), discrete=True)
    exact = Finite([0.0, 1.0, 2.0], [0.2, 0.5, 0.3])
    np.testing.assert_array_equal(law.support, [0.0, 1.0, 2.0])
    assert law.mode() == 1.0
    for ask in (lambda p: p.entropy(), lambda p: p.outside(1.0, 0.0)):
        assert abs(ask(law).value - ask(exact).value) < 4 * ask(law).error
    assert law.log_density(1.0) == pytest.approx(np.log(0.5), abs=0.1)
    smooth = Drawn(rng.normal(size=100))
    assert smooth.support is None and smooth.outside(smooth.draws[0], 0.0) == (1.0, 0.0)


def test_draws_without_spread():
    still = Drawn(np.full(50, 3.0))
    assert still.quadratic() == (0, 0) and still.mean_difference() == (0, 0) and still.outside(3.0, 0.0) == (0, 0)
    assert still.entropy().value == -np.inf
    line = Drawn(np.outer(np.arange(10.0), [1.0, 2.0]))
    assert line.entropy().value == -np.inf


def test_repeated_draws_do_not_break_the_entropy():
    rng = np.random.default_rng(5)
    x = np.repeat(rng.normal(size=2000), rng.geometric(0.5, size=2000))
    value = Drawn(x[None], chains=1).entropy()
    assert abs(value.value - 0.5 * np.log(2 * np.pi * np.e)) < 4 * value.error


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: Drawn([1.0]), "at least two"),
        (lambda: Drawn([1.0, np.nan]), "finite"),
        (lambda: Drawn(np.zeros((2, 3, 4))), "numbers or vectors"),
        (lambda: Drawn(np.zeros((2, 3)), chains=4), r"\(4, draws\)"),
        (lambda: Drawn(np.zeros(5), chains=0), "chains"),
        (lambda: Drawn(np.zeros(5), weights=np.zeros(5)), "all zero"),
        (lambda: Drawn(np.zeros(5), weights=-np.ones(5)), "negative"),
        (lambda: Drawn(np.zeros(5), weights=np.ones(4)), "shape"),
        (lambda: Drawn(np.zeros(5), discrete="yes"), "discrete"),
        (lambda: Drawn(np.zeros(5)).select(0), "no batch"),
        (lambda: Drawn(np.zeros(5)).expect(lambda x: x[:2]), "give back shape"),
    ],
)
def test_draws_refuse_bad_input(build, match):
    with pytest.raises(InputError, match=match):
        build()


# -- searches ------------------------------------------------------------------------------------------


def test_a_curve_with_power_tails_has_the_means_that_exist() -> None:
    """Cauchy's law: E |x| is infinite, E min(|x|, 1) is 1/2 + log(2) / pi, E log(1 + x^2) is 2 log 2."""
    x = np.sinh(np.linspace(-12, 12, 2001))
    law = Curve(x, -np.log1p(x**2)).with_tails(np.array(1.0), np.array(1.0))
    for endless in (np.abs, np.square, lambda t: np.where(t > 3, t, 0.0)):
        assert law.expect(endless).value == np.inf
    assert law.expect(lambda t: -np.abs(t)).value == -np.inf
    assert law.expect(lambda t: np.minimum(np.abs(t), 1.0)).value == pytest.approx(0.5 + np.log(2) / np.pi, rel=1e-5)
    assert law.expect(lambda t: np.log1p(t**2)).value == pytest.approx(2 * np.log(2), rel=2e-4)
    assert CustomLoss(lambda e, t: abs(e - t)).uncertainty(law).value == np.inf
