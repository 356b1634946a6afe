"""Uncertainties and laws of targets, given nodes and weights of the parameters after each of several releases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import InputError, UnsupportedError
from ...posteriors import Curve, Gaussian, Mixture
from ...protocols import Array, Posterior, Value
from ...targets import BaseTarget, Files, Kind
from ..base import Missing, Refusal
from .levels import Levels
from .nodes import Frames, Nodes
from .targets import Given, after_noise, parameter_values, row_of
from .values import value_law

TERMS = (Kind.RECORD, Kind.NEW, Kind.AVERAGE, Kind.PARAMETER)
"""What a target may be a linear function of."""
SAMPLE = "Use engine=ruv.Sampling()"
SURE = 1e-13
"""Relative error below which a number is as exact as numbers are."""


@dataclass(frozen=True, eq=False)
class Solver:
    """Releases with the nodes of their parameters; answers for any target that needs no draws."""

    levels: Levels
    frames: Frames
    nodes: Nodes

    def uncertainty(self, user: Any) -> Value:
        """Of a user after each release, with the error that coarser subsets of the nodes show."""
        target, loss = user.target, user.loss
        second = user.actions is None and getattr(loss, "second_order", False)
        if target.only(Kind.PARAMETER):
            if not second:
                return self._each(lambda i: self._of_values(user, i))
            values = self.values(target)
            return _judged(*(_quadratic(loss, values[:, some], weights) for some, weights in self.nodes.parts))
        if self._joined(target):
            means, variances = self._normal(target)
            return _judged(
                *(
                    self._mixtures(user, means[:, some], variances[:, some], weights)
                    for some, weights in self.nodes.parts
                )
            )
        return self._each(lambda i: self._of_records(user, i))

    def law(self, user: Any, level: int = 0) -> Posterior:
        """Posterior of the user's target after one release."""
        if user.target.only(Kind.PARAMETER):
            return self._value_law(user, level)[0]
        if self._joined(user.target):
            means, variances = self._normal(user.target)
            if means.ndim == 2:
                return Mixture(Gaussian.scalar(means[level], variances[level]), self.nodes.weights[level])
        return self._given(level).law(user.target)

    # -- functions of the parameters -------------------------------------------------------------------

    def values(self, target: BaseTarget) -> Array:
        """The target at every node, ``(L, S)`` or ``(L, S, k)``."""
        return self._at_nodes(values_of(self.levels, target, self.nodes.theta))

    def _at_nodes(self, found: Array) -> Array:
        return found.reshape(*self.nodes.weights.shape, *found.shape[1:])

    def _of_values(self, user: Any, level: int) -> Value:
        law, error = self._value_law(user, level)
        value = user.loss.uncertainty(law, user.actions)
        if error is None:
            # No density was to be had: coarser nodes tell the error.
            found = [value.value]
            for times in (2, 4):
                found.append(user.loss.uncertainty(self._points(user.target, level, times), user.actions).value)
            return _judged(*found)
        return Value(value.value, value.error + error * np.abs(value.value))

    def _value_law(self, user: Any, level: int) -> tuple[Posterior, float | None]:
        target = user.target
        some = self.levels.take([level])
        try:
            found = value_law(
                some, self.frames.take([level]), lambda u: values_at(some, target, u), _place(self.levels, target)
            )
        except InputError:
            found = None  # too wide for a fine grid: the nodes will do
        if found is not None:
            return found
        if getattr(user.loss, "needs_density", False):
            raise UnsupportedError(
                f"Quadrature has no density of {target.describe()}: it does not rise or fall with the parameters "
                "throughout",
                do="Use another loss, or engine=ruv.Sampling()",
            )
        return self._points(target, level, 1), None

    def _points(self, target: BaseTarget, level: int, times: int) -> Posterior:
        """The nodes themselves as a law of point masses."""
        weights = self.nodes.coarse(times)[level]
        values = self.values(target)[level]
        keep = weights > 0
        if values.ndim == 1:
            return Mixture(Gaussian.scalar(values[keep], 0.0), weights[keep])
        k = values.shape[1]
        return Mixture(Gaussian(values[keep], np.zeros((k, k))), weights[keep])

    # -- records ---------------------------------------------------------------------------------------

    def _joined(self, target: BaseTarget) -> bool:
        """Whether the target is normal given the parameters, for all releases at once."""
        core, seen = self.levels.core, self.levels.seen
        if core.kind != "normal" or not core.scalar or core.n != 1 or any(s.columns[0].normal is None for s in seen):
            return False
        if any(s.shuffled for s in seen):
            return target.is_a(Kind.RECORD) or target.is_a(Kind.NEW)
        return target.only(*TERMS)

    def _normal(self, target: BaseTarget) -> tuple[Array, Array]:
        """Mean and variance given parameters and release, ``(L, S)``; for an unknown row ``(L, S, n)``."""
        mean, variance = self._moments
        pairs = [s.columns[0].normal for s in self.levels.seen]
        centre, noise = (np.stack([p[i] for p in pairs]) for i in (0, 1))  # type: ignore[index]
        n = self.levels.compiled.n
        if target.is_a(Kind.NEW):
            return mean, variance
        if target.is_a(Kind.RECORD) and self.levels.seen[0].shuffled:
            return after_noise(mean[..., None], variance[..., None], centre[:, None], noise[:, None])
        if target.is_a(Kind.RECORD):
            row = row_of(target.terms[0].row, n)
            return after_noise(mean, variance, centre[:, None, row], noise[:, None, row])
        return self._linear(target, mean, variance, centre, noise)

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        """Mean and variance of a record at every node, ``(L, S)``, for normal numbers of one law."""
        found, shape = self.nodes.at.normal, self.nodes.weights.shape
        if found is not None:
            mean, variance = (self.nodes.kept(a[:, 0]) for a in found)
        else:
            pair = self.levels.core.normal(self.nodes.theta)
            mean, variance = (np.broadcast_to(a[:, 0], (shape[0] * shape[1],)).reshape(shape) for a in pair)
        return mean, variance

    def _linear(
        self, target: BaseTarget, mean: Array, variance: Array, centre: Array, noise: Array
    ) -> tuple[Array, Array]:
        """A linear function of records, averages and parameters, given the parameters."""
        n = self.levels.compiled.n
        form = target.linear(1, True, _widths(self.levels.compiled))
        assert form is not None and form.number
        weights = form.matrix[0]
        total, fresh = np.full(mean.shape, float(form.constant[0])), 0.0
        rows = np.zeros(n)
        place = 0
        for term in form.terms:
            size = 1
            if term.kind is Kind.PARAMETER:
                own = self._at_nodes(
                    parameter_values(self.levels.core, self.levels.core.complete(self.nodes.theta), term)
                )
                size = 1 if own.ndim == 2 else own.shape[2]
                total += own * weights[place] if own.ndim == 2 else own @ weights[place : place + size]
            elif term.kind is Kind.NEW:
                total += weights[place] * mean
                fresh += weights[place]
            elif term.kind is Kind.AVERAGE:
                rows += weights[place] / n
            else:
                rows[row_of(term.row, n)] += weights[place]
            place += size
        spread = fresh**2 * variance if fresh else np.zeros(mean.shape)
        told = np.flatnonzero(rows)
        if len(told):
            # Records seen with the same noise have the same variance and the same gain: they go together.
            for level in range(len(mean)):
                for size_, place_ in _alike(noise[level, told]):
                    mine = told[place_]
                    gain = (
                        np.zeros(1)
                        if np.isinf(size_)
                        else variance[level] / (variance[level] + size_)
                        if size_
                        else np.ones(1)
                    )
                    known = float(rows[mine] @ np.where(np.isfinite(noise[level, mine]), centre[level, mine], 0.0))
                    total[level] += rows[mine].sum() * mean[level] * (1 - gain) + gain * known
                    spread[level] += np.sum(rows[mine] ** 2) * variance[level] * (1 - gain)
        return total, spread

    def _mixtures(self, user: Any, means: Array, variances: Array, weights: Array) -> Array:
        """Uncertainties from all releases as one batch of mixtures."""
        if user.actions is None and getattr(user.loss, "second_order", False) and means.ndim == 2:
            return _quadratic(user.loss, means, weights, variances)
        if means.ndim == 3:
            n = means.shape[2]
            weights = np.repeat(weights / n, n, axis=1)
            means, variances = (
                means.reshape(len(means), -1),
                np.broadcast_to(variances, means.shape).reshape(len(means), -1),
            )
        if getattr(user.loss, "needs_density", False) and user.actions is None and (variances > 0).all():
            # The density on one grid is far cheaper than the entropy of thousands of components.
            return np.array(
                [
                    float(user.loss.uncertainty(_density_of(*row)).value)
                    for row in zip(weights, means, variances, strict=True)
                ]
            )
        law = Mixture(Gaussian.scalar(means, variances), weights)
        return np.asarray(user.loss.uncertainty(law, user.actions).value)

    def _of_records(self, user: Any, level: int) -> Value:
        weights = [self.nodes.coarse(times)[level] for times in (1, 2, 4)]
        laws = self._given(level).averages(user.target, weights)
        found = [user.loss.uncertainty(law, user.actions) for law in laws]
        value = _judged(*(f.value for f in found))
        return Value(value.value, value.error + found[0].error)

    def _given(self, level: int) -> Given:
        weights = self.nodes.weights[level]
        count = len(weights)
        theta = {name: v[level * count : (level + 1) * count] for name, v in self.nodes.theta.items()}
        return Given(
            self.levels.compiled,
            self.levels.seen[level],
            self.levels.lines(level),
            theta,
            None,
            weights,
            exact=True,
        )

    def _each(self, ask: Callable[[int], Value]) -> Value:
        found = [ask(i) for i in range(len(self.levels))]
        return Value(np.array([float(f.value) for f in found]), np.array([float(f.error) for f in found]))


