"""A user's own function of U: calling it, checking that it falls, and inverting it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InputError
from ..protocols import Array
from .roots import brent_root


def apply_function(function: Callable[[Any], Any], u: Array, name: str) -> Array:
    """Call a function that takes arrays or only numbers, and give back one float per U."""
    # Two entries at least: many scalar functions swallow an array of one entry.
    padded = u if u.size > 1 else np.repeat(u, 2)
    try:
        result = np.asarray(function(padded.copy()))
        if result.shape == padded.shape and result.dtype.kind in "biuf":
            return np.asarray(result, dtype=np.float64)[: u.size].reshape(u.shape)
    except Exception:
        pass
    values = np.empty(u.size)
    for i, x in enumerate(u.ravel()):
        try:
            values[i] = _one_number(function(x))
        except Exception as problem:
            what = f"The function {name} fails at U = {float(x):.6g}"
            do = "Let it give back a number for every U of the map, inf where it has no bound"
            raise InputError(what, f"{type(problem).__name__}: {problem}", do) from None
    return values.reshape(u.shape)


def _one_number(value: Any) -> float:
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise TypeError(f"gave {value!r} instead of a number")
    return float(array.reshape(()))


def check_decreasing(function: Callable[[Array], Array], known: Array, what: str) -> None:
    """Raise an `InputError` unless the function falls strictly over the range of ``known`` (sorted U)."""
    low, high = float(known[0]), float(known[-1])
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        # One release only: look at its neighbourhood, so that an increasing function is still seen.
        width = 1e-3 * abs(high) if high else 1e-3
        low, high = (low - width if low != 0 else low), high + width
    grid = np.linspace(low, high, 257)
    if low > 0:
        grid = np.concatenate([grid, np.geomspace(low, high, 257)])
    nodes = np.unique(np.concatenate([grid, known]))
    with np.errstate(all="ignore"):
        values = function(nodes)
    missing = np.isnan(values)
    if np.any(missing):
        what = f"The {what} must be a number for every U between {low:.6g} and {high:.6g}"
        raise InputError(what, f"NaN at U = {float(nodes[missing][0]):.6g}", "Choose a function that is defined there")
    # Neighbours closer than rounding may tie; anything farther apart must fall.
    far = np.diff(nodes) > 1e-9 * (high - low)
    slack = 4 * np.finfo(float).eps * np.abs(values[:-1])
    with np.errstate(invalid="ignore"):
        rises = np.where(far, ~(values[1:] < values[:-1]), values[1:] > values[:-1] + slack)
    if np.any(rises):
        i = int(np.flatnonzero(rises)[0])
        got = " and ".join(f"f({x:.6g}) = {y:.6g}" for x, y in zip(nodes[i : i + 2], values[i : i + 2], strict=True))
        what = f"The {what} must be strictly decreasing between U = {low:.6g} and {high:.6g}"
        raise InputError(what, got, "Choose a function that falls as U grows, such as lambda u: 1 / (1 + u)")


def solve_decreasing(function: Callable[[float], float], value: float) -> float:
    """Return the root of a decreasing function minus ``value`` over U, by a growing bracket and Brent's method."""
    if np.isnan(value):
        raise InputError("A threshold must be a number", value, "Give a number")
    low = high = 1.0
    if np.isnan(function(1.0)):
        what = "The function of U has no value at U = 1, where the search starts"
        raise InputError(what, np.nan, "Choose a function that is defined for every positive U")
    while function(low) < value:
        low /= 8.0
        if low < 1e-280:
            return _below_zero(function, value)
    while function(high) > value:
        high *= 8.0
        if high > 1e280:
            return np.inf
    for end in (low, high):
        if function(end) == value:
            return end
    # In log U: the bracket may span many decades.
    gap = lambda x: _clip_finite(function(float(np.exp(x))) - value)  # noqa: E731
    return float(np.exp(brent_root(gap, np.log(low) - 1e-9, np.log(high) + 1e-9, absolute=1e-15)))


def _below_zero(function: Callable[[float], float], value: float) -> float:
    low, step = 0.0, 1e-3
    try:
        last = function(0.0)
    except InputError:
        return 0.0
    # A function that ends at zero is not followed below it.
    if not last < value:
        return 0.0
    while 1e-12 * (1 - low) < step < 1e280:
        try:
            here = function(low - step)
        except InputError:
            here = -np.inf
        if not here > last:
            step /= 2  # a pole or the end of the domain lies between
            continue
        if here >= value:
            return brent_root(lambda x: _clip_finite(function(x) - value), low - step, low)
        low, last, step = low - step, here, 2 * step
    return low


def _clip_finite(x: float) -> float:
    return float(np.clip(x, -1e300, 1e300))
