"""Rounding values to multiples of a base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..channels.steps import About, RoundTo, Step
from ..checks import as_float_array
from ..errors import InputError
from ..protocols import Array
from .base import Mask
from .columnkinds import as_columns


@dataclass(frozen=True, repr=False)
class Round(Mask):
    """Round values to multiples of a base.

    Parameters
    ----------
    base : float or one number per column
        Values become multiples of it.
    random : bool, default False
        Round up or down at random, with the probabilities that keep every value in expectation; multiples of the base
        stay. Otherwise values go to the nearest multiple, and halfway ones to the even multiple.
    columns : names or positions, optional
        Numeric columns to round, all of them if not given. Missing values stay missing. Whole numbers stay whole
        numbers if the base is one.

    >>> Round(base=5).release([1, 7, 13])
    array([ 0,  5, 15])
    """

    base: Any
    random: bool = False
    columns: Any = None

    def __post_init__(self) -> None:
        base = as_float_array("base", self.base)
        if base.ndim > 1 or base.size == 0 or not np.all(np.isfinite(base)) or np.any(base <= 0):
            raise InputError("base must be a positive number, or one per column", self.base, "Write Round(base=100)")
        object.__setattr__(self, "base", float(base) if base.ndim == 0 else tuple(base.tolist()))
        if not isinstance(self.random, (bool, np.bool_)):
            raise InputError(
                "random must be True or False", self.random, "Leave it out to round to the nearest multiple"
            )
        object.__setattr__(self, "columns", as_columns("columns", self.columns))

    def steps(self, about: About, numbers: Array) -> list[Step]:
        columns = about.positions(self.columns)
        return [RoundTo(columns=columns, base=per_column("base", self.base, len(columns)), random=bool(self.random))]


def per_column(name: str, value: Any, k: int) -> Array:
    """One number for each of k columns."""
    given = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if len(given) not in (1, k):
        raise InputError(
            f"{name} must have {k} entries, one per column", len(given), "Give one number, or one per column"
        )
    return np.array(np.broadcast_to(given, (k,)))
