"""Measures for those who name none: the default panel, and batteries of all that suit a file."""

from __future__ import annotations

import inspect
from dataclasses import fields

from .. import measures
from ..checks import check_choice
from .base import Measure
from .comparison import Panel

DEFAULT = ("RecordLinkage", "ReplicatedUniques", "GeneralUtility")
"""How many records are found, how many unique records come out again (for files of any length), and what is kept."""
BATTERIES = ("risk", "utility", "all")
QUADRATIC = {
    "ClusteringAttack": 3000,
    "ClusteredPropensity": 3000,
    "Cluster": 3000,
    "FellegiSunter": 10_000,
    "MD": 20_000,
    "MCM": 20_000,
    "EnergyDistance": 20_000,
}
"""Most records of measures whose time grows with their square, for a battery that nobody wants to wait for."""


def panel(name: str | None = None, rows: int = 0) -> Panel:
    """The default panel, or the battery "risk", "utility" or "all": a list of measures for `ruv.measure`.

    A battery has every measure that can do without being told more (a model, a population, an unknown column). Which of
    them suit a file shows when they meet it: the map's notes say what was left out, and why. ``rows`` is the size of
    the file: measures whose time grows with its square are left out where it is large.

    >>> [type(m).__name__ for m in panel()][::2]
    ['RecordLinkage', 'GeneralUtility']
    >>> len(panel("all")) == len(panel("risk")) + len(panel("utility"))
    True
    """
    if name is None:
        return Panel(getattr(measures, kind)() for kind in DEFAULT if kind in measures.__all__)
    kinds = [k for k in _kinds(name) if not _asks_more(k) and not _takes_long(k, rows)]
    # What the default shows stands first: it is the axis.
    return Panel(kind() for kind in sorted(kinds, key=lambda k: k.__name__ not in DEFAULT))


def left_out(name: str | None, rows: int) -> list[str]:
    """What a battery does not try, and why, as notes of a map."""
    kinds = [] if name is None else _kinds(name)
    asking = [k.label for k in kinds if _asks_more(k)]
    slow = [k.label for k in kinds if not _asks_more(k) and _takes_long(k, rows)]
    notes = [f"Left out because they need arguments: {', '.join(asking)}."] if asking else []
    return notes + ([f"Left out because they take long for {rows:,} records: {', '.join(slow)}."] if slow else [])


def _kinds(name: str) -> list[type[Measure]]:
    """The measures of a battery."""
    role = check_choice("measures", name, BATTERIES)
    kinds = [getattr(measures, each) for each in measures.__all__]
    found = [k for k in kinds if inspect.isclass(k) and issubclass(k, Measure) and k.label]
    return [k for k in found if role in ("all", k.role)]


def _takes_long(kind: type[Measure], rows: int) -> bool:
    return rows > QUADRATIC.get(kind.__name__, rows)


def _asks_more(kind: type[Measure]) -> bool:
    """True if a measure cannot be made without arguments, or is about several copies."""
    asked = [f for f in fields(kind) if f.init and f.default is None]
    return kind.takes_copies or any(f.metadata.get("required") or f.name in ("model", "holdout") for f in asked)
