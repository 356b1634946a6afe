"""Posterior means of normal beliefs as affine functions of the release, and their law under another belief.

Under a normal belief and a linear-Gaussian release every posterior mean is affine in the release. It looks at the
release through few numbers: the sum over the blocks of each shape, the blocks of the records in question, and how far
those records stand from the mean of their cell. Their law under any normal belief is known, so two beliefs can be
compared exactly, with a cost that does not grow with the number of records.

The density of a release goes block by block, as conditioning does: blocks are independent given the latents, distances
within a cell are independent of everything else, and the latents are integrated out in closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ...channels.linear import Block
from ...errors import UnsupportedError
from ...numerics.semidefinite import concatenate_blocks, with_infinite_variance
from ...protocols import Array
from ...targets import Kind, Term
from .conditioning import Conditioned, cell_means, released_entries
from .latents import common_covariance


@dataclass(frozen=True, eq=False)
class _Place:
    """Where a number that the means look at comes from."""

    shape: int
    copy: int | None
    """The block, or None for the sum over all blocks of the shape that are not looked at by themselves."""
    cell: int | None = None
    """The cell, for a record's distance from the mean of it."""
    row: int = 0
    start: int = 0
    size: int = 0
    copies: int = 1


class AffineMeans:
    """Posterior means of basic targets for a whole family of masks: ``matrix @ z + constant``.

    ``matrix`` has shape (masks or 1, len(parts) * k, numbers) and z holds the numbers that
    `sufficient_statistic` takes from a release.
    """

    def __init__(self, given: Conditioned, parts: Sequence[Term]) -> None:
        _refuse_undone(given)
        self.given, self.parts = given, tuple(parts)
        self.places = _positions_needed(given, self.parts)
        self.size = sum(p.size for p in self.places)
        d, prior = given.latents, given.latent_mean
        # The latents: h = start + latent_weights @ z.
        moved: Array = np.zeros((1, d))
        for block, solved in zip(given.channel.blocks, given.blocks, strict=True):
            moved = moved + block.shape.count * (solved.weight @ (solved.loading @ prior)[..., None])[..., 0]
        start = prior - (given.cov @ moved[..., None])[..., 0]
        none = [np.zeros((1, d, 0))]  # of a release that holds nothing
        pieces = [
            given.cov @ given.blocks[p.shape].weight if p.cell is None else np.zeros((1, d, p.size))
            for p in self.places
        ]
        latent_weights = concatenate_blocks(pieces + none)
        slopes = [given._slope_of_target(part) for part in self.parts]
        own = [
            slope @ latent_weights + self._own_block_loading(part)
            for slope, part in zip(slopes, self.parts, strict=True)
        ]
        self.matrix = concatenate_blocks(own, axis=-2)
        self.constant = concatenate_blocks([slope @ start[..., None] for slope in slopes], axis=-2)[..., 0]

    def sufficient_statistic(self, release: Array) -> Array:
        """The numbers that the means look at, from released values ``(n, width)`` in the channel's order of rows."""
        given = self.given
        values = np.nan_to_num(release, nan=0.0, posinf=0.0, neginf=0.0)
        z = np.empty(self.size)
        means = cell_means(given.channel, values)
        for p in self.places:
            at = slice(p.start, p.start + p.size)
            roots, observed = given.channel.blocks[p.shape].shape.roots, given.blocks[p.shape].observed
            table = means[p.shape]
            if p.cell is not None:
                z[at] = values[p.row] - table[p.copy or 0].reshape(-1, given.width)[p.cell] / roots[p.cell]
            elif p.copy is not None:
                z[at] = table[p.copy][observed]
            else:
                alone = [q.copy for q in self.places if q.shape == p.shape and q.cell is None and q.copy is not None]
                z[at] = np.delete(table, alone, axis=0).sum(axis=0)[observed] if alone else table.sum(axis=0)[observed]
        return z

    def _own_block_loading(self, part: Term) -> Array:
        """How a target looks at its own block and cell, beside what it learns from the latents; (..., k, numbers)."""
        given, k = self.given, self.given.k
        if part.is_outside_file:
            return np.zeros((1, k, self.size))
        average = part.kind is Kind.AVERAGE
        shape, copy, cell = (None, None, None) if average else given._block_and_cell(part)
        pieces = []
        for p in self.places:
            block, gain = given.channel.blocks[p.shape], given.blocks[p.shape].gain
            mine = p.shape == shape and p.copy == copy
            if average and p.cell is None:
                pieces.append(given.cell_weights_in_average(block) @ gain)
            elif mine and cell is not None and p.cell is None:
                pieces.append(gain[:, cell * k : cell * k + k] / block.shape.roots[cell])
            elif mine and cell is not None and p.cell == cell and p.row == given.row_in_file(part):
                pieces.append(_contrast_gain(given, block, cell))
            else:
                pieces.append(np.zeros((1, k, p.size)))
        return concatenate_blocks(pieces) if pieces else np.zeros((1, k, 0))

    # -- their law under a belief --------------------------------------------------------------------

    def moments(self, actual: Conditioned, weights: Array) -> tuple[Array, Array, Array]:
        """Mean, covariance and slope on the population mean of ``weights @ z`` if the belief of ``actual`` is right.

        Under a flat prior the mean and covariance are those for a population mean of zero.
        """
        k = actual.k
        weighed = [weights[..., p.start : p.start + p.size] for p in self.places]
        lead = np.broadcast_shapes(weights.shape[:1], actual.cov.shape[:1])
        slope = np.zeros(lead + (weights.shape[1], actual.latents))
        covariance = np.zeros(lead + (weights.shape[1],) * 2)
        for p, w in zip(self.places, weighed, strict=True):
            if p.cell is None:
                slope = slope + p.copies * (w @ actual.blocks[p.shape].loading)
                covariance = covariance + p.copies * (w @ block_covariance(actual, p.shape) @ np.swapaxes(w, -1, -2))
        within = [(p, w) for p, w in zip(self.places, weighed, strict=True) if p.cell is not None]
        for p, w in within:
            for q, v in within:
                if (p.shape, p.copy, p.cell) == (q.shape, q.copy, q.cell):
                    assert p.cell is not None
                    share = float(p.row == q.row) - 1.0 / float(actual.channel.blocks[p.shape].shape.sizes[p.cell])
                    covariance = covariance + share * (
                        w @ contrast_covariance(actual, p.shape, p.cell) @ np.swapaxes(v, -1, -2)
                    )
        prior = latent_covariance(actual)
        covariance = covariance + slope @ prior @ np.swapaxes(slope, -1, -2)
        return slope @ actual.latent_mean, (covariance + np.swapaxes(covariance, -1, -2)) / 2, slope[..., :k]


