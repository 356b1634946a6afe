"""What rows, columns and entries of parameters are called, and where they stand."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pandas as pd

from ..checks import as_tuple, check_columns, check_index, check_integer, is_integer, is_label, suggest
from ..errors import InputError


@dataclass(frozen=True, eq=False)
class Names:
    """What rows, columns and the entries of parameters are called: whole numbers are positions, all else is a name."""

    rows: Sequence[Hashable] | None = None
    """Labels of the rows, None if there is no file that has any."""
    columns: Sequence[Hashable] = ()
    entries: Callable[[str], Sequence[Sequence[Hashable]]] = lambda name: ()
    """Names along each axis of a parameter; empty if it has none."""

    def row(self, label: Hashable) -> int:
        """Position of a row. Labels of other rows, which may be names of people, are not listed."""
        if is_integer(label):
            return int(label)
        if self.rows is None:
            do = "Pass data= (or a release) whose index has the labels, or count rows from 0"
            raise InputError("A record by its label needs a file with labels", label, do)
        wanted = {label, *_as_dates(label)}
        found = [i for i, own in enumerate(self.rows) if own in wanted]
        if len(found) != 1:
            what = "Several rows have this label" if found else "No row has this label"
            raise InputError(what, label, "Look at the data's index; a whole number is a position, counted from 0")
        return found[0]

    def column(self, label: Hashable) -> int:
        """Position of a column."""
        if not self.columns:
            raise InputError("The columns have no names", label, "Give a DataFrame, or columns= to the belief")
        return check_columns("column", (label,), self.columns)[0]

    def entry(self, name: str, label: Hashable) -> int:
        """Position of an entry of a parameter among all of them in a row; a tuple has one name per axis."""
        axes = self.entries(name)
        wanted = as_tuple(label) if len(axes) > 1 else (label,)
        if len(wanted) != len(axes):
            do = f'Write Parameter("{name}", component=...) with one name for each of its {len(axes)} axes'
            do = do if axes else "Give dims and coords in the model, or count components from 0"
            raise InputError(f"The entries of {name} have no such name", label, do)
        places = [_component_position(name, one, list(axis)) for one, axis in zip(wanted, axes, strict=True)]
        return int(np.ravel_multi_index(places, [len(axis) for axis in axes]))


def _component_position(name: str, label: Hashable, labels: list[Hashable]) -> int:
    if label in labels:
        return labels.index(label)
    if is_integer(label):
        return check_index(f"component of {name}", label, len(labels))
    raise InputError(f"No entry of {name} is called so", label, suggest(str(label), [str(own) for own in labels]))


def _as_dates(label: object) -> list[pd.Timestamp]:
    """The moment that a label says, if it says one."""
    try:
        return [pd.Timestamp(label)] if isinstance(label, (str, date)) else []
    except (ValueError, OverflowError):
        return []


def check_row(name: str, value: object) -> Hashable:
    """A position, or a label as an index of a file has it: text, a tuple or a date, which text may stand for."""
    return value if isinstance(value, (str, tuple, date)) and value and is_label(value) else check_integer(name, value)


def check_name(name: str, value: object) -> Hashable:
    """A name, or a position."""
    if not is_label(value) or isinstance(value, (bool, float)):
        raise InputError(f"{name} must be a name or a position", value, f'Write {name}="income"')
    return value


def is_name(value: object) -> bool:
    """Whether a row, column or entry is named and not counted."""
    return value is not None and not is_integer(value)
