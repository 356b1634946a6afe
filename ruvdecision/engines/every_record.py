"""The rewrite for every record by itself: one uncertainty per record, and one number of them all.

Rows that the mask treats alike, under a belief that does not tell records apart, have the same uncertainty before the
data are known; so each kind of row is worked out once, however many rows are of it. Where the data matter, all records
are judged on the same releases.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, UnsupportedError
from ..masks.base import Mask
from ..masks.frame import Frame
from ..protocols import Array, Ints, Posterior, Solution
from ..targets import EachRecord
from ..users.user import Snooper, User
from .base import Plan, Problem, Rewrite, plan_for, progress_of_part
from .rules.every_row import is_own_row

NEAR = 4.0
"""Records within this many standard errors of the aggregate may be the one that it is."""


class Each(NamedTuple):
    """Uncertainty of every record after each mask."""

    rows: Ints
    uncertainty: Array
    """Shape (masks, rows)."""
    error: Array
    before: Array
    """Shape (rows,)."""
    engine: list[str]
    averaged: bool = False
    """Whether some are averages over drawn releases."""


@dataclass(frozen=True, eq=False)
class EveryRecord(Rewrite):
    """Uncertainty of each record, made one number as the target `EachRecord` says.

    U of each record is averaged over releases first. The standard error of the mean is the mean of the records' errors,
    which share their releases; that of the riskiest record or a quantile is the largest among records within four
    standard errors.
    """

    @classmethod
    def of(cls, choice: object, problem: Problem) -> EveryRecord:
        """The plan where the posterior of each record is computed by an engine that is chosen."""
        user = problem.user
        first = aim_at(user, int(rows_of(user, problem.data)[0]))
        return cls(plan_for(choice, problem.of_user(first)).engine, problem, asked=choice)

    def solve(self, problem: Problem) -> list[Solution]:
        target: EachRecord = problem.user.target
        each = uncertainty_of_every_record(self.asked, problem, rows_of(problem.user, problem.data))
        value = np.asarray(target.overall(each.uncertainty))
        if target.aggregate == "mean":
            error = each.error.mean(axis=1)
        else:
            order = np.argsort(each.uncertainty, axis=1, kind="stable")
            place = order[:, target.rank_from_below(each.uncertainty.shape[1])]
            own = each.error[np.arange(len(place)), place][:, None]
            with np.errstate(invalid="ignore"):
                near = np.abs(each.uncertainty - value[:, None]) <= NEAR * (each.error + own)
            error = np.max(np.where(near, each.error, own), axis=1)
        riskiest = each.rows[np.argmin(each.uncertainty, axis=1)].astype(np.float64)
        before = float(np.asarray(target.overall(each.before)))
        words = each.engine[0] if len(set(each.engine)) == 1 else each.engine
        return [Solution(value, error, before, words, {"riskiest": riskiest}, averaged=each.averaged)]

    def posterior(self, mask: Mask, release: object = None) -> Posterior:
        """Each record has one of its own."""
        what = self.problem.user.target.describe()
        raise UnsupportedError("Every record has a posterior of its own", what, "Ask for that of Record(j)")


def uncertainty_of_every_record(choice: object, problem: Problem, rows: Ints) -> Each:
    """Uncertainty of the record of every row after each mask, for a user who is after one record (or each)."""
    user, count = problem.user, len(problem.masks)
    value, error = np.empty((count, len(rows))), np.zeros((count, len(rows)))
    before, names, averaged = np.full(len(rows), np.nan), [""] * count, False
    families = problem.masks.families
    for done, family in enumerate(families):
        part = replace(
            problem.for_masks(family.positions), progress=progress_of_part(problem.progress, done, len(families))
        )
        plan = plan_for(choice, part.of_user(aim_at(user, int(rows[0]))))
        found: Solution | Each = plan.every_row(part, rows) or _solve_by_kind(choice, plan, part, rows)
        value[family.positions], error[family.positions] = found.uncertainty, found.error
        before, averaged = np.broadcast_to(found.before, rows.shape), averaged or found.averaged
        for i, word in zip(family.positions, found.engine, strict=True):
            names[i] = word
    return Each(rows, value, error, before, names, averaged)


def _solve_by_kind(choice: object, plan: Plan, problem: Problem, rows: Ints) -> Each:
    """Each kind of row by itself, with whatever engine can do it."""
    kinds = plan.row_kinds(problem, rows)
    _, first, which = np.unique(kinds, axis=0, return_index=True, return_inverse=True)
    users = [aim_at(problem.user, int(rows[start])) for start in first]
    # One set of draws answers for all records where the engine can do that.
    found = list(plan.solved_together(users).run(on_progress=problem.progress)) if plan.scheduling_engine.shares else []
    while len(found) < len(users):
        found += plan_for(choice, problem.of_user(users[len(found)])).run()
        problem.progress(len(found) / len(users))
    which = which.reshape(-1)
    table = [(f.uncertainty, f.error, np.asarray(f.before)) for f in found]
    value, error, before = (np.stack(column, axis=-1)[..., which] for column in zip(*table, strict=True))
    each = zip(*(f.words(len(problem.masks)) for f in found), strict=True)
    names = [", ".join(dict.fromkeys(words)) for words in each]
    return Each(rows, value, error, before, names, any(f.averaged for f in found))


def rows_of(user: User | Snooper, data: object) -> Ints:
    """The rows in question."""
    n = file_size(user, data)
    return user.target.rows_in(n) if user.target.asks_each else np.arange(n)


def file_size(user: User | Snooper, data: object) -> int:
    """How many records the file has."""
    if data is not None:
        return int(Frame.of(data).n)
    if user.belief is None:
        do = "Pass data=, or give the Snooper belief=NormalBelief(...)"
        raise InputError("A snooper needs data or a belief", "neither", do)
    return int(user.belief.records)


def aim_at(user: Any, row: int) -> Any:
    """The same user, after the record of one row."""
    target = user.target.aimed_at(row)
    if target is None:
        do = "Use EachRecord(), Record(0), Identity(0) or a Functional of one"
        raise InputError("Per-record risk needs a user who is after one record", user.target.describe(), do)
    if user.has_rule and is_own_row(user):
        return replace(user, target=target, estimator="row")
    return replace(user, target=target)
