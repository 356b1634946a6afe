"""Broad utility: differences between the empirical distribution functions, in any dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...checks import check_integer, checked
from ...protocols import Array
from ..base import Measured, WeightedMeasure
from ..frames import Names, as_names, numeric
from .counts_below import count_below_by_bits, weight_below_by_pairs, weight_below_in_plane


@dataclass(frozen=True, repr=False)
class MD(WeightedMeasure):
    """MD: the largest difference between the two empirical distribution functions, over all records of both files.

    The Kolmogorov-Smirnov distance in one dimension. Woo's (2.2) in any: S(z) is the share of records that are at most
    z in every variable. Depends on the variables' order of values only. ``parts`` has MCM too, and its largest possible
    value.

    Examples
    --------
    >>> MD()([1, 3], [2, 4])
    0.5
    """

    columns: Names = checked(None, as_names)

    label: ClassVar[str] = "MD"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Karr, Oganian, Reiter and Woo, New measures of data utility, eq. 2.2"

    def begin(self, original: pd.DataFrame, weights: Array | None = None) -> tuple[Array, Array | None]:
        return numeric(self.name, original), weights

    def compare(
        self, state: tuple[Array, Array | None], released: pd.DataFrame, weights: Array | None = None
    ) -> Measured:
        first, second = state[0], numeric(self.name, released, "the release")
        gap = cdf_differences(first, second, None if weights is None else (state[1], weights))
        parts = {"MD": float(np.abs(gap).max())}
        if weights is None:
            ties = any(len(np.unique(c)) < len(c) for c in np.concatenate([first, second]).T)
            parts |= {
                "MCM": float(gap @ gap),
                "MCM maximum": mcm_maximum(len(first), len(second), first.shape[1], ties),
            }
        else:
            often = np.concatenate([w / w.mean() for w in (state[1], weights) if w is not None])
            parts["MCM"] = float(often @ gap**2)
        return Measured(parts[self.label], parts=parts)


@dataclass(frozen=True, repr=False)
class MCM(MD):
    """MCM: the sum of squared differences between the empirical distribution functions over all records of both files.

    A Cramer-von Mises distance, Woo's (2.3). Its printed maximum holds for one variable without ties only;
    `mcm_maximum` has the others.

    Examples
    --------
    >>> MCM()([1, 2], [3, 4])
    1.5
    """

    label: ClassVar[str] = "MCM"
    range: ClassVar[tuple[float, float]] = (0.0, np.inf)
    reference: ClassVar[str] = "Karr, Oganian, Reiter and Woo, New measures of data utility, eq. 2.3"


def cdf_differences(first: Array, second: Array, weights: tuple[Any, Any] | None = None) -> Array:
    """S_first - S_second at every record of both files, those of the first file first.

    One variable by sorting, two by a sweep (n log n), more by bit sets (n^2 p / 256 steps, a few words per record) or,
    with weights of the records of both files, pair by pair.
    """
    first, second = (np.asarray(a, dtype=np.float64).reshape(len(a), -1) for a in (first, second))
    n, m = len(first), len(second)
    if first.shape[1] == 1:
        at = np.concatenate([first[:, 0], second[:, 0]])
        own = weights or (None, None)
        a, b = (Law.of(v[:, 0], w).below(at) for v, w in zip((first, second), own, strict=True))
        return a - b
    pooled = np.concatenate([first, second])
    order = np.argsort(pooled[:, 0], kind="stable")
    pooled = pooled[order]
    source = (order >= n).astype(np.int64)
    counts = np.empty((n + m, 2))
    heavy = np.ones(n + m) if weights is None else np.concatenate([w * (len(w) / w.sum()) for w in weights])[order]
    if first.shape[1] == 2:
        values, rank = np.unique(pooled[:, 1], return_inverse=True)
        group = np.cumsum(np.append(False, pooled[1:, 0] != pooled[:-1, 0])).astype(np.int64)  # ties share
        counts[order] = weight_below_in_plane(rank.astype(np.int64), group, source, len(values), heavy)
    elif weights is not None:
        counts[order] = weight_below_by_pairs(pooled, source, heavy)
    else:
        orders = np.argsort(pooled, axis=0, kind="stable").T.astype(np.int32)
        firsts = np.stack([_first_places(pooled[o, d]) for d, o in enumerate(orders)])
        counts[order] = count_below_by_bits(np.ascontiguousarray(orders), firsts, source)
    return counts[:, 0] / n - counts[:, 1] / m


class Law(NamedTuple):
    """A sample of one variable in order, and the share of the weight up to each value, None without weights."""

    values: Array
    upto: Array | None = None

    @classmethod
    def of(cls, values: Array, weights: Array | None) -> Law:
        """Sort."""
        if weights is None:
            return cls(np.sort(values))
        order = np.argsort(values, kind="stable")
        upto = np.cumsum(weights[order])
        return cls(values[order], upto / upto[-1])

    def below(self, at: Array) -> Array:
        """The distribution function."""
        place = np.searchsorted(self.values, at, side="right")
        return place / len(self.values) if self.upto is None else np.append(0.0, self.upto)[place]


def step_differences(first: Law, second: Law) -> tuple[Array, Array]:
    """All values of two samples in one order, and F - G behind each of them.

    Of equal values only the last has both functions' whole step behind it.

    >>> values, gap = step_differences(Law(np.array([1.0, 3.0])), Law(np.array([2.0, 4.0])))
    >>> values.tolist(), gap.tolist()
    ([1.0, 2.0, 3.0, 4.0], [0.5, 0.0, 0.5, 0.0])
    """
    n, m = len(first.values), len(second.values)
    both = np.concatenate([first.values, second.values])
    order = np.argsort(both, kind="stable")  # two runs that are in order are merged in one pass
    below = np.cumsum(order < n)
    rest = np.arange(1, len(both) + 1) - below
    f = below / n if first.upto is None else np.append(0.0, first.upto)[below]
    g = rest / m if second.upto is None else np.append(0.0, second.upto)[rest]
    return both[order], f - g


def kolmogorov(first: Law, second: Law) -> float:
    """The largest distance between the distribution functions of two samples."""
    values, gap = step_differences(first, second)
    return float(np.abs(gap[np.append(values[1:] != values[:-1], True)]).max())


def mcm_maximum(n: int, m: int, p: int = 1, ties: bool = False) -> float:
    """The largest MCM that two files of n and m records and p variables can have.

    The paper's (n + m)(2nm + 1)/(6nm) holds for p = 1 without ties. With C(k) = (k + 1)(2k + 1)/(6k), two or more
    variables without ties reach the largest of C(n) + C(m), C(n) + (m - 1)^2/m, C(m) + (n - 1)^2/n; that nothing larger
    exists was checked exhaustively for small files and is not proved. With ties and p >= 2 it is n + m.

    Examples
    --------
    >>> mcm_maximum(2, 2), mcm_maximum(2, 2, p=2)
    (1.5, 2.5)
    """
    n, m, p = (check_integer(name, k, low=1, high=2**53) for name, k in (("n", n), ("m", m), ("p", p)))
    if p == 1 and not ties:
        return (n + m) * (2 * n * m + 1) / (6 * n * m)
    if p == 1:
        return max(n + (m - 1) * (2 * m - 1) / (6 * m), m + (n - 1) * (2 * n - 1) / (6 * n))
    if ties:
        return float(n + m)
    c_n, c_m = ((k + 1) * (2 * k + 1) / (6 * k) for k in (n, m))
    return max(c_n + c_m, c_n + (m - 1) ** 2 / m, c_m + (n - 1) ** 2 / n)


def _first_places(values: Array) -> NDArray[np.int32]:
    """For each place of sorted values the first place with the same value."""
    new = np.append(True, values[1:] != values[:-1])
    return np.maximum.accumulate(np.where(new, np.arange(len(values)), 0)).astype(np.int32)
