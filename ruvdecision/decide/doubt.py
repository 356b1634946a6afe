"""What errors leave in doubt: whether a release truly meets a threshold, is truly on the frontier, is truly the best.

Assumptions. The error of an average is normal, or Student's t with one degree of freedom less than there were replicates,
if the map says how many. It is taken on the scale of U (or of the measure), where the average was made; a threshold on
the risk is brought to that scale. Errors of different columns are independent. Between releases they are independent
(which doubts a frontier the most), shared (every release errs in the same direction by the same number of standard errors, the
limit of common random numbers), or correlated by a given amount. Whether one release meets a threshold does not depend on that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from ..checks import Seed, as_generator, as_seed_sequence, check_choice, check_integer, check_number
from ..errors import InputError
from ..maps.rumap import RUMap
from ..maps.scores import Column, Tabulated
from ..protocols import Array
from .criteria import MostUseful, Rule, directions, error_of, first, value_of
from .dominance import minimal, ranks, snapped
from .drawnmaps import DrawnMaps

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "DRAWS",
    "Errors",
    "degrees_of",
    "expected_loss",
    "frontier_probability",
    "meets",
    "of_release",
    "probabilities",
    "quantile",
]

DRAWS = 2000
CHUNK = 2_000_000
"""Numbers that are drawn at a time."""
MANY = 4096
"""Of more releases than this only those are drawn that can matter."""
SURELY = 1e-15
"""An error that is exceeded with less than this probability does not come."""
PLAIN = {"risk": "lower", "utility": "higher"}
"""The columns of the plain frontier, with their better ends."""


@dataclass(frozen=True)
class Errors:
    """How errors of different releases hang together, and how often they are drawn.

    Parameters
    ----------
    correlation : "independent", "shared" or a number from 0 to 1
        Correlation between the errors of two releases in one column.
    draws : int
        How often the map is drawn anew; a probability p is then known to within sqrt(p (1 - p) / draws).
    seed : int, SeedSequence or Generator
        Where the draws come from.
    """

    correlation: Any = "independent"
    draws: int = DRAWS
    seed: Seed = 0

    def __post_init__(self) -> None:
        if isinstance(self.correlation, str):
            word = check_choice("errors", self.correlation, ["independent", "shared"])
            object.__setattr__(self, "correlation", float(word == "shared"))
        object.__setattr__(self, "correlation", check_number("errors", self.correlation, low=0, high=1))
        object.__setattr__(self, "draws", check_integer("draws", self.draws, low=1))
        if not isinstance(self.seed, np.random.Generator):
            as_seed_sequence(self.seed)

    def units(self, columns: int, size: int, degrees: float) -> Iterator[Array]:
        """Blocks of errors in standard errors, each (draws, columns, releases)."""
        rng = as_generator(self.seed)
        block = max(1, min(self.draws, CHUNK // max(1, columns * size)))
        common, own = np.sqrt(self.correlation), np.sqrt(1 - self.correlation)
        for start in range(0, self.draws, block):
            shape = (min(block, self.draws - start), columns, size)
            z = own * rng.standard_normal(shape) if own else np.zeros(shape)
            if common:
                z += common * rng.standard_normal((*shape[:2], 1))
            if np.isfinite(degrees):
                # Errors that hang together were also estimated together.
                spread = rng.chisquare(degrees, (*shape[:2], 1) if common else shape) / degrees
                z /= np.sqrt(spread)
            yield z


def degrees_of(rumap: RUMap) -> float:
    """Degrees of freedom of the map's errors: replicates less one, infinite where the map does not say."""
    said = rumap.attrs.get("replicates")
    counts = [
        r
        for r in (said if isinstance(said, list) else [said])
        if isinstance(r, (int, np.integer)) and not isinstance(r, bool) and r > 1
    ]
    return float(min(counts) - 1) if counts else np.inf


