"""Distances between records of which some values are not known, and the nearest records by them.

A record that asks is compared on the columns that it knows. Where the other one does not know a column, the squared
distance is the mean over the original's values of that column. No matrix of distances is held: records stand in a tree
of boxes, and a box is passed over if it is too far on the columns that are known.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...numerics.compiled import compiled
from ...protocols import Array
from ..frames import Flags, Ints
from .neighbours import ROOM, Links, Surroundings, build, distinct_points, is_tied, rounding_tolerances


class IncompleteColumn(NamedTuple):
    """One column of two files."""

    values: list[Array]
    """Numbers, or codes of categories; NaN where they are not known."""
    blank: list[Array]
    """Squared distance of each value from one that is not known."""
    cost: float
    """Squared distance of two different categories; 0 for numbers."""
    middle: float
    """Where values that are not known stand in a tree."""


class IncompleteRecords(NamedTuple):
    """The records of one file: `IncompleteColumn`, side by side."""

    values: Array
    blank: Array
    cost: Array
    middle: Array

    @classmethod
    def of(cls, columns: list[IncompleteColumn], file: int, rows: int) -> IncompleteRecords:
        """The records of the first or the second file of some columns."""
        values, blank = (
            np.array([side[file] for side in sides], dtype=np.float64).reshape(len(columns), rows).T.copy()
            for sides in ([c.values for c in columns], [c.blank for c in columns])
        )
        return cls(values, blank, np.array([c.cost for c in columns]), np.array([c.middle for c in columns]))

    def take(self, rows: Ints | Flags) -> IncompleteRecords:
        """Some of the records."""
        return self._replace(values=self.values[rows], blank=self.blank[rows])

    def share_of_own_links(self, asked: IncompleteRecords, own: Ints) -> Array:
        """Share of the link of each record that goes to its own one, ``own`` among those asked: see `neighbours`."""
        reach, room = np.sqrt(self._squares_of_pairs(asked.values[own])), self.room()
        inner, outer = np.maximum(reach * (1.0 - ROOM) - room, 0.0) ** 2, (reach * (1.0 + ROOM) + room) ** 2
        ties = GapTree(asked).weights_within(self, np.full(len(room), -1.0), inner, outer)
        return np.divide(1.0, ties, out=np.zeros(len(ties)), where=ties > 0)

    def links(self, asked: IncompleteRecords) -> Links:
        """The nearest records of another file."""
        tree = GapTree(asked, together=False)
        distance, counts = tree.nearest(self, np.full(len(self.values), -1.0))
        edges = np.append(0, np.cumsum(counts.astype(np.int64)))
        return Links(edges, tree.records_within(self, (distance * (1.0 + ROOM) + self.room()) ** 2, edges), distance)

    def surroundings_among(self, other: IncompleteRecords) -> Surroundings:
        """How each record lies among those of another file and of its own."""
        points, kinds = distinct_points(np.where(np.isnan(self.values), np.inf, self.values))
        asking = self if kinds is None else self.take(np.unique(kinds, return_index=True)[1])
        ours, theirs = GapTree(self), GapTree(other)
        zero, below = asking.room() ** 2, np.full(len(points), -1.0)
        own = ours.weights_within(asking, below, np.zeros(len(points)), zero)
        distance, there = theirs.nearest(asking, below)
        around, here = ours.nearest(asking, zero)  # those at distance zero are passed over
        share = np.where(is_tied(distance, around), there / np.maximum(there + here, 1), distance < around)
        equal = np.where(is_tied(distance, 0.0), there, 0.0)
        at = np.arange(len(points)) if kinds is None else kinds
        return Surroundings(own.astype(np.int64)[at], equal.astype(np.int64)[at], share[at])

    def _squares_of_pairs(self, others: Array) -> Array:
        """Squared distance of each record from another one."""
        cost, known = self.cost, ~np.isnan(self.values)
        square = np.where(cost > 0, cost * (self.values != others), (self.values - others) ** 2)
        return np.asarray(np.where(known, np.where(np.isnan(others), self.blank, square), 0.0).sum(axis=1))

    def room(self) -> Array:
        """Rounding room of each record's distances."""
        return rounding_tolerances(np.where(np.isnan(self.values) | (self.cost > 0), 0.0, self.values))


