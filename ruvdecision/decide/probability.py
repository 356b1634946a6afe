"""Probabilities that follow from a map's errors: to meet a threshold, to be on the frontier, to be the best release.

Assumptions. The error of an average is normal, or Student's t with one degree of freedom less than there were
replicates, if the map says how many. It is taken on the scale of U (or of the measure), where the average was made; a
threshold on the risk is brought to that scale. Errors of different columns are independent. Between releases they are
independent (which makes a frontier the least certain), shared (every release errs in the same direction by the same
number of standard errors, the limit of common random numbers), or correlated by a given amount. Whether one release
meets a threshold does not depend on that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from ..checks import (
    Seed,
    as_generator,
    check_choice,
    check_integer,
    check_kind,
    check_number,
    fixed_seed,
    is_integer,
)
from ..errors import InputError
from ..maps.columns import attr_as_list
from ..maps.rumap import RUMap
from ..maps.show import evenly_spaced
from ..protocols import Array
from .criteria import PLAIN, Columns, Criterion, ExpectedLoss, MostUseful, best_positions, check_map, directions
from .dominance import Marks, minimal_rows, ranks_with_ties, snap_ties

if TYPE_CHECKING:
    import pandas as pd

CHUNK = 2_000_000
"""Numbers that are drawn at a time."""
MANY = 4096
"""Of more releases than this only those are drawn that can matter."""
SURELY = 1e-15
"""An error that is exceeded with less than this probability does not come."""
PIVOTS = 64
"""Releases that others are held against before anything is drawn."""


@dataclass(frozen=True)
class Errors:
    """How errors of releases are correlated, as common random numbers make them, and how often they are drawn.

    Parameters
    ----------
    correlation : "independent", "shared" or a number from 0 to 1
        Correlation between the errors of two releases in one column.
    draws : int, default 2000
        How often the map is drawn anew; a probability p is then known to within sqrt(p (1 - p) / draws).
    seed : int, SeedSequence or Generator
        Where the draws come from.
    """

    correlation: str | float = "independent"
    draws: int = 2000
    seed: Seed = 0

    def __post_init__(self) -> None:
        if isinstance(self.correlation, str):
            check_choice("correlation", self.correlation, ["independent", "shared"])
        else:
            check_number("correlation", self.correlation, low=0, high=1)
        check_integer("draws", self.draws, low=1)
        object.__setattr__(self, "seed", fixed_seed("seed", self.seed))

    def units(self, columns: int, size: int, degrees: float) -> Iterator[Array]:
        """Blocks of errors in standard errors, each (draws, columns, releases)."""
        rng, draws = as_generator(self.seed), int(self.draws)
        rho = {"independent": 0.0, "shared": 1.0}.get(str(self.correlation))
        rho = float(self.correlation) if rho is None else rho
        block = max(1, min(draws, CHUNK // max(1, columns * size)))
        common, own = np.sqrt(rho), np.sqrt(1 - rho)
        for start in range(0, draws, block):
            shape = (min(block, draws - start), columns, size)
            z = own * rng.standard_normal(shape) if own else np.zeros(shape)
            if common:
                z += common * rng.standard_normal((*shape[:2], 1))
            if np.isfinite(degrees):
                # Errors that are correlated were also estimated together.
                z /= np.sqrt(rng.chisquare(degrees, (*shape[:2], 1) if common else shape) / degrees)
            yield z


def check_errors(errors: object) -> Errors:
    """How errors are correlated, as it was given; independent if it was not."""
    do = 'Write errors=ruv.decide.Errors("shared", draws=2000, seed=0)'
    return Errors() if errors is None else check_kind("errors", errors, Errors, do)


def check_threshold(rumap: RUMap, max_risk: float, tolerance: float = 1e-9) -> tuple[float, float]:
    """The threshold and how far above it a risk may lie and still meet it."""
    score = rumap.risk_score
    threshold = check_number("max_risk", max_risk, infinite=True)
    tolerance = check_number("tolerance", tolerance, low=0, high=1, open_high=True)
    known = rumap.risk[np.isfinite(rumap.risk)]
    highest = max(score.highest, float(known.max(initial=-np.inf)))
    if score.lowest == 0.0 and threshold <= 0:
        what = f"max_risk must be positive, as the risk is a {score.name}"
        raise InputError(what, threshold, "Give a threshold above zero")
    if threshold == -np.inf:
        raise InputError("max_risk must be a number", threshold, "Give a threshold that a release can meet")
    if threshold > highest and not np.isinf(threshold):
        what = f"max_risk must be at most {highest:g}, as the risk is a {score.name}"
        raise InputError(what, threshold, "Give a threshold that the risk can take")
    return threshold, 0.0 if np.isinf(threshold) else tolerance * max(abs(threshold), score.scale(rumap.before[0]))


def degrees_of(rumap: RUMap) -> float:
    """Degrees of freedom of the map's errors: replicates less one, infinite where the map does not say."""
    counts = [r for r in attr_as_list(rumap.attrs.get("replicates")) if is_integer(r) and r > 1]
    return float(min(counts) - 1) if counts else np.inf


