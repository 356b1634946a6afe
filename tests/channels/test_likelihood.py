"""How a release is observed.

Every mask's likelihood against its integral, its own releases, quadrature and PyTensor.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import integrate, stats

from ruvdecision.channels.likelihood import (
    NUMPY,
    Between,
    ColumnLikelihood,
    Known,
    KnownLabels,
    Uninformative,
    join_rows,
    observe,
    tensor_math,
)
from ruvdecision.channels.likelihood.kernels import AdditiveNoise
from ruvdecision.channels.likelihood.laws import LaplaceLaw, NormalLaw, StudentLaw
from ruvdecision.engines.pymc.support import RecordGrid, SupportMap
from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.masks import (
    PRAM,
    Bottomcode,
    Clip,
    DataShuffle,
    LocalSuppress,
    Mask,
    Microaggregate,
    MicroaggregateMixed,
    MomentNoise,
    MultiplicativeNoise,
    Noise,
    RankSwap,
    Recode,
    Release,
    Resample,
    ResidualNoise,
    Round,
    Shuffle,
    Stochastic,
    Subsample,
    Suppress,
    SuppressCells,
    Swap,
    Synthesize,
    Topcode,
)


@dataclass(frozen=True)
class Case:
    """A mask, originals to try, where its output is continuous (cut at jumps), and where it has point masses."""

    mask: Mask
    x: tuple[float, ...]
    cuts: tuple[float, ...] = ()
    atoms: tuple[float, ...] = ()
    name: str = field(default="")


def nodes(column: ColumnLikelihood, low: float, high: float, panels: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and log weights between two ends of the whole line."""
    return RecordGrid(SupportMap(), low, high).nodes(column, panels, 16)


def grid(step: float, low: float, high: float) -> tuple[float, ...]:
    return tuple(step * j for j in range(round(low / step), round(high / step) + 1))


def fourfold(x: Any) -> Any:
    return 2.0 * (1 + 3 * (x > 4))


def tenth(x: Any) -> Any:
    return 0.5 + 0.1 * abs(x)


WIDE = (-400.0, -100.0, -40.0, -20.0, -10.0, -5.0, 0.0, 5.0, 10.0, 20.0, 40.0, 100.0, 400.0)
X = (0.7, 3.0, 12.4)
CASES = [
    Case(Noise(sd=2.0), X, WIDE),
    Case(Noise(variance=4.0) | Clip(lower=0, upper=6), X, tuple(np.linspace(0, 6, 7)), (0.0, 6.0)),
    Case(Noise(sd=2.0, kind="laplace"), X, (*WIDE, *X)),
    Case(Noise(sd=2.0, kind="t", df=5), X, (-1e4, -1e3, *WIDE, 1e3, 1e4)),
    Case(Noise(sd=2.0, kind="mixture"), X, WIDE),
    Case(Noise(sd=2.0, kind="mixture", weights=[0.2, 0.3, 0.5], centres=[-1.0, -0.5, 0.7]), X, WIDE),
    Case(Noise(sd=2.0, kind="laplace") | Clip(lower=1), X, (1.0, *[c for c in (*WIDE, *X) if c > 1]), (1.0,)),
    Case(Noise(sd=tenth), X, WIDE),
    Case(Noise(variance=fourfold), X, WIDE),
    Case(MultiplicativeNoise(sd=0.2), X, WIDE),
    Case(MultiplicativeNoise(sd=0.2), (-3.0,), WIDE),
    Case(MultiplicativeNoise(sd=0.3, kind="lognormal"), X, (0.0, 0.1, 0.3, 0.5, 1.0, 2.0, 3.0, 7.0, 15.0, 40.0, 100.0)),
    Case(
        MultiplicativeNoise(sd=0.3, kind="lognormal"), (-3.0,), (-40.0, -20.0, -10.0, -5.0, -3.0, -2.0, -1.0, -0.5, 0.0)
    ),
    Case(MultiplicativeNoise(kind="mixture", away=0.3, sd=0.1), X, WIDE),
    Case(
        MultiplicativeNoise(kind="split", least=0.1, most=0.3),
        X,
        tuple(sorted(v * f for v in X for f in (0.7, 0.9, 1.1, 1.3))),
    ),
    Case(MultiplicativeNoise(kind="split", least=0.1, most=1.2), (3.0,), (-0.6, 2.7, 3.3, 6.6)),
    Case(Round(base=5), X, (), grid(5, -20, 40)),
    Case(Round(base=5, random=True), X, (), grid(5, -20, 40)),
    Case(Recode(bins=[-50, 0, 2, 10, 50], label="midpoint"), X, (), (-25.0, 1.0, 6.0, 30.0)),
    Case(Recode(width=4, label="lower"), X, (), grid(4, -40, 40)),
    Case(Noise(sd=2.0) | Round(base=1), X, (), grid(1, -40, 60)),
    Case(Noise(sd=2.0, kind="laplace") | Round(base=1), X, (), grid(1, -70, 80)),
    Case(Noise(sd=2.0, kind="t", df=8) | Round(base=4), X, (), grid(4, -4000, 4000)),
    Case(Noise(sd=2.0) | Round(base=5, random=True), X, (), grid(5, -60, 80)),
    Case(Noise(sd=2.0) | Topcode(at=5) | Bottomcode(at=1), X, (1.0, 2.0, 3.0, 4.0, 5.0), (1.0, 5.0)),
    Case(Topcode(at=5) | Noise(sd=2.0), X, WIDE),
    Case(Round(base=5) | Noise(sd=2.0), X, WIDE),
    Case(Round(base=5, random=True) | Noise(sd=2.0), X, WIDE),
    Case(Recode(bins=[-50, 0, 2, 10, 50], label="midpoint") | Noise(sd=2.0), X, WIDE),
    Case(Recode(width=4, label="midpoint") | Noise(sd=2.0), X, WIDE),
    Case(Noise(sd=1.0) | Noise(sd=2.0), X, WIDE),
    Case(Noise(sd=1.0, kind="laplace") | Noise(sd=2.0), X, WIDE),
    Case(Noise(sd=2.0) | Noise(sd=1.0, kind="laplace"), X, WIDE),
    Case(Noise(sd=1.0, kind="laplace") | Noise(sd=2.0, kind="laplace"), X, (*WIDE, *X)),
    Case(Noise(sd=1.0, kind="t", df=6) | Noise(sd=2.0, kind="mixture"), X, (-1e4, -1e3, *WIDE, 1e3, 1e4)),
    Case(Noise(sd=1.0) | Noise(sd=1.0, kind="laplace") | Noise(sd=1.5), X, WIDE),
    Case(MultiplicativeNoise(sd=0.2) | Noise(sd=1.0), X, WIDE),
    Case(MultiplicativeNoise(sd=0.2, kind="lognormal") | Round(base=1), X, (), grid(1, 0, 60)),
    Case(MultiplicativeNoise(sd=0.2) | Round(base=1), X, (), grid(1, -40, 60)),
    Case(MultiplicativeNoise(kind="split", least=0.1, most=0.3) | Round(base=1), X, (), grid(1, -1, 30)),
    Case(MultiplicativeNoise(kind="split", least=0.1, most=0.3) | Noise(sd=1.0), X, WIDE),
    Case(Noise(sd=1.0) | MultiplicativeNoise(sd=0.3, kind="lognormal"), X, WIDE),
    Case(Noise(sd=2.0) | Clip(lower=0) | Round(base=1), X, (), grid(1, 0, 60)),
    Case(Noise(sd=2.0) | Clip(lower=0) | Noise(sd=1.0), X, WIDE),
    Case(Noise(sd=2.0) | Round(base=2) | Noise(sd=1.0), X, WIDE),
    Case(Noise(sd=tenth) | Round(base=1), X, (), grid(1, -40, 60)),
    Case(Noise(sd=tenth) | Noise(sd=1.0), X, WIDE),
    Case(Noise(sd=2.0, kind="laplace") | Topcode(at=4), X, (*[c for c in WIDE if c < 4], 0.7, 3.0, 4.0), (4.0,)),
]
# Chains that are dear to look at are tried in the slow run; some of each kind in every run.
OFTEN = {20, 24, 25, 26, 30, 31}
TRIED = [
    c if len(c.mask.parts) == 1 or i in OFTEN else pytest.param(c, marks=pytest.mark.long) for i, c in enumerate(CASES)
]
SUMMED = [pytest.param(c, marks=pytest.mark.long) if i in (34, 41, 44) else c for i, c in enumerate(CASES)]
IDS = [f"{i}-{c.mask}" for i, c in enumerate(CASES)]


