"""Risk from rare combinations of keys: k-anonymity, sample uniques and minimal sample uniques.

All look at the release alone. The models that go from the sample to the population are in `population_uniques`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...checks import check_integer, check_number, checked
from ...errors import InputError, UnsupportedError
from ...masks.localsuppress import key_matches
from ...protocols import Array
from .. import frames
from ..base import Measured, SummedMeasure, Table
from ..frames import Data, Flags, Ints, Names
from ..missing import FILLED, KEYED
from ..sums import Counts
from ..tables import cells
from .minimal_uniques import minimal_uniques, minimal_uniques_by_pairs
from .records import RecordMeasure

MOST_BITS = 2**33
MOST_KEYS = 20
"""Sets of columns times records, and columns, for which one bit each is held."""
SMALL_SEARCH, ONE_SET = 200_000, 3_000
"""Sets times records that take arrays a few milliseconds, and what each set costs in records: the compiled search needs
half a second to be loaded in every process, and many to be compiled the first time."""


@dataclass(frozen=True, repr=False)
class KeyMeasure(RecordMeasure):
    """A risk from the key columns of the release; the original only says which columns there are."""

    missing_choices: ClassVar[tuple[str, ...]] = FILLED
    own_missing: ClassVar[tuple[str, ...]] = ("category",)
    release_only: ClassVar[bool] = True

    keys: Names = checked(None, frames.as_names)

    def __call__(self, original: Data, released: Data) -> Measured:
        """Compute the measure for one release."""
        plain = self.whole_number_columns(original, released) if self.by is None else None
        found = None if plain is None else self.from_whole_numbers(plain)
        return super().__call__(original, released) if found is None else found

    def whole_number_columns(self, original: Data, released: Data) -> list[NDArray[Any]] | None:
        """The used columns of a release in which they are the original's and numbers, and None otherwise."""
        usual = self.missing == self.missing_choices[0]
        if usual and isinstance(original, pd.DataFrame) and isinstance(released, pd.DataFrame) and len(released):
            names = released.columns
            if names.is_unique and names.equals(original.columns):
                columns = [released[c] for c in self.uses(original) or names]
                if all(c.dtype in (np.int64, np.float64) for c in columns):
                    return [c.to_numpy() for c in columns]
        return None

    def from_whole_numbers(self, columns: Sequence[NDArray[Any]]) -> Measured | None:
        """The measure of a release of whole numbers, which are counted quicker than they are made ready.

        None where that is not so.
        """
        return None

    def begin(self, original: pd.DataFrame) -> None:
        """Nothing depends on the original."""


@dataclass(frozen=True, repr=False)
class CountedKeys(KeyMeasure, SummedMeasure):
    """A risk from how often each combination of keys occurs, which files in pieces can say, too."""

    def sums_of(self, piece: pd.DataFrame, plan: None, which: str) -> Counts:
        if self.missing == "wildcard" and frames.missing_rows(piece) is not None:
            what = f"{self.name} with wildcards compares every record with every other, which is no sum over records"
            raise UnsupportedError(what, do='Leave chunksize= out, or write missing="category"')
        return Counts.of(piece)


@dataclass(frozen=True, repr=False)
class _MatchedKeys(CountedKeys):
    """A risk from how many records agree with each record; a missing key agrees with everything by default."""

    missing_choices: ClassVar[tuple[str, ...]] = KEYED

    def sizes(self, released: pd.DataFrame) -> Ints:
        """How many records agree with each record, itself included."""
        wild = self.missing == "wildcard" and frames.missing_rows(released) is not None
        return np.asarray(key_matches(released)) if wild else cells.class_sizes(released)[0]


