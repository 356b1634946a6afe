"""One view of every kind of data that a mask may be given: DataFrame, Series, vector, matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ..checks import Columns, check_columns
from ..errors import InputError
from ..protocols import Array


@dataclass(frozen=True)
class Frame:
    """A data set as a table, with what is needed to give back the kind that came in."""

    table: pd.DataFrame
    kind: str
    dtype: Any = None
    """The name of a Series, or the type of an array that came in."""

    @classmethod
    def of(cls, data: Any) -> Frame:
        """Wrap a DataFrame, a Series or an array of one or two dimensions (rows are respondents).

        What a masked array masks is missing. Numbers in another machine's byte order are put into this one's.
        """
        if isinstance(data, Frame):
            return data
        if isinstance(data, pd.DataFrame):
            if not data.columns.is_unique:
                twice = data.columns[data.columns.duplicated()].unique().tolist()
                raise InputError("Column names must be unique", twice, "Rename the columns that share a name")
            frame = cls(data, "frame")._in_native_byte_order()
        elif isinstance(data, pd.Series):
            frame = cls(data.to_frame(), "series", data.name)._in_native_byte_order()
        else:
            array = _as_plain_array(data)
            table = pd.DataFrame(
                array if array.ndim == 2 else array[:, None], dtype=object if array.dtype == object else None
            )
            if array.dtype == object:
                with suppress(
                    OverflowError
                ):  # older pandas tries to make floats of integers that are too large for one
                    table = table.infer_objects()
            frame = cls(table, "matrix" if array.ndim == 2 else "vector", array.dtype)
            if array.dtype.kind in "biuf":
                frame.__dict__["dtypes"] = [array.dtype] * table.shape[1]
        if len(frame.table) == 0 or frame.table.shape[1] == 0:
            raise InputError(
                "Data must have at least one row and one column",
                f"shape {frame.table.shape}",
                "Check how the data were read",
            )
        return frame

    @property
    def labels(self) -> pd.DataFrame:
        """A table with the same rows and columns, whatever it holds."""
        return self.table

    @property
    def n(self) -> int:
        return len(self.labels)

    @property
    def columns(self) -> list[Any]:
        return list(self.labels.columns)

    @cached_property
    def dtypes(self) -> list[Any]:
        """The columns' types, looked up once: pandas makes a Series of them, which takes as long as a small fit."""
        return self.table.dtypes.tolist()

    @cached_property
    def plain(self) -> bool:
        """True if every column holds plain numbers of double precision."""
        return all(t == np.float64 for t in self.dtypes)

    def positions(self, columns: Columns) -> list[int]:
        """Positions of the chosen columns; None means all of them."""
        return list(range(self.labels.shape[1])) if columns is None else check_columns("columns", columns, self.columns)

    def numeric(self, who: str, columns: Columns = None, *, missing: bool = False) -> tuple[Array, list[int]]:
        """Return the chosen columns as a float matrix and their positions.

        Non-numeric columns are refused by name, missing values too unless ``missing`` is true.
        """
        positions = self.positions(columns)
        values: Any
        if self.plain and columns is None:
            values = self.numbers()
        else:
            part = self.table if columns is None else self.table.iloc[:, positions]
            kinds = zip(part.columns, part.dtypes, strict=True)
            bad = [
                c for c, kind in kinds if not pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_complex_dtype(kind)
            ]
            if bad:
                hint = "Name the numeric ones with columns=[...], or convert these"
                raise InputError(f"{who} needs numeric columns", f"non-numeric {bad}", hint)
            values = part.to_numpy(dtype=np.float64, copy=True, na_value=np.nan)  # masks work on it in place
        if not missing and not np.all(np.isfinite(values)):
            names = [self.columns[i] for i in positions]
            named = [c for c, ok in zip(names, np.isfinite(values).all(axis=0), strict=True) if not ok]
            hint = "Fill or drop them first, or leave those columns out with columns=[...]"
            raise InputError(f"{who} cannot take missing or infinite values", f"some in columns {named}", hint)
        return values, positions

    def numbers(self) -> Array:
        """A copy of all columns as one matrix, where they are `plain`."""
        return self.table.to_numpy(dtype=np.float64, copy=True)

    def replace(self, values: Any, positions: Sequence[int]) -> Frame:
        """Return a new frame with the columns at ``positions`` replaced by real numbers.

        Each has its own floating type if it had one. Everything else is kept as it is.
        """
        new = np.asarray(values)
        if self.plain and new.dtype == np.float64 and list(positions) == list(range(self.labels.shape[1])):
            return NumericFrame.with_labels_of(self, new)
        return replace(self, table=_replace_columns(self.table, new, positions))

    def put(self, columns: Mapping[int, Any]) -> Frame:
        """Return a new frame with the columns at these positions replaced, each by an array of its own type."""
        table = self.table.copy(deep=False)
        for position, values in columns.items():
            table.isetitem(position, values.array if isinstance(values, pd.Series) else values)
        return replace(self, table=table)

    def with_values_from_rows(self, sources: Mapping[int, Any]) -> Frame:
        """Return a new frame whose columns at these positions take their values from other rows, in their own type."""
        return self.put({i: self.table.iloc[:, i].array.take(rows) for i, rows in sources.items()})

    def select(self, positions: Sequence[int]) -> Frame:
        """Return the columns at these positions."""
        if list(positions) == list(range(self.labels.shape[1])):
            return self
        part = replace(self, table=self.table.take(positions, axis=1))
        part.__dict__["dtypes"] = [self.dtypes[i] for i in positions]
        return part

    def take(self, rows: Any) -> Frame:
        """Return the rows at these positions, with their labels."""
        return replace(self, table=self.table.iloc[rows])

    def _in_native_byte_order(self) -> Frame:
        """The same with its numbers in this machine's byte order."""
        foreign = [i for i, t in enumerate(self.dtypes) if numpy_kind(t) and not t.isnative]
        values = {i: self.table.iloc[:, i].to_numpy() for i in foreign}
        return self.put({i: v.astype(v.dtype.newbyteorder("=")) for i, v in values.items()}) if foreign else self

    def unwrap(self) -> Any:
        """Give back the kind of data that came in."""
        if self.kind == "frame":
            return self.table.copy(deep=False) if self.table.shape[1] else self.table
        if self.kind == "series":
            return self.table.iloc[:, 0].rename(self.dtype)
        types = list(self.table.dtypes)
        if set(map(numpy_kind, types)) <= set("biuf"):
            # pandas would make objects of truth values beside numbers.
            values = self.table.to_numpy(dtype=np.result_type(*types))
        else:
            values = self.table.to_numpy()
            if self.dtype is not None and self.dtype.kind == "U" and all(isinstance(v, str) for v in values.ravel()):
                values = values.astype(str)
        return values if self.kind == "matrix" else values[:, 0]


