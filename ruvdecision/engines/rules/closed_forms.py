"""Errors of a rule that are known in closed form.

A linear rule a'y meets a release y = A x + e, so its error a'y - t is Gaussian. A is never formed: weights are taken
back through the channel cell by cell. Differences between the weights on a record and the target's are formed record
by record, so that what cancels does so exactly.

On the records at hand, with normal noise cut off at bounds or a rule that is a rank, the error is that of section V of
Duncan et al. (2001) without simulation: `clipped_noise` has the integrals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...beliefs.normal import NormalBelief
from ...channels.linear import LinearChannel
from ...losses.base import as_bayes_loss
from ...masks.base import Mask
from ...numerics.semidefinite import with_infinite_variance
from ...posteriors.base import as_weight_matrix
from ...protocols import Array
from ...targets import Kind, LinearForm
from ...users.rules import Rule
from ...users.user import Snooper
from .clipped_noise import clipped_moments, ranked_record_mse, scientist_mse
from .costs import check_sizes
from .source import DrawnRecords, EntryNoise, RecordSource


@dataclass(frozen=True, eq=False)
class LinearTarget:
    """A linear target: matrices on mu, on a new record, on each record, and a constant."""

    mean: Array
    new: Array
    records: Array
    """Shape (n, m, k)."""
    constant: Array

    @classmethod
    def of(cls, form: LinearForm, n: int, k: int) -> LinearTarget:
        """Read the linear form of a target, as the exact engine writes it."""
        m = len(form.constant)
        mean, new, records = np.zeros((m, k)), np.zeros((m, k)), np.zeros((n, m, k))
        for i, part in enumerate(form.terms):
            piece = form.matrix[:, i * k : i * k + k]
            if part.kind is Kind.PARAMETER:
                mean += piece
            elif part.kind is Kind.NEW:
                new += piece
            elif part.kind is Kind.AVERAGE:
                records += piece / n
            elif part.kind is Kind.RECORD:
                records[part.row % n] += piece
        return cls(mean, new, records, form.constant)


@dataclass(frozen=True, eq=False)
class LinearEstimate:
    """A linear rule after a channel: the weights of its estimate on the records, and the covariance of its noise."""

    records: Array
    """Shape (n, k, k): the estimate is the sum of records[i] @ x_i."""
    noise: Array
    """Shape (masks or 1, k, k)."""


def linear_estimate(channel: LinearChannel, weights: Array) -> LinearEstimate:
    """The estimate of a rule with weights ``(n, k)`` on the release, as a function of the records.

    No mask of the family may wipe a column out; then the operators on the records are the same for all of them.
    """
    n, k = weights.shape
    shape, copy, cell = channel.layout.place_of_rows()
    records = np.zeros((n, k, k))
    noise: Array = np.zeros((1, k, k))
    loading: list[Array] = [np.zeros((1, k, k)) for _ in channel.common]
    for t, block in enumerate(channel.blocks):
        mine = np.flatnonzero(shape == t)
        if mine.size == 0:
            continue
        at_copy, at_cell = copy[mine], cell[mine]
        roots, c = block.shape.roots, len(block.shape.sizes)
        # Coordinates on the normalised mean of each cell, and the rest within it.
        sums = np.zeros((block.shape.count, c, k))
        np.add.at(sums, (at_copy, at_cell), weights[mine])
        sums /= roots[:, None]
        rest = weights[mine] - sums[at_copy, at_cell] / roots[at_cell, None]
        # Rows of B, by cell and column: each column of the estimate uses its own column of the release.
        b = block.b[0].reshape(c, k, c, k)
        taken = np.einsum("qca,cadb->qdab", sums, b)
        records[mine] = taken[at_copy, at_cell] / roots[at_cell, None, None]
        within = block.w[0] * block.contrasts_released[:, :, None]
        records[mine] += rest[:, :, None] * within[at_cell]
        pairs = np.einsum("qca,qdb->cadb", sums, sums)
        noise = noise + np.einsum("mcadb,cadb->mab", block.r.reshape(-1, c, k, c, k), pairs)
        for i in range(c):
            inside = rest[at_cell == i]
            noise = noise + (inside.T @ inside) * block.rw[:, i]
        total = sums.sum(axis=0)
        for j, load in enumerate(block.loads):
            loading[j] = loading[j] + np.einsum("ca,mcab->mab", total, load.reshape(-1, c, k, k))
    for load, covariance in zip(loading, channel.common, strict=True):
        noise = noise + load @ covariance @ np.swapaxes(load, -1, -2)
    return LinearEstimate(records, noise)


def error_law(belief: NormalBelief, estimate: LinearEstimate, wanted: LinearTarget, rule: Rule) -> tuple[Array, Array]:
    """Mean ``(m,)`` and covariance ``(masks or 1, m, m)`` of estimate less target, over records and noise.

    Under a flat prior a rule whose error moves with the population mean has an infinite variance.
    """
    gap = estimate.records - wanted.records
    shift = gap.sum(axis=0) - wanted.mean - wanted.new
    size = np.abs(wanted.mean) + np.abs(wanted.new)
    size = size + (np.abs(estimate.records) + np.abs(wanted.records)).sum(axis=0)
    # Unbiased up to rounding is unbiased.
    shift = np.where(np.abs(shift) <= 1e-12 * size, 0.0, shift)
    own = belief.record_covariance
    covariance = np.einsum("nia,ab,njb->ij", gap, own, gap) + wanted.new @ own @ wanted.new.T + estimate.noise
    mean = rule.constant() - wanted.constant
    if belief.mu_covariance is not None:
        return mean + shift @ belief.mu_mean, covariance + shift @ belief.mu_covariance @ shift.T
    open_ = np.any(shift != 0, axis=1)
    return np.where(open_, 0.0, mean), with_infinite_variance(covariance, open_)


# -- records at hand -------------------------------------------------------------------------------------


def has_clipped_error(user: Snooper, source: RecordSource, mask: Mask, linear: Rule | None) -> bool:
    """Whether `clipped_error` knows the case; ``linear`` is the snooper's rule if it is linear."""
    return (
        source.table is not None
        and source.k == 1
        and source.n > 1
        and as_bayes_loss(user.loss).second_order
        and (linear is not None or user.estimator.rank(source.n) is not None)
        and _normal_noise(mask, source) is not None
    )


