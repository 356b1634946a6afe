"""The best parameter values of a family of masks under a risk threshold, on a continuum instead of a grid."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize, minimize_scalar

from .checks import Seed, as_seed_sequence, check_number
from .engines import pick
from .errors import InfeasibleError, InputError
from .evaluate import evaluate
from .masks.base import Mask, show_number
from .protocols import Array
from .scores import Decreasing, Score, as_score
from .users import User

__all__ = ["Optimum", "optimise"]

GRID = 121
EDGES = 6
"""Families with at most this many parameters have every edge of their box searched."""


@dataclass(frozen=True)
class Optimum:
    """The best release of a family, with the certificate of the search.

    Attributes
    ----------
    mask, release, parameters
        The mask, its label and the family's parameter values. An infinite noise variance is suppression.
    risk, utility, intruder_uncertainty, scientist_uncertainty : float
        Where it lies on the map.
    binding : tuple of str
        Which constraints hold with equality: "max_risk", and parameters that sit at a bound.
    gap : float
        Utility won over the best feasible point of the search grid; never negative.
    grid : int
        How many points that grid had.
    evaluations : int
        How many releases were evaluated in all.
    """

    mask: Mask
    release: str
    parameters: Mapping[str, float]
    risk: float
    utility: float
    intruder_uncertainty: float
    scientist_uncertainty: float
    max_risk: float
    binding: tuple[str, ...]
    gap: float
    grid: int
    evaluations: int

    def __str__(self) -> str:
        values = ", ".join(f"{k} = {show_number(v)}" for k, v in self.parameters.items())
        holds = " and ".join(self.binding) if self.binding else "nothing"
        return (
            f"Best of the family: {self.release} ({values}), "
            f"risk {self.risk:.6g} (threshold {self.max_risk:g}), utility {self.utility:.6g}; "
            f"binding: {holds}; {self.gap:.3g} above the best of {self.grid} grid points."
        )


def optimise(
    family: Callable[..., Mask],
    *,
    intruder: User,
    scientist: User,
    max_risk: float,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    risk: Any = "reciprocal",
    utility: Any = "reciprocal",
    data: Any = None,
    engine: Any = "auto",
    replicates: int | None = None,
    seed: Seed = 0,
    starts: int = 8,
) -> Optimum:
    """Find the mask of a family with the greatest utility whose risk is at most ``max_risk``.

    With one parameter the boundary of the allowed set is found by a bracketed root and inner optima by a bounded
    search, on a grid that spans twenty decades. With several, every edge of the box is solved in the same way
    (the optimum often lies on one) and the inside by constrained optimisation from several starts.

    Parameters
    ----------
    family : callable
        Gives a mask for parameter values: ``lambda variance: ruv.Noise(variance=variance) | average``.
    intruder, scientist : User
        The two users.
    max_risk : float
        The risk that may not be exceeded, on the scale of ``risk``.
    bounds : dict of (low, high), optional
        Range of each parameter; (0, inf) where not given. The upper bound may be infinite, and the mask must
        then accept it: infinite noise is suppression.
    starts : int, default 8
        Starting points inside the box for families of several parameters.
    risk, utility, data, engine, replicates, seed
        As for `evaluate`.

    Examples
    --------
    >>> import ruvdecision as ruv
    >>> belief = ruv.NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)
    >>> best = ruv.optimise(
    ...     lambda variance: ruv.Noise(variance=variance) | ruv.Microaggregate(groups=1),
    ...     max_risk=0.5,
    ...     intruder=ruv.User(belief, ruv.Record(0), ruv.Quadratic()),
    ...     scientist=ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic()),
    ... )
    >>> round(best.parameters["variance"], 6), best.binding
    (2.08, ('max_risk',))
    """
    names, box = _box(family, bounds)
    score = as_score(risk)
    limit = check_number("max_risk", max_risk)
    if limit <= score.lowest:
        raise InputError(f"max_risk must be more than {score.lowest:g}", max_risk, "Give a threshold that the risk can reach")
    root = as_seed_sequence(seed)
    problem = _Problem(family, names, box, score, limit, intruder, scientist, data, engine, replicates, root)
    if len(names) == 1:
        found = problem.line({}, names[0])
        coarse = problem.coarse
    else:
        found, coarse = _several(problem, starts, root)
    problem.check_scores(score, as_score(utility))
    best = min((p for p in found if problem.allowed(p)), key=lambda p: (p.loss, -p.guard), default=None)
    if best is None:
        safest = problem.safest
        raise InfeasibleError(
            f"No mask of the family has risk {limit:g} or less",
            f"at least {float(score(safest.guard, problem.before)):.6g}, at {problem.label(safest.values)}",
            "Raise max_risk, widen the bounds or use another family",
        )
    rumap = evaluate(
        [problem.mask(best.values)],
        intruder=intruder,
        scientist=scientist,
        data=data,
        engine=engine,
        replicates=replicates,
        seed=root,
        risk=risk,
        utility=utility,
    )
    row = rumap[0]
    binding = ["max_risk"] if abs(best.guard - problem.need) <= 1e-7 * abs(problem.need) else []
    for name, value in zip(names, best.values, strict=True):
        low, high = box[names.index(name)]
        if value in (low, high):
            binding.append(f"{name} at its {'lower' if value == low else 'upper'} bound")
    on_grid = min((p.loss for p in coarse), default=np.inf)
    gain = (
        float(as_score(utility)(best.loss, problem.both_before[1]) - as_score(utility)(on_grid, problem.both_before[1]))
        if np.isfinite(on_grid)
        else float("nan")
    )
    return Optimum(
        mask=row.mask,
        release=row.release,
        parameters=dict(zip(names, map(float, best.values), strict=True)),
        risk=row.risk,
        utility=row.utility,
        intruder_uncertainty=row.intruder_uncertainty,
        scientist_uncertainty=row.scientist_uncertainty,
        max_risk=limit,
        binding=tuple(binding),
        gap=max(gain, 0.0) if gain == gain else gain,
        grid=len(coarse),
        evaluations=problem.evaluations,
    )


@dataclass(frozen=True)
class _Point:
    values: tuple[float, ...]
    guard: float
    """The intruder's uncertainty, to be kept up."""
    loss: float
    """The scientist's uncertainty, to be brought down."""


