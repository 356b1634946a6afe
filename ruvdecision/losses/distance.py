"""Losses of the distance between estimate and truth."""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ..checks import check_number, check_numbers, checked, show_setting
from ..errors import InputError
from ..posteriors.base import as_weight_matrix
from ..posteriors.normal import is_farther
from ..protocols import Array, Posterior, Value
from .base import BayesLoss, Componentwise, Weights, check_weights
from .search import convex_point, least_point

HIGHEST_POWER, STEEPEST = 1e6, 1e154
"""Beyond these squares and powers are no numbers any more."""


@dataclasses.dataclass(frozen=True, repr=False)
class Quadratic(BayesLoss):
    """Squared error (e - theta)' W (e - theta). The estimate is the mean and U = trace(W V).

    U is in squared units, and infinite where the variance is. Exact for every posterior that knows its covariance.
    Trottini and Fienberg (2002), example 1 and eq. 20.

    Parameters
    ----------
    weights : number, vector or matrix, default 1
        W: a number times the identity, a diagonal, or a symmetric positive semidefinite matrix.

    Examples
    --------
    >>> from ruvdecision.posteriors import Gaussian
    >>> Quadratic().uncertainty(Gaussian.scalar(mean=1.3, var=2.0)).value
    array(2.)
    """

    words = "the squared error"
    unit = "squared units"
    typical_error_exponent = 0.5
    separable = True
    second_order = True
    measures_distance = True

    weights: Weights = checked(1.0, check_weights, matrix=True)

    def cost(self, estimate: ArrayLike, truth: ArrayLike, vector: bool) -> Array:
        gap = np.asarray(estimate) - np.asarray(truth)
        if np.ndim(self.weights):
            gap = gap if vector else gap[..., None]
            matrix = as_weight_matrix(self.weights, gap.shape[-1:])
            return np.asarray(np.einsum("...i,ij,...j->...", gap, matrix, gap))
        squares = np.square(gap)
        return np.asarray(self.weights * (np.sum(squares, axis=-1) if vector else squares))

    def best(self, posterior: Posterior) -> Array:
        return posterior.mean()

    def unrestricted_uncertainty(self, posterior: Posterior) -> Value:
        return posterior.quadratic(self.weights)

    def expected(self, posterior: Posterior, estimate: ArrayLike) -> Value:
        least = posterior.quadratic(self.weights)
        if np.any(least.error):
            return super().expected(posterior, estimate)
        return Value.exact(self.table(posterior, np.asarray(estimate)))

    def table(self, posterior: Posterior, actions: Array) -> Array:
        least = posterior.quadratic(self.weights).value
        # Without a variance every estimate costs infinitely much, and there may be no mean.
        return np.where(np.isinf(least), least, least + self.cost(actions, posterior.mean(), bool(posterior.event)))


@dataclasses.dataclass(frozen=True, repr=False)
class Absolute(Componentwise):
    """Absolute error |e - theta|, summed over components. The estimate is the median; U = s sqrt(2/pi) for a normal.

    On a finite set the lowest median is given.

    Examples
    --------
    >>> from ruvdecision.posteriors import Finite
    >>> Absolute().uncertainty(Finite([0.0, 1.0, 2.0, 5.0], [0.1, 0.35, 0.3, 0.25])).value.round(12)
    np.float64(1.3)
    """

    words = "the absolute error"
    unit = "units"
    typical_error_exponent = 1.0
    value_offset = 0.0
    weights: Weights = checked(1.0, check_weights)

    def each(self, estimate: Array, truth: Array) -> Array:
        return np.abs(estimate - truth)

    def parts(self, posterior: Posterior, estimate: Array) -> Value:
        return posterior.power(estimate, 1.0)

    def best(self, posterior: Posterior) -> Array:
        return posterior.quantile(0.5)


