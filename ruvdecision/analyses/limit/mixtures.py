"""The limit against an intruder who pays the squared error of a number: outputs that mix two files at most.

His uncertainty at an output is E t^2 - (E t)^2. For a given estimate of the scientist, the best law of the file is then
the least of a linear function plus a squared linear one over a simplex, and that lies on an edge: every output of some
optimal mechanism mixes at most two files. Mixtures come into a small programme (a row per file and one for the risk)
as columns when its prices say that they pay; when none pays, the programme's value is the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ...numerics.semidefinite import symmetric_root
from ...posteriors.base import as_weight_matrix
from ...protocols import Array, Ints
from .programme import TOLERANCE, BestMechanism, TwoUsers, solve_in_turn, solve_restricted_programme

ROUNDS = 400
PIECES = 8
MOST_INTERVALS = 400_000


class Mixtures:
    """Programme over mixtures of two files. Columns found for one bound serve the next."""

    certain = True

    def __init__(self, users: TwoUsers) -> None:
        self.users, intruder = users, users.intruder
        self.chance = intruder.chance
        weight = float(as_weight_matrix(intruder.user.loss.weights, ())[0, 0])
        law = intruder.joint / self.chance[:, None]
        centre = self.chance @ law @ intruder.values / self.chance.sum()
        gap = (intruder.values - centre) * np.sqrt(weight / users.units[0])
        self.mean, self.square = law @ gap, law @ gap**2
        self.laws = users.scientist.joint / self.chance[:, None]
        self.moments = self._scientist_moments()
        n = len(self.chance)
        self.first, self.second = np.triu_indices(n, 1)
        self.start = np.concatenate([np.eye(n), (self.chance / self.chance.sum())[None]])
        """Columns that always make the programme possible."""
        self.kept = self.start[:0]
        """Columns that nearly paid at the last bound."""
        self._chords: Array | None = None
        """The scientist's uncertainty at the ends of the first intervals of every pair."""

    @classmethod
    def is_applicable(cls, users: TwoUsers) -> bool:
        """Whether the intruder knows nothing and pays the squared error of a number, and every file may be for him."""
        intruder = users.intruder
        return (
            intruder.is_squared_loss
            and intruder.knowledge_count == intruder.values.ndim == 1
            and bool(np.all(intruder.chance > 0))
        )

    def solve_all(self, wanted: Sequence[float], on_progress: Callable[[float], None]) -> list[BestMechanism]:
        """The best mechanism for each uncertainty that the intruder is to keep."""
        return solve_in_turn(self.solve, wanted, on_progress)

    def solve(self, least: float) -> BestMechanism:
        """The best mechanism whose intruder keeps an uncertainty of at least ``least``."""
        unit_i, unit_s = self.users.units
        goal = least / unit_i
        if goal > 1.0 - 1e-9:
            columns, weights, bound = self._best_uninformative()
            return self._mechanism_of_columns(columns, weights, bound * unit_s, least)
        bound, columns = -np.inf, np.concatenate([self.start, self.kept])
        for _ in range(ROUNDS):
            cost, kept = self._scientist_uncertainty(columns), columns @ self.square - (columns @ self.mean) ** 2
            found = solve_restricted_programme(columns, cost, self.chance, kept, goal)
            price, lam = found.eqlin.marginals, max(0.0, -float(found.ineqlin.marginals[0]))
            fresh, lowest = self._price_mixtures(price, lam)
            bound = max(bound, float(found.fun) + min(lowest, 0.0))
            if found.fun - bound <= TOLERANCE or not len(fresh):
                break
            columns = np.concatenate([columns, fresh, self._merge_mixtures_of_pair(columns, found.x)])
        pays = cost - lam * kept - columns[: len(cost)] @ price < 0.02
        pays[: len(self.start)] = False
        self.kept = np.unique(np.round(columns[: len(cost)][pays], 12), axis=0)
        return self._mechanism_of_columns(columns[: len(cost)], found.x, bound * unit_s, least)

    def _merge_mixtures_of_pair(self, columns: Array, weights: Array) -> Array:
        """Mixtures of one pair that are in use together, put into one: the best share lies between them."""
        used = np.flatnonzero(weights > 1e-12)
        n = len(self.chance)
        two = used[(columns[used] > 0).sum(axis=1) == 2]
        if not len(two):
            return np.zeros((0, n))
        key = np.argmax(columns[two] > 0, axis=1) * n + (n - 1 - np.argmax(columns[two][:, ::-1] > 0, axis=1))
        _, place, count = np.unique(key, return_inverse=True, return_counts=True)
        sums = np.zeros((len(count), n))
        np.add.at(sums, place.reshape(-1), weights[two, None] * columns[two])
        sums = sums[count > 1]
        return np.asarray(sums / sums.sum(axis=1, keepdims=True))

    def _mechanism_of_columns(self, columns: Array, weights: Array, bound: float, least: float) -> BestMechanism:
        """The mechanism of the columns in use."""
        used = weights > 1e-13
        matrix = weights[used] * columns[used].T / self.chance[:, None]
        total = matrix.sum(axis=1, keepdims=True)
        # A file that is too improbable for the solver to see may give any output.
        matrix = np.where(total > 0, matrix / np.where(total > 0, total, 1.0), 1.0 / matrix.shape[1])
        found = self.users.mechanism(matrix, least, bound)
        return replace(found, bound=min(bound, found.scientist))

    def words(self) -> str:
        return "outputs that mix at most two files, found by column generation"

    # -- columns -----------------------------------------------------------------------------------------

    def _scientist_moments(self) -> tuple[Array, Array] | None:
        """The scientist's E|t|^2 and E t of every file, if she pays the squared error by the same chances."""
        scientist = self.users.scientist
        if (
            not scientist.is_squared_loss
            or scientist.knowledge_count > 1
            or not np.allclose(self.laws.sum(axis=1), 1.0, rtol=0, atol=1e-12)
        ):
            return None
        points = scientist.values.reshape(len(scientist.values), -1)
        points = points - self.chance @ self.laws @ points
        weights = np.atleast_2d(as_weight_matrix(scientist.user.loss.weights, scientist.values.shape[1:]))
        points = points @ symmetric_root(weights / self.users.units[1])
        return self.laws @ np.sum(points**2, axis=1), self.laws @ points

    def _scientist_uncertainty(self, columns: Array) -> Array:
        if self.moments is not None:
            return np.asarray(columns @ self.moments[0] - np.sum((columns @ self.moments[1]) ** 2, axis=1))
        return self.users.scientist.uncertainty_contributions(columns @ self.laws) / self.users.units[1]

    def _best_uninformative(self) -> tuple[Array, Array, float]:
        """The best mechanism that tells the intruder nothing: every output leaves his mean where it was.

        Then an output is a file that does so by itself, or a pair on both sides with one share: finitely many.
        """
        x, y = self.first, self.second
        room = 1e-9 * max(1e-300, float(np.abs(self.mean).max()))
        near = np.abs(self.mean) <= room
        across = (self.mean[x] * self.mean[y] < 0) & ~near[x] & ~near[y]
        share = self.mean[y[across]] / (self.mean[y[across]] - self.mean[x[across]])
        columns = np.concatenate([self._mixture_columns(np.flatnonzero(across), share), self.start[np.r_[near, True]]])
        cost = self._scientist_uncertainty(columns)
        found = solve_restricted_programme(columns, cost, self.chance)
        return columns, found.x, float(found.fun)

    # -- prices ------------------------------------------------------------------------------------------

    def _price_mixtures(self, price: Array, lam: float) -> tuple[Array, float]:
        """Mixtures that pay, and a bound from below on what the best of all mixtures pays."""
        x, y = self.first, self.second
        if not len(x):
            return np.zeros((0, len(self.chance))), 0.0
        # Along a pair, all is quadratic in the share of the first file but for the scientist's part.
        own = -lam * self.square - price
        step = self.mean[x] - self.mean[y]
        a = lam * step**2
        b = own[x] - own[y] + 2 * lam * self.mean[y] * step
        c = own[y] + lam * self.mean[y] ** 2
        if self.moments is not None:
            square, centre = self.moments
            across = centre[x] - centre[y]
            a = a - np.sum(across**2, axis=1)
            b = b + square[x] - square[y] - 2 * np.sum(centre[y] * across, axis=1)
            c = c + square[y] - np.sum(centre[y] ** 2, axis=1)
            share, value = _minimum_of_parabola(a, b, c, np.zeros(len(a)), np.ones(len(a)))
            return self._best_mixtures_per_file(np.arange(len(a)), share, value), float(value.min())
        return self._branch_and_bound(a, b, c)

    def _branch_and_bound(self, a: Array, b: Array, c: Array) -> tuple[Array, float]:
        """Branch and bound over intervals of the share: the chord of the scientist's concave part lies below it.

        All intervals that may still pay are cut in two: a search for the least value, not for a root of `numerics/`.
        """
        edges = np.linspace(0.0, 1.0, PIECES + 1)
        if self._chords is None:
            pairs = np.repeat(np.arange(len(a)), PIECES + 1)
            self._chords = self._scientist_at_shares(pairs, np.tile(edges, len(a))).reshape(len(a), -1)
        pair = np.repeat(np.arange(len(a)), PIECES)
        low, high = np.tile(edges[:-1], len(a)), np.tile(edges[1:], len(a))
        at_low, at_high = self._chords[:, :-1].reshape(-1), self._chords[:, 1:].reshape(-1)
        done = 0.0
        for _ in range(60):
            slope = (at_high - at_low) / (high - low)
            share, value = _minimum_of_parabola(a[pair], b[pair] + slope, c[pair] + at_low - slope * low, low, high)
            open_ = value < -0.2 * TOLERANCE
            if not open_.any():
                return np.zeros((0, len(self.chance))), min(done, float(value.min()))
            # The rest of the intervals hold nothing that pays.
            pair = pair[open_]
            low, high, at_low, at_high, share, value = (v[open_] for v in (low, high, at_low, at_high, share, value))
            here = self._scientist_at_shares(pair, share)
            real = here + (a[pair] * share + b[pair]) * share + c[pair]
            if real.min() < -0.2 * TOLERANCE and real.min() < 0.5 * value.min():
                return self._best_mixtures_per_file(pair, share, real), min(done, float(value.min()))
            tiny = (high - low) < 1e-9
            done = min(done, float(value[tiny].min(initial=0.0)))
            inside = (share - low > 1e-3 * (high - low)) & (high - share > 1e-3 * (high - low))
            middle = np.where(inside, share, (low + high) / 2)
            level = np.where(inside, here, 0.0)
            level[~inside] = self._scientist_at_shares(pair[~inside], middle[~inside])
            go = ~tiny
            pair = np.concatenate([pair[go], pair[go]])
            low, high = np.concatenate([low[go], middle[go]]), np.concatenate([middle[go], high[go]])
            at_low, at_high = np.concatenate([at_low[go], level[go]]), np.concatenate([level[go], at_high[go]])
            if len(pair) > MOST_INTERVALS or not len(pair):
                break
        if not len(pair):
            return np.zeros((0, len(self.chance))), done
        slope = (at_high - at_low) / (high - low)
        share, value = _minimum_of_parabola(a[pair], b[pair] + slope, c[pair] + at_low - slope * low, low, high)
        return np.zeros((0, len(self.chance))), min(done, float(value.min()))

    def _scientist_at_shares(self, pair: Ints, share: Array) -> Array:
        """The scientist's uncertainty at mixtures of pairs, in her units."""
        laws = share[:, None] * self.laws[self.first[pair]] + (1.0 - share)[:, None] * self.laws[self.second[pair]]
        return self.users.scientist.uncertainty_contributions(laws) / self.users.units[1]

    def _best_mixtures_per_file(self, pair: Ints, share: Array, value: Array) -> Array:
        """The mixtures that pay most, a few for every file."""
        order = np.argsort(value)[: 20 * len(self.chance)]
        order = order[value[order] < -0.2 * TOLERANCE]
        count = np.zeros(len(self.chance), dtype=np.int64)
        picked = []
        for i in order:
            ends = [self.first[pair[i]], self.second[pair[i]]]
            if count[ends].min() < 3:
                count[ends] += 1
                picked.append(i)
        return self._mixture_columns(pair[picked], share[picked])

    def _mixture_columns(self, pair: Ints, share: Array) -> Array:
        """Mixtures of pairs as columns."""
        columns, at = np.zeros((len(pair), len(self.chance))), np.arange(len(pair))
        columns[at, self.first[pair]], columns[at, self.second[pair]] = share, 1.0 - share
        return columns


def _minimum_of_parabola(a: Array, b: Array, c: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Where a x^2 + b x + c is least on [low, high], and how much that is."""
    bottom = np.clip(-b / (2 * np.where(a > 0, a, 1.0)), low, high)
    ends = np.where((a * low + b) * low <= (a * high + b) * high, low, high)
    at = np.where(a > 0, bottom, ends)
    return at, (a * at + b) * at + c
