"""The density of a function of one or two parameters, from the log posterior on a product grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.interpolate import CubicHermiteSpline, make_interp_spline

from ...errors import InputError
from ...posteriors import Curve
from ...protocols import Array
from .log_posterior import LogPosteriors
from .nodes import SHIFT, LaplaceBoxes, Nodes, find_box_ends, place_nodes

DROP = 36.0
STILL = 1e-9
"""Of the number's size: a smaller step has lost its digits."""
FINE, ROWS = 0.125, 0.25
POINTS = (401, 1601)
LAYOUTS = (
    (401, False, 0.0),
    (401, True, 0.0),
    (801, False, 30.0),
    (801, True, 15.0),
    (3201, False, 30.0),
    (3201, True, 15.0),
)
"""Points of a law, whether by their logarithms, and how they crowd at its ends: which suits is not known before."""
DEGREE = 7
"""Of the splines that a law is followed by."""
FINER = 8
"""Points of a line for one of the grid, in between which cubics will do."""
SWING = 0.1
"""Logs that a smooth line between two nodes may lie away from a straight one."""
DENSER = {1: 64, 2: 6}
"""Point masses for each node along an axis, by the number of parameters."""
UNSETTLED = 0.01
"""Error of a law that is none."""
ENOUGH = 1e-8
"""Error of a law that is not worth another direction."""
ENOUGH_OF_SUMS = 5e-6
"""The same where each point takes sums over the records' nodes."""
ROUNDING_OF_MOMENTS = 1e-12
"""Share of the standard deviation, or of the variance, that counts as rounding."""


def law_of_value(
    posteriors: LogPosteriors, boxes: LaplaceBoxes, values: Callable[[Array], Array], place: int | None
) -> tuple[Curve, float] | None:
    """The law of a number after one release and its relative error; None if it is not monotone in the parameters.

    ``values`` gives the number at points ``(S, d)``. ``place`` is the coordinate that it is a function of, if that is
    known.

    With one parameter the density is that of the parameter over the slope of the function. With two, one is summed out:
    either the number depends on one of them alone, or it rises or falls along all lines of one direction.
    """
    size = boxes.size
    if not size:
        return None
    if size == 1:
        nodes = place_nodes(posteriors, boxes, (FINE,))
        x = values(nodes.whole[0])
        curve = _law_of_monotone_function(nodes.axes[0][0], x, nodes.logs[0]) if x.ndim == 1 else None
        check = _nodes_beside(posteriors, nodes, boxes, (FINE,))
        return _with_moment_error(None if curve is None else (curve, 0.0), check, values)
    best: tuple[Curve, float] | None = None
    frames = [] if place is None else [boxes.with_first_parameter(place)] * 3
    for frame, step in zip(frames, (0.5, 0.25, 0.125), strict=False):
        nodes = place_nodes(posteriors, frame, (FINE, step))
        best = _with_moment_error(
            _law_of_first_coordinate(nodes, values), _nodes_beside(posteriors, nodes, frame, (FINE, step)), values
        )
        if best is None or best[1] <= (ENOUGH_OF_SUMS if posteriors.support_maps else ENOUGH):
            break
    if best is not None:
        return best
    for frame in _monotone_directions(posteriors, boxes, values):
        nodes = place_nodes(posteriors, frame, (ROWS, FINE))
        found = _with_moment_error(
            _law_by_rows(nodes, values), _nodes_beside(posteriors, nodes, frame, (ROWS, FINE)), values
        )
        if found is not None and (best is None or _total_error(found) < _total_error(best)):
            best = found
        if best is not None and _total_error(best) <= ENOUGH:
            break
    return best


def masses_of_value(
    posteriors: LogPosteriors, boxes: LaplaceBoxes, values: Callable[[Array], Array]
) -> tuple[list[tuple[Array, Array]], float]:
    """Point masses that stand for the law of any function of the parameters: fine ones, every other, every fourth.

    Where the log posterior is not smooth, also by what share their first two moments differ from those of the nodes.

    The log posterior is smooth, and a spline through its nodes gives it at many more places; two parameters are taken
    along diagonals, which the levels of most functions cross.
    """
    size = boxes.size
    frame = boxes if size == 1 else _principal_axes_box(posteriors, boxes, values)
    nodes = place_nodes(posteriors, frame, (FINE,) * size)
    logs, swings = np.maximum(nodes.logs[0] - nodes.logs.max(), -2 * DROP), False
    fine = [np.linspace(axis[0, 0], axis[0, -1], DENSER[size] * (axis.shape[1] - 1) + 1) for axis in nodes.axes]
    u = nodes.whole[0]
    for i, (axis, places) in enumerate(zip(nodes.axes, fine, strict=True)):
        found = [make_interp_spline(axis[0], a, k=k, axis=i)(places) for a, k in ((logs, 5), (logs, 1), (u, 5))]
        smooth, straight, u = (np.moveaxis(a, 0, i) if a.shape[i] != len(places) else a for a in found)
        # Where the log posterior falls off at once, a smooth line through its nodes swings far above them.
        swing = np.abs(smooth - straight) > SWING
        logs, swings = np.where(swing, straight, smooth), swings or bool(np.any(straight[swing] > -DROP))
    there = logs > -DROP
    x, mass = values(u[there]), np.exp(logs[there])
    laws = []
    for step in (1, 2, 4):
        some = np.all([place % step == 0 for place in np.nonzero(there)], axis=0)
        laws.append((x[some], mass[some] / mass[some].sum()))
    if not (swings or posteriors.has_edges) or x.ndim > 1:
        return laws, 0.0
    check = _nodes_beside(posteriors, nodes, frame, (FINE,) * size)
    return laws, _moment_gap(check, values, *_mean_and_variance(*laws[0]))


