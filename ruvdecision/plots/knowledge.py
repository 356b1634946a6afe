"""One mask, several states of knowledge: a curve each, with its name written on it.

matplotlib is imported when something is drawn, and nothing here calls ``show()``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..checks import check_choice, check_number, suggest
from ..errors import InputError
from ..maps.rumap import RUMap
from ..protocols import Array
from .labels import Labeller, small
from .map import Positions, Rows
from .theme import LIGHT, Style, bare, figure_of, fresh_axes, look_of, name_axes, plain, points, threshold

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "D", "v")
KEYS = ("target", "knowledge")
LOG_FROM = 30.0
"""An axis whose values span more than this factor is logarithmic."""


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
    if not isinstance(rumap, RUMap):
        raise InputError(
            "plots.knowledge draws a map", rumap, "Pass what scenarios.additive_noise(...) or evaluate(...) gives back"
        )
    if max_risk is not None:
        max_risk = check_number("max_risk", max_risk)
    parameter = _parameter(rumap)
    if against != "utility" and against not in rumap.parameters:
        raise InputError(
            "against must be 'utility' or a parameter of the masks",
            against,
            suggest(against, ["utility", *rumap.parameters]),
        )
    x = rumap.utility if against == "utility" else np.asarray(rumap.parameters[against], dtype=float)
    ax = fresh_axes(ax, (7.2, 4.8))
    curves = _curves(rumap, parameter if against == "utility" else against, names or {}, look_of(ax).colours)
    shown = np.isfinite(x) & np.isfinite(rumap.risk)
    if not np.any(shown):
        raise InputError(
            "There is nothing to draw", "no release has a finite risk and place", "Look at the columns risk and utility"
        )
    _set_axes(ax, rumap, x, shown, max_risk, log, against)
    if risk_range is not None:
        if not (np.ndim(risk_range) == 1 and len(risk_range) == 2 and risk_range[0] < risk_range[1]):
            raise InputError("risk_range must be a lower and an upper end", risk_range, "Write risk_range=(0.1, 100)")
        if ax.get_yscale() == "log" and risk_range[0] <= 0:
            raise InputError(
                "risk_range must be positive on a logarithmic axis",
                risk_range,
                "Write risk_range=(0.1, 100), or log=False",
            )
        ax.set_ylim(risk_range)
    crossings = _crossings(rumap, curves, x, shown, max_risk, parameter)
    lines = [_line(rumap, curve, x, shown, crossing) for curve, crossing in zip(curves, crossings, strict=True)]
    for curve, line in zip(curves, lines, strict=True):
        _draw(ax, rumap, curve, x, shown, line)
    if max_risk is not None:
        threshold(ax, max_risk, zorder=2)
    if title:
        ax.set_title(plain(title))
    _write(ax, rumap, curves, lines, crossings, x, shown, max_risk, parameter)
    return ax


@dataclass(frozen=True)
class _Curve:
    name: str
    rows: Positions
    colour: str
    line: str
    marker: str
    method: str


@dataclass(frozen=True)
class _Crossing:
    """Where a curve meets the threshold: after how many of its shown points, at which place, with which parameter."""

    after: int
    place: float
    risk: float
    parameter: float


def _parameter(rumap: RUMap) -> str | None:
    """The parameter that varies along the curves."""
    for name, values in rumap.parameters.items():
        if values.dtype.kind == "f" and len(set(values[~np.isnan(values)].tolist())) > 1:
            return name
    return None


def _curves(rumap: RUMap, parameter: str | None, names: Mapping[str, str], palette: Sequence[str]) -> list[_Curve]:
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
            name = ", ".join(_phrase(list(fields)[j], key[1 + j], len(varying) == 1) for j in varying)
        else:
            name = key[0].removesuffix(": Noise").removesuffix(f", {key[-1]}")
        name = names.get(name, name)
        colour = colours.setdefault(name, palette[len(colours) % len(palette)])
        way = known.index(key[-1])
        found.append(_Curve(name, rows, colour, LINES[way % len(LINES)], MARKERS[way % len(MARKERS)], key[-1]))
    return found


def _phrase(field: str, value: str, only: bool) -> str:
    return f"{value} knowledge" if field == "knowledge" and only else value


def _set_axes(
    ax: Axes, rumap: RUMap, x: Array, shown: Rows, max_risk: float | None, log: str | bool, against: str
) -> None:
    if not isinstance(log, bool):
        check_choice("log", log, ["auto", "x", "y"])
    y = rumap.risk[shown] if max_risk is None else np.append(rumap.risk[shown], max_risk)
    for letter, values in (("x", x[shown]), ("y", y)):
        low, high = float(values.min()), float(values.max())
        wanted = log is True or log == letter or (log == "auto" and low > 0 and high > LOG_FROM * low)
        if wanted and low <= 0:
            raise InputError(
                f"A logarithmic {letter} axis needs positive values",
                low,
                'Use log="auto", or leave out noise variance 0',
            )
        if wanted:
            getattr(ax, f"set_{letter}scale")("log")
            room = (high / low) ** 0.08 if high > low else 1.2
            getattr(ax, f"set_{letter}lim")(low / room, high * room)
        else:
            room = 0.08 * (high - low) or 0.1 * (abs(high) or 1.0)
            getattr(ax, f"set_{letter}lim")(low - room, high + room)
    name_axes(ax, rumap)
    if against != "utility":
        ax.set_xlabel(f"noise {against}" if against in ("variance", "sd") else against)
    bare(ax, look_of(ax), "both", ("top", "right"))


def _crossings(
    rumap: RUMap, curves: Sequence[_Curve], x: Array, shown: Rows, max_risk: float | None, parameter: str | None
) -> list[_Crossing | None]:
    """The crossing of each curve that gets a mark."""
    if max_risk is None or parameter is None or max_risk <= 0:
        return [None] * len(curves)
    exact = {c.name for c in curves if not np.any(rumap.risk_error[c.rows] > 0)}
    # Where the exact curve is there too, its crossing is the better one.
    second = [c.name in exact and bool(np.any(rumap.risk_error[c.rows] > 0)) for c in curves]
    return [
        None if s else _crossing(rumap, c, x, shown, max_risk, parameter) for c, s in zip(curves, second, strict=True)
    ]


def _crossing(rumap: RUMap, curve: _Curve, x: Array, shown: Rows, max_risk: float, parameter: str) -> _Crossing | None:
    """The one place where a curve meets the threshold; None if there are several or none."""
    rows = curve.rows[shown[curve.rows]]
    above = rumap.risk[rows] > max_risk
    turns = np.flatnonzero(above[:-1] != above[1:])
    if turns.size != 1:
        return None
    i = int(turns[0])
    ends = rows[[i, i + 1]]
    # Risk is near a power of the noise, so logarithms interpolate well.
    logs = np.log(np.maximum(rumap.risk[ends], 1e-300))
    share = float((np.log(max_risk) - logs[0]) / (logs[1] - logs[0]))
    values = np.asarray(rumap.parameters[parameter], dtype=float)[ends]
    return _Crossing(i + 1, _between(x[ends], share), max_risk, _between(values, share))


def _between(ends: Array, share: float) -> float:
    """A share of the way between two numbers, by logarithms if both are positive."""
    if ends.min() > 0:
        return float(np.exp(np.log(ends[0]) + share * (np.log(ends[1]) - np.log(ends[0]))))
    return float(ends[0] + share * (ends[1] - ends[0]))


def _line(rumap: RUMap, curve: _Curve, x: Array, shown: Rows, crossing: _Crossing | None) -> tuple[Array, Array]:
    """Corners of the drawn line: the shown releases, and the crossing between two of them."""
    rows = curve.rows[shown[curve.rows]]
    if crossing is None:
        return x[rows], rumap.risk[rows]
    return np.insert(x[rows], crossing.after, crossing.place), np.insert(
        rumap.risk[rows], crossing.after, crossing.risk
    )


def _draw(ax: Axes, rumap: RUMap, curve: _Curve, x: Array, shown: Rows, line: tuple[Array, Array]) -> None:
    rows = curve.rows[shown[curve.rows]]
    bars = rumap.risk_error[rows] > 0
    style: Style = {"color": curve.colour, "zorder": 3}
    if np.any(bars):
        ax.errorbar(
            x[rows],
            rumap.risk[rows],
            xerr=rumap.utility_error[rows] if x is rumap.utility else None,
            yerr=np.where(np.isfinite(rumap.risk_error[rows]), rumap.risk_error[rows], 0.0),
            fmt=curve.marker,
            ms=3.5,
            lw=0,
            elinewidth=0.9,
            alpha=0.85,
            **style,
        )
        ax.plot(*line, ls=curve.line, lw=0.8, alpha=0.5, **style)
    else:
        ax.plot(*line, ls=curve.line, lw=1.9, **style)
    # No noise at all has no place on a logarithmic axis of variances.
    placed = np.isfinite(x[curve.rows]) & ((x[curve.rows] > 0) | (ax.get_xscale() != "log"))
    endless = curve.rows[np.isinf(rumap.risk[curve.rows]) & placed]
    if endless.size:
        at_edge: Style = {"transform": ax.get_xaxis_transform(), "clip_on": False, "zorder": 3}
        points(ax, x[endless], np.full(endless.size, 0.985), "^", 8, curve.colour, **at_edge)


def _write(
    ax: Axes,
    rumap: RUMap,
    curves: list[_Curve],
    lines: list[tuple[Array, Array]],
    crossings: list[_Crossing | None],
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
    for curve, line in zip(curves, lines, strict=True):
        rows = curve.rows[shown[curve.rows]]
        labeller.keep_clear(*line)
        for i in rows[rumap.risk_error[rows] > 0]:
            y, dy = rumap.risk[i], rumap.risk_error[i]
            labeller.keep_clear(np.array([x[i], x[i]]), np.array([max(y - dy, y / 10), y + dy]))
    if max_risk is not None:
        labeller.on_line(f"threshold {max_risk:.4g}", max_risk)
    handles = []
    named: set[str] = set()
    for curve, line in zip(curves, lines, strict=True):
        if curve.name in named:
            continue
        named.add(curve.name)
        path = _path(ax, *line)
        if len(path) == 0 or not _name(labeller, curve, path):
            handles.append(Line2D([], [], color=curve.colour, lw=2, label=curve.name))
    for curve, crossing in zip(curves, crossings, strict=True):
        if crossing is not None:
            _mark(ax, labeller, curve, crossing, str(parameter))
    methods = list(dict.fromkeys(c.method for c in curves if c.method))
    if len(methods) > 1:
        for method in methods:
            one = next(c for c in curves if c.method == method)
            dots = bool(np.any(rumap.risk_error[one.rows] > 0))
            dash, marker = ("none", one.marker) if dots else (one.line, "")
            handles.append(Line2D([], [], color=look_of(ax).soft, ls=dash, marker=marker, ms=4, label=method))
    if np.any(rumap.risk_error > 0):
        handles.append(Line2D([], [], ls="none", label="bars: one standard error"))
    if handles:
        frame: Style = {"framealpha": 0.9, "facecolor": look_of(ax).paper, "edgecolor": "none"}
        ax.legend(handles=handles, loc="best", frameon=True, fontsize="small", **frame)


def _path(ax: Axes, x: Array, y: Array) -> Array:
    """The drawn line in pixels, filled in so that there is a place for a name between far points."""
    if x.size == 0:
        return np.zeros((0, 2))
    corners = ax.transData.transform(np.column_stack([x, y]))
    if len(corners) == 1:
        return np.asarray(corners)
    length = np.concatenate([[0], np.cumsum(np.hypot(*np.diff(corners, axis=0).T))])
    at = np.linspace(0, length[-1], 81)
    return np.column_stack([np.interp(at, length, corners[:, j]) for j in (0, 1)])


def _name(labeller: Labeller, curve: _Curve, path: Array) -> bool:
    """Write the curve's name beside it, near its middle if there is room."""
    note = labeller.ax.annotate(
        plain(curve.name),
        tuple(labeller.ax.transData.inverted().transform(path[0])),
        xytext=(0, 0),
        textcoords="offset points",
        fontsize="small",
        color=curve.colour if labeller.look is LIGHT else small(curve.colour, labeller.look),
        fontweight="bold",
        zorder=7,
        in_layout=False,
    )
    for reach in (5, 9, 14):
        for share in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9, 0.03, 0.97):
            i = round(share * (len(path) - 1))
            a, b = path[max(i - 2, 0)], path[min(i + 2, len(path) - 1)]
            along = (b - a) / (np.hypot(*(b - a)) or 1.0)
            across = np.array([-along[1], along[0]])
            for side in (across, -across):
                note.xy = tuple(labeller.ax.transData.inverted().transform(path[i]))
                if labeller._try(note, path[i], side, reach):
                    return True
    note.remove()
    return False


def _mark(ax: Axes, labeller: Labeller, curve: _Curve, crossing: _Crossing, parameter: str) -> None:
    """Mark where the curve meets the threshold, with the parameter there."""
    point = ax.transData.transform((crossing.place, crossing.risk))
    points(ax, crossing.place, crossing.risk, "o", 6, curve.colour, hollow=True, mew=1.5, zorder=5)
    labeller.beside(
        f"{parameter} {_short(crossing.parameter)}", np.array([point - [5, 0], point, point + [5, 0]]), 1, curve.colour
    )


def _short(value: float) -> str:
    text = f"{value:.3g}"
    return text.replace("e+0", "e").replace("e+", "e") if "e" in text else text
