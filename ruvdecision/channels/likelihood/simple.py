"""Entries that are known, uninformative, in an interval, or some of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...protocols import Array
from .base import Cuts, Observation, as_row
from .mathematics import NUMPY

if TYPE_CHECKING:
    from .kernel import Kernel
    from .laws import Law
    from .maps import Map


@dataclass(frozen=True, repr=False, eq=False)
class Known(Observation):
    """Every entry is known exactly; the likelihood is one at its value and zero elsewhere.

    >>> Known([1.0, 2.0]).log([1.0, 3.0])
    array([  0., -inf])
    """

    values: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", as_row(self.values))
        if np.isnan(self.values).any():
            raise InputError(
                "Known values cannot be missing",
                f"{int(np.isnan(self.values).sum())} missing",
                "Use Uninformative for those entries",
            )

    @property
    def n(self) -> int:  # type: ignore[override]
        return len(self.values)

    def log(self, x: Any, math: Any = NUMPY) -> Any:
        return math.where(math.asarray(x) == self.values, 0.0, -np.inf)

    def take(self, rows: Any) -> Known:
        return Known(self.values[rows])

    @property
    def known(self) -> Array:
        return self.values  # type: ignore[no-any-return]

    @property
    def low(self) -> Array:
        return self.values  # type: ignore[no-any-return]

    @property
    def high(self) -> Array:
        return self.values  # type: ignore[no-any-return]

    @property
    def scale(self) -> Array:
        return np.zeros(self.n)

    @property
    def normal(self) -> tuple[Array, Array]:
        return self.values, np.zeros(self.n)

    def before_noise(self, law: Law) -> Observation:
        from .noisy import NormalValue

        if law.normal is not None:
            centre, variance = law.normal
            return NormalValue(self.values - centre, variance)
        return super().before_noise(law)

    def before_kernel(self, kernel: Kernel) -> Observation:
        from .noisy import NoisyValue

        return NoisyValue(kernel, self.values)

    def before_map(self, function: Map) -> Observation:
        return function.preimage(self.values)

    def before_own(self, mask: Any, column: Any) -> Observation:
        from .user import UserLikelihood

        return UserLikelihood(mask, self.values, column)


@dataclass(frozen=True, repr=False, eq=False)
class KnownLabels(Observation):
    """Every entry's category is known: text or another label, which no number stands for yet.

    >>> KnownLabels(["a", "b"]).log_label("a")
    array([  0., -inf])
    """

    labels: Any

    def __post_init__(self) -> None:
        labels = np.empty(len(self.labels), dtype=object)
        labels[:] = list(self.labels)
        labels.flags.writeable = False
        object.__setattr__(self, "labels", labels)

    @property
    def n(self) -> int:  # type: ignore[override]
        return len(self.labels)

    def log(self, x: Any, math: Any = NUMPY) -> Any:
        raise InputError(
            "A column of labels has no likelihood in numbers", "text", "Use Recode or PRAM with its categories named"
        )

    def log_label(self, label: Any) -> Array:
        return np.where([v == label for v in self.labels], 0.0, -np.inf)

    def take(self, rows: Any) -> KnownLabels:
        return KnownLabels(self.labels[rows])

    def before_kernel(self, kernel: Kernel) -> Observation:
        raise InputError(
            "A mask for numbers released labels",
            "a column of text",
            "Give the release of this mask, as mask.release returned it",
        )

    def before_map(self, function: Map) -> Observation:
        return function.preimage(self.labels)

    def before_own(self, mask: Any, column: Any) -> Observation:
        from .user import UserLikelihood

        return UserLikelihood(mask, self.labels, column)


@dataclass(frozen=True, repr=False, eq=False)
class Uninformative(Observation):
    """The release tells nothing about any of the entries.

    >>> Uninformative(2).log([1.0, 3.0])
    array([0., 0.])
    """

    n: int

    def log(self, x: Any, math: Any = NUMPY) -> Any:
        return math.asarray(x) * 0.0 + np.zeros(self.n)

    def take(self, rows: Any) -> Uninformative:
        return Uninformative(len(np.arange(self.n)[rows]))

    @property
    def uninformative(self) -> Any:
        return np.ones(self.n, dtype=bool)

    @property
    def scale(self) -> Array:
        return np.full(self.n, np.inf)

    @property
    def normal(self) -> tuple[Array, Array]:
        return np.zeros(self.n), np.full(self.n, np.inf)

    def log_label(self, label: Any) -> Array:
        return np.zeros(self.n)

    def before_kernel(self, kernel: Kernel) -> Observation:
        return self

    def before_map(self, function: Map) -> Observation:
        return self


@dataclass(frozen=True, repr=False, eq=False)
class Between(Observation):
    """Every entry lies in an interval: the likelihood is one inside and zero outside.

    ``closed_low`` and ``closed_high`` say for each entry whether the end belongs to it, which matters for whole
    numbers.

    >>> Between([0.0], [5.0], closed_high=False).log([[-1.0], [0.0], [5.0]]).ravel()
    array([-inf,   0., -inf])
    """

    lower: Any
    upper: Any
    closed_low: Any = True
    closed_high: Any = True

    def __post_init__(self) -> None:
        n = max(np.size(self.lower), np.size(self.upper))
        for name in ("lower", "upper"):
            object.__setattr__(self, name, as_row(getattr(self, name), n))
        for name in ("closed_low", "closed_high"):
            object.__setattr__(self, name, np.array(np.broadcast_to(np.asarray(getattr(self, name), dtype=bool), (n,))))
        if not np.all(self.lower <= self.upper):
            raise InputError("The lower end of an interval must not exceed the upper one", "some that do", "Swap them")

    @property
    def n(self) -> int:  # type: ignore[override]
        return len(self.lower)

    def log(self, x: Any, math: Any = NUMPY) -> Any:
        x = math.asarray(x)
        # One comparison per side: >= is > against the next number below.
        low = np.where(self.closed_low, np.nextafter(self.lower, -np.inf), self.lower)
        high = np.where(self.closed_high, np.nextafter(self.upper, np.inf), self.upper)
        above = math.logical_or(x > low, np.isneginf(self.lower))
        below = math.logical_or(x < high, np.isposinf(self.upper))
        return math.where(math.logical_and(above, below), 0.0, -np.inf)

    def take(self, rows: Any) -> Between:
        return Between(self.lower[rows], self.upper[rows], self.closed_low[rows], self.closed_high[rows])

    @property
    def low(self) -> Array:
        return self.lower  # type: ignore[no-any-return]

    @property
    def high(self) -> Array:
        return self.upper  # type: ignore[no-any-return]

    @property
    def scale(self) -> Array:
        return self.upper - self.lower

    def before_kernel(self, kernel: Kernel) -> Observation:
        from .noisy import NoisyInterval

        both = np.isneginf(self.lower) & np.isposinf(self.upper)
        if both.any():
            return split(
                self.n,
                [
                    (both, lambda rows: Uninformative(len(rows))),
                    (~both, lambda rows: NoisyInterval.of(kernel.take(rows), self.take(rows))),
                ],
            )
        return NoisyInterval.of(kernel, self)

    def before_map(self, function: Map) -> Observation:
        return function.preimage_between(self)


@dataclass(frozen=True, repr=False, eq=False)
class Pieces(Observation):
    """Entries of several kinds: each piece has its rows and their observation. Made by `join`."""

    n: int
    parts: tuple[tuple[Any, Observation], ...]

    def log(self, x: Any, math: Any = NUMPY) -> Any:
        x = math.asarray(x) + np.zeros(self.n)
        # Each entry is sent to its own piece only: a gradient never sees the others.
        found = math.concatenate([part.log(x[..., rows], math) for rows, part in self.parts], axis=-1)
        return found[..., np.argsort(np.concatenate([rows for rows, _ in self.parts]))]

    def take(self, rows: Any) -> Observation:
        wanted = np.arange(self.n)[rows]
        parts = []
        for own, part in self.parts:
            place = np.full(self.n, -1)
            place[own] = np.arange(len(own))
            here = np.flatnonzero(place[wanted] >= 0)
            if len(here):
                parts.append((here, part.take(place[wanted[here]])))
        return join(len(wanted), parts)

    def log_label(self, label: Any) -> Array:
        return self._gather(lambda part: part.log_label(label))

    def _gather(self, get: Callable[[Observation], Any]) -> Array:
        out = np.empty(self.n)
        for rows, part in self.parts:
            out[rows] = get(part)
        return out

    def _gather_padded(self, get: Callable[[Observation], NDArray[Any]]) -> Array:
        found = [get(part) for _, part in self.parts]
        out = np.full((self.n, max(f.shape[1] for f in found)), np.nan)
        for (rows, _), values in zip(self.parts, found, strict=True):
            out[rows, : values.shape[1]] = values
        return out

    @property
    def cost(self) -> int:
        return max(part.cost for _, part in self.parts)

    @property
    def known(self) -> Array:
        return self._gather(lambda part: part.known)

    @property
    def uninformative(self) -> Any:
        return self._gather(lambda part: part.uninformative) > 0

    @property
    def low(self) -> Array:
        return self._gather(lambda part: part.low)

    @property
    def high(self) -> Array:
        return self._gather(lambda part: part.high)

    @property
    def cuts(self) -> Cuts:
        places = self._gather_padded(lambda part: part.cuts.places)
        return Cuts(places, np.asarray(self._gather_padded(lambda part: part.cuts.jumps) == 1))

    @property
    def grades(self) -> Array:
        return self._gather_padded(lambda part: part.grades)

    def window(self, drop: float = 40.0) -> tuple[Array, Array]:
        return self._gather(lambda part: part.window(drop)[0]), self._gather(lambda part: part.window(drop)[1])

    @property
    def scale(self) -> Array:
        return self._gather(lambda part: part.scale)

    @property
    def normal(self) -> tuple[Array, Array] | None:
        found = [part.normal for _, part in self.parts]
        if any(f is None for f in found):
            return None
        pairs = [pair for pair in found if pair is not None]
        rows = [rows for rows, _ in self.parts]
        centre, variance = np.empty(self.n), np.empty(self.n)
        for own, (c, v) in zip(rows, pairs, strict=True):
            centre[own], variance[own] = c, v
        return centre, variance

    @property
    def support(self) -> Array | None:
        # Entries that tell nothing have the categories of the others.
        return next((part.support for _, part in self.parts if part.support is not None), None)

    def _map(self, change: Callable[[Any, Observation], Observation]) -> Observation:
        return join(self.n, [(rows, change(rows, part)) for rows, part in self.parts])

    def before_noise(self, law: Law) -> Observation:
        return self._map(lambda rows, part: part.before_noise(law.take(rows)))

    def before_kernel(self, kernel: Kernel) -> Observation:
        return self._map(lambda rows, part: part.before_kernel(kernel.take(rows)))

    def before_map(self, function: Map) -> Observation:
        return self._map(lambda rows, part: part.before_map(function.take(rows)))

    def before_own(self, mask: Any, column: Any) -> Observation:
        return self._map(lambda rows, part: part.before_own(mask, column))


def join(n: int, parts: Sequence[tuple[Any, Observation]]) -> Observation:
    """Observations of some rows each, put together; the rows are positions that together are 0 to n - 1, each once.

    >>> join(3, [([0, 2], Known([1.0, 2.0])), ([1], Uninformative(1))]).known
    array([ 1., nan,  2.])
    """
    flat: list[tuple[Any, Observation]] = []
    for rows, part in parts:
        own = np.asarray(rows, dtype=np.int64)
        if not len(own):
            continue
        flat += [(own[inner], p) for inner, p in part.parts] if isinstance(part, Pieces) else [(own, part)]
    merged: list[tuple[Any, Observation]] = []
    for kind in (Uninformative, Known):
        alike = [(rows, part) for rows, part in flat if type(part) is kind]
        if len(alike) > 1:
            rows = np.concatenate([r for r, _ in alike])
            merged.append(
                (
                    rows,
                    Uninformative(len(rows))
                    if kind is Uninformative
                    else Known(np.concatenate([p.known for _, p in alike])),
                )
            )
        else:
            merged += alike
    merged += [(rows, part) for rows, part in flat if type(part) not in (Uninformative, Known)]
    if len(merged) == 1:
        rows, part = merged[0]
        return part if np.array_equal(rows, np.arange(n)) else part.take(np.argsort(rows))
    return Pieces(n, tuple(merged))


def split(n: int, cases: Sequence[tuple[Any, Callable[[Any], Observation]]]) -> Observation:
    """Observations made case by case, each by the booleans of its entries and a maker that gets their positions."""
    parts = []
    for chosen, make in cases:
        rows = np.flatnonzero(np.broadcast_to(chosen, (n,)))
        if len(rows):
            parts.append((rows, make(rows)))
    return join(n, parts)
