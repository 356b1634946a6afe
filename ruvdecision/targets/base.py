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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ..checks import check_fields, check_index
from ..errors import InputError, describe_failure
from ..protocols import Array
from .names import Names
from .terms import Files, Kind, LinearForm, Term


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

    def numbers_in_files(self, files: Files) -> Array:
        """The value in each of many files, refused where it is no number."""
        found = self.in_files(files)
        if not np.isfinite(found).all():
            what = f"The target, {self.describe()}, must be a number for every value that is possible"
            got = f"{int(np.sum(~np.isfinite(found)))} missing or infinite values among {len(found)} draws"
            raise InputError(what, got, "Choose a function that is defined on the whole range")
        return found

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

        return apply_over_points(
            one, [records, *(np.asarray(files.parameters[name]) for name in names)], self.describe()
        )

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

    def asks_only(self, *kinds: Kind) -> bool:
        """Whether it depends on quantities of these kinds alone."""
        return all(t.kind in kinds for t in self.terms)

    @property
    def places_records(self) -> bool:
        """Whether it matters which record stands in which row."""
        return self.asks(Kind.RECORD) or (self.asks(Kind.FILE) and not self.is_order_statistic)

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
    def is_order_statistic(self) -> bool:
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
        """Whether rows, columns or entries are named, and `with_positions` must find them first."""
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


def apply_over_points(function: Callable[..., Array], arguments: Sequence[Array], what: str) -> Array:
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