def _nodes_beside(posteriors: LogPosteriors, nodes: Nodes, boxes: LaplaceBoxes, steps: tuple[float, ...]) -> Nodes:
    """Nodes that check a law by these ones: others, where edges may fall between them."""
    return place_nodes(posteriors, boxes, steps, SHIFT) if posteriors.has_edges else nodes


def _with_moment_error(
    found: tuple[Curve, float] | None, nodes: Nodes, values: Callable[[Array], Array]
) -> tuple[Curve, float] | None:
    """The law with what its splines do to its first two moments, which the nodes have too, as part of its error."""
    if found is None:
        return None
    curve, error = found
    return curve, error + _moment_gap(nodes, values, float(curve.mean()), float(curve.var()))


def _moment_gap(nodes: Nodes, values: Callable[[Array], Array], own_mean: float, own_variance: float) -> float:
    """By what share a law's first two moments differ from those of the nodes."""
    there = nodes.logs[0] > nodes.logs.max() - DROP
    x, logs = values(nodes.whole[0][there]), nodes.logs[0][there] - nodes.logs.max()
    with np.errstate(all="ignore"):
        (mean, variance), (_, inner) = (
            _mean_and_variance(x[some], np.exp(logs[some])) for some in (slice(None), logs > -18)
        )
        gap = float(abs(own_mean - mean) / np.sqrt(variance) + abs(own_variance / variance - 1))
        exists = inner > 0.99 * variance
    # A variance that grows with the range of the nodes does not exist, and says nothing.
    return gap if exists and np.isfinite(gap) and gap > ROUNDING_OF_MOMENTS else 0.0


def _mean_and_variance(x: Array, mass: Array) -> tuple[float, float]:
    mean = mass @ x / mass.sum()
    return float(mean), float(mass @ (x - mean) ** 2 / mass.sum())


def _law_of_first_coordinate(nodes: Nodes, values: Callable[[Array], Array]) -> tuple[Curve, float] | None:
    """A function of the first coordinate alone: the second is summed out."""
    whole = nodes.whole[0]
    x = values(whole.reshape(-1, whole.shape[-1])).reshape(whole.shape[:-1])
    if np.max(np.abs(x - x[:, :1])) > 1e-12 * np.max(np.abs(x)):
        return None
    laws = [special.logsumexp(nodes.logs[0][:, ::step], axis=1) for step in (1, 2, 4)]
    curve = _law_of_monotone_function(nodes.axes[0][0], x[:, 0], laws[0])
    # Fewer nodes of the second coordinate show how well it was summed.
    fine, middle, coarse = (special.softmax(law) for law in laws)
    return (
        None
        if curve is None
        else (curve, _error_after_halvings(np.abs(fine - middle).sum(), np.abs(middle - coarse).sum()))
    )


def _law_of_monotone_function(s: Array, x: Array, logs: Array) -> Curve | None:
    """The law of x(s) where s has this log density; None unless x rises or falls where s has any chance."""
    # Numbers of one sign may span many powers of ten, which splines follow by their logarithms only.
    sign = float(np.sign(x[0])) if np.all(x > 0) or np.all(x < 0) else 0.0
    bare = np.log(np.abs(x)) if sign else x
    inside = np.flatnonzero(
        (logs > logs.max() - DROP) & _where_not_constant(bare, logs, 1.0 if sign else float(np.abs(x).max()))
    )
    part = slice(max(inside[0] - 1, 0), inside[-1] + 2)
    if len(s[part]) <= DEGREE:
        return None  # a spike between nodes, which no spline can follow
    place = make_interp_spline(s, bare, k=DEGREE)
    slope = place.derivative()(s) * (x if sign else 1.0)
    if not (np.all(slope[part] > 0) or np.all(slope[part] < 0)):
        return None
    s, x, bare, logs = s[part], x[part], bare[part], logs[part] - np.log(np.abs(slope[part]))
    height = make_interp_spline(s, logs, k=DEGREE)
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
        try:
            curve = Curve(layout[apart], values[apart])
        except (InputError, np.linalg.LinAlgError):
            continue  # points too coarse, or too close to be told apart
        if best is None or curve.error < best.error:
            best = curve
        if best.error == 0:
            break
    return best


