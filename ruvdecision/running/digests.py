"""Digests of the parts of a study: two digests with one salt agree if and only if the parts do.

The salt matters. A plain hash of a small file, or of a file most of which is known, can be guessed by trying; with a
salt the guesser needs the salt too, which lies in the checkpoint. A digest keeps nobody from guessing who has the whole
checkpoint, so keep that where you keep results.

Results depend on source text too: that of every imported module that is neither the standard library nor installed. It
is read from disk when a run starts. Of a package all files count; of a module also those that its functions import
later. The main module does not count as a whole: a script or a notebook goes on changing around the study, so that only
the functions and classes of it count that the study uses.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.util
import inspect
import os
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..checks import field_values
from ..errors import InputError

PLAIN = (bool, int, float, str, bytes, tuple, list, dict, set, frozenset, np.ndarray, np.generic)
CODE = (types.FunctionType, type, property, classmethod, staticmethod, functools.cached_property)
PACKAGE = __name__.partition(".")[0]
GENERATED = {
    *("__init__", "__new__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__"),
    *("__setattr__", "__delattr__", "__replace__"),
}
"""Methods that `dataclass` and `NamedTuple` write, without a source."""
STANDARD = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
LATER = re.compile(rb"^[ \t]+(?:from|import)[ \t]+(\w+)", re.MULTILINE)


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
        trait = _trait_of_value(item) if again is None else Trait("again", str(again).encode())
        # Kind and sizes go in front, so that no two lists of things run together to the same bytes.
        state.update(f"{trait.kind}:{len(trait.content)}:{len(trait.parts)}:".encode("utf-8", "surrogatepass"))
        state.update(trait.content)
        if trait.parts:
            known[id(item)] = len(known)
            for part in trait.parts:
                add(part)
            if not isinstance(item, (type, types.FunctionType)):  # many masks share a class, which is looked at once
                del known[id(item)]

    add(value)
    return state.hexdigest()


class Trait(NamedTuple):
    """What a value is known by: its kind, bytes, and other values."""

    kind: str
    content: bytes | memoryview = b""
    parts: Sequence[object] = ()


@functools.singledispatch
def _trait_of_value(value: object) -> Trait:
    kind = type(value)
    if dataclasses.is_dataclass(value):
        return Trait("object", parts=[kind, *field_values(value).items()])
    if hasattr(value, "dist") and hasattr(value, "kwds"):
        # A frozen law of scipy.stats keeps much that changes with use.
        return Trait("law", parts=[type(value.dist), value.args, value.kwds])  # type: ignore[attr-defined]
    if kind.__module__.partition(".")[0] in ("pymc", "pytensor"):
        # Their objects hold whole graphs with numbers that change from run to run.
        return Trait("graph", parts=[kind, str(getattr(value, "name", ""))])
    state = sorted(getattr(value, "__dict__", {}).items())
    shown = repr(value) if not state else ""
    return Trait("object", parts=[kind, _qualified_name(value), "" if " at 0x" in shown else shown, *state])


def _trait_of_array(value: NDArray[np.generic]) -> Trait:
    array = np.asarray(value)
    kind = f"array {array.dtype.str} {array.shape}"
    if array.dtype.hasobject:
        return Trait(kind, parts=array.ravel().tolist())
    return Trait(kind, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _trait_of_column(value: pd.api.extensions.ExtensionArray) -> Trait:
    plain = np.asarray(value)
    if value.dtype.kind in "biufcmM" and plain.dtype.kind != "O":
        return Trait("column", str(value.dtype).encode(), [plain])
    # Text and mixed things: pandas' hash of each value is fast, and is itself hashed with the salt.
    kind = f"{value.dtype} {pd.api.types.infer_dtype(value, skipna=True)}"
    text = pd.util.hash_array(pd.Series(value).astype(str).to_numpy(dtype=object))
    return Trait("column", kind.encode(), [np.asarray(value.isna()), np.asarray(text, dtype="<u8")])


# -- code --------------------------------------------------------------------------------------------------


def _trait_of_class(value: type) -> Trait:
    if not _is_users(value):
        return Trait("type", _qualified_name(value).encode())
    members = [
        (name, item) for name, item in vars(value).items() if _source_text(item) is not None or name not in GENERATED
    ]
    code = [item for _, item in members if isinstance(item, CODE)]
    plain = [(name, item) for name, item in members if isinstance(item, PLAIN) and not name.startswith("__")]
    return Trait("type", _qualified_name(value).encode(), [*value.__bases__, *code, *plain])


def _trait_of_function(value: types.FunctionType) -> Trait:
    parts: list[object] = [value.__defaults__, value.__kwdefaults__]
    for cell in value.__closure__ or ():
        with contextlib.suppress(ValueError):  # an empty one
            parts.append(cell.cell_contents)
    if _is_users(value):
        in_file = value.__module__ != "__main__" and file_of(value.__module__)
        text = "" if in_file else _source_text(value)
        if text is None:
            what = f"The source of {value.__qualname__} is not known, so that no checkpoint could notice an edit of it"
            raise InputError(what, do="Define it in a file or a notebook, or leave checkpoint= out")
        # Two functions of one line have one text.
        columns = [place[2:] for place in value.__code__.co_positions()]
        parts += [text, columns, value.__code__.co_firstlineno if in_file else 0]
        names = sorted(_names_in_code(value.__code__) & value.__globals__.keys())
        parts += [(name, value.__globals__[name]) for name in names if _is_known_by_value(value.__globals__[name])]
    return Trait("function", _qualified_name(value).encode(), parts)


def _is_users(value: type | types.FunctionType) -> bool:
    """Whether code is the user's own: not this package's and not a library's."""
    name = str(value.__module__)
    return name == "__main__" or not (name.partition(".")[0] == PACKAGE or is_library(name))


