"""A normal belief that is not the agency's, or a mask that is not published.

The estimate of a user who is wrong is affine in the release, so that its error is normal under the agency's belief,
with a cost that does not grow with the number of records. The posterior of one who does not know the mask is a mixture
over what it may have been: the weight of each candidate is its prior times the density of the release under it
(`affine.log_density`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...channels.samples import refuse_open_samples
from ...errors import InputError, UnsupportedError
from ...losses import LogScore
from ...losses.base import as_bayes_loss
from ...masks.base import Batch, Mask
from ...masks.rows import NOTHING
from ...posteriors import Drawn, Gaussian, Mixture
from ...protocols import Array, Posterior, Value
from ...targets import BaseTarget, Kind, LinearForm, Term
from ...users.user import User
from ..base import DecisionCosts, Problem
from ..wrong_belief import candidates_of, combined_weights, cost_of
from . import forms
from .affine import AffineMeans, log_density, residual_law
from .conditioning import Conditioned, record_in
from .forms import LARGEST_JOINT, all_records, form_of, gaussian_of, mean_covariance
from .releases import channel_of, move_target, released

LEAST_CANDIDATE_WEIGHT = 1e-12
"""Candidates with less than this share of the posterior weight are left out."""
LEAST_CANDIDATE_WEIGHT_OVER_ROWS = 1e-6
"""The same where every candidate is itself a mixture over all rows."""
LARGEST_MIXTURE = 1_000_000


@dataclass(frozen=True, eq=False)
class NormalPair:
    """The user as he decides, and somebody with the agency's belief who knows the mask."""

    own: User
    agency: User

    def __post_init__(self) -> None:
        sizes = (self.own.belief.k, self.agency.belief.k)
        if sizes[0] != sizes[1]:
            what, got = "The user's belief and the truth must have the same variables", f"{sizes[0]} and {sizes[1]}"
            raise InputError(what, got, "Both are about one file")

    def __call__(self, problem: Problem) -> DecisionCosts:
        """Expected loss after each mask that is known, where it does not depend on the release."""
        masks = problem.masks
        value, error, believed = np.zeros((3, len(masks)))
        remaining: list[int] = []
        for family in masks.families:
            first, found = masks[family.positions[0]], None
            if self.own.knows_mask and problem.data is None:
                found = self._closed_form(self.own, first, family.numbers)
            if found is None:
                remaining.extend(family.positions)
                continue
            value[family.positions], error[family.positions] = found[0]
            believed[family.positions] = found[1].value
        known = replace(self.own, knows_mask=True, mask_prior=None)
        start = self._closed_form(known, NOTHING, np.zeros((1, 0)))
        before = None if start is None else float(start[0].value[0])
        return DecisionCosts(Value(value, error), believed, before, ["exact"] * len(masks), remaining)

    def _closed_form(self, own: User, mask: Mask, numbers: Array) -> tuple[Value, Value] | None:
        """Expected loss for a family of masks, and the loss that the user expects.

        None if it depends on the release.
        """
        loss, target, count = own.loss, own.target, len(numbers)
        if own.actions is not None or not loss.location_free or target.is_order_statistic:
            return None
        mine, theirs = (Conditioned(u.belief, channel_of(u.belief, mask, numbers)) for u in (own, self.agency))
        if mine.channel.open_samples or mine.revealed_noise is not None:
            return None
        place = mine.channel.location if target.places_records else "known"
        if target.is_a(Kind.FILE):
            if not as_bayes_loss(loss).adds_up(mine.n, mine.k):
                if place != "known" or mine.n * mine.k > LARGEST_JOINT:
                    return None
                form = all_records(own.belief)
                return self._cost_of_terms(own, mine, theirs, form, form.terms)
            form = LinearForm.of_term(Term(Kind.RECORD), mine.k, own.belief.scalar)
            found = [
                (w, self._cost_of_row_kind(own, mine, theirs, form, place, t, c))
                for w, t, c in mine.channel.layout.classes()
            ]
            if any(f is None for _, f in found):
                return None
            cost, own_law = (_sum_over_kinds([(w, f[j]) for w, f in found if f is not None], count) for j in (0, 1))
            return cost.times(mine.n), own_law.times(mine.n)
        linear = form_of(own.belief, target)
        if linear is None or (place != "known" and len(linear.terms) != 1):
            return None
        form = linear
        if place == "known":
            return self._cost_of_terms(own, mine, theirs, form, form.terms)
        if place == "unknown":
            return self._cost_of_row_kind(own, mine, theirs, form, place, 0, 0)
        kinds = mine.channel.layout.places(form.terms[0].row % mine.n)
        both = [(w, self._cost_of_row_kind(own, mine, theirs, form, place, t, c)) for w, t, c in kinds]
        cost, own_law = (_sum_over_kinds([(w, f[j]) for w, f in both if f is not None], count) for j in (0, 1))
        return cost, own_law

    def _cost_of_row_kind(
        self, own: User, mine: Conditioned, theirs: Conditioned, form: LinearForm, place: str, t: int, c: int
    ) -> tuple[Value, Value] | None:
        """The same for a record of one kind of row, or for one in an unknown row under squared error."""
        if place != "unknown":
            return self._cost_of_terms(own, mine, theirs, form, (record_in(t, c),))
        if not as_bayes_loss(own.loss).second_order:
            return None
        # The estimate is that of the average of all records; what is left is a matter of second moments.
        bias, covariance = residual_law(mine, theirs, [Term(Kind.AVERAGE)], form.matrix)
        if np.isfinite(covariance).all():
            covariance = covariance - theirs.covariance([Term(Kind.AVERAGE)], form.matrix)
        return self._cost_of_estimate(
            own, mean_covariance(mine, form), bias, mean_covariance(theirs, form) + covariance, form
        )

    def _cost_of_terms(
        self, own: User, mine: Conditioned, theirs: Conditioned, form: LinearForm, terms: Sequence[Term]
    ) -> tuple[Value, Value]:
        bias, covariance = residual_law(mine, theirs, terms, form.matrix)
        return self._cost_of_estimate(own, mine.covariance(terms, form.matrix), bias, covariance, form)

    def _cost_of_estimate(
        self, own: User, own_law: Array, bias: Array, covariance: Array, form: LinearForm
    ) -> tuple[Value, Value]:
        """Loss of the estimate from a posterior with covariance ``own_law`` when the error is N(bias, covariance)."""
        loss = own.loss
        believed = loss.uncertainty(gaussian_of(own_law, form))
        lead = np.broadcast_shapes(own_law.shape[:1], bias.shape[:1], covariance.shape[:1])
        own_law, covariance = (np.broadcast_to(x, lead + x.shape[1:]) for x in (own_law, covariance))
        bias = np.broadcast_to(bias, lead + bias.shape[1:])
        endless = np.asarray(~np.isfinite(np.diagonal(own_law + covariance, axis1=-2, axis2=-1)).all(axis=-1))
        if endless.any():
            # Nothing is known about where the target lies, by the user or the agency: one estimate is as good as
            # another.
            worst = loss.uncertainty(gaussian_of(np.where(np.isfinite(own_law), covariance, own_law), form))
            value, error = np.array(worst.broadcast_to(len(endless)).value), np.zeros(len(endless))
            if not endless.all():
                rest = self._cost_of_estimate(own, own_law[~endless], bias[~endless], covariance[~endless], form)[0]
                value[~endless], error[~endless] = rest.value, rest.error
            return Value(value, error), believed
        right, guess = gaussian_of(covariance, form, bias), gaussian_of(own_law, form, np.zeros(bias.shape))
        same = np.all(bias == 0, axis=-1) & np.all(own_law == covariance, axis=(-1, -2))
        if same.all():
            # The user is right: the plain uncertainty, to the last digit.
            return believed.broadcast_to(len(same)), believed
        if isinstance(loss, LogScore):
            return Value.exact(_cross_entropy(own_law, bias, covariance)), believed
        return cost_of(loss, right, loss.estimate(guess)), believed


