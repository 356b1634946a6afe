"""Risk and utility of releases by data: `measure` compares releases with the original and makes a map.

What depends on the original alone is computed once, whatever the number of releases and replicates. Only the measures'
numbers go onto the map; the records, and whatever a measure knows about single records, stay behind.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Executor

import numpy as np
import pandas as pd

from .checks import Data, Seed, check_flag, check_integer, is_label, suggest
from .errors import InputError, kind_of
from .evaluate import check_masks
from .maps.columns import Labels, number_duplicates
from .maps.rumap import Provenance, RUMap
from .maps.scores import Column
from .masks.base import Mask
from .measures.battery import BATTERIES, panel
from .measures.chunks import ChunkedComparison
from .measures.comparison import Comparison, check_measures, check_releases, read
from .protocols import Measure
from .running.progress import Bar
from .running.run import root_seed, seed_attrs

ABSENT = {"risk": "no measure of risk", "utility": "no measure of utility"}
"""Name of the column of NaN that stands in where no measure has the role."""


def measure(
    data: Data | str | os.PathLike[str],
    masks: Mapping[str, Mask] | Sequence[Mask] | Mask | None = None,
    *,
    releases: Mapping[str, object] | None = None,
    measures: Sequence[Measure] | str | None = None,
    replicates: int = 1,
    seed: Seed = None,
    key: Hashable = None,
    risk: str | Column | None = None,
    utility: str | Column | None = None,
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
    masks : list of masks, or mapping from name to mask, optional
        Techniques to apply to the data, under their own names or those that you give them.
    releases : mapping from name to DataFrame, array or path, optional
        Releases that were made elsewhere. Without ``key`` row i of a release is the record of row i of the data. A list
        of data sets is one release of several imputed copies; measures are averaged over them.
    measures : list of measures, "risk", "utility" or "all", optional
        Each gives a column under its name, and its standard error under ``<name>_error``. Unless they are named: record
        linkage and replicated uniques (for releases with any number of rows) and `GeneralUtility`. A word runs
        every measure of that role that suits the data; the map's notes say what was left out, and why.
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
        Add a column ``<name>.<part>`` for every number that a measure is made of, such as ``IO.sign switches``. A
        measure with ``by="region"`` always has one for every region.
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
    check_flag("parts", parts, "Write parts=True")
    if masks is None and releases is None:
        do = "Write measure(data, masks) or measure(data, releases={...})"
        raise InputError("measure needs masks or releases", "neither", do)
    given = list(masks.values()) if isinstance(masks, Mapping) else masks
    if isinstance(given, pd.DataFrame) or (isinstance(given, list) and any(isinstance(x, pd.DataFrame) for x in given)):
        do = 'Write measure(data, releases={"swapped": frame})'
        raise InputError("Files that were made elsewhere are releases and no masks", kind_of(masks), do)
    candidates = () if given is None else check_masks(given)
    made = check_releases(releases)
    labels = list(number_duplicates([str(m) for m in candidates]))
    if isinstance(masks, Mapping):
        labels = [str(name).strip() for name in masks]
        if len(set(labels)) != len(labels) or not all(labels):
            raise InputError("Masks need names that differ", [str(name) for name in masks], "Give each its own name")
    twice = sorted(set(labels) & set(made))
    if twice:
        raise InputError("A release has the name of a mask", twice, "Give it another name")
    if measures is None or (is_label(measures) and measures in frozenset(BATTERIES)):
        if chunksize is not None:
            do = "Write measures=[ruv.measures.NormalKL()], for example"
            raise InputError("Files in pieces need measures that are named", f"measures={measures!r}", do)
        data = read(data, "the original").unwrap()
        measures = panel(measures, len(data))
    chosen = check_measures(measures)
    if not parts:
        # A misspelt name should not cost the work.
        _check_axes(risk, utility, [name for m in chosen for name in (m.name, f"{m.name}_error")])
    root = root_seed(seed, checkpoint if candidates else None)
    count = len(labels) + len(made)
    comparison: Comparison | ChunkedComparison
    with Bar(f"Measuring {count:,} releases", progress) as bar:
        if chunksize is None:
            comparison = Comparison(chosen, data, key)
            interrupted = comparison.apply(
                candidates, replicates, root, executor, bar.update, releases=made, checkpoint=checkpoint
            )
        else:
            comparison = ChunkedComparison(chosen, data, key, chunksize)
            interrupted = comparison.apply(candidates, made, executor, bar.update, checkpoint=checkpoint)
    techniques = [*(m.technique for m in candidates), *made]
    names, shown = [*labels, *made], [*candidates, *(None for _ in made)]
    notes: list[str] = []
    if interrupted:
        rows = comparison.drop_unmeasured()
        if not rows:
            raise KeyboardInterrupt
        notes.insert(0, f"Stopped before the end: {len(rows)} of {count} releases were finished.")
        names, shown, techniques = ([part[i] for i in rows] for part in (names, shown, techniques))
        count = len(rows)
    comparison.settle(names)
    notes += comparison.notes
    columns = comparison.columns(parts)
    notes += comparison.notes_on_nan()
    _check_axes(risk, utility, list(columns))
    axes = {role: comparison.score_column(role, given) for role, given in (("risk", risk), ("utility", utility))}
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
            **seed_attrs(root),
            "replicates": replicates if candidates else 0,
            **comparison.describe(),
            **({"partial": "yes"} if interrupted else {}),
        },
    )


def _check_axes(risk: str | Column | None, utility: str | Column | None, columns: Sequence[str]) -> None:
    for role, given in (("risk", risk), ("utility", utility)):
        name = given.column if isinstance(given, Column) else given
        if isinstance(name, str) and name not in columns:
            raise InputError(f"The {role} names a column that is not there", name, suggest(name, columns))
