"""Study files: finding them, loading them, running them.

A study is a Python file with a function ``study(**settings)`` that gives back an R-U map, or several maps as
a list or a dict of them (a panel). The first line of its docstring says what it shows. It may also hold

``MAX_RISK``
    the threshold that is used when none is given;
``notes(result)``
    lines to print after the table, given what ``study`` gave back;
``figure(result)``
    a matplotlib Figure to write instead of the default picture; it may take ``max_risk`` too.

A study that takes ``executor`` and ``checkpoint`` and hands them to `evaluate` or `measure` can be run by workers, and
go on after it was killed: ``--workers``, ``--dask`` and ``--checkpoint`` on the command line give them. They are no
settings.

A study file is code: to load it is to run it. `find_studies` only reads.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import symtable
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .checks import check_number, did_you_mean, is_flag, is_number
from .data.files import study_directory, study_source
from .errors import InputError, RuvError, safe_error_text
from .maps.joining import named_maps
from .maps.show import shorten_text
from .running.progress import Stopped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .maps.rumap import RUMap

#: What a study may take that says how it is run, not what it finds.
RUNNING = ("executor", "checkpoint")

#: Words that a person types and Python does not read as values.
_WORDS = {"true": True, "false": False, "none": None, "inf": math.inf, "+inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True)
class Listing:
    """A study file as it is listed."""

    path: Path
    description: str

    @property
    def name(self) -> str:
        """The file's name without ``.py``."""
        return self.path.stem


@dataclass(frozen=True)
class Outcome:
    """What a study gave back: one map, or a panel of named maps.

    ``maps`` has one entry per map; a single map has the name ``"map"``.
    """

    study: Study
    result: object
    maps: Mapping[str, RUMap]

    @property
    def panel(self) -> bool:
        """True if the study gave back several named maps."""
        return self.maps.get("map") is not self.result

    def notes(self) -> list[str]:
        """The lines that the study has to say about its result; they are computed once."""
        return list(self._run_notes)

    @cached_property
    def _run_notes(self) -> list[str]:
        if self.study.notes_function is None:
            return []
        with _run_study_code(self.study, "notes"):
            lines = self.study.notes_function(self.result)
            if lines is None:
                return []
            return lines.splitlines() if isinstance(lines, str) else [str(line) for line in lines]

    def figure(self, max_risk: float | None = None) -> Figure | None:
        """The study's own picture, or None if it leaves that to `RUMap.plot`."""
        function = self.study.figure_function
        if function is None:
            return None
        with _run_study_code(self.study, "figure"):
            takes = inspect.signature(function).parameters
            figure = function(self.result, max_risk=max_risk) if "max_risk" in takes else function(self.result)
            if not hasattr(figure, "savefig"):
                what, do = "figure() must give back a matplotlib Figure", "End it with return ax.figure"
                raise InputError(what, type(figure).__name__, do)
            return figure

    def picture(self, max_risk: float | None = None) -> bytes | None:
        """The study's own picture as a PNG image, or None."""
        from .plots.theme import as_png

        figure = self.figure(max_risk)
        if figure is None:
            return None
        with _run_study_code(self.study, "figure"):
            return as_png(figure, dpi=150)


