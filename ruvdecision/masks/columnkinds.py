"""What kind of values a column holds, what order they have, and how new values get the column's type back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..checks import check_sequence
from ..errors import InputError
from ..protocols import Array
from .frame import Frame, real_like

Ints = NDArray[np.int64]


def kind_of(column: pd.Series) -> str:
    """Return "number", "boolean", "time" or "category" (text, objects and categoricals)."""
    types, dtype = pd.api.types, column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
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

    def at(self, u: Array) -> Ints:
        """Rows that hold the u-quantiles of the column; no value is made up."""
        n = len(self.codes)
        return self.order[np.minimum((u * n).astype(np.int64), n - 1)]


def rank_columns(who: str, part: pd.DataFrame) -> list[RankedColumn]:
    """Rank every column of a table; a column without an order is refused by name."""
    ranked, bad = [], []
    for name in part.columns:
        column = part[name]
        kind = kind_of(column)
        if kind == "category":
            if not getattr(column.dtype, "ordered", False):
                bad.append(name)
                continue
            raw = np.asarray(column.cat.codes, dtype=np.int64)
        elif kind == "time":
            raw = np.asarray(column.astype("int64"), dtype=np.int64)
        else:
            raw = column.to_numpy()
            raw = raw.astype(np.float64) if raw.dtype == object else raw
        _, codes, counts = np.unique(raw, return_inverse=True, return_counts=True)
        codes = codes.reshape(-1).astype(np.int64)
        ranked.append(RankedColumn(codes, counts.astype(np.int64), np.argsort(codes, kind="stable").astype(np.int64)))
    if bad:
        raise InputError(
            f"{who} needs columns whose values have an order",
            f"unordered {bad}",
            'Name the others with columns=[...], make these ordered categories, or use Synthesize(method="cart")',
        )
    return ranked


def refuse_missing(who: str, part: pd.DataFrame) -> None:
    """Raise an error that names the columns with missing or infinite values."""

    def infinite(c: pd.Series) -> bool:
        return kind_of(c) == "number" and bool(np.isinf(c.to_numpy(dtype=np.float64, na_value=0.0)).any())

    named = [c for c in part.columns if part[c].isna().any() or infinite(part[c])]
    if named:
        raise InputError(
            f"{who} cannot take missing or infinite values",
            f"some in columns {named}",
            "Fill or drop them first, or leave those columns out with columns=[...]",
        )


def put(frame: Frame, columns: Mapping[int, Any]) -> Frame:
    """Return a new frame with the columns at these positions replaced, each by an array of its own type."""
    table = frame.table.copy(deep=False)
    for position, values in columns.items():
        table.isetitem(position, values.array if isinstance(values, pd.Series) else values)
    return replace(frame, table=table)


def blanked(column: pd.Series, blank: NDArray[np.bool_], kind: str) -> Any:
    """The column with missing values in these rows.

    Integers become nullable ``Int64`` (or ``UInt64``) and booleans ``boolean``, so that no value loses digits; in an
    array, where there is no such type, they become floating point.
    """
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iub":
        nullable = {"b": "boolean", "u": "UInt64", "i": "Int64"}[dtype.kind]
        column = column.astype(np.float64 if kind in ("matrix", "vector") else nullable)
    return column.mask(blank).array


def whole_like(values: Array, column: pd.Series) -> Any:
    """Real numbers in the type of a numeric column; integers are rounded and kept inside their type's range."""
    dtype = column.dtype
    if not pd.api.types.is_integer_dtype(dtype):
        return real_like(values, column)
    plain = dtype if isinstance(dtype, np.dtype) else getattr(dtype, "numpy_dtype", np.dtype(np.int64))
    limits = np.iinfo(plain)
    rounded = np.rint(values)
    # The largest 64-bit integers are no doubles: compare before the cast, not after it.
    whole = np.where(
        rounded >= float(limits.max), limits.max, np.where(rounded <= float(limits.min), limits.min, 0)
    ).astype(plain)
    inside = (rounded < float(limits.max)) & (rounded > float(limits.min))
    whole[inside] = rounded[inside].astype(plain)
    return whole if isinstance(dtype, np.dtype) else pd.Series(whole).astype(dtype).array


def spread(x: Array, ddof: int = 0) -> Array:
    """Standard deviation of each column, whatever the unit; zero where all that differs is rounding."""
    if len(x) <= ddof:
        return np.zeros(x.shape[1:])
    size = np.abs(x).max(axis=0)
    # Squares of very large or very small numbers would overflow or vanish.
    # In one layout, because numpy's sums differ in the last digit between layouts.
    relative = np.asarray(np.divide(x, np.where(size > 0, size, 1.0), order="C").std(axis=0, ddof=ddof))
    return np.asarray(np.where(relative > 1e-14, relative * size, 0.0))


def as_columns(name: str, value: Any, *, empty: bool = False) -> tuple[Any, ...] | None:
    """Return column names as a tuple, None as None; an empty list is refused unless it has a meaning."""
    if value is None:
        return None
    single = isinstance(value, str) or not isinstance(value, Iterable)
    names = (value,) if single else check_sequence(name, value)
    if not names and not empty:
        raise InputError(f"{name} must not be empty", [], f"Leave {name} out, or name at least one column")
    if any(not _hashable(v) for v in names):
        raise InputError(f"{name} must be names or positions", type(value).__name__, f'Write {name}=["age", "income"]')
    return names


def _hashable(value: Any) -> bool:
    """Whether a value can be a name; a tuple can if its entries can."""
    return (
        all(map(_hashable, value))
        if isinstance(value, tuple)
        else isinstance(value, Hashable) and value is not np.ma.masked
    )


def apart(first: str, a: Sequence[int], second: str, b: Sequence[int], columns: Sequence[Any]) -> None:
    """Raise an error if two lists of columns share one."""
    both = [columns[i] for i in sorted(set(a) & set(b))]
    if both:
        raise InputError(f"A column cannot be in {first} and in {second}", both, "Put it in one of them")
