"""Scales, ticks and SVG text for the page's own drawings, which are made on the server and styled by the page."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from numpy.typing import ArrayLike

from ..maps.show import clean, number
from ..protocols import Array


@dataclass(frozen=True)
class Scale:
    """Places on a drawing for values between two limits, linear or logarithmic.

    >>> float(Scale(0.0, 10.0, 100.0, 200.0)(5.0))
    150.0
    """

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    @classmethod
    def fit(cls, values: ArrayLike, start: float, stop: float, *, wide: float = 1000.0, room: float = 0.06) -> Scale:
        """A scale with some room about the finite values, logarithmic where they range over a factor of ``wide``."""
        known = np.asarray(values, dtype=float)
        infinite = bool(np.any(np.isinf(known)))
        known = known[np.isfinite(known)]
        if known.size == 0:
            return cls(0.0, 1.0, start, stop)
        low, high = float(known.min()), float(known.max())
        # An infinite value makes the other end the interesting one, as in `plots`.
        if low > 0 and high > (wide / 10 if infinite else wide) * low:
            margin = 10 ** (room * max(math.log10(high / low), 0.1))
            return cls(low / margin, high * margin, start, stop, True)
        span = high - low
        if span <= 1e-9 * max(abs(low), abs(high)):
            span = abs(high) or 1.0
        return cls(low - room * span, high + room * span, start, stop)

    def __call__(self, values: ArrayLike, *, beyond: bool = False) -> Array:
        """The places of values. What lies beyond the limits stands at the ends, unless it may stand ``beyond`` them."""
        at = np.asarray(values, dtype=float)
        if self.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                share = (np.log(np.maximum(at, 0.0)) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        else:
            share = (at - self.low) / (self.high - self.low)
        # Far enough outside is as good as farther, and a drawing cannot hold infinity.
        reach = 3.0 if beyond else 0.0
        return np.asarray(self.start + (self.stop - self.start) * np.clip(share, -reach, 1.0 + reach))

    def ticks(self, most: int) -> list[float]:
        """Round values inside the limits, at most about ``most`` of them.

        >>> Scale(0.0, 1.0, 0, 1).ticks(5)
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        """
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            for inside in ((1, 2, 5), (1, 3), (1,)):
                found = [
                    m * 10.0**e for e in range(first, last + 1) for m in inside if self.low <= m * 10.0**e <= self.high
                ]
                if len(found) <= most + 1:
                    break
            step = max(1, math.ceil(len(found) / (most + 1)))
            if len(found) >= 2:
                return found[::step]
        raw = (self.high - self.low) / max(most, 1)
        power = 10.0 ** math.floor(math.log10(raw))
        step_size = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999999)
        first_tick = math.ceil(self.low / step_size - 1e-9)
        last_tick = math.floor(self.high / step_size + 1e-9)
        return [float(f"{i * step_size:.15g}") for i in range(first_tick, last_tick + 1)]


class Sheet:
    """An SVG drawing that grows element by element.

    Every text is escaped here; looks come from the page's style sheet.
    """

    def __init__(self, width: float, height: float, words: str) -> None:
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" '
            f'role="img" aria-label={_attribute(words)}>'
        ]

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """A straight line."""
        self.parts.append(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def frame(self, x: float, y: float, width: float, height: float) -> None:
        """A window: what is drawn until `unframe` shows inside it only."""
        self.parts.append(
            f'<clipPath id="frame"><rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/></clipPath>'
        )
        self.parts.append('<g clip-path="url(#frame)">')

    def unframe(self) -> None:
        """The end of the window."""
        self.parts.append("</g>")

    def path(self, x: ArrayLike, y: ArrayLike, kind: str, *, closed: bool = False) -> None:
        """A line through points, or the area inside them."""
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(np.ravel(x).tolist(), np.ravel(y).tolist(), strict=True))
        self.parts.append(f'<{"polygon" if closed else "polyline"} class="{kind}" points="{points}"/>')

    def rectangle(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """A rectangle."""
        self.parts.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"/>'
        )

    def mark(self, x: float, y: float, kind: str, shape: str, size: float = 5.0) -> None:
        """A marker: "o", "s", "D", "v", "^", "<", ">", "+" or "*"."""
        if shape == "o":
            self.parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{size:g}"/>')
            return
        corners = SHAPES[shape]
        points = " ".join(f"{x + size * a:.1f},{y + size * b:.1f}" for a, b in corners)
        self.parts.append(f'<polygon class="{kind}" points="{points}"/>')

    def text(self, x: float, y: float, words: str, kind: str, anchor: str = "start", turn: bool = False) -> None:
        """A text; ``turn`` writes it upwards."""
        turned = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
        self.parts.append(
            f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turned}>{escape(clean(words))}</text>'
        )

    def axis(self, scale: Scale, at: float, across: tuple[float, float], most: int, *, upright: bool = False) -> None:
        """Ticks with their values and a light grid."""
        ticks = scale.ticks(most)
        for value, words in zip(ticks, labels(ticks), strict=True):
            place = float(scale(value))
            if upright:
                self.line(across[0], place, across[1], place, "grid")
                self.text(at - 6, place + 4, words, "tick", "end")
            else:
                self.line(place, across[0], place, across[1], "grid")
                self.text(place, at + 16, words, "tick", "middle")

    def done(self) -> str:
        """The drawing as text."""
        return "".join(self.parts) + "</svg>"


def _star() -> list[tuple[float, float]]:
    turns = [(i * math.pi / 5, 1.0 if i % 2 == 0 else 0.42) for i in range(10)]
    return [(r * math.sin(a), -r * math.cos(a)) for a, r in turns]


SHAPES: dict[str, list[tuple[float, float]]] = {
    "s": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    "D": [(0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)],
    "v": [(-1, -0.8), (1, -0.8), (0, 1)],
    "^": [(-1, 0.8), (1, 0.8), (0, -1)],
    "<": [(0.8, -1), (0.8, 1), (-1, 0)],
    ">": [(-0.8, -1), (-0.8, 1), (1, 0)],
    "+": [(-0.35, -1), (0.35, -1), (0.35, -0.35), (1, -0.35), (1, 0.35), (0.35, 0.35), (0.35, 1), (-0.35, 1),
          (-0.35, 0.35), (-1, 0.35), (-1, -0.35), (-0.35, -0.35)],
    "*": _star(),
}  # fmt: skip


def labels(ticks: Sequence[float]) -> list[str]:
    """Values of ticks with no more digits than it takes to tell them apart.

    >>> labels([0.0, 0.25, 0.5]), labels([1e-7, 2e-7])
    (['0', '0.25', '0.5'], ['1e−7', '2e−7'])
    """
    found: list[str] = []
    for digits in (4, 6, 9, 12, 15):
        found = [number(t, digits) for t in ticks]
        if len(set(found)) == len(found) and all(float(f"{t:.{digits}g}") == t for t in ticks):
            break
    return [re.sub(r"e([+−])0*(\d)", lambda m: f"e{m[1].replace('+', '')}{m[2]}", text) for text in found]


def _attribute(words: str) -> str:
    return quoteattr(clean(words), {'"': "&quot;"})
