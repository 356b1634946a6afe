"""Which rows of a file a chain of masks treats alike.

Rows that every mask of a chain treats alike form a *cell*. Cells that some average ties together form a *block*.
Blocks of the same shape are kept once, with their count, so that a layout costs the same for ten records and for a
million wherever groups are consecutive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from ..protocols import Array

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Partition:
    """How a mask tells rows apart: runs of rows with a label each.

    ``joins`` says that rows with one label are averaged together. ``drawn`` says that the rows were chosen at
    random, so that only the sizes matter. A label of -1 marks rows that are no longer in the file.
    """

    n: int
    starts: Ints
    labels: Ints
    joins: bool
    drawn: bool = False
    even: int | None = None
    """The number of groups, if they are consecutive runs made as evenly as possible."""

    @classmethod
    def consecutive_groups(cls, n: int, groups: int) -> Partition:
        """Consecutive groups of sizes as equal as possible; the first ``n % groups`` have one row more."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(n, empty, empty, joins=True, even=groups)

    @classmethod
    def of(cls, labels: ArrayLike, *, joins: bool) -> Partition:
        """One integer label per row."""
        array = np.asarray(labels, dtype=np.int64)
        starts = np.concatenate([[0], np.flatnonzero(np.diff(array)) + 1]).astype(np.int64)
        return cls(len(array), starts, array[starts], joins)

    @classmethod
    def sample(cls, n: int, size: int) -> Partition:
        """A random sample: label 0 for the rows kept, 1 for those left out."""
        starts = np.array([0, size] if size < n else [0], dtype=np.int64)
        return cls(n, starts, np.arange(len(starts), dtype=np.int64), joins=False, drawn=True)

    @property
    def is_one_group(self) -> bool:
        """True if all rows form one group."""
        return self.joins and (self.even == 1 or (self.even is None and len(np.unique(self.labels)) == 1))

    def run_starts(self) -> tuple[Ints, Ints]:
        """First rows and labels of the runs."""
        if self.even is None:
            return self.starts, self.labels
        sizes = np.full(self.even, self.n // self.even, dtype=np.int64)
        sizes[: self.n % self.even] += 1
        return np.concatenate([[0], np.cumsum(sizes)[:-1]]), np.arange(self.even, dtype=np.int64)

    def row_labels(self) -> Ints:
        """The label of every row."""
        starts, labels = self.run_starts()
        return np.repeat(labels, np.diff(np.append(starts, self.n)))

    def padded_to(self, n: int) -> Partition:
        """The same partition of the first rows of a longer file; the rest are marked as gone."""
        if n == self.n:
            return self
        starts, labels = self.run_starts()
        return Partition(n, np.append(starts, self.n), np.append(labels, -1), self.joins, self.drawn)

    def has_equal_sizes(self) -> bool:
        """True if all groups have the same number of rows."""
        if self.even is not None:
            return self.n % self.even == 0
        starts, labels = self.run_starts()
        lengths = np.diff(np.append(starts, self.n))
        totals = np.bincount(labels - labels.min(), weights=lengths)
        return len(np.unique(totals[totals > 0])) == 1

    def same_as(self, other: Partition) -> bool:
        if self is other:
            return True
        if (self.joins, self.drawn, self.even) != (other.joins, other.drawn, other.even) or self.n != other.n:
            return False
        return np.array_equal(self.starts, other.starts) and np.array_equal(self.labels, other.labels)


@dataclass(frozen=True, eq=False)
class BlockShape:
    """A block: the sizes of its cells, the label of each cell at each stage, and how many such blocks there are."""

    count: int
    sizes: Ints
    labels: Ints
    """Shape (stages, cells)."""

    @cached_property
    def roots(self) -> Array:
        return np.sqrt(self.sizes.astype(np.float64))


@dataclass(frozen=True, eq=False)
class Layout:
    """The blocks of a chain of masks, and where each row lies."""

    n: int
    shapes: tuple[BlockShape, ...]
    partitions: tuple[Partition | None, ...]
    starts: Ints = field(repr=False)
    """First row of each run of rows that lie in one cell."""
    place: Ints = field(repr=False)
    """Shape (runs, 3): shape, copy and cell of each run; see `stride` for runs of many one-record blocks."""
    stride: Ints = field(repr=False)
    """Rows per copy within a run; 0 if the whole run lies in one copy."""

    @classmethod
    def of(cls, partitions: Sequence[Partition | None], n: int) -> Layout:
        """Find cells and blocks from the partitions of a chain's stages."""
        stages = len(partitions)
        given = [p for p in partitions if p is not None]
        distinct: list[Partition] = []
        for p in given:
            if not any(p.same_as(q) for q in distinct):
                distinct.append(p)
        zero = np.zeros((stages, 1), dtype=np.int64)
        ints = lambda *x: np.array(x, dtype=np.int64)  # noqa: E731
        if not distinct:
            return cls(
                n, (BlockShape(n, ints(1), zero),), tuple(partitions), ints(0), ints([0, 0, 0]).reshape(1, 3), ints(1)
            )
        if len(distinct) == 1 and distinct[0].even is not None:
            # Consecutive groups: at most two sizes, so this costs the same for ten records and for a million.
            groups = distinct[0].even
            small, larger = divmod(n, groups)
            shapes: list[BlockShape] = []
            starts: list[int] = []
            place: list[list[int]] = []
            stride: list[int] = []
            for size, count, start in ((small + 1, larger, 0), (small, groups - larger, larger * (small + 1))):
                if count:
                    place.append([len(shapes), 0, 0])
                    shapes.append(BlockShape(count, ints(size), zero))
                    starts.append(start)
                    stride.append(size)
            return cls(
                n, tuple(shapes), tuple(partitions), ints(*starts), np.array(place, dtype=np.int64), ints(*stride)
            )
        return cls._general_layout(partitions, distinct, n)

    @classmethod
    def _general_layout(cls, partitions: Sequence[Partition | None], distinct: list[Partition], n: int) -> Layout:
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components

        runs = [p.run_starts() for p in distinct]
        starts = np.unique(np.concatenate([s for s, _ in runs]))
        table = np.stack([labels[np.searchsorted(s, starts, side="right") - 1] for s, labels in runs])
        lengths = np.diff(np.append(starts, n))
        cells, inverse = np.unique(table, axis=1, return_inverse=True)
        inverse = inverse.reshape(-1)
        size = np.bincount(inverse, weights=lengths).astype(np.int64)
        count = cells.shape[1]
        # Two cells belong to one block if an average ties them: link each cell to its groups.
        links_cell, links_group, offset = [], [], 0
        tied = np.zeros(count, dtype=bool)
        for row, p in zip(cells, distinct, strict=True):
            if p.joins:
                member = np.flatnonzero(row >= 0)
                _, group = np.unique(row[member], return_inverse=True)
                links_cell.append(member)
                links_group.append(group.reshape(-1) + offset)
                offset += int(group.max(initial=-1)) + 1
                tied[member] = True
        if links_cell:
            a, b = np.concatenate(links_cell), np.concatenate(links_group)
            graph = coo_matrix((np.ones(len(a)), (a, count + b)), shape=(count + offset, count + offset))
            component = connected_components(graph, directed=False)[1][:count]
        else:
            component = np.arange(count)
        stage_row = [
            next((i for i, q in enumerate(distinct) if p is not None and p.same_as(q)), None) for p in partitions
        ]
        order = np.argsort(component, kind="stable")
        shapes: dict[tuple[bytes, bytes], int] = {}
        found: list[BlockShape] = []
        where = np.zeros((count, 3), dtype=np.int64)
        single = np.zeros(count, dtype=bool)
        for member in np.split(order, np.flatnonzero(np.diff(component[order])) + 1):
            labels = np.zeros((len(partitions), len(member)), dtype=np.int64)
            for stage, row_index in enumerate(stage_row):
                if row_index is not None:
                    row = cells[row_index, member]
                    if distinct[row_index].joins:
                        _, renamed = np.unique(row, return_inverse=True)
                        labels[stage] = np.where(row < 0, -1, renamed.reshape(-1))
                    else:
                        labels[stage] = row
            alone = len(member) == 1 and not tied[member[0]]
            sizes, copies = (np.ones(1, dtype=np.int64), int(size[member[0]])) if alone else (size[member], 1)
            key = (sizes.tobytes(), labels.tobytes())
            index = shapes.setdefault(key, len(found))
            if index == len(found):
                found.append(BlockShape(0, sizes, labels))
            where[member, 0] = index
            where[member, 1] = found[index].count
            where[member, 2] = np.arange(len(member))
            single[member] = alone
            found[index] = replace(found[index], count=found[index].count + copies)
        place = where[inverse].copy()
        # Runs of independent rows of one cell follow each other as copies.
        for cell in np.flatnonzero(single):
            mine = np.flatnonzero(inverse == cell)
            place[mine, 1] += np.concatenate([[0], np.cumsum(lengths[mine])[:-1]]).astype(np.int64)
        return cls(n, tuple(found), tuple(partitions), starts, place, single[inverse].astype(np.int64))

    def cell_of_row(self, row: int) -> tuple[int, int, int]:
        """Shape, copy and cell of a row."""
        run = int(np.searchsorted(self.starts, row, side="right")) - 1
        shape, copy, cell = (int(v) for v in self.place[run])
        if self.stride[run]:
            copy += (row - int(self.starts[run])) // int(self.stride[run])
        return shape, copy, cell

    def place_of_rows(self) -> tuple[Ints, Ints, Ints]:
        """Shape, copy and cell of every row."""
        lengths = np.diff(np.append(self.starts, self.n))
        run = np.repeat(np.arange(len(self.starts)), lengths)
        step = self.stride[run]
        copy = self.place[run, 1] + np.where(step > 0, (np.arange(self.n) - self.starts[run]) // np.maximum(step, 1), 0)
        return self.place[run, 0], copy, self.place[run, 2]

    def classes(self) -> list[tuple[float, int, int]]:
        """Share of the rows, shape and cell of each kind of row."""
        return [
            (shape.count * int(size) / self.n, t, c)
            for t, shape in enumerate(self.shapes)
            for c, size in enumerate(shape.sizes)
        ]

    def places(self, record: int) -> list[tuple[float, int, int]]:
        """Probability, shape and cell of each kind of row where a record may lie after random sampling.

        A sample keeps the order of the file, so that the first record is the first of the sample if it is in it: the
        rank of a record within the sample is hypergeometric, not uniform.
        """
        sizes = [int(p.starts[1]) for p in self.partitions if p is not None and p.drawn]
        if not sizes:
            return [(1.0, *self.cell_of_row(record)[::2])]
        kept = min(sizes)
        inside = self.starts < kept
        share = np.diff(np.append(self.starts, self.n)) / self.n
        if len(np.unique(self.place[inside][:, [0, 2]], axis=0)) > 1:
            share[inside] = kept / self.n * np.add.reduceat(_rank_in_sample(self.n, kept, record), self.starts[inside])
        kinds, which = np.unique(self.place[:, [0, 2]], axis=0, return_inverse=True)
        totals = np.bincount(which.reshape(-1), weights=share)
        return [(float(total), int(t), int(c)) for total, (t, c) in zip(totals, kinds, strict=True) if total > 0]


def _rank_in_sample(n: int, kept: int, record: int) -> Array:
    """Probabilities of the ranks 0, 1, ... of a record within a sorted sample that holds it."""
    rank = np.arange(kept)
    low, high = max(0, kept - n + record), min(record, kept - 1)
    possible = rank[low : high + 1]
    logs = -(gammaln(possible + 1.0) + gammaln(record - possible + 1.0))
    logs -= gammaln(kept - possible + 0.0) + gammaln(n - record - kept + possible + 1.0)
    out = np.zeros(kept)
    out[low : high + 1] = np.exp(logs - logs.max())
    return np.asarray(out / out.sum())
