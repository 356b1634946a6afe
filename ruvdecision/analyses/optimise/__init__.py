"""The best parameter values of families of masks under a risk threshold, on a continuum instead of a grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Unpack

import numpy as np
import pandas as pd

from ...checks import as_seed_sequence, check_choice, check_integer, check_kind, check_number, show_setting
from ...decide.probability import error_cdf
from ...engines.base import Progress, progress_of_part
from ...errors import InfeasibleError, InputError
from ...evaluate import Setting, check_setting
from ...maps.rumap import RUMap
from ...maps.show import Sentence
from ...masks.base import Mask
from ...running.progress import Bar
from ...users.panel import Role
from .families import FamilyLike, MaskFamily, as_families
from .objective import Candidate, MapEvaluator, Objective, as_evaluator
from .search import search_exactly
from .surface import has_jumps, search_surface

__all__ = ["Contender", "MaskFamily", "Optimum", "Search", "optimise"]

PASSED = ("data", "engine", "replicates", "seed", "risk", "utility")
"""Arguments of `evaluate` that `optimise` passes on."""


@dataclass(frozen=True)
class Search:
    """How `optimise` searches.

    Parameters
    ----------
    method : "auto", "exact" or "surface"
        Roots and slopes, surfaces, or by a look at the objective.
    starts : int, default 8
        Starting points inside the box for families of several parameters.
    evaluations : int, optional
        How many masks the surfaces may ask for, per family (30 for each parameter, and 30).
    """

    method: str = "auto"
    starts: int = 8
    evaluations: int | None = None

    def __post_init__(self) -> None:
        check_choice("method", self.method, ["auto", "exact", "surface"])
        check_integer("starts", self.starts, low=1)
        if self.evaluations is not None:
            check_integer("evaluations", self.evaluations, low=10)
            if self.method == "exact":
                raise InputError("evaluations is what surfaces may ask for", 'method="exact"', "Leave one of them out")


def optimise(
    family: FamilyLike | Mapping[str, FamilyLike] | Sequence[FamilyLike],
    *,
    max_risk: float,
    intruder: Role | None = None,
    scientist: Role | None = None,
    evaluator: Callable[[list[Mask]], RUMap] | None = None,
    confidence: float | None = None,
    search: Search | None = None,
    progress: bool | None = None,
    **setting: Unpack[Setting],
) -> Optimum:
    """Find the mask with the greatest utility whose risk is at most ``max_risk``, over one family of masks or several.

    Where the objective is exact, or averaged over common random numbers and smooth, one parameter is solved by
    bracketed roots and bounded searches on a grid that spans twenty decades; with several, every edge of the box is
    solved in the same way (the optimum often lies on one) and the inside by constrained optimisation from several
    starts. Where it jumps from one mask to the next (samplers, counts, ranks) smooth surfaces are fitted to evaluated
    masks and refined around the optimum.

    Parameters
    ----------
    family : callable, MaskFamily, or a mapping or list of them and of masks
        Gives a mask for parameter values: ``lambda variance: ruv.Noise(variance=variance) | average``, where each
        parameter lies in (0, inf); a `MaskFamily` says otherwise, ``MaskFamily(ruv.Noise, variance=(0.1, 10))``. Of
        several families the one with the most useful best release wins; a mask is a family without parameters.
    max_risk : float
        The risk that may not be exceeded, on the scale of ``risk``.
    intruder, scientist : User, Snooper or Panel
        The two users.
    evaluator : callable, optional
        A function of a list of masks that gives their map, instead of users: ``lambda masks: ruv.measure(data, masks,
        measures=..., replicates=20, seed=1)``. Give it a fixed seed, so that masks share their random numbers.
    confidence : float, optional
        Demand that the risk truly meets the threshold with this probability, given the error of the average.
    search : Search, optional
        Method, number of starts and number of evaluations.
    progress : bool, optional
        Show a progress bar on standard error; by default on a terminal, and only for work that takes a while.
    **setting
        ``data``, ``engine``, ``replicates``, ``seed`` (0 if not given), ``risk`` and ``utility``, as for `evaluate`.

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
    families, many = as_families(family)
    limit = check_number("max_risk", max_risk)
    check_setting(setting, PASSED)
    do = 'Write search=ruv.analyses.Search("exact")'
    how = Search() if search is None else check_kind("search", search, Search, do)
    if confidence is not None:
        confidence = check_number("confidence", confidence, low=0.5, high=1, open_high=True)
    setting["seed"] = root = as_seed_sequence(setting.get("seed", 0))
    found: list[Contender] = []
    what = f"Searching {sum(map(len, families.values()))} families" if many else "Searching the family"
    with Bar(what, progress) as bar:
        for k, (name, parts) in enumerate(families.items()):
            numbers = as_evaluator(evaluator, intruder, scientist, limit, parts[0].lowest, setting)
            best: list[Optimum] = []
            missed: list[_NoneAllowed] = []
            for i, part in enumerate(parts):
                watch = progress_of_part(bar.update, k * len(parts) + i, len(parts) * len(families))
                try:
                    best.append(_optimise_part(Objective(part, numbers, confidence), how, root, watch))
                except _NoneAllowed as error:
                    missed.append(error)
            numbers.check_whole_search()
            nearest = min(missed, key=lambda m: m.least, default=None)
            if not best and not many and nearest is not None:
                raise InfeasibleError(nearest.what, nearest.got, nearest.do)
            won = min(best, key=_utility_then_risk, default=None)
            if won is not None:
                total = sum(o.grid for o in best)
                won = replace(won, family=name if many else "", grid=total, evaluations=numbers.evaluations)
            found.append(Contender(name, won, "" if won is not None else str(nearest)))
    found.sort(key=lambda c: (np.inf, 0.0) if c.optimum is None else _utility_then_risk(c.optimum))
    result = found[0].optimum
    if result is None:
        reasons = "; ".join(f"{c.family}: {c.reason}" for c in found)
        do = "Raise max_risk, widen the bounds or add a family"
        raise InfeasibleError(f"No mask of any family has risk {limit:g} or less", reasons, do)
    return replace(result, contenders=tuple(found)) if many else result


