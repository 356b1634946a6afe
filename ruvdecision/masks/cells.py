"""Suppressing cells of a table of counts, with or without its margins."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..checks import (
    Seed,
    as_float_array,
    as_generator,
    check_distinct,
    check_index,
    check_integer,
    check_sequence,
    is_flag,
    is_integer,
)
from ..errors import InputError, kind_of
from ..protocols import Array
from .base import Mask
from .frame import Frame

Axes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """What goes out of a table: its cells (missing where suppressed), some margins, and the total.

    ``margins`` maps the axes that a margin keeps to its counts: ``(0,)`` are the row totals of a two-way table.
    """

    cells: Array
    margins: dict[Axes, NDArray[np.int64]]
    total: int

    @classmethod
    def of(cls, table: Any) -> PublishedTable:
        """A table with all of its cells, or what has gone out of it already."""
        if isinstance(table, PublishedTable):
            return table
        counts = as_counts(table)
        return cls(counts, {}, int(counts.sum()))

    def margin(self, axes: Axes) -> NDArray[np.int64] | None:
        """The counts of a margin, where it is there or all cells are."""
        if axes in self.margins or np.isnan(self.cells).any():
            return self.margins.get(axes)
        return margin_of(self.cells, axes).astype(np.int64)

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for equal publications; for look-up tables."""
        return (self.cells.tobytes(), *((axes, m.tobytes()) for axes, m in sorted(self.margins.items())))


class ReleasedCells(np.ndarray[Any, np.dtype[np.float64]]):
    """An array of released cells that knows what was published beside it. Parts and results of it are plain cells."""

    published: PublishedTable | None

    @classmethod
    def of(cls, cells: Array, published: PublishedTable) -> ReleasedCells:
        """Attach what was published to an array of cells."""
        array = cells.view(cls)
        array.published = published
        return array

    def __array_finalize__(self, source: Any) -> None:
        self.published = None


@dataclass(frozen=True, repr=False)
class SuppressCells(Mask):
    """Publish a table of counts without some of its cells.

    The total is always published. `release` gives back the table with missing values in the suppressed cells, and
    carries the margins along where it can (an array's ``published``, a frame's ``attrs``); `publish` gives both.

    Parameters
    ----------
    cells : "all" or list of positions, default "all"
        The suppressed cells, each as a tuple with one position per axis: ``[(0, 1), (1, 1)]``.
    margins : bool or list of axes, default True
        The published margins. True: every margin over one axis (row and column totals of a two-way table, all
        two-way margins of a three-way table), which imply all smaller ones. False: the total alone. A list names
        the axes that each margin keeps, ``[(0,)]`` for row totals alone.

    >>> SuppressCells([(0, 1)], margins=False).release([[50, 63], [70, 75]])
    array([[50., nan],
           [70., 75.]])
    >>> SuppressCells([(0, 1)]).publish([[50, 63], [70, 75]]).margins[(0,)]
    array([113, 145])
    """

    cells: Any = "all"
    margins: Any = True

    opaque: ClassVar[str] = "it publishes a table of counts, which TableBelief and FiniteBelief understand"

    def __post_init__(self) -> None:
        if isinstance(self.cells, str):
            if self.cells != "all":
                raise InputError(
                    'cells must be "all" or a list of positions', self.cells, "Write cells=[(0, 1), (1, 1)]"
                )
        else:
            cells = [_as_positions("cells", c) for c in check_sequence("cells", self.cells)]
            do = "Name each cell once, and use Release() to publish the whole table"
            object.__setattr__(self, "cells", check_distinct("cells", cells, do))
        if is_flag(self.margins):
            object.__setattr__(self, "margins", bool(self.margins))
        else:
            object.__setattr__(
                self, "margins", tuple(_as_positions("margins", m) for m in check_sequence("margins", self.margins))
            )

    def release(self, data: Any, rng: Seed = None) -> Any:
        """Give back the table, of the same kind, with missing values in the suppressed cells."""
        as_generator(rng)  # nothing is drawn, but a seed that is none is refused as everywhere
        counts = as_counts(data, missing=True)
        # Margins of a table that has lost cells cannot be worked out any more.
        published = self.publish(data) if not np.isnan(counts).any() and self.axes(counts.ndim) else None
        counts[self.hidden(counts.shape)] = np.nan
        if not isinstance(data, (pd.DataFrame, pd.Series)):
            return counts if published is None else ReleasedCells.of(counts, published)
        if isinstance(data, pd.DataFrame):
            frame: Any = pd.DataFrame(counts, index=data.index, columns=data.columns)
        else:
            frame = pd.Series(counts, index=data.index, name=data.name)
        if published is not None:
            frame.attrs["published"] = published
        return frame

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        counts = as_counts(frame.table, missing=True)
        hidden = self.hidden(counts.shape if frame.kind in ("frame", "matrix") else counts.shape[:1])
        counts[hidden.reshape(counts.shape)] = np.nan
        return frame.replace(counts, range(counts.shape[1]))

    def hidden(self, shape: Axes) -> NDArray[np.bool_]:
        """Which cells of a table of this shape are suppressed."""
        hidden = np.zeros(shape, dtype=bool)
        if self.cells == "all":
            hidden[...] = True
            return hidden
        for cell in self.cells:
            if len(cell) != len(shape):
                raise InputError(
                    f"A cell of this table has {len(shape)} positions", list(cell), "Give one position per axis"
                )
            hidden[tuple(check_index("cells", c, size) for c, size in zip(cell, shape, strict=True))] = True
        return hidden

    def axes(self, dimensions: int) -> list[Axes]:
        """The axes that each published margin keeps."""
        if self.margins is True:
            return list(itertools.combinations(range(dimensions), dimensions - 1)) if dimensions > 1 else []
        if self.margins is False:
            return []
        kept = [tuple(sorted(check_index("margins", a, dimensions) for a in axes)) for axes in self.margins]
        for axes in kept:
            if len(set(axes)) != len(axes) or len(axes) >= dimensions:
                raise InputError(
                    "A margin keeps some but not all axes, each once", list(axes), "Write (0,) for the totals of axis 0"
                )
        return [axes for axes in dict.fromkeys(kept) if axes]

    def publish(self, table: Any) -> PublishedTable:
        """Give back what a user of the published table sees: cells, margins and total.

        An already published table may be masked further: margins go out only if both masks publish them.
        """
        shown = PublishedTable.of(table)
        margins = {axes: m for axes in self.axes(shown.cells.ndim) if (m := shown.margin(axes)) is not None}
        return PublishedTable(np.where(self.hidden(shown.cells.shape), np.nan, shown.cells), margins, shown.total)


