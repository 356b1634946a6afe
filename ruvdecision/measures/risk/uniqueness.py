"""Risk from rare combinations of keys: k-anonymity, sample uniques and minimal sample uniques.

All look at the release alone. The models that go from the sample to the population are in `population_uniques`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...checks import check_integer, checked
from ...errors import UnsupportedError
from ...masks.localsuppress import key_matches
from ...protocols import Array
from .. import frames
from ..base import Measured, SummedMeasure
from ..frames import Names
from ..sums import Counts
from ..tables import cells
from .records import RecordMeasure


@dataclass(frozen=True, repr=False)
class KeyMeasure(RecordMeasure):
    """A risk from the key columns of the release; the original only says which columns there are."""

    policies: ClassVar[tuple[str, ...]] = ("raise", "omit", "category")
    release_only: ClassVar[bool] = True

    keys: Names = checked(None, frames.as_names)

    def begin(self, original: pd.DataFrame) -> None:
        """Nothing depends on the original."""


@dataclass(frozen=True, repr=False)
class CountedKeys(KeyMeasure, SummedMeasure):
    """A risk from how often each combination of keys occurs, which files in pieces can say, too."""

    def partial(self, piece: pd.DataFrame, plan: None, which: str) -> Counts:
        return Counts.of(piece)


@dataclass(frozen=True, repr=False)
class KAnonymity(CountedKeys):
    """The smallest number of released records that share a combination of keys, k.

    A file is k-anonymous if every record agrees on the keys with at least k - 1 others. It protects identities in the
    file against exact matching on these keys, not values: see `LDiversity`. `per_record` gives one over the number of
    records that agree, an intruder's chance if he knows that the respondent is in the file.

    Parameters
    ----------
    keys : names, optional
        The columns that an intruder knows; all by default.
    nan_policy : "raise", "omit", "category" or "wildcard"
        ``"category"``: missing is a value of its own. ``"wildcard"``: it agrees with every value, as after local
        suppression (`LocalSuppress`).

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
    policies: ClassVar[tuple[str, ...]] = ("raise", "omit", "category", "wildcard")

    def compare(self, state: None, released: pd.DataFrame) -> Measured:
        """Count."""
        each, sizes = cells.class_sizes(released)
        if self.nan_policy == "wildcard":
            each = np.asarray(key_matches(released))
        records = 1.0 / each
        parts = {"combinations": float(len(sizes)), "expected": float(records.sum())}
        return Measured(float(each.min()), parts=parts, records=records)

    def partial(self, piece: pd.DataFrame, plan: None, which: str) -> Counts:
        if self.nan_policy == "wildcard":
            what = f"{self.name} with wildcards compares every record with every other, which is no sum over records"
            raise UnsupportedError(what, do='Leave chunksize= out, or write nan_policy="category"')
        return super().partial(piece, plan, which)

    def total(self, original: None, released: Counts, plan: None) -> Measured:
        sizes = released.count
        return Measured(float(sizes.min()), parts={"combinations": float(len(sizes)), "expected": float(len(sizes))})


@dataclass(frozen=True, repr=False)
class SampleUniques(CountedKeys):
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
        unique = (cells.class_sizes(released)[0] == 1).astype(np.float64)
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
