"""Sums of covariances and what each of them explains, over a leading axis of masks.

The one operation behind every closed form is the share of a signal S in a sum S + E. It is solved with a small residual
on the correlation scale and covariances are built from it as sums of squares (Joseph's form), so that an error d in a
share costs only d (S + E) d': nearly singular covariances and noise of 1e-12 keep their digits, and no variance comes
out negative.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..protocols import Array

APART = 1e3
"""Standard deviations that differ by more than this factor are brought to one unit before a root is taken."""
ROWS = 4096
"""Records at a time: what is worked on stays in the cache, and sums do not depend on the number of threads."""


def symmetric(x: Array) -> Array:
    """The symmetric part."""
    return x if x.shape[-1] == 1 else (x + np.swapaxes(x, -1, -2)) / 2


def units(covariance: Array) -> Array:
    """A power of two near each standard deviation, one where there is none: dividing by it is exact."""
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    return np.asarray(np.exp2(np.round(np.log2(np.where(variance > 0, variance, 1.0)) / 2)))


def right_divide(x: Array, covariance: Array) -> Array:
    """X V^-1 for a positive definite V, or for one that is singular up to rounding on its range."""
    if covariance.shape[-1] == 1:
        with np.errstate(over="ignore"):  # in units of 1e-310 a quotient may be beyond all numbers
            return np.asarray(x / np.where(covariance > 0, covariance, 1.0))
    unit = units(covariance)
    scaled = covariance / (unit[..., :, None] * unit[..., None, :])
    # An entry without variance has nothing to say.
    silent = np.diagonal(scaled, axis1=-2, axis2=-1) <= 0
    scaled = scaled + silent[..., None] * np.eye(scaled.shape[-1])
    right = x / unit[..., None, :]
    try:
        solved = np.swapaxes(np.linalg.solve(scaled, np.swapaxes(right, -1, -2)), -1, -2)
    except np.linalg.LinAlgError:
        solved = right @ pseudo_inverse(scaled)
    return np.asarray(solved / unit[..., None, :])


def signal_noise_gains(signal: Array, noise: Array) -> tuple[Array, Array]:
    """S V^-1 and E V^-1 with V = S + E; they sum to the identity, and the smaller one of each row keeps its digits."""
    total = signal + noise
    if total.shape[-1] == 1:
        total = np.where(total > 0, total, 1.0)
        return np.asarray(signal / total), np.asarray(noise / total)
    signal, noise = np.broadcast_arrays(signal, noise)
    quiet = (np.diagonal(noise, axis1=-2, axis2=-1) <= np.diagonal(signal, axis1=-2, axis2=-1))[..., :, None]
    less = right_divide(np.where(quiet, noise, signal), total)
    more = np.eye(total.shape[-1]) - less
    return np.where(quiet, more, less), np.where(quiet, less, more)


def parallel_sum(signal: Array, noise: Array, split: tuple[Array, Array] | None = None) -> Array:
    """Covariance of a signal seen with noise, S (S + E)^-1 E, as a sum of squares.

    ``split`` gives their shares if known.
    """
    own, other = signal_noise_gains(signal, noise) if split is None else split
    if own.shape[-1] == 1:
        return np.asarray(own * noise)
    return joseph_update(other, signal, own, noise)


def kalman_covariance(signal: Array, view: Array, noise: Array) -> Array:
    """Covariance of a signal of which H signal is seen with noise."""
    across = signal @ np.swapaxes(view, -1, -2)
    gain = right_divide(across, view @ across + noise)
    return joseph_update(np.eye(signal.shape[-1]) - gain @ view, signal, gain, noise)


def joseph_update(away: Array, signal: Array, gain: Array, noise: Array) -> Array:
    """N S N' + K E K', as the square of one factor: semidefinite up to rounding on the correlation scale, too."""
    return gram(concatenate_blocks([away @ root(signal), gain @ root(noise)]))


def concatenate_blocks(parts: Sequence[Array], axis: int = -1) -> Array:
    """Matrices joined along their columns (or rows, -2); leading axes are broadcast."""
    leads = {p.shape[:-2] for p in parts}
    if len(leads) > 1:
        lead = np.broadcast_shapes(*leads)
        parts = [np.broadcast_to(p, lead + p.shape[-2:]) for p in parts]
    return np.concatenate(parts, axis=axis)


def from_blocks(rows: Sequence[Sequence[Array]]) -> Array:
    """One matrix from its blocks, whose leading axes are broadcast."""
    return concatenate_blocks([concatenate_blocks(row) for row in rows], axis=-2)


def with_infinite_variance(covariance: Array, where: NDArray[np.bool_]) -> Array:
    """The covariance with an infinite variance at the marked places, which go with nothing else."""
    where = np.broadcast_to(where, covariance.shape[:-1])
    found = np.where(where[..., :, None] | where[..., None, :], 0.0, covariance)
    return np.where(where[..., :, None] & np.eye(covariance.shape[-1], dtype=bool), np.inf, found)


def gram(x: Array) -> Array:
    """X X'."""
    return symmetric(x @ np.swapaxes(x, -1, -2))


