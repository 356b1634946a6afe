"""Draws for a row of releases: sampled where they must be, reweighted where a neighbour's will do."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...channels.likelihood import ReleaseLikelihood, Uninformative
from ...errors import InputError, UnsupportedError
from ...protocols import Array, Posterior, Value
from .latent import Latent
from .marginal import Route, choose_route, fit_route
from .model import CompiledModel, Theta
from .nuts import Chains, Diagnosis, Sampler, choose_sampler, diagnose, smooth_weights
from .support import Reach, find_lines, find_reach, reach_at
from .targets import Given

if TYPE_CHECKING:
    from ...users.user import User
    from .sampling import Sampling

GOOD_KHAT = 0.7
CLOSE = 0.02
"""Largest error of the log likelihood that integrating the records over a grid may leave."""
CHECKED = 100
"""Draws at which the grid is checked."""
RECENT = 16
"""Sampled releases whose draws a compiled model remembers."""


@dataclass(frozen=True, eq=False)
class Point:
    """One release: the users' uncertainties, and how they were got."""

    values: Sequence[Value]
    posteriors: Sequence[Posterior]
    chains: Chains | None
    weights: Array | None
    how: str
    route: str
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

    def light(self) -> Point:
        """The numbers without the draws."""
        return replace(self, posteriors=(), chains=None, weights=None)

    def dataset(self) -> Any:
        """The parameter draws as ArviZ takes them; weights, where there are any, under ``weight``."""
        import xarray as xr

        assert self.chains is not None
        arrays = {
            k: (("chain", "draw", *(f"{k}_dim_{i}" for i in range(v.ndim - 2))), v)
            for k, v in self.chains.values.items()
        }
        if self.weights is not None:
            arrays["weight"] = (("chain", "draw"), self.weights.reshape(self.chains.chains, -1))
        return xr.Dataset(arrays, attrs={"how": self.how, "route": self.route})


@dataclass(frozen=True, eq=False)
class _Anchor:
    """A sampled release whose draws neighbours may use."""

    route: Route
    chains: Chains
    logs: Array
    found: Diagnosis


@dataclass(frozen=True, eq=False)
class Release:
    """One release: what was observed, how the records are integrated out, and the draws so far."""

    observed: ReleaseLikelihood
    route: Route
    reach: tuple[Reach, ...] | None
    data: Mapping[str, Array]
    """The release as the compiled model takes it."""
    chains: Chains | None = None
    found: Diagnosis | None = None
    weights: Array | None = None
    khat: float = np.nan
    how: str = "sampled"
    error: float = 0.0
    """By how much finer nodes for the records would move the log likelihood."""

    @classmethod
    def of(
        cls, kind: type[Route], core: CompiledModel, observed: ReleaseLikelihood, reach: tuple[Reach, ...] | None
    ) -> Release:
        """A release by a route that has nodes fine enough for it."""
        kind, reach = fit_route(kind, observed, reach)
        route = kind(core)
        return cls(observed, route, reach, route.data(observed, reach))

    def log_likelihood(self, theta: Theta) -> Array:
        """At draws of the parameters."""
        return self.route.log_likelihood(theta, self.data)

    def drawn(self, chains: Chains) -> Release:
        """With these draws."""
        return replace(self, chains=chains, found=diagnose(chains))

    def reweighted(self, anchor: _Anchor) -> Release:
        """With the draws of a neighbour."""
        weights, khat = smooth_weights(self.log_likelihood(anchor.chains.theta) - anchor.logs)
        return replace(self, chains=anchor.chains, found=anchor.found, weights=weights, khat=khat, how="reweighted")

    def scaled(self, prior_power: float, likelihood_power: float) -> Release:
        """With a prior and a likelihood raised to powers."""
        assert self.chains is not None
        theta = self.chains.theta
        logs = (prior_power - 1) * self.route.compiled.log_prior_density(theta)
        if likelihood_power != 1:
            logs = logs + (likelihood_power - 1) * self.log_likelihood(theta)
        if self.weights is not None:
            with np.errstate(divide="ignore"):
                logs = logs + np.log(self.weights)
        weights, tail = smooth_weights(logs)
        khat = float(np.fmax(self.khat, tail))
        return replace(self, weights=weights, khat=khat, how=f"{self.how}, power-scaled")

    def checked(self, compiled: CompiledModel) -> tuple[float, tuple[Reach, ...] | None]:
        """How much finer nodes move the log likelihood, and a reach that fits the draws."""
        assert self.chains is not None
        reach = self.reach
        if reach is None or not self.chains.values:
            return 0.0, reach
        some = np.linspace(0, self.chains.count - 1, CHECKED).astype(int)
        few = {k: v[some] for k, v in self.chains.theta.items()}
        finer = self.route.data(self.observed, tuple(r.refined() for r in reach))
        moved = self.log_likelihood(few) - self.route.log_likelihood(few, finer)
        error = float(np.ptp(moved)) if np.isfinite(moved).all() else np.inf
        if error <= CLOSE:
            return error, reach
        if compiled.discrete:
            return error, tuple(r.refined() for r in reach)
        fresh = (reach_at(compiled, few, c, j) for j, c in enumerate(self.observed.columns))
        return error, tuple(
            replace(new, count=2 * old.count, fine=2 * old.fine) for new, old in zip(fresh, reach, strict=True)
        )


