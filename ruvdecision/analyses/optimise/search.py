"""The search for an objective without noise.

Boundaries are found by bracketed roots, edges of the box one by one, the inside from several starts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np
from scipy.optimize import brentq, minimize, minimize_scalar

from ...checks import as_generator
from ...protocols import Array
from .families import UnitBox, search_grid
from .objective import Candidate, Objective

EDGES = 6
"""Families with at most this many parameters have every edge of their box searched."""


def search_exactly(objective: Objective, starts: int, seed: np.random.SeedSequence) -> list[Candidate]:
    """Candidates for the best point of a family of one parameter or several."""
    names = objective.names
    return line(objective, {}, names[0]) if len(names) == 1 else several(objective, starts, seed)


def line(objective: Objective, fixed: Mapping[str, float], free: str) -> list[Candidate]:
    """Candidates along one parameter, the others fixed: ends, crossings of the threshold, inner optima."""
    index = objective.names.index(free)
    low, high = objective.box[index]

    def at(x: float | Array) -> Array:
        values = np.empty((np.size(x), len(objective.names)))
        for i, name in enumerate(objective.names):
            values[:, i] = np.atleast_1d(x) if i == index else fixed[name]
        return values

    grid = search_grid(low, high)
    on_grid = objective.points(at(grid))
    found = objective.allowed_of(on_grid)
    objective.coarse += found
    for (a, p), (b, q) in itertools.pairwise(zip(grid, on_grid, strict=True)):
        if objective.allowed(p) != objective.allowed(q):
            x = _crossing(objective, at, a, b)
            if x is not None:
                found.append(objective.points(at(x))[0])
    for i in range(1, len(grid) - 1):
        around = on_grid[i - 1 : i + 2]
        if (
            all(objective.allowed(p) for p in around)
            and around[1].loss < min(around[0].loss, around[2].loss)
            and np.isfinite(grid[i + 1])
        ):
            inner = minimize_scalar(
                lambda x: objective.points(at(x))[0].loss,
                bounds=(grid[i - 1], grid[i + 1]),
                method="bounded",
                options={"xatol": 1e-12 * (1 + grid[i])},
            )
            found += objective.allowed_of(objective.points(at(inner.x)))
    return found


def _crossing(objective: Objective, at: Callable[[float], Array], a: float, b: float) -> float | None:
    """The parameter value at which the intruder's uncertainty meets what is needed."""
    to, back = (lambda x: x), (lambda t: t)
    if np.isinf(b):
        # Towards infinity work in 1/x, where the uncertainty is smooth up to the end.
        to, back = (lambda x: 0.0 if np.isinf(x) else 1.0 / x), (lambda t: np.inf if t == 0 else 1.0 / t)
    gap = lambda t: objective.points(at(back(t)))[0].safety - objective.required  # noqa: E731
    start, stop = to(a), to(b)
    ends = gap(start), gap(stop)
    if ends[0] == 0 or ends[1] == 0:
        return a if ends[0] == 0 else b
    if np.sign(ends[0]) == np.sign(ends[1]) or not np.all(np.isfinite(ends)):
        # An infinite end still brackets: step inside until it is finite.
        if np.isinf(ends[1]) and ends[0] < 0:
            for share in np.geomspace(0.5, 1e-12, 40):
                inside = start + (stop - start) * (1 - share)
                if np.isfinite(gap(inside)) and gap(inside) > 0:
                    return float(back(brentq(gap, start, inside, xtol=1e-300, rtol=8.9e-16)))
        return None
    return float(back(brentq(gap, start, stop, xtol=1e-300, rtol=8.9e-16)))


