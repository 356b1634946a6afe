"""A density from draws: how far away the nearest neighbours lie."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.spatial import cKDTree

from ..protocols import Array


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
        distance, near = self._near(self.points, self.count + 1)
        mass = self.weights[near[:, 1:]].sum(axis=1) / (1 - np.minimum(self.weights, 0.5))
        return self._logs(distance, mass, self.count)[self.place]

    def peak(self) -> Array:
        """The draw of the highest density, smoothed over the square root of the number of points."""
        if self.flat:
            return self.points[np.argmax(self.weights)]
        distance, near = self._near(self.points, self._wide + 1)
        return self.points[np.argmax(self._logs(distance, self.weights[near].sum(axis=1), self._wide))]

    def log_density(self, at: Array) -> Array:
        """Log density at points ``(..., k)``, infinite if draws have no density."""
        if self.flat:
            return np.full(at.shape[:-1], np.inf)
        distance, near = self._near(at, self._wide)
        return self._logs(distance, self.weights[near].sum(axis=-1), self._wide)

    @property
    def _wide(self) -> int:
        return max(self.count, round(np.sqrt(len(self.points))))

    def _near(self, at: Array, count: int) -> tuple[Array, NDArray[np.intp]]:
        """Distance to the last of the nearest points, and which they are."""
        distance, near = self.tree.query(at @ self.white.T, k=count)
        return np.asarray(distance)[..., -1], np.asarray(near)

    def _logs(self, distance: Array, mass: Array, count: int) -> Array:
        ball = 0.5 * self.size * np.log(np.pi) - special.gammaln(0.5 * self.size + 1)
        # exp(digamma(count)) instead of count is what makes the logarithm unbiased.
        with np.errstate(divide="ignore"):
            scaled = np.log(mass) + special.digamma(count) - np.log(count)
            return np.asarray(scaled - ball - self.size * np.log(distance) + self.shift)
