"""The database-specific map: noise on the records at hand, against snoopers who know a row or a rank.

Section V of Duncan et al. (2001). Every target and both states of knowledge come from one pass over the simulated
releases; the same standard draws serve every noise variance, scaled. ``method="exact"`` integrates instead, so that
the two can be laid over each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Seed, as_seed_sequence, check_choice, check_flags, check_integer, check_number
from ..engines.rules.clipped_noise import index_error, position_error, scientist_error
from ..engines.rules.losses import sampling_shares
from ..errors import InputError
from ..losses import Quadratic
from ..maps.columns import Labels, tell_apart
from ..maps.rumap import Provenance, RUMap
from ..masks.base import Mask
from ..masks.coarsen import Clip
from ..masks.frame import Frame
from ..masks.noise import Noise
from ..protocols import Array, Value
from ..targets import Maximum, Minimum, Percentile, is_target
from ..users.rules import order_rows
from .curve import check_noise

KNOWLEDGE = ("index", "position")
METHODS = ("simulate", "exact")
TARGETS = (Minimum(), Percentile(0.01), Percentile(0.1), Percentile(0.9), Percentile(0.99), Maximum())
"""The six targets of the paper."""
CHUNK = 40_000
"""Released values that are held at a time, or one release if it is larger: they stay in the processor's cache."""


