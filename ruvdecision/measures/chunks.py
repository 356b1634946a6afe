"""Measures of files that are larger than memory: read in pieces, where a measure is made of sums over records.

A measure says what must be known of the files beforehand (`survey`), which sums it needs of a piece (`partial`) and
what follows from the sums of both files (`total`). The numbers are those of whole files to rounding.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..checks import suggest
from ..data.chunks import Pieces
from ..data.read import file_digest
from ..errors import InputError, UnsupportedError, kind_of
from ..masks.frame import Frame
from ..running.run import Task, run
from . import frames
from .base import Measure, Measured
from .match import about, is_copies
from .results import Findings, Outcome
from .risk.uniqueness import KeyMeasure
from .sums import add

__all__ = ["ChunkedComparison"]


class ChunkedComparison(Findings):
    """Measures with the original's sums taken, for releases that are read in pieces.

    Parameters
    ----------
    measures : list of measures
        Each made of sums over records; others are refused by name.
    data : path, DataFrame or array
        The original.
    key : column name, optional
        A column that is no variable. Rows are not reordered by it: files in pieces must have their rows in the same
        order where a measure compares record by record.
    chunksize : int
        Records per piece.
    """

    def __init__(self, measures: Any, data: Any, key: Any, chunksize: int) -> None:
        super().__init__(measures)
        self.key, self.size = key, chunksize
        foreign = [m.name for m in self.measures if not isinstance(m, Measure) or type(m).partial is Measure.partial]
        if foreign:
            raise UnsupportedError(
                f"{', '.join(foreign)} cannot read files in pieces, being no sum over records",
                do="Leave chunksize= out, or leave these measures out",
            )
        self.original = _source(data, key, chunksize, "the original")
        if key is not None and any(m.matched for m in self.measures):
            named = ", ".join(m.name for m in self.measures if m.matched)
            what = f"{named} compares record by record, and files in pieces are not put in order by key={key!r}"
            raise UnsupportedError(what, do="Sort the files, and leave key= out")

    def apply(
        self,
        masks: Sequence[Any],
        releases: Mapping[str, Any],
        executor: Executor | None = None,
        tell: Callable[[float], Any] | None = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> bool:
        """Measure releases that were made elsewhere; True if Ctrl-C came before the end."""
        if masks:
            raise UnsupportedError(
                "Masks look at all records at once, so they cannot be applied to files in pieces",
                str(masks[0]),
                "Release the files first and give them as releases={...}, or leave chunksize= out",
            )
        sources = {}
        for name, item in releases.items():
            with about(name):
                sources[name] = [
                    _source(part, self.key, self.size, "the release") for part in (item if is_copies(item) else [item])
                ]
        head = next(iter(self.original))
        columns = [_Columns.of(m, head) for m in self.measures]
        shared = _Shared(self.measures, columns, self.original)
        if any(not m.matched for m in self.measures):
            shared = shared.begun()
        tasks = [Task(f"release {name}", _compare, (name, parts)) for name, parts in sources.items()]

        def parts() -> dict[str, Any]:
            content = {name: [part.content() for part in item] for name, item in sources.items()}
            return {
                "data": self.original.content(),
                "measures": self.measures,
                "releases": content,
                "key": self.key,
                "chunksize": self.size,
            }

        results, interrupted = run(
            tasks, shared=shared, executor=executor, checkpoint=checkpoint, fingerprint=parts, tell=tell
        )
        self.found += [[[Outcome(*o) for o in copy] for copy in item or []] for item in results]
        self.rows, self.width = shared.rows, head.shape[1]
        return interrupted

    def describe(self) -> dict[str, Any]:
        """What a map's ``attrs`` should say: sizes and settings, no record."""
        count = f"{self.rows} records, " if self.rows else ""
        return {"data": f"{count}{self.width} columns, read {self.size} records at a time", **super().describe()}


@dataclass(frozen=True)
class _Source:
    """A data set in pieces, without its key."""

    pieces: Pieces
    key: Any
    which: str

    def __iter__(self) -> Iterator[pd.DataFrame]:
        for piece in self.pieces:
            if self.key is None:
                yield piece
                continue
            if not isinstance(self.key, Hashable) or self.key not in piece.columns:
                shown = str(self.key) if isinstance(self.key, Hashable) else kind_of(self.key)
                do = suggest(shown, [str(c) for c in piece.columns])
                raise InputError(f"The key is not a column of {self.which}", shown, do)
            yield piece.drop(columns=[self.key])

    def content(self) -> Any:
        source = self.pieces.source
        return source if isinstance(source, pd.DataFrame) else file_digest(source)


