"""Drawing a risk-utility map: utility to the right, risk upwards, as in the papers.

matplotlib is imported when something is drawn, and nothing here calls ``show()``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from itertools import cycle
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..analyses.limit import Limit, limit as compute
from ..checks import check_choice, check_flag, check_kind, check_number, is_flag
from ..decide import Choice, choose, not_dominated
from ..decide.choice import check_rule
from ..decide.criteria import Rule, check_map
from ..errors import InfeasibleError, InputError
from ..maps.joining import worst_case
from ..maps.rumap import RUMap
from ..maps.scores import Column, Score
from ..maps.show import format_amount
from ..protocols import Array
from .axes import decades, window
from .labels import Labeller, pick_spread_points
from .theme import (
    MARKERS,
    Style,
    as_literal_text,
    axes_on,
    empty_plot_error,
    figure_of,
    hide_frame,
    look_of,
    name_axes,
    points,
    set_title,
    settle_layout,
    threshold as draw_threshold,
    ticks_without_powers,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = NDArray[np.bool_]
Positions = NDArray[np.intp]
Paint = tuple[str, str, str]
"""Colour, marker and line."""
SIZE = (8.6, 5.2)
"""Of a new figure, in inches."""
LINES = ("-", "--", "-.", ":")
BARS: Style = {"fmt": "none", "elinewidth": 0.9, "alpha": 0.7, "zorder": 2.5}
"""How bars of one standard error look."""
MOST_TECHNIQUES = 24  # a legend with more cannot be read; all releases are then one cloud
MOST_CURVES = 8  # of one technique; more of them are easier to read as a cloud of points
REGION = 30.0  # releases with more than so many times the tolerable risk are not what is decided about
CROWD = 2000  # of a larger map, markers and bars are pixels in a vector drawing: as shapes they would be megabytes


def rumap(
    rumap: RUMap,
    max_risk: float | None = None,
    ax: Axes | None = None,
    *,
    frontier: bool = True,
    labels: bool = True,
    legend: bool = True,
    log: str | bool = "auto",
    title: str | None = None,
    limit: Limit | bool | None = None,
    rule: Rule | None = None,
    style: str | None = None,
) -> Axes:
    """Draw a map and return the Axes.

    A technique with a varying parameter is a curve with values of the parameter marked along it; a technique with one
    release is a marker. A release with infinite risk or utility is drawn as an arrow at the edge; one without a value
    (NaN) is left out and the legend says so. Open markers have not converged; bars are one standard error. Of a map
    with more than 2,000 releases, clouds of markers and bars are pixels in SVG and PDF files; the rest of the drawing
    stays in shapes.

    Parameters
    ----------
    rumap : RUMap
        The map.
    max_risk : float, optional
        Draws the threshold and labels the best release that it allows.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given. Close that figure with ``plt.close(ax.figure)`` when it is saved.
    frontier : bool
        Emphasise the releases that no other one dominates. The band is a staircase: only releases on the map exist.
        Where several users look at the same releases it is the frontier of the worst case (`RUMap.worst`).
    labels : bool
        Write parameter values along the curves.
    legend : bool
        Put a legend beside the axes, where it covers no data.
    log : "auto", True, False, "x", "y"
        Logarithmic axes; "auto" takes one where ratios mean something, values are positive and the region of decision
        (threshold, frontier, choice) spans more than a factor of 30. The axes show that region; how many releases lie
        outside is said in the legend.
    title : str, optional
        A title.
    limit : Limit or True, optional
        Draws what no mechanism at all can pass (`ruvdecision.analyses.limit.limit`). True computes it from the users of
        the map, if the map still holds them.
    rule : mapping, optional
        Further arguments of `choose`, such as ``{"confidence": 0.95}``: the star is then the release that they choose.
    style : "light" or "dark", optional
        The paper of a new figure; matplotlib's own settings if not given.

    Dark axes (`theme`, or a matplotlib style) get colours that can be seen on them.

    Examples
    --------
    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.0], scientist=[0.5, 0.25])
    >>> ax = rumap.plot(max_risk=0.5)
    """
    drawing = MapDrawing(rumap, max_risk, frontier, labels, legend, log, title, limit, rule)
    own = ax is None
    with axes_on(style, ax, SIZE) as ax:
        drawing.draw(ax, own)
        write_texts({ax: drawing})
    return ax


@dataclass
class MapDrawing:
    """A map to be drawn as `rumap` says: first all but the texts, whose places ask for a layout that is settled."""

    rumap: RUMap
    max_risk: float | None = None
    frontier: bool = True
    labels: bool = True
    legend: bool = True
    log: str | bool = "auto"
    title: str | None = None
    limit: InitVar[Limit | bool | None] = None
    rule: InitVar[Rule | None] = None

    def __post_init__(self, limit: Limit | bool | None, rule: Rule | None) -> None:
        rumap = self.rumap
        check_map(rumap)
        for name in ("frontier", "labels", "legend"):
            check_flag(name, self.__dict__[name], "Say whether it is drawn")
        if not is_flag(self.log):
            check_choice("log", self.log, ["auto", "x", "y"])
        if self.max_risk is not None:
            self.max_risk = check_number("max_risk", self.max_risk, infinite=True)
        self.chosen: Choice | None = None
        self.refused = ""
        rule = check_rule(rule)
        if self.max_risk is not None or "by" in rule:
            try:
                self.chosen = choose(rumap, self.max_risk, **rule)
            except InfeasibleError:
                self.refused = "no release meets the threshold"
        self.shown: Rows = ~(np.isnan(rumap.utility) | np.isnan(rumap.risk))
        if not np.any(self.shown):
            raise empty_plot_error("no release has both risk and utility")
        self.wall = _limit_of(rumap, limit)
        self.seen: list[tuple[Paint, _Curve]] = []
        """Curves that are not hidden under others, once they are drawn."""

    @property
    def starred(self) -> Choice | None:
        """The chosen release, if it has a place in the drawing."""
        return self.chosen if self.chosen and np.isfinite([self.chosen.risk, self.chosen.utility]).all() else None

    def draw(self, ax: Axes, own: bool) -> None:
        """Draw all but the texts; ``own`` says that nobody else has drawn on the figure."""
        rumap, max_risk, chosen, shown = self.rumap, self.max_risk, self.chosen, self.shown
        wide, tall = (w[np.isfinite(w)] for w in self.wall) if self.wall else (rumap.utility[:0], rumap.risk[:0])
        case = worst_case(rumap)
        region = points_to_keep_in_view(case, chosen, max_risk)
        drawn = np.append(rumap.utility[shown], wide), np.append(rumap.risk[shown], tall)
        set_axes(ax, rumap, [*zip(drawn, region, (rumap.utility_score, rumap.risk_score), strict=True)], self.log)

        colours = cycle([(c, m, s) for s in LINES for c, m in zip(look_of(ax).colours, MARKERS, strict=True)])
        looks = [(next(colours), curve) for curve in all_curves(rumap, shown)]
        if self.frontier and case is not None:
            # Of several users the frontier is that of the worst case: a choice is among releases, not among users.
            _draw_frontier(ax, case.utility, case.risk, ~(np.isnan(case.utility) | np.isnan(case.risk)))
        if self.wall:
            _draw_limit(ax, *self.wall)
        hidden = [
            _count_coinciding(ax, rumap, curve, [c for _, c in looks[k + 1 :]]) for k, (_, curve) in enumerate(looks)
        ]
        for (look, curve), under in zip(looks, hidden, strict=True):
            _draw_curve(ax, rumap, look, curve, under=under)
        _draw_edges(ax, rumap, looks)
        if max_risk is not None and np.isfinite(max_risk):
            draw_threshold(ax, max_risk, lw=1.2, zorder=2, label=f"threshold: risk at most {max_risk:.4g}")
            ax.axhspan(max_risk, ax.get_ylim()[1], color="0.5", alpha=0.06, lw=0, zorder=0)
        if self.starred is not None:
            star: Style = {"mfc": "#F0E442", "mew": 1.0, "zorder": 6, "label": "chosen release"}
            points(ax, self.starred.utility, self.starred.risk, "*", 17, "black", **star)
        set_title(ax, self.title)
        refused = self.refused if chosen is None or self.starred is not None else f"chosen: {chosen.release}"
        remarks = _write_remarks(ax, rumap, shown, refused)
        if self.labels:
            _unit_axes(ax, rumap)
        if self.legend:
            _draw_legend(ax, remarks, own)
        self.seen = [look for look, under in zip(looks, hidden, strict=True) if not under]


def write_texts(drawings: Mapping[Axes, MapDrawing], beside: bool = True) -> None:
    """Fit the names of the axes of maps that are drawn, and write beside their points if wanted."""
    figure = figure_of(next(iter(drawings)))
    settle_layout(figure)
    folded = [_fold_labels(ax, drawing.rumap) for ax, drawing in drawings.items()]
    if not beside:
        return
    if any(folded):
        settle_layout(figure)
    for ax, drawing in drawings.items():
        _write_labels(ax, drawing.rumap, drawing.seen, drawing.starred, drawing.max_risk, drawing.labels)


def limit(limit: Limit, ax: Axes | None = None, *, style: str | None = None, **line: Any) -> Axes:
    """Draw a `Limit` alone (or beside what is on ``ax``) and return the Axes; ``line`` says how the line looks."""
    x, y = _limit_points(check_kind("limit", limit, Limit, "Call ruv.limit(...) first"))
    alone = ax is None
    with axes_on(style, ax, SIZE) as ax:
        if alone:
            name_axes(ax, limit)
            hide_frame(ax, look_of(ax), "both", ("top", "right"))
        _draw_limit(ax, x, y, **line)
    return ax


def _limit_of(rumap: RUMap, limit: Limit | bool | None) -> tuple[Array, Array] | None:
    """Utility and risk along the limit that was asked for, or None."""
    if limit is None or limit is False:
        return None
    if limit is True:
        if rumap.users is None:
            do = "Write limit=ruv.limit(intruder, scientist, max_risk=grid)"
            raise InputError("This map does not hold its users any more", "limit=True", do)
        known = np.unique(rumap.risk[np.isfinite(rumap.risk)])
        # Bounds at the map's own risks, a few dozen of them at most.
        at = known[np.unique(np.linspace(0, len(known) - 1, 30).astype(int))] if len(known) else None
        users: Any = rumap.users  # limit says whom it takes
        limit = compute(users[0], users[1], at, risk=rumap.risk_score, utility=rumap.utility_score)
    limit = check_kind("limit", limit, Limit, "Write limit=True, or limit=ruv.limit(intruder, scientist)")
    limit.check_map(rumap)
    return _limit_points(limit)


def _limit_points(limit: Limit) -> tuple[Array, Array]:
    """Utility and risk of the limit, in order of risk."""
    known = ~np.isnan(limit.utility)
    if not known.any():
        raise InputError("There is no limit to draw", "no bound can be met", "Ask for larger risk bounds")
    order = np.argsort(limit.max_risk[known], kind="stable")
    return limit.utility[known][order], limit.max_risk[known][order]


def _draw_limit(ax: Axes, x: Array, y: Array, **style: Any) -> None:
    finite = np.isfinite(x) & np.isfinite(y)
    look: Style = {
        "color": look_of(ax).ink,
        "lw": 1.6,
        "ls": (0, (1, 1.2)),
        "zorder": 2.8,
        "label": "limit: no mechanism lies to the right of it",
    }
    ax.plot(x[finite], y[finite], **(look | style))


@dataclass(frozen=True)
class _Curve:
    """Releases that are drawn as one: a line in order of a parameter, a single marker, or a cloud (no parameter)."""

    name: str
    rows: Positions
    parameter: str | None = None
    at: Array | None = None


def all_curves(rumap: RUMap, shown: Rows) -> list[_Curve]:
    """What is drawn of a map: the curves of each technique, or one cloud if there are too many to tell apart."""
    techniques = dict.fromkeys(rumap.techniques)
    if len(techniques) > MOST_TECHNIQUES:
        return [_Curve(f"{len(techniques):,} techniques", np.flatnonzero(shown))]
    return [curve for technique in techniques for curve in curves_of(rumap, technique, shown)]


def curves_of(rumap: RUMap, technique: str, shown: Rows) -> list[_Curve]:
    """Split a technique into lines along which one parameter varies and the others are fixed."""
    rows = np.flatnonzero((np.array(rumap.techniques, dtype=object) == technique) & shown)
    if rows.size <= 1:
        return [_Curve(technique, rows)] if rows.size else []
    numbers, words = _parameters_as_coordinates(rumap, rows)
    varying = [k for k, v in numbers.items() if len(set(v.tolist())) > 1]
    if not varying:
        return [_Curve(technique, rows)]
    keys = {k: [str(w) for w in v] for k, v in words.items()} | {k: v.tolist() for k, v in numbers.items()}
    lines: list[_Curve] = []
    left = np.arange(rows.size)
    while left.size:
        best: tuple[int, str, Any] = (0, "", None)
        for name in varying:
            groups: dict[Any, list[int]] = {}
            for i in left:
                groups.setdefault(tuple(v[i] for k, v in keys.items() if k != name), []).append(int(i))
            longest = max(groups.values(), key=len)
            if len(longest) > best[0]:
                best = (len(longest), name, longest)
        size, name, members = best
        if size < 2 or len(lines) == MOST_CURVES:
            break
        order = np.array(members)[np.argsort(numbers[name][members], kind="stable")]
        shared = {k: v[order[0]] for k, v in keys.items() if k != name and len(set(v)) > 1}
        fixed = [f", {k}={v:g}" if k in numbers else f", {k}={v}" for k, v in shared.items()]
        lines.append(_Curve(technique + "".join(fixed), rows[order], name, numbers[name][order]))
        left = np.setdiff1d(left, order)
    # A few strays beside the lines are a cloud of their own; many mean that lines were the wrong idea.
    if left.size > 0.2 * rows.size or any(c.rows.size < 3 for c in lines[1:]):
        return [_Curve(technique, rows)]
    if len(lines) == 1 and not left.size:
        lines = [replace(lines[0], name=technique)]
    return lines + ([_Curve(f"{technique}, others", rows[left])] if left.size else [])


def _parameters_as_coordinates(rumap: RUMap, rows: Positions) -> tuple[dict[str, Array], dict[str, NDArray[Any]]]:
    """The parameters of these releases: numbers, and words. A vector of numbers counts as its components."""
    floats = {k: v[rows].astype(float) for k, v in rumap.parameters.items() if v.dtype.kind == "f"}
    numbers = {k: v for k, v in floats.items() if not np.any(np.isnan(v))}
    words = {k: v[rows] for k, v in rumap.parameters.items() if v.dtype.kind in "US" and len(set(v[rows].tolist())) > 1}
    if len(words) == 1 and rumap.masks is not None:
        (name,) = words
        inside = [getattr(rumap.masks[i], "numbers", ()) for i in rows]
        plain = [v for k, v in numbers.items() if len(set(v.tolist())) > 1]
        if not plain and len({len(v) for v in inside}) == 1 and len(set(inside)) == len(inside):
            table = np.array(inside, dtype=float)
            free = {j: v for j, v in enumerate(table.T) if len(set(v.tolist())) > 1}
            return numbers | {f"{name}[{j}]" if len(table.T) > 1 else name: v for j, v in free.items()}, {}
    return numbers, words


def set_axes(
    ax: Axes, rumap: RUMap, sides: Sequence[tuple[Array, ArrayLike, Score | Column | None]], log: str | bool
) -> None:
    """Ends, scales and names of both axes; ``sides`` are values, what must be seen of them, and their score."""
    for letter, (values, core, score) in zip("xy", sides, strict=True):
        found = window(letter, values, core, score=score, log=log)
        ax.set(**{f"{letter}scale": "log"} if found.log else {})
        ax.set(**{f"{letter}lim": (found.low, found.high)})
    ticks_without_powers(ax)
    name_axes(ax, rumap)
    hide_frame(ax, look_of(ax), "both", ("top", "right"))


def points_to_keep_in_view(case: RUMap | None, chosen: Choice | None, max_risk: float | None) -> tuple[Array, Array]:
    """Utilities and risks that a reader must see: frontier, choice and threshold."""
    if case is None:
        return np.empty(0), np.empty(0)
    front = not_dominated(case.risk, case.utility) & np.isfinite(case.risk) & np.isfinite(case.utility)
    picked = [] if chosen is None else [(chosen.utility, chosen.risk)]
    x, y = np.array([*zip(case.utility[front], case.risk[front], strict=True), *picked]).reshape(-1, 2).T
    if max_risk is not None:
        # Far above the threshold nothing is decided.
        near = y <= REGION * max_risk if max_risk > 0 else np.ones(y.size, dtype=bool)
        x, y = (x[near], y[near]) if near.sum() > 1 else (x, y)
        y = np.append(y, max_risk)
    return x, y


def _draw_frontier(ax: Axes, x: Array, y: Array, shown: Rows) -> None:
    rows = np.flatnonzero(not_dominated(y, x) & shown & np.isfinite(x) & np.isfinite(y))
    if rows.size == 0:
        return
    rows = rows[np.lexsort((y[rows], x[rows]))]
    label = "frontier: none is safer and as useful"
    band: Style = {"alpha": 0.35, "zorder": 1.5}
    if rows.size == 1:
        points(ax, x[rows], y[rows], "o", 15, "0.55", mew=0, label=label, **band)
        return
    # Corners between the points: more utility than one release needs the risk of the next. A step that is smaller
    # than its line is wide would only make the line ragged.
    gap = np.abs(np.diff(ax.transData.transform(np.column_stack([x[rows], y[rows]])), axis=0)).min(axis=1)
    corner = np.flatnonzero(gap > 6)
    steps = np.insert(x[rows], corner + 1, x[rows][corner]), np.insert(y[rows], corner + 1, y[rows][corner + 1])
    ends: Style = {"solid_capstyle": "round", "solid_joinstyle": "round"}
    ax.plot(*steps, lw=8, color="0.55", label=label, **band, **ends)
    if rows.size <= 40:
        points(ax, x[rows], y[rows], "o", 13, "0.55", mew=0, **band)


def _count_coinciding(ax: Axes, rumap: RUMap, curve: _Curve, later: Sequence[_Curve]) -> int:
    """How many markers or lines will cover this one; it is drawn larger, so that a tie shows as a ring or a rim."""
    places = ax.transData.transform(np.column_stack([rumap.utility[curve.rows], rumap.risk[curve.rows]]))
    places = places[np.isfinite(places).all(axis=1)]
    places = places[np.linspace(0, len(places) - 1, min(len(places), 40)).astype(int)] if len(places) else places
    count = 0
    for other in later:
        alike = (other.rows.size == 1, other.parameter is None) == (curve.rows.size == 1, curve.parameter is None)
        if not len(places) or not alike:
            continue
        path = ax.transData.transform(np.column_stack([rumap.utility[other.rows], rumap.risk[other.rows]]))
        path = path[np.isfinite(path).all(axis=1)][:: max(1, other.rows.size // 400)]
        if len(path):
            nearest = np.hypot(*(places[:, None, :] - path[None, :, :]).transpose(2, 0, 1)).min(axis=1)
            count += bool(np.quantile(nearest, 0.9) < (4 if curve.parameter is None else 0.5))
    return min(count, 3 if curve.parameter is None else 1)


def _draw_curve(ax: Axes, rumap: RUMap, look: Paint, curve: _Curve, under: int) -> None:
    colour, marker, line = look
    finite = np.isfinite(rumap.utility[curve.rows]) & np.isfinite(rumap.risk[curve.rows])
    rows = curve.rows[finite]
    x, y = rumap.utility[rows], rumap.risk[rows]
    one, many = rows.size == 1, rows.size > 40
    style: Style = {"color": colour, "zorder": 3, "label": as_literal_text(_wrap_name(curve.name))}
    dense: Style = {
        "marker": marker,
        "ms": 8 + 5 * under if one else 3 if rows.size > 200 else 5,
        "alpha": 0.6 if rows.size > 200 else 1.0,
    }
    if rows.size == 0:
        # Only at the edge; an empty line keeps its place in the legend.
        points(ax, [], [], marker, 8, colour, zorder=3, label=style["label"])
        return
    good = rumap.converged[rows]
    crowd = len(rumap) > CROWD
    if curve.parameter is None:
        dense["rasterized"] = crowd
        ax.plot(x, y, ls="none", mfc=colour if np.all(good) else "none", mec=colour, **dense, **style)
        if not np.all(good):
            ax.plot(x[good], y[good], ls="none", color=colour, zorder=3, **dense)
    else:
        ax.plot(x, y, ls=line, lw=2 + 3 * under, marker="" if many else marker, ms=4, **style)
        points(ax, x[~good], y[~good], marker, 5 if many else 6, colour, hollow=True, zorder=4)
    dx, dy = rumap.utility_error[rows], rumap.risk_error[rows]
    barred = (dx > 0) | (dy > 0)
    if crowd and np.any(barred):
        _draw_bars(ax, x[barred], y[barred], dx[barred], dy[barred], colour)
    elif np.any(barred):
        bars: Style = {k: np.where(np.isfinite(e), e, 0.0)[barred] for k, e in (("xerr", dx), ("yerr", dy))}
        ax.errorbar(x[barred], y[barred], ecolor=colour, capsize=0 if many else 2, **BARS, **bars)


def _draw_bars(ax: Axes, x: Array, y: Array, dx: Array, dy: Array, colour: str) -> None:
    """The bars of a crowd, without the work that `errorbar` spends on each of them."""
    from matplotlib.collections import LineCollection

    dx, dy = (np.where(np.isfinite(e), e, 0.0) for e in (dx, dy))
    lying = np.stack([np.column_stack([x - dx, y]), np.column_stack([x + dx, y])], axis=1)
    standing = np.stack([np.column_stack([x, y - dy]), np.column_stack([x, y + dy])], axis=1)
    for bars in (lying, standing):
        segments: Any = bars
        lines = LineCollection(segments, colors=colour, linewidths=0.9, alpha=0.7, zorder=2.5, rasterized=True)
        ax.add_collection(lines, autolim=False)


def _draw_edges(ax: Axes, rumap: RUMap, looks: Sequence[tuple[Paint, _Curve]]) -> None:
    """Draw releases with an infinite coordinate as triangles at the edge, pointing outwards."""
    shares = ax.transScale + ax.transLimits
    for (colour, _, _), curve in looks:
        both = np.column_stack([rumap.utility[curve.rows], rumap.risk[curve.rows]])
        x, y = both.T
        wide = np.isinf(x) & np.isfinite(y)
        at = shares.transform(np.clip(both, -1e300, 1e300))
        at[np.isinf(y)] = np.clip(at[np.isinf(y)], [0.015, 0.025], [0.985, 0.975])
        at[wide, 0] = np.clip(at[wide, 0], 0.015, 0.985)
        places = shares.inverted().transform(at)
        for marker, rows in (("^", y == np.inf), (">", wide & (x > 0)), ("v", y == -np.inf), ("<", wide & (x < 0))):
            if np.any(rows):
                points(ax, places[rows, 0], places[rows, 1], marker, 10, colour, zorder=5, clip_on=False)


def _write_remarks(ax: Axes, rumap: RUMap, shown: Rows, refused: str) -> list[str]:
    remarks = [refused] if refused else []
    infinite = shown & (np.isinf(rumap.risk) | np.isinf(rumap.utility))
    if np.any(infinite):
        remarks.append("triangle at the edge: infinite")
    if np.any(~rumap.converged[shown]):
        endless = np.isinf(rumap.intruder_uncertainty) | np.isinf(rumap.scientist_uncertainty)
        some = [~rumap.converged & shown & ~endless, ~rumap.converged & shown & endless]
        words = [w for w, rows in zip(("not converged", "U is not finite"), some, strict=True) if np.any(rows)]
        remarks.append(f"open marker: {', '.join(words)}")
    if np.any((rumap.risk_error[shown] > 0) | (rumap.utility_error[shown] > 0)):
        remarks.append("bars: one standard error")
    if np.any(rumap.one_release[shown]):
        remarks.append("no bars: one release")
    sides = ((rumap.utility, ax.get_xlim()), (rumap.risk, ax.get_ylim()))
    away = np.any([np.isfinite(v) & ((v < low) | (v > high)) for v, (low, high) in sides], axis=0)
    if np.any(away & shown):
        remarks.append(f"outside the picture: {int(np.sum(away & shown)):,} of {rumap.size:,}")
    gone = int(np.sum(~shown))
    if gone:
        remarks.append(f"not drawn: {gone} (no value)")
    return remarks


def _draw_legend(ax: Axes, remarks: Sequence[str], own: bool) -> None:
    from matplotlib.lines import Line2D

    handles, names = ax.get_legend_handles_labels()
    handles += [Line2D([], [], ls="none") for _ in remarks]
    names += [as_literal_text(_wrap_name(r)) for r in remarks]
    aside = 1.17 if ax.child_axes else 1.01  # beside the axis of the data's unit
    place: Style = {"loc": "upper left", "bbox_to_anchor": (aside, 1.0), "borderaxespad": 0}
    box = ax.legend(handles, names, frameon=False, fontsize="small", alignment="left", **place)
    for handle in box.legend_handles:
        if isinstance(handle, Line2D):
            handle.set_markersize(min(handle.get_markersize(), 12))
    figure = figure_of(ax)
    if not own and figure.get_layout_engine() is None:
        # No layout engine makes room for the legend in the caller's figure, so take it from the axes.
        figure.draw_without_rendering()
        here = ax.get_position()
        over = box.get_window_extent().width / figure.bbox.width
        width = max(here.width - over - 0.01, 0.3 * here.width)
        ax.set_position((here.x0, here.y0, width, here.height))


def _write_labels(
    ax: Axes,
    rumap: RUMap,
    looks: Sequence[tuple[Paint, _Curve]],
    chosen: Choice | None,
    max_risk: float | None,
    labels: bool,
) -> None:
    """Write on the drawing, the most important first. A text without a free place is omitted, except the choice."""
    finite = np.isfinite(rumap.utility) & np.isfinite(rumap.risk)
    labeller = Labeller(ax, rumap.utility[finite], rumap.risk[finite])
    for _, curve in looks:
        if curve.parameter is not None:
            labeller.keep_clear(rumap.utility[curve.rows], rumap.risk[curve.rows])
    for i in np.flatnonzero(finite & ((rumap.utility_error > 0) | (rumap.risk_error > 0)))[:500]:
        x, y, dx, dy = rumap.utility[i], rumap.risk[i], rumap.utility_error[i], rumap.risk_error[i]
        labeller.keep_clear(np.array([x - dx, x + dx]), np.array([y, y]))
        labeller.keep_clear(np.array([x, x]), np.array([y - dy, y + dy]))
    if chosen is not None:
        text = _wrap_name(chosen.release, 30) + f"\nrisk {chosen.risk:.3g}, utility {chosen.utility:.3g}"
        text += "".join(
            f"\n{part}" for part in typical_errors_in_words(rumap.worst(), chosen.position).split(", ") if part
        )
        labeller.call_out(text, chosen.utility, chosen.risk)
    if max_risk is not None and np.isfinite(max_risk):
        labeller.on_line(f"threshold {max_risk:.4g}", max_risk)
    if not labels:
        return
    for (colour, _, _), curve in looks:
        if curve.parameter is None or curve.at is None:
            continue
        good = np.isfinite(rumap.utility[curve.rows]) & np.isfinite(rumap.risk[curve.rows])
        x, y, at = rumap.utility[curve.rows][good], rumap.risk[curve.rows][good], curve.at[good]
        if at.size < 2:
            continue
        path = ax.transData.transform(np.column_stack([x, y]))
        first = True
        for i in pick_spread_points(path, at):
            text = f"{curve.parameter} {_format_number(at[i])}" if first else _format_number(at[i])
            if labeller.write_beside(text, path, i, colour):
                # An open marker means one thing only: it did not converge.
                hollow = not rumap.converged[curve.rows][good][i]
                points(ax, x[i], y[i], "o", 5, colour, hollow=hollow, mew=1.5, zorder=4.5)
                first = False


def typical_errors_in_words(rumap: RUMap, i: int) -> str:
    """How far users' estimates are typically off, in the data's unit, where the map knows that."""
    found = {name.partition("_")[0]: float(v.value[i]) for name, v in rumap.typical_errors.items()}
    return ", ".join(f"{who} off by {format_amount(off, str(rumap.attrs['unit']))}" for who, off in found.items())


def _unit_axes(ax: Axes, rumap: RUMap) -> None:
    """On the far sides, how far each user's estimate is typically off in the data's unit, where the map knows that."""
    from matplotlib.ticker import MaxNLocator

    for axis, side in ((rumap.axis("utility"), "top"), (rumap.axis("risk"), "right")):
        errors, shown = rumap.typical_errors.get(f"{axis.who}_typical_error"), rumap.column(axis.role).value
        if errors is None or axis.score.column is not None or np.unique(axis.before).size > 1:
            continue
        low, high = ax.get_xlim() if side == "top" else ax.get_ylim()
        known = errors.value[(shown >= low) & (shown <= high) & (errors.value > 0)]
        if not known.size:
            continue
        weight, power = rumap.attrs[f"{axis.who}_error_scale"]
        ends = float(known.min()), float(known.max())
        ticks = np.array(decades(*ends) if ends[1] > 10 * ends[0] else MaxNLocator(6).tick_values(*ends))
        places = axis.score(weight * ticks ** (1 / power), axis.before[0])
        heights = (ax.transScale + ax.transLimits).transform(np.column_stack([places, places]))[:, int(side == "right")]
        kept, apart = list[int](), 0.14 if side == "top" else 0.08
        for i in np.argsort(heights):
            if 0 <= heights[i] <= 1 and (not kept or heights[i] > heights[kept[-1]] + apart):
                kept.append(int(i))
        second = ax.secondary_xaxis("top") if side == "top" else ax.secondary_yaxis("right")
        words = [as_literal_text(format_amount(t, str(rumap.attrs["unit"]))) for t in ticks[kept]]
        named = second.xaxis if side == "top" else second.yaxis
        named.set_ticks(places[kept].tolist(), words)
        named.set_tick_params(which="minor", size=0)
        named.set_label_text(f"{axis.who} typically off by")
        second.tick_params(labelsize="small")


def _fold_labels(ax: Axes, rumap: RUMap) -> bool:
    """Write an axis label in two lines if it is longer than its axis."""
    box = ax.get_window_extent()
    wide = ax.xaxis.label.get_window_extent().width > box.width
    tall = ax.yaxis.label.get_window_extent().height > box.height
    if wide:
        ax.set_xlabel(
            as_literal_text(f"data utility   better →\n({_wrap_name(rumap.utility_score.words('scientist'), 40)})")
        )
    if tall:
        ax.set_ylabel(
            as_literal_text(f"disclosure risk   ← better\n({_wrap_name(rumap.risk_score.words('intruder'), 40)})")
        )
    figure = figure_of(ax)
    if (wide or tall) and figure.get_layout_engine() is None:
        figure.draw_without_rendering()
        # Nobody else makes room for the second line.
        up = max(0.0, 4 - ax.xaxis.label.get_window_extent().y0) / figure.bbox.height
        right = max(0.0, 4 - ax.yaxis.label.get_window_extent().x0) / figure.bbox.width
        place = ax.get_position()
        ax.set_position((place.x0 + right, place.y0 + up, max(place.width - right, 0.05), max(place.height - up, 0.05)))
    return bool(wide or tall)


def _format_number(value: float) -> str:
    text = f"{value:.3g}"
    if "e" in text and 1 <= abs(value) < 1e7:
        text = f"{value:.0f}"
    return text.replace("inf", "∞")


def _wrap_name(text: str, width: int = 30) -> str:
    """Break a long name after a bar or a comma, so that the legend stays narrow."""
    return "\n".join(wrap(text, width, break_long_words=True, break_on_hyphens=False)) or text
