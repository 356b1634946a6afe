"""Sums over records that can be taken piece by piece and put together: moments, counts of cells, least squares.

They are how a measure compares files that are larger than memory. Each has ``plus``, and the order of pieces matters to the last
bits only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from scipy import linalg

from ..errors import InputError, UnsupportedError
from ..protocols import Array
from .tables import cells

__all__ = ["Counts", "Factor", "Moments", "Same", "Sums", "Together", "add"]

MOST_ROWS = 20_000_000
"""Different rows that are counted before we say that they are too many to hold."""


class Sums(Protocol):
    """What one piece of a file adds to."""

    def plus(self, other: Any) -> Any: ...


def add(a: Any, b: Any) -> Any:
    """Two sums together; None is the sum of nothing."""
    return b if a is None else a if b is None else a.plus(b)


@dataclass(frozen=True)
class Moments:
    """Number of records, means, centred sums of products, and ends of numeric columns.

    Pieces are joined by the means' difference (Chan, Golub and LeVeque 1983), which keeps the digits that sums of raw squares lose.

    >>> whole = Moments.of(np.array([[1.0], [2.0], [6.0]]))
    >>> parts = Moments.of(np.array([[1.0]])).plus(Moments.of(np.array([[2.0], [6.0]])))
    >>> whole.products.round(12).tolist() == parts.products.round(12).tolist()
    True
    """

    n: int
    origin: Array
    """A record; the mean is kept as its distance from here, which has more digits than the mean of numbers far from zero."""
    offset: Array
    products: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, values: Array) -> Moments:
        """Moments of the rows of a matrix."""
        if len(values) == 0:
            none = np.full(values.shape[1], np.inf)
            zeros = np.zeros(len(none))
            return cls(0, zeros, zeros, np.zeros((len(none), len(none))), none, -none)
        with np.errstate(over="ignore", invalid="ignore"):
            moved = values - values[0]
            offset = moved.mean(axis=0)
            centred = moved - offset
            return cls(
                len(values), values[0].copy(), offset, centred.T @ centred, values.min(axis=0), values.max(axis=0)
            )

    @property
    def mean(self) -> Array:
        """Means of the columns."""
        return self.origin + self.offset

    def plus(self, other: Moments) -> Moments:
        """The moments of both pieces together."""
        n = self.n + other.n
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        gap = (other.origin - self.origin) + (other.offset - self.offset)
        return Moments(
            n,
            self.origin,
            self.offset + gap * (other.n / n),
            self.products + other.products + np.outer(gap, gap) * (self.n * other.n / n),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    def covariance(self, ddof: int = 0) -> Array:
        """Covariances; a column of equal numbers has zeros, whatever rounding does to its mean."""
        varies = self.high > self.low
        return np.where(np.outer(varies, varies), self.products, 0.0) / (self.n - ddof)

    def spreads(self) -> Array:
        """Standard deviations with n - 1, zero for columns of equal numbers."""
        return np.sqrt(np.diag(self.covariance(1)))


@dataclass(frozen=True)
class Factor:
    """The triangular factor of a design with its response in the last column, and which of its columns occur.

    Factors of pieces, put on top of each other and factored again, give the factor of the whole. No product of the design with itself
    is formed, so no digits are lost to collinear predictors or to a close fit.

    >>> rows = np.array([[1.0, 2.0, 3.0, 5.0], [1.0, 4.0, 4.0, 9.0]])
    >>> parts = Factor.of(rows[:, :2]).plus(Factor.of(rows[:, 2:]))
    >>> bool(np.allclose(parts.triangle.T @ parts.triangle, rows @ rows.T))
    True
    """

    n: int
    triangle: Array
    seen: Any

    @classmethod
    def of(cls, rows: Array) -> Factor:
        """The factor of a transposed design: one row per coefficient, the response below."""
        return cls(rows.shape[1], _triangle(rows.T), np.asarray(rows.any(axis=1)))

    def plus(self, other: Factor) -> Factor:
        """The factor of both pieces together."""
        return Factor(self.n + other.n, _triangle(np.vstack([self.triangle, other.triangle])), self.seen | other.seen)


@dataclass(frozen=True)
class Counts:
    """The different rows of a table, and how often each occurs.

    >>> counts = Counts.of(pd.DataFrame({"a": [1, 2]})).plus(Counts.of(pd.DataFrame({"a": [2, 3]})))
    >>> counts.rows["a"].tolist(), counts.count.tolist()
    ([1, 2, 3], [1.0, 2.0, 1.0])
    """

    rows: pd.DataFrame
    count: Array

    @classmethod
    def of(cls, table: pd.DataFrame) -> Counts:
        """Count the rows of a table."""
        return cls._merged(table, np.ones(len(table)))

    def plus(self, other: Counts) -> Counts:
        """The counts of both pieces together."""
        if len(self.rows) == 0 or len(other.rows) == 0:
            return other if len(self.rows) == 0 else self
        for label in self.rows.columns:
            a, b = (cells.is_text(t[label]) for t in (self.rows, other.rows))
            if a != b and not (self.rows[label].isna().all() or other.rows[label].isna().all()):
                raise InputError(
                    "A column must be of one kind in all of a file", str(label), "Convert it, or leave it out"
                )
        return self._merged(
            pd.concat([self.rows, other.rows], ignore_index=True), np.concatenate([self.count, other.count])
        )

    @classmethod
    def _merged(cls, table: pd.DataFrame, count: Array) -> Counts:
        plain = table.reset_index(drop=True).apply(cells.plain) if table.shape[1] else table
        if len(plain) == 0:
            return cls(plain, count)
        (codes,), _ = cells.joint_codes(plain)
        _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
        if len(first) > MOST_ROWS:
            do = "Choose fewer columns, or recode them"
            raise UnsupportedError(
                "There are too many different rows to count them in memory", f"more than {MOST_ROWS:,}", do
            )
        order = np.argsort(first, kind="stable")
        place = np.empty(len(first), dtype=np.int64)
        place[order] = np.arange(len(first))
        total = np.bincount(place[codes.reshape(-1)], weights=count, minlength=len(first)).astype(np.float64)
        return cls(plain.iloc[first[order]].reset_index(drop=True), total)


@dataclass(frozen=True)
class Same:
    """Something that is the same for all pieces, such as the names of columns.

    >>> Same(["a"]).plus(Same(["a"])).value
    ['a']
    """

    value: Any

    def plus(self, other: Same) -> Same:
        """Either of them."""
        return self


@dataclass(frozen=True)
class Together:
    """Several sums of one measure, by name.

    >>> (Together({"n": Moments.of(np.ones((2, 1)))}).plus(Together({"n": Moments.of(np.ones((3, 1)))}))).of["n"].n
    5
    """

    of: dict[str, Any]

    def plus(self, other: Together) -> Together:
        """Name by name."""
        return Together({name: add(part, other.of[name]) for name, part in self.of.items()})


def _triangle(matrix: Array) -> Array:
    if len(matrix) < matrix.shape[1]:
        matrix = np.vstack([matrix, np.zeros((matrix.shape[1] - len(matrix), matrix.shape[1]))])
    if not np.isfinite(matrix).all():
        return np.full((matrix.shape[1], matrix.shape[1]), np.nan)  # refused by name when the fit is made
    return np.asarray(linalg.qr(matrix, mode="r", check_finite=False)[0][: matrix.shape[1]])
