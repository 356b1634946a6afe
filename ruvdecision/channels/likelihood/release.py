"""A whole release: what it tells about n records of k columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...checks import check_columns
from ...errors import UnsupportedError
from ...protocols import Array
from .averages import Averages
from .base import Observation
from .simple import Uninformative, join


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

    def log(self, x: Any) -> Array:
        """Log density of each released row given records ``x`` of shape (..., n, k).

        Shape (..., n), 0 for an empty row.
        """
        away = self.centre - np.asarray(x, dtype=np.float64)
        n, k = self.centre.shape
        covariance = np.broadcast_to(self.covariance, (n, k, k))
        out = np.zeros(away.shape[:-1])
        for i in range(n):
            there = np.flatnonzero(~np.isnan(self.centre[i]))
            if len(there):
                root = np.linalg.cholesky(covariance[i][np.ix_(there, there)])
                z = np.linalg.solve(root, away[..., i, there][..., None])[..., 0]
                out[..., i] = (
                    -0.5 * (z**2).sum(axis=-1) - np.log(np.diag(root)).sum() - 0.5 * len(there) * np.log(2 * np.pi)
                )
        return out

    def take(self, rows: Any) -> JointNormal:
        """The same for some rows."""
        covariance = self.covariance if len(self.covariance) == 1 else self.covariance[rows]
        return JointNormal(self.centre[rows], covariance, self.columns)

    def __repr__(self) -> str:
        return f"JointNormal(n={self.centre.shape[0]}, columns={self.centre.shape[1]})"


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

    columns: tuple[Observation, ...]
    joint: JointNormal | None = None
    shuffled: bool = False
    averages: Averages | None = None
    names: tuple[Any, ...] = ()
    categorical: tuple[bool, ...] = ()
    index: Any = None
    total: int | None = None

    def __post_init__(self) -> None:
        if not self.names:
            object.__setattr__(self, "names", tuple(range(len(self.columns))))
        if not self.categorical:
            object.__setattr__(self, "categorical", (False,) * len(self.columns))

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.columns[0].n

    @property
    def k(self) -> int:
        """Number of columns."""
        return len(self.columns)

    def positions(self, columns: Any) -> list[int]:
        """Positions of the named columns; all of them for None."""
        return list(range(self.k)) if columns is None else check_columns("columns", columns, self.names)

    def replace(self, **changes: Any) -> ReleaseLikelihood:
        """A copy with some fields changed."""
        return replace(self, **changes)

    def each(
        self, mask: Any, positions: Sequence[int], change: Callable[[int, Observation], Observation]
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

    def refuse_joint(self, mask: Any, positions: Sequence[int]) -> None:
        """Raise if correlated noise follows on one of these columns."""
        if self.joint is not None and set(self.joint.columns) & set(positions):
            raise UnsupportedError(
                f"{mask} before noise that is correlated across columns has no likelihood here",
                do="Use variance= or sd= (independent noise) after it, or put the correlated noise first",
            )

    def joined(self, mask: Any, positions: Sequence[int]) -> ReleaseLikelihood:
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
        if np.all(covariance == covariance[:1]):
            covariance = covariance[:1]
        covered = tuple(sorted({*new, *(old.columns if old else ())}))
        return replace(self, columns=tuple(columns), joint=JointNormal(centre, covariance, covered))

    def refuse_uneven(self, mask: Any) -> None:
        """Raise if rows were shuffled after a mask that treats them differently."""
        if self.shuffled:
            raise UnsupportedError(
                f"{mask} treats rows differently, and Shuffle after it hides which was which",
                do="Put Shuffle() first in the chain, or treat all rows alike",
            )

    def take(self, rows: Any) -> ReleaseLikelihood:
        """What is told about some of the rows; averages are left out."""
        return replace(
            self,
            columns=tuple(column.take(rows) for column in self.columns),
            joint=None if self.joint is None else self.joint.take(rows),
            averages=None,
            index=None,
            total=None,
        )

    def placed(self) -> ReleaseLikelihood:
        """A sample's rows at their places among all the records; the others are uninformative."""
        if self.index is None or self.total is None:
            return self
        rows, n = np.asarray(self.index, dtype=np.int64), self.total
        if len(rows) == n and np.array_equal(rows, np.arange(n)):
            return replace(self, index=None, total=None)  # all of them, in order
        rest = np.setdiff1d(np.arange(n), rows)
        columns = tuple(join(n, [(rows, column), (rest, Uninformative(len(rest)))]) for column in self.columns)
        joint = None
        if self.joint is not None:
            centre = np.full((n, self.k), np.nan)
            centre[rows] = self.joint.centre
            covariance = self.joint.covariance
            if len(covariance) > 1:
                covariance = np.zeros((n, self.k, self.k))
                covariance[rows] = self.joint.covariance
            joint = JointNormal(centre, covariance, self.joint.columns)
        averages = None if self.averages is None else self.averages.placed(rows, n)
        return replace(self, columns=columns, joint=joint, averages=averages, index=None, total=None)

    def __repr__(self) -> str:
        kinds = ", ".join(type(c).__name__ for c in self.columns)
        extra = "".join(
            [
                ", joint" if self.joint else "",
                ", averages" if self.averages else "",
                ", shuffled" if self.shuffled else "",
            ]
        )
        return f"ReleaseLikelihood(n={self.n}, columns=[{kinds}]{extra})"
