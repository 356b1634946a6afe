"""Probabilistic record linkage after Fellegi and Sunter, with the probabilities estimated by EM."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.special import expit

from ...checks import check_integer, check_mapping, check_number, checked, suggest
from ...errors import InputError, UnsupportedError
from ...numerics.compiled import compiled
from ...protocols import Array
from .. import frames
from ..base import Measured
from ..frames import Ints
from ..missing import KNOWN
from ..tables import cells
from .linkage import (
    PerColumn,
    check_assignment_size,
    check_number_per_column,
    check_pairs_option,
    exchanged_shares,
    named_columns,
    number_of_column,
)
from .records import PairedMeasure, RecordPairs, are_nobodys, risk_without_pairs

MOST_COLUMNS = 20
EDGE = 1e-12
"""Probabilities stay this far from 0 and 1, so that no pattern gets an infinite weight."""


@dataclass(frozen=True, eq=False)
class AgreementMixture:
    """Agreement probabilities of matches and non-matches, and the share of matches among all pairs."""

    m: Array
    """P(agreement | match), per column."""
    u: Array
    """P(agreement | no match), per column."""
    prevalence: float

    def weights(self, patterns: ArrayLike) -> Array:
        """Sum of log2(m/u) over agreements and log2((1 - m)/(1 - u)) over disagreements, for each pattern.

        Bit j of a pattern's number says that column j agrees.
        """
        none = np.log2((1 - self.m) / (1 - self.u))
        return _pattern_bits(patterns, len(self.m)) @ (np.log2(self.m / self.u) - none) + none.sum()

    def probabilities(self, patterns: ArrayLike) -> Array:
        """Posterior probability that a pair with each pattern is a match."""
        return expit(self.weights(patterns) * np.log(2) + np.log(self.prevalence / (1 - self.prevalence)))


def fit_mixture(counts: ArrayLike, *, prevalence: float, m: float = 0.9, iterations: int = 200) -> AgreementMixture:
    """Fit the two-class mixture to counts of agreement patterns by EM.

    Assumes that columns agree independently of one another within matches and within non-matches. Starts at ``m`` for
    every column, at the observed agreement rates for u, and at ``prevalence``. The likelihood has several maxima; the
    start decides which one is found.

    Parameters
    ----------
    counts : array of length 2^p
        Pairs with each pattern; bit j of the index says that column j agrees.
    prevalence : float
        Share of matches at the start, 1/n for files of the same n records.

    >>> fit = fit_mixture([5.0, 1.0, 1.0, 3.0], prevalence=1 / 3)
    >>> bool(fit.m[0] > fit.u[0])
    True
    """
    pairs = np.asarray(counts, dtype=np.float64)
    p = int(pairs.size).bit_length() - 1
    shaped = pairs.ndim == 1 and p >= 1 and pairs.size == 1 << p
    if not shaped or np.any(pairs < 0) or not np.isfinite(pairs).all() or pairs.sum() <= 0:
        what = "counts must be 2^p numbers that are not negative"
        raise InputError(what, f"shape {pairs.shape}", "Count pairs per agreement pattern")
    occurring = np.flatnonzero(pairs)  # of 2^p patterns few do
    pairs, bits = pairs[occurring], _pattern_bits(occurring, p)
    total = pairs.sum()
    fit = AgreementMixture(
        np.full(p, check_number("m", m, low=0, high=1, open_low=True, open_high=True)),
        _inside_unit_interval(pairs @ bits / total),
        check_number("prevalence", prevalence, low=0, high=1, open_low=True, open_high=True),
    )
    for _ in range(check_integer("iterations", iterations, low=0)):
        match = fit.probabilities(occurring) * pairs
        rest = pairs - match
        share = match.sum()
        if share <= 0 or share >= total:
            break
        fit = AgreementMixture(
            _inside_unit_interval(match @ bits / share),
            _inside_unit_interval(rest @ bits / rest.sum()),
            float(np.clip(share / total, EDGE, 1 - EDGE)),
        )
    return fit


@dataclass(frozen=True, repr=False)
class FellegiSunter(PairedMeasure):
    """Share of released records that probabilistic linkage links to their own original.

    Every pair of a released and an original record is described by which columns agree. EM splits the pairs into
    matches and non-matches without knowing the truth, and every released record is linked to the original with the
    largest weight; a link shared by k originals counts 1/k. Columns are taken to agree independently of one another
    given the match status; correlated columns make the fitted probabilities too sure of themselves.

    A release with another number of rows and no row labels of the original, as a synthetic file is, has no true pairs.
    A row that equals an original is then taken for its copy. The other rows count by the posterior probability of their
    best link, as far as it is larger than that of the best links between different originals: another sample has a
    value near 0. ``error`` is the standard error; ``parts`` has the share of ``copies``, and of the other rows the mean
    probability, ``nearer``, and that of another sample, ``chance``.

    Parameters
    ----------
    known : list of column names, optional
        The columns that are compared; all of them by default, at most 20.
    tolerance_sd : number or mapping from column to number, default 0.05
        Two numbers agree if they differ by at most this many of the original's standard deviations.
    tolerance : mapping from column to number, optional
        The same in the column's own unit; it goes before ``tolerance_sd``. Categories agree if they are equal.
    tolerance_share : number or mapping from column to number, optional
        Two numbers agree if they differ by at most this share of the original's, such as 0.05 for 5 %; it goes before
        ``tolerance_sd``.
    similar : number or mapping from column to number, optional
        Texts agree if their Jaro-Winkler similarity is at least this much, such as 0.9; 1 asks for equal ones. Needs
        rapidfuzz, the extra ``names``.
    one_to_one : bool
        Link all records at once so that no two share a partner and the sum of weights is largest. Holds the matrix of
        all weights. Rows that are equal within a file share their partners; other ties are settled by the solver. Needs
        true pairs.
    paired : bool
        False if rows are nobody's though the release has as many as the original, as those of a synthetic file.
    start_m : float
        Agreement probability of matches that EM starts from.
    iterations : int
        EM steps.

    Notes
    -----
    Missing values, ``missing="pairwise"``: a missing value agrees with nothing, which is the same for all originals
    where a released record has a blank.

    ``records`` gives each released record's share. ``parts`` holds the prevalence, and ``expected``: the mean
    posterior probability of the chosen links, which an intruder can compute without the truth. ``table`` has m, u and
    the weight of agreement per column. All pairs are counted, none is stored: time grows with the number of agreeing
    pairs and memory with the number of records and with 2^columns. Fellegi and Sunter (1969); Winkler (2004), section
    4.

    Examples
    --------
    >>> round(float(FellegiSunter()([0.0, 10.0, 20.0], [0.1, 10.1, 50.0])), 6)
    0.777778
    """

    label: ClassVar[str] = "fellegi_sunter"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Fellegi and Sunter (1969); Winkler (2004), section 4"

    columns_by_name: ClassVar[bool] = True
    missing_choices: ClassVar[tuple[str, ...]] = KNOWN
    pairs: ClassVar[str] = "wanted"

    known: frames.Names = checked(None, frames.as_names)
    tolerance_sd: PerColumn = checked(
        0.05, lambda name, value: 0.0 if value is None else check_number_per_column(name, value)
    )
    tolerance: PerColumn = checked(None, check_number_per_column)
    tolerance_share: PerColumn = checked(
        None, lambda name, value: check_number_per_column(name, value, high=1.0 - 1e-9)
    )
    similar: PerColumn = checked(None, check_number_per_column, high=1.0)
    one_to_one: bool = False
    paired: bool = True
    start_m: float = checked(0.9, check_number, low=0, high=1, open_low=True, open_high=True)
    iterations: int = checked(200, check_integer, low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tolerance is not None:
            do = 'It has a unit: give a number per column, tolerance={"age": 2}, or use tolerance_sd'
            check_mapping("tolerance", self.tolerance, do)
        check_pairs_option(self.one_to_one, self.paired)

    def begin(self, original: pd.DataFrame) -> pd.DataFrame:
        """Check the columns; agreement needs both files."""
        if original.shape[1] > MOST_COLUMNS:
            what = f"{self.name} counts 2^columns patterns and takes at most {MOST_COLUMNS} columns"
            raise UnsupportedError(what, original.shape[1], "Choose some with known=[...]")
        numbers = {c: frames.is_number(original[c]) for c in original.columns}
        for k in named_columns(self.tolerance_sd, self.tolerance, self.tolerance_share):
            if not numbers.get(k, False):
                do = suggest(str(k), [str(c) for c, number in numbers.items() if number])
                raise InputError("A tolerance is for a numeric column that is compared", str(k), do)
        for k in named_columns(self.similar):
            if numbers.get(k, True):
                do = suggest(str(k), [str(c) for c, number in numbers.items() if not number])
                raise InputError("similar is for a column of text that is compared", str(k), do)
        return original

    def compare(self, state: pd.DataFrame, released: pd.DataFrame) -> Measured:
        """Count patterns, fit, link."""
        own = np.full(len(released), -1, dtype=np.int64)
        alone = not self.paired or are_nobodys(released)
        if not alone:
            pairs = RecordPairs.of(self.name, state, released)
            own[pairs.released] = pairs.original
        fit, share, best, ties = self._fit_and_link(state, released, own)
        chance = fit.probabilities(best)
        table = pd.DataFrame({"m": fit.m, "u": fit.u, "weight": np.log2(fit.m / fit.u)}, index=state.columns)
        parts = {"prevalence": fit.prevalence, "expected": float(chance.mean())}
        if not alone:
            records = np.where(own >= 0, share, np.nan)
            return Measured(float(share[own >= 0].mean()), parts=parts, table=table, records=records)
        (ours, theirs), size = cells.joint_codes_of_tables(state, released)
        equal = np.bincount(ours, minlength=size)
        different, first = np.unique(ours, return_index=True)
        between = self._link_probability_between_originals(state.iloc[first], fit, equal[different])
        found = risk_without_pairs(equal[theirs] > 0, 1.0 / ties, chance / ties, *between)
        return Measured(float(found.risk.mean()), found.error, parts | found.parts, table, found.risk)

    def _link_probability_between_originals(
        self, original: pd.DataFrame, fit: AgreementMixture, often: Ints
    ) -> tuple[float, float]:
        """Mean probability of the best links between different originals, and its standard error."""
        task, n = self._agreement_of_columns(original, original), len(original)
        weights = fit.weights(np.arange(1 << len(fit.m)))
        _, best, ties = best_links(*task, weights, np.arange(n), n, True)
        each = np.where(ties > 0, fit.probabilities(best) / np.maximum(ties, 1), 0.0)
        mean = float(np.average(each, weights=often))
        return mean, float(np.sqrt(np.average((each - mean) ** 2, weights=often) / n))

    def match_probabilities(self, original: frames.Data, released: frames.Data) -> Array:
        """Posterior probability that each released record's best link is a match, as an intruder would compute it."""
        prepared = self.prepare(original)
        table = prepared.columns_used_of(released)
        frames.refuse_missing(self.name, "the release", table, frames.missing_rows(table))
        fit, _, best, _ = self._fit_and_link(prepared.state, table, np.full(len(table), -1, dtype=np.int64))
        return fit.probabilities(best)

    def _fit_and_link(
        self, original: pd.DataFrame, released: pd.DataFrame, own: Ints
    ) -> tuple[AgreementMixture, Array, Ints, Ints]:
        """The mixture, and per released record its own original's share of the best links, their pattern and number."""
        task, n = self._agreement_of_columns(original, released), len(original)
        counts = count_agreement_patterns(*task, n)
        prevalence = min(1.0 / n, 0.5)
        fit = fit_mixture(counts, prevalence=prevalence, m=self.start_m, iterations=self.iterations)
        # Patterns that do not occur are never looked up.
        occurring = np.flatnonzero(counts)
        weights = np.full(len(counts), -np.inf)
        weights[occurring] = fit.weights(occurring)
        if not self.one_to_one:
            return fit, *best_links(*task, weights, own, n, False)
        check_assignment_size(self.name, len(released), n, "weights")
        patterns = all_patterns(*task, n)
        # Ties are many, and the solver settles them by the order of rows: let values alone give that.
        columns = [self._agreement_of_values(c, original[c], released[c], None)[:2] for c in original.columns]
        ours, theirs = (np.lexsort(side) for side in zip(*columns, strict=True))
        rows, linked = linear_sum_assignment(weights[patterns[np.ix_(theirs, ours)]], maximize=True)
        rows, linked = theirs[rows], ours[linked]
        known, share, best = own >= 0, np.zeros(len(released)), np.zeros(len(released), dtype=np.int64)
        (kinds_b, kinds_a), _ = cells.joint_codes_of_tables(released, original)
        share[known] = exchanged_shares(rows, linked, kinds_b, kinds_a, np.flatnonzero(known), own[known])
        best[rows] = patterns[rows, linked]
        return fit, share, best, np.ones(len(released), dtype=np.int64)

    def _agreement_of_columns(self, original: pd.DataFrame, released: pd.DataFrame) -> tuple[Ints, Ints, Ints]:
        """Lists of originals, and per column and released record the stretch of them that agrees with it."""
        shape, members, at = (original.shape[1], len(released)), [], 0
        first, last = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
        for j, label in enumerate(original.columns):
            listed, low, high = self._agreement_of_column(label, original[label], released[label])
            members.append(listed)
            first[j], last[j] = low + at, high + at
            at += len(listed)
        return np.concatenate(members), first, last

    def _agreement_of_column(self, label: Hashable, a: pd.Series, b: pd.Series) -> tuple[Ints, Ints, Ints]:
        """The same for one column."""
        wanted = number_of_column(self.similar, label)
        if wanted is not None and not frames.is_number(a):
            return _similar_texts(self.name, a, b, wanted)
        share = number_of_column(self.tolerance_share, label)
        left, right, width = self._agreement_of_values(label, a, b, share)
        order = np.argsort(left, kind="stable")
        ranked = left[order]
        if share is not None and frames.is_number(a):
            ends = right / (1.0 + share), right / (1.0 - share)
            low, high, room = np.minimum(*ends), np.maximum(*ends), 1e-12 * np.abs(right)
        else:
            # The room lets a difference of exactly the tolerance agree, in whatever unit it is written.
            low, high = right - width, right + width
            room = width * 1e-9 + 1e-12 * np.abs(right) * (width > 0)
        return order, np.searchsorted(ranked, low - room, "left"), np.searchsorted(ranked, high + room, "right")

    def _agreement_of_values(
        self, label: Hashable, a: pd.Series, b: pd.Series, share: float | None
    ) -> tuple[Array, Array, float]:
        if b.notna().any():
            frames.refuse_mixed(self.name, a, b)
        if not frames.is_number(a):
            (first, second), _ = frames.joined_codes(a, b)
            left, right = (np.where(c < 0, np.nan, c) for c in (first, second))
            return left, right, 0.0
        # Far from zero floats are coarse, but a share of a number is counted from zero.
        floats = frames.offsets_with_nan if share is None else frames.floats_with_nan
        left, right = floats(self.name, a, a), floats(self.name, b, a, "the release")
        width = number_of_column(self.tolerance, label)
        if width is not None:
            return left, right, width
        size = number_of_column(self.tolerance_sd, label, 0.05)
        there = left[~np.isnan(left)]
        return left, right, (size or 0.0) * float(frames.standard_deviations(there)) if len(there) else 0.0


