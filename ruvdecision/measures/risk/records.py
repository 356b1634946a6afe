"""Risk measures that follow records: which released row belongs to which original, and a risk for each record."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from ...data.read import is_path, read_data
from ...errors import InputError, UnsupportedError, kind_of
from ...masks.frame import Frame
from ...protocols import Array
from .. import frames
from ..base import Measure, Measured, Prepared, WeightedMeasure
from ..frames import Data, Flags, Ints


@dataclass(frozen=True, repr=False, eq=False)
class OtherFile:
    """A file beside original and release that a measure is given: a holdout, a population. Shown by its size alone."""

    frame: Frame

    @classmethod
    def of(cls, name: str, data: Any) -> OtherFile:
        """Data of any kind, or the file that a path names."""
        if isinstance(data, OtherFile):
            return data
        if not isinstance(data, (pd.DataFrame, pd.Series, np.ndarray, list, tuple, str, Path, Frame)):
            raise InputError(f"{name} must be a file of records", kind_of(data), f"Give {name} as a DataFrame or path")
        return cls(Frame.of(read_data(data) if is_path(data) else data))

    def table(self, who: str, name: str, columns: frames.Labels) -> pd.DataFrame:
        """The named columns, which must be there."""
        frame = self.frame
        if frame.kind != "frame" and frame.table.shape[1] == len(columns):
            return frame.table.set_axis(columns, axis=1)
        lost = [str(c) for c in columns if c not in frame.table.columns]
        if lost:
            raise InputError(f"{who} needs the same columns in {name}", f"not there: {', '.join(lost)}", "Add them")
        return frame.table[columns]

    def part(self, column: Hashable, levels: frames.ColumnCategories, name: str) -> OtherFile:
        """The records of one group; all where the file does not have the column."""
        table = self.frame.table
        if column not in table.columns:
            return self
        own = frames.group_names(levels, table[column]) == name
        return OtherFile(Frame(table[own] if own.any() else table, self.frame.kind))

    def with_missing_handled(self, who: str, name: str, columns: frames.Labels, missing: str) -> pd.DataFrame:
        """The same with missing values refused, or rows with one left out, where the measure does so."""
        table = self.table(who, name, columns)
        incomplete = frames.missing_rows(table)
        if missing == "raise":
            frames.refuse_missing(who, name, table, incomplete)
        if missing != "omit" or incomplete is None:
            return table
        if incomplete.all():
            raise frames.no_row_error(who, f"{len(table)} rows of {name}, each with a missing value")
        return table[~incomplete]

    def __repr__(self) -> str:
        return f"{self.frame.n:,} records"


@dataclass(frozen=True, repr=False)
class RecordMeasure(Measure):
    """A risk that has a value for every record, too."""

    role: ClassVar[str] = "risk"

    def per_record(self, original: Data, released: Data) -> Array:
        """One number per row of the file that the measure follows, NaN for rows without one. Confidential.

        Rows that were left out for missing values have none, nor have rows without a partner in the other file.
        """
        records = np.asarray(self(original, released).records, dtype=np.float64)
        if self.missing != "omit":
            return records
        prepared = self.prepare(original)
        followed = prepared.original if self.per_record_file == "original" else prepared.columns_used_of(released)
        missing = frames.missing_rows(followed)
        return records if missing is None else _place_in_file(records, np.flatnonzero(~missing), len(followed))


@dataclass(frozen=True, repr=False)
class AveragedMeasure(RecordMeasure, WeightedMeasure):
    """A risk that is the mean over records; with weights the mean over those of the population they stand for."""

    weighs_records: ClassVar[bool] = True

    def weigh(self, found: Measured, weights: Array) -> Measured:
        """The weighted mean of the records' risks, and its standard error if the plain mean has one."""
        there = np.zeros(0, dtype=bool) if found.records is None else ~np.isnan(found.records)
        risk = np.zeros(0) if found.records is None else found.records[there]
        if not there.any() or not np.isclose(risk.mean(), float(found), rtol=1e-9, atol=1e-12):
            what = f"{self.name} is no mean over records, so it cannot be weighted"
            raise UnsupportedError(what, f"weights={self.weights!r}", "Leave weights= out")
        share = frames.shares(weights[there], 0)
        value = float(share @ risk)
        wide, plain = (
            float(np.sqrt(np.square(w * (risk - mean)).sum()))
            for w, mean in ((share, value), (np.full(len(risk), 1.0 / len(risk)), float(found)))
        )
        error = found.error * wide / plain if plain > 0 else found.error
        return Measured(value, error, found.parts | {"unweighted": float(found)}, found.table, found.records)


@dataclass(frozen=True, repr=False)
class PairedMeasure(AveragedMeasure):
    """A measure that knows the true pairs.

    Files of equal length are paired by position. A release of another length is paired by its row labels, which must
    occur in the original; where released records look for their originals (`per_record_file`) several may have the
    same label, as in a file with more rows than the original. `begin` and `compare` see tables whose row labels are the
    positions in the original, so that rows left out for missing values do not break the pairs.
    """

    pairs: ClassVar[str] = "needed"
    """Whether a release of another length must be paired by its labels.

    "needed", "wanted" if it has some of the original's labels, or "optional". A row that is nobody's has a label below
    zero.
    """
    needs_pairs: ClassVar[str] = "one_to_one"
    """The option with which pairs that are wanted are needed."""

    def prepared(self, original: Data) -> Prepared:
        """Do once what depends on the original alone."""
        return _Paired(self, original)


