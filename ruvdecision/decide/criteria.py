"""What releases are compared by: columns of a map with their better ends, their errors, and the agency's own rule."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..checks import as_float_array, check_choice, check_list, check_number, suggest
from ..errors import InputError
from ..maps.rumap import RUMap
from ..protocols import Array
from .dominance import BETTER

__all__ = [
    "Lexicographic",
    "MostUseful",
    "OwnLoss",
    "Rule",
    "Weighted",
    "as_rule",
    "directions",
    "error_of",
    "first",
    "value_of",
]

Tier = tuple[Any, float]
"""Values, greater is better, and how far below the best one still ties with it."""


def check_map(rumap: Any) -> RUMap:
    """Refuse what is no map."""
    if not isinstance(rumap, RUMap):
        raise InputError("A map is needed", rumap, "Make one with ruv.evaluate or ruv.measure")
    return rumap


def value_of(rumap: RUMap, name: str) -> Array:
    """A column as numbers; ``risk`` and ``utility`` are columns too."""
    return np.asarray(getattr(rumap, name) if name in ("risk", "utility") else rumap.columns[name], dtype=np.float64)


def error_of(rumap: RUMap, name: str) -> Array:
    """Standard error of a column: the column ``<name>_error``, zero if there is none."""
    if name in ("risk", "utility"):
        return np.asarray(getattr(rumap, f"{name}_error"), dtype=np.float64)
    return np.asarray(rumap.columns.get(f"{name}_error", np.zeros(rumap.size)), dtype=np.float64)


def directions(
    rumap: RUMap, columns: Any, word: str = "columns", ends: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Which end of each named column is better: as the mapping says, or as the map knows; ``ends`` comes first."""
    check_map(rumap)
    known: dict[str, str] = {"risk": "lower", "utility": "higher"}
    stored = rumap.attrs.get("better", {})
    for part in stored if isinstance(stored, list) else [stored]:  # joined maps keep both
        known |= part
    known |= ends or {}
    names = (
        [columns] if isinstance(columns, str) else check_list(word, columns, 'Write ["risk", "utility"], for example')
    )
    if not names:
        raise InputError(f"{word} must name at least one column", columns, "Leave it out to compare risk and utility")
    for name in names:
        check_column(rumap, name, word)
    if len(set(names)) != len(names):
        raise InputError(f"{word} names a column twice", names, "Name each column once")
    found = {}
    for name in names:
        if isinstance(columns, Mapping):
            found[name] = check_choice(f"The better end of {name}", columns[name], BETTER)
        elif name in known:
            found[name] = known[name]
        else:
            raise InputError(
                f"The map does not know which values of {name} are better",
                "a name alone",
                f'Write columns={{"{name}": "lower"}}, or "higher"',
            )
    return found


def check_column(rumap: RUMap, name: Any, word: str) -> None:
    """Refuse a column that the map does not have, or that is text."""
    if not isinstance(name, str) or (name not in ("risk", "utility") and name not in rumap.columns):
        hint = suggest(str(name), ["risk", "utility", *rumap.columns])
        raise InputError(f"{word} names a column that the map does not have", name, hint)
    if name in rumap.columns and rumap.columns[name].dtype.kind not in "biuf":
        raise InputError("A frontier compares numbers", f"{name} is text", "Name columns of numbers")


# -- the agency's rule ---------------------------------------------------------------------------------


class Rule:
    """How the agency ranks the releases that it allows. ``needs`` names the columns, with their better ends."""

    needs: Mapping[str, str]

    def tiers(self, values: Mapping[str, Any]) -> list[Tier]:
        """What counts first, second, ...; every array is (..., releases) and greater is better."""
        raise NotImplementedError

    def value(self, values: Mapping[str, Any]) -> Any:
        """The number that the rule is about, as a reader knows it."""
        raise NotImplementedError

    def says(self, value: float) -> str:
        """The rule and its value at the chosen release, for the sentence of a choice; empty if the utility says it all."""
        raise NotImplementedError