class GapTree:
    """A tree of boxes over records with gaps, as `BoxTree`; records that are equal stand in it once if they may."""

    def __init__(self, records: IncompleteRecords, together: bool = True) -> None:
        self.cost, self.middle, values = records.cost, records.middle, records.values
        kinds = distinct_points(np.where(np.isnan(values), np.inf, values))[1] if together else None
        self.weight = np.ones(len(values)) if kinds is None else np.bincount(kinds).astype(np.float64)
        self.values = values if kinds is None else values[np.unique(kinds, return_index=True)[1]]

    @cached_property
    def boxes(self) -> tuple[Ints, Array, Ints, tuple[Array, Array, Flags]]:
        """Rows and records in the order of the leaves, where each leaf begins, and the boxes of all nodes.

        A box has the least and the largest known value of each column, and whether a record does not know it.
        """
        known = ~np.isnan(self.values)
        rows, start, *_ = build(np.where(known, self.values, self.middle))
        points, leaves = self.values[rows], len(start) - 1
        shape = (2 * leaves, self.values.shape[1])
        low, high, some = np.full(shape, np.inf), np.full(shape, -np.inf), np.zeros(shape, dtype=bool)
        known = known[rows]
        low[leaves:] = np.minimum.reduceat(np.where(known, points, np.inf), start[:-1], axis=0)
        high[leaves:] = np.maximum.reduceat(np.where(known, points, -np.inf), start[:-1], axis=0)
        some[leaves:] = np.logical_or.reduceat(~known, start[:-1], axis=0)
        while leaves > 1:
            for each, join in ((low, np.minimum), (high, np.maximum), (some, np.logical_or)):
                each[leaves // 2 : leaves] = join(each[leaves : 2 * leaves : 2], each[leaves + 1 : 2 * leaves : 2])
            leaves //= 2
        return rows, points, start, (low, high, some)

    def nearest(self, asking: IncompleteRecords, floor: Array) -> tuple[Array, Array]:
        """The least distance of each record with a square beyond the floor, else infinity, and how many share it."""
        rows, *boxes = self.boxes
        room = asking.room()
        best, ties, unsure = least_gaps(asking.values, asking.blank, self.cost, floor, room, self.weight[rows], *boxes)
        distance = np.sqrt(best)
        if unsure.any():
            outer = (distance[unsure] * (1.0 + ROOM) + room[unsure]) ** 2
            ties[unsure] = self.weights_within(asking.take(unsure), floor[unsure], np.zeros(len(outer)), outer)
        return distance, ties

    def weights_within(self, asking: IncompleteRecords, floor: Array, inner: Array, outer: Array) -> Array:
        """How many records have squared distances between the floor and ``outer``; 0 if one has less than ``inner``."""
        rows, *boxes = self.boxes
        none = np.zeros(0, dtype=np.int64)
        return np.asarray(
            weight_between_distances(
                asking.values, asking.blank, self.cost, floor, inner, outer, none, none, self.weight[rows], *boxes
            )
        )

    def records_within(self, asking: IncompleteRecords, outer: Array, edges: Ints) -> Ints:
        """The records at squared distances up to ``outer``, in the file's order; those of record i from edge i on."""
        rows, *boxes = self.boxes
        found, nowhere = np.empty(edges[-1], dtype=np.int64), np.zeros(len(outer))
        weight_between_distances(
            *(asking.values, asking.blank, self.cost, nowhere - 1.0, nowhere, outer),
            *(edges, found, self.weight[rows], *boxes),
        )
        points = rows[found]
        return points[np.lexsort((points, np.repeat(np.arange(len(outer)), np.diff(edges))))]


# -- kernels -------------------------------------------------------------------------------------------


def _gap(q: Array, blank: Array, cost: Array, z: Array, outer: float) -> float:
    """Squared distance over the columns that the query knows, or more than ``outer``."""
    total = 0.0
    for k in range(len(q)):
        if q[k] == q[k]:
            if z[k] != z[k]:
                total += blank[k]
            elif cost[k] == 0.0:
                total += (q[k] - z[k]) ** 2
            elif q[k] != z[k]:
                total += cost[k]
            if total > outer:
                break
    return total


def _gap_to_box(
    q: Array, blank: Array, cost: Array, low: Array, high: Array, some: Flags, node: int, outer: float
) -> float:
    """The least that `_gap` can be to a record in a box, or more than ``outer``."""
    total = 0.0
    for k in range(len(q)):
        outside = max(low[node, k] - q[k], q[k] - high[node, k])
        if q[k] == q[k] and outside > 0.0:
            square = outside * outside if cost[k] == 0.0 else cost[k]
            total += min(square, blank[k]) if some[node, k] else square
            if total > outer:
                break
    return total


def _next_leaf(
    q: Array,
    blank: Array,
    cost: Array,
    boxes: tuple[Array, Array, Flags],
    outer: float,
    stack: Ints,
    bound: Array,
    top: int,
) -> tuple[int, int]:
    """The next leaf that may hold a near record, -1 if there is none, and the height of the stack."""
    low, high, some = boxes
    leaves = len(low) // 2
    while top > 0:
        top -= 1
        node = stack[top]
        if bound[top] > outer:
            continue
        while 0 < node < leaves:
            left = _gap_to_box(q, blank, cost, low, high, some, 2 * node, outer)
            right = _gap_to_box(q, blank, cost, low, high, some, 2 * node + 1, outer)
            near = 2 * node + (1 if right < left else 0)
            if max(left, right) <= outer:
                stack[top], bound[top] = near ^ 1, max(left, right)
                top += 1
            node = near if min(left, right) <= outer else 0
        if node > 0:
            return node - leaves, top
    return -1, 0


@compiled(_gap, _gap_to_box, _next_leaf)
def least_gaps(
    asking: Array,
    blank: Array,
    cost: Array,
    floor: Array,
    room: Array,
    weight: Array,
    points: Array,
    start: Ints,
    boxes: tuple[Array, Array, Flags],
) -> tuple[Array, Array, Flags]:
    """The least squared distance of each record to one beyond the floor, and the weight of those that share it.

    The last array says where others than these may be in that weight: their distance was nearly the least, once.
    """
    m = len(asking)
    best, ties, unsure = np.full(m, np.inf), np.zeros(m), np.zeros(m, dtype=np.bool_)
    stack, bound = np.ones(128, dtype=np.int64), np.zeros(128)
    for i in range(m):
        q, b = asking[i], blank[i]
        outer = np.inf
        stack[0], bound[0] = 1, 0.0
        leaf, top = _next_leaf(q, b, cost, boxes, outer, stack, bound, 1)
        while leaf >= 0:
            for t in range(start[leaf], start[leaf + 1]):
                square = _gap(q, b, cost, points[t], outer)
                if floor[i] < square <= outer:
                    if square < best[i]:
                        outer = (np.sqrt(square) * (1.0 + ROOM) + room[i]) ** 2
                        unsure[i] = outer >= best[i]
                        if outer < best[i]:
                            ties[i] = 0.0  # a leap: what was found before is no tie
                        best[i] = square
                    ties[i] += weight[t]
            leaf, top = _next_leaf(q, b, cost, boxes, outer, stack, bound, top)
    return best, ties, unsure


@compiled(_gap, _gap_to_box, _next_leaf)
def weight_between_distances(
    asking: Array,
    blank: Array,
    cost: Array,
    floor: Array,
    inner: Array,
    outer: Array,
    edges: Ints,
    found: Ints,
    weight: Array,
    points: Array,
    start: Ints,
    boxes: tuple[Array, Array, Flags],
) -> Array:
    """Weight of the records beyond the floor and up to ``outer`` from each, 0 if one is nearer than ``inner``.

    With ``edges`` their places are written to ``found``, those of record i from its edge on.
    """
    total = np.zeros(len(asking))
    stack, bound = np.ones(128, dtype=np.int64), np.zeros(128)
    for i in range(len(asking)):
        if not outer[i] < np.inf:
            continue
        q, b = asking[i], blank[i]
        closer, count = False, 0
        stack[0], bound[0] = 1, 0.0
        leaf, top = _next_leaf(q, b, cost, boxes, outer[i], stack, bound, 1)
        while leaf >= 0 and not closer:
            for t in range(start[leaf], start[leaf + 1]):
                square = _gap(q, b, cost, points[t], outer[i])
                if floor[i] < square <= outer[i]:
                    total[i] += weight[t]
                    closer = closer or square < inner[i]
                    if len(edges) > 0:
                        found[edges[i] + count] = t
                        count += 1
            leaf, top = _next_leaf(q, b, cost, boxes, outer[i], stack, bound, top)
        if closer:
            total[i] = 0.0
    return total
