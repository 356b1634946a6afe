"""The rewrite for users who are wrong or in the dark: they decide by what they believe, and pay by what is so.

A user with ``truth=`` has another belief than the agency; one with ``knows_mask=False`` does not know the mask's
numbers. U is the loss of the user's estimate, averaged over releases and over the posterior of somebody with the
agency's belief who knows the mask. It is never below that one's own U.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ..beliefs.table.belief import TableBelief
from ..checks import as_generator
from ..errors import InputError, UnsupportedError
from ..losses.base import is_bayes_loss
from ..masks.base import Batch, Mask
from ..masks.frame import files_of, for_each_file
from ..masks.rows import NOTHING
from ..protocols import Array, Ints, Loss, Posterior, Solution, Value
from ..running.replication import Watched, replicate_error, replicate_seeds
from ..users.mask_prior import MaskPrior
from ..users.user import User
from .base import (
    DecisionCosts,
    Evidence,
    MaskMixture,
    Missing,
    Plan,
    Problem,
    Progress,
    Refusal,
    Rewrite,
    no_progress,
    plan_for,
    progress_of_part,
)

MISLED, FEW_MISLED = 150, 40
"""Releases that are drawn at least where the mask is not known, as few of them cost a lot; where none lie far out."""
STRETCH = (0.0, 0.8, 1.7)
"""How much farther out releases are drawn then, over the square root of their dimension."""
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
    are those of the data. Few releases would not show what it costs not to know the mask: without data 150 are drawn at
    least where beliefs are normal, and 40 where they are finite.
    """

    own: Plan = field(kw_only=True)
    agency: Plan = field(kw_only=True)
    closed: Callable[[Problem], DecisionCosts] | None = field(kw_only=True)

    @classmethod
    def of(cls, choice: object, problem: Problem) -> WrongBelief | Refusal:
        """The plan where both posteriors are computed by engines that are chosen."""
        if problem.user.target.asks_row:
            what = "Which row is whose is not available for a user with another belief or an unknown mask"
            return Refusal(what, "Leave out truth= and knows_mask=, or ask for Record(j)", Missing.TARGET)
        user, other = (problem.of_user(party) for party in user_and_agency(problem.user))
        agency = plan_for(choice, other)
        own = plan_for(choice, user) if user.user.knows_mask else UnknownMask.of(choice, user)
        if isinstance(own, Refusal):
            return own
        closed = agency.engine.wrong_belief(own, agency) if type(own.engine) is type(agency.engine) else None
        return cls(agency.engine, problem, asked=choice, own=own, agency=agency, closed=closed)

    def solve(self, problem: Problem) -> list[Solution]:
        own, masks = self.own.problem.user, problem.masks
        if own.is_rightly_informed and own.belief is self.agency.problem.user.belief:
            plain = self.agency.solve(replace(self.agency.problem, masks=masks, progress=problem.progress))[0]
            return [plain._replace(diagnostics={**plain.diagnostics, "believed": plain.uncertainty})]
        if self.closed is None:
            nothing = np.zeros(len(masks))
            judged = DecisionCosts(Value(nothing, nothing), nothing, None, [""] * len(masks), range(len(masks)))
        else:
            judged = self.closed(problem)
        value, error, believed = np.array([*judged.cost, judged.believed])
        names = list(judged.engine)
        for done, i in enumerate(judged.remaining):
            part = progress_of_part(problem.progress, done, len(judged.remaining))
            (value[i], error[i]), believed[i] = self.loss_over_draws(masks[i], part)
            names[i] = f"{self.engine.name}, averaged over releases"
        before = self._loss_before() if judged.before is None else judged.before
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

    def loss_over_draws(self, mask: Mask, on_progress: Progress = no_progress) -> tuple[Value, float]:
        """Loss over drawn releases with its error, and the loss that the user expects."""
        problem, user = self.problem, self.own.problem.user
        count = problem.count
        dear = self.own.engine.draws_files or self.engine.draws_files
        if problem.replicates is None and dear:
            count = SAMPLED  # every release is a run of a sampler
        wide = None
        if isinstance(self.own, UnknownMask) and problem.data is None and len(self.own.mixture(mask).masks) > 1:
            wide = DefensiveMixture.of(mask, self.agency)
            if wide is not None or not dear:
                count = max(count, MISLED if wide is not None else FEW_MISLED)
        costs, within, believed, logs = np.zeros((4, count))
        first, second = itertools.tee(self._draw_releases(mask, count, wide))
        pairs = zip(self.own.posteriors(mask, first), self.agency.posteriors(mask, second), strict=True)
        for r, (mine, right) in enumerate(pairs):
            estimate = user.loss.estimate(mine.posterior, user.actions)
            costs[r], within[r] = cost_of(user.loss, right.posterior, estimate)
            believed[r] = float(user.loss.uncertainty(mine.posterior, user.actions).value)
            logs[r] = 0.0 if wide is None else right.density()[0]
            on_progress((r + 1) / count)
        if wide is not None:
            weights = wide.weights(logs)
            return _weighted_mean(weights, costs), float(_weighted_mean(weights, believed).value)
        error = replicate_error(costs) if count > 1 else within[0] if self._is_deterministic(mask) else np.nan
        return Value(costs.mean(), np.asarray(error)), float(believed.mean())

    def _is_deterministic(self, mask: Mask) -> bool:
        """Whether another release of the data would be the same."""
        rng = Watched(np.random.PCG64(0))
        if self.problem.data is not None:
            mask.release(_with_row_numbers(self.problem.data, self.agency.problem.user.belief), rng)
        return self.problem.data is not None and not rng.used

    def _draw_releases(self, mask: Mask, count: int, wide: DefensiveMixture | None) -> Iterator[Any]:
        """Releases of the data, or of files drawn from the agency's belief."""
        belief, data = self.agency.problem.user.belief, self.problem.data
        for r, (for_data, for_mask, _) in enumerate(replicate_seeds(self.problem.seed, count)):
            records = belief.draw(np.random.default_rng(for_data)) if data is None else data
            # A frame keeps the row numbers, which tell who is in a sample; a table of counts has no rows.
            found = mask.release(
                records if isinstance(belief, TableBelief) else _with_row_numbers(records, belief), for_mask
            )
            yield found if wide is None else wide.release(r, found, for_mask)

    def _loss_before(self) -> float:
        """Expected loss before any release."""
        users = (replace(self.own.problem.user, knows_mask=True, mask_prior=None), self.agency.problem.user)
        data, loss, actions = self.problem.data, users[0].loss, users[0].actions
        try:
            nothing = None
            if self.own.engine.draws_files or self.engine.draws_files:
                # A sampler wants to see a release, be it one that tells nothing.
                rows = users[1].belief.draw(np.random.default_rng(0)) if data is None else data
                nothing = NOTHING.release(_with_row_numbers(rows, users[1].belief), 0)
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


