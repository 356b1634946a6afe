"""Duncan, Keller-McNulty and Stokes (2001), figure 1: unusual records under Kim's noise, as a toy.

Winkler and Kim masked 64,998 records of a housing survey with noise whose covariance is lambda^2 times that of the data
and tried to link 771 that had unusual combinations of categories. Risk is the share of these that are linked rightly,
utility 1 / (1 + lambda^2). The file is not public: here ``n`` records of six correlated amounts are drawn, and the same
share of them, 1.2 %, are the ones that somebody looks for. So the shape can be compared with the figure, the numbers
cannot.
"""

import numpy as np
import pandas as pd

import ruvdecision as ruv

MAX_RISK = 0.5
# The figure's ends: 0.0049 to 0.2333, and then 9.
LEVELS = (0.0049, 0.01, 0.0225, 0.04, 0.0625, 0.09, 0.16, 0.2333, 9.0)
SHARE = 771 / 64_998


def records(n, seed):
    """Six correlated amounts of dwellings, and the rows of those that are unusual in other ways."""
    rng = np.random.default_rng(seed)
    logs = rng.multivariate_normal(np.full(6, 9.0), 0.05 + 0.15 * np.eye(6), n)
    names = ["value", "rent", "income", "taxes", "heating", "repairs"]
    return pd.DataFrame(np.exp(logs), columns=names), rng.choice(n, max(1, round(SHARE * n)), replace=False)


def study(n=3000, replicates=5, seed=1):
    """Link the unusual records after noise of growing size; ``replicates`` draws of the noise each."""
    data, unusual = records(n, seed)
    link = ruv.measures.RecordLinkage()
    risk, error = [], []
    for i, level in enumerate(LEVELS):
        seeds = [np.random.SeedSequence([seed, i, r]) for r in range(replicates)]
        found = [link(data, ruv.Noise(share=level).release(data, s)).records[unusual].mean() for s in seeds]
        risk.append(np.mean(found))
        error.append(np.std(found, ddof=1) / np.sqrt(replicates) if replicates > 1 else 0.0)
    masks = [ruv.Noise(share=level) for level in LEVELS]
    return ruv.RUMap.build(
        masks=masks,
        labels=ruv.maps.Labels([f"lambda^2 = {level:g}" for level in LEVELS], technique="Kim's noise"),
        risk="linked",
        utility="efficiency",
        columns={"linked": risk, "linked_error": error, "efficiency": [1 / (1 + level) for level in LEVELS]},
        attrs={"better": {"linked": "lower", "efficiency": "higher"}, "n": n, "unusual": len(unusual)},
    )


def notes(rumap):
    """What the paper says of its figure, held against ours."""
    risk, utility = rumap.risk, rumap.utility
    yield f"{rumap.attrs['unusual']} unusual records of {rumap.attrs['n']:,}; the paper has 771 of 64,998."
    yield f"From lambda^2 = 0.0049 to 0.2333 the share linked falls from {risk[0]:.2f} to {risk[-2]:.2f}."
    yield (
        f"From 0.2333 to 9 it falls by {risk[-2] - risk[-1]:.2f} more, while utility falls from {utility[-2]:.2f} to "
        f"{utility[-1]:.2f}. Paper: little value in noise beyond about 0.2."
    )


if __name__ == "__main__":
    from ruvdecision.cli import main

    raise SystemExit(main(["run", __file__]))
