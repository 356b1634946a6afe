"""What measures said of releases: numbers only, averaged over replicates and put into columns of a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..checks import is_single
from ..errors import InputError, kind_of
from ..maps.columns import check_name
from ..maps.scores import Column
from ..protocols import Array, Measure
from .base import Measured

ROLES = ("risk", "utility")


class Finding(NamedTuple):
    """What one measure said of one release: numbers only, nothing about single records."""

    value: float
    error: float
    parts: dict[str, float]

    @classmethod
    def of(cls, result: float) -> Finding:
        """A number without what belongs to single records; a plain one has no error and no parts."""
        measured = Measured.of(result)
        return cls(float(measured), measured.error, measured.parts)


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
        self.found: list[list[list[Finding]]] = []
        self.notes: list[str] = []

    def describe(self) -> dict[str, Any]:
        """What a map's ``attrs`` should say: settings, no record."""
        return {"measures": [repr(m) for m in self.measures], "better": {m.name: better_end(m) for m in self.measures}}

    def finished(self) -> list[int]:
        """Positions of the releases that were measured; the others are left out from then on."""
        rows = [i for i, release in enumerate(self.found) if release]
        self.found = [self.found[i] for i in rows]
        return rows

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


def check_measures(measures: Any) -> list[Any]:
    """The measures, each with a name of its own, a role and a call."""
    several, do = not is_single(measures), "Write measures=[ruv.measures.RecordLinkage(), ruv.measures.NormalKL()]"
    if isinstance(measures, (str, Mapping)) or not (several or callable(measures)):
        raise InputError("measures must be a list of measures", kind_of(measures), do)
    chosen = list(measures) if several else [measures]
    if not chosen:
        raise InputError("measures must not be empty", [], do)
    for i, item in enumerate(chosen):
        if isinstance(item, type):
            raise InputError(f"measures[{i}] is a class", item.__name__, f"Write {item.__name__}()")
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


def better_end(item: Any) -> str:
    """Which values of a measure are better for the agency; one that does not say grows with its role."""
    return str(getattr(item, "direction", "lower" if item.role == "risk" else "higher"))


def _mean(values: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
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