@dataclass(frozen=True, eq=False)
class UnknownMask(Rewrite):
    """Posteriors of a user who knows the technique and not its numbers; `WrongBelief` judges them."""

    @classmethod
    def of(cls, choice: object, problem: Problem) -> UnknownMask | Refusal:
        """The plan where posteriors under each candidate are computed by an engine that is chosen."""
        if problem.user.target.is_order_statistic:
            what = "Order statistics under an unknown mask are not available"
            return Refusal(what, "Ask for Record(j), or knows_mask=True", Missing.TARGET)
        found = cls(plan_for(choice, problem.of_user(_knowing_mask(problem.user))).engine, problem, asked=choice)
        for family in problem.masks.families:
            found.mixture(problem.masks[family.positions[0]])
        return found

    @cached_property
    def _mixtures_by_release(self) -> dict[int, MaskMixture]:
        return {}

    def mixture(self, mask: Mask) -> MaskMixture:
        """Posteriors over what one mask may have been, built once."""
        if id(mask) not in self._mixtures_by_release:
            self._mixtures_by_release[id(mask)] = self.engine.unknown_mask(self.problem, mask)
        return self._mixtures_by_release[id(mask)]

    def posterior(self, mask: Mask, release: object = None) -> Posterior:
        if release is None:
            what = "What an unknown mask was depends on what is released"
            raise InputError(what, None, "Pass release=mask.release(data, rng)")
        return self.mixture(mask).posterior(release, as_generator(0))

    def posteriors(self, mask: Mask, releases: Iterable[object]) -> Iterator[Evidence]:
        mixture = self.mixture(mask)
        for (_, _, for_draws), release in zip(replicate_seeds(self.problem.seed), releases, strict=False):
            yield Evidence(mixture.posterior(release, np.random.default_rng(for_draws)))

    def row_kinds(self, problem: Problem, rows: Ints) -> Ints:
        """Rows that every candidate treats alike."""
        found = Batch(m for mask in problem.masks for m in (mask, *self.mixture(mask).masks))
        few = Batch(found[family.positions[0]] for family in found.families)
        known = Problem.of(_knowing_mask(self.problem.user), few)
        return plan_for(self.engine, known).row_kinds(known, rows)


def _knowing_mask(user: Any) -> Any:
    """The user if he knew the mask."""
    return replace(user, knows_mask=True, mask_prior=None)


def candidates_of(user: User, mask: Mask, variances: Array) -> tuple[tuple[Mask, ...], Array]:
    """What a mask may have been in a user's eyes, with prior probabilities; ``variances`` are those of a record."""
    if user.knows_mask:
        return (mask,), np.ones(1)
    return (user.mask_prior or MaskPrior()).candidates(mask, float(np.mean(variances)), user.belief.records)