@dataclass(frozen=True)
class MostUseful(Rule):
    """The greatest utility; ties go to the lowest risk."""

    needs = {"utility": "higher", "risk": "lower"}  # noqa: RUF012

    def tiers(self, values: Mapping[str, Any]) -> list[Tier]:
        return [(values["utility"], 0.0), (-values["risk"], 0.0)]

    def value(self, values: Mapping[str, Any]) -> Any:
        return values["utility"]

    def says(self, value: float) -> str:
        return ""


@dataclass(frozen=True)
class Weighted(Rule):
    """The greatest weighted sum of columns; a column whose lower values are better counts with a minus."""

    weights: Mapping[str, float]
    needs: Mapping[str, str]

    def tiers(self, values: Mapping[str, Any]) -> list[Tier]:
        return [(self.value(values), 0.0), *(_turned(values[n], end) for n, end in self.needs.items())]

    def value(self, values: Mapping[str, Any]) -> Any:
        with np.errstate(invalid="ignore"):
            return sum(
                self.weights[n] * (values[n] if end == "higher" else -values[n]) for n, end in self.needs.items()
            )

    def says(self, value: float) -> str:
        terms = " ".join(f"{'+' if end == 'higher' else '−'} {self.weights[n]:g} {n}" for n, end in self.needs.items())
        return f"{terms.removeprefix('+ ')} = {value:.4g}"


@dataclass(frozen=True)
class Lexicographic(Rule):
    """The best in the first column; those that tie there (within its slack) are ranked by the second, and so on."""

    needs: Mapping[str, str]
    slack: Mapping[str, float]

    def tiers(self, values: Mapping[str, Any]) -> list[Tier]:
        return [(_turned(values[n], end)[0], self.slack.get(n, 0.0)) for n, end in self.needs.items()]

    def value(self, values: Mapping[str, Any]) -> Any:
        return values[next(iter(self.needs))]

    def says(self, value: float) -> str:
        names = [f"{n} (within {self.slack[n]:g})" if self.slack.get(n) else n for n in self.needs]
        return "chosen by " + ", then by ".join(names)


@dataclass(frozen=True)
class OwnLoss(Rule):
    """The least expected loss of the agency, a function of columns of the map."""

    loss: Callable[..., Any]
    arguments: Sequence[str]
    needs: Mapping[str, str]
    by_name: bool = False

    def tiers(self, values: Mapping[str, Any]) -> list[Tier]:
        return [(-self.value(values), 0.0)]

    def value(self, values: Mapping[str, Any]) -> Any:
        arrays = np.broadcast_arrays(*(np.asarray(values[n], dtype=np.float64) for n in self.arguments))
        try:
            with np.errstate(all="ignore"):  # a loss that is no number at infinite risk is NaN, and is not chosen
                found = np.asarray(self._call(arrays), dtype=np.float64)
        except (TypeError, ValueError):
            found = np.empty(())  # written for one release at a time
        if found.shape != arrays[0].shape:
            flat = zip(*(a.ravel().tolist() for a in arrays), strict=True)
            found = np.array([self._one(x) for x in flat], dtype=np.float64).reshape(arrays[0].shape)
        return found

    def says(self, value: float) -> str:
        return f"expected loss {value:.4g}"

    def _call(self, arguments: Any) -> Any:
        return self.loss(**dict(zip(self.arguments, arguments, strict=True))) if self.by_name else self.loss(*arguments)

    def _one(self, arguments: Any) -> float:
        try:
            return float(as_float_array("loss", self._call(arguments)))
        except (TypeError, ValueError) as error:
            raise InputError(
                "loss must give a number for each release",
                f"{type(error).__name__}: {error}",
                "Write lambda risk, utility: 3 * risk - utility",
            ) from None


