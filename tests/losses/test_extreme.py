"""Losses of normal posteriors and of mixtures at the edge of double precision, against mpmath with 60 digits and more.

Each U is held to 1e-13 of its value, because its closed form is a product or a sum of positive numbers. Three
exceptions are the questions' own: a tail probability at z moves by z**2 units when z moves by one, powers whose factors
leave the range of floats go through logarithms (1e-11), and a mixture's mean difference is an integral (1e-12).
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import ruvdecision as ruv
from ruvdecision.posteriors import Finite, Gaussian, Mixture, normal

mp = pytest.importorskip("mpmath", reason="the references of many digits need mpmath, from the extra test")

SCALES = (1e-150, 1e-12, 1.0, 1e12, 1e150)
DIGITS = 1e-13


@pytest.fixture(autouse=True)
def many_digits():
    with mp.workdps(60):
        yield


def check(got, want, digits=DIGITS):
    got = float(got)
    assert abs(mp.mpf(got) - want) <= digits * abs(want), (got, float(want))


def normal_quantile(tail):
    """z with Phi(z) = tail, for a tail of at most a half, by Newton's method on the logarithm."""
    return mp.findroot(lambda z: mp.log(mp.ncdf(z)) - mp.log(tail), float(special.ndtri(float(tail))))


def huber(d, delta):
    """E of Huber's loss of N(d, 1), piece by piece, with digits to spare for its cancellation."""
    with mp.workdps(120):
        d, delta = mp.mpf(d), mp.mpf(delta)
        low, high = -delta - d, delta - d
        square = (
            (d * d + 1) * (mp.ncdf(high) - mp.ncdf(low))
            + 2 * d * (mp.npdf(low) - mp.npdf(high))
            + low * mp.npdf(low)
            - high * mp.npdf(high)
        )
        beyond = sum(mp.npdf(m) + m * mp.ncdf(m) for m in (d - delta, -d - delta))
        return square / 2 + delta * beyond + delta**2 / 2 * (mp.ncdf(-high) + mp.ncdf(low))


def posterior(scale):
    return Gaussian.scalar(0.0, scale * scale), mp.sqrt(mp.mpf(scale * scale))


@pytest.mark.parametrize("c", [1e-15, 1e-12, 1e-8, 1e-4, 0.1, 0.99, 1.0, 1.01, 3.0, 10.0, 1e3, 1e8, 1e15])
def test_huber_from_a_tiny_to_a_huge_bend(c):
    for scale in SCALES[1:]:
        law, sd = posterior(scale)
        check(ruv.Huber(c * scale).uncertainty(law).value, huber(0, mp.mpf(c * scale) / sd) * sd**2)
    for d in (1e-9, -1.0, 7.0, 39.0, 1e3):
        check(normal.mean_huber_loss(d, 1.0, c), huber(d, c))


@pytest.mark.parametrize("c", [1e-15, 1e-12, 1e-6, 0.1, 1.0, 5.0, 20.0, 37.0])
def test_tolerances(c):
    for scale in SCALES:
        law, sd = posterior(scale)
        z = mp.mpf(c * scale) / sd
        check(ruv.ZeroOne(c * scale).uncertainty(law).value, mp.erfc(z / mp.sqrt(2)), DIGITS + 4e-16 * c * c)


@pytest.mark.parametrize("p", [1e-3, 0.5, 1, 1.5, 2, 3, 10, 50, 170, 300, 1000])
def test_powers(p):
    for scale in (*SCALES, 0.03, 30.0):
        law, sd = posterior(scale)
        want = sd ** mp.mpf(p) * 2 ** (mp.mpf(p) / 2) * mp.gamma((mp.mpf(p) + 1) / 2) / mp.sqrt(mp.pi)
        got = float(ruv.Power(p).uncertainty(law).value)
        if want > mp.mpf("1.7e308"):
            assert got == np.inf
        elif want < mp.mpf("1e-300"):
            assert 0 <= got <= 1e-299
        else:
            check(got, want, DIGITS if p <= 50 else 1e-11)


