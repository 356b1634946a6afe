"""The engine for users who are wrong or in the dark: they decide by what they believe, and pay by what is so.

A user with ``truth=`` has another belief than the agency; one with ``knows_mask=False`` does not know the mask's
numbers. U is the loss of the user's estimate, averaged over releases and over the posterior of somebody with the
agency's belief who knows the mask. It is never below that one's own U.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ..beliefs.finite import FiniteBelief
from ..beliefs.normal import NormalBelief
from ..beliefs.table.belief import TableBelief
from ..errors import InputError, UnsupportedError
from ..losses import LogScore
from ..masks.base import Batch, Mask
from ..masks.rows import NOTHING
from ..posteriors import Gaussian
from ..protocols import Array, Posterior, Solution, Value
from ..running.replication import REPLICATES, replicate_error, replicate_seeds
from ..targets import Kind, LinearForm, Term
from ..users.user import User
from .base import BaseEngine, Missing, Problem, Refusal, Rewrite, Tell, pick, plan_for
from .finite.enumeration import Enumeration, _codes, _sample_covariance
from .finite.tables import AVERAGED
from .finite.wrong_belief import WrongFiniteBelief, cost_of
from .normal.affine import residual_law
from .normal.conditioning import Conditioned, record_in
from .normal.exact import Exact, as_records
from .normal.forms import LARGEST_JOINT, all_records, form_of, gaussian_of, mean_covariance
from .unknown_mask import NormalMixture

SAMPLED = 8
"""Releases that are drawn where posteriors are sampled and nothing else was asked for."""


@dataclass(frozen=True, eq=False)
class WrongBelief(Rewrite):
    """Expected loss of a user whose belief is not the agency's, or who does not know the mask.

    Exact for normal beliefs, linear-Gaussian masks that are known, and losses of the error alone: the user's estimate
    is affine in the release, so that its error is normal under the agency's belief, with a cost that does not grow with
    the number of records. A sum over all releases for finite beliefs, an integral for one number with noise. Otherwise
    an average over releases (100 unless ``replicates`` says otherwise) of the expected loss under the agency's
    posterior, with the error of that average. With data the releases are those of the data.
    """

    @classmethod
    def of(cls, choice: Any, problem: Problem) -> WrongBelief | Refusal:
        """The plan where both posteriors are computed by an engine that is chosen."""
        user, masks, data = problem.user, problem.masks, problem.data
        if user.target.asks_row:
            what = "Which row is whose is not available for a user with another belief or an unknown mask"
            return Refusal(what, "Leave out truth= and knows_mask=, or ask for Record(j)", Missing.TARGET)
        own, agency = parties(user)
        found = cls(plan_for(choice, problem.of_user(agency)).engine, problem, asked=choice)
        if _normal(own) and _normal(agency) and own.belief.k != agency.belief.k:
            got = f"{own.belief.k} and {agency.belief.k}"
            raise InputError(
                "The user's belief and the truth must have the same variables", got, "Both are about one file"
            )
        if own.knows_mask:
            found._inner(own, masks, data)
            return found
        if own.target.ranked:
            what = "Order statistics under an unknown mask are not available"
            return Refusal(what, "Ask for Record(j), or knows_mask=True", Missing.TARGET)
        for mask in _one_per_family(masks):
            if isinstance(own.belief, NormalBelief):
                NormalMixture(own, mask, _table(own, data))
            elif isinstance(own.belief, FiniteBelief):
                WrongFiniteBelief(own, own.belief, mask, _sample_covariance(own.belief, data))
            else:
                return _unknown_belief(own)
        return found

    def run(
        self, piece: Sequence[int] | None = None, tell: Tell | None = None, interruptible: bool = False
    ) -> list[Solution]:
        problem = self.problem if piece is None else self.problem.only(piece)
        own, agency = parties(problem.user)
        masks, data = problem.masks, problem.data
        if own.knows_mask and own.belief is agency.belief:
            plain = plan_for(self.asked, problem.of_user(agency)).run(tell=tell)[0]
            return [plain._replace(diagnostics={**plain.diagnostics, "believed": plain.uncertainty})]
        if isinstance(own.belief, FiniteBelief) and isinstance(agency.belief, FiniteBelief):
            return [self._finite(own, agency, problem, tell)]
        value, error, believed = np.empty(len(masks)), np.zeros(len(masks)), np.empty(len(masks))
        names = ["exact"] * len(masks)
        left = list(range(len(masks)))
        if _normal(own) and _normal(agency) and own.knows_mask and data is None:
            left = []
            for family in masks.families:
                found = self._closed(own, agency, masks[family.positions[0]], family.numbers)
                if found is None:
                    left.extend(family.positions)
                    continue
                value[family.positions], error[family.positions] = found[0]
                believed[family.positions] = found[1].value
        for done, i in enumerate(left):
            part = None if tell is None else lambda x, done=done: tell((done + x) / len(left))
            (value[i], error[i]), believed[i] = self._drawn(
                own, agency, masks[i], data, problem.replicates, problem.seed, part
            )
            how = "exact" if _normal(agency) else self._inner(agency, [masks[i]], data).name
            names[i] = f"{how}, averaged over releases"
        before = self._before(own, agency, data)
        words = names[0] if len(set(names)) == 1 else names
        return [Solution(value, error, before, words, {"believed": believed}, averaged=bool(left))]

    def posterior(self, mask: Mask, release: Any = None) -> Posterior:
        return self._own_posterior(self.problem.user, mask, release)

    def _own_posterior(self, user: Any, mask: Mask, release: Any = None) -> Posterior:
        """The user's own posterior after one release.

        Where the mask is not known, a mixture over what it may have been.
        """
        own, _ = parties(user)
        if own.knows_mask:
            return self._inner(own, [mask], None).posterior(own, mask, release)
        if release is None:
            raise InputError(
                "What an unknown mask was depends on what is released", None, "Pass release=mask.release(data, rng)"
            )
        if isinstance(own.belief, NormalBelief):
            return NormalMixture(own, mask).after(release, np.random.default_rng(0))
        if not isinstance(own.belief, FiniteBelief):
            raise _unknown_belief(own).error()
        return WrongFiniteBelief(own, own.belief, mask).after(release)

    # -- finite beliefs ------------------------------------------------------------------------------

    def _finite(self, own: User, agency: User, problem: Problem, tell: Tell | None) -> Solution:
        limit = self.asked.limit if isinstance(self.asked, Enumeration) else None
        masks, data = problem.masks, problem.data
        scale = _sample_covariance(agency.belief, data)
        found, first = [], None
        for i, mask in enumerate(masks):
            doubt = WrongFiniteBelief(own, agency.belief, mask, scale, limit)
            first = first or doubt
            codes = None if data is None else _codes(doubt.truth, data)
            found.append(doubt.expected(codes, problem.replicates, problem.seed))
            if tell is not None:
                tell((i + 1) / len(masks))
        assert first is not None
        value, error = (np.array([float(cost[j]) for cost, _, _ in found]) for j in (0, 1))
        names = [name for _, _, name in found]
        believed = np.array([float(f.value) for _, f, _ in found])
        words = names[0] if len(set(names)) == 1 else names
        averaged = any(name == AVERAGED for name in names)
        return Solution(value, error, first.before(), words, {"believed": believed}, averaged=averaged)

    # -- normal beliefs in closed form ---------------------------------------------------------------

    def _closed(self, own: User, agency: User, mask: Mask, numbers: Array) -> tuple[Value, Value] | None:
        """Expected loss for a family of masks, and the loss that the user expects.

        None if it depends on the release.
        """
        loss, target, count = own.loss, own.target, len(numbers)
        if own.actions is not None or not loss.location_free or target.ranked:
            return None
        mine, theirs = (Conditioned(u.belief, Exact()._channel(u.belief, mask, numbers, None)) for u in (own, agency))
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
            return _times(cost, mine.n), _times(own_law, mine.n)
        linear = form_of(own.belief, target)
        if linear is None:
            return None
        form = linear
        if place == "known":
            pair = self._judged(own, mine, theirs, form, form.terms)
            return _out(pair[0], count), _out(pair[1], count)
        if len(form.terms) != 1:
            return None
        if place == "unknown":
            one = self._kind(own, mine, theirs, form, place, 0, 0)
            return None if one is None else (_out(one[0], count), _out(one[1], count))
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
        return _out(pair[0], count), _out(pair[1], count)

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
            value, error = np.array(_out(worst, len(endless)).value), np.zeros(len(endless))
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
            return _out(believed, len(same)), believed
        if isinstance(loss, LogScore):
            return Value.exact(_cross_entropy(own_law, bias, covariance)), believed
        return cost_of(loss, right, loss.estimate(guess)), believed

    # -- anything else, over drawn releases ----------------------------------------------------------

    def _drawn(
        self, own: User, agency: User, mask: Mask, data: Any, replicates: int | None, seed: Any, tell: Any
    ) -> tuple[tuple[float, float], float]:
        count = REPLICATES if replicates is None else replicates
        if replicates is None and any(self._sampled(u, mask, data) for u in (own, agency)):
            count = 1 if data is not None else SAMPLED  # every release is a run of a sampler
        mine, theirs = self._inverter(own, mask, data), self._inverter(agency, mask, data)
        loss = own.loss
        costs, within, believed = np.empty(count), np.zeros(count), np.empty(count)
        for r, (for_data, for_mask, for_draws) in enumerate(replicate_seeds(seed, count)):
            records = agency.belief.draw(np.random.default_rng(for_data)) if data is None else data
            # A frame keeps the row numbers, which tell who is in a sample; a table of counts has no rows.
            rows = records if isinstance(agency.belief, TableBelief) else pd.DataFrame(_plain_rows(records))
            release = mask.release(rows, for_mask)
            own_law = mine(release, np.random.default_rng(for_draws))
            right = theirs(release, np.random.default_rng(for_draws))
            result = cost_of(loss, right, loss.estimate(own_law, own.actions))
            costs[r], within[r] = float(result.value), float(result.error)
            believed[r] = float(loss.uncertainty(own_law, own.actions).value)
            if tell is not None:
                tell((r + 1) / count)
        error = replicate_error(costs) if count > 1 else within[0]
        return (float(costs.mean()), float(error)), float(believed.mean())

    def _sampled(self, user: User, mask: Mask, data: Any) -> bool:
        """Whether every posterior is a run of a sampler (or as slow)."""
        return self._inner(user, [mask], data).planned

    def _inverter(self, user: User, mask: Mask, data: Any) -> Callable[[Any, np.random.Generator], Posterior]:
        """How this user gets from a release to a posterior."""
        if _normal(user):
            return NormalMixture(user, mask, _table(user, data)).after
        if not user.knows_mask:
            return lambda release, rng: self._own_posterior(user, mask, release)
        engine = self._inner(user, [mask], data)
        return lambda release, rng: engine.posterior(user, mask, release)

    def _before(self, own: User, agency: User, data: Any) -> float:
        """Expected loss before any release."""
        known = replace(own, knows_mask=True, mask_prior=None)
        if isinstance(own.belief, NormalBelief) and isinstance(agency.belief, NormalBelief):
            found = self._closed(known, agency, NOTHING, np.zeros((1, 0)))
            if found is not None:
                return float(found[0].value[0])
        try:
            engines = [self._inner(u, [NOTHING], data) for u in (known, agency)]
            nothing = None
            if any(engine.planned for engine in engines):
                # A sampler wants to see a release, be it one that tells nothing.
                rows = agency.belief.draw(np.random.default_rng(0)) if data is None else data
                nothing = NOTHING.release(pd.DataFrame(_plain_rows(rows)), 0)
            own_law, right = (e.posterior(u, NOTHING, nothing) for e, u in zip(engines, (known, agency), strict=True))
        except (InputError, UnsupportedError):
            return float("nan")
        if not (np.isfinite(own_law.var()).all() and np.isfinite(right.var()).all()):
            endless = own_law if not np.isfinite(own_law.var()).all() else right
            return float(own.loss.uncertainty(endless, own.actions).value)
        return float(cost_of(own.loss, right, own.loss.estimate(own_law, own.actions)).value)

    def _inner(self, user: User, masks: Sequence[Mask], data: Any) -> BaseEngine:
        return pick(self.asked, replace(user, knows_mask=True, mask_prior=None, truth=None), masks, data)


def _normal(user: User) -> bool:
    """Whether posteriors are normal, or mixtures of normal ones."""
    return isinstance(user.belief, NormalBelief) and not user.target.ranked


def _unknown_belief(own: User) -> Refusal:
    what = "A mask that is not known needs a NormalBelief or a FiniteBelief"
    return Refusal(
        f"{what}; this user has a {type(own.belief).__name__}",
        "Use knows_mask=True, or list the candidate masks in a map of their own",
    )


def parties(user: User) -> tuple[User, User]:
    """The user as he decides, and somebody with the agency's belief who knows the mask."""
    agency = replace(
        user, belief=user.belief if user.truth is None else user.truth, truth=None, knows_mask=True, mask_prior=None
    )
    return replace(user, truth=None), agency


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


def _table(user: User, data: Any) -> Array | None:
    return None if data is None else as_records(user.belief, data)


def _plain_rows(records: Any) -> Any:
    """Records whose index numbers their rows."""
    return records.reset_index(drop=True) if isinstance(records, (pd.Series, pd.DataFrame)) else records


def _one_per_family(masks: Sequence[Mask]) -> list[Mask]:
    return [masks[f.positions[0]] for f in Batch.of(masks).families]


def _out(value: Value, count: int) -> Value:
    return Value(np.broadcast_to(value.value, (count,)), np.broadcast_to(value.error, (count,)))


def _summed(parts: Sequence[tuple[float, Value]], count: int) -> Value:
    """A weighted sum over kinds of rows; errors are added, since they may hang together."""
    total, error = np.zeros(count), np.zeros(count)
    for weight, value in parts:
        total, error = total + weight * np.asarray(value.value), error + weight * np.asarray(value.error)
    return Value(total, error)


def _times(value: Value, factor: float) -> Value:
    return Value(value.value * factor, value.error * factor)
