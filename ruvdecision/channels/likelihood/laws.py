"""Laws of noise and of random factors, entry by entry: log density and log probability of an interval.

Exact far into the tails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ...protocols import Array
from ..steps import FactorKind, NoiseKind
from .base import Pair, PerEntry, as_row, unbounded_ends
from .mathematics import LOG_ROOT_2PI, NUMPY, TINY, Mathematics, Values, legendre_for, logsumexp

BLOCK = 2_000_000
"""Most numbers to hold at a time."""
PANELS = np.array([-9, -7, -5.5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5.5, 7, 9])
"""Standard deviations that cut a normal law into smooth panels."""


class EntryLaw(PerEntry):
    """A law with a density, a size of its own for each of n entries."""

    kink = False
    """Whether the density has a kink at zero."""

    def log_density(self, z: Values, math: Mathematics = NUMPY) -> Values:
        """Log density at ``z`` of shape (..., n)."""
        raise NotImplementedError

    def log_below(self, z: Values, math: Mathematics = NUMPY) -> Values:
        """Log probability of being below ``z``."""
        raise NotImplementedError

    def log_above(self, z: Values, math: Mathematics = NUMPY) -> Values:
        """Log probability of being above ``z``; the law is symmetric about zero unless a subclass says otherwise."""
        return self.log_below(-z, math)

    def log_between(self, a: Values, b: Values, math: Mathematics = NUMPY) -> Values:
        """Log probability of lying between finite ``a < b``."""
        raise NotImplementedError

    @property
    def bounds(self) -> Pair:
        """Ends of what is possible."""
        return unbounded_ends(self.n)

    def window(self, drop: float) -> Pair:
        """Least and largest value whose log density is within ``drop`` of the largest (or a little beyond)."""
        raise NotImplementedError

    @property
    def cuts(self) -> Array:
        """Places that cut the law into smooth panels, shape (m, n), increasing; the ends hold all but 1e-17 of it."""
        raise NotImplementedError

    @property
    def jumps(self) -> Array:
        """Places where the density jumps, shape (m, n)."""
        return np.empty((0, self.n))


class NoiseLaw(EntryLaw):
    """The law of noise around zero."""

    @property
    def scale(self) -> Array:
        """A length over which the density changes, shape (n,)."""
        raise NotImplementedError

    @property
    def normal(self) -> Pair | None:
        """Mean and variance if the law is normal, else None."""
        return None

    def plus(self, other: NoiseLaw) -> NoiseLaw | None:
        """The law of the sum with another, independent noise, or None if it has no form here."""
        return None

    def log_density_convolved_with_normal(self, gap: Array, sd: float) -> Array:
        """Log density of this noise (of the first entry) plus an independent normal of this sd, at ``gap``."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False, eq=False)
class NormalLaw(NoiseLaw):
    """A normal law, or a mixture of some: component c has a weight, and a centre and sd for every entry.

    >>> law = NormalLaw.of([1.0])
    >>> float(law.log_between(np.array([-40.0]), np.array([-39.0]))[0].round(4))
    -765.0832
    """

    per_entry = ("centres", "sds")

    weights: Array  # (c,)
    centres: Array  # (c, n)
    sds: Array  # (c, n)

    @classmethod
    def of(cls, sd: ArrayLike, weights: Sequence[float] = (1.0,), centres: Sequence[float] = (0.0,)) -> NormalLaw:
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

    def _mix_components(self, one: Callable[[Array, Array], Values], math: Mathematics) -> Values:
        if len(self.weights) == 1:
            return one(self.centres[0], self.sds[0])
        parts = [np.log(w) + one(c, s) for w, c, s in zip(self.weights, self.centres, self.sds, strict=True)]
        return logsumexp(math.stack(parts, axis=0), math)

    def log_density(self, z: Values, math: Mathematics = NUMPY) -> Values:
        return self._mix_components(lambda c, s: -0.5 * ((z - c) / s) ** 2 - (np.log(s) + LOG_ROOT_2PI), math)

    def log_below(self, z: Values, math: Mathematics = NUMPY) -> Values:
        return self._mix_components(lambda c, s: math.log_ndtr((z - c) / s), math)

    def log_above(self, z: Values, math: Mathematics = NUMPY) -> Values:
        return self._mix_components(lambda c, s: math.log_ndtr((c - z) / s), math)

    def log_between(self, a: Values, b: Values, math: Mathematics = NUMPY) -> Values:
        return self._mix_components(lambda c, s: log_ndtr_between((a - c) / s, (b - c) / s, (b - a) / s, math), math)

    @property
    def scale(self) -> Array:
        return np.asarray(self.sds.min(axis=0))

    def window(self, drop: float) -> Pair:
        # A component's own peak may be lower than the largest by its weight: keep it all the same.
        wide = np.sqrt(2 * drop) * self.sds
        return (self.centres - wide).min(axis=0), (self.centres + wide).max(axis=0)

    @property
    def cuts(self) -> Array:
        every = self.centres[:, None] + PANELS[:, None] * self.sds[:, None]
        return np.sort(every.reshape(-1, self.n), axis=0)

    @property
    def normal(self) -> Pair | None:
        return (self.centres[0], self.sds[0] ** 2) if len(self.weights) == 1 else None

    def log_density_convolved_with_normal(self, gap: Array, sd: float) -> Array:
        return np.asarray(NormalLaw(self.weights, self.centres[:, :1], np.hypot(self.sds[:, :1], sd)).log_density(gap))

    def plus(self, other: NoiseLaw) -> NoiseLaw | None:
        if not isinstance(other, NormalLaw):
            return None
        weights = (self.weights[:, None] * other.weights).reshape(-1)
        centres = (self.centres[:, None] + other.centres).reshape(-1, self.n)
        return NormalLaw(weights, centres, np.hypot(self.sds[:, None], other.sds).reshape(-1, self.n))


