"""Duncan et al.'s scenarios against the simulations that a user would write instead."""

from __future__ import annotations

import tracemalloc
from time import perf_counter

import numpy as np

from ruvdecision.beliefs import NormalBelief
from ruvdecision.evaluate import evaluate
from ruvdecision.masks import Clip, Noise
from ruvdecision.scenarios import additive_noise, empirical
from ruvdecision.targets import Maximum, Parameter
from ruvdecision.users.user import Snooper

from .timing import best, race

RANKS = (1, 2, 18, 160, 176, 177)
LIMIT = 500e6


def simulate_maximum(n, noise_variance, replicates, rng):
    """E (x_(n) - Y_(n))^2 and its relative error, a block of replicates at a time."""
    x = rng.standard_normal((replicates, n))
    y = x + np.sqrt(noise_variance) * rng.standard_normal((replicates, n))
    loss = (x.max(axis=1) - y.max(axis=1)) ** 2
    return loss.mean(), loss.std(ddof=1) / np.sqrt(replicates) / loss.mean()


def double_loop(x, grid, replicates=200):
    """Section V as it is told: for every noise variance and every replicate, mask, sort and compare."""
    rng = np.random.default_rng(1)
    n = len(x)
    rows = np.argsort(x)[np.array(RANKS) - 1]
    risks, utilities = [], []
    for v in grid:
        errors, means, spreads = [], [], []
        for _ in range(replicates):
            y = np.maximum(0, x + np.sqrt(v) * rng.standard_normal(n))
            ordered = np.sort(y)
            one = []
            for rank, row in zip(RANKS, rows, strict=True):
                one.append((y[row] - x[row]) ** 2)
                one.append((ordered[rank - 1] - x[row]) ** 2)
            errors.append(one)
            means.append(y.mean())
            spreads.append(y.var(ddof=1))
        risks.append(1 / np.mean(errors, axis=0))
        utilities.append(1 / (np.mean(spreads) / n + (np.mean(means) - x.mean()) ** 2))
    return np.array(risks), np.array(utilities)


def run():
    """Yield (name, ours, theirs, ratio, wanted)."""
    rng = np.random.default_rng(0)
    grid = np.linspace(0.005, 1.0, 200)
    replicates = 25_000
    settings = {"n": 200, "target": "maximum", "knowledge": "sample", "method": "exact"}
    ours = best(lambda: additive_noise(noise_variance=grid, **settings), rounds=3)
    start = perf_counter()
    found, error = zip(*(simulate_maximum(200, v, replicates, rng) for v in grid[[20, 100, 199]]), strict=True)
    theirs = (perf_counter() - start) / 3 * len(grid)
    told = additive_noise(noise_variance=grid[[20, 100, 199]], **settings).intruder_uncertainty
    assert max(error) < 0.0125 and np.all(np.abs(np.array(found) / told - 1) < 4 * np.array(error))
    yield (
        "simulation to 1 % (timed at 3 points) / exact map of the maximum, 200 points",
        ours,
        theirs,
        theirs / ours,
        ">= 50",
    )

    x = np.sort(np.random.default_rng(7).gamma(2.3, 8_700.0, 177))
    grid = x.var(ddof=1) * np.linspace(0.05, 1, 20)
    ours, theirs = race(lambda: empirical(x, grid, seed=1), lambda: double_loop(x, grid), rounds=15)
    risks, utilities = double_loop(x, grid)
    rumap = empirical(x, grid, seed=2)
    # Index and position alternate in the loop; both are within what 200 replicates can tell.
    gap = np.abs(rumap.risk.reshape(12, 20).T / risks - 1)
    assert np.median(gap) < 0.2 and np.allclose(rumap.utility[:20], utilities, rtol=0.2)
    yield "double loop / empirical map, 20 variances x 200 x 6 targets x 2 states", ours, theirs, theirs / ours, ">= 20"

    masks = [Noise(variance=float(v)) | Clip(lower=0) for v in grid]
    users = {"intruder": Snooper("max", Maximum()), "scientist": Snooper("mean", Parameter("mu"))}
    general = best(lambda: evaluate(masks, data=x, seed=1, **users), rounds=3)
    yield "double loop / the same by evaluate with two Snoopers, one target", general, theirs, theirs / general, ""

    large = np.random.default_rng(3).gamma(2.3, 8_700.0, 100_000)
    tracemalloc.start()
    start = perf_counter()
    empirical(large, large.var() * np.linspace(0.05, 1, 20), seed=1)
    seconds, peak = perf_counter() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    start = perf_counter()
    belief = NormalBelief(records=100_000, variance=1.0, prior="known")
    evaluate(
        [Noise(variance=v) for v in (0.1, 0.3)],
        intruder=Snooper("max", Maximum(), belief=belief),
        scientist=Snooper("mean", Parameter("mu"), belief=belief),
        seed=1,
    )
    other, top = perf_counter() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    yield f"n = 100,000: peak {peak / 1e6:.0f} MB of an empirical map / 500 MB", seconds, seconds, peak / LIMIT, "<= 1"
    yield f"n = 100,000: peak {top / 1e6:.0f} MB of evaluate with a belief / 500 MB", other, other, top / LIMIT, "<= 1"
