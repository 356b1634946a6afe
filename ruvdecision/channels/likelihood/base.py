"""What a release tells about one column of records, entry by entry, and what stands one step before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import InputError
from ...protocols import Array
from .mathematics import NUMPY, Mathematics, Values

if TYPE_CHECKING:
    from .entries import Between
    from .noisy import TransitionDensity

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Rows: TypeAlias = Ints | Bools | Sequence[int]
"""Some of the entries, as numpy indexes them."""
Pair = tuple[Array, Array]
"""Low and high ends, or centres and variances, of each entry."""


def no_cuts(n: int) -> Array:
    """The cuts of n entries with smooth likelihoods."""
    return np.empty((n, 0))


class PerEntry:
    """What says something of each of n entries: its fields that do are named once, and counted and picked by that."""

    per_entry: ClassVar[tuple[str, ...]] = ()
    """Fields that hold the entries: arrays with them along the last axis, or what is per entry itself."""

    @property
    def n(self) -> int:
        """Number of entries."""
        held = vars(self)[self.per_entry[0]]
        return int(held.shape[-1]) if isinstance(held, np.ndarray) else int(held.n)

    def take(self, rows: Rows) -> Self:
        """The same for some of the entries, by their positions."""
        held = {name: vars(self)[name] for name in self.per_entry}
        some = {name: v[..., rows] if isinstance(v, np.ndarray) else v.take(rows) for name, v in held.items()}
        return replace(self, **some) if some else self  # type: ignore[type-var]


class ColumnLikelihood(PerEntry):
    """What a release tells about one column: p(released | x) for each of n entries, as a function of one number x.

    Immutable. The likelihood is normalised in the *released* value: a density where that value is continuous, a
    probability where it has a point mass. `pulled_back` gives what is known one step further back.
    """

    @property
    def pieces(self) -> Sequence[tuple[Ints, ColumnLikelihood]]:
        """Rows of one kind each, with what is observed of them."""
        return ((np.arange(self.n), self),)

    # -- the likelihood ------------------------------------------------------------------------------

    def log(self, x: Values, math: Mathematics = NUMPY) -> Values:
        """Log likelihood of ``x``, which broadcasts to shape (..., n)."""
        raise NotImplementedError

    def log_label(self, label: Any) -> Array:
        """Log likelihood of the entries being this category, shape (n,)."""
        try:
            value = float(label)
        except (TypeError, ValueError):
            return np.full(self.n, -np.inf)
        return np.asarray(np.broadcast_to(self.log(np.full(self.n, value)), (self.n,)))

    @property
    def points_per_entry(self) -> int:
        """How many numbers one look at one entry takes."""
        return 1

    # -- where it lives ------------------------------------------------------------------------------

    @property
    def known_values(self) -> Array:
        """Value of x where it is known exactly, missing elsewhere; shape (n,)."""
        return np.full(self.n, np.nan)

    @property
    def uninformative(self) -> Bools:
        """Which entries the release tells nothing about, shape (n,)."""
        return np.zeros(self.n, dtype=bool)

    @property
    def support_bounds(self) -> Pair:
        """Least and largest x that are possible; they may be infinite."""
        return unbounded_ends(self.n)

    @property
    def low(self) -> Array:
        """Least x that is possible; shape (n,), may be -inf."""
        return self.support_bounds[0]

    @property
    def high(self) -> Array:
        """Largest x that is possible; shape (n,), may be inf."""
        return self.support_bounds[1]

    @property
    def cuts(self) -> Array:
        """Where the likelihood jumps or has a kink inside its support; shape (n, m), padded with missing values.

        Between two cuts it is smooth. It is to be taken inside such a piece, never at its end: at a jump the two sides
        differ.
        """
        return no_cuts(self.n)

    @property
    def panel_edges(self) -> Array:
        """Further edges for the panels of an integral, besides the cuts at jumps and kinks.

        Shape (n, m), padded with missing values.
        """
        return np.empty((self.n, 0))

    def window(self, drop: float = 40.0) -> Pair:
        """Lowest and highest x with a log likelihood within ``drop`` of the largest.

        Infinite where it never falls so far.
        """
        return self.support_bounds

    @property
    def scale(self) -> Array:
        """Length over which the likelihood changes: the noise's standard deviation, the width of an interval.

        Inf if uninformative.
        """
        low, high = self.window(0.5)
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(high - low), np.maximum((high - low) / 2, np.finfo(float).tiny), np.inf)

    @property
    def normal(self) -> Pair | None:
        """Centre and variance if the likelihood is normal in x for every entry: 0 is known, inf is uninformative.

        Else None.
        """
        return None

    @property
    def is_normal(self) -> Bools:
        """Which entries have a likelihood that is normal in x, shape (n,)."""
        return np.full(self.n, self.normal is not None)

    @property
    def support(self) -> Array | None:
        """The values that x can have if it is a category, else None."""
        return None

    # -- one step further back -----------------------------------------------------------------------

    def pulled_back(self, change: Change) -> ColumnLikelihood:
        """What is known about x if this is known about y, which came from x by a change."""
        return change.likelihood_from_observation(self)

    def __repr__(self) -> str:
        # Never the values: a release may be as confidential as the records.
        return f"{type(self).__name__}(n={self.n})"


class Change(PerEntry):
    """How a number y comes from a number x, entry by entry: by a function, by noise, by a user's own law.

    It says what is known about x from what is known about y: its value, an interval, or anything else.
    """

    additive = False
    """Whether y = x + noise, so that two of them may be done in either order."""

    def followed_by(self, later: TransitionDensity) -> TransitionDensity | None:
        """One change for this and a later one, or None if that has no form here."""
        return None

    def likelihood_from_value(self, values: NDArray[Any]) -> ColumnLikelihood:
        """From values of y, numbers or labels."""
        raise NotImplementedError

    def likelihood_from_interval(self, interval: Between) -> ColumnLikelihood:
        """From an interval where y lies."""
        return self.likelihood_from_observation(interval)

    def likelihood_from_observation(self, later: ColumnLikelihood) -> ColumnLikelihood:
        """From anything else about y."""
        raise NotImplementedError


def unbounded_ends(n: int) -> Pair:
    """The ends of n entries of which any number is possible."""
    return np.full(n, -np.inf), np.full(n, np.inf)


def as_row(value: ArrayLike, n: int | None = None) -> Array:
    """A read-only row of floats, of length ``n`` if that is given."""
    array = np.array(value, dtype=np.float64)
    if array.ndim != 1 or (n is not None and len(array) != n):
        array = np.array(np.broadcast_to(array, (n,))) if n is not None else np.atleast_1d(array)
    array.flags.writeable = False
    return array


def entry_count(n: int, rows: Rows) -> int:
    """How many of n entries some rows are."""
    return len(np.arange(n)[rows])


def numbers_of(values: NDArray[Any]) -> Array:
    """Released values as numbers, for steps that give out nothing else."""
    if values.dtype == object:
        raise InputError(
            "A mask for numbers released labels",
            "a column of text",
            "Give the release of this mask, as mask.release returned it",
        )
    return values


def impossible_release_error(what: str) -> InputError:
    """The error for a release that a mask cannot have made; it never shows the values."""
    return InputError(
        "The mask cannot have made this release",
        what,
        "Give the release as mask.release returned it, with the same mask",
    )


def midpoints(low: Array, high: Array) -> Array:
    """The middle of intervals; of a half-line its end, of everything 0.

    >>> midpoints(np.array([0.0, 1.0, -np.inf]), np.array([4.0, np.inf, np.inf]))
    array([2., 1., 0.])
    """
    a, b = np.where(np.isfinite(low), low, high), np.where(np.isfinite(high), high, low)
    whole = np.isfinite(a) & np.isfinite(b)
    return 0.5 * np.where(whole, a, 0.0) + 0.5 * np.where(whole, b, 0.0)


def evenly_spaced_points(low: Array, high: Array, count: int) -> Array:
    """Evenly spaced places from low to high, shape (n, count); missing where an end is infinite."""
    with np.errstate(invalid="ignore"):
        even = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, count)
    return np.where(np.isfinite(even), even, np.nan)
