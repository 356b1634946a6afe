"""Risk and utility of releases by data: `measure` compares releases with the original and makes a map.

What depends on the original alone is computed once, whatever the number of releases and replicates. Only the measures'
numbers go onto the map; the records, and whatever a measure knows about single records, stay behind.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .checks import Seed, as_generator, as_seed_sequence, check_integer, suggest
from .columns import check_name, tell_apart
from .engines.replication import replicate_seeds
from .errors import InputError
from .evaluate import check_masks
from .masks.base import Mask
from .matching import about, check_releases, is_copies, keyed, match, read
from .progress import Bar
from .protocols import Array
from .rumap import RUMap
from .scores import Column

__all__ = ["Comparison", "measure"]

ABSENT = {"risk": "no measure of risk", "utility": "no measure of utility"}
"""Name of the column of NaN that stands in where no measure has the role."""


def measure(
    data: Any,
    masks: Sequence[Mask] | Mask | None = None,
    *,
    releases: Mapping[str, Any] | None = None,
    measures: Sequence[Any],
    replicates: int = 1,
    seed: Seed = None,
    key: Any = None,
    risk: Any = None,
    utility: Any = None,
    parts: bool = False,
    executor: Executor | None = None,
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
        Releases that were made elsewhere. Without ``key`` row i of a release is the record of row i of the data. A list of
        data sets is one release of several imputed copies; measures are averaged over them.
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
        What the map shows as risk and utility: the name of a measure, any column, or ``Column("KL", "negative_log")``. The first
        measure of each role unless given. Where a measure's lower values mean more utility (or its higher values less risk) the
        map shows its reciprocal, as it does with a user's uncertainty, or its negative if it can be below zero.
    parts : bool, default False
        Add a column ``<name>.<part>`` for every number that a measure is made of, such as ``IO.sign switches``.
    executor : concurrent.futures.Executor, optional
        Runs masks in parallel: a process pool, or ``dask.distributed``'s ``Client.get_executor()``. The map is the same.
    progress : bool, optional
        Show a progress bar on standard error; by default on a terminal.

    Returns
    -------
    RUMap
        Its ``attrs["better"]`` says which end of each measure is better, so that ``rumap.frontier(columns=["risk", "IO", "KL"])``
        knows (Karr et al. 2006, eq. 11).

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
    if masks is None and releases is None:
        raise InputError("measure needs masks or releases", "neither", "Write measure(data, masks) or measure(data, releases={...})")
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
    root = as_seed_sequence(seed)
    count = len(labels) + len(made)
    with Bar(f"Measuring {count:,} releases", progress) as bar:
        comparison = Comparison(chosen, data, key)
        if candidates:
            share = len(candidates) / count
            comparison.apply(candidates, replicates, root, executor, lambda done: bar.tell(done * share))
        for i, (name, item) in enumerate(made.items()):
            comparison.add(name, item)
            bar.tell((len(labels) + i + 1) / count)
    columns = comparison.columns(parts)
    _check_axes(risk, utility, list(columns))
    axes = {role: comparison.axis(role, given) for role, given in (("risk", risk), ("utility", utility))}
    notes = list(comparison.notes)
    for role, axis in axes.items():
        if axis is None:
            axes[role] = Column(ABSENT[role])
            columns[ABSENT[role]] = np.full(count, np.nan)
            notes.append(f"No measure of {role} was given, so the map has no {role}.")
    return RUMap.build(
        masks=[*candidates, *(None for _ in made)] if candidates else None,
        labels=[*labels, *made],
        technique=[*(m.technique for m in candidates), *made],
        engine="data",
        risk=axes["risk"],
        utility=axes["utility"],
        columns=columns,
        attrs={"seed": str(root.entropy), "replicates": replicates if candidates else 0, **comparison.describe()},
        notes=notes,
    )


class Comparison:
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
        self.measures, self.key = check_measures(measures), key
        frame = read(data, "the original")
        self.original = frame if key is None else keyed(frame, key, "the original")
        given = self.original.unwrap()
        # A measure of somebody's own may have a call only, and then does all of its work each time.
        self.prepared = [m.prepare(given) if hasattr(m, "prepare") else functools.partial(m, given) for m in self.measures]
        self.found: list[list[list[Outcome]]] = []
        self.notes: list[str] = []

    def apply(
        self,
        masks: Sequence[Mask],
        replicates: int,
        root: np.random.SeedSequence,
        executor: Executor | None = None,
        tell: Callable[[float], Any] = lambda share: None,
    ) -> None:
        """Apply each mask ``replicates`` times and measure; replicate r has the same random numbers for every mask."""
        seeds = [s[1] for s in replicate_seeds(root, replicates)]
        data = self.original.unwrap()
        if replicates == 1:
            self.notes.append("Masks were applied once: errors do not show how much another application would change the numbers.")
        if executor is None:
            for i, mask in enumerate(masks):
                self.found.append(_run(self.prepared, data, mask, seeds, lambda share, i=i: tell((i + share) / len(masks))))
            return
        # Blocks of replicates, so that a few masks keep all workers busy; each number depends on its mask and seed alone.
        block = max(1, -(-replicates * len(masks) // 64))
        starts = range(0, replicates, block)
        jobs = [[executor.submit(_run, self.prepared, data, mask, seeds[s : s + block]) for s in starts] for mask in masks]
        try:
            for i, row in enumerate(jobs):
                self.found.append([outcome for job in row for outcome in job.result()])
                tell((i + 1) / len(masks))
        except BaseException:
            for job in (j for row in jobs for j in row):
                job.cancel()
            raise

    def add(self, name: str, release: Any) -> None:
        """Measure a release that was made elsewhere."""
        with about(name):
            if not is_copies(release):
                self.found.append([_compare(self.prepared, match(self.original, release, self.key))])
                return
            from .measures.imputation import ImputationLoss

            copies = [match(self.original, copy, self.key) for copy in release]
            single = [not isinstance(m, ImputationLoss) for m in self.measures]
            # A measure of one release is averaged over the copies, as an analyst does with imputed data.
            together = {j: Outcome.of(p(copies)) for j, p in enumerate(self.prepared) if not single[j]}
            self.found.append([[Outcome.of(p(copy)) if single[j] else together[j] for j, p in enumerate(self.prepared)] for copy in copies])

    def columns(self, parts: bool = False) -> dict[str, Array]:
        """Mean over replicates and its error under the measures' names; with ``parts`` what they are made of, too."""
        columns: dict[str, Array] = {}
        for j, item in enumerate(self.measures):
            pairs = [_mean([r[j].value for r in release], [r[j].error for r in release]) for release in self.found]
            columns[item.name] = np.array([value for value, _ in pairs])
            columns[f"{item.name}_error"] = np.array([error for _, error in pairs])
        for j, item in enumerate(self.measures if parts else ()):
            for name in dict.fromkeys(k for release in self.found for r in release for k in r[j].parts):
                values = [[r[j].parts.get(name, np.nan) for r in release] for release in self.found]
                columns[f"{item.name}.{name}"] = np.array([_mean(v, [0.0])[0] for v in values])
        return columns

    def axis(self, role: str, given: Any = None) -> Any:
        """The column that is the map's risk or utility, turned so that more of it is more risk or utility.

        The first measure of the role if nothing is given, None if there is none. What is not the name of a measure is
        given back as it is.
        """
        if given is None:
            given = next((m.name for m in self.measures if m.role == role), None)
        item = next((m for m in self.measures if isinstance(given, str) and m.name == given), None)
        if item is None:
            return given
        if item.role != role or (better_end(item) == "higher") == (role == "utility"):
            return Column(item.name)
        observed = self.columns()[item.name]
        lowest = min(float(getattr(item, "range", (0.0, np.inf))[0]), float(np.fmin.reduce(observed)))
        return Column(item.name, "negative" if lowest < 0 else "reciprocal")

    def describe(self) -> dict[str, Any]:
        """What a map's ``attrs`` should say: sizes and settings, no record."""
        return {
            "data": f"{self.original.n} records, {len(self.original.columns)} columns",
            "measures": [repr(m) for m in self.measures],
            "better": {m.name: better_end(m) for m in self.measures},
        }


