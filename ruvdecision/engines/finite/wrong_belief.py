"""A finite belief that is not the agency's, or a mask that is not published: expected loss by enumeration.

The user sums over states and over what the mask may have been; the agency over its own states under the mask that was
used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import logsumexp

from ...beliefs.finite import FiniteBelief
from ...channels.finite import FiniteChannel, Kernel, RecordEvidence, record_covariance
from ...channels.samples import refuse_open_samples
from ...errors import InputError, UnsupportedError
from ...masks.base import Mask
from ...masks.rows import NOTHING
from ...numerics.quadrature import adaptive
from ...posteriors import Finite
from ...protocols import Array, Ints, Value
from ...running.replication import mean_of_replicates, replicate_seeds
from ...targets import BaseTarget, Kind
from ...users.user import User
from ..base import DecisionCosts, Problem, Refusal
from ..wrong_belief import candidates_of, combined_weights, cost_of
from .law import FiniteLaw, TooManyReleases
from .tables import AVERAGED
from .target_table import AverageTable, TargetLaw, TargetTable, outcome_codes, target_table

BATCH = 2_000_000
"""Entries of a block of posteriors that are looked at together."""


def decision_costs(pairs: Mapping[int, FinitePair], problem: Problem) -> DecisionCosts:
    """Expected loss after each mask, with its pair by its identity; what has too many releases remains to be drawn."""
    nothing = Value.exact(np.zeros(()))
    found, remaining = [], []
    for i, mask in enumerate(problem.masks):
        pair = pairs[id(mask)]
        codes = None if problem.data is None else outcome_codes(pair.truth, problem.data)
        known = pair.expected(problem, codes)
        found.append((nothing, nothing, "") if known is None else known)
        remaining += [i] if known is None else []
        problem.progress((i + 1) / len(problem.masks))
    value, error = (np.array([float(cost[j]) for cost, _, _ in found]) for j in (0, 1))
    believed, names = np.array([float(b.value) for _, b, _ in found]), [name for _, _, name in found]
    before = pairs[id(problem.masks[0])].before()
    return DecisionCosts(Value(value, error), believed, before, names, remaining, AVERAGED in names)


class FinitePair:
    """One user, one mask: the user's posteriors and the agency's."""

    def __init__(self, own: User, truth: FiniteBelief, mask: Mask, limit: int, scale: Array | None = None) -> None:
        self.own, self.mask, self.limit = own, mask, limit
        self.belief, self.truth = _on_common_levels(own.belief, truth, own.target)
        variance = np.ones(1) if self.belief.levels.labelled else np.diag(record_covariance(self.belief))
        self.masks, self.prior = candidates_of(own, mask, variance)
        self.actual = FiniteChannel.of(self.truth, mask, scale)
        refuse_open_samples(self.actual, "users who are wrong or in the dark about the mask")
        # The noise is what it is: where its size is a share of the records' covariance, both sides take the agency's.
        share = scale if scale is not None or self.truth.levels.labelled else record_covariance(self.truth)
        self.channels = [FiniteChannel.of(self.belief, m, share) for m in self.masks]
        table = target_table(self.belief, own.target, limit)
        self.laws = [FiniteLaw(self.belief, table, channel, limit) for channel in self.channels]
        self.law = FiniteLaw(self.truth, target_table(self.truth, own.target, limit), self.actual, limit)

    # -- posteriors ----------------------------------------------------------------------------------

    def posterior(self, release: object, rng: np.random.Generator) -> Finite:
        """The user's posterior after one release."""
        return Finite(self.laws[0].table.values, self.posterior_probabilities(release))

    def posterior_probabilities(self, release: object) -> Array:
        """The user's probabilities of the target's values after one release."""
        if len(self.laws) == 1:
            return self.laws[0].posterior_probabilities(self.channels[0].read(release))
        logs, ranks = np.full(len(self.laws), -np.inf), np.zeros(len(self.laws))
        chances = np.zeros((len(self.laws), len(self.laws[0].table.values)))
        for i, law in enumerate(self.laws):
            found = law.log_joint(release)
            if found is not None:
                joint, ranks[i] = found
                logs[i] = float(logsumexp(joint))
                chances[i] = np.exp(joint - logs[i]) if logs[i] > -np.inf else 0.0
        return np.asarray(combined_weights(self.prior, logs, ranks) @ chances)

    # -- expected loss -------------------------------------------------------------------------------

    def expected(self, problem: Problem, codes: Ints | None) -> tuple[Value, Value, str] | None:
        """Expected loss of the user's estimates over the agency's belief, the loss that the user expects, and how.

        ``codes`` are the records if they are given. None if releases of an unknown mask must be drawn.
        """
        if self._one_number and codes is None:
            return *self._integrate_over_noisy_release(), "enumeration"
        if not any(c.continuous for c in (*self.channels, self.actual)) and (codes is None or not self.actual.sampled):
            listed = self._sum_over_listed_releases(codes)
            if not isinstance(listed, Refusal):
                return *listed, "enumeration"
        return (*self._average_over_draws(problem, codes), AVERAGED) if self.own.knows_mask else None

    def costs(self, own: Array, actual: Array) -> tuple[Value, Value]:
        """Expected loss of the user's estimates by the agency's posteriors, and by the user's own.

        One row per release.
        """
        mine, theirs = self.laws[0].table.values, self.law.table.values
        step = max(1, BATCH // max(len(mine), len(theirs)))
        cost, believed = [], []
        for i in range(0, len(own), step):
            own_law, right = Finite(mine, own[i : i + step]), Finite(theirs, actual[i : i + step])
            estimate = self.own.loss.estimate(own_law, self.own.actions)
            cost.append(cost_of(self.own.loss, right, estimate).broadcast_to(*own_law.batch))
            believed.append(self.own.loss.uncertainty(own_law, self.own.actions).broadcast_to(*own_law.batch))
        return Value.joined(cost), Value.joined(believed)

    def _sum_over_listed_releases(self, codes: Ints | None) -> tuple[Value, Value] | Refusal:
        """Over all releases of a mask that gives categories; a refusal where they cannot be listed."""
        try:
            joint = JointBelief.of(self)
            if isinstance(joint, Refusal):
                return joint
            shift = joint.actual_block * len(self.truth.levels)
            outputs = joint.law(self.limit).outputs(None if codes is None else codes + shift)
        except TooManyReleases as error:
            # How many there are is known only while they are listed.
            return Refusal.of(error)
        own, actual = outputs.joint[:, : joint.split], outputs.joint[:, joint.split :]
        weights = 2.0 * actual.sum(axis=1) if codes is None else outputs.weights
        live = weights > 0
        own, actual, weights = own[live], actual[live], weights[live]
        self._refuse_impossible_records(own.sum(axis=1), actual.sum(axis=1))
        cost, own_law = self.costs(own / own.sum(axis=1, keepdims=True), actual / actual.sum(axis=1, keepdims=True))
        return cost.averaged(weights), own_law.averaged(weights)

    @property
    def _one_number(self) -> bool:
        """Whether the release is one number with noise, whatever the mask was."""
        laws = [self.law, *self.laws]
        return (
            self.actual.continuous and all(law.one_number for law in laws) and any(c.continuous for c in self.channels)
        )

    def _integrate_over_noisy_release(self) -> tuple[Value, Value]:
        """One number with noise: integrate over it."""
        sides = [
            (p, *_outputs_before_noise(law))
            for p, law in zip(self.prior, self.laws, strict=True)
            if law.channel.continuous and p > 0
        ]
        actual = _outputs_before_noise(self.law)

        def split(y: Array) -> tuple[Array, Array, Array]:
            logs = [np.log(p) + _log_normal_densities(y, levels, sd) for p, levels, sd, _ in sides]
            top = np.max([part.max(axis=1) for part in logs], axis=0)
            own = sum(np.exp(part - top[:, None]) @ joint for part, (_, _, _, joint) in zip(logs, sides, strict=True))
            right = _log_normal_densities(y, actual[0], actual[1])
            shift = right.max(axis=1)
            share = np.exp(right - shift[:, None]) @ actual[2]
            chance = share.sum(axis=1)
            self._refuse_impossible_records(np.asarray(own).sum(axis=1), chance)
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
        before = self.own.loss.uncertainty(Finite(self.law.table.values, start), self.own.actions)
        size = max(abs(float(before.value[0])), 1e-300)
        own_law, real = (adaptive(integrand(i), breaks, absolute=1e-10 * size, budget=100_000) for i in (0, 1))
        return own_law, real

    def _average_over_draws(self, problem: Problem, codes: Ints | None) -> tuple[Value, Value]:
        """Average over drawn releases, with the same random numbers for every mask."""
        own, actual = [], []
        for for_data, for_mask, _ in replicate_seeds(problem.seed, problem.count):
            records = self.truth.draw_codes(np.random.default_rng(for_data)) if codes is None else codes
            slots = self.actual.simulate(records, np.random.default_rng(for_mask))
            own.append(self.laws[0].posterior_probabilities(slots))
            actual.append(self.law.posterior_probabilities(slots))
        cost, believed = self.costs(np.stack(own), np.stack(actual))
        return mean_of_replicates(cost), mean_of_replicates(believed)

    def before(self) -> float:
        """Expected loss before any release."""
        uninformative = FiniteChannel.of(self.truth, NOTHING)
        slots = RecordEvidence.of_nothing(len(self.truth.levels))
        own, actual = (
            replace(law, channel=uninformative).posterior_probabilities(slots)[None] for law in (self.laws[0], self.law)
        )
        return float(self.costs(own, actual)[0].value[0])

    def _refuse_impossible_records(self, own: Array, actual: Array) -> None:
        if np.any(actual <= 0):
            do = "Check the data, or the prior probabilities that are zero"
            raise InputError("The records cannot come from this belief", "probability zero", do)
        if np.any(own <= 0):
            what = "What the mask releases is impossible in the user's eyes, who then has no posterior"
            do = "Give every state and outcome, or every mask, that the agency thinks possible some prior probability"
            raise InputError(what, "probability zero under the user's belief", do)


# -- one release -------------------------------------------------------------------------------------


def _outputs_before_noise(law: FiniteLaw) -> tuple[Array, float, Array]:
    """Outputs before the noise, its standard deviation, and the chance of each output with the target's values."""
    kernel = law.channel.kernels[0]
    assert kernel.noise is not None
    joint = law.outputs_before_noise()
    live = joint.sum(axis=1) > 0
    return kernel.levels()[live, 0], float(np.sqrt(kernel.noise[0, 0])), joint[live]


def _log_normal_densities(y: Array, levels: Array, sd: float) -> Array:
    return np.asarray(-0.5 * ((y[:, None] - levels) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi))


def _on_common_levels(own: FiniteBelief, truth: FiniteBelief, target: BaseTarget) -> tuple[FiniteBelief, FiniteBelief]:
    """Both beliefs over the outcomes of either."""
    if own is truth:
        return own, truth
    if own.levels.labelled != truth.levels.labelled or own.levels.columns != truth.levels.columns:
        what = "The user's belief and the truth have outcomes of different kinds"
        raise UnsupportedError(what, do="Use the same outcomes for both")
    if target.is_a(Kind.PARAMETER) and own.states.labelled and own.states.names != truth.states.names:
        what = "The states of the two beliefs are labels in different orders, so that they cannot be compared"
        raise UnsupportedError(what, do="List the same states in the same order")
    if own.levels.names == truth.levels.names:
        return own, truth
    names = list(dict.fromkeys([*own.levels.names, *truth.levels.names]))
    found = []
    for belief in (own, truth):
        law = np.zeros((len(belief.states), len(names)))
        law[:, [names.index(v) for v in belief.levels.names]] = belief.law
        found.append(replace(belief, likelihood=law, outcomes=names))
    return found[0], found[1]


# -- both beliefs as one ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class JointBelief:
    """The user's belief about state and mask beside the agency's, as one larger finite belief.

    Its states are pairs of a state and a mask, its outcomes pairs of a record and a mask, and the values of the target
    are kept apart for the two sides. Then every release is listed once, with its chance and the posterior of each side.
    """

    belief: FiniteBelief
    channel: FiniteChannel
    table: TargetLaw
    split: int
    """How many values of the target are the user's; the rest are the agency's."""
    actual_block: int

    @classmethod
    def of(cls, pair: FinitePair) -> JointBelief | Refusal:
        """Both as one, or a refusal where the candidates treat rows in different ways.

        Their releases cannot be listed together.
        """
        channels = [*pair.channels, pair.actual]
        first = channels[0]
        for c in channels[1:]:
            if not np.array_equal(c.kinds, first.kinds) or c.kept != first.kept or c.ordered != first.ordered:
                return Refusal("The candidates treat rows in different ways", "Let them treat rows alike")
        # Masks that do the same to every record share their outcomes.
        blocks: list[FiniteChannel] = []
        which: list[int] = []
        for c in channels:
            found = next((i for i, b in enumerate(blocks) if _same_kernels(b, c)), len(blocks))
            if found == len(blocks):
                blocks.append(c)
            which.append(found)
        size = len(pair.truth.levels)
        kernels = []
        for kind in range(len(first.kernels)):
            outputs = list(dict.fromkeys(o for b in blocks for o in b.kernels[kind].outputs))
            kernels.append(Kernel(np.concatenate([b.kernels[kind].over(outputs) for b in blocks]), tuple(outputs)))
        own = zip(pair.prior, which, strict=False)
        sides = [(float(p), pair.belief, block, pair.laws[0].table) for p, block in own if p > 0]
        sides.append((1.0, pair.truth, which[-1], pair.law.table))
        prior = np.concatenate([0.5 * p * side.prior for p, side, _, _ in sides])
        law = np.zeros((len(prior), len(blocks) * size))
        start = 0
        for _, belief, block, _ in sides:
            law[start : start + len(belief.law), block * size : block * size + size] = belief.law
            start += len(belief.law)
        own_states = len(prior) - len(pair.truth.law)
        outcomes: dict[str, Any] = {"outcomes": np.arange(law.shape[1]), "records": pair.truth.records}
        merged = FiniteBelief(np.arange(len(prior)), prior / prior.sum(), likelihood=law, **outcomes)
        split = len(pair.laws[0].table.values)
        table = _joined_table(
            [(block, p) for _, _, block, p in sides], len(blocks), size, split, own_states, pair.limit
        )
        return cls(
            merged, FiniteChannel(tuple(kernels), first.kinds, first.kept, first.ordered), table, split, which[-1]
        )

    def law(self, limit: int) -> FiniteLaw:
        if isinstance(self.table, _SplitAverage):
            # The law of an average is counted over the records of one mask, not over pairs of records and masks.
            n = self.belief.records
            for kernel in self.channel.kernels:
                if comb(n + len(kernel.outputs) - 1, len(kernel.outputs) - 1) > limit:
                    raise TooManyReleases("The releases of this mask are too many to list")
            limit *= (n + 1) ** (len(self.belief.levels) - self.table.outcomes)
        return FiniteLaw(self.belief, self.table, self.channel, limit)


@dataclass(frozen=True, eq=False)
class _SplitAverage(AverageTable):
    """The average of all records, kept apart for the states of the user and those of the agency."""

    own_states: int = 0
    outcomes: int = 0

    def counts_law(self, chances: Array) -> Array:
        # A state allows the outcomes of one mask only, so that the sum over masks picks them out.
        single = chances.reshape(*chances.shape[:-1], -1, self.outcomes).sum(axis=-2)
        found = super().counts_law(single)
        size = found.shape[-1]
        wide = np.zeros((*found.shape[:-1], 2 * size))
        wide[..., : self.own_states, :size] = found[..., : self.own_states, :]
        wide[..., self.own_states :, size:] = found[..., self.own_states :, :]
        return wide


def _joined_table(
    sides: Sequence[tuple[int, TargetLaw]],
    blocks: int,
    size: int,
    split: int,
    own_states: int,
    limit: int,
) -> TargetLaw:
    """The target over pairs of records and masks, with the user's values first and the agency's after them."""
    own, actual = sides[0][1], sides[-1][1]
    values = np.concatenate([own.values, actual.values])
    if own.counted:
        return _SplitAverage(own.counts, values, own_states, size)
    rows, wide = own.rows, blocks * size
    if wide ** len(rows) > limit:
        what = f"The target depends on {len(rows)} records under {blocks} masks"
        raise TooManyReleases(what, do="Use fewer candidates")
    weights: list[csr_array] = []
    for i, (block, table) in enumerate(sides):
        shift = 0 if i < len(sides) - 1 else split
        for w in table.weights:
            found = w.tocoo()
            place = np.zeros(len(found.row), dtype=np.int64)
            rest = found.row.astype(np.int64)
            for power in range(len(rows)):
                place += (rest % size + block * size) * wide**power
                rest //= size
            weights.append(csr_array((found.data, (place, found.col + shift)), shape=(wide ** len(rows), len(values))))
    return TargetTable(rows, values, tuple(weights))


def _same_kernels(a: FiniteChannel, b: FiniteChannel) -> bool:
    return all(
        x.outputs == y.outputs and np.array_equal(x.matrix, y.matrix) for x, y in zip(a.kernels, b.kernels, strict=True)
    )
