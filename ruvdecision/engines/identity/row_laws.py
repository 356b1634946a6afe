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
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...beliefs.finite import FiniteBelief
from ...beliefs.normal import NormalBelief
from ...channels.finite import FiniteChannel
from ...channels.steps import facts_after, resolve
from ...errors import InputError, UnsupportedError
from ...masks.base import Mask
from ...masks.frame import Frame
from ...protocols import Array, Ints
from ..normal.conditioning import Conditioned
from ..normal.releases import belief_facts, channel_of

Records: TypeAlias = NDArray[Any]
"""Records, or what is known of them: numbers, labels, or codes of outcomes."""


def keep_exact_matches(log_match_weights: Array, depth: Ints | int) -> Array:
    """Log weights ``(respondents, places)`` with only the deepest possible places left.

    ``depth`` counts the directions in which a place says exactly what the intruder knows. There a density is infinite,
    so a place that agrees in more directions outweighs all that agree in fewer.
    """
    possible = log_match_weights > -np.inf
    if not possible.any(axis=1).all():
        do = "Check values= and the release, or state the errors of what is known with error_sd="
        raise InputError("No row of the release can be the respondent's", "probability zero everywhere", do)
    deep = np.where(possible, np.broadcast_to(depth, log_match_weights.shape), -1)
    return np.where(deep == deep.max(axis=1, keepdims=True), log_match_weights, -np.inf)


@dataclass(frozen=True, eq=False)
class DegenerateNormal:
    """A normal law of what is known, which may be degenerate: ``axes`` with their ``variances``, zero where it is."""

    scale: Array
    axes: Array
    variances: Array

    @classmethod
    def of(cls, covariance: Array, scale: Array, size: float) -> DegenerateNormal:
        """``scale`` is the unit of each column, ``size`` the largest number met in it, which tells what is rounding."""
        values, axes = np.linalg.eigh(covariance / np.outer(scale, scale))
        rounding = 1e-13 * (1.0 + size)
        return cls(scale, axes, np.where(values <= rounding**2, 0.0, values))

    @property
    def exact_directions(self) -> int:
        """How many directions are known exactly."""
        return int(np.sum(self.variances == 0.0))

    def log_density(self, z: Array, means: Array, size: float) -> Array:
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
            do = "Put Shuffle() first, or leave it out: Identity knows no order"
            raise UnsupportedError("Shuffling groups hides which rows were averaged together", do=do)
        self.given = Conditioned(belief, channel)
        about = belief_facts(belief)
        self.kept = facts_after(resolve(mask, about), about).n
        shape, _, cell = channel.layout.place_of_rows()
        kinds = [(t, c) for _, t, c in channel.layout.classes()]
        self.kinds = [np.flatnonzero((shape == t) & (cell == c)) for t, c in kinds]
        self.covariances = [self.given.record_covariance(t, c)[0] for t, c in kinds]
        k = belief.k
        self.blank = np.zeros((belief.records, k), dtype=bool)
        """Entries that are not released: suppressed, not sampled, or wiped out by infinite noise."""
        for (t, c), rows in zip(kinds, self.kinds, strict=True):
            block = channel.blocks[t]
            wiped = ~np.any(block.b[0, c * k : c * k + k] != 0, axis=-1)
            self.blank[rows] = ~block.released[c] | wiped

    def prepare(self, release: object) -> Array:
        """What a release says about the known columns at every place: their posterior means."""
        values, _ = Frame.of(release).numeric("A release", missing=True)
        check_release_shape(values.shape, self.kept, self.belief.k)
        if np.isinf(values).any():
            do = "Pass what mask.release(data, rng) gave back"
            raise InputError("The release must not hold infinite values", int(np.isinf(values).sum()), do)
        # One row for every place, missing for places that are not in it.
        full = np.full(self.blank.shape, np.nan)
        full[: self.kept] = values
        wrong = np.isnan(full) & ~self.blank
        if wrong.any():
            what = "The release has missing values where the mask gives none"
            raise InputError(what, f"{int(wrong.sum())} of them", "Pass what mask.release(data, rng) gave")
        return self.given.means(full).records()[:, self.known]

    def log_match_weights(self, means: Array, known: Array) -> Array:
        """Log weight of every place for every respondent, ``(respondents, places)``, up to a constant for each."""
        scale = np.sqrt(np.diag(self.belief.record_covariance)[self.known] + self.errors)
        size = float(max(np.abs(means / scale).max(), np.abs(known / scale).max()))
        weights = np.empty((len(known), self.belief.records))
        depth = np.zeros(self.belief.records, dtype=np.int64)
        parts = [c[np.ix_(self.known, self.known)] + np.diag(self.errors) for c in self.covariances]
        # A flat prior and a column of which nothing is released: it tells nothing, whoever is where.
        informative = np.isfinite(np.diagonal(np.stack(parts), axis1=1, axis2=2))
        if np.any(informative != informative[0]):
            what = "Under the flat prior nothing is known about some columns of some rows"
            raise UnsupportedError(what, do="Give prior_variance=")
        use = np.flatnonzero(informative[0])
        for rows, part in zip(self.kinds, parts, strict=True):
            density = DegenerateNormal.of(part[np.ix_(use, use)], scale[use], size)
            weights[:, rows] = density.log_density(known[:, use], means[rows][:, use], size)
            depth[rows] = density.exact_directions
        return keep_exact_matches(weights, depth)