# -- the measures --------------------------------------------------------------------------------------


def check_measures(measures: Any) -> list[Any]:
    """The measures, each with a name of its own, a role and a call."""
    if isinstance(measures, (str, Mapping)) or (not isinstance(measures, Iterable) and not callable(measures)):
        raise InputError("measures must be a list of measures", measures, "Write measures=[ruv.RecordLinkage(), ruv.NormalKL()]")
    chosen = [measures] if not isinstance(measures, Iterable) else list(measures)
    if not chosen:
        raise InputError("measures must not be empty", [], "Write measures=[ruv.RecordLinkage(), ruv.NormalKL()]")
    for i, item in enumerate(chosen):
        if isinstance(item, type):
            raise InputError(f"measures[{i}] is a class", item.__name__, f"Write {item.__name__}()")
        if not callable(item) or not isinstance(getattr(item, "name", None), str) or not item.name:
            raise InputError(f"measures[{i}] must be a measure, with a name, a role and a call", item, "Write ruv.NormalKL(), for example")
        if getattr(item, "role", None) not in ABSENT:
            raise InputError(f"The role of {item.name} must be 'risk' or 'utility'", getattr(item, "role", None), "Set role on its class")
    names = [check_name(item.name) for item in chosen]
    taken = [name for i, name in enumerate(names) if name in names[:i] or f"{name}_error" in names]
    if taken:
        raise InputError("Two measures want the same column", ", ".join(dict.fromkeys(taken)), 'Give one another name, name="..."')
    return chosen