def _cross_entropy(own_law: Array, bias: Array, covariance: Array) -> Array:
    """E of minus the log density of N(0, own_law) when the truth is N(bias, covariance)."""
    moment = covariance + bias[..., :, None] * bias[..., None, :]
    with np.errstate(divide="ignore"):
        sign, size = np.linalg.slogdet(2 * np.pi * own_law)
    sharp = sign <= 0
    if sharp.any():
        # A user who is sure of a value pays without end unless he is right.
        wrong = np.trace(moment, axis1=-2, axis2=-1) > 0
        safe = np.where(sharp[..., None, None], np.eye(own_law.shape[-1]), own_law)
        rest = 0.5 * (size + np.trace(np.linalg.solve(safe, moment), axis1=-2, axis2=-1))
        return np.where(sharp, np.where(wrong, np.inf, -np.inf), rest)
    return np.asarray(0.5 * (size + np.trace(np.linalg.solve(own_law, moment), axis1=-2, axis2=-1)))


def _sum_over_kinds(parts: Sequence[tuple[float, Value]], count: int) -> Value:
    """A weighted sum over kinds of rows."""
    table = [value.broadcast_to(count) for _, value in parts]
    value, error = (np.stack(column, axis=-1) for column in zip(*table, strict=True))
    return Value(value, error).averaged(np.array([weight for weight, _ in parts]))


# -- a mask that is not known ------------------------------------------------------------------------


