"""Techniques with their parameters, imported when first used."""

from .base import Chain as Chain, Mask as Mask
from .cells import SuppressCells as SuppressCells
from .clip import Clip as Clip
from .datashuffle import DataShuffle as DataShuffle
from .localsuppress import LocalSuppress as LocalSuppress
from .mechanism import Apart as Apart, Combine as Combine, Mechanism as Mechanism
from .microaggregate import Microaggregate as Microaggregate
from .mixed import MicroaggregateMixed as MicroaggregateMixed
from .multiplicative import MultiplicativeNoise as MultiplicativeNoise
from .noise import MomentNoise as MomentNoise, Noise as Noise, ResidualNoise as ResidualNoise
from .pram import PRAM as PRAM
from .rankswap import RankSwap as RankSwap
from .recode import Recode as Recode
from .release import Release as Release
from .resample import Resample as Resample
from .round import Round as Round
from .shuffle import Shuffle as Shuffle
from .stochastic import Stochastic as Stochastic
from .subsample import Subsample as Subsample
from .suppress import Suppress as Suppress
from .swap import Swap as Swap
from .synthesize import (
    Combined as Combined,
    Synthesize as Synthesize,
    combine_full as combine_full,
    combine_partial as combine_partial,
)
from .topcode import Bottomcode as Bottomcode, Topcode as Topcode
