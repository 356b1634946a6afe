"""Normal synthetic records with sampled or exactly matched moments, and records drawn from a user's belief."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import InputError, UnsupportedError
from ...numerics.semidefinite import correlate, range_root, symmetric_root
from ...protocols import Array
from ..columns import standard_deviations
from ..frame import Frame
from ..moments import orthonormal, sample_covariance


def draw_sampled(x: Array, g: Array | None, rng: np.random.Generator, *, proper: bool = False) -> Array:
    """Draw records from the normal law fitted to ``x``, given the columns ``g`` if there are any.

    The fit is the sample mean and covariance, divisor n - 1 (less one more for each column given). With
    ``proper`` the coefficients and the covariance are first drawn from their posterior under Jeffreys' prior
    |S|^(-(p+1)/2): S ~ inverse Wishart, coefficients given S ~ matrix normal.
    """
    n, p = x.shape
    centre, scale = x.mean(axis=0), _standard_deviations(x)
    y = (x - centre) / scale
    q = _orthonormal_directions(g, n)
    # What the directions tell; summed in one order, whatever the number of threads.
    fitted = np.einsum("ji,jk->ik", q, np.einsum("ji,ik->jk", q, y))
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
        error = correlate(rng.standard_normal((len(q) + 1, p)), covariance)
        fitted = fitted + error[0] / np.sqrt(n) + np.einsum("ji,jk->ik", q, error[1:])
    return centre + (fitted + correlate(rng.standard_normal((n, p)), covariance)) * scale


def draw_exact(x: Array, g: Array | None, rng: np.random.Generator) -> Array:
    """Draw normal records and map them affinely, so that sample mean and covariance are those of ``x`` exactly.

    Woo's Syn (Karr, Oganian, Reiter and Woo). With columns given, their sample covariances with the release are
    the original's too. Singular covariances and more columns than records are no obstacle: the map goes through
    orthogonal directions of the data and inverts nothing.
    """
    n = len(x)
    centre, scale = x.mean(axis=0), _standard_deviations(x)
    shown = np.empty((n, 0)) if g is None else (g - g.mean(axis=0)) / _standard_deviations(g)
    held = len(_orthonormal_directions(g, n))
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


def _standard_deviations(x: Array) -> Array:
    """Standard deviations, so that units do not decide what counts as rounding."""
    sd, size = standard_deviations(x, ddof=1), np.abs(x).max(axis=0)
    return np.where(sd > 0, sd, np.where(size > 0, size, 1.0))


def _orthonormal_directions(g: Array | None, n: int) -> Array:
    """Orthonormal directions of the given columns, one per row; the constant one is left out."""
    return (
        np.empty((0, n))
        if g is None or not g.shape[1]
        else orthonormal((g - g.mean(axis=0)) / _standard_deviations(g))[0]
    )


def _inverse_wishart(scatter: Array, df: int, rng: np.random.Generator) -> Array:
    """Draw from the inverse Wishart law; a singular scatter is kept singular along its null directions."""
    half = range_root(scatter, np.ones(len(scatter)), 1e-12)[0]
    r = half.shape[1]
    # Bartlett: W = T T' with chi on the diagonal is Wishart(df, I); the draw is half W^-1 half'.
    factor = np.tril(rng.standard_normal((r, r)), -1)
    factor[np.arange(r), np.arange(r)] = np.sqrt(rng.chisquare(df - np.arange(r)))
    side = half.T.copy()
    for i in range(r):  # a triangular system, solved in one order whatever the number of threads
        side[i] = (side[i] - np.einsum("j,jk->k", factor[i, :i], side[:i])) / factor[i, i]
    return np.asarray(np.einsum("ij,ik->jk", side, side))


def draw_belief(belief: Any, frame: Frame, positions: list[int], rng: np.random.Generator) -> Any:
    """Draw a data set from the posterior predictive law of a belief, one row per record and one column per variable.

    A belief that offers ``predictive(data, rng)`` is asked for it. ``data`` are the chosen columns of the
    confidential file: a DataFrame, or an array if an array is being masked. It gives back as many rows and columns.
    """
    n, k = frame.n, len(positions)
    predictive = getattr(belief, "predictive", None)
    if callable(predictive):
        part = frame.table.iloc[:, positions]
        array = part.to_numpy()[:, 0] if frame.kind in ("series", "vector") else part.to_numpy()
        drawn = predictive(part if frame.kind == "frame" else array, rng)
    elif hasattr(belief, "record_covariance"):
        values, _ = frame.numeric("Synthesize(belief=...)", [frame.columns[i] for i in positions])
        drawn = normal_predictive(belief, values, rng)
    else:
        raise UnsupportedError(
            f"{type(belief).__name__} offers no posterior predictive law",
            do="Give it a method predictive(data, rng), or use a NormalBelief",
        )
    shape = np.shape(drawn)
    if shape not in ((n, k), (n,) if k == 1 else (n, k)):
        raise InputError(
            f"The belief must draw {n} records of {k} columns",
            f"shape {shape}",
            "Give back as many rows and columns as predictive(data, rng) received",
        )
    return drawn


def normal_predictive(belief: Any, data: Array, rng: np.random.Generator) -> Array:
    """Draw ``mu`` from its posterior given the data, then records around it, under a `NormalBelief`.

    mu | x ~ N(m, V) with V = D - D (D + S/n)^-1 D and m = c + D (D + S/n)^-1 (mean - c), where S is the covariance of a
    record, c and D the prior mean and covariance; a flat prior has m = mean and V = S/n.
    """
    n, k = data.shape
    if belief.record_covariance.shape != (k, k):
        what = f"The belief has {len(belief.record_covariance)} variables"
        raise InputError(what, f"{k} columns", "Name the belief's columns with columns=[...]")
    if belief.records != n:
        what = f"The belief is about {belief.records} records"
        raise InputError(what, f"{n} records", "Make a belief with as many records as the data")
    mean = data.mean(axis=0)
    if belief.mu_covariance is None:
        centre, covariance = mean, belief.record_covariance / n
    else:
        gain = np.linalg.solve(belief.mu_covariance + belief.record_covariance / n, belief.mu_covariance).T
        centre = belief.mu_mean + gain @ (mean - belief.mu_mean)
        covariance = belief.mu_covariance - gain @ belief.mu_covariance
    mu = centre + rng.standard_normal(k) @ symmetric_root((covariance + covariance.T) / 2)
    return np.asarray(mu + rng.standard_normal((n, k)) @ symmetric_root(belief.record_covariance))
