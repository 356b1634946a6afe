"""Counting the non-negative integer solutions of a small system of sums, exactly, without listing them.

The unknowns are handled one after the other. What remains of every sum is the *state*; different beginnings
that leave the same state are merged, so the work grows with the number of states and not with the number of
solutions. One pass forward and one backward give the total weight and the law of every unknown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ...protocols import Array

Ints = NDArray[np.int64]
HOPELESS = float(np.log(1e9))
"""A plan that counts on this many times the allowed steps (in logs) is not followed to the end."""


class TooManyStates(Exception):
    """Exact counting would need more steps than allowed. Caught inside the package."""


def log_weight(x: Array | Ints, concentration: Array | float) -> Array:
    """Log of Gamma(x + a) / (Gamma(a) x!), the Dirichlet-multinomial weight of a count; zero for a = 1.

    The weights of g merged cells are of the same form, with the sum of their concentrations.
    """
    a = np.asarray(concentration, dtype=np.float64)
    # For a = 1 the weight is one, and rounding must not spoil it.
    return np.where(a == 1.0, 0.0, gammaln(x + a) - gammaln(a) - gammaln(np.asarray(x, dtype=np.float64) + 1.0))


class Steps(NamedTuple):
    """All ways to take one unknown: from which state, with which value, to which state."""

    origin: Ints
    value: Ints
    target: Ints
    states: int
    """How many states there are after the step."""


@dataclass(frozen=True, eq=False)
class Lattice:
    """Solutions x >= 0 of ``matrix @ x = sums``, with a zero-one matrix and one concentration per unknown.

    Parameters
    ----------
    matrix : array of 0 and 1, shape (sums, unknowns)
    sums : array of int
    concentration : array
        The weight of a solution is the product of ``log_weight(x, concentration)``.
    limit : int
        Most steps allowed; more raise `TooManyStates`.
    """

    matrix: Ints
    sums: Ints
    concentration: Array
    limit: int

    @property
    def order(self) -> list[int]:
        """An order of the unknowns that keeps few sums open at a time."""
        return self._plan_order[1]

    @cached_property
    def _plan_order(self) -> tuple[float, list[int]]:
        size = self.matrix.shape[1]
        tries = 12 if size <= 60 else 3 if size <= 200 else 1
        starts = np.argsort(-self.matrix.sum(axis=0), kind="stable")[:tries]
        candidates = [_greedy_order(self.matrix, self.sums, int(s)) for s in starts]
        return min(candidates, key=lambda pair: pair[0])

    @cached_property
    def layers(self) -> list[Steps]:
        """The steps of every unknown, in `order`."""
        matrix, order = self.matrix, self.order
        # Half the memory of the default integers; sums stay below 2^31.
        remaining: NDArray[Any] = self.sums[None, :].astype(np.int32)
        layers: list[Steps] = []
        spent = 0
        # Where even the plan sees no chance, an eighth of the steps is enough to be sure.
        allowed = self.limit // 8 if self._plan_order[0] > np.log(self.limit) + HOPELESS else self.limit
        for place, cell in enumerate(order):
            low, high = _range_of_next(remaining, matrix, order[place:])
            width = np.maximum(high.astype(np.int64) - low + 1, 0)
            spent += int(width.sum())
            if spent > allowed:
                raise TooManyStates
            origin = np.repeat(np.arange(len(remaining)), width)
            start = np.cumsum(width) - width
            value = np.arange(len(origin)) - start[origin] + low[origin].astype(np.int64)
            remaining, target = _merge_states(remaining, origin, value, matrix[:, cell])
            layers.append(Steps(origin, value, target, len(remaining)))
        return layers

    def log_weights(self, concentration: Array) -> list[Array]:
        """Log weight of every step."""
        return [
            log_weight(steps.value, concentration[cell]) for steps, cell in zip(self.layers, self.order, strict=True)
        ]

    @cached_property
    def own_log_weights(self) -> list[Array]:
        """Log weight of every step under the lattice's own concentrations."""
        return self.log_weights(self.concentration)

    def forward(self, weights: Sequence[Array]) -> list[Array]:
        """Log weight of all beginnings that reach each state, before every step and after the last."""
        messages = [np.zeros(1)]
        for steps, weight in zip(self.layers, weights, strict=True):
            messages.append(log_sum(steps.target, messages[-1][steps.origin] + weight, steps.states))
        return messages

    @cached_property
    def backward(self) -> list[Array]:
        """Log weight of all ways to finish from each state, before every step and after the last."""
        messages = [np.zeros(self.layers[-1].states)]
        sizes = [1, *(steps.states for steps in self.layers[:-1])]
        for steps, weight, size in zip(
            reversed(self.layers), reversed(self.own_log_weights), reversed(sizes), strict=True
        ):
            messages.append(log_sum(steps.origin, messages[-1][steps.target] + weight, size))
        return messages[::-1]

    @cached_property
    def log_total(self) -> float:
        """Log of the summed weight of all solutions; minus infinity if there is none."""
        return float(self.backward[0][0])

    def log_count(self, cells: Array) -> float:
        """Log of the number of solutions when unknown i stands for ``cells[i]`` merged cells."""
        last = self.forward(self.log_weights(np.asarray(cells, dtype=np.float64)))[-1]
        return float(last[0]) if len(last) else -np.inf

    def count(self, cells: Sequence[int]) -> int:
        """The number of solutions, exactly: residues modulo enough primes, put together again."""
        log_count = self.log_count(np.asarray(cells))
        if log_count == -np.inf:
            return 0
        bits = log_count / np.log(2.0)
        result, modulus = 0, 1
        # Twenty spare bits: far more than the error of the floating-point count.
        for prime in _large_primes():
            residue = self._count_modulo_prime(prime, cells)
            result += modulus * ((residue - result) * pow(modulus, -1, prime) % prime)
            modulus *= prime
            if modulus.bit_length() > bits + 20:
                return result
        raise AssertionError("there are enough primes")

    def _count_modulo_prime(self, prime: int, cells: Sequence[int]) -> int:
        message = np.ones(1, dtype=np.int64)
        for steps, cell in zip(self.layers, self.order, strict=True):
            low = int(steps.value.min())
            table = _shares_modulo(low, int(steps.value.max()), int(cells[cell]), prime)
            terms = message[steps.origin] * table[steps.value - low] % prime
            # Each term is below 2^30 and there are fewer than 2^23 of them, so float sums are exact.
            message = (
                np.bincount(steps.target, weights=terms.astype(np.float64), minlength=steps.states).astype(np.int64)
                % prime
            )
        return int(message[0])

    def marginal(self, unknown: int) -> Array:
        """Probabilities of the values 0, 1, ... of one unknown."""
        place = self.order.index(unknown)
        steps = self.layers[place]
        log_joint = (
            self._forward_messages[place][steps.origin]
            + self.own_log_weights[place]
            + self.backward[place + 1][steps.target]
        )
        size = int(steps.value.max()) + 1
        probabilities = np.exp(log_sum(steps.value, log_joint, size) - self.log_total)
        return probabilities / probabilities.sum()

    @cached_property
    def _forward_messages(self) -> list[Array]:
        return self.forward(self.own_log_weights)

    def products(self) -> Array:
        """E x_i x_j for all pairs of unknowns."""
        size = len(self.order)
        result = np.zeros((size, size))
        sums = np.zeros((1, 0))  # E[x_i | state] for the unknowns handled so far
        for place, (steps, cell) in enumerate(zip(self.layers, self.order, strict=True)):
            log_step = self._forward_messages[place][steps.origin] + self.own_log_weights[place]
            chance = np.exp(log_step + self.backward[place + 1][steps.target] - self.log_total)
            result[cell, cell] = chance @ steps.value.astype(np.float64) ** 2
            for i, earlier in enumerate(self.order[:place]):
                result[earlier, cell] = result[cell, earlier] = chance @ (sums[steps.origin, i] * steps.value)
            after = self._forward_messages[place + 1]
            share = np.exp(log_step - after[steps.target])
            columns = [np.bincount(steps.target, share * sums[steps.origin, i], steps.states) for i in range(place)]
            columns.append(np.bincount(steps.target, share * steps.value, steps.states))
            sums = np.stack(columns, axis=1)
        return result

    def sample(self, size: int, rng: np.random.Generator) -> Ints:
        """Independent solutions drawn by weight, shape (size, unknowns)."""
        draws = np.empty((size, len(self.order)), dtype=np.int64)
        state = np.zeros(size, dtype=np.int64)
        for place, (steps, cell) in enumerate(zip(self.layers, self.order, strict=True)):
            here = self.backward[place]
            with np.errstate(invalid="ignore"):
                log_chance = self.own_log_weights[place] + self.backward[place + 1][steps.target] - here[steps.origin]
            chance = np.where(np.isfinite(log_chance), np.exp(np.where(np.isfinite(log_chance), log_chance, 0.0)), 0.0)
            ends = np.searchsorted(steps.origin, np.arange(len(here)), side="right")
            starts = np.concatenate([[0], ends[:-1]])
            running = np.concatenate([[0.0], np.cumsum(chance)])
            wanted = running[starts[state]] + rng.random(size) * (running[ends[state]] - running[starts[state]])
            chosen = np.clip(np.searchsorted(running, wanted, side="right") - 1, starts[state], ends[state] - 1)
            draws[:, cell] = steps.value[chosen]
            state = steps.target[chosen]
        return draws

    def most_probable(self) -> Ints:
        """A solution with the largest weight."""
        scores = [np.zeros(1)]
        for steps, weight in zip(self.layers, self.own_log_weights, strict=True):
            top = np.full(steps.states, -np.inf)
            np.maximum.at(top, steps.target, scores[-1][steps.origin] + weight)
            scores.append(top)
        solution = np.empty(len(self.order), dtype=np.int64)
        state = 0
        for place in reversed(range(len(self.order))):
            steps = self.layers[place]
            into = np.flatnonzero(steps.target == state)
            value = scores[place][steps.origin[into]] + self.own_log_weights[place][into]
            chosen = into[int(np.argmax(value))]
            solution[self.order[place]] = steps.value[chosen]
            state = int(steps.origin[chosen])
        return solution

    def solutions(self) -> Ints:
        """All solutions, shape (solutions, unknowns)."""
        found = np.zeros((1, 0), dtype=np.int64)
        state = np.zeros(1, dtype=np.int64)
        for place, steps in enumerate(self.layers):
            alive = np.isfinite(self.backward[place + 1][steps.target])
            origin, value, target = steps.origin[alive], steps.value[alive], steps.target[alive]
            size = len(self.backward[place])
            starts, ends = (
                np.searchsorted(origin, np.arange(size)),
                np.searchsorted(origin, np.arange(size), side="right"),
            )
            width = (ends - starts)[state]
            rows = np.repeat(np.arange(len(found)), width)
            pick = np.arange(len(rows)) - (np.cumsum(width) - width)[rows] + starts[state[rows]]
            found = np.concatenate([found[rows], value[pick][:, None]], axis=1)
            state = target[pick]
        return found[:, np.argsort(self.order)]


