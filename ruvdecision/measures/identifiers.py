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


class Identifiers:
    """The columns that tell every record from all others, looked for unchanged in releases. Called like a measure."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.columns: dict[Hashable, pd.Series] = {}
        for label in table.columns if len(table) >= ENOUGH else ():
            column = table[label]
            hashable = column.dtype != object or all(map(is_label, column))
            if hashable and not _is_continuous(column) and column.notna().all() and column.is_unique:
                self.columns[label] = column.reset_index(drop=True)

    def __call__(self, released: Any) -> Measured:
        parts: dict[str, float] = {}
        for label, column in self.columns.items():
            if isinstance(released, pd.DataFrame) and label in released.columns:
                other = released[label].reset_index(drop=True)
                if len(other) == len(column):
                    same = float(np.mean(other.astype(object) == column.astype(object))) > 0.5
                else:
                    same = bool(other.is_unique and other.isin(column).all())
                parts |= {str(label): 1.0} if same else {}
        return Measured(len(parts), parts=parts)


def _is_continuous(column: pd.Series) -> bool:
    """Numbers with fractions, and times, repeat seldom: that alone makes no name of them."""
    if is_time(column) or pd.api.types.is_bool_dtype(column.dtype):
        return True
    if not is_number(column):
        return False
    values = column.dropna().to_numpy(dtype=np.float64)
    return bool(np.any(values != np.round(values)))
