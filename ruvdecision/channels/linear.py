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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UnsupportedError
from ..protocols import Array
from .layout import BlockShape, Layout
from .samples import Samples, finish_channel, partitions_of
from .steps import (
    AddNoise,
    AverageRows,
    Copy,
    Drop,
    FileFacts,
    MaskLike,
    OwnLaw,
    PermuteRows,
    Resolved,
    SampleRows,
    Step,
    resolve,
)

MEASURE = (
    "Measure its releases empirically with ruv.measure, or use a mask with a linear channel such as Noise(variance=...)"
)
# Blocks with more coordinates than this would need matrices too large to be worth holding.
LARGEST_BLOCK = 3000


@dataclass(frozen=True, eq=False)
class Block:
    """What the channel does to one shape of block. Leading axes of the arrays run over the masks of a family.

    Coordinates are cell by cell, column by column. ``b`` and ``r`` act on the normalised means of the cells,
    ``w`` and ``rw`` on each contrast within a cell. Several releases stand side by side as further columns: ``b`` has
    shape (..., cells * width, cells * columns), ``w`` (..., cells, width, columns), and what is said of columns holds
    for all of the width.
    """

    shape: BlockShape
    b: Array
    r: Array
    w: Array
    rw: Array
    released: NDArray[np.bool_]
    """Shape (cells, columns): which entries are still in the file."""
    contrasts_released: NDArray[np.bool_]
    """Shape (cells, columns): where differences within the cell still show."""
    plain: bool = True
    """True while ``b`` is the identity, which allows formulas that lose no digits."""
    loads: tuple[Array, ...] = ()
    """How each common draw enters, shape (..., cells * width, columns)."""


