"""The enumeration engine: finite sets and tables of counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...beliefs.finite import FiniteBelief
from ...beliefs.table.belief import TableBelief
from ...channels.file_kernel import averages_rows
from ...channels.finite import FiniteChannel, RecordEvidence
from ...channels.samples import sample_cases
from ...channels.steps import resolve
from ...checks import check_integer
from ...errors import InputError
from ...losses.base import check_labels
from ...masks.base import Mask
from ...masks.rows import NOTHING
from ...numerics.quadrature import adaptive
from ...posteriors import Finite
from ...protocols import Array, Ints, Posterior, Solution, Value
from ...running.replication import mean_of_replicates, replicate_error, replicate_seeds
from ...targets import Kind
from ...users.user import User
from ..base import (
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
)
from .law import FiniteLaw, TooManyReleases
from .tables import AVERAGED, TableProblem, after_release, published_pattern
from .target_table import outcome_codes, sample_covariance, target_table
from .wrong_belief import BATCH, FinitePair, decision_costs


@dataclass(frozen=True)
class Enumeration(BaseEngine):
    """Posteriors by summing over finite sets, for a `FiniteBelief` or a `TableBelief`.

    Without data the uncertainty is the expected one: the sum over all releases of their chance times the
    uncertainty after each, which is exact. With noise it is an integral over the release of one record, by adaptive
    quadrature, and an average over drawn releases for several. With data it is the average over the releases that the
    mask can make of them.

    Parameters
    ----------
    limit : int
        Most combinations of releases and target values to hold at a time. More are refused, or drawn where data are
        given.
    """

    limit: int = 5_000_000
    name = "enumeration"
    beliefs = (FiniteBelief, TableBelief)
    companions = (WHOLE_FILE,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", check_integer("limit", self.limit, low=1))

    def prepare(self, problem: Problem) -> dict[int, FiniteChannel] | Refusal:
        user, belief, data = problem.user, problem.user.belief, problem.data
        if isinstance(belief, TableBelief):
            for mask in problem.masks:
                published_pattern(belief, mask)
            return {}
        check_loss(user)
        target_table(belief, user.target, self.limit)
        scale, channels = sample_covariance(belief, data), {}
        for mask in problem.masks:
            if averages_rows(resolve(mask, FiniteChannel.file_facts(belief, scale))):
                what = f"Enumeration cannot invert {mask} record by record; WholeFile does, for small files"
                return Refusal(what, "Use engine='auto'", Missing.USER)
            channel = channels[id(mask)] = FiniteChannel.of(belief, mask, scale)
            if data is None and not channel.continuous:
                self._law_of_user(user, channel).check_room()
        return channels

    def run(self, problem: Problem, built: dict[int, FiniteChannel]) -> list[Solution]:
        user, belief, data = problem.user, problem.user.belief, problem.data
        if isinstance(belief, TableBelief):
            return [TableProblem(user).solve(problem)]
        codes = None if data is None else outcome_codes(belief, data)
        found = []
        for i, mask in enumerate(problem.masks):
            found.append(self._expected_uncertainty(problem, mask, built[id(mask)], codes))
            problem.progress((i + 1) / len(problem.masks))
        before = self._expected_uncertainty(problem, NOTHING, FiniteChannel.of(belief, NOTHING), None)[0]
        value, error = (np.array([float(v[i]) for v, _ in found]) for i in (0, 1))
        names = [n for _, n in found]
        return [Solution(value, error, float(before.value), names, averaged=AVERAGED in names)]

    def posterior(self, user: User, mask: Mask, release: object = None) -> Posterior:
        """Posterior of the target after one release, as ``mask.release(data, rng)`` gave it.

        Without ``release`` the mask must tell nothing.
        """
        belief = user.belief
        if isinstance(belief, TableBelief):
            return after_release(belief, mask, release).posterior(user.target)
        reason = self.refuses(user, [mask])
        if reason is not None and release is None:
            raise reason.error()
        channel = _channel_of_mask(belief, mask, None, release)
        law = self._law_of_user(user, channel)
        if release is None and not all(k.uninformative for k in channel.kernels):
            raise needs_release(mask)
        slots = RecordEvidence.of_nothing(len(belief.levels)) if release is None else channel.read(release)
        return Finite(law.table.values, law.posterior_probabilities(slots))

    def posteriors(self, problem: Problem, mask: Mask, releases: Iterable[object]) -> Iterator[Evidence]:
        user, belief = problem.user, problem.user.belief
        if isinstance(belief, TableBelief):
            yield from super().posteriors(problem, mask, releases)
            return
        scale = sample_covariance(belief, problem.data)
        same = self._law_of_user(user, FiniteChannel.of(belief, mask, scale))
        for release in releases:
            law = (
                self._law_of_user(user, _channel_of_mask(belief, mask, scale, release))
                if same.channel.open_samples
                else same
            )
            posterior = Finite(law.table.values, law.posterior_probabilities(law.channel.read(release)))
            yield Evidence(posterior, partial(law.density, release))

    def row_kinds(self, problem: Problem, built: dict[int, FiniteChannel], rows: Ints, located: bool = False) -> Ints:
        columns = [channel.kinds[rows] for channel in built.values()]
        if problem.data is not None and columns:
            columns.append(outcome_codes(problem.user.belief, problem.data)[rows])
        return np.stack(columns, axis=1) if columns else rows[:, None]

    def unknown_mask(self, problem: Problem, mask: Mask) -> MaskMixture:
        user, belief = problem.user, problem.user.belief
        if not isinstance(belief, FiniteBelief):
            return super().unknown_mask(problem, mask)
        return FinitePair(user, belief, mask, self.limit, sample_covariance(belief, problem.data))

    def wrong_belief(self, own: Plan, agency: Plan) -> Callable[[Problem], DecisionCosts] | None:
        users = own.problem.user, agency.problem.user
        if not all(isinstance(user.belief, FiniteBelief) for user in users):
            return None
        right, data = users[1].belief, agency.problem.data
        scale = sample_covariance(right, data)
        pairs = {id(mask): FinitePair(users[0], right, mask, self.limit, scale) for mask in agency.problem.masks}
        return partial(decision_costs, pairs)

    # -- finite beliefs ----------------------------------------------------------------------------------

    def _law_of_user(self, user: User, channel: FiniteChannel) -> FiniteLaw:
        return FiniteLaw(user.belief, target_table(user.belief, user.target, self.limit), channel, self.limit)

    def _expected_uncertainty(
        self, problem: Problem, mask: Mask, channel: FiniteChannel, codes: Ints | None
    ) -> tuple[Value, str]:
        user = problem.user
        if channel.open_samples:
            return self._average_over_samples(problem, mask, channel, codes)
        return self.uncertainty_after(problem, self._law_of_user(user, channel), codes)

    def uncertainty_after(self, problem: Problem, law: FiniteLaw, codes: Ints | None) -> tuple[Value, str]:
        """Expected uncertainty after a release, or its average over the releases of the records ``codes``, and how."""
        user, channel = problem.user, law.channel
        if channel.continuous:
            if codes is None and law.one_record and (line := channel.kernels[0].outputs_on_line()) is not None:
                return _integrate_over_noisy_release(user, law, *line), self.name
            return self._average_over_draws(problem, law, codes), AVERAGED
        if codes is not None and channel.sampled:
            return self._average_over_draws(problem, law, codes), AVERAGED
        try:
            outputs = law.outputs(codes)
        except TooManyReleases:
            # How many there are is known only while they are listed; with data they can be drawn instead.
            if codes is None:
                raise
            return self._average_over_draws(problem, law, codes), AVERAGED
        chance = outputs.joint.sum(axis=1)
        if np.any(chance <= 0):
            do = "Check the data, or the prior probabilities that are zero"
            raise InputError("The records cannot come from this belief", "probability zero", do)
        each = uncertainty_of(user, law.table.values, outputs.joint / chance[:, None])
        return each.averaged(outputs.weights), self.name

    def _average_over_samples(
        self, problem: Problem, mask: Mask, channel: FiniteChannel, codes: Ints | None
    ) -> tuple[Value, str]:
        """Average over who is in the samples of single releases."""
        user, belief, n = problem.user, problem.user.belief, len(channel.kinds)
        followed = range(n) if codes is not None else user.target.rows_in(n).tolist()
        if codes is None and user.target.asks_only(Kind.AVERAGE):
            followed = []
        cases, complete = sample_cases(channel.open_samples, n, followed, problem.count, problem.seed)
        scale = sample_covariance(belief, problem.data)
        found = [
            self._expected_uncertainty(problem, mask, FiniteChannel.of(belief, mask, scale, samples), codes)
            for _, samples in cases
        ]
        weights = np.array([w for w, _ in cases])
        value, error = (np.array([float(v[i]) for v, _ in found]) for i in (0, 1))
        between_replicates = 0.0 if complete or problem.count == 1 else float(replicate_error(value))
        total = Value(np.asarray(weights @ value), np.asarray(np.hypot(weights @ error, between_replicates)))
        return total, AVERAGED if not complete or any(name == AVERAGED for _, name in found) else self.name

    def _average_over_draws(self, problem: Problem, law: FiniteLaw, codes: Ints | None) -> Value:
        """Average over drawn releases, with the same random numbers for every mask."""
        chances = []
        for for_data, for_mask, _ in replicate_seeds(problem.seed, problem.count):
            records = law.belief.draw_codes(np.random.default_rng(for_data)) if codes is None else codes
            chances.append(law.posterior_probabilities(law.channel.simulate(records, np.random.default_rng(for_mask))))
        return mean_of_replicates(uncertainty_of(problem.user, law.table.values, np.stack(chances)))


def uncertainty_of(user: User, values: Array, chances: Array) -> Value:
    """Uncertainty of many posteriors on one set, in blocks that fit into memory."""
    step = max(1, BATCH // len(values))
    blocks = [Finite(values, chances[i : i + step]) for i in range(0, len(chances), step)]
    return Value.joined(user.loss.uncertainty(law, user.actions).broadcast_to(*law.batch) for law in blocks)


def _channel_of_mask(belief: FiniteBelief, mask: Mask, scale: Array | None, release: object) -> FiniteChannel:
    """The channel of a mask, with what a release tells of who is in its samples."""
    channel = FiniteChannel.of(belief, mask, scale)
    if release is None or not channel.open_samples:
        return channel
    return FiniteChannel.of(belief, mask, scale, channel.samples_held(release))


def _integrate_over_noisy_release(
    user: User, law: FiniteLaw, levels: Array, sd: float, groups: Sequence[Ints]
) -> Value:
    """Expected uncertainty when one number goes out with noise: integrate U(y) p(y) over the release y.

    ``groups`` are outputs that what stands beside that number tells apart.
    """
    # Chance of the target's values together with each output, before the noise.
    joint = law.outputs_before_noise()
    steps = sd * np.array([-13.0, -8.0, -5.0, -3.0, -1.5, 0.0, 1.5, 3.0, 5.0, 8.0, 13.0])
    scale = max(float(uncertainty_of(user, law.table.values, joint.sum(axis=0, keepdims=True)).value[0]), 1e-300)
    total = Value(np.zeros(()), np.zeros(()))
    for group in groups:
        live = group[joint[group].sum(axis=1) > 0]
        if not len(live):
            continue
        if np.isnan(levels[live]).any():  # nothing goes out of this one
            chance = joint[live].sum()
            each = uncertainty_of(user, law.table.values, joint[live].sum(axis=0, keepdims=True) / chance)
            part = Value(chance * each.value[0], chance * each.error[0])
        else:
            integrand = partial(_density_times_uncertainty, user, law.table.values, levels[live], sd, joint[live])
            breaks = np.unique((levels[live, None] + steps).reshape(-1))
            part = adaptive(integrand, breaks, absolute=1e-11 * abs(scale), budget=100_000)
        total = Value(total.value + part.value, total.error + part.error)
    return total


def _density_times_uncertainty(user: User, values: Array, levels: Array, sd: float, joint: Array, y: Array) -> Array:
    log_density = -0.5 * ((y[:, None] - levels) / sd) ** 2
    top = log_density.max(axis=1, keepdims=True)
    share = np.exp(log_density - top) @ joint
    chance = share.sum(axis=1)
    density = chance * np.exp(top[:, 0]) / (sd * np.sqrt(2 * np.pi))
    return np.asarray(density * uncertainty_of(user, values, share / chance[:, None]).value)


def check_loss(user: User) -> None:
    """Labels have no distances: a loss that measures them is refused."""
    if user.belief.labels_of(user.target):
        what = f"the values of {user.target.describe()} are labels"
        check_labels(user.loss, user.actions, what, "Use ZeroOne(), LogScore() or a loss of your own")
