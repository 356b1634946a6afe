"""How a report writes numbers, and the numbers of a map."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..maps.rumap import RUMap

HEADS = {"intruder_uncertainty": "intruder's U", "scientist_uncertainty": "scientist's U"}
"""What a table calls a column, where that is not the column's name."""


def number(x: float, digits: int = 6) -> str:
    """A number with so many digits, infinity as its sign, and a word where there is none.

    >>> number(2.6509803921), number(float("inf")), number(float("nan"))
    ('2.65098', '∞', 'none')
    """
    return "none" if math.isnan(x) else f"{x:.{digits}g}".replace("inf", "∞").replace("-", "−")


def value(x: Any, error: Any = 0.0) -> str:
    """A number with its standard error, where it has one.

    >>> value(0.5, 0.03), value(0.5)
    ('0.5 ± 0.03', '0.5')
    """
    x, error = float(x), float(error)
    if math.isnan(error) or math.isinf(error):
        return f"{number(x)} ± unknown"
    return number(x) + (f" ± {number(error, 2)}" if error > 0 else "")


def count(size: int, what: str) -> str:
    """A number of things.

    >>> count(1, "release"), count(4000, "release")
    ('1 release', '4,000 releases')
    """
    return f"{size:,} {what}" + "s" * (size != 1)


def user_columns(rumap: RUMap) -> list[str]:
    """Risk, utility and the uncertainties that the map has."""
    users = [f"{who}_uncertainty" for who in ("intruder", "scientist") if getattr(rumap, who) is not None]
    return ["risk", "utility", *users]


def entry(rumap: RUMap, column: str, i: int) -> str:
    """An entry of a map's table, with its error where it has one."""
    if column == "engine":
        return rumap.engine[i]
    if column in ("risk", "utility"):
        return value(getattr(rumap, column)[i], getattr(rumap, f"{column}_error")[i])
    if column.endswith("_uncertainty"):
        pair = getattr(rumap, column.removesuffix("_uncertainty"), None)
        if pair is not None and column not in rumap.columns:
            return value(pair.value[i], pair.error[i])
    found = rumap.columns[column][i].item()
    if isinstance(found, (str, bool)):
        return str(found)
    error = rumap.columns.get(f"{column}_error")
    return value(found, 0.0 if error is None or error.dtype.kind not in "biuf" else error[i])


Kind = TypeVar("Kind", bound=np.generic)


def evenly(rows: NDArray[Kind], most: int) -> NDArray[Kind]:
    """At most so many of the rows, at even distances, with both ends."""
    return rows if rows.size <= most else rows[np.unique(np.linspace(0, rows.size - 1, most).round().astype(int))]
