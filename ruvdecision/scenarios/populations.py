"""Percentile and extreme scenarios for any continuous population and any noise, by numerical convolution.

The record X has a frozen scipy.stats law; the release is Y = X + e, with the noise e a scipy.stats law that is centred
and scaled to the wanted variance. Nothing is assumed about either but a density. Each result is an integral of tail
probabilities, which are positive, so small errors stay small. Accuracy is about 1e-8 for smooth laws and 1e-5 for noise
with corners (a uniform one).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats
from scipy.stats.distributions import rv_frozen

from ..checks import check_integer, check_number
from ..errors import InputError
from ..numerics.counts import binomial_exceeds
from ..numerics.orderstatistics import order_law
from ..numerics.quadrature import gauss_legendre
from ..numerics.roots import brent_root
from ..protocols import Array

_TINY = 1e-17  # tails below this are nothing
_INNER, _INNER_WEIGHTS = gauss_legendre(6)
_OUTER, _OUTER_WEIGHTS = gauss_legendre(10)


def is_normal(law: rv_frozen) -> bool:
    """Whether a frozen law of scipy.stats is a normal one."""
    return getattr(getattr(law, "dist", None), "name", "") == "norm"


def check_law(name: str, law: rv_frozen) -> rv_frozen:
    """Return a frozen continuous scipy.stats law with a finite variance."""
    if not all(hasattr(law, f) for f in ("cdf", "sf", "pdf", "ppf", "isf", "support")):
        do = "Use scipy.stats.gamma(2, scale=3), for example"
        raise InputError(f"{name} must be a frozen continuous scipy.stats law", law, do)
    if not np.isfinite(law.var()) or law.var() <= 0:
        do = "Use a law with lighter tails, such as scipy.stats.t(5)"
        raise InputError(f"{name} must have a finite, positive variance", float(law.var()), do)
    return law


@dataclass(frozen=True, eq=False)
class Masked:
    """A population with noise added: X, e with the given variance, and Y = X + e.

    Examples
    --------
    >>> masked = Masked(stats.expon(), noise_variance=0.5)
    >>> round(float(masked.order_statistic_mse(1, 1)), 8)  # one record: the noise alone
    0.5
    """

    population: rv_frozen
    noise_variance: float
    noise: rv_frozen | None = None

    def __post_init__(self) -> None:
        check_law("population", self.population)
        object.__setattr__(self, "noise", check_law("noise", stats.norm() if self.noise is None else self.noise))
        object.__setattr__(self, "noise_variance", check_number("noise_variance", self.noise_variance, low=0))

    # -- one released record -----------------------------------------------------------------------------

    def cdf(self, y: ArrayLike) -> Array:
        """P(Y <= y)."""
        return self._released_probability(y, upper=False)

    def sf(self, y: ArrayLike) -> Array:
        """P(Y > y), with its own digits in the upper tail."""
        return self._released_probability(y, upper=True)

    def pdf(self, y: ArrayLike) -> Array:
        """Density of Y."""
        flat = np.atleast_1d(np.asarray(y, dtype=np.float64)).ravel()
        if self.noise_variance == 0:
            return np.asarray(self.population.pdf(y))
        e = self._scaled_noise
        x = self._split_point(flat)
        down, weight_down = self._records_on_side(x, -1)
        up, weight_up = self._records_on_side(x, 1)
        c = (flat - x)[:, None]
        density = self.population.cdf(x) * np.sum(weight_down * e.pdf(c + down), axis=1)
        density += self.population.sf(x) * np.sum(weight_up * e.pdf(c - up), axis=1)
        return np.asarray(density.reshape(np.shape(y)))

    def quantile(self, p: float) -> float:
        """The p-th percentile of Y."""
        p = check_number("p", p, low=0, high=1, open_low=True, open_high=True)
        start = float(self.population.ppf(p))
        if self.noise_variance == 0:
            return start
        step = float(np.sqrt(self.population.var() + self.noise_variance))

        def gap(y: float) -> float:
            return float(self.cdf(y)) - p if p <= 0.5 else (1 - p) - float(self.sf(y))

        low, high = start - step, start + step
        while gap(low) > 0 or gap(high) < 0:  # twice as far each time: at infinity it ends
            low, high = 2 * low - start, 2 * high - start
        return brent_root(gap, low, high, absolute=1e-13 * step, relative=1e-14)

    # -- snoopers ------------------------------------------------------------------------------------------

    def asymptotic_percentile_mse(self, n: int, p: float, target: float | None = None) -> float:
        """Eq. 5 of Duncan et al. (2001), or eq. 6 for a sample percentile of value ``target``; large n."""
        place = self.quantile(p)
        target = float(self.population.ppf(p)) if target is None else target
        return float(p * (1 - p) / (n * float(self.pdf(place)) ** 2) + (place - target) ** 2)

    def population_percentile_mse(self, n: int, p: float, rank: int) -> float:
        """E (Y_(r) - xi_p)^2, exact for the n at hand."""
        rank = check_integer("rank", rank, low=1, high=check_integer("n", n, low=1))
        centre = float(self.population.ppf(p))
        scale = float(np.sqrt(self.population.var() + self.noise_variance))
        above = _second_moment(lambda c: special.betainc(n - rank + 1, rank, self.sf(centre + c)), scale)
        return above + _second_moment(lambda c: special.betainc(rank, n - rank + 1, self.cdf(centre - c)), scale)

    def order_statistic_mse(self, n: int, rank: int) -> float:
        """E (X_(r) - Y_(r))^2, exact, from the joint law of both."""
        rank = check_integer("rank", rank, low=1, high=check_integer("n", n, low=1))
        z, weight, _ = order_law(n, rank, 121)
        keep = weight > 1e-13
        z, weight = z[keep], weight[keep]
        x = np.where(z < 0, self.population.ppf(special.ndtr(z)), self.population.isf(special.ndtr(-z)))
        return float(weight @ self._mse_given_value(n, rank, x, z))

    def given_value(self, n: int, rank: int, value: ArrayLike) -> Array:
        """E (X_(r) - Y_(r))^2 given that X_(r) has this value (or each of these).

        Given X_(r) = x there are r - 1 independent records below x and n - r above. Y_(r) exceeds b if at least as
        many of the lower ones rise above b as higher ones (and x itself) end below it: two binomial counts.
        """
        rank = check_integer("rank", rank, low=1, high=check_integer("n", n, low=1))
        x = np.atleast_1d(np.asarray(value, dtype=np.float64))
        low, high = self.population.support()
        if np.any(x <= low) or np.any(x >= high):
            what = f"The value of a record must lie in the population's support ({low:g}, {high:g})"
            do = "Check tau and population"
            raise InputError(what, f"{int(np.sum((x <= low) | (x >= high)))} of {x.size} outside", do)
        return self._mse_given_value(n, rank, x)

    def _mse_given_value(self, n: int, rank: int, x: Array, score: Array | None = None) -> Array:
        """As `given_value`; the normal scores of x, where known, tell apart values that are rounded to one number."""
        if self.noise_variance == 0:
            return np.zeros_like(x)
        down = self._records_on_side(x, -1, score) if rank > 1 else None
        up = self._records_on_side(x, 1, None if score is None else -score) if rank < n else None
        e = self._scaled_noise
        total = np.zeros_like(x)
        for sign in (1.0, -1.0):
            edges = _noise_panel_edges(e.unit, e.high if sign > 0 else -e.low)
            c = sign * _points_of_panels(edges, _OUTER)
            # Chances that a lower record rises above x + c, that a higher one falls below it, and of x's own noise.
            rise = np.zeros((len(x), c.size)) if down is None else _crossing_chance(e.sf, c, *down, 1.0)
            fall = np.zeros((len(x), c.size)) if up is None else _crossing_chance(e.cdf, c, *up, -1.0)
            total += self._tail_sum(n, rank, sign, edges, rise, fall)
        return total

    def _tail_sum(self, n: int, rank: int, sign: float, edges: Array, rise: Array, fall: Array) -> Array:
        """Integral of 2 |c| P(Y_(r) beyond x + c); chances are interpolated while panels are halved."""
        e = self._scaled_noise
        lower, higher = rank - 1, n - rank
        shape = (len(rise), len(edges) - 1, len(_OUTER))
        total, change = np.zeros(len(rise)), np.inf
        for halvings in range(7):
            fine = _interpolation_matrix(halvings)
            r, f = (np.clip(chance.reshape(shape) @ fine.T, 0.0, 1.0).reshape(len(rise), -1) for chance in (rise, fall))
            c = _points_of_panels(edges, np.asarray(_subnodes(halvings)))
            w = (np.diff(edges)[:, None] / 2 * np.tile(_OUTER_WEIGHTS, 2**halvings) / 2**halvings).ravel()
            stay, move = e.cdf(sign * c), e.sf(sign * c)
            if sign > 0:
                tail = move * binomial_exceeds(lower, r, higher, f, 0) + stay * binomial_exceeds(lower, r, higher, f, 1)
            else:
                tail = stay * binomial_exceeds(higher, f, lower, r, 0) + move * binomial_exceeds(higher, f, lower, r, 1)
            previous, total = total, np.asarray((tail * (2 * c * w)).sum(axis=1))
            before, change = change, float(np.max(np.abs(total - previous)) / max(float(total.max()), 1e-300))
            # Done, or held up by a corner in the noise, which halving mends only slowly.
            if change <= 1e-9 or (halvings > 1 and change < 1e-5 and change > before / 6):
                break
        return total

    # -- convolution -----------------------------------------------------------------------------------------

    @property
    def _scaled_noise(self) -> _Noise:
        return _Noise.of(self.noise, self.noise_variance)

    def _released_probability(self, y: ArrayLike, upper: bool) -> Array:
        if self.noise_variance == 0:
            return np.asarray(self.population.sf(y) if upper else self.population.cdf(y))
        flat = np.atleast_1d(np.asarray(y, dtype=np.float64)).ravel()
        e = self._scaled_noise
        x = self._split_point(flat)
        c = (flat - x)[:, None]
        down, weight_down = self._records_on_side(x, -1)
        up, weight_up = self._records_on_side(x, 1)
        rise = np.clip(np.sum(weight_down * e.sf(c + down), axis=1), 0, 1)
        fall = np.clip(np.sum(weight_up * e.cdf(c - up), axis=1), 0, 1)
        # Beyond the population's range the part on the far side of y is empty; its rounding must not stay.
        below = np.where(flat < x, 0.0, self.population.cdf(x))
        above = np.where(flat > x, 0.0, self.population.sf(x))
        result = below * rise + above * (1 - fall) if upper else below * (1 - rise) + above * fall
        return np.asarray(result.reshape(np.shape(y)))

    def _split_point(self, y: Array) -> Array:
        """The value of X at which to split: y itself, or the end of the population's range."""
        return np.clip(y, float(self.population.ppf(1e-17)), float(self.population.isf(1e-17)))

    def _records_on_side(self, x: Array, sign: int, start: Array | None = None) -> tuple[Array, Array]:
        """Distances from x of records on one side, with the weights of their law given that side.

        Nodes lie in panels of the normal score of X, so that singular densities and heavy tails do no harm. A
        panel spans at most half a score and about one noise sd (more where it is far from x), so that both
        the population and the noise are smooth on it. ``start`` is the score of x on this side, if it is known.
        """
        law, e = self.population, self._scaled_noise
        to_score = (
            (lambda u: _normal_score(law.cdf(u), law.sf(u)))
            if sign < 0
            else (lambda u: _normal_score(law.sf(u), law.cdf(u)))
        )
        if start is None:
            start = to_score(x)
        end = -np.sqrt(np.minimum(start, 0.0) ** 2 + 80.0)
        reach = e.high - e.low
        edges, score, distance = [start], start, np.zeros_like(x)
        while np.any((score > end) & (distance < reach)) and len(edges) < 400:
            ahead = distance + 0.8 * e.unit * (1 + distance / (12 * e.unit))
            score = np.maximum(np.maximum(to_score(x + sign * ahead), score - 0.5), end)
            # Nothing beyond the reach of the noise can cross: panels of no width from there on.
            score = np.where(distance < reach, score, edges[-1])
            edges.append(score)
            distance = np.maximum(np.abs(self._from_score(score, sign) - x), distance)
        z = np.stack(edges, axis=1)
        half = (z[:, :-1] - z[:, 1:]) / 2
        nodes = ((z[:, :-1] + z[:, 1:]) / 2)[..., None] + half[..., None] * _INNER
        density = np.exp(-(nodes**2) / 2 - special.log_ndtr(start)[:, None, None])
        weight = half[..., None] * _INNER_WEIGHTS * density / np.sqrt(2 * np.pi)
        nodes, weight = nodes.reshape(len(x), -1), weight.reshape(len(x), -1)
        return np.abs(self._from_score(nodes, sign) - x[:, None]), weight

    def _from_score(self, z: Array, sign: int) -> Array:
        """The value of X whose lower (upper) tail is Phi(z)."""
        law, result, low = self.population, np.empty(z.shape), z < 0
        near, far = (law.ppf, law.isf) if sign < 0 else (law.isf, law.ppf)
        result[low] = near(special.ndtr(z[low]))
        result[~low] = far(special.ndtr(-z[~low]))
        return result


