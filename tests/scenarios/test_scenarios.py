"""The additive-noise scenarios: the papers' numbers, closed forms against engines, quadrature against simulation."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import places
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose
from scipy import optimize, stats

from ruvdecision.engines.rules import clipped_noise as incomes
from ruvdecision.errors import InfeasibleError, InputError, UnsupportedError
from ruvdecision.numerics.counts import binomial_exceeds, order_statistic_cdf, order_statistic_sf
from ruvdecision.numerics.orderstatistics import extreme_constants, normal_moments
from ruvdecision.scenarios import (
    Curve,
    Masked,
    RankPosterior,
    additive_noise,
    bayes,
    crossings,
    curves,
    exact,
    formulas,
    map_curves,
    optimal_noise,
)

SHARED = places.SHARED
N, RATIO = 200, 1.21  # the figures of Duncan et al.: n = 200, sigma = 1, lambda^2 = .21


# -- reference numbers -----------------------------------------------------------------------------------------


def risk(**settings_: object) -> Callable[[float], float]:
    settings_.setdefault("n", N)
    return lambda l2: float(Curve(**settings_).risk(l2))  # type: ignore[arg-type]


def figure(first: Curve, second: Curve) -> list[float]:
    return [c.noise_variance for c in crossings([first, second])]


PERCENTILE = {"target": "percentile", "p": 0.99}
MAXIMUM = {"target": "maximum", "knowledge": "sample"}
IN_SAMPLE = {"knowledge": "sample", "method": "exact"}


def dks_numbers() -> dict[tuple[str, str], Callable[[], float]]:
    table: dict[tuple[str, str], Callable[[], float]] = {}
    for l2 in (0.0, 0.2, 0.21, 1.0):
        table["DKS utility", f"n=200 s2=1 l2={l2}"] = lambda l2=l2: float(Curve(n=N).utility(l2))
        table["DKS (2) risk, population target", f"n=200 s2=1 l2={l2}"] = lambda l2=l2: risk()(l2)
        table["exact risk of Ybar, target in sample", f"n=200 s2=1 l2={l2}"] = lambda l2=l2: risk(**IN_SAMPLE)(l2)
        table["DKS (8) risk p=.99", f"n=200 s2=1 l2={l2}"] = lambda l2=l2: risk(**PERCENTILE)(l2)
        table["exact version of (8): rank 198 of 200", f"n=200 s2=1 l2={l2}"] = lambda l2=l2: risk(
            **PERCENTILE, method="exact"
        )(l2)
        table["DKS (10) risk", f"n=200 s2=1 l2={l2}"] = lambda l2=l2: risk(**MAXIMUM)(l2)
    table["exact (1), target in sample, tau=mu+2sigma", "n=10 s2=1 l2=.21"] = lambda: risk(n=10, tau=2.0, **IN_SAMPLE)(
        0.21
    )
    table["DKS (4) risk", "l2=.21"] = lambda: risk(knowledge="record")(0.21)
    record = Curve(n=N, knowledge="record")
    table["crossover in-sample Ybar vs Y_i", "n=200 s2=1"] = lambda: figure(Curve(n=N, **IN_SAMPLE), record)[0]
    table["crossover printed (n-1)/(n+1): gap R2-R4 there (<0)", "n=200 s2=1"] = lambda: (
        risk()(199 / 201) - risk(knowledge="record")(199 / 201)
    )
    table["Figure 3/4 crossing (8)=(4), upper: l2", "n=200 s2=1 p=.99"] = lambda: figure(
        Curve(n=N, **PERCENTILE), record
    )[1]
    table["max over l2 of (10)/(4) (<1: extreme never riskier by eq 10)", "n=200 s2=1"] = lambda: (
        -float(
            optimize.minimize_scalar(
                lambda v: -risk(**MAXIMUM)(v) * v, bounds=(0.01, 5), method="bounded", options={"xatol": 1e-10}
            ).fun
        )
    )
    for n in (10, 50, 77, 200, 1000):
        k1, k2 = extreme_constants(n)
        mean, spread = normal_moments(n, n)
        table["K_n1", f"n={n}"], table["K_n2", f"n={n}"] = lambda k1=k1: k1, lambda k2=k2: k2
        table["exact E max of n normals", f"n={n} (K_n1={k1:.7g}, {100 * (k1 / mean - 1):+.2f}%)"] = lambda mean=mean: (
            mean
        )
        table["exact Var max of n normals", f"n={n} (K_n2={k2:.7g}, {100 * (k2 / spread - 1):+.2f}%)"] = (
            lambda spread=spread: spread
        )
        table["(10) with exact order-statistic constants", f"n={n} s2=1 l2=.21"] = lambda mean=mean, spread=spread: (
            1 / (spread * RATIO + mean**2 * (np.sqrt(RATIO) - 1) ** 2)
        )
        shown = f"n={n} s2=1 l2=.21 (eq 10: {risk(n=n, **MAXIMUM)(0.21):.6g})"
        table["exact risk, target = sample max", shown] = lambda n=n: risk(n=n, method="exact", **MAXIMUM)(0.21)
    for l2 in (0.01, 0.05, 0.5, 1.0, 2.0):
        shown = f"n=200 s2=1 l2={l2} (eq 10: {risk(**MAXIMUM)(l2):.6g}; 1/l2={1 / l2:g})"
        table["exact risk, target = sample max", shown] = lambda l2=l2: risk(method="exact", **MAXIMUM)(l2)
    table["exact crossing: sample-max risk = 1/l2, at l2", "n=200 s2=1"] = lambda: (
        crossings([Curve(n=N, method="exact", **MAXIMUM), record], low=0.05, high=2, points=9)[0].noise_variance
    )
    table["best linear use of Y_(n) for x_(n): MSE", "n=200 s2=1 l2=.21"] = lambda: float(
        exact.best_linear_mse(N, 1.0, 0.21, N)
    )
    for state, name in (("sample", "sample"), ("population", "pop")):
        for prior, shown in (("known", "mu known"), ("flat", "flat"), (("normal", 4.0), "f2=4")):
            table[f"Bayes snooper risk, {name}, {shown}", "n=50 s2=1 l2=.21"] = lambda state=state, prior=prior: risk(
                n=50, knowledge=state, method="bayes", prior=prior
            )(0.21)
    table["Bayes record risk, mu known (= 1/l2+1/s2)", "n=200 s2=1 l2=.21"] = lambda: risk(
        knowledge="record", method="bayes", prior="known"
    )(0.21)
    flat = Curve(n=N, knowledge="record", method="bayes")
    table["l2 for Bayes record risk 5, flat prior", "n=200 s2=1"] = lambda: optimal_noise(flat, 5).noise_variance
    table["  utility there", "n=200 s2=1"] = lambda: optimal_noise(flat, 5).utility
    table["Bayes pop-percentile risk, sigma known, flat (= U)", "n=200 s2=1 l2=.21"] = lambda: risk(
        **PERCENTILE, method="bayes"
    )(0.21)
    table["average in-sample risk of Ybar given data x", "x=(1,2,3,4,10) l2=2"] = lambda: risk(
        n=5, data=[1, 2, 3, 4, 10], **IN_SAMPLE
    )(2.0)
    return table


RANKS = {
    77: {"min": 1, "p10": 8, "p90": 69, "p99": 76, "max": 77},
    177: {"min": 1, "p10": 18, "p90": 160, "p99": 176, "max": 177},
}


def load_incomes(n: int) -> np.ndarray:
    path = SHARED / "data" / f"teacher_income_{n}.csv"
    if not path.exists():
        pytest.skip("the synthetic incomes in shared/data are not beside the project")
    return np.loadtxt(path, skiprows=1)


def income_numbers(n: int) -> dict[tuple[str, str], Callable[[], float]]:
    x = load_incomes(n)
    spread = float(x.var(ddof=1))
    ranks = RANKS[n]
    name = f"n={n} synthetic"
    at = f"{name} l2=.12 S_x^2"
    table: dict[tuple[str, str], Callable[[], float]] = {
        ("SecV sample mean", name): lambda: float(x.mean()),
        ("SecV utility unmasked n/S^2 (paper 10.0E-07)", name): lambda: 1 / incomes.scientist_mse(x, 0.0)[0],
        ("SecV efficiency at l2=.12 S_x^2", name): lambda: spread / n / incomes.scientist_mse(x, 0.12 * spread)[0],
        ("SecV min target, position: smallest risk over l2 (> 4E-08)", name): lambda: (
            1 / incomes.ranked_record_mse(x, 1e6 * spread, 1)[0]
        ),
    }
    for target, rank in ranks.items():
        table[f"SecV risk {target}, index knowledge", at] = lambda rank=rank: (
            1 / float(incomes.linked_record_mse(x[rank - 1], 0.12 * spread))
        )
        table[f"SecV risk {target}, position knowledge", at] = lambda rank=rank: (
            1 / incomes.ranked_record_mse(x, 0.12 * spread, rank)[0]
        )

    def solve(rank: int, *, unequal: bool = False) -> float:
        def gap(share: float) -> float:
            v = incomes.noise_variances_by_threshold(x, share * spread, above=35_000) if unequal else share * spread
            return incomes.ranked_record_mse(x, v, rank)[0] * 4e-8 - 1

        return optimize.brentq(gap, 0.02, 0.5, xtol=1e-13)

    def released() -> float:
        return optimize.brentq(
            lambda s: s - 0.12 * incomes.released_variance(x, s * spread)[0] / spread, 0.05, 0.5, xtol=1e-14
        )

    table["SecV l2 = .12 E S_y^2: l2/S_x^2", name] = released
    table["  utility there (paper 8.9E-07)", name] = lambda: 1 / incomes.scientist_mse(x, released() * spread)[0]
    table["SecV max target: l2/S_x^2 for R=4E-08", name] = lambda: solve(ranks["max"])
    table["  the same as a fraction of E S_y^2", name] = lambda: (
        solve(ranks["max"]) * spread / incomes.released_variance(x, solve(ranks["max"]) * spread)[0]
    )
    table["  efficiency there", name] = lambda: spread / n / incomes.scientist_mse(x, solve(ranks["max"]) * spread)[0]
    table["SecV p99 position: equal-variance l2/S_x^2 at R=4E-08", name] = lambda: solve(ranks["p99"])
    table["  utility, equal variance", name] = lambda: 1 / incomes.scientist_mse(x, solve(ranks["p99"]) * spread)[0]
    table["SecV p99 position: unequal-variance base l2/S_x^2", name] = lambda: solve(ranks["p99"], unequal=True)
    table["  utility, unequal variance (higher)", name] = lambda: (
        1
        / incomes.scientist_mse(
            x, incomes.noise_variances_by_threshold(x, solve(ranks["p99"], unequal=True) * spread, above=35_000)
        )[0]
    )
    table["P(an M=200 run at .12 S_x^2 shows R<=4E-08)", "chi2_200"] = lambda: stats.chi2.sf(
        200 * 2.5e7 / float(incomes.linked_record_mse(x[-1], 0.12 * spread)), 200
    )
    return table


OURS = (
    "DKS",
    "exact",
    "crossover",
    "Figure",
    "max over",
    "K_n",
    "(10)",
    "best linear",
    "Bayes",
    "l2 for",
    "  ",
    "average in-sample",
    "SecV",
    "P(an",
)


def wanted_numbers() -> list[dict[str, Any]]:
    rows = json.loads((places.REFERENCE / "trottini_fienberg_duncan.json").read_text())
    return [x for x in rows if x["name"].startswith(OURS) and not x["name"].startswith("Bayes action")]


def hold(wanted: list[dict[str, Any]], known: dict[tuple[str, str], Callable[[], float]]) -> None:
    missing = [(x["name"], x["inputs"]) for x in wanted if (x["name"], x["inputs"]) not in known]
    assert not missing
    for entry in wanted:
        value = known[entry["name"], entry["inputs"]]()
        assert_allclose(value, entry["value"], rtol=1e-8, err_msg=f"{entry['name']} ({entry['inputs']})")


def test_every_reference_number_of_duncan_et_al() -> None:
    wanted = [x for x in wanted_numbers() if "synthetic" not in x["inputs"] and not x["name"].startswith("P(an")]
    assert len(wanted) > 53
    hold(wanted, dks_numbers())


@pytest.mark.parametrize("n", [77, 177])
def test_every_reference_number_of_the_incomes(n: int) -> None:
    known = income_numbers(n)
    of_both = [x for x in wanted_numbers() if x["name"].startswith("P(an")]
    wanted = [x for x in wanted_numbers() if f"n={n} synthetic" in x["inputs"]]
    assert len(wanted) == 14 and len(of_both) == 1
    hold(wanted + of_both, known)


def test_numbers_that_the_formulas_file_prints() -> None:
    record = Curve(n=N, knowledge="record")
    percentile = Curve(n=N, **PERCENTILE)
    assert_allclose(figure(percentile, record), [0.0849848, 0.8866304], atol=5e-8)
    assert_allclose(figure(percentile, Curve(n=N)), [0.9645338], atol=5e-8)
    # The right comparison for switching to the mean: eq. 1 with tau at the percentile.
    assert_allclose(figure(percentile, Curve(n=N, target="value", tau=stats.norm.ppf(0.99))), [2.906068], atol=5e-7)
    for n, value in ((10, 11 / 9), (200, 201 / 199)):
        assert_allclose(figure(Curve(n=n), Curve(n=n, knowledge="record")), [value], rtol=1e-12)
    assert_allclose(risk(**PERCENTILE, knowledge="sample", method="exact")(0.21), 9.968, atol=5e-4)
    assert_allclose(
        optimal_noise(Curve(n=N, knowledge="record", method="bayes", prior="known"), 5)[1:4],
        (0.25, 5.0, 160.0),
        rtol=1e-12,
    )
    assert_allclose(risk(**PERCENTILE, method="bayes", variance_known=False)(0.21), 38.7, atol=0.05)
    assert abs(float(bayes.order_statistic_mse(N, 1.0, 0.21, N, "known")) - 0.0883) < 4 * 0.0002


# -- closed forms a second way -----------------------------------------------------------------------------------

noise = st.floats(1e-3, 50)
spreads = st.floats(0.05, 20)


@given(
    st.integers(1, 400),
    spreads,
    noise,
    st.one_of(st.just("flat"), st.just("known"), st.tuples(st.just("normal"), st.floats(0.01, 30))),
)
@settings(max_examples=50)
def test_engine_agrees_with_the_table_of_bayes_uncertainties(n: int, s2: float, l2: float, prior: object) -> None:
    v = float(bayes.posterior_variance_of_mean(n, s2, l2, prior))  # type: ignore[arg-type]
    rho = s2 / (s2 + l2)
    expected = {
        "population": s2 + v,
        "sample": s2 * (1 - rho / n) + (1 - rho) ** 2 * v,
        "record": s2 * (1 - rho) + (1 - rho) ** 2 * v,
    }
    for state, value in expected.items():
        assert_allclose(bayes.uncertainty(n, s2, l2, prior, state), value, rtol=1e-9)  # type: ignore[arg-type]
    assert_allclose(bayes.uncertainty(n, s2, l2, prior, "population", percentile=True), v, rtol=1e-9, atol=1e-300)  # type: ignore[arg-type]


@given(st.integers(2, 400), spreads, noise)
@settings(max_examples=40)
def test_nobody_beats_bayes(n: int, s2: float, l2: float) -> None:
    for state in ("population", "sample", "record"):
        plug_in = float(Curve(n=n, variance=s2, knowledge=state, method="exact").uncertainty(l2))
        flat = float(Curve(n=n, variance=s2, knowledge=state, method="bayes").uncertainty(l2))
        known = float(Curve(n=n, variance=s2, knowledge=state, method="bayes", prior="known").uncertainty(l2))
        assert known <= flat * (1 + 1e-12)
        assert flat <= plug_in * (1 + 1e-12)


def test_gaussian_conditioning_by_hand() -> None:
    # The record's posterior variance from the joint covariance matrix, one record at a time.
    n, s2, l2, f2 = 4, 2.0, 0.7, 3.0
    joint = f2 + s2 * np.eye(n)
    cross = joint[0]
    expected = joint[0, 0] - cross @ np.linalg.solve(joint + l2 * np.eye(n), cross)
    assert_allclose(bayes.uncertainty(n, s2, l2, ("normal", f2), "record"), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("n", "rank", "l2"),
    [(1, 1, 0.5), (2, 1, 0.3), (9, 9, 0.21), (9, 4, 2.0), (200, 198, 0.21), (77, 1, 5.0), (1000, 1000, 0.01)],
)
def test_joint_law_by_price_agrees_with_conditioning_on_the_record(n: int, rank: int, l2: float) -> None:
    other = Masked(stats.norm(3.0, 1.5), l2).order_statistic_mse(n, rank)
    assert_allclose(exact.order_statistic_mse(n, 2.25, l2, rank), other, rtol=1e-9)


@pytest.mark.slow
@given(st.integers(1, 60), st.data(), spreads, noise)
@settings(max_examples=10)
def test_order_statistics_scale_mirror_and_grow(n: int, data: st.DataObject, s2: float, l2: float) -> None:
    rank = data.draw(st.integers(1, n))
    value = exact.order_statistic_mse(n, s2, [l2, 1.5 * l2], rank)
    assert_allclose(value, exact.order_statistic_mse(n, s2, [l2, 1.5 * l2], n + 1 - rank), rtol=1e-10)
    assert_allclose(value, s2 * exact.order_statistic_mse(n, 1.0, np.array([l2, 1.5 * l2]) / s2, rank), rtol=1e-7)
    assert value[0] < value[1]
    best = exact.best_linear_mse(n, s2, l2, rank)
    assert bayes.order_statistic_mse(n, s2, l2, rank, "known") <= best * (1 + 1e-9)
    assert best <= value[0] * (1 + 1e-9)


def simulate(n: int, l2: float, seed: int, reps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([n, seed])
    x = rng.standard_normal((reps, n))
    return x, x + np.sqrt(l2) * rng.standard_normal((reps, n)), rng.integers(0, n, reps)


def within(sample: np.ndarray, value: float) -> bool:
    return bool(abs(sample.mean() - value) < 4 * sample.std() / np.sqrt(len(sample)))


@pytest.mark.campaign(4, "slow")
@pytest.mark.parametrize("n", [10, 50, 77, 200, 1000])
def test_plug_in_snoopers_within_simulation_error(n: int) -> None:
    l2, reps = 0.21, 4_000
    x, y, _ = simulate(n, l2, 1, reps)
    mean = y.mean(axis=1)
    new = np.random.default_rng(n).standard_normal(reps)
    assert within((new - mean) ** 2, float(formulas.average_target_mse(n, 1.0, l2)))
    assert within((x[:, 0] - mean) ** 2, float(exact.sample_average_target_mse(n, 1.0, l2)))
    assert within(mean**2, float(formulas.scientist_mean_mse(n, 1.0, l2)))
    xs, ys = np.sort(x, axis=1), np.sort(y, axis=1)
    for rank in sorted({1, max(1, n // 3), n - 2, n}):
        gap = (xs[:, rank - 1] - ys[:, rank - 1]) ** 2
        assert within(gap, float(exact.order_statistic_mse(n, 1.0, l2, rank)))
        away = (ys[:, rank - 1] - stats.norm.ppf(0.9)) ** 2
        assert within(away, float(exact.population_percentile_mse(n, 1.0, l2, 0.9, rank)))
    shrunk = ys[:, -1] - ys[:, -1].mean()
    slope = np.cov(xs[:, -1], ys[:, -1])
    residual = (xs[:, -1] - xs[:, -1].mean() - slope[0, 1] / slope[1, 1] * shrunk) ** 2
    assert within(residual, float(exact.best_linear_mse(n, 1.0, l2, n)))


@pytest.mark.parametrize("n", [10, 200])
def test_targets_of_a_given_value_within_simulation_error(n: int) -> None:
    l2, reps = 0.4, 6_000
    x, y, _ = simulate(n, l2, 2, reps)
    y[:, 0] += 1.7 - x[:, 0]
    assert within((1.7 - y.mean(axis=1)) ** 2, float(exact.sample_given_target_mse(n, 1.0, l2, 1.7)))
    # The maximum is 2.5: the others lie below it.
    rng = np.random.default_rng(7)
    x = stats.norm.ppf(rng.random((reps, n)) * stats.norm.cdf(2.5))
    x[:, 0] = 2.5
    y = x + np.sqrt(l2) * rng.standard_normal(x.shape)
    curve = Curve(n=n, method="exact", tau=4.5, mean=2.0, **MAXIMUM)
    assert within((y.max(axis=1) - 2.5) ** 2, float(curve.uncertainty(l2)))


@pytest.mark.parametrize("scientist_n", [5, 60])
def test_scientist_who_wants_the_variance_within_simulation_error(scientist_n: int) -> None:
    rng = np.random.default_rng(11)
    law, l2 = stats.expon(scale=1.5), 0.8
    y = law.rvs((20_000, scientist_n), random_state=rng) + np.sqrt(l2) * rng.standard_normal((20_000, scientist_n))
    released = y.var(axis=1, ddof=1)
    curve = Curve(n=scientist_n, population=law, scientist="variance")
    assert within((released - law.var()) ** 2, float(curve.scientist_uncertainty(l2)))
    assert within((released - l2 - law.var()) ** 2, float(curve.scientist_uncertainty(l2, informed=True)))


def test_knowing_the_noise_helps_with_the_variance_and_a_prior_but_not_with_the_mean() -> None:
    grid = [0.1, 1.0]
    assert_allclose(Curve(n=50).utility(grid, informed=True), Curve(n=50).utility(grid), rtol=0)
    normal = Curve(n=50, method="bayes", prior=("normal", 2.0))
    assert_allclose(normal.utility(grid, informed=True), 50 / (1 + np.array(grid)) + 0.5, rtol=1e-13)
    wanted = Curve(n=50, scientist="variance")
    assert np.all(wanted.utility(grid, informed=True) > wanted.utility(grid))
    assert_allclose(wanted.scientist_uncertainty(1.0, informed=True), 2 * 4 / 49, rtol=1e-12)


# -- the posterior of an order statistic ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "rank", "prior"),
    [
        (6, 6, "known"),
        (30, 30, "flat"),
        (30, 28, ("normal", 2.0)),
        pytest.param(200, 200, "known", marks=pytest.mark.long),
    ],
)
def test_expected_posterior_variance_of_a_rank_is_the_quadrature(n: int, rank: int, prior: object) -> None:
    l2, reps = 0.21, 150
    rng = np.random.default_rng([n, rank])
    spread = 0.0 if prior in ("known", "flat") else float(prior[1])  # type: ignore[index]
    variances = []
    for _ in range(reps):
        x = np.sqrt(spread) * rng.standard_normal() + rng.standard_normal(n)
        y = x + np.sqrt(l2) * rng.standard_normal(n)
        variances.append(RankPosterior(y, rank, 1.0, l2, prior=prior).var())  # type: ignore[arg-type]
    assert within(np.array(variances), float(bayes.order_statistic_mse(n, 1.0, l2, rank, prior)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("rank", "prior"), [(5, "flat"), (3, ("normal", 0.5)), (1, "known")])
def test_rank_posterior_agrees_with_draws(rank: int, prior: object) -> None:
    y, s2, l2 = np.array([-1.0, 0.2, 0.3, 1.9, 2.4]), 1.5, 0.6
    posterior = RankPosterior(y, rank, s2, l2, prior=prior, prior_mean=0.4)  # type: ignore[arg-type]
    rng = np.random.default_rng(1)
    v = float(bayes.posterior_variance_of_mean(5, s2, l2, prior))  # type: ignore[arg-type]
    precision = 5 / (s2 + l2)
    centre = 0.4 if prior == "known" else v * (precision * y.mean() + (0.4 / 0.5 if prior != "flat" else 0.0))
    mu = centre + np.sqrt(v) * rng.standard_normal(200_000)
    rho = s2 / (s2 + l2)
    x = (1 - rho) * mu[:, None] + rho * y + np.sqrt(s2 * (1 - rho)) * rng.standard_normal((200_000, 5))
    drawn = np.sort(x, axis=1)[:, rank - 1]
    assert within(drawn, posterior.mean())
    assert within((drawn - drawn.mean()) ** 2, posterior.var())
    for at in np.quantile(drawn, [0.1, 0.5, 0.9]):
        assert abs((drawn <= at).mean() - posterior.cdf(at)) < 4 * np.sqrt(0.25 / 200_000)


def test_posterior_of_one_record_is_normal() -> None:
    posterior = RankPosterior([2.0], 1, 1.0, 0.5, prior="known", prior_mean=1.0)
    assert_allclose((posterior.mean(), posterior.var()), (1 + 2 / 3, 1 / 3), rtol=1e-10)
    assert_allclose(posterior.cdf([1.0, 2.0]), stats.norm(5 / 3, np.sqrt(1 / 3)).cdf([1.0, 2.0]), rtol=1e-12)


# -- other populations ---------------------------------------------------------------------------------------------

LAWS = [
    (stats.expon(scale=2), None),
    (stats.gamma(0.5), None),
    pytest.param(stats.uniform(1, 3), stats.laplace(), marks=pytest.mark.long),
    (stats.lognorm(0.7), stats.gamma(3)),
    (stats.norm(1, 2), stats.uniform()),
]


@pytest.mark.campaign(4, "slow")
@pytest.mark.parametrize(("law", "shape"), LAWS)
def test_other_populations_within_simulation_error(law, shape) -> None:
    n, share, reps = 20, 0.4, 20_000
    l2 = share * float(law.var())
    rng = np.random.default_rng(5)
    unit = stats.norm() if shape is None else shape
    x = law.rvs((reps, n), random_state=rng)
    y = np.sort(x + np.sqrt(l2) * (unit.rvs(x.shape, random_state=rng) - unit.mean()) / unit.std(), axis=1)
    x.sort(axis=1)
    for rank in (1, 12, 20):
        where = {"target": "maximum", "rank": n + 1 - rank, "knowledge": "sample"}
        gap = (x[:, rank - 1] - y[:, rank - 1]) ** 2
        assert within(gap, float(Curve(n=n, population=law, noise=shape, method="exact", **where).uncertainty(l2)))
    away = (y[:, 14] - law.ppf(0.75)) ** 2
    assert within(
        away,
        float(Curve(n=n, population=law, noise=shape, method="exact", target="percentile", p=0.75).uncertainty(l2)),
    )


def test_normal_population_as_a_law_is_the_normal_scenario() -> None:
    law = stats.norm(4, 1.5)
    for settings_ in (
        {"target": "maximum", "knowledge": "sample", "method": "paper"},
        {"target": "percentile", "p": 0.9, "method": "bayes"},
    ):
        assert_allclose(
            Curve(n=30, population=law, **settings_).risk(0.5),
            Curve(n=30, variance=2.25, **settings_).risk(0.5),
            rtol=1e-12,
        )
    masked = Masked(law, 0.5)
    assert_allclose(masked.asymptotic_percentile_mse(30, 0.9), formulas.percentile_mse(30, 2.25, 0.5, 0.9), rtol=1e-9)
    assert_allclose(
        masked.population_percentile_mse(30, 0.9, 27),
        exact.population_percentile_mse(30, 2.25, 0.5, 0.9, 27),
        rtol=1e-9,
    )
    released = stats.norm(4, np.sqrt(2.75))
    at = np.array([-6.0, 1.0, 4.0, 9.0, 16.0])
    for name in ("cdf", "sf", "pdf"):
        assert_allclose(getattr(masked, name)(at), getattr(released, name)(at), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.campaign(3)
@pytest.mark.parametrize("law", [stats.expon(), stats.gamma(0.4), stats.t(4), stats.uniform()])
@pytest.mark.parametrize("l2", [1e-4, 0.3, 30.0])
def test_released_law_is_one(law, l2: float) -> None:
    masked = Masked(law, l2)
    at = np.linspace(law.ppf(0.001) - 4 * np.sqrt(l2), law.ppf(0.999) + 4 * np.sqrt(l2), 31)
    assert_allclose(masked.cdf(at) + masked.sf(at), 1.0, atol=1e-12)
    assert np.all(np.diff(masked.cdf(at)) > -1e-13)
    # E F_X(y - e) over the noise, piece by piece, crowding towards the ends of pieces where F may have a corner.
    nodes, weights = np.polynomial.legendre.leggauss(300)
    bend, slope = (3 * nodes - nodes**3) / 2, 1.5 * (1 - nodes**2)
    reach = 9 * np.sqrt(l2)
    for y in at[[10, 15, 20]]:
        edges = np.unique(
            np.clip([-reach, y - law.support()[1], y - law.median(), y - law.support()[0], 0, reach], -reach, reach)
        )
        other = 0.0
        for a, b in itertools.pairwise(edges):
            e = (a + b) / 2 + (b - a) / 2 * bend
            other += np.sum((b - a) / 2 * weights * slope * law.cdf(y - e) * stats.norm.pdf(e, scale=np.sqrt(l2)))
        assert_allclose(masked.cdf(y), other, atol=2e-8)
    p = 0.8
    assert_allclose(masked.cdf(masked.quantile(p)), p, atol=1e-10)


def test_no_noise_leaves_the_population() -> None:
    law = stats.gamma(2)
    masked = Masked(law, 0.0)
    assert masked.order_statistic_mse(10, 4) == 0
    assert_allclose(masked.cdf([1.0, 3.0]), law.cdf([1.0, 3.0]))
    assert_allclose(masked.quantile(0.3), law.ppf(0.3))
    beta = stats.beta(9, 2)
    u = np.random.default_rng(0).random(400_000)
    sample = (law.ppf(beta.ppf(u)) - law.ppf(0.9)) ** 2
    assert within(sample, masked.population_percentile_mse(10, 0.9, 9))


# scipy's own binomial law overflows at subnormal probabilities.
CHANCE = st.floats(0, 1, allow_subnormal=False)


@given(st.integers(0, 40), st.integers(0, 40), CHANCE, CHANCE, st.integers(0, 1))
@settings(max_examples=60)
def test_comparison_of_two_counts(many: int, few: int, p: float, q: float, excess: int) -> None:
    a, b = stats.binom(many, p), stats.binom(few, q)
    k = np.arange(few + 1)
    assert_allclose(
        binomial_exceeds(many, np.array([p]), few, np.array([q]), excess), b.pmf(k) @ a.sf(k + excess - 1), atol=1e-12
    )


# -- records at hand -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lower", "upper"), [(0.0, None), (None, None), (0.0, 7.0), (None, 7.0)])
def test_clipped_moments_agree_with_quadrature(lower: float | None, upper: float | None) -> None:
    nodes, weights = np.polynomial.legendre.leggauss(400)
    for x, v in ((0.0, 1.0), (2.5, 4.0), (6.5, 0.3)):
        sd = np.sqrt(v)
        low, high = -np.inf if lower is None else lower, np.inf if upper is None else upper
        edges = np.unique(np.clip([x - 10 * sd, low, high, x + 10 * sd], x - 10 * sd, x + 10 * sd))
        mean = second = error = 0.0
        for a, b in itertools.pairwise(edges):
            y = (a + b) / 2 + (b - a) / 2 * nodes
            mass = weights * (b - a) / 2 * stats.norm.pdf(y, x, sd)
            clipped = np.clip(y, low, high)
            mean, second, error = mean + mass @ clipped, second + mass @ clipped**2, error + mass @ (clipped - x) ** 2
        found = incomes.clipped_moments(x, v, lower, upper)
        assert_allclose(found, (mean, second - mean**2), rtol=1e-9, atol=1e-12)
        assert_allclose(incomes.linked_record_mse(x, v, lower, upper), error, rtol=1e-9)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=7), st.data(), st.floats(0.01, 30))
@settings(max_examples=25)
def test_position_error_agrees_with_all_subsets(records: list[float], data: st.DataObject, v: float) -> None:
    n = len(records)
    rank = data.draw(st.integers(1, n))
    x = np.sort(records)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    total = 0.0
    # P(Y_(r) <= b) by adding up all subsets of records below b.
    subsets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    for sign in (1, -1):
        end = max(0.0, x[rank - 1] - 0.0) if sign < 0 else 10 + 9 * np.sqrt(v)
        for piece in range(12):
            c = end * (piece + (nodes + 1) / 2) / 12
            b = x[rank - 1] + sign * c
            p = stats.norm.cdf((b[:, None] - x) / np.sqrt(v))
            chance = np.prod(np.where(subsets == 1, p[:, None, :], 1 - p[:, None, :]), axis=2)
            below = (chance * (subsets.sum(axis=1) >= rank)).sum(axis=1)
            total += np.sum(end / 24 * weights * 2 * c * (1 - below if sign > 0 else below))
    assert_allclose(incomes.ranked_record_mse(records, [v], rank)[0], total, rtol=1e-6, atol=1e-9)


def test_records_at_hand_within_simulation_error() -> None:
    rng = np.random.default_rng(3)
    x = rng.permutation(np.round(rng.gamma(2.0, 9.0, 40), 2) + 1)
    v = incomes.noise_variances_by_threshold(x, [60.0], above=25.0)
    reps = 40_000
    y = np.maximum(0.0, x + np.sqrt(v[0]) * rng.standard_normal((reps, 40)))
    ys, xs = np.sort(y, axis=1), np.sort(x)
    for rank in (1, 4, 20, 37, 40):
        assert within((ys[:, rank - 1] - xs[rank - 1]) ** 2, float(incomes.ranked_record_mse(x, v, rank)[0]))
    largest = int(np.argmax(x))
    assert within((y[:, largest] - x[largest]) ** 2, float(incomes.linked_record_mse(x[largest], v[0, largest])))
    assert within(y.var(axis=1, ddof=1), float(incomes.released_variance(x, v)[0]))
    # Eq. 14 for M = 50 replicates, many times.
    means, spread = y.mean(axis=1).reshape(-1, 50), y.var(axis=1, ddof=1).reshape(-1, 50)
    estimate = spread.mean(axis=1) / 40 + (means.mean(axis=1) - x.mean()) ** 2
    assert within(estimate, float(incomes.scientist_mse(x, v, replicates=50)[0]))


def test_records_far_apart_or_without_noise() -> None:
    assert_allclose(incomes.ranked_record_mse([1.0, 5.0, 9.0], [0.0], 2), [0.0])
    assert_allclose(incomes.ranked_record_mse([0.0, 1e4, 2e4], [4.0], 2), [4.0], rtol=1e-10)
    # One record has no noise, the other has: Y_(1) = min(3, 5 + e).
    expected = stats.norm.expect(lambda e: (min(3.0, max(0.0, 5 + e)) - 3) ** 2, loc=0, scale=2, lb=-40, ub=40)
    assert_allclose(incomes.ranked_record_mse([3.0, 5.0], np.array([[0.0, 4.0]]), 1), [expected], rtol=1e-6)
    assert_allclose(incomes.clipped_moments(2.0, 0.0), (2.0, 0.0))
    grid = np.array([1.0, 4.0, 9.0])
    x = np.array([1.0, 2.0, 8.0])
    assert_allclose(
        incomes.ranked_record_mse(x, grid, 2), [incomes.ranked_record_mse(x, v, 2)[0] for v in grid], rtol=1e-12
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.data())
@settings(max_examples=30)
def test_counts_of_unequal_events(chances: list[float], data: st.DataObject) -> None:
    p = np.array(chances)
    rank = data.draw(st.integers(1, len(p)))
    subsets = (np.arange(2 ** len(p))[:, None] >> np.arange(len(p))) & 1
    mass = np.prod(np.where(subsets == 1, p, 1 - p), axis=1)
    expected = mass[subsets.sum(axis=1) >= rank].sum()
    assert_allclose(order_statistic_cdf(p[:, None], 1 - p[:, None], rank), [expected], atol=1e-14)
    assert_allclose(order_statistic_sf(p[:, None], 1 - p[:, None], rank), [1 - expected], atol=1e-14)


# -- maps, crossings, choices ------------------------------------------------------------------------------------------


def test_map_has_a_row_per_noise_variance() -> None:
    grid = np.linspace(0, 1, 11)
    rumap = additive_noise(n=N, variance=1, noise_variance=grid, target="maximum", method="exact")
    table = rumap.to_dataframe()
    assert list(table["variance"]) == list(grid)
    assert table["release"][3] == "Noise(variance=0.3)"
    assert set(table["knowledge"]) == {"sample"}
    assert set(table["method"]) == {"exact"}
    assert set(table["target"]) == {"maximum"}
    assert np.isinf(table["risk"][0])
    assert_allclose(table["utility"], N / (1 + grid), rtol=1e-13)
    assert_allclose(table["utility_informed"], table["utility"], rtol=1e-13)
    assert_allclose(table["intruder_uncertainty"], exact.order_statistic_mse(N, 1.0, grid, N), rtol=1e-12)


def test_several_states_and_methods_in_one_map() -> None:
    rumap = additive_noise(
        n=N, noise_variance=[0.1, 0.21], knowledge=["population", "sample", "record"], method=["paper", "bayes"]
    )
    table = rumap.to_dataframe()
    assert len(table) == 12
    assert table["release"].is_unique
    assert table["technique"].nunique() == 6
    bayes_record = rumap.select(knowledge="record", method="bayes")
    assert_allclose(bayes_record.risk, [risk(knowledge="record", method="bayes")(v) for v in (0.1, 0.21)])
    assert set(table["formula"]) == {"eq. 2, released mean", "eq. 4, Y_i", "posterior variance, flat prior"}


def test_curves_that_differ_in_the_prior_alone_keep_their_names_apart() -> None:
    both = [Curve(n=9, method="bayes", prior=p) for p in ("flat", "known")]
    rumap = map_curves(both, [1.0])
    assert len(set(rumap.releases)) == 2
    assert any("known mean" in name for name in rumap.releases)
    assert_allclose(rumap.before[0], [np.inf, 1.0])


def test_map_of_the_four_curves_of_figure_4() -> None:
    four = [Curve(n=N, knowledge="record"), Curve(n=N), Curve(n=N, **PERCENTILE), Curve(n=N, **MAXIMUM)]
    rumap = map_curves(four, [0.21])
    assert_allclose(
        rumap.risk, [4.761904761904762, 0.9939863823865612, 7.223444216198417, 3.7658689449668454], rtol=1e-12
    )


def test_map_saves_and_still_gives_its_crossings(tmp_path: Path) -> None:
    rumap = additive_noise(
        n=N,
        noise_variance=[0.1, 0.3],
        target="percentile",
        p=0.99,
        knowledge=["population", "record"],
        prior=("normal", 3.0),
    )
    path = rumap.save(tmp_path / "map.nc")
    loaded = type(rumap).load(path)
    assert_allclose([c.noise_variance for c in crossings(loaded)], [0.0849848, 0.8866304], atol=5e-8)
    assert [round(o.noise_variance, 6) for o in optimal_noise(loaded, 5)] == [0.304155, 0.2]


def test_choice_on_the_grid_matches_the_continuous_one() -> None:
    grid = np.linspace(0, 1, 101)
    rumap = additive_noise(n=N, noise_variance=grid, knowledge="record")
    assert rumap.choose(max_risk=5).release == "Noise(variance=0.2)"
    assert_allclose(optimal_noise(Curve(n=N, knowledge="record"), 5)[1:4], (0.2, 5.0, N / 1.2), rtol=1e-12)


def test_no_noise_is_needed_where_the_risk_is_low_already() -> None:
    assert optimal_noise(Curve(n=N), 5).noise_variance == 0


@given(st.integers(2, 300), spreads, st.floats(0.05, 0.95))
@settings(max_examples=15)
def test_optimal_noise_meets_its_threshold(n: int, s2: float, share: float) -> None:
    for curve in (
        Curve(n=n, variance=s2, knowledge="record", method="bayes", prior="known"),
        Curve(n=n, variance=s2, knowledge="record"),
    ):
        best = optimal_noise(curve, 1 / (share * s2))
        assert_allclose(best.risk, 1 / (share * s2), rtol=1e-9)
    # (1/s2 + 1/l2)^-1 = share s2
    known = optimal_noise(Curve(n=n, variance=s2, knowledge="record", method="bayes", prior="known"), 1 / (share * s2))
    assert_allclose(known.noise_variance, s2 * share / (1 - share), rtol=1e-8)


@pytest.mark.long
def test_optimal_noise_and_crossings_of_another_population() -> None:
    law = stats.expon()
    exact_, record = (
        Curve(n=15, population=law, target="maximum", knowledge=k, method="exact") for k in ("sample", "record")
    )
    best = optimal_noise(exact_, 4.0)
    assert_allclose(exact_.risk(best.noise_variance), 4.0, rtol=1e-8)
    (crossing,) = crossings([exact_, record], low=0.05, high=5, points=5)
    assert_allclose(exact_.uncertainty(crossing.noise_variance), crossing.noise_variance, rtol=1e-8)


def test_infeasible_threshold_names_the_limit() -> None:
    # A Bayesian snooper with a known mean never does worse than the population variance.
    with pytest.raises(InfeasibleError, match="risk of 1 "):
        optimal_noise(Curve(n=N, knowledge="record", method="bayes", prior="known"), 0.9)


def test_rank_of_a_percentile_is_told() -> None:
    rumap = additive_noise(n=77, noise_variance=[0.1], target="percentile", p=0.99)
    assert any("rank 77" in note and "76.23" in note for note in rumap.notes)
    assert not additive_noise(n=200, noise_variance=[0.1], target="percentile", p=0.99).notes


def test_minimum_and_other_ranks() -> None:
    for method in ("paper", "exact", "bayes"):
        high, low = (Curve(n=50, target=t, rank=3, knowledge="sample", method=method) for t in ("maximum", "minimum"))
        assert_allclose(high.uncertainty([0.1, 2.0]), low.uncertainty([0.1, 2.0]), rtol=1e-10)
    given_ = [Curve(n=50, target=t, tau=v, knowledge="sample") for t, v in (("maximum", 2.0), ("minimum", -2.0))]
    assert_allclose(given_[0].uncertainty(0.3), given_[1].uncertainty(0.3), rtol=1e-12)
    assert Curve(n=50, target="minimum", rank=3, knowledge="sample").target_in_words == "3rd smallest"


def test_equations_with_given_values() -> None:
    z = stats.norm.ppf(0.9)
    # Eq. 6 at tau = xi_p is eq. 8, eq. 9 at x_(n) = mu + sd K_n1 is eq. 10, eq. 1 at tau = mu is the utility.
    settings_ = {"n": 40, "variance": 2.0, "mean": 1.0}
    assert_allclose(
        Curve(target="percentile", p=0.9, knowledge="sample", tau=1 + z * np.sqrt(2), **settings_).risk(0.4),
        Curve(target="percentile", p=0.9, **settings_).risk(0.4),
        rtol=1e-12,
    )
    tau = 1 + np.sqrt(2) * extreme_constants(40).mean
    assert_allclose(
        Curve(tau=tau, **MAXIMUM, **settings_).risk(0.4), Curve(**MAXIMUM, **settings_).risk(0.4), rtol=1e-12
    )
    at_mean = Curve(target="value", tau=1.0, **settings_)
    assert_allclose(at_mean.risk(0.4), at_mean.utility(0.4), rtol=1e-12)
    x = np.array([1.0, 2.0, 3.0, 4.0, 10.0])
    eq3 = Curve(n=5, variance=4.0, mean=3.0, data=x, knowledge="sample")
    assert_allclose(eq3.uncertainty(2.0), (4 + 2 + np.sum((3 - x) ** 2)) / 5, rtol=1e-13)


def test_data_serve_the_sample_state_of_a_list() -> None:
    both = curves(data=[1.0, 2.0, 3.0, 4.0, 10.0], knowledge=["population", "sample"], method="exact")
    assert both[0].data is None
    assert_allclose(both[1].risk(2.0), 0.09615384615384615)
    with pytest.raises(InputError, match="does not carry"):
        crossings(map_curves(both, [1.0]))
    # Nothing of the records leaves in the map.
    assert "10.0" not in json.dumps(dict(map_curves(both, [1.0]).attrs), default=str)


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ({"target": "percentile", "p": 1.0}, r"p must be a number in \(0, 1\)"),
        ({"target": "percentile", "p": -0.1}, r"\(0, 1\)"),
        ({"target": "percentile"}, "needs p"),
        ({"p": 0.5}, "p is for"),
        ({"target": "maximum", "rank": 11}, "between 1 and 10"),
        ({"target": "minimum", "rank": 0}, "between 1 and 10"),
        ({"rank": 2}, "rank is for"),
        ({"knowledge": "index"}, "'population', 'sample', 'record'"),
        ({"knowledge": []}, "at least one of 'population'"),
        ({"knowledge": ["record", "record"]}, "each once"),
        ({"target": "maximum", "knowledge": "population"}, "belongs to the sample"),
        ({"target": "value"}, "needs tau"),
        ({"target": "percentile", "p": 0.9, "tau": 1.0}, "a value already"),
        ({"target": "median"}, "target must be one of"),
        ({"method": "simulation"}, "'paper', 'exact', 'bayes'"),
        ({"prior": "jeffreys"}, '"flat", "known"'),
        ({"prior": ("normal", -1), "method": "bayes"}, "prior variance must be"),
        ({"variance": 0}, r"variance must be a number in \(0"),
        ({"noise_variance": [-1.0]}, "must not be negative"),
        ({"noise_variance": []}, "at least one variance"),
        ({"noise_variance": [np.nan]}, "finite"),
        ({"data": [1.0, 2.0], "knowledge": "sample"}, "length 10"),
        ({"data": np.ones(10), "knowledge": "record"}, "Leave data out"),
        ({"population": 3}, "frozen continuous"),
        ({"population": stats.cauchy()}, "finite, positive variance"),
        ({"population": stats.expon(), "variance": 3.0}, "contradicts population"),
        ({"nosie": stats.t(5)}, "no such argument"),
        ({"scientist": "median"}, "scientist must be one of"),
        ({"n": None}, "needs n"),
        ({"n": 1, "target": "maximum"}, "at least two records"),
    ],
)
def test_bad_input(settings_: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        additive_noise(**{"n": 10, "noise_variance": [0.1], **settings_})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ({"method": "bayes", "tau": 1.0, "target": "value"}, "does not know tau"),
        ({"method": "bayes", "population": stats.expon()}, "normal records"),
        ({"target": "maximum", "population": stats.expon()}, 'method="exact"'),
        ({"variance_known": False}, "variance_known=False"),
    ],
)
def test_what_is_not_offered_says_so(settings_: dict[str, object], words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        additive_noise(**{"n": 10, "noise_variance": [0.1], **settings_})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: incomes.ranked_record_mse([1.0, 2.0], [1.0], 3), "between 1 and 2"),
        (lambda: incomes.ranked_record_mse([-1.0, 2.0], [1.0], 1), "between the bounds"),
        (lambda: incomes.linked_record_mse(1.0, 1.0, lower=3.0, upper=2.0), "lower must be below upper"),
        (lambda: incomes.scientist_mse([1.0], [1.0]), "at least two"),
        (lambda: incomes.ranked_record_mse([1.0, 2.0], [-1.0], 1), "not be negative"),
        (lambda: incomes.ranked_record_mse([1.0, 2.0], np.ones((2, 3)), 1), "shape"),
        (lambda: RankPosterior([1.0, 2.0], 3, 1.0, 1.0), "between 1 and 2"),
        (lambda: RankPosterior([], 1, 1.0, 1.0), "at least one"),
        (lambda: crossings([Curve(n=5)]), "at least two curves"),
        (lambda: crossings("record"), "Curves are needed"),
        (lambda: optimal_noise(Curve(n=5), 0), "max_risk must be"),
        (lambda: Masked(stats.expon(), 1.0).given_value(5, 2, -1.0), "support"),
    ],
)
def test_bad_input_to_the_parts(call: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize(("prior", "rank"), [("known", 2), (("normal", 3.0), 2), (("normal", 0.4), 5), ("flat", 1)])
def test_the_order_statistic_of_records_with_an_unknown_mean(prior: Any, rank: int) -> None:
    """Half the mean squared difference of two files drawn from the posterior, by dense conditioning on the release."""
    n, variance, noise, draws = 5, 2.0, 0.8, 200_000
    rng = np.random.default_rng(3)
    between = {"known": 0.0, "flat": 1e7}.get(prior, 0.0) if isinstance(prior, str) else prior[1]
    own = variance * np.eye(n) + between
    gain = own @ np.linalg.inv(own + noise * np.eye(n))
    root = np.linalg.cholesky((np.eye(n) - gain) @ own)
    # A flat prior leaves the release's place open, which moves all records alike.
    law = np.linalg.cholesky(variance * np.eye(n) + (0.0 if prior == "flat" else between) + noise * np.eye(n))
    centre = (rng.standard_normal((draws, n)) @ law.T) @ gain.T
    one, two = (np.sort(centre + rng.standard_normal((draws, n)) @ root.T, axis=1)[:, rank - 1] for _ in range(2))
    half = np.square(one - two) / 2
    assert abs(
        float(bayes.order_statistic_mse(n, variance, noise, rank, prior)) - half.mean()
    ) < 4 * half.std() / np.sqrt(draws)


def test_the_percentile_with_an_unknown_variance() -> None:
    """What the files' mean and variance tell of mu + z sigma, over many large files with a variance that is not one."""
    n, variance, noise, p, files = 40_000, 2.5, 0.7, 0.9, 200_000
    rng = np.random.default_rng(4)
    released = variance + noise
    means = rng.standard_normal(files) * np.sqrt(released / n)
    variances = released * rng.chisquare(n - 1, files) / (n - 1)
    found = np.var(means + stats.norm.ppf(p) * np.sqrt(variances - noise))
    assert_allclose(
        bayes.percentile_mse_with_unknown_variance(n, variance, noise, p), found, rtol=4 * np.sqrt(2 / files) + 2e-4
    )
