"""Synthetic data and conditional shuffling: exact where they are exact, and within stated error elsewhere."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from ruvdecision.beliefs.normal import NormalBelief
from ruvdecision.checks import RELEASES, as_generator
from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.masks.applying import draw_categories as pick
from ruvdecision.masks.columns import rank_columns
from ruvdecision.masks.exchange import DataShuffle
from ruvdecision.masks.noise import Noise
from ruvdecision.masks.synthesize import Synthesize, combine_full, combine_partial
from ruvdecision.masks.synthesize.copula import as_correlation, latent_correlation, spearman
from ruvdecision.masks.synthesize.normal import draw_sampled, normal_predictive
from ruvdecision.masks.synthesize.sequential import fit_logistic


def people(n: int, seed: int = 5) -> pd.DataFrame:
    """A file of every kind of column, with structure between them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    return pd.DataFrame(
        {
            "x": x,
            "income": np.rint(np.exp(7 + 0.5 * x + 0.5 * rng.standard_normal(n))).astype(np.int64),
            "works": rng.random(n) < 1 / (1 + np.exp(-2 * x)),
            "region": pd.Categorical(np.where(x > 0.5, "north", np.where(rng.random(n) < 0.5, "east", "west"))),
            "level": pd.Categorical(
                np.clip(np.rint(x + rng.standard_normal(n)), -1, 1).astype(int), categories=[-1, 0, 1], ordered=True
            ),
            "answer": np.where(x + rng.standard_normal(n) > 0, "yes", "no"),
            "when": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(np.rint(30 * x + 5 * rng.standard_normal(n)), unit="D"),
        },
        index=[f"p{i}" for i in range(n)],
    )


def correlations(frame: pd.DataFrame) -> np.ndarray:
    """Rank correlations by scipy, ties at mean ranks."""
    columns = [
        c.cat.codes if isinstance(c.dtype, pd.CategoricalDtype) else c.astype("int64") if c.dtype.kind in "Mb" else c
        for _, c in frame.items()
    ]
    return np.corrcoef(np.stack([stats.rankdata(c) for c in columns]))


ALL_METHODS = [
    Synthesize(method="normal", columns=["x", "income"]),
    Synthesize(method="normal", moments="exact", columns=["x", "income"]),
    Synthesize(method="normal", proper=True, columns=["x"], given=["income"]),
    Synthesize(method="copula", columns=["x", "income", "works", "level", "when"]),
    Synthesize(method="copula", columns=["x"], given=["works", "level"]),
    Synthesize(method="hypercube", columns=["x", "income", "works", "level", "when"]),
    Synthesize(method="regression", columns=["x", "income", "works", "region", "level", "answer"]),
    Synthesize(method="regression", columns=["income", "region"], proper=True),
    Synthesize(method="cart"),
    Synthesize(method="cart", proper=True, min_leaf=3, columns=["answer", "x"], order=["x", "answer"]),
    DataShuffle(columns=["x", "income", "when"], given=["works", "region", "level", "answer"]),
]


@pytest.mark.parametrize("mask", ALL_METHODS, ids=str)
def test_every_method_keeps_shape_types_and_input(mask) -> None:
    data = people(60)
    before = data.copy(deep=True)
    released = mask.release(data, 11)
    pd.testing.assert_frame_equal(data, before)
    assert_array_equal(released.index, data.index)
    assert list(released.columns) == list(data.columns)
    changed = [c for c in data.columns if not released[c].equals(data[c])]
    assert set(changed) == set(mask.columns or data.columns)
    for c in data.columns:
        if c == "income" and getattr(mask, "method", "") == "normal":
            # Normal draws are real numbers; a rounded one would not have the moments that were promised.
            expected = np.dtype(np.float64) if c in changed else data[c].dtype
            assert released[c].dtype == expected
        else:
            assert released[c].dtype == data[c].dtype, c
    assert not released.isna().any().any()


@pytest.mark.parametrize("mask", ALL_METHODS, ids=str)
def test_every_method_is_fixed_by_its_seed_and_survives_pickling(mask) -> None:
    data = people(40)
    first = mask.release(data, 3)
    pd.testing.assert_frame_equal(first, pickle.loads(pickle.dumps(mask)).release(data, as_generator(3, RELEASES)))
    assert not first.equals(mask.release(data, 4))


# -- normal ------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=50)
@given(
    st.integers(2, 40),
    st.integers(1, 6),
    st.integers(0, 10**6),
    st.sampled_from(["plain", "ties", "constant", "copy", "units"]),
)
def test_exact_moments_are_exact(n: int, p: int, seed: int, shape: str) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p)) @ rng.standard_normal((p, p)) + rng.uniform(-3, 3, p)
    if shape == "ties":
        x = np.rint(x)
    elif shape == "constant":
        x[:, 0] = 7.5
    elif shape == "copy" and p > 1:
        x[:, 1] = -2 * x[:, 0]
    elif shape == "units":
        x = x * 10.0 ** rng.integers(-8, 9, p)
    released = Synthesize(moments="exact").release(x, seed)
    scale = np.maximum(x.std(axis=0, ddof=1), 1e-12 * np.abs(x).max(axis=0)) + 1e-300
    assert_allclose((released.mean(axis=0) - x.mean(axis=0)) / np.abs(x).max(axis=0).clip(1e-300), 0, atol=1e-10)
    gap = np.cov(released, rowvar=False) - np.cov(x, rowvar=False)
    assert_allclose(np.atleast_2d(gap) / np.outer(scale, scale), 0, atol=1e-10)


