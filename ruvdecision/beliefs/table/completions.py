"""The tables that agree with what is known: how many there are, and how likely each value of each cell is.

What is known is a list of sums of cells. The system is first made small, exactly:

* cells that occur in the same sums are merged (their total has a closed-form weight);
* a total that the sums pin down is settled;
* groups of cells that no sum ties together are counted apart (the components of the system's matroid).

Each component is then counted by dynamic programming (`lattice`), or, where that needs too many steps, by
sequential importance sampling (`importance`), with its error.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import betaln, gammaln, softmax

from ...checks import as_generator
from ...errors import UnsupportedError
from ...numerics.counts import compositions
from ...protocols import Array, Value
from .importance import ImportanceSample, pilot_order
from .lattice import Lattice, TooManyStates, log_weight

Ints = NDArray[np.int64]
PRIME = 2**31 - 1
LARGEST_TOTAL = PRIME - 1
"""Sums are solved modulo a prime, so they must stay below it."""
Component = tuple[list[Ints], Ints, Ints]
"""Unknowns tied together by sums: the cells that each is the total of, which of them each sum takes, and the sums."""


@dataclass(frozen=True, eq=False)
class Part:
    """One component of a system: merged cells, their sums, and how it is counted."""

    groups: list[Ints]
    """The cells of each unknown; they occur in the same sums."""
    matrix: Ints
    sums: Ints
    concentration: Array
    """One per cell of the whole system."""
    limit: int
    draws: int
    seed: int

    @cached_property
    def cells(self) -> list[int]:
        """All cells of the component."""
        return [int(c) for group in self.groups for c in group]

    @property
    def merged_concentration(self) -> Array:
        """The concentration of each unknown: the sum over its cells."""
        return np.array([self.concentration[g].sum() for g in self.groups])

    @cached_property
    def lattice(self) -> Lattice | None:
        """The exact counter, or None if it would need too many steps."""
        lattice = Lattice(self.matrix, self.sums, self.merged_concentration, self.limit)
        try:
            _ = lattice.layers
        except TooManyStates:
            return None
        return lattice

    @cached_property
    def importance_sampler(self) -> ImportanceSample:
        """The approximate counter."""
        # The pilot has a stream of its own, so that the choice of the order leaves the estimates unbiased.
        order = pilot_order(self.matrix, self.sums, self.merged_concentration, self.seed + 7919)
        return ImportanceSample(self.matrix, self.sums, self.merged_concentration, order, self.draws, self.seed)

    @property
    def feasible(self) -> bool:
        """Whether there is any solution."""
        if self.lattice is not None:
            return self.lattice.log_total > -np.inf
        return bool(least_linear_value(np.zeros(self.matrix.shape[1]), self.matrix, self.sums).success)

    @property
    def sizes(self) -> list[int]:
        return [len(g) for g in self.groups]

    def log_count(self) -> Value:
        if self.lattice is not None:
            return Value.exact(self.lattice.log_count(np.asarray(self.sizes)))
        return self.importance_sampler.log_total(np.asarray(self.sizes, dtype=np.float64))

    def marginal(self, cell: int) -> Array:
        """Probabilities of the values 0, 1, ... of one cell, exact."""
        assert self.lattice is not None
        unknown = next(u for u, g in enumerate(self.groups) if cell in g)
        total = self.lattice.marginal(unknown)
        if len(self.groups[unknown]) == 1:
            return total
        # Given the total of merged cells, one of them is beta-binomial.
        a = float(self.concentration[cell])
        b = float(self.concentration[self.groups[unknown]].sum()) - a
        result = np.zeros(len(total))
        for s in np.flatnonzero(total):
            result[: s + 1] += total[s] * _beta_binomial(int(s), a, b)
        return result

    def entropy(self) -> Value:
        """Entropy of the component's cells in nats."""
        if self.lattice is not None:
            surprise = 0.0
            for cell in self.cells:
                if self.concentration[cell] != 1.0:
                    p = self.marginal(cell)
                    surprise += float(p @ log_weight(np.arange(len(p)), float(self.concentration[cell])))
            return Value.exact(self.lattice.log_total - surprise)
        # Draws of merged totals say all about the totals; the entropy inside a total is averaged exactly.
        inside = np.zeros(len(self.importance_sampler.values))
        for unknown, group in enumerate(self.groups):
            inside += _expected_log_weight(self.importance_sampler.values[:, unknown], self.concentration[group])
        return self.importance_sampler.entropy(inside)

    def second_moments(self) -> tuple[Array, Array]:
        """Means and E x_i x_j of the cells, in the order of `cells`, exact."""
        assert self.lattice is not None
        totals = [self.lattice.marginal(u) for u in range(len(self.groups))]
        first = np.array([p @ np.arange(len(p)) for p in totals])
        second = self.lattice.products()
        which = np.repeat(np.arange(len(self.groups)), self.sizes)
        a = self.concentration[self.cells]
        whole = self.merged_concentration[which]
        share = a / whole
        mean = share * first[which]
        products = np.outer(share, share) * second[np.ix_(which, which)]
        # Inside one total s: E x_i x_j = s (s - 1) a_i a_j / (A (A + 1)), plus E x_i on the diagonal.
        pairs = (second[which, which] - first[which])[:, None] * np.outer(a, a) / (whole * (whole + 1.0))[:, None]
        products = np.where(which[:, None] == which[None, :], pairs, products)
        diagonal = np.arange(len(a))
        products[diagonal, diagonal] = (second[which, which] - first[which]) * a * (a + 1.0) / (
            whole * (whole + 1.0)
        ) + mean
        return mean, products

    def sample(self, size: int, rng: np.random.Generator) -> Ints:
        """Independent draws of the cells, shape (size, cells); resampled by importance where not exact."""
        if self.lattice is not None:
            totals = self.lattice.sample(size, rng)
        else:
            chances = softmax(self.importance_sampler.log_importance())
            totals = self.importance_sampler.values[rng.choice(len(chances), size=size, p=chances)]
        return self._split_group_totals(totals, rng)

    def weighted_draws(self, rng: np.random.Generator) -> tuple[Ints, Array]:
        """The importance sample with merged totals shared out, and its log weights."""
        return self._split_group_totals(self.importance_sampler.values, rng), self.importance_sampler.log_importance()

    def all(self) -> Ints:
        """All values of the cells, shape (solutions, cells)."""
        if self.lattice is None:
            raise UnsupportedError(
                "Listing the completions needs exact counting, which takes too many steps here",
                f"a limit of {self.limit}",
                "Raise limit=",
            )
        blocks: list[list[int]] = []
        for totals in self.lattice.solutions():
            shares = [compositions(int(s), len(g))[::-1].tolist() for s, g in zip(totals, self.groups, strict=True)]
            blocks.extend([x for share in choice for x in share] for choice in itertools.product(*shares))
        return np.array(blocks, dtype=np.int64).reshape(-1, len(self.cells))

    def most_probable(self) -> Ints:
        """The most probable values of the cells."""
        # Merged cells are told apart here: the best total need not hold the best table.
        columns = np.repeat(np.arange(len(self.groups)), self.sizes)
        lattice = Lattice(self.matrix[:, columns], self.sums, self.concentration[self.cells], self.limit)
        try:
            return lattice.most_probable()
        except TooManyStates:
            raise UnsupportedError(
                "The most probable table takes too many steps",
                f"a limit of {self.limit}",
                "Raise limit=, or use LogScore or Quadratic",
            ) from None

    def _split_group_totals(self, totals: Ints, rng: np.random.Generator) -> Ints:
        columns = []
        for unknown, group in enumerate(self.groups):
            if len(group) == 1:
                columns.append(totals[:, unknown, None])
            else:
                chances = rng.dirichlet(self.concentration[group], size=len(totals))
                columns.append(rng.multinomial(totals[:, unknown], chances))
        return np.concatenate(columns, axis=1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Completions:
    """Non-negative integer cells with ``matrix @ cells = sums``, weighted by Dirichlet-multinomial weights.

    Parameters
    ----------
    matrix : array of 0 and 1, shape (sums, cells)
    sums : array of int
    concentration : array, one per cell; ones give every table the same weight
    limit : int
        Most steps of dynamic programming per component.
    draws, seed : int
        Importance sampling, where dynamic programming would take more steps than that.
    """

    matrix: Ints
    sums: Ints
    concentration: Array
    limit: int
    draws: int
    seed: int

    @cached_property
    def _reduced_system(self) -> tuple[Ints, list[Part]] | None:
        reduced = reduce_system(self.matrix, self.sums)
        if reduced is None:
            return None
        known, components = reduced
        settings = self.concentration, self.limit, self.draws
        parts = [Part(*component, *settings, self.seed + i) for i, component in enumerate(components)]
        if not all(p.feasible for p in parts):
            return None
        return known, parts

    @property
    def feasible(self) -> bool:
        """Whether any table agrees with the sums."""
        return self._reduced_system is not None

    @property
    def determined_cells(self) -> Ints:
        """The value of each cell that the sums pin down, -1 for the others."""
        assert self._reduced_system is not None
        return self._reduced_system[0]

    @property
    def parts(self) -> list[Part]:
        assert self._reduced_system is not None
        return self._reduced_system[1]

    @property
    def exact(self) -> bool:
        return all(p.lattice is not None for p in self.parts)

    @property
    def effective_draws(self) -> float:
        """Effective number of importance draws, the least over the parts; infinite where counting is exact."""
        return min((p.importance_sampler.effective_draws for p in self.parts if p.lattice is None), default=np.inf)

    def count(self) -> int | Value:
        if self.exact:
            result = 1
            for part in self.parts:
                assert part.lattice is not None
                result *= part.lattice.count(part.sizes)
            return result
        log_count = self.log_count()
        with np.errstate(over="ignore"):
            value = np.exp(log_count.value)
        return Value(np.asarray(value), np.asarray(value * log_count.error))

    def log_count(self) -> Value:
        return _sum_with_error([p.log_count() for p in self.parts])

    def entropy(self) -> Value:
        return _sum_with_error([p.entropy() for p in self.parts])

    @cached_property
    def log_total(self) -> Value:
        """Log of the summed weight of all completions."""
        totals = [
            Value.exact(p.lattice.log_total) if p.lattice is not None else p.importance_sampler.log_total()
            for p in self.parts
        ]
        settled = self.determined_cells >= 0
        constant = float(log_weight(self.determined_cells[settled], self.concentration[settled]).sum())
        return _sum_with_error([*totals, Value.exact(constant)])

    def log_weight(self, tables: Ints) -> Array:
        """Log weight of whole tables, shape (tables, cells)."""
        return log_weight(tables, self.concentration).sum(axis=-1)

    def marginal(self, cell: int) -> Array | None:
        """Probabilities of the values 0, 1, ... of a cell; None if its component is not exact."""
        part = next((p for p in self.parts if cell in p.cells), None)
        if part is None:  # its value is settled
            p = np.zeros(int(self.determined_cells[cell]) + 1)
            p[-1] = 1.0
            return p
        return part.marginal(cell) if part.lattice is not None else None

    def moments(self) -> tuple[Array, Array]:
        """Mean vector and covariance matrix of all cells, exact."""
        mean = np.maximum(self.determined_cells, 0).astype(np.float64)
        cov = np.zeros((len(mean), len(mean)))
        for part in self.parts:
            first, second = part.second_moments()
            mean[part.cells] = first
            cov[np.ix_(part.cells, part.cells)] = second - np.outer(first, first)
        return mean, cov

    def sample(self, size: int, rng: np.random.Generator) -> Ints:
        """Independent tables, shape (size, cells)."""
        tables = np.broadcast_to(self.determined_cells, (size, len(self.determined_cells))).copy()
        for part in self.parts:
            tables[:, part.cells] = part.sample(size, rng)
        return tables

    @cached_property
    def weighted_draws(self) -> tuple[Ints, Array]:
        """Weighted draws of whole tables and their weights, the largest being one, for systems that are not exact."""
        rng = as_generator(self.seed, 1)
        rough = [p.weighted_draws(rng) for p in self.parts if p.lattice is None]
        size = min((len(x) for x, _ in rough), default=self.draws)
        tables = np.broadcast_to(self.determined_cells, (size, len(self.determined_cells))).copy()
        log_weights = np.zeros(size)
        drawn = iter(rough)
        for part in self.parts:
            if part.lattice is not None:
                tables[:, part.cells] = part.sample(size, rng)
            else:
                x, log_ratio = next(drawn)
                tables[:, part.cells] = x[:size]
                log_weights += log_ratio[:size]
        return tables, np.exp(log_weights - log_weights.max())

    def all(self) -> Ints:
        """All completions, shape (completions, cells)."""
        lists = [p.all() for p in self.parts]
        if not lists:
            return self.determined_cells[None].copy()
        index = np.indices([len(x) for x in lists]).reshape(len(lists), -1)
        tables = np.broadcast_to(self.determined_cells, (index.shape[1], len(self.determined_cells))).copy()
        for part, values, rows in zip(self.parts, lists, index, strict=True):
            tables[:, part.cells] = values[rows]
        return tables

    def most_probable(self) -> Ints:
        """A most probable table."""
        table = self.determined_cells.copy()
        for part in self.parts:
            table[part.cells] = part.most_probable()
        return table


def _sum_with_error(values: list[Value]) -> Value:
    total = float(sum(float(v.value) for v in values))
    return Value(np.asarray(total), np.asarray(float(np.sqrt(sum(float(v.error) ** 2 for v in values)))))


def _expected_log_weight(totals: Ints, concentration: Array) -> Array:
    """E sum log w of merged cells given their total, one per draw."""
    if len(concentration) == 1:
        return log_weight(totals, float(concentration[0]))
    if np.all(concentration == 1.0):
        return np.zeros(len(totals))
    whole = float(concentration.sum())
    result = np.zeros(len(totals))
    for s in np.unique(totals):
        x = np.arange(s + 1)
        result[totals == s] = sum(float(_beta_binomial(s, a, whole - a) @ log_weight(x, a)) for a in concentration)
    return result


def _beta_binomial(total: int, a: float, b: float) -> Array:
    """Probabilities of 0, ..., total for one of two cells with these concentrations that add up to the total."""
    x = np.arange(total + 1)
    logs = gammaln(total + 1) - gammaln(x + 1) - gammaln(total - x + 1) + betaln(x + a, total - x + b) - betaln(a, b)
    return np.asarray(softmax(logs))


def least_linear_value(goal: Array, matrix: Ints, sums: Ints) -> OptimizeResult:
    """The least of ``goal @ x`` over non-negative integers with ``matrix @ x = sums``, by integer programming."""
    constraint = LinearConstraint(matrix.astype(np.float64), sums, sums)
    return milp(goal, constraints=constraint, integrality=np.ones(len(goal)), bounds=Bounds(0, np.inf))


# -- making the system small, without losing or gaining a solution --------------------------------------


def reduce_system(matrix: Ints, sums: Ints) -> tuple[Ints, list[Component]] | None:
    """Settle, merge and split ``matrix @ cells = sums``; None if a contradiction shows up.

    Gives back the value of every settled cell (-1 for the others) and the independent components.
    """
    known = np.full(matrix.shape[1], -1, dtype=np.int64)
    apart: list[Component] = []
    groups = _group_equal_columns(matrix)
    columns = matrix[:, [g[0] for g in groups]]
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
        bounds = _cell_bounds(columns, sums)
        if bounds is None:
            return None
        low, high = bounds
        settled = low == high
        value = np.where(settled, low, -1)
        if not settled.any():
            # The echelon form costs more than the bounds, so it comes when they have nothing left to say.
            split = _independent_components(columns, sums)
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
                apart.append(([groups[u]], np.ones((1, 1), dtype=np.int64), value[u : u + 1].copy()))
        sums = sums - columns[:, settled] @ value[settled]
        # Fewer sums can tell the rest apart now, so cells may merge again.
        rest = [groups[u] for u in np.flatnonzero(~settled)]
        columns = columns[:, ~settled]
        kinds = _group_equal_columns(columns)
        groups = [np.concatenate([rest[i] for i in kind]) for kind in kinds]
        columns = columns[:, [kind[0] for kind in kinds]]
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        rows = np.flatnonzero(columns[:, members].any(axis=1))
        part, right = columns[np.ix_(rows, members)], solved[rows, label]
        if np.any((right < 0) | (right > sums[rows])):
            return None
        system, first, inverse = np.unique(part, axis=0, return_index=True, return_inverse=True)
        if np.any(right != right[first][inverse.reshape(-1)]):
            return None
        apart.append(([groups[u] for u in members], system, right[first]))
    return known, apart


def _group_equal_columns(matrix: Ints) -> list[Ints]:
    """Positions of equal columns, set by set in the order of their first appearance, as results should read."""
    places: dict[bytes, list[int]] = {}
    for place, column in enumerate(np.ascontiguousarray(matrix.T)):
        places.setdefault(column.tobytes(), []).append(place)
    return [np.array(same) for same in places.values()]


def _cell_bounds(matrix: Ints, sums: Ints) -> tuple[Ints, Ints] | None:
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


def _independent_components(matrix: Ints, sums: Ints) -> tuple[Ints, Ints] | None:
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
