"""What releases are compared by: columns of a map with their better ends, and the criterion that ranks releases."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..checks import (
    as_float_array,
    as_tuple,
    check_choice,
    check_distinct,
    check_filled,
    check_kind,
    check_mapping,
    check_number,
    suggest,
)
from ..errors import InputError
from ..maps.rumap import RUMap
from ..maps.show import better_end
from ..protocols import Array
from .dominance import BETTER

Columns = str | Iterable[str] | Mapping[str, str]
"""Columns to compare: names, or names with their better ends, ``{"IO": "higher"}``."""
Rule = Mapping[str, Any]
"""Further arguments of `choose`, by name."""
Tier = tuple[Array, float]
"""Values, greater is better, and how far below the best one still ties with it."""
PLAIN = {"risk": "lower", "utility": "higher"}
"""The columns of the plain frontier, with their better ends."""


def check_map(rumap: object) -> RUMap:
    """Refuse what is no map."""
    return check_kind("rumap", rumap, RUMap, "Make one with ruv.evaluate or ruv.measure")


def directions(
    rumap: RUMap, columns: Columns | None = None, word: str = "columns", ends: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Which end of each named column is better: as the mapping says, or as the map knows; ``ends`` comes first."""
    check_map(rumap)
    if columns is None:
        return dict(PLAIN)
    known = PLAIN | better_end(rumap) | dict(ends or {})
    names = list(as_tuple(columns))
    for name in names:
        check_column(rumap, name, word)
    check_distinct(word, names, "Name each column once, or leave it out to compare risk and utility")
    if isinstance(columns, Mapping):
        return {name: check_choice(f"The better end of {name}", columns[name], BETTER) for name in names}
    for name in names:
        if name not in known:
            what = f"The map does not know which values of {name} are better"
            raise InputError(what, "a name alone", f'Write columns={{"{name}": "lower"}}, or "higher"')
    return {name: known[name] for name in names}


def check_column(rumap: RUMap, name: object, word: str) -> None:
    """Refuse a column that the map does not have, or that is text."""
    if not isinstance(name, str) or (name not in PLAIN and name not in rumap.columns):
        hint = suggest(str(name), ["risk", "utility", *rumap.columns])
        raise InputError(f"{word} names a column that the map does not have", name, hint)
    if name in rumap.columns and rumap.columns[name].dtype.kind not in "biuf":
        raise InputError("A frontier compares numbers", f"{name} is text", "Name columns of numbers")


# -- the criterion -------------------------------------------------------------------------------------


class Criterion(ABC):
    """How the agency ranks the releases that it allows."""

    about: ClassVar[str] = "utility"
    """What the criterion takes the most (of a loss, the least) of."""
    weighs_risk: ClassVar[bool] = True
    """Whether it can choose without a threshold on the risk."""
    lacking: ClassVar[str] = "the numbers that the criterion needs"
    """What a release that it cannot rank does not have."""

    needs: Mapping[str, str]
    """Columns with their better ends, once the criterion is made `for_map`."""

    @property
    def arguments(self) -> Sequence[str]:
        """Every column that it looks at."""
        return tuple(self.needs)

    @abstractmethod
    def for_map(self, rumap: RUMap, ends: Mapping[str, str]) -> Criterion:
        """The criterion for this map: its columns are there, and their better ends are known."""

    @abstractmethod
    def ranking_tiers(self, values: Mapping[str, Array]) -> list[Tier]:
        """What counts first, second, ...; every array is (..., releases) and greater is better."""

    @abstractmethod
    def value(self, values: Mapping[str, Array]) -> Array:
        """The number that the criterion is about, as a reader knows it."""

    @abstractmethod
    def in_words(self, value: float) -> str:
        """The criterion and its value at the chosen release, in a sentence; empty if the utility says it all."""