def quantile(confidence: float, degrees: float = np.inf) -> float:
    """How many standard errors a one-sided bound of this confidence lies away.

    >>> round(quantile(0.95), 3), round(quantile(0.95, 4), 3)
    (1.645, 2.132)
    """
    return float(ndtri(confidence) if np.isinf(degrees) else stdtrit(degrees, confidence))


def meets(rumap: RUMap, threshold: float, slack: float = 0.0) -> Array:
    """Probability that each release's risk is truly at most the threshold.

    One or zero where the risk is exact, NaN where it or its error is not known.

    >>> from ruvdecision.protocols import Value
    >>> rumap = RUMap.build(labels=["a"], intruder=Value(np.array([2.2]), np.array([0.1])), scientist=[1.0])
    >>> round(float(meets(rumap, 0.5)[0]), 4)
    0.9772
    """
    risk = rumap.risk
    said = np.where(np.isnan(risk), np.nan, (risk <= threshold + slack).astype(float))
    base = _base(rumap, "risk")
    doubtful = ~(base.errors == 0)
    if not np.any(doubtful) or np.isinf(threshold):
        return said
    edge = base.bring(threshold + slack)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = (base.values - edge) / base.errors * (1.0 if base.better == "higher" else -1.0)
    degrees = degrees_of(rumap)
    chance = ndtr(z) if np.isinf(degrees) else stdtr(degrees, z)
    # An infinite value with an infinite error says nothing.
    return np.where(doubtful & ~np.isnan(risk), chance, said)


def frontier_probability(rumap: RUMap, better: Mapping[str, str], errors: Errors, tolerance: float = 1e-12) -> Array:
    """Probability that each release is truly on the frontier of these columns; NaN counts as never."""
    return _counted(rumap, better, errors, tolerance)[0]


def of_release(
    rumap: RUMap,
    position: int,
    better: Mapping[str, str],
    errors: Errors,
    rule: Rule,
    threshold: float,
    candidates: Any,
) -> tuple[float, float]:
    """Probability that one release is truly on the frontier, and that it is truly the best of those that are allowed.

    ``candidates`` marks the releases that compete; ``threshold`` is infinite where there is none.
    """
    ends = {"risk": "lower", "utility": "higher", **better}
    asked = [*better, *rule.needs, *getattr(rule, "arguments", ()), *(["risk"] if np.isfinite(threshold) else [])]
    names = list(dict.fromkeys(asked))
    bases = [_base(rumap, n, ends.get(n, "higher")) for n in names]
    known = ~np.any([np.isnan(b.values) for b in bases], axis=0)
    if not known[position]:
        return float("nan"), float("nan")
    at = int(np.sum(known[:position]))
    costs, scale = _costs(bases, known, 1e-12)
    front = [names.index(n) for n in better]
    if not scale.any():
        c = costs[front]
        return float(not np.any((c <= c[:, [at]]).all(axis=0) & (c < c[:, [at]]).any(axis=0))), 1.0
    shown = {n: (value_of(rumap, n)[known], _known(value_of(rumap, n), error_of(rumap, n))[known]) for n in names}
    # A draw that is worse on the scale of the average is worse on the shown scale, by as many standard errors.
    signs = [1.0 if ends.get(n, "higher") == "lower" else -1.0 for n in names]
    fits = np.asarray(candidates, dtype=bool)[known]
    degrees = degrees_of(rumap)
    if fits.size > MANY and isinstance(rule, MostUseful):
        far = quantile(1 - SURELY, degrees)
        useful, doubt = shown["utility"]
        play = (costs[front] - far * scale[front] <= (costs[front] + far * scale[front])[:, [at]]).all(axis=0)
        rival = fits & (useful + far * doubt >= useful[at] - far * doubt[at])
        if np.isfinite(threshold):
            j = names.index("risk")
            rival &= costs[j] - far * scale[j] <= _edge(bases[j], threshold)
        play |= rival
        play[at] = True
        at, fits, costs, scale = int(np.sum(play[:at])), fits[play], costs[:, play], scale[:, play]
        shown = {n: (value[play], error[play]) for n, (value, error) in shown.items()}
    on = best = 0
    for units in errors.units(len(names), fits.size, degrees):
        drawn = costs + scale * units
        mine, others = drawn[:, front, at, None], drawn[:, front]
        on += int(np.sum(~np.any((others <= mine).all(axis=1) & (others < mine).any(axis=1), axis=1)))
        values = {n: shown[n][0] + shown[n][1] * units[:, j] * signs[j] for j, n in enumerate(names)}
        allowed = np.broadcast_to(fits, drawn[:, 0].shape)
        if np.isfinite(threshold):
            allowed = allowed & (drawn[:, names.index("risk")] <= _edge(bases[names.index("risk")], threshold))
        winner = first(rule.tiers(values), allowed)
        best += int(np.sum((winner == at) & allowed.any(axis=1)))
    return on / errors.draws, best / errors.draws