def empirical(
    data: Any,
    noise_variance: ArrayLike,
    targets: Any = TARGETS,
    knowledge: str | Sequence[str] = KNOWLEDGE,
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
    x = _records(data)
    grid = np.atleast_1d(check_noise(noise_variance)).ravel()
    if grid.size == 0:
        raise InputError(
            "noise_variance must list at least one variance",
            "none",
            "Give noise_variance=np.linspace(0.05, 1, 20) * x.var()",
        )
    wanted = [_Wanted.of(t, x) for t in _listed("targets", targets)]
    if len({w.name for w in wanted}) != len(wanted):
        raise InputError("targets must differ from each other", [w.name for w in wanted], "Name each target once")
    states = [check_choice("knowledge", k, KNOWLEDGE) for k in _listed("knowledge", knowledge)]
    ways = [check_choice("method", m, METHODS) for m in _listed("method", method)]
    for name, several in (("knowledge", states), ("method", ways)):
        if len(set(several)) != len(several):
            raise InputError(f"{name} must list each entry once", several, f"Give {name}={several[0]!r}, for example")
    replicates = check_integer("replicates", replicates, low=1)
    root = as_seed_sequence(seed)
    factor = _factor(where, times, x)
    bounds = None if lower is None and upper is None else Clip(lower=lower, upper=upper)
    _check_inside(x, lower, upper)
    noise = [Noise(variance=float(v) if where is None else v * factor) for v in grid]
    masks: list[Mask] = [n if bounds is None else n | bounds for n in noise]
    case = _Case(x, np.sqrt(grid)[:, None] * np.sqrt(factor), lower, upper, times, wanted, states)
    solved = {m: case.simulate(replicates, root) if m == "simulate" else case.exact() for m in ways}
    return _build(grid, masks, case, solved, replicates, root)


@dataclass(frozen=True)
class _Wanted:
    """A target with its rank among the records and the row in which it stands."""

    name: str
    rank: int
    row: int
    note: str = ""

    @classmethod
    def of(cls, target: Any, x: Array) -> _Wanted:
        named = {"maximum": Maximum(), "minimum": Minimum(), "max": Maximum(), "min": Minimum()}
        if isinstance(target, str):
            target = named.get(target, target)
        elif isinstance(target, (float, np.floating)):
            target = Percentile(float(target))
        if not (is_target(target) and target.ranked):
            raise InputError(
                "A target must be 'maximum', 'minimum', a percentile p or a target with a rank",
                target,
                "Use Maximum(), Minimum(), Percentile(0.99) or OrderStatistic(3)",
            )
        n = len(x)
        rank = target.rank(n)
        assert rank is not None
        return cls(target.label, rank, int(order_rows(x[:, None], rank)[0]), target.note(n))


@dataclass(frozen=True, eq=False)
class _Solved:
    """Uncertainty of each snooper (states, targets, grid) and of the scientist (grid), with their errors."""

    snoopers: Value
    scientist: Value


@dataclass(frozen=True, eq=False)
class _Case:
    """Records, standard deviations of the noise (grid, records or 1), bounds, targets and states of knowledge."""

    x: Array
    deviations: Array
    lower: Any
    upper: Any
    times: float | None
    wanted: list[_Wanted]
    states: list[str]

    def simulate(self, replicates: int, seed: np.random.SeedSequence) -> _Solved:
        """Eqs 12 to 14 from simulated releases."""
        n, size = len(self.x), len(self.deviations)
        rng = np.random.default_rng(seed)
        # Around the mean, so that sums of squares lose no digits.
        centre = float(self.x.mean())
        around, ones = self.x - centre, np.ones(n)
        rows, ranks = np.array([w.row for w in self.wanted]), np.array([w.rank for w in self.wanted]) - 1
        losses = np.empty((len(self.states), size, replicates, len(self.wanted)))
        sums, squares = np.empty((size, replicates)), np.empty((size, replicates))
        step = min(replicates, max(1, CHUNK // n))
        buffer = np.empty((step, n))
        for start in range(0, replicates, step):
            # One stream from the first replicate to the last: the size of a block changes nothing.
            draws = rng.standard_normal((min(step, replicates - start), n))
            block, released = slice(start, start + len(draws)), buffer[: len(draws)]
            for g in range(size):
                np.multiply(draws, self.deviations[g], out=released)
                released += around
                if self.lower is not None:
                    np.maximum(released, self.lower - centre, out=released)
                if self.upper is not None:
                    np.minimum(released, self.upper - centre, out=released)
                sums[g, block] = released @ ones
                squares[g, block] = np.einsum("mn,mn->m", released, released)
                if "index" in self.states:
                    losses[self.states.index("index"), g, block] = released[:, rows]
                if "position" in self.states:  # the last to look, because it sorts
                    losses[self.states.index("position"), g, block] = _at_ranks(released, ranks)
        losses = np.square(losses - around[rows])
        means = sums / n
        moments = np.stack([means, (squares - n * means**2) / ((n - 1) * n)], axis=-1)
        shares, off = sampling_shares(moments, np.zeros(1), Quadratic())
        snoopers, scientist = _mean(np.moveaxis(losses, 3, 1)), _mean(shares)
        return _Solved(snoopers, Value(scientist.value - off, scientist.error))

    def exact(self) -> _Solved:
        """The same by integration."""
        variances = np.broadcast_to(self.deviations**2, (len(self.deviations), len(self.x)))
        snoopers = np.empty((len(self.states), len(self.wanted), len(variances)))
        for s, state in enumerate(self.states):
            for t, w in enumerate(self.wanted):
                if state == "index":
                    snoopers[s, t] = index_error(self.x[w.row], variances[:, w.row], self.lower, self.upper)
                else:
                    snoopers[s, t] = position_error(self.x, variances, w.rank, self.lower, self.upper)
        return _Solved(Value.exact(snoopers), Value.exact(scientist_error(self.x, variances, self.lower, self.upper)))


def _mean(losses: Array) -> Value:
    """Mean over the replicates, the last axis, with its standard error; one replicate has none."""
    count = losses.shape[-1]
    error = losses.std(axis=-1, ddof=1) / np.sqrt(count) if count > 1 else np.full(losses.shape[:-1], np.nan)
    return Value(losses.mean(axis=-1), error)


def _at_ranks(released: Array, ranks: NDArray[np.int64]) -> Array:
    """Order statistics of every release, (replicates, ranks); ``released`` may be sorted."""
    n = released.shape[1]
    if np.all((ranks == 0) | (ranks == n - 1)):
        # No need to sort for the ends.
        return np.stack([released.min(axis=1) if r == 0 else released.max(axis=1) for r in ranks], axis=1)
    released.sort(axis=1)
    return np.asarray(released[:, ranks])


# -- the map -----------------------------------------------------------------------------------------------------


def _build(
    grid: Array, masks: Sequence[Mask], case: _Case, solved: dict[str, _Solved], replicates: int, root: Any
) -> RUMap:
    size, wanted, states = len(grid), case.wanted, case.states
    order = [(t, s, m) for t in range(len(wanted)) for s in range(len(states)) for m in solved]
    names = [f"{wanted[t].name}, {states[s]}" + (f", {m}" if len(solved) > 1 else "") for t, s, m in order]
    texts = tell_apart([f"Noise(variance={v:.10g})" for v in grid])
    repeat = lambda values: np.repeat(np.asarray(values), size)  # noqa: E731
    bounds = {k: v for k, v in (("lower", case.lower), ("upper", case.upper), ("times", case.times)) if v is not None}

    def stacked(pick: Any) -> Value:
        parts = [pick(solved[m], t, s) for t, s, m in order]
        return Value(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]))

    # The masks may hold one boolean per record; what is shown of them does not.
    labels = Labels(
        [f"{name}: {text}" for name in names for text in texts],
        technique=repeat([f"{name}: Noise" for name in names]).tolist(),
        parameters={
            "variance": np.tile(grid, len(order)),
            **{k: np.full(size * len(order), v) for k, v in bounds.items()},
        },
    )
    engines = repeat([{"simulate": "simulated", "exact": "exact"}[m] for _, _, m in order]).tolist()
    return RUMap.build(
        masks=list(masks) * len(order),
        labels=labels,
        intruder=stacked(lambda v, t, s: (v.snoopers.value[s, t], v.snoopers.error[s, t])),
        scientist=stacked(lambda v, t, s: v.scientist),
        provenance=Provenance(engines, tuple(dict.fromkeys(w.note for w in wanted if w.note))),
        columns={
            "target": repeat([wanted[t].name for t, _, _ in order]),
            "knowledge": repeat([states[s] for _, s, _ in order]),
            "method": repeat([m for _, _, m in order]),
            "rank": repeat([wanted[t].rank for t, _, _ in order]),
        },
        attrs={
            "seed": str(root.entropy),
            "replicates": replicates if "simulate" in solved else 0,
            "data": "given",
            "records": len(case.x),
            "intruder": "takes the target's row (index knowledge) or the released value of its rank (position "
            "knowledge)",
            "scientist": "takes the released mean for the population mean (Duncan et al., eqs 13 and 14)",
        },
    )


# -- checks ------------------------------------------------------------------------------------------------------


def _records(data: Any) -> Array:
    values, _ = Frame.of(data).numeric("empirical")
    if values.shape[1] != 1:
        raise InputError(
            "empirical takes one variable", f"{values.shape[1]} columns", 'Pass the column, data["income"]'
        )
    if len(values) < 2:
        raise InputError("empirical needs at least two records", len(values), "Give the whole file")
    return values[:, 0]


def _listed(name: str, value: Any) -> list[Any]:
    several = list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]
    if not several:
        raise InputError(f"{name} must not be empty", "none", f"Leave {name} out for all of them")
    return several


