"""What a design needs to know of a file before it reads it: kinds of variables and their categories, found piece by piece."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...errors import InputError
from ..frames import is_number, levels_of

__all__ = ["Kinds"]


@dataclass(frozen=True)
class Kinds:
    """Which variables of a file are numbers, and the categories of the others, in their order."""

    numbers: dict[Any, bool]
    levels: dict[Any, tuple[Any, ...]]
    order: dict[Any, tuple[Any, ...]]
    """All categories of a categorical column in their order, whether they occur or not."""

    @classmethod
    def of(cls, table: pd.DataFrame, factors: Any) -> Kinds:
        """Look at one piece."""
        numbers = {c: is_number(table[c]) for c in table.columns}
        chosen = [c for c in table.columns if c in factors or not numbers[c]]
        order = {c: tuple(table[c].cat.categories) for c in chosen if isinstance(table[c].dtype, pd.CategoricalDtype)}
        return cls(numbers, {c: tuple(levels_of(table[c]).values) for c in chosen}, order)

    def plus(self, other: Kinds) -> Kinds:
        """What both pieces tell."""
        mixed = [str(c) for c, number in self.numbers.items() if other.numbers[c] != number]
        if mixed:
            raise InputError(
                "A column must be of one kind in all of a file", ", ".join(mixed), "Convert it, or leave it out"
            )
        levels = {c: _joined(values, other.levels[c]) for c, values in self.levels.items()}
        return Kinds(
            self.numbers, levels, {c: _joined(values, other.order.get(c, ())) for c, values in self.order.items()}
        )

    def example(self) -> pd.DataFrame:
        """A small table with the same kinds and categories."""
        height = max([1, *(len(v) for v in self.levels.values())])
        columns: dict[Any, Any] = {}
        for name, number in self.numbers.items():
            values = self.levels.get(name, (0.0,)) or (None,)
            full = pd.Series([*values, *[values[0]] * (height - len(values))], dtype=object)
            if name in self.order:
                full = pd.Series(pd.Categorical(full, categories=pd.Index(self.order[name], dtype=object)))
            columns[name] = full.infer_objects() if number else full
        return pd.DataFrame(columns)


def _joined(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    known = set(first)
    return (*first, *(v for v in second if v not in known))
