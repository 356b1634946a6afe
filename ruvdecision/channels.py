"""How a release comes from the records when it is linear in them plus Gaussian noise.

Release = A x + e, with e ~ N(0, R). Composing masks composes channels: (A2 A1, A2 R1 A2' + R2). A and R
would be (records * columns) square, so they are never formed. Rows that every mask of a chain treats alike
form a *cell*; an operator that does not tell the rows of a cell apart acts on their normalised mean (one
coordinate per cell) and by one and the same matrix on every contrast within the cell. Cells that some
average ties together form a *block*; blocks are independent given the population mean and any common noise.
Blocks of the same shape are kept once, with their count. The cost of a channel depends on the shapes, not
on the number of records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from .errors import InputError, UnsupportedError
from .protocols import Array

__all__ = ["Block", "BlockShape", "Layout", "LinearChannel", "Partition"]

Ints = NDArray[np.int64]

# Blocks with more coordinates than this would need matrices too large to be worth holding.
LARGEST_BLOCK = 3000


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
    def consecutive(cls, n: int, groups: int) -> Partition:
        """Consecutive groups of sizes as equal as possible; the first ``n % groups`` have one row more."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(n, empty, empty, joins=True, even=groups)

    @classmethod
    def of(cls, labels: Any, *, joins: bool) -> Partition:
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
    def ties_all(self) -> bool:
        """True if all rows form one group."""
        return self.joins and (self.even == 1 or (self.even is None and len(np.unique(self.labels)) == 1))

    def runs(self) -> tuple[Ints, Ints]:
        """First rows and labels of the runs."""
        if self.even is None:
            return self.starts, self.labels
        sizes = np.full(self.even, self.n // self.even, dtype=np.int64)
        sizes[: self.n % self.even] += 1
        return np.concatenate([[0], np.cumsum(sizes)[:-1]]), np.arange(self.even, dtype=np.int64)

    def padded(self, n: int) -> Partition:
        """The same partition of the first rows of a longer file; the rest are marked as gone."""
        if n == self.n:
            return self
        starts, labels = self.runs()
        return Partition(n, np.append(starts, self.n), np.append(labels, -1), self.joins, self.drawn)

    def sizes_alike(self) -> bool:
        """True if all groups have the same number of rows."""
        if self.even is not None:
            return self.n % self.even == 0
        starts, labels = self.runs()
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
            return cls(n, (BlockShape(n, ints(1), zero),), tuple(partitions), ints(0), ints([0, 0, 0]).reshape(1, 3), ints(1))
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
            return cls(n, tuple(shapes), tuple(partitions), ints(*starts), np.array(place, dtype=np.int64), ints(*stride))
        return cls._general(partitions, distinct, n)

    @classmethod
    def _general(cls, partitions: Sequence[Partition | None], distinct: list[Partition], n: int) -> Layout:
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components

        runs = [p.runs() for p in distinct]
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
        stage_row = [next((i for i, q in enumerate(distinct) if p is not None and p.same_as(q)), None) for p in partitions]
        order = np.argsort(component, kind="stable")
        shapes: dict[Any, int] = {}
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

    def locate(self, row: int) -> tuple[int, int, int]:
        """Shape, copy and cell of a row."""
        run = int(np.searchsorted(self.starts, row, side="right")) - 1
        shape, copy, cell = (int(v) for v in self.place[run])
        if self.stride[run]:
            copy += (row - int(self.starts[run])) // int(self.stride[run])
        return shape, copy, cell

    def rows(self) -> tuple[Ints, Ints, Ints]:
        """Shape, copy and cell of every row."""
        lengths = np.diff(np.append(self.starts, self.n))
        run = np.repeat(np.arange(len(self.starts)), lengths)
        step = self.stride[run]
        copy = self.place[run, 1] + np.where(step > 0, (np.arange(self.n) - self.starts[run]) // np.maximum(step, 1), 0)
        return self.place[run, 0], copy, self.place[run, 2]

    def classes(self) -> list[tuple[float, int, int]]:
        """Share of the rows, shape and cell of each kind of row."""
        return [(shape.count * int(size) / self.n, t, c) for t, shape in enumerate(self.shapes) for c, size in enumerate(shape.sizes)]

    def places(self, record: int) -> list[tuple[float, int, int]]:
        """Probability, shape and cell of each kind of row where a record may lie after random sampling.

        A sample keeps the order of the file, so that the first record is the first of the sample if it is in it: the
        rank of a record within the sample is hypergeometric, not uniform.
        """
        sizes = [int(p.starts[1]) for p in self.partitions if p is not None and p.drawn]
        if not sizes:
            return [(1.0, *self.locate(record)[::2])]
        kept = min(sizes)
        inside = self.starts < kept
        share = np.diff(np.append(self.starts, self.n)) / self.n
        if len(np.unique(self.place[inside][:, [0, 2]], axis=0)) > 1:
            share[inside] = kept / self.n * np.add.reduceat(_rank_in_sample(self.n, kept, record), self.starts[inside])
        kinds, which = np.unique(self.place[:, [0, 2]], axis=0, return_inverse=True)
        totals = np.bincount(which.reshape(-1), weights=share)
        return [(float(total), int(t), int(c)) for total, (t, c) in zip(totals, kinds, strict=True) if total > 0]


@dataclass(frozen=True, eq=False)
class Block:
    """What the channel does to one shape of block. Leading axes of the arrays run over the masks of a family.

    Coordinates are cell by cell, column by column. ``b`` and ``r`` act on the normalised means of the cells,
    ``w`` and ``rw`` on each contrast within a cell.
    """

    shape: BlockShape
    b: Array
    r: Array
    w: Array
    rw: Array
    alive: NDArray[np.bool_]
    """Shape (cells, columns): which entries are still in the file."""
    told: NDArray[np.bool_]
    """Shape (cells, columns): where differences within the cell still show."""
    plain: bool = True
    """True while ``b`` is the identity, which allows formulas that lose no digits."""
    loads: tuple[Array, ...] = ()
    """How each common draw enters, shape (..., cells * columns, columns)."""


@dataclass(frozen=True, eq=False)
class LinearChannel:
    """A release that is linear in the records plus Gaussian noise, for a whole family of masks at once.

    Masks extend a channel with `add_noise`, `average`, `drop`, `keep_sample` and `shuffle`.

    Parameters
    ----------
    layout : Layout
        The cells and blocks.
    columns : int
        Number of variables per record.
    scale : array, optional
        Covariance of a record in the population, for masks whose noise is a share of it.
    """

    layout: Layout
    columns: int
    blocks: tuple[Block, ...]
    scale: Array | None = None
    names: tuple[Any, ...] = ()
    common: tuple[Array, ...] = ()
    location: str = "known"
    """Which row is whose: "known", "drawn" (at random, but told) or "unknown" (not told)."""
    stage: int = 0
    noisy_since_average: bool = False
    scrambled: bool = False
    touched: bool = False
    """True once a mask has altered values, so that the file's covariance is no longer the records'."""
    wiped: NDArray[np.bool_] | None = None
    """Shape (masks or 1, columns): columns that infinite noise has wiped out, or None."""

    @classmethod
    def identity(cls, layout: Layout, columns: int, scale: Array | None = None, names: Sequence[Any] = ()) -> LinearChannel:
        """The channel that releases the records as they are."""
        blocks = []
        for shape in layout.shapes:
            c, size = len(shape.sizes), len(shape.sizes) * columns
            if size > LARGEST_BLOCK:
                raise UnsupportedError(
                    f"The groups of this chain tie {c} cells of {columns} columns together, more than an exact channel holds",
                    do="Use fewer groups, or groupings that agree with each other",
                )
            blocks.append(
                Block(
                    shape,
                    np.eye(size)[None],
                    np.zeros((1, size, size)),
                    np.broadcast_to(np.eye(columns), (1, c, columns, columns)),
                    np.zeros((1, c, columns, columns)),
                    np.ones((c, columns), dtype=bool),
                    np.ones((c, columns), dtype=bool),
                )
            )
        return cls(layout, columns, tuple(blocks), scale, tuple(names))

    def at_stage(self, stage: int) -> LinearChannel:
        """The channel as the mask at this place of the chain sees it."""
        return replace(self, stage=stage)

    # -- what masks do -------------------------------------------------------------------------------

    def add_noise(self, covariance: Array, *, common: bool = False, factors: Array | None = None) -> LinearChannel:
        """Add N(0, covariance) to every record, or with ``common`` the same draw to all of them.

        ``covariance`` has shape (masks or 1, columns, columns); an infinite variance on its diagonal wipes
        the column out. ``factors`` multiplies the variance by label, where rows are treated differently.
        """
        if self.scrambled and not common:
            raise UnsupportedError(
                "Noise after shuffled groups hides which rows belong together, which has no closed form",
                do="Put Shuffle() before Microaggregate, or the noise before both",
            )
        wiped = np.isinf(np.diagonal(covariance, axis1=-2, axis2=-1))
        if self.wiped is not None:
            # Later noise must not turn what is left of a wiped column into news about the noise on the others.
            wiped = wiped | self.wiped
        if np.any(wiped):
            gone = wiped[:, :, None] | wiped[:, None, :]
            covariance = np.where(gone, 0.0, covariance)
        blocks = []
        for block in self.blocks:
            c = len(block.shape.sizes)
            b, r, w, rw, loads, plain = block.b, block.r, block.w, block.rw, block.loads, block.plain
            if common:
                loads = (*loads, np.asarray(np.kron(block.shape.roots[:, None], np.eye(self.columns))[None], dtype=np.float64))
            else:
                times = np.ones(c) if factors is None else factors[block.shape.labels[self.stage]]
                r = r + _on_diagonal(covariance, times)
                rw = rw + times[:, None, None] * covariance[:, None]
            if np.any(wiped):
                # Infinite noise: the column's entries are replaced by noise that has to do with nothing.
                keep = np.where(wiped, 0.0, 1.0)
                many = np.tile(keep, (1, c))
                b = b * many[:, :, None]
                r = r * many[:, :, None] * many[:, None, :] + _diagonal(1.0 - many)
                w = w * keep[:, None, :, None]
                rw = rw * (keep[:, :, None] * keep[:, None, :])[:, None] + _diagonal(1.0 - keep)[:, None]
                loads = tuple(load * many[:, :, None] for load in loads)
                plain = False
            blocks.append(replace(block, b=b, r=r, w=w, rw=rw, loads=loads, plain=plain))
        draws = (*self.common, covariance) if common else self.common
        return replace(
            self,
            blocks=tuple(blocks),
            common=draws,
            touched=True,
            noisy_since_average=self.noisy_since_average or not common,
            wiped=wiped if np.any(wiped) else None,
        )

    def average(self, columns: Sequence[int] | None = None) -> LinearChannel:
        """Replace every entry of the columns by the mean of its group (over the entries still in the file)."""
        partition = self.layout.partitions[self.stage]
        if self.scrambled and partition is not None and not partition.ties_all:
            raise UnsupportedError("Groups after shuffled groups have no closed form", do="Put Shuffle() first in the chain")
        k = self.columns
        chosen = np.isin(np.arange(k), np.arange(k) if columns is None else list(columns))
        blocks = []
        for block in self.blocks:
            labels, sizes = block.shape.labels[self.stage], block.shape.sizes
            gone = (labels >= 0)[:, None] & chosen
            told = block.told & ~gone
            if len(sizes) == 1:
                # One cell: its mean stays as it is, only the differences within it go.
                blocks.append(replace(block, told=told, rw=_without(block.rw, gone)))
                continue
            c = len(sizes)
            operator = np.zeros((c, k, c, k))
            for column in range(k):
                inside = gone[:, column] & block.alive[:, column]
                for label in np.unique(labels[inside]):
                    group = np.flatnonzero((labels == label) & inside)
                    root = block.shape.roots[group]
                    operator[group[:, None], column, group[None, :], column] = np.outer(root, root) / sizes[group].sum()
                rest = np.flatnonzero(~inside)
                operator[rest, column, rest, column] = 1.0
            e = operator.reshape(c * k, c * k)
            loads = tuple(e @ load for load in block.loads)
            blocks.append(
                replace(block, rw=_without(block.rw, gone), b=e @ block.b, r=e @ block.r @ e.T, told=told, plain=False, loads=loads)
            )
        return replace(self, blocks=tuple(blocks), noisy_since_average=False, touched=True)

    def drop(self, columns: Sequence[int], label: int | None = None) -> LinearChannel:
        """Take columns out of the file, in all rows or in those with one label."""
        blocks = []
        for block in self.blocks:
            alive = block.alive.copy()
            rows = np.ones(len(alive), dtype=bool) if label is None else block.shape.labels[self.stage] == label
            alive[np.flatnonzero(rows)[:, None], np.array(list(columns), dtype=np.int64)] = False
            blocks.append(replace(block, alive=alive))
        return replace(self, blocks=tuple(blocks))

    def keep_sample(self) -> LinearChannel:
        """Leave out the rows that a random sample did not take."""
        for p in self.layout.partitions[: self.stage]:
            if p is not None and not p.ties_all and not p.drawn:
                raise UnsupportedError(
                    "A random sample of rows that differ already has no closed form",
                    do="Put Subsample first in the chain",
                )
        if self.scrambled:
            raise UnsupportedError("A sample of shuffled groups has no closed form", do="Put Subsample first in the chain")
        channel = self.drop(range(self.columns), label=1)
        return replace(channel, touched=True, location="drawn" if self.location == "known" else self.location)

    def shuffle(self) -> LinearChannel:
        """Forget which row is whose."""
        scrambled = self.scrambled
        for p in self.layout.partitions[: self.stage]:
            if p is None or p.ties_all or p.drawn:
                continue
            if p.joins and p.sizes_alike() and not self.noisy_since_average:
                scrambled = True
                continue
            raise UnsupportedError(
                "Shuffling rows that were treated differently before has no closed form",
                do="Put Shuffle() first in the chain, so that nobody knows which row, and so which group, is whose",
            )
        return replace(self, location="unknown", scrambled=scrambled)

    # -- for small files -----------------------------------------------------------------------------

    def dense(self, member: int = 0) -> tuple[Array, Array]:
        """A and R of one member of the family as full matrices, for teaching and for tests.

        Entries are record by record, column by column. Entries that are not in the file have a zero row in A
        and a zero row and column in R.
        """
        n, k = self.layout.n, self.columns
        if n * k > LARGEST_BLOCK:
            raise InputError(f"A dense channel holds at most {LARGEST_BLOCK} entries", n * k, "Use fewer records")
        pick = lambda x: x[min(member, len(x) - 1)]  # noqa: E731
        shape, copy, cell = self.layout.rows()
        a, noise = np.zeros((n, k, n, k)), np.zeros((n, k, n, k))
        for i in range(n):
            block = self.blocks[shape[i]]
            size = block.shape.sizes
            for j in range(n):
                if shape[i] != shape[j] or copy[i] != copy[j]:
                    continue
                ci, cj = cell[i], cell[j]
                rows, cols = slice(ci * k, ci * k + k), slice(cj * k, cj * k + k)
                weight = 1.0 / np.sqrt(size[ci] * size[cj])
                a[i, :, j] = pick(block.b)[rows, cols] * weight
                noise[i, :, j] = pick(block.r)[rows, cols] * weight
                if ci == cj:
                    contrast = float(i == j) - 1.0 / size[ci]
                    told = block.told[ci]
                    a[i, :, j] += contrast * pick(block.w)[ci] * told[:, None]
                    noise[i, :, j] += contrast * pick(block.rw)[ci]
        load = [np.zeros((n, k, k)) for _ in self.common]
        for i in range(n):
            block = self.blocks[shape[i]]
            for t, values in enumerate(block.loads):
                load[t][i] = pick(values)[cell[i] * k : cell[i] * k + k] / block.shape.roots[cell[i]]
        matrix, total = a.reshape(n * k, n * k), noise.reshape(n * k, n * k)
        for values, covariance in zip(load, self.common, strict=True):
            flat = values.reshape(n * k, k)
            total = total + flat @ pick(covariance) @ flat.T
        alive = np.concatenate([self.blocks[t].alive[c] for t, c in zip(shape, cell, strict=True)])
        return matrix * alive[:, None], total * np.outer(alive, alive)


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


def _on_diagonal(covariance: Array, times: Array) -> Array:
    """Block-diagonal matrix with ``times[c] * covariance`` for each cell."""
    c, k = len(times), covariance.shape[-1]
    if c == 1:
        return covariance * times[0]
    full = np.zeros((len(covariance), c, k, c, k))
    for i in range(c):
        full[:, i, :, i, :] = covariance * times[i]
    return full.reshape(len(covariance), c * k, c * k)


def _diagonal(values: Array) -> Array:
    """Diagonal matrices from the last axis."""
    return values[..., None] * np.eye(values.shape[-1])


def _without(covariance: Array, gone: NDArray[np.bool_]) -> Array:
    """Zero the rows and columns of entries that were averaged away; shape (..., cells, columns, columns)."""
    keep = np.where(gone, 0.0, 1.0)
    return covariance * keep[:, :, None] * keep[:, None, :]