# -- helpers -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Noise:
    """A law that is centred and scaled to a variance, with the interval outside of which nothing is left."""

    law: rv_frozen
    centre: float
    scale: float
    unit: float
    low: float
    high: float

    @classmethod
    def of(cls, law: rv_frozen, variance: float) -> _Noise:
        centre, unit = float(law.mean()), float(np.sqrt(variance))
        scale = unit / float(law.std())
        low, high = ((float(end(_TINY)) - centre) * scale for end in (law.ppf, law.isf))
        return cls(law, centre, scale, unit, low, high)

    @property
    def normal(self) -> bool:
        return is_normal(self.law)

    def cdf(self, e: Array) -> Array:
        # scipy's argument checks cost more than the normal function itself.
        return np.asarray(special.ndtr(e / self.unit) if self.normal else self.law.cdf(self.centre + e / self.scale))

    def sf(self, e: Array) -> Array:
        return np.asarray(special.ndtr(-e / self.unit) if self.normal else self.law.sf(self.centre + e / self.scale))

    def pdf(self, e: Array) -> Array:
        return np.asarray(self.law.pdf(self.centre + e / self.scale) / self.scale)


def _normal_score(below: Array, above: Array) -> Array:
    return np.asarray(np.clip(np.where(below < 0.5, special.ndtri(below), -special.ndtri(above)), -40.0, 40.0))