def several(objective: Objective, starts: int, seed: np.random.SeedSequence) -> list[Candidate]:
    """Every edge of the box exactly, and the inside by constrained optimisation from several starts."""
    d = len(objective.names)
    found: list[Candidate] = []
    # Every edge of the box; of a box with too many those that start at its lowest corner.
    corners = itertools.product((0, 1), repeat=d - 1) if d <= EDGES else [(0,) * (d - 1)]
    for free, corner in itertools.product(range(d), list(corners)):
        others = [i for i in range(d) if i != free]
        fixed = {objective.names[i]: objective.box[i][c] for i, c in zip(others, corner, strict=True)}
        found += line(objective, fixed, objective.names[free])
    box = UnitBox(objective.box, [objective.half_way(j, search_grid(*objective.box[j])) for j in range(d)])
    unit = as_generator(seed).random((max(64, 16 * d), d))
    inside = objective.points(box.values(unit))
    objective.coarse += objective.allowed_of(inside)
    # The allowed ones first, the most useful of them before the others; of the rest the safest first.
    ranked = [(0, p.loss) if objective.allowed(p) else (1, -p.safety) for p in inside]
    seeds = [unit[i] for i in sorted(range(len(unit)), key=lambda i: ranked[i])[:starts]]
    if found:
        best = min(found, key=lambda p: p.loss)
        seeds.append(np.clip(box.coordinates(best.values), 1e-3, 1 - 1e-3))
    for start in seeds:
        found += descend(objective, start, box)
    if found:
        found += _polish(objective, min(found, key=lambda p: p.loss), box)
    return found


def _polish(objective: Objective, best: Candidate, box: UnitBox) -> list[Candidate]:
    """Walk along the threshold: one free parameter is solved for, the others are searched.

    The descent works with difference quotients and stops where they drown in rounding; this does not use them.
    """
    inside = box.coordinates(best.values)
    free = [j for j in range(len(inside)) if 0 < inside[j] < 1]
    if not 2 <= len(free) <= 4 or abs(best.safety - objective.required) > 1e-4 * abs(objective.required):
        return []

    def at(t: Array) -> Candidate:
        return objective.point(box.values(t))

    def moved(j: int, by: float) -> Array:
        t = inside.copy()
        t[j] = np.clip(t[j] + by, 0.0, 1.0)
        return t

    effect = {j: abs(at(moved(j, 1e-4)).safety - at(moved(j, -1e-4)).safety) for j in free}
    held = max(free, key=lambda j: effect[j])
    others = [j for j in free if j != held]
    found: list[Candidate] = []

    def loss(x: list[float] | Array) -> float:
        t = inside.copy()
        t[others] = np.clip(x, 0.0, 1.0)

        def gap(v: float) -> float:
            t[held] = v
            return at(t).safety - objective.required

        width = 1e-3
        low, high = max(inside[held] - width, 0.0), min(inside[held] + width, 1.0)
        while np.sign(gap(low)) == np.sign(gap(high)):
            if width >= 1:
                return np.inf
            width *= 8
            low, high = max(inside[held] - width, 0.0), min(inside[held] + width, 1.0)
        t[held] = brentq(gap, low, high, xtol=1e-16, rtol=8.9e-16)
        point = at(t)
        if objective.allowed(point):
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


def descend(objective: Objective, start: Array, box: UnitBox) -> list[Candidate]:
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
        points = objective.points(box.values(np.array(rows)))
        safety, loss = np.array([p.safety for p in points]), np.array([p.loss for p in points])
        width = high - low
        if objective.evaluator.positive:
            with np.errstate(all="ignore"):
                loss = np.where(loss > 0, np.log(loss), -745.0)
        unit = abs(objective.required) or 1.0
        values = np.array([loss[0], (safety[0] - objective.required) / unit])
        with np.errstate(all="ignore"):
            slope_loss = (loss[2::2] - loss[1::2]) / width
            slope_safety = (safety[2::2] - safety[1::2]) / width / unit
        return values, np.nan_to_num(np.stack([slope_loss, slope_safety]), nan=0.0, posinf=1e6, neginf=-1e6)

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
    values = box.values(end)
    point = objective.point(values)
    if objective.allowed(point):
        return [point]
    # Just outside: go along the free coordinate that moves the intruder most until the threshold is met.
    free = [j for j in range(d) if 0 < end[j] < 1]
    if not free:
        return []
    effect = remembered(end)[1][1]
    j = max(free, key=lambda i: abs(effect[i]))

    def along(x: float) -> Candidate:
        return objective.point(np.where(np.arange(d) == j, x, values))

    def gap(x: float) -> float:
        return along(x).safety - objective.required

    reach = values[j] * (1 + 1e-3 * np.sign(effect[j])) if np.isfinite(values[j]) else values[j]
    if not np.isfinite(reach) or gap(reach) < 0:
        return []
    return objective.allowed_of([along(brentq(gap, *sorted((values[j], reach)), xtol=1e-300, rtol=8.9e-16))])