def as_rule(rumap: RUMap, weights: Any, order: Any, slack: Any, loss: Any, ends: Mapping[str, str]) -> Rule:
    """The rule that these arguments of `choose` describe; at most one of them may be given."""
    check_map(rumap)
    given = [n for n, v in (("weights", weights), ("order", order), ("loss", loss)) if v is not None]
    if len(given) > 1:
        raise InputError("A choice follows one rule", " and ".join(given), "Give one of weights, order and loss")
    if slack is not None and order is None:
        raise InputError("slack belongs to order", "slack alone", 'Write order=["IO", "KL"], slack={"IO": 0.01}')
    if weights is not None:
        if not isinstance(weights, Mapping) or not weights:
            raise InputError(
                "weights must say what each column counts", weights, 'Write weights={"risk": 2, "utility": 1}'
            )
        needs = directions(rumap, list(weights), "weights", ends)
        return Weighted(
            {n: check_number(f"weights[{n!r}]", w, low=0, open_low=True) for n, w in weights.items()}, needs
        )
    if order is not None:
        needs = directions(rumap, order, "order", ends)
        if slack is not None and not isinstance(slack, Mapping):
            raise InputError("slack must say how much each column may lose", slack, 'Write slack={"IO": 0.01}')
        given_slack = dict(slack or {})
        unknown = [n for n in given_slack if n not in needs]
        if unknown:
            raise InputError("slack names a column that is not in order", unknown, f"It has {', '.join(needs)}")
        return Lexicographic(needs, {n: check_number(f"slack[{n!r}]", s, low=0) for n, s in given_slack.items()})
    return MostUseful() if loss is None else _own_loss(rumap, loss, ends)


def first(tiers: Sequence[Tier], allowed: Any) -> Any:
    """Position of the best allowed release, along the last axis; those that tie in everything go to the first listed.

    >>> int(first([(np.array([1.0, 3.0, 2.9]), 0.2), (np.array([0.0, 1.0, 2.0]), 0.0)], np.array([True, True, True])))
    2
    """
    left = np.array(allowed, dtype=bool)
    for values, slack in tiers:
        best = np.max(np.where(left, values, -np.inf), axis=-1, keepdims=True)
        left &= values >= best - slack
    return np.argmax(left, axis=-1)


def _own_loss(rumap: RUMap, loss: Any, ends: Mapping[str, str]) -> OwnLoss:
    do = "Write loss=lambda risk, utility: 3 * risk - utility, or name columns: lambda risk, IO: ..."
    if not callable(loss):
        raise InputError("loss must be a function of risk and utility", loss, do)
    try:
        parameters = inspect.signature(loss).parameters.values()
    except (TypeError, ValueError):  # a numpy ufunc has none
        return OwnLoss(loss, ("risk", "utility"), {"risk": "lower", "utility": "higher"})
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    needed = [p for p in parameters if p.kind in plain and p.default is p.empty]
    names = [p.name for p in needed]
    columns = {"risk", "utility", *rumap.columns}
    if names and all(n in columns for n in names):
        for name in names:
            check_column(rumap, name, "loss")
        # The frontier beside the choice needs ends; the loss itself does not, so unknown ones are left out.
        stored = rumap.attrs.get("better", {})
        known = {k: v for part in (stored if isinstance(stored, list) else [stored]) for k, v in part.items()}
        known = {"risk": "lower", "utility": "higher", **known, **ends}
        by_name = all(p.kind is not inspect.Parameter.POSITIONAL_ONLY for p in needed)
        return OwnLoss(loss, names, {n: known[n] for n in names if n in known}, by_name)
    if len(names) == 2 and not any(p.kind is inspect.Parameter.KEYWORD_ONLY for p in needed):
        return OwnLoss(loss, ("risk", "utility"), {"risk": "lower", "utility": "higher"})
    raise InputError(
        "loss must be a function of risk and utility, or of columns by their names", f"arguments {names}", do
    )


def _turned(values: Any, end: str) -> Tier:
    return (values if end == "higher" else -values, 0.0)