def _crossing_chance(chance: Callable[[Array], Array], c: Array, distance: Array, weight: Array, sign: float) -> Array:
    """Average over records of the chance that the noise carries them across x + c."""
    result = np.empty((len(distance), c.size))
    for i, (d, w) in enumerate(zip(distance, weight, strict=True)):
        used = w > 0
        result[i] = chance(c[:, None] + sign * d[used]) @ w[used]
    return np.clip(result, 0.0, 1.0)


def _noise_panel_edges(unit: float, reach: float) -> Array:
    """Panel edges from zero to the reach of the noise: even near zero, growing far out."""
    edges = [0.0]
    while edges[-1] < reach:
        edges.append(edges[-1] + unit * max(0.8, 0.3 * edges[-1] / unit - 1.6))
    return np.array([*edges[:-1], max(reach, edges[-2] * (1 + 1e-9))]) if len(edges) > 1 else np.array([0.0, unit])


def _points_of_panels(edges: Array, nodes: Array) -> Array:
    return np.asarray((edges[:-1, None] + np.diff(edges)[:, None] * (nodes + 1) / 2).ravel())


def _subnodes(halvings: int) -> Array:
    """The outer nodes repeated on 2^halvings equal parts of [-1, 1]."""
    parts = 2**halvings
    return np.asarray((((np.arange(parts)[:, None] + (_OUTER + 1) / 2) / parts) * 2 - 1).ravel())


