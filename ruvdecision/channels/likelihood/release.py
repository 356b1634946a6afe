"""A whole release: what it tells about n records of k columns, entry by entry, row by row and group by group."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...errors import UnsupportedError
from ...protocols import Array
from ..steps import MaskLike
from .base import Bools, ColumnLikelihood, Ints
from .entries import Uninformative, join_rows


@dataclass(frozen=True, repr=False, eq=False)
class JointNormal:
    """Normal noise that is correlated across columns: the released row i is N(x_i, covariance_i).

    Parameters
    ----------
    centre : array, shape (n, k)
        The released rows; a missing entry was not released, or its column is not one of these.
    covariance : array, shape (n, k, k) or (1, k, k)
        Of the noise; zeros for columns that are not covered.
    columns : tuple of int
        The columns whose law this is.
    """

    centre: Array
    covariance: Array
    columns: tuple[int, ...]

    def __repr__(self) -> str:
        return f"JointNormal(n={self.centre.shape[0]}, columns={self.centre.shape[1]})"


@dataclass(frozen=True, repr=False, eq=False)
class Averages:
    """A release tells, for each group and column, the average of its members plus noise.

    Parameters
    ----------
    label : array, shape (n,)
        The group of each row; -1 is in none.
    values : array, shape (groups, k)
        What was released for the group; missing if nothing was.
    members : array of bool, shape (n, k)
        Whether a row's entry counts in its group's average.
    noise : array, shape (n, k, k) or (1, k, k)
        Covariance of normal noise on the rows before they were averaged.
    error : array, shape (groups, k)
        Variance of normal noise on the average itself.
    constant : array, shape (groups, k)
        What the log likelihood has beside that of ``values``: it does not depend on the records.
    """

    label: Ints
    values: Array
    members: Bools
    noise: Array
    error: Array
    constant: Array

    @classmethod
    def of(
        cls, label: Ints, values: Array, members: Bools, error: Array | None = None, constant: Array | None = None
    ) -> Averages:
        """Averages without noise on their rows."""
        zero, none = np.zeros(values.shape), np.zeros((1, values.shape[1], values.shape[1]))
        return cls(
            label, values, members, none, zero if error is None else error, zero if constant is None else constant
        )

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.label)

    @property
    def sizes(self) -> Ints:
        """How many entries each average is over, shape (groups, k)."""
        sizes = np.zeros(self.values.shape, dtype=np.int64)
        inside = self.label >= 0
        np.add.at(sizes, self.label[inside], self.members[inside].astype(np.int64))
        return sizes

    @property
    def covariance(self) -> Array:
        """Covariance of the noise on each group's averages, shape (groups, k, k)."""
        groups, k = self.values.shape
        total = np.zeros((groups, k, k))
        inside = np.flatnonzero(self.label >= 0)
        both = self.members[inside, :, None] & self.members[inside, None, :]
        np.add.at(total, self.label[inside], both * (self.noise if len(self.noise) == 1 else self.noise[inside]))
        sizes = np.maximum(self.sizes, 1)
        total /= sizes[:, :, None] * sizes[:, None, :]
        total[:, np.arange(k), np.arange(k)] += self.error
        return total

    @property
    def variance(self) -> Array:
        """Variance of the noise on each average, shape (groups, k); 0 where the average is exact."""
        return np.diagonal(self.covariance, axis1=1, axis2=2).copy()

    def add_noise(self, covariance: Array) -> Averages:
        """The same with more normal noise on the rows before averaging; covariance of shape (n or 1, k, k)."""
        return replace(self, noise=self.noise + covariance)

    def drop(self, rows: Ints, columns: list[int]) -> Averages:
        """The same where some entries were missing before the rows were averaged."""
        members = self.members.copy()
        members[rows[:, None], columns] = False
        return replace(self, members=members)

    def in_whole_file(self, rows: Ints, n: int) -> Averages:
        """The same with the rows at their places among n."""
        label, members = np.full(n, -1), np.zeros((n, self.values.shape[1]), dtype=bool)
        label[rows], members[rows] = self.label, self.members
        return replace(self, label=label, members=members, noise=_matrices_of_all_rows(self.noise, rows, n))

    def __repr__(self) -> str:
        return f"Averages(n={self.n}, groups={len(self.values)}, columns={int(self.members.any(axis=0).sum())})"