def _check_inside(x: Array, lower: Any, upper: Any) -> None:
    if not all(end is None or np.ndim(end) == 0 for end in (lower, upper)):
        raise InputError("lower and upper must be one number each", [lower, upper], "Write lower=0")
    low, high = (-np.inf if lower is None else lower), (np.inf if upper is None else upper)
    outside = int(np.sum((x < low) | (x > high)))
    if outside:
        raise InputError(
            f"The records must lie between the bounds {low:g} and {high:g}",
            f"{outside} outside",
            "A natural bound holds for the records too: check lower and upper, or use lower=None",
        )


def _factor(where: Any, times: float | None, x: Array) -> Array:
    """What the noise variance is multiplied by, (1,) or one per record."""
    if (where is None) != (times is None):
        # Not the booleans themselves: they say which records are sensitive.
        got = "where alone" if times is None else "times alone"
        raise InputError("where and times go together", got, "Write where=x > 35_000, times=2")
    if where is None:
        return np.ones(1)
    chosen = np.asarray(where(x.copy()) if callable(where) else check_flags("where", where))
    if chosen.shape != x.shape or chosen.dtype != bool:
        raise InputError(
            f"where must have a boolean for each of the {len(x)} records",
            f"shape {chosen.shape} of {chosen.dtype}",
            "Write where=lambda x: x > 35_000",
        )
    return np.where(chosen, check_number("times", times, low=0, open_low=True), 1.0)
