"""How far a combination of keys gives a value away without telling records apart: l-diversity and t-closeness."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...checks import check_choice, check_number, checked
from ...masks.columns import has_order, ordered_values
from ...protocols import Array
from .. import frames
from ..base import Measured
from ..frames import Data, Ints
from ..sums import Counts
from ..tables import cells
from .uniqueness import CountedKeys

KINDS = ("distinct", "entropy", "recursive")
AT_ONCE = 1_000_000
"""Numbers of a block of the table of combinations by values."""


class ValuesInClasses(NamedTuple):
    """Which values a column has among records that agree on the keys: one entry per class and value that occurs."""

    row: Ints
    """Class of each record."""
    where: Ints
    """Class of each entry."""
    value: Ints
    counts: Array
    size: Array
    """Records of each class."""

    @classmethod
    def of(cls, keys: NDArray[Any], levels: Sequence[int], value: Ints, often: Array | None) -> ValuesInClasses:
        """Count the codes of a column by those of the keys, which have a row each; records count ``often``."""
        row, classes = cells.joint_codes_of_columns(keys, levels)
        values = int(value.max(initial=0)) + 1
        joint, size = row * values + value, np.bincount(row, weights=often, minlength=classes)
        if classes * values <= 16 * len(row) + 64:
            dense = np.bincount(joint, weights=often, minlength=classes * values)
            there = np.flatnonzero(dense > 0)
            counts = dense[there]
        else:
            there, place = np.unique(joint, return_inverse=True)
            counts = np.bincount(place.reshape(-1), weights=often)
        return cls(row, there // values, there % values, counts.astype(np.float64), size.astype(np.float64))

    @property
    def start(self) -> Ints:
        """The first entry of each class."""
        return np.searchsorted(self.where, np.arange(len(self.size)))

    @property
    def share(self) -> Array:
        """Share of each value in its class."""
        return self.counts / self.size[self.where]

    def total(self, amounts: NDArray[Any]) -> Array:
        """Sums of amounts by class."""
        return np.bincount(self.where, weights=amounts, minlength=len(self.size)).astype(np.float64)

    def measured(self, worst: float, each: Array, records: Array) -> Measured:
        """The number of the worst class, with the mean of the records' classes; ``records`` has one per class."""
        parts = {"combinations": float(len(each)), "mean": float(each @ self.size / self.size.sum())}
        return Measured(float(worst), parts=parts, records=records[self.row])


