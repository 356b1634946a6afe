"""The exact engine: normal beliefs and releases that are linear in the records plus Gaussian noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import pandas as pd

from ...beliefs.normal import NormalBelief
from ...channels.linear import LinearChannel
from ...channels.samples import sample_cases
from ...checks import as_generator
from ...errors import UnsupportedError
from ...losses.base import as_bayes_loss
from ...masks.base import Mask
from ...masks.rows import NOTHING
from ...numerics.quadrature import gauss_normal
from ...posteriors import Gaussian
from ...protocols import Array, Ints, Posterior, Solution, Value
from ...running.replication import mean_over_replicates, replicate_error, replicate_seeds
from ...targets import Kind, LinearForm, Term
from ...users.user import User
from ..base import (
    RANKS,
    WHOLE_FILE,
    BaseEngine,
    DecisionCosts,
    Evidence,
    MaskMixture,
    Missing,
    Plan,
    Problem,
    Refusal,
    needs_release,
    progress_of_part,
)
from .affine import log_density
from .conditioning import Conditioned
from .forms import (
    LARGEST_JOINT,
    all_records,
    covariance_of,
    covariances_by_place,
    form_of,
    gaussian_of,
    mean_covariance,
    posterior_given,
)
from .releases import as_records, channel_of, move_target, released, rows_alike, samples_held
from .wrong_belief import NormalMixture, NormalPair

AVERAGED = "exact, averaged over releases"


@dataclass(frozen=True, eq=False)
class _Built:
    """A belief, the data as numbers, and the channel of each family by the identity of its first mask."""

    belief: NormalBelief
    table: Array | None
    channels: dict[int, LinearChannel]
    _given: dict[int, Conditioned] = field(default_factory=dict)

    @classmethod
    def of(cls, belief: NormalBelief, problem: Problem) -> _Built:
        table = None if problem.data is None else as_records(belief, problem.data)
        firsts = [(problem.masks[family.positions[0]], family.numbers) for family in problem.masks.families]
        return cls(belief, table, {id(mask): channel_of(belief, mask, numbers, table) for mask, numbers in firsts})

    def given(self, first: Mask) -> Conditioned:
        """The belief given the releases of a family, known by its first mask."""
        if id(first) not in self._given:
            self._given[id(first)] = Conditioned(self.belief, self.channels[id(first)])
        return self._given[id(first)]

    @cached_property
    def without_release(self) -> Conditioned:
        """The belief before any release."""
        return Conditioned(self.belief, channel_of(self.belief, NOTHING))


@dataclass(frozen=True)
class Exact(BaseEngine):
    """Closed-form posteriors for a `NormalBelief` and masks with a linear-Gaussian channel.

    Without data, the uncertainty is the expected one before the release is known. For the usual losses and a
    known row it is the same for every release. Where it does depend on the release (an unknown row, a loss
    of the user's own, a nonlinear target) it is averaged over releases drawn from the belief, or over releases of
    ``data``, and carries the error of that average.
    """

    name = "exact"
    beliefs = (NormalBelief,)
    normal = True
    companions = (RANKS, WHOLE_FILE)

    def prepare(self, problem: Problem) -> _Built | Refusal:
        user = problem.user
        if user.target.is_order_statistic:
            what = "Exact needs a target that is linear in the records; Ranks has order statistics"
            return Refusal(what, "Use engine='auto'", Missing.USER)
        built: _Built = problem.build_once(Exact, user.belief, partial(_Built.of, user.belief, problem))
        return built

    def pieces(self, problem: Problem) -> list[list[int]]:
        """A family is one vectorised go."""
        return [list(family.positions) for family in problem.masks.families]

    def run(self, problem: Problem, built: _Built) -> list[Solution]:
        masks, form = problem.masks, _linear_form_of(problem.user)
        value, error = np.empty(len(masks)), np.zeros(len(masks))
        averaged = np.zeros(len(masks), dtype=bool)
        for family in masks.families:
            members = family.positions
            given = built.given(masks[members[0]])
            part = progress_of_part(problem.progress, int(members[0]), len(masks), len(members))
            own = [masks[i] for i in members]
            result, averaged[members] = self._uncertainty_of_family(
                replace(problem, progress=part), form, own, given, built.table
            )
            value[members], error[members] = result.value, result.error
        names: str | list[str] = "exact"
        if averaged.any():
            names = [AVERAGED if a else "exact" for a in averaged]
        before = Value.exact(np.nan) if problem.after_only else self._uncertainty_before(problem, built)
        drawn = bool(averaged.any())
        return [Solution(value, error, float(before.value), names, averaged=drawn, before_error=float(before.error))]

    def posterior(self, user: User, mask: Mask, release: object = None) -> Posterior:
        """Posterior of the target after one release.

        Without ``release`` the posterior is centred at the prior mean: its shape is right, its place is not
        known yet.
        """
        belief: NormalBelief = user.belief
        given = Conditioned(belief, channel_of(belief, mask))
        placed = given.channel.location != "known" and user.target.places_records
        if release is None and (placed or given.channel.open_samples):
            raise needs_release(mask)
        if release is None:
            return posterior_given(user, given, None, as_generator(0))
        given, values, place = _read_release(given, mask, release)
        return posterior_given(replace(user, target=move_target(user.target, place)), given, values, as_generator(0))

    def posteriors(self, problem: Problem, mask: Mask, releases: Iterable[object]) -> Iterator[Evidence]:
        user, belief = problem.user, problem.user.belief
        table = None if problem.data is None else as_records(belief, problem.data)
        given = Conditioned(belief, channel_of(belief, mask, data=table))
        for (_, _, for_draws), release in zip(replicate_seeds(problem.seed), releases, strict=False):
            this, values, place = _read_release(given, mask, release, table)
            mine = replace(user, target=move_target(user.target, place))
            posterior = posterior_given(mine, this, values, np.random.default_rng(for_draws))
            yield Evidence(posterior, partial(_log_density_and_rank, this, values))

    # -- every record --------------------------------------------------------------------------------

    def every_row(self, problem: Problem, built: _Built, rows: Ints) -> Solution | None:
        user = problem.user
        form = form_of(user.belief, user.target.aimed_at(0))
        (channel,) = built.channels.values()
        if form is None or len(form.terms) != 1 or channel.location == "unknown" or channel.open_samples:
            return None
        averaged = user.actions is not None or not user.loss.location_free
        if averaged:
            if built.table is None:
                return None
            found = self._drawn_rows(problem, built.table, form, rows)
        elif channel.location == "known":
            found = self._closed_rows(problem, channel, form, rows)
        else:
            return None
        name = AVERAGED if averaged else "exact"
        one = problem.of_user(replace(user, target=user.target.aimed_at(int(rows[0]))))
        return Solution(
            *found, float(self._uncertainty_before(one, built).value), [name] * len(problem.masks), averaged=averaged
        )

    def _closed_rows(self, problem: Problem, channel: LinearChannel, form: LinearForm, rows: Ints) -> Value:
        """Each kind of row once, for all masks."""
        covariances, which = _covariances_by_place(Conditioned(problem.user.belief, channel), form, rows)
        lead = len(problem.masks)
        stacked = np.stack([np.broadcast_to(c, (lead, *c.shape[1:])) for c in covariances], axis=1)
        each = problem.user.loss.uncertainty(gaussian_of(stacked, form))
        return Value(*(np.broadcast_to(v, stacked.shape[:2])[:, which] for v in each))

    def _drawn_rows(self, problem: Problem, table: Array, form: LinearForm, rows: Ints) -> Value:
        """Average over releases of the data, all records on the same ones."""
        user, count = problem.user, problem.count
        frame = pd.DataFrame(table, columns=user.belief.columns)
        value, error = np.empty((2, len(problem.masks), len(rows)))
        for i, mask in enumerate(problem.masks):
            given = Conditioned(user.belief, channel_of(user.belief, mask, data=table))
            found, which = _covariances_by_place(given, form, np.arange(given.n))
            covariances = np.stack([c[0] for c in found])[which]
            each, within = np.empty((2, count, len(rows)))
            for r, (_, for_mask, _) in enumerate(replicate_seeds(problem.seed, count)):
                values, place = released(user.belief, given.channel, mask.release(frame, for_mask))
                at = place[rows]
                means = given.means(values).records()[at] @ form.matrix.T + form.constant
                each[r], within[r] = user.loss.uncertainty(gaussian_of(covariances[at], form, means), user.actions)
            value[i], error[i] = each.mean(axis=0), replicate_error(each) if count > 1 else within[0]
            problem.progress((i + 1) / len(problem.masks))
        return Value(value, error)

    def row_kinds(self, problem: Problem, built: _Built, rows: Ints, located: bool = False) -> Ints:
        user, columns = problem.user, []
        by_location = built.table is not None and (located or user.actions is not None or not user.loss.location_free)
        for channel in built.channels.values():
            # Where nobody knows whose row is whose every record has the same posterior, whatever the data are.
            alone = by_location and channel.location != "unknown"
            alike = None if alone else rows_alike(channel, rows)
            if alike is None:
                return rows[:, None]
            columns += alike
        return np.stack(columns, axis=1)

    # -- users who are wrong or in the dark ----------------------------------------------------------

    def unknown_mask(self, problem: Problem, mask: Mask) -> MaskMixture:
        data = problem.data
        return NormalMixture(problem.user, mask, None if data is None else as_records(problem.user.belief, data))

    def wrong_belief(self, own: Plan, agency: Plan) -> Callable[[Problem], DecisionCosts]:
        return NormalPair(own.problem.user, agency.problem.user)

    # -- one family ----------------------------------------------------------------------------------

    def _uncertainty_before(self, problem: Problem, built: _Built) -> Value:
        """Uncertainty before any release."""
        form = _linear_form_of(problem.user)
        found = self._uncertainty_of_family(problem, form, [NOTHING], built.without_release, None)[0]
        return Value(found.value[0], found.error[0])

    def _uncertainty_of_family(
        self, problem: Problem, form: LinearForm | None, family: Sequence[Mask], given: Conditioned, data: Array | None
    ) -> tuple[Value, bool]:
        """Uncertainty of a family's members, and whether it had to be averaged over drawn releases."""
        count, user = len(family), problem.user
        whole = user.target.is_a(Kind.FILE)
        # Whether U does not depend on where the posterior lies, or its mean, a number, has a law.
        free = user.actions is None and user.loss.location_free
        by_mean = data is None and form is not None and form.number and user.belief.mu_covariance is not None
        place = given.channel.location if user.target.places_records else "known"
        if given.channel.open_samples:
            if whole or (form is not None and (free or by_mean)):
                return self._average_over_samples(problem, form, family, given, data), False
            return self._average_over_draws(problem, family, data), True
        if whole:
            return self._all_records(user, given, count), False
        if form is not None and place == "unknown":
            second = free and as_bayes_loss(user.loss).second_order
            if len(form.terms) == 1 and second and data is None:
                each = user.loss.uncertainty(gaussian_of(mean_covariance(given, form), form))
                return each.broadcast_to(count), False
        elif form is not None and (free or by_mean):
            # Where the record may lie, for a sample whose rows are told.
            kinds = [(1.0, covariance_of(given, form))] if place == "known" else covariances_by_place(given, form)
            if not free:
                return self._average_over_means(user, form, kinds, count), False
            each = _weighted_sum([(w, user.loss.uncertainty(gaussian_of(c, form))) for w, c in kinds])
            return each.broadcast_to(count), False
        return self._average_over_draws(problem, family, data), True

    def _average_over_samples(
        self, problem: Problem, form: LinearForm | None, family: Sequence[Mask], given: Conditioned, data: Array | None
    ) -> Value:
        """Average over who is in the samples of single releases."""
        belief, numbers = given.belief, np.array([mask.numbers for mask in family], dtype=np.float64)
        terms = () if form is None else form.terms
        followed = sorted({t.row % given.n for t in terms if t.kind is Kind.RECORD})
        count = problem.count
        cases, complete = sample_cases(given.channel.open_samples, given.n, followed, count, problem.seed)
        each = []
        for _, samples in cases:
            this = Conditioned(belief, channel_of(belief, family[0], numbers, data, samples))
            each.append(self._uncertainty_of_family(problem, form, family, this, data)[0])
        total = _weighted_sum([(w, value) for (w, _), value in zip(cases, each, strict=True)])
        if complete:
            return total
        error = (
            replicate_error(np.stack([value.value for value in each])) if count > 1 else np.full(len(family), np.nan)
        )
        return Value(total.value, np.hypot(total.error, error))

    def _average_over_means(
        self, user: User, form: LinearForm, covariances: Sequence[tuple[float, Array]], count: int
    ) -> Value:
        """Expected uncertainty of a loss that depends on where the posterior lies.

        The posterior mean is normal around the prior mean with variance prior minus posterior variance; the
        average is taken by quadrature, its error judged by a second rule.
        """
        belief = user.belief
        whole = Conditioned(belief, channel_of(belief, NOTHING))
        prior = covariance_of(whole, form)[0, 0, 0]
        centre = float((form.matrix @ np.tile(belief.mu_mean, len(form.terms)) + form.constant)[0])
        answers = []
        for z, weight in _normal_rules(smooth=user.actions is None):
            total = np.zeros(count)
            for share, covariance in covariances:
                var = np.broadcast_to(covariance[:, 0, 0], (count,))
                means = centre + np.sqrt(np.maximum(prior - var, 0.0))[:, None] * z
                posterior = Gaussian.scalar(means, np.broadcast_to(var[:, None], means.shape))
                total += share * (user.loss.uncertainty(posterior, user.actions).value @ weight)
            answers.append(total)
        value = answers[-1] if user.actions is None else np.mean(answers, axis=0)
        return Value(value, np.max(np.abs(np.array(answers) - value), axis=0))

    def _all_records(self, user: User, given: Conditioned, count: int) -> Value:
        """All records at once: a loss that adds up over records needs each kind of record once."""
        loss, belief = user.loss, given.belief
        # Weights for every entry of the file tell records apart; then the whole joint posterior is needed.
        if user.actions is None and loss.location_free and as_bayes_loss(loss).adds_up(given.n, given.k):
            form = LinearForm.of_term(Term(Kind.RECORD), belief.k, belief.scalar)
            if given.channel.location == "unknown":
                if not as_bayes_loss(loss).second_order:
                    what = "All records in unknown order need the quadratic loss"
                    raise UnsupportedError(what, do="Use Quadratic(), or leave out Shuffle()")
                each = loss.uncertainty(gaussian_of(mean_covariance(given, form), form))
            else:
                kinds = given.channel.layout.classes()
                each = _weighted_sum(
                    [(w, loss.uncertainty(gaussian_of(given.record_covariance(t, c), form))) for w, t, c in kinds]
                )
            return each.times(given.n).broadcast_to(count)
        joint = given.channel.location == "known" and given.n * given.k <= LARGEST_JOINT
        if not joint or not loss.location_free or user.actions is not None:
            what = f"{loss!r} of all {given.n} records at once is not available in closed form here"
            do = f"Use a loss that adds up over records alike, such as Quadratic(), or at most {LARGEST_JOINT} "
            raise UnsupportedError(what, do=do + "entries in known rows")
        form = all_records(belief)
        return loss.uncertainty(gaussian_of(covariance_of(given, form), form)).broadcast_to(count)

    def _average_over_draws(self, problem: Problem, family: Sequence[Mask], data: Array | None) -> Value:
        """Average over drawn releases, with the same random numbers for every mask."""
        user, belief, count = problem.user, problem.user.belief, problem.count
        if data is None and belief.mu_covariance is None:
            what = "The uncertainty depends on the release, and a flat prior gives no law to average over"
            raise UnsupportedError(what, do="Give prior_variance=, or pass data=")
        uncertainties = np.empty((count, len(family)))
        within = np.zeros((count, len(family)))
        singles = [Conditioned(belief, channel_of(belief, m, data=data)) for m in family]
        for r, (for_data, for_mask, for_draws) in enumerate(replicate_seeds(problem.seed, count)):
            # A frame keeps the row numbers, which tell who is in a sample.
            drawn = belief.draw(np.random.default_rng(for_data)) if data is None else data
            records = pd.DataFrame(drawn, columns=belief.columns)
            for i, (mask, single) in enumerate(zip(family, singles, strict=True)):
                this, values, place = _read_release(single, mask, mask.release(records, for_mask), data)
                mine = (
                    user
                    if single.channel.location != "drawn"
                    else replace(user, target=move_target(user.target, place))
                )
                posterior = posterior_given(mine, this, values, np.random.default_rng(for_draws))
                result = user.loss.uncertainty(posterior, user.actions)
                uncertainties[r, i], within[r, i] = float(result.value), float(result.error)
            problem.progress((r + 1) / count)
        between = replicate_error(uncertainties) if count > 1 else np.full(len(family), np.nan)
        # The error between replicates already contains the error within them when there are several.
        return Value(mean_over_replicates(uncertainties), between if count > 1 else within[0])


def _linear_form_of(user: User) -> LinearForm | None:
    """The target as a linear function; None for all records, or if it is not linear."""
    return None if user.target.is_a(Kind.FILE) else form_of(user.belief, user.target)


def _normal_rules(smooth: bool) -> list[tuple[Array, Array]]:
    """Several rules (nodes and weights) for an average over a standard normal; their differences show the error.

    Free estimates give a smooth U: Gauss-Hermite with 12 and with 25 nodes. A list of estimates gives kinks: three even
    grids, each a third of a step from the next.
    """
    if smooth:
        return [gauss_normal(count) for count in (12, 25)]
    step = 17 / 800
    grids = [np.arange(-8.5, 8.5, step) + shift * step / 3 for shift in range(3)]
    rules = [(z, np.exp(-(z**2) / 2)) for z in grids]
    return [(z, weight / weight.sum()) for z, weight in rules]


def _covariances_by_place(given: Conditioned, form: LinearForm, rows: Ints) -> tuple[list[Array], Ints]:
    """Covariance of a function of a record in each kind of place, and which of these the rows are."""
    shape, _, cell = given.channel.layout.place_of_rows()
    kinds, which = np.unique(np.stack([shape, cell])[:, rows], axis=1, return_inverse=True)
    matrix = None if form.plain else form.matrix
    return [given.record_covariance(int(t), int(c), matrix) for t, c in kinds.T], which.reshape(-1)


def _read_release(
    given: Conditioned, mask: Mask, release: object, data: Array | None = None
) -> tuple[Conditioned, Array, Ints]:
    """The belief given what a release tells of its samples, its values, and where each record stands in them."""
    belief, channel = given.belief, given.channel
    if channel.open_samples:
        held = samples_held(belief, channel, release)
        given = Conditioned(belief, channel_of(belief, mask, data=data, samples=held))
    return given, *released(belief, given.channel, release)


def _log_density_and_rank(given: Conditioned, values: Array) -> tuple[float, float]:
    found = log_density(given, values)
    return float(found.log[0]), float(found.rank[0])


def _weighted_sum(parts: Sequence[tuple[float, Value]]) -> Value:
    total = sum(w * np.asarray(v.value) for w, v in parts)
    return Value(np.asarray(total), np.sqrt(sum((w * np.asarray(v.error)) ** 2 for w, v in parts)))
