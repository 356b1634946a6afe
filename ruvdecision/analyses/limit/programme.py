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

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, linprog
from scipy.sparse import coo_array, csr_array

from ...errors import RuvError
from ...protocols import Array
from ...users.user import User
from .estimates import EstimateCells, cost_of_best, estimates_for, listed, uncertainties

ROUNDS = 150
FEW = 12
"""Rounds when both users choose from a continuum: the bound then closes slowly, and `gap` says how far it came."""
MOST_LABELS = 600
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
    """Two users and the chance of every file together with what each of them wants to know."""

    intruder: User
    scientist: User
    intruder_values: Array
    scientist_values: Array
    intruder_joint: Array
    """Chance of file (rows) and intruder's target value (columns), under his belief."""
    scientist_joint: Array

    def merged(self) -> tuple[TwoUsers, NDArray[np.int64]]:
        """The users with files put together that tell both the same, and which class each file is in.

        A mechanism gains nothing by treating such files differently.
        """
        chance = self.scientist_joint.sum(axis=1), self.intruder_joint.sum(axis=1)
        live = (chance[0] > 0) | (chance[1] > 0)
        total = np.where(chance[0] + chance[1] > 0, chance[0] + chance[1], 1.0)
        key = np.round(np.column_stack([self.intruder_joint, self.scientist_joint]) / total[:, None], 12) + 0.0
        _, place = np.unique(key[live], axis=0, return_inverse=True)
        group = np.zeros(len(live), dtype=np.int64)  # files that cannot be go with the first class
        group[live] = place.reshape(-1)
        size = int(group.max()) + 1
        sums = csr_array((live.astype(float), (group, np.arange(len(group)))), shape=(size, len(group)))
        joint = sums @ self.intruder_joint, sums @ self.scientist_joint
        return TwoUsers(self.intruder, self.scientist, self.intruder_values, self.scientist_values, *joint), group

    def uncertainty(self, matrix: Array) -> tuple[float, float]:
        """Expected uncertainties of the intruder and the scientist after a mechanism."""
        return (
            float(uncertainties(self.intruder, self.intruder_values, matrix.T @ self.intruder_joint).sum()),
            float(uncertainties(self.scientist, self.scientist_values, matrix.T @ self.scientist_joint).sum()),
        )

    @property
    def before(self) -> tuple[float, float]:
        """Uncertainties when nothing is released."""
        return self.uncertainty(np.ones((len(self.intruder_joint), 1)))

    @property
    def after(self) -> tuple[float, float]:
        """Uncertainties when the file itself is released."""
        return self.uncertainty(np.eye(len(self.intruder_joint)))


@dataclass(frozen=True, eq=False)
class Vertex:
    """An optimum: what no mechanism goes below, a mechanism, and both users' uncertainty after it."""

    bound: float
    matrix: Array
    intruder: float
    scientist: float


