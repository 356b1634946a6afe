"""Releases compared with the original by measures, and what the measures said: numbers only, averaged and in columns.

What depends on the original alone is computed once, whatever the number of releases and replicates. Only the measures'
numbers go onto the map; the records, and whatever a measure knows about single records, stay behind.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .. import checks
from ..checks import (
    as_generator,
    check_filled,
    check_mapping,
    is_flag,
    is_label,
    is_single,
    one_number,
    refuse_class,
    suggest,
)
from ..data.files import check_file
from ..data.read import file_digest, is_path, read_data
from ..errors import InputError, RuvError, UnsupportedError, kind_of
from ..maps.columns import check_name
from ..maps.scores import Column
from ..masks.base import Mask
from ..masks.frame import Frame
from ..protocols import Array, Measure
from ..running.fingerprint import fingerprint_as_attrs
from ..running.replication import replicate_seeds
from ..running.run import Task, run
from .base import Measured, Prepared
from .frames import Data, grouping_column, is_number
from .identifiers import Identifiers

ROLES = ("risk", "utility")

BY_POSITION = "by position"
"""The part that says how many links to the row in the same place are right, where another number is given instead."""

WITHOUT_PAIRS: dict[str, Callable[[Mapping[str, float]], bool]] = {
    "no row is known to be anybody's": lambda parts: parts.get("linked") == 0 and BY_POSITION not in parts,
    "its rows are not in the order of the data (name a key column, if any)": lambda parts: BY_POSITION in parts,
}
"""Why links were counted without pairs, and how the parts of a number show it."""


class Panel(list[Any]):
    """Measures that are tried: one that does not suit the data or a release is left out, and the map says why.

    ``notes`` say what was left out before, ``catches`` which errors leave a measure out; others are raised.
    """

    def __init__(
        self, measures: Iterable[Any] = (), notes: Sequence[str] = (), catches: type[RuvError] = RuvError
    ) -> None:
        super().__init__(measures)
        self.notes, self.catches = list(notes), catches


class Finding(NamedTuple):
    """What one measure said of one release: numbers only, nothing about single records."""

    value: float
    error: float
    parts: dict[str, float]
    missing: str = ""
    """How missing values were taken, if there were any."""
    refusal: str = ""
    """Why there is no number: a measure of a `Panel` is left out where it does not suit a file."""

    @classmethod
    def of(cls, result: Any, who: str = "") -> Finding:
        """A number without what belongs to single records; a plain one has no error and no parts.

        >>> Finding.of(0.5, "mine")
        Finding(value=0.5, error=0.0, parts={}, missing='', refusal='')
        """
        if isinstance(result, Measured):
            return cls(float(result), result.error, result.parts, result.missing)
        value = 1.0 * result if is_flag(result) else one_number(result)
        if value is None:
            do = "Give back a float, or ruv.measures.Measured(value, error)"
            raise InputError(f"The measure {who} must give back one number", kind_of(result), do)
        return cls(value, 0.0, {})


class Findings:
    """What measures have said of every release so far.

    Parameters
    ----------
    measures : list of measures
        What is computed.

    Attributes
    ----------
    found : list
        Per release and replicate one `Finding` per measure; no replicate where Ctrl-C came before the release was
        finished.
    notes : list of str
        What a map should say about it.
    """

    def __init__(self, measures: Sequence[Measure] | Measure) -> None:
        self.measures = check_measures(measures)
        panel = measures if isinstance(measures, Panel) else None
        self.lenient: tuple[type[RuvError], ...] = () if panel is None else (panel.catches,)
        self.found: list[list[list[Finding]]] = []
        self.notes: list[str] = [] if panel is None else list(panel.notes)

    def describe(self) -> dict[str, Any]:
        """What a map's ``attrs`` should say: settings, no record."""
        return {"measures": [repr(m) for m in self.measures], "better": {m.name: better_end(m) for m in self.measures}}

    def notes_on_nan(self) -> list[str]:
        """A note for each measure that gave NaN somewhere."""
        counts = [sum(any(np.isnan(r[j].value) for r in x) for x in self.found) for j in range(len(self.measures))]
        pairs, size = zip(self.measures, counts, strict=True), len(self.found)
        return [f"{m.name} is not a number (NaN) for {k} of {size} releases." for m, k in pairs if k]

    def drop_unmeasured(self) -> list[int]:
        """Positions of the releases that were measured; the others are left out from then on."""
        rows = [i for i, release in enumerate(self.found) if release]
        self.found = [self.found[i] for i in rows]
        return rows

    def columns(self, parts: bool = False) -> dict[str, Array]:
        """Mean over replicates and its error under the measures' names; with ``parts`` what they are made of, too.

        Those of groups of records are wanted whenever a measure is asked for them.
        """
        columns: dict[str, Array] = {}
        for j, item in enumerate(self.measures):
            pairs = [
                _mean_of_replicates([r[j].value for r in release], [r[j].error for r in release])
                for release in self.found
            ]
            columns[item.name] = np.array([value for value, _ in pairs])
            columns[f"{item.name}_error"] = np.array([error for _, error in pairs])
        for j, item in enumerate(self.measures):
            start = "" if parts else f"{by}=" if (by := getattr(item, "by", None)) is not None else "\0"
            named = dict.fromkeys(k for release in self.found for r in release for k in r[j].parts)
            for name in (k for k in named if k.startswith(start)):
                values = [[r[j].parts.get(name, np.nan) for r in release] for release in self.found]
                columns[f"{item.name}.{name}"] = np.array([_mean_of_replicates(v, [0.0])[0] for v in values])
        return columns

    def score_column(self, role: str, given: Any = None) -> Any:
        """The column that is the map's risk or utility, turned so that more of it is more risk or utility.

        The first measure of the role if nothing is given, None if there is none. What is not the name of a measure is
        given back as it is.
        """
        if given is None:  # the first measure of the role; of a panel the first that has a number for every release
            names = [(j, m.name) for j, m in enumerate(self.measures) if m.role == role]
            gaps = {j for j, _ in names if any(r[j].refusal for release in self.found for r in release)}
            given = next((name for j, name in sorted(names, key=lambda n: n[0] in gaps)), None)
        item = next((m for m in self.measures if isinstance(given, str) and m.name == given), None)
        if item is None:
            return given
        if item.role != role or (better_end(item) == "higher") == (role == "utility"):
            return Column(item.name)
        observed = self.columns()[item.name]
        lowest = min(float(getattr(item, "range", (0.0, np.inf))[0]), float(np.fmin.reduce(observed)))
        return Column(item.name, "negative" if lowest < 0 else "reciprocal")

    def settle(self, releases: Sequence[str]) -> None:
        """Take out the measures of a panel that no release suits, and tell of missing values and of what was left out.

        ``releases`` are the names of those that `found` has.
        """
        for j in reversed(range(len(self.measures) if self.lenient else 0)):
            each = [next((r[j].refusal for r in release if r[j].refusal), "") for release in self.found]
            if not any(each):
                continue
            name, everywhere = self.measures[j].name, all(each) and len(self.measures) > 1
            where = "" if everywhere else f" for {', '.join(n for n, e in zip(releases, each, strict=True) if e)}"
            self.notes.append(f"{name} was left out{where}: {next(filter(None, each))}.")
            if everywhere:
                self.measures = self.measures[:j] + self.measures[j + 1 :]
                self.found = [[r[:j] + r[j + 1 :] for r in release] for release in self.found]
        for j, item in enumerate(self.measures):
            for why, is_so in WITHOUT_PAIRS.items():
                some = [n for n, x in zip(releases, self.found, strict=True) if any(is_so(r[j].parts) for r in x)]
                if some:
                    what = "so copies and rows nearer to an original than chance has it count"
                    self.notes.append(f"{item.name} of {', '.join(some)}: {why}, {what}.")
        self.notes += _about_missing([m.name for m in self.measures], self.found)
        places: dict[str, list[str]] = {}
        for name, release in zip(releases, self.found, strict=True):
            for label in dict.fromkeys(k for r in release for extra in r[len(self.measures) :] for k in extra.parts):
                places.setdefault(label, []).append(name)
        for label, names in places.items():
            where = "every release" if len(names) == len(releases) else ", ".join(names)
            self.notes.append(
                f"Warning: {label} is different for every record and unchanged in {where}: it identifies records. "
                "Leave it out of the release, or name it as the key."
            )