def combined_weights(prior: Array, log: Array, rank: Array) -> Array:
    """Posterior probabilities of candidates. A release in a smaller space is made by those that always put it there."""
    possible = (log > -np.inf) & (prior > 0)
    if not possible.any():
        do = "Widen mask_prior=, or check that the release was made by such a mask"
        raise InputError("The release cannot come from any mask that the user thinks possible", "probability zero", do)
    possible &= rank == rank[possible].min()
    with np.errstate(divide="ignore"):
        total = np.where(possible, log + np.log(np.where(prior > 0, prior, 1.0)), -np.inf)
    weights = np.exp(total - total.max())
    return np.asarray(weights / weights.sum())


def user_and_agency(user: User) -> tuple[User, User]:
    """The user as he decides, and somebody with the agency's belief who knows the mask."""
    right = user.belief if user.truth is None else user.truth
    return replace(user, truth=None), replace(user, belief=right, truth=None, knows_mask=True, mask_prior=None)


def cost_of(loss: Loss, actual: Posterior, estimate: Any) -> Value:
    """Expected loss of an estimate under a posterior.

    An estimate may be a law itself, as scores of forecasts take it.
    """
    if hasattr(estimate, "log_density"):
        return actual.expect(lambda theta: loss(estimate, theta))
    if is_bayes_loss(loss):
        return loss.expected(actual, estimate)
    return actual.expect(lambda theta: loss(estimate, theta), at=estimate)


@dataclass(frozen=True, eq=False)
class DefensiveMixture:
    """Normal releases that lie farther out than those of the mask, and how much they count.

    Most releases cost about as much as if the mask were known; a few cost a lot, those far from what is believed. The
    distance of every other release from the mean is therefore stretched, and it is weighed by how much likelier the
    mask itself is to make it (importance sampling from a defensive mixture; Hesterberg, 1995). Weights are 3 at most.
    """

    mask: Mask
    belief: Any
    top: float
    """Log density at the mean."""
    dimension: float

    @classmethod
    def of(cls, mask: Mask, agency: Plan) -> DefensiveMixture | None:
        """None where releases are not normal, or there is no mean."""
        belief = agency.problem.user.belief
        if not agency.engine.normal or belief.mu_covariance is None:
            return None
        mean = np.broadcast_to(belief.mu_mean, (belief.records, belief.k))
        # Noise of which the data themselves tell the size is not normal.
        some = [files_of(mask.release(_with_row_numbers(f * (mean + 1.0), belief), 0)) for f in (0, 1, 2)]
        if not all(np.allclose(a + c, 2 * b, equal_nan=True) for a, b, c in zip(*some, strict=True)):
            return None
        log, dimension = next(iter(agency.posteriors(mask, [cls(mask, belief, 0.0, 1.0).centre(0)]))).density()
        return cls(mask, belief, log, dimension) if np.isfinite(log) and dimension else None

    @property
    def factors(self) -> Array:
        """How far releases are stretched, in turns."""
        return 1 + np.array(STRETCH) / np.sqrt(self.dimension)

    def centre(self, seed: Any) -> Any:
        """What the mask releases of records at their mean, without its noise."""
        mean = np.broadcast_to(self.belief.mu_mean, (self.belief.records, self.belief.k))
        there, noise = (
            self.mask.release(_with_row_numbers(x, self.belief), seed) for x in (mean, np.zeros(mean.shape))
        )
        return for_each_file(lambda a, b: a - b, there, noise)

    def release(self, r: int, plain: Any, seed: Any) -> Any:
        """The r-th release, from one that the mask made with this seed."""
        factor = float(self.factors[r % len(self.factors)])
        if factor == 1:
            return plain
        # A sample holds other rows every time.
        same = all(a.index.equals(b.index) for a, b in zip(files_of(plain), files_of(self._centre), strict=True))
        return for_each_file(lambda a, b: a + factor * (b - a), self._centre if same else self.centre(seed), plain)

    @cached_property
    def _centre(self) -> Any:
        return self.centre(0)

    def weights(self, logs: Array) -> Array:
        """Of releases with these log densities: how much likelier each is by the mask itself than by all factors."""
        square = 2 * (self.top - logs)
        return 1 / np.mean([np.exp(0.5 * square * (1 - f**-2)) / f**self.dimension for f in self.factors], axis=0)


def _weighted_mean(weights: Array, values: Array) -> Value:
    """Weighted mean with the error of a ratio."""
    mean = weights @ values / weights.sum()
    error = np.sqrt(np.sum((weights * (values - mean)) ** 2) * len(values) / (len(values) - 1)) / weights.sum()
    return Value(np.asarray(mean), np.asarray(error))


def _with_row_numbers(records: Any, belief: Any) -> pd.DataFrame:
    """Records whose index numbers their rows, under the belief's names."""
    if isinstance(records, (pd.Series, pd.DataFrame)):
        return pd.DataFrame(records.reset_index(drop=True))
    return pd.DataFrame(records, columns=belief.column_names(len(records)))
