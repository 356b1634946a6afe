"""What a target of a finite belief depends on: the state, a few rows, perhaps a new record; or the average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import comb
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from ...beliefs.finite import FiniteBelief
from ...checks import Data
from ...errors import InputError, UnsupportedError
from ...numerics.counts import compositions
from ...protocols import Array, Ints
from ...targets import BaseTarget, Files, Kind


class TargetLaw:
    """What a target of a finite belief depends on: the state and some rows (`TargetTable`), or the average."""

    rows: tuple[int, ...]
    """The records that it follows by themselves; an average follows none."""
    values: Array
    counted: ClassVar[bool] = False
    """Whether it depends on how many records have each outcome: then by `counts_law`, otherwise by `joint_law`."""
    weights: tuple[csr_array, ...]
    counts: Ints

    def joint_law(self, state: int, law: Array, evidence: list[Array]) -> tuple[Ints, Array]:
        """Chance of every combination of the rows' outputs together with the target values, in one state.

        Gives back the positions of the values that the state allows, and the chances ``(combinations, positions)``.

        ``law`` holds the chances of the outcomes in that state, ``evidence[j][i, o]`` the chance that the j-th row
        shows output o when its record is outcome i.
        """
        raise NotImplementedError

    def counts_law(self, chances: Array) -> Array:
        """Law of the counts when record r has outcome i with ``chances[..., r, i]``, shape (..., counts)."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class TargetTable(TargetLaw):
    """A target as a function of the state, the records of some rows, and perhaps a new record.

    ``weights[s]`` maps every combination of those records (rows) to the target's values (columns), and holds the chance
    of the new record. The chances of the rows' records come from the release and are left out.
    """

    rows: tuple[int, ...]
    values: Array
    weights: tuple[csr_array, ...]

    def joint_law(self, state: int, law: Array, evidence: list[Array]) -> tuple[Ints, Array]:
        # Outcomes that the state excludes are left out, which matters when there are many of them.
        possible = np.flatnonzero(law)
        combined, pick = np.ones((1, 1)), np.zeros(1, dtype=np.int64)
        for e in evidence:
            part = (law[possible, None] * e[possible]).T
            combined = (combined[:, None, :, None] * part[None, :, None, :]).reshape(len(combined) * len(part), -1)
            pick = (pick[:, None] * len(law) + possible).reshape(-1)
        chosen = self.weights[state][pick].tocoo()
        columns, place = np.unique(chosen.col, return_inverse=True)
        part = csr_array((chosen.data, (chosen.row, place.reshape(-1))), shape=(len(pick), len(columns)))
        return columns.astype(np.int64), np.asarray((part.T @ combined.T).T)


@dataclass(frozen=True, eq=False)
class AverageTable(TargetLaw):
    """The average of all records, or a function of it: it depends on how many records have each outcome."""

    counts: Ints
    values: Array
    rows: tuple[int, ...] = field(default=(), init=False)
    counted = True

    def counts_law(self, chances: Array) -> Array:
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


class _Grid(Files):
    """Every combination of a state, the records of some rows and perhaps a new record.

    ``grid`` holds their positions.
    """

    def __init__(self, belief: FiniteBelief, rows: Sequence[int], grid: Ints) -> None:
        super().__init__(parameters={belief.name: belief.states.numbers[grid[0]]})
        self.belief, self.rows, self.grid = belief, list(rows), grid

    def _values_at(self, place: int) -> Array:
        return np.asarray(self.belief.levels.numbers[self.grid[place]])

    def record(self, row: int) -> Array:
        return self._values_at(1 + self.rows.index(row % self.belief.records))

    def records(self) -> Array:
        return np.stack([self.record(row) for row in range(self.belief.records)], axis=1)

    def average(self) -> Array:
        return np.asarray(sum(self.record(row) for row in range(self.belief.records)) / self.belief.records)

    def new_record(self) -> Array:
        return self._values_at(-1)


def target_table(belief: FiniteBelief, target: BaseTarget, limit: int) -> TargetLaw:
    """Find what a target depends on; refuse if that is too much."""
    n, size = belief.records, len(belief.levels)
    if target.asks_only(Kind.AVERAGE) and n > 1:
        if comb(n + size - 1, size - 1) > limit or (n + 1) ** (size - 1) * len(belief.states) > limit:
            what = f"The average of {n} records with {size} outcomes has too many values for enumeration"
            do = "Use Enumeration(limit=...) with a larger limit, fewer outcomes or fewer records"
            raise UnsupportedError(what, f"a limit of {limit}", do)
        counts = compositions(n, size)
        # Files that are told apart by their average alone: of one record, which is that.
        return AverageTable(counts, target.in_files(Files((counts @ belief.levels.numbers / n)[:, None])))
    rows, new = target.rows_in(n).tolist(), target.asks(Kind.NEW)
    states = len(belief.states)
    tracked = len(rows) + new
    combinations = size**tracked
    if combinations * states > limit:
        many = f"{tracked} records with {size} outcomes each, {size}^{tracked} combinations"
        do = "Ask for Record(j), Average() or the state, or use Enumeration(limit=...) with a larger limit"
        raise UnsupportedError(f"{target.describe()} depends on {many}", f"a limit of {limit}", do)
    grid = np.indices((states, *(size,) * tracked)).reshape(1 + tracked, -1)
    values, place = np.unique(target.in_files(_Grid(belief, rows, grid)), axis=0, return_inverse=True)
    place = place.reshape(states, combinations)
    drawn = combinations // size if new else combinations
    weights = []
    for s in range(states):
        # The new record is summed out here: its chance depends on the state alone.
        chance = np.tile(belief.law[s], drawn) if new else np.ones(combinations)
        source = np.repeat(np.arange(drawn), size) if new else np.arange(combinations)
        weights.append(csr_array((chance, (source, place[s])), shape=(drawn, len(values))))
    return TargetTable(tuple(rows), values, tuple(weights))


def outcome_codes(belief: FiniteBelief, data: Data) -> Ints:
    """The outcome of every record of a file."""
    codes: Ints = belief.levels.codes(data, "data")
    if len(codes) != belief.records:
        what = f"data must have {belief.records} records, as the belief says"
        raise InputError(what, len(codes), "Give records= to the belief, or other data")
    if np.any(codes < 0):
        raise InputError("data must not have missing records", int(np.sum(codes < 0)), "Fill or drop them first")
    return codes


def sample_covariance(belief: FiniteBelief, data: Data | None) -> Array | None:
    """Covariance of the data, for Noise(share=...); None without data or with labels."""
    if data is None or belief.levels.labelled or belief.records < 2:
        return None
    numbers = belief.levels.numbers.reshape(len(belief.levels), -1)[outcome_codes(belief, data)]
    return np.atleast_2d(np.cov(numbers, rowvar=False))
