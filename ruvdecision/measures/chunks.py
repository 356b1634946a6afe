"""Measures of files that are larger than memory: read in pieces, where a measure is made of sums over records.

A measure says what must be known of the files beforehand (`survey`), which sums it needs of a piece (`sums_of`) and
what follows from the sums of both files (`compare_sums`). The numbers are those of whole files to rounding.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pandas as pd

from ..data.read import Pieces, file_digest, is_path
from ..errors import InputError, UnsupportedError
from ..masks.base import Mask
from ..masks.frame import Frame
from ..protocols import Array, Measure
from ..running.run import Task, run
from . import frames
from .base import Measured, SummedMeasure, UsedColumns
from .comparison import Finding, Findings, are_findings, check_key, copies_of, named_findings, naming_release
from .sums import add

Sums = dict[int, Any]
"""What measures made of a file, by their position in the list."""


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

    def __init__(self, measures: Sequence[Measure] | Measure, data: Any, key: Hashable, chunksize: int) -> None:
        super().__init__(measures)
        self.key, self.size = key, chunksize
        foreign = [m.name for m in self.measures if not isinstance(m, SummedMeasure)]
        if foreign:
            raise UnsupportedError(
                f"{', '.join(foreign)} cannot read files in pieces, being no sum over records",
                do="Leave chunksize= out, or leave these measures out",
            )
        grouped = ", ".join(m.name for m in self.measures if m.by is not None)
        if grouped:
            what = f"{grouped} by groups looks at whole files"
            raise UnsupportedError(what, do="Leave chunksize= out, or leave by= out")
        self.original = _chunked_source(data, key, chunksize, "the original")
        named = ", ".join(m.name for m in self.measures if m.matched)
        if key is not None and named:
            what = f"{named} compares record by record, and files in pieces are not put in order by key={key!r}"
            raise UnsupportedError(what, do="Sort the files, and leave key= out")

    def apply(
        self,
        masks: Sequence[Mask],
        releases: Mapping[str, Any],
        executor: Executor | None = None,
        on_progress: Callable[[float], Any] | None = None,
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
            with naming_release(name):
                sources[name] = [_chunked_source(part, self.key, self.size, "the release") for part in copies_of(item)]
        head = next(iter(self.original))
        shared = _ChunkedWork(
            self.measures, [UsedColumns(m, head) for m in self.measures], self.original
        ).with_original_sums()
        tasks = [
            Task(f"release {n}", _measure_copies, (n, x), partial(are_findings, len(self.measures), len(x)))
            for n, x in sources.items()
        ]

        def parts() -> dict[str, Any]:
            return {
                "data": self.original.content(),
                "measures": self.measures,
                "releases": {name: [part.content() for part in item] for name, item in sources.items()},
                "key": self.key,
                "chunksize": self.size,
            }

        results, interrupted = run(
            tasks, shared=shared, executor=executor, checkpoint=checkpoint, fingerprint=parts, on_progress=on_progress
        )
        self.found += [named_findings(item or []) for item in results]
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
    key: Hashable
    which: str

    def __iter__(self) -> Iterator[pd.DataFrame]:
        for piece in self.pieces:
            if self.key is None:
                yield piece
            else:
                check_key(self.key, piece.columns, self.which)
                yield piece.drop(columns=[self.key])

    def content(self) -> pd.DataFrame | str:
        source = self.pieces.source
        return source if isinstance(source, pd.DataFrame) else file_digest(source)


@dataclass(frozen=True)
class _ChunkedWork:
    """The measures, with what the original alone gives: surveys, and sums for the plans that follow from it alone."""

    measures: Sequence[SummedMeasure]
    columns: Sequence[UsedColumns]
    original: _Source
    surveys: Sums = field(default_factory=dict)
    plans: Sums = field(default_factory=dict)
    sums: Sums = field(default_factory=dict)
    incomplete: Mapping[int, int] = field(default_factory=dict)
    """Rows of the original with a missing value, for measures that leave them out."""
    rows: int = 0

    @property
    def unmatched(self) -> list[int]:
        return [j for j, m in enumerate(self.measures) if not m.matched]

    def with_original_sums(self) -> _ChunkedWork:
        surveys = self.survey(self.original)
        plans = {j: self.measures[j].settle(s, s) for j, s in surveys.items()}
        chosen = [j for j in self.unmatched if not self.measures[j].release_only]
        sums, omitted, rows = self.add_up(self.original, plans, chosen)
        return replace(
            self, surveys=surveys, plans=plans, sums=sums, incomplete=omitted + self._survey_missing(), rows=rows
        )

    def _survey_missing(self) -> Counter[int]:
        """The same for measures that do not look at the original otherwise."""
        found: Counter[int] = Counter()
        chosen = [j for j, m in enumerate(self.measures) if m.release_only and m.missing == "omit"]
        for piece in self.original if chosen else ():
            for j in chosen:
                missing = frames.missing_rows(self.columns[j].of(Frame(piece, "frame")))
                found[j] += 0 if missing is None else int(missing.sum())
        return found

    def survey(self, source: _Source) -> Sums:
        """What must be known of a file before its sums are taken."""
        return self.add_up(source, None, [j for j in self.unmatched if self.measures[j].surveyed])[0]

    def add_up(self, source: _Source, plans: Sums | None, chosen: Collection[int]) -> tuple[Sums, Counter[int], int]:
        """The chosen measures' sums over a file (surveys without plans), how many rows each left out, and all rows."""
        sums: Sums = dict.fromkeys(chosen)
        omitted: Counter[int] = Counter()
        rows = 0
        for piece in source if sums else ():
            rows += len(piece)
            for j in sums:
                frame, measure, columns = Frame(piece, "frame"), self.measures[j], self.columns[j]
                used = columns.of(frame)
                missing = columns.rows_to_leave_out(used, source.which)
                omitted[j] += 0 if missing is None else int(missing.sum())
                table = used.table if missing is None else used.table[~missing]
                weights = columns.weights(frame, source.which, missing)
                if plans is None:
                    sums[j] = add(sums[j], measure.survey(table))
                else:
                    sums[j] = add(sums[j], measure.sums_of(table, plans.get(j), source.which, *weights))
        for j in sums:
            if omitted[j] == rows:
                raise frames.no_row_error(self.columns[j].who, f"{rows} rows, each with a missing value")
        return sums, omitted, rows

    def pairs(
        self, release: _Source, chosen: Sequence[int]
    ) -> Iterator[tuple[int, pd.DataFrame, pd.DataFrame, int, tuple[Array, ...]]]:
        """For each measure, pieces of both files without incomplete pairs of rows, how many these were, and weights."""
        rows = 0
        for a, b in zip_longest(self.original, release):
            if a is None or b is None or len(a) != len(b):
                rest = rows + min(0 if piece is None else len(piece) for piece in (a, b))
                raise InputError(
                    f"{self.measures[chosen[0]].name} compares record by record and needs as many rows in both files",
                    f"files that part after {rest} records",
                    "Release every record, or use a measure that does not match records",
                )
            rows += len(a)
            for j in chosen:
                first, second = (self.columns[j].of(Frame(piece, "frame")) for piece in (a, b))
                missing = frames.either_flag(
                    self.columns[j].rows_to_leave_out(first, "the original"),
                    self.columns[j].rows_to_leave_out(second, "the release"),
                )
                kept = slice(None) if missing is None else ~missing
                weights = self.columns[j].weights(Frame(a, "frame"), "the original", missing)
                yield j, first.table[kept], second.table[kept], 0 if missing is None else int(missing.sum()), weights