@dataclass(frozen=True, repr=False, eq=False)
class LaplaceLaw(NoiseLaw):
    """Laplace noise of a given sd; its scale is sd / sqrt(2).

    >>> float(LaplaceLaw(np.array([np.sqrt(2.0)])).log_between(np.array([-1.0]), np.array([1.0]))[0].round(6))
    -0.458675
    """

    per_entry = ("sds",)

    kink = True

    sds: Array

    @property
    def scale(self) -> Array:
        return self.sds / np.sqrt(2.0)  # type: ignore[no-any-return]

    def log_density(self, z: Values, math: Mathematics = NUMPY) -> Values:
        return -math.abs(z) / self.scale - np.log(2 * self.scale)

    def log_below(self, z: Values, math: Mathematics = NUMPY) -> Values:
        u = z / self.scale
        return math.where(u < 0, math.minimum(u, 0.0) - np.log(2.0), math.log1p(-0.5 * math.exp(-math.maximum(u, 0.0))))

    def log_between(self, a: Values, b: Values, math: Mathematics = NUMPY) -> Values:
        s = self.scale
        near = math.maximum(math.maximum(a, -b), 0.0)
        aside = -near / s + math.log(math.maximum(-math.expm1(-(b - a) / s), TINY)) - np.log(2.0)
        around = math.log(
            math.maximum(
                -0.5 * math.expm1(math.minimum(a, 0.0) / s) - 0.5 * math.expm1(-math.maximum(b, 0.0) / s), TINY
            )
        )
        return math.where(near > 0, aside, around)

    def log_density_convolved_with_normal(self, gap: Array, sd: float) -> Array:
        b = float(self.scale[0])
        if sd < 1e-9 * b:
            return np.asarray(-np.abs(gap) / b - np.log(2 * b))
        up = -gap / b + special.log_ndtr(gap / sd - sd / b)
        down = gap / b + special.log_ndtr(-gap / sd - sd / b)
        return np.asarray(sd**2 / (2 * b**2) + np.logaddexp(up, down) - np.log(2 * b))

    def window(self, drop: float) -> Pair:
        return -drop * self.scale, drop * self.scale

    @property
    def cuts(self) -> Array:
        half = np.array([0, 1, 2, 4, 6, 9, 13, 18, 24, 31, 40])
        return np.concatenate([-half[:0:-1], half])[:, None] * self.scale