@dataclass(frozen=True)
class MostUseful(Criterion):
    """The greatest utility; ties go to the lowest risk. This is the criterion unless another one is given."""

    weighs_risk: ClassVar[bool] = False
    lacking: ClassVar[str] = "a utility"

    needs: Mapping[str, str] = field(default_factory=lambda: {"utility": "higher", "risk": "lower"}, repr=False)

    def for_map(self, rumap: RUMap, ends: Mapping[str, str]) -> MostUseful:
        return self

    def ranking_tiers(self, values: Mapping[str, Array]) -> list[Tier]:
        return [(values["utility"], 0.0), (-values["risk"], 0.0)]

    def value(self, values: Mapping[str, Array]) -> Array:
        return values["utility"]

    def in_words(self, value: float) -> str:
        return ""


@dataclass(frozen=True)
class Weighted(Criterion):
    """The greatest weighted sum of columns; a column whose lower values are better counts with a minus.

    Columns enter as they stand, in their own units, so that adding a release never changes the score of another one.

    Parameters
    ----------
    weights : mapping from column to weight
        ``{"utility": 1, "risk": 3}`` takes the greatest utility - 3 risk. Weights are positive.
    """

    about: ClassVar[str] = "weighted sum"
    weights: Mapping[str, float]
    needs: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        do = 'Write Weighted({"risk": 2, "utility": 1})'
        check_filled("weights", check_mapping("weights", self.weights, do), do)
        for name, weight in self.weights.items():
            check_number(f"weights[{name!r}]", weight, low=0, open_low=True)

    def for_map(self, rumap: RUMap, ends: Mapping[str, str]) -> Weighted:
        return replace(self, needs=directions(rumap, list(self.weights), "weights", ends))

    def ranking_tiers(self, values: Mapping[str, Array]) -> list[Tier]:
        return [
            (self.value(values), 0.0),
            *((_greater_is_better(values[n], end), 0.0) for n, end in self.needs.items()),
        ]

    def value(self, values: Mapping[str, Array]) -> Array:
        with np.errstate(invalid="ignore"):
            return np.asarray(
                sum(self.weights[n] * _greater_is_better(values[n], end) for n, end in self.needs.items())
            )

    def in_words(self, value: float) -> str:
        terms = " ".join(f"{'+' if end == 'higher' else '−'} {self.weights[n]:g} {n}" for n, end in self.needs.items())
        return f"{terms.removeprefix('+ ')} = {value:.4g}"


@dataclass(frozen=True)
class Lexicographic(Criterion):
    """The best in the first column; those that tie there (within its slack) are ranked by the second, and so on.

    Parameters
    ----------
    order : list of columns
        What counts first, second, and so on.
    slack : mapping from column to number, optional
        ``{"IO": 0.01}`` counts everything within 0.01 of the best as a tie.
    """

    about: ClassVar[str] = "order"
    order: str | Iterable[str]
    slack: Mapping[str, float] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name, slack in check_mapping("slack", self.slack, 'Write slack={"IO": 0.01}').items():
            check_number(f"slack[{name!r}]", slack, low=0)

    def for_map(self, rumap: RUMap, ends: Mapping[str, str]) -> Lexicographic:
        needs = directions(rumap, self.order, "order", ends)
        unknown = [n for n in self.slack if n not in needs]
        if unknown:
            raise InputError("slack names a column that is not in order", unknown, f"It has {', '.join(needs)}")
        return replace(self, needs=needs)

    def ranking_tiers(self, values: Mapping[str, Array]) -> list[Tier]:
        return [(_greater_is_better(values[n], end), float(self.slack.get(n, 0.0))) for n, end in self.needs.items()]

    def value(self, values: Mapping[str, Array]) -> Array:
        return values[next(iter(self.needs))]

    def in_words(self, value: float) -> str:
        names = [f"{n} (within {self.slack[n]:g})" if self.slack.get(n) else n for n in self.needs]
        return "chosen by " + ", then by ".join(names)


