"""Inner loops of measures. None holds more than a few numbers per record.

Distribution functions, average linkage (scipy's holds all pairwise distances), trees and mean distances.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..numerics.compiled import compiled
from ..protocols import Array
from .frames import Ints


def _count_bits(x: np.uint64) -> np.uint64:
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (x * np.uint64(0x0101010101010101)) >> np.uint64(56)


@compiled()
def below_counts_2d(second: Ints, group: Ints, source: Ints, levels: int, weight: Array) -> Array:
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
def below_weights(points: Array, source: Ints, weight: Array) -> Array:
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


@compiled(_count_bits)
def below_counts(order: NDArray[np.int32], first_of: NDArray[np.int32], source: Ints) -> Ints:
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
                    zero = _count_bits(kept[i, w] & zeros[w])
                    out[i, 0] += np.int64(zero)
                    out[i, 1] += np.int64(_count_bits(kept[i, w]) - zero)
    return out


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


def _best_cut(
    x: Array, rows: Ints, labels: Array, weight: Array, min_leaf: int, total: float, heavy: float, best: float
) -> tuple[float, int]:
    """The gain of the best cut of a node's records, ordered by a variable, and where it is; 0 if none is better."""
    passed, light, cut = 0.0, 0.0, 0
    for k in range(len(rows) - min_leaf):
        passed += labels[rows[k]]
        light += weight[rows[k]]
        if k + 1 >= min_leaf and x[rows[k]] < x[rows[k + 1]]:
            difference = passed * heavy - total * light
            gain = difference * difference / (heavy * light * (heavy - light))
            if gain > best * (1 + 1e-12):
                best, cut = gain, k + 1
    return best, cut


def _partition_orders(order: Ints, left_side: NDArray[np.bool_], room: Ints, a: int, b: int, skip: int) -> None:
    """Put a node's left side first in every order but one, which is so already."""
    for d in range(len(order)):
        if d == skip:
            continue
        low, high = a, 0
        for k in range(a, b):
            i = order[d, k]
            if left_side[i]:
                order[d, low] = i
                low += 1
            else:
                room[high] = i
                high += 1
        for k in range(high):
            order[d, low + k] = room[k]


def _leaf_numbers(order: Ints, begin: Ints, end: Ints, child: Ints, count: int) -> tuple[Ints, int]:
    """Leaf number of every record, and how many leaves there are; children have larger numbers than their parents."""
    leaf, leaves = np.empty(order.shape[1], dtype=np.int64), 0
    reach = np.zeros(count, dtype=np.bool_)
    reach[0] = True
    for node in range(count):
        if reach[node] and child[node] >= 0:
            reach[child[node]] = reach[child[node] + 1] = True
        elif reach[node]:
            leaf[order[0, begin[node] : end[node]]] = leaves
            leaves += 1
    return leaf, leaves


