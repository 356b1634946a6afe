"""Risk and utility of releases by data: `measure` compares releases with the original and makes a map.

What depends on the original alone is computed once, whatever the number of releases and replicates. Only the measures'
numbers go onto the map; the records, and whatever a measure knows about single records, stay behind.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .checks import Seed, as_generator, check_integer, suggest
from .data.read import file_digest
from .errors import InputError
from .evaluate import check_masks
from .maps.columns import Labels, tell_apart
from .maps.rumap import Provenance, RUMap
from .maps.scores import Column
from .masks.base import Mask
from .masks.frame import Frame
from .measures.match import about, check_releases, is_copies, keyed, match, read
from .measures.results import Finding, Findings, check_measures
from .protocols import Measure
from .running.fingerprint import fingerprint_attr
from .running.progress import Bar
from .running.replication import replicate_seeds
from .running.run import Task, root_seed, run

ABSENT = {"risk": "no measure of risk", "utility": "no measure of utility"}
"""Name of the column of NaN that stands in where no measure has the role."""


def measure(
    data: Any,
    masks: Sequence[Mask] | Mask | None = None,
    *,
    releases: Mapping[str, Any] | None = None,
    measures: Sequence[Measure],
    replicates: int = 1,
    seed: Seed = None,
    key: Any = None,
    risk: Any = None,
    utility: Any = None,
    parts: bool = False,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    chunksize: int | None = None,
    progress: bool | None = None,
) -> RUMap:
    """Map releases by empirical measures: masks applied here, or releases made elsewhere.

    Parameters
    ----------
    data : DataFrame, array or path
        The original records, one row per respondent; a path names a CSV, parquet, Stata, SPSS or SAS file.
    masks : list of masks, optional
        Techniques to apply to the data.
    releases : mapping from name to DataFrame, array or path, optional
        Releases that were made elsewhere. Without ``key`` row i of a release is the record of row i of the data. A list
        of data sets is one release of several imputed copies; measures are averaged over them.
    measures : list of measures
        Each gives a column under its name, and its standard error under ``<name>_error``.
    replicates : int, default 1
        How often each mask is applied. Values are averaged; their error is the standard error over replicates, or the
        measure's own where that is larger. One replicate shows no spread: the error is then the measure's own.
    seed : int, SeedSequence or Generator, optional
        Root of all random numbers. Replicate r uses the same ones for every mask.
    key : column name, optional
        The column that says whose record a row is, in the data and in every release. Rows are put in the order of the
        data by it; masks and measures do not see it.
    risk, utility : str or Column, optional
        What the map shows as risk and utility: the name of a measure, any column, or ``Column("KL", "negative_log")``.
        The first measure of each role unless given. Where a measure's lower values mean more utility (or its higher
        values less risk) the map shows its reciprocal, as it does with a user's uncertainty, or its negative if it can
        be below zero.
    parts : bool, default False
        Add a column ``<name>.<part>`` for every number that a measure is made of, such as ``IO.sign switches``.
    executor : concurrent.futures.Executor, optional
        Measures releases in parallel: a process pool, or ``dask.distributed``'s ``Client.get_executor()``. The map is
        the same. A release that is named by its path is read by the worker.
    checkpoint : str or Path, optional
        A directory that keeps what is finished: a run that was killed goes on from there when it is started again, and
        ends with the same map. A checkpoint of other data, masks, measures or seed is refused. It holds numbers only,
        no records.
    chunksize : int, optional
        Read files in pieces of so many records, for files larger than memory. The data and the releases are then paths
        of parquet or CSV files, and every measure must be a sum over records (`NormalKL`, `MD`, `IntervalOverlap`,
        `Hellinger`, `SampleUniques`, ...; others are refused by name). The numbers are the same to rounding.
    progress : bool, optional
        Show a progress bar on standard error; by default on a terminal.

    Returns
    -------
    RUMap
        Its ``attrs["better"]`` says which end of each measure is better, so that ``rumap.frontier(columns=["risk",
        "IO", "KL"])`` knows (Karr et al. 2006, eq. 11). After Ctrl-C the map has the releases that were finished; a
        note and ``attrs["partial"]`` say so.

    Examples
    --------
    >>> import ruvdecision as ruv
    >>> from ruvdecision.measures import NormalKL, RecordLinkage
    >>> data = np.random.default_rng(1).normal(size=(50, 2))
    >>> rumap = measure(data, [ruv.Noise(sd=0.1), ruv.Noise(sd=1.0)], measures=[RecordLinkage(), NormalKL()], seed=2)
    >>> bool(rumap.risk[0] > rumap.risk[1] and rumap.utility[0] > rumap.utility[1])
    True
    """
    replicates = check_integer("replicates", replicates, low=1)
    if not isinstance(parts, (bool, np.bool_)):
        raise InputError("parts must be True or False", parts, "Write parts=True")
    if masks is None and releases is None:
        raise InputError(
            "measure needs masks or releases", "neither", "Write measure(data, masks) or measure(data, releases={...})"
        )
    candidates = () if masks is None else check_masks(masks)
    made = check_releases(releases)
    labels = tell_apart([str(m) for m in candidates])
    twice = sorted(set(labels) & set(made))
    if twice:
        raise InputError("A release has the name of a mask", twice, "Give it another name")
    chosen = check_measures(measures)
    if not parts:
        # A misspelt name should not cost the work.
        _check_axes(risk, utility, [name for m in chosen for name in (m.name, f"{m.name}_error")])
    root = root_seed(seed, checkpoint if candidates else None)
    count = len(labels) + len(made)
    comparison: Any
    with Bar(f"Measuring {count:,} releases", progress) as bar:
        if chunksize is None:
            comparison = Comparison(chosen, data, key)
            interrupted = comparison.apply(
                candidates, replicates, root, executor, bar.tell, releases=made, checkpoint=checkpoint
            )
        else:
            from .measures.chunks import ChunkedComparison

            comparison = ChunkedComparison(chosen, data, key, chunksize)
            interrupted = comparison.apply(candidates, made, executor, bar.tell, checkpoint=checkpoint)
    techniques, notes = [*(m.technique for m in candidates), *made], list(comparison.notes)
    names, shown = [*labels, *made], [*candidates, *(None for _ in made)]
    if interrupted:
        rows = comparison.finished()
        if not rows:
            raise KeyboardInterrupt
        notes.insert(0, f"Stopped before the end: {len(rows)} of {count} releases were finished.")
        names, shown, techniques = ([part[i] for i in rows] for part in (names, shown, techniques))
        count = len(rows)
    columns = comparison.columns(parts)
    _check_axes(risk, utility, list(columns))
    axes = {role: comparison.axis(role, given) for role, given in (("risk", risk), ("utility", utility))}
    for role, axis in axes.items():
        if axis is None:
            axes[role] = Column(ABSENT[role])
            columns[ABSENT[role]] = np.full(count, np.nan)
            notes.append(f"No measure of {role} was given, so the map has no {role}.")
    return RUMap.build(
        masks=shown if candidates else None,
        labels=Labels(names, technique=techniques),
        provenance=Provenance(engine="data", notes=notes),
        risk=axes["risk"],
        utility=axes["utility"],
        columns=columns,
        attrs={
            "seed": str(root.entropy),
            "replicates": replicates if candidates else 0,
            **comparison.describe(),
            **({"partial": "yes"} if interrupted else {}),
        },
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

    def __init__(self, measures: Any, data: Any, key: Any = None) -> None:
        super().__init__(measures)
        self.key = key
        frame = read(data, "the original")
        self.original = _settled(frame if key is None else keyed(frame, key, "the original"))
        given = self.original.unwrap()
        # A measure of somebody's own may have a call only, and then does all of its work each time.
        self.prepared = [
            m.prepare(given) if hasattr(m, "prepare") else functools.partial(m, given) for m in self.measures
        ]

    def apply(
        self,
        masks: Sequence[Mask],
        replicates: int,
        root: np.random.SeedSequence,
        executor: Executor | None = None,
        tell: Callable[[float], Any] | None = None,
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
        seeds = [s[1] for s in replicate_seeds(root, replicates)]
        shared = _ComparisonWork(self.prepared, self.original, list(masks), seeds, self.key, self.measures)
        # Blocks of replicates: some dozens of tasks keep workers busy and lose little when a run is killed.
        block = max(1, min(replicates, -(-replicates * len(masks) // 64)))
        starts = range(0, replicates, block)
        blocks = [(i, s, s + block) for i in range(len(masks)) for s in starts]
        tasks = [Task(f"mask {b[0]} replicates {b[1]} to {b[2] - 1}", _mask_block, b) for b in blocks]
        made = {name: _absolute(item) for name, item in (releases or {}).items()}
        tasks += [Task(f"release {name}", _made_elsewhere, (name, item)) for name, item in made.items()]

        def parts() -> dict[str, Any]:
            found = {
                "data": self.original.table,
                "masks": list(masks),
                "measures": self.measures,
                "replicates": replicates,
            }
            found |= {"seed": root} if masks else {}  # nothing else is random
            return found | {"releases": {name: _content(item) for name, item in made.items()}, "key": self.key}

        results, interrupted = run(
            tasks, shared=shared, executor=executor, checkpoint=checkpoint, fingerprint=parts, tell=tell
        )
        for i in range(len(masks)):
            done = results[i * len(starts) : (i + 1) * len(starts)]
            self.found.append(
                [] if any(part is None for part in done) else _findings([found for part in done for found in part])
            )
        self.found += [_findings(item or []) for item in results[len(masks) * len(starts) :]]
        return interrupted

    def add(self, name: str, release: Any) -> None:
        """Measure a release that was made elsewhere."""
        shared = _ComparisonWork(self.prepared, self.original, [], [], self.key, self.measures)
        self.found.append(_made_elsewhere(shared, name, release))

    def describe(self) -> dict[str, Any]:
        """What a map's ``attrs`` should say: sizes and settings, no record."""
        about = {"data": f"{self.original.n} records, {len(self.original.columns)} columns"}
        return {**about, **fingerprint_attr(self.original.table), **super().describe()}


