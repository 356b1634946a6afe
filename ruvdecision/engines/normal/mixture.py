"""A normal belief and a mask whose numbers are not published.

The posterior is a mixture over what the mask may have been.

The weight of each candidate is its prior times the density of the release under it (`affine.log_density`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...channels.samples import refuse_open_samples
from ...errors import UnsupportedError
from ...masks.base import Batch, Mask
from ...posteriors import Drawn, Gaussian, Mixture
from ...protocols import Array, Posterior
from ...targets import BaseTarget, Kind, Term
from ...users.mask_prior import MaskPrior
from ...users.user import User
from ..unknown_mask import combined_weights
from .affine import AffineMeans, log_density
from .conditioning import Conditioned
from .forms import (
    DRAWS,
    LARGEST_JOINT,
    all_records,
    drawn_values,
    form_of,
    gaussian_of,
    joint_terms,
    posterior_given,
    row_mixture,
    selector,
)
from .releases import channel_of, moved, released

NEGLIGIBLE = 1e-12
"""Candidates with less than this share of the posterior weight are left out."""
NEGLIGIBLE_ROWS = 1e-6
"""The same where every candidate is itself a mixture over all rows."""
LARGEST_MIXTURE = 1_000_000


class NormalMixture:
    """Posteriors of a user with a normal belief who does not know the mask's numbers.

    With one candidate it is the plain posterior of somebody who knows the mask.
    """

    def __init__(self, user: User, mask: Mask, table: Array | None = None) -> None:
        self.user, self.belief = user, user.belief
        self.masks: tuple[Mask, ...] = (mask,)
        self.prior: Array = np.ones(1)
        if not user.knows_mask:
            scale = float(np.mean(np.diag(self.belief.record_covariance)))
            self.masks, self.prior = (user.mask_prior or MaskPrior()).candidates(mask, scale, self.belief.records)
        self.families = [
            (
                f.positions,
                Conditioned(self.belief, channel_of(self.belief, self.masks[f.positions[0]], f.numbers, table)),
            )
            for f in Batch.of(self.masks).families
        ]
        self.table = table
        self.channel = self.families[0][1].channel
        refuse_open_samples(self.channel, "users who do not know the mask")
        if any(given.channel.location != self.channel.location for _, given in self.families):
            what = "The masks that the user thinks possible must all keep the order of the rows, or all lose it"
            raise UnsupportedError(what, do="Put Shuffle() or Subsample() into each of them, or into none")
        self._singles: dict[int, Conditioned] = {}
        self._means: dict[Any, Any] = {}
        self._last: tuple[bytes, Array, Array] | None = None

    def after(self, release: Any, rng: np.random.Generator) -> Posterior:
        """Posterior of the target after one release."""
        values, place = released(self.belief, self.channel, release)
        user = (
            self.user if self.channel.location != "drawn" else replace(self.user, target=moved(self.user.target, place))
        )
        if len(self.masks) == 1:
            return posterior_given(user, self.families[0][1], values, rng)
        weights = self.weights(values)
        if user.target.places_records and self.channel.location == "unknown":
            return self._over_rows(user, weights, values)
        return self._mixture(user, weights, values, rng)

    def weights(self, values: Array) -> Array:
        """Posterior probability of every candidate, from released values in the channel's order of rows."""
        return combined_weights(self.prior, *self._log_densities(values))

    def log_densities(self, release: Any) -> tuple[Array, Array]:
        """Log density of a release under every candidate, and the rank of each."""
        return self._log_densities(released(self.belief, self.channel, release)[0])

    def _log_densities(self, values: Array) -> tuple[Array, Array]:
        """Log density of released values under every candidate, and the rank of each; the last one is kept."""
        key = values.tobytes()
        if self._last is not None and self._last[0] == key:
            return self._last[1:]
        log = np.full(len(self.masks), -np.inf)
        rank = np.zeros(len(self.masks))
        for positions, given in self.families:
            found = log_density(given, values)
            log[positions] = np.broadcast_to(found.log, (len(positions),))
            rank[positions] = np.broadcast_to(found.rank, (len(positions),))
        self._last = key, log, rank
        return log, rank

    def _mixture(self, user: User, weights: Array, values: Array, rng: np.random.Generator) -> Posterior:
        belief, target = self.belief, user.target
        if target.is_a(Kind.FILE):
            size = belief.records * belief.k
            if size > LARGEST_JOINT or size**2 * len(self.masks) > 20 * LARGEST_MIXTURE:
                what = "The joint posterior of all records is too large for a mixture"
                raise UnsupportedError(what, do="Ask for Record(j)")
        form = all_records(belief) if target.is_a(Kind.FILE) else form_of(belief, target)
        terms = joint_terms(belief, target) if form is None else form.terms
        matrix = selector(belief, terms) if form is None else form.matrix
        means, covariances = self._moments(target, terms, matrix, values)
        kept = weights > NEGLIGIBLE * weights.max()
        chances = weights[kept] / weights[kept].sum()
        means, covariances = means[kept], covariances[kept]
        if form is None:
            draws = Mixture(Gaussian(means, covariances), chances).sample(DRAWS, rng)
            return Drawn(drawn_values(belief, target, terms, draws))
        return Mixture(gaussian_of(covariances, form, means + form.constant), chances)

    def _moments(self, target: BaseTarget, terms: Sequence[Term], matrix: Array, values: Array) -> tuple[Array, Array]:
        """Posterior mean and covariance of a linear target under every candidate."""
        m = len(matrix)
        means, covariances = np.empty((len(self.masks), m)), np.empty((len(self.masks), m, m))
        for i, (positions, given) in enumerate(self.families):
            key = (i, target.terms if target.verbatim else id(target))
            if key not in self._means:
                self._means[key] = (AffineMeans(given, terms), given.covariance(terms, matrix), target)
            affine, covariance, _ = self._means[key]
            means[positions] = (affine.matrix @ affine.coordinates(values) + affine.constant) @ matrix.T
            covariances[positions] = covariance
        return means, covariances

    def _over_rows(self, user: User, weights: Array, values: Array) -> Posterior:
        """A record in an unknown row: every candidate and every row may be the one."""
        form = form_of(self.belief, user.target)
        kept = np.flatnonzero(weights > NEGLIGIBLE_ROWS * weights.max())
        if len(kept) * self.belief.records > LARGEST_MIXTURE:
            what = f"{len(kept)} masks times {self.belief.records} rows are too many cases"
            do = "Give mask_prior= with fewer candidates, or leave out Shuffle()"
            raise UnsupportedError(what, f"a limit of {LARGEST_MIXTURE}", do)
        parts = []
        for i in kept:
            if int(i) not in self._singles:
                self._singles[int(i)] = Conditioned(
                    self.belief, channel_of(self.belief, self.masks[i], data=self.table)
                )
            parts.append(row_mixture(form, self._singles[int(i)], values))
        chances = weights[kept] / weights[kept].sum()
        joined = np.concatenate([c * p.weights for c, p in zip(chances, parts, strict=True)])
        means = np.concatenate([p.parts.mean() for p in parts])
        if parts[0].event:
            return Mixture(Gaussian(means, np.concatenate([p.parts.cov() for p in parts])), joined)
        return Mixture(Gaussian.scalar(means, np.concatenate([p.parts.var() for p in parts])), joined)
