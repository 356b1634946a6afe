"""Rounding values to multiples of a base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..checks import as_float_array
from ..errors import InputError
from ..protocols import Array
from .base import Mask
from .columnkinds import as_columns, put, real_like
from .frame import Frame

if TYPE_CHECKING:
    from ..channels.likelihood import Observed

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
        base = np.atleast_1d(np.asarray(self.base))
        if len(base) not in (1, values.shape[1]):
            raise InputError(
                f"base must have {values.shape[1]} entries, one per column",
                len(base),
                "Give one number, or one per column",
            )
        base = np.broadcast_to(base, values.shape[1])
        with np.errstate(over="ignore"):  # beyond the range of numbers a value is a multiple, see below
            ratio = values / base
        nearest = np.rint(ratio)
        if self.random:
            lower = np.floor(ratio)
            with np.errstate(invalid="ignore"):  # infinite values are their own multiples
                up = rng.random(values.shape) < ratio - lower
                # 0.3 / 0.1 is not 3 in binary, yet 0.3 is a multiple of 0.1 and stays.
                multiple = np.abs(ratio - nearest) <= 1e-12 * np.maximum(np.abs(nearest), 1.0)
            nearest = np.where(multiple, nearest, lower + up)
        # Where a base is less than the last digit of a value, the value is a multiple of it.
        return replace_keeping_integers(
            frame, np.where(np.abs(ratio) >= 2.0**53, values, _multiples(nearest, base)), positions
        )

    def back(self, observed: Observed) -> Observed:
        """An interval of one base around a multiple, or the probabilities of rounding up and down to it."""
        from ..channels.likelihood import Observation
        from ..channels.likelihood.maps import Multiples
        from ..channels.likelihood.randomround import RandomMultiple
        from ..channels.likelihood.simple import Pieces, join

        positions = observed.positions(self.columns)
        base = np.atleast_1d(np.asarray(self.base))
        if len(base) not in (1, len(positions)):
            raise InputError(
                f"base must have {len(positions)} entries, one per column",
                len(base),
                "Give one number, or one per column",
            )
        base = np.broadcast_to(base, len(positions))

        def change(j: int, column: Observation) -> Observation:
            size = np.full(column.n, base[j])
            if not self.random:
                return column.before_map(Multiples(size))
            parts = column.parts if isinstance(column, Pieces) else ((np.arange(column.n), column),)
            return join(column.n, [(rows, RandomMultiple.of(part, size[rows])) for rows, part in parts])

        return observed.each(self, positions, change)


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


def _multiples(count: Array, base: Array) -> Array:
    """Multiples of the bases: 3 of 0.1 are 0.3, not 0.30000000000000004."""
    with np.errstate(over="ignore", invalid="ignore"):  # of bases near the smallest number
        inverse = np.rint(1.0 / base)
        fraction = (base < 1) & (np.abs(1.0 / base - inverse) < 1e-9 * inverse)
        return np.where(fraction, count / np.where(fraction, inverse, 1.0), count * base) + 0.0