def log_sum(index: Ints, values: Array, size: int) -> Array:
    """Log of the sums of exp(values) that share an index."""
    top = np.full(size, -np.inf)
    np.maximum.at(top, index, values)
    shift = np.where(np.isfinite(top), top, 0.0)
    total = np.bincount(index, weights=np.exp(values - shift[index]), minlength=size)
    with np.errstate(divide="ignore"):
        return shift + np.log(total)


def _range_of_next(remaining: NDArray[Any], matrix: Ints, ahead: Sequence[int]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Lowest and highest value of the next unknown that the open sums leave room for."""
    cell, later = ahead[0], ahead[1:]
    mine = np.flatnonzero(matrix[:, cell])
    high = remaining[:, mine].min(axis=1)
    low = np.zeros_like(high)
    most = {c: remaining[:, np.flatnonzero(matrix[:, c])].min(axis=1) for c in later if matrix[mine, c].any()}
    for k in mine:
        room = np.zeros_like(high)
        for c in later:
            if matrix[k, c]:
                room += most[c]
        np.maximum(low, remaining[:, k] - room, out=low)
    return low, high


def _merge_states(remaining: NDArray[Any], origin: Ints, value: Ints, column: Ints) -> tuple[NDArray[Any], Ints]:
    """States after a step, each once, and which of them every step leads to."""
    if len(origin) == 0:
        return remaining[:0], origin
    top, bottom = remaining.max(axis=0), remaining.min(axis=0)
    # A sum that is the same in all states and that the unknown does not touch tells no states apart.
    varied = np.flatnonzero((top > bottom) | (column > 0))
    radix = top[varied].astype(np.int64) + 1
    exact = float(np.log2(radix.astype(np.float64)).sum()) < 62.0
    if exact:
        stride = np.concatenate([[1], np.cumprod(radix[:-1])]).astype(np.int64)
    else:
        # Too many sums for a positional key: a random linear one, checked below.
        stride = np.random.default_rng(len(remaining)).integers(-(2**62), 2**62, size=len(varied))
    with np.errstate(over="ignore"):
        base = np.zeros(len(remaining), dtype=np.int64)
        for k, factor in zip(varied, stride, strict=True):
            base += remaining[:, k].astype(np.int64) * factor
        shift = np.sum(column[varied].astype(np.int64) * stride)
        key = base[origin] - value * shift
    _, first, target = np.unique(key, return_index=True, return_inverse=True)
    target = target.reshape(-1)
    states = remaining[origin[first]] - value[first, None].astype(remaining.dtype) * column.astype(remaining.dtype)
    if not exact:
        for k in varied:
            if np.any(remaining[origin, k] - value * column[k] != states[target, k]):
                rows = remaining[origin] - value[:, None] * column
                states, target = np.unique(rows, axis=0, return_inverse=True)
                return states.astype(remaining.dtype), target.reshape(-1)
    return states, target


def _greedy_order(matrix: Ints, sums: Ints, start: int) -> tuple[float, list[int]]:
    """Start somewhere, then always take the unknown that leaves the fewest states open; with its estimated cost."""
    size = np.log1p(sums.astype(np.float64))
    remaining = matrix.sum(axis=1)
    opened = np.zeros(len(sums), dtype=bool)
    ahead = set(range(matrix.shape[1]))
    order: list[int] = []
    cost = -np.inf
    cell = start
    while True:
        order.append(cell)
        ahead.discard(cell)
        opened |= matrix[:, cell] > 0
        remaining = remaining - matrix[:, cell]
        cost = float(np.logaddexp(cost, size[opened & (remaining > 0)].sum()))
        if not ahead:
            return cost, order
        choices = np.array(sorted(ahead))
        after = remaining[:, None] - matrix[:, choices]
        touched = opened[:, None] | (matrix[:, choices] > 0)
        load = np.where(touched & (after > 0), size[:, None], 0.0).sum(axis=0)
        # Among equals, go on with the sums that are nearest to their end.
        nearest = np.where(matrix[:, choices] > 0, after, 10**9).min(axis=0)
        cell = int(choices[np.lexsort((nearest, load))[0]])


def _large_primes() -> list[int]:
    """Primes just below 2^30, largest first; enough for numbers of a hundred thousand bits."""
    sieve_to = 1 << 15
    sieve = np.ones(sieve_to, dtype=bool)
    sieve[:2] = False
    for i in range(2, int(sieve_to**0.5) + 1):
        if sieve[i]:
            sieve[i * i :: i] = False
    small = np.flatnonzero(sieve)
    low = (1 << 30) - 80_000
    block = np.ones(80_000, dtype=bool)
    for p in small:
        block[(-low) % p :: p] = False
    return [int(low + i) for i in np.flatnonzero(block)[::-1]]


def _shares_modulo(low: int, high: int, cells: int, prime: int) -> Ints:
    """Number of ways to share s units among the cells, s = low..high, modulo a prime."""
    if cells == 1:
        return np.ones(high - low + 1, dtype=np.int64)
    ways = math.comb(low + cells - 1, cells - 1)
    table = np.empty(high - low + 1, dtype=np.int64)
    for s in range(low, high + 1):
        table[s - low] = ways % prime
        ways = ways * (s + cells) // (s + 1)
    return table