class ReleaseSampler:
    """Gives every release of a row its draws."""

    def __init__(self, settings: Sampling, compiled: CompiledModel, users: Sequence[User]) -> None:
        self.settings, self.compiled, self.users = settings, compiled, users
        self.core = compiled.single or compiled
        self.reach: tuple[Reach, ...] | None = None
        """Where records lie, as the row of releases has told so far."""
        self.kind = "pymc" if not compiled.continuous else choose_sampler(settings.sampler)
        if not compiled.continuous and settings.sampler == "nutpie":
            raise InputError(
                "nutpie does not sample discrete parameters",
                ", ".join(compiled.names),
                'Use sampler="pymc", or sum them out',
            )

    # -- a row of releases -----------------------------------------------------------------------------

    def points(
        self, seen: Sequence[ReleaseLikelihood], seed: np.random.SeedSequence, tell: Callable[..., None]
    ) -> Iterator[tuple[int, Point]]:
        """One point per release, from the last to the first: weights travel from wide posteriors to narrow ones."""
        number = int(seed.generate_state(1)[0] % (2**31 - 1))
        choices = [choose_route(self.compiled, observed) for observed in seen]
        self.reach = None
        if any(choice.route is not None and choice.route.needs_reach for choice in choices):
            # The first release of the row is the least noisy: it tells best where records lie.
            first = next(observed for observed, choice in zip(seen, choices, strict=True) if choice.route is not None)
            self.reach = tuple(find_reach(self.compiled, c, j)[0] for j, c in enumerate(first.columns))
        anchor: _Anchor | None = None
        for done, i in enumerate(reversed(range(len(seen)))):
            kind = choices[i].route
            if kind is None:
                point = self._latent(seen[i], choices[i].reason, number)
            else:
                point, anchor = self._integrated(kind, seen[i], anchor, number)
            tell((done + 1) / len(seen), f"R-hat {point.rhat:.3f}" if np.isfinite(point.rhat) else "")
            yield i, point

    def _integrated(
        self, kind: type[Route], observed: ReleaseLikelihood, anchor: _Anchor | None, number: int
    ) -> tuple[Point, _Anchor]:
        release = Release.of(kind, self.core, observed, self.reach)
        if anchor is not None and anchor.route.key == release.route.key and self.settings.reuse:
            near = release.reweighted(anchor)
            if near.khat < GOOD_KHAT:
                point = self._summarise(near)
                if point.converged and not self._too_rough(point):
                    return point, anchor
        return self._sampled(release, number)

    def _sampled(self, release: Release, number: int) -> tuple[Point, _Anchor]:
        for attempt in range(4):
            if attempt:
                release = Release.of(type(release.route), self.core, release.observed, self.reach)
            sampler = self._sampler(release)
            release = release.drawn(self._remembered(sampler, release.data, number))
            error, better = release.checked(self.compiled)
            release = replace(release, error=error)
            if error <= CLOSE or attempt == 3:
                break
            self.reach = better
        point, release = self._extend(release, sampler, number)
        assert release.chains is not None and release.found is not None
        logs = release.log_likelihood(release.chains.theta)
        return point, _Anchor(release.route, release.chains, logs, release.found)

    def _extend(self, release: Release, sampler: Sampler, number: int) -> tuple[Point, Release]:
        """More draws until the users' uncertainties are known well enough, or the budget ends."""
        point, target, turn = self._summarise(release), self.settings.target_mcse, 0
        if target is None:
            return point, release
        while self._too_rough(point) and self._budget(release.chains) > 0:
            turn += 1
            assert release.chains is not None
            rough, draws, most = max(map(_relative, point.values)), release.chains.draws, self._budget(release.chains)
            away = min(rough / target, 1e6)  # farther than any budget goes
            wanted = int(np.clip(1.2 * draws * (away**2 - 1), 50, most)) if np.isfinite(rough) else most
            more = self._run(sampler, release.data, min(wanted, most), number + turn)
            release = release.drawn(release.chains.joined(more))
            point = self._summarise(release)
        return replace(point, budget=self._spent(point)), release

    def _budget(self, chains: Chains | None) -> int:
        """Draws of each chain that may still be taken."""
        assert chains is not None
        return max(0, self.settings.max_draws - chains.count) // chains.chains

    def _spent(self, point: Point) -> str:
        return f"not reached with {point.count} draws" if self._too_rough(point) else "reached"

    def _too_rough(self, point: Point) -> bool:
        target = self.settings.target_mcse
        return target is not None and any(_relative(v) > target for v in point.values)

    def _run(self, sampler: Sampler, data: Mapping[str, Array], draws: int, number: int) -> Chains:
        return sampler.run(data, draws, self.settings.tune, self.settings.chains, number, self.settings.target_accept)

    def _remembered(self, sampler: Sampler, data: Mapping[str, Array], number: int) -> Chains:
        """The same draws again if they were drawn lately: another user, loss or power of the prior asks for them."""
        kept, own = sampler.recent, self.settings
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in data.values())).hexdigest()
        key = (digest, own.draws, own.tune, own.chains, own.target_accept, number)
        if key not in kept:
            kept[key] = self._run(sampler, data, own.draws, number)
            while len(kept) > RECENT:
                kept.pop(next(iter(kept)))
        return kept[key]

    def _sampler(self, release: Release) -> Sampler:
        route, core = release.route, self.core
        key = (*route.key, self.kind, *(a.ndim for a in release.data.values()))
        if key not in core.samplers:
            names = [rv.name for rv in core.free]
            core.samplers[key] = Sampler(route.model(release.data), self.kind, names, core.shapes)
        return core.samplers[key]

    # -- one release -----------------------------------------------------------------------------------

    def _summarise(self, release: Release) -> Point:
        """The users' uncertainties and the verdict."""
        if self._powered:
            release = release.scaled(self.settings.prior_power, self.settings.likelihood_power)
        chains = release.chains
        assert chains is not None and release.found is not None
        lines = None if release.reach is None else tuple(r.line for r in release.reach)
        rng = np.random.default_rng(12345)
        given = Given(self.compiled, release.observed, lines, chains.theta, chains.chains, release.weights, rng=rng)
        posteriors = [given.law(user.target) for user in self.users]
        point = self._point(posteriors, chains, release.found, release.how, release.route.name)
        return diagnose_point(
            replace(point, weights=release.weights, khat=release.khat, integration_error=release.error)
        )

    def _point(self, posteriors: Sequence[Posterior], chains: Chains, found: Diagnosis, how: str, route: str) -> Point:
        values = [user.loss.uncertainty(p, user.actions) for user, p in zip(self.users, posteriors, strict=True)]
        return Point(values, posteriors, chains, None, how, route, *found, chains.divergences, np.nan, chains.count)

    @property
    def _powered(self) -> bool:
        return self.settings.prior_power != 1 or self.settings.likelihood_power != 1

    def _latent(self, observed: ReleaseLikelihood, reason: str, number: int) -> Point:
        if self._powered:
            do = "Use a mask that works record by record, or vary the prior in the builder"
            raise UnsupportedError("Power-scaling needs records that can be integrated out", reason, do)
        latent = Latent(self.compiled, observed, reason)
        key = ("latent", self.kind, Latent.shape_of(observed))
        if key not in self.compiled.samplers:
            self.compiled.samplers[key] = latent.sampler(self.kind)
        sampler, data = self.compiled.samplers[key], latent.data()
        chains = self._run(sampler, data, self.settings.draws, number)
        point = self._latent_point(latent, chains)
        turn = 0
        while self._too_rough(point) and self._budget(chains) > 0:
            turn += 1
            chains = chains.joined(self._run(sampler, data, min(chains.draws, self._budget(chains)), number + turn))
            point = self._latent_point(latent, chains)
        return point if self.settings.target_mcse is None else replace(point, budget=self._spent(point))

    def _latent_point(self, latent: Latent, chains: Chains) -> Point:
        posteriors = [latent.law(user.target, chains) for user in self.users]
        route = f"records sampled too: {latent.reason}"
        return diagnose_point(self._point(posteriors, chains, diagnose(chains), "sampled", route))

    # -- before any release ------------------------------------------------------------------------------

    def before(self, user: User) -> float:
        """Uncertainty before any release, from the prior; missing where the prior is flat."""
        if self.compiled.improper:
            return np.nan
        n, k = self.compiled.n, self.compiled.k
        uninformative = ReleaseLikelihood(tuple(Uninformative(n) for _ in range(k)))
        if self.compiled.kind == "joint":
            return float(
                user.loss.uncertainty(
                    Latent(self.compiled, uninformative, "").prior_law(user.target), user.actions
                ).value
            )
        lines, theta = None, self.core.prior_draws
        if self.compiled.kind == "elementwise":
            lines = find_lines(self.compiled, theta, uninformative.columns)
            theta = {key: v[:2000] for key, v in theta.items()}
        weights = None
        if self.settings.prior_power != 1:
            weights, _ = smooth_weights((self.settings.prior_power - 1) * self.core.log_prior_density(theta))
        given = Given(self.compiled, uninformative, lines, theta, None, weights, rng=np.random.default_rng(12345))
        return float(user.loss.uncertainty(given.law(user.target), user.actions).value)


def diagnose_point(point: Point) -> Point:
    """The same point with its verdict: what speaks against it, and whether anything does."""
    effective = point.count if point.weights is None else 1.0 / float(np.sum(point.weights**2))
    share = effective / point.count
    bulk, tail = point.ess_bulk * share, point.ess_tail * share
    # Below fifty nothing can be said, R-hat included.
    enough = min(400.0, max(50.0, 0.1 * point.count))
    trouble = []
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


def _relative(value: Value) -> float:
    u, e = float(value.value), float(value.error)
    return 0.0 if e == 0 else (e / abs(u) if u else np.inf)