def expected_loss(rumap: RUMap, rule: Any, errors: Errors) -> Array:
    """The agency's loss of each release, averaged over the errors of the columns that it looks at.

    Every release meets the same errors, in standard errors, and their mirror image, so that releases are compared sharply.
    """
    values = {n: value_of(rumap, n) for n in rule.arguments}
    spread = {n: _known(values[n], error_of(rumap, n)) for n in rule.arguments}
    doubtful = np.any([e > 0 for e in spread.values()], axis=0)
    exact = np.asarray(rule.value(values))
    if not np.any(doubtful):
        return exact
    rows = np.flatnonzero(doubtful)
    total, count = np.zeros(rows.size), 0
    # One column of errors for all releases: common numbers.
    for units in Errors("shared", max(1, errors.draws // 2), errors.seed).units(len(values), 1, degrees_of(rumap)):
        for side in (1.0, -1.0):
            drawn = {n: values[n][rows] + side * spread[n][rows] * units[:, j] for j, n in enumerate(values)}
            total += np.asarray(rule.value(drawn)).sum(axis=0)
            count += len(units)
    result = exact.copy()
    result[rows] = total / count
    if np.any(np.isnan(result) & ~np.isnan(exact)):
        i = int(np.flatnonzero(np.isnan(result) & ~np.isnan(exact))[0])
        raise InputError(
            "loss must be defined within the errors of risk and utility",
            f"NaN around {rumap.releases[i]}",
            "Let it take any risk and utility",
        )
    return result


def probabilities(
    rumap: RUMap,
    max_risk: float | None = None,
    *,
    columns: Any = None,
    errors: Any = "independent",
    draws: int = DRAWS,
    seed: Seed = 0,
) -> pd.DataFrame:
    """Table of what the errors leave in doubt, one row per release.

    Parameters
    ----------
    rumap : RUMap
        The map.
    max_risk : float, optional
        The threshold; without it there is no column ``meets``.
    columns : list or mapping, optional
        The columns of the frontier, as for `frontier`.
    errors, draws, seed
        As for `choose`.

    Returns
    -------
    DataFrame
        ``release``, ``meets`` (probability that the risk is truly at most ``max_risk``), ``on_frontier`` (that no other release
        truly dominates it), ``best`` (that it truly is the most useful release allowed) and ``converged``.

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

    from .choice import check_threshold

    better = directions(rumap, ["risk", "utility"] if columns is None else columns)
    threshold = np.inf if max_risk is None else sum(check_threshold(rumap, max_risk))
    how = Errors(errors, draws, seed)
    table: dict[str, Any] = {"release": list(rumap.releases)}
    if max_risk is not None:
        table["meets"] = meets(rumap, threshold)
    if list(better.items()) == list(PLAIN.items()) and not isinstance(seed, np.random.Generator):
        # A seed gives both the same draws, so that one pass is enough; a Generator moves on between them.
        table["on_frontier"], table["best"] = _counted(rumap, better, how, 1e-12, threshold)
    else:
        table["on_frontier"] = frontier_probability(rumap, better, how)
        table["best"] = _counted(rumap, PLAIN, how, 1e-12, threshold, front=False)[1]
    table["converged"] = np.array(rumap.converged)
    return pd.DataFrame(table)


# -- the scale of the errors ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Base:
    """A column on the scale on which its average was made."""

    values: Array
    errors: Array
    better: str
    bring: Any
    """Takes a threshold on the shown scale to this one."""
    same: bool
    """True if this is the shown scale."""


def _base(rumap: RUMap, name: str, end: str | None = None) -> _Base:
    end = end or ("lower" if name == "risk" else "higher")
    plain = _Base(value_of(rumap, name), error_of(rumap, name), end, lambda t: t, True)
    if name not in ("risk", "utility") or not np.any(plain.errors):
        return plain
    score = getattr(rumap, f"{name}_score")
    before = None
    if isinstance(score, Column):
        if score.score is None:
            return plain
        values, errors, score = value_of(rumap, score.column), error_of(rumap, score.column), score.score
    else:
        side = 0 if name == "risk" else 1
        user = (rumap.intruder, rumap.scientist)[side]
        assert user is not None  # the score is a function of it
        values, errors, before = user.value, user.error, rumap.before[side]
        if score.relative and np.unique(before).size > 1:
            return plain  # one U0 per release: only the shown scale is common to all
    if isinstance(score, Tabulated):
        return plain  # its inverse is known between the stored values only
    flipped = "higher" if end == "lower" else "lower"

    def bring(threshold: float) -> Any:
        return score.inverse(threshold, before if score.relative else None)

    return _Base(np.asarray(values, dtype=float), np.asarray(errors, dtype=float), flipped, bring, False)


def _costs(bases: list[_Base], known: Any, tolerance: float) -> tuple[Array, Array]:
    """Values, less is better, with ties made equal, and their errors, both (columns, releases)."""
    values = np.stack([snapped(b.values[known] if b.better == "lower" else -b.values[known], tolerance) for b in bases])
    return values, np.stack([_known(b.values[known], b.errors[known]) for b in bases])


def _known(values: Array, errors: Array) -> Array:
    """Errors to draw with: none where a value is infinite or its error is not known."""
    return np.where(np.isfinite(values) & np.isfinite(errors), errors, 0.0)


def _edge(base: _Base, threshold: float) -> float:
    """The threshold as a cost."""
    edge = float(base.bring(threshold))
    return edge if base.better == "lower" else -edge


def _counted(
    rumap: RUMap,
    better: Mapping[str, str],
    errors: Errors,
    tolerance: float,
    threshold: float | None = None,
    front: bool = True,
) -> tuple[Array, Array]:
    """How probably each release is on the frontier, and is the most useful of those that meet the threshold, from the same draws.

    The second needs a threshold, and risk and utility as the columns; what was not asked for is zero.
    """
    bases = [_base(rumap, name, end) for name, end in better.items()]
    known = ~np.any([np.isnan(b.values) for b in bases], axis=0)
    on, best = np.zeros(rumap.size), np.zeros(rumap.size)
    if not known.any():
        return on, best
    costs, scale = _costs(bases, known, tolerance)
    maps = DrawnMaps(costs, scale)
    edge = None if threshold is None else _edge(bases[0], threshold) if np.isfinite(threshold) else threshold
    if not scale.any():
        if front:
            on[known] = minimal(np.stack([ranks(c, tolerance) for c in costs], axis=1))
        if edge is not None:
            best[known] = maps.winners(np.zeros((1, *costs.shape)), edge)
        return on, best
    for units in errors.units(len(costs), costs.shape[1], degrees_of(rumap)):
        if front:
            on[known] += maps.fronts(units)
        if edge is not None:
            best[known] += maps.winners(units, edge)
    return on / errors.draws, best / errors.draws
