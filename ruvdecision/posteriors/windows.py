"""The most probable window (or box) of a given half-width on a finite set of points."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..protocols import Array

__all__ = ["best_box", "best_window", "climb_box"]

_ROUNDING = 4 * np.finfo(float).eps


def window_ends(x: Array, width: float) -> Any:
    """For each of the sorted points, one past the last point that a window starting there covers."""
    # Rounding must not push out a point that lies on the edge; with no width only equal points are covered.
    reach = x + 2 * width + (_ROUNDING * np.abs(x) if width > 0 else 0.0)
    return np.searchsorted(x, reach, side="right")


def best_window(x: Array, weights: Array, width: float) -> Array:
    """Centres of the best windows for sorted numbers ``x`` and weights ``batch + (points,)``; the lowest of equals."""
    ends = window_ends(x, width)
    sums = np.concatenate([np.zeros(weights.shape[:-1] + (1,)), np.cumsum(weights, axis=-1)], axis=-1)
    mass = sums[..., ends] - sums[..., np.arange(len(x))]
    best = np.argmax(mass >= mass.max(axis=-1, keepdims=True) * (1 - 1e-12), axis=-1)
    return np.asarray(x[best] + 0.5 * (x[ends[best] - 1] - x[best]))


def best_box(points: Array, weights: Array, width: Array, budget: int = 200_000) -> Array:
    """Centre of the best box for points ``(n, k)``, exactly, by branch and bound over the axes in turn."""
    k = points.shape[1]
    start = climb_box(points, weights, width)
    best_mass = float(weights[np.all(np.abs(points - start) <= width * (1 + _ROUNDING), axis=1)].sum())
    best = start
    visits = 0
    stack: list[tuple[int, Any, tuple[float, ...]]] = [(0, np.arange(len(points)), ())]
    while stack:
        axis, active, centre = stack.pop()
        visits += 1
        if visits > budget:
            raise UnsupportedError(
                "The most probable box of so many points in so many dimensions cannot be found exactly",
                f"{points.shape[0]} values of {k} components",
                'Use ZeroOne() without tolerance, or restrict the estimates to "target"',
            )
        if weights[active].sum() <= best_mass * (1 + 1e-12):
            continue
        if axis == k:
            best_mass, best = float(weights[active].sum()), np.array(centre)
            continue
        order = active[np.argsort(points[active, axis], kind="stable")]
        x = points[order, axis]
        ends = window_ends(x, float(width[axis]))
        sums = np.concatenate([[0.0], np.cumsum(weights[order])])
        mass = sums[ends] - sums[:-1]
        # The heaviest slab goes last on the stack, so it is opened first and prunes the others.
        for i in np.argsort(mass, kind="stable"):
            if mass[i] > best_mass * (1 + 1e-12):
                stack.append((axis + 1, order[i : ends[i]], (*centre, 0.5 * (x[i] + x[ends[i] - 1]))))
    return best


def climb_box(points: Array, weights: Array, width: Array, starts: int = 8) -> Array:
    """Centre of a good box: the best window along one axis at a time, from several starts."""
    mean = weights @ points / weights.sum()
    heaviest = points[np.argsort(-weights, kind="stable")[: max(1, starts // 2)]]
    spaced = points[np.linspace(0, len(points) - 1, max(1, starts // 2)).astype(int)]
    best_mass, best = -1.0, mean
    for start in np.concatenate([mean[None], heaviest, spaced]):
        centre, mass = start.astype(np.float64), -1.0
        for _ in range(50):
            for axis in range(points.shape[1]):
                near = np.abs(points - centre) <= width * (1 + _ROUNDING)
                near[:, axis] = True
                inside = np.flatnonzero(np.all(near, axis=1))
                if inside.size:
                    inside = inside[np.argsort(points[inside, axis], kind="stable")]
                    centre[axis] = best_window(points[inside, axis], weights[inside], float(width[axis]))
            now = float(weights[np.all(np.abs(points - centre) <= width * (1 + _ROUNDING), axis=1)].sum())
            if now <= mass * (1 + 1e-12):
                break
            mass = now
        if mass > best_mass * (1 + 1e-12):
            best_mass, best = mass, centre
    return best
