"""Results as plain text that is read again without running anybody's code: JSON, exact to the last bit."""

from __future__ import annotations

import base64
import json
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import UnsupportedError


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
    if isinstance(value, tuple):
        return {"@": "tuple", "of": [_pack(v) for v in value]}
    if kind is dict:
        return {"@": "dict", "of": [[_pack(k), _pack(v)] for k, v in value.items()]}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.names is None:
        return _pack_array(np.asarray(value)) | {"scalar": isinstance(value, np.generic)}
    got = f"an object of type {kind.__name__}"
    raise UnsupportedError(
        "A checkpoint cannot hold this result", got, "Give back numbers, text, plain arrays, lists or dictionaries"
    )


def _pack_array(array: NDArray[Any]) -> dict[str, Any]:
    packed = {"@": "array", "dtype": array.dtype.str, "shape": list(array.shape)}
    if array.dtype.hasobject:
        return packed | {"of": [_pack(v) for v in array.ravel().tolist()], "order": "C"}
    # Column-major arrays stay so: sums over them must round as they did before.
    order: Literal["C", "F"] = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    return packed | {"of": base64.b64encode(array.tobytes(order)).decode(), "order": order}


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpack(v) for v in value]
    if not isinstance(value, dict):
        return value
    kind, of = value["@"], value["of"]
    if kind == "tuple":
        return tuple(_unpack(v) for v in of)
    if kind == "dict":
        return {_unpack(k): _unpack(v) for k, v in of}
    if kind != "array":
        raise ValueError(f"{kind!r} is nothing that a checkpoint holds")
    dtype = np.dtype(value["dtype"])
    if dtype.hasobject:
        flat = np.empty(len(of), dtype=object)
        flat[:] = [_unpack(v) for v in of]
    else:
        flat = np.frombuffer(base64.b64decode(of), dtype=dtype)
    array = flat.reshape(value["shape"], order=value["order"]).copy("K")
    return array[()] if value["scalar"] else array
