"""The frontier of a map: the releases that no other one dominates, and who dominates the others, and by how much."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from ..checks import check_flag, check_kind, check_number
from ..errors import InputError
from ..maps.joining import join_two_maps
from ..maps.rumap import RUMap
from ..maps.show import ReleaseRow, Sentence
from ..protocols import Array, Ints
from .criteria import Columns, check_map, directions
from .dominance import Marks, ranks_with_ties, undominated
from .probability import Errors, frontier_probability

if TYPE_CHECKING:
    import pandas as pd

Releases = str | int | ReleaseRow
"""How a release is named: label, position, or a row or choice of the map."""
BLOCK = 4_000_000
"""Comparisons that are made at a time."""


def frontier(
    rumap: RUMap, tolerance: float = 1e-12, *, columns: Columns | None = None, probability: bool | Errors = False
) -> RUMap:
    """Return the releases that no other one dominates, in order of increasing risk.

    A release is dominated if another one has no more risk and no less utility, and is strictly better in one
    of them (Karr et al. 2006). Releases that tie in both stay together. Infinite values count like any other: a
    release with infinite risk is on the frontier only if nothing with finite risk is as useful. Releases whose
    risk or utility is NaN are never on the frontier and dominate nobody. Where several users look at the same releases,
    each has a frontier of its own, one below the other; that of the worst case is ``frontier(rumap.worst())``.

    Parameters
    ----------
    rumap : RUMap
        The map.
    tolerance : float, default 1e-12
        Values whose relative difference is at most this are ties: the same U by two routes differs in its last
        digits.
    columns : list of names or mapping from name to "lower" or "higher", optional
        Compare by these columns instead of risk and utility, however many (Karr et al. 2006, eq. 11). A mapping says
        which values of each are better. A list takes ``"risk"``, ``"utility"`` and the measures whose better end the
        map knows.
    probability : bool or Errors, default False
        Add the column ``frontier_probability``: how probable it is, given the errors of the map, that the release is
        truly on the frontier. One on an exact map. An `Errors` says how errors of different releases are correlated.

    Examples
    --------
    >>> rumap = RUMap.build(
    ...     labels=list("abc"), intruder=[4.0, 2.0, 2.0], scientist=[2.0, 1.0, 3.0], columns={"KL": [2.0, 1.0, 0.5]}
    ... )
    >>> frontier(rumap).releases
    ('a', 'b')
    >>> frontier(rumap, columns={"risk": "lower", "utility": "higher", "KL": "lower"}).releases
    ('a', 'c', 'b')
    """
    do = "Say whether the map should carry the column frontier_probability"
    how = probability if isinstance(probability, Errors) else None
    if how is None and check_flag("probability", probability, do):
        how = Errors()
    better = directions(rumap, columns)
    if rumap.user_names:
        parts = [rumap.select(user=u) for u in rumap.user_names]
        parts = [frontier(part, tolerance, columns=columns, probability=probability) for part in parts]
        return functools.reduce(lambda a, b: join_two_maps(a, b, named=True), parts)
    keep = np.flatnonzero(undominated([rumap.column(n).value for n in better], list(better.values()), tolerance))
    if keep.size == 0:
        if columns is None:
            got, do = f"{len(rumap)} releases with NaN", "Look at the columns risk and utility"
            raise InputError("No release has both a risk and a utility", got, do)
        do = "Leave out the columns that hold NaN"
        raise InputError("No release has a value in every column", ", ".join(better), do)
    if how is not None:
        chance = frontier_probability(rumap, better, how, tolerance)
        rumap = rumap.with_column("frontier_probability", chance)
    return rumap.take(keep[np.lexsort((rumap.utility[keep], rumap.risk[keep]))])


@dataclass(frozen=True, repr=False)
class Explanation(Sentence):
    """Where a release stands among the others. Its text is a sentence or two.

    Attributes
    ----------
    row : ReleaseRow
        The release.
    by : ReleaseRow or None
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

    row: ReleaseRow
    by: ReleaseRow | None
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
            unsure = self.probability < 0.995
            sure = f"; with the errors of the map this holds with probability {self.probability:.3g}" if unsure else ""
            return f"{self.release} is dominated by {self.by.release}{more}: {_changes_in_words(self.values)}{sure}."
        columns = list_in_words(list(self.values))
        text = f"{self.release} is on the frontier: no other release is as good in {columns} and better somewhere."
        for name, (other, values) in (self.neighbours or {}).items():
            text += f" The next better in {name} is {other}: {_changes_in_words(values)}."
        return text


