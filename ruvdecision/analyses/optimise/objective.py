"""What is searched: how safe and how useful each mask of a family is, evaluated many at a time and never twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from ...decide.probability import degrees_of, quantile
from ...engines.base import Problem, plan_for
from ...errors import InputError
from ...evaluate import Role, Setting, evaluate
from ...maps.rumap import RUMap
from ...maps.scores import Decreasing, as_function
from ...masks.base import Mask, show_number
from ...protocols import Array, Solution
from ...users.user import Snooper, User
from .families import FamilyPart


@dataclass(frozen=True)
class Candidate:
    """Parameter values with what they give."""

    values: tuple[float, ...]
    safety: float
    """The intruder's uncertainty (or minus the risk), less a margin for its error if confidence is demanded."""
    loss: float
    """The scientist's uncertainty (or minus the utility), to be brought down."""
    safety_error: float = 0.0
    loss_error: float = 0.0


class Evaluator:
    """Where the numbers come from: ``solve`` gives safety, its error, loss and its error of many masks."""

    max_risk: float
    required: float
    """The safety that meets the threshold."""
    positive: bool
    """True if the loss is an uncertainty, which is searched on a logarithmic scale."""
    evaluations: int = 0
    unconverged: int = 0
    """How many releases did not converge."""
    degrees: float = np.inf
    """Degrees of freedom of the errors."""

    def solve(self, masks: Sequence[Mask]) -> tuple[Array, Array, Array, Array]:
        raise NotImplementedError

    def map(self, masks: Sequence[Mask]) -> RUMap:
        """The same as a map."""
        raise NotImplementedError

    def risk_of(self, safety: float) -> float:
        raise NotImplementedError

    def utility_of(self, loss: float) -> float:
        raise NotImplementedError

    def _checked(self, converged: NDArray[np.bool_], safety: Array) -> Array:
        """What did not converge is never allowed, and no surface goes through it."""
        self.unconverged += int(np.sum(~converged))
        return np.where(converged & ~np.isnan(safety), safety, -np.inf)

    def finish(self) -> None:
        """Refuse what only the whole search can show to be wrong."""


class UserEvaluator(Evaluator):
    """Both users' uncertainties, straight from their engines; random numbers are the same for every mask."""

    positive = True

    def __init__(
        self, users: tuple[User | Snooper, User | Snooper], max_risk: float, first: Mask, setting: Setting
    ) -> None:
        replicates = setting.get("replicates")
        self.degrees = float(replicates - 1) if isinstance(replicates, (int, np.integer)) and replicates > 1 else np.inf
        self.users, self.max_risk, self.setting = users, max_risk, setting
        self.scores = []
        given = {"risk": setting.get("risk", "reciprocal"), "utility": setting.get("utility", "reciprocal")}
        do = "Pass evaluator=, a function of masks that gives a map of measures"
        for role, score_like in given.items():
            self.scores.append(as_function(score_like, f"{role} must be a function of U", do))
        asked, data = setting.get("engine", "auto"), setting.get("data")
        self.engines = [plan_for(asked, Problem.of(user, [first], data)).choice for user in users]
        start = [self._one(k, [first]) for k in (0, 1)]
        self.before = tuple(s.before for s in start)
        self.range = np.array([[s.uncertainty[0]] * 2 for s in start])
        """Least and greatest uncertainty met so far, of the intruder and of the scientist."""
        score = self.scores[0]
        if max_risk <= score.lowest:
            raise InputError(
                f"max_risk must be more than {score.lowest:g}", max_risk, "Give a threshold that the risk can reach"
            )
        if score.relative or isinstance(score, Decreasing):
            score.check(self.range[0], self.before[0], "risk")
        self.required = score.inverse(max_risk, self.before[0])
        self.evaluations = 1

    def _one(self, k: int, masks: Sequence[Mask]) -> Solution:
        given: dict[str, Any] = {name: self.setting.get(name) for name in ("data", "replicates", "seed")}
        found: Solution = plan_for(self.engines[k], Problem.of(self.users[k], masks, **given)).run()[0]
        return found

    def solve(self, masks: Sequence[Mask]) -> tuple[Array, Array, Array, Array]:
        both = [self._one(k, masks) for k in (0, 1)]
        for k, solution in enumerate(both):
            known = solution.uncertainty[np.isfinite(solution.uncertainty)]
            self.range[k] = known.min(initial=self.range[k, 0]), known.max(initial=self.range[k, 1])
        self.evaluations += len(masks)
        good = np.ones(len(masks), dtype=bool)
        for solution in both:
            good &= np.asarray(solution.diagnostics.get("converged", good), dtype=bool)
        return self._checked(good, both[0].uncertainty), both[0].error, both[1].uncertainty, both[1].error

    def map(self, masks: Sequence[Mask]) -> RUMap:
        return evaluate(masks, intruder=self.users[0], scientist=self.users[1], **self.setting)

    def risk_of(self, safety: float) -> float:
        return float(self.scores[0](safety, self.before[0]))

    def utility_of(self, loss: float) -> float:
        return float(self.scores[1](loss, self.before[1]))

    def finish(self) -> None:
        # A function need not fall outside of the uncertainties that the family can give.
        for score, met, before, role in zip(self.scores, self.range, self.before, ("risk", "utility"), strict=True):
            if isinstance(score, Decreasing):
                score.check(met, before, role)


