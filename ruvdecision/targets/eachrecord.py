"""Every record by itself, and one number of all their uncertainties."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import check_distinct, check_distinct_positions, check_list, check_number, checked
from ..errors import InputError
from .base import BaseTarget
from .names import Names, check_row, is_name
from .quantities import Record


def _check_aggregate(name: str, value: str | float) -> str | float:
    if not isinstance(value, str):
        return check_number(name, value, low=0, high=1)
    if value not in ("max", "mean"):
        raise InputError(f'{name} must be "max", "mean" or a number from 0 to 1', value, "Write EachRecord(0.95)")
    return value


def _check_rows(name: str, value: Sequence[object]) -> tuple[Hashable, ...]:
    do = "Leave rows out for all records"
    return check_distinct(name, [check_row(name, r) for r in check_list(name, value, do)], do)


@dataclass(frozen=True)
class EachRecord(BaseTarget):
    """Every record by itself, each as if it alone were the target; one number is made of their uncertainties.

    Risk falls with U, so the riskiest record is the one with the least U, and the quantile of the risks at level q is
    that of the U at level 1 - q, whichever decreasing function risk is. The mean is the mean of U. `record_risk` keeps
    the records apart.

    Parameters
    ----------
    aggregate : "max", "mean" or a number from 0 to 1, default "max"
        The riskiest record, the average record, or the record at this quantile of the risks (the next riskier one where
        the quantile falls between two, so that at least that share of the records has no more risk).
    rows : list of rows or labels, optional
        The records in question, all of them if not given.

    Examples
    --------
    >>> [float(each.overall([5.0, 1.0, 3.0])) for each in (EachRecord(), EachRecord("mean"), EachRecord(0.5))]
    [1.0, 3.0, 3.0]
    """

    aggregate: str | float = checked("max", _check_aggregate)
    rows: Sequence[Any] | None = checked(None, _check_rows)
    asks_each = True

    @property
    def has_names(self) -> bool:
        return any(map(is_name, self.rows or ()))

    def with_positions(self, names: Names) -> EachRecord:
        return self if self.rows is None else replace(self, rows=tuple(map(names.row, self.rows)))

    def rows_in(self, n: int) -> NDArray[np.int64]:
        """The rows among ``n``, each once."""
        if self.rows is None:
            return np.arange(n)
        return check_distinct_positions("rows", self.rows, n)

    def overall(self, uncertainties: ArrayLike) -> Any:
        """One number of the uncertainties of the records, which are on the last axis."""
        u = np.asarray(uncertainties, dtype=np.float64)
        if self.aggregate == "mean":
            return u.mean(axis=-1)[()]
        if self.aggregate == "max":
            return u.min(axis=-1)[()]
        return np.take(np.sort(u, axis=-1), self.rank_from_below(u.shape[-1]), axis=-1)[()]

    def rank_from_below(self, count: int) -> int:
        """Where the aggregate stands among ``count`` uncertainties in ascending order, counted from 0."""
        if self.aggregate == "max":
            return 0
        # At least that share of the risks is no larger: rank ceil(q count) of the risks, from below.
        rank = max(1, int(np.ceil(float(self.aggregate) * count - 1e-9)))
        return count - rank

    @property
    def single_targets(self) -> tuple[BaseTarget, ...]:
        return tuple(Record(row) for row in self.rows or (0,))

    def aimed_at(self, row: int) -> Record:
        return Record(row)

    def describe(self) -> str:
        whose = "each record" if self.rows is None else f"each of {len(self.rows)} records"
        words = {"max": "the riskiest one counts", "mean": "on average"}
        return f"{whose} ({words.get(str(self.aggregate)) or f'the risk at quantile {self.aggregate:g} counts'})"
