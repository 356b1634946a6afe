"""Normal records behind normal noise: the release is normal too, and its moments are sums."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...channels.likelihood import ReleaseLikelihood
from ...protocols import Array
from .marginal_base import MarginalLikelihood
from .model import CompiledModel
from .normal_records import ReleasedAverages

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from .marginal_base import Graphs


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
