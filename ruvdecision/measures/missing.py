"""Missing values in measures: six choices that mean the same everywhere.

========== ==================================================================================================
choice     what becomes of a missing value
========== ==================================================================================================
category   it is a value of its own: one more category; a number becomes two columns, the number with the
           original's median where it is missing, and an indicator of the missing ones
wildcard   it may be any value, so it agrees with every value (keys that were suppressed)
pairwise   every comparison uses what both sides know; each measure states its rule
impute     it is filled in, in both files alike: the original's median (numbers, times) or commonest category
omit       rows with one are left out (pairs of rows where records are matched); ``parts["omitted"]`` says how
           many, and a warning is given if they are the records that the release protects
raise      an error names the columns
========== ==================================================================================================

**For the author of a measure.** A measure states what it takes as the class attribute ``missing_choices``; the first
is its default, and a caller writes ``missing="omit"`` for another. ``own_missing`` lists those that the measure carries
out itself, beside "wildcard" and "pairwise": `begin` and `compare` then get tables with their missing values (as NaN,
None, NaT). All others are carried
out before, by `fill_missing`, and the measure never sees a missing value. The usual sets are below: `FILLED` for tables
and for models that tell files apart (default: own category or indicator), `KEYED` for risks from keys (wildcard),
`PAIRED` (or `KNOWN`, without indicators) for distances, `IMPUTED` for moments and densities, `COMPLETE` for
regressions::

    class MyRisk(KeyMeasure):
        missing_choices: ClassVar[tuple[str, ...]] = missing.KEYED
        own_missing: ClassVar[tuple[str, ...]] = ("category",)

        def compare(self, state, released):
            often = key_matches(released) if self.missing == "wildcard" else cells.class_sizes(released)[0]

`key_matches(table, weights=, alpha=)` counts (or weighs) the records that agree with each record on the keys.
The word that was used is ``Measured.missing`` if the files had missing values, and "" if they had none.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..checks import suggest
from ..errors import InputError
from ..masks.columns import is_categorical
from .frames import Labels, is_number, is_time

CHOICES = ("category", "wildcard", "pairwise", "impute", "omit", "raise")
FILLED = ("category", "impute", "omit", "raise")
KEYED = ("wildcard", "category", "impute", "omit", "raise")
PAIRED = ("pairwise", "category", "impute", "omit", "raise")
KNOWN = ("pairwise", "impute", "omit", "raise")
IMPUTED = ("impute", "omit", "raise")
COMPLETE = ("omit", "impute", "raise")

UNFILLED = ("wildcard", "pairwise")
"""What a measure carries out itself: nothing is put in place of a missing value."""
MISSING = "(missing)"
"""The category of missing values, and what an indicator's name ends with."""


def check_missing(who: str, value: object, takes: Sequence[str]) -> str:
    """The choice, or the measure's default for ""; an error tells a misspelt word from one that the measure refuses."""
    if isinstance(value, str) and not value:
        return takes[0]
    if not isinstance(value, str) or value not in CHOICES:
        what = f"missing must be one of {', '.join(map(repr, CHOICES))}"
        raise InputError(what, value, suggest(str(value), CHOICES))
    if value not in takes:
        what = f"{who} cannot take missing values as {value!r}"
        raise InputError(what, f"missing={value!r}", f"It takes {', '.join(map(repr, takes))}")
    return value


def with_missing(table: pd.DataFrame) -> Labels:
    """The columns that have a missing value."""
    return [c for j, c in enumerate(table.columns) if table.iloc[:, j].isna().any()]


def fill_missing(choice: str, original: pd.DataFrame, table: pd.DataFrame, columns: Collection[Any]) -> pd.DataFrame:
    """One file of a pair without missing values, by "category" or "impute".

    What is filled in comes from the original. ``columns`` are those with a missing value in either file: by "category"
    both files must get the same indicators, `fill(choice, original, original, columns)` and
    `fill(choice, original, released, columns)`.

    >>> a, b = pd.DataFrame({"x": [1.0, 3.0, None]}), pd.DataFrame({"x": [None, 3.0, 5.0]})
    >>> fill_missing("category", a, b, ["x"]).to_dict("list")
    {'x': [2.0, 3.0, 5.0], 'x (missing)': [1.0, 0.0, 0.0]}
    >>> fill_missing("impute", a, b, ["x"]).to_dict("list")
    {'x': [2.0, 3.0, 5.0]}
    """
    if not columns:
        return table
    found: dict[Any, pd.Series] = {}
    for label in table.columns:
        column = table[label]
        if label not in columns:
            found[label] = column
            continue
        own, model = choice == "category", original[label]
        ordered = is_number(model) or is_time(model)
        found[label] = _fill_column(
            column, MISSING if not ordered and (own or model.isna().all()) else _usual_value(model, ordered)
        )
        if own and ordered:
            found[f"{label} {MISSING}"] = column.isna().astype(np.float64)
    return pd.DataFrame(found, index=table.index, copy=False)


def warn_omitted(who: str, omitted: int, rows: int, blanked: int) -> None:
    """Warn that rows were left out which the release made incomplete: those are the records that it protects."""
    text = (
        f"{who} left out {omitted} of {rows} records for missing values, {blanked} more than in the original: records "
        "that the release blanked to protect them. Another choice of missing= keeps them"
    )
    warnings.warn(text, OmittedWarning, stacklevel=3)


class OmittedWarning(UserWarning):
    """``missing="omit"`` left out records that a release protects."""


def _usual_value(column: pd.Series, ordered: bool) -> Any:
    """The median of what has an order, otherwise the commonest category (the first of several); None if all miss."""
    known = column.dropna()
    if not len(known):
        return 0.0 if is_number(column) else pd.Timedelta(0) if column.dtype.kind == "m" else pd.Timestamp(0)
    if not ordered:
        return known.mode().iloc[0]
    return float(known.astype(np.float64).median()) if is_number(column) else known.median()


def _fill_column(column: pd.Series, value: Any) -> pd.Series:
    if isinstance(value, float):
        if is_number(column):
            return column.astype(np.float64).fillna(value)
        if column.isna().all():
            return pd.Series(value, index=column.index)
    if is_time(column) and isinstance(value, (pd.Timestamp, pd.Timedelta)):
        return column.fillna(value)
    if is_categorical(column):
        return column.cat.add_categories([] if value in column.cat.categories else [value]).fillna(value)
    # One by one: pandas would call a function, and take the members of a list one after the other.
    filled = [value if lacks else x for x, lacks in zip(column.tolist(), column.isna().tolist(), strict=True)]
    return pd.Series(filled, index=column.index, name=column.name, dtype=object)