class _Problem:
    """Both users' uncertainties as functions of the parameters, evaluated many points at a time."""

    def __init__(
        self, family: Any, names: list[str], box: list[tuple[float, float]], score: Score, limit: float,
        intruder: User, scientist: User, data: Any, engine: Any, replicates: int | None, seed: Any,
    ) -> None:  # fmt: skip
        self.family, self.names, self.box = family, names, box
        self.users, self.data, self.replicates, self.seed = (intruder, scientist), data, replicates, seed
        first = [self.mask([low for low, _ in box])]
        self.engines = [pick(engine, user, first, data) for user in self.users]
        start, second = (
            e.solve(u, first, data=data, replicates=replicates, seed=seed) for e, u in zip(self.engines, self.users, strict=True)
        )
        self.before = start.before
        self.both_before = start.before, second.before
        self.range = np.array([[start.uncertainty[0]] * 2, [second.uncertainty[0]] * 2])
        """Least and greatest uncertainty seen, of the intruder and of the scientist."""
        if score.relative or isinstance(score, Decreasing):
            score.check(self.range[0], self.before, "risk")
        self.need = score.inverse(limit, self.before)
        self.evaluations = 1
        self.coarse: list[_Point] = []
        self.safest = _Point(tuple(low for low, _ in box), float(start.uncertainty[0]), np.inf)

    def mask(self, values: Sequence[float]) -> Mask:
        try:
            mask = self.family(**dict(zip(self.names, map(float, values), strict=True)))
        except InputError as error:
            endless = [n for n, v in zip(self.names, values, strict=True) if np.isinf(v)]
            if not endless:
                raise
            raise InputError(error.what, error.got, f"Give {endless[0]} a finite upper bound: bounds={{{endless[0]!r}: (0, 1)}}") from None
        if not isinstance(mask, Mask):
            raise InputError("family must give back a mask", mask, "Write lambda variance: ruv.Noise(variance=variance)")
        return mask

    def label(self, values: Sequence[float]) -> str:
        return ", ".join(f"{n} = {show_number(float(v))}" for n, v in zip(self.names, values, strict=True))

    def points(self, values: Array) -> list[_Point]:
        """Evaluate many parameter vectors at once."""
        masks = [self.mask(v) for v in values]
        both = [
            engine.solve(user, masks, data=self.data, replicates=self.replicates, seed=self.seed).uncertainty
            for engine, user in zip(self.engines, self.users, strict=True)
        ]
        self.evaluations += len(masks)
        found = [_Point(tuple(map(float, v)), float(g), float(u)) for v, g, u in zip(values, *both, strict=True)]
        for i, seen in enumerate(both):
            known = seen[np.isfinite(seen)]
            self.range[i] = known.min(initial=self.range[i, 0]), known.max(initial=self.range[i, 1])
        best = max(found, key=lambda p: p.guard)
        if best.guard > self.safest.guard:
            self.safest = best
        return found

    def check_scores(self, risk: Score, utility: Score) -> None:
        """Refuse a function that does not fall over the uncertainties that the family can give."""
        for score, seen, before, role in zip((risk, utility), self.range, self.both_before, ("risk", "utility"), strict=True):
            if isinstance(score, Decreasing):
                score.check(seen, before, role)

    def allowed(self, point: _Point) -> bool:
        return point.guard >= self.need - 1e-12 * abs(self.need)

    def line(self, fixed: Mapping[str, float], free: str) -> list[_Point]:
        """Candidates along one parameter, the others fixed: ends, crossings of the threshold, inner optima."""
        index = self.names.index(free)
        low, high = self.box[index]

        def at(x: Any) -> Array:
            values = np.empty((np.size(x), len(self.names)))
            for i, name in enumerate(self.names):
                values[:, i] = np.atleast_1d(x) if i == index else fixed[name]
            return values

        grid = _spaced(low, high)
        seen = self.points(at(grid))
        self.coarse += [p for p in seen if self.allowed(p)]
        found = [p for p in seen if self.allowed(p)]
        for (a, p), (b, q) in itertools.pairwise(zip(grid, seen, strict=True)):
            if self.allowed(p) != self.allowed(q):
                x = self._crossing(at, a, b, p, q)
                if x is not None:
                    found.append(self.points(at(x))[0])
        for i in range(1, len(grid) - 1):
            around = seen[i - 1 : i + 2]
            if all(self.allowed(p) for p in around) and around[1].loss < min(around[0].loss, around[2].loss) and np.isfinite(grid[i + 1]):
                inner = minimize_scalar(
                    lambda x: self.points(at(x))[0].loss,
                    bounds=(grid[i - 1], grid[i + 1]),
                    method="bounded",
                    options={"xatol": 1e-12 * (1 + grid[i])},
                )
                found += [p for p in self.points(at(inner.x)) if self.allowed(p)]
        return found

    def _crossing(self, at: Callable[[Any], Array], a: float, b: float, p: _Point, q: _Point) -> float | None:
        """The parameter value at which the intruder's uncertainty meets what is needed."""
        to, back = (lambda x: x), (lambda t: t)
        if np.isinf(b):
            # Towards infinity work in 1/x, where the uncertainty is smooth up to the end.
            to, back = (lambda x: 0.0 if np.isinf(x) else 1.0 / x), (lambda t: np.inf if t == 0 else 1.0 / t)
        gap = lambda t: self.points(at(back(t)))[0].guard - self.need  # noqa: E731
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


