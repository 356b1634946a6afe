"""Entries that are known, uninformative, in an interval, or some of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import InputError
from ...protocols import Array
from .base import Bools, Change, ColumnLikelihood, Ints, Pair, Rows, as_row, entry_count
from .mathematics import NUMPY, Mathematics, Values


@dataclass(frozen=True, repr=False, eq=False)
class Known(ColumnLikelihood):
    """Every entry is known exactly; the likelihood is one at its value and zero elsewhere.

    >>> Known([1.0, 2.0]).log([1.0, 3.0])
    array([  0., -inf])
    """

    per_entry = ("values",)

    values: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", as_row(self.values))
        if np.isnan(self.values).any():
            raise InputError(
                "Known values cannot be missing",
                f"{int(np.isnan(self.values).sum())} missing",
                "Use Uninformative for those entries",
            )

    def log(self, x: Values, math: Mathematics = NUMPY) -> Values:
        return math.where(math.asarray(x) == self.values, 0.0, -np.inf)

    @property
    def known_values(self) -> Array:
        return self.values

    @property
    def support_bounds(self) -> Pair:
        return self.values, self.values

    @property
    def scale(self) -> Array:
        return np.zeros(self.n)

    @property
    def normal(self) -> Pair:
        return self.values, np.zeros(self.n)

    def pulled_back(self, change: Change) -> ColumnLikelihood:
        return change.likelihood_from_value(self.values)


@dataclass(frozen=True, repr=False, eq=False)
class KnownLabels(ColumnLikelihood):
    """Every entry's category is known: text or another label, which no number stands for yet.

    >>> KnownLabels(["a", "b"]).log_label("a")
    array([  0., -inf])
    """

    per_entry = ("labels",)

    labels: Sequence[Any] | NDArray[Any]

    def __post_init__(self) -> None:
        labels = np.empty(len(self.labels), dtype=object)
        labels[:] = list(self.labels)
        labels.flags.writeable = False
        object.__setattr__(self, "labels", labels)

    def log(self, x: Values, math: Mathematics = NUMPY) -> Values:
        raise InputError(
            "A column of labels has no likelihood in numbers", "text", "Use Recode or PRAM with its categories named"
        )

    def log_label(self, label: Any) -> Array:
        return np.where([v == label for v in self.labels], 0.0, -np.inf)

    def pulled_back(self, change: Change) -> ColumnLikelihood:
        return change.likelihood_from_value(np.asarray(self.labels))


@dataclass(frozen=True, repr=False, eq=False)
class Uninformative(ColumnLikelihood):
    """The release tells nothing about any of the entries.

    >>> Uninformative(2).log([1.0, 3.0])
    array([0., 0.])
    """

    count: int

    @property
    def n(self) -> int:
        return self.count

    def log(self, x: Values, math: Mathematics = NUMPY) -> Values:
        return math.asarray(x) * 0.0 + np.zeros(self.n)

    def take(self, rows: Rows) -> Uninformative:
        return Uninformative(entry_count(self.n, rows))

    @property
    def uninformative(self) -> Bools:
        return np.ones(self.n, dtype=bool)

    @property
    def normal(self) -> Pair:
        return np.zeros(self.n), np.full(self.n, np.inf)

    def log_label(self, label: Any) -> Array:
        return np.zeros(self.n)

    def pulled_back(self, change: Change) -> ColumnLikelihood:
        return self


@dataclass(frozen=True, repr=False, eq=False)
class Between(ColumnLikelihood):
    """Every entry lies in an interval: the likelihood is one inside and zero outside.

    ``closed_low`` and ``closed_high`` say for each entry whether the end belongs to it, which matters for whole
    numbers.

    >>> Between([0.0], [5.0], closed_high=False).log([[-1.0], [0.0], [5.0]]).ravel()
    array([-inf,   0., -inf])
    """

    per_entry = ("lower", "upper", "closed_low", "closed_high")

    lower: Array
    upper: Array
    closed_low: Bools | bool = True
    closed_high: Bools | bool = True

    def __post_init__(self) -> None:
        n = max(np.size(self.lower), np.size(self.upper))
        for name, value in (("lower", self.lower), ("upper", self.upper)):
            object.__setattr__(self, name, as_row(value, n))
        for name, flag in (("closed_low", self.closed_low), ("closed_high", self.closed_high)):
            object.__setattr__(self, name, np.array(np.broadcast_to(np.asarray(flag, dtype=bool), (n,))))
        if not np.all(self.lower <= self.upper):
            raise InputError("The lower end of an interval must not exceed the upper one", "some that do", "Swap them")

    def log(self, x: Values, math: Mathematics = NUMPY) -> Values:
        x = math.asarray(x)
        # One comparison per side: >= is > against the next number below.
        low = np.where(self.closed_low, np.nextafter(self.lower, -np.inf), self.lower)
        high = np.where(self.closed_high, np.nextafter(self.upper, np.inf), self.upper)
        above = math.logical_or(x > low, np.isneginf(self.lower))
        below = math.logical_or(x < high, np.isposinf(self.upper))
        return math.where(math.logical_and(above, below), 0.0, -np.inf)

    @property
    def support_bounds(self) -> Pair:
        return self.lower, self.upper

    @property
    def scale(self) -> Array:
        return self.upper - self.lower

    def pulled_back(self, change: Change) -> ColumnLikelihood:
        return change.likelihood_from_interval(self)


@dataclass(frozen=True, repr=False, eq=False)
class Joined(ColumnLikelihood):
    """Entries of several kinds: each piece has its rows and their observation. Made by `join_rows`."""

    count: int
    parts: tuple[tuple[Ints, ColumnLikelihood], ...]

    @property
    def n(self) -> int:
        return self.count

    @property
    def pieces(self) -> Sequence[tuple[Ints, ColumnLikelihood]]:
        return self.parts

    def log(self, x: Values, math: Mathematics = NUMPY) -> Values:
        x = math.asarray(x) + np.zeros(self.n)
        # Each entry is sent to its own piece only: a gradient never sees the others.
        found = math.concatenate([part.log(x[..., rows], math) for rows, part in self.parts], axis=-1)
        return found[..., np.argsort(np.concatenate([rows for rows, _ in self.parts]))]

    def take(self, rows: Rows) -> ColumnLikelihood:  # type: ignore[override]
        wanted = np.arange(self.n)[rows]
        parts = []
        for own, part in self.parts:
            place = np.full(self.n, -1)
            place[own] = np.arange(len(own))
            here = np.flatnonzero(place[wanted] >= 0)
            if len(here):
                parts.append((here, part.take(place[wanted[here]])))
        return join_rows(len(wanted), parts)

    def log_label(self, label: Any) -> Array:
        return self._ask_parts(lambda part: part.log_label(label))[0]

    def _ask_parts(self, get: Callable[[ColumnLikelihood], ArrayLike]) -> Array:
        """One or several numbers per entry, the entries last, of all parts; padded with missing values."""
        found = [np.atleast_2d(np.asarray(get(part), dtype=np.float64)) for _, part in self.parts]
        out = np.full((max(map(len, found)), self.n), np.nan)
        for (rows, _), values in zip(self.parts, found, strict=True):
            out[: len(values), rows] = values
        return out

    @property
    def points_per_entry(self) -> int:
        return max(part.points_per_entry for _, part in self.parts)

    @property
    def known_values(self) -> Array:
        return self._ask_parts(lambda part: part.known_values)[0]

    @property
    def uninformative(self) -> Bools:
        return self._ask_parts(lambda part: part.uninformative)[0] > 0

    @property
    def support_bounds(self) -> Pair:
        low, high = self._ask_parts(lambda part: part.support_bounds)
        return low, high

    @property
    def cuts(self) -> Array:
        return self._ask_parts(lambda part: part.cuts.T).T

    @property
    def panel_edges(self) -> Array:
        return self._ask_parts(lambda part: part.panel_edges.T).T

    def window(self, drop: float = 40.0) -> Pair:
        low, high = self._ask_parts(lambda part: part.window(drop))
        return low, high

    @property
    def scale(self) -> Array:
        return self._ask_parts(lambda part: part.scale)[0]

    @property
    def normal(self) -> Pair | None:
        found = {id(part): part.normal for _, part in self.parts}
        if any(pair is None for pair in found.values()):
            return None
        centre, variance = self._ask_parts(lambda part: found[id(part)])  # type: ignore[arg-type, return-value]
        return centre, variance

    @property
    def is_normal(self) -> Bools:
        return self._ask_parts(lambda part: part.is_normal)[0] > 0

    @property
    def support(self) -> Array | None:
        # Entries that tell nothing have the categories of the others.
        return next((part.support for _, part in self.parts if part.support is not None), None)

    def pulled_back(self, change: Change) -> ColumnLikelihood:
        return join_rows(self.n, [(rows, part.pulled_back(change.take(rows))) for rows, part in self.parts])


def join_rows(n: int, parts: Sequence[tuple[Rows, ColumnLikelihood]]) -> ColumnLikelihood:
    """Observations of some rows each, put together; the rows are positions that together are 0 to n - 1, each once.

    >>> join_rows(3, [([0, 2], Known([1.0, 2.0])), ([1], Uninformative(1))]).known_values
    array([ 1., nan,  2.])
    """
    flat: list[tuple[Ints, ColumnLikelihood]] = []
    for rows, part in parts:
        own = np.asarray(rows, dtype=np.int64)
        if len(own):
            flat += [(own[inner], p) for inner, p in part.pieces]
    merged: list[tuple[Ints, ColumnLikelihood]] = []
    for kind in (Uninformative, Known):
        alike = [(rows, part) for rows, part in flat if type(part) is kind]
        if len(alike) > 1:
            together = np.concatenate([r for r, _ in alike])
            known = np.concatenate([p.known_values for _, p in alike])
            alike = [(together, Known(known) if kind is Known else Uninformative(len(together)))]
        merged += alike
    merged += [(rows, part) for rows, part in flat if type(part) not in (Uninformative, Known)]
    if len(merged) == 1:
        order, part = merged[0]
        return part if np.array_equal(order, np.arange(n)) else part.take(np.argsort(order))
    return Joined(n, tuple(merged))


def observe_by_case(n: int, cases: Sequence[tuple[Bools, Callable[[Ints], ColumnLikelihood]]]) -> ColumnLikelihood:
    """Observations made case by case, each by the booleans of its entries and a maker that gets their positions."""
    parts = []
    for chosen, make in cases:
        rows = np.flatnonzero(chosen)
        if len(rows):
            parts.append((rows, make(rows)))
    return join_rows(n, parts)


def nothing_observed(rows: Ints) -> Uninformative:
    """A maker for `observe_by_case`: nothing is told about these rows."""
    return Uninformative(len(rows))
