"""What is searched: how safe and how useful each mask of a family is, evaluated many at a time and never twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...checks import check_kind, is_integer, show_setting
from ...decide.probability import degrees_of, quantile
from ...engines.base import Problem, plan_for
from ...engines.solving import check_user
from ...errors import InputError
from ...evaluate import Setting, evaluate
from ...maps.rumap import RUMap
from ...maps.scores import Negative, Score, as_score_of_uncertainty
from ...masks.base import Mask
from ...protocols import Array, Solution, Value
from ...users.panel import Role
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


class Evaluator:
    """Where the numbers come from: safety and loss of many masks, and what they are as risk and utility."""

    required: float
    """The safety that meets the threshold."""
    positive: bool
    """True if the loss is an uncertainty, which is searched on a logarithmic scale."""
    evaluations = 0
    unconverged = 0
    """How many releases did not converge."""
    degrees = np.inf
    """Degrees of freedom of the errors."""
    scores: Sequence[Score] = (Negative(), Negative())
    """What makes risk and utility of safety and loss."""
    before: Sequence[ArrayLike | None] = (None, None)
    """Uncertainties before the release."""

    def __init__(self, max_risk: float) -> None:
        self.max_risk = max_risk

    def safety_loss_and_errors(self, masks: Sequence[Mask]) -> tuple[Array, Array, Array, Array]:
        """Safety, its error, loss and its error of every mask."""
        safety, loss, converged = self.safety_and_loss(masks)
        self.evaluations += len(masks)
        self.unconverged += int(np.sum(~converged))
        # What did not converge is never allowed, and no surface goes through it.
        safe = np.where(converged & ~np.isnan(safety.value), safety.value, -np.inf)
        return safe, safety.error, loss.value, loss.error

    def safety_and_loss(self, masks: Sequence[Mask]) -> tuple[Value, Value, NDArray[np.bool_]]:
        """Safety and loss of every mask, and whether they converged."""
        raise NotImplementedError

    def map(self, masks: Sequence[Mask]) -> RUMap:
        """The same as a map."""
        raise NotImplementedError

    def risk_of(self, safety: float) -> float:
        """The risk that a safety is."""
        return float(self.scores[0](safety, self.before[0]))

    def utility_of(self, loss: float) -> float:
        """The utility that a loss is."""
        return float(self.scores[1](loss, self.before[1]))

    def check_whole_search(self) -> None:
        """Refuse what only the whole search can show to be wrong."""


class UserEvaluator(Evaluator):
    """Both users' uncertainties, straight from their engines; random numbers are the same for every mask."""

    positive = True

    def __init__(
        self, users: tuple[User | Snooper, User | Snooper], max_risk: float, first: Mask, setting: Setting
    ) -> None:
        super().__init__(max_risk)
        self.users, self.setting = users, setting
        replicates = setting.get("replicates")
        self.degrees = float(replicates - 1) if is_integer(replicates) and replicates > 1 else np.inf
        do = "Pass evaluator=, a function of masks that gives a map of measures"
        given = {"risk": setting.get("risk", "reciprocal"), "utility": setting.get("utility", "reciprocal")}
        self.scores = [
            as_score_of_uncertainty(score, f"{role} must be a function of U", do) for role, score in given.items()
        ]
        asked, data = setting.get("engine", "auto"), setting.get("data")
        self.engines = [plan_for(asked, Problem.of(user, [first], data)).choice for user in users]
        start = self._both_uncertainties([first], after_only=False)
        self.before = [s.before for s in start]
        self.range = np.array([[s.uncertainty[0]] * 2 for s in start])
        """Least and greatest uncertainty met so far, of the intruder and of the scientist."""
        score = self.scores[0]
        if max_risk <= score.lowest:
            do = "Give a threshold that the risk can reach"
            raise InputError(f"max_risk must be more than {score.lowest:g}", max_risk, do)
        if score.relative or score.given:
            score.check(self.range[0], self.before[0], "risk")
        self.required = score.inverse(max_risk, self.before[0])
        self.evaluations = 1

    def _both_uncertainties(self, masks: Sequence[Mask], after_only: bool = True) -> list[Solution]:
        data, replicates, seed = (self.setting.get(name) for name in ("data", "replicates", "seed"))
        first = Problem.of(self.users[0], masks, data, replicates=replicates, seed=seed, after_only=after_only)
        # What engines build of the masks is shared by users with one belief.
        problems = [first, first.of_user(self.users[1])]
        return [plan_for(engine, p).run()[0] for engine, p in zip(self.engines, problems, strict=True)]

    def safety_and_loss(self, masks: Sequence[Mask]) -> tuple[Value, Value, NDArray[np.bool_]]:
        both = self._both_uncertainties(masks)
        good = np.ones(len(masks), dtype=bool)
        for met, solution in zip(self.range, both, strict=True):
            known = solution.uncertainty[np.isfinite(solution.uncertainty)]
            met[:] = known.min(initial=met[0]), known.max(initial=met[1])
            good &= np.asarray(solution.diagnostics.get("converged", good), dtype=bool)
        intruder, scientist = (Value(solution.uncertainty, solution.error) for solution in both)
        return intruder, scientist, good

    def map(self, masks: Sequence[Mask]) -> RUMap:
        return evaluate(masks, intruder=self.users[0], scientist=self.users[1], **self.setting)

    def check_whole_search(self) -> None:
        # A function need not fall outside of the uncertainties that the family can give.
        for score, met, before, role in zip(self.scores, self.range, self.before, ("risk", "utility"), strict=True):
            if score.given:
                score.check(met, before, role)


