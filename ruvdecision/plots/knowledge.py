"""One mask, several states of knowledge: a curve each, with its name written on it.

matplotlib is imported when something is drawn, and nothing here calls ``show()``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..checks import check_choice, check_mapping, check_number, check_vector, is_flag
from ..decide.criteria import check_map
from ..errors import InputError
from ..maps.rumap import RUMap
from ..protocols import Array
from .labels import Labeller, path_lengths, points_along_path
from .map import Positions, Rows, set_axes
from .theme import Style, axes_on, empty_plot_error, figure_of, look_of, points, set_title, threshold

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "D", "v")
KEYS = ("target", "knowledge")


def knowledge(
    rumap: RUMap,
    max_risk: float | None = None,
    ax: Axes | None = None,
    *,
    against: str = "utility",
    log: str | bool = "auto",
    risk_range: tuple[float, float] | None = None,
    names: Mapping[str, str] | None = None,
    title: str | None = None,
    style: str | None = None,
) -> Axes:
    """Draw risk against utility (or a parameter of the mask) for every state of knowledge in a map.

    Curves of one target and state of knowledge share a colour; methods (paper, exact, simulate, ...) differ in line.
    Simulated values are points with bars of one standard error, the others are lines. Names stand on the curves; a name
    that finds no room goes to the legend. A curve that runs to infinite risk ends in a triangle at the upper edge.
    Where a curve crosses the threshold it is marked with the mask's parameter there, found between its two neighbours
    on the map by logarithms; the line is drawn through the mark.

    Parameters
    ----------
    rumap : RUMap
        From `scenarios.additive_noise`, `scenarios.map_curves`, `scenarios.empirical`, or any map whose techniques are
        the curves (``RUMap.concat(maps, names)`` makes one of several).
    max_risk : float, optional
        Draws the threshold and marks the crossings.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    against : "utility" or the name of a parameter
        What the horizontal axis is.
    log : "auto", True, False, "x", "y"
        Logarithmic axes; "auto" takes one where values are positive and span more than a factor of 30.
    risk_range : pair of numbers, optional
        Lower and upper end of the risk axis, for drawings that are to be compared.
    names : mapping, optional
        Other names for curves, by the names they would have. Curves that get the same name get the same colour.
    title : str, optional
        A title.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ruvdecision.maps import Labels
    >>> labels = Labels(["a", "b"], technique="row known: Noise", parameters={"variance": [2.0, 1.0]})
    >>> rumap = RUMap.build(labels=labels, intruder=[2.0, 1.0], scientist=[0.5, 0.25])
    >>> knowledge(rumap, max_risk=0.7).get_xlabel()
    'data utility (1 / expected loss of the scientist)   better →'
    """
    check_map(rumap)
    if not is_flag(log):
        check_choice("log", log, ["auto", "x", "y"])
    if max_risk is not None:
        max_risk = check_number("max_risk", max_risk)
    numbers = {k: v for k, v in rumap.parameters.items() if v.dtype.kind == "f"}
    parameter = next((k for k, v in numbers.items() if len(set(v[~np.isnan(v)].tolist())) > 1), None)
    check_choice("against", against, ["utility", *rumap.parameters])
    names = check_mapping("names", {} if names is None else names, 'Write names={"their name": "yours"}')
    x = rumap.utility if against == "utility" else np.asarray(rumap.parameters[against], dtype=float)
    with axes_on(style, ax, (7.2, 4.8)) as ax:
        shown = np.isfinite(x) & np.isfinite(rumap.risk)
        if not np.any(shown):
            raise empty_plot_error("no release has a finite risk and place")
        curves = _find_curves(rumap, x, parameter if against == "utility" else against, names, look_of(ax).colours)
        if max_risk is not None and max_risk > 0 and parameter is not None:
            curves = _with_crossings(rumap, curves, max_risk, parameter)
        y = rumap.risk[shown] if max_risk is None else np.append(rumap.risk[shown], max_risk)
        across = rumap.utility_score if against == "utility" else None
        set_axes(ax, rumap, [(x[shown], (), across), (y, (), rumap.risk_score)], log)
        if against != "utility":
            ax.set_xlabel(f"noise {against}" if against in ("variance", "sd") else against)
        if risk_range is not None:
            do = "Write risk_range=(0.1, 100)"
            low, high = check_vector("risk_range", risk_range, 2).tolist()
            if not low < high:
                raise InputError("risk_range must be a lower and an upper end", [low, high], do)
            if ax.get_yscale() == "log" and low <= 0:
                what = "risk_range must be positive on a logarithmic axis"
                raise InputError(what, [low, high], f"{do}, or log=False")
            ax.set_ylim(low, high)
        for curve in curves:
            _draw_curve(ax, rumap, curve, x, bars_across=against == "utility")
        if max_risk is not None:
            threshold(ax, max_risk, zorder=2)
        set_title(ax, title)
        _write_labels(ax, rumap, curves, x, shown, max_risk, parameter)
    return ax


@dataclass(frozen=True)
class _Curve:
    """A state of knowledge: all its releases, those that are shown, and the corners of the line through these."""

    name: str
    rows: Positions
    shown: Positions
    x: Array
    risk: Array
    simulated: bool
    colour: str
    line: str
    marker: str
    method: str
    crossing: tuple[float, float] | None = None
    """Where it meets the threshold: at which place, with which parameter."""


def _find_curves(
    rumap: RUMap, x: Array, parameter: str | None, names: Mapping[str, str], palette: Sequence[str]
) -> list[_Curve]:
    """Rows of every curve in order of the parameter, with a name no longer than it must be."""
    fields = {k: np.asarray(rumap.columns[k]).astype(str) for k in KEYS if k in rumap.columns}
    techniques = np.array(rumap.techniques, dtype=str)
    methods = np.asarray(rumap.columns["method"]).astype(str) if "method" in rumap.columns else np.full(len(rumap), "")
    groups: dict[tuple[str, ...], list[int]] = {}
    for i in range(len(rumap)):
        groups.setdefault((techniques[i], *(v[i] for v in fields.values()), methods[i]), []).append(i)
    varying = [j for j, k in enumerate(fields) if len(set(fields[k].tolist())) > 1]
    known = list(dict.fromkeys(methods.tolist()))
    # Two masks may share target and knowledge (equal and unequal noise): then techniques must tell them apart.
    alone = len({key[1:] for key in groups}) == len(groups) and bool(varying)
    colours: dict[str, str] = {}
    found = []
    for key, members in groups.items():
        rows = np.array(members)
        if parameter is not None:
            rows = rows[np.argsort(np.asarray(rumap.parameters[parameter])[rows], kind="stable")]
        if alone:
            name = ", ".join(key[1 + j] for j in varying)
            name += " knowledge" * ([list(fields)[j] for j in varying] == ["knowledge"])
        else:
            name = key[0].removesuffix(": Noise").removesuffix(f", {key[-1]}")
        name = names.get(name, name)
        colour = colours.setdefault(name, palette[len(colours) % len(palette)])
        way = known.index(key[-1])
        look = (colour, LINES[way % len(LINES)], MARKERS[way % len(MARKERS)])
        shown = rows[np.isfinite(x[rows]) & np.isfinite(rumap.risk[rows])]
        simulated = bool(np.any(rumap.risk_error[rows] > 0))
        found.append(_Curve(name, rows, shown, x[shown], rumap.risk[shown], simulated, *look, key[-1]))
    return found


def _with_crossings(rumap: RUMap, curves: Sequence[_Curve], max_risk: float, parameter: str) -> list[_Curve]:
    """The curves with the one place where each meets the threshold, if there is one and no better one."""
    exact = {c.name for c in curves if not c.simulated}
    values = np.asarray(rumap.parameters[parameter], dtype=float)
    found = []
    for curve in curves:
        above = curve.risk > max_risk
        turns = np.flatnonzero(above[:-1] != above[1:])
        # Where the exact curve is there too, its crossing is the better one.
        if turns.size == 1 and not (curve.simulated and curve.name in exact):
            ends = slice(turns[0], turns[0] + 2)
            # Risk is near a power of the noise, so logarithms interpolate well.
            logs = np.log(np.maximum(curve.risk[ends], 1e-300))
            share = float((np.log(max_risk) - logs[0]) / (logs[1] - logs[0]))
            place, at = _point_between_ends(curve.x[ends], share), _point_between_ends(values[curve.shown[ends]], share)
            x, risk = (np.insert(v, turns[0] + 1, new) for v, new in ((curve.x, place), (curve.risk, max_risk)))
            curve = replace(curve, x=x, risk=risk, crossing=(place, at))
        found.append(curve)
    return found


def _point_between_ends(ends: Array, share: float) -> float:
    """A share of the way between two numbers, by logarithms if both are positive."""
    if ends.min() > 0:
        return float(np.exp(np.log(ends[0]) + share * (np.log(ends[1]) - np.log(ends[0]))))
    return float(ends[0] + share * (ends[1] - ends[0]))


def _draw_curve(ax: Axes, rumap: RUMap, curve: _Curve, x: Array, bars_across: bool) -> None:
    rows, error = curve.shown, rumap.risk_error[curve.shown]
    style: Style = {"color": curve.colour, "zorder": 3}
    if np.any(error > 0):
        bars: Style = {"yerr": np.where(np.isfinite(error), error, 0.0), "elinewidth": 0.9, "alpha": 0.85}
        bars["xerr"] = rumap.utility_error[rows] if bars_across else None
        ax.errorbar(x[rows], rumap.risk[rows], fmt=curve.marker, ms=3.5, lw=0, **bars, **style)
        ax.plot(curve.x, curve.risk, ls=curve.line, lw=0.8, alpha=0.5, **style)
    else:
        ax.plot(curve.x, curve.risk, ls=curve.line, lw=1.9, **style)
    # No noise at all has no place on a logarithmic axis of variances.
    placed = np.isfinite(x[curve.rows]) & ((x[curve.rows] > 0) | (ax.get_xscale() != "log"))
    endless = curve.rows[np.isinf(rumap.risk[curve.rows]) & placed]
    if endless.size:
        at_edge: Style = {"transform": ax.get_xaxis_transform(), "clip_on": False, "zorder": 3}
        points(ax, x[endless], np.full(endless.size, 0.985), "^", 8, curve.colour, **at_edge)


def _write_labels(
    ax: Axes,
    rumap: RUMap,
    curves: Sequence[_Curve],
    x: Array,
    shown: Rows,
    max_risk: float | None,
    parameter: str | None,
) -> None:
    """Names first, then crossings; whatever finds no room is left to the legend or left out."""
    from matplotlib.lines import Line2D

    figure = figure_of(ax)
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()  # places are measured in pixels, so the layout must be settled
    labeller = Labeller(ax, x[shown], rumap.risk[shown])
    for curve in curves:
        labeller.keep_clear(curve.x, curve.risk)
        for i in curve.shown[rumap.risk_error[curve.shown] > 0]:
            y, dy = rumap.risk[i], rumap.risk_error[i]
            labeller.keep_clear(np.array([x[i], x[i]]), np.array([max(y - dy, y / 10), y + dy]))
    if max_risk is not None:
        labeller.on_line(f"threshold {max_risk:.4g}", max_risk)
    handles = []
    first = {curve.name: i for i, curve in reversed(list(enumerate(curves)))}
    for curve in [curves[i] for i in sorted(first.values())]:
        path = np.asarray(ax.transData.transform(np.column_stack([curve.x, curve.risk])))
        if len(path) > 1:  # there is a place for a name between far points, too
            path = points_along_path(path, np.linspace(0, path_lengths(path)[-1], 81))
        if not len(path) or not labeller.write_along(curve.name, path, curve.colour):
            handles.append(Line2D([], [], color=curve.colour, lw=2, label=curve.name))
    for curve in curves:
        if curve.crossing is not None and max_risk is not None:
            # Mark where it meets the threshold, with the parameter there.
            place, at = curve.crossing
            point = ax.transData.transform((place, max_risk))
            points(ax, place, max_risk, "o", 6, curve.colour, hollow=True, mew=1.5, zorder=5)
            text = f"{parameter} {at:.3g}".replace("e+0", "e").replace("e+", "e")
            labeller.write_beside(text, np.array([point - [5, 0], point, point + [5, 0]]), 1, curve.colour)
    methods = list(dict.fromkeys(c.method for c in curves if c.method))
    for method in methods if len(methods) > 1 else ():
        one = next(c for c in curves if c.method == method)
        dash, marker = ("none", one.marker) if one.simulated else (one.line, "")
        handles.append(Line2D([], [], color=look_of(ax).soft, ls=dash, marker=marker, ms=4, label=method))
    if np.any(rumap.risk_error > 0):
        handles.append(Line2D([], [], ls="none", label="bars: one standard error"))
    if handles:
        frame: Style = {"framealpha": 0.9, "facecolor": look_of(ax).paper, "edgecolor": "none"}
        ax.legend(handles=handles, loc="best", frameon=True, fontsize="small", **frame)
