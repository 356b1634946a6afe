"""Many normal laws asked at once: expectations on points that all of them share, and what concerns their mixture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..numerics.quadrature import GAUSS, KRONROD, NODES, adaptive, gauss_kronrod, gauss_normal
from ..numerics.semidefinite import lower_root
from ..protocols import Array, Value
from . import normal
from .base import BLOCK, as_shape
from .gaussian import Gaussian

_REACH = 9.5
"""Standard deviations beyond which a normal law counts as nothing: its tail there is below 1e-20."""
_STEP = 3.0
"""Width of a panel, in the smallest standard deviations."""
_HALVINGS = 40
_PANELS = 256
_PLACES = (-12.5, -6.0, -3.0, 0.0, 3.0, 6.0, 12.5)
"""Where, in its standard deviations, a normal law changes its manner."""
_TURNS = 8
_POINTS = 2**17
_DENSITIES = 2**26


@dataclass(frozen=True, eq=False)
class Normals:
    """One mixture of normal laws: the quick ways that its parts have together."""

    weights: Array
    parts: Gaussian

    def expect(self, f: Callable[[Array], Array], cuts: Array | None, tolerance: float) -> Value | None:
        """E f of each part and the error of their weighted mean; None if they must be asked one by one."""
        if self.parts.event:
            return None if self._sobol_points is None else self._sobol_points.expect(f)
        series = None if self._shared_nodes is None else self._shared_nodes.expect(f, cuts, tolerance)
        return None if series is None else Value(series, np.zeros(()))

    @cached_property
    def needs_cubature(self) -> bool:
        """Whether a chance of leaving a box has no closed form: three or more correlated components."""
        if not self.parts.event or self.parts.event[0] < 3 or self._sobol_points is None:
            return False
        return bool(np.any(np.where(np.eye(self.parts.event[0], dtype=bool), 0.0, self.parts.covariances)))

    def outside(self, at: Array, width: Array) -> Value:
        """P(some coordinate is farther than its width from ``at``) of each part, and the error of their mean."""
        assert self._sobol_points is not None
        return self._sobol_points.outside(at, width)

    def mean_difference(self) -> Value:
        """Gini's mean difference of the mixture, each coordinate apart."""
        columns = zip(self._as_columns(self.parts.mean()), self._as_columns(self._standard_deviations), strict=True)
        found = [mean_difference(self.weights, means, sd) for means, sd in columns]
        return Value.exact(np.array(found).reshape(self.parts.event))

    def entropy(self) -> Value:
        """Differential entropy of the mixture; minus infinity if some part with a chance is a point mass."""
        if len(self.weights) == 1:
            return self.parts.select(0).entropy()
        used = self.weights > 0
        covariances = self.parts.cov()[used]
        infinite = np.isinf(covariances).any()
        roots = np.diagonal(lower_root(np.where(np.isinf(covariances), 1.0, covariances)), axis1=-2, axis2=-1)
        if (roots == 0).any() or infinite:
            return Value.exact(-np.inf if (roots == 0).any() else np.inf)
        if not self.parts.event:
            return SortedMixture.of(self.weights, self.parts.mean(), self._standard_deviations).entropy()
        series = self.minus_log_density()
        return Value(np.asarray(self.weights @ series.value), series.error)

    def minus_log_density(self) -> Value:
        """Mean of minus the log density of a mixture of vectors under each part, and the error of their mean."""
        assert self._sobol_points is not None
        return self._sobol_points.minus_log_density

    def means_of_smooth_function(self, smooth: Callable[[Array], Array]) -> Array:
        """Mean of a smooth function under each part, for a few digits: a table of it, read at Gauss-Hermite's nodes.

        The function takes ``(points,) + event`` and answers for each coordinate; so do the laws, ``(S,) + event``.
        """
        z, share = gauss_normal(9)
        means, sds = self.parts.mean(), self._standard_deviations
        low, high = np.min(means - 5 * sds, axis=0), np.max(means + 5 * sds, axis=0)
        grid = low + (high - low) * np.linspace(0, 1, 129).reshape((-1,) + (1,) * low.ndim)
        columns = [
            np.interp(m[:, None] + s[:, None] * z, x, y) @ share
            for m, s, x, y in zip(*map(self._as_columns, (means, sds, grid, np.asarray(smooth(grid)))), strict=True)
        ]
        return np.stack(columns, axis=-1).reshape(means.shape)

    @staticmethod
    def _as_columns(array: Array) -> list[Array]:
        """Coordinates of an array of numbers ``(rows,)`` or vectors ``(rows, k)``."""
        return list(array.T) if array.ndim > 1 else [array]

    @property
    def _standard_deviations(self) -> Array:
        return np.broadcast_to(self.parts.sd, self.parts.batch + self.parts.event)

    @cached_property
    def _shared_nodes(self) -> SharedNodes | None:
        """Nodes on the line with the density of every part, if they fit."""
        return SharedNodes.of(self.weights, self.parts.mean(), self._standard_deviations)

    @cached_property
    def _sobol_points(self) -> SobolPoints | None:
        """A few points in space for each part."""
        if np.isinf(self.parts.covariances).any():
            return None
        return SobolPoints.of(self.weights, self.parts.mean(), self.parts.cov())


