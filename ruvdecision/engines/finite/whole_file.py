"""What a whole file of categories can be, its chance, and the uncertainty after a mechanism that reads all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from ...beliefs.finite import FiniteBelief
from ...channels.file_matrix import FileMatrix
from ...channels.finite import FiniteChannel
from ...checks import check_integer
from ...errors import InputError, UnsupportedError
from ...masks.base import Mask
from ...masks.frame import Frame
from ...numerics.counts import compositions
from ...posteriors import Finite
from ...protocols import Array, Ints, Posterior, Solution
from ...users.user import User
from ..base import ORDER, BaseEngine, Missing, Plan, Problem, Question, Refusal, needs_release
from .enumeration import Enumeration, uncertainty_of
from .target_table import TargetLaw, outcome_codes, target_table


@dataclass(frozen=True, eq=False)
class PossibleFiles:
    """Every file that a finite belief allows, up to the order of the rows that nobody names.

    ``codes[x, j]`` is the outcome of the j-th followed row, ``counts[x, i]`` how many other records have outcome i,
    ``chance[s, x]`` the chance of the file in state s. They are numbered as in `FileMatrix`.
    """

    rows: tuple[int, ...]
    codes: Ints
    counts: Ints
    chance: Array

    @classmethod
    def of(cls, belief: FiniteBelief, rows: Sequence[int], limit: int) -> PossibleFiles:
        """List the files; refuse if there are more than ``limit``."""
        n, size = belief.records, len(belief.levels)
        rows = tuple(sorted(set(rows)))
        others = n - len(rows)
        found = size ** len(rows) * comb(others + size - 1, size - 1)
        if found > limit:
            what = f"{n} records with {size} outcomes make {found:,} different files"
            raise UnsupportedError(what, f"a limit of {limit:,}", "Use fewer records or outcomes")
        counted = compositions(others, size)
        codes = np.indices((size,) * len(rows)).reshape(len(rows), size ** len(rows)).T
        codes = np.repeat(codes, len(counted), axis=0).astype(np.int64)
        counts = np.tile(counted, (size ** len(rows), 1))
        with np.errstate(divide="ignore"):
            log_law = np.log(belief.law)
        ways = gammaln(others + 1.0) - gammaln(counts + 1.0).sum(axis=1)
        logs = np.zeros((len(belief.states), len(counts)))
        for s, law in enumerate(log_law):
            # An outcome that cannot be, and that nobody has, costs nothing: 0 times minus infinity is 0 here.
            each = np.where(counts > 0, counts * np.where(counts > 0, law, 0.0), 0.0)
            logs[s] = ways + each.sum(axis=1) + law[codes].sum(axis=1)
        return cls(rows, codes, counts, np.exp(logs))

    @property
    def outcome_counts(self) -> Ints:
        """How many records of each file have each outcome."""
        totals = self.counts.copy()
        for column in self.codes.T:
            np.add.at(totals, (np.arange(len(totals)), column), 1)
        return totals

    def index_in(self, mask: FileMatrix) -> Ints:
        """The matrix row of every file in a mechanism that follows some of the same rows."""
        where = [self.rows.index(r) for r in mask.followed]
        counts = self.counts.copy()
        for j in range(len(self.rows)):
            if j not in where:
                np.add.at(counts, (np.arange(len(counts)), self.codes[:, j]), 1)
        return mask.index(self.codes[:, where], counts)


def joint_with_files(belief: FiniteBelief, table: TargetLaw, files: PossibleFiles) -> Array:
    """Chance of every file (rows) together with every value of the target (columns)."""
    weight = belief.prior[:, None] * files.chance
    joint = np.zeros((len(files.counts), len(table.values)))
    if table.counted:
        place = {tuple(c): i for i, c in enumerate(table.counts.tolist())}
        column = [place[c] for c in map(tuple, files.outcome_counts.tolist())]
        joint[np.arange(len(joint)), column] = weight.sum(axis=0)
        return joint
    pick = np.zeros(len(joint), dtype=np.int64)
    for row in table.rows:
        pick = pick * len(belief.levels) + files.codes[:, files.rows.index(row)]
    for s in range(len(weight)):
        joint += weight[s][:, None] * table.weights[s][pick].toarray()
    return joint


def file_matrix(belief: FiniteBelief, mask: Mask) -> FileMatrix | None:
    """The matrix over whole files that a mask is, None if it is something else."""
    if len(mask.parts) > 1:
        return None
    steps = mask.steps(FiniteChannel.file_facts(belief), np.array([mask.numbers], dtype=np.float64))
    return steps[0] if len(steps) == 1 and isinstance(steps[0], FileMatrix) else None


class _Built(NamedTuple):
    """The matrix, chances and values of each mask that is one, by its identity, and the plan for the other masks."""

    joints: dict[int, tuple[FileMatrix, Array, Array]]
    rest: Plan | None


@dataclass(frozen=True)
class WholeFile(BaseEngine):
    """Enumeration that also inverts a `Mechanism`, which looks at the whole file.

    Every other mask goes to `Enumeration`.

    Without data U is the expected one over all files, which is exact. With data it is the average over the outputs that
    the mechanism can give for them.

    Parameters
    ----------
    limit : int
        Most kinds of files to list.
    """

    limit: int = 200_000
    name = "enumeration"
    beliefs = (FiniteBelief,)
    stands_in = True
    companions = ORDER[Question.POSTERIOR]

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", check_integer("limit", self.limit, low=1))

    def prepare(self, problem: Problem) -> _Built | Refusal:
        user, belief = problem.user, problem.user.belief
        found = {id(mask): file_matrix(belief, mask) for mask in problem.masks}
        joints = {
            key: (matrix, *self._joint_with_target(user, matrix)) for key, matrix in found.items() if matrix is not None
        }
        if not joints:
            return Refusal("WholeFile needs a mask that looks at the whole file", "Use engine='auto'", Missing.USER)
        rest = problem.for_masks([i for i, mask in enumerate(problem.masks) if id(mask) not in joints])
        inner = Enumeration().plan(rest) if rest.masks else None
        return inner if isinstance(inner, Refusal) else _Built(joints, inner)

    def run(self, problem: Problem, built: _Built) -> list[Solution]:
        user, masks, data = problem.user, problem.masks, problem.data
        value, error = np.empty(len(masks)), np.zeros(len(masks))
        names = [self.name] * len(masks)
        rest = [i for i, mask in enumerate(masks) if id(mask) not in built.joints]
        if rest:
            assert built.rest is not None
            # The channels of the rest are those that were built, whichever of the masks these are.
            part = replace(built.rest, problem=problem.for_masks(rest)).run(on_progress=problem.progress)[0]
            value[rest], error[rest] = part.uncertainty, part.error
            for i, name in zip(rest, part.engine, strict=True):
                names[i] = name
        codes = None if data is None else outcome_codes(user.belief, data)
        before = np.nan
        for i, candidate in enumerate(masks):
            if id(candidate) in built.joints:
                mask, joint, values = built.joints[id(candidate)]
                before = float(uncertainty_of(user, values, joint.sum(axis=0, keepdims=True)).value[0])
                chance = joint.sum(axis=1)
                weights = chance if codes is None else mask.matrix[mask.index_of(codes)]
                live = weights > 0
                if np.any(chance[live] <= 0):
                    what = "The records cannot come from this belief"
                    raise InputError(what, "probability zero", "Check the data, or the prior")
                each = uncertainty_of(user, values, joint[live] / chance[live, None])
                value[i], error[i] = each.averaged(weights[live])
        if np.isnan(before):
            before = part.before
        return [Solution(value, error, float(before), names, averaged=bool(rest) and part.averaged)]

    def posterior(self, user: User, mask: Mask, release: object = None) -> Posterior:
        """Posterior of the target after one release."""
        matrix = file_matrix(user.belief, mask)
        if matrix is None:
            return Enumeration().posterior(user, mask, release)
        joint, values = self._joint_with_target(user, matrix)
        if release is None:
            raise needs_release(mask)
        row = joint[matrix.read(Frame.of(release).table.iloc[0].to_numpy())]
        if row.sum() <= 0:
            what = "The release cannot come from this belief and mask"
            raise InputError(what, "probability zero", "Check the release")
        return Finite(values, row / row.sum())

    def _joint_with_target(self, user: User, matrix: FileMatrix) -> tuple[Array, Array]:
        """Chance of every output together with the target's values, and those values."""
        belief = user.belief
        if matrix.records != belief.records or matrix.outcomes != len(belief.levels):
            what = f"The mechanism was made for {matrix.records} records with {matrix.outcomes} outcomes"
            got = f"a belief with {belief.records} and {len(belief.levels)}"
            raise UnsupportedError(what, got, "Make a mechanism for this belief with ruv.limit")
        table = target_table(belief, user.target, Enumeration().limit)
        files = PossibleFiles.of(belief, [*table.rows, *matrix.followed], self.limit)
        return matrix.matrix[files.index_in(matrix)].T @ joint_with_files(belief, table, files), table.values