def clipped_error(user: Snooper, source: RecordSource, mask: Mask, linear: Rule | None) -> float:
    """Expected loss of the rule over the noise, the records being fixed."""
    noise = _normal_noise(mask, source)
    assert source.table is not None and noise is not None
    x = source.table[:, 0]
    low, high = (float(end[0]) if np.isfinite(end[0]) else None for end in (noise.lower, noise.upper))
    variances = np.broadcast_to(np.square(noise.sizes[:, 0]), (source.n,))
    weight = float(as_weight_matrix(user.loss.weights, (1,))[0, 0])
    if user.target.is_a(Kind.PARAMETER):
        return weight * float(scientist_mse(x, variances[None], low, high)[0])
    wanted = DrawnRecords(source.table[None]).truth(user.target)[0]
    check_sizes(1, len(wanted), user.estimator)
    truth = float(wanted[0])
    if linear is None:
        rank = user.estimator.rank(len(x))
        return weight * float(ranked_record_mse(x, variances[None], rank, low, high, target=truth)[0])
    each = linear.weights(np.ones((len(x), 1), dtype=bool))
    assert each is not None
    mean, variance = clipped_moments(x, variances, low, high)
    bias = float(each[:, 0] @ (mean - x)) + (float(each[:, 0] @ x) + linear.constant() - truth)
    return weight * (float(each[:, 0] ** 2 @ variance) + bias**2)


def _normal_noise(mask: Mask, source: RecordSource) -> EntryNoise | None:
    """The noise if it is normal, record by record, else None."""
    noise = EntryNoise.of(mask, source)
    return noise if noise is not None and noise.kind.is_normal else None
