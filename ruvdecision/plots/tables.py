"""Pairs of columns whose tables a release keeps well or badly, as a square of colours."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from ..checks import suggest
from ..errors import InputError, kind_of
from ..measures.base import Measured
from .theme import axes_on, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    if of not in table.columns:
        raise InputError("There is no such comparison of tables", of, suggest(str(of), list(table.columns)))
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
        ax.set_xticks(range(len(names)), [plain(n) for n in names], rotation=40, ha="right")
        ax.set_yticks(range(len(names)), [plain(n) for n in names])
        ax.set_xlabel(f"{of}   ← better")
        if title is not None:
            ax.set_title(plain(title))
    return ax
