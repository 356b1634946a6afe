"""Nearest neighbours in a tree of boxes.

Two questions. *Is the own record the nearest?* (`share_of_own_links`) needs no nearest neighbour: the distance to the
own record bounds the search and one record that is closer ends it, so most searches are short. *Who is the nearest?*
(`nearest`) gives every record at the least distance. Both share ties, and neither holds a matrix of all distances.

A tree of its own: the first question takes a third of the time of scipy's cKDTree on 10,000 records of 3 variables, a
tenth on 100,000 of 6 (benchmarks/bench_linkage.py), because a k-d tree must find the nearest record to answer it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from ...numerics.compiled import compiled
from ...protocols import Array
from ..frames import Flags, Ints

LEAF = 8
"""Points in a leaf, which is scanned one coordinate after the other; empty places hold a point at infinity."""
LOOSE = frozenset({"reassoc", "nnan", "nsz"})
"""Liberties of the compiler: sums of a leaf may be taken in any order."""
ROOM = 1e-9
"""Two distances that differ by less than this share of them are a tie: standardising must not break one."""
SMALL = 250_000
"""Pairs of records whose distances are all taken at once."""
FLOOR = 1e-12
"""The same for distances near zero, as a share of the query's largest coordinate."""


class Boxes(NamedTuple):
    """The arrays of a tree that searches read."""

    rows: Ints
    """The points in the order of the leaves."""
    start: Ints
    axis: Ints
    cut: Array
    box: Array
    points: Array


@dataclass(frozen=True, eq=False)
class BoxTree:
    """A balanced tree of bounding boxes over points, one leaf for about `LEAF` of them.

    Node 1 is the root and nodes 2i and 2i + 1 are the children of node i. ``rows`` lists the points in the order of
    the leaves, ``boxes.points`` holds them in that order, one block per leaf with a row per coordinate. It is built
    when it is first searched: small files are compared pair by pair, which is sooner done than numba is loaded.

    >>> tree = BoxTree.of(np.array([[0.0], [1.0], [2.0]]))
    >>> tree.boxes.rows.tolist()
    [0, 1, 2]
    """

    points: Array
    weight: Array

    @classmethod
    def of(cls, points: Array, weight: Array | None = None) -> BoxTree:
        """A tree over points; ``weight`` says how many records each stands for."""
        heavy = np.ones(len(points)) if weight is None else np.asarray(weight, dtype=np.float64)
        return cls(np.ascontiguousarray(points, dtype=np.float64), heavy)

    @cached_property
    def boxes(self) -> Boxes:
        """What searches read."""
        return Boxes(*build(self.points))

    def is_small(self, queries: Array) -> bool:
        """Whether all distances may be taken at once."""
        return len(queries) * len(self.points) <= SMALL

    def query_order(self, queries: Array) -> Ints:
        """An order of the queries: that of the leaves where query i is likely near point i; memory is read in turn."""
        return self.boxes.rows if len(queries) == len(self.points) else np.arange(len(queries))


def share_of_own_links(tree: BoxTree, queries: Array, own: Array) -> Array:
    """Share of the link of each query that goes to its own record.

    Parameters
    ----------
    tree : BoxTree
        The records that queries are linked to.
    queries : array of shape (m, p)
        One point per query.
    own : array of shape (m, p)
        The true partner of each query, which is in the tree.

    Returns
    -------
    array of length m
        0 if another record is closer, else one over the number of records at the least distance.

    >>> tree = BoxTree.of(np.array([[0.0], [1.0]]))
    >>> share_of_own_links(tree, np.array([[0.5], [0.9]]), np.array([[0.0], [1.0]])).tolist()
    [0.5, 1.0]
    """
    queries = np.ascontiguousarray(queries, dtype=np.float64)
    gap = queries - own
    reach, room = np.sqrt(np.einsum("ij,ij->i", gap, gap)), rounding_tolerances(queries)
    inner = np.maximum(reach * (1.0 - ROOM) - room, 0.0) ** 2
    outer = (reach * (1.0 + ROOM) + room) ** 2
    ties = weight_inside(tree, queries, inner, outer, tree.weight)
    return np.divide(1.0, ties, out=np.zeros(len(ties)), where=ties > 0)


def weight_inside(tree: BoxTree, queries: Array, inner: Array, outer: Array, weight: Array) -> Array:
    """Weight of the points in a ball of squared radius ``outer`` around each query, 0 if one is in the inner ball."""
    if tree.is_small(queries):
        square = cdist(queries, tree.points, "sqeuclidean")
        return np.where(square.min(axis=1, initial=np.inf) < inner, 0.0, (square <= outer[:, None]) @ weight)
    none = np.zeros(0, dtype=np.int64)
    return np.asarray(
        weight_unless_nearer(
            queries, tree.query_order(queries), inner, outer, none, none, tree.boxes, weight[tree.boxes.rows]
        ),
        dtype=np.float64,
    )


