"""What a user believes, as the page draws it: prior dashed, posterior filled, estimate and truth marked.

Densities are differences of distribution functions, which every posterior of the package has, so nothing here knows
what kind of law it draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..maps.show import number
from ..protocols import Array
from .axes import Scale, Sheet, labels
from .examplefile import known_by_draws
from .lesson import BeliefPanel, Drawable, Law

Outline = tuple[Array, Array]
POINTS = 160
#: Draws make a rough histogram, so it has few bins.
BINS = 36
#: Values of a finite law that still make bars which can be told apart.
MOST_BARS = 60
#: The prior may be this many times as wide as the posterior before it runs off the sheet.
WIDEST = 9.0
#: Standard deviations of a law that are drawn on either side of its mean.
REACH = 3.6


def draw_panel(panel: BeliefPanel, width: float) -> str:
    """Draw one user's beliefs; empty text if there is nothing to draw.

    >>> draw_panel(BeliefPanel("intruder", "record 0"), 300)
    ''
    """
    laws = [law for law in panel.laws if law.posterior is not None]
    if not laws:
        return ""
    top = 26.0 if len(laws) > 1 else 8.0  # names stand above several laws
    height, left, right, bottom = top + 160.0, 12.0, width - 12.0, top + 118.0
    across = Scale(*_limits(laws), left, right)
    shapes = [(law, *_shape(law, across)) for law in laws]
    peak = max([float(np.max(after[1])) for _, _, after in shapes if after is not None] or [1.0])
    # Sharp posteriors would press the prior to the ground, but a prior is never higher than its posterior by much.
    up = Scale(0.0, max(peak, 1e-300) * 1.08, bottom, top)
    sheet = Sheet(width, height, _in_words(panel))
    ticks = across.ticks(max(3, int(width / 80)))
    for value, words in zip(ticks, labels(ticks), strict=True):
        sheet.line(float(across(value)), bottom, float(across(value)), bottom + 4, "axis")
        sheet.text(float(across(value)), bottom + 17, words, "tick", "middle")
    for k, (law, before, after) in enumerate(shapes):
        colour = f"c{k}" if len(shapes) > 1 else "c0" if panel.who == "intruder" else "c2"
        if after is None:
            place = float(across(_of(law.posterior.mean(), law)))
            sheet.line(place, top, place, bottom, f"spike {colour}")
        else:
            px, py = across(after[0]), up(after[1])
            sheet.path([px[0], *px, px[-1]], [bottom, *py, bottom], f"area {colour}", closed=True)
            sheet.path(px, py, f"curve {colour}")
        if before is not None:
            sheet.path(across(before[0]), up(before[1]), f"prior {colour}")
        if law.estimate is not None and np.isfinite(law.estimate):
            sheet.line(float(across(law.estimate)), top + 8, float(across(law.estimate)), bottom, f"estimate {colour}")
        if law.truth is not None:
            sheet.mark(float(across(law.truth)), bottom - 5, f"truth {colour}", "D", 5)
        if len(shapes) > 1:
            sheet.text(left + 2 + 90 * k, 14, law.name, f"name t{k}")
    sheet.line(left, bottom, right, bottom, "axis")
    sheet.text((left + right) / 2, height - 5, panel.title, "label", "middle")
    return sheet.done()


def _limits(laws: list[Law]) -> tuple[float, float]:
    """Room for the posterior, for its estimate and the truth, and for the prior as far as it is not much wider."""
    lows, highs = [], []
    for law in laws:
        ends = [_span(x, law) for x in (law.posterior, law.prior)]
        (low, high) = ends[0] if ends[0] is not None else (np.nan, np.nan)
        if np.isnan(low) and law.estimate is not None:
            low, high = law.estimate - 1e-9, law.estimate + 1e-9
        if ends[1] is not None:
            spread = high - low
            first, last = ends[1]
            middle = (low + high) / 2
            # A known answer has no width: then the prior alone says how wide the sheet is.
            reach = WIDEST / 2 * spread if spread > 1e-6 * (last - first) else np.inf
            low, high = min(low, max(first, middle - reach)), max(high, min(last, middle + reach))
        for value in (law.estimate, law.truth):
            if value is not None and np.isfinite(value):
                low, high = min(low, value), max(high, value)
        lows.append(low)
        highs.append(high)
    low, high = float(np.nanmin(lows)), float(np.nanmax(highs))
    if high - low <= 1e-6 * max(abs(low), abs(high), 1e-12):
        low, high = low - 1.0, high + 1.0
    return low - 0.03 * (high - low), high + 0.03 * (high - low)


def _span(law: Drawable | None, of: Law) -> tuple[float, float] | None:
    if law is None:
        return None
    mean, var = _of(law.mean(), of), _of(law.var(), of)
    if not np.isfinite(mean) or not np.isfinite(var):
        return None
    return mean - REACH * np.sqrt(var), mean + REACH * np.sqrt(var)


def _shape(law: Law, across: Scale) -> tuple[Outline | None, Outline | None]:
    """Outlines of the prior and the posterior: None for a law without a density here (a flat prior, a known value)."""
    return _outline(law.prior, law, across), _outline(law.posterior, law, across)


def _outline(law: Drawable | None, of: Law, across: Scale) -> Outline | None:
    span = _span(law, of)
    if law is None or span is None or span[1] - span[0] <= 1e-9 * (across.high - across.low):
        return None
    edges = np.linspace(across.low, across.high, (BINS if known_by_draws(law) else POINTS) + 1)
    if span[1] - span[0] < 0.3 * (across.high - across.low) and not known_by_draws(law):
        # A sharp law needs points where it is.
        edges = np.union1d(edges, np.linspace(max(span[0], across.low), min(span[1], across.high), POINTS))
    support = getattr(law, "support", None)
    if support is not None and len(support) <= MOST_BARS and not known_by_draws(law):
        return _bars(law, of, support, edges)
    mass = np.diff(_cdf(law, of, edges)) / np.diff(edges)
    if known_by_draws(law):
        return np.repeat(edges, 2)[1:-1], np.repeat(mass, 2)
    return (edges[1:] + edges[:-1]) / 2, np.maximum(mass, 0.0)


def _bars(law: Drawable, of: Law, support: Array, edges: Array) -> Outline:
    values = np.unique(np.asarray(support if of.component is None else support[:, of.component], dtype=float))
    width = 0.6 * float(np.min(np.diff(values))) / 2 if values.size > 1 else 0.01 * float(edges[-1] - edges[0])
    heights = _cdf(law, of, values + 1e-9 * width) - _cdf(law, of, values - 1e-9 * width)
    # Each bar up, across and down again.
    x = np.ravel([[v - width, v - width, v + width, v + width] for v in values])
    return x, np.ravel([[0.0, h, h, 0.0] for h in heights])


def _cdf(law: Any, of: Law, at: Array) -> Array:
    if of.component is None:
        return np.asarray(law.cdf(np.asarray(at, dtype=float)))
    return np.asarray(law.cdf(np.repeat(np.asarray(at, dtype=float)[:, None], law.event[0], axis=1)))[:, of.component]


def _of(values: ArrayLike, law: Law) -> float:
    """The component of a law's mean or variance that is drawn."""
    return float(np.ravel(values)[law.component or 0])


def _in_words(panel: BeliefPanel) -> str:
    words = f"What the {panel.who} believes about {panel.title}. {panel.words}"
    for law in panel.laws:
        span = _span(law.posterior, law)
        if span is not None:
            mean, sd = (span[0] + span[1]) / 2, (span[1] - span[0]) / (2 * REACH)
            words += f" Posterior of {law.name}: mean {number(mean, 4)}, standard deviation {number(sd, 4)}."
    return words
