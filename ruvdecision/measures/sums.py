"""Sums over records that can be taken piece by piece and put together: moments, counts of cells, least squares.

They are how a measure compares files that are larger than memory. Each has ``plus``, and the order of pieces matters to
the last bits only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import linalg

from ..errors import InputError, UnsupportedError
from ..protocols import Array
from .frames import check_enough_rows, numeric, refuse_constant, refuse_vanishing
from .tables import cells

MOST_ROWS = 20_000_000
"""Different rows that are counted before we say that they are too many to hold."""


def add(a: Any, b: Any) -> Any:
    """Two sums together; None is the sum of nothing."""
    return b if a is None else a if b is None else a.plus(b)


@dataclass(frozen=True)
class ColumnMoments:
    """Number of records, means, centred sums of products, and ends of numeric columns.

    Pieces are joined by the means' difference (Chan, Golub and LeVeque 1983), which keeps the digits that sums of raw
    squares lose.

    >>> whole = ColumnMoments.of(np.array([[1.0], [2.0], [6.0]]))
    >>> parts = ColumnMoments.of(np.array([[1.0]])).plus(ColumnMoments.of(np.array([[2.0], [6.0]])))
    >>> whole.products.round(12).tolist() == parts.products.round(12).tolist()
    True
    """

    names: tuple[str, ...]
    n: int
    weight: float
    """Sum of the records' weights, n without weights; only ratios of weights matter."""
    origin: Array
    """A record. The mean is kept as its distance from here, which has more digits than a mean far from zero."""
    offset: Array
    products: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, values: Array, names: Iterable[Hashable] = (), weights: Array | None = None) -> ColumnMoments:
        """Moments of the rows of a matrix, weighted if asked."""
        labels = tuple(map(str, names))
        if len(values) == 0:
            zeros, ends = np.zeros(values.shape[1]), np.full(values.shape[1], np.inf)
            return cls(labels, 0, 0.0, zeros, zeros, np.outer(zeros, zeros), ends, -ends)
        with np.errstate(over="ignore", invalid="ignore"):
            moved = values - values[0]
            total = float(len(values) if weights is None else weights.sum())
            offset = moved.mean(axis=0) if weights is None else weights @ moved / total
            moved -= offset
            low, high = values.min(axis=0), values.max(axis=0)
            products = moved.T @ moved if weights is None else (moved.T * weights) @ moved
            return cls(labels, len(values), total, values[0].copy(), offset, products, low, high)

    @property
    def mean(self) -> Array:
        """Means of the columns."""
        return self.origin + self.offset

    def plus(self, other: ColumnMoments) -> ColumnMoments:
        """The moments of both pieces together."""
        weight = self.weight + other.weight
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        gap = (other.origin - self.origin) + (other.offset - self.offset)
        return ColumnMoments(
            self.names,
            self.n + other.n,
            weight,
            self.origin,
            self.offset + gap * (other.weight / weight),
            self.products + other.products + np.outer(gap, gap) * (self.weight * other.weight / weight),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    @property
    def varies(self) -> NDArray[np.bool_]:
        """False for columns of equal numbers."""
        return self.high > self.low

    def covariance(self, ddof: int = 0) -> Array:
        """Covariances; a column of equal numbers has zeros, whatever rounding does to its mean."""
        products = np.where(np.outer(self.varies, self.varies), self.products, 0.0)
        return products * (self.n / self.weight) / (self.n - ddof)

    def standard_deviations(self) -> Array:
        """Standard deviations with n - 1, zero for columns of equal numbers."""
        return np.sqrt(np.diag(self.covariance(1)))


def moments_of(who: str, table: pd.DataFrame, which: str, weights: Array | None = None) -> ColumnMoments:
    """Moments of the numeric columns of a table."""
    return ColumnMoments.of(numeric(who, table, which), table.columns, weights)


def checked_covariance(who: str, which: str, moments: ColumnMoments, ddof: int = 0) -> Array:
    """The covariance of a file, refused by name where it has too few rows or squares that overflow or vanish."""
    check_enough_rows(who, moments.n, 2, which)
    covariance = moments.covariance(ddof)
    if not np.isfinite(covariance).all():
        what = f"{who} needs values whose squares have a finite sum in {which}"
        raise InputError(what, "an infinite one", "Use larger units")
    refuse_vanishing(who, which, moments.names, moments.varies, np.diag(covariance))
    return covariance


def nonsingular_covariance(who: str, moments: ColumnMoments) -> Array:
    """The original's covariance; a singular one is refused, and the error says which columns make it so."""
    covariance = checked_covariance(who, "the original", moments)
    if not is_singular(covariance):
        return covariance
    sd = np.sqrt(np.diag(covariance))
    refuse_constant(who, "the original", moments.names, sd)
    if moments.n <= len(sd):
        sizes = f"{moments.n} rows, {len(sd)} columns"
        raise InputError(f"{who} needs more rows than columns in the original", sizes, "Choose fewer columns")
    vector = np.linalg.eigh(covariance / np.outer(sd, sd))[1][:, 0]
    involved = [n for n, v in zip(moments.names, vector, strict=True) if abs(v) > 1e-6]
    raise InputError(
        f"{who} needs columns that are not linear functions of each other in the original",
        f"collinear {', '.join(involved)}",
        "Leave one of them out with columns=[...]",
    )


def is_singular(covariance: Array) -> bool:
    """True if a variable is constant, or a linear function of the others to rounding."""
    sd = np.sqrt(np.diag(covariance))
    return bool(np.any(sd == 0)) or float(np.linalg.eigvalsh(covariance / np.outer(sd, sd))[0]) < 1e-13


@dataclass(frozen=True)
class Triangle:
    """The triangular factor of a design with its response in the last column, and which of its columns occur.

    Triangles of pieces, put on top of each other and factored again, give the factor of the whole. No product of the
    design with itself is formed, so no digits are lost to collinear predictors or to a close fit.

    >>> rows = np.array([[1.0, 2.0, 3.0, 5.0], [1.0, 4.0, 4.0, 9.0]])
    >>> parts = Triangle.of(rows[:, :2]).plus(Triangle.of(rows[:, 2:]))
    >>> bool(np.allclose(parts.triangle.T @ parts.triangle, rows @ rows.T))
    True
    """

    n: int
    weight: float
    triangle: Array
    occurs: NDArray[np.bool_]
    """Which coefficients some record speaks about."""

    @classmethod
    def of(cls, rows: Array, weights: Array | None = None) -> Triangle:
        """The factor of a transposed design: one row per coefficient, the response below."""
        n, occurs = rows.shape[1], np.asarray(rows.any(axis=1))
        if weights is None:
            return cls(n, float(n), _triangular_factor(rows.T), occurs)
        return cls(n, float(weights.sum()), _triangular_factor((rows * np.sqrt(weights)).T), occurs)

    def drop_absent_coefficients(self) -> Triangle:
        """The factor without coefficients that no record speaks about; the response stays."""
        keep = np.append(self.occurs[:-1], True)
        return Triangle(self.n, self.weight, self.triangle[:, keep], self.occurs[keep])

    def plus(self, other: Triangle) -> Triangle:
        """The factor of both pieces together."""
        joint = _triangular_factor(np.vstack([self.triangle, other.triangle]))
        return Triangle(self.n + other.n, self.weight + other.weight, joint, self.occurs | other.occurs)


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
    def of(cls, table: pd.DataFrame, weights: Array | None = None) -> Counts:
        """Count the rows of a table, or add up their weights."""
        return cls._merge_equal_rows(table, np.ones(len(table)) if weights is None else weights)

    def plus(self, other: Counts) -> Counts:
        """The counts of both pieces together."""
        if len(self.rows) == 0 or len(other.rows) == 0:
            return other if len(self.rows) == 0 else self
        for label in self.rows.columns:
            a, b = (cells.is_text(t[label]) for t in (self.rows, other.rows))
            if a != b and not (self.rows[label].isna().all() or other.rows[label].isna().all()):
                what = "A column must be of one kind in all of a file"
                raise InputError(what, str(label), "Convert it, or leave it out")
        rows = pd.concat([self.rows, other.rows], ignore_index=True)
        return self._merge_equal_rows(rows, np.concatenate([self.count, other.count]))

    @classmethod
    def _merge_equal_rows(cls, table: pd.DataFrame, count: Array) -> Counts:
        plain = table.reset_index(drop=True).apply(cells.without_categories) if table.shape[1] else table
        if len(plain) == 0:
            return cls(plain, count)
        (codes,), _ = cells.joint_codes_of_tables(plain)
        place, distinct = pd.factorize(codes)  # in the order of the file
        if len(distinct) > MOST_ROWS:
            what = "There are too many different rows to count them in memory"
            raise UnsupportedError(what, f"more than {MOST_ROWS:,}", "Choose fewer columns, or recode them")
        first = ~pd.Index(codes).duplicated()
        return cls(plain[first].reset_index(drop=True), np.bincount(place, weights=count).astype(np.float64))


@dataclass(frozen=True)
class NamedSums:
    """Several sums of one measure, by name.

    >>> one, two = (NamedSums({"m": ColumnMoments.of(np.ones((n, 1)))}) for n in (2, 3))
    >>> one.plus(two).of["m"].n
    5
    """

    of: dict[str, Any]

    def plus(self, other: NamedSums) -> NamedSums:
        """Name by name."""
        return NamedSums({name: add(part, other.of[name]) for name, part in self.of.items()})


def _triangular_factor(matrix: Array) -> Array:
    if len(matrix) < matrix.shape[1]:
        matrix = np.vstack([matrix, np.zeros((matrix.shape[1] - len(matrix), matrix.shape[1]))])
    if not np.isfinite(matrix).all():
        return np.full((matrix.shape[1], matrix.shape[1]), np.nan)  # refused by name when the fit is made
    return np.asarray(linalg.qr(matrix, mode="r", check_finite=False)[0][: matrix.shape[1]])
