"""Log densities on a grid as splines of high order, piece by piece, a whole batch on one grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.interpolate import BSpline, make_interp_spline

from ..errors import InputError
from ..protocols import Array

Ints = NDArray[np.intp]

_DEGREE = 7
_ABRUPT = 1000.0
"""Ratio of neighbouring gaps beyond which points stand together."""
_MOST = 50.0
"""Largest log density above the top: a spline on too coarse a grid overshoots."""
_FLOOR = -1e5
"""Log density, below the top, that stands for nothing at all; deeper values would only cost digits."""


@dataclass(frozen=True, eq=False)
class Splines:
    """Log densities of ``rows`` laws: in every piece one spline per row through the points of the grid.

    Arrays have points first and rows last.
    """

    grids: tuple[Array, ...]
    values: tuple[Array, ...]
    """Log densities at the points, ``(points of the piece, rows)``, the highest of each row being zero."""

    @property
    def rows(self) -> int:
        return int(self.values[0].shape[1])

    def take(self, rows: Ints) -> Splines:
        """Some of the rows."""
        return replace(self, values=tuple(v[:, rows] for v in self.values))

    @cached_property
    def edges(self) -> tuple[Array, Array, Ints]:
        """Left and right ends of all intervals, and the piece of each."""
        left = np.concatenate([g[:-1] for g in self.grids])
        right = np.concatenate([g[1:] for g in self.grids])
        return left, right, np.repeat(np.arange(len(self.grids)), [len(g) - 1 for g in self.grids])

    @cached_property
    def piecewise_splines(self) -> list[BSpline]:
        """One vector-valued B-spline per piece."""
        return [_fit_spline(g, v) for g, v in zip(self.grids, self.values, strict=True)]

    @cached_property
    def error(self) -> Array:
        """Share of the mass that the grid leaves uncertain, one per row.

        Splines through every other point are held against the points between them; halving the step takes off a factor
        of 2 to the power of the order, of which a part is given up for safety.
        """
        total, off = np.zeros(self.rows), np.zeros(self.rows)
        for grid, values in zip(self.grids, self.values, strict=True):
            n = len(grid)
            width = np.gradient(grid) if n > 1 else np.ones(1)
            mass = width[:, None] * np.exp(values)
            total += mass.sum(axis=0)
            if n < 4:
                off += mass.sum(axis=0)
                continue
            # Both halves of the points are held against the other: a spike on one point escapes one of them.
            parts = []
            for first in (0, 1):
                kept = np.union1d(np.arange(first, n, 2), [0, n - 1])
                left = np.setdiff1d(np.arange(n), kept)
                rough = _fit_spline(grid[kept], values[kept])
                gap = np.abs(rough(grid[left]) - values[left])
                # A parabola is a normal law, which any spline gets right: rounding alone is no error.
                gap = np.maximum(gap - 1e-11 * (1 + np.abs(values[left])), 0.0)
                few = mass[left].sum(axis=0) + mass[kept].sum(axis=0)
                parts.append(np.sum(2 * mass[left] * np.minimum(gap, 50.0), axis=0) * 8 * 0.5 ** (rough.k + 1))
                # Where nearly all the mass sits on one point, no spline can tell what lies beside it.
                parts.append(np.where(mass.max(axis=0) > 0.7 * few, few, 0.0))
            off += np.max(parts, axis=0)
        return np.asarray(off / total)

    def log_density_of_all(self, x: Array, piece: Ints) -> Array:
        """Log densities of all rows at the points ``x`` of the given pieces, ``(points, rows)``."""
        out = np.empty((len(x), self.rows))
        for i, fit in enumerate(self.piecewise_splines):
            mine = np.flatnonzero(piece == i)
            if len(mine):
                out[mine] = _spline_basis(fit, x[mine], self.grids[i]) @ fit.c
        return np.minimum(out, _MOST)

    def log_density_of_row(self, x: Array, piece: Ints, row: Ints) -> Array:
        """Log density of one row at each point, ``(points,)``."""
        out = np.empty(len(x))
        for i, fit in enumerate(self.piecewise_splines):
            mine = np.flatnonzero(piece == i)
            if len(mine):
                basis = _spline_basis(fit, x[mine], self.grids[i])
                shape = (len(mine), fit.k + 1)
                out[mine] = np.einsum(
                    "nk,nk->n", basis.data.reshape(shape), fit.c[basis.indices.reshape(shape), row[mine, None]]
                )
        return np.minimum(out, _MOST)


def cut_pieces(x: Array, values: Array, breaks: Array) -> tuple[list[Array], list[Array], Array]:
    """Cut a grid where a point occurs twice (a jump) or is named in ``breaks`` (a kink), and trim the pieces."""
    jumps = np.flatnonzero(np.diff(x) == 0)
    kinks = np.searchsorted(x, breaks)
    starts = np.unique(np.concatenate([[0], jumps + 1, kinks])).astype(int)
    stops = np.unique(np.concatenate([jumps, kinks, [len(x) - 1]])).astype(int)
    starts, stops = starts[starts < len(x) - 1], stops[stops > 0]
    # A kink shares its point with both neighbours; at a jump each side has its own.
    ends = stops[np.searchsorted(stops, starts, side="right")]
    return trim_pieces(
        *zip(*((x[a : b + 1], values[a : b + 1]) for a, b in zip(starts, ends, strict=True)), strict=True)
    )


def trim_pieces(
    grids: Sequence[Array], values: Sequence[Array], *, gaps: bool = False
) -> tuple[list[Array], list[Array], Array]:
    """Take off ends of density zero; values are ``(points, rows)``.

    Gives back grids, values less their highest in each row, and the share of each row's mass that those ends may hide.
    Places of density zero inside a piece are refused, unless ``gaps`` says that they may be.
    """
    top = np.max([v.max(axis=0) for v in values], axis=0)
    if not np.isfinite(top).all():
        what = "log_density must be finite somewhere"
        raise InputError(what, "minus infinity throughout", "Check the law and the grid's range")
    kept, pieces, lost = [], [], np.zeros(len(top))
    for grid, own in zip(grids, values, strict=True):
        inside = own - top
        gone = np.isneginf(inside)
        empty = gone.all(axis=0)
        if empty.all():
            continue
        inside[:, empty] = _FLOOR
        gone[:, empty] = False
        first = int(np.max(np.argmin(gone, axis=0)))
        last = len(grid) - int(np.max(np.argmin(gone[::-1], axis=0)))
        if last - first < 2 and gaps:
            first, last = 0, len(grid)
        elif (gone[first:last].any() and not gaps) or last - first < 2:
            what = "log_density must not be minus infinity inside the grid"
            do = "Give the place where the density falls to zero twice, once with each side's value"
            raise InputError(what, f"{int(gone[first:last].sum())} such values", do)
        hidden = np.exp(np.maximum(inside[:-1], inside[1:])) * np.diff(grid)[:, None]
        lost += hidden[:first].sum(axis=0) + hidden[last - 1 :].sum(axis=0)
        kept.append(grid[first:last])
        pieces.append(np.maximum(inside[first:last], _FLOOR))
    whole = sum(np.sum(np.gradient(g)[:, None] * np.exp(v), axis=0) for g, v in zip(kept, pieces, strict=True))
    return kept, pieces, np.asarray(lost / whole)


def _fit_spline(grid: Array, values: Array) -> BSpline:
    """The smooth curve through the points, less those that stand nearly together (`_well_spaced`).

    Where the solver still finds it singular, it is a cubic through points that are a millionth of the range apart.
    """
    kept = _well_spaced(grid)
    grid, values = grid[kept], values[kept]
    degree = min(_DEGREE, len(grid) - 1)
    degree = degree if degree % 2 else degree - 1
    try:
        return make_interp_spline(grid, values, k=degree, check_finite=False)
    except np.linalg.LinAlgError:
        cell = np.floor((grid - grid[0]) / (1e-6 * (grid[-1] - grid[0])))
        apart = np.flatnonzero(np.append(True, np.diff(cell) > 1))
        return make_interp_spline(grid[apart], values[apart], k=min(degree, 3), check_finite=False)


def _well_spaced(grid: Array) -> Ints:
    """Positions of the points that a curve of high degree may go through: one of each cluster.

    A cluster is a run of at most seven gaps whose neighbours on both sides (on one side at an end of the grid) are a
    thousand times as wide. Its points show slopes and curvatures that are rounding error. A longer run is a fine part
    of the grid and stays, and so does a grid whose gaps grow little by little. Both ends of the grid are kept.
    """
    kept: Ints = np.arange(len(grid))
    while len(kept) > 2:
        gaps = np.diff(grid[kept])
        ratio = gaps[1:] / gaps[:-1]
        bounds = np.flatnonzero((ratio > _ABRUPT) | (ratio < 1 / _ABRUPT)) + 1
        starts, stops = np.append(0, bounds), np.append(bounds, len(gaps))
        wider = (
            np.append(np.inf, gaps[starts[1:] - 1]) > gaps[starts],
            np.append(gaps[stops[:-1]], np.inf) > gaps[stops - 1],
        )
        narrow = wider[0] & wider[1] & (stops - starts <= _DEGREE) & (len(starts) > 1)
        if not narrow.any():
            break
        gone = [np.arange(a, b) + (b < len(gaps)) for a, b in zip(starts[narrow], stops[narrow], strict=True)]
        kept = np.delete(kept, np.concatenate(gone))
    return kept


def _spline_basis(fit: BSpline, x: Array, grid: Array) -> sparse.csr_array:
    basis = BSpline.design_matrix(np.clip(x, grid[0], grid[-1]), fit.t, fit.k)
    return sparse.csr_array(basis)
