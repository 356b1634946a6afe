"""Known columns as coordinates in which Euclidean distance is the distance that an intruder uses."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from ...errors import InputError, UnsupportedError
from ...protocols import Array
from .. import frames
from .neighbours import BoxTree, Links, Surroundings, is_tied, nearest_known


class IncompletePoints(NamedTuple):
    """One file's coordinates where some are not known."""

    points: Array
    """Coordinates; at the original's mean where they are not known."""
    known: frames.Flags
    extra: Array
    """What a coordinate that is not known adds to a squared distance: the original's variance of its column."""

    def take(self, rows: frames.Ints) -> IncompletePoints:
        """Some of the records."""
        return IncompletePoints(self.points[rows], self.known[rows], self.extra[rows])

    def links(self, asked: IncompletePoints, own: frames.Ints) -> Links:
        """The nearest records of another file; ``own`` is a record that is likely near."""
        return nearest_known(self.points, self.known, asked.points, asked.extra, own)

    def surroundings_among(self, other: IncompletePoints) -> Surroundings:
        """How each record lies among those of another file and of its own."""
        first = np.zeros(len(self.points), dtype=np.int64)
        own, links = self.links(self, np.arange(len(first))), self.links(other, first)
        around = nearest_known(self.points, self.known, self.points, self.extra, first, elsewhere=True)
        even = is_tied(links.distance, around.distance)
        share = np.where(even, links.counts / (links.counts + around.counts), links.distance < around.distance)
        return Surroundings(own.counts, np.where(is_tied(links.distance, 0.0), links.counts, 0), share)


