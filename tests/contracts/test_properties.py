"""Invariants that hold whatever the numbers are."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import ruvdecision as ruv

quick = settings(deadline=None, max_examples=40)
positive = st.floats(1e-3, 1e3)
average = ruv.Microaggregate(groups=1)


def users(n, s2, f2, row=0, loss=None):
    belief = ruv.NormalBelief(records=n, variance=s2, prior_mean=0, prior_variance=f2)
    loss = loss or ruv.Quadratic()
    return {
        "intruder": ruv.User(belief, ruv.Record(row), loss),
        "scientist": ruv.User(belief, ruv.Parameter("mu"), loss),
    }


def uncertainties(masks, who):
    rumap = ruv.evaluate(masks, **who)
    return np.stack([rumap.intruder_uncertainty, rumap.scientist_uncertainty])


LINEAR = [
    ruv.Release(),
    ruv.Noise(variance=0.5),
    ruv.Noise(variance=1.5, common=True),
    ruv.Microaggregate(groups=1),
    ruv.Microaggregate(groups=2),
    ruv.Suppress(rows=[1]),
    ruv.Suppress(),
]


@quick
@given(n=st.integers(2, 12), s2=positive, f2=positive, first=st.sampled_from(LINEAR), then=st.sampled_from(LINEAR))
def test_more_information_never_raises_uncertainty(n, s2, f2, first, then):
    """What a chain releases is computed from what its beginning releases."""
    u = [uncertainties([m], users(n, s2, f2))[:, 0] for m in (ruv.Release(), first, first | then, ruv.Suppress())]
    for more, less in itertools.pairwise(u):
        assert np.all(more <= less * (1 + 1e-9) + 1e-12)


@quick
@given(n=st.integers(1, 12), s2=positive, f2=positive, scale=positive, group=st.integers(1, 12))
def test_risk_and_utility_fall_as_noise_grows(n, s2, f2, scale, group):
    grid = scale * np.geomspace(1e-3, 1e3, 12)
    rumap = ruv.evaluate(
        [ruv.Noise(variance=v) | ruv.Microaggregate(groups=min(group, n)) for v in grid], **users(n, s2, f2)
    )
    assert np.all(np.diff(rumap.risk) <= 1e-9 * rumap.risk[:-1])
    assert np.all(np.diff(rumap.utility) <= 1e-9 * rumap.utility[:-1])


@quick
@given(n=st.integers(2, 9), s2=positive, f2=positive, pick=st.tuples(*[st.sampled_from(LINEAR)] * 3))
def test_chains_associate(n, s2, f2, pick):
    a, b, c = pick
    left, right = (a | b) | c, a | (b | c)
    assert left == right and str(left) == str(right)
    u = [uncertainties([m], users(n, s2, f2)) for m in (left, right)]
    np.testing.assert_array_equal(u[0], u[1])


@quick
@given(n=st.integers(1, 12), s2=positive, f2=positive)
def test_what_is_no_mask(n, s2, f2):
    who = users(n, s2, f2)
    none = uncertainties([ruv.Release()], who)
    for mask in (
        ruv.Noise(variance=0.0),
        ruv.Microaggregate(groups=n),
        ruv.Noise(sd=0.0) | ruv.Microaggregate(size=1, by="rows"),
        ruv.Subsample(size=n),
    ):
        np.testing.assert_allclose(uncertainties([mask], who), none, rtol=1e-12, atol=1e-14)
    assert none[0, 0] == 0.0  # the record itself was released
    np.testing.assert_allclose(
        uncertainties([ruv.Noise(variance=np.inf)], who), uncertainties([ruv.Suppress()], who), rtol=1e-12
    )


@quick
@given(n=st.integers(1, 12), s2=positive, f2=positive, r2=positive, scale=st.floats(1e-3, 1e3))
def test_scaling_the_data_scales_quadratic_uncertainty_by_the_square(n, s2, f2, r2, scale):
    mask, scaled = (ruv.Noise(variance=v) | average for v in (r2, r2 * scale**2))
    u = uncertainties([mask], users(n, s2, f2))
    v = uncertainties([scaled], users(n, s2 * scale**2, f2 * scale**2))
    np.testing.assert_allclose(v, u * scale**2, rtol=1e-9)


@quick
@given(
    n=st.integers(2, 12),
    s2=positive,
    f2=positive,
    grid=st.lists(positive, min_size=3, max_size=6, unique=True),
    loss=st.sampled_from(
        [
            ruv.Absolute(),
            ruv.Power(1.5),
            ruv.LogScore(),
            ruv.Pinball(0.8),
            ruv.Linex(0.1),
            ruv.Huber(1.0),
            ruv.CRPS(),
            ruv.IntervalScore(0.8),
            ruv.ZeroOne(tolerance=1.0),
        ]
    ),
)
def test_one_dimensional_gaussian_losses_rank_masks_alike(n, s2, f2, grid, loss):
    """Each is an increasing function of the variance alone (FORMULAS section 1)."""
    masks = [ruv.Noise(variance=v) for v in sorted(grid)]
    quadratic = uncertainties(masks, users(n, s2, f2))
    other = uncertainties(masks, users(n, s2, f2, loss=loss))
    for a, b in zip(quadratic, other, strict=True):
        assert np.all(np.diff(b)[np.diff(a) > 1e-9 * a[:-1]] >= -1e-12 * np.abs(b[:-1])[np.diff(a) > 1e-9 * a[:-1]])


@pytest.mark.slow
@quick
@given(n=st.integers(1, 9), s2=positive, f2=positive, r2=st.lists(positive, min_size=2, max_size=4, unique=True))
def test_a_map_of_many_masks_is_the_maps_of_each(n, s2, f2, r2):
    who = users(n, s2, f2)
    masks = [ruv.Suppress(), average, *(ruv.Noise(variance=v) for v in r2), *(ruv.Noise(sd=v) | average for v in r2)]
    together = uncertainties(masks, who)
    apart = np.concatenate([uncertainties([m], who) for m in masks], axis=1)
    np.testing.assert_allclose(together, apart, rtol=1e-13)


# -- releases of real data ---------------------------------------------------------------------------------


SHAPE_KEEPING = [
    ruv.Release(),
    ruv.Noise(variance=2.0),
    ruv.Noise(sd=[1.0, 2.0]),
    ruv.Noise(covariance=[[1.0, 0.5], [0.5, 2.0]]),
    ruv.Noise(share=0.2),
    ruv.Noise(variance=1.0, common=True),
    ruv.Microaggregate(groups=2),
    ruv.Microaggregate(size=2, by="zscore"),
    ruv.Microaggregate(size=2, by="each"),
    ruv.Microaggregate(size=2, by="pc1"),
    ruv.Suppress(),
    ruv.Suppress(columns=["b"]),
    ruv.Suppress(rows=[0]),
    ruv.Shuffle(),
    ruv.Noise(variance=1.0) | ruv.Microaggregate(groups=2) | ruv.Shuffle(),
]


@pytest.mark.parametrize("mask", SHAPE_KEEPING, ids=str)
def test_masks_keep_index_columns_and_input(mask):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.standard_normal((7, 2)), columns=["a", "b"], index=list("qwertyu"))
    before = frame.copy()
    out = mask.release(frame, 3)
    assert list(out.columns) == ["a", "b"] and list(out.index) == list("qwertyu")
    pd.testing.assert_frame_equal(frame, before)
    pd.testing.assert_frame_equal(out, mask.release(frame, 3))
    if "b" not in str(mask):
        array = mask.release(frame.to_numpy(), 3)
        assert isinstance(array, np.ndarray) and array.shape == (7, 2)
        np.testing.assert_array_equal(array, out.to_numpy())


def test_subsample_keeps_labels_and_columns():
    frame = pd.DataFrame({"a": range(10)}, index=range(100, 110))
    out = ruv.Subsample(size=4).release(frame, 0)
    assert len(out) == 4 and set(out.index) <= set(frame.index) and (out["a"] == frame.loc[out.index, "a"]).all()
    assert len(ruv.Subsample(share=0.25).release(np.arange(10.0), 0)) == 2


def test_noise_has_the_variance_it_names():
    x = np.zeros((200_000, 2))
    for mask, expected in (
        (ruv.Noise(variance=2.0), np.diag([2.0, 2.0])),
        (ruv.Noise(sd=[1.0, 3.0]), np.diag([1.0, 9.0])),
        (ruv.Noise(covariance=[[2.0, 0.7], [0.7, 1.0]]), np.array([[2.0, 0.7], [0.7, 1.0]])),
    ):
        cov = np.cov(mask.release(x, 1), rowvar=False)
        error = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / len(x))
        assert np.all(np.abs(cov - expected) < 4 * error)
    common = ruv.Noise(variance=2.0, common=True).release(np.zeros(5), 1)
    assert len(set(common.tolist())) == 1 and common[0] != 0
    assert np.isnan(ruv.Noise(variance=[np.inf, 1.0]).release(x[:3], 1)[:, 0]).all()


def test_group_means_are_means():
    x = np.array([1.0, 2.0, 6.0, 10.0, 20.0])
    np.testing.assert_allclose(ruv.Microaggregate(groups=2).release(x), [3, 3, 3, 15, 15])
    np.testing.assert_allclose(ruv.Microaggregate(groups=["u", "v", "u", "v", "u"]).release(x), [9, 6, 9, 6, 9])
    shuffled = x[[3, 0, 4, 1, 2]]
    np.testing.assert_allclose(ruv.Microaggregate(size=2, by="zscore").release(shuffled), [12, 1.5, 12, 1.5, 12])
