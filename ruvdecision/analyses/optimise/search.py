"""The search for an objective without noise: boundaries by bracketed roots, edges one by one, the inside from several starts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize, minimize_scalar

from ...checks import as_generator
from ...protocols import Array
from .families import inwards, outwards, spaced
from .problem import Point, Problem

__all__ = ["descend", "line", "several"]

EDGES = 6
"""Families with at most this many parameters have every edge of their box searched."""


def line(problem: Problem, fixed: Mapping[str, float], free: str) -> list[Point]:
    """Candidates along one parameter, the others fixed: ends, crossings of the threshold, inner optima."""
    index = problem.names.index(free)
    low, high = problem.box[index]

    def at(x: Any) -> Array:
        values = np.empty((np.size(x), len(problem.names)))
        for i, name in enumerate(problem.names):
            values[:, i] = np.atleast_1d(x) if i == index else fixed[name]
        return values

    grid = spaced(low, high)
    seen = problem.points(at(grid))
    problem.coarse += [p for p in seen if problem.allowed(p)]
    found = [p for p in seen if problem.allowed(p)]
    for (a, p), (b, q) in itertools.pairwise(zip(grid, seen, strict=True)):
        if problem.allowed(p) != problem.allowed(q):
            x = _crossing(problem, at, a, b)
            if x is not None:
                found.append(problem.points(at(x))[0])
    for i in range(1, len(grid) - 1):
        around = seen[i - 1 : i + 2]
        if (
            all(problem.allowed(p) for p in around)
            and around[1].loss < min(around[0].loss, around[2].loss)
            and np.isfinite(grid[i + 1])
        ):
            inner = minimize_scalar(
                lambda x: problem.points(at(x))[0].loss,
                bounds=(grid[i - 1], grid[i + 1]),
                method="bounded",
                options={"xatol": 1e-12 * (1 + grid[i])},
            )
            found += [p for p in problem.points(at(inner.x)) if problem.allowed(p)]
    return found


def _crossing(problem: Problem, at: Callable[[Any], Array], a: float, b: float) -> float | None:
    """The parameter value at which the intruder's uncertainty meets what is needed."""
    to, back = (lambda x: x), (lambda t: t)
    if np.isinf(b):
        # Towards infinity work in 1/x, where the uncertainty is smooth up to the end.
        to, back = (lambda x: 0.0 if np.isinf(x) else 1.0 / x), (lambda t: np.inf if t == 0 else 1.0 / t)
    gap = lambda t: problem.points(at(back(t)))[0].guard - problem.need  # noqa: E731
    left, right = to(a), to(b)
    ends = gap(left), gap(right)
    if ends[0] == 0 or ends[1] == 0:
        return a if ends[0] == 0 else b
    if np.sign(ends[0]) == np.sign(ends[1]) or not np.all(np.isfinite(ends)):
        # An infinite end still brackets: step inside until it is finite.
        if np.isinf(ends[1]) and ends[0] < 0:
            for share in np.geomspace(0.5, 1e-12, 40):
                inside = left + (right - left) * (1 - share)
                if np.isfinite(gap(inside)) and gap(inside) > 0:
                    return float(back(brentq(gap, left, inside, xtol=1e-300, rtol=8.9e-16)))
        return None
    return float(back(brentq(gap, left, right, xtol=1e-300, rtol=8.9e-16)))


def several(problem: Problem, starts: int, seed: Any) -> list[Point]:
    """Every edge of the box exactly, and the inside by constrained optimisation from several starts."""
    d = len(problem.names)
    found: list[Point] = []
    if d <= EDGES:
        for free in range(d):
            others = [i for i in range(d) if i != free]
            for corner in itertools.product((0, 1), repeat=d - 1):
                fixed = {problem.names[i]: problem.box[i][c] for i, c in zip(others, corner, strict=True)}
                found += line(problem, fixed, problem.names[free])
    else:
        for free in range(d):
            fixed = {problem.names[i]: problem.box[i][0] for i in range(d) if i != free}
            found += line(problem, fixed, problem.names[free])
    scales = [problem.half_way(j, spaced(*problem.box[j])) for j in range(d)]
    rng = as_generator(seed)
    unit = rng.random((max(64, 16 * d), d))
    inside = problem.points(np.array([outwards(t, problem.box, scales) for t in unit]))
    problem.coarse += [p for p in inside if problem.allowed(p)]
    order = sorted(
        range(len(unit)),
        key=lambda i: (
            not problem.allowed(inside[i]),
            inside[i].loss if problem.allowed(inside[i]) else -inside[i].guard,
        ),
    )
    seeds = [unit[i] for i in order[:starts]]
    if found:
        best = min(found, key=lambda p: p.loss)
        seeds.append(np.clip(inwards(best.values, problem.box, scales), 1e-3, 1 - 1e-3))
    for start in seeds:
        found += descend(problem, start, scales)
    if found:
        found += _polish(problem, min(found, key=lambda p: p.loss), scales)
    return found