def sufficient_transform(b: Array, r: Array, rows: Array, columns: Array) -> Array:
    """T, so that T y tells all that y = B x + e tells about x, in as few entries as B has rank.

    Combinations of y that hold no signal tell of the noise on the others, and that noise is taken out. ``rows`` and
    ``columns`` are the units of y and x: they must not decide what counts as nothing.
    """
    u, s, _ = np.linalg.svd(b * (columns / rows[:, None]))
    rank = int(np.sum(s > 1e-12 * s[0])) if len(s) else 0
    kept, idle = u[:, :rank].T, _without_rounding(u[:, rank:].T)
    r = r / (rows[:, None] * rows)
    silent, size = idle @ r @ idle.T, np.einsum("ij,...jk,ik->...i", np.abs(idle), np.abs(r), np.abs(idle))
    # No noise up to rounding is no noise.
    loud = np.where(np.diagonal(silent, axis1=-2, axis2=-1) > 1e-14 * size, 1.0, 0.0)
    silent = silent * loud[..., :, None] * loud[..., None, :]
    return np.asarray((kept - (kept @ r @ idle.T * loud[..., None, :]) @ pseudo_inverse(silent) @ idle) / rows)


def root(covariance: Array) -> Array:
    """L with L L' the covariance: Cholesky's, or one by eigenvalues where it is singular."""
    if covariance.shape[-1] == 1:
        return np.asarray(np.sqrt(covariance))
    unit = units(covariance)
    scaled = covariance / (unit[..., :, None] * unit[..., None, :])
    try:
        lower = np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(scaled)
        lower = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return np.asarray(unit[..., :, None] * lower)


def range_root(covariance: Array, unit: Array, nothing: float) -> tuple[Array, Array]:
    """L with L L' the covariance and a column for each direction that varies, and its left inverse.

    With variables in these units, a direction whose variance is at most ``nothing`` of the largest does not vary.
    """
    values, vectors = np.linalg.eigh(covariance / np.outer(unit, unit))
    varies = values > nothing * max(values[-1], 0.0)
    sd, vectors = np.sqrt(values[varies]), vectors[:, varies]
    return unit[:, None] * vectors * sd, (vectors / sd).T / unit


def lower_root(cov: Array) -> Array:
    """Lower triangular L with L L' the covariance, singular ones too: each entry given those before it."""
    k = cov.shape[-1]
    lower = np.zeros(cov.shape)
    for j in range(k):
        rest = cov[..., j:, j] - np.einsum("...ij,...j->...i", lower[..., j:, :j], lower[..., j, :j])
        # What rounding leaves of a variance that is explained by the others is no variance.
        pivot = np.where(rest[..., 0] > 1e-14 * cov[..., j, j], rest[..., 0], 0.0)
        root = np.sqrt(pivot)
        lower[..., j:, j] = np.where(root[..., None] > 0, rest / np.where(root > 0, root, 1.0)[..., None], 0.0)
    return lower


def symmetric_root(covariance: Array) -> Array:
    """The symmetric S with S S the covariance, singular ones too: draws do not depend on the order of the entries."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def pseudo_inverse(x: Array) -> Array:
    """Inverse of a positive semidefinite matrix on its range, judged on the correlation scale.

    A direction counts as nothing where rounding alone may have made it: what one more is taken for costs nothing in
    sums of squares.
    """
    size = np.sqrt(np.diagonal(x, axis1=-2, axis2=-1))
    size = np.where(size > 0, size, 1.0)
    scale = size[..., :, None] * size[..., None, :]
    return np.linalg.pinv(x / scale, rcond=4 * x.shape[-1] * np.finfo(float).eps, hermitian=True) / scale


def root_of_inverse(b: Array, lower: Array, r: Array) -> Array:
    """W with W W' the pseudo-inverse of B Q B' + R, where Q is L L' for every cell.

    It comes from the factor [B L, R^(1/2)], whose singular values span half as many decades as the eigenvalues of the
    sum, so that very small noise is told from none.
    """
    k = len(lower)
    unit = units(r)
    values, vectors = np.linalg.eigh(r / (unit[..., :, None] * unit[..., None, :]))
    values = np.where(values > 1e-13 * values[..., -1:], values, 0.0)
    signal = (b.reshape(b.shape[:2] + (-1, k)) @ lower).reshape(b.shape)
    both = concatenate_blocks([signal, unit[..., :, None] * vectors * np.sqrt(values)[..., None, :]])
    # Judged on the correlation scale: units must not decide what counts as nothing.
    size = np.sqrt(np.sum(np.square(both), axis=-1, keepdims=True))
    size = np.where(size > 0, size, 1.0)
    u, s, _ = np.linalg.svd(both / size, full_matrices=False)
    return np.where((s > 1e-12 * s[..., :1])[..., None, :], u, 0.0) / (np.where(s > 0, s, 1.0)[..., None, :] * size)


def null_rows(factor: Array) -> Array:
    """Combinations of the rows of a factor F that vanish, a row each: those of y that F F' = Cov(y) leaves exact."""
    size = np.sqrt(np.sum(np.square(factor), axis=-1, keepdims=True))
    size = np.where(size > 0, size, 1.0)
    u, s, _ = np.linalg.svd(factor / size)
    return np.asarray(_without_rounding(u[:, int(np.sum(s > 1e-12 * s[:1])) :].T) / size.T)


