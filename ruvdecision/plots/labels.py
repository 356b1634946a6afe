"""Finding free places for texts on a drawing. All measures are in pixels of the settled layout."""

from __future__ import annotations

from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..protocols import Array
from .theme import LIGHT, Look, Style, as_literal_text, figure_of, look_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation


class Labeller:
    """Places texts so that they cover neither points, nor lines, nor each other, nor leave the axes."""

    def __init__(self, ax: Axes, x: Array, y: Array) -> None:
        self.ax = ax
        self.look = look_of(ax)
        box = ax.get_window_extent()
        self.frame = (box.x0 + 1, box.y0 + 1, box.x1 - 1, box.y1 - 1)
        self.dots = ax.transData.transform(np.column_stack([x, y])).reshape(-1, 2)
        self.boxes: list[tuple[float, float, float, float]] = []
        self.scale = figure_of(ax).dpi / 72.0

    def keep_clear(self, x: Array, y: Array) -> None:
        """Keep texts off the line through these points (given in data units), not only off the points."""
        path = self.ax.transData.transform(np.column_stack([x, y]))
        path = path[np.isfinite(path).all(axis=1)]
        if len(path) > 1:
            self.dots = np.concatenate([self.dots, points_along_path(path, np.arange(0, path_lengths(path)[-1], 4.0))])

    def write_beside(self, text: str, path: Array, i: int, colour: str) -> bool:
        """Write a parameter value beside point ``i`` of a curve, across its direction; False if there is no room."""
        along, across = _along_and_across(path, i, 1)
        sides = [across, -across, across + along, across - along, -across + along, -across - along]
        note = self._new_text(text, self._to_data(path[i]), fontsize="x-small", color=text_colour(colour, self.look))
        for reach, side in product((9, 14), sides):
            if self._try_place(note, path[i], side / np.hypot(*side), reach):
                return True
        note.remove()
        return False

    def write_along(self, text: str, path: Array, colour: str) -> bool:
        """Write a name beside a curve, near its middle if there is room; False if there is none."""
        ink = colour if self.look is LIGHT else text_colour(colour, self.look)
        note = self._new_text(text, self._to_data(path[0]), fontsize="small", color=ink, fontweight="bold")
        for reach in (5, 9, 14):
            for share in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9, 0.03, 0.97):
                i = round(share * (len(path) - 1))
                _, across = _along_and_across(path, i, 2)
                for side in (across, -across):
                    note.xy = self._to_data(path[i])
                    if self._try_place(note, path[i], side, reach):
                        return True
        note.remove()
        return False

    def call_out(self, text: str, x: float, y: float) -> None:
        """Write a boxed text with a thin arrow to its point; it is always written, at the emptiest place."""
        point = self.ax.transData.transform((x, y))
        box = {"boxstyle": "round,pad=0.35", "fc": self.look.paper, "ec": self.look.soft, "lw": 0.8}
        arrow = {"arrowstyle": "-", "color": self.look.soft, "lw": 0.8, "shrinkB": 7}
        style: Style = {"fontsize": "small", "color": self.look.ink, "bbox": box, "arrowprops": arrow, "zorder": 8}
        note = self._new_text(text, (x, y), **style)
        angles = np.deg2rad([-45, -20, -70, 135, 160, 110, 20, 45, 70, -110, -135, -160, 0, 90, 180, 270])
        least, place = np.inf, (np.array([0.7, -0.7]), 24)
        for reach, angle in product((24, 40, 60, 90, 130, 180), angles):
            direction = np.array([np.cos(angle), np.sin(angle)])
            cost = self._covered_area(self._move_text(note, point, direction, reach))
            if cost < least:
                least, place = cost, (direction, reach)
            if cost == 0:
                break
        box_at = self._move_text(note, point, *place)
        self.boxes.append(box_at)
        half = 11 * self.scale  # other texts keep off the point itself
        self.boxes.append((point[0] - half, point[1] - half, point[0] + half, point[1] + half))
        centre = np.array([(box_at[0] + box_at[2]) / 2, (box_at[1] + box_at[3]) / 2])
        self.dots = np.concatenate([self.dots, np.linspace(point, centre, 40)])

    def on_line(self, text: str, y: float) -> None:
        """Write a text just above or below a horizontal line, where nothing is."""
        level = self.ax.transData.transform((self.ax.get_xlim()[0], y))[1]
        within: Style = {"xycoords": ("axes fraction", "data"), "fontsize": "small", "color": self.look.soft}
        note = self._new_text(text, (0, y), **within)
        left, right, width = self.frame[0], self.frame[2], note.get_window_extent().width

        def put(up: float, share: float) -> tuple[float, float, float, float]:
            x = left + 4 + share * (right - left - width - 8) + width / 2
            return self._move_text(note, np.array([x, level]), np.array([0.0, up]), 3, origin=left - 1)

        shares = (1.0, 0.0, 0.5, 0.75, 0.25, 0.875, 0.625, 0.375, 0.125)
        cost, place = min(((self._covered_area(put(*p)), p) for p in product((1.0, -1.0), shares)), key=itemgetter(0))
        if not np.isfinite(cost):
            note.remove()
            return
        self.boxes.append(put(*place))
        across = np.arange(self.frame[0], self.frame[2], 4.0)
        self.dots = np.concatenate([self.dots, np.column_stack([across, np.full(across.size, level)])])

    def _new_text(self, text: str, at: tuple[float, float], **style: Any) -> Annotation:
        """A text at a point, to be moved from there."""
        common: Style = {"xytext": (0, 0), "textcoords": "offset points", "zorder": 7, "in_layout": False}
        return self.ax.annotate(as_literal_text(text), at, **(common | style))

    def _to_data(self, pixel: Array) -> tuple[float, float]:
        x, y = self.ax.transData.inverted().transform(pixel)
        return x, y

    def _try_place(self, note: Annotation, point: Array, direction: Array, reach: float) -> bool:
        box = self._move_text(note, point, direction, reach)
        if self._covered_area(box) > 0:
            return False
        self.boxes.append(box)
        return True

    def _move_text(
        self, note: Annotation, point: Array, direction: Array, reach: float, origin: float | None = None
    ) -> tuple[float, float, float, float]:
        """Move a text so that its near edge is ``reach`` points from the point, and return its box."""
        from matplotlib.text import Text

        size = Text.get_window_extent(note)  # without the arrow, whose length depends on where the text stands
        pad = 2 * 0.35 * float(note.get_fontsize()) * self.scale if note.get_bbox_patch() else 0.0
        half = (np.array([size.width, size.height]) + pad) / 2
        aside = np.sign(np.round(direction, 6)) * half * np.minimum(1.0, np.abs(direction) * 1.4142136)
        centre = point + direction * reach * self.scale + aside
        anchor = np.array([point[0] if origin is None else origin, point[1]])
        note.set_position(tuple((centre - anchor) / self.scale))
        note.set(ha="center", va="center")
        return (centre[0] - half[0], centre[1] - half[1], centre[0] + half[0], centre[1] + half[1])

    def _covered_area(self, box: tuple[float, float, float, float]) -> float:
        """Infinite outside the axes; otherwise how much is covered, texts counting more than points."""
        x0, y0, x1, y1 = box
        fx0, fy0, fx1, fy1 = self.frame
        if x0 < fx0 or y0 < fy0 or x1 > fx1 or y1 > fy1:
            return np.inf
        pad = 3.0
        inside = (self.dots > [x0 - pad, y0 - pad]) & (self.dots < [x1 + pad, y1 + pad])
        dots = np.sum(inside.all(axis=1))
        texts = sum(min(x1, b[2]) + 2 > max(x0, b[0]) and min(y1, b[3]) + 2 > max(y0, b[1]) for b in self.boxes)
        return float(dots + 1000 * texts)


