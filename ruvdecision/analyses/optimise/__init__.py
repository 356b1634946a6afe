"""The best parameter values of families of masks under a risk threshold, on a continuum instead of a grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtr, stdtr

from ...checks import Seed, as_seed_sequence, check_choice, check_integer, check_number
from ...errors import InfeasibleError, InputError
from ...masks.base import Mask
from ...protocols import Engine
from ...running.progress import Bar
from ...users.panel import Panel
from ...users.user import Snooper, User
from .families import Family, as_families
from .optimum import Contender, Optimum
from .problem import ByMap, Point, Problem, as_source
from .search import line, several
from .surface import is_rough, search_surface

__all__ = ["Contender", "Optimum", "optimise"]


def optimise(
    family: Callable[..., Mask] | Mapping[str, Any] | Sequence[Any],
    *,
    max_risk: float,
    intruder: User | Snooper | Panel | None = None,
    scientist: User | Snooper | Panel | None = None,
    by: Callable[[list[Mask]], Any] | None = None,
    bounds: Mapping[str, Any] | None = None,
    risk: Any = "reciprocal",
    utility: Any = "reciprocal",
    data: Any = None,
    engine: Engine | str = "auto",
    replicates: int | None = None,
    seed: Seed = 0,
    starts: int = 8,
    confidence: float | None = None,
    method: str = "auto",
    evaluations: int | None = None,
    progress: bool | None = None,
) -> Optimum:
    """Find the mask with the greatest utility whose risk is at most ``max_risk``, over one family of masks or several.

    Where the objective is exact, or averaged over common random numbers and smooth, one parameter is solved by bracketed roots and
    bounded searches on a grid that spans twenty decades; with several, every edge of the box is solved in the same way (the
    optimum often lies on one) and the inside by constrained optimisation from several starts. Where it jumps from one mask to
    the next (samplers, counts, ranks) smooth surfaces are fitted to evaluated masks and refined around the optimum.

    Parameters
    ----------
    family : callable, or a mapping or list of callables and masks
        Gives a mask for parameter values: ``lambda variance: ruv.Noise(variance=variance) | average``. Of several families the one
        with the most useful best release wins; a mask is a family without parameters.
    max_risk : float
        The risk that may not be exceeded, on the scale of ``risk``.
    intruder, scientist : User or Snooper
        The two users.
    by : callable, optional
        A function of a list of masks that gives their map, instead of users: ``lambda masks: ruv.measure(data, masks, measures=...,
        replicates=20, seed=1)``. Give it a fixed seed, so that masks share their random numbers.
    bounds : mapping, optional
        Range of each parameter, (low, high); (0, inf) where not given. The upper bound may be infinite, and the mask must
        then accept it: infinite noise is suppression. A ``range``, a set or a list of three or more lists the values
        that a parameter may take (whole numbers, names); every combination is searched. With several families either
        one mapping for all, or one per family under its name.
    risk, utility, data, engine, replicates, seed
        As for `evaluate`.
    starts : int, default 8
        Starting points inside the box for families of several parameters.
    confidence : float, optional
        Demand that the risk truly meets the threshold with this probability, given the error of the average.
    method : "auto", "exact" or "surface"
        Roots and slopes, surfaces, or by a look at the objective.
    evaluations : int, optional
        How many masks the surfaces may ask for, per family (30 for each parameter, and 30).
    progress : bool, optional
        Show a progress bar on standard error; by default on a terminal, and only for work that takes a while.

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
    families, many = as_families(family, bounds)
    limit = check_number("max_risk", max_risk)
    check_choice("method", method, ["auto", "exact", "surface"])
    starts = check_integer("starts", starts, low=1)
    if evaluations is not None:
        evaluations = check_integer("evaluations", evaluations, low=10)
        if method == "exact":
            raise InputError("evaluations is what surfaces may ask for", 'method="exact"', "Leave one of them out")
    if confidence is not None:
        confidence = check_number("confidence", confidence, low=0.5, high=1, open_high=True)
    root = as_seed_sequence(seed)
    settings = (limit, risk, utility, data, engine, replicates, root)
    found: list[Contender] = []
    with Bar(
        f"Searching {sum(map(len, families.values()))} families" if many else "Searching the family", progress
    ) as bar:
        for k, (name, parts) in enumerate(families.items()):
            best: list[Optimum] = []
            missed: list[InfeasibleError] = []
            source = as_source(by, intruder, scientist, *settings, _lowest(parts[0]))
            for i, part in enumerate(parts):
                share = lambda s, i=i, k=k, parts=parts: bar.tell((k + (i + s) / len(parts)) / len(families))  # noqa: E731
                problem = Problem(part, source, confidence)
                try:
                    best.append(_solve(problem, limit, method, starts, root, evaluations, share))
                except InfeasibleError as error:
                    missed.append(error)
            source.finish()
            if not best and not many:
                raise min(missed, key=lambda e: getattr(e, "least", np.inf))
            won = min(best, key=lambda o: (-o.utility, o.risk)) if best else None
            if won is not None:
                won = replace(
                    won, family=name if many else "", grid=sum(o.grid for o in best), evaluations=source.evaluations
                )
            reason = "" if won is not None else str(min(missed, key=lambda e: getattr(e, "least", np.inf)))
            found.append(Contender(name, won, reason))
    winners = [c for c in found if c.optimum is not None]
    if not winners:
        raise InfeasibleError(
            f"No mask of any family has risk {limit:g} or less",
            "; ".join(f"{c.family}: {c.reason}" for c in found),
            "Raise max_risk, widen the bounds or add a family",
        )
    ranked = sorted(winners, key=lambda c: (-c.optimum.utility, c.optimum.risk))  # type: ignore[union-attr]
    result = ranked[0].optimum
    assert result is not None
    return replace(result, contenders=(*ranked, *(c for c in found if c.optimum is None))) if many else result


