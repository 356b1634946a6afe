"""A study file on the page: its settings with numeric defaults become sliders, and its maps are shown.

Beside what `ruvdecision.studies` says, a study file may hold

``RANGES``
    limits of settings, ``{"n": (2, 100)}``; they are guessed from the defaults otherwise;
``users(**settings)``
    the pair (intruder, scientist), for the pictures of what both believe.
"""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..checks import suggest
from ..errors import InputError
from ..maps.rumap import RUMap
from ..studies import Outcome, Study
from ..users.user import Snooper, User
from .background import Runner
from .controls import Control, Slider, Switch, rising
from .examplefile import panels_of
from .lesson import Built, ending

#: What a request may hold beside the settings of its topic.
VIEW = ("topic", "max_risk", "look", "example", "width", "map")
#: How long a quick study may keep a request waiting, in seconds.
PATIENCE = 1.5
#: Names of settings that are shares or probabilities.
SHARES = ("p", "q", "alpha", "share", "level", "rate", "fraction", "probability", "quantile", "percentile", "within")


class StudyTopic:
    """A loaded study as a topic of the page.

    Parameters
    ----------
    study : Study
        The study.
    fixed : mapping
        Settings that the page does not move.
    debug : bool
        Write tracebacks of the study to standard error.
    """

    kind: ClassVar[str] = "study"
    threshold: Slider | None
    """It depends on the map; see `threshold_of`."""

    def __init__(self, study: Study, fixed: Mapping[str, Any] | None = None, debug: bool = False) -> None:
        self.study = study
        self.threshold = None
        self.fixed = study.check(fixed or {})
        self.runner = Runner(study, debug)
        self._first, self._begun = threading.Lock(), False
        self._met: tuple[Any, tuple[Any, Any] | None] | None = None
        self.controls: Sequence[Control] = tuple(_controls(study, self.fixed))
        self.name = "study"
        self.title = study.description
        self.about = (
            inspect.cleandoc(study.function.__doc__ or "").split("\n\n")[0].replace("\n", " ").replace("``", "")
        )

    def settings(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What ``study`` is called with."""
        return {**self.fixed, **{name.removesuffix("."): value for name, value in values.items()}}

    def begin(self) -> None:
        """Run the study as it stands, once: then there is something to show, and we know whether it is quick."""
        with self._first:
            if self._begun:
                return
            self._begun = True
        self.runner.start(self.settings({c.name: c.default for c in self.controls}))

    def start(self, values: Mapping[str, Any]) -> bool:
        """Run the study with these settings, unless that was done."""
        settings = self.settings(values)
        if self.runner.outcome(settings) is None:
            self.runner.start(settings)
        return True

    def stop(self) -> None:
        """Stop what runs."""
        self.runner.stop()

    def waiting(self, values: Mapping[str, Any]) -> tuple[int, dict[str, str]] | None:
        """None if the map is there; otherwise how far it is, or that it must be asked for, with a status of HTTP."""
        settings, runner = self.settings(values), self.runner
        job = runner.job(settings)
        if runner.outcome(settings) is None and runner.failure(settings) is None and job is None and runner.quick:
            job = runner.start(settings)
            job.ended.wait(PATIENCE)
        if runner.outcome(settings) is not None:
            return None
        why = runner.failure(settings)
        if why is not None:
            return 400, {"message": why}
        if job is None:
            return 202, {"waiting": "ask", "message": "These settings have not been computed yet. Press Compute."}
        return 202, {"waiting": "running", "message": f"Computing for {job.seconds:.0f} s: {job.text}"}

    def outcome(self, values: Mapping[str, Any]) -> Outcome:
        """What the study gave back for these settings."""
        outcome = self.runner.outcome(self.settings(values))
        if outcome is None:
            raise InputError("These settings have not been computed yet", do="Press Compute on the page first")
        return outcome

    def read_threshold(self, threshold: Slider, text: str) -> float:
        """The threshold that was sent; the slider moves with the map, so a shared link may lie beyond it."""
        return Slider("max_risk", threshold.label, (-1e12, 1e12), 0.0).read(text)  # `choose` says what makes no sense

    def built(self, values: Mapping[str, Any], name: str | None) -> tuple[str, Built]:
        """One of the study's maps, the first if none is named."""
        maps = self.outcome(values).maps
        name = next(iter(maps)) if name is None else name
        if name not in maps:
            raise InputError("The study has no map of that name", name[:60], suggest(name[:60], list(maps)))
        users = self._users(self.settings(values))
        modelled = maps[name].intruder is not None and maps[name].masks is not None
        note = (
            ()
            if users or not modelled
            else ("To see what the users believe, let the study file define users(**settings), which gives back both.",)
        )
        return name, Built(maps[name], panels_of(*users) if users else None, notes=(*maps[name].notes, *note))

    def _users(self, settings: Mapping[str, Any]) -> tuple[Any, Any] | None:
        """The study's users; the last ones are kept, as a belief may take a while to build."""
        key = tuple(sorted(settings.items()))
        if self._met is None or self._met[0] != key:
            self._met = (key, find_users(self.study, settings))
        return self._met[1]

    def threshold_of(self, rumap: RUMap) -> Slider:
        """A slider over the risks of the map."""
        known = rumap.risk[np.isfinite(rumap.risk)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        middle = float(np.median(known)) if known.size else 0.5
        default = self.study.max_risk if self.study.max_risk is not None else float(f"{middle:.2g}")
        if not math.isfinite(default):
            default = high
        low, high = min(low, default), max(high, default)
        if low > 0 and high > 20 * low:
            stops = rising(float(f"{0.9 * low:.2g}"), float(f"{1.1 * high:.2g}"), 160, 3)
        else:
            room = 0.1 * (high - low) or 0.1 * abs(high) or 1.0
            first = max(low - room, low / 2) if low > 0 else low - room
            stops = tuple(sorted({float(f"{v:.3g}") for v in np.linspace(first, high + room, 161)}))
        return Slider("max_risk", "Largest tolerable risk", tuple(sorted({*stops, default})), default)

    def code(self, values: Mapping[str, Any], max_risk: float, name: str | None = None) -> str:
        """Python code that runs the study file and chooses."""
        given = ", ".join(f"{k}={v!r}" for k, v in self.settings(values).items())
        one = "next(iter(outcome.maps.values()))" if name is None else f"outcome.maps[{name!r}]"
        return (
            '"""A study as the page showed it. A study file is code: run only files that you trust."""\n\n'
            "import ruvdecision as ruv\n"
            "from ruvdecision.studies import load_study\n\n"
            f"outcome = load_study({Path(self.study.path).as_posix()!r}).run({given})\n"
            f"rumap = {one}\n"
        ) + ending(max_risk)


def find_users(study: Study, settings: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """The pair that the study's own ``users`` gives for these settings; None if it has none, or one that needs more."""
    function: Callable[..., Any] | None = getattr(study.function, "__globals__", {}).get("users")
    if not callable(function):
        return None
    try:
        takes = inspect.signature(function).parameters
        defaults = {k: v for k, v in study.settings.items() if v is not inspect.Parameter.empty}
        known = {**defaults, **settings}
        open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in takes.values())
        pair = function(**{k: v for k, v in known.items() if k in takes or open_ended})
        intruder, scientist = pair
    except Exception:
        return None  # it is the study's own code, and the page can do without
    fits = (
        all(isinstance(user, (User, Snooper)) for user in (intruder, scientist))
        and getattr(scientist, "belief", None) is not None
    )
    return (intruder, scientist) if fits else None


def _controls(study: Study, fixed: Mapping[str, Any]) -> list[Control]:
    ranges = getattr(study.function, "__globals__", {}).get("RANGES", {})
    if not isinstance(ranges, Mapping):
        raise InputError("RANGES of a study must be a mapping", type(ranges).__name__, 'Write RANGES = {"n": (2, 100)}')
    found: list[Control] = []
    for name, default in study.settings.items():
        label = name.replace("_", " ").capitalize() if len(name) > 1 else name
        if name in fixed:
            continue
        # The page's own words are taken; no setting has a dot in its name.
        name = f"{name}." if name in VIEW else name
        if isinstance(default, (bool, np.bool_)):
            found.append(Switch(name, label, bool(default)))
        elif isinstance(default, (int, float, np.integer, np.floating)) and math.isfinite(default):
            whole = isinstance(default, (int, np.integer))
            low, high = _limits(name, float(default), whole, ranges.get(name.removesuffix(".")))
            found.append(Slider(name, label, _stops(low, high, float(default), whole), float(default), whole))
    return found


def _limits(name: str, default: float, whole: bool, given: Any) -> tuple[float, float]:
    """The study's own limits, or a guess: a tenth to ten times the default."""
    if given is not None:
        try:
            low, high = (float(v) for v in given)
        except (TypeError, ValueError):
            raise InputError(
                f"RANGES of {name} must be a pair of numbers", given, f'Write RANGES = {{"{name}": (1, 100)}}'
            ) from None
        if not low < high or not low <= default <= high or not math.isfinite(high - low):
            raise InputError(
                f"RANGES of {name} must rise and hold its default {default:g}",
                given,
                "Give the least and the greatest value",
            )
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


def _stops(low: float, high: float, default: float, whole: bool) -> list[float]:
    """Equal ratios for wide positive ranges, equal steps otherwise; the default is always one of them."""
    if whole and high - low <= 200:
        return [float(v) for v in range(math.ceil(low), math.floor(high) + 1)]
    if low > 0 and high >= 20 * low and high > 1:
        stops = set(rising(low, high, 120, 3 if high / low < 1000 else 2, whole))
    else:
        grid = np.linspace(low, high, 201)
        stops = {float(round(v)) for v in grid} if whole else {float(f"{v:.4g}") for v in grid}
    return sorted({v for v in stops if low <= v <= high} | {low, high, default})
