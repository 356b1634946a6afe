"""From two users to files, chances and targets: what the limit's programme works on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import ndtr

from ...beliefs.base import BaseBelief
from ...beliefs.finite import FiniteBelief
from ...beliefs.normal import NormalBelief
from ...beliefs.table.belief import TableBelief
from ...channels.finite import FiniteChannel
from ...engines.finite.enumeration import Enumeration, check_loss
from ...engines.finite.tables import same_release
from ...engines.finite.target_table import target_table
from ...engines.finite.whole_file import PossibleFiles, joint_with_files
from ...errors import InputError, UnsupportedError
from ...masks.base import Mask
from ...masks.mechanism import Mechanism
from ...masks.stochastic import Stochastic
from ...numerics.semidefinite import range_root
from ...posteriors import Finite
from ...protocols import Array, Ints
from ...users.user import User
from .estimates import UserOverFiles
from .informed import normal_users
from .mixtures import Mixtures
from .programme import BestMechanism, Programme, TwoUsers

Label = float | tuple[float, ...]
"""The scientist's estimate that an output stands for."""
FILES = 20_000
"""Most kinds of files to list before those that tell the same are put together."""
CLASSES = 1500
"""Most kinds of files in a programme."""
CELLS = 400
"""Cells of what the file tells under a normal belief."""
LARGEST = 20_000_000
"""Most chances of files, things known and target values together."""
POINTS = 300
"""Target values that stand for a continuum."""


class FileProgramme:
    """The limit by a linear programme: two users over the files that there can be.

    Parameters
    ----------
    users : TwoUsers
        The users over all files.
    about : str
        What the files are, for a note.
    most : int, optional
        Most kinds of files that differ for one of the users.
    mask : callable, optional
        Writes a matrix, files by outputs, and the scientist's estimates as a mask.
    place : array of int, optional
        Where each file stands in the rows of ``users``; each has its own row if not given.
    """

    def __init__(
        self,
        users: TwoUsers,
        about: str,
        most: int | None = None,
        mask: Callable[[Array, list[Label]], Mask] | None = None,
        place: Ints | slice = slice(None),
    ) -> None:
        self.users, group = users.merge_equal_files()
        size = len(self.users.intruder.joint)
        if most is not None and size > most:
            do = "Raise states=, ask for fewer records, or coarsen the outcomes"
            what = f"The file can be {size:,} things that differ for one of the users"
            raise UnsupportedError(what, f"a limit of {most:,}", do)
        self.group, self.mask, self.about = group[place], mask, about.format(size=size)
        suited = Mixtures if Mixtures.is_applicable(self.users) else Programme
        self.programme: Mixtures | Programme = suited(self.users)
        self.before, self.after, self.certain = self.users.before, self.users.after, self.programme.certain
        self.method = "linear programme" if mask is not None else "linear programme on cells"

    @property
    def notes(self) -> tuple[str, ...]:
        """What the files are and what the outputs."""
        return self.about, self.programme.words()

    def solve_all(self, wanted: Sequence[float], on_progress: Callable[[float], None]) -> list[BestMechanism]:
        """The best mechanism for each uncertainty that the intruder is to keep."""
        return [self._written(found) for found in self.programme.solve_all(wanted, on_progress)]

    def _written(self, found: BestMechanism) -> BestMechanism:
        """A mechanism with its outputs put together, and as a mask."""
        matrix, labels = self._merge_equal_estimates(found.matrix)
        intruder, scientist = self.users.uncertainty(matrix)
        matrix = matrix[self.group]
        mask = None if self.mask is None else self.mask(matrix, labels)
        return BestMechanism(min(found.bound, scientist), matrix, intruder, scientist, mask)

    def _merge_equal_estimates(self, matrix: Array) -> tuple[Array, list[Label]]:
        """The matrix with outputs of one estimate put together, and those estimates."""
        columns: dict[Label, Array] = {}
        for column in matrix.T:
            law = column @ self.users.scientist.joint
            label: Label = float(len(columns))
            best = self.users.scientist.best(law) if law.sum() > 0 else ()
            if best and not isinstance(best[0], Finite):
                numbers = np.ravel(best).tolist()
                label = numbers[0] if np.ndim(best[0]) == 0 and len(best) == 1 else tuple(numbers)
            if column.sum() > 0:
                columns[label] = columns[label] + column if label in columns else column
        return np.column_stack(list(columns.values())), list(columns)


