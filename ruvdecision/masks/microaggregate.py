"""Averaging the records in small groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..channels import LinearChannel, Partition
from ..checks import check_choice, check_columns, check_integer
from ..errors import InputError, UnsupportedError
from ..protocols import Array
from .base import Mask
from .frame import Frame

__all__ = ["Microaggregate"]

ORDERS = ("rows", "each", "zscore", "pc1")


@dataclass(frozen=True, repr=False)
class Microaggregate(Mask):
    """Replace every value by the mean of its group.

    Parameters
    ----------
    groups : int or one label per record, optional
        A number of groups of sizes as equal as possible: with n records the first ``n % groups`` groups have
        one record more. Or a label for every record, for groups fixed beforehand; then ``by`` must stay "rows".
    size : int, optional
        Records per group; the last group takes the remainder, so it has ``size`` to ``2 * size - 1``.
    by : {"rows", "each", "zscore", "pc1"}, default "rows"
        How records are put in order before they are cut into groups. "rows" takes the order of the file, so
        the groups do not depend on the data and the release is linear. The others look at the data: each
        variable apart ("each", individual ranking), the sum of z-scores ("zscore"), the first principal
        component of the standardised variables ("pc1"). Sorting is stable; z-scores use the divisor n - 1.
    columns : names or positions, optional
        Columns to average; all of them if not given. They alone decide the order.

    >>> Microaggregate(groups=1).release([1.0, 2.0, 6.0])
    array([3., 3., 3.])
    """

    groups: Any = None
    size: int | None = None
    by: str = "rows"
    columns: Any = None

    recordwise: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if (self.groups is None) == (self.size is None):
            raise InputError("Microaggregate needs groups or size", {"groups": self.groups, "size": self.size}, "Give one of them, Microaggregate(groups=1)")
        check_choice("by", self.by, ORDERS)
        if self.size is not None:
            object.__setattr__(self, "size", check_integer("size", self.size, low=1))
        elif np.ndim(self.groups) == 0:
            object.__setattr__(self, "groups", check_integer("groups", self.groups, low=1))
        else:
            labels = tuple(np.asarray(self.groups).tolist())
            if self.by != "rows":
                raise InputError("Groups given record by record leave nothing to sort", f"by={self.by!r}", 'Leave by="rows", or give the number of groups')
            if any(v is None or v != v for v in labels):
                raise InputError("groups must have a label for every record", "missing labels", "Fill them in")
            object.__setattr__(self, "groups", labels)
        if self.columns is not None:
            object.__setattr__(self, "columns", (self.columns,) if isinstance(self.columns, (str, int, np.integer)) else tuple(self.columns))

    def sizes(self, n: int) -> Array:
        """Group sizes for ``n`` records, in order."""
        if self.size is not None:
            if self.size > n:
                raise InputError(f"size={self.size} is more than the {n} records", self.size, "Use smaller groups")
            count = n // self.size
            sizes = np.full(count, self.size)
            sizes[-1] += n - count * self.size
            return sizes
        if self.groups > n:
            raise InputError(f"groups={self.groups} is more than the {n} records", self.groups, f"Use at most {n} groups")
        sizes = np.full(self.groups, n // self.groups)
        sizes[: n % self.groups] += 1
        return sizes

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        values, positions = frame.numeric("Microaggregate", self.columns)
        labels = self._labels(frame.n)
        out = np.empty_like(values)
        if self.by == "each":
            for j in range(values.shape[1]):
                out[:, j] = _group_means(values[:, [j]], np.argsort(values[:, j], kind="stable"), labels)[:, 0]
        else:
            out = _group_means(values, _order(values, self.by), labels)
        return frame.replace(out, positions)

    def partition(self, n: int) -> Partition | None:
        if self.by != "rows":
            raise UnsupportedError(
                f"{self} groups records by their values, so its release is not linear in the records",
                do='Use by="rows" (groups fixed beforehand) for a closed form, or measure its releases with ruv.measure',
            )
        if self.size is None and not isinstance(self.groups, tuple):
            self.sizes(n)
            return None if self.groups == n else Partition.consecutive(n, self.groups)
        return Partition.of(self._labels(n), joins=True)

    def linear(self, channel: LinearChannel, numbers: Array) -> LinearChannel:
        if channel.layout.partitions[channel.stage] is None:
            return channel
        names = channel.names or tuple(range(channel.columns))
        return channel.average(None if self.columns is None else check_columns("columns", self.columns, names))

    def _labels(self, n: int) -> Any:
        if isinstance(self.groups, tuple):
            if len(self.groups) != n:
                raise InputError(f"groups must have a label for each of the {n} records", f"{len(self.groups)} labels", "Give one label per record")
            return np.unique(np.asarray(self.groups), return_inverse=True)[1]
        sizes = self.sizes(n)
        return np.repeat(np.arange(len(sizes)), sizes)


def _order(values: Array, by: str) -> Any:
    """The order in which records are cut into groups."""
    if by == "rows":
        return np.arange(len(values))
    if len(values) < 2:
        return np.arange(len(values))
    spread = values.std(axis=0, ddof=1)
    z = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    if by == "zscore":
        score = z.sum(axis=1)
    else:
        # The sign of a principal component is free: fix it so that its largest loading is positive.
        direction = np.linalg.svd(z, full_matrices=False)[2][0]
        score = z @ (direction * np.sign(direction[np.argmax(np.abs(direction))]))
    return np.argsort(score, kind="stable")


def _group_means(values: Array, order: Any, labels: Any) -> Array:
    """Means of the groups that ``labels`` cut out of the ordered records, back in file order."""
    count = np.bincount(labels)
    sums = np.stack([np.bincount(labels, weights=values[order, j]) for j in range(values.shape[1])], axis=1)
    out = np.empty_like(values)
    out[order] = (sums / count[:, None])[labels]
    return out
