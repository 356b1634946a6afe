"""Techniques with their parameters, imported when first used."""

from .base import Chain as Chain, Mask as Mask
from .cells import SuppressCells as SuppressCells
from .coarsen import Bottomcode as Bottomcode, Clip as Clip, Round as Round, Topcode as Topcode
from .exchange import DataShuffle as DataShuffle, RankSwap as RankSwap, Resample as Resample, Swap as Swap
from .localsuppress import LocalSuppress as LocalSuppress
from .mechanism import Combine as Combine, Mechanism as Mechanism, SeparateRows as SeparateRows
from .microaggregate import Microaggregate as Microaggregate, MicroaggregateMixed as MicroaggregateMixed
from .multiplicative import MultiplicativeNoise as MultiplicativeNoise
from .noise import MomentNoise as MomentNoise, Noise as Noise, ResidualNoise as ResidualNoise
from .pram import PRAM as PRAM
from .recode import Recode as Recode
from .rows import Release as Release, Shuffle as Shuffle, Subsample as Subsample, Suppress as Suppress
from .stochastic import Stochastic as Stochastic
from .synthesize import (
    Combined as Combined,
    Synthesize as Synthesize,
    combine_full as combine_full,
    combine_partial as combine_partial,
)
