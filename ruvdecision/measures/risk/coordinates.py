"""Known columns as coordinates in which Euclidean distance is the distance that an intruder uses."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import pandas as pd

from ...errors import InputError, UnsupportedError
from ...masks.columns import has_order, is_categorical
from ...numerics.semidefinite import range_root
from ...protocols import Array
from .. import frames
from .incomplete import IncompleteColumn, IncompleteRecords
from .neighbours import BoxTree, distinct_points


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
        unordered = [c for c in self.categories if not has_order(original[c])]
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

    def incomplete_records(
        self, known: pd.DataFrame | None, released: pd.DataFrame
    ) -> tuple[IncompleteRecords, IncompleteRecords] | None:
        """Both files with their gaps; None if nothing is missing in either."""
        left = self.original if known is None else known
        if frames.missing_rows(left) is None and frames.missing_rows(released) is None:
            return None
        if self.distance == "mahalanobis":
            what = f"{self.who} has no pairwise rule for Mahalanobis distances"
            raise UnsupportedError(what, "missing values", 'Write missing="impute" or distance="standardised"')
        found = [self._incomplete_column(c, left[c], released[c]) for c in left.columns]
        columns = [c for c in found if c is not None]
        return IncompleteRecords.of(columns, 0, len(left)), IncompleteRecords.of(columns, 1, len(released))

    def _incomplete_column(self, label: Hashable, left: pd.Series, right: pd.Series) -> IncompleteColumn | None:
        """A column of both files; None if it tells no originals apart."""
        if label in self.categories and self.distance != "rank":
            levels, share = self._category_shares(label)
            differ = 1.0 - float(share @ share)
            if differ <= 0:
                return None
            levels = levels.plus(right)
            share = np.append(share, np.zeros(len(levels) + 1 - len(share)))
            codes = [levels.codes(c) for c in (left, right)]
            # Of the originals 1 - share have another category.
            blank = [2.0 * (1.0 - share[c]) / differ for c in codes]
            return IncompleteColumn([np.where(c < 0, np.nan, c) for c in codes], blank, 2.0 / differ, -1.0)
        own, *values = (
            self._ordered_or_missing(label, c, which)
            for c, which in ((self.original[label], "the original"), (left, "the original"), (right, "the release"))
        )
        own = own[~np.isnan(own)]
        sd = float(frames.standard_deviations(own)) if len(own) else 0.0
        if sd == 0:
            return None
        if self.distance == "rank":
            own, first, second = (
                pd.Series(v).rank().to_numpy() / max(int(np.isfinite(v).sum()), 1) for v in (own, *values)
            )
        else:
            with np.errstate(over="ignore"):
                own, first, second = own / sd, values[0] / sd, frames.near_enough(self.who, values[1] / sd)
        middle, variance = float(own.mean()), float(own.var())
        blank = [(v - middle) ** 2 + variance for v in (first, second)]
        return IncompleteColumn([first, second], blank, 0.0, middle)

    def _ordered_or_missing(self, label: Hashable, column: pd.Series, which: str) -> Array:
        """A column with an order as numbers, NaN where it is missing."""
        if is_categorical(column):
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
        whitening = range_root(correlation, np.ones(len(live)), 1e-12)[1]
        if len(whitening) < len(live):
            vector = np.linalg.eigh(correlation)[1][:, 0]
            names = [str((self.numbers + self.times)[live[j]]) for j in np.flatnonzero(np.abs(vector) > 1e-6)]
            raise InputError(
                "Mahalanobis distance needs columns that are no linear function of one another",
                f"collinear {', '.join(names)} in {len(values)} records",
                'Leave one of them out with known=[...], or use distance="standardised"',
            )
        return scale @ whitening.T

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
                return frames.near_enough(self.who, values[:, live] * matrix.sum(axis=1)[live])
            return frames.near_enough(self.who, values @ matrix)

    def _category_coordinates(self, label: Hashable, left: pd.Series, right: pd.Series) -> tuple[Array, Array]:
        """One coordinate per category; a mismatch costs 2 / (1 - sum p^2), with mean 2 over two random originals."""
        base, shares = self._category_shares(label)
        differ = 1.0 - float(shares @ shares)
        if differ <= 0:
            return np.zeros((len(left), 0)), np.zeros((len(right), 0))
        levels = base.plus(right)
        height = 1.0 / np.sqrt(differ)
        a, b = ((levels.codes(c)[:, None] == np.arange(len(levels))) * height for c in (left, right))
        return a, b

    def _category_shares(self, label: Hashable) -> tuple[frames.ColumnCategories, Array]:
        """The categories of a column of the original and their shares of the values that are known."""
        codes, base = frames.factorise(self.original[label])
        known = codes[codes >= 0]
        return base, np.bincount(known, minlength=len(base)) / max(len(known), 1)

    def _rank_coordinates(self, table: pd.DataFrame) -> Array:
        varying = [label for label in table.columns if self.original[label].nunique() > 1]
        kept = [
            pd.Series(self._ordered_or_missing(c, table[c], "the original")).rank().to_numpy() / len(table)
            for c in varying
        ]
        return np.stack(kept, axis=1) if kept else np.zeros((len(table), 0))


def tree_of_points(points: Array) -> BoxTree:
    """A tree over the different points, each with its number of records."""
    different, kinds = distinct_points(points)
    return BoxTree.of(different, None if kinds is None else np.bincount(kinds).astype(np.float64))
