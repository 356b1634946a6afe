"""Giving records a covariance, or the moments of other records."""

from __future__ import annotations

import numpy as np

from ..errors import InputError
from ..numerics.semidefinite import APART, ROWS, correlate
from ..protocols import Array
from .columns import standard_deviations

FAR = 1e100
"""Beyond this, and below its inverse, standard deviations are too large or too small to be squared."""


def correlate_like(z: Array, x: Array, share: float = 1.0) -> Array:
    """Give independent columns of variance one this share of the sample covariance of x, in place; x in any units."""
    with np.errstate(over="ignore", invalid="ignore"):
        covariance = sample_covariance(x)
    variance = np.diag(covariance)
    if variance.min() > 1.0 / FAR**2 and variance.max() < FAR**2:
        return correlate(z, share * covariance)
    sd = standard_deviations(x, ddof=1)
    unit = np.where(sd > 0, sd, 1.0)
    if unit.min() > 1.0 / FAR and unit.max() < FAR:
        return correlate(z, share * covariance)
    # Squares of these units would overflow or vanish. A power of two for all of them changes no digit, where it will
    # do.
    if sd.max() / APART <= unit[sd > 0].min():
        unit = np.full(len(sd), 2.0 ** np.floor(np.log2(sd.max())))
    z = correlate(z, share * sample_covariance((x - _column_means(x)) / unit))
    z *= unit
    return z


def sample_covariance(values: Array) -> Array:
    """Sample covariance of the columns, divisor n - 1."""
    mean, total = _column_means(values), np.zeros((values.shape[1], values.shape[1]))
    for start in range(0, len(values), ROWS):
        centred = np.subtract(values[start : start + ROWS], mean, order="C")
        total += centred.T @ centred
    return np.asarray(total / (len(values) - 1))


def _column_means(values: Array) -> Array:
    """Means of the columns, by blocks of one layout: numpy's own differ between layouts, and a release must not."""
    blocks = range(0, len(values), ROWS)
    with np.errstate(over="ignore"):
        parts = [np.ascontiguousarray(values[start : start + ROWS]).sum(axis=0) for start in blocks]
        means = np.asarray(np.sum(parts, axis=0) / len(values))
    if np.isinf(means).any() and np.isfinite(values).all():
        return _column_means(values / 2.0**64) * 2.0**64
    return means


def with_moments_of(x: Array, y: Array) -> Array:
    """The records y, moved linearly so that their sample mean and covariance are those of x.

    With centred X = Q_x R_x and Y = Q_y R_y the answer is Q_y W R_x for an orthogonal W, whatever W. The polar factor
    of R_y R_x' makes it nearest to Y (orthogonal Procrustes). Ill-conditioned and singular covariances need no inverse.
    """
    mean, sd = _column_means(x), standard_deviations(x)
    unit = np.where(sd > 0, sd, 1.0)
    r_x = orthonormal((x - mean) / unit)[1]
    with np.errstate(over="ignore"):
        noisy = (y - _column_means(y)) / unit
    if not np.all(np.abs(noisy) < 1e140):  # its squares are summed
        what, got = "The noise is too large to be given the data's moments", "more than 1e140 standard deviations"
        raise InputError(what, got, "Give less noise")
    q_y, r_y = orthonormal(noisy)
    u, _, vt = np.linalg.svd(r_y @ r_x.T, full_matrices=False)
    return np.asarray(mean + (q_y.T @ (u @ vt @ r_x)) * unit)


def orthonormal(columns: Array) -> tuple[Array, Array]:
    """Return Q' and R: the centred columns are Q R, Q orthonormal and orthogonal to constants.

    Dependent columns add no direction.
    Gram-Schmidt, each step twice, which keeps Q orthogonal to the last digit. LAPACK's factorisation would depend on
    the number of threads in its last digits, and a release must not.
    """
    n, k = columns.shape
    q, r = np.empty((min(k, n - 1) + 1, n)), np.zeros((k, k))
    q[0], found = 1.0 / np.sqrt(n), 1
    for j in range(k):
        v = columns[:, j].copy()
        size = np.sqrt(np.square(v).sum())
        for _ in range(2):
            along = np.einsum("ij,j->i", q[:found], v)
            v -= np.einsum("i,ij->j", along, q[:found])
            r[: found - 1, j] += along[1:]
        length = np.sqrt(np.square(v).sum())
        if length > 1e-13 * size and found < len(q):
            q[found], r[found - 1, j] = v / length, length
            found += 1
    return q[1:found], r[: found - 1]
