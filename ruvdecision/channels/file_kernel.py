"""How a release comes from a whole file of categories, where rows are averaged: a law of releases for every file.

A file with its rows side by side is one wide record, and an average changes some of its entries together. Every other
step is taken row by row. Rows that no step tells apart may change places: of them a release says how many rows show
what.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from math import fsum, prod
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..checks import is_number
from ..errors import InputError, UnsupportedError
from ..protocols import Array
from .finite import LARGEST, FiniteRecords, Kernel, Output, RecordEvidence, hashable_record
from .samples import released_files
from .steps import (
    TOLERANCE,
    AddNoise,
    AverageRows,
    ClipTo,
    Copy,
    Cut,
    Drop,
    Entrywise,
    MaskLike,
    Matrix,
    Resolved,
    RoundTo,
    Step,
)

Ints = NDArray[np.int64]
File = tuple[Output, ...]
"""What is released of a file, row by row."""
Options = list[tuple[Output, float]]
"""The rows that may come out for one that goes in, with their probabilities."""
MOST = 200_000
"""Most pairs of a file and what may be released of it, while the steps are followed."""


def averages_rows(found: Sequence[Resolved]) -> bool:
    """Whether some step averages several rows."""
    return any(type(f.step) is AverageRows and f.step.rows is not None for f in found)


def alike_rows(found: Sequence[Resolved], n: int, named: Sequence[int]) -> Ints:
    """The largest set of rows that all steps treat alike, without those that are named."""
    own = [f.step.rows.row_labels() for f in found if f.step.rows is not None]
    if any(len(labels) != n for labels in own):
        return np.zeros(0, dtype=np.int64)
    kinds = np.unique(np.stack([np.zeros(n, dtype=np.int64), *own]), axis=1, return_inverse=True)[1].reshape(-1)
    free = np.setdiff1d(np.arange(n), named)
    if not len(free):
        return free
    return free[kinds[free] == np.bincount(kinds[free]).argmax()]


@dataclass(frozen=True, eq=False)
class FileKernel:
    """The law of what is released of a whole file: one kernel, whose records are files with their rows side by side."""

    kernel: Kernel
    n: int
    releases: int
    alike: tuple[int, ...]
    """Rows that may change places."""
    place: dict[Output, int]
    """The order in which they stand, by what is seen of them without noise."""

    @classmethod
    def of(
        cls, belief: FiniteRecords, files: Sequence[File], alike: Sequence[int], found: Sequence[Resolved], count: int
    ) -> FileKernel | None:
        """Follow the steps of a mask that makes so many releases; None if noise tells the rows apart after all."""
        laws = _Laws(belief, files, tuple(alike))
        for step, mask, about in found:
            if type(step) not in WHOLE:
                why = f": {step.why}" if step.why else ""
                raise UnsupportedError(
                    f"Enumeration cannot invert {mask} beside an average of rows{why}",
                    do=step.do or "Leave out samples and shuffled rows, or the average",
                )
            WHOLE[type(step)](laws, step, mask, about.touched)
        try:
            kernel, place = laws.kernel()
        except _ToldApart:
            return None
        return cls(kernel, laws.n, count, laws.alike, place)

    def read(self, release: Any) -> RecordEvidence:
        """Turn a release into evidence about the file."""
        whole = released_files(release, self.releases) if self.releases > 1 else [release]
        tables = [pd.DataFrame(f).to_numpy(dtype=object) for f in whole]
        shape = self.n, len(self.kernel.outputs[0]) // self.n
        if any(len(t) != self.n for t in tables) or sum(t.shape[1] for t in tables) != shape[1]:
            got = f"{max(map(len, tables))} by {sum(t.shape[1] for t in tables)}"
            what = f"The release must have {shape[0]} records and {shape[1]} columns in all"
            raise InputError(what, got, "Pass what mask.release(data, rng) gave")
        rows = [hashable_record(tuple(row)) for row in np.concatenate(tables, axis=1)]
        exact = _exact_entries(self.kernel.noise, self.n, shape[1])
        shown = np.array(self.kernel.outputs, dtype=object).reshape(-1, *shape)
        for c in range(shape[1]):
            levels = np.unique([v for v in shown[:, :, c].reshape(-1).tolist() if is_number(v)])
            for r in np.flatnonzero(exact[:, c]).tolist():
                rows[r] = (*rows[r][:c], _nearest(rows[r][c], levels), *rows[r][c + 1 :])
        order = sorted(self.alike, key=lambda r: self.place.get(_visible(rows[r], exact[r]), len(self.place)))
        arranged = list(rows)
        for r, source in zip(self.alike, order, strict=True):
            arranged[r] = rows[source]
        evidence = self.kernel.log_evidence([v for row in arranged for v in row])
        return RecordEvidence(evidence[None], np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))


class _ToldApart(Exception):
    """Noise tells rows apart that were to change places."""


class _Laws:
    """What may be released of each file, step by step: a law of outputs for every file, and the noise on top."""

    def __init__(self, belief: FiniteRecords, files: Sequence[File], alike: tuple[int, ...]) -> None:
        self.records = [hashable_record(v) for v in belief.levels.names]
        self.laws: list[dict[File, float]] = [{file: 1.0} for file in files]
        self.alike = alike
        self.n, self.width = len(files[0]), len(files[0][0])
        size = self.n * self.width
        self.noise = np.zeros((size, size))

    @property
    def outputs(self) -> list[File]:
        """Everything that may be released, once."""
        return list(dict.fromkeys(file for law in self.laws for file in law))

    def at(self, rows: Sequence[int] | Ints, columns: Sequence[int]) -> Ints:
        """Places of entries in the wide record, row by row."""
        start = np.asarray(rows, dtype=np.int64)[:, None] * self.width
        return np.asarray(start + np.asarray(columns, dtype=np.int64)).reshape(-1)

    def noisy(self, rows: Sequence[int] | Ints, columns: Sequence[int]) -> bool:
        """Whether there is noise on some of these entries."""
        return bool((np.diag(self.noise)[self.at(rows, columns)] > 0).any())

    def branch(self, options: Callable[[File], list[tuple[File, float]]]) -> None:
        """Send every output through a further law; of rows that may change places only the order counts."""
        known: dict[File, list[tuple[File, float]]] = {}
        place: dict[Output, int] = {}

        def arranged(file: File) -> File:
            rows = list(file)
            moved = sorted((file[r] for r in self.alike), key=lambda row: place.setdefault(row, len(place)))
            for r, row in zip(self.alike, moved, strict=True):
                rows[r] = row
            return tuple(rows)

        found, size = [], 0
        for law in self.laws:
            after: dict[File, float] = {}
            for file, p in law.items():
                if file not in known:
                    known[file] = [(arranged(new), q) for new, q in options(file) if q > 0]
                for new, q in known[file]:
                    after[new] = after.get(new, 0.0) + p * q
            size += len(after)
            self.check_room(size)
            found.append(after)
        self.laws = found

    def change(self, function: Callable[[File], File]) -> None:
        """Send every output through a function of whole files."""
        self.branch(lambda file: [(function(file), 1.0)])

    def change_rows(self, options: Callable[[Output], Options]) -> None:
        """Send every row through a further law by itself; of those that may change places only the counts are kept."""
        once = cache(options)
        named = [r for r in range(self.n) if r not in self.alike]
        together = cache(lambda rows: _counted([once(row) for row in rows]))

        def further(file: File) -> list[tuple[File, float]]:
            found = []
            others = together(tuple(sorted((file[r] for r in self.alike), key=str)))
            apart = [once(file[r]) for r in named]
            self.check_room(len(others) * prod(map(len, apart)))
            for one in product(*apart):
                rows = list(file)
                for r, (row, _) in zip(named, one, strict=True):
                    rows[r] = row
                chance = prod(q for _, q in one)
                for moved, q in others:
                    for r, row in zip(self.alike, moved, strict=True):
                        rows[r] = row
                    found.append((tuple(rows), chance * q))
            return found

        self.branch(further)

    def check_room(self, size: int) -> None:
        """Raise if there are too many cases."""
        if size > MOST:
            what = f"What the mask may release of {len(self.laws):,} files has too many cases to list"
            raise UnsupportedError(what, f"more than {MOST:,}", "Use fewer records or outcomes")

    def hide(self, entries: Sequence[int] | Ints) -> None:
        """Release nothing of these entries."""
        gone = np.zeros(self.n * self.width, dtype=np.bool_)
        gone[entries] = True
        where = gone.reshape(self.n, self.width)
        self.noise = np.where(gone[:, None] | gone, 0.0, self.noise)
        self.change(lambda file: tuple(_visible(row, ~where[r]) for r, row in enumerate(file)))

    def kernel(self) -> tuple[Kernel, dict[Output, int]]:
        """The law as the kernel of one wide record, and the order of the rows that may change places."""
        outputs, place, wide = self.outputs, dict[Output, int](), []
        if len(self.laws) * len(outputs) > LARGEST:
            what = f"{len(self.laws):,} files with {len(outputs):,} releases are too many for enumeration"
            raise UnsupportedError(what, f"a limit of {LARGEST:,} pairs", "Use fewer records or outcomes")
        column = {file: i for i, file in enumerate(outputs)}
        matrix = np.zeros((len(self.laws), len(outputs)))
        for i, law in enumerate(self.laws):
            matrix[i, [column[file] for file in law]] = list(law.values())
        exact = _exact_entries(self.noise, self.n, self.width)
        for file in outputs:
            rows = list(file)
            # What is under noise must be the same in rows that change places, so that it does not tell them apart.
            if len({_visible(file[r], ~exact[r]) for r in self.alike}) > 1:
                raise _ToldApart
            key = [place.setdefault(_visible(file[r], exact[r]), len(place)) for r in self.alike]
            for r, i in zip(self.alike, np.argsort(key, kind="stable"), strict=True):
                rows[r] = file[self.alike[i]]
            wide.append(tuple(v for row in rows for v in row))
        return Kernel(matrix, tuple(wide), self.noise if self.noise.any() else None), place


# -- reading steps -----------------------------------------------------------------------------------------


def _read_drop(laws: _Laws, step: Drop, mask: MaskLike, touched: bool) -> None:
    rows = np.arange(laws.n) if step.rows is None else np.flatnonzero(step.rows.row_labels() == 1)
    laws.hide(laws.at(rows, step.columns))


def _read_average(laws: _Laws, step: AverageRows, mask: MaskLike, touched: bool) -> None:
    if step.rows is None:
        return
    labels = step.rows.row_labels()
    groups = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
    if laws.noisy(range(laws.n), step.columns):
        _average_noise(laws, step, mask, groups)
    new: dict[File, File] = {}
    for file in laws.outputs:
        rows = [list(row) for row in file]
        for members, c in product(groups, step.columns):
            there = [r for r in members if file[r][c] is not None]
            if not all(is_number(file[r][c]) for r in there):
                raise UnsupportedError(f"{mask} needs numbers, and these are labels", do="Give numbers as outcomes")
            # The sum is rounded once, whatever the order of the rows.
            mean = fsum(file[r][c] for r in there) / max(len(there), 1) + 0.0
            for r in there:
                rows[r][c] = mean
        new[file] = tuple(map(tuple, rows))
    # Means that differ in their last digits alone are one.
    means = sorted({row[c] for file in new.values() for row in file for c in step.columns if row[c] is not None})
    same = {value: value for value in means}
    for before, value in pairwise(means):
        if value - before <= TOLERANCE * max(1.0, abs(value)):
            same[value] = same[before]

    def averaged(file: File) -> File:
        return tuple(tuple(same.get(v, v) if c in step.columns else v for c, v in enumerate(row)) for row in new[file])

    laws.change(averaged)


def _average_noise(laws: _Laws, step: AverageRows, mask: MaskLike, groups: Sequence[Sequence[int]]) -> None:
    """Average the noise that is on the entries already."""
    shown = {tuple(row[c] is not None for row in file for c in step.columns) for file in laws.outputs}
    if len(shown) > 1:
        what = f"Enumeration cannot invert {mask}: which entries are averaged is drawn, and noise is on them"
        raise UnsupportedError(what, do=f"Put {mask.technique} first in the chain")
    there = np.reshape(next(iter(shown)), (laws.n, len(step.columns)))
    matrix = np.eye(len(laws.noise))
    for members, (j, c) in product(groups, enumerate(step.columns)):
        at = laws.at([r for r in members if there[r, j]], [c])
        matrix[np.ix_(at, at)] = 1.0 / max(len(at), 1)
    laws.noise = matrix @ laws.noise @ matrix.T


def _read_noise(laws: _Laws, step: AddNoise, mask: MaskLike, touched: bool) -> None:
    if step.not_linear is not None:
        raise UnsupportedError(f"Enumeration cannot invert {mask}: {step.not_linear}", do="Use plain normal noise")
    if step.common and step.rows is not None:
        what = f"Enumeration cannot invert {mask}: one draw for all rows, and rows that are told apart"
        raise UnsupportedError(what, do="Use Noise with one draw per record")
    own, k = step.of_rows(laws.n), len(step.columns)
    added = np.zeros((laws.n, k, laws.n, k))
    for r, s in product(range(laws.n), repeat=2):
        if r == s or step.common:
            added[r, :, s] = own[r % len(own)]
    at = laws.at(range(laws.n), step.columns)
    noise = np.zeros_like(laws.noise)
    noise[np.ix_(at, at)] = added.reshape(len(at), len(at))
    endless = np.flatnonzero(np.isinf(np.diag(noise)))
    laws.hide(endless)
    noise[endless] = noise[:, endless] = 0.0
    shown = [[v for row in file for v in row] for file in laws.outputs]
    for i in np.flatnonzero(np.diag(noise) > 0):
        there = [output[i] is not None for output in shown]
        if not all(is_number(output[i]) for output, shows in zip(shown, there, strict=True) if shows):
            raise UnsupportedError(
                "Noise needs numbers, and the records are labels", do="Use Stochastic for categories"
            )
        if not any(there):
            noise[i] = noise[:, i] = 0.0
        elif not all(there):
            what = f"Enumeration cannot invert {mask}: whether there is an entry that gets noise is drawn"
            raise UnsupportedError(what, do="Let masks before it release numbers")
    laws.noise = laws.noise + noise


def _read_copy(laws: _Laws, step: Copy, mask: MaskLike, touched: bool) -> None:
    order = step.order_of(laws.width)
    laws.change(lambda file: tuple(tuple(row[i] for i in order) for row in file))
    at = laws.at(range(laws.n), order.tolist())
    laws.noise, laws.width = laws.noise[np.ix_(at, at)], len(order)


def _read_entries(laws: _Laws, step: Entrywise, mask: MaskLike, touched: bool) -> None:
    """Each entry of a row by itself; entries that are not released stay so."""

    def options(row: Output) -> Options:
        laws_of = [[(v, 1.0)] for v in row]
        for place, column in enumerate(step.columns):
            if row[column] is not None:
                laws_of[column] = [(hashable_record(v)[0], p) for v, p in step.transitions(row[column], place)]
        return [(tuple(v for v, _ in one), prod(p for _, p in one)) for one in product(*laws_of)]

    _read_rows(laws, options, step, mask)


def _read_matrix(laws: _Laws, step: Matrix, mask: MaskLike, touched: bool) -> None:
    """A matrix of entries, or of whole records; where it does not name them they are the belief's, in their order."""
    if not step.whole or (len(step.columns) == 1 and step.inputs):
        _read_entries(laws, step, mask, touched)
        return
    if not step.inputs and touched:
        what = f"{mask.technique} of whole records after other masks does not say which they are"
        raise UnsupportedError(what, do="Give inputs=")
    inputs = [hashable_record(v) for v in step.inputs or laws.records]
    released = [hashable_record(v) for v in step.released or laws.records]
    place = {v: i for i, v in enumerate(inputs)}
    at = slice(step.columns[0], step.columns[-1] + 1)
    if len(place) != len(step.matrix):
        what = f"{mask.technique} must have one row per category, {len(place)} here"
        do = "Give one row per outcome of the belief, in its order"
        raise InputError(what, f"{len(step.matrix)} rows", do)

    def options(row: Output) -> Options:
        if all(v is None for v in row[at]):
            return [(row, 1.0)]
        if row[at] not in place:
            what = f"{mask.technique} has no row for what the masks before it release"
            raise InputError(what, "another", "Give inputs= to say which category each row stands for")
        chances = step.matrix[place[row[at]]]
        return [((*row[: at.start], *out, *row[at.stop :]), float(p)) for out, p in zip(released, chances, strict=True)]

    _read_rows(laws, options, step, mask)


