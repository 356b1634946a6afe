"""Matching two data sets: columns that differ, lengths, types, categories that one file does not have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from ..checks import suggest
from ..errors import InputError
from ..masks.frame import Frame
from ..protocols import Array

__all__ = [
    "Levels",
    "align",
    "as_names",
    "encode",
    "is_number",
    "levels_of",
    "missing_rows",
    "numeric",
    "pick",
    "refuse_missing",
    "refuse_vanishing",
    "select",
    "spreads",
    "vector",
]


LARGE = 1e140
"""Larger values have no finite square to speak of."""
_NONE = object()
SMALL = 1e-302
"""Smaller sums of squares have lost digits, or are zero though the values differ."""


def as_names(columns: Any) -> Any:
    """Column names as a tuple, or None; one name may stand alone."""
    if columns is None:
        return None
    if (
        isinstance(columns, (str, bytes, int, np.integer))
        or not isinstance(columns, Iterable)
        or getattr(columns, "ndim", 1) == 0
    ):
        return (columns,)
    # A set has another order in every process, and order decides which random numbers a column gets.
    names = tuple(sorted(columns, key=str) if isinstance(columns, (set, frozenset)) else columns)
    if not names:
        raise InputError("columns must name at least one column", columns, "Leave columns out to use them all")
    return names


def pick(who: str, names: Iterable[Any], table: pd.DataFrame) -> list[Any]:
    """The labels of the named columns (names, or positions where no column is called that)."""
    known = list(table.columns)
    places = {label: label for label in known}
    found = []
    for name in names:
        try:
            label = places.get(name, _NONE)
        except TypeError:  # it cannot be hashed, so it is nobody's name
            label = _NONE
        if label is not _NONE and isinstance(name, (bool, np.bool_)) == isinstance(label, (bool, np.bool_)):
            found.append(label)
        elif (
            isinstance(name, (int, np.integer))
            and not isinstance(name, (bool, np.timedelta64))
            and -len(known) <= name < len(known)
        ):
            found.append(known[name])
        else:
            raise InputError(
                f"{who} names a column that the original does not have",
                str(name),
                suggest(str(name), [str(c) for c in known]),
            )
    if len(set(found)) != len(found):
        raise InputError(f"{who} names a column twice", [str(f) for f in found], "Name each column once")
    return found


def align(who: str, original: pd.DataFrame, released: Frame, used: list[Any] | None, every: list[Any]) -> pd.DataFrame:
    """The release with the original's used columns, in the original's order.

    With ``used`` None both files must have the same columns; those that differ are listed. An array has no
    names: its columns are those of the original (``every`` one, or the used ones), in order.
    """
    table, wanted = released.table, list(original.columns)
    if released.kind in ("matrix", "vector") and list(table.columns) != every:
        if table.shape[1] not in (len(every), len(wanted)):
            raise InputError(
                f"{who} needs as many columns in both files",
                f"{len(every)} in the original and {table.shape[1]} in the release",
                "Give data frames with column names",
            )
        table = table.set_axis(every if table.shape[1] == len(every) else wanted, axis=1)
    if list(table.columns) == wanted:
        return table
    lost = [str(c) for c in wanted if c not in table.columns]
    extra = [str(c) for c in table.columns if c not in original.columns] if used is None else []
    if lost or extra:
        said = "; ".join(
            part
            for part in (
                f"not in the release: {', '.join(lost)}" if lost else "",
                f"not in the original: {', '.join(extra)}" if extra else "",
            )
            if part
        )
        raise InputError(
            f"{who} needs the same columns in both files",
            said,
            "Rename or drop them, or choose the common ones with columns=[...]",
        )
    return select(table, wanted)


def select(table: pd.DataFrame, labels: Iterable[Any]) -> pd.DataFrame:
    """The columns with these labels, which are all there and there once; by position, which is much quicker than by label."""
    return table.take([table.columns.get_loc(label) for label in labels], axis=1)


def missing_rows(table: pd.DataFrame) -> Any:
    """True for rows with a missing value; None if no column has any, which is the usual case and cheap to see."""
    if all(isinstance(d, np.dtype) and d.kind in "fiub" for d in table.dtypes):
        with np.errstate(all="ignore"):
            if np.isfinite(table.to_numpy(dtype=np.float64).sum()):
                return None  # a missing value would have made the sum nan
    found = None
    for _, column in table.items():
        holes = np.asarray(column.isna())
        if holes.any():
            found = holes if found is None else found | holes
    return found


def refuse_missing(who: str, which: str, table: pd.DataFrame, missing: Any) -> None:
    """Raise an error that names the columns with missing values."""
    if missing is None:
        return
    named = [str(c) for c in table.columns if table[c].isna().any()]
    raise InputError(
        f"{who} cannot take missing values in {which}",
        f"{int(missing.sum())} rows with some, in columns {', '.join(named)}",
        'Fill them first, leave the columns out, or set nan_policy="omit"',
    )


def is_number(column: Any) -> bool:
    """True for real numbers and booleans, by column or dtype; text, categories and times are not numbers."""
    dtype = getattr(column, "dtype", column)
    if isinstance(dtype, np.dtype):
        return dtype.kind in "fiub"
    return bool(pd.api.types.is_numeric_dtype(dtype)) and not pd.api.types.is_complex_dtype(dtype)


def numeric(who: str, table: pd.DataFrame, which: str = "the original") -> Array:
    """The table as a float matrix; columns that are not numbers, and infinite values, are refused by name."""
    bad = [str(c) for c, dtype in zip(table.columns, table.dtypes, strict=True) if not is_number(dtype)]
    if bad:
        raise InputError(
            f"{who} needs numeric columns in {which}",
            f"non-numeric {', '.join(bad)}",
            "Choose the numeric ones with columns=[...], or convert these",
        )
    with np.errstate(over="ignore"):  # longer floats may be too large; that is said below
        values = table.to_numpy(dtype=np.float64, na_value=np.nan)
    usable = _usable(values)
    if not np.all(usable):
        named = [str(c) for c, ok in zip(table.columns, usable.all(axis=0), strict=True) if not ok]
        raise InputError(
            f"{who} needs finite values in {which}",
            f"infinite, missing or beyond 1e140 in columns {', '.join(named)}",
            "Remove or replace them first",
        )
    return values


def vector(who: str, column: pd.Series, which: str = "the original") -> Array:
    """One column as a float vector, refused as in `numeric`."""
    if not is_number(column):
        raise InputError(
            f"{who} needs numbers in {which}", f"{column.name}: {column.dtype}", "Convert the column, or leave it out"
        )
    with np.errstate(over="ignore"):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.all(_usable(values)):
        raise InputError(
            f"{who} needs finite values in {which}",
            f"infinite, missing or beyond 1e140 in {column.name}",
            "Remove or replace them first",
        )
    return values


def _usable(values: Array) -> Any:
    """True where a value is finite and so is its square; one True for all of them in the usual case."""
    # The ends tell most of the time and need no temporary array; a value that is no number fails both comparisons.
    if values.size == 0 or (values.max() < LARGE and values.min() > -LARGE):
        return True
    return np.abs(values) < LARGE


def spreads(values: Array) -> Array:
    """Standard deviations of the columns, exactly zero for columns of equal numbers, whose mean may be off by a rounding error.

    One row has none: zero, too.
    """
    width = np.ptp(values, axis=0)
    if len(values) < 2:
        return np.zeros(values.shape[1:])
    # In units of the range, a power of two: the squares of tiny numbers would vanish.
    _, exponent = np.frexp(width)
    return np.where(width > 0, np.ldexp(np.ldexp(values, -exponent).std(axis=0, ddof=1), exponent), 0.0)


def refuse_vanishing(who: str, which: str, names: Iterable[Any], varies: Any, squares: Any) -> None:
    """Raise an error for columns that vary, but so little that the sum of their squares is no number with all its digits."""
    gone = [str(name) for name, v, s in zip(names, varies, squares, strict=True) if v and s < SMALL]
    if gone:
        raise InputError(
            f"{who} needs values whose squares do not vanish in {which}", ", ".join(gone), "Use smaller units"
        )


class Levels:
    """The values of a column that is not a number, in a fixed order."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        # As objects: pandas has no index of some types of numbers.
        self.index = pd.Index(values, dtype=object)

    def __len__(self) -> int:
        return len(self.values)

    def codes(self, column: pd.Series) -> Any:
        """Position of each value among the levels, -1 for a value that is not there."""
        if isinstance(column.dtype, pd.CategoricalDtype):
            own = column.cat.codes.to_numpy()
            places = (
                self.index.get_indexer(column.cat.categories.astype(object))
                if len(column.cat.categories)
                else np.zeros(0, dtype=np.intp)
            )
            return np.append(places, -1)[own]
        return self.index.get_indexer(pd.Index(column.astype(object), dtype=object))

    def plus(self, column: pd.Series) -> Levels:
        """These levels and the ones that only ``column`` has, which come last."""
        new = [v for v in levels_of(column).values if v not in set(self.values)]
        return Levels(self.values + new) if new else self