def _where_not_constant(x: Array, logs: Array, unit: float) -> NDArray[np.bool_]:
    """Where x still moves in floating point: at an end of its range it does not, and there is no mass to speak of."""
    mass, moving = np.exp(logs - logs.max()), np.abs(np.gradient(x, axis=-1)) > STILL * unit
    return moving if mass[~moving].sum() <= 10 * STILL * mass.sum() else np.ones(x.shape, dtype=bool)


def _monotone_directions(
    posteriors: LogPosteriors, boxes: LaplaceBoxes, values: Callable[[Array], Array]
) -> Iterator[LaplaceBoxes]:
    """Directions along which the number may rise throughout, each second in its box; the other is summed out.

    First the diagonal along which both parameters move it up. A level of a number that rises with both then crosses
    every line, and leaves towards the ends of the parameters, where their density vanishes: the sum over lines has no
    ends of its own, however the priors are bounded. Then each parameter with the other one fixed.
    """
    if values(boxes.modes).ndim != 1:
        return
    yield _principal_axes_box(posteriors, boxes, values)
    moved = np.abs(_moved_by_one_sd(boxes, values))
    yield from (boxes.with_first_parameter(i) for i in ((0, 1) if moved[0] <= moved[1] else (1, 0)))


def _moved_by_one_sd(boxes: LaplaceBoxes, values: Callable[[Array], Array]) -> Array:
    """How far a standard deviation of each parameter moves the number, or the first of several."""
    sd = np.sqrt(np.square(boxes.roots[0]).sum(axis=1))
    x = values(np.concatenate([boxes.modes, boxes.modes + np.diag(sd)])).reshape(3, -1)[:, 0]
    return np.asarray(x[1:] - x[0])


def _principal_axes_box(
    posteriors: LogPosteriors, boxes: LaplaceBoxes, values: Callable[[Array], Array]
) -> LaplaceBoxes:
    """A box along the diagonals, which are the principal axes of a correlation; the second moves the number up."""
    covariance = boxes.roots[0] @ boxes.roots[0].T
    sd = np.where(_moved_by_one_sd(boxes, values) < 0, -1, 1) * np.sqrt(np.diag(covariance))
    correlation = covariance[0, 1] / (sd[0] * sd[1])
    across, along = np.sqrt((1 - correlation) / 2), np.sqrt((1 + correlation) / 2)
    roots = sd[:, None] * np.array([[across, along], [-across, along]])
    return find_box_ends(posteriors, LaplaceBoxes(boxes.modes, roots[None], boxes.low, boxes.high))


def _law_by_rows(nodes: Nodes, values: Callable[[Array], Array]) -> tuple[Curve, float] | None:
    """With the first coordinate fixed the number moves one way along the second; rows are then added up."""
    whole, logs, s = nodes.whole[0], nodes.logs[0], nodes.axes[1][0]
    there = logs > logs.max() - DROP - 9
    x = np.full(logs.shape, np.nan)  # farther out the number need not be one
    x[there] = values(whole[there])
    # Numbers of one sign may span many powers of ten, which splines follow by their logarithms only.
    sign = float(np.sign(x[there][0])) if np.all(x[there] > 0) or np.all(x[there] < 0) else 0.0
    with np.errstate(all="ignore"):
        bare = np.log(np.abs(x)) if sign else x
        there &= _where_not_constant(bare, logs, 1.0 if sign else float(np.abs(x[there]).max()))
        rises = np.diff(bare, axis=1)[there[:, 1:] & there[:, :-1]]
    if not len(rises) or not (np.all(rises > 0) or np.all(rises < 0)):
        return None
    rows = []
    for i in range(len(x)):
        # Where it stands still in between, at a corner of the parameters, there is no mass to speak of.
        mine = np.flatnonzero(there[i])
        parts = (part for part in np.split(mine, np.flatnonzero(np.diff(mine) > 1) + 1) if len(part) > DEGREE)
        rows += [(i, _log_density_along_line(s[part], bare[i, part], logs[i, part])) for part in parts]
    ends = np.array([min(row.x[0] for _, row in rows), max(row.x[-1] for _, row in rows)])
    corners = _values_at_corners(whole[there], values)
    edges = _ends_and_kinks(ends, np.log(np.abs(corners)) if sign else corners)
    best: tuple[Curve, float] | None = None
    for points, by_ratio, crowded in (layout for layout in LAYOUTS if sign or not layout[1]):
        pieces = _points_between_edges(edges, sign, points, by_ratio, crowded)
        grid = np.concatenate(pieces)
        wanted, table = np.log(np.abs(grid)) if sign else grid, np.full((len(x), len(grid)), -np.inf)
        for i, row in rows:
            inside = (wanted >= row.x[0]) & (wanted <= row.x[-1])
            table[i, inside] = np.logaddexp(table[i, inside], row(wanted[inside]))
        table -= wanted if sign else 0.0
        with np.errstate(divide="ignore"):
            quarters = [special.logsumexp(table[i::4], axis=0) for i in range(4)]
        merged = special.logsumexp(quarters, axis=0)
        curve = Curve.from_pieces(pieces, np.split(merged, np.cumsum([len(piece) for piece in pieces])[:-1]))
        if curve.error < (UNSETTLED if best is None else best[0].error):
            best = curve, _row_error(quarters, grid)
        if curve.error <= ENOUGH:
            break
    return best