def _similar_texts(who: str, a: pd.Series, b: pd.Series, wanted: float) -> tuple[Ints, Ints, Ints]:
    """Originals whose text is similar to each released one: each pair of different texts is looked at once."""
    try:
        from rapidfuzz import distance, process
    except ImportError:
        raise UnsupportedError(
            f"{who} needs rapidfuzz for similar texts", do="pip install 'ruvdecision[names]'"
        ) from None
    if b.notna().any():
        frames.refuse_mixed(who, a, b)
    (code, ours), (released, theirs) = frames.factorise(a), frames.factorise(b)
    order = np.argsort(code, kind="stable")
    edges = np.searchsorted(code[order], np.arange(len(ours) + 1))
    texts, listed, sizes = [str(v) for v in ours.values], [], []
    for value in theirs.values:
        near = process.cdist([str(value)], texts, scorer=distance.JaroWinkler.similarity, score_cutoff=wanted)[0]
        found = [order[edges[c] : edges[c + 1]] for c in np.flatnonzero(near >= max(wanted, 1e-9))]
        listed += found
        sizes.append(sum(map(len, found)))
    ends = np.append(0, np.cumsum(sizes)).astype(np.int64)
    return np.concatenate([*listed, order[:0]]), ends[released], np.where(released < 0, ends[-1], ends[released + 1])


