"""Risk and utility as strictly decreasing functions of an uncertainty U.

A map stores U; risk and utility are views of it. Any strictly decreasing function puts releases in the same
order for one fixed U (Trottini and Fienberg 2002, eqs 3, 4 and 15), so the choice of the function is a choice
of scale: 1/U by default, gains over the uncertainty U0 before the release, -log U, or a function of your own.
U is averaged over replicates before the function is applied, because the order does not survive averaging 1/U.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..checks import as_float_array, check_text, name_of, suggest
from ..errors import InputError
from ..numerics.monotone import apply_function, check_decreasing, solve_decreasing
from ..protocols import Array, Value
from .columns import Entries


class Axis(NamedTuple):
    """One axis of a map: risk of the intruder, or utility of the scientist, with what it is computed from."""

    role: str
    """``"risk"`` or ``"utility"``."""
    who: str
    """``"intruder"`` or ``"scientist"``."""
    score: Score | Column
    value: Value | None
    """The user's uncertainties; None in a map without that user."""
    before: Array
    """U0 of every release."""
    columns: Mapping[str, Entries]

    def check(self) -> None:
        """Raise an `InputError` if the score cannot be computed on this map."""
        self.score.check_axis(self)

    def column(self, name: str) -> Value:
        """A column of numbers with its standard error, zero if there is none."""
        value = np.asarray(self.columns[name], dtype=np.float64)
        return Value(value, np.asarray(self.columns.get(f"{name}_error", np.zeros_like(value)), dtype=np.float64))


