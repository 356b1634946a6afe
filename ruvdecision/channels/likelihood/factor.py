"""Multiplication by a random factor with mean one, as a density p(y | x)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...protocols import Array
from ..steps import FactorKind
from .base import Cuts
from .kernel import Kernel
from .laws import LOG_ROOT_2PI, NormalLaw, normal_between
from .mathematics import NUMPY, TINY


class Factor(Kernel):
    """y = x f. A subclass says the law of the factor f; at x = 0 nothing but y = 0 is possible."""

    def log_density(self, f: Any, math: Any) -> Any:
        """Log density of the factor."""
        raise NotImplementedError

    def below(self, f: Any, math: Any) -> Any:
        """Log probability that the factor is at most f."""
        raise NotImplementedError

    def above(self, f: Any, math: Any) -> Any:
        """Log probability that the factor is at least f."""
        raise NotImplementedError

    def between(self, a: Any, b: Any, math: Any) -> Any:
        """Log probability that the factor lies between a < b."""
        raise NotImplementedError

    @property
    def factors(self) -> Array:
        """Factors that cut the law into smooth panels."""
        raise NotImplementedError

    def reach(self, drop: float) -> tuple[float, float]:
        """Least and largest factor within ``drop`` of the likeliest."""
        raise NotImplementedError

    def log(self, y: Any, x: Any, math: Any = NUMPY) -> Any:
        safe = math.where(x == 0, 1.0, x)
        # A factor of 1e150 is as impossible as a larger one, and its square is still a number.
        f = math.minimum(math.maximum(y / math.where(math.abs(safe) < 1e-150, 1e-150, safe), -1e150), 1e150)
        found = self.log_density(f, math) - math.log(math.abs(safe))
        return math.where(x == 0, -np.inf, found)

    def log_below(self, upper: Any, x: Any, math: Any = NUMPY) -> Any:
        safe = math.where(x == 0, 1.0, x)
        found = math.where(x > 0, self.below(upper / safe, math), self.above(upper / safe, math))
        return math.where(x == 0, np.where(upper >= 0, 0.0, -np.inf), found)

    def log_above(self, lower: Any, x: Any, math: Any = NUMPY) -> Any:
        safe = math.where(x == 0, 1.0, x)
        found = math.where(x > 0, self.above(lower / safe, math), self.below(lower / safe, math))
        return math.where(x == 0, np.where(lower <= 0, 0.0, -np.inf), found)

    def log_between(self, lower: Any, upper: Any, x: Any, math: Any = NUMPY) -> Any:
        safe = math.where(x == 0, 1.0, x)
        a, b = math.where(x > 0, lower, upper) / safe, math.where(x > 0, upper, lower) / safe
        return math.where(x == 0, np.where((lower <= 0) & (upper >= 0), 0.0, -np.inf), self.between(a, b, math))

    def cuts(self, x: Any, math: Any = NUMPY) -> list[Any]:
        return [x * float(f) for f in self.factors]

    def window(self, y: Array, drop: float) -> tuple[Array, Array]:
        # Dividing by |x| moves the largest value a little: ten more are enough.
        least, most = self.reach(drop + 10.0)
        if least <= 0:
            return np.where(y == 0, 0.0, -np.inf), np.where(y == 0, 0.0, np.inf)
        return np.minimum(y / least, y / most), np.maximum(y / least, y / most)

    def breaks(self, y: Array) -> Cuts:
        # Only a released zero comes from zero: on either side the density of the factor is another.
        return Cuts.at_jumps(np.zeros((self.n, 1)))

    def bends(self, low: Array, high: Array) -> Cuts:
        return Cuts.at_jumps(np.zeros((self.n, 1)))

    def grades(self, y: Array) -> Array:
        factors = self.factors[self.factors != 0]
        far = 2.0 ** np.arange(0, 45)
        return np.concatenate([y[:, None] / factors, np.abs(y)[:, None] * far, -np.abs(y)[:, None] * far], axis=1)

    def scale(self, y: Array) -> Array:
        least, most = self.reach(0.5)
        return np.maximum(np.abs(y) * (most - least) / 2, np.finfo(float).tiny)


@dataclass(frozen=True, repr=False, eq=False)
class NormalFactor(Factor):
    """A normal factor, or a mixture of two around 1 - away and 1 + away.

    >>> float(NormalFactor(1, 0.1).log(np.array([2.0]), np.array([2.0]))[0].round(4))
    0.6905
    """

    n: int
    sd: float
    away: float = 0.0

    @property
    def law(self) -> NormalLaw:
        """The factor's law."""
        centres = np.array([1.0]) if self.away == 0 else np.array([1.0 - self.away, 1.0 + self.away])
        weights = np.full(len(centres), 1.0 / len(centres))
        return NormalLaw(weights, np.repeat(centres[:, None], self.n, axis=1), np.full((len(centres), self.n), self.sd))

    def log_density(self, f: Any, math: Any) -> Any:
        return self.law.log_density(f, math)

    def below(self, f: Any, math: Any) -> Any:
        return self.law.log_below(f, math)

    def above(self, f: Any, math: Any) -> Any:
        return self.law.log_above(f, math)

    def between(self, a: Any, b: Any, math: Any) -> Any:
        return self.law.log_between(a, b, math)

    @property
    def factors(self) -> Array:
        return np.unique(self.law.cuts[:, 0])

    def reach(self, drop: float) -> tuple[float, float]:
        low, high = self.law.reach(drop)
        return float(low[0]), float(high[0])

    def take(self, rows: Any) -> NormalFactor:
        return NormalFactor(len(np.arange(self.n)[rows]), self.sd, self.away)


