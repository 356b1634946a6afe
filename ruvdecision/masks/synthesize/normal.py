"""Normal synthetic records, with sampled or exactly matched moments."""

from __future__ import annotations

import numpy as np

from ...errors import InputError
from ...protocols import Array
from ..columnkinds import spread

__all__ = ["draw_exact", "draw_sampled", "root"]


def draw_sampled(x: Array, g: Array | None, rng: np.random.Generator, *, proper: bool = False) -> Array:
    """Draw records from the normal law fitted to ``x``, given the columns ``g`` if there are any.

    The fit is the sample mean and covariance, divisor n - 1 (less one more for each column given). With
    ``proper`` the coefficients and the covariance are first drawn from their posterior under Jeffreys' prior
    |S|^(-(p+1)/2): S ~ inverse Wishart, coefficients given S ~ matrix normal.
    """
    n, p = x.shape
    centre, scale = x.mean(axis=0), _scale(x)
    y = (x - centre) / scale
    u, s = _design(g, n)
    coefficients = (u.T @ y) / s[:, None]
    residuals = y - u @ (u.T @ y)
    df = n - len(s)
    if df < 1:
        raise InputError(
            "Normal synthesis needs more records than columns given", f"{n} records, {len(s) - 1} columns given", "Give fewer columns"
        )
    covariance = residuals.T @ residuals / df
    if proper:
        if df < p:
            raise InputError(
                f"Drawing a covariance of {p} columns needs at least {len(s) + p} records", n, "Use proper=False or fewer columns"
            )
        covariance = _inverse_wishart(covariance * df, df, rng)
        coefficients = coefficients + (rng.standard_normal(coefficients.shape) / s[:, None]) @ root(covariance)
    design = u * s
    return centre + (design @ coefficients + rng.standard_normal((n, p)) @ root(covariance)) * scale


def draw_exact(x: Array, g: Array | None, rng: np.random.Generator) -> Array:
    """Draw normal records and map them affinely, so that sample mean and covariance are those of ``x`` exactly.

    Woo's Syn (Karr, Oganian, Reiter and Woo). With columns given, their sample covariances with the release are
    the original's too. Singular covariances and more columns than records are no obstacle: the map goes through
    the singular values of the data and inverts nothing.
    """
    n, p = x.shape
    centre, scale = x.mean(axis=0), _scale(x)
    y = (x - centre) / scale
    u, _ = _design(g, n)
    fitted = u @ (u.T @ y)
    _, values, directions = np.linalg.svd(y - fitted, full_matrices=False)
    r = min(p, n - u.shape[1])
    if r == 0:
        raise InputError(
            "Exact moments leave no freedom with so few records",
            f"{n} records, {u.shape[1] - 1} columns given",
            'Use moments="sampled", or give fewer columns',
        )
    z = rng.standard_normal((n, r))
    q = np.linalg.qr(z - u @ (u.T @ z))[0]
    # Once more: the rounding of the first projection would show in the covariances.
    q = np.linalg.qr(q - u @ (u.T @ q))[0]
    # Random signs make the law of q uniform; qr fixes them by its own convention.
    q = q * np.where(rng.random(r) < 0.5, -1.0, 1.0)
    out = (fitted + (q * values[:r]) @ directions[:r]) * scale
    return out - out.mean(axis=0) + centre


def root(covariance: Array) -> Array:
    """Symmetric root of a covariance, which serves singular ones too."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T


def _scale(x: Array) -> Array:
    """Standard deviations, so that units do not decide what counts as rounding."""
    sd, size = spread(x, ddof=1), np.abs(x).max(axis=0)
    return np.where(sd > 0, sd, np.where(size > 0, size, 1.0))


def _design(g: Array | None, n: int) -> tuple[Array, Array]:
    """Left singular vectors and singular values of the intercept and the standardised given columns, null directions left out."""
    columns = [np.ones((n, 1))]
    if g is not None and g.shape[1]:
        columns.append((g - g.mean(axis=0)) / _scale(g))
    u, s, _ = np.linalg.svd(np.hstack(columns), full_matrices=False)
    keep = s > 1e-11 * s[0]
    return u[:, keep], s[keep]


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
    side = np.linalg.solve(factor, half.T)
    return side.T @ side