def test_exact_moments_on_a_large_mean_and_many_columns() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((30, 60)) + 1e6  # more columns than records
    released = Synthesize(moments="exact").release(x, 2)
    assert_allclose(np.cov(released, rowvar=False), np.cov(x, rowvar=False), rtol=0, atol=1e-8)
    assert_allclose(released.mean(axis=0), x.mean(axis=0), rtol=1e-14)
    assert np.abs(released - x).max(axis=0).min() > 0.1


def test_exact_moments_hold_with_the_given_columns_too() -> None:
    data = people(50)[["x", "income"]].assign(z=np.random.default_rng(0).standard_normal(50))
    released = Synthesize(moments="exact", columns=["z", "income"], given=["x"]).release(data, 9)
    assert_allclose(released.cov(), data.cov(), rtol=1e-10)
    assert_array_equal(released["x"], data["x"])
    assert np.corrcoef(released["z"], data["z"])[0, 1] < 0.9


def test_exact_release_is_a_fresh_normal_draw() -> None:
    # Given the moments, a direction of the draw is uniform on the sphere: the correlation with the original is
    # that of two random unit vectors, variance 1/(n - 1).
    x = np.random.default_rng(0).standard_normal(12)
    rs = np.array([np.corrcoef(x, Synthesize(moments="exact").release(x, s))[0, 1] for s in range(300)])
    assert abs(rs.mean()) < 4 / np.sqrt(11 * 300)
    assert abs((rs**2).mean() - 1 / 11) < 4 * (rs**2).std() / np.sqrt(300)


@pytest.mark.slow
def test_sampled_moments_are_right_on_average_and_vary() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((30, 2)) @ np.array([[1, 0.5], [0, 2.0]]) + [3, -1]
    covs = np.array([np.cov(Synthesize().release(x, s), rowvar=False) for s in range(600)])
    se = covs.std(axis=0) / np.sqrt(600)
    assert np.all(np.abs(covs.mean(axis=0) - np.cov(x, rowvar=False)) < 4 * se)
    assert covs[:, 0, 1].std() > 0.1


@pytest.mark.slow
def test_proper_draws_follow_the_posterior_of_mean_and_variance() -> None:
    # Mean of a proper release: x-bar + t-like spread, variance s2 (1/n + 1/n) E[(n-1)/chi2] with E 1/chi2 = 1/(n-3).
    x = np.random.default_rng(3).standard_normal((25, 1)) * 2 + 5
    n, s2 = 25, float(x.var(ddof=1))
    rng = np.random.default_rng(4)
    means = np.array([draw_sampled(x, None, rng, proper=True).mean() for _ in range(4000)])
    wanted = 2 * s2 / n * (n - 1) / (n - 3)
    assert abs(means.mean() - x.mean()) < 4 * np.sqrt(wanted / 4000)
    centred = (means - means.mean()) ** 2
    assert abs(centred.mean() - wanted) < 4 * centred.std() / np.sqrt(4000)


@pytest.mark.slow
def test_proper_covariances_have_the_inverse_wishart_mean() -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((20, 3)) @ np.array([[1, 0.8, 0], [0, 1, 0.3], [0, 0, 1]])
    draws = np.array([np.cov(draw_sampled(x, None, rng, proper=True), rowvar=False) for _ in range(3000)])
    # E Sigma = (n - 1) S / (n - 1 - p - 1); the sample covariance of a draw is unbiased for its Sigma.
    wanted = np.cov(x, rowvar=False) * 19 / (19 - 3 - 1)
    assert np.all(np.abs(draws.mean(axis=0) - wanted) < 4 * draws.std(axis=0) / np.sqrt(3000))


def test_conditional_normal_draws_keep_the_regression() -> None:
    rng = np.random.default_rng(6)
    g = rng.standard_normal(4000)
    data = pd.DataFrame({"g": g, "y": 2 * g + 0.5 * rng.standard_normal(4000)})
    released = Synthesize(columns=["y"], given=["g"]).release(data, 1)
    slope, residual = np.polyfit(g, released["y"], 1)[0], released["y"] - np.polyval(np.polyfit(g, released["y"], 1), g)
    assert slope == pytest.approx(2, abs=4 * 0.5 * np.sqrt(2 / 4000))
    assert residual.std() == pytest.approx(0.5, rel=4 / np.sqrt(4000))
    # Given g the release says nothing more about the confidential y.
    assert abs(np.corrcoef(residual, data["y"] - 2 * g)[0, 1]) < 4 / np.sqrt(4000)


