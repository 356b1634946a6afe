"""A whole empirical map against the loop that a user would write with statsmodels and scikit-learn.

Eight masks with several values and replicates, five measures: interval and ellipsoid overlap, normal KL, pMSE and
linkage. The masks are applied by the package on both sides; only the measuring differs. Scaled down to a few releases
at n = 10,000 by default, because the loop takes about a second a release.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

import ruvdecision as ruv

from .timing import best

FORMULA = "y ~ a + b + c + d + e"


def _data(n=10_000, p=6, seed=0):
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(0.5 * np.eye(p) + 0.5)
    return pd.DataFrame(2 + rng.standard_normal((n, p)) @ root.T, columns=list("yabcde"))


def _masks(values):
    masks = []
    for v in range(values):
        masks += [
            ruv.Noise(share=0.1 + 0.05 * v), ruv.RankSwap(within=0.05 + 0.03 * v), ruv.Resample(times=2 + v),
            ruv.Microaggregate(size=3 + v, by="each"), ruv.Microaggregate(size=3 + v, by="zscore"),
            ruv.Microaggregate(size=3 + v, by="pc1"),
            ruv.Microaggregate(size=3 + v, by="mdav"), ruv.Microaggregate(size=5 + v, by="mdav", block=3),
        ]  # fmt: skip
    return masks


def _loop(data, releases):
    """What a user would write: two fits, draws for the ellipsoid, a logistic regression, a search for neighbours."""
    import statsmodels.formula.api as smf
    from scipy import stats
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import NearestNeighbors

    rng = np.random.default_rng(1)
    rows = []
    for released in releases:
        fits = [smf.ols(FORMULA, frame).fit() for frame in (data, released)]
        laws = [[stats.t(f.df_resid, loc=b, scale=s) for b, s in zip(f.params, f.bse, strict=True)] for f in fits]
        ends = [np.array([law.interval(0.95) for law in part]) for part in laws]
        io = np.mean(
            [
                (laws[i][k].cdf(ends[1 - i][k, 1]) - laws[i][k].cdf(ends[1 - i][k, 0]))
                for i in (0, 1)
                for k in range(len(laws[0]))
            ]
        )
        eo = []
        for f, g in (fits, fits[::-1]):
            p = len(f.params)
            draws = stats.multivariate_t(f.params.to_numpy(), f.cov_params().to_numpy(), df=f.df_resid, seed=rng).rvs(
                100_000
            )
            gap = draws - g.params.to_numpy()
            eo.append(
                np.mean(
                    np.einsum("ij,jk,ik->i", gap, np.linalg.inv(g.cov_params().to_numpy()), gap)
                    <= p * stats.f.ppf(0.95, p, g.df_resid)
                )
            )
        a, b = np.cov(data, rowvar=False), np.cov(released, rowvar=False)
        shift = released.mean().to_numpy() - data.mean().to_numpy()
        inverse = np.linalg.inv(b)
        kl = 0.5 * (
            np.trace(inverse @ a) - len(a) + shift @ inverse @ shift + np.linalg.slogdet(b)[1] - np.linalg.slogdet(a)[1]
        )
        pooled, source = np.concatenate([data, released]), np.repeat([0, 1], len(data))
        chance = LogisticRegression(C=np.inf, tol=1e-8, max_iter=500).fit(pooled, source).predict_proba(pooled)[:, 1]
        scale = data.std().to_numpy()
        near = (
            NearestNeighbors(n_neighbors=1)
            .fit(data.to_numpy() / scale)
            .kneighbors(released.to_numpy() / scale, return_distance=False)[:, 0]
        )
        rows.append((io, np.mean(eo), kl, np.mean((chance - 0.5) ** 2), np.mean(near == np.arange(len(near)))))
    return rows


def run(values=1, replicates=2, quick=False):
    """Yield (name, ours, theirs, ratio, wanted)."""
    data, masks = _data(1_000 if quick else 10_000), _masks(values)
    measures = [
        ruv.measures.IntervalOverlap(FORMULA),
        ruv.measures.EllipsoidOverlap(FORMULA),
        ruv.measures.NormalKL(),
        ruv.measures.Propensity(),
        ruv.measures.RecordLinkage(),
    ]
    # Compile what is compiled once on a machine.
    ruv.measure(data.head(500), masks, measures=measures, seed=1)
    ours = best(lambda: ruv.measure(data, masks, measures=measures, replicates=replicates, seed=1), rounds=1)
    making = best(lambda: [m.release(data, r) for m in masks for r in range(replicates)], rounds=1)
    few = [m.release(data, 1) for m in masks]
    theirs = making + best(lambda: _loop(data, few), rounds=1) * replicates
    size = f"{len(masks)} masks x {replicates} replicates, 5 measures, n = {len(data):,}"
    name = f"loop with statsmodels and scikit-learn / empirical map of {size}"
    yield name, ours, theirs, theirs / ours, ">= 5"
