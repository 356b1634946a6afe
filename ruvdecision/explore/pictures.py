"""Pictures to take away: the map as PNG, by the package's own plot or by the study's own figure, and the report."""

from __future__ import annotations

import threading

from ..maps.rumap import RUMap
from ..plots.theme import as_png, use_files_only
from ..report import render_report
from ..report.picture import draw_map_png
from ..studies import Outcome

# matplotlib's settings are global, so only one picture is drawn at a time.
_TURN = threading.Lock()


def draw(rumap: RUMap, max_risk: float, outcome: Outcome | None = None) -> bytes:
    """The map as PNG. A study's own figure takes its place, unless it shows a panel of maps of which this is one.

    >>> draw(RUMap.build(labels=["a"], intruder=[2.0], scientist=[0.5]), 1.0)[1:4]
    b'PNG'
    """
    with _TURN:
        use_files_only()
        figure = None if outcome is None or outcome.panel else outcome.figure(max_risk)
        return draw_map_png(rumap, max_risk) if figure is None else as_png(figure, dpi=110)


def write(rumap: RUMap, max_risk: float, title: str) -> bytes:
    """The report of the map, as `RUMap.report` writes it."""
    with _TURN:
        use_files_only()
        return render_report(rumap, max_risk, title=title).encode("utf-8")