def _several(problem: _Problem, starts: int, seed: Any) -> tuple[list[_Point], list[_Point]]:
    """Every edge of the box exactly, and the inside by constrained optimisation from several starts."""
    d = len(problem.names)
    found: list[_Point] = []
    if d <= EDGES:
        for free in range(d):
            others = [i for i in range(d) if i != free]
            for corner in itertools.product((0, 1), repeat=d - 1):
                fixed = {problem.names[i]: problem.box[i][c] for i, c in zip(others, corner, strict=True)}
                found += problem.line(fixed, problem.names[free])
    else:
        for free in range(d):
            fixed = {problem.names[i]: problem.box[i][0] for i in range(d) if i != free}
            found += problem.line(fixed, problem.names[free])
    scales = [_half_way(problem, j) for j in range(d)]
    rng = np.random.default_rng(seed)
    unit = rng.random((max(64, 16 * d), d))
    inside = problem.points(np.array([_outwards(t, problem.box, scales) for t in unit]))
    problem.coarse += [p for p in inside if problem.allowed(p)]
    order = sorted(
        range(len(unit)), key=lambda i: (not problem.allowed(inside[i]), inside[i].loss if problem.allowed(inside[i]) else -inside[i].guard)
    )
    seeds = [unit[i] for i in order[:starts]]
    if found:
        best = min(found, key=lambda p: p.loss)
        seeds.append(np.clip(_inwards(best.values, problem.box, scales), 1e-3, 1 - 1e-3))
    for start in seeds:
        found += _descend(problem, start, scales)
    if found:
        found += _polish(problem, min(found, key=lambda p: p.loss), scales)
    return found, problem.coarse


