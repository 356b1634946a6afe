"""Normal synthetic records, with sampled or exactly matched moments."""

from __future__ import annotations

import numpy as np

from ...errors import InputError
from ...protocols import Array
from ..columnkinds import spread
from ..moments import correlate, orthonormal, sample_covariance


def draw_sampled(x: Array, g: Array | None, rng: np.random.Generator, *, proper: bool = False) -> Array:
    """Draw records from the normal law fitted to ``x``, given the columns ``g`` if there are any.

    The fit is the sample mean and covariance, divisor n - 1 (less one more for each column given). With
    ``proper`` the coefficients and the covariance are first drawn from their posterior under Jeffreys' prior
    |S|^(-(p+1)/2): S ~ inverse Wishart, coefficients given S ~ matrix normal.
    """
    n, p = x.shape
    centre, scale = x.mean(axis=0), _scale(x)
    y = (x - centre) / scale
    q = _directions(g, n)
    fitted = _project(q, y)
    df = n - 1 - len(q)
    if df < 1:
        raise InputError(
            "Normal synthesis needs more records than columns given",
            f"{n} records, {len(q)} columns given",
            "Give fewer columns",
        )
    covariance = sample_covariance(y - fitted) * ((n - 1) / df)
    if proper:
        if df < p:
            raise InputError(
                f"Drawing a covariance of {p} columns needs at least {len(q) + 1 + p} records",
                n,
                "Use proper=False or fewer columns",
            )
        covariance = _inverse_wishart(covariance * df, df, rng)
        # Coefficients of orthonormal directions, the constant one first, are independent with the covariance of a
        # record.
        doubt = correlate(rng.standard_normal((len(q) + 1, p)), covariance)
        fitted = fitted + doubt[0] / np.sqrt(n) + np.einsum("ji,jk->ik", q, doubt[1:])
    return centre + (fitted + correlate(rng.standard_normal((n, p)), covariance)) * scale


def draw_exact(x: Array, g: Array | None, rng: np.random.Generator) -> Array:
    """Draw normal records and map them affinely, so that sample mean and covariance are those of ``x`` exactly.

    Woo's Syn (Karr, Oganian, Reiter and Woo). With columns given, their sample covariances with the release are
    the original's too. Singular covariances and more columns than records are no obstacle: the map goes through
    orthogonal directions of the data and inverts nothing.
    """
    n = len(x)
    centre, scale = x.mean(axis=0), _scale(x)
    shown = np.empty((n, 0)) if g is None else (g - g.mean(axis=0)) / _scale(g)
    held = len(_directions(g, n))
    if held >= n - 1:
        raise InputError(
            "Exact moments leave no freedom with so few records",
            f"{n} records, {held} columns given",
            'Use moments="sampled", or give fewer columns',
        )
    # Given columns and file are Q R. New directions in place of those of Q that are not given leave all products R'R as
    # they are.
    q, r = orthonormal(np.hstack([shown, (x - centre) / scale]))
    fresh = orthonormal(np.hstack([shown, rng.standard_normal((n, len(q) - held))]))[0]
    out = np.einsum("ji,jk->ik", fresh, r[:, shown.shape[1] :]) * scale
    return np.asarray(out - out.mean(axis=0) + centre)


def _scale(x: Array) -> Array:
    """Standard deviations, so that units do not decide what counts as rounding."""
    sd, size = spread(x, ddof=1), np.abs(x).max(axis=0)
    return np.where(sd > 0, sd, np.where(size > 0, size, 1.0))


def _directions(g: Array | None, n: int) -> Array:
    """Orthonormal directions of the given columns, one per row; the constant one is left out."""
    return np.empty((0, n)) if g is None or not g.shape[1] else orthonormal((g - g.mean(axis=0)) / _scale(g))[0]


def _project(q: Array, y: Array) -> Array:
    """What the directions tell about the columns of y; summed in one order, whatever the number of threads."""
    return np.asarray(np.einsum("ji,jk->ik", q, np.einsum("ji,ik->jk", q, y)))


def _inverse_wishart(scatter: Array, df: int, rng: np.random.Generator) -> Array:
    """Draw from the inverse Wishart law; a singular scatter is kept singular along its null directions."""
    values, vectors = np.linalg.eigh(scatter)
    keep = values > 1e-12 * max(values[-1], 0.0)
    if not keep.any():
        return np.zeros_like(scatter)
    half = vectors[:, keep] * np.sqrt(values[keep])
    r = int(keep.sum())
    # Bartlett: W = T T' with chi on the diagonal is Wishart(df, I); the draw is half W^-1 half'.
    factor = np.tril(rng.standard_normal((r, r)), -1)
    factor[np.arange(r), np.arange(r)] = np.sqrt(rng.chisquare(df - np.arange(r)))
    side = half.T.copy()
    for i in range(r):  # a triangular system, solved in one order whatever the number of threads
        side[i] = (side[i] - np.einsum("j,jk->k", factor[i, :i], side[:i])) / factor[i, i]
    return np.asarray(np.einsum("ij,ik->jk", side, side))
