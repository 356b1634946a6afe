"""Giving records a covariance, or the moments of other records."""

from __future__ import annotations

import numpy as np

from ..protocols import Array

__all__ = ["correlate", "orthonormal", "sample_covariance", "with_moments_of"]

ROWS = 4096
"""Records at a time: what is worked on stays in the cache, and sums do not depend on the number of threads."""


def correlate(z: Array, matrix: Array) -> Array:
    """Give independent columns of variance one this covariance, in place."""
    if np.count_nonzero(matrix - np.diag(np.diag(matrix))) == 0:
        z *= np.sqrt(np.diag(matrix))
        return z
    # A symmetric root also serves singular covariances.
    eigenvalues, vectors = np.linalg.eigh(matrix)
    root = (vectors * np.sqrt(np.clip(eigenvalues, 0.0, None))) @ vectors.T
    for start in range(0, len(z), ROWS):
        z[start : start + ROWS] = z[start : start + ROWS] @ root
    return z


def sample_covariance(values: Array) -> Array:
    """Sample covariance of the columns, divisor n - 1."""
    mean, total = values.mean(axis=0), np.zeros((values.shape[1], values.shape[1]))
    for start in range(0, len(values), ROWS):
        centred = values[start : start + ROWS] - mean
        total += centred.T @ centred
    return np.asarray(total / (len(values) - 1))


def with_moments_of(x: Array, y: Array) -> Array:
    """The records y, moved linearly so that their sample mean and covariance are those of x.

    With centred X = Q_x R_x and Y = Q_y R_y the answer is Q_y W R_x for an orthogonal W, whatever W. The polar factor of
    R_y R_x' makes it nearest to Y (orthogonal Procrustes). Ill-conditioned and singular covariances need no inverse.
    """
    mean, spread = x.mean(axis=0), x.std(axis=0)
    spread = np.where(x.max(axis=0) > x.min(axis=0), spread, 1.0)
    r_x = orthonormal((x - mean) / spread)[1]
    q_y, r_y = orthonormal((y - y.mean(axis=0)) / spread)
    u, _, vt = np.linalg.svd(r_y @ r_x.T, full_matrices=False)
    return np.asarray(mean + (q_y.T @ (u @ vt @ r_x)) * spread)


def orthonormal(columns: Array) -> tuple[Array, Array]:
    """Return Q' and R: the centred columns are Q R, Q orthonormal and orthogonal to constants. Dependent columns add no direction.

    Gram-Schmidt, each step twice, which keeps Q orthogonal to the last digit. LAPACK's factorisation would depend on the number
    of threads in its last digits, and a release must not.
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
