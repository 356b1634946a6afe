"""Measures for those who name none: the default panel, and batteries of all that suit a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields

from .. import measures
from ..checks import check_choice, check_integer
from ..errors import InputError, RuvError, kind_of
from .base import Measure
from .comparison import Panel
from .frames import PairingError

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
}
"""Most records of measures whose time grows with their square, for a battery that nobody wants to wait for."""


def panel(name: str | None = None, rows: int = 0, make: Callable[[type[Measure]], Measure] | None = None) -> Panel:
    """The default panel, or the battery "risk", "utility" or "all": a list of measures for `ruv.measure`.

    A battery has every measure that can do without being told more (a model, a population, an unknown column). Which of
    them suit a file shows when they meet it: the map's notes say what was left out, and why.

    Parameters
    ----------
    name : str, optional
        The battery.
    rows : int
        Size of the file: measures whose time grows with its square are left out where it is large.
    make : callable, optional
        Makes a measure from its class, with settings of your own; it may refuse with an `InputError`.

    >>> [type(m).__name__ for m in (panel()[0], panel()[-1])]
    ['RecordLinkage', 'GeneralUtility']
    >>> len(panel("all")) == len(panel("risk")) + len(panel("utility"))
    True
    """
    rows = check_integer("rows", rows, low=0)
    if make is not None and not callable(make):
        raise InputError("make must be a function of a measure's class", kind_of(make), "Leave it out")
    if name is None:
        kinds = [getattr(measures, k) for k in DEFAULT if k in dir(measures)]
    else:
        role = check_choice("measures", name, BATTERIES)
        kinds = [k for k in labelled_measures().values() if role in ("all", k.role)]
    why: dict[str, list[str]] = {"they need arguments": [], f"they take long for {rows:,} records": []}
    found = []
    for kind in kinds:
        if name is not None and _asks_more(kind):
            why["they need arguments"].append(kind.label)
        elif name is not None and rows > QUADRATIC.get(kind.__name__, rows):
            why[f"they take long for {rows:,} records"].append(kind.label)
        else:
            try:
                found.append(kind() if make is None else make(kind))
            except InputError as error:
                if name is None:
                    raise
                why.setdefault(error.what, []).append(kind.label)
    # What the default shows stands first: it is the axis.
    found.sort(key=lambda m: type(m).__name__ not in DEFAULT)
    notes = [f"Left out because {reason}: {', '.join(names)}." for reason, names in why.items() if names]
    return Panel(found, notes, PairingError if name is None else RuvError)


def labelled_measures() -> dict[str, type[Measure]]:
    """Every measure that can be named on a command line: the name of its column, and its class."""
    kinds = [getattr(measures, name) for name in dir(measures) if name[0].isupper()]
    return {k.label: k for k in kinds if inspect.isclass(k) and issubclass(k, Measure) and k.label}


def _asks_more(kind: type[Measure]) -> bool:
    """True if a measure cannot be made without arguments, or is about several copies."""
    asked = [f for f in fields(kind) if f.init and f.default is None]
    return kind.takes_copies or any(f.metadata.get("required") or f.name in ("model", "holdout") for f in asked)