class MapEvaluator(Evaluator):
    """Risk and utility of a map that a function of masks gives: measures, panels of users, anything."""

    positive = False

    def __init__(self, function: Callable[[list[Mask]], RUMap], max_risk: float) -> None:
        super().__init__(max_risk)
        self.function, self.required = function, -max_risk

    def safety_and_loss(self, masks: Sequence[Mask]) -> tuple[Value, Value, NDArray[np.bool_]]:
        rumap = self.map(masks)
        self.degrees = degrees_of(rumap)
        errors = [np.nan_to_num(e, nan=0.0) for e in (rumap.risk_error, rumap.utility_error)]
        return Value(-rumap.risk, errors[0]), Value(-rumap.utility, errors[1]), rumap.converged

    def map(self, masks: Sequence[Mask]) -> RUMap:
        rumap = self.function(list(masks))
        do = "Write evaluator=lambda masks: ruv.measure(data, masks, ...)"
        check_kind("What evaluator gives", rumap, RUMap, do)
        if len(rumap) != len(masks):
            got = f"{len(rumap)} releases for {len(masks)} masks"
            raise InputError("evaluator must give a map with one release per mask", got, do)
        return rumap


def as_evaluator(
    evaluator: Callable[[list[Mask]], RUMap] | None,
    intruder: Role | None,
    scientist: Role | None,
    max_risk: float,
    first: Mask,
    setting: Setting,
) -> Evaluator:
    """How the masks of `optimise` are evaluated; ``first`` is one of them."""
    if evaluator is not None:
        given = {"intruder": intruder, "scientist": scientist, **setting}
        clash = [name for name, value in given.items() if value is not None and name != "seed"]
        if clash or not callable(evaluator):
            what = "evaluator is a function of masks that gives a map, instead of users"
            got = f"evaluator and {', '.join(clash)}" if clash else evaluator
            raise InputError(what, got, "Write evaluator=lambda masks: ruv.measure(...)")
        return MapEvaluator(evaluator, max_risk)
    if intruder is None or scientist is None:
        who = "an intruder" if intruder is None else "a scientist"
        raise InputError(f"optimise needs {who}", None, f"Give {who.split()[1]}=, or evaluator=")
    if not check_user("intruder", intruder).user.members and not check_user("scientist", scientist).user.members:
        return UserEvaluator((cast("User", intruder), cast("User", scientist)), max_risk, first, setting)
    return MapEvaluator(lambda masks: evaluate(masks, intruder=intruder, scientist=scientist, **setting), max_risk)


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
        self._keys: dict[tuple[float, ...], object] = {}
        """What tells masks apart, by their parameter values."""
        self._known: dict[object, tuple[float, ...]] = {}

    @property
    def margin(self) -> float:
        """How many standard errors the intruder's side must keep from the threshold."""
        return 0.0 if self.confidence is None else quantile(self.confidence, self.evaluator.degrees)

    def label(self, values: Sequence[float]) -> str:
        shown = [f"{n} = {show_setting(float(v))}" for n, v in zip(self.names, values, strict=True)]
        return ", ".join([*shown, *(f"{n} = {v}" for n, v in (self.part.fixed or {}).items())])

    def evaluate_points(self, values: Array) -> list[Candidate]:
        """Evaluate many parameter vectors at once; a mask that was evaluated before is not evaluated again."""
        rows = [tuple(map(float, v)) for v in values]
        new: dict[object, Mask] = {}
        for row in rows:
            if row not in self._keys:
                mask = self.part.mask(row)
                self._keys[row] = key = (mask.family, mask.numbers)
                if key not in self._known:
                    new[key] = mask
        if new:
            solved = self.evaluator.safety_loss_and_errors(list(new.values()))
            self.errors |= bool(np.any(solved[1]) or np.any(solved[3]))
            self._known |= {k: tuple(map(float, numbers)) for k, *numbers in zip(new, *solved, strict=True)}
        found, margin = [], self.margin
        for row in rows:
            safety, safety_error, loss, _ = self._known[self._keys[row]]
            found.append(Candidate(row, safety - margin * safety_error, loss, safety_error))
        best = max(found, key=lambda p: p.safety)
        if best.safety > self.safest.safety or len(self._known) == 1:
            self.safest = best
        return found

    def allowed(self, point: Candidate) -> bool:
        return point.safety >= self.required - 1e-12 * abs(self.required)

    def allowed_points(self, points: Sequence[Candidate]) -> list[Candidate]:
        """Those of the points that are allowed."""
        return [p for p in points if self.allowed(p)]

    def best(self, points: Sequence[Candidate]) -> Candidate | None:
        """The most useful of the points that are allowed, or None."""
        return min(self.allowed_points(points), key=lambda p: (p.loss, -p.safety), default=None)

    def half_distance(self, ends: Sequence[Sequence[float] | Array]) -> dict[str, float]:
        """Half the way from one optimum to another, by parameter."""
        return {
            n: float(abs(b - a) / 2) if np.isfinite(a) and np.isfinite(b) else np.inf
            for n, a, b in zip(self.names, *ends, strict=True)
        }

    def natural_unit(self, j: int, grid: Array) -> float:
        """How far above its lower bound a parameter takes the intruder half the way: its natural unit.

        Where the bounds are finite and the way is not at their far low end, half of the range will do.
        """
        low, high = self.box[j]
        plain = (high - low) / 2 if np.isfinite(high) else 1.0
        values = np.tile([b[0] for b in self.box], (len(grid), 1))
        values[:, j] = grid
        safety = np.array([p.safety for p in self.evaluate_points(values)])
        if not np.isfinite(safety[-1]) or safety[-1] <= safety[0]:
            return plain
        middle = int(np.argmax(safety >= (safety[0] + safety[-1]) / 2))
        found = float(grid[max(middle, 1)] - low)
        if not np.isfinite(found):
            return plain
        return plain if np.isfinite(high) and found > 0.02 * (high - low) else found
