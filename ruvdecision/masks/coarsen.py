"""Making numbers coarser: bounds, cut-off tails, multiples of a base."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..channels.steps import ClipTo, FileFacts, MeanOfTail, Opaque, RoundTo, Step
from ..checks import Columns, check_choice, check_numbers, check_one_of, check_per, checked
from ..errors import InputError
from ..protocols import Array
from .base import Mask
from .columns import as_columns, replace_keeping_integers
from .frame import Frame

_check_bound = partial(check_numbers, what="a number or one number per column", infinite=True)
_check_threshold = partial(check_numbers, what="a number, or one per column")
_check_positive = partial(check_numbers, what="a positive number, or one per column", low=0, open_low=True)


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

    lower: Any = checked(None, _check_bound, do="Write lower=0")
    upper: Any = checked(None, _check_bound, do="Write upper=0")
    columns: Columns = checked(None, as_columns)

    def __post_init__(self) -> None:
        if self.lower is None and self.upper is None:
            raise InputError("Clip needs lower or upper", "neither", "Write Clip(lower=0)")
        super().__post_init__()
        if self.lower is None or self.upper is None:
            return
        low, high = np.atleast_1d(self.lower), np.atleast_1d(self.upper)
        if len(low) != len(high) and 1 not in (len(low), len(high)):
            got = f"{len(low)} and {len(high)} numbers"
            raise InputError("lower and upper must be for the same columns", got, "Give one number per column")
        if np.any(low >= high):
            got_both = {"lower": self.lower, "upper": self.upper}
            raise InputError("lower must lie below upper", got_both, "Swap them, or leave one out")

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        columns = about.positions(self.columns)
        low = check_per("lower", -np.inf if self.lower is None else self.lower, len(columns))
        high = check_per("upper", np.inf if self.upper is None else self.upper, len(columns))
        return [ClipTo(columns=columns, lower=low, upper=high)]


@dataclass(frozen=True, repr=False)
class Topcode(Mask):
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

    at: Any = checked(None, _check_threshold, do="Write at=100_000")
    quantile: Any = checked(None, _check_threshold, do="Write quantile=0.99")
    replace: str = checked("threshold", check_choice, options=("threshold", "mean", "median"))
    columns: Columns = checked(None, as_columns)

    top: ClassVar[bool] = True
    """Whether the tail lies above the threshold."""

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_one_of(name, {"at": self.at, "quantile": self.quantile}, f"Write {name}(at=100_000)")
        super().__post_init__()
        if self.quantile is not None and not np.all((np.asarray(self.quantile) > 0) & (np.asarray(self.quantile) < 1)):
            raise InputError("quantile must lie in (0, 1)", self.quantile, "Write quantile=0.99")

    def thresholds(self, values: Array) -> Array:
        """The threshold of each column of ``values``, missing values left out."""
        k = values.shape[1]
        name, said = ("quantile", self.quantile) if self.at is None else ("at", self.at)
        given = check_per(f"{name} of {type(self).__name__}", said, k)
        if self.at is not None:
            return given
        if infinite := int(np.isinf(values).sum()):
            got = f"{infinite} infinite ones"
            raise InputError("Quantiles need finite values", got, "Give the threshold itself with at=")
        known = [column[~np.isnan(column)] for column in values.T]
        return np.array([np.quantile(x, q) if len(x) else np.nan for x, q in zip(known, given, strict=True)])

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        values, positions = frame.numeric(type(self).__name__, self.columns, missing=True)
        out = values.copy()
        for j, threshold in enumerate(self.thresholds(values)):
            tail = values[:, j] > threshold if self.top else values[:, j] < threshold
            if not tail.any():
                continue
            inside = values[tail, j]
            if self.replace != "threshold" and np.isinf(inside).any():
                raise InputError(
                    f"The {self.replace} of a tail needs finite values",
                    f"infinite ones in column {frame.columns[positions[j]]!r}",
                    'Use replace="threshold", or replace them first',
                )
            centre = np.mean if self.replace == "mean" else np.median
            out[tail, j] = threshold if self.replace == "threshold" else centre(inside)
        return replace_keeping_integers(frame, out, positions)

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        if self.at is None:
            why = "its threshold is a quantile of the whole file"
            return [Opaque(why=why, do="Give the threshold itself with at=")]
        if self.replace == "median":
            why = "the median of a tail depends on all records in it"
            return [Opaque(why=why, do='Use replace="threshold" or replace="mean"')]
        columns = about.positions(self.columns)
        at = self.thresholds(np.zeros((1, len(columns))))
        if self.replace == "mean":
            return [MeanOfTail(columns=columns, at=at, above=self.top)]
        low, high = np.full(len(columns), -np.inf), np.full(len(columns), np.inf)
        return [ClipTo(columns=columns, lower=low if self.top else at, upper=at if self.top else high)]


@dataclass(frozen=True, repr=False)
class Bottomcode(Topcode):
    """Replace values below a threshold; arguments as for `Topcode`.

    >>> Bottomcode(quantile=0.25).release([1.0, 2.0, 3.0, 4.0, 5.0])
    array([2., 2., 3., 4., 5.])
    """

    top: ClassVar[bool] = False


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

    base: Any = checked(MISSING, _check_positive, do="Write Round(base=100)")
    random: bool = False
    columns: Columns = checked(None, as_columns)

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        columns = about.positions(self.columns)
        return [RoundTo(columns=columns, base=check_per("base", self.base, len(columns)), random=bool(self.random))]
