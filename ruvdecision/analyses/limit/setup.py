"""From two users to files, chances and targets: what the limit's programme works on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ...beliefs.finite import FiniteBelief
from ...beliefs.table.belief import TableBelief
from ...engines.finite.enumeration import Enumeration, check_loss
from ...engines.finite.plan import AveragePlan, plan_of
from ...engines.finite.whole_file import Files, joint_with_files
from ...errors import InputError, UnsupportedError
from ...masks.base import Mask
from ...masks.mechanism import Mechanism
from ...masks.stochastic import Stochastic
from ...posteriors import Finite
from ...protocols import Array
from ...users.user import User
from .normal import normal_users
from .programme import TwoUsers

Ints = NDArray[np.int64]
FILES = 20_000
"""Most kinds of files to list before those that tell the same are put together."""
CLASSES = 1500
"""Most kinds of files in a programme."""
POINTS = 300
"""Target values that stand for a continuum."""


@dataclass(frozen=True, eq=False)
class Setup:
    """Two users, the class of every file, how to write a matrix as a mask, and remarks."""

    users: TwoUsers
    group: Ints
    mask: Callable[[Array, list[Any]], Mask] | None
    notes: tuple[str, ...] = ()

    def mechanism(self, matrix: Array) -> tuple[Array, list[Any]]:
        """The matrix with outputs of one estimate put together, and those estimates."""
        users = self.users
        joint = matrix.T @ users.scientist_joint
        labels: list[Any] = []
        columns: list[Array] = []
        for column, law in zip(matrix.T, joint, strict=True):
            if column.sum() <= 0:
                continue
            label: Any = float(len(labels))
            if law.sum() > 0:
                best = users.scientist.loss.estimate(
                    Finite(users.scientist_values, law / law.sum()), users.scientist.actions
                )
                if not isinstance(best, Finite):
                    label = np.asarray(best, dtype=np.float64)
                    label = float(label) if label.ndim == 0 else tuple(label.ravel().tolist())
            twin = next((i for i, other in enumerate(labels) if other == label), None)
            if twin is None:
                labels.append(label)
                columns.append(column)
            else:
                columns[twin] = columns[twin] + column
        return np.column_stack(columns), labels


def set_up(intruder: User, scientist: User, statistic: str, states: int | None) -> Setup:
    """List what the file can be for users with finite beliefs, tables, or normal beliefs that are made discrete."""
    first, second = intruder.belief, scientist.belief
    if isinstance(first, FiniteBelief) and isinstance(second, FiniteBelief):
        return _finite(intruder, scientist, statistic, CLASSES if states is None else states)
    if isinstance(first, TableBelief) and isinstance(second, TableBelief):
        return _tables(intruder, scientist, statistic, CLASSES if states is None else states)
    return _discretised(intruder, scientist, statistic, 400 if states is None else states)


def _finite(intruder: User, scientist: User, statistic: str, states: int) -> Setup:
    first, second = intruder.belief, scientist.belief
    if first.records != second.records or first.levels.names != second.levels.names:
        raise InputError(
            "Both users must believe in the same file",
            f"{first.records} records with {len(first.levels)} outcomes and {second.records} with {len(second.levels)}",
            "Give both beliefs the same records and outcomes",
        )
    for user in (intruder, scientist):
        check_loss(user)
    plans = [plan_of(u.belief, u.target, Enumeration().limit) for u in (intruder, scientist)]
    rows = sorted({r for plan in plans if not isinstance(plan, AveragePlan) for r in plan.rows})
    files = Files.of(first, rows, FILES)
    also = files if second is first else Files.of(second, rows, FILES)
    joint = [joint_with_files(first, plans[0], files), joint_with_files(second, plans[1], also)]
    place = np.arange(len(files.counts))
    if statistic == "average":
        if first.levels.labelled:
            raise UnsupportedError("Labels have no average", do='Use statistic="records"')
        means = np.round(files.totals @ first.levels.numbers / first.records, 12)
        _, place = np.unique(means, axis=0, return_inverse=True)
        place = place.reshape(-1)
        joint = [_summed(j, place) for j in joint]
    users, group = TwoUsers(intruder, scientist, plans[0].values, plans[1].values, joint[0], joint[1]).merged()
    _check_size(len(users.intruder_joint), states)
    group = group[place]

    def mask(matrix: Array, labels: list[Any]) -> Mask:
        table, names = matrix[group], first.levels.names
        if first.records == 1 and first.levels.numbers.ndim == 1 and all(np.ndim(v) == 0 for v in labels):
            # One record: files are its outcomes, followed on their own or counted one by one.
            order = files.codes[:, 0] if rows else np.argmax(files.counts, axis=1)
            return Stochastic(table[np.argsort(order)], outputs=labels, inputs=names)
        return Mechanism(table, outputs=labels, outcomes=names, records=first.records, rows=rows)

    return Setup(
        users, group, mask, (f"{len(users.intruder_joint):,} kinds of files that differ for one of the users",)
    )


def _tables(intruder: User, scientist: User, statistic: str, states: int) -> Setup:
    if statistic != "records":
        raise UnsupportedError("A table has no average record", do='Use statistic="records"')
    tables = intruder.belief.completions(limit=FILES)
    other = scientist.belief.completions(limit=FILES)
    if tables.shape != other.shape or not np.array_equal(tables, other):
        raise InputError(
            "Both users must hold the same tables possible",
            f"{len(tables)} and {len(other)}",
            "Give both the same known cells",
        )
    joint, values = [], []
    for user in (intruder, scientist):
        logs = user.belief.system.log_weight(tables.reshape(len(tables), -1))
        chance = np.exp(logs - logs.max())
        found = np.asarray(user.belief.values_of(user.target, tables.reshape(len(tables), -1)), dtype=np.float64)
        distinct, place = np.unique(found, axis=0, return_inverse=True)
        table = np.zeros((len(tables), len(distinct)))
        table[np.arange(len(tables)), place.reshape(-1)] = chance / chance.sum()
        joint.append(table)
        values.append(distinct)
    users, group = TwoUsers(intruder, scientist, values[0], values[1], joint[0], joint[1]).merged()
    _check_size(len(users.intruder_joint), states)
    return Setup(
        users,
        group,
        None,
        (f"{len(tables):,} tables, {len(users.intruder_joint):,} of them different for one of the users",),
    )


def _discretised(intruder: User, scientist: User, statistic: str, states: int) -> Setup:
    """A normal belief with linear targets that are numbers: cut what the file tells the users into cells.

    The pair of E(target | file) is normal; each of its independent directions is cut into cells of even width over four
    and a half standard deviations, each cell at its conditional mean. The residual of a target given the file is laid
    over a grid of values.
    """
    normal = normal_users(intruder, scientist, statistic)
    if not (normal.intruder.scalar and normal.scientist.scalar):
        raise UnsupportedError(
            "The limit under a normal belief needs squared errors, or targets that are numbers",
            do="Use Quadratic(), or Parameter('mu', component=0) and a Functional of one variable",
        )
    slopes = np.concatenate([normal.intruder.slope, normal.scientist.slope])
    both = slopes @ slopes.T
    scale = np.sqrt(np.where(np.diag(both) > 0, np.diag(both), 1.0))
    values, vectors = np.linalg.eigh(both / np.outer(scale, scale))
    live = values > 1e-10
    root = scale[:, None] * vectors[:, live] * np.sqrt(values[live])
    count = max(3, round(states ** (1 / root.shape[1]))) if live.any() else 1
    edges = np.linspace(-4.5, 4.5, count - 1) if count > 1 else np.zeros(0)
    ends = np.r_[-np.inf, edges, np.inf]
    chance = np.diff(norm.cdf(ends))
    centre = -np.diff(norm.pdf(ends)) / chance  # conditional mean of the cell
    grid = np.stack(np.meshgrid(*[centre] * root.shape[1], indexing="ij"), axis=-1).reshape(-1, root.shape[1])
    weight = np.ones(1)
    for _ in range(root.shape[1]):
        weight = np.outer(weight, chance).reshape(-1)
    means = grid @ root.T
    joint, targets = [], []
    for mean, target in zip(means.T, (normal.intruder, normal.scientist), strict=True):
        rest = float(target.residual[0, 0])
        if rest <= 0:
            spots, place = np.unique(np.round(mean, 12), return_inverse=True)
            table = np.zeros((len(mean), len(spots)))
            table[np.arange(len(mean)), place.reshape(-1)] = weight
        else:
            sd = np.sqrt(rest)
            spots = np.linspace(mean.min() - 5 * sd, mean.max() + 5 * sd, POINTS)
            cuts = np.r_[-np.inf, (spots[1:] + spots[:-1]) / 2, np.inf]
            table = weight[:, None] * np.diff(norm.cdf((cuts - mean[:, None]) / sd), axis=1)
        joint.append(table)
        targets.append(spots)
    notes = (
        f"the pair of targets is cut into {len(weight):,} cells ({count} in each of {root.shape[1]} directions) and "
        f"{len(targets[0])} and {len(targets[1])} values; finer cells (states=) come closer to the continuum",
    )
    users, group = TwoUsers(intruder, scientist, targets[0], targets[1], joint[0], joint[1]).merged()
    return Setup(users, group, None, notes)


def _summed(joint: Array, place: Ints) -> Array:
    out = np.zeros((int(place.max()) + 1, joint.shape[1]))
    np.add.at(out, place, joint)
    return out


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise UnsupportedError(
            f"The file can be {size:,} things that differ for one of the users",
            f"a limit of {most:,}",
            "Raise states=, ask for fewer records, or coarsen the outcomes",
        )
