"""Argument validators with one message style: what, got, do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InputError

__all__ = [
    "as_generator",
    "as_seed_sequence",
    "check_choice",
    "check_columns",
    "check_covariance",
    "check_finite",
    "check_index",
    "check_integer",
    "check_number",
    "check_probabilities",
    "check_vector",
    "suggest",
]

Seed = int | np.random.SeedSequence | np.random.Generator | None


def check_number(
    name: str,
    value: Any,
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
        if isinstance(value, (bool, np.bool_, str)) or (not np.isscalar(value) and np.ndim(value) != 0):
            raise InputError(f"{name} must be {legal}", value, f"Give {name} as one number")
        try:
            value = float(value)
        except (TypeError, ValueError):
            raise InputError(f"{name} must be {legal}", value, f"Give {name} as one number") from None
    bad = value != value or (value in (np.inf, -np.inf) and not infinite)
    if bad or value < low or value > high or (open_low and value == low) or (open_high and value == high):
        raise InputError(f"{name} must be {legal}", value, f"Give {name} inside that interval")
    return value


def check_integer(name: str, value: Any, *, low: int | None = None, high: int | None = None) -> int:
    """Return ``value`` as an int between ``low`` and ``high``, both included."""
    number = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    span = (
        f"between {low} and {high}"
        if low is not None and high is not None
        else (f"at least {low}" if low is not None else f"at most {high}" if high is not None else "")
    )
    what = f"{name} must be a whole number {span}".rstrip()
    if isinstance(number, (bool, np.bool_)):
        raise InputError(what, value, f"Give {name} as an integer")
    if isinstance(number, (float, np.floating)) and float(number).is_integer():
        number = int(number)
    if not isinstance(number, (int, np.integer)):
        raise InputError(what, value, f"Give {name} as an integer")
    if (low is not None and number < low) or (high is not None and number > high):
        raise InputError(what, value, f"Give {name} inside that range")
    return int(number)


def check_index(name: str, value: Any, size: int) -> int:
    """Return a row or column position; negative positions count from the end, as in numpy."""
    position = check_integer(name, value)
    if not -size <= position < size:
        raise InputError(f"{name} must lie between 0 and {size - 1}", value, "Count rows from 0")
    return position % size


def check_vector(name: str, value: ArrayLike, size: int | None = None) -> NDArray[np.float64]:
    """Return a finite one-dimensional float array, of length ``size`` when it is given."""
    array = as_float_array(name, value)
    if array.ndim != 1 or (size is not None and array.shape[0] != size):
        length = f"of length {size}" if size is not None else "of one dimension"
        raise InputError(f"{name} must be a vector {length}", f"shape {array.shape}", f"Give {name} as a flat list of numbers")
    return check_finite(name, array)


def check_covariance(name: str, value: ArrayLike, size: int | None = None, *, definite: bool = False) -> NDArray[np.float64]:
    """Return a symmetric positive (semi)definite matrix; with ``definite`` a singular one is refused."""
    matrix = as_float_array(name, value)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{name} must be a square matrix", f"shape {matrix.shape}", "Give one row and one column per variable")
    if size is not None and matrix.shape[0] != size:
        raise InputError(f"{name} must be {size} by {size}", f"shape {matrix.shape}", "Give one row and one column per variable")
    check_finite(name, matrix)
    scale = float(np.max(np.abs(matrix), initial=0.0))
    if not np.allclose(matrix, matrix.T, rtol=0, atol=1e-10 * scale):
        raise InputError(f"{name} must be symmetric", matrix.tolist(), f"Use ({name} + {name}.T) / 2 if it should be")
    matrix = (matrix + matrix.T) / 2
    diagonal = np.diag(matrix)
    if np.any(diagonal < 0):
        raise InputError(f"{name} must have no negative variance", diagonal.tolist(), "Check its diagonal")
    # Work on the correlation scale, so that units do not decide what counts as singular.
    root = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    lowest = float(np.linalg.eigvalsh(matrix / np.outer(root, root))[0]) if matrix.size else 0.0
    if lowest < -1e-10:
        raise InputError(
            f"{name} must be positive semidefinite", f"smallest eigenvalue {lowest:.3g}", "Check signs and sizes of its covariances"
        )
    if definite and (lowest <= 1e-14 or np.any(diagonal == 0)):
        raise InputError(
            f"{name} must be positive definite",
            f"smallest eigenvalue {max(lowest, 0.0):.3g} on the correlation scale",
            "Drop variables that are constant or a linear function of the others",
        )
    return matrix


def check_probabilities(name: str, value: ArrayLike, size: int | None = None) -> NDArray[np.float64]:
    """Return a probability vector (or the rows of a stochastic matrix), each summing to one."""
    array = as_float_array(name, value)
    check_finite(name, array)
    if size is not None and array.shape[-1] != size:
        raise InputError(f"{name} must have {size} entries", f"{array.shape[-1]}", "Give one probability per value")
    if np.any(array < 0):
        raise InputError(f"{name} must not be negative", float(array.min()), "Give probabilities between 0 and 1")
    total = array.sum(axis=-1)
    if not np.allclose(total, 1.0, rtol=0, atol=1e-9):
        raise InputError(f"{name} must sum to 1", np.atleast_1d(total).tolist(), f"Divide {name} by its sum")
    return array / total[..., None]


def check_choice(name: str, value: Any, options: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``options``; the error lists them."""
    if value not in options:
        raise InputError(f"{name} must be one of {', '.join(map(repr, options))}", value, suggest(str(value), options))
    return str(value)


