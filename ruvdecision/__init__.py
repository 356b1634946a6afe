"""Risk-utility maps for confidential data: intruder and scientist as Bayesian decision makers.

The names stand in the order of the flow: belief and mask give a release, the release a posterior of the target,
the posterior an estimate and its uncertainty, both users' uncertainties a map, the map a choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import masks, protocols
from ._version import __version__
from .beliefs import Cell, FiniteBelief, NormalBelief, TableBelief
from .channels import LinearChannel
from .decide import Choice, choose, frontier
from .engines import Enumeration, Exact
from .errors import InfeasibleError, InputError, RuvError, UnsupportedError
from .evaluate import evaluate, posterior
from .lazy import attach
from .losses import (
    CRPS,
    Absolute,
    CustomLoss,
    Huber,
    IntervalScore,
    KullbackLeibler,
    Linex,
    LogScore,
    Pinball,
    Power,
    Quadratic,
    ZeroOne,
)
from .masks import Chain, Mask, Microaggregate, Noise, Release, Shuffle, Stochastic, Subsample, Suppress, SuppressCells
from .optimise import Optimum, optimise
from .posteriors import Drawn, Finite, Gaussian, GaussianMixture
from .protocols import Value
from .rumap import RUMap
from .targets import Average, Functional, NewRecord, Parameter, Record, Records
from .users import User

if TYPE_CHECKING:
    from . import orderstatistics, scenarios
    from .masks import (
        PRAM,
        Bottomcode,
        DataShuffle,
        LocalSuppress,
        MicroaggregateMixed,
        MultiplicativeNoise,
        RankSwap,
        Recode,
        Resample,
        Round,
        Swap,
        Synthesize,
        Topcode,
    )
    from .masks.synthesize import Combined, combine_full, combine_partial

# Imported when first used.
_LATER = {
    "orderstatistics": "orderstatistics",
    "scenarios": "scenarios",
    "Combined": "masks.synthesize",
    "combine_full": "masks.synthesize",
    "combine_partial": "masks.synthesize",
    **dict.fromkeys(masks.LATER, "masks"),
}
__getattr__, __dir__, _ = attach(__name__, _LATER)

__all__ = [
    "CRPS",
    "PRAM",
    "Absolute",
    "Average",
    "Bottomcode",
    "Cell",
    "Chain",
    "Choice",
    "Combined",
    "CustomLoss",
    "DataShuffle",
    "Drawn",
    "Enumeration",
    "Exact",
    "Finite",
    "FiniteBelief",
    "Functional",
    "Gaussian",
    "GaussianMixture",
    "Huber",
    "InfeasibleError",
    "InputError",
    "IntervalScore",
    "KullbackLeibler",
    "LinearChannel",
    "Linex",
    "LocalSuppress",
    "LogScore",
    "Mask",
    "Microaggregate",
    "MicroaggregateMixed",
    "MultiplicativeNoise",
    "NewRecord",
    "Noise",
    "NormalBelief",
    "Optimum",
    "Parameter",
    "Pinball",
    "Power",
    "Quadratic",
    "RUMap",
    "RankSwap",
    "Recode",
    "Record",
    "Records",
    "Release",
    "Resample",
    "Round",
    "RuvError",
    "Shuffle",
    "Stochastic",
    "Subsample",
    "Suppress",
    "SuppressCells",
    "Swap",
    "Synthesize",
    "TableBelief",
    "Topcode",
    "UnsupportedError",
    "User",
    "Value",
    "ZeroOne",
    "__version__",
    "choose",
    "combine_full",
    "combine_partial",
    "evaluate",
    "frontier",
    "optimise",
    "orderstatistics",
    "posterior",
    "protocols",
    "scenarios",
]  # fmt: skip
