"""The columns of a map: checked when they come in, named once, stacked when maps are joined."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ..checks import as_float_array
from ..errors import InputError
from ..protocols import Array, Value

__all__ = [
    "SCHEMA",
    "as_before",
    "as_column",
    "as_names",
    "as_pair",
    "as_value",
    "check_name",
    "frozen",
    "matches",
    "parameter_columns",
    "same_mask",
    "stack",
    "technique_of",
    "tell_apart",
    "used",
    "whole_text",
]

SCHEMA = (
    "release", "technique", "intruder_uncertainty", "scientist_uncertainty", "risk", "utility",
    "risk_error", "utility_error", "engine", "intruder_error", "scientist_error", "mask",
)  # fmt: skip


_HALVES = re.compile("[\ud800-\udfff]")


def stack(a: Mapping[str, Any], b: Mapping[str, Any], n: int, m: int) -> dict[str, Any]:
    """Stack columns; a column that one map lacks is NaN there, or empty text."""
    stacked = {}
    for name in {**a, **b}:
        x, y = a.get(name), b.get(name)
        if any(v is not None and v.dtype.kind in "US" for v in (x, y)):
            x = np.full(n, "") if x is None else as_text(x)
            y = np.full(m, "") if y is None else as_text(y)
        else:
            x = np.full(n, np.nan) if x is None else x
            y = np.full(m, np.nan) if y is None else y
        stacked[name] = frozen(np.concatenate([x, y]))
    return stacked


def as_text(values: Any) -> Any:
    """Turn a column of numbers into text; NaN becomes empty."""
    if values.dtype.kind in "US":
        return values
    return np.array(["" if v != v else f"{v:.10g}" if isinstance(v, float) else str(v) for v in values.tolist()])


def parameter_columns(masks: Sequence[Any], taken: set[str]) -> dict[str, Any]:
    """Collect the parameters of every mask into columns: numbers where all are numbers, otherwise text."""
    each = [{} if m is None or not hasattr(m, "parameters") else m.parameters() for m in masks]
    names = dict.fromkeys(k for p in each for k in p)
    columns = {}
    for name in names:
        entries = [p.get(name) for p in each]
        numeric = all(
            v is None or (isinstance(v, (int, float, np.integer, np.floating)) and not isinstance(v, bool))
            for v in entries
        )
        if numeric:
            array = np.array([np.nan if v is None else float(v) for v in entries])
        else:
            array = np.array(
                [
                    "" if v is None else v if isinstance(v, str) else f"{v:.10g}" if isinstance(v, float) else str(v)
                    for v in entries
                ]
            )
        # A mask of somebody's own may call a parameter "risk".
        columns[f"mask_{name}" if name in taken else str(name)] = frozen(array)
    return columns


def used(columns: dict[str, Any]) -> dict[str, Any]:
    """Drop columns that are empty for every release."""
    return {k: v for k, v in columns.items() if np.any(v != "" if v.dtype.kind in "US" else ~np.isnan(v))}


def technique_of(mask: Any) -> str:
    """Technique of a mask, its class name if it says none."""
    return str(getattr(mask, "technique", type(mask).__name__))


def same_mask(a: Any, b: Any) -> bool:
    """Tell whether two masks with the same text are the same mask."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if hasattr(a, "family") and hasattr(a, "numbers"):
        return bool(a.family == b.family and a.numbers == b.numbers)
    return True  # same kind and same text is all we can know of a mask from elsewhere


def tell_apart(labels: list[str]) -> tuple[str, ...]:
    """Number the labels that occur more than once."""
    if len(set(labels)) == len(labels):
        return tuple(labels)
    seen: dict[str, int] = {}
    result = []
    taken = set(labels)
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        name = label
        while seen[label] > 1 and name in taken:
            name = f"{label} #{seen[label]}"
            if name in taken:
                seen[label] += 1
        taken.add(name)
        result.append(name)
    return tuple(result)


def as_names(labels: Sequence[str]) -> tuple[str, ...]:
    """Check labels that a caller gave."""
    names = tuple(map(whole_text, labels))
    if len(set(names)) != len(names):
        twice = [x for x, count in Counter(names).items() if count > 1]
        raise InputError("A release is listed twice", twice[:5], "Give every release its own label")
    return names


