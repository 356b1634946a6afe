"""Releasing the records as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..channels.linear import LinearChannel
from ..protocols import Array
from .base import Mask
from .frame import Frame

if TYPE_CHECKING:
    from ..channels.likelihood import Observed

__all__ = ["Release"]


@dataclass(frozen=True, repr=False)
class Release(Mask):
    """No mask: the original records go out unaltered.

    >>> Release().release([1.0, 2.0])
    array([1., 2.])
    """

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        return frame

    def back(self, observed: Observed) -> Observed:
        return observed

    def linear(self, channel: LinearChannel, numbers: Array) -> LinearChannel:
        return channel
