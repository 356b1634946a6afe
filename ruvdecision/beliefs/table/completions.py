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
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.special import betaln, gammaln

from ...errors import UnsupportedError
from ...numerics.counts import compositions
from ...protocols import Array, Value
from .importance import ImportanceSample, pilot_order
from .lattice import Lattice, TooManyStates, log_weight
from .systems import Component, reduce_system

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Part:
    """One component of a system: merged cells, their sums, and how it is counted."""

    component: Component
    concentration: Array
    """One per cell of the whole system."""
    limit: int
    draws: int
    seed: int

    @property
    def groups(self) -> list[Ints]:
        """The cells of each unknown."""
        return self.component.groups

    @property
    def cells(self) -> list[int]:
        """All cells of the component."""
        return [int(c) for group in self.groups for c in group]

    @property
    def merged(self) -> Array:
        """The concentration of each unknown: the sum over its cells."""
        return np.array([self.concentration[g].sum() for g in self.groups])

    @cached_property
    def lattice(self) -> Lattice | None:
        """The exact counter, or None if it would need too many steps."""
        lattice = Lattice(self.component.matrix, self.component.sums, self.merged, self.limit)
        try:
            _ = lattice.layers
        except TooManyStates:
            return None
        return lattice

    @cached_property
    def sampled(self) -> ImportanceSample:
        """The approximate counter."""
        matrix, sums = self.component.matrix, self.component.sums
        # The pilot has a stream of its own, so that the choice of the order leaves the estimates unbiased.
        order = pilot_order(matrix, sums, self.merged, self.seed + 7919)
        return ImportanceSample(matrix, sums, self.merged, order, self.draws, self.seed)

    @property
    def feasible(self) -> bool:
        """Whether there is any solution."""
        if self.lattice is not None:
            return self.lattice.log_total > -np.inf
        matrix, sums = self.component.matrix, self.component.sums
        size = matrix.shape[1]
        answer = milp(
            np.zeros(size),
            constraints=LinearConstraint(matrix.astype(np.float64), sums, sums),
            integrality=np.ones(size, dtype=np.int64),
            bounds=Bounds(0, np.inf),
        )
        return bool(answer.success)

    @property
    def sizes(self) -> list[int]:
        return [len(g) for g in self.groups]

    def log_count(self) -> Value:
        if self.lattice is not None:
            return Value.exact(self.lattice.log_count(np.asarray(self.sizes)))
        return self.sampled.log_total(np.asarray(self.sizes, dtype=np.float64))

    def marginal(self, cell: int) -> Array:
        """Probabilities of the values 0, 1, ... of one cell, exact."""
        assert self.lattice is not None
        unknown = self._unknown(cell)
        total = self.lattice.marginal(unknown)
        if len(self.groups[unknown]) == 1:
            return total
        # Given the total of merged cells, one of them is beta-binomial.
        a = float(self.concentration[cell])
        b = float(self.concentration[self.groups[unknown]].sum()) - a
        result = np.zeros(len(total))
        for s in np.flatnonzero(total):
            x = np.arange(s + 1)
            log_p = gammaln(s + 1) - gammaln(x + 1) - gammaln(s - x + 1) + betaln(x + a, s - x + b) - betaln(a, b)
            p = np.exp(log_p - log_p.max())
            result[: s + 1] += total[s] * p / p.sum()
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
        inside = np.zeros(len(self.sampled.values))
        for unknown, group in enumerate(self.groups):
            inside += _inner_surprise(self.sampled.values[:, unknown], self.concentration[group])
        return self.sampled.entropy(inside)

    def second_moments(self) -> tuple[Array, Array]:
        """Means and E x_i x_j of the cells, in the order of `cells`, exact."""
        assert self.lattice is not None
        totals = [self.lattice.marginal(u) for u in range(len(self.groups))]
        first = np.array([p @ np.arange(len(p)) for p in totals])
        second = self.lattice.products()
        which = np.repeat(np.arange(len(self.groups)), self.sizes)
        a = self.concentration[self.cells]
        whole = self.merged[which]
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
            log_ratio = self.sampled.log_importance()
            weight = np.exp(log_ratio - log_ratio.max())
            totals = self.sampled.values[rng.choice(len(weight), size=size, p=weight / weight.sum())]
        return self._split(totals, rng)

    def weighted(self, rng: np.random.Generator) -> tuple[Ints, Array]:
        """The importance sample with merged totals shared out, and its log weights."""
        return self._split(self.sampled.values, rng), self.sampled.log_importance()

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

    def best(self) -> Ints:
        """The most probable values of the cells."""
        # Merged cells are told apart here: the best total need not hold the best table.
        columns = np.repeat(np.arange(len(self.groups)), self.sizes)
        lattice = Lattice(
            self.component.matrix[:, columns], self.component.sums, self.concentration[self.cells], self.limit
        )
        try:
            return lattice.best()
        except TooManyStates:
            raise UnsupportedError(
                "The most probable table takes too many steps",
                f"a limit of {self.limit}",
                "Raise limit=, or use LogScore or Quadratic",
            ) from None

    def _unknown(self, cell: int) -> int:
        return next(u for u, g in enumerate(self.groups) if cell in g)

    def _split(self, totals: Ints, rng: np.random.Generator) -> Ints:
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
    def _reduced(self) -> tuple[Ints, list[Part]] | None:
        reduced = reduce_system(self.matrix, self.sums)
        if reduced is None:
            return None
        known, components = reduced
        parts = [Part(c, self.concentration, self.limit, self.draws, self.seed + i) for i, c in enumerate(components)]
        if not all(p.feasible for p in parts):
            return None
        return known, parts

    @property
    def feasible(self) -> bool:
        """Whether any table agrees with the sums."""
        return self._reduced is not None

    @property
    def known(self) -> Ints:
        """The value of each cell that the sums pin down, -1 for the others."""
        assert self._reduced is not None
        return self._reduced[0]

    @property
    def parts(self) -> list[Part]:
        assert self._reduced is not None
        return self._reduced[1]

    @property
    def exact(self) -> bool:
        return all(p.lattice is not None for p in self.parts)

    @property
    def effective(self) -> float:
        """Effective number of importance draws, the least over the parts; infinite where counting is exact."""
        return min((p.sampled.effective for p in self.parts if p.lattice is None), default=np.inf)

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
        return _add([p.log_count() for p in self.parts])

    def entropy(self) -> Value:
        return _add([p.entropy() for p in self.parts])

    @cached_property
    def log_total(self) -> Value:
        """Log of the summed weight of all completions."""
        totals = [
            Value.exact(p.lattice.log_total) if p.lattice is not None else p.sampled.log_total() for p in self.parts
        ]
        settled = self.known >= 0
        constant = float(log_weight(self.known[settled], self.concentration[settled]).sum())
        return _add([*totals, Value.exact(constant)])

    def log_weight(self, tables: Ints) -> Array:
        """Log weight of whole tables, shape (tables, cells)."""
        return log_weight(tables, self.concentration).sum(axis=-1)

    def part_of(self, cell: int) -> Part | None:
        """The component that a cell belongs to, None if its value is settled."""
        return next((p for p in self.parts if cell in p.cells), None)

    def marginal(self, cell: int) -> Array | None:
        """Probabilities of the values 0, 1, ... of a cell; None if its component is not exact."""
        part = self.part_of(cell)
        if part is None:
            p = np.zeros(int(self.known[cell]) + 1)
            p[-1] = 1.0
            return p
        return part.marginal(cell) if part.lattice is not None else None

    def moments(self) -> tuple[Array, Array]:
        """Mean vector and covariance matrix of all cells, exact."""
        mean = np.maximum(self.known, 0).astype(np.float64)
        cov = np.zeros((len(mean), len(mean)))
        for part in self.parts:
            first, second = part.second_moments()
            mean[part.cells] = first
            cov[np.ix_(part.cells, part.cells)] = second - np.outer(first, first)
        return mean, cov

    def sample(self, size: int, rng: np.random.Generator) -> Ints:
        """Independent tables, shape (size, cells)."""
        tables = np.broadcast_to(self.known, (size, len(self.known))).copy()
        for part in self.parts:
            tables[:, part.cells] = part.sample(size, rng)
        return tables

    def weighted(self) -> tuple[Ints, Array]:
        """Weighted draws of whole tables and their log weights, for systems that are not exact."""
        rng = np.random.default_rng([self.seed, 1])
        rough = [p.weighted(rng) for p in self.parts if p.lattice is None]
        size = min((len(x) for x, _ in rough), default=self.draws)
        tables = np.broadcast_to(self.known, (size, len(self.known))).copy()
        log_weights = np.zeros(size)
        drawn = iter(rough)
        for part in self.parts:
            if part.lattice is not None:
                tables[:, part.cells] = part.sample(size, rng)
            else:
                x, log_ratio = next(drawn)
                tables[:, part.cells] = x[:size]
                log_weights += log_ratio[:size]
        return tables, log_weights

    def all(self) -> Ints:
        """All completions, shape (completions, cells)."""
        lists = [p.all() for p in self.parts]
        if not lists:
            return self.known[None].copy()
        index = np.indices([len(x) for x in lists]).reshape(len(lists), -1)
        tables = np.broadcast_to(self.known, (index.shape[1], len(self.known))).copy()
        for part, values, rows in zip(self.parts, lists, index, strict=True):
            tables[:, part.cells] = values[rows]
        return tables

    def best(self) -> Ints:
        """A most probable table."""
        table = self.known.copy()
        for part in self.parts:
            table[part.cells] = part.best()
        return table


def _add(values: list[Value]) -> Value:
    total = float(sum(float(v.value) for v in values))
    return Value(np.asarray(total), np.asarray(float(np.sqrt(sum(float(v.error) ** 2 for v in values)))))


def _inner_surprise(totals: Ints, concentration: Array) -> Array:
    """E sum log w of merged cells given their total, one per draw."""
    if len(concentration) == 1:
        return log_weight(totals, float(concentration[0]))
    if np.all(concentration == 1.0):
        return np.zeros(len(totals))
    whole = float(concentration.sum())
    result = np.zeros(len(totals))
    for s in np.unique(totals):
        x = np.arange(s + 1)
        expected = 0.0
        for a in concentration:
            b = whole - a
            log_p = gammaln(s + 1) - gammaln(x + 1) - gammaln(s - x + 1) + betaln(x + a, s - x + b) - betaln(a, b)
            p = np.exp(log_p - log_p.max())
            expected += float((p / p.sum()) @ log_weight(x, float(a)))
        result[totals == s] = expected
    return result
