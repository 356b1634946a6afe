"""Records as cells of a table: the codes that two files share, their frequencies, their dense tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import InputError, UnsupportedError
from ...masks.columns import is_categorical
from ...masks.frame import numpy_kind
from ...protocols import Array
from ..frames import Ints, is_time

MOST_CELLS = 10_000_000


def common_codes(*tables: pd.DataFrame) -> tuple[list[Ints], list[int]]:
    """Codes of every column in each table (rows by columns), and the number of levels of each column.

    Levels are those of all tables together, so a category that only one file has is kept. A missing value is a level of
    its own. Numbers are compared as numbers, categories by their values.

    >>> common_codes(pd.DataFrame({"a": ["x", "y"]}), pd.DataFrame({"a": ["z", "x"]}))[1]
    [3]
    """
    first = tables[0]
    codes = [np.empty(t.shape, dtype=np.int64) for t in tables]
    levels = []
    whole = {numpy_kind(d) for t in tables for d in t.dtypes} <= {"i", "b"}
    matrix = np.concatenate([t[first.columns].to_numpy() for t in tables]) if whole else None
    for j, label in enumerate(first.columns):
        known = None if matrix is None else _codes_by_integer(matrix[:, j])
        columns = [t[label] for t in tables] if known is None else []
        found, size = known or _codes_by_category(columns) or _codes_by_value(columns)
        levels.append(size)
        at = 0
        for part in codes:
            part[:, j] = found[at : at + len(part)]
            at += len(part)
    return codes, levels


def _codes_by_value(columns: Sequence[pd.Series]) -> tuple[Ints, int]:
    """Codes of the columns' values, one after another, and how many there are."""
    values = [without_categories(c) for c in columns]
    if len({is_text(v) for v in values if v.notna().any()}) > 1:
        kinds = ", ".join(str(c.dtype) for c in columns)
        what = "A column must be of one kind in both files"
        raise InputError(what, f"{columns[0].name}: {kinds}", "Convert it in one of them")
    together = pd.concat(values, ignore_index=True) if len(values) > 1 else values[0]
    found, unique = pd.factorize(together, use_na_sentinel=False)
    return found, len(unique)


def _codes_by_integer(values: NDArray[Any]) -> tuple[Ints, int] | None:
    """The same for integers that lie close together, which need no search; None for others."""
    if len(values) == 0 or values.dtype.kind not in "iub":
        return None
    low, high = int(values.min()), int(values.max())
    if high - low >= 4 * len(values) + 64:
        return None
    return renumber(values.astype(np.int64) - low, high - low + 1)


def _codes_by_category(columns: Sequence[pd.Series]) -> tuple[Ints, int] | None:
    """The same for categories with the same type of values, each category looked at once; None for other columns."""
    dtypes = [c.dtype for c in columns]
    if not all(map(is_categorical, columns)) or len({d.categories.dtype for d in dtypes}) > 1:
        return None
    every = dtypes[0].categories.append([d.categories for d in dtypes[1:]])
    places, unique = pd.factorize(every)
    parts, at = [], 0
    for column, dtype in zip(columns, dtypes, strict=True):
        # A missing value has code -1, which takes the last place.
        own = np.append(places[at : at + len(dtype.categories)], len(unique))
        parts.append(own[column.cat.codes.to_numpy()])
        at += len(dtype.categories)
    return renumber(np.concatenate(parts), len(unique) + 1)


def renumber(codes: Ints, size: int) -> tuple[Ints, int]:
    """Codes below ``size`` without those that nobody has, in the same order, and how many are left."""
    some = np.zeros(size, dtype=bool)
    some[codes] = True
    there, places = np.flatnonzero(some), np.empty(size, dtype=np.int64)
    places[there] = np.arange(len(there))
    return places[codes], len(there)


def joint_codes_of_parts(codes: Sequence[Ints]) -> tuple[list[Ints], int]:
    """One code per row from the columns of each part: rows that agree everywhere get the same number, 0, 1, ..."""
    across = np.concatenate(codes).T
    joint, size = joint_codes_of_columns(across, [int(column.max(initial=0)) + 1 for column in across])
    return np.split(joint, np.cumsum([len(c) for c in codes])[:-1]), size


