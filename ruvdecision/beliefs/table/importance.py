"""Sequential importance sampling of tables, for systems that are too large for exact counting.

Each draw fills the unknowns one after the other, inside bounds that the sums imply, with chances that follow
Good's (1950) approximation to the number of ways to finish. A draw's importance weight is its own weight over its
chance of being drawn; a draw that cannot be finished has weight zero, so the estimates stay unbiased.
After Chen, Diaconis, Holmes and Liu (2005), Sequential Monte Carlo methods for statistical analysis of tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...checks import as_generator
from ...errors import UnsupportedError
from ...protocols import Array, Value
from .lattice import log_weight

Ints = NDArray[np.int64]
CHUNK = 4_000_000  # entries of the largest array held at a time
PILOT = 200  # draws that an order is judged by


@dataclass(frozen=True, eq=False)
class ImportanceSample:
    """Weighted draws of the solutions x >= 0 of ``matrix @ x = sums``.

    Parameters
    ----------
    matrix, sums, concentration
        As in `Lattice`.
    order : sequence of int
        The order in which the unknowns are filled.
    draws : int
        Number of draws, dead ones included.
    seed : int
        Seed of the draws.
    """

    matrix: Ints
    sums: Ints
    concentration: Array
    order: Sequence[int]
    draws: int
    seed: int

    @cached_property
    def _all_draws(self) -> tuple[Ints, Array]:
        rng = as_generator(self.seed)
        size = max(1, min(self.draws, CHUNK // (4 * self.matrix.shape[1])))
        values, log_chances = [], []
        for start in range(0, self.draws, size):
            x, log_chance = self._draw_batch(min(size, self.draws - start), rng)
            values.append(x)
            log_chances.append(log_chance)
        x, log_chance = np.concatenate(values), np.concatenate(log_chances)
        if len(x) == 0:
            raise UnsupportedError(
                f"None of {self.draws} draws could be completed to a table that agrees with what is known",
                do="Raise draws=, or raise limit= so that exact counting is allowed more steps",
            )
        return x, log_chance

    @property
    def values(self) -> Ints:
        """The draws that were completed, shape (completed, unknowns)."""
        return self._all_draws[0]

    def log_importance(self, concentration: Array | None = None) -> Array:
        """Log of weight over chance, one per completed draw."""
        a = self.concentration if concentration is None else np.asarray(concentration, dtype=np.float64)
        x, log_chance = self._all_draws
        return log_weight(x, a).sum(axis=1) - log_chance

    def log_total(self, concentration: Array | None = None) -> Value:
        """Log of the summed weight of all solutions, with the standard error of that log."""
        log_ratio = self.log_importance(concentration)
        top = log_ratio.max()
        ratio = np.zeros(self.draws)  # draws that died count as zero
        ratio[: len(log_ratio)] = np.exp(log_ratio - top)
        mean = ratio.mean()
        error = ratio.std(ddof=1) / np.sqrt(self.draws) / mean
        return Value(np.asarray(top + np.log(mean)), np.asarray(error))

    def entropy(self, log_weights: Array) -> Value:
        """Entropy, log Z - E log w, with the error of both together (delta method)."""
        total = self.log_total()
        log_ratio = self.log_importance()
        share = np.zeros(self.draws)
        share[: len(log_ratio)] = np.exp(log_ratio - float(total.value))
        padded = np.zeros(self.draws)
        padded[: len(log_ratio)] = log_weights
        mean = float(np.mean(share * padded))
        influence = (share - 1.0) - share * (padded - mean)
        return Value(np.asarray(float(total.value) - mean), np.asarray(influence.std(ddof=1) / np.sqrt(self.draws)))

    @property
    def effective_draws(self) -> float:
        """Effective number of draws."""
        log_ratio = self.log_importance()
        weight = np.exp(log_ratio - log_ratio.max())
        return float(weight.sum() ** 2 / (weight @ weight))

    # -- one batch -----------------------------------------------------------------------------------

    def _draw_batch(self, size: int, rng: np.random.Generator) -> tuple[Ints, Array]:
        matrix = self.matrix
        members = [np.flatnonzero(row) for row in matrix]
        # One row per unknown and per sum: the numbers of one unknown in all draws lie side by side.
        most = np.where(matrix > 0, self.sums[:, None], np.iinfo(np.int64).max).min(axis=0)
        low, high = np.zeros((matrix.shape[1], size), dtype=np.int64), np.repeat(most[:, None], size, axis=1)
        remaining = np.repeat(self.sums[:, None], size, axis=1)
        log_chance = np.zeros(size)
        balance = _total_of(matrix, self.sums)
        waiting = list(range(len(matrix)))
        for place, cell in enumerate([*self.order, -1]):
            alive = _tighten_bounds(low, high, matrix, members, self.sums, waiting)
            if not alive.all():
                low, high, remaining, log_chance = low[:, alive], high[:, alive], remaining[:, alive], log_chance[alive]
            if cell < 0 or low.shape[1] == 0:
                break
            mine = np.flatnonzero(matrix[:, cell])
            x = low[cell].copy()
            if np.any(high[cell] > x):
                score = self._log_weight_tables(cell, list(self.order[place + 1 :]), balance)
                x, log_q = _draw_one_unknown(low[cell], high[cell], remaining, score, rng)
                log_chance += log_q
                low[cell] = high[cell] = x
            remaining[mine] -= x
            waiting = mine.tolist()
        return low.T, log_chance

    def _log_weight_tables(self, cell: int, later: list[int], balance: tuple[Array, int] | None) -> _Scores:
        """Tables of log weights by what remains: of the unknown, of its sums, and of the grand total."""
        mine = np.flatnonzero(self.matrix[:, cell])
        open_sums = {}
        for k in mine:
            a = float(self.concentration[[c for c in later if self.matrix[k, c]]].sum())
            if a > 0:
                open_sums[int(k)] = log_weight(np.arange(int(self.sums[k]) + 1), a)
        own = log_weight(np.arange(int(self.sums[mine].min()) + 1), float(self.concentration[cell]))
        rest = float(self.concentration[later].sum())
        if balance is None or rest <= 0 or len(open_sums) < 2:
            return _Scores(own, open_sums, None, None, 0)
        grand = log_weight(np.arange(balance[1] + 1), rest)
        return _Scores(own, open_sums, balance[0], grand, len(open_sums) - 1)


def pilot_order(matrix: Ints, sums: Ints, concentration: Array, seed: int) -> list[int]:
    """An order that gives even importance weights, chosen among a few by small pilot runs.

    The order matters a great deal when sums are of very different sizes. The candidates fill one sum after the other,
    from the smallest or from the largest.
    """
    best, best_effective = list(range(matrix.shape[1])), -1.0
    for order in _candidate_orders(matrix, sums):
        pilot = ImportanceSample(matrix, sums, concentration, order, PILOT, seed)
        try:
            effective = pilot.effective_draws
        except UnsupportedError:
            # An order in which no table can be completed is the worst of the candidates.
            effective = 0.0
        if effective > best_effective:
            best, best_effective = order, effective
    return best


def _candidate_orders(matrix: Ints, sums: Ints) -> list[list[int]]:
    # Families of sums that share no unknown, such as all rows or all columns of a table.
    families: list[list[int]] = []
    for k in range(len(matrix)):
        for family in families:
            if not (matrix[family] & matrix[k]).any():
                family.append(k)
                break
        else:
            families.append([k])
    orders: dict[tuple[int, ...], None] = {}
    for family in families:
        others = [k for k in range(len(matrix)) if k not in family]
        # Which sum of the family an unknown is in, by size; unknowns in none come last.
        mine = np.where(matrix[family] > 0, sums[family][:, None], np.iinfo(np.int64).max).min(axis=0)
        rank = np.where(matrix[family] > 0, np.arange(len(family))[:, None], len(family)).min(axis=0)
        cross = (
            np.where(matrix[others] > 0, sums[others][:, None], 0).sum(axis=0) if others else np.zeros(matrix.shape[1])
        )
        for sign in (1, -1):
            for cross_sign in (1, -1):
                order = np.lexsort((cross_sign * cross, rank, sign * mine))
                orders[tuple(int(c) for c in order)] = None
    return [list(o) for o in orders]


@dataclass(frozen=True)
class _Scores:
    own: Array
    open_sums: dict[int, Array]
    combination: Array | None
    grand: Array | None
    times: int


def _draw_one_unknown(
    low: Ints, high: Ints, remaining: Ints, score: _Scores, rng: np.random.Generator
) -> tuple[Ints, Array]:
    """Draw one unknown in every draw by its scores, and give back the log chance of what was drawn."""
    width = int((high - low).max()) + 1
    x, log_q = np.empty(len(low), dtype=np.int64), np.empty(len(low))
    uniform = rng.random(len(low))
    step = max(1, CHUNK // width)
    for start in range(0, len(low), step):
        rows = slice(start, start + step)
        values = low[rows, None] + np.arange(width)
        inside = values <= high[rows, None]
        values = np.where(inside, values, low[rows, None])
        log_p = score.own[values]
        for k, table in score.open_sums.items():
            log_p = log_p + table[remaining[k, rows][:, None] - values]
        if score.grand is not None and score.combination is not None:
            total = np.rint(score.combination @ remaining[:, rows]).astype(np.int64)
            log_p = log_p - score.times * score.grand[total[:, None] - values]
        log_p = np.where(inside, log_p, -np.inf)
        p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        running = np.cumsum(p, axis=1)
        chosen = (running < uniform[rows, None] * running[:, -1:]).sum(axis=1)
        chosen = np.minimum(chosen, (high - low)[rows])
        index = np.arange(len(chosen))
        x[rows] = values[index, chosen]
        log_q[rows] = np.log(p[index, chosen] / running[:, -1])
    return x, log_q


def _tighten_bounds(
    low: Ints, high: Ints, matrix: Ints, members: list[Ints], sums: Ints, start: Iterable[int]
) -> NDArray[np.bool_]:
    """Narrow the bounds of every unknown, in place, until they agree with each other; False where they cannot.

    Only what follows from the sums in ``start`` is looked at.
    """
    waiting = dict.fromkeys(start)
    alive = np.ones(low.shape[1], dtype=bool)
    budget = 50 * len(matrix)
    while waiting and budget > 0:
        budget -= 1
        k = next(iter(waiting))
        del waiting[k]
        cells = members[k]
        lo, hi = low[cells], high[cells]
        new_hi = np.minimum(hi, sums[k] - lo.sum(axis=0) + lo)
        new_lo = np.maximum(lo, sums[k] - hi.sum(axis=0) + hi)
        moved = np.any(((new_hi != hi) | (new_lo != lo)) & alive, axis=1)
        if moved.any():
            low[cells[moved]], high[cells[moved]] = new_lo[moved], new_hi[moved]
            alive &= np.all(new_lo <= new_hi, axis=0)
            if not alive.any():
                break
            touched = np.flatnonzero(matrix[:, cells[moved]].any(axis=1))
            waiting.update(dict.fromkeys(o for o in touched.tolist() if o != k))
    return alive


def _total_of(matrix: Ints, sums: Ints) -> tuple[Array, int] | None:
    """How to combine the sums into the grand total of all unknowns, if they imply it."""
    weights, *_ = np.linalg.lstsq(matrix.T.astype(np.float64), np.ones(matrix.shape[1]), rcond=None)
    if np.abs(weights @ matrix - 1.0).max() > 1e-8:
        return None
    return np.asarray(weights, dtype=np.float64), int(np.rint(weights @ sums))
