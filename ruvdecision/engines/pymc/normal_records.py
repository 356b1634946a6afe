"""Linear functions of normal records behind releases with normal noise: closed forms given the parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...checks import check_index
from ...errors import InputError
from ...posteriors import Curve, Gaussian, Mixture
from ...protocols import Array, Posterior
from ...targets import BaseTarget, Kind, Term

LINEAR = (Kind.RECORD, Kind.NEW, Kind.AVERAGE, Kind.PARAMETER)
"""What a target may be a linear function of."""
ROW = "The row of a Record"
ROUGH = 1e-5
"""Error of a curve that is better than to ask thousands of parts."""
ROUNDING = 1e-13
"""Share of a variance that may be left by rounding alone."""
BLOCK = 1_000_000
"""Densities that are worked out at a time."""


def condition_on_noisy_value(mean: Array, variance: Array, centre: Array, noise: Array) -> tuple[Array, Array]:
    """Mean and variance of a normal number after its release with normal noise; infinite noise tells nothing."""
    if (noise > 0).all() and np.isfinite(noise).all():
        gain = variance / (variance + noise)
        return mean + gain * (centre - mean), variance * (1 - gain)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(np.isinf(noise), 0.0, np.where(variance + noise > 0, variance / (variance + noise), 0.0))
    return mean + gain * (np.where(np.isinf(noise), 0.0, centre) - mean), variance * (1 - gain)


@dataclass(frozen=True, eq=False)
class ReleasedAverages:
    """Averages of groups of normal numbers that were released beside the numbers' own releases.

    The groups have no member in common, and numbers are independent given their own releases, with moments
    ``(..., n)``: so the averages are independent, too.
    """

    shares: Array
    """Of each number in each average, ``(G, n)``."""
    values: Array
    error: Array
    """The averages, and the variances of the noise on them, ``(G,)``."""

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Every number's mean and variance given the averages, too."""
        pull, precision = self._pull_and_precision(mean, variance)
        less = variance * (precision @ np.square(self.shares))
        return mean + variance * (pull @ self.shares), variance * _positive_part(1 - less)

    def covariance(self, mean: Array, variance: Array) -> Array:
        """Of all numbers given the averages, too, ``(..., n, n)``."""
        _, precision = self._pull_and_precision(mean, variance)
        together = variance[..., None, :] * self.shares
        return variance[..., None] * np.eye(mean.shape[-1]) - np.swapaxes(together, -1, -2) @ (
            precision[..., None] * together
        )

    def change_weighted_sum(
        self, weights: Array, mean: Array, variance: Array, total: Array, around: Array
    ) -> tuple[Array, Array]:
        """Mean and variance of a sum of the numbers with these weights, ``total`` and ``around`` without averages."""
        pull, precision = self._pull_and_precision(mean, variance)
        shared = variance @ (weights * self.shares).T
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.where(
                around > 0, _positive_part(1 - np.sum(np.square(shared) * precision, axis=-1) / around), 0.0
            )
        return total + np.sum(shared * pull, axis=-1), around * left

    def condition_draws(self, draws: Array, mean: Array, variance: Array, rng: np.random.Generator) -> Array:
        """Draws of the numbers as they are given the averages, too (Matheron's rule)."""
        _, precision = self._pull_and_precision(mean, variance)
        noise = np.sqrt(self.error) * rng.standard_normal((*draws.shape[:-1], len(self.values)))
        residual = self.values - draws @ self.shares.T - noise
        return draws + variance * ((precision * residual) @ self.shares)

    def _pull_and_precision(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Residual of each average over its variance, and one over it, ``(..., G)``."""
        precision = 1 / (variance @ np.square(self.shares).T + self.error)
        return precision * (self.values - mean @ self.shares.T), precision


def _positive_part(share: Array) -> Array:
    """A share of a variance that is left; what is no more than rounding is nothing."""
    return np.where(share > ROUNDING, share, 0.0)


@dataclass(frozen=True, eq=False)
class NormalRecords:
    """Normal numbers behind L releases with normal noise, at S points of the parameters."""

    mean: Array
    variance: Array
    """Of the records given the parameters, ``(L, S, n)``, or ``(L, S, 1)`` if they are alike."""
    centre: Array
    noise: Array
    """Released values and the variances of their noise, ``(L, n)``."""
    parameter: Callable[[Term], Array]
    """A parameter at the points: ``(L, S)``, or ``(L, S, m)`` for one of several entries."""
    widths: Mapping[str, int]
    """Number of entries of each parameter; 0 for a number."""
    rows: tuple[int, ...] | None = None
    """The records whose moments are held, in this order, if not all are."""
    averages: ReleasedAverages | None = None
    """What was released besides, where there is one release."""

    def moments(self, target: BaseTarget) -> tuple[Array, Array] | None:
        """Mean and variance ``(L, S)`` of a linear target given the parameters; None if it is not linear."""
        form = target.linear(1, True, self.widths) if target.asks_only(*LINEAR) else None
        if form is None or not form.number:
            return None
        weights, n = form.matrix[0], self.centre.shape[1]
        if form.plain and form.terms[0].kind is Kind.RECORD and self.averages is None:
            row = check_index(ROW, form.terms[0].row, n)
            return condition_on_noisy_value(
                *self._moments_of_record(row), self.centre[:, None, row], self.noise[:, None, row]
            )
        if form.plain and form.terms[0].kind is Kind.NEW:
            return self._moments_of_record(0)
        total, fresh = np.full(self.mean.shape[:2], float(form.constant[0])), 0.0
        rows, place = np.zeros(n), 0
        for term in form.terms:
            size = 1
            if term.kind is Kind.PARAMETER:
                own = self.parameter(term)
                size = 1 if own.ndim == 2 else own.shape[2]
                total += own * weights[place] if own.ndim == 2 else own @ weights[place : place + size]
            elif term.kind is Kind.NEW:
                fresh += weights[place]
            elif term.kind is Kind.AVERAGE:
                rows += weights[place] / n
            else:
                rows[check_index(ROW, term.row, n)] += weights[place]
            place += size
        mean, variance = self._moments_of_record(0)
        total += fresh * mean
        around = fresh**2 * variance if fresh else np.zeros(total.shape)
        own = np.zeros(total.shape)
        self._add_weighted_moments(rows, total, own)
        if self.averages is not None and rows.any():
            total, own = self.averages.change_weighted_sum(rows, *self._moments_by_own_release, total, own)
        return total, around + own

    def each_row(self) -> tuple[Array, Array]:
        """Mean and variance of every record given the parameters, ``(L, S, n)``."""
        return condition_on_noisy_value(self.mean, self.variance, self.centre[:, None], self.noise[:, None])

    @cached_property
    def _moments_by_own_release(self) -> tuple[Array, Array]:
        """Mean and variance of every record given the parameters and its own release alone, ``(L, S, n)``."""
        mean, variance = np.broadcast_arrays(*self.each_row())
        return mean, variance

    def _moments_of_record(self, row: int) -> tuple[Array, Array]:
        """Mean and variance of one record given the parameters alone."""
        row = row if self.rows is None else self.rows.index(row)
        mean, variance = (a[..., row if a.shape[2] > 1 else 0] for a in (self.mean, self.variance))
        return mean, variance

    def _add_weighted_moments(self, weights: Array, total_mean: Array, total_variance: Array) -> None:
        """Add a weighted sum of records to means and variances, in place.

        Records of one law with the same noise have the same gain: they go together.
        """
        used = np.flatnonzero(weights)
        if max(self.mean.shape[2], self.variance.shape[2]) > 1:
            for row in used.tolist():
                m, v = condition_on_noisy_value(
                    *self._moments_of_record(row), self.centre[:, None, row], self.noise[:, None, row]
                )
                total_mean += weights[row] * m
                total_variance += weights[row] ** 2 * v
            return
        mean, variance = self._moments_of_record(0)
        for i, noise in enumerate(self.noise):
            for size in np.unique(noise[used]):
                mine = used[noise[used] == size]
                with np.errstate(invalid="ignore"):
                    gain = np.zeros(1) if np.isinf(size) else variance[i] / (variance[i] + size) if size else np.ones(1)
                known = 0.0 if np.isinf(size) else float(weights[mine] @ self.centre[i, mine])
                total_mean[i] += weights[mine].sum() * mean[i] * (1 - gain) + gain * known
                total_variance[i] += np.sum(weights[mine] ** 2) * variance[i] * (1 - gain)


def mixture_curve(weights: Array, means: Array, variances: Array) -> Posterior:
    """A mixture of normal numbers as a curve on a grid that is fine in its middle.

    Its entropy is far cheaper than that of thousands of parts. The mixture itself if the grid is too coarse.
    """
    used = weights > 1e-17
    weights, means = weights[used] / weights[used].sum(), means[used]
    sd = np.sqrt(np.broadcast_to(variances, used.shape)[used])
    middle = float(weights @ means)
    scale = float(np.sqrt(weights @ np.minimum(sd, np.median(sd)) ** 2))
    far = float(np.max(np.abs(means - middle) + 9.0 * sd)) / scale
    best: Curve | None = None
    for points in (401, 1601, 6401):
        x = middle + scale * np.sinh(np.linspace(-1, 1, points) * np.arcsinh(far))
        step = max(1, BLOCK // len(sd))
        parts = (np.exp(-0.5 * ((x[i : i + step, None] - means) / sd) ** 2) for i in range(0, points, step))
        # Heights that matter are far from the least numbers there are.
        logs = np.log(np.maximum(np.concatenate([part @ (weights / sd) for part in parts]), 1e-300))
        inside = np.flatnonzero(logs > logs.max() - 38)
        try:
            curve = Curve(x[inside[0] : inside[-1] + 1], logs[inside[0] : inside[-1] + 1])
        except InputError:
            continue
        best = curve if best is None or curve.error < best.error else best
        if best.error == 0:
            break
    return best if best is not None and best.error <= ROUGH else Mixture(Gaussian.scalar(means, sd**2), weights)