# -- copula and hypercube ----------------------------------------------------------------------------------


def test_latent_correlation_without_ties_is_the_sine_rule() -> None:
    x = np.random.default_rng(7).multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 3000)
    ranked = rank_columns("test", pd.DataFrame(x))
    s = stats.spearmanr(x).statistic
    assert spearman(ranked)[0, 1] == pytest.approx(s, abs=1e-12)
    assert latent_correlation(ranked)[0, 1] == pytest.approx(2 * np.sin(np.pi * s / 6), abs=1e-12)


@pytest.mark.parametrize("r", [-0.9, -0.3, 0.5, 0.95])
def test_latent_correlation_of_steps_inverts_bivariate_normal_rectangles(r: float) -> None:
    # A table of counts in exact proportion to the rectangles of a bivariate normal law: the answer must be r.
    a, b = np.array([-np.inf, -0.4, 0.9, np.inf]), np.array([-np.inf, 0.2, np.inf])
    cdf = lambda s, t: stats.multivariate_normal.cdf(  # noqa: E731
        np.clip([s, t], -9, 9), cov=[[1, r], [r, 1]], abseps=1e-10, releps=1e-10
    )
    cells = [
        [cdf(a[i + 1], b[j + 1]) - cdf(a[i], b[j + 1]) - cdf(a[i + 1], b[j]) + cdf(a[i], b[j]) for j in range(2)]
        for i in range(3)
    ]
    counts = np.rint(np.array(cells).clip(0) * 100_000).astype(int)
    rows = [(i, j) for i in range(3) for j in range(2) for _ in range(counts[i, j])]
    assert latent_correlation(rank_columns("test", pd.DataFrame(rows)))[0, 1] == pytest.approx(r, abs=2e-3)


def test_copula_releases_only_original_values_and_restores_rank_correlations() -> None:
    data = people(20_000)[["x", "income", "works", "level", "when"]]
    released = Synthesize(method="copula").release(data, 12)
    for c in data.columns:
        assert set(released[c]) <= set(data[c])
    # A rank correlation of n pairs has a standard error of at most about 1/sqrt(n).
    assert np.abs(correlations(released) - correlations(data)).max() < 4 / np.sqrt(20_000)


@pytest.mark.slow
def test_copula_margins_are_bootstrap_samples_of_the_file() -> None:
    data = pd.DataFrame({"a": np.repeat([1, 2, 5], [50, 30, 20]), "b": np.arange(100) % 7})
    shares = (
        np.array(
            [np.bincount(Synthesize(method="copula").release(data, s)["a"], minlength=6)[[1, 2, 5]] for s in range(400)]
        )
        / 100
    )
    wanted = np.array([0.5, 0.3, 0.2])
    assert np.all(np.abs(shares.mean(axis=0) - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / 100 / 400))


def test_conditional_copula_keeps_correlations_with_tied_given_columns() -> None:
    data = people(20_000)[["x", "works", "level"]]
    released = Synthesize(method="copula", columns=["x"], given=["works", "level"]).release(data, 2)
    assert np.abs(correlations(released) - correlations(data)).max() < 5 / np.sqrt(20_000)
    assert set(released["x"]) <= set(data["x"])
    # A draw that ignored what is given would have none of it.
    alone = Synthesize(method="copula", columns=["x"]).release(data, 2)
    assert np.abs(correlations(alone)[0, 1:]).max() < 4 / np.sqrt(20_000)


def test_an_impossible_correlation_matrix_is_mended() -> None:
    mended = as_correlation(np.array([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1.0]]))
    assert np.linalg.eigvalsh(mended)[0] > -1e-12
    assert_allclose(np.diag(mended), 1)
    possible = np.array([[1, 0.3], [0.3, 1]])
    assert as_correlation(possible) is possible


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 60), st.integers(1, 4), st.integers(0, 10**6), st.booleans())
def test_hypercube_has_one_value_in_every_stratum(n: int, p: int, seed: int, ties: bool) -> None:
    x = np.random.default_rng(seed).standard_normal((n, p))
    x = np.rint(2 * x) / 2 if ties else x
    released = Synthesize(method="hypercube").release(x, seed)
    knots = (np.arange(n) + 0.5) / n
    for j in range(p):
        edges = np.interp(np.arange(n + 1) / n, knots, np.sort(x[:, j]))
        values = np.sort(released[:, j])
        assert np.all(values >= edges[:-1] - 1e-12)
        assert np.all(values <= edges[1:] + 1e-12)