@dataclass(frozen=True, eq=False)
class Links:
    """The points at the least distance of each query: those of query i are ``points[edges[i]:edges[i + 1]]``."""

    edges: Ints
    points: Ints
    distance: Array

    @property
    def counts(self) -> Ints:
        """How many points share the least distance, per query."""
        return np.diff(self.edges)


def nearest(tree: BoxTree, queries: Array) -> Links:
    """All points of the tree at the least distance of each query.

    >>> links = nearest(BoxTree.of(np.array([[0.0], [1.0], [3.0]])), np.array([[0.5], [2.9]]))
    >>> links.points.tolist(), links.edges.tolist(), links.distance.round(3).tolist()
    ([0, 1, 2], [0, 2, 3], [0.5, 0.1])
    """
    queries = np.ascontiguousarray(queries, dtype=np.float64)
    room = rounding_tolerances(queries)
    if tree.is_small(queries):
        square = cdist(queries, tree.points, "sqeuclidean")
        distance = np.sqrt(square.min(axis=1, initial=np.inf))
        close = square <= ((distance * (1.0 + ROOM) + room) ** 2)[:, None]
        return Links(np.append(0, np.cumsum(close.sum(axis=1))), np.nonzero(close)[1], distance)
    first, ties, distance = least_distances(queries, tree.points, tree.query_order(queries), room, tree.boxes)
    asked = np.flatnonzero(ties > 1)
    if len(asked) == 0:
        return Links(np.arange(len(queries) + 1), tree.boxes.rows[first], distance)
    edges = np.append(0, np.cumsum(ties[asked]))
    outer = (distance * (1.0 + ROOM) + room) ** 2
    found = np.full(edges[-1], -1, dtype=np.int64)
    counts = weight_unless_nearer(
        queries, asked, np.zeros(len(queries)), outer, edges, found, tree.boxes, np.ones(len(tree.boxes.rows))
    ).astype(np.int64)
    alone = np.flatnonzero(ties == 1)
    query = np.concatenate([alone, np.repeat(asked, counts)])
    points = tree.boxes.rows[np.concatenate([first[alone], found[found >= 0]])]
    # The order of the leaves means nothing to a caller: the order of the file does.
    ties[asked] = counts
    return Links(np.append(0, np.cumsum(ties)), points[np.lexsort((points, query))], distance)


class Surroundings(NamedTuple):
    """How each row of a file lies among the rows of another file and among the others of its own."""

    own: Ints
    """Rows of its own file at the same point, itself included."""
    other: Ints
    """Rows of the other file at the same point."""
    share: Array
    """The other file's share of the nearest rows elsewhere; 1 if only the other file has such rows."""

    @classmethod
    def of(cls, ours: Array, theirs: Array) -> Surroundings:
        """Those of points.

        >>> around = Surroundings.of(np.array([[0.0], [2.0], [2.0], [9.0]]), np.array([[0.0], [3.0]]))
        >>> around.own.tolist(), around.other.tolist(), around.share.tolist()
        ([1, 2, 2, 1], [1, 0, 0, 0], [0.0, 1.0, 1.0, 1.0])
        """
        points, kinds = np.unique(np.concatenate([ours, theirs]), axis=0, return_inverse=True)
        kinds = kinds.reshape(-1)
        own, other = (np.bincount(k, minlength=len(points)) for k in (kinds[: len(ours)], kinds[len(ours) :]))
        at, share = kinds[: len(ours)], np.zeros(len(points))
        # Only rows without an equal in the other file are asked what is near.
        alone = np.flatnonzero((own > 0) & (other == 0))
        if len(alone):
            tree, queries = BoxTree.of(points), points[alone]
            reach = cKDTree(points).query(queries, k=2)[0][:, 1]
            inner, outer = np.zeros(len(alone)), (reach * (1.0 + ROOM) + rounding_tolerances(queries)) ** 2
            near = [weight_inside(tree, queries, inner, outer, size.astype(np.float64)) for size in (own, other)]
            share[alone] = near[1] / (near[0] - own[alone] + near[1])
        return cls(own[at], other[at], share[at])


