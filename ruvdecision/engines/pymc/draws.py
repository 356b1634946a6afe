"""Draws for a row of releases: sampled where they must be, reweighted where a neighbour's will do."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...beliefs.pymc import CHAINS
from ...channels.likelihood import ReleaseLikelihood
from ...checks import as_generator
from ...errors import InputError, RuvError, UnsupportedError
from ...protocols import Array, Posterior, Value
from ..base import Progress
from .importance import pareto_smoothed_weights, weighted_draws
from .latent import LatentRecords
from .log_posterior import OnePosterior, log_posteriors
from .loss_growth import GOOD_KHAT, MeanLoss, Where, nothing_released
from .marginal import marginal_likelihood, marginal_likelihood_class, why_records_are_dependent
from .marginal_base import MarginalLikelihood
from .model import CompiledModel
from .nuts import Chains, Diagnosis, Sampler, choose_sampler, diagnose
from .parameter_points import ParameterPoints
from .support import RecordGrid, find_grid, find_support_maps, grid_at

if TYPE_CHECKING:
    from ...users.user import User
    from .sampling import Sampling

CLOSE = 0.02
"""Largest error of the log likelihood that integrating the records over a grid may leave."""
CHECKED = 100
"""Draws at which the grid is checked."""
NO_PARAMETERS = {"": np.zeros((CHAINS, 1000))}
"""Draws of a model without parameters: all alike, one for each draw of a record."""
RECENT = 16
"""Sampled releases whose draws a compiled model remembers."""


@dataclass(frozen=True, eq=False)
class SolvedRelease:
    """One release: the users' uncertainties, and how they were got."""

    values: Sequence[Value]
    posteriors: Sequence[Posterior]
    chains: Chains | None
    weights: Array | None
    how: str
    marginalization: str
    rhat: float
    ess_bulk: float
    ess_tail: float
    divergences: int
    khat: float
    count: int
    converged: bool = False
    trouble: str = ""
    budget: str = ""
    integration_error: float = 0.0
    source: int = 0
    """Number of the draws: points with the same one share their Monte Carlo error."""
    failure: RuvError | None = None
    points: ParameterPoints | None = None
    """The draws with what the release tells, where the records were integrated out."""

    @property
    def law(self) -> Posterior:
        """The first user's posterior, which says what speaks against its draws."""
        return self.posteriors[0].with_trouble(self.trouble)

    def without_draws(self) -> SolvedRelease:
        """The numbers without the draws."""
        return replace(self, posteriors=(), chains=None, weights=None, points=None)