def _polish(problem: _Problem, best: _Point, scales: list[float]) -> list[_Point]:
    """Walk along the threshold: one free parameter is solved for, the others are searched.

    The descent works with difference quotients and stops where they drown in rounding; this does not use them.
    """
    inside = _inwards(best.values, problem.box, scales)
    free = [j for j in range(len(inside)) if 0 < inside[j] < 1]
    if not 2 <= len(free) <= 4 or abs(best.guard - problem.need) > 1e-4 * abs(problem.need):
        return []

    def at(t: Array) -> _Point:
        return problem.points(np.array([_outwards(t, problem.box, scales)]))[0]

    def moved(j: int, by: float) -> Array:
        t = inside.copy()
        t[j] = np.clip(t[j] + by, 0.0, 1.0)
        return t

    grip = {j: abs(at(moved(j, 1e-4)).guard - at(moved(j, -1e-4)).guard) for j in free}
    held = max(free, key=lambda j: grip[j])
    others = [j for j in free if j != held]
    found: list[_Point] = []

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
            lambda x: loss([x]), bounds=(max(centre - 0.05, 0.0), min(centre + 0.05, 1.0)), method="bounded", options={"xatol": 1e-9}
        )
    else:
        simplex = np.vstack([inside[others], inside[others] + 0.01 * np.eye(len(others))])
        minimize(
            loss, inside[others], method="Nelder-Mead", options={"initial_simplex": simplex, "xatol": 1e-8, "fatol": 1e-15, "maxfev": 250}
        )
    return found


def _descend(problem: _Problem, start: Array, scales: list[float]) -> list[_Point]:
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
        points = problem.points(np.array([_outwards(r, problem.box, scales) for r in rows]))
        guard, loss = np.array([p.guard for p in points]), np.array([p.loss for p in points])
        width = high - low
        values = np.array([np.log(loss[0]) if loss[0] > 0 else -745.0, guard[0] / problem.need - 1.0 if problem.need else guard[0]])
        with np.errstate(all="ignore"):
            slope_loss = (np.log(loss[2::2]) - np.log(loss[1::2])) / width
            slope_guard = (guard[2::2] - guard[1::2]) / width / (problem.need or 1.0)
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
    values = np.array(_outwards(end, problem.box, scales))
    points = problem.points(values[None])
    if problem.allowed(points[0]):
        return points
    # Just outside: go along the free coordinate with the best grip on the intruder until the threshold is met.
    free = [j for j in range(d) if 0 < end[j] < 1]
    if not free:
        return []
    grip = remembered(end)[1][1]
    j = max(free, key=lambda i: abs(grip[i]))
    gap = lambda x: problem.points(np.array([[x if i == j else v for i, v in enumerate(values)]]))[0].guard - problem.need  # noqa: E731
    reach = values[j] * (1 + 1e-3 * np.sign(grip[j])) if np.isfinite(values[j]) else values[j]
    if not np.isfinite(reach) or gap(reach) < 0:
        return []
    x = brentq(gap, *sorted((values[j], reach)), xtol=1e-300, rtol=8.9e-16)
    last = problem.points(np.array([[x if i == j else v for i, v in enumerate(values)]]))
    return [p for p in last if problem.allowed(p)]