def _interpolation_matrix(halvings: int) -> Array:
    """Matrix that interpolates values at the outer nodes to `_subnodes`."""
    degree = len(_OUTER) - 1
    here = np.polynomial.legendre.legvander(_OUTER, degree)
    return np.asarray(np.polynomial.legendre.legvander(_subnodes(halvings), degree) @ np.linalg.inv(here))


def _second_moment(tail: Callable[[Array], Array], scale: float) -> float:
    """Integral of 2 c tail(c) over c > 0; the tail falls in c."""
    powers = scale * 2.0 ** np.arange(-8.0, 80.0)
    size = powers**2 * tail(powers)
    alive = np.flatnonzero(size > 1e-14 * size.max())
    if alive.size == 0:
        return 0.0
    if alive[-1] + 1 >= len(powers):
        what, do = "The order statistic must have a finite variance", "Use a population with lighter tails"
        raise InputError(what, "tails that do not die out", do)
    edges = np.concatenate([[0.0], powers[: alive[-1] + 2]])
    total, change = 0.0, np.inf
    for halvings in range(9):
        c = _points_of_panels(edges, _OUTER)
        weights = (np.diff(edges)[:, None] / 2 * _OUTER_WEIGHTS).ravel()
        previous, total = total, float(np.sum(weights * 2 * c * tail(c)))
        before, change = change, abs(total - previous) / total
        if change <= 1e-10 or (halvings > 1 and change < 1e-7 and change > before / 6):
            break
        edges = np.sort(np.concatenate([edges, (edges[1:] + edges[:-1]) / 2]))
    return total
