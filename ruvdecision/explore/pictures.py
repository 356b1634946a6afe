"""Pictures to take away: the map as PNG, by the package's own plot or by the study's own figure, and the report."""

from __future__ import annotations

import io
import sys
import threading
from typing import Any

from ..maps.rumap import RUMap
from ..report import render_report
from ..report.picture import draw_png
from ..studies import Outcome

__all__ = ["draw", "write"]

# matplotlib's settings are global, so only one picture is drawn at a time.
_TURN = threading.Lock()


def draw(rumap: RUMap, max_risk: float, outcome: Outcome | None = None) -> bytes:
    """The map as PNG. A study's own figure takes its place, unless it shows a panel of maps of which this is one.

    >>> draw(RUMap.build(labels=["a"], intruder=[2.0], scientist=[0.5]), 1.0)[1:4]
    b'PNG'
    """
    with _TURN:
        _use_files_only()
        figure: Any = None if outcome is None or outcome.panel else outcome.figure(max_risk)
        if figure is None:
            return draw_png(rumap, max_risk)
        import matplotlib.pyplot as plt

        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight")
        plt.close(figure)  # pyplot keeps every figure alive
        return buffer.getvalue()


def write(rumap: RUMap, max_risk: float, title: str) -> bytes:
    """The report of the map, as `RUMap.report` writes it."""
    with _TURN:
        _use_files_only()
        return render_report(rumap, max_risk, title=title).encode("utf-8")


def _use_files_only() -> None:
    """Open no window, unless the caller has set matplotlib up: requests are answered outside the main thread."""
    if "matplotlib.pyplot" not in sys.modules:
        import matplotlib

        matplotlib.use("Agg")