def _check_axes(risk: Any, utility: Any, columns: Sequence[str]) -> None:
    for role, given in (("risk", risk), ("utility", utility)):
        name = given.column if isinstance(given, Column) else given
        if isinstance(name, str) and name not in columns:
            raise InputError(f"The {role} names a column that is not there", name, suggest(name, columns))


# -- the work ------------------------------------------------------------------------------------------


def _findings(replicates: Sequence[Sequence[Sequence[Any]]]) -> list[list[Finding]]:
    """Results as a checkpoint gives them back, with their names."""
    return [[Finding(*outcome) for outcome in found] for found in replicates]


def _compare(prepared: Sequence[Callable[[Any], Any]], released: Any) -> list[Finding]:
    return [Finding.of(p(released)) for p in prepared]


@dataclass(frozen=True)
class _ComparisonWork:
    """What all tasks of a comparison use. A worker gets it once."""

    prepared: Sequence[Callable[[Any], Any]]
    original: Frame
    masks: Sequence[Mask]
    seeds: Sequence[np.random.SeedSequence]
    key: Any
    measures: Sequence[Any]
    steady: dict[int, list[Finding]] = field(default_factory=dict)
    """Outcomes of masks that take no random number: they are measured once per worker."""
    recent: dict[int, tuple[Any, list[Finding]]] = field(default_factory=dict)
    """The last release of the last mask, with its outcomes."""