@dataclass(frozen=True, repr=False, eq=False)
class LognormalFactor(Factor):
    """A lognormal factor with mean one and the given sd; the sign of x is kept."""

    n: int
    sd: float

    @property
    def _variance(self) -> float:
        return float(np.log1p(self.sd**2))

    def _z(self, f: Any, math: Any) -> Any:
        return (math.log(math.maximum(f, TINY)) + self._variance / 2) / np.sqrt(self._variance)

    def log_density(self, f: Any, math: Any) -> Any:
        found = (
            -0.5 * self._z(f, math) ** 2 - 0.5 * np.log(self._variance) - LOG_ROOT_2PI - math.log(math.maximum(f, TINY))
        )
        return math.where(f > 0, found, -np.inf)

    def below(self, f: Any, math: Any) -> Any:
        return math.where(f > 0, math.log_ndtr(self._z(f, math)), -np.inf)

    def above(self, f: Any, math: Any) -> Any:
        return math.where(f > 0, math.log_ndtr(-self._z(f, math)), 0.0)

    def between(self, a: Any, b: Any, math: Any) -> Any:
        positive = a > 0
        ratio = math.where(positive, b / math.where(positive, a, 1.0), 2.0)
        wide = math.log(math.maximum(ratio, 1.0)) / np.sqrt(self._variance)
        first = self._z(math.where(positive, a, 1.0), math)
        inside = normal_between(first, first + wide, wide, math)
        return math.where(positive, inside, self.below(b, math))

    @property
    def factors(self) -> Array:
        grid = np.array([-9, -7, -5.5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5.5, 7, 9])
        return np.asarray(np.exp(-self._variance / 2 + np.sqrt(self._variance) * grid))

    def reach(self, drop: float) -> tuple[float, float]:
        far = np.sqrt(2 * drop * self._variance)
        return float(np.exp(-self._variance / 2 - far)), float(np.exp(-self._variance / 2 + far))

    def low(self, y: Array) -> Array:
        return np.where(y >= 0, 0.0, -np.inf)

    def high(self, y: Array) -> Array:
        return np.where(y <= 0, 0.0, np.inf)

    def take(self, rows: Any) -> LognormalFactor:
        return LognormalFactor(len(np.arange(self.n)[rows]), self.sd)


@dataclass(frozen=True, repr=False, eq=False)
class SplitFactor(Factor):
    """A factor that differs from one by ``least`` to ``most``, uniformly on either side."""

    n: int
    least: float
    most: float

    @property
    def _parts(self) -> tuple[tuple[float, float], tuple[float, float]]:
        return (1.0 - self.most, 1.0 - self.least), (1.0 + self.least, 1.0 + self.most)

    def log_density(self, f: Any, math: Any) -> Any:
        away = math.abs(f - 1.0)
        inside = math.logical_and(away >= self.least, away <= self.most)
        return math.where(inside, -np.log(2 * (self.most - self.least)), -np.inf) + math.zeros_like(f)

    def _share(self, a: Any, b: Any, math: Any) -> Any:
        share: Any = 0.0
        for low, high in self._parts:
            share = share + math.maximum(math.minimum(b, high) - math.maximum(a, low), 0.0)
        share = share / (2 * (self.most - self.least))
        return math.where(share > 0, math.log(math.maximum(share, TINY)), -np.inf)

    def below(self, f: Any, math: Any) -> Any:
        return self._share(1.0 - 2 * self.most, f, math)

    def above(self, f: Any, math: Any) -> Any:
        return self._share(f, 1.0 + 2 * self.most, math)

    def between(self, a: Any, b: Any, math: Any) -> Any:
        return self._share(a, b, math)

    @property
    def factors(self) -> Array:
        (a, b), (c, d) = self._parts
        return np.array([a, b, c, d])

    def reach(self, drop: float) -> tuple[float, float]:
        return 1.0 - self.most, 1.0 + self.most

    def low(self, y: Array) -> Array:
        return self.window(y, 0.0)[0]

    def high(self, y: Array) -> Array:
        return self.window(y, 0.0)[1]

    def breaks(self, y: Array) -> Cuts:
        factors = self.factors[self.factors != 0]
        return Cuts.at_jumps(np.concatenate([np.zeros((self.n, 1)), y[:, None] / factors], axis=1))

    def take(self, rows: Any) -> SplitFactor:
        return SplitFactor(len(np.arange(self.n)[rows]), self.least, self.most)


def factor_of(kind: FactorKind, n: int) -> Factor:
    """The factor of a step, for n entries."""
    if kind.name == "split":
        return SplitFactor(n, kind.least, kind.most)
    if kind.name == "lognormal":
        return LognormalFactor(n, kind.sd)
    return NormalFactor(n, kind.sd, kind.away)
