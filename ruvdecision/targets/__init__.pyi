from .base import BaseTarget as BaseTarget, apply_over_points as apply_over_points, is_target as is_target
from .eachrecord import EachRecord as EachRecord
from .functional import Functional as Functional
from .identity import Identity as Identity
from .names import Names as Names
from .quantities import (
    Average as Average,
    Cell as Cell,
    NewRecord as NewRecord,
    Parameter as Parameter,
    Record as Record,
    Records as Records,
)
from .ranks import Maximum as Maximum, Minimum as Minimum, OrderStatistic as OrderStatistic, Percentile as Percentile
from .terms import (
    Files as Files,
    Kind as Kind,
    LinearForm as LinearForm,
    Term as Term,
    flatten_points as flatten_points,
)
