"""A mixture of normal posteriors, such as an unknown row gives: one component per row, hundreds of thousands if need be."""

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
from .box import factor, outside_box
from .finite import _expm1_less
from .gaussian import Gaussian, _shaped, check_covariances, triangular_log_density
from .integrate import limit, normal_expectation, scrambled_mean, sobol_normal
from .many import Sorted, mean_difference
from .roots import least_near, monotone_root
from .shapes import as_weight_matrix, check_level, check_width, trace_product

__all__ = ["GaussianMixture"]

_BLOCK = 4_000_000


@dataclass(frozen=True, init=False, eq=False, repr=False)
class GaussianMixture:
    """A batch of mixtures of m normal laws.

    Parameters
    ----------
    weights : array, ``batch + (m,)``
        Chances of the components.
    means : array, ``batch + (m,)`` for numbers, ``batch + (m, k)`` for vectors
        A number is meant when ``means`` has as many axes as ``weights``; `GaussianMixture.scalar` says so.
    covs : array, ``batch + (m,)`` variances, or ``batch + (m, k, k)`` covariances
        The axis of components may have length 1: then all share it.

    All quantities of numbers are sums of closed forms over components, and cost of order m. Joint quantities of
    vectors (`expect`, `entropy`, and `outside` above two dimensions) are quasi-Monte Carlo with their error.

    Examples
    --------
    >>> GaussianMixture([0.5, 0.5], [-1.0, 1.0], [1.0, 1.0]).quadratic().value
    array(2.)
    """

    weights: Array
    means: Array
    spreads: Array
    event: tuple[int, ...]
    batch: tuple[int, ...]

    def __init__(self, weights: Any, means: Any, covs: Any) -> None:
        weights, means, spreads = (
            as_float_array("weights", weights),
            as_float_array("means", means),
            as_float_array("covs", covs),
        )
        if weights.ndim == 0 or means.ndim not in (weights.ndim, weights.ndim + 1):
            raise InputError(
                "weights must have shape batch + (m,) and means batch + (m,) or batch + (m, k)",
                f"shapes {weights.shape} and {means.shape}",
                "Use GaussianMixture.scalar(weights, means, variances) for numbers",
            )
        self._fill(weights, means, spreads, means.shape[weights.ndim :])

    @classmethod
    def scalar(cls, weights: Any, means: Any, variances: Any) -> GaussianMixture:
        """Mixtures for numbers; the three arrays are broadcast to ``batch + (m,)``."""
        self = object.__new__(cls)
        self._fill(
            as_float_array("weights", weights),
            as_float_array("means", means),
            as_float_array("variances", variances),
            (),
        )
        return self

    def _fill(self, weights: Array, means: Array, spreads: Array, event: tuple[int, ...]) -> None:
        if weights.ndim == 0:
            raise InputError("weights must have shape batch + (m,)", "one number", "Give one weight per component")
        weights = check_probabilities("weights", weights)
        check_finite("means", means)
        tail = len(event)
        if event:
            if spreads.ndim < 2 or spreads.shape[-2:] != event * 2:
                raise InputError(
                    f"covs must end in {event * 2}",
                    f"shape {spreads.shape}",
                    "Give one covariance matrix per component, or one for all",
                )
            check_covariances("covs", spreads)
        elif not (spreads >= 0).all():
            raise InputError("variances must be numbers that are not negative", spreads, "A point mass has variance 0")
        if spreads.ndim == 2 * tail:
            spreads = spreads[None]
        try:
            shape = np.broadcast_shapes(
                weights.shape, means.shape[: means.ndim - tail], spreads.shape[: spreads.ndim - 2 * tail]
            )
        except ValueError:
            raise InputError(
                "weights, means and covariances must agree on the components",
                f"shapes {weights.shape}, {means.shape}, {spreads.shape}",
                "Give one mean and one weight per component",
            ) from None
        if shape[-1] != weights.shape[-1]:
            raise InputError(
                f"There must be one weight for each of {shape[-1]} components",
                f"shape {weights.shape}",
                "Give batch + (m,) weights",
            )
        for name, thing in (
            ("weights", weights),
            ("means", means),
            ("spreads", spreads),
            ("event", event),
            ("batch", shape[:-1]),
        ):
            object.__setattr__(self, name, thing)

    @classmethod
    def _make(
        cls, weights: Array, means: Array, spreads: Array, event: tuple[int, ...], batch: tuple[int, ...]
    ) -> GaussianMixture:
        self = object.__new__(cls)
        for name, thing in (
            ("weights", weights),
            ("means", means),
            ("spreads", spreads),
            ("event", event),
            ("batch", batch),
        ):
            object.__setattr__(self, name, thing)
        return self

    def __repr__(self) -> str:
        return f"GaussianMixture(components={self.components}, batch={self.batch}, event={self.event})"

    # -- shape and place -----------------------------------------------------------------------------

    @property
    def components(self) -> int:
        """How many components there are."""
        return int(self.weights.shape[-1])

    @property
    def support(self) -> None:
        """None: the target lies on a continuum."""
        return None

    @property
    def centre(self) -> Array | None:
        """The common mean of the components, if they have one."""
        axis = -1 - len(self.event)
        if self.means.shape[axis] > 1 and np.ptp(self.means, axis=axis).any():
            return None
        return np.broadcast_to(np.take(self.means, 0, axis=axis), self.batch + self.event)

    def recentred(self) -> GaussianMixture:
        """The same mixtures moved so that their means are zero."""
        mean = self.mean()[..., None, :] if self.event else self.mean()[..., None]
        return self._make(self.weights, self.means - mean, self.spreads, self.event, self.batch)

    def select(self, index: Any) -> GaussianMixture:
        """The posteriors at ``index`` of the batch."""
        m, tail = self.components, self.event
        weights = np.broadcast_to(self.weights, self.batch + (m,))[index]
        means = np.broadcast_to(self.means, self.batch + (m,) + tail)[index]
        shared = self.spreads.shape[self.spreads.ndim - 1 - 2 * len(tail)]
        spreads = np.broadcast_to(self.spreads, self.batch + (shared,) + tail * 2)[index]
        return self._make(weights, means, spreads, self.event, weights.shape[:-1])

    # -- summaries -----------------------------------------------------------------------------------

    def mean(self) -> Array:
        # About the first component, so that a far location costs no digits.
        first = self.means[..., :1, :] if self.event else self.means[..., :1]
        shift = self._mix(self.means - first)
        return np.asarray(
            np.broadcast_to((first[..., 0, :] if self.event else first[..., 0]) + shift, self.batch + self.event)
        )

    def var(self) -> Array:
        mean = self.mean()
        gap = self.means - (mean[..., None, :] if self.event else mean[..., None])
        return np.asarray(np.broadcast_to(self._mix(np.square(gap) + np.square(self._sd)), self.batch + self.event))

    def cov(self) -> Array:
        if not self.event:
            return self.var()[..., None, None]
        gap = self.means - self.mean()[..., None, :]
        shape = self.batch + self.event * 2
        weighted = np.broadcast_to(
            self.weights[..., None] * gap, np.broadcast_shapes(self.weights.shape + (1,), gap.shape)
        )
        between = np.swapaxes(weighted, -1, -2) @ np.broadcast_to(gap, weighted.shape)
        weights = np.broadcast_to(self.weights, np.broadcast_shapes(self.weights.shape, self.spreads.shape[:-2]))
        spreads = (
            np.where(weights[..., None, None] > 0, self.spreads, 0.0) if np.isinf(self.spreads).any() else self.spreads
        )
        # A shared covariance counts once; the weights sum to one.
        within = (
            self.spreads[..., 0, :, :]
            if self.spreads.shape[-3] == 1
            else np.sum(weights[..., None, None] * spreads, axis=-3)
        )
        return np.broadcast_to(between + within, shape)

    def quantile(self, q: float) -> Array:
        """Each component apart, by a bracketed root of the distribution function, to the last digits."""
        q = check_level("q", q)
        axis = -1 - len(self.event)
        used = np.broadcast_to(self._weights > 0, self._shape)
        sd, means = np.broadcast_to(self._sd, self._shape), np.broadcast_to(self.means, self._shape)
        z = float(special.ndtri(q))
        flat = np.isinf(sd) & used
        if not np.isfinite(z) or flat.any():
            lost = np.sum(np.where(flat, np.broadcast_to(self._weights, self._shape), 0.0), axis=axis)
            reach = np.where(np.isinf(sd) | (sd == 0), 0.0, 40.0 * np.where(np.isinf(sd), 0.0, sd))
            low, high = np.min(means - reach, axis=axis), np.max(means + reach, axis=axis)
        else:
            lost = np.zeros(self.batch + self.event)
            ends = means + np.where(sd > 0, sd * z, 0.0)
            low = np.min(np.where(used, ends, np.inf), axis=axis)
            high = np.max(np.where(used, ends, -np.inf), axis=axis)
        root = monotone_root(lambda x: self.cdf(x) - q, low, high)
        root = self._snap(root, sd, means, used, axis)
        smooth = np.any((sd > 0) & used, axis=axis)
        root = np.where((q < 0.5 * lost) | ((q == 0) & smooth), -np.inf, root)
        return np.where((q > 1 - 0.5 * lost) | ((q == 1) & smooth), np.inf, root)

    def upper_quantile(self, tail: float) -> Array:
        """The quantile of the mirrored mixture, mirrored back: a small chance keeps its digits where one minus it does not."""
        return -self._make(self.weights, -self.means, self.spreads, self.event, self.batch).quantile(tail)

    def cdf(self, at: Any) -> Array:
        return self._sum(_normal_cdf, at)

    def log_density(self, at: Any) -> Array:
        """Log density, infinite at an atom that has a chance."""
        at = np.asarray(at, dtype=np.float64)
        lead = at.shape[: max(0, at.ndim - len(self.batch) - len(self.event))]
        flat = at.reshape((-1,) + at.shape[len(lead) :]) if lead else at[None]
        step = max(1, _BLOCK // max(1, int(np.prod(self._shape))))
        blocks = [self._log_density(flat[i : i + step]) for i in range(0, len(flat), step)]
        joined = np.concatenate(blocks)
        return np.asarray(joined.reshape(lead + joined.shape[1:]))

    def mode(self, width: Any = 0.0) -> Array:
        """The highest point of the density, or centre of the best window: a scan of the components' range, refined.

        For more than a few thousand components the scan is thinned, so that a mode narrower than its step
        may be missed. For vectors the search starts from the components of the highest density.
        """
        width = check_width(width, self.event)
        centre = self.centre
        if centre is not None:
            return centre
        if self.event:
            from .modes import vector_mode

            found = [vector_mode(self.select(i), np.broadcast_to(width, self.event)) for i in np.ndindex(self.batch)]
            return np.stack(found).reshape(self.batch + self.event)
        return self._scalar_mode(float(width))

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        if not np.isfinite(self.var()).all():
            raise InputError(
                "A law of infinite variance cannot be sampled", "an infinite variance", "Use a proper prior"
            )
        draws = np.empty((size,) + self.batch + self.event)
        for index in np.ndindex(self.batch):
            one = self.select(index)
            pick = rng.choice(self.components, size=size, p=one.weights)
            means = np.broadcast_to(one.means, (self.components, *self.event))[pick]
            z = rng.standard_normal((size, *self.event))
            if self.event:
                lower = factor(one.spreads)
                lower = lower[0] if len(lower) == 1 else lower[pick]
                draws[(slice(None), *index)] = means + np.einsum("...ij,...j->...i", lower, z)
            else:
                sd = np.sqrt(one.spreads)
                draws[(slice(None), *index)] = means + (sd[0] if len(sd) == 1 else sd[pick]) * z
        return draws

    # -- expectations --------------------------------------------------------------------------------

    def expect(self, f: Callable[[Array], Array], at: Any = None) -> Value:
        """E f, component by component for numbers; for vectors quasi-Monte Carlo, over components too if they are many."""
        if self.event:
            return self._expect_vector(f)
        shape, m = self.batch, self.components
        weights = np.broadcast_to(self.weights, shape + (m,))
        means, sd = np.broadcast_to(self.means, shape + (m,)), np.broadcast_to(self._sd, shape + (m,))
        kinks = None
        if at is not None:
            kinks = np.asarray(at, dtype=np.float64)
            kinks = kinks if kinks.ndim > len(shape) else kinks[None]
            kinks = kinks[..., None]
        step = max(1, _BLOCK // (250 * max(1, int(np.prod(shape)))))
        value, error = np.zeros(shape), np.zeros(shape)
        for start in range(0, m, step):
            part = (Ellipsis, slice(start, start + step))

            def spread_out(theta: Array) -> Array:
                # f knows batches only, so components go along the axis of points.
                points, width = theta.shape[0], theta.shape[-1]
                moved = np.moveaxis(theta, -1, 1).reshape((points * width, *shape))
                seen = _shaped(f(moved), moved.shape).reshape((points, width, *shape))
                return np.moveaxis(seen, 1, -1)

            piece = normal_expectation(spread_out, means[part], sd[part], kinks)
            share = weights[part]
            value += np.sum(np.where(share > 0, share * np.where(share > 0, piece.value, 0.0), 0.0), axis=-1)
            error += np.sum(share * piece.error, axis=-1)
        return Value(value, error)

    def quadratic(self, weights: Any = 1.0) -> Value:
        if np.ndim(weights) == 0:
            var = self.var()
            return Value.exact(weights * (var.sum(axis=-1) if self.event else var))
        return Value.exact(trace_product(as_weight_matrix(weights, self.event), self.cov()))

    def below(self, at: Any) -> Value:
        return Value.exact(self._sum(lambda d, s: normal.positive_part(-d, s), at))

    def above(self, at: Any) -> Value:
        return Value.exact(self._sum(normal.positive_part, at))

    def power(self, at: Any, p: float, *, signed: bool = False) -> Value:
        return Value.exact(self._sum(lambda d, s: normal.power(d, s, p, signed=signed), at))

    def huber(self, at: Any, delta: float) -> Value:
        return Value.exact(self._sum(lambda d, s: normal.huber(d, s, delta), at))

    def outside(self, at: Any, width: Any) -> Value:
        width = check_width(width, self.event)
        if not self.event:
            return Value.exact(self._sum(lambda d, s: normal.outside(d, s, width), at))
        at = np.asarray(at, dtype=np.float64)
        piece = outside_box(self.means - at[..., None, :], self.spreads, width)
        value = np.sum(self.weights * piece.value, axis=-1)
        # The same points serve every component, so that their errors add up.
        error = np.sum(self.weights * piece.error, axis=-1)
        shape = np.broadcast_shapes(value.shape, self.batch)
        return Value(np.broadcast_to(value, shape), np.broadcast_to(error, shape))

    def log_mgf(self, t: float, *, centred: bool = False) -> Value:
        mean = self.mean()
        gap = self.means - (mean[..., None, :] if self.event else mean[..., None])
        half = 0.5 * t**2 * np.square(self._sd) if t else np.zeros(1)
        u = t * gap + half
        axis = -1 - len(self.event)
        top = np.max(np.where(np.broadcast_to(self._weights > 0, u.shape), u, -np.inf), axis=axis, keepdims=True)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            far = np.log(np.sum(self._weights * np.exp(np.minimum(u - top, 0.0)), axis=axis)) + np.squeeze(top, axis)
            near = np.log1p(np.minimum(self._mix(_expm1_less(np.minimum(u, 2.0))) + self._mix(half), 10.0))
        top = np.squeeze(top, axis)
        value = np.where(np.isinf(top), np.inf, np.where(top > 1.0, far, near))
        value = np.broadcast_to(value, self.batch + self.event)
        return Value.exact(value if centred else value + t * mean)

    def spread(self) -> Value:
        m = self.components
        weights = np.broadcast_to(self.weights, self.batch + (m,)).reshape(-1, m)
        columns = []
        for j in range(self.event[0] if self.event else 1):
            means, sd = (self.means[..., j], self._sd[..., j]) if self.event else (self.means, self._sd)
            means = np.broadcast_to(means, self.batch + (m,)).reshape(-1, m)
            sd = np.broadcast_to(sd, self.batch + (m,)).reshape(-1, m)
            columns.append(mean_difference(weights, means, sd).reshape(self.batch))
        return Value.exact(np.stack(columns, axis=-1) if self.event else columns[0])

    def entropy(self) -> Value:
        """Differential entropy: adaptive quadrature for numbers, quasi-Monte Carlo for vectors.

        Minus infinity if some component with a chance is a point mass.
        """
        if self.components == 1:
            if self.event:
                return Gaussian._make(self.mean(), self.spreads[..., 0, :, :], self.event).entropy()
            return Gaussian._make(self.mean(), self.spreads[..., 0], ()).entropy()
        used = np.broadcast_to(self.weights > 0, self._shape[: len(self.batch) + 1])
        if self.event:
            logs = np.diagonal(factor(np.where(np.isinf(self.spreads), 1.0, self.spreads)), axis1=-2, axis2=-1)
            atom = np.any(used & np.broadcast_to((logs == 0).any(axis=-1), used.shape), axis=-1)
        else:
            atom = np.any(used & np.broadcast_to(self.spreads == 0, used.shape), axis=-1)
        infinite = np.any(
            used & np.broadcast_to(np.isinf(self._sd).any(axis=-1) if self.event else np.isinf(self._sd), used.shape),
            axis=-1,
        )
        values, errors = np.empty(self.batch), np.zeros(self.batch)
        for index in np.ndindex(self.batch):
            if atom[index] or infinite[index]:
                values[index] = -np.inf if atom[index] else np.inf
                continue
            one = self.select(index)
            value = one.expect(lambda theta: -one.log_density(theta)) if self.event else one._scalar_entropy()  # noqa: B023
            values[index], errors[index] = value
        return Value(values, errors)

    # -- helpers -------------------------------------------------------------------------------------

    @cached_property
    def _sd(self) -> Array:
        """Standard deviations of the components, their event last."""
        return np.asarray(np.sqrt(np.diagonal(self.spreads, axis1=-2, axis2=-1) if self.event else self.spreads))

    @property
    def _weights(self) -> Array:
        return self.weights[..., None] if self.event else self.weights

    @property
    def _shape(self) -> tuple[int, ...]:
        return self.batch + (self.components,) + self.event

    def _mix(self, terms: Array) -> Array:
        """Weighted sum over components; one of weight zero counts for nothing, even if infinite."""
        weights = self._weights
        if not np.isfinite(terms).all():
            terms = np.where(np.broadcast_to(weights, np.broadcast_shapes(weights.shape, terms.shape)) > 0, terms, 0.0)
        if self.event:
            return np.asarray(np.sum(weights * terms, axis=-2))
        return np.asarray(np.einsum("...m,...m->...", *np.broadcast_arrays(weights, terms)))

    def _sum(self, g: Callable[[Array, Array], Array], at: Any) -> Array:
        """Sum over components of weight times g(mean - at, sd); extra leading axes of ``at`` go in blocks."""
        at = np.asarray(at, dtype=np.float64)
        inner = len(self.batch) + len(self.event)
        lead = at.shape[: max(0, at.ndim - inner)]

        def one(points: Array) -> Array:
            moved = points[..., None, :] if self.event else points[..., None]
            result = self._mix(g(self.means - moved, self._sd))
            return np.broadcast_to(result, np.broadcast_shapes(result.shape, self.batch + self.event))

        if self.event and at.ndim == 0:
            at = np.broadcast_to(at, self.event)
        size = int(np.prod(self._shape))
        if not lead or int(np.prod(lead)) * size <= _BLOCK:
            return np.asarray(one(at))
        flat = at.reshape((-1,) + at.shape[len(lead) :])
        step = max(1, _BLOCK // size)
        joined = np.concatenate([one(flat[i : i + step]) for i in range(0, len(flat), step)])
        return np.asarray(joined.reshape(lead + joined.shape[1:]))

    def _log_density(self, at: Array) -> Array:
        gap = (at[..., None, :] if self.event else at[..., None]) - self.means
        spreads = self.spreads if self.event else self.spreads[..., None, None]
        infinite = np.isinf(np.diagonal(spreads, axis1=-2, axis2=-1))
        lower = factor(np.where(np.isinf(spreads), 0.0, spreads))
        logs = triangular_log_density(gap if self.event else gap[..., None], lower, infinite)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(self.weights > 0, logs + np.log(self.weights), -np.inf)
            top = np.max(logs, axis=-1, keepdims=True)
            safe = np.where(np.isfinite(top), top, 0.0)
            total = np.log(np.sum(np.exp(np.minimum(logs - safe, 700.0)), axis=-1)) + safe[..., 0]
        return np.where(np.isposinf(top[..., 0]), np.inf, total)

    def _snap(self, root: Array, sd: Array, means: Array, used: Any, axis: int) -> Array:
        atoms = (sd == 0) & used
        if not atoms.any():
            return root
        gap = np.where(atoms, np.abs(means - np.expand_dims(root, axis)), np.inf)
        nearest = np.argmin(gap, axis=axis, keepdims=True)
        atom = np.squeeze(np.take_along_axis(means, nearest, axis=axis), axis)
        close = np.squeeze(np.take_along_axis(gap, nearest, axis=axis), axis) <= 1e-14 * np.abs(root) + 1e-300
        return np.where(close, atom, root)

    def _scalar_mode(self, width: float) -> Array:
        m, size = self.components, int(np.prod(self.batch))
        weights, means = np.broadcast_to(self.weights, self._shape), np.broadcast_to(self.means, self._shape)
        sd, used = np.broadcast_to(self._sd, self._shape), np.broadcast_to(self.weights > 0, self._shape)
        atoms = used & (sd == 0)
        low, high = np.min(np.where(used, means, np.inf), axis=-1), np.max(np.where(used, means, -np.inf), axis=-1)
        narrow = np.min(np.where(used & (sd > 0), sd, np.inf), axis=-1) + width
        with np.errstate(divide="ignore", invalid="ignore"):
            need = float(np.max(np.nan_to_num((high - low) / narrow, nan=0.0, posinf=0.0), initial=0.0)) * 3
        room = max(65, 20_000_000 // max(1, m * size))
        points = int(np.clip(need, 33, min(room, 4097)))
        grid = low + (high - low) * np.linspace(0, 1, points).reshape((-1,) + (1,) * len(self.batch))
        if m <= min(room, 2048):
            grid = np.concatenate([grid, np.moveaxis(means, -1, 0)])
        grid = np.sort(grid, axis=0)

        def badness(x: Array) -> Array:
            if width:
                return self.outside(x, width).value
            logs = np.asarray(self.log_density(x))
            return -np.where(np.isposinf(logs), -np.inf, logs)

        mode, _ = least_near(badness, grid, badness(grid), tries=3)
        if not width and atoms.any():
            # An atom has an infinite density: the heaviest one is the mode, equal ones added up.
            flat_m, flat_w = means.reshape(-1, m), np.where(atoms, weights, 0.0).reshape(-1, m)
            heavy = [_heaviest(x, w) for x, w in zip(flat_m, flat_w, strict=True)]
            mode = np.where(atoms.any(axis=-1), np.array(heavy).reshape(self.batch), mode)
        return np.asarray(mode)

    def _scalar_entropy(self) -> Value:
        return Sorted.of(
            self.weights, np.broadcast_to(self.means, self._shape), np.broadcast_to(self._sd, self._shape)
        ).entropy()

    def _expect_vector(self, f: Callable[[Array], Array]) -> Value:
        k, m = self.event[0], self.components
        if np.isinf(self.spreads).any():
            infinite = np.isinf(self.spreads)
            hit = np.broadcast_to((infinite.any(axis=(-2, -1)) & (self.weights > 0)).any(axis=-1), self.batch)
            return limit(
                lambda big: self._make(
                    self.weights, self.means, np.where(infinite, big**2, self.spreads), self.event, self.batch
                ).expect(f),
                hit,
            )
        lower = factor(self.spreads)
        per = 1024 if m <= 32 else 2048
        means = []
        for z in sobol_normal(k if m <= 32 else k + 1, per):
            if m <= 32:
                total: Any = 0.0
                for i in range(m):
                    root = lower[..., 0 if lower.shape[-3] == 1 else i, :, :]
                    centre = self.means[..., 0 if self.means.shape[-2] == 1 else i, :]
                    theta = centre + np.einsum(
                        "...ij,...j->...i", root, z.reshape((per,) + (1,) * len(self.batch) + (k,))
                    )
                    theta = np.broadcast_to(theta, (per,) + self.batch + self.event)
                    total = total + self.weights[..., i] * np.mean(_shaped(f(theta), theta.shape[:-1]), axis=0)
                means.append(np.broadcast_to(total, self.batch))
            else:
                # The first coordinate picks the component, the others place the point.
                chosen = special.ndtr(z[:, 0])
                theta = np.empty((per,) + self.batch + self.event)
                for index in np.ndindex(self.batch):
                    one = self.select(index)
                    pick = np.minimum(np.searchsorted(np.cumsum(one.weights), chosen), m - 1)
                    roots = factor(one.spreads)
                    roots = roots[0] if len(roots) == 1 else roots[pick]
                    theta[(slice(None), *index)] = one.means[pick] + np.einsum("...ij,...j->...i", roots, z[:, 1:])
                means.append(np.mean(_shaped(f(theta), theta.shape[:-1]), axis=0))
        return scrambled_mean(means)


def _normal_cdf(d: Array, s: Array) -> Array:
    """P(X <= 0) for X normal with mean d and sd s."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = -d / s
    if np.any(s == 0):
        z = np.where(s == 0, np.where(d <= 0, np.inf, -np.inf), z)
    return np.asarray(special.ndtr(z))


def _heaviest(x: Array, weights: Array) -> float:
    distinct, place = np.unique(x, return_inverse=True)
    mass = np.bincount(place.ravel(), weights=weights)
    return float(distinct[np.argmax(mass >= mass.max() * (1 - 1e-12))])
