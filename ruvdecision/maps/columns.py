"""The columns of a map: checked when they come in, named once, stacked when maps are joined."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import as_float_array, is_flag, is_number, is_single, one_number
from ..errors import InputError, describe_failure
from ..protocols import Array, Value

if TYPE_CHECKING:
    from ..masks.base import Mask

Entries = NDArray[np.generic]
"""A column: numbers or text, one entry per release."""
Scalar = TypeVar("Scalar", bound=np.generic)
Condition = str | float | Iterable[str] | Iterable[float] | Callable[..., object]
"""What `RUMap.select` looks for in a column: a value, a list of values, or a function that says yes or no."""
SCHEMA = (
    "release", "technique", "intruder_uncertainty", "scientist_uncertainty", "risk", "utility",
    "risk_error", "utility_error", "engine", "intruder_error", "scientist_error", "mask",
)  # fmt: skip


@dataclass(frozen=True)
class Labels:
    """What the releases of a map are called, where it is not what their masks say.

    Parameters
    ----------
    names : sequence of str, optional
        A name for every release; ``str(mask)`` if not given.
    technique : str or sequence of str, optional
        One technique, or one per release.
    parameters : mapping from name to array, optional
        Columns of parameters.
    """

    names: Sequence[str] | None = None
    technique: str | Sequence[str] | None = None
    parameters: Mapping[str, ArrayLike] | None = None


_NO_LETTER = re.compile("[\0\ud800-\udfff]")


def stack_columns(a: Mapping[str, Entries], b: Mapping[str, Entries], n: int, m: int) -> dict[str, Entries]:
    """Stack columns; a column that one map lacks is NaN there, or empty text."""
    stacked = {}
    for name in {**a, **b}:
        parts = [(a.get(name), n), (b.get(name), m)]
        if any(v is not None and v.dtype.kind in "US" for v, _ in parts):
            both: list[Entries] = [np.full(size, "") if v is None else as_text(v.tolist()) for v, size in parts]
        else:
            both = [np.full(size, np.nan) if v is None else v for v, size in parts]
        stacked[name] = read_only_copy(np.concatenate(both))
    return stacked


def marks_convergence(name: str) -> bool:
    """Whether a column says of each release whether its numbers have converged."""
    return name == "converged" or name.endswith("_converged")


def attr_as_list(attr: object) -> list[Any]:
    """What an attribute of a map holds; joined maps keep a list of what each of them had."""
    return attr if isinstance(attr, list) else [attr]


def as_text(values: Iterable[object]) -> Entries:
    """Turn a column into text; NaN becomes empty."""

    def entry(value: object) -> str:
        if not isinstance(value, float):
            return whole_text(value)
        return "" if value != value else f"{value:.10g}"

    return np.array(list(map(entry, values)))


def parameter_columns(masks: Sequence[Mask | None], taken: set[str]) -> dict[str, Entries]:
    """Collect the parameters of every mask into columns: numbers where all are numbers, otherwise text."""
    each = [m.parameters() if m is not None and hasattr(m, "parameters") else {} for m in masks]
    columns: dict[str, Entries] = {}
    for name in dict.fromkeys(k for p in each for k in p):
        entries = [p.get(name) for p in each]
        if all(v is None or (is_number(v) and not is_flag(v)) for v in entries):
            array: Entries = np.array([np.nan if v is None else float(v) for v in entries])
        else:
            array = as_text(["" if v is None else v for v in entries])
        # A mask of somebody's own may call a parameter "risk".
        columns[f"mask_{name}" if name in taken else str(name)] = read_only_copy(array)
    return columns


def non_empty_columns(columns: Mapping[str, Entries]) -> dict[str, Entries]:
    """Drop columns that are empty for every release."""
    return {k: v for k, v in columns.items() if np.any(v != "" if v.dtype.kind in "US" else ~np.isnan(v))}


def technique_of(mask: Mask | None) -> str:
    """Technique of a mask, its class name if it says none."""
    return whole_text(getattr(mask, "technique", type(mask).__name__))


def same_mask(a: Mask | None, b: Mask | None) -> bool:
    """Tell whether two masks with the same text are the same mask."""
    if a is b or type(a) is not type(b):
        return a is b
    # Same kind and same text is all we can know of a mask from elsewhere.
    return all(getattr(a, name, None) == getattr(b, name, None) for name in ("family", "numbers"))


def number_duplicates(labels: Sequence[str]) -> tuple[str, ...]:
    """Number the labels that occur more than once."""
    if len(set(labels)) == len(labels):
        return tuple(labels)
    times: dict[str, int] = {}
    result = []
    taken = set(labels)
    for label in labels:
        times[label] = times.get(label, 0) + 1
        name = label
        while times[label] > 1 and name in taken:
            name = f"{label} #{times[label]}"
            if name in taken:
                times[label] += 1
        taken.add(name)
        result.append(name)
    return tuple(result)


def as_names(labels: Sequence[str]) -> tuple[str, ...]:
    """Check labels that a caller gave."""
    names = whole_texts(labels)
    if len(set(names)) != len(names):
        twice = [x for x, count in Counter(names).items() if count > 1]
        raise InputError("A release is listed twice", twice[:5], "Give every release its own label")
    return names


def whole_text(value: object) -> str:
    r"""Text that tables, drawings and files can hold: half a character, or none, becomes U+FFFD.

    >>> whole_text("half \ud800") == "half \ufffd"
    True
    """
    return _NO_LETTER.sub("\ufffd", str(value))


def whole_texts(values: Iterable[object]) -> tuple[str, ...]:
    """`whole_text` of each; all are looked at together, for it is seldom that one holds such a letter."""
    texts = tuple(map(str, values))
    joined = "".join(texts)
    whole = (joined.isascii() and "\0" not in joined) or _NO_LETTER.search(joined) is None
    return texts if whole else tuple(map(whole_text, texts))


def as_value(name: str, value: Value | ArrayLike | None) -> Value | None:
    """Check a user's uncertainties and their errors."""
    if value is None:
        return None
    given, given_error = value if isinstance(value, Value) else (value, 0.0)
    u, error = as_float_array(name, given), as_float_array(f"{name} error", given_error)
    if u.ndim != 1:
        raise InputError(f"{name} must have one uncertainty per release", f"shape {u.shape}", "Give a flat array")
    if error.ndim and error.shape != u.shape:
        do = "Give arrays of the same length"
        raise InputError(f"{name} must have one error per release", f"shapes {u.shape} and {error.shape}", do)
    if error.size and np.fmin.reduce(error, axis=None) < 0:
        raise InputError(f"{name} has a negative error", float(np.nanmin(error)), "A standard error is at least zero")
    return Value(read_only_copy(u), read_only_copy(np.broadcast_to(error, u.shape)))


