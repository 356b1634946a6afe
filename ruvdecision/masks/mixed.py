"""Microaggregation of numbers and categories together, through a stated distance."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ..checks import check_choice, check_columns, check_integer, check_number, checked
from ..errors import InputError
from ..protocols import Array
from .base import Mask
from .columnkinds import Ints, as_columns, category_codes, kind_of, put, refuse_missing, spread, whole_like
from .frame import Frame
from .mdav import mdav

MOST_CATEGORIES = 200


def _weights(name: str, given: Any) -> dict[Hashable, float]:
    if not isinstance(given, Mapping):
        raise InputError(f"{name} must be a mapping from column to number", given, f'Write {name}={{"age": 2}}')
    return {c: check_number(f"{name}[{c!r}]", w, low=0) for c, w in given.items()}


@dataclass(frozen=True, repr=False)
class MicroaggregateMixed(Mask):
    """Replace every record by the centre of a group of similar ones; numbers and categories together.

    Groups are made by MDAV (see `ruvdecision.masks.mdav`) with the distance of `embed`, and replaced by their
    `centres`: mean of numbers (rounded for whole ones), lower median of dates and ordered categories, commonest of
    other categories. Time grows with the square of the number of records. Domingo-Ferrer and Torra (2005), Data Mining
    and Knowledge Discovery 11, 195-212. Missing values are refused.

    Parameters
    ----------
    size : int
        Least number of records in a group; groups have at most ``2 * size - 1``.
    columns : names or positions, optional
        Columns to aggregate; all of them if not given. They alone decide the groups.
    scale : {"sd", "range"}, default "sd"
        What a difference of numbers is divided by.
    weights : {column: number}, optional
        Weight of a column in the squared distance; 1 where not given.

    Examples
    --------
    >>> df = pd.DataFrame({"age": [20.0, 22.0, 60.0, 64.0], "sex": ["m", "m", "f", "f"]})
    >>> MicroaggregateMixed(size=2).release(df)["age"].tolist()
    [21.0, 21.0, 62.0, 62.0]
    """

    size: int
    columns: Any = checked(None, as_columns)
    scale: str = checked("sd", check_choice, options=("sd", "range"))
    weights: Any = checked(None, _weights)

    opaque: ClassVar[str] = "groups are found by the records' values"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "size", check_integer("size", self.size, low=1))

    def __hash__(self) -> int:
        # A mapping among the arguments has no hash of its own.
        return hash(self.family)

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        positions = frame.positions(self.columns)
        weights = self.weights
        if weights is not None:
            # Positions will do, as they do for columns.
            names = [frame.columns[i] for i in check_columns("weights", list(weights), frame.columns)]
            weights = dict(zip(names, weights.values(), strict=True))
        points = embed(frame.table.iloc[:, positions], scale=self.scale, weights=weights)
        return centres(frame, positions, mdav(points, self.size))


def embed(table: pd.DataFrame, *, scale: str = "sd", weights: Mapping[Any, float] | None = None) -> Array:
    """Return points whose squared Euclidean distances are the mixed distances of the records.

    d(x, y)^2 = sum over numbers and dates of w ((x - y)/s)^2 + sum over ordered categories of w ((r(x) - r(y))/s)^2
    + sum over booleans, text and other categories of w [x != y]. Here s is the column's sample standard deviation
    (divisor n - 1, ``scale="sd"``) or its range (``scale="range"``, Gower's), r the rank of an ordered category
    among those of its type, and w a weight, 1 unless given. A constant column adds nothing. Missing values are refused.

    >>> embed(pd.DataFrame({"a": [0.0, 1.0], "c": ["x", "y"]}), scale="range").round(4)
    array([[-0.5   ,  0.7071,  0.    ],
           [ 0.5   ,  0.    ,  0.7071]])
    """
    check_choice("scale", scale, ["sd", "range"])
    refuse_missing("A mixed distance", table)
    stray = [c for c in weights or {} if c not in table.columns]
    if stray:
        raise InputError("weights names columns that are not there", stray, f"Choose from {list(table.columns)}")
    blocks = []
    for name in table.columns:
        column = table[name]
        root = np.sqrt(check_number(f"weights[{name!r}]", (weights or {}).get(name, 1.0), low=0))
        numbers = _numbers(column)
        if numbers is None:
            codes, levels = category_codes(column)
            if len(levels) > MOST_CATEGORIES:
                raise InputError(
                    f"A mixed distance takes at most {MOST_CATEGORIES} categories in a column",
                    f"{len(levels)} in {name!r}",
                    "Recode it into fewer, or leave it out",
                )
            # Two different indicators are sqrt(2) apart.
            blocks.append((codes[:, None] == np.arange(len(levels))) * (root / np.sqrt(2)))
            continue
        size = float(spread(numbers, ddof=1) if scale == "sd" else np.ptp(numbers))
        centred = numbers - numbers.mean()
        blocks.append(centred[:, None] / size * root if size > 0 else np.zeros((len(numbers), 1)))
    return np.hstack(blocks)


def centres(frame: Frame, positions: list[int], labels: Ints) -> Frame:
    """Replace the columns by the centre of each group: mean of numbers, median of what has order, commonest category.

    The median is the lower one, so that it is a value of the group. Of equally common categories the one that comes
    first in the group is taken. Whole numbers are rounded.
    """
    group = np.unique(labels, return_inverse=True)[1].reshape(-1)
    size = np.bincount(group)
    new: dict[int, Any] = {}
    for i in positions:
        column = frame.table.iloc[:, i]
        kind = kind_of(column)
        if kind == "number":
            x = column.to_numpy(dtype=np.float64)
            new[i] = whole_like((np.bincount(group, weights=x) / size)[group], column)
            continue
        numbers = None if kind == "boolean" else _numbers(column)
        if numbers is not None:
            order = np.lexsort((np.arange(len(group)), numbers, group))
            middle = order[np.concatenate([[0], np.cumsum(size)[:-1]]) + (size - 1) // 2]
        else:
            middle = _commonest(group, category_codes(column)[0])
        new[i] = column.array.take(middle[group])
    return put(frame, new)


def _commonest(group: Ints, codes: Ints) -> Ints:
    """A row of each group that holds its commonest category."""
    pair, first, count = np.unique(group * (int(codes.max()) + 1) + codes, return_index=True, return_counts=True)
    owner = pair // (int(codes.max()) + 1)
    best = np.lexsort((first, -count, owner))
    return first[best[np.unique(owner[best], return_index=True)[1]]]


def _numbers(column: pd.Series) -> Array | None:
    """Values on a line, or None for booleans and categories without an order."""
    kind = kind_of(column)
    if kind == "number":
        return column.to_numpy(dtype=np.float64)
    if kind == "time":
        return np.asarray(column.astype("int64"), dtype=np.float64)
    if kind == "category" and getattr(column.dtype, "ordered", False):
        return np.asarray(column.cat.codes, dtype=np.float64)
    return None