@compiled(_best_cut, _partition_orders, _leaf_numbers)
def grow_tree(
    values: Array,
    order: Ints,
    labels: Array,
    weight: Array,
    min_split: int,
    min_leaf: int,
    max_depth: int,
    min_gain: float,
    alpha: float,
) -> tuple[Ints, int]:
    """Leaf number of every record in the CART regression tree that minimises squared error + alpha * leaves.

    ``values`` is (p, n), ``order`` each row's sort order, ``labels`` 0 or the record's ``weight``. Orders are kept
    sorted by stable partition, so nothing is sorted again. Splits lie between different values; ties of gain go to the
    last variable and the lowest value. scikit-learn's trees compare values of single precision and break ties at
    random.
    """
    p, n = values.shape
    order = order.copy()
    room = np.empty(n, dtype=np.int64)
    left_side = np.zeros(n, dtype=np.bool_)
    most = 2 * (n // max(min_leaf, 1)) + 3
    begin = np.zeros(most, dtype=np.int64)
    end = np.zeros(most, dtype=np.int64)
    depth = np.zeros(most, dtype=np.int64)
    child = np.full(most, -1, dtype=np.int64)
    hits = np.zeros(most)
    mass = np.zeros(most)
    count = 1
    end[0] = n
    node = 0
    while node < count:
        a = begin[node]
        b = end[node]
        m = b - a
        total = labels[order[0, a:b]].sum()
        heavy = weight[order[0, a:b]].sum()
        hits[node] = total
        mass[node] = heavy
        mixed = total > 0 and total < heavy * (1 - 1e-12)
        if m >= min_split and m >= 2 * min_leaf and depth[node] < max_depth and mixed:
            best = min_gain
            feature = -1
            cut = 0
            for d in range(p - 1, -1, -1):
                gain, place = _best_cut(values[d], order[d, a:b], labels, weight, min_leaf, total, heavy, best)
                if place > 0:
                    best, feature, cut = gain, d, a + place
            if feature >= 0:
                for k in range(a, b):
                    left_side[order[feature, k]] = k < cut
                _partition_orders(order, left_side, room, a, b, feature)
                child[node] = count
                begin[count], end[count], begin[count + 1], end[count + 1] = a, cut, cut, b
                depth[count] = depth[count + 1] = depth[node] + 1
                count += 2
        node += 1
    # Children have larger numbers than their parents: one sweep from the back finds the cheapest subtree of each node.
    cost = np.empty(count)
    for node in range(count - 1, -1, -1):
        alone = hits[node] * (mass[node] - hits[node]) / mass[node] + alpha
        if child[node] >= 0:
            below = cost[child[node]] + cost[child[node] + 1]
            if below < alone - 1e-12 * (1 + alone):
                cost[node] = below
                continue
            child[node] = -1
        cost[node] = alone
    return _leaf_numbers(order, begin, end, child, count)


@compiled(_best_cut, _partition_orders, _leaf_numbers)
def grow_classes(
    values: Array,
    order: Ints,
    levels: Ints,
    labels: Array,
    weight: Array,
    min_split: int,
    min_leaf: int,
    max_depth: int,
    cp: float,
) -> tuple[Ints, int]:
    """Leaf number of every record in rpart's classification tree of two classes: splits by Gini, cp by errors.

    As `grow_tree`, but ``values`` of a variable with ``levels`` are categories 0, 1, ..., cut into two sets by the
    share of the class in them; ties of gain go to the first variable. A node is left when it cannot lower the number of
    misclassified records by cp of the root's per split. rpart's recursion (Therneau and Atkinson 2019): the left side
    is grown first, and bounds what the right side must gain.
    """
    p, n = values.shape
    order = order.copy()
    room = np.empty(n, dtype=np.int64)
    left_side = np.zeros(n, dtype=np.bool_)
    most = 2 * (n // max(min_leaf, 1)) + 3
    begin, end, depth = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)
    child, splits, stage = np.full(most, -1, dtype=np.int64), np.zeros(most, dtype=np.int64), np.zeros(most)
    risk, below, complexity = np.zeros(most), np.zeros(most), np.zeros(most)
    stack = np.zeros(most, dtype=np.int64)
    widest = max(levels.max(), 1)
    size, hits, rank = np.zeros(widest), np.zeros(widest), np.zeros(widest, dtype=np.int64)
    many = np.zeros(widest, dtype=np.int64)
    end[0] = n
    hit = labels.sum()
    complexity[0] = min(hit, weight.sum() - hit)
    alpha = cp * complexity[0]
    count, top = 1, 1
    while top > 0:
        node = stack[top - 1]
        a, b = begin[node], end[node]
        m = b - a
        if stage[node] == 0:
            total = labels[order[0, a:b]].sum()
            heavy = weight[order[0, a:b]].sum()
            risk[node] = below[node] = min(total, heavy - total)
            enough = min(risk[node], complexity[node])
            best, feature, cut = 1e-12 * n, -1, 0
            if m >= min_split and enough > alpha and depth[node] < max_depth:
                for d in range(p):
                    if levels[d] == 0:
                        gain, place = _best_cut(values[d], order[d, a:b], labels, weight, min_leaf, total, heavy, best)
                        if place > 0:
                            best, feature, cut = gain, d, a + place
                        continue
                    passed, light = 0.0, 0.0
                    size[:] = 0.0
                    hits[:] = 0.0
                    many[:] = 0
                    for k in range(a, b):
                        level = int(values[d, order[d, k]])
                        many[level] += 1
                        size[level] += weight[order[d, k]]
                        hits[level] += labels[order[d, k]]
                    sorted_ = np.argsort(hits / np.maximum(size, 1e-9), kind="mergesort")
                    small = 0
                    for level in sorted_:
                        small += many[level]
                        light += size[level]
                        passed += hits[level]
                        if many[level] > 0 and small >= min_leaf and m - small >= min_leaf:
                            difference = passed * heavy - total * light
                            gain = difference * difference / (heavy * light * (heavy - light))
                            if gain > best * (1 + 1e-12):
                                best, feature, cut = gain, d, a + small
                                rank[:] = 1
                                for other in sorted_:
                                    rank[other] = 0
                                    if other == level:
                                        break
            complexity[node] = enough if feature >= 0 else alpha
            if feature < 0:
                top -= 1
                continue
            for k in range(a, b):
                i = order[feature, k]
                left_side[i] = k < cut if levels[feature] == 0 else rank[int(values[feature, i])] == 0
            _partition_orders(order, left_side, room, a, b, feature if levels[feature] == 0 else -1)
            child[node] = count
            begin[count], end[count], begin[count + 1], end[count + 1] = a, cut, cut, b
            depth[count] = depth[count + 1] = depth[node] + 1
            complexity[count] = enough - alpha
            stack[top] = count
            count += 2
        elif stage[node] == 1:
            left = child[node]
            gained = max((risk[node] - below[left]) / (splits[left] + 1), risk[node] - risk[left])
            complexity[left + 1] = min(gained, complexity[node]) - alpha
            stack[top] = left + 1
        else:
            left, right = child[node], child[node] + 1
            loss, cuts = below[left] + below[right], splits[left] + splits[right]
            first, second = (left, right) if complexity[right] > complexity[left] else (right, left)
            # The side whose splits gain least collapses first, then perhaps the other.
            if (risk[node] - loss) / (cuts + 1) > complexity[first]:
                loss, cuts = risk[first] + below[second], splits[second]
                if (risk[node] - loss) / (cuts + 1) > complexity[second]:
                    loss, cuts = risk[first] + risk[second], 0
            complexity[node] = (risk[node] - loss) / (cuts + 1)
            if complexity[node] <= alpha:
                child[node] = -1
            else:
                below[node], splits[node] = loss, cuts + 1
            top -= 1
            continue
        stage[node] += 1
        top += 1
    return _leaf_numbers(order, begin, end, child, count)


@compiled(fastmath=frozenset({"nnan", "ninf", "nsz", "contract", "reassoc"}))
def sum_distances(first: Array, second: Array, a: Array, b: Array, same: bool) -> float:
    """Sum of Euclidean distances over all pairs of columns, weighted; with ``same`` each counts twice, taken once."""
    p, n = first.shape
    m = second.shape[1]
    total = 0.0
    square = np.empty(256)
    # A few columns at a time stay in the processor's nearest memory while all the others pass by.
    for low in range(0, m, 256):
        high = min(low + 256, m)
        for i in range(min(n, high - 1) if same else n):
            start = max(low, i + 1) if same else low
            size = high - start
            for j in range(size):
                square[j] = 0.0
            for d in range(p):
                at = first[d, i]
                row = second[d, start:high]
                for j in range(size):
                    gap = row[j] - at
                    square[j] += gap * gap
            part = 0.0
            for j in range(size):
                part += b[start + j] * np.sqrt(square[j])
            total += a[i] * part
    return 2.0 * total if same else total


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


@compiled(_count_bits)
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
                chosen = w * 64 + np.int64(_count_bits(last - one))
                k = np.int64(_count_bits(np.uint64(chosen)))
                if k >= len(worths) or chosen & lacks:
                    continue
                score[r] += worths[k]
                sizes[k] += 1
                for c in range(p):
                    if chosen >> c & 1:
                        worth[r, c] += worths[k]
                        taking[c] += 1
    return score, worth, taking, sizes
