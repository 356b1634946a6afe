"""A posterior that is an average of closed-form laws over draws of the parameters: Rao-Blackwell's way to a small error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..checks import check_flag, check_integer, check_shares
from ..errors import InputError
from ..protocols import Array, Posterior, Value
from .averagedline import Line, smooth_means
from .averagedpoints import Cloud, highest_point
from .curve import Curve
from .drawn import long_run_error
from .finite import Finite
from .gaussian import Gaussian, _shaped
from .mixture import GaussianMixture
from .shapes import as_weight_matrix, check_width, trace_product
from .windows import climb_box

__all__ = ["Averaged"]

_BLOCK = 4_000_000


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Averaged:
    """The average, over draws of the parameters, of the target's law given the parameters; ``batch`` is ``()``.

    Every expected loss at a given estimate is the mean of closed forms, one per draw, and its error is that of this
    mean: far smaller than from draws of the target itself (Rao and Blackwell; Gelfand and Smith, 1990). How the best estimate
    moves with the draws does not matter to first order (envelope theorem).

    Parameters
    ----------
    components : Gaussian, GaussianMixture, Finite or Curve with batch ``(S,)``
        The target's law given each of the S draws (or nodes) of the parameters.
    weights : array ``(S,)``, optional
        Importance weights, or weights of the nodes; they need not sum to one.
    chains : int, optional
        How many Markov chains the draws come from, laid chain after chain. Errors then allow for autocorrelation, as in
        `Drawn`. Without it draws count as independent.
    exact : bool, default False
        True for the nodes of a quadrature rule: the average is the posterior itself and has no error.

    Joint quantities of correlated normal vectors (`expect`, `entropy`, and `outside` above two dimensions) are quasi-Monte
    Carlo with their error, a few points for each component.

    Examples
    --------
    >>> means = np.random.default_rng(1).normal(size=4000)
    >>> value, error = Averaged(Gaussian.scalar(means, 99.0)).quadratic()
    >>> bool(abs(value - 100) < 4 * error), bool(error < 0.05)
    (True, True)
    """

    components: Any
    weights: Array
    """Weights that sum to one."""
    chains: int | None
    exact: bool
    event: tuple[int, ...]

    def __init__(self, components: Any, weights: Any = None, chains: int | None = None, *, exact: bool = False) -> None:
        if not isinstance(components, (Gaussian, GaussianMixture, Finite, Curve)):
            raise InputError(
                "components must be a Gaussian, GaussianMixture, Finite or Curve",
                type(components).__name__,
                "Use Drawn for plain draws",
            )
        exact = check_flag("exact", exact, "Say whether the components are nodes of a quadrature rule")
        if len(components.batch) != 1 or components.batch[0] < (1 if exact else 2):
            raise InputError(
                "components must have batch (S,), one law for each of at least two draws",
                f"batch {components.batch}",
                "Draw more",
            )
        count = components.batch[0]
        if chains is not None:
            chains = check_integer("chains", chains, low=1)
            if exact or count % chains:
                raise InputError(
                    f"chains must divide the {count} draws, and nodes of a rule have none",
                    chains,
                    "Lay chains of one length end to end",
                )
        if weights is None:
            share = np.full(count, 1.0 / count)
        else:
            share = check_shares("weights", weights, (count,), "Give one weight per component")
        fields = {
            "components": components,
            "weights": share,
            "chains": chains,
            "exact": exact,
            "event": components.event,
        }
        for name, thing in fields.items():
            object.__setattr__(self, name, thing)

    def __repr__(self) -> str:
        more = (", exact=True" if self.exact else "") + ("" if self.chains is None else f", chains={self.chains}")
        return f"Averaged({type(self.components).__name__}, components={len(self.weights)}{more}, event={self.event})"

    # -- shape and place -----------------------------------------------------------------------------

    @property
    def batch(self) -> tuple[int, ...]:
        return ()

    @property
    def support(self) -> Array | None:
        """The values of a finite target, otherwise None."""
        return self.law.support

    @property
    def centre(self) -> Array | None:
        """The common centre of the components, if they have one."""
        return self.law.centre

    def recentred(self) -> Averaged:
        """Normal components moved so that the mean is zero; itself otherwise."""
        return self._moved if isinstance(self.components, (Gaussian, GaussianMixture)) else self

    def select(self, index: Any) -> Averaged:
        """Itself, since the batch is empty."""
        if index not in ((), Ellipsis):
            raise InputError("An average has no batch to select from", index, "Use select(())")
        return self

    @cached_property
    def law(self) -> Any:
        """The average as one law of a known kind, without error: a mixture, a finite law or a curve."""
        return _merged(self.components, self.weights)

    # -- summaries -----------------------------------------------------------------------------------

    def mean(self) -> Array:
        means = self.components.mean()
        # About the first, so that a far location costs no digits.
        return np.asarray(means[0] + self.weights @ (means - means[0]))

    def var(self) -> Array:
        return np.asarray(
            self._sum(self.components.var()) + self.weights @ np.square(self.components.mean() - self.mean())
        )

    def cov(self) -> Array:
        if not self.event:
            return self.var()[..., None, None]
        gap = self.components.mean() - self.mean()
        return np.asarray((gap * self.weights[:, None]).T @ gap + self._sum(self.components.cov()))

    def quantile(self, q: float) -> Array:
        """Each component of the target apart, by a root of the averaged distribution function."""
        return np.asarray(self.law.quantile(q))

    def upper_quantile(self, tail: float) -> Array:
        return np.asarray(self.law.upper_quantile(tail))

    def cdf(self, at: Any) -> Array:
        return np.asarray(self.law.cdf(at))

    def log_density(self, at: Any) -> Array:
        return np.asarray(self.law.log_density(at))

    def mode(self, width: Any = 0.0) -> Array:
        """The highest point of the averaged density, or the centre of the most probable window.

        For vectors with a width a good box is found among draws: which is best matters to second order only.
        """
        width = check_width(width, self.event)
        if not self.event or self.support is not None or self.centre is not None:
            return np.asarray(self.law.mode(width))
        if not width.any():
            return highest_point(self.law)
        draws = self.law.sample(8192, np.random.default_rng(20020501))
        return climb_box(draws, np.full(len(draws), 1.0 / len(draws)), np.broadcast_to(width, self.event))

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        return np.asarray(self.law.sample(size, rng))

    # -- expectations --------------------------------------------------------------------------------

    def average(self, series: Array, own: Any = 0.0) -> Value:
        """Weighted mean of one value per component (along the first axis), with its error.

        ``own`` is the error that the values have themselves, shared by all.
        """
        mean = self._sum(series)
        if self.exact:
            return Value(mean, np.broadcast_to(np.asarray(own, dtype=np.float64), mean.shape))
        with np.errstate(invalid="ignore"):
            # Residuals of a ratio estimator; with equal weights they are plain deviations.
            residual = (series - mean) * (self.weights * len(self.weights)).reshape((-1,) + (1,) * (series.ndim - 1))
        error = long_run_error(residual, self.chains)
        return Value(mean, np.where(np.isfinite(mean), np.hypot(error, own), 0.0))

    def through(self, ask: Callable[[Posterior], Value]) -> Value:
        """Put a question that is linear in the law (an expected loss at one estimate) to every component, and average."""
        found = ask(self.components)
        return self.average(found.value, self._sum(found.error))

    def expect(self, f: Callable[[Array], Array], at: Any = None) -> Value:
        """E f: quadrature given each draw for numbers, quasi-Monte Carlo for vectors."""
        c = self.components
        if isinstance(c, Finite):
            seen = _shaped(f(c.values), c.values.shape[:1])
            if np.isfinite(seen).all():
                return self.average(c.probabilities @ seen)
            return self.average(np.sum(c.probabilities * np.where(c.probabilities > 0, seen, 0.0), axis=-1))
        cuts = None if at is None else np.ravel(np.asarray(at, dtype=np.float64))
        if isinstance(c, Curve):
            if self.exact:
                return Value(*self.law.expect(f, cuts))
            found = c.shared_expect(f, cuts)
            return self.average(found.value, self._sum(found.error))
        if not self.event and self._line is not None:
            series = self._line.expect(f, cuts, 1e-12 if self.exact else 1e-8)
            if series is not None:
                return self.average(
                    series if isinstance(c, Gaussian) else np.sum(c.weights * series.reshape(c._shape), axis=1)
                )
        if self.event and self._cloud is not None:
            series, own = self._cloud.expect(f)
            return self.average(series, own if self.exact else 0.0)

        def spread_out(theta: Array) -> Array:
            # f knows no components, so they go along the axis of points.
            shape = theta.shape[: theta.ndim - len(self.event)]
            flat = theta.reshape((-1, *self.event))
            return _shaped(f(flat), flat.shape[:1]).reshape(shape)

        found = c.expect(spread_out, None if cuts is None or self.event else cuts[:, None])
        return self.average(found.value, self._sum(found.error))

    def quadratic(self, weights: Any = 1.0) -> Value:
        matrix = as_weight_matrix(weights, self.event)
        gap = self.components.mean() - self.mean()
        gap = gap if self.event else gap[:, None]
        between = np.einsum("ni,ij,nj->n", gap, matrix, gap)
        return self.average(between + trace_product(matrix, self.components.cov()))

    def below(self, at: Any) -> Value:
        return self._apart(lambda c, a: c.below(a), at)

    def above(self, at: Any) -> Value:
        return self._apart(lambda c, a: c.above(a), at)

    def power(self, at: Any, p: float, *, signed: bool = False) -> Value:
        if p == 1 and not signed and not isinstance(self.components, Finite):
            # Two tails cost far less than Kummer's function.
            return self._apart(lambda c, a: Value(*(x + y for x, y in zip(c.below(a), c.above(a), strict=True))), at)
        return self._apart(lambda c, a: c.power(a, p, signed=signed), at)

    def huber(self, at: Any, delta: float) -> Value:
        return self._apart(lambda c, a: c.huber(a, delta), at)

    def outside(self, at: Any, width: Any) -> Value:
        width = check_width(width, self.event)
        if not self._tangled:
            return self._apart(lambda c, a: c.outside(a, width), at, joint=True)
        assert self._cloud is not None
        at = np.asarray(at, dtype=np.float64)
        lead = at.shape[:-1]
        flat = np.broadcast_to(at, lead + self.event).reshape((-1, *self.event))
        parts = [self._cloud.outside(a, np.broadcast_to(width, self.event)) for a in flat]
        found = [self.average(series, own if self.exact else 0.0) for series, own in parts]
        value, error = (np.array([v[i] for v in found]).reshape(lead) for i in (0, 1))
        return Value(np.asarray(value), np.asarray(error))

    def log_mgf(self, t: float, *, centred: bool = False) -> Value:
        value = self.law.log_mgf(t, centred=True).value
        gap = t * (self.components.mean() - self.mean())
        with np.errstate(over="ignore", invalid="ignore"):
            tilt = np.exp(np.minimum(self.components.log_mgf(t, centred=True).value + gap - value, 700.0))
        # To first order the error is that of the tilted weights, less that of the mean if it is taken out.
        error = np.where(np.isfinite(value), self.average(np.nan_to_num(tilt) - (gap if centred else 0.0)).error, 0.0)
        return Value(np.asarray(value if centred else value + t * self.mean()), error)

    def spread(self) -> Value:
        """E |theta - theta'| of the averaged law, with the error of its projection (Hoeffding, 1948)."""
        found = self.law.spread()
        if self.exact:
            return found
        series = self._means_of(lambda x: 2 * self.law.below(x).value - x)  # E |x - theta| but for a constant
        return Value(
            found.value, np.where(np.isfinite(found.value), np.hypot(2 * self.average(series).error, found.error), 0.0)
        )

    def entropy(self) -> Value:
        """Entropy of the averaged law; its error is that of the mean of -log density given each draw."""
        if self.event and self.support is None and self.centre is None:
            return self._vector_entropy()
        found = self.law.entropy()
        if self.exact or not np.isfinite(found.value) or (self.event and self.support is None):
            return found
        series = self._means_of(lambda x: -np.maximum(self.law.log_density(x), -700.0))
        return Value(found.value, np.hypot(self.average(series).error, found.error))

    # -- helpers -------------------------------------------------------------------------------------

    @cached_property
    def _moved(self) -> Averaged:
        # Kept, so that what it works out serves more than one loss.
        c, mean = self.components, self.mean()
        if isinstance(c, Gaussian):
            return self._with(Gaussian._make(c.location - mean, c.spreads, c.event))
        return self._with(GaussianMixture._make(c.weights, c.means - mean, c.spreads, c.event, c.batch))

    def _with(self, components: Any) -> Averaged:
        fresh = object.__new__(Averaged)
        fields = {
            "components": components,
            "weights": self.weights,
            "chains": self.chains,
            "exact": self.exact,
            "event": self.event,
        }
        for name, thing in fields.items():
            object.__setattr__(fresh, name, thing)
        return fresh

    def _sum(self, terms: Array) -> Array:
        """Weighted mean over components; one of weight zero counts for nothing, even if infinite."""
        terms = np.asarray(terms, dtype=np.float64)
        if not np.isfinite(terms).all():
            used = (self.weights > 0).reshape((-1,) + (1,) * (terms.ndim - 1))
            return np.asarray(np.sum(np.where(used, terms, 0.0) * self.weights.reshape(used.shape), axis=0))
        return np.asarray(np.tensordot(self.weights, terms, axes=(0, 0)))

    def _apart(self, ask: Callable[[Any, Array], Value], at: Any, *, joint: bool = False) -> Value:
        """Ask every component about the same points; further leading axes of ``at`` stay, in blocks."""
        at = np.asarray(at, dtype=np.float64)
        lead = at.shape[: max(0, at.ndim - len(self.event))]
        flat = np.broadcast_to(at, lead + self.event).reshape((-1, 1, *self.event))
        step = max(
            1, _BLOCK // (self.components.mean().size * (50 if isinstance(self.components, (Finite, Curve)) else 1))
        )
        values, errors = [], []
        for start in range(0, len(flat), step):
            found = ask(self.components, flat[start : start + step])
            series, own = np.moveaxis(found.value, 1, 0), np.moveaxis(found.error, 1, 0)
            value = self.average(series, self._sum(own) if np.any(own) else 0.0)
            values.append(value.value)
            errors.append(value.error)
        shape = lead + (() if joint else self.event)
        return Value(np.concatenate(values).reshape(shape), np.concatenate(errors).reshape(shape))

    def _means_of(self, smooth: Callable[[Array], Array]) -> Array:
        """Mean of a smooth function under each component, each coordinate apart, to the few digits that an error needs."""
        c = self.components
        if isinstance(c, Finite):
            return np.asarray(c.probabilities @ smooth(c.values))
        if isinstance(c, Curve):
            return c.shared_expect(smooth, None).value
        if isinstance(c, GaussianMixture):
            means = np.broadcast_to(c.means, c._shape)
            inner = smooth_means(
                smooth, means.reshape((-1, *self.event)), np.broadcast_to(c._sd, c._shape).reshape((-1, *self.event))
            )
            return np.asarray(np.sum(c._weights * inner.reshape(c._shape), axis=1))
        return smooth_means(smooth, c.mean(), np.broadcast_to(c._sd, c.batch + c.event))

    def _vector_entropy(self) -> Value:
        if not isinstance(self.components, Gaussian):
            return Value(*self.law.entropy())
        roots = np.linalg.eigvalsh(np.where(np.isinf(self.components.cov()), 0.0, self.components.cov()))
        used = self.weights > 0
        scale = np.max(roots, axis=-1)
        if np.any(used & (roots[:, 0] <= 1e-13 * scale)) or np.isinf(self.components.cov()[used]).any():
            return Value(*self.law.entropy())
        assert self._cloud is not None
        series, own = self._cloud.minus_log_density()
        return self.average(series, own if self.exact else 0.0)

    @cached_property
    def _tangled(self) -> bool:
        """Whether a chance of leaving a box has no closed form: three or more correlated components."""
        c = self.components
        if not isinstance(c, Gaussian) or not self.event or self.event[0] < 3 or self._cloud is None:
            return False
        return bool(np.any(np.where(np.eye(self.event[0], dtype=bool), 0.0, c.spreads)))

    @cached_property
    def _line(self) -> Line | None:
        """Nodes on the line with the density of every component, if the components are normal and fit."""
        c = self.components
        if self.event or not isinstance(c, (Gaussian, GaussianMixture)):
            return None
        if isinstance(c, Gaussian):
            return Line.of(self.weights, c.mean(), np.broadcast_to(c._sd, c.batch))
        spread: list[Array] = [
            np.broadcast_to(a, c._shape).ravel() for a in (self.weights[:, None] * c.weights, c.means, c._sd)
        ]
        return Line.of(*spread)

    @cached_property
    def _cloud(self) -> Cloud | None:
        """A few points in space for each component, if the components are normal vectors."""
        c = self.components
        if not isinstance(c, Gaussian) or np.isinf(c.spreads).any():
            return None
        return Cloud.of(self.weights, c.mean(), c.cov())


def _merged(components: Any, weights: Array) -> Any:
    if isinstance(components, Finite):
        return Finite._make(components.values, weights @ components.probabilities)
    if isinstance(components, Curve):
        return components.mixed(weights)
    event = components.event
    if isinstance(components, Gaussian):
        # The axis of components may have length one: then all share the covariance.
        spreads = components.spreads if components.spreads.ndim > 2 * len(event) else components.spreads[None]
        return GaussianMixture._make(weights, components.mean(), spreads, event, ())
    count = components.components
    joined = (weights[:, None] * np.broadcast_to(components.weights, components.batch + (count,))).reshape(-1)
    means = np.broadcast_to(components.means, components._shape).reshape((-1, *event))
    spreads = np.broadcast_to(components.spreads, components._shape + event).reshape((-1,) + event * 2)
    return GaussianMixture._make(joined, means, spreads, event, ())
