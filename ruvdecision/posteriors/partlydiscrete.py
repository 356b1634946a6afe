"""A posterior of a number that is one of a few values with a positive chance, and else has a density."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ..checks import check_number
from ..errors import InputError
from ..protocols import Array, Posterior, Value
from .base import PartwisePosterior, as_weight_matrix, check_level
from .curve import Curve
from .finite import Finite


@dataclass(frozen=True, init=False, eq=False, repr=False)
class PartlyDiscrete(PartwisePosterior):
    """A mixture of point masses and a density, such as an income that is often zero.

    A loss that needs a density has none at a point mass: the entropy is minus infinity.

    Parameters
    ----------
    discrete : Finite
        The law of the number if it is one of the values.
    continuous : Curve
        Its law if it is none.
    chance : float
        That it is one of the values.

    Examples
    --------
    >>> x = np.linspace(0, 40, 201)
    >>> law = PartlyDiscrete(Finite([0.0], [1.0]), Curve(x, -x), 0.25)
    >>> float(law.mean().round(9)), float(law.quantile(0.2)), float(law.quantile(0.625).round(9))
    (0.75, 0.0, 0.693147181)
    """

    discrete: Finite
    continuous: Curve
    chance: float

    def __init__(self, discrete: Finite, continuous: Curve, chance: float) -> None:
        for name, law, kind in (("discrete", discrete, Finite), ("continuous", continuous, Curve)):
            if not isinstance(law, kind) or law.batch or law.event:
                what = f"{name} must be one law of a number, a {kind.__name__}"
                raise InputError(what, repr(law)[:80], f"Give a {kind.__name__} without batch")
        chance = check_number("chance", chance, low=0.0, high=1.0)
        order = np.argsort(discrete.values, kind="stable")
        discrete = Finite.of(discrete.values[order], discrete.probabilities[order])
        self.__dict__.update(discrete=discrete, continuous=continuous, chance=chance)

    def __repr__(self) -> str:
        return f"PartlyDiscrete({self.discrete!r}, {self.continuous!r}, chance={self.chance:.6g})"

    # -- summaries -------------------------------------------------------------------------------------

    def mean(self) -> Array:
        return self.ask_parts(lambda law, _: Value.exact(law.mean()), 0.0).value

    def var(self) -> Array:
        return self.quadratic().value

    def quantile(self, q: float) -> Array:
        """A value where the distribution function jumps over the level, else a quantile of the density."""
        level, rest = check_level("q", q), 1 - self.chance
        values, shares = self.discrete.values, self.chance * self.discrete.probabilities
        before = np.concatenate([[0.0], np.cumsum(shares)[:-1]]) + rest * self.continuous.cdf(values)
        hit = np.flatnonzero((before < level) & (level <= before + shares + 1e-15))
        if len(hit):
            return np.asarray(values[hit[0]])
        below = shares[before + shares < level].sum()
        return self.continuous.quantile(float(np.clip((level - below) / rest, 0.0, 1.0)) if rest else level)

    def log_density(self, at: ArrayLike) -> Array:
        """Log density, infinite at a point mass that has a chance."""
        at = np.asarray(at, dtype=np.float64)
        likely = self.discrete.values[self.chance * self.discrete.probabilities > 0]
        with np.errstate(divide="ignore"):
            logs = self.continuous.log_density(at) + np.log1p(-self.chance)
        return np.where(np.isin(at, likely), np.inf, logs)

    def mode(self, width: ArrayLike = 0.0) -> Array:
        """The value of the largest chance, or the centre of the most probable window."""
        if np.any(width) or not self.chance:
            return super().mode(width)
        return self.discrete.mode()

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        drawn = self.continuous.sample(size, rng), self.discrete.sample(size, rng)
        return np.where(rng.random(size) < self.chance, drawn[1], drawn[0])

    # -- expectations ----------------------------------------------------------------------------------

    def expect(self, f: Callable[[Array], Array], at: ArrayLike | None = None) -> Value:
        return self.ask_parts(lambda law, _: law.expect(f, at), 0.0)

    def quadratic(self, weights: ArrayLike = 1.0) -> Value:
        own, error = self.continuous.quadratic()
        weight = float(as_weight_matrix(weights, ())[0, 0])
        within = self.chance * self.discrete.var() + (1 - self.chance) * own
        apart = np.where(np.isinf(own), 0.0, np.square(self.discrete.mean() - self.continuous.mean()))
        return Value(weight * (within + self.chance * (1 - self.chance) * apart), weight * (1 - self.chance) * error)

    def outside(self, at: ArrayLike, width: ArrayLike) -> Value:
        return self.ask_parts(lambda law, a: law.outside(a, width), at)

    def mean_difference(self) -> Value:
        """Of two numbers of the same kind, and of one of each."""
        values, chances = self.discrete.values, self.discrete.probabilities
        across = [
            part.value @ chances
            for part in (self.continuous.lower_partial_moment(values), self.continuous.upper_partial_moment(values))
        ]
        own, error = self.continuous.mean_difference()
        total = self.chance**2 * self.discrete.mean_difference().value + (1 - self.chance) ** 2 * own
        return Value(np.asarray(total + 2 * self.chance * (1 - self.chance) * sum(across)), error)

    def entropy(self) -> Value:
        if self.chance:
            return Value.exact(np.asarray(-np.inf))
        return self.continuous.entropy()

    # -- helpers ---------------------------------------------------------------------------------------

    def ask_parts(self, ask: Callable[[Posterior, Array], Value], at: ArrayLike, *, joint: bool = False) -> Value:
        at = np.asarray(at, dtype=np.float64)
        first, second = ask(self.discrete, at), ask(self.continuous, at)
        value = self.chance * first.value + (1 - self.chance) * second.value
        return Value(np.asarray(value), np.asarray(self.chance * first.error + (1 - self.chance) * second.error))

    def _mode_candidates(self, half_width: float) -> Array:
        # The best window may have a point mass right inside of either end.
        near = self.discrete.values[:, None] + half_width * (1 - 1e-12) * np.array([-1.0, 0.0, 1.0])
        return np.unique(np.concatenate([self.continuous._mode_candidates(half_width).ravel(), near.ravel()]))

    @cached_property
    def _location_and_scale(self) -> tuple[Array, Array]:
        return self.continuous._location_and_scale