@dataclasses.dataclass(frozen=True, repr=False)
class Power(Componentwise):
    """|e - theta|^p, summed over components; U = s^p 2^(p/2) Gamma((p+1)/2) / sqrt(pi) for a normal.

    For p > 1 the loss is convex and the estimate is found to the last digits. For p < 1 it is not: on a
    finite set the estimate is one of the values, and for mixtures and draws a global search finds it.

    Parameters
    ----------
    p : float
        Greater than zero; 1 is `Absolute`, 2 is `Quadratic`.
    """

    words = "the error to the power {0.p:.10g}"
    p: float = checked(MISSING, check_number, low=0.0, high=HIGHEST_POWER, open_low=True)
    grows_with_distance = True
    weights: Weights = checked(1.0, check_weights)

    @property
    def unit(self) -> str:
        return {1.0: "units", 2.0: "squared units"}.get(float(self.p), f"units to the power {self.p:g}")

    @property
    def typical_error_exponent(self) -> float:
        return 1.0 / self.p

    def each(self, estimate: Array, truth: Array) -> Array:
        return np.asarray(np.abs(estimate - truth) ** self.p)

    def parts(self, posterior: Posterior, estimate: Array) -> Value:
        return posterior.power(estimate, self.p)

    def best(self, posterior: Posterior) -> Array:
        if posterior.centre is not None:
            return posterior.centre
        if self.p == 1:
            return posterior.quantile(0.5)
        if self.p == 2:
            return posterior.mean()
        if self.p > 1:
            return convex_point(posterior, lambda e: -posterior.power(e, self.p - 1, signed=True).value)
        return least_point(posterior, lambda e: posterior.power(e, self.p).value)


@dataclasses.dataclass(frozen=True, repr=False)
class Huber(Componentwise):
    """Huber's loss of x = e - theta: x**2 / 2 up to ``delta``, delta |x| - delta**2 / 2 beyond, summed over components.

    Closed form for normals, Where several estimates are equally good the lowest is given.
    """

    words = "Huber's loss with delta {0.delta:.10g}"
    unit = "squared units"
    delta: float = checked(1.0, check_number, low=0.0, open_low=True)
    grows_with_distance = True
    weights: Weights = checked(1.0, check_weights)

    def each(self, estimate: Array, truth: Array) -> Array:
        return np.asarray(special.huber(self.delta, estimate - truth))

    def parts(self, posterior: Posterior, estimate: Array) -> Value:
        return posterior.huber(estimate, self.delta)

    def best(self, posterior: Posterior) -> Array:
        if posterior.centre is not None:
            return posterior.centre
        # A bend far inside or far outside the law gives the median or the mean; differences would be rounding alone.
        var = posterior.var()
        sd = np.sqrt(np.where(np.isfinite(var) & (var > 0), var, 1.0))
        delta = np.where(np.isfinite(var), np.clip(self.delta, 1e-8 * sd, 1e8 * sd), self.delta)

        def slope(e: Array) -> Array:
            # The mean of the error, clipped at delta on both sides.
            return np.asarray(
                posterior.lower_partial_moment(e + delta).value
                - posterior.lower_partial_moment(e - delta).value
                - delta
            )

        return convex_point(posterior, slope, flat=1e-13 * delta)


@dataclasses.dataclass(frozen=True, repr=False)
class Pinball(Componentwise):
    """(theta - e)(q - 1{theta < e}), summed over components.

    The estimate is the q-quantile; U = s phi(z_q) for a normal.
    """

    words = "the pinball loss at {0.q:.10g}"
    unit = "units"
    q: float = checked(MISSING, check_number, low=0.0, high=1.0, open_low=True, open_high=True)
    value_offset = 0.0
    weights: Weights = checked(1.0, check_weights)

    def each(self, estimate: Array, truth: Array) -> Array:
        gap = truth - estimate
        return np.where(gap >= 0, self.q * gap, (self.q - 1) * gap)

    def parts(self, posterior: Posterior, estimate: Array) -> Value:
        above, below = posterior.upper_partial_moment(estimate), posterior.lower_partial_moment(estimate)
        return Value(*(self.q * a + (1 - self.q) * b for a, b in zip(above, below, strict=True)))

    def best(self, posterior: Posterior) -> Array:
        return posterior.quantile(self.q)


