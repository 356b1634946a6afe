"""The rewrite for users who are wrong or in the dark: they decide by what they believe, and pay by what is so.

A user with ``truth=`` has another belief than the agency; one with ``knows_mask=False`` does not know the mask's
numbers. U is the loss of the user's estimate, averaged over releases and over the posterior of somebody with the
agency's belief who knows the mask. It is never below that one's own U.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from ..beliefs.table.belief import TableBelief
from ..errors import InputError, UnsupportedError
from ..masks.base import Mask
from ..masks.rows import NOTHING
from ..protocols import Loss, Posterior, Solution, Value
from ..running.replication import REPLICATES, replicate_error, replicate_seeds
from ..users.user import User
from .base import Evidence, Ints, Judged, Missing, Plan, Problem, ProgressCallback, Refusal, Rewrite, plan_for
from .names import columns_of
from .unknown_mask import UnknownMask

SAMPLED = 8
"""Releases that are drawn where posteriors are sampled and nothing else was asked for."""


@dataclass(frozen=True, eq=False)
class WrongBelief(Rewrite):
    """Expected loss of a user whose belief is not the agency's, or who does not know the mask.

    Two problems on the same releases: the user's own, and that of somebody with the agency's belief who knows the mask.
    An engine that serves both may have a closed form. It is exact for normal beliefs, linear-Gaussian masks that are
    known, and losses of the error alone; a sum over all releases for finite beliefs, an integral for one number with
    noise. Otherwise it is an average over releases (100 unless ``replicates`` says otherwise) of the expected loss
    under the agency's posterior, with the error of that average. With data the releases are those of the data.
    """

    own: Plan = field(kw_only=True)
    agency: Plan = field(kw_only=True)
    closed: Callable[[Problem, ProgressCallback | None], Judged] | None = field(kw_only=True)

    @classmethod
    def of(cls, choice: Any, problem: Problem) -> WrongBelief | Refusal:
        """The plan where both posteriors are computed by engines that are chosen."""
        if problem.user.target.asks_row:
            what = "Which row is whose is not available for a user with another belief or an unknown mask"
            return Refusal(what, "Leave out truth= and knows_mask=, or ask for Record(j)", Missing.TARGET)
        user, other = (problem.of_user(party) for party in parties(problem.user))
        agency = plan_for(choice, other)
        own = plan_for(choice, user) if user.user.knows_mask else UnknownMask.of(choice, user)
        if isinstance(own, Refusal):
            return own
        closed = agency.engine.wrong_belief(own, agency) if type(own.engine) is type(agency.engine) else None
        return cls(agency.engine, problem, asked=choice, own=own, agency=agency, closed=closed)

    def run(
        self,
        piece: Sequence[int] | None = None,
        on_progress: ProgressCallback | None = None,
        interruptible: bool = False,
    ) -> list[Solution]:
        problem = self.problem if piece is None else self.problem.only(piece)
        own, masks = self.own.problem.user, problem.masks
        if own.plain and own.belief is self.agency.problem.user.belief:
            plain = self.agency.run(piece, on_progress)[0]
            return [plain._replace(diagnostics={**plain.diagnostics, "believed": plain.uncertainty})]
        if self.closed is None:
            nothing = np.zeros(len(masks))
            judged = Judged(Value(nothing, nothing), nothing, None, [""] * len(masks), range(len(masks)))
        else:
            judged = self.closed(problem, on_progress)
        value, error, believed = np.array([*judged.cost, judged.believed])
        names = list(judged.engine)
        for done, i in enumerate(judged.remaining):
            part = None if on_progress is None else lambda x, done=done: on_progress((done + x) / len(judged.remaining))
            (value[i], error[i]), believed[i] = self.drawn(masks[i], part)
            names[i] = f"{self.engine.name}, averaged over releases"
        before = self._before() if judged.before is None else judged.before
        words = names[0] if len(set(names)) == 1 else names
        averaged = judged.averaged or bool(judged.remaining)
        return [Solution(value, error, before, words, {"believed": believed}, averaged=averaged)]

    def posterior(self, mask: Mask, release: Any = None) -> Posterior:
        """The user's own posterior after one release."""
        return self.own.posterior(mask, release)

    def posteriors(self, mask: Mask, releases: Iterable[Any]) -> Iterator[Evidence]:
        """The user's own."""
        return self.own.posteriors(mask, releases)

    def row_kinds(self, problem: Problem, rows: Ints) -> Ints:
        """Rows that both parties treat alike, with the same record where there are data."""
        right = self.engine.row_kinds(self.agency.problem, self.agency.built, rows, located=True)
        return np.concatenate([self.own.row_kinds(replace(self.own.problem, data=None), rows), right], axis=1)

    def drawn(self, mask: Mask, on_progress: ProgressCallback | None = None) -> tuple[tuple[float, float], float]:
        """Loss over drawn releases with its error, and the loss that the user expects."""
        problem, user = self.problem, self.own.problem.user
        count = REPLICATES if problem.replicates is None else problem.replicates
        if problem.replicates is None and (self.own.engine.planned or self.engine.planned):
            count = 1 if problem.data is not None else SAMPLED  # every release is a run of a sampler
        costs, within, believed = np.zeros((3, count))
        first, second = itertools.tee(self._releases(mask, count))
        pairs = zip(self.own.posteriors(mask, first), self.agency.posteriors(mask, second), strict=True)
        for r, (mine, right) in enumerate(pairs):
            estimate = user.loss.estimate(mine.posterior, user.actions)
            costs[r], within[r] = cost_of(user.loss, right.posterior, estimate)
            believed[r] = float(user.loss.uncertainty(mine.posterior, user.actions).value)
            if on_progress is not None:
                on_progress((r + 1) / count)
        error = replicate_error(costs) if count > 1 else within[0]
        return (float(costs.mean()), float(error)), float(believed.mean())

    def _releases(self, mask: Mask, count: int) -> Iterator[Any]:
        """Releases of the data, or of files drawn from the agency's belief."""
        belief, data = self.agency.problem.user.belief, self.problem.data
        for for_data, for_mask, _ in replicate_seeds(self.problem.seed, count):
            records = belief.draw(np.random.default_rng(for_data)) if data is None else data
            # A frame keeps the row numbers, which tell who is in a sample; a table of counts has no rows.
            yield mask.release(records if isinstance(belief, TableBelief) else _numbered(records, belief), for_mask)

    def _before(self) -> float:
        """Expected loss before any release."""
        users = (replace(self.own.problem.user, knows_mask=True, mask_prior=None), self.agency.problem.user)
        data, loss, actions = self.problem.data, users[0].loss, users[0].actions
        try:
            nothing = None
            if self.own.engine.planned or self.engine.planned:
                # A sampler wants to see a release, be it one that tells nothing.
                rows = users[1].belief.draw(np.random.default_rng(0)) if data is None else data
                nothing = NOTHING.release(_numbered(rows, users[1].belief), 0)
            own, right = (
                plan_for(self.asked, Problem.of(u, [NOTHING], data)).posterior(NOTHING, nothing) for u in users
            )
        except (InputError, UnsupportedError):
            # No U before any release is a number that is not known, not a study that cannot be solved.
            return float("nan")
        for law in (own, right):
            if not np.isfinite(law.var()).all():
                return float(loss.uncertainty(law, actions).value)
        return float(cost_of(loss, right, loss.estimate(own, actions)).value)


def parties(user: User) -> tuple[User, User]:
    """The user as he decides, and somebody with the agency's belief who knows the mask."""
    right = user.belief if user.truth is None else user.truth
    return replace(user, truth=None), replace(user, belief=right, truth=None, knows_mask=True, mask_prior=None)


def cost_of(loss: Loss, actual: Posterior, estimate: Any) -> Value:
    """Expected loss of an estimate under a posterior.

    An estimate may be a law itself, as scores of forecasts take it.
    """
    if hasattr(estimate, "log_density"):
        return actual.expect(lambda theta: loss(estimate, theta))
    if hasattr(loss, "expected"):
        return loss.expected(actual, estimate)  # type: ignore[no-any-return]
    return actual.expect(lambda theta: loss(estimate, theta), at=estimate)


def _numbered(records: Any, belief: Any) -> pd.DataFrame:
    """Records whose index numbers their rows, under the belief's names."""
    if isinstance(records, (pd.Series, pd.DataFrame)):
        return pd.DataFrame(records.reset_index(drop=True))
    return pd.DataFrame(records, columns=columns_of(belief, len(records)))
