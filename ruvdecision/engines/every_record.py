"""The engine for every record by itself: one uncertainty per record, and one number of them all.

Rows that the mask treats alike, under a belief that does not tell records apart, have the same uncertainty before the
data are known; so each kind of row is worked out once, however many rows are of it. Where the data matter, all records
are judged on the same releases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..beliefs.finite import FiniteBelief
from ..beliefs.normal import NormalBelief
from ..channels.finite import FiniteChannel
from ..channels.layout import Layout
from ..channels.linear import LinearChannel
from ..errors import InputError, UnsupportedError
from ..masks.base import Batch, Mask
from ..masks.frame import Frame
from ..masks.rows import NOTHING
from ..posteriors import Gaussian
from ..protocols import Array, Posterior, Solution
from ..running.replication import REPLICATES, replicate_error, replicate_seeds
from ..targets import BaseTarget, EachRecord, Kind, LinearForm
from ..users.mask_prior import MaskPrior
from ..users.rules import Mean, Row
from ..users.user import Snooper, User
from .base import Problem, Rewrite, Tell, pick, plan_for
from .each_row import drawn_rows, given_rows
from .finite.enumeration import _codes, _sample_covariance
from .normal.conditioning import Conditioned
from .normal.exact import Exact, as_records, released
from .normal.forms import form_of, gaussian_of
from .rules.source import Source

NEAR = 4.0
"""Records within this many standard errors of the aggregate may be the one that it is."""
Ints = NDArray[np.int64]


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
    """Whether they are averages over drawn releases."""


@dataclass(frozen=True, eq=False)
class EveryRecord(Rewrite):
    """Uncertainty of each record, made one number as the target `EachRecord` says.

    U of each record is averaged over releases first. The standard error of the mean is the mean of the records' errors,
    which share their releases; that of the riskiest record or a quantile is the largest among records within four
    standard errors.
    """

    @classmethod
    def of(cls, choice: Any, problem: Problem) -> EveryRecord:
        """The plan where the posterior of each record is computed by an engine that is chosen."""
        user = problem.user
        first = aim_at(user, int(rows_of(user, problem.data)[0]))
        return cls(plan_for(choice, problem.of_user(first)).engine, problem, asked=choice)

    def run(
        self, piece: Sequence[int] | None = None, tell: Tell | None = None, interruptible: bool = False
    ) -> list[Solution]:
        problem = self.problem if piece is None else self.problem.only(piece)
        user, masks = problem.user, problem.masks
        options: dict[str, Any] = {"data": problem.data, "replicates": problem.replicates, "seed": problem.seed}
        each = every_record(user, masks, engine=self.asked, tell=tell, **options)
        target: EachRecord = user.target
        value = np.asarray(target.overall(each.uncertainty))
        if target.aggregate == "mean":
            error = each.error.mean(axis=1)
        else:
            place = np.argsort(each.uncertainty, axis=1, kind="stable")[
                :, target.rank_from_below(each.uncertainty.shape[1])
            ]
            own = each.error[np.arange(len(masks)), place][:, None]
            with np.errstate(invalid="ignore"):
                near = np.abs(each.uncertainty - value[:, None]) <= NEAR * (each.error + own)
            error = np.max(np.where(near, each.error, own), axis=1)
        riskiest = each.rows[np.argmin(each.uncertainty, axis=1)].astype(np.float64)
        names = each.engine
        before = float(np.asarray(target.overall(each.before)))
        words = names[0] if len(set(names)) == 1 else names
        return [Solution(value, error, before, words, {"riskiest": riskiest}, averaged=each.averaged)]

    def posterior(self, mask: Mask, release: Any = None) -> Posterior:
        """Each record has one of its own."""
        what = self.problem.user.target.describe()
        raise UnsupportedError("Every record has a posterior of its own", what, "Ask for that of Record(j)")


def every_record(
    user: Any,
    masks: Sequence[Mask],
    *,
    engine: Any = "auto",
    data: Any = None,
    replicates: int | None = None,
    seed: Any = None,
    tell: Callable[[float], None] | None = None,
    rows: Any = None,
) -> Each:
    """Uncertainty of every record after each mask, for a user who is after one record (or each)."""
    chosen = rows_of(user, data) if rows is None else np.asarray(rows, dtype=np.int64)
    value, error = np.empty((len(masks), len(chosen))), np.zeros((len(masks), len(chosen)))
    before = np.full(len(chosen), np.nan)
    names, averaged = [""] * len(masks), False
    families = Batch.of(masks).families
    for done, family in enumerate(families):
        members = [masks[i] for i in family.positions]
        pick(engine, aim_at(user, int(chosen[0])), members, data)  # says early what cannot be done
        part = None if tell is None else lambda x, done=done: tell((done + x) / len(families))
        task = _Task(user, members, engine, data, replicates, seed, chosen, part)
        found = task.fast() or task.by_kind()
        value[family.positions], error[family.positions] = found.uncertainty, found.error
        before, averaged = found.before, averaged or found.averaged
        for i, word in zip(family.positions, found.engine, strict=True):
            names[i] = word
    return Each(chosen, value, error, before, names, averaged)


def rows_of(user: Any, data: Any) -> Ints:
    """The rows in question."""
    n = file_size(user, data)
    return user.target.rows_in(n) if user.target.asks_each else np.arange(n)


def file_size(user: Any, data: Any) -> int:
    """How many records the file has."""
    if data is not None:
        return int(Frame.of(data).n)
    if user.belief is None:
        raise InputError(
            "A snooper needs data or a belief", "neither", "Pass data=, or give the Snooper belief=NormalBelief(...)"
        )
    return int(user.belief.records)


def aim_at(user: Any, row: int) -> Any:
    """The same user, after the record of one row."""
    target = user.target.aimed_at(row)
    if target is None:
        raise InputError(
            "Per-record risk needs a user who is after one record",
            user.target.describe(),
            "Use EachRecord(), Record(0), Identity(0) or a Functional of one",
        )
    if isinstance(user, Snooper):
        own = isinstance(user.estimator, Row) and _is_own(user.estimator, user.target)
        return replace(user, target=target, estimator="row" if own else user.estimator)
    return replace(user, target=target)


def _is_own(rule: Row, target: BaseTarget) -> bool:
    """Whether a rule takes the row of the target's own record."""
    return rule.row is None or (target.verbatim and target.asks(Kind.RECORD) and target.terms[0].row == rule.row)


