"""Why a release is not on the frontier: who dominates it, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from ..checks import check_number
from ..errors import InputError
from ..maps.rumap import Row, RUMap
from ..protocols import Array
from .criteria import directions, error_of, value_of
from .dominance import ranks, undominated

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Explanation", "dominated", "explain", "explanations"]

BLOCK = 4_000_000
"""Comparisons that are made at a time."""


@dataclass(frozen=True)
class Explanation:
    """Where a release stands among the others. Its text is a sentence or two.

    Attributes
    ----------
    row : Row
        The release.
    by : Row or None
        A release of the frontier that dominates it; None if none does.
    dominators : int
        How many releases dominate it.
    values : mapping from column to (its value, the other's value)
        The columns that were compared, with the dominating release's values.
    probability : float
        Probability that ``by`` is truly at least as good in every column, by their errors (normal, independent);
        one where all is exact.
    neighbours : mapping
        For a release on the frontier of two columns: the next one that is better in each.
    missing : tuple of str
        Columns in which the release has no value; it is then not compared.
    """

    row: Row
    by: Row | None
    dominators: int
    values: Mapping[str, tuple[float, float]]
    probability: float = 1.0
    neighbours: Mapping[str, tuple[str, Mapping[str, tuple[float, float]]]] | None = None
    missing: tuple[str, ...] = ()

    @property
    def release(self) -> str:
        return self.row.release

    @property
    def dominated(self) -> bool:
        return self.by is not None

    def __str__(self) -> str:
        if self.missing:
            return f"{self.release} is not compared: it has no {' and no '.join(self.missing)}."
        if self.by is not None:
            rest = self.dominators - 1
            more = f" (and by {rest} other{'s' * (rest > 1)})" if rest else ""
            doubt = (
                f"; with the errors of the map this holds with probability {self.probability:.3g}"
                if self.probability < 0.995
                else ""
            )
            return f"{self.release} is dominated by {self.by.release}{more}: {_changes(self.values)}{doubt}."
        text = f"{self.release} is on the frontier: no other release is as good in {_listed(list(self.values))} and better somewhere."
        for name, (other, values) in (self.neighbours or {}).items():
            text += f" The next better in {name} is {other}: {_changes(values)}."
        return text


def explain(rumap: RUMap, release: Any, *, columns: Any = None, tolerance: float = 1e-12) -> Explanation:
    """Say who dominates a release and by how much, or what the neighbours on the frontier would change.

    Of several dominating releases the one on the frontier with the largest sum of relative improvements is named.

    Parameters
    ----------
    rumap : RUMap
        The map.
    release : str, int or anything with ``position``
        Label, position, or a row or choice of this map.
    columns : list or mapping, optional
        What to compare, as for `frontier`; risk and utility if not given.
    tolerance : float, default 1e-12
        Values whose relative difference is at most this are ties.

    Examples
    --------
    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.76], scientist=[0.5, 0.515])
    >>> print(explain(rumap, "b"))
    b is dominated by a: risk −12 %, utility +3 %.
    """
    return explanations(rumap, [release], columns=columns, tolerance=tolerance)[0]


def explanations(
    rumap: RUMap, releases: Sequence[Any], *, columns: Any = None, tolerance: float = 1e-12
) -> list[Explanation]:
    """Explain several releases; the map is sorted once for all of them.

    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.76], scientist=[0.5, 0.515])
    >>> [found.dominated for found in explanations(rumap, ["a", "b"])]
    [False, True]
    """
    tolerance = check_number("tolerance", tolerance, low=0, high=1, open_high=True)
    better = directions(rumap, ["risk", "utility"] if columns is None else columns)
    raw = {n: value_of(rumap, n) for n in better}
    costs, known = _costs(raw, better, tolerance)
    on = undominated(list(raw.values()), list(better.values()), tolerance)
    return [_explained(rumap, release, better, raw, costs, known, on) for release in releases]


def dominated(rumap: RUMap, *, columns: Any = None, tolerance: float = 1e-12) -> pd.DataFrame:
    """Table of the releases that are dominated, by whom and by how much.

    Every dominated release is compared with all others: time grows with the square of their number, memory does not.

    Parameters
    ----------
    rumap, columns, tolerance
        As for `explain`.

    Returns
    -------
    DataFrame
        One row per dominated release: ``release``, ``dominated_by``, ``dominators`` (how many there are), ``<column>_change`` (what the
        other release would change, as a share), ``probability`` that it truly is as good in every column, and ``explanation``.

    Examples
    --------
    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.0], scientist=[0.5, 0.8])
    >>> dominated(rumap)[["release", "dominated_by", "risk_change", "utility_change"]].values.tolist()
    [['b', 'a', -0.5, 0.6]]
    """
    import pandas as pd

    better = directions(rumap, ["risk", "utility"] if columns is None else columns)
    raw = {n: value_of(rumap, n) for n in better}
    on = undominated(list(raw.values()), list(better.values()), tolerance)
    costs, known = _costs(raw, better, tolerance)
    rows, front = np.flatnonzero(known & ~on), np.flatnonzero(on)
    by, counts = np.empty(rows.size, dtype=int), np.zeros(rows.size, dtype=int)
    everybody = np.flatnonzero(known)
    step = max(1, BLOCK // max(1, everybody.size))
    for start in range(0, rows.size, step):
        part = rows[start : start + step]
        counts[start : start + step] = _beats(costs, everybody, part).sum(axis=0)
        beats = _beats(costs, front, part)
        gain = np.where(beats, _gain(raw, better, part[None, :], front[:, None]), -np.inf)
        by[start : start + step] = front[np.argmax(gain, axis=0)]
    surely = _surely(rumap, better, raw, rows, by)
    table: dict[str, Any] = {
        "release": [rumap.releases[i] for i in rows],
        "dominated_by": [rumap.releases[i] for i in by],
        "dominators": counts,
    }
    table |= {f"{n}_change": _share(raw[n][rows], raw[n][by]) for n in better}
    table["probability"] = surely
    table["explanation"] = [
        str(Explanation(rumap[int(i)], rumap[int(j)], int(c), _values(raw, int(i), int(j)), float(p)))
        for i, j, c, p in zip(rows, by, counts, surely, strict=True)
    ]
    return pd.DataFrame(table)


# -- helpers -------------------------------------------------------------------------------------------


def _explained(
    rumap: RUMap, release: Any, better: Mapping[str, str], raw: Mapping[str, Array], costs: Any, known: Any, on: Any
) -> Explanation:
    """Where one release stands; ``on`` marks the frontier."""
    key = release.release if hasattr(release, "release") else release
    row = rumap[key]
    if not isinstance(row, Row):
        raise InputError("explain takes one release", key, "Give its label or its position")
    i = row.position
    missing = tuple(n for n in better if np.isnan(raw[n][i]))
    if missing:
        return Explanation(row, None, 0, {}, float("nan"), None, missing)
    mine = costs[:, [i]]
    worse = known & (costs <= mine).all(axis=0) & (costs < mine).any(axis=0)
    if worse.any():
        front = np.flatnonzero(worse & on)
        by = int(front[np.argmax(_gain(raw, better, np.full(front.size, i), front))])
        return Explanation(
            row, rumap[by], int(worse.sum()), _values(raw, i, by), float(_surely(rumap, better, raw, [i], [by])[0])
        )
    return Explanation(row, None, 0, _values(raw, i, i), 1.0, _neighbours(rumap, raw, costs, on, i))


def _costs(raw: Mapping[str, Array], better: Mapping[str, str], tolerance: float) -> tuple[Any, Any]:
    """Ranks, small is good, (columns, releases), and which releases have them all."""
    known = ~np.any([np.isnan(v) for v in raw.values()], axis=0)
    costs = np.zeros((len(raw), known.size), dtype=np.int64)
    for j, (name, values) in enumerate(raw.items()):
        costs[j, known] = ranks(values[known], tolerance) * (1 if better[name] == "lower" else -1)
    return costs, known


def _beats(costs: Any, who: Any, whom: Any) -> Any:
    """True where a row of ``who`` dominates a column of ``whom``."""
    weak = np.ones((who.size, whom.size), dtype=bool)
    strict = np.zeros_like(weak)
    for c in costs:
        weak &= c[who][:, None] <= c[whom][None, :]
        strict |= c[who][:, None] < c[whom][None, :]
    return weak & strict


def _share(old: Any, new: Any) -> Array:
    """Relative change; infinite where it starts from zero, NaN between infinities."""
    with np.errstate(all="ignore"):
        change = (new - old) / np.abs(old)
        change = np.where(np.isinf(old) & np.isfinite(new), -np.sign(old) * 1.0, change)
        return np.asarray(np.where(new == old, 0.0, change))


def _gain(raw: Mapping[str, Array], better: Mapping[str, str], old: Any, new: Any) -> Any:
    """Sum of relative improvements."""
    total: Any = 0.0
    for name, values in raw.items():
        change = np.nan_to_num(_share(values[old], values[new]), nan=0.0, posinf=1e6, neginf=-1e6)
        total = total + (change if better[name] == "higher" else -change)
    return total


def _surely(rumap: RUMap, better: Mapping[str, str], raw: Mapping[str, Array], old: Any, new: Any) -> Array:
    """Probability that the other is truly as good in every column; errors normal and independent."""
    chance = np.ones(len(old))
    for name, end in better.items():
        error = error_of(rumap, name)
        spread = np.hypot(error[old], error[new])
        with np.errstate(all="ignore"):
            lead = (raw[name][new] - raw[name][old]) * (1 if end == "higher" else -1)
            chance = chance * np.where(spread > 0, ndtr(lead / spread), 1.0)
    return chance


def _values(raw: Mapping[str, Array], i: int, j: int) -> dict[str, tuple[float, float]]:
    return {n: (float(v[i]), float(v[j])) for n, v in raw.items()}


def _neighbours(rumap: RUMap, raw: Mapping[str, Array], costs: Any, on: Any, i: int) -> Any:
    if len(raw) != 2:
        return None
    found = {}
    for j, name in enumerate(raw):
        ahead = np.flatnonzero(on & (costs[j] < costs[j, i]))
        if ahead.size:
            k = int(ahead[np.argmax(costs[j, ahead])])  # the nearest of them
            found[name] = (rumap.releases[k], _values(raw, i, k))
    return found


def _changes(values: Mapping[str, tuple[float, float]]) -> str:
    return ", ".join(f"{name} {_change(old, new)}" for name, (old, new) in values.items())


def _change(old: float, new: float) -> str:
    if old == new:
        return "the same"
    share = float(_share(np.float64(old), np.float64(new)))
    if not np.isfinite(share) or np.isinf(old) or np.isinf(new) or abs(share) > 100:
        return f"{old:.4g} → {new:.4g}".replace("inf", "∞").replace("-", "−")
    percent = 100 * share
    text = f"{percent:+.0f}" if abs(percent) >= 9.95 else f"{percent:+.2g}"
    return f"{text} %".replace("-", "−")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
