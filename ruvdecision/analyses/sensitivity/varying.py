"""Settings that can be varied: their values with names, and what turns changed settings into a map."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...checks import is_single, suggest
from ...errors import InputError, kind_of
from ...evaluate import Setting, check_setting, evaluate
from ...maps.columns import tell_apart
from ...maps.rumap import RUMap
from ...masks.base import Mask

USERS = ("intruder", "scientist")


@dataclass(frozen=True)
class Varied:
    """The values of one setting, each with a label."""

    name: str
    values: tuple[object, ...]
    labels: tuple[str, ...]

    def base_label(self, value: object) -> str:
        """The base value as text; the label of the same value where it is one of those listed."""
        for v, label in zip(self.values, self.labels, strict=True):
            if v is value or (type(v) is type(value) and is_single(v) and is_single(value) and bool(v == value)):
                return label
        return "as given" if value is inspect.Parameter.empty else _label(self.name, value, 0)


class StudyRunner:
    """Turns changed settings into a map."""

    max_risk: float | None = None

    def takes(self, name: str) -> bool:
        """True if the setting is one of its own."""
        raise NotImplementedError

    def check(self, changes: Mapping[str, object]) -> None:
        """Refuse changes that cannot be made, before any work."""
        raise NotImplementedError

    def run(self, changes: Mapping[str, object]) -> RUMap:
        raise NotImplementedError

    def base(self, name: str) -> object:
        """The base value of a setting; `inspect.Parameter.empty` if it is not known."""
        raise NotImplementedError


def as_runner(
    study: Any, intruder: Any, scientist: Any, settings: dict[str, Any], options: dict[str, Any], name: str | None
) -> StudyRunner:
    """The runner for what `sensitivity` was given."""
    if isinstance(study, (Mask, list, tuple)) or (hasattr(study, "__iter__") and not callable(study)):
        if settings:
            raise InputError(
                "settings belong to a study", "masks and settings", "Pass arguments of evaluate as they are"
            )
        for who, user in zip(USERS, (intruder, scientist), strict=True):
            if user is None:
                raise InputError(f"Masks need the {who}", None, f"Give {who}=ruv.User(...)")
        if name is not None:
            raise InputError("name picks one of several maps", "masks, which give one", "Leave name out")
        return _Users(study, intruder, scientist, options)
    if intruder is not None or scientist is not None:
        raise InputError("A study has its own users", "intruder or scientist", "Give masks, or leave the users out")
    if not callable(study) and not (hasattr(study, "run") and hasattr(study, "function")):
        raise InputError(
            "sensitivity needs a study, a function that gives a map, or masks",
            kind_of(study),
            "Write sensitivity(study, vary={...})",
        )
    return _Function(study, {**settings, **options}, name)


def as_factors(vary: Mapping[str, Mapping[str, object] | Iterable[object]]) -> dict[str, Varied]:
    """Check what is to be varied."""
    if not isinstance(vary, Mapping) or not vary:
        raise InputError(
            "vary must say which settings take which values", vary, 'Write vary={"prior_variance": [1, 5, 25]}'
        )
    factors = {}
    for name, given in vary.items():
        if not isinstance(name, str) or not name:
            raise InputError("A setting is named by text", name, 'Write vary={"prior_variance": [1, 5, 25]}')
        if isinstance(given, Mapping):
            labels, values = [str(k) for k in given], list(given.values())
        else:
            if isinstance(given, str) or not hasattr(given, "__iter__"):
                raise InputError(f"vary[{name!r}] must list values", given, f"Write [{given!r}], or more of them")
            values = [v.item() if isinstance(v, np.generic) else v for v in given]
            labels = [_label(name, v, i) for i, v in enumerate(values)]
        if not values:
            raise InputError(f"vary[{name!r}] lists no value", given, "List at least one")
        factors[name] = Varied(name, tuple(values), tell_apart(labels))
    return factors


def changed(thing: Any, path: Sequence[str], value: Any, whole: str) -> Any:
    """The same thing with the part at ``path`` replaced; nothing is edited in place.

    >>> from ruvdecision.beliefs.normal import NormalBelief
    >>> changed(NormalBelief(records=3, variance=1, prior_variance=5), ["prior_variance"], 2, "prior_variance")
    NormalBelief(records=3, variance=1, prior_mean=0, prior_variance=2)
    """
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(thing, Mapping):
        if head not in thing:
            raise InputError(f"{whole} names a part that is not there", head, suggest(head, [str(k) for k in thing]))
        return {**thing, head: changed(thing[head], rest, value, whole)}
    if isinstance(thing, (list, tuple)):
        if not head.isdigit() or int(head) >= len(thing):
            raise InputError(f"{whole} needs a position from 0 to {len(thing) - 1}", head, "Count from 0")
        parts = list(thing)
        parts[int(head)] = changed(parts[int(head)], rest, value, whole)
        return type(thing)(parts) if type(thing) in (list, tuple) else tuple(parts)
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        raise InputError(
            f"{whole} cannot be varied: {type(thing).__name__} has no named parts",
            head,
            "Give whole objects as values instead",
        )
    known = [f.name for f in dataclasses.fields(thing) if f.init]
    if head not in known and _has(thing, head) and "members" in known:
        # A panel: every member that has such a part changes.
        members = tuple(changed(m, path, value, whole) if _has(m, head) else m for m in getattr(thing, "members", ()))
        return dataclasses.replace(thing, members=members)
    if head not in known:
        raise InputError(f"{whole} names a part that {type(thing).__name__} does not have", head, suggest(head, known))
    return dataclasses.replace(thing, **{head: changed(getattr(thing, head), rest, value, whole)})


class _Function(StudyRunner):
    """A function of keyword settings, or a loaded study."""

    def __init__(self, study: Any, settings: dict[str, object], name: str | None) -> None:
        self.study, self.settings, self.name = study, settings, name
        self.function: Callable[..., object] = study.function if hasattr(study, "function") else study
        self.max_risk = getattr(study, "max_risk", None)
        try:
            parameters = inspect.signature(self.function).parameters
        except (TypeError, ValueError):
            parameters = {}  # type: ignore[assignment]
        plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        self.defaults = {n: p.default for n, p in parameters.items() if p.kind in plain}
        self.open = not parameters or any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())

    def takes(self, name: str) -> bool:
        return name in self.defaults

    def check(self, changes: Mapping[str, object]) -> None:
        for name in (*changes, *self.settings):
            if not self.open and name not in self.defaults:
                hint = suggest(name, list(self.defaults)) if self.defaults else "It takes none"
                raise InputError("The study has no setting of that name", name, hint)

    def run(self, changes: Mapping[str, object]) -> RUMap:
        settings = {**self.settings, **changes}
        result = self.study.run(**settings).maps if hasattr(self.study, "run") else self.function(**settings)
        if isinstance(result, RUMap):
            return result
        if isinstance(result, (list, tuple)):
            result = {f"map{i}": m for i, m in enumerate(result, start=1)}
        if not isinstance(result, Mapping) or not all(isinstance(m, RUMap) for m in result.values()) or not result:
            raise InputError("The study must give a map", type(result).__name__, "End it with return ruv.evaluate(...)")
        if self.name is None and len(result) > 1:
            raise InputError(
                "The study gives several maps", list(result), f"Say which one: name={next(iter(result))!r}"
            )
        if self.name is not None and self.name not in result:
            raise InputError(
                "The study gives no map of that name", self.name, suggest(self.name, [str(k) for k in result])
            )
        found: RUMap = next(iter(result.values())) if self.name is None else result[self.name]
        return found

    def base(self, name: str) -> object:
        return self.settings.get(name, self.defaults.get(name, inspect.Parameter.empty))


class _Users(StudyRunner):
    """Masks and two users, whose parts are reached by paths."""

    def __init__(self, masks: Any, intruder: Any, scientist: Any, options: dict[str, Any]) -> None:
        self.parts: dict[str, Any] = {"masks": masks, "intruder": intruder, "scientist": scientist}
        self.options = options
        self.arguments = [*Setting.__annotations__, "progress"]
        check_setting(options, self.arguments)

    def takes(self, name: str) -> bool:
        return name in self.arguments

    def _changed(self, changes: Mapping[str, object]) -> dict[str, Any]:
        now = {**self.parts, **self.options}
        for name, value in changes.items():
            head, *rest = name.split(".")
            if name in self.arguments or head in self.parts:
                now[head] = changed(now.get(head), rest, value, name)
                continue
            owners = [w for w in USERS if _has(now[w], head)]
            if not owners:
                options = [*self.parts, "belief", "target", "loss", *self.arguments, "max_risk"]
                hint = suggest(name, options)
                raise InputError(
                    "vary names something that neither user has",
                    name,
                    f"{hint} Paths look like intruder.belief.prior_variance",
                )
            for who in owners:  # without a user's name both change
                now[who] = changed(now[who], [head, *rest], value, name)
        return now

    def check(self, changes: Mapping[str, object]) -> None:
        self._changed(changes)

    def run(self, changes: Mapping[str, object]) -> RUMap:
        now = self._changed(changes)
        return evaluate(now.pop("masks"), **now)

    def base(self, name: str) -> object:
        head, *rest = name.split(".")
        if name in self.arguments:
            return self.options.get(name, inspect.signature(evaluate).parameters[name].default)
        thing: Any = self.parts.get(head)
        path = rest
        if head not in self.parts:
            owner = next(w for w in USERS if _has(self.parts[w], head))
            thing, path = self.parts[owner], [head, *rest]
        for part in path:
            while not hasattr(thing, part) and _has(thing, part):
                thing = next(m for m in thing.members if _has(m, part))  # of a panel the first that has it
            if isinstance(thing, Mapping):
                thing = thing[part]
            else:
                thing = thing[int(part)] if isinstance(thing, (list, tuple)) else getattr(thing, part)
        return thing


def _has(user: object, part: str) -> bool:
    """True if a user, or a member of a panel of users, has such a part."""
    return hasattr(user, part) or any(_has(m, part) for m in getattr(user, "members", ()))


def _label(name: str, value: object, position: int) -> str:
    """A short name for a value. Data sets are never shown."""
    if name.split(".")[-1] == "data" or hasattr(value, "to_numpy"):
        return f"data {position + 1}"
    if value is None or isinstance(value, (bool, str)):
        return str(value)
    if isinstance(value, (int, float)):
        return f"{value:.6g}"
    if isinstance(value, (np.ndarray, list, tuple)):
        flat = np.ravel(np.asarray(value, dtype=object))
        plain = flat.size <= 9 and all(isinstance(v, (int, float, np.number, str)) for v in flat)
        return str(np.asarray(value).tolist()) if plain else f"{type(value).__name__} {position + 1}"
    text = getattr(value, "name", None) or (getattr(value, "__name__", "") if callable(value) else "")
    text = text if isinstance(text, str) and text and text != "<lambda>" else repr(value)
    if " at 0x" in text or len(text) > 60:
        text = f"{type(value).__name__} {position + 1}"
    return text
