"""A normal posterior of a number or a vector: every loss in closed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ..checks import Index, as_float_array
from ..errors import InputError
from ..numerics.semidefinite import lower_root
from ..protocols import Array, Value
from . import normal
from .base import BasePosterior, as_kinks, as_shape, as_weight_matrix, check_level, check_width, trace_product

_POINTS = 1024


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Gaussian(BasePosterior):
    """A batch of normal posteriors.

    Parameters
    ----------
    mean : array, ``batch + (k,)``
        Means, finite.
    cov : array, ``batch + (k, k)``
        Covariances, positive semidefinite; singular ones are point masses along some direction. A diagonal
        entry may be infinite. Its leading axes are broadcast against those of ``mean``.

    A number has event ``()``: use `Gaussian.scalar`. Closed forms are those of Trottini and Fienberg
    (2002), corrected.

    Examples
    --------
    >>> Gaussian.scalar(mean=1.3, var=2.0).quadratic().value
    array(2.)
    >>> Gaussian([0.0, 0.0], [[2.0, 1.0], [1.0, 2.0]]).quadratic([1.0, 3.0]).value
    array(8.)
    """

    location: Array
    covariances: Array
    """Covariances ``(..., k, k)`` of vectors, variances of numbers."""

    def __init__(self, mean: ArrayLike, cov: ArrayLike) -> None:
        location, covariances = as_float_array("mean", mean), as_float_array("cov", cov)
        if location.ndim < 1 or covariances.ndim < 2 or covariances.shape[-2:] != location.shape[-1:] * 2:
            what = "mean must have shape batch + (k,) and cov batch + (k, k)"
            got = f"shapes {location.shape} and {covariances.shape}"
            raise InputError(what, got, "Use Gaussian.scalar(mean, var) for numbers")
        covariances = check_covariances("cov", covariances)
        self.__dict__.update(vars(self._check_moments(location, covariances, location.shape[-1:])))

    @classmethod
    def scalar(cls, mean: ArrayLike, var: ArrayLike) -> Gaussian:
        """Posteriors of numbers: means and variances of shape ``batch`` (they are broadcast)."""
        location, variances = as_float_array("mean", mean), as_float_array("var", var)
        # One pass over the array: NaN fails the comparison too.
        if not (variances >= 0).all():
            do = "A point mass has var=0, a flat law var=inf"
            raise InputError("var must be a number that is not negative", _first_bad_entry(variances), do)
        return cls._check_moments(location, variances, ())

    @classmethod
    def _check_moments(cls, location: Array, covariances: Array, event: tuple[int, ...]) -> Gaussian:
        if not np.isfinite(location).all():
            do = "A flat law has any finite mean and an infinite variance"
            raise InputError("mean must be finite", _first_bad_entry(location), do)
        lead = location.shape[:-1] if event else location.shape
        try:
            batch = np.broadcast_shapes(lead, covariances.shape[:-2] if event else covariances.shape)
        except ValueError:
            what = "The leading shapes of mean and covariance must agree"
            got = f"shapes {location.shape} and {covariances.shape}"
            raise InputError(what, got, "Give one covariance per mean, or one for all") from None
        return cls._of(location=location, covariances=covariances, event=event, batch=batch)

    # -- shape and place -----------------------------------------------------------------------------

    @property
    def centre(self) -> Array:
        """The mean."""
        return self.mean()

    def recentred(self) -> Gaussian:
        """The same covariances about zero."""
        return self._check_moments(np.broadcast_to(0.0, self.batch + self.event), self.covariances, self.event)

    def moved(self, by: Array) -> Gaussian:
        """The same covariances about means that lie ``by`` higher."""
        return self._check_moments(self.location + by, self.covariances, self.event)

    def mirrored(self) -> Gaussian:
        """The laws of minus the target."""
        return self._check_moments(-self.location, self.covariances, self.event)

    def select(self, index: Index) -> Gaussian:
        covariances = np.broadcast_to(self.covariances, self.batch + self.event * 2)
        return self._check_moments(self.mean()[index], covariances[index], self.event)

    # -- summaries -----------------------------------------------------------------------------------

    def mean(self) -> Array:
        return np.broadcast_to(self.location, self.batch + self.event)

    def var(self) -> Array:
        covariances = np.diagonal(self.covariances, axis1=-2, axis2=-1) if self.event else self.covariances
        return np.broadcast_to(covariances, self.batch + self.event)

    def cov(self) -> Array:
        covariances = self.covariances if self.event else self.covariances[..., None, None]
        return np.broadcast_to(covariances, self.batch + covariances.shape[-2:])

    def quantile(self, q: float) -> Array:
        z = special.ndtri(check_level("q", q))
        with np.errstate(invalid="ignore"):
            return np.asarray(self.mean() + np.where(self.sd == 0, 0.0, self.sd * z if z else 0.0))

    def upper_quantile(self, tail: float) -> Array:
        return np.asarray(self.mean() - (self.quantile(tail) - self.mean()))

    def cdf(self, at: ArrayLike) -> Array:
        gap, sd = np.asarray(at, dtype=np.float64) - self.location, self.sd
        with np.errstate(divide="ignore", invalid="ignore"):
            z = gap / sd
        return self._in_full_shape(special.ndtr(np.where(sd == 0, np.where(gap >= 0, np.inf, -np.inf), z)))

    def log_density(self, at: ArrayLike) -> Array:
        """Log density; on a point mass infinite at the point and minus infinite elsewhere."""
        gap = np.asarray(at, dtype=np.float64) - self.location
        covariances = self.covariances if self.event else self.covariances[..., None, None]
        gap = gap if self.event else gap[..., None]
        lower = lower_root(np.where(np.isinf(covariances), 0.0, covariances))
        return np.asarray(triangular_log_density(gap, lower, np.isinf(np.diagonal(covariances, axis1=-2, axis2=-1))))

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        z = rng.standard_normal((size,) + self.batch + self.event)
        if not np.isfinite(self.var()).all():
            what = "A law of infinite variance cannot be sampled"
            raise InputError(what, "an infinite variance", "Use a proper prior")
        if not self.event:
            return np.asarray(self.location + self.sd * z)
        return np.asarray(self.location + np.einsum("...ij,...j->...i", lower_root(self.covariances), z))

    # -- expectations --------------------------------------------------------------------------------

    def expect(self, f: Callable[[Array], Array], at: ArrayLike | None = None) -> Value:
        """E f: adaptive quadrature for numbers, scrambled Sobol points with their error for vectors.

        ``at`` may carry one more leading axis than ``batch`` to mark several kinks.
        """
        if not self.event:
            kinks = None if at is None else as_kinks(at, self.batch)
            mean, sd = self.mean(), np.broadcast_to(self.sd, self.batch)
            return normal.expectation(lambda theta: as_shape(f(theta), theta.shape), mean, sd, kinks)
        infinite = np.isinf(self.covariances)
        if infinite.any():
            hit = np.broadcast_to(infinite.any(axis=(-2, -1)), self.batch)
            wide = lambda big: np.where(infinite, big**2, self.covariances)  # noqa: E731
            return normal.diffuse_limit(
                lambda big: self._check_moments(self.location, wide(big), self.event).expect(f), hit
            )
        lower, means = lower_root(self.covariances), []
        for z in normal.sobol_points(self.event[0], _POINTS):
            z = z.reshape((_POINTS,) + (1,) * len(self.batch) + self.event)
            theta = self.location + np.einsum("...ij,...j->...i", lower, z)
            theta = np.broadcast_to(theta, (_POINTS,) + self.batch + self.event)
            means.append(np.mean(as_shape(f(theta), theta.shape[:-1]), axis=0))
        value = normal.mean_over_scrambles(means)
        point = np.broadcast_to(~np.any(self.covariances, axis=(-2, -1)), self.batch)
        return Value(value.value, np.where(point, 0.0, value.error))

    def quadratic(self, weights: ArrayLike = 1.0) -> Value:
        if not self.event and np.ndim(weights) == 0:
            return Value.exact(np.broadcast_to(np.asarray(weights) * self.covariances, self.batch))
        return Value.exact(trace_product(as_weight_matrix(weights, self.event), self.cov()))

    def lower_partial_moment(self, at: ArrayLike) -> Value:
        return self._exact_value(normal.mean_positive_part(np.asarray(at) - self.location, self.sd))

    def upper_partial_moment(self, at: ArrayLike) -> Value:
        return self._exact_value(normal.mean_positive_part(self.location - np.asarray(at), self.sd))

    def power(self, at: ArrayLike, p: float, *, signed: bool = False) -> Value:
        return self._exact_value(normal.mean_power(self.location - np.asarray(at), self.sd, p, signed=signed))

    def huber(self, at: ArrayLike, delta: float) -> Value:
        return self._exact_value(normal.mean_huber_loss(self.location - np.asarray(at), self.sd, delta))

    def outside(self, at: ArrayLike, width: ArrayLike) -> Value:
        width = check_width(width, self.event)
        if not self.event:
            return self._exact_value(normal.probability_outside(self.location - np.asarray(at), self.sd, width))
        value = normal.probability_outside_box(self.location - np.asarray(at), self.covariances, width)
        return value.broadcast_to(*np.broadcast_shapes(value.value.shape, self.batch))

    def log_mgf(self, t: float, *, centred: bool = False) -> Value:
        half = 0.5 * t**2 * self.var() if t else np.zeros(self.batch + self.event)
        return Value.exact(half if centred else t * self.location + half)

    def mean_difference(self) -> Value:
        return self._exact_value(2 * self.sd / np.sqrt(np.pi))

    def entropy(self) -> Value:
        """Half log((2 pi e)^k |V|); minus infinity where V is singular, infinite where a variance is."""
        one = 1 + np.log(2 * np.pi)
        with np.errstate(divide="ignore"):
            if not self.event:
                return self._exact_value(0.5 * (one + np.log(self.covariances)))
            infinite = np.isinf(self.covariances)
            lower = lower_root(np.where(infinite, np.eye(self.event[0]), self.covariances))
            logs = np.sum(np.log(np.diagonal(lower, axis1=-2, axis2=-1)), axis=-1)
        logs = np.where(infinite.any(axis=(-2, -1)) & (logs > -np.inf), np.inf, logs)
        return Value.exact(np.broadcast_to(0.5 * self.event[0] * one + logs, self.batch))

    # -- helpers -------------------------------------------------------------------------------------

    @cached_property
    def sd(self) -> Array:
        """Standard deviations, to be broadcast to ``batch + event``."""
        variances = np.diagonal(self.covariances, axis1=-2, axis2=-1) if self.event else self.covariances
        return np.asarray(np.sqrt(variances))

    def _in_full_shape(self, value: Array) -> Array:
        return np.broadcast_to(value, np.broadcast_shapes(value.shape, self.batch + self.event))

    def _exact_value(self, value: Array) -> Value:
        return Value.exact(self._in_full_shape(value))


def check_covariances(name: str, covariances: Array) -> Array:
    """Return a stack of covariance matrices if all are symmetric, semidefinite and not NaN."""
    k = covariances.shape[-1]
    diagonal = np.diagonal(covariances, axis1=-2, axis2=-1)
    if not (diagonal >= 0).all():
        raise InputError(
            f"{name} must have no negative or missing variance", _first_bad_entry(diagonal), "Check its diagonal"
        )
    off = np.where(np.eye(k, dtype=bool), 0.0, covariances)
    if not np.isfinite(off).all():
        do = "Only variances, on the diagonal, may be infinite"
        raise InputError(f"{name} must have finite covariances", _first_bad_entry(off), do)
    infinite = np.isinf(diagonal)
    root = np.sqrt(np.where((diagonal > 0) & ~infinite, diagonal, 1.0))
    # The correlation scale: units must not decide what counts as symmetric or semidefinite.
    scaled = off / (root[..., :, None] * root[..., None, :])
    scaled = np.where(infinite[..., :, None] | infinite[..., None, :], 0.0, scaled)
    if np.max(np.abs(scaled - np.swapaxes(scaled, -1, -2)), initial=0.0) > 1e-9:
        do = f"Use ({name} + {name}.T) / 2 if it should be"
        raise InputError(f"{name} must be symmetric", covariances.reshape((-1, k, k))[0].tolist(), do)
    corner = scaled + np.eye(k) * (np.where(diagonal > 0, 1.0, 0.0) + 1e-9)[..., None, :]
    try:
        np.linalg.cholesky(corner)
    except np.linalg.LinAlgError:
        lowest = float(np.min(np.linalg.eigvalsh(corner))) - 1e-9
        do = "Check signs and sizes of its covariances"
        raise InputError(f"{name} must be positive semidefinite", f"smallest eigenvalue {lowest:.3g}", do) from None
    return covariances


def triangular_log_density(gap: Array, lower: Array, infinite: NDArray[np.bool_]) -> Array:
    """Log density of N(0, L L') at ``gap``, for L that may be singular, a flat law having density zero."""
    k = gap.shape[-1]
    total = np.zeros(np.broadcast_shapes(gap.shape[:-1], lower.shape[:-2]))
    shape = total.shape
    solved = np.zeros(shape + (k,))
    missed = np.zeros(shape, dtype=bool)
    atoms = np.zeros(shape, dtype=bool)
    for j in range(k):
        root = lower[..., j, j]
        rest = gap[..., j] - np.einsum("...i,...i->...", lower[..., j, :j], solved[..., :j])
        flat = root == 0
        # The atom is hit up to rounding of the numbers that make up the gap.
        missed |= flat & ~infinite[..., j] & (np.abs(rest) > 1e-12 * np.max(np.abs(gap), axis=-1, initial=0.0))
        atoms |= flat & ~infinite[..., j]
        z = np.where(flat, 0.0, rest / np.where(flat, 1.0, root))
        solved[..., j] = z
        total = total - np.where(flat, 0.0, 0.5 * z**2 + np.log(np.where(flat, 1.0, root)) + 0.5 * np.log(2 * np.pi))
    total = np.where(np.any(infinite, axis=-1), -np.inf, total)
    total = np.where(atoms, np.inf, total)
    return np.asarray(np.where(missed, -np.inf, total))


def _first_bad_entry(array: Array) -> object:
    flat = np.ravel(array)
    bad = flat[~np.isfinite(flat) | (flat < 0)]
    return float(bad[0]) if bad.size else float(flat[0])
