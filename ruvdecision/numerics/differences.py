"""Derivatives by differences, the mode that they lead to, and functions that differences show to be affine."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy import optimize

from ..protocols import Array


def affine_form(function: Callable[[Array], Array], width: int) -> tuple[Array, Array, bool] | None:
    """Matrix and constant of a function of points ``(points, width)``, and whether it gives numbers, if it is affine.

    It is tried at the origin, along each axis and at twelve random points of three sizes.
    """
    rng = np.random.default_rng(0)
    probes = np.concatenate([rng.standard_normal((4, width)) * s for s in (1e-2, 1.0, 1e3)])
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            origin, axes = (function(points) for points in (np.zeros((1, width)), np.eye(width)))
            if not (np.isfinite(origin).all() and np.isfinite(axes).all()):
                return None
            values = function(probes).reshape(len(probes), -1)
    except (ArithmeticError, ValueError):
        return None
    constant = np.atleast_1d(origin[0])
    matrix = (axes.reshape(width, -1) - constant).T
    room = 1e-9 * (1.0 + np.abs(constant) + np.abs(probes) @ np.abs(matrix).T)
    close = np.abs(values - (probes @ matrix.T + constant)) <= room
    return (matrix, constant, origin.ndim == 1) if np.all(close) else None


def ridders_derivative(f: Callable[[Array], Array], x: Array, step: Array) -> Array:
    """Derivative of f, by central differences of ever smaller steps, extrapolated; the most settled one counts.

    Ridders (1982).
    """
    step = np.where(step > 0, step, np.maximum(np.abs(x), 1.0) * 1e-3)
    best = np.zeros(np.broadcast_shapes(x.shape, step.shape))
    least = np.full(best.shape, np.inf)
    row: list[Array] = []
    for turn in range(12):
        h = step / 2**turn
        # The step that the arguments really make.
        right, left = x + h, x - h
        fresh = [np.asarray((f(right) - f(left)) / (right - left))]
        for i, old in enumerate(row):
            fresh.append(fresh[i] + (fresh[i] - old) / (4 ** (i + 1) - 1))
            off = np.maximum(np.abs(fresh[i + 1] - fresh[i]), np.abs(fresh[i + 1] - old))
            better = off <= least
            best, least = np.where(better, fresh[i + 1], best), np.where(better, off, least)
        row = fresh
    return np.asarray(best)


def climb_to_mode(log_density: Callable[[Array], Array], start: Array) -> Array:
    """A mode of a log density that takes many points at once; slopes are differences."""
    size, near = len(start), np.eye(len(start))

    def slope(u: Array) -> tuple[float, Array]:
        step = 1e-5 * np.maximum(1.0, np.abs(u))
        around = log_density(np.concatenate([u[None], u + step * near, u - step * near]))
        around = np.where(np.isfinite(around), -around, 1e300)
        found = (around[1 : size + 1] - around[size + 1 :]) / (2 * step)
        return float(around[0]), np.where(np.abs(found) < 1e200, found, 0.0)

    with np.errstate(all="ignore"):
        return np.asarray(optimize.minimize(slope, start, jac=True, method="BFGS", options={"maxiter": 200}).x)
