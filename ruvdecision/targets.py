"""What a user wants to know: one record, all records, a parameter, a function of them.

A target says what it is, and nobody asks for its type. `BaseTarget` has everything that engines ask; a target of one's
own derives from it and writes `describe` and `of`, and `rows`, `linear` or `rank` where they hold:

    class Total(BaseTarget):
        rows = (0, 2, 5)

        def of(self, records, parameters=None):
            return records[0] + 2 * records[2] + records[5]

        def linear(self, k, number=False, widths=None):
            return LinearForm.of_rows({0: 1, 2: 2, 5: 1}, k, number)

        def describe(self):
            return "a weighted total"
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag

from .checks import (
    Columns,
    as_float_array,
    as_tuple,
    check_columns,
    check_fields,
    check_finite,
    check_index,
    check_integer,
    check_integers,
    check_list,
    check_number,
    check_shares,
    check_text,
    checked,
    is_integer,
    is_label,
    is_single,
    suggest,
)
from .errors import InputError, UnsupportedError, describe_failure
from .numerics.orderstatistics import percentile_rank
from .protocols import Array

__all__ = [
    "Average",
    "BaseTarget",
    "Cell",
    "EachRecord",
    "Files",
    "Functional",
    "Identity",
    "Kind",
    "LinearForm",
    "Maximum",
    "Minimum",
    "Names",
    "NewRecord",
    "OrderStatistic",
    "Parameter",
    "Percentile",
    "Record",
    "Records",
    "Term",
]

# -- what targets are made of ------------------------------------------------------------------------


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
    def outside(self) -> bool:
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
            return flat(files.records())
        if self.kind is Kind.CELL:
            return files.cell(self.index)
        value = files.parameter(self.name)
        if self.component is None:
            return value if value.ndim == 1 else flat(value)
        return np.asarray(flat(value)[:, check_index("component", self.component, flat(value).shape[1])])


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


@dataclass(frozen=True, eq=False)
class Names:
    """What rows, columns and the entries of parameters are called: whole numbers are positions, all else is a name."""

    rows: Sequence[Hashable] | None = None
    """Labels of the rows, None if there is no file that has any."""
    columns: Sequence[Hashable] = ()
    entries: Callable[[str], Sequence[Sequence[Hashable]]] = lambda name: ()
    """Names along each axis of a parameter; empty if it has none."""

    def row(self, label: Hashable) -> int:
        """Position of a row. Labels of other rows, which may be names of people, are not listed."""
        if is_integer(label):
            return int(label)
        if self.rows is None:
            do = "Pass data= (or a release) whose index has the labels, or count rows from 0"
            raise InputError("A record by its label needs a file with labels", label, do)
        found = [i for i, own in enumerate(self.rows) if own == label]
        if len(found) != 1:
            what = "Several rows have this label" if found else "No row has this label"
            raise InputError(what, label, "Look at the data's index; a whole number is a position, counted from 0")
        return found[0]

    def column(self, label: Hashable) -> int:
        """Position of a column."""
        if not self.columns:
            raise InputError("The columns have no names", label, "Give a DataFrame, or columns= to the belief")
        return check_columns("column", (label,), self.columns)[0]

    def entry(self, name: str, label: Hashable) -> int:
        """Position of an entry of a parameter among all of them in a row; a tuple has one name per axis."""
        axes = self.entries(name)
        wanted = label if isinstance(label, tuple) and len(axes) > 1 else (label,)
        if len(wanted) != len(axes):
            do = f'Write Parameter("{name}", component=...) with one name for each of its {len(axes)} axes'
            do = do if axes else "Give dims and coords in the model, or count components from 0"
            raise InputError(f"The entries of {name} have no such name", label, do)
        places = [_component_position(name, one, list(axis)) for one, axis in zip(wanted, axes, strict=True)]
        return int(np.ravel_multi_index(places, [len(axis) for axis in axes]))


def _component_position(name: str, label: Hashable, labels: list[Hashable]) -> int:
    if label in labels:
        return labels.index(label)
    if is_integer(label):
        return check_index(f"component of {name}", label, len(labels))
    raise InputError(f"No entry of {name} is called so", label, suggest(str(label), [str(own) for own in labels]))


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


def flat(values: Array) -> Array:
    """Values ``(points, ...)`` with one axis after the points."""
    return values.reshape(len(values), -1)


class BaseTarget:
    """What every target offers. One's own says `describe` and `of`; the rest has defaults."""

    rows: Sequence[int] | None = None
    """For a target of one's own: the records that it looks at; all of them if None."""
    asks_row: ClassVar[bool] = False
    """Whether it asks for a row of the release and not for a value (`Identity`)."""
    asks_each: ClassVar[bool] = False
    """Whether it stands for every record by itself (`EachRecord`)."""

    def __post_init__(self) -> None:
        check_fields(self)

    def describe(self) -> str:
        """A phrase for texts."""
        raise NotImplementedError

    def of(self, records: Array, parameters: Mapping[str, Array] | None = None) -> Any:
        """The value in a file ``(n,)`` or ``(n, k)``: a number or a vector."""
        given = {name: np.asarray(value)[None] for name, value in (parameters or {}).items()}
        return self.in_files(Files(np.asarray(records)[None], given, given.get(NEW)))[0]

    def in_files(self, files: Files) -> Array:
        """The value in each of many files, ``(points,)`` or ``(points, m)``.

        `of` is asked for all files in one call, with the points on the last axis, and believed where that agrees with
        asking for some files one by one.
        """
        if self.term is not None:
            return self.term.in_files(files)
        if type(self).of is BaseTarget.of:
            do = "Write its method of(records, parameters)"
            raise InputError("A target says its value in a file", type(self).__name__, do)
        if self.rows is None:
            records = files.records()
        else:
            some = [files.record(row) for row in self.rows]
            n = 1 + max(max(self.rows), max(-1 - min(self.rows), 0))
            records = np.full((len(some[0]), n, *some[0].shape[1:]), np.nan)
            for row, values in zip(self.rows, some, strict=True):
                records[:, row] = values
        names = list(files.parameters)

        def one(table: Array, *parameters: Array) -> Array:
            return np.asarray(self.of(table, dict(zip(names, parameters, strict=True))), dtype=np.float64)

        return over_points(one, [records, *(np.asarray(files.parameters[name]) for name in names)], self.describe())

    @property
    def term(self) -> Term | None:
        """The one quantity that it is, if it is one and no function of any."""
        return None

    @property
    def terms(self) -> tuple[Term, ...]:
        """The quantities that it is a function of, in their order."""
        if self.term is not None:
            return (self.term,)
        return (Term(Kind.FILE),) if self.rows is None else tuple(Term(Kind.RECORD, row) for row in self.rows)

    def is_a(self, kind: Kind) -> bool:
        """Whether it is one quantity of this kind."""
        return self.term is not None and self.term.kind is kind

    @property
    def verbatim(self) -> bool:
        """Whether the value is an entry, a parameter or the file itself as it stands, so that it may be a label."""
        return self.term is not None and not self.is_a(Kind.AVERAGE)

    def rows_in(self, n: int) -> NDArray[np.int64]:
        """The rows among ``n`` that it depends on, in ascending order."""
        if any(t.kind in (Kind.FILE, Kind.AVERAGE, Kind.CELL) for t in self.terms):
            return np.arange(n)
        rows = {check_index("The row of a Record", t.row, n) for t in self.terms if t.kind is Kind.RECORD}
        return np.array(sorted(rows), dtype=np.int64)

    def asks(self, kind: Kind) -> bool:
        """Whether it depends on a quantity of this kind."""
        return any(t.kind is kind for t in self.terms)

    def only(self, *kinds: Kind) -> bool:
        """Whether it depends on quantities of these kinds alone."""
        return all(t.kind in kinds for t in self.terms)

    @property
    def places_records(self) -> bool:
        """Whether it matters which record stands in which row."""
        return self.asks(Kind.RECORD) or (self.asks(Kind.FILE) and not self.ranked)

    def linear(self, k: int, number: bool = False, widths: Mapping[str, int] | None = None) -> LinearForm | None:
        """Weights on the terms if the target is affine in them, else None.

        Parameters
        ----------
        k : int
            Variables of a record.
        number : bool
            Whether a record is a number rather than a vector.
        widths : mapping, optional
            Entries of each parameter, 0 for a number; those of a record if not given.
        """
        if self.term is None or self.term.kind in (Kind.FILE, Kind.CELL):
            return None
        return LinearForm.of_term(self.term, k, number)

    @property
    def ranked(self) -> bool:
        """Whether it is the record of a rank."""
        return type(self).rank is not BaseTarget.rank

    @property
    def label(self) -> str:
        """A short name for tables and pictures."""
        return type(self).__name__.lower()

    def note(self, n: int) -> str:
        """What must be said about it in a file of ``n`` records, if anything."""
        return ""

    def rank(self, n: int) -> int | None:
        """The rank among ``n`` records, from 1, if it is the record of a rank."""
        return None

    @property
    def single_targets(self) -> tuple[BaseTarget, ...]:
        """The single targets that it stands for: itself, or some of the records that are meant."""
        return (self,)

    @property
    def entry(self) -> tuple[int, int] | None:
        """Row and column, if it is one entry of one record."""
        return None

    @property
    def has_names(self) -> bool:
        """Whether rows, columns or entries are named, and `named` must find them first."""
        return False

    def with_positions(self, names: Names) -> BaseTarget:
        """The same target by positions."""
        return self

    def with_rows_moved(self, place: Callable[[int], int]) -> BaseTarget:
        """The same target of records that stand elsewhere: record i in row ``place(i)``."""
        return _Moved(self, place) if self.asks(Kind.RECORD) else self

    def aimed_at(self, row: int) -> BaseTarget | None:
        """The same question about the respondent of another row; None if it is not about one respondent."""
        if len({t.row for t in self.terms if t.kind is Kind.RECORD}) != 1:
            return None
        return self.with_rows_moved(lambda _: row)