def _agreement_patterns(members: Ints, first: Ints, last: Ints, i: int, code: Ints, touched: Ints) -> int:
    """Agreement pattern of released record i with each original, and how many originals agree somewhere."""
    size = 0
    for j in range(len(first)):
        for t in range(first[j, i], last[j, i]):
            k = members[t]
            if code[k] == 0:
                touched[size] = k
                size += 1
            code[k] |= 1 << j
    return size


def _agreeing_pairs(members: Ints, first: Ints, last: Ints, *_: Any) -> float:
    return float((last - first).sum()) + first.size


@compiled(_agreement_patterns, steps=_agreeing_pairs)
def count_agreement_patterns(members: Ints, first: Ints, last: Ints, n: int) -> Ints:
    """Pairs with each agreement pattern. Only pairs that agree somewhere are touched."""
    counts = np.zeros(1 << len(first), dtype=np.int64)
    code = np.zeros(n, dtype=np.int64)
    touched = np.empty(n, dtype=np.int64)
    for i in range(first.shape[1]):
        size = _agreement_patterns(members, first, last, i, code, touched)
        counts[0] += n - size
        for t in range(size):
            counts[code[touched[t]]] += 1
            code[touched[t]] = 0
    return counts


@compiled(_agreement_patterns, steps=_agreeing_pairs)
def all_patterns(members: Ints, first: Ints, last: Ints, n: int) -> Ints:
    """Agreement pattern of every released record with every original."""
    patterns = np.zeros((first.shape[1], n), dtype=np.int64)
    touched = np.empty(n, dtype=np.int64)
    for i in range(first.shape[1]):
        _agreement_patterns(members, first, last, i, patterns[i], touched)
    return patterns