def whole_text(value: object) -> str:
    r"""Text that tables, drawings and files can hold: half a character becomes U+FFFD.

    >>> whole_text("half \ud800") == "half \ufffd"
    True
    """
    return _HALVES.sub("\ufffd", str(value))


def as_value(name: str, value: Any) -> Value | None:
    """Check a user's uncertainties and their errors."""
    if value is None:
        return None
    u, error = value if isinstance(value, Value) else (value, 0.0)
    u = as_float_array(name, u)
    if u.ndim != 1:
        raise InputError(f"{name} must have one uncertainty per release", f"shape {u.shape}", "Give a flat array")
    error = as_float_array(f"{name} error", error)
    if error.ndim and error.shape != u.shape:
        raise InputError(
            f"{name} must have one error per release",
            f"shapes {u.shape} and {error.shape}",
            "Give arrays of the same length",
        )
    if error.size and np.fmin.reduce(error, axis=None) < 0:
        raise InputError(f"{name} has a negative error", float(np.nanmin(error)), "A standard error is at least zero")
    return Value(frozen(u), frozen(np.broadcast_to(error, u.shape)))


def as_pair(before: Any) -> tuple[Any, Any]:
    """Check the pair of U0."""
    if before is None:
        return (None, None)
    if not isinstance(before, (tuple, list)) or len(before) != 2:
        raise InputError(
            "before must be a pair, U0 of the intruder and of the scientist", before, "Write before=(7.0, 5.0)"
        )
    return (before[0], before[1])


def as_before(name: str, before: Any, size: int) -> Array:
    """Spread one U0 over all releases."""
    array = as_float_array(f"U0 of the {name}", np.nan if before is None else before)
    if array.ndim and array.shape != (size,):
        raise InputError(
            f"U0 of the {name} must be one number, or one per release", f"shape {array.shape}", "Give a number"
        )
    return frozen(np.broadcast_to(array, (size,)))


def check_name(name: Any, taken: Collection[str] = SCHEMA) -> str:
    """Check the name of a column against those that are taken."""
    if not isinstance(name, str) or not name.strip():
        raise InputError("A column is named by text", name, "Give it a name")
    if name in taken:
        raise InputError("A column has a name that the map uses already", name, "Give it another name")
    return name


def as_column(name: str, values: Any) -> Any:
    """Check a column: one number or text per release. None is a missing number or empty text."""
    array = np.asarray(values)
    if array.dtype == object:
        known = [v for v in array.ravel() if v is not None]
        numeric = known and all(isinstance(v, (bool, int, float, np.number, np.bool_)) for v in known)
        array = (
            np.array([np.nan if v is None else v for v in array.ravel()], dtype=float)
            if numeric
            else np.array(["" if v is None else str(v) for v in array.ravel()])
        )
    if array.dtype.kind == "U":
        array = np.array([whole_text(v) for v in array.ravel().tolist()], dtype=str).reshape(array.shape)
    if array.ndim != 1:
        raise InputError(f"Column {name} must have one entry per release", f"shape {array.shape}", "Give a flat array")
    if array.dtype.kind not in "biufU":
        raise InputError(f"Column {name} must hold numbers or text", f"dtype {array.dtype}", "Convert it first")
    return frozen(array)


def frozen(array: Any) -> Any:
    """Copy an array and lock it: maps share their arrays."""
    array = np.array(array)
    array.setflags(write=False)
    return array


def matches(values: Any, wanted: Any, name: str) -> Any:
    """Tell which entries meet a condition of `RUMap.select`."""
    if callable(wanted):
        result = np.asarray([bool(wanted(v)) for v in values.tolist()])
        return result
    options = list(wanted) if isinstance(wanted, (list, tuple, set, np.ndarray, range)) else [wanted]
    if values.dtype.kind in "US":
        return np.isin(values, [str(w) for w in options])
    if any(isinstance(w, str) for w in options):
        raise InputError(f"{name} is a column of numbers", wanted, "Give a number")
    with np.errstate(invalid="ignore"):
        return np.any([np.isclose(values, float(w), rtol=1e-12, atol=0) for w in options], axis=0)
