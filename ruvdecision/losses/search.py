"""Where an expected loss is least, when no formula says so."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..errors import UnsupportedError
from ..numerics.roots import bracket, least_near, monotone_root
from ..protocols import Array, Posterior

_ATOMS = 2048


def convex_point(posterior: Posterior, slope: Callable[[Array], Array], flat: float | Array = 0.0) -> Array:
    """Where the increasing ``slope`` of a convex expected loss crosses zero, for every component at once.

    ``flat`` is the size of a slope that counts as zero; where a stretch of estimates is equally good, its lower end is
    given.
    """
    mean, sd = _centre_and_unit(posterior)
    with np.errstate(invalid="ignore"):
        lost = ~np.isfinite(slope(mean))

    def rise(x: Array) -> Array:
        # Where every estimate costs infinitely much one is as good as another.
        with np.errstate(invalid="ignore"):
            return np.where(lost, x - mean, slope(x))

    low, high = bracket(rise, mean, sd)
    root = monotone_root(rise, low, high)
    if np.any(flat):
        step = 1e-4 * (high - low)
        wide = rise(root - step) >= -flat
        if np.any(wide):
            root = np.where(wide, monotone_root(lambda x: np.where(rise(x) >= -flat, 1.0, -1.0), low, root), root)
    # A point mass must cost nothing, not the rounding error of a root.
    return np.where(sd == 0, mean, root)


def _centre_and_unit(posterior: Posterior) -> tuple[Array, Array]:
    """Mean and standard deviation; the median where there is no mean, and one where there is no variance."""
    mean, var = np.asarray(posterior.mean()), posterior.var()
    if not np.isfinite(mean).all():
        mean = np.where(np.isfinite(mean), mean, posterior.quantile(0.5))
    return mean, np.sqrt(np.where(np.isfinite(var), var, 1.0))


def candidate_estimates(posterior: Posterior, levels: int, width: float, points: int) -> Array:
    """Candidates for an estimate, ascending along the first axis: quantiles and an even grid about the mean."""
    mean, sd = _centre_and_unit(posterior)
    rows = [np.asarray(posterior.quantile((i + 0.5) / levels)) for i in range(levels)]
    rows = [np.where(np.isfinite(row), row, mean) for row in rows]
    rows += [mean + sd * z for z in np.linspace(-width, width, points)]
    return np.sort(np.stack(rows), axis=0)


def least_point(posterior: Posterior, risk: Callable[[Array], Array]) -> Array:
    """Global search for the least of a ``risk`` that need not be convex, for every component at once.

    A scan of quantiles and of an even grid finds the valleys; the two deepest are searched by golden section. The
    values of a finite target, where a risk may have its cusps, are candidates too.
    """
    grid = candidate_estimates(posterior, 65, 4.0, 33)
    best, least = least_near(risk, grid, np.stack([risk(row) for row in grid]), tries=2, rounds=60)
    support = posterior.support
    if support is None:
        return best
    shape = posterior.batch + posterior.event
    columns = np.sort(support, axis=0)
    picks = np.unique(np.linspace(0, len(columns) - 1, min(len(columns), _ATOMS)).astype(int))
    found, value, place = _best_row(risk, columns, picks, shape)
    if len(columns) > _ATOMS:
        # Zoom in on the neighbours of the best of a thinned list.
        gap = int(np.ceil(len(columns) / _ATOMS))
        near = np.unique(np.clip(np.add.outer(np.unique(place), np.arange(-gap, gap + 1)).ravel(), 0, len(columns) - 1))
        found, value, place = _best_row(risk, columns, near, shape)
    take = value <= least + 1e-13 * np.abs(least)
    return np.where(take, found, best)


def least_vector(posterior: Posterior, risk: Callable[[Array], float]) -> Array:
    """The estimate of least risk for one vector target: quasi-Newton from several starts, then a simplex."""
    from scipy import optimize

    (mean, sd), middle = _centre_and_unit(posterior), np.asarray(posterior.quantile(0.5))
    sd = np.where(sd > 0, sd, 1.0)
    starts = [mean, middle] + [mean + sign * sd for sign in (-1.0, 1.0)]
    support = posterior.support
    if support is not None:
        starts += list(support[np.unique(np.linspace(0, len(support) - 1, min(len(support), 256)).astype(int))])
    values = [risk(x) for x in starts]
    order = np.argsort(values, kind="stable")
    best, least = starts[order[0]], values[order[0]]
    for i in order[:3]:
        start, ends = (starts[i] - mean) / sd, {"gtol": 1e-9, "maxiter": 200}
        tried = optimize.minimize(lambda z: risk(mean + sd * z), start, method="BFGS", options=ends)
        if tried.fun < least:
            best, least = mean + sd * tried.x, float(tried.fun)
    for size in (0.1, 1e-3):
        base = (best - mean) / sd
        simplex = np.concatenate([base[None], base + size * np.eye(len(base))])
        options = {"initial_simplex": simplex, "xatol": 1e-10, "fatol": 1e-14 * abs(least), "maxfev": 200 * len(base)}
        tried = optimize.minimize(lambda z: risk(mean + sd * z), base, method="Nelder-Mead", options=options)
        if tried.fun < least - 1e-14 * abs(least):
            best, least = mean + sd * tried.x, float(tried.fun)
    if np.any(np.abs(best - mean) > 1e6 * (sd + np.abs(mean))):
        what = "The expected loss falls for ever, so there is no best estimate"
        do = "Use a loss that grows with the error, or list the allowed estimates"
        raise UnsupportedError(what, f"an estimate of {best.tolist()}", do)
    return np.asarray(best)


def _best_row(
    risk: Callable[[Array], Array], columns: Array, picks: Array, shape: tuple[int, ...]
) -> tuple[Array, Array, NDArray[np.intp]]:
    least, place = np.full(shape, np.inf), np.zeros(shape, dtype=np.intp)
    for i in picks:
        value = risk(np.broadcast_to(columns[i], shape))
        better = value < least - 1e-13 * np.abs(np.where(np.isfinite(least), least, 0.0))
        least, place = np.where(better, value, least), np.where(better, i, place)
    if columns.ndim == 1:
        return np.asarray(columns[place]), least, place
    found = np.take_along_axis(columns, place.reshape((-1,) + columns.shape[1:]), axis=0).reshape(shape)
    return np.asarray(found), least, place