def refuses_target(compiled: Any, target: BaseTarget) -> Refusal | None:
    """None if the target has a law without drawing; otherwise why not and what can."""
    if target.only(Kind.PARAMETER):
        return None
    if target.ranked or not (target.only(*TERMS) or target.is_a(Kind.FILE)):
        return Refusal(f"Quadrature does not have the target {target.describe()}", SAMPLE, Missing.TARGET)
    if target.is_a(Kind.AVERAGE) and not (compiled.kind == "normal" and compiled.scalar):
        return Refusal("Quadrature has the average of normal records only", SAMPLE, Missing.TARGET)
    if target.is_a(Kind.FILE) and not (compiled.kind == "normal" and compiled.n * compiled.k <= 60):
        return Refusal(
            "Quadrature has all records at once only if they are normal and at most 60 numbers", SAMPLE, Missing.TARGET
        )
    if target.term is None:
        closed = compiled.kind == "normal" and compiled.scalar and compiled.single is not None
        form = target.linear(1, True, _widths(compiled)) if closed else None
        if form is None or not form.number:
            return Refusal(
                f"Quadrature has linear functions of normal records only; {target.describe()} is another",
                SAMPLE,
                Missing.TARGET,
            )
    return None


def refuses_release(compiled: Any, target: BaseTarget, seen: Any) -> Refusal | None:
    """None if the target has a law without drawing after this release; otherwise why not and what can."""
    whole = target.asks(Kind.AVERAGE) or target.asks(Kind.FILE)
    normal = all(column.normal is not None for column in seen.columns)
    if whole and not (normal and compiled.kind == "normal" and not seen.shuffled):
        return Refusal(
            f"Quadrature has {target.describe()} only after normal noise in known rows", SAMPLE, Missing.TARGET
        )
    if seen.shuffled and target.asks(Kind.RECORD) and not (normal and compiled.kind == "normal" and compiled.scalar):
        return Refusal(
            "Quadrature has records in unknown rows only if they are normal numbers with normal noise",
            SAMPLE,
            Missing.TARGET,
        )
    if (
        not compiled.scalar
        and compiled.kind != "mvnormal"
        and not normal
        and (target.asks(Kind.RECORD) or target.asks(Kind.NEW))
    ):
        return Refusal("Quadrature has records of several variables only after normal noise", SAMPLE, Missing.TARGET)
    return None