@dataclass(frozen=True)
class Score:
    """A strictly decreasing function of U. To add one, define ``value``, ``slope`` and ``inverse``.

    ``before`` is U0, the uncertainty before any release: one number, or one per release.
    """

    name: ClassVar[str] = ""
    said: ClassVar[str] = "{name} of the {who}'s expected loss"
    """What it is, in words; ``who`` is the user's name."""
    column: ClassVar[str | None] = None
    """The column of the map that it is read from; a function of a user's U has none."""
    as_stored: ClassVar[bool] = False
    """True if it is the numbers of a column, as they stand there."""
    tabulated: ClassVar[bool] = False
    """True if it is known at some U only."""
    has_zero: ClassVar[bool] = True
    """False if its zero is a matter of convention: twice as much means nothing."""
    relative: ClassVar[bool] = False
    """True if the score needs U0."""
    given: ClassVar[bool] = False
    """True if it is a function that somebody gave, which need not fall as it should."""
    lowest: ClassVar[float] = -np.inf
    """No threshold on the score makes sense at or below this value."""
    highest: ClassVar[float] = np.inf

    def __call__(self, u: ArrayLike, before: ArrayLike | None = None) -> Array:
        """Return f(U). Zero and infinite U have their limits; NaN stays NaN."""
        with np.errstate(all="ignore"):
            return np.asarray(
                self.value(as_float_array("uncertainty", u), self._required_before(before)), dtype=np.float64
            )

    def error(self, u: ArrayLike, u_error: ArrayLike, before: ArrayLike | None = None) -> Array:
        """Return the standard error of f(U) by the delta method, |f'(U)| times the error of U.

        It is zero where U is exact, also where the slope is infinite.
        """
        u, u_error = np.broadcast_arrays(as_float_array("uncertainty", u), as_float_array("error", u_error))
        if not np.any(u_error):
            return np.zeros(u.shape)
        with np.errstate(all="ignore"):
            slope = np.abs(self.slope(u, self._required_before(before)))
            return np.where(u_error == 0, 0.0, slope * u_error)

    def value(self, u: Array, before: Array) -> Array:
        """f(U), elementwise; warnings are off and inputs are arrays."""
        raise NotImplementedError

    def slope(self, u: Array, before: Array) -> Array:
        """f'(U), elementwise."""
        raise NotImplementedError

    def slope_before(self, u: Array, before: Array) -> Array:
        """The derivative by U0, elementwise."""
        return np.zeros_like(u)

    def inverse(self, value: float, before: ArrayLike | None = None) -> float:
        """Return the U at which f(U) is ``value``: risk is at most ``value`` where U is at least this."""
        raise NotImplementedError

    def check(self, u: Array, before: ArrayLike | None, role: str) -> None:
        """Raise an `InputError` if the score does not decrease on these U; ``role`` is 'risk' or 'utility'."""
        if self.relative:
            reference = np.asarray(self._required_before(before))
            if not np.all(np.isfinite(reference)):
                what = f'{role}="{self.name}" needs a finite uncertainty before the release'
                do = f'Give the user a proper prior, or use {role}="reciprocal"'
                raise InputError(what, f"U0 = {float(reference.ravel()[~np.isfinite(reference.ravel())][0])}", do)

    def source(self, axis: Axis) -> tuple[Value | None, Score | None]:
        """The numbers that it is made of, and the function of them, None if it is these numbers."""
        return axis.value, self

    def scale(self, before: ArrayLike | None = None) -> float:
        """The size against which a difference in the score is small; zero if only its own size counts."""
        return 0.0

    def words(self, who: str) -> str:
        """The score in words for an axis; ``who`` is the user's name."""
        return self.said.format(name=self.name, who=who)

    def check_axis(self, axis: Axis) -> None:
        """Raise an `InputError` if the score is not a decreasing function on the axis of a map."""
        if axis.value is None:
            what = f"{axis.role}={self.name!r} needs the {axis.who}'s uncertainty"
            do = f"Name a column: {suggest('', list(axis.columns)) if axis.columns else 'give columns={...}'}"
            raise InputError(what, f"a map without {axis.who}", do)
        if self.relative and np.all(np.isnan(axis.before)):
            what = f'{axis.role}="{self.name}" compares with the uncertainty before the release'
            raise InputError(what, "no U0", "Give before=(U0 of the intruder, U0 of the scientist)")
        self.check(axis.value.value, axis.before, axis.role)

    def evaluate(self, axis: Axis) -> Value:
        """The score of every release, with its error."""
        self.check_axis(axis)
        assert axis.value is not None  # it was refused otherwise
        u, before = axis.value.value, axis.before
        start = np.asarray(axis.columns.get(f"{axis.who}_before_error", 0.0), dtype=np.float64)
        if not self.relative or not np.any(start):
            return Value(self(u, before), self.error(*axis.value, before))
        with np.errstate(all="ignore"):
            error = np.hypot(self.error(*axis.value, before), start * self.slope_before(u, before))
        return Value(self(u, before), np.where(u == before, 0.0, error))  # U0 against itself, whatever that is

    def _required_before(self, before: ArrayLike | None) -> Array:
        if self.relative and before is None:
            do = "Give before=, the uncertainty before any release"
            raise InputError(f"The {self.name} compares with U0", "no U0", do)
        return as_float_array("before", np.nan if before is None else before)

    def _needs_positive(self, u: Array, role: str) -> None:
        lowest = np.fmin.reduce(u, initial=np.inf)
        if lowest < 0:
            what = f'{role}="{self.name}" needs uncertainties that are not negative'
            do = f'Entropies can be negative: use {role}="gain", or a function such as lambda u: np.exp(-u)'
            raise InputError(what, f"U = {float(lowest):.6g}", do)


@dataclass(frozen=True)
class Reciprocal(Score):
    """1/U, the default: infinite at U = 0, zero at infinite U. Trottini and Fienberg (2002), section 5.

    >>> float(Reciprocal()(2.0))
    0.5
    """

    name: ClassVar[str] = "reciprocal"
    said: ClassVar[str] = "1 / expected loss of the {who}"
    lowest: ClassVar[float] = 0.0

    def value(self, u: Array, before: Array) -> Array:
        # Minus zero must not become minus infinity. Negative U is refused by `check`.
        return 1.0 / np.where(u == 0, 0.0, u)

    def slope(self, u: Array, before: Array) -> Array:
        return -1.0 / (u * u)

    def inverse(self, value: float, before: ArrayLike | None = None) -> float:
        if not value >= 0:
            raise InputError("A reciprocal is never negative", value, "Give a positive threshold")
        return np.inf if value == 0 else 1.0 / value

    def check(self, u: Array, before: ArrayLike | None, role: str) -> None:
        self._needs_positive(u, role)


