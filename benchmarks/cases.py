"""What is loaded: masks, measures and maps with the order that each promises, made for any size.

A case makes its own data, so that it can run in a process of its own. ``time`` and ``memory`` are the exponents that
are promised against the number of records, of columns and of releases; "n log n" is promised as ``LOG`` a little above
one, because that is what a straight line through its times shows at these sizes.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ruvdecision as ruv

__all__ = ["CASES", "LOG", "Case", "file", "names"]

LOG = 1.15
"""The slope of n log n between a few thousand and a million, with a little for the caches that are left behind."""


@dataclass(frozen=True)
class Case:
    """One thing to load: ``make(n, p, releases)`` gives back a function without arguments that does the work."""

    kind: str
    make: Callable[[int, int, int], Callable[[], Any]]
    order: str = "n p"
    """The promise in words."""
    n: float = 1.0
    p: float = 1.0
    releases: float = 1.0
    """The exponents that are promised; zero where the size does not matter."""
    memory: float = 1.0
    """The promised exponent of the peak against records and columns."""
    memory_releases: float = 1.0
    most: int = 1_000_000
    """More records than this are not promised in reasonable time."""
    most_releases: int = 100_000


def names(p: int) -> tuple[list[str], list[str]]:
    """Names of the numeric and the categorical columns among p: one in five is categorical."""
    few = p // 5
    return [f"v{j}" for j in range(p - few)], [f"c{j}" for j in range(few)]


def file(n: int, p: int, seed: int = 1) -> pd.DataFrame:
    """A file with correlated numbers (one in five skewed) and categories with 2, 5, 10 and 50 values in turn."""
    rng = np.random.default_rng(seed)
    numbers, words = names(p)
    values = rng.standard_normal((n, len(numbers))) * np.sqrt(0.7)
    values += np.sqrt(0.3) * rng.standard_normal((n, 1)) + 2
    values[:, ::5] = np.exp(values[:, ::5] / 2)
    frame = pd.DataFrame(values, columns=numbers)
    for j, name in enumerate(words):
        k = (2, 5, 10, 50)[j % 4]
        frame[name] = pd.Categorical.from_codes(rng.integers(0, k, n), [f"k{i}" for i in range(k)])
    return frame


def mask(build: Callable[[list[str], list[str]], Any], **promise: Any) -> Case:
    """A mask applied once."""

    def make(n: int, p: int, releases: int) -> Callable[[], Any]:
        data, one = file(n, p), build(*names(p))
        one.release(data.head(500), 1)  # compile, or fetch what was compiled
        return lambda: one.release(data, 1)

    return Case("mask", make, **promise)


def measure(build: Callable[[list[str], list[str]], Any], **promise: Any) -> Case:
    """A measure of a file with noise on its numbers and a few categories drawn anew."""

    def make(n: int, p: int, releases: int) -> Callable[[], Any]:
        data, one = file(n, p), build(*names(p))
        noisy = ruv.Noise(share=0.16, columns=names(p)[0])
        released = noisy.release(data, 1)
        if names(p)[1]:
            released = ruv.PRAM(stay=0.9, columns=names(p)[1]).release(released, 2)
        one(data.head(500), released.head(500))
        return lambda: one(data, released)

    return Case("measure", make, **promise)


def users() -> dict[str, ruv.User]:
    belief = ruv.NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)
    return {
        "intruder": ruv.User(belief, ruv.Record(0), ruv.Quadratic()),
        "scientist": ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic()),
    }


def grid(releases: int) -> list[Any]:
    average = ruv.Microaggregate(groups=1)
    return [ruv.Noise(variance=float(v)) | average for v in np.linspace(0.01, 100, releases)]


def of_map(use: Callable[[ruv.RUMap], Any]) -> Case:
    """Something that is done with a closed-form map."""

    def make(n: int, p: int, releases: int) -> Callable[[], Any]:
        use(ruv.evaluate(grid(50), **users()))  # the imports
        rumap = ruv.evaluate(grid(releases), **users())
        return lambda: use(rumap)

    return Case("map", make, order="releases", n=0, p=0)


def doubtful(use: Callable[[ruv.RUMap], Any], **promise: Any) -> Case:
    """Something that is done with a cloud of releases whose U have errors."""

    def make(n: int, p: int, releases: int) -> Callable[[], Any]:
        use(cloud(50))
        rumap = cloud(releases)
        return lambda: use(rumap)

    return Case("map", make, **{"order": "releases", "n": 0, "p": 0, **promise})


def cloud(releases: int) -> ruv.RUMap:
    from ruvdecision.protocols import Value

    rng = np.random.default_rng(0)
    error = rng.uniform(0.01, 0.1, releases)
    return ruv.RUMap.build(
        labels=ruv.maps.Labels(
            [f"release {i}" for i in range(releases)], technique=[f"technique {i % 7}" for i in range(releases)]
        ),
        intruder=Value(rng.uniform(1, 10, releases), error),
        scientist=Value(1 / rng.uniform(1, 10, releases), error / 100),
        columns={"KL": rng.uniform(size=releases), "IO": rng.uniform(size=releases)},
    )


def _evaluate(n: int, p: int, releases: int) -> Callable[[], Any]:
    masks, who = grid(releases), users()
    ruv.evaluate(masks[:10], **who)
    return lambda: ruv.evaluate(masks, **who)


def _save_and_load(rumap: ruv.RUMap) -> ruv.RUMap:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "map.nc"
        rumap.save(path)
        return ruv.RUMap.load(path)


def _plot(rumap: ruv.RUMap) -> None:
    import matplotlib.pyplot as plt

    with tempfile.TemporaryDirectory() as folder:
        figure = rumap.plot(max_risk=0.5).figure
        figure.savefig(Path(folder) / "map.png")
        plt.close(figure)


def _report(rumap: ruv.RUMap) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rumap.report(Path(folder) / "report.html", max_risk=0.5)


def _replicates(n: int, p: int, releases: int) -> Callable[[], Any]:
    """The releases are replicates here: one mask applied so often, and measured."""
    data = file(n, p)
    numbers, _ = names(p)
    measures = [
        ruv.measures.IntervalOverlap(f"v0 ~ {' + '.join(numbers[1:4])}"),
        ruv.measures.NormalKL(columns=numbers),
        ruv.measures.RecordLinkage(known=numbers[1:4]),
    ]
    masks = [ruv.Noise(share=0.16, columns=numbers)]
    ruv.measure(data.head(300), masks, measures=measures, replicates=2, seed=1)
    return lambda: ruv.measure(data, masks, measures=measures, replicates=releases, seed=1)


def _chunked(n: int, p: int, releases: int) -> Callable[[], Any]:
    """Two csv files read in pieces. They are written here, before the clock runs, a piece at a time."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    paths = [folder / name for name in ("original.csv", "released.csv")]
    numbers, _ = names(p)
    noise = ruv.Noise(sd=0.3)
    for start in range(0, n, CHUNK):
        part = file(min(CHUNK, n - start), p, seed=1 + start)[numbers]
        for path, frame in zip(paths, (part, noise.release(part, start)), strict=True):
            frame.to_csv(path, index=False, mode="a" if start else "w", header=not start, float_format="%.6g")
    measures = [ruv.measures.NormalKL(), ruv.measures.IntervalOverlap(f"v0 ~ {' + '.join(numbers[1:4])}")]

    return lambda: ruv.measure(str(paths[0]), releases={"released": str(paths[1])}, measures=measures, chunksize=CHUNK)


