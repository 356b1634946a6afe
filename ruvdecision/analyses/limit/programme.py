"""The linear programme behind the limit: the best mechanism under a bound on the intruder's uncertainty.

A mechanism is a matrix C, files by outputs. With outputs labelled by the scientist's estimate b,

    minimise   sum C[x, b] S[x, b] subject to sum over b of C[x, b] = 1,   sum of v[b] >= u,   v[b] <= sum over x of
    C[x, b] I[x, a]  for every estimate a,

where S[x, b] is the scientist's expected loss of b together with the file x, and I[x, a] the intruder's of a. The
intruder's uncertainty at an output is the least of the right-hand sides: concave in C, so the bound stays linear. His
estimates are added when they are needed, and so are the scientist's where they form a continuum: each solution of
the programme is a bound for every mechanism, and each matrix found a mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, linprog
from scipy.sparse import coo_array, csc_array, csr_array

from ...errors import RuvError
from ...masks.base import Mask
from ...protocols import Array, Ints
from .estimates import UserOverFiles, estimates_for

ROUNDS = 150
FEW = 12
"""Rounds when both users choose from a continuum: the bound then closes slowly, and `gap` says how far it came."""
MOST_LABELS = 600
MOST_WORK = 1_000_000_000
"""Steps of the solver times unknowns that the search at one risk bound may take; `gap` says how far it came."""
MOST_WORK_FOR_ALL = 2 * MOST_WORK
"""The same for all risk bounds together; what is found for some then serves the others."""
FIRST = 4
"""One part in so many of that work goes to each bound alike, the rest to those that are farthest from their bound."""
GROWTH = 3
"""How much more work a programme is after its cells were split."""
MOST_WORK_AT_ONCE = 20 * MOST_WORK
"""Steps times unknowns of a single programme, without whose end there is no bound at all."""
TOLERANCE = 2e-9
"""Largest gap between bound and mechanism, as a share of the uncertainty before the release."""
SLACK = 1e-10
"""The bound on the intruder is loosened by this share of his uncertainty, so that rounding cannot break it."""
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
TRIES: tuple[tuple[str, dict[str, float]], ...] = (
    ("highs", TIGHT),
    ("highs-ds", {**TIGHT, "presolve": False}),
    ("highs-ipm", TIGHT),
    ("highs", {}),
    ("highs-ds", {"presolve": False}),
)


@dataclass(frozen=True, eq=False)
class TwoUsers:
    """Both users of one file."""

    intruder: UserOverFiles
    scientist: UserOverFiles

    def merge_equal_files(self) -> tuple[TwoUsers, Ints]:
        """The users with files put together that tell both the same, and which class each file is in.

        A mechanism gains nothing by treating such files differently.
        """
        total = self.scientist.chance + self.intruder.chance
        live = (self.scientist.chance > 0) | (self.intruder.chance > 0)
        both = np.column_stack([self.intruder.joint, self.scientist.joint])
        key = np.round(both / np.where(total > 0, total, 1.0)[:, None], 12) + 0.0
        _, place = np.unique(key[live], axis=0, return_inverse=True)
        group = np.zeros(len(live), dtype=np.int64)  # files that cannot be go with the first class
        group[live] = place.reshape(-1)
        size = int(group.max()) + 1
        sums = csr_array((live.astype(float), (group, np.arange(len(group)))), shape=(size, len(group)))
        return TwoUsers(*(replace(u, joint=sums @ u.joint) for u in (self.intruder, self.scientist))), group

    def uncertainty(self, matrix: Array) -> tuple[float, float]:
        """Expected uncertainties of the intruder and the scientist after a mechanism."""
        return float(self.intruder.uncertainty_of_outputs(matrix.T).sum()), float(
            self.scientist.uncertainty_of_outputs(matrix.T).sum()
        )

    @cached_property
    def before(self) -> tuple[float, float]:
        """Uncertainties when nothing is released."""
        return self.uncertainty(np.ones((len(self.intruder.joint), 1)))

    @property
    def after(self) -> tuple[float, float]:
        """Uncertainties when the file itself is released."""
        return self.uncertainty(np.eye(len(self.intruder.joint)))

    @property
    def units(self) -> tuple[float, float]:
        """Losses count in units of their size before the release, so that the solver's tolerances mean something."""
        first, second = (before if before > 0 else 1.0 for before in self.before)
        return first, second

    def mechanism(self, matrix: Array, least: float, bound: float) -> BestMechanism:
        """A mechanism that keeps the intruder's bound ``least``.

        Where the programme claimed too much, or rounding broke the bound, it releases nothing with some chance: both
        uncertainties move in proportion.
        """
        intruder, scientist = self.uncertainty(matrix)
        if least - intruder > 10 * SLACK * self.units[0]:
            share = min(1.0, (least - intruder) / (self.before[0] - intruder) * (1.0 + 1e-12))
            matrix = np.column_stack([(1.0 - share) * matrix, np.full(len(matrix), share)])
            intruder, scientist = self.uncertainty(matrix)
        return BestMechanism(bound, matrix, intruder, scientist)


