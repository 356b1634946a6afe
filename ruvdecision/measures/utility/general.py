"""General utility: does a release keep means, spreads, tails and dependence? One number between 0 and 1."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd

from ...checks import checked
from ...numerics.threads import one_thread
from ...protocols import Array
from ..base import Measured, WeightedMeasure
from ..frames import Flags, Ints, Names, as_names, factorise, is_number, is_time, offsets_with_nan, standard_deviations
from ..tables.cells import frequencies
from .cdf import Law, kolmogorov

LEVELS = (0.05, 0.01)
"""Shares of the records that count as a tail."""
FEW = 10
"""A tail needs so many records to be judged, and a category half as many to stand for itself."""
ROWS = 20_000
"""Records whose groups are counted together at a time."""


@dataclass(frozen=True, repr=False)
class GeneralUtility(WeightedMeasure):
    """How much of the original a release keeps: 1 as good as another sample of the population, 0 as bad as nothing.

    The mean of two scores between 0 and 1. **Margins**, over the columns that vary. A number's score is the geometric
    mean of four: *shape*, 1 minus the Kolmogorov-Smirnov distance; *mean*, exp(-shift in standard deviations);
    *spread*, the smaller standard deviation over the larger; *tails*, the smaller share over the larger of the records
    beyond the original's outer 5 % and 1 %. A category's score is the geometric mean of 1 minus the total variation and
    of the smaller diversity 1 - sum p^2 over the larger. Either is multiplied by 1 minus the change of the share m of
    missing values and, where all that is known is one value, by the smaller m (1 - m) over the larger. **Dependence**:
    each column is cut into groups (numbers at the original's quantiles, missing values apart); d = P(a, b) - P(a) P(b)
    is what each pair of groups has beyond independence, and the score is 1 - sum |d - d'| / sum |d| over all pairs of
    columns. Without dependence in the original the margins are all.

    Differences are counted as far as they are larger than two samples of the same population show (twice the standard
    error). A file without variation has spread 0 and no dependence, whatever its values: its score is 0, and no other
    file has less. The score depends on the two files alone, not on the order of rows or columns, and the release may
    have any number of rows. Dependence between three columns that no two of them show is not seen: see
    `TreePropensity`.

    Parameters
    ----------
    columns : names, optional
        Columns of any kind; all by default.

    Notes
    -----
    ``parts`` has margins, dependence and the mean shape, mean, spread and tails; ``table`` the scores of each column.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> a, b = rng.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], size=(2, 1000))
    >>> utility = GeneralUtility()
    >>> round(utility(a, b), 1), round(utility(a, a + 2 * rng.normal(size=a.shape)), 1), utility(a, 0 * a)
    (1.0, 0.5, 0.0)
    """

    columns: Names = checked(None, as_names)

    label: ClassVar[str] = "general utility"
    direction: ClassVar[str] = "higher"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "in the spirit of Snoke et al. (2018) and Domingo-Ferrer and Torra (2001)"
    own_missing: ClassVar[tuple[str, ...]] = ("category",)

    def begin(
        self, original: pd.DataFrame, weights: Array | None = None
    ) -> tuple[float, dict[Hashable, _Column], Array]:
        groups = 5 if len(original) >= 1000 else 3 if len(original) >= 200 else 2
        own = _Weights(weights, len(original))
        columns: dict[Hashable, _Column] = {
            label: (_Number if is_number(column) or is_time(column) else _Category)(self.name, column, groups, own)
            for label, column in original.items()
        }
        codes = [columns[c].score_column(v, "the original", own)[1] for c, v in original.items()]
        return own.size(), columns, _pair_probabilities(columns, codes, weights)

    def compare(
        self,
        state: tuple[float, dict[Hashable, _Column], Array],
        released: pd.DataFrame,
        weights: Array | None = None,
    ) -> Measured:
        n, columns, before = state
        own = _Weights(weights, len(released))
        judged = {str(c): column.score_column(released[c], "the release", own) for c, column in columns.items()}
        rows = {name: scores for name, (scores, _) in judged.items() if scores}
        found = pd.DataFrame.from_dict(rows, orient="index")
        value = margins = float(found["score"].mean()) if rows else 1.0
        parts = {"margins": margins, **found.drop(columns="score", errors="ignore").mean().to_dict()}
        after = _pair_probabilities(columns, [codes for _, codes in judged.values()], weights)
        dependence = _dependence_kept(before, after, [c.size for c in columns.values()], 1 / n + 1 / own.size())
        if dependence is not None:
            parts["dependence"], value = dependence, (margins + dependence) / 2
        return Measured(value, parts=parts, table=found if rows else None)


class _Weights(NamedTuple):
    """The weights of a file's records, None where all count once."""

    each: Array | None
    rows: int

    def take(self, rows: Flags) -> Array | None:
        """Those of some records."""
        return None if self.each is None else self.each[rows]

    def size(self, rows: Flags | None = None) -> float:
        """How many records tell as much without weights (Kish): that many make the noise."""
        if self.each is None:
            return float(self.rows if rows is None else rows.sum())
        w = self.each if rows is None else self.each[rows]
        return float(w.sum() ** 2 / (w @ w)) if len(w) else 0.0

    def share(self, rows: Flags) -> float:
        """The share that some records have of all."""
        return float(rows.mean() if self.each is None else self.each[rows].sum() / self.each.sum())


