"""Risk measures that follow records: which released row belongs to which original, and a risk for each record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import InputError
from ...masks.frame import Frame
from ...protocols import Array
from .. import frames
from ..base import Measure, Prepared

__all__ = ["PairedMeasure", "Pairs", "RecordMeasure"]


@dataclass(frozen=True, repr=False)
class RecordMeasure(Measure):
    """A risk that has a value for every record, too."""

    role: ClassVar[str] = "risk"

    @property
    def follows(self) -> str:
        """Whose rows `per_record` speaks about: "released" or "original"."""
        return "released"

    def per_record(self, original: Any, released: Any) -> Array:
        """One number per row of the file that the measure follows, NaN for rows without one. Confidential.

        Rows that were left out for missing values have none, nor have rows without a partner in the other file.
        """
        found = self(original, released).records
        assert found is not None
        records = np.asarray(found, dtype=np.float64)
        if self.nan_policy != "omit":
            return records
        first = Frame.of(original).table
        used = self.uses(first)
        table = first if used is None else first[used]
        if self.follows == "released":
            table = frames.align(self.name, table, Frame.of(released), used, list(first.columns))
        missing = frames.missing_rows(table)
        if missing is None:
            return records
        full = np.full(len(table), np.nan)
        full[~missing] = records
        return full


@dataclass(frozen=True, repr=False)
class PairedMeasure(RecordMeasure):
    """A measure that knows the true pairs.

    Files of equal length are paired by position. A shorter release (a subsample) is paired by its row labels, which
    must then be unique and occur in the original. `begin` and `compare` see tables whose row labels are the positions
    in the original, so that rows left out for missing values do not break the pairs.
    """

    def prepare(self, original: Any) -> Prepared:
        """Do once what depends on the original alone."""
        frame = Frame.of(original)
        plain = frame.table.reset_index(drop=True)
        used = self.uses(plain)
        return _Paired(self, plain if used is None else plain[used], used, list(plain.columns), frame.table.index)


class _Paired(Prepared):
    """A prepared measure that renames the rows of a release to positions in the original."""

    def __init__(
        self, measure: Measure, original: pd.DataFrame, used: list[Any] | None, every: list[Any], labels: pd.Index
    ) -> None:
        self.labels = labels
        super().__init__(measure, original, used, every)

    def __call__(self, released: Any) -> Any:
        frame = Frame.of(released)
        places = self._places(frame)
        return super().__call__(replace(frame, table=frame.table.set_axis(places, axis=0)))

    def _places(self, frame: Frame) -> pd.Index:
        n, m = len(self.labels), frame.n
        if n == m:
            return pd.RangeIndex(n)
        who = self.measure.name
        sizes = f"{n} rows in the original and {m} in the release"
        if m > n:
            raise InputError(
                f"{who} pairs records and cannot take a release with more rows than the original",
                sizes,
                "Release each record at most once",
            )
        if not (self.labels.is_unique and frame.table.index.is_unique):
            raise InputError(
                f"{who} needs unique row labels to pair files of different lengths",
                sizes,
                "Set the respondents' key as the index of both files",
            )
        places = self.labels.get_indexer(frame.table.index)
        if (places < 0).any() or (
            isinstance(frame.table.index, pd.RangeIndex) and frame.table.index.equals(pd.RangeIndex(m))
        ):
            # Labels 0 to m - 1 are what a file has that was read without a key; they say nothing about who is who.
            raise InputError(
                f"{who} cannot tell whose rows were released",
                sizes,
                "Set the respondents' key as the index of both files",
            )
        return pd.Index(places)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Which rows of two tables, labelled by position in the original, belong together."""

    original: NDArray[np.int64]
    released: NDArray[np.int64]

    @classmethod
    def of(cls, original: pd.DataFrame, released: pd.DataFrame) -> Pairs:
        """Rows with the same label; those that only one table has are in no pair."""
        if original.index.equals(released.index):
            both = np.arange(len(original))
            return cls(both, both)
        where = original.index.get_indexer(released.index)
        kept = np.flatnonzero(where >= 0)
        return cls(where[kept].astype(np.int64), kept)
