"""The public names, in the order of the flow. Everything else is found by room: `ruv.masks`, `ruv.plots`, ..."""

from ._version import __version__ as __version__
from .beliefs import (
    FiniteBelief as FiniteBelief,
    NormalBelief as NormalBelief,
    PyMCBelief as PyMCBelief,
    TableBelief as TableBelief,
)
from .targets import (
    Average as Average,
    Cell as Cell,
    EachRecord as EachRecord,
    Functional as Functional,
    Identity as Identity,
    Maximum as Maximum,
    Minimum as Minimum,
    NewRecord as NewRecord,
    OrderStatistic as OrderStatistic,
    Parameter as Parameter,
    Percentile as Percentile,
    Record as Record,
    Records as Records,
)
from .losses import (
    CRPS as CRPS,
    Absolute as Absolute,
    CustomLoss as CustomLoss,
    Huber as Huber,
    IntervalScore as IntervalScore,
    KullbackLeibler as KullbackLeibler,
    Linex as Linex,
    LogScore as LogScore,
    Pinball as Pinball,
    Power as Power,
    Quadratic as Quadratic,
    ZeroOne as ZeroOne,
)
from .users import MaskPrior as MaskPrior, Panel as Panel, Snooper as Snooper, User as User
from .masks import (
    PRAM as PRAM,
    Bottomcode as Bottomcode,
    DataShuffle as DataShuffle,
    LocalSuppress as LocalSuppress,
    Mask as Mask,
    Microaggregate as Microaggregate,
    MultiplicativeNoise as MultiplicativeNoise,
    Noise as Noise,
    RankSwap as RankSwap,
    Recode as Recode,
    Release as Release,
    Resample as Resample,
    Round as Round,
    Shuffle as Shuffle,
    Stochastic as Stochastic,
    Subsample as Subsample,
    Suppress as Suppress,
    SuppressCells as SuppressCells,
    Swap as Swap,
    Synthesize as Synthesize,
    Topcode as Topcode,
)
from .engines import Enumeration as Enumeration, Exact as Exact, Quadrature as Quadrature, Sampling as Sampling
from .evaluate import evaluate as evaluate, posterior as posterior
from .measure import measure as measure
from .maps.rumap import RUMap as RUMap
from .analyses import calibrate as calibrate, limit as limit, optimise as optimise, sensitivity as sensitivity
from .errors import (
    ConvergenceError as ConvergenceError,
    InfeasibleError as InfeasibleError,
    InputError as InputError,
    RuvError as RuvError,
    UnsupportedError as UnsupportedError,
)
from . import (
    analyses as analyses,
    beliefs as beliefs,
    channels as channels,
    decide as decide,
    engines as engines,
    explore as explore,
    maps as maps,
    masks as masks,
    measures as measures,
    plots as plots,
    posteriors as posteriors,
    protocols as protocols,
    report as report,
    scenarios as scenarios,
    targets as targets,
    users as users,
)
