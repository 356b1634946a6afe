"""Averaging the records in small groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..channels.layout import Partition
from ..channels.steps import About, AverageRows, Opaque, Step
from ..checks import check_choice, check_columns, check_integer, check_sequence
from ..errors import InputError
from ..protocols import Array
from .base import Mask
from .columnkinds import apart, as_columns, category_codes
from .frame import Frame
from .mdav import mdav
from .moments import sample_covariance
from .ordering import stable_order

ORDERS = ("rows", "each", "zscore", "pc1", "mdav")
Ints = NDArray[np.int64]
FIXED = 'Use by="rows" (groups fixed beforehand) with centre="mean", or measure its releases with ruv.measure'


@dataclass(frozen=True, repr=False)
class Microaggregate(Mask):
    """Replace every value by the mean (or median) of its group.

    Karr et al. (2006): Micir(p, 10) is ``Microaggregate(size=10, by="each")``, Micz(p, 3) and Micp(p, 3) are
    ``Microaggregate(size=3, by="zscore")`` and ``by="pc1"``, Micm(p, 3) is ``Microaggregate(size=3, by="mdav")`` and
    Micm(3, 7) is ``Microaggregate(size=7, by="mdav", block=3)``.

    Parameters
    ----------
    groups : int or one label per record, optional
        A number of groups of sizes as equal as possible: with n records the first ``n % groups`` groups have
        one record more. Or a label for every record, for groups fixed beforehand; then ``by`` must be "rows" or not
        given.
    size : int, optional
        Records per group, at least; the last group takes the remainder, so it has ``size`` to ``2 * size - 1``.
    by : {"rows", "each", "zscore", "pc1", "mdav"}, optional
        How groups are found; "mdav" if not given with ``size``, "rows" with ``groups``. "rows" takes the order of the
        file, so the groups do not depend on the data and the release is linear. The others look at the data: each
        variable apart ("each", individual ranking), the sum of z-scores ("zscore"), the first principal component
        ("pc1", from high to low: the sign is such that the largest loading is negative), or MDAV ("mdav", see
        `ruvdecision.masks.mdav`; time n^2, the others n log n). Sorting is stable: ties keep the order of the file.
    columns : names or positions, optional
        Columns to average; all of them (but those of ``within``) if not given. They alone decide the groups.
    block : int, optional
        Find groups for blocks of this many columns apart, in the order of the columns; the last block may have
        fewer. For "zscore", "pc1" and "mdav"; all columns together if not given.
    centre : {"mean", "median"}, default "mean"
        What stands for a group.
    within : names or positions, optional
        Columns of categories: a group never mixes records that differ in them (a missing category counts as one of its
        own). Each combination needs at least ``size`` records, and has its own remainder.
    standardise : bool, default True
        Whether "pc1" and "mdav" work on z-scores, with mean and standard deviation (divisor n - 1) of the whole
        file; a constant column has z-score zero. With False they work on the values as they are.

    Missing values are refused, unless groups are taken by rows with the mean as centre: then the mean is over the
    entries that are there (after `Suppress`, say), and what is missing stays missing.

    >>> Microaggregate(groups=1).release([1.0, 2.0, 6.0])
    array([3., 3., 3.])
    >>> Microaggregate(size=2, by="each", centre="median").release([5.0, 1.0, 2.0, 9.0, 6.0])
    array([6. , 1.5, 1.5, 6. , 6. ])
    """

    groups: Any = None
    size: int | None = None
    by: str | None = None
    columns: Any = None
    block: int | None = None
    centre: str = "mean"
    within: Any = None
    standardise: bool = True

    def __post_init__(self) -> None:
        if (self.groups is None) == (self.size is None):
            raise InputError(
                "Microaggregate needs groups or size",
                {"groups": self.groups, "size": self.size},
                "Give one of them, Microaggregate(groups=1)",
            )
        check_choice("by", self.order, ORDERS)
        check_choice("centre", self.centre, ("mean", "median"))
        if self.size is not None:
            object.__setattr__(self, "size", check_integer("size", self.size, low=1))
        elif not isinstance(self.groups, Iterable) or (isinstance(self.groups, np.ndarray) and self.groups.ndim == 0):
            object.__setattr__(self, "groups", check_integer("groups", self.groups, low=1))
        else:
            labels = check_sequence("groups", self.groups)
            if not labels or any(isinstance(v, Iterable) and not isinstance(v, str) for v in labels):
                raise InputError(
                    "groups must be a number or one label per record", "something else", "Give a flat list of labels"
                )
            if self.order != "rows":
                raise InputError(
                    "Groups given record by record leave nothing to sort",
                    f"by={self.order!r}",
                    "Leave by out, or give the number of groups",
                )
            if any(v is None or v is pd.NA or v != v for v in labels):
                raise InputError("groups must have a label for every record", "missing labels", "Fill them in")
            object.__setattr__(self, "groups", labels)
        if self.groups is not None and (self.order == "mdav" or self.within is not None):
            raise InputError(
                "MDAV and groups within categories need size",
                f"groups={self.groups!r}",
                "Write Microaggregate(size=3, ...)",
            )
        if self.block is not None:
            object.__setattr__(self, "block", check_integer("block", self.block, low=1))
            if self.order not in ("zscore", "pc1", "mdav"):
                raise InputError(
                    'block goes with by="zscore", "pc1" or "mdav"', f"by={self.order!r}", "Leave block out"
                )
        if not isinstance(self.standardise, (bool, np.bool_)):
            raise InputError("standardise must be True or False", self.standardise, "Leave it out for z-scores")
        if not self.standardise and self.order not in ("pc1", "mdav"):
            raise InputError(
                'standardise=False goes with by="pc1" or "mdav"', f"by={self.order!r}", "Leave standardise out"
            )
        for name in ("columns", "within"):
            object.__setattr__(self, name, as_columns(name, getattr(self, name)))

    @property
    def order(self) -> str:
        """How groups are found: as ``by`` says, else by MDAV if their size is given and by rows if their number is."""
        return self.by if self.by is not None else "rows" if self.size is None else "mdav"

    def sizes(self, n: int) -> Ints:
        """Group sizes for ``n`` records, in order, where groups are cut out of an order."""
        if self.size is not None:
            if self.size > n:
                raise InputError(f"size={self.size} is more than the {n} records", self.size, "Use smaller groups")
            count = n // self.size
            sizes = np.full(count, self.size)
            sizes[-1] += n - count * self.size
            return sizes
        if self.groups > n:
            raise InputError(
                f"groups={self.groups} is more than the {n} records", self.groups, f"Use at most {n} groups"
            )
        sizes = np.full(self.groups, n // self.groups)
        sizes[: n % self.groups] += 1
        return sizes

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        columns: Any = self.columns
        classes = [np.arange(frame.n)]
        if self.within is not None:
            inside = check_columns("within", self.within, frame.columns)
            if columns is None:
                columns = [c for i, c in enumerate(frame.columns) if i not in inside]
                if not columns:
                    raise InputError(
                        "within leaves no column to average", list(self.within), "Name fewer columns in within"
                    )
            else:
                apart("columns", frame.positions(columns), "within", inside, frame.columns)
            classes = self._classes(frame, inside)
        # Groups that do not look at the values can do without some of them: the mean is over those that are there.
        blanks = self.order == "rows" and self.within is None and self.centre == "mean"
        values, positions = frame.numeric("Microaggregate", columns, missing=blanks)
        if np.isinf(values).any():
            raise InputError("Microaggregate cannot take infinite values", "some", "Replace them first")
        values = np.asfortranarray(values)  # all work is column by column
        out = np.empty_like(values)
        k = values.shape[1]
        width = 1 if self.order == "each" else self.block or k
        for start in range(0, k, width):
            part = values[:, start : start + width]
            order, starts = self._find(part, classes)
            _centres(part, order, starts, self.centre, out[:, start : start + width])
        return frame.replace(out, positions)

    def steps(self, about: About, numbers: Array) -> list[Step]:
        if self.order != "rows" or self.within is not None or self.centre != "mean":
            why = "groups are found by the records' values" if self.centre == "mean" else "medians are no averages"
            return [Opaque(why=why, do=FIXED)]
        return [AverageRows(columns=about.positions(self.columns), rows=self._groups(about.n))]

    def _groups(self, n: int) -> Partition | None:
        """The groups of n rows, None if each is one row."""
        if self.size is None and not isinstance(self.groups, tuple):
            self.sizes(n)
            return None if self.groups == n else Partition.consecutive(n, self.groups)
        labels = self._labels(n)
        return None if labels.max() + 1 == n else Partition.of(labels, joins=True)

    def _labels(self, n: int) -> Any:
        if isinstance(self.groups, tuple):
            if len(self.groups) != n:
                raise InputError(
                    f"groups must have a label for each of the {n} records",
                    f"{len(self.groups)} labels",
                    "Give one label per record",
                )
            return np.unique(np.asarray(self.groups), return_inverse=True)[1]
        sizes = self.sizes(n)
        return np.repeat(np.arange(len(sizes)), sizes)

    def _classes(self, frame: Frame, inside: list[int]) -> list[Ints]:
        """Rows of each combination of categories; too small ones are refused."""
        codes = np.stack([category_codes(frame.table.iloc[:, i], missing_is_one=True)[0] for i in inside], axis=1)
        _, first, label, count = np.unique(codes, axis=0, return_index=True, return_inverse=True, return_counts=True)
        small = np.flatnonzero(count < (self.size or 1))
        if len(small):
            shown = [f"{count[i]} like row {first[i]}" for i in small[:5]]
            raise InputError(
                f"Every combination of {list(self.within)} needs at least {self.size} records",
                "; ".join(shown),
                "Merge categories with Recode first, or use smaller groups",
            )
        order = stable_order(label.reshape(-1))
        return list(np.split(order, np.cumsum(count)[:-1]))

    def _find(self, values: Array, classes: list[Ints]) -> tuple[Ints, Ints]:
        """Rows put group by group, and where each group starts."""
        if isinstance(self.groups, tuple):
            labels = self._labels(len(values))
            order = stable_order(labels)
            return order, np.concatenate([[0], np.cumsum(np.bincount(labels))[:-1]])
        score = _score(values, self.order, self.standardise)
        orders, starts, before = [], [], 0
        for rows in classes:
            inner = score if score is None or len(classes) == 1 else score[rows]
            if self.order == "mdav":
                assert inner is not None
                assert self.size is not None
                if self.size > len(rows):
                    self.sizes(len(rows))
                labels = mdav(inner, self.size)
                order, sizes = stable_order(labels), np.bincount(labels)
            else:
                order = np.arange(len(rows)) if inner is None else stable_order(inner)
                sizes = self.sizes(len(rows))
            orders.append(rows[order] if len(classes) > 1 else order)
            starts.append(before + np.concatenate([[0], np.cumsum(sizes)[:-1]]))
            before += len(rows)
        return np.concatenate(orders), np.concatenate(starts).astype(np.int64)


def _score(values: Array, by: str, standardise: bool) -> Array | None:
    """What records are sorted by, the points for MDAV, or None for the order of the file."""
    if by == "rows":
        return None
    if by == "each":
        return values[:, 0]
    if by == "zscore" or standardise:
        values = _z_scores(values)
    if by == "zscore":
        return np.asarray(values.sum(axis=1))
    if by == "mdav":
        return values
    if not standardise:
        # In units of the largest value: the direction is the same, and squares neither overflow nor vanish.
        values = values / (float(np.abs(values).max()) or 1.0)
        values = values - values.mean(axis=0)
    direction = np.linalg.eigh(sample_covariance(values))[1][:, -1] if len(values) > 1 else np.ones(values.shape[1])
    # The sign of a principal component is free, but it decides which end takes the remainder. The largest loading is
    # made negative (the first of them in a draw), which gives the reference files.
    size = np.abs(direction)
    return np.asarray(values @ (direction * -np.sign(direction[np.argmax(size >= size.max() * (1 - 1e-9))])))


def _z_scores(values: Array) -> Array:
    """Columns less their mean over their standard deviation (divisor n - 1); zero for a constant column."""
    out = np.empty_like(values)
    for j in range(values.shape[1]):
        x = values[:, j]
        least, greatest = x.min(), x.max()
        if least == greatest:
            out[:, j] = 0.0
            continue
        # Very large or very small values would overflow or vanish when they are squared.
        scale = max(abs(least), abs(greatest))
        if not 1e-100 < scale < 1e100:
            x = x / scale
        centred = x - x.mean()
        out[:, j] = centred / np.sqrt(np.square(centred).sum() / (len(x) - 1))
    return out


def _centres(values: Array, order: Ints, starts: Ints, centre: str, out: Array) -> None:
    """Write the mean or median of each group into ``out``, in file order."""
    sizes = np.diff(np.append(starts, len(order)))
    group = np.repeat(np.arange(len(starts)), sizes)
    label = np.empty(len(order), dtype=np.int64)
    label[order] = group
    for j in range(values.shape[1]):
        taken = values[:, j][order]
        if centre == "mean" and np.isnan(taken).any():
            there = ~np.isnan(taken)
            count = np.add.reduceat(there.astype(np.int64), starts)
            result = np.add.reduceat(np.where(there, taken, 0.0), starts) / np.maximum(count, 1)
            out[:, j] = np.where(np.isnan(values[:, j]), np.nan, result[label])
            continue
        if centre == "mean":
            # Means are taken about the group's first value: a group of equal values keeps its value to the last digit.
            origin = taken[starts]
            result = origin + np.add.reduceat(taken - origin[group], starts) / sizes
        else:
            ranked = taken[np.lexsort((taken, group))]
            low, high = ranked[starts + (sizes - 1) // 2], ranked[starts + sizes // 2]
            result = low + (high - low) / 2
        out[:, j] = result[label]
