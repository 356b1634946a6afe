"""Normal beliefs at the edge of double precision, against conditioning with two hundred digits (tests/highprecision.py).

One variable: every U is held to 1e-13 of its value, for noise and prior variances from 1e-12 to 1e12 of the
population's, because its formula is a sum and product of positive numbers. Several variables: a nearly singular
covariance makes the question itself ill-conditioned, so that U is held to 64 times what it moves when every given
number moves by half a unit in its last place, but never more strictly than 64 such units of its own value.
"""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import highprecision as hp
import numpy as np
import pytest

import ruvdecision as ruv

SIZES = (1e-12, 1e-6, 1.0, 1e6, 1e12)
ULP = Decimal(2) ** -53


def targets(n):
    every = {
        "mu": ruv.Parameter("mu"),
        "new": ruv.NewRecord(),
        "first": ruv.Record(0),
        "last": ruv.Record(n - 1),
        "average": ruv.Average(),
    }
    return every | {
        "all": ruv.Records(),
        "gap": ruv.Functional(lambda x, m: x - m, of=[ruv.Record(0), ruv.Parameter("mu")]),
    }


def solve(belief, target, mask, loss=None):
    return float(ruv.Exact().solve(ruv.User(belief, target, loss or ruv.Quadratic()), [mask]).uncertainty[0])


def one_variable(n, doubt, variance=1.0, mean=0.0):
    if doubt == "flat":
        return ruv.NormalBelief(records=n, variance=variance, prior="flat")
    return ruv.NormalBelief(records=n, variance=variance, prior_variance=doubt, prior_mean=mean)


def chains(n, v, unit=1.0):
    """Chains of masks with noise of variance v, by name.

    ``unit`` is a standard deviation of the size of the records'.
    """
    noise, average, common = ruv.Noise(variance=v), ruv.Microaggregate(groups=1), ruv.Noise(variance=v, common=True)
    found = {
        "release": ruv.Release(), "suppress": ruv.Suppress(), "average": average, "noise": noise, "noise, average": noise | average,
        "average, noise": average | noise, "common": common, "noise, common": noise | ruv.Noise(variance=0.3 * v, common=True),
        "common, noise": ruv.Noise(sd=unit, common=True) | noise,
    }  # fmt: skip
    if n > 1:
        crossed = ruv.Microaggregate(groups=[i % 2 for i in range(n)])
        groups = ruv.Microaggregate(groups=2)
        found |= {
            "suppress one, noise": ruv.Suppress(rows=[1]) | noise, "noise, suppress one, average": noise | ruv.Suppress(rows=[0]) | average,
            "groups": groups, "noise, groups": noise | groups, "groups, noise": groups | noise,
            "noise, groups, noise": noise | groups | ruv.Noise(sd=unit),
            "noise, crossed, groups, noise": noise | crossed | groups | noise, "crossed, noise, average": crossed | noise | average,
        }  # fmt: skip
    return found


@pytest.mark.campaign(6)
@pytest.mark.parametrize("n", [1, 2, 10])
@pytest.mark.parametrize("v", SIZES)
@pytest.mark.parametrize("doubt", [0.0, 1e-12, 1.0, 1e12, "flat"])
def test_one_variable(n, v, doubt):
    belief = one_variable(n, doubt)
    for name, mask in chains(n, v).items():
        want = hp.summed(hp.posterior(mask, n, 1.0, doubt), n, 1)
        for target, aim in targets(n).items():
            assert hp.error(solve(belief, aim, mask), want[target]) <= 1e-13, (name, target)


