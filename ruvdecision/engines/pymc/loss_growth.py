"""Whether the mean of a loss exists: how fast the loss grows where parameters and records become unlikely.

Draws tell little of it: log-normal records with a half-normal prior of sigma have an infinite mean, and of thousands of
draws the tail index (k-hat) may be .6 as well as 1.1. Their densities are known, however far from the draws. The tail
index of the loss is the largest log loss less than so many logs below the top, by these: from one on the mean is
infinite, and from one half on a mean over draws has no standard error.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from ...channels.likelihood import ReleaseLikelihood, Uninformative
from ...errors import RuvError
from ...losses.base import as_bayes_loss, losses_at
from ...numerics.differences import climb_to_mode
from ...numerics.roots import border
from ...posteriors import Drawn
from ...protocols import Array, Posterior
from ...targets import Files, Kind
from ...users.user import User
from .importance import pareto_smoothed_weights
from .log_posterior import LogPosteriors, log_posteriors
from .model import CompiledModel
from .one_record import Axis
from .parameter_points import ParameterPoints, entries_per_parameter
from .support import SupportMap, find_support_maps

LEVELS = (15.0, 30.0)
"""How far below its top the log density is where the loss is looked at."""
DIRECTIONS, KEPT, ROUNDS, SWEEPS = 24, 6, 3, 2
"""Directions that are tried at a time, the best of them, how often these are varied, and turns through the levels."""
LONGEST, HALVINGS = 14.0, 22
"""Logs of the shortest and longest way to a level, and halvings between them."""
OFF = 0.5
"""How far a point may be off its level: the density has jumps, or never falls so far."""
PLACES, FARTHEST = 401, 30.0
"""Places of a record that are looked at for a first one, and how far they go on the mapped line."""
LIGHT = 0.35
"""Tail index below which draws are taken at their word; of means that do not exist they said .5 at the least."""
GOOD_KHAT = 0.7
"""Tail index from which on draws do not settle a mean."""
DOUBTFUL, ENDLESS = 0.3, 0.99
"""Growth of the loss before any release from which on it is looked at after one, and one without a finite mean."""
TAIL, FEWEST = 2000, 500
"""Draws from which the tail of a loss is judged, and without which nothing is said about it."""
CHECKED = 100
"""Draws from the prior that tell the ends between which records lie."""
Where: TypeAlias = "tuple[LogPosteriors, ParameterPoints]"
"""The log posterior after a release, and what is released, with its draws."""


@dataclass(frozen=True)
class Doubt:
    """That a mean over draws is not known: it is infinite, or its error is."""

    endless: bool
    khat: float

    @property
    def words(self) -> str:
        """For the trouble of a release."""
        return f"the loss is not {'finite' if self.endless else 'settled'} (k-hat {self.khat:.2f})"


@dataclass(frozen=True, eq=False)
class MeanLoss:
    """A user's mean loss: whether it exists, and whether draws settle it."""

    compiled: CompiledModel
    user: User

    def doubt(self, posterior: Posterior, where: Where | None) -> Doubt | None:
        """None if nothing speaks against the mean over draws; ``where`` they are, if the records are integrated out."""
        with suppress(RuvError, TypeError, ValueError, NotImplementedError), np.errstate(all="ignore"):
            estimate = self.user.loss.estimate(posterior, self.user.actions)
            khat = khat_of_loss(self.user, posterior, estimate)
            if -np.inf < khat < LIGHT:
                return None
            growth = self._growth_before_release(estimate)
            if where is not None and not growth < DOUBTFUL:
                growth = growth_of_loss(*where, self.user, estimate)
            if self.user.target.asks_only(Kind.PARAMETER) and growth < ENDLESS:
                growth = -np.inf  # a function may have a pole amid the draws, whatever it does far out
            drawn = isinstance(posterior, Drawn)
            endless = bool(growth >= ENDLESS or (np.isneginf(growth) and khat >= 1 and drawn))
            # Laws given the draws have means with a lighter tail: of exp(sigma z) that of exp(sigma^2 / 2).
            own = growth if drawn or growth < 0 else growth**2
            # Draws that stand still look like a heavy tail; by the densities a loss below one half has a variance.
            heavy = khat >= GOOD_KHAT and not -np.inf < growth < 0.5
            return Doubt(endless, khat) if endless or heavy or own >= GOOD_KHAT else None
        return None

    def _growth_before_release(self, estimate: Array) -> float:
        """Growth of the loss without a release, which makes no tail heavier; minus infinity where it is not known."""
        if "growth" not in self._known:
            self._known["growth"] = self._find_growth(estimate)
        return self._known["growth"]

    @cached_property
    def _known(self) -> dict[str, float]:
        return {}

    def _find_growth(self, estimate: Array) -> float:
        model, nothing = self.compiled, nothing_released(self.compiled)
        if model.is_improper or model.kind == "joint" or not model.continuous:
            return -np.inf
        theta = model.reduced_model.on_natural_scale(model.initial[None])
        maps: tuple[SupportMap, ...] = ()
        if model.kind == "elementwise":
            some = {name: v[:CHECKED] for name, v in model.prior_draws.items()} or theta
            maps = find_support_maps(model, some, nothing.columns)
        ((_, posterior),) = log_posteriors(model, [nothing])
        return growth_of_loss(posterior, ParameterPoints(model, nothing, maps, theta), self.user, estimate)


