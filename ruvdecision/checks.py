"""Argument validators with one message style: what, got, do."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field, fields
from functools import cache, partial
from types import EllipsisType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeGuard, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InputError, kind_of, with_article

if TYPE_CHECKING:
    import pandas as pd

Kind = TypeVar("Kind")
Label = TypeVar("Label", bound=Hashable)
Scalar = TypeVar("Scalar", bound=np.generic)

# numpy turns all of these into floats: a page number as text, days since 1970, the real part.
_NO_NUMBERS = (str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64, np.void)

#: Whole numbers fit into 64 bits: what is larger is a slip, and numpy would fail on it later.
LARGEST_INTEGER = 2**63 - 1

#: Joins every integer seed, so that none gives the stream of `np.random.default_rng` for the same integer: noise that
#: is drawn from the seed that simulated the data would be the data. A release has a stream apart from that of maps.
OURS, RELEASES = int.from_bytes(b"ruvd"), int.from_bytes(b"give")

#: Where random numbers start.
Seed: TypeAlias = int | np.random.SeedSequence | np.random.Generator | None

#: Records of a file, or a release: a table or an array, one row per respondent.
Data: TypeAlias = "pd.DataFrame | pd.Series | ArrayLike"

#: Which rows, by position: one, a slice, a list of positions, or one boolean per row.
Rows: TypeAlias = int | slice | Sequence[int] | NDArray[np.integer] | NDArray[np.bool_]

#: Which columns: a name or position, several of them in an order, or None for those that apply.
Columns: TypeAlias = Hashable | Sequence[Hashable] | None

#: How numpy indexes the leading axes of an array.
Index: TypeAlias = Rows | EllipsisType | tuple[Rows | EllipsisType | None, ...] | None


def check_number(
    name: str,
    value: object,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    open_low: bool = False,
    open_high: bool = False,
    infinite: bool = False,
) -> float:
    """Return ``value`` as a float inside the interval, or raise an `InputError` that quotes the interval."""
    left, right = "(" if open_low or low == -np.inf else "[", ")" if open_high or high == np.inf else "]"
    legal = f"a number in {left}{low:g}, {high:g}{']' if infinite and high == np.inf else right}"
    if type(value) is not float:
        number = one_number(value)
        if number is None:
            raise InputError(f"{name} must be {legal}", value, f"Give {name} as one number")
        value = number
    bad = value != value or (value in (np.inf, -np.inf) and not infinite)
    if bad or value < low or value > high or (open_low and value == low) or (open_high and value == high):
        raise InputError(f"{name} must be {legal}", value, f"Give {name} inside that interval")
    return value


def check_integer(name: str, value: object, *, low: int | None = None, high: int | None = None) -> int:
    """Return ``value`` as an int between ``low`` and ``high``, both included."""
    number = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 and value is not np.ma.masked else value
    least, most = ("" if end is None else f"{words} {end}" for words, end in (("at least", low), ("at most", high)))
    span = f"between {low} and {high}" if least and most else least or most
    what = f"{name} must be a whole number {span}".rstrip()
    if isinstance(number, (float, np.floating)) and float(number).is_integer():
        number = int(number)
    if not is_integer(number):
        raise InputError(what, value, f"Give {name} as an integer")
    number = int(number)
    if (low is not None and number < low) or (high is not None and number > high):
        raise InputError(what, value, f"Give {name} inside that range")
    if abs(number) > LARGEST_INTEGER:
        got = f"a number of {len(str(abs(number)))} digits"
        raise InputError(f"{name} is larger than a computer counts", got, f"Give a smaller {name}")
    return number


def check_integers(name: str, value: int | Iterable[int], do: str, *, low: int | None = None) -> tuple[int, ...]:
    """Return a whole number or several as a tuple that is not empty."""
    numbers = () if isinstance(value, (str, bytes)) else tuple(check_integer(name, v, low=low) for v in as_tuple(value))
    if not numbers:
        raise InputError(f"{name} must be whole numbers, at least one", value, do)
    return numbers


def check_index(name: str, value: object, size: int) -> int:
    """Return a row or column position; negative positions count from the end, as in numpy."""
    position = check_integer(name, value)
    if not -size <= position < size:
        raise InputError(f"{name} must lie between 0 and {size - 1}", value, "Count from 0")
    return position % size


def check_distinct_positions(name: str, rows: Iterable[object], size: int) -> NDArray[np.int64]:
    """Return positions of rows among ``size``, each once."""
    found = np.array([check_index(name, row, size) for row in rows], dtype=np.int64)
    if len(np.unique(found)) < len(found):
        # Whoever passes the records themselves by mistake should not find them in the message.
        raise InputError(f"{name} must be different from each other", f"{len(found)} rows", "Name each record once")
    return found


def check_vector(name: str, value: ArrayLike, size: int | None = None) -> NDArray[np.float64]:
    """Return a finite one-dimensional float array, of length ``size`` when it is given."""
    array = as_float_array(name, value)
    if array.ndim != 1 or (size is not None and array.shape[0] != size):
        length = f"of length {size}" if size is not None else "of one dimension"
        do = f"Give {name} as a flat list of numbers"
        raise InputError(f"{name} must be a vector {length}", f"shape {array.shape}", do)
    return check_finite(name, array)


def check_numbers(
    name: str,
    value: ArrayLike,
    what: str,
    do: str,
    *,
    low: float = -np.inf,
    open_low: bool = False,
    infinite: bool = False,
) -> float | tuple[float, ...]:
    """Return a number, or a tuple of one number per column or the like; anything else is refused in these words."""
    array = as_float_array(name, value)
    wrong = np.isnan(array) | (np.isinf(array) & (not infinite)) | (array <= low if open_low else array < low)
    if array.ndim > 1 or array.size == 0 or wrong.any():
        raise InputError(f"{name} must be {what}", value, do)
    return float(array) if array.ndim == 0 else tuple(array.tolist())


def check_square(name: str, value: ArrayLike, do: str, size: int | None = None) -> NDArray[np.float64]:
    """Return a finite matrix with as many columns as rows, ``size`` of them when it is given."""
    matrix = as_float_array(name, value)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{name} must be a square matrix", f"shape {matrix.shape}", do)
    if size is not None and len(matrix) != size:
        raise InputError(f"{name} must be {size} by {size}", f"shape {matrix.shape}", do)
    return check_finite(name, matrix)


def check_per(name: str, value: ArrayLike, count: int, per: str = "column") -> NDArray[np.float64]:
    """Return one number for each of so many columns, or the like; a single number stands for all."""
    given = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if len(given) not in (1, count):
        raise InputError(
            f"{name} must have {count} entries, one per {per}", len(given), f"Give one number, or one per {per}"
        )
    return np.array(np.broadcast_to(given, (count,)))


def check_covariance(
    name: str, value: ArrayLike, size: int | None = None, *, definite: bool = False
) -> NDArray[np.float64]:
    """Return a symmetric positive (semi)definite matrix; with ``definite`` a singular one is refused."""
    matrix = check_square(name, value, "Give one row and one column per variable", size)
    scale = float(np.max(np.abs(matrix), initial=0.0))
    if not np.allclose(matrix, matrix.T, rtol=0, atol=1e-10 * scale):
        raise InputError(f"{name} must be symmetric", matrix.tolist(), f"Use ({name} + {name}.T) / 2 if it should be")
    matrix = matrix + (matrix.T - matrix) / 2
    diagonal = np.diag(matrix)
    if np.any(diagonal < 0):
        raise InputError(f"{name} must have no negative variance", diagonal.tolist(), "Check its diagonal")
    # Work on the correlation scale, so that units do not decide what counts as singular.
    root = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    lowest = float(np.linalg.eigvalsh(matrix / np.outer(root, root))[0]) if matrix.size else 0.0
    if lowest < -1e-10:
        do = "Check signs and sizes of its covariances"
        raise InputError(f"{name} must be positive semidefinite", f"smallest eigenvalue {lowest:.3g}", do)
    if definite and (lowest <= 1e-14 or np.any(diagonal == 0)):
        got = f"smallest eigenvalue {max(lowest, 0.0):.3g} on the correlation scale"
        do = "Drop variables that are constant or a linear function of the others"
        raise InputError(f"{name} must be positive definite", got, do)
    return matrix


def check_probabilities(name: str, value: ArrayLike, size: int | None = None) -> NDArray[np.float64]:
    """Return a probability vector (or the rows of a stochastic matrix), each summing to one."""
    array = as_float_array(name, value)
    check_finite(name, array)
    if array.ndim == 0 or array.shape[-1] == 0:
        what = f"{name} must be a vector of probabilities"
        raise InputError(what, f"shape {array.shape}", "Give one probability per value")
    if size is not None and array.shape[-1] != size:
        raise InputError(f"{name} must have {size} entries", f"{array.shape[-1]}", "Give one probability per value")
    if np.any(array < 0):
        raise InputError(f"{name} must not be negative", float(array.min()), "Give probabilities between 0 and 1")
    total = array.sum(axis=-1)
    if not np.allclose(total, 1.0, rtol=0, atol=1e-9):
        raise InputError(f"{name} must sum to 1", np.atleast_1d(total).tolist(), f"Divide {name} by its sum")
    return array / total[..., None]


def check_shares(name: str, value: ArrayLike, shape: tuple[int, ...], do: str) -> NDArray[np.float64]:
    """Return weights of this shape, divided by their sum: none negative, some positive."""
    array = check_shape(name, check_finite(name, as_float_array(name, value)), shape, do)
    if np.any(array < 0) or not array.any():
        raise InputError(f"{name} must not be negative, nor all zero", float(array.min()), do)
    array = array / array.max()  # the sum of large weights would be infinite
    return array / array.sum()


def check_shape(name: str, array: NDArray[Scalar], shape: tuple[int, ...], do: str) -> NDArray[Scalar]:
    """Return an array of this shape."""
    if array.shape != shape:
        raise InputError(f"{name} must have shape {shape}", f"shape {array.shape}", do)
    return array


def check_kind(name: str, value: object, kind: type[Kind] | tuple[type[Kind], ...], do: str) -> Kind:
    """Return ``value`` if it is of this class, or of one of these."""
    if not isinstance(value, kind):
        *others, last = (with_article(k.__name__) for k in (kind if isinstance(kind, tuple) else (kind,)))
        raise InputError(f"{name} must be {', '.join(others)}{' or ' * bool(others)}{last}", kind_of(value), do)
    return value


def refuse_class(who: str, value: object) -> None:
    """Refuse a class where an object is meant, ``Quadratic`` for ``Quadratic()``."""
    if isinstance(value, type):
        raise InputError(f"{who} must be an object", f"the class {value.__name__}", f"Write {value.__name__}(...)")


def check_mapping(name: str, value: object, do: str) -> Mapping[Any, Any]:
    """Return a mapping."""
    if not isinstance(value, Mapping):
        raise InputError(f"{name} must be a mapping", kind_of(value), do)
    return value


def check_one_of(who: str, given: Mapping[str, object], do: str) -> str:
    """Return the name of the one argument that was given; the others are None."""
    found = [name for name, value in given.items() if value is not None]
    if len(found) != 1:
        *others, last = given
        raise InputError(f"{who} needs one of {', '.join(others)} and {last}", found or "none of them", do)
    return found[0]


def check_filled(name: str, values: Iterable[Kind], do: str) -> tuple[Kind, ...]:
    """Return values of which there is at least one."""
    found = tuple(values)
    if not found:
        raise InputError(f"{name} must not be empty", [], do)
    return found


def check_distinct(name: str, values: Iterable[Label], do: str) -> tuple[Label, ...]:
    """Return values of which there is at least one, and none twice."""
    return check_each_once(name, check_filled(name, values, do), do)


def check_each_once(name: str, values: Iterable[Label], do: str) -> tuple[Label, ...]:
    """Return values of which none is given twice."""
    found = tuple(values)
    if not all(map(is_label, found)) or len(set(found)) != len(found):
        raise InputError(f"{name} must be different from each other", list(found), do)
    return found


def check_choice(name: str, value: object, options: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``options``; the error lists them."""
    if not isinstance(value, str) or value not in options:
        raise InputError(f"{name} must be one of {', '.join(map(repr, options))}", value, suggest(str(value), options))
    return str(value)


