"""Broad utility: differences between the empirical distribution functions, in any dimension."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...checks import check_integer, checked
from ...numerics.compiled import compiled, count_bits
from ...protocols import Array
from ..base import Measured, WeightedMeasure
from ..frames import Ints, Names, as_names, numeric

PIECE = 4096
"""Values of a sample that are compared at a time: what is made of more does not stay in the processor's cache."""


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
        return cls(values[order], upto / upto[-1:])  # none where all are missing

    def below(self, at: Array) -> Array:
        """The distribution function."""
        place = np.searchsorted(self.values, at, side="right")
        return place / len(self.values) if self.upto is None else np.append(0.0, self.upto)[place]


def step_differences(first: Law, second: Law) -> Iterator[tuple[Array, Array]]:
    """All values of two samples in one order, and F - G behind each of them; in pieces, as far as processors look.

    A piece begins with the value that the one before it ends with. Of equal values only the last has both functions'
    whole step behind it.

    >>> [(values, gap)] = step_differences(Law(np.array([1.0, 3.0])), Law(np.array([2.0, 4.0])))
    >>> values.tolist(), gap.tolist()
    ([1.0, 2.0, 3.0, 4.0], [0.5, 0.0, 0.5, 0.0])
    """
    (a, upto_a), (b, upto_b) = first, second
    f, g = (None if upto is None else np.append(0.0, upto) for upto in (upto_a, upto_b))
    cuts = np.sort(np.concatenate([a[PIECE::PIECE], b[PIECE::PIECE]]))
    ends = (np.append(np.searchsorted(v, cuts), len(v)).tolist() for v in (a, b))
    i, j, last = 0, 0, (np.empty(0), np.empty(0))
    for upto_i, upto_j in zip(*ends, strict=True):
        if upto_i + upto_j == i + j:
            continue  # both samples have their cut at the same value
        both = np.concatenate([a[i:upto_i], b[j:upto_j]])
        order = np.argsort(both, kind="stable")  # two runs that are in order are merged in one pass
        taken = np.cumsum(order < upto_i - i)
        below, rest = i + taken, j + np.arange(1, len(both) + 1) - taken
        gap = (below / len(a) if f is None else f[below]) - (rest / len(b) if g is None else g[rest])
        values, gap = np.concatenate([last[0], both[order]]), np.concatenate([last[1], gap])
        yield values, gap
        i, j, last = upto_i, upto_j, (values[-1:], gap[-1:])


def kolmogorov(first: Law, second: Law) -> float:
    """The largest distance between the distribution functions of two samples."""
    # Behind the last value of all both are 1.
    pieces = step_differences(first, second)
    return max(float(np.abs(gap[:-1][values[1:] != values[:-1]]).max(initial=0.0)) for values, gap in pieces)


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


# -- kernels -----------------------------------------------------------------------------------------


@compiled(steps=lambda second, *_: 10 * len(second))
def weight_below_in_plane(second: Ints, group: Ints, source: Ints, levels: int, weight: Array) -> Array:
    """Weight of the records of each source that lie below each record in both coordinates, itself included.

    Records come in the order of the first coordinate. ``second`` is the rank of the second one (ties share), ``group``
    the rank of the first (ties share), ``source`` 0 or 1. A sweep with two Fenwick trees: n log n.
    """
    n = len(second)
    tree = np.zeros((levels + 1, 2))
    out = np.empty((n, 2))
    start = 0
    while start < n:
        stop = start
        while stop < n and group[stop] == group[start]:
            j = second[stop] + 1
            while j <= levels:
                tree[j, source[stop]] += weight[stop]
                j += j & -j
            stop += 1
        for k in range(start, stop):
            zero = 0.0
            one = 0.0
            j = second[k] + 1
            while j > 0:
                zero += tree[j, 0]
                one += tree[j, 1]
                j -= j & -j
            out[k, 0] = zero
            out[k, 1] = one
        start = stop
    return out


@compiled(steps=lambda points, *_: points.size * len(points) / 6)
def weight_below_by_pairs(points: Array, source: Ints, weight: Array) -> Array:
    """The same in any dimension, pair by pair; records come in the order of the first coordinate."""
    n, p = points.shape
    out = np.zeros((n, 2))
    for i in range(n):
        for j in range(n):
            if points[j, 0] > points[i, 0]:
                break
            below = True
            for d in range(1, p):
                if points[j, d] > points[i, d]:
                    below = False
                    break
            if below:
                out[i, source[j]] += weight[j]
    return out


@compiled(count_bits, steps=lambda order, *_: order.size * (20 + order.shape[1] / 50))
def count_below_by_bits(order: NDArray[np.int32], first_of: NDArray[np.int32], source: Ints) -> Ints:
    """The same in any dimension, by bit sets: n^2 p / 512 steps and a few words per record.

    Records come in the order of the first coordinate. ``order[d]`` lists them by coordinate d, and ``first_of[d]`` has
    for each place of that list the first place with the same value. For 256 records at a time a walk up each coordinate
    carries the set of those already passed, and every record keeps the intersection over coordinates. Records below all
    of the 256 are left out.
    """
    p, n = order.shape
    out = np.zeros((n, 2), dtype=np.int64)
    kept = np.empty((n, 4), dtype=np.uint64)
    none = np.uint64(0)
    one = np.uint64(1)
    live = order.copy()
    begin = first_of.copy()
    place = np.empty((p, n), dtype=np.int32)
    change = np.empty(256, dtype=np.int64)
    zeros = np.empty(4, dtype=np.uint64)
    passed = np.empty(4, dtype=np.uint64)
    size = n
    renew = 0
    for start in range(0, n, 256):
        stop = min(start + 256, n)
        if start >= renew:
            # Records before the first one that ties with the start can hold none of the rest.
            floor = first_of[0, start]
            for d in range(p):
                size = 0
                old = -1
                group = 0
                for k in range(n):
                    i = order[d, k]
                    if i >= floor:
                        if first_of[d, k] != old:
                            old = first_of[d, k]
                            group = size
                        live[d, size] = i
                        begin[d, size] = group
                        place[d, i] = size
                        size += 1
            renew = start + max(n // 16, 1)
        zeros[:] = none
        for i in range(start, stop):
            if source[i] == 0:
                zeros[(i - start) >> 6] |= one << np.uint64((i - start) & 63)
        kept[:] = ~none
        for d in range(p):
            # Places where the carried set grows, each with its record, in order of place.
            for i in range(start, stop):
                change[i - start] = np.int64(begin[d, place[d, i]]) * 256 + (i - start)
            steps = np.sort(change[: stop - start])
            passed[:] = none
            k = 0
            for s in range(len(steps) + 1):
                upto = steps[s] >> 8 if s < len(steps) else size
                w0, w1, w2, w3 = passed[0], passed[1], passed[2], passed[3]
                for j in range(k, upto):
                    i = live[d, j]
                    kept[i, 0] &= w0
                    kept[i, 1] &= w1
                    kept[i, 2] &= w2
                    kept[i, 3] &= w3
                k = upto
                if s < len(steps):
                    at = steps[s] & 255
                    passed[at >> 6] |= one << np.uint64(at & 63)
        for j in range(size):
            i = live[0, j]
            if (kept[i, 0] | kept[i, 1] | kept[i, 2] | kept[i, 3]) != none:
                for w in range(4):
                    zero = count_bits(kept[i, w] & zeros[w])
                    out[i, 0] += np.int64(zero)
                    out[i, 1] += np.int64(count_bits(kept[i, w]) - zero)
    return out