def _polish(problem: Problem, best: Point, scales: list[float]) -> list[Point]:
    """Walk along the threshold: one free parameter is solved for, the others are searched.

    The descent works with difference quotients and stops where they drown in rounding; this does not use them.
    """
    inside = inwards(best.values, problem.box, scales)
    free = [j for j in range(len(inside)) if 0 < inside[j] < 1]
    if not 2 <= len(free) <= 4 or abs(best.guard - problem.need) > 1e-4 * abs(problem.need):
        return []

    def at(t: Array) -> Point:
        return problem.points(np.array([outwards(t, problem.box, scales)]))[0]

    def moved(j: int, by: float) -> Array:
        t = inside.copy()
        t[j] = np.clip(t[j] + by, 0.0, 1.0)
        return t

    grip = {j: abs(at(moved(j, 1e-4)).guard - at(moved(j, -1e-4)).guard) for j in free}
    held = max(free, key=lambda j: grip[j])
    others = [j for j in free if j != held]
    found: list[Point] = []

    def loss(x: Any) -> float:
        t = inside.copy()
        t[others] = np.clip(x, 0.0, 1.0)

        def gap(v: float) -> float:
            t[held] = v
            return at(t).guard - problem.need

        width = 1e-3
        low, high = max(inside[held] - width, 0.0), min(inside[held] + width, 1.0)
        while np.sign(gap(low)) == np.sign(gap(high)):
            if width >= 1:
                return np.inf
            width *= 8
            low, high = max(inside[held] - width, 0.0), min(inside[held] + width, 1.0)
        t[held] = brentq(gap, low, high, xtol=1e-16, rtol=8.9e-16)
        point = at(t)
        if problem.allowed(point):
            found.append(point)
        return point.loss

    if len(others) == 1:
        centre = inside[others[0]]
        minimize_scalar(
            lambda x: loss([x]),
            bounds=(max(centre - 0.05, 0.0), min(centre + 0.05, 1.0)),
            method="bounded",
            options={"xatol": 1e-9},
        )
    else:
        simplex = np.vstack([inside[others], inside[others] + 0.01 * np.eye(len(others))])
        minimize(
            loss,
            inside[others],
            method="Nelder-Mead",
            options={"initial_simplex": simplex, "xatol": 1e-8, "fatol": 1e-15, "maxfev": 250},
        )
    return found


def descend(problem: Problem, start: Array, scales: list[float]) -> list[Point]:
    """Sequential quadratic programming on the unit box, with gradients from one vectorised evaluation."""
    d = len(start)

    def both(t: Array) -> tuple[Array, Array]:
        step = 1e-6
        low, high = np.clip(t - step, 0, 1), np.clip(t + step, 0, 1)
        rows = [t]
        for j in range(d):
            for end in (low, high):
                moved = t.copy()
                moved[j] = end[j]
                rows.append(moved)
        points = problem.points(np.array([outwards(r, problem.box, scales) for r in rows]))
        guard, loss = np.array([p.guard for p in points]), np.array([p.loss for p in points])
        width = high - low
        if problem.source.positive:
            with np.errstate(all="ignore"):
                loss = np.where(loss > 0, np.log(loss), -745.0)
        unit = abs(problem.need) or 1.0
        values = np.array([loss[0], (guard[0] - problem.need) / unit])
        with np.errstate(all="ignore"):
            slope_loss = (loss[2::2] - loss[1::2]) / width
            slope_guard = (guard[2::2] - guard[1::2]) / width / unit
        return values, np.nan_to_num(np.stack([slope_loss, slope_guard]), nan=0.0, posinf=1e6, neginf=-1e6)

    memory: dict[bytes, tuple[Array, Array]] = {}

    def remembered(t: Array) -> tuple[Array, Array]:
        t = np.clip(t, 0.0, 1.0)
        key = t.tobytes()
        if key not in memory:
            memory[key] = both(t)
        return memory[key]

    result = minimize(
        lambda t: remembered(t)[0][0],
        start,
        jac=lambda t: remembered(t)[1][0],
        bounds=[(0.0, 1.0)] * d,
        constraints={"type": "ineq", "fun": lambda t: remembered(t)[0][1], "jac": lambda t: remembered(t)[1][1]},
        method="SLSQP",
        options={"maxiter": 200, "ftol": 1e-15},
    )
    end = np.clip(result.x, 0.0, 1.0)
    end = np.where(end < 1e-7, 0.0, np.where(end > 1 - 1e-7, 1.0, end))
    values = np.array(outwards(end, problem.box, scales))
    points = problem.points(values[None])
    if problem.allowed(points[0]):
        return points
    # Just outside: go along the free coordinate with the best grip on the intruder until the threshold is met.
    free = [j for j in range(d) if 0 < end[j] < 1]
    if not free:
        return []
    grip = remembered(end)[1][1]
    j = max(free, key=lambda i: abs(grip[i]))
    gap = lambda x: (  # noqa: E731
        problem.points(np.array([[x if i == j else v for i, v in enumerate(values)]]))[0].guard - problem.need
    )
    reach = values[j] * (1 + 1e-3 * np.sign(grip[j])) if np.isfinite(values[j]) else values[j]
    if not np.isfinite(reach) or gap(reach) < 0:
        return []
    x = brentq(gap, *sorted((values[j], reach)), xtol=1e-300, rtol=8.9e-16)
    last = problem.points(np.array([[x if i == j else v for i, v in enumerate(values)]]))
    return [p for p in last if problem.allowed(p)]