def _is_known_by_value(used: object) -> bool:
    """Whether a global that a function uses is known by its value. A logger or a client cannot."""
    if isinstance(used, (*PLAIN, *CODE, pd.DataFrame, pd.Series)):
        return True
    return type(used).__module__.partition(".")[0] in (PACKAGE, "scipy") or _is_users(type(used))


def _source_text(value: Any) -> str | None:
    try:
        return inspect.getsource(value.__code__)
    except (AttributeError, OSError, TypeError):
        return None


def _qualified_name(value: object) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _names_in_code(code: types.CodeType) -> set[str]:
    return set(code.co_names).union(*(_names_in_code(c) for c in code.co_consts if isinstance(c, types.CodeType)))


TRAITS: dict[tuple[type, ...], Callable[[Any], Trait]] = {
    (type(None), bool, int, str): lambda v: Trait(type(v).__name__, repr(v).encode("utf-8", "surrogatepass")),
    (float,): lambda v: Trait("float", np.float64(v).tobytes()),
    (bytes, bytearray): lambda v: Trait("bytes", bytes(v)),
    (np.ndarray, np.generic): _trait_of_array,
    (pd.DataFrame,): lambda v: Trait("DataFrame", parts=[*((n, c.array) for n, c in v.items()), v.index]),
    (pd.Series,): lambda v: Trait("Series", parts=[v.name, v.array, v.index]),
    (pd.Index,): lambda v: Trait("Index", parts=[list(v.names), v.array]),
    (pd.RangeIndex,): lambda v: Trait("RangeIndex", parts=[v.start, v.stop, v.step]),
    (pd.MultiIndex,): lambda v: Trait("MultiIndex", parts=[v.get_level_values(i) for i in range(v.nlevels)]),
    (pd.Categorical,): lambda v: Trait("Categorical", parts=[list(v.categories), v.ordered, np.asarray(v.codes)]),
    (pd.api.extensions.ExtensionArray,): _trait_of_column,
    (np.random.SeedSequence,): lambda v: Trait("SeedSequence", parts=[v.entropy, tuple(v.spawn_key), v.pool_size]),
    (np.random.Generator,): lambda v: Trait("Generator", parts=[type(v.bit_generator), v.bit_generator.state]),
    (Mapping,): lambda v: Trait("mapping", parts=list(v.items())),
    (list, tuple): lambda v: Trait(type(v).__qualname__, parts=v),
    (set, frozenset): lambda v: Trait("set", parts=sorted(v, key=repr)),
    (functools.partial,): lambda v: Trait("partial", parts=[v.func, v.args, v.keywords]),
    (types.ModuleType,): lambda v: Trait("module", v.__name__.encode()),
    (type,): _trait_of_class,
    (types.FunctionType,): _trait_of_function,
    (types.MethodType,): lambda v: Trait("method", parts=[v.__self__, v.__func__]),
    (property,): lambda v: Trait("property", parts=[v.fget, v.fset]),
    (classmethod, staticmethod): lambda v: Trait("method", parts=[v.__func__]),
    (functools.cached_property,): lambda v: Trait("property", parts=[v.func]),
}
for _kinds, _way in TRAITS.items():
    for _kind in _kinds:
        _trait_of_value.register(_kind, _way)


# -- source text -------------------------------------------------------------------------------------------


def sources() -> dict[str, bytes]:
    """Source text by the name of the module, or of the package that it belongs to.

    >>> "numpy" in sources(), "json" in sources()
    (False, False)
    """
    found: dict[str, bytes] = {}
    names = set(sys.modules) - {"__main__"}
    tops = {name.partition(".")[0] for name in names}
    bare = {top for top in tops if file_of(top) is None}
    waiting = [*(tops - bare), *(name for name in names if name.partition(".")[0] in bare)]
    while waiting:
        name = waiting.pop()
        file = file_of(name)
        if name in found or is_library(name) or file is None or not file.endswith(".py"):
            continue
        package = Path(file).name == "__init__.py"
        files = sorted(Path(file).parent.rglob("*.py")) if package else [Path(file)]
        found[name] = b"".join(b"%s\n%s\n" % (os.fsencode(f.name), f.read_bytes()) for f in files)
        later = {match.decode() for match in LATER.findall(found[name])} if not package else set()
        waiting += [other for other in later if other not in sys.modules and not is_library(other)]
    return found


def is_library(name: str) -> bool:
    """Whether a module is of the standard library or installed. One that has no file is neither."""
    file = file_of(name)
    if file is None:
        return name.partition(".")[0] in sys.stdlib_module_names
    return file.startswith(STANDARD) or INSTALLED.search(file) is not None


def file_of(name: str) -> str | None:
    """The file of a module, imported or not; None where there is none, as in a notebook."""
    module = sys.modules.get(name)
    found = _find_module_file(name) if module is None else getattr(module, "__file__", None)
    return found if found and os.path.isfile(found) else None


@functools.lru_cache(maxsize=1024)
def _find_module_file(name: str) -> str | None:
    try:
        spec = importlib.util.find_spec(name)
    except (AttributeError, ImportError, ValueError):
        return None
    return None if spec is None else spec.origin