def _utility_then_risk(optimum: Optimum) -> tuple[float, float]:
    """The most useful first, and of equally useful ones the safest."""
    return -optimum.utility, optimum.risk


class _NoneAllowed(InfeasibleError):
    """No mask of a part of a family is allowed; ``least`` is the least risk that was found."""

    least: float = np.inf


def _optimise_part(
    objective: Objective, search: Search, root: np.random.SeedSequence, on_progress: Progress
) -> Optimum:
    """The best mask of one part of a family."""
    evaluator, names = objective.evaluator, objective.names
    limit = evaluator.max_risk
    moved: dict[str, float] = {}
    way = search.method if names else "exact"
    if way == "auto":
        objective.evaluate_points(np.array([[low for low, _ in objective.box]]))
        noisy = objective.errors or isinstance(evaluator, MapEvaluator)
        way = "surface" if noisy and has_jumps(objective) else "exact"
    if not names:
        found = objective.evaluate_points(np.empty((1, 0)))
        objective.coarse = objective.allowed_points(found)
    elif way == "surface":
        found, moved = search_surface(objective, root, search.evaluations, on_progress)
    else:
        found = search_exactly(objective, search.starts, root)
    best = objective.best(found)
    if best is None:
        raise _why_none(objective, limit)
    row = evaluator.map([objective.part.mask(best.values)])[0]
    size = abs(objective.required)
    near = 1e-7 * size if way == "exact" else max(2 * best.safety_error, 1e-3 * size)
    binding = ["max_risk"] if abs(best.safety - objective.required) <= near else []
    for name, value, (low, high) in zip(names, best.values, objective.box, strict=True):
        if value in (low, high):
            binding.append(f"{name} at its {'lower' if value == low else 'upper'} bound")
    if way == "exact" and best.safety_error > 0 and names:
        moved = _error_of_optimum(objective, best, root) if "max_risk" in binding else dict.fromkeys(names, 0.0)
    on_grid = min((p.loss for p in objective.coarse), default=np.inf)
    gain = evaluator.utility_of(best.loss) - evaluator.utility_of(on_grid) if np.isfinite(on_grid) else float("nan")
    chance = 1.0
    if best.safety_error > 0:
        raw = best.safety + objective.margin * best.safety_error
        chance = float(error_cdf((raw - objective.required) / best.safety_error, evaluator.degrees))
    return Optimum(
        mask=row.mask,
        release=row.release,
        parameters={**dict(zip(names, map(float, best.values), strict=True)), **(objective.part.fixed or {})},
        risk=row.risk,
        utility=row.utility,
        intruder_uncertainty=row.intruder_uncertainty,
        scientist_uncertainty=row.scientist_uncertainty,
        max_risk=limit,
        binding=tuple(binding),
        gap=max(gain, 0.0) if gain == gain else gain,
        grid=len(objective.coarse),
        evaluations=evaluator.evaluations,
        risk_error=row.risk_error,
        utility_error=row.utility_error,
        parameters_error=moved,
        meets=chance,
        method=way,
        unconverged=evaluator.unconverged,
    )


