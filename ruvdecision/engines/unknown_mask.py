"""A normal belief and a mask whose numbers are not published: the posterior is a mixture over what the mask may have been.

The weight of each candidate is its prior times the density of the release under it. That density comes block by block, as
conditioning does: blocks are independent given the latents, distances within a cell are independent of everything else,
and the latents are integrated out in closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, UnsupportedError
from ..masks.base import Batch, Mask
from ..posteriors import Drawn, Gaussian, Mixture
from ..protocols import Array, Posterior
from ..targets import BaseTarget, Kind, Term
from ..users.mask_prior import MaskPrior
from ..users.user import User
from .normal.affine import AffineMeans, block_covariance, block_sums, contrast_covariance, latent_prior
from .normal.conditioning import Conditioned
from .normal.exact import Exact, moved, released
from .normal.forms import DRAWS, LARGEST_JOINT, all_records, drawn_values, form_of, gaussian_of, joint_terms, selector
from .rules.moments import present

__all__ = ["Density", "NormalMixture", "log_density"]

NEGLIGIBLE = 1e-12
"""Candidates with less than this share of the posterior weight are left out."""
NEGLIGIBLE_ROWS = 1e-6
"""The same where every candidate is itself a mixture over all rows."""
LARGEST_MIXTURE = 1_000_000


class Density(NamedTuple):
    """Log density of a release under each candidate, and the dimension of the space on which it is one."""

    log: Array
    rank: Array


class NormalMixture:
    """Posteriors of a user with a normal belief who does not know the mask's numbers.

    With one candidate it is the plain posterior of somebody who knows the mask.
    """

    def __init__(self, user: User, mask: Mask, table: Array | None = None) -> None:
        self.user, self.belief = user, user.belief
        self.masks: tuple[Mask, ...] = (mask,)
        self.prior: Array = np.ones(1)
        if not user.knows_mask:
            scale = float(np.mean(np.diag(self.belief.spread)))
            self.masks, self.prior = (user.mask_prior or MaskPrior()).candidates(mask, scale, self.belief.records)
        exact = Exact()
        self.families = [
            (
                f.positions,
                Conditioned(self.belief, exact._channel(self.belief, self.masks[f.positions[0]], f.numbers, table)),
            )
            for f in Batch.of(self.masks).families
        ]
        self.table = table
        self.channel = self.families[0][1].channel
        if any(given.channel.location != self.channel.location for _, given in self.families):
            raise UnsupportedError(
                "The masks that the user thinks possible must all keep the order of the rows, or all lose it",
                do="Put Shuffle() or Subsample() into each of them, or into none",
            )
        self._singles: dict[int, Conditioned] = {}
        self._means: dict[Any, Any] = {}

    def after(self, release: Any, rng: np.random.Generator) -> Posterior:
        """Posterior of the target after one release."""
        values, place = released(self.belief, self.channel, release)
        user = (
            self.user if self.channel.location != "drawn" else replace(self.user, target=moved(self.user.target, place))
        )
        if len(self.masks) == 1:
            return Exact()._posterior(user, self.families[0][1], values, rng)
        weights = self.weights(values)
        if user.target.places_records and self.channel.location == "unknown":
            return self._over_rows(user, weights, values)
        return self._mixture(user, weights, values, rng)

    def weights(self, values: Array) -> Array:
        """Posterior probability of every candidate, from released values in the channel's order of rows."""
        log = np.full(len(self.masks), -np.inf)
        rank = np.zeros(len(self.masks))
        for positions, given in self.families:
            found = log_density(given, values)
            log[positions] = np.broadcast_to(found.log, (len(positions),))
            rank[positions] = np.broadcast_to(found.rank, (len(positions),))
        return combined_weights(self.prior, log, rank)

    def _mixture(self, user: User, weights: Array, values: Array, rng: np.random.Generator) -> Posterior:
        belief, target = self.belief, user.target
        if target.is_a(Kind.FILE):
            size = belief.records * belief.k
            if size > LARGEST_JOINT or size**2 * len(self.masks) > 20 * LARGEST_MIXTURE:
                raise UnsupportedError(
                    "The joint posterior of all records is too large for a mixture", do="Ask for Record(j)"
                )
        form = all_records(belief) if target.is_a(Kind.FILE) else form_of(belief, target)
        terms = joint_terms(belief, target) if form is None else form.terms
        matrix = selector(belief, terms) if form is None else form.matrix
        means, covariances = self._moments(target, terms, matrix, values)
        kept = weights > NEGLIGIBLE * weights.max()
        chances = weights[kept] / weights[kept].sum()
        means, covariances = means[kept], covariances[kept]
        if form is None:
            draws = Mixture(Gaussian(means, covariances), chances).sample(DRAWS, rng)
            return Drawn(drawn_values(belief, target, terms, draws))
        return Mixture(gaussian_of(covariances, form, means + form.constant), chances)

    def _moments(self, target: BaseTarget, terms: Sequence[Term], matrix: Array, values: Array) -> tuple[Array, Array]:
        """Posterior mean and covariance of a linear target under every candidate."""
        m = len(matrix)
        means, covariances = np.empty((len(self.masks), m)), np.empty((len(self.masks), m, m))
        for i, (positions, given) in enumerate(self.families):
            key = (i, target.terms if target.verbatim else id(target))
            if key not in self._means:
                self._means[key] = (AffineMeans(given, terms), given.covariance(terms, matrix), target)
            affine, covariance, _ = self._means[key]
            means[positions] = (affine.matrix @ affine.coordinates(values) + affine.constant) @ matrix.T
            covariances[positions] = covariance
        return means, covariances

    def _over_rows(self, user: User, weights: Array, values: Array) -> Posterior:
        """A record in an unknown row: every candidate and every row may be the one."""
        form = form_of(self.belief, user.target)
        kept = np.flatnonzero(weights > NEGLIGIBLE_ROWS * weights.max())
        if len(kept) * self.belief.records > LARGEST_MIXTURE:
            raise UnsupportedError(
                f"{len(kept)} masks times {self.belief.records} rows are too many cases",
                f"a limit of {LARGEST_MIXTURE}",
                "Give mask_prior= with fewer candidates, or leave out Shuffle()",
            )
        parts = []
        for i in kept:
            if int(i) not in self._singles:
                self._singles[int(i)] = Conditioned(
                    self.belief, Exact()._single(self.belief, self.masks[i], self.table)
                )
            parts.append(Exact()._mixture(form, self._singles[int(i)], values))
        chances = weights[kept] / weights[kept].sum()
        joined = np.concatenate([c * p.weights for c, p in zip(chances, parts, strict=True)])
        means = np.concatenate([p.parts.mean() for p in parts])
        if parts[0].event:
            return Mixture(Gaussian(means, np.concatenate([p.parts.cov() for p in parts])), joined)
        return Mixture(Gaussian.scalar(means, np.concatenate([p.parts.var() for p in parts])), joined)


