"""Weighted draws of a few parameters around the mode of their posterior: no sampler, and nothing to compile.

Draws from a Student-t law that was fitted to the posterior, weighed by how much likelier the posterior makes them. What
speaks against it is found out, and left to a sampler: several modes, mass that draws from the prior see far away, and
weights with a heavy tail (k-hat).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from ...beliefs.pymc import without_notices
from ...numerics.differences import climb_to_mode
from ...protocols import Array
from .log_posterior import LogPosteriors
from .nuts import quiet_arviz

Heights = Callable[[Array], Array]
PARAMETERS = 6
"""Most unconstrained numbers."""
DEGREES = 5.0
STARTS, ROUNDS, FITTED = 4, 3, 1000
GOOD_KHAT, GOOD_SHARE = 0.5, 0.15
"""Largest tail index of the weights, and least share of the draws that they are worth."""
APART, NEAR = 5.0, 7.0
"""Standard deviations from which on a mode is another one, and how far below the highest it may be, in logs."""
FAR, MISSED = 12.0, 1e-3
"""Standard deviations beyond which draws do not reach, and the share of the mass that may lie there."""


class WeightedDraws(NamedTuple):
    """Points of the unconstrained scale ``(S, d)`` with weights that sum to one."""

    u: Array
    weights: Array
    khat: float


def weighted_draws(posterior: LogPosteriors, count: int, rng: np.random.Generator) -> WeightedDraws | None:
    """So many draws from the posterior after the only release; None where it needs a sampler."""
    core = posterior.compiled.reduced_model
    points = core.prior_points if core.size <= PARAMETERS else None
    if points is None:
        return None
    log_density = lambda u: posterior.evaluate(u[None])[0][0]  # noqa: E731
    there = log_density(points[0])
    starts = [core.initial, *points[0][np.argsort(-there)[:STARTS]]]
    modes = [climb_to_mode(log_density, start) for start in starts]
    tops = log_density(np.stack(modes))
    if not np.isfinite(tops).any():
        return None
    mode = modes[int(np.argmax(np.where(np.isfinite(tops), tops, -np.inf)))]
    root = _root_at_mode(log_density, mode)
    if root is None:
        return None
    away = np.linalg.norm(np.linalg.solve(root, (np.stack(modes) - mode).T), axis=0)
    if np.any((away > APART) & (tops > np.max(tops) - NEAR)):
        return None
    centre = mode
    for turn in range(ROUNDS):
        u, logs = _draw_student(centre, root, count if turn == ROUNDS - 1 else FITTED, rng)
        ratio = log_density(u) - logs
        if turn < ROUNDS - 1:
            share = special.softmax(np.where(np.isnan(ratio), -np.inf, ratio))
            if 1 / np.sum(share**2) < 20 * core.size:
                return None
            centre = share @ u
            root = np.linalg.cholesky((share[:, None] * (u - centre)).T @ (u - centre) * (1 - 2 / DEGREES) * 1.2)
    weights, khat = pareto_smoothed_weights(ratio)
    far = np.linalg.norm(np.linalg.solve(root, (points[0] - centre).T), axis=0) > FAR
    outside = special.logsumexp(np.where(far, there - points[1], -np.inf)) - np.log(len(far))
    inside = special.logsumexp(ratio) - np.log(count)
    good = khat < GOOD_KHAT and 1 / np.sum(weights**2) > GOOD_SHARE * count and outside < inside + np.log(MISSED)
    return WeightedDraws(u, weights, khat) if good else None


def _root_at_mode(log_density: Heights, mode: Array) -> Array | None:
    """Lower root of the covariance that the curvature at the mode says; None if it is no mode."""
    size = len(mode)
    scale = np.full(size, 1e-3)
    for _ in range(6):
        # Steps over which the log posterior falls by about a half.
        ends = mode + np.concatenate([np.diag(scale), -np.diag(scale)])
        fall = np.maximum(log_density(mode[None])[0] - log_density(ends).reshape(2, size).mean(axis=0), 1e-12)
        scale = scale * np.clip(np.sqrt(0.5 / fall), 0.1, 10.0)
    pairs = [(i, j, a, b) for i in range(size) for j in range(i) for a in (1, -1) for b in (1, -1)]
    unit = np.eye(size)
    corners = [mode + scale * (a * unit[i] + b * unit[j]) for i, j, a, b in pairs]
    hessian = np.zeros((size, size))
    ends = log_density(mode + np.concatenate([np.diag(scale), -np.diag(scale)])).reshape(2, size)
    hessian[np.diag_indices(size)] = 2 * log_density(mode[None])[0] - ends.sum(axis=0)
    if corners:
        for (i, j, a, b), value in zip(pairs, log_density(np.stack(corners)), strict=True):
            hessian[i, j] -= 0.25 * a * b * value
            hessian[j, i] = hessian[i, j]
    if not np.isfinite(hessian).all():
        return None
    values, vectors = np.linalg.eigh(hessian)
    values = np.maximum(values, 0.02)
    return np.asarray(np.linalg.cholesky((vectors / values) @ vectors.T * np.outer(scale, scale)))


def _draw_student(centre: Array, root: Array, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draws from a Student-t law and their log densities."""
    size, both = len(centre), (DEGREES + len(centre)) / 2
    z = rng.standard_normal((count, size)) / np.sqrt(rng.chisquare(DEGREES, (count, 1)) / DEGREES)
    top = special.gammaln(both) - special.gammaln(DEGREES / 2) - size / 2 * np.log(DEGREES * np.pi)
    logs = top - both * np.log1p(np.vecdot(z, z) / DEGREES)
    return centre + z @ root.T, logs - np.log(np.diag(root)).sum()


def pareto_smoothed_weights(logs: Array) -> tuple[Array, float]:
    """Pareto-smoothed importance weights that sum to one, and k-hat (Vehtari et al., 2024)."""
    logs = np.asarray(logs, dtype=np.float64)
    if not np.isfinite(logs).all():
        logs = np.where(np.isnan(logs), -np.inf, logs)
        if not np.isfinite(logs.max()):
            return np.full(len(logs), 1.0 / len(logs)), np.inf
        logs = np.maximum(logs, logs.max() - 700)
    if np.ptp(logs) < 1e-9:
        # The anchor itself: constant weights have no tail to fit.
        return np.full(len(logs), 1.0 / len(logs)), -np.inf
    az = quiet_arviz()
    with without_notices(), np.errstate(all="ignore"):
        if hasattr(az, "psislw"):
            smoothed, k = az.psislw(logs.copy())
        else:
            from arviz_stats.base import array_stats

            # ArviZ 1 wants log likelihoods, whose negatives are the log weights of leave-one-out; it raises where
            # a tail has too few or only equal values to be fitted.
            try:
                smoothed, k = array_stats.psislw(-logs)
            except (ValueError, IndexError):
                smoothed, k = logs, np.inf
    weights = np.exp(np.asarray(smoothed) - np.max(smoothed))
    return weights / weights.sum(), float(k)