def _why_none(objective: Objective, limit: float) -> _NoneAllowed:
    """Why no mask of a part of a family is allowed."""
    evaluator, safest = objective.evaluator, objective.safest
    if np.isneginf(safest.safety) and evaluator.unconverged:
        got = f"{evaluator.unconverged} that did not"
        return _NoneAllowed("No release that was tried has converged", got, "Sample longer")
    demanded = " with the confidence demanded" if objective.margin and objective.errors else ""
    least = evaluator.risk_of(safest.safety)
    what = f"No mask of the family has risk {limit:g} or less{demanded}"
    got = f"at least {least:.6g}, at {objective.label(safest.values) or 'its only mask'}"
    error = _NoneAllowed(what, got, "Raise max_risk, widen the bounds or use another family")
    error.least = least
    return error


def _error_of_optimum(objective: Objective, best: Candidate, root: np.random.SeedSequence) -> dict[str, float]:
    """Half the way that the optimum goes when the intruder's side errs by one standard error to either side."""
    ends: list[tuple[float, ...]] = []
    required, coarse = objective.required, list(objective.coarse)
    for side in (-1, 1):
        objective.required = required + side * best.safety_error
        end = objective.best(search_exactly(objective, 1, root))
        ends.append((np.inf,) * len(objective.names) if end is None else end.values)
    objective.required, objective.coarse = required, coarse
    return objective.half_distance(ends)


@dataclass(frozen=True)
class Contender:
    """One family of several: its best release, or why it has none."""

    family: str
    optimum: Optimum | None
    reason: str = ""


@dataclass(frozen=True, repr=False)
class Optimum(Sentence):
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
    risk_error, utility_error : float
        Standard errors; zero where the objective is exact.
    parameters_error : mapping
        How far each parameter moves when the intruder's side errs by one standard error; zero where it is exact or
        where the threshold does not bind.
    meets : float
        Probability that the risk truly meets the threshold.
    method : str
        ``"exact"`` (roots and slopes) or ``"surface"`` (smooth surfaces through noisy values).
    family : str
        The family's name, where several were searched.
    contenders : tuple of Contender
        The best of every family, where several were searched, the winner first.
    unconverged : int
        How many of the evaluated releases did not converge; they are never chosen.
    """

    mask: Mask
    release: str
    parameters: Mapping[str, object]
    risk: float
    utility: float
    intruder_uncertainty: float
    scientist_uncertainty: float
    max_risk: float
    binding: tuple[str, ...]
    gap: float
    grid: int
    evaluations: int
    risk_error: float = 0.0
    utility_error: float = 0.0
    parameters_error: Mapping[str, float] = field(default_factory=dict)
    meets: float = 1.0
    method: str = "exact"
    family: str = ""
    contenders: tuple[Contender, ...] = ()
    unconverged: int = 0

    def to_dataframe(self) -> pd.DataFrame:
        """One row per family that was searched, the best one first."""
        rows = []
        for one in self.contenders or (Contender(self.family, self),):
            best = vars(one.optimum) if one.optimum is not None else {"release": ""}
            numbers = ("risk", "risk_error", "utility", "utility_error", "meets")
            found = {n: best.get(n, float("nan")) for n in numbers}
            rows.append({"family": one.family, "release": best["release"], **found, "remark": one.reason})
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        def shown(value: object, error: float) -> str:
            text = show_setting(value) if isinstance(value, float) else str(value)
            return text + (f" ± {error:.2g}" if error > 0 else "")

        errors = self.parameters_error
        values = ", ".join(f"{name} = {shown(v, errors.get(name, 0.0))}" for name, v in self.parameters.items())
        holds = " and ".join(self.binding) if self.binding else "nothing"
        risk, utility = shown(f"{self.risk:.6g}", self.risk_error), shown(f"{self.utility:.6g}", self.utility_error)
        head = f"Best of {self.family}" if self.contenders else "Best of the family"
        text = (
            f"{head}: {self.release}{f' ({values})' if values else ''}, "
            f"risk {risk} (threshold {self.max_risk:g}), utility {utility}; "
            f"binding: {holds}; {self.gap:.3g} above the best of {self.grid} grid points"
        )
        if self.meets < 0.995:
            text += f"; it truly meets the threshold with probability {self.meets:.2g}"
        if self.unconverged:
            text += f"; {self.unconverged} of {self.evaluations} releases did not converge and were left out"
        second = self.contenders[1] if len(self.contenders) > 1 else None
        if second is not None and second.optimum is not None:
            text += f"; the next family is {second.family} with utility {second.optimum.utility:.6g}"
        return text + "."
