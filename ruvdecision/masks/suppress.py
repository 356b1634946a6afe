"""Suppressing everything, some columns, some rows, or some columns of some rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..channels.layout import Partition
from ..channels.steps import About, Drop, Step
from ..checks import check_index, check_integer
from ..errors import InputError, UnsupportedError
from ..protocols import Array
from .base import Mask
from .columnkinds import as_columns


@dataclass(frozen=True, repr=False)
class Suppress(Mask):
    """Release nothing, or nothing of the named columns and rows.

    Suppressed entries become missing values; rows and columns stay in place. In a DataFrame integers become nullable
    ``Int64`` and booleans ``boolean`` in columns that get a blank; in an array they become floating point.

    Parameters
    ----------
    columns : name, position or list of them, optional
        Columns to suppress; all of them if not given.
    rows : position or list of them, optional
        Rows to suppress, counted from 0; all of them if not given.

    >>> Suppress(rows=[0]).release([1.0, 2.0])
    array([nan,  2.])
    """

    columns: Any = None
    rows: Any = None

    def __post_init__(self) -> None:
        for name in ("columns", "rows"):
            value = as_columns(name, getattr(self, name), empty=True)
            if value is not None and len(value) == 0:
                raise InputError(
                    f"{name} must not be empty", [], f"Leave {name} out to suppress all of them, or use Release()"
                )
            if name == "rows" and value is not None:
                value = tuple(check_integer("rows", r) for r in value)
            object.__setattr__(self, name, value)

    def steps(self, about: About, numbers: Array) -> list[Step]:
        rows = None
        if self.rows is not None:
            labels = np.zeros(about.n, dtype=np.int64)
            labels[self._rows(about.n)] = 1
            rows = Partition.of(labels, joins=False)
        return [Drop(columns=about.positions(self.columns), rows=rows)]

    def publish(self, table: Any) -> Any:
        """Suppressing rows, columns or everything of a table takes its margins away too."""
        from .cells import PublishedTable

        current = table if isinstance(table, PublishedTable) else PublishedTable(table, {}, int(table.sum()))
        shape = current.cells.shape
        if self.rows is None and self.columns is None:
            return PublishedTable(np.full(shape, np.nan), {}, current.total)
        if len(shape) > 2:
            raise UnsupportedError(
                f"{self} names rows and columns, and the table has {len(shape)} axes", do="Use SuppressCells"
            )
        hidden = np.isnan(np.asarray(self.release(np.ones(shape)), dtype=np.float64))
        return PublishedTable(np.where(hidden, np.nan, current.cells), {}, current.total)

    def _rows(self, n: int) -> list[int]:
        return list(range(n)) if self.rows is None else [check_index("rows", r, n) for r in self.rows]


NOTHING = Suppress()
"""The mask that releases nothing: U after it is U before any release."""