@dataclass(frozen=True, repr=False, eq=False)
class ReleaseLikelihood:
    """What a release tells about the records. Its likelihood is the product of all that follows.

    Parameters
    ----------
    columns : tuple of Observation
        One per column, independent given the records. Columns that ``joint`` covers, and averaged ones, are
        uninformative here.
    joint : JointNormal, optional
        Columns whose noise is correlated.
    shuffled : bool
        The order of the rows tells nothing: row i is what was released for a record drawn at random, each record once.
        Entries that are uninformative count as rows, so it is not known either who is in a sample.
    averages : Averages, optional
        Averages over groups of rows. A column may tell something beside them: that the members lie above a threshold.
    names : tuple
        Names of the columns.
    categorical : tuple of bool
        Which columns were released as text, categories or booleans.
    index, total : row numbers and number of all records, for a sample that is not yet put in its place
    """

    columns: tuple[ColumnLikelihood, ...]
    joint: JointNormal | None = None
    shuffled: bool = False
    averages: Averages | None = None
    names: tuple[Hashable, ...] = ()
    categorical: tuple[bool, ...] = ()
    index: Ints | None = None
    total: int | None = None

    def __post_init__(self) -> None:
        if not self.names:
            object.__setattr__(self, "names", tuple(range(len(self.columns))))
        if not self.categorical:
            object.__setattr__(self, "categorical", (False,) * len(self.columns))

    @property
    def is_uninformative(self) -> bool:
        """Whether the records are known no better than before."""
        silent = all(np.all(column.uninformative) for column in self.columns) and self.averages is None
        return silent and (self.joint is None or bool(np.isnan(self.joint.centre).all()))

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.columns[0].n

    @property
    def k(self) -> int:
        """Number of columns."""
        return len(self.columns)

    def change_columns(
        self, mask: MaskLike, positions: Sequence[int], change: Callable[[int, ColumnLikelihood], ColumnLikelihood]
    ) -> ReleaseLikelihood:
        """Change some columns one by one, as a mask does that works entry by entry.

        ``change`` gets the column's place among ``positions`` and its observation.
        """
        self.refuse_joint(mask, positions)
        if self.averages is not None and self.averages.members[:, list(positions)].any():
            raise UnsupportedError(
                f"{mask} before an average has no likelihood here: the average mixes values that it altered",
                do="Put plain normal Noise before Microaggregate, or measure the releases with ruv.measure",
            )
        columns = list(self.columns)
        for j, position in enumerate(positions):
            columns[position] = change(j, columns[position])
        return replace(self, columns=tuple(columns))

    def refuse_joint(self, mask: MaskLike, positions: Sequence[int]) -> None:
        """Raise if correlated noise follows on one of these columns."""
        if self.joint is not None and set(self.joint.columns) & set(positions):
            raise UnsupportedError(
                f"{mask} before noise that is correlated across columns has no likelihood here",
                do="Use variance= or sd= (independent noise) after it, or put the correlated noise first",
            )

    def with_joint_normal(self, mask: MaskLike, positions: Sequence[int]) -> ReleaseLikelihood:
        """The same with these columns moved into the joint normal law; they must be normal."""
        old = self.joint
        new = [j for j in positions if old is None or j not in old.columns]
        centre = np.full((self.n, self.k), np.nan) if old is None else old.centre.copy()
        covariance = np.zeros((self.n, self.k, self.k))
        if old is not None:
            covariance += old.covariance
        columns = list(self.columns)
        for j in new:
            normal = columns[j].normal
            if normal is None:
                raise UnsupportedError(
                    f"{mask} is correlated across columns, and a later mask alters what it gives out",
                    do="Use variance= or sd= (independent noise) before such masks",
                )
            there = np.isfinite(normal[1])
            centre[:, j] = np.where(there, normal[0], np.nan)
            covariance[:, j, j] = np.where(there, normal[1], 0.0)
            columns[j] = Uninformative(self.n)
        covered = tuple(sorted({*new, *(old.columns if old else ())}))
        return replace(self, columns=tuple(columns), joint=JointNormal(centre, as_one_matrix(covariance), covered))

    def refuse_uneven(self, mask: MaskLike) -> None:
        """Raise if rows were shuffled after a mask that treats them differently."""
        if self.shuffled:
            raise UnsupportedError(
                f"{mask} treats rows differently, and Shuffle after it hides which was which",
                do="Put Shuffle() first in the chain, or treat all rows alike",
            )

    def in_whole_file(self) -> ReleaseLikelihood:
        """A sample's rows at their places among all the records; the others are uninformative."""
        if self.index is None or self.total is None:
            return self
        rows, n = np.asarray(self.index, dtype=np.int64), self.total
        if len(rows) == n and np.array_equal(rows, np.arange(n)):
            return replace(self, index=None, total=None)  # all of them, in order
        rest = np.setdiff1d(np.arange(n), rows)
        columns = tuple(join_rows(n, [(rows, column), (rest, Uninformative(len(rest)))]) for column in self.columns)
        joint = self.joint
        if joint is not None:
            centre = np.full((n, self.k), np.nan)
            centre[rows] = joint.centre
            joint = replace(joint, centre=centre, covariance=_matrices_of_all_rows(joint.covariance, rows, n))
        averages = None if self.averages is None else self.averages.in_whole_file(rows, n)
        return replace(self, columns=columns, joint=joint, averages=averages, index=None, total=None)

    def __repr__(self) -> str:
        flags = {"joint": self.joint, "averages": self.averages, "shuffled": self.shuffled}
        extra = "".join(f", {name}" for name, flag in flags.items() if flag)
        return f"ReleaseLikelihood(n={self.n}, columns=[{', '.join(type(c).__name__ for c in self.columns)}]{extra})"


def _matrices_of_all_rows(matrices: Array, rows: Ints, n: int) -> Array:
    """Matrices of some rows at their places among n, zero elsewhere; one matrix of all rows stays."""
    if len(matrices) == 1:
        return matrices
    out = np.zeros((n, *matrices.shape[1:]))
    out[rows] = matrices
    return out


def as_one_matrix(matrices: Array) -> Array:
    """One matrix where all rows have the same."""
    return matrices[:1] if np.all(matrices == matrices[:1]) else matrices
