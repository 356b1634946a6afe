"""Cutting numbers into intervals, whatever the intervals are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...protocols import Array
from ..steps import TOLERANCE
from .base import Cuts, Observation
from .maps import Map, Mapped, grid_between, not_from
from .mathematics import NUMPY
from .simple import Between


@dataclass(frozen=True, repr=False, eq=False)
class Bins(Map):
    """Intervals [a, b) between edges, the last one closed; ``names`` holds what each is called, a number or a label."""

    n: int
    edges: Any
    names: tuple[Any, ...]

    def preimage(self, values: Any) -> Observation:
        place = {name: j for j, name in enumerate(self.names)}
        bins = []
        for value in values:
            found = place.get(value)
            if found is None and isinstance(value, (float, np.floating)):
                # Means of edges differ in the last digits after a file was written and read.
                gaps = np.array(
                    [abs(name - float(value)) if isinstance(name, float) else np.inf for name in self.names]
                )
                near = int(np.argmin(gaps))
                alone = int(np.sum(gaps <= 4 * gaps[near])) == 1
                found = near if alone and gaps[near] <= TOLERANCE * abs(float(value)) else None
            if found is None:
                raise not_from("a value or label that no interval has")
            bins.append(found)
        code, edges = np.array(bins), np.asarray(self.edges)
        return Between(edges[code], edges[code + 1], True, code == len(edges) - 2)

    def preimage_between(self, interval: Between) -> Observation:
        return self.pull(interval)

    def pull(self, later: Observation) -> Observation:
        return Stepped(np.asarray(self.edges), np.stack([later.log_label(name) for name in self.names]))

    def take(self, rows: Any) -> Bins:
        return Bins(len(np.arange(self.n)[rows]), self.edges, self.names)


@dataclass(frozen=True, repr=False, eq=False)
class Stepped(Observation):
    """A likelihood that is constant on intervals, the same for all entries: ``logs`` has one row per interval.

    >>> Stepped(np.array([0.0, 1.0, 3.0]), np.log([[0.2], [0.8]])).log([[0.5], [3.0], [4.0]]).ravel().round(4)
    array([-1.6094, -0.2231,    -inf])
    """

    edges: Any
    logs: Any

    @property
    def n(self) -> int:  # type: ignore[override]
        return int(self.logs.shape[1])

    def log(self, x: Any, math: Any = NUMPY) -> Any:
        x = math.asarray(x) + np.zeros(self.n)
        found = math.where(x <= self.edges[-1], self.logs[-1], -np.inf) + math.zeros_like(x)
        for edge, row in zip(self.edges[-2:0:-1], self.logs[-2::-1], strict=True):
            found = math.where(x < edge, row, found)
        return math.where(x >= self.edges[0], found, -np.inf)

    def take(self, rows: Any) -> Stepped:
        return Stepped(self.edges, self.logs[:, rows])

    def window(self, drop: float = 40.0) -> tuple[Array, Array]:
        inside = (self.logs >= self.logs.max(axis=0) - drop) & (self.logs > -np.inf)
        if not inside.any(axis=0).all():
            raise not_from("a value that no interval can give")
        first, last = inside.argmax(axis=0), len(inside) - inside[::-1].argmax(axis=0)
        return self.edges[first], self.edges[last]

    @property
    def low(self) -> Array:
        return self.window(np.inf)[0]

    @property
    def high(self) -> Array:
        return self.window(np.inf)[1]

    @property
    def cuts(self) -> Cuts:
        inner = self.edges[1:-1]
        return Cuts.at_jumps(np.broadcast_to(inner, (self.n, len(inner))))

    @property
    def scale(self) -> Array:
        low, high = self.window()
        return high - low


@dataclass(frozen=True, repr=False, eq=False)
class Widths(Map):
    """Intervals [j w, (j + 1) w); ``label`` says what they are called: "midpoint", "lower" or "interval"."""

    n: int
    width: float
    label: str

    @property
    def _shift(self) -> float:
        return 0.5 if self.label == "midpoint" else 0.0

    def value(self, x: Any, math: Any = NUMPY) -> Any:
        return (math.floor(x / self.width) + self._shift) * self.width

    def preimage(self, values: Any) -> Observation:
        if self.label == "interval":
            try:
                # "[20, 30)": the lower edge says which.
                start = np.array([float(str(v)[1:].split(",")[0]) for v in values]) / self.width
            except ValueError:
                raise not_from("labels that are no intervals") from None
        else:
            start = np.asarray(values, dtype=np.float64) / self.width - self._shift
        step = np.rint(start)
        if np.any(np.abs(start - step) > np.minimum(TOLERANCE * np.maximum(np.abs(step), 1.0), 0.25)):
            raise not_from("values that name no interval of its width")
        return Between(step * self.width, (step + 1) * self.width, True, False)

    def preimage_between(self, interval: Between) -> Observation:
        least, most = interval.lower / self.width - self._shift, interval.upper / self.width - self._shift
        first = np.ceil(least) + ((least == np.ceil(least)) & ~interval.closed_low)
        last = np.floor(most) - ((most == np.floor(most)) & ~interval.closed_high)
        if np.any(first > last):
            raise not_from("intervals without a value of its own")
        return Between(first * self.width, (last + 1) * self.width, True, np.isposinf(last))

    def pull(self, later: Observation) -> Observation:
        if self.label == "interval":
            raise UnsupportedError(
                "The intervals of Recode(width=...) are not all known beforehand",
                do="Give bins=[...] instead of width=",
            )
        return Mapped(later, self)

    def around(self, y: Array) -> tuple[Array, Array]:
        step = y / self.width - self._shift
        return (np.floor(step) + self._shift) * self.width, (np.ceil(step) + self._shift) * self.width

    def bends(self, low: Array, high: Array) -> Cuts:
        return Cuts.at_jumps(grid_between(np.full(self.n, self.width), low, high, 0.0))

    def take(self, rows: Any) -> Widths:
        return Widths(len(np.arange(self.n)[rows]), self.width, self.label)
