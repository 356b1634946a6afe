"""A posterior on a finite set of values: every loss is an exact sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from ..checks import as_float_array, check_finite, check_probabilities
from ..errors import InputError
from ..protocols import Array, Value
from . import normal
from .gaussian import _shaped
from .shapes import as_weight_matrix, check_level, check_width
from .windows import best_box, best_window

__all__ = ["Finite"]

_BLOCK = 4_000_000


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Finite:
    """A batch of posteriors on one finite set, Trottini and Fienberg's own setting (2002, section 3).

    Parameters
    ----------
    values : array, ``(states,)`` or ``(states, k)``
        The values that the target can take. Values that occur twice are one value.
    probabilities : array, ``batch + (states,)``
        Their probabilities, each row summing to one.

    Where several estimates are equally good, the lowest is given (for vectors the first in lexicographic order).

    Examples
    --------
    >>> Finite([0.0, 1.0, 2.0, 5.0], [0.1, 0.35, 0.3, 0.25]).quadratic().value
    array(2.96)
    """

    values: Array
    probabilities: Array
    event: tuple[int, ...]
    batch: tuple[int, ...]

    def __init__(self, values: Any, probabilities: Any) -> None:
        values = check_finite("values", as_float_array("values", values))
        if values.ndim not in (1, 2) or 0 in values.shape:
            raise InputError(
                "values must have shape (states,) or (states, k)", f"shape {values.shape}", "Give one value per state"
            )
        array = as_float_array("probabilities", probabilities)
        if array.ndim == 0:
            raise InputError(
                f"probabilities must have {len(values)} entries", "one number", "Give one probability per value"
            )
        chances = check_probabilities("probabilities", array, len(values))
        self._fill(values, chances)

    def _fill(self, values: Array, chances: Array) -> None:
        for name, thing in (
            ("values", values),
            ("probabilities", chances),
            ("event", values.shape[1:]),
            ("batch", chances.shape[:-1]),
        ):
            object.__setattr__(self, name, thing)

    @classmethod
    def _make(cls, values: Array, chances: Array) -> Finite:
        self = object.__new__(cls)
        self._fill(values, chances)
        return self

    def __repr__(self) -> str:
        return f"Finite(states={len(self.values)}, batch={self.batch}, event={self.event})"

    # -- shape and place -----------------------------------------------------------------------------

    @property
    def support(self) -> Array:
        """The values, ``(states,) + event``."""
        return self.values

    @property
    def centre(self) -> None:
        """None: nothing is assumed about the shape."""
        return None

    def recentred(self) -> Finite:
        """Itself: sums of differences keep their digits wherever the values lie."""
        return self

    def select(self, index: Any) -> Finite:
        """The posteriors at ``index`` of the batch."""
        index = index if isinstance(index, tuple) else (index,)
        return self._make(self.values, self.probabilities[(*index, Ellipsis, slice(None))])

    # -- summaries -----------------------------------------------------------------------------------

    def mean(self) -> Array:
        return np.asarray(self.probabilities @ self.values)

    def var(self) -> Array:
        return self._average(lambda x, a: np.square(x - a), self.mean())

    def cov(self) -> Array:
        k = self.event[0] if self.event else 1
        values, mean = self.values.reshape(-1, k), self.mean().reshape(-1, k)
        chances = self.probabilities.reshape(-1, len(values))
        cov = np.empty((len(chances), k, k))
        for i, (p, m) in enumerate(zip(chances, mean, strict=True)):
            gap = values - m
            cov[i] = (gap * p[:, None]).T @ gap
        return cov.reshape(self.batch + (k, k))

    def quantile(self, q: float) -> Array:
        """The lowest value whose cumulative probability reaches q, each component apart."""
        # A cumulative sum that misses q by rounding alone has reached it.
        level = max(check_level("q", q) - 1e-13, 0.0)
        found = []
        for x, sums in self._sorted:
            reached = sums > level
            found.append(x[np.where(reached.any(axis=-1), np.argmax(reached, axis=-1), len(x) - 1)])
        return np.stack(found, axis=-1) if self.event else np.asarray(found[0])

    def upper_quantile(self, tail: float) -> Array:
        # A list ends somewhere, so that rounding to one does no harm.
        return self.quantile(1 - tail)

    def cdf(self, at: Any) -> Array:
        return self._average(lambda x, a: (x <= a).astype(np.float64), at)

    def log_density(self, at: Any) -> Array:
        """Log probability; minus infinity off the set."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._average(lambda x, a: self._all(x == a), at, joint=True)))

    def mode(self, width: Any = 0.0) -> Array:
        width = check_width(width, self.event)
        values, chances = self._merged
        if not width.any():
            top = chances >= chances.max(axis=-1, keepdims=True) * (1 - 1e-12)
            return np.asarray(values[np.argmax(top, axis=-1)])
        if not self.event:
            return best_window(values, chances, float(width))
        wide = np.broadcast_to(width, self.event)
        flat = chances.reshape(-1, len(values))
        boxes = [best_box(values[p > 0], p[p > 0], wide) for p in flat]
        return np.stack(boxes).reshape(self.batch + self.event)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        flat = self.probabilities.reshape(-1, len(self.values))
        picks = [rng.choice(len(p), size=size, p=p) for p in flat]
        return np.asarray(self.values[np.stack(picks, axis=1).reshape((size,) + self.batch)])

    # -- expectations --------------------------------------------------------------------------------

    def expect(self, f: Callable[[Array], Array], at: Any = None) -> Value:
        """E f, the exact sum; a value of probability zero counts for nothing, even where f is infinite."""
        lead = (len(self.values),) + (1,) * len(self.batch)
        theta = np.broadcast_to(self.values.reshape(lead + self.event), (len(self.values),) + self.batch + self.event)
        seen = np.moveaxis(_shaped(f(theta), theta.shape[: 1 + len(self.batch)]), 0, -1)
        return Value.exact(np.sum(self.probabilities * np.where(self.probabilities > 0, seen, 0.0), axis=-1))

    def quadratic(self, weights: Any = 1.0) -> Value:
        if np.ndim(weights) == 0:
            var = self.var()
            return Value.exact(weights * (var.sum(axis=-1) if self.event else var))
        matrix = as_weight_matrix(weights, self.event)
        return Value.exact(np.einsum("ij,...ij->...", matrix, self.cov()))

    def below(self, at: Any) -> Value:
        return Value.exact(self._average(lambda x, a: np.maximum(a - x, 0.0), at))

    def above(self, at: Any) -> Value:
        return Value.exact(self._average(lambda x, a: np.maximum(x - a, 0.0), at))

    def power(self, at: Any, p: float, *, signed: bool = False) -> Value:
        if signed:
            return Value.exact(self._average(lambda x, a: np.sign(x - a) * np.abs(x - a) ** p, at))
        unit = float(max(np.max(np.abs(self.values)), np.max(np.abs(at), initial=0.0)))
        if p * np.log10(max(unit, 1.0)) < 300:
            return Value.exact(self._average(lambda x, a: np.abs(x - a) ** p, at))
        # Powers out of reach are infinite, but not those of states that cannot be.
        share = self._average(lambda x, a: np.abs(x / unit - a / unit) ** p, at)
        with np.errstate(over="ignore", divide="ignore"):
            return Value.exact(np.exp(np.log(share) + p * np.log(unit)))

    def huber(self, at: Any, delta: float) -> Value:
        return Value.exact(self._average(lambda x, a: np.asarray(special.huber(delta, x - a), dtype=np.float64), at))

    def outside(self, at: Any, width: Any) -> Value:
        width = check_width(width, self.event)
        return Value.exact(self._average(lambda x, a: self._any(normal.farther(x, a, width)), at, joint=True))

    def log_mgf(self, t: float, *, centred: bool = False) -> Value:
        mean = self.mean()
        near = self._average(lambda x, a: _expm1_less(t * (x - a)), mean)
        # Far out the sum overflows; there the largest term is taken out first.
        top = self.quantile(1.0 if t > 0 else 0.0)
        with np.errstate(divide="ignore"):
            far = np.log(self._average(lambda x, a: np.exp(np.minimum(t * (x - a), 0.0)), top)) + t * (top - mean)
            value = np.where(t * (top - mean) > 1.0, far, np.log1p(np.minimum(near, 10.0)))
        return Value.exact(value if centred else value + t * mean)

    def spread(self) -> Value:
        """Twice the integral of F (1 - F), each component apart."""
        parts = [
            2 * np.sum(sums[..., :-1] * np.maximum(1 - sums[..., :-1], 0.0) * np.diff(x), axis=-1)
            for x, sums in self._sorted
        ]
        return Value.exact(np.stack(parts, axis=-1) if self.event else parts[0])

    def entropy(self) -> Value:
        return Value.exact(np.sum(special.entr(self._merged[1]), axis=-1))

    # -- helpers -------------------------------------------------------------------------------------

    @cached_property
    def _merged(self) -> tuple[Array, Array]:
        """Distinct values in ascending order, with their probabilities."""
        # Sorting by columns is several times faster than np.unique over rows.
        order = np.lexsort(self.values.T[::-1]) if self.event else np.argsort(self.values, kind="stable")
        values, chances = self.values[order], self.probabilities[..., order]
        fresh = values[1:] != values[:-1]
        starts = np.flatnonzero(np.concatenate([[True], fresh.any(axis=-1) if self.event else fresh]))
        if len(starts) < len(values):
            values, chances = values[starts], np.add.reduceat(chances, starts, axis=-1)
        return values, chances

    @cached_property
    def _sorted(self) -> list[tuple[Array, Array]]:
        """Sorted values and cumulative probabilities of each component."""
        columns = [self.values] if not self.event else list(self.values.T)
        orders = [np.argsort(x, kind="stable") for x in columns]
        return [(x[o], np.cumsum(self.probabilities[..., o], axis=-1)) for x, o in zip(columns, orders, strict=True)]

    def _any(self, hit: Array) -> Array:
        return np.asarray(hit.any(axis=-1) if self.event else hit, dtype=np.float64)

    def _all(self, hit: Array) -> Array:
        return np.asarray(hit.all(axis=-1) if self.event else hit, dtype=np.float64)

    def _average(self, g: Callable[[Array, Array], Array], at: Any, *, joint: bool = False) -> Array:
        """Sum over states of p g(x, at); ``at`` is broadcast against ``batch + event`` and may lead it with more axes."""
        at = np.asarray(at, dtype=np.float64)
        inner = len(self.batch) + len(self.event)
        at = at.reshape((1,) * max(0, inner - at.ndim) + at.shape)
        lead, middle = at.shape[: at.ndim - inner], at.shape[at.ndim - inner : at.ndim - len(self.event)]
        out = () if joint else self.event
        chances = self.probabilities.reshape(-1, len(self.values))
        if not len(chances):
            return np.empty(lead + self.batch + out)
        states, width = self.values[None], max(1, int(np.prod(self.event)))
        if all(n == 1 for n in middle):
            # The same points for the whole batch: one table of losses, then a matrix product.
            points = np.broadcast_to(at, lead + middle + self.event).reshape((-1,) + self.event)
            result = np.empty((len(points), len(chances)) + out)
            step = max(1, _BLOCK // (len(self.values) * width))
            for start in range(0, len(points), step):
                table = g(states, points[start : start + step, None])
                result[start : start + step] = np.moveaxis(np.tensordot(table, chances, axes=([1], [1])), -1, 1)
            return result.reshape(lead + self.batch + out)
        points = np.broadcast_to(at, lead + self.batch + self.event).reshape((-1, len(chances)) + self.event)
        result = np.empty(points.shape[:2] + out)
        step = max(1, _BLOCK // (len(self.values) * width))
        for row, ends in zip(result, points, strict=True):
            for start in range(0, len(chances), step):
                part = slice(start, start + step)
                row[part] = np.einsum("ns...,ns->n...", g(states, ends[part, None]), chances[part])
        return result.reshape(lead + self.batch + out)


def _expm1_less(u: Array) -> Array:
    """exp(u) - 1 - u without the loss of digits near zero."""
    series = np.zeros_like(u)
    small = np.clip(u, -0.3, 0.3)
    for n in range(16, 1, -1):
        series = (series + 1.0) * small / n if n > 2 else (series + 1.0) * small * small / 2
    with np.errstate(over="ignore"):
        return np.where(np.abs(u) < 0.3, series, np.expm1(np.minimum(u, 700.0)) - u)
