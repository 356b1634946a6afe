"""Which row of the release is a respondent's."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import MISSING, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import (
    Columns,
    as_tuple,
    check_columns,
    check_distinct_positions,
    check_filled,
    check_numbers,
    check_per,
    checked,
    is_single,
)
from ..errors import InputError
from ..protocols import Array
from .base import BaseTarget
from .names import Names, check_row, is_name

SIZE: dict[str, Any] = {"what": "a finite number of at least 0, or one per known column", "low": 0}


def _check_rows(name: str, value: Any) -> Hashable:
    """The respondent's row, a tuple of several, or "all"."""
    if is_single(value):
        return "all" if isinstance(value, str) and value == "all" else check_row(name, value)
    return check_filled(name, [check_row(name, row) for row in as_tuple(value)], "Write Identity([0, 3], known=[...])")


def _check_known(name: str, value: Columns) -> tuple[Hashable, ...]:
    return check_filled(name, as_tuple(value), "Name a column; one who knows nothing gains by no release")


def _check_values(name: str, values: Sequence[object]) -> tuple[tuple[object, ...], ...]:
    """What an intruder knows, one row per respondent."""
    try:
        table = np.asarray(values, dtype=object)
        rows = [[values]] if is_single(values) else (table if table.ndim == 2 else table[None]).tolist()
    except (TypeError, ValueError):  # rows of several lengths
        table, rows = np.empty(0), []
    if table.ndim > 2 or table.size == 0:
        # What the intruder knows is a confidential record: it stays out of the message.
        do = "Give a list, or one list per respondent"
        raise InputError(f"{name} must be one per known column", f"shape {table.shape}", do)
    return tuple(map(tuple, rows))


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

    row: Any = checked(MISSING, _check_rows)
    known: Columns = checked(None, _check_known)
    error_variance: float | Sequence[float] | None = checked(None, check_numbers, do="Write error_variance=2", **SIZE)
    error_sd: float | Sequence[float] | None = checked(None, check_numbers, do="Write error_sd=2", **SIZE)
    values: Sequence[Any] | None = checked(None, _check_values)
    asks_row = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.error_variance is not None and self.error_sd is not None:
            raise InputError("Give error_variance or error_sd", "both", "Leave one of them out")

    @property
    def exact(self) -> bool:
        """Whether the intruder knows the columns without error."""
        return not np.any(np.asarray(self.error_variance or 0.0)) and not np.any(np.asarray(self.error_sd or 0.0))

    @property
    def asks_one(self) -> bool:
        """Whether it is about one respondent."""
        return self.row != "all" and is_single(self.row)

    @property
    def has_names(self) -> bool:
        return self.row != "all" and any(map(is_name, as_tuple(self.row)))

    def with_positions(self, names: Names) -> Identity:
        rows = tuple(map(names.row, as_tuple(self.row)))
        return replace(self, row=rows[0] if self.asks_one else rows)

    def rows_in(self, n: int) -> NDArray[np.int64]:
        """The respondents' rows among ``n``, each once."""
        if self.row == "all":
            return np.arange(n)
        return check_distinct_positions("row", as_tuple(self.row), n)

    def known_positions(self, names: Sequence[Hashable]) -> list[int]:
        """Positions of the known columns among ``names``."""
        return list(range(len(names))) if self.known is None else check_columns("known", self.known, names)

    def variances(self, size: int) -> Array:
        """Error variance of each of ``size`` known columns."""
        if self.error_variance is not None:
            return check_per("error_variance", np.atleast_1d(self.error_variance).astype(float), size, "known column")
        sd = np.atleast_1d(0.0 if self.error_sd is None else self.error_sd).astype(float)
        return check_per("error_sd", sd**2, size, "known column")

    def aimed_at(self, row: int) -> Identity | None:
        return replace(self, row=row) if self.values is None else None

    def describe(self) -> str:
        many = "each record's" if self.row == "all" else f"each of {len(as_tuple(self.row))} records'"
        whose = f"record {self.row}'s" if self.asks_one else many
        what = "all columns" if self.known is None else " and ".join(map(repr, as_tuple(self.known)))
        return f"which row is {whose}, knowing {what} {'exactly' if self.exact else 'with errors'}"