def _along_and_across(path: Array, i: int, step: int) -> tuple[Array, Array]:
    """Along a path at one of its points, and across it."""
    a, b = path[max(i - step, 0)], path[min(i + step, len(path) - 1)]
    length = np.hypot(*(b - a))
    # Neighbours may coincide on the page; then any direction is as good as another.
    along = (b - a) / length if length > 0 else np.array([1.0, 0.0])
    return along, np.array([-along[1], along[0]])


def path_lengths(path: Array) -> Array:
    """How far along a path each of its points is."""
    return np.concatenate([[0], np.cumsum(np.hypot(*np.diff(path, axis=0).T))])


def points_along_path(path: Array, at: Array) -> Array:
    """The points of a path so far along it."""
    length = path_lengths(path)
    return np.column_stack([np.interp(at, length, path[:, j]) for j in (0, 1)])


def pick_spread_points(path: ArrayLike, values: ArrayLike, most: int = 6, apart: float = 45.0) -> list[int]:
    """Pick up to ``most`` points of a curve, spread along its drawn length, with values that are short to write.

    Both ends come first if the curve is long enough; neighbours are at least ``apart`` pixels from each other.
    """
    points, at = np.asarray(path, dtype=float), np.asarray(values, dtype=float)
    length = path_lengths(points)
    count = int(np.clip(length[-1] // (1.6 * apart) + 1, 1, most))
    window = 0.4 * length[-1] / (count - 1) if count > 1 else 0.4 * length[-1]
    chosen: list[int] = []
    for mark in np.linspace(0, length[-1], count) if count > 1 else [length[-1] / 2]:
        distance = np.abs(length - mark)
        near = np.flatnonzero(distance <= max(window, float(distance.min())))
        # Prefer 2 or 10 to 1.9307: a reader remembers round values.
        digits = {j: f"{at[j]:.3e}".partition("e")[0].replace(".", "").rstrip("0") for j in near}
        for i in sorted(near, key=lambda j: (len(digits[j]), distance[j])):
            if all(np.hypot(*(points[i] - points[j])) >= apart for j in chosen):
                chosen.append(int(i))
                break
    return chosen


def text_colour(colour: str, look: Look) -> tuple[float, ...]:
    """A colour for small text, which needs more contrast with the paper than a line does."""
    from matplotlib.colors import to_rgb

    return tuple(0.68 * c if look is LIGHT else 0.35 + 0.65 * c for c in to_rgb(colour))