def _mask_block(shared: _ComparisonWork, i: int, start: int, stop: int) -> list[list[Finding]]:
    """Apply one mask once per seed and measure. Must stay importable: workers look it up by name."""
    found: list[list[Finding]] = []
    mask = shared.masks[i]
    with about(str(mask)):
        for seed in shared.seeds[start:stop]:
            if i in shared.steady:
                found.append(shared.steady[i])
                continue
            rng = as_generator(seed)
            before = rng.bit_generator.state
            released = mask.release(shared.original.unwrap(), rng)
            last = shared.recent.get(i)
            # A release that is the last one again, as a chain without randomness gives, has the same numbers.
            same = last is not None and _equal(last[0], released)
            found.append(last[1] if last is not None and same else _compare(shared.prepared, released))
            spawned = rng.bit_generator.seed_seq.n_children_spawned  # type: ignore[attr-defined]
            if rng.bit_generator.state == before and spawned == 0:
                # It took no random number, so it will give the same every time.
                shared.steady[i] = found[-1]
            shared.recent.clear()
            shared.recent[i] = (released, found[-1])
    return found


def _made_elsewhere(shared: _ComparisonWork, name: str, release: Any) -> list[list[Finding]]:
    with about(name):
        if not is_copies(release):
            return [_compare(shared.prepared, match(shared.original, release, shared.key))]
        from .measures.utility.imputation import ImputationLoss

        copies = [match(shared.original, copy, shared.key) for copy in release]
        single = [not isinstance(m, ImputationLoss) for m in shared.measures]
        # A measure of one release is averaged over the copies, as an analyst does with imputed data.
        together = {j: Finding.of(p(copies)) for j, p in enumerate(shared.prepared) if not single[j]}
        return [
            [Finding.of(p(copy)) if single[j] else together[j] for j, p in enumerate(shared.prepared)]
            for copy in copies
        ]


def _absolute(item: Any) -> Any:
    """Paths from the root: a worker may have another working directory."""
    if is_copies(item):
        return [_absolute(part) for part in item]
    return str(Path(item).resolve()) if isinstance(item, (str, Path)) else item


def _content(item: Any) -> Any:
    """What a release is known by in a checkpoint: its data, or the bytes of its file."""
    if is_copies(item):
        return [_content(part) for part in item]
    return file_digest(item) if isinstance(item, (str, Path)) else item


def _settled(frame: Frame) -> Frame:
    """The same data, laid out in memory as a worker will get them, so that sums round in the same way everywhere."""
    blocks = getattr(getattr(frame.table, "_mgr", None), "arrays", ())
    ragged = any(isinstance(b, np.ndarray) and not (b.flags.c_contiguous or b.flags.f_contiguous) for b in blocks)
    return replace(frame, table=frame.table.copy()) if ragged else frame


def _equal(a: Any, b: Any) -> bool:
    return bool(a.equals(b)) if isinstance(a, (pd.DataFrame, pd.Series)) else bool(np.array_equal(a, b))
