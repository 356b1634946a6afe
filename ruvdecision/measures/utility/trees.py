"""Regression and classification trees as rpart grows them, for propensities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...numerics.compiled import compiled
from ...protocols import Array
from ..frames import Ints


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


def _best_sets(
    x: Array, rows: Ints, labels: Array, weight: Array, min_leaf: int, levels: int, best: float
) -> tuple[float, int, NDArray[np.bool_]]:
    """The gain of the best cut of a node's categories into two sets, ordered by the share of the label in them.

    With how many records are in the first set, 0 if no cut is better, and which categories are.
    """
    size, hits, many = np.zeros(levels), np.zeros(levels), np.zeros(levels, dtype=np.int64)
    for i in rows:
        level = int(x[i])
        many[level] += 1
        size[level] += weight[i]
        hits[level] += labels[i]
    total, heavy = np.cumsum(labels[rows])[-1], np.cumsum(weight[rows])[-1]
    ranked = np.argsort(hits / np.maximum(size, 1e-9), kind="mergesort")
    inside, last, cut = np.zeros(levels, dtype=np.bool_), -1, 0
    passed, light, small = 0.0, 0.0, 0
    for place in range(levels):
        level = ranked[place]
        small += many[level]
        light += size[level]
        passed += hits[level]
        if many[level] > 0 and small >= min_leaf and len(rows) - small >= min_leaf:
            difference = passed * heavy - total * light
            gain = difference * difference / (heavy * light * (heavy - light))
            if gain > best * (1 + 1e-12):
                best, cut, last = gain, small, place
    for place in range(last + 1):
        inside[ranked[place]] = True
    return best, cut, inside


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


@compiled(_best_cut, _best_sets, _partition_orders, _leaf_numbers, steps=lambda values, *_: 15 * values.size)
def grow_tree(
    values: Array,
    order: Ints,
    levels: Ints,
    labels: Array,
    weight: Array,
    min_split: int,
    min_leaf: int,
    max_depth: int,
    min_gain: float,
    alpha: float,
) -> tuple[Ints, int]:
    """Leaf number of every record in the CART regression tree that minimises squared error + alpha * leaves.

    ``values`` is (p, n), ``order`` each row's sort order, ``labels`` 0 or the record's ``weight``. A variable with
    ``levels`` has categories 0, 1, ..., cut into two sets by the share of the label in them. Orders are kept sorted
    by stable partition, so nothing is sorted again. Splits lie between different values; ties of gain go to the last
    variable and the lowest value. scikit-learn's trees compare values of single precision and break ties at random.
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
    inside = np.zeros(1, dtype=np.bool_)
    count = 1
    end[0] = n
    node = 0
    while node < count:
        a = begin[node]
        b = end[node]
        m = b - a
        total = np.cumsum(labels[order[0, a:b]])[-1]
        heavy = np.cumsum(weight[order[0, a:b]])[-1]
        hits[node] = total
        mass[node] = heavy
        mixed = total > 0 and total < heavy * (1 - 1e-12)
        if m >= min_split and m >= 2 * min_leaf and depth[node] < max_depth and mixed:
            best = min_gain
            feature = -1
            cut = 0
            for d in range(p - 1, -1, -1):
                if levels[d] > 0:
                    gain, place, sets = _best_sets(values[d], order[d, a:b], labels, weight, min_leaf, levels[d], best)
                    if place > 0:
                        inside = sets
                else:
                    gain, place = _best_cut(values[d], order[d, a:b], labels, weight, min_leaf, total, heavy, best)
                if place > 0:
                    best, feature, cut = gain, d, a + place
            if feature >= 0:
                for k in range(a, b):
                    i = order[feature, k]
                    left_side[i] = k < cut if levels[feature] == 0 else inside[int(values[feature, i])]
                _partition_orders(order, left_side, room, a, b, feature if levels[feature] == 0 else -1)
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


@compiled(_best_cut, _best_sets, _partition_orders, _leaf_numbers, steps=lambda values, *_: 15 * values.size)
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
    inside = np.zeros(1, dtype=np.bool_)
    end[0] = n
    hit = np.cumsum(labels)[-1]
    complexity[0] = min(hit, np.cumsum(weight)[-1] - hit)
    alpha = cp * complexity[0]
    count, top = 1, 1
    while top > 0:
        node = stack[top - 1]
        a, b = begin[node], end[node]
        m = b - a
        if stage[node] == 0:
            total = np.cumsum(labels[order[0, a:b]])[-1]
            heavy = np.cumsum(weight[order[0, a:b]])[-1]
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
                    gain, place, sets = _best_sets(values[d], order[d, a:b], labels, weight, min_leaf, levels[d], best)
                    if place > 0:
                        best, feature, cut, inside = gain, d, a + place, sets
            complexity[node] = enough if feature >= 0 else alpha
            if feature < 0:
                top -= 1
                continue
            for k in range(a, b):
                i = order[feature, k]
                left_side[i] = k < cut if levels[feature] == 0 else inside[int(values[feature, i])]
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
