"""Global recoding: values to intervals, categories to coarser categories."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from ..channels.steps import Cut, FileFacts, Matrix, Opaque, Step
from ..checks import (
    Columns,
    as_float_array,
    check_choice,
    check_filled,
    check_mapping,
    check_number,
    check_one_of,
    check_sequence,
    checked,
    is_label,
    rows_where,
)
from ..errors import InputError
from ..protocols import Array
from .base import Mask
from .columns import as_columns, category_codes, is_categorical
from .frame import Frame


@dataclass(frozen=True, repr=False)
class Recode(Mask):
    """Make values coarser: numbers into intervals, or categories into fewer categories.

    Give one of ``bins``, ``width`` and ``categories``. Missing values stay missing.

    Parameters
    ----------
    bins : increasing numbers, optional
        Edges of the intervals, closed on the left: [a, b), the last one closed on both sides. The first and last edge
        may be infinite. Values outside the edges are refused.
    width : float, optional
        Intervals [j * width, (j + 1) * width) that cover the data.
    categories : mapping, optional
        New category of each old one, ``{"north": "upper", "south": "lower"}``.
    label : {"interval", "midpoint", "lower"} or one label per interval, default "interval"
        What an interval is called. "interval" gives ordered categories with names such as ``"[0, 10)"``; "midpoint" and
        "lower" give numbers (the edges they need must be finite). A list gives ordered categories with these names.
    other : optional
        New category for all that ``categories`` does not name; without it they are refused.
    columns : names or positions, optional
        Columns to recode; all of them if not given.

    >>> Recode(bins=[0, 10, 20], label="midpoint").release([3.0, 10.0, 20.0])
    array([ 5., 15., 15.])
    >>> Recode(categories={"a": "x", "b": "x"}, other="y").release(["a", "b", "c"]).tolist()
    ['x', 'x', 'y']
    """

    bins: Any = None
    width: float | None = checked(None, check_number, low=0, open_low=True)
    categories: Any = None
    label: Any = "interval"
    other: Any = None
    columns: Columns = checked(None, as_columns)

    def __post_init__(self) -> None:
        given = {"bins": self.bins, "width": self.width, "categories": self.categories}
        check_one_of("Recode", given, "Write Recode(bins=[0, 10, 20]) or Recode(categories={...})")
        if self.bins is not None:
            edges = as_float_array("bins", self.bins)
            if edges.ndim != 1 or len(edges) < 2 or np.isnan(edges).any() or np.any(np.diff(edges) <= 0):
                raise InputError("bins must be at least two increasing edges", self.bins, "Write bins=[0, 10, 20]")
            object.__setattr__(self, "bins", tuple(edges.tolist()))
        super().__post_init__()
        if self.categories is not None:
            do = 'Map old categories to new ones, categories={"a": "x", "b": "x"}'
            check_filled("categories", check_mapping("categories", self.categories, do), do)
            if not all(map(_is_name, [*self.categories.values(), *([] if self.other is None else [self.other])])):
                do = "To blank a category use Suppress"
                raise InputError("A new category must be a name or a number", "something else", do)
            # Pairs instead of a dict: a mask can be compared and looked up.
            object.__setattr__(self, "categories", tuple(self.categories.items()))
        elif self.other is not None:
            raise InputError("other goes with categories", self.other, "Leave it out")
        self._check_label()

    def _check_label(self) -> None:
        text = isinstance(self.label, str)
        if self.categories is not None:
            if not text or self.label != "interval":
                raise InputError("label goes with bins or width", self.label, "Leave it out")
        elif text:
            check_choice("label", self.label, ("interval", "midpoint", "lower"))
        else:
            names, do = check_sequence("label", self.label), "Give one label per interval"
            if not all(map(_is_name, names)):
                raise InputError("label must be made of names or numbers", "something else", do)
            if self.bins is None or len(names) != len(self.bins) - 1 or len(set(names)) != len(names):
                count = "no bins" if self.bins is None else f"{len(self.bins) - 1} intervals"
                raise InputError("label must name each interval of bins once", f"{len(names)} labels for {count}", do)
            object.__setattr__(self, "label", names)
        if self.bins is not None and self.label in ("midpoint", "lower"):
            needed = self.bins if self.label == "midpoint" else self.bins[:-1]
            if not np.all(np.isfinite(needed)):
                do = 'Use label="interval", or Topcode first'
                raise InputError(f'label="{self.label}" needs finite edges', list(self.bins), do)

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        if self.categories is None:
            return super().apply(frame, rng)
        return frame.put({i: self._recode_column(frame.table.iloc[:, i]) for i in frame.positions(self.columns)})

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        columns = about.positions(self.columns)
        if self.categories is None:
            return [Cut(columns=columns, edges=self.bins, width=float(self.width or 1.0), label=self.label)]
        found: list[Step] = []
        for column in columns:
            mapping = dict(self.categories)
            old = about.categories(column)
            if self.other is not None:
                if not old:
                    why = f"it does not say which categories become {self.other!r}"
                    return [Opaque(why=why, do="Name all categories in categories={...}, without other=")]
                mapping = {v: mapping.get(v, self.other) for v in old}
            new = tuple(dict.fromkeys(mapping.values()))
            matrix = np.array([[float(after == name) for name in new] for after in mapping.values()])
            found.append(Matrix(columns=(column,), matrix=matrix, inputs=tuple(mapping), released=new))
        return found

    def _recode_column(self, column: pd.Series[Any]) -> Any:
        mapping = dict(self.categories)
        codes, old = category_codes(column)
        # The last is for missing values, whose code is -1.
        unknown = np.array([v not in mapping for v in old] + [False])
        if unknown.any() and self.other is None:
            raise InputError(
                f"categories does not say what becomes of all values in column {column.name!r}",
                f"{int(unknown.sum())} others, in {rows_where(unknown[codes])}",
                "Add them, or give other=",
            )
        answer = [None if pd.isna(v) else mapping.get(v, self.other) for v in column]
        dtype = column.dtype
        if is_categorical(column):
            categories = [v for v in dtype.categories if v in mapping or self.other is not None]
            new = list(dict.fromkeys(mapping.get(v, self.other) for v in categories))
            # Merged neighbours keep the order of the old categories: every new one is a run of old ones.
            runs = 1 + sum(a != b for a, b in pairwise(mapping.get(v, self.other) for v in dtype.categories))
            every = {mapping.get(v, self.other) for v in dtype.categories}
            return pd.Categorical(answer, categories=new, ordered=bool(dtype.ordered) and runs == len(every))
        if len(old) == 0:
            return column.array
        if isinstance(dtype, pd.StringDtype) and all(v is None or isinstance(v, str) for v in answer):
            return pd.array(answer, dtype=dtype)
        # pandas' types that know missing values stay such types.
        return pd.array(answer) if not isinstance(dtype, np.dtype | pd.StringDtype) else pd.Series(answer).array


def _is_name(value: Any) -> bool:
    """Whether a value can name a category: it can be looked up, and it is not missing."""
    return is_label(value) and value is not None and value is not pd.NA and bool(value == value)