class MapEvaluator(Evaluator):
    """Risk and utility of a map that a function of masks gives: measures, panels of users, anything."""

    positive = False

    def __init__(self, function: Callable[[list[Mask]], RUMap], max_risk: float) -> None:
        self.function, self.max_risk, self.required = function, max_risk, -max_risk

    def solve(self, masks: Sequence[Mask]) -> tuple[Array, Array, Array, Array]:
        rumap = self.map(masks)
        self.evaluations += len(masks)
        self.degrees = degrees_of(rumap)
        errors = [np.nan_to_num(e, nan=0.0) for e in (rumap.risk_error, rumap.utility_error)]
        return self._checked(rumap.converged, -rumap.risk), errors[0], -rumap.utility, errors[1]

    def map(self, masks: Sequence[Mask]) -> RUMap:
        rumap = self.function(list(masks))
        if not isinstance(rumap, RUMap) or len(rumap) != len(masks):
            got = f"{len(rumap)} releases for {len(masks)} masks" if isinstance(rumap, RUMap) else type(rumap).__name__
            do = "Write evaluator=lambda masks: ruv.measure(data, masks, ...)"
            raise InputError("evaluator must give a map with one release per mask", got, do)
        return rumap

    def risk_of(self, safety: float) -> float:
        return -safety

    def utility_of(self, loss: float) -> float:
        return -loss


def as_evaluator(
    evaluator: Callable[[list[Mask]], RUMap] | None,
    users: dict[str, Role | None],
    max_risk: float,
    first: Mask,
    **setting: Unpack[Setting],
) -> Evaluator:
    """How the masks of `optimise` are evaluated; ``first`` is one of them."""
    if evaluator is not None:
        clash = [n for n, v in {**users, **setting}.items() if v is not None and n != "seed"]
        if clash or not callable(evaluator):
            raise InputError(
                "evaluator is a function of masks that gives a map, instead of users",
                f"evaluator and {', '.join(clash)}" if clash else evaluator,
                "Write evaluator=lambda masks: ruv.measure(...)",
            )
        return MapEvaluator(evaluator, max_risk)
    for name, user in users.items():
        if user is None:
            article = "an" if name == "intruder" else "a"
            raise InputError(f"optimise needs {article} {name}", None, f"Give {name}=, or evaluator=")
    intruder, scientist = users.values()
    if isinstance(intruder, (User, Snooper)) and isinstance(scientist, (User, Snooper)):
        return UserEvaluator((intruder, scientist), max_risk, first, setting)

    def mapped(masks: list[Mask]) -> RUMap:
        assert intruder is not None and scientist is not None
        return evaluate(masks, intruder=intruder, scientist=scientist, **setting)

    return MapEvaluator(mapped, max_risk)