def levels_of(column: pd.Series) -> Levels:
    """The levels that occur: in the order of the categories, or sorted (by text where types are mixed)."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        present = np.unique(column.cat.codes.to_numpy())
        return Levels([column.cat.categories[c] for c in present if c >= 0])
    seen = list(pd.unique(column.dropna().astype(object)))
    try:
        return Levels(sorted(seen))
    except TypeError:
        return Levels(sorted(seen, key=lambda v: (type(v).__name__, str(v))))


def encode(who: str, original: pd.DataFrame, released: pd.DataFrame) -> tuple[Array, Array, list[str]]:
    """Both tables as float matrices with the same columns, and the columns' names.

    A column that is a number in both files stays one. Any other becomes indicators of all levels but the first,
    over the levels of both files together, so that a category which only one of them has is kept.
    """
    if all(map(is_number, original.dtypes)) and all(map(is_number, released.dtypes)):
        return numeric(who, original), numeric(who, released, "the release"), [str(c) for c in original.columns]
    left, right, names = [], [], []
    for label in original.columns:
        a, b = original[label], released[label]
        if is_number(a) and is_number(b):
            left.append(numeric(who, original[[label]]))
            right.append(numeric(who, released[[label]], "the release"))
            names.append(str(label))
            continue
        times = _is_time(a), _is_time(b)
        if is_number(a) != is_number(b) or times[0] != times[1]:
            kinds = f"{label}: {a.dtype} in the original, {b.dtype} in the release"
            raise InputError(
                f"{who} needs a column to be of one kind in both files", kinds, "Convert it in one of them"
            )
        if times[0]:
            start = a.min()
            left.append((a - start).dt.total_seconds().to_numpy()[:, None])
            right.append((b - start).dt.total_seconds().to_numpy()[:, None])
            names.append(str(label))
            continue
        levels = levels_of(a).plus(b)
        for side, column in ((left, a), (right, b)):
            codes = np.asarray(levels.codes(column))
            side.append((codes[:, None] == np.arange(1, len(levels))).astype(np.float64))
        names += [f"{label}[{v}]" for v in levels.values[1:]]
    return np.concatenate(left, axis=1), np.concatenate(right, axis=1), names


def _is_time(column: pd.Series) -> bool:
    return bool(pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype))