def _read_rows(laws: _Laws, options: Callable[[Output], Options], step: Step, mask: MaskLike) -> None:
    if laws.noisy(range(laws.n), step.columns):
        what = f"Enumeration cannot invert {mask}: noise makes a continuum of categories"
        raise UnsupportedError(what, do=f"Put {mask.technique} before Noise")
    laws.change_rows(lambda row: [(new, p) for new, p in options(row) if p > 0])


WHOLE: dict[type[Step], Callable[[_Laws, Any, Any, bool], None]] = {
    Drop: _read_drop,
    AverageRows: _read_average,
    AddNoise: _read_noise,
    Copy: _read_copy,
    ClipTo: _read_entries,
    RoundTo: _read_entries,
    Cut: _read_entries,
    Matrix: _read_matrix,
}
"""What each step does to the laws of whole files; other steps are refused beside an average."""


def _counted(options: Sequence[Options]) -> list[tuple[File, float]]:
    """What may come out of rows whose order does not count, with probabilities."""
    rows = list(dict.fromkeys(row for each in options for row, _ in each))
    place = {row: i for i, row in enumerate(rows)}
    law = {(0,) * len(rows): 1.0}
    for each in options:
        after: dict[tuple[int, ...], float] = {}
        for counts, p in law.items():
            for row, q in each:
                i = place[row]
                grown = (*counts[:i], counts[i] + 1, *counts[i + 1 :])
                after[grown] = after.get(grown, 0.0) + p * q
        if len(after) > MOST:
            what = f"What {len(options)} rows may show has too many cases to list"
            raise UnsupportedError(what, f"more than {MOST:,}", "Use fewer records or outcomes")
        law = after
    return [(tuple(row for row, m in zip(rows, counts, strict=True) for _ in range(m)), p) for counts, p in law.items()]


def _exact_entries(noise: Array | None, n: int, width: int) -> NDArray[np.bool_]:
    """Which entries of a file go out without noise, row by row."""
    return np.ones((n, width), dtype=np.bool_) if noise is None else (np.diag(noise) == 0).reshape(n, width)


def _visible(row: Output, where: NDArray[np.bool_]) -> Output:
    return tuple(v if seen else None for v, seen in zip(row, where, strict=True))


def _nearest(value: Any, levels: Array) -> Any:
    """The number among those that may be shown that a released one is, up to rounding."""
    if not is_number(value) or not len(levels):
        return value
    near = float(levels[np.abs(levels - value).argmin()])
    return near if abs(near - value) <= TOLERANCE * max(1.0, abs(value)) else value