def nothing_released(compiled: CompiledModel) -> ReleaseLikelihood:
    """What no release tells of the records."""
    return ReleaseLikelihood(tuple(Uninformative(compiled.n) for _ in range(compiled.k)))


def khat_of_loss(user: User, posterior: Posterior, estimate: Array | None = None) -> float:
    """Tail index of the loss of the best estimate over draws (Pareto k-hat): from one on it has no finite mean.

    Where the target has a law given each draw of the parameters it is that of the expected loss given the draw.
    """
    if posterior.support is not None:
        return -np.inf
    rng, vector = np.random.default_rng(1), bool(posterior.event)
    with np.errstate(all="ignore"):
        try:
            estimate = user.loss.estimate(posterior, user.actions) if estimate is None else estimate
            losses = posterior.over_draws(
                lambda draws: losses_at(user.loss, estimate, draws, vector),
                lambda law: as_bayes_loss(user.loss).expected(law, estimate).value,
                TAIL,
                rng,
            )
            if losses is None:
                return -np.inf
            logs = np.log(np.asarray(losses, dtype=np.float64))
        except (RuvError, TypeError, ValueError, NotImplementedError):
            return -np.inf  # a loss of densities or intervals has no tail of this kind
    logs = logs[np.isfinite(logs)]
    return pareto_smoothed_weights(logs)[1] if logs.ndim == 1 and len(logs) >= FEWEST else -np.inf


def growth_of_loss(posterior: LogPosteriors, points: ParameterPoints, user: User, estimate: Array) -> float:
    """Tail index of the loss of an estimate; minus infinity where nothing is known of it.

    ``points`` say what is released; their own parameters are not asked. Of a function of several records it is the
    largest of those where all but one are as expected.
    """
    target, core = user.target, posterior.compiled.reduced_model
    if not core.continuous or (not core.size and target.asks_only(Kind.PARAMETER)):
        return -np.inf
    if target.asks_only(Kind.PARAMETER):
        return _ParameterLoss(posterior, user, estimate).tail_index()
    found = [
        _EntryLoss(posterior, user, estimate, points, row, column, weights).tail_index()
        for row, column, weights in _entries(points, user)
    ]
    return max(found, default=-np.inf)


