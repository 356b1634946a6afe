"""How many points lie below each point, or how much weight: inner loops of distribution functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...numerics.compiled import compiled, count_bits
from ...protocols import Array
from ..frames import Ints


@compiled()
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


@compiled()
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


@compiled(count_bits)
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
