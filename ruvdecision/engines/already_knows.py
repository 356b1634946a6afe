"""The rewrite for users who already know something of the records: every release comes with it.

A mask m becomes ``m & known``, and U before the release is U after ``known`` alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ..masks.base import Batch, Joint, Mask
from ..masks.rows import NOTHING
from ..protocols import Ints, Posterior, Root, Solution
from ..users.user import User
from .base import BaseEngine, Evidence, Missing, Piece, Plan, Problem, Progress, Refusal, Rewrite, no_progress, plan_for


@dataclass(frozen=True, repr=False)
class Informed(Joint):
    """A release, and what a user knows beside it: even where the mask is not told, that is."""

    def __post_init__(self) -> None:
        """The two stay apart, whatever they are made of."""

    @property
    def public_mask(self) -> Mask:
        return self.masks[1]


@dataclass(frozen=True, eq=False)
class AlreadyKnows(Rewrite):
    """Uncertainty of a user for whom a release adds to what he knows."""

    inner: Plan = field(kw_only=True)
    """That of a user without knowledge, for releases that come with it."""

    @classmethod
    def of(cls, choice: object, problem: Problem) -> AlreadyKnows | Refusal:
        """The plan where the posteriors are computed by an engine that is chosen."""
        if problem.user.target.asks_row:
            what = "Which row is whose is not available for a user who already knows something of the records"
            return Refusal(what, "Leave out knows=, or ask for Record(j)", Missing.TARGET)
        users = tuple(replace(user, knows=None) for user in problem.users)
        masks = Batch(_with_known_release(mask, problem) for mask in problem.masks)
        inner = plan_for(choice, replace(problem, users=users, masks=masks, cache={}))
        return cls(inner.engine, problem, asked=choice, inner=inner)

    @property
    def group(self) -> Hashable:
        return *self.inner.group, id(self.problem.user.knows)  # type: ignore[misc]

    @property
    def scheduling_engine(self) -> BaseEngine:
        return self.inner.scheduling_engine

    @property
    def pieces(self) -> list[list[int]]:
        return self.inner.pieces

    def with_other_seed(self, replicates: int | None, seed: Root) -> Plan:
        problem = replace(self.problem, replicates=replicates, seed=seed)
        return replace(self, problem=problem, inner=self.inner.with_other_seed(replicates, seed))

    def solved_together(self, users: Sequence[User]) -> Plan:
        inner = self.inner.solved_together([replace(user, knows=None) for user in users])
        return replace(self, problem=replace(self.problem, users=tuple(users)), inner=inner)

    def run(
        self, piece: Piece = None, on_progress: Progress = no_progress, interruptible: bool = False
    ) -> list[Solution]:
        before, after = self._before, self.inner.run(piece, on_progress, interruptible)
        return [
            a._replace(before=float(b.uncertainty[0]), before_error=float(b.error[0]))
            for a, b in zip(after, before, strict=True)
        ]

    @cached_property
    def _before(self) -> list[Solution]:
        """Before any release but what is known; all pieces share it."""
        start = replace(self.inner.problem, masks=Batch([_with_known_release(NOTHING, self.problem)]), cache={})
        return plan_for(self.asked, start.of_user(start.user)).solved_together(start.users).run()

    def posterior(self, mask: Mask, release: object = None) -> Posterior:
        return self.inner.posterior(_with_known_release(mask, self.problem), release)

    def posteriors(self, mask: Mask, releases: Iterable[object]) -> Iterator[Evidence]:
        return self.inner.posteriors(_with_known_release(mask, self.problem), releases)

    def row_kinds(self, problem: Problem, rows: Ints) -> Ints:
        return self.inner.row_kinds(self.inner.problem, rows)


def join_known_release(user: Any, mask: Mask) -> tuple[Any, Mask]:
    """A user without knowledge, and a release that comes with it."""
    return (user, mask) if user.knows is None else (replace(user, knows=None), Informed((mask, user.knows)))


def _with_known_release(mask: Mask, problem: Problem) -> Mask:
    return join_known_release(problem.user, mask)[1]
