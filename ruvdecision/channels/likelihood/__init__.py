"""What a release tells about the records: p(released | x), entry by entry, for every mask whose law is known.

`observe` reads a mask's steps from the last to the first: each turns what is known about its output into what is known
about its input. `nodes` turns the result into numbers that any engine can use.
"""

from .base import Observation
from .entries import Between, Joined, Known, KnownLabels, Uninformative, join_rows
from .maps import CategoryLikelihood
from .mathematics import NUMPY, Mathematics, tensor_math
from .nodes import nodes
from .noisy import Convolved, NoisyInterval, NoisyValue
from .release import Averages, JointNormal, ReleaseLikelihood
from .start import observe, observe_numbers
from .user import UserLikelihood

__all__ = [
    "NUMPY",
    "Averages",
    "Between",
    "CategoryLikelihood",
    "Convolved",
    "Joined",
    "JointNormal",
    "Known",
    "KnownLabels",
    "Mathematics",
    "NoisyInterval",
    "NoisyValue",
    "Observation",
    "ReleaseLikelihood",
    "Uninformative",
    "UserLikelihood",
    "join_rows",
    "nodes",
    "observe",
    "observe_numbers",
    "tensor_math",
]