def residual_law(own: Conditioned, actual: Conditioned, parts: Sequence[Term], matrix: Array) -> tuple[Array, Array]:
    """Mean ``(masks, m)`` and covariance ``(masks, m, m)`` under ``actual`` of a target less its mean by ``own``.

    The target less the posterior mean by ``actual`` has the posterior covariance, and the difference of the two
    posterior means adds to it. Where the two beliefs are the same that difference is exactly zero. Under a flat
    ``actual`` a difference that moves with the population mean is infinite.
    """
    mine, theirs = AffineMeans(own, parts), AffineMeans(actual, parts)
    gap = matrix @ (theirs.matrix - mine.matrix)
    size = np.abs(matrix) @ (np.abs(theirs.matrix) + np.abs(mine.matrix))
    gap = np.where(np.abs(gap) <= 1e-14 * size, 0.0, gap)
    mean, gap_covariance, slope = theirs.moments(actual, gap)
    bias = (matrix @ (theirs.constant - mine.constant)[..., None])[..., 0] + mean
    covariance = actual.covariance(parts, matrix) + gap_covariance
    if actual.belief.mu_covariance is None:
        depends = np.any(np.abs(slope) > 1e-9, axis=-1)
        covariance, bias = with_infinite_variance(covariance, depends), np.where(depends, 0.0, bias)
    return bias, covariance


def latent_covariance(given: Conditioned) -> Array:
    """Prior covariance of the latents; zero for a flat prior's mean, whose part the caller adds."""
    k, noise = given.k, common_covariance(given.channel.common, given.k)
    prior = np.zeros((len(noise), given.latents, given.latents))
    prior[:, k:, k:] = noise
    if given.belief.mu_covariance is not None:
        prior[:, :k, :k] = given.belief.mu_covariance
    return prior


