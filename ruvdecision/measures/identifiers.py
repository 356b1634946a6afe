"""Columns that identify records: different for every record, and released as they are."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from ..checks import is_label
from .base import Measured
from .frames import is_number, is_time

ENOUGH = 20
"""A column of fewer records may be without repetition by chance."""
LOOKED_AT = 1000
"""Released rows whose other columns are compared with those of the record that they name."""


class Identifiers:
    """The columns that tell every record from all others, looked for unchanged in releases. Called like a measure.

    Rows may be in another order, left out or repeated: names are looked for as they are; a number identifies where it
    stands beside the other values of its own record.
    """

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table
        self.columns: dict[Hashable, pd.Series] = {}
        for label in table.columns if len(table) >= ENOUGH else ():
            column = table[label]
            hashable = column.dtype != object or all(map(is_label, column))
            if hashable and not _is_continuous(column) and column.notna().all() and column.is_unique:
                self.columns[label] = column.reset_index(drop=True)

    def __call__(self, released: Any) -> Measured:
        parts: dict[str, float] = {}
        for label, column in self.columns.items():
            if isinstance(released, pd.DataFrame) and label in released.columns and len(released):
                other = released[label].reset_index(drop=True)
                if len(other) == len(column):
                    same = float(np.mean(other.astype(object) == column.astype(object))) > 0.5
                else:
                    same = bool(other.is_unique and other.isin(column).all())
                if not same and not is_number(column):
                    same = float(other.isin(column).mean()) > 0.5
                parts |= {str(label): 1.0} if same or self._names_its_record(label, released) else {}
        return Measured(len(parts), parts=parts)

    def _names_its_record(self, label: Hashable, released: pd.DataFrame) -> bool:
        """True if rows agree with the records that they name, beyond what they have in common with the next ones."""
        rows = np.unique(np.linspace(0, len(released) - 1, LOOKED_AT).astype(int))
        own = pd.Index(self.columns[label]).get_indexer(pd.Index(released[label].iloc[rows]))
        rows, own = rows[own >= 0], own[own >= 0]
        others = [c for c in self.table.columns if c != label and c in released.columns]
        if len(rows) < ENOUGH or not others:
            return False
        agree = [
            np.mean([_equal_values(released[c].iloc[rows], self.table[c].iloc[records]) for c in others])
            for records in (own, (own + 1) % len(self.table))
        ]
        return bool(agree[0] - agree[1] > 0.5 * (1 - agree[1]))


def _equal_values(a: pd.Series, b: pd.Series) -> float:
    """The share of places where two columns have the same value, or none."""
    one, other = (c.astype(object).reset_index(drop=True) for c in (a, b))
    return float(((one == other) | (one.isna() & other.isna())).mean())


def _is_continuous(column: pd.Series) -> bool:
    """Numbers with fractions, and times, repeat seldom: that alone makes no name of them."""
    if is_time(column) or pd.api.types.is_bool_dtype(column.dtype):
        return True
    if not is_number(column):
        return False
    values = column.dropna().to_numpy(dtype=np.float64)
    return bool(np.any(values != np.round(values)))
