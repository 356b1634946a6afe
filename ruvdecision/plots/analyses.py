"""Drawing what analyses found: the risk of every record, the price of publishing, the tornado of a sensitivity.

matplotlib is imported when something is drawn, and nothing here calls ``show()``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ..analyses.publishing import PublishingPrice
from ..analyses.record_risk import RecordRisk
from ..analyses.sensitivity import Sensitivity
from ..checks import check_flag, check_integer, check_kind, check_number
from ..errors import InputError
from ..maps.show import shorten_text
from ..masks.base import Mask
from .axes import spans_decades
from .theme import (
    Style,
    as_literal_text,
    axes_on,
    empty_plot_error,
    hide_frame,
    look_of,
    name_axes,
    points,
    set_title,
    threshold,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES = ("-", "--", ":", "-.")
LONGEST = 44
"""Longest label in a legend."""
FEW = 12
"""So many distinct risks are drawn one by one."""
MOST = 12
"""Most curves that one drawing can hold and still be read."""


def record_risk(
    found: RecordRisk,
    release: int | str | Mask | None = None,
    ax: Axes | None = None,
    *,
    by_group: bool = False,
    max_risk: float | None = None,
    style: str | None = None,
) -> Axes:
    """Draw how the records' risks are distributed.

    One release gives a histogram, stacked by group if asked for. Several give a curve each: the share of records whose
    risk is larger. Records with infinite risk are counted in the title.

    Parameters
    ----------
    found : RecordRisk
        From `record_risk`.
    release : position, label or mask, optional
        One release; all of them if not given.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    by_group : bool
        Tell groups apart. With several releases, choose one.
    max_risk : float, optional
        Draws the threshold.

    Returns
    -------
    Axes
    """
    check_kind("found", found, RecordRisk, "Call record_risk(...) first")
    if check_flag("by_group", by_group, "Say whether groups are told apart") and found.groups is None:
        raise InputError("Risk by group needs groups", "none", "Pass groups= to record_risk, one label per record")
    places = list(range(len(found.masks))) if release is None else [found._release_position(release)]
    if by_group and len(places) > 1:
        raise InputError("Groups are drawn for one release", f"{len(places)} releases", "Choose one with release=")
    if len(places) > MOST:
        raise InputError(f"At most {MOST} releases can be told apart", len(places), "Choose one with release=")
    max_risk = None if max_risk is None else check_number("max_risk", max_risk)
    with axes_on(style, ax, (7.2, 4.4)) as ax:
        look = look_of(ax)
        risk = found.risk
        finite = np.isfinite(risk[places])
        if not finite.any():
            raise empty_plot_error("no record has a finite risk", "Look at riskiest()")
        drawn = risk[places][finite]
        log = spans_decades(drawn)
        if log:
            ax.set_xscale("log")
        if len(places) == 1:
            _draw_histogram(ax, found, places[0], by_group, log, max_risk)
        else:
            for j, i in enumerate(places):
                x = np.sort(risk[i][np.isfinite(risk[i])])
                share = 1.0 - np.arange(len(x) + 1) / risk.shape[1]
                line = LINES[(j // len(look.colours)) % len(LINES)]
                colour = look.colours[j % len(look.colours)]
                line_style: Style = {"label": _shorten(found.releases[i]), "color": colour, "ls": line, "lw": 1.6}
                ax.step(np.concatenate([x[:1], x]), share, where="post", **line_style)
            ax.set_ylabel("share of records with more risk")
            ax.set_ylim(-0.02, 1.02)
            ax.legend(fontsize="small", frameon=False)
        endless = int(np.sum(~finite))
        title = f"{len(found.rows):,} records" + (f", {endless:,} with infinite risk not drawn" if endless else "")
        ax.set_title(title, fontsize="medium")
        ax.set_xlabel(f"risk of a record ({found.score.words('intruder')})   ← better")
        if max_risk is not None:
            threshold(ax, max_risk, upright=True)
        hide_frame(ax, look, "both", ("top", "right"))
    return ax


def publishing(
    price: PublishingPrice, ax: Axes | None = None, *, max_risk: float | None = None, style: str | None = None
) -> Axes:
    """Draw every release twice on the map, with an arrow from the mask kept secret (open) to the mask published (full).

    Parameters
    ----------
    price : PublishingPrice
        From `price_of_publishing`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    max_risk : float, optional
        Draws the threshold.

    Returns
    -------
    Axes
    """
    check_kind("price", price, PublishingPrice, "Call price_of_publishing(...) first")
    published, secret = price.published, price.unpublished
    shown = np.isfinite([m for one in (published, secret) for m in (one.risk, one.utility)]).all(axis=0)
    if not shown.any():
        raise empty_plot_error("no release has a finite risk and utility", "Look at to_dataframe()")
    with axes_on(style, ax, (7.2, 4.8)) as ax:
        look = look_of(ax)
        techniques = np.array(published.techniques, dtype=str)
        arrow: Style = {"arrowstyle": "->", "lw": 0.9, "alpha": 0.7}
        for j, technique in enumerate(dict.fromkeys(techniques[shown])):
            mine = shown & (techniques == technique)
            colour = look.colours[j % len(look.colours)]
            bars: Style = {"color": colour, "elinewidth": 0.8, "ls": "none", "ms": 5}
            for one, words, inside in ((published, "published", colour), (secret, "kept secret", look.paper)):
                at = (one.utility[mine], one.risk[mine], one.risk_error[mine], one.utility_error[mine])
                ax.errorbar(*at, fmt="o", mfc=inside, label=f"{_shorten(technique)}, {words}", **bars)
            for i in np.flatnonzero(mine):
                ends = (secret.utility[i], secret.risk[i]), (published.utility[i], published.risk[i])
                if ends[0] != ends[1]:
                    ax.annotate("", ends[1], ends[0], arrowprops=arrow | {"color": colour})
        name_axes(ax, published)
        ax.set_title("The price of publishing the mask", fontsize="medium")
        if max_risk is not None:
            threshold(ax, check_number("max_risk", max_risk))
        ax.legend(fontsize="small", frameon=False)
        hide_frame(ax, look, "both", ("top", "right"))
    return ax


def _draw_histogram(ax: Axes, found: RecordRisk, place: int, by_group: bool, log: bool, max_risk: float | None) -> None:
    """How many records have which risk under one release.

    Few distinct risks are dots at their places. Otherwise an edge of the bars stands at the threshold, so that no bar
    holds records on both sides of it.
    """
    import pandas as pd

    look = look_of(ax)
    risk = found.risk[place]
    finite = np.isfinite(risk)
    grouped = by_group and found.groups is not None
    codes, names = np.zeros(risk.size, dtype=int), ["records"]
    if grouped:
        codes, names = pd.factorize(pd.Series(found.groups).astype(str), sort=True)
    parts = [risk[finite & (codes == c)] for c in range(len(names))]
    colours = [look.colours[c % len(look.colours)] for c in range(len(names))]
    labels = [_shorten(str(n)) if grouped else "_" for n in names]
    shown = risk[finite]
    # Risks that differ by rounding alone are one.
    distinct = np.unique(np.array([float(f"{x:.9g}") for x in np.unique(shown)]))
    if distinct.size <= FEW:
        for part, colour, label in zip(parts, colours, labels, strict=True):
            at, count = np.unique(np.array([float(f"{x:.9g}") for x in part]), return_counts=True)
            ax.vlines(at, 0, count, color=colour, lw=1.2, alpha=0.6)
            points(ax, at, count, "o", 7, colour, label=label)
        ax.set_ylim(bottom=0)
        ax.margins(x=0.1)
    else:
        low, high = float(shown.min()), float(shown.max())
        bins = min(50, max(5, int(np.sqrt(shown.size))))
        cut_at = [max_risk] if max_risk is not None and low < max_risk < high else []
        grid = np.geomspace if log else np.linspace
        ends = [low, *cut_at, high]
        place_on = np.log if log else (lambda x: x)
        pieces = []
        for a, b in pairwise(ends):
            share = (place_on(b) - place_on(a)) / (place_on(high) - place_on(low))
            piece = grid(a, b, max(1, round(bins * share)) + 1)
            piece[0], piece[-1] = a, b  # rounding must not leave the ends out
            pieces.append(piece[:-1])
        # A record at the threshold meets it: it belongs to the bar below.
        edges = np.append(np.concatenate(pieces), high)
        edges[np.isin(edges, cut_at)] = np.nextafter(edges[np.isin(edges, cut_at)], np.inf)
        ax.hist(parts, bins=edges.tolist(), stacked=True, color=colours, label=labels, edgecolor=look.paper, lw=0.4)
    if grouped:
        ax.legend(fontsize="small", frameon=False)
    ax.set_ylabel("records")


def _shorten(text: str) -> str:
    """Text no longer than a legend bears."""
    return as_literal_text(shorten_text(text, LONGEST))


WORDS = {
    "risk": "disclosure risk of the chosen release   ← better",
    "utility": "data utility of the chosen release   better →",
    "chosen risk": "disclosure risk of the release chosen each time   ← better",
    "chosen utility": "data utility of the release chosen each time   better →",
    "regret": "share of the utility that keeping the choice costs   ← better",
}


def tornado(
    result: Sensitivity,
    of: str = "risk",
    ax: Axes | None = None,
    *,
    most: int = 20,
    labels: bool = True,
    title: str | None = None,
    style: str | None = None,
) -> Axes:
    """Draw how far each setting moves a number, and return the Axes.

    A bar reaches from the lowest to the highest value that a setting gives, through the base value (the vertical line);
    its ends name the setting's value there. The dashed line is the threshold, where risk is drawn. A bar that runs to
    infinity ends in an arrow at the edge.

    Parameters
    ----------
    result : Sensitivity
        From `sensitivity`.
    of : "risk", "utility", "chosen risk", "chosen utility" or "regret"
        What is drawn; see `Sensitivity.effects`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    most : int, default 20
        So many settings are drawn, those that matter most.
    labels : bool
        Write the settings' values at the ends of the bars.
    title : str, optional
        A title; whether the choice is stable if not given.
    style : "light" or "dark", optional
        The paper of a new figure; matplotlib's own settings if not given.

    Examples
    --------
    >>> from ruvdecision.maps.rumap import RUMap
    >>> from ruvdecision.analyses.sensitivity import sensitivity
    >>> study = lambda u=2.0: RUMap.build(labels=["a", "b"], intruder=[u, 1.0], scientist=[0.5, 0.25])
    >>> ax = sensitivity(study, vary={"u": [1.5, 3.0]}, max_risk=0.6).plot()
    """
    check_kind("result", result, Sensitivity, "Call ruv.sensitivity(...) first")
    check_flag("labels", labels, "Say whether values are written beside the bars")
    table = result.effects(of).head(check_integer("most", most, low=1))
    base = float(table["base"].iloc[0])
    ends = table[["low", "high"]].to_numpy(dtype=float)
    known = np.append(ends[np.isfinite(ends)], base if np.isfinite(base) else [])
    if known.size == 0:
        raise empty_plot_error(f"no finite {of}", "Give max_risk=, so that a release is chosen")
    with axes_on(style, ax, (8.6, 1.6 + 0.5 * len(table))) as ax:
        look = look_of(ax)
        below, above = look.colours[:2]
        limit = result.base.max_risk if of in ("risk", "chosen risk") and result.base.choice is not None else None
        if limit is not None and np.isfinite(limit):
            known = np.append(known, limit)
        centre = base if np.isfinite(base) else float(known.mean())
        span = float(np.ptp(known)) or abs(centre) or 1.0
        left, right = float(known.min()) - 0.22 * span, float(known.max()) + 0.22 * span
        for y, row in enumerate(table.itertuples()):
            if np.isnan([row.low, row.high]).any():
                continue
            if row.low == row.high == base:
                _write_name(ax, _note_on_unmoved(result, str(row.factor)), centre, y, 1)
                continue
            # The longer one first: both ends may lie on one side of the base value.
            both = {row.low: row.low_at, row.high: row.high_at}
            for value, at in sorted(both.items(), key=lambda end: -abs(end[0] - centre)):
                shown, side = float(np.clip(value, left, right)), 1 if value > centre else -1
                colour, arrow = (above, ">") if side > 0 else (below, "<")
                ax.barh(y, shown - centre, left=centre, height=0.55, color=colour, ec=look.paper, lw=0.8, zorder=3)
                if np.isinf(value):
                    points(ax, shown, y, arrow, 9, colour, zorder=4, clip_on=False)
                if labels and at:
                    _write_name(ax, at, shown, y, side)
        ax.axvline(centre, color=look.ink, lw=1.2, zorder=4)
        if limit is not None and np.isfinite(limit):
            threshold(ax, limit, upright=True, lw=1.4, ls="--", zorder=2, label="threshold")
            ax.legend(loc="lower right", frameon=False)
        ax.set_yticks(
            range(len(table)), [as_literal_text(f"{f}\n(base {result.base_values[f]})") for f in table["factor"]]
        )
        ax.set_ylim(len(table) - 0.4, -0.6)
        ax.set_xlim(left, right)
        chosen = result.base.choice is not None
        ax.set_xlabel(WORDS[of] if chosen else f"median relative change of {of} over all releases")
        verdict = f"The choice is {result.verdict}" if chosen else "No release is chosen"
        set_title(ax, verdict if title is None else title)
        hide_frame(ax, look, "x", ("top", "right", "left"))
        ax.tick_params(axis="y", length=0)
    return ax


def _note_on_unmoved(result: Sensitivity, factor: str) -> str:
    """What to say of a setting that does not move the number: the choice may move all the same."""
    same = result.to_dataframe()["same"].to_numpy()[1:]
    at = [
        v.settings[factor] for v, kept in zip(result.variations, same, strict=True) if factor in v.settings and not kept
    ]
    return f"the same, but another choice at {', '.join(dict.fromkeys(at))}" if at else "no change"


def _write_name(ax: Axes, text: str, x: float, y: int, side: int) -> None:
    text = text if len(text) <= 44 else text[:42] + "…"
    style: Style = {"va": "center", "ha": "left" if side > 0 else "right", "fontsize": 9, "color": look_of(ax).ink}
    ax.annotate(as_literal_text(text), (x, y), (4 * side, 0), textcoords="offset points", **style)
