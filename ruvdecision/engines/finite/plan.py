"""What a target of a finite belief depends on: the state, a few rows, perhaps a new record; or the average."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations, combinations_with_replacement
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...beliefs.finite import FiniteBelief
from ...errors import UnsupportedError
from ...protocols import Array
from ...targets import Average, Functional, NewRecord, Parameter, Record, Records

__all__ = ["AveragePlan", "Plan", "compositions", "plan_of"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Plan:
    """A target as a function of the state, the records of some rows, and perhaps a new record.

    ``weights[s]`` maps every combination of those records (rows) to the target's values (columns), and holds the chance
    of the new record. The chances of the rows' records come from the release and are left out.
    """

    rows: tuple[int, ...]
    values: Array
    weights: tuple[csr_array, ...]

    def spread(self, state: int, law: Array, evidence: list[Array]) -> tuple[Ints, Array]:
        """Chance of every combination of the rows' outputs together with the target values, in one state.

        Gives back the positions of the values that the state allows, and the chances ``(combinations, positions)``.

        ``law`` holds the chances of the outcomes in that state, ``evidence[j][i, o]`` the chance that the j-th row shows
        output o when its record is outcome i.
        """
        # Outcomes that the state excludes are left out, which matters when there are many of them.
        seen = np.flatnonzero(law)
        combined, pick = np.ones((1, 1)), np.zeros(1, dtype=np.int64)
        for e in evidence:
            part = (law[seen, None] * e[seen]).T
            combined = (combined[:, None, :, None] * part[None, :, None, :]).reshape(len(combined) * len(part), -1)
            pick = (pick[:, None] * len(law) + seen).reshape(-1)
        chosen = self.weights[state][pick].tocoo()
        columns, place = np.unique(chosen.col, return_inverse=True)
        part = csr_array((chosen.data, (chosen.row, place.reshape(-1))), shape=(len(pick), len(columns)))
        return columns.astype(np.int64), np.asarray((part.T @ combined.T).T)


@dataclass(frozen=True, eq=False)
class AveragePlan:
    """The average of all records, or a function of it: it depends on how many records have each outcome."""

    counts: Ints
    values: Array

    def spread(self, chances: Array) -> Array:
        """Law of the counts when record r has outcome i with ``chances[..., r, i]``, shape (..., counts)."""
        lead, (n, size) = chances.shape[:-2], chances.shape[-2:]
        grid = np.zeros((*lead, *(n + 1,) * (size - 1)))
        origin = (..., *(0,) * (size - 1))
        grid[origin] = 1.0
        axes = len(lead)
        for r in range(n):
            after = grid * chances[(..., r, 0, *(None,) * (size - 1))]
            for i in range(1, size):
                moved = np.roll(grid, 1, axis=axes + i - 1)  # the last layer is still empty, so nothing wraps round
                after += moved * chances[(..., r, i, *(None,) * (size - 1))]
            grid = after
        return np.asarray(grid[(..., *self.counts[:, 1:].T)])


def plan_of(belief: FiniteBelief, target: Any, limit: int) -> Plan | AveragePlan:
    """Find what a target depends on; refuse if that is too much."""
    parts = list(target.parts) if isinstance(target, Functional) else [target]
    n, size = belief.records, len(belief.levels)
    if all(isinstance(p, Average) for p in parts) and n > 1:
        if comb(n + size - 1, size - 1) > limit or (n + 1) ** (size - 1) * len(belief.states) > limit:
            raise UnsupportedError(
                f"The average of {n} records with {size} outcomes has too many values for enumeration",
                f"a limit of {limit}",
                "Use Enumeration(limit=...) with a larger limit, fewer outcomes or fewer records",
            )
        counts = compositions(n, size)
        means = counts @ belief.levels.numbers / n
        return AveragePlan(counts, _apply(target, [means for _ in parts]))
    rows: list[int] = []
    for part in parts:
        if isinstance(part, Record):
            rows.append(part.row % n)
        elif isinstance(part, (Records, Average)):
            rows.extend(range(n))
    rows = sorted(set(rows))
    new = any(isinstance(p, NewRecord) for p in parts)
    states = len(belief.states)
    tracked = len(rows) + new
    combinations = size**tracked
    if combinations * states > limit:
        raise UnsupportedError(
            f"{target.describe()} depends on {tracked} records with {size} outcomes each, {size}^{tracked} combinations",
            f"a limit of {limit}",
            "Ask for Record(j), Average() or the state, or use Enumeration(limit=...) with a larger limit",
        )
    grid = np.indices((states, *(size,) * tracked)).reshape(1 + tracked, -1)
    columns = [_values(belief, part, rows, new, grid) for part in parts]
    stacked = _apply(target, columns)
    values, place = np.unique(stacked, axis=0, return_inverse=True)
    place = place.reshape(states, combinations)
    drawn = combinations // size if new else combinations
    weights = []
    for s in range(states):
        # The new record is summed out here: its chance depends on the state alone.
        chance = np.tile(belief.law[s], drawn) if new else np.ones(combinations)
        source = np.repeat(np.arange(drawn), size) if new else np.arange(combinations)
        weights.append(csr_array((chance, (source, place[s])), shape=(drawn, len(values))))
    return Plan(tuple(rows), values, tuple(weights))


def compositions(total: int, parts: int) -> Ints:
    """All ways to write a total as an ordered sum of non-negative parts, one per row."""
    ways = comb(total + parts - 1, parts - 1)
    counts = np.zeros((ways, parts), dtype=np.int64)
    if total <= parts:
        # Few units: say for each unit which part it goes to.
        if total:
            places = np.fromiter(
                chain.from_iterable(combinations_with_replacement(range(parts), total)),
                dtype=np.int64,
                count=ways * total,
            )
            np.add.at(counts, (np.repeat(np.arange(ways), total), places), 1)
        return counts
    # Few parts: say where the bars between them stand.
    bars = np.fromiter(
        chain.from_iterable(combinations(range(total + parts - 1), parts - 1)), dtype=np.int64, count=ways * (parts - 1)
    )
    edges = np.concatenate(
        [np.full((ways, 1), -1), bars.reshape(ways, parts - 1), np.full((ways, 1), total + parts - 1)], axis=1
    )
    return np.asarray(np.diff(edges, axis=1) - 1)


def _values(belief: FiniteBelief, part: Any, rows: list[int], new: bool, grid: Ints) -> Array:
    """Values of one target over the grid of states and records."""
    outcomes, n = belief.levels.numbers, belief.records
    if isinstance(part, Parameter):
        values = belief.states.numbers[grid[0]]
        return values if part.component is None else values[:, part.component]
    if isinstance(part, NewRecord):
        return outcomes[grid[-1]]
    if isinstance(part, Record):
        return outcomes[grid[1 + rows.index(part.row % n)]]
    every = [outcomes[grid[1 + r]] for r in range(n)]
    if isinstance(part, Average):
        return np.asarray(sum(every) / n)
    return np.concatenate([v.reshape(len(v), -1) for v in every], axis=1)


def _apply(target: Any, columns: list[Array]) -> Array:
    if not isinstance(target, Functional):
        return columns[0]
    flat = [c.reshape(len(c), -1) for c in columns]
    return np.asarray(target(np.concatenate(flat, axis=1), [f.shape[1] for f in flat], [c.ndim == 1 for c in columns]))