def better_end(item: Any) -> str:
    """Which values of a measure are better for the agency; one that does not say grows with its role."""
    return str(getattr(item, "direction", "lower" if item.role == "risk" else "higher"))


def _check_axes(risk: Any, utility: Any, columns: Sequence[str]) -> None:
    for role, given in (("risk", risk), ("utility", utility)):
        name = given.column if isinstance(given, Column) else given
        if isinstance(name, str) and name not in columns:
            raise InputError(f"The {role} names a column that is not there", name, suggest(name, columns))


# -- the work ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What one measure said of one release: numbers only, nothing about single records."""

    value: float
    error: float
    parts: dict[str, float]

    @classmethod
    def of(cls, result: Any) -> Outcome:
        return cls(float(result), float(getattr(result, "error", 0.0)), dict(getattr(result, "parts", {})))


def _compare(prepared: Sequence[Callable[[Any], Any]], released: Any) -> list[Outcome]:
    return [Outcome.of(p(released)) for p in prepared]


def _run(
    prepared: Sequence[Callable[[Any], Any]], data: Any, mask: Mask, seeds: Sequence[np.random.SeedSequence], tell: Any = None
) -> list[list[Outcome]]:
    """Apply one mask once per seed and measure. Must stay importable: workers look it up by name."""
    found: list[list[Outcome]] = []
    last: Any = None
    with about(str(mask)):
        for r, seed in enumerate(seeds):
            rng = as_generator(seed)
            before = rng.bit_generator.state
            released = mask.release(data, rng)
            # A release that is the last one again, as a mask without randomness gives, has the same numbers.
            found.append(found[-1] if last is not None and _equal(last, released) else _compare(prepared, released))
            if rng.bit_generator.state == before and rng.bit_generator.seed_seq.n_children_spawned == 0:  # type: ignore[attr-defined]
                # It took no random number, so it will give the same every time.
                return found * len(seeds) if r == 0 else found + found[-1:] * (len(seeds) - r - 1)
            last = released
            if tell is not None:
                tell((r + 1) / len(seeds))
    return found


def _equal(a: Any, b: Any) -> bool:
    return bool(a.equals(b)) if isinstance(a, (pd.DataFrame, pd.Series)) else bool(np.array_equal(a, b))


def _mean(values: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """Mean over replicates and its error.

    The error is the standard error over replicates or, where it is larger, the measure's own: its draws are the same for
    every replicate, so they do not average out.
    """
    x = np.asarray(values, dtype=np.float64)
    own = float(np.sqrt(np.mean(np.square(errors))))
    if len(x) == 1 or np.all(x == x[0]):
        return float(x[0]), own
    mean = float(x.mean())
    if not np.isfinite(mean):
        return mean, np.nan if np.isnan(mean) else np.inf
    return mean, max(float(x.std(ddof=1) / np.sqrt(len(x))), own)
