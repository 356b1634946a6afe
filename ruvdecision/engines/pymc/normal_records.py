"""Normal records behind normal noise: closed forms given the parameters.

The release is normal too, and its moments are sums; so are those of linear functions of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...channels.likelihood import ReleaseLikelihood
from ...checks import check_index
from ...errors import InputError
from ...posteriors import Curve, Gaussian, Mixture
from ...protocols import Array, Posterior
from ...targets import BaseTarget, Kind, Term
from .marginal_base import MarginalLikelihood
from .model import CompiledModel

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from .marginal_base import Graphs

LINEAR = (Kind.RECORD, Kind.NEW, Kind.AVERAGE, Kind.PARAMETER)
"""What a target may be a linear function of."""
ROW = "The row of a Record"
ROUGH = 1e-5
"""Error of a curve that is better than to ask thousands of parts."""
ROUNDING_OF_VARIANCE = 1e-13
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
    after = mean + gain * (np.where(np.isinf(noise), 0.0, centre) - mean)
    # What is released as it is is known: not to rounding, which would differ with the parameters.
    return np.where(gain == 1, centre, after), variance * (1 - gain)


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
    return np.where(share > ROUNDING_OF_VARIANCE, share, 0.0)


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

    def moments_of_target(self, target: BaseTarget) -> tuple[Array, Array] | None:
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

    def moments_of_each_row(self) -> tuple[Array, Array]:
        """Mean and variance of every record given the parameters, ``(L, S, n)``."""
        return condition_on_noisy_value(self.mean, self.variance, self.centre[:, None], self.noise[:, None])

    @cached_property
    def _moments_by_own_release(self) -> tuple[Array, Array]:
        """Mean and variance of every record given the parameters and its own release alone, ``(L, S, n)``."""
        mean, variance = np.broadcast_arrays(*self.moments_of_each_row())
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


# -- the likelihood of a release ---------------------------------------------------------------------------


class NormalMarginal(MarginalLikelihood):
    """Normal records, normal noise, entry by entry: variances add."""

    name = "closed form"
    axes: ClassVar[Mapping[str, int]] = {"centre": 2, "variance": 2, "weight": 2}

    @cached_property
    def data(self) -> dict[str, Array]:
        centre, variance = normal_entries(self.observed)
        weight = np.isfinite(variance)
        return {
            "centre": np.where(weight, centre, 0.0),
            "variance": np.where(weight, variance, 1.0),
            "weight": weight.astype(float),
        }

    @staticmethod
    def graph(model: CompiledModel, data: Graphs) -> TensorVariable:
        import pytensor.tensor as pt

        # Moments that broadcast against an n by k matrix of entries.
        mean, variance = (g[:, None] if g.ndim and model.scalar else g for g in model.normal_graph())
        total = variance + data["variance"]
        return -0.5 * pt.sum(data["weight"] * ((data["centre"] - mean) ** 2 / total + pt.log(2 * np.pi * total)))


class AveragesMarginal(NormalMarginal):
    """The same with averages of groups of records besides: normal too, given what is told of each entry."""

    name = "closed form, averages"
    axes: ClassVar[Mapping[str, int]] = {**NormalMarginal.axes, "shares": 3, "average": 2, "error": 2}

    @cached_property
    def data(self) -> dict[str, Array]:
        each = [released_averages(self.observed, j) for j in range(self.observed.k)]
        most = max(len(a.values) for a in each)
        shares, average, error = (
            np.zeros((self.observed.k, most, self.observed.n)),
            *np.zeros((2, self.observed.k, most)),
        )
        for j, own in enumerate(each):
            groups = slice(len(own.values))
            shares[j, groups], average[j, groups], error[j, groups] = own.shares, own.values, own.error
        return {**super().data, "shares": shares, "average": average, "error": error}

    @staticmethod
    def graph(model: CompiledModel, data: Graphs) -> TensorVariable:
        import pytensor.tensor as pt

        mean, variance = (g[:, None] if g.ndim and model.scalar else g for g in model.normal_graph())
        gain = data["weight"] * variance / (variance + data["variance"])
        after, left = mean + gain * (data["centre"] - mean), variance * (1 - gain)
        residual = data["average"] - pt.sum(data["shares"] * after.T[:, None], axis=2)
        total = pt.sum(data["shares"] ** 2 * left.T[:, None], axis=2) + data["error"]
        # A column with fewer groups than another is filled up: nobody is in the rest.
        there = pt.any(data["shares"] > 0, axis=2)
        total = pt.switch(there, total, 1.0)
        logs = pt.sum(there * (residual**2 / total + pt.log(2 * np.pi * total)))
        return NormalMarginal.graph(model, data) - 0.5 * logs


class RowsMarginal(MarginalLikelihood):
    """Normal rows of several variables, released whole with the same normal noise: covariances add."""

    name = "closed form, rows"
    axes: ClassVar[Mapping[str, int]] = {"centre": 2, "covariance": 2, "weight": 1}

    @cached_property
    def data(self) -> dict[str, Array]:
        centre, covariance, released = normal_rows(self.observed)
        return {"centre": centre, "covariance": covariance[0], "weight": released[:, 0]}

    @staticmethod
    def graph(model: CompiledModel, data: Graphs) -> TensorVariable:
        import pytensor.tensor as pt

        mean, covariance = _one_row(model)
        root = pt.linalg.cholesky(covariance + data["covariance"])
        solved = pt.linalg.solve_triangular(root, (data["centre"] - mean).T, lower=True)
        logs = pt.sum(pt.log(pt.diag(root))) + 0.5 * model.k * np.log(2 * np.pi)
        return -pt.sum(data["weight"] * (0.5 * pt.sum(solved**2, axis=0) + logs))


class UnevenRowsMarginal(MarginalLikelihood):
    """Normal rows with noise or released entries that differ from row to row; entries that are missing are left out."""

    name = "closed form, uneven rows"
    axes: ClassVar[Mapping[str, int]] = {"centre": 2, "covariance": 3, "weight": 2}

    @cached_property
    def data(self) -> dict[str, Array]:
        centre, covariance, released = normal_rows(self.observed)
        covariance = np.broadcast_to(covariance, (len(centre), *covariance.shape[1:]))
        return {"centre": centre, "covariance": covariance, "weight": released}

    @staticmethod
    def graph(model: CompiledModel, data: Graphs) -> TensorVariable:
        import pytensor.tensor as pt

        mean, covariance = model.normal_graph()
        # One for all rows, whatever their number.
        mean = mean[0] if mean.ndim == 2 and 1 in (model.n, mean.type.shape[0]) else mean
        covariance = covariance[0] if covariance.ndim == 3 and 1 in (model.n, covariance.type.shape[0]) else covariance
        released = data["weight"]
        # An entry that is missing has variance one and no residual, so that it counts for nothing.
        both = released[:, :, None] * released[:, None, :]
        own = covariance if covariance.ndim == 3 else covariance[None]
        total = both * (data["covariance"] + own) + (1 - released)[:, :, None] * pt.eye(model.k)[None]
        root = pt.linalg.cholesky(total)
        residual = released * (data["centre"] - mean)
        solved = pt.linalg.solve_triangular(root, residual[:, :, None], lower=True, b_ndim=2)
        logs = pt.sum(pt.log(pt.diagonal(root, axis1=-2, axis2=-1)))
        return -0.5 * pt.sum(solved**2) - logs - 0.5 * np.log(2 * np.pi) * pt.sum(released)


def _one_row(model: CompiledModel) -> tuple[TensorVariable, TensorVariable]:
    """Mean and covariance that all rows share."""
    mean, covariance = model.normal_graph()
    return mean if mean.ndim == 1 else mean[0], covariance if covariance.ndim == 2 else covariance[0]


def normal_entries(observed: ReleaseLikelihood) -> tuple[Array, Array]:
    """Released values and variances of their normal noise, ``(n, k)`` each: 0 is known, infinite is not released."""
    pairs = [column.normal for column in observed.columns]
    centre, variance = (np.stack([pair[i] for pair in pairs], axis=1) for i in (0, 1))  # type: ignore[index]
    return centre, variance


def released_averages(observed: ReleaseLikelihood, column: int) -> ReleasedAverages:
    """The averages of a column that tell more than its entries do."""
    own = observed.averages
    assert own is not None
    rows = np.arange(observed.n)[own.members[:, column] & (own.label >= 0)]
    shares = np.zeros((len(own.values), observed.n))
    shares[own.label[rows], rows] = 1 / own.sizes[own.label[rows], column]
    used = np.flatnonzero(~np.isnan(own.values[:, column]) & shares.any(axis=1))
    return ReleasedAverages(shares[used], own.values[used, column], own.variance[used, column])


def normal_rows(observed: ReleaseLikelihood) -> tuple[Array, Array, Array]:
    """Released rows, covariance of their noise (one for all where it is the same), and which entries were released."""
    centre, variance = normal_entries(observed)
    released = np.isfinite(variance)
    covariance = np.where(released, variance, 0.0)[:, :, None] * np.eye(observed.k)
    if observed.joint is not None:
        covariance = covariance + observed.joint.covariance
        centre = np.where(np.isnan(observed.joint.centre), centre, observed.joint.centre)
        released = released | ~np.isnan(observed.joint.centre)
        covariance = covariance * (released[:, :, None] & released[:, None, :])
    if len(covariance) > 1 and (covariance == covariance[:1]).all():
        covariance = covariance[:1]
    return np.where(released, centre, 0.0), covariance, released.astype(float)
