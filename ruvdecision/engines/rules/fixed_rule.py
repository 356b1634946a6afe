"""The engine for snoopers: the expected loss of a fixed rule, exact where it can be, otherwise simulated."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...channels.linear import LinearChannel
from ...checks import as_generator, check_choice
from ...errors import InputError, UnsupportedError
from ...losses.base import as_bayes_loss, is_bayes_loss
from ...masks.base import Mask
from ...posteriors import Gaussian
from ...protocols import Array, Ints, Posterior, Root, Solution, Value
from ...running.replication import Seeds, replicate_seeds
from ...targets import Kind, LinearForm
from ...users.rules import Released, Row, Rule, order_rows
from ...users.user import Snooper
from ..base import BaseEngine, Problem, Progress, Question, Refusal, no_progress
from ..normal.conditioning import released_entries
from ..normal.exact import Exact
from ..normal.forms import form_of
from ..normal.releases import linear_channel
from .closed_forms import LinearTarget, clipped_error, error_law, has_clipped_error, linear_estimate
from .costs import check_sizes, costs_of_estimates, mean_moments, sampling_shares
from .every_row import REPLICATES, every_row, row_kinds
from .source import DrawnRecords, EntryNoise, NoisyValues, RecordSource

CHUNK = 200_000
"""Entries of a block of replicates: what is held at any time does not grow with replicates or masks."""
BLOCK = 500
"""Masks that are solved in one go, and kept in a checkpoint together."""


@dataclass(frozen=True)
class FixedRule(BaseEngine):
    """Expected loss of a `Snooper`'s rule.

    Exact for linear rules and linear targets, where the release is linear-Gaussian and the records come from a
    `NormalBelief` or are given, and the loss depends on the error alone: the error is then normal with known
    mean and covariance. Otherwise releases are simulated. All masks share their random numbers (noise of different
    size is the same draw, scaled), blocks of replicates are worked on together, and U carries its standard error.

    Parameters
    ----------
    method : {"auto", "exact", "simulate"}
        "auto" is exact where the error is normal, as above. "exact" also integrates the error of linear rules and ranks
        on records at hand, for normal noise with or without bounds and squared error (Duncan et al., section V); the
        work for a rank in the middle grows as the square of the number of records.

    A release that holds no value at all for the rule (everything suppressed) leaves the snooper without an estimate: U
    is infinite. One that holds it only sometimes (a sample without the target's row) is refused, because an infinite
    U would hide what the other releases give away.
    """

    method: str = "auto"
    name = "fixed rule"
    answers = Question.RULE
    always_cut = True

    def __post_init__(self) -> None:
        check_choice("method", self.method, ["auto", "exact", "simulate"])

    @classmethod
    def where(cls, asked: BaseEngine | None) -> BaseEngine:
        return cls(method="exact") if isinstance(asked, Exact) else super().where(asked)

    def prepare(self, problem: Problem) -> Refusal | None:
        user, masks = problem.user, problem.masks
        if self.method == "exact":
            work = SnooperWork(user, RecordSource.of(user.belief, problem.data))
            for family in masks.families:
                mask = masks[family.positions[0]]
                if work.channel(mask, family.numbers[:1]) is not None and not any(
                    _has_infinite_noise(masks[i]) for i in family.positions
                ):
                    continue
                if not all(has_clipped_error(user, work.source, masks[i], work.linear_rule) for i in family.positions):
                    what = f"{mask} with {user.estimator!r} has no closed form for a snooper"
                    return Refusal(what, "Use engine='auto', which simulates it")
        return None

    def pieces(self, problem: Problem) -> list[list[int]]:
        """Blocks so large that what their masks share, the drawn records and the noise, is little work."""
        count = len(problem.masks)
        return [list(range(i, min(i + BLOCK, count))) for i in range(0, count, BLOCK)]

    def run(self, problem: Problem, built: None) -> list[Solution]:
        user, masks = problem.user, problem.masks
        work = SnooperWork(user, RecordSource.of(user.belief, problem.data))
        value, error = np.empty(len(masks)), np.zeros(len(masks))
        open_ = set(range(len(masks)))
        for family in masks.families if self.method != "simulate" else []:
            members = [i for i in family.positions if not _has_infinite_noise(masks[i])]
            if not members:
                continue
            numbers = np.array([masks[i].numbers for i in members], dtype=np.float64)
            channel = work.channel(masks[members[0]], numbers)
            if channel is not None:
                value[members], error[members] = work.exact_loss(channel)
                open_.difference_update(members)
        others = sorted(open_)
        names = ["exact"] * len(masks)
        if self.method == "exact":
            for i in others:
                value[i] = clipped_error(user, work.source, masks[i], work.linear_rule)
        elif others:
            count = REPLICATES if problem.replicates is None else problem.replicates
            drawn = work.simulate([masks[i] for i in others], count, problem.seed, problem.progress)
            value[others], error[others] = drawn.value, drawn.error
            for i in others:
                names[i] = "simulated"
        averaged = "simulated" in names
        words = names[0] if len(set(names)) == 1 else names
        return [Solution(value, error, float("nan"), words, averaged=averaged)]

    def every_row(self, problem: Problem, built: None, rows: Ints) -> Solution | None:
        return None if self.method == "exact" else every_row(problem, rows)

    def row_kinds(self, problem: Problem, built: None, rows: Ints, located: bool = False) -> Ints:
        return row_kinds(problem, rows)

    def posterior(self, user: object, mask: Mask, release: object = None) -> Posterior:
        """A snooper has none."""
        what = "A snooper uses a fixed rule and has no posterior"
        raise UnsupportedError(what, type(user).__name__, "Ask for the posterior of a User")


class SnooperWork:
    """One snooper and the records that the rule is judged on."""

    def __init__(self, user: Snooper, source: RecordSource) -> None:
        self.user, self.source = user, source
        self.rule: Rule = user.estimator
        self.rank = user.target.rank(source.n) if user.target.is_order_statistic else None
        if self.rule.by_index and source.table is not None and source.k == 1:
            # Index knowledge of the records at hand is a row like any other.
            self.rule = Row(int(self._rows_of_rank(source.table)[0]))
        self.sampling_variance = source.table is not None and user.target.is_a(Kind.PARAMETER)
        if self.sampling_variance:
            _check_scientist(user, source)

    @cached_property
    def linear_rule(self) -> Rule | None:
        """The rule with its weights if it is linear; a function is tried where the records come from a belief."""
        if self.rule.as_released and self.source.table is not None:
            return None
        return self.rule.as_linear(self.source.n, self.source.k, self.source.vector)

    # -- in closed form ------------------------------------------------------------------------------------

    def channel(self, mask: Mask, numbers: Array) -> LinearChannel | None:
        """The channel of a family whose exact value is known, or None."""
        user, source = self.user, self.source
        loss, target = user.loss, user.target
        if not loss.location_free or not is_bayes_loss(loss) or target.is_a(Kind.FILE) or self.sampling_variance:
            return None
        rule = self.linear_rule
        known = (
            source.n >= 2 if source.table is not None else source.normal is not None and self._linear_form is not None
        )
        if rule is None or not known:
            return None
        channel = linear_channel(source.normal or source.belief_without_law, mask, numbers, source.table)
        if channel is None or channel.location == "known":
            return channel
        # Rows that moved or were drawn: only a rule that treats them alike, and one record at most in the target.
        plain = rule.averages and sum(t.kind is Kind.RECORD for t in target.terms) <= 1
        return channel if plain and source.table is None else None

    def exact_loss(self, channel: LinearChannel) -> Value:
        """Expected loss of the rule for every member of a family."""
        source, rule = self.source, self.linear_rule
        assert rule is not None
        there = released_entries(channel)
        weights = rule.weights(there)
        assert weights is not None
        if np.any((weights != 0) & ~there) or not np.all(there.any(axis=0)):
            # Nothing is released that the rule could use.
            return Value.exact(np.inf)
        estimate = linear_estimate(channel, weights)
        if source.table is not None:
            truth = self.known_truth
            centre = np.einsum("nij,nj->i", estimate.records, source.table) + rule.constant()
            check_sizes(len(centre), len(truth), rule)
            return self._expected_loss(centre - truth, estimate.noise)
        form = self._linear_form
        assert form is not None
        check_sizes(source.k, len(form.constant), rule)
        total: Any = 0.0
        for share, shaped in self._target_places(form, channel):
            mean, covariance = error_law(self.user.belief, estimate, shaped, rule)
            total = total + share * self._expected_loss(mean, covariance).value
        return Value.exact(total)

    def _target_places(self, form: LinearForm, channel: LinearChannel) -> Iterator[tuple[float, LinearTarget]]:
        """The target at each kind of place where its record may be, with its share."""
        n, k = self.source.n, self.source.k
        wanted = LinearTarget.of(form, n, k)
        rows = [i for i, p in enumerate(form.terms) if p.kind is Kind.RECORD]
        if channel.location == "known" or not rows:
            yield 1.0, wanted
            return
        shape, _, cell = channel.layout.place_of_rows()
        piece = form.matrix[:, rows[0] * k : rows[0] * k + k]
        here = form.terms[rows[0]].row % n
        kinds = channel.layout.places(here) if channel.location == "drawn" else channel.layout.classes()
        for share, t, c in kinds:
            records = wanted.records.copy()
            records[here] -= piece
            records[np.flatnonzero((shape == t) & (cell == c))[0]] += piece
            yield share, LinearTarget(wanted.mean, wanted.new, records, wanted.constant)

    def _expected_loss(self, mean: Array, covariance: Array) -> Value:
        """Expected loss of an error with this law: the truth seen from the estimate."""
        loss = self.user.loss
        nothing = np.zeros((1, len(mean)))
        costs_of_estimates(loss, nothing, nothing, self.rule)  # a loss of intervals refuses a number
        if len(mean) == 1:
            law = Gaussian.scalar(np.full(len(covariance), -mean[0]), covariance[:, 0, 0])
            return loss.expected(law, np.zeros(len(covariance)))
        centre = np.broadcast_to(-mean, (len(covariance), len(mean)))
        return loss.expected(Gaussian(centre, covariance), np.zeros(centre.shape))

    @cached_property
    def _linear_form(self) -> LinearForm | None:
        return form_of(self.user.belief, self.user.target)

    # -- by simulation -----------------------------------------------------------------------------------------

    def simulate(self, masks: Sequence[Mask], count: int, seed: Root, on_progress: Progress) -> Value:
        """Expected loss by releases that are drawn, and its standard error."""
        self._check_flat(masks, seed)
        losses, correction = self._losses_in_replicates(masks, count, seed, on_progress)
        lost = np.isnan(losses)
        for mask, without in zip(masks, lost.sum(axis=1).tolist(), strict=True):
            if 0 < without < count:
                what = f"After {mask} some releases hold no value for the rule {self.rule!r}, others do"
                do = "Give a callable that says what the snooper does then, such as taking the mean"
                raise UnsupportedError(what, f"{without} of {count} without", do)
        return self.average(losses, correction)

    def average(self, losses: Array, correction: Array | float) -> Value:
        """Mean over the replicates, the last axis, with its standard error; infinite where no release has a value."""
        count = losses.shape[1]
        value = losses.mean(axis=1)
        error = np.full(len(losses), np.nan)
        if count > 1:
            away = losses - value[:, None]
            # Squares of very large losses are out of reach.
            unit = np.abs(away).max(axis=1)
            away /= np.where(np.isfinite(unit) & (unit > 0), unit, 1.0)[:, None]
            error = unit * np.sqrt(np.vecdot(away, away) / ((count - 1) * count))
        lost = np.isnan(value)
        return Value(np.where(lost, np.inf, value - correction), np.where(lost, 0.0, error))

    def _check_flat(self, masks: Sequence[Mask], seed: Root) -> None:
        """Refuse a flat prior unless the loss is the same wherever the population mean is."""
        belief = self.source.normal
        if belief is None or belief.mu_covariance is not None:
            return
        step = 1000.0 * float(np.sqrt(np.diag(belief.record_covariance).max()))
        here = self._losses_in_replicates(masks, 4, seed)[0]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a rule may overflow so far out, which is an answer too
            there = self._losses_in_replicates(masks, 4, seed, shift=step)[0]
        scale = np.nanmax(np.abs(here), initial=0.0)
        if not np.allclose(here, there, rtol=1e-7, atol=1e-7 * scale, equal_nan=True):
            what = "The loss of this rule depends on the population mean, and a flat prior gives no law to average over"
            raise UnsupportedError(what, do="Give the belief a prior_variance, or pass data=")

    def _losses_in_replicates(
        self, masks: Sequence[Mask], count: int, seed: Root, on_progress: Progress = no_progress, shift: float = 0.0
    ) -> tuple[Array, Array]:
        """Loss in every replicate, (masks, replicates), and what is to be taken off their mean."""
        source = self.source
        seeds = list(replicate_seeds(seed, count))
        step = max(1, CHUNK // (source.n * source.k))

        # A function of one's own gets the kind of data that was given.
        framed = self.rule.as_released and source.kind not in ("vector", "matrix")
        noises: dict[object, list[tuple[int, EntryNoise]]] = {}
        others = []
        for i, mask in enumerate(masks):
            noise = None if framed else EntryNoise.of(mask, source)
            if noise is None:
                others.append(i)
            else:
                # Masks of one kind and stream use the same standard draws.
                noises.setdefault((noise.kind, noise.stream), []).append((i, noise))
        found: list[list[Array]] = [[] for _ in masks]
        truths = []
        for start in range(0, count, step):
            block = seeds[start : start + step]
            drawn = source.draw(block).moved(shift) if shift else source.draw(block)
            truths.append(self._true_targets(drawn))
            index = self._rows_of_rank(drawn.records) if self.rule.by_index else None
            for members in noises.values():
                draws = members[0][1].draw(source.n, source.k, block)
                for i, noise in members:
                    found[i].append(self._estimates_from_releases(NoisyValues(noise, drawn.records, draws), index))
            for i in others:
                each = zip(drawn.records, drawn.records[:, 0] if index is None else index, block, strict=True)
                found[i].append(np.stack([self._estimates_once(masks[i], x, at[None], s) for x, at, s in each]))
            on_progress(min(start + step, count) / count)
        return self.costs(np.stack([np.concatenate(part) for part in found]), np.concatenate(truths))

    def _estimates_from_releases(self, released: Released, index: Ints | None) -> Array:
        """Estimates from complete releases; ``index`` is where the target's record stands, for a rule that needs it."""
        if self.sampling_variance:
            return mean_moments(released.values)
        if index is not None:
            return np.asarray(np.take_along_axis(released.values, index[:, None, :], axis=1)[:, 0])
        return self.rule.estimates(released, self.source.vector)

    def _estimates_once(self, mask: Mask, x: Array, index: Ints, seeds: Seeds) -> Array:
        """The estimate from one release of any mask."""
        rng = as_generator(seeds[1])
        if self.rule.as_released:
            given = self.source.given
            if given is None:
                given = x[:, 0] if self.source.vector else x
            return np.asarray(np.atleast_1d(self.rule(mask.release(given, rng)))).ravel()
        release = mask.release(self.source.frame(x), rng)
        values = self.source.rows(release, f"The rule {self.rule!r}")[None]
        if self.sampling_variance or self.rule.by_index:
            return self._estimates_from_releases(Released(values), index)[0]
        return self.rule.of(values)[0]

    def _rows_of_rank(self, records: Array) -> Ints:
        assert self.rank is not None  # a snooper by index is after one record, as checked
        return order_rows(records, self.rank)

    def costs(self, estimates: Array, truth: Array) -> tuple[Array, Array]:
        """Loss of estimates (masks, replicates, m), and what is to be taken off its mean over replicates."""
        if self.sampling_variance:
            assert self.source.table is not None
            return sampling_shares(estimates, self.source.table.mean(axis=0), self.user.loss)
        masks, count, _ = estimates.shape
        wanted = np.broadcast_to(truth, (masks, count, truth.shape[-1])).reshape(masks * count, -1)
        every = costs_of_estimates(self.user.loss, estimates.reshape(masks * count, -1), wanted, self.rule)
        return every.reshape(masks, count), np.zeros(masks)

    @property
    def place(self) -> int:
        """Which of the released values is taken, in order if the rule is a rank, by a rule that takes one of them."""
        rank = self.rule.rank(self.source.n)
        place: int = self.rule.place(self.source.n) if rank is None else rank - 1  # type: ignore[attr-defined]
        return place

    def _true_targets(self, drawn: DrawnRecords) -> Array:
        """The target in every replicate, (replicates, m); the population mean of data is not known, and not needed."""
        if self.sampling_variance:
            return np.empty((len(drawn.records), 0))
        if self.source.table is None:
            return drawn.truth(self.user.target)
        return np.broadcast_to(self.known_truth, (len(drawn.records), len(self.known_truth)))

    @cached_property
    def known_truth(self) -> Array:
        """The target in the records at hand, (m,)."""
        assert self.source.table is not None
        return DrawnRecords(self.source.table[None]).truth(self.user.target)[0]


# -- helpers -------------------------------------------------------------------------------------------------


def _check_scientist(user: Snooper, source: RecordSource) -> None:
    """The population mean of given records has a meaning for the released mean and squared error only."""
    term = user.target.terms[0]
    fits = user.estimator.averages and as_bayes_loss(user.loss).second_order and term.component is None
    if not fits or term.name != "mu":
        raise UnsupportedError(
            "With data the population's parameters are not known; the exception is the released mean for "
            "Parameter('mu') under "
            "squared error (Duncan et al., eqs 13 and 14)",
            f"rule {user.estimator!r}, {user.target!r}, {user.loss!r}",
            "Ask for Average() or another function of the records, or use a NormalBelief without data",
        )
    if source.n < 2:
        raise InputError("The error of a mean needs at least two records", source.n, "Give the whole file")


def _has_infinite_noise(mask: Mask) -> bool:
    """Infinite noise releases missing values, which a rule cannot use."""
    return bool(np.isinf(mask.numbers).any()) if mask.numbers else False