def files_of(release: object) -> tuple[Any, ...]:
    """The files of a release: one, or a tuple of those that several masks made."""
    return release if isinstance(release, tuple) else (release,)


def for_each_file(function: Callable[..., object], *releases: object) -> Any:
    """What a function makes of releases file by file, in a tuple where there are several files."""
    found = tuple(function(*parts) for parts in zip(*map(files_of, releases), strict=True))
    return found if files_of(releases[0]) is releases[0] else found[0]


class NumericFrame(Frame):
    """A frame of plain numbers whose table is put together when somebody asks for it: many only want the numbers."""

    _labels: Any = None
    _values: Any = None

    @classmethod
    def with_labels_of(cls, labels: Frame, values: Array) -> NumericFrame:
        """These numbers under the labels of another frame of plain numbers."""
        frame = object.__new__(cls)
        # All that a frozen dataclass holds but the table.
        frame.__dict__.update(kind=labels.kind, dtype=labels.dtype, plain=True, _labels=labels.labels, _values=values)
        return frame

    @property
    def labels(self) -> pd.DataFrame:
        return self.table if self._labels is None else self._labels

    @cached_property
    def table(self) -> pd.DataFrame:  # type: ignore[override]
        return _replace_columns(self._labels, self._values, range(self._values.shape[1]))

    def numbers(self) -> Array:
        # Once there is a table, it is what holds: somebody may have written into it.
        return super().numbers() if "table" in self.__dict__ else self._values.copy()

    def unwrap(self) -> Any:
        if "table" in self.__dict__ or self.kind not in ("matrix", "vector"):
            return super().unwrap()
        return self.numbers() if self.kind == "matrix" else self.numbers()[:, 0]


def _replace_columns(table: pd.DataFrame, values: Any, positions: Sequence[int]) -> pd.DataFrame:
    fresh = table.copy(deep=False)
    for j, position in enumerate(positions):
        fresh.isetitem(position, real_like(values[:, j], table.iloc[:, position]))
    return fresh


def _as_plain_array(data: Any) -> np.ndarray[Any, Any]:
    """Data as an array of one or two dimensions, in this machine's byte order, with masked entries missing."""
    try:
        array = np.asarray(data)
    except ValueError:
        raise InputError(
            "Data must be a table", "rows of different lengths", "Give one row per respondent, all equally long"
        ) from None
    if array.dtype.kind == "V":
        raise InputError("Data must be a table", "an array with named fields", "Write pd.DataFrame(array)")
    if array.ndim not in (1, 2):
        raise InputError("Data must have one or two dimensions", f"shape {array.shape}", "Give one row per respondent")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if isinstance(data, np.ma.MaskedArray) and np.any(hidden := np.ma.getmaskarray(data)):
        # Only floating point, complex numbers and objects can hold what stands for missing.
        holds = array.dtype if array.dtype.kind in "fc" else np.float64 if array.dtype.kind in "biu" else object
        array = array.astype(holds)
        array[hidden] = np.nan
    return array


def numpy_kind(dtype: object) -> str:
    """The letter of a type of numpy, such as "f"; none for the types that pandas has beside them."""
    return dtype.kind if isinstance(dtype, np.dtype) else ""


def real_like(values: Array, column: pd.Series) -> Any:
    """Real numbers for a numeric column: its own floating type where it has one, else double precision."""
    dtype = column.dtype
    if numpy_kind(dtype):
        return values.astype(dtype, copy=False) if dtype.kind == "f" else values
    if pd.api.types.is_float_dtype(dtype):
        return pd.Series(values).astype(dtype).array
    return pd.Series(values).astype("double[pyarrow]" if isinstance(dtype, pd.ArrowDtype) else "Float64").array
