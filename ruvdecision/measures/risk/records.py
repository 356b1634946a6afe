"""Risk measures that follow records: which released row belongs to which original, and a risk for each record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from ...errors import InputError
from ...masks.frame import Frame
from ...protocols import Array
from .. import frames
from ..base import Measure, Prepared
from ..frames import Data, Ints


@dataclass(frozen=True, repr=False)
class RecordMeasure(Measure):
    """A risk that has a value for every record, too."""

    role: ClassVar[str] = "risk"

    @property
    def follows(self) -> str:
        """Whose rows `per_record` speaks about: "released" or "original"."""
        return "released"

    def per_record(self, original: Data, released: Data) -> Array:
        """One number per row of the file that the measure follows, NaN for rows without one. Confidential.

        Rows that were left out for missing values have none, nor have rows without a partner in the other file.
        """
        prepared = self.prepare(original)
        found = prepared(released).records
        assert found is not None
        records = np.asarray(found, dtype=np.float64)
        if self.missing != "omit":
            return records
        followed = prepared.original if self.follows == "original" else prepared.columns.of(Frame.of(released))
        missing = frames.missing_rows(followed)
        return records if missing is None else _placed(records, np.flatnonzero(~missing), len(followed))


@dataclass(frozen=True, repr=False)
class PairedMeasure(RecordMeasure):
    """A measure that knows the true pairs.

    Files of equal length are paired by position. A shorter release (a subsample) is paired by its row labels, which
    must then be unique and occur in the original. `begin` and `compare` see tables whose row labels are the positions
    in the original, so that rows left out for missing values do not break the pairs.
    """

    def prepare(self, original: Data) -> Prepared:
        """Do once what depends on the original alone."""
        return _Paired(self, original)


class _Paired(Prepared):
    """A prepared measure that renames the rows of both files to positions in the original."""

    def arranged(self, frame: Frame) -> pd.DataFrame:
        return frame.table.set_axis(self._places(frame), axis=0)

    def _places(self, frame: Frame) -> pd.Index:
        n, m = len(self.labels), frame.n
        if n == m:
            return pd.RangeIndex(n)
        who, index = self.measure.name, frame.table.index
        sizes = f"{n} rows in the original and {m} in the release"
        do = "Set the respondents' key as the index of both files"
        if m > n:
            what = f"{who} pairs records and cannot take a release with more rows than the original"
            raise InputError(what, sizes, "Release each record at most once")
        if not (self.labels.is_unique and index.is_unique):
            raise InputError(f"{who} needs unique row labels to pair files of different lengths", sizes, do)
        places = self.labels.get_indexer(index)
        # Labels 0 to m - 1 are what a file has that was read without a key; they say nothing about who is who.
        unkeyed = isinstance(index, pd.RangeIndex) and index.equals(pd.RangeIndex(m))
        if unkeyed or (places < 0).any():
            raise InputError(f"{who} cannot tell whose rows were released", sizes, do)
        return pd.Index(places)


@dataclass(frozen=True, eq=False)
class RecordPairs:
    """Which rows of two tables, labelled by position in the original, belong together."""

    original: Ints
    released: Ints
    rows: tuple[int, int]
    """How many rows each table has."""

    @classmethod
    def of(cls, who: str, original: pd.DataFrame, released: pd.DataFrame) -> RecordPairs:
        """Rows with the same label; those that only one table has are in no pair."""
        rows = len(original), len(released)
        if original.index.equals(released.index):
            both = np.arange(len(original))
            return cls(both, both, rows)
        where = original.index.get_indexer(released.index)
        kept = np.flatnonzero(where >= 0)
        if len(kept) == 0:
            raise frames.no_row(who, "no complete pair")
        return cls(where[kept].astype(np.int64), kept, rows)

    def along_original(self, risk: Array) -> Array:
        """One entry per original, NaN for those without a partner."""
        return _placed(risk, self.original, self.rows[0])

    def along_released(self, risk: Array) -> Array:
        """One entry per released record, NaN for those without a partner."""
        return _placed(risk, self.released, self.rows[1])


def _placed(values: Array, where: Ints, size: int) -> Array:
    records = np.full(size, np.nan)
    records[where] = values
    return records