def values_at(levels: Levels, target: BaseTarget, u: Array) -> Array:
    """A function of the parameters at points ``(S, d)``: ``(S,)`` or ``(S, k)``."""
    return values_of(levels, target, levels.core.natural(u))


def values_of(levels: Levels, target: BaseTarget, theta: dict[str, Array]) -> Array:
    """The same at points on their natural scale."""
    found = target.in_files(Files(parameters=levels.core.complete(theta)))
    if not np.isfinite(found).all():
        raise InputError(
            f"The target, {target.describe()}, must be a number for every value that is possible",
            f"{int(np.sum(~np.isfinite(found)))} missing or infinite values",
            "Choose a function that is defined on the whole range",
        )
    return found


def _place(levels: Levels, target: BaseTarget) -> int | None:
    """Which unconstrained number the target is a function of, if it is one parameter that is a number."""
    names = [v.name for v in levels.core.free]
    name = target.terms[0].name
    if not target.is_a(Kind.PARAMETER) or name not in names or levels.core.shapes[name]:
        return None
    return int(levels.core._pieces[names.index(name)][0])


def _widths(compiled: Any) -> dict[str, int]:
    """Number of entries of each parameter; 0 for a number."""
    return {name: int(np.prod(shape)) if shape else 0 for name, shape in compiled.shapes.items()}