def test_hypercube_restores_rank_correlations_to_the_stated_error() -> None:
    data = people(3000)[["x", "income", "works", "level", "when"]]
    released = Synthesize(method="hypercube").release(data, 12)
    assert np.abs(correlations(released) - correlations(data)).max() <= 1.01e-3
    # Strata make means far more precise than random draws, whose standard error would be sd / sqrt(n).
    assert abs(released["x"].mean() - data["x"].mean()) < 0.1 * data["x"].std() / np.sqrt(3000)
    assert set(released["level"]) <= set(data["level"])
    assert not set(released["x"]) & set(data["x"])


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 30), st.integers(1, 8), st.integers(0, 10**6), st.sampled_from(["copula", "hypercube"]))
def test_rank_methods_survive_odd_files(n: int, p: int, seed: int, method: str) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, (n, p)).astype(float)
    x[:, 0] = 4.0  # a constant
    if p > 2:
        x[:, 2] = x[:, 1]  # a copy
    released = Synthesize(method=method).release(x, seed)
    assert np.all(released[:, 0] == 4.0)
    assert np.all(released >= x.min(axis=0)) and np.all(released <= x.max(axis=0))


# -- one column after the other ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["cart", "regression"])
@pytest.mark.parametrize("proper", [False, True])
def test_sequential_synthesis_keeps_conditional_structure(method: str, proper: bool) -> None:
    data = people(6000).drop(columns="when")
    released = Synthesize(method=method, proper=proper).release(data, 8)
    n = len(data)
    for statistic in (
        lambda d: d.loc[d["works"], "x"].mean() - d.loc[~d["works"], "x"].mean(),
        lambda d: d.loc[d["answer"] == "yes", "x"].mean() - d.loc[d["answer"] == "no", "x"].mean(),
        lambda d: (d.loc[d["works"], "region"] == "north").mean() - (d.loc[~d["works"], "region"] == "north").mean(),
        lambda d: (
            np.corrcoef(d["x"], np.log(d["income"].clip(lower=1)))[0, 1]
            if method == "cart"
            else np.corrcoef(d["x"], d["income"])[0, 1]
        ),
    ):
        # Independent synthesis gives zero: all four are far from it. Two files differ by sampling error.
        assert abs(statistic(data)) > 0.3
        assert statistic(released) == pytest.approx(statistic(data), abs=8 / np.sqrt(n))


def test_cart_keeps_an_interaction_that_independent_or_linear_synthesis_loses() -> None:
    rng = np.random.default_rng(9)
    a, b = rng.integers(0, 2, 4000), rng.integers(0, 2, 4000)
    data = pd.DataFrame({"a": a, "b": b, "y": np.where(a == b, 5.0, -5.0) + rng.standard_normal(4000)})
    contrast = lambda d: d.loc[d["a"] == d["b"], "y"].mean() - d.loc[d["a"] != d["b"], "y"].mean()  # noqa: E731
    assert contrast(Synthesize(method="cart").release(data, 1)) == pytest.approx(10, abs=0.3)
    assert abs(contrast(Synthesize(method="regression").release(data.astype({"a": bool, "b": bool}), 1))) < 1


def test_cart_releases_only_values_of_the_file_and_with_one_leaf_draws_from_all() -> None:
    data = people(200)
    released = Synthesize(method="cart").release(data, 2)
    for c in data.columns:
        assert set(released[c]) <= set(data[c])
    whole = Synthesize(method="cart", columns=["income"], given=["x"], min_leaf=200).release(data, 2)
    assert abs(np.corrcoef(whole["income"], data["x"])[0, 1]) < 4 / np.sqrt(200)


def test_partial_synthesis_conditions_on_the_columns_that_stay() -> None:
    data = people(3000)
    kept = Synthesize(method="cart", columns=["income"]).release(data, 3)
    pd.testing.assert_frame_equal(kept.drop(columns="income"), data.drop(columns="income"))
    r = stats.spearmanr(data["x"], data["income"]).statistic
    assert stats.spearmanr(kept["x"], kept["income"]).statistic == pytest.approx(r, abs=0.06)
    alone = Synthesize(method="cart", columns=["income"], given=[]).release(data, 3)
    assert abs(stats.spearmanr(alone["x"], alone["income"]).statistic) < 4 / np.sqrt(3000)


def test_the_visit_order_matters_and_is_obeyed() -> None:
    # The first column visited has no predictors: with regression it is normal, whatever it depends on.
    rng = np.random.default_rng(10)
    x = rng.standard_normal(5000)
    data = pd.DataFrame({"x": x, "square": x**2})
    skew = lambda order: float(stats.skew(Synthesize(method="cart", order=order).release(data, 1)["square"]))  # noqa: E731
    assert skew(["x", "square"]) > 1.5
    normal = Synthesize(method="regression", order=["square", "x"]).release(data, 1)
    assert abs(stats.skew(normal["square"])) < 4 * np.sqrt(6 / 5000)
    a, b = (Synthesize(method="cart", order=o).release(data, 1) for o in (["x", "square"], ["square", "x"]))
    assert not a.equals(b)


