"""The search for an objective without noise.

Boundaries are found by bracketed roots, edges of the box one by one, the inside from several starts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from queue import SimpleQueue
from typing import TypeVar

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from ...checks import as_generator
from ...numerics.roots import brent_root
from ...protocols import Array
from .families import UnitBox, search_grid
from .objective import Candidate, Objective

Found = TypeVar("Found")
Ask = Callable[[Array], list[Candidate]]
"""Evaluates parameter vectors, many at a time."""
EDGES = 6
"""Families with at most this many parameters have every edge of their box searched."""


def search_exactly(objective: Objective, starts: int, seed: np.random.SeedSequence) -> list[Candidate]:
    """Candidates for the best point of a family of one parameter or several."""
    return (
        search_edges(objective, [(np.zeros(1), 0)])
        if len(objective.names) == 1
        else search_box(objective, starts, seed)
    )


def run_in_lockstep(ask: Ask, searches: Sequence[Callable[[Ask], Found]]) -> list[Found]:
    """Run searches side by side: what they ask for in one step is evaluated as one family of masks.

    Each is written as if it were alone; all wait until every one of them has asked or ended.
    """
    asked: SimpleQueue[tuple[int, Array | None]] = SimpleQueue()
    answers: list[SimpleQueue[list[Candidate] | BaseException]] = [SimpleQueue() for _ in searches]

    def run(i: int) -> Found:
        def one(values: Array) -> list[Candidate]:
            asked.put((i, values))
            answer = answers[i].get()
            if isinstance(answer, BaseException):
                raise answer
            return answer  # type: ignore[no-any-return]

        try:
            return searches[i](one)
        finally:
            asked.put((i, None))

    with ThreadPoolExecutor(max(len(searches), 1)) as pool:
        ends = [pool.submit(run, i) for i in range(len(searches))]
        running, waiting = set(range(len(searches))), dict[int, Array]()
        try:
            while running:
                i, values = asked.get()
                if values is None:
                    running.discard(i)
                else:
                    waiting[i] = values
                if running and waiting.keys() == running:
                    # In the order of the searches, whichever asked first: the same numbers every time.
                    order = sorted(waiting)
                    found = iter(ask(np.concatenate([waiting[i] for i in order])))
                    for i in order:
                        answers[i].put(list(itertools.islice(found, len(waiting.pop(i)))))
        except BaseException as error:
            for answer in answers:
                answer.put(error)
            raise
        return [end.result() for end in ends]


def search_edges(objective: Objective, edges: Sequence[tuple[Array, int]]) -> list[Candidate]:
    """Candidates along one parameter from some corner, for several such edges: ends, crossings, inner optima."""
    ways = [partial(_vary_one_parameter, corner, free) for corner, free in edges]
    grids = [search_grid(*objective.box[free]) for _, free in edges]
    points = iter(objective.evaluate_points(np.concatenate([at(grid) for at, grid in zip(ways, grids, strict=True)])))
    found: list[Candidate] = []
    searches: list[Callable[[Ask], Candidate | None]] = []
    for at, grid in zip(ways, grids, strict=True):
        on_grid = list(itertools.islice(points, len(grid)))
        found += objective.allowed_points(on_grid)
        allowed = [objective.allowed(p) for p in on_grid]
        for i in np.flatnonzero(np.diff(allowed)).tolist():
            searches.append(partial(_threshold_crossing, required=objective.required, at=at, a=grid[i], b=grid[i + 1]))
        for i in range(1, len(grid) - 1):
            below = on_grid[i].loss < min(on_grid[i - 1].loss, on_grid[i + 1].loss)
            if below and all(allowed[i - 1 : i + 2]) and np.isfinite(grid[i + 1]):
                searches.append(partial(_least_loss_between, at=at, low=grid[i - 1], high=grid[i + 1]))
    objective.coarse += found
    return found + objective.allowed_points(
        [p for p in run_in_lockstep(objective.evaluate_points, searches) if p is not None]
    )


def _vary_one_parameter(corner: Array, free: int, x: float | Array) -> Array:
    """Parameter vectors that differ in one parameter."""
    values = np.tile(corner, (np.size(x), 1))
    values[:, free] = x
    return values


def _least_loss_between(ask: Ask, at: Callable[[float], Array], low: float, high: float) -> Candidate:
    """The least loss between two values of a parameter."""
    options = {"xatol": 1e-12 * (1 + (low + high) / 2)}
    least = minimize_scalar(lambda x: ask(at(x))[0].loss, bounds=(low, high), method="bounded", options=options)
    return ask(at(least.x))[0]


def _threshold_crossing(
    ask: Ask, required: float, at: Callable[[float], Array], a: float, b: float
) -> Candidate | None:
    """The point at which the intruder's uncertainty meets what is needed."""
    to, back = (lambda x: x), (lambda t: t)
    if np.isinf(b):
        # Towards infinity work in 1/x, where the uncertainty is smooth up to the end.
        to, back = (lambda x: 0.0 if np.isinf(x) else 1.0 / x), (lambda t: np.inf if t == 0 else 1.0 / t)
    gap = lambda t: ask(at(back(t)))[0].safety - required  # noqa: E731
    start, stop = to(a), to(b)
    ends = gap(start), gap(stop)
    if ends[0] == 0 or ends[1] == 0:
        return ask(at(a if ends[0] == 0 else b))[0]
    if np.sign(ends[0]) == np.sign(ends[1]) or not np.all(np.isfinite(ends)):
        if not np.isinf(ends[1]) or ends[0] >= 0:
            return None
        # An infinite end still brackets: step inside until it is finite.
        inside = start + (stop - start) * (1 - np.geomspace(0.5, 1e-12, 40))
        beyond = [t for t in inside if np.isfinite(gap(t)) and gap(t) > 0]
        if not beyond:
            return None
        stop = beyond[0]
    return ask(at(back(brent_root(gap, start, stop))))[0]