class Programme:
    """The programme of two users. What one bound on the intruder teaches (cells and cuts) serves the next."""

    def __init__(self, users: TwoUsers) -> None:
        self.users = users
        laws = users.scientist_joint / np.maximum(users.scientist_joint.sum(axis=1, keepdims=True), 1e-300)
        sure = users.scientist_joint.sum(axis=1) > 0
        self.labels: EstimateCells = estimates_for(users.scientist, users.scientist_values, laws[sure])
        self.before = users.before
        # Losses count in units of their size before the release, so that the solver's tolerances mean something.
        self.units = tuple(b if b > 0 else 1.0 for b in self.before)
        nothing = self._cut(users.intruder_joint.sum(axis=0))
        self.cuts: list[list[Array]] = [[nothing] for _ in range(len(self.labels))]
        self.columns = np.concatenate([np.eye(len(sure)), np.ones((1, len(sure)))])
        """Columns of mechanisms that were found, to mix the best mechanism from."""
        quick = listed(users.intruder) and self.labels.quick
        self.rounds = (
            ROUNDS
            if quick or (listed(users.scientist) and len(self.labels) <= 60)
            else 3 * FEW
            if listed(users.intruder)
            else FEW
        )
        self.solved = 0

    def solve(self, least: float) -> Vertex:
        """The best mechanism whose intruder keeps an uncertainty of at least ``least``."""
        users, (unit_i, unit_s) = self.users, self.units
        values_i, values_s = users.intruder_values, users.scientist_values
        goal = least / unit_i
        best: Vertex | None = None
        bound = -np.inf
        for _ in range(self.rounds):
            value, matrix, claimed = self._solve(goal)
            bound = max(bound, value * unit_s) if self.labels.certain else value * unit_s
            used = np.flatnonzero(matrix.sum(axis=0) > 1e-12)
            best = _better(best, self._repaired(matrix[:, used], least, bound))
            if best.scientist - bound <= TOLERANCE * unit_s:
                break
            self.columns = np.concatenate([self.columns, matrix[:, used].T / matrix[:, used].max(axis=0)[:, None]])
            # What both users' uncertainty at each output in use really is, to compare with what the programme claims.
            joint_i, joint_s = matrix[:, used].T @ users.intruder_joint, matrix[:, used].T @ users.scientist_joint
            real_i = uncertainties(users.intruder, values_i, joint_i) / unit_i
            real_s = uncertainties(users.scientist, values_s, joint_s) / unit_s
            thought = np.sum(joint_s * self.labels.costs[used], axis=1) / unit_s
            room = TOLERANCE / (4 * len(used))
            changed = False
            for i, b in enumerate(used):
                if claimed[b] - real_i[i] > room:
                    self.cuts[b].append(self._cut(joint_i[i]))
                    changed = True
                gap = real_s[i] - thought[i]
                if (
                    (gap > room or (not self.labels.certain and gap < -room))
                    and joint_s[i].sum() > 0
                    and len(self.labels) < MOST_LABELS
                ):
                    new = self.labels.split(int(b), joint_s[i])
                    for _ in new:
                        self.cuts.append(list(self.cuts[b]))
                    changed = changed or bool(new)
            if not changed:
                break
        assert best is not None
        if best.scientist - bound > TOLERANCE * unit_s:
            best = _better(best, self._repaired(self._mixed(goal), least, bound))
        scientist = best.scientist if not self.labels.certain else min(bound, best.scientist)
        return Vertex(scientist, best.matrix, best.intruder, best.scientist)

    @property
    def certain(self) -> bool:
        """Whether its bound is proved."""
        return self.labels.certain

    def words(self) -> str:
        return self.labels.words()

    # -- the programme -----------------------------------------------------------------------------------

    def _cut(self, law: Array) -> Array:
        """The intruder's expected loss with each file, of his best estimate under this law."""
        cost = cost_of_best(self.users.intruder, self.users.intruder_values, law / law.sum())
        return np.asarray(self.users.intruder_joint @ cost)

    def _solve(self, goal: float) -> tuple[float, Array, Array]:
        """Value, matrix and the intruder's uncertainty at each label as the programme knows it, in units."""
        x, b = len(self.users.intruder_joint), len(self.labels)
        unit_i, unit_s = self.units
        cost = (self.users.scientist_joint @ self.labels.costs.T / unit_s).T.reshape(-1)
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
            cone = self.labels.cone(label)
            if cone is not None:
                block = -(cone @ self.users.scientist_joint.T)
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
        self.solved += 1
        matrix = np.clip(found.x[: b * x].reshape(b, x).T, 0.0, None)
        return float(found.fun), matrix / matrix.sum(axis=1, keepdims=True), found.x[b * x :]

    def _mixed(self, goal: float) -> Array:
        """The best mechanism whose columns are multiples of those found so far; their uncertainties are exact."""
        columns, users = self.columns, self.users
        cost = uncertainties(users.scientist, users.scientist_values, columns @ users.scientist_joint) / self.units[1]
        kept = uncertainties(users.intruder, users.intruder_values, columns @ users.intruder_joint) / self.units[0]
        found = solve_programme(
            cost,
            A_ub=-kept[None],
            b_ub=[-goal + SLACK],
            A_eq=csr_array(columns.T),
            b_eq=np.ones(columns.shape[1]),
            bounds=(0, None),
        )
        weights = np.clip(found.x, 0.0, None)
        used = weights > 1e-13
        self.columns = np.concatenate([self.columns[: len(users.intruder_joint) + 1], columns[used]])
        matrix = weights[used] * columns[used].T
        return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))

    def _repaired(self, matrix: Array, least: float, bound: float) -> Vertex:
        """A mechanism that keeps the bound: it sometimes releases nothing if the programme claimed too much."""
        intruder, scientist = self.users.uncertainty(matrix)
        if least - intruder > 10 * SLACK * self.units[0]:
            matrix = diluted(matrix, (least - intruder) / (self.before[0] - intruder))
            intruder, scientist = self.users.uncertainty(matrix)
        return Vertex(bound, matrix, intruder, scientist)


def diluted(matrix: Array, share: float) -> Array:
    """The mechanism that releases nothing with chance ``share``: both uncertainties move in proportion."""
    share = min(1.0, share * (1.0 + 1e-12))
    return np.column_stack([(1.0 - share) * matrix, np.full(len(matrix), share)])


def _better(first: Vertex | None, second: Vertex) -> Vertex:
    return second if first is None or second.scientist < first.scientist else first


def solve_programme(cost: Array, **parts: Any) -> OptimizeResult:
    """The first solution that HiGHS finds, from tight tolerances, which rounding may defeat, to its usual ones."""
    for method, options in TRIES:
        found = linprog(cost, method=method, options=options, **parts)
        if found.status == 0 and found.x is not None:
            return found
    raise RuvError(
        "The linear programme of the limit has no solution",
        found.message,
        "Ask for another risk bound, or fewer states",
    )