def publish(mask: Mask, table: Any) -> PublishedTable:
    """What a mask of tables publishes, step by step: `SuppressCells`, `Suppress`, `Release` and chains of them.

    >>> publish(SuppressCells([(0, 0)]) | SuppressCells([(1, 1)]), [[1, 2], [3, 4]]).cells
    array([[nan,  2.],
           [ 3., nan]])
    """
    current = PublishedTable.of(table)
    for part in mask.parts:
        current = part.publish(current)
    return current


def published_together(masks: Sequence[Mask], table: Any) -> PublishedTable:
    """What several masks publish of one table, side by side.

    >>> (SuppressCells([(0, 0)]) & SuppressCells([(0, 0), (1, 1)])).publish([[1, 2], [3, 4]]).cells
    array([[nan,  2.],
           [ 3.,  4.]])
    """
    found = [publish(mask, table) for mask in masks]
    cells = found[0].cells
    for other in found[1:]:
        cells = np.where(np.isnan(cells), other.cells, cells)
    return PublishedTable(cells, {k: v for one in found for k, v in one.margins.items()}, found[0].total)


def as_counts(data: Any, *, missing: bool = False) -> Array:
    """Return a new float array of non-negative whole numbers; missing values pass only where they may."""
    try:
        counts = as_float_array("table", data).copy()
    except InputError:
        raise InputError(
            "A table is made of counts", kind_of(data), "Give an array of non-negative whole numbers"
        ) from None
    if counts.ndim == 0 or counts.size == 0:
        raise InputError("A table has at least one cell", f"shape {counts.shape}", "Give an array of counts")
    seen = counts[~np.isnan(counts)]
    if not missing and seen.size != counts.size:
        raise InputError(
            "The table has missing cells",
            f"{counts.size - seen.size} of them",
            "Give the complete table; the mask does the suppressing",
        )
    wrong = (seen < 0) | ~np.isfinite(seen) | (seen != np.rint(seen))
    if wrong.any():
        raise InputError(
            "A table is made of non-negative whole numbers", f"{int(wrong.sum())} other cells", "Check the counts"
        )
    return counts


def margin_of(counts: Array, axes: Axes) -> Array:
    """Sum a table over all axes but the named ones."""
    return np.asarray(counts.sum(axis=tuple(a for a in range(counts.ndim) if a not in axes)))


def _as_positions(name: str, value: Any) -> Axes:
    return (int(value),) if is_integer(value) else tuple(check_integer(name, v) for v in check_sequence(name, value))
