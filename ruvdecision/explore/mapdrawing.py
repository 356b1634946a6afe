"""The map as the page draws it: utility to the right, risk upwards, the frontier, the threshold and the choice.

`ruvdecision.plots.map` makes the picture for papers; this one is made anew at every move of a slider, so it is plain
SVG, it takes its colours from the page (light or dark), and it says where every release lies, so that a pointer can
find it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..decide import not_dominated
from ..maps.rumap import RUMap
from ..maps.scores import Column
from ..maps.show import number
from ..protocols import Array
from .axes import Scale, Sheet

Positions = NDArray[np.intp]
Shown = NDArray[np.bool_]
MARKERS = ("o", "s", "D", "v", "+", "^")
#: The page's style sheet has so many colours; further series begin again with another marker.
COLOURS = 7
DASHES = 4
#: Series with more releases than this are a line without markers.
DENSE = 40
#: A legend with more series than this cannot be read; all releases are then one.
MOST_SERIES = 20


@dataclass(frozen=True)
class Series:
    """Releases of one technique: their rows, joined by a line if one number alone varies among them."""

    name: str
    rows: Positions
    line: bool
    colour: int
    marker: str
    dash: int = 0
    """Lines differ in their dashes too, so that one on top of another does not hide it."""


@dataclass(frozen=True)
class Drawing:
    """A drawn map: the SVG, the place of every release that has one, the legend, and remarks on what is not plain."""

    svg: str
    points: list[list[float]]
    legend: list[dict[str, str]]
    remarks: list[str]


def series_of(rumap: RUMap) -> list[Series]:
    """Split a map into what is drawn in one colour.

    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.0], scientist=[0.5, 0.25])
    >>> [s.name for s in series_of(rumap)]
    ['a', 'b']
    """
    members: dict[str, list[int]] = {}
    for i, name in enumerate(rumap.techniques):
        members.setdefault(name, []).append(i)
    groups = {name: np.array(rows) for name, rows in members.items()}
    if len(groups) > MOST_SERIES:
        groups = {f"{len(groups)} techniques": np.arange(len(rumap))}
    parts: list[tuple[str, Positions, bool]] = []
    for name, rows in groups.items():
        varying = {k: v[rows] for k, v in rumap.parameters.items() if len({str(x) for x in v[rows].tolist()}) > 1}
        words = {k: v for k, v in varying.items() if v.dtype.kind not in "biuf"}
        numbers = {k: v.astype(float) for k, v in varying.items() if k not in words}
        if len(words) == 1 and len({str(x) for x in next(iter(words.values())).tolist()}) <= 6:
            ((key, texts),) = words.items()
            for text in dict.fromkeys(texts.tolist()):
                inside = texts == text
                parts.append(
                    (f"{name}, {key} {text}", *_joined(rows[inside], {k: v[inside] for k, v in numbers.items()}))
                )
        else:
            parts.append((name, *_joined(rows, {} if words else numbers)))
    lines = np.cumsum([line for _, _, line in parts]) - 1
    return [
        Series(
            name, rows, line, i % COLOURS, MARKERS[(i + i // COLOURS) % len(MARKERS)], max(int(lines[i]), 0) % DASHES
        )
        for i, (name, rows, line) in enumerate(parts)
    ]


def _joined(rows: Positions, numbers: dict[str, Array]) -> tuple[Positions, bool]:
    """Rows in the order of the one number that varies among them, and whether there is one."""
    varying = [v for v in numbers.values() if len(set(v.tolist())) > 1]
    if len(varying) != 1 or np.isnan(varying[0]).any():
        return rows, False
    return rows[np.argsort(varying[0], kind="stable")], True


def draw_map(
    rumap: RUMap, max_risk: float, chosen: int | None, looked: int | None, width: float, words: str
) -> Drawing:
    """Draw a map.

    Parameters
    ----------
    rumap : RUMap
        The map.
    max_risk : float
        The threshold.
    chosen, looked : int, optional
        Rows of the chosen release and of the one that the reader looks at.
    width : float
        Width of the drawing in pixels; the height follows.
    words : str
        What the drawing shows, for somebody who cannot see it.
    """
    height = round(min(max(0.6 * width, 270), 400))
    left, right, top, bottom = 52.0, width - 12.0, 14.0, height - 46.0
    x, y = rumap.utility, rumap.risk
    shown = ~(np.isnan(x) | np.isnan(y))
    # What nobody would choose must not press the rest to the ground: it may run out of the picture at the top.
    inside = shown & (np.isinf(y) | (y <= _ceiling(x, y, shown, max_risk)))
    across = Scale.fit(x[shown], left, right)
    # The choice is made along this axis, at the threshold, so its low end must not be lost.
    up = Scale.fit(np.append(y[inside], max_risk), bottom, top, wide=40)
    sheet = Sheet(width, height, words)
    sheet.axis(across, bottom, (top, bottom), max(3, int(width / 110)))
    sheet.axis(up, left, (left, right), 5 if height < 320 else 6, upright=True)
    sheet.rectangle(left, top, right - left, float(up(max_risk)) - top, "forbidden")
    sheet.line(left, bottom, right, bottom, "axis")
    sheet.line(left, top, left, bottom, "axis")
    measured = isinstance(rumap.utility_score, Column), isinstance(rumap.risk_score, Column)
    sheet.text(
        (left + right) / 2,
        height - 8,
        f"utility{f' ({rumap.utility_score.name})' if measured[0] else ''} better →",
        "label",
        "middle",
    )
    sheet.text(
        13,
        (top + bottom) / 2,
        f"risk{f' ({rumap.risk_score.name})' if measured[1] else ''} ← better",
        "label",
        "middle",
        turn=True,
    )
    px, py = across(x), up(y)
    _frontier(sheet, x, y, px, py, shown)
    legend = []
    # Markers at the ends of the axes stay whole.
    sheet.frame(left, top - 7, right - left + 7, bottom - top + 14)
    for one in series_of(rumap):
        rows = one.rows[shown[one.rows]]
        if rows.size == 0:
            continue
        legend.append({"name": one.name, "svg": _swatch(one, rows.size)})
        _draw_series(sheet, rumap, one, rows, across, up)
    sheet.unframe()
    threshold = float(up(max_risk))
    sheet.line(left, threshold, right, threshold, "threshold")
    _name_threshold(
        sheet, f"threshold {number(max_risk, 4)}", (left, right), threshold, (top, bottom), _ink(rumap, px, py, inside)
    )
    if chosen is not None and shown[chosen]:
        sheet.mark(float(px[chosen]), float(py[chosen]), "chosen", "*", 11)
    if looked is not None and shown[looked]:
        sheet.mark(float(px[looked]), float(py[looked]), "looked", "o", 9 if looked != chosen else 14)
    places = np.column_stack([np.round(px, 1), np.round(py, 1)])
    points = [[float(a), float(b), i] for i, (a, b) in enumerate(places.tolist()) if inside[i]]
    return Drawing(sheet.done(), points, legend, _remarks(rumap, shown, inside))


def _swatch(one: Series, size: int) -> str:
    sheet = Sheet(26, 14, one.name)
    if one.line and size > 1:
        sheet.path([1, 25], [7, 7], f"curve c{one.colour} l{one.dash}")
    if not one.line or size <= DENSE:
        sheet.mark(13, 7, f"dot c{one.colour}", one.marker, 5 if size <= 3 else 3.5)
    return sheet.done()


def _ceiling(x: Array, y: Array, shown: Shown, max_risk: float) -> float:
    """The highest risk that the picture shows: all, unless it dwarfs the frontier and the threshold."""
    known = y[shown & np.isfinite(y)]
    front = y[not_dominated(y, x) & shown & np.isfinite(y)]
    if known.size == 0 or front.size == 0 or known.min() < 0:
        return float("inf")
    needed = 1.3 * max(float(front.max()), max_risk)
    return needed if needed > 0 and known.max() > 3 * needed else float("inf")


def _ink(rumap: RUMap, px: Array, py: Array, inside: Shown) -> Array:
    """Places that a text should not cover: releases, and the lines between them."""
    places = [np.column_stack([px[inside], py[inside]])]
    for one in series_of(rumap):
        rows = one.rows[inside[one.rows] & np.isfinite(rumap.risk[one.rows])]
        if one.line and rows.size > 1:
            steps = np.linspace(0, rows.size - 1, 6 * rows.size)
            places.append(np.column_stack([np.interp(steps, np.arange(rows.size), at[rows]) for at in (px, py)]))
    return np.concatenate(places)


def _name_threshold(
    sheet: Sheet, words: str, ends: tuple[float, float], at: float, sides: tuple[float, float], ink: Array
) -> None:
    """Write beside the line, above it if there is a choice, where it covers least."""
    width = 7.0 * len(words)
    best: tuple[int, float, float] | None = None
    for y in (at - 5, at + 14):
        if not sides[0] + 10 < y < sides[1] - 2:
            continue
        for start in np.linspace(ends[0] + 6, max(ends[1] - width - 4, ends[0] + 6), 9):
            near = (
                (ink[:, 0] > start - 8) & (ink[:, 0] < start + width + 8) & (ink[:, 1] > y - 17) & (ink[:, 1] < y + 7)
            )
            found = (int(near.sum()), float(start), y)
            if best is None or found[0] < best[0]:
                best = found
    if best is not None:
        sheet.text(best[1], best[2], words, "note")


def _draw_series(sheet: Sheet, rumap: RUMap, one: Series, rows: Positions, across: Scale, up: Scale) -> None:
    colour = f"c{one.colour}"
    px, py = across(rumap.utility), up(rumap.risk, beyond=True)
    finite = rows[np.isfinite(rumap.utility[rows]) & np.isfinite(rumap.risk[rows])]
    for errors, scale, along in ((rumap.utility_error, across, True), (rumap.risk_error, up, False)):
        values = rumap.utility if along else rumap.risk
        for i in finite[(errors[finite] > 0) & np.isfinite(errors[finite])][:300].tolist():
            a, b = float(scale(values[i] - errors[i])), float(scale(values[i] + errors[i]))
            ends = (a, float(py[i]), b, float(py[i])) if along else (float(px[i]), a, float(px[i]), b)
            sheet.line(*ends, f"bar {colour}")
    if one.line and finite.size > 1:
        sheet.path(px[finite], py[finite], f"curve {colour} l{one.dash}")
    for i in finite.tolist():
        if not rumap.converged[i]:
            sheet.mark(float(px[i]), float(py[i]), f"open {colour}", one.marker, 5)
        elif finite.size <= DENSE or not one.line:
            sheet.mark(float(px[i]), float(py[i]), f"dot {colour}", one.marker, 5 if finite.size <= 3 else 2.5)
    for i in np.setdiff1d(rows, finite).tolist():
        shape = {np.inf: "^", -np.inf: "v"}.get(float(rumap.risk[i]), ">" if rumap.utility[i] > 0 else "<")
        sheet.mark(float(px[i]), float(up(rumap.risk[i])), f"dot {colour}", shape, 6)


def _frontier(sheet: Sheet, x: Array, y: Array, px: Array, py: Array, shown: Shown) -> None:
    """A staircase: more utility than one release needs the risk of the next."""
    rows = np.flatnonzero(not_dominated(y, x) & shown & np.isfinite(x) & np.isfinite(y))
    rows = rows[np.lexsort((y[rows], x[rows]))]
    if rows.size == 0:
        return
    if rows.size == 1:
        sheet.mark(float(px[rows[0]]), float(py[rows[0]]), "front-dot", "o", 9)
        return
    xs, ys = [float(px[rows[0]])], [float(py[rows[0]])]
    for i in rows[1:].tolist():
        gaps = sorted((abs(float(px[i]) - xs[-1]), abs(float(py[i]) - ys[-1])))
        # Points that are close are joined directly, which looks the same and draws smoothly.
        if gaps[0] > 2 and gaps[1] > 24:
            xs.append(xs[-1])
            ys.append(float(py[i]))
        xs.append(float(px[i]))
        ys.append(float(py[i]))
    sheet.path(xs, ys, "front")


def _remarks(rumap: RUMap, shown: Shown, inside: Shown) -> list[str]:
    remarks = []
    above = int(np.sum(shown & ~inside))
    if above:
        remarks.append(f"{above} of {len(rumap)} releases are riskier than the picture is high.")
    if np.any(shown & (np.isinf(rumap.risk) | np.isinf(rumap.utility))):
        remarks.append("A triangle at the edge is infinite.")
    if np.any(~rumap.converged[shown]):
        remarks.append("An open marker has not converged.")
    if np.any((rumap.risk_error[shown] > 0) | (rumap.utility_error[shown] > 0)):
        remarks.append("Bars are one standard error.")
    gone = int(np.sum(~shown))
    if gone:
        remarks.append(f"{gone} of {len(rumap)} releases have no value and are not drawn.")
    return remarks
