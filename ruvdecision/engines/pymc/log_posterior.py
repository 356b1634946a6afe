"""The log posterior of the parameters after each of several releases, at many points at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...channels.likelihood import ReleaseLikelihood
from ...errors import UnsupportedError
from ...protocols import Array
from .marginal import marginal_likelihood, marginal_likelihood_class, why_records_are_dependent
from .marginal_base import MarginalLikelihood
from .model import CompiledModel, ModelValues
from .normal_records import NormalMarginal
from .support import SupportMap

AWAY = 3.0
"""How far below the largest log posterior a point still counts in full."""
GROUPS = 32
"""Different sizes of noise in one release up to which sums stand for the records."""


@dataclass(frozen=True, eq=False)
class LogPosteriors:
    """Log posteriors after L releases."""

    compiled: CompiledModel
    observed: tuple[ReleaseLikelihood, ...]

    @property
    def marginalization(self) -> str:
        """How the records were integrated out, in words."""
        return NormalMarginal.name

    @property
    def support_maps(self) -> tuple[SupportMap, ...]:
        """The ends between which the model's records lie, for laws that are not normal."""
        return ()

    def evaluate(self, u: Array) -> tuple[Array, ModelValues]:
        """Log posteriors at points ``(L, S, d)`` on the unconstrained scale, ``(L, S)``, up to a constant of each.

        Also what else the model says at the points, release after release.
        """
        releases, count, size = u.shape
        at = self.compiled.reduced_model.values_at(u.reshape(releases * count, size), normal=self._by_moments)
        with np.errstate(all="ignore"):
            logs = at.log_prior.reshape(releases, count) + self._log_likelihood(at, (releases, count))
        logs[np.isnan(logs)] = -np.inf
        return logs, at

    @property
    def record_nodes(self) -> int:
        """Nodes of a record, where it is summed over nodes."""
        return 0

    @property
    def has_edges(self) -> bool:
        """Whether the likelihood of a record jumps or bends, as the posterior then may where the scale is near zero."""
        columns = [column for release in self.observed for column in release.columns]
        ends = [np.isfinite(column.support_bounds).any(axis=0) & (column.low < column.high) for column in columns]
        return any(np.isfinite(c.cuts).any() or own.any() for c, own in zip(columns, ends, strict=True))

    def refinement_error(self, u: Array) -> float:
        """How far finer nodes for the records would move the log posterior at points ``(S, d)``."""
        return 0.0

    def refined(self) -> LogPosteriors:
        """The same with twice as many nodes for the records, where they are summed over nodes."""
        return self

    def take(self, some: Sequence[int]) -> LogPosteriors:
        """Some of the releases."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.observed)

    _by_moments = False

    def _log_likelihood(self, at: ModelValues, shape: tuple[int, int]) -> Array:
        """``(L, S)``, for parameters laid out release after release."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class NormalPosteriors(LogPosteriors):
    """Normal records of one law with normal noise.

    A mean and a sum of squares say all, for each size of noise and column.
    """

    noise: Array
    """``(L, k, g)`` variances of the noise."""
    counts: Array
    means: Array
    squares: Array
    _by_moments = True

    def _log_likelihood(self, at: ModelValues, shape: tuple[int, int]) -> Array:
        assert at.normal is not None
        total = np.zeros(shape)
        for j in range(self.noise.shape[1]):
            # A record's moments are (L S, 1) for numbers, (L S, 1, k) for vectors.
            own = [(a[:, 0, min(j, a.shape[2] - 1)] if a.ndim == 3 else a[:, 0]) for a in at.normal]
            mean, variance = (np.broadcast_to(a, (shape[0] * shape[1],)).reshape(shape) for a in own)
            for g in range(self.noise.shape[2]):
                count = self.counts[:, j, g, None]
                if not count.any():
                    continue
                # In place, where arrays are large: memory costs more than sums.
                wide = variance + self.noise[:, j, g, None]
                part = self.means[:, j, g, None] - mean
                part *= part
                part *= count
                part += self.squares[:, j, g, None]
                part /= wide
                np.log(wide, out=wide)
                wide *= count
                part += wide
                part *= 0.5
                total -= part
        return total

    def take(self, some: Sequence[int]) -> NormalPosteriors:
        own = list(some)
        return NormalPosteriors(
            self.compiled,
            tuple(self.observed[i] for i in own),
            *(a[own] for a in (self.noise, self.counts, self.means, self.squares)),
        )


