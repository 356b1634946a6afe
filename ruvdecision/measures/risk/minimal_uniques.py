"""Minimal sample uniques: the search through sets of keys."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...numerics.compiled import compiled, count_bits
from ...protocols import Array
from ..frames import Ints


def _rank_of_subset(chosen: Ints, size: int, skip: int, offsets: Ints, binomial: Ints) -> int:
    """Place of a descending set of columns among all, without that at ``skip``: by size, then colexicographic."""
    kept = size - (skip < size)
    at = offsets[kept]
    for j in range(size):
        if j != skip:
            at += binomial[chosen[j], kept - j + (j > skip)]
    return at


@compiled(_rank_of_subset)
def minimal_uniques(
    codes: NDArray[np.int32], levels: int, weight: NDArray[np.int32], worths: Array, offsets: Ints, binomial: Ints
) -> tuple[Array, Array, Ints, Ints]:
    """Scores of records by their minimal sample uniques, what each column adds, its number of them, and theirs by size.

    ``codes`` is (columns, records), from 0 to ``levels`` - 1, and -1 for what is not there; records differ, and
    ``weight`` is 2 for one that stands for several. ``worths[k]`` is what a minimal unique of k columns counts. Sets
    are visited depth first, each after all of its parts, and split the groups of the set that they extend. Who is alone
    is kept as one bit per set and record: a record that is alone on a part leaves the search, for nobody is like it on
    the set either, and one that is alone on none of them and now on the set has a minimal unique.
    """
    p, n = codes.shape
    deep = len(worths) - 1
    words = (n + 63) // 64
    one = np.uint64(1)
    alone = np.zeros((offsets[deep + 1], words), dtype=np.uint64)
    live = np.empty((deep + 1, n), dtype=np.int32)  # records that are not alone, group by group
    ends = np.empty((deep + 1, n), dtype=np.int32)  # where each of their groups ends
    groups = np.zeros(deep + 1, dtype=np.int64)
    live[0] = np.arange(n)
    ends[0, 0] = n
    groups[0] = 1
    if n == 1 and weight[0] == 1:
        alone[0, 0] = one
    group = np.empty(n, dtype=np.int32)
    count = np.zeros(levels, dtype=np.int32)
    kinds = np.zeros(levels, dtype=np.int32)
    place = np.full(levels, -1, dtype=np.int32)
    chosen = np.full(deep + 1, -1, dtype=np.int64)
    score, worth = np.zeros(n), np.zeros((n, p))
    taking, sizes = np.zeros(p, dtype=np.int64), np.zeros(deep + 1, dtype=np.int64)
    k = 1
    while k > 0:
        chosen[k - 1] += 1
        c = chosen[k - 1]
        if c == (p if k == 1 else chosen[k - 2]):
            k -= 1
            continue
        here = alone[_rank_of_subset(chosen, k, k, offsets, binomial)]
        for j in range(k):
            part = alone[_rank_of_subset(chosen, k, j, offsets, binomial)]
            for w in range(words):
                here[w] |= part[w]
        column, further = codes[c], k < deep and c > 0  # whether the set will be extended
        made, filled, start = 0, 0, 0
        for g in range(groups[k - 1]):
            size = 0
            for t in range(start, ends[k - 1, g]):
                r = live[k - 1, t]
                v = column[r]
                if v >= 0 and not (here[r >> 6] >> np.uint64(r & 63)) & one:
                    group[size] = r
                    size += 1
                    count[v] += weight[r]
                    kinds[v] += 1
            start = ends[k - 1, g]
            for t in range(size):
                r = group[t]
                v = column[r]
                if count[v] == 1:
                    here[r >> 6] |= one << np.uint64(r & 63)
                    score[r] += worths[k]
                    sizes[k] += 1
                    for j in range(k):
                        worth[r, chosen[j]] += worths[k]
                        taking[chosen[j]] += 1
                elif further and kinds[v] > 1:
                    if place[v] < 0:
                        place[v] = filled
                        filled += kinds[v]
                        ends[k, made] = filled
                        made += 1
                    live[k, place[v]] = r
                    place[v] += 1
            for t in range(size):
                v = column[group[t]]
                count[v] = 0
                kinds[v] = 0
                place[v] = -1
        groups[k] = made
        if further:
            chosen[k] = -1
            k += 1
    return score, worth, taking, sizes


@compiled(count_bits)
def minimal_uniques_by_pairs(
    codes: NDArray[np.int32], wild: bool, weight: NDArray[np.int32], worths: Array
) -> tuple[Array, Array, Ints, Ints]:
    """The same from pairs of records, for few records and many sets of columns.

    One bit per set says whether somebody is like the record on it. The sets on which another record is like it are
    those within the columns that they share (and, if ``wild``, those that the other lacks), so the bits are closed
    under taking parts; the smallest sets without a bit are the minimal uniques.
    """
    p, n = codes.shape
    words, one = max(1, 2**p // 64), np.uint64(1)
    low = np.array(
        [
            0x5555555555555555,
            0x3333333333333333,
            0x0F0F0F0F0F0F0F0F,
            0x00FF00FF00FF00FF,
            0x0000FFFF0000FFFF,
            0x00000000FFFFFFFF,
        ],
        dtype=np.uint64,
    )  # the sets within a word that lack column j
    alike, least, shared = np.empty(words, dtype=np.uint64), np.empty(words, dtype=np.uint64), np.empty(n, np.int32)
    score, worth = np.zeros(n), np.zeros((n, p))
    taking, sizes = np.zeros(p, dtype=np.int64), np.zeros(len(worths), dtype=np.int64)
    for r in range(n):
        if weight[r] > 1:
            continue
        shared[:] = 0
        lacks = 0
        for c in range(p):
            column, v, bit = codes[c], codes[c, r], np.int32(1 << c)
            if v < 0:
                lacks |= 1 << c
            elif wild:
                for q in range(n):
                    shared[q] |= bit if column[q] == v or column[q] < 0 else np.int32(0)
            else:
                for q in range(n):
                    shared[q] |= bit if column[q] == v else np.int32(0)
        alike[:] = 0
        for q in range(n):
            if q != r:
                alike[shared[q] >> 6] |= one << np.uint64(shared[q] & 63)
        for c in range(min(p, 6)):
            for w in range(words):
                alike[w] |= (alike[w] >> np.uint64(1 << c)) & low[c]
        for c in range(6, p):
            step = 1 << (c - 6)
            for w in range(words):
                if not w & step:
                    alike[w] |= alike[w + step]
        for w in range(words):
            least[w] = ~alike[w]
        for c in range(min(p, 6)):
            for w in range(words):
                least[w] &= ((alike[w] & low[c]) << np.uint64(1 << c)) | low[c]
        for c in range(6, p):
            step = 1 << (c - 6)
            for w in range(words):
                if w & step:
                    least[w] &= alike[w - step]
        if p < 6:
            least[0] &= (one << np.uint64(1 << p)) - one
        least[0] &= ~one  # not the empty set
        for w in range(words):
            left = least[w]
            while left:
                last = left & (~left + one)
                left ^= last
                chosen = w * 64 + np.int64(count_bits(last - one))
                k = np.int64(count_bits(np.uint64(chosen)))
                if k >= len(worths) or chosen & lacks:
                    continue
                score[r] += worths[k]
                sizes[k] += 1
                for c in range(p):
                    if chosen >> c & 1:
                        worth[r, c] += worths[k]
                        taking[c] += 1
    return score, worth, taking, sizes
