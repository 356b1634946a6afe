"""Fixed rules: what a snooper makes of a release instead of using Bayes' rule.

A rule takes a release and gives back an estimate. `as_rule` reads one from a name, a target (the same function of the
release that the target is of the records) or any callable. To add one, derive from `Rule` and define `of`; define
`weights` too if it is linear, and closed forms understand it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import (
    Data,
    as_float_array,
    check_finite,
    check_index,
    check_integer,
    check_number,
    name_of,
    refuse_class,
    suggest,
)
from ..errors import InputError, describe_failure
from ..masks.frame import Frame
from ..numerics.differences import affine_form
from ..protocols import Array
from ..targets import BaseTarget, Kind, Maximum, Minimum, Percentile, is_target

LARGEST_PROBED = 500
"""In larger files a callable rule is not tried for linearity, which takes one call per record."""


class Released:
    """Released values of several replicates, ``(replicates, n, k)``, complete; rules that use them share a sort."""

    def __init__(self, values: Array) -> None:
        self._given = values

    @cached_property
    def values(self) -> Array:
        return self._given

    @cached_property
    def _sorted_values(self) -> Array:
        # Rows last: numpy sorts runs of neighbouring numbers several times faster.
        return np.sort(np.ascontiguousarray(np.swapaxes(self.values, -1, -2)), axis=-1)

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self._given.shape[-2])

    def row(self, place: int) -> Array:
        """One row, ``(replicates, k)``."""
        return np.asarray(self.values[..., place, :])

    def ranked(self, rank: int) -> Array:
        """The values of a rank, ``(replicates, k)``."""
        if rank == self.n:
            return np.asarray(self.values.max(axis=-2))
        return np.asarray(self.values.min(axis=-2) if rank == 1 else self._sorted_values[..., rank - 1])


@dataclass(frozen=True)
class Rule:
    """Base of all rules."""

    said: ClassVar[str] = "a rule of their own"
    """What is taken, in words."""
    averages: ClassVar[bool] = False
    """Whether it is the mean of what is released."""
    as_released: ClassVar[bool] = False
    """Whether it takes a release as it went out, not its values."""

    def of(self, values: Array) -> Array:
        """Estimates from released values ``(..., n, k)``, shape ``(..., k)``.

        NaN where nothing was released for them.
        """
        raise NotImplementedError

    def weights(self, present: NDArray[np.bool_]) -> Array | None:
        """Weight of every released entry ``(n, k)`` if the rule is linear, else None.

        ``present`` says what is released.
        """
        return None

    def constant(self) -> float:
        """What a linear rule adds."""
        return 0.0

    @property
    def by_index(self) -> bool:
        """Whether it is the row of the target's own record, which only the records tell."""
        return False

    def rank(self, n: int) -> int | None:
        """The rank that it takes among ``n`` released values, None for other rules."""
        return None

    def estimates(self, released: Released, vector: bool) -> Array:
        """Estimates from complete releases, ``(replicates, k)``; ``vector`` says that a release is one variable."""
        return self.of(released.values)

    def as_linear(self, n: int, k: int, vector: bool) -> Rule | None:
        """The rule for ``n`` rows and ``k`` columns with its weights, None if it is not linear."""
        return None if self.weights(np.ones((n, k), dtype=bool)) is None else self

    def describe(self) -> str:
        """What is taken, in words."""
        return self.said

    def __call__(self, release: Data) -> float | Array:
        """The estimate from one release of any kind: a number, or a vector for several variables."""
        frame = Frame.of(release)
        found = self.of(frame.numeric(f"The rule {self}", missing=True)[0])
        return float(found[0]) if found.shape == (1,) else found


@dataclass(frozen=True)
class Mean(Rule):
    """The mean of the released values, of each variable apart.

    >>> Mean()([1.0, 2.0, 6.0])
    3.0
    """

    said: ClassVar[str] = "the mean of the release"
    averages: ClassVar[bool] = True

    def of(self, values: Array) -> Array:
        if not np.isnan(values).any():
            return np.asarray(values.mean(axis=-2))
        present = ~np.isnan(values)
        count = present.sum(axis=-2)
        total = np.where(present, values, 0.0).sum(axis=-2)
        return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))

    def weights(self, present: NDArray[np.bool_]) -> Array:
        count = present.sum(axis=0)
        return np.where(present, 1.0 / np.maximum(count, 1), 0.0)


