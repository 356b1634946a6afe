"""One small instance of every exported class, and how the tests find the classes.

Shared by the contract and edge tests.
"""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd

import ruvdecision as ruv
from ruvdecision import measures

# One small instance of every exported class; a class without one fails `test_contracts.py`.
LOSSES = {
    "CRPS": ruv.CRPS(),
    "Absolute": ruv.Absolute(),
    "CustomLoss": ruv.CustomLoss(lambda e, t: (e - t) ** 2),
    "Huber": ruv.Huber(1.0),
    "IntervalScore": ruv.IntervalScore(0.9),
    "KullbackLeibler": ruv.KullbackLeibler(),
    "Linex": ruv.Linex(0.5),
    "LogScore": ruv.LogScore(),
    "Pinball": ruv.Pinball(0.7),
    "Power": ruv.Power(1.5),
    "Quadratic": ruv.Quadratic(),
    "ZeroOne": ruv.ZeroOne(tolerance=0.3),
}
POSTERIORS = {
    "Gaussian": ruv.posteriors.Gaussian.scalar(0.3, 1.7),
    "Finite": ruv.posteriors.Finite([0.0, 1.0, 2.5], [0.2, 0.5, 0.3]),
    "Mixture": ruv.posteriors.Mixture(ruv.posteriors.Gaussian.scalar([0.0, 2.0], [1.0, 0.5]), [0.4, 0.6]),
    "Drawn": ruv.posteriors.Drawn(np.random.default_rng(0).standard_normal(500)),
    "sampled Mixture": ruv.posteriors.Mixture(
        ruv.posteriors.Gaussian.scalar(np.linspace(-1, 1, 40), 1.5), sampled=True
    ),
    "Curve": ruv.posteriors.Curve(np.linspace(-8, 8, 161), -(np.linspace(-8, 8, 161) ** 2) / 2),
    "PartlyDiscrete": ruv.posteriors.PartlyDiscrete(
        ruv.posteriors.Finite([0.0, 1.0], [0.7, 0.3]),
        ruv.posteriors.Curve(np.linspace(-8, 8, 161), -(np.linspace(-8, 8, 161) ** 2) / 2),
        0.4,
    ),
}
TARGETS = {
    "Record": ruv.Record(0),
    "Records": ruv.Records(),
    "NewRecord": ruv.NewRecord(),
    "Parameter": ruv.Parameter("mu"),
    "Average": ruv.Average(),
    "EachRecord": ruv.EachRecord(),
    "Functional": ruv.Functional(lambda x: 2 * x, of=ruv.Record(0)),
    "Identity": ruv.Identity(0, known=[0]),
    "Maximum": ruv.Maximum(),
    "Minimum": ruv.Minimum(),
    "OrderStatistic": ruv.OrderStatistic(2),
    "Percentile": ruv.Percentile(0.5),
}
MASKS = {
    "Release": ruv.Release(),
    "Suppress": ruv.Suppress(),
    "Noise": ruv.Noise(variance=1.0),
    "MomentNoise": ruv.masks.MomentNoise(variance=1.0),
    "ResidualNoise": ruv.Microaggregate(groups=2) | ruv.masks.ResidualNoise(),
    "Clip": ruv.masks.Clip(lower=0.0),
    "Microaggregate": ruv.Microaggregate(groups=2),
    "Subsample": ruv.Subsample(size=3),
    "Shuffle": ruv.Shuffle(),
    "Chain": ruv.Noise(variance=1.0) | ruv.Microaggregate(groups=2),
    "Stochastic": ruv.Stochastic([[0.9, 0.1], [0.2, 0.8]]),
    "SuppressCells": ruv.SuppressCells(cells=[(0, 0)]),
    "RankSwap": ruv.RankSwap(within=0.5),
    "Swap": ruv.Swap(rate=0.5, columns=[0]),
    "Resample": ruv.Resample(times=2),
    "MultiplicativeNoise": ruv.MultiplicativeNoise(sd=0.1),
    "Topcode": ruv.Topcode(at=3.0),
    "Bottomcode": ruv.Bottomcode(at=1.0),
    "Round": ruv.Round(base=2),
    "Recode": ruv.Recode(bins=[-1, 2, 10]),
    "Synthesize": ruv.Synthesize(),
    "PRAM": ruv.PRAM(stay=0.8, columns=[0]),
    "LocalSuppress": ruv.LocalSuppress(k=2, keys=[0]),
    "DataShuffle": ruv.DataShuffle(columns=[0]),
    "MicroaggregateMixed": ruv.masks.MicroaggregateMixed(size=2),
    "Mechanism": ruv.masks.Mechanism(np.ones((7, 1)), outputs=[0.5], outcomes=[0, 1], records=6),
    "SeparateRows": ruv.masks.SeparateRows(rows=[0]),
    "Combine": ruv.masks.Combine([[1.0]], [[0.5]]),
}
BELIEFS = {
    "NormalBelief": (
        ruv.NormalBelief(records=4, variance=1, prior_variance=1),
        ruv.Record(0),
        ruv.Noise(variance=1.0),
        ruv.Quadratic(),
    ),
    "FiniteBelief": (
        ruv.FiniteBelief(values=[0.0, 1.0], probabilities=[0.5, 0.5]),
        ruv.Parameter("theta"),
        ruv.Stochastic([[0.9, 0.1], [0.2, 0.8]]),
        ruv.Quadratic(),
    ),
    "TableBelief": (
        ruv.TableBelief(shape=(2, 2), total=5),
        ruv.Cell((0, 0)),
        ruv.SuppressCells(cells="all"),
        ruv.Quadratic(),
    ),
}
PEOPLE = pd.DataFrame(np.random.default_rng(9).standard_normal((50, 3)), columns=list("abc")).assign(
    g=list("xyzxz") * 10, h=list("uvuvuuuvvu") * 5
)
"""A file beside original and release, for measures that take a population or a holdout."""
MEASURES = {
    "AttributeDisclosure": {"unknown": "c"},
    "CoefficientChanges": {"model": "a ~ b + c"},
    "EllipsoidOverlap": {"model": "a ~ b + c"},
    "IntervalOverlap": {"model": "a ~ b + c"},
    "IntruderError": {"unknown": "c"},
    "DeltaPresence": {"keys": ["g"], "population": PEOPLE[["g"]]},
    "Disclosure": {"keys": ["g"]},
    "HouseholdRisk": {"household": "h", "keys": ["g"]},
    "KMap": {"keys": ["g"], "population": PEOPLE[["g"]]},
    "LDiversity": {"target": "h", "keys": ["g"]},
    "Linkability": {"known": ["a"], "other": ["b", "c"]},
    "Membership": {"known": ["a", "b", "c"], "holdout": PEOPLE[["a", "b", "c"]]},
    "PopulationUniques": {"keys": ["g"], "population": PEOPLE[["g"]]},
    "SkinnerElliot": {"population": 10_000, "keys": ["g", "h"]},
    "TCloseness": {"target": "h", "keys": ["g"]},
    "TrainOnRelease": {"target": "c", "estimator": "linear"},
    "LogLinearUniques": {"population": 10_000, "keys": ["g", "h"]},
    "PitmanUniques": {"population": 10_000, "keys": ["g", "h"]},
    "PoissonGammaUniques": {"population": 10_000, "keys": ["g", "h"]},
}
CATEGORICAL = {
    "CramersV",
    "DeltaPresence",
    "Disclosure",
    "EntropyChange",
    "EntropyLoss",
    "Hellinger",
    "HouseholdRisk",
    "IndividualRisk",
    "KAnonymity",
    "KMap",
    "LDiversity",
    "LogLinearLoss",
    "LogLinearUniques",
    "PearsonC",
    "PitmanUniques",
    "PoissonGammaUniques",
    "PopulationUniques",
    "ReplicatedUniques",
    "SampleUniques",
    "SkinnerElliot",
    "SpecialUniques",
    "TCloseness",
    "TotalVariation",
}
BASES = {"Measure", "PairedMeasure", "RecordMeasure"}


def spelt(given, words):
    """An argument of a measure for a file whose columns have other names."""
    if isinstance(given, pd.DataFrame):
        return given.rename(columns=words)
    return [words[v] for v in given] if isinstance(given, list) else words.get(given, given)


def exported(module, base):
    """Concrete public classes of a module."""
    names = [n for n in module.__all__ if inspect.isclass(getattr(module, n))]
    return [
        n for n in names if base is None or (issubclass(getattr(module, n), base) and getattr(module, n) is not base)
    ]


def measure_names():
    return sorted(n for n in exported(measures, measures.Measure) if n not in BASES)
