"""Setting values beyond a bound to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..channels.steps import About, ClipTo, Step
from ..checks import as_float_array
from ..errors import InputError
from ..protocols import Array
from .base import Mask
from .columnkinds import as_columns
from .round import per_column


@dataclass(frozen=True, repr=False)
class Clip(Mask):
    """Set values beyond a bound to it: the natural bounds of what noise gives out (Duncan et al., 2001, eq. 11).

    Parameters
    ----------
    lower, upper : float or one number per column, optional
        The bounds; at least one of them.
    columns : names or positions, optional
        Numeric columns, all of them if not given. Missing values stay missing; whole numbers stay so where they can.

    >>> Clip(lower=0).release([-1, 2, 30])
    array([ 0,  2, 30])
    """

    lower: Any = None
    upper: Any = None
    columns: Any = None

    def __post_init__(self) -> None:
        if self.lower is None and self.upper is None:
            raise InputError("Clip needs lower or upper", "neither", "Write Clip(lower=0)")
        for name, value in zip(("lower", "upper"), as_bounds(self.lower, self.upper), strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "columns", as_columns("columns", self.columns))

    def steps(self, about: About, numbers: Array) -> list[Step]:
        columns = about.positions(self.columns)
        low, high = (
            per_column(name, end if value is None else value, len(columns))
            for name, value, end in (("lower", self.lower, -np.inf), ("upper", self.upper, np.inf))
        )
        return [ClipTo(columns=columns, lower=low, upper=high)]


def as_bounds(lower: Any, upper: Any) -> tuple[Any, Any]:
    """Return bounds as numbers or tuples of one number per column."""
    kept: list[Any] = []
    for name, value in (("lower", lower), ("upper", upper)):
        if value is None:
            kept.append(None)
            continue
        array = as_float_array(name, value)
        if array.ndim > 1 or array.size == 0 or np.isnan(array).any():
            raise InputError(f"{name} must be a number or one number per column", value, f"Write {name}=0")
        kept.append(float(array) if array.ndim == 0 else tuple(array.tolist()))
    if lower is not None and upper is not None:
        low, high = np.atleast_1d(kept[0]), np.atleast_1d(kept[1])
        if len(low) != len(high) and 1 not in (len(low), len(high)):
            raise InputError(
                "lower and upper must be for the same columns",
                f"{len(low)} and {len(high)} numbers",
                "Give one number per column",
            )
        if np.any(low >= high):
            raise InputError(
                "lower must lie below upper", {"lower": lower, "upper": upper}, "Swap them, or leave one out"
            )
    return kept[0], kept[1]