NEW = "new record"
"""The name under which `BaseTarget.of` finds the record of somebody outside the file among the parameters."""


def is_target(thing: object) -> TypeGuard[BaseTarget]:
    """Whether something can be what a user wants."""
    return isinstance(thing, BaseTarget)


class _Moved(BaseTarget):
    """A target of one's own whose records stand elsewhere."""

    def __init__(self, target: BaseTarget, place: Callable[[int], int]) -> None:
        self.target, self.place = target, place
        self.rows = None if target.rows is None else tuple(place(row) for row in target.rows)

    def in_files(self, files: Files) -> Array:
        return self.target.in_files(_MovedFiles(files, self.place))

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple(replace(t, row=self.place(t.row)) if t.kind is Kind.RECORD else t for t in self.target.terms)

    def linear(self, k: int, number: bool = False, widths: Mapping[str, int] | None = None) -> LinearForm | None:
        found = self.target.linear(k, number, widths)
        return None if found is None else replace(found, terms=self.terms)

    def describe(self) -> str:
        return self.target.describe()


class _MovedFiles(Files):
    """Files in which records are looked up where they stand."""

    def __init__(self, files: Files, place: Callable[[int], int]) -> None:
        super().__init__(None, files.parameters, do=files.do)
        self.files, self.place = files, place

    def record(self, row: int) -> Array:
        return self.files.record(self.place(row))


