"""Most probable values, windows and boxes: exact on a finite set of points, searched for under a density.

A density from draws comes from how far away their nearest neighbours lie.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import minimize
from scipy.spatial import cKDTree

from ..errors import UnsupportedError
from ..protocols import Array, Posterior

_ROUNDING = 4 * np.finfo(float).eps


def merge_values(values: Array, chances: Array) -> tuple[Array, Array]:
    """Distinct values ``(states,) + event`` in ascending order, with their chances ``batch + (states,)``."""
    vector = values.ndim > 1
    # Sorting by columns is several times faster than np.unique over rows.
    order = np.lexsort(values.T[::-1]) if vector else np.argsort(values, kind="stable")
    values, chances = values[order], chances[..., order]
    fresh = values[1:] != values[:-1]
    starts = np.flatnonzero(np.concatenate([[True], fresh.any(axis=-1) if vector else fresh]))
    if len(starts) < len(values):
        values, chances = values[starts], np.add.reduceat(chances, starts, axis=-1)
    return values, chances


def most_probable(values: Array, chances: Array, width: Array) -> Array:
    """The most probable of distinct ascending values, or centre of the best window or box; of equals the lowest."""
    if not width.any():
        top = chances >= chances.max(axis=-1, keepdims=True) * (1 - 1e-12)
        return np.asarray(values[np.argmax(top, axis=-1)])
    event = values.shape[1:]
    if not event:
        return best_window(values, chances, float(width))
    wide = np.broadcast_to(width, event)
    boxes = [best_box(values[p > 0], p[p > 0], wide) for p in chances.reshape(-1, len(values))]
    return np.stack(boxes).reshape(chances.shape[:-1] + event)


def window_ends(x: Array, width: float) -> NDArray[np.intp]:
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
    stack: list[tuple[int, NDArray[np.intp], tuple[float, ...]]] = [(0, np.arange(len(points)), ())]
    while stack:
        axis, active, centre = stack.pop()
        visits += 1
        if visits > budget:
            what = "The most probable box of so many points in so many dimensions cannot be found exactly"
            do = 'Use ZeroOne() without tolerance, or restrict the estimates to "target"'
            raise UnsupportedError(what, f"{points.shape[0]} values of {k} components", do)
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


def climb_box(points: Array, weights: Array, width: Array) -> Array:
    """Centre of a good box: the best window along one axis at a time, from several starts."""
    mean = weights @ points / weights.sum()
    heaviest = points[np.argsort(-weights, kind="stable")[:4]]
    spaced = points[np.linspace(0, len(points) - 1, 4).astype(int)]
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


def highest_point(law: Posterior, peaks: Array, weights: Array) -> Array:
    """The mode of a law of vectors: quasi-Newton on the log density, from the best of the ``peaks`` of its parts.

    Where a part is a point mass, the heaviest such part is the mode.
    """
    thin = slice(None, None, max(1, len(peaks) // 255))
    starts = np.concatenate([law.mean()[None], peaks[thin]])
    heights = law.log_density(starts)
    if np.isposinf(heights).any():
        return np.asarray(peaks[np.argmax(np.where(np.isposinf(law.log_density(peaks)), weights, -1.0))])
    var = law.var()
    sd = np.sqrt(np.where(np.isfinite(var) & (var > 0), var, 1.0))
    found = []
    for start in starts[np.argsort(-heights, kind="stable")[:3]]:
        depth = lambda z, x=start: -float(law.log_density(x + sd * z))  # noqa: E731
        tried: Any = minimize(depth, np.zeros(len(sd)), method="BFGS", options={"gtol": 1e-7})
        found.append((float(tried.fun), start + sd * tried.x))
    return np.asarray(min(found, key=lambda pair: pair[0])[1])


def best_box_near(law: Posterior, peaks: Array, width: Array, tries: int) -> Array:
    """Centre of the best box: the simplex of Nelder and Mead from the best of the ``peaks`` of a law's parts."""
    starts = np.concatenate([law.mean()[None], peaks])
    starts = starts[np.argsort(law.outside(starts, width).value, kind="stable")[:tries]]
    scale = np.sqrt(law.var()) + width
    scale = np.where(np.isfinite(scale), scale, 1.0 + width)
    found = []
    for start in starts:
        simplex = np.concatenate([start[None], start + 0.25 * np.diag(scale)])
        ends = {"xatol": 1e-9 * float(scale.max()), "fatol": 1e-14, "maxfev": 400 * len(start)}
        miss = lambda at: float(law.outside(at, width).value)  # noqa: E731
        tried: Any = minimize(miss, start, method="Nelder-Mead", options={"initial_simplex": simplex, **ends})
        found.append((float(tried.fun), tried.x))
    return np.asarray(min(found, key=lambda pair: pair[0])[1])