@dataclass(frozen=True, eq=False)
class ReleaseDraws:
    """One release: the likelihood of its parameters, and the draws so far."""

    likelihood: MarginalLikelihood
    chains: Chains
    diagnosis: Diagnosis
    seed: int
    """Of the chains, and of records that are drawn given them: with the same luck after every release, these would have
    an error that no average over releases, nor another seed, brings out."""
    weights: Array | None = None
    khat: float = np.nan
    how: str = "sampled"
    error: float = 0.0
    """By how much finer nodes for the records would move the log likelihood."""
    missed: float = 0.0
    """By how much the sampler's own log likelihood was off, before the draws were weighed."""
    around_mode: bool = False
    """Whether they are weighted draws around the mode, without a sampler."""

    @classmethod
    def of(cls, likelihood: MarginalLikelihood, chains: Chains, seed: int) -> ReleaseDraws:
        """Draws of the release itself, with how far its own nodes may be off at some of them."""
        drawn = cls(likelihood, chains, diagnose(chains), seed)
        if not chains.values:
            return drawn
        some = chains.evenly_thinned(CHECKED)
        with np.errstate(invalid="ignore"):
            missed = float(np.ptp(likelihood.missed_by_sampler(some)))
        drawn = replace(drawn, error=likelihood.refinement_error(some), missed=missed)
        if missed <= CLOSE:
            return drawn
        weights, khat = pareto_smoothed_weights(likelihood.missed_by_sampler(chains.theta))
        return replace(drawn, weights=weights, khat=khat, how="sampled, reweighted")

    @cached_property
    def log_likelihood(self) -> Array:
        """At every draw."""
        return self.likelihood.log_likelihood(self.chains.theta)

    def reweighted_for(self, likelihood: MarginalLikelihood) -> ReleaseDraws:
        """The draws for a neighbouring release."""
        logs = likelihood.log_likelihood(self.chains.theta) - self.log_likelihood
        with np.errstate(divide="ignore"):
            weights, khat = pareto_smoothed_weights(logs if self.weights is None else logs + np.log(self.weights))
        return ReleaseDraws(likelihood, self.chains, self.diagnosis, self.seed, weights, khat, "reweighted")

    def power_scaled(self, prior_power: float, likelihood_power: float) -> ReleaseDraws:
        """With a prior and a likelihood raised to powers."""
        logs = (prior_power - 1) * self.likelihood.model.log_prior_density(self.chains.theta)
        if likelihood_power != 1:
            logs = logs + (likelihood_power - 1) * self.log_likelihood
        if self.weights is not None:
            with np.errstate(divide="ignore"):
                logs = logs + np.log(self.weights)
        weights, tail = pareto_smoothed_weights(logs)
        return replace(self, weights=weights, khat=float(np.fmax(self.khat, tail)), how=f"{self.how}, power-scaled")

    def refined_grids(self, compiled: CompiledModel) -> tuple[RecordGrid, ...]:
        """Finer grids for the records, where the draws say that they lie."""
        old, observed = self.likelihood.grids, self.likelihood.observed
        if compiled.discrete:
            return tuple(grid.refined() for grid in old)
        some = self.chains.evenly_thinned(CHECKED)
        fresh = (grid_at(compiled, some, column, j) for j, column in enumerate(observed.columns))
        return tuple(replace(new, count=2 * o.count, fine=2 * o.fine) for new, o in zip(fresh, old, strict=True))


