"""Which rows and columns go out, and in which order; all of them, or none."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..channels.layout import Partition
from ..channels.steps import Drop, FileFacts, PermuteRows, SampleRows, Step
from ..checks import Columns, as_tuple, check_filled, check_index, check_integer, check_number, check_one_of, checked
from ..errors import InputError, UnsupportedError
from ..protocols import Array
from ..targets import Names
from ..targets.names import check_row, is_name
from .base import Mask
from .columns import as_columns
from .frame import Frame


@dataclass(frozen=True, repr=False)
class _Entries(Mask):
    """A mask of the entries in some columns and rows."""

    columns: Columns = checked(None, as_columns, empty=True)
    rows: Any = checked(None, as_columns, empty=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, given in (("columns", self.columns), ("rows", self.rows)):
            if given is not None:
                check_filled(
                    name, as_tuple(given), f"Leave {name} out to name all of them, or use Release() or Suppress()"
                )
        if self.rows is not None:
            object.__setattr__(self, "rows", tuple(check_row("rows", r) for r in self.rows))

    @property
    def by_label(self) -> bool:  # type: ignore[override]
        return any(map(is_name, self.rows or ()))

    def with_rows_by_position(self, place: Callable[[Hashable], int]) -> Mask:
        return replace(self, rows=tuple(place(r) for r in self.rows))

    def _step_by_step(self, frame: Frame, rng: np.random.Generator) -> tuple[Frame, Any]:
        found = self.with_rows_by_position(Names(list(frame.labels.index)).row) if self.by_label else self
        return Mask._step_by_step(found, frame, rng)

    def _partition_by_listing(self, n: int, listed: int, others: int) -> Partition:
        """All rows in two kinds: these labels for the rows that are listed and for the others."""
        labels = np.full(n, others, dtype=np.int64)
        labels[[check_index("rows", r, n) for r in self.rows]] = listed
        return Partition.of(labels, joins=False)


@dataclass(frozen=True, repr=False)
class Release(_Entries):
    """The original records go out unaltered: all of them, or those of the named columns and rows and nothing else.

    What is not released becomes missing, as with `Suppress`; rows and columns stay in place. A user who knows some
    records is ``User(..., knows=Release(rows=[1, 2]))``.

    Parameters
    ----------
    columns : name, position or list of them, optional
        Columns to release; all of them if not given.
    rows : position, label or list of them, optional
        Rows to release, counted from 0 or by their labels in the index; all of them if not given.

    >>> Release().release([1.0, 2.0])
    array([1., 2.])
    >>> Release(rows=[1]).release([1.0, 2.0])
    array([nan,  2.])
    """

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        given, steps = about.positions(self.columns), list[Step]()
        if len(given) < about.k:
            steps.append(Drop(columns=tuple(j for j in range(about.k) if j not in given)))
        if self.rows is not None:
            steps.append(Drop(columns=given, rows=self._partition_by_listing(about.n, listed=0, others=1)))
        return steps

    def publish(self, table: Any) -> Any:
        if self != UNMASKED:
            raise UnsupportedError(f"{self} releases a part of a file", do="Use SuppressCells with a TableBelief")
        return table


UNMASKED = Release()
"""The mask that changes nothing."""


@dataclass(frozen=True, repr=False)
class Suppress(_Entries):
    """Release nothing, or nothing of the named columns and rows.

    Suppressed entries become missing values; rows and columns stay in place. In a DataFrame integers become nullable
    ``Int64`` and booleans ``boolean`` in columns that get a blank; in an array they become floating point.

    Parameters
    ----------
    columns : name, position or list of them, optional
        Columns to suppress; all of them if not given.
    rows : position, label or list of them, optional
        Rows to suppress, counted from 0 or by their labels in the index; all of them if not given.

    >>> Suppress(rows=[0]).release([1.0, 2.0])
    array([nan,  2.])
    """

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        rows = None if self.rows is None else self._partition_by_listing(about.n, listed=1, others=0)
        return [Drop(columns=about.positions(self.columns), rows=rows)]

    def publish(self, table: Any) -> Any:
        """Suppressing rows, columns or everything of a table takes its margins away too."""
        from .cells import PublishedTable

        current = PublishedTable.of(table)
        shape = current.cells.shape
        if self.rows is None and self.columns is None:
            return PublishedTable(np.full(shape, np.nan), {}, current.total)
        if len(shape) > 2:
            raise UnsupportedError(
                f"{self} names rows and columns, and the table has {len(shape)} axes", do="Use SuppressCells"
            )
        hidden = np.isnan(np.asarray(self.release(np.ones(shape)), dtype=np.float64))
        return PublishedTable(np.where(hidden, np.nan, current.cells), {}, current.total)


NOTHING = Suppress()
"""The mask that releases nothing: U after it is U before any release."""


@dataclass(frozen=True, repr=False)
class Subsample(Mask):
    """Release a simple random sample of the records, in their order and with their labels.

    The labels tell whose record is in the sample. A user's uncertainty is averaged over the draw of the
    sample. Follow it with `Shuffle` if the labels are taken off.

    Parameters
    ----------
    size : int, optional
        Number of records to keep.
    share : float, optional
        Share of the records to keep, in (0, 1]; rounded to at least one record.
    """

    size: int | None = checked(None, check_integer, low=1)
    share: float | None = checked(None, check_number, low=0, high=1, open_low=True)

    def __post_init__(self) -> None:
        check_one_of("Subsample", {"size": self.size, "share": self.share}, "Write Subsample(size=100)")
        super().__post_init__()

    def kept_count(self, n: int) -> int:
        """How many of ``n`` records are kept."""
        if self.size is None:
            return max(1, round(float(self.share or 0) * n))
        if self.size > n:
            what = f"Subsample(size={self.size}) needs at least {self.size} records"
            raise InputError(what, n, "Ask for a smaller sample")
        return self.size

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        kept = self.kept_count(about.n)
        return [SampleRows(kept=kept, rows=None if kept == about.n else Partition.sample(about.n, kept))]


@dataclass(frozen=True, repr=False)
class Shuffle(Mask):
    """Put whole records in random order, all orders alike, so that a row tells nothing about whose record it is.

    The index keeps its labels in their old order: it is the records that move. An intruder after one record
    then faces a mixture over all rows.

    Examples
    --------
    >>> sorted(Shuffle().release([3.0, 1.0, 2.0], rng=1).tolist())
    [1.0, 2.0, 3.0]
    """

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        return [PermuteRows()]
