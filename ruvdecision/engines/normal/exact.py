"""The exact engine: normal beliefs and releases that are linear in the records plus Gaussian noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...beliefs.normal import NormalBelief
from ...channels.layout import Partition
from ...channels.linear import LinearChannel
from ...channels.steps import About
from ...checks import as_generator
from ...errors import InputError, UnsupportedError
from ...masks.base import Mask
from ...masks.frame import Frame
from ...masks.rows import NOTHING
from ...numerics.quadrature import gauss_normal
from ...posteriors import Drawn, Gaussian, Mixture
from ...protocols import Array, Posterior, Solution, Value
from ...running.replication import REPLICATES, over_replicates, replicate_error, replicate_seeds
from ...targets import BaseTarget, Kind, LinearForm, Term
from ...users.user import User
from ..base import RANKS, WHOLE_FILE, BaseEngine, Evidence, Missing, Problem, Refusal, Tell
from .conditioning import Conditioned
from .evidence import log_density
from .forms import (
    DRAWS,
    LARGEST_JOINT,
    all_records,
    covariance_of,
    drawn_values,
    form_of,
    gaussian_of,
    joint_terms,
    mean_covariance,
    places_of,
    selector,
)


class _Built(NamedTuple):
    """The data as numbers, and the channel of each family by the identity of its first mask."""

    table: Array | None
    channels: dict[int, LinearChannel]


@dataclass(frozen=True)
class Exact(BaseEngine):
    """Closed-form posteriors for a `NormalBelief` and masks with a linear-Gaussian channel.

    Without data, the uncertainty is the expected one before the release is known. For the usual losses and a
    known row it is the same for every release. Where it does depend on the release (an unknown row, a loss
    of the user's own, a nonlinear target) it is averaged over releases drawn from the belief, or over releases of
    ``data``, and carries the error of that average.
    """

    name = "exact"
    companions = (RANKS, WHOLE_FILE)

    def prepare(self, problem: Problem) -> _Built | Refusal:
        user = problem.user
        if not isinstance(user.belief, NormalBelief):
            what = f"Exact needs a NormalBelief; this user has a {type(user.belief).__name__}"
            return Refusal(what, "Use engine='auto'", Missing.BELIEF)
        if user.target.ranked:
            what = "Exact needs a target that is linear in the records; Ranks has order statistics"
            return Refusal(what, "Use engine='auto'", Missing.USER)
        table = None if problem.data is None else as_records(user.belief, problem.data)
        channels = {}
        for family in problem.masks.families:
            first = problem.masks[family.positions[0]]
            channels[id(first)] = self._channel(user.belief, first, family.numbers, table)
        return _Built(table, channels)

    def pieces(self, problem: Problem) -> list[list[int]]:
        """A family is one vectorised go."""
        return [list(family.positions) for family in problem.masks.families]

    def run(
        self, problem: Problem, built: _Built, tell: Tell | None = None, interruptible: bool = False
    ) -> list[Solution]:
        masks, belief = problem.masks, _belief(problem.user)
        value, error = np.empty(len(masks)), np.zeros(len(masks))
        averaged = np.zeros(len(masks), dtype=bool)
        for family in masks.families:
            members = family.positions
            given = Conditioned(belief, built.channels[id(masks[members[0]])])
            done, share = float(members[0]) / len(masks), len(members) / len(masks)
            part = None if tell is None else lambda x, done=done, share=share: tell(done + share * x)
            result, averaged[members] = self._family(problem, [masks[i] for i in members], given, built.table, part)
            value[members], error[members] = result.value, result.error
        nothing = Conditioned(belief, self._single(belief, NOTHING, built.table))
        before = self._family(problem, [NOTHING], nothing, None)[0].value
        names: str | list[str] = "exact"
        if averaged.any():
            names = ["exact, averaged over releases" if a else "exact" for a in averaged]
        return [Solution(value, error, float(before[0]), names, averaged=bool(averaged.any()))]

    def posterior(self, user: User, mask: Mask, release: Any = None) -> Posterior:
        """Posterior of the target after one release.

        Without ``release`` the posterior is centred at the prior mean: its shape is right, its place is not
        known yet.
        """
        belief = _belief(user)
        given = Conditioned(belief, self._single(belief, mask))
        if release is None and given.channel.location != "known" and user.target.places_records:
            raise InputError(
                f"The posterior after {mask} depends on what is released", None, "Pass release=mask.release(data, rng)"
            )
        if release is None:
            return self._posterior(user, given, None, as_generator(0))
        values, place = released(belief, given.channel, release)
        return self._posterior(replace(user, target=moved(user.target, place)), given, values, as_generator(0))

    def posteriors(self, problem: Problem, mask: Mask, releases: Iterable[Any]) -> Iterator[Evidence]:
        user, belief = problem.user, _belief(problem.user)
        table = None if problem.data is None else as_records(belief, problem.data)
        given = Conditioned(belief, self._single(belief, mask, table))
        for release in releases:
            values, place = released(belief, given.channel, release)
            density = log_density(given, values)
            mine = replace(user, target=moved(user.target, place))
            posterior = self._posterior(mine, given, values, as_generator(0))
            yield Evidence(posterior, float(density.log[0]), float(density.rank[0]))

    # -- one family ----------------------------------------------------------------------------------

    def _single(self, belief: NormalBelief, mask: Mask, data: Array | None = None) -> LinearChannel:
        """The channel of one mask."""
        return self._channel(belief, mask, np.array([mask.numbers], dtype=np.float64), data)

    def _channel(self, belief: NormalBelief, mask: Mask, numbers: Array, data: Array | None) -> LinearChannel:
        """The channel of a family: one of its masks, and the numbers of all of them."""
        covariance = belief.record_covariance
        if data is not None and belief.records > 1:
            covariance = np.atleast_2d(np.cov(data, rowvar=False))
        about = About(belief.records, tuple(belief.columns or range(belief.k)), covariance)
        return LinearChannel.of(mask, about, numbers)

    def _family(
        self,
        problem: Problem,
        family: Sequence[Mask],
        given: Conditioned,
        data: Array | None,
        tell: Tell | None = None,
    ) -> tuple[Value, bool]:
        """Uncertainty of a family's members, and whether it had to be averaged over drawn releases."""
        count, user = len(family), problem.user
        target, loss = user.target, user.loss
        place = given.channel.location if target.places_records else "known"
        free = user.actions is None and loss.location_free
        if target.is_a(Kind.FILE):
            return self._all_records(user, given, count), False
        form = form_of(user.belief, target)
        linear = free and getattr(loss, "second_order", False)
        if form is not None and place == "unknown" and len(form.terms) == 1 and linear and data is None:
            return _spread_out(loss.uncertainty(gaussian_of(mean_covariance(given, form), form)), count), False
        if form is not None and place != "unknown" and free:
            return _spread_out(self._over_places(user, given, form, place), count), False
        if (
            form is not None
            and place != "unknown"
            and data is None
            and form.number
            and user.belief.mu_covariance is not None
        ):
            return self._over_means(user, given, form, place, count), False
        return self._simulate(problem, family, data, tell), True

    def _over_places(self, user: User, given: Conditioned, form: LinearForm, place: str) -> Value:
        """Average over where the record may lie, for a sample whose rows are told."""
        if place == "known":
            return user.loss.uncertainty(gaussian_of(covariance_of(given, form), form))
        return _weighted([(w, user.loss.uncertainty(gaussian_of(c, form))) for w, c in places_of(given, form)])

    def _over_means(self, user: User, given: Conditioned, form: LinearForm, place: str, count: int) -> Value:
        """Expected uncertainty of a loss that depends on where the posterior lies.

        The posterior mean is normal around the prior mean with variance prior minus posterior variance; the
        average is taken by quadrature, its error judged by a second rule.
        """
        belief = user.belief
        whole = Conditioned(belief, self._single(belief, NOTHING))
        prior = covariance_of(whole, form)[0, 0, 0]
        centre = float((form.matrix @ np.tile(belief.mu_mean, len(form.terms)) + form.constant)[0])
        covariances = [(1.0, covariance_of(given, form))] if place == "known" else places_of(given, form)
        answers = []
        for z, weight in _nodes(smooth=user.actions is None):
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
        weights = getattr(loss, "weights", 1.0)
        # Weights for every entry of the file tell records apart; then the whole joint posterior is needed.
        alike = not isinstance(weights, tuple) or len(weights) != given.n * given.k or given.n == 1
        if user.actions is None and loss.location_free and getattr(loss, "separable", False) and alike:
            form = LinearForm.of_term(Term(Kind.RECORD), belief.k, belief.scalar)
            if given.channel.location == "unknown":
                if not getattr(loss, "second_order", False):
                    raise UnsupportedError(
                        "All records in unknown order need the quadratic loss",
                        do="Use Quadratic(), or leave out Shuffle()",
                    )
                each = loss.uncertainty(gaussian_of(mean_covariance(given, form), form))
            else:
                kinds = given.channel.layout.classes()
                each = _weighted(
                    [(w, loss.uncertainty(gaussian_of(given.record_covariance(t, c), form))) for w, t, c in kinds]
                )
            return _spread_out(Value(each.value * given.n, each.error * given.n), count)
        if (
            given.channel.location != "known"
            or given.n * given.k > LARGEST_JOINT
            or not loss.location_free
            or user.actions is not None
        ):
            raise UnsupportedError(
                f"{loss!r} of all {given.n} records at once is not available in closed form here",
                do=f"Use a loss that adds up over records alike, such as Quadratic(), or at most {LARGEST_JOINT} "
                "entries in known rows",
            )
        form = all_records(belief)
        return _spread_out(loss.uncertainty(gaussian_of(covariance_of(given, form), form)), count)

    def _simulate(
        self, problem: Problem, family: Sequence[Mask], data: Array | None, tell: Tell | None = None
    ) -> Value:
        """Average over drawn releases, with the same random numbers for every mask."""
        user, replicates, seed = problem.user, problem.replicates, problem.seed
        belief = user.belief
        if data is None and belief.mu_covariance is None:
            raise UnsupportedError(
                "The uncertainty depends on the release, and a flat prior gives no law to average over",
                do="Give prior_variance=, or pass data=",
            )
        count = REPLICATES if replicates is None else replicates
        seen = np.empty((count, len(family)))
        within = np.zeros((count, len(family)))
        singles = [Conditioned(belief, self._single(belief, m, data)) for m in family]
        for r, (for_data, for_mask, for_draws) in enumerate(replicate_seeds(seed, count)):
            # A frame keeps the row numbers, which tell who is in a sample.
            records = pd.DataFrame(belief.draw(np.random.default_rng(for_data)) if data is None else data)
            for i, (mask, single) in enumerate(zip(family, singles, strict=True)):
                release = mask.release(records, for_mask)
                values, place = released(belief, single.channel, release)
                mine = user if single.channel.location != "drawn" else replace(user, target=moved(user.target, place))
                posterior = self._posterior(mine, single, values, np.random.default_rng(for_draws))
                result = user.loss.uncertainty(posterior, user.actions)
                seen[r, i], within[r, i] = float(result.value), float(result.error)
            if tell is not None:
                tell((r + 1) / count)
        spread = replicate_error(seen) if count > 1 else np.full(len(family), np.nan)
        # The spread between replicates already contains the error within them when there are several.
        return Value(over_replicates(seen), spread if count > 1 else within[0])

    def _posterior(self, user: User, given: Conditioned, values: Array | None, rng: np.random.Generator) -> Posterior:
        belief, target = user.belief, user.target
        if target.is_a(Kind.FILE):
            if given.n * given.k > LARGEST_JOINT or given.channel.location == "unknown":
                raise UnsupportedError(
                    "The joint posterior of all records is too large or has no known order", do="Ask for Record(j)"
                )
            form: LinearForm | None = all_records(belief)
        else:
            form = form_of(belief, target)
        place = given.channel.location if target.places_records and not target.is_a(Kind.FILE) else "known"
        if place == "unknown":
            return self._mixture(form, given, values)
        terms = joint_terms(belief, target) if form is None else form.terms
        mean = np.tile(belief.mu_mean, len(terms)) if values is None else given.means(values).of(terms)
        if form is None:
            select = selector(belief, terms)
            joint = Gaussian(select @ mean, given.covariance(terms, select)[0])
            return Drawn(drawn_values(belief, target, terms, joint.sample(DRAWS, rng)))
        return gaussian_of(covariance_of(given, form)[0], form, form.matrix @ mean + form.constant)

    def _mixture(self, form: LinearForm | None, given: Conditioned, values: Array | None) -> Mixture:
        """Posterior of a linear function of a record whose row is not known: every row may be the one."""
        if form is None or len(form.terms) != 1:
            raise UnsupportedError(
                "This function of records in unknown rows is not available in closed form",
                do="Ask for Record(j) or a linear function of it, or leave out Shuffle()",
            )
        assert values is not None
        found = given.means(values)
        kinds = [(t, c) for _, t, c in given.channel.layout.classes()]
        matrix = None if form.plain else form.matrix
        means = found.records() @ form.matrix.T + form.constant
        covariances = np.empty((given.n if len(kinds) > 1 else 1, means.shape[1], means.shape[1]))
        for t, c in kinds:
            mine = (found.shape == t) & (found.cell == c) if len(kinds) > 1 else slice(None)
            covariances[mine] = given.record_covariance(t, c, matrix)[0]
        if form.number:
            return Mixture(Gaussian.scalar(means[:, 0], covariances[:, 0, 0]))
        return Mixture(Gaussian(means, covariances))


def _nodes(smooth: bool) -> list[tuple[Array, Array]]:
    """Several rules (nodes and weights) for an average over a standard normal; their spread tells the error.

    Free estimates give a smooth U: Gauss-Hermite with 12 and with 25 nodes. A list of estimates gives kinks: three even
    grids, each a third of a step from the next.
    """
    if smooth:
        return [gauss_normal(count) for count in (12, 25)]
    step = 17 / 800
    grids = [np.arange(-8.5, 8.5, step) + shift * step / 3 for shift in range(3)]
    rules = [(z, np.exp(-(z**2) / 2)) for z in grids]
    return [(z, weight / weight.sum()) for z, weight in rules]


# -- data and families -------------------------------------------------------------------------------


def as_records(belief: NormalBelief, data: Any) -> Array:
    """Data as an n by k matrix of numbers that fits the belief."""
    values, _ = Frame.of(data).numeric("A NormalBelief")
    if values.shape != (belief.records, belief.k):
        raise InputError(
            f"data must have {belief.records} records of {belief.k} variables, as the belief says",
            f"{values.shape[0]} records of {values.shape[1]}",
            "Set records= to the size of the file and covariance= to its columns",
        )
    return values


def released(belief: NormalBelief, channel: LinearChannel, release: Any) -> tuple[Array, Any]:
    """A release as an n by k matrix in the channel's order of rows, and where each record stands in that order.

    The channel puts the rows of a random sample first. Which they are is told by the labels of the release.
    """
    frame = Frame.of(release)
    values, _ = frame.numeric("A release", missing=True)
    n = belief.records
    if values.shape[1] != belief.k or values.shape[0] > n:
        raise InputError(
            f"The release must have {belief.k} columns and at most {n} rows",
            f"shape {values.shape}",
            "Pass what mask.release(data, rng) gave back",
        )
    if channel.location != "drawn":
        if values.shape[0] < n:
            values = np.concatenate([values, np.full((n - values.shape[0], belief.k), np.nan)])
        return _regrouped(channel, values) if channel.scrambled else values, np.arange(n)
    kept = frame.table.index.to_numpy()
    if (
        frame.kind not in ("frame", "series")
        or not np.issubdtype(kept.dtype, np.integer)
        or kept.min() < 0
        or kept.max() >= n
    ):
        raise InputError(
            "A sample must tell which rows it holds",
            "a release without row numbers",
            "Release a DataFrame with its rows numbered from 0 as index",
        )
    order = np.concatenate([kept, np.setdiff1d(np.arange(n), kept)])
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    return np.concatenate([values, np.full((n - len(kept), belief.k), np.nan)]), place


def _regrouped(channel: LinearChannel, values: Array) -> Array:
    """Rows of shuffled groups put back together: the records of a group share their averaged values.

    Groups are of one size, so that it does not matter which of them comes first.
    """
    groups: list[Partition] = []
    for p in channel.layout.partitions:
        if p is not None and p.joins and not p.ties_all and not any(p.same_as(q) for q in groups):
            groups.append(p)
    if len(groups) > 1:
        raise UnsupportedError(
            "Rows that were averaged in several ways and then shuffled cannot be put together again",
            do="Put Shuffle() first in the chain",
        )
    starts, labels = groups[0].runs()
    places = np.argsort(np.repeat(labels, np.diff(np.append(starts, len(values)))), kind="stable")
    averaged = ~channel.blocks[0].told[0]
    out = np.empty_like(values)
    out[places] = values[np.lexsort(values[:, averaged].T)]
    return out


def moved(target: BaseTarget, place: NDArray[np.int64]) -> BaseTarget:
    """The target with its records at their places in the channel's order."""
    return target if target.is_a(Kind.FILE) else target.moved(lambda row: int(place[row]))


def _belief(user: User) -> NormalBelief:
    if not isinstance(user.belief, NormalBelief):
        raise UnsupportedError("Exact needs a NormalBelief", type(user.belief).__name__, "Use engine='auto'")
    return user.belief


def _spread_out(value: Value, count: int) -> Value:
    return Value(np.broadcast_to(value.value, (count,)), np.broadcast_to(value.error, (count,)))


def _weighted(parts: Sequence[tuple[float, Value]]) -> Value:
    total = sum(w * np.asarray(v.value) for w, v in parts)
    return Value(np.asarray(total), np.sqrt(sum((w * np.asarray(v.error)) ** 2 for w, v in parts)))
