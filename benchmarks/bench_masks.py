"""Masks on data against what a user would write: plain numpy, the obvious loop, the sorts and draws they need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.timing import race
from ruvdecision.masks import Clip
from ruvdecision.masks.exchange import RankSwap, Resample
from ruvdecision.masks.microaggregate import Microaggregate
from ruvdecision.masks.noise import Noise

Row = tuple[str, float, float, float, str]


def run(large: bool = False) -> Iterator[Row]:
    """Rows of the table; ``large`` adds n = 100,000 for MDAV and 1,000,000 for rank swapping, about a minute."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(10_000, 6))
    mdav = Microaggregate(size=3, by="mdav")
    mdav.release(x[:100])  # compile, or fetch what was compiled
    ours, theirs = race(lambda: mdav.release(x), lambda: plain_mdav(x, 3), rounds=1)
    yield "MDAV k=3, n=10,000, p=6: times faster than plain numpy", ours, theirs, theirs / ours, ">= 15"

    swap = RankSwap(within=0.15)
    ours, theirs = race(lambda: swap.release(x[:, 0], 1), lambda: plain_rank_swap(x[:, 0], 0.15, 1), rounds=1)
    yield "RankSwap(.15), n=10,000: times faster than the obvious loop", ours, theirs, theirs / ours, ">= 30"
    big = rng.normal(size=400_000)
    ours, theirs = race(lambda: swap.release(big, 1), lambda: swap.release(big[:50_000], 1), rounds=2)
    yield "RankSwap(.15), n=400,000 / n=50,000 (n log n: 9.5)", ours, theirs, ours / theirs, "<= 16"

    y = rng.normal(size=(100_000, 6))
    for by in ("each", "zscore", "pc1"):
        mask = Microaggregate(size=3, by=by)
        ours, theirs = race(
            lambda mask=mask: mask.release(y), lambda by=by: sorts(y if by == "each" else y[:, :1]), rounds=3
        )
        yield f"Microaggregate(size=3, by={by!r}), n=100,000, p=6 / its sorts", ours, theirs, ours / theirs, "<= 3"
    ours, theirs = race(lambda: Resample(times=3).release(y, 1), lambda: plain_resample(y, 3, 1), rounds=3)
    yield "Resample(times=3), n=100,000, p=6 / sorting bootstrap samples", ours, theirs, ours / theirs, ""
    for noise in (Noise(sd=1), Noise(share=0.16), Noise(sd=1) | Clip(lower=0)):
        ours, theirs = race(
            lambda noise=noise: noise.release(y, 1), lambda: np.random.default_rng(1).standard_normal(y.shape), rounds=3
        )
        yield f"{noise}, n=100,000, p=6 / drawing the normals", ours, theirs, ours / theirs, "<= 3"
    if large:
        ours, theirs = race(lambda: mdav.release(y), lambda: mdav.release(x), rounds=1)
        yield "MDAV k=3, n=100,000 / n=10,000, p=6", ours, theirs, ours / theirs, "<= 100"
        million = rng.normal(size=1_000_000)
        ours, theirs = race(lambda: swap.release(million, 1), lambda: np.argsort(million, kind="stable"), rounds=1)
        yield "RankSwap(.15), n=1,000,000 / one sort", ours, theirs, ours / theirs, "<= 12"


def sorts(x: Any) -> None:
    for j in range(x.shape[1]):
        np.argsort(x[:, j], kind="stable")


def plain_mdav(x: Any, k: int) -> Any:
    """MDAV as one would write it with numpy."""
    z = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    left, out = np.arange(len(x)), np.empty_like(x)
    while len(left) >= 2 * k:
        r = left[np.argmax(((z[left] - z[left].mean(axis=0)) ** 2).sum(axis=1))]
        targets = [r]
        if len(left) >= 3 * k:
            targets.append(left[np.argmax(((z[left] - z[r]) ** 2).sum(axis=1))])
        for target in targets:
            near = np.argpartition(((z[left] - z[target]) ** 2).sum(axis=1), k - 1)[:k]
            out[left[near]] = x[left[near]].mean(axis=0)
            left = np.delete(left, near)
    out[left] = x[left].mean(axis=0)
    return out


def plain_rank_swap(x: Any, share: float, seed: int) -> Any:
    """Rank swapping by the obvious loop."""
    rng = np.random.default_rng(seed)
    n = len(x)
    window, order = int(share * n), np.argsort(x, kind="stable")
    ranked, free = x[order].copy(), np.ones(n, dtype=bool)
    for i in range(n):
        if free[i]:
            free[i] = False
            options = [j for j in range(i + 1, min(i + window + 1, n)) if free[j]]
            if options:
                j = options[rng.integers(len(options))]
                ranked[i], ranked[j], free[j] = ranked[j], ranked[i], False
    out = np.empty_like(x)
    out[order] = ranked
    return out


def plain_resample(x: Any, times: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    out = np.empty_like(x)
    for j in range(x.shape[1]):
        out[np.argsort(x[:, j]), j] = np.mean([np.sort(rng.choice(x[:, j], len(x))) for _ in range(times)], axis=0)
    return out
