"""Losses: the papers' numbers, closed forms against minimisation, and what every uncertainty must obey."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import places
import pytest
from hypothesis import given, settings, strategies as st
from scipy import optimize, special, stats

from ruvdecision.errors import InputError, UnsupportedError
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
    as_loss,
)
from ruvdecision.posteriors import Drawn, Finite, Gaussian, Mixture
from ruvdecision.protocols import Loss

NORMAL = Gaussian.scalar(1.3, 2.0)
FOUR = Finite([0.0, 1.0, 2.0, 5.0], [0.1, 0.35, 0.3, 0.25])

POINT_LOSSES = [
    Quadratic(),
    Quadratic(weights=2.5),
    Absolute(),
    Power(0.5),
    Power(1.3),
    Power(3.0, weights=2.0),
    Power(6.5),
    Huber(1.0),
    Huber(0.05),
    Huber(20.0),
    Pinball(0.9),
    Pinball(0.02),
    Linex(0.7),
    Linex(-0.3, b=2.0),
    ZeroOne(tolerance=0.5),
]
ALL = [
    *POINT_LOSSES,
    ZeroOne(),
    LogScore(),
    KullbackLeibler(),
    CRPS(),
    CRPS(weights=3.0),
    IntervalScore(),
    IntervalScore(0.5, weights=2.0),
]
ON_THE_LINE = [loss for loss in ALL if not isinstance(loss, KullbackLeibler)]
NONNEGATIVE = [loss for loss in ALL if not isinstance(loss, (LogScore, KullbackLeibler))]


@pytest.fixture(scope="module")
def reference():
    rows = json.loads((places.REFERENCE / "trottini_fienberg_duncan.json").read_text())
    return {row["name"]: row["value"] for row in rows}


# -- the papers' numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("U normal, quadratic", Quadratic()),
        ("U normal, absolute", Absolute()),
        ("U normal, 0-1, tolerance 0.5", ZeroOne(tolerance=0.5)),
        ("U normal, Huber delta=1", Huber(1.0)),
        ("U normal, pinball tau=0.9", Pinball(0.9)),
        ("U normal, pinball tau=0.25", Pinball(0.25)),
        ("U normal, log score (entropy)", LogScore()),
        ("U normal, CRPS", CRPS()),
        ("U normal, 90% interval score", IntervalScore(0.9)),
    ],
)
def test_uncertainty_of_a_normal(reference, name, loss):
    # T-F eqs (1)-(2) with the closed forms of FORMULAS section 1, posterior N(1.3, 2).
    assert loss.uncertainty(NORMAL).value == pytest.approx(reference[name], rel=1e-12)
    assert loss.uncertainty(NORMAL).error == 0


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("Bayes action, pinball tau=0.9", Pinball(0.9)),
        ("Bayes action, pinball tau=0.25", Pinball(0.25)),
        ("Bayes action, LINEX a=0.7", Linex(0.7)),
    ],
)
def test_bayes_action_of_a_normal(reference, name, loss):
    assert loss.estimate(NORMAL) == pytest.approx(reference[name], rel=1e-12)  # T-F eq. (1)


def test_finite_posterior(reference):
    # T-F step 2: estimates from the target's own finite set, against the free action space.
    assert Quadratic().uncertainty(FOUR, "target").value == pytest.approx(
        reference["finite posterior: quadratic, e in Omega (TF step 2)"], rel=1e-12
    )
    assert Quadratic().uncertainty(FOUR).value == pytest.approx(2.96, rel=1e-12)
    assert Quadratic().estimate(FOUR, "target") == 2.0
    assert Absolute().uncertainty(FOUR).value == pytest.approx(reference["finite posterior: absolute"], rel=1e-12)
    assert LogScore().uncertainty(FOUR).value == pytest.approx(
        reference["finite posterior: log score"], rel=1e-12
    )  # T-F eqs (7)-(12)
    assert KullbackLeibler().uncertainty(FOUR).value == pytest.approx(
        reference["finite posterior: log score"], rel=1e-12
    )


def test_every_reference_number_about_losses_is_used(reference):
    source = Path(__file__).read_text()
    named = [name for name in reference if name.startswith(("U normal", "Bayes action", "finite posterior"))]
    assert len(named) >= 15
    assert [name for name in named if f'"{name}"' not in source] == []


def test_entropy_of_equally_likely_completions():
    # T-F section 4.2: the posterior is uniform on the 114 completions of the table.
    completions = np.stack([np.arange(114.0), 113.0 - np.arange(114.0)], axis=1)
    law = Finite(completions, np.full(114, 1 / 114))
    for loss in (LogScore(), KullbackLeibler()):
        assert loss.uncertainty(law).value == pytest.approx(4.736198448, rel=1e-9)


@pytest.mark.parametrize(("m", "v"), [(1.3, 2.0), (0.0, 1e-6), (-50.0, 7.0), (1e9, 4e-4)])
def test_the_table_of_closed_forms(m, v):
    # FORMULAS section 1. The last case has few digits left for the distance of an estimate from the truth.
    s, law = np.sqrt(v), Gaussian.scalar(m, v)
    z, c = stats.norm.ppf(0.95), 1.0 / s
    expected = {
        Quadratic(weights=3.0): 3 * v,
        Absolute(): s * np.sqrt(2 / np.pi),
        Power(0.5): s**0.5 * 2**0.25 * special.gamma(0.75) / np.sqrt(np.pi),
        Power(3.0): s**3 * 2**1.5 * special.gamma(2.0) / np.sqrt(np.pi),
        ZeroOne(tolerance=0.7 * s): special.erfc(0.7 / np.sqrt(2)),
        ZeroOne(): 1.0,
        LogScore(): 0.5 * np.log(2 * np.pi * np.e * v),
        Pinball(0.95): s * stats.norm.pdf(z),
        Linex(0.4, b=3.0): 3 * 0.4**2 * v / 2,
        Huber(1.0): 0.5 * v * (1 - 2 * stats.norm.cdf(-c) - 2 * c * stats.norm.pdf(c))
        + 2 * (s * stats.norm.pdf(c) - 0.5 * stats.norm.cdf(-c)),
        CRPS(): s / np.sqrt(np.pi),
        IntervalScore(0.9): 4 * s * stats.norm.pdf(z) / 0.1,
    }
    for loss, value in expected.items():
        assert loss.uncertainty(law).value == pytest.approx(value, rel=1e-13), loss
    assert Linex(0.4).estimate(law) == pytest.approx(m - 0.4 * v / 2, rel=1e-14, abs=1e-14)
    np.testing.assert_allclose(IntervalScore(0.9).estimate(law), [m - s * z, m + s * z], rtol=1e-13)


def test_vector_of_normals():
    # T-F eq. (22): tr(W V); components of the other losses are summed with their weights.
    cov = np.array([[2.0, 0.7], [0.7, 1.5]])
    law = Gaussian([1.0, -2.0], cov)
    w = np.array([[1.0, 0.2], [0.2, 3.0]])
    assert Quadratic(weights=w).uncertainty(law).value == pytest.approx(np.trace(w @ cov), rel=1e-14)
    assert Quadratic(weights=[1.0, 3.0]).uncertainty(law).value == pytest.approx(2.0 + 4.5, rel=1e-14)
    parts = [Gaussian.scalar(1.0, 2.0), Gaussian.scalar(-2.0, 1.5)]
    for loss, single in [
        (Absolute([1.0, 3.0]), Absolute()),
        (Power(1.5, weights=[1.0, 3.0]), Power(1.5)),
        (Huber(0.5, weights=[1.0, 3.0]), Huber(0.5)),
        (Pinball(0.2, weights=[1.0, 3.0]), Pinball(0.2)),
        (CRPS(weights=[1.0, 3.0]), CRPS()),
        (IntervalScore(0.8, weights=[1.0, 3.0]), IntervalScore(0.8)),
    ]:
        told = single.uncertainty(parts[0]).value + 3 * single.uncertainty(parts[1]).value
        assert loss.uncertainty(law).value == pytest.approx(told, rel=1e-13)
    assert IntervalScore(0.8).estimate(law).shape == (2, 2)
    assert LogScore().uncertainty(law).value == pytest.approx(
        np.log(2 * np.pi * np.e) + 0.5 * np.log(np.linalg.det(cov)), rel=1e-13
    )
    assert Linex(0.5).uncertainty(law).value == pytest.approx(0.125 * 3.5, rel=1e-13)


# -- against minimisation ------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", POINT_LOSSES, ids=repr)
@pytest.mark.parametrize(("m", "v"), [(1.3, 2.0), (-7.0, 0.3)])
def test_normal_uncertainty_is_the_least_expected_loss(loss, m, v):
    law, s = Gaussian.scalar(m, v), np.sqrt(v)
    tolerance = float(getattr(loss, "tolerance", 0.0))
    delta = float(getattr(loss, "delta", 0.0))

    def risk(e):
        return float(law.expect(lambda x: loss(e, x), at=[e, e - tolerance, e + tolerance, e - delta, e + delta]).value)

    found = optimize.minimize_scalar(risk, bounds=(m - 4 * s, m + 4 * s), method="bounded", options={"xatol": 1e-9 * s})
    assert loss.uncertainty(law).value == pytest.approx(found.fun, rel=1e-10)
    assert loss.estimate(law) == pytest.approx(found.x, abs=2e-4 * s)
    assert risk(float(loss.estimate(law))) == pytest.approx(float(loss.uncertainty(law).value), rel=1e-10)
    assert loss.expected(law, m + 0.3).value == pytest.approx(risk(m + 0.3), rel=1e-10)


def test_interval_and_distribution_scores_of_a_normal_by_minimisation():
    law = Gaussian.scalar(0.4, 1.7)
    loss = IntervalScore(0.8)
    found = optimize.minimize(
        lambda e: float(law.expect(lambda x: loss(e, x), at=e).value),
        [-1.0, 1.0],
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-13},
    )
    assert loss.uncertainty(law).value == pytest.approx(found.fun, rel=1e-10)
    np.testing.assert_allclose(loss.estimate(law), found.x, atol=1e-5)
    others = (law, Gaussian.scalar(0.5, 1.7), Gaussian.scalar(0.4, 1.5))
    for score in (LogScore(), CRPS()):
        told = [float(law.expect(partial(score, other)).value) for other in others]
        assert score.uncertainty(law).value == pytest.approx(told[0], rel=1e-10)
        assert min(told[1:]) > told[0]
        assert score.estimate(law) is law


def brute_force(loss, law):
    """Least expected loss over a fine grid, the values themselves, and a search around the best."""

    def risk(e):
        return float(np.sum(law.probabilities * loss(e, law.values)))

    low, high = law.values.min() - 1.0, law.values.max() + 1.0
    grid = np.concatenate([np.linspace(low, high, 801), law.values, *(law.values + d for d in (-0.5, 0.5))])
    best = min(grid, key=risk)
    step = (high - low) / 800
    tried = optimize.minimize_scalar(
        risk, bounds=(best - step, best + step), method="bounded", options={"xatol": 1e-13}
    )
    return min(risk(best), float(tried.fun))


FINITE_LOSSES = [loss for loss in POINT_LOSSES if loss != Quadratic(weights=2.5)]


@st.composite
def finite_laws(draw, states=None, count=1):
    states = draw(st.integers(1, 5)) if states is None else states
    values = (
        np.array(draw(st.lists(st.integers(-12, 12), min_size=states, max_size=states, unique=True)), dtype=float) / 4
    )
    rows = []
    for _ in range(count):
        raw = np.array(draw(st.lists(st.integers(0, 9), min_size=states, max_size=states)), dtype=float)
        raw[draw(st.integers(0, states - 1))] += 1
        rows.append(raw / raw.sum())
    return [Finite(values, p) for p in rows] if count > 1 else Finite(values, rows[0])


@settings(deadline=None, max_examples=25)
@given(finite_laws(), st.sampled_from(FINITE_LOSSES))
def test_finite_uncertainty_against_brute_force(law, loss):
    told = brute_force(loss, law)
    value = float(loss.uncertainty(law).value)
    assert value == pytest.approx(told, rel=1e-7, abs=1e-9)
    assert value <= told * (1 + 1e-12) + 1e-14
    e = float(loss.estimate(law))
    assert np.sum(law.probabilities * loss(e, law.values)) == pytest.approx(value, rel=1e-11, abs=1e-13)


@settings(deadline=None, max_examples=25)
@given(finite_laws(), st.sampled_from(FINITE_LOSSES))
def test_restricted_estimates_against_brute_force(law, loss):
    table = [float(np.sum(law.probabilities * loss(a, law.values))) for a in law.values]
    assert loss.uncertainty(law, "target").value == pytest.approx(min(table), rel=1e-11, abs=1e-13)
    assert loss.uncertainty(law, "target").value >= loss.uncertainty(law).value - 1e-12
    lowest = min(a for a, t in zip(law.values, table, strict=True) if t <= min(table) * (1 + 1e-12) + 1e-13)
    assert loss.estimate(law, "target") == pytest.approx(lowest)


def test_ties_go_to_the_lowest():
    even = Finite([10.0, 0.0], [0.5, 0.5])
    assert Absolute().estimate(even) == 0.0 and ZeroOne().estimate(even) == 0.0 and Power(0.5).estimate(even) == 0.0
    assert Huber(1.0).estimate(even) == pytest.approx(1.0, abs=1e-6)
    assert Quadratic().estimate(even, "target") == 0.0
    np.testing.assert_array_equal(ZeroOne().estimate(Finite([[1.0, 0.0], [0.0, 5.0]], [0.5, 0.5])), [0.0, 5.0])


@pytest.mark.slow
def test_many_values_are_searched_by_zooming_in():
    rng = np.random.default_rng(3)
    values = rng.normal(size=5000)
    law = Finite(values, rng.dirichlet(np.ones(5000)))
    told = min(law.power(np.sort(values), 0.5).value)
    assert Power(0.5).uncertainty(law).value == pytest.approx(told, rel=1e-5)
    assert Power(0.5).uncertainty(law).value <= told * (1 + 1e-5)


def test_batches_of_finite_laws_are_their_members():
    rng = np.random.default_rng(0)
    law = Finite(rng.normal(size=6), rng.dirichlet(np.ones(6), size=(2, 3)))
    for loss in [*ALL, CustomLoss(lambda e, t: np.abs(e - t) ** 1.5)]:
        for actions in (None, "target", [-1.0, 0.0, 0.5]):
            whole = loss.uncertainty(law, actions)
            assert whole.value.shape == whole.error.shape == (2, 3)
            for index in itertools.product(range(2), range(3)):
                np.testing.assert_allclose(
                    whole.value[index], loss.uncertainty(law.select(index), actions).value, rtol=1e-9, atol=1e-12
                )


# -- mixtures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", POINT_LOSSES, ids=repr)
def test_mixture_uncertainty_against_a_dense_grid(loss):
    law = Mixture(Gaussian.scalar([-1.0, 0.5, 4.0], [0.05, 1.0, 0.3]), [0.2, 0.5, 0.3])
    grid = np.linspace(-6, 9, 30_001)
    values = loss.table(law, grid)
    value = float(loss.uncertainty(law).value)
    assert value == pytest.approx(values.min(), rel=1e-5)
    assert value <= values.min() * (1 + 1e-12)
    e = float(loss.estimate(law))
    tolerance, delta = float(getattr(loss, "tolerance", 0.0)), float(getattr(loss, "delta", 0.0))
    kinks = [e, e - tolerance, e + tolerance, e - delta, e + delta]
    assert law.expect(lambda x: loss(e, x), at=kinks).value == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize("loss", ON_THE_LINE, ids=repr)
def test_mixture_of_one_component_is_a_normal(loss):
    one = Mixture(Gaussian.scalar([1.3], [2.0]), [1.0])
    assert loss.uncertainty(one).value == pytest.approx(float(loss.uncertainty(NORMAL).value), rel=1e-12)
    two = Mixture(Gaussian.scalar([1.3, 1.3], [2.0, 2.0]), [0.25, 0.75])
    assert loss.uncertainty(two).value == pytest.approx(float(loss.uncertainty(NORMAL).value), rel=1e-11)
    if not isinstance(loss, (LogScore, CRPS)):
        np.testing.assert_allclose(loss.estimate(two), loss.estimate(NORMAL), rtol=1e-11)


def test_losses_rank_mixtures_differently():
    # FORMULAS section 1: for normals every loss agrees on the order, for mixtures it does not.
    split = Mixture(Gaussian.scalar([-2.0, 2.0], [0.01, 0.01]), [0.5, 0.5])
    wide = Mixture(Gaussian.scalar([0.0, 0.0], [3.0, 3.0]), [1.0, 0.0])
    assert Quadratic().uncertainty(split).value > Quadratic().uncertainty(wide).value
    assert LogScore().uncertainty(split).value < LogScore().uncertainty(wide).value


def test_far_mixtures_keep_their_digits():
    near = Mixture(Gaussian.scalar([0.0, 1.0], [0.01, 0.04]), [0.3, 0.7])
    far = Mixture(Gaussian.scalar([2.0**30, 2.0**30 + 1.0], [0.01, 0.04]), [0.3, 0.7])
    for loss in POINT_LOSSES:
        assert loss.uncertainty(far).value == pytest.approx(float(loss.uncertainty(near).value), rel=1e-9), loss


# -- draws ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ON_THE_LINE, ids=repr)
def test_draws_agree_with_the_normal_within_their_error(loss):
    rng = np.random.default_rng(2)
    scores = []
    for _ in range(4):
        seen = loss.uncertainty(Drawn(rng.normal(1.3, np.sqrt(2.0), size=4000)))
        assert seen.value.shape == seen.error.shape == ()
        exact = float(loss.uncertainty(NORMAL).value)
        scores.append((seen.value - exact) / seen.error if seen.error else seen.value - exact)
    assert np.all(np.abs(scores) < 4)


@pytest.mark.slow
@pytest.mark.campaign(2)
@pytest.mark.parametrize("vector", [False, True])
def test_errors_of_uncertainties_are_calibrated(vector):
    cov = np.array([[2.0, 1.2], [1.2, 1.5]])
    law = Gaussian([0.0, 1.0], cov) if vector else Gaussian.scalar(0.0, 1.0)
    losses = [
        Quadratic([1.0, 2.0] if vector else 1.0),
        Absolute(),
        Power(1.5),
        Huber(0.7),
        Pinball(0.8),
        Linex(0.4),
        IntervalScore(0.8),
        ZeroOne(1.0),
    ]
    exact = [float(loss.uncertainty(law).value) for loss in losses]
    rng = np.random.default_rng(13)
    scores = []
    for _ in range(200):
        seen = [loss.uncertainty(draws) for draws in [Drawn(law.sample(500, rng))] for loss in losses]
        scores.append([float((u.value - e) / u.error) for u, e in zip(seen, exact, strict=True)])
    spread = np.std(scores, axis=0)
    # The best window is chosen on the same draws, so its U is a little low: only its scatter is held.
    assert np.all((spread > 0.8) & (spread < 1.25))
    assert np.all(np.abs(np.mean(scores, axis=0)[:-1]) < 0.4)


# -- what every uncertainty obeys ----------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(finite_laws(), st.sampled_from(ALL))
def test_uncertainty_is_never_negative_and_zero_for_the_informed(law, loss):
    assert loss.uncertainty(law).value >= -1e-15
    known = Finite(law.values, np.eye(len(law.values)))
    np.testing.assert_allclose(loss.uncertainty(known).value, 0, atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(finite_laws(count=2, states=4), st.sampled_from(ALL), st.integers(0, 10))
def test_averaging_posteriors_never_lowers_uncertainty(laws, loss, tenth):
    # U is concave in the posterior (DeGroot 1962): on average, knowing more never hurts.
    first, second = laws
    t = tenth / 10
    mixed = Finite(first.values, t * first.probabilities + (1 - t) * second.probabilities)
    average = t * loss.uncertainty(first).value + (1 - t) * loss.uncertainty(second).value
    assert loss.uncertainty(mixed).value >= average - 1e-11 * (1 + average)


@settings(deadline=None, max_examples=30)
@given(
    finite_laws(),
    st.sampled_from(
        [
            (Quadratic(), 2.0),
            (Absolute(), 1.0),
            (Power(0.5), 0.5),
            (Power(3.0), 3.0),
            (Pinball(0.3), 1.0),
            (CRPS(), 1.0),
            (IntervalScore(0.6), 1.0),
            (ZeroOne(), 0.0),
            (LogScore(), 0.0),
        ]
    ),
    st.sampled_from([0.125, 2.0, 1024.0]),
)
def test_scaling_the_target_scales_the_uncertainty(law, pair, factor):
    loss, power = pair
    scaled = Finite(law.values * factor, law.probabilities)
    assert loss.uncertainty(scaled).value == pytest.approx(
        factor**power * float(loss.uncertainty(law).value), rel=1e-9, abs=1e-12
    )


@settings(deadline=None, max_examples=30)
@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.sampled_from(NONNEGATIVE))
def test_location_does_not_matter_and_variance_raises_uncertainty(m, v, loss):
    here, there = loss.uncertainty(Gaussian.scalar(m, v)).value, loss.uncertainty(Gaussian.scalar(-m, v)).value
    assert here == there >= 0
    assert loss.uncertainty(Gaussian.scalar(0.0, 1.1 * v)).value >= here
    assert loss.location_free


@pytest.mark.parametrize("loss", [*NONNEGATIVE, LogScore(), CustomLoss(lambda e, t: (e - t) ** 2)], ids=repr)
def test_point_mass_and_flat_law(loss):
    value = loss.uncertainty(Gaussian.scalar([2.0, 2.0, 2.0], [0.0, 1.0, np.inf]))
    assert value.value[0] == (-np.inf if loss == LogScore() else 0)
    assert value.value[2] == (1 if isinstance(loss, ZeroOne) else np.inf)
    assert np.isfinite(value.value[1]) and np.all(value.error == 0)


def test_mixed_shapes_of_means_and_variances():
    shared = Gaussian(np.zeros((3, 2)), np.eye(2))
    for loss in (Quadratic(), Absolute(), LogScore(), ZeroOne(1.0), CRPS(), Linex(1.0), Huber(1.0), IntervalScore()):
        assert loss.uncertainty(shared).value.shape == (3,)
        assert loss.uncertainty(Gaussian.scalar(np.zeros((2, 3)), 1.0)).value.shape == (2, 3)


# -- restricted actions --------------------------------------------------------------------------------


def test_point_masses_for_the_scores():
    assert LogScore().uncertainty(FOUR, "target").value == np.inf
    assert KullbackLeibler().uncertainty(FOUR, "target").value == np.inf
    assert LogScore().estimate(FOUR, "target") == 1.0
    known = Finite([0.0, 1.0], [0.0, 1.0])
    assert LogScore().uncertainty(known, "target").value == 0
    assert LogScore().uncertainty(NORMAL, [1.0, 1.3]).value == np.inf
    assert CRPS().uncertainty(FOUR, "target").value == pytest.approx(1.3, rel=1e-13)
    assert CRPS().uncertainty(NORMAL, [1.3]).value == pytest.approx(np.sqrt(4 / np.pi), rel=1e-13)


def test_intervals_with_restricted_ends():
    loss = IntervalScore(0.6)
    for law in (FOUR, Finite([0.0, 1.0, 2.0, 5.0], [0.01, 0.97, 0.01, 0.01])):
        for ends in ([0.0, 1.0, 2.0, 5.0], [-3.0, 7.0], [1.9], [0.5, 1.5, 3.0]):
            told = min(
                float(np.sum(law.probabilities * loss(np.array([a, b]), law.values)))
                for a in ends
                for b in ends
                if a <= b
            )
            assert loss.uncertainty(law, ends).value == pytest.approx(told, rel=1e-12)
            low, high = loss.estimate(law, ends)
            assert low <= high and {low, high} <= set(ends)


def test_listed_estimates_of_normals_and_vectors():
    law = Gaussian.scalar([0.0, 2.0], [1.0, 1.0])
    np.testing.assert_array_equal(Quadratic().estimate(law, [1.5, -0.5]), [-0.5, 1.5])
    np.testing.assert_allclose(Quadratic().uncertainty(law, [1.5, -0.5]).value, [1.25, 1.25], rtol=1e-14)
    vector = Gaussian([[0.0, 0.0], [3.0, 3.0]], np.eye(2))
    allowed = np.array([[0.0, 1.0], [3.0, 2.0]])
    np.testing.assert_array_equal(Absolute().estimate(vector, allowed), allowed)
    assert Absolute().uncertainty(vector, allowed).value.shape == (2,)
    np.testing.assert_array_equal(ZeroOne(1.5).estimate(vector, allowed), allowed)
    draws = Drawn(np.random.default_rng(0).normal(size=(500, 2)))
    value = Absolute().uncertainty(draws, allowed)
    assert abs(value.value - Absolute().uncertainty(vector.select(0), allowed).value) < 4 * value.error


@pytest.mark.parametrize("loss", ON_THE_LINE, ids=repr)
def test_bad_actions_are_refused(loss):
    with pytest.raises(UnsupportedError, match="continuum"):
        loss.uncertainty(NORMAL, "target")
    with pytest.raises(InputError, match="actions must be None"):
        loss.estimate(NORMAL, "free")
    with pytest.raises(InputError, match="actions must have shape"):
        loss.estimate(NORMAL, [[1.0, 2.0]])
    with pytest.raises(InputError, match="finite"):
        loss.estimate(NORMAL, [np.nan])
    with pytest.raises(InputError, match="actions must have shape"):
        loss.estimate(NORMAL, [])


# -- distributions as targets --------------------------------------------------------------------------


def test_kullback_leibler_over_distributions():
    rng = np.random.default_rng(5)
    values, p = rng.dirichlet(np.ones(3), size=6), rng.dirichlet(np.ones(6))
    law, mean = Finite(values, p), p @ values
    cross, divergence = KullbackLeibler(), KullbackLeibler(entropy=False)
    # T-F eq. (10): the cross-entropy is least at E theta, U = H(E theta).
    assert cross.uncertainty(law).value == pytest.approx(special.entr(mean).sum(), rel=1e-13)
    inner = np.sum(p * special.entr(values).sum(axis=1))
    assert divergence.uncertainty(law).value == pytest.approx(special.entr(mean).sum() - inner, rel=1e-12)
    np.testing.assert_allclose(cross.estimate(law), mean, rtol=1e-14)

    def risk(logits):
        e = special.softmax(logits)
        return float(np.sum(p * cross(e, values)))

    found = optimize.minimize(risk, np.zeros(3), options={"gtol": 1e-10})
    assert cross.uncertainty(law).value == pytest.approx(found.fun, rel=1e-8)
    table = [float(np.sum(p * cross(a, values))) for a in values]
    assert cross.uncertainty(law, "target").value == pytest.approx(min(table), rel=1e-12)
    draws = Drawn(values[rng.choice(6, p=p, size=4000)])
    for loss in (cross, divergence):
        seen = loss.uncertainty(draws)
        assert seen.error > 0 and abs(seen.value - loss.uncertainty(law).value) < 4 * seen.error


def test_kullback_leibler_needs_distributions():
    with pytest.raises(UnsupportedError, match="LogScore"):
        KullbackLeibler().uncertainty(NORMAL)
    with pytest.raises(UnsupportedError, match="LogScore"):
        KullbackLeibler().uncertainty(Gaussian([0.5, 0.5], 0.01 * np.eye(2)))
    with pytest.raises(UnsupportedError, match="LogScore"):
        KullbackLeibler().uncertainty(Drawn([0.0, 1.0, 2.0]))
    with pytest.raises(UnsupportedError, match="distribution"):
        KullbackLeibler()([0.5, 0.5], [0.7, 0.7])
    certain = Finite([[1.0, 0.0], [0.0, 1.0]], [0.3, 0.7])
    assert KullbackLeibler().uncertainty(certain).value == pytest.approx(
        float(LogScore().uncertainty(certain).value), rel=1e-14
    )


# -- losses of one's own -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.campaign(3)
@pytest.mark.parametrize(
    ("function", "twin"),
    [
        (lambda e, t: (e - t) ** 2, Quadratic()),
        (lambda e, t: np.abs(e - t), Absolute()),
        (lambda e, t: np.abs(e - t) ** 0.5, Power(0.5)),
        (lambda e, t: np.where(t > e, 0.9 * (t - e), 0.1 * (e - t)), Pinball(0.9)),
        (lambda e, t: np.expm1(0.7 * (e - t)) - 0.7 * (e - t), Linex(0.7)),
        (lambda e, t: np.abs(e - t) ** 3, Power(3.0)),
    ],
)
def test_custom_losses_find_what_formulas_say(function, twin):
    loss = CustomLoss(function)
    mixture = Mixture(Gaussian.scalar([-1.0, 0.5, 4.0], [0.5, 1.0, 2.0]), [0.2, 0.5, 0.3])
    batch = Gaussian.scalar([1.3, 0.0, -5.0], [2.0, 0.01, 40.0])
    for law in (batch, FOUR, mixture):
        np.testing.assert_allclose(loss.uncertainty(law).value, twin.uncertainty(law).value, rtol=1e-9)
        np.testing.assert_allclose(loss.estimate(law), twin.estimate(law), atol=2e-4)
    draws = Drawn(np.random.default_rng(1).normal(size=1000))
    np.testing.assert_allclose(loss.uncertainty(draws).value, twin.uncertainty(draws).value, rtol=1e-4)
    np.testing.assert_allclose(loss.uncertainty(draws).error, twin.uncertainty(draws).error, rtol=0.03)


def test_custom_losses_need_not_be_convex_nor_take_arrays():
    law = Mixture(Gaussian.scalar([-6.0, 6.0], [0.01, 4.0]), [0.45, 0.55])
    hit = CustomLoss(lambda e, t: 1 - np.exp(-((e - t) ** 2)))
    grid = np.linspace(-10, 10, 2001)
    told = min(float(law.expect(lambda x, e=e: hit(e, x)).value) for e in grid[380:420])
    assert hit.estimate(law) == pytest.approx(-6.0, abs=0.01)
    assert hit.uncertainty(law).value == pytest.approx(told, rel=1e-6)

    def clumsy(e, t):
        return 3.0 * (t - e) if t > e else e - t

    assert CustomLoss(clumsy).uncertainty(FOUR).value == pytest.approx(
        4 * float(Pinball(0.75).uncertainty(FOUR).value), rel=1e-9
    )
    labels = CustomLoss(lambda e, t: float(e != t))
    assert labels.uncertainty(FOUR).value == pytest.approx(0.65) and labels.estimate(FOUR) == 1.0


@pytest.mark.slow
def test_custom_losses_of_vectors():
    cov = np.array([[2.0, 0.7], [0.7, 1.5]])
    gaussian, finite = Gaussian([1.0, -2.0], cov), Finite([[0.0, 0.0], [1.0, 2.0], [4.0, 1.0]], [0.2, 0.5, 0.3])
    whole = CustomLoss(lambda e, t: np.sum((e - t) ** 2, axis=-1))
    clumsy = CustomLoss(lambda e, t: abs(e[0] - t[0]) + 2 * abs(e[1] - t[1]))
    seen = whole.uncertainty(gaussian)
    assert abs(seen.value - 3.5) < 4 * seen.error < 0.05
    np.testing.assert_allclose(whole.estimate(gaussian), [1.0, -2.0], atol=0.01)
    assert whole.uncertainty(finite).value == pytest.approx(float(Quadratic().uncertainty(finite).value), rel=1e-9)
    assert clumsy.uncertainty(finite).value == pytest.approx(
        float(Absolute([1.0, 2.0]).uncertainty(finite).value), rel=1e-9
    )


def test_custom_losses_that_look_at_the_place():
    relative = CustomLoss(lambda e, t: (e - t) ** 2 / (1 + t**2), name="relative error")
    near, far = relative.uncertainty(Gaussian.scalar([0.0, 10.0], 1.0)).value
    assert near > 5 * far
    assert not relative.location_free and CustomLoss(lambda e, t: (e - t) ** 2, location_free=True).location_free


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda e, t: e - t, "must not be negative"),
        (lambda e, t: np.full(np.broadcast(e, t).shape, np.nan), "must be finite"),
        (lambda e, t: np.full(np.broadcast(e, t).shape, np.inf), "must be finite"),
        (lambda e, t: np.zeros(3), "one number"),
        (lambda e, t: 1 / 0, "ZeroDivisionError"),
        (lambda e: 0.0, "TypeError"),
        (lambda e, t: "dear", "ValueError"),
    ],
)
def test_custom_losses_are_checked(function, match):
    with pytest.raises(InputError, match=match):
        CustomLoss(function).uncertainty(NORMAL)


def test_a_loss_without_a_best_estimate_is_refused():
    with pytest.raises(UnsupportedError, match="no best estimate"):
        CustomLoss(lambda e, t: 1 / (1 + e**2) + 0 * t).uncertainty(NORMAL)


# -- calling, naming, refusing -------------------------------------------------------------------------


def test_calling_a_loss():
    assert Quadratic()(1.0, 4.0) == 9 and Quadratic(2.0)(1.0, 4.0) == 18
    np.testing.assert_array_equal(Quadratic()([1.0, 2.0], 0.0), [1, 4])
    assert Quadratic()([1.0, 2.0], [0.0, 0.0], vector=True) == 5
    assert Quadratic([[1.0, 0.0], [0.0, 3.0]])([1.0, 2.0], [0.0, 0.0]) == 13
    assert Absolute([1.0, 3.0])([1.0, 2.0], [0.0, 0.0]) == 7
    assert Power(3.0)(1.0, 3.0) == 8 and Huber(1.0)(0.0, 3.0) == 2.5 and Huber(1.0)(0.0, 0.5) == 0.125
    assert Pinball(0.9)(0.0, 1.0) == pytest.approx(0.9) and Pinball(0.9)(1.0, 0.0) == pytest.approx(0.1)
    assert Linex(1.0)(1.0, 0.0) == pytest.approx(np.e - 2)
    assert ZeroOne()(1.0, 1.0) == 0 and ZeroOne(0.5)(1.0, 1.5) == 0 and ZeroOne(0.5)(1.0, 1.6) == 1
    assert ZeroOne([0.5, 1.0])([0.0, 0.0], [0.4, 1.1]) == 1
    assert IntervalScore(0.8)([0.0, 1.0], 2.0) == pytest.approx(11)
    assert CRPS()(1.0, 3.0) == 2 and LogScore()(1.0, 1.0) == 0 and LogScore()(1.0, 2.0) == np.inf
    assert LogScore()(FOUR, 1.0) == pytest.approx(-np.log(0.35)) and LogScore()(lambda t: 0.5, 1.0) == pytest.approx(
        np.log(2)
    )
    assert CRPS()(NORMAL, 1.3) == pytest.approx(np.sqrt(2) * (2 / np.sqrt(2 * np.pi) - 1 / np.sqrt(np.pi)), rel=1e-12)
    assert KullbackLeibler()([0.5, 0.5], [1.0, 0.0]) == pytest.approx(np.log(2))


@pytest.mark.parametrize(
    ("loss", "shown", "phrase"),
    [
        (Quadratic(), "Quadratic()", "the squared error"),
        (
            Quadratic([[1, 0], [0, 3]]),
            "Quadratic(weights=[[1, 0], [0, 3]])",
            "the squared error weighted by [[1, 0], [0, 3]]",
        ),
        (Quadratic(weights=2.5), "Quadratic(weights=2.5)", "the squared error weighted by 2.5"),
        (
            Quadratic(np.eye(5)),
            f"Quadratic(weights={np.eye(5, dtype=int).tolist()})",
            "the squared error weighted by a 5 by 5 matrix",
        ),
        (Absolute(), "Absolute()", "the absolute error"),
        (Power(1.5), "Power(p=1.5)", "the error to the power 1.5"),
        (Huber(2.0), "Huber(delta=2)", "Huber's loss with delta 2"),
        (Pinball(0.9), "Pinball(q=0.9)", "the pinball loss at 0.9"),
        (Linex(0.7), "Linex(a=0.7)", "the LINEX loss with a 0.7"),
        (ZeroOne(), "ZeroOne()", "the zero-one loss"),
        (ZeroOne([0.5, 1]), "ZeroOne(tolerance=[0.5, 1])", "the zero-one loss with tolerance [0.5, 1]"),
        (LogScore(), "LogScore()", "the log score"),
        (KullbackLeibler(), "KullbackLeibler()", "the Kullback-Leibler loss"),
        (KullbackLeibler(entropy=False), "KullbackLeibler(entropy=False)", "the Kullback-Leibler divergence"),
        (CRPS(), "CRPS()", "the continuous ranked probability score"),
        (IntervalScore(0.5), "IntervalScore(level=0.5)", "the interval score at level 0.5"),
        (CustomLoss(abs, name="mine"), "CustomLoss(mine)", "the loss mine"),
    ],
)
def test_names(loss, shown, phrase):
    assert repr(loss) == shown and str(loss) == phrase
    assert isinstance(loss, Loss)
    assert copy.deepcopy(loss) == loss and hash(loss) == hash(copy.deepcopy(loss))
    assert pickle.loads(pickle.dumps(loss)) == loss
    with pytest.raises((AttributeError, TypeError)):
        loss.anything = 1


def test_as_loss():
    loss = Quadratic()
    assert as_loss(loss) is loss
    assert isinstance(as_loss(lambda e, t: abs(e - t)), CustomLoss)
    with pytest.raises(InputError, match=r"Write Quadratic\(\.\.\.\)"):
        as_loss(Quadratic)
    with pytest.raises(InputError, match="Use Quadratic"):
        as_loss("quadratic")


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: Quadratic(0.0), "weights"),
        (lambda: Quadratic(-1.0), "weights"),
        (lambda: Quadratic(np.nan), "weights"),
        (lambda: Quadratic([0.0, 0.0]), "all zero"),
        (lambda: Quadratic([1.0, -1.0]), "not negative"),
        (lambda: Quadratic([[1.0, 2.0], [2.0, 1.0]]), "semidefinite"),
        (lambda: Quadratic([[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (lambda: Quadratic(np.zeros((2, 2))), "all zero"),
        (lambda: Quadratic("heavy"), "numbers"),
        (lambda: Absolute([[1.0, 0.0], [0.0, 1.0]]), "a number, a vector"),
        (lambda: Absolute(()), "empty"),
        (lambda: Power(0.0), "p must be"),
        (lambda: Power(np.inf), "p must be"),
        (lambda: Huber(0.0), "delta"),
        (lambda: Pinball(1.0), "q must be"),
        (lambda: Pinball(0.0), "q must be"),
        (lambda: Linex(0.0), "a must not be zero"),
        (lambda: Linex(1.0, b=0.0), "b must be"),
        (lambda: ZeroOne(-0.1), "tolerance"),
        (lambda: ZeroOne([[0.1]]), "tolerance"),
        (lambda: IntervalScore(1.0), "level"),
        (lambda: KullbackLeibler(entropy="yes"), "entropy"),
        (lambda: CustomLoss(3), "function of estimate and truth"),
        (lambda: CustomLoss(abs, name=3), "text"),
        (lambda: CustomLoss(abs, location_free="yes"), "location_free"),
        (lambda: Quadratic([1.0, 2.0]).uncertainty(NORMAL), "weights must fit"),
        (lambda: Quadratic(np.eye(2)).uncertainty(Gaussian(np.zeros(3), np.eye(3))), "weights must fit a target of 3"),
        (lambda: Absolute([1.0, 2.0]).uncertainty(NORMAL), "weights must fit"),
        (lambda: ZeroOne([1.0, 2.0]).uncertainty(NORMAL), "width"),
        (lambda: IntervalScore()(1.0, 2.0), "interval"),
    ],
)
def test_bad_settings_are_refused(build, match):
    with pytest.raises(InputError, match=match):
        build()
