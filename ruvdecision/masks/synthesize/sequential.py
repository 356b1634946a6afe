"""Synthesis one column after the other: each from a model given the columns before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import InputError
from ...protocols import Array
from ..columnkinds import Ints, kind_of, spread

MOST_CATEGORIES = 200


@dataclass(frozen=True, eq=False)
class ColumnTask:
    """What a model for one column gets: the column, and its predictors in the original and the synthetic file."""

    column: pd.Series
    kind: str
    codes: Ints | None
    """Category of each record, None for numbers and dates."""
    original: Array
    synthetic: Array
    proper: bool


Model = Callable[[ColumnTask, np.random.Generator], Any]
"""Gives the synthetic column in the original's type."""


def draw_sequential(
    table: pd.DataFrame,
    order: Sequence[int],
    given: Sequence[int],
    model: Model,
    rng: np.random.Generator,
    *,
    proper: bool,
    corner: bool,
) -> dict[int, Any]:
    """Draw the columns at ``order`` one after the other.

    Each model is fitted on the original file, with the given columns and those before it in the order as
    predictors. It is applied to the given columns and the *synthetic* ones before it, so the product of the
    conditional laws is the joint law. Raghunathan, Reiter and Rubin (2003); Reiter (2005) for trees.
    ``corner`` leaves the first category of each predictor out, as regression wants it.
    """
    encoders = {i: Encoder.of(table.iloc[:, i], corner=corner) for i in [*given, *order[:-1]]}
    blocks = {i: encoders[i](table.iloc[:, i]) for i in encoders}
    synthetic = {i: blocks[i] for i in given}
    before = list(given)
    n = len(table)
    drawn: dict[int, Any] = {}
    for i, stream in zip(order, rng.spawn(len(order)), strict=True):
        column = table.iloc[:, i]
        kind = kind_of(column)
        task = ColumnTask(
            column,
            kind,
            _codes(column) if kind in ("category", "boolean") else None,
            _join([blocks[j] for j in before], n),
            _join([synthetic[j] for j in before], n),
            proper,
        )
        drawn[i] = model(task, stream)
        if i in encoders:
            synthetic[i] = encoders[i](pd.Series(drawn[i]))
        before.append(i)
    return drawn


@dataclass(frozen=True, eq=False)
class Encoder:
    """Turns a column into numbers: numbers and dates standardised, categories one indicator each."""

    centre: float = 0.0
    scale: float = 1.0
    levels: pd.Index | None = None
    corner: bool = False

    @classmethod
    def of(cls, column: pd.Series, *, corner: bool) -> Encoder:
        """Fit to the original column."""
        kind = kind_of(column)
        if kind in ("category", "boolean"):
            return cls(levels=_levels(column), corner=corner)
        x = _numbers(column)
        return cls(float(x.mean()), float(spread(x)) or np.inf)

    def __call__(self, column: pd.Series) -> Array:
        if self.levels is None:
            # A constant column has infinite scale here, which makes it zero: it says nothing.
            return ((_numbers(column) - self.centre) / self.scale)[:, None]
        codes = _indexer(self.levels, column)
        return (codes[:, None] == np.arange(1 if self.corner else 0, len(self.levels))).astype(np.float64)


def _numbers(column: pd.Series) -> Array:
    if kind_of(column) == "time":
        return np.asarray(column.astype("int64"), dtype=np.float64)
    return column.to_numpy(dtype=np.float64)


def _levels(column: pd.Series) -> pd.Index:
    """The observed categories, in the order of the file; too many are refused by name."""
    try:
        levels = pd.Index(column.unique())
    except TypeError:
        raise InputError(
            "A category must be hashable", f"column {column.name!r} holds lists or the like", "Turn them into text"
        ) from None
    if len(levels) > MOST_CATEGORIES:
        raise InputError(
            f"Sequential synthesis takes at most {MOST_CATEGORIES} categories in a column",
            f"{len(levels)} in {column.name!r}",
            "Recode it into fewer, or leave it out with columns=[...] and given=[...]",
        )
    return levels


def _indexer(levels: pd.Index, column: pd.Series) -> Ints:
    return np.asarray(levels.get_indexer(pd.Index(column)), dtype=np.int64)


def _codes(column: pd.Series) -> Ints:
    return _indexer(_levels(column), column)


def _join(blocks: Sequence[Array], n: int) -> Array:
    return np.hstack(blocks) if blocks else np.zeros((n, 0))


def pick(probabilities: Array, u: Array) -> NDArray[np.int64]:
    """Categories at these points of each row's distribution function; one of probability zero is never picked."""
    total = np.cumsum(probabilities, axis=1)
    chosen = (total <= (u * total[:, -1])[:, None]).sum(axis=1)
    last = probabilities.shape[1] - 1 - np.argmax(probabilities[:, ::-1] > 0, axis=1)
    return np.minimum(chosen, last)