def distinct_points(points: Array) -> tuple[Array, Ints | None]:
    """The different points and which of them each record is at, where they are few; otherwise all points and None.

    Files of categories repeat a few points, and a search that met each record would take time n^2.
    """
    n = len(points)
    if n > 64 and all(len(np.unique(column)) <= n // 16 for column in points.T):
        different, kinds = np.unique(points, axis=0, return_inverse=True)
        return different, kinds.reshape(-1)
    return points, None


def is_tied(a: Array, b: Array | float) -> Flags:
    """Where two distances differ by rounding at most."""
    return np.asarray(a == b) | np.asarray(np.abs(a - b) <= ROOM * np.maximum(a, b))


def without_rounding(distances: Array) -> Array:
    """Distances in which those that differ by rounding at most are one number, so that they can be ranked."""
    order = np.argsort(distances)
    ranked = distances[order]
    new = np.append(True, ~is_tied(ranked[:-1], ranked[1:]))[: len(ranked)]
    found = np.empty_like(distances)
    found[order] = ranked[new][np.cumsum(new) - 1]
    return found


def rounding_tolerances(queries: Array) -> Array:
    """Rounding room of each query; one record far away must not make ties of all others."""
    return FLOOR * np.maximum(queries.max(axis=1, initial=0.0), -queries.min(axis=1, initial=0.0))


# -- kernels -------------------------------------------------------------------------------------------


def _partition_rows(z: Array, rows: Ints, a: int, b: int, k: int, j: int) -> None:
    """Rearrange rows[a:b] so that rows[k] has the rank it would have after sorting by coordinate j (Hoare)."""
    left, right = a, b - 1
    while left < right:
        pivot = z[rows[k], j]
        low, high = left, right
        while low <= high:
            while z[rows[low], j] < pivot:
                low += 1
            while pivot < z[rows[high], j]:
                high -= 1
            if low <= high:
                rows[low], rows[high] = rows[high], rows[low]
                low += 1
                high -= 1
        if high < k:
            left = low
        if k < low:
            right = high


@compiled(_partition_rows)
def build(z: Array) -> tuple[Ints, Ints, Ints, Array, Array, Array]:
    """Split at the median until every leaf is small, across the widest side of what the splits above left."""
    n, p = z.shape
    depth = 0
    while n > LEAF << depth:
        depth += 1
    leaves = 1 << depth
    rows = np.arange(n)
    start = np.zeros(2 * leaves + 1, dtype=np.int64)
    size = np.zeros(2 * leaves, dtype=np.int64)
    axis = np.zeros(leaves, dtype=np.int64)
    cut = np.empty((leaves, 2))
    box = np.empty((2 * leaves, 2, p))
    box[1, 0], box[1, 1] = np.inf, -np.inf
    size[1] = n
    for i in range(n):
        for j in range(p):
            box[1, 0, j], box[1, 1, j] = min(box[1, 0, j], z[i, j]), max(box[1, 1, j], z[i, j])
    for node in range(1, leaves):
        a, m = start[node], size[node]
        widest = 0
        for j in range(1, p):
            if box[node, 1, j] - box[node, 0, j] > box[node, 1, widest] - box[node, 0, widest]:
                widest = j
        half = m // 2
        _partition_rows(z, rows, a, a + m, a + half, widest)
        left, right = 2 * node, 2 * node + 1
        axis[node] = widest
        start[left], size[left] = a, half
        start[right], size[right] = a + half, m - half
        box[left] = box[right] = box[node]
        box[left, 1, widest] = box[right, 0, widest] = z[rows[a + half], widest]
    start[2 * leaves] = n  # the last leaf ends here; the others end where the next one starts
    points = np.full((leaves, p, LEAF), np.inf)
    # From the leaves up, boxes shrink to what is in them.
    for node in range(2 * leaves - 1, 0, -1):
        if node >= leaves:
            a, m = start[node], size[node]
            for j in range(p):
                least, greatest = np.inf, -np.inf
                for t in range(m):
                    x = z[rows[a + t], j]
                    points[node - leaves, j, t] = x
                    least, greatest = min(least, x), max(greatest, x)
                box[node, 0, j], box[node, 1, j] = least, greatest
        else:
            left, right = 2 * node, 2 * node + 1
            for j in range(p):
                box[node, 0, j] = min(box[left, 0, j], box[right, 0, j])
                box[node, 1, j] = max(box[left, 1, j], box[right, 1, j])
            cut[node, 0], cut[node, 1] = box[left, 1, axis[node]], box[right, 0, axis[node]]
    return rows, start[leaves:], axis, cut, box, points


def _squared_distance_to_box(q: Array, box: Array, node: int, p: int) -> float:
    """Squared distance from a point to a box, zero inside."""
    total = 0.0
    for j in range(p):
        d = max(box[node, 0, j] - q[j], q[j] - box[node, 1, j], 0.0)
        total += d * d
    return total


def _next_leaf(q: Array, axis: Ints, cut: Array, box: Array, outer: float, stack: Ints, top: int) -> tuple[int, int]:
    """The next leaf that a ball reaches, -1 if there is none, and the height of the stack of nodes that wait."""
    leaves = len(axis)
    while top > 0:
        top -= 1
        node = stack[top]
        if _squared_distance_to_box(q, box, node, len(q)) > outer:
            continue
        # Walk down to the nearer child; the other one waits if the ball reaches its side of the split.
        while node < leaves:
            x = q[axis[node]]
            below, above = x - cut[node, 0], cut[node, 1] - x
            node = 2 * node
            if below > above:
                node, above = node + 1, below
            if above <= 0.0 or above * above <= outer:
                stack[top] = node ^ 1
                top += 1
        return node - leaves, top
    return -1, 0


def _squared_distances_in_leaf(q: Array, points: Array, leaf: int, p: int, square: Array) -> None:
    """Squared distances from a point to those of a leaf.

    Eight sums side by side, which the compiler turns into vectors.
    """
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for j in range(p):
        x = q[j]
        s0 += (points[leaf, j, 0] - x) ** 2
        s1 += (points[leaf, j, 1] - x) ** 2
        s2 += (points[leaf, j, 2] - x) ** 2
        s3 += (points[leaf, j, 3] - x) ** 2
        s4 += (points[leaf, j, 4] - x) ** 2
        s5 += (points[leaf, j, 5] - x) ** 2
        s6 += (points[leaf, j, 6] - x) ** 2
        s7 += (points[leaf, j, 7] - x) ** 2
    square[0], square[1], square[2], square[3] = s0, s1, s2, s3
    square[4], square[5], square[6], square[7] = s4, s5, s6, s7


@compiled(_squared_distance_to_box, _next_leaf, _squared_distances_in_leaf, fastmath=LOOSE)
def weight_unless_nearer(
    queries: Array, order: Ints, inner: Array, outer: Array, edges: Ints, found: Ints, tree: Boxes, weight: Array
) -> Array:
    """Weight of the points in the outer ball around each query of ``order``, 0 if one is in the inner ball.

    The search stops at the first such point. With ``edges`` the points are written to ``found``, those of each query
    from its edge on, as many as there is room for; the weight is then that of those that were written.
    """
    total = np.zeros(len(queries) if len(edges) == 0 else len(order))
    _, start, axis, cut, box, points = tree
    stack = np.ones(128, dtype=np.int64)
    square = np.empty(LEAF)
    for turn in range(len(order)):
        i = order[turn]
        q = queries[i]
        ties = 0.0
        closer = False
        count = 0
        stack[0] = 1
        leaf, top = _next_leaf(q, axis, cut, box, outer[i], stack, 1)
        while leaf >= 0 and not closer:
            _squared_distances_in_leaf(q, points, leaf, len(q), square)
            for t in range(LEAF):
                if square[t] <= outer[i]:
                    if len(edges) > 0:
                        if edges[turn] + count == edges[turn + 1]:
                            continue
                        found[edges[turn] + count] = start[leaf] + t
                        count += 1
                    ties += weight[start[leaf] + t]
                    if square[t] < inner[i]:
                        closer = True
                        break
            leaf, top = _next_leaf(q, axis, cut, box, outer[i], stack, top)
        total[i if len(edges) == 0 else turn] = 0.0 if closer else ties
    return total


@compiled(_squared_distance_to_box, _next_leaf, _squared_distances_in_leaf, fastmath=LOOSE)
def least_distances(queries: Array, guess: Array, order: Ints, room: Array, tree: Boxes) -> tuple[Ints, Ints, Array]:
    """Least distance of each query, a point at that distance, and at most how many points share it."""
    m, p = queries.shape
    _, start, axis, cut, box, points = tree
    stack = np.ones(128, dtype=np.int64)
    square = np.empty(LEAF)
    first = np.empty(m, dtype=np.int64)
    ties = np.empty(m, dtype=np.int64)
    distance = np.empty(m)
    for turn in range(m):
        i = order[turn]
        q = queries[i]
        near = i if i < len(guess) else 0
        outer = 0.0
        for j in range(p):  # any point bounds the search, and that of the same row is likely near
            d = q[j] - guess[near, j]
            outer += d * d
        outer = (np.sqrt(outer) * (1.0 + ROOM) + room[i]) ** 2
        best = np.inf
        place = -1
        count = 0
        stack[0] = 1
        leaf, top = _next_leaf(q, axis, cut, box, outer, stack, 1)
        while leaf >= 0:
            _squared_distances_in_leaf(q, points, leaf, p, square)
            for t in range(LEAF):
                if square[t] <= outer:
                    count += 1
                    if square[t] < best:
                        reach = (np.sqrt(square[t]) * (1.0 + ROOM) + room[i]) ** 2
                        if reach < best:
                            count = 1  # a leap: what was found before is no tie
                        best = square[t]
                        outer = reach
                        place = start[leaf] + t
            leaf, top = _next_leaf(q, axis, cut, box, outer, stack, top)
        first[i], ties[i], distance[i] = place, count, np.sqrt(best)
    return first, ties, distance
