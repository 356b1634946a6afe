"""The tornado of a sensitivity analysis: one bar per setting, the widest on top.

matplotlib is imported when something is drawn, and nothing here calls ``show()``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..analyses.sensitivity import Sensitivity
from ..checks import check_integer
from .theme import Style, axes_on, bare, check_drawn, empty_plot_error, look_of, plain, points, threshold

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    check_drawn(result, Sensitivity, "ruv.sensitivity")
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
                _name(ax, _unmoved(result, str(row.factor)), centre, y, 1)
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
                    _name(ax, at, shown, y, side)
        ax.axvline(centre, color=look.ink, lw=1.2, zorder=4)
        if limit is not None and np.isfinite(limit):
            threshold(ax, limit, upright=True, lw=1.4, ls="--", zorder=2, label="threshold")
            ax.legend(loc="lower right", frameon=False)
        ax.set_yticks(range(len(table)), [plain(f"{f}\n(base {result.base_values[f]})") for f in table["factor"]])
        ax.set_ylim(len(table) - 0.4, -0.6)
        ax.set_xlim(left, right)
        chosen = result.base.choice is not None
        ax.set_xlabel(WORDS[of] if chosen else f"median relative change of {of} over all releases")
        verdict = f"The choice is {result.verdict}" if chosen else "No release is chosen"
        ax.set_title(verdict if title is None else plain(title))
        bare(ax, look, "x", ("top", "right", "left"))
        ax.tick_params(axis="y", length=0)
    return ax


def _unmoved(result: Sensitivity, factor: str) -> str:
    """What to say of a setting that does not move the number: the choice may move all the same."""
    same = result.to_dataframe()["same"].to_numpy()[1:]
    at = [
        v.settings[factor] for v, kept in zip(result.variations, same, strict=True) if factor in v.settings and not kept
    ]
    return f"the same, but another choice at {', '.join(dict.fromkeys(at))}" if at else "no change"


def _name(ax: Axes, text: str, x: float, y: int, side: int) -> None:
    text = text if len(text) <= 44 else text[:42] + "…"
    style: Style = {"va": "center", "ha": "left" if side > 0 else "right", "fontsize": 9, "color": look_of(ax).ink}
    ax.annotate(plain(text), (x, y), (4 * side, 0), textcoords="offset points", **style)