@pytest.mark.slow
def test_linear_regression_draws_have_the_posterior_predictive_spread() -> None:
    # Ten records and one predictor: the predictive mean at the data has a t spread that plug-in draws lack.
    rng = np.random.default_rng(11)
    data = pd.DataFrame({"g": np.linspace(-1, 1, 10)})
    data["y"] = 3 * data["g"] + rng.standard_normal(10)
    fit = stats.linregress(data["g"], data["y"])
    s2 = float(((data["y"] - fit.intercept - fit.slope * data["g"]) ** 2).sum() / 8)
    sxx = float((data["g"] ** 2).sum())
    for proper, wanted in ((False, s2 / sxx), (True, 2 * s2 * 8 / 6 / sxx)):
        mask = Synthesize(method="regression", columns=["y"], proper=proper)
        slopes = np.array([np.polyfit(data["g"], mask.release(data, s)["y"], 1)[0] for s in range(500)])
        squares = (slopes - fit.slope) ** 2
        assert abs(slopes.mean() - fit.slope) < 4 * np.sqrt(wanted / 500)
        assert abs(squares.mean() - wanted) < 4 * squares.std() / np.sqrt(500)


def test_logistic_fit_agrees_with_a_plain_newton_iteration() -> None:
    rng = np.random.default_rng(12)
    x = rng.standard_normal((400, 2))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    y = (rng.random(400) < 1 / (1 + np.exp(-(0.5 + x @ [1.0, -2.0])))).astype(np.int64)
    fitted = fit_logistic(x, y, 2)(x)[:, 1]
    # Two symmetric columns of coefficients +-b/2 with prior precision 1 each: the penalty on b is b^2/4.
    d, b = np.hstack([np.ones((400, 1)), x]), np.zeros(3)
    precision = np.array([0.01, 1, 1]) / 2
    for _ in range(30):
        p = 1 / (1 + np.exp(-d @ b))
        b = b + np.linalg.solve((d.T * (p * (1 - p))) @ d + np.diag(precision), d.T @ (y - p) - precision * b)
    assert_allclose(fitted, 1 / (1 + np.exp(-d @ b)), atol=1e-3)


def test_separable_categories_stay_finite_and_absent_ones_get_nothing() -> None:
    x = np.linspace(-1, 1, 50)[:, None]
    chance = fit_logistic(x, np.where(x[:, 0] > 0, 2, 0), 3)(x)
    assert np.all(np.isfinite(chance)) and np.all(chance[:, 1] == 0)
    assert_allclose(chance.sum(axis=1), 1)
    assert chance[-1, 2] > 0.9


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=5).filter(lambda p: sum(p) > 0), st.floats(0, 1, exclude_max=True)
)
def test_pick_never_takes_what_has_no_probability(p: list[float], u: float) -> None:
    row = np.array([p]) / sum(p)
    assert row[0, pick(row, np.array([u]))[0]] > 0


# -- beliefs -----------------------------------------------------------------------------------------------


def test_a_normal_belief_draws_from_its_posterior_predictive_law() -> None:
    s, d = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([[1.0, 0.3], [0.3, 0.5]])
    belief = NormalBelief(records=6, covariance=s, prior_mean=[1, -1], prior_covariance=d)
    x = np.random.default_rng(13).standard_normal((6, 2))
    # By precision matrices, another way than the gain that the code uses.
    v = np.linalg.inv(np.linalg.inv(d) + 6 * np.linalg.inv(s))
    m = v @ (np.linalg.inv(d) @ [1, -1] + 6 * np.linalg.inv(s) @ x.mean(axis=0))
    rng = np.random.default_rng(14)
    draws = np.array([normal_predictive(belief, x, rng) for _ in range(4000)])
    means = draws.mean(axis=1)
    wanted = v + s / 6
    assert np.all(np.abs(means.mean(axis=0) - m) < 4 * np.sqrt(np.diag(wanted) / 4000))
    products = np.einsum("ni,nj->nij", means - m, means - m)
    assert np.all(np.abs(products.mean(axis=0) - wanted) < 4 * products.std(axis=0) / np.sqrt(4000))
    within = np.array([np.cov(x, rowvar=False) for x in draws])
    assert np.all(np.abs(within.mean(axis=0) - s) < 4 * within.std(axis=0) / np.sqrt(4000))


def test_flat_and_known_priors_of_a_belief() -> None:
    x = np.random.default_rng(15).standard_normal(200) + 50
    flat = Synthesize(belief=NormalBelief(records=200, variance=1, prior="flat")).release(x, 1)
    assert flat.shape == x.shape
    assert flat.mean() == pytest.approx(50, abs=4 * np.sqrt(3 / 200))
    known = Synthesize(belief=NormalBelief(records=200, variance=1, prior_mean=-3, prior="known")).release(x, 1)
    assert known.mean() == pytest.approx(-3, abs=4 / np.sqrt(200))


