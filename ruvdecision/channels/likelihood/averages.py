"""Averages over groups of rows, with the noise that they carry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...protocols import Array


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

    label: Any
    values: Array
    members: Any
    noise: Array
    error: Array
    constant: Array

    @classmethod
    def of(
        cls, label: Any, values: Array, members: Any, error: Array | None = None, constant: Array | None = None
    ) -> Averages:
        """Averages without noise on their rows."""
        k = values.shape[1]
        zero = np.zeros(values.shape)
        return cls(
            np.asarray(label),
            values,
            np.asarray(members),
            np.zeros((1, k, k)),
            zero if error is None else error,
            zero if constant is None else constant,
        )

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.label)

    @property
    def sizes(self) -> Any:
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

    def drop(self, rows: Any, columns: Any) -> Averages:
        """The same where some entries were missing before the rows were averaged."""
        members = self.members.copy()
        members[np.ix_(rows, columns)] = False
        return replace(self, members=members)

    def placed(self, rows: Any, n: int) -> Averages:
        """The same with the rows at their places among n."""
        label, members = np.full(n, -1), np.zeros((n, self.values.shape[1]), dtype=bool)
        label[rows], members[rows] = self.label, self.members
        noise = self.noise
        if len(noise) > 1:
            noise = np.zeros((n, *self.noise.shape[1:]))
            noise[rows] = self.noise
        return replace(self, label=label, members=members, noise=noise)

    def __repr__(self) -> str:
        return f"Averages(n={self.n}, groups={len(self.values)}, columns={int(self.members.any(axis=0).sum())})"
