"""Sending each record's category through a row-stochastic matrix (post-randomisation, PRAM)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..channels.steps import FileFacts, Matrix, Step
from ..checks import (
    Columns,
    as_float_array,
    as_python_value,
    check_distinct,
    check_probabilities,
    check_sequence,
    checked,
    is_number,
    rows_where,
)
from ..errors import InputError
from ..protocols import Array
from .applying import draw_categories
from .base import Mask
from .columns import Ints, as_columns, category_codes, is_categorical, kind_of
from .frame import Frame


@dataclass(frozen=True, repr=False)
class Stochastic(Mask):
    """Replace each record's category by one drawn from the matrix row of that category.

    A channel in the sense of quantitative information flow: entry (i, o) is the chance to release output o when
    the record is category i. Records are masked independently. Missing records stay missing.

    Parameters
    ----------
    matrix : array, shape (categories, outputs)
        Each row sums to one.
    outputs : list, optional
        What is released, one per column. If not given: the categories themselves for a square matrix, otherwise 0, 1,
        ...
    inputs : list, optional
        The categories, one per row. In a map they are the belief's outcomes, in their order. With real data they
        may be left out if the data are codes 0, 1, ... or pandas categoricals.
    columns : names or positions, optional
        Columns to mask; all of them if not given.

    >>> Stochastic([[0, 1], [1, 0]], outputs=["b", "a"], inputs=["a", "b"]).release(["a", "b"], 1).tolist()
    ['a', 'b']
    """

    matrix: Any
    outputs: Any = None
    inputs: Any = None
    columns: Columns = checked(None, as_columns)

    def __post_init__(self) -> None:
        super().__post_init__()
        matrix = as_float_array("matrix", self.matrix)
        if matrix.ndim != 2 or matrix.size == 0:
            what = "matrix must have one row per category and one column per output"
            raise InputError(what, f"shape {matrix.shape}", "Write Stochastic([[0.9, 0.1], [0.2, 0.8]])")
        matrix = check_probabilities("matrix", matrix)
        object.__setattr__(self, "matrix", tuple(map(tuple, matrix.tolist())))
        both = ("outputs", self.outputs, matrix.shape[1], "column"), ("inputs", self.inputs, matrix.shape[0], "row")
        for name, given, size, what in both:
            if given is None:
                continue
            labels = tuple(as_python_label(v) for v in check_sequence(name, given))
            if len(labels) != size:
                entries = f"{name} must have {size} entries, one per {what} of the matrix"
                raise InputError(entries, len(labels), f"Give one label per {what}")
            if name == "inputs":
                check_distinct(name, labels, "Name each category once")
            object.__setattr__(self, name, labels)

    @property
    def table(self) -> Array:
        """The matrix as an array."""
        return np.array(self.matrix)

    def labels(self, inputs: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
        """What is released, one label per column."""
        if self.outputs is not None:
            return self.outputs  # type: ignore[no-any-return]
        rows, columns = self.table.shape
        known = self.inputs if self.inputs is not None else inputs
        return known if rows == columns and known is not None else tuple(range(columns))

    def parameters(self) -> dict[str, Any]:
        """The matrix's diagonal mean stands for the matrix in a map's table: the chance to keep a category."""
        rows, columns = self.table.shape
        shown: dict[str, Any] = {"matrix": f"{rows} x {columns}"}
        if rows == columns:
            shown["kept"] = float(np.trace(self.table) / rows)
        return shown

    @property
    def family(self) -> Hashable:
        return (Stochastic, self.matrix, self.outputs, self.inputs, self.columns)

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        new = {}
        for position in frame.positions(self.columns):
            column = frame.table.iloc[:, position]
            codes, names = self._codes_of_column(column)
            drawn = draw_categories(self.table[np.maximum(codes, 0)], rng.random(len(codes)))
            labels = self.labels(names)
            values = _as_column(labels, drawn, codes < 0)
            # Where categories are released as categories, a column keeps its type.
            same = self.outputs is None and len(labels) == len(self.matrix)
            new[position] = _in_type_of_column(values, column, labels) if same else values
        return frame.put(new)

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        size, columns, inputs = len(self.matrix), about.positions(self.columns), self.inputs
        if inputs is None and self.columns is None and about.k > 1 and about.levels and all(about.levels):
            inputs = ()  # whole records, which only the reader knows
        elif inputs is None:
            inputs = about.categories(columns[0]) or tuple(range(size))
        released = self.labels(inputs or None)
        if not inputs and self.outputs is None and len(self.table[0]) == size:
            released = ()
        return [
            Matrix(columns=columns, matrix=self.table, inputs=inputs, released=released, whole=self.columns is None)
        ]

    def _codes_of_column(self, column: pd.Series) -> tuple[Ints, tuple[Any, ...] | None]:
        """The matrix row of every record, -1 where it is missing, and the categories' names."""
        size = len(self.matrix)
        names: tuple[Any, ...] | None = self.inputs
        if names is None and is_categorical(column):
            names = tuple(column.cat.categories)
            if len(names) != size:
                what = f"The matrix has {size} rows, and needs one per category of the column {column.name!r}"
                raise InputError(what, f"{len(names)} categories", "Give one row per category")
        if names is not None:
            codes, levels = category_codes(column)
            place = {name: i for i, name in enumerate(names)}
            rows = np.array([*(place.get(v, -1) for v in levels), -1])[codes]
            if np.any(unknown := (rows < 0) & (codes >= 0)):
                raise InputError(
                    "The data hold a category that the matrix has no row for",
                    f"one in row {int(np.argmax(unknown))} of column {column.name!r}",
                    "Add it to inputs= and to the matrix, or recode it",
                )
            return rows, names
        do = "Give inputs=[...], one category per row"
        if kind_of(column) not in ("number", "boolean"):
            what = "Stochastic must know which category each matrix row stands for"
            raise InputError(what, f"column {column.name!r} of {column.dtype}", do)
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
        missing = np.isnan(numbers)
        bad = ~missing & ((numbers != np.rint(numbers)) | (numbers < 0) | (numbers >= size))
        if bad.any():
            raise InputError(
                f"Without inputs= categories are codes 0 to {size - 1}", f"others in {rows_where(bad)}", do
            )
        return np.where(missing, -1, numbers).astype(np.int64), None


def as_python_label(value: Any) -> Any:
    """A hashable plain Python value."""
    many = isinstance(value, (list, tuple, np.ndarray))
    return tuple(map(as_python_label, value)) if many else as_python_value(value)


def _in_type_of_column(values: Any, column: pd.Series, labels: tuple[Any, ...]) -> Any:
    """Released categories in the type of the column, if all labels can be written in it."""
    dtype = column.dtype
    if is_categorical(column):
        return pd.Categorical(values, dtype=dtype) if set(labels) <= set(dtype.categories) else values
    if pd.api.types.is_bool_dtype(dtype) and not set(labels) <= {0, 1}:
        return values
    try:
        same = pd.Series(list(labels)).astype(dtype).tolist() == list(labels)
    except (TypeError, ValueError):
        return values
    return pd.Series(values).astype(dtype).array if same else values


def _as_column(labels: tuple[Any, ...], drawn: Any, missing: Any) -> Any:
    if all(map(is_number, labels)):
        values = np.array(labels)[drawn]
        return np.where(missing, np.nan, values) if missing.any() else values
    column = np.empty(len(drawn), dtype=object)
    column[:] = [np.nan if m else labels[d] for d, m in zip(drawn, missing, strict=True)]
    return column
