"""The user's belief about state and mask beside the agency's, written as one larger finite belief.

Its states are pairs of a state and a mask, its outcomes pairs of a record and a mask, and the values of the target are
kept apart for the two sides. Then every release is listed once, with its chance and the posterior of each side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from ...beliefs.finite import FiniteBelief
from ...channels.finite import FiniteChannel, Kernel
from ...protocols import Array
from ..base import Refusal
from .law import FiniteLaw, TooManyReleases
from .plan import AveragePlan, Plan

if TYPE_CHECKING:
    from .wrong_belief import WrongFiniteBelief


@dataclass(frozen=True, eq=False)
class Pair:
    """The user's belief about state and mask beside the agency's, as one finite belief."""

    belief: FiniteBelief
    channel: FiniteChannel
    plan: Plan | AveragePlan
    split: int
    """How many values of the target are the user's; the rest are the agency's."""
    actual_block: int

    @classmethod
    def of(cls, doubt: WrongFiniteBelief) -> Pair | Refusal:
        """The pair, or a refusal where the candidates treat rows in different ways.

        Their releases cannot be listed together.
        """
        channels = [*doubt.channels, doubt.actual]
        first = channels[0]
        for c in channels[1:]:
            if not np.array_equal(c.kinds, first.kinds) or c.kept != first.kept or c.ordered != first.ordered:
                return Refusal("The candidates treat rows in different ways", "Let them treat rows alike")
        # Masks that do the same to every record share their outcomes.
        blocks: list[FiniteChannel] = []
        which: list[int] = []
        for c in channels:
            found = next((i for i, b in enumerate(blocks) if _same(b, c)), len(blocks))
            if found == len(blocks):
                blocks.append(c)
            which.append(found)
        size = len(doubt.truth.levels)
        kernels = []
        for kind in range(len(first.kernels)):
            outputs = list(dict.fromkeys(o for b in blocks for o in b.kernels[kind].outputs))
            place = {o: i for i, o in enumerate(outputs)}
            matrix = np.zeros((len(blocks) * size, len(outputs)))
            for i, b in enumerate(blocks):
                for column, o in enumerate(b.kernels[kind].outputs):
                    matrix[i * size : i * size + size, place[o]] += b.kernels[kind].matrix[:, column]
            kernels.append(Kernel(matrix, tuple(outputs)))
        sides = [
            (float(p), doubt.belief, block, doubt.laws[0].plan)
            for p, block in zip(doubt.prior, which, strict=False)
            if p > 0
        ]
        sides.append((1.0, doubt.truth, which[-1], doubt.law.plan))
        prior = np.concatenate([0.5 * p * side.prior for p, side, _, _ in sides])
        law = np.zeros((len(prior), len(blocks) * size))
        start = 0
        for _, belief, block, _ in sides:
            law[start : start + len(belief.law), block * size : block * size + size] = belief.law
            start += len(belief.law)
        own_states = len(prior) - len(doubt.truth.law)
        merged = FiniteBelief(
            np.arange(len(prior)),
            prior / prior.sum(),
            likelihood=law,
            outcomes=np.arange(law.shape[1]),
            records=doubt.truth.records,
        )
        split = len(doubt.laws[0].plan.values)
        plan = _joined_plan([(block, p) for _, _, block, p in sides], len(blocks), size, split, own_states, doubt.limit)
        return cls(
            merged, FiniteChannel(tuple(kernels), first.kinds, first.kept, first.ordered), plan, split, which[-1]
        )

    def law(self, limit: int) -> FiniteLaw:
        if isinstance(self.plan, _SplitAverage):
            # The law of an average is counted over the records of one mask, not over pairs of records and masks.
            n = self.belief.records
            for kernel in self.channel.kernels:
                if comb(n + len(kernel.outputs) - 1, len(kernel.outputs) - 1) > limit:
                    raise TooManyReleases("The releases of this mask are too many to list")
            limit *= (n + 1) ** (len(self.belief.levels) - self.plan.outcomes)
        return FiniteLaw(self.belief, self.plan, self.channel, limit)


@dataclass(frozen=True, eq=False)
class _SplitAverage(AveragePlan):
    """The average of all records, kept apart for the states of the user and those of the agency."""

    own_states: int = 0
    outcomes: int = 0

    def spread(self, chances: Array) -> Array:
        # A state allows the outcomes of one mask only, so that the sum over masks picks them out.
        single = chances.reshape(*chances.shape[:-1], -1, self.outcomes).sum(axis=-2)
        found = super().spread(single)
        size = found.shape[-1]
        wide = np.zeros((*found.shape[:-1], 2 * size))
        wide[..., : self.own_states, :size] = found[..., : self.own_states, :]
        wide[..., self.own_states :, size:] = found[..., self.own_states :, :]
        return wide


def _joined_plan(
    sides: Sequence[tuple[int, Plan | AveragePlan]], blocks: int, size: int, split: int, own_states: int, limit: int
) -> Plan | AveragePlan:
    """The target over pairs of records and masks, with the user's values first and the agency's after them."""
    own, actual = sides[0][1], sides[-1][1]
    values = np.concatenate([own.values, actual.values])
    if isinstance(own, AveragePlan):
        return _SplitAverage(own.counts, values, own_states, size)
    assert isinstance(actual, Plan)
    rows, wide = own.rows, blocks * size
    if wide ** len(rows) > limit:
        raise TooManyReleases(
            f"The target depends on {len(rows)} records under {blocks} masks", do="Use fewer candidates"
        )
    weights: list[csr_array] = []
    for i, (block, plan) in enumerate(sides):
        assert isinstance(plan, Plan)
        shift = 0 if i < len(sides) - 1 else split
        for w in plan.weights:
            found = w.tocoo()
            place = np.zeros(len(found.row), dtype=np.int64)
            rest = found.row.astype(np.int64)
            for power in range(len(rows)):
                place += (rest % size + block * size) * wide**power
                rest //= size
            weights.append(csr_array((found.data, (place, found.col + shift)), shape=(wide ** len(rows), len(values))))
    return Plan(rows, values, tuple(weights))


def _same(a: FiniteChannel, b: FiniteChannel) -> bool:
    return all(
        x.outputs == y.outputs and np.array_equal(x.matrix, y.matrix) for x, y in zip(a.kernels, b.kernels, strict=True)
    )
