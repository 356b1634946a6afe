"""Settings that can be varied: their values with names, and what turns changed settings into a map."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ...checks import (
    as_python_value,
    check_arguments,
    check_filled,
    check_mapping,
    check_text,
    is_flag,
    is_number,
    is_single,
    suggest,
)
from ...errors import InputError, kind_of
from ...evaluate import Setting, check_setting, evaluate
from ...maps.columns import number_duplicates
from ...maps.joining import named_maps
from ...maps.rumap import RUMap
from ...masks.base import Mask
from ...measure import measure
from ...measures.battery import panel
from ...measures.comparison import check_measures, read
from ...users.panel import Role
from ...users.settings import has_setting, setting_at, settings_of, with_setting

Options = dict[str, Any]
"""Arguments of `evaluate` or `measure`, by name."""
Vary = Mapping[str, Mapping[str, object] | Iterable[object]]
"""The values of every setting that is varied, with or without names of their own."""


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
        return "as given" if value is inspect.Parameter.empty else _value_label(self.name, value, 0)


def as_factors(vary: Vary) -> dict[str, Varied]:
    """Check what is to be varied."""
    do = 'Write vary={"prior_variance": [1, 5, 25]}'
    check_filled("vary", check_mapping("vary", vary, do), do)
    factors = {}
    for name, given in vary.items():
        check_text("A setting", name, do)
        if isinstance(given, Mapping):
            labels, values = [str(k) for k in given], list(given.values())
        else:
            if is_single(given):
                raise InputError(f"vary[{name!r}] must list values", given, f"Write [{given!r}], or more of them")
            values = [as_python_value(v) for v in given]
            labels = [_value_label(name, v, i) for i, v in enumerate(values)]
        if not values:
            raise InputError(f"vary[{name!r}] lists no value", given, "List at least one")
        factors[name] = Varied(name, tuple(values), number_duplicates(labels))
    return factors


@runtime_checkable
class Loaded(Protocol):
    """A study that was loaded from its file (`studies.Study`)."""

    function: Callable[..., object]
    max_risk: float | None

    def run(self, **settings: Any) -> Any: ...


class FunctionStudy:
    """A function of keyword settings that gives a map, or a loaded study."""

    max_risk: float | None = None

    def __init__(self, study: Any, settings: Mapping[str, object], name: str | None) -> None:
        self.settings, self.name = settings, name
        function: Callable[..., object]
        if isinstance(study, Loaded):
            function, self.max_risk = study.function, study.max_risk
            self.call: Callable[..., object] = lambda **given: study.run(**given).maps
        elif callable(study):
            function = self.call = study
        else:
            what = "sensitivity needs a study, a function that gives a map, or masks"
            raise InputError(what, kind_of(study), "Write sensitivity(study, vary={...})")
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            parameters = []
        plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        self.defaults = {p.name: p.default for p in parameters if p.kind in plain}
        self.open = not parameters or any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)

    def has_setting(self, name: str) -> bool:
        """True if the setting is one of its own."""
        return name in self.defaults

    def check(self, changes: Mapping[str, object]) -> None:
        """Refuse changes that cannot be made, before any work."""
        for name in (*changes, *self.settings):
            if not self.open and name not in self.defaults:
                hint = suggest(name, list(self.defaults)) if self.defaults else "It takes none"
                raise InputError("The study has no setting of that name", name, hint)

    def run(self, changes: Mapping[str, object]) -> RUMap:
        """The map with changed settings."""
        found = self.call(**{**self.settings, **changes})
        if isinstance(found, RUMap):
            return found
        maps = named_maps(found, "The study must give a map")
        name = next(iter(maps)) if self.name is None else self.name
        if self.name is None and len(maps) > 1:
            raise InputError("The study gives several maps", list(maps), f"Say which one: name={name!r}")
        if name not in maps:
            raise InputError("The study gives no map of that name", name, suggest(name, list(maps)))
        return maps[name]

    def base(self, name: str) -> object:
        """The base value of a setting; `inspect.Parameter.empty` if it is not known."""
        return self.settings.get(name, self.defaults.get(name, inspect.Parameter.empty))


class ArgumentStudy:
    """A function of the package and its arguments, some of which hold settings that are reached by paths."""

    max_risk: float | None = None
    call: Callable[..., RUMap]
    arguments: Collection[str]
    given: Options

    def has_setting(self, name: str) -> bool:
        """True if the setting is an argument."""
        return name in self.arguments

    def setting_paths(self, name: str) -> list[list[str]]:
        """Where a setting stands: an argument, and the way from there."""
        raise NotImplementedError

    def check(self, changes: Mapping[str, object]) -> None:
        """Refuse changes that cannot be made, before any work."""
        self.changed_arguments(changes)

    def changed_arguments(self, changes: Mapping[str, object]) -> Options:
        """The arguments with changed settings."""
        now = dict(self.given)
        for name, value in changes.items():
            for head, *rest in self.setting_paths(name):
                now[head] = with_setting(now.get(head), rest, value, name)
        return now

    def run(self, changes: Mapping[str, object]) -> RUMap:
        """The map with changed settings."""
        return self.call(**self.changed_arguments(changes))

    def base(self, name: str) -> object:
        """The base value of a setting."""
        if name in self.arguments:
            return self.given.get(name, inspect.signature(self.call).parameters[name].default)
        return setting_at(self.given, self.setting_paths(name)[0])


class UserStudy(ArgumentStudy):
    """Masks and two users, whose settings are reached by paths."""

    call = staticmethod(evaluate)

    def __init__(self, masks: Sequence[Mask] | Mask, users: Mapping[str, Role | None], options: Setting) -> None:
        for who, user in users.items():
            if user is None:
                raise InputError(f"Masks need the {who}", None, f"Give {who}=ruv.User(...)")
        self.arguments = [*Setting.__annotations__, "progress"]
        check_setting(options, self.arguments)
        self.users, self.given = users, {"masks": masks, **users, **options}

    def setting_paths(self, name: str) -> list[list[str]]:
        """Where a setting stands; without a user's name it is one of both users."""
        head, *rest = name.split(".")
        if name in self.arguments or head in ("masks", *self.users):
            return [[head, *rest]]
        owners = [who for who, user in self.users.items() if has_setting(user, head)]
        if not owners:
            hint = suggest(name, ["masks", *self.users, "belief", "target", "loss", *self.arguments, "max_risk"])
            do = f"{hint} Paths look like intruder.belief.prior_variance"
            raise InputError("vary names something that neither user has", name, do)
        return [[who, head, *rest] for who in owners]


