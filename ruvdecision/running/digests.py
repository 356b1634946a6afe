"""Digests of the parts of a study: two digests with one salt agree if and only if the parts do.

The salt matters. A plain hash of a small file, or of a file most of which is known, can be guessed by trying; with a salt
the guesser needs the salt too, which lies in the checkpoint. A digest keeps nobody from guessing who has the whole
checkpoint, so keep that where you keep results.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import inspect
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import InputError
from .sources import file_of, is_library

__all__ = ["digest"]

PLAIN = (bool, int, float, str, bytes, tuple, list, dict, set, frozenset, np.ndarray, np.generic)
CODE = (types.FunctionType, type, property, classmethod, staticmethod, functools.cached_property)
PACKAGE = __name__.partition(".")[0]
GENERATED = {
    *("__init__", "__new__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__"),
    *("__setattr__", "__delattr__", "__replace__"),
}
"""Methods that `dataclass` and `NamedTuple` write, without a source."""


def digest(value: object, salt: bytes) -> str:
    """Salted BLAKE2b digest of a value, in hexadecimal.

    Numbers, text, arrays, data frames, collections, dataclasses, plain objects (by their attributes) and functions (by
    name, defaults and what they close over) are told apart. Functions and classes of one's own count with the globals
    that they use, those of a script or a notebook with their source text too. Numbers that print alike but differ in a
    bit differ. An object that hides its state is known by its type alone.

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
    known: dict[int, int] = {}

    def add(item: object) -> None:
        again = known.get(id(item))
        look = _look(item) if again is None else Look("again", str(again).encode())
        # Kind and sizes go in front, so that no two lists of things run together to the same bytes.
        state.update(f"{look.kind}:{len(look.content)}:{len(look.parts)}:".encode("utf-8", "surrogatepass"))
        state.update(look.content)
        if look.parts:
            known[id(item)] = len(known)
            for part in look.parts:
                add(part)
            if not isinstance(item, (type, types.FunctionType)):  # many masks share a class, which is looked at once
                del known[id(item)]

    add(value)
    return state.hexdigest()


class Look(NamedTuple):
    """What a value is known by: its kind, bytes, and other values."""

    kind: str
    content: bytes | memoryview = b""
    parts: Sequence[object] = ()


@functools.singledispatch
def _look(value: object) -> Look:
    kind = type(value)
    if dataclasses.is_dataclass(value):
        fields = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
        return Look("object", parts=[kind, *fields])
    if hasattr(value, "dist") and hasattr(value, "kwds"):
        # A frozen law of scipy.stats keeps much that changes with use.
        return Look("law", parts=[type(value.dist), value.args, value.kwds])  # type: ignore[attr-defined]
    if kind.__module__.partition(".")[0] in ("pymc", "pytensor"):
        # Their objects hold whole graphs with numbers that change from run to run.
        return Look("graph", parts=[kind, str(getattr(value, "name", ""))])
    state = sorted(getattr(value, "__dict__", {}).items())
    shown = repr(value) if not state else ""
    return Look("object", parts=[kind, _name(value), "" if " at 0x" in shown else shown, *state])


@_look.register(type(None))
@_look.register(bool)
@_look.register(int)
@_look.register(str)
def _(value: object) -> Look:
    return Look(type(value).__name__, repr(value).encode("utf-8", "surrogatepass"))


@_look.register
def _(value: float) -> Look:
    return Look("float", np.float64(value).tobytes())


@_look.register(bytes)
@_look.register(bytearray)
def _(value: bytes) -> Look:
    return Look("bytes", bytes(value))


