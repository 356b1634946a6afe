"""Suppressing everything, some columns, some rows, or some columns of some rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..channels.layout import Partition
from ..channels.linear import LinearChannel
from ..checks import check_columns, check_index, check_integer
from ..errors import InputError
from ..protocols import Array
from .base import Mask
from .columnkinds import as_columns, blanked, put
from .frame import Frame

if TYPE_CHECKING:
    from ..channels.likelihood import Observed

__all__ = ["Suppress"]


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

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        blank = np.isin(np.arange(frame.n), self._rows(frame.n))
        return put(
            frame, {i: blanked(frame.table.iloc[:, i], blank, frame.kind) for i in frame.positions(self.columns)}
        )

    def partition(self, n: int) -> Partition | None:
        if self.rows is None:
            return None
        labels = np.zeros(n, dtype=np.int64)
        labels[self._rows(n)] = 1
        return Partition.of(labels, joins=False)

    def linear(self, channel: LinearChannel, numbers: Array) -> LinearChannel:
        names = channel.names or tuple(range(channel.columns))
        columns = range(channel.columns) if self.columns is None else check_columns("columns", self.columns, names)
        return channel.drop(list(columns), label=None if self.rows is None else 1)

    def back(self, observed: Observed) -> Observed:
        """Nothing is told about suppressed entries; an average later in the chain leaves them out."""
        from ..channels.likelihood import Silent, join

        rows, positions = np.array(self._rows(observed.n)), observed.positions(self.columns)
        if self.rows is not None and len(rows) < observed.n:
            observed.refuse_uneven(self)
        rest = np.setdiff1d(np.arange(observed.n), rows)
        columns = list(observed.columns)
        for j in positions:
            columns[j] = join(observed.n, [(rows, Silent(len(rows))), (rest, columns[j].take(rest))])
        joint = observed.joint
        if joint is not None:
            centre = joint.centre.copy()
            centre[np.ix_(rows, np.array(positions))] = np.nan
            joint = replace(joint, centre=centre)
        averages = None if observed.averages is None else observed.averages.drop(rows, positions)
        return observed.replace(columns=tuple(columns), joint=joint, averages=averages)

    def _rows(self, n: int) -> list[int]:
        return list(range(n)) if self.rows is None else [check_index("rows", r, n) for r in self.rows]
