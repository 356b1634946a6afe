"""Taking away what the order of the rows tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from ..channels.linear import LinearChannel
from ..protocols import Array
from .base import Mask
from .frame import Frame

if TYPE_CHECKING:
    from ..channels.likelihood import Observed

__all__ = ["Shuffle"]


@dataclass(frozen=True, repr=False)
class Shuffle(Mask):
    """Put the records in random order, so that the row tells nothing about whose record it is.

    The index keeps its labels in their old order: it is the records that move. An intruder after one record
    then faces a mixture over all rows.
    """

    recordwise: ClassVar[bool] = False

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        table = frame.table.iloc[rng.permutation(frame.n)]
        return Frame(pd.DataFrame(table).set_axis(frame.table.index, axis=0), frame.kind, frame.dtype)

    def back(self, observed: Observed) -> Observed:
        """The same, but nobody knows which row is whose."""
        return observed.replace(shuffled=True)

    def linear(self, channel: LinearChannel, numbers: Array) -> LinearChannel:
        return channel.shuffle()
