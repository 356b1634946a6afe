"""Draws for a row of releases: sampled where they must be, reweighted where a neighbour's will do."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...channels.likelihood import Observed, Silent
from ...errors import InputError, UnsupportedError
from ...protocols import Array, Posterior, Value
from .latent import Latent
from .marginal import LARGEST_GRID, GridRoute, NodesRoute, Route, choose_route
from .model import Anatomy
from .samplers import Chains, Sampler, choose_sampler, diagnose, smooth_weights
from .support import Reach, find_lines, find_reach, reach_at
from .target_laws import Given

if TYPE_CHECKING:
    from .sampling import Sampling

__all__ = ["Drawer", "Point"]

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
    converged: bool
    trouble: str
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
    found: dict[str, float]


class Drawer:
    """Gives every release of a row its draws."""

    def __init__(self, settings: Sampling, anatomy: Anatomy, users: Sequence[Any]) -> None:
        self.settings, self.anatomy, self.users = settings, anatomy, users
        self.kind = "pymc" if not anatomy.continuous else choose_sampler(settings.sampler)
        if not anatomy.continuous and settings.sampler == "nutpie":
            raise InputError(
                "nutpie does not sample discrete parameters",
                ", ".join(anatomy.names),
                'Use sampler="pymc", or sum them out',
            )

    # -- a row of releases -----------------------------------------------------------------------------

    def points(
        self, seen: Sequence[Observed], seed: np.random.SeedSequence, tell: Callable[..., Any]
    ) -> Iterator[tuple[int, Point]]:
        """One point per release, from the last to the first: weights travel from wide posteriors to narrow ones."""
        number = int(seed.generate_state(1)[0] % (2**31 - 1))
        reaches: dict[Any, tuple[Reach, ...]] = {}
        anchor: _Anchor | None = None
        for done, i in enumerate(reversed(range(len(seen)))):
            kind = choose_route(self.anatomy, seen[i])
            if isinstance(kind, str):
                point = self._latent(seen[i], kind, number)
            else:
                if kind.needs_reach and "reach" not in reaches:
                    # The first release of the row is the least noisy: it tells best where records lie.
                    first = next((s for s in seen if not isinstance(choose_route(self.anatomy, s), str)), seen[i])
                    reaches["reach"] = tuple(find_reach(self.anatomy, c, j)[0] for j, c in enumerate(first.columns))
                point, anchor = self._integrated(kind, seen[i], reaches, anchor, number)
            tell((done + 1) / len(seen), f"R-hat {point.rhat:.3f}" if np.isfinite(point.rhat) else "")
            yield i, point

    def _integrated(
        self, kind: type[Route], seen: Observed, reaches: dict[Any, Any], anchor: _Anchor | None, number: int
    ) -> tuple[Point, _Anchor]:
        core = self.anatomy.single or self.anatomy
        reach = reaches.get("reach")
        kind, reach_here = self._fit(kind, seen, reach)
        route = kind(core)
        data = route.data(seen, reach_here)
        if anchor is not None and anchor.route.key == route.key and self.settings.reuse:
            theta = anchor.chains.theta
            logs = route.log_likelihood(theta, data)
            weights, khat = smooth_weights(logs - anchor.logs)
            if khat < GOOD_KHAT:
                point = self._finish(
                    route, seen, reach_here, data, anchor.chains, weights, khat, anchor.found, "reweighted"
                )
                if point.converged and not self._too_rough(point):
                    return point, anchor
        return self._sampled(route, seen, reaches, number)

    def _fit(self, kind: type[Route], seen: Observed, reach: Any) -> tuple[type[Route], Any]:
        if not kind.needs_reach:
            return kind, None
        if kind is GridRoute:
            cut = reach[0].for_release(seen.columns[0], LARGEST_GRID)
            return (GridRoute, (cut,)) if cut is not None else (NodesRoute, reach)
        return kind, reach

    def _sampled(self, route: Route, seen: Observed, reaches: dict[Any, Any], number: int) -> tuple[Point, _Anchor]:
        kind: type[Route] = type(route)
        for attempt in range(4):
            kind, reach = self._fit(
                type(route) if not isinstance(route, NodesRoute) else NodesRoute, seen, reaches.get("reach")
            )
            route = kind(route.anatomy)
            data = route.data(seen, reach)
            sampler = self._sampler(route, data)
            chains = self._remembered(sampler, data, number)
            error, better = self._checked(route, seen, reach, data, chains)
            if error <= CLOSE or attempt == 3:
                break
            reaches["reach"] = better
        found = diagnose(chains)
        point = self._finish(route, seen, reach, data, chains, None, np.nan, found, "sampled", error)
        point, chains, found = self._go_on(point, route, seen, reach, data, sampler, chains, found, number, error)
        return point, _Anchor(route, chains, route.log_likelihood(chains.theta, data), found)

    def _go_on(
        self,
        point: Point,
        route: Any,
        seen: Any,
        reach: Any,
        data: Any,
        sampler: Any,
        chains: Chains,
        found: Any,
        number: int,
        error: float,
    ) -> Any:
        """More draws until the users' uncertainties are known well enough, or the budget ends."""
        target = self.settings.target_mcse
        if target is None:
            return point, chains, found
        turn = 0
        while self._too_rough(point) and chains.chains * chains.draws < self.settings.max_draws:
            turn += 1
            rough = max(_relative(v) for v in point.values)
            left = (self.settings.max_draws - chains.chains * chains.draws) // chains.chains
            away = min(rough / target, 1e6)  # farther than any budget goes
            wanted = int(np.clip(1.2 * chains.draws * (away**2 - 1), 50, left)) if np.isfinite(rough) else left
            if wanted < 1 or left < 1:
                break
            chains = chains.joined(self._run(sampler, data, wanted, number + turn))
            found = diagnose(chains)
            point = self._finish(route, seen, reach, data, chains, None, np.nan, found, "sampled", error)
        words = f"not reached with {chains.chains * chains.draws} draws" if self._too_rough(point) else "reached"
        return replace(point, budget=words), chains, found

    def _too_rough(self, point: Point) -> bool:
        target = self.settings.target_mcse
        return target is not None and any(_relative(v) > target for v in point.values)

    def _run(self, sampler: Sampler, data: Any, draws: int, number: int) -> Chains:
        return sampler.run(data, draws, self.settings.tune, self.settings.chains, number, self.settings.target_accept)

    def _remembered(self, sampler: Sampler, data: Any, number: int) -> Chains:
        """The same draws again if they were drawn lately: another user, loss or power of the prior asks for them."""
        kept = sampler.recent
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in data.values())).hexdigest()
        key = (
            digest,
            self.settings.draws,
            self.settings.tune,
            self.settings.chains,
            self.settings.target_accept,
            number,
        )
        if key not in kept:
            kept[key] = self._run(sampler, data, self.settings.draws, number)
            while len(kept) > RECENT:
                kept.pop(next(iter(kept)))
        return kept[key]

    def _sampler(self, route: Route, data: Any) -> Sampler:
        core = route.anatomy
        key = (*route.key, self.kind, *(a.ndim for a in data.values()))
        if key not in core.cache:
            free = [rv.name for rv in core.free]
            core.cache[key] = Sampler(route.model(data), self.kind, free, core.shapes)
        return core.cache[key]  # type: ignore[no-any-return]

    def _checked(self, route: Route, seen: Observed, reach: Any, data: Any, chains: Chains) -> tuple[float, Any]:
        """How much a finer grid moves the log likelihood, and a reach that fits the draws."""
        if reach is None or route.anatomy.discrete or not chains.values:
            return 0.0, reach
        theta = chains.theta
        some = np.linspace(0, chains.chains * chains.draws - 1, CHECKED).astype(int)
        few = {k: v[some] for k, v in theta.items()}
        finer = tuple(r.refined() for r in reach)
        moved = route.log_likelihood(few, data) - route.log_likelihood(few, route.data(seen, finer))
        error = float(np.ptp(moved)) if np.isfinite(moved).all() else np.inf
        if error <= CLOSE:
            return error, reach
        better = tuple(
            reach_at(self.anatomy, few, c, j, old=r) for j, (c, r) in enumerate(zip(seen.columns, reach, strict=True))
        )
        return error, tuple(replace(b, count=2 * r.count, fine=2 * r.fine) for b, r in zip(better, reach, strict=True))

    # -- one release -----------------------------------------------------------------------------------

    def _finish(
        self,
        route: Any,
        seen: Any,
        reach: Any,
        data: Any,
        chains: Chains,
        weights: Any,
        khat: float,
        found: Any,
        how: str,
        error: float = 0.0,
    ) -> Point:
        rng = np.random.default_rng(12345)
        if self._powered:
            weights, tail = self._scaled(route, data, chains, weights)
            khat, how = np.fmax(khat, tail), f"{how}, power-scaled"
        given = Given(
            self.anatomy,
            seen,
            None if reach is None else tuple(r.line for r in reach),
            chains.theta,
            chains.chains,
            weights,
            rng=rng,
        )
        posteriors = [given.law(user.target) for user in self.users]
        values = [user.loss.uncertainty(p, user.actions) for user, p in zip(self.users, posteriors, strict=True)]
        return judged(values, posteriors, chains, weights, how, route.name, found, khat, error)

    @property
    def _powered(self) -> bool:
        return self.settings.prior_power != 1 or self.settings.likelihood_power != 1

    def _scaled(self, route: Route, data: Any, chains: Chains, weights: Any) -> tuple[Array, float]:
        """Weights for a prior and a likelihood raised to powers."""
        theta = chains.theta
        logs = (self.settings.prior_power - 1) * route.anatomy.log_prior_density(theta)
        if self.settings.likelihood_power != 1:
            logs = logs + (self.settings.likelihood_power - 1) * route.log_likelihood(theta, data)
        if weights is not None:
            with np.errstate(divide="ignore"):
                logs = logs + np.log(weights)
        return smooth_weights(logs)

    def _latent(self, seen: Observed, reason: str, number: int) -> Point:
        if self._powered:
            do = "Use a mask that works record by record, or vary the prior in the builder"
            raise UnsupportedError("Power-scaling needs records that can be integrated out", reason, do)
        key = ("latent", self.kind, Latent.shape_of(seen))
        latent = Latent(self.anatomy, seen, reason)
        if key not in self.anatomy.cache:
            self.anatomy.cache[key] = latent.sampler(self.kind)
        sampler = self.anatomy.cache[key]
        data = latent.data()
        chains = self._run(sampler, data, self.settings.draws, number)
        point = self._latent_point(latent, chains)
        turn = 0
        while self._too_rough(point) and chains.chains * chains.draws < self.settings.max_draws:
            turn += 1
            wanted = min(chains.draws, (self.settings.max_draws - chains.chains * chains.draws) // chains.chains)
            if wanted < 1:
                break
            chains = chains.joined(self._run(sampler, data, wanted, number + turn))
            point = self._latent_point(latent, chains)
        if self.settings.target_mcse is not None:
            words = f"not reached with {chains.chains * chains.draws} draws" if self._too_rough(point) else "reached"
            point = replace(point, budget=words)
        return point

    def _latent_point(self, latent: Latent, chains: Chains) -> Point:
        found = diagnose(chains)
        posteriors = [latent.law(user.target, chains) for user in self.users]
        values = [user.loss.uncertainty(p, user.actions) for user, p in zip(self.users, posteriors, strict=True)]
        return judged(
            values, posteriors, chains, None, "sampled", f"records sampled too: {latent.reason}", found, np.nan, 0.0
        )

    # -- before any release ------------------------------------------------------------------------------

    def before(self, user: Any, seed: Any) -> float:
        """Uncertainty before any release, from the prior; missing where the prior is flat."""
        if self.anatomy.improper:
            return np.nan
        n, k = self.anatomy.n, self.anatomy.k
        silent = Observed(tuple(Silent(n) for _ in range(k)))
        theta = self._prior(seed)
        if self.anatomy.kind == "joint":
            return float(
                user.loss.uncertainty(Latent(self.anatomy, silent, "").prior_law(user.target), user.actions).value
            )
        lines = None
        if self.anatomy.kind == "elementwise":
            lines = find_lines(self.anatomy, theta, silent.columns)
            theta = {key: v[:2000] for key, v in theta.items()}
        weights = None
        if self.settings.prior_power != 1:
            core = self.anatomy.single or self.anatomy
            weights, _ = smooth_weights((self.settings.prior_power - 1) * core.log_prior_density(theta))
        given = Given(self.anatomy, silent, lines, theta, None, weights, rng=np.random.default_rng(12345))
        return float(user.loss.uncertainty(given.law(user.target), user.actions).value)

    def _prior(self, seed: Any) -> dict[str, Array]:
        key = ("prior", None if seed is None else str(seed.entropy))
        if key not in self.anatomy.cache:
            self.anatomy.cache[key] = (self.anatomy.single or self.anatomy).prior(20_000, np.random.default_rng(20_000))
        return self.anatomy.cache[key]  # type: ignore[no-any-return]


def judged(
    values: Any,
    posteriors: Any,
    chains: Chains,
    weights: Any,
    how: str,
    route: str,
    found: Any,
    khat: float,
    error: float,
) -> Point:
    """A point with its verdict."""
    total = chains.chains * chains.draws
    effective = total if weights is None else 1.0 / float(np.sum(weights**2))
    share = effective / total
    bulk, tail = found["ess_bulk"] * share, found["ess_tail"] * share
    # Below fifty nothing can be said, R-hat included.
    enough = min(400.0, max(50.0, 0.1 * total))
    doubts = []
    if not found["rhat"] <= 1.01:
        doubts.append(f"R-hat {found['rhat']:.3f}")
    if not bulk >= enough or not tail >= enough:
        doubts.append(f"effective sample size {min(bulk, tail):.0f}")
    if chains.divergences:
        doubts.append(f"{chains.divergences} divergences")
    if khat >= GOOD_KHAT:
        doubts.append(f"k-hat {khat:.2f}")
    if error > 10 * CLOSE:
        doubts.append(f"records integrated to {error:.2g} only")
    return Point(
        values,
        posteriors,
        chains,
        weights,
        how,
        route,
        found["rhat"],
        bulk,
        tail,
        chains.divergences,
        khat,
        total,
        not doubts,
        ", ".join(doubts),
        integration_error=error,
    )


def _relative(value: Value) -> float:
    u, e = float(value.value), float(value.error)
    return 0.0 if e == 0 else (e / abs(u) if u else np.inf)