@dataclass(frozen=True, eq=False)
class LinearChannel:
    """A release that is linear in the records plus Gaussian noise, for a whole family of masks at once.

    Steps extend a channel with `add_noise`, `average`, `drop`, `keep_sample` and `shuffle`.

    Parameters
    ----------
    layout : Layout
        The cells and blocks.
    columns : int
        Number of variables per record.
    """

    layout: Layout
    columns: int
    blocks: tuple[Block, ...]
    common: tuple[Array, ...] = ()
    location: str = "known"
    """Which row is whose: "known", "drawn" (at random, but released) or "unknown" (not released)."""
    stage: int = 0
    noisy_since_average: bool = False
    scrambled: bool = False
    wiped: NDArray[np.bool_] | None = None
    """Shape (masks or 1, width): columns that infinite noise has wiped out, or None."""
    window: tuple[int, ...] | None = None
    """Which columns the current step is about, where there are several releases."""
    open_samples: tuple[Resolved, ...] = ()
    """The steps, where single releases hold samples of their own and this channel takes the first rows for them."""

    @property
    def width(self) -> int:
        """Number of columns that are released, those of several releases side by side."""
        return int(self.blocks[0].released.shape[1])

    @classmethod
    def identity(cls, layout: Layout, columns: int) -> LinearChannel:
        """The channel that releases the records as they are."""
        blocks = []
        for shape in layout.shapes:
            c, size = len(shape.sizes), len(shape.sizes) * columns
            if size > LARGEST_BLOCK:
                raise UnsupportedError(
                    f"The groups of this chain tie {c} cells of {columns} columns, too many for an exact channel",
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
        return cls(layout, columns, tuple(blocks))

    @classmethod
    def of(
        cls, mask: MaskLike, about: FileFacts, numbers: Array | None = None, samples: Samples | None = None
    ) -> LinearChannel:
        """The channel of a family: one of its masks, and the numbers of all. Steps that are not linear are refused.

        ``samples`` are the rows that samples of single releases hold, where there are several.
        """
        found = resolve(mask, about, numbers)
        for step, part, _ in found:
            why = step.not_linear
            if why is not None or type(step) not in LINEAR or (isinstance(step, OwnLaw) and step.mask.linear is None):
                reason = f": {why}" if why else ""
                raise UnsupportedError(f"{part} has no linear-Gaussian channel{reason}", do=step.do or MEASURE)
        channel = cls.identity(Layout.of(partitions_of(found, about.n, samples), about.n), about.k)
        for stage, (step, part, _) in enumerate(found):
            window = step.columns if step.release is not None and step.whole_rows else None
            channel = LINEAR[type(step)](replace(channel, stage=stage, window=window), step, part)
        return finish_channel(replace(channel, window=None), found, samples)

    # -- what steps do -------------------------------------------------------------------------------

    def copy(self, step: Copy) -> LinearChannel:
        """Put columns side by side several times, for as many releases."""
        order = step.order_of(self.width)
        blocks = []
        for block in self.blocks:
            at = (np.arange(len(block.shape.sizes))[:, None] * self.width + order).reshape(-1)
            blocks.append(
                replace(
                    block,
                    b=block.b[:, at],
                    r=block.r[:, at[:, None], at],
                    w=block.w[:, :, order],
                    rw=block.rw[:, :, order[:, None], order],
                    released=block.released[:, order],
                    contrasts_released=block.contrasts_released[:, order],
                    plain=False,
                    loads=tuple(load[:, at] for load in block.loads),
                )
            )
        return replace(
            self, blocks=tuple(blocks), wiped=None if self.wiped is None else self.wiped[:, order], scrambled=False
        )

    @property
    def own_columns(self) -> tuple[int, ...]:
        """Positions of the columns that the step is about, where it names none."""
        return tuple(range(self.width)) if self.window is None else self.window

    def _column_positions(self, columns: Sequence[int] | None) -> tuple[int, ...]:
        """Positions of columns; of all that the step is about if none are named."""
        if columns is None:
            return self.own_columns
        return tuple(columns) if self.window is None else tuple(self.window[c] for c in columns)

    def add_noise(
        self, covariance: Array, *, common: bool = False, columns: Sequence[int] | None = None
    ) -> LinearChannel:
        """Add N(0, covariance) to every record, or with ``common`` the same draw to all of them.

        ``covariance`` has shape (masks or 1, columns, columns), or (masks or 1, kinds, columns, columns) where rows
        with label i are of kind i; an infinite variance on its diagonal wipes the column out. ``columns`` says which
        columns, all of them if not given.
        """
        if self.scrambled and not common:
            raise UnsupportedError(
                "Noise after shuffled groups hides which rows belong together, which has no closed form",
                do="Put Shuffle() before Microaggregate, or the noise before both",
            )
        chosen = self._column_positions(columns)
        if chosen != tuple(range(self.width)):
            at, part = np.array(chosen, dtype=np.int64), covariance
            covariance = np.zeros((*part.shape[:-2], self.width, self.width))
            covariance[..., at[:, None], at] = part
        kinds = covariance if covariance.ndim == 4 else covariance[:, None]
        covariance = kinds[:, 0]
        wiped = np.isinf(np.diagonal(covariance, axis1=-2, axis2=-1))
        if self.wiped is not None:
            # Later noise must not turn what is left of a wiped column into news about the noise on the others.
            wiped = wiped | self.wiped
        if np.any(wiped):
            gone = wiped[:, :, None] | wiped[:, None, :]
            covariance, kinds = np.where(gone, 0.0, covariance), np.where(gone[:, None], 0.0, kinds)
        blocks = []
        for block in self.blocks:
            c = len(block.shape.sizes)
            b, r, w, rw, loads, plain = block.b, block.r, block.w, block.rw, block.loads, block.plain
            if common:
                entry = np.zeros((self.width, self.columns))
                entry[self._columns_of_same_release(chosen), np.arange(self.columns)] = 1.0
                loads = (*loads, np.asarray(np.kron(block.shape.roots[:, None], entry)[None], dtype=np.float64))
            else:
                each = kinds[:, block.shape.labels[self.stage]] if kinds.shape[1] > 1 else kinds
                r = r + _on_diagonal(each, c)
                rw = rw + each
            if np.any(wiped):
                # Infinite noise: the column's entries are replaced by noise that has to do with nothing.
                keep = np.where(wiped, 0.0, 1.0)
                many = np.tile(keep, (1, c))
                b = b * many[:, :, None]
                r = r * many[:, :, None] * many[:, None, :] + _diagonal_matrices(1.0 - many)
                w = w * keep[:, None, :, None]
                rw = rw * (keep[:, :, None] * keep[:, None, :])[:, None] + _diagonal_matrices(1.0 - keep)[:, None]
                loads = tuple(load * many[:, :, None] for load in loads)
                plain = False
            blocks.append(replace(block, b=b, r=r, w=w, rw=rw, loads=loads, plain=plain))
        draws = self.common
        if common:
            own = self._columns_of_same_release(chosen)
            draws = (*draws, covariance[:, own[:, None], own])
        return replace(
            self,
            blocks=tuple(blocks),
            common=draws,
            noisy_since_average=self.noisy_since_average or not common,
            wiped=wiped if np.any(wiped) else None,
        )

    def _columns_of_same_release(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """All columns of the release to which some belong."""
        return columns[0] // self.columns * self.columns + np.arange(self.columns)

    def average(self, columns: Sequence[int] | None = None) -> LinearChannel:
        """Replace every entry of the columns by the mean of its group (over the entries still in the file)."""
        partition = self.layout.partitions[self.stage]
        if self.scrambled and partition is not None and not partition.is_one_group:
            raise UnsupportedError(
                "Groups after shuffled groups have no closed form", do="Put Shuffle() first in the chain"
            )
        k = self.width
        chosen = np.isin(np.arange(k), self._column_positions(columns))
        blocks = []
        for block in self.blocks:
            labels, sizes = block.shape.labels[self.stage], block.shape.sizes
            gone = (labels >= 0)[:, None] & chosen
            contrasts_released = block.contrasts_released & ~gone
            if len(sizes) == 1:
                # One cell: its mean stays as it is, only the differences within it go.
                blocks.append(
                    replace(block, contrasts_released=contrasts_released, rw=_zero_rows_and_columns(block.rw, gone))
                )
                continue
            c = len(sizes)
            operator = np.zeros((c, k, c, k))
            for column in range(k):
                inside = gone[:, column] & block.released[:, column]
                for label in np.unique(labels[inside]):
                    group = np.flatnonzero((labels == label) & inside)
                    root = block.shape.roots[group]
                    operator[group[:, None], column, group[None, :], column] = np.outer(root, root) / sizes[group].sum()
                rest = np.flatnonzero(~inside)
                operator[rest, column, rest, column] = 1.0
            e = operator.reshape(c * k, c * k)
            loads = tuple(e @ load for load in block.loads)
            blocks.append(
                replace(
                    block,
                    rw=_zero_rows_and_columns(block.rw, gone),
                    b=e @ block.b,
                    r=e @ block.r @ e.T,
                    contrasts_released=contrasts_released,
                    plain=False,
                    loads=loads,
                )
            )
        return replace(self, blocks=tuple(blocks), noisy_since_average=False)

    def drop(self, columns: Sequence[int] | None = None, label: int | None = None) -> LinearChannel:
        """Take columns out of the file, in all rows or in those with one label."""
        blocks = []
        for block in self.blocks:
            released = block.released.copy()
            rows = np.ones(len(released), dtype=bool) if label is None else block.shape.labels[self.stage] == label
            released[np.flatnonzero(rows)[:, None], np.array(self._column_positions(columns), dtype=np.int64)] = False
            blocks.append(replace(block, released=released))
        return replace(self, blocks=tuple(blocks))

    def keep_sample(self) -> LinearChannel:
        """Leave out the rows that a random sample did not take."""
        if self.window is not None:
            return self.drop(label=1)
        for p in self.layout.partitions[: self.stage]:
            if p is not None and not p.is_one_group and not p.drawn:
                raise UnsupportedError(
                    "A random sample of rows that differ already has no closed form",
                    do="Put Subsample first in the chain",
                )
        if self.scrambled:
            raise UnsupportedError(
                "A sample of shuffled groups has no closed form", do="Put Subsample first in the chain"
            )
        channel = self.drop(label=1)
        return replace(channel, location="drawn" if self.location == "known" else self.location)

    def shuffle(self) -> LinearChannel:
        """Forget which row is whose."""
        if self.window is not None:
            return replace(self, location="unknown")
        scrambled = self.scrambled
        for p in self.layout.partitions[: self.stage]:
            if p is None or p.is_one_group or p.drawn:
                continue
            if p.joins and p.has_equal_sizes() and not self.noisy_since_average:
                scrambled = True
                continue
            raise UnsupportedError(
                "Shuffling rows that were treated differently before has no closed form",
                do="Put Shuffle() first in the chain, so that nobody knows which row, and so which group, is whose",
            )
        return replace(self, location="unknown", scrambled=scrambled)

    def check_order(self, columns: Sequence[int], mask: MaskLike) -> None:
        """Raise if other releases tell of single rows beside a shuffled one, or its rows were treated differently."""
        block, sizes = self.blocks[0], self.blocks[0].shape.sizes
        one = block.shape.count == 1 and len(sizes) == 1
        alike = len(self.blocks) == 1 and (one or np.array_equal(sizes, [1]))
        shows = block.released & (block.contrasts_released | (not one))
        if not alike or np.delete(shows, list(columns), axis=1).any():
            raise UnsupportedError(
                f"{mask} in one release, beside another that tells of single rows, has no closed form: "
                "which rows belong together is not known",
                do="Release averages of all rows beside it, or put Shuffle() before both: Shuffle() | (a & b)",
            )

    def equal_noise_variance(self) -> Array | None:
        """Variance of each mask's noise if one column goes out with equal normal noise, in any order; else None.

        It is infinite where nothing goes out.
        """
        if self.columns != 1 or self.common or any(p is not None for p in self.layout.partitions):
            return None
        block = self.blocks[0]
        variance = np.diagonal(block.r, axis1=-2, axis2=-1)
        each = np.where((block.b[:, :, 0] != 0) & block.released[0], variance, np.inf)
        if self.width == 1:
            return each[:, 0]
        if np.any(block.r[:, ~np.eye(self.width, dtype=bool)]):
            return None
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / np.sum(1.0 / each, axis=-1))

    # -- for small files -----------------------------------------------------------------------------

    def dense(self, member: int = 0) -> tuple[Array, Array]:
        """A and R of one member of the family as full matrices, for teaching and for tests.

        Entries are record by record, column by column. Entries that are not in the file have a zero row in A
        and a zero row and column in R.
        """
        n, k, width = self.layout.n, self.columns, self.width
        if n * width > LARGEST_BLOCK:
            raise InputError(f"A dense channel holds at most {LARGEST_BLOCK} entries", n * width, "Use fewer records")
        pick = lambda x: x[min(member, len(x) - 1)]  # noqa: E731
        shape, copy, cell = self.layout.place_of_rows()
        a, noise = np.zeros((n, width, n, k)), np.zeros((n, width, n, width))
        loads, released = np.zeros((len(self.common), n, width, k)), np.empty((n, width), dtype=bool)
        for t, block in enumerate(self.blocks):
            rows = np.flatnonzero(shape == t)
            c, sizes = cell[rows], block.shape.sizes[cell[rows]]
            tied = copy[rows][:, None] == copy[rows]
            weight = tied / np.sqrt(np.outer(sizes, sizes))
            contrast = tied * (c[:, None] == c) * (np.eye(len(rows)) - 1.0 / sizes)
            cells, every = len(block.shape.sizes), np.arange(width)
            between, within = weight[:, None, :, None], contrast[:, None, :, None]
            informative = pick(block.w) * block.contrasts_released[:, :, None]
            for out, means, each in ((a, block.b, informative), (noise, block.r, pick(block.rw))):
                own = np.arange(out.shape[-1])
                of_means = pick(means).reshape(cells, width, cells, -1)[np.ix_(c, every, c, own)]
                out[np.ix_(rows, every, rows, own)] = of_means * between + each[c][:, :, None, :] * within
            for load, values in zip(loads, block.loads, strict=True):
                load[rows] = pick(values).reshape(-1, width, k)[c] / block.shape.roots[c][:, None, None]
            released[rows] = block.released[c]
        size, there = n * width, released.reshape(-1)
        matrix, total = a.reshape(size, n * k), noise.reshape(size, size)
        for load, covariance in zip(loads.reshape(-1, size, k), self.common, strict=True):
            total = total + load @ pick(covariance) @ load.T
        return matrix * there[:, None], total * np.outer(there, there)


def _on_diagonal(covariances: Array, c: int) -> Array:
    """Block-diagonal matrix from the covariances of c cells, shape (masks, c or 1, columns, columns)."""
    if c == 1:
        return covariances[:, 0]
    k = covariances.shape[-1]
    full = np.zeros((len(covariances), c, k, c, k))
    full[:, np.arange(c), :, np.arange(c), :] = np.swapaxes(
        np.broadcast_to(covariances, (len(covariances), c, k, k)), 0, 1
    )
    return full.reshape(len(covariances), c * k, c * k)


def _diagonal_matrices(values: Array) -> Array:
    """Diagonal matrices from the last axis."""
    return values[..., None] * np.eye(values.shape[-1])


def _zero_rows_and_columns(covariance: Array, gone: NDArray[np.bool_]) -> Array:
    """Zero the rows and columns of entries that were averaged away; shape (..., cells, columns, columns)."""
    keep = np.where(gone, 0.0, 1.0)
    return covariance * keep[:, :, None] * keep[:, None, :]


# -- reading steps -----------------------------------------------------------------------------------------


def _read_noise(channel: LinearChannel, step: AddNoise, mask: MaskLike) -> LinearChannel:
    endless = np.isinf(np.diagonal(step.covariance, axis1=-2, axis2=-1))
    if np.any(endless != endless[:, :1]):
        raise UnsupportedError(
            f"{mask} wipes out some records only",
            do="Use Suppress(rows=[...]) for those, and finite noise for the others",
        )
    return channel.add_noise(step.covariance, common=step.common, columns=step.columns)


LINEAR: dict[type[Step], Callable[[LinearChannel, Any, Any], LinearChannel]] = {
    Drop: lambda channel, step, mask: channel.drop(step.columns, label=None if step.rows is None else 1),
    AddNoise: _read_noise,
    Copy: lambda channel, step, mask: channel.copy(step),
    AverageRows: lambda channel, step, mask: channel if step.rows is None else channel.average(step.columns),
    SampleRows: lambda channel, step, mask: channel if step.rows is None else channel.keep_sample(),
    PermuteRows: lambda channel, step, mask: channel.shuffle(),
    OwnLaw: lambda channel, step, mask: step.mask.linear(channel, step.numbers),
}
"""What each step does to a channel; other steps are not linear."""
