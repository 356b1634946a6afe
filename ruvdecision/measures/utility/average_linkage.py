"""Average linkage without the matrix of all distances, which scipy's holds."""

from __future__ import annotations

import numpy as np

from ...numerics.compiled import compiled
from ...protocols import Array
from ..frames import Ints


def _near_order(points: Array, box: int) -> Ints:
    """An order in which neighbours in the list are near in space: halve along the widest coordinate down to a box."""
    n, p = points.shape
    order = np.arange(n)
    stack = [(0, n)]
    while len(stack) > 0:
        a, b = stack.pop()
        if b - a <= box:
            continue
        part = order[a:b].copy()
        widest = 0
        width = -1.0
        for d in range(p):
            column = points[part, d]
            extent = column.max() - column.min()
            if extent > width:
                width = extent
                widest = d
        # Whole boxes on the left, so that boxes of the list are boxes in space.
        half = ((b - a) // 2 + box - 1) // box * box
        ranked = np.argsort(points[part, widest])
        order[a:b] = part[ranked]
        stack.append((a, a + half))
        stack.append((a + half, b))
    return order


def _half_linkage_distance(centre: Array, spread: Array, i: int, j: int) -> float:
    """Mean squared distance between the clusters i and j, but for the deviation of j."""
    total = spread[i]
    for d in range(centre.shape[1]):
        gap = centre[i, d] - centre[j, d]
        total += gap * gap
    return total


@compiled(_near_order, _half_linkage_distance)
def average_linkage(points: Array, sizes: Ints) -> tuple[Ints, Array]:
    """Average linkage on squared Euclidean distances by nearest-neighbour chains, in memory O(n).

    The mean squared distance between two clusters is the squared distance of their centroids plus both mean squared
    deviations, so a cluster is its centroid, deviation and size. ``points`` is (n, p), ``sizes`` the number of equal
    records at each point; their squared distances must be finite. Clusters lie in boxes of near neighbours, and a box
    that is farther than the best so far is not searched. Gives the merged pairs, named by one point of each cluster,
    and the heights.
    """
    n, p = points.shape
    box = 32
    merges = np.empty((max(n - 1, 0), 2), dtype=np.int64)
    height = np.empty(max(n - 1, 0))
    chain = np.empty(n, dtype=np.int64)
    centre = points.copy()
    spread = np.zeros(n)
    size = sizes.astype(np.float64)
    label = np.arange(n)
    place = np.arange(n)
    linked = np.zeros(n, dtype=np.bool_)
    boxes = (n + box - 1) // box
    low = np.empty((boxes, p))
    high = np.empty((boxes, p))
    least = np.empty(boxes)
    used = 0  # slots that hold a cluster or held one since the last renewal
    active = n
    length = 0
    done = 0
    while active > 1:
        if used == 0 or active * 2 < used:
            # Gather the living clusters, near ones together, and draw the boxes anew.
            keep = np.flatnonzero(size[: n if used == 0 else used] > 0)
            order = keep[_near_order(centre[keep], box)]
            centre[:active] = centre[order]
            spread[:active] = spread[order]
            size[:active] = size[order]
            label[:active] = label[order]
            for s in range(active):
                place[label[s]] = s
            used = active
            boxes = (used + box - 1) // box
            for b in range(boxes):
                least[b] = np.inf
                for d in range(p):
                    low[b, d] = np.inf
                    high[b, d] = -np.inf
                for s in range(b * box, min((b + 1) * box, used)):
                    least[b] = min(least[b], spread[s])
                    for d in range(p):
                        low[b, d] = min(low[b, d], centre[s, d])
                        high[b, d] = max(high[b, d], centre[s, d])
        if length == 0:
            s = 0
            while size[s] == 0:
                s += 1
            chain[0] = label[s]
            linked[label[s]] = True
            length = 1
        top = place[chain[length - 1]]
        near = -1
        best = np.inf
        if length > 1:
            # Ties go to the last link: the chain could not end otherwise.
            near = place[chain[length - 2]]
            best = _half_linkage_distance(centre, spread, near, top)
        home = top // box
        for turn in range(-1, boxes):
            b = home if turn < 0 else turn
            if turn == home:
                continue
            bound = least[b]
            for d in range(p):
                at = centre[top, d]
                gap = max(low[b, d] - at, at - high[b, d])
                if gap > 0:
                    bound += gap * gap
            if bound >= best:
                continue
            for s in range(b * box, min((b + 1) * box, used)):
                if size[s] > 0 and s != top:
                    distance = _half_linkage_distance(centre, spread, s, top)
                    if distance < best:
                        best = distance
                        near = s
        if length > 1 and linked[label[near]]:
            # Back to an earlier link: by rounding alone, so it is a tie, and the last link will do as well.
            near = place[chain[length - 2]]
        if length > 1 and near == place[chain[length - 2]]:
            best = _half_linkage_distance(centre, spread, near, top)
            linked[label[near]] = False
            linked[label[top]] = False
            merges[done, 0] = label[near]
            merges[done, 1] = label[top]
            height[done] = best + spread[top]
            done += 1
            length -= 2
            total = size[near] + size[top]
            share = size[top] / total
            between = 0.0
            b = near // box
            for d in range(p):
                gap = centre[top, d] - centre[near, d]
                between += gap * gap
                centre[near, d] += share * gap
                low[b, d] = min(low[b, d], centre[near, d])
                high[b, d] = max(high[b, d], centre[near, d])
            spread[near] = (1 - share) * spread[near] + share * spread[top] + share * (1 - share) * between
            least[b] = min(least[b], spread[near])  # a bound may be too low, never too high
            size[near] = total
            size[top] = 0.0
            active -= 1
        else:
            chain[length] = label[near]
            linked[label[near]] = True
            length += 1
    return merges, height