class _Column:
    """One column of the original: what a release's column is judged by, and the groups that it is cut into."""

    size: int
    """Number of groups, that of missing values included."""

    def score_column(self, column: pd.Series, which: str, weights: _Weights) -> tuple[dict[str, float], Ints]:
        """The scores of a column (none if the original has nothing to keep), and the group of each record."""
        raise NotImplementedError


class _Number(_Column):
    """A number or a time."""

    def __init__(self, who: str, column: pd.Series, groups: int, weights: _Weights) -> None:
        self.who, self.least, self.rows = who, column.dropna().sort_values().iloc[:1], weights.size()
        values = offsets_with_nan(who, column, self.least)
        known = ~np.isnan(values)
        own, kept = weights.take(known), values[known]
        self.law, self.n, self.known = Law.of(kept, own), weights.size(known), weights.share(known)
        self.sd = float(standard_deviations(kept, own)) if len(kept) else 0.0
        self.mean = float(np.average(kept, weights=own)) if len(kept) else 0.0
        # The fourth moment says how well a sample tells a standard deviation; heavy tails hardly do.
        fourth = np.average(((kept - self.mean) / self.sd) ** 4, weights=own) if self.sd > 0 else 0.0
        self.wide = max(float(fourth) - 1, 0.0)
        # Between two values, so that a little noise does not carry a value that many records share across.
        x, upto = self.law
        upto = np.arange(1, len(x) + 1) / max(len(x), 1) if upto is None else upto
        steps = np.flatnonzero(x[1:] > x[:-1])
        near = (
            np.unique(np.searchsorted(upto[steps[:-1]] + 1e-12, np.arange(1, groups) / groups)) if len(steps) else steps
        )
        self.cuts = (x[steps[near]] + x[steps[near] + 1]) / 2
        self.size = len(self.cuts) + 2
        self.tails = []
        for sign, side, share in ((1, x, upto), (-1, -x[::-1], 1 - np.append(0.0, upto[:-1])[::-1])):
            for level in LEVELS:
                if level * len(x) >= FEW:
                    below = int(np.searchsorted(side, side[np.searchsorted(share, level * (1 + 1e-12), side="right")]))
                    if below >= FEW / 2:
                        self.tails.append((sign, (side[below - 1] + side[below]) / 2, float(share[below - 1])))

    def score_column(self, column: pd.Series, which: str, weights: _Weights) -> tuple[dict[str, float], Ints]:
        values = offsets_with_nan(self.who, column, self.least, which)
        known = ~np.isnan(values)
        codes = np.where(known, np.searchsorted(self.cuts, values), self.size - 1)
        own, kept = weights.take(known), values[known]
        law, size = Law.of(kept, own), weights.size(known)
        lost = _share_kept(abs(weights.share(known) - self.known), self.known, 1 / weights.size() + 1 / self.rows)
        if self.sd == 0:
            same = self.n == 0 or (len(kept) > 0 and bool((kept == self.law.values[0]).all()))
            holes = _missingness_kept(self.known, weights.share(known), 1 / weights.size() + 1 / self.rows)
            return {} if same and lost == holes == 1 else {"score": lost * holes * float(same)}, codes
        if not len(kept):
            return dict.fromkeys(("shape", "mean", "spread", "score"), 0.0), codes
        noise = np.sqrt(1 / self.n + 1 / size)
        shift = abs(float(np.average(kept, weights=own)) - self.mean) / self.sd
        scores = {
            "shape": 1 - min(max(kolmogorov(self.law, law) - 1.36 * noise, 0.0) / max(1 - 1.36 * noise, 1e-9), 1.0),
            "mean": float(np.exp(-max(shift - 2 * noise, 0.0))),
            "spread": _similarity_of_sizes(float(standard_deviations(kept, own)), self.sd, np.sqrt(self.wide) * noise),
        }
        if self.tails:
            scores["tails"] = float(np.mean([self._tail_similarity(law, size, *tail) for tail in self.tails]))
        return scores | {"score": lost * float(np.prod(list(scores.values()))) ** (1 / len(scores))}, codes

    def _tail_similarity(self, law: Law, size: float, sign: int, edge: float, share: float) -> float:
        at = np.nextafter(edge, -np.inf) if sign > 0 else -edge
        below = float(law.below(np.array([at]))[0])
        noise = 2 * np.sqrt((1 - share) / share * (1 / self.n + 1 / size))
        return _similarity_of_sizes(max(below if sign > 0 else 1 - below, 0.5 / size), share, noise)