@dataclass(frozen=True)
class RelativeGain(Score):
    """1 - U/U0: the share of the prior uncertainty that the release takes away; 0 when it tells nothing, 1 when all.

    >>> round(float(RelativeGain()(2.0, before=7.0)), 6)
    0.714286
    """

    name: ClassVar[str] = "relative_gain"
    said: ClassVar[str] = "share of the {who}'s expected loss that the release removes"
    has_zero: ClassVar[bool] = False
    relative: ClassVar[bool] = True
    highest: ClassVar[float] = 1.0

    def value(self, u: Array, before: Array) -> Array:
        return 1.0 - u / before

    def slope(self, u: Array, before: Array) -> Array:
        return -1.0 / before + np.zeros_like(u)

    def slope_before(self, u: Array, before: Array) -> Array:
        return u / before**2

    def inverse(self, value: float, before: ArrayLike | None = None) -> float:
        return _single_reference(self._required_before(before)) * (1.0 - value)

    def check(self, u: Array, before: ArrayLike | None, role: str) -> None:
        super().check(u, before, role)
        lowest = float(np.min(self._required_before(before)))
        if lowest <= 0:
            what = f'{role}="{self.name}" divides by the uncertainty before the release, which must be positive'
            do = f'Use {role}="gain"' if lowest < 0 else "The user knows the target already: choose another target"
            raise InputError(what, f"U0 = {lowest:.6g}", do)

    def scale(self, before: ArrayLike | None = None) -> float:
        return 1.0


@dataclass(frozen=True)
class Gain(Score):
    """U0 - U: how much uncertainty the release takes away, in units of the loss.

    >>> float(Gain()(2.0, before=7.0))
    5.0
    """

    name: ClassVar[str] = "gain"
    said: ClassVar[str] = "fall in the {who}'s expected loss"
    has_zero: ClassVar[bool] = False
    relative: ClassVar[bool] = True

    def value(self, u: Array, before: Array) -> Array:
        return before - u

    def slope(self, u: Array, before: Array) -> Array:
        return -np.ones_like(u)

    def slope_before(self, u: Array, before: Array) -> Array:
        return np.ones_like(u)

    def inverse(self, value: float, before: ArrayLike | None = None) -> float:
        return float(_single_reference(self._required_before(before)) - value)

    def scale(self, before: ArrayLike | None = None) -> float:
        return float(np.max(np.abs(self._required_before(before))))


@dataclass(frozen=True)
class NegativeLog(Score):
    """-log U: differences are ratios of U; infinite at U = 0.

    >>> float(NegativeLog()(1.0)) == 0
    True
    """

    name: ClassVar[str] = "negative_log"
    said: ClassVar[str] = "−log expected loss of the {who}"
    has_zero: ClassVar[bool] = False

    def value(self, u: Array, before: Array) -> Array:
        return -np.log(np.where(u == 0, 0.0, u)) + 0.0

    def slope(self, u: Array, before: Array) -> Array:
        return -1.0 / u

    def inverse(self, value: float, before: ArrayLike | None = None) -> float:
        with np.errstate(over="ignore"):
            return float(np.exp(-np.float64(value)))

    def check(self, u: Array, before: ArrayLike | None, role: str) -> None:
        self._needs_positive(u, role)

    def scale(self, before: ArrayLike | None = None) -> float:
        return 1.0


@dataclass(frozen=True)
class Negative(Score):
    """-U: keeps differences as they are, and takes columns that may be negative.

    >>> float(Negative()(2.0))
    -2.0
    """

    name: ClassVar[str] = "negative"
    said: ClassVar[str] = "minus expected loss of the {who}"
    has_zero: ClassVar[bool] = False

    def value(self, u: Array, before: Array) -> Array:
        return 0.0 - u

    def slope(self, u: Array, before: Array) -> Array:
        return -np.ones_like(u)

    def inverse(self, value: float, before: ArrayLike | None = None) -> float:
        return -float(value)