def explain(
    rumap: RUMap, release: Releases, *, columns: Columns | None = None, tolerance: float = 1e-12
) -> Explanation:
    """Say who dominates a release and by how much, or what the neighbours on the frontier would change.

    Of several dominating releases the one on the frontier with the largest sum of relative improvements is named.

    Parameters
    ----------
    rumap : RUMap
        The map.
    release : str, int, ReleaseRow or Choice
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
    rumap: RUMap, releases: Sequence[Releases], *, columns: Columns | None = None, tolerance: float = 1e-12
) -> list[Explanation]:
    """Explain several releases; the map is sorted once for all of them.

    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.76], scientist=[0.5, 0.515])
    >>> [found.dominated for found in explanations(rumap, ["a", "b"])]
    [False, True]
    """
    ranked = _Ranked.of(rumap, columns, tolerance)
    return [ranked.explain(release) for release in releases]


def dominated_releases(rumap: RUMap, *, columns: Columns | None = None, tolerance: float = 1e-12) -> pd.DataFrame:
    """Table of the releases that are dominated, by whom and by how much.

    Every dominated release is compared with all others: time grows with the square of their number, memory does not.

    Parameters
    ----------
    rumap, columns, tolerance
        As for `explain`.

    Returns
    -------
    DataFrame
        One row per dominated release: ``release``, ``dominated_by``, ``dominators`` (how many there are),
        ``<column>_change`` (what the other release would change, as a share), ``probability`` that it truly is as good
        in every column, and ``explanation``.

    Examples
    --------
    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.0], scientist=[0.5, 0.8])
    >>> dominated_releases(rumap)[["release", "dominated_by", "risk_change", "utility_change"]].values.tolist()
    [['b', 'a', -0.5, 0.6]]
    """
    import pandas as pd

    ranked = _Ranked.of(rumap, columns, tolerance)
    rumap = ranked.rumap
    rows, front = np.flatnonzero(ranked.known & ~ranked.front), np.flatnonzero(ranked.front)
    by, counts = np.empty(rows.size, dtype=np.int64), np.zeros(rows.size, dtype=np.int64)
    everybody = np.flatnonzero(ranked.known)
    step = max(1, BLOCK // max(1, everybody.size))
    for start in range(0, rows.size, step):
        part = rows[start : start + step]
        counts[start : start + step] = ranked.dominates(everybody, part).sum(axis=0)
        gain = np.where(ranked.dominates(front, part), ranked.gain(part[None, :], front[:, None]), -np.inf)
        by[start : start + step] = front[np.argmax(gain, axis=0)]
    surely = ranked.probability_as_good(rows, by)
    table: dict[str, list[str] | Array | Ints] = {
        "release": [rumap.releases[i] for i in rows],
        "dominated_by": [rumap.releases[i] for i in by],
        "dominators": counts,
    }
    table |= {f"{n}_change": _relative_change(v[rows], v[by]) for n, v in ranked.values.items()}
    table["probability"] = surely
    table["explanation"] = [
        str(Explanation(rumap[int(i)], rumap[int(j)], int(c), ranked.pair(int(i), int(j)), float(p)))
        for i, j, c, p in zip(rows, by, counts, surely, strict=True)
    ]
    return pd.DataFrame(table)


# -- helpers -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Ranked:
    """A map whose releases are ranked in some columns."""

    rumap: RUMap
    better: Mapping[str, str]
    values: Mapping[str, Array]
    costs: Ints
    """Ranks, small is good, (columns, releases)."""
    known: Marks
    """Which releases have a value in every column."""
    front: Marks
    """Which releases nobody dominates."""

    @classmethod
    def of(cls, rumap: RUMap, columns: Columns | None, tolerance: float) -> _Ranked:
        tolerance = check_number("tolerance", tolerance, low=0, high=1, open_high=True)
        rumap = check_map(rumap).worst()
        better = directions(rumap, columns)
        values = {n: rumap.column(n).value for n in better}
        known = ~np.any([np.isnan(v) for v in values.values()], axis=0)
        costs = np.zeros((len(values), known.size), dtype=np.int64)
        for j, (name, column) in enumerate(values.items()):
            costs[j, known] = ranks_with_ties(column[known], tolerance) * (1 if better[name] == "lower" else -1)
        front = undominated(list(values.values()), list(better.values()), tolerance)
        return cls(rumap, better, values, costs, known, front)

    def explain(self, release: Releases) -> Explanation:
        """Where one release stands."""
        key = release.release if isinstance(release, ReleaseRow) else release
        row = check_kind("What explain takes", self.rumap[key], ReleaseRow, "Give the label or position of one release")
        i = row.position
        missing = tuple(n for n, v in self.values.items() if np.isnan(v[i]))
        if missing:
            return Explanation(row, None, 0, {}, float("nan"), None, missing)
        worse = self.known & self.dominates(np.arange(self.known.size), np.array([i]))[:, 0]
        if not worse.any():
            return Explanation(row, None, 0, self.pair(i, i), 1.0, self.neighbours(i))
        front = np.flatnonzero(worse & self.front)
        by = int(front[np.argmax(self.gain(np.full(front.size, i), front))])
        surely = float(self.probability_as_good(np.array([i]), np.array([by]))[0])
        return Explanation(row, self.rumap[by], int(worse.sum()), self.pair(i, by), surely)

    def dominates(self, who: Ints, whom: Ints) -> Marks:
        """True where a row of ``who`` dominates a column of ``whom``."""
        weak = np.ones((who.size, whom.size), dtype=bool)
        strict = np.zeros_like(weak)
        for c in self.costs:
            weak &= c[who][:, None] <= c[whom][None, :]
            strict |= c[who][:, None] < c[whom][None, :]
        return weak & strict

    def gain(self, old: Ints, new: Ints) -> Array:
        """Sum of relative improvements."""
        total = np.zeros(np.broadcast_shapes(old.shape, new.shape))
        for name, values in self.values.items():
            change = np.nan_to_num(_relative_change(values[old], values[new]), nan=0.0, posinf=1e6, neginf=-1e6)
            total = total + (change if self.better[name] == "higher" else -change)
        return total

    def probability_as_good(self, old: Ints, new: Ints) -> Array:
        """Probability that the other is truly as good in every column; errors normal and independent."""
        chance = np.ones(len(old))
        for name, end in self.better.items():
            value, error = self.rumap.column(name)
            both = np.hypot(error[old], error[new])
            with np.errstate(all="ignore"):
                lead = (value[new] - value[old]) * (1 if end == "higher" else -1)
                chance = chance * np.where(both > 0, ndtr(lead / both), 1.0)
        return chance

    def pair(self, i: int, j: int) -> dict[str, tuple[float, float]]:
        """Values of two releases in every column."""
        return {n: (float(v[i]), float(v[j])) for n, v in self.values.items()}

    def neighbours(self, i: int) -> dict[str, tuple[str, Mapping[str, tuple[float, float]]]] | None:
        """The next release on the frontier of two columns that is better in each."""
        if len(self.values) != 2:
            return None
        found: dict[str, tuple[str, Mapping[str, tuple[float, float]]]] = {}
        for cost, name in zip(self.costs, self.values, strict=True):
            ahead = np.flatnonzero(self.front & (cost < cost[i]))
            if ahead.size:
                k = int(ahead[np.argmax(cost[ahead])])  # the nearest of them
                found[name] = (self.rumap.releases[k], self.pair(i, k))
        return found


def _relative_change(old: Array, new: Array) -> Array:
    """Relative change; infinite where it starts from zero, NaN between infinities."""
    with np.errstate(all="ignore"):
        change = (new - old) / np.abs(old)
        change = np.where(np.isinf(old) & np.isfinite(new), -np.sign(old) * 1.0, change)
        return np.asarray(np.where(new == old, 0.0, change))


def _changes_in_words(values: Mapping[str, tuple[float, float]]) -> str:
    return ", ".join(f"{name} {_change_in_words(old, new)}" for name, (old, new) in values.items())


def _change_in_words(old: float, new: float) -> str:
    if old == new:
        return "the same"
    share = float(_relative_change(np.asarray(old), np.asarray(new)))
    # A percentage means something for positive numbers that are not far apart; otherwise both are given.
    if not np.isfinite(share) or np.isinf(new) or min(old, new) <= 0 or not -0.9 <= share <= 10:
        return f"{old:.4g} → {new:.4g}".replace("inf", "∞").replace("-", "−")
    percent = 100 * share
    text = f"{percent:+.0f}" if abs(percent) >= 9.95 else f"{percent:+.2g}"
    return f"{text} %".replace("-", "−")


def list_in_words(names: Sequence[str]) -> str:
    """Names as a phrase: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