@dataclass(frozen=True, repr=False, eq=False)
class StudentLaw(NoiseLaw):
    """Student's t noise of a given sd with ``df`` degrees of freedom above 2.

    >>> float(StudentLaw(np.array([np.sqrt(3.0)]), 3.0).log_below(np.array([0.0]))[0].round(6))
    -0.693147
    """

    per_entry = ("sds",)

    sds: Array
    df: float

    @property
    def scale(self) -> Array:
        return self.sds * np.sqrt((self.df - 2.0) / self.df)  # type: ignore[no-any-return]

    def _standard_log_density(self, u: Values, math: Mathematics) -> Values:
        """Log density with scale one."""
        top = special.gammaln((self.df + 1) / 2) - special.gammaln(self.df / 2) - 0.5 * np.log(self.df * np.pi)
        return float(top) - (self.df + 1) / 2 * math.log1p(u * u / self.df)

    def log_density(self, z: Values, math: Mathematics = NUMPY) -> Values:
        return self._standard_log_density(z / self.scale, math) - np.log(self.scale)

    def _tail_probability(self, u: Values, math: Mathematics) -> Values:
        """Probability beyond |u| on one side."""
        return 0.5 * math.betainc(self.df / 2, 0.5, self.df / (self.df + u * u))

    def log_below(self, z: Values, math: Mathematics = NUMPY) -> Values:
        u = z / self.scale
        tail = self._tail_probability(u, math)
        return math.where(u < 0, math.log(math.maximum(tail, TINY)), math.log1p(-math.minimum(tail, 0.5)))

    def log_between(self, a: Values, b: Values, math: Mathematics = NUMPY) -> Values:
        s = self.scale
        a, b, wide = a / s, b / s, (b - a) / s
        a, b = math.where(a + b > 0, -b, a), math.where(a + b > 0, -a, b)
        most = math.maximum(math.abs(a), 1.0)
        narrow = wide * (self.df + 1) * most / (self.df + most * most) < 0.7
        half = math.where(narrow, wide / 2, 0.0)
        middle = a + half
        centre = self._standard_log_density(middle, math)
        node, weight = legendre_for(half)
        inside = math.sum(
            weight / 2 * math.exp(self._standard_log_density(middle + half * node, math) - centre), axis=0
        )
        close = centre + math.log(math.maximum(wide, TINY)) + math.log(inside)
        upper = math.where(b < 0, self._tail_probability(b, math), 1.0 - self._tail_probability(b, math))
        apart = math.where(narrow, 1.0, upper - self._tail_probability(a, math))
        return math.where(narrow, close, math.log(math.maximum(apart, TINY)))

    def log_density_convolved_with_normal(self, gap: Array, sd: float) -> Array:
        """A t variable is normal with a gamma precision; the trapezoidal rule in its logarithm is exact to rounding."""
        scale, df = float(self.scale[0]), self.df
        if sd < 1e-9 * scale:
            return np.asarray(self._standard_log_density(gap / scale, NUMPY) - np.log(scale))
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

    def window(self, drop: float) -> Pair:
        far = np.sqrt(self.df * np.expm1(min(2 * drop / (self.df + 1), 600.0))) * self.scale
        return -far, far

    @property
    def cuts(self) -> Array:
        # Beyond a few widths the tail is a power: panels that double are smooth in the logarithm.
        most = np.sqrt(self.df) * 10 ** (17.0 / self.df)
        half = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
        while half[-1] < most:
            half.append(half[-1] * 1.4)
        return np.concatenate([-np.array(half)[:0:-1], half])[:, None] * self.scale


@dataclass(frozen=True, repr=False, eq=False)
class LognormalLaw(EntryLaw):
    """A lognormal factor with mean one and the given sd."""

    per_entry = ("sds",)

    sds: Array

    @property
    def _log_variance(self) -> Array:
        return np.log1p(self.sds**2)

    def _standard_score(self, f: Values, math: Mathematics) -> Values:
        return (math.log(math.maximum(f, TINY)) + self._log_variance / 2) / np.sqrt(self._log_variance)

    def log_density(self, z: Values, math: Mathematics = NUMPY) -> Values:
        at = -0.5 * self._standard_score(z, math) ** 2 - 0.5 * np.log(self._log_variance) - LOG_ROOT_2PI
        return math.where(z > 0, at - math.log(math.maximum(z, TINY)), -np.inf)

    def log_below(self, z: Values, math: Mathematics = NUMPY) -> Values:
        return math.where(z > 0, math.log_ndtr(self._standard_score(z, math)), -np.inf)

    def log_above(self, z: Values, math: Mathematics = NUMPY) -> Values:
        return math.where(z > 0, math.log_ndtr(-self._standard_score(z, math)), 0.0)

    def log_between(self, a: Values, b: Values, math: Mathematics = NUMPY) -> Values:
        positive = a > 0
        ratio = math.where(positive, b / math.where(positive, a, 1.0), 2.0)
        wide = math.log(math.maximum(ratio, 1.0)) / np.sqrt(self._log_variance)
        first = self._standard_score(math.where(positive, a, 1.0), math)
        return math.where(positive, log_ndtr_between(first, first + wide, wide, math), self.log_below(b, math))

    @property
    def bounds(self) -> Pair:
        return np.zeros(self.n), np.full(self.n, np.inf)

    def window(self, drop: float) -> Pair:
        far = np.sqrt(2 * drop * self._log_variance)
        return np.exp(-self._log_variance / 2 - far), np.exp(-self._log_variance / 2 + far)

    @property
    def cuts(self) -> Array:
        return np.exp(-self._log_variance / 2 + np.sqrt(self._log_variance) * PANELS[:, None])


