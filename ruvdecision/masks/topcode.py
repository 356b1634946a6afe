"""Cutting off the tails: top- and bottom-coding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..channels.steps import About, ClipTo, MeanOfTail, Opaque, Step
from ..checks import as_float_array, check_choice
from ..errors import InputError
from ..protocols import Array
from .applying import replace_keeping_integers
from .base import Mask
from .columnkinds import as_columns
from .frame import Frame


@dataclass(frozen=True, repr=False)
class _Tail(Mask):
    """What top- and bottom-coding share; a subclass says on which side its tail lies."""

    at: Any = None
    quantile: Any = None
    replace: str = "threshold"
    columns: Any = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        if (self.at is None) == (self.quantile is None):
            raise InputError(
                f"{name} needs at or quantile",
                {"at": self.at, "quantile": self.quantile},
                f"Give one of them, {name}(at=100_000)",
            )
        unit = "at" if self.at is not None else "quantile"
        value = as_float_array(unit, getattr(self, unit))
        if value.ndim > 1 or value.size == 0 or not np.all(np.isfinite(value)):
            raise InputError(
                f"{unit} must be a number, or one per column",
                getattr(self, unit),
                f"Write {name}({unit}={'100_000' if unit == 'at' else '0.99'})",
            )
        if unit == "quantile" and (np.any(value <= 0) or np.any(value >= 1)):
            raise InputError("quantile must lie in (0, 1)", self.quantile, "Write quantile=0.99")
        object.__setattr__(self, unit, float(value) if value.ndim == 0 else tuple(value.tolist()))
        check_choice("replace", self.replace, ("threshold", "mean", "median"))
        object.__setattr__(self, "columns", as_columns("columns", self.columns))

    def thresholds(self, values: Array) -> Array:
        """The threshold of each column of ``values``, missing values left out."""
        k = values.shape[1]
        given = np.atleast_1d(np.asarray(self.at if self.at is not None else self.quantile))
        if len(given) not in (1, k):
            raise InputError(
                f"{type(self).__name__} must have {k} thresholds, one per column",
                len(given),
                "Give one number, or one per column",
            )
        given = np.broadcast_to(given, k)
        if self.at is not None:
            return given
        known = [values[~np.isnan(values[:, j]), j] for j in range(k)]
        if np.isinf(values).any():
            raise InputError(
                "Quantiles need finite values",
                f"{int(np.isinf(values).sum())} infinite ones",
                "Give the threshold itself with at=",
            )
        return np.array([np.quantile(x, q) if len(x) else np.nan for x, q in zip(known, given, strict=True)])

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        values, positions = frame.numeric(type(self).__name__, self.columns, missing=True)
        out = values.copy()
        for j, threshold in enumerate(self.thresholds(values)):
            tail = self._beyond(values[:, j], threshold)
            if tail.any():
                inside = values[tail, j]
                if self.replace != "threshold" and np.isinf(inside).any():
                    raise InputError(
                        f"The {self.replace} of a tail needs finite values",
                        f"infinite ones in column {frame.columns[positions[j]]!r}",
                        'Use replace="threshold", or replace them first',
                    )
                out[tail, j] = (
                    threshold
                    if self.replace == "threshold"
                    else inside.mean()
                    if self.replace == "mean"
                    else np.median(inside)
                )
        return replace_keeping_integers(frame, out, positions)

    def steps(self, about: About, numbers: Array) -> list[Step]:
        if self.at is None:
            return [
                Opaque(why="its threshold is a quantile of the whole file", do="Give the threshold itself with at=")
            ]
        if self.replace == "median":
            why = "the median of a tail depends on all records in it"
            return [Opaque(why=why, do='Use replace="threshold" or replace="mean"')]
        columns = about.positions(self.columns)
        at, top = self.thresholds(np.zeros((1, len(columns)))), self._end > 0
        if self.replace == "mean":
            return [MeanOfTail(columns=columns, at=at, above=top)]
        low, high = np.full(len(columns), -np.inf), np.full(len(columns), np.inf)
        return [ClipTo(columns=columns, lower=low if top else at, upper=at if top else high)]

    _end: ClassVar[float] = np.inf

    def _beyond(self, column: Array, threshold: float) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class Topcode(_Tail):
    """Replace values above a threshold.

    Parameters
    ----------
    at : float or one number per column, optional
        The threshold; values above it are replaced, the threshold itself is not.
    quantile : float or one number per column, optional
        The threshold as a quantile of the column (linear between order statistics, missing values left out).
    replace : {"threshold", "mean", "median"}, default "threshold"
        What stands in their place: the threshold, or the mean or median of the column's values above it. The mean keeps
        the column's mean.
    columns : names or positions, optional
        Numeric columns, all of them if not given. Missing values stay missing; whole numbers stay so where they can.

    >>> Topcode(at=10).release([1, 9, 50])
    array([ 1,  9, 10])
    >>> Topcode(at=10, replace="mean").release([1.0, 20.0, 50.0])
    array([ 1., 35., 35.])
    """

    def _beyond(self, column: Array, threshold: float) -> Any:
        return column > threshold


@dataclass(frozen=True, repr=False)
class Bottomcode(_Tail):
    """Replace values below a threshold; arguments as for `Topcode`.

    >>> Bottomcode(quantile=0.25).release([1.0, 2.0, 3.0, 4.0, 5.0])
    array([2., 2., 3., 4., 5.])
    """

    _end: ClassVar[float] = -np.inf

    def _beyond(self, column: Array, threshold: float) -> Any:
        return column < threshold
