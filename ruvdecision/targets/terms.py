"""What targets are functions of: terms, their weights in a linear target, and the files they are read from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ..checks import check_index
from ..errors import UnsupportedError
from ..protocols import Array


class Kind(Enum):
    """The quantities that targets are functions of."""

    RECORD = "record"
    AVERAGE = "average"
    NEW = "new record"
    PARAMETER = "parameter"
    FILE = "file"
    """All records, in their order."""
    CELL = "cell"


@dataclass(frozen=True)
class Term:
    """One quantity that a target is a function of: which record, which parameter, which cell."""

    kind: Kind
    row: int = 0
    name: str = ""
    component: int | None = None
    index: tuple[int, ...] = ()

    @property
    def is_outside_file(self) -> bool:
        """Whether it is no function of the records in the file."""
        return self.kind in (Kind.PARAMETER, Kind.NEW)

    def in_files(self, files: Files) -> Array:
        """Its value in each of many files, ``(points,)`` or ``(points, m)``."""
        if self.kind is Kind.RECORD:
            return files.record(self.row)
        if self.kind is Kind.AVERAGE:
            return files.average()
        if self.kind is Kind.NEW:
            return files.new_record()
        if self.kind is Kind.FILE:
            return flatten_points(files.records())
        if self.kind is Kind.CELL:
            return files.cell(self.index)
        value = files.parameter(self.name)
        if self.component is None:
            return value if value.ndim == 1 else flatten_points(value)
        return np.asarray(
            flatten_points(value)[:, check_index("component", self.component, flatten_points(value).shape[1])]
        )


@dataclass(frozen=True, eq=False)
class LinearForm:
    """A target as matrix @ (stacked terms) + constant; a term has k entries, a component of a parameter one."""

    terms: tuple[Term, ...]
    matrix: Array
    constant: Array
    number: bool
    """Whether the target is a number rather than a vector."""
    plain: bool = False
    """True if the target is its only term, and the matrix the identity."""

    @classmethod
    def of_term(cls, term: Term, k: int, number: bool) -> LinearForm:
        """The target that is one term."""
        return cls((term,), np.eye(k), np.zeros(k), number, plain=True)

    @classmethod
    def of_rows(cls, weights: Mapping[int, float], k: int, number: bool = False) -> LinearForm:
        """A weighted total of records: one weight per row."""
        matrix: Array = np.asarray(np.kron(list(weights.values()), np.eye(k)), dtype=np.float64)
        return cls(tuple(Term(Kind.RECORD, row) for row in weights), matrix, np.zeros(k), number)

    def column(self, column: int | None) -> LinearForm:
        """One entry of it, a number; itself if none is named."""
        if column is None:
            return self
        place = check_index("column", column, len(self.matrix))
        return LinearForm(self.terms, self.matrix[[place]], self.constant[[place]], True)


class Files:
    """Many files, one per point, with what lies behind them: what a target's value is read from.

    Everything has the points first: ``records`` is ``(points, n)`` where records are numbers, else ``(points, n, k)``.
    An engine that knows a quantity without the whole file overrides the method that gives it.
    """

    def __init__(
        self,
        records: Array | None = None,
        parameters: Mapping[str, Array] | None = None,
        new: Array | None = None,
        do: str = "Ask for a record, or a function of records",
    ) -> None:
        self._records, self.parameters, self._new, self.do = records, parameters or {}, new, do

    def records(self) -> Array:
        """The files."""
        if self._records is None:
            raise UnsupportedError("The whole file is not known here", do=self.do)
        return self._records

    def record(self, row: int) -> Array:
        """The record of a row."""
        files = self.records()
        return np.asarray(files[:, check_index("The row of a Record", row, files.shape[1])])

    def average(self) -> Array:
        """The mean of the records."""
        return np.asarray(self.records().mean(axis=1))

    def ranked(self, rank: Callable[[int], int]) -> Array:
        """The record of a rank; of several variables each is ranked apart."""
        files = self.records()
        at = rank(files.shape[1])
        if at == 1:
            return np.asarray(files.min(axis=1))
        return np.asarray(np.partition(files, at - 1, axis=1)[:, at - 1])

    def new_record(self) -> Array:
        """The record of somebody outside the file."""
        if self._new is None:
            what = "The truth of the record of somebody outside the file is not in the records"
            raise UnsupportedError(what, do=self.do)
        return self._new

    def parameter(self, name: str) -> Array:
        """The parameter of this name."""
        if name not in self.parameters:
            raise UnsupportedError(f"The truth of the parameter {name} is not in the records", do=self.do)
        return np.asarray(self.parameters[name])

    def cell(self, index: tuple[int, ...]) -> Array:
        """The count in a cell, where the file is a table."""
        return np.asarray(np.moveaxis(self.records(), 0, -1)[index])


def flatten_points(values: Array) -> Array:
    """Values ``(points, ...)`` with one axis after the points."""
    return values.reshape(len(values), -1)


def pick_column(values: Array, column: int | None) -> Array:
    """One column of values ``(points,)`` or ``(points, k)``; all of them if none is named."""
    if column is None:
        return values
    table = flatten_points(values)
    return np.asarray(table[:, check_index("column", column, table.shape[1])])
