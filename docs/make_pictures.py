"""Draw the pictures of the README and the gallery with the package itself: python docs/make_pictures.py [directory]."""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "models"))

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import trottini_fienberg_normal  # noqa: E402

import ruvdecision as ruv  # noqa: E402
from ruvdecision import plots  # noqa: E402
from ruvdecision.plots.theme import theme  # noqa: E402

AVERAGE = ruv.Microaggregate(groups=1)
GRID = np.array([float(f"{v:.1e}") for v in np.geomspace(0.1, 50, 20)])


def users(variance: float) -> dict[str, ruv.User]:
    """The intruder and the scientist of Trottini and Fienberg's example 1."""
    belief = ruv.NormalBelief(records=10, variance=variance, prior_variance=5)
    return {
        "intruder": ruv.User(belief, ruv.Record(0), ruv.Quadratic()),
        "scientist": ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic()),
    }


def study(variance: float) -> ruv.RUMap:
    """Noise with and without averaging."""
    masks = [
        ruv.Suppress(),
        AVERAGE,
        *(ruv.Noise(variance=v) | AVERAGE for v in GRID),
        *(ruv.Noise(variance=v) for v in GRID[GRID > 2]),
    ]
    return ruv.evaluate(masks, **users(variance))


def measured() -> ruv.RUMap:
    """Four techniques on a file that was made up."""
    rng = np.random.default_rng(1)
    file = pd.DataFrame(
        rng.multivariate_normal([2, 2, 2], [[1, 0.6, 0.5], [0.6, 1, 0.3], [0.5, 0.3, 1]], 300), columns=["y", "a", "b"]
    )
    masks = [ruv.Noise(share=s) for s in (0.05, 0.2, 0.5)] + [ruv.Microaggregate(size=k, by="mdav") for k in (3, 10)]
    masks += [ruv.RankSwap(within=w) for w in (0.05, 0.15)]
    measures = [
        ruv.measures.RecordLinkage(known=["a", "b"]),
        ruv.measures.IntervalOverlap("y ~ a + b"),
        ruv.measures.NormalKL(),
    ]
    return ruv.measure(file, masks, measures=measures, replicates=3, seed=7)


def gallery() -> dict[str, plt.Figure]:
    """One figure of each kind, by its name."""
    one, both = study(2.0), users(2.0)
    noises = [ruv.Noise(variance=v) for v in (0.5, 1, 2, 4)]
    varied = {
        "intruder.belief.prior_variance": [2, 10],
        "scientist.belief.variance": [1.5, 3],
        "max_risk": [0.45, 0.55],
    }
    moved = ruv.sensitivity([AVERAGE, *(n | AVERAGE for n in noises)], varied, max_risk=0.5, **both)
    known = ruv.scenarios.additive_noise(
        n=200, variance=1, noise_variance=np.arange(1, 101) / 100, knowledge=["record", "population"]
    )
    secret = ruv.analyses.price_of_publishing(noises, seed=1, replicates=60, **both)
    people = np.random.default_rng(5).multivariate_normal([0, 0, 0], [[1, 0.7, 0.3], [0.7, 1, 0.2], [0.3, 0.2, 1]], 400)
    file = pd.DataFrame(people, columns=["income", "tax", "age"])
    masked = ruv.Noise(share=0.1).release(file, 1)
    counts = pd.DataFrame(np.random.default_rng(6).integers(0, 3, (400, 4)), columns=["sex", "job", "region", "home"])
    swapped = counts.sample(400, replace=True, random_state=1).reset_index(drop=True)
    few = [ruv.Noise(variance=1), ruv.Noise(variance=9), ruv.Noise(variance=1) | AVERAGE, ruv.Suppress()]
    return {
        "gallery_maps": plots.maps({f"variance {v}": study(v) for v in (1.0, 2.0, 4.0, 8.0)}, max_risk=0.5),
        "gallery_posteriors": plots.posteriors(users(2.0)["intruder"], few, seed=3).figure,
        "gallery_uncertainty": plots.uncertainty(one, "variance").figure,
        "gallery_frontier3": plots.frontier3(measured(), ["linkage", "IO", "KL"]).figure,
        "gallery_map": one.plot(max_risk=0.5).figure,
        "gallery_knowledge": plots.knowledge(known, max_risk=5, log="y").figure,
        "gallery_limit": plots.limit(
            ruv.limit(both["intruder"], both["scientist"], np.linspace(0.16, 0.55, 12))
        ).figure,
        "gallery_tornado": moved.plot().figure,
        "gallery_record_risk": plots.record_risk(
            ruv.analyses.record_risk(noises[2:3], intruder=both["intruder"]), max_risk=0.9
        ).figure,
        "gallery_publishing": secret.plot().figure,
        "gallery_tables": plots.tables(ruv.measures.TableUtility(list(counts), way=[1, 2])(counts, swapped)).figure,
        "gallery_pairs": plots.files(file, masked, linked=True),
        "gallery_scatter": plots.files(file, masked, kind="scatter", linked=True),
        "gallery_histograms": plots.files(file, masked, kind="histograms"),
    }


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    place.mkdir(parents=True, exist_ok=True)
    figure = trottini_fienberg_normal.figure(trottini_fienberg_normal.study(), max_risk=0.5)
    figure.savefig(place / "map.png", dpi=110, metadata={"Software": None})
    for style in ("light", "dark"):
        with theme(style):
            for name, drawn in gallery().items():
                drawn.savefig(place / f"{name}_{style}.png", dpi=80, metadata={"Software": None})
        plt.close("all")
