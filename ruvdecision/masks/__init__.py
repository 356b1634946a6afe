"""Masks: techniques with their parameters. One file per idea.

The masks with a closed-form channel are imported at once, the others when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import attach
from .base import Chain, Mask
from .cells import SuppressCells
from .microaggregate import Microaggregate
from .noise import Noise
from .release import Release
from .shuffle import Shuffle
from .stochastic import Stochastic
from .subsample import Subsample
from .suppress import Suppress

if TYPE_CHECKING:
    from .datashuffle import DataShuffle
    from .localsuppress import LocalSuppress
    from .mechanism import Apart, Combine, Mechanism
    from .mixed import MicroaggregateMixed
    from .multiplicative import MultiplicativeNoise
    from .pram import PRAM
    from .rankswap import RankSwap
    from .recode import Recode
    from .resample import Resample
    from .round import Round
    from .swap import Swap
    from .synthesize import Synthesize
    from .topcode import Bottomcode, Topcode

LATER = {
    "Apart": "mechanism",
    "Bottomcode": "topcode",
    "Combine": "mechanism",
    "DataShuffle": "datashuffle",
    "LocalSuppress": "localsuppress",
    "Mechanism": "mechanism",
    "MicroaggregateMixed": "mixed",
    "MultiplicativeNoise": "multiplicative",
    "PRAM": "pram",
    "RankSwap": "rankswap",
    "Recode": "recode",
    "Resample": "resample",
    "Round": "round",
    "Swap": "swap",
    "Synthesize": "synthesize",
    "Topcode": "topcode",
}
if not TYPE_CHECKING:  # or every name would be taken to exist, and to be of any type
    __getattr__, __dir__, _ = attach(__name__, LATER)

__all__ = [
    "PRAM",
    "Apart",
    "Bottomcode",
    "Chain",
    "Combine",
    "DataShuffle",
    "LocalSuppress",
    "Mask",
    "Mechanism",
    "Microaggregate",
    "MicroaggregateMixed",
    "MultiplicativeNoise",
    "Noise",
    "RankSwap",
    "Recode",
    "Release",
    "Resample",
    "Round",
    "Shuffle",
    "Stochastic",
    "Subsample",
    "Suppress",
    "SuppressCells",
    "Swap",
    "Synthesize",
    "Topcode",
]