class ReleaseSampler:
    """Gives every release of a row its draws."""

    def __init__(self, settings: Sampling, compiled: CompiledModel, users: Sequence[User]) -> None:
        self.settings, self.compiled, self.users = settings, compiled, users
        self.reduced_model = compiled.reduced_model
        self.mean_losses = [MeanLoss(compiled, user) for user in users]
        self.anchors: dict[int, ReleaseDraws] = {}
        """Draws for the releases of each mask, for those of other replicates."""
        self.fresh: frozenset[int] = frozenset()
        """Masks whose releases get draws of their own."""
        self.kind = "pymc" if not compiled.continuous else choose_sampler(settings.sampler)
        if not compiled.continuous and settings.sampler == "nutpie":
            raise InputError(
                "nutpie does not sample discrete parameters",
                ", ".join(compiled.names),
                'Use sampler="pymc", or sum them out',
            )

    # -- a row of releases -----------------------------------------------------------------------------

    def solve_releases(
        self, observed: Sequence[ReleaseLikelihood | None], seed: np.random.SeedSequence, on_progress: Progress
    ) -> Iterator[tuple[int, SolvedRelease]]:
        """One point per release that there is, from the last to the first.

        Weights travel from wide posteriors to narrow ones, and from the same mask's release in another replicate.
        """
        number = int(seed.generate_state(1)[0] % (2**31 - 1))
        releases = {i: r for i, r in enumerate(observed) if r is not None}
        reasons = {i: why_records_are_dependent(self.compiled, release) for i, release in releases.items()}
        empty = {i for i, r in releases.items() if r.is_uninformative and not self.compiled.is_improper}
        free = [release for i, release in releases.items() if not reasons[i] and i not in empty]
        grids: tuple[RecordGrid, ...] | None = None
        if any(marginal_likelihood_class(self.compiled, release).on_grid for release in free):
            # The first release of the row is the least noisy: it tells best where records lie.
            grids = tuple(find_grid(self.compiled, column, j) for j, column in enumerate(free[0].columns))
        anchor: ReleaseDraws | None = None
        for done, i in enumerate(sorted(releases, reverse=True)):
            try:
                if i in empty:
                    point = self.prior_point
                elif reasons[i]:
                    point = self._sample_latent_records(releases[i], reasons[i], number)
                else:
                    likelihood = marginal_likelihood(self.compiled, releases[i], grids)
                    near = (
                        None
                        if i in self.fresh
                        else self._point_from_neighbour([anchor, self.anchors.get(i)], likelihood)
                    )
                    if near is None:
                        point, anchor, grids = self._draw_with_fine_grids(likelihood, grids, number)
                        self.anchors[i] = anchor
                    else:
                        point = near
            except UnsupportedError:
                raise
            except RuvError as error:
                point = self._failed_point(error)
            on_progress((done + 1) / len(releases), f"R-hat {point.rhat:.3f}" if np.isfinite(point.rhat) else "")
            yield i, point

    def _failed_point(self, error: RuvError) -> SolvedRelease:
        """The point of a release that cannot be sampled: it is marked, and does not end the map."""
        missing = [Value(np.array(np.nan), np.array(np.nan)) for _ in self.users]
        numbers = (np.nan, np.nan, np.nan, 0, np.nan, 0)
        return SolvedRelease(missing, (), None, None, "failed", "", *numbers, trouble=error.what, failure=error)

    def solve_release(self, observed: ReleaseLikelihood, seed: np.random.SeedSequence) -> SolvedRelease:
        """The point of one release."""
        ((_, point),) = self.solve_releases([observed], seed, lambda *_: None)
        if point.failure is not None:
            raise point.failure
        return point

    def _point_from_neighbour(
        self, anchors: Sequence[ReleaseDraws | None], likelihood: MarginalLikelihood
    ) -> SolvedRelease | None:
        """The point from the draws of a neighbour, the first whose will do."""
        for anchor in anchors if self.settings.reuse else ():
            if anchor is None or type(anchor.likelihood) is not type(likelihood):
                continue
            near = anchor.reweighted_for(likelihood)
            point = self._point_of_draws(near) if near.khat < GOOD_KHAT else None
            if point is not None and point.converged and not self._misses_error_goal(point):
                return point
        return None

    def _draw_with_fine_grids(
        self, likelihood: MarginalLikelihood, grids: tuple[RecordGrid, ...] | None, number: int
    ) -> tuple[SolvedRelease, ReleaseDraws, tuple[RecordGrid, ...] | None]:
        """Draws of a release by nodes that are fine enough, and the grids that were."""
        release = self._draw_posterior(likelihood, number)
        for _ in range(3):
            if release.error <= CLOSE and release.missed <= CLOSE:
                break
            grids = release.refined_grids(self.compiled)
            release = self._draw_posterior(marginal_likelihood(self.compiled, likelihood.observed, grids), number)
        point, release = self._extend_draws(release, number)
        return point, release, grids

    def _draw_posterior(self, likelihood: MarginalLikelihood, number: int) -> ReleaseDraws:
        if not self.reduced_model.free:
            return ReleaseDraws.of(likelihood, Chains(NO_PARAMETERS, 0, CHAINS, 1000), number)
        if self.settings.importance and self.compiled.continuous:
            found = self._draw_by_weights(likelihood, number, self.settings.draws)
            if found is not None:
                return found
        chains = self._run_or_remember(self._sampler_of_likelihood(likelihood), likelihood.data, number)
        return ReleaseDraws.of(likelihood, chains, number)

    def _draw_by_weights(self, likelihood: MarginalLikelihood, number: int, draws: int) -> ReleaseDraws | None:
        """So many draws for each chain without a sampler, where weights will do."""
        count = self.settings.chains
        posterior = OnePosterior(self.compiled, (likelihood.observed,), likelihood)
        found = weighted_draws(posterior, count * draws, np.random.default_rng(number))
        if found is None:
            return None
        values = self.reduced_model.on_natural_scale(found.u)
        values = {k: v.reshape(count, draws, *v.shape[1:]) for k, v in values.items()}
        chains = Chains(values, 0, count, draws)
        error = likelihood.refinement_error(chains.evenly_thinned(CHECKED))
        independent = Diagnosis(1.0, float(chains.count), float(chains.count))
        how = "importance sampled"
        return ReleaseDraws(
            likelihood, chains, independent, number, found.weights, found.khat, how, error, around_mode=True
        )

    def _extend_draws(self, release: ReleaseDraws, number: int) -> tuple[SolvedRelease, ReleaseDraws]:
        """More draws until the users' uncertainties are known well enough, or the budget ends."""
        point, target, turn = self._point_of_draws(release), self.settings.target_mcse, 0
        if target is None:
            return point, release
        # A model without parameters has draws of a record alone, which are what they are.
        while self.reduced_model.free and self._misses_error_goal(point) and self._draws_left(release.chains) > 0:
            turn += 1
            rough, draws, most = (
                max(map(_relative_error_of_uncertainty, point.values)),
                release.chains.draws,
                self._draws_left(release.chains),
            )
            away = min(rough / target, 1e6)  # farther than any budget goes
            wanted = int(np.clip(1.2 * draws * (away**2 - 1), 50, most)) if np.isfinite(rough) else most
            release = self._with_more_draws(release, min(wanted, most), number + turn)
            point = self._point_of_draws(release)
        return replace(point, budget=self._error_goal_in_words(point)), release

    def _with_more_draws(self, release: ReleaseDraws, draws: int, number: int) -> ReleaseDraws:
        """So many draws more of each chain; those around the mode are drawn afresh, and by a sampler if that fails."""
        likelihood, chains = release.likelihood, release.chains
        if release.around_mode:
            found = self._draw_by_weights(likelihood, number, chains.draws + draws)
            if found is not None:
                return found
        more = self._run_sampler(self._sampler_of_likelihood(likelihood), likelihood.data, draws, number)
        return ReleaseDraws.of(likelihood, more if release.around_mode else chains.joined(more), release.seed)

    def _draws_left(self, chains: Chains) -> int:
        """Draws of each chain that may still be taken."""
        return max(0, self.settings.max_draws - chains.count) // chains.chains

    def _error_goal_in_words(self, point: SolvedRelease) -> str:
        return f"not reached with {point.count} draws" if self._misses_error_goal(point) else "reached"

    def _misses_error_goal(self, point: SolvedRelease) -> bool:
        target = self.settings.target_mcse
        return target is not None and any(_relative_error_of_uncertainty(v) > target for v in point.values)

    def _run_sampler(self, sampler: Sampler, data: Mapping[str, Array], draws: int, number: int) -> Chains:
        return sampler.run(data, draws, self.settings.tune, self.settings.chains, number, self.settings.target_accept)

    def _run_or_remember(self, sampler: Sampler, data: Mapping[str, Array], number: int) -> Chains:
        """The same draws again if they were drawn lately: another user, loss or power of the prior asks for them."""
        kept, own = sampler.recent, self.settings
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in data.values())).hexdigest()
        key = (digest, own.draws, own.tune, own.chains, own.target_accept, number)
        if key not in kept:
            kept[key] = self._run_sampler(sampler, data, own.draws, number)
            while len(kept) > RECENT:
                kept.pop(next(iter(kept)))
        return kept[key]

    def _sampler_of_likelihood(self, likelihood: MarginalLikelihood) -> Sampler:
        core, data = self.reduced_model, likelihood.data
        key = (likelihood.name, self.kind, *(a.ndim for a in data.values()))
        if key not in core.samplers:
            names = [rv.name for rv in core.free]
            core.samplers[key] = Sampler(likelihood.pymc_model(), self.kind, names, core.shapes)
        return core.samplers[key]

    # -- one release -----------------------------------------------------------------------------------

    def _point_of_draws(self, release: ReleaseDraws) -> SolvedRelease:
        """The users' uncertainties and the verdict."""
        if self._is_power_scaled:
            release = release.power_scaled(self.settings.prior_power, self.settings.likelihood_power)
        chains, likelihood = release.chains, release.likelihood
        points = ParameterPoints(
            self.compiled,
            likelihood.observed,
            tuple(grid.support_map for grid in likelihood.grids),
            chains.theta,
            release.weights,
            chains.chains,
            rng=np.random.default_rng([release.seed, 1]),
        )
        posteriors = [points.law(user.target) for user in self.users]
        where = OnePosterior(self.compiled, (likelihood.observed,), likelihood), points
        point = self._point_of_posteriors(posteriors, chains, release.diagnosis, release.how, likelihood.name, where)
        return with_verdict(
            replace(point, weights=release.weights, khat=release.khat, integration_error=release.error, points=points)
        )

    def _point_of_posteriors(
        self,
        posteriors: Sequence[Posterior],
        chains: Chains,
        found: Diagnosis,
        how: str,
        marginalization: str,
        where: Where | None = None,
    ) -> SolvedRelease:
        """``where`` are the log posterior and the draws, if the records are integrated out."""
        values, trouble = [], []
        for user, mean_loss, posterior in zip(self.users, self.mean_losses, posteriors, strict=True):
            value = user.loss.uncertainty(posterior, user.actions)
            if np.isinf(value.value):
                trouble.append("the loss is not finite")
            elif (doubt := mean_loss.doubt(posterior, None if self._is_power_scaled else where)) is not None:
                trouble.append(doubt.words)
                value = Value(np.array(np.inf), np.array(0.0)) if doubt.endless else value
            values.append(value)
        return SolvedRelease(
            values,
            posteriors,
            chains,
            None,
            how,
            marginalization,
            *found,
            chains.divergences,
            np.nan,
            chains.count,
            source=chains.number,
            trouble=", ".join(trouble),
        )

    @property
    def _is_power_scaled(self) -> bool:
        return self.settings.prior_power != 1 or self.settings.likelihood_power != 1

    def _sample_latent_records(self, observed: ReleaseLikelihood, reason: str, number: int) -> SolvedRelease:
        if self._is_power_scaled:
            do = "Use a mask that works record by record, or vary the prior in the builder"
            raise UnsupportedError("Power-scaling needs records that can be integrated out", reason, do)
        latent = LatentRecords(self.compiled, observed, reason)
        key = ("latent", self.kind, latent.model_key)
        if key not in self.compiled.samplers:
            self.compiled.samplers[key] = latent.sampler(self.kind)
        sampler, data = self.compiled.samplers[key], latent.data()
        chains = self._run_sampler(sampler, data, self.settings.draws, number)
        point = self._latent_point(latent, chains)
        turn = 0
        while self._misses_error_goal(point) and self._draws_left(chains) > 0:
            turn += 1
            chains = chains.joined(
                self._run_sampler(sampler, data, min(chains.draws, self._draws_left(chains)), number + turn)
            )
            point = self._latent_point(latent, chains)
        return point if self.settings.target_mcse is None else replace(point, budget=self._error_goal_in_words(point))

    def _latent_point(self, latent: LatentRecords, chains: Chains) -> SolvedRelease:
        posteriors = [latent.law(user.target, chains) for user in self.users]
        marginalization = f"records sampled too: {latent.reason}"
        return with_verdict(self._point_of_posteriors(posteriors, chains, diagnose(chains), "sampled", marginalization))

    # -- before any release ------------------------------------------------------------------------------

    @property
    def uncertainties_before(self) -> list[Value]:
        """Uncertainty of every user before any release; missing where the prior is flat, or nothing settles."""
        engine = f"sampling, {self.settings.prior_power}"
        return before_release(
            self.compiled, self.users, engine, lambda some: [self.prior_point.values[i] for i in some]
        )

    @cached_property
    def prior_point(self) -> SolvedRelease:
        """What is known without a release: from draws of the belief, given what the model observes."""
        uninformative = nothing_released(self.compiled)
        model = self.compiled
        how = "sampled before any release" if model.informed else "drawn from the prior"
        if model.kind == "joint":
            latent = LatentRecords(self.compiled, uninformative, "nothing is released")
            chains = latent.prior_chains()
            return replace(self._latent_point(latent, chains), how=how)
        draws = {name: v.reshape(CHAINS, -1, *v.shape[1:]) for name, v in model.prior_draws.items()} or NO_PARAMETERS
        elementwise = self.compiled.kind == "elementwise"
        if elementwise:
            draws = {name: v[:, : 2000 // CHAINS] for name, v in draws.items()}
        chains = Chains(draws, 0, CHAINS, len(next(iter(draws.values()))[0]))
        found = diagnose(chains) if model.informed else Diagnosis(1.0, float(chains.count), float(chains.count))
        theta, weights, khat = chains.theta, None, np.nan
        if self.settings.prior_power != 1:
            weights, khat = pareto_smoothed_weights(
                (self.settings.prior_power - 1) * self.reduced_model.log_prior_density(theta)
            )
        support_maps = find_support_maps(self.compiled, theta, uninformative.columns) if elementwise else ()
        rng = as_generator(12345)
        points = ParameterPoints(self.compiled, uninformative, support_maps, theta, weights, chains.chains, rng=rng)
        posteriors, start = [], rng.bit_generator.state
        for user in self.users:
            rng.bit_generator.state = start  # what is known of a target does not hang on who else asks
            posteriors.append(points.law(user.target))
        where = log_posteriors(self.compiled, [uninformative])[0][1], points
        point = self._point_of_posteriors(posteriors, chains, found, how, "nothing is released", where)
        return with_verdict(replace(point, weights=weights, khat=khat, points=points))


def before_release(
    compiled: CompiledModel, users: Sequence[User], engine: str, solve: Callable[[list[int]], Sequence[Value]]
) -> list[Value]:
    """Uncertainty of every user before any release; missing where the prior is flat, or nothing settles.

    ``solve`` finds that of some users. It is asked once for all blocks of a grid.
    """
    keys = [_key_of_user(user, engine) for user in users]
    cache = compiled.cache
    fresh = [i for i, key in enumerate(keys) if key is None or key not in cache]
    found: Sequence[Value] = [Value.exact(np.nan)] * len(fresh)
    # A prior may be so wide that its moments are beyond numbers, or its density simple after a release only.
    with suppress(RuvError):
        found = found if compiled.is_improper or not fresh else solve(fresh)
    own = dict(zip(fresh, found, strict=True))
    cache.update({keys[i]: value for i, value in own.items() if keys[i] is not None})
    return [own[i] if i in own else cache[key] for i, key in enumerate(keys)]


def _key_of_user(user: User, engine: str) -> Hashable:
    """What the uncertainty before any release depends on, beside the model; None if others may have the same key."""
    actions = None if user.actions is None else repr(np.asarray(user.actions).tolist())
    key = ("before", engine, user.target, user.loss, actions)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def with_verdict(point: SolvedRelease) -> SolvedRelease:
    """The same point with its verdict: what speaks against it, and whether anything does."""
    effective = point.count if point.weights is None else 1.0 / float(np.sum(point.weights**2))
    share = effective / point.count
    bulk, tail = point.ess_bulk * share, point.ess_tail * share
    # Below fifty nothing can be said, R-hat included.
    enough = min(400.0, max(50.0, 0.1 * point.count))
    trouble = [point.trouble] if point.trouble else []
    if not point.rhat <= 1.01:
        trouble.append(f"R-hat {point.rhat:.3f}")
    if not bulk >= enough or not tail >= enough:
        trouble.append(f"effective sample size {min(bulk, tail):.0f}")
    if point.divergences:
        trouble.append(f"{point.divergences} divergences")
    if point.khat >= GOOD_KHAT:
        trouble.append(f"k-hat {point.khat:.2f}")
    if point.integration_error > 10 * CLOSE:
        trouble.append(f"records integrated to {point.integration_error:.2g} only")
    return replace(point, ess_bulk=bulk, ess_tail=tail, converged=not trouble, trouble=", ".join(trouble))


def _relative_error_of_uncertainty(value: Value) -> float:
    u, e = float(value.value), float(value.error)
    return 0.0 if e == 0 else (e / abs(u) if u else np.inf)