def block_covariance(given: Conditioned, shape: int) -> Array:
    """Covariance of the released entries of a block given the latents, V = B Q B' + R."""
    block, observed = given.channel.blocks[shape], given.blocks[shape].observed
    b, r = block.b[:, observed, :], block.r[:, observed[:, None], observed]
    cells = len(block.shape.sizes)
    q = np.kron(np.eye(cells), given.belief.record_covariance)
    return np.asarray(b @ q @ np.swapaxes(b, -1, -2) + r)


def contrast_covariance(given: Conditioned, shape: int, cell: int) -> Array:
    """Covariance of one contrast within a cell of the release, zero in columns where none shows.

    Shape (masks or 1, width, width).
    """
    block = given.channel.blocks[shape]
    w = block.w[:, cell] * (block.contrasts_released[cell] & block.released[cell])[:, None]
    released = np.where(block.released[cell], 1.0, 0.0)
    return np.asarray(
        w @ given.belief.record_covariance @ np.swapaxes(w, -1, -2) + block.rw[:, cell] * np.outer(released, released)
    )


def _positions_needed(given: Conditioned, parts: Sequence[Term]) -> list[_Place]:
    """The numbers that these targets need.

    Every shape's sum, the blocks of their records, their distances within cells.
    """
    records = [(*given._block_and_cell(p), given.row_in_file(p)) for p in parts if p.kind is Kind.RECORD]
    blocks = dict.fromkeys(record[:2] for record in records)
    places = []
    for t, block in enumerate(given.channel.blocks):
        alone = sum(shape == t for shape, _ in blocks)
        if block.shape.count > alone:
            places.append(_Place(t, None, copies=block.shape.count - alone))
    places += [_Place(t, copy) for t, copy in blocks]
    shapes = [block.shape for block in given.channel.blocks]
    places += [_Place(*record) for record in dict.fromkeys(records) if shapes[record[0]].sizes[record[2]] > 1]
    sizes = [len(given.blocks[p.shape].observed) if p.cell is None else given.width for p in places]
    starts = np.cumsum([0, *sizes]).tolist()
    return [replace(p, start=a, size=size) for p, a, size in zip(places, starts, sizes, strict=False)]


def _refuse_undone(given: Conditioned) -> None:
    if given.revealed_noise is not None:
        raise UnsupportedError(
            "Noise(common=True) in one release, undone by another, is not available for users who are wrong or in the "
            "dark about the mask",
            do="Leave out truth= and knows_mask=",
        )


def _contrast_gain(given: Conditioned, block: Block, cell: int) -> Array:
    """How a record's distance from the mean of its cell is taken, over all columns that are released."""
    observed = given._contrast_columns(block, cell)
    if len(observed) == 0:
        return np.zeros((1, given.k, given.width))
    gain = given._contrast_gain(block, cell, observed)[0]
    wide = np.zeros(gain.shape[:-1] + (given.width,))
    wide[..., observed] = gain
    return wide


# -- the density of a release ------------------------------------------------------------------------


class Density(NamedTuple):
    """Log density of a release under each candidate, and the dimension of the space on which it is one."""

    log: Array
    rank: Array


def log_density(given: Conditioned, values: Array) -> Density:
    """Log density of released values ``(n, width)`` for every mask of a family; minus infinity where they cannot be.

    Under a flat prior it is the density up to a constant that all masks share.
    """
    _refuse_undone(given)
    missing = np.isnan(values)
    there = released_entries(given.channel)
    wiped = given.channel.wiped
    if wiped is not None:
        there = there & ~wiped.all(axis=0)
    if np.any(missing == there):
        return Density(np.array([-np.inf]), np.zeros(1))
    values = np.nan_to_num(values, nan=0.0)
    magnitude = float(np.abs(values).max(initial=0.0))
    tables, centre = cell_means(given.channel, values), given.latent_mean
    log: Array = np.zeros(1)
    rank: Array = np.zeros(1)
    score: Array = np.zeros((1, given.latents))
    information: Array = np.zeros((1, given.latents, given.latents))
    for t, (block, solved) in enumerate(zip(given.channel.blocks, given.blocks, strict=True)):
        count = block.shape.count
        if len(solved.observed):
            off = tables[t][:, solved.observed] - (solved.loading @ centre)[:, None, :]
            part, dimension = _joint_log_density_and_rank(
                block_covariance(given, t), off, count, magnitude * float(block.shape.roots.max())
            )
            log, rank = log + part, rank + dimension
            score = score + (solved.weight @ off.sum(axis=1)[..., None])[..., 0]
            information = information + count * (solved.weight @ solved.loading)
        for cell, size in enumerate(block.shape.sizes):
            if size > 1:
                part, dimension = _log_density_within_cells(given, t, cell, values, tables[t])
                log, rank = log + part, rank + dimension
    log = log + _log_density_of_latents(given, latent_covariance(given), information, score)
    return Density(log, np.broadcast_to(rank, log.shape))