@dataclass(frozen=True, repr=False)
class KAnonymity(_MatchedKeys):
    """The smallest number of released records that share a combination of keys, k.

    A file is k-anonymous if every record agrees on the keys with at least k - 1 others. It protects identities in the
    file against exact matching on these keys, not values: see `LDiversity`. `per_record` gives one over the number of
    records that agree, an intruder's chance if he knows that the respondent is in the file.

    Parameters
    ----------
    keys : names, optional
        The columns that an intruder knows; all by default.
    missing : "wildcard", "category", "impute", "omit" or "raise"
        ``"wildcard"``: a missing key agrees with every value, as after local suppression (`LocalSuppress`): more blanks
        never raise the risk. ``"category"``: missing is a value of its own.

    Notes
    -----
    ``parts`` has the number of combinations and the expected number of re-identifications, the sum of `per_record`.

    Examples
    --------
    >>> file = [[1, 1], [1, 1], [2, 1], [2, 1], [2, 1]]
    >>> float(KAnonymity()(file, file))
    2.0
    """

    label: ClassVar[str] = "k_anonymity"
    direction: ClassVar[str] = "higher"
    range: ClassVar[tuple[float, float]] = (1.0, np.inf)
    reference: ClassVar[str] = "Sweeney (2002); Winkler (2004), section 5"

    def compare(self, state: None, released: pd.DataFrame) -> Measured:
        """Count."""
        each = self.sizes(released)
        records = 1.0 / each
        parts = {"combinations": float(cells.joint_codes_of_tables(released)[1]), "expected": float(records.sum())}
        return Measured(float(each.min()), parts=parts, records=records)

    def compare_sums(self, original: None, released: Counts, plan: None) -> Measured:
        sizes = released.count
        return Measured(float(sizes.min()), parts={"combinations": float(len(sizes)), "expected": float(len(sizes))})


@dataclass(frozen=True, repr=False)
class SampleUniques(_MatchedKeys):
    """How many released records are the only one with their combination of keys.

    A sample unique need not be unique in the population. With ten keys or more nearly every record of a real file is
    one, so the number says little by itself (Winkler 2004, section 4). `per_record` gives 1 for a unique, 0 otherwise.

    Parameters
    ----------
    keys : names, optional
        The columns that an intruder knows; all by default.
    share : bool
        Give the share of records instead of their number.

    Examples
    --------
    >>> float(SampleUniques()([1, 1, 2, 3], [1, 1, 2, 3]))
    2.0
    """

    label: ClassVar[str] = "sample_uniques"
    reference: ClassVar[str] = "Winkler (2004), section 4"

    share: bool = False

    def compare(self, state: None, released: pd.DataFrame) -> Measured:
        """Count."""
        unique = (self.sizes(released) == 1).astype(np.float64)
        return _number_or_share(self.share, float(unique.sum()), len(unique), records=unique)

    def compare_sums(self, original: None, released: Counts, plan: None) -> Measured:
        return _number_or_share(self.share, float(np.sum(released.count == 1)), float(released.count.sum()))


