"""Targets that are one quantity: a record, all of them, somebody else's, a parameter, an average, a cell."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import as_float_array, check_integers, check_shares, check_text, checked, is_integer
from ..errors import InputError
from ..protocols import Array
from .base import BaseTarget
from .names import Names, check_name, check_row, is_name
from .terms import Files, Kind, LinearForm, Term, pick_column


@dataclass(frozen=True)
class Record(BaseTarget):
    """The confidential record of one respondent: by its row (counted from 0), or by its label in the data's index.

    ``column`` picks one variable of it, by name or position. A whole number is always a position: turn an index of
    whole numbers into text to name its rows.

    >>> Record(3)
    Record(3)
    >>> Record("id-17", column="income").describe()
    "'income' of record 'id-17'"
    """

    row: Any = checked(MISSING, check_row)
    column: Any = checked(None, check_name)

    if TYPE_CHECKING:

        def __init__(self, row: int | str | tuple[Hashable, ...], column: Hashable | None = None) -> None: ...

    def __repr__(self) -> str:
        return f"Record({self.row!r}" + ("" if self.column is None else f", column={self.column!r}") + ")"

    @property
    def term(self) -> Term | None:
        return None if self.column is not None else Term(Kind.RECORD, self.row)

    @property
    def terms(self) -> tuple[Term, ...]:
        return (Term(Kind.RECORD, self.row),)

    @property
    def entry(self) -> tuple[int, int] | None:
        return None if self.column is None else (self.row, self.column)

    def in_files(self, files: Files) -> Array:
        return pick_column(files.record(self.row), self.column)

    def linear(self, k: int, number: bool = False, widths: Mapping[str, int] | None = None) -> LinearForm:
        return LinearForm.of_term(self.terms[0], k, number).column(self.column)

    @property
    def has_names(self) -> bool:
        return is_name(self.row) or is_name(self.column)

    def with_positions(self, names: Names) -> Record:
        # The only column there is, is the record.
        column = None if self.column is None or len(names.columns) == 1 else self.column
        if self.column is not None and (column is None or is_name(column)):
            found = names.column(self.column)
            column = None if column is None else found
        return Record(names.row(self.row), column)

    def with_rows_moved(self, place: Callable[[int], int]) -> Record:
        return Record(int(place(self.row)), self.column)

    def describe(self) -> str:
        return ("" if self.column is None else f"{_column_in_words(self.column)} of ") + f"record {self.row!r}"


def _column_in_words(column: object) -> str:
    return f"column {column}" if is_integer(column) else repr(column)


@dataclass(frozen=True)
class Records(BaseTarget):
    """All confidential records at once.

    Losses add up over the records. Weights are those of one record's variables, the same for every record, or one for
    each entry of the file, record by record.
    """

    term = Term(Kind.FILE)

    def describe(self) -> str:
        return "all records"


@dataclass(frozen=True)
class NewRecord(BaseTarget):
    """A record of a respondent who is not in the file, drawn from the same population."""

    term = Term(Kind.NEW)

    def describe(self) -> str:
        return "the record of somebody outside the file"


@dataclass(frozen=True)
class Parameter(BaseTarget):
    """A parameter of the population model, by name.

    ``component`` picks one entry of a parameter: its position among all of them in a row, or its name in the model's
    coords (a `NormalBelief`'s columns); a tuple has one name per axis.

    >>> Parameter("mu")
    Parameter('mu')
    >>> Parameter("beta", component="age").describe()
    "the parameter beta['age']"
    """

    name: str = checked(MISSING, check_text, do='A parameter is named by text: write Parameter("mu")')
    component: Any = checked(None, check_row)

    if TYPE_CHECKING:

        def __init__(self, name: str, component: int | str | tuple[Hashable, ...] | None = None) -> None: ...

    def __repr__(self) -> str:
        return f"Parameter({self.name!r}" + ("" if self.component is None else f", component={self.component!r}") + ")"

    @property
    def has_names(self) -> bool:
        return is_name(self.component)

    def with_positions(self, names: Names) -> Parameter:
        return Parameter(self.name, names.entry(self.name, self.component)) if self.has_names else self

    @property
    def term(self) -> Term:
        return Term(Kind.PARAMETER, name=self.name, component=self.component)

    def linear(self, k: int, number: bool = False, widths: Mapping[str, int] | None = None) -> LinearForm:
        if self.component is not None:
            return LinearForm(self.terms, np.eye(1), np.zeros(1), True)
        size = (0 if number else k) if widths is None else widths.get(self.name, 0)
        return LinearForm.of_term(self.term, size or 1, size == 0)

    def describe(self) -> str:
        return f"the parameter {self.name}" + ("" if self.component is None else f"[{self.component!r}]")


@dataclass(frozen=True, init=False)
class Average(BaseTarget):
    """The mean of the confidential records in the file (not of the population).

    Parameters
    ----------
    weights : list or Series, optional
        Survey weights, one per record: the target is the sum of w x over the sum of w. They are public. Those of a
        Series meet the records by its index. A total is a function of it, ``Functional([[N]], of=Average(weights=w))``.
    column : name or position, optional
        The variable whose average is meant; all of them if not given.

    >>> Average(weights=[1, 3]).of(np.array([10.0, 20.0]))
    np.float64(17.5)
    """

    weights: tuple[float, ...] | None
    column: Any
    labels: tuple[Hashable, ...] | None = field(init=False, default=None)
    """Whose the weights are, by the labels of a Series."""

    def __init__(self, weights: ArrayLike | None = None, column: Hashable | None = None) -> None:
        shares, labels = None, None
        if weights is not None:
            do = "Give one weight per record, none negative"
            given = np.asarray(as_float_array("weights", weights))
            shares = tuple(check_shares("weights", given, (max(given.size, 1),), do).tolist())
            index = getattr(weights, "index", None)  # a Series has one, and a list a method of that name
            labels = None if index is None or callable(index) else tuple(index)
        for key, value in (
            ("weights", shares),
            ("column", None if column is None else check_name("column", column)),
            ("labels", labels),
        ):
            object.__setattr__(self, key, value)

    @property
    def term(self) -> Term | None:
        return Term(Kind.AVERAGE) if self.weights is None and self.column is None else None

    @property
    def terms(self) -> tuple[Term, ...]:
        if self.weights is None:
            return (Term(Kind.AVERAGE),)
        return tuple(Term(Kind.RECORD, row) for row in self._weights_by_row)

    @property
    def _weights_by_row(self) -> dict[int, float]:
        return {row: weight for row, weight in enumerate(self.weights or ()) if weight > 0}

    def rows_in(self, n: int) -> NDArray[np.int64]:
        if self.weights is not None and len(self.weights) != n:
            raise InputError(f"weights must be {n}, one per record", len(self.weights), "Give each record its weight")
        return super().rows_in(n)

    def in_files(self, files: Files) -> Array:
        if self.weights is None:
            return pick_column(files.average(), self.column)
        total = sum(weight * files.record(row) for row, weight in self._weights_by_row.items())
        return pick_column(np.asarray(total), self.column)

    def linear(self, k: int, number: bool = False, widths: Mapping[str, int] | None = None) -> LinearForm:
        if self.weights is None:
            return LinearForm.of_term(self.terms[0], k, number).column(self.column)
        return LinearForm.of_rows(self._weights_by_row, k, number).column(self.column)

    @property
    def has_names(self) -> bool:
        return self.labels is not None or is_name(self.column)

    def with_positions(self, names: Names) -> Average:
        weights, column = self.weights, None if self.column is None else names.column(self.column)
        if self.labels is not None and names.rows is not None and weights is not None:
            own, given = dict(zip(self.labels, weights, strict=True)), list(names.rows)
            if len(own) != len(weights) or set(own) != set(given):
                # Labels may be names of people: they are not listed.
                got = f"{len(set(given) - set(own))} records without one, {len(set(own) - set(given))} of nobody"
                raise InputError("weights must have the labels of the records", got, "Give weights=data['weight']")
            weights = tuple(own[label] for label in given)
        return Average(weights, None if len(names.columns) == 1 else column)

    def __repr__(self) -> str:
        said = ["" if self.weights is None else f"weights=<{len(self.weights)} numbers>"]
        said += ["" if self.column is None else f"column={self.column!r}"]
        return f"Average({', '.join(filter(None, said))})"

    def describe(self) -> str:
        of = "" if self.column is None else f"{_column_in_words(self.column)} of "
        return f"the {'' if self.weights is None else 'weighted '}average of {of}the records in the file"


@dataclass(frozen=True)
class Cell(BaseTarget):
    """The count in one cell of a table, by its positions, one per axis.

    >>> Cell((0, 1))
    Cell((0, 1))
    """

    index: tuple[int, ...] = checked(MISSING, check_integers, do="Write Cell((0, 1))")

    def __repr__(self) -> str:
        return f"Cell({self.index})"

    @property
    def term(self) -> Term:
        return Term(Kind.CELL, index=self.index)

    def describe(self) -> str:
        return f"the count in cell {self.index}"