@dataclass(frozen=True, eq=False)
class SharedNodes:
    """Kronrod panels over all components, a few of the smallest sds wide, with every component's density at every node.

    The densities are computed once; then E f of every component is one matrix product, whatever f.
    """

    edges: Array
    nodes: Array
    densities: Array
    """``(nodes, S)``"""
    average: Array
    """The weighted mean of the densities."""
    weights: Array
    means: Array
    sds: Array
    unit: float
    """Width of a panel.

    Densities are per panel, so that neither they nor their products overflow, whatever the scale.
    """

    @classmethod
    def of(cls, weights: Array, means: Array, sds: Array) -> SharedNodes | None:
        """None if a component has no density, or the components are too far apart for their size to share nodes."""
        used = weights > 0
        if not (sds > 0).all() or np.isinf(sds).any():
            return None
        low, high = float(np.min((means - _REACH * sds)[used])), float(np.max((means + _REACH * sds)[used]))
        with np.errstate(over="ignore"):
            # A few narrow components may be seen too coarsely at first; their panels are halved where it matters.
            panels = np.ceil((high - low) / (_STEP * float(np.quantile(sds[used], 0.02))))
        if not panels * 21 * len(means) <= BLOCK:
            return None
        edges = np.linspace(low, high, int(panels) + 1)
        nodes = (0.5 * (edges[1:] + edges[:-1])[:, None] + 0.5 * np.diff(edges)[:, None] * NODES).reshape(-1)
        unit = float(edges[1] - edges[0])
        densities = unit * _normal_densities(nodes, means, sds)
        return cls(edges, nodes, densities, densities @ weights, weights, means, sds, unit)

    def expect(self, f: Callable[[Array], Array], cuts: Array | None, tolerance: float) -> Array | None:
        """E f of each component, ``(S,)``; None if f is too rough for the nodes. ``cuts`` are the kinks of f.

        Panels on which Gauss and Kronrod disagree are halved until their mean over components is right to
        ``tolerance``.
        """
        half = np.full(len(self.edges) - 1, 0.5)
        values = as_shape(f(self.nodes), self.nodes.shape).reshape(-1, 21)
        if not np.isfinite(values).all():
            return None
        average = self.average.reshape(-1, 21)
        _, error, size = gauss_kronrod(values * average, half)
        # Ends that still count hide growth beyond them.
        outer = np.abs(values * average)
        if 0.5 * (outer[0, :5] @ KRONROD[:5] + outer[-1, -5:] @ KRONROD[-5:]) > 0.1 * tolerance * size.sum():
            return None
        inside = np.array([]) if cuts is None else np.unique(cuts[(cuts > self.edges[0]) & (cuts < self.edges[-1])])
        places = np.clip(np.searchsorted(self.edges, inside, side="right") - 1, 0, len(self.edges) - 2)
        bad = error > tolerance * size.sum() / 16
        bad[places] = False
        low, high = self.edges[:-1][bad], self.edges[1:][bad]
        todo = np.concatenate(
            [self._panels_around_kinks(inside, np.unique(places)), _halve_panels(low, high, 0 * low, 0 * low)]
        )
        weights = np.where(bad, 0.0, half)
        weights[places] = 0.0
        series = (values * weights[:, None] * KRONROD).reshape(-1) @ self.densities
        total = float(size[weights > 0].sum())
        for turn in range(_HALVINGS):
            if not len(todo):
                break
            if len(todo) > _PANELS or turn == _HALVINGS - 1:
                return None
            start, stop, origin, reach = todo.T
            u = 0.5 * (start + stop)[:, None] + 0.5 * (stop - start)[:, None] * NODES
            curved = (reach != 0)[:, None]
            # Beside a kink nodes crowd towards it: x = origin + reach u^3 takes the edge off any power.
            x = np.where(curved, origin[:, None] + reach[:, None] * u**3, u)
            stretch = np.where(curved, 3 * np.abs(reach / self.unit)[:, None] * u**2, 1.0 / self.unit)
            step = 0.5 * (stop - start)[:, None] * stretch
            values = as_shape(f(x.reshape(-1)), (x.size,)).reshape(x.shape)
            if not np.isfinite(values).all():
                return None
            densities = self.unit * _normal_densities(x.reshape(-1), self.means, self.sds)
            averages = (densities @ self.weights).reshape(x.shape)
            _, error, size = gauss_kronrod(values * averages * step, np.ones(len(x)))
            bad = error > tolerance * (total + size.sum()) / 16
            total += float(size[~bad].sum())
            series = series + (values * step * KRONROD * ~bad[:, None]).reshape(-1) @ densities
            todo = _halve_panels(*todo[bad].T)
        return np.asarray(series)

    def _panels_around_kinks(self, cuts: Array, places: Array) -> Array:
        """Panels next to the kinks: rows of (from, to, origin, reach), u running away from the kink at the origin."""
        rows = []
        for place in places:
            low, high = self.edges[place], self.edges[place + 1]
            mine = cuts[(cuts >= low) & (cuts <= high)]
            ends = np.concatenate([[low], 0.5 * (mine[1:] + mine[:-1]), [high]])
            for i, cut in enumerate(mine):
                rows += [(0.0, 1.0, cut, end - cut) for end in ends[i : i + 2] if end != cut]
        return np.array(rows).reshape(-1, 4)