class Space:
    """Known columns as coordinates in which Euclidean distance is the wanted distance."""

    def __init__(self, who: str, distance: str, original: pd.DataFrame) -> None:
        self.who, self.distance, self.original = who, distance, original
        self.numbers = [
            c
            for c in original.columns
            if frames.is_number(original[c]) and not pd.api.types.is_bool_dtype(original[c].dtype)
        ]
        self.times = [c for c in original.columns if frames.is_time(original[c])]
        self.categories = [c for c in original.columns if c not in self.numbers and c not in self.times]
        if distance == "mahalanobis" and self.categories:
            named = f"categories in {', '.join(str(c) for c in self.categories)}"
            do = 'Use distance="standardised", or leave them out with known=[...]'
            raise UnsupportedError("Mahalanobis distance needs numeric columns", named, do)
        unordered = [
            c
            for c in self.categories
            if not getattr(original[c].dtype, "ordered", False) and not pd.api.types.is_bool_dtype(original[c].dtype)
        ]
        if distance == "rank" and unordered:
            named = f"unordered categories in {', '.join(str(c) for c in unordered)}"
            do = 'Use distance="standardised", or make them ordered categoricals'
            raise UnsupportedError("Rank distance needs columns with an order", named, do)
        self._map = self._matrix_to_coordinates()
        self._tree: BoxTree | None = None
        self._left: Array | None = None

    @property
    def tree(self) -> BoxTree:
        """The originals' tree; built once, whatever the number of releases."""
        if self._tree is None:
            assert self._left is not None
            self._tree = tree_of_points(self._left)
        return self._tree

    def incomplete_points(
        self, known: pd.DataFrame | None, released: pd.DataFrame
    ) -> tuple[IncompletePoints, IncompletePoints] | None:
        """Both files with their gaps; None if nothing is missing in either.

        **Pairwise**: a record that asks is compared on the columns that it knows. Where the other record does not know
        one, the squared distance is the mean over the original's values: that to their mean, plus their variance (1 for
        standardised columns and for categories alike).
        """
        left = self.original if known is None else known
        if frames.missing_rows(left) is None and frames.missing_rows(released) is None:
            return None
        if self.distance == "mahalanobis":
            what = f"{self.who} has no pairwise rule for Mahalanobis distances"
            raise UnsupportedError(what, "missing values", 'Write missing="impute" or distance="standardised"')
        sides: tuple[list[Array], list[Array]] = ([], [])
        extra = []
        for label in left.columns:
            blocks, spread = self._column_coordinates(label, left[label], released[label])
            for side, block in zip(sides, blocks, strict=True):
                side.append(block)
            extra += [spread] + [0.0] * (blocks[0].shape[1] - 1) if blocks[0].shape[1] else []
        points = [np.concatenate(side, axis=1) for side in sides]
        there = [~np.isnan(side) for side in points]
        middle = np.where(there[0], points[0], 0.0).sum(axis=0) / np.maximum(there[0].sum(axis=0), 1)
        first, second = (
            IncompletePoints(np.where(t, p, middle), t, np.where(t, 0.0, extra))
            for p, t in zip(points, there, strict=True)
        )
        return first, second

    def _column_coordinates(
        self, label: Hashable, left: pd.Series, right: pd.Series
    ) -> tuple[tuple[Array, Array], float]:
        """Coordinates of one column in both files, NaN where it is missing, and its variance in the original."""
        if label in self.categories and self.distance != "rank":
            blocks = self._category_coordinates(label, left, right)
            for block, column in zip(blocks, (left, right), strict=True):
                block[column.isna().to_numpy(dtype=bool)] = np.nan
            return blocks, 1.0
        values = [
            self._ordered_or_missing(label, c, which) for c, which in ((left, "the original"), (right, "the release"))
        ]
        own = self._ordered_or_missing(label, self.original[label], "the original")
        spread = float(frames.standard_deviations(own[~np.isnan(own)])) if np.isfinite(own).any() else 0.0
        if spread == 0:
            return (np.zeros((len(left), 0)), np.zeros((len(right), 0))), 0.0
        if self.distance == "rank":
            ranks = [rankdata(v, nan_policy="omit") / max(int(np.isfinite(v).sum()), 1) for v in values]
            return (ranks[0][:, None], ranks[1][:, None]), 1 / 12
        with np.errstate(over="ignore"):
            return (values[0][:, None] / spread, self._near_enough(values[1][:, None] / spread)), 1.0

    def _ordered_or_missing(self, label: Hashable, column: pd.Series, which: str) -> Array:
        """A column with an order as numbers, NaN where it is missing."""
        if isinstance(column.dtype, pd.CategoricalDtype):
            codes = column.cat.codes.to_numpy().astype(np.float64)
            return np.where(codes < 0, np.nan, codes)
        return frames.offsets_with_nan(self.who, column, self.original[label], which)

    def coordinates(self, known: pd.DataFrame | None, released: pd.DataFrame) -> tuple[Array, Array, bool]:
        """Coordinates of the intruder's file and of the release; True if the former depend on the original alone."""
        for label in self.original.columns:
            frames.refuse_mixed(self.who, self.original[label], released[label])
        left = self.original if known is None else known
        if self.distance == "rank":
            return self._rank_coordinates(left), self._rank_coordinates(released), False
        if known is None and not self.categories:
            # The coordinates of the originals are the same for every release, and so is their tree.
            if self._left is None:
                self._left = self._numeric_coordinates(left)
            return self._left, self._numeric_coordinates(released), self._left.shape[1] > 0
        blocks = [(self._numeric_coordinates(left), self._numeric_coordinates(released))]
        blocks += [self._category_coordinates(label, left[label], released[label]) for label in self.categories]
        both = [np.concatenate(side, axis=1) for side in zip(*blocks, strict=True)]
        return both[0], both[1], False

    def _matrix_to_coordinates(self) -> Array | None:
        """Matrix that turns numeric columns into coordinates; None for ranks."""
        if self.distance == "rank" or frames.missing_rows(self.original) is not None:
            return None  # ranks need none, and files with gaps are scaled column by column
        values = self._numeric_part(self.original)
        if len(values) < 2:
            return np.zeros((values.shape[1], 0))
        # A column of equal numbers may have a standard deviation of rounding size.
        size = np.ptp(values, axis=0)
        frames.refuse_vanishing(self.who, "the original", self.numbers + self.times, size > 0, size)
        live = np.flatnonzero(size > 0)
        scale = np.zeros((values.shape[1], len(live)))
        # Divided by their range first: squares of tiny numbers would vanish.
        ranged = values[:, live] / size[live]
        scale[live, np.arange(len(live))] = 1.0 / ranged.std(axis=0, ddof=1) / size[live]
        if self.distance == "standardised" or len(live) == 0:
            return scale
        correlation = np.corrcoef(ranged, rowvar=False).reshape(len(live), len(live))
        root, vectors = np.linalg.eigh(correlation)
        if root[0] <= 1e-12 * len(live):
            names = [str((self.numbers + self.times)[live[j]]) for j in np.flatnonzero(np.abs(vectors[:, 0]) > 1e-6)]
            raise InputError(
                "Mahalanobis distance needs columns that are no linear function of one another",
                f"collinear {', '.join(names)} in {len(values)} records",
                'Leave one of them out with known=[...], or use distance="standardised"',
            )
        return scale @ (vectors / np.sqrt(root))

    def _numeric_part(self, table: pd.DataFrame) -> Array:
        which = "the original" if table is self.original else "the release"
        part = np.zeros((len(table), 0))
        if self.numbers:
            part = frames.offsets_from_minimum(self.who, table[self.numbers], self.original[self.numbers], which)
        if not self.times:
            return part
        return np.concatenate(
            [part, *(frames.seconds_since_first(table[c], self.original[c])[:, None] for c in self.times)], axis=1
        )

    def _numeric_coordinates(self, table: pd.DataFrame) -> Array:
        values, matrix = self._numeric_part(table), self._map
        assert matrix is not None
        with np.errstate(over="ignore", invalid="ignore"):
            if self.distance == "standardised":
                live = np.flatnonzero(matrix.any(axis=1))
                return self._near_enough(values[:, live] * matrix.sum(axis=1)[live])
            return self._near_enough(values @ matrix)

    def _near_enough(self, points: Array) -> Array:
        """The coordinates, which have squares: a release may be beyond all bounds in the original's units."""
        if points.size and not np.nanmax(np.abs(points), initial=0.0) < frames.LARGE:
            got = "values more than 1e140 of the original's standard deviations away"
            raise InputError(
                f"{self.who} needs releases that can be compared with the original", got, "Check the units"
            )
        return points

    def _category_coordinates(self, label: Hashable, left: pd.Series, right: pd.Series) -> tuple[Array, Array]:
        """One coordinate per category; a mismatch costs 2 / (1 - sum p^2), with mean 2 over two random originals."""
        column = self.original[label]
        codes, base = frames.factorise(column)
        shares = np.bincount(codes[codes >= 0], minlength=len(base)) / max(int(np.sum(codes >= 0)), 1)
        differ = 1.0 - float(shares @ shares)
        if differ <= 0:
            return np.zeros((len(left), 0)), np.zeros((len(right), 0))
        levels = base.plus(right)
        height = 1.0 / np.sqrt(differ)
        a, b = ((levels.codes(c)[:, None] == np.arange(len(levels))) * height for c in (left, right))
        return a, b

    def _rank_coordinates(self, table: pd.DataFrame) -> Array:
        kept = []
        for label in table.columns:
            column = self.original[label]
            if column.nunique() < 2:
                continue
            kept.append(rankdata(self._ordered_values(label, table[label])) / len(table))
        return np.stack(kept, axis=1) if kept else np.zeros((len(table), 0))

    def _ordered_values(self, label: Hashable, column: pd.Series) -> Array:
        """A column with an order as numbers."""
        if label in self.times:
            return frames.seconds_since_first(column, self.original[label])
        if isinstance(column.dtype, pd.CategoricalDtype):
            return column.cat.codes.to_numpy()
        return frames.offsets_from_minimum(self.who, column.to_frame(), self.original[[label]])[:, 0]


def tree_of_points(points: Array) -> BoxTree:
    """A tree over the different points, each with its number of records."""
    different, kinds = distinct_points(points)
    return BoxTree.of(different, None if kinds is None else np.bincount(kinds).astype(np.float64))


def distinct_points(points: Array) -> tuple[Array, frames.Ints | None]:
    """The different points and which of them each record is at, where they are few; otherwise all points and None.

    Files of categories repeat a few points, and a search that met each record would take time n^2.
    """
    n = len(points)
    if n > 64 and all(len(np.unique(column)) <= n // 16 for column in points.T):
        different, kinds = np.unique(points, axis=0, return_inverse=True)
        return different, kinds.reshape(-1)
    return points, None
