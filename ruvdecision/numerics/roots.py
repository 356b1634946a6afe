"""Where functions cross zero and where they are least, most of them for a whole array of functions at once.

SciPy's `scipy.optimize.elementwise` has the same methods, but hands its function ever shorter arrays of what is not yet
settled; the laws of a batch answer for the whole batch, so that the searches here keep its shape.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..protocols import Array

HALVINGS = 2200
"""Steps of a search for a root: no stretch of floats can be halved more often."""


def brent_root(
    g: Callable[[float], float],
    low: float,
    high: float,
    *,
    absolute: float = 1e-300,
    relative: float = 4 * float(np.finfo(float).eps),
) -> float:
    """Root of a function of one number, not monotone perhaps, with different signs at the ends (Brent 1973)."""
    from scipy.optimize import brentq

    return float(brentq(g, low, high, xtol=absolute, rtol=relative, maxiter=HALVINGS))


def border(inside: Callable[[Array], NDArray[np.bool_]], good: Array, bad: Array, *, parts: int, rounds: int) -> Array:
    """Where what holds at ``good`` first fails towards ``bad``: the stretch is cut into parts, and the last one again.

    ``inside`` takes numbers of shape ``(parts - 1,) + good.shape``; many parts serve where a call costs more than its
    numbers.
    """
    share = np.linspace(0, 1, parts + 1).reshape((-1,) + (1,) * good.ndim)
    for _ in range(rounds):
        places = good + (bad - good) * share
        fails = np.concatenate([~inside(places[1:-1]), np.ones((1,) + good.shape, dtype=bool)])
        last = fails.argmax(axis=0)[None]
        good, bad = (np.take_along_axis(places, last + step, axis=0)[0] for step in (0, 1))
    return bad


def bracket(g: Callable[[Array], Array], start: Array, step: Array) -> tuple[Array, Array]:
    """Widen around ``start`` until the increasing function g is negative on the left and not on the right."""
    start = np.asarray(start, dtype=np.float64)
    step = np.where(np.isfinite(step) & (step > 0), step, 1.0)
    low, high = start - step, start + step
    for _ in range(200):
        left, right = g(low) >= 0, g(high) < 0
        if not (np.any(left) or np.any(right)):
            break
        step = 2 * step
        low, high = np.where(left, start - step, low), np.where(right, start + step, high)
    return low, high


def monotone_root(g: Callable[[Array], Array], low: Array, high: Array, rounds: int = 200) -> Array:
    """Root of a non-decreasing function between ``low`` and ``high``, to the last digit.

    Chandrupatla's method (1997): inverse quadratic steps where they are safe, bisection elsewhere. Where g
    jumps over zero, the upper side of the jump is returned.
    """
    a, b = np.array(high, dtype=np.float64), np.array(low, dtype=np.float64)
    fa, fb = np.asarray(g(a)), np.asarray(g(b))
    c, fc = a.copy(), fa.copy()
    t = np.full(a.shape, 0.5)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(rounds):
            x = a + t * (b - a)
            fx = np.asarray(g(x))
            # Zero counts as positive, so that the bracket always has a negative end.
            same = (fx >= 0) == (fa >= 0)
            c, fc = np.where(same, a, b), np.where(same, fa, fb)
            b, fb = np.where(same, b, a), np.where(same, fb, fa)
            a, fa = x, fx
            best = np.where(np.abs(fa) < np.abs(fb), a, b)
            room = 2 * np.finfo(float).eps * np.abs(best) + 1e-300
            tl = room / np.abs(b - a)
            if np.all((tl > 0.5) | (a == b) | (fa == 0) | (fb == 0)):
                break
            xi, ph = (a - b) / (c - b), (fa - fb) / (fc - fb)
            safe = (ph**2 < xi) & ((1 - ph) ** 2 < 1 - xi)
            step = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            t = np.where(safe & np.isfinite(step), step, 0.5)
            t = np.minimum(1 - tl, np.maximum(tl, t))
            t = np.where(np.isfinite(t), np.clip(t, 0.0, 1.0), 0.5)
    upper = np.where(fa >= 0, a, b)
    upper = np.where((fa < 0) & (fb < 0), np.asarray(high, dtype=np.float64), upper)
    exact = np.where(fa == 0, a, np.where(fb == 0, b, np.nan))
    return np.where(np.isnan(exact), upper, exact)


def least_near(
    g: Callable[[Array], Array], candidates: Array, values: Array, *, tries: int = 2, rounds: int = 60
) -> tuple[Array, Array]:
    """Least value of g near the best of sorted ``candidates`` (along the first axis), for an array of functions.

    ``values`` holds g at the candidates. The neighbourhoods of the ``tries`` best local minima are searched by
    golden section; a candidate that stays unbeaten is kept, and of equals the lowest.
    """
    count = len(candidates)
    floor = values.min(axis=0)
    # Rounding must not choose between equals: the lowest candidate within it wins.
    first = np.argmax(values <= floor + 1e-13 * _finite_size(floor), axis=0)[None]
    best, least = np.take_along_axis(candidates, first, axis=0)[0], np.take_along_axis(values, first, axis=0)[0]
    wall = np.full((1,) + values.shape[1:], np.inf)
    padded = np.concatenate([wall, values, wall])
    # Candidates may repeat; the first of a run of equals stands for all.
    valley = (values < padded[:-2]) & (values <= padded[2:])
    order = np.argsort(np.where(valley, values, np.inf), axis=0, kind="stable")
    ratio = (np.sqrt(5.0) - 1) / 2
    for turn in range(min(tries, count)):
        at = order[turn][None]
        if turn and not np.take_along_axis(valley, at, axis=0).any():
            break
        here = np.take_along_axis(candidates, at, axis=0)[0]
        low = np.max(np.where(candidates < here, candidates, -np.inf), axis=0)
        high = np.min(np.where(candidates > here, candidates, np.inf), axis=0)
        low, high = np.where(np.isfinite(low), low, here), np.where(np.isfinite(high), high, here)
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        at_left, at_right = g(left), g(right)
        for _ in range(rounds):
            down = at_left <= at_right
            high, low = np.where(down, right, high), np.where(down, low, left)
            fresh = np.where(down, high - ratio * (high - low), low + ratio * (high - low))
            fresh_value = g(fresh)
            left, right = np.where(down, fresh, right), np.where(down, left, fresh)
            at_left, at_right = np.where(down, fresh_value, at_right), np.where(down, at_left, fresh_value)
        found, value = np.where(at_left <= at_right, left, right), np.minimum(at_left, at_right)
        # Golden section ends a hair beside the minimum: take it only if it is better by more than rounding.
        better = value < least - 1e-14 * _finite_size(least)
        best, least = np.where(better, found, best), np.where(better, value, least)
    return best, least


def _finite_size(values: Array) -> Array:
    return np.abs(np.where(np.isfinite(values), values, 0.0))