def check_flag(name: str, value: object, do: str) -> bool:
    """Return True or False; nothing else is taken for one of them."""
    if not is_flag(value):
        raise InputError(f"{name} must be True or False", value, do)
    return bool(value)


def check_text(name: str, value: object, do: str) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise InputError(f"{name} must be text", "nothing in it" if isinstance(value, str) else value, do)
    return str(value)


def check_list(name: str, value: Any, do: str) -> list[Any]:
    """Return the members of a list, or of anything else that has members; text is one thing."""
    if is_single(value):
        raise InputError(f"{name} must be a list", value if isinstance(value, str) else kind_of(value), do)
    return list(value)


def check_names(name: str, value: Any, count: int) -> tuple[Hashable, ...]:
    """Return so many different names of variables."""
    names = tuple(check_list(name, value, "Name each variable once"))
    if not all(map(is_label, names)):
        got = [type(n).__name__ for n in names]
        raise InputError(f"{name} must be names", got, "Use text, numbers or tuples of them")
    if len(names) != count or len(set(names)) != count:
        raise InputError(f"{name} must be {count} different names", list(names), "Name each variable once")
    return names


def is_single(value: object) -> bool:
    """Whether a value is one thing rather than a collection; text is one thing, and so is an array of no dimension."""
    return isinstance(value, (str, bytes, type)) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0


