"""A posterior known by draws: every quantity with its Monte Carlo standard error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import as_float_array, check_finite, check_flag, check_integer, check_shares
from ..errors import InputError
from ..protocols import Array, Posterior, Value
from .base import BLOCK, LEVEL, BasePosterior, Growth, Pairs, as_shape, as_weight_matrix, check_width
from .finite import Finite
from .modes import Neighbours, climb_box


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Drawn(BasePosterior):
    """The posterior of a target as draws from it; ``batch`` is ``()``.

    Parameters
    ----------
    draws : array, ``(draws,) + event``, or ``(chains, draws) + event`` when ``chains`` is given
        At least two draws of a number, or of a vector of k components.
    weights : array, optional
        Importance weights of the draws' leading shape; they need not sum to one.
    chains : int, optional
        How many Markov chains the draws come from. Errors then allow for autocorrelation (Geyer's initial monotone
        sequence, with the scatter between chains; Vehtari et al., 2021). Without it draws count as independent.
    discrete : bool, default False
        True if the target takes separate values (labels, counts). Then the set of values seen is the support, and
        entropy and mode are those of a finite set. Otherwise they are those of a density, by nearest neighbours.

    Errors are of first order. That of an uncertainty is the error of the mean loss at the best estimate:
    how the estimate moves with the draws does not matter to first order (envelope theorem). Weighted means
    have the error of a ratio estimator.

    Examples
    --------
    >>> value, error = Drawn(np.random.default_rng(1).normal(size=4000)).quadratic()
    >>> bool(abs(value - 1) < 4 * error)
    True
    """

    draws: Array
    """All draws in one row, ``(chains * draws,) + event``."""
    weights: Array
    """Weights that sum to one."""
    chains: int | None
    discrete: bool

    def __init__(
        self, draws: ArrayLike, weights: ArrayLike | None = None, chains: int | None = None, *, discrete: bool = False
    ) -> None:
        values = check_finite("draws", as_float_array("draws", draws))
        lead = 1
        if chains is not None:
            chains = check_integer("chains", chains, low=1)
            lead = 2
            if values.ndim < 2 or values.shape[0] != chains:
                what = f"draws must have shape ({chains}, draws) + event"
                raise InputError(what, f"shape {values.shape}", "Put the chains along the first axis")
        if values.ndim - lead not in (0, 1):
            what = "draws must be numbers or vectors"
            raise InputError(what, f"shape {values.shape}", "Flatten each draw to one axis")
        head, event = values.shape[:lead], values.shape[lead:]
        if np.prod(head) < 2 or head[-1] < 1 or 0 in event:
            raise InputError("There must be at least two draws", f"shape {values.shape}", "Draw more")
        count = int(np.prod(head))
        if weights is None:
            share = np.full(count, 1.0 / count)
        else:
            share = check_shares("weights", weights, head, "Give one weight per draw").reshape(count)
        discrete = check_flag("discrete", discrete, "Say whether the target takes separate values")
        rows = values.reshape((count, *event))
        self.__dict__.update(draws=rows, weights=share, chains=chains, discrete=discrete, event=event)

    def __repr__(self) -> str:
        chains = "" if self.chains is None else f", chains={self.chains}"
        trouble = f", trouble={self.trouble!r}" if self.trouble else ""
        return f"Drawn(draws={len(self.draws)}{chains}, event={self.event}{trouble})"

    # -- shape and place -----------------------------------------------------------------------------

    @property
    def support(self) -> Array | None:
        """The distinct draws of a discrete target, otherwise None."""
        return self._as_finite.distinct[0] if self.discrete else None

    # -- summaries -----------------------------------------------------------------------------------

    def mean(self) -> Array:
        return np.asarray(self.weights @ self.draws)

    def var(self) -> Array:
        return np.asarray(self.weights @ np.square(self.draws - self.mean()))

    def cov(self) -> Array:
        return self._as_finite.cov()

    def quantile(self, q: float) -> Array:
        """The lowest draw whose cumulative weight reaches q, each component apart."""
        return self._as_finite.quantile(q)

    def cdf(self, at: ArrayLike) -> Array:
        return self._as_finite.cdf(at)

    def log_density(self, at: ArrayLike) -> Array:
        """Log frequency of a discrete target; otherwise log density by nearest neighbours, an estimate."""
        if self.discrete:
            return self._as_finite.log_density(at)
        at = np.asarray(at, dtype=np.float64)
        return self._nearest_draws.log_density(at if self.event else at[..., None])

    def mode(self, width: ArrayLike = 0.0) -> Array:
        width = check_width(width, self.event)
        if self.discrete or (not self.event and width.any()):
            return self._as_finite.mode(width)
        if not width.any():
            return self._nearest_draws.densest_draw().reshape(self.event)
        # Which box is best matters to second order only, so a good one will do.
        return climb_box(self.draws, self.weights, np.broadcast_to(width, self.event))

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        return np.asarray(self.draws[rng.choice(len(self.draws), size=size, p=self.weights)])

    def thinned_sample(self, size: int, rng: np.random.Generator) -> Array:
        if self.chains is None or len(self.weights) < size or np.ptp(self.weights) > 0:
            return self.sample(size, rng)
        return self.draws[spaced_places(len(self.weights), size, rng)]

    def over_draws(
        self, at: Callable[[Array], Array], given: Callable[[Posterior], Array], size: int, rng: np.random.Generator
    ) -> Array:
        return at(self.thinned_sample(size, rng))

    # -- expectations --------------------------------------------------------------------------------

    def expect(self, f: Callable[[Array], Array], at: ArrayLike | None = None) -> Value:
        """E f with its Monte Carlo standard error."""
        return self.average(as_shape(f(self.draws), self.draws.shape[:1]))

    def average(self, series: Array) -> Value:
        """Weighted mean of one value per draw (along the first axis), with its error."""
        if not np.isfinite(series).all():
            # A draw that has no weight counts for nothing, even where the series is infinite.
            series = np.where((self.weights > 0).reshape((-1,) + (1,) * (series.ndim - 1)), series, 0.0)
        mean = np.tensordot(self.weights, series, axes=(0, 0))
        with np.errstate(invalid="ignore"):
            # Residuals of a ratio estimator; with equal weights they are plain deviations.
            residual = (series - mean) * (self.weights * len(self.weights)).reshape((-1,) + (1,) * (series.ndim - 1))
        error = long_run_error(residual, self.chains)
        return Value(np.asarray(mean), np.where(np.isfinite(mean), error, 0.0))

    def quadratic(self, weights: ArrayLike = 1.0) -> Value:
        gap = self.draws - self.mean()
        if np.ndim(weights) == 0:
            square = np.square(gap)
            return self.average(np.asarray(weights, dtype=np.float64) * (square.sum(axis=-1) if self.event else square))
        matrix = as_weight_matrix(weights, self.event)
        gap = gap if self.event else gap[:, None]
        return self.average(np.einsum("ni,ij,nj->n", gap, matrix, gap))

    def outside(self, at: ArrayLike, width: ArrayLike) -> Value:
        width = np.broadcast_to(check_width(width, self.event), self.event)
        # No draw of a continuum is ever guessed exactly, unless it has no variance at all.
        if not self.discrete and np.any((width == 0) & (np.ptp(self.draws, axis=0) > 0)):
            shape = np.broadcast_shapes(np.shape(at), self.event)
            return Value.exact(np.ones(shape[:-1] if self.event else shape))
        return super().outside(at, width)

    def log_mgf(self, t: float, *, centred: bool = False) -> Value:
        mean = self.mean()
        logs = self._as_finite.log_mgf(t, centred=True).value
        gap = t * (self.draws - mean)
        # To first order the error is that of the tilted weights, less that of the mean if it is taken out.
        tilt = self.average(np.exp(np.minimum(gap - logs, 700.0)) - (gap if centred else 0.0))
        return Value(np.asarray(logs if centred else logs + t * mean), tilt.error)

    def mean_difference(self) -> Value:
        """Gini's mean difference, with the error of its projection (Hoeffding, 1948)."""
        parts = []
        for x in np.reshape(self.draws, (len(self.draws), -1)).T:
            order = np.argsort(x, kind="stable")
            gap, share = (x - self.weights @ x)[order], self.weights[order]
            # E |x - theta'| at every draw from cumulative sums; the centred total is zero.
            distance = np.empty(len(x))
            distance[order] = gap * (2 * np.cumsum(share) - 1) - 2 * np.cumsum(share * gap) + np.sum(share * gap)
            parts.append(self.average(distance))
        values, errors = Value.stacked(parts).reshaped(*self.event)
        return Value(values, np.asarray(2 * errors))

    def entropy(self) -> Value:
        """Of the frequencies of a discrete target; otherwise differential, by nearest neighbours.

        The latter is Kozachenko and Leonenko's estimate (1987) on whitened draws. Its bias, not part of the error, is
        small in one to four dimensions and grows above.
        """
        if self.discrete:
            chances = self._as_finite.distinct[1]
            place = np.unique(self.draws, axis=0, return_inverse=True)[1].ravel()
            with np.errstate(divide="ignore"):
                logs = np.log(chances)
            return self.average(-np.where(np.isfinite(logs), logs, 0.0)[place])
        return Value.exact(-np.inf) if self._nearest_draws.flat else self.average(-self._nearest_draws.logs)

    # -- helpers -------------------------------------------------------------------------------------

    @cached_property
    def _as_finite(self) -> Finite:
        return Finite.of(self.draws, self.weights)

    @cached_property
    def _nearest_draws(self) -> Neighbours:
        return Neighbours(self.draws.reshape(len(self.draws), -1), self.weights)

    def _average(
        self, g: Pairs, at: ArrayLike = 0.0, kinks: Sequence[float] = (), *, joint: bool = False, growth: Growth = LEVEL
    ) -> Value:
        lead, rows = self._rows(at)
        if not lead:
            return self.average(np.asarray(g(self.draws, rows[0]), dtype=np.float64))
        step = max(1, BLOCK // self.draws.size)
        draws = self.draws[:, None]
        parts = [
            self.average(np.asarray(g(draws, rows[None, i : i + step]), dtype=np.float64))
            for i in range(0, len(rows), step)
        ]
        value, error = Value.joined(parts)
        return Value(value.reshape(lead + value.shape[1:]), error.reshape(lead + error.shape[1:]))


def spaced_places(count: int, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Places of draws as far apart as they can be in a row of so many, from a random start."""
    return ((np.arange(size) + rng.random()) * (count / size)).astype(np.intp)


def long_run_error(residual: Array, chains: int | None) -> Array:
    """Standard error of the mean of a series (along the first axis), chains laid end to end.

    Independent draws without chains. With chains: variance over effective sample size, with Geyer's
    initial monotone sequence of the autocorrelations pooled over chains.
    """
    count = len(residual)
    # Squares of very large and very small numbers are out of reach: an error of zero would say that the mean is exact.
    unit = np.max(np.abs(residual), axis=0)
    unit = np.where(np.isfinite(unit) & (unit > 0), unit, 1.0)
    return np.asarray(unit * _long_run_error(residual / unit, count, chains))


def _long_run_error(residual: Array, count: int, chains: int | None) -> Array:
    if chains is None:
        return np.asarray(np.sqrt(np.sum(np.square(residual - residual.mean(axis=0)), axis=0) / (count * (count - 1))))
    length = count // chains
    shape = residual.shape[1:]
    series = residual.reshape(chains, length, -1)
    if length < 4:
        # Too short to see any autocorrelation: let the chains' means speak, or give up.
        if chains < 2:
            return np.full(shape, np.inf)
        return np.asarray((series.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(chains)).reshape(shape))
    means = series.mean(axis=1, keepdims=True)
    size = 1 << (2 * length - 1).bit_length()
    spectrum = np.fft.rfft(series - means, n=size, axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, n=size, axis=1)[:, :length] / length
    within = covariance[:, 0].mean(axis=0) * length / (length - 1)
    total = within * (length - 1) / length
    if chains > 1:
        total = total + means[:, 0].var(axis=0, ddof=1)
    safe = np.where(total > 0, total, 1.0)
    rho = 1 - (within - covariance.mean(axis=0) * length / (length - 1)) / safe
    rho[0] = 1.0
    pairs = rho[: 2 * (length // 2)].reshape(length // 2, 2, -1).sum(axis=1)
    positive = np.logical_and.accumulate(pairs > 0, axis=0)
    tau = -1 + 2 * np.sum(np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0), axis=0)
    tau = np.maximum(tau, 1 / np.log10(count))
    return np.asarray(np.sqrt(total * tau / count).reshape(shape))
