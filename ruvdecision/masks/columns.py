"""What kind of values a column holds, what order they have, and how new values get the column's type back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..checks import Columns, check_filled, check_sequence, is_label, is_single
from ..errors import InputError
from ..protocols import Array
from .frame import Frame, numpy_kind, real_like

Ints = NDArray[np.int64]
MOST_CATEGORIES = 200
"""In a column that becomes one indicator per category."""

# -- kinds and orders ------------------------------------------------------------------------------------


def is_categorical(column: pd.Series) -> bool:
    """Whether a column has categories of its own."""
    return isinstance(column.dtype, pd.CategoricalDtype)


def kind_of(column: pd.Series) -> str:
    """Return "number", "boolean", "time" or "category" (text, objects and categoricals)."""
    types, dtype = pd.api.types, column.dtype
    if is_categorical(column):
        return "category"
    if types.is_bool_dtype(dtype):
        return "boolean"
    if types.is_complex_dtype(dtype):
        raise InputError(
            "A column must not hold complex numbers", str(column.name), "Split it into real and imaginary part"
        )
    if types.is_numeric_dtype(dtype):
        return "number"
    if types.is_datetime64_any_dtype(dtype) or types.is_timedelta64_dtype(dtype):
        return "time"
    return "category"


def category_codes(column: pd.Series, *, missing_is_one: bool = False) -> tuple[Ints, Any]:
    """Number the categories in the order of the file; a missing value has -1, or a number of its own."""
    try:
        codes, levels = pd.factorize(column, use_na_sentinel=not missing_is_one)
    except TypeError:
        raise InputError(
            "A category must be hashable", f"column {column.name!r} holds lists or the like", "Turn them into text"
        ) from None
    return np.asarray(codes, dtype=np.int64), levels


def few_categories(who: str, column: pd.Series, do: str) -> tuple[Ints, Any]:
    """As `category_codes`; more than 200 are refused by name."""
    codes, levels = category_codes(column)
    if len(levels) > MOST_CATEGORIES:
        raise InputError(
            f"{who} takes at most {MOST_CATEGORIES} categories in a column", f"{len(levels)} in {column.name!r}", do
        )
    return codes, levels


def row_classes(frame: Frame, columns: Sequence[int], rows: Ints) -> list[Ints]:
    """The rows of each combination of categories in these columns; a missing category counts as one of its own."""
    codes = [category_codes(frame.table.iloc[:, i], missing_is_one=True)[0][rows] for i in columns]
    label, count = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True, return_counts=True)[1:]
    return list(np.split(rows[stable_order(label.reshape(-1))], np.cumsum(count)[:-1]))


def has_order(column: pd.Series) -> bool:
    """Whether the values of a column have an order: all but those of text and unordered categories."""
    return kind_of(column) != "category" or bool(getattr(column.dtype, "ordered", False))


def ordered_values(column: pd.Series) -> NDArray[Any]:
    """Numbers with the order of a column's values, which are complete and have one."""
    kind = kind_of(column)
    if kind == "category":
        return np.asarray(column.cat.codes)
    values = column.astype("int64").to_numpy() if kind == "time" else column.to_numpy()
    return values.astype(np.float64) if values.dtype == object else values


def stable_order(keys: NDArray[Any]) -> Ints:
    """Return the stable sorting order of ``keys``, which must hold no NaN: ``np.argsort(keys, kind="stable")``.

    numpy's unstable sort is several times faster on most machines; here ties are put right after it.

    >>> stable_order(np.array([2.0, 1.0, 2.0, 1.0]))
    array([1, 3, 0, 2])
    """
    order = np.argsort(keys)
    ranked = keys[order]
    new = ranked[1:] != ranked[:-1]
    if new.all():
        return order
    n = len(order)
    run = np.concatenate([[0], np.cumsum(new)])
    return np.asarray(np.sort(run * n + order) - run * n)


@dataclass(frozen=True, eq=False)
class RankedColumn:
    """A column whose values have an order: the rank class of each record and the size of each class."""

    codes: Ints
    counts: Ints
    order: Ints
    """Rows from the smallest value to the largest, ties in the order of the file."""

    @property
    def tied(self) -> bool:
        return len(self.counts) < len(self.codes)

    @property
    def upper(self) -> Array:
        """Empirical distribution function at each class."""
        return np.cumsum(self.counts) / len(self.codes)

    @property
    def middle(self) -> Array:
        """Mid-distribution function at each class: half of the ties count as below."""
        return (np.cumsum(self.counts) - self.counts / 2) / len(self.codes)

    def rows_at_quantiles(self, u: Array) -> Ints:
        """Rows that hold the u-quantiles of the column; no value is made up."""
        n = len(self.codes)
        return self.order[np.minimum((u * n).astype(np.int64), n - 1)]


def rank_columns(who: str, part: pd.DataFrame) -> list[RankedColumn]:
    """Rank every column of a table; a column without an order is refused by name."""
    ranked, bad = [], []
    for name in part.columns:
        if not has_order(part[name]):
            bad.append(name)
            continue
        _, codes, counts = np.unique(ordered_values(part[name]), return_inverse=True, return_counts=True)
        codes = codes.reshape(-1).astype(np.int64)
        ranked.append(RankedColumn(codes, counts.astype(np.int64), np.argsort(codes, kind="stable").astype(np.int64)))
    if bad:
        raise InputError(
            f"{who} needs columns whose values have an order",
            f"unordered {bad}",
            'Name the others with columns=[...], make these ordered categories, or use Synthesize(method="cart")',
        )
    return ranked


