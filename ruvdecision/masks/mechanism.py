"""Mechanisms that look at a whole file: the best ones that `ruvdecision.limit` finds, as masks.

`Mechanism` is a row-stochastic matrix from what a file of categories can be to what is released. `Combine` releases a
few linear combinations of normal records with noise of any covariance; `SeparateRows` before it names the rows
that it treats on their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..channels.file_matrix import FileMatrix
from ..channels.finite import hashable_record
from ..channels.layout import Partition
from ..channels.linear import LinearChannel
from ..channels.steps import Drop, FileFacts, Step
from ..checks import (
    as_float_array,
    check_covariance,
    check_distinct,
    check_distinct_positions,
    check_each_once,
    check_index,
    check_integer,
    check_probabilities,
    check_sequence,
    check_square,
    is_single,
)
from ..errors import InputError, UnsupportedError
from ..numerics.semidefinite import correlate
from ..protocols import Array
from .base import Mask
from .frame import Frame
from .stochastic import as_python_label

Ints = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Mechanism(Mask):
    """Release one output for the whole file, drawn from the matrix row of what the file is.

    A file is told by the outcomes of some ``rows`` and by how many of the other records have each outcome; the order of
    the others does not matter. Files are numbered with the outcomes of ``rows`` first (the last row runs fastest), then
    the counts as `compositions` lists them. Every released record shows the output: its numbers if they fit the
    columns, otherwise its position 0, 1, ... in ``outputs``.

    Parameters
    ----------
    matrix : array, shape (files, outputs)
        Chance of every output for every file; each row sums to one.
    outputs : list
        What is released: a number or a vector per column of the matrix.
    outcomes : list
        What a record can be, in the order of the belief.
    records : int
        Number of records in a file.
    rows : list of int, optional
        Rows that the mechanism treats on their own.

    Examples
    --------
    >>> mask = Mechanism([[1, 0], [0.5, 0.5], [0, 1]], outputs=[0.2, 0.8], outcomes=[0, 1], records=2)
    >>> mask.release([1.0, 1.0], 1)  # files have two, one or no record with outcome 0
    array([0.8, 0.8])
    """

    matrix: Any
    outputs: Any
    outcomes: Any
    records: int
    rows: Any = ()

    def __post_init__(self) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        put("records", check_integer("records", self.records, low=1))
        put("rows", tuple(check_distinct_positions("rows", check_sequence("rows", self.rows), self.records).tolist()))
        outcomes = map(as_python_label, check_sequence("outcomes", self.outcomes))
        put("outcomes", check_distinct("outcomes", outcomes, "Name each outcome once"))
        table = as_float_array("matrix", self.matrix)
        if table.ndim != 2 or table.shape[0] != self.files:
            raise InputError(
                f"matrix must have {self.files} rows, one per file",
                f"shape {table.shape}",
                "List files as the class says",
            )
        put("matrix", tuple(map(tuple, check_probabilities("matrix", table).tolist())))
        put("outputs", tuple(as_python_label(v) for v in check_sequence("outputs", self.outputs)))
        if len(self.outputs) != table.shape[1]:
            raise InputError(
                f"outputs must have {table.shape[1]} entries", len(self.outputs), "Give one per column of the matrix"
            )

    @property
    def files(self) -> int:
        """How many kinds of files there are."""
        size, others = len(self.outcomes), self.records - len(self.rows)
        return int(size ** len(self.rows) * comb(others + size - 1, size - 1))

    def parameters(self) -> dict[str, Any]:
        """The size of the matrix stands for it in a map's table."""
        return {"matrix": f"{len(self.matrix)} x {len(self.outputs)}"}

    def __repr__(self) -> str:
        return f"Mechanism({len(self.matrix)} files, {len(self.outputs)} outputs)"

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        if frame.n != self.records:
            raise InputError(
                f"This mechanism takes files of {self.records} records", frame.n, "Make one for files of that size"
            )
        place = {hashable_record(v): i for i, v in enumerate(self.outcomes)}
        codes = np.empty(frame.n, dtype=np.int64)
        for i, entry in enumerate(frame.table.itertuples(index=False, name=None)):
            code = place.get(hashable_record(entry))
            if code is None:
                raise InputError(
                    "The file holds a record that the mechanism has no row for",
                    f"row {i}",
                    "Use records that are among the belief's outcomes",
                )
            codes[i] = code
        running = np.cumsum(self._file_matrix.matrix[self._file_matrix.index_of(codes)])
        drawn = min(int(np.searchsorted(running, rng.random() * running[-1], side="right")), len(running) - 1)
        width = frame.table.shape[1]
        keys = [hashable_record(v) for v in self.outputs]
        fits = all(len(k) == width and all(isinstance(e, float) for e in k) for k in keys)
        shown = keys[drawn] if fits else (float(drawn),) * width
        return frame.put({j: np.full(frame.n, shown[j]) for j in range(width)})

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        return [self._file_matrix]

    @cached_property
    def _file_matrix(self) -> FileMatrix:
        return FileMatrix(
            matrix=np.array(self.matrix),
            outputs=self.outputs,
            outcomes=len(self.outcomes),
            records=self.records,
            followed=self.rows,
        )