def as_tuple(value: Any) -> tuple[Any, ...]:
    """The members of a collection; one thing by itself is its only member."""
    return (value,) if is_single(value) else tuple(value)


def name_of(function: object) -> str:
    """The name of a function, or of the class of a callable object; a lambda has none.

    >>> name_of(sorted), name_of(lambda: 1)
    ('sorted', '')
    """
    name = str(getattr(function, "__name__", type(function).__name__))
    return "" if name == "<lambda>" else name


def as_python_value(value: Any) -> Any:
    """A number or text of numpy as Python's own; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def is_flag(value: object) -> bool:
    """Whether a value is True or False."""
    return isinstance(value, (bool, np.bool_))


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is an integer; truth values and time differences, which numpy counts among them, are not."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number; truth values are 0 and 1."""
    return isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating))


def is_label(value: object) -> bool:
    """Whether a value can name something: it can be hashed."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def check_columns(name: str, value: Columns, columns: Sequence[Hashable]) -> list[int]:
    """Return the positions of the named columns (names, or integer positions where names are not integers)."""
    if isinstance(value, (set, frozenset)):
        raise InputError(f"{name} must have an order", kind_of(value), f"Give {name} as a list")
    wanted = list(as_tuple(value))
    known = list(columns)
    places = {label: i for i, label in reversed(list(enumerate(known)))}
    found = []
    for item in wanted:
        place = places.get(item) if is_label(item) else None
        if place is not None and is_flag(item) != is_flag(known[place]):
            place = None  # True is equal to 1, but it is not the column 1
        if place is not None:
            found.append(place)
        elif is_integer(item) and -len(known) <= item < len(known):
            found.append(int(item) % len(known))
        else:
            what = f"{name} names a column that is not there"
            raise InputError(what, item, suggest(str(item), [str(c) for c in known]))
    if len(set(found)) != len(found):
        raise InputError(f"{name} names a column twice", wanted, "Name each column once")
    return found


def checked(default: Any, check: Callable[..., Any], *, required: bool = False, **limits: Any) -> Any:
    """A field of a frozen dataclass that `check_fields` checks: ``seed: int = checked(0, check_integer, low=0)``.

    A field that is None by default may stay None, unless it is ``required``.
    """
    return field(default=default, metadata={"check": partial(check, **limits), "required": required})


def check_fields(thing: Any) -> None:
    """Put each `checked` field of a dataclass through its check.

    A field that is True or False by default must be one of them: any text is true to Python, "no" as well.
    """
    for f in fields(thing):
        value, check = getattr(thing, f.name), f.metadata.get("check")
        if check is None and isinstance(f.default, bool):
            check_flag(f.name, value, f"Write {f.name}=True")
        optional = f.default is None and not f.metadata.get("required", False)
        if check is not None and not (value is None and optional):
            object.__setattr__(thing, f.name, check(f.name, value))


def field_values(thing: Any) -> dict[str, Any]:
    """The fields of a dataclass by name, as they are held."""
    return {f.name: getattr(thing, f.name) for f in fields(thing)}


class WithSettings:
    """A frozen dataclass made of settings: each is checked, and those that differ from their defaults are shown."""

    always_shown: ClassVar[tuple[str, ...]] = ()
    """Arguments that are told even at their defaults."""

    def __post_init__(self) -> None:
        check_fields(self)

    def settings(self) -> dict[str, Any]:
        """The arguments that differ from their defaults, or are always told, as they are kept."""
        given, kind = {}, cast("Any", type(self))
        for name, default in _argument_defaults(kind):
            value = getattr(self, name)
            if (value is not default and not _equals_default(value, default)) or name in self.always_shown:
                given[name] = value
        return given

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={show_setting(v)}' for k, v in self.settings().items())})"


@cache
def _argument_defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    """Names of a dataclass's arguments with their defaults; a map of many masks asks once for each kind."""
    return tuple((f.name, f.default) for f in fields(kind) if f.init)