def standard_deviations(x: Array, ddof: int = 0) -> Array:
    """Standard deviation of each column, whatever the unit; zero where all that differs is rounding."""
    if len(x) <= ddof:
        return np.zeros(x.shape[1:])
    size = np.abs(x).max(axis=0)
    # Squares of very large or very small numbers would overflow or vanish.
    # In one layout, because numpy's sums differ in the last digit between layouts.
    relative = np.asarray(np.divide(x, np.where(size > 0, size, 1.0), order="C").std(axis=0, ddof=ddof))
    return np.asarray(np.where(relative > 1e-14, relative * size, 0.0))


# -- new values in the type of a column ------------------------------------------------------------------


def with_blanks(column: pd.Series, blank: NDArray[np.bool_], kind: str) -> Any:
    """The column with missing values in these rows.

    Integers become nullable ``Int64`` (or ``UInt64``) and booleans ``boolean``, so that no value loses digits; in an
    array, where there is no such type, they become floating point.
    """
    nullable = {"b": "boolean", "u": "UInt64", "i": "Int64"}.get(numpy_kind(column.dtype))
    if nullable is not None:
        column = column.astype(np.float64 if kind in ("matrix", "vector") else nullable)
    return column.mask(blank).array


def whole_like(values: Array, column: pd.Series) -> Any:
    """Real numbers in the type of a numeric column; integers are rounded and kept inside their type's range."""
    dtype = column.dtype
    if not pd.api.types.is_integer_dtype(dtype):
        return real_like(values, column)
    plain = _integer_type(dtype)
    limits = np.iinfo(plain)
    rounded = np.rint(values)
    # The largest 64-bit integers are no doubles: compare before the cast, not after it.
    high, low = rounded >= float(limits.max), rounded <= float(limits.min)
    whole = np.where(high, limits.max, np.where(low, limits.min, 0)).astype(plain)
    inside = ~(high | low)
    whole[inside] = rounded[inside].astype(plain)
    return whole if numpy_kind(dtype) else pd.Series(whole).astype(dtype).array


def replace_keeping_integers(frame: Frame, values: Array, positions: Sequence[int]) -> Frame:
    """Replace columns; an integer column stays one where all its new values are whole numbers of its range."""
    if frame.plain:
        return frame.replace(values, positions)
    new: dict[int, Any] = {}
    for j, position in enumerate(positions):
        old, column = frame.table.iloc[:, position], values[:, j]
        known = column[~np.isnan(column)]
        if (
            pd.api.types.is_integer_dtype(old.dtype)
            and np.all(known == np.rint(known))
            and _fits_integer_type(known, old.dtype)
        ):
            complete = len(known) == len(column)
            new[position] = (
                column.astype(np.int64).astype(old.dtype)
                if complete and numpy_kind(old.dtype)
                else pd.array(column, dtype="Float64").astype(old.dtype)
            )
        else:
            new[position] = real_like(column, old)
    return frame.put(new)


def _fits_integer_type(whole: Array, dtype: Any) -> bool:
    """Whether whole numbers lie in the range of an integer type, and are small enough to be known to the last digit."""
    limits = np.iinfo(_integer_type(dtype))
    return bool(np.all((np.abs(whole) < 2.0**53) & (whole >= float(limits.min)) & (whole <= float(limits.max))))


def _integer_type(dtype: Any) -> np.dtype[Any]:
    """The numpy type of an integer column; pandas' own types that have none hold 64 bits."""
    return np.dtype(dtype if numpy_kind(dtype) else getattr(dtype, "numpy_dtype", np.int64))


# -- arguments -------------------------------------------------------------------------------------------


def as_columns(name: str, value: Columns, *, empty: bool = False) -> tuple[Any, ...] | None:
    """Return column names as a tuple, None as None; an empty list is refused unless it has a meaning."""
    if value is None:
        return None
    names = (value,) if is_single(value) else check_sequence(name, value)
    if not empty:
        check_filled(name, names, f"Leave {name} out, or name at least one column")
    if not all(map(is_label, names)):
        raise InputError(f"{name} must be names or positions", type(value).__name__, f'Write {name}=["age", "income"]')
    return names


def refuse_shared_columns(first: str, a: Sequence[int], second: str, b: Sequence[int], columns: Sequence[Any]) -> None:
    """Raise an error if two lists of columns share one."""
    both = [columns[i] for i in sorted(set(a) & set(b))]
    if both:
        raise InputError(f"A column cannot be in {first} and in {second}", both, "Put it in one of them")


def refuse_missing(who: str, part: pd.DataFrame, *, only_infinite: bool = False, do: str = "") -> None:
    """Raise an error that names the columns with missing or infinite values, or with infinite ones only."""

    def infinite(c: pd.Series) -> bool:
        return kind_of(c) == "number" and bool(np.isinf(c.to_numpy(dtype=np.float64, na_value=0.0)).any())

    named = [c for c in part.columns if (part[c].isna().any() and not only_infinite) or infinite(part[c])]
    if named:
        raise InputError(
            f"{who} cannot take {'' if only_infinite else 'missing or '}infinite values",
            f"some in columns {named}",
            do or "Fill or drop them first, or leave those columns out with columns=[...]",
        )
