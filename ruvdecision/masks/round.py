"""Rounding values to multiples of a base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..channels.steps import About, RoundTo, Step
from ..checks import as_float_array
from ..errors import InputError
from ..protocols import Array
from .base import Mask
from .columnkinds import as_columns, put, real_like
from .frame import Frame

__all__ = ["Round", "replace_keeping_integers"]


@dataclass(frozen=True, repr=False)
class Round(Mask):
    """Round values to multiples of a base.

    Parameters
    ----------
    base : float or one number per column
        Values become multiples of it.
    random : bool, default False
        Round up or down at random, with the probabilities that keep every value in expectation; multiples of the base stay.
        Otherwise values go to the nearest multiple, and halfway ones to the even multiple.
    columns : names or positions, optional
        Numeric columns to round, all of them if not given. Missing values stay missing. Whole numbers stay whole numbers if
        the base is one.

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

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        values, positions = frame.numeric("Round", self.columns, missing=True)
        step = RoundTo(base=per_column("base", self.base, len(positions)), random=bool(self.random))
        return replace_keeping_integers(frame, step.apply(values, rng), positions)

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


def replace_keeping_integers(frame: Frame, values: Array, positions: list[int]) -> Frame:
    """Replace columns; an integer column stays one where all its new values are whole numbers of its range."""
    new: dict[int, Any] = {}
    for j, position in enumerate(positions):
        old, column = frame.table.iloc[:, position], values[:, j]
        known = column[~np.isnan(column)]
        if pd.api.types.is_integer_dtype(old.dtype) and np.all(known == np.rint(known)) and _fits(known, old.dtype):
            complete = len(known) == len(column)
            new[position] = (
                column.astype(np.int64).astype(old.dtype)
                if complete and isinstance(old.dtype, np.dtype)
                else pd.array(column, dtype="Float64").astype(old.dtype)
            )
        else:
            new[position] = real_like(column, old)
    return put(frame, new)


def _fits(whole: Array, dtype: Any) -> bool:
    """Whether whole numbers lie in the range of an integer type, and are small enough to be known to the last digit."""
    limits = np.iinfo(dtype if isinstance(dtype, np.dtype) else getattr(dtype, "numpy_dtype", np.int64))
    return bool(np.all((np.abs(whole) < 2.0**53) & (whole >= float(limits.min)) & (whole <= float(limits.max))))