def test_closed_forms_of_every_scale():
    for scale in SCALES:
        law, sd = posterior(scale)
        v = mp.mpf(scale * scale)
        check(ruv.Quadratic().uncertainty(law).value, v)
        check(ruv.Absolute().uncertainty(law).value, sd * mp.sqrt(2 / mp.pi))
        check(ruv.CRPS().uncertainty(law).value, sd / mp.sqrt(mp.pi))
        check(ruv.LogScore().uncertainty(law).value, mp.log(2 * mp.pi * mp.e * v) / 2)


@pytest.mark.parametrize("a", [1e-8, 1.0, -2.0, 30.0, 1e3, 1e8])
def test_linex_does_not_overflow(a):
    for scale in SCALES[1:4]:
        law, _ = posterior(scale)
        check(ruv.Linex(a, 1e-12).uncertainty(law).value, mp.mpf(1e-12) * mp.mpf(a) ** 2 * mp.mpf(scale * scale) / 2)


@pytest.mark.parametrize("q", [1e-300, 1e-20, 1e-3, 0.5, 0.999, 1 - 1e-12, 1 - 2.0**-53])
def test_pinball(q):
    for scale in SCALES[1:4]:
        law, sd = posterior(scale)
        # The quantile moves the density by z times its own rounding.
        z = normal_quantile(min(mp.mpf(q), 1 - mp.mpf(q)))
        check(ruv.Pinball(q).uncertainty(law).value, sd * mp.npdf(z), 1e-12)


@pytest.mark.parametrize("level", [1e-12, 0.5, 0.9, 1 - 1e-9, 1 - 1e-12, 1 - 2.0**-53])
def test_interval_score_of_levels_near_one(level):
    for scale in SCALES:
        law, sd = posterior(scale)
        alpha = 1 - mp.mpf(level)
        z = normal_quantile(alpha / 2)
        check(ruv.IntervalScore(level).uncertainty(law).value, 4 * sd * mp.npdf(z) / alpha)


@pytest.mark.parametrize("condition", [1e2, 1e8, 1e13])
def test_entropy_of_a_nearly_singular_covariance(condition):
    """log |V| of two numbers: 1 - rho**2 has lost as many digits as the condition has."""
    rho = 1 - 2 / condition
    cov = np.array([[1.0, rho], [rho, 1.0]])
    want = mp.log((2 * mp.pi * mp.e) ** 2 * (1 - mp.mpf(rho) ** 2)) / 2
    got = float(ruv.LogScore().uncertainty(Gaussian([0.0, 0.0], cov)).value)
    assert abs(mp.mpf(got) - want) <= 1e-13 * abs(want) + 4e-16 * condition


def test_a_nearly_singular_posterior_is_not_taken_for_a_point():
    got = ruv.LogScore().uncertainty(Gaussian([0.0, 0.0], np.array([[1.0, 1 - 2e-14], [1 - 2e-14, 1.0]]))).value
    assert np.isfinite(got)
    assert ruv.LogScore().uncertainty(Gaussian([0.0, 0.0], np.ones((2, 2)))).value == -np.inf


# -- mixtures --------------------------------------------------------------------------------------------------

