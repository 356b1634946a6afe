"""Order statistics: closed forms, identities, quadrature and simulation."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import places
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose
from scipy import integrate, special, stats

from ruvdecision.errors import InputError
from ruvdecision.numerics.orderstatistics import (
    _neighbouring_statistics,
    _same_record,
    extreme_constants,
    group_variances,
    normal_moments,
    order_law,
    paired_gap,
    percentile_rank,
)

SIZES = (10, 50, 77, 200, 1000)


def normal_covariance(n: int, first: int, second: int) -> float:
    """Covariance of two order statistics: given the higher one at y, the lower one is Q(F(y) B), B ~ Beta(r, s - r)."""
    low, high = min(first, second), max(first, second)
    if low == high:
        return normal_moments(n, low).variance
    upper, lower, weight = _neighbouring_statistics(n, low, high)
    return float(np.sum(weight * (upper - normal_moments(n, high).mean) * (lower - normal_moments(n, low).mean)))


def same_record(n: int, rank: int, angle: Any) -> Any:
    """Probability that one record has the same rank in both samples, whose correlation is cos(angle)."""
    return _same_record(n, rank, np.ravel(angle)).reshape(np.shape(angle))


def by_quadrature(n: int, rank: int) -> tuple[float, float]:
    """Mean and variance by adaptive quadrature of the textbook density."""
    constant = special.gammaln(n + 1) - special.gammaln(rank) - special.gammaln(n - rank + 1)

    def density(z: float) -> float:
        return float(
            np.exp(constant + (rank - 1) * special.log_ndtr(z) + (n - rank) * special.log_ndtr(-z) - z * z / 2)
            / np.sqrt(2 * np.pi)
        )

    place = special.ndtri((rank - 0.375) / (n + 0.25))
    pieces = [place + d for d in (-12, -3, -1, -0.3, 0, 0.3, 1, 3, 12)]

    def expect(g) -> float:
        return sum(
            integrate.quad(lambda z: g(z) * density(z), a, b, epsabs=1e-14, epsrel=1e-12, limit=200)[0]
            for a, b in itertools.pairwise(pieces)
        )

    mean = expect(lambda z: z)
    return mean, expect(lambda z: (z - mean) ** 2)


# -- one order statistic -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "rank", "mean", "variance"),
    [
        (1, 1, 0.0, 1.0),
        (2, 2, 1 / np.sqrt(np.pi), 1 - 1 / np.pi),
        (3, 3, 1.5 / np.sqrt(np.pi), 1 - 9 / (4 * np.pi) + np.sqrt(3) / (2 * np.pi)),
        (3, 2, 0.0, 1 - np.sqrt(3) / np.pi),
        (10, 10, 1.5387527308351729, 0.34434382326069024),
        (50, 50, 2.2490736293898506, 0.21571240996351426),
        (77, 77, 2.412712866987384, 0.1951470267),
        (1000, 1000, 3.2414357691334414, 0.12345541709394084),
    ],
)
def test_normal_moments_have_the_known_values(n: int, rank: int, mean: float, variance: float) -> None:
    found = normal_moments(n, rank)
    assert_allclose(found.mean, mean, rtol=0, atol=1e-12)
    assert_allclose(found.variance, variance, rtol=0, atol=1e-12 if variance > 0.196 or n != 77 else 5e-11)


@pytest.mark.parametrize(
    ("n", "rank"),
    [(7, 3), (200, 198), (1000, 700), (10_000, 5_000), (10_000, 10_000), (10_000, 1), (1_000_000, 1_000_000)],
)
def test_normal_moments_agree_with_adaptive_quadrature(n: int, rank: int) -> None:
    mean, variance = by_quadrature(n, rank)
    # The log-gamma constant of the textbook density is only good to about 1e-16 times its size.
    room = 1e-12 + 3e-16 * special.gammaln(n + 1)
    assert_allclose(normal_moments(n, rank).mean, mean, rtol=room, atol=room)
    assert_allclose(normal_moments(n, rank).variance, variance, rtol=room, atol=0)


@given(st.integers(1, 60))
@settings(max_examples=25)
def test_moments_add_up_to_those_of_the_sample(n: int) -> None:
    each = [normal_moments(n, r) for r in range(1, n + 1)]
    assert_allclose(sum(m.mean for m in each), 0.0, atol=1e-12)
    assert_allclose(sum(m.mean**2 + m.variance for m in each), n, rtol=1e-13)


@given(st.integers(2, 5000), st.data())
@settings(max_examples=40)
def test_ranks_from_either_end_mirror_each_other(n: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, n))
    low, high = normal_moments(n, rank), normal_moments(n, n + 1 - rank)
    assert_allclose(low.mean, -high.mean, rtol=1e-12, atol=1e-13)
    assert_allclose(low.variance, high.variance, rtol=1e-12)


def test_nodes_are_a_law() -> None:
    z, weight, _ = order_law(50, 48, 401)
    assert_allclose(weight.sum(), 1.0, rtol=1e-14)
    assert np.all(weight >= 0)
    # F(Z_(r)) is Beta(r, n + 1 - r).
    assert_allclose(weight @ special.ndtr(z), 48 / 51, rtol=1e-13)


# -- two order statistics ------------------------------------------------------------------------------------


def test_covariances_have_the_known_values() -> None:
    assert_allclose(normal_covariance(2, 1, 2), 1 / np.pi, rtol=1e-13)
    assert_allclose(normal_covariance(3, 1, 3), 9 / (4 * np.pi) - np.sqrt(3) / np.pi, rtol=1e-12)
    assert_allclose(normal_covariance(3, 2, 3), np.sqrt(3) / (2 * np.pi), rtol=1e-12)


@given(st.integers(2, 40), st.data())
@settings(max_examples=25)
def test_covariances_of_one_rank_add_up_to_one(n: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, n))
    assert_allclose(sum(normal_covariance(n, rank, s) for s in range(1, n + 1)), 1.0, rtol=1e-12)


def test_covariance_is_symmetric_and_within_simulation_error() -> None:
    assert normal_covariance(20, 5, 17) == normal_covariance(20, 17, 5)
    z = np.sort(np.random.default_rng(3).standard_normal((40_000, 20)), axis=1)
    product = (z[:, 4] - z[:, 4].mean()) * (z[:, 16] - z[:, 16].mean())
    assert abs(product.mean() - normal_covariance(20, 5, 17)) < 4 * product.std() / 200


# -- sorted groups -------------------------------------------------------------------------------------------


def from_covariances(n: int, start: int, stop: int) -> float:
    """Expected mean square within ranks start + 1 .. stop, from means and covariances of order statistics."""
    ranks = range(start + 1, stop + 1)
    mean = np.array([normal_moments(n, r).mean for r in ranks])
    second = np.array([[normal_covariance(n, r, s) for s in ranks] for r in ranks]) + np.outer(mean, mean)
    k = stop - start
    return float((np.trace(second) - second.sum() / k) / k)


@pytest.mark.parametrize("sizes", [[5, 5], [2, 2, 2, 2, 2], [3, 4, 3], [1, 9], [4, 2, 1, 5], [7]])
def test_group_variances_agree_with_covariances(sizes: list[int]) -> None:
    edges = np.cumsum([0, *sizes])
    other = [from_covariances(sum(sizes), a, b) for a, b in itertools.pairwise(edges)]
    assert_allclose(group_variances(sizes), other, rtol=1e-10, atol=1e-13)


def test_group_variance_at_the_end_agrees_with_quadrature() -> None:
    # A third way, for the number that follows: the five highest of ten, above the fifth.
    def integrand(z: float) -> float:
        spread = stats.truncnorm(z, np.inf).var()
        return float(spread * 1260 * stats.norm.cdf(z) ** 4 * stats.norm.sf(z) ** 5 * stats.norm.pdf(z))

    value = integrate.quad(integrand, -6, 6, epsabs=1e-11)[0]
    assert_allclose(group_variances([5, 5])[1], 0.8 * value, rtol=1e-8)


def test_sorted_microaggregation_has_the_reference_value() -> None:
    # The reference is a simulated value (its last digits are noise): three quadratures give 0.6383828690.
    table = json.loads((places.REFERENCE / "trottini_fienberg_duncan.json").read_text())
    value = next(x["value"] for x in table if x["name"].startswith("TF1 SORTED"))
    assert_allclose(2 * group_variances([5, 5]).mean(), value, rtol=2e-4)
    assert_allclose(2 * group_variances([5, 5]).mean(), 0.6383828689719611, rtol=1e-12)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=4))
@settings(max_examples=15)
def test_group_variances_mirror_and_stay_below_the_whole(sizes: list[int]) -> None:
    found, n = group_variances(sizes), sum(sizes)
    assert_allclose(found, group_variances(sizes[::-1])[::-1], rtol=1e-9, atol=1e-14)
    assert np.all(found <= (n - 1) / n + 1e-12)
    assert np.all(found[np.array(sizes) == 1] == 0)


def test_group_variances_of_many_records_stay_accurate() -> None:
    # In the middle of 3000 the records are locally uniform: three of them between neighbours four spacings apart.
    spacing = np.sqrt(2 * np.pi)
    expected = 2 / 3 * (4 * 5) / (3001 * 3002) / 12 * spacing**2
    assert_allclose(group_variances([1498, 3, 1499])[1], expected, rtol=2e-3)


# -- the same rank in two samples --------------------------------------------------------------------------------


@given(st.floats(0, np.pi / 2))
@settings(max_examples=40)
def test_two_pairs_have_a_closed_form(angle: float) -> None:
    # The differences of the pairs have the same correlation: P = 1/2 + arcsin(rho)/pi = 1 - angle/pi.
    assert_allclose(same_record(2, 2, angle), 1 - angle / np.pi, rtol=1e-12)
    gap = 2 * (2 * np.sin(angle / 2) ** 2 - (np.sin(angle) - angle * np.cos(angle)) / np.pi)
    assert_allclose(paired_gap(2, 1, angle), gap, rtol=1e-10, atol=1e-15)


@pytest.mark.slow
@given(st.integers(1, 150), st.data())
@settings(max_examples=30)
def test_independent_samples_are_the_other_end(n: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, n))
    assert_allclose(same_record(n, rank, np.pi / 2), 1 / n, rtol=1e-10)
    # Price's theorem from correlation 0 to 1 must give back the whole variance.
    assert_allclose(paired_gap(n, rank, np.pi / 2), 2 * normal_moments(n, rank).variance, rtol=1e-11)


@pytest.mark.parametrize(("n", "rank"), [(1000, 300), (10_000, 9_990), (10_000, 10_000), (1_000_000, 1_000_000)])
def test_large_samples_keep_their_digits(n: int, rank: int) -> None:
    assert_allclose(paired_gap(n, rank, np.pi / 2), 2 * normal_moments(n, rank).variance, rtol=1e-10)


@pytest.mark.long
def test_the_median_of_ten_thousand() -> None:
    assert_allclose(paired_gap(10_000, 5_000, np.pi / 2), 2 * normal_moments(10_000, 5_000).variance, rtol=1e-10)


@pytest.mark.newest
@pytest.mark.parametrize("n", [3, 12])
def test_maximum_agrees_with_hoeffding(n: int) -> None:
    # Cov = double integral of Phi2(a, b)^n - Phi(a)^n Phi(b)^n, with scipy's bivariate normal.
    rho = 0.7
    nodes, weights = np.polynomial.legendre.leggauss(50)
    a, w = 6.5 * nodes + 1, 6.5 * weights
    grid = np.stack(np.meshgrid(a, a, indexing="ij"), axis=-1)
    joint = stats.multivariate_normal([0, 0], [[1, rho], [rho, 1]]).cdf(grid)
    single = special.ndtr(a) ** n
    covariance = w @ (joint**n - np.outer(single, single)) @ w
    mean = normal_moments(n, n).mean
    product = mean**2 + normal_moments(n, n).variance - paired_gap(n, n, np.arccos(rho)) / 2
    assert_allclose(product, covariance + mean**2, rtol=1e-7)


@pytest.mark.slow
@given(st.integers(2, 60), st.data())
@settings(max_examples=15)
def test_gap_grows_with_the_angle_and_mirrors(n: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, n))
    angles = np.linspace(0, np.pi / 2, 9)
    gap = paired_gap(n, rank, angles)
    assert gap[0] == 0
    assert np.all(np.diff(gap) > 0)
    assert_allclose(gap, paired_gap(n, n + 1 - rank, angles), rtol=1e-12)
    # One at a time or all at once.
    assert_allclose(gap[4], paired_gap(n, rank, angles[4]), rtol=1e-8)


def test_small_angles_keep_relative_accuracy() -> None:
    # As the noise vanishes both maxima are the same record: the gap tends to 2 (1 - cos angle).
    angle = np.array([1e-9, 1e-7, 1e-5])
    assert_allclose(paired_gap(200, 200, angle) / (4 * np.sin(angle / 2) ** 2), 1.0, atol=1e-4)
    assert_allclose(paired_gap(200, 200, 1e-9) / 1e-18, 1.0, rtol=1e-8)


@pytest.mark.campaign(5, "slow")
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("place", [0.0, 0.3, 0.9, 1.0])
def test_gap_within_simulation_error(n: int, place: float) -> None:
    rank = max(1, round(place * n))
    reps = 4_000
    rng = np.random.default_rng([n, rank])
    x = rng.standard_normal((reps, n))
    z = 0.8 * x + 0.6 * rng.standard_normal((reps, n))
    squared = (np.partition(x, rank - 1, axis=1)[:, rank - 1] - np.partition(z, rank - 1, axis=1)[:, rank - 1]) ** 2
    assert abs(squared.mean() - paired_gap(n, rank, np.arccos(0.8))) < 4 * squared.std() / np.sqrt(reps)


def test_same_record_within_simulation_error() -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((40_000, 9))
    z = 0.6 * x + 0.8 * rng.standard_normal(x.shape)
    for rank in (9, 5, 2):
        same = np.argsort(x, axis=1)[:, rank - 1] == np.argsort(z, axis=1)[:, rank - 1]
        chance = float(same_record(9, rank, np.arccos(0.6)))
        assert abs(same.mean() - chance) < 4 * np.sqrt(chance * (1 - chance) / 40_000)


# -- asymptotics, ranks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "first", "second"),
    [
        (10, 1.6309007048134434, 0.3571928942),
        (77, 2.4648006064884678, 0.1893425127392405),
        (1000, 3.271763871975535, 0.11906429805447657),
    ],
)
def test_extreme_constants(n: int, first: float, second: float) -> None:
    assert_allclose(extreme_constants(n), (first, second), rtol=1e-9)


@pytest.mark.parametrize("position", [1, 2, 4])
def test_extreme_constants_approach_the_exact_ones(position: int) -> None:
    sizes = (10**4, 10**6, 10**9, 10**12)
    pairs = [(extreme_constants(n, position), normal_moments(n, n + 1 - position)) for n in sizes]
    for name in ("mean", "variance"):
        error = [abs(getattr(a, name) / getattr(b, name) - 1) for a, b in pairs]
        assert error == sorted(error, reverse=True)
    assert error[-1] < 0.04 * position  # the variance converges slowly, like 1 / log n


def test_percentile_rank() -> None:
    assert percentile_rank(200, 0.99) == 198
    assert percentile_rank(10, 0.3) == 3  # 10 * 0.3 is 3 up to rounding
    assert percentile_rank(177, 0.1) == 18
    assert percentile_rank(77, 0.99) == 77
    assert percentile_rank(5, 0.01) == 1
    assert percentile_rank(1000, 0.001) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: normal_moments(10, 11), "between 1 and 10"),
        (lambda: normal_moments(10, 0), "between 1 and 10"),
        (lambda: normal_moments(0, 1), "n must be"),
        (lambda: normal_moments(10, 2.5), "whole number"),
        (lambda: paired_gap(5, 1, 2.0), r"\[0, pi/2\]"),
        (lambda: paired_gap(5, 1, -0.1), r"\[0, pi/2\]"),
        (lambda: paired_gap(5, 1, np.nan), "finite"),
        (lambda: group_variances([]), "at least one group"),
        (lambda: group_variances([2, 0]), "at least 1"),
        (lambda: extreme_constants(1), "at least two"),
        (lambda: extreme_constants(5, 6), "between 1 and 5"),
        (lambda: percentile_rank(10, 1.0), r"\(0, 1\)"),
        (lambda: percentile_rank(10, 0.0), r"\(0, 1\)"),
    ],
)
def test_bad_input(call, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()
