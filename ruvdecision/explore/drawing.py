"""Drawings of the page, by Bokeh: the map with a threshold to drag, and what users believe.

A drawing is made once; moves of a slider change its data only. Logarithmic axes are drawn as linear ones of the
logarithm, so that a map may change from one to the other without a new drawing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import cycle

import numpy as np
from bokeh.models import BasicTicker, ColumnDataSource, FixedTicker, HoverTool, Range1d, Span, TapTool
from bokeh.plotting import figure
from numpy.typing import ArrayLike

from ..decide import not_dominated
from ..decide.choice import Choice
from ..maps.joining import worst_case
from ..maps.rumap import RUMap
from ..maps.show import clean_text, format_entry, format_number
from ..plots.axes import Window, decades, window
from ..plots.map import all_curves, points_to_keep_in_view, typical_errors_in_words
from ..plots.theme import STYLES
from ..posteriors import Drawn
from ..protocols import Array
from .topic import BeliefView, Drawable, LawView

SHAPES = ("circle", "square", "diamond", "inverted_triangle", "plus", "x", "hex", "triangle")
SIGNS = ("●", "■", "◆", "▼", "✚", "✖", "⬢", "▲")
DASHES: tuple[list[int], ...] = ([], [7, 4], [2, 3], [9, 3, 2, 3])
#: Series with more releases than this have small markers.
DENSE = 40
#: Releases that a pointer can find; of a larger map they are left out evenly.
MOST_POINTS = 3000
#: The prior may be this many times as wide as the posterior before it runs off the sheet.
WIDEST = 9.0
#: Standard deviations of a law that are drawn on either side of its mean.
REACH = 3.6
TIP = "<div style='max-width:270px'><strong>@label</strong><br>risk @risk, utility @utility<br>@off@why</div>"


class Drawing:
    """A Bokeh figure in the colours of a theme."""

    def __init__(self, dark: bool, height: int, **options: object) -> None:
        self.look = STYLES["dark" if dark else "light"]
        self.figure = figure(height=height, sizing_mode="stretch_width", toolbar_location=None, **options)
        paper = {"background_fill_color": self.look.paper, "border_fill_color": self.look.paper, "min_border": 8}
        self.figure.update(outline_line_color=None, **paper)
        for axis in self.figure.axis:
            axis.update(
                axis_line_color=self.hex_grey(self.look.soft), major_tick_line_color=self.hex_grey(self.look.soft),
                minor_tick_line_color=None, major_label_text_color=self.look.ink, axis_label_text_color=self.look.ink,
                axis_label_text_font_style="normal", major_label_text_font_size="12px",
                axis_label_text_font_size="13px",
            )  # fmt: skip
        for grid in self.figure.grid:
            grid.grid_line_color = self.hex_grey(self.look.grid)

    @staticmethod
    def hex_grey(colour: str) -> str:
        """Matplotlib's "0.25" as a colour of a page."""
        return f"#{3 * f'{round(255 * float(colour)):02x}'}" if colour[0].isdigit() else colour

    def source(self, *names: str) -> ColumnDataSource:
        """A source of data without any yet."""
        return ColumnDataSource({name: [] for name in names})