@dataclasses.dataclass(frozen=True, repr=False)
class Linex(Componentwise):
    """b (exp(a x) - a x - 1), x = e - theta, summed over components; with a > 0 guessing high is the costly side.

    The estimate is -log E exp(-a theta) / a; for a normal m - a v / 2, and U = b a**2 v / 2.
    """

    grows_with_distance = True
    a: float = checked(MISSING, check_number, low=-STEEPEST, high=STEEPEST)
    b: float = checked(1.0, check_number, low=0.0, open_low=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.a == 0:
            raise InputError("a must not be zero", self.a, "Use Quadratic() for a symmetric loss")

    def each(self, estimate: Array, truth: Array) -> Array:
        x = self.a * (estimate - truth)
        return np.asarray(self.b * (np.expm1(x) - x))

    def parts(self, posterior: Posterior, estimate: Array) -> Value:
        logs = posterior.log_mgf(-self.a, centred=True)
        shift = self.a * (estimate - posterior.mean())
        with np.errstate(over="ignore", invalid="ignore"):
            value = np.where(np.isinf(logs.value), np.inf, np.expm1(shift + logs.value) - shift)
        return Value(self.b * value, np.broadcast_to(logs.error, value.shape))

    def best(self, posterior: Posterior) -> Array:
        return np.asarray(posterior.mean() - posterior.log_mgf(-self.a, centred=True).value / self.a)

    def unrestricted_uncertainty(self, posterior: Posterior) -> Value:
        logs = posterior.log_mgf(-self.a, centred=True)
        if np.any(logs.error):
            return super().unrestricted_uncertainty(posterior)
        # At the best estimate E exp(a x) is one, so that U = -a b E x: no cancellation is left.
        return Value.exact(self.total(self.b * logs.value, posterior.event))

    def phrase(self) -> str:
        b = f" and b {show_setting(self.b)}" if self.b != 1 else ""
        return f"the LINEX loss with a {show_setting(self.a)}{b}"


@dataclasses.dataclass(frozen=True, repr=False)
class ZeroOne(BayesLoss):
    """One if any component of the estimate is farther than ``tolerance`` from the truth, else zero.

    The estimate is the mode, or the centre of the most probable window. On a continuum with tolerance 0 nobody ever
    hits the truth, so that U = 1. For a normal number U = 2 Phi(-tolerance / s). With draws the window is chosen on the
    draws themselves, so that U is a little low.

    Parameters
    ----------
    tolerance : number or vector, default 0
        One for all components, or one each.
    """

    unit = "a probability"
    tolerance: float | tuple[float, ...] = checked(
        0.0, check_numbers, what="finite and not negative", do="Give one number, or one per component", low=0
    )

    @property
    def measures_distance(self) -> bool:
        return bool(np.any(np.asarray(self.tolerance) > 0))

    @property
    def value_offset(self) -> Weights:  # type: ignore[override]
        return self.tolerance

    def __call__(self, estimate: ArrayLike, truth: ArrayLike, *, vector: bool | None = None) -> Array:
        return super().__call__(estimate, truth, vector=np.ndim(self.tolerance) > 0 if vector is None else vector)

    def cost(self, estimate: ArrayLike, truth: ArrayLike, vector: bool) -> Array:
        miss = is_farther(estimate, truth, np.asarray(self.tolerance))
        return np.asarray(miss.any(axis=-1) if vector else miss, dtype=np.float64)

    def best(self, posterior: Posterior) -> Array:
        return posterior.mode(self._tolerance_of_event(posterior.event))

    def expected(self, posterior: Posterior, estimate: ArrayLike) -> Value:
        return posterior.outside(estimate, self._tolerance_of_event(posterior.event))

    def table(self, posterior: Posterior, actions: Array) -> Array:
        return posterior.outside(actions, self._tolerance_of_event(posterior.event)).value

    def _tolerance_of_event(self, event: tuple[int, ...]) -> ArrayLike:
        # One tolerance in a list will do for a number.
        return self.tolerance if event or np.size(self.tolerance) != 1 else np.ravel(self.tolerance)[0]

    def phrase(self) -> str:
        return "the zero-one loss" + (f" with tolerance {show_setting(self.tolerance)}" if self.tolerance != 0 else "")