@dataclass(frozen=True)
class Row(Rule):
    """One row of the release, counted from 0; without a number the row of the target's own record.

    ``Row()`` is index knowledge: for `Record(j)` it is row j, for `Maximum()` the row in which the largest
    confidential record stands. Duncan et al. (2001), eq. 4 and section V.

    >>> Row(1)([1.0, 2.0, 6.0])
    2.0
    """

    row: int | None = None

    def __post_init__(self) -> None:
        if self.row is not None:
            object.__setattr__(self, "row", check_integer("row", self.row))

    def of(self, values: Array) -> Array:
        return np.asarray(values[..., self.place(values.shape[-2]), :])

    def weights(self, present: NDArray[np.bool_]) -> Array:
        found = np.zeros(present.shape)
        found[self.place(len(present))] = 1.0
        return found

    @property
    def by_index(self) -> bool:
        return self.row is None

    def estimates(self, released: Released, vector: bool) -> Array:
        return released.row(self.place(released.n))

    def as_linear(self, n: int, k: int, vector: bool) -> Rule | None:
        return None if self.by_index else self

    def place(self, n: int) -> int:
        """The row as a position among ``n``."""
        if self.row is None:
            what = "Row() stands for the row of the target's record, which a release does not tell"
            raise InputError(what, None, "Give the row, Row(3)")
        return check_index("The row of a rule", self.row, n)

    def describe(self) -> str:
        return "the released row of the target" if self.row is None else f"row {self.row} of the release"


@dataclass(frozen=True)
class Ranked(Rule):
    """The released value of a given rank: position knowledge. ``target`` says which rank, as it does for records.

    Among m released values `Percentile(p)` is the one of rank ceil(m p). Duncan et al. (2001), section V.

    >>> Ranked(Percentile(0.5))([1.0, 6.0, 2.0, 9.0])
    2.0
    """

    target: BaseTarget

    def __post_init__(self) -> None:
        if not (is_target(self.target) and self.target.is_order_statistic):
            do = "Use Maximum(), Minimum(), Percentile(p) or OrderStatistic(rank)"
            raise InputError("Ranked needs a target with a rank", self.target, do)

    def of(self, values: Array) -> Array:
        missing = np.isnan(values)
        if not missing.any():
            return Released(values).ranked(self.rank(values.shape[-2]))
        count = values.shape[-2] - missing.sum(axis=-2)
        ranks = np.zeros(count.shape, dtype=np.int64)
        for m in np.unique(count[count > 0]):
            ranks[count == m] = self.rank(int(m)) - 1
        # NaN is sorted to the end.
        found = np.take_along_axis(np.sort(values, axis=-2), ranks[..., None, :], axis=-2)[..., 0, :]
        return np.asarray(np.where(count > 0, found, np.nan))

    def rank(self, n: int) -> int:
        rank = self.target.rank(n)
        assert rank is not None  # as checked
        return rank

    def estimates(self, released: Released, vector: bool) -> Array:
        return released.ranked(self.rank(released.n))

    def describe(self) -> str:
        return self.target.describe().replace("record", "released value").replace(" n)", " m) of the m released")


