"""How large noise is: one number, one per column, per record or per entry, or a function of the value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..checks import as_float_array, check_covariance, check_number
from ..errors import InputError
from ..protocols import Array

__all__ = ["as_size", "evaluate", "is_per_record", "pattern"]


def as_size(name: str, value: Any) -> Any:
    """A size of noise in the form in which it is kept: number, tuple, tuple of tuples or callable."""
    if name == "covariance":
        return tuple(map(tuple, check_covariance(name, value).tolist()))
    single = (
        not isinstance(value, Iterable) or isinstance(value, str) or (isinstance(value, np.ndarray) and value.ndim == 0)
    )
    if name == "share" or (single and not callable(value)):
        return check_number(name, value, low=0, infinite=name != "share")
    if callable(value):
        return value
    array = as_float_array(name, value)
    if array.ndim > 2 or array.size == 0:
        raise InputError(
            f"{name} must be a number, one per column, one per record or one per entry",
            f"shape {array.shape}",
            "Use covariance= for a matrix",
        )
    if np.isnan(array).any() or array.min() < 0:
        wrong = array[~(array >= 0)]
        raise InputError(
            f"{name} must be made of numbers in [0, inf]",
            float(wrong.flat[0]),
            f"Give every {name} inside that interval",
        )
    return tuple(array.tolist()) if array.ndim == 1 else tuple(map(tuple, array.tolist()))


def is_per_record(value: Any, n: int, k: int) -> bool:
    """Whether a size is given record by record: a table, or a list that is not one number per column."""
    if not isinstance(value, tuple):
        return False
    table = isinstance(value[0], tuple)
    if table and len(value) != n:
        raise InputError(
            f"Noise for each entry must have {n} rows, one per record", len(value), "Give one row per record"
        )
    return table or (len(value) == n and len(value) not in (1, k))


def pattern(value: tuple[Any, ...]) -> tuple[int, ...]:
    """Number equal entries alike, in the order in which they come."""
    seen: dict[Any, int] = {}
    return tuple(seen.setdefault(v, len(seen)) for v in value)


def evaluate(name: str, function: Any, values: Array) -> Array:
    """A size of noise that depends on the value, entry by entry."""
    out = np.empty_like(values)
    for j in range(values.shape[1]):
        answer = as_float_array(f"{name}(x)", function(values[:, j].copy()))
        if answer.shape not in ((), (len(values),)):
            raise InputError(
                f"{name} must give back one number per value",
                f"shape {answer.shape}",
                "Write it with array operations, sd=lambda x: 0.1 * np.abs(x)",
            )
        out[:, j] = answer
    known = ~np.isnan(values)
    if not np.all(out[known] >= 0):
        raise InputError(
            f"{name} must give back numbers of at least 0",
            f"{int(np.sum(~(out[known] >= 0)))} others",
            "Take its absolute value",
        )
    return np.where(known, out, 0.0)
