"""Mixtures of many normal numbers, sorted, so that each question looks only at the components nearby."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..numerics.quadrature import GAUSS, KRONROD, NODES, adaptive
from ..protocols import Array, Value
from . import normal
from .base import BLOCK

_REACH = 9.5
"""Standard deviations beyond which a normal law counts as nothing: its tail there is below 1e-20."""
_PLACES = (-12.5, -6.0, -3.0, 0.0, 3.0, 6.0, 12.5)
"""Where, in its standard deviations, a normal law changes its manner."""


@dataclass(frozen=True)
class Sorted:
    """One mixture of numbers, its components in ascending order of their means, none of weight zero."""

    weights: Array
    means: Array
    sds: Array

    @classmethod
    def of(cls, weights: Array, means: Array, sds: Array) -> Sorted:
        """Sort the components, drop those of weight zero."""
        used = np.flatnonzero(weights > 0)
        order = used[np.argsort(means[used], kind="stable")]
        return cls(weights[order], means[order], sds[order])

    @property
    def ends(self) -> tuple[float, float]:
        """Where the mixture lies for all practical purposes."""
        return float(np.min(self.means - _REACH * self.sds)), float(np.max(self.means + _REACH * self.sds))

    def density(self, x: Array) -> Array:
        """Density at ``x``, of any shape; components farther than 13 of the largest sds count as nothing."""
        return self._near(x, 13.0, lambda z, sds: normal.phi(z) / sds)[0]

    def below(self, x: Array) -> tuple[Array, Array]:
        """F(x) and 1 - F(x), each without cancellation."""
        near, start, stop = self._near(x, _REACH, lambda z, _: special.ndtr(z))
        rest, _, _ = self._near(x, _REACH, lambda z, _: special.ndtr(-z))
        sums = np.concatenate([[0.0], np.cumsum(self.weights)])
        back = np.concatenate([np.cumsum(self.weights[::-1])[::-1], [0.0]])
        return near + sums[start], rest + back[stop]

    def mean_difference(self) -> float:
        """Gini's mean difference, E |X - X'|."""
        low, high = self.ends
        bottom = float(self.sds.min())
        # F (1 - F) has a spectrum below exp(-(s w)**2 / 4): with steps of s/2 the trapezoidal rule errs by less than
        # 1e-16.
        nodes = 2 * (high - low) / bottom + 2 if bottom > 0 else np.inf
        if nodes <= 20_000:
            x = np.linspace(low, high, int(nodes))
            below, above = self.below(x)
            return 2 * float(x[1] - x[0]) * float(np.sum(below * above))
        # Otherwise the components are far apart for their size: sorted means, and the pairs that are near each other.
        sums = np.cumsum(self.weights)[:-1]
        total = 2 * float(np.sum(sums * np.maximum(1 - sums, 0.0) * np.diff(self.means)))
        total += float(np.sum(self.weights**2 * 2 * self.sds / np.sqrt(np.pi)))
        index = np.arange(len(self.means))
        # Each component looks as far as its own sd and the largest one call for.
        reach = (
            np.searchsorted(self.means, self.means + _REACH * np.hypot(self.sds, self.sds.max()), side="right") - index
        )
        for offset in range(1, int(reach.max())):
            index = index[reach[index] > offset]
            d, s = self.means[index + offset] - self.means[index], np.hypot(self.sds[index], self.sds[index + offset])
            # Twice for the two orders of a pair, twice for E |X| - d = 2 E max(-X, 0).
            total += 4 * float(np.sum(self.weights[index] * self.weights[index + offset] * normal.positive_part(-d, s)))
        return total

    def entropy(self) -> Value:
        """Differential entropy over sets of parts that do not reach each other: sum of W (H - log W), W a set's weight.

        A set of one has a closed form, any other is measured from a place of its own, so that parts that are tiny for
        their distance keep their digits.
        """
        sets = self._sets()
        alone = np.bincount(sets)[sets] == 1
        weights, sds = self.weights[alone], self.sds[alone]
        value = float(weights @ (0.5 * np.log(2 * np.pi * np.e) + np.log(sds) - np.log(weights)))
        error = 0.0
        rest = np.flatnonzero(~alone)
        groups = np.unique(sets[rest])
        # Too many sets to take one by one are taken as one.
        for part in [rest[sets[rest] == k] for k in groups] if len(groups) <= 256 else [rest]:
            total = float(self.weights[part].sum())
            middle = float(self.means[part[len(part) // 2]])
            found = Sorted(self.weights[part] / total, self.means[part] - middle, self.sds[part])._entropy_together()
            value += total * (float(found.value) - np.log(total))
            error += total * float(found.error)
        return Value(np.asarray(value), np.asarray(error))

    def _sets(self) -> NDArray[np.intp]:
        """Number of the set that each component belongs to; different sets lie more than 13 sds apart."""
        low, high = self.means - 13 * self.sds, self.means + 13 * self.sds
        order = np.argsort(low, kind="stable")
        fresh = low[order][1:] > np.maximum.accumulate(high[order])[:-1]
        found = np.empty(len(order), dtype=np.intp)
        found[order] = np.concatenate([[0], np.cumsum(fresh)])
        return found

    def _entropy_together(self) -> Value:
        """Entropy over the line if the components crowd it, otherwise component by component."""
        low, high = self.ends
        # x log x keeps a digit where x has lost none, so go a little farther than for the chances themselves.
        low, high = low - 3 * float(self.sds.max()), high + 3 * float(self.sds.max())
        panels = (high - low) / (3 * float(self.sds.min()))
        if len(self.means) <= 64:
            if panels > 20_000:
                return self._entropy_each()
            edges = np.unique(np.concatenate([self.means + c * self.sds for c in _PLACES]))
        elif panels <= 20_000:
            edges = np.linspace(low, high, int(max(panels, 8.0)) + 1)
        else:
            return self._entropy_apart()
        return adaptive(lambda x: special.entr(self.density(x)), edges, relative=1e-11, budget=100_000)

    def _entropy_each(self) -> Value:
        """Sum over components of the mean of -log density, each in its own units: its own distances are then exact."""
        value = error = 0.0
        heights = np.log(self.weights) - np.log(self.sds) - 0.5 * np.log(2 * np.pi)
        for i, (weight, sd) in enumerate(zip(self.weights, self.sds, strict=True)):
            gaps = self.means[i] - self.means

            def integrand(z: Array, gaps: Array = gaps, sd: float = sd) -> Array:
                with np.errstate(over="ignore"):  # too far away to count
                    logs = heights - 0.5 * np.square((gaps + sd * z[:, None]) / self.sds)
                return -normal.phi(z) * np.logaddexp.reduce(logs, axis=-1)

            places = np.concatenate([(c * self.sds - gaps) / sd for c in _PLACES])
            found = adaptive(integrand, np.unique(np.clip(places, -12.5, 12.5)), relative=1e-12, budget=100_000)
            value += float(weight) * float(found.value)
            error += float(weight) * float(found.error)
        return Value(np.asarray(value), np.asarray(error))

    def _entropy_apart(self) -> Value:
        """Sum over components of the mean of -log density, by fixed Kronrod panels with the error that Gauss shows."""
        edges = np.array([-9.5, -4.0, -1.5, 1.5, 4.0, 9.5])
        z = (0.5 * (edges[1:] + edges[:-1])[:, None] + 0.5 * np.diff(edges)[:, None] * NODES).ravel()
        rules = [(0.5 * np.diff(edges)[:, None] * rule).ravel() * normal.phi(z) for rule in (KRONROD, GAUSS)]
        totals = np.zeros(2)
        for start in range(0, len(self.means), 10_000):
            part = slice(start, start + 10_000)
            logs = -np.log(np.maximum(self.density(self.means[part, None] + self.sds[part, None] * z), 1e-300))
            totals += [float(self.weights[part] @ (logs @ rule)) for rule in rules]
        # A place far from the origin is rounded by more than a place near it, for the size of its component.
        rounded = np.finfo(float).eps * float(self.weights @ (np.abs(self.means) / self.sds))
        return Value(np.asarray(totals[0]), np.asarray(abs(totals[0] - totals[1]) + rounded))

    def _near(
        self, x: Array, reach: float, kernel: Callable[[Array, Array], Array]
    ) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
        """Weighted sum of the kernel over the components within reach of each point, and where they start and stop."""
        flat = np.ravel(x)
        order = np.argsort(flat, kind="stable")
        points = flat[order]
        far = reach * float(self.sds.max())
        first, last = (
            np.searchsorted(self.means, points - far, side="left"),
            np.searchsorted(self.means, points + far, side="right"),
        )
        sums = np.zeros(len(points))
        at = 0
        while at < len(points):
            # Neighbouring points share most of their components; a block takes as many as fit.
            stop = int(np.searchsorted(points, points[at] + 0.5 * far, side="right"))
            stop = max(at + 1, min(stop, at + max(1, BLOCK // max(1, int(last[at] - first[at]) * 2))))
            # Where components are sparse, a wider block wastes little and saves a turn.
            twice = 2 * stop - at
            while twice <= len(points) and (twice - at) * int(last[twice - 1] - first[at]) <= 100_000:
                stop, twice = twice, 2 * twice - at
            a, b = int(first[at]), int(last[stop - 1])
            z = (points[at:stop, None] - self.means[a:b]) / self.sds[a:b]
            inside = (np.arange(a, b) >= first[at:stop, None]) & (np.arange(a, b) < last[at:stop, None])
            sums[at:stop] = np.where(inside, kernel(z, self.sds[a:b]), 0.0) @ self.weights[a:b]
            at = stop
        back = np.empty(len(points), dtype=np.intp)
        back[order] = np.arange(len(points))
        return sums[back].reshape(np.shape(x)), first[back].reshape(np.shape(x)), last[back].reshape(np.shape(x))


def mean_difference(weights: Array, means: Array, sds: Array) -> float:
    """E |X - X'| for two copies of one mixture of numbers; exact to rounding error.

    All pairs in closed form while they are few; otherwise of order m.
    """
    if np.any(np.isinf(sds) & (weights > 0)):
        return np.inf
    if len(weights) > 300:
        return Sorted.of(weights, means, sds).mean_difference()
    s = np.hypot(sds[:, None], sds)
    pairs = normal.power(means[:, None] - means, np.where(np.isinf(s), 0.0, s), 1.0)
    return float(weights @ pairs @ weights)