def _measure_copies(shared: _ChunkedWork, name: str, parts: Sequence[_Source]) -> list[list[Finding]]:
    """Measure one release, or each of its copies. Must stay importable: workers look it up by name."""
    with naming_release(name):
        return [
            [Finding.of(value, "") for _, value in sorted(_measure_release(shared, part).items())] for part in parts
        ]


def _measure_release(shared: _ChunkedWork, release: _Source) -> dict[int, Measured]:
    measures, columns = shared.measures, shared.columns
    plans = {j: measures[j].settle(shared.surveys[j], survey) for j, survey in shared.survey(release).items()}
    second, omitted, _ = shared.add_up(release, plans, shared.unmatched)
    # Where the release has categories that the original lacks, the original's sums are taken again with room for them.
    again = [j for j, plan in plans.items() if plan != shared.plans[j]]
    first = shared.sums | shared.add_up(shared.original, plans, again)[0]
    found = {
        j: columns[j].result(
            measures[j].compare_sums(first.get(j), second[j], plans.get(j)), omitted[j], bool(omitted[j])
        )
        for j in shared.unmatched
    }
    for j, each in found.items():
        blanked = omitted[j] - shared.incomplete.get(j, 0)
        if blanked > 0 and measures[j].role == "risk":
            each.parts["blanked"] = float(blanked)  # the map's notes say what that means
    matched = [j for j, m in enumerate(measures) if m.matched]
    if not matched:
        return found
    before: Sums = dict.fromkeys(matched)
    moved: Sums = dict.fromkeys(matched)
    for j, a, _, lost, weights in shared.pairs(release, matched):
        before[j] = add(before[j], measures[j].sums_of(a, None, "the original", *weights))
        omitted[j] += lost
    for j in matched:
        if before[j].n == 0:
            raise frames.no_row_error(measures[j].name, "no complete pair")
    for j, a, b, _, weights in shared.pairs(release, matched):
        moved[j] = add(moved[j], measures[j].sums_of_pairs(a, b, before[j], *weights))
    for j in matched:
        value = measures[j].compare_sums(before[j], moved[j], None)
        found[j] = columns[j].result(value, omitted[j], bool(omitted[j]))
    return found


def _chunked_source(data: Any, key: Hashable, size: int, which: str) -> _Source:
    if is_path(data):
        return _Source(Pieces(str(Path(data).resolve()), size), key, which)
    if data is None:
        what = f"measures compare with {which}, which is missing"
        raise InputError(what, None, "Give the path of a parquet or CSV file")
    return _Source(Pieces(Frame.of(data).table, size), key, which)
