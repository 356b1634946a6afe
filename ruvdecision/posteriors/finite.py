"""A posterior on a finite set of values: every loss is an exact sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ..checks import Index, as_float_array, check_finite, check_probabilities
from ..errors import InputError
from ..protocols import Array, Value
from .base import (
    BLOCK,
    LEVEL,
    BasePosterior,
    Growth,
    Pairs,
    as_shape,
    as_weight_matrix,
    check_level,
    check_width,
    index_below_batch,
)
from .modes import merge_values, most_probable
from .normal import expm1_less


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Finite(BasePosterior):
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

    def __init__(self, values: ArrayLike, probabilities: ArrayLike) -> None:
        states = check_finite("values", as_float_array("values", values))
        if states.ndim not in (1, 2) or 0 in states.shape:
            what = "values must have shape (states,) or (states, k)"
            raise InputError(what, f"shape {states.shape}", "Give one value per state")
        array = as_float_array("probabilities", probabilities)
        if array.ndim == 0:
            what = f"probabilities must have {len(states)} entries"
            raise InputError(what, "one number", "Give one probability per value")
        chances = check_probabilities("probabilities", array, len(states))
        self.__dict__.update(vars(self.of(states, chances)))

    @classmethod
    def of(cls, values: Array, probabilities: Array) -> Finite:
        """The law of values and probabilities that are known to be good."""
        return cls._of(
            values=values, probabilities=probabilities, event=values.shape[1:], batch=probabilities.shape[:-1]
        )

    def __repr__(self) -> str:
        return f"Finite(states={len(self.values)}, batch={self.batch}, event={self.event})"

    # -- shape and place -----------------------------------------------------------------------------

    @property
    def support(self) -> Array:
        """The values, ``(states,) + event``."""
        return self.values

    def select(self, index: Index) -> Finite:
        return self.of(self.values, self.probabilities[index_below_batch(index)])

    def mixed(self, weights: Array) -> Finite:
        return self.of(self.values, np.einsum("...m,...ms->...s", weights, self.probabilities))

    # -- summaries -----------------------------------------------------------------------------------

    def mean(self) -> Array:
        return np.asarray(self.probabilities @ self.values)

    def var(self) -> Array:
        return self._sum_over_states(lambda x, a: np.square(x - a), self.mean())

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
        for x, sums in self._sorted_values:
            reached = sums > level
            found.append(x[np.where(reached.any(axis=-1), np.argmax(reached, axis=-1), len(x) - 1)])
        return np.stack(found, axis=-1) if self.event else np.asarray(found[0])

    def cdf(self, at: ArrayLike) -> Array:
        return self._sum_over_states(lambda x, a: (x <= a).astype(np.float64), at)

    def mode(self, width: ArrayLike = 0.0) -> Array:
        return most_probable(*self.distinct, check_width(width, self.event))

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        flat = self.probabilities.reshape(-1, len(self.values))
        picks = [rng.choice(len(p), size=size, p=p) for p in flat]
        return np.asarray(self.values[np.stack(picks, axis=1).reshape((size,) + self.batch)])

    # -- expectations --------------------------------------------------------------------------------

    def expect(self, f: Callable[[Array], Array], at: ArrayLike | None = None) -> Value:
        """E f, the exact sum; a value of probability zero counts for nothing, even where f is infinite."""
        lead = (len(self.values),) + (1,) * len(self.batch)
        theta = np.broadcast_to(self.values.reshape(lead + self.event), (len(self.values),) + self.batch + self.event)
        values = np.moveaxis(as_shape(f(theta), theta.shape[: 1 + len(self.batch)]), 0, -1)
        return Value.exact(np.sum(self.probabilities * np.where(self.probabilities > 0, values, 0.0), axis=-1))

    def expect_last(self, f: Callable[[Array], Array], at: ArrayLike | None = None) -> Value:
        if len(self.batch) > 1:
            return super().expect_last(f, at)
        values = as_shape(f(self.values), self.values.shape[:1])
        if np.isfinite(values).all():
            return Value.exact(self.probabilities @ values)
        return Value.exact(np.sum(self.probabilities * np.where(self.probabilities > 0, values, 0.0), axis=-1))

    def quadratic(self, weights: ArrayLike = 1.0) -> Value:
        if np.ndim(weights) == 0:
            var = self.var()
            return Value.exact(np.asarray(weights) * (var.sum(axis=-1) if self.event else var))
        return Value.exact(np.einsum("ij,...ij->...", as_weight_matrix(weights, self.event), self.cov()))

    def power(self, at: ArrayLike, p: float, *, signed: bool = False) -> Value:
        unit = float(max(np.max(np.abs(self.values)), np.max(np.abs(at), initial=0.0)))
        if signed or p * np.log10(max(unit, 1.0)) < 300:
            return super().power(at, p, signed=signed)
        # Powers out of reach are infinite, but not those of states that cannot be.
        share = self._sum_over_states(lambda x, a: np.abs(x / unit - a / unit) ** p, at)
        with np.errstate(over="ignore", divide="ignore"):
            return Value.exact(np.exp(np.log(share) + p * np.log(unit)))

    def log_mgf(self, t: float, *, centred: bool = False) -> Value:
        mean = self.mean()
        near = self._sum_over_states(lambda x, a: expm1_less(t * (x - a)), mean)
        # Far out the sum overflows; there the largest term is taken out first.
        top = self.quantile(1.0 if t > 0 else 0.0)
        with np.errstate(divide="ignore"):
            far = np.log(self._sum_over_states(lambda x, a: np.exp(np.minimum(t * (x - a), 0.0)), top)) + t * (
                top - mean
            )
            value = np.where(t * (top - mean) > 1.0, far, np.log1p(np.minimum(near, 10.0)))
        return Value.exact(value if centred else value + t * mean)

    def mean_difference(self) -> Value:
        """Twice the integral of F (1 - F), each component apart."""
        parts = [
            2 * np.sum(sums[..., :-1] * np.maximum(1 - sums[..., :-1], 0.0) * np.diff(x), axis=-1)
            for x, sums in self._sorted_values
        ]
        return Value.exact(np.stack(parts, axis=-1) if self.event else parts[0])

    def entropy(self) -> Value:
        return Value.exact(np.sum(special.entr(self.distinct[1]), axis=-1))

    # -- helpers -------------------------------------------------------------------------------------

    @cached_property
    def distinct(self) -> tuple[Array, Array]:
        """Distinct values in ascending order, with their probabilities."""
        return merge_values(self.values, self.probabilities)

    @cached_property
    def _sorted_values(self) -> list[tuple[Array, Array]]:
        """Sorted values and cumulative probabilities of each component."""
        columns = [self.values] if not self.event else list(self.values.T)
        orders = [np.argsort(x, kind="stable") for x in columns]
        return [(x[o], np.cumsum(self.probabilities[..., o], axis=-1)) for x, o in zip(columns, orders, strict=True)]

    def _average(
        self, g: Pairs, at: ArrayLike = 0.0, kinks: Sequence[float] = (), *, joint: bool = False, growth: Growth = LEVEL
    ) -> Value:
        return Value.exact(self._sum_over_states(g, at, joint=joint))

    def _sum_over_states(self, g: Pairs, at: ArrayLike, *, joint: bool = False) -> Array:
        """Sum over states of p g(x, at); ``at`` is broadcast to ``batch + event`` and may lead it with more axes."""
        at = np.asarray(at, dtype=np.float64)
        inner = len(self.batch) + len(self.event)
        at = at.reshape((1,) * max(0, inner - at.ndim) + at.shape)
        lead, middle = at.shape[: at.ndim - inner], at.shape[at.ndim - inner : at.ndim - len(self.event)]
        out = () if joint else self.event
        chances = self.probabilities.reshape(-1, len(self.values))
        if not len(chances):
            return np.empty(lead + self.batch + out)
        states, width = self.values[None], max(1, int(np.prod(self.event)))
        step = max(1, BLOCK // (len(self.values) * width))
        if all(n == 1 for n in middle):
            # The same points for the whole batch: one table of losses, then a matrix product.
            points = np.broadcast_to(at, lead + middle + self.event).reshape((-1,) + self.event)
            result = np.empty((len(points), len(chances)) + out)
            for start in range(0, len(points), step):
                table = np.asarray(g(states, points[start : start + step, None]), dtype=np.float64)
                result[start : start + step] = np.moveaxis(np.tensordot(table, chances, axes=([1], [1])), -1, 1)
            return result.reshape(lead + self.batch + out)
        points = np.broadcast_to(at, lead + self.batch + self.event).reshape((-1, len(chances)) + self.event)
        result = np.empty(points.shape[:2] + out)
        for row, ends in zip(result, points, strict=True):
            for start in range(0, len(chances), step):
                part = slice(start, start + step)
                table = np.asarray(g(states, ends[part, None]), dtype=np.float64)
                row[part] = np.einsum("ns...,ns->n...", table, chances[part])
        return result.reshape(lead + self.batch + out)