def search_box(objective: Objective, starts: int, seed: np.random.SeedSequence) -> list[Candidate]:
    """Every edge of the box exactly, and the inside by constrained optimisation from several starts."""
    d = len(objective.names)
    # Every edge of the box; of a box with too many those that start at its lowest corner.
    corners = list(itertools.product((0, 1), repeat=d - 1)) if d <= EDGES else [(0,) * (d - 1)]
    ends = np.array(objective.box)
    edges = [(ends[range(d), np.insert(c, f, 0)], f) for f, c in itertools.product(range(d), corners)]
    found = search_edges(objective, edges)
    box = UnitBox(objective.box, [objective.natural_unit(j, search_grid(*objective.box[j])) for j in range(d)])
    unit = as_generator(seed).random((max(64, 16 * d), d))
    inside = objective.evaluate_points(box.values(unit))
    objective.coarse += objective.allowed_points(inside)
    # The allowed ones first, the most useful of them before the others; of the rest the safest first.
    ranked = [(0, p.loss) if objective.allowed(p) else (1, -p.safety) for p in inside]
    seeds = [unit[i] for i in sorted(range(len(unit)), key=lambda i: ranked[i])[:starts]]
    if found:
        best = min(found, key=lambda p: p.loss)
        seeds.append(np.clip(box.coordinates(best.values), 1e-3, 1 - 1e-3))
    searches = [partial(descend_in_box, objective=objective, start=start, box=box) for start in seeds]
    found += itertools.chain(*run_in_lockstep(objective.evaluate_points, searches))
    if found:
        found += _follow_threshold(objective, min(found, key=lambda p: p.loss), box)
    return found