@dataclass(frozen=True)
class _Columns:
    """The columns that a measure looks at, by the original's names."""

    used: list[Any] | None
    every: list[Any]
    empty: pd.DataFrame

    @classmethod
    def of(cls, measure: Measure, head: pd.DataFrame) -> _Columns:
        used = measure.uses(head)
        return cls(used, list(head.columns), (head if used is None else head[used]).iloc[:0])

    def take(self, measure: Measure, piece: pd.DataFrame) -> pd.DataFrame:
        return frames.align(measure.name, self.empty, Frame(piece, "frame"), self.used, self.every)


@dataclass(frozen=True)
class _Shared:
    """The measures, with what the original alone gives: surveys, and sums for the plans that follow from it alone."""

    measures: Sequence[Any]
    columns: Sequence[_Columns]
    original: _Source
    surveys: tuple[Any, ...] = ()
    plans: tuple[Any, ...] = ()
    sums: tuple[Any, ...] = ()
    rows: int = 0

    def begun(self) -> _Shared:
        surveys, _ = _pass(
            self, self.original, "the original", lambda m, table, j: m.survey(table), self._needs_survey()
        )
        plans = tuple(m.settle(s, s) if s is not None else None for m, s in zip(self.measures, surveys, strict=True))
        unmatched = [j for j, m in enumerate(self.measures) if not m.matched]
        sums, counts = _pass(
            self,
            self.original,
            "the original",
            lambda m, table, j: m.partial(table, plans[j], "the original"),
            unmatched,
        )
        return _Shared(self.measures, self.columns, self.original, surveys, plans, sums, counts[-1])

    def _needs_survey(self) -> list[int]:
        return [j for j, m in enumerate(self.measures) if not m.matched and type(m).survey is not Measure.survey]


def _compare(shared: _Shared, name: str, parts: Sequence[_Source]) -> list[list[Outcome]]:
    """Measure one release, or each of its copies. Must stay importable: workers look it up by name."""
    with about(name):
        return [[Outcome.of(value) for value in _measure(shared, part)] for part in parts]


def _measure(shared: _Shared, release: _Source) -> list[Measured]:
    measures = shared.measures
    unmatched = [j for j, m in enumerate(measures) if not m.matched]
    found: list[Any] = [None] * len(measures)
    if unmatched:
        needs = shared._needs_survey()
        surveys, _ = _pass(shared, release, "the release", lambda m, table, j: m.survey(table), needs)
        plans = [m.settle(shared.surveys[j], surveys[j]) if j in needs else None for j, m in enumerate(measures)]
        second, counts = _pass(
            shared, release, "the release", lambda m, table, j: m.partial(table, plans[j], "the release"), unmatched
        )
        # Where the release has categories that the original lacks, the original's sums are taken again with room for
        # them.
        other = [j for j in needs if not _same_plan(plans[j], shared.plans[j])]
        again, _ = _pass(
            shared,
            shared.original,
            "the original",
            lambda m, table, j: m.partial(table, plans[j], "the original"),
            other,
        )
        for j in unmatched:
            found[j] = _result(
                measures[j],
                measures[j].total(again[j] if j in other else shared.sums[j], second[j], plans[j]),
                counts[j],
            )
    matched = [j for j, m in enumerate(measures) if m.matched]
    if matched:
        before: list[Any] = [None] * len(measures)
        moved: list[Any] = [None] * len(measures)
        omitted = [0] * len(measures)
        for a, _, j, left_out in _pairs(shared, release, matched):
            before[j] = add(before[j], measures[j].partial(a, None, "the original"))
            omitted[j] += left_out
        _refuse_empty(measures, before, matched)
        for a, b, j, _ in _pairs(shared, release, matched):
            moved[j] = add(moved[j], measures[j].paired(a, b, before[j]))
        for j in matched:
            found[j] = _result(measures[j], measures[j].total(before[j], moved[j], None), omitted[j])
    return found


