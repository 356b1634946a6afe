"""Digests of the parts of a study: two digests with one salt agree if and only if the parts do, as far as can be seen.

The salt matters. A plain hash of a small file, or of a file most of which is known, can be guessed by trying; with a salt
the guesser needs the salt too, which lies in the checkpoint. A digest keeps nobody from guessing who has the whole
checkpoint, so keep that where you keep results.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["digest"]

PLAIN = (bool, int, float, str, bytes, tuple, np.ndarray, np.generic)


def digest(value: Any, salt: bytes) -> str:
    """Salted BLAKE2b digest of a value, in hexadecimal.

    Numbers, text, arrays, data frames, collections, dataclasses, functions (by their code, defaults and what they close over)
    and plain objects (by their attributes) are told apart. Numbers that print alike but differ in a bit differ. An object that
    hides its state is known by its type alone.

    Parameters
    ----------
    value : object
        Data, masks, users, engines, settings: anything.
    salt : bytes
        At most 64 bytes; the same salt for digests that are to be compared.

    Examples
    --------
    >>> digest([1, 2.0], b"salt") == digest([1, 2.0], b"salt")
    True
    >>> digest([1, 2.0], b"salt") == digest([1, 2], b"salt")
    False
    """
    state = hashlib.blake2b(key=salt, digest_size=20)
    _Walker(state).add(value)
    return state.hexdigest()


class _Walker:
    def __init__(self, state: Any) -> None:
        self.state = state
        self.path: dict[int, int] = {}

    def add(self, value: Any) -> None:
        if value is None or type(value) in (bool, int, str):
            self.frame(type(value).__name__, repr(value).encode("utf-8", "surrogatepass"))
        elif type(value) is float:
            self.frame("float", np.float64(value).tobytes())
        elif isinstance(value, (bytes, bytearray)):
            self.frame("bytes", bytes(value))
        elif id(value) in self.path:
            self.frame("again", str(self.path[id(value)]).encode())  # an object that holds itself
        else:
            self.path[id(value)] = len(self.path)
            self.look_into(value)
            del self.path[id(value)]

    def look_into(self, value: Any) -> None:
        if isinstance(value, pd.DataFrame):
            self.frame("DataFrame", str(value.shape).encode())
            for name, column in value.items():
                self.add(name)
                self.column(column)
            self.add(value.index)
        elif isinstance(value, pd.Series):
            self.add(value.name)
            self.column(value)
            self.add(value.index)
        elif isinstance(value, pd.RangeIndex):
            self.many("RangeIndex", [value.start, value.stop, value.step])
        elif isinstance(value, pd.MultiIndex):
            self.many("MultiIndex", [value.get_level_values(i) for i in range(value.nlevels)])
        elif isinstance(value, pd.Index):
            self.many("Index", list(value.names))
            self.column(value)
        elif isinstance(value, (np.ndarray, np.generic)):
            self.array(np.asarray(value))
        elif isinstance(value, np.random.SeedSequence):
            self.many("SeedSequence", [value.entropy, list(value.spawn_key), value.pool_size])
        elif isinstance(value, Mapping):
            self.many("mapping", [part for item in value.items() for part in item])
        elif isinstance(value, (list, tuple)):
            self.many(type(value).__qualname__, value)
        elif isinstance(value, (set, frozenset)):
            self.many("set", sorted(value, key=repr))
        elif isinstance(value, type):
            self.frame("type", _name(value).encode())
        elif isinstance(value, (types.FunctionType, types.MethodType)):
            self.function(value)
        elif isinstance(value, types.CodeType):
            self.code(value)
        elif isinstance(value, functools.partial):
            self.many("partial", [value.func, value.args, value.keywords])
        elif isinstance(value, types.ModuleType):
            self.frame("module", value.__name__.encode())
        elif dataclasses.is_dataclass(value):
            self.frame("object", _name(type(value)).encode())
            self.many("fields", [part for f in dataclasses.fields(value) for part in (f.name, getattr(value, f.name))])
        elif hasattr(value, "dist") and hasattr(value, "args") and hasattr(value, "kwds"):
            # A frozen law of scipy.stats keeps much that changes with use.
            self.many("law", [_name(type(value.dist)), value.args, value.kwds])
        elif type(value).__module__.split(".")[0] in ("pymc", "pytensor"):
            # Their objects hold whole graphs with numbers that change from run to run.
            self.frame(_name(type(value)), str(getattr(value, "name", "")).encode("utf-8", "surrogatepass"))
        elif isinstance(value, np.random.Generator):
            self.many("Generator", [type(value.bit_generator), value.bit_generator.state])
        elif hasattr(value, "__dict__"):
            self.frame("object", _name(type(value)).encode())
            self.many("state", [part for item in sorted(vars(value).items()) for part in item])
        else:
            shown = "" if " at 0x" in repr(value) else repr(value)
            self.frame(_name(type(value)), shown.encode("utf-8", "surrogatepass"))

    def many(self, kind: str, values: Any) -> None:
        self.frame(kind, str(len(values)).encode())
        for value in values:
            self.add(value)

    def column(self, column: Any) -> None:
        dtype = column.dtype
        if isinstance(dtype, np.dtype) and dtype.kind in "biufcmM":
            self.array(column.to_numpy())
            return
        if isinstance(dtype, pd.CategoricalDtype):
            codes = column.cat.codes if isinstance(column, pd.Series) else column.codes
            self.many("category", [list(dtype.categories), bool(dtype.ordered)])
            self.array(np.asarray(codes))
            return
        # Text and mixed things: pandas' hash of each value is fast, and is itself hashed with the salt.
        self.frame("column", f"{dtype} {pd.api.types.infer_dtype(column, skipna=True)} {len(column)}".encode())
        self.array(np.asarray(column.isna()))
        self.state.update(
            np.asarray(pd.util.hash_array(column.astype(str).to_numpy(dtype=object)), dtype="<u8").tobytes()
        )

    def array(self, values: Any) -> None:
        self.frame("array", f"{values.dtype.str} {values.shape}".encode())
        if values.dtype.hasobject:
            self.many("entries", values.ravel().tolist())
        else:
            self.state.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8))

    def function(self, value: Any) -> None:
        self.frame("function", _name(value).encode())
        if isinstance(value, types.MethodType):
            self.add(value.__self__)
            value = value.__func__
        if isinstance(value, types.FunctionType):
            self.code(value.__code__)
            cells = [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
            self.many("kept", [value.__defaults__, value.__kwdefaults__, *cells])
            for name in sorted(_names(value.__code__)):
                # A model's builder leans on constants and helpers of its own module, which may change between two runs.
                used = value.__globals__.get(name)
                if isinstance(used, PLAIN) or (
                    isinstance(used, types.FunctionType) and used.__module__ == value.__module__
                ):
                    self.add(name)
                    self.add(used)

    def code(self, value: types.CodeType) -> None:
        self.frame("code", value.co_code)
        self.many("names", [*value.co_names, *value.co_varnames, *value.co_freevars])
        # Line numbers may change; what is computed may not.
        self.many("constants", value.co_consts)

    def frame(self, kind: str, content: bytes) -> None:
        """Put kind and length in front, so that no two lists of things run together to the same bytes."""
        self.state.update(f"{kind}:{len(content)}:".encode("utf-8", "surrogatepass"))
        self.state.update(content)


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _names(code: types.CodeType) -> set[str]:
    return set(code.co_names).union(*(_names(c) for c in code.co_consts if isinstance(c, types.CodeType)))


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
