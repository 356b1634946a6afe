"""Results as plain text that is read again without running anybody's code: JSON, exact to the last bit."""

from __future__ import annotations

import base64
import dataclasses
import importlib
import json
from typing import Any

import numpy as np

from ..errors import UnsupportedError

__all__ = ["decode", "encode"]


def encode(value: Any) -> str:
    """Write numbers, text, arrays, lists, tuples, dictionaries, and the package's own records of them as JSON.

    Parameters
    ----------
    value : object
        The result of a task. Anything else is refused: pickle could hold it, but reading a pickle runs code.

    Examples
    --------
    >>> decode(encode({"u": (np.array([0.1, np.nan]), 1e-300)}))
    {'u': (array([0.1, nan]), 1e-300)}
    """
    return json.dumps(_pack(value), ensure_ascii=True, separators=(",", ":"))


def decode(text: str) -> Any:
    """Read what `encode` wrote."""
    return _unpack(json.loads(text))


def _pack(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [_pack(v) for v in value]
    if kind is tuple:
        return {"@": "tuple", "of": [_pack(v) for v in value]}
    if kind is dict:
        if all(type(k) is str for k in value) and "@" not in value:
            return {k: _pack(v) for k, v in value.items()}
        return {"@": "dict", "of": [[_pack(k), _pack(v)] for k, v in value.items()]}
    if isinstance(value, (np.ndarray, np.generic)):
        return _pack_array(value)
    if _is_ours(kind):
        if dataclasses.is_dataclass(value):
            return {
                "@": _name(kind),
                "of": {f.name: _pack(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init},
            }
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return {"@": _name(kind), "of": {k: _pack(v) for k, v in zip(kind._fields, value, strict=True)}}
    raise UnsupportedError(
        "A checkpoint cannot hold this result",
        f"an object of type {kind.__name__}",
        "Give back numbers, text, arrays, lists or dictionaries",
    )


def _pack_array(value: Any) -> Any:
    array = np.asarray(value)
    scalar = isinstance(value, np.generic)
    if array.dtype.hasobject:
        return {"@": "objects", "shape": list(array.shape), "of": [_pack(v) for v in array.ravel().tolist()]}
    if array.dtype.names is not None:
        raise UnsupportedError(
            "A checkpoint cannot hold this result", "an array with named fields", "Give back plain arrays"
        )
    # Column-major arrays stay so: sums over them must round as they did before.
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    raw = array.tobytes("F" if fortran else "C")
    packed = {
        "@": "scalar" if scalar else "array",
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "bytes": base64.b64encode(raw).decode(),
    }
    return packed | {"order": "F"} if fortran else packed


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpack(v) for v in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("@")
    if kind is None:
        return {k: _unpack(v) for k, v in value.items()}
    if kind == "tuple":
        return tuple(_unpack(v) for v in value["of"])
    if kind == "dict":
        return {_unpack(k): _unpack(v) for k, v in value["of"]}
    if kind in ("array", "scalar"):
        raw = base64.b64decode(value["bytes"])
        array = (
            np.frombuffer(raw, dtype=np.dtype(value["dtype"]))
            .reshape(value["shape"], order=value.get("order", "C"))
            .copy("K")
        )
        return array[()] if kind == "scalar" else array
    if kind == "objects":
        filled = np.empty(len(value["of"]), dtype=object)
        filled[:] = [_unpack(v) for v in value["of"]]
        return filled.reshape(value["shape"])
    return _class(kind)(**{k: _unpack(v) for k, v in value["of"].items()})


def _is_ours(kind: type) -> bool:
    # Only classes of this package come back: a file cannot name other code to run.
    return kind.__module__.split(".")[0] == __name__.split(".")[0] and "<" not in kind.__qualname__


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class(name: str) -> type:
    module, _, path = str(name).partition(":")
    found: Any = None
    if module.split(".")[0] == __name__.split(".")[0]:
        found = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part, None)
    if (
        not isinstance(found, type)
        or not _is_ours(found)
        or not (dataclasses.is_dataclass(found) or hasattr(found, "_fields"))
    ):
        raise ValueError(f"{name} is not a record of this package")
    return found
