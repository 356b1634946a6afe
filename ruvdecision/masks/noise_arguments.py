"""How noise is given: its law, and its size: one number, some numbers, or a function of the value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..channels.steps import NoiseKind
from ..checks import as_float_array, check_choice, check_covariance, check_number, check_probabilities
from ..errors import InputError

KINDS = ("normal", "laplace", "t", "mixture")


def as_kind(kind: str, df: Any, weights: Any, centres: Any) -> NoiseKind:
    """The law with the numbers that it needs; arguments of other kinds are refused."""
    check_choice("kind", kind, KINDS)
    if kind == "t":
        if df is None:
            raise InputError('Noise(kind="t") needs df', None, "Give degrees of freedom above 2, df=5")
        df = check_number("df", df, low=2, open_low=True)
    elif df is not None:
        raise InputError('df goes with kind="t"', f"kind={kind!r}", "Leave df out")
    if kind != "mixture":
        if weights is not None or centres is not None:
            raise InputError('weights and centres go with kind="mixture"', f"kind={kind!r}", "Leave them out")
        return NoiseKind(kind, df)
    if centres is None and weights is None:
        return NoiseKind(kind, df, (0.5, 0.5), (-0.9, 0.9))
    if centres is None:
        raise InputError('Noise(kind="mixture") needs the components\' centres', None, "Write centres=[-0.9, 0.9]")
    at = as_float_array("centres", centres)
    if at.ndim != 1 or len(at) == 0 or not np.all(np.isfinite(at)):
        raise InputError("centres must be a list of numbers", centres, "Write centres=[-0.9, 0.9]")
    share = check_probabilities("weights", np.full(len(at), 1.0 / len(at)) if weights is None else weights, len(at))
    if share.ndim != 1:
        raise InputError(
            "weights must be a list of probabilities", f"shape {share.shape}", "Give one weight per component"
        )
    if abs(share @ at) > 1e-9:
        raise InputError(
            "The components' centres must average to zero", float(share @ at), "Shift centres by their weighted mean"
        )
    if share @ at**2 >= 1.0:
        raise InputError(
            "The variance of the components' centres must be below 1",
            float(share @ at**2),
            "Bring the centres nearer to zero; they count standard deviations of the noise",
        )
    return NoiseKind(kind, df, tuple(share.tolist()), tuple(at.tolist()))


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