def joint_codes_of_columns(across: NDArray[Any], levels: Sequence[int]) -> tuple[Ints, int]:
    """The same for one row per column, whose numbers run from 0 to below its ``levels``."""
    joint, cells = np.zeros(across.shape[1], dtype=np.int64), 1
    for column, many in zip(across, levels, strict=True):
        # As many columns at once as make few cells: those are counted, which is quicker than sorting.
        if cells * many > 4 * len(joint):
            joint, cells = compact_codes(joint, cells)
        joint, cells = joint * many + column, cells * int(many)
    return compact_codes(joint, cells)


def compact_codes(codes: Ints, size: int) -> tuple[Ints, int]:
    """Codes below ``size`` without those that nobody has, in the same order, and how many are left."""
    if size <= 16 * len(codes) + 64:
        return renumber(codes, size)  # counting is quicker than sorting
    left, codes = np.unique(codes, return_inverse=True)
    return codes.reshape(-1), len(left)


def joint_codes_of_tables(*tables: pd.DataFrame) -> tuple[list[Ints], int]:
    """One code per row, shared by the tables, and the number of different rows."""
    joint, size = joint_codes_of_columns(*column_codes(*tables))
    return np.split(joint, np.cumsum([len(t) for t in tables])[:-1]), size


def column_codes(*tables: pd.DataFrame) -> tuple[NDArray[Any], list[int]]:
    """Codes of every column, one row each, for the tables one after another, and a bound of each column's codes."""
    labels = tables[0].columns
    if len(labels) and {numpy_kind(d) for t in tables for d in t.dtypes.to_numpy()} <= {"i", "b"}:
        # Whole numbers that lie close together need no codes of their own.
        parts = [t.to_numpy() if t.columns is labels else t[labels].to_numpy() for t in tables]
        found = close_numbers(np.ascontiguousarray((parts[0] if len(parts) == 1 else np.concatenate(parts)).T))
        if found is not None:
            return found
    codes, levels = common_codes(*tables)
    return np.concatenate(codes).T, levels


def close_numbers(across: NDArray[Any]) -> tuple[Ints, list[int]] | None:
    """The same for rows of whole numbers that lie close together in each; None for others."""
    if not across.shape[1] or across.dtype.kind != "i":
        return None
    low, high = across.min(axis=1), across.max(axis=1)
    levels = [b - a + 1 for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    few = max(levels) <= 4 * across.shape[1] + 64
    return (across.astype(np.int64, copy=False) - low[:, None], levels) if few else None


def frequencies(codes: Ints, cells: int, weights: Array | None = None) -> Array:
    """Relative frequency of each cell; with ``weights`` each row counts so often."""
    return np.bincount(codes, weights=weights, minlength=cells) / (len(codes) if weights is None else weights.sum())


def counts_of(codes: Ints, wanted: Ints) -> Ints:
    """How many of ``codes`` are equal to each of the ``wanted`` ones.

    >>> counts_of(np.array([5, 2, 5]), np.array([5, 3, 2])).tolist()
    [2, 0, 1]
    """
    kinds, counts = np.unique(codes, return_counts=True)
    place = np.minimum(np.searchsorted(kinds, wanted), len(kinds) - 1)
    return np.where(kinds[place] == wanted, counts[place], 0)


def class_sizes(table: pd.DataFrame) -> tuple[Ints, Ints]:
    """Size of the class of equal rows that each row is in, and the sizes of all classes.

    >>> class_sizes(pd.DataFrame({"a": [1, 1, 2]}))[0].tolist()
    [2, 2, 1]
    """
    (codes,), cells = joint_codes_of_tables(table)
    sizes = np.bincount(codes, minlength=cells)
    return sizes[codes], sizes


def dense_table(who: str, codes: Ints, levels: Sequence[int], weights: Array | None = None) -> Array:
    """The table of counts with one axis per column; with ``weights`` each row counts so often."""
    cells = int(np.prod([float(k) for k in levels]))
    if cells > MOST_CELLS:
        raise UnsupportedError(
            f"{who} holds the whole table and stops at {MOST_CELLS} cells",
            f"{cells} cells from {list(levels)} categories",
            "Choose fewer columns, or recode them",
        )
    flat = np.ravel_multi_index(tuple(codes.T), tuple(levels))
    return np.bincount(flat, weights=weights, minlength=cells).reshape(levels).astype(np.float64)


def without_categories(column: pd.Series) -> pd.Series:
    """The column as its values, where it is a category."""
    return column.astype(column.cat.categories.dtype) if is_categorical(column) else column


def is_text(column: pd.Series) -> bool:
    """True unless the column holds numbers, times or nothing at all."""
    return not (pd.api.types.is_numeric_dtype(column.dtype) or is_time(column) or bool(column.isna().all()))