# -- coordinates -------------------------------------------------------------------------------------


def _box(family: Any, bounds: Any) -> tuple[list[str], list[tuple[float, float]]]:
    """Names and ranges of the family's parameters."""
    if not callable(family):
        raise InputError("family must be callable", family, "Write lambda variance: ruv.Noise(variance=variance)")
    signature = inspect.signature(family)
    names = [n for n, p in signature.parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.default is p.empty]
    given = dict(bounds or {})
    names += [n for n in given if n in signature.parameters and n not in names]
    unknown = [n for n in given if n not in names]
    if unknown:
        raise InputError(
            "bounds names a parameter that the family does not have", unknown, f"Its parameters are {', '.join(names) or 'none'}"
        )
    if not names:
        raise InputError("family must have at least one parameter", str(signature), "Write lambda variance: ruv.Noise(variance=variance)")
    box = []
    for name in names:
        pair = given.get(name, (0.0, np.inf))
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InputError(f"bounds[{name!r}] must be a pair", pair, "Write (low, high)")
        low = check_number(f"lower bound of {name}", pair[0])
        high = check_number(f"upper bound of {name}", pair[1], infinite=True)
        if not low < high:
            raise InputError(f"The bounds of {name} must rise", pair, "Give low < high")
        box.append((low, high))
    return names, box


def _spaced(low: float, high: float) -> Array:
    """A grid that sees every scale: both ends, and in between geometric steps from the lower end."""
    if np.isfinite(high):
        return np.unique(np.concatenate([np.linspace(low, high, GRID), low + (high - low) * np.geomspace(1e-9, 1, GRID // 3)]))
    return np.concatenate([[low], low + np.geomspace(1e-8, 1e12, 2 * GRID), [np.inf]])


def _half_way(problem: _Problem, j: int) -> float:
    """The parameter value that takes the intruder half the way: the natural unit of an unbounded parameter."""
    low, high = problem.box[j]
    if np.isfinite(high):
        return high - low
    grid = _spaced(low, high)
    values = np.tile([b[0] for b in problem.box], (len(grid), 1))
    values[:, j] = grid
    guard = np.array([p.guard for p in problem.points(values)])
    if not np.isfinite(guard[-1]) or guard[-1] <= guard[0]:
        return 1.0
    middle = int(np.argmax(guard >= (guard[0] + guard[-1]) / 2))
    return float(grid[max(middle, 1)] - low) if np.isfinite(grid[middle]) else 1.0


def _outwards(t: Any, box: Sequence[tuple[float, float]], scales: Sequence[float]) -> list[float]:
    """From the unit box to parameter values; one is the upper bound, also an infinite one."""
    out = []
    for x, (low, high), scale in zip(t, box, scales, strict=True):
        if np.isfinite(high):
            out.append(low + x * (high - low))
        else:
            out.append(np.inf if x >= 1 else low + scale * x / (1 - x))
    return out


def _inwards(values: Any, box: Sequence[tuple[float, float]], scales: Sequence[float]) -> Array:
    out = []
    for v, (low, high), scale in zip(values, box, scales, strict=True):
        if np.isfinite(high):
            out.append((v - low) / (high - low))
        else:
            out.append(1.0 if np.isinf(v) else (v - low) / (scale + v - low))
    return np.array(out)