def _normal_densities(x: Array, means: Array, sds: Array) -> Array:
    return np.asarray(normal.phi((x[:, None] - means) / sds) / sds)


def _halve_panels(low: Array, high: Array, origin: Array, reach: Array) -> Array:
    """Rows of panels, each halved."""
    middle = 0.5 * (low + high)
    return np.concatenate([np.stack([low, middle, origin, reach], 1), np.stack([middle, high, origin, reach], 1)])


@dataclass(frozen=True)
class SortedMixture:
    """One mixture of numbers, its components in ascending order of their means, none of weight zero."""

    weights: Array
    means: Array
    sds: Array

    @classmethod
    def of(cls, weights: Array, means: Array, sds: Array) -> SortedMixture:
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
        return self._kernel_sum_near(x, 13.0, lambda z, sds: normal.phi(z) / sds)[0]

    def cdf_and_survival(self, x: Array) -> tuple[Array, Array]:
        """F(x) and 1 - F(x), each without cancellation."""
        near, start, stop = self._kernel_sum_near(x, _REACH, lambda z, _: special.ndtr(z))
        rest, _, _ = self._kernel_sum_near(x, _REACH, lambda z, _: special.ndtr(-z))
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
            below, above = self.cdf_and_survival(x)
            return 2 * float(x[1] - x[0]) * float(np.sum(below * above))
        # Otherwise the components are far apart for their size: sorted means, and the pairs that are near each other.
        sums = np.cumsum(self.weights)[:-1]
        total = 2 * float(np.sum(sums * np.maximum(1 - sums, 0.0) * np.diff(self.means)))
        total += float(np.sum(self.weights**2 * 2 * self.sds / np.sqrt(np.pi)))
        index = np.arange(len(self.means))
        # Each component looks as far as its own sd and the largest one call for.
        far = self.means + _REACH * np.hypot(self.sds, self.sds.max())
        reach = np.searchsorted(self.means, far, side="right") - index
        for offset in range(1, int(reach.max())):
            index = index[reach[index] > offset]
            d, s = self.means[index + offset] - self.means[index], np.hypot(self.sds[index], self.sds[index + offset])
            # Twice for the two orders of a pair, twice for E |X| - d = 2 E max(-X, 0).
            total += 4 * float(
                np.sum(self.weights[index] * self.weights[index + offset] * normal.mean_positive_part(-d, s))
            )
        return total

    def entropy(self) -> Value:
        """Differential entropy over sets of parts that do not reach each other: sum of W (H - log W), W a set's weight.

        A set of one has a closed form, any other is measured from a place of its own, so that parts that are tiny for
        their distance keep their digits.
        """
        sets = self._set_of_each_component()
        alone = np.bincount(sets)[sets] == 1
        weights, sds = self.weights[alone], self.sds[alone]
        value = float(weights @ (0.5 * (1 + np.log(2 * np.pi)) + np.log(sds) - np.log(weights)))
        error = 0.0
        rest = np.flatnonzero(~alone)
        groups = np.unique(sets[rest])
        # Too many sets to take one by one are taken as one.
        for part in [rest[sets[rest] == k] for k in groups] if len(groups) <= 256 else [rest]:
            total = float(self.weights[part].sum())
            middle = float(self.means[part[len(part) // 2]])
            own = SortedMixture(self.weights[part] / total, self.means[part] - middle, self.sds[part])
            found = own._entropy_together()
            value += total * (float(found.value) - np.log(total))
            error += total * float(found.error)
        return Value(np.asarray(value), np.asarray(error))

    def _set_of_each_component(self) -> NDArray[np.intp]:
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
                return self._componentwise_entropy()
            edges = np.unique(np.concatenate([self.means + c * self.sds for c in _PLACES]))
        elif panels <= 20_000:
            edges = np.linspace(low, high, int(max(panels, 8.0)) + 1)
        else:
            return self._entropy_apart()
        return adaptive(lambda x: special.entr(self.density(x)), edges, relative=1e-11, budget=100_000)

    def _componentwise_entropy(self) -> Value:
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

    def _kernel_sum_near(
        self, x: Array, reach: float, kernel: Callable[[Array, Array], Array]
    ) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
        """Weighted sum of the kernel over the components within reach of each point, and where they start and stop."""
        flat = np.ravel(x)
        order = np.argsort(flat, kind="stable")
        points = flat[order]
        far = reach * float(self.sds.max())
        first = np.searchsorted(self.means, points - far, side="left")
        last = np.searchsorted(self.means, points + far, side="right")
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
        return SortedMixture.of(weights, means, sds).mean_difference()
    s = np.hypot(sds[:, None], sds)
    pairs = normal.mean_power(means[:, None] - means, np.where(np.isinf(s), 0.0, s), 1.0)
    return float(weights @ pairs @ weights)


@dataclass(frozen=True, eq=False)
class SobolPoints:
    """Scrambled Sobol points for every component, shifted by an amount of its own (Cranley and Patterson, 1976).

    With shifts of their own the components' errors average out; without, a few points would err for all alike. Eight
    independent turns show the error that is left.
    """

    weights: Array
    means: Array
    roots: Array
    """Lower triangular roots of the covariances, ``(S, k, k)``."""
    uniform: Array
    """``(turns, points, S, k)``"""

    @classmethod
    def of(cls, weights: Array, means: Array, covs: Array) -> SobolPoints:
        """Place the points: some hundred thousand in all, at least two in each turn and component."""
        count, k = means.shape
        per = 2 ** max(1, min(12, int(np.log2(_POINTS / (_TURNS * count) + 1))))
        return cls(weights, means, lower_root(covs), _shifted_cube_points(k, per, count))

    def expect(self, f: Callable[[Array], Array]) -> Value:
        """E f of each component, and the error of their weighted mean."""
        return self._mean_with_error(as_shape(f(self.theta), self.theta.shape[:1]).reshape(self.uniform.shape[:-1]))

    def outside(self, at: Array, width: Array) -> Value:
        """P(some coordinate is farther than its width from ``at``)."""
        return self._mean_with_error(
            normal.probability_outside_by_separation(self.means - at, self.roots, width, self.uniform)
        )

    @cached_property
    def minus_log_density(self) -> Value:
        """Mean of minus the log of the averaged density under each component; fewer points will do if they are many."""
        turns, per, count, k = self.uniform.shape
        room = max(2 * count, _DENSITIES // count)
        used = min(turns, room // count)
        keep = min(per, 2 ** int(np.log2(room // (used * count))))
        flat = self.theta.reshape(turns, per, count, k)[:used, :keep].reshape(-1, k)
        values = np.empty(len(flat))
        step = max(1, BLOCK // count)
        for start in range(0, len(flat), step):
            values[start : start + step] = self._log_density(flat[start : start + step])
        return self._mean_with_error(-values.reshape(used, keep, count))

    @cached_property
    def theta(self) -> Array:
        """The points, ``(turns * points * S, k)``."""
        z = special.ndtri(self.uniform)
        return np.asarray(self.means + np.einsum("sij,tpsj->tpsi", self.roots, z)).reshape(-1, self.means.shape[1])

    def _mean_with_error(self, values: Array) -> Value:
        """Means over points ``(turns, points, S)`` for each component, and the error of their mean."""
        table = values.mean(axis=1)
        turns = table @ self.weights
        return Value(np.asarray(table.mean(axis=0)), np.asarray(turns.std(ddof=1) / np.sqrt(len(turns))))

    @cached_property
    def _log_density_coefficients(self) -> tuple[Array, Array, Array]:
        """Mean and scale of all, and the components' log densities as quadratic forms in whitened coordinates."""
        centre = self.weights @ self.means
        scale = np.sqrt(self.weights @ (np.square(self.means - centre) + np.sum(np.square(self.roots), axis=-1)))
        means, roots = (self.means - centre) / scale, self.roots / scale[:, None]
        inverse = np.linalg.inv(roots)
        precision = np.swapaxes(inverse, -1, -2) @ inverse
        linear = np.einsum("sij,sj->si", precision, means)
        logdet = np.sum(np.log(np.diagonal(roots, axis1=-2, axis2=-1)), axis=-1) + np.sum(np.log(scale))
        k = means.shape[1]
        with np.errstate(divide="ignore"):
            constant = (
                np.log(self.weights) - 0.5 * k * np.log(2 * np.pi) - logdet - 0.5 * np.einsum("si,si->s", linear, means)
            )
        pairs = np.triu_indices(k)
        square = np.where(pairs[0] == pairs[1], -0.5, -1.0) * precision[:, pairs[0], pairs[1]]
        return centre, scale, np.concatenate([constant[:, None], linear, square], axis=1).T

    def _log_density(self, points: Array) -> Array:
        centre, scale, forms = self._log_density_coefficients
        x = (points - centre) / scale
        pairs = np.triu_indices(x.shape[1])
        # One matrix product gives every component at every point.
        logs = np.concatenate([np.ones((len(x), 1)), x, x[:, pairs[0]] * x[:, pairs[1]]], axis=1) @ forms
        top = np.max(logs, axis=1)
        return np.asarray(top + np.log(np.sum(np.exp(logs - top[:, None]), axis=1)))


@lru_cache(maxsize=8)
def _shifted_cube_points(k: int, per: int, count: int) -> Array:
    """Points of every turn with the shift of every component, inside the open unit cube; always the same ones."""
    from scipy.stats import qmc

    blocks = []
    for turn in range(_TURNS):
        rng = np.random.default_rng([20020501, k, turn])
        base = qmc.Sobol(k, scramble=True, rng=rng).random_base2(int(np.log2(per)))
        shifts = qmc.Sobol(k, scramble=True, rng=rng).random_base2(int(np.ceil(np.log2(max(2, count)))))[:count]
        blocks.append((base[:, None] + shifts) % 1.0)
    block = np.clip(np.stack(blocks), 2.0**-40, 1 - 2.0**-40)
    block.setflags(write=False)
    return block
