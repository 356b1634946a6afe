"""Karr, Oganian, Reiter and Woo, table 1 and figure 1: moments prefer the mask that the eye rejects.

Two variables that are not normal are masked by a normal law with the same means and covariances (Syn) and by three
bootstrap samples (Resampling). Moments and a regression find nothing wrong with Syn, which has kept them exactly, and
find Resampling worse. Pictures and a tree that tells the files apart say the opposite. The paper's data are not
printed: ours are four clouds with about its variances and correlation.
"""

import numpy as np
import pandas as pd

import ruvdecision as ruv

MAX_RISK = 1.0
MASKS = {"Syn": ruv.Synthesize(moments="exact"), "Resampling": ruv.Resample(times=3)}
PAPER = {
    "mean of x1": (-0.02228, -0.022282, -0.039938),
    "mean of x2": (-0.009305, -0.009305, -0.027097),
    "variance of x1": (10.36007, 10.36007, 10.28796),
    "variance of x2": (20.47026, 20.47026, 19.75331),
    "correlation": (0.73634, 0.73634, 0.73627),
    "intercept": (-0.01741, -0.01741, -0.02534),
    "slope": (0.52384, 0.52384, 0.53135),
}


def records(n, seed):
    """Four clouds."""
    rng = np.random.default_rng(seed)
    centres = np.array([[-4.0, -6.0], [4.0, 6.0], [-1.5, 2.0], [1.5, -2.0]])
    x = centres[rng.choice(4, n, p=[0.3, 0.3, 0.2, 0.2])] + rng.standard_normal((n, 2))
    return pd.DataFrame(x, columns=["x1", "x2"])


def releases(n, seed):
    """The original and the two masked files."""
    data = records(n, seed)
    return data, {name: mask.release(data, np.random.SeedSequence([seed, 1])) for name, mask in MASKS.items()}


def table_1(files):
    """Moments and the regression of x1 on x2, for each file."""
    columns = []
    for data in files:
        (v1, c), (_, v2) = np.cov(data.to_numpy().T)
        m1, m2 = data.mean()
        columns.append([m1, m2, v1, v2, c / np.sqrt(v1 * v2), m1 - c / v2 * m2, c / v2])
    return dict(zip(PAPER, np.transpose(columns), strict=True))


def study(n=2000, seed=1):
    """Two maps: utility by the regression's intervals, and by a tree that tells the files apart."""
    data, masked = releases(n, seed)
    tree = ruv.measures.TreePropensity(cp=0.001, statistic="U", name="tree")
    measures = [ruv.measures.RecordLinkage(), ruv.measures.IntervalOverlap("x1 ~ x2"), tree]
    rumap = ruv.measure(data, releases=masked, measures=measures)
    rumap = ruv.RUMap.build(
        labels=ruv.maps.Labels(list(MASKS), technique=list(MASKS)),
        provenance=ruv.maps.Provenance(engine="data"),
        risk="linkage",
        utility="IO",
        columns=rumap.columns,
        attrs={**rumap.attrs, "n": n, "seed": seed},
    )
    return {"regression": rumap, "tree": rumap.with_utility(ruv.maps.scores.Column("tree", "negative"))}


def figure(maps):
    """Figure 1: the three files as clouds, and their histograms."""
    import matplotlib.pyplot as plt

    attrs = maps["tree"].attrs
    data, masked = releases(attrs["n"], int(attrs["seed"]))
    picture = plt.figure(figsize=(9, 9), layout="constrained")
    for part, (name, file) in zip(picture.subfigures(2, 1), masked.items(), strict=True):
        ruv.plots.files(data, file, figure=part, kind="scatter", names=("original", name))
    return picture


def notes(maps):
    """Table 1, and what each utility prefers."""
    attrs = maps["tree"].attrs
    data, masked = releases(attrs["n"], int(attrs["seed"]))
    yield "Table 1, ours (paper's): original, Syn, Resampling."
    for name, ours in table_1([data, *masked.values()]).items():
        yield f"  {name:<14} " + ", ".join(f"{a:.4g} ({b:.4g})" for a, b in zip(ours, PAPER[name], strict=True))
    for name, rumap in maps.items():
        yield f"By {name} the better file is {rumap.releases[int(np.argmax(rumap.utility))]}."


if __name__ == "__main__":
    from ruvdecision.cli import main

    raise SystemExit(main(["run", __file__]))