def _pass(
    shared: _Shared, source: _Source, which: str, each: Callable[[Any, pd.DataFrame, int], Any], chosen: Sequence[int]
) -> tuple[tuple[Any, ...], list[int]]:
    """Read a file once and add up what each chosen measure makes of its pieces; then rows left out by each, and all rows.

    A measure of keys looks at the release alone.
    """
    sums: list[Any] = [None] * len(shared.measures)
    omitted = [0] * (len(shared.measures) + 1)
    left = [0] * len(shared.measures)
    chosen = [j for j in chosen if not (which == "the original" and isinstance(shared.measures[j], KeyMeasure))]
    if not chosen:
        return tuple(sums), omitted
    for piece in source:
        omitted[-1] += len(piece)
        for j in chosen:
            measure = shared.measures[j]
            table = shared.columns[j].take(measure, piece)
            missing = frames.missing_rows(table)
            if missing is not None and measure.nan_policy == "raise":
                frames.refuse_missing(measure.name, which, table, missing)
            if missing is not None and measure.nan_policy == "omit":
                omitted[j] += int(missing.sum())
                table = table[~missing]
            left[j] += len(table)
            sums[j] = add(sums[j], each(measure, table, j))
    for j in chosen:
        if left[j] == 0:
            raise _no_row(shared.measures[j], omitted[-1])
    return tuple(sums), omitted


def _pairs(
    shared: _Shared, release: _Source, chosen: Sequence[int]
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame, int, int]]:
    """Pieces of both files, complete pairs of rows only, for each measure; and how many pairs were left out."""
    rows = [0, 0]
    for a, b in zip_longest(shared.original, release):
        if a is None or b is None or len(a) != len(b):
            rest = [
                rows[0] + sum(len(p) for p in ([] if a is None else [a])),
                rows[1] + sum(len(p) for p in ([] if b is None else [b])),
            ]
            name = shared.measures[chosen[0]].name
            raise InputError(
                f"{name} compares record by record and needs as many rows in both files",
                f"files that part after {min(rest)} records",
                "Release every record, or use a measure that does not match records",
            )
        rows = [rows[0] + len(a), rows[1] + len(b)]
        for j in chosen:
            measure = shared.measures[j]
            tables = [shared.columns[j].take(measure, piece) for piece in (a, b)]
            holes = [frames.missing_rows(t) for t in tables]
            if measure.nan_policy == "raise":
                for table, hole, which in zip(tables, holes, ("the original", "the release"), strict=True):
                    frames.refuse_missing(measure.name, which, table, hole)
            either = np.zeros(len(a), dtype=bool)
            for hole in holes:
                if hole is not None:
                    either |= hole
            yield tables[0][~either], tables[1][~either], j, int(either.sum())


def _refuse_empty(measures: Sequence[Any], sums: Sequence[Any], chosen: Sequence[int]) -> None:
    for j in chosen:
        moments = sums[j].of["moments"]
        if moments.n == 0:
            raise _no_row(measures[j], 0)


def _no_row(measure: Any, rows: int) -> InputError:
    got = f"{rows} rows, each with a missing value" if rows else "no complete pair"
    return InputError(f"{measure.name} has no complete row left", got, "Choose columns with fewer missing values")


def _result(measure: Any, value: Any, omitted: int) -> Measured:
    result = value if isinstance(value, Measured) else Measured(value)
    if measure.nan_policy == "omit":
        result.parts["omitted"] = float(omitted)
    return result


def _same_plan(a: Any, b: Any) -> bool:
    """True if two plans, by model, code their categories alike."""
    return all(
        getattr(a[k], "names", None) == getattr(b[k], "names", None) and _levels(a[k]) == _levels(b[k]) for k in a
    )


def _levels(plan: Any) -> Any:
    return {v: levels.values for v, levels in getattr(plan, "levels", {}).items()}


def _source(data: Any, key: Any, size: int, which: str) -> _Source:
    if isinstance(data, (str, Path)):
        return _Source(Pieces(str(Path(data).resolve()), size), key, which)
    if data is None:
        raise InputError(
            f"measures compare with {which}, which is missing", None, "Give the path of a parquet or CSV file"
        )
    return _Source(Pieces(Frame.of(data).table, size), key, which)