class Neighbours:
    """Density of draws ``(n, k)`` from the distance to their nearest neighbours, equal draws merged into one."""

    def __init__(self, draws: Array, weights: Array) -> None:
        points, place = np.unique(draws, axis=0, return_inverse=True)
        self.place = place.ravel()
        self.weights = np.bincount(self.place, weights=weights, minlength=len(points))
        n, k = points.shape
        mean = self.weights @ points
        cov = ((points - mean) * self.weights[:, None]).T @ (points - mean)
        scale = np.sqrt(np.diag(cov))
        eigen = np.linalg.eigvalsh(cov / np.outer(scale, scale))[0] if (scale > 0).all() else 0.0
        # Draws on a line or a plane have no density.
        self.flat = bool(n < k + 2 or eigen <= 1e-12)
        self.points, self.size, self.count = points, k, min(4, n - 1)
        if self.flat:
            return
        root = np.linalg.cholesky(cov)
        self.white = np.linalg.inv(root)
        self.shift = -float(np.sum(np.log(np.diag(root))))
        self.tree = cKDTree(points @ self.white.T)

    @cached_property
    def logs(self) -> Array:
        """Log density at each draw, without bias: a draw does not count as its own neighbour."""
        distance, near = self._nearest_points(self.points, self.count + 1)
        mass = self.weights[near[:, 1:]].sum(axis=1) / (1 - np.minimum(self.weights, 0.5))
        return self._log_densities(distance, mass, self.count)[self.place]

    def densest_draw(self) -> Array:
        """The draw of the highest density, smoothed over the square root of the number of points."""
        if self.flat:
            return self.points[np.argmax(self.weights)]
        distance, near = self._nearest_points(self.points, self._wide_count + 1)
        return self.points[np.argmax(self._log_densities(distance, self.weights[near].sum(axis=1), self._wide_count))]

    def log_density(self, at: Array) -> Array:
        """Log density at points ``(..., k)``, infinite if draws have no density."""
        if self.flat:
            return np.full(at.shape[:-1], np.inf)
        distance, near = self._nearest_points(at, self._wide_count)
        return self._log_densities(distance, self.weights[near].sum(axis=-1), self._wide_count)

    @property
    def _wide_count(self) -> int:
        return max(self.count, round(np.sqrt(len(self.points))))

    def _nearest_points(self, at: Array, count: int) -> tuple[Array, NDArray[np.intp]]:
        """Distance to the last of the nearest points, and which they are."""
        distance, near = self.tree.query(at @ self.white.T, k=count)
        return np.asarray(distance)[..., -1], np.asarray(near)

    def _log_densities(self, distance: Array, mass: Array, count: int) -> Array:
        ball = 0.5 * self.size * np.log(np.pi) - special.gammaln(0.5 * self.size + 1)
        # exp(digamma(count)) instead of count is what makes the logarithm unbiased.
        with np.errstate(divide="ignore"):
            scaled = np.log(mass) + special.digamma(count) - np.log(count)
            return np.asarray(scaled - ball - self.size * np.log(distance) + self.shift)