@dataclass(frozen=True, eq=False)
class _Task:
    """One user and the masks of one family."""

    user: Any
    masks: list[Mask]
    engine: Any
    data: Any
    replicates: int | None
    seed: Any
    rows: Ints
    tell: Any

    # -- what is quick ---------------------------------------------------------------------------------

    def fast(self) -> Each | None:
        """All records at once where that is possible.

        Normal posteriors, and the rows of a release taken for the records.
        """
        user = self.user
        if isinstance(user, Snooper):
            return self._snooper() if isinstance(aim_at(user, 0).estimator, Row) and self._own_row else None
        if not (isinstance(user.belief, NormalBelief) and user.plain) or user.target.asks_row:
            return None
        if self.engine not in ("auto", "exact") and not isinstance(self.engine, Exact):
            return None
        form = form_of(user.belief, aim_at(user, 0).target)
        if form is None or len(form.terms) != 1:
            return None
        table = None if self.data is None else as_records(user.belief, self.data)
        channel = self._channel(table)
        if channel.location == "unknown":
            return None
        if user.actions is None and user.loss.location_free:
            return self._closed(channel, form) if channel.location == "known" else None
        return None if table is None else self._simulated(table, form)

    @property
    def _own_row(self) -> bool:
        return _is_own(self.user.estimator, self.user.target)

    def _channel(self, table: Array | None) -> LinearChannel:
        numbers = np.array([m.numbers for m in self.masks], dtype=np.float64).reshape(len(self.masks), -1)
        return Exact()._channel(self.user.belief, self.masks[0], numbers, table)

    def _closed(self, channel: LinearChannel, form: LinearForm) -> Each:
        given = Conditioned(self.user.belief, channel)
        shape, _, cell = channel.layout.rows()
        kinds, which = np.unique(np.stack([shape, cell])[:, self.rows], axis=1, return_inverse=True)
        matrix = None if form.plain else form.matrix
        found = [given.record_covariance(int(t), int(c), matrix) for t, c in kinds.T]
        lead = len(self.masks)
        stacked = np.stack([np.broadcast_to(c, (lead, *c.shape[1:])) for c in found], axis=1)
        each = self.user.loss.uncertainty(gaussian_of(stacked, form))
        which = which.reshape(-1)
        value, error = (np.broadcast_to(v, stacked.shape[:2])[:, which] for v in each)
        return Each(self.rows, value, error, self._before(), ["exact"] * lead)

    def _simulated(self, table: Array, form: LinearForm) -> Each:
        """Average over releases of the data, all records on the same ones."""
        user, count = self.user, REPLICATES if self.replicates is None else self.replicates
        frame = pd.DataFrame(table)
        value, error = np.empty((len(self.masks), len(self.rows))), np.empty((len(self.masks), len(self.rows)))
        for i, mask in enumerate(self.masks):
            given = Conditioned(user.belief, Exact()._single(user.belief, mask, table))
            shape, _, cell = given.channel.layout.rows()
            matrix = None if form.plain else form.matrix
            kinds, which = np.unique(np.stack([shape, cell]), axis=1, return_inverse=True)
            spreads = np.stack([given.record_covariance(int(t), int(c), matrix)[0] for t, c in kinds.T])[
                which.reshape(-1)
            ]
            seen = np.empty((count, len(self.rows)))
            for r, (_, for_mask, _) in enumerate(replicate_seeds(self.seed, count)):
                values, place = released(user.belief, given.channel, mask.release(frame, for_mask))
                at = place[self.rows]
                means = given.means(values).records()[at] @ form.matrix.T + form.constant
                posterior = (
                    Gaussian.scalar(means[:, 0], spreads[at, 0, 0]) if form.number else Gaussian(means, spreads[at])
                )
                result = user.loss.uncertainty(posterior, user.actions)
                seen[r] = result.value
                if count == 1:
                    error[i] = result.error
            value[i] = seen.mean(axis=0)
            if count > 1:
                error[i] = replicate_error(seen)
            if self.tell is not None:
                self.tell((i + 1) / len(self.masks))
        return Each(self.rows, value, error, self._before(), ["exact, averaged over releases"] * len(self.masks), True)

    def _before(self) -> Array:
        one = aim_at(self.user, int(self.rows[0]))
        problem = Problem.of(one, [NOTHING], seed=self.seed, replicates=self.replicates)
        return np.full(len(self.rows), plan_for(self.engine, problem).run()[0].before)

    # -- row by row ------------------------------------------------------------------------------------

    def by_kind(self) -> Each:
        """Each kind of row by itself, with whatever engine can do it."""
        kinds = self._kinds()
        labels, first, which = np.unique(kinds, axis=0, return_index=True, return_inverse=True)
        value, error = np.empty((len(self.masks), len(labels))), np.empty((len(self.masks), len(labels)))
        before, names = np.empty(len(labels)), [""] * len(self.masks)
        users = tuple(aim_at(self.user, int(self.rows[start])) for start in first)
        problem = Problem(users[:1], Batch(self.masks), self.data, self.replicates, self.seed)
        plan = plan_for(self.engine, problem)
        # One set of draws answers for all records where the engine can do that.
        shared = plan.together(users).run(tell=self._tell) if plan.engine.shares else None
        averaged = False
        for i, one in enumerate(users):
            if shared is None and i:
                plan = plan_for(self.engine, replace(problem, users=(one,)))
            found = plan.run()[0] if shared is None else shared[i]
            value[:, i], error[:, i], before[i] = found.uncertainty, found.error, found.before
            averaged = averaged or found.averaged
            words = [found.engine] * len(self.masks) if isinstance(found.engine, str) else list(found.engine)
            names = (
                [a if a in ("", b) or a.startswith(b) else b for a, b in zip(names, words, strict=True)] if i else words
            )
            self._tell((i + 1) / len(labels))
        which = which.reshape(-1)
        return Each(self.rows, value[:, which], error[:, which], before[which], names, averaged)

    def _tell(self, share: float, *note: str) -> None:
        if self.tell is not None:
            self.tell(share)

    def _kinds(self) -> Ints:
        """A label per row: rows with one label have the same uncertainty."""
        user = self.user
        alone = self.rows[:, None]
        beliefs = [b for b in (user.belief, getattr(user, "truth", None)) if b is not None]
        if not beliefs or user.target.asks_row:
            return alone
        if (
            isinstance(user, Snooper)
            and not isinstance(user.estimator, Mean)
            and not (isinstance(user.estimator, Row) and self._own_row)
        ):
            return alone  # a rule that looks at certain rows tells their records apart
        if all(isinstance(b, NormalBelief) for b in beliefs):
            return self._normal_kinds(alone)
        if all(isinstance(b, FiniteBelief) for b in beliefs) and isinstance(user, User):
            return self._finite_kinds()
        return alone

    def _candidates(self, scale: float) -> list[Mask]:
        """The mask, and what the user thinks that it may have been."""
        found = [self.masks[0]]
        if isinstance(self.user, User) and not self.user.knows_mask:
            found += (self.user.mask_prior or MaskPrior()).candidates(self.masks[0], scale, self.user.belief.records)[0]
        return [found[f.positions[0]] for f in Batch.of(found).families]

    def _normal_kinds(self, alone: Ints) -> Ints:
        user, belief = self.user, self.user.belief
        table = None if self.data is None else as_records(belief, self.data)
        columns: list[Any] = []
        for mask in self._candidates(float(np.mean(np.diag(belief.record_covariance)))):
            try:
                channel = Exact()._single(belief, mask, table)
            except UnsupportedError:
                return alone
            if channel.location == "unknown" and isinstance(user, User):
                # Nobody knows whose row is whose: every record has the same posterior, whatever the data are.
                columns.append(np.zeros(len(self.rows), dtype=np.int64))
                continue
            same = isinstance(user, User) and user.plain and user.actions is None and user.loss.location_free
            if table is not None and not same:
                return alone
            shape, _, cell = channel.layout.rows()
            if channel.location == "known":
                columns += [shape[self.rows], cell[self.rows]]
            elif channel.location == "unknown" or _one_kind(channel.layout):
                # In the sample or not, and nothing else: the chances are the same for all.
                columns.append(np.zeros(len(self.rows), dtype=np.int64))
            else:
                return alone
        return np.stack(columns, axis=1)

    def _finite_kinds(self) -> Ints:
        belief = self.user.belief
        scale = _sample_covariance(belief, self.data)
        numbers = 1.0
        if not belief.levels.labelled:
            values = belief.levels.numbers.reshape(len(belief.levels), -1)
            numbers = float(np.mean(belief.marginal @ np.square(values - belief.marginal @ values)))
        columns = [FiniteChannel.of(belief, m, scale).kinds[self.rows] for m in self._candidates(numbers)]
        if self.data is not None:
            truth = getattr(self.user, "truth", None)
            columns.append(_codes(belief if truth is None else truth, self.data)[self.rows])
        return np.stack(columns, axis=1)

    def _snooper(self) -> Each | None:
        """The row of each record taken for it: all records on the same releases, or one of each kind without data."""
        user, source = self.user, Source.of(self.user.belief, self.data)
        if self.engine == "exact" or isinstance(self.engine, Exact):
            return None
        found = given_rows(user, self.masks, self.rows, source)
        name = "exact"
        if found is None:
            # One of each kind is enough; a flat prior has to be looked at, which is done record by record.
            normal = source.table is None and isinstance(user.belief, NormalBelief)
            if normal and (user.belief.flat or len(np.unique(self._kinds(), axis=0)) < len(self.rows)):
                return None
            found = drawn_rows(user, self.masks, self.rows, source, self.replicates, self.seed, self.tell)
            name = "simulated"
        return Each(self.rows, found.value, found.error, np.full(len(self.rows), np.nan), [name] * len(self.masks))


def _one_kind(layout: Layout) -> bool:
    """Whether all rows of a random sample are treated alike, so that it does not matter which of them a record is."""
    kept = min(int(p.starts[1]) for p in layout.partitions if p is not None and p.drawn)
    return len(np.unique(layout.place[layout.starts < kept][:, [0, 2]], axis=0)) == 1