def _equals_default(value: Any, default: Any) -> bool:
    return not isinstance(value, np.ndarray) and type(value) is type(default) and bool(value == default)


def show_setting(value: Any) -> str:
    """A setting as a person would write it: 2.08, not 2.0800000000000001.

    >>> show_setting((1.0, np.float64(0.5))), show_setting(sorted)
    ('[1, 0.5]', 'sorted')
    """
    if is_flag(value) or value is None or isinstance(value, str):
        return repr(value)
    if is_integer(value):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.10g}"
    if isinstance(value, np.ndarray):
        return show_setting(value.tolist())
    if isinstance(value, (list, tuple)):
        shown = [show_setting(v) for v in value[: 3 if len(value) > 12 else 12]]
        return f"[{', '.join(shown)}{f', ... {len(value)} entries' if len(value) > 12 else ''}]"
    return name_of(value) or "<lambda>" if callable(value) else repr(value)


def check_sequence(name: str, value: Any) -> tuple[Any, ...]:
    """Return the entries of a list, an array or the like as plain values; what has no order is refused."""
    if is_single(value) or isinstance(value, (set, frozenset, Mapping)):
        raise InputError(f"{name} must be a list", kind_of(value), f"Give {name} as a list, in an order")
    return tuple(value.tolist() if hasattr(value, "tolist") else value)


