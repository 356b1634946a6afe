"""What a release tells about the records: p(released | x), entry by entry, for every mask whose law is known.

`observe` reads a mask's steps from the last to the first: each turns what is known about its output into what is known
about its input. `nodes` turns the result into numbers that any engine can use.
"""

from .averages import Averages
from .base import Cuts, Observation
from .discrete import Categories
from .mathematics import NUMPY
from .nodes import nodes
from .observed import JointNormal, Observed
from .own import Own
from .seen import NormalSeen, Seen, SeenBetween
from .simple import Between, Known, KnownLabels, Pieces, Silent, join
from .start import observe, observe_numbers
from .tensor import tensor_math

__all__ = [
    "NUMPY",
    "Averages",
    "Between",
    "Categories",
    "Cuts",
    "JointNormal",
    "Known",
    "KnownLabels",
    "NormalSeen",
    "Observation",
    "Observed",
    "Own",
    "Pieces",
    "Seen",
    "SeenBetween",
    "Silent",
    "join",
    "nodes",
    "observe",
    "observe_numbers",
    "tensor_math",
]