def quantile(confidence: float, degrees: float = np.inf) -> float:
    """How many standard errors a one-sided bound of this confidence lies away.

    >>> round(quantile(0.95), 3), round(quantile(0.95, 4), 3)
    (1.645, 2.132)
    """
    return float(ndtri(confidence) if np.isinf(degrees) else stdtrit(degrees, confidence))


def error_cdf(z: Array | float, degrees: float) -> Array:
    """Probability that an error is at most z standard errors."""
    return np.asarray(ndtr(z) if np.isinf(degrees) else stdtr(degrees, z))


def probability_below_threshold(rumap: RUMap, threshold: float, slack: float = 0.0) -> Array:
    """Probability that each release's risk is truly at most the threshold.

    One or zero where the risk is exact, NaN where it or its error is not known.

    >>> from ruvdecision.protocols import Value
    >>> rumap = RUMap.build(labels=["a"], intruder=Value(np.array([2.2]), np.array([0.1])), scientist=[1.0])
    >>> round(float(probability_below_threshold(rumap, 0.5)[0]), 4)
    0.9772
    """
    risk = rumap.risk
    said = np.where(np.isnan(risk), np.nan, (risk <= threshold + slack).astype(float))
    base = _CostColumn.of(rumap, "risk", "lower")
    uncertain = ~(base.errors == 0)
    if not np.any(uncertain) or np.isinf(threshold):
        return said
    with np.errstate(invalid="ignore", divide="ignore"):
        z = (base.edge(threshold + slack) - base.costs) / base.errors
    # An infinite value with an infinite error says nothing.
    return np.where(uncertain & ~np.isnan(risk), error_cdf(z, degrees_of(rumap)), said)


def frontier_probability(rumap: RUMap, better: Mapping[str, str], errors: Errors, tolerance: float = 1e-12) -> Array:
    """Probability that each release is truly on the frontier of these columns; NaN counts as never."""
    return _count_in_draws(rumap, better, errors, tolerance)[0]