CHUNK = 50_000


def _formula(numbers: list[str]) -> str:
    return f"v0 ~ {' + '.join(numbers[1:])}"


CASES: dict[str, Case] = {
    # -- maps ------------------------------------------------------------------------------------------
    "evaluate, closed form": Case("map", _evaluate, order="releases", n=0, p=0),
    "choose": of_map(lambda m: m.choose(max_risk=0.5)),
    "frontier": of_map(lambda m: m.frontier()),
    "to_dataframe": of_map(lambda m: m.to_dataframe()),
    "save and load": of_map(_save_and_load),
    "plot to a file": of_map(_plot),
    "report": of_map(_report),
    "choose, with errors": doubtful(lambda m: m.choose(max_risk=0.5)),
    "frontier of four columns": doubtful(
        lambda m: m.frontier(columns={"risk": "lower", "utility": "higher", "KL": "lower", "IO": "higher"}),
        order="releases log^2",
        releases=1.3,
    ),
    "plot, with errors": doubtful(_plot),
    "dominated": doubtful(
        lambda m: ruv.decide.dominated_releases(m), order="releases^2", releases=2.0, most_releases=20_000
    ),
    # -- masks -----------------------------------------------------------------------------------------
    "Noise": mask(lambda v, c: ruv.Noise(share=0.16, columns=v)),
    "Noise, moments kept": mask(lambda v, c: ruv.masks.MomentNoise(share=0.16, columns=v), order="n p^2", p=2.0),
    "MultiplicativeNoise": mask(lambda v, c: ruv.MultiplicativeNoise(sd=0.1, columns=v)),
    "RankSwap": mask(lambda v, c: ruv.RankSwap(within=0.05, columns=v), order="n log n p", n=LOG),
    "Resample": mask(lambda v, c: ruv.Resample(times=3, columns=v), order="n log n p", n=LOG),
    "Microaggregate, each": mask(
        lambda v, c: ruv.Microaggregate(size=3, by="each", columns=v), order="n log n p", n=LOG
    ),
    "Microaggregate, zscore": mask(
        lambda v, c: ruv.Microaggregate(size=3, by="zscore", columns=v), order="n log n + n p", n=LOG
    ),
    "Microaggregate, pc1": mask(
        lambda v, c: ruv.Microaggregate(size=3, by="pc1", columns=v), order="n log n + n p^2", n=LOG, p=2.0
    ),
    "Microaggregate, mdav": mask(
        lambda v, c: ruv.Microaggregate(size=3, by="mdav", columns=v), order="n^2 p", n=2.0, most=100_000
    ),
    "DataShuffle": mask(
        lambda v, c: ruv.DataShuffle(columns=v[:2], given=v[2:]), order="n log n + n p^2", n=LOG, p=2.0
    ),
    "Round": mask(lambda v, c: ruv.Round(base=0.5, columns=v)),
    "Topcode": mask(lambda v, c: ruv.Topcode(quantile=0.98, columns=v)),
    "Recode": mask(lambda v, c: ruv.Recode(width=0.5, columns=v)),
    "Swap": mask(lambda v, c: ruv.Swap(rate=0.1, columns=v[:2]), p=1.0),
    "PRAM": mask(lambda v, c: ruv.PRAM(stay=0.9, columns=c)),
    "Shuffle": mask(lambda v, c: ruv.Shuffle()),
    "Subsample": mask(lambda v, c: ruv.Subsample(share=0.1)),
    "LocalSuppress": mask(lambda v, c: ruv.LocalSuppress(k=3, keys=c), order="n 2^keys", p=2.0),
    "Synthesize, normal": mask(lambda v, c: ruv.Synthesize(method="normal", columns=v), order="n p^2", p=2.0),
    "Synthesize, cart": mask(
        lambda v, c: ruv.Synthesize(method="cart"), order="n log n p^2", n=1.3, p=2.2, most=100_000
    ),
    # -- measures --------------------------------------------------------------------------------------
    "NormalKL": measure(lambda v, c: ruv.measures.NormalKL(columns=v), order="n p^2", p=2.0),
    "IntervalOverlap": measure(lambda v, c: ruv.measures.IntervalOverlap(_formula(v)), order="n p^2", p=2.0),
    "EllipsoidOverlap": measure(lambda v, c: ruv.measures.EllipsoidOverlap(_formula(v)), order="n p^2", p=2.0),
    "Propensity": measure(lambda v, c: ruv.measures.Propensity(columns=v), order="n p^2", p=2.0),
    "TreePropensity": measure(
        lambda v, c: ruv.measures.TreePropensity(columns=v), order="n log n p", n=1.3, most=200_000
    ),
    "ClusteredPropensity": measure(
        lambda v, c: ruv.measures.ClusteredPropensity(columns=v), order="n^2 p", n=2.0, most=10_000
    ),
    "Wasserstein": measure(lambda v, c: ruv.measures.Wasserstein(columns=v), order="n log n p", n=LOG),
    "SlicedWasserstein": measure(lambda v, c: ruv.measures.SlicedWasserstein(columns=v), order="n log n p", n=LOG),
    "IL1s": measure(lambda v, c: ruv.measures.IL1s(columns=v)),
    "Mahalanobis": measure(lambda v, c: ruv.measures.Mahalanobis(columns=v), order="n p^2", p=2.0),
    "Eigenvalues": measure(lambda v, c: ruv.measures.Eigenvalues(columns=v), order="n p^2", p=2.0),
    "Marginals": measure(lambda v, c: ruv.measures.Marginals(), order="n log n p", n=LOG),
    "Pairwise": measure(lambda v, c: ruv.measures.Pairwise(), order="n log n + n p^2", n=LOG, p=2.0),
    "Hellinger": measure(lambda v, c: ruv.measures.Hellinger(columns=c), order="n p^2", p=2.0),
    "TotalVariation": measure(lambda v, c: ruv.measures.TotalVariation(columns=c), order="n p^2", p=2.0),
    "CramersV": measure(lambda v, c: ruv.measures.CramersV(columns=c), order="n p^2", p=2.0),
    "KAnonymity": measure(lambda v, c: ruv.measures.KAnonymity(keys=c), order="n log n p", n=LOG),
    "SampleUniques": measure(lambda v, c: ruv.measures.SampleUniques(keys=c), order="n log n p", n=LOG),
    "SpecialUniques": measure(lambda v, c: ruv.measures.SpecialUniques(keys=c), order="n log n p^3", n=LOG, p=3.0),
    "IntervalDisclosure": measure(lambda v, c: ruv.measures.IntervalDisclosure(columns=v, width_sd=0.1)),
    "RecordLinkage, 3 known": measure(
        lambda v, c: ruv.measures.RecordLinkage(known=v[:3]), order="n log n", n=1.3, p=0.5
    ),
    "RecordLinkage, 6 known": measure(
        lambda v, c: ruv.measures.RecordLinkage(known=v[:6]), order="n log n to n^2", n=1.6, p=0.5
    ),
    "MD, 2 columns": measure(lambda v, c: ruv.measures.MD(columns=v[:2]), order="n log n", n=LOG, p=0.5),
    "MD, all columns": measure(lambda v, c: ruv.measures.MD(columns=v), order="n^2 p", n=2.0, most=100_000),
    "EnergyDistance": measure(
        lambda v, c: ruv.measures.EnergyDistance(columns=v, projections=100), order="n log n p", n=LOG
    ),
    "FellegiSunter": measure(
        lambda v, c: ruv.measures.FellegiSunter(known=v[:6]), order="n^2", n=2.0, p=0.5, most=50_000
    ),
    "Cluster, average": measure(
        lambda v, c: ruv.measures.Cluster(clusters=100, columns=v[:4]), order="n^2", n=2.0, p=0.5, most=20_000
    ),
    "Cluster, k-means": measure(
        lambda v, c: ruv.measures.Cluster(clusters=100, columns=v, method="kmeans"), order="n p clusters", most=100_000
    ),
    "DensityKL": measure(lambda v, c: ruv.measures.DensityKL(columns=v[:3]), order="n + cells", p=0.5),
    # -- runs ------------------------------------------------------------------------------------------
    "measure with replicates": Case("run", _replicates, order="n log n replicates", n=1.3, p=2.0, memory_releases=0.0),
    "measure in pieces from csv": Case("run", _chunked, order="n p^2", p=2.0, memory=0.0),
}
