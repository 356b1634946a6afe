"""The database-specific map: noise on the records at hand, against snoopers who know a row or a rank.

Section V of Duncan et al. (2001): a `Snooper` for every target and state of knowledge, and one who is the scientist.
They look at the same simulated releases, made in one pass; the same standard draws serve every noise variance, scaled.
``method="exact"`` integrates instead, so that the two can be laid over each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Data, Seed, as_seed_sequence, as_tuple, check_choice, check_flags, check_integer, check_number
from ..engines.rules.clipped_noise import as_bounds, check_inside
from ..engines.rules.fixed_rule import FixedRule, SnooperWork
from ..engines.rules.source import RecordSource
from ..errors import InputError
from ..losses import Quadratic
from ..maps.columns import Labels, number_duplicates
from ..maps.rumap import Provenance, RUMap
from ..masks.base import Mask
from ..masks.coarsen import Clip
from ..masks.frame import Frame
from ..masks.noise import Noise
from ..protocols import Array, Value
from ..running.replication import replicate_seeds
from ..running.run import seed_attrs
from ..targets import BaseTarget, Maximum, Minimum, Parameter, Percentile, is_target
from ..users.rules import Ranked, Row
from ..users.user import Snooper
from .curve import check_noise

TARGETS = (Minimum(), Percentile(0.01), Percentile(0.1), Percentile(0.9), Percentile(0.99), Maximum())
"""The six targets of the paper."""
CHUNK = 40_000
"""Released values that are held at a time, or one release if it is larger: they stay in the processor's cache."""
TOGETHER = 4
"""Snoopers whose losses are averaged at once."""