def common_kind(*beliefs: BaseBelief) -> type[BaseBelief] | None:
    """The kind that all beliefs are of, among those that the limit knows."""
    kinds = (NormalBelief, FiniteBelief, TableBelief)
    return next((kind for kind in kinds if all(isinstance(belief, kind) for belief in beliefs)), None)


def file_programme(intruder: User, scientist: User, statistic: str, states: int | None) -> FileProgramme:
    """List what the file can be for users with finite beliefs, tables, or normal beliefs that are made discrete."""
    kind = common_kind(intruder.belief, scientist.belief)
    if kind is FiniteBelief:
        return _finite_programme(intruder, scientist, statistic, states or CLASSES)
    if kind is TableBelief:
        return _table_programme(intruder, scientist, statistic, states or CLASSES)
    return _discretised_normal_programme(intruder, scientist, statistic, states or CELLS)


def _finite_programme(intruder: User, scientist: User, statistic: str, states: int) -> FileProgramme:
    belief, other = intruder.belief, scientist.belief
    names = belief.levels.names
    if belief.records != other.records or names != other.levels.names:
        got = f"{belief.records} records with {len(names)} outcomes and {other.records} with {len(other.levels)}"
        do = "Give both beliefs the same records and outcomes"
        raise InputError("Both users must believe in the same file", got, do)
    asked = []
    for user in (intruder, scientist):
        check_loss(user)
        asked.append(target_table(user.belief, user.target, Enumeration().limit))
    chances = [_chance_of_known_rows(user) for user in (intruder, scientist)]
    rows = sorted({r for one in asked for r in one.rows} | {r for kernels in chances for r in kernels})
    files = PossibleFiles.of(belief, rows, FILES)
    place = np.arange(len(files.counts))
    if statistic == "average":
        if belief.levels.labelled:
            raise UnsupportedError("Labels have no average", do='Use statistic="records"')
        means = np.round(files.outcome_counts @ belief.levels.numbers / belief.records, 12)
        place = np.unique(means, axis=0, return_inverse=True)[1].reshape(-1)
    found = []
    for user, one, kernels in zip((intruder, scientist), asked, chances, strict=True):
        same = files if user.belief is belief else PossibleFiles.of(user.belief, rows, FILES)
        known = np.ones((len(files.counts), 1))
        for row, matrix in kernels.items():
            known = _joint_chances(known, matrix[files.codes[:, files.rows.index(row)]])
        each = _joint_chances(known, joint_with_files(user.belief, one, same))
        joint = np.zeros((int(place.max()) + 1, each.shape[1]))
        np.add.at(joint, place, each)
        found.append(UserOverFiles(user, one.values, joint))

    def mask(matrix: Array, labels: list[Label]) -> Mask:
        if belief.records == 1 and belief.levels.numbers.ndim == 1 and all(np.ndim(v) == 0 for v in labels):
            # One record: files are its outcomes, followed on their own or counted one by one.
            order = files.codes[:, 0] if rows else np.argmax(files.counts, axis=1)
            return Stochastic(matrix[np.argsort(order)], outputs=labels, inputs=names)
        return Mechanism(matrix, outputs=labels, outcomes=names, records=belief.records, rows=rows)

    about = "{size:,} kinds of files that differ for one of the users"
    return FileProgramme(TwoUsers(found[0], found[1]), about, states, mask, place)


def _joint_chances(known: Array, other: Array) -> Array:
    """Chances of what is known together with something else, file by file; refuse if these are too many."""
    size = len(known) * known.shape[1] * other.shape[1]
    if size > LARGEST:
        what = f"What is already known can be {known.shape[1]:,} things"
        raise UnsupportedError(what, f"{size:,} chances", "Let the user know fewer rows, or coarser ones")
    return np.asarray((known[:, :, None] * other[:, None, :]).reshape(len(known), -1))


def _chance_of_known_rows(user: User) -> dict[int, Array]:
    """The chance of what a user with a finite belief already knows of each row, given its outcome."""
    if user.knows is None:
        return {}
    channel = FiniteChannel.of(user.belief, user.knows)
    if channel.continuous or channel.sampled or not channel.ordered or channel.open_samples:
        what = f"The limit beside {user.knows} needs knowledge of named rows that can be listed"
        raise UnsupportedError(what, do="Let the user know Release(rows=[...]), or rows after Stochastic or Round")
    kernels = [channel.kernels[kind] for kind in channel.kinds]
    return {row: kernel.matrix for row, kernel in enumerate(kernels) if not kernel.uninformative}


