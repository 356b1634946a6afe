"""The public names, in the order of the flow. Everything else is found by room: `ruv.masks`, `ruv.plots`, ..."""

from . import (
    analyses as analyses,
)
from . import (
    channels as channels,
)
from . import (
    decide as decide,
)
from . import (
    engines as engines,
)
from . import (
    explore as explore,
)
from . import (
    maps as maps,
)
from . import (
    masks as masks,
)
from . import (
    measures as measures,
)
from . import (
    plots as plots,
)
from . import (
    posteriors as posteriors,
)
from . import (
    protocols as protocols,
)
from . import (
    report as report,
)
from . import (
    scenarios as scenarios,
)
from . import (
    targets as targets,
)
from . import (
    users as users,
)
from ._version import (
    __version__ as __version__,
)
from .analyses import (
    calibrate as calibrate,
)
from .analyses import (
    limit as limit,
)
from .analyses import (
    optimise as optimise,
)
from .analyses import (
    sensitivity as sensitivity,
)
from .beliefs import (
    FiniteBelief as FiniteBelief,
)
from .beliefs import (
    NormalBelief as NormalBelief,
)
from .beliefs import (
    PyMCBelief as PyMCBelief,
)
from .beliefs import (
    TableBelief as TableBelief,
)
from .engines import (
    Enumeration as Enumeration,
)
from .engines import (
    Exact as Exact,
)
from .engines import (
    Quadrature as Quadrature,
)
from .engines import (
    Sampling as Sampling,
)
from .errors import (
    ConvergenceError as ConvergenceError,
)
from .errors import (
    InfeasibleError as InfeasibleError,
)
from .errors import (
    InputError as InputError,
)
from .errors import (
    RuvError as RuvError,
)
from .errors import (
    UnsupportedError as UnsupportedError,
)
from .evaluate import (
    evaluate as evaluate,
)
from .evaluate import (
    posterior as posterior,
)
from .losses import (
    CRPS as CRPS,
)
from .losses import (
    Absolute as Absolute,
)
from .losses import (
    CustomLoss as CustomLoss,
)
from .losses import (
    Huber as Huber,
)
from .losses import (
    IntervalScore as IntervalScore,
)
from .losses import (
    KullbackLeibler as KullbackLeibler,
)
from .losses import (
    Linex as Linex,
)
from .losses import (
    LogScore as LogScore,
)
from .losses import (
    Pinball as Pinball,
)
from .losses import (
    Power as Power,
)
from .losses import (
    Quadratic as Quadratic,
)
from .losses import (
    ZeroOne as ZeroOne,
)
from .maps.rumap import (
    RUMap as RUMap,
)
from .masks import (
    PRAM as PRAM,
)
from .masks import (
    Bottomcode as Bottomcode,
)
from .masks import (
    DataShuffle as DataShuffle,
)
from .masks import (
    LocalSuppress as LocalSuppress,
)
from .masks import (
    Mask as Mask,
)
from .masks import (
    Microaggregate as Microaggregate,
)
from .masks import (
    MultiplicativeNoise as MultiplicativeNoise,
)
from .masks import (
    Noise as Noise,
)
from .masks import (
    RankSwap as RankSwap,
)
from .masks import (
    Recode as Recode,
)
from .masks import (
    Release as Release,
)
from .masks import (
    Resample as Resample,
)
from .masks import (
    Round as Round,
)
from .masks import (
    Shuffle as Shuffle,
)
from .masks import (
    Stochastic as Stochastic,
)
from .masks import (
    Subsample as Subsample,
)
from .masks import (
    Suppress as Suppress,
)
from .masks import (
    SuppressCells as SuppressCells,
)
from .masks import (
    Swap as Swap,
)
from .masks import (
    Synthesize as Synthesize,
)
from .masks import (
    Topcode as Topcode,
)
from .measure import (
    measure as measure,
)
from .targets import (
    Average as Average,
)
from .targets import (
    Cell as Cell,
)
from .targets import (
    EachRecord as EachRecord,
)
from .targets import (
    Functional as Functional,
)
from .targets import (
    Identity as Identity,
)
from .targets import (
    Maximum as Maximum,
)
from .targets import (
    Minimum as Minimum,
)
from .targets import (
    NewRecord as NewRecord,
)
from .targets import (
    OrderStatistic as OrderStatistic,
)
from .targets import (
    Parameter as Parameter,
)
from .targets import (
    Percentile as Percentile,
)
from .targets import (
    Record as Record,
)
from .targets import (
    Records as Records,
)
from .users import (
    MaskPrior as MaskPrior,
)
from .users import (
    Panel as Panel,
)
from .users import (
    Snooper as Snooper,
)
from .users import (
    User as User,
)
