"""What is searched: how safe and how useful each mask of a family is, evaluated many at a time and never twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...decide.doubt import degrees_of, quantile
from ...engines import pick
from ...errors import InputError
from ...evaluate import evaluate
from ...maps.rumap import RUMap
from ...maps.scores import Decreasing, as_score
from ...masks.base import Mask, show_number
from ...protocols import Array
from ...users.user import Snooper, User
from .families import Family

__all__ = ["ByMap", "ByUsers", "Point", "Problem", "Source"]


@dataclass(frozen=True)
class Point:
    """Parameter values with what they give."""

    values: tuple[float, ...]
    guard: float
    """How safe: the intruder's uncertainty (or minus the risk), less a margin for its error if confidence is demanded."""
    loss: float
    """The scientist's uncertainty (or minus the utility), to be brought down."""
    guard_error: float = 0.0
    loss_error: float = 0.0


class Source:
    """Where the numbers come from: ``solve`` gives guard, its error, loss and its error of many masks."""

    need: float
    """The guard that meets the threshold."""
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

    def risk_of(self, guard: float) -> float:
        raise NotImplementedError

    def utility_of(self, loss: float) -> float:
        raise NotImplementedError

    def _judged(self, converged: Any, guard: Array) -> Array:
        """What did not converge is never allowed, and no surface goes through it."""
        self.unconverged += int(np.sum(~converged))
        return np.where(converged & ~np.isnan(guard), guard, -np.inf)

    def finish(self) -> None:
        """Refuse what only the whole search can show to be wrong."""


class ByUsers(Source):
    """Both users' uncertainties, straight from their engines; random numbers are the same for every mask."""

    positive = True

    def __init__(
        self, intruder: Any, scientist: Any, limit: float, risk: Any, utility: Any, data: Any, engine: Any, replicates: Any, seed: Any,
        first: Mask,
    ) -> None:  # fmt: skip
        self.degrees = float(replicates - 1) if isinstance(replicates, (int, np.integer)) and replicates > 1 else np.inf
        self.users, self.scores = (intruder, scientist), (as_score(risk), as_score(utility))
        self.data, self.replicates, self.seed, self.engine, self.given = data, replicates, seed, engine, (risk, utility)
        for score, role in zip(self.scores, ("risk", "utility"), strict=True):
            if not hasattr(score, "inverse"):
                raise InputError(
                    f"{role} must be a function of U",
                    score.name,
                    "Pass by=, a function of masks that gives a map of measures",
                )
        self.engines = [pick(engine, user, [first], data) for user in self.users]
        start = [self._one(k, [first]) for k in (0, 1)]
        self.before = tuple(s.before for s in start)
        self.range = np.array([[s.uncertainty[0]] * 2 for s in start])
        """Least and greatest uncertainty seen, of the intruder and of the scientist."""
        score = self.scores[0]
        if limit <= score.lowest:
            raise InputError(
                f"max_risk must be more than {score.lowest:g}", limit, "Give a threshold that the risk can reach"
            )
        if score.relative or isinstance(score, Decreasing):
            score.check(self.range[0], self.before[0], "risk")
        self.need = score.inverse(limit, self.before[0])
        self.evaluations = 1

    def _one(self, k: int, masks: Sequence[Mask]) -> Any:
        return self.engines[k].solve(self.users[k], masks, data=self.data, replicates=self.replicates, seed=self.seed)

    def solve(self, masks: Sequence[Mask]) -> tuple[Array, Array, Array, Array]:
        both = [self._one(k, masks) for k in (0, 1)]
        for k, solution in enumerate(both):
            known = solution.uncertainty[np.isfinite(solution.uncertainty)]
            self.range[k] = known.min(initial=self.range[k, 0]), known.max(initial=self.range[k, 1])
        self.evaluations += len(masks)
        good = np.ones(len(masks), dtype=bool)
        for solution in both:
            good &= np.asarray(solution.diagnostics.get("converged", good), dtype=bool)
        return self._judged(good, both[0].uncertainty), both[0].error, both[1].uncertainty, both[1].error

    def map(self, masks: Sequence[Mask]) -> RUMap:
        return evaluate(
            masks, intruder=self.users[0], scientist=self.users[1], data=self.data, engine=self.engine,
            replicates=self.replicates, seed=self.seed, risk=self.given[0], utility=self.given[1],
        )  # fmt: skip

    def risk_of(self, guard: float) -> float:
        return float(self.scores[0](guard, self.before[0]))

    def utility_of(self, loss: float) -> float:
        return float(self.scores[1](loss, self.before[1]))

    def finish(self) -> None:
        # A function need not fall outside of the uncertainties that the family can give.
        for score, seen, before, role in zip(self.scores, self.range, self.before, ("risk", "utility"), strict=True):
            if isinstance(score, Decreasing):
                score.check(seen, before, role)