def check_columns(name: str, value: Any, columns: Sequence[Any]) -> list[int]:
    """Return the positions of the named columns (names, or integer positions where names are not integers)."""
    wanted = [value] if isinstance(value, (str, int, np.integer)) or not isinstance(value, Iterable) else list(value)
    known = list(columns)
    found = []
    for item in wanted:
        if item in known:
            found.append(known.index(item))
        elif isinstance(item, (int, np.integer)) and -len(known) <= item < len(known):
            found.append(int(item) % len(known))
        else:
            raise InputError(f"{name} names a column that is not there", item, suggest(str(item), [str(c) for c in known]))
    if len(set(found)) != len(found):
        raise InputError(f"{name} names a column twice", wanted, "Name each column once")
    return found


def check_finite(name: str, array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``array`` if every entry is a finite number."""
    if not np.all(np.isfinite(array)):
        count = int(np.sum(~np.isfinite(array)))
        raise InputError(f"{name} must be finite", f"{count} missing or infinite entries", "Remove or replace them first")
    return array


def as_float_array(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return ``value`` as a float array, or say that it is not made of numbers."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        # Whole data sets pass through here: say what kind of thing it was, never what was in it.
        got = value if np.ndim(value) == 0 else f"{type(value).__name__} of other things"
        raise InputError(f"{name} must be made of numbers", got, "Give a list or array of numbers") from None
    return array


def as_generator(seed: Seed) -> np.random.Generator:
    """Return a numpy Generator from an int, a SeedSequence, a Generator or None (fresh entropy)."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(as_seed_sequence(seed))


def as_seed_sequence(seed: Seed) -> np.random.SeedSequence:
    """Return a SeedSequence; a Generator gives a child of its own, so that it moves on.

    A SeedSequence is copied: a generator that spawns children leaves its mark on the sequence it was made from, and
    the next one made from it would spawn others.
    """
    if isinstance(seed, np.random.SeedSequence):
        return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key, pool_size=seed.pool_size)
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(seed.integers(0, 2**63, size=4).tolist())
    if seed is None:
        return np.random.SeedSequence()
    if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InputError("seed must be a non-negative integer, a SeedSequence or a numpy Generator", seed, "Use seed=1, for example")
    return np.random.SeedSequence(int(seed))


def suggest(word: str, options: Sequence[str]) -> str:
    """Return a hint: close matches first, otherwise the list of options."""
    close = difflib.get_close_matches(word, [str(o) for o in options], n=3)
    if close:
        return "Did you mean " + " or ".join(repr(c) for c in close) + "?"
    listed = ", ".join(repr(str(o)) for o in list(options)[:12])
    return f"Choose from {listed}{', ...' if len(options) > 12 else ''}"