def over_points(function: Callable[..., Array], arguments: Sequence[Array], what: str) -> Array:
    """A function of arrays at many points, which come first in every argument and in what is given back.

    It is called once with the points last, for functions written in array arithmetic. Points at both ends and in the
    middle are computed one by one as well, and must agree; else every point is.
    """
    count = len(arguments[0])

    def one(i: int) -> Array:
        try:
            return function(*(float(a[i]) if a.ndim == 1 else a[i] for a in arguments))
        except Exception as error:
            # Arguments and text stay out of the message: they may be, or quote, confidential records.
            do = "Let it take one argument per target and give back a number or a vector"
            raise InputError(f"The function of {what} fails", describe_failure(error), do) from None

    found = _apply_to_all_points(function, arguments, one) if count >= 32 else None
    if found is not None:
        return found
    result = np.stack([one(i) for i in range(count)])
    if result.ndim > 2:
        do = "Flatten what it gives back"
        raise InputError("The function must give a number or a vector", f"shape {result.shape[1:]}", do)
    return result


def _apply_to_all_points(
    function: Callable[..., Array], arguments: Sequence[Array], one: Callable[[int], Array]
) -> Array | None:
    """All points in one call; None if the function is not written for that."""
    count = len(arguments[0])
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(function(*(np.moveaxis(a, 0, -1) for a in arguments)), dtype=np.float64)
    except Exception:
        # Whatever goes wrong with arrays, point by point is the definition and says what is really wrong.
        return None
    if found.ndim not in (1, 2) or found.shape[-1] != count:
        return None
    found = found if found.ndim == 1 else found.T
    some = [0, count // 3, count // 2, count - 1]
    alone = [one(i) for i in some]
    if any(a.shape != found.shape[1:] for a in alone) or not np.allclose(
        found[some], np.stack(alone), rtol=1e-12, equal_nan=True
    ):
        return None
    return found


# -- one quantity ------------------------------------------------------------------------------------


def _check_row(name: str, value: Any) -> Any:
    """A position, or a label as an index of a file has it: text or a tuple."""
    return value if isinstance(value, (str, tuple)) and value and is_label(value) else check_integer(name, value)


def _check_name(name: str, value: Any) -> Any:
    """A name, or a position."""
    if not is_label(value) or isinstance(value, (bool, float)):
        raise InputError(f"{name} must be a name or a position", value, f'Write {name}="income"')
    return value


def _is_name(value: Any) -> bool:
    return value is not None and not is_integer(value)


def _pick_column(values: Array, column: int | None) -> Array:
    """One column of values ``(points,)`` or ``(points, k)``; all of them if none is named."""
    if column is None:
        return values
    table = flat(values)
    return np.asarray(table[:, check_index("column", column, table.shape[1])])


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

    row: Any = checked(MISSING, _check_row)
    column: Any = checked(None, _check_name)

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
        return _pick_column(files.record(self.row), self.column)

    def linear(self, k: int, number: bool = False, widths: Mapping[str, int] | None = None) -> LinearForm:
        return LinearForm.of_term(self.terms[0], k, number).column(self.column)

    @property
    def has_names(self) -> bool:
        return _is_name(self.row) or _is_name(self.column)

    def with_positions(self, names: Names) -> Record:
        # The only column there is, is the record.
        column = None if self.column is None or len(names.columns) == 1 else self.column
        if self.column is not None and (column is None or _is_name(column)):
            found = names.column(self.column)
            column = None if column is None else found
        return Record(names.row(self.row), column)

    def with_rows_moved(self, place: Callable[[int], int]) -> Record:
        return Record(int(place(self.row)), self.column)

    def describe(self) -> str:
        return ("" if self.column is None else f"{_column_in_words(self.column)} of ") + f"record {self.row!r}"


def _column_in_words(column: Any) -> str:
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


def _check_aggregate(name: str, value: str | float) -> str | float:
    if not isinstance(value, str):
        return check_number(name, value, low=0, high=1)
    if value not in ("max", "mean"):
        raise InputError(f'{name} must be "max", "mean" or a number from 0 to 1', value, "Write EachRecord(0.95)")
    return value


def _check_rows(name: str, value: Sequence[Any]) -> tuple[Any, ...]:
    do = "Leave rows out for all records"
    rows = [_check_row(name, r) for r in check_list(name, value, do)]
    if not rows:
        raise InputError(f"{name} must not be empty", value, do)
    return tuple(_each_once(name, rows))


def _each_once(name: str, rows: list[Any]) -> list[Any]:
    if len(set(rows)) != len(rows):
        raise InputError(f"{name} names a record twice", rows, "Name each record once")
    return rows


@dataclass(frozen=True)
class EachRecord(BaseTarget):
    """Every record by itself, each as if it alone were the target; one number is made of their uncertainties.

    Risk falls with U, so the riskiest record is the one with the least U, and the quantile of the risks at level q is
    that of the U at level 1 - q, whichever decreasing function risk is. The mean is the mean of U. `record_risk` keeps
    the records apart.

    Parameters
    ----------
    aggregate : "max", "mean" or a number from 0 to 1, default "max"
        The riskiest record, the average record, or the record at this quantile of the risks (the next riskier one where
        the quantile falls between two, so that at least that share of the records has no more risk).
    rows : list of rows or labels, optional
        The records in question, all of them if not given.

    Examples
    --------
    >>> [float(each.overall([5.0, 1.0, 3.0])) for each in (EachRecord(), EachRecord("mean"), EachRecord(0.5))]
    [1.0, 3.0, 3.0]
    """

    aggregate: str | float = checked("max", _check_aggregate)
    rows: Sequence[Any] | None = checked(None, _check_rows)
    asks_each = True

    @property
    def has_names(self) -> bool:
        return any(map(_is_name, self.rows or ()))

    def with_positions(self, names: Names) -> EachRecord:
        return self if self.rows is None else replace(self, rows=tuple(map(names.row, self.rows)))

    def rows_in(self, n: int) -> NDArray[np.int64]:
        """The rows among ``n``, each once."""
        if self.rows is None:
            return np.arange(n)
        return np.array(_each_once("rows", [check_index("rows", r, n) for r in self.rows]), dtype=np.int64)

    def overall(self, uncertainties: ArrayLike) -> Any:
        """One number of the uncertainties of the records, which are on the last axis."""
        u = np.asarray(uncertainties, dtype=np.float64)
        if self.aggregate == "mean":
            return u.mean(axis=-1)[()]
        if self.aggregate == "max":
            return u.min(axis=-1)[()]
        return np.take(np.sort(u, axis=-1), self.rank_from_below(u.shape[-1]), axis=-1)[()]

    def rank_from_below(self, count: int) -> int:
        """Where the aggregate stands among ``count`` uncertainties in ascending order, counted from 0."""
        if self.aggregate == "max":
            return 0
        # At least that share of the risks is no larger: rank ceil(q count) of the risks, from below.
        rank = max(1, int(np.ceil(float(self.aggregate) * count - 1e-9)))
        return count - rank

    @property
    def single_targets(self) -> tuple[BaseTarget, ...]:
        return tuple(Record(row) for row in self.rows or (0,))

    def aimed_at(self, row: int) -> Record:
        return Record(row)

    def describe(self) -> str:
        whose = "each record" if self.rows is None else f"each of {len(self.rows)} records"
        words = {"max": "the riskiest one counts", "mean": "on average"}
        return f"{whose} ({words.get(str(self.aggregate)) or f'the risk at quantile {self.aggregate:g} counts'})"


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
    component: Any = checked(None, _check_row)

    if TYPE_CHECKING:

        def __init__(self, name: str, component: int | str | tuple[Hashable, ...] | None = None) -> None: ...

    def __repr__(self) -> str:
        return f"Parameter({self.name!r}" + ("" if self.component is None else f", component={self.component!r}") + ")"

    @property
    def has_names(self) -> bool:
        return _is_name(self.component)

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
            ("column", None if column is None else _check_name("column", column)),
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
            return _pick_column(files.average(), self.column)
        total = sum(weight * files.record(row) for row, weight in self._weights_by_row.items())
        return _pick_column(np.asarray(total), self.column)

    def linear(self, k: int, number: bool = False, widths: Mapping[str, int] | None = None) -> LinearForm:
        if self.weights is None:
            return LinearForm.of_term(self.terms[0], k, number).column(self.column)
        return LinearForm.of_rows(self._weights_by_row, k, number).column(self.column)

    @property
    def has_names(self) -> bool:
        return self.labels is not None or _is_name(self.column)

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
class Identity(BaseTarget):
    """Which row of the release is a respondent's, for an intruder who knows some of the confidential columns.

    The release carries no names and its order tells nothing: before the release every place in the file is equally
    likely to be the respondent's, whether or not the mask shuffles. The target is that place: the rows of the release
    in their order, 0, 1, ..., then the places that were not released (`Subsample`); the probability of those together
    is the probability that the respondent is not in the release. Bayes' rule gives place i the weight p(known |
    release, i). Under `ZeroOne` 1 - U is the expected chance of a correct match. Winkler (2004), Duncan and Lambert
    (1989).

    Parameters
    ----------
    row : int or label, list of them, or "all"
        The respondent's row in the confidential file, counted from 0, or its label in the data's index. With several,
        U is the average over them.
    known : names or positions, optional
        Columns that the intruder knows; all of them if not given.
    error_variance, error_sd : number or one per known column, optional
        Variance or standard deviation of normal errors in what the intruder knows; exact if not given.
    values : numbers, optional
        What the intruder knows, one per known column (one row of them per respondent if there are several). If not
        given, the respondent's own record tells, plus an error drawn with the stated size. `posterior` needs them.

    Examples
    --------
    >>> Identity(3, known=["age", "income"], error_sd=[1, 500]).describe()
    "which row is record 3's, knowing 'age' and 'income' with errors"
    """

    row: Any
    known: Columns = None
    error_variance: float | Sequence[float] | None = None
    error_sd: float | Sequence[float] | None = None
    values: Sequence[Any] | None = None
    asks_row = True

    def __post_init__(self) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        if isinstance(self.row, str) or is_single(self.row):
            put("row", self.row if isinstance(self.row, str) and self.row == "all" else _check_row("row", self.row))
        else:
            put("row", tuple(_check_row("row", row) for row in as_tuple(self.row)))
            if not self.row:
                raise InputError("row must be one row at least", self.row, "Write Identity([0, 3], known=[...])")
        if self.known is not None:
            known = as_tuple(self.known)
            if not known:
                do = "Name a column; one who knows nothing gains by no release"
                raise InputError("known must not be empty", self.known, do)
            put("known", known)
        if self.error_variance is not None and self.error_sd is not None:
            raise InputError("Give error_variance or error_sd", "both", "Leave one of them out")
        for name in ("error_variance", "error_sd"):
            given = getattr(self, name)
            if given is not None:
                array = check_finite(name, as_float_array(name, given))
                if array.ndim > 1 or array.size == 0 or np.any(array < 0):
                    what = f"{name} must be a number of at least 0, or one per known column"
                    raise InputError(what, given, f"Write {name}=2")
                put(name, float(array) if array.ndim == 0 else tuple(array.tolist()))
        if self.values is not None:
            put("values", _rows_of_values(self.values))

    @property
    def exact(self) -> bool:
        """Whether the intruder knows the columns without error."""
        return not np.any(np.asarray(self.error_variance or 0.0)) and not np.any(np.asarray(self.error_sd or 0.0))

    @property
    def _rows_as_tuple(self) -> tuple[Any, ...]:
        return self.row if isinstance(self.row, tuple) else (self.row,)

    @property
    def has_names(self) -> bool:
        return self.row != "all" and any(map(_is_name, self._rows_as_tuple))

    def with_positions(self, names: Names) -> Identity:
        rows = tuple(map(names.row, self._rows_as_tuple))
        return replace(self, row=rows if isinstance(self.row, tuple) else rows[0])

    def rows_in(self, n: int) -> NDArray[np.int64]:
        """The respondents' rows among ``n``, each once."""
        if self.row == "all":
            return np.arange(n)
        rows = self._rows_as_tuple
        return np.array(_each_once("row", [check_index("row", r, n) for r in rows]), dtype=np.int64)

    def columns_in(self, names: Sequence[Hashable]) -> list[int]:
        """Positions of the known columns among ``names``."""
        return list(range(len(names))) if self.known is None else check_columns("known", self.known, names)

    def variances(self, size: int) -> Array:
        """Error variance of each of ``size`` known columns."""
        name = "error_variance" if self.error_variance is not None else "error_sd"
        given = np.atleast_1d(np.asarray(0.0 if getattr(self, name) is None else getattr(self, name), dtype=np.float64))
        if len(given) not in (1, size):
            what = f"{name} must have {size} entries, one per known column"
            raise InputError(what, len(given), "Give one number, or one per column")
        return np.broadcast_to(given if name == "error_variance" else given**2, (size,)).copy()

    def aimed_at(self, row: int) -> Identity | None:
        return replace(self, row=row) if self.values is None else None

    def describe(self) -> str:
        if isinstance(self.row, tuple):
            whose = f"each of {len(self.row)} records'"
        else:
            whose = "each record's" if self.row == "all" else f"record {self.row}'s"
        what = "all columns" if self.known is None else " and ".join(map(repr, as_tuple(self.known)))
        return f"which row is {whose}, knowing {what} {'exactly' if self.exact else 'with errors'}"


def _rows_of_values(values: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
    """What an intruder knows, one row per respondent."""
    try:
        table = np.asarray(values, dtype=object)
        rows = [[values]] if is_single(values) else (table if table.ndim == 2 else table[None]).tolist()
    except (TypeError, ValueError):  # rows of several lengths
        table, rows = np.empty(0), []
    if table.ndim > 2 or table.size == 0:
        # What the intruder knows is a confidential record: it stays out of the message.
        do = "Give a list, or one list per respondent"
        raise InputError("values must be one per known column", f"shape {table.shape}", do)
    return tuple(map(tuple, rows))


class _Ranked(BaseTarget):
    """The record of a rank."""

    def in_files(self, files: Files) -> Array:
        return files.ranked(self.rank)

    def rank(self, n: int) -> int:
        raise NotImplementedError


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


@dataclass(frozen=True)
class OrderStatistic(_Ranked):
    """The confidential record of a given rank, 1 for the smallest; of several variables each is ranked apart.

    Ranks outside 1..n are refused when the number of records n is known. Records that are equal are ranked in the
    order of the file. For snoopers: Duncan et al. (2001), sections 4.2, 4.3 and V.

    >>> OrderStatistic(3).rank(10)
    3
    """

    order: int = checked(MISSING, check_integer, low=1)

    def rank(self, n: int) -> int:
        return check_integer("order", self.order, low=1, high=n)

    @property
    def label(self) -> str:
        return f"rank {self.order}"

    def describe(self) -> str:
        return f"the record of rank {self.order} from below"


@dataclass(frozen=True)
class Percentile(_Ranked):
    """The confidential record at the p-th sample percentile, the one of rank n p.

    Where n p is not a whole number the next rank up is used, ceil(n p); the minimum and the maximum have classes
    of their own. Duncan et al. (2001), section 4.2.

    >>> Percentile(0.99).rank(200), Percentile(0.1).rank(177)
    (198, 18)
    """

    p: float

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "p", check_number("p", self.p, low=0, high=1, open_low=True, open_high=True))
        except InputError:
            do = "The record of rank ceil(n p) is meant; use Minimum() or Maximum() for the ends"
            raise InputError("p must be a number strictly between 0 and 1", self.p, do) from None

    def rank(self, n: int) -> int:
        """The rank among ``n`` records, ceil(n p)."""
        return percentile_rank(n, self.p)

    @property
    def label(self) -> str:
        return f"percentile {self.p:g}"

    def note(self, n: int) -> str:
        if abs(n * self.p - self.rank(n)) <= 1e-9 * n:
            return ""
        used = f"the record of rank {self.rank(n)}, the next one up, is used"
        return f"np = {n} x {self.p:g} = {n * self.p:g} is not a whole number: {used}."

    def describe(self) -> str:
        return f"the record at sample percentile {self.p:g}, of rank ceil({self.p:g} n)"


@dataclass(frozen=True)
class Maximum(_Ranked):
    """The largest confidential record; of several variables each has its own."""

    def rank(self, n: int) -> int:
        """The rank among ``n`` records."""
        return n

    def describe(self) -> str:
        return "the largest record"


@dataclass(frozen=True)
class Minimum(_Ranked):
    """The smallest confidential record; of several variables each has its own."""

    def rank(self, n: int) -> int:
        """The rank among ``n`` records."""
        return 1

    def describe(self) -> str:
        return "the smallest record"


@dataclass(frozen=True, init=False)
class Functional(BaseTarget):
    """A function of other targets.

    Parameters
    ----------
    function : callable or array
        A callable receives one argument per entry of ``of`` (a number, or an array of length k) and gives
        back a number or a vector. An array is a matrix of coefficients on the stacked entries. LinearForm
        functions are recognised, whichever way they are given, and stay exact.
    of : target or list of targets
        What the function is taken of.

    Examples
    --------
    >>> difference = Functional(lambda a, b: a - b, of=[Record(0), Record(1)])
    >>> ratio = Functional(lambda a, b: a / b, of=[Record(0), Average()], name="share of the mean")
    """

    function: Callable[..., Any] | Any
    parts: tuple[BaseTarget, ...]
    name: str | None = None

    def __init__(
        self,
        function: Callable[..., ArrayLike] | ArrayLike,
        of: BaseTarget | Sequence[BaseTarget],
        name: str | None = None,
    ) -> None:
        parts = tuple(of) if isinstance(of, Sequence) else (of,)
        if not parts or not all(map(is_target, parts)):
            raise InputError("A Functional is taken of targets", of, 'Write of=[Record(0), Parameter("mu")]')
        if not callable(function):
            matrix = check_finite("function", as_float_array("function", function))
            if matrix.ndim > 2 or matrix.size == 0:
                do = "Give one row of coefficients per number that is wanted"
                raise InputError("function must be callable or a matrix of coefficients", f"shape {matrix.shape}", do)
        if name is not None:
            check_text("name", name, "Leave it out, or say what the function gives")
        for key, value in (("function", function), ("parts", parts), ("name", name)):
            object.__setattr__(self, key, value)

    def in_files(self, files: Files) -> Array:
        values = [part.in_files(files) for part in self.parts]
        stacked = np.concatenate([flat(v) for v in values], axis=1)
        return self._apply_to_stacked(stacked, [flat(v).shape[1] for v in values], [v.ndim == 1 for v in values])

    def _apply_to_stacked(self, stacked: Array, sizes: Sequence[int], numbers: Sequence[bool]) -> Array:
        """Of stacked values ``(points, sum(sizes))``; gives back ``(points, m)`` or ``(points,)``."""
        if not callable(self.function):
            matrix = np.atleast_2d(np.asarray(self.function, dtype=np.float64))
            if matrix.shape[1] != stacked.shape[-1]:
                what = f"The coefficients must have {stacked.shape[-1]} columns"
                raise InputError(what, f"shape {matrix.shape}", "Give one coefficient per entry of the targets")
            result = stacked @ matrix.T
            return result[..., 0] if np.ndim(self.function) == 1 else result
        edges = np.cumsum([0, *sizes])
        spans = zip(edges[:-1], edges[1:], numbers, strict=True)
        arguments = [stacked[:, a] if number else stacked[:, a:b] for a, b, number in spans]

        def function(*values: Array) -> Array:
            return np.asarray(self.function(*values), dtype=np.float64)

        return over_points(function, arguments, ", ".join(p.describe() for p in self.parts))

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple(term for part in self.parts for term in part.terms)

    def with_rows_moved(self, place: Callable[[int], int]) -> Functional:
        return Functional(self.function, [part.with_rows_moved(place) for part in self.parts], self.name)

    @property
    def has_names(self) -> bool:
        return any(part.has_names for part in self.parts)

    def with_positions(self, names: Names) -> Functional:
        return Functional(self.function, [part.with_positions(names) for part in self.parts], self.name)

    def rows_in(self, n: int) -> NDArray[np.int64]:
        found = [part.rows_in(n) for part in self.parts]
        return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *found]))

    def linear(self, k: int, number: bool = False, widths: Mapping[str, int] | None = None) -> LinearForm | None:
        inner = [part.linear(k, number, widths) for part in self.parts]
        forms = [form for form in inner if form is not None]
        if len(forms) < len(inner):
            return None
        found = self._affine_form([len(f.constant) for f in forms], [f.number for f in forms])
        if found is None:
            return None
        matrix, constant, single = found
        if any(not np.array_equal(f.matrix, np.eye(len(f.matrix))) or f.constant.any() for f in forms):
            constant = constant + matrix @ np.concatenate([f.constant for f in forms])
            matrix = matrix @ block_diag(*(f.matrix for f in forms))
        return LinearForm(tuple(t for f in forms for t in f.terms), matrix, constant, single)

    def _affine_form(self, sizes: Sequence[int], numbers: Sequence[bool]) -> tuple[Array, Array, bool] | None:
        """Matrix, constant and whether it is a number, if the function is affine; else None.

        A callable is probed at the origin, along each axis and at twelve random points of three sizes.
        """
        width = int(np.sum(sizes))
        points = [np.zeros((1, width)), np.eye(width)]
        rng = np.random.default_rng(0)
        probes = np.concatenate([rng.standard_normal((4, width)) * s for s in (1e-2, 1.0, 1e3)])
        try:
            with np.errstate(all="ignore"):
                origin, axes = (self._apply_to_stacked(p, sizes, numbers) for p in points)
                if not (np.isfinite(origin).all() and np.isfinite(axes).all()):
                    return None
                values = self._apply_to_stacked(probes, sizes, numbers).reshape(len(probes), -1)
        except (ZeroDivisionError, FloatingPointError, ValueError, OverflowError):
            return None
        constant = np.atleast_1d(origin[0])
        matrix = (axes.reshape(width, -1) - constant).T
        room = 1e-9 * (1.0 + np.abs(constant) + np.abs(probes) @ np.abs(matrix).T)
        if not np.all(np.abs(values - (probes @ matrix.T + constant)) <= room):
            return None
        return matrix, constant, origin.ndim == 1

    def __repr__(self) -> str:
        return f"Functional(function={self.function!r}, of={self.parts!r}, name={self.name!r})"

    def describe(self) -> str:
        return self.name or f"a function of {', '.join(p.describe() for p in self.parts)}"