@dataclass(frozen=True, repr=False)
class SpecialUniques(KeyMeasure):
    """How many released records are unique on a few of the keys already: those with a minimal sample unique.

    A set of columns is a minimal sample unique of a record if the record is the only one with its values on them, and
    is not on any smaller part of them. The smaller the set and the more such sets, the easier the record is to find.
    `per_record` gives the SUDA score: the sum, over a record's minimal sample uniques of k columns, of the product of
    (columns - i) for i from k to ``largest``; with ``largest`` the number of keys that is sdcMicro's (columns - k)!.
    Elliot, Manning and Ford (2002).

    Parameters
    ----------
    keys : names, optional
        The columns that an intruder may know; all by default.
    largest : int
        The largest set that is looked at. All sets up to this size are; their number grows fast with the keys.
    share : bool
        Give the share of records instead of their number.
    fraction : float
        The sampling fraction that DIS-SUDA takes for granted.
    missing : "wildcard", "category", "pairwise", "impute", "omit" or "raise"
        ``"wildcard"``: a missing key agrees with every value. ``"pairwise"``: on each set only records without a
        missing value there are compared, as in sdcMicro; blanks may then make others unique. In both a missing key is
        in no minimal unique.

    Notes
    -----
    ``parts`` has the number of minimal sample uniques per size; ``DIS`` and ``DIS largest``, the sum and the largest of
    the DIS-SUDA scores (`dis`), estimates of the probability that a match with the record is right which spread
    Skinner and Elliot's over the records by their scores, and like it rise where blanks make pairs triples; and each
    column's ``contribution``, the percentage of all scores that comes from sets with it (they do not add up to 100).
    ``table`` has the same per column, `level_contributions` per value of each column.

    Examples
    --------
    >>> file = [[1, 1], [1, 2], [2, 1], [2, 2], [3, 1]]
    >>> float(SpecialUniques(largest=1)(file, file))
    1.0
    """

    label: ClassVar[str] = "special_uniques"
    reference: ClassVar[str] = "Elliot, Manning and Ford (2002); Winkler (2004), section 4"
    missing_choices: ClassVar[tuple[str, ...]] = (*KEYED[:2], "pairwise", *KEYED[2:])

    largest: int = checked(3, check_integer, low=1)
    share: bool = False
    fraction: float = checked(0.01, check_number, low=0, high=1, open_low=True)

    def compare(self, state: None, released: pd.DataFrame) -> Measured:
        """Look at all sets of columns, small ones first."""
        found = self._search_minimal_uniques(released)
        score, total = found.score, found.score.sum()
        dis = self._dis_score(released, found)
        worth = 100.0 * found.worth.sum(axis=0) / total if total else np.zeros(released.shape[1])
        parts = {f"size {k + 1}": float(count) for k, count in enumerate(found.sizes)}
        parts |= {"DIS": float(dis.sum()), "DIS largest": float(dis.max())}
        parts |= {f"contribution {c}": float(w) for c, w in zip(released.columns, worth, strict=True)}
        columns = {"minimal uniques": found.taking, "contribution": worth}
        table = partial(pd.DataFrame, columns, index=released.columns)
        return _number_or_share(self.share, float((score > 0).sum()), len(score), parts, table, score)

    def dis(self, original: Data, released: Data) -> Array:
        """DIS-SUDA score of each released record: how likely a match with it is right. Confidential."""
        used = self.prepare(original).columns_used_of(released)
        return self._dis_score(used, self._search_minimal_uniques(used))

    def level_contributions(self, original: Data, released: Data) -> pd.DataFrame:
        """Records, those with a minimal unique, and the contribution of each value of each column. Confidential."""
        used = self.prepare(original).columns_used_of(released)
        found, rows = self._search_minimal_uniques(used), []
        for j, label in enumerate(used.columns):
            each = pd.DataFrame({"records": 1, "special": found.worth[:, j] > 0, "contribution": found.worth[:, j]})
            by_level = each.groupby(used[label].to_numpy(), dropna=False).sum()
            by_level["contribution"] *= 100.0 / max(float(found.score.sum()), 1.0)
            rows.append(by_level)
        return pd.concat(rows, keys=used.columns, names=["column", "level"])

    def _search_minimal_uniques(self, released: pd.DataFrame) -> _SpecialUniques:
        """Minimal sample uniques of every record."""
        codes, holes = cells.column_codes(released)[0].T, None
        if self.missing in ("wildcard", "pairwise") and frames.missing_rows(released) is not None:
            holes = released.isna().to_numpy()
        n, p = codes.shape
        top = min(self.largest, p - 1)
        deep = min(self.largest, p)
        worths = np.array([float(math.prod(p - i for i in range(k, top + 1))) for k in range(deep + 1)])
        wild = holes is not None and self.missing == "wildcard"
        sets = sum(math.comb(p, k) for k in range(1, deep + 1))
        if holes is not None or sets * (n + ONE_SET) > SMALL_SEARCH:
            found = self._search_by_bits(codes if holes is None else np.where(holes, -1, codes), worths, wild)
            if found is not None:
                return found
        # Who agrees with whom, column by column, serves every set; where it is too large they are matched set by set.
        agreeing = None if holes is None or not wild or p * n * n > MOST_BITS // 4 else _agreeing_records(codes, holes)
        score, worth, taking, sizes = np.zeros(n), np.zeros((n, p)), np.zeros(p, dtype=np.int64), list[int]()
        # Uniqueness on a set implies it on every larger one, so only sets that are one smaller need a look.
        before: dict[tuple[int, ...], Flags] = {(): np.full(n, n == 1)}
        for k in range(1, min(self.largest, p) + 1):
            now, number = {}, 0
            each = float(worths[k])
            for chosen in itertools.combinations(range(p), k):
                if agreeing is None:
                    unique = self._unique_on_columns(released, codes, holes, chosen)
                else:
                    unique = ~np.bitwise_and.reduce(agreeing[list(chosen)]).any(axis=1)
                now[chosen] = unique
                minimal = unique.copy()
                for part in itertools.combinations(chosen, k - 1):
                    minimal &= ~before[part]
                rows = np.flatnonzero(minimal)
                number += len(rows)
                taking[list(chosen)] += len(rows)
                score[rows] += each
                worth[rows[:, None], list(chosen)] += each
            sizes.append(number)
            before = now
        return _SpecialUniques(score, worth, taking, sizes)

    @staticmethod
    def _search_by_bits(codes: Ints, worths: Array, wild: bool) -> _SpecialUniques | None:
        """The same by one bit per set of columns, where those are not too many."""
        p, deep = codes.shape[1], len(worths) - 1
        # Records that share all keys are alone nowhere: one of them stands for all.
        (joint,), size = cells.joint_codes_of_parts([codes + 1])
        many, first = np.bincount(joint, minlength=size), np.empty(size, dtype=np.int64)
        first[joint[::-1]] = np.arange(len(joint))[::-1]
        offsets = np.cumsum([0] + [math.comb(p, k) for k in range(deep + 1)])
        n, sets, alike = len(first), int(offsets[-1]), None if wild else many[joint]
        # By measurement; a set with blanks that agree with everything costs more.
        pairs = p <= MOST_KEYS and n + p * 2**p // 300 < (400 if wild else 5) * sets
        if not pairs and (wild or n * sets > MOST_BITS):
            return None
        # Columns with many values are split first: records are alone sooner, and leave the search.
        order = np.argsort(codes.max(axis=0), kind="stable")
        rows = np.ascontiguousarray(codes[first].T[order], dtype=np.int32)
        weight = np.minimum(many, 2).astype(np.int32)
        if pairs:
            found = minimal_uniques_by_pairs(rows, wild, weight, worths)
        else:
            binomial = np.array([[math.comb(a, b) for b in range(deep + 1)] for a in range(p)], dtype=np.int64)
            found = minimal_uniques(rows, int(codes.max(initial=0)) + 1, weight, worths, offsets, binomial)
        back = np.argsort(order)
        return _SpecialUniques(found[0][joint], found[1][joint][:, back], found[2][back], found[3][1:].tolist(), alike)

    def _unique_on_columns(
        self, released: pd.DataFrame, codes: Ints, holes: Flags | None, chosen: tuple[int, ...]
    ) -> Flags:
        """Which records are unique on a set of columns."""
        blank = None if holes is None else holes[:, chosen].any(axis=1)
        if blank is None or not blank.any():
            (joint,), size = cells.joint_codes_of_parts([codes[:, chosen]])
            return np.asarray(np.bincount(joint, minlength=size)[joint] == 1)
        if self.missing == "wildcard":
            return np.asarray(key_matches(released.iloc[:, list(chosen)]) == 1)
        found = np.zeros(len(codes), dtype=bool)
        if not blank.all():
            (joint,), size = cells.joint_codes_of_parts([codes[~blank][:, chosen]])
            found[~blank] = np.bincount(joint, minlength=size)[joint] == 1
        return found

    def _dis_score(self, released: pd.DataFrame, found: _SpecialUniques) -> Array:
        """DIS-SUDA, with the constants of the SUDA software."""
        score, size = found.score, found.alike
        if size is None:
            wild = self.missing == "wildcard" and frames.missing_rows(released) is not None
            size = np.asarray(key_matches(released)) if wild else cells.class_sizes(released)[0]
        paired, power = float((size == 2).sum()), 1.0 + (8.0 - released.shape[1]) / 20.0
        there = score > 0
        raised = score[there] ** power
        dis = np.zeros(len(score))
        with np.errstate(over="ignore"):  # a fraction may be next to nothing: then no unique is one of the population
            dis[there] = 1.0 / (1.0 + paired * (1.0 - self.fraction) / (self.fraction * raised * (1.0 / raised).sum()))
        return dis


