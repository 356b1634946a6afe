"""Laws of additive noise, entry by entry: log density and log probability of an interval, exact far into the tails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from ...protocols import Array
from ..steps import NoiseKind
from .base import as_row
from .mathematics import NUMPY, TINY, legendre_for, logsumexp

LOG_ROOT_2PI = 0.5 * np.log(2 * np.pi)
BLOCK = 2_000_000
"""Most numbers to hold at a time."""


class Law:
    """Noise with a density around zero, a size of its own for each of n entries."""

    n: int

    def log_density(self, z: Any, math: Any = NUMPY) -> Any:
        """Log density at ``z`` of shape (..., n)."""
        raise NotImplementedError

    def log_below(self, z: Any, math: Any = NUMPY) -> Any:
        """Log probability of being below ``z``."""
        raise NotImplementedError

    def log_above(self, z: Any, math: Any = NUMPY) -> Any:
        """Log probability of being above ``z``."""
        return self.log_below(-z, math)

    def log_between(self, a: Any, b: Any, math: Any = NUMPY) -> Any:
        """Log probability of lying between finite ``a < b``."""
        raise NotImplementedError

    def take(self, rows: Any) -> Law:
        """The same for some entries."""
        raise NotImplementedError

    @property
    def spread(self) -> Array:
        """A length over which the density changes, shape (n,)."""
        raise NotImplementedError

    def reach(self, drop: float) -> tuple[Array, Array]:
        """Least and largest noise whose log density is within ``drop`` of the largest (or a little beyond)."""
        raise NotImplementedError

    @property
    def cuts(self) -> Array:
        """Places that cut the law into smooth panels, shape (m, n), increasing; the ends hold all but 1e-17 of it."""
        raise NotImplementedError

    @property
    def kink(self) -> bool:
        """Whether the density has a kink at zero."""
        return False

    @property
    def normal(self) -> tuple[Array, Array] | None:
        """Mean and variance if the law is normal, else None."""
        return None

    def plus(self, other: Law) -> Law | None:
        """The law of the sum with another, independent noise, or None if it has no form here."""
        return None

    def log_density_on_normal(self, gap: Array, sd: float) -> Array:
        """Log density of this noise (of the first entry) plus an independent normal of this sd, at ``gap``."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False, eq=False)
class NormalLaw(Law):
    """A normal law, or a mixture of some: component c has a weight, and a centre and sd for every entry.

    >>> law = NormalLaw.of([1.0])
    >>> float(law.log_between(np.array([-40.0]), np.array([-39.0]))[0].round(4))
    -765.0832
    """

    weights: Any  # (c,)
    centres: Any  # (c, n)
    sds: Any  # (c, n)

    @classmethod
    def of(cls, sd: Any, weights: Any = (1.0,), centres: Any = (0.0,)) -> NormalLaw:
        """Noise of this sd for each entry.

        ``centres`` count its sds, and components share what they leave of the variance.
        """
        if len(weights) == 1 and weights[0] == 1.0 and centres[0] == 0.0:
            row = as_row(sd)[None]
            return cls(np.ones(1), np.zeros(row.shape), row)
        sd, share, at = as_row(sd), np.asarray(weights, dtype=np.float64), np.asarray(centres, dtype=np.float64)
        inner = np.sqrt(max(1.0 - float(share @ at**2), 0.0))
        keep = share > 0
        return cls(share[keep], at[keep, None] * sd, np.repeat(inner * sd[None], int(keep.sum()), axis=0))

    @property
    def n(self) -> int:  # type: ignore[override]
        return int(self.sds.shape[1])

    def _mix(self, one: Any, math: Any) -> Any:
        if len(self.weights) == 1:
            return one(self.centres[0], self.sds[0])
        return logsumexp(
            math.stack(
                [np.log(w) + one(c, s) for w, c, s in zip(self.weights, self.centres, self.sds, strict=True)], axis=0
            ),
            math,
        )

    def log_density(self, z: Any, math: Any = NUMPY) -> Any:
        return self._mix(lambda c, s: -0.5 * ((z - c) / s) ** 2 - np.log(s) - LOG_ROOT_2PI, math)

    def log_below(self, z: Any, math: Any = NUMPY) -> Any:
        return self._mix(lambda c, s: math.log_ndtr((z - c) / s), math)

    def log_above(self, z: Any, math: Any = NUMPY) -> Any:
        return self._mix(lambda c, s: math.log_ndtr((c - z) / s), math)

    def log_between(self, a: Any, b: Any, math: Any = NUMPY) -> Any:
        return self._mix(lambda c, s: normal_between((a - c) / s, (b - c) / s, (b - a) / s, math), math)

    def take(self, rows: Any) -> NormalLaw:
        return NormalLaw(self.weights, self.centres[:, rows], self.sds[:, rows])

    @property
    def spread(self) -> Array:
        return np.asarray(self.sds.min(axis=0))

    def reach(self, drop: float) -> tuple[Array, Array]:
        # A component's own peak may be lower than the largest by its weight: keep it all the same.
        wide = np.sqrt(2 * drop) * self.sds
        return (self.centres - wide).min(axis=0), (self.centres + wide).max(axis=0)

    @property
    def cuts(self) -> Array:
        grid = np.array([-9, -7, -5.5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5.5, 7, 9])
        every = self.centres[:, None] + grid[:, None] * self.sds[:, None]
        return np.sort(every.reshape(-1, self.n), axis=0)

    @property
    def normal(self) -> tuple[Array, Array] | None:
        return (self.centres[0], self.sds[0] ** 2) if len(self.weights) == 1 else None

    def log_density_on_normal(self, gap: Array, sd: float) -> Array:
        return np.asarray(NormalLaw(self.weights, self.centres[:, :1], np.hypot(self.sds[:, :1], sd)).log_density(gap))

    def plus(self, other: Law) -> Law | None:
        if not isinstance(other, NormalLaw):
            return None
        weights = (self.weights[:, None] * other.weights).reshape(-1)
        centres = (self.centres[:, None] + other.centres).reshape(-1, self.n)
        return NormalLaw(weights, centres, np.hypot(self.sds[:, None], other.sds).reshape(-1, self.n))