@dataclass(frozen=True, repr=False)
class SeparateRows(Mask):
    """Change nothing, but let the masks after it treat some rows on their own; it goes before `Combine`.

    >>> SeparateRows(rows=[0]).release([1.0, 2.0])
    array([1., 2.])
    """

    rows: Any

    def __post_init__(self) -> None:
        given = (self.rows,) if is_single(self.rows) else check_sequence("rows", self.rows)
        rows = [check_integer("rows", r, low=0) for r in given]
        object.__setattr__(self, "rows", check_distinct("rows", rows, "Write SeparateRows(rows=[0])"))

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        labels = np.zeros(about.n, dtype=np.int64)
        labels[[check_index("rows", r, about.n) for r in self.rows]] = np.arange(1, len(self.rows) + 1)
        return [Drop(columns=(), rows=Partition.of(labels, joins=False))]


@dataclass(frozen=True, repr=False)
class Combine(Mask):
    """Release M b + e: b stacks the records of some ``rows`` and the mean of all others, and e ~ N(0, covariance).

    Each of the ``rows`` shows its own part of M b + e; every other record shows the last part, which stands for their
    mean. Without ``rows`` b is the average of the file. In closed forms `SeparateRows` with the same rows goes before
    it: ``SeparateRows(rows=[0]) | Combine(matrix, covariance, rows=[0])``.

    Parameters
    ----------
    matrix : array, shape (d, d)
        M; d is the number of columns times the number of parts (``len(rows)`` and one for the others, if there are
        any).
    covariance : array, shape (d, d)
        Covariance of the noise.
    rows : list of int, optional
        Rows that are treated on their own, as in `SeparateRows`.

    Examples
    --------
    >>> Combine([[1.0]], [[0.0]]).release([1.0, 2.0, 6.0])
    array([3., 3., 3.])
    """

    matrix: Any
    covariance: Any
    rows: Any = ()

    def __post_init__(self) -> None:
        matrix = check_square("matrix", self.matrix, "Give one row and one column per entry of b")
        covariance = check_covariance("covariance", self.covariance, len(matrix))
        rows = check_each_once(
            "rows", [check_integer("rows", r, low=0) for r in check_sequence("rows", self.rows)], "Name each row once"
        )
        for name, value in (("matrix", matrix), ("covariance", covariance)):
            object.__setattr__(self, name, tuple(map(tuple, value.tolist())))
        object.__setattr__(self, "rows", rows)

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        values, positions = frame.numeric("Combine")
        n, k = values.shape
        rows, parts = self._row_parts(n, k)
        rest = np.setdiff1d(np.arange(n), rows)
        b = np.concatenate(
            [values[rows].reshape(-1), values[rest].mean(axis=0)] if len(rest) else [values[rows].reshape(-1)]
        )
        (noise,) = correlate(rng.standard_normal((1, len(b))), np.array(self.covariance))
        shown = (np.array(self.matrix) @ b + noise).reshape(parts, k)
        out = np.empty_like(values)
        out[rows] = shown[: len(rows)]
        if len(rest):
            out[rest] = shown[-1]
        return frame.replace(out, positions)

    def partition(self, n: int) -> Partition | None:
        return Partition.consecutive_groups(n, 1)

    def linear(self, channel: LinearChannel, numbers: Array) -> LinearChannel:
        n, k = channel.layout.n, channel.columns
        rows, parts = self._row_parts(n, k)
        block, own = channel.blocks[0], np.array(channel.own_columns)
        if channel.location != "known" or len(channel.blocks) != 1 or not block.released[:, own].all():
            raise UnsupportedError(
                f"{self.technique} needs a whole file with its rows in place", do="Put it first in the chain"
            )
        part = np.full(n, parts - 1)
        part[rows] = np.arange(len(rows))
        cell = channel.layout.place_of_rows()[2]
        of_cell = np.array([part[cell == c][0] for c in range(len(block.shape.sizes))])
        if np.any(of_cell[cell] != part):
            raise UnsupportedError(
                f"{self.technique} must find its rows treated on their own, and all others alike",
                do=f"Write SeparateRows(rows={list(rows)}) | Combine(...)"
                if len(rows)
                else "Put it first in the chain",
            )
        # A cell's coordinate is its mean times the root of its size; every cell of a part shows what the part does.
        show = (of_cell[:, None] == np.arange(parts)) * block.shape.roots[:, None]
        entry = np.kron(show, np.eye(channel.width)[:, own])
        mean = np.kron(show / np.sum(show**2, axis=0), np.eye(channel.width)[:, own]).T
        kept = ~np.isin(np.arange(channel.width), own)
        operator = np.diag(np.tile(kept, len(show)).astype(float)) + entry @ np.array(self.matrix) @ mean
        noise = entry @ np.array(self.covariance) @ entry.T
        changed = replace(
            block,
            b=operator @ block.b,
            r=operator @ block.r @ operator.T + noise,
            rw=block.rw * np.outer(kept, kept),
            contrasts_released=block.contrasts_released & kept,
            plain=False,
            loads=tuple(operator @ load for load in block.loads),
        )
        return replace(channel, blocks=(changed,), noisy_since_average=False)

    def _row_parts(self, n: int, k: int) -> tuple[Ints, int]:
        rows = np.array([check_index("rows", r, n) for r in self.rows], dtype=np.int64)
        parts = len(rows) + (len(rows) < n)
        if len(self.matrix) != parts * k:
            raise InputError(
                f"matrix must be {parts * k} by {parts * k} for {parts} parts of {k} columns",
                f"{len(self.matrix)} rows",
                "Give one row and one column per entry of b",
            )
        return rows, parts