class _Category(_Column):
    """A column that is no number; categories that are too rare to be judged share a group."""

    def __init__(self, who: str, column: pd.Series, groups: int, weights: _Weights) -> None:
        codes, self.levels = factorise(column)
        counts = np.bincount(codes[codes >= 0], minlength=len(self.levels))
        kept = counts >= FEW / 2
        # Categories that only the release has are rare, too; missing values have the last group.
        self.size, self.rows = int(kept.sum()) + 2, weights.size()
        self.place = np.append(np.where(kept, np.cumsum(kept) - 1, self.size - 2), self.size - 2)
        self.share, self.all = self._category_shares(column, weights), _shares_of_codes(codes, weights)

    def _category_codes(self, column: pd.Series) -> Ints:
        return np.where(column.notna(), self.place[self.levels.codes(column)], self.size - 1)

    def _category_shares(self, column: pd.Series, weights: _Weights) -> Array:
        return frequencies(self._category_codes(column), self.size, weights.each)

    def score_column(self, column: pd.Series, which: str, weights: _Weights) -> tuple[dict[str, float], Ints]:
        codes, p, q = self._category_codes(column), self.share, self._category_shares(column, weights)
        v = 1 / self.rows + 1 / weights.size()
        lost = _share_kept(abs(p[-1] - q[-1]), p[-1], v)
        known, there = 1 - p[-1], 1 - q[-1]
        if known == 0:
            return {} if lost == 1 else {"score": lost}, codes
        if there == 0:
            return dict.fromkeys(("shape", "spread", "score"), 0.0), codes
        p, q, v = p[:-1] / known, q[:-1] / there, v / known
        distance = 0.5 * float(np.abs(p - q).sum())
        if self.all.max() == 1:
            holes = _missingness_kept(known, there, 1 / self.rows + 1 / weights.size())
            return {} if distance == 0 and lost == holes == 1 else {"score": lost * holes * (1 - distance)}, codes
        # Twice the standard error: of the sum of |p - q| / 2, and of the logarithm of the diversity.
        sd = np.sqrt(np.maximum(p * (1 - p), 0.0) * v)
        noise = 0.4 * float(sd.sum()) + 0.6 * float(np.sqrt(sd @ sd))
        same = float(self.all @ self.all)
        wide = 4 * np.sqrt(max(float((self.all**3).sum()) - same**2, 0.0) * v) / (1 - same)
        often = _shares_of_codes(pd.factorize(column)[0], weights)
        scores = {
            "shape": 1 - min(max(distance - noise, 0.0) / max(1 - noise, 1e-9), 1.0),
            "spread": _similarity_of_sizes(1 - float(often @ often) if len(often) > 1 else 0.0, 1 - same, wide),
        }
        return scores | {"score": lost * float(np.sqrt(scores["shape"] * scores["spread"]))}, codes