class MapDrawing(Drawing):
    """A map: utility to the right, risk upwards, the frontier, the threshold and the choice.

    Parameters
    ----------
    dark : bool
        Whether the paper is dark.
    moved : callable
        ``moved(risk)`` is called while the threshold is dragged.
    tapped : callable
        ``tapped(row)`` is called when a release is tapped.
    """

    def __init__(
        self, dark: bool, moved: Callable[[float], None], tapped: Callable[[int], None], most: int = MOST_POINTS
    ) -> None:
        self.most = most
        super().__init__(dark, 400, x_range=Range1d(0, 1), y_range=Range1d(0, 1), tools=[])
        f, look = self.figure, self.look
        self.windows = {"x": Window(0, 1), "y": Window(0, 1)}
        self.lines = self.source("xs", "ys", "colour", "dash")
        self.dots = self.source(
            "x", "y", "colour", "marker", "size", "fill", "row", "label", "risk", "utility", "off", "why"
        )
        self.front, self.worst = self.source("x", "y"), self.source("x", "y")
        self.star, self.ring = self.source("x", "y"), self.source("x", "y")
        band = {"line_width": 9, "line_color": "#F0E442", "line_alpha": 0.35 if dark else 0.55}
        f.step("x", "y", source=self.front, mode="after", **band)
        f.multi_line("xs", "ys", source=self.lines, line_color="colour", line_dash="dash", line_width=2)
        f.line("x", "y", source=self.worst, line_color=look.ink, line_width=1.4, line_dash=[2, 2])
        filled = {"line_color": "colour", "fill_color": "colour", "fill_alpha": "fill"}
        dots = f.scatter("x", "y", source=self.dots, marker="marker", size="size", **filled)
        dots.nonselection_glyph = dots.selection_glyph = None
        f.scatter("x", "y", source=self.ring, size=17, line_color=look.ink, line_width=2, fill_alpha=0)
        f.scatter("x", "y", source=self.star, marker="star", size=22, line_color=look.ink, fill_color="#F0E442")
        self.rule = Span(location=0.5, dimension="width", line_color=look.colours[1], line_dash=[6, 4], line_width=2)
        # A broad band around the line is what a finger can hold.
        grip = {"line_color": look.colours[1], "line_alpha": 0.1, "line_width": 16, "hover_line_width": 16}
        grip |= {"hover_line_color": look.colours[1], "hover_line_alpha": 0.25}
        self.grip = Span(location=0.5, dimension="width", editable=True, **grip)
        self.grip.js_link("location", self.rule, "location")
        self.grip.on_change("location", lambda name, old, new: moved(self.value_at("y", new)))
        f.add_layout(self.rule)
        f.add_layout(self.grip)
        f.add_tools(HoverTool(renderers=[dots], tooltips=TIP, attachment="below"), TapTool(renderers=[dots]))
        self.dots.selected.on_change("indices", self._on_selection)
        self._tapped = tapped
        self.legend: list[tuple[str, str, str]] = []
        self.remarks: list[str] = []

    def _on_selection(self, name: str, old: object, new: list[int]) -> None:
        if new:
            self._tapped(int(self.dots.data["row"][new[0]]))

    # -- places -----------------------------------------------------------------------------------------

    def place(self, axis: str, values: ArrayLike) -> Array:
        """Where values are drawn; what is infinite stands at the edge."""
        w, at = self.windows[axis], np.asarray(values, dtype=float)
        ends = np.array([w.low, w.high])
        if w.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                at, ends = np.log10(np.maximum(at, 0.0)), np.log10(ends)
        room = 0.02 * (ends[1] - ends[0])
        return np.where(np.isinf(at), np.where(at > 0, ends[1] - room, ends[0] + room), at)

    def value_at(self, axis: str, place: float) -> float:
        """The value at a place."""
        return float(10**place if self.windows[axis].log else place)

    def _set_axes(self, rumap: RUMap, region: tuple[Array, Array]) -> None:
        shown = ~(np.isnan(rumap.risk) | np.isnan(rumap.utility))
        f = self.figure
        across = ("x", rumap.utility, region[0], rumap.utility_score, f.x_range, f.xaxis[0])
        upwards = ("y", rumap.risk, region[1], rumap.risk_score, f.y_range, f.yaxis[0])
        for name, values, core, score, span, axis in (across, upwards):
            w = self.windows[name] = window(name, values[shown], core, score=score)
            low, high = (math.log10(w.low), math.log10(w.high)) if w.log else (w.low, w.high)
            span.update(start=low, end=high)
            ticks = decades(w.low, w.high) if w.log else []
            axis.ticker = FixedTicker(ticks=[math.log10(t) for t in ticks]) if ticks else BasicTicker()
            axis.major_label_overrides = {math.log10(t): format_number(t, 4) for t in ticks}
            role = "utility" if name == "x" else "risk"
            words = f"{role}, {score.name} of U".replace("_", " ")
            axis.axis_label = words if score.column is None else f"{role}: {score.name}"
        f.xaxis[0].axis_label += "   better →"
        f.yaxis[0].axis_label += "   ← better"

    # -- drawing ----------------------------------------------------------------------------------------

    def show(self, rumap: RUMap, max_risk: float, choice: Choice | None) -> None:
        """Draw a map anew."""
        case = worst_case(rumap)
        self._set_axes(rumap, points_to_keep_in_view(case, choice, max_risk))
        x, y = self.place("x", rumap.utility), self.place("y", rumap.risk)
        shown = ~(np.isnan(rumap.utility) | np.isnan(rumap.risk))
        why = explain_releases(rumap)
        parts: dict[str, list[object]] = {name: [] for name in self.dots.data}
        lines: dict[str, list[object]] = {name: [] for name in self.lines.data}
        self.legend = []
        looks = zip(cycle(self.look.colours), cycle(SHAPES), cycle(SIGNS), cycle(DASHES), strict=False)
        for curve, (colour, shape, sign, dash) in zip(all_curves(rumap, shown), looks, strict=False):
            rows = curve.rows
            self.legend.append((sign, colour, curve.name))
            if curve.parameter is not None:
                for name, found in (
                    ("xs", x[rows].tolist()),
                    ("ys", y[rows].tolist()),
                    ("colour", colour),
                    ("dash", dash),
                ):
                    lines[name].append(found)
            few = rows if rows.size <= self.most else rows[:: -(-rows.size // self.most)]
            parts["x"] += x[few].tolist()
            parts["y"] += y[few].tolist()
            parts["row"] += few.tolist()
            parts["colour"] += [colour] * few.size
            parts["marker"] += [shape] * few.size
            parts["size"] += [3 if rows.size > DENSE else 9] * few.size
            parts["fill"] += np.where(rumap.converged[few], 1.0, 0.0).tolist()
            parts["label"] += [clean_text(rumap.releases[i]) for i in few]
            parts["risk"] += [format_entry(rumap, "risk", int(i)) for i in few]
            parts["utility"] += [format_entry(rumap, "utility", int(i)) for i in few]
            parts["off"] += [f"{typical_errors_in_words(rumap, int(i))}. " if rumap.typical_errors else "" for i in few]
            parts["why"] += [why[i] for i in few]
        self.dots.selected.indices = []
        self.dots.data, self.lines.data = parts, lines
        self._frontier_source(rumap, case)
        sides = (("x", rumap.utility), ("y", rumap.risk))
        outside = int(sum(self.windows[axis].outside(values[shown]).sum() for axis, values in sides))
        endless = int((np.isinf(rumap.risk) | np.isinf(rumap.utility)).sum())
        self.remarks = [
            *([f"{outside:,} lie outside of the drawing"] if outside else []),
            *([f"{endless:,} with infinite risk or utility stand at its edge"] if endless else []),
            *([f"{int((~shown).sum()):,} have no value"] if not shown.all() else []),
            *(["open markers have not converged"] if not rumap.converged.all() else []),
        ]
        self.show_choice(max_risk, choice)

    def _frontier_source(self, rumap: RUMap, case: RUMap | None) -> None:
        """The frontier, of the worst case where there are several users; the worst case itself is a dotted line."""
        self.front.data, self.worst.data = self._point_source([], []), self._point_source([], [])
        if case is None:
            return
        order = np.argsort(case.utility, kind="stable")
        x, y = case.utility[order], case.risk[order]
        on = not_dominated(y, x) & np.isfinite(x) & np.isfinite(y)
        self.front.data = self._point_source(x[on], y[on])
        if rumap.user_names:
            self.worst.data = self._point_source(x, y)

    def show_choice(self, max_risk: float, choice: Choice | None, move: bool = True) -> None:
        """Move the threshold and the star."""
        at = float(self.place("y", max_risk))
        if move and np.isfinite(at) and at != self.grip.location:
            self.grip.location = self.rule.location = at
        self.star.data = (
            self._point_source([], []) if choice is None else self._point_source([choice.utility], [choice.risk])
        )

    def look_at(self, rumap: RUMap, row: int | None) -> None:
        """Put the ring around the release that the reader looks at."""
        rows = np.array([] if row is None else [row], dtype=int)
        rows = rows[~np.isnan(rumap.utility[rows] + rumap.risk[rows])]
        self.ring.data = self._point_source(rumap.utility[rows], rumap.risk[rows])

    def _point_source(self, utility: ArrayLike, risk: ArrayLike) -> dict[str, list[float]]:
        return {"x": self.place("x", utility).tolist(), "y": self.place("y", risk).tolist()}


def explain_releases(rumap: RUMap) -> list[str]:
    """Of every release whether it is on the frontier, or which one dominates it: no riskier, and more useful.

    >>> explain_releases(RUMap.build(labels=["a", "b", "c"], intruder=[2, 2, 1], scientist=[0.5, 1, 0.25]))
    ['On the frontier: nothing else is as safe and more useful.', 'Dominated by a, which is as safe and more useful.', \
'On the frontier: nothing else is as safe and more useful.']
    """
    users = np.array(rumap.columns["user"]) if rumap.user_names else np.zeros(len(rumap))
    found = ["" for _ in range(len(rumap))]
    for user in dict.fromkeys(users.tolist()):
        rows = np.flatnonzero(users == user)
        risk, utility = rumap.risk[rows], rumap.utility[rows]
        best = not_dominated(risk, utility)
        front = np.flatnonzero(best)
        front = front[np.argsort(risk[front], kind="stable")]
        for i in np.flatnonzero(~np.isnan(risk) & ~np.isnan(utility)):
            if best[i]:
                found[rows[i]] = "On the frontier: nothing else is as safe and more useful."
                continue
            # The most useful of those that are no riskier.
            j = front[max(int(np.searchsorted(risk[front], risk[i], side="right")) - 1, 0)]
            gains = [
                w for w, better in (("safer", risk[j] < risk[i]), ("more useful", utility[j] > utility[i])) if better
            ]
            words = (
                " and ".join(gains)
                if len(gains) != 1
                else f"as useful and {gains[0]}"
                if gains[0] == "safer"
                else f"as safe and {gains[0]}"
            )
            found[rows[i]] = f"Dominated by {clean_text(rumap.releases[rows[j]])}, which is {words}."
    return found


# -- beliefs -------------------------------------------------------------------------------------------


class BeliefDrawing(Drawing):
    """What a user believes: prior dashed, posterior filled, estimate a line, truth a diamond.

    Densities are differences of distribution functions, which every posterior of the package has.
    """

    def __init__(self, dark: bool, colour: int) -> None:
        super().__init__(dark, 210, x_range=Range1d(0, 1), y_range=Range1d(0, 1), tools=[])
        f, self.first = self.figure, colour
        self.after, self.before = self.source("xs", "ys", "colour"), self.source("xs", "ys", "colour")
        self.ticks, self.truth = self.source("x", "y", "colour"), self.source("x", "y", "colour")
        f.patches("xs", "ys", source=self.after, fill_color="colour", line_color="colour", fill_alpha=0.3, line_width=2)
        f.multi_line("xs", "ys", source=self.before, line_color="colour", line_dash=[5, 3], line_width=1.5)
        f.segment("x", 0, "x", "y", source=self.ticks, line_color="colour", line_width=2.5)
        f.scatter("x", "y", source=self.truth, marker="diamond", size=13, line_color=self.look.ink, fill_color="colour")
        f.yaxis.visible = f.ygrid.visible = False

    def show(self, belief: BeliefView) -> None:
        """Draw a user's belief; nothing if there is no law to draw."""
        laws = [law for law in belief.laws if law.posterior is not None]
        self.figure.visible = bool(laws)
        if not laws:
            return
        low, high = _axis_limits(laws)
        shapes = [
            (_outline_of_law(law.posterior, law, low, high), _outline_of_law(law.prior, law, low, high)) for law in laws
        ]
        top = max([float(np.max(after[1])) for after, _ in shapes if after is not None] or [1.0]) * 1.08 or 1.0
        sheets: dict[str, list[tuple[object, object, str]]] = {"after": [], "before": [], "ticks": [], "truth": []}

        for k, (law, (after, before)) in enumerate(zip(laws, shapes, strict=True)):
            colour = self.look.colours[(self.first + k) % 8]
            if after is not None:
                sheets["after"].append(([after[0][0], *after[0], after[0][-1]], [0.0, *after[1], 0.0], colour))
            if before is not None:
                sheets["before"].append((before[0].tolist(), before[1].tolist(), colour))
            if law.estimate is not None and math.isfinite(law.estimate):
                sheets["ticks"].append((law.estimate, 0.9 * top, colour))
            if law.truth is not None:
                sheets["truth"].append((law.truth, 0.04 * top, colour))
        for source, drawn in zip((self.after, self.before, self.ticks, self.truth), sheets.values(), strict=True):
            source.data = {name: [mark[i] for mark in drawn] for i, name in enumerate(source.data)}
        self.figure.x_range.update(start=low, end=high)
        self.figure.y_range.update(start=0, end=top)
        names = f" ({', '.join(law.name for law in laws)})" if len(laws) > 1 else ""
        self.figure.xaxis[0].axis_label = belief.title + names


def _axis_limits(laws: Sequence[LawView]) -> tuple[float, float]:
    """Room for the posterior, for its estimate and the truth, and for the prior as far as it is not much wider."""
    ends = []
    for law in laws:
        low, high = _span_of_law(law.posterior, law) or (math.nan, math.nan)
        if math.isnan(low) and law.estimate is not None:
            low, high = law.estimate - 1e-9, law.estimate + 1e-9
        prior = _span_of_law(law.prior, law)
        if prior is not None:
            middle = (low + high) / 2
            # A known answer has no width: then the prior alone says how wide the sheet is.
            reach = WIDEST / 2 * (high - low) if high - low > 1e-6 * (prior[1] - prior[0]) else math.inf
            low, high = min(low, max(prior[0], middle - reach)), max(high, min(prior[1], middle + reach))
        marks = [v for v in (law.estimate, law.truth) if v is not None and math.isfinite(v)]
        ends.append((min([low, *marks]), max([high, *marks])))
    low, high = float(np.nanmin(ends)), float(np.nanmax(ends))
    if high - low <= 1e-6 * max(abs(low), abs(high), 1e-12):
        low, high = low - 1.0, high + 1.0
    return low - 0.03 * (high - low), high + 0.03 * (high - low)


def _span_of_law(law: Drawable | None, of: LawView) -> tuple[float, float] | None:
    if law is None:
        return None
    mean, var = (float(np.ravel(v)[of.component or 0]) for v in (law.mean(), law.var()))
    if not math.isfinite(mean) or not math.isfinite(var):
        return None
    return mean - REACH * math.sqrt(var), mean + REACH * math.sqrt(var)


def _outline_of_law(law: Drawable | None, of: LawView, low: float, high: float) -> tuple[Array, Array] | None:
    """Places and heights of a law; None for one without a density here (a flat prior, a known value)."""
    span = _span_of_law(law, of)
    if law is None or span is None or span[1] - span[0] <= 1e-9 * (high - low):
        return None
    drawn = isinstance(law, Drawn)
    edges = np.linspace(low, high, 37 if drawn else 161)
    if span[1] - span[0] < 0.3 * (high - low) and not drawn:
        # A sharp law needs points where it is.
        edges = np.union1d(edges, np.linspace(max(span[0], low), min(span[1], high), 160))
    support = law.support
    if support is not None and len(support) <= 60 and not drawn:
        at = np.unique(np.asarray(support if of.component is None else support[:, of.component], dtype=float))
        half = 0.3 * float(np.min(np.diff(at))) if at.size > 1 else 0.01 * (high - low)
        mass = _component_cdf(law, of, at + 1e-9 * half) - _component_cdf(law, of, at - 1e-9 * half)
        # Each bar up, across and down again.
        corners = at[:, None] + half * np.array([-1, -1, 1, 1])
        return corners.ravel(), (mass[:, None] * np.array([0.0, 1.0, 1.0, 0.0])).ravel()
    height = np.maximum(np.diff(_component_cdf(law, of, edges)) / np.diff(edges), 0.0)
    if drawn:
        return np.repeat(edges, 2)[1:-1], np.repeat(height, 2)
    return (edges[1:] + edges[:-1]) / 2, height


def _component_cdf(law: Drawable, of: LawView, at: Array) -> Array:
    if of.component is None:
        return np.asarray(law.cdf(np.asarray(at, dtype=float)))
    return np.asarray(law.cdf(np.repeat(np.asarray(at, dtype=float)[:, None], law.event[0], axis=1)))[:, of.component]