@dataclass(frozen=True)
class Study(Listing):
    """A loaded study file. `load_study` makes one."""

    function: Callable[..., object]
    max_risk: float | None = None
    notes_function: Callable[..., str | Iterable[object] | None] | None = None
    figure_function: Callable[..., Figure] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The names that ``study`` takes, with their defaults; a name without one has `inspect.Parameter.empty`."""
        plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return {
            name: p.default for name, p in self._function_parameters.items() if p.kind in plain and name not in RUNNING
        }

    @property
    def _function_parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.function).parameters

    def check_settings(self, settings: Mapping[str, object]) -> dict[str, object]:
        """Return ``settings`` if ``study`` takes them; the error lists the names and their defaults."""
        known = self.settings
        open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in self._function_parameters.values())
        for name, value in settings.items():
            if name not in known:
                if open_ended:
                    continue
                raise InputError(f"{self.name} has no setting of that name", name, _settings_hint(name, known))
            _check_kind(name, value, known[name])
        missing = [k for k, default in known.items() if default is inspect.Parameter.empty and k not in settings]
        if missing:
            raise InputError(f"{self.name} needs a value for {', '.join(missing)}", do=f"Add --set {missing[0]}=VALUE")
        return dict(settings)

    def run(
        self, *, executor: Executor | None = None, checkpoint: str | Path | None = None, **settings: object
    ) -> Outcome:
        """Run the study and name its maps. An exception inside it becomes a `RuvError` of one line."""
        settings = self.check_settings(settings)
        given = {"executor": executor, "checkpoint": checkpoint}
        running = {name: value for name, value in given.items() if value is not None}
        lacking = sorted(running.keys() - self._function_parameters.keys())
        if lacking:
            do = f"Write def study(..., {lacking[0]}=None) in it, and hand {lacking[0]} to evaluate or measure"
            raise InputError(f"{self.name} takes no {' and no '.join(lacking)}", do=do)
        with _run_study_code(self, "study"):
            result = self.function(**settings, **running)
        # A panel may come as an iterator; keep what it gives, because notes and figure see it again.
        if isinstance(result, Iterator):
            with _run_study_code(self, "study"):
                result = list(result)
        return Outcome(self, result, _name_maps(self, result))


def load_study(path: str | Path) -> Study:
    r"""Load a study file.

    Parameters
    ----------
    path : str or Path
        A Python file with a function ``study``. Modules beside it can be imported by it.

    Examples
    --------
    >>> lines = ["from ruvdecision.maps.rumap import RUMap", "def study(u=2.0):"]
    >>> lines += ["    return RUMap.build(labels=['only'], intruder=[u], scientist=[1.0])"]
    >>> size = Path("tiny.py").write_text("\n".join(lines))
    >>> load_study("tiny.py").run(u=4.0).maps["map"].risk.tolist()
    [0.25]
    """
    path = Path(path)
    module = types.ModuleType(f"ruvdecision_study_{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}")
    code = compile(_parse_study_file(path)[0], str(path), "exec", dont_inherit=True)
    module.__file__ = str(path.resolve())
    # Dataclasses and pickle look a class up by its module's name.
    sys.modules[module.__name__] = module
    study = Study(path, "", lambda: None)
    with _run_study_code(study, "the file"):
        exec(code, module.__dict__)
    found = vars(module)
    function = found.get("study")
    if not callable(function):
        do = "Write def study(**settings): ... that gives back an RUMap"
        raise InputError(f"{path} is not a study", "no function named study", do)
    hooks = {}
    for name in ("notes", "figure"):
        hooks[name] = found.get(name)
        if hooks[name] is not None and not callable(hooks[name]):
            raise InputError(f"{name} of {path} must be a function", hooks[name], f"Write def {name}(result): ...")
    max_risk = found.get("MAX_RISK")
    if max_risk is not None:
        max_risk = check_number(f"MAX_RISK of {path}", max_risk, infinite=True)
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        what, do = f"study of {path} does not say what it takes", "Write def study(**settings): ..."
        raise InputError(what, type(function).__name__, do) from None
    return Study(path, _first_line(module.__doc__), function, max_risk, hooks["notes"], hooks["figure"])


def find_studies(directory: str | Path = "models") -> list[Listing]:
    """List the studies of a directory by name, without running them.

    Files whose names begin with an underscore and files without a ``study`` are left out; a file that is not
    valid Python is listed and says so.
    """
    found = []
    for path in sorted(study_directory(directory).glob("*.py")):
        if path.name.startswith("_") or not path.is_file():
            continue
        try:
            tree, names = _parse_study_file(path)
        except InputError as error:
            found.append(Listing(path, f"(cannot be read: {error.got or error.what})"))
            continue
        if "study" in names:
            found.append(Listing(path, _first_line(ast.get_docstring(tree))))
    return found


def parse_settings(pairs: Sequence[str]) -> dict[str, object]:
    """Read ``name=value`` pairs as they come from a command line.

    Values are Python literals; ``true``, ``false``, ``none`` and ``inf`` are understood; anything else is text.

    >>> parse_settings(["records=20", "grid=[1, 2]", "prior_variance=inf", "label=my file"])
    {'records': 20, 'grid': [1, 2], 'prior_variance': inf, 'label': 'my file'}
    """
    settings: dict[str, object] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        name, text = name.strip(), text.strip()
        if not sign or not name.isidentifier():
            raise InputError("A setting is written name=value", pair, "Write --set records=20, for example")
        if name in settings:
            raise InputError("A setting is given twice", name, "Give it once")
        settings[name] = _parse_value(text)
    return settings


def _parse_value(text: str) -> object:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        with warnings.catch_warnings():
            # Text such as "\d" is text and no mistake; Python would warn of it.
            warnings.simplefilter("ignore", SyntaxWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _check_kind(name: str, value: object, default: object) -> None:
    """Refuse text for a number and the other way round, before a long study starts."""
    text = isinstance(value, str)
    if is_flag(default):
        if not is_flag(value):
            raise InputError(f"{name} must be true or false", value, f"Write --set {name}={str(not default).lower()}")
    elif is_number(default):
        if text or is_flag(value) or value is None:
            raise InputError(f"{name} must be a number", value, f"Its default is {default!r}")
    elif isinstance(default, str) and not text:
        raise InputError(f"{name} must be text", value, f"Its default is {default!r}")


def _settings_hint(name: str, known: Mapping[str, object]) -> str:
    if not known:
        return "It takes none"
    given = {n: " ".join(repr(d).split()) for n, d in known.items() if d is not inspect.Parameter.empty}
    shown = ", ".join(f"{n}={shorten_text(given[n], 60)}" if n in given else n for n in known)
    return f"{did_you_mean(name, list(known))} It takes {shown}".lstrip()


def _parse_study_file(path: Path) -> tuple[ast.Module, set[str]]:
    """A study file as Python reads it, and the names that it binds at its top level."""
    source = study_source(path)
    try:
        tree = ast.parse(source, filename=str(path))
        table = symtable.symtable(source, str(path), "exec")  # type: ignore[arg-type]
        return tree, {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}
    except SyntaxError as error:
        where = f"line {error.lineno}: {error.msg}" if error.lineno else str(error.msg)
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes on older Pythons, nesting without end
        where = str(error)
    raise InputError(f"{path} is not valid Python", where, "A study is a Python file with a function study")


def _first_line(text: object) -> str:
    # A study may have set its __doc__ to anything.
    lines = (text if isinstance(text, str) else "").strip().splitlines()
    return lines[0].strip() if lines else "(no description)"


def _name_maps(study: Study, result: object) -> dict[str, RUMap]:
    maps = named_maps(result, f"study() of {study.path} must give back an RUMap, or a list or dict of them")
    # Some file systems do not tell A from a.
    if len({file_name(name).casefold() for name in maps}) != len(maps):
        what = f"The maps of {study.path} must have names that differ as file names"
        raise InputError(what, list(maps), "Rename some of them")
    return maps


def file_name(name: str) -> str:
    """Return a name of a map as a file name: letters, digits, dots, dashes and underscores only."""
    return re.sub(r"[^0-9A-Za-z._-]+", "_", name).strip("._") or "map"


@contextmanager
def _run_study_code(study: Study, part: str) -> Iterator[None]:
    """Run code of a study: modules beside it can be imported, and what it raises becomes one line."""
    folder = str(study.path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    except RuvError as error:
        where = _last_line_of_study(error, study.path)
        # A class of the study's own may take other arguments.
        kind = type(error) if type(error).__module__ == RuvError.__module__ else RuvError
        raise kind(f"{study.path}{f', line {where}' if where else ''}: {error.what}", error.got, error.do) from error
    except (KeyboardInterrupt, Stopped):
        raise
    except BaseException as error:  # SystemExit too: a study does not end the program
        where = _last_line_of_study(error, study.path)
        # What libraries say may quote a record, and this line ends up in logs.
        got = safe_error_text(error) + (f" (line {where})" if where else "")
        what = f"{study.path} failed while loading" if part == "the file" else f"{part}() of {study.path} failed"
        raise RuvError(what, got, "Add --debug to see where") from error
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _last_line_of_study(error: BaseException, path: Path) -> int | None:
    """Return the last line of the study file that the error came through."""
    walked = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in walked if frame.f_code.co_filename == str(path)]
    return lines[-1] if lines else None