def _log_density_of_latents(given: Conditioned, prior: Array, information: Array, score: Array) -> Array:
    """What integrating the latents out adds."""
    k, d = given.k, given.latents
    gained = 0.5 * np.einsum("...i,...ij,...j->...", score, given.cov, score)
    if given.belief.mu_covariance is not None:
        return np.asarray(gained - 0.5 * np.linalg.slogdet(np.eye(d) + prior @ information)[1])
    a, b, c = information[:, :k, :k], information[:, :k, k:], information[:, k:, k:]
    noise = prior[:, k:, k:]
    mixed = np.linalg.solve(np.eye(d - k) + noise @ c, noise) if d > k else np.zeros((1, 0, 0))
    about_mean = a - b @ mixed @ np.swapaxes(b, -1, -2)
    keep = np.where(given.unidentified[:, :k], 0.0, 1.0)
    patched = about_mean * keep[:, :, None] * keep[:, None, :] + (1.0 - keep)[:, :, None] * np.eye(k)
    inner = np.linalg.slogdet(np.eye(d - k) + noise @ c)[1] if d > k else 0.0
    return np.asarray(gained - 0.5 * inner - 0.5 * np.linalg.slogdet(patched)[1])


def _log_density_within_cells(
    given: Conditioned, t: int, cell: int, values: Array, table: Array
) -> tuple[Array, Array]:
    """Log density of the distances from the cells' means, over all blocks of one shape."""
    block = given.channel.blocks[t]
    shape, copy, at = given.channel.layout.place_of_rows()
    rows = np.flatnonzero((shape == t) & (at == cell))
    size, root = int(block.shape.sizes[cell]), float(block.shape.roots[cell])
    off = values[rows] - table[copy[rows]].reshape(len(rows), -1, given.width)[:, cell] / root
    shown = block.released[cell]
    covariance = contrast_covariance(given, t, cell)[:, shown][:, :, shown]
    return _joint_log_density_and_rank(
        covariance, off[None][..., shown], block.shape.count * (size - 1), float(np.abs(values).max(initial=0.0))
    )


def _joint_log_density_and_rank(
    covariance: Array, residuals: Array, count: int, magnitude: float
) -> tuple[Array, Array]:
    """Joint log density of ``count`` independent normal vectors, on the range of their covariance, and its rank.

    ``magnitude`` is the size of the numbers whose differences are the ``residuals``, one row per vector. For distances
    within a cell there is one row more than there are independent vectors; the sum of squares is the same.
    """
    scale = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(covariance / (scale[..., :, None] * scale[..., None, :]))
    open_ = values > 1e-12 * np.maximum(values[..., -1:], 1e-300)
    turned = (residuals / scale[..., None, :]) @ vectors
    squares = np.sum(np.square(turned), axis=-2)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.where(open_, squares / np.where(open_, values, 1.0), 0.0).sum(axis=-1)
        logs = np.where(open_, np.log(np.where(open_, values, 1.0)) + np.log(2 * np.pi), 0.0).sum(axis=-1)
    # The scales belong to the density of what is released; a column without variance has scale one.
    logs = logs + 2 * np.sum(np.log(scale), axis=-1)
    # Averages that a release repeats agree up to rounding, relative to the size of the numbers.
    size = 1e-16 * (np.sum(np.square(residuals / scale[..., None, :]), axis=(-1, -2)) + count) + count * np.sum(
        (1e-15 * magnitude / scale) ** 2, axis=-1
    )
    outside = np.where(open_, 0.0, squares).sum(axis=-1) > size * max(residuals.shape[-1], 1)
    rank = count * open_.sum(axis=-1)
    return np.where(outside, -np.inf, -0.5 * (count * logs + inside)), rank.astype(np.float64)