def law_at(case: Case, x: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places y, whether each is a point mass, and the probability that each stands for.

    A release with one row per place.
    """
    node, weight = np.polynomial.legendre.leggauss(24)
    cuts = np.unique(np.array([*case.cuts, *(c for c in (x,) if case.cuts and min(case.cuts) < c < max(case.cuts))]))
    pieces = np.concatenate([np.linspace(a, b, 9) for a, b in itertools.pairwise(cuts)]) if len(cuts) else np.empty(0)
    pieces = np.unique(pieces)
    y, w = np.empty(0), np.empty(0)
    if len(pieces):
        half, middle = np.diff(pieces) / 2, (pieces[1:] + pieces[:-1]) / 2
        y, w = (middle[:, None] + half[:, None] * node).ravel(), (half[:, None] * weight).ravel()
    y, w = np.concatenate([y, case.atoms]), np.concatenate([w, np.ones(len(case.atoms))])
    column = column_of(case.mask, y)
    p = w * np.exp(column.log(np.full(len(y), x)))
    return y, np.arange(len(y)) >= len(y) - len(case.atoms), p


def column_of(mask: Mask, y: Any, n: int | None = None) -> ColumnLikelihood:
    return observe(mask, np.asarray(y), len(y) if n is None else n).columns[0]


# -- the law of a release ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", SUMMED, ids=IDS)
def test_the_likelihood_sums_to_one_over_releases(case: Case) -> None:
    for x in case.x:
        assert law_at(case, x)[2].sum() == pytest.approx(1.0, abs=2e-8)


@pytest.mark.parametrize("case", SUMMED, ids=IDS)
def test_releases_have_the_law_that_the_likelihood_says(case: Case) -> None:
    n = 20_000
    for seed, x in enumerate(case.x):
        y, atom, p = law_at(case, x)
        drawn = case.mask.release(np.full(n, x), seed + 11)
        for place in y[atom]:
            expected = p[atom & np.isclose(y, place, atol=1e-9)].sum()
            if 0 < expected * n < 20:  # too few for a normal bound; the impossible and the common are held to it
                continue
            assert (
                abs(np.mean(np.isclose(drawn, place, atol=1e-9)) - expected)
                <= 4 * np.sqrt(expected * (1 - min(expected, 1)) / n) + 1e-7
            )
        if not len(case.cuts):
            continue
        # Bins between panel ends, so that the sums are whole; thirds of the law, more or less.
        order = np.argsort(y, kind="stable")
        ends = np.unique(
            np.concatenate(
                [np.linspace(a, b, 9) for a, b in zip(sorted(case.cuts)[:-1], sorted(case.cuts)[1:], strict=True)]
            )
        )
        share = np.array([p[order][y[order] < e].sum() for e in ends])
        for e, expected in zip(ends, share, strict=True):
            if 0.02 < expected < 0.98 and abs(e - x) > 1e-9:
                assert abs(np.mean(drawn < e) - expected) < 4 * np.sqrt(expected * (1 - expected) / n) + 1e-7


@pytest.mark.parametrize("case", TRIED, ids=IDS)
def test_nodes_integrate_as_quad_does(case: Case) -> None:
    y = case.mask.release(np.array([0.7, 3.0, 12.4]), 5)
    column = column_of(case.mask, y)
    dear = column.points_per_entry > 1
    if dear:
        column = column.take([1])
    for f, low, high in ((stats.norm(3, 4).pdf, -37.0, 43.0), (stats.lognorm(0.8, scale=5).pdf, 0.02, 1500.0))[
        : 1 if dear else 2
    ]:
        x, logw = nodes(column, low, high, panels=10 if dear else 60)
        assert np.all(np.isfinite(x))
        found = np.sum(np.exp(logw) * f(x), axis=0)
        for i in range(column.n):
            one = column.take([i])
            if not np.isnan(one.known_values[0]):
                assert found[i] == pytest.approx(f(one.known_values[0]), rel=1e-12)
                continue
            a, b = max(low, one.window()[0][0]), min(high, one.window()[1][0])
            cuts = np.concatenate(
                [one.cuts.ravel(), np.linspace(a, b, 40 if dear else 150), np.geomspace(0.02, 1500, 40)]
            )
            cuts = np.unique(np.clip(cuts[np.isfinite(cuts)], a, b))
            assert found[i] == pytest.approx(panel_sum(one, f, cuts), rel=1e-9, abs=1e-13)


QUAD = [
    Noise(sd=2.0),
    Noise(sd=2.0, kind="laplace"),
    Noise(sd=2.0, kind="t", df=5),
    Noise(sd=2.0) | Clip(lower=2.5),
    Noise(sd=2.0) | Round(base=1),
    Round(base=5),
    Round(base=5, random=True),
    MultiplicativeNoise(sd=0.2),
    Topcode(at=4) | Noise(sd=1.0),
]


@pytest.mark.parametrize("mask", QUAD, ids=str)
@pytest.mark.parametrize(
    ("f", "low", "high"), [(stats.norm(3, 4).pdf, -37.0, 43.0), (stats.lognorm(0.8, scale=5).pdf, 0.02, 1500.0)]
)
def test_nodes_are_scipys_integral(mask: Mask, f: Any, low: float, high: float) -> None:
    one = column_of(mask, mask.release(np.array([3.0]), 5))
    x, logw = nodes(one, low, high, panels=60)
    a, b = max(low, one.window()[0][0]), min(high, one.window()[1][0])
    cuts = np.unique(np.clip([*one.cuts.ravel(), a, b, *np.geomspace(0.1, 100, 12), *np.linspace(-30, 30, 13)], a, b))
    exact = sum(
        integrate.quad(lambda t: float(np.exp(one.log([t]))[0] * f(t)), c, d, epsabs=1e-14, epsrel=1e-10, limit=100)[0]
        for c, d in itertools.pairwise(cuts)
    )
    assert np.sum(np.exp(logw) * f(x)) == pytest.approx(exact, rel=1e-9, abs=1e-13)


def panel_sum(one: ColumnLikelihood, f: Any, cuts: np.ndarray) -> float:
    """Another rule, with other panels: for likelihoods that are dear to look at."""
    node, weight = np.polynomial.legendre.leggauss(21)
    half, middle = np.diff(cuts) / 2, (cuts[1:] + cuts[:-1]) / 2
    x = (middle[:, None] + half[:, None] * node).ravel()
    logs = np.concatenate(
        [one.log(part[:, None])[:, 0] for part in np.array_split(x, max(1, len(x) * one.points_per_entry // 2_000_000))]
    )
    return float(np.sum((half[:, None] * weight).ravel() * np.exp(logs) * f(x)))


@pytest.mark.parametrize("at", [0.0, 0.5])
def test_a_factor_below_zero_brings_large_values_under_a_bound(at: float) -> None:
    # P(x f <= at) with f ~ N(1, 1/4): 2.3% and more of every x above the bound, however large.
    column = column_of(MultiplicativeNoise(sd=0.5) | Bottomcode(at=at), [at])
    assert np.isposinf(column.window()[1][0])
    _, logw = nodes(column, -20.0, 50.0, panels=60)
    exact = integrate.quad(lambda t: stats.norm(t, 0.5 * t).cdf(at), 1e-12, 50, epsabs=1e-12, limit=500)[0]
    exact += integrate.quad(lambda t: stats.norm(t, -0.5 * t).cdf(at), -20, -1e-12, epsabs=1e-12, limit=500)[0]
    assert np.exp(logw).sum() == pytest.approx(exact, rel=1e-8)


# -- one text for numpy and PyTensor ----------------------------------------------------------------------


@pytest.mark.parametrize("case", TRIED, ids=IDS)
def test_the_tensor_twin_is_equal_and_has_finite_gradients(case: Case) -> None:
    pytensor = pytest.importorskip("pytensor")
    pt = pytest.importorskip("pytensor.tensor")
    y = case.mask.release(np.array([0.7, 3.0, 12.4]), 5)
    column = column_of(case.mask, y)
    if not np.isnan(column.known_values).all():
        column = column.take(np.flatnonzero(np.isnan(column.known_values)))
    x = pt.dmatrix("x")
    log = column.log(x, tensor_math())
    mode = pytensor.compile.mode.Mode(linker="py", optimizer=None)
    at = np.array([0.437, 2.913, 11.037, 30.29])[:, None] + np.linspace(0, 0.3, column.n)
    expected = column.log(at)
    there = np.isfinite(expected)
    slope = pytensor.grad(pt.where(there, log, 0.0).sum(), x, disconnected_inputs="ignore")
    with np.errstate(all="ignore"):
        found, slope = pytensor.function([x], [log, slope], mode=mode, on_unused_input="ignore")(at)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert np.all(np.isfinite(slope[there]))
    step = 1e-6
    with np.errstate(invalid="ignore"):
        rise = (column.log(at + step) - column.log(at - step)) / (2 * step)
    np.testing.assert_allclose(slope[there], rise[there], rtol=1e-4, atol=1e-4)


# -- whole releases ---------------------------------------------------------------------------------------


def frame(n: int = 6, k: int = 2, seed: int = 3) -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(seed).normal(5, 2, (n, k)).round(3), columns=list("abcdef")[:k])


def test_a_plain_release_is_known_and_a_suppressed_one_silent() -> None:
    df = frame()
    observed = observe(Release(), df, 6)
    assert all(np.array_equal(observed.columns[j].known_values, df.iloc[:, j]) for j in range(2))
    observed = observe(
        Suppress(columns="b") | Suppress(rows=[1, 4]), (Suppress(columns="b") | Suppress(rows=[1, 4])).release(df, 1), 6
    )
    assert observed.columns[1].uninformative.all()
    assert np.isnan(observed.columns[0].known_values).nonzero()[0].tolist() == [1, 4]
    assert np.array_equal(observed.columns[0].uninformative, np.isnan(observed.columns[0].known_values))


def test_sizes_per_record_column_and_entry() -> None:
    df = frame()
    sizes = np.array([0.0, 1.0, 2.0, np.inf, 0.5, 3.0])
    mask = Noise(sd=sizes)
    released = mask.release(df, 1)
    for j, column in enumerate(observe(mask, released, 6).columns):
        centre, variance = column.normal
        np.testing.assert_allclose(variance, sizes**2)
        np.testing.assert_array_equal(centre[variance < np.inf], released.iloc[:, j][variance < np.inf])
        assert column.known_values[0] == df.iloc[0, j]
        assert column.uninformative[3]
    mask = Noise(variance=[1.0, 4.0])
    assert [c.normal[1][0] for c in observe(mask, mask.release(df, 1), 6).columns] == [1.0, 4.0]
    table = np.arange(1.0, 13.0).reshape(6, 2)
    mask = Noise(variance=table)
    np.testing.assert_allclose(
        np.stack([c.normal[1] for c in observe(mask, mask.release(df, 1), 6).columns], axis=1), table
    )
    mask = Noise(variance=np.where(df["a"] > 5, 6.0, 2.0), columns="b")
    observed = observe(mask, mask.release(df, 1), 6)
    np.testing.assert_allclose(observed.columns[1].normal[1], np.where(df["a"] > 5, 6.0, 2.0))
    assert np.array_equal(observed.columns[0].known_values, df["a"])


def test_correlated_noise_is_one_joint_law() -> None:
    df = frame(5, 3)
    cov = np.array([[1.0, 0.6], [0.6, 2.0]])
    mask = (
        Noise(variance=0.5, columns=["a"]) | Noise(covariance=cov, columns=["a", "c"]) | Noise(variance=[0.1, 0.2, 0.3])
    )
    released = mask.release(df, 1)
    released.loc[2, "c"] = np.nan
    observed = observe(mask, released, 5)
    joint = observed.joint
    assert joint.columns == (0, 2)
    total = np.array([[1.0 + 0.5 + 0.1, 0.6], [0.6, 2.3]])
    covariance = np.broadcast_to(joint.covariance, (5, 3, 3))
    for row in (0, 1, 3, 4):
        np.testing.assert_allclose(covariance[row][np.ix_([0, 2], [0, 2])], total, rtol=1e-14)
    np.testing.assert_allclose(covariance[2, 0, 0], 1.6, rtol=1e-14)  # what is missing has no noise that counts
    np.testing.assert_array_equal(joint.centre[:, [0, 2]], released[["a", "c"]].to_numpy())
    assert observed.columns[0].uninformative.all() and observed.columns[2].uninformative.all()
    np.testing.assert_allclose(observed.columns[1].normal[1], 0.2)
    sample = Subsample(size=3) | Noise(covariance=np.eye(3) + 0.5)
    observed = observe(sample, sample.release(df, 1), 5)
    assert np.isnan(observed.joint.centre).all(axis=1).sum() == 2


def test_a_sample_leaves_the_others_silent_at_their_places() -> None:
    df = frame(8, 1)
    mask = Noise(sd=np.arange(1.0, 9.0)) | Subsample(size=3) | Round(base=0.5)
    released = mask.release(df, 4)
    column = observe(mask, released, 8).columns[0]
    kept = released.index.to_numpy()
    assert np.array_equal(np.flatnonzero(~column.uninformative), kept)
    for i in kept:
        v = released.loc[i, "a"]
        expected = np.log(np.diff(stats.norm(df.loc[i, "a"], i + 1.0).cdf([v - 0.25, v + 0.25]))[0])
        assert column.log(df["a"].to_numpy())[i] == pytest.approx(expected, rel=1e-9)


def test_averages_carry_the_average_of_the_noise() -> None:
    df = frame(7, 2)
    mask = Noise(variance=np.arange(1.0, 8.0)) | Microaggregate(size=3, by="rows")
    released = mask.release(df, 2)
    averages = observe(mask, released, 7).averages
    assert averages.label.tolist() == [0, 0, 0, 1, 1, 1, 1]
    np.testing.assert_allclose(averages.variance, np.repeat([[6 / 9], [22 / 16]], 2, axis=1))
    np.testing.assert_allclose(averages.values, released.iloc[[0, 3]].to_numpy())
    # What is missing before the average does not count in it; what is suppressed after it does.
    mask = Suppress(rows=[0], columns="a") | Noise(variance=2.0) | Microaggregate(groups=1) | Suppress(rows=[1])
    averages = observe(mask, mask.release(df, 2), 7).averages
    assert averages.sizes.tolist() == [[6, 7]]
    np.testing.assert_allclose(averages.variance, [[2 / 6, 2 / 7]])
    mask = Noise(covariance=[[1.0, 0.5], [0.5, 2.0]]) | Microaggregate(groups=1)
    np.testing.assert_allclose(
        observe(mask, mask.release(df, 2), 7).averages.covariance[0], np.array([[1, 0.5], [0.5, 2]]) / 7
    )
    mask = Subsample(size=4) | Microaggregate(groups=2)
    released = mask.release(df, 2)
    averages = observe(mask, released, 7).averages
    assert np.array_equal(np.flatnonzero(averages.label >= 0), released.index)
    assert averages.label[released.index].tolist() == [0, 0, 1, 1]


def test_noisy_copies_of_an_average_are_one_look_at_it() -> None:
    df = frame(5, 1)
    variance = np.array([1.0, 2.0, 0.5, 3.0, 4.0])
    mask = Microaggregate(groups=[0, 1, 0, 1, 1]) | Noise(variance=variance)
    y = mask.release(df, 2)["a"].to_numpy()
    averages = observe(mask, mask.release(df, 2), 5).averages
    for group, rows in enumerate([[0, 2], [1, 3, 4]]):
        for mean in (2.0, 5.5):
            whole = stats.norm(mean, np.sqrt(variance[rows])).logpdf(y[rows]).sum()
            one = stats.norm(mean, np.sqrt(averages.variance[group, 0])).logpdf(averages.values[group, 0])
            assert one + averages.constant[group, 0] == pytest.approx(whole, rel=1e-12)


def test_a_tail_mean_is_an_average_of_values_beyond_the_threshold() -> None:
    df = pd.DataFrame({"a": [1.0, 20.0, 50.0, 9.0], "b": [1.0, 2.0, 3.0, 30.0]})
    mask = Topcode(at=10, replace="mean")
    observed = observe(mask, mask.release(df), 4)
    assert observed.columns[0].low.tolist() == [1.0, 10.0, 10.0, 9.0]
    assert observed.columns[0].high.tolist() == [1.0, np.inf, np.inf, 9.0]
    # A tail of one record is its own mean.
    assert observed.columns[1].known_values.tolist() == df["b"].tolist()
    assert observed.averages.sizes.tolist() == [[2, 0]]
    assert observed.averages.values[0, 0] == 35.0


def test_topcode_bottomcode_and_intervals_have_their_sides() -> None:
    column = column_of(Topcode(at=10), [3.0, 10.0])
    assert column.known_values[0] == 3.0
    assert column.log([[3.0, 9.99], [4.0, 10.0], [3.0, 1e9]]).tolist() == [[0.0, -np.inf], [-np.inf, 0.0], [0.0, 0.0]]
    column = column_of(Bottomcode(at=1), [1.0])
    assert (column.low[0], column.high[0]) == (-np.inf, 1.0)
    for base in (5, 0.1):
        x = np.arange(-40, 41) * base / 4
        released = Round(base=base).release(x)
        for value in np.unique(released):
            inside = np.isfinite(column_of(Round(base=base), [value]).log(x[:, None])[:, 0])
            assert np.array_equal(inside, released == value)
    for mask in (
        Recode(bins=[0, 10, 20]),
        Recode(bins=[-np.inf, 0, 10, np.inf], label=["x", "y", "z"]),
        Recode(width=5),
        Recode(bins=[0, 5, 20], label="lower"),
    ):
        x = np.array([0.0, 3.0, 5.0, 9.99, 10.0, 20.0])
        released = mask.release(pd.DataFrame({"a": x}))
        logs = observe(mask, released, 6).columns[0].log(x[:, None])
        same = released["a"].to_numpy()[:, None] == released["a"].to_numpy()[None]
        assert np.array_equal(np.isfinite(logs), same)


def test_shuffle_says_so_and_refuses_what_it_hides() -> None:
    df = frame()
    mask = Noise(sd=1.0) | Shuffle()
    assert observe(mask, mask.release(df, 1), 6).shuffled
    assert not observe(Noise(sd=1.0), Noise(sd=1.0).release(df, 1), 6).shuffled
    mask = Shuffle() | Noise(sd=np.arange(1.0, 7.0))
    assert observe(mask, mask.release(df, 1), 6).columns[0].normal[1].tolist() == [1, 4, 9, 16, 25, 36]
    for hidden in (Noise(sd=np.arange(1.0, 7.0)), Suppress(rows=[0]), Microaggregate(groups=2)):
        mask = hidden | Shuffle()
        with pytest.raises(UnsupportedError, match=r"Shuffle\(\) first"):
            observe(mask, mask.release(df, 1), 6)
    mask = Subsample(size=2) | Shuffle()
    observed = observe(mask, mask.release(df, 1), 6)
    assert observed.shuffled and observed.columns[0].uninformative.sum() == 4


# -- categories -------------------------------------------------------------------------------------------


def test_pram_has_the_chance_of_each_category() -> None:
    matrix = np.array([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.0, 0.2, 0.8]])
    mask = PRAM(matrix=matrix, categories=[1, 2, 5], columns=["a"])
    df = pd.DataFrame({"a": [1, 2, 5, 5], "b": [0.1, 0.2, 0.3, 0.4]})
    released = mask.release(df, 3)
    released.loc[3, "a"] = np.nan
    column = observe(mask, released, 4).columns[0]
    assert column.support.tolist() == [1, 2, 5]
    x, logw = nodes(column, -10, 10)
    assert x.shape == (3, 4)
    for i in range(3):
        np.testing.assert_allclose(np.exp(logw[:, i]), matrix[:, [1, 2, 5].index(released.loc[i, "a"])], atol=1e-15)
    np.testing.assert_allclose(np.exp(logw[:, 3]), 1.0)
    n = 20_000
    for row, category in enumerate([1, 2, 5]):
        drawn = mask.release(pd.DataFrame({"a": np.full(n, category)}), 7)["a"].to_numpy()
        for p, to in zip(matrix[row], [1, 2, 5], strict=True):
            assert abs(np.mean(drawn == to) - p) <= 4 * np.sqrt(p * (1 - p) / n)


def test_chains_of_categories_multiply_their_matrices() -> None:
    first, second = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.7, 0.3], [0.4, 0.6]])
    mask = Stochastic(first, inputs=["n", "y"]) | PRAM(matrix=second, categories=["n", "y"])
    column = observe(mask, pd.DataFrame({"a": ["n", "y", "y"]}), 3).columns[0]
    np.testing.assert_allclose(np.exp(column.log(np.array([[0.0], [1.0]]))), (first @ second)[:, [0, 1, 1]])
    mask = PRAM(stay=0.8, categories=[0, 1, 2]) | Recode(categories={0: "low", 1: "low", 2: "high"})
    column = observe(mask, pd.DataFrame({"a": ["low", "high"]}), 2).columns[0]
    np.testing.assert_allclose(
        np.exp(column.log(np.array([[0.0], [1.0], [2.0]]))), [[0.9, 0.1], [0.9, 0.1], [0.2, 0.8]]
    )
    mask = Recode(bins=[0, 1, 5], label=["few", "many"]) | PRAM(
        matrix=[[0.9, 0.1], [0.3, 0.7]], categories=["few", "many"]
    )
    column = observe(mask, pd.DataFrame({"a": pd.Categorical(["few", "many"])}), 2).columns[0]
    np.testing.assert_allclose(
        np.exp(column.log(np.array([[0.5], [3.0], [9.0]]))), [[0.9, 0.1], [0.3, 0.7], [0.0, 0.0]]
    )
    _x, logw = nodes(column, -1, 8)
    np.testing.assert_allclose(np.exp(logw).sum(axis=0), [0.9 + 4 * 0.3, 0.1 + 4 * 0.7])


# -- a mask of one's own ----------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Exponential(Mask):
    """Adds exponential noise: a user's mask, with one method for its likelihood."""

    mean: float = 2.0

    def apply(self, frame: Any, rng: np.random.Generator) -> Any:
        values, positions = frame.numeric("Exponential", None)
        return frame.replace(values + rng.exponential(self.mean, values.shape), positions)

    def log_likelihood(self, released: Any, x: Any, math: Any) -> Any:
        return math.where(x <= released, -(released - x) / self.mean - np.log(self.mean), -np.inf)


@dataclass(frozen=True, repr=False)
class Bounded(Exponential):
    """The same, which says where x can be, and asks for the column."""

    def log_likelihood(self, released: Any, x: Any, math: Any, column: Any = None) -> Any:
        assert column in ("a", 0)
        return super().log_likelihood(released, x, math)

    def likelihood_support(self, released: Any) -> Any:
        return -np.inf, released


@pytest.mark.parametrize(
    "mask", [Exponential(), Bounded(), Round(base=2) | Exponential(), Exponential() | Suppress(rows=[0])], ids=str
)
def test_a_users_mask_needs_one_method(mask: Mask) -> None:
    df = pd.DataFrame({"a": [1.0, 5.0, 400.0]})
    released = mask.release(df, 1)
    column = observe(mask, released, 3).columns[0]
    start = np.round(df["a"] / 2) * 2 if len(mask.parts) > 1 and isinstance(mask.parts[0], Round) else df["a"]
    expected = np.where(released["a"].isna(), 0.0, stats.expon(start, 2.0).logpdf(released["a"]))
    np.testing.assert_allclose(column.log(df["a"].to_numpy()), expected, rtol=1e-12)
    if len(mask.parts) == 1:
        f = stats.norm(3, 4).pdf
        x, logw = nodes(column, -60, 60, panels=30)
        for i in range(2):
            exact = integrate.quad(
                lambda t, i=i: f(t) * stats.expon(t, 2.0).pdf(released["a"][i]), -60, released["a"][i], limit=200
            )[0]
            tolerance = 1e-9 if isinstance(mask, Bounded) else 1e-6
            assert np.sum(np.exp(logw[:, i]) * f(x[:, i])) == pytest.approx(exact, rel=tolerance)


def test_a_users_mask_must_be_last_and_give_numbers() -> None:
    with pytest.raises(UnsupportedError, match="last in the chain"):
        observe(Exponential() | Round(base=1), np.array([1.0]), 1)

    class Wrong(Exponential):
        def log_likelihood(self, released: Any, x: Any, math: Any) -> Any:
            return np.float64(np.nan) * x

    with pytest.raises(InputError, match="log probabilities"):
        column_of(Wrong(), [1.0]).log([2.0])

    class Shape(Exponential):
        def log_likelihood(self, released: Any, x: Any, math: Any) -> Any:
            return 0.0

    with pytest.raises(InputError, match="one number per value"):
        column_of(Shape(), [1.0]).log([2.0])


# -- refusals ---------------------------------------------------------------------------------------------

REFUSED = [
    (RankSwap(within=0.2), "ruv.measure"),
    (Swap(rate=0.5, columns=[0]), "ruv.measure"),
    (Resample(), "ruv.measure"),
    (DataShuffle(columns=["a"]), "ruv.measure"),
    (Synthesize(), "log_likelihood"),
    (MicroaggregateMixed(size=2), "Microaggregate by rows"),
    (LocalSuppress(keys=["a"], k=2), "ruv.measure"),
    (SuppressCells(), "TableBelief"),
    (Microaggregate(size=2, by="mdav"), 'by="rows"'),
    (Microaggregate(size=2, centre="median"), 'centre="mean"'),
    (Noise(share=0.1), "variance="),
    (Noise(variance=1.0, common=True), "Exact"),
    (MomentNoise(variance=1.0), "ruv.measure"),
    (Microaggregate(size=2) | ResidualNoise(), "ruv.measure"),
    (Noise(covariance=[[1, 0.5], [0.5, 1]], kind="t", df=4), "diagonal"),
    (Noise(covariance=[[1, 0.5], [0.5, 1]]) | Clip(lower=1), "independent noise"),
    (Round(base=1) | Noise(covariance=[[1, 0.5], [0.5, 1]]), "independent noise"),
    (Noise(covariance=[[1, 0.5], [0.5, 1]]) | Round(base=1), "independent noise"),
    (MultiplicativeNoise(sd=0.1, per="record"), 'per="entry"'),
    (MultiplicativeNoise(sd=0.0, kind="mixture", away=0.1), "sd above 0"),
    (Topcode(quantile=0.9), "at="),
    (Topcode(at=4, replace="median"), "threshold"),
    (PRAM(stay=0.8), "categories="),
    (PRAM(stay=0.8, categories=[0, 1], invariant=True), "without invariant"),
    (Recode(categories={0: 1}, other=2), "Name all categories"),
    (Noise(sd=1.0, kind="laplace") | Microaggregate(groups=1), "plain normal noise"),
    (Round(base=1) | Microaggregate(groups=1), "Microaggregate"),
    (Microaggregate(groups=1) | Round(base=1), "Noise"),
    (Microaggregate(groups=2) | Microaggregate(groups=1), "one Microaggregate"),
    (Subsample(size=2) | Subsample(size=2), "one Subsample"),
    (Noise(sd=lambda x: 0.1 * (x > 2)), "above 0"),
]


def test_numbers_in_single_precision_are_the_decimals_that_were_meant() -> None:
    for mask in (Round(base=0.1), Recode(width=0.1, label="lower"), Recode(bins=[0, 0.1, 0.3], label="midpoint")):
        data = pd.DataFrame({"a": np.array([0.21, 0.07, 0.13])})
        wide = observe(mask, mask.release(data), 3).columns[0]
        narrow = observe(mask, mask.release(data.astype(np.float32)).astype(np.float32), 3).columns[0]
        np.testing.assert_array_equal(narrow.low, wide.low)
        np.testing.assert_array_equal(narrow.high, wide.high)


@pytest.mark.parametrize(("mask", "do"), REFUSED, ids=[str(m) for m, _ in REFUSED])
def test_refusals_name_what_to_do(mask: Mask, do: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        observe(mask, pd.DataFrame(np.ones((4, 2)), columns=["a", "b"]), 4)
    assert do in error.value.do or do in error.value.what


def test_bad_releases_are_refused_without_their_values() -> None:
    for mask, release in (
        (Round(base=5), [3.25]),
        (Topcode(at=3), [4.25]),
        (Recode(bins=[0, 10], label="midpoint"), [4.25]),
        (Recode(width=4, label="lower"), [4.25]),
        (Noise(sd=1.0) | Clip(lower=5.0), [4.25]),
        (Microaggregate(groups=1), [3.25, 4.25]),
    ):
        with pytest.raises(InputError, match="cannot have made") as error:
            observe(mask, np.array(release), len(release))
        assert "4.25" not in str(error.value)
    for release, n, words in (
        (np.zeros(3), 2, "at most 2 rows"),
        (np.zeros(2), 3, "which records"),
        (np.zeros((2, 2, 2)), 2, "dimensions"),
        (np.array([np.inf, 1.0]), 2, "finite"),
        (pd.DataFrame({"a": [1.0]}, index=["x"]), 1, "numbered from 0"),
        (pd.DataFrame({"a": ["x"]}), 1, "text"),
    ):
        with pytest.raises(InputError, match=words):
            observe(Release(), release, n)
    with pytest.raises(InputError, match="name the 1 columns"):
        observe(Release(), np.zeros(2), 2, columns=["a", "b"])
    with pytest.raises(InputError, match="Known values"):
        Known([np.nan])


# -- extremes and invariants ------------------------------------------------------------------------------


@pytest.mark.parametrize("sd", [1e-8, 1e-3, 1.0, 1e8])
@pytest.mark.parametrize("kind", ["normal", "laplace", "t", "mixture"])
def test_any_size_of_noise_stays_finite_and_whole(sd: float, kind: str) -> None:
    options = {"df": 4} if kind == "t" else {}
    for mask in (
        Noise(sd=sd, kind=kind, **options),
        Noise(sd=sd, kind=kind, **options) | Clip(lower=3.0),
        Noise(sd=sd, kind=kind, **options) | Round(base=1),
    ):
        release = np.array([3.0, 3.0]) if len(mask.parts) > 1 else np.array([3.0, 4.0])
        column = column_of(mask, release)
        with np.errstate(all="raise", under="ignore"):
            logs = column.log(np.array([[3.0, 3.5], [3.0 + sd, 4.0 - sd]]))
        assert np.all(np.isfinite(logs[0, 0]))
        assert not np.isnan(logs).any()
        x, logw = nodes(column, -1e10, 1e10)
        assert np.all(np.isfinite(x)) and not np.isnan(logw).any()
    x, logw = nodes(column_of(Noise(sd=sd, kind=kind, **options), [3.0]), -1e10, 1e10, panels=16)
    inside = {"normal": 1.0, "mixture": 1.0, "laplace": 1.0, "t": 1.0}[kind]
    assert np.exp(logw).sum() == pytest.approx(inside, rel=1e-7)


@given(
    a=st.floats(-1e3, 1e3),
    width=st.floats(1e-9, 1e3),
    sd=st.floats(1e-2, 1e2),
    kind=st.sampled_from(["normal", "laplace", "t"]),
)
@settings(deadline=None, max_examples=60)
def test_probabilities_of_intervals_add_up(a: float, width: float, sd: float, kind: str) -> None:
    s = np.array([sd])
    law = {"normal": NormalLaw.of(s), "laplace": LaplaceLaw(s), "t": StudentLaw(s, 5.0)}[kind]
    a_, b_ = np.array([a]), np.array([a + width])
    if not b_ > a_:
        return
    middle = a_ + (b_ - a_) / 2
    if not a_ < middle < b_:
        return
    whole = law.log_between(a_, b_)[0]
    parts = np.logaddexp(law.log_between(a_, middle)[0], law.log_between(middle, b_)[0])
    assert whole == pytest.approx(parts, rel=1e-11, abs=1e-6 * min(1.0, 1e-7 / width) + 1e-9)
    below = np.logaddexp(law.log_below(a_)[0], whole)
    assert law.log_below(b_)[0] == pytest.approx(below, rel=1e-9, abs=1e-8)
    assert law.log_above(a_)[0] == pytest.approx(np.logaddexp(law.log_above(b_)[0], whole), rel=1e-9, abs=1e-8)


def test_far_tails_keep_their_digits() -> None:
    law = NormalLaw.of([1.0])
    for a, b in ((-40.0, -39.0), (30.0, 30.001), (-1.0, 1e-6), (5.0, 50.0), (1000.0, 1001.0), (3.0, 3.0 + 1e-7)):
        near = a if abs(a) < abs(b) else b
        top = -0.5 * near * near
        # Relative to the density at the nearer end nothing is small: plain quadrature knows all the digits.
        reach = np.clip([a, b], near - 60 / max(abs(near), 1), near + 60 / max(abs(near), 1))
        share = integrate.quad(
            lambda t: np.exp(-0.5 * (t - near) * (t + near)),  # noqa: B023
            *reach,
            epsabs=0,
            epsrel=1e-13,
            limit=200,
        )[0]
        exact = top + np.log(share) - 0.5 * np.log(2 * np.pi)
        assert law.log_between(np.array([a]), np.array([b]))[0] == pytest.approx(exact, rel=1e-12)


@given(st.data())
@settings(deadline=None, max_examples=40)
def test_taking_rows_is_taking_their_likelihoods(data: Any) -> None:
    case = data.draw(st.sampled_from([c for c in CASES if len(c.mask.parts) == 1]))
    y = case.mask.release(np.array([0.7, 3.0, 12.4, 5.1]), 5)
    column = column_of(case.mask, y)
    rows = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True))
    x = np.linspace(0.5, 12, 4)
    np.testing.assert_array_equal(column.take(rows).log(x[rows]), column.log(x)[rows])
    np.testing.assert_array_equal(column.take(rows).low, column.low[rows])
    np.testing.assert_array_equal(column.take(rows).window()[1], column.window()[1][rows])
    low, high = column.window()
    assert np.all(low >= column.low) and np.all(high <= column.high)
    assert np.all(column.scale >= 0)