class ByMap(Source):
    """Risk and utility of a map that a function of masks gives: measures, panels of users, anything."""

    positive = False

    def __init__(self, function: Callable[[Sequence[Mask]], RUMap], limit: float) -> None:
        self.function, self.need = function, -limit

    def solve(self, masks: Sequence[Mask]) -> tuple[Array, Array, Array, Array]:
        rumap = self.map(masks)
        self.evaluations += len(masks)
        self.degrees = degrees_of(rumap)
        spread = [np.nan_to_num(e, nan=0.0) for e in (rumap.risk_error, rumap.utility_error)]
        return self._judged(rumap.converged, -rumap.risk), spread[0], -rumap.utility, spread[1]

    def map(self, masks: Sequence[Mask]) -> RUMap:
        rumap = self.function(list(masks))
        if not isinstance(rumap, RUMap) or len(rumap) != len(masks):
            got = f"{len(rumap)} releases for {len(masks)} masks" if isinstance(rumap, RUMap) else type(rumap).__name__
            raise InputError(
                "by must give a map with one release per mask",
                got,
                "Write by=lambda masks: ruv.measure(data, masks, ...)",
            )
        return rumap

    def risk_of(self, guard: float) -> float:
        return -guard

    def utility_of(self, loss: float) -> float:
        return -loss


def as_source(
    by: Any, intruder: Any, scientist: Any, limit: float, risk: Any, utility: Any, data: Any, engine: Any, replicates: Any, seed: Any,
    first: Mask,
) -> Source:  # fmt: skip
    """The source that these arguments of `optimise` describe."""
    if by is not None:
        given = {"intruder": intruder, "scientist": scientist, "data": data, "replicates": replicates}
        clash = [n for n, v in given.items() if v is not None]
        usual = (("risk", risk, "reciprocal"), ("utility", utility, "reciprocal"), ("engine", engine, "auto"))
        clash += [n for n, v, default in usual if not (isinstance(v, str) and v == default)]
        if clash or not callable(by):
            got = f"by and {', '.join(clash)}" if clash else by
            raise InputError(
                "by is a function of masks that gives a map, instead of users",
                got,
                "Write by=lambda masks: ruv.measure(...)",
            )
        return ByMap(by, limit)
    for name, user in (("intruder", intruder), ("scientist", scientist)):
        if user is None:
            raise InputError(
                f"optimise needs an {name}" if name[0] == "i" else f"optimise needs a {name}",
                None,
                f"Give {name}=, or by=",
            )
    settings = (data, engine, replicates, seed)
    if isinstance(intruder, (User, Snooper)) and isinstance(scientist, (User, Snooper)):
        return ByUsers(intruder, scientist, limit, risk, utility, *settings, first)

    def mapped(masks: Sequence[Mask]) -> RUMap:
        return evaluate(
            masks, intruder=intruder, scientist=scientist, data=data, engine=engine,
            replicates=replicates, seed=seed, risk=risk, utility=utility,
        )  # fmt: skip

    return ByMap(mapped, limit)


class Problem:
    """A family and a source: points of the family, evaluated many at a time."""

    def __init__(self, family: Family, source: Source, confidence: float | None = None) -> None:
        self.family, self.source = family, source
        self.names, self.box = list(family.names), list(family.box)
        self.need, self.confidence = source.need, confidence
        self.coarse: list[Point] = []
        self.safest = Point(tuple(low for low, _ in self.box), -np.inf, np.inf)
        self.errors = False
        self._seen: dict[Any, tuple[float, ...]] = {}

    @property
    def margin(self) -> float:
        """How many standard errors the intruder's side must keep from the threshold."""
        return 0.0 if self.confidence is None else quantile(self.confidence, self.source.degrees)

    def label(self, values: Sequence[float]) -> str:
        shown = [f"{n} = {show_number(float(v))}" for n, v in zip(self.names, values, strict=True)]
        return ", ".join([*shown, *(f"{n} = {v}" for n, v in self.family.fixed.items())])

    def points(self, values: Any) -> list[Point]:
        """Evaluate many parameter vectors at once; a mask that was seen before is not evaluated again."""
        masks = [self.family.mask(v) for v in values]
        keys = [(m.family, m.numbers) for m in masks]
        new = {k: m for k, m in zip(keys, masks, strict=True) if k not in self._seen}
        if new:
            rows = self.source.solve(list(new.values()))
            self.errors |= bool(np.any(rows[1]) or np.any(rows[3]))
            self._seen |= {k: tuple(map(float, row)) for k, *row in zip(new, *rows, strict=True)}
        found, margin = [], self.margin
        for v, key in zip(values, keys, strict=True):
            guard, guard_error, loss, loss_error = self._seen[key]
            found.append(Point(tuple(map(float, v)), guard - margin * guard_error, loss, guard_error, loss_error))
        best = max(found, key=lambda p: p.guard)
        if best.guard > self.safest.guard or len(self._seen) == 1:
            self.safest = best
        return found

    def allowed(self, point: Point) -> bool:
        return point.guard >= self.need - 1e-12 * abs(self.need)

    def half_way(self, j: int, grid: Any) -> float:
        """How far above its lower bound a parameter takes the intruder half the way: its natural unit.

        Where the bounds are finite and the way is not at their far low end, half of the range will do.
        """
        low, high = self.box[j]
        plain = (high - low) / 2 if np.isfinite(high) else 1.0
        values = np.tile([b[0] for b in self.box], (len(grid), 1))
        values[:, j] = grid
        guard = np.array([p.guard for p in self.points(values)])
        if not np.isfinite(guard[-1]) or guard[-1] <= guard[0]:
            return plain
        middle = int(np.argmax(guard >= (guard[0] + guard[-1]) / 2))
        found = float(grid[max(middle, 1)] - low)
        if not np.isfinite(found):
            return plain
        return plain if np.isfinite(high) and found > 0.02 * (high - low) else found
