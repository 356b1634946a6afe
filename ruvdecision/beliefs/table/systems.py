"""Making a system of sums of non-negative integers small, without losing or gaining a solution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

Ints = NDArray[np.int64]
PRIME = 2**31 - 1
LARGEST_TOTAL = PRIME - 1
"""Sums are solved modulo a prime, so they must stay below it."""


@dataclass(frozen=True, eq=False)
class Component:
    """Unknowns tied together by sums. Each unknown is the total of a group of cells that occur in the same sums."""

    groups: list[Ints]
    matrix: Ints
    sums: Ints


def reduce_system(matrix: Ints, sums: Ints) -> tuple[Ints, list[Component]] | None:
    """Settle, merge and split ``matrix @ cells = sums``; None if a contradiction shows up.

    Gives back the value of every settled cell (-1 for the others) and the independent components.
    """
    known = np.full(matrix.shape[1], -1, dtype=np.int64)
    apart: list[Component] = []
    groups = [np.flatnonzero(c) for c in _same_columns(matrix)]
    columns = matrix[:, [g[0] for g in groups]] if groups else matrix[:, :0]
    sums = sums.astype(np.int64).copy()
    while True:
        if np.any(sums < 0):
            return None
        empty = columns.sum(axis=1) == 0
        if np.any(sums[empty] != 0):
            return None
        columns, sums = columns[~empty], sums[~empty]
        if len(groups) == 0:
            return known, apart
        bounds = _bounds(columns, sums)
        if bounds is None:
            return None
        low, high = bounds
        settled = low == high
        value = np.where(settled, low, -1)
        if not settled.any():
            # The echelon form costs more than the bounds, so it comes when they have nothing left to say.
            split = _split(columns, sums)
            if split is None:
                return None
            labels, solved = split
            for u in np.flatnonzero(np.bincount(labels)[labels] == 1):
                # Alone in its component: the sums say what it is.
                value[u], settled[u] = solved[np.flatnonzero(columns[:, u])[0], labels[u]], True
        if not settled.any():
            break
        if np.any(value[settled] < low[settled]) or np.any(value[settled] > high[settled]):
            return None
        for u in np.flatnonzero(settled):
            if len(groups[u]) == 1 or value[u] == 0:
                known[groups[u]] = value[u]
            else:
                apart.append(Component([groups[u]], np.ones((1, 1), dtype=np.int64), value[u : u + 1].copy()))
        sums = sums - columns[:, settled] @ value[settled]
        # Fewer sums can tell the rest apart now, so cells may merge again.
        rest = [groups[u] for u in np.flatnonzero(~settled)]
        columns = columns[:, ~settled]
        kinds = [np.flatnonzero(c) for c in _same_columns(columns)]
        groups = [np.concatenate([rest[i] for i in kind]) for kind in kinds]
        columns = columns[:, [kind[0] for kind in kinds]] if kinds else columns[:, :0]
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        rows = np.flatnonzero(columns[:, members].any(axis=1))
        part, right = columns[np.ix_(rows, members)], solved[rows, label]
        if np.any((right < 0) | (right > sums[rows])):
            return None
        system, first, inverse = np.unique(part, axis=0, return_index=True, return_inverse=True)
        if np.any(right != right[first][inverse.reshape(-1)]):
            return None
        apart.append(Component([groups[u] for u in members], system, right[first]))
    return known, apart


def _same_columns(matrix: Ints) -> list[NDArray[np.bool_]]:
    """One indicator per set of equal columns."""
    if matrix.shape[1] == 0:
        return []
    _, inverse = np.unique(matrix.T, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    # Keep the order of first appearance, so that results read like the table.
    seen = list(dict.fromkeys(inverse.tolist()))
    return [inverse == i for i in seen]


def _bounds(matrix: Ints, sums: Ints) -> tuple[Ints, Ints] | None:
    """Bounds that follow from one sum at a time, repeated until nothing changes."""
    member = matrix > 0
    high = np.where(member, sums[:, None], np.iinfo(np.int64).max).min(axis=0)
    low = np.zeros_like(high)
    for _ in range(1000):
        others_low = np.where(member, (matrix @ low)[:, None] - low, 0)
        others_high = np.where(member, (matrix @ high)[:, None] - high, 0)
        new_high = np.minimum(high, np.where(member, sums[:, None] - others_low, high).min(axis=0))
        new_low = np.maximum(low, np.where(member, sums[:, None] - others_high, low).max(axis=0))
        if np.any(new_low > new_high):
            return None
        if np.array_equal(new_low, low) and np.array_equal(new_high, high):
            break
        low, high = new_low, new_high
    return low, high


def _split(matrix: Ints, sums: Ints) -> tuple[Ints, Ints] | None:
    """Label the independent components, and solve what each sum amounts to inside each of them.

    The reduced echelon form (modulo a large prime) shows the components: unknowns that share a row belong together. The
    part of a sum that lies inside one component is again implied, and its value follows from the solved rows.
    """
    system = np.concatenate([matrix % PRIME, sums[:, None] % PRIME], axis=1).astype(np.int64)
    unknowns = matrix.shape[1]
    pivots: list[int] = []
    row = 0
    for column in range(unknowns):
        candidates = np.flatnonzero(system[row:, column])
        if len(candidates) == 0:
            continue
        swap = row + int(candidates[0])
        system[[row, swap]] = system[[swap, row]]
        system[row] = system[row] * pow(int(system[row, column]), -1, PRIME) % PRIME
        for other in np.flatnonzero(system[:, column]):
            if other != row:
                system[other] = (system[other] - system[other, column] * system[row]) % PRIME
        pivots.append(column)
        row += 1
        if row == len(system):
            break
    if np.any(system[row:, -1]):
        return None
    rank = row
    i, j = np.nonzero(system[:rank, :-1])
    graph = coo_array((np.ones(len(i)), (i, rank + j)), shape=(rank + unknowns, rank + unknowns))
    _, both = connected_components(graph, directed=False)
    _, labels = np.unique(both[rank:], return_inverse=True)
    labels = labels.reshape(-1)
    solved = np.zeros((len(matrix), int(labels.max()) + 1), dtype=np.int64)
    for place, pivot in enumerate(pivots):
        label = labels[pivot]
        solved[:, label] = (solved[:, label] + matrix[:, pivot] * system[place, -1]) % PRIME
    return labels, solved
