"""A finite belief that is not the agency's, or a mask that is not published: expected loss by enumeration.

The user sums over states and over what the mask may have been; the agency over its own states under the mask that was
used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logsumexp

from ...beliefs.finite import FiniteBelief
from ...channels.finite import FiniteChannel, Slots, record_covariance
from ...errors import InputError, UnsupportedError
from ...masks.base import Mask
from ...numerics.quadrature import adaptive
from ...posteriors import Finite
from ...protocols import Array, Value
from ...running.replication import REPLICATES, replicate_error, replicate_seeds
from ...targets import BaseTarget, Kind
from ...users.mask_prior import MaskPrior
from ...users.user import User
from ..base import Refusal
from ..unknown_mask import combined_weights
from .enumeration import BATCH, Enumeration
from .evidence import log_joint
from .joint_belief import Pair
from .law import FiniteLaw, TooManyReleases
from .plan import plan_of
from .tables import AVERAGED

Ints = NDArray[np.int64]


class WrongFiniteBelief:
    """One user, one mask: the user's posteriors and the agency's."""

    def __init__(
        self, own: User, truth: FiniteBelief, mask: Mask, scale: Array | None = None, limit: int | None = None
    ) -> None:
        self.own, self.mask = own, mask
        self.limit = Enumeration().limit if limit is None else limit
        self.belief, self.truth = _on_common_levels(own.belief, truth, own.target)
        self.masks: tuple[Mask, ...] = (mask,)
        self.prior: Array = np.ones(1)
        if not own.knows_mask:
            prior = own.mask_prior or MaskPrior()
            size = 1.0 if self.belief.levels.labelled else float(np.mean(np.diag(record_covariance(self.belief))))
            self.masks, self.prior = prior.candidates(mask, size, self.belief.records)
        self.actual = FiniteChannel.of(self.truth, mask, scale)
        # The noise is what it is: where its size is a share of the records' covariance, both sides take the agency's.
        share = scale if scale is not None or self.truth.levels.labelled else record_covariance(self.truth)
        self.channels = [FiniteChannel.of(self.belief, m, share) for m in self.masks]
        self.laws = [
            FiniteLaw(self.belief, plan_of(self.belief, own.target, self.limit), c, self.limit) for c in self.channels
        ]
        self.law = FiniteLaw(self.truth, plan_of(self.truth, own.target, self.limit), self.actual, self.limit)

    # -- posteriors ----------------------------------------------------------------------------------

    def after(self, release: Any) -> Finite:
        """The user's posterior after one release."""
        return Finite(self.laws[0].plan.values, self.mixed(release))

    def mixed(self, release: Any) -> Array:
        """The user's probabilities of the target's values after one release."""
        if len(self.laws) == 1:
            return self.laws[0].after(self.channels[0].read(release))
        logs, ranks = np.full(len(self.laws), -np.inf), np.zeros(len(self.laws))
        chances = np.zeros((len(self.laws), len(self.laws[0].plan.values)))
        for i, law in enumerate(self.laws):
            found = log_joint(law, release)
            if found is not None:
                joint, ranks[i] = found
                logs[i] = float(logsumexp(joint))
                chances[i] = np.exp(joint - logs[i]) if logs[i] > -np.inf else 0.0
        return np.asarray(combined_weights(self.prior, logs, ranks) @ chances)

    # -- expected loss -------------------------------------------------------------------------------

    def expected(self, codes: Ints | None, replicates: int | None, seed: Any) -> tuple[Value, Value, str]:
        """Expected loss of the user's estimates over the agency's belief, the loss that the user expects, and how.

        ``codes`` are the records if they are given.
        """
        if self._one_number and codes is None:
            return *self._over_the_line(), "enumeration"
        if not any(c.continuous for c in (*self.channels, self.actual)) and (codes is None or not self.actual.sampled):
            listed = self._listed(codes)
            if not isinstance(listed, Refusal):
                return *listed, "enumeration"
        return *self._drawn(codes, replicates, seed), AVERAGED

    def costs(self, own: Array, actual: Array) -> tuple[Value, Value]:
        """Expected loss of the user's estimates by the agency's posteriors, and by the user's own.

        One row per release.
        """
        mine, theirs = self.laws[0].plan.values, self.law.plan.values
        step = max(1, BATCH // max(len(mine), len(theirs)))
        parts: list[list[Array]] = [[], [], [], []]
        for i in range(0, len(own), step):
            own_law, right = Finite(mine, own[i : i + step]), Finite(theirs, actual[i : i + step])
            estimate = self.own.loss.estimate(own_law, self.own.actions)
            for j, value in (
                (0, cost_of(self.own.loss, right, estimate)),
                (2, self.own.loss.uncertainty(own_law, self.own.actions)),
            ):
                parts[j].append(np.broadcast_to(value.value, (len(own[i : i + step]),)))
                parts[j + 1].append(np.broadcast_to(value.error, (len(own[i : i + step]),)))
        value, error, believed, felt_error = (np.concatenate(p) for p in parts)
        return Value(value, error), Value(believed, felt_error)

    def _listed(self, codes: Ints | None) -> tuple[Value, Value] | Refusal:
        """Over all releases of a mask that gives categories; a refusal where they cannot be listed."""
        try:
            pair = Pair.of(self)
            if isinstance(pair, Refusal):
                return pair
            outputs = pair.law(self.limit).outputs(
                None if codes is None else codes + pair.actual_block * len(self.truth.levels)
            )
        except TooManyReleases as error:
            return Refusal.of(error)
        own, actual = outputs.joint[:, : pair.split], outputs.joint[:, pair.split :]
        weights = 2.0 * actual.sum(axis=1) if codes is None else outputs.weights
        live = weights > 0
        own, actual, weights = own[live], actual[live], weights[live]
        self._check(own.sum(axis=1), actual.sum(axis=1))
        cost, own_law = self.costs(own / own.sum(axis=1, keepdims=True), actual / actual.sum(axis=1, keepdims=True))
        # Errors of separate posteriors may hang together, so they are added and not averaged out.
        return _averaged(weights, cost), _averaged(weights, own_law)

    @property
    def _one_number(self) -> bool:
        """Whether the release is one number with noise, whatever the mask was."""
        laws = [self.law, *self.laws]
        return (
            self.actual.continuous and all(law.one_number for law in laws) and any(c.continuous for c in self.channels)
        )

    def _over_the_line(self) -> tuple[Value, Value]:
        """One number with noise: integrate over it."""
        sides = [
            (p, *_line(law)) for p, law in zip(self.prior, self.laws, strict=True) if law.channel.continuous and p > 0
        ]
        actual = _line(self.law)

        def split(y: Array) -> tuple[Array, Array, Array]:
            logs = [np.log(p) + _log_normal(y, levels, sd) for p, levels, sd, _ in sides]
            top = np.max([part.max(axis=1) for part in logs], axis=0)
            own = sum(np.exp(part - top[:, None]) @ joint for part, (_, _, _, joint) in zip(logs, sides, strict=True))
            right = _log_normal(y, actual[0], actual[1])
            shift = right.max(axis=1)
            share = np.exp(right - shift[:, None]) @ actual[2]
            chance = share.sum(axis=1)
            self._check(np.asarray(own).sum(axis=1), chance)
            return own / np.asarray(own).sum(axis=1, keepdims=True), share / chance[:, None], chance * np.exp(shift)

        def integrand(which: int) -> Any:
            def at(y: Array) -> Array:
                own, right, density = split(y)
                return np.asarray(density * self.costs(own, right)[which].value)

            return at

        levels, sd, joint = actual
        steps = sd * np.array([-13.0, -8.0, -5.0, -3.0, -1.5, 0.0, 1.5, 3.0, 5.0, 8.0, 13.0])
        breaks = np.unique((levels[:, None] + steps).reshape(-1))
        start = joint.sum(axis=0, keepdims=True)
        size = max(
            abs(float(self.own.loss.uncertainty(Finite(self.law.plan.values, start), self.own.actions).value[0])),
            1e-300,
        )
        own_law, real = (adaptive(integrand(i), breaks, absolute=1e-10 * size, budget=100_000) for i in (0, 1))
        return own_law, real

    def _drawn(self, codes: Ints | None, replicates: int | None, seed: Any) -> tuple[Value, Value]:
        """Average over drawn releases, with the same random numbers for every mask."""
        count = REPLICATES if replicates is None else replicates
        own, actual = [], []
        for for_data, for_mask, _ in replicate_seeds(seed, count):
            records = self.truth.draw_codes(np.random.default_rng(for_data)) if codes is None else codes
            if self.own.knows_mask:
                slots = self.actual.simulate(records, np.random.default_rng(for_mask))
                own.append(self.laws[0].after(slots))
                actual.append(self.law.after(slots))
            else:
                release = self.mask.release(pd.DataFrame(self.truth.decode(records)), for_mask)
                own.append(self.mixed(release))
                actual.append(self.law.after(self.actual.read(release)))
        cost, believed = self.costs(np.stack(own), np.stack(actual))
        return tuple(  # type: ignore[return-value]
            Value(np.asarray(v.value.mean()), np.asarray(replicate_error(v.value) if count > 1 else float(v.error[0])))
            for v in (cost, believed)
        )

    def before(self) -> float:
        """Expected loss before any release."""
        silent = FiniteChannel.silent(self.truth)
        empty = np.zeros(0, dtype=np.int64)
        slots = Slots(np.zeros((0, len(self.truth.levels))), empty, empty)
        own, actual = (replace(law, channel=silent).after(slots)[None] for law in (self.laws[0], self.law))
        return float(self.costs(own, actual)[0].value[0])

    def _check(self, own: Array, actual: Array) -> None:
        if np.any(actual <= 0):
            raise InputError(
                "The records cannot come from this belief",
                "probability zero",
                "Check the data, or the prior probabilities that are zero",
            )
        if np.any(own <= 0):
            raise InputError(
                "What the mask releases is impossible in the user's eyes, who then has no posterior",
                "probability zero under the user's belief",
                "Give every state and outcome, or every mask, that the agency thinks possible some prior probability",
            )


def cost_of(loss: Any, actual: Any, estimate: Any) -> Value:
    """Expected loss of an estimate under a posterior.

    An estimate may be a law itself, as scores of forecasts take it.
    """
    if hasattr(estimate, "log_density"):
        return actual.expect(lambda theta: loss(estimate, theta))  # type: ignore[no-any-return]
    if hasattr(loss, "expected"):
        return loss.expected(actual, estimate)  # type: ignore[no-any-return]
    return actual.expect(lambda theta: loss(estimate, theta), at=estimate)  # type: ignore[no-any-return]


# -- one release -------------------------------------------------------------------------------------


def _line(law: FiniteLaw) -> tuple[Array, float, Array]:
    """Outputs before the noise, its standard deviation, and the chance of each output with the target's values."""
    kernel = law.channel.kernels[0]
    assert kernel.noise is not None
    joint = law.outputs_before_noise()
    live = joint.sum(axis=1) > 0
    return kernel.levels()[live, 0], float(np.sqrt(kernel.noise[0, 0])), joint[live]


def _log_normal(y: Array, levels: Array, sd: float) -> Array:
    return np.asarray(-0.5 * ((y[:, None] - levels) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi))


def _on_common_levels(own: FiniteBelief, truth: FiniteBelief, target: BaseTarget) -> tuple[FiniteBelief, FiniteBelief]:
    """Both beliefs over the outcomes of either."""
    if own is truth:
        return own, truth
    if own.levels.labelled != truth.levels.labelled or own.levels.columns != truth.levels.columns:
        raise UnsupportedError(
            "The user's belief and the truth have outcomes of different kinds", do="Use the same outcomes for both"
        )
    if target.is_a(Kind.PARAMETER) and own.states.labelled and own.states.names != truth.states.names:
        raise UnsupportedError(
            "The states of the two beliefs are labels in different orders, so that they cannot be compared",
            do="List the same states in the same order",
        )
    if own.levels.names == truth.levels.names:
        return own, truth
    names = list(dict.fromkeys([*own.levels.names, *truth.levels.names]))
    found = []
    for belief in (own, truth):
        law = np.zeros((len(belief.states), len(names)))
        law[:, [names.index(v) for v in belief.levels.names]] = belief.law
        found.append(replace(belief, likelihood=law, outcomes=names))
    return found[0], found[1]


def _averaged(weights: Array, each: Value) -> Value:
    """The average over releases, with the errors averaged too."""
    return Value(np.asarray(weights @ each.value), np.asarray(weights @ each.error))