def test_pieces_put_entries_in_their_places() -> None:
    whole = join_rows(
        4,
        [
            ([2, 0], Known([7.0, 8.0])),
            ([1], AdditiveNoise(NormalLaw.of([2.0])).likelihood_from_value(np.array([1.0]))),
            ([3], Uninformative(1)),
        ],
    )
    np.testing.assert_array_equal(whole.known_values, [8.0, np.nan, 7.0, np.nan])
    _centre, variance = whole.normal
    assert variance.tolist() == [0.0, 4.0, 0.0, np.inf]
    assert join_rows(2, [([1, 0], Known([1.0, 2.0]))]).known_values.tolist() == [2.0, 1.0]
    assert whole.take([3, 0]).uninformative.tolist() == [True, False]
    mixed = join_rows(2, [([0], Between([0.0], [1.0])), ([1], Uninformative(1))])
    assert mixed.normal is None
    assert "7.0" not in repr(whole) and "8.0" not in repr(Known([8.0]))
    with pytest.raises(InputError, match="no likelihood in numbers"):
        KnownLabels(["a"]).log([1.0], NUMPY)


@pytest.mark.parametrize("name", ["ndtr", "log_ndtr", "rint", "exp", "log1p", "expm1", "isfinite"])
def test_tensors_are_worked_on_as_numbers_are(name: str) -> None:
    import pytensor.tensor as pt

    x = np.array([-0.999, -0.5, -1e-9, 0.0, 0.3, 1.5, 2.5, 6.0])
    found = getattr(tensor_math(), name)(pt.as_tensor_variable(x)).eval()
    np.testing.assert_allclose(found, getattr(NUMPY, name)(x), rtol=1e-12, atol=1e-300)
