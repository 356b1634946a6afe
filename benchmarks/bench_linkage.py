"""Record linkage against scipy: correct-match rates, all neighbours, and Fellegi-Sunter against numpy on all pairs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.spatial import cKDTree

from ruvdecision.measures.risk.fellegi_sunter import FellegiSunter
from ruvdecision.measures.risk.linkage import RecordLinkage
from ruvdecision.measures.risk.neighbours import BoxTree, nearest

from .timing import best, race

Row = tuple[str, float, float, float, str]


def files(n: int, p: int, noise: float = 0.16) -> tuple[np.ndarray, np.ndarray]:
    """A normal file with correlation 0.3 and unit variances, and the same with noise, a share of its covariance."""
    rng = np.random.default_rng(1)
    root = np.linalg.cholesky(0.3 + 0.7 * np.eye(p))
    x = rng.standard_normal((n, p)) @ root.T
    return x, x + np.sqrt(noise) * rng.standard_normal((n, p)) @ root.T


def scipy_rate(x: np.ndarray, y: np.ndarray) -> float:
    """Share of released records nearest to their own original, standardised, by a k-d tree."""
    sd = x.std(axis=0, ddof=1)
    return float((cKDTree(x / sd).query(y / sd)[1] == np.arange(len(x))).mean())


def numpy_fellegi_sunter(x: np.ndarray, y: np.ndarray, iterations: int = 200) -> float:
    """Patterns of all pairs in blocks of rows, EM over patterns, best link per row."""
    n, p = x.shape
    width = 0.05 * x.std(axis=0, ddof=1)
    blocks = [slice(i, i + 200) for i in range(0, n, 200)]

    def codes(part: slice) -> np.ndarray:
        return sum((np.abs(y[part, None, j] - x[None, :, j]) <= width[j]).astype(np.int64) << j for j in range(p))

    counts = sum(np.bincount(codes(part).ravel(), minlength=1 << p) for part in blocks).astype(float)
    bits = (np.arange(1 << p)[:, None] >> np.arange(p)) & 1
    m, u, w = np.full(p, 0.9), counts @ bits / counts.sum(), 1 / n
    for _ in range(iterations):
        a = w * np.prod(np.where(bits, m, 1 - m), axis=1)
        g = a / (a + (1 - w) * np.prod(np.where(bits, u, 1 - u), axis=1)) * counts
        m, u, w = g @ bits / g.sum(), (counts - g) @ bits / (counts - g).sum(), g.sum() / counts.sum()
    weight = bits @ np.log(m / u) + (1 - bits) @ np.log((1 - m) / (1 - u))
    total = 0.0
    for part in blocks:
        each = weight[codes(part)]
        tie = each >= each.max(axis=1, keepdims=True) - 1e-9
        total += (tie[np.arange(len(each)), np.arange(n)[part]] / tie.sum(axis=1)).sum()
    return total / n


def run(quick: bool = False) -> Iterator[Row]:
    """Yield rows; ``quick`` leaves out the larger files."""
    measure = RecordLinkage()
    for n, wanted, rounds in ((10_000, ">= 1.5", 5), (100_000, ">= 2", 1))[: 1 if quick else 2]:
        for p in (6, 10):
            x, y = files(n, p)
            ours, theirs = race(lambda x=x, y=y: measure(x, y), lambda x=x, y=y: scipy_rate(x, y), rounds=rounds)
            yield f"scipy cKDTree / correct-match rate, n={n:,}, p={p}", ours, theirs, theirs / ours, wanted
    for p in (6, 10):
        x, y = files(10_000, p)
        ours, theirs = race(lambda x=x, y=y: nearest(BoxTree.of(x), y), lambda x=x, y=y: cKDTree(x).query(y))
        yield f"scipy cKDTree / all neighbours with ties, n=10,000, p={p}", ours, theirs, theirs / ours, ">= 1"
    x, y = files(3_000, 6)
    ours, theirs = best(lambda: FellegiSunter()(x, y), rounds=3), best(lambda: numpy_fellegi_sunter(x, y), rounds=1)
    yield "numpy on all pairs / Fellegi-Sunter, n=3,000, p=6", ours, theirs, theirs / ours, ""
