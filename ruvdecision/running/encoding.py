"""Results as plain text that is read again without running anybody's code: JSON, exact to the last bit."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import UnsupportedError

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Stored = dict[str, Any]
"""An object of JSON as it was read; what is in it is looked at before it is used."""


def encode(value: object) -> str:
    """Write numbers, text, arrays, lists, tuples and dictionaries as JSON.

    Parameters
    ----------
    value : object
        The result of a task. Anything else is refused: pickle could hold it, but reading a pickle runs code.
        A named tuple comes back as a tuple.

    Examples
    --------
    >>> decode(encode({"u": (np.array([0.1, np.nan]), 1e-300)}))
    {'u': (array([0.1, nan]), 1e-300)}
    """
    return json.dumps(pack(value, _pack_array), ensure_ascii=True, separators=(",", ":"))


def decode(text: str) -> Any:
    """Read what `encode` wrote."""
    return unpack(json.loads(text), _unpack_array)


def pack(value: object, other: Callable[[object], Json]) -> Json:
    """Turn lists, tuples and dictionaries into what JSON can hold, and what is in them by ``other``."""
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if value is None or type(value) in (bool, int, str):
        return value  # type: ignore[return-value]
    if isinstance(value, list):
        return [pack(v, other) for v in value]
    if isinstance(value, tuple):
        return {"tuple": [pack(v, other) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[pack(k, other), pack(v, other)] for k, v in value.items()]}
    return other(value)


def unpack(stored: object, other: Callable[[Stored], object]) -> Any:
    """Undo `pack`; what ``other`` turned into a dictionary is read by its counterpart."""
    if isinstance(stored, list):
        return [unpack(v, other) for v in stored]
    if not isinstance(stored, dict):
        return stored
    if "float" in stored:
        return float(stored["float"])
    if "tuple" in stored:
        return tuple(unpack(v, other) for v in stored["tuple"])
    if "dict" in stored:
        return {unpack(k, other): unpack(v, other) for k, v in stored["dict"]}
    return other(stored)


def _pack_array(value: object) -> Json:
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.names is not None:
        what, got = "A checkpoint cannot hold this result", f"an object of type {type(value).__name__}"
        raise UnsupportedError(what, got, "Give back numbers, text, plain arrays, lists or dictionaries")
    array = np.asarray(value)
    # Column-major arrays stay so: sums over them must round as they did before.
    columns = array.flags.f_contiguous and not array.flags.c_contiguous and not array.dtype.hasobject
    packed: dict[str, Json] = {"dtype": array.dtype.str, "shape": list(array.shape), "order": "F" if columns else "C"}
    packed["scalar"] = isinstance(value, np.generic)
    if array.dtype.hasobject:
        return packed | {"entries": pack(array.ravel().tolist(), _pack_array)}
    return packed | {"bytes": base64.b64encode(array.tobytes("F" if columns else "C")).decode()}


def _unpack_array(stored: Stored) -> object:
    if "dtype" not in stored:
        raise ValueError(f"{next(iter(stored), '')!r} is nothing that a checkpoint holds")
    dtype = np.dtype(stored["dtype"])
    if dtype.hasobject:
        flat = np.empty(len(stored["entries"]), dtype=object)
        flat[:] = unpack(stored["entries"], _unpack_array)
    else:
        flat = np.frombuffer(base64.b64decode(stored["bytes"]), dtype=dtype)
    array = flat.reshape(stored["shape"], order=stored["order"]).copy("K")
    return array[()] if stored["scalar"] else array