@dataclass(frozen=True, eq=False)
class _ParameterLoss:
    """The loss of an estimate of a function of the parameters, at points of the unconstrained scale."""

    posterior: LogPosteriors
    user: User
    estimate: Array

    def log_density(self, w: Array) -> Array:
        """Up to a constant, at points ``(S, D)``."""
        return self.posterior.evaluate(w[None])[0][0]

    def log_loss(self, w: Array) -> Array:
        """At points ``(S, D)``."""
        core = self.posterior.compiled.reduced_model
        values = self.user.target.numbers_in_files(Files(parameters=core.with_deterministics(core.on_natural_scale(w))))
        return np.log(losses_at(self.user.loss, self.estimate, values, values.ndim > 1))

    @cached_property
    def mode(self) -> Array:
        """That of the parameters."""
        core, log_density = self.posterior.compiled.reduced_model, lambda u: self.posterior.evaluate(u[None])[0][0]
        if not core.size:
            return np.zeros(0)
        starts = [core.initial]
        if core.prior_points is not None:
            some = core.prior_points[0]
            starts.append(some[int(np.argmax(np.nan_to_num(log_density(some), nan=-np.inf)))])
        modes = np.stack([climb_to_mode(log_density, start) for start in starts])
        return modes[int(np.argmax(np.nan_to_num(log_density(modes), nan=-np.inf)))]

    @property
    def centre(self) -> Array:
        """A point of high density, from which to look."""
        return self.mode

    def tail_index(self) -> float:
        """How much the log of the largest loss grows from one level to the next, over what the log density falls."""
        centre, rng = self.centre, np.random.default_rng(2)
        size, axes = len(centre), np.concatenate([np.eye(len(centre)), -np.eye(len(centre))])
        unit = np.ones(size)
        lengths = np.linalg.norm(self._at_level(LEVELS[0], axes, unit) - centre, axis=1).reshape(2, -1)
        unit = lengths.min(axis=0)
        directions = axes if size == 1 else np.concatenate([axes, rng.standard_normal((DIRECTIONS, size))])
        heights, falls = np.full(2, -np.inf), np.array(LEVELS)
        for sweep in range(1 if size == 1 else SWEEPS):
            for i, turn in np.ndindex(len(LEVELS), 1 if size == 1 else ROUNDS):
                w = self._at_level(LEVELS[i], directions, unit)
                loss, fall = self.log_loss(w), -self._relative_mass(w, unit)
                loss = np.where((np.abs(fall - LEVELS[i]) < OFF) & ~np.isnan(loss), loss, -np.inf)
                best = np.argsort(-loss)[:KEPT]
                if loss[best[0]] > heights[i]:
                    heights[i], falls[i] = loss[best[0]], fall[best[0]]
                if size > 1:
                    kept = directions[best] / np.linalg.norm(directions[best], axis=1, keepdims=True)
                    near = np.repeat(kept, DIRECTIONS // KEPT, axis=0)
                    directions = np.concatenate([kept, near + rng.normal(0, 0.5 / 2 ** (sweep + turn), near.shape)])
        return float(np.diff(heights)[0] / np.diff(falls)[0]) if np.isfinite(heights).all() else -np.inf

    def _relative_mass(self, w: Array, unit: Array) -> Array:
        """Log density less that at the centre; over as much of the line as a point is away, if it is far."""
        far = np.linalg.norm((w - self.centre) / unit, axis=1)
        return self.log_density(w) - self._top + np.log(np.maximum(far, 1.0))

    @cached_property
    def _top(self) -> float:
        return float(self.log_density(self.centre[None])[0])

    def _at_level(self, level: float, directions: Array, unit: Array) -> Array:
        """Where the mass falls below a level along each direction, ``(S, D)``."""

        def place(logs: Array) -> Array:
            return np.asarray(self.centre + np.exp(logs)[:, None] * directions * unit)

        ends = (np.full(len(directions), end) for end in (-LONGEST, LONGEST))
        above = lambda logs: (self._relative_mass(place(logs[0]), unit) > -level)[None]  # noqa: E731
        return place(border(above, *ends, parts=2, rounds=HALVINGS))


@dataclass(frozen=True, eq=False)
class _EntryLoss(_ParameterLoss):
    """The same of an entry of the records: a last coordinate is its place on the line that is mapped to its range."""

    points: ParameterPoints
    row: int | None
    column: int
    weights: Array
    """Of the entry in the target."""

    def log_density(self, w: Array) -> Array:
        u, t = w[:, :-1], w[:, -1]
        own = replace(
            self.points, theta=self.posterior.compiled.reduced_model.on_natural_scale(u), weights=None, chains=None
        )
        x = self._records(t)
        logs = own.log_density_of_entry(x, self.row, self.column)
        return super().log_density(u) + logs + self._line.log_slope(t)

    def log_loss(self, w: Array) -> Array:
        away, vector = self._records(w[:, -1]) - self._place, np.ndim(self.estimate) > 0
        truth = self.estimate + (away[:, None] if vector else away) * self.weights
        return np.log(losses_at(self.user.loss, self.estimate, truth, vector))

    @cached_property
    def centre(self) -> Array:
        t = np.linspace(-FARTHEST, FARTHEST, PLACES)
        w = np.column_stack([np.broadcast_to(self.mode, (len(t), len(self.mode))), t])
        return w[int(np.argmax(np.nan_to_num(self.log_density(w), nan=-np.inf)))]

    @cached_property
    def _place(self) -> float:
        return float(self._records(self.centre[-1:])[0])

    @cached_property
    def _line(self) -> SupportMap | Axis:
        """The mapped line, on which places far out are few: a power of ten takes as much of it as another."""
        found = self.points.support_of_entry(0 if self.row is None else self.row, self.column)
        bounded = np.isfinite([found.low, found.high]).any()
        return found if bounded else Axis(found, *self.points.near_entry(self.column))

    def _records(self, t: Array) -> Array:
        x = self._line.x(t)
        return np.rint(x) if self.points.compiled.discrete else x


def _entries(points: ParameterPoints, user: User) -> list[tuple[int | None, int, Array]]:
    """Row and column of entries that a target is a linear function of, with their weights in it."""
    compiled, target = points.compiled, user.target
    k, widths = compiled.k, entries_per_parameter(compiled)
    told = [np.broadcast_to(~np.asarray(column.uninformative), compiled.n) for column in points.observed.columns]
    unknown = int(np.argmin(np.sum(told, axis=0)))  # the row of which least is known
    if target.is_a(Kind.FILE):
        return [(unknown, j, np.eye(compiled.n * k)[unknown * k + j]) for j in range(k)]
    form = target.linear(k, compiled.scalar, widths)
    if form is None or (points.observed.shuffled and not target.asks_only(Kind.NEW, Kind.PARAMETER)):
        return []
    found, start = [], 0
    for term in form.terms:
        own = 1 if term.component is not None else max(1, widths.get(term.name, 1))
        width = own if term.kind is Kind.PARAMETER else k
        row = None if term.kind is Kind.NEW else unknown if term.kind is Kind.AVERAGE else term.row
        for j in range(0 if term.kind is Kind.PARAMETER else k):
            weights = form.matrix[:, start + j]
            if weights.any():
                found.append((row, j, weights[0] if form.number else weights))
        start += width
    return found