@dataclass(frozen=True)
class ExpectedLoss(Criterion):
    """The least expected loss of the agency itself, averaged over the errors of what the loss looks at.

    Parameters
    ----------
    loss : callable
        ``loss(risk, utility)``, or a function of other columns by the names of its arguments.
    """

    about: ClassVar[str] = "expected loss"
    loss: Callable[..., object]
    arguments: Sequence[str] = field(default=("risk", "utility"), repr=False)
    needs: Mapping[str, str] = field(default_factory=lambda: dict(PLAIN), repr=False)
    by_name: bool = field(default=False, repr=False)

    def for_map(self, rumap: RUMap, ends: Mapping[str, str]) -> ExpectedLoss:
        do = "Write ExpectedLoss(lambda risk, utility: 3 * risk - utility), or name columns: lambda risk, IO: ..."
        if not callable(self.loss):
            raise InputError("loss must be a function of risk and utility", self.loss, do)
        try:
            parameters = inspect.signature(self.loss).parameters.values()
        except (TypeError, ValueError):  # a numpy ufunc has none
            return self
        loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        needed = [p for p in parameters if p.kind not in loose and p.default is p.empty]
        names = [p.name for p in needed]
        if names and all(n in PLAIN or n in rumap.columns for n in names):
            for name in names:
                check_column(rumap, name, "loss")
            # The frontier needs better ends; the loss itself does not, so columns without one are left out.
            known = PLAIN | better_end(rumap) | dict(ends)
            by_name = all(p.kind is not inspect.Parameter.POSITIONAL_ONLY for p in needed)
            return replace(self, arguments=names, needs={n: known[n] for n in names if n in known}, by_name=by_name)
        if len(names) == 2 and not any(p.kind is inspect.Parameter.KEYWORD_ONLY for p in needed):
            return self
        what = "loss must be a function of risk and utility, or of columns by their names"
        raise InputError(what, f"arguments {names}", do)

    def ranking_tiers(self, values: Mapping[str, Array]) -> list[Tier]:
        return [(-self.value(values), 0.0)]

    def value(self, values: Mapping[str, Array]) -> Array:
        arrays = np.broadcast_arrays(*(np.asarray(values[n], dtype=np.float64) for n in self.arguments))
        try:
            with np.errstate(all="ignore"):  # a loss that is no number at infinite risk is NaN, and is not chosen
                found = np.asarray(self._call_loss(arrays), dtype=np.float64)
        except (TypeError, ValueError):
            found = np.empty(())  # written for one release at a time
        if found.shape != arrays[0].shape:
            flat = zip(*(a.ravel().tolist() for a in arrays), strict=True)
            found = np.array([self._loss_of_release(x) for x in flat], dtype=np.float64).reshape(arrays[0].shape)
        return found

    def in_words(self, value: float) -> str:
        return f"expected loss {value:.4g}"

    def _call_loss(self, arguments: Sequence[Array] | Sequence[float]) -> object:
        return self.loss(**dict(zip(self.arguments, arguments, strict=True))) if self.by_name else self.loss(*arguments)

    def _loss_of_release(self, arguments: Sequence[float]) -> float:
        try:
            return float(as_float_array("loss", self._call_loss(arguments)))  # type: ignore[arg-type]
        except (TypeError, ValueError) as error:
            got, do = f"{type(error).__name__}: {error}", "Write lambda risk, utility: 3 * risk - utility"
            raise InputError("loss must give a number for each release", got, do) from None


def criterion_or_default(by: object) -> Criterion:
    """The criterion that was given; the greatest utility if none was."""
    do = 'Write by=ruv.decide.Weighted({"utility": 1, "risk": 3}), Lexicographic([...]) or ExpectedLoss(f)'
    return MostUseful() if by is None else check_kind("by", by, Criterion, do)


def best_positions(tiers: Sequence[Tier], allowed: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Position of the best allowed release, along the last axis; those that tie in everything go to the first listed.

    >>> tiers = [(np.array([1.0, 3.0, 2.9]), 0.2), (np.array([0.0, 1.0, 2.0]), 0.0)]
    >>> int(best_positions(tiers, np.array([True, True, True])))
    2
    """
    tied = np.array(allowed, dtype=bool)
    for values, slack in tiers:
        best = np.max(np.where(tied, values, -np.inf), axis=-1, keepdims=True)
        tied &= values >= best - slack
    return np.asarray(np.argmax(tied, axis=-1))


def _greater_is_better(values: Array, end: str) -> Array:
    """The values so that greater is better."""
    return values if end == "higher" else -values