@dataclass(frozen=True)
class Median(Rule):
    """The median of the released values, of each variable apart: of an even number the mean of the two middle ones.

    The lower of the two is ``Ranked(Percentile(0.5))``, or ``"lower median"``.

    >>> Median()([1.0, 6.0, 2.0, 9.0])
    4.0
    """

    said: ClassVar[str] = "the median of the release"

    def of(self, values: Array) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # where nothing was released there is no median
            return np.asarray(np.nanmedian(values, axis=-2))

    def rank(self, n: int) -> int | None:
        return (n + 1) // 2 if n % 2 else None

    def estimates(self, released: Released, vector: bool) -> Array:
        n = released.n
        return (released.ranked((n + 1) // 2) + released.ranked(n // 2 + 1)) / 2


@dataclass(frozen=True)
class WeightedSum(Rule):
    """A weighted sum of the released rows plus a constant, such as a mean that is shrunk.

    Parameters
    ----------
    coefficients : vector
        One weight per row, the same for every variable.
    offset : float, default 0
        What is added.

    >>> WeightedSum([0.5, 0.5, 0.0], offset=1.0)([1.0, 2.0, 6.0])
    2.5
    """

    said: ClassVar[str] = "a weighted sum of the release"
    coefficients: Sequence[float] | Array
    offset: float = 0.0

    def __post_init__(self) -> None:
        array = check_finite("coefficients", as_float_array("coefficients", self.coefficients))
        if array.ndim != 1 or array.size == 0:
            what = "coefficients must be one number per row"
            raise InputError(what, f"shape {array.shape}", "Write WeightedSum([0.5, 0.5])")
        object.__setattr__(self, "coefficients", tuple(array.tolist()))
        object.__setattr__(self, "offset", check_number("offset", self.offset))

    def of(self, values: Array) -> Array:
        each = self._check_coefficients(values.shape[-2])
        used = each != 0
        return np.asarray(np.einsum("...nk,n->...k", values[..., used, :], each[used]) + self.offset)

    def weights(self, present: NDArray[np.bool_]) -> Array:
        return np.broadcast_to(self._check_coefficients(len(present))[:, None], present.shape).copy()

    def constant(self) -> float:
        return self.offset

    def _check_coefficients(self, n: int) -> Array:
        if len(self.coefficients) != n:
            what = f"The rule needs one coefficient for each of the {n} rows"
            raise InputError(what, len(self.coefficients), "Give one weight per row")
        return np.asarray(self.coefficients)


@dataclass(frozen=True)
class Custom(Rule):
    """Any function of a release that gives back a number or a vector.

    The function gets the release as the mask gave it out: of the kind that the data are, an array where they are
    drawn from a belief.
    """

    function: Callable[..., ArrayLike]

    def __post_init__(self) -> None:
        if not callable(self.function):
            do = "Write lambda release: release.mean()"
            raise InputError("A rule must be a function of the release", self.function, do)

    as_released: ClassVar[bool] = True

    def __call__(self, release: Data) -> Array:
        """The estimate as an array of numbers."""
        try:
            return np.asarray(self.function(release), dtype=np.float64)
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, ZeroDivisionError) as error:
            what = f"{self.describe()[0].upper()}{self.describe()[1:]} fails on a release"
            raise InputError(what, describe_failure(error), "Check the function") from None

    def estimates(self, released: Released, vector: bool) -> Array:
        return np.stack([np.atleast_1d(self(y[:, 0] if vector else y)).ravel() for y in released.values])

    def as_linear(self, n: int, k: int, vector: bool) -> WeightedSum | None:
        """The weights of a function that is linear, found by trying it; None if it is not, or too large to try."""
        if k != 1 or n > LARGEST_PROBED:
            return None

        def each(points: Array) -> Array:
            return np.array([self(x if vector else x[:, None]).reshape(()) for x in points])

        found = affine_form(each, n)
        return None if found is None else WeightedSum(found[0][0], float(found[1][0]))

    def describe(self) -> str:
        name = name_of(self.function)
        return f"the rule {name}" if name else self.said


NAMED = {
    "mean": Mean(),
    "median": Median(),
    "lower median": Ranked(Percentile(0.5)),
    "row": Row(),
    "max": Ranked(Maximum()),
    "min": Ranked(Minimum()),
}


def as_rule(estimator: str | Rule | BaseTarget | Callable[..., ArrayLike]) -> Rule:
    """Return a rule from a rule, a name, a target or a callable.

    >>> from ruvdecision.targets import Record
    >>> as_rule("max"), as_rule(Record(3))
    (Ranked(target=Maximum()), Row(row=3))
    """
    names = ", ".join(map(repr, NAMED))
    if isinstance(estimator, Rule):
        return estimator
    if isinstance(estimator, str):
        if estimator not in NAMED:
            raise InputError(f"An estimator's name must be one of {names}", estimator, suggest(estimator, list(NAMED)))
        return NAMED[estimator]
    refuse_class("An estimator", estimator)
    if is_target(estimator):
        if estimator.is_a(Kind.AVERAGE):
            return Mean()
        if estimator.is_a(Kind.RECORD):
            return Row(estimator.terms[0].row)
        if estimator.is_order_statistic:
            return Ranked(estimator)
    if callable(estimator):
        return Custom(estimator)
    what = f"An estimator must be one of {names}, a rule, or a function of the release"
    raise InputError(what, estimator, 'Use "mean" or Row(3), for example')


def order_rows(values: Array, rank: int) -> NDArray[np.int64]:
    """Which row holds the record of a rank, for each variable: ``(..., n, k)`` to ``(..., k)``. Ties in file order."""
    if rank == 1:
        return np.argmin(values, axis=-2)
    if rank == values.shape[-2]:
        # The last of equals has the highest rank.
        return np.asarray(values.shape[-2] - 1 - np.argmax(np.flip(values, axis=-2), axis=-2))
    return np.take(np.argsort(values, axis=-2, kind="stable"), rank - 1, axis=-2)
