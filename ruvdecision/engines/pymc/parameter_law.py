"""The density of a function of one or two parameters, from the log posterior on a product grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.interpolate import BSpline, make_interp_spline

from ...errors import InputError
from ...posteriors import Curve
from ...protocols import Array
from .log_posterior import LogPosteriors
from .nodes import LaplaceBoxes, Nodes, place_nodes

DROP = 36.0
STILL = 1e-9
"""Of the number's size: a smaller step has lost its digits."""
FINE, ROWS = 0.125, 0.25
POINTS = (401, 1601)
NEGLIGIBLE = 1e-12
"""Share of the standard deviation, or of the variance, that counts as rounding."""


def law_of_value(
    posteriors: LogPosteriors, boxes: LaplaceBoxes, values: Callable[[Array], Array], place: int | None
) -> tuple[Curve, float] | None:
    """The law of a number after one release and its relative error; None if it is not monotone in the parameters.

    ``values`` gives the number at points ``(S, d)``. ``place`` is the coordinate that it is a function of, if that is
    known.

    With one parameter the density is that of the parameter over the slope of the function. With two, one is summed out:
    either the number depends on one of them alone, or, with the other one fixed, it rises or falls along it.
    """
    size = boxes.size
    if not size:
        return None
    if size == 1:
        nodes = place_nodes(posteriors, boxes, (FINE,))
        return _with_moment_error(_law_along_one_axis(nodes, values), nodes, values)
    if place is not None:
        permuted = boxes.with_first_parameter(place)
        nodes = place_nodes(posteriors, permuted, (FINE, 0.5))
        found = _with_moment_error(_law_of_first_coordinate(nodes, values), nodes, values)
        if found is not None:
            return found
    for first in _coordinate_to_sum_first(posteriors, boxes, values):
        nodes = place_nodes(posteriors, boxes.with_first_parameter(first), (ROWS, FINE))
        mixed = _with_moment_error(_law_by_rows(nodes, values), nodes, values)
        if mixed is not None:
            return mixed
    return None


def _with_moment_error(
    found: tuple[Curve, float] | None, nodes: Nodes, values: Callable[[Array], Array]
) -> tuple[Curve, float] | None:
    """The law with what its splines do to its first two moments, which the nodes have too, as part of its error."""
    if found is None:
        return None
    curve, error = found
    x, logs = values(nodes.whole[0].reshape(-1, nodes.whole.shape[-1])), nodes.logs[0].ravel()
    mass = np.exp(logs - logs.max())
    mass /= mass.sum()
    mean = mass @ x
    variance = mass @ (x - mean) ** 2
    with np.errstate(all="ignore"):
        gap = float(abs(curve.mean() - mean) / np.sqrt(variance) + abs(curve.var() / variance - 1))
    return curve, error + (gap if np.isfinite(gap) and gap > NEGLIGIBLE else 0.0)


def _law_along_one_axis(nodes: Nodes, values: Callable[[Array], Array]) -> tuple[Curve, float] | None:
    x = values(nodes.whole[0])
    curve = _law_of_monotone_function(nodes.axes[0][0], x, nodes.logs[0]) if x.ndim == 1 else None
    return None if curve is None else (curve, 0.0)


def _law_of_first_coordinate(nodes: Nodes, values: Callable[[Array], Array]) -> tuple[Curve, float] | None:
    """A function of the first coordinate alone: the second is summed out."""
    whole = nodes.whole[0]
    x = values(whole.reshape(-1, whole.shape[-1])).reshape(whole.shape[:-1])
    if np.max(np.abs(x - x[:, :1])) > 1e-12 * np.max(np.abs(x)):
        return None
    laws = [special.logsumexp(nodes.logs[0][:, ::step], axis=1) for step in (1, 2)]
    curve = _law_of_monotone_function(nodes.axes[0][0], x[:, 0], laws[0])
    # Half of the second coordinate's nodes show how well it was summed; halving the step squares the error.
    share = np.exp(laws[0] - special.logsumexp(laws[0]))
    gap = float(
        np.sum(share * np.abs(np.expm1(laws[1] - laws[0] - special.logsumexp(laws[1]) + special.logsumexp(laws[0]))))
    )
    return None if curve is None else (curve, gap**2 if gap**2 > 1e-13 else 0.0)


def _law_of_monotone_function(s: Array, x: Array, logs: Array) -> Curve | None:
    """The law of x(s) where s has this log density; None unless x rises or falls where s has any chance."""
    # Numbers of one sign may span many powers of ten, which splines follow by their logarithms only.
    sign = float(np.sign(x[0])) if np.all(x > 0) or np.all(x < 0) else 0.0
    bare = np.log(np.abs(x)) if sign else x
    inside = np.flatnonzero(
        (logs > logs.max() - DROP) & _where_not_constant(bare, logs, 1.0 if sign else float(np.abs(x).max()))
    )
    part = slice(max(inside[0] - 1, 0), inside[-1] + 2)
    place = make_interp_spline(s, bare, k=7)
    slope = place.derivative()(s) * (x if sign else 1.0)
    if not (np.all(slope[part] > 0) or np.all(slope[part] < 0)):
        return None
    s, x, bare, logs = s[part], x[part], bare[part], logs[part] - np.log(np.abs(slope[part]))
    height = make_interp_spline(s, logs, k=7)
    if x[0] > x[-1]:
        s, x, bare, logs = s[::-1], x[::-1], bare[::-1], logs[::-1]
    best: Curve | None = None
    # Which layout suits the density is not known before: the parameter's own, even, or by logarithms.
    for layout in (
        x,
        *(np.linspace(x[0], x[-1], n) for n in POINTS),
        *(np.geomspace(x[0], x[-1], n) for n in POINTS if x[0] > 0),
    ):
        values = logs
        if layout is not x:
            wanted = np.log(np.abs(layout)) if sign else layout
            t = np.interp(layout, x, s)
            for _ in range(6):
                t = np.clip(t - (place(t) - wanted) / place.derivative()(t), min(s[0], s[-1]), max(s[0], s[-1]))
            values = height(t)
        apart = np.concatenate([[True], np.diff(layout) > 0])
        curve = _curve_through(layout[apart], values[apart])
        if curve is None:
            continue
        if best is None or curve.error < best.error:
            best = curve
        if best.error == 0:
            break
    return best