@dataclass(frozen=True, repr=False, eq=False)
class LaplaceLaw(Law):
    """Laplace noise of a given sd; its scale is sd / sqrt(2).

    >>> float(LaplaceLaw(np.array([np.sqrt(2.0)])).log_between(np.array([-1.0]), np.array([1.0]))[0].round(6))
    -0.458675
    """

    sds: Any

    @property
    def n(self) -> int:  # type: ignore[override]
        return len(self.sds)

    @property
    def spread(self) -> Array:
        return self.sds / np.sqrt(2.0)  # type: ignore[no-any-return]

    def log_density(self, z: Any, math: Any = NUMPY) -> Any:
        return -math.abs(z) / self.spread - np.log(2 * self.spread)

    def log_below(self, z: Any, math: Any = NUMPY) -> Any:
        u = z / self.spread
        return math.where(u < 0, math.minimum(u, 0.0) - np.log(2.0), math.log1p(-0.5 * math.exp(-math.maximum(u, 0.0))))

    def log_between(self, a: Any, b: Any, math: Any = NUMPY) -> Any:
        s = self.spread
        near = math.maximum(math.maximum(a, -b), 0.0)
        aside = -near / s + math.log(math.maximum(-math.expm1(-(b - a) / s), TINY)) - np.log(2.0)
        around = math.log(
            math.maximum(
                -0.5 * math.expm1(math.minimum(a, 0.0) / s) - 0.5 * math.expm1(-math.maximum(b, 0.0) / s), TINY
            )
        )
        return math.where(near > 0, aside, around)

    def log_density_on_normal(self, gap: Array, sd: float) -> Array:
        b = float(self.spread[0])
        if sd < 1e-9 * b:
            return np.asarray(-np.abs(gap) / b - np.log(2 * b))
        up = -gap / b + special.log_ndtr(gap / sd - sd / b)
        down = gap / b + special.log_ndtr(-gap / sd - sd / b)
        return np.asarray(sd**2 / (2 * b**2) + np.logaddexp(up, down) - np.log(2 * b))

    def take(self, rows: Any) -> LaplaceLaw:
        return LaplaceLaw(self.sds[rows])

    def reach(self, drop: float) -> tuple[Array, Array]:
        return -drop * self.spread, drop * self.spread

    @property
    def cuts(self) -> Array:
        half = np.array([0, 1, 2, 4, 6, 9, 13, 18, 24, 31, 40])
        return np.concatenate([-half[:0:-1], half])[:, None] * self.spread

    @property
    def kink(self) -> bool:
        return True


