"""Risk from rare combinations of keys: k-anonymity, l-diversity, sample uniques and minimal sample uniques.

All look at the release alone. The models that go from the sample to the population are in `population_uniques`.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...checks import check_choice, check_integer, check_number, checked
from ...errors import UnsupportedError
from ...masks.localsuppress import key_matches
from ...protocols import Array
from .. import frames
from ..base import Measured, SummedMeasure
from ..frames import Ints, Names
from ..missing import FILLED, KEYED
from ..sums import Counts
from ..tables import cells
from .records import RecordMeasure


@dataclass(frozen=True, repr=False)
class KeyMeasure(RecordMeasure):
    """A risk from the key columns of the release; the original only says which columns there are."""

    missing_choices: ClassVar[tuple[str, ...]] = FILLED
    own_missing: ClassVar[tuple[str, ...]] = ("category",)
    release_only: ClassVar[bool] = True

    keys: Names = checked(None, frames.as_names)

    def begin(self, original: pd.DataFrame) -> None:
        """Nothing depends on the original."""


@dataclass(frozen=True, repr=False)
class _CountedKeys(KeyMeasure, SummedMeasure):
    """A risk from how often each combination of keys occurs, which files in pieces can say, too."""

    def partial(self, piece: pd.DataFrame, plan: None, which: str) -> Counts:
        if self.missing == "wildcard" and frames.missing_rows(piece) is not None:
            what = f"{self.name} with wildcards compares every record with every other, which is no sum over records"
            raise UnsupportedError(what, do='Leave chunksize= out, or write missing="category"')
        return Counts.of(piece)


@dataclass(frozen=True, repr=False)
class _MatchedKeys(_CountedKeys):
    """A risk from how many records agree with each record; a missing key agrees with everything by default."""

    missing_choices: ClassVar[tuple[str, ...]] = KEYED
    own_missing: ClassVar[tuple[str, ...]] = ("wildcard", "category")

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
        parts = {"combinations": float(cells.joint_codes(released)[1]), "expected": float(records.sum())}
        return Measured(float(each.min()), parts=parts, records=records)

    def total(self, original: None, released: Counts, plan: None) -> Measured:
        sizes = released.count
        return Measured(float(sizes.min()), parts={"combinations": float(len(sizes)), "expected": float(len(sizes))})


@dataclass(frozen=True, repr=False)
class LDiversity(_CountedKeys):
    """The least diversity of a sensitive column among records that share a combination of keys, l.

    ``"distinct"``: the number of different values. ``"entropy"``: the exponential of their entropy. ``"recursive"``:
    the largest l such that the most frequent value is rarer than ``c`` times all from the l-th most frequent on; 0 if
    none is. With l = 1 a link, right or wrong, gives the value away. `per_record` gives the largest share that a value
    has among the records that agree with this one: an intruder's best guess is right that often.

    Parameters
    ----------
    sensitive : name
        The column to protect.
    keys : names, optional
        The columns that an intruder knows; all others by default.
    kind : "distinct", "entropy" or "recursive"
    c : float
        The constant of recursive diversity.

    Examples
    --------
    >>> file = pd.DataFrame({"age": [1, 1, 2, 2], "ill": ["a", "b", "a", "a"]})
    >>> float(LDiversity("ill")(file, file))
    1.0
    """

    label: ClassVar[str] = "l_diversity"
    direction: ClassVar[str] = "higher"
    reference: ClassVar[str] = "Machanavajjhala, Kifer, Gehrke and Venkitasubramaniam (2007)"

    # The sensitive column comes first for the caller; dataclass order is by inheritance, so __init__ is written out.
    sensitive: Hashable = checked(None, frames.one_name, required=True)
    kind: str = checked("distinct", check_choice, options=("distinct", "entropy", "recursive"))
    c: float = checked(1.0, check_number, low=0, open_low=True)

    def __init__(
        self,
        sensitive: Hashable = None,
        keys: Names = None,
        kind: str = "distinct",
        c: float = 1.0,
        *,
        name: str = "",
        missing: str = "",
    ) -> None:
        self.__dict__.update(sensitive=sensitive, keys=keys, kind=kind, c=c, name=name, missing=missing)
        self.__post_init__()

    def uses(self, original: pd.DataFrame) -> frames.Labels:
        """The keys and then the sensitive column."""
        return frames.pick_apart(self.name, ("keys", self.keys), ("sensitive", self.sensitive), original)

    def compare(self, state: None, released: pd.DataFrame) -> Measured:
        """Diversity of every combination, and the least."""
        return self._least(released, np.ones(len(released)))

    def total(self, original: None, released: Counts, plan: None) -> Measured:
        found = self._least(released.rows, released.count)
        return Measured(float(found), parts=found.parts)

    def _least(self, released: pd.DataFrame, often: Array) -> Measured:
        (group,), groups = cells.joint_codes(released.iloc[:, :-1])
        (value,), values = cells.joint_codes(released.iloc[:, -1:])
        pair, where_pair = np.unique(group * values + value, return_inverse=True)
        counts = np.bincount(where_pair.reshape(-1), weights=often).astype(np.int64)
        where = pair // values
        size = np.bincount(group, weights=often, minlength=groups)
        share = counts / size[where]
        if self.kind == "distinct":
            diversity = np.bincount(where, minlength=groups).astype(np.float64)
        elif self.kind == "entropy":
            diversity = np.exp(-np.bincount(where, weights=share * np.log(share), minlength=groups))
        else:
            diversity = _recursive(where, counts, groups, self.c)
        top = np.zeros(groups)
        np.maximum.at(top, where, share)
        parts = {"combinations": float(groups), "mean": float(np.average(diversity[group], weights=often))}
        return Measured(float(diversity.min()), parts=parts, records=top[group])


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

    def total(self, original: None, released: Counts, plan: None) -> Measured:
        return _number_or_share(self.share, float(np.sum(released.count == 1)), float(released.count.sum()))


@dataclass(frozen=True, repr=False)
class SpecialUniques(KeyMeasure):
    """How many released records are unique on a few of the keys already: those with a minimal sample unique.

    A set of columns is a minimal sample unique of a record if the record is the only one with its values on them, and
    is not on any smaller part of them. The smaller the set and the more such sets, the easier the record is to find.
    `per_record` gives the SUDA score: the sum, over a record's minimal sample uniques of k columns, of the product of
    (columns - i) for i from k to ``largest``. Elliot, Manning and Ford (2002).

    Parameters
    ----------
    keys : names, optional
        The columns that an intruder may know; all by default.
    largest : int
        The largest set that is looked at. All sets up to this size are; their number grows fast with the keys.
    share : bool
        Give the share of records instead of their number.

    Notes
    -----
    ``parts`` has the number of minimal sample uniques per size, ``table`` how often each column takes part in one.

    Examples
    --------
    >>> file = [[1, 1], [1, 2], [2, 1], [2, 2], [3, 1]]
    >>> float(SpecialUniques(largest=1)(file, file))
    1.0
    """

    label: ClassVar[str] = "special_uniques"
    reference: ClassVar[str] = "Elliot, Manning and Ford (2002); Winkler (2004), section 4"

    largest: int = checked(3, check_integer, low=1)
    share: bool = False

    def compare(self, state: None, released: pd.DataFrame) -> Measured:
        """Look at all sets of columns, small ones first."""
        (codes,), _ = cells.common_codes(released)
        n, p = codes.shape
        most = min(self.largest, p)
        top = min(self.largest, p - 1)
        score, any_, parts = np.zeros(n), np.zeros(n, dtype=bool), {}
        taking = np.zeros(p, dtype=np.int64)
        # Uniqueness on a set implies it on every larger one, so only sets that are one smaller need a look.
        before: dict[tuple[int, ...], NDArray[np.bool_]] = {(): np.full(n, n == 1)}
        for k in range(1, most + 1):
            now, found = {}, 0
            worth = float(np.prod([p - i for i in range(k, top + 1)])) if k <= top else 1.0
            for chosen in itertools.combinations(range(p), k):
                (joint,), size = cells.merge([codes[:, chosen]])
                unique = np.bincount(joint, minlength=size)[joint] == 1
                now[chosen] = unique
                minimal = unique.copy()
                for part in itertools.combinations(chosen, k - 1):
                    minimal &= ~before[part]
                count = int(minimal.sum())
                found += count
                taking[list(chosen)] += count
                score += worth * minimal
                any_ |= minimal
            parts[f"size {k}"] = float(found)
            before = now
        table = pd.DataFrame({"minimal uniques": taking}, index=released.columns)
        return _number_or_share(self.share, float(any_.sum()), n, parts, table, score)


def _number_or_share(
    share: bool,
    number: float,
    rows: float,
    parts: dict[str, float] | None = None,
    table: pd.DataFrame | None = None,
    records: Array | None = None,
) -> Measured:
    both = {"number": number, "share": number / rows}
    return Measured(both["share" if share else "number"], 0.0, (parts or {}) | both, table, records)


def _recursive(where: Ints, counts: Ints, groups: int, c: float) -> Array:
    """Largest l with r1 < c (r_l + ... + r_m), counts r in falling order, for each group."""
    diversity = np.zeros(groups)
    order = np.lexsort((-counts, where))
    edges = np.append(np.flatnonzero(np.diff(where[order], prepend=-1)), len(order))
    for g in range(groups):
        r = counts[order[edges[g] : edges[g + 1]]]
        tails = np.cumsum(r[::-1])[::-1]
        fine = np.flatnonzero(r[0] < c * tails)
        diversity[g] = fine[-1] + 1 if len(fine) else 0
    return diversity