def _shares_of_codes(codes: Ints, weights: _Weights) -> Array:
    """Shares of the codes among records that have one; those that nobody has are left out."""
    known = codes >= 0
    found = np.bincount(codes[known], weights=weights.take(known))
    return found[found > 0] / max(float(found.sum()), 1e-300)


def _similarity_of_sizes(a: float, b: float, noise: float) -> float:
    """The smaller over the larger, as far as their logarithms differ by more than noise."""
    return float(np.exp(-max(abs(np.log(a / b)) - noise, 0.0))) if a > 0 else 0.0


def _missingness_kept(share: float, released: float, v: float) -> float:
    """How much of the variation between known and missing a column keeps whose known values are all the same."""
    if share in (0.0, 1.0):
        return 1.0
    own = share * (1 - share)
    return _similarity_of_sizes(released * (1 - released), own, 2 * abs(1 - 2 * share) * np.sqrt(v / own))


def _share_kept(change: float, share: float, v: float) -> float:
    """1 minus the change of a share, as far as it is more than noise."""
    return 1 - max(float(change) - 2 * np.sqrt(max(share * (1 - share), 0.0) * v), 0.0)


def _pair_probabilities(columns: dict[Hashable, _Column], codes: list[Ints], weights: Array | None) -> Array:
    """P(a, b) of all pairs of groups of all columns, one block per pair of columns; P(a) stands on the diagonal."""
    sizes = [c.size for c in columns.values()]
    start = np.cumsum([0, *sizes])
    rows = len(codes[0])
    total = np.zeros((start[-1], start[-1]))
    with one_thread():
        for first in range(0, rows, ROWS):
            part = np.stack([c[first : first + ROWS] for c in codes], axis=1) + start[:-1]
            # Counts up to ROWS are exact in single precision, sums of weights are not.
            member = np.zeros((len(part), start[-1]), dtype=np.float32 if weights is None else np.float64)
            member[np.arange(len(part))[:, None], part] = 1
            own = member if weights is None else member * weights[first : first + ROWS, None]
            total += own.T @ member
    return total / (max(rows, 1) if weights is None else weights.sum())


def _dependence_kept(before: Array, after: Array, sizes: list[int], v: float) -> float | None:
    """How much of what the groups have beyond independence is kept; None if that is no more than noise."""
    start = np.cumsum([0, *sizes[:-1]])

    def excess(joint: Array) -> Array:
        return joint - np.outer(np.diag(joint), np.diag(joint))

    def sums_by_pair(cells: Array) -> Array:
        sums = np.add.reduceat(np.add.reduceat(cells, start, axis=0), start, axis=1)
        return sums[np.triu_indices(len(sizes), 1)] / 2

    share = np.diag(before)
    sd = np.sqrt(np.maximum(share * (1 - share), 0))
    first, second = excess(before), excess(after)
    noise = sums_by_pair(np.outer(sd, sd)) * 2 * np.sqrt(v)
    whole = np.maximum(sums_by_pair(np.abs(first)) - noise, 0).sum()
    lost = np.maximum(sums_by_pair(np.abs(first - second)) - noise, 0).sum()
    return None if whole <= 1e-9 else float(max(1 - lost / whole, 0.0))  # less is rounding