def frontier_probability_of(
    rumap: RUMap,
    position: int,
    better: Mapping[str, str],
    errors: Errors,
    criterion: Criterion,
    threshold: float,
    candidates: Marks,
) -> tuple[float, float]:
    """Probability that one release is truly on the frontier, and that it is truly the best of those that are allowed.

    ``candidates`` marks the releases that compete; ``threshold`` is infinite where there is none.
    """
    ends = {**PLAIN, **better}
    limited = np.isfinite(threshold)
    asked = [*better, *criterion.needs, *criterion.arguments, *(["risk"] if limited else [])]
    drawn_ends = {name: ends.get(name, "higher") for name in asked}
    names = list(drawn_ends)
    averages, known, costs, scale = _cost_columns(rumap, drawn_ends, 1e-12)
    if not known[position]:
        return float("nan"), float("nan")
    at = int(np.sum(known[:position]))
    front = [names.index(n) for n in better]
    if not scale.any():
        c = costs[front]
        return float(not np.any((c <= c[:, [at]]).all(axis=0) & (c < c[:, [at]]).any(axis=0))), 1.0
    # A draw that is worse on the scale of the average is worse on the shown scale, by as many standard errors.
    shown = {}
    for name, end in drawn_ends.items():
        value, error = rumap.column(name)
        shown[name] = value[known], _errors_for_draws(value, error)[known] * (1.0 if end == "lower" else -1.0)
    fits = np.asarray(candidates, dtype=bool)[known]
    degrees = degrees_of(rumap)
    j = names.index("risk") if limited else 0
    edge = averages[j].edge(threshold) if limited else np.inf
    if fits.size > MANY and isinstance(criterion, MostUseful):
        far = quantile(1 - SURELY, degrees)
        useful, error = shown["utility"][0], np.abs(shown["utility"][1])
        play = (costs[front] - far * scale[front] <= (costs[front] + far * scale[front])[:, [at]]).all(axis=0)
        rival = fits & (useful + far * error >= useful[at] - far * error[at])
        if limited:
            rival &= costs[j] - far * scale[j] <= edge
        play |= rival
        play[at] = True
        at, fits, costs, scale = int(np.sum(play[:at])), fits[play], costs[:, play], scale[:, play]
        shown = {n: (value[play], error[play]) for n, (value, error) in shown.items()}
    on = best = 0
    for units in errors.units(len(names), fits.size, degrees):
        drawn = costs + scale * units
        mine, others = drawn[:, front, at, None], drawn[:, front]
        on += int(np.sum(~np.any((others <= mine).all(axis=1) & (others < mine).any(axis=1), axis=1)))
        values = {n: value + error * units[:, i] for i, (n, (value, error)) in enumerate(shown.items())}
        allowed = fits & (drawn[:, j] <= edge)
        winner = best_positions(criterion.ranking_tiers(values), allowed)
        best += int(np.sum((winner == at) & allowed.any(axis=1)))
    return on / errors.draws, best / errors.draws