@dataclass(frozen=True, repr=False)
class _TargetInClasses(CountedKeys):
    """A number for the values of a column among the records that share a combination of keys."""

    own_columns: ClassVar[tuple[str, ...]] = ("target",)
    target: Hashable = checked(None, frames.one_name, required=True)

    def compare(self, state: None, released: pd.DataFrame) -> Measured:
        """The worst class."""
        return self._worst_class(released, None)

    def compare_sums(self, original: None, released: Counts, plan: None) -> Measured:
        found = self._worst_class(released.rows, released.count)
        return Measured(float(found), parts=found.parts)

    def _worst_class(self, released: pd.DataFrame, often: Array | None) -> Measured:
        """The worst class of rows that occur so ``often``, each once by default."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class LDiversity(_TargetInClasses):
    """The least diversity of a sensitive column among records that share a combination of keys, l.

    ``"distinct"``: the number of different values. ``"entropy"``: the exponential of their entropy. ``"recursive"``:
    the largest l such that the most frequent value is rarer than ``c`` times all from the l-th most frequent on; 0 if
    none is. With l = 1 a link, right or wrong, gives the value away. `per_record` gives the largest share that a value
    has among the records that agree with this one: an intruder's best guess is right that often. `diversity` gives l
    of each record.

    Parameters
    ----------
    keys : names, optional
        The columns that an intruder knows; all others by default.
    target : name
        The column to protect.
    kind : "distinct", "entropy" or "recursive"
    c : float
        The constant of recursive diversity.
    missing : "category", "impute", "omit" or "raise"
        ``"category"``: missing is one more value; records with a blank key are a class of their own, so that blanks may
        lower l. (sdcMicro takes each missing target as a value of its own, which makes a class of them look diverse.)

    Examples
    --------
    >>> file = pd.DataFrame({"age": [1, 1, 2, 2], "ill": ["a", "b", "a", "a"]})
    >>> float(LDiversity("age", "ill")(file, file))
    1.0
    """

    label: ClassVar[str] = "l_diversity"
    direction: ClassVar[str] = "higher"
    reference: ClassVar[str] = "Machanavajjhala, Kifer, Gehrke and Venkitasubramaniam (2007)"

    kind: str = checked("distinct", check_choice, options=KINDS)
    c: float = checked(2.0, check_number, low=0, open_low=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_unused(self.kind == "recursive", "recursive diversity", 'kind="recursive"', "c")

    def from_whole_numbers(self, columns: Sequence[NDArray[Any]]) -> Measured | None:
        found = cells.close_numbers(np.stack(columns))
        return None if found is None else self._worst_diversity(*found, None)

    def diversity(self, original: Data, released: Data) -> Array:
        """Diversity of the class of each released record, l."""
        codes, levels = cells.column_codes(self.prepare(original).columns_used_of(released))
        found, each = self._diversity_of_classes(codes, levels, None)
        return each[found.row]

    def _diversity_of_classes(
        self, codes: NDArray[Any], levels: Sequence[int], often: Array | None
    ) -> tuple[ValuesInClasses, Array]:
        found = ValuesInClasses.of(codes[:-1], levels[:-1], codes[-1], often)
        if self.kind == "distinct":
            return found, np.bincount(found.where, minlength=len(found.size)).astype(np.float64)
        if self.kind == "entropy":
            return found, np.exp(-found.total(found.share * np.log(found.share)))
        order = np.lexsort((-found.counts, found.where))
        where, count, start = found.where[order], found.counts[order], found.start
        before = np.cumsum(count) - count
        tail = found.size[where] - (before - before[start][where])
        return found, found._replace(where=where).total(count[start][where] < self.c * tail)

    def _worst_class(self, released: pd.DataFrame, often: Array | None) -> Measured:
        return self._worst_diversity(*cells.column_codes(released), often)

    def _worst_diversity(self, codes: NDArray[Any], levels: Sequence[int], often: Array | None) -> Measured:
        found, each = self._diversity_of_classes(codes, levels, often)
        return found.measured(each.min(), each, np.maximum.reduceat(found.share, found.start))


@dataclass(frozen=True, repr=False)
class TCloseness(_TargetInClasses):
    """The largest distance between the target's law among records that share the keys and in the whole file, t.

    The earth mover's distance. Between values without order (truth values, too) all steps are equally long, which makes
    it the total variation; between numbers and ordered categories the m values that occur lie 1 / (m - 1) apart.
    `per_record` gives the distance of each record's class: what an intruder who finds the class learns beyond what the
    file says of all.

    Parameters
    ----------
    keys, target, missing
        As in `LDiversity`; where values have an order a missing one is the largest. Records with a blank key are a
        class of their own, and a class that loses records may become one-sided, so that more blanks may raise t.

    Examples
    --------
    >>> file = pd.DataFrame({"age": [1, 1, 2, 2], "pay": [1, 2, 2, 3]})
    >>> TCloseness("age", "pay").per_record(file, file).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    label: ClassVar[str] = "t_closeness"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Li, Li and Venkatasubramanian (2007), ICDE, 106-115"

    def _worst_class(self, released: pd.DataFrame, often: Array | None) -> Measured:
        column, (codes, levels) = released.iloc[:, -1], cells.column_codes(released)
        # Two truth values need no order, and a third, missing, is beside them and not above.
        ordered = has_order(column) and not pd.api.types.is_bool_dtype(column.dtype)
        value = _ordered_codes(column) if ordered else codes[-1]
        found = ValuesInClasses.of(codes[:-1], levels[:-1], value, often)
        whole = np.bincount(value, weights=often) / found.size.sum()
        if ordered:
            each = _ordered_distance(found, whole)
        else:
            base = whole[found.value]
            each = 0.5 * (found.total(np.abs(found.share - base) - base) + 1.0)
        return found.measured(each.max(), each, each)


def _ordered_codes(column: pd.Series) -> Ints:
    """Ranks of the values that occur; a missing one comes last."""
    there = np.asarray(column.notna())
    ranks = np.unique(ordered_values(column[there]), return_inverse=True)[1].reshape(-1)
    codes = np.full(len(column), int(ranks.max(initial=-1)) + 1, dtype=np.int64)
    codes[there] = ranks
    return codes


def _ordered_distance(found: ValuesInClasses, whole: Array) -> Array:
    """Mean over the gaps between values of how far the cumulative shares differ, for each class."""
    m, classes = len(whole), len(found.size)
    if m == 1:
        return np.zeros(classes)
    base, each = np.cumsum(whole)[:-1], np.empty(classes)
    step = max(1, AT_ONCE // m)
    edges = np.searchsorted(found.where, np.arange(0, classes + step, step))
    for i, low in enumerate(range(0, classes, step)):
        part = slice(edges[i], edges[i + 1])
        share = np.zeros((min(step, classes - low), m))
        share[found.where[part] - low, found.value[part]] = found.share[part]
        each[low : low + step] = np.abs(np.cumsum(share, axis=1)[:, :-1] - base).sum(axis=1) / (m - 1)
    return each