def check_release_shape(shape: tuple[int, ...], rows: int, columns: int) -> None:
    """Raise if a release is not of the size that its mask gives."""
    if shape != (rows, columns):
        what = f"The release must have {rows} rows and {columns} columns"
        raise InputError(what, f"shape {shape}", "Pass what mask.release(data, rng) gave back")


@dataclass(frozen=True, eq=False)
class FiniteRows:
    """Weights for a finite belief: p(known | release, i) = sum over states of P(state | release) p(known | y_i, state).

    Every row of the release tells about the state, so the sum is exact Bayes. The matrix of a mask is that of whole
    records; columns that are masked apart multiply.
    """

    belief: FiniteBelief
    channel: FiniteChannel
    table: Records
    """What each outcome says about the known columns, ``(outcomes, known)``."""
    errors: Array

    @classmethod
    def of(
        cls, belief: FiniteBelief, mask: Mask, known: Sequence[int], errors: Array, codes: Ints | None = None
    ) -> FiniteRows:
        """Follow the mask; ``codes`` are the records, for noise that is a share of their covariance."""
        levels = belief.levels
        scale = None
        if codes is not None and not levels.labelled and belief.records > 1:
            scale = np.atleast_2d(np.cov(levels.numbers.reshape(len(levels), -1)[codes], rowvar=False))
        return cls(belief, FiniteChannel.of(belief, mask, scale), outcome_table(belief)[:, list(known)], errors)

    def prepare(self, release: object) -> tuple[Array, Ints]:
        """What a release says about the record in each row, see `log_match_weights`."""
        evidence = self.channel.read(release).log_evidence
        return evidence, np.arange(len(evidence))

    def log_match_weights(self, released: tuple[Array, Ints], known: Records) -> Array:
        """Log weight of every place, ``(respondents, places)``.

        ``evidence[u, x]`` is the log chance of each different released record for every outcome, up to a constant, and
        ``inverse`` says which of them stands in each row.
        """
        evidence, inverse = released
        law, n = self.belief.law, self.belief.records
        like = self.likelihood(self.table, known, self.errors)
        chance = np.exp(evidence - evidence.max(axis=1, keepdims=True))
        of_row = chance @ law.T
        with np.errstate(divide="ignore"):
            counts = np.bincount(inverse, minlength=len(evidence)).astype(np.float64)
            there = counts > 0
            state = np.log(self.belief.prior) + counts[there] @ np.log(of_row[there])
        if state.max() == -np.inf:
            do = "Check that the release was made by this mask"
            raise InputError("The release cannot come from this belief", "probability zero", do)
        post = np.exp(state - state.max())
        post /= post.sum()
        share = np.where(of_row > 0, post / np.where(of_row > 0, of_row, 1.0), 0.0)
        # P(outcome of the record | its row, the whole release), one row per different released record.
        outcome = chance * (share @ law)
        weights = np.empty((len(known), n))
        weights[:, : len(inverse)] = (like @ outcome.T)[:, inverse]
        weights[:, len(inverse) :] = (like @ (post @ law))[:, None]
        with np.errstate(divide="ignore"):
            return keep_exact_matches(np.log(weights), 0)

    @staticmethod
    def likelihood(table: Records, z: Records, errors: Array) -> Array:
        """p(known values | outcome), ``(respondents, outcomes)``, up to a constant for each respondent."""
        log = np.zeros((len(z), len(table)))
        for j, variance in enumerate(errors):
            if variance > 0:
                numbers = np.asarray(z[:, j], dtype=np.float64)
                log -= (numbers[:, None] - table[:, j].astype(np.float64)) ** 2 / (2 * variance)
            else:
                log[z[:, j, None] != table[None, :, j]] = -np.inf
        top = log.max(axis=1, keepdims=True)
        if np.any(top == -np.inf):
            wrong = f"those of respondent {int(np.argmin(top[:, 0]))} among {len(z)}"
            what = "No record of the belief has the values that the intruder knows"
            raise InputError(what, wrong, "Check values=, or state error_sd=")
        return np.exp(log - top)


def outcome_table(belief: FiniteBelief) -> Records:
    """The outcomes of a belief, one row each: numbers, or labels as they are."""
    levels = belief.levels
    if levels.labelled:
        return np.array(levels.names, dtype=object).reshape(len(levels), -1)
    return levels.numbers.reshape(len(levels), -1)