@pytest.mark.parametrize("n", [1, 2, 10**6])
@pytest.mark.parametrize("v", [0.0, *SIZES])
@pytest.mark.parametrize("doubt", [0.0, 1e-12, 1.0, 1e12, "flat"])
def test_a_million_records(n, v, doubt):
    belief = one_variable(n, doubt)
    noise = ruv.Noise(variance=v)
    sizes = {1, n, 1000 if n > 1000 else n}
    for size in sizes:
        for averaged, common in itertools.product([True, False], [0.0, v]):
            mask = noise | ruv.Noise(variance=common, common=True) if common else noise
            mask = mask | ruv.Microaggregate(groups=n // size) if averaged else mask
            want = hp.large_file(n, size, 1.0, doubt, v, averaged=averaged, common=common)
            for target in ("mu", "new", "first", "average"):
                assert hp.error(solve(belief, targets(n)[target], mask), want[target]) <= 1e-13, (
                    size,
                    averaged,
                    common,
                    target,
                )


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
def test_units_do_not_matter(scale):
    """Variances near both ends of the range of floats: squares of 1e150 still fit."""
    belief = one_variable(10, 0.7 * scale**2, variance=1.3 * scale**2)
    for name, mask in chains(10, 0.4 * scale**2, scale).items():
        want = hp.summed(hp.posterior(mask, 10, 1.3 * scale**2, 0.7 * scale**2), 10, 1)
        for target, aim in targets(10).items():
            # 1e-300 is all but nothing for `error`, so that the reference is told in units of the variance.
            got = solve(belief, aim, mask) / scale / scale
            assert hp.error(got, want[target] / Decimal(scale) ** 2) <= 1e-13, (name, target)


def test_variances_that_are_barely_numbers():
    """8e-320 has four digits; what is worked out on the way has quotients beyond all numbers."""
    tiny = 2.0**-1060
    for target, aim in targets(10).items():
        for mask in (ruv.Noise(variance=1.0), ruv.Noise(variance=1.0) | ruv.Microaggregate(groups=1)):
            want = solve(one_variable(10, 0.7, variance=1.3), aim, mask)
            small = ruv.Noise(variance=tiny)
            small = small if len(mask.parts) == 1 else small | ruv.Microaggregate(groups=1)
            got = solve(one_variable(10, 0.7 * tiny, variance=1.3 * tiny), aim, small)
            assert got / tiny == pytest.approx(want, rel=1e-3), target


# -- several variables ---------------------------------------------------------------------------------------


def covariance(kind, k, condition, rng):
    """A covariance of this condition: by its units, by its directions, or none to speak of."""
    turn, _ = np.linalg.qr(rng.standard_normal((k, k)))
    if kind == "even":
        return np.eye(k)
    values = np.geomspace(1, 0.1, k) if kind == "units" else np.geomspace(1, 1 / condition, k)
    matrix = (turn * values) @ turn.T
    size = np.geomspace(1, condition**-0.5, k) if kind == "units" else np.ones(k)
    matrix = matrix * np.outer(size, size)
    return (matrix + matrix.T) / 2


def vector_chains(noise, k):
    draws, average = ruv.Noise(covariance=noise), ruv.Microaggregate(groups=1)
    return {
        "release": ruv.Release(), "average": average, "noise": draws, "noise, average": draws | average,
        "common": ruv.Noise(covariance=noise, common=True), "suppress a column, noise": ruv.Suppress(columns=[0]) | draws,
        "average a column, noise": ruv.Microaggregate(groups=1, columns=[0]) | draws,
    }  # fmt: skip


def with_noise(mask, noise):
    """The same steps with another covariance of the noise, in decimals."""
    return SimpleNamespace(parts=[hp.Draws(noise, s.common) if isinstance(s, ruv.Noise) else s for s in mask.parts])


def check_vector(belief, mask, noise, names, weights=None, rng=None):
    n, k = belief.records, belief.k
    doubt = "flat" if belief.mu_covariance is None else belief.mu_covariance
    want = hp.summed(hp.posterior(mask, n, belief.record_covariance, doubt), n, k, weights)
    room = dict.fromkeys(want, Decimal(0))
    for _ in range(4):
        moved = [hp.nudged(x, rng) for x in (belief.record_covariance, doubt, np.asarray(noise), weights)]
        near = hp.summed(hp.posterior(with_noise(mask, moved[2]), n, moved[0], moved[1]), n, k, moved[3])
        room = {t: max(room[t], abs(near[t] - want[t])) for t in want}
    loss = ruv.Quadratic() if weights is None else ruv.Quadratic(weights=weights)
    for target in names:
        got = solve(belief, targets(n)[target], mask, loss)
        if want[target] > Decimal("1e80") or want[target] < Decimal("1e-100"):
            assert hp.error(got, want[target]) == 0.0, target
            continue
        assert abs(Decimal(got) - want[target]) <= 64 * max(room[target], ULP * want[target]), (
            target,
            got,
            float(want[target]),
        )


KINDS = list(itertools.product(["even", "units", "directions"], repeat=3))


@pytest.mark.slow
@pytest.mark.campaign(6)
@pytest.mark.parametrize("kinds", KINDS, ids=[", ".join(k) for k in KINDS])
def test_nearly_singular_covariances(kinds):
    """Condition 1e13 of the population's, the prior's and the noise's covariance, in all combinations."""
    rng = np.random.default_rng(KINDS.index(kinds))
    for k, n in ((2, 1), (3, 3)):
        spread, doubt, noise = (covariance(kind, k, 1e13, rng) for kind in kinds)
        belief = ruv.NormalBelief(records=n, covariance=spread, prior_covariance=doubt)
        for level in (1e-12, 1.0, 1e12):
            for mask in vector_chains(level * noise, k).values():
                check_vector(belief, mask, level * noise, ("mu", "new", "first", "average"), rng=rng)


@pytest.mark.campaign(4)
@pytest.mark.parametrize("level", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("prior", ["flat", "known", "half known", "proper"])
def test_priors_and_weights_of_condition_1e14(level, prior):
    rng = np.random.default_rng(7)
    spread, noise = covariance("directions", 3, 1e14, rng), level * covariance("units", 3, 1e14, rng)
    weights = covariance("directions", 3, 1e14, rng)
    given = {"prior": prior} if prior in ("flat", "known") else {"prior_covariance": np.diag([1.0, 0.0, 1e12])}
    if prior == "proper":
        given = {"prior_covariance": covariance("units", 3, 1e14, rng)}
    belief = ruv.NormalBelief(records=3, covariance=spread, **given)
    for name, mask in vector_chains(noise, 3).items():
        if prior == "flat" and name == "suppress a column, noise":
            continue  # the column stays open: test_exact.py
        check_vector(belief, mask, noise, ("mu", "new", "first", "average"), weights, rng)


@pytest.mark.long
@pytest.mark.parametrize("level", [1e-12, 1.0, 1e12])
def test_fifty_variables(level):
    rng = np.random.default_rng(50)
    spread, doubt, noise = (covariance(kind, 50, 1e13, rng) for kind in ("directions", "even", "units"))
    belief = ruv.NormalBelief(records=10**6, covariance=spread, prior_covariance=doubt)
    want = hp.large_file(10**6, 10**6, spread, doubt, level * noise, averaged=True)
    moved = hp.large_file(10**6, 10**6, hp.nudged(spread, rng), doubt, hp.nudged(level * noise, rng), averaged=True)
    mask = ruv.Noise(covariance=level * noise) | ruv.Microaggregate(groups=1)
    for target in ("mu", "new", "first", "average"):
        room = max(abs(moved[target] - want[target]), ULP * want[target])
        # One nudge of 2,500 entries averages out where the largest would not: the bound has the root of their number
        # more room.
        assert abs(Decimal(solve(belief, targets(2)[target], mask)) - want[target]) <= 64 * 50 * room, target


# -- posterior means far from the origin -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.campaign(3)
@pytest.mark.newest
@pytest.mark.parametrize("n", [10, 10**6])
@pytest.mark.parametrize("offset", [0.0, 1e8, -1e15])
@pytest.mark.parametrize("prior", ["flat", 5.0])
def test_means_of_records_far_from_the_origin(n, offset, prior):
    """Values near 1e8 with standard deviation one.

    Means are held to four units in the last place of the values, whatever n is.
    """
    y = offset + 1.2 * np.random.default_rng(3).standard_normal(n)
    belief = one_variable(n, prior, mean=offset)
    noise = ruv.Noise(variance=0.44)
    for mask, release in ((noise, y), (noise | ruv.Microaggregate(groups=1), np.full(n, math.fsum(y) / n))):
        average = Fraction(math.fsum(release)) / n
        total = 1 + Fraction(0.44)
        doubt = 1 / (n / total + (0 if prior == "flat" else 1 / Fraction(prior)))
        mu = doubt * (n * average / total + (0 if prior == "flat" else Fraction(offset) / Fraction(prior)))
        want = {"mu": mu, "first": mu + (Fraction(release[0]) - mu) / total, "average": mu + (average - mu) / total}
        for target, value in want.items():
            found = ruv.Exact().posterior(ruv.User(belief, targets(n)[target], ruv.Quadratic()), mask, release).mean()
            assert abs(Fraction(float(found)) - value) <= 4 * Fraction(np.spacing(max(1.0, abs(offset)))), (
                target,
                len(mask.parts),
            )
