"""The rewrite for users who are wrong or in the dark: they decide by what they believe, and pay by what is so.

A user with ``truth=`` has another belief than the agency; one with ``knows_mask=False`` does not know the mask's
numbers. U is the loss of the user's estimate, averaged over releases and over the posterior of somebody with the
agency's belief who knows the mask. It is never below that one's own U.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from ..beliefs.table.belief import TableBelief
from ..errors import InputError, UnsupportedError
from ..masks.base import Mask
from ..masks.rows import NOTHING
from ..protocols import Array, Ints, Loss, Posterior, Solution, Value
from ..running.replication import Watched, replicate_error, replicate_seeds
from ..users.user import User
from .base import (
    Evidence,
    Judged,
    MaskMixture,
    Missing,
    Plan,
    Problem,
    Progress,
    Refusal,
    Rewrite,
    part_of,
    plan_for,
    silent,
)
from .names import columns_of
from .unknown_mask import UnknownMask, combined_weights, log_evidence

MISLED = 120
"""Releases that are drawn at least where the mask is not known, as few of them cost a lot."""
SAMPLED = 8
"""Releases that are drawn where posteriors are sampled and nothing else was asked for."""


@dataclass(frozen=True, eq=False)
class WrongBelief(Rewrite):
    """Expected loss of a user whose belief is not the agency's, or who does not know the mask.

    Two problems on the same releases: the user's own, and that of somebody with the agency's belief who knows the mask.
    An engine that serves both may have a closed form. It is exact for normal beliefs, linear-Gaussian masks that are
    known, and losses of the error alone; a sum over all releases for finite beliefs, an integral for one number with
    noise. Otherwise it is an average over releases (100 unless ``replicates`` says otherwise, 8 where posteriors are
    sampled) of the expected loss under the agency's posterior, with the error of that average. With data the releases
    are those of the data. Few releases would not show what it costs not to know the mask: without data 120 are drawn at
    least.
    """

    own: Plan = field(kw_only=True)
    agency: Plan = field(kw_only=True)
    closed: Callable[[Problem], Judged] | None = field(kw_only=True)

    @classmethod
    def of(cls, choice: object, problem: Problem) -> WrongBelief | Refusal:
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

    def solve(self, problem: Problem) -> list[Solution]:
        own, masks = self.own.problem.user, problem.masks
        if own.plain and own.belief is self.agency.problem.user.belief:
            plain = self.agency.solve(replace(self.agency.problem, masks=masks, progress=problem.progress))[0]
            return [plain._replace(diagnostics={**plain.diagnostics, "believed": plain.uncertainty})]
        if self.closed is None:
            nothing = np.zeros(len(masks))
            judged = Judged(Value(nothing, nothing), nothing, None, [""] * len(masks), range(len(masks)))
        else:
            judged = self.closed(problem)
        value, error, believed = np.array([*judged.cost, judged.believed])
        names = list(judged.engine)
        for done, i in enumerate(judged.remaining):
            part = part_of(problem.progress, done, len(judged.remaining))
            (value[i], error[i]), believed[i] = self.drawn(masks[i], part)
            names[i] = f"{self.engine.name}, averaged over releases"
        before = self._before() if judged.before is None else judged.before
        words = names[0] if len(set(names)) == 1 else names
        averaged = judged.averaged or bool(judged.remaining)
        return [Solution(value, error, before, words, {"believed": believed}, averaged=averaged)]

    def posterior(self, mask: Mask, release: object = None) -> Posterior:
        """The user's own posterior after one release."""
        return self.own.posterior(mask, release)

    def posteriors(self, mask: Mask, releases: Iterable[object]) -> Iterator[Evidence]:
        """The user's own."""
        return self.own.posteriors(mask, releases)

    def row_kinds(self, problem: Problem, rows: Ints) -> Ints:
        """Rows that both parties treat alike, with the same record where there are data."""
        right = self.engine.row_kinds(self.agency.problem, self.agency.built, rows, located=True)
        return np.concatenate([self.own.row_kinds(replace(self.own.problem, data=None), rows), right], axis=1)

    def drawn(self, mask: Mask, on_progress: Progress = silent) -> tuple[Value, float]:
        """Loss over drawn releases with its error, and the loss that the user expects."""
        problem, user = self.problem, self.own.problem.user
        count = problem.count
        if problem.replicates is None and (self.own.engine.planned or self.engine.planned):
            count = SAMPLED  # every release is a run of a sampler
        masks = self._misleading(mask)
        count = count if masks is None else max(count, MISLED)
        misled = None if masks is None else Misled(masks, count)
        costs, within, believed = np.zeros((3, count))
        first, second, third = itertools.tee(self._releases(mask, count, misled), 3)
        pairs = zip(self.own.posteriors(mask, first), self.agency.posteriors(mask, second), third, strict=True)
        for r, (mine, right, release) in enumerate(pairs):
            estimate = user.loss.estimate(mine.posterior, user.actions)
            costs[r], within[r] = cost_of(user.loss, right.posterior, estimate)
            believed[r] = float(user.loss.uncertainty(mine.posterior, user.actions).value)
            if misled is not None:
                misled.take(release, right, costs[r])
            on_progress((r + 1) / count)
        if misled is not None:
            weights = misled.weights()
            return _ratio(weights, costs), float(_ratio(weights, believed).value)
        error = replicate_error(costs) if count > 1 else within[0] if self._still(mask) else np.nan
        return Value(costs.mean(), np.asarray(error)), float(believed.mean())

    def _misleading(self, mask: Mask) -> MaskMixture | None:
        """The masks that the user thinks possible, where releases by these tell what being misled costs; or None."""
        one_belief = self.own.problem.user.belief is self.agency.problem.user.belief
        if not isinstance(self.own, UnknownMask) or self.problem.data is not None or not one_belief:
            return None
        mixture = self.own.mixture(mask)
        return mixture if len(mixture.masks) > 1 else None

    def _still(self, mask: Mask) -> bool:
        """Whether another release of the data would be the same."""
        rng = Watched(np.random.PCG64(0))
        if self.problem.data is not None:
            mask.release(_numbered(self.problem.data, self.agency.problem.user.belief), rng)
        return self.problem.data is not None and not rng.used

    def _releases(self, mask: Mask, count: int, misled: Misled | None) -> Iterator[Any]:
        """Releases of the data, or of files drawn from the agency's belief; every other one by a misleading mask."""
        belief, data = self.agency.problem.user.belief, self.problem.data
        for r, (for_data, for_mask, for_draws) in enumerate(replicate_seeds(self.problem.seed, count)):
            records = belief.draw(np.random.default_rng(for_data)) if data is None else data
            maker = mask if misled is None or r % 2 == 0 else misled.maker(np.random.default_rng(for_draws.spawn(1)[0]))
            # A frame keeps the row numbers, which tell who is in a sample; a table of counts has no rows.
            yield maker.release(records if isinstance(belief, TableBelief) else _numbered(records, belief), for_mask)

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


