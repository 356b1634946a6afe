"""The rewrite for a user who does not know the mask's numbers: he decides by a mixture over what it may have been.

The weight of each candidate is its prior times the density of the release under it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..checks import as_generator
from ..errors import InputError
from ..masks.base import Batch, Mask
from ..protocols import Array, Ints, Posterior
from ..running.replication import replicate_seeds
from .base import Evidence, MaskMixture, Missing, Problem, Refusal, Rewrite, plan_for


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
