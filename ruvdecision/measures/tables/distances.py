"""Utility of categorical releases: distances between tables, entropy and association."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import xlogy

from ...checks import as_float_array, check_finite, check_integer, checked
from ...errors import InputError
from ...protocols import Array
from ..base import Measured, SummedMeasure, WeightedMeasure
from ..frames import Names, as_names
from ..missing import FILLED
from ..sums import Counts
from . import cells

# -- on frequencies and tables ---------------------------------------------------------------------------


def hellinger(f: ArrayLike, g: ArrayLike) -> float:
    """Hellinger distance of two probability vectors, (1/sqrt 2) (sum (sqrt f - sqrt g)^2)^(1/2), between 0 and 1.

    >>> round(hellinger([0.5, 0.5, 0], [0.25, 0.25, 0.5]), 12)
    0.541196100146
    """
    a, b = _check_two_laws(f, g)
    return min(float(np.sqrt(0.5 * np.sum((np.sqrt(a) - np.sqrt(b)) ** 2))), 1.0)


def total_variation(f: ArrayLike, g: ArrayLike) -> float:
    """Half the sum of absolute differences of two probability vectors, between 0 and 1.

    >>> total_variation([0.5, 0.5, 0], [0.25, 0.25, 0.5])
    0.5
    """
    a, b = _check_two_laws(f, g)
    return min(float(0.5 * np.abs(a - b).sum()), 1.0)


def entropy(f: ArrayLike) -> float:
    """Shannon entropy of a probability vector, in nats.

    >>> round(entropy([0.5, 0.5]), 6)
    0.693147
    """
    a = _check_frequencies(f)
    return float(-xlogy(a, a).sum()) + 0.0


def chi_square(table: ArrayLike) -> float:
    """Pearson's chi-square of independence in a two-way table; empty rows and columns do not count.

    >>> round(chi_square([[10, 20], [30, 40]]), 9)
    0.793650794
    """
    t = _check_two_way_table(table)
    expected = np.outer(t.sum(axis=1), t.sum(axis=0)) / t.sum()
    return float(((t - expected) ** 2 / expected).sum())


def cramers_v(table: ArrayLike) -> float:
    """Cramér's V = (chi^2 / (N min(m - 1, n - 1)))^(1/2); 0 where a variable has one category only.

    Winkler's printed formula lacks a bracket.

    >>> cramers_v([[5, 0, 0], [0, 5, 0]])
    1.0
    """
    t = _check_two_way_table(table)
    smaller = min(t.shape) - 1
    return min(float(np.sqrt(chi_square(t) / (t.sum() * smaller))), 1.0) if smaller else 0.0


def pearson_c(table: ArrayLike) -> float:
    """Pearson's contingency coefficient C = (chi^2 / (chi^2 + N))^(1/2).

    >>> round(pearson_c([[10, 20], [30, 40]]), 12)
    0.088735650942
    """
    t = _check_two_way_table(table)
    chi2 = chi_square(t)
    return float(np.sqrt(chi2 / (chi2 + t.sum())))


# -- measures --------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class _CountedMeasure(SummedMeasure, WeightedMeasure):
    """A comparison of how often rows occur in two files."""

    missing_choices: ClassVar[tuple[str, ...]] = FILLED
    own_missing: ClassVar[tuple[str, ...]] = ("category",)

    def begin(self, original: pd.DataFrame, weights: Array | None = None) -> Counts:
        # The rows of a whole file need not be put together.
        return Counts(original, np.ones(len(original)) if weights is None else weights)

    def compare(self, state: Counts, released: pd.DataFrame, weights: Array | None = None) -> Measured:
        return self.compare_sums(state, Counts(released, np.ones(len(released)) if weights is None else weights), None)

    def sums_of(self, piece: pd.DataFrame, plan: None, which: str, weights: Array | None = None) -> Counts:
        return Counts.of(piece, weights)

    def compare_sums(self, original: Counts, released: Counts, plan: None) -> Measured:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class _TableMeasure(_CountedMeasure):
    """A comparison of the tables that two files make: of the whole table, or of all tables of ``way`` columns."""

    distance: ClassVar[staticmethod[[ArrayLike, ArrayLike], float]]
    """Of two laws over the same cells."""

    columns: Names = checked(None, as_names)
    way: int | None = checked(None, check_integer, low=1)

    def compare_sums(self, original: Counts, released: Counts, plan: None) -> Measured:
        codes, _ = cells.common_codes(original.rows, released.rows)
        names = [str(c) for c in original.rows.columns]
        parts: dict[str, float] = {}
        way = len(names) if self.way is None else self.way
        if way > len(names):
            what = f"{self.name} cannot make tables of {way} columns"
            raise InputError(what, f"{len(names)} columns", "Use a smaller way")
        for chosen in itertools.combinations(range(len(names)), way):
            parted, size = cells.joint_codes_of_parts([c[:, list(chosen)] for c in codes])
            weights = original.count, released.count
            f, g = (cells.frequencies(c, size, w) for c, w in zip(parted, weights, strict=True))
            number, more = self._distance_of_tables(f, g)
            parts |= {" x ".join(names[j] for j in chosen): number} if self.way is not None else more
            value = number
        return Measured(float(np.mean(list(parts.values()))) if self.way is not None else value, parts=parts)

    def _distance_of_tables(self, f: Array, g: Array) -> tuple[float, dict[str, float]]:
        """The number of one table, and what it is made of."""
        return self.distance(f, g), {}


@dataclass(frozen=True, repr=False)
class Hellinger(_TableMeasure):
    """Hellinger distance between the tables of original and release; 0 is best, 1 means no common cell.

    Cells are the combinations of categories that occur in either file. Continuous columns should be recoded first: when
    every record is its own cell the distance only counts records that changed.

    Parameters
    ----------
    columns : names, optional
        The columns that make the table; all by default.
    way : int, optional
        Average over all tables of this many columns, instead of one table of all.

    Examples
    --------
    >>> round(float(Hellinger()([0, 0, 1, 1], [0, 1, 2, 2])), 6)
    0.541196
    """

    label: ClassVar[str] = "hellinger"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Gomatam and Karr (2003); Winkler (2004), section 5"

    distance = staticmethod(hellinger)


@dataclass(frozen=True, repr=False)
class TotalVariation(_TableMeasure):
    """Total variation between the tables of original and release; 0 is best, 1 means no common cell.

    The discrete case of Agrawal and Aggarwal's information loss. Parameters as in `Hellinger`.

    Examples
    --------
    >>> float(TotalVariation()([0, 0, 1, 1], [0, 1, 2, 2]))
    0.5
    """

    label: ClassVar[str] = "total_variation"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Agrawal and Aggarwal (2001); Gomatam and Karr (2003); Winkler (2004), section 5"

    distance = staticmethod(total_variation)


@dataclass(frozen=True, repr=False)
class EntropyChange(_TableMeasure):
    """Change of the table's Shannon entropy, in nats: the size of released minus original.

    Entropy says how spread a table is and nothing about which cells hold what: two quite different tables may have
    equal entropy, and Winkler doubts that it tells anything about analyses.

    Parameters
    ----------
    columns, way
        As in `Hellinger`.
    signed : bool
        Give released minus original, negative where the release is more concentrated. On a map, where less must be
        better or worse, use the size. ``parts`` has both entropies.

    Examples
    --------
    >>> round(float(EntropyChange()([0, 0, 1, 1], [0, 1, 2, 2])), 6)
    0.346574
    """

    label: ClassVar[str] = "entropy_change"
    range: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    reference: ClassVar[str] = "Willenborg and de Waal (2000); Winkler (2004), section 5"

    signed: bool = False

    def _distance_of_tables(self, f: Array, g: Array) -> tuple[float, dict[str, float]]:
        before, after = entropy(f), entropy(g)
        change = after - before
        return change if self.signed else abs(change), {"original": before, "released": after, "change": change}


@dataclass(frozen=True, repr=False)
class _Association(_CountedMeasure):
    """Mean change of a coefficient of association over all pairs of columns; ``table`` has both of every pair."""

    range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    reference: ClassVar[str] = "Gomatam and Karr (2003); Winkler (2004), section 5, with a bracket put right"
    coefficient: ClassVar[staticmethod[[ArrayLike], float]]
    """The association in a table of two columns."""

    columns: Names = checked(None, as_names)
    signed: bool = False

    def compare_sums(self, original: Counts, released: Counts, plan: None) -> Measured:
        if original.rows.shape[1] < 2:
            names = [str(c) for c in original.rows.columns]
            raise InputError(f"{self.name} needs two columns at least", names, "Name two or more")
        codes, levels = cells.common_codes(original.rows, released.rows)
        weights, columns = (original.count, released.count), original.rows.columns
        rows = []
        for i, j in itertools.combinations(range(len(columns)), 2):
            a, b = (
                self.coefficient(cells.dense_table(self.name, c[:, [i, j]], [levels[i], levels[j]], w))
                for c, w in zip(codes, weights, strict=True)
            )
            rows.append((columns[i], columns[j], a, b, b - a))
        table = pd.DataFrame(rows, columns=["first", "second", "original", "released", "change"])
        change = table["change"].to_numpy()
        parts = {"largest": float(np.abs(change).max())}
        if len(rows) == 1:
            parts = dict(zip(("original", "released", "change"), rows[0][2:], strict=True))
        return Measured(float((change if self.signed else np.abs(change)).mean()), parts=parts, table=table)


@dataclass(frozen=True, repr=False)
class CramersV(_Association):
    """Change of Cramér's V between pairs of columns: the mean size of released minus original.

    Parameters
    ----------
    columns : names, optional
        Two columns, or more, of which all pairs are taken; all columns by default.
    signed : bool
        Give the mean of the changes themselves; negative where associations were lost.

    Examples
    --------
    >>> float(CramersV()([[0, 0], [0, 0], [1, 1], [1, 1]], [[0, 0], [0, 1], [1, 0], [1, 1]]))
    1.0
    """

    label: ClassVar[str] = "cramers_v"

    coefficient = staticmethod(cramers_v)


@dataclass(frozen=True, repr=False)
class PearsonC(_Association):
    """Change of Pearson's contingency coefficient between pairs of columns: the mean size of released minus original.

    Parameters as in `CramersV`.

    Examples
    --------
    >>> round(float(PearsonC()([[0, 0], [0, 0], [1, 1], [1, 1]], [[0, 0], [0, 1], [1, 0], [1, 1]])), 6)
    0.707107
    """

    label: ClassVar[str] = "pearson_c"

    coefficient = staticmethod(pearson_c)


def _check_frequencies(f: ArrayLike) -> Array:
    a = check_finite("frequencies", as_float_array("frequencies", f)).ravel()
    if np.any(a < 0) or not np.isclose(a.sum(), 1.0, rtol=0, atol=1e-9):
        raise InputError("Frequencies must be at least 0 and sum to 1", float(a.sum()), "Divide counts by their sum")
    return a


def _check_two_laws(f: ArrayLike, g: ArrayLike) -> tuple[Array, Array]:
    a, b = _check_frequencies(f), _check_frequencies(g)
    if a.shape != b.shape:
        got = f"{a.size} and {b.size} cells"
        raise InputError("Two laws must be over the same cells", got, "Give 0 to cells that one of them lacks")
    return a, b


def _check_two_way_table(table: ArrayLike) -> Array:
    t = check_finite("table", as_float_array("table", table))
    if t.ndim != 2 or np.any(t < 0) or t.sum() <= 0:
        what = "A two-way table has rows, columns and counts that are not negative"
        raise InputError(what, f"shape {t.shape}", "Give a matrix of counts")
    return t[np.ix_(t.sum(axis=1) > 0, t.sum(axis=0) > 0)]
