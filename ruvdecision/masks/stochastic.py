"""Sending each record's category through a row-stochastic matrix (post-randomisation, PRAM)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..channels.steps import About, Matrix, Step
from ..checks import as_float_array, check_probabilities, check_sequence, rows_where
from ..errors import InputError
from ..protocols import Array
from .base import Mask
from .columnkinds import as_columns
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
    columns: Any = None

    def __post_init__(self) -> None:
        matrix = as_float_array("matrix", self.matrix)
        if matrix.ndim != 2 or matrix.size == 0:
            raise InputError(
                "matrix must have one row per category and one column per output",
                f"shape {matrix.shape}",
                "Write Stochastic([[0.9, 0.1], [0.2, 0.8]])",
            )
        matrix = check_probabilities("matrix", matrix)
        object.__setattr__(self, "matrix", tuple(map(tuple, matrix.tolist())))
        for name, size, what in (("outputs", matrix.shape[1], "column"), ("inputs", matrix.shape[0], "row")):
            labels = getattr(self, name)
            if labels is None:
                continue
            labels = tuple(_label(v) for v in check_sequence(name, labels))
            if len(labels) != size:
                raise InputError(
                    f"{name} must have {size} entries, one per {what} of the matrix",
                    len(labels),
                    f"Give one label per {what}",
                )
            if name == "inputs" and len(set(labels)) != size:
                raise InputError("inputs must be different from each other", list(labels), "Name each category once")
            object.__setattr__(self, name, labels)
        object.__setattr__(self, "columns", as_columns("columns", self.columns))

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
        positions = frame.positions(self.columns)
        running = np.cumsum(self.table, axis=1)
        released = []
        for position in positions:
            column = frame.table.iloc[:, position]
            codes, names = self._codes(column)
            uniform = rng.random(len(codes))
            drawn = np.minimum(
                (running[np.maximum(codes, 0)] <= uniform[:, None] * running[np.maximum(codes, 0), -1:]).sum(axis=1),
                running.shape[1] - 1,
            )
            labels = self.labels(names)
            values = _as_column(labels, drawn, codes < 0)
            # Where categories are released as categories, a column keeps its type.
            released.append(
                _like(values, column, labels) if self.outputs is None and len(labels) == len(self.matrix) else values
            )
        table = frame.table.copy(deep=False)
        for position, values in zip(positions, released, strict=True):
            table.isetitem(position, values)
        return Frame(table, frame.kind, frame.dtype)

    def steps(self, about: About, numbers: Array) -> list[Step]:
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

    def _codes(self, column: pd.Series) -> tuple[np.ndarray[Any, np.dtype[np.int64]], tuple[Any, ...] | None]:
        """The matrix row of every record, -1 where it is missing, and the categories' names."""
        size = len(self.matrix)
        names: tuple[Any, ...] | None = self.inputs
        if names is None and isinstance(column.dtype, pd.CategoricalDtype):
            names = tuple(column.cat.categories)
            if len(names) != size:
                raise InputError(
                    f"The matrix has {size} rows, and needs one per category of the column {column.name!r}",
                    f"{len(names)} categories",
                    "Give one row per category",
                )
        missing = column.isna().to_numpy()
        codes = np.full(len(column), -1, dtype=np.int64)
        if names is None:
            if not pd.api.types.is_numeric_dtype(column.dtype):
                raise InputError(
                    "Stochastic must know which category each matrix row stands for",
                    f"column {column.name!r} of {column.dtype}",
                    "Give inputs=[...], one category per row",
                )
            if pd.api.types.is_complex_dtype(column.dtype):
                raise InputError(
                    "A column must not hold complex numbers", str(column.name), "Split it into real and imaginary part"
                )
            numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
            bad = ~missing & ((numbers != np.rint(numbers)) | (numbers < 0) | (numbers >= size))
            if bad.any():
                raise InputError(
                    f"Without inputs= categories are codes 0 to {size - 1}",
                    f"others in {rows_where(bad)}",
                    "Give inputs=[...], one category per row",
                )
            codes[~missing] = numbers[~missing].astype(np.int64)
            return codes, None
        place = {name: i for i, name in enumerate(names)}
        for row, value in enumerate(column.tolist()):
            if missing[row]:
                continue
            if not isinstance(value, Hashable) or value not in place:
                raise InputError(
                    "The data hold a category that the matrix has no row for",
                    f"one in row {row} of column {column.name!r}",
                    "Add it to inputs= and to the matrix, or recode it",
                )
            codes[row] = place[value]
        return codes, names


def _label(value: Any) -> Any:
    """A hashable plain Python value."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, np.ndarray)):
        return tuple(_label(v) for v in value)
    return value


def _like(values: Any, column: pd.Series, labels: tuple[Any, ...]) -> Any:
    """Released categories in the type of the column, if all labels can be written in it."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return pd.Categorical(values, dtype=dtype) if set(labels) <= set(dtype.categories) else values
    if pd.api.types.is_bool_dtype(dtype) and not set(labels) <= {0, 1}:
        return values
    try:
        same = pd.Series(list(labels)).astype(dtype).tolist() == list(labels)
    except (TypeError, ValueError):
        return values
    return pd.Series(values).astype(dtype).array if same else values


def _as_column(labels: tuple[Any, ...], drawn: Any, missing: Any) -> Any:
    if all(isinstance(v, (bool, int, float)) for v in labels):
        values = np.array(labels)[drawn]
        return np.where(missing, np.nan, values) if missing.any() else values
    column = np.empty(len(drawn), dtype=object)
    column[:] = [np.nan if m else labels[d] for d, m in zip(drawn, missing, strict=True)]
    return column
