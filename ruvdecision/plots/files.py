"""Original and released files beside each other: histograms, scatter plots, pairs of columns, and how tables are kept.

Pictures of records are confidential. They are for the agency's own eyes: nothing here goes onto a map or into a
report. matplotlib is imported when something is drawn, and nothing here calls ``show()``.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..checks import (
    Data,
    as_tuple,
    check_choice,
    check_flags,
    check_integer,
    check_list,
    check_text,
    is_label,
    suggest,
)
from ..errors import InputError, kind_of
from ..masks.frame import Frame
from ..measures import RecordLinkage
from ..measures.base import Measured
from ..protocols import Array
from .axes import spans_decades
from .theme import as_literal_text, axes_on, figure_on, hide_frame, look_of, points, set_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("pairs", "scatter", "histograms")
BINS = 30
MOST_PAIRS = 4
"""Columns of a pair plot that can be read; those of a call that names none."""


def files(
    original: Data,
    released: Data,
    columns: Sequence[Hashable] | None = None,
    figure: Figure | None = None,
    *,
    kind: str = "pairs",
    linked: bool | ArrayLike | None = None,
    most: int = 2000,
    names: tuple[str, str] = ("original", "released"),
    style: str | None = None,
) -> Figure:
    """Draw the original beside the released file and return the Figure, as figures 2 to 9 of Karr et al. (2006) do.

    Parameters
    ----------
    original, released : DataFrame or array
        The two files.
    columns : list of column names or positions, optional
        Numeric columns to draw; the first four (two for ``"scatter"``) if not given.
    figure : matplotlib Figure, optional
        Where to draw; a new one if not given.
    kind : "pairs", "scatter" or "histograms"
        ``"pairs"``: a square of pictures with the original's pairs below the diagonal, the release's above it, and both
        histograms on it. ``"scatter"``: two columns, original on the left and release on the right, on the same axes.
        ``"histograms"``: each column, both files on the same bins.
    linked : True or one flag per record, optional
        Marks records that an intruder links rightly: those flagged, or with True those whose nearest neighbour by the
        drawn columns is their own (`RecordLinkage`). Record i of one file must be record i of the other.
    most : int, default 2000
        So many records are drawn as points, at even distances in the file; the histograms are of all.
    names : pair of str
        What the two files are called.
    style : "light" or "dark", optional
        The paper of a new figure; matplotlib's own settings if not given.

    Notes
    -----
    The picture shows confidential records: it stays in the agency.

    Examples
    --------
    >>> import ruvdecision as ruv
    >>> original = np.random.default_rng(1).normal(size=(50, 2))
    >>> released = ruv.Noise(variance=0.5).release(original, 1)
    >>> len(files(original, released, kind="scatter", linked=True).axes)
    2
    """
    check_choice("kind", kind, KINDS)
    most = check_integer("most", most, low=1)
    do = 'Write names=("original", "released")'
    called = [check_text("Each of names", name, do) for name in check_list("names", names, do)]
    if len(called) != 2:
        raise InputError("names must be two", len(called), do)
    names = called[0], called[1]
    tables = [Frame.of(given).table for given in (original, released)]
    shown = _columns_to_draw(tables, columns, 2 if kind == "scatter" else MOST_PAIRS)
    if len(shown) < (1 if kind == "histograms" else 2):
        raise InputError(f'kind="{kind}" needs two columns', shown, 'Name two columns, or use kind="histograms"')
    both = [t[shown].to_numpy(dtype=float) for t in tables]
    marks = _linked_marks(linked, [t[shown] for t in tables])
    size = {"pairs": (2.1 * len(shown) + 0.8,) * 2, "scatter": (9.0, 4.4)}
    wide = min(len(shown), 4)
    high = -(-len(shown) // wide)
    with figure_on(style, figure, size.get(kind, (3.1 * wide, 2.5 * high + 0.5))) as drawn:
        if kind == "histograms":
            grid = drawn.subplots(high, wide, squeeze=False)
            for j, ax in enumerate(grid.flat):
                if j < len(shown):
                    _draw_histogram(ax, both, j, str(shown[j]), names)
                else:
                    ax.remove()
            grid.flat[0].legend(frameon=False, fontsize="small")
        elif kind == "scatter":
            left, right = drawn.subplots(1, 2, sharex=True, sharey=True)
            for k, ax in enumerate((left, right)):
                _draw_scatter(ax, both[k], (0, 1), k, marks, most)
                ax.set_title(as_literal_text(f"{names[k]}{_linked_in_words(marks) if k else ''}"), fontsize="medium")
                ax.set_xlabel(as_literal_text(str(shown[0])))
                ax.locator_params(nbins=5)
            left.set_ylabel(as_literal_text(str(shown[1])))
        else:
            _draw_pairs(drawn, both, [str(c) for c in shown], names, marks, most)
    return drawn


def _draw_pairs(
    figure: Figure,
    both: Sequence[Array],
    heads: Sequence[str],
    names: tuple[str, str],
    marks: NDArray[np.bool_] | None,
    most: int,
) -> None:
    grid = figure.subplots(len(heads), len(heads), squeeze=False)
    for (i, j), ax in np.ndenumerate(grid):
        if i == j:
            _draw_histogram(ax, both, i, "", names)
        else:
            k = int(j > i)  # the release above the diagonal
            _draw_scatter(ax, both[k], (j, i), k, marks, most)
        ax.tick_params(labelbottom=i == len(heads) - 1, labelleft=j == 0 and i > 0, labelsize="x-small")
        ax.locator_params(nbins=3)
        if i == len(heads) - 1:
            ax.set_xlabel(as_literal_text(heads[j]), fontsize="small")
        if j == 0:
            ax.set_ylabel(as_literal_text(heads[i]), fontsize="small")
    look = look_of(grid[0, 0])
    ends = {
        j: (min(np.nanmin(b[:, j]) for b in both), max(np.nanmax(b[:, j]) for b in both)) for j in range(len(heads))
    }
    for (i, j), ax in np.ndenumerate(grid):  # one column, one axis in all pictures
        room = [0.05 * (high - low or 1.0) for low, high in (ends[j], ends[i])]
        ax.set_xlim(ends[j][0] - room[0], ends[j][1] + room[0])
        if i != j:
            ax.set_ylim(ends[i][0] - room[1], ends[i][1] + room[1])
    said = f"{names[0]} below the diagonal, {names[1]} above it{_linked_in_words(marks)}"
    figure.suptitle(as_literal_text(said), fontsize="medium", color=look.ink)


def _draw_histogram(ax: Axes, both: Sequence[Array], j: int, name: str, names: tuple[str, str]) -> None:
    look = look_of(ax)
    parts = [b[np.isfinite(b[:, j]), j] for b in both]
    every = np.concatenate(parts)
    if every.size:
        # Skewed values, such as incomes, would be one bar.
        log = bool(spans_decades(every)) and bool(np.ptp(every) > 0) and name != ""
        ends = float(every.min()), float(every.max())
        edges = np.geomspace(*ends, BINS + 1) if log else np.linspace(ends[0], ends[1] or 1.0, BINS + 1)
        edges = edges if ends[0] < ends[1] else np.array([ends[0] - 0.5, ends[0] + 0.5])
        for part, colour, label in zip(parts, look.colours, names, strict=False):
            counts = np.histogram(part, edges)[0] / max(part.size, 1)
            ax.stairs(counts, edges, color=colour, fill=True, alpha=0.25)
            ax.stairs(counts, edges, color=colour, lw=1.4, label=as_literal_text(label))
        if log:
            ax.set_xscale("log")
        else:
            ax.locator_params(axis="x", nbins=4)
    ax.set_yticks([])
    ax.set_xlabel(as_literal_text(name))
    hide_frame(ax, look, "x", ("top", "right", "left"))


def _draw_scatter(
    ax: Axes, values: Array, at: tuple[int, int], k: int, marks: NDArray[np.bool_] | None, most: int
) -> None:
    look = look_of(ax)
    rows = np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).astype(int))
    x, y = values[rows, at[0]], values[rows, at[1]]
    points(ax, x, y, ".", 4, look.colours[k], alpha=0.6, mew=0, zorder=3, rasterized=len(rows) > 500)
    if marks is not None and len(marks) == len(values):
        hit = marks[rows]
        points(ax, x[hit], y[hit], "o", 5, look.ink, mfc="none", mew=0.9, zorder=4)
    hide_frame(ax, look, "both", ("top", "right"))


def _linked_in_words(marks: NDArray[np.bool_] | None) -> str:
    return "" if marks is None else f"; rings: {int(marks.sum()):,} of {marks.size:,} records are linked rightly"


def _linked_marks(linked: bool | ArrayLike | None, tables: Sequence[pd.DataFrame]) -> NDArray[np.bool_] | None:
    if linked is None or linked is False:
        return None
    lengths = [len(t) for t in tables]
    if lengths[0] != lengths[1]:
        do = "Leave linked out"
        raise InputError("Linked records need files of the same records", f"{lengths[0]} and {lengths[1]} records", do)
    if linked is True:
        found = RecordLinkage()(*tables).records
        assert found is not None
        return np.asarray(found) > 0.5
    flags = check_flags("linked", linked)
    if len(flags) != lengths[0]:
        raise InputError("linked must be True or one flag per record", len(flags), f"Give {lengths[0]} flags")
    return np.array(flags, dtype=bool)


def _columns_to_draw(tables: Sequence[pd.DataFrame], columns: Sequence[Hashable] | None, most: int) -> list[Hashable]:
    numeric = [c for c in tables[0].columns if all(c in t and pd.api.types.is_numeric_dtype(t[c]) for t in tables)]
    if columns is None:
        return numeric[:most]
    asked = list(as_tuple(columns))
    strange = [c for c in asked if not is_label(c) or c not in set(numeric)]
    if strange:
        do = suggest(str(strange[0]), [str(c) for c in numeric])
        raise InputError("columns must be numeric columns of both files", strange, do)
    return asked


def tables(
    found: Measured, of: str = "S_pMSE", ax: Axes | None = None, *, title: str | None = None, style: str | None = None
) -> Axes:
    """Draw a comparison of the tables of all pairs of columns, single columns on the diagonal, and return the Axes.

    Parameters
    ----------
    found : Measured
        What `TableUtility(way=[1, 2])` gave; of larger tables each pair shows the mean of those that it is part of.
    of : str
        Which comparison, as ``found.table`` names them. ``"S_pMSE"`` is about 1 for another sample of the same law.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    title : str, optional
        Written above.

    Examples
    --------
    >>> from ruvdecision.measures import TableUtility
    >>> x = pd.DataFrame({"sex": list("mmff"), "job": list("abab"), "age": [1, 2, 3, 4]})
    >>> tables(TableUtility(way=[1, 2])(x, x)).get_xlabel()
    'S_pMSE   ← better'
    """
    table = found.table if isinstance(found, Measured) else None
    if table is None or "VW" not in table.columns:
        do = "Write tables(TableUtility(way=[1, 2])(original, released))"
        raise InputError("tables draws what TableUtility(way=...) gives", kind_of(found), do)
    check_choice("of", of, list(table.columns))
    sets = [name.split(" x ") for name in table.index]
    names = list(dict.fromkeys(name for chosen in sets for name in chosen))
    total, count = np.zeros((len(names), len(names))), np.zeros((len(names), len(names)))
    for chosen, value in zip(sets, table[of].to_numpy(dtype=np.float64), strict=True):
        at = [names.index(name) for name in chosen]
        for i, j in itertools.permutations(at, 2) if len(at) > 1 else [(at[0], at[0])]:
            total[i, j] += value
            count[i, j] += 1
    shown = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    with axes_on(style, ax, (1.5 + 0.6 * len(names), 1.2 + 0.55 * len(names))) as ax:
        image = ax.imshow(shown, cmap="viridis_r", vmin=0.0)
        ax.figure.colorbar(image, ax=ax)
        ax.set_xticks(range(len(names)), [as_literal_text(n) for n in names], rotation=40, ha="right")
        ax.set_yticks(range(len(names)), [as_literal_text(n) for n in names])
        ax.set_xlabel(f"{of}   ← better")
        set_title(ax, title)
    return ax