def empirical(
    data: Data,
    noise_variance: ArrayLike,
    targets: Any = TARGETS,
    knowledge: str | Sequence[str] = ("index", "position"),
    *,
    lower: float | None = 0.0,
    upper: float | None = None,
    where: Any = None,
    times: float | None = None,
    replicates: int = 200,
    seed: Seed = None,
    method: str | Sequence[str] = "simulate",
) -> RUMap:
    """Map of additive noise on given records, for several targets and states of knowledge.

    The release is Y_i = max(lower, x_i + e_i), e_i ~ N(0, v), eq. 11 (and min(upper, .) with an upper bound). The
    records are fixed; only the noise is random.

    Parameters
    ----------
    data : vector, Series or frame of one column
        The confidential records, at least two, between the bounds.
    noise_variance : array
        The grid of noise variances.
    targets : target or list of them
        "maximum", "minimum", a number p for the sample percentile, or the targets `Maximum()`, `Minimum()`,
        `Percentile(p)` and `OrderStatistic(rank)`. The paper's six if not given. Where n p is not a whole number
        the record of the next rank up, ceil(n p), is used and a note says so.
    knowledge : {"index", "position"} or both
        "index": the snooper knows the target's row and takes it. "position": the snooper knows the target's rank and
        takes the released value of that rank.
    lower, upper : float, optional
        Natural bounds of the release; ``lower=None`` for none.
    where, times : booleans or callable, and a number, optional
        The noise variance is ``times`` as large where ``where`` holds, as for `Noise`: ``where=x > 35_000, times=2``.
    replicates : int, default 200
        Simulated releases for every noise variance, eq. 12.
    seed : int, SeedSequence or Generator, optional
        Root of the random numbers.
    method : {"simulate", "exact"} or both
        "exact" uses truncated-normal moments and the Poisson-binomial law of order statistics. Its work for a rank in
        the middle grows as the square of the number of records.

    Returns
    -------
    RUMap
        One row per target, state of knowledge, method and noise variance, in this order, with columns ``target``,
        ``knowledge``, ``method`` and ``rank``. Errors on both axes are one standard error of the simulation. The
        scientist takes the released mean for the population mean and is valued by eqs 13 and 14, with the variance of
        the mean of means taken off the squared bias, so that the value does not depend on the number of replicates.

    Examples
    --------
    >>> rumap = empirical(
    ...     [2.0, 3.0, 5.0, 9.0], [0.5, 1.0], targets=["maximum", 0.5], seed=1, method=["simulate", "exact"]
    ... )
    >>> len(rumap), rumap.columns["rank"].max().item()
    (16, 4)
    """
    x = _check_records(data)
    grid = np.atleast_1d(check_noise(noise_variance)).ravel()
    if grid.size == 0:
        do = "Give noise_variance=np.linspace(0.05, 1, 20) * x.var()"
        raise InputError("noise_variance must list at least one variance", "none", do)
    wanted = [_as_target(t, len(x)) for t in _check_listed("targets", targets)]
    names = [target.label for target in wanted]
    if len(set(names)) != len(names):
        raise InputError("targets must differ from each other", names, "Name each target once")
    states = [check_choice("knowledge", k, ("index", "position")) for k in _check_listed("knowledge", knowledge)]
    methods = [check_choice("method", m, ("simulate", "exact")) for m in _check_listed("method", method)]
    for name, several in (("knowledge", states), ("method", methods)):
        if len(set(several)) != len(several):
            raise InputError(f"{name} must list each entry once", several, f"Give {name}={several[0]!r}, for example")
    replicates = check_integer("replicates", replicates, low=1)
    root = as_seed_sequence(seed)
    factor = _noise_factor(where, times, x)
    clip = None if lower is None and upper is None else Clip(lower=lower, upper=upper)
    bounds = as_bounds(lower, upper)
    check_inside(x, *bounds)
    noise = [Noise(variance=float(v) if where is None else v * factor) for v in grid]
    masks: list[Mask] = [n if clip is None else n | clip for n in noise]

    curves = [(target, state) for target in wanted for state in states]
    loss = Quadratic()
    snoopers = [Snooper(Row() if state == "index" else Ranked(target), target, loss) for target, state in curves]
    source = RecordSource(len(x), 1, (0,), "vector", x, x[:, None])
    works = [SnooperWork(user, source) for user in (Snooper("mean", Parameter("mu"), loss), *snoopers)]
    solved = {}
    if "simulate" in methods:
        deviations = np.sqrt(grid)[:, None] * np.sqrt(factor)
        solved["simulate"] = _simulated_uncertainties(
            works, deviations, bounds, replicates, next(replicate_seeds(root))[1]
        )
    if "exact" in methods:
        engine = FixedRule(method="exact")
        solved["exact"] = [Value.exact(engine.solve(work.user, masks, data=source.given).uncertainty) for work in works]
    order = [(i, m) for i in range(len(curves)) for m in methods]
    titles = [f"{curves[i][0].label}, {curves[i][1]}" + (f", {m}" if len(methods) > 1 else "") for i, m in order]
    texts = number_duplicates([f"Noise(variance={v:.10g})" for v in grid])
    repeat = lambda values: np.repeat(np.asarray(values), len(grid))  # noqa: E731
    shown = {k: v for k, v in (("lower", lower), ("upper", upper), ("times", times)) if v is not None}
    # The masks may hold one boolean per record; what is shown of them does not.
    labels = Labels(
        [f"{name}: {text}" for name in titles for text in texts],
        technique=repeat([f"{name}: Noise" for name in titles]).tolist(),
        parameters={
            "variance": np.tile(grid, len(order)),
            **{k: np.full(len(grid) * len(order), v) for k, v in shown.items()},
        },
    )
    engines = repeat([{"simulate": "simulated", "exact": "exact"}[m] for _, m in order]).tolist()
    notes = dict.fromkeys(note for target in wanted if (note := target.note(len(x))))
    return RUMap.build(
        masks=masks * len(order),
        labels=labels,
        intruder=Value.joined([solved[m][1 + i] for i, m in order]),
        scientist=Value.joined([solved[m][0] for _, m in order]),
        provenance=Provenance(engines, tuple(notes)),
        columns={
            "target": repeat([curves[i][0].label for i, _ in order]),
            "knowledge": repeat([curves[i][1] for i, _ in order]),
            "method": repeat([m for _, m in order]),
            "rank": repeat([works[1 + i].rank for i, _ in order]),
        },
        attrs={
            **seed_attrs(root),
            "replicates": replicates if "simulate" in solved else 0,
            "data": "given",
            "records": len(x),
            "intruder": "takes the target's row (index knowledge) or the released value of its rank (position "
            "knowledge)",
            "scientist": "takes the released mean for the population mean (Duncan et al., eqs 13 and 14)",
        },
    )