def _table_programme(intruder: User, scientist: User, statistic: str, states: int) -> FileProgramme:
    if statistic != "records":
        raise UnsupportedError("A table has no average record", do='Use statistic="records"')
    tables, other = (user.belief.completions(limit=FILES) for user in (intruder, scientist))
    if not np.array_equal(tables, other):
        got = f"{len(tables)} and {len(other)}"
        raise InputError("Both users must hold the same tables possible", got, "Give both the same known cells")
    flat = tables.reshape(len(tables), -1)
    found = []
    for user in (intruder, scientist):
        logs = user.belief.system.log_weight(flat)
        chance = np.exp(logs - logs.max())
        values = np.asarray(user.belief.values_of(user.target, flat), dtype=np.float64)
        groups = None if user.knows is None else same_release(user.knows, tables)
        found.append(_user_of_known_target(user, values, chance / chance.sum(), groups))
    about = f"{len(tables):,} tables, {{size:,}} of them different for one of the users"
    return FileProgramme(TwoUsers(found[0], found[1]), about, states)


def _user_of_known_target(user: User, values: Array, chance: Array, groups: Ints | None = None) -> UserOverFiles:
    """A user whose target is known once the file is: its value in each file, and the chance of each.

    ``groups`` says what he already knows of each file.
    """
    distinct, place = np.unique(values, axis=0, return_inverse=True)
    joint = np.zeros((len(values), len(distinct)))
    joint[np.arange(len(values)), place.reshape(-1)] = chance
    return UserOverFiles(
        user, distinct, joint if groups is None else _joint_chances(np.eye(int(groups.max()) + 1)[groups], joint)
    )


def _discretised_normal_programme(intruder: User, scientist: User, statistic: str, states: int) -> FileProgramme:
    """A normal belief with linear targets that are numbers: cut what the file tells the users into cells.

    The pair of E(target | file) is normal; each of its independent directions is cut into cells of even width over four
    and a half standard deviations, each cell at its conditional mean. The residual of a target given the file is laid
    over a grid of values.
    """
    normal = normal_users(intruder, scientist, statistic)
    if not (normal.intruder.scalar and normal.scientist.scalar):
        what = "The limit under a normal belief needs squared errors, or targets that are numbers"
        do = "Use Quadratic(), or Parameter('mu', component=0) and a Functional of one variable"
        raise UnsupportedError(what, do=do)
    slopes = np.concatenate([normal.intruder.slope, normal.scientist.slope])
    both = slopes @ slopes.T
    scale = np.sqrt(np.where(np.diag(both) > 0, np.diag(both), 1.0))
    root = range_root(both, scale, 1e-10)[0]
    directions = root.shape[1]
    count = max(3, round(states ** (1 / directions))) if directions else 1
    ends = np.r_[-np.inf, np.linspace(-4.5, 4.5, count - 1), np.inf]
    chance = np.diff(ndtr(ends))
    centre = -np.diff(np.exp(-(ends**2) / 2) / np.sqrt(2 * np.pi)) / chance  # conditional mean of the cell
    grid = np.stack(np.meshgrid(*[centre] * directions, indexing="ij"), axis=-1).reshape(-1, directions)
    weight = np.ones(1)
    for _ in range(directions):
        weight = np.kron(weight, chance)
    found = []
    pairs = zip((intruder, scientist), (normal.intruder, normal.scientist), (grid @ root.T).T, strict=True)
    for user, target, mean in pairs:
        sd = np.sqrt(max(float(target.residual[0, 0]), 0.0))
        if sd == 0:
            found.append(_user_of_known_target(user, np.round(mean, 12), weight))
            continue
        spots = np.linspace(mean.min() - 5 * sd, mean.max() + 5 * sd, POINTS)
        cuts = np.r_[-np.inf, (spots[1:] + spots[:-1]) / 2, np.inf]
        joint = weight[:, None] * np.diff(ndtr((cuts - mean[:, None]) / sd), axis=1)
        found.append(UserOverFiles(user, spots, joint))
    sizes = f"{len(found[0].values)} and {len(found[1].values)} values"
    about = f"the pair of targets is cut into {len(weight):,} cells ({count} in each of {directions} directions) and "
    about += f"{sizes}; finer cells (states=) come closer to the continuum"
    return FileProgramme(TwoUsers(found[0], found[1]), about)