@_look.register(np.ndarray)
@_look.register(np.generic)
def _(value: NDArray[np.generic]) -> Look:
    array = np.asarray(value)
    kind = f"array {array.dtype.str} {array.shape}"
    if array.dtype.hasobject:
        return Look(kind, parts=array.ravel().tolist())
    return Look(kind, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


@_look.register
def _(value: pd.DataFrame) -> Look:
    return Look("DataFrame", parts=[*((name, column.array) for name, column in value.items()), value.index])


@_look.register
def _(value: pd.Series) -> Look:
    return Look("Series", parts=[value.name, value.array, value.index])


@_look.register
def _(value: pd.Index) -> Look:
    return Look("Index", parts=[list(value.names), value.array])


@_look.register
def _(value: pd.RangeIndex) -> Look:
    return Look("RangeIndex", parts=[value.start, value.stop, value.step])


@_look.register
def _(value: pd.MultiIndex) -> Look:
    return Look("MultiIndex", parts=[value.get_level_values(i) for i in range(value.nlevels)])


@_look.register
def _(value: pd.Categorical) -> Look:
    return Look("Categorical", parts=[list(value.categories), bool(value.ordered), np.asarray(value.codes)])


@_look.register
def _(value: pd.api.extensions.ExtensionArray) -> Look:
    plain = np.asarray(value)
    if value.dtype.kind in "biufcmM" and plain.dtype.kind != "O":
        return Look("column", str(value.dtype).encode(), [plain])
    # Text and mixed things: pandas' hash of each value is fast, and is itself hashed with the salt.
    kind = f"{value.dtype} {pd.api.types.infer_dtype(value, skipna=True)}"
    text = pd.util.hash_array(pd.Series(value).astype(str).to_numpy(dtype=object))
    return Look("column", kind.encode(), [np.asarray(value.isna()), np.asarray(text, dtype="<u8")])


@_look.register
def _(value: np.random.SeedSequence) -> Look:
    return Look("SeedSequence", parts=[value.entropy, tuple(value.spawn_key), value.pool_size])


@_look.register
def _(value: np.random.Generator) -> Look:
    return Look("Generator", parts=[type(value.bit_generator), value.bit_generator.state])


@_look.register(Mapping)
def _(value: Mapping[object, object]) -> Look:
    return Look("mapping", parts=list(value.items()))


@_look.register(list)
@_look.register(tuple)
def _(value: Sequence[object]) -> Look:
    return Look(type(value).__qualname__, parts=value)


@_look.register(set)
@_look.register(frozenset)
def _(value: Iterable[object]) -> Look:
    return Look("set", parts=sorted(value, key=repr))


@_look.register
def _(value: functools.partial) -> Look:  # type: ignore[type-arg]
    return Look("partial", parts=[value.func, value.args, value.keywords])


@_look.register
def _(value: types.ModuleType) -> Look:
    return Look("module", value.__name__.encode())


# -- code --------------------------------------------------------------------------------------------------


@_look.register
def _(value: type) -> Look:
    if not _is_users(value):
        return Look("type", _name(value).encode())
    members = [(name, item) for name, item in vars(value).items() if _text(item) is not None or name not in GENERATED]
    code = [item for _, item in members if isinstance(item, CODE)]
    plain = [(name, item) for name, item in members if isinstance(item, PLAIN) and not name.startswith("__")]
    return Look("type", _name(value).encode(), [*value.__bases__, *code, *plain])


@_look.register
def _(value: types.MethodType) -> Look:
    return Look("method", parts=[value.__self__, value.__func__])


@_look.register
def _(value: property) -> Look:
    return Look("property", parts=[value.fget, value.fset])


@_look.register(classmethod)
@_look.register(staticmethod)
def _(value: Any) -> Look:
    return Look("method", parts=[value.__func__])


@_look.register
def _(value: functools.cached_property) -> Look:  # type: ignore[type-arg]
    return Look("property", parts=[value.func])


@_look.register
def _(value: types.FunctionType) -> Look:
    parts: list[object] = [value.__defaults__, value.__kwdefaults__]
    for cell in value.__closure__ or ():
        with contextlib.suppress(ValueError):  # an empty one
            parts.append(cell.cell_contents)
    if _is_users(value):
        in_file = value.__module__ != "__main__" and file_of(value.__module__)
        text = "" if in_file else _text(value)
        if text is None:
            what = f"The source of {value.__qualname__} is not known, so that no checkpoint could notice an edit of it"
            raise InputError(what, do="Define it in a file or a notebook, or leave checkpoint= out")
        names = sorted(_names(value.__code__) & value.__globals__.keys())
        # Two functions of one line have one text.
        columns = [place[2:] for place in value.__code__.co_positions()]
        parts += [text, columns, value.__code__.co_firstlineno if in_file else 0]
        parts += [(name, value.__globals__[name]) for name in names if _counts(value.__globals__[name])]
    return Look("function", _name(value).encode(), parts)


def _is_users(value: type | types.FunctionType) -> bool:
    """Whether code is the user's own: not this package's and not a library's."""
    name = str(value.__module__)
    return name == "__main__" or not (name.partition(".")[0] == PACKAGE or is_library(name))


def _counts(used: object) -> bool:
    """Whether a global that a function uses can be told by its value. A logger or a client cannot."""
    if isinstance(used, (*PLAIN, *CODE, pd.DataFrame, pd.Series)):
        return True
    return type(used).__module__.partition(".")[0] in (PACKAGE, "scipy") or _is_users(type(used))


def _text(value: Any) -> str | None:
    try:
        return inspect.getsource(value.__code__)
    except (AttributeError, OSError, TypeError):
        return None


def _name(value: object) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _names(code: types.CodeType) -> set[str]:
    return set(code.co_names).union(*(_names(c) for c in code.co_consts if isinstance(c, types.CodeType)))