def combined_weights(prior: Array, log: Array, rank: Array) -> Array:
    """Posterior probabilities of candidates. A release in a smaller space is made by those that always put it there."""
    possible = (log > -np.inf) & (prior > 0)
    if not possible.any():
        raise InputError(
            "The release cannot come from any mask that the user thinks possible",
            "probability zero",
            "Widen mask_prior=, or check that the release was made by such a mask",
        )
    possible &= rank == rank[possible].min()
    with np.errstate(divide="ignore"):
        total = np.where(possible, log + np.log(np.where(prior > 0, prior, 1.0)), -np.inf)
    weights = np.exp(total - total.max())
    return np.asarray(weights / weights.sum())


def log_density(given: Conditioned, values: Array) -> Density:
    """Log density of released values ``(n, k)`` for every mask of a family; minus infinity where they cannot be.

    Under a flat prior it is the density up to a constant that all masks share.
    """
    missing = np.isnan(values)
    there = present(given.channel)
    wiped = given.channel.wiped
    if wiped is not None:
        there = there & ~wiped.all(axis=0)
    if np.any(missing == there):
        return Density(np.array([-np.inf]), np.zeros(1))
    values = np.nan_to_num(values, nan=0.0)
    reach = float(np.abs(values).max(initial=0.0))
    tables = block_sums(given, values)
    centre, prior = latent_prior(given)
    log: Array = np.zeros(1)
    rank: Array = np.zeros(1)
    pushed: Array = np.zeros((1, given.latents))
    information: Array = np.zeros((1, given.latents, given.latents))
    for t, (block, solved) in enumerate(zip(given.channel.blocks, given.blocks, strict=True)):
        count = block.shape.count
        if len(solved.seen):
            off = tables[t][:, solved.seen] - (solved.view @ centre)[:, None, :]
            part, dimension = _normal(block_covariance(given, t), off, count, reach * float(block.shape.roots.max()))
            log, rank = log + part, rank + dimension
            pushed = pushed + (solved.weight @ off.sum(axis=1)[..., None])[..., 0]
            information = information + count * (solved.weight @ solved.view)
        for cell, size in enumerate(block.shape.sizes):
            if size > 1:
                part, dimension = _within(given, t, cell, values, tables[t])
                log, rank = log + part, rank + dimension
    log = log + _latents(given, prior, information, pushed)
    return Density(log, np.broadcast_to(rank, log.shape))


