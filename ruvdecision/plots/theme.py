"""The paper that pictures are drawn on: colours for light and dark, and new figures of either kind.

matplotlib is imported when something is drawn.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import ArrayLike

from ..checks import check_choice, check_kind, check_text
from ..errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..analyses.limit import Limit
    from ..maps.rumap import RUMap

Style = dict[str, Any]
"""Arguments of matplotlib that say how something looks."""
# Okabe and Ito's palette without its yellow, which is too light for lines: safe for colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F")
# The same idea on dark paper: every colour has a contrast of at least 4.5 with it.
ON_DARK = ("#56B4E9", "#E69F00", "#2FBF92", "#E08BBD", "#F2793A", "#9DB2FF", "#FFFFFF", "#A6A6A6")
MARKERS = ("o", "s", "D", "v", "P", "X", "h", "^")


@dataclass(frozen=True)
class Look:
    """Colours of a drawing: curves, text, less important text, grid lines and paper."""

    colours: tuple[str, ...]
    ink: str
    soft: str
    grid: str
    paper: str


LIGHT = Look(COLOURS, "black", "0.25", "0.92", "white")
DARK = Look(ON_DARK, "#E6E9EC", "#B4BCC4", "#2D343C", "#14181D")
STYLES = {"light": LIGHT, "dark": DARK}


def look_of(ax: Axes) -> Look:
    """The colours for drawing on these axes, by how dark they are.

    >>> import matplotlib.pyplot as plt
    >>> with theme("dark"):
    ...     _, ax = plt.subplots()
    >>> look_of(ax).ink
    '#E6E9EC'
    """
    from matplotlib.axes import Axes
    from matplotlib.colors import to_rgba

    check_kind("ax", ax, Axes, "Leave it out, or write _, ax = plt.subplots()")

    face, behind = to_rgba(ax.get_facecolor()), to_rgba(figure_of(ax).get_facecolor())
    if face[3] < 0.5:  # transparent axes show the figure
        face = behind
    return DARK if face[3] >= 0.5 and 0.299 * face[0] + 0.587 * face[1] + 0.114 * face[2] < 0.5 else LIGHT


def figure_of(ax: Axes) -> Figure:
    """The figure that the axes are on, not a part of it."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


@contextmanager
def theme(style: str | None = None) -> Iterator[None]:
    """Draw new figures on light or dark paper; None leaves matplotlib's own settings.

    >>> import matplotlib.pyplot as plt
    >>> with theme("dark"):
    ...     ax = plt.figure().subplots()
    >>> look_of(ax).paper
    '#14181D'
    """
    import matplotlib as mpl

    if style is not None:
        check_choice("style", style, list(STYLES))
    look = STYLES.get(style or "")
    settings: Style = {}
    if look is not None:
        settings = {f"{part}.facecolor": look.paper for part in ("figure", "axes", "savefig")}
        settings |= {f"{part}.color": look.ink for part in ("text", "xtick", "ytick")}
        settings |= {
            "axes.labelcolor": look.ink,
            "axes.titlecolor": look.ink,
            "axes.edgecolor": look.soft,
            "legend.labelcolor": look.ink,
        }
    with mpl.rc_context(settings):  # type: ignore[arg-type]
        yield


@contextmanager
def figure_on(style: str | None, figure: Figure | None, size: tuple[float, float]) -> Iterator[Figure]:
    """The figure to draw on: the caller's, with which a style does not go, or a new one of a size."""
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure, SubFigure

    if figure is not None:
        check_kind("figure", figure, (Figure, SubFigure), "Leave it out, or write plt.figure()")
    if figure is not None and style is not None:
        raise InputError("style is for a new figure", style, "Leave it out, or draw within `with theme(...)`")
    with theme(style):
        drawn = plt.figure(figsize=size, layout="constrained") if figure is None else figure
        try:
            yield drawn
        except BaseException:
            if figure is None:  # nobody else has it
                plt.close(drawn)
            raise


