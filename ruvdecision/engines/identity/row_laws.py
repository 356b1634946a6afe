"""Which place of the file is a respondent's: the weight p(known | release, place) of every place.

Records are exchangeable and the place J of the respondent is uniform, so the release alone says nothing about J, and

    P(J = i | release, known) is proportional to p(known | release, J = i).

With a known population and records masked apart that is f(y_i | known) / f(y_i). With an unknown one (a normal mean, a
finite state) the other rows tell about it, and the formula integrates it out: it is Bayes' rule over all orders of the
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...beliefs.normal import NormalBelief
from ...channels.steps import About, about_after, resolve
from ...errors import InputError, UnsupportedError
from ...masks.base import Mask
from ...masks.frame import Frame
from ...protocols import Array
from ..normal.conditioning import Conditioned
from ..normal.releases import channel_of

Ints = NDArray[np.int64]


def settled(log_weights: Array, depth: Ints | int) -> Array:
    """Log weights ``(respondents, places)`` with only the deepest possible places left.

    ``depth`` counts the directions in which a place says exactly what the intruder knows. There a density is infinite,
    so a place that agrees in more directions outweighs all that agree in fewer.
    """
    possible = log_weights > -np.inf
    if not possible.any(axis=1).all():
        raise InputError(
            "No row of the release can be the respondent's",
            "probability zero everywhere",
            "Check values= and the release, or state the errors of what is known with error_sd=",
        )
    deep = np.where(possible, np.broadcast_to(depth, log_weights.shape), -1)
    return np.where(deep == deep.max(axis=1, keepdims=True), log_weights, -np.inf)


@dataclass(frozen=True, eq=False)
class Density:
    """A normal law of what is known, which may be degenerate: ``axes`` with their ``variances``, zero where it is."""

    scale: Array
    axes: Array
    variances: Array

    @classmethod
    def of(cls, covariance: Array, scale: Array, size: float) -> Density:
        """``scale`` is the unit of each column, ``size`` the largest number met in it, which tells what is rounding."""
        values, axes = np.linalg.eigh(covariance / np.outer(scale, scale))
        rounding = 1e-13 * (1.0 + size)
        return cls(scale, axes, np.where(values <= rounding**2, 0.0, values))

    @property
    def depth(self) -> int:
        """How many directions are told exactly."""
        return int(np.sum(self.variances == 0.0))

    def log(self, z: Array, means: Array, size: float) -> Array:
        """Log density ``(respondents, places)`` of ``z`` (respondents, p) around ``means`` (places, p)."""
        origin = means.mean(axis=0) if len(means) else 0.0
        u, v = ((means - origin) / self.scale) @ self.axes, ((z - origin) / self.scale) @ self.axes
        total = np.zeros((len(z), len(means)))
        for j, variance in enumerate(self.variances):
            gap = v[:, j, None] - u[None, :, j]
            if variance > 0:
                total -= 0.5 * (gap**2 / variance + np.log(2 * np.pi * variance))
            else:
                total[np.abs(gap) > 1e-11 * (1.0 + size)] = -np.inf
        return total

    def inverse(self) -> Array:
        """Inverse of the covariance on its range."""
        with np.errstate(divide="ignore"):
            weight = np.where(self.variances > 0, 1.0 / self.variances, 0.0)
        return ((self.axes * weight) @ self.axes.T) / np.outer(self.scale, self.scale)


class LinearRows:
    """Weights for a normal belief and a release that is linear in the records plus Gaussian noise; exact for any prior.

    The record at place i given the whole release is normal, so the weight is a normal density at what is known.
    """

    def __init__(
        self, belief: NormalBelief, mask: Mask, known: Sequence[int], errors: Array, data: Array | None = None
    ) -> None:
        self.belief, self.mask, self.known, self.errors = belief, mask, list(known), errors
        channel = channel_of(belief, mask, data=data)
        if channel.scrambled:
            raise UnsupportedError(
                "Shuffling groups hides which rows were averaged together",
                do="Put Shuffle() first, or leave it out: Identity knows no order",
            )
        self.given = Conditioned(belief, channel)
        about = About(belief.records, tuple(belief.columns or range(belief.k)), belief.record_covariance)
        self.kept = about_after(resolve(mask, about), about).n
        shape, _, cell = channel.layout.rows()
        kinds = [(t, c) for _, t, c in channel.layout.classes()]
        self.kinds = [np.flatnonzero((shape == t) & (cell == c)) for t, c in kinds]
        self.covariances = [self.given.record_covariance(t, c)[0] for t, c in kinds]
        k = belief.k
        self.blank = np.zeros((belief.records, k), dtype=bool)
        """Entries that are not released: suppressed, not sampled, or wiped out by infinite noise."""
        for (t, c), rows in zip(kinds, self.kinds, strict=True):
            block = channel.blocks[t]
            wiped = ~np.any(block.b[0, c * k : c * k + k] != 0, axis=-1)
            self.blank[rows] = ~block.alive[c] | wiped

    def read(self, frame: Frame) -> Array:
        """A release as a matrix with one row for every place, missing for places that are not in it."""
        n, k = self.belief.records, self.belief.k
        values = read_numbers(frame, k, self.kept)
        full = np.full((n, k), np.nan)
        full[: self.kept] = values
        wrong = np.isnan(full) & ~self.blank
        if wrong.any():
            raise InputError(
                "The release has missing values where the mask gives none",
                f"{int(wrong.sum())} of them",
                "Pass what mask.release(data, rng) gave",
            )
        return full

    def prepare(self, frame: Frame) -> Array:
        """What a release says about the known columns at every place: their posterior means."""
        return self.given.means(self.read(frame)).records()[:, self.known]

    def log_weights(self, means: Array, z: Array) -> Array:
        """Log weight of every place for every respondent, ``(respondents, places)``, up to a constant for each."""
        scale = np.sqrt(np.diag(self.belief.record_covariance)[self.known] + self.errors)
        size = float(max(np.abs(means / scale).max(), np.abs(z / scale).max()))
        weights = np.empty((len(z), self.belief.records))
        depth = np.zeros(self.belief.records, dtype=np.int64)
        parts = [c[np.ix_(self.known, self.known)] + np.diag(self.errors) for c in self.covariances]
        # A flat prior and a column of which nothing is released: it tells nothing, whoever is where.
        told = np.isfinite(np.diagonal(np.stack(parts), axis1=1, axis2=2))
        if np.any(told != told[0]):
            raise UnsupportedError(
                "Under the flat prior nothing is known about some columns of some rows", do="Give prior_variance="
            )
        use = np.flatnonzero(told[0])
        for rows, part in zip(self.kinds, parts, strict=True):
            density = Density.of(part[np.ix_(use, use)], scale[use], size)
            weights[:, rows] = density.log(z[:, use], means[rows][:, use], size)
            depth[rows] = density.depth
        return settled(weights, depth)


def read_numbers(frame: Frame, columns: int, rows: int) -> Array:
    """A release as numbers, missing ones included, of the size that the mask gives."""
    values, _ = frame.numeric("A release", missing=True)
    if values.shape != (rows, columns):
        raise InputError(
            f"The release must have {rows} rows and {columns} columns",
            f"shape {values.shape}",
            "Pass what mask.release(data, rng) gave back",
        )
    if np.isinf(values).any():
        raise InputError(
            "The release must not hold infinite values",
            int(np.isinf(values).sum()),
            "Pass what mask.release(data, rng) gave back",
        )
    return values
