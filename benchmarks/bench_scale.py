"""Two workers against one, and a run with a checkpoint against one without, for an empirical map.

Eight kinds of masks with ten values each, twenty replicates, n = 10,000: 1,600 releases, 960 of them drawn and each of
the rest the same every time. BLAS has one thread on all sides, or the single worker would have both cores. With fewer
than two free cores the first ratio says nothing.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd

import ruvdecision as ruv

FORMULA = "y ~ a + b + c"


def _data(n=10_000, p=4, seed=0):
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(0.5 * np.eye(p) + 0.5)
    return pd.DataFrame(2 + rng.standard_normal((n, p)) @ root.T, columns=list("yabc"))


def _masks(values):
    masks = []
    for v in range(values):
        masks += [
            ruv.Noise(share=0.05 + 0.05 * v), ruv.MultiplicativeNoise(sd=0.02 + 0.02 * v),
            ruv.RankSwap(within=0.02 + 0.02 * v),
            ruv.Resample(times=2 + v), ruv.Swap(rate=0.05 + 0.05 * v, columns="y"),
            ruv.Noise(share=0.05 + 0.05 * v) | ruv.Round(base=0.5),
            ruv.Microaggregate(size=3 + v, by="each"), ruv.Microaggregate(size=3 + v, by="pc1"),
        ]  # fmt: skip
    return masks


def _timed(data, masks, measures, replicates, **more):
    start = perf_counter()
    rumap = ruv.measure(data, masks, measures=measures, replicates=replicates, seed=1, **more)
    return perf_counter() - start, rumap


def run(values=10, replicates=20, quick=False):
    """Yield (name, ours, theirs, ratio, wanted)."""
    if quick:
        values, replicates = 2, 3
    data, masks = _data(), _masks(values)
    measures = [ruv.measures.IntervalOverlap(FORMULA), ruv.measures.NormalKL(), ruv.measures.RecordLinkage()]
    ruv.measure(data.head(500), masks[:8], measures=measures, seed=1)  # compile what is compiled once on a machine
    alone, first = _timed(data, masks, measures, replicates)
    with ProcessPoolExecutor(2) as pool:
        together, second = _timed(data, masks, measures, replicates, executor=pool)
    with tempfile.TemporaryDirectory() as folder:
        kept, third = _timed(data, masks, measures, replicates, checkpoint=Path(folder) / "run")
    same = all(
        np.array_equal(first.columns[c], m.columns[c], equal_nan=True) for c in first.columns for m in (second, third)
    )
    if not same:
        raise AssertionError("the maps differ")
    size = f"empirical map of 8 masks x {values} values x {replicates} replicates, n = 10,000"
    yield f"one worker / two workers, {size}", together, alone, alone / together, ">= 1.7"
    yield "with a checkpoint / without, the same map", kept, alone, kept / alone, "<= 1.05"
