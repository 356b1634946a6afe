"""Steps that make a number coarser, one column at a time: where a value goes, and which values may have gone there.

All are monotone, so that what comes out tells an interval, and so does any chain of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from ...checks import rows_where
from ...errors import InputError, kind_of
from ...masks import Recode
from ...protocols import Array

__all__ = ["Clip", "Cut", "Multiples", "Step"]


class Step(Protocol):
    """A monotone step."""

    def forward(self, x: Array) -> Array:
        """What values become."""
        ...

    def back(self, low: Array, high: Array) -> tuple[Array, Array]:
        """The interval of values that come out between ``low`` and ``high``."""
        ...


@dataclass(frozen=True)
class Clip:
    """Values beyond a bound are set to it."""

    low: float
    high: float

    def forward(self, x: Array) -> Array:
        return np.clip(x, self.low, self.high)

    def back(self, low: Array, high: Array) -> tuple[Array, Array]:
        return np.where(low <= self.low, -np.inf, low), np.where(high >= self.high, np.inf, high)


@dataclass(frozen=True)
class Multiples:
    """Values go to the nearest multiple of a base, halfway ones to the even multiple."""

    base: float

    def forward(self, x: Array) -> Array:
        return np.asarray(np.rint(x / self.base) * self.base)

    def back(self, low: Array, high: Array) -> tuple[Array, Array]:
        # Multiples within the interval; a hair of room, for 0.3 / 0.1 is not 3.
        first, last = np.ceil(low / self.base - 1e-9), np.floor(high / self.base + 1e-9)
        if np.any(first > last):
            raise InputError(
                f"The release holds values that are no multiples of {self.base:g}",
                rows_where((first > last).reshape(len(first), -1).any(axis=1)),
                "Pass what mask.release(data, rng) gave back",
            )
        return (first - 0.5) * self.base, (last + 0.5) * self.base


@dataclass(frozen=True)
class Cut:
    """Values become intervals: by name (then by their number here), by midpoint or by lower edge."""

    edges: tuple[float, ...] | None
    width: float | None
    label: Any

    @classmethod
    def of(cls, step: Recode) -> Cut:
        """From a mask on numbers."""
        if step.categories is not None:
            raise InputError(
                "Recode(categories=...) needs categories, and a normal belief has numbers",
                str(step),
                "Use bins= or width=",
            )
        return cls(step.bins, step.width, step.label)

    @property
    def named(self) -> bool:
        """Whether the release holds names and not numbers."""
        return not isinstance(self.label, str) or self.label == "interval"

    def forward(self, x: Array) -> Array:
        return self._label(self._code(x))

    def back(self, low: Array, high: Array) -> tuple[Array, Array]:
        if self.edges is None:
            width = float(self.width or 1.0)
            shift = 0.0 if self.named or self.label == "lower" else 0.5
            unit = 1.0 if self.named else width
            first, last = np.ceil(low / unit - shift - 1e-9), np.floor(high / unit - shift + 1e-9)
            return first * width, (last + 1) * width
        labels = self._label(np.arange(len(self.edges) - 1))
        room = 1e-9 * np.maximum(np.abs(labels), 1.0)
        first = np.searchsorted(labels + room, low)
        last = np.searchsorted(labels - room, high, side="right") - 1
        if np.any(first > last):
            raise InputError(
                "The release holds values that are no label of an interval",
                rows_where((first > last).reshape(len(first), -1).any(axis=1)),
                "Pass what mask.release gave back",
            )
        edges = np.asarray(self.edges)
        return edges[first], edges[last + 1]

    def read(self, column: pd.Series[Any]) -> Array:
        """The number of each interval, missing where nothing is released."""
        out = np.full(len(column), np.nan)
        missing = column.isna().to_numpy()
        names = list(dict.fromkeys(column[~missing].tolist()))
        codes = {}
        for name in names:
            codes[name] = self._number(name)
        out[~missing] = [codes[v] for v in column[~missing].tolist()]
        return out

    def _code(self, x: Array) -> Any:
        if self.edges is None:
            return np.asarray(np.floor(x / float(self.width or 1.0)))
        return np.clip(np.searchsorted(np.asarray(self.edges), x, side="right") - 1, 0, len(self.edges) - 2)

    def _label(self, code: Any) -> Array:
        if self.named:
            return np.asarray(code, dtype=np.float64)
        if self.edges is None:
            width = float(self.width or 1.0)
            return np.asarray((code + (0.5 if self.label == "midpoint" else 0.0)) * width, dtype=np.float64)
        edges = np.asarray(self.edges)
        whole = np.asarray(code, dtype=np.int64)
        return edges[whole] + (edges[whole + 1] - edges[whole]) / 2 if self.label == "midpoint" else edges[whole]

    def _number(self, name: Any) -> float:
        if not isinstance(self.label, str):
            listed = list(self.label)
        elif self.edges is not None:
            from ...masks.recode import _names

            listed = _names(np.asarray(self.edges), True)
        else:
            try:
                return float(np.rint(float(str(name)[1:].split(",")[0]) / float(self.width or 1.0)))
            except ValueError:
                listed = []
        if name not in listed:
            raise InputError(
                "The release holds an interval that the mask does not give",
                kind_of(name),
                "Pass what mask.release(data, rng) gave back",
            )
        return float(listed.index(name))
