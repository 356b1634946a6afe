"""A mixture of posteriors of any kind: an unknown row, an unknown mask, draws or nodes of the parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Index, as_float_array, check_finite, check_flag, check_integer
from ..errors import InputError
from ..numerics.roots import monotone_root
from ..protocols import Array, Posterior, Value
from .base import (
    BLOCK,
    BasePosterior,
    PartwisePosterior,
    as_weight_matrix,
    check_level,
    check_width,
    index_below_batch,
    trace_product,
)
from .drawn import long_run_error, spaced_places
from .finite import Finite
from .gaussian import Gaussian
from .modes import best_box_near, climb_box, highest_point, merge_values, most_probable
from .normal import expm1_less
from .normal_mixture import Normals

_FEW = 256
"""Parts that are few enough to search for a best box."""
_FEWER = 32
"""The same where the chance of leaving a box has no closed form."""
_SHIFTS = 12
"""Moves of a box to the mean of the draws inside, which climbs to where they are dense."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Mixture(PartwisePosterior):
    """A batch of mixtures; the parts are the laws along the last axis of another posterior's batch.

    Every expected loss at a given estimate is a weighted mean over the parts. Normal parts have closed forms for
    numbers, hundreds of thousands of them if need be; joint quantities of correlated normal vectors are quasi-Monte
    Carlo with their error. Finite parts and curves on one grid mix to a law of their own kind.

    With ``sampled`` the parts are the target's laws given draws of the parameters, and the error is that of a mean over
    draws: far smaller than from draws of the target itself (Rao and Blackwell; Gelfand and Smith, 1990). How the best
    estimate moves with the draws does not matter to first order (envelope theorem).

    Parameters
    ----------
    parts : posterior with batch ``batch + (m,)``
        `Gaussian`, `Finite`, `Curve`, another mixture, or any law derived from `BasePosterior`.
    weights : array ``(m,)`` or ``batch + (m,)``, optional
        Chances of the parts, or importance weights of draws; they need not sum to one. Equal if left out.
    sampled : bool, default False
        Whether the parts belong to draws of the parameters, so that their mean has an error.
    chains : int, optional
        How many Markov chains sampled parts come from, laid chain after chain. Errors then allow for autocorrelation,
        as in `Drawn`. Without it draws count as independent.

    Examples
    --------
    >>> Mixture(Gaussian.scalar([-1.0, 1.0], 1.0)).quadratic().value
    array(2.)
    >>> means = np.random.default_rng(1).normal(size=4000)
    >>> value, error = Mixture(Gaussian.scalar(means, 99.0), sampled=True).quadratic()
    >>> bool(abs(value - 100) < 4 * error), bool(error < 0.05)
    (True, True)
    """

    parts: BasePosterior
    weights: Array
    """Weights that sum to one, ``(m,)`` or ``batch + (m,)``."""
    sampled: bool
    chains: int | None
    uncertain: float
    """Share of the mass that the parts leave uncertain, beside the error of draws."""

    def __init__(
        self,
        parts: BasePosterior,
        weights: ArrayLike | None = None,
        *,
        sampled: bool = False,
        chains: int | None = None,
    ) -> None:
        sampled = check_flag("sampled", sampled, "Say whether the parts belong to draws of the parameters")
        if not isinstance(parts, BasePosterior) or not parts.batch or parts.batch[-1] < (2 if sampled else 1):
            raise InputError(
                "parts must be a posterior with batch (m,), one law for each of at least two draws if they are sampled",
                f"batch {parts.batch}" if isinstance(parts, BasePosterior) else type(parts).__name__,
                "Use Drawn for plain draws, Gaussian.scalar(means, variances) for normal parts",
            )
        count = parts.batch[-1]
        if chains is not None:
            chains = check_integer("chains", chains, low=1)
            if not sampled or count % chains:
                what = f"chains must divide the {count} draws, and only sampled parts have chains"
                raise InputError(what, chains, "Lay chains of one length end to end, and write sampled=True")
        self.__dict__.update(vars(self._of_parts(parts, _normalise_weights(weights, parts.batch), sampled, chains)))

    @classmethod
    def _of_parts(
        cls,
        parts: BasePosterior,
        weights: Array,
        sampled: bool = False,
        chains: int | None = None,
        uncertain: float = 0.0,
    ) -> Mixture:
        own = {"parts": parts, "weights": weights, "sampled": sampled, "chains": chains, "uncertain": uncertain}
        return cls._of(**own, batch=parts.batch[:-1], event=parts.event)

    def __repr__(self) -> str:
        how = "" if self.chains is None else f", chains={self.chains}"
        how = (", sampled=True" if self.sampled else "") + how
        how = f"{how}, batch={self.batch}, event={self.event}" + (f", trouble={self.trouble!r}" if self.trouble else "")
        return f"Mixture({type(self.parts).__name__}, parts={self.count}{how})"

    def less_certain(self, more: float) -> Mixture:
        """The same law with another share of its mass uncertain."""
        return self._of_parts(self.parts, self.weights, self.sampled, self.chains, self.uncertain + more)

    # -- shape and place -------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many parts there are."""
        return self.parts.batch[-1]

    @property
    def support(self) -> Array | None:
        """The values of finite parts, otherwise None."""
        return self.parts.support

    @property
    def centre(self) -> Array | None:
        """The common centre of the parts, if they have one."""
        centres = self.parts.centre
        if centres is None or (self.count > 1 and np.ptp(centres, axis=self._parts_axis).any()):
            return None
        return np.take(centres, 0, axis=self._parts_axis)

    def recentred(self) -> Mixture:
        """Normal parts moved so that the mean is zero; itself otherwise."""
        return self._centred_at_mean

    def select(self, index: Index) -> Mixture:
        if not self.batch:
            super().select(index)
            return self
        weights = np.broadcast_to(self.weights, self.parts.batch)[index_below_batch(index)]
        parts = self.parts.select(index_below_batch(index))
        return self._of_parts(parts, weights, self.sampled, self.chains, self.uncertain)

    def mixed(self, weights: Array) -> Mixture:
        """All parts of all mixtures along the last axis, in one mixture."""
        count = self.batch[-1] * self.count
        shape = self.batch[:-1] + (count,)
        joined = (weights[..., None] * np.broadcast_to(self.weights, self.parts.batch)).reshape(shape)
        places = np.unravel_index(np.arange(int(np.prod(self.parts.batch))).reshape(shape), self.parts.batch)
        return self._of_parts(self.parts.select(places), joined)

    # -- summaries -------------------------------------------------------------------------------------

    def mean(self) -> Array:
        means = self.parts.mean()
        # About the first, so that a far location costs no digits.
        first = np.take(means, [0], axis=self._parts_axis)
        return np.asarray(np.squeeze(first, self._parts_axis) + self._weighted_sum(means - first))

    def var(self) -> Array:
        return self._weighted_sum(self._part_squares)

    def cov(self) -> Array:
        if not self.event:
            return self.var()[..., None, None]
        weighted = self.weights[..., None] * self._part_means_less_mean
        between = np.swapaxes(weighted, -1, -2) @ np.broadcast_to(self._part_means_less_mean, weighted.shape)
        return between + self._weighted_sum(self.parts.cov(), inner=2)

    def quantile(self, q: float) -> Array:
        """Each component apart, by a bracketed root of the distribution function, to the last digits."""
        if self._as_one_law is not None:
            return self._as_one_law.quantile(q)
        level, used = check_level("q", q), self._has_weight
        ends = self.parts.quantile(q)
        low = np.min(np.where(used, ends, np.inf), axis=self._parts_axis)
        high = np.max(np.where(used, ends, -np.inf), axis=self._parts_axis)
        if level in (0.0, 1.0):
            return np.asarray(low if level == 0 else high)
        if self._as_points is not None:
            return self._as_points.quantile(level)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            return super().quantile(q)
        return self._snap_to_atom(monotone_root(lambda x: self.cdf(x) - level, low, high))

    def upper_quantile(self, tail: float) -> Array:
        """For normal parts the quantile of the mirrored mixture: a small chance keeps its digits."""
        if self._normal_parts is None:
            return super().upper_quantile(tail)
        return -self._of_parts(self._normal_parts.mirrored(), self.weights).quantile(tail)

    def cdf(self, at: ArrayLike) -> Array:
        if self._as_one_law is not None:
            return self._as_one_law.cdf(at)
        return self._in_blocks(lambda a: (self._weighted_sum(self.parts.cdf(a)),), at)[0]

    def log_density(self, at: ArrayLike) -> Array:
        """Log density, infinite at an atom that has a chance."""
        if self._as_one_law is not None:
            return self._as_one_law.log_density(at)
        return self._in_blocks(lambda a: (self._log_density(a),), at, joint=True)[0]

    def mode(self, width: ArrayLike = 0.0) -> Array:
        """The highest point of the density, or centre of the best window: a scan of the parts' range, refined.

        For more than a few thousand parts the scan is thinned, so that a mode narrower than its step may be missed. For
        vectors the search starts from the parts of the highest density.
        """
        if self._as_one_law is not None:
            return self._as_one_law.mode(width)
        if self.sampled:
            # Errors on the way would only cost time.
            return self._of_parts(self.parts, self.weights).mode(width)
        mode = super().mode(width)
        if self.event or np.any(width) or self.centre is not None:
            return mode
        # An atom has an infinite density: the heaviest one is the mode, equal ones added up.
        chances = np.where(self._point_masses, self.weights, 0.0).reshape(-1, self.count)
        means = np.broadcast_to(self.parts.mean(), self.parts.batch).reshape(-1, self.count)
        heavy = [most_probable(*merge_values(x, w), np.zeros(())) for x, w in zip(means, chances, strict=True)]
        return np.where(self._point_masses.any(axis=-1), np.reshape(heavy, self.batch), mode)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        if self._as_one_law is not None:
            return self._as_one_law.sample(size, rng)
        draws = np.empty((size,) + self.batch + self.event)
        weights = np.broadcast_to(self.weights, self.parts.batch)
        for index in np.ndindex(self.batch):
            pick = rng.choice(self.count, size=size, p=weights[index])
            draws[(slice(None), *index)] = self.parts.select((*index, pick)).sample(1, rng)[0]
        return draws

    def thinned_sample(self, size: int, rng: np.random.Generator) -> Array:
        if self.chains is None or self.count < size or np.ptp(self.weights) > 0:
            return self.sample(size, rng)
        return self.parts.select((..., spaced_places(self.count, size, rng))).sample(1, rng)[0]

    def over_draws(
        self, at: Callable[[Array], Array], given: Callable[[Posterior], Array], size: int, rng: np.random.Generator
    ) -> Array | None:
        if not self.sampled:
            return None
        # As independent as they come, by their weights: of a chain those far apart, and none twice.
        even = np.ptp(self.weights) == 0
        places = (
            spaced_places(self.count, min(size, self.count), rng)
            if even
            else rng.choice(self.count, size=size, p=self.weights)
        )
        index: tuple[slice | NDArray[np.intp], ...] = (*[slice(None)] * len(self.batch), places)
        return given(self.parts.select(index))

    # -- expectations ----------------------------------------------------------------------------------

    def through(self, ask: Callable[[Posterior, Array], Value], f: Callable[[Array], Array], at: ArrayLike) -> Value:
        return self.ask_parts(ask, at, joint=True)

    def expect(self, f: Callable[[Array], Array], at: ArrayLike | None = None) -> Value:
        """E f given each part: on nodes that all share where they can, otherwise part by part."""
        if self._as_one_law is not None and not self.sampled:
            return self._as_one_law.expect(f, at)
        if self._as_normals is not None:
            cuts = None if at is None else np.ravel(np.asarray(at, dtype=np.float64))
            found = self._as_normals.expect(f, cuts, 1e-8 if self.sampled else 1e-12)
            if found is not None:
                return self._on_points(found)
        step = max(1, BLOCK // (250 * max(1, int(np.prod(self.batch)))))
        if self.count <= step:
            return self._mean_with_error(*self.parts.expect_last(f, at), joint=True)
        parts = [
            self.parts.select((..., slice(start, start + step))).expect_last(f, at)
            for start in range(0, self.count, step)
        ]
        return self._mean_with_error(*Value.joined(parts, axis=-1), joint=True)

    def quadratic(self, weights: ArrayLike = 1.0) -> Value:
        if np.ndim(weights) == 0:
            square = self._part_squares.sum(axis=-1) if self.event else self._part_squares
            return self._mean_with_error(float(np.asarray(weights)) * square, 0.0, joint=True)
        matrix = as_weight_matrix(weights, self.event)
        gap = self._part_means_less_mean if self.event else self._part_means_less_mean[..., None]
        between = np.einsum("...i,ij,...j->...", gap, matrix, gap)
        return self._mean_with_error(between + trace_product(matrix, self.parts.cov()), 0.0, joint=True)

    def power(self, at: ArrayLike, p: float, *, signed: bool = False) -> Value:
        if p == 1 and not signed and self.support is None:
            # Two tails cost far less than Kummer's function.
            return self.ask_parts(
                lambda law, a: Value(*map(np.add, law.lower_partial_moment(a), law.upper_partial_moment(a))), at
            )
        return super().power(at, p, signed=signed)

    def outside(self, at: ArrayLike, width: ArrayLike) -> Value:
        width = check_width(width, self.event)
        if self._as_normals is None or not self._as_normals.needs_cubature:
            return self.ask_parts(lambda law, a: law.outside(a, width), at, joint=True)
        lead, rows = self._rows(at)
        wide = np.broadcast_to(width, self.event)
        found = [self._on_points(self._as_normals.outside(row, wide)) for row in rows]
        return Value.stacked(found).reshaped(*lead)

    def log_mgf(self, t: float, *, centred: bool = False) -> Value:
        inner, gap = self.parts.log_mgf(t, centred=True).value, t * np.nan_to_num(self._part_means_less_mean, nan=0.0)
        value = (
            self._log_mgf(inner, gap) if self._as_one_law is None else self._as_one_law.log_mgf(t, centred=True).value
        )
        error = np.zeros(value.shape)
        if self.sampled:
            with np.errstate(over="ignore", invalid="ignore"):
                tilt = np.exp(np.minimum(inner + gap - np.expand_dims(value, self._parts_axis), 700.0))
            # To first order the error is that of the tilted weights, less that of the mean if it is taken out.
            error = self._mean_with_error(np.nan_to_num(tilt) - (gap if centred else 0.0), 0.0).error
        error = self._with_uncertain_mass(Value(value, np.where(np.isfinite(value), error, 0.0))).error
        return Value(value if centred else value + t * np.where(np.isinf(value), 0.0, self.mean()), error)

    def mean_difference(self) -> Value:
        """E |theta - theta'|; of sampled parts with the error of its projection (Hoeffding, 1948)."""
        found = self._answer_as_if_exact(lambda law: law.mean_difference(), super().mean_difference, self.event)
        if not self.sampled:
            return self._with_uncertain_mass(found)

        def distance(x: Array) -> Array:
            # E |x - theta| but for a constant.
            return (
                2 * self._in_blocks(lambda a: (self._weighted_sum(self.parts.lower_partial_moment(a).value),), x)[0] - x
            )

        series = self._means_of_smooth_function(distance)
        error = np.hypot(2 * self._mean_with_error(series, 0.0).error, found.error)
        return Value(found.value, np.where(np.isfinite(found.value), error, 0.0))

    def entropy(self) -> Value:
        """Entropy of the mixture; of sampled parts with the error of the mean of -log density given each draw."""
        found = self._answer_as_if_exact(lambda law: law.entropy(), super().entropy, ())
        if not self.sampled or not np.isfinite(found.value).all():
            return found
        if self.support is None and self.event:
            return found if self._as_normals is None else self._on_points(self._as_normals.minus_log_density())
        series = self._means_of_smooth_function(lambda x: -np.maximum(self.log_density(x), -700.0), joint=True)
        return Value(found.value, np.hypot(self._mean_with_error(series, 0.0, joint=True).error, found.error))

    # -- helpers ---------------------------------------------------------------------------------------

    @property
    def _parts_axis(self) -> int:
        """Axis of the parts in what they answer."""
        return -1 - len(self.event)

    @cached_property
    def _normal_parts(self) -> Gaussian | None:
        """The parts if they are normal, for which there are quicker ways."""
        return self.parts if isinstance(self.parts, Gaussian) else None

    @cached_property
    def _as_normals(self) -> Normals | None:
        return None if self._normal_parts is None or self.batch else Normals(self.weights, self._normal_parts)

    @cached_property
    def _as_one_law(self) -> BasePosterior | None:
        """The mixture as one law of a kind that mixing keeps, without the error of sampled parts."""
        return self.parts.mixed(self.weights)

    @cached_property
    def _as_points(self) -> Finite | None:
        """The law of a number whose parts are point masses, however far apart they lie."""
        if self._normal_parts is None or self.batch or self.event or self._normal_parts.var().any():
            return None
        return Finite.of(np.broadcast_to(self._normal_parts.mean(), self.parts.batch), self.weights)

    @cached_property
    def _centred_at_mean(self) -> Mixture:
        # Kept, so that what it works out serves more than one loss.
        if self._normal_parts is None:
            return self
        parts = self._normal_parts.moved(-np.expand_dims(self.mean(), self._parts_axis))
        return self._of_parts(parts, self.weights, self.sampled, self.chains, self.uncertain)

    @cached_property
    def _part_means_less_mean(self) -> Array:
        with np.errstate(invalid="ignore"):  # parts without a mean
            return self.parts.mean() - np.expand_dims(self.mean(), self._parts_axis)

    @property
    def _part_squares(self) -> Array:
        """Mean squares of the parts about the mean of all; infinite where there is no mean."""
        with np.errstate(over="ignore"):  # parts of a law without variance
            square = np.square(self._part_means_less_mean) + self.parts.var()
        return np.where(np.isnan(square), np.inf, square)

    @property
    def _has_weight(self) -> NDArray[np.bool_]:
        used = np.broadcast_to(self.weights > 0, self.parts.batch)
        return used[..., None] if self.event else used

    @cached_property
    def _point_masses(self) -> NDArray[np.bool_]:
        """Parts that are point masses and have a chance, each component apart."""
        return self._has_weight & (self.parts.var() == 0)

    @cached_property
    def _location_and_scale(self) -> tuple[Array, Array]:
        middle, var = self.parts.quantile(0.5), self.parts.var()
        sd = np.sqrt(np.max(np.where(np.isfinite(var) & self._has_weight, var, 0.0), axis=self._parts_axis))
        return np.median(middle, axis=self._parts_axis), sd

    def _weighted_sum(self, terms: Array, inner: int | None = None) -> Array:
        """Weighted sum over parts, ``inner`` axes behind theirs; weight zero counts for nothing, even if infinite."""
        inner = len(self.event) if inner is None else inner
        weights = self.weights.reshape(self.weights.shape + (1,) * inner)
        if not np.isfinite(terms).all():
            terms = np.where(weights > 0, terms, 0.0)
        if inner:
            return np.asarray(np.sum(weights * terms, axis=-1 - inner))
        return np.asarray(np.einsum("...m,...m->...", *np.broadcast_arrays(weights, terms)))

    def _mean_with_error(self, series: Array, own: ArrayLike, *, joint: bool = False) -> Value:
        """Weighted mean of one value per part with its error.

        ``own`` is the error that the values have themselves; parts share it, so that it adds up.
        """
        inner = 0 if joint else len(self.event)
        mean = self._weighted_sum(series, inner)
        error = self._weighted_sum(np.asarray(own), inner) if np.any(own) else np.zeros(mean.shape)
        if self.sampled:
            weights = (self.weights * self.count).reshape(self.weights.shape + (1,) * inner)
            with np.errstate(invalid="ignore"):
                # Residuals of a ratio estimator; with equal weights they are plain deviations.
                residual = (series - np.expand_dims(mean, -1 - inner)) * weights
            error = np.hypot(long_run_error(np.moveaxis(residual, -1 - inner, 0), self.chains), error)
            error = np.where(np.isfinite(mean), error, 0.0)
        return self._with_uncertain_mass(Value(mean, np.asarray(error)))

    def _with_uncertain_mass(self, found: Value) -> Value:
        if not self.uncertain:
            return found
        more = np.where(np.isfinite(found.value) & (found.value != 0), self.uncertain, 0.0)
        return Value(found.value, found.error + more * np.where(more > 0, np.abs(found.value), 0.0))

    def _on_points(self, found: Value) -> Value:
        """The mean over parts of answers on shared points, of which the error of the mean is known."""
        settled = self._mean_with_error(found.value, 0.0, joint=True)
        return settled if self.sampled else Value(settled.value, settled.error + found.error)

    def ask_parts(self, ask: Callable[[Posterior, Array], Value], at: ArrayLike, *, joint: bool = False) -> Value:
        def one(a: Array) -> Value:
            return self._mean_with_error(*ask(self.parts, a), joint=joint)

        return Value(*self._in_blocks(one, at, joint=joint))

    def _in_blocks(
        self, ask: Callable[[Array], tuple[Array, ...]], at: ArrayLike, *, joint: bool = False
    ) -> tuple[Array, ...]:
        """Answers for ``at`` with an axis for the parts; leading axes go in blocks."""
        at = np.asarray(at, dtype=np.float64)
        if at.ndim < len(self.event):
            at = np.broadcast_to(at, self.event)
        lead = at.shape[: max(0, at.ndim - len(self.batch) - len(self.event))]
        size = int(np.prod(self.parts.batch + self.event))
        out = self.batch + (() if joint else self.event)
        if not lead or int(np.prod(lead)) * size <= BLOCK:
            return tuple(np.broadcast_to(a, lead + out) for a in ask(np.expand_dims(at, at.ndim - len(self.event))))
        flat = at.reshape((-1,) + at.shape[len(lead) :])
        step = max(1, BLOCK // size)
        blocks = [
            ask(np.expand_dims(flat[i : i + step], flat.ndim - len(self.event))) for i in range(0, len(flat), step)
        ]
        return tuple(np.concatenate(b).reshape(lead + out) for b in zip(*blocks, strict=True))

    def _log_density(self, at: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(self.weights > 0, self.parts.log_density(at) + np.log(self.weights), -np.inf)
            top = np.max(logs, axis=-1, keepdims=True)
            safe = np.where(np.isfinite(top), top, 0.0)
            total = np.log(np.sum(np.exp(np.minimum(logs - safe, 700.0)), axis=-1)) + safe[..., 0]
        return np.where(np.isposinf(top[..., 0]), np.inf, total)

    def _log_mgf(self, inner: Array, gap: Array) -> Array:
        """Log of the mean of exp(inner + gap), where the mean of ``gap`` is zero."""
        u = gap + inner
        top = np.max(np.where(self._has_weight, u, -np.inf), axis=self._parts_axis)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            far = np.log(self._weighted_sum(np.exp(np.minimum(u - np.expand_dims(top, self._parts_axis), 0.0)))) + top
            near = np.log1p(
                np.minimum(self._weighted_sum(expm1_less(np.minimum(u, 2.0))) + self._weighted_sum(inner), 10.0)
            )
        return np.where(np.isinf(top), np.inf, np.where(top > 1.0, far, near))

    def _snap_to_atom(self, root: Array) -> Array:
        """A root that misses an atom by rounding is the atom."""
        if not self._point_masses.any():
            return root
        means = self.parts.mean()
        gap = np.where(self._point_masses, np.abs(means - np.expand_dims(root, self._parts_axis)), np.inf)
        nearest = np.argmin(gap, axis=self._parts_axis, keepdims=True)
        atom, off = (
            np.squeeze(np.take_along_axis(a, nearest, axis=self._parts_axis), self._parts_axis) for a in (means, gap)
        )
        return np.where(off <= 1e-14 * np.abs(root) + 1e-300, atom, root)

    def _mode_candidates(self, half_width: float) -> Array:
        # The density of parts with one peak each rises towards their peaks.
        peaks, sd, used = self.parts.mode(half_width), np.sqrt(self.parts.var()), self._has_weight
        low, high = np.min(np.where(used, peaks, np.inf), axis=-1), np.max(np.where(used, peaks, -np.inf), axis=-1)
        narrow = np.min(np.where(used & (sd > 0), sd, np.inf), axis=-1) + half_width
        with np.errstate(divide="ignore", invalid="ignore"):
            need = float(np.max(np.nan_to_num((high - low) / narrow, nan=0.0, posinf=0.0), initial=0.0)) * 3
        room = max(65, 20_000_000 // max(1, int(np.prod(self.parts.batch))))
        points = int(np.clip(need, 33, min(room, 4097)))
        grid = low + (high - low) * np.linspace(0, 1, points).reshape((-1,) + (1,) * len(self.batch))
        if self.count <= min(room, 2048):
            grid = np.concatenate([grid, np.moveaxis(peaks, -1, 0)])
        return np.sort(grid, axis=0)

    def _vector_mode(self, index: tuple[int, ...], width: Array) -> Array:
        one = self.select(index)
        peaks = one.parts.mode(width)
        if not width.any():
            return highest_point(one, peaks, one.weights)
        cubature = self._as_normals is not None and self._as_normals.needs_cubature
        if self.sampled or self.count > (_FEWER if cubature else _FEW):
            # A box that draws found is off by their chance, and so holds less than the best: its own draws' mean and
            # the law's mean, which are not, are tried too.
            draws = one.sample(8192, np.random.default_rng(20020501))
            box = climb_box(draws, np.full(len(draws), 1.0 / len(draws)), width)
            tried = [box, one.mean()]
            for _ in range(_SHIFTS):
                inside = np.all(np.abs(draws - box) <= width, axis=1)
                box = draws[inside].mean(axis=0) if inside.any() else box
            tried = [at for at in (*tried, box) if np.isfinite(at).all()]
            return np.asarray(tried[int(np.argmin([float(one.outside(at, width).value) for at in tried]))])
        return best_box_near(one, peaks, width, tries=1 if cubature else 8)

    def _answer_as_if_exact(
        self,
        ask: Callable[[BasePosterior | Normals], Value],
        by_definition: Callable[[], Value],
        event: tuple[int, ...],
    ) -> Value:
        """The answer as if parts were not sampled: of the one law that they mix to, or of normal parts together."""
        if self._as_one_law is not None:
            return ask(self._as_one_law)
        if self._normal_parts is None:
            return by_definition()
        mixtures = (self.select(i)._as_normals for i in np.ndindex(self.batch))
        found = [ask(normals) for normals in mixtures if normals is not None]
        return Value.stacked(found).reshaped(*self.batch, *event)

    def _means_of_smooth_function(self, smooth: Callable[[Array], Array], *, joint: bool = False) -> Array:
        """Mean of a smooth function under each part, each coordinate apart, to the few digits that an error needs."""
        if self._as_normals is not None:
            return self._as_normals.means_of_smooth_function(smooth)
        if joint or not self.event:
            return self.parts.expect_last(smooth).value
        columns = [lambda t, j=j: smooth(t)[..., j] for j in range(self.event[0])]  # type: ignore[misc]
        return np.stack([self.parts.expect_last(f).value for f in columns], axis=-1)


def _normalise_weights(weights: ArrayLike | None, batch: tuple[int, ...]) -> Array:
    """Weights of parts divided by their sum."""
    if weights is None:
        return np.full(batch[-1], 1.0 / batch[-1])
    array = check_finite("weights", as_float_array("weights", weights))
    if array.ndim == 0 or array.ndim > len(batch) or array.shape != batch[len(batch) - array.ndim :]:
        what = f"weights must have shape {batch[-1:]}" + (f" or {batch}" if len(batch) > 1 else "")
        raise InputError(what, f"shape {array.shape}", "Give one weight per part")
    top = array.max(axis=-1, keepdims=True)
    if np.any(array < 0) or not top.all():
        raise InputError("weights must not be negative, nor all zero", float(array.min()), "Give one weight per part")
    array = array / top  # the sum of large weights would be infinite
    return np.asarray(array / array.sum(axis=-1, keepdims=True))