def _simulated_uncertainties(
    works: Sequence[SnooperWork],
    deviations: Array,
    bounds: tuple[float, float],
    replicates: int,
    seed: np.random.SeedSequence,
) -> list[Value]:
    """Eqs 12 to 14 from simulated releases; ``deviations`` are those of the noise, (grid, records or 1).

    All snoopers look at a release while it is in the cache, and one generator serves all replicates. `FixedRule`, which
    takes them one by one, each replicate with a generator of its own, takes longer.
    """
    table = works[0].source.table
    assert table is not None
    # About the records' mean, so that the squares keep their digits.
    centre, rng = table.mean(), np.random.default_rng(seed)
    x, low, high = table[:, 0] - centre, bounds[0] - centre, bounds[1] - centre
    n, size = len(x), len(deviations)
    # Those who take a row first, then those who take a rank, for which a release is sorted.
    order = sorted(range(1, len(works)), key=lambda i: works[i].rule.rank(n) is not None)
    places, truths = (np.array([f(works[i]) for i in order]) for f in (lambda w: w.place, lambda w: w.known_truth[0]))
    by_row = sum(works[i].rule.rank(n) is None for i in order)
    estimates = np.empty((size, replicates, len(places)))
    sums, squares = np.empty((size, replicates)), np.empty((size, replicates))
    step = min(replicates, max(1, CHUNK // n))
    buffer, ones, records = np.empty((step, n)), np.ones(n), np.tile(x, (step, 1))
    for start in range(0, replicates, step):
        # One stream from the first replicate to the last: the size of a block changes nothing.
        draws = rng.standard_normal((min(step, replicates - start), n))
        block, released = slice(start, start + len(draws)), buffer[: len(draws)]
        for g in range(size):
            np.multiply(draws, deviations[g], out=released)
            released += records[: len(draws)]
            released.clip(low, high, out=released)  # a bound of its own would take three times as long
            sums[g, block], squares[g, block] = released @ ones, np.vecdot(released, released)
            estimates[g, block, :by_row] = released.take(places[:by_row], axis=1)
            if by_row < len(places):
                released.sort(axis=1)
                estimates[g, block, by_row:] = released.take(places[by_row:], axis=1)
    variances = (squares - sums**2 / n) / (n * (n - 1))
    moments = np.stack([centre + sums / n, variances], axis=2)
    scientist = works[0]
    found = {0: scientist.average(*scientist.costs(moments, np.empty(0)))}
    # All have the scientist's loss. A few at a time: one by one takes longer, and so do arrays beyond the cache.
    for first in range(0, len(places), TOGETHER):
        some = slice(first, first + TOGETHER)
        taken = np.ascontiguousarray(np.moveaxis(estimates[:, :, some], 2, 0))
        costs = scientist.user.loss.cost(taken, (truths[some] - centre)[:, None, None], False)
        mean = scientist.average(costs.reshape(-1, replicates), 0.0).reshaped(-1, size)
        found.update(zip(order[some], map(Value, *mean), strict=True))
    return [found[i] for i in range(len(works))]


# -- checks ------------------------------------------------------------------------------------------------------


def _as_target(target: Any, n: int) -> BaseTarget:
    """A target with a rank, also by name or as a percentile."""
    named = {"maximum": Maximum(), "minimum": Minimum(), "max": Maximum(), "min": Minimum()}
    if isinstance(target, str):
        target = named.get(target, target)
    elif isinstance(target, (float, np.floating)):
        target = Percentile(float(target))
    if not (is_target(target) and target.is_order_statistic):
        what = "A target must be 'maximum', 'minimum', a percentile p or a target with a rank"
        raise InputError(what, target, "Use Maximum(), Minimum(), Percentile(0.99) or OrderStatistic(3)")
    target.rank(n)
    return target


def _check_records(data: Data) -> Array:
    values, _ = Frame.of(data).numeric("empirical")
    if values.shape[1] != 1:
        got = f"{values.shape[1]} columns"
        raise InputError("empirical takes one variable", got, 'Pass the column, data["income"]')
    if len(values) < 2:
        raise InputError("empirical needs at least two records", len(values), "Give the whole file")
    return values[:, 0]


def _check_listed(name: str, value: Any) -> list[Any]:
    several = list(as_tuple(value))
    if not several:
        raise InputError(f"{name} must not be empty", "none", f"Leave {name} out for all of them")
    return several


def _noise_factor(where: Any, times: float | None, x: Array) -> Array:
    """What the noise variance is multiplied by, (1,) or one per record."""
    if (where is None) != (times is None):
        # Not the booleans themselves: they say which records are sensitive.
        got = "where alone" if times is None else "times alone"
        raise InputError("where and times go together", got, "Write where=x > 35_000, times=2")
    if where is None:
        return np.ones(1)
    chosen = np.asarray(where(x.copy()) if callable(where) else check_flags("where", where))
    if chosen.shape != x.shape or chosen.dtype != bool:
        what = f"where must have a boolean for each of the {len(x)} records"
        raise InputError(what, f"shape {chosen.shape} of {chosen.dtype}", "Write where=lambda x: x > 35_000")
    return np.where(chosen, check_number("times", times, low=0, open_low=True), 1.0)