class NormalMixture:
    """Posteriors of a user with a normal belief who does not know the mask's numbers.

    With one candidate it is the plain posterior of somebody who knows the mask.
    """

    def __init__(self, user: User, mask: Mask, table: Array | None = None) -> None:
        self.user, self.belief = user, user.belief
        self.masks, self.prior = candidates_of(user, mask, np.diag(self.belief.record_covariance))
        self.families = []
        for f in Batch.of(self.masks).families:
            channel = channel_of(self.belief, self.masks[f.positions[0]], f.numbers, table)
            self.families.append((f.positions, Conditioned(self.belief, channel)))
        self.table = table
        self.channel = self.families[0][1].channel
        refuse_open_samples(self.channel, "users who do not know the mask")
        if any(given.channel.location != self.channel.location for _, given in self.families):
            what = "The masks that the user thinks possible must all keep the order of the rows, or all lose it"
            raise UnsupportedError(what, do="Put Shuffle() or Subsample() into each of them, or into none")
        self._singles: dict[int, Conditioned] = {}
        self._means: dict[Any, Any] = {}

    def posterior(self, release: object, rng: np.random.Generator) -> Posterior:
        """Posterior of the target after one release."""
        values, place = released(self.belief, self.channel, release)
        user = (
            self.user
            if self.channel.location != "drawn"
            else replace(self.user, target=move_target(self.user.target, place))
        )
        if len(self.masks) == 1:
            return forms.posterior_given(user, self.families[0][1], values, rng)
        weights = self.candidate_weights(values)
        if user.target.places_records and self.channel.location == "unknown":
            return self._mixture_over_rows(user, weights, values)
        return self._mixture_of_candidates(user, weights, values, rng)

    def candidate_weights(self, values: Array) -> Array:
        """Posterior probability of every candidate, from released values in the channel's order of rows."""
        log, rank = np.full(len(self.masks), -np.inf), np.zeros(len(self.masks))
        for positions, given in self.families:
            log[positions], rank[positions] = log_density(given, values)
        return combined_weights(self.prior, log, rank)

    def _mixture_of_candidates(self, user: User, weights: Array, values: Array, rng: np.random.Generator) -> Posterior:
        belief, target = self.belief, user.target
        if target.is_a(Kind.FILE):
            size = belief.records * belief.k
            if size > LARGEST_JOINT or size**2 * len(self.masks) > 20 * LARGEST_MIXTURE:
                what = "The joint posterior of all records is too large for a mixture"
                raise UnsupportedError(what, do="Ask for Record(j)")
        form = all_records(belief) if target.is_a(Kind.FILE) else form_of(belief, target)
        terms = forms.joint_terms(belief, target) if form is None else form.terms
        matrix = forms.selector(belief, terms) if form is None else form.matrix
        means, covariances = self._moments_by_candidate(target, terms, matrix, values)
        kept = weights > LEAST_CANDIDATE_WEIGHT * weights.max()
        chances = weights[kept] / weights[kept].sum()
        means, covariances = means[kept], covariances[kept]
        if form is None:
            draws = Mixture(Gaussian(means, covariances), chances).sample(forms.DRAWS, rng)
            return Drawn(forms.drawn_values(belief, target, terms, draws))
        return Mixture(gaussian_of(covariances, form, means + form.constant), chances)

    def _moments_by_candidate(
        self, target: BaseTarget, terms: Sequence[Term], matrix: Array, values: Array
    ) -> tuple[Array, Array]:
        """Posterior mean and covariance of a linear target under every candidate."""
        m = len(matrix)
        means, covariances = np.empty((len(self.masks), m)), np.empty((len(self.masks), m, m))
        for i, (positions, given) in enumerate(self.families):
            key = (i, target.terms if target.verbatim else id(target))
            if key not in self._means:
                self._means[key] = (AffineMeans(given, terms), given.covariance(terms, matrix), target)
            affine, covariance, _ = self._means[key]
            means[positions] = (affine.matrix @ affine.sufficient_statistic(values) + affine.constant) @ matrix.T
            covariances[positions] = covariance
        return means, covariances

    def _mixture_over_rows(self, user: User, weights: Array, values: Array) -> Posterior:
        """A record in an unknown row: every candidate and every row may be the one."""
        form = form_of(self.belief, user.target)
        kept = np.flatnonzero(weights > LEAST_CANDIDATE_WEIGHT_OVER_ROWS * weights.max())
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
            parts.append(forms.row_mixture(form, self._singles[int(i)], values))
        chances = weights[kept] / weights[kept].sum()
        joined = np.concatenate([c * p.weights for c, p in zip(chances, parts, strict=True)])
        means = np.concatenate([p.parts.mean() for p in parts])
        if parts[0].event:
            return Mixture(Gaussian(means, np.concatenate([p.parts.cov() for p in parts])), joined)
        return Mixture(Gaussian.scalar(means, np.concatenate([p.parts.var() for p in parts])), joined)
