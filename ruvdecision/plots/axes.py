"""What an axis shows: one rule for every picture of a map.

An axis shows the region of decision: threshold, frontier and choice, and the other releases as far as they do not press
that region into a corner; how many lie outside is said. It is logarithmic only where a ratio means something (values of
one unit, all of them above zero) and the region spans more than a factor of `LOG_FROM`. A measure between 0 and 1 keeps
these ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from ..maps.scores import Column, Score
from ..protocols import Array

LOG_FROM = 30.0
"""Positive values that span more than this factor are drawn on a logarithmic axis."""
ROUNDING = 1e-12
"""Values below this share of the largest are rounding, and count as zero."""
CORNER = 0.15
"""If the region of decision takes less than this share of an axis, the axis shows that region alone."""
DECADES = 12.0
"""A logarithmic axis is no longer than this."""
LARGEST = 1e200
"""What is larger is drawn at the edge."""


def spans_decades(values: Array) -> bool:
    """Whether values are positive and span so much that a logarithmic axis shows them better."""
    return bool(values.min() > ROUNDING * values.max() and values.max() > LOG_FROM * values.min())


@dataclass(frozen=True)
class Window:
    """The ends of an axis, and whether it is logarithmic."""

    low: float
    high: float
    log: bool = False

    def outside(self, values: Array) -> NDArray[np.bool_]:
        """Which finite values are not shown."""
        return np.isfinite(values) & ((values < self.low) | (values > self.high))


def window(
    name: str,
    values: ArrayLike,
    region: ArrayLike = (),
    *,
    score: Score | Column | None = None,
    log: str | bool = "auto",
    margin: float = 0.07,
) -> Window:
    """The window of an axis.

    Parameters
    ----------
    name : str
        ``"x"`` or ``"y"``.
    values : array
        What is drawn; infinite entries stand at the edge and get some room there.
    region : array
        What must be seen: threshold, frontier and choice. All of the values if it is empty.
    score : Score or Column, optional
        What the values are, for scales without ratios (gains) and for measures between 0 and 1.
    log : "auto", True, False, "x", "y"
        Whether the axis is logarithmic; "auto" goes by the rule above.
    margin : float
        Room at both ends, as a share of the axis.
    """
    drawn = np.asarray(values, dtype=float)
    room = (margin, 2 * margin if np.any(np.isposinf(drawn)) else margin)
    known = drawn[np.isfinite(drawn)]
    if known.size == 0:
        return Window(0.0, 1.0)
    core = np.asarray(region, dtype=float)
    core = core[np.isfinite(core)]
    core = core if core.size else known
    top = float(np.max(np.abs(core)))
    core = np.where(np.abs(core) <= ROUNDING * top, 0.0, core)
    asked = log is True or log == name
    if asked and known.min() <= 0:
        raise InputError(f"A logarithmic {name} axis needs positive values", float(known.min()), 'Use log="auto"')
    every = np.append(known, core)
    shares = score is not None and score.as_stored and every.min() >= 0 and 0.2 <= every.max() <= 1 + ROUNDING
    if shares and not asked:
        return Window(-0.03, 1.03)  # a measure between 0 and 1
    wanted = log == "auto" and core.min() > 0 and (score is None or score.has_zero)
    if asked or (wanted and core.max() > LOG_FROM * core.min()):
        positive = known[known > 0]
        low, high = _window_ends(np.log10(positive), np.log10(core[core > 0]), room)
        low = max(low, high - DECADES) if not asked else low
        bottom, ceiling = -np.log10(LARGEST), np.log10(LARGEST)
        return Window(float(10 ** max(low, bottom)), float(10 ** min(high, ceiling)), True)
    low, high = _window_ends(np.clip(known, -LARGEST, LARGEST), np.clip(core, -LARGEST, LARGEST), room)
    return Window(max(low, -LARGEST), min(high, LARGEST))


def _window_ends(known: Array, core: Array, room: tuple[float, float]) -> tuple[float, float]:
    """The ends of everything, or of the region alone where that would be pressed into a corner."""
    low, high = (float(f([f(known), f(core)])) for f in (np.min, np.max))
    span, within = high - low, float(np.max(core) - np.min(core))
    if 0 < within < CORNER * span:
        low, high = max(low, float(np.min(core)) - within / 2), min(high, float(np.max(core)) + within / 2)
        span = high - low
    if span <= 1e-9 * max(abs(low), abs(high)):
        span = abs(high) or 1.0
    return low - room[0] * span, high + room[1] * span


def decades(low: float, high: float) -> list[float]:
    """Round values of a logarithmic axis, few enough to be read.

    >>> decades(0.3, 40.0)
    [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
    """
    ends = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for inside in ((1, 2, 5), (1, 3), (1,)):
        found = [float(f"{m}e{e}") for e in ends for m in inside if low <= float(f"{m}e{e}") <= high]
        if len(found) <= 8:
            break
    return found[:: -(-len(found) // 8)] if found else [low, high]