class Objective:
    """A part of a family and an evaluator: points of the family, evaluated many at a time."""

    def __init__(self, part: FamilyPart, evaluator: Evaluator, confidence: float | None = None) -> None:
        self.part, self.evaluator = part, evaluator
        self.names, self.box = list(part.names), list(part.box)
        self.required, self.confidence = evaluator.required, confidence
        self.coarse: list[Candidate] = []
        """Allowed points of the search grid."""
        self.safest = Candidate(tuple(low for low, _ in self.box), -np.inf, np.inf)
        self.errors = False
        self._known: dict[object, tuple[float, ...]] = {}

    @property
    def margin(self) -> float:
        """How many standard errors the intruder's side must keep from the threshold."""
        return 0.0 if self.confidence is None else quantile(self.confidence, self.evaluator.degrees)

    def label(self, values: Sequence[float]) -> str:
        shown = [f"{n} = {show_number(float(v))}" for n, v in zip(self.names, values, strict=True)]
        return ", ".join([*shown, *(f"{n} = {v}" for n, v in (self.part.fixed or {}).items())])

    def points(self, values: Array) -> list[Candidate]:
        """Evaluate many parameter vectors at once; a mask that was evaluated before is not evaluated again."""
        masks = [self.part.mask(v) for v in values]
        keys = [(m.family, m.numbers) for m in masks]
        new = {k: m for k, m in zip(keys, masks, strict=True) if k not in self._known}
        if new:
            rows = self.evaluator.solve(list(new.values()))
            self.errors |= bool(np.any(rows[1]) or np.any(rows[3]))
            self._known |= {k: tuple(map(float, row)) for k, *row in zip(new, *rows, strict=True)}
        found, margin = [], self.margin
        for v, key in zip(values, keys, strict=True):
            safety, safety_error, loss, loss_error = self._known[key]
            found.append(
                Candidate(tuple(map(float, v)), safety - margin * safety_error, loss, safety_error, loss_error)
            )
        best = max(found, key=lambda p: p.safety)
        if best.safety > self.safest.safety or len(self._known) == 1:
            self.safest = best
        return found

    def point(self, values: Array) -> Candidate:
        """Evaluate one parameter vector."""
        return self.points(values[None])[0]

    def allowed(self, point: Candidate) -> bool:
        return point.safety >= self.required - 1e-12 * abs(self.required)

    def allowed_of(self, points: Sequence[Candidate]) -> list[Candidate]:
        """Those of the points that are allowed."""
        return [p for p in points if self.allowed(p)]

    def best(self, points: Sequence[Candidate]) -> Candidate | None:
        """The most useful of the points that are allowed, or None."""
        return min(self.allowed_of(points), key=lambda p: (p.loss, -p.safety), default=None)

    def moved(self, ends: Sequence[Sequence[float] | Array]) -> dict[str, float]:
        """Half the way from one optimum to another, by parameter."""
        return {
            n: float(abs(b - a) / 2) if np.isfinite(a) and np.isfinite(b) else np.inf
            for n, a, b in zip(self.names, *ends, strict=True)
        }

    def half_way(self, j: int, grid: Array) -> float:
        """How far above its lower bound a parameter takes the intruder half the way: its natural unit.

        Where the bounds are finite and the way is not at their far low end, half of the range will do.
        """
        low, high = self.box[j]
        plain = (high - low) / 2 if np.isfinite(high) else 1.0
        values = np.tile([b[0] for b in self.box], (len(grid), 1))
        values[:, j] = grid
        safety = np.array([p.safety for p in self.points(values)])
        if not np.isfinite(safety[-1]) or safety[-1] <= safety[0]:
            return plain
        middle = int(np.argmax(safety >= (safety[0] + safety[-1]) / 2))
        found = float(grid[max(middle, 1)] - low)
        if not np.isfinite(found):
            return plain
        return plain if np.isfinite(high) and found > 0.02 * (high - low) else found