MIXTURES = {
    "a weight of 1e-300": ([1.0, 1e-300], [0.0, 1.0], [1.0, 1.0]),
    "a weight of 1e-300 far away": ([1.0, 1e-300], [0.0, 1e100], [1.0, 1.0]),
    "far apart": ([0.3, 0.7], [0.0, 1e12], [1.0, 4.0]),
    "close together, far away": ([0.5, 0.5], [1e8, 1e8 + 1], [1.0, 1.0]),
    "one nearly a point": ([0.5, 0.5], [0.0, 1.0], [1e-24, 1.0]),
    "points and a plain": ([0.25, 0.75], [0.0, 1.0], [1e24, 1e-20]),
    "tiny": ([0.25, 0.75], [0.0, 1e-150], [1e-300, 2e-300]),
    "huge": ([0.25, 0.75], [0.0, 1e150], [1e300, 2e300]),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_mixtures(name):
    weights, means, variances = MIXTURES[name]
    law = Mixture(Gaussian.scalar(means, variances), weights)
    w, m, s = [[mp.mpf(x) for x in xs] for xs in (weights, means, variances)]
    w, s = [x / sum(w) for x in w], [mp.sqrt(x) for x in s]
    mean = sum(a * b for a, b in zip(w, m, strict=True))
    far = lambda d, c: c * mp.sqrt(2 / mp.pi) * mp.exp(-((d / c) ** 2) / 2) + d * mp.erf(d / c / mp.sqrt(2))  # noqa: E731
    pairs = [(i, j) for i in range(2) for j in range(2)]
    check(law.mean(), mean) if mean else None
    check(
        ruv.Quadratic().uncertainty(law).value,
        sum(a * (c * c + (b - mean) ** 2) for a, b, c in zip(w, m, s, strict=True)),
    )
    check(
        ruv.CRPS().uncertainty(law).value,
        sum(w[i] * w[j] * far(m[i] - m[j], mp.hypot(s[i], s[j])) for i, j in pairs) / 2,
        1e-12,
    )
    for loss in (
        ruv.Absolute(),
        ruv.Huber(float(max(s))),
        ruv.ZeroOne(float(min(s))),
        ruv.Pinball(0.99),
        ruv.IntervalScore(0.95),
    ):
        assert 0 <= float(loss.uncertainty(law).value) < np.inf


def test_entropy_of_components_that_do_not_meet():
    """Far apart, the entropy is that of the choice plus the mean of the components'."""
    law = Mixture(Gaussian.scalar([0.0, 1e8], [1.0, 4.0]), [0.3, 0.7])
    pieces = [(mp.mpf(0.3), mp.mpf(1)), (mp.mpf(0.7), mp.mpf(4))]
    want = sum(p * (mp.log(2 * mp.pi * mp.e * v) / 2 - mp.log(p)) for p, v in pieces)
    value = ruv.LogScore().uncertainty(law)
    assert abs(mp.mpf(float(value.value)) - want) <= max(1e-9, 4 * float(value.error))


@pytest.mark.slow
@pytest.mark.campaign(5)
@pytest.mark.parametrize("level", [0.9, 1 - 1e-9, 1 - 1e-12, 1 - 1e-15, 1 - 2.0**-53])
@pytest.mark.parametrize(
    ("weights", "means", "variances"),
    [
        ([0.3, 0.7], [-1.0, 2.0], [1.0, 4.0]),
        ([0.999, 0.001], [0.0, 5.0], [1.0, 0.01]),
        ([0.5, 0.5], [-3.0, 8.0], [9.0, 1e-4]),
    ],
)
def test_interval_score_of_a_lopsided_mixture_near_level_one(weights, means, variances, level):
    """Ends by halving and what sticks out by quadrature of the tails, with 40 digits; 1 - level/2 is never formed."""
    parts = [(mp.mpf(w), mp.mpf(m), mp.sqrt(mp.mpf(v))) for w, m, v in zip(weights, means, variances, strict=True)]
    law = Mixture(Gaussian.scalar(means, variances), weights)
    loss = ruv.IntervalScore(level)
    ends = loss.estimate(law)
    with mp.workdps(40):
        alpha = 1 - mp.mpf(level)
        score, far = mp.mpf(0), []
        for side in (1, -1):

            def tail(x, side=side):  # chance below x, of the law or of its mirror image
                return sum(w * mp.ncdf((x - side * m) / s) for w, m, s in parts)

            low, end = min(side * m - 40 * s for _, m, s in parts), max(side * m + 40 * s for _, m, s in parts)
            for _ in range(120):
                middle = (low + end) / 2
                low, end = (middle, end) if tail(middle) < alpha / 2 else (low, middle)
            far.append(side * end)
            width = max(s for _, _, s in parts)
            panels = [end - k * width for k in (60, 20, 8, 4, 2, 1, mp.mpf(1) / 8, mp.mpf(1) / 64, 0)]
            score += -end + 2 / alpha * mp.quad(tail, panels)
    check(ends[0], far[0], 1e-13)
    check(ends[1], far[1], 1e-13)
    check(loss.uncertainty(law).value, score, 1e-11)
    assert loss.uncertainty(law).error == 0


@pytest.mark.slow
@pytest.mark.campaign(4)
@pytest.mark.parametrize(
    ("weights", "means", "sds"),
    [
        ([0.3, 0.7], [0.0, 1.0], [1e-15, 1e-15]),
        ([0.3, 0.7], [1.0, 2.0], [1e-6, 1e-9]),
        ([0.3, 0.7], [1.0, 1.0], [1e-12, 1e-3]),
        ([0.4, 0.6], [0.0, 0.7], [1.0, 1e-6]),
        ([0.4, 0.6], [0.0, 0.7], [1.0, 1e-15]),
        ([0.3, 0.3, 0.4], [1.0, 1.0 + 2e-12, 5.0], [1e-12, 2e-12, 1.0]),
        ([0.2, 0.5, 0.3], [-3.0, 1e9, 1e9 + 1], [1.0, 0.5, 2.0]),
        ([0.5, 0.5], [0.0, 0.0], [1.0, 1e-150]),
        ([0.5, 0.5], [0.0, 0.0], [1.0, 1e-160]),
        ([0.5, 0.5], [0.0, 25.0], [1.0, 1.0]),
    ],
)
def test_entropy_of_mixtures_whose_parts_are_tiny_for_their_distance(weights, means, sds):
    """Against quadrature with 40 digits over the line, where places are not rounded."""
    law = Mixture(Gaussian.scalar(means, np.square(sds)), weights)
    found = law.entropy()
    with mp.workdps(40):
        # The standard deviations are those that the package sees, roots of squares.
        parts = [
            (mp.mpf(w), mp.mpf(m), mp.sqrt(mp.mpf(v)))
            for w, m, v in zip(law.weights, means, np.square(sds), strict=True)
        ]

        def surprise(x):
            density = sum(w * mp.npdf(x, m, s) for w, m, s in parts)
            return -density * mp.log(density) if density > 0 else mp.mpf(0)

        places = (0, 1, 2, 3, 4, 5.5, 7, 9, 11, 14)
        wanted = mp.quad(surprise, sorted({m + side * k * s for _, m, s in parts for k in places for side in (1, -1)}))
    check(found.value, wanted, 1e-12)
    assert found.error == 0


def test_entropy_of_many_tiny_pairs_carries_what_rounding_leaves():
    """300 pairs apart from each other: the entropy of a pair, and of which pair it is. One by one would be exact."""
    places, size = np.arange(1.0, 301.0), 2.0**-36
    means = np.concatenate([places, places + 2 * size])
    weights = np.full(600, 1 / 600)
    found = Mixture(Gaussian.scalar(means, np.full(600, size**2)), weights).entropy()
    pair = Mixture(Gaussian.scalar([0.0, 2.0], [1.0, 1.0]), [0.5, 0.5]).entropy()
    wanted = float(pair.value) + np.log(size) + np.log(300)
    assert 0 < found.error < 1e-2
    assert abs(found.value - wanted) <= 2 * found.error
    fewer = np.concatenate([places[:200], places[:200] + 2 * size])
    exact = Mixture(Gaussian.scalar(fewer, np.full(400, size**2)), np.full(400, 1 / 400)).entropy()
    assert exact.value == pytest.approx(float(pair.value) + np.log(size) + np.log(200), rel=1e-13) and exact.error == 0


@pytest.mark.parametrize(("bend", "estimate"), [(1e-300, 1.0), (1e-16, 1.0), (1e16, 1.3), (1e100, 1.3), (1e300, 1.3)])
def test_a_bend_far_from_the_law_is_a_median_or_a_mean(bend, estimate):
    """Also where the posterior is not symmetric, so that no formula gives the estimate."""
    law = Finite(np.array([0.0, 1.0, 2.0]), np.array([0.2, 0.3, 0.5]))
    loss = ruv.Huber(bend)
    assert float(loss.estimate(law)) == pytest.approx(estimate, abs=1e-7)
    gaps = np.abs(np.array([0.0, 1.0, 2.0]) - estimate)
    want = 0.305 if bend > 1 else bend * float(np.array([0.2, 0.3, 0.5]) @ gaps)
    assert float(loss.uncertainty(law).value) == pytest.approx(want, rel=1e-7)