def _solve(
    problem: Problem,
    limit: float,
    method: str,
    starts: int,
    root: Any,
    evaluations: int | None,
    tell: Callable[[float], Any],
) -> Optimum:
    """The best mask of one family with all listed values fixed."""
    source, names = problem.source, problem.names
    moved: dict[str, float] = {}
    if not names:
        found = problem.points(np.empty((1, 0)))
        problem.coarse = [p for p in found if problem.allowed(p)]
        way = "exact"
    else:
        way = method
        if method == "auto":
            problem.points(np.array([[low for low, _ in problem.box]]))
            noisy = problem.errors or isinstance(source, ByMap)
            way = "surface" if noisy and is_rough(problem) else "exact"
        if way == "surface":
            found, moved = search_surface(problem, root, evaluations, tell)
        else:
            found = line(problem, {}, names[0]) if len(names) == 1 else several(problem, starts, root)
    best = min((p for p in found if problem.allowed(p)), key=lambda p: (p.loss, -p.guard), default=None)
    if best is None:
        safest = problem.safest
        with_doubt = " with the confidence demanded" if problem.margin and problem.errors else ""
        if np.isneginf(safest.guard) and source.unconverged:
            raise InfeasibleError(
                "No release that was tried has converged", f"{source.unconverged} that did not", "Sample longer"
            )
        error = InfeasibleError(
            f"No mask of the family has risk {limit:g} or less{with_doubt}",
            f"at least {source.risk_of(safest.guard):.6g}, at {problem.label(safest.values) or 'its only mask'}",
            "Raise max_risk, widen the bounds or use another family",
        )
        error.least = source.risk_of(safest.guard)  # type: ignore[attr-defined]
        raise error
    row = source.map([problem.family.mask(best.values)])[0]
    near = 1e-7 * abs(problem.need) if way == "exact" else max(2 * best.guard_error, 1e-3 * abs(problem.need))
    binding = ["max_risk"] if abs(best.guard - problem.need) <= near else []
    for name, value, (low, high) in zip(names, best.values, problem.box, strict=True):
        if value in (low, high):
            binding.append(f"{name} at its {'lower' if value == low else 'upper'} bound")
    if way == "exact" and best.guard_error > 0 and names:
        moved = _moved(problem, best, root) if "max_risk" in binding else dict.fromkeys(names, 0.0)
    on_grid = min((p.loss for p in problem.coarse), default=np.inf)
    gain = source.utility_of(best.loss) - source.utility_of(on_grid) if np.isfinite(on_grid) else float("nan")
    raw = best.guard + problem.margin * best.guard_error
    if best.guard_error > 0:
        z = (raw - problem.need) / best.guard_error
        chance = float(ndtr(z) if np.isinf(source.degrees) else stdtr(source.degrees, z))
    else:
        chance = 1.0
    return Optimum(
        mask=row.mask,
        release=row.release,
        parameters={**dict(zip(names, map(float, best.values), strict=True)), **problem.family.fixed},
        risk=row.risk,
        utility=row.utility,
        intruder_uncertainty=row.intruder_uncertainty,
        scientist_uncertainty=row.scientist_uncertainty,
        max_risk=limit,
        binding=tuple(binding),
        gap=max(gain, 0.0) if gain == gain else gain,
        grid=len(problem.coarse),
        evaluations=source.evaluations,
        risk_error=row.risk_error,
        utility_error=row.utility_error,
        parameters_error=moved,
        meets=chance,
        method=way,
        unconverged=source.unconverged,
    )


def _moved(problem: Problem, best: Point, root: Any) -> dict[str, float]:
    """Half the way that the optimum goes when the intruder's side errs by one standard error to either side."""
    ends = []
    need = problem.need
    coarse = list(problem.coarse)
    for side in (-1, 1):
        problem.need = need + side * best.guard_error
        points = line(problem, {}, problem.names[0]) if len(problem.names) == 1 else several(problem, 1, root)
        fits = [p for p in points if problem.allowed(p)]
        ends.append(min(fits, key=lambda p: (p.loss, -p.guard)).values if fits else (np.inf,) * len(problem.names))
    problem.need, problem.coarse = need, coarse
    return {
        n: float(abs(b - a) / 2) if np.isfinite(a) and np.isfinite(b) else np.inf
        for n, a, b in zip(problem.names, *ends, strict=True)
    }


def _lowest(family: Family) -> Mask:
    return family.mask([low for low, _ in family.box])
