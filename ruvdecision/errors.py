"""The few kinds of error that the package raises.

Every message says three things: what was wrong, what was got, and what to do. None shows a confidential record: a
message is printed, logged and sent by mail, and nobody looks through it first. What may be data is described by its
kind and size, and what somebody's function said when it failed on data is described by its kind and place.
"""

from __future__ import annotations

import datetime
import numbers
import traceback
import types
from pathlib import PurePath

#: Errors whose text is about code and files, or the author's own word, and does not quote what was computed with.
ABOUT_CODE = (
    ImportError,
    NameError,
    AttributeError,
    SyntaxError,
    OSError,
    ZeroDivisionError,
    RecursionError,
    SystemExit,
)

#: Longer lists than this may be data, and nobody reads them in a message anyway.
FEW = 12


class RuvError(Exception):
    """Base of every error that ruvdecision raises on purpose.

    Parameters
    ----------
    what : str
        What was wrong, as a short sentence without a full stop.
    got : object, optional
        The value that was received. Text is shown as it is; numbers, short lists of them, functions and the parts of
        this package by their ``repr``. Arrays, tables, long lists and whatever else may hold records are shown, and
        kept, as `kind_of` tells them.
    do : str, optional
        What the caller can do about it, as a sentence.
    """

    def __init__(self, what: str, got: object = None, do: str | None = None) -> None:
        # An exception is kept, pickled and sent from worker to caller: it must not carry data either.
        got = got if _is_harmless(got) else kind_of(got)
        self.what, self.got, self.do = what, got, do
        message = what.rstrip(".")
        if got is not None:
            shown = got if isinstance(got, str) else repr(got)
            message += f"; got {shown if len(shown) <= 200 else shown[:197] + '...'}"
        message += "."
        if do:
            message += " " + do if do.endswith(("?", ".")) else f" {do}."
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions cross process borders when a map runs on several workers.
        return (type(self), (self.what, self.got, self.do))


class InputError(RuvError, ValueError):
    """An argument that cannot be right: a negative variance, an unknown name, a bad shape."""


class UnsupportedError(RuvError, NotImplementedError):
    """A valid request that this engine, mask or loss cannot answer exactly; the message names what can."""


class InfeasibleError(RuvError, ValueError):
    """No candidate meets the threshold; the message names the nearest miss."""


class ConvergenceError(RuvError, RuntimeError):
    """A sampler did not converge, and the caller asked not to go on then (``Sampling(strict=True)``)."""


class NotConvergedWarning(UserWarning):
    """A posterior is known by draws of a sampler that did not converge."""


def kind_of(value: object) -> str:
    """What kind of thing a value is, and how large, but not what is in it.

    >>> kind_of([90817.26, 60504.39]), kind_of(3.5)
    ('a list of 2', 'a float')
    """
    if value is None or isinstance(value, type):
        return "nothing" if value is None else f"the class {value.__name__}"
    name = with_article(type(value).__name__)
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"{name} of shape {shape}"
    sized = isinstance(value, (list, tuple, set, frozenset, dict, bytes))
    return name + (f" of {len(value)}" if sized else "")  # type: ignore[arg-type]


def with_article(name: str) -> str:
    """The name of a class with the article that is spoken before it.

    >>> with_article("User"), with_article("RUMap"), with_article("array")
    ('a User', 'an RUMap', 'an array')
    """
    return f"{'an' if name[0] in 'AEIOaeio' or name.startswith('RU') else 'a'} {name}"


def describe_failure(error: BaseException) -> str:
    """What went wrong in somebody's function: the kind of error and where, without its text, which may quote a record.

    >>> try:
    ...     float("Zebulon Quixby")
    ... except ValueError as error:
    ...     describe_failure(error).partition(" at ")[0]
    'ValueError'
    """
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    where = f" at line {places[-1][1]} of {PurePath(places[-1][0]).name}" if places else ""
    return f"{type(error).__name__}{where}"


def safe_error_text(error: BaseException) -> str:
    """What may be printed of an error: ours and those about code and files with their text, others by their kind.

    >>> (
    ...     safe_error_text(ModuleNotFoundError("No module named 'x'")),
    ...     safe_error_text(ValueError("no number: 'Zebulon Quixby'")),
    ... )
    ("ModuleNotFoundError: No module named 'x'", 'ValueError')
    """
    text = _one_line_text(error) if _may_be_shown(error) else ""
    return type(error).__name__ + (f": {text}" if text else "")


def _may_be_shown(error: BaseException) -> bool:
    """Whether an error's text quotes no data."""
    return isinstance(error, (RuvError, *ABOUT_CODE))


def safe_traceback(error: BaseException) -> str:
    """A traceback for a terminal or a log: where it happened, with all causes, each as `safe_error_text`."""
    met, parts = set(), []
    one: BaseException | None = error
    while one is not None and id(one) not in met:
        met.add(id(one))
        whole = _may_be_shown(one) or not _one_line_text(one)
        left_out = "" if whole else " (its text is left out: it may quote data)"
        trace = "".join(traceback.format_tb(one.__traceback__))
        parts.append(f"Traceback (most recent call last):\n{trace}{safe_error_text(one)}{left_out}\n")
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return "\nwhich led to\n\n".join(reversed(parts))


def _one_line_text(error: BaseException) -> str:
    try:
        return " ".join(str(error).split())
    except Exception:  # a class of somebody's own that cannot say what it is
        return ""


def _is_harmless(value: object, depth: int = 0) -> bool:
    """True for what may stand in a message: no data set, and nothing whose ``repr`` might show one."""
    if value is None or isinstance(
        value, (str, bool, numbers.Number, datetime.date, datetime.timedelta, PurePath, range, slice, type)
    ):
        return True
    if isinstance(value, (list, tuple, set, frozenset)):
        return len(value) <= FEW and depth < 3 and all(_is_harmless(v, depth + 1) for v in value)
    if isinstance(value, dict):
        return _is_harmless([*value, *value.values()], depth)
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
        return True
    # Parts of this package, and classes that others derive from them, show their settings.
    return getattr(value, "shape", None) in (None, ()) and any(
        c.__module__.split(".")[0] == "ruvdecision" for c in type(value).__mro__
    )