def expected_loss(rumap: RUMap, criterion: ExpectedLoss, errors: Errors) -> Array:
    """The agency's loss of each release, averaged over the errors of the columns that it looks at.

    Every release meets the same errors, in standard errors, and their mirror image, so that releases are compared
    sharply.
    """
    values = {n: rumap.column(n).value for n in criterion.arguments}
    scale = {n: _errors_for_draws(*rumap.column(n)) for n in criterion.arguments}
    uncertain = np.any([e > 0 for e in scale.values()], axis=0)
    exact = criterion.value(values)
    if not np.any(uncertain):
        return exact
    rows = np.flatnonzero(uncertain)
    total, count = np.zeros(rows.size), 0
    # One column of errors for all releases: common numbers.
    for units in Errors("shared", max(1, errors.draws // 2), errors.seed).units(len(values), 1, degrees_of(rumap)):
        for side in (1.0, -1.0):
            drawn = {n: values[n][rows] + side * scale[n][rows] * units[:, j] for j, n in enumerate(values)}
            total += criterion.value(drawn).sum(axis=0)
            count += len(units)
    result = exact.copy()
    result[rows] = total / count
    lost = np.isnan(result) & ~np.isnan(exact)
    if np.any(lost):
        what = "loss must be defined within the errors of risk and utility"
        got = f"NaN around {rumap.releases[int(np.argmax(lost))]}"
        raise InputError(what, got, "Let it take any risk and utility")
    return result


def probabilities(
    rumap: RUMap, max_risk: float | None = None, *, columns: Columns | None = None, errors: Errors | None = None
) -> pd.DataFrame:
    """Table of what the errors of the map make uncertain, one row per release.

    Parameters
    ----------
    rumap : RUMap
        The map.
    max_risk : float, optional
        The threshold; without it there is no column ``meets``.
    columns : list or mapping, optional
        The columns of the frontier, as for `frontier`.
    errors : Errors, optional
        How errors of different releases are correlated, and how often they are drawn; independent if not given.

    Returns
    -------
    DataFrame
        ``release``, ``meets`` (probability that the risk is truly at most ``max_risk``), ``on_frontier`` (that no
        other release truly dominates it), ``best`` (that it truly is the most useful release allowed) and
        ``converged``.

    Examples
    --------
    >>> from ruvdecision.protocols import Value
    >>> rumap = RUMap.build(
    ...     labels=["a", "b"], intruder=Value(np.array([2.2, 1.0]), np.array([0.1, 0.1])), scientist=[0.5, 0.25]
    ... )
    >>> probabilities(rumap, max_risk=0.5).round(3)[["release", "meets", "on_frontier"]].values.tolist()
    [['a', 0.977, 1.0], ['b', 0.0, 1.0]]
    """
    import pandas as pd

    rumap = check_map(rumap).worst()
    better = directions(rumap, columns)
    threshold = np.inf if max_risk is None else sum(check_threshold(rumap, max_risk))
    how = check_errors(errors)
    table = pd.DataFrame({"release": list(rumap.releases)})
    if max_risk is not None:
        table["meets"] = probability_below_threshold(rumap, threshold)
    if list(better.items()) == list(PLAIN.items()):  # both from the same draws: one pass is enough
        table["on_frontier"], table["best"] = _count_in_draws(rumap, better, how, 1e-12, threshold)
    else:
        table["on_frontier"] = frontier_probability(rumap, better, how)
        table["best"] = _count_in_draws(rumap, PLAIN, how, 1e-12, threshold, front=False)[1]
    table["converged"] = np.array(rumap.converged)
    return table


# -- the scale of the errors ---------------------------------------------------------------------------


class _CostColumn(NamedTuple):
    """A column on the scale on which its average was made, as costs: less is better."""

    costs: Array
    errors: Array
    sign: float
    """Takes values to costs."""
    inverse: Callable[[float], float]
    """Takes a threshold on the shown scale to this one."""

    @classmethod
    def of(cls, rumap: RUMap, name: str, end: str) -> _CostColumn:
        sign = 1.0 if end == "lower" else -1.0
        inverse: Callable[[float], float] = float
        value = rumap.column(name)
        if name in PLAIN and np.any(value.error):
            axis = rumap.axis(name)
            below, score = axis.score.source(axis)
            if score is not None and score.relative and np.unique(axis.before).size > 1:
                below = None  # one U0 per release: only the shown scale is common to all
            # The inverse of a tabulated score is known between the stored values only.
            if below is not None and score is not None and not score.tabulated:
                inverse = partial(score.inverse, before=axis.before if score.relative else None)
                value, sign = below, -sign
        return cls(sign * value.value, value.error, sign, inverse)

    def edge(self, threshold: float) -> float:
        """The threshold as a cost."""
        return self.sign * float(self.inverse(threshold))


def _cost_columns(
    rumap: RUMap, better: Mapping[str, str], tolerance: float
) -> tuple[list[_CostColumn], Marks, Array, Array]:
    """Columns, which releases have all of them, and of these the costs with ties made equal, and their errors."""
    found = [_CostColumn.of(rumap, name, end) for name, end in better.items()]
    known = ~np.any([np.isnan(a.costs) for a in found], axis=0)
    costs = np.stack([snap_ties(a.costs[known], tolerance) for a in found])
    return found, known, costs, np.stack([_errors_for_draws(a.costs[known], a.errors[known]) for a in found])


def _errors_for_draws(values: Array, errors: Array) -> Array:
    """Errors to draw with: none where a value is infinite or its error is not known."""
    return np.where(np.isfinite(values) & np.isfinite(errors), errors, 0.0)


def _count_in_draws(
    rumap: RUMap,
    better: Mapping[str, str],
    errors: Errors,
    tolerance: float,
    threshold: float | None = None,
    front: bool = True,
) -> tuple[Array, Array]:
    """How probably each release is on the frontier, and is the most useful of those that meet the threshold.

    Both come from the same draws. The second needs a threshold, and risk and utility as the columns; what was not
    asked for is zero.
    """
    averages, known, costs, scale = _cost_columns(rumap, better, tolerance)
    on, best = np.zeros(rumap.size), np.zeros(rumap.size)
    if not known.any():
        return on, best
    edge = threshold if threshold is None or np.isinf(threshold) else averages[0].edge(threshold)
    rows = np.flatnonzero(known)
    if not scale.any():
        if front:
            on[rows] = minimal_rows(np.stack([ranks_with_ties(c, tolerance) for c in costs], axis=1))
        if edge is not None:
            best[rows] = _count_best(costs[None], edge)
        return on, best
    degrees = degrees_of(rumap)
    play = _possibly_undominated(costs, scale, degrees) if front else slice(0)
    for units in errors.units(len(costs), rows.size, degrees):
        if front:
            on[rows[play]] += _count_on_front(costs[:, play] + scale[:, play] * units[:, :, play])
        if edge is not None:
            best[rows] += _count_best(costs + scale * units, edge)
    return on / errors.draws, best / errors.draws


# -- drawn maps ----------------------------------------------------------------------------------------


def _possibly_undominated(costs: Array, scale: Array, degrees: float) -> NDArray[np.intp]:
    """Releases that no other one surely dominates, whatever is drawn: only they can be on a drawn front."""
    far = quantile(1 - SURELY, degrees)
    low, high = costs - far * scale, costs + far * scale
    play = np.ones(costs.shape[1], dtype=bool)
    for j in evenly_spaced(
        np.flatnonzero(minimal_rows(np.stack([ranks_with_ties(c, 0.0) for c in high], axis=1))), PIVOTS
    ):
        play &= ~(low > high[:, [j]]).all(axis=0)
    return np.flatnonzero(play)


def _count_on_front(drawn: Array) -> Array:
    """In how many drawn maps (draws, columns, releases) each release is on the front; less is better."""
    if drawn.shape[1] == 2:
        return np.asarray(_on_front(drawn[:, 0], drawn[:, 1]).sum(axis=0))
    return np.sum([minimal_rows(np.stack([ranks_with_ties(c, 0.0) for c in draw], axis=1)) for draw in drawn], axis=0)


def _count_best(drawn: Array, edge: float) -> Array:
    """In how many drawn maps each release has the least second cost of those whose first cost is at most ``edge``.

    Ties go to the lower first cost, ties in both to the release that is listed first.
    """
    allowed = drawn[:, 0] <= edge
    winner = best_positions([(-drawn[:, 1], 0.0), (-drawn[:, 0], 0.0)], allowed)[allowed.any(axis=1)]
    return np.bincount(winner, minlength=drawn.shape[2]).astype(float)


def _on_front(x: Array, y: Array) -> Marks:
    """Fronts of many drawn maps at once, each row one map; less is better in both."""
    order = np.lexsort((y, x), axis=-1)
    x, y = np.take_along_axis(x, order, -1), np.take_along_axis(y, order, -1)
    lowest = np.minimum.accumulate(y, axis=-1)
    good = np.ones(x.shape, dtype=bool)
    good[:, 1:] = y[:, 1:] < lowest[:, :-1]
    # Points that tie in both share the verdict of the first of them.
    twin = np.zeros(x.shape, dtype=bool)
    twin[:, 1:] = (x[:, 1:] == x[:, :-1]) & (y[:, 1:] == y[:, :-1])
    leader = np.maximum.accumulate(np.where(twin, 0, np.arange(x.shape[-1])), axis=-1)
    good = np.take_along_axis(good, leader, -1)
    result = np.empty_like(good)
    np.put_along_axis(result, order, good, -1)
    return result
