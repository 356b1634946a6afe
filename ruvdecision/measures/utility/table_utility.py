"""Utility of tables: all comparisons of two contingency tables that synthpop's ``utility.tab`` has, of many at once.

Raab, Nowok and Dibben (2021), Assessing, visualizing and improving the utility of synthetic data, arXiv:2109.12717.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.special import rel_entr, xlogy

from ...checks import as_tuple, check_choice, check_integer, check_integers, check_mapping, checked
from ...errors import InputError
from ...protocols import Array
from .. import frames
from ..base import Measured, WeightedMeasure
from ..frames import Ints, Names
from ..tables import cells

KINDS = (
    *("pMSE", "S_pMSE", "VW", "S_VW", "FT", "S_FT", "JSD", "S_JSD", "G", "S_G", "SPECKS", "PO50", "U"),
    *("MabsDD", "WMabsDD", "S_WMabsDD", "dBhatt"),
)


def table_measures(original: Array, released: Array, cells_in_all: float | None = None) -> dict[str, float]:
    """All comparisons of two tables of counts with the same cells; cells that are empty in both do not count.

    With d and s the counts, N their sum, c the release's share of it, e = c (s + d) and diff = s - d c / (1 - c):

    - ``VW`` Voas and Williamson's chi-square sum diff^2 / e, ``FT`` Freeman and Tukey's, ``G`` the likelihood ratio
      over cells that both have, ``JSD`` Jensen and Shannon's divergence in bits, ``dBhatt`` Bhattacharyya's distance;
    - ``pMSE`` mean squared error of the propensity score that the cells make, ``SPECKS`` the Kolmogorov-Smirnov
      distance of that score in the two files, ``U`` its Mann-Whitney statistic, ``PO50`` how many more than half of the
      records it puts into the right file, in per cent;
    - ``MabsDD`` and ``WMabsDD`` sums of absolute differences, plain and weighted;
    - ``S_``: divided by what a release from the same law would give, so that 1 is as good as another sample (``df``,
      cells less one; ``dfG`` for G). ``S_JSD`` is 2 N JSD / (df log 2) as in synthpop, where that is 1.04: to second
      order VW = 4 log(2) N JSD.

    >>> table_measures(np.array([10, 10]), np.array([12, 8]))["VW"]
    0.8080808080808081
    """
    kept = (original > 0) | (released > 0)
    d, s = original[kept].astype(np.float64), released[kept].astype(np.float64)
    n, m = d.sum(), s.sum()
    total, c = n + m, m / (n + m)
    expected, diff = (s + d) * c, s - d * (c / (1 - c))
    p, q = d / n, s / m
    both = (d > 0) & (s > 0)
    df, df_both = float(len(d) - 1), float(both.sum() - 1)
    vw = float((diff**2 / expected).sum())
    ft = 4.0 * float(((np.sqrt(s) - np.sqrt(c / (1 - c) * d)) ** 2).sum())
    middle = (p + q) / 2
    jsd = 0.5 * float(rel_entr(p, middle).sum() + rel_entr(q, middle).sum()) / np.log(2)
    sb, db = s[both], d[both]
    g = 2.0 * float((xlogy(sb, sb / sb.sum()) - xlogy(sb, db / db.sum())).sum()) if both.any() else 0.0
    order = np.argsort(s / (s + d), kind="stable")
    _, starts = np.unique((s / (s + d))[order], return_index=True)
    by_d, by_s = np.add.reduceat(d[order], starts), np.add.reduceat(s[order], starts)
    below = np.cumsum(by_d)
    weighted = float((np.abs(diff) / np.sqrt(expected)).sum()) / np.sqrt(2 / np.pi)
    found = {
        "VW": vw,
        "FT": ft,
        "JSD": jsd,
        "SPECKS": float(np.abs(below / n - np.cumsum(by_s) / m).max()),
        "WMabsDD": weighted,
        "U": float((by_s * (below - by_d / 2)).sum()),
        "G": g,
        "pMSE": vw * c * (1 - c) ** 2 / total,
        "PO50": 100.0 * float(np.where(q > p, s, d).sum()) / total - 50.0,
        "MabsDD": float(np.abs(diff).sum() / m),
        "dBhatt": float(np.sqrt(max(1.0 - np.sqrt(p * q).sum(), 0.0))),
    }
    scaled = {"S_VW": vw, "S_FT": ft, "S_JSD": 2 * total * jsd / np.log(2), "S_WMabsDD": weighted, "S_pMSE": vw}
    found |= {name: value / df if df else 0.0 for name, value in scaled.items()}
    found |= {"S_G": g / df_both if df_both > 0 else 0.0, "df": df, "dfG": df_both}
    return found | {"nempty": (len(kept) if cells_in_all is None else cells_in_all) - len(d)}


@dataclass(frozen=True, repr=False)
class TableUtility(WeightedMeasure):
    """How far the tables of original and release differ, by all that synthpop's ``utility.tab`` computes.

    The value is one of them (``kind``); ``parts`` has them all (see `table_measures`). With ``way`` every table of so
    many columns is compared: the value is then the mean, ``parts`` has one number per table and ``table`` has
    everything. Numbers and times are cut into groups by quantiles of the records of both files together, whatever their
    weights. Missing is a level.

    Parameters
    ----------
    columns : names, optional
        The columns that make the table; all by default.
    way : int or list of int, optional
        Compare all tables of 2, or of 2 and 3, columns, instead of one table of all.
    kind : "pMSE", "S_pMSE", "VW", "FT", "JSD", "G", "SPECKS", "PO50", "U", "MabsDD", "WMabsDD", "dBhatt", ...
        Which comparison is the value. ``"S_pMSE"`` is 1 for a release that is as good as another sample, whatever the
        number of cells; ``"pMSE"`` grows with it.
    groups : int
        Groups that a number is cut into.
    codes : mapping from column to values, optional
        Numbers that stand for something else, such as -8 for "does not apply": each is a level of its own.

    Examples
    --------
    >>> original = pd.DataFrame({"sex": list("mmff"), "job": list("abab")})
    >>> value = TableUtility(way=2, kind="VW")(original, original.assign(job=list("aaab")))
    >>> list(value.parts), round(float(value), 4)
    (['sex x job'], 2.6667)
    """

    label: ClassVar[str] = "table_utility"
    reference: ClassVar[str] = "Raab, Nowok and Dibben (2021), arXiv:2109.12717; Voas and Williamson (2001)"
    own_missing: ClassVar[tuple[str, ...]] = ("category",)

    columns: Names = checked(None, frames.as_names)
    way: Any = None
    kind: str = checked("pMSE", check_choice, options=KINDS)
    groups: int = checked(5, check_integer, low=2)
    codes: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.way is not None:
            object.__setattr__(self, "way", check_integers("way", self.way, "Write way=2, or way=[2, 3]", low=1))
        if self.codes is not None:
            codes = check_mapping("codes", self.codes, 'Say which values of which column, codes={"income": [-8]}')
            given = {k: as_tuple(v) for k, v in codes.items()}
            object.__setattr__(self, "codes", given)

    def begin(self, original: pd.DataFrame, weights: Array | None = None) -> tuple[pd.DataFrame, Array | None]:
        """Check what is named; groups need both files."""
        stray = [str(c) for c in self.codes or () if c not in original.columns or not _is_cut_into_groups(original[c])]
        if stray:
            raise InputError(f"{self.name} has codes for columns that it does not cut", stray, "Leave them out")
        most = max(self.way or (1,))
        if most > original.shape[1]:
            what = f"{self.name} cannot make tables of {most} columns"
            raise InputError(what, f"{original.shape[1]} columns", "Use a smaller way, or more columns")
        return original, weights

    def compare(
        self, state: tuple[pd.DataFrame, Array | None], released: pd.DataFrame, weights: Array | None = None
    ) -> Measured:
        """Code both files once, then count table after table."""
        original, own = state
        n, names = len(original), [str(c) for c in original.columns]
        coded = [self._column_codes(c, original[c], released[c]) for c in original.columns]
        often = [None if w is None else w / w.mean() for w in (own, weights)]
        if self.way is None:
            parts = self._compare_table(coded, range(len(coded)), n, often)
            return Measured(parts[self.kind], parts=parts)
        found = {
            " x ".join(names[j] for j in chosen): self._compare_table(coded, chosen, n, often)
            for k in self.way
            for chosen in itertools.combinations(range(len(coded)), k)
        }
        values = {name: parts[self.kind] for name, parts in found.items()}
        return Measured(float(np.mean(list(values.values()))), parts=values, table=lambda: pd.DataFrame(found).T)

    def _compare_table(
        self, coded: Sequence[tuple[Ints, int]], chosen: Sequence[int], n: int, often: Sequence[Array | None]
    ) -> dict[str, float]:
        """Compare one table; only cells that occur are looked at."""
        codes, levels = coded[chosen[0]]
        every = float(levels)
        for j in chosen[1:]:
            own, many = coded[j]
            every *= many
            codes, levels = codes * many + own, levels * many
            if levels > 4 * len(codes):
                codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
                levels = int(codes.max()) + 1
        files = zip((codes[:n], codes[n:]), often, strict=True)
        d, s = (np.bincount(part, weights=w, minlength=levels).astype(np.float64) for part, w in files)
        return table_measures(d, s, every)

    def _column_codes(self, label: Hashable, a: pd.Series, b: pd.Series) -> tuple[Ints, int]:
        """Codes of a column, the original's and then the release's, and the number of levels."""
        frames.refuse_mixed(self.name, a, b)
        if not (_is_cut_into_groups(a) or frames.is_time(a)):
            (ours, theirs), (levels,) = cells.common_codes(a.to_frame(), b.to_frame())
            return np.concatenate([ours[:, 0], theirs[:, 0]]), levels
        sides = (a, "the original"), (b, "the release")
        values = np.concatenate([frames.floats_with_nan(self.name, c, a, which) for c, which in sides])
        level = np.full(len(values), -1, dtype=np.int64)
        special = [np.nan, *((self.codes or {}).get(label, ()))]
        for code, value in enumerate(special):
            level[np.isnan(values) if code == 0 else values == value] = code
        plain = level < 0
        level[plain] = len(special) + quantile_groups(values[plain], self.groups)
        return cells.renumber(level, len(special) + self.groups + 1)


def _is_cut_into_groups(column: pd.Series) -> bool:
    """True for numbers, which are cut into groups; truth values are categories."""
    return frames.is_number(column) and not pd.api.types.is_bool_dtype(column.dtype)


def quantile_groups(values: Array, groups: int) -> Ints:
    """Groups of about the same size: from one quantile to below the next, the last one closed.

    Where ties leave fewer than three groups the range is cut into equal widths.

    >>> quantile_groups(np.array([1.0, 2.0, 3.0, 4.0]), 2).tolist()
    [0, 0, 1, 1]
    """
    if len(values) == 0:
        return np.zeros(0, dtype=np.int64)
    breaks = np.unique(np.quantile(values, np.linspace(0, 1, groups + 1)))
    if len(breaks) < 4 and groups > 2:
        breaks = np.unique(np.linspace(values.min(), values.max(), groups + 1))
    return np.clip(np.searchsorted(breaks, values, side="right") - 1, 0, max(len(breaks) - 2, 0))
