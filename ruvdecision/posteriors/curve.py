"""A posterior of a number known by its log density on a grid: quadrature's own law."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike
from scipy import special

from ..checks import Index, as_float_array, check_finite
from ..errors import InputError
from ..numerics.quadrature import adaptive, gauss_legendre
from ..numerics.roots import monotone_root
from ..protocols import Array, Value
from .base import (
    BLOCK,
    LEVEL,
    BasePosterior,
    Growth,
    Pairs,
    as_kinks,
    as_shape,
    as_weight_matrix,
    check_level,
    check_width,
)
from .curvespline import Ints, Splines, cut_pieces, trim_pieces
from .normal import expm1_less

_CUT = 12
"""Gauss nodes on each side of a kink."""
_SURE = 1e-9
"""Share of the mass that counts as nothing."""
FAR = (1e36, 1e40, -1e36, -1e40)
"""Numbers between which it is seen how a function grows to the right, and to the left."""
LEAST_GROWTH = 0.02
"""A power that is that of rounding, or of a logarithm."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Curve(BasePosterior):
    """A batch of laws on the line, each known by its log density on one common grid.

    Between the points the log density is a spline of degree seven, and the law normalises itself. The density is zero
    outside the grid and may jump at its ends, so that a truncated law is as exact as any other.

    Parameters
    ----------
    x : array, ``(points,)``
        Ascending; fine enough that the log density is smooth from point to point. A point that occurs twice marks a
        jump: the first holds the value from the left, the second that from the right.
    log_density : array, ``batch + (points,)``
        Log density at the points, up to a constant of each law. Minus infinity is allowed at the ends of a piece.
    breaks : array, optional
        Points of the grid where the density has a kink but no jump.

    A grid that is somewhat coarse gives every answer an error, the share of the mass that it leaves uncertain; one that
    is far too coarse is refused.

    Examples
    --------
    >>> x = np.linspace(0, 40, 201)
    >>> law = Curve(x, -x)
    >>> float(law.mean().round(9)), float(law.quantile(0.5).round(9))
    (1.0, 0.693147181)
    """

    splines: Splines
    lost: Array
    tails: tuple[Array, Array]
    """Orders from which moments are infinite, left and right, as the law goes on beyond the grid."""

    def __init__(self, x: ArrayLike, log_density: ArrayLike, breaks: ArrayLike | None = None) -> None:
        grid = check_finite("x", as_float_array("x", x))
        values = as_float_array("log_density", log_density)
        if (
            grid.ndim != 1
            or len(grid) < 4
            or (np.diff(grid) < 0).any()
            or (grid[2:] == grid[:-2]).any()
            or grid[0] == grid[-1]
        ):
            what = "x must be at least four ascending points, none more than twice"
            raise InputError(what, f"shape {grid.shape}", "Sort the grid")
        if not 1e-60 < grid[-1] - grid[0] < 1e60:
            got = f"a span of {grid[-1] - grid[0]:.3g}"
            raise InputError("x must span between 1e-60 and 1e60", got, "Give the numbers in other units")
        if values.ndim == 0 or values.shape[-1] != len(grid):
            what = f"log_density must have shape batch + ({len(grid)},)"
            raise InputError(what, f"shape {values.shape}", "Give one log density per point")
        if values.size == 0:
            what = "log_density must hold at least one law"
            raise InputError(what, f"shape {values.shape}", "Give one log density per point")
        if np.isnan(values).any() or np.isposinf(values).any():
            what = "log_density must be numbers below infinity"
            raise InputError(what, f"{int(np.sum(~(values < np.inf)))} others", "Check the law")
        named = check_finite("breaks", as_float_array("breaks", [] if breaks is None else breaks))
        if named.ndim > 1:
            do = "Name the points where the density has a kink"
            raise InputError("breaks must be a list of points", f"shape {named.shape}", do)
        kinks = np.unique(named)
        inside = kinks[(kinks > grid[0]) & (kinks < grid[-1])]
        if not np.isin(inside, grid).all():
            got = f"{int(np.sum(~np.isin(inside, grid)))} others"
            raise InputError("breaks must be points of the grid", got, "Put them into x")
        inside = inside[~np.isin(inside, grid[:-1][np.diff(grid) == 0])]
        rows = values.reshape(-1, len(grid)).T
        grids, pieces, lost = cut_pieces(grid, rows, inside)
        self.__dict__.update(vars(self._of_splines(Splines(tuple(grids), tuple(pieces)), lost, values.shape[:-1])))
        error = float(np.max(self.splines.error + lost, initial=0.0))
        if not error < 0.01:
            times = np.clip((error / 1e-9) ** 0.125, 2.0, 20.0)
            got = f"{len(grid)} points that leave {min(error, 1.0):.2g} of the mass uncertain"
            do = f"Use at least {int(np.ceil(len(grid) * times))} points, or name kinks in breaks"
            raise InputError("The grid is too coarse for its density", got, do)

    @classmethod
    def from_pieces(cls, grids: Sequence[Array], log_densities: Sequence[Array]) -> Curve:
        """A law whose density may jump from one piece of the line to the next.

        ``log_densities`` has one array ``batch + (points,)`` for each grid. A grid that is too coarse is taken as it
        is: `error` says how far the law is off.
        """
        rows = [values.reshape(-1, values.shape[-1]).T for values in log_densities]
        kept, pieces, lost = trim_pieces(grids, rows, gaps=True)
        return cls._of_splines(Splines(tuple(kept), tuple(pieces)), lost, log_densities[0].shape[:-1])

    @classmethod
    def _of_splines(
        cls, splines: Splines, lost: Array, batch: tuple[int, ...], tails: tuple[Array, Array] | None = None
    ) -> Curve:
        none = np.full(batch, np.inf)
        return cls._of(splines=splines, lost=lost, batch=batch, tails=(none, none) if tails is None else tails)

    def __repr__(self) -> str:
        low, high = self.ends
        return f"Curve(points={sum(map(len, self.splines.grids))}, from {low:.6g} to {high:.6g}, batch={self.batch})"

    # -- shape and place -----------------------------------------------------------------------------

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the grid, where the law ends."""
        return float(self.splines.grids[0][0]), float(self.splines.grids[-1][-1])

    @cached_property
    def error(self) -> Array:
        """Share of the mass that the grid leaves uncertain; zero if it is fine enough."""
        total = self.splines.error + self.lost
        return self._in_batch_shape(np.where(total < _SURE, 0.0, total))

    def less_certain(self, more: float) -> Curve:
        """The same law with another share of its mass uncertain."""
        return self._of_splines(self.splines, self.lost + more, self.batch, self.tails)

    def with_tails(self, left: Array, right: Array) -> Curve:
        """The same law with tails that go on beyond the grid: moments from these orders on are infinite."""
        return self._of_splines(self.splines, self.lost, self.batch, (np.asarray(left), np.asarray(right)))

    def select(self, index: Index) -> Curve:
        rows = np.arange(self.splines.rows).reshape(self.batch)[index]
        flat = np.ravel(rows)
        left, right = (order[index] for order in self.tails)
        return self._of_splines(self.splines.take(flat), self.lost[flat], np.shape(rows), (left, right))

    def mixed(self, weights: Array) -> Curve:
        """The average along the last axis of the batch, as one law on the same grid."""
        share = np.broadcast_to(weights, self.batch)
        rows, count = (int(np.prod(self.batch[:-1])), self.batch[-1])
        with np.errstate(divide="ignore"):
            logs = np.log(share).ravel() - self._log_mass
        values = [special.logsumexp((v + logs).reshape(-1, rows, count), axis=2) for v in self.splines.values]
        top = np.max([v.max(axis=0) for v in values], axis=0)
        lost = np.sum(share.reshape(rows, count) * self.lost.reshape(rows, count), axis=1)
        left, right = (np.where(share > 0, order, np.inf).min(axis=-1) for order in self.tails)
        return self._of_splines(
            Splines(self.splines.grids, tuple(v - top for v in values)), lost, self.batch[:-1], (left, right)
        )

    # -- summaries -----------------------------------------------------------------------------------

    def mean(self) -> Array:
        return self._with_tails(Value.exact(self._in_batch_shape(self._mean_of_nodes)), (-1.0, 1.0)).value

    def var(self) -> Array:
        return self.quadratic().value

    def quantile(self, q: float) -> Array:
        """A root of the distribution function within its interval, to the last digits."""
        level = np.full(self.splines.rows, check_level("q", q))
        return self._in_batch_shape(self._solve_quantile(level, np.arange(self.splines.rows)))

    def cdf(self, at: ArrayLike) -> Array:
        below = self._average_with_kinks(lambda x, a: (x <= a).astype(np.float64), at, [0.0])
        return np.minimum(below, 1.0)

    def log_density(self, at: ArrayLike) -> Array:
        """Log density, minus infinity outside the grid; at a jump the higher side."""
        at = np.asarray(at, dtype=np.float64)
        shape = np.broadcast_shapes(at.shape, self.batch)
        x = np.broadcast_to(at, shape).ravel()
        row = np.broadcast_to(np.arange(self.splines.rows).reshape(self.batch), shape).ravel()
        left, right, piece = self.splines.edges
        out = np.full(len(x), -np.inf)
        for side in ("right", "left"):
            place = np.clip(np.searchsorted(left, x, side=side) - 1, 0, len(left) - 1)  # type: ignore[call-overload]
            inside = np.flatnonzero((x >= left[place]) & (x <= right[place]))
            values = (
                self.splines.log_density_of_row(x[inside], piece[place[inside]], row[inside])
                - self._log_mass[row[inside]]
            )
            out[inside] = np.maximum(out[inside], values)
        return np.asarray(out.reshape(shape))

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        level = rng.random((size, *self.batch))
        row = np.broadcast_to(np.arange(self.splines.rows).reshape(self.batch), level.shape).ravel()
        return self._solve_quantile(level.ravel(), row).reshape(level.shape)

    # -- expectations --------------------------------------------------------------------------------

    def expect(self, f: Callable[[Array], Array], at: ArrayLike | None = None) -> Value:
        """E f by adaptive quadrature between points of the grid and the kinks ``at``."""
        rows = np.arange(self.splines.rows).reshape(self.batch)
        total, error = np.zeros(self.batch), np.zeros(self.batch)
        for i, grid in enumerate(self.splines.grids):
            panels = grid[np.unique(np.linspace(0, len(grid) - 1, min(len(grid), 49)).astype(int))]
            edges = np.broadcast_to(panels.reshape((-1,) + (1,) * len(self.batch)), (len(panels), *self.batch))
            if at is not None:
                kinks = np.clip(as_kinks(at, self.batch), grid[0], grid[-1])
                edges = np.sort(np.concatenate([edges, np.broadcast_to(kinks, kinks.shape[:1] + self.batch)]), axis=0)

            def integrand(x: Array, i: int = i) -> Array:
                row = np.broadcast_to(rows, x.shape).ravel()
                logs = self.splines.log_density_of_row(x.ravel(), np.full(x.size, i), row) - self._log_mass[row]
                return np.asarray(as_shape(f(x), x.shape) * np.exp(logs).reshape(x.shape))

            found = adaptive(integrand, edges, relative=1e-12)
            total, error = total + found.value, error + found.error
        with np.errstate(invalid="ignore"):
            return self._with_tails_of(f, Value(total, error + self.error * np.abs(total)), self.batch)

    def expect_last(self, f: Callable[[Array], Array], at: ArrayLike | None = None) -> Value:
        """E f of every law on nodes that all of them share, for f that is smooth but for kinks at ``at``."""
        if len(self.batch) > 1:
            return super().expect_last(f, at)
        cuts = None if at is None else np.ravel(np.asarray(at, dtype=np.float64))
        nodes, weights = self._gauss_nodes
        values = as_shape(f(nodes.ravel()), (nodes.size,)).reshape(nodes.shape) * weights
        if cuts is None or not len(cuts):
            value = values.ravel() @ self._density_at_nodes
        else:
            x, w, piece, hit = self._pieces_at(np.sort(cuts)[None], 0.0, graded=True)
            values[hit[0]] = 0.0
            extra = as_shape(f(x[0]), x.shape[1:]) * w[0]
            near = np.exp(self.splines.log_density_of_all(x[0], piece[0]) - self._log_mass)
            value = values.ravel() @ self._density_at_nodes + extra @ near
        return self._with_tails_of(f, self._value_with_error(self._in_batch_shape(value)), self.batch[:-1])

    def quadratic(self, weights: ArrayLike = 1.0) -> Value:
        variance = self._in_batch_shape(self._mean_at_nodes(np.square(self._nodes_less_mean)))
        found = self._value_with_error(float(as_weight_matrix(weights, ())[0, 0]) * variance)
        return self._with_tails(found, (2.0, 2.0))

    def power(self, at: ArrayLike, p: float, *, signed: bool = False) -> Value:
        def g(x: Array, a: Array) -> Array:
            gap = x - a
            return np.asarray(np.abs(gap) ** p * (np.sign(gap) if signed else 1.0))

        found = self._average_with_kinks(g, at, [0.0], power=0.0 if float(p).is_integer() else p, signed=signed)
        return self._with_tails(self._value_with_error(found), (-p if signed else p, p))

    def outside(self, at: ArrayLike, width: ArrayLike) -> Value:
        if not check_width(width, ()).any():
            # Nobody hits a point of a continuum.
            return Value.exact(np.ones(np.broadcast_shapes(np.shape(at), self.batch)))
        found = super().outside(at, width)
        return Value(np.minimum(found.value, 1.0), found.error)

    def log_mgf(self, t: float, *, centred: bool = False) -> Value:
        u = t * self._nodes_less_mean
        top = max(
            t * (end - m)
            for end in self.ends
            for m in (float(self._mean_of_nodes.min()), float(self._mean_of_nodes.max()))
        )
        with np.errstate(divide="ignore"):
            if top <= 1.0:
                value = np.log1p(self._mean_at_nodes(expm1_less(u)))
            else:
                logs = (
                    u + np.log(self._gauss_nodes[1]).reshape(-1, 1) + np.log(np.maximum(self._density_at_nodes, 1e-300))
                )
                value = special.logsumexp(logs, axis=0)
        mean, found = self.mean(), self._in_batch_shape(value)
        endless = np.isfinite(self.tails[1 if t > 0 else 0]) & (t != 0) | (centred & ~np.isfinite(mean))
        own = found if centred else found + t * np.where(endless, 0.0, mean)
        return Value(np.where(endless, np.inf, own), np.where(endless, 0.0, self.error * np.abs(found)))

    def mean_difference(self) -> Value:
        """Twice the integral of F (1 - F)."""
        nodes, weights = self._gauss_nodes
        step = weights.sum(axis=1)
        density = self._density_at_nodes.reshape(*nodes.shape, -1)
        inner = np.einsum("ij,njr->nir", _cumulative_weights(nodes.shape[1]), density) * step[:, None, None]
        below = self._cdf_at_edges[:-1, None] + inner
        found = self._in_batch_shape(2 * self._mass_of(below * np.maximum(1 - below, 0.0)))
        return self._with_tails(self._value_with_error(found), (1.0, 1.0))

    def entropy(self) -> Value:
        found = self._in_batch_shape(
            self._mass_of(special.entr(self._density_at_nodes).reshape(*self._gauss_nodes[0].shape, -1))
        )
        return Value(found, self.error * (1 + np.abs(found)))

    # -- helpers -------------------------------------------------------------------------------------

    def _mode_candidates(self, half_width: float) -> Array:
        points = np.concatenate(self.splines.grids)
        if half_width:
            low, high = self.ends
            points = np.concatenate([g[:: max(1, len(g) // 256)] for g in self.splines.grids])
            points = np.clip(np.concatenate([points, [low + half_width, high - half_width]]), low, high)
        return np.unique(points).reshape((-1,) + (1,) * len(self.batch))

    def _average(
        self, g: Pairs, at: ArrayLike = 0.0, kinks: Sequence[float] = (), *, joint: bool = False, growth: Growth = LEVEL
    ) -> Value:
        return self._with_tails(self._value_with_error(self._average_with_kinks(g, at, list(kinks))), growth)

    def _with_tails_of(self, f: Callable[[Array], Array], found: Value, shape: tuple[int, ...]) -> Value:
        """The mean of a function of points ``(points, *shape)``, infinite where the tails make it so."""
        if not any(np.isfinite(order).any() for order in self.tails):
            return found
        with np.errstate(all="ignore"):
            try:
                far = [as_shape(f(np.full((1, *shape), x)), (1, *shape)).ravel() for x in FAR]
            except Exception:  # a function that says nothing so far out
                return found
            right, left = (_power_of_growth(*far[i : i + 2]) for i in (0, 2))
        return self._with_tails(found, (left, right))

    @property
    def _tail_orders(self) -> tuple[Array, Array]:  # type: ignore[override]
        return self.tails

    @cached_property
    def _gauss_nodes(self) -> tuple[Array, Array]:
        """Gauss nodes and weights in every interval, ``(intervals, order)``."""
        left, right, _ = self.splines.edges
        z, w = _unit_legendre(6 if len(left) * self.splines.rows <= 200_000 else 4)
        return left[:, None] + (right - left)[:, None] * z, (right - left)[:, None] * w

    @cached_property
    def _raw_density(self) -> tuple[Array, Array]:
        nodes, weights = self._gauss_nodes
        logs = self.splines.log_density_of_all(nodes.ravel(), np.repeat(self.splines.edges[2], nodes.shape[1]))
        density = np.exp(np.minimum(logs, 50.0))
        mass = weights.ravel() @ density
        return np.asarray(density / mass), np.log(mass)

    @property
    def _density_at_nodes(self) -> Array:
        """Densities at the nodes, ``(nodes, rows)``."""
        return self._raw_density[0]

    @property
    def _log_mass(self) -> Array:
        return self._raw_density[1]

    @cached_property
    def _mean_of_nodes(self) -> Array:
        nodes = self._gauss_nodes[0]
        base = float(nodes.flat[nodes.size // 2])
        return np.asarray(base + ((nodes - base) * self._gauss_nodes[1]).ravel() @ self._density_at_nodes)

    @property
    def _nodes_less_mean(self) -> Array:
        return self._gauss_nodes[0].reshape(-1, 1) - self._mean_of_nodes

    @cached_property
    def _cdf_at_edges(self) -> Array:
        """Distribution functions at the ends of the intervals, ``(intervals + 1, rows)``."""
        nodes, weights = self._gauss_nodes
        parts = np.einsum("ni,nir->nr", weights, self._density_at_nodes.reshape(*nodes.shape, -1))
        return np.concatenate([np.zeros((1, parts.shape[1])), np.cumsum(parts, axis=0)])

    def _mean_at_nodes(self, values: Array) -> Array:
        """Mean of values at the nodes, ``(nodes, rows)``."""
        return np.asarray(np.einsum("n,nr,nr->r", self._gauss_nodes[1].ravel(), self._density_at_nodes, values))

    def _mass_of(self, values: Array) -> Array:
        """Integral of values at the nodes, ``(intervals, order, rows)``."""
        return np.asarray(np.einsum("ni,nir->r", self._gauss_nodes[1], values))

    def _in_batch_shape(self, rows: Array) -> Array:
        return np.asarray(np.reshape(rows, self.batch))

    def _value_with_error(self, value: Array) -> Value:
        value, endless = np.asarray(value), np.isinf(self.error)
        if endless.any():
            # A law whose tail makes the loss infinite, whatever the grid holds of it.
            value = np.where(endless, np.inf, value)
            return Value(value, np.where(endless, 0.0, self.error) * np.where(endless, 0.0, np.abs(value)))
        return Value(value, np.broadcast_to(self.error * np.abs(value), value.shape))

    def _average_with_kinks(
        self, g: Pairs, at: ArrayLike, kinks: list[float], *, power: float = 0.0, signed: bool = False
    ) -> Array:
        """E g(theta, at) for g with kinks at ``at`` plus those given; leading axes of ``at`` stay.

        With ``power`` g is |theta - at| to that power (with its sign if ``signed``), which Gauss and Jacobi's rule
        integrates.
        """
        at = np.asarray(at, dtype=np.float64)
        inner = len(self.batch)
        at = at.reshape((1,) * max(0, inner - at.ndim) + at.shape)
        lead, middle = at.shape[: at.ndim - inner], at.shape[at.ndim - inner :]
        nodes, weights = self._gauss_nodes
        shared = all(n == 1 for n in middle)
        if shared:
            points, row = at.ravel(), None
        else:
            full = np.broadcast_to(at, lead + self.batch)
            points = full.ravel()
            row = np.broadcast_to(np.arange(self.splines.rows).reshape(self.batch), full.shape).ravel()
        step = max(1, BLOCK // (nodes.size + (100 * self.splines.rows if shared else 100)))
        found = []
        for start in range(0, len(points), step):
            a = points[start : start + step]
            x, w, piece, hit = self._pieces_at(a[:, None] + np.array(kinks), power)
            # Where g is a power its size is in the weights, and only the sign is left.
            extra = w * (
                np.sign(x - a[:, None]) if power and signed else np.ones_like(x) if power else g(x, a[:, None])
            )
            table = g(nodes.ravel(), a[:, None]).reshape(len(a), *nodes.shape) * weights
            np.put_along_axis(table, hit[:, :, None], 0.0, axis=1)
            flat = table.reshape(len(a), -1)
            if row is None:
                logs = self.splines.log_density_of_all(x.ravel(), piece.ravel()) - self._log_mass
                near = np.einsum("ae,aer->ar", extra, np.exp(logs).reshape(*x.shape, -1))
                found.append(flat @ self._density_at_nodes + near)
            else:
                mine = row[start : start + step]
                logs = self.splines.log_density_of_row(x.ravel(), piece.ravel(), np.repeat(mine, x.shape[1])).reshape(
                    x.shape
                )
                near = np.sum(extra * np.exp(logs - self._log_mass[mine][:, None]), axis=1)
                found.append(np.einsum("an,na->a", flat, self._density_at_nodes[:, mine]) + near)
        return np.concatenate(found).reshape(lead + self.batch)

    def _pieces_at(self, cuts: Array, power: float, *, graded: bool = False) -> tuple[Array, Array, Ints, Ints]:
        """Nodes, weights, pieces and numbers of the intervals that the ascending ``cuts`` (points, c) go through.

        With ``power`` (one cut) the neighbours are taken in too, where a power is still steep, and the weights hold it.
        With ``graded`` nodes crowd towards the outer cuts, which takes the edge off any power.
        """
        left, right, piece = self.splines.edges
        last = len(left) - 1
        place = np.clip(np.searchsorted(left, cuts, side="right") - 1, 0, last)
        spans = [place, place]
        if power:
            beside = np.maximum(place - 1, 0), np.minimum(place + 1, last)
            spans = [np.where(piece[at] == piece[place], at, place) for at in beside]
        low, high = left[spans[0]], right[spans[1]]
        fresh = np.ones(place.shape, dtype=bool)
        fresh[:, 1:] = place[:, 1:] != place[:, :-1]
        ends = np.concatenate(
            [low[..., None], np.clip(cuts[:, None, :], low[..., None], high[..., None]), high[..., None]], axis=-1
        )
        length = np.diff(ends, axis=-1) * fresh[..., None]
        z, w = _unit_jacobi(power)
        if power:
            # The rule starts at the cut and goes outwards on either side; a cut off the line is as smooth as any place.
            outer = (cuts < low) | (cuts > high)
            flip = np.stack([ends[..., 1:2] - length[..., :1] * z, ends[..., 1:2] + length[..., 1:] * z], axis=-2)
            weights = length[..., None] ** (power + 1) * w
            plain, share = _unit_legendre(_CUT)
            inside = ends[..., :-1, None] + length[..., None] * plain
            level = length[..., None] * share * np.abs(inside - cuts[..., None, None]) ** power
            off = outer[..., None, None]
            x, weights = np.where(off, inside, flip), np.where(off, level, weights)
        else:
            x, weights = ends[..., :-1, None] + length[..., None] * z, length[..., None] * w
            if graded:
                weights = weights.copy()
                x[..., 0, :] = ends[..., 1, None] - length[..., 0, None] * z**3
                x[..., -1, :] = ends[..., -2, None] + length[..., -1, None] * z**3
                weights[..., [0, -1], :] *= 3 * z**2
        which = np.broadcast_to(piece[place][..., None, None], x.shape)
        count = len(cuts)
        hit = np.concatenate([spans[0], place, spans[1]], axis=1) if power else place
        return x.reshape(count, -1), weights.reshape(count, -1), which.reshape(count, -1), hit

    def _solve_quantile(self, level: Array, row: Ints) -> Array:
        """Quantiles: the interval from the cumulated masses, then a root inside it."""
        left, right, piece = self.splines.edges
        sums = self._cdf_at_edges[:, row]
        total = sums[-1]
        place = np.clip(np.sum(sums[1:-1] < level * total, axis=0), 0, len(left) - 1)
        low, high = left[place], right[place]
        base = sums[place, np.arange(len(place))]
        z, w = _unit_legendre(_CUT)

        def gap(x: Array) -> Array:
            inside = low[:, None] + (x - low)[:, None] * z
            logs = self.splines.log_density_of_row(
                inside.ravel(), np.repeat(piece[place], len(z)), np.repeat(row, len(z))
            )
            part = np.exp(logs.reshape(inside.shape) - self._log_mass[row][:, None]) @ w * (x - low)
            return np.asarray(base + part - level * total)

        root = monotone_root(gap, low, high)
        first, last = self.ends
        return np.where(level <= 0, first, np.where(level >= 1, last, root))


def _power_of_growth(near: Array, far: Array) -> float:
    """Power like which a function grows between two of `FAR`, with its sign, the largest of several."""
    power = np.log(np.abs(far) / np.abs(near)) / np.log(abs(FAR[1] / FAR[0]))
    power = np.where(np.isinf(far), np.inf, np.where(np.isnan(power), 0.0, np.maximum(power, 0.0)))
    worst = int(np.argmax(power))
    return float(np.copysign(power[worst], far[worst])) if power[worst] > LEAST_GROWTH else 0.0


@lru_cache(maxsize=16)
def _unit_legendre(order: int) -> tuple[Array, Array]:
    """Gauss's nodes and weights on (0, 1)."""
    z, w = gauss_legendre(order)
    return 0.5 * (z + 1), 0.5 * w


@lru_cache(maxsize=64)
def _unit_jacobi(power: float) -> tuple[Array, Array]:
    """Nodes and weights on (0, 1) for the weight t ** power."""
    if not power:
        return _unit_legendre(_CUT)
    z, w = special.roots_jacobi(_CUT, 0.0, power)
    return np.asarray(0.5 * (z + 1)), np.asarray(w / 2 ** (power + 1))


@lru_cache(maxsize=8)
def _cumulative_weights(order: int) -> Array:
    """Integrals from 0 to each node of (0, 1) of the polynomials that are one at a node and zero at the others."""
    z, _ = gauss_legendre(order)
    basis = np.linalg.inv(legendre.legvander(z, order - 1))
    return np.asarray(0.5 * legendre.legval(z, legendre.legint(basis, lbnd=-1)).T)
