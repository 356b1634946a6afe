"""From a release to what it tells: the way back through a mask, from its last step to its first."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...checks import check_integer, is_number
from ...errors import InputError
from ...protocols import Array
from ..samples import released_files
from ..steps import FileFacts, MaskLike, resolve
from .base import ColumnLikelihood, Ints
from .entries import Known, KnownLabels, nothing_observed, observe_by_case
from .product import combine_releases
from .reader import read
from .release import ReleaseLikelihood

Released: TypeAlias = pd.DataFrame | pd.Series | Array


def observe(mask: MaskLike, release: Released, n: int, columns: Sequence[Hashable] | None = None) -> ReleaseLikelihood:
    """Return what a release tells about the n records that it was made from.

    Parameters
    ----------
    mask : Mask
        What made the release.
    release : DataFrame, Series or array
        What ``mask.release`` gave back for a file with rows numbered from 0; missing values were not released. The
        index says which rows a sample holds, so a sample must not be an array.
    n : int
        Number of records.
    columns : list, optional
        Names of the columns, if the release is an array and the mask calls them by name.

    >>> from ruvdecision.masks import Noise
    >>> observe(Noise(sd=2.0), np.array([1.0, 4.0]), 2).columns[0].normal
    (array([1., 4.]), array([4., 4.]))
    """
    n = check_integer("n", n, low=1)
    if mask.separate_releases:
        return _observe_several(mask, release, n, columns)
    table, index = _release_table(release, columns)
    _refuse_longer(len(table), n)
    if index is None:
        if len(table) < n:
            raise InputError(
                "A release with fewer rows must say which records they are",
                "an array",
                "Release a DataFrame with rows numbered from 0",
            )
        index = np.arange(n)
    found = [_observe_column(table.iloc[:, j]) for j in range(table.shape[1])]
    columns, categorical = zip(*found, strict=True)
    return _back_through_mask(
        mask, ReleaseLikelihood(columns, None, False, None, tuple(table.columns), categorical, index, n)
    )


def observe_matrix(
    mask: MaskLike, values: Array, names: Sequence[Hashable], index: pd.Index[Any], n: int
) -> ReleaseLikelihood:
    """What `observe` says of a table of plain numbers, given as a matrix with the table's names and index.

    >>> import pandas as pd
    >>> from ruvdecision.masks import Noise
    >>> observe_matrix(Noise(sd=2.0), np.array([[1.0], [4.0]]), [0], pd.RangeIndex(2), 2).columns[0].normal
    (array([1., 4.]), array([4., 4.]))
    """
    _refuse_longer(len(values), n)
    columns = tuple(_observe_column_of_numbers(values[:, j]) for j in range(values.shape[1]))
    return _back_through_mask(mask, ReleaseLikelihood(columns, names=tuple(names), index=_row_numbers(index), total=n))


def _observe_several(mask: MaskLike, release: Any, n: int, columns: Sequence[Hashable] | None) -> ReleaseLikelihood:
    """What several releases tell: each goes back through its own mask, and all together through what came before."""
    *before, last = mask.parts
    files, rows = released_files(release, mask.file_count), None
    if before:
        found = [_release_table(one, columns) for one in files]
        steps = resolve(reduce(or_, before), FileFacts(n, tuple(found[0][0].columns)))
        if any(f.step.samples and f.step.rows is not None for f in steps):
            # A sample that all releases start from: they are about its rows.
            rows = found[0][1]
            if rows is None:
                raise InputError("A sample must tell which rows it holds", "an array", "Release a DataFrame")
            files = [table.reset_index(drop=True) for table, _ in found]
    start, observed_files = 0, []
    for part in last.separate_releases:
        own = files[start : start + part.file_count]
        observed_files.append(
            observe(part, own[0] if len(own) == 1 else tuple(own), n if rows is None else len(rows), columns)
        )
        start += part.file_count
    observed = reduce(combine_releases, observed_files)
    if not before:
        return observed
    index = np.arange(n) if rows is None else rows
    return _back_through_mask(reduce(or_, before), replace(observed, index=index, total=n))


def _refuse_longer(rows: int, n: int) -> None:
    if rows > n:
        raise InputError(f"A release of {n} records has at most {n} rows", rows, "Give the release that this mask made")


def _back_through_mask(mask: MaskLike, observed: ReleaseLikelihood) -> ReleaseLikelihood:
    """Back through the mask, with every row at its place."""
    observed = read(mask, observed).in_whole_file()
    for name, column in zip(observed.names, observed.columns, strict=True):
        if any(isinstance(part, KnownLabels) for _, part in column.pieces):
            raise InputError(
                f"Column {name!r} was released as text",
                "labels",
                "Records must be numbers: code the categories 0, 1, ...",
            )
    return observed


def _release_table(release: Released, columns: Sequence[Hashable] | None) -> tuple[pd.DataFrame, Ints | None]:
    """The release as a table, and the row numbers that it carries, if any."""
    if isinstance(release, pd.Series):
        release = release.to_frame(name=0 if release.name is None else release.name)
    if isinstance(release, pd.DataFrame):
        table, index = release, _row_numbers(release.index)
    else:
        array: NDArray[Any] = np.asarray(release)
        if array.ndim not in (1, 2):
            raise InputError(
                "A release must have one or two dimensions", f"shape {array.shape}", "Give one row per record"
            )
        table, index = pd.DataFrame(array if array.ndim == 2 else array[:, None]), None
    if columns is not None:
        names = list(columns)
        if len(names) != table.shape[1]:
            raise InputError(
                f"columns must name the {table.shape[1]} columns of the release",
                f"{len(names)} names",
                "Name each column once",
            )
        table = table.set_axis(names, axis=1)
    return table, index


def _row_numbers(labels: pd.Index[Any]) -> Ints:
    """The row numbers of a release."""
    index = labels.to_numpy()
    if isinstance(labels, pd.RangeIndex) and labels.start >= 0 and labels.step > 0:
        return index  # differs from row to row by itself
    twice = not isinstance(labels, pd.RangeIndex) and len(np.unique(index)) != len(index)
    if not np.issubdtype(index.dtype, np.integer) or twice or (len(index) and index.min() < 0):
        raise InputError(
            "The rows of a release must be numbered from 0",
            f"an index of {index.dtype}",
            "Mask a file with reset_index(drop=True)",
        )
    return index


def _observe_column(column: pd.Series[Any]) -> tuple[ColumnLikelihood, bool]:
    """A released column as what is known of the mask's output, and whether it holds categories."""
    dtype, missing = column.dtype, column.isna().to_numpy()
    named = isinstance(dtype, pd.CategoricalDtype)
    if named or not pd.api.types.is_numeric_dtype(dtype):
        listed = column.tolist()
        # Numbers and booleans in a column of objects (blanks turn columns into those) are numbers all the same.
        if named or not all(is_number(v) for v, gone in zip(listed, missing, strict=True) if not gone):
            cases = [(missing, nothing_observed), (~missing, lambda rows: KnownLabels([listed[i] for i in rows]))]
            return observe_by_case(len(column), cases), True
        values = np.array([np.nan if gone else float(v) for v, gone in zip(listed, missing, strict=True)])
        return _observe_column_of_numbers(values), True
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if isinstance(dtype, np.dtype) and dtype.kind == "f" and dtype.itemsize < 8:
        # The decimals that were meant: 0.3 in single precision is no multiple of 0.1 to nine digits.
        values = np.array([float(str(v)) for v in column.to_numpy()])
    return _observe_column_of_numbers(values), pd.api.types.is_bool_dtype(dtype)


def _observe_column_of_numbers(values: Array) -> ColumnLikelihood:
    """Released numbers; those that are missing tell nothing."""
    if np.isfinite(values).all():
        return Known(values)
    missing, infinite = np.isnan(values), int(np.isinf(values).sum())
    if infinite:
        raise InputError("Released values must be finite", f"{infinite} infinite ones", "Topcode or suppress them")
    return observe_by_case(len(values), [(missing, nothing_observed), (~missing, lambda rows: Known(values[rows]))])