def check_flags(name: str, value: object) -> tuple[bool, ...]:
    """Return a list of booleans, one per record; the error does not show them, for they may say who is at risk."""
    flags = check_sequence(name, value)
    if not flags or not all(map(is_flag, flags)):
        raise InputError(f"{name} must be one boolean per record", kind_of(value), f"Write {name}=x > 35_000")
    return tuple(bool(v) for v in flags)


def check_finite(name: str, array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``array`` if every entry is a finite number."""
    if not np.all(np.isfinite(array)):
        count = int(np.sum(~np.isfinite(array)))
        got = f"{count} missing or infinite entries"
        raise InputError(f"{name} must be finite", got, "Remove or replace them first")
    return array


def as_float_array(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return ``value`` as a float array, or say that it is not made of numbers.

    Truth values count as 0 and 1, what is masked or None as missing (NaN). Text, dates and complex numbers are not
    numbers here, although numpy would convert them.
    """
    if type(value) is np.ndarray and value.dtype == np.float64:
        return value
    try:
        raw = np.ma.asarray(value) if isinstance(value, np.ma.MaskedArray) else np.asarray(value)
        odd = (
            raw.dtype.kind not in "biufO"
            or (raw.ndim == 0 and raw.dtype.kind == "b")
            or (raw.dtype.kind == "O" and any(isinstance(item, _NO_NUMBERS) for item in raw.flat))
        )
        if not odd:
            with np.errstate(over="ignore"):  # what is too large for a float is infinite, and `check_finite` says so
                if isinstance(raw, np.ma.MaskedArray):
                    return np.ma.filled(raw.astype(np.float64), np.nan)
                # pandas knows what its own kinds of missing entries are.
                return np.asarray(raw if raw.dtype.kind != "O" else value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    # Whole data sets pass through here: say what kind of thing it was, never what was in it.
    got = value if value is None or isinstance(value, (str, int, float)) else f"{kind_of(value)} of other things"
    raise InputError(f"{name} must be made of numbers", got, "Give a list or array of numbers")


def one_number(value: Any) -> float | None:
    """``value`` as a float if it is one number, None if it is not: text, a truth value, a complex number, a list."""
    if getattr(value, "ndim", 0) != 0 or value is np.ma.masked:
        return None
    if isinstance(value, np.ndarray):
        value = value.item()
    if is_flag(value) or isinstance(value, _NO_NUMBERS):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    except (TypeError, ValueError):
        return None


def as_generator(seed: Seed, *purpose: int) -> np.random.Generator:
    """Return a numpy Generator from an int, a SeedSequence, a Generator or None (fresh entropy).

    >>> bool(as_generator(1).random() == np.random.default_rng(1).random())
    False
    """
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(as_seed_sequence(seed, *purpose))


def as_seed_sequence(seed: Seed, *purpose: int) -> np.random.SeedSequence:
    """Return a SeedSequence; a Generator gives a child of its own, so that it moves on.

    An integer is a seed of this package and of a ``purpose``, and starts no stream of numpy's own. A SeedSequence is
    taken as it is, and copied: a generator that spawns children leaves its mark on the sequence it was made from, and
    the next one made from it would spawn others.
    """
    if isinstance(seed, np.random.SeedSequence):
        return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key, pool_size=seed.pool_size)
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(seed.integers(0, 2**63, size=4).tolist())
    if seed is None:
        seed = np.random.SeedSequence().entropy  # type: ignore[assignment]
    if not is_integer(seed) or seed < 0:
        what = "seed must be a non-negative integer, a SeedSequence or a numpy Generator"
        raise InputError(what, seed, "Use seed=1, for example")
    return np.random.SeedSequence(int(seed), spawn_key=(OURS, *purpose))


def fixed_seed(name: str, seed: Seed) -> Seed:
    """A seed that starts the same random numbers at every use: a Generator is drawn from once, None becomes entropy."""
    if seed is None or isinstance(seed, np.random.Generator):
        return as_seed_sequence(seed)
    as_seed_sequence(seed)
    return seed


def rows_where(bad: ArrayLike) -> str:
    """Where the trouble is, for an error about data: how many rows, and the first; not what is in them.

    >>> rows_where(np.array([False, True, True]))
    '2 rows, the first at position 1'
    """
    marked = np.asarray(bad, dtype=bool)
    count = int(marked.sum())
    return f"{count} row{'s' * (count != 1)}, the first at position {int(np.argmax(marked))}"


def did_you_mean(word: str, options: Sequence[str]) -> str:
    """The options that are close to a word, as a question; empty if none is."""
    close = difflib.get_close_matches(word[:200], [str(o) for o in options], n=3)
    return "Did you mean " + " or ".join(repr(c) for c in close) + "?" if close else ""


def check_arguments(who: str, given: Iterable[object], known: Iterable[str]) -> None:
    """Refuse arguments that a function does not have."""
    options = list(known)
    for name in given:
        if name not in options:
            raise InputError(f"{who} has no such argument", name, suggest(str(name), options))


def suggest(word: str, options: Sequence[str]) -> str:
    """Return a hint: close matches first, otherwise the list of options."""
    close = did_you_mean(word, options)
    if close:
        return close
    listed = ", ".join(repr(str(o)) for o in list(options)[:12])
    return f"Choose from {listed}{', ...' if len(options) > 12 else ''}"