class Misled:
    """Releases by masks that the user thinks possible, and how much they count.

    Most releases cost about as much as if the mask were known, and a few cost a lot: those that look as if another mask
    had made them. Every other release is therefore made by a mask that the user thinks possible, in the second half by
    those that made the dear ones, and weighed by how much likelier the mask itself is to make it (importance sampling
    from a defensive mixture; Hesterberg, 1995). Weights are 2 at most.
    """

    def __init__(self, mixture: MaskMixture, count: int) -> None:
        self.mixture, self.half = mixture, 2 * (count // 4)
        self.chances = [np.asarray(mixture.prior)]
        self.seen: list[tuple[Array, Array, float, float]] = []
        """Log density of each release and its rank, under every candidate and under the mask itself."""
        self.costs: list[float] = []

    def maker(self, rng: np.random.Generator) -> Mask:
        """The mask of the next release."""
        return self.mixture.masks[int(rng.choice(len(self.mixture.masks), p=self.chances[-1]))]

    def take(self, release: object, right: Evidence, cost: float) -> None:
        """Look at a release; after half of them it is known which masks make those that matter."""
        self.seen.append((*self.mixture.log_densities(release), right.log, right.dimension))
        self.costs.append(cost)
        if len(self.seen) == self.half:
            weights, costs = self.weights(), np.array(self.costs)
            matters = weights * np.abs(costs - weights @ costs / weights.sum())
            parts = [_responsible(self.chances[0], log, rank) for log, rank, _, _ in self.seen]
            better = matters @ np.stack(parts) + 1e-300
            self.chances.append(0.3 * self.chances[0] + 0.7 * better / better.sum())

    def weights(self) -> Array:
        """Of the releases so far: how much likelier each is by the mask itself than by all that made them."""
        count = len(self.seen)
        made = [min(count, self.half) // 2, max(0, count - self.half) // 2]
        shares = [(count - sum(made)) / count, *(m / count for m in made)]
        total = np.full(count, shares[0])
        for share, chances in zip(shares[1:], self.chances, strict=False):
            logs = [_log_ratio(log_evidence(chances, log, rank), (own, at)) for log, rank, own, at in self.seen]
            with np.errstate(over="ignore"):
                total += share * np.exp(logs)
        return 1 / total


def _responsible(chances: Array, log: Array, rank: Array) -> Array:
    """Chances of the masks that may have made a release."""
    possible = (log > -np.inf) & (chances > 0)
    return combined_weights(chances, log, rank) if possible.any() else np.zeros(len(chances))


def _log_ratio(own: tuple[float, float], actual: tuple[float, float]) -> float:
    """Log of how much likelier a release is by one law than by another; that on the smaller space has it all."""
    if own[1] != actual[1] and np.isfinite([own[0], actual[0]]).all():
        return np.inf if own[1] < actual[1] else -np.inf
    return np.inf if actual[0] == -np.inf else own[0] - actual[0]


def _ratio(weights: Array, values: Array) -> Value:
    """Weighted mean with the error of a ratio."""
    mean = weights @ values / weights.sum()
    error = np.sqrt(np.sum((weights * (values - mean)) ** 2) * len(values) / (len(values) - 1)) / weights.sum()
    return Value(np.asarray(mean), np.asarray(error))


def _numbered(records: Any, belief: Any) -> pd.DataFrame:
    """Records whose index numbers their rows, under the belief's names."""
    if isinstance(records, (pd.Series, pd.DataFrame)):
        return pd.DataFrame(records.reset_index(drop=True))
    return pd.DataFrame(records, columns=columns_of(belief, len(records)))