def _follow_threshold(objective: Objective, best: Candidate, box: UnitBox) -> list[Candidate]:
    """Walk along the threshold: one free parameter is solved for, the others follow parabolas that grow narrower.

    The descent works with difference quotients and stops where they drown in rounding; this does not use them.
    """
    centre = box.coordinates(best.values)
    free = [j for j in range(len(centre)) if 0 < centre[j] < 1]
    if not 2 <= len(free) <= 4 or abs(best.safety - objective.required) > 1e-4 * abs(objective.required):
        return []
    steps = np.clip(centre + 1e-4 * np.concatenate([np.eye(len(centre))[free], -np.eye(len(centre))[free]]), 0, 1)
    safety = np.array([p.safety for p in objective.evaluate_points(box.values(steps))]).reshape(2, -1)
    held = free[int(np.argmax(np.abs(safety[0] - safety[1])))]
    others = [j for j in free if j != held]
    pattern = np.array(list(itertools.product(range(-3, 4) if len(others) == 1 else (-1, 0, 1), repeat=len(others))))
    quadratic = [(i, j) for i in range(len(others)) for j in range(i, len(others))]
    found: list[Candidate] = []
    for width in 0.02 / 6.0 ** np.arange(5):
        around = np.repeat(centre[None], len(pattern), axis=0)
        around[:, others] = np.clip(centre[others] + width * pattern, 0.0, 1.0)
        solved = run_in_lockstep(
            objective.evaluate_points,
            [partial(_solve_for_threshold, required=objective.required, t=t, held=held, box=box) for t in around],
        )
        good = [p for p in solved if p is not None]
        if len(good) < len(pattern):
            break
        found += objective.allowed_points(good)
        x = (around[:, others] - centre[others]) / width
        terms = [np.ones(len(x)), *x.T, *(x[:, i] * x[:, j] for i, j in quadratic)]
        fit = np.linalg.lstsq(np.stack(terms, axis=1), np.array([p.loss for p in good]), rcond=None)[0]
        slope, bend = fit[1 : 1 + len(others)], np.zeros((len(others), len(others)))
        for (i, j), c in zip(quadratic, fit[1 + len(others) :], strict=True):
            bend[i, j] += c
            bend[j, i] += c
        least = around[int(np.argmin([p.loss for p in good]))].copy()
        if np.all(np.linalg.eigvalsh(bend) > 0):
            step = np.clip(-np.linalg.solve(bend, slope), pattern.min(), pattern.max())
            least[others] = np.clip(centre[others] + width * step, 0.0, 1.0)
        centre = least
    end = _solve_for_threshold(objective.evaluate_points, objective.required, centre, held, box)
    return found + objective.allowed_points([] if end is None else [end])


def _solve_for_threshold(ask: Ask, required: float, t: Array, held: int, box: UnitBox) -> Candidate | None:
    """The point with these coordinates but one, which is solved for so that the threshold is met."""
    point = lambda v: ask(box.values(np.where(np.arange(len(t)) == held, v, t))[None])[0]  # noqa: E731
    gap = lambda v: point(v).safety - required  # noqa: E731
    for width in 1e-3 * 8.0 ** np.arange(5):
        low, high = max(t[held] - width, 0.0), min(t[held] + width, 1.0)
        if np.sign(gap(low)) != np.sign(gap(high)):
            return point(brent_root(gap, low, high, absolute=1e-16))
    return None


def descend_in_box(ask: Ask, objective: Objective, start: Array, box: UnitBox) -> list[Candidate]:
    """Sequential quadratic programming on the unit box, with gradients from one vectorised evaluation."""
    d = len(start)

    def both(t: Array) -> tuple[Array, Array]:
        step = 1e-6
        low, high = np.clip(t - step, 0, 1), np.clip(t + step, 0, 1)
        rows = [t, *(np.where(np.arange(d) == j, end, t) for j in range(d) for end in (low, high))]
        points = ask(box.values(np.array(rows)))
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

    kept = cache(lambda key: both(np.frombuffer(key)))

    def remembered(t: Array) -> tuple[Array, Array]:
        found: tuple[Array, Array] = kept(np.clip(t, 0.0, 1.0).tobytes())
        return found

    result = minimize(
        lambda t: remembered(t)[0][0],
        start,
        jac=lambda t: remembered(t)[1][0],
        bounds=[(0.0, 1.0)] * d,
        constraints={"type": "ineq", "fun": lambda t: remembered(t)[0][1], "jac": lambda t: remembered(t)[1][1]},
        method="SLSQP",
        options={"maxiter": 25, "ftol": 1e-8},
    )
    end = np.clip(result.x, 0.0, 1.0)
    end = np.where(end < 1e-7, 0.0, np.where(end > 1 - 1e-7, 1.0, end))
    values = box.values(end)
    (point,) = ask(values[None])
    if objective.allowed(point):
        return [point]
    # Just outside: go along the free coordinate that moves the intruder most until the threshold is met.
    free = [j for j in range(d) if 0 < end[j] < 1]
    if not free:
        return []
    effect = remembered(end)[1][1]
    j = max(free, key=lambda i: abs(effect[i]))

    def along(x: float) -> Candidate:
        return ask(np.where(np.arange(d) == j, x, values)[None])[0]

    def gap(x: float) -> float:
        return along(x).safety - objective.required

    reach = values[j] * (1 + 1e-3 * np.sign(effect[j])) if np.isfinite(values[j]) else values[j]
    if not np.isfinite(reach) or gap(reach) < 0:
        return []
    return objective.allowed_points([along(brent_root(gap, *sorted((values[j], reach))))])
