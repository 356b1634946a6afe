"""What a release tells about the records: p(released | x), entry by entry, for every mask whose law is known.

`observe` reads a mask's steps from the last to the first: each turns what is known about its output into what is known
about its input.
"""

from .base import ColumnLikelihood
from .entries import Between, Joined, Known, KnownLabels, Uninformative, join_rows
from .from_release import observe, observe_matrix
from .mathematics import NUMPY, Mathematics, tensor_math
from .noisy import Convolved, NoisyInterval, NoisyValue
from .own_law import OwnLawLikelihood
from .release import Averages, JointNormal, ReleaseLikelihood
from .transformations import CategoryLikelihood

__all__ = [
    "NUMPY",
    "Averages",
    "Between",
    "CategoryLikelihood",
    "ColumnLikelihood",
    "Convolved",
    "Joined",
    "JointNormal",
    "Known",
    "KnownLabels",
    "Mathematics",
    "NoisyInterval",
    "NoisyValue",
    "OwnLawLikelihood",
    "ReleaseLikelihood",
    "Uninformative",
    "join_rows",
    "observe",
    "observe_matrix",
    "tensor_math",
]