def _agreeing_records(codes: Ints, holes: Flags) -> NDArray[np.uint64]:
    """Which others agree with each record on each column, one bit each; a hole agrees with everything."""
    n, p = codes.shape
    found = np.zeros((p, n, -(-n // 64) * 8), dtype=np.uint8)
    for c in range(p):
        agree = (codes[:, c, None] == codes[:, c]) | holes[:, c, None] | holes[:, c]
        np.fill_diagonal(agree, False)
        found[c, :, : -(-n // 8)] = np.packbits(agree, axis=1)
    return found.view(np.uint64)


class _SpecialUniques(NamedTuple):
    """Scores of the records, what each column adds to them, minimal uniques that each takes part in, and by size."""

    score: Array
    worth: Array
    taking: Ints
    sizes: list[int]
    alike: Ints | None = None
    """How many records share all keys with each, where that was counted."""


def _number_or_share(
    share: bool,
    number: float,
    rows: float,
    parts: dict[str, float] | None = None,
    table: Table = None,
    records: Array | None = None,
) -> Measured:
    both = {"number": number, "share": number / rows}
    return Measured(both["share" if share else "number"], 0.0, (parts or {}) | both, table, records)


def enough_population(population: int, n: int) -> None:
    """Raise an error for a population that is smaller than its sample."""
    if n > population:
        what = "population must be at least the number of released records"
        raise InputError(what, population, f"There are {n} records")