def test_a_belief_names_its_columns_and_any_predictive_will_do() -> None:
    data = people(30)
    belief = NormalBelief(records=30, variance=1, prior="flat", columns=["x"])
    released = Synthesize(belief=belief).release(data, 1)
    pd.testing.assert_frame_equal(released.drop(columns="x"), data.drop(columns="x"))
    assert not released["x"].equals(data["x"])

    class Bootstrap:
        def predictive(self, data: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
            return data.sample(len(data), replace=True, random_state=rng)

    both = Synthesize(belief=Bootstrap(), columns=["region", "x"]).release(data, 1)
    pairs = set(zip(data["region"], data["x"], strict=True))
    assert set(zip(both["region"], both["x"], strict=True)) <= pairs
    assert both["region"].dtype == data["region"].dtype
    assert_array_equal(both.index, data.index)


def test_beliefs_that_do_not_fit_are_refused() -> None:
    x = np.zeros((5, 2)) + np.arange(5)[:, None]
    with pytest.raises(InputError, match="variables"):
        Synthesize(belief=NormalBelief(records=5, variance=1, prior="flat")).release(x, 1)
    with pytest.raises(InputError, match="7 records"):
        Synthesize(belief=NormalBelief(records=7, variance=1, prior="flat")).release(x[:, 0], 1)
    with pytest.raises(UnsupportedError, match="predictive"):
        Synthesize(belief=object()).release(x, 1)

    class Short:
        def predictive(self, data: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            return data[:-1]

    with pytest.raises(InputError, match="must draw 5 records"):
        Synthesize(belief=Short()).release(x, 1)


# -- copies and combining ----------------------------------------------------------------------------------


def test_copies_come_through_releases_and_release_gives_the_first() -> None:
    data = people(25)[["x", "income"]]
    mask = Synthesize(method="copula", copies=3)
    copies = mask.releases(data, 5)
    assert len(copies) == 3
    assert not copies[0].equals(copies[1])
    pd.testing.assert_frame_equal(mask.release(data, 5), copies[0])
    assert isinstance(Synthesize(copies=2).releases(np.arange(6.0), 1)[1], np.ndarray)


def test_partial_rule_by_hand() -> None:
    # m = 4: estimates 1, 2, 3, 6 have mean 3, B = 14/3; W = 1.5; T = 1.5 + 14/12; df = 3 (1 + 6/(14/3))^2.
    c = combine_partial([1, 2, 3, 6], [1, 1, 2, 2])
    assert (c.estimate, c.between, c.within) == (3, pytest.approx(14 / 3), 1.5)
    assert c.variance == pytest.approx(1.5 + 14 / 12, rel=1e-14)
    assert c.df == pytest.approx(3 * (1 + 6 / (14 / 3)) ** 2, rel=1e-14)
    assert c.gamma == pytest.approx((14 / 12) / (1.5 + 14 / 12), rel=1e-14)
    low, high = c.interval(0.9)
    half = stats.t.ppf(0.95, float(c.df)) * np.sqrt(1.5 + 14 / 12)
    assert (low, high) == (pytest.approx(3 - half), pytest.approx(3 + half))


def test_full_rule_by_hand_and_its_replacement_when_negative() -> None:
    c = combine_full([1, 2, 3, 6], [1, 1, 2, 2])
    assert c.variance == pytest.approx(1.25 * 14 / 3 - 1.5, rel=1e-14)
    assert c.df == pytest.approx(3 * (1 - 1.5 / (1.25 * 14 / 3)) ** 2, rel=1e-14)
    assert not c.adjusted
    c = combine_full([[1, 2.0], [1, 4.0]], [[3, 0.1], [5, 0.1]], size_ratio=0.5)
    assert_array_equal(c.adjusted, [True, False])
    assert_allclose(c.variance, [0.5 * 4, 1.5 * 2 - 0.1])
    assert np.isinf(c.df[0])
    assert_allclose(c.interval()[1][0], 1 + stats.norm.ppf(0.975) * np.sqrt(2))


def test_copies_that_agree_have_infinite_degrees_of_freedom() -> None:
    c = combine_partial([2.0, 2.0], [0.5, 0.5])
    assert c.variance == 0.5 and np.isinf(c.df) and c.gamma == 0
    assert "partial" in repr(c)


@pytest.mark.parametrize(
    ("estimates", "variances", "message"),
    [
        ([1.0], [1.0], "two copies"),
        ([1.0, 2.0], [1.0], "shape"),
        ([1.0, 2.0], [1.0, -1.0], "negative"),
        ([1.0, np.nan], [1.0, 1.0], "finite"),
        (["a", "b"], [1.0, 1.0], "numbers"),
    ],
)
@pytest.mark.parametrize("rule", [combine_partial, combine_full])
def test_combining_refuses(rule, estimates, variances, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rule(estimates, variances)


@pytest.mark.long
@pytest.mark.parametrize(
    ("proper", "rule"),
    [(False, combine_partial), (True, combine_partial), (True, combine_full)],
    ids=["plug-in partial", "proper partial", "proper full"],
)
def test_intervals_from_combined_copies_cover(proper: bool, rule) -> None:
    rng = np.random.default_rng(20)
    runs, n, m = 800, 40, 20
    covered, estimates, variances = 0, [], []
    for _ in range(runs):
        x = rng.standard_normal((n, 1)) + 3
        copies = [draw_sampled(x, None, rng, proper=proper) for _ in range(m)]
        c = rule([float(y.mean()) for y in copies], [float(y.var(ddof=1) / n) for y in copies])
        low, high = c.interval(0.95)
        covered += bool(low <= 3 <= high)
        estimates.append(float(c.estimate))
        variances.append(float(c.variance))
    # The mean of T is the variance of the estimate; small-n terms of about 2/n come on top of the simulation error.
    true = np.var(estimates)
    assert abs(np.mean(variances) / true - 1) < 2 / n + 4 * np.sqrt(2 / runs)
    # Few degrees of freedom make the full rule cautious (Raghunathan et al.); the partial rule is near its level.
    error = 0.01 + 4 * np.sqrt(0.95 * 0.05 / runs)
    assert covered / runs > 0.95 - error
    assert rule is combine_full or covered / runs < 0.95 + error


@pytest.mark.long
def test_the_full_rule_fails_with_plug_in_copies_as_documented() -> None:
    rng = np.random.default_rng(21)
    adjusted = 0
    for _ in range(300):
        x = rng.standard_normal((40, 1))
        copies = [draw_sampled(x, None, rng) for _ in range(20)]
        adjusted += bool(
            combine_full([float(y.mean()) for y in copies], [float(y.var(ddof=1) / 40) for y in copies]).adjusted
        )
    assert adjusted > 100  # B estimates W alone, so T is negative about as often as not


# -- conditional shuffling ---------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(st.integers(4, 40), st.integers(0, 10**6), st.booleans())
def test_shuffling_permutes_every_margin(n: int, seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {"a": rng.standard_normal(n), "b": rng.integers(0, 3 if ties else 10**6, n), "g": rng.standard_normal(n)}
    )
    released = DataShuffle(columns=["a", "b"], given=["g"]).release(data, seed)
    for c in ("a", "b"):
        assert_array_equal(np.sort(released[c]), np.sort(data[c]))
        assert released[c].dtype == data[c].dtype
    assert_array_equal(released["g"], data["g"])


def test_shuffling_keeps_rank_correlations_and_conditional_independence() -> None:
    n = 20_000
    data = people(n)[["x", "income", "level", "region", "when"]]
    released = DataShuffle(columns=["x", "income"], given=["when", "region"]).release(data, 6)
    kept = ["x", "income", "when"]
    assert np.abs(correlations(released[kept]) - correlations(data[kept])).max() < 0.02
    score = lambda c: stats.norm.ppf((stats.rankdata(c) - 0.5) / n)  # noqa: E731
    d = np.column_stack(
        [np.ones(n), score(data["when"].astype("int64")), pd.get_dummies(data["region"]).to_numpy(float)[:, 1:]]
    )
    left = lambda z: z - d @ np.linalg.lstsq(d, z, rcond=None)[0]  # noqa: E731
    # Given the visible columns, original and released scores are uncorrelated; without them they are not.
    original, new = left(score(data["x"])), left(score(released["x"]))
    assert abs(np.corrcoef(original, new)[0, 1]) < 4 / np.sqrt(n)
    assert np.corrcoef(score(data["x"]), score(released["x"]))[0, 1] > 0.3


def test_shuffling_given_nothing_keeps_only_the_joint_structure() -> None:
    data = people(5000)[["x", "income"]]
    released = DataShuffle(columns=["x", "income"]).release(data, 1)
    assert np.abs(correlations(released) - correlations(data)).max() < 0.03
    assert abs(np.corrcoef(data["x"], released["x"])[0, 1]) < 4 / np.sqrt(5000)


# -- together and bad input --------------------------------------------------------------------------------


def test_synthesis_composes_and_describes_itself() -> None:
    chain = Synthesize(method="cart", columns=["x"], min_leaf=7) | Noise(sd=0.1, columns=["x"])
    assert repr(chain) == "Synthesize(method='cart', columns=['x'], min_leaf=7) | Noise(sd=0.1, columns=['x'])"
    assert chain.technique == "Synthesize | Noise"
    assert not set(chain.release(people(30), 1)["x"]) & set(people(30)["x"])
    assert repr(Synthesize(moments="exact")) == "Synthesize(method='normal', moments='exact')"
    assert repr(DataShuffle(columns="a", given=["b"])) == "DataShuffle(columns=['a'], given=['b'])"


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        (k, m)
        for k in ("Int64", "Float64", "float32", "boolean", "uint8")
        for m in ("copula", "hypercube", "cart", "regression")
    ]
    + [("string", "cart"), ("string", "regression")],
)
def test_other_column_types_come_back(kind: str, method: str) -> None:
    rng = np.random.default_rng(3)
    a = pd.Series(rng.integers(0, 2 if kind == "boolean" else 9, 50)).astype("int64")
    data = pd.DataFrame(
        {
            "a": (a.astype(bool) if kind == "boolean" else a.astype(str) if kind == "string" else a).astype(kind),
            "b": a + rng.standard_normal(50),
        }
    )
    released = Synthesize(method=method).release(data, 1)
    assert released["a"].dtype == data["a"].dtype
    assert not released["a"].isna().any()


def test_columns_with_numbers_for_names_are_found_by_name() -> None:
    data = pd.DataFrame({1: np.arange(8.0), 0: np.arange(8.0) ** 2})
    released = Synthesize(moments="exact", columns=[0]).release(data, 1)
    assert_array_equal(released[1], data[1])
    assert released[0].mean() == pytest.approx(data[0].mean(), rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "carts"}, "Did you mean 'cart'"),
        ({"moments": "exactly"}, "exact"),
        ({"method": "cart", "moments": "exact"}, "moments is for method 'normal' only"),
        ({"method": "normal", "order": ["a"]}, "order is for"),
        ({"method": "copula", "proper": True}, "proper is for"),
        ({"method": "hypercube", "given": ["a"]}, "given is for"),
        ({"method": "regression", "min_leaf": 3}, "min_leaf is for"),
        ({"method": "normal", "belief": NormalBelief(records=2, variance=1, prior="flat")}, "belief is for"),
        ({"method": "belief"}, "needs a belief"),
        ({"moments": "exact", "proper": True}, "exclude"),
        ({"proper": 1}, "True or False"),
        ({"copies": 0}, "copies"),
        ({"method": "cart", "min_leaf": 0}, "min_leaf"),
        ({"columns": []}, "empty"),
    ],
)
def test_arguments_that_cannot_be_right(arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Synthesize(**arguments)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (Synthesize(), "boolean"),
        (Synthesize(columns=["region"]), "non-numeric"),
        (Synthesize(columns=["incom"]), "Did you mean 'income'"),
        (Synthesize(method="copula", columns=["answer"]), "unordered"),
        (Synthesize(method="cart", columns=["x"], order=["income"]), "order must name"),
        (Synthesize(method="cart", columns=["x"], given=["x"]), "both|cannot be in columns and in given"),
        (Synthesize(method="cart", columns=["x", "x"]), "twice"),
        (Synthesize(method="regression", columns=["when"]), "dates"),
        (
            Synthesize(method="normal", given=["x", "income", "works", "region", "level", "answer", "when"]),
            "No column is left",
        ),
        (Synthesize(method="normal", proper=True, columns=["x"], given=["hole"]), "missing"),
        (DataShuffle(columns=["answer"]), "unordered"),
        (DataShuffle(columns=["x"], given=["x"]), "cannot be in"),
        (DataShuffle(columns=["x"], given=["name"]), "200 categories"),
        (Synthesize(method="cart", columns=["x"], given=["name"]), "200 categories"),
    ],
)
def test_data_that_a_method_cannot_take(mask, message: str) -> None:
    data = people(300)
    if "hole" in message or "missing" in message:
        data["hole"] = [np.nan, *range(299)]
    if "200" in message:
        data["name"] = data.index
    with pytest.raises(InputError, match=message):
        mask.release(data, 1)