@dataclass(frozen=True, eq=False)
class BestMechanism:
    """The best mechanism under one risk bound, and both users' uncertainty after it."""

    bound: float
    """The scientist's uncertainty that no mechanism goes below."""
    matrix: Array
    intruder: float
    scientist: float
    mask: Mask | None = None


def solve_in_turn(
    solve: Callable[[float], BestMechanism], wanted: Sequence[float], on_progress: Callable[[float], None]
) -> list[BestMechanism]:
    """Each on its own."""
    found = []
    for least in wanted:
        found.append(solve(least))
        on_progress(len(found) / len(wanted))
    return found


class Programme:
    """The programme of two users. What one bound on the intruder teaches (cells and cuts) serves the next."""

    def __init__(self, users: TwoUsers) -> None:
        self.users = users
        self.labels = estimates_for(users.scientist)
        nothing = self._losses_by_file(users.intruder.joint.sum(axis=0))
        self.cuts: list[list[Array]] = [[nothing] for _ in range(len(self.labels))]
        self.columns = self._plain_columns()
        """Columns of mechanisms that were found, to mix the best mechanism from."""
        self.rounds = 3 * FEW if users.intruder.lists_estimates else FEW
        if (users.intruder.lists_estimates and self.labels.quick) or (
            users.scientist.lists_estimates and len(self.labels) <= 60
        ):
            self.rounds = ROUNDS
        self.work, self.most = 0, MOST_WORK
        """Steps times unknowns that the search has taken at this risk bound, and may take."""
        self.ended_early = 0
        """Risk bounds at which the search ended for its work."""
        self.least = users.after[1]
        """The scientist's uncertainty when the file itself is released."""
        self.lines: list[tuple[float, float, float]] = []
        """A goal, the programme's value there and its slope: the value is convex in the goal, so that the line through
        it is below the scientist's uncertainty at every other goal, too."""

    def solve_all(self, wanted: Sequence[float], on_progress: Callable[[float], None]) -> list[BestMechanism]:
        """The best mechanism for each uncertainty that the intruder is to keep, with a limit to the work of all."""
        if len(wanted) <= 1:
            return solve_in_turn(self.solve, wanted, on_progress)
        found: list[BestMechanism] = []
        left, small = MOST_WORK_FOR_ALL, TOLERANCE * self.users.units[1]
        for i, least in enumerate(wanted):
            # From loose bounds to tight ones: what a bound teaches serves its neighbour.
            if left > 0:
                self.most = min(MOST_WORK, left // (FIRST * (len(wanted) - i)))
                found.append(self.solve(least))
                left -= self.work
            else:
                self.ended_early += 1
                found.append(self.users.mechanism(np.ones((len(self.users.intruder.joint), 1)), least, -np.inf))
            on_progress((i + 1) / (len(wanted) + 1))
        if not self.ended_early:
            return found
        again = set(range(len(wanted)))
        while True:
            # Then where bound and mechanism are farthest apart, one after the other.
            used = [one.matrix.T[one.matrix.max(axis=0) > 1e-12] for one in found]
            outputs = self._priced(
                np.concatenate([self._plain_columns(), *(c / c.max(axis=1, keepdims=True) for c in used)])
            )
            found = [self._share(best, least, outputs) for best, least in zip(found, wanted, strict=True)]
            gaps = [best.scientist - best.bound for best in found]
            worst = max(again, key=gaps.__getitem__, default=0)
            if left <= 0 or worst not in again or gaps[worst] <= small:
                self.ended_early = sum(gap > small for gap in gaps)
                return found
            again.discard(worst)
            self.most = min(MOST_WORK, left // 2 + 1)
            better = self.solve(wanted[worst])
            left -= self.work
            bound = max(better.bound, found[worst].bound)
            found[worst] = replace(_better_for_scientist(found[worst], better), bound=bound)

    def _share(self, best: BestMechanism, least: float, outputs: MechanismOutputs) -> BestMechanism:
        """The mechanism and the bound with what was found at all other risk bounds."""
        goal, unit = least / self.users.units[0], self.users.units[1]
        if best.scientist - best.bound <= TOLERANCE * unit:
            return best
        bound = max(best.bound, self._bound_of_lines(goal)) if self.certain else best.bound
        best = _better_for_scientist(best, self.users.mechanism(outputs.mix(goal)[0], least, bound))
        return replace(best, bound=min(bound, best.scientist) if self.certain else best.scientist)

    def _bound_of_lines(self, goal: float) -> float:
        """What the file itself, and the programmes that were solved at other goals, say of this one."""
        lines = (value + slope * (goal - at) for at, value, slope in self.lines)
        return max(max(lines, default=0.0) * self.users.units[1], self.least)

    def _plain_columns(self) -> Array:
        """The file itself, and nothing."""
        files = len(self.users.intruder.joint)
        return np.concatenate([np.eye(files), np.ones((1, files))])

    def solve(self, least: float) -> BestMechanism:
        """The best mechanism whose intruder keeps an uncertainty of at least ``least``."""
        users, (unit_i, unit_s) = self.users, self.users.units
        goal = least / unit_i
        best: BestMechanism | None = None
        bound = self._bound_of_lines(goal) if self.certain else -np.inf
        self.work = 0
        for _ in range(self.rounds):
            before = self.work
            value, matrix, claimed = self._solve_for_goal(goal)
            last = self.work - before
            bound = max(bound, value * unit_s) if self.certain else value * unit_s
            used = np.flatnonzero(matrix.sum(axis=0) > 1e-12)
            columns = matrix[:, used].T
            best = _better_for_scientist(best, users.mechanism(columns.T, least, bound))
            if best.scientist - bound <= TOLERANCE * unit_s:
                break
            self.columns = np.concatenate([self.columns, columns / columns.max(axis=1, keepdims=True)])
            if self.work + last > self.most:
                self.ended_early += 1
                break
            may_split = self.work + GROWTH * last <= self.most
            if not self._refine_claimed_uncertainties(used, columns, claimed[used], may_split):
                self.ended_early += not may_split
                break
        assert best is not None
        if best.scientist - bound > TOLERANCE * unit_s:
            best = _better_for_scientist(best, users.mechanism(self._best_mix_of_columns(goal), least, bound))
        return replace(best, bound=min(bound, best.scientist) if self.certain else best.scientist)

    def _refine_claimed_uncertainties(self, used: Ints, columns: Array, claimed: Array, may_split: bool) -> bool:
        """Compare both users' uncertainty at each output in use with what the programme claims, and cut where it errs.

        Says whether there was anything to cut, or to split where that is allowed.
        """
        joint_i, joint_s = columns @ self.users.intruder.joint, columns @ self.users.scientist.joint
        unit_i, unit_s = self.users.units
        over = claimed - self.users.intruder.uncertainty_contributions(joint_i) / unit_i
        thought = np.sum(joint_s * self.labels.costs[used], axis=1) / unit_s
        gap = self.users.scientist.uncertainty_contributions(joint_s) / unit_s - thought
        room = TOLERANCE / (4 * len(used))
        wrong = ((gap > room) | (not self.certain) & (gap < -room)) & (joint_s.sum(axis=1) > 0)
        changed = False
        for i, b in enumerate(used):
            if over[i] > room:
                self.cuts[b].append(self._losses_by_file(joint_i[i]))
                changed = True
            if may_split and wrong[i] and len(self.labels) < MOST_LABELS and self.labels.split(int(b), joint_s[i]):
                self.cuts.append(list(self.cuts[b]))
                changed = True
        return changed

    @property
    def certain(self) -> bool:
        """Whether its bound is proved."""
        return self.labels.certain

    def words(self) -> str:
        words = f"{len(self.labels):,} {self.labels.what}"
        if self.ended_early:
            words += f"; at {self.ended_early} of the risk bounds the search ended for its length "
            words += f"({MOST_WORK:,} steps times unknowns), or for that of all bounds ({MOST_WORK_FOR_ALL:,}), "
            words += "and gap says what is left"
        return words

    # -- the programme -----------------------------------------------------------------------------------

    def _losses_by_file(self, law: Array) -> Array:
        """The intruder's expected loss with each file, of his best estimate under this law."""
        intruder = self.users.intruder
        return np.asarray(intruder.joint @ intruder.cost(intruder.best(law)))

    def _solve_for_goal(self, goal: float) -> tuple[float, Array, Array]:
        """Value, matrix and the intruder's uncertainty at each label as the programme knows it, in units."""
        x, b = len(self.users.intruder.joint), len(self.labels)
        unit_i, unit_s = self.users.units
        cost = (self.users.scientist.joint @ self.labels.costs.T / unit_s).T.reshape(-1)
        objective = np.concatenate([cost, np.zeros(b)])
        of = np.repeat(np.arange(b), [len(c) for c in self.cuts])
        cuts = np.concatenate([np.array(c) for c in self.cuts]) / unit_i
        count = len(cuts)
        rows = [np.repeat(np.arange(count), x), np.arange(count), np.full(b, count)]
        columns = [(of[:, None] * x + np.arange(x)).reshape(-1), b * x + of, b * x + np.arange(b)]
        entries = [-cuts.reshape(-1), np.ones(count), -np.ones(b)]
        right = np.zeros(count + 1)
        right[count] = -goal + SLACK
        for label in range(b):
            cone = self.labels.conditions_on_law(label)
            if cone is not None:
                block = -(cone @ self.users.scientist.joint.T)
                first = len(right)
                rows.append(np.repeat(np.arange(first, first + len(block)), x))
                columns.append(np.tile(label * x + np.arange(x), len(block)))
                entries.append(block.reshape(-1))
                right = np.concatenate([right, np.zeros(len(block))])
        data, where = np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))
        keep = data != 0
        shape = (len(right), b * x + b)
        upper = coo_array((data[keep], (where[0][keep], where[1][keep])), shape=shape).tocsr()
        equal = coo_array((np.ones(b * x), (np.tile(np.arange(x), b), np.arange(b * x))), shape=(x, b * x + b)).tocsr()
        # Not bounded by one: the rows sum to one already, and fewer bounds are less work.
        bounds = np.column_stack([np.r_[np.zeros(b * x), np.full(b, -np.inf)], np.full(b * x + b, np.inf)])
        found = solve_programme(objective, A_ub=upper, b_ub=right, A_eq=equal, b_eq=np.ones(x), bounds=bounds)
        self.work += int(found.nit) * len(objective)
        self.lines.append((goal, float(found.fun), max(-float(found.ineqlin.marginals[count]), 0.0)))
        matrix = np.clip(found.x[: b * x].reshape(b, x).T, 0.0, None)
        return float(found.fun), matrix / matrix.sum(axis=1, keepdims=True), found.x[b * x :]

    def _best_mix_of_columns(self, goal: float) -> Array:
        """The best mechanism whose columns are multiples of those found so far; only those that it uses are kept."""
        matrix, used = self._priced(self.columns).mix(goal)
        self.columns = np.concatenate([self._plain_columns(), self.columns[used]])
        return matrix

    def _priced(self, columns: Array) -> MechanismOutputs:
        """Columns of mechanisms with both users' uncertainties, which are exact."""
        users = self.users
        return MechanismOutputs(
            columns,
            users.scientist.uncertainty_of_outputs(columns) / users.units[1],
            users.intruder.uncertainty_of_outputs(columns) / users.units[0],
        )