def _without_rounding(directions: Array) -> Array:
    """Directions in which nothing is seen, exactly zero where an entry is the rounding error of zero.

    Else that entry would bring its noise into a combination that has none, which is then divided by it.
    """
    return snap_to_zero(directions, 100.0)


def through(x: Array, lower: Array) -> Array:
    """X' W W'; a direction that X does not have is left out, not kept as rounding error times a large number."""
    turned = np.swapaxes(x, -1, -2)
    part = turned @ lower
    part = np.where(np.abs(part) < 1e-13 * (np.abs(turned) @ np.abs(lower)), 0.0, part)
    return np.asarray(part @ np.swapaxes(lower, -1, -2))


def exact_product(matrix: Array, x: Array) -> Array:
    """M X, zero where only the rounding error of its terms is left."""
    product = matrix @ x
    return np.where(np.abs(product) < 1e-13 * (np.abs(matrix) @ np.abs(x)), 0.0, product)


def combined_covariance(matrix: Array, covariance: Array) -> Array:
    """M C M'; a combination whose variance is the rounding error of its terms is exactly known."""
    out = matrix @ covariance @ matrix.T
    terms = np.einsum("ij,...jk,ik->...i", np.abs(matrix), np.abs(covariance), np.abs(matrix))
    keep = np.where(np.diagonal(out, axis1=-2, axis2=-1) > 1e-13 * terms, 1.0, 0.0)
    return np.asarray(out * keep[..., :, None] * keep[..., None, :])


def snap_to_zero(x: Array, scale: Array | float = 1.0) -> Array:
    """Set what is rounding error of a difference of this scale to zero, so that nothing left is exactly nothing."""
    return np.where(np.abs(x) < 1e-14 * scale, 0.0, x)


def not_negative(x: Array) -> Array:
    """Clip the diagonal at zero."""
    return np.where(np.eye(x.shape[-1], dtype=bool), np.maximum(x, 0.0), x)


def drop_spurious_covariances(x: Array) -> Array:
    """Take out covariances of entries that are known up to rounding, where they are more than the variances allow."""
    variance = np.diagonal(x, axis1=-2, axis2=-1)
    tiny = variance < 1e-26 * variance.max(axis=-1, keepdims=True)
    if not tiny.any():
        return x
    root = np.sqrt(np.where(variance > 0, variance, 1.0))
    impossible = np.linalg.eigvalsh(x / (root[:, :, None] * root[:, None, :]))[:, 0] < -1e-10
    known = tiny & impossible[:, None]
    return np.where((known[:, :, None] | known[:, None, :]) & ~np.eye(x.shape[-1], dtype=bool), 0.0, x)


def correlate(z: Array, matrix: Array) -> Array:
    """Give independent columns of variance one this covariance, in place."""
    sd = np.sqrt(np.diag(matrix))
    if np.count_nonzero(matrix - np.diag(np.diag(matrix))) == 0:
        z *= sd
        return z
    unit = np.where(sd > 0, sd, 1.0)
    # Columns in very different units: the root of their correlations, or rounding in the large ones drowns the small
    # ones.
    apart = bool(unit[sd > 0].max() > APART * unit[sd > 0].min())
    # A symmetric root also serves singular covariances.
    root = symmetric_root(matrix / unit[:, None] / unit if apart else matrix)
    for start in range(0, len(z), ROWS):
        z[start : start + ROWS] = z[start : start + ROWS] @ root
    if apart:
        z *= sd
    return z