def test_too_few_records() -> None:
    with pytest.raises(InputError, match="two records"):
        Synthesize().release([[1.0, 2.0]], 1)
    with pytest.raises(InputError, match="needs at least 4 records"):
        Synthesize(proper=True).release(np.eye(3), 1)
    with pytest.raises(InputError, match="no freedom"):
        Synthesize(moments="exact", columns=[0], given=[1]).release(np.array([[1.0, 2.0], [3.0, 5.0]]), 1)
    with pytest.raises(InputError, match="more than 3 records"):
        Synthesize(method="regression", columns=[0]).release(np.random.default_rng(0).standard_normal((3, 4)), 1)
    with pytest.raises(InputError, match="confidential columns"):
        DataShuffle()
    # Two records and plenty of columns are enough where nothing has to be estimated from them.
    assert Synthesize(method="cart").release(np.arange(8.0).reshape(2, 4), 1).shape == (2, 4)


@pytest.mark.parametrize("method", ["normal", "copula", "hypercube", "regression", "cart"])
def test_extreme_units_do_not_overflow(method: str) -> None:
    x = np.random.default_rng(4).standard_normal((40, 2)) * [1e300, 1e-300]
    released = Synthesize(method=method).release(x, 1)
    assert np.all(np.isfinite(released))
    assert_allclose(np.std(released / [1e300, 1e-300], axis=0), np.std(x / [1e300, 1e-300], axis=0), rtol=0.5)


def test_without_scikit_learn_the_error_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.tree", None)
    with pytest.raises(UnsupportedError, match="Install scikit-learn"):
        Synthesize(method="cart").release(np.arange(8.0).reshape(4, 2), 1)


def test_trees_see_columns_that_lie_far_from_zero() -> None:
    """scikit-learn's trees look at single precision, in which 1e9 + x is 1e9."""
    x = np.random.default_rng(1).normal(size=200)
    mask = Synthesize(method="cart", columns=["y"], min_leaf=5)
    near, far = (mask.release(pd.DataFrame({"x": x + shift, "y": x}), 1)["y"].to_numpy() for shift in (0.0, 1e9))
    assert np.corrcoef(near, x)[0, 1] > 0.9
    assert np.corrcoef(far, x)[0, 1] > 0.9