@dataclass(frozen=True, eq=False)
class MechanismOutputs:
    """Columns of mechanisms, and the uncertainty that each adds for the scientist and the intruder."""

    columns: Array
    cost: Array
    kept: Array

    def mix(self, goal: float) -> tuple[Array, NDArray[np.bool_]]:
        """The best mechanism of multiples of these columns, and which of them it uses."""
        chance = np.ones(self.columns.shape[1])
        weights = solve_restricted_programme(self.columns, self.cost, chance, self.kept, goal).x
        used = weights > 1e-13
        matrix = weights[used] * self.columns[used].T
        return np.asarray(matrix / matrix.sum(axis=1, keepdims=True)), used


def _better_for_scientist(first: BestMechanism | None, second: BestMechanism) -> BestMechanism:
    return second if first is None or second.scientist < first.scientist else first


def solve_restricted_programme(
    columns: Array, cost: Array, chance: Array, kept: Array | None = None, goal: float = 0.0
) -> OptimizeResult:
    """The cheapest weights of outputs that use up the chance of every file and keep the intruder's ``goal``, if any."""
    risk = {} if kept is None else {"A_ub": -kept[None], "b_ub": [-goal + SLACK]}
    found = solve_programme(cost, A_eq=csc_array(columns.T), b_eq=chance, bounds=(0, None), **risk)
    found.x = np.clip(found.x, 0.0, None)
    return found


def solve_programme(cost: Array, **parts: object) -> OptimizeResult:
    """The first solution that HiGHS finds, from tight tolerances, which rounding may defeat, to its usual ones."""
    do = "Ask for another risk bound, or fewer states"
    steps = min(max(MOST_WORK_AT_ONCE // len(cost), 1), 2**31 - 1)  # HiGHS counts in 32 bits
    for method, options in TRIES:
        found = linprog(cost, method=method, options={**options, "maxiter": steps}, **parts)
        if found.status == 0 and found.x is not None:
            return found
        if found.status == 1:
            raise RuvError("The linear programme of the limit takes too many steps", f"more than {steps:,}", do)
    raise RuvError("The linear programme of the limit has no solution", found.message, do)
