"""Broad utility that any user can read: variable by variable, and pair by pair."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...checks import checked
from ...errors import InputError
from ...protocols import Array
from ..base import Measured, WeightedMeasure
from ..frames import (
    Ints,
    Names,
    as_names,
    encode,
    factorise,
    is_number,
    is_time,
    joined_codes,
    refuse_mixed,
    standard_deviations,
    vector,
    weighted_quantile,
)
from ..tables.cells import frequencies
from ..tables.distances import cramers_v
from .cdf import Law, kolmogorov

Associations = dict[tuple[Hashable, Hashable], float]
"""The association of each pair of columns."""


@dataclass(frozen=True, repr=False)
class Marginals(WeightedMeasure):
    """The mean over variables of the distance between the two files' distributions of that variable, from 0 to 1.

    Kolmogorov-Smirnov for numbers and times, total variation for categories (those of both files together). ``table``
    has, by variable, the distance and for numbers both means, standard deviations and medians, and the shift of the
    mean in the original's standard deviations; for categories the number of categories that only one file has.

    Examples
    --------
    >>> Marginals()(pd.DataFrame({"a": ["x", "y"]}), pd.DataFrame({"a": ["x", "x"]}))
    0.5
    """

    columns: Names = checked(None, as_names)

    label: ClassVar[str] = "marginals"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Domingo-Ferrer and Torra (2001)"

    def begin(self, original: pd.DataFrame, weights: Array | None = None) -> Any:
        # The original's times count from their own start; they wait for the release.
        known = {c: _Margin.of(vector(self.name, v), weights) for c, v in original.items() if is_number(v)}
        return original, known, weights

    def compare(self, state: Any, released: pd.DataFrame, weights: Array | None = None) -> Measured:
        original, known, own = state
        rows = {
            str(c): _compare_variable(self.name, original[c], released[c], known.get(c), (own, weights))
            for c in original.columns
        }
        parts = {name: row["distance"] for name, row in rows.items()}
        return Measured(
            float(np.mean(list(parts.values()))),
            parts=parts,
            table=partial(pd.DataFrame.from_dict, rows, orient="index"),
        )


@dataclass(frozen=True, repr=False)
class Pairwise(WeightedMeasure):
    """The mean over pairs of variables of the absolute change of their association, each between 0 and 1 in size.

    Association is Pearson's correlation for two numbers (halved change, as it runs from -1 to 1), Cramer's V for two
    categories and the correlation ratio for a number and a category. A constant variable has association 0. ``table``
    has every pair, ``parts["correlation distance"]`` the Frobenius norm of the change of the correlation matrix
    (numbers only).

    Examples
    --------
    >>> round(Pairwise()([[0, 0], [1, 1], [2, 2]], [[0, 2], [1, 1], [2, 0]]), 9)
    1.0
    """

    columns: Names = checked(None, as_names)

    label: ClassVar[str] = "pairwise"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Domingo-Ferrer and Torra (2001)"

    def begin(self, original: pd.DataFrame, weights: Array | None = None) -> tuple[pd.DataFrame, Associations]:
        if original.shape[1] < 2:
            names = ", ".join(map(str, original.columns))
            raise InputError(f"{self.name} needs at least two columns", names, "Name more columns")
        return original, _pairwise_associations(self.name, original, "the original", weights)

    def compare(
        self, state: tuple[pd.DataFrame, Associations], released: pd.DataFrame, weights: Array | None = None
    ) -> Measured:
        original, before = state
        for label in original.columns:
            refuse_mixed(self.name, original[label], released[label])
        after = _pairwise_associations(self.name, released, "the release", weights)
        rows, changes, squares = {}, [], 0.0
        for (a, b), x in before.items():
            y = after[a, b]
            numbers = is_number(original[a]) and is_number(original[b])
            changes.append(abs(x - y) / (2 if numbers else 1))
            squares += 2 * (x - y) ** 2 if numbers else 0.0
            rows[f"{a}, {b}"] = {"original": x, "released": y, "change": changes[-1]}
        parts = {"correlation distance": float(np.sqrt(squares)), "largest": max(changes)}
        return Measured(
            float(np.mean(changes)), parts=parts, table=partial(pd.DataFrame.from_dict, rows, orient="index")
        )


@dataclass(frozen=True, eq=False)
class _Margin:
    """One variable of one file: its values in order and what the table tells of them."""

    law: Law
    mean: float
    sd: float
    median: float

    @classmethod
    def of(cls, values: Array, weights: Array | None) -> _Margin:
        law, n = Law.of(values, weights), len(values)
        ordered = law.values
        if law.upto is None:
            middle = float((ordered[(n - 1) // 2] + ordered[n // 2]) / 2)
        else:
            middle = float(weighted_quantile(ordered, 0.5, np.diff(law.upto, prepend=0.0)))
        return cls(law, float(np.average(values, weights=weights)), float(standard_deviations(values, weights)), middle)


def _compare_variable(
    who: str, a: pd.Series, b: pd.Series, known: _Margin | None, weights: tuple[Array | None, Array | None]
) -> dict[str, float]:
    refuse_mixed(who, a, b)
    if known is not None:
        return _compare_numbers(known, _Margin.of(vector(who, b, "the release"), weights[1]))
    if is_time(a):
        files = encode(who, a.to_frame(), b.to_frame())[:2]
        return _compare_numbers(*(_Margin.of(v[:, 0], w) for v, w in zip(files, weights, strict=True)))
    codes, levels = joined_codes(a, b)
    shares = [frequencies(c, len(levels), w) for c, w in zip(codes, weights, strict=True)]
    only = int(np.sum((shares[0] == 0) != (shares[1] == 0)))
    return {
        "distance": float(0.5 * np.abs(shares[0] - shares[1]).sum()),
        "categories": float(len(levels)),
        "in one file only": float(only),
    }


def _compare_numbers(a: _Margin, b: _Margin) -> dict[str, float]:
    shift = b.mean - a.mean
    row = {"distance": kolmogorov(a.law, b.law)}
    for name in ("mean", "sd", "median"):
        row |= {name: getattr(a, name), f"released {name}": getattr(b, name)}
    return row | {"shift": shift / a.sd if a.sd > 0 else (0.0 if shift == 0 else np.inf)}


def _pairwise_associations(who: str, table: pd.DataFrame, which: str, weights: Array | None) -> Associations:
    often = np.ones(len(table)) if weights is None else weights / weights.mean()
    numbers: dict[Hashable, Array] = {}
    codes: dict[Hashable, Ints] = {}
    for c in table.columns:
        if is_number(table[c]):
            values = vector(who, table[c], which)
            # A column of equal numbers is zero here, whatever rounding does to its mean.
            values = values - (np.average(values, weights=weights) if np.ptp(values) > 0 else values[0])
            peak = float(np.abs(values).max())
            values = values / peak if peak > 0 else values
            scale = np.sqrt(np.average(values**2, weights=weights))
            numbers[c] = values / scale if scale > 0 else values
        else:
            codes[c] = factorise(table[c])[0]
    found = {}
    for a, b in combinations(table.columns, 2):
        if a in numbers and b in numbers:
            found[a, b] = float(np.clip((often * numbers[a]) @ numbers[b] / len(table), -1, 1))
        elif a in codes and b in codes:
            shape = int(codes[a].max()) + 1, int(codes[b].max()) + 1
            pairs = np.bincount(codes[a] * shape[1] + codes[b], weights=often, minlength=shape[0] * shape[1])
            found[a, b] = cramers_v(pairs.reshape(shape))
        else:
            value, code = (numbers[a], codes[b]) if a in numbers else (numbers[b], codes[a])
            sizes = np.bincount(code, weights=often)
            means = np.bincount(code, weights=often * value) / np.where(sizes > 0, sizes, 1.0)
            found[a, b] = float(np.sqrt(np.clip((sizes * means**2).sum() / len(value), 0, 1)))
    return found
