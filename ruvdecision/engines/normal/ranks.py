"""The engine for order statistics: what a Bayesian user believes about the largest record, or the one of any rank."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import pandas as pd

from ...beliefs.normal import NormalBelief
from ...channels.linear import LinearChannel
from ...channels.samples import refuse_open_samples
from ...channels.steps import resolve
from ...errors import UnsupportedError
from ...losses.base import as_bayes_loss
from ...masks.base import Mask
from ...masks.rows import NOTHING, UNMASKED
from ...numerics.orderstatistics import normal_moments, paired_gap
from ...posteriors import Drawn, Gaussian
from ...protocols import Array, Posterior, Root, Solution, Value
from ...running.replication import replicate_error, replicate_seeds
from ...users.rules import Ranked
from ...users.user import User
from ..base import ORDER, BaseEngine, Missing, Problem, Question, Refusal, needs_release
from .conditioning import Conditioned
from .releases import as_records, belief_facts, channel_of, linear_channel, released

DRAWS = 1000
LARGEST = 20_000_000
"""Draws times records; more would not fit into memory comfortably."""


@dataclass(frozen=True)
class Ranks(BaseEngine):
    """Posterior of `Maximum()`, `Minimum()`, `Percentile(p)` and `OrderStatistic(rank)` under a `NormalBelief`.

    For squared error, one variable and equal normal noise (in any order of the rows) the expected posterior variance
    is exact: given the release, two draws of the records are n pairs of correlation rho = s2 / (s2 + l2), and half
    their mean squared difference in the order statistic is the posterior variance; an unknown mean adds (1 - rho)^2 V.
    Otherwise the records are drawn from their joint posterior and ranked: a draw of records and release from the
    belief gives the residual x - E(x | release), whose law does not depend on what was released.
    """

    name = "ranks"
    beliefs = (NormalBelief,)
    stands_in = True
    companions = ORDER[Question.POSTERIOR]

    def prepare(self, problem: Problem) -> Refusal | None:
        user = problem.user
        if not user.target.is_order_statistic:
            what = f"Ranks needs an order statistic as target; this user is after {user.target.describe()}"
            return Refusal(what, "Use engine='auto'", Missing.USER)
        for mask in problem.masks:
            if not self._closed_form(user, mask, problem.data):
                if user.belief.records * user.belief.k * DRAWS > LARGEST:
                    what, do = "Too many records to draw from their posterior", "Use squared error and plain noise"
                    return Refusal(what, do, Missing.LOSS, user.belief.records)
                self._channel_of_mask(user.belief, mask, problem.data)
        return None

    def run(self, problem: Problem, built: None) -> list[Solution]:
        user, masks, data = problem.user, problem.masks, problem.data
        belief = user.belief
        user.target.rank(belief.records)
        table = None if data is None else as_records(belief, data)
        value, error, names = np.empty(len(masks)), np.zeros(len(masks)), []
        for i, mask in enumerate(masks):
            if self._closed_form(user, mask, data):
                found = user.loss.uncertainty(Gaussian.scalar(0.0, self._expected_variance(user, mask)))
                names.append("exact")
            else:
                found = self._average_over_draws(user, mask, table, problem.count, problem.seed)
                names.append("drawn")
            value[i], error[i] = float(found.value), float(found.error)
            problem.progress((i + 1) / len(masks))
        return [Solution(value, error, self._uncertainty_before(user), names[0] if len(set(names)) == 1 else names)]

    def posterior(self, user: User, mask: Mask, release: object = None) -> Posterior:
        """Posterior after one release, as draws."""
        if release is None:
            raise needs_release(mask)
        given = Conditioned(user.belief, self._channel_of_mask(user.belief, mask, None))
        values, _ = released(user.belief, given.channel, release)
        residuals = self._draw_residuals(user.belief, mask, given, 2 * DRAWS, np.random.SeedSequence(0))
        return self._law_of_rank(user, given.means(values).records() + residuals)

    # -- in closed form ------------------------------------------------------------------------------------

    def _closed_form(self, user: User, mask: Mask, data: object) -> bool:
        second_order = user.actions is None and as_bayes_loss(user.loss).second_order
        if not second_order or user.belief.k != 1 or data is not None:
            return False
        channel = linear_channel(user.belief, mask)
        return channel is not None and channel.equal_noise_variance() is not None

    def _expected_variance(self, user: User, mask: Mask) -> float:
        """Expected posterior variance of the order statistic."""
        belief = user.belief
        n, s2 = belief.records, float(belief.record_covariance[0, 0])
        total = channel_of(belief, mask).equal_noise_variance()
        rank = user.target.rank(n)
        assert total is not None and rank is not None
        noise = float(total[0])
        if np.isinf(noise):
            mean = np.inf if belief.mu_covariance is None else float(belief.mu_covariance[0, 0])
            return float(mean + s2 * normal_moments(n, rank).variance)
        away = noise / (s2 + noise)
        precision = n / (s2 + noise)
        shift = 1 / precision
        if belief.mu_covariance is not None:
            shift = belief.mu_covariance[0, 0] / (1 + belief.mu_covariance[0, 0] * precision)
        return float(s2 * paired_gap(n, rank, 2 * np.arcsin(np.sqrt(away / 2))) / 2 + away**2 * shift)

    def _uncertainty_before(self, user: User) -> float:
        if user.belief.mu_covariance is None:
            return (
                float(user.loss.uncertainty(Gaussian.scalar(0.0, np.inf)).value) if user.belief.k == 1 else float("inf")
            )
        if self._closed_form(user, NOTHING, None):
            return float(user.loss.uncertainty(Gaussian.scalar(0.0, self._expected_variance(user, NOTHING))).value)
        seeds = list(replicate_seeds(np.random.SeedSequence(0), 4 * DRAWS))
        files = np.stack([user.belief.draw(np.random.default_rng(s[0])) for s in seeds])
        drawn = files.reshape(len(seeds), user.belief.records, user.belief.k)
        return float(user.loss.uncertainty(self._law_of_rank(user, drawn), user.actions).value)

    # -- by drawing ------------------------------------------------------------------------------------------

    def _average_over_draws(self, user: User, mask: Mask, data: Array | None, count: int, seed: Root) -> Value:
        belief = user.belief
        if data is None and belief.mu_covariance is None:
            what = "The uncertainty depends on the release, and a flat prior gives no law to average over"
            raise UnsupportedError(what, do="Give prior_variance=, pass data=, or use squared error and plain noise")
        given = Conditioned(belief, self._channel_of_mask(belief, mask, data))
        residuals = self._draw_residuals(belief, mask, given, DRAWS, seed)
        uncertainties, within = np.empty(count), np.empty(count)
        for r, (for_data, for_mask, _) in enumerate(replicate_seeds(seed, count)):
            records = pd.DataFrame(
                belief.draw(np.random.default_rng(for_data)) if data is None else data, columns=belief.columns
            )
            values, _ = released(belief, given.channel, mask.release(records, for_mask))
            found = user.loss.uncertainty(
                self._law_of_rank(user, given.means(values).records() + residuals), user.actions
            )
            uncertainties[r], within[r] = float(found.value), float(found.error)
        between = float(replicate_error(uncertainties)) if count > 1 else 0.0
        # The replicates share their residuals, so the error within one of them does not average out.
        return Value(np.asarray(uncertainties.mean()), np.asarray(np.hypot(between, within.mean())))

    def _channel_of_mask(self, belief: NormalBelief, mask: Mask, data: object) -> LinearChannel:
        channel = channel_of(belief, mask, data=None if data is None else as_records(belief, data))
        refuse_open_samples(channel, "order statistics")
        if channel.scrambled or (channel.location == "unknown" and channel.width > channel.columns):
            what = "Shuffled groups hide which rows belong together, so their records cannot be drawn"
            raise UnsupportedError(what, str(mask), "Put Shuffle() first in the chain")
        return channel

    def _draw_residuals(self, belief: NormalBelief, mask: Mask, given: Conditioned, count: int, seed: Root) -> Array:
        """Draws of x - E(x | release), shape (draws, n, k). Under a flat prior they are the same for every mean."""
        found = np.empty((count, belief.records, belief.k))
        root = np.random.SeedSequence(0) if seed is None else seed
        own = np.random.SeedSequence(entropy=root.entropy, spawn_key=(*root.spawn_key, 2**31))
        fixed = belief
        if belief.mu_covariance is None:
            known: dict[str, Any] = {
                "covariance": belief.record_covariance,
                "prior_mean": belief.mu_mean,
                "columns": belief.columns,
            }
            fixed = NormalBelief(records=belief.records, prior="known", **known)
        # Ranks do not ask which row is whose, and the belief takes all orders alike: what is drawn may stay in place.
        moved = {id(f.mask) for f in resolve(mask, belief_facts(belief)) if f.step.permutes}
        kept = tuple(part for part in mask.parts if id(part) not in moved)
        still = reduce(or_, kept) if kept else UNMASKED
        for i, (for_data, for_mask, _) in enumerate(replicate_seeds(own, count)):
            x = np.reshape(fixed.draw(np.random.default_rng(for_data)), (belief.records, belief.k))
            release = still.release(pd.DataFrame(x, columns=belief.columns), for_mask)
            values, place = released(belief, given.channel, release)
            found[i] = np.empty_like(x)
            found[i][place] = x
            found[i] -= given.means(values).records()
        return found

    def _law_of_rank(self, user: User, records: Array) -> Drawn:
        ranked = Ranked(user.target).of(records)
        return Drawn(ranked[:, 0] if user.belief.scalar else ranked)
