"""Entries whose released number, or an interval around it, was drawn from a density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...protocols import Array
from .base import Cuts, Observation, as_row
from .kernel import Kernel, Location
from .laws import LOG_ROOT_2PI, NormalLaw
from .mathematics import NUMPY
from .simple import Between, split

if TYPE_CHECKING:
    from .laws import Law


@dataclass(frozen=True, repr=False, eq=False)
class NormalValue(Observation):
    """Every entry is seen with normal noise: the released centre is N(x, variance), the variance above 0 and finite.

    >>> float(NormalValue([1.0], [4.0]).log([3.0])[0].round(6))
    -2.112086
    """

    centre: Any
    variance: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "centre", as_row(self.centre))
        object.__setattr__(self, "variance", as_row(self.variance, len(self.centre)))

    @property
    def n(self) -> int:  # type: ignore[override]
        return len(self.centre)

    def log(self, x: Any, math: Any = NUMPY) -> Any:
        sd = np.sqrt(self.variance)
        return -0.5 * ((math.asarray(x) - self.centre) / sd) ** 2 - np.log(sd) - LOG_ROOT_2PI

    def take(self, rows: Any) -> NormalValue:
        return NormalValue(self.centre[rows], self.variance[rows])

    def window(self, drop: float = 40.0) -> tuple[Array, Array]:
        far = np.sqrt(2 * drop * self.variance)
        return self.centre - far, self.centre + far

    @property
    def grades(self) -> Array:
        return self.centre[:, None] + np.sqrt(self.variance)[:, None] * np.array(
            [-6.0, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6]
        )

    @property
    def scale(self) -> Array:
        return np.sqrt(self.variance)  # type: ignore[no-any-return]

    @property
    def normal(self) -> tuple[Array, Array]:
        return self.centre, self.variance

    def before_noise(self, law: Law) -> Observation:
        both = law.plus(NormalLaw.of(np.sqrt(self.variance)))
        if both is None:
            return super().before_noise(law)
        if both.normal is not None:
            return NormalValue(self.centre - both.normal[0], both.normal[1])
        return NoisyValue(Location(both), self.centre)


@dataclass(frozen=True, repr=False, eq=False)
class NoisyValue(Observation):
    """Every entry's released number was drawn from a density p(y | x)."""

    kernel: Kernel
    values: Any

    @property
    def n(self) -> int:  # type: ignore[override]
        return len(self.values)

    def log(self, x: Any, math: Any = NUMPY) -> Any:
        return self.kernel.log(self.values, math.asarray(x) + np.zeros(self.n), math)

    def take(self, rows: Any) -> NoisyValue:
        return NoisyValue(self.kernel.take(rows), self.values[rows])

    @property
    def low(self) -> Array:
        return self.kernel.low(self.values)

    @property
    def high(self) -> Array:
        return self.kernel.high(self.values)

    @property
    def cuts(self) -> Cuts:
        return self.kernel.breaks(self.values)

    @property
    def grades(self) -> Array:
        return self.kernel.grades(self.values)

    def window(self, drop: float = 40.0) -> tuple[Array, Array]:
        low, high = self.kernel.window(self.values, drop)
        return np.maximum(low, self.low), np.minimum(high, self.high)

    @property
    def scale(self) -> Array:
        return self.kernel.scale(self.values)

    def before_noise(self, law: Law) -> Observation:
        if isinstance(self.kernel, Location):
            both = law.plus(self.kernel.law)
            if both is not None:
                return NoisyValue(Location(both), self.values)
        return super().before_noise(law)


@dataclass(frozen=True, repr=False, eq=False)
class NoisyInterval(Observation):
    """A number drawn from p(y | x) lies in an interval; all entries have the same ends at infinity. Made by `of`."""

    kernel: Kernel
    interval: Between

    @classmethod
    def of(cls, kernel: Kernel, interval: Between) -> Observation:
        """One observation, or pieces where some intervals are half-lines and others not."""
        below, above = np.isneginf(interval.lower), np.isposinf(interval.upper)

        def make(rows: Any) -> Observation:
            return cls(kernel.take(rows), interval.take(rows))

        return split(interval.n, [(below, make), (above, make), (~below & ~above, make)])

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.interval.n

    def log(self, x: Any, math: Any = NUMPY) -> Any:
        x = math.asarray(x) + np.zeros(self.n)
        if np.isneginf(self.interval.lower[0]):
            return self.kernel.log_below(self.interval.upper, x, math)
        if np.isposinf(self.interval.upper[0]):
            return self.kernel.log_above(self.interval.lower, x, math)
        return self.kernel.log_between(self.interval.lower, self.interval.upper, x, math)

    def take(self, rows: Any) -> Observation:
        return NoisyInterval(self.kernel.take(rows), self.interval.take(rows))

    def _ends(self) -> list[Array]:
        return [end for end in (self.interval.lower, self.interval.upper) if np.isfinite(end).all()]

    @property
    def low(self) -> Array:
        return (
            np.full(self.n, -np.inf)
            if np.isneginf(self.interval.lower[0])
            else np.min([self.kernel.low(e) for e in self._ends()], axis=0)
        )

    @property
    def high(self) -> Array:
        return (
            np.full(self.n, np.inf)
            if np.isposinf(self.interval.upper[0])
            else np.max([self.kernel.high(e) for e in self._ends()], axis=0)
        )

    @property
    def cuts(self) -> Cuts:
        return Cuts.joined([self.kernel.breaks(e) for e in self._ends()])

    @property
    def grades(self) -> Array:
        return np.concatenate([self.kernel.grades(e) for e in self._ends()], axis=1)

    def window(self, drop: float = 40.0) -> tuple[Array, Array]:
        # A probability falls a little more slowly than the density at the interval's end.
        ends = [self.kernel.window(e, drop + 5.0) for e in self._ends()]
        low = np.full(self.n, -np.inf) if np.isneginf(self.interval.lower[0]) else np.min([e[0] for e in ends], axis=0)
        high = np.full(self.n, np.inf) if np.isposinf(self.interval.upper[0]) else np.max([e[1] for e in ends], axis=0)
        return np.maximum(low, self.low), np.minimum(high, self.high)

    @property
    def scale(self) -> Array:
        return np.max([self.kernel.scale(e) for e in self._ends()], axis=0)  # type: ignore[no-any-return]

    def before_noise(self, law: Law) -> Observation:
        if isinstance(self.kernel, Location):
            both = law.plus(self.kernel.law)
            if both is not None:
                return NoisyInterval(Location(both), self.interval)
        return super().before_noise(law)