@compiled(_agreement_patterns, steps=_agreeing_pairs)
def best_links(
    members: Ints, first: Ints, last: Ints, weight: Array, own: Ints, n: int, apart: bool
) -> tuple[Array, Ints, Ints]:
    """Own record's share of the largest weight, the pattern with that weight and its number, per released record.

    ``apart``: the own record is no candidate.
    """
    m = first.shape[1]
    code = np.zeros(n, dtype=np.int64)
    touched = np.empty(n, dtype=np.int64)
    share = np.zeros(m)
    pattern = np.zeros(m, dtype=np.int64)
    number = np.zeros(m, dtype=np.int64)
    for i in range(m):
        size = _agreement_patterns(members, first, last, i, code, touched)
        rest = n - size
        if apart and own[i] >= 0 and code[own[i]] == 0:
            rest -= 1
        best = weight[0] if rest > 0 else -np.inf
        for t in range(size):
            c = code[touched[t]]
            if weight[c] > best and not (apart and touched[t] == own[i]):
                best = weight[c]
                pattern[i] = c
        room = 1e-9 * (1.0 + abs(best))
        ties = rest if rest > 0 and weight[0] >= best - room else 0
        for t in range(size):
            if weight[code[touched[t]]] >= best - room and not (apart and touched[t] == own[i]):
                ties += 1
        number[i] = ties
        if own[i] >= 0 and not apart and weight[code[own[i]]] >= best - room:
            share[i] = 1.0 / ties
        for t in range(size):
            code[touched[t]] = 0
    return share, pattern, number


def _pattern_bits(patterns: ArrayLike, p: int) -> Array:
    return ((np.asarray(patterns)[:, None] >> np.arange(p)) & 1).astype(np.float64)


def _inside_unit_interval(x: Array) -> Array:
    return np.clip(x, EDGE, 1 - EDGE)