class _Paired(Prepared):
    """A prepared measure that renames the rows of both files to positions in the original."""

    measure: PairedMeasure

    def __init__(self, measure: PairedMeasure, original: Data) -> None:
        super().__init__(measure, original)
        self.paired = bool(getattr(measure, "paired", True))

    def with_paired_rows(self, frame: Frame) -> Frame:
        return replace(frame, table=frame.table.set_axis(self._positions_of_pairs(frame), axis=0))

    def _positions_of_pairs(self, frame: Frame) -> pd.Index:
        n, m = len(self.labels), frame.n
        who, index, measure = self.measure.name, frame.table.index, self.measure
        if n == m and not index.equals(pd.RangeIndex(-m, 0)):
            return pd.RangeIndex(n)
        option = measure.needs_pairs if getattr(measure, measure.needs_pairs, False) else ""
        several = measure.per_record_file == "released" and option != "one_to_one"
        places = self.labels.get_indexer(index) if self.labels.is_unique and (several or index.is_unique) else None
        # Labels 0 to m - 1 are what a file has that was read without a key; they say nothing about who is who.
        unkeyed = isinstance(index, pd.RangeIndex) and index.equals(pd.RangeIndex(m))
        if places is not None and not unkeyed and (places >= 0).all() and (several or m < n):
            return pd.Index(places)
        labelled = not unkeyed and bool(index.isin(self.labels).any())
        if measure.pairs == "optional" or (measure.pairs == "wanted" and not option and not labelled):
            return pd.RangeIndex(-m, 0)
        sizes = f"{n} rows in the original and {m} in the release"
        instead = "or measure linkage, linkability or disclosure instead"
        do = f"Set the respondents' key as the index of both files, {instead}"
        what = "cannot tell whose rows were released"
        if option:
            do = f"Set the respondents' key as the index of both files, or write {option}=False, which needs no pairs"
        if m > n and not several:
            what = "looks for each original's own record and cannot take more rows than the original has"
            do = f"Release each record at most once, {instead}"
        elif places is None:
            what = "needs unique row labels to pair files of different lengths"
        raise frames.PairingError(f"{who} {what}", sizes, do)


@dataclass(frozen=True, eq=False)
class RecordPairs:
    """Which rows of two tables, labelled by position in the original, belong together."""

    original: Ints
    released: Ints
    rows: tuple[int, int]
    """How many rows each table has."""

    @classmethod
    def of(cls, who: str, original: pd.DataFrame, released: pd.DataFrame, alone: bool = False) -> RecordPairs:
        """Rows with the same label; those that only one table has are in no pair.

        With ``alone`` all originals count where no label is the same; their partner is then any row.
        """
        rows = len(original), len(released)
        if original.index.equals(released.index):
            both = np.arange(len(original))
            return cls(both, both, rows)
        where = original.index.get_indexer(released.index)
        kept = np.flatnonzero(where >= 0)
        if alone and len(kept) == 0 and len(original) and len(released):
            return cls(np.arange(len(original)), np.zeros(len(original), dtype=np.int64), rows)
        if len(kept) == 0:
            raise frames.no_row_error(who, "no complete pair")
        return cls(where[kept].astype(np.int64), kept, rows)

    def with_known_originals(self, who: str, known: Flags) -> RecordPairs:
        """The pairs whose original is among these."""
        if known.all():
            return self
        kept = known[self.original]
        if not kept.any():
            raise frames.no_row_error(who, "no pair whose original is known")
        return RecordPairs(self.original[kept], self.released[kept], self.rows)

    def along_original(self, risk: Array) -> Array:
        """One entry per original, NaN for those without a partner."""
        return _place_in_file(risk, self.original, self.rows[0])

    def along_released(self, risk: Array) -> Array:
        """One entry per released record, NaN for those without a partner."""
        return _place_in_file(risk, self.released, self.rows[1])


class RiskWithoutPairs(NamedTuple):
    """The risk of each row of a file whose owners nobody knows, the standard error of its mean, and what made it."""

    risk: Array
    error: float
    parts: dict[str, float]


def risk_without_pairs(
    copy: Flags, found: Array, share: Array, chance: Array | float, chance_error: float = 0.0
) -> RiskWithoutPairs:
    """What links are worth where no row is known to be anybody's: beyond what another sample would show.

    A row that is a ``copy`` of somebody is ``found`` with a probability of its own. Of the others, ``share`` look like
    somebody's; of another sample from the same population ``chance`` would. So (share - chance) / (1 - chance) of them
    must be somebody's, those that look like it; none if there are fewer than chance has it.
    """
    risk, parts, error = np.where(copy, found, 0.0), {"copies": float(copy.mean())}, 0.0
    share, usual = share[~copy], np.broadcast_to(chance, copy.shape)[~copy]
    if len(share):
        room = float(np.mean(1.0 - usual))
        excess = max(float(np.mean(share - usual)) / room, 0.0) if room > 0 else 0.0
        risk[~copy] = excess * share / max(float(share.mean()), np.finfo(float).tiny)
        if room > 0:
            over_rows = float(np.std((share - usual) / room)) * np.sqrt(len(share)) / len(copy)
            error = float(np.hypot(over_rows, chance_error / room * len(share) / len(copy)))
        parts |= {"nearer": float(share.mean()), "chance": float(usual.mean())}
    return RiskWithoutPairs(risk, error, parts)


def are_nobodys(released: pd.DataFrame) -> bool:
    """Whether no row of a release is known to be anybody's: `PairedMeasure` labels such rows below zero."""
    return len(released) > 0 and bool((released.index < 0).all())


def excess_over_holdout(value: float, baseline: float) -> dict[str, float]:
    """What an attack on people outside the file achieves, and how much more that on those inside does."""
    return {"holdout": baseline, "excess": (value - baseline) / (1.0 - baseline) if baseline < 1 else 0.0}


def _place_in_file(values: Array, where: Ints, size: int) -> Array:
    records = np.full(size, np.nan)
    records[where] = values
    return records
