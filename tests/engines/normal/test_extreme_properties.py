"""What holds for every size of the numbers: order, bounds, scale. Sizes run over 24 decades, scales over 300."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import ruvdecision as ruv

few = settings(deadline=None, max_examples=40)
ROOM = 1 + 16 * np.finfo(float).eps
size = st.floats(-12, 12).map(lambda e: 10.0**e)
records = st.sampled_from([1, 2, 3, 10, 10**6])
AVERAGE = ruv.Microaggregate(groups=1)


def users(belief, loss=None):
    loss = loss or ruv.Quadratic()
    return {"intruder": ruv.User(belief, ruv.Record(0), loss), "scientist": ruv.User(belief, ruv.Parameter("mu"), loss)}


def uncertainties(masks, belief, loss=None):
    rumap = ruv.evaluate(masks, **users(belief, loss))
    return rumap.intruder_uncertainty, rumap.scientist_uncertainty


def beliefs(n, variance, doubt):
    if doubt in ("flat", "known"):
        return ruv.NormalBelief(records=n, variance=variance, prior=doubt)
    return ruv.NormalBelief(records=n, variance=variance, prior_variance=doubt)


def masks_of(v, w):
    noise = ruv.Noise(variance=v)
    return [
        noise,
        noise | AVERAGE,
        AVERAGE | noise,
        ruv.Noise(variance=v, common=True),
        noise | ruv.Noise(variance=w, common=True),
    ]


def columns(turn, k):
    """A covariance of k variables from numbers: a random direction for each, sizes over many decades."""
    rng = np.random.default_rng(turn)
    q, _ = np.linalg.qr(rng.standard_normal((k, k)))
    values = 10.0 ** rng.uniform(-12, 0, k)
    matrix = (q * values) @ q.T
    return (matrix + matrix.T) / 2 + 1e-12 * np.eye(k)


@pytest.mark.slow
@few
@given(n=records, variance=size, doubt=st.one_of(size, st.sampled_from(["flat", "known"])), v=size, w=size)
def test_a_release_lies_between_everything_and_nothing(n, variance, doubt, v, w):
    """Utility never beats the file itself and never falls below nothing, beyond a few units in the last place."""
    belief = beliefs(n, variance, doubt)
    masks = masks_of(v, w)
    for loss in (ruv.Quadratic(), ruv.Absolute(), ruv.Huber(float(np.sqrt(variance)))):
        for u in uncertainties([ruv.Release(), ruv.Suppress(), *masks], belief, loss):
            assert np.all(u >= 0) and not np.any(np.isnan(u))
            assert np.all(u[0] <= u[2:] * ROOM) and np.all(u[2:] <= u[1] * ROOM)


@few
@given(n=records, variance=size, doubt=st.one_of(size, st.just("flat")), v=size)
def test_uncertainty_never_falls_as_noise_grows(n, variance, doubt, v):
    grid = v * np.geomspace(1e-3, 1e3, 13)
    for chain in (
        lambda x: ruv.Noise(variance=x),
        lambda x: ruv.Noise(variance=x) | AVERAGE,
        lambda x: ruv.Noise(variance=x, common=True),
    ):
        for u in uncertainties([chain(float(x)) for x in grid], beliefs(n, variance, doubt)):
            assert all(b >= a / ROOM for a, b in itertools.pairwise(u))


@pytest.mark.slow
@few
@given(n=st.sampled_from([1, 2, 10]), turn=st.integers(0, 10**6), k=st.integers(2, 4), level=size, flat=st.booleans())
def test_several_variables(n, turn, k, level, flat):
    """Variances are never negative, covariances never more than they allow, and U stays between file and nothing."""
    spread, doubt, noise = (columns(3 * turn + i, k) for i in range(3))
    prior = {"prior": "flat"} if flat else {"prior_covariance": doubt}
    belief = ruv.NormalBelief(records=n, covariance=spread, **prior)
    draws = ruv.Noise(covariance=level * noise)
    masks = [draws, draws | AVERAGE, ruv.Noise(covariance=level * noise, common=True)]
    found = uncertainties([ruv.Release(), ruv.Suppress(), *masks], belief)
    for u in found:
        assert np.all(u >= 0) and np.all(u[0] <= u[2:] * ROOM) and np.all(u[2:] <= u[1] * ROOM)
    for mask in masks:
        for target in (ruv.Record(0), ruv.Parameter("mu"), ruv.Average(), ruv.NewRecord()):
            cov = ruv.Exact().posterior(ruv.User(belief, target, ruv.Quadratic()), mask).cov()
            sd = np.sqrt(np.diag(cov))
            assert np.linalg.eigvalsh(cov / np.outer(sd, sd))[0] >= -1e-12


@few
@given(
    n=st.sampled_from([1, 2, 10]), variance=size, doubt=st.one_of(size, st.just("flat")), v=size, w=size, power=st.integers(-400, 400)
)  # fmt: skip
def test_units_of_powers_of_two_scale_exactly(n, variance, doubt, v, w, power):
    """x in other units.

    Every U of the squared error scales by the square to the last bit, and risk by its reciprocal.
    """
    c2 = 4.0**power
    scaled = "flat" if doubt == "flat" else doubt * c2
    one = uncertainties(masks_of(v, w), beliefs(n, variance, doubt))
    other = uncertainties(masks_of(v * c2, w * c2), beliefs(n, variance * c2, scaled))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a * c2, b)


@few
@given(turn=st.integers(0, 10**6), powers=st.lists(st.integers(-60, 60), min_size=3, max_size=3))
def test_units_of_each_column_scale_exactly(turn, powers):
    spread, doubt, noise = (columns(3 * turn + i, 3) for i in range(3))
    unit = 2.0 ** np.array(powers)
    both = np.outer(unit, unit)
    for common in (False, True):
        covs = []
        for turned in (np.ones((3, 3)), both):
            belief = ruv.NormalBelief(records=4, covariance=spread * turned, prior_covariance=doubt * turned)
            user = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
            covs.append(ruv.Exact().posterior(user, ruv.Noise(covariance=noise * turned, common=common)).cov())
        np.testing.assert_array_equal(covs[0] * both, covs[1])


@pytest.mark.parametrize("scale", [1e-150, 1e-100, 1e100, 1e150])
@pytest.mark.parametrize(
    "loss", [ruv.Quadratic(), ruv.Absolute(), ruv.CRPS(), ruv.Pinball(0.9), ruv.IntervalScore(0.9), ruv.LogScore()]
)
def test_numbers_stay_finite_at_the_ends_of_the_range(scale, loss):
    belief = ruv.NormalBelief(records=10, variance=scale**2, prior_mean=scale, prior_variance=3 * scale**2)
    masks = masks_of(0.5 * scale**2, 2 * scale**2) + [ruv.Suppress(), AVERAGE]
    for user in users(belief, loss).values():
        u = ruv.Exact().solve(user, masks).uncertainty
        assert np.all(np.isfinite(u))
