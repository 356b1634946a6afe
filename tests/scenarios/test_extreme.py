"""Additive noise scenarios and order statistics at the edge of double precision.

Closed forms are held to 1e-13 of exact fractions and of mpmath. Moments of order statistics are held to 1e-12 of a
standard deviation, and to 1e-10 for inner ranks of a million records, where the log density is a sum of terms near 1e6.
The same rank in two samples: 1e-10.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import special

import ruvdecision as ruv
from ruvdecision.numerics.orderstatistics import normal_moments, paired_gap
from ruvdecision.scenarios import Curve, crossings, optimal_noise

mp = pytest.importorskip("mpmath", reason="the references of many digits need mpmath, from the extra test")

NOISE = (1e-12, 1e-6, 1.0, 1e6, 1e12)


def error(got, want):
    want = Fraction(want)
    return float(abs(Fraction(float(got)) - want) / abs(want)) if want else float(abs(got))


def typical(n, s2, l2, knowledge, method, prior):
    """FORMULAS, section 4: the snooper's mean squared error, in fractions."""
    rho = s2 / (s2 + l2)
    if method != "bayes":
        sample = knowledge == "sample" and method == "exact"
        return {
            "population": s2 + (s2 + l2) / n,
            "sample": ((n - 1) * s2 + l2) / n if sample else s2 + (s2 + l2) / n,
            "record": l2,
        }[knowledge]
    v = (
        {"flat": (s2 + l2) / n, "known": Fraction(0)}[prior]
        if isinstance(prior, str)
        else 1 / (1 / Fraction(prior[1]) + n / (s2 + l2))
    )
    share = {
        "population": s2 + v,
        "sample": s2 * (1 - rho / n) + (1 - rho) ** 2 * v,
        "record": s2 * (1 - rho) + (1 - rho) ** 2 * v,
    }
    return share[knowledge]


@pytest.mark.parametrize("n", [1, 2, 10, 10**6])
@pytest.mark.parametrize("knowledge", ["population", "sample", "record"])
def test_typical_targets(n, knowledge):
    for method, prior in [
        ("paper", "flat"),
        ("exact", "flat"),
        *(("bayes", p) for p in ("flat", "known", ("normal", 1e-12), ("normal", 1e12))),
    ]:
        for s2 in (1e-6, 1.0, 1e6):
            curve = Curve(n=n, variance=s2, knowledge=knowledge, method=method, prior=prior)
            got = curve.uncertainty([l2 * s2 for l2 in NOISE])
            for u, l2 in zip(got, NOISE, strict=True):
                assert error(u, typical(n, Fraction(s2), Fraction(l2 * s2), knowledge, method, prior)) <= 1e-13, (
                    method,
                    prior,
                    s2,
                    l2,
                )


@pytest.mark.parametrize("n", [2, 10, 10**6])
def test_scientists(n):
    for l2 in NOISE:
        s, v = Fraction(l2), Fraction(1)
        assert error(Curve(n=n).scientist_uncertainty(l2), (v + s) / n) <= 1e-14
        informed = (3 * (v + s) ** 2 - Fraction(n - 3, n - 1) * (v + s) ** 2) / n
        curve = Curve(n=n, scientist="variance")
        assert error(curve.scientist_uncertainty(l2, informed=True), informed) <= 1e-13
        assert error(curve.scientist_uncertainty(l2), informed + s**2) <= 1e-13


@pytest.mark.parametrize("p", [1e-6, 0.5, 0.99, 1 - 1e-6])
@pytest.mark.parametrize("n", [2, 10**6])
def test_percentiles_by_the_papers_formula(p, n):
    with mp.workdps(60):
        tail = min(mp.mpf(p), 1 - mp.mpf(p))
        z = mp.findroot(lambda x: mp.ncdf(x) - tail, float(special.ndtri(float(tail)))) if p != 0.5 else mp.mpf(0)
        z = z if p <= 0.5 else -z
        for l2 in NOISE:
            released = 1 + mp.mpf(l2)
            want = mp.mpf(p) * (1 - mp.mpf(p)) / (n * mp.npdf(z) ** 2) * released + z**2 * (mp.sqrt(released) - 1) ** 2
            got = float(Curve(n=n, target="percentile", p=p).uncertainty(l2))
            # A percentile of 1 - 1e-6 has ten digits of its tail left.
            assert abs(mp.mpf(got) - want) <= (1e-13 if p <= 0.5 else 1e-9) * want


# -- order statistics ------------------------------------------------------------------------------------------


def order_moments(n, rank):
    """Mean and variance by the trapezoidal rule with 40 digits over the density, which dies out at both ends."""
    log = lambda z: (rank - 1) * mp.log(mp.ncdf(z)) + (n - rank) * mp.log(mp.ncdf(-z)) - z * z / 2  # noqa: E731
    middle = float(special.ndtri((rank - 0.375) / (n + 0.25)))
    step = float(np.sqrt(rank * (n + 1 - rank) / (n + 1) ** 2 / (n + 2)) * np.sqrt(2 * np.pi) * np.exp(middle**2 / 2))
    ends = []
    for sign in (-1, 1):
        reach = step
        while log(middle + sign * reach) - log(middle) > -80:
            reach *= 1.3
        ends.append(mp.mpf(middle + sign * reach))
    points = [ends[0] + (ends[1] - ends[0]) * i / 240 for i in range(241)]
    weights = [mp.exp(log(z) - log(middle)) for z in points]
    total = sum(weights)
    mean = sum(w * z for w, z in zip(weights, points, strict=True)) / total
    return mean, sum(w * (z - mean) ** 2 for w, z in zip(weights, points, strict=True)) / total


