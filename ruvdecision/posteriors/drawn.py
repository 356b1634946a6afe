"""A posterior known by draws: every quantity with its Monte Carlo standard error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from ..checks import as_float_array, check_finite, check_flag, check_integer, check_shares
from ..errors import InputError
from ..protocols import Array, Value
from . import normal
from .finite import Finite
from .gaussian import _shaped
from .shapes import as_weight_matrix, check_width
from .windows import climb_box

__all__ = ["Drawn", "long_run_error"]

_BLOCK = 4_000_000


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Drawn:
    """The posterior of a target as draws from it; ``batch`` is ``()``.

    Parameters
    ----------
    draws : array, ``(draws,) + event``, or ``(chains, draws) + event`` when ``chains`` is given
        At least two draws of a number, or of a vector of k components.
    weights : array, optional
        Importance weights of the draws' leading shape; they need not sum to one.
    chains : int, optional
        How many Markov chains the draws come from. Errors then allow for autocorrelation (Geyer's initial
        monotone sequence, with the scatter between chains; Vehtari et al., 2021). Without it draws count as independent.
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
    event: tuple[int, ...]

    def __init__(self, draws: Any, weights: Any = None, chains: int | None = None, *, discrete: bool = False) -> None:
        values = check_finite("draws", as_float_array("draws", draws))
        lead = 1
        if chains is not None:
            chains = check_integer("chains", chains, low=1)
            lead = 2
            if values.ndim < 2 or values.shape[0] != chains:
                raise InputError(
                    f"draws must have shape ({chains}, draws) + event",
                    f"shape {values.shape}",
                    "Put the chains along the first axis",
                )
        if values.ndim - lead not in (0, 1):
            raise InputError(
                "draws must be numbers or vectors", f"shape {values.shape}", "Flatten each draw to one axis"
            )
        head, event = values.shape[:lead], values.shape[lead:]
        if np.prod(head) < 2 or head[-1] < 1 or 0 in event:
            raise InputError("There must be at least two draws", f"shape {values.shape}", "Draw more")
        count = int(np.prod(head))
        if weights is None:
            share = np.full(count, 1.0 / count)
        else:
            share = check_shares("weights", weights, head, "Give one weight per draw").reshape(count)
        discrete = check_flag("discrete", discrete, "Say whether the target takes separate values")
        fields = {
            "draws": values.reshape((count, *event)),
            "weights": share,
            "chains": chains,
            "discrete": discrete,
            "event": event,
        }
        for name, thing in fields.items():
            object.__setattr__(self, name, thing)

    def __repr__(self) -> str:
        chains = "" if self.chains is None else f", chains={self.chains}"
        return f"Drawn(draws={len(self.draws)}{chains}, event={self.event})"

    # -- shape and place -----------------------------------------------------------------------------

    @property
    def batch(self) -> tuple[int, ...]:
        return ()

    @property
    def support(self) -> Array | None:
        """The distinct draws of a discrete target, otherwise None."""
        return self._finite._merged[0] if self.discrete else None

    @property
    def centre(self) -> None:
        """None: nothing is assumed about the shape."""
        return None

    def recentred(self) -> Drawn:
        """Itself: sums of differences keep their digits wherever the draws lie."""
        return self

    def select(self, index: Any) -> Drawn:
        """Itself, since the batch is empty."""
        if index not in ((), Ellipsis):
            raise InputError("Draws have no batch to select from", index, "Use select(())")
        return self

    # -- summaries -----------------------------------------------------------------------------------

    def mean(self) -> Array:
        return np.asarray(self.weights @ self.draws)

    def var(self) -> Array:
        return np.asarray(self.weights @ np.square(self.draws - self.mean()))

    def cov(self) -> Array:
        return self._finite.cov()

    def quantile(self, q: float) -> Array:
        """The lowest draw whose cumulative weight reaches q, each component apart."""
        return self._finite.quantile(q)

    def upper_quantile(self, tail: float) -> Array:
        # Draws end somewhere, so that rounding to one does no harm.
        return self.quantile(1 - tail)

    def cdf(self, at: Any) -> Array:
        return self._finite.cdf(at)

    def log_density(self, at: Any) -> Array:
        """Log frequency of a discrete target; otherwise log density by nearest neighbours, an estimate."""
        return (
            self._finite.log_density(at)
            if self.discrete
            else self._neighbours.log_density(np.asarray(at, dtype=np.float64), self.event)
        )

    def mode(self, width: Any = 0.0) -> Array:
        width = check_width(width, self.event)
        if self.discrete or (not self.event and width.any()):
            return self._finite.mode(width)
        if not width.any():
            points, logs = self._neighbours.peaks()
            return np.asarray(points[np.argmax(logs)] if self.event else points[np.argmax(logs), 0])
        # Which box is best matters to second order only, so a good one will do.
        return climb_box(self.draws, self.weights, np.broadcast_to(width, self.event))

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        return np.asarray(self.draws[rng.choice(len(self.draws), size=size, p=self.weights)])

    # -- expectations --------------------------------------------------------------------------------

    def expect(self, f: Callable[[Array], Array], at: Any = None) -> Value:
        """E f with its Monte Carlo standard error."""
        return self.average(_shaped(f(self.draws), self.draws.shape[:1]))

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

    def quadratic(self, weights: Any = 1.0) -> Value:
        gap = self.draws - self.mean()
        if np.ndim(weights) == 0:
            square = np.square(gap)
            return self.average(float(weights) * (square.sum(axis=-1) if self.event else square))
        matrix = as_weight_matrix(weights, self.event)
        gap = gap if self.event else gap[:, None]
        return self.average(np.einsum("ni,ij,nj->n", gap, matrix, gap))

    def below(self, at: Any) -> Value:
        return self._apart(lambda x, a: np.maximum(a - x, 0.0), at)

    def above(self, at: Any) -> Value:
        return self._apart(lambda x, a: np.maximum(x - a, 0.0), at)

    def power(self, at: Any, p: float, *, signed: bool = False) -> Value:
        if signed:
            return self._apart(lambda x, a: np.sign(x - a) * np.abs(x - a) ** p, at)
        with np.errstate(over="ignore"):  # a power out of reach is infinite
            return self._apart(lambda x, a: np.abs(x - a) ** p, at)

    def huber(self, at: Any, delta: float) -> Value:
        return self._apart(lambda x, a: np.asarray(special.huber(delta, x - a), dtype=np.float64), at)

    def outside(self, at: Any, width: Any) -> Value:
        width = np.broadcast_to(check_width(width, self.event), self.event)

        def hit(x: Array, a: Array) -> Array:
            far = normal.farther(x, a, width)
            if not self.discrete:
                # No draw of a continuum is ever guessed exactly, unless it has no spread at all.
                far = far | ((width == 0) & self._varies)
            return np.asarray(far.any(axis=-1) if self.event else far, dtype=np.float64)

        return self._apart(hit, at)

    def log_mgf(self, t: float, *, centred: bool = False) -> Value:
        mean = self.mean()
        logs = self._finite.log_mgf(t, centred=True).value
        gap = t * (self.draws - mean)
        # To first order the error is that of the tilted weights, less that of the mean if it is taken out.
        tilt = self.average(np.exp(np.minimum(gap - logs, 700.0)) - (gap if centred else 0.0))
        return Value(np.asarray(logs if centred else logs + t * mean), tilt.error)

    def spread(self) -> Value:
        """Gini's mean difference, with the error of its projection (Hoeffding, 1948)."""
        columns = [self.draws] if not self.event else list(self.draws.T)
        parts = []
        for x in columns:
            order = np.argsort(x, kind="stable")
            gap, share = (x - self.weights @ x)[order], self.weights[order]
            # E |x - theta'| at every draw from cumulative sums; the centred total is zero.
            distance = np.empty(len(x))
            distance[order] = gap * (2 * np.cumsum(share) - 1) - 2 * np.cumsum(share * gap) + np.sum(share * gap)
            parts.append(self.average(distance))
        values, errors = np.stack([p.value for p in parts], axis=-1), 2 * np.stack([p.error for p in parts], axis=-1)
        return Value(values, errors) if self.event else Value(np.asarray(values[0]), np.asarray(errors[0]))

    def entropy(self) -> Value:
        """Of the frequencies of a discrete target; otherwise differential, by nearest neighbours.

        The latter is Kozachenko and Leonenko's estimate (1987) on whitened draws. Its bias, not part of the error, is
        small in one to four dimensions and grows above.
        """
        if self.discrete:
            chances = self._finite._merged[1]
            place = np.unique(self.draws, axis=0, return_inverse=True)[1].ravel()
            with np.errstate(divide="ignore"):
                logs = np.log(chances)
            return self.average(-np.where(np.isfinite(logs), logs, 0.0)[place])
        cloud = self._neighbours
        if cloud.flat:
            return Value.exact(-np.inf)
        return self.average(-cloud.logs[cloud.place])

    # -- helpers -------------------------------------------------------------------------------------

    @cached_property
    def _finite(self) -> Finite:
        return Finite._make(self.draws, self.weights)

    @cached_property
    def _varies(self) -> Any:
        return np.ptp(self.draws, axis=0) > 0

    @cached_property
    def _neighbours(self) -> _Neighbours:
        return _Neighbours(self.draws.reshape(len(self.draws), -1), self.weights)

    def _apart(self, g: Callable[[Array, Array], Array], at: Any) -> Value:
        at = np.asarray(at, dtype=np.float64)
        lead = at.shape[: max(0, at.ndim - len(self.event))]
        at = np.broadcast_to(at, lead + self.event)
        if not lead:
            return self.average(g(self.draws, at))
        flat = at.reshape((-1, *self.event))
        step = max(1, _BLOCK // self.draws.size)
        draws = self.draws[:, None]
        parts = [self.average(g(draws, flat[None, i : i + step])) for i in range(0, len(flat), step)]
        value, error = np.concatenate([p.value for p in parts]), np.concatenate([p.error for p in parts])
        return Value(value.reshape(lead + value.shape[1:]), error.reshape(lead + error.shape[1:]))


class _Neighbours:
    """Density at the draws from the distance to their nearest neighbours, equal draws merged into one."""

    def __init__(self, draws: Array, weights: Array) -> None:
        from scipy.spatial import cKDTree

        points, place = np.unique(draws, axis=0, return_inverse=True)
        self.place = place.ravel()
        self.weights = np.bincount(self.place, weights=weights, minlength=len(points))
        n, k = points.shape
        mean = self.weights @ points
        cov = ((points - mean) * self.weights[:, None]).T @ (points - mean)
        scale = np.sqrt(np.diag(cov))
        eigen = np.linalg.eigvalsh(cov / np.outer(scale, scale))[0] if (scale > 0).all() else 0.0
        # Draws on a line or a plane have no density.
        self.flat = bool(n < k + 2 or eigen <= 1e-12)
        self.points, self.size, self.count = points, k, min(4, n - 1)
        if self.flat:
            return
        root = np.linalg.cholesky(cov)
        self.white = np.linalg.inv(root)
        self.shift = -float(np.sum(np.log(np.diag(root))))
        self.tree: Any = cKDTree(points @ self.white.T)
        found: Any = self.tree.query(points @ self.white.T, k=self.count + 1)
        distance, near = found
        self.logs = self._logs(
            distance[:, -1], self.weights[near[:, 1:]].sum(axis=1) / (1 - np.minimum(self.weights, 0.5)), self.count
        )

    def _logs(self, distance: Array, mass: Array, count: int) -> Array:
        ball = 0.5 * self.size * np.log(np.pi) - special.gammaln(0.5 * self.size + 1)
        # exp(digamma(count)) instead of count is what makes the logarithm unbiased.
        with np.errstate(divide="ignore"):
            return np.asarray(
                np.log(mass) + special.digamma(count) - np.log(count) - ball - self.size * np.log(distance) + self.shift
            )

    def peaks(self) -> tuple[Array, Any]:
        """Points with their log densities, smoothed over the square root of the number of points."""
        if self.flat:
            return self.points, self.weights
        count = max(self.count, round(np.sqrt(len(self.points))))
        distance, near = self.tree.query(self.points @ self.white.T, k=count + 1)
        return self.points, self._logs(distance[:, -1], self.weights[near].sum(axis=1), count)

    def log_density(self, at: Array, event: tuple[int, ...]) -> Array:
        if self.flat:
            lead = at.shape[: at.ndim - len(event)]
            return np.full(lead, np.inf)
        at = at if event else at[..., None]
        count = max(self.count, round(np.sqrt(len(self.points))))
        distance, near = self.tree.query(at @ self.white.T, k=count)
        return self._logs(distance[..., -1], self.weights[near].sum(axis=-1), count)


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