class Comparison(Findings):
    """Measures with the original's part of the work done, and what they said of every release so far.

    Parameters
    ----------
    measures : list of measures
        What to compute.
    data : DataFrame, array or path
        The original.
    key : column name, optional
        The column that says whose record a row is.
    """

    def __init__(self, measures: Sequence[Measure] | Measure, data: Any, key: Hashable = None) -> None:
        super().__init__(measures)
        self.key = key
        frame = read(data, "the original")
        self.original = _contiguous_copy(frame if key is None else with_keys(frame, key, "the original"))
        given = self.original.unwrap()
        self.prepared: list[Callable[[Any], float]] = []
        for item in list(self.measures):
            if self.lenient and any(getattr(item, name, None) is not None for name in ("columns", "known", "keys")):
                item.uses(self.original.table)  # a misspelt name is an error, and no reason to leave a measure out
            try:
                made, ready = prepare(item, given, self.original if self.lenient else None)
            except self.lenient as error:
                self.notes.append(f"{item.name} was left out: {error.what}.")
                self.measures = [m for m in self.measures if m is not item]
                continue
            self.measures = [made if m is item else m for m in self.measures]
            self.prepared.append(ready)
        self.identifiers = Identifiers(self.original.table)
        if self.identifiers.columns:
            self.prepared.append(self.identifiers)  # what it says stands behind the measures
        if not self.measures:
            raise InputError("No measure suits the data", "; ".join(self.notes), "Name measures=[...]")

    def apply(
        self,
        masks: Sequence[Mask],
        replicates: int,
        root: np.random.SeedSequence,
        executor: Executor | None = None,
        on_progress: Callable[[float], Any] | None = None,
        *,
        releases: Mapping[str, Any] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> bool:
        """Apply each mask ``replicates`` times and measure, then measure ``releases``; True after Ctrl-C.

        Replicate r has the same random numbers for every mask, and each number depends on its mask and seed alone.
        """
        if masks and replicates == 1:
            self.notes.append(
                "Masks were applied once: errors do not show how much another application would change the numbers."
            )
        several = next((mask for mask in masks if mask.separate_releases), None)
        if several is not None:
            what = "A measure compares one release with the original; this mask makes several"
            raise UnsupportedError(what, str(several), "Measure each by itself")
        seeds = [s[1] for s in replicate_seeds(root, replicates)]
        shared = _ComparisonWork(self.prepared, self.original, list(masks), seeds, self.key, self.lenient)
        # Blocks of replicates: some dozens of tasks keep workers busy and lose little when a run is killed.
        block = max(1, min(replicates, -(-replicates * len(masks) // 64)))
        starts = range(0, replicates, block)
        blocks = [(i, s, s + block) for i in range(len(masks)) for s in starts]
        fits = functools.partial(are_findings, len(self.prepared))
        tasks = [
            Task(
                f"mask {i} replicates {start} to {stop - 1}",
                _measure_masked,
                (i, start, stop),
                functools.partial(fits, min(stop, replicates) - start),
            )
            for i, start, stop in blocks
        ]
        # Paths from the root: a worker may have another working directory.
        made = {name: _with_paths(x, lambda p: str(Path(p).resolve())) for name, x in (releases or {}).items()}
        tasks += [
            Task(f"release {name}", _measure_given_release, (name, x), functools.partial(fits, len(copies_of(x))))
            for name, x in made.items()
        ]

        def parts() -> dict[str, Any]:
            found = {
                "data": self.original.table,
                "masks": list(masks),
                "measures": self.measures,
                "replicates": replicates,
            }
            found |= {"seed": root} if masks else {}  # nothing else is random
            # A release is known by its data, or by the bytes of its file.
            content = {name: _with_paths(item, file_digest) for name, item in made.items()}
            return found | {"releases": content, "key": self.key}

        results, interrupted = run(
            tasks, shared=shared, executor=executor, checkpoint=checkpoint, fingerprint=parts, on_progress=on_progress
        )
        for i in range(len(masks)):
            done = results[i * len(starts) : (i + 1) * len(starts)]
            self.found.append(
                [] if any(part is None for part in done) else named_findings([found for part in done for found in part])
            )
        self.found += [named_findings(item or []) for item in results[len(masks) * len(starts) :]]
        return interrupted

    def add(self, name: str, release: Any) -> None:
        """Measure a release that was made elsewhere."""
        shared = _ComparisonWork(self.prepared, self.original, [], [], self.key, self.lenient)
        self.found.append(_measure_given_release(shared, name, release))

    def describe(self) -> dict[str, Any]:
        """What a map's ``attrs`` should say: sizes and settings, no record."""
        about: dict[str, Any] = {"data": f"{self.original.n} records, {len(self.original.columns)} columns"}
        about |= {"file_records": self.original.n, "file_columns": [str(c) for c in self.original.columns]}
        return {**about, **fingerprint_as_attrs(self.original.table), **super().describe()}


def check_measures(measures: Any) -> list[Any]:
    """The measures, each with a name of its own, a role and a call."""
    several = not is_single(measures)
    do = 'Write measures=[ruv.measures.RecordLinkage(), ruv.measures.NormalKL()], or "risk", "utility" or "all"'
    if isinstance(measures, (str, Mapping)) or not (several or callable(measures)):
        raise InputError("measures must be a list of measures", kind_of(measures), do)
    chosen = copy(measures) if isinstance(measures, list) else list(measures) if several else [measures]
    if not chosen:
        raise InputError("measures must not be empty", [], do)
    for i, item in enumerate(chosen):
        refuse_class(f"measures[{i}]", item)
        if not callable(item) or not isinstance(getattr(item, "name", None), str) or not item.name:
            what = f"measures[{i}] must be a measure, with a name, a role and a call"
            raise InputError(what, kind_of(item), "Write ruv.measures.NormalKL()")
        role = getattr(item, "role", None)
        if role not in ROLES:
            raise InputError(f"The role of {item.name} must be 'risk' or 'utility'", role, "Set role on its class")
    names = [check_name(item.name) for item in chosen]
    taken = [name for i, name in enumerate(names) if name in names[:i] or f"{name}_error" in names]
    if taken:
        do = 'Give one another name, name="..."'
        raise InputError("Two measures want the same column", ", ".join(dict.fromkeys(taken)), do)
    return chosen


def prepare(item: Any, data: Any, frame: Frame | None) -> tuple[Any, Callable[[Any], float]]:
    """A measure with its work on the original done; one of a panel that wants numbers is given the numeric columns."""
    if not hasattr(item, "prepare"):
        # A measure of somebody's own may have a call only, and then does all of its work each time.
        return item, functools.partial(item, data)
    try:
        ready = item.prepare(data)
    except RuvError:
        every = [] if frame is None else list(frame.columns)
        numbers = [c for c in every if frame is not None and is_number(frame.table[c])]
        if not numbers or len(numbers) == len(every) or getattr(item, "columns", 0) is not None:
            raise
        item = replace(item, columns=tuple(numbers))
        ready = item.prepare(data)
    if isinstance(ready, Prepared):
        ready.quiet = True
    return item, ready


def _about_missing(names: Sequence[str], found: Sequence[Sequence[Sequence[Finding]]]) -> list[str]:
    """How the measures took missing values, and how many records they left out."""
    notes, words = [], {}
    for j, name in enumerate(names):
        mine = [r[j] for release in found for r in release]
        word = next((f.missing for f in mine if f.missing), "")
        if word:
            words[name] = word
        omitted, blanked = (int(max((f.parts.get(k, 0.0) for f in mine), default=0)) for k in ("omitted", "blanked"))
        if omitted:
            more = f", {blanked} of them blanked by the release: the records that it protects" if blanked else ""
            notes.append(f"{name} left out up to {omitted} records for missing values{more}.")
    if words:
        each = [f"{', '.join(n for n in words if words[n] == w)} as {w}" for w in dict.fromkeys(words.values())]
        notes.insert(0, f"Missing values were taken by {'; '.join(each)}.")
    return notes


def better_end(item: Any) -> str:
    """Which values of a measure are better for the agency; one that does not say grows with its role."""
    return str(getattr(item, "direction", "lower" if item.role == "risk" else "higher"))


def _mean_of_replicates(values: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """Mean over replicates and its error.

    The error is the standard error over replicates or, where it is larger, the measure's own: its draws are the same
    for every replicate, so they do not average out.
    """
    x = np.asarray(values, dtype=np.float64)
    if len(x) == 0:
        return np.nan, np.nan  # not measured: Ctrl-C came before
    own = float(np.sqrt(np.mean(np.square(errors))))
    if len(x) == 1 or np.all(x == x[0]):
        return float(x[0]), own
    mean = float(x.mean())
    if not np.isfinite(mean):
        return mean, np.nan if np.isnan(mean) else np.inf
    return mean, max(float(x.std(ddof=1) / np.sqrt(len(x))), own)


# -- the work ------------------------------------------------------------------------------------------


def named_findings(replicates: Sequence[Sequence[Sequence[Any]]]) -> list[list[Finding]]:
    """Results of replicates, with the names that a checkpoint does not keep."""
    return [[Finding(*outcome) for outcome in found] for found in replicates]


def are_findings(measures: int, replicates: int, stored: Sequence[Sequence[Sequence[Any]]]) -> bool:
    """Whether a stored result has the shape of so many replicates' findings, one per measure."""
    return len(stored) == replicates and all(
        len(found) == measures
        and all(
            len(outcome) == len(Finding._fields)
            and all(map(checks.is_number, (outcome[0], outcome[1], *outcome[2].values())))
            and all(type(word) is str for word in (*outcome[2], *outcome[3:]))
            for outcome in found
        )
        for found in stored
    )


@dataclass(frozen=True)
class _ComparisonWork:
    """What all tasks of a comparison use. A worker gets it once."""

    prepared: Sequence[Callable[[Any], float]]
    original: Frame
    masks: Sequence[Mask]
    seeds: Sequence[np.random.SeedSequence]
    key: Hashable
    lenient: tuple[type[RuvError], ...] = ()
    steady: dict[int, list[Finding]] = field(default_factory=dict)
    """Outcomes of masks that take no random number: they are measured once per worker."""
    recent: dict[int, tuple[Any, list[Finding]]] = field(default_factory=dict)
    """The last release of the last mask, with its outcomes."""

    def compare(self, released: Any) -> list[Finding]:
        return [self.run_measure(p, released) for p in self.prepared]

    def run_measure(self, prepared: Any, released: Any) -> Finding:
        """What one measure says; one of a panel may say why it says nothing."""
        measure = getattr(prepared, "measure", None) or getattr(prepared, "func", prepared)
        try:
            return Finding.of(prepared(released), getattr(measure, "name", ""))
        except self.lenient as error:
            return Finding(np.nan, np.nan, {}, refusal=error.what)

    def ask_in_any_order(self, prepared: object, released: Data) -> Finding:
        """The same of a file without a key, whose rows may be in another order than the original's.

        Links to the row in the same place are then right as seldom as chance has it: one of them on average, six with
        a probability of 0.0006, whatever the number of rows. Rows are taken to be nobody's if that finds more.
        """
        found = self.run_measure(prepared, released)
        rows = found.parts.get("linked", 0.0)
        if self.key is not None or not 0 < rows == self.original.n or found.value * rows >= 6:
            return found
        frame = Frame.of(released)
        if frame.table.duplicated().mean() > 0.5:
            return found  # averages and recoded files repeat their rows, and nobody's rows would not
        other = self.run_measure(prepared, replace(frame, table=frame.table.set_axis(pd.RangeIndex(-frame.n, 0))).table)
        if not other.value - 4 * other.error > found.value or other.value * rows < 20:
            return found
        return other._replace(parts=other.parts | {BY_POSITION: found.value})


def _measure_masked(shared: _ComparisonWork, i: int, start: int, stop: int) -> list[list[Finding]]:
    """Apply one mask once per seed and measure. Must stay importable: workers look it up by name."""
    found: list[list[Finding]] = []
    mask = shared.masks[i]
    with naming_release(str(mask)):
        for seed in shared.seeds[start:stop]:
            if i in shared.steady:
                found.append(shared.steady[i])
                continue
            rng = as_generator(seed)
            before = rng.bit_generator.state
            released = mask.release(shared.original.unwrap(), rng)
            last = shared.recent.get(i)
            # A release that is the last one again, as a chain without randomness gives, has the same numbers.
            same = last is not None and _same_data(last[0], released)
            found.append(last[1] if last is not None and same else shared.compare(released))
            spawned = rng.bit_generator.seed_seq.n_children_spawned  # type: ignore[attr-defined]
            if rng.bit_generator.state == before and spawned == 0:
                # It took no random number, so it will give the same every time.
                shared.steady[i] = found[-1]
            shared.recent.clear()
            shared.recent[i] = (released, found[-1])
    return found


def _measure_given_release(shared: _ComparisonWork, name: str, release: Any) -> list[list[Finding]]:
    with naming_release(name):
        copies = [match_rows(shared.original, copy, shared.key) for copy in copies_of(release)]
        # A measure of one release is averaged over the copies, as an analyst does with imputed data.
        together = {
            j: shared.run_measure(p, copies)
            for j, p in enumerate(shared.prepared)
            if is_copies(release) and isinstance(p, Prepared) and p.measure.takes_copies
        }
        return [
            [together[j] if j in together else shared.ask_in_any_order(p, copy) for j, p in enumerate(shared.prepared)]
            for copy in copies
        ]


def _with_paths(item: Any, change: Callable[[str | Path], Any]) -> Any:
    """A release, or its copies, with every path changed."""
    if is_copies(item):
        return [_with_paths(part, change) for part in item]
    return change(item) if is_path(item) else item


def _contiguous_copy(frame: Frame) -> Frame:
    """The same data, laid out in memory as a worker will get them, so that sums round in the same way everywhere."""
    blocks = getattr(getattr(frame.table, "_mgr", None), "arrays", ())
    ragged = any(isinstance(b, np.ndarray) and not (b.flags.c_contiguous or b.flags.f_contiguous) for b in blocks)
    return replace(frame, table=frame.table.copy()) if ragged else frame


def _same_data(a: Any, b: Any) -> bool:
    return bool(a.equals(b)) if isinstance(a, (pd.DataFrame, pd.Series)) else bool(np.array_equal(a, b))


# -- files and whose record a row is ------------------------------------------------------------------


def read(data: Any, which: str) -> Frame:
    """Data of any kind, or of the file that a path names; ``which`` is its name in errors."""
    if is_path(data):
        data = read_data(data)
    if data is None:
        what = f"measures compare with {which}, which is missing"
        raise InputError(what, None, "Give data=, a DataFrame or an array")
    return Frame.of(data)


def check_releases(releases: Any) -> dict[str, Any]:
    """Releases under names that differ; files that are not there are refused before any work is done."""
    if releases is None:
        return {}
    do = 'Write releases={"swapped": frame}'
    check_filled("releases", check_mapping("releases", releases, do), do)
    named = {str(name): item for name, item in releases.items()}
    if len(named) != len(releases) or not all(name.strip() for name in named):
        raise InputError("Releases need names that differ", [str(name) for name in releases], "Give each its own name")
    for name, item in named.items():
        # A missing file should not cost the work on those before it.
        with naming_release(name):
            _with_paths(item, check_file)
    return named


def is_copies(item: Any) -> bool:
    """True for a list of whole data sets, as multiple imputation gives."""
    return (
        isinstance(item, (list, tuple))
        and bool(item)
        and all(isinstance(p, (pd.DataFrame, pd.Series, np.ndarray, str, Path)) for p in item)
    )


def copies_of(item: Any) -> list[Any]:
    """The data sets of a release, which is usually one."""
    return list(item) if is_copies(item) else [item]


def check_key(key: Any, columns: pd.Index, which: str) -> None:
    """Raise an error for a key that is no column, or the only one."""
    # Whoever passes data for a name should not find them in the message.
    if not is_label(key) or key not in columns:
        shown = str(key) if is_label(key) else kind_of(key)
        raise InputError(f"The key is not a column of {which}", shown, suggest(shown, [str(c) for c in columns]))
    if len(columns) == 1:
        raise InputError(f"{which} has no column beside its key", str(key), "Name another key")


def with_keys(frame: Frame, key: Any, which: str) -> Frame:
    """The records under their keys; the key is no variable any more."""
    if frame.kind != "frame":
        raise InputError(f"The key names a column, and {which} has no column names", frame.kind, "Give a DataFrame")
    table = frame.table
    check_key(key, table.columns, which)
    keys = grouping_column("A key", frame, key)
    holes, repeated = int(keys.isna().sum()), int(keys.duplicated().sum())
    if holes:
        raise InputError(f"The key {key} of {which} has missing values", f"{holes} rows", "Give every row its key")
    if repeated:
        what = f"The key {key} of {which} must be unique"
        raise InputError(what, f"{repeated} repeated", "Name a column that tells records apart")
    return Frame(table.drop(columns=[key]).set_axis(pd.Index(keys.to_numpy(), name=key), axis=0), "frame")


def match_rows(original: Frame, item: Any, key: Any) -> Any:
    """A release with its rows in the order of the original's, as far as anything says whose they are."""
    frame = read(item, "the release")
    if key is None:
        ours, theirs = original.table.index, frame.table.index
        if frame.kind == original.kind == "frame" and len(ours) == len(theirs) and not ours.equals(theirs):
            reordered = ours.is_unique and theirs.is_unique and len(ours.union(theirs, sort=False)) == len(ours)
            if reordered:
                raise InputError(
                    "its row labels are those of the original in another order, and rows are matched by position",
                    f"{len(ours)} rows",
                    "Sort it, released.loc[original.index], or drop its labels, released.reset_index(drop=True)",
                )
        return frame.unwrap()
    frame = with_keys(frame, key, "the release")
    ours, theirs = original.table.index, frame.table.index
    strangers = int((~theirs.isin(ours)).sum())
    if strangers:
        kinds = f" (keys are {ours.dtype} in the original, {theirs.dtype} in the release)"
        what = f"it has keys that the original does not have{'' if ours.dtype == theirs.dtype else kinds}"
        raise InputError(what, f"{strangers} of {len(theirs)}", "Check the key column of both files")
    return frame.table.loc[ours[ours.isin(theirs)]]


@contextmanager
def naming_release(label: str) -> Iterator[None]:
    """Errors inside say which release they are about."""
    try:
        yield
    except RuvError as error:
        raise type(error)(f"{label}: {error.what}", error.got, error.do) from error
