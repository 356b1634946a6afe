"""The exact engine against what a user would write instead, and its growth with the number of records."""

from __future__ import annotations

import numpy as np

import ruvdecision as ruv

from .timing import best, race


def _users(belief):
    return {
        "intruder": ruv.User(belief, ruv.Record(0), ruv.Quadratic()),
        "scientist": ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic()),
    }


def scalar_loop(grid, n=10, s2=2.0, f2=5.0):
    """The closed form of example 1 in a plain Python loop."""
    rows = []
    for r2 in grid:
        v = 1 / (1 / f2 + n / (s2 + r2))
        u = s2 + f2 - (f2 + s2 / n) ** 2 / (f2 + (s2 + r2) / n)
        rows.append((1 / u, 1 / v))
    return rows


def brute_force(covariances, n, spread, doubt):
    """Conditioning with the full joint covariance of the records and the noisy records."""
    k = len(spread)
    prior = np.kron(np.ones((n, n)), doubt) + np.kron(np.eye(n), spread)
    to_mean = np.kron(np.ones((1, n)), doubt)
    out = []
    for noise in covariances:
        inverse = np.linalg.inv(prior + np.kron(np.eye(n), noise))
        first = prior[:k]
        u = np.trace(prior[:k, :k] - first @ inverse @ first.T)
        v = np.trace(doubt - to_mean @ inverse @ to_mean.T)
        out.append((1 / u, 1 / v))
    return out


def run():
    """Yield (name, ours, theirs, ratio, wanted)."""
    grid = [float(v) for v in np.linspace(0.01, 100, 4000)]
    average = ruv.Microaggregate(groups=1)
    who = _users(ruv.NormalBelief(records=10, variance=2, prior_variance=5))
    masks = [ruv.Noise(variance=v) | average for v in grid]
    ours, theirs = race(lambda: ruv.evaluate(masks, **who), lambda: scalar_loop(grid))
    yield "map of 4,000 univariate masks / plain loop over the scalar formula", ours, theirs, ours / theirs, "<= 10"
    fresh = best(lambda: ruv.evaluate([ruv.Noise(variance=v) | average for v in grid], **who))
    yield "the same, making the masks included", fresh, theirs, fresh / theirs, ""
    big = _users(ruv.NormalBelief(records=1_000_000, variance=2, prior_variance=5))
    large, ours = race(lambda: ruv.evaluate(masks, **big), lambda: ruv.evaluate(masks, **who))
    yield "map with n = 1,000,000 / n = 10", large, ours, large / ours, "<= 1.5"
    groups = [ruv.Noise(variance=v) | ruv.Microaggregate(groups=5) for v in grid]
    many, few = race(lambda: ruv.evaluate(groups, **big), lambda: ruv.evaluate(groups, **who))
    yield "five groups, n = 1,000,000 / n = 10", many, few, many / few, "<= 1.5"
    rng = np.random.default_rng(0)
    k, n = 10, 50
    a = rng.standard_normal((k, k))
    spread, doubt = a @ a.T + np.eye(k), np.diag(rng.uniform(1, 5, k))
    belief = ruv.NormalBelief(records=n, covariance=spread, prior_covariance=doubt)
    noises = [np.diag(rng.uniform(0.1, 5, k)) for _ in range(1000)]
    several = [ruv.Noise(covariance=c) for c in noises]
    ours = best(lambda: ruv.evaluate(several, **_users(belief)), rounds=3)
    theirs = best(lambda: brute_force(noises[:10], n, spread, doubt), rounds=2) * 100
    check = ruv.evaluate(several[:10], **_users(belief))
    told = np.array(brute_force(noises[:10], n, spread, doubt))
    assert np.allclose(check.risk, told[:, 0]) and np.allclose(check.utility, told[:, 1])
    yield (
        "brute-force conditioning (n = 50, timed on 10 masks) / map of 1,000 masks, k = 10",
        ours,
        theirs,
        theirs / ours,
        ">= 50",
    )