def _latents(given: Conditioned, prior: Array, information: Array, pushed: Array) -> Array:
    """What integrating the latents out adds."""
    k, d = given.k, given.latents
    gained = 0.5 * np.einsum("...i,...ij,...j->...", pushed, given.cov, pushed)
    if given.belief.doubt is not None:
        return np.asarray(gained - 0.5 * np.linalg.slogdet(np.eye(d) + prior @ information)[1])
    a, b, c = information[:, :k, :k], information[:, :k, k:], information[:, k:, k:]
    noise = prior[:, k:, k:]
    mixed = np.linalg.solve(np.eye(d - k) + noise @ c, noise) if d > k else np.zeros((1, 0, 0))
    about_mean = a - b @ mixed @ np.swapaxes(b, -1, -2)
    keep = np.where(given.lost[:, :k], 0.0, 1.0)
    patched = about_mean * keep[:, :, None] * keep[:, None, :] + (1.0 - keep)[:, :, None] * np.eye(k)
    inner = np.linalg.slogdet(np.eye(d - k) + noise @ c)[1] if d > k else 0.0
    return np.asarray(gained - 0.5 * inner - 0.5 * np.linalg.slogdet(patched)[1])


def _within(given: Conditioned, t: int, cell: int, values: Array, table: Array) -> tuple[Array, Array]:
    """Log density of the distances from the cells' means, over all blocks of one shape."""
    block, k = given.channel.blocks[t], given.k
    shape, copy, at = given.channel.layout.rows()
    rows = np.flatnonzero((shape == t) & (at == cell))
    size, root = int(block.shape.sizes[cell]), float(block.shape.roots[cell])
    off = values[rows] - table[copy[rows]].reshape(len(rows), -1, k)[:, cell] / root
    shown = block.alive[cell]
    covariance = contrast_covariance(given, t, cell)[:, shown][:, :, shown]
    return _normal(
        covariance, off[None][..., shown], block.shape.count * (size - 1), float(np.abs(values).max(initial=0.0))
    )


def _normal(covariance: Array, off: Array, count: int, reach: float) -> tuple[Array, Array]:
    """Log density of ``count`` independent normal vectors from the rows ``off``, on the range of their covariance.

    ``reach`` is the size of the numbers that ``off`` are differences of. For distances within a cell there is one row
    more than there are independent vectors; the sum of squares is the same.
    """
    scale = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(covariance / (scale[..., :, None] * scale[..., None, :]))
    open_ = values > 1e-12 * np.maximum(values[..., -1:], 1e-300)
    turned = (off / scale[..., None, :]) @ vectors
    squares = np.sum(np.square(turned), axis=-2)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.where(open_, squares / np.where(open_, values, 1.0), 0.0).sum(axis=-1)
        logs = np.where(open_, np.log(np.where(open_, values, 1.0)) + np.log(2 * np.pi), 0.0).sum(axis=-1)
    # The scales belong to the density of what is seen; a column without any spread has scale one.
    logs = logs + 2 * np.sum(np.log(scale), axis=-1)
    # Averages that a release repeats agree up to rounding, relative to the size of the numbers.
    size = 1e-16 * (np.sum(np.square(off / scale[..., None, :]), axis=(-1, -2)) + count) + count * np.sum(
        (1e-15 * reach / scale) ** 2, axis=-1
    )
    outside = np.where(open_, 0.0, squares).sum(axis=-1) > size * max(off.shape[-1], 1)
    rank = count * open_.sum(axis=-1)
    return np.where(outside, -np.inf, -0.5 * (count * logs + inside)), rank.astype(np.float64)
