"""Inner loops of masks that array operations cannot express, compiled by numba when such a mask first runs.

The functions are plain Python and give the same answer without numba, only slowly. `compiled` hands out the
machine code; it is cached on disk, so that a new process does not compile again. Nothing runs in parallel:
the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

__all__ = ["compiled", "mdav_labels", "rank_partners"]

SPLIT = 1048577.0
"""2^20 + 1. ``c = SPLIT * d; c - (c - d)`` rounds d to 33 of its 53 bits (Veltkamp)."""
ROOM = 1e-9
"""More than that rounding, so that a bound never rules out a tie."""
LEAF = 12
"""Most records in a leaf of the tree of boxes."""


@cache
def compiled(name: str) -> Callable[..., Any]:
    """Return a kernel of this file as machine code."""
    njit = _compiler()
    kernel = globals()[name]
    try:
        return njit(cache=True, error_model="numpy")(kernel)  # type: ignore[no-any-return]
    except RuntimeError:
        # No directory that could hold the cache: compile for this process alone.
        return njit(error_model="numpy")(kernel)  # type: ignore[no-any-return]


@cache
def _compiler() -> Callable[..., Any]:
    import numba
    from numba.extending import register_jitable

    for helper in (_select, _sort_down, _box, _union, _nearest, _opposite, _outermost, _drop):
        register_jitable(helper)
    return numba.njit  # type: ignore[no-any-return]


def rank_partners(draws: Any, window: int) -> Any:
    """Pair ranks with ranks at most ``window`` above them; the partner of a rank that stays is itself.

    Walk up the ranks. Each free rank takes a partner, uniform among the free ranks of the next ``window``:
    number ``floor(draw * count)`` of them. A Fenwick tree counts and finds free ranks, so n ranks cost n log n.
    """
    n = len(draws)
    partner = np.arange(n)
    tree = np.empty(n + 1, dtype=np.int64)
    for i in range(n + 1):
        tree[i] = i & -i
    top = 1
    while top * 2 <= n:
        top *= 2
    for i in range(n):
        if partner[i] != i:
            continue  # taken from below, and off the tree since then
        j = i + 1
        while j <= n:
            tree[j] -= 1
            j += j & -j
        # All free ranks lie above i, so a count over the first ranks counts those in the window.
        count = 0
        j = min(i + 1 + window, n)
        while j > 0:
            count += tree[j]
            j -= j & -j
        if count == 0:
            continue
        wanted = min(int(draws[i] * count), count - 1) + 1
        found = 0
        step = top
        while step > 0:
            if found + step <= n and tree[found + step] < wanted:
                found += step
                wanted -= tree[found]
            step //= 2
        partner[i] = found
        partner[found] = i
        j = found + 1
        while j <= n:
            tree[j] -= 1
            j += j & -j
    return partner


def mdav_labels(z: Any, size: int) -> Any:
    """Group number of each record by MDAV with groups of ``size``; see `ruvdecision.masks.mdav`.

    Records sit in the leaves of a balanced tree of bounding boxes, which shrink as records leave. Bounds from the
    boxes rule out most records, so a search touches few of them; what it finds is what a full scan would find.
    """
    n, p = z.shape
    labels = np.full(n, -1, dtype=np.int64)
    depth = 0
    while n > LEAF << depth:
        depth += 1
    leaves = 1 << depth
    nodes = 2 * leaves
    rows = np.arange(n)
    first = np.zeros(nodes, dtype=np.int64)
    alive = np.zeros(nodes, dtype=np.int64)
    alive[1] = n
    low = np.zeros((nodes, p))
    high = np.zeros((nodes, p))
    least_row = np.zeros(nodes, dtype=np.int64)
    for node in range(1, leaves):
        a, m = first[node], alive[node]
        widest, width = 0, -1.0
        for j in range(p):
            least = greatest = z[rows[a], j]
            for t in range(a + 1, a + m):
                x = z[rows[t], j]
                least, greatest = min(least, x), max(greatest, x)
            if greatest - least > width:
                widest, width = j, greatest - least
        half = m // 2
        _select(z, rows, a, a + m, a + half, widest)
        first[2 * node], alive[2 * node] = a, half
        first[2 * node + 1], alive[2 * node + 1] = a + half, m - half
    points = np.empty((n, p))
    place = np.empty(n, dtype=np.int64)
    home = np.empty(n, dtype=np.int64)
    for node in range(leaves, nodes):
        for t in range(first[node], first[node] + alive[node]):
            for j in range(p):
                points[t, j] = z[rows[t], j]
            place[rows[t]] = t
            home[rows[t]] = node
        _box(points, rows, first, alive, low, high, least_row, node)
    for node in range(leaves - 1, 0, -1):
        _union(alive, low, high, least_row, node)

    # The sum of what is left, in twice the working precision: it must not drift as records leave.
    total, rest = np.zeros(p), np.zeros(p)
    for i in range(n):
        for j in range(p):
            sum_ = total[j] + z[i, j]
            v = sum_ - total[j]
            rest[j] += (total[j] - (sum_ - v)) + (z[i, j] - v)
            total[j] = sum_

    centre, anchor = np.empty(p), np.zeros(p)
    radius = np.zeros(n)
    queue = np.empty(n, dtype=np.int64)
    waiting, head, work = 0, 0, 0
    best_d, best_row = np.empty(size), np.empty(size, dtype=np.int64)
    stack, bound = np.empty(2 * depth + 4, dtype=np.int64), np.empty(2 * depth + 4)
    left, group = n, 0
    while left >= 2 * size:
        for j in range(p):
            centre[j] = (total[j] + rest[j]) / left
        if group == 0 or work > 8 * left:
            # Put the records in order of distance from the present centre; it serves until the centre has moved far.
            for j in range(p):
                anchor[j] = centre[j]
            waiting = 0
            for i in range(n):
                if labels[i] < 0:
                    d = 0.0
                    for j in range(p):
                        d += (z[i, j] - centre[j]) ** 2
                    radius[i] = np.sqrt(d)
                    queue[waiting] = i
                    waiting += 1
            _sort_down(queue, waiting, radius)
            head, work = 0, 0
        while labels[queue[head]] >= 0:
            head += 1
        r, steps = _outermost(z, labels, queue, head, waiting, radius, centre, anchor)
        work += steps
        pair = left >= 3 * size
        s = _opposite(z[r], points, rows, first, alive, low, high, leaves, stack, bound) if pair else r
        for turn in range(2 if pair else 1):
            target = r if turn == 0 else s
            _nearest(
                z[target],
                size,
                points,
                rows,
                first,
                alive,
                low,
                high,
                least_row,
                leaves,
                stack,
                bound,
                best_d,
                best_row,
            )
            for t in range(size):
                row = best_row[t]
                labels[row] = group
                for j in range(p):
                    x = -z[row, j]
                    sum_ = total[j] + x
                    v = sum_ - total[j]
                    rest[j] += (total[j] - (sum_ - v)) + (x - v)
                    total[j] = sum_
                _drop(points, rows, first, alive, low, high, least_row, place, home, row)
            group += 1
            left -= size
    for i in range(n):
        if labels[i] < 0:
            labels[i] = group
    return labels


# -- helpers of mdav_labels --------------------------------------------------------------------------


def _select(z: Any, rows: Any, a: int, b: int, middle: int, j: int) -> None:
    """Reorder rows[a:b] so that column j is at most z[rows[middle], j] before the middle and at least that after it."""
    low, high = a, b - 1
    while low < high:
        x, y, w = z[rows[low], j], z[rows[(low + high) // 2], j], z[rows[high], j]
        pivot = max(min(x, y), min(max(x, y), w))
        i, k = low, high
        while i <= k:
            while z[rows[i], j] < pivot:
                i += 1
            while z[rows[k], j] > pivot:
                k -= 1
            if i <= k:
                rows[i], rows[k] = rows[k], rows[i]
                i += 1
                k -= 1
        if middle <= k:
            high = k
        elif middle >= i:
            low = i
        else:
            return


def _sort_down(rows: Any, n: int, by: Any) -> None:
    """Sort the first n rows from large to small (heapsort: short to compile)."""
    for start in range(n // 2 - 1 + n, -1, -1):
        # The first half of the steps builds a heap with the smallest on top, the other half takes it down.
        if start >= n:
            root, end = start - n, n
        else:
            end = start
            rows[0], rows[end] = rows[end], rows[0]
            root = 0
        while True:
            child = 2 * root + 1
            if child >= end:
                break
            if child + 1 < end and by[rows[child + 1]] < by[rows[child]]:
                child += 1
            if by[rows[root]] <= by[rows[child]]:
                break
            rows[root], rows[child] = rows[child], rows[root]
            root = child


def _box(points: Any, rows: Any, first: Any, alive: Any, low: Any, high: Any, least_row: Any, node: int) -> None:
    """Bounding box and smallest row of the records in a leaf."""
    a = first[node]
    if alive[node] == 0:
        return
    for j in range(points.shape[1]):
        least = greatest = points[a, j]
        for t in range(a + 1, a + alive[node]):
            x = points[t, j]
            least, greatest = min(least, x), max(greatest, x)
        low[node, j], high[node, j] = least, greatest
    least_row[node] = rows[a]
    for t in range(a + 1, a + alive[node]):
        least_row[node] = min(least_row[node], rows[t])


def _union(alive: Any, low: Any, high: Any, least_row: Any, node: int) -> None:
    """Count, bounding box and smallest row of a node from its two children."""
    a, b = 2 * node, 2 * node + 1
    alive[node] = alive[a] + alive[b]
    if alive[a] == 0:
        a = b
    elif alive[b] == 0:
        b = a
    for j in range(low.shape[1]):
        low[node, j] = min(low[a, j], low[b, j])
        high[node, j] = max(high[a, j], high[b, j])
    least_row[node] = min(least_row[a], least_row[b])


def _drop(
    points: Any, rows: Any, first: Any, alive: Any, low: Any, high: Any, least_row: Any, place: Any, home: Any, row: int
) -> None:
    """Take a record out of its leaf and shrink the boxes above it."""
    node = home[row]
    t, last = place[row], first[node] + alive[node] - 1
    other = rows[last]
    if t != last:
        for j in range(points.shape[1]):
            points[t, j] = points[last, j]
        rows[t], rows[last] = other, row
        place[other], place[row] = t, last
    alive[node] -= 1
    _box(points, rows, first, alive, low, high, least_row, node)
    node //= 2
    while node > 0:
        _union(alive, low, high, least_row, node)
        node //= 2


def _outermost(
    z: Any, labels: Any, queue: Any, head: int, waiting: int, radius: Any, centre: Any, anchor: Any
) -> tuple[int, int]:
    """Row farthest from the centre, and how many records were looked at.

    The queue is in order of distance from the anchor. No distance can have grown by more than the centre has moved.
    """
    p = z.shape[1]
    moved = 0.0
    for j in range(p):
        moved += (centre[j] - anchor[j]) ** 2
    moved = np.sqrt(moved)
    best, row, t = -1.0, -1, head
    while t < waiting:
        i = queue[t]
        t += 1
        reach = radius[i] + moved
        if reach * reach * (1.0 + ROOM) < best:
            break
        if labels[i] < 0:
            d = 0.0
            for j in range(p):
                d += (z[i, j] - centre[j]) ** 2
            c = SPLIT * d
            d = c - (c - d)
            if d > best or (d == best and i < row):
                best, row = d, i
    return row, t - head


def _opposite(
    q: Any, points: Any, rows: Any, first: Any, alive: Any, low: Any, high: Any, leaves: int, stack: Any, bound: Any
) -> int:
    """Row farthest from q."""
    p = len(q)
    best, row = -1.0, -1
    stack[0], bound[0], depth = 1, np.inf, 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if bound[depth] < best:
            continue
        if node >= leaves:
            for t in range(first[node], first[node] + alive[node]):
                d = 0.0
                for j in range(p):
                    d += (points[t, j] - q[j]) ** 2
                c = SPLIT * d
                d = c - (c - d)
                if d > best or (d == best and rows[t] < row):
                    best, row = d, rows[t]
            continue
        a, b = 2 * node, 2 * node + 1
        far_a = far_b = 0.0
        for j in range(p):
            far_a += max(q[j] - low[a, j], high[a, j] - q[j]) ** 2
            far_b += max(q[j] - low[b, j], high[b, j] - q[j]) ** 2
        far_a, far_b = far_a * (1.0 + ROOM), far_b * (1.0 + ROOM)
        if far_a > far_b:  # the more promising child goes on top
            a, b, far_a, far_b = b, a, far_b, far_a
        if alive[a] > 0 and far_a >= best:
            stack[depth], bound[depth] = a, far_a
            depth += 1
        if alive[b] > 0 and far_b >= best:
            stack[depth], bound[depth] = b, far_b
            depth += 1
    return row


def _nearest(
    q: Any,
    size: int,
    points: Any,
    rows: Any,
    first: Any,
    alive: Any,
    low: Any,
    high: Any,
    least_row: Any,
    leaves: int,
    stack: Any,
    bound: Any,
    best_d: Any,
    best_row: Any,
) -> None:
    """Rows of the ``size`` records nearest to q, into best_row as a heap with the worst on top."""
    p = len(q)
    for t in range(size):
        best_d[t], best_row[t] = np.inf, np.iinfo(np.int64).max
    stack[0], bound[0], depth = 1, 0.0, 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        # Copies of q are all at distance zero; of them only those with the smallest rows are wanted.
        if bound[depth] > best_d[0] or (bound[depth] == best_d[0] and least_row[node] > best_row[0]):
            continue
        if node >= leaves:
            for t in range(first[node], first[node] + alive[node]):
                d = 0.0
                for j in range(p):
                    d += (points[t, j] - q[j]) ** 2
                c = SPLIT * d
                d = c - (c - d)
                row = rows[t]
                if d > best_d[0] or (d == best_d[0] and row > best_row[0]):
                    continue
                i = 0
                while True:  # sift the newcomer down from the top
                    child = 2 * i + 1
                    if child >= size:
                        break
                    if child + 1 < size and (
                        best_d[child + 1] > best_d[child]
                        or (best_d[child + 1] == best_d[child] and best_row[child + 1] > best_row[child])
                    ):
                        child += 1
                    if best_d[child] < d or (best_d[child] == d and best_row[child] < row):
                        break
                    best_d[i], best_row[i] = best_d[child], best_row[child]
                    i = child
                best_d[i], best_row[i] = d, row
            continue
        a, b = 2 * node, 2 * node + 1
        near_a = near_b = 0.0
        for j in range(p):
            near_a += max(low[a, j] - q[j], q[j] - high[a, j], 0.0) ** 2
            near_b += max(low[b, j] - q[j], q[j] - high[b, j], 0.0) ** 2
        near_a, near_b = near_a * (1.0 - ROOM), near_b * (1.0 - ROOM)
        if near_a < near_b or (near_a == near_b and least_row[a] < least_row[b]):  # the nearer child goes on top
            a, b, near_a, near_b = b, a, near_b, near_a
        if alive[a] > 0 and near_a <= best_d[0]:
            stack[depth], bound[depth] = a, near_a
            depth += 1
        if alive[b] > 0 and near_b <= best_d[0]:
            stack[depth], bound[depth] = b, near_b
            depth += 1