def _where_not_constant(x: Array, logs: Array, unit: float) -> NDArray[np.bool_]:
    """Where x still moves in floating point: at an end of its range it does not, and there is no mass to speak of."""
    mass, moving = np.exp(logs - logs.max()), np.abs(np.gradient(x, axis=-1)) > STILL * unit
    return moving if mass[~moving].sum() <= 10 * STILL * mass.sum() else np.ones(x.shape, dtype=bool)


def _coordinate_to_sum_first(
    posteriors: LogPosteriors, boxes: LaplaceBoxes, values: Callable[[Array], Array]
) -> list[int]:
    """Which coordinate to sum out first: the one that moves the number less."""
    steps = np.stack([boxes.modes[0], *(boxes.modes[0] + boxes.roots[0][:, i] for i in range(2))])
    x = values(steps)
    if x.ndim != 1:
        return []
    moved = np.abs(x[1:] - x[0])
    return [0, 1] if moved[0] <= moved[1] else [1, 0]


def _law_by_rows(nodes: Nodes, values: Callable[[Array], Array]) -> tuple[Curve, float] | None:
    """With the first coordinate fixed the number moves one way along the second; rows are then added up."""
    whole, logs = nodes.whole[0], nodes.logs[0]
    x = values(whole.reshape(-1, whole.shape[-1])).reshape(whole.shape[:-1])
    top = logs.max()
    # Numbers of one sign may span many powers of ten, which splines follow by their logarithms only.
    sign = np.all(x > 0) or np.all(x < 0)
    plain = np.log(np.abs(x)) if sign else x
    there = (logs > top - DROP - 9) & _where_not_constant(plain, logs, 1.0 if sign else float(np.abs(x).max()))
    bare = make_interp_spline(nodes.axes[1][0], plain, k=7, axis=1)
    slope = bare.derivative()(nodes.axes[1][0]) * (x if sign else 1.0)
    if not (np.all(slope[there] > 0) or np.all(slope[there] < 0)):
        return None
    pieces: list[tuple[Array, Array]] = []
    for i in range(len(x)):
        mine = np.flatnonzero(there[i])
        if len(mine) < 8:
            pieces.append((np.zeros(0), np.zeros(0)))
            continue
        part = slice(mine[0], mine[-1] + 1)
        t, level = x[i, part], logs[i, part] - np.log(np.abs(slope[i, part]))
        pieces.append((t, level) if t[0] < t[-1] else (t[::-1], level[::-1]))
    low, high = min(t[0] for t, _ in pieces if len(t)), max(t[-1] for t, _ in pieces if len(t))
    best: tuple[Curve, float] | None = None
    # Which layout suits the density is not known before.
    layouts = [
        np.linspace(low, high, POINTS[0]),
        *([np.geomspace(low, high, POINTS[0])] if low > 0 else []),
        np.linspace(low, high, POINTS[1]),
    ]
    for grid in layouts:
        table = np.full((len(pieces), len(grid)), -np.inf)
        for i, (t, level) in enumerate(pieces):
            if len(t):
                inside = (grid >= t[0]) & (grid <= t[-1])
                table[i, inside] = _spline_of_distinct(t, level)(grid[inside])
        with np.errstate(divide="ignore"):
            laws = [special.logsumexp(table[::step], axis=0) for step in (1, 2)]
        part = laws[0] > laws[0].max() - DROP + 4
        first, last = np.argmax(part), len(part) - np.argmax(part[::-1])
        curve = _curve_through(grid[first:last], laws[0][first:last])
        if curve is None:
            continue
        gap = _total_difference(laws, part)
        if best is None or curve.error < best[0].error:
            best = curve, gap**2 if gap**2 > 1e-13 else 0.0
        if curve.error == 0:
            break
    return best


def _curve_through(x: Array, logs: Array) -> Curve | None:
    """A law by its log density at points; None if they are too coarse, or too close to be told apart."""
    try:
        return Curve(x, logs)
    except (InputError, np.linalg.LinAlgError):
        return None


def _spline_of_distinct(x: Array, values: Array) -> BSpline:
    """A spline through points; those too close to others to be told apart are left out where they must be."""
    try:
        return make_interp_spline(x, values, k=7)
    except np.linalg.LinAlgError:
        keep = np.append(np.diff(x) > 1e-9 * (x[-1] - x[0]), True)
        return make_interp_spline(x[keep], values[keep], k=7)


def _total_difference(laws: Sequence[Array], part: NDArray[np.bool_]) -> float:
    fine, coarse = (law[part] - special.logsumexp(law[part]) for law in laws)
    with np.errstate(invalid="ignore"):
        return float(np.nansum(np.exp(fine) * np.abs(np.expm1(coarse - fine))))
