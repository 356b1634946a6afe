"""Every exported mask with its options: methods, kinds, units and chains, for the edge tests of masks."""

from __future__ import annotations

from typing import Any

import numpy as np
from examples import MASKS, exported

import ruvdecision as ruv
from ruvdecision import masks


def scaled(x: Any) -> Any:
    """A size of noise in proportion to the value."""
    return 0.1 * abs(x)


def doubled(x: Any) -> Any:
    """A variance that is twice as large for large values."""
    return 1.0 + (x > 3)


#: Variants of each mask's options, beside its example. Columns are named by position, so that they fit every file.
OPTIONS: dict[str, list[masks.Mask]] = {
    "Noise": [
        ruv.Noise(variance=0.0),
        ruv.Noise(variance=np.inf),
        ruv.Noise(sd=0.5),
        ruv.Noise(sd=[0.1, 0.2, 0.3]),
        ruv.Noise(sd=np.linspace(0.1, 1, 12)),
        ruv.Noise(variance=np.linspace(0.1, 1, 12)[:, None]),
        ruv.Noise(sd=scaled),
        ruv.Noise(variance=1.0, columns=[0]),
        ruv.Noise(covariance=np.eye(3) + 0.5),
        ruv.Noise(share=0.16),
        ruv.Noise(variance=1.0, common=True),
        ruv.Noise(sd=1.0, kind="laplace"),
        ruv.Noise(sd=1.0, kind="t", df=5),
        ruv.Noise(sd=1.0, kind="mixture"),
        ruv.Noise(sd=1.0, kind="mixture", weights=[0.25, 0.75], centres=[-0.9, 0.3]),
        ruv.Noise(sd=1.0) | masks.Clip(lower=0.0, upper=4.0),
        ruv.Noise(variance=doubled),
        ruv.Noise(variance=[2.0, 1.0] * 6),
    ],
    "MomentNoise": [masks.MomentNoise(share=0.16), masks.MomentNoise(variance=1.0)],
    "ResidualNoise": [ruv.Microaggregate(size=3, by="zscore") | masks.ResidualNoise()],
    "Clip": [masks.Clip(lower=0.0, upper=4.0), masks.Clip(upper=[1.0, 2.0, 3.0]), masks.Clip(lower=2.0, columns=[0])],
    "MultiplicativeNoise": [
        ruv.MultiplicativeNoise(sd=0.0),
        ruv.MultiplicativeNoise(sd=0.2, kind="lognormal"),
        ruv.MultiplicativeNoise(sd=0.05, away=0.2, kind="mixture"),
        ruv.MultiplicativeNoise(least=0.1, most=0.3, kind="split"),
        ruv.MultiplicativeNoise(sd=0.2, per="record"),
        ruv.MultiplicativeNoise(sd=0.2, columns=[0]),
    ],
    "Microaggregate": [
        ruv.Microaggregate(groups=1),
        ruv.Microaggregate(size=3),
        ruv.Microaggregate(size=3, by="rows"),
        ruv.Microaggregate(groups=[0, 1, 2] * 4),
        *(ruv.Microaggregate(size=3, by=by) for by in ("each", "zscore", "pc1", "mdav")),
        *(ruv.Microaggregate(groups=2, by=by) for by in ("each", "zscore", "pc1")),
        ruv.Microaggregate(size=2, by="mdav", standardise=False),
        ruv.Microaggregate(size=2, by="pc1", standardise=False),
        ruv.Microaggregate(size=2, by="mdav", block=2),
        ruv.Microaggregate(size=3, by="each", centre="median"),
        ruv.Microaggregate(size=3, by="rows", centre="median"),
        ruv.Microaggregate(size=1, by="mdav", within=[0]),
        ruv.Microaggregate(size=2, by="each", columns=[0]),
    ],
    "MicroaggregateMixed": [
        ruv.masks.MicroaggregateMixed(size=1),
        ruv.masks.MicroaggregateMixed(size=3, scale="range"),
        ruv.masks.MicroaggregateMixed(size=3, columns=[0]),
        ruv.masks.MicroaggregateMixed(size=2, weights={0: 2.0}),
    ],
    "Subsample": [ruv.Subsample(size=1), ruv.Subsample(share=0.5), ruv.Subsample(share=1.0)],
    "Suppress": [ruv.Suppress(columns=[0]), ruv.Suppress(rows=[0]), ruv.Suppress(columns=[0], rows=[-1])],
    "SuppressCells": [
        ruv.SuppressCells(),
        ruv.SuppressCells(cells=[(0, 0)], margins=False),
        ruv.SuppressCells(cells=[0]),
    ],
    "Stochastic": [
        ruv.Stochastic([[0.5, 0.5], [0.5, 0.5]], columns=[0]),
        ruv.Stochastic(np.full((3, 3), 1 / 3), inputs=["x", "y", "z"], columns=[0]),
        ruv.Stochastic([[1.0, 0.0], [0.0, 1.0]], inputs=["north", "south"], outputs=["s", "t"], columns=[0]),
        ruv.Stochastic(np.full((4, 4), 0.25), columns=[0]),
    ],
    "PRAM": [
        ruv.PRAM(stay=0.8),
        ruv.PRAM(stay=0.5, invariant=True),
        ruv.PRAM(stay=0.5, invariant=True, columns=[0]),
        ruv.PRAM(matrix=[[0.9, 0.1], [0.2, 0.8]], columns=[0]),
        ruv.PRAM(matrix=[[0.9, 0.1], [0.2, 0.8]], categories=[0, 1]),
        ruv.PRAM(stay=0.7, categories=["x", "y", "z"], columns=[0]),
        ruv.PRAM(stay={0: 0.9}),
    ],
    "LocalSuppress": [
        ruv.LocalSuppress(k=1, keys=[0]),
        ruv.LocalSuppress(k=3, keys=[0, 1]),
        ruv.LocalSuppress(k=2, keys=[0, 1], importance=[1, 3]),
        ruv.LocalSuppress(k=2, keys=[0, 1], importance={1: 3}),
    ],
    "Recode": [
        ruv.Recode(bins=[-np.inf, 0, 2, np.inf]),
        ruv.Recode(bins=[-np.inf, 2, np.inf], label=["low", "high"]),
        ruv.Recode(bins=[-10, 2, 1000], label="midpoint"),
        ruv.Recode(bins=[-10, 2, 1000], label="lower"),
        ruv.Recode(width=0.5),
        ruv.Recode(width=0.5, label="midpoint"),
        ruv.Recode(width=0.5, label="lower"),
        ruv.Recode(categories={"x": "u", "y": "u", "north": "N"}, other="rest"),
        ruv.Recode(categories={"x": "u", "y": "u", "z": "v", "w": "v"}, columns=[0]),
        ruv.Recode(categories={True: "yes", False: "no"}),
    ],
    "Topcode": [
        ruv.Topcode(quantile=0.8),
        ruv.Topcode(at=3.0, replace="mean"),
        ruv.Topcode(quantile=0.5, replace="median"),
        ruv.Topcode(at=[1.0, 2.0, 3.0]),
        ruv.Topcode(at=2.0, columns=[0]),
    ],
    "Bottomcode": [
        ruv.Bottomcode(quantile=0.2),
        ruv.Bottomcode(at=3.0, replace="mean"),
        ruv.Bottomcode(quantile=0.5, replace="median"),
    ],
    "Round": [
        ruv.Round(base=0.1),
        ruv.Round(base=2.0, random=True),
        ruv.Round(base=[1, 2, 3]),
        ruv.Round(base=0.5, columns=[0]),
    ],
    "RankSwap": [ruv.RankSwap(within=1.0), ruv.RankSwap(within=0.01), ruv.RankSwap(within=0.2, columns=[0])],
    "Swap": [
        ruv.Swap(rate=1.0, columns=[0]),
        ruv.Swap(rate=0.3, columns=[0], within=[1]),
        ruv.Swap(rate=1.0, columns=[0], where=[True, False] * 6),
    ],
    "Resample": [ruv.Resample(times=1), ruv.Resample(times=3, columns=[0])],
    "Shuffle": [],
    "Synthesize": [
        ruv.Synthesize(moments="exact"),
        ruv.Synthesize(proper=True),
        ruv.Synthesize(columns=[0], given=[1]),
        ruv.Synthesize(moments="exact", columns=[0], given=[1]),
        ruv.Synthesize(method="copula"),
        ruv.Synthesize(method="copula", columns=[0], given=[1]),
        ruv.Synthesize(method="hypercube"),
        ruv.Synthesize(method="regression"),
        ruv.Synthesize(method="regression", proper=True),
        ruv.Synthesize(method="cart"),
        ruv.Synthesize(method="cart", proper=True, min_leaf=2),
        ruv.Synthesize(method="cart", columns=[0]),
        ruv.Synthesize(
            belief=ruv.NormalBelief(
                records=12, covariance=np.eye(3), prior_mean=np.zeros(3), prior_covariance=np.eye(3)
            )
        ),
    ],
    "DataShuffle": [ruv.DataShuffle(columns=[0], given=[1]), ruv.DataShuffle(columns=[0, 1])],
    "Combine": [ruv.masks.Combine(np.eye(6), np.eye(6), rows=[0]), ruv.masks.Combine(np.eye(3), np.zeros((3, 3)))],
    "SeparateRows": [ruv.masks.SeparateRows(rows=[0, 1])],
    "Mechanism": [],
    "Release": [],
    "Chain": [
        ruv.Noise(sd=1.0) | ruv.Round(base=0.5),
        ruv.Topcode(quantile=0.9) | ruv.Noise(share=0.1) | ruv.Shuffle(),
        ruv.Subsample(share=0.5) | ruv.Microaggregate(size=2, by="mdav"),
        ruv.Suppress(rows=[0]) | ruv.Noise(sd=1.0) | ruv.Microaggregate(groups=1),
        ruv.Recode(width=1.0) | ruv.PRAM(stay=0.8) | ruv.LocalSuppress(k=2, keys=[0]),
        ruv.RankSwap(within=0.3) | ruv.Resample(times=2),
        ruv.Shuffle() | ruv.Swap(rate=0.5, columns=[0]),
    ],
}


def variants() -> dict[str, masks.Mask]:
    """Every exported mask under its name: the example, then its other options."""
    found = {}
    for name in sorted(exported(masks, masks.Mask)):
        listed = [MASKS[name], *OPTIONS.get(name, [])] if name in MASKS else []
        found.update({f"{name}-{i}" if i else name: mask for i, mask in enumerate(listed)})
    return found


VARIANTS = variants()
