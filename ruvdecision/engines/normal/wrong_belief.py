"""A normal belief that is not the agency's: the cost of the user's estimates in closed form.

The user's estimate is affine in the release, so that its error is normal under the agency's belief, with a cost that
does not grow with the number of records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...errors import InputError
from ...losses import LogScore
from ...masks.base import Mask
from ...masks.rows import NOTHING
from ...posteriors import Gaussian
from ...protocols import Array, Value
from ...targets import Kind, LinearForm, Term
from ...users.user import User
from ..base import Judged, Problem
from ..wrong_belief import cost_of
from .affine import residual_law
from .conditioning import Conditioned, record_in
from .forms import LARGEST_JOINT, all_records, form_of, gaussian_of, mean_covariance
from .releases import channel_of


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

    def __call__(self, problem: Problem) -> Judged:
        """Expected loss after each mask that is known, where it does not depend on the release."""
        masks = problem.masks
        value, error, believed = np.zeros((3, len(masks)))
        remaining: list[int] = []
        for family in masks.families:
            first, found = masks[family.positions[0]], None
            if self.own.knows_mask and problem.data is None:
                found = self._closed(self.own, first, family.numbers)
            if found is None:
                remaining.extend(family.positions)
                continue
            value[family.positions], error[family.positions] = found[0]
            believed[family.positions] = found[1].value
        known = replace(self.own, knows_mask=True, mask_prior=None)
        start = self._closed(known, NOTHING, np.zeros((1, 0)))
        before = None if start is None else float(start[0].value[0])
        return Judged(Value(value, error), believed, before, ["exact"] * len(masks), remaining)

    def _closed(self, own: User, mask: Mask, numbers: Array) -> tuple[Value, Value] | None:
        """Expected loss for a family of masks, and the loss that the user expects.

        None if it depends on the release.
        """
        loss, target, count = own.loss, own.target, len(numbers)
        if own.actions is not None or not loss.location_free or target.ranked:
            return None
        mine, theirs = (Conditioned(u.belief, channel_of(u.belief, mask, numbers)) for u in (own, self.agency))
        if mine.channel.open_samples or mine.undone is not None:
            return None
        place = mine.channel.location if target.places_records else "known"
        second = getattr(loss, "second_order", False)
        if target.is_a(Kind.FILE):
            weights = getattr(loss, "weights", 1.0)
            alike = not isinstance(weights, tuple) or len(weights) != mine.n * mine.k or mine.n == 1
            if not (getattr(loss, "separable", False) or second) or not alike:
                return self._joint(own, mine, theirs, place, count)
            form = LinearForm.of_term(Term(Kind.RECORD), mine.k, own.belief.scalar)
            found = [(w, self._kind(own, mine, theirs, form, place, t, c)) for w, t, c in mine.channel.layout.classes()]
            if any(f is None for _, f in found):
                return None
            cost, own_law = (_summed([(w, f[j]) for w, f in found if f is not None], count) for j in (0, 1))
            return cost.times(mine.n), own_law.times(mine.n)
        linear = form_of(own.belief, target)
        if linear is None:
            return None
        form = linear
        if place == "known":
            pair = self._judged(own, mine, theirs, form, form.terms)
            return pair[0].over(count), pair[1].over(count)
        if len(form.terms) != 1:
            return None
        if place == "unknown":
            one = self._kind(own, mine, theirs, form, place, 0, 0)
            return None if one is None else (one[0].over(count), one[1].over(count))
        kinds = mine.channel.layout.places(form.terms[0].row % mine.n)
        both = [(w, self._kind(own, mine, theirs, form, place, t, c)) for w, t, c in kinds]
        cost, own_law = (_summed([(w, f[j]) for w, f in both if f is not None], count) for j in (0, 1))
        return cost, own_law

    def _joint(
        self, own: User, mine: Conditioned, theirs: Conditioned, place: str, count: int
    ) -> tuple[Value, Value] | None:
        """All records together, for a loss that does not add up over them."""
        size = mine.n * mine.k
        if place != "known" or size > LARGEST_JOINT:
            return None
        form = all_records(own.belief)
        pair = self._judged(own, mine, theirs, form, form.terms)
        return pair[0].over(count), pair[1].over(count)

    def _kind(
        self, own: User, mine: Conditioned, theirs: Conditioned, form: LinearForm, place: str, t: int, c: int
    ) -> tuple[Value, Value] | None:
        """The same for a record of one kind of row, or for one in an unknown row under squared error."""
        if place != "unknown":
            return self._judged(own, mine, theirs, form, (record_in(t, c),))
        if not getattr(own.loss, "second_order", False):
            return None
        # The estimate is that of the average of all records; what is left is a matter of second moments.
        bias, covariance = residual_law(mine, theirs, [Term(Kind.AVERAGE)], form.matrix)
        extra = (
            covariance - theirs.covariance([Term(Kind.AVERAGE)], form.matrix)
            if np.isfinite(covariance).all()
            else covariance
        )
        return self._cost(own, mean_covariance(mine, form), bias, mean_covariance(theirs, form) + extra, form)

    def _judged(
        self, own: User, mine: Conditioned, theirs: Conditioned, form: LinearForm, terms: Sequence[Term]
    ) -> tuple[Value, Value]:
        bias, covariance = residual_law(mine, theirs, terms, form.matrix)
        return self._cost(own, mine.covariance(terms, form.matrix), bias, covariance, form)

    def _cost(self, own: User, own_law: Array, bias: Array, covariance: Array, form: LinearForm) -> tuple[Value, Value]:
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
            value, error = np.array(worst.over(len(endless)).value), np.zeros(len(endless))
            if not endless.all():
                rest = self._cost(own, own_law[~endless], bias[~endless], covariance[~endless], form)[0]
                value[~endless], error[~endless] = rest.value, rest.error
            return Value(value, error), believed
        right = Gaussian.scalar(bias[:, 0], covariance[:, 0, 0]) if form.number else Gaussian(bias, covariance)
        guess = (
            Gaussian.scalar(np.zeros(len(own_law)), own_law[:, 0, 0])
            if form.number
            else Gaussian(np.zeros(bias.shape), own_law)
        )
        same = np.all(bias == 0, axis=-1) & np.all(own_law == covariance, axis=(-1, -2))
        if same.all():
            # The user is right: the plain uncertainty, to the last digit.
            return believed.over(len(same)), believed
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


def _summed(parts: Sequence[tuple[float, Value]], count: int) -> Value:
    """A weighted sum over kinds of rows."""
    table = [value.over(count) for _, value in parts]
    value, error = (np.stack(column, axis=-1) for column in zip(*table, strict=True))
    return Value(value, error).averaged(np.array([weight for weight, _ in parts]))