def uncertainties_before(before: Sequence[ArrayLike | None] | None, size: int) -> tuple[Array, Array]:
    """U0 of every release, of the intruder and of the scientist."""
    pair = (None, None) if before is None else before
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        what = "before must be a pair, U0 of the intruder and of the scientist"
        raise InputError(what, before, "Write before=(7.0, 5.0)")
    found = []
    for name, given in zip(("intruder", "scientist"), pair, strict=True):
        array = as_float_array(f"U0 of the {name}", np.nan if given is None else given)
        if array.ndim and array.shape != (size,):
            what = f"U0 of the {name} must be one number, or one per release"
            raise InputError(what, f"shape {array.shape}", "Give a number")
        found.append(read_only_copy(np.broadcast_to(array, (size,))))
    return found[0], found[1]


def check_name(name: object, taken: Collection[str] = SCHEMA) -> str:
    """Check the name of a column against those that are taken."""
    if not isinstance(name, str) or not name.strip():
        raise InputError("A column is named by text", name, "Give it a name")
    if name in taken:
        raise InputError("A column has a name that the map uses already", name, "Give it another name")
    return name


def as_column(name: str, values: ArrayLike) -> Entries:
    """Check a column: one number or text per release. None is a missing number or empty text."""
    try:
        array = np.asarray(values)
    except ValueError:
        what, got = f"Column {name} must have one entry per release", "lists of several lengths"
        raise InputError(what, got, "Give a flat array") from None
    if array.dtype == object:
        known = [v for v in array.ravel() if v is not None]
        if known and all(map(is_number, known)):
            array = as_float_array(f"Column {name}", [np.nan if v is None else v for v in array.ravel()])
        else:
            array = np.array(["" if v is None else str(v) for v in array.ravel()])
    if array.dtype.kind == "U" and (whole := whole_texts(given := array.ravel().tolist())) != tuple(given):
        array = np.array(whole, dtype=str).reshape(array.shape)
    if array.ndim != 1:
        raise InputError(f"Column {name} must have one entry per release", f"shape {array.shape}", "Give a flat array")
    if array.dtype.kind not in "biufU":
        raise InputError(f"Column {name} must hold numbers or text", f"dtype {array.dtype}", "Convert it first")
    return read_only_copy(array)


def read_only_copy(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Copy an array and lock it: maps share their arrays."""
    array = np.array(array)
    array.setflags(write=False)
    return array


def meets_condition(values: Entries, wanted: Condition, name: str) -> NDArray[np.bool_]:
    """Tell which entries meet a condition of `RUMap.select`."""
    if callable(wanted):
        try:
            return np.asarray([bool(wanted(v)) for v in values.tolist()])
        except Exception as error:
            do = "Give a function of one value that says True or False"
            raise InputError(f"The condition on {name} fails", describe_failure(error), do) from error
    options: list[str | float] = [wanted] if is_single(wanted) else list(wanted)  # type: ignore[list-item, arg-type]
    if values.dtype.kind in "US":
        return np.isin(values, [str(w) for w in options])
    known = [float(w) if is_flag(w) else one_number(w) for w in options]
    if None in known:
        raise InputError(f"{name} is a column of numbers", wanted, "Give a number")
    numbers = np.asarray(values, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return np.any([np.isclose(numbers, w, rtol=1e-12, atol=0) for w in known if w is not None], axis=0)
