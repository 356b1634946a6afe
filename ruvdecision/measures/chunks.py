"""Measures of files that are larger than memory: read in pieces, where a measure is made of sums over records.

A measure says what must be known of the files beforehand (`survey`), which sums it needs of a piece (`partial`) and
what follows from the sums of both files (`total`). The numbers are those of whole files to rounding.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pandas as pd

from ..data.chunks import Pieces
from ..data.read import file_digest
from ..errors import InputError, UnsupportedError
from ..masks.frame import Frame
from ..running.run import Task, run
from . import frames
from .base import Measure, Measured
from .match import about, check_key, copies_of
from .results import Finding, Findings
from .risk.uniqueness import KeyMeasure
from .sums import add


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
        named = ", ".join(m.name for m in self.measures if m.matched)
        if key is not None and named:
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
                sources[name] = [_source(part, self.key, self.size, "the release") for part in copies_of(item)]
        head = next(iter(self.original))
        columns = [_Columns.of(m, head) for m in self.measures]
        shared = _ChunkedWork(self.measures, columns, self.original)
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
        self.found += [[[Finding(*o) for o in copy] for copy in item or []] for item in results]
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
            else:
                check_key(self.key, piece.columns, self.which)
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
class _ChunkedWork:
    """The measures, with what the original alone gives: surveys, and sums for the plans that follow from it alone."""

    measures: Sequence[Measure]
    columns: Sequence[_Columns]
    original: _Source
    surveys: tuple[Any, ...] = ()
    plans: tuple[Any, ...] = ()
    sums: tuple[Any, ...] = ()
    rows: int = 0

    def begun(self) -> _ChunkedWork:
        surveys, _ = _pass(self, self.original, lambda m, table, j: m.survey(table), self._needs_survey())
        plans = tuple(m.settle(s, s) if s is not None else None for m, s in zip(self.measures, surveys, strict=True))
        sums, counts = self.sums_of(self.original, plans, self.unmatched())
        return _ChunkedWork(self.measures, self.columns, self.original, surveys, plans, sums, counts[-1])

    def unmatched(self) -> list[int]:
        return [j for j, m in enumerate(self.measures) if not m.matched]

    def sums_of(
        self, source: _Source, plans: Sequence[Any], chosen: Sequence[int]
    ) -> tuple[tuple[Any, ...], list[int]]:
        """The chosen measures' sums over a file, and how many rows each left out."""
        return _pass(self, source, lambda m, table, j: m.partial(table, plans[j], source.which), chosen)

    def _needs_survey(self) -> list[int]:
        return [j for j, m in enumerate(self.measures) if not m.matched and type(m).survey is not Measure.survey]


def _compare(shared: _ChunkedWork, name: str, parts: Sequence[_Source]) -> list[list[Finding]]:
    """Measure one release, or each of its copies. Must stay importable: workers look it up by name."""
    with about(name):
        return [[Finding.of(value) for value in _measure(shared, part)] for part in parts]


def _measure(shared: _ChunkedWork, release: _Source) -> list[Measured]:
    measures = shared.measures
    unmatched = shared.unmatched()
    found: list[Any] = [None] * len(measures)
    if unmatched:
        needs = shared._needs_survey()
        surveys, _ = _pass(shared, release, lambda m, table, j: m.survey(table), needs)
        plans = [m.settle(shared.surveys[j], surveys[j]) if j in needs else None for j, m in enumerate(measures)]
        second, counts = shared.sums_of(release, plans, unmatched)
        # Where the release has categories that the original lacks, the original's sums are taken again with room for
        # them.
        other = [j for j in needs if not _same_plan(plans[j], shared.plans[j])]
        again, _ = shared.sums_of(shared.original, plans, other)
        for j in unmatched:
            first = again[j] if j in other else shared.sums[j]
            found[j] = _result(measures[j], measures[j].total(first, second[j], plans[j]), counts[j])
    matched = [j for j, m in enumerate(measures) if m.matched]
    if matched:
        before: list[Any] = [None] * len(measures)
        moved: list[Any] = [None] * len(measures)
        omitted = [0] * len(measures)
        for a, _, j, left_out in _pairs(shared, release, matched):
            before[j] = add(before[j], measures[j].partial(a, None, "the original"))
            omitted[j] += left_out
        for j in matched:
            if before[j].n == 0:
                raise frames.no_row(measures[j].name, "no complete pair")
        for a, b, j, _ in _pairs(shared, release, matched):
            moved[j] = add(moved[j], measures[j].paired(a, b, before[j]))
        for j in matched:
            found[j] = _result(measures[j], measures[j].total(before[j], moved[j], None), omitted[j])
    return found


def _pass(
    shared: _ChunkedWork, source: _Source, each: Callable[[Any, pd.DataFrame, int], Any], chosen: Sequence[int]
) -> tuple[tuple[Any, ...], list[int]]:
    """Read a file once and add up what each chosen measure makes of its pieces.

    Then how many rows each left out, and all rows. A measure of keys looks at the release alone.
    """
    which = source.which
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
            raise frames.no_row(shared.measures[j].name, f"{omitted[-1]} rows, each with a missing value")
    return tuple(sums), omitted


def _pairs(
    shared: _ChunkedWork, release: _Source, chosen: Sequence[int]
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame, int, int]]:
    """Pieces of both files side by side, complete pairs of rows only, for each measure; and how many were left out."""
    rows = 0
    for a, b in zip_longest(shared.original, release):
        if a is None or b is None or len(a) != len(b):
            rest = rows + min(0 if piece is None else len(piece) for piece in (a, b))
            raise InputError(
                f"{shared.measures[chosen[0]].name} compares record by record and needs as many rows in both files",
                f"files that part after {rest} records",
                "Release every record, or use a measure that does not match records",
            )
        rows += len(a)
        for j in chosen:
            measure = shared.measures[j]
            tables = [shared.columns[j].take(measure, piece) for piece in (a, b)]
            holes = [frames.missing_rows(t) for t in tables]
            if measure.nan_policy == "raise":
                for table, hole, which in zip(tables, holes, ("the original", "the release"), strict=True):
                    frames.refuse_missing(measure.name, which, table, hole)
            either = frames.either(*holes)
            kept = slice(None) if either is None else ~either
            yield tables[0][kept], tables[1][kept], j, 0 if either is None else int(either.sum())


def _result(measure: Measure, value: float, omitted: int) -> Measured:
    result = Measured.of(value)
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
        what = f"measures compare with {which}, which is missing"
        raise InputError(what, None, "Give the path of a parquet or CSV file")
    return _Source(Pieces(Frame.of(data).table, size), key, which)