class MeasuredStudy(ArgumentStudy):
    """Masks or releases of data, and measures, whose settings are reached by their names: ``"linkage.known"``."""

    call = staticmethod(measure)

    def __init__(self, masks: Any, options: Options) -> None:
        self.arguments = inspect.signature(measure).parameters
        check_arguments("measure", options, self.arguments)
        chosen = options.get("measures")
        if chosen is None or isinstance(chosen, str):
            chosen = panel(chosen, read(options["data"], "the original").n)
        self.measures = check_measures(chosen)
        self.given = {"masks": masks, **options, "measures": self.measures}

    def setting_paths(self, name: str) -> list[list[str]]:
        """Where a setting stands; without a measure's name it is one of all that know it."""
        if name in self.arguments:
            return [[name]]
        head, _, rest = name.rpartition(".")
        known = {j: settings_of(m) for j, m in enumerate(self.measures) if not head or m.name == head}
        found = [["measures", str(j), rest] for j, settings in known.items() if rest in settings]
        if not found:
            every = [f"{m.name}.{setting}" for m in self.measures for setting in settings_of(m)]
            do = f"{suggest(name, [*every, *self.arguments, 'max_risk'])} Paths look like {every[0]}"
            raise InputError("vary names something that no measure has", name, do)
        return found


def as_study(
    study: Any, users: Mapping[str, Role | None], settings: Mapping[str, object] | None, options: Any, name: str | None
) -> FunctionStudy | UserStudy | MeasuredStudy:
    """What `sensitivity` was given, as something that turns changed settings into a map."""
    settings = check_mapping("settings", {} if settings is None else settings, 'Write settings={"points": 10}')
    measured = "data" in options and not any(users.values())
    if (not callable(study) and not is_single(study)) or isinstance(study, Mask) or (study is None and measured):
        if settings:
            do = "Pass arguments of evaluate as they are"
            raise InputError("settings belong to a study", "masks and settings", do)
        if name is not None:
            raise InputError("name picks one of several maps", "masks, which give one", "Leave name out")
        return MeasuredStudy(study, options) if measured else UserStudy(study, users, options)
    if any(user is not None for user in users.values()):
        raise InputError("A study has its own users", "intruder or scientist", "Give masks, or leave the users out")
    return FunctionStudy(study, {**settings, **options}, name)


def _value_label(name: str, value: object, position: int) -> str:
    """A short name for a value. Data sets are never shown."""
    kind = f"{type(value).__name__} {position + 1}"
    if name.split(".")[-1] == "data" or hasattr(value, "to_numpy"):
        return f"data {position + 1}"
    if is_number(value) and not is_flag(value):
        return f"{value:.6g}"
    if isinstance(value, (np.ndarray, list, tuple)):
        flat = np.ravel(np.asarray(value, dtype=object))
        plain = flat.size <= 9 and all(is_number(v) or isinstance(v, str) for v in flat)
        return str(np.asarray(value).tolist()) if plain else kind
    if value is None or is_flag(value) or isinstance(value, str):
        return str(value)
    names = [getattr(value, "name", None), getattr(value, "__name__", None) if callable(value) else None]
    text = next((n for n in names if isinstance(n, str) and n and n != "<lambda>"), repr(value))
    return kind if " at 0x" in text or len(text) > 60 else text