def _values_at_corners(u: Array, values: Callable[[Array], Array]) -> Array:
    """The number where both parameters are at an end of theirs; a corner at which it is none is left out."""
    found = []
    for corner in np.stack(np.meshgrid(*zip(u.min(axis=0), u.max(axis=0), strict=True)), axis=-1).reshape(-1, 2):
        with suppress(InputError):
            found.append(float(values(corner[None])[0]))
    return np.array(found)


def _log_density_along_line(s: Array, x: Array, logs: Array) -> CubicHermiteSpline:
    """Log density of a number x(s) that rises or falls, where s has this one; it holds between the ends of x."""
    fine = np.linspace(s[0], s[-1], FINER * (len(s) - 1) + 1)
    place, height = (make_interp_spline(s, values, k=DEGREE) for values in (x, logs))
    slope, bend = place(fine, 1), place(fine, 2)
    order = slice(None, None, 1 if x[0] < x[-1] else -1)
    with np.errstate(all="ignore"):
        at, level, rise = place(fine), height(fine) - np.log(np.abs(slope)), (height(fine, 1) - bend / slope) / slope
    at, level, rise = at[order], level[order], rise[order]
    good = np.isfinite(level) & np.isfinite(rise) & (np.diff(np.maximum.accumulate(at), prepend=-np.inf) > 0)
    at, level, rise = at[good], level[good], rise[good]
    # Far out, where the grid is coarse, a number that stands nearly still would make the cubics swing.
    steep = np.abs(np.diff(level) / np.diff(at))
    most = 3 * np.maximum(np.append(steep, steep[-1:]), np.insert(steep, 0, steep[:1]))
    return CubicHermiteSpline(at, level, np.clip(rise, -most, most))


def _ends_and_kinks(ends: Array, corners: Array) -> Array:
    """The ends of a law, and where it may have a kink: at its values for parameters at their ends."""
    margin = 1e-6 * (ends[1] - ends[0])
    inner = np.sort(corners[(corners > ends[0] + margin) & (corners < ends[1] - margin)])
    return np.concatenate([ends[:1], inner[np.diff(inner, prepend=ends[0]) > margin], ends[1:]])


def _points_between_edges(edges: Array, sign: float, points: int, by_ratio: bool, crowded: float) -> list[Array]:
    """Points from edge to edge: even, or even by their logarithms, or more of them towards both ends of a piece.

    Edges are logarithms where numbers have a sign.
    """
    share = special.expit(np.linspace(-crowded, crowded, points)) if crowded else np.linspace(0, 1, points)
    share = (share - share[0]) / (share[-1] - share[0])
    pieces = []
    for a, b in pairwise(edges if by_ratio or not sign else np.exp(edges)):
        piece = a + (b - a) * share
        piece[-1] = b
        piece = np.exp(piece) if by_ratio else piece
        pieces.append(piece[np.diff(piece, prepend=-np.inf) > 0])
    return [-piece[::-1] for piece in pieces[::-1]] if sign < 0 else pieces


def _total_error(found: tuple[Curve, float]) -> float:
    return float(np.max(found[0].error)) + found[1]


def _row_error(quarters: Sequence[Array], grid: Array) -> float:
    """Share of the mass that the rows leave uncertain, from laws by every fourth of them."""
    top = np.max(quarters)
    masses = np.stack([np.exp(law - top) * np.gradient(grid) for law in quarters])
    one, other, coarse = (m / m.sum() for m in (masses[::2].sum(axis=0), masses[1::2].sum(axis=0), masses[0]))
    return _error_after_halvings(np.abs(one - other).sum() / 2, np.abs(coarse - one).sum() / 4)


def _error_after_halvings(last: float, before: float) -> float:
    """What is left after two halvings of a step that moved a law so far: the last one does as much again, at least.

    An analytic posterior does far better; one with kinks does not.
    """
    error = last * min(1.0, last / before) if before > 0 else 0.0
    return float(error) if error > 1e-13 else 0.0
