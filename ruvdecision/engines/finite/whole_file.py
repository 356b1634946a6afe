"""What a whole file of categories can be, its chance, and the uncertainty after masks that look at all of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import gammaln

from ...beliefs.finite import FiniteBelief
from ...channels.file_kernel import File, FileKernel, alike_rows, averages_rows
from ...channels.file_matrix import FileMatrix
from ...channels.finite import FiniteChannel, hashable_record
from ...channels.steps import Resolved, resolve
from ...checks import Data, check_integer
from ...errors import InputError, UnsupportedError
from ...masks.base import Mask
from ...masks.frame import Frame
from ...numerics.counts import compositions
from ...posteriors import Finite
from ...protocols import Array, Ints, Posterior, Solution
from ...users.user import User
from ..base import ORDER, BaseEngine, Evidence, MaskMixture, Missing, Plan, Problem, Question, Refusal, needs_release
from .enumeration import Enumeration, check_loss, uncertainty_of
from .law import FiniteLaw
from .tables import AVERAGED
from .target_table import TargetLaw, TargetTable, outcome_codes, sample_covariance, target_table


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

    def representatives(self, belief: FiniteBelief) -> list[File]:
        """One file of each kind, with the records that nobody names in the order of their outcomes."""
        codes = np.empty((len(self.counts), belief.records), dtype=np.int64)
        codes[:, list(self.rows)] = self.codes
        others = np.setdiff1d(np.arange(belief.records), self.rows)
        for file, counts in zip(codes, self.counts, strict=True):
            file[others] = np.repeat(np.arange(len(counts)), counts)
        records = [hashable_record(name) for name in belief.levels.names]
        return [tuple(records[code] for code in file) for file in codes.tolist()]

    def index_of(self, codes: Ints) -> int:
        """The number of one file, from the outcome of every record."""
        counts = np.bincount(np.delete(codes, list(self.rows)), minlength=self.counts.shape[1])
        same = (self.codes == codes[list(self.rows)]).all(axis=1) & (self.counts == counts).all(axis=1)
        return int(np.flatnonzero(same)[0])

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


@dataclass(frozen=True, eq=False)
class AveragedFile:
    """A mask that averages rows, for a user of a finite belief: his file is one record, which can be any whole file."""

    law: FiniteLaw
    kernel: FileKernel
    files: PossibleFiles

    @classmethod
    def of(cls, user: User, mask: Mask, found: Sequence[Resolved], limit: int) -> AveragedFile:
        """The law of a target and the releases of a mask with these steps; refused if there are too many files."""
        belief, most = user.belief, Enumeration().limit
        n, table = belief.records, target_table(belief, user.target, most)
        alike = alike_rows(found, n, table.rows).tolist()
        files = PossibleFiles.of(belief, [r for r in range(n) if r not in alike], limit)
        kernel = FileKernel.of(belief, files.representatives(belief), alike, found, mask.file_count)
        if kernel is None:
            files = PossibleFiles.of(belief, range(n), limit)
            kernel = FileKernel.of(belief, files.representatives(belief), (), found, mask.file_count)
            assert kernel is not None
        joint = joint_with_files(belief, table, files)
        chance = joint.sum(axis=1)
        given = csr_array(joint / np.where(chance > 0, chance, 1.0)[:, None])
        numbered = FiniteBelief([0], likelihood=[chance / chance.sum()], outcomes=np.arange(len(chance)))
        channel = FiniteChannel((kernel.kernel,), np.zeros(1, dtype=np.int64), 1)
        law = FiniteLaw(numbered, TargetTable((0,), table.values, (given,)), channel, most)
        return cls(law, kernel, files)

    def posterior(self, release: object) -> Posterior:
        """Posterior of the target after one release."""
        return Finite(self.law.table.values, self.law.posterior_probabilities(self.kernel.read(release)))


class _Built(NamedTuple):
    """What was built for each mask that looks at the whole file, by its identity, and the plan for the other masks."""

    joints: dict[int, tuple[FileMatrix, Array, Array]]
    averages: dict[int, AveragedFile]
    rest: Plan | None


@dataclass(frozen=True)
class WholeFile(BaseEngine):
    """Enumeration that also inverts masks that look at the whole file: a `Mechanism`, and averages of rows.

    Every other mask goes to `Enumeration`.

    Without data U is the expected one over all files, which is exact. With data it is the average over the releases
    that the mask can make of them. With noise on several different numbers it is an average over drawn releases.

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
        averages = {
            id(mask): law
            for mask in problem.masks
            if id(mask) not in joints and (law := self._averaged_file(user, mask, problem.data)) is not None
        }
        if not joints and not averages:
            what = "WholeFile needs a mask that looks at the whole file"
            return Refusal(what, "Use engine='auto'", Missing.USER)
        check_loss(user)
        rest = [i for i, mask in enumerate(problem.masks) if id(mask) not in joints and id(mask) not in averages]
        inner = Enumeration().plan(problem.for_masks(rest)) if rest else None
        return inner if isinstance(inner, Refusal) else _Built(joints, averages, inner)

    def run(self, problem: Problem, built: _Built) -> list[Solution]:
        user, masks, data = problem.user, problem.masks, problem.data
        value, error = np.empty(len(masks)), np.zeros(len(masks))
        names = [self.name] * len(masks)
        rest = [i for i, m in enumerate(masks) if id(m) not in built.joints and id(m) not in built.averages]
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
            if id(candidate) in built.averages:
                averaged = built.averages[id(candidate)]
                file = None if codes is None else np.array([averaged.files.index_of(codes)])
                found, names[i] = Enumeration().uncertainty_after(problem, averaged.law, file)
                value[i], error[i] = found.value, found.error
                start = averaged.law.outputs_before_noise().sum(axis=0, keepdims=True)
                before = float(uncertainty_of(user, averaged.law.table.values, start).value[0])
            elif id(candidate) in built.joints:
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
        return [Solution(value, error, float(before), names, averaged=AVERAGED in names)]

    def posterior(self, user: User, mask: Mask, release: object = None) -> Posterior:
        """Posterior of the target after one release."""
        averaged = self._averaged_file(user, mask, None)
        if averaged is not None:
            if release is None:
                raise needs_release(mask)
            return averaged.posterior(release)
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

    def posteriors(self, problem: Problem, mask: Mask, releases: Iterable[object]) -> Iterator[Evidence]:
        averaged = self._averaged_file(problem.user, mask, problem.data)
        if averaged is None:
            yield from super().posteriors(problem, mask, releases)
            return
        for release in releases:
            yield Evidence(averaged.posterior(release))

    def unknown_mask(self, problem: Problem, mask: Mask) -> MaskMixture:
        what = f"{mask} looks at the whole file, and which mask it was is not known"
        raise UnsupportedError(what, do="Use knows_mask=True, or list the candidate masks in a map of their own")

    def _averaged_file(self, user: User, mask: Mask, data: Data | None) -> AveragedFile | None:
        """What a mask that averages rows does to the file; None for every other mask."""
        found = resolve(mask, FiniteChannel.file_facts(user.belief, sample_covariance(user.belief, data)))
        return AveragedFile.of(user, mask, found, self.limit) if averages_rows(found) else None

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
