"""What every loss shares: the estimate and the uncertainty, over all actions or a finite set of them.

To add a loss for numbers that sums over the components of a vector, derive from `Componentwise` and define
`each`, `parts` and `best`; for any other, derive from `BayesLoss` and define `cost`, `expected` and `best`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from ..checks import (
    WithSettings,
    as_float_array,
    check_covariance,
    check_filled,
    check_finite,
    check_number,
    show_setting,
)
from ..errors import InputError, UnsupportedError
from ..protocols import Array, Loss, Posterior, Value

Weights = float | tuple[float | tuple[float, ...], ...]
"""One weight, a tuple of weights, or a tuple of rows: plain values, so that losses compare and hash."""


Actions = str | ArrayLike | None
"""Estimates that are allowed: a list of them, "target" for the target's own values, or None for all."""


@dataclasses.dataclass(frozen=True, repr=False)
class BayesLoss(WithSettings):
    """Base of all losses: U = min over estimates of the expected loss (Trottini and Fienberg 2002, eqs 1-2).

    ``actions`` restricts the estimates. None is the natural action space, which the closed forms need;
    ``"target"`` is the target's own finite set (their step 2); an array ``(a,) + event`` lists them. Then U is the
    least expected loss over the list, never smaller than the free one; of equally good ones the lowest is given.
    """

    words = ""
    """The loss in words, its settings in braces: ``"Huber's loss with delta {0.delta:.10g}"``."""
    location_free = True
    separable = False
    """True if the loss of several records is the sum of their losses."""
    second_order = False
    """True if U is linear in the posterior covariance and depends on nothing else."""
    searches = False
    """True if the best estimate is searched for among numbers."""
    value_offset: ClassVar[Any] = None
    """How far a best estimate lies above a value that the target can take, if it always does; None if it may not."""
    grows_with_distance = False
    """True if the loss of a number grows with its distance from the truth, and is searched as such."""
    needs_density = False
    """True if U is a functional of the density, which point masses do not have."""

    @property
    def weights(self) -> Weights:
        """Weights of the components, if a loss has any: most have a field of this name."""
        return 1.0

    @property
    def measures_distance(self) -> bool:
        """Whether the loss asks how far an estimate is from the truth, which labels do not tell."""
        return False

    def adds_up(self, records: int, k: int) -> bool:
        """Whether the loss of so many records of k variables is the sum of the losses of each, all weighted alike."""
        apart = np.shape(self.weights)[:1] == (records * k,) and records > 1
        return self.separable and not apart

    @property
    def unit(self) -> str:
        """What the loss is measured in: "units" of the target, "squared units", ...; a unit of its own otherwise."""
        return f"the loss {type(self).__name__}"

    @property
    def typical_error_exponent(self) -> float | None:
        """The power that makes a typical error, in the target's unit, of an expected loss; None if there is none."""
        return None

    @property
    def error_scale(self) -> tuple[float, float] | None:
        """Weight and power: ``(U / weight) ** power`` is a typical error of the estimate, in the target's own unit.

        None for losses that are no distance, and for weights that differ between components.

        >>> from ruvdecision import Quadratic
        >>> Quadratic().error_scale
        (1.0, 0.5)
        """
        weight = self.weights
        return (
            None
            if self.typical_error_exponent is None or isinstance(weight, tuple)
            else (float(weight), self.typical_error_exponent)
        )

    # -- what a loss defines ---------------------------------------------------------------------------

    def cost(self, estimate: ArrayLike, truth: ArrayLike, vector: bool) -> Array:
        """Loss at each point; with ``vector`` the last axis holds the components of the target."""
        raise NotImplementedError

    def best(self, posterior: Posterior) -> Any:
        """The free Bayes estimate."""
        raise NotImplementedError

    def expected(self, posterior: Posterior, estimate: ArrayLike) -> Value:
        """Expected loss of a given estimate, shape ``batch``; the default asks the posterior to integrate."""
        vector = bool(posterior.event)
        estimate = np.asarray(estimate, dtype=np.float64)
        return posterior.expect(lambda theta: self.cost(estimate, theta, vector), at=estimate)

    def phrase(self) -> str:
        """The loss in words, for reports: `words` with the settings in them, unless a loss says it in its own way."""
        return self.words.format(self) or f"the loss {type(self).__name__}"

    # -- what a loss gives -----------------------------------------------------------------------------

    def __call__(self, estimate: ArrayLike, truth: ArrayLike, *, vector: bool | None = None) -> Array:
        """Loss of ``estimate`` when the target is ``truth``; the arrays broadcast.

        Numbers are compared one by one. The last axis holds the components of vectors if ``vector`` is true, which is
        the default when the weights are a vector or a matrix.
        """
        if vector is None:
            vector = np.ndim(self.weights) > 0
        return self.cost(as_float_array("estimate", estimate), as_float_array("truth", truth), vector)

    def estimate(self, posterior: Posterior, actions: Actions = None) -> Any:
        """The act with the least expected loss, ``batch + event``."""
        if actions is None:
            return self.best(posterior)
        return self.choose(posterior, self.listed(posterior, actions))

    def uncertainty(self, posterior: Posterior, actions: Actions = None) -> Value:
        """That least expected loss, shape ``batch``."""
        if actions is None:
            # Far from the origin an estimate has few digits left for its distance from the truth.
            return self.unrestricted_uncertainty(posterior.recentred() if self.location_free else posterior)
        return self.expected(posterior, self.choose(posterior, self.listed(posterior, actions)))

    def unrestricted_uncertainty(self, posterior: Posterior) -> Value:
        """Uncertainty over the natural action space."""
        return self.expected(posterior, self.best(posterior))

    # -- restricted actions ------------------------------------------------------------------------------

    def listed(self, posterior: Posterior, actions: str | ArrayLike) -> Array:
        """The allowed estimates ``(a,) + event``, distinct and in ascending order."""
        if isinstance(actions, str):
            if actions != "target":
                do = 'Use "target" for the values of the target'
                raise InputError('actions must be None, "target" or an array', actions, do)
            if posterior.support is None:
                what = "The target lies on a continuum, so it has no finite set of values"
                do = "Give the allowed estimates as an array, or leave actions out"
                raise UnsupportedError(what, 'actions="target"', do)
            array = posterior.support
        else:
            array = check_finite("actions", as_float_array("actions", actions))
        if array.ndim != 1 + len(posterior.event) or array.shape[1:] != posterior.event or len(array) == 0:
            what = f"actions must have shape (a,) + {posterior.event}"
            raise InputError(what, f"shape {array.shape}", "Give one row per allowed estimate")
        return np.unique(array, axis=0)

    def choose(self, posterior: Posterior, listed: Array) -> Array:
        """The best of the listed actions for each posterior of the batch."""
        lead = (1,) * len(posterior.batch)
        least, place = np.full(posterior.batch, np.inf), np.zeros(posterior.batch, dtype=np.intp)
        step = max(1, 200_000 // max(1, int(np.prod(posterior.batch + posterior.event))))
        for start in range(0, len(listed), step):
            block = listed[start : start + step]
            values = self.table(posterior, block.reshape((len(block),) + lead + posterior.event))
            floor = values.min(axis=0)
            # Rounding does not choose between equals: the first in order does.
            first = np.argmax(values <= floor + 1e-13 * np.abs(np.where(np.isfinite(floor), floor, 0.0)), axis=0)
            better = (start == 0) | (floor < least - 1e-13 * np.abs(np.where(np.isfinite(least), least, 0.0)))
            place, least = np.where(better, first + start, place), np.where(better, floor, least)
        return np.asarray(listed[place])

    def table(self, posterior: Posterior, actions: Array) -> Array:
        """Expected loss of each action, ``(a,) + batch``."""
        shape = posterior.batch + posterior.event
        return np.stack([self.expected(posterior, np.broadcast_to(a, shape)).value for a in actions])

    # -- words ---------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        weights = self.weights
        if weights == 1.0:
            return self.phrase()
        words = show_setting(weights)
        if len(words) > 60:
            size = len(np.atleast_1d(np.asarray(weights)))
            words = f"a {size} by {size} matrix" if np.ndim(weights) > 1 else f"{size} weights"
        return f"{self.phrase()} weighted by {words}"


@dataclasses.dataclass(frozen=True, repr=False)
class Componentwise(BayesLoss):
    """A loss that is a weighted sum over the components of a vector target, each estimated apart."""

    separable = True
    measures_distance = True

    def each(self, estimate: Array, truth: Array) -> Array:
        """Loss of one component."""
        raise NotImplementedError

    def parts(self, posterior: Posterior, estimate: Array) -> Value:
        """Expected loss of each component, ``batch + event``; leading axes of ``estimate`` stay."""
        raise NotImplementedError

    def cost(self, estimate: ArrayLike, truth: ArrayLike, vector: bool) -> Array:
        losses = self.each(np.asarray(estimate), np.asarray(truth))
        if not vector:
            return np.asarray(self.weight_vector(()) * losses)
        return np.asarray(np.sum(self.weight_vector(losses.shape[-1:]) * losses, axis=-1))

    def expected(self, posterior: Posterior, estimate: ArrayLike) -> Value:
        estimate = np.asarray(estimate, dtype=np.float64)
        parts = self.parts(posterior, estimate)
        total = self.total(parts.value, posterior.event)
        if not np.any(parts.error) or np.isinf(total).all():
            return Value.exact(total)
        # The errors of parts are correlated; their sum is one mean, whose error the posterior knows.
        vector, endless = bool(posterior.event), np.isinf(total)
        found = posterior.through(self.expected, lambda theta: self.cost(estimate, theta, vector), estimate)
        return Value(np.where(endless, total, found.value), np.where(endless, 0.0, found.error))

    def table(self, posterior: Posterior, actions: Array) -> Array:
        return self.total(self.parts(posterior, actions).value, posterior.event)

    def total(self, parts: Array, event: tuple[int, ...]) -> Array:
        """Weighted sum over components; a weight of zero counts for nothing, even where the part is infinite."""
        weights = self.weight_vector(event)
        if not event:
            return np.asarray(weights * parts)
        if np.isfinite(parts).all():
            return np.asarray(parts @ weights)
        return np.asarray(np.sum(np.where(weights > 0, parts, 0.0) * weights, axis=-1))

    def weight_vector(self, event: tuple[int, ...]) -> Array:
        """The weights as an array of shape ``event``."""
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.ndim and weights.shape != event:
            if weights.size == 1:
                return np.broadcast_to(weights.reshape(()), event)
            what = f"weights must fit a target of shape {event}"
            raise InputError(what, f"{weights.size} weights", "Give one weight, or one per component")
        return np.broadcast_to(weights, event)


def is_bayes_loss(loss: object) -> TypeGuard[BayesLoss]:
    """Whether a loss is of the package's kind, and says its cost and its expectation."""
    return isinstance(loss, BayesLoss)


def as_bayes_loss(loss: Loss) -> BayesLoss:
    """A loss of the package's kind as it is; of any other nothing is known that engines could use."""
    return loss if is_bayes_loss(loss) else BayesLoss()


def losses_at(loss: Loss, estimate: Any, truths: ArrayLike, vector: bool) -> Array:
    """Loss of an estimate at many truths; with ``vector`` their last axis holds the components of one."""
    return loss(estimate, truths, vector=True) if vector and is_bayes_loss(loss) else loss(estimate, truths)


def check_labels(loss: Loss, actions: Actions, what: str, do: str, apart: str = "", listed: str = "estimates") -> None:
    """Labels have no distances: a loss that measures them is refused, and one that would search among numbers."""
    if as_bayes_loss(loss).measures_distance:
        raise UnsupportedError(f"{loss!r} measures distances, and {apart or what}", do=do)
    if as_bayes_loss(loss).searches and actions is None:
        what = f"A loss of your own has no numbers to search among, and {what}"
        raise UnsupportedError(what, do=f'Give estimates="target", or list the {listed}')


def check_weights(name: str, weights: ArrayLike, *, matrix: bool = False) -> Weights:
    """Return one positive weight, a tuple of weights that are not all zero, or the rows of a weight matrix."""
    array = as_float_array(name, weights)
    if array.ndim == 0:
        return check_number(name, weights, low=0.0, open_low=True)
    if array.ndim == 1:
        check_filled(name, array, "Give one weight per component")
        if not (array >= 0).all() or np.isinf(array).any() or not array.any():
            what = f"{name} must be finite, not negative and not all zero"
            raise InputError(what, array.tolist(), "Give each component a weight of at least 0")
        return tuple(array.tolist())
    if array.ndim == 2 and matrix:
        array = check_covariance(name, array)
        if not array.any():
            raise InputError(f"{name} must not be all zero", array.tolist(), "Give some component a weight")
        return tuple(tuple(row) for row in array.tolist())
    what = f"{name} must be a number, a vector" + (" or a square matrix" if matrix else "")
    raise InputError(what, f"shape {array.shape}", "Give one weight per component")