@pytest.mark.parametrize(
    ("n", "rank"), [(1, 1), (2, 2), (10, 1), (200, 198), (10**6, 10**6), (10**6, 999_999), (10**6, 1), (10**6, 500_000)]
)
def test_moments_of_order_statistics(n, rank):
    with mp.workdps(40):
        mean, variance = order_moments(n, rank)
        digits = 1e-10 if rank == 500_000 else 1e-12
        found = normal_moments(n, rank)
        assert abs(found.mean - mean) <= digits * mp.sqrt(variance)
        assert abs(found.variance - variance) <= digits * variance


@pytest.mark.parametrize("angle", [1e-150, 1e-12, 1e-6, 1e-3, 1.0, np.pi / 2])
def test_the_same_rank_twice_of_two_records(angle):
    """Of two pairs the same one is larger in both coordinates with probability 1 - angle / pi."""
    with mp.workdps(330):
        t = mp.mpf(float(angle))
        want = 2 * ((1 - mp.cos(t)) - (mp.sin(t) - t * mp.cos(t)) / mp.pi)
        for rank in (1, 2):
            assert abs(mp.mpf(float(paired_gap(2, rank, angle))) - want) <= 1e-10 * want


@pytest.mark.parametrize("n", [10, 10**6])
@pytest.mark.parametrize("method", ["exact", "bayes"])
def test_maxima_at_both_ends_of_the_noise(n, method):
    """Almost without noise the target's row shows it; with nothing but noise the release is uninformative."""
    curve = Curve(
        n=n, target="maximum", knowledge="sample", method=method, prior="known" if method == "bayes" else "flat"
    )
    low, high = curve.uncertainty([1e-24, 1e24])
    assert low == pytest.approx(1e-24, rel=1e-9)
    mean, variance = normal_moments(n, n)
    if method == "bayes":
        assert high == pytest.approx(variance, rel=1e-6)
    else:
        assert high == pytest.approx((mean**2 + variance) * 1e24, rel=1e-6)


@pytest.mark.parametrize("target", ["typical", "maximum"])
def test_one_record_is_its_own_maximum(target):
    for l2 in NOISE:
        plain = Curve(n=1, target=target, knowledge="sample", method="exact").uncertainty(l2)
        assert error(plain, Fraction(l2)) <= 1e-10
        bayes = Curve(n=1, target=target, knowledge="sample", method="bayes", prior="known").uncertainty(l2)
        assert error(bayes, Fraction(l2) / (1 + Fraction(l2))) <= 1e-10


# -- crossings and optima --------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_risk", [1e-18, 1e-12, 1e-3, 1.0, 1e3, 1e9, 1e12, 1e100])
def test_least_noise_for_a_bound_on_risk(max_risk):
    best = optimal_noise(Curve(n=200, knowledge="record"), max_risk)
    assert error(best.noise_variance, 1 / Fraction(max_risk)) <= 1e-13 and best.risk <= max_risk
    bayes = optimal_noise(Curve(n=200, knowledge="record", method="bayes", prior="flat"), max_risk)
    # l2 (n + l2) / (n (1 + l2)) = 1 / risk, a quadratic equation in l2.
    with mp.workdps(60):
        n, u = mp.mpf(200), 1 / mp.mpf(max_risk)
        b = n - n * u
        root = (-b + mp.sqrt(b * b + 4 * n * u)) / 2 if b < 0 else 2 * n * u / (b + mp.sqrt(b * b + 4 * n * u))
        assert abs(mp.mpf(bayes.noise_variance) - root) <= 1e-12 * root and bayes.risk <= max_risk * (1 + 1e-15)


@pytest.mark.parametrize("n", [2, 10, 10**6])
@pytest.mark.parametrize("variance", [1e-12, 1.0, 1e12])
def test_crossings_in_any_unit(n, variance):
    """Record against population knowledge: (n + 1)/(n - 1) times the variance."""
    (found,) = crossings([Curve(n=n, variance=variance), Curve(n=n, variance=variance, knowledge="record")])
    assert error(found.noise_variance, Fraction(variance) * Fraction(n + 1, n - 1)) <= 1e-12


# -- the limit under a nearly flat prior ---------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [1e-6, 1.0, 1e6, 1e12, 1e18])
def test_limit_of_the_average_under_any_prior(prior):
    """FORMULAS, section 2: along noise and averaging U_I = s2 + f2 - c**2 (f2 - U_S), c = 1 + s2/(n f2)."""
    belief = ruv.NormalBelief(records=10, variance=2, prior_variance=prior)
    intruder, scientist = (
        ruv.User(belief, ruv.Record(0), ruv.Quadratic()),
        ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic()),
    )
    s2, f2, n = Fraction(2), Fraction(prior), 10
    need = s2 * Fraction(n - 1, n) + (f2 + s2 / n) / (1 + 10 * f2)
    found = ruv.limit(intruder, scientist, max_risk=[float(1 / need)], statistic="average")
    c = 1 + s2 / (n * f2)
    want = f2 - (s2 + f2 - 1 / Fraction(float(1 / need))) / c**2
    assert error(found.scientist_uncertainty[0], want) <= 1e-10
    # The mask that it names does what it says.
    rumap = ruv.evaluate([found.mechanism(float(1 / need))], intruder=intruder, scientist=scientist)
    assert rumap.scientist_uncertainty[0] == pytest.approx(float(want), rel=1e-9)