@dataclass(frozen=True)
class Decreasing(Score):
    """Any strictly decreasing function of U, vectorised or for one number at a time.

    A map checks that it is decreasing on a fine grid over its own range of U and refuses it otherwise. The
    slope for the error is a central difference of fourth order.

    Parameters
    ----------
    function : callable
        ``function(U)`` gives one number per U.
    label : str, optional
        A name for tables and plots; the function's own name if it has one.

    Examples
    --------
    >>> score = Decreasing(lambda u: 1 / (1 + u), "1 / (1 + U)")
    >>> score.name, float(score(1.0))
    ('1 / (1 + U)', 0.5)
    """

    said: ClassVar[str] = "{name}, U = expected loss of the {who}"
    function: Callable[..., object]
    label: str | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError("A score of your own is a function of U", self.function, "Write lambda u: 1 / (1 + u)")

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.label or name_of(self.function) or "function of U"

    def value(self, u: Array, before: Array) -> Array:
        result = np.full(u.shape, np.nan)
        known = ~np.isnan(u)
        if np.any(known):
            result[known] = apply_function(self.function, u[known], self.name)
        return result

    def slope(self, u: Array, before: Array) -> Array:
        u = np.asarray(u, dtype=np.float64)
        inner = np.isfinite(u) & (u != 0)
        result = np.where(np.isinf(u), 0.0, np.nan)
        if np.any(inner):
            at, h = u[inner], 1e-3 * np.abs(u[inner])
            f = [self.value(at + k * h, before) for k in (-2, -1, 1, 2)]
            result[inner] = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
        zero = u == 0
        if np.any(zero):
            # One-sided: the function need not exist for negative U.
            f = [self.value(np.full(int(zero.sum()), k * 1e-6), before) for k in (0, 1, 2)]
            result[zero] = np.where(np.isinf(f[0]), -np.inf, (-3 * f[0] + 4 * f[1] - f[2]) / 2e-6)
        return result

    def inverse(self, value: float, before: ArrayLike | None = None) -> float:
        """Return the U at which the function is ``value``, by bracketing and Brent's method.

        The search covers positive U and then negative U where the function exists. A value above all of them gives
        the lowest U that was tried (0 if there are no negative ones), a value below all of them gives infinity.
        """
        return solve_decreasing(lambda x: float(self(x)), float(value))

    def check(self, u: Array, before: ArrayLike | None, role: str) -> None:
        known = np.unique(u[np.isfinite(u)])
        self(u)  # says where the function fails, infinite U included
        if known.size:
            named = "" if self.name == "function of U" else f" {self.name}"
            check_decreasing(self, known, f"{role} function{named}")


@dataclass(frozen=True)
class Tabulated(Score):
    """A score that was read from a file: the function itself is not stored, only its values at the map's own U.

    Between two stored values it is interpolated; outside them it is not known (NaN).
    """

    said: ClassVar[str] = "{name}, U = expected loss of the {who}"
    tabulated: ClassVar[bool] = True
    label: str
    u: tuple[float, ...] = field(repr=False)
    values: tuple[float, ...] = field(repr=False)
    slopes: tuple[float, ...] = field(repr=False)

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.label

    def value(self, u: Array, before: Array) -> Array:
        return self._look_up(u, self.values)

    def slope(self, u: Array, before: Array) -> Array:
        return self._look_up(u, self.slopes)

    def inverse(self, value: float, before: ArrayLike | None = None) -> float:
        values, u = np.asarray(self.values)[::-1], np.asarray(self.u)[::-1]
        if not values[0] <= value <= values[-1]:
            do = "Give the function again with with_risk(...)"
            raise InputError(f"{self.name} is known between {values[0]:g} and {values[-1]:g} only", value, do)
        return float(np.interp(value, values, u))

    def check(self, u: Array, before: ArrayLike | None, role: str) -> None:
        if np.any(np.isnan(self(u)) & ~np.isnan(u)):
            what = f"{self.name} was read from a file and is not known at every U of this map"
            do = f"Give the function again, {role}=..."
            raise InputError(what, f"U from {np.nanmin(u):g} to {np.nanmax(u):g}", do)

    def _look_up(self, u: Array, values: Sequence[float]) -> Array:
        nodes, table = np.asarray(self.u), np.asarray(values)
        place = np.clip(np.searchsorted(nodes, u), 0, len(nodes) - 1)
        exact = nodes[place] == u
        return np.where(exact, table[place], np.interp(u, nodes, table, left=np.nan, right=np.nan))


