"""Losses whose estimate is a distribution or an interval."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ..checks import as_float_array, check_number, checked
from ..errors import InputError, UnsupportedError
from ..protocols import Array, Posterior, Value
from .base import BayesLoss, Componentwise, Weights, check_weights


@dataclasses.dataclass(frozen=True, repr=False)
class LogScore(BayesLoss):
    """-log e(theta), where the estimate e is a distribution: the posterior. U is its Shannon entropy, in nats.

    On a continuum the entropy is differential and may be negative. If estimates are restricted to the target's
    values they are point masses: U is infinite unless the posterior is one too, then zero.

    Examples
    --------
    >>> from ruvdecision.posteriors import Finite
    >>> float(LogScore().uncertainty(Finite([0.0, 1.0], [0.5, 0.5])).value.round(9))
    0.693147181
    """

    words = "the log score"
    unit = "nats"
    needs_density = True

    def __call__(self, estimate: Any, truth: ArrayLike, *, vector: bool | None = None) -> Array:
        """Minus the log density at ``truth`` of a posterior, a density function, or a value (a point mass)."""
        if hasattr(estimate, "log_density"):
            return np.asarray(-estimate.log_density(truth))
        if callable(estimate):
            with np.errstate(divide="ignore"):
                return -np.log(np.asarray(estimate(truth), dtype=np.float64))
        return self.cost(as_float_array("estimate", estimate), as_float_array("truth", truth), bool(vector))

    def cost(self, estimate: ArrayLike, truth: ArrayLike, vector: bool) -> Array:
        same = np.asarray(estimate) == np.asarray(truth)
        return np.where(same.all(axis=-1) if vector else same, 0.0, np.inf)

    def best(self, posterior: Posterior) -> Posterior:
        return posterior

    def unrestricted_uncertainty(self, posterior: Posterior) -> Value:
        return posterior.entropy()

    def expected(self, posterior: Posterior, estimate: ArrayLike) -> Value:
        """Of a point mass: infinite unless the posterior is the same one."""
        return Value.exact(np.where(posterior.outside(estimate, 0.0).value > 0, np.inf, 0.0))

    def table(self, posterior: Posterior, actions: Array) -> Array:
        # Where every point mass costs infinity, the most probable is the one to name.
        return posterior.outside(actions, 0.0).value


@dataclasses.dataclass(frozen=True, repr=False)
class KullbackLeibler(BayesLoss):
    """The loss of Trottini and Fienberg's eq. 10, for targets that are distributions over a finite set.

    The loss is the cross-entropy -sum theta_i log e_i; the estimate is E theta and U = H(E theta). Without the entropy
    term it is the divergence KL(theta | e), and U = H(E theta) - E H(theta), the mutual information. A finite
    set of plain values stands for point masses on them: then U is the entropy of the posterior, as for `LogScore`.

    Parameters
    ----------
    entropy : bool, default True
        Whether the loss keeps the entropy of theta, as eq. 10 does.

    Examples
    --------
    >>> from ruvdecision.posteriors import Finite
    >>> mixed = Finite([[0.5, 0.5], [1.0, 0.0]], [0.5, 0.5])
    >>> float(KullbackLeibler().uncertainty(mixed).value.round(6))
    0.562335
    """

    unit = "nats"
    location_free = False

    entropy: bool = True

    def __call__(self, estimate: ArrayLike, truth: ArrayLike, *, vector: bool | None = None) -> Array:
        return self.cost(as_float_array("estimate", estimate), as_float_array("truth", truth), True)

    def cost(self, estimate: ArrayLike, truth: ArrayLike, vector: bool) -> Array:
        estimate, truth = _check_distributions(estimate, "The estimate"), _check_distributions(truth, "The target")
        if self.entropy:
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = np.where(truth > 0, -truth * np.log(estimate), 0.0)
            return np.asarray(np.sum(terms, axis=-1))
        return np.asarray(np.sum(special.rel_entr(truth, estimate), axis=-1))

    def best(self, posterior: Posterior) -> Posterior | Array:
        return posterior if _target_is_label(posterior) else posterior.mean()

    def unrestricted_uncertainty(self, posterior: Posterior) -> Value:
        if _target_is_label(posterior):
            return posterior.entropy()
        return self.expected(posterior, posterior.mean())

    def expected(self, posterior: Posterior, estimate: ArrayLike) -> Value:
        if _target_is_label(posterior):
            return LogScore().expected(posterior, estimate)
        return super().expected(posterior, estimate)

    def table(self, posterior: Posterior, actions: Array) -> Array:
        return (
            LogScore().table(posterior, actions) if _target_is_label(posterior) else super().table(posterior, actions)
        )

    def phrase(self) -> str:
        return "the Kullback-Leibler loss" if self.entropy else "the Kullback-Leibler divergence"


@dataclasses.dataclass(frozen=True, repr=False)
class CRPS(Componentwise):
    """Continuous ranked probability score E |theta' - theta| - E |theta' - theta''| / 2, summed over components.

    The estimate is the posterior and U = E |theta - theta'| / 2; s / sqrt(pi) for a normal. Estimates that are
    restricted to values are point masses, for which the score is |e - theta|. U is in the target's units. For vectors
    of draws the error is the sum of the components' errors, an upper bound.
    """

    words = "the continuous ranked probability score"
    unit = "units"
    weights: Weights = checked(1.0, check_weights)

    def __call__(self, estimate: Any, truth: ArrayLike, *, vector: bool | None = None) -> Array:
        """Score of a posterior, or of a value (a point mass), when the target is ``truth``."""
        if not hasattr(estimate, "mean_difference"):
            return super().__call__(estimate, truth, vector=vector)
        parts = estimate.power(as_float_array("truth", truth), 1.0).value - 0.5 * estimate.mean_difference().value
        return self.total(parts, estimate.event)

    def each(self, estimate: Array, truth: Array) -> Array:
        return np.abs(estimate - truth)

    def parts(self, posterior: Posterior, estimate: Array) -> Value:
        return posterior.power(estimate, 1.0)

    def best(self, posterior: Posterior) -> Posterior:
        return posterior

    def unrestricted_uncertainty(self, posterior: Posterior) -> Value:
        value, error = (0.5 * self.total(part, posterior.event) for part in posterior.mean_difference())
        return Value(np.asarray(value), np.asarray(error))


@dataclasses.dataclass(frozen=True, repr=False)
class IntervalScore(Componentwise):
    """Score of an interval (l, u) at coverage 1 - alpha: u - l + (2/alpha) times what sticks out, summed.

    The estimate is the pair of quantiles alpha/2 and 1 - alpha/2, shape ``batch + event + (2,)``; U = 4 s phi(z) /
    alpha for a normal. Actions restrict the ends of the interval to the listed values.

    Parameters
    ----------
    level : float, default 0.9
        The coverage 1 - alpha.
    """

    words = "the interval score at level {0.level:.10g}"
    unit = "units"
    level: float = checked(0.9, check_number, low=0.0, high=1.0, open_low=True, open_high=True)
    weights: Weights = checked(1.0, check_weights)

    def cost(self, estimate: ArrayLike, truth: ArrayLike, vector: bool) -> Array:
        if np.shape(estimate)[-1:] != (2,):
            do = "Give (lower, upper) along the last axis"
            raise InputError("The estimate must be an interval", f"shape {np.shape(estimate)}", do)
        return super().cost(estimate, truth, vector)

    def each(self, estimate: Array, truth: Array) -> Array:
        low, high = estimate[..., 0], estimate[..., 1]
        beyond = np.maximum(low - truth, 0.0) + np.maximum(truth - high, 0.0)
        return np.asarray((high - low) + 2 / (1 - self.level) * beyond)

    def parts(self, posterior: Posterior, estimate: Array) -> Value:
        low, high = estimate[..., 0], estimate[..., 1]
        below, above = posterior.lower_partial_moment(low), posterior.upper_partial_moment(high)
        steep = 2 / (1 - self.level)
        return Value((high - low) + steep * (below.value + above.value), steep * (below.error + above.error))

    def expected(self, posterior: Posterior, estimate: ArrayLike) -> Value:
        estimate = np.asarray(estimate, dtype=np.float64)
        parts = self.parts(posterior, estimate)
        if not np.any(parts.error):
            return Value.exact(self.total(parts.value, posterior.event))
        vector = bool(posterior.event)
        return posterior.expect(lambda theta: self.cost(estimate, theta, vector), at=np.moveaxis(estimate, -1, 0))

    def best(self, posterior: Posterior) -> Array:
        tail = 0.5 * (1 - self.level)
        low, centre = posterior.quantile(tail), posterior.centre
        # 1 - tail loses digits for levels near one, and at last rounds to one, whose quantile may be infinite.
        high = posterior.upper_quantile(tail) if centre is None else centre + (centre - low)
        return np.stack([low, high], axis=-1)

    def choose(self, posterior: Posterior, listed: Array) -> Array:
        """The best interval whose ends are listed values, each component apart."""
        steep = 2 / (1 - self.level)
        ends = np.sort(listed, axis=0).reshape((len(listed),) + (1,) * len(posterior.batch) + posterior.event)
        left = -ends + steep * posterior.lower_partial_moment(ends).value
        right = ends + steep * posterior.upper_partial_moment(ends).value
        # The score splits into a lower and an upper part; the lower end must not pass the upper one.
        floor = np.minimum.accumulate(left, axis=0)
        pick_high = np.argmin(floor + right, axis=0)
        reached = np.take_along_axis(floor, pick_high[None], axis=0)
        pick_low = np.argmax(left <= reached, axis=0)
        shape = posterior.batch + posterior.event
        full = np.broadcast_to(ends, (len(ends), *shape))
        pair = [np.take_along_axis(full, pick[None], axis=0)[0] for pick in (pick_low, pick_high)]
        return np.stack(pair, axis=-1)


def _check_distributions(values: ArrayLike, who: str) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if not _is_distribution(array):
        raise UnsupportedError(
            f"{who} of KullbackLeibler must be a distribution over a finite set",
            f"values of shape {array.shape} that are not probabilities" if array.ndim else "a number",
            "Use LogScore() for numbers; KullbackLeibler is for targets that are probability vectors",
        )
    return array


def _is_distribution(array: Array) -> bool:
    return bool(array.ndim and (array >= -1e-12).all() and np.all(np.abs(array.sum(axis=-1) - 1) <= 1e-9))


def _target_is_label(posterior: Posterior) -> bool:
    """Whether the target is a plain value of a finite set, rather than a distribution."""
    support = posterior.support
    if support is not None:
        return not posterior.event or not _is_distribution(support)
    if not posterior.event:
        what = "KullbackLeibler needs targets that are distributions or values of a finite set"
        raise UnsupportedError(what, "numbers on a continuum", "Use LogScore() for numbers")
    return False
