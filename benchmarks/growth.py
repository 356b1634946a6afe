"""How time and memory grow: the exponent that a line through logarithms shows, and the one that is promised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Curve", "draw", "exponent"]

ROOM = 0.2
"""An exponent may be this much above the promise: times of a few sizes do not know it better."""
SMALL = 16e6
"""Growth of memory by fewer bytes than this is not told from the allocator's own."""

AXES = {"n": "records", "p": "columns", "releases": "releases"}


def exponent(sizes: Sequence[float], values: Sequence[float], last: int = 3) -> float:
    """Slope of log(values) against log(sizes), by least squares over the last few sizes; smaller ones show fixed costs.

    >>> round(exponent([1, 10, 100, 1000], [9.0, 200.0, 4000.0, 80000.0]), 4)
    1.301
    """
    x, y = np.log(np.asarray(sizes, dtype=float)), np.log(np.asarray(values, dtype=float))
    if len(x) != len(y) or len(x) < 2 or not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError(f"an exponent needs two sizes or more with positive values; got {len(x)} and {len(y)}")
    x, y = x[-last:], y[-last:]
    if np.ptp(x) == 0:
        raise ValueError("an exponent needs sizes that differ")
    x = x - x.mean()
    return float(x @ y / (x @ x))


@dataclass(frozen=True)
class Curve:
    """One case along one axis: sizes, seconds, and bytes that it took beyond what was there before."""

    case: str
    axis: str
    order: str
    promised: float
    promised_memory: float
    sizes: list[int]
    seconds: list[float]
    bytes: list[float]
    failed: str = ""

    @property
    def slope(self) -> float | None:
        """Over the sizes that took any time by the system's clock of processor time; None where there are not two."""
        told = [(size, s) for size, s in zip(self.sizes, self.seconds, strict=True) if s > 0]
        return exponent(*zip(*told, strict=True)) if len(told) > 1 else None

    @property
    def memory_slope(self) -> float | None:
        """Over the sizes whose growth can be told; None where there are not two of them."""
        told = [(size, b) for size, b in zip(self.sizes, self.bytes, strict=True) if b >= SMALL]
        return exponent(*zip(*told, strict=True)) if len(told) > 1 else None

    @property
    def verdict(self) -> str:
        if self.failed or len(self.sizes) < 2:
            return "failed"
        if self.slope is None:
            return "too short to tell"
        good = self.slope <= self.promised + ROOM and (
            self.memory_slope is None or self.memory_slope <= self.promised_memory + ROOM
        )
        return "ok" if good else "MISS"


def draw(curves: Sequence[Curve], path: Path, *, quick: bool = False) -> None:
    """Draw all curves into one picture: time above and memory below, one column per axis, logarithms on both sides.

    The picture of a quick run says that it is one.
    """
    import matplotlib.pyplot as plt

    axes = [a for a in AXES if any(c.axis == a for c in curves)]
    figure, panels = plt.subplots(2, len(axes), figsize=(6.2 * len(axes), 13), squeeze=False, layout="constrained")
    for j, axis in enumerate(axes):
        mine = [c for c in curves if c.axis == axis and len(c.sizes) > 1]
        for i, (what, scale) in enumerate((("seconds", 1.0), ("bytes", 1e6))):
            _panel(panels[i, j], mine, axis, what, scale)
    title = (
        "How time and memory grow (points: measured; dotted: slopes 1 and 2; in brackets: slope found, slope promised)"
    )
    figure.suptitle(f"{title}\nquick run, small sizes: the slopes say little" if quick else title)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _panel(ax: Any, curves: Sequence[Curve], axis: str, what: str, scale: float) -> None:
    styles = [
        (c, m) for m in "osD^v" for c in ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
    ]
    for curve, (colour, marker) in zip(curves, styles, strict=False):
        values = np.asarray(getattr(curve, what)) / scale
        slope, promised = (
            (curve.slope, curve.promised) if what == "seconds" else (curve.memory_slope, curve.promised_memory)
        )
        if what == "bytes":
            values = np.maximum(values, 0.1)  # nothing at all has no logarithm
        said = "small" if slope is None else f"{slope:.2f}, {promised:g}"
        ax.plot(
            curve.sizes,
            values,
            color=colour,
            marker=marker,
            markersize=4,
            linewidth=1.2,
            label=f"{curve.case} ({said})",
        )
    ax.set(
        xscale="log",
        yscale="log",
        xlabel=f"number of {AXES[axis]}",
        ylabel="time in s" if what == "seconds" else "peak memory beyond the data in MB",
    )
    ends = np.array(ax.get_xlim())
    low, high = ax.get_ylim()
    for power in (1, 2):
        ax.plot(ends, low * (ends / ends[0]) ** power, color="0.6", linestyle=":", linewidth=0.9, zorder=0)
    ax.set(xlim=ends, ylim=(low, high))
    ax.grid(alpha=0.25)
    if axis == "p" and curves:
        ax.set_xticks(curves[0].sizes, [str(size) for size in curves[0].sizes])
        ax.minorticks_off()
    ax.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False)
