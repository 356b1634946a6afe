"""The density of a release under a normal belief and a linear-Gaussian mask, block by block, as conditioning goes.

Blocks are independent given the latents, distances within a cell are independent of everything else, and the latents
are integrated out in closed form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...protocols import Array
from .affine import block_covariance, block_sums, contrast_covariance, latent_prior
from .conditioning import Conditioned, present


class Density(NamedTuple):
    """Log density of a release under each candidate, and the dimension of the space on which it is one."""

    log: Array
    rank: Array


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
    if given.belief.mu_covariance is not None:
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