@dataclass(frozen=True)
class Column:
    """A column of the map (an empirical measure) that serves as its risk or its utility.

    Parameters
    ----------
    column : str
        The column's name. Its error is read from the column ``<name>_error`` where there is one.
    score : str, callable or Score, optional
        A decreasing function for columns where less is more: ``Column("KL", "reciprocal")`` is a utility,
        though KL itself grows as a release becomes worse.

    Examples
    --------
    >>> Column("linkage").name, Column("KL", "reciprocal").name
    ('linkage', 'reciprocal of KL')
    """

    column: str
    score: Score | None
    relative: ClassVar[bool] = False
    has_zero: ClassVar[bool] = True

    def __init__(self, column: str, score: ScoreLike | None = None) -> None:
        check_text("column", column, 'Write Column("linkage")')
        found = None if score is None else as_score(score)
        if found is not None and (found.column is not None or found.relative):
            do = 'Use "reciprocal", "negative_log" or a function of your own'
            raise InputError("A column takes a function without U0", score, do)
        self.__dict__.update(column=column, score=found)

    @property
    def name(self) -> str:
        return self.column if self.score is None else f"{self.score.name} of {self.column}"

    @property
    def as_stored(self) -> bool:
        return self.score is None

    @property
    def lowest(self) -> float:
        return -np.inf if self.score is None else float(self.score.lowest)

    highest: ClassVar[float] = np.inf

    def source(self, axis: Axis) -> tuple[Value | None, Score | None]:
        return axis.column(self.column), self.score

    def scale(self, before: ArrayLike | None = None) -> float:
        return 0.0 if self.score is None else float(self.score.scale())

    def words(self, who: str) -> str:
        return self.name

    def check_axis(self, axis: Axis) -> None:
        """Raise an `InputError` if the map has no such column of numbers."""
        if self.column not in axis.columns:
            do = suggest(self.column, list(axis.columns))
            raise InputError(f"The {axis.role} names a column that is not there", self.column, do)
        values = axis.columns[self.column]
        if values.dtype.kind not in "biuf":
            do = "Name a column of numbers"
            raise InputError(f"The {axis.role} must be a column of numbers", f"{self.column} is text", do)
        if self.score is not None:
            self.score.check(np.asarray(values, dtype=np.float64), None, axis.role)

    def evaluate(self, axis: Axis) -> Value:
        """The column, or its score, with its error."""
        u, error = axis.column(self.column)
        return Value(u, error) if self.score is None else Value(self.score(u), self.score.error(u, error))


ScoreLike = str | Callable[..., object] | type[Score] | Score | Column
"""What says how risk or utility is measured: a name, a decreasing function, a score or a column."""
KNOWN: dict[str, Score] = {s.name: s for s in (Reciprocal(), RelativeGain(), Gain(), NegativeLog(), Negative())}


def as_score(obj: ScoreLike, columns: Sequence[str] = ()) -> Score | Column:
    """Return a `Score` (or a `Column`) from a name, a callable or a score.

    Names are "reciprocal", "relative_gain", "gain", "negative_log" and "negative"; a name in ``columns`` gives a
    `Column`.

    >>> as_score("gain")
    Gain()
    """
    if isinstance(obj, (Score, Column)):
        return obj
    if isinstance(obj, str):
        if obj in KNOWN:
            return KNOWN[obj]
        if obj in columns:
            return Column(obj)
        options = [*KNOWN, *columns]
        do = suggest(obj, options)
        raise InputError(f"A score must be one of {', '.join(map(repr, options))}, or a function of U", obj, do)
    if isinstance(obj, type) and issubclass(obj, Score):
        return as_score(obj.name)
    if callable(obj):
        return Decreasing(obj)
    do = "Write lambda u: 1 / (1 + u)"
    raise InputError(f"A score must be one of {', '.join(map(repr, KNOWN))}, or a function of U", obj, do)


def as_score_of_uncertainty(obj: ScoreLike, what: str, do: str) -> Score:
    """Return a score that is a function of U; a column is refused with these words."""
    score = as_score(obj)
    if score.column is not None:
        raise InputError(what, score.name, do)
    return score


def _single_reference(reference: Array) -> float:
    values = np.unique(reference)
    if values.size != 1:
        do = "Take the releases of one user at a time"
        raise InputError("A threshold on a gain needs one U0", f"{values.size} different ones", do)
    return float(values[0])