@dataclass(frozen=True, repr=False, eq=False)
class StudentLaw(Law):
    """Student's t noise of a given sd with ``df`` degrees of freedom above 2.

    >>> float(StudentLaw(np.array([np.sqrt(3.0)]), 3.0).log_below(np.array([0.0]))[0].round(6))
    -0.693147
    """

    sds: Any
    df: float

    @property
    def n(self) -> int:  # type: ignore[override]
        return len(self.sds)

    @property
    def spread(self) -> Array:
        return self.sds * np.sqrt((self.df - 2.0) / self.df)  # type: ignore[no-any-return]

    @property
    def _constant(self) -> float:
        return float(special.gammaln((self.df + 1) / 2) - special.gammaln(self.df / 2) - 0.5 * np.log(self.df * np.pi))

    def _standard(self, u: Any, math: Any) -> Any:
        """Log density with scale one."""
        return self._constant - (self.df + 1) / 2 * math.log1p(u * u / self.df)

    def log_density(self, z: Any, math: Any = NUMPY) -> Any:
        return self._standard(z / self.spread, math) - np.log(self.spread)

    def _tail(self, u: Any, math: Any) -> Any:
        """Probability beyond |u| on one side."""
        return 0.5 * math.betainc(self.df / 2, 0.5, self.df / (self.df + u * u))

    def log_below(self, z: Any, math: Any = NUMPY) -> Any:
        u = z / self.spread
        tail = self._tail(u, math)
        return math.where(u < 0, math.log(math.maximum(tail, TINY)), math.log1p(-math.minimum(tail, 0.5)))

    def log_between(self, a: Any, b: Any, math: Any = NUMPY) -> Any:
        s = self.spread
        a, b, wide = a / s, b / s, (b - a) / s
        a, b = math.where(a + b > 0, -b, a), math.where(a + b > 0, -a, b)
        most = math.maximum(math.abs(a), 1.0)
        narrow = wide * (self.df + 1) * most / (self.df + most * most) < 0.7
        half = math.where(narrow, wide / 2, 0.0)
        middle = a + half
        centre = self._standard(middle, math)
        node, weight = legendre_for(half)
        inside = math.sum(weight / 2 * math.exp(self._standard(middle + half * node, math) - centre), axis=0)
        close = centre + math.log(math.maximum(wide, TINY)) + math.log(inside)
        upper = math.where(b < 0, self._tail(b, math), 1.0 - self._tail(b, math))
        apart = math.where(narrow, 1.0, upper - self._tail(a, math))
        return math.where(narrow, close, math.log(math.maximum(apart, TINY)))

    def log_density_on_normal(self, gap: Array, sd: float) -> Array:
        """A t variable is normal with a gamma precision; the trapezoidal rule in its logarithm is exact to rounding."""
        scale, df = float(self.spread[0]), self.df
        if sd < 1e-9 * scale:
            return np.asarray(self._standard(gap / scale, NUMPY) - np.log(scale))
        u = np.linspace(-80.0 / df - 12.0, 6.0, 400)
        shape = df / 2
        log_weight = (
            shape * np.log(shape) - special.gammaln(shape) + shape * u - shape * np.exp(u) + np.log(u[1] - u[0])
        )
        keep = log_weight > -80.0
        u, log_weight = u[keep], log_weight[keep]
        variance = sd**2 + scale**2 * np.exp(-u)
        flat = np.asarray(gap).reshape(-1)
        out = np.empty(len(flat))
        step = max(1, BLOCK // len(u))
        for start in range(0, len(flat), step):
            part = flat[start : start + step, None]
            terms = log_weight - 0.5 * (part**2 / variance + np.log(2 * np.pi * variance))
            out[start : start + step] = special.logsumexp(terms, axis=1)
        return out.reshape(np.shape(gap))

    def take(self, rows: Any) -> StudentLaw:
        return StudentLaw(self.sds[rows], self.df)

    def reach(self, drop: float) -> tuple[Array, Array]:
        far = np.sqrt(self.df * np.expm1(min(2 * drop / (self.df + 1), 600.0))) * self.spread
        return -far, far

    @property
    def cuts(self) -> Array:
        # Beyond a few widths the tail is a power: panels that double are smooth in the logarithm.
        most = np.sqrt(self.df) * 10 ** (17.0 / self.df)
        half = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
        while half[-1] < most:
            half.append(half[-1] * 1.4)
        return np.concatenate([-np.array(half)[:0:-1], half])[:, None] * self.spread


def noise_law(kind: NoiseKind, sd: Array) -> Law:
    """The law of a step's noise for entries of these standard deviations."""
    if kind.name == "laplace":
        return LaplaceLaw(np.array(sd))
    if kind.name == "t":
        return StudentLaw(np.array(sd), float(kind.df or 0.0))
    if kind.name == "mixture":
        return NormalLaw.of(sd, kind.weights, kind.centres)
    return NormalLaw.of(sd)


def normal_between(a: Any, b: Any, wide: Any, math: Any) -> Any:
    """log(Phi(b) - Phi(a)) for finite a < b, wide = b - a known better than their difference."""
    # On the left of zero both probabilities are small, and their difference keeps its digits.
    a, b = math.where(a + b > 0, -b, a), math.where(a + b > 0, -a, b)
    narrow = wide * (1.0 + math.abs(a)) < 1.0
    half = math.where(narrow, wide / 2, 0.0)
    middle = a + half
    node, weight = legendre_for(half)
    step = half * node
    inside = math.sum(weight / 2 * math.exp(-step * (middle + step / 2)), axis=0)
    close = -0.5 * middle * middle - LOG_ROOT_2PI + math.log(math.maximum(wide, TINY)) + math.log(inside)
    upper = math.maximum(math.log_ndtr(b), -1e300)
    gap = math.where(narrow, -1.0, math.log_ndtr(a) - upper)
    return math.where(narrow, close, upper + math.log(-math.expm1(gap)))