@contextmanager
def axes_on(style: str | None, ax: Axes | None, size: tuple[float, float]) -> Iterator[Axes]:
    """The axes to draw on: the caller's, or new ones of a size."""
    if ax is not None:
        look_of(ax)  # says if these are no axes
    with figure_on(style, None if ax is None else figure_of(ax), size) as figure:
        yield figure.subplots() if ax is None else ax


def settle_layout(figure: Figure) -> None:
    """Put the axes where they will be drawn, so that places can be measured in pixels."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)


def empty_plot_error(got: str, do: str = "Look at the columns risk and utility") -> InputError:
    """The error of a picture that would be empty."""
    return InputError("There is nothing to draw", got, do)


def has_window() -> bool:
    """Whether a figure can be shown on the screen."""
    import matplotlib as mpl

    return mpl.get_backend().lower() not in ("agg", "pdf", "svg", "ps", "cairo", "template")


def show_windows() -> None:
    """Show the figures that are open, until they are closed: for the command line, never for a function that draws."""
    import matplotlib.pyplot as plt

    plt.show()


def use_files_only() -> None:
    """Draw into files and open no window, in any thread, unless the caller has set matplotlib up already."""
    if "matplotlib.pyplot" not in sys.modules:
        import matplotlib

        matplotlib.use("Agg")


def as_png(figure: Figure, dpi: float) -> bytes:
    """A figure as a PNG image; the figure is closed, because pyplot keeps every one alive."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, bbox_inches="tight")
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)
    return buffer.getvalue()


def as_vector_graphics(figure: Figure, kind: str) -> bytes:
    """A figure as an "svg" or "pdf" file, in which letters stay letters."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "pdf.fonttype": 42}):
        figure.savefig(buffer, format=kind, bbox_inches="tight")
    return buffer.getvalue()


def hide_frame(ax: Axes, look: Look, axis: Literal["both", "x", "y"], sides: Sequence[str]) -> None:
    """Grid lines that stay behind, and no frame on these sides."""
    ax.grid(True, axis=axis, color=look.grid, lw=0.8, zorder=0)
    ax.set_axisbelow(True)
    for side in sides:
        ax.spines[side].set_visible(False)


def ticks_without_powers(ax: Axes) -> None:
    """Numbers in full at the ticks of linear axes: a power of ten at the end of an axis collides with its name."""
    names: list[Literal["x", "y"]] = ["x", "y"]
    for name, axis in zip(names, (ax.xaxis, ax.yaxis), strict=True):
        largest = max(map(abs, axis.get_view_interval()))
        if axis.get_scale() == "linear" and not 1e-3 <= largest < 1e5:
            axis.set_major_formatter(lambda x, _: f"{x:.3g}".replace("-", "−"))
            ax.locator_params(axis=name, nbins=4)


def name_axes(ax: Axes, scored: RUMap | Limit) -> None:
    """Say what utility and risk are on the axes of a map, or of whatever has the same two scores."""
    ax.set_xlabel(as_literal_text(f"data utility ({scored.utility_score.words('scientist')})   better →"))
    ax.set_ylabel(as_literal_text(f"disclosure risk ({scored.risk_score.words('intruder')})   ← better"))


def points(
    ax: Axes, x: ArrayLike, y: ArrayLike, marker: str, size: float, colour: str, *, hollow: bool = False, **style: Any
) -> None:
    """Markers without a line; hollow ones show the paper."""
    inside = {"mfc": look_of(ax).paper} if hollow else {}
    ax.plot(x, y, ls="none", marker=marker, ms=size, color=colour, **(inside | style))


def threshold(ax: Axes, max_risk: float, *, upright: bool = False, **style: Any) -> None:
    """The dashed line at the largest tolerable risk."""
    draw = ax.axvline if upright else ax.axhline
    look: Style = {"color": look_of(ax).soft, "lw": 1.1, "ls": (0, (5, 3))}
    draw(max_risk, **(look | style))


def set_title(ax: Axes, title: str | None, **style: Any) -> None:
    """The title that a caller gave, if any."""
    if title is not None:
        ax.set_title(as_literal_text(check_text("title", title, "Leave it out, or give a title")), **style)


def as_literal_text(text: str) -> str:
    """Keep matplotlib from reading a name as mathematics, or as a label to be left out."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