def _quadratic(loss: Any, values: Array, weights: Array, variances: Array | None = None) -> Array:
    """U of a loss that is linear in the covariance, for every release at once."""
    if values.ndim == 2:
        mean = np.einsum("ls,ls->l", weights, values - values[:, :1]) + values[:, 0]
        square = values - mean[:, None]
        square *= square
        if variances is not None:
            square += variances
        total = np.einsum("ls,ls->l", weights, square)
        return np.asarray(loss.uncertainty(Gaussian.scalar(np.zeros(len(total)), np.maximum(total, 0.0))).value)
    mean = np.einsum("ls,lsk->lk", weights, values)
    gap = values - mean[:, None]
    cov = np.einsum("ls,lsi,lsj->lij", weights, gap, gap)
    return np.asarray(loss.uncertainty(Gaussian(np.zeros(cov.shape[:2]), cov)).value)


def _density_of(weights: Array, means: Array, variances: Array) -> Any:
    """A mixture of normal numbers as a curve on a grid that is fine in its middle.

    The mixture itself if that is too coarse.
    """
    used = weights > 1e-17
    weights, means, sd = (
        weights[used] / weights[used].sum(),
        means[used],
        np.sqrt(np.broadcast_to(variances, used.shape)[used]),
    )
    law = Mixture(Gaussian.scalar(means, sd**2), weights)
    middle = float(weights @ means)
    scale = float(np.sqrt(weights @ np.minimum(sd, np.median(sd)) ** 2))
    far = float(np.max(np.abs(means - middle) + 9.0 * sd)) / scale
    for points in (401, 1601):
        x = middle + scale * np.sinh(np.linspace(-1, 1, points) * np.arcsinh(far))
        logs = law.log_density(x)
        inside = np.flatnonzero(logs > logs.max() - 38)
        try:
            curve = Curve(x[inside[0] : inside[-1] + 1], logs[inside[0] : inside[-1] + 1])
        except InputError:
            continue
        if curve.error == 0:
            return curve
    return law


def _judged(fine: Any, middle: Any, coarse: Any) -> Value:
    """A value with its error, from three steps each twice the one before."""
    fine, middle, coarse = (np.asarray(a, dtype=np.float64) for a in (fine, middle, coarse))
    with np.errstate(invalid="ignore", divide="ignore"):
        first, second = np.abs(fine - middle), np.abs(middle - coarse)
        # What halving the step did last time it will do again, at least.
        error = first * np.minimum(1.0, np.where(second > 0, first / second, 1.0))
        error = np.where((error <= SURE * np.abs(fine)) | ~np.isfinite(error), 0.0, error)
    return Value(fine, error)


def _alike(noise: Array) -> Sequence[tuple[float, Any]]:
    each, place = np.unique(noise, return_inverse=True)
    return [(float(size), np.flatnonzero(place == i)) for i, size in enumerate(each)]