@dataclass(frozen=True, repr=False, eq=False)
class SplitLaw(EntryLaw):
    """A factor that differs from one by ``least`` to ``most``, uniformly on either side."""

    per_entry = ("least", "most")

    least: Array
    most: Array

    def log_density(self, z: Values, math: Mathematics = NUMPY) -> Values:
        away = math.abs(z - 1.0)
        inside = math.logical_and(away >= self.least, away <= self.most)
        return math.where(inside, -np.log(2 * (self.most - self.least)), -np.inf)

    def log_below(self, z: Values, math: Mathematics = NUMPY) -> Values:
        return self.log_between(1.0 - 2 * self.most, z, math)

    def log_above(self, z: Values, math: Mathematics = NUMPY) -> Values:
        return self.log_between(z, 1.0 + 2 * self.most, math)

    def log_between(self, a: Values, b: Values, math: Mathematics = NUMPY) -> Values:
        share: Values = 0.0
        for low, high in zip(self.cuts[::2], self.cuts[1::2], strict=True):
            share = share + math.maximum(math.minimum(b, high) - math.maximum(a, low), 0.0)
        share = share / (2 * (self.most - self.least))
        return math.where(share > 0, math.log(math.maximum(share, TINY)), -np.inf)

    @property
    def bounds(self) -> Pair:
        return 1.0 - self.most, 1.0 + self.most

    def window(self, drop: float) -> Pair:
        return self.bounds

    @property
    def cuts(self) -> Array:
        return np.stack([1.0 - self.most, 1.0 - self.least, 1.0 + self.least, 1.0 + self.most])

    @property
    def jumps(self) -> Array:
        return self.cuts


def noise_law(kind: NoiseKind, sd: Array) -> NoiseLaw:
    """The law of a step's noise for entries of these standard deviations."""
    if kind.name == "laplace":
        return LaplaceLaw(np.array(sd))
    if kind.name == "t":
        return StudentLaw(np.array(sd), float(kind.df or 0.0))
    return NormalLaw.of(sd, kind.weights or (1.0,), kind.centres or (0.0,))


def factor_law(kind: FactorKind, n: int) -> EntryLaw:
    """The law of a step's factor, with mean one, for n entries: normal, two normals, lognormal or uniform twice."""
    if kind.name == "split":
        return SplitLaw(np.full(n, kind.least), np.full(n, kind.most))
    if kind.name == "lognormal":
        return LognormalLaw(np.full(n, kind.sd))
    centres = np.array([1.0] if kind.away == 0 else [1.0 - kind.away, 1.0 + kind.away])
    sds = np.full((len(centres), n), kind.sd)
    return NormalLaw(np.full(len(centres), 1.0 / len(centres)), np.repeat(centres[:, None], n, axis=1), sds)


def log_ndtr_between(a: Values, b: Values, width: Values, math: Mathematics) -> Values:
    """log(Phi(b) - Phi(a)) for finite a < b, width = b - a known better than their difference."""
    # On the left of zero both probabilities are small, and their difference keeps its digits.
    a, b = math.where(a + b > 0, -b, a), math.where(a + b > 0, -a, b)
    narrow = width * (1.0 + math.abs(a)) < 1.0
    half = math.where(narrow, width / 2, 0.0)
    middle = a + half
    node, weight = legendre_for(half)
    step = half * node
    inside = math.sum(weight / 2 * math.exp(-step * (middle + step / 2)), axis=0)
    close = -0.5 * middle * middle - LOG_ROOT_2PI + math.log(math.maximum(width, TINY)) + math.log(inside)
    upper = math.maximum(math.log_ndtr(b), -1e300)
    gap = math.where(narrow, -1.0, math.log_ndtr(a) - upper)
    return math.where(narrow, close, upper + math.log(-math.expm1(gap)))
