"""A study file on the page: its settings with numeric defaults become sliders, and its maps are shown.

Beside what `ruvdecision.studies` says, a study file may hold ``RANGES``, limits of settings, ``{"n": (2, 100)}``; they
are guessed from the defaults otherwise. What the docstring of ``study`` says about a setting stands beside its slider.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from ..checks import check_mapping, is_flag, is_integer, one_number
from ..errors import InputError
from ..studies import Outcome, Study
from .beliefs import beliefs_of
from .topic import Built, Control, Pick, Slider, Topic, Values, geometric_stops

#: Names of settings that are shares or probabilities.
SHARES = ("p", "q", "alpha", "share", "level", "rate", "fraction", "probability", "quantile", "percentile", "within")
MAP = "map."
"""The control that says which of several maps is shown; no setting has a dot in its name."""


def study_topic(study: Study, fixed: Mapping[str, object] | None = None) -> Topic:
    """A loaded study as a topic of the page; ``fixed`` settings are not moved."""
    given = study.check_settings(fixed or {})
    said = inspect.cleandoc(study.function.__doc__ or "")
    controls = tuple(_controls_of_study(study, given, said))
    outcomes: dict[str, Outcome] = {}

    def settings(values: Values) -> Values:
        return {**given, **{k: v for k, v in values.items() if k != MAP}}

    def build(values: Values) -> Built:
        wanted = settings(values)
        key = repr(sorted(wanted.items()))
        if key not in outcomes:
            outcomes.clear()  # the page keeps what it shows; this is for a panel's other maps
            outcomes[key] = study.run(**wanted)
        outcome = outcomes[key]
        name = values.get(MAP) or next(iter(outcome.maps))
        rumap = outcome.maps.get(name) or next(iter(outcome.maps.values()))
        believed = beliefs_of(*rumap.users) if rumap.users and rumap.masks else None
        picture = None if outcome.panel else outcome.picture
        others = tuple(outcome.maps) if outcome.panel else ()
        return Built(rumap, believed, notes=rumap.notes, figure=picture, maps=others)

    def write(values: Values) -> str:
        arguments = ", ".join(f"{k}={v!r}" for k, v in settings(values).items())
        one = f"outcome.maps[{values[MAP]!r}]" if values.get(MAP) else "next(iter(outcome.maps.values()))"
        return (
            "# A study file is code: run only files that you trust.\nimport ruvdecision as ruv\n"
            f"from ruvdecision.studies import load_study\n\n"
            f"outcome = load_study({Path(study.path).as_posix()!r}).run({arguments})\nrumap = {one}\n"
        )

    about = " ".join(said.split("\n\n")[0].replace("``", "").split())
    return Topic("study", study.description, about, controls, build, write, study.max_risk, quick=None)


def _controls_of_study(study: Study, fixed: Mapping[str, object], said: str) -> list[Control]:
    ranges = getattr(study.function, "__globals__", {}).get("RANGES", {})
    check_mapping("RANGES", ranges, 'Write RANGES = {"n": (2, 100)}')
    found: list[Control] = []
    for name, default in study.settings.items():
        label = name.replace("_", " ").capitalize() if len(name) > 1 else name
        if name in fixed:
            continue
        number = one_number(default)
        if is_flag(default):
            found.append(Pick(name, label, {True: "yes", False: "no"}, bool(default), describe_setting(name, said)))
        elif number is not None and math.isfinite(number):
            whole = is_integer(default)
            start = int(default) if whole else number
            low, high = _slider_limits(name, start, whole, ranges.get(name))
            found.append(Slider(name, label, _slider_stops(low, high, whole), start, describe_setting(name, said)))
    return found


def describe_setting(name: str, text: str) -> str:
    """What a docstring says about a setting: its entry in a list of parameters, or the sentence that names it.

    >>> describe_setting("largest", "Map figures. Noise goes up to ``largest`` times the variance.")
    'Noise goes up to largest times the variance.'
    """
    entry = re.search(rf"^ *{re.escape(name)} *:[^\n]*\n((?: +\S[^\n]*\n?)+)", text, flags=re.M)
    if entry is None:
        entry = re.search(rf"((?:[^.`]|``[^`]*``)*``{re.escape(name)}``(?:[^.]|\.\d)*\.?)", " ".join(text.split()))
    return "" if entry is None else " ".join(entry[1].replace("``", "").split())


def _slider_limits(name: str, default: float, whole: bool, given: Iterable[float] | None) -> tuple[float, float]:
    """The study's own limits, or a guess: a tenth to ten times the default."""
    if given is not None:
        do = f'Write RANGES = {{"{name}": (1, 100)}}'
        try:
            low, high = (float(v) for v in given)
        except (TypeError, ValueError):
            raise InputError(f"RANGES of {name} must be a pair of numbers", given, do) from None
        if not low < high or not low <= default <= high or not math.isfinite(high - low):
            raise InputError(f"RANGES of {name} must rise and hold its default {default:g}", given, do)
        return low, high
    if name == "seed":
        return 0.0, max(100.0, default)
    if whole:
        return (0.0, 10.0) if default == 0 else (min(1.0, default * 10), max(10.0, abs(default) * 10))
    if name.lower() in SHARES and 0 < default < 1:
        return 0.001, 0.999
    if default == 0:
        return -10.0, 10.0
    return (default / 10, default * 10) if default > 0 else (default * 10, -default * 10)


def _slider_stops(low: float, high: float, whole: bool) -> list[float]:
    """Equal ratios for wide positive ranges, equal steps otherwise."""
    if whole and high - low <= 200:
        return list(range(math.ceil(low), math.floor(high) + 1))
    if low > 0 and high >= 20 * low and high > 1:
        return list(geometric_stops(low, high, 120, 3 if high / low < 1000 else 2, whole))
    grid = np.linspace(low, high, 201)
    return sorted({round(float(v)) for v in grid} if whole else {float(f"{v:.4g}") for v in grid})
