"""What a release tells about the records: p(released | x), entry by entry, for every mask whose law is known.

`observe` reads a mask's steps from the last to the first: each turns what is known about its output into what is known
about its input. `nodes` turns the result into numbers that any engine can use.
"""

from .averages import Averages
from .base import Cuts, Observation
from .discrete import Categories
from .mathematics import NUMPY
from .nodes import nodes
from .noisy import NoisyInterval, NoisyValue, NormalValue
from .release import JointNormal, ReleaseLikelihood
from .simple import Between, Known, KnownLabels, Pieces, Uninformative, join
from .start import observe, observe_numbers
from .tensor import tensor_math
from .user import UserLikelihood

__all__ = [
    "NUMPY",
    "Averages",
    "Between",
    "Categories",
    "Cuts",
    "JointNormal",
    "Known",
    "KnownLabels",
    "NoisyInterval",
    "NoisyValue",
    "NormalValue",
    "Observation",
    "Pieces",
    "ReleaseLikelihood",
    "Uninformative",
    "UserLikelihood",
    "join",
    "nodes",
    "observe",
    "observe_numbers",
    "tensor_math",
]