@dataclass(frozen=True, eq=False)
class OnePosterior(LogPosteriors):
    """Any other law, after one release."""

    likelihood: MarginalLikelihood

    @property
    def marginalization(self) -> str:
        return self.likelihood.name

    @property
    def support_maps(self) -> tuple[SupportMap, ...]:
        return tuple(grid.support_map for grid in self.likelihood.grids)

    @property
    def record_nodes(self) -> int:
        return len(self.likelihood.data["nodes"]) if self.likelihood.on_grid else 0

    def _log_likelihood(self, at: ModelValues, shape: tuple[int, int]) -> Array:
        return self.likelihood.log_likelihood(at.theta)[None]

    def take(self, some: Sequence[int]) -> OnePosterior:
        return self

    def refinement_error(self, u: Array) -> float:
        if not u.size:
            # A model without parameters.
            return self.likelihood.refinement_error(self.compiled.reduced_model.on_natural_scale(u))
        logs = self.evaluate(u[None])[0][0]
        with np.errstate(invalid="ignore"):
            # Where hardly any of the posterior is, a law narrower than the nodes does no harm.
            weight = np.exp(np.minimum(logs - logs.max() + AWAY, 0.0))
        return self.likelihood.refinement_error(self.compiled.reduced_model.on_natural_scale(u), weight)

    def refined(self) -> OnePosterior:
        return replace(self, likelihood=self.likelihood.refined)


def log_posteriors(
    compiled: CompiledModel, observed: Sequence[ReleaseLikelihood]
) -> list[tuple[list[int], LogPosteriors]]:
    """Releases sorted into groups that are worked on together, with their positions."""
    one_law = compiled.one_record_model is not None
    sums: dict[int, Array] = {}
    alone: list[tuple[list[int], LogPosteriors]] = []
    for i, release in enumerate(observed):
        reason = why_records_are_dependent(compiled, release)
        if reason:
            raise UnsupportedError(
                f"Quadrature needs records that can be integrated out: {reason}", do="Use engine=ruv.Sampling()"
            )
        found = (
            _sufficient_statistics(release)
            if one_law and marginal_likelihood_class(compiled, release) is NormalMarginal
            else None
        )
        if found is not None:
            sums[i] = found
        else:
            alone.append(([i], OnePosterior(compiled, (release,), marginal_likelihood(compiled, release))))
    if not sums:
        return alone
    stacked = np.moveaxis(_stack_padded(list(sums.values())), 2, 0)
    return [(list(sums), NormalPosteriors(compiled, tuple(observed[i] for i in sums), *stacked)), *alone]


def _sufficient_statistics(observed: ReleaseLikelihood) -> Array | None:
    """Noise variances, counts, means and sums of squares of each column, ``(k, 4, g)``.

    None if records have too many sizes of noise.
    """
    columns: list[Array] = []
    for column in observed.columns:
        assert column.normal is not None
        y, noise = column.normal
        released = np.isfinite(noise)
        if not released.all():
            y, noise = y[released], noise[released]
        if not len(y):
            columns.append(np.zeros((4, 1)))
            continue
        if (noise == noise[0]).all():
            middle = y.mean()
            columns.append(np.array([[noise[0]], [len(y)], [middle], [np.square(y - middle).sum()]]))
            continue
        each, place = np.unique(noise, return_inverse=True)
        if len(each) > GROUPS:
            return None
        counts = np.bincount(place).astype(float)
        means = np.bincount(place, weights=y) / counts
        squares = np.bincount(place, weights=np.square(y - means[place]))
        columns.append(np.array([each, counts, means, squares]))
    return _stack_padded(columns)


def _stack_padded(parts: Sequence[Array]) -> Array:
    """Arrays on top of each other, filled up with zeros to the width of the widest: groups that hold nobody."""
    width = max(part.shape[-1] for part in parts)
    if all(part.shape[-1] == width for part in parts):
        return np.array(parts)
    found = np.zeros((len(parts), *parts[0].shape[:-1], width))
    for row, part in zip(found, parts, strict=True):
        row[..., : part.shape[-1]] = part
    return found
