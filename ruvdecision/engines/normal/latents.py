"""What a release tells about the latents: the population mean and any noise drawn once for the whole file.

Such noise moves every record as the mean does, so that blocks tell of the sum of the two only. The sum is updated block
by block, and how it splits into mean and noise is known beforehand: both steps are sums of squares and lose no digits.
Only after a mask that combines records in its own way does a later common draw enter differently; then the latents are
solved jointly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...channels.layout import BlockShape
from ...channels.linear import LinearChannel
from ...numerics.semidefinite import (
    combined_covariance,
    from_blocks,
    kalman_covariance,
    parallel_sum,
    right_divide,
    signal_noise_gains,
    symmetric,
)
from ...protocols import Array
from ...targets import Kind, Term

Informative: TypeAlias = Sequence[tuple[Any, Any]]
"""Solved shapes of block (`conditioning`) that show something, with their layout."""
Place = tuple[int, int, int, int]
"""Shape, copy, cell and row of a record."""


def latent_law(
    prior_covariance: Array | None,
    common: Sequence[Array],
    blocks: Sequence[Any],
    counts: Sequence[Any],
    k: int,
    draws: Array | None = None,
) -> tuple[Array, NDArray[np.bool_]]:
    """Cov(h | release), and which latents the release leaves entirely open under a flat prior.

    ``blocks`` are solved shapes of block, ``counts`` their shapes with how many there are of each. ``draws`` is the
    joint covariance of the common draws where releases tell exactly of them.
    """
    informative = [(s, c) for s, c in zip(blocks, counts, strict=True) if len(s.observed)]
    loadings = [s.loading for s, _ in informative]
    if not all(np.array_equal(v[..., :k], v[..., i : i + k]) for v in loadings for i in range(k, v.shape[-1], k)):
        return _joint_law(prior_covariance, common_covariance(common, k) if draws is None else draws, informative, k)
    if prior_covariance is None:
        total, unidentified = _flat_prior_law(informative, k)
        # Nothing is known of the mean beforehand, so that nothing is learnt about the noise: the mean is the sum less
        # the noise.
        cov = [[total + sum(common, np.zeros((1, k, k))), *(-c for c in common)]]
        cov += [[-c, *(c if i == j else np.zeros((1, k, k)) for j in range(len(common)))] for i, c in enumerate(common)]
        return from_blocks(cov), np.concatenate(
            [unidentified, np.zeros(unidentified.shape[:1] + (k * len(common),), dtype=bool)], axis=-1
        )
    parts = [prior_covariance[None], *common]
    total = sum(parts[1:], parts[0])
    for solved, shape in informative:
        total = _covariance_after_blocks(total, solved, shape, k)
    known = np.zeros((1, k * len(parts)), dtype=bool)
    if not common:
        return total, known
    rests = [sum((p for j, p in enumerate(parts) if j != i), np.zeros((1, k, k))) for i in range(len(parts))]
    splits = [signal_noise_gains(p, rest) for p, rest in zip(parts, rests, strict=True)]
    cov = []
    for i, (own, _) in enumerate(splits):
        before = [parallel_sum(p, rests[i], splits[i]) if i == j else -own @ p for j, p in enumerate(parts)]
        cov.append([b + own @ total @ np.swapaxes(splits[j][0], -1, -2) for j, b in enumerate(before)])
    return symmetric(from_blocks(cov)), known


def _covariance_after_blocks(prior: Array, solved: Any, shape: BlockShape, k: int) -> Array:
    """Covariance of the sum after the blocks of one shape."""
    if solved.mean_observation is None:
        information = shape.count * (solved.weight[..., :k, :] @ solved.loading[..., :k])
        return symmetric(np.asarray(np.linalg.solve(np.eye(k) + prior @ symmetric(information), prior)))
    loading, total = solved.mean_observation
    return kalman_covariance(prior, loading, total / float(shape.count))


def _flat_prior_law(informative: Informative, k: int) -> tuple[Array, NDArray[np.bool_]]:
    """Covariance of the sum under a flat prior, and which columns nothing was said about."""
    information = sum(
        (shape.count * (s.weight[..., :k, :] @ s.loading[..., :k]) for s, shape in informative), np.zeros((1, k, k))
    )
    return _invert_information(symmetric(information), np.diagonal(information, axis1=-2, axis2=-1))


def _invert_information(information: Array, scale: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Inverse of an information matrix, and the columns in which it is nothing but the rounding error of this scale."""
    unidentified = ~(np.diagonal(information, axis1=-2, axis2=-1) > 1e-13 * scale)
    keep = np.where(unidentified, 0.0, 1.0)
    both = keep[:, :, None] * keep[:, None, :]
    eye = np.eye(information.shape[-1])
    return symmetric(right_divide(eye[None], information * both + (1.0 - keep)[:, :, None] * eye)) * both, unidentified


def common_covariance(common: Sequence[Array], k: int) -> Array:
    """Joint covariance of the common draws, which are independent; shape (masks or 1, draws * k, draws * k)."""
    noise = np.zeros((*np.broadcast_shapes((1,), *(c.shape[:1] for c in common)), len(common) * k, len(common) * k))
    for i, covariance in enumerate(common):
        noise[:, i * k : i * k + k, i * k : i * k + k] = covariance
    return noise


def _joint_law(
    prior_covariance: Array | None, noise: Array, informative: Informative, k: int
) -> tuple[Array, NDArray[np.bool_]]:
    """The latents together, where a common draw enters unlike the mean; ``noise`` is the draws' joint covariance."""
    d = k + noise.shape[-1]
    information = symmetric(
        sum((shape.count * (s.weight @ s.loading) for s, shape in informative), np.zeros((1, d, d)))
    )
    lead = np.broadcast_shapes(information.shape[:1], noise.shape[:1])
    if prior_covariance is not None:
        prior = np.zeros(lead + (d, d))
        prior[:, :k, :k] = prior_covariance
        prior[:, k:, k:] = noise
        return symmetric(np.asarray(np.linalg.solve(np.eye(d) + prior @ information, prior))), np.zeros(
            (1, d), dtype=bool
        )
    # Flat prior: integrate the common noise out first, then invert what is known about the mean.
    a, b, c = information[:, :k, :k], information[:, :k, k:], information[:, k:, k:]
    mixed = np.asarray(np.linalg.solve(np.eye(d - k) + noise @ c, noise))
    mean, unidentified = _invert_information(
        symmetric(a - b @ mixed @ np.swapaxes(b, -1, -2)), np.diagonal(a, axis1=-2, axis2=-1)
    )
    cross = -mean @ b @ mixed
    rest = mixed + np.swapaxes(mixed, -1, -2) @ np.swapaxes(b, -1, -2) @ mean @ b @ mixed
    cov = from_blocks([[mean, cross], [np.swapaxes(cross, -1, -2), rest]])
    return cov, np.concatenate([unidentified, np.zeros(unidentified.shape[:1] + (d - k,), dtype=bool)], axis=-1)


# -- records that are all treated alike ----------------------------------------------------------------


class ExchangeableLaw:
    """Targets of a file in which every record, or every group's mean, got the same noise.

    Then the file splits into its average, the distances of the groups from it and those of the records within their
    groups, which the release shows apart from each other. Given the release, with S, F and E the covariances of a
    record, of the population mean and of the noise, and C that of noise common to all records,

        Cov(average) = (F + S/n) : (E/n + C),    Cov(mean) = F : (S/n + E/n + C),    Cov(distance) = S : E,

    where X : Y = X (X + Y)^-1 Y. A record is a sum of the three: only variances are added, so that a nearly singular S
    costs no digits.

    The covariances are those of a whole family of masks at once.
    """

    def __init__(
        self, channel: LinearChannel, record_covariance: Array, prior_covariance: Array | None, first: Any
    ) -> None:
        n, block = channel.layout.n, channel.blocks[0]
        self.channel, self.record_covariance, self.between, self.n = channel, record_covariance, first.covariance, n
        noise = sum(channel.common, np.zeros((1, *record_covariance.shape)))
        if block.plain and block.released.all():
            noise = noise + block.r / n
            if prior_covariance is None:
                self.average, self.mean, self.rest = noise, noise + record_covariance / n, record_covariance[None] / n
                self.split = (np.eye(len(record_covariance))[None], np.zeros((1, *record_covariance.shape)))
                return
            self.average = parallel_sum(prior_covariance + record_covariance / n, noise)
            self.mean = parallel_sum(prior_covariance[None], record_covariance / n + noise)
        else:
            assert prior_covariance is not None
            h, own = block.b[:, first.observed], block.r[:, first.observed[:, None], first.observed] / n
            turned = np.swapaxes(h, -1, -2)
            self.average = kalman_covariance(
                prior_covariance[None] + record_covariance / n, h, own + h @ noise @ turned
            )
            self.mean = kalman_covariance(prior_covariance[None], h, own + h @ (noise + record_covariance / n) @ turned)
        # The mean is its share of the average, and a rest that the release has nothing to do with.
        self.split = signal_noise_gains(prior_covariance[None], record_covariance[None] / n)
        self.rest = parallel_sum(prior_covariance[None], record_covariance[None] / n, self.split)

    @classmethod
    def of(
        cls, channel: LinearChannel, record_covariance: Array, prior_covariance: Array | None, blocks: Sequence[Any]
    ) -> ExchangeableLaw | None:
        """The law, or None where records are treated differently."""
        first = channel.blocks[0]
        if channel.width > channel.columns:
            return None
        if prior_covariance is None and not (first.plain and first.released.all()):
            return None
        for block, solved in zip(channel.blocks, blocks, strict=True):
            pairs = ((block.r, first.r), (block.b, first.b), (block.released, first.released))
            alike = all(x is y or np.array_equal(x, y) for x, y in pairs)
            if len(block.shape.sizes) > 1 or solved.mean_observation is None or not alike:
                return None
        return cls(channel, record_covariance, prior_covariance, blocks[0])

    def covariance(
        self,
        parts: Sequence[Term],
        matrix: Array | None,
        place: Callable[[Term], Place],
        contrast: Callable[[int, int], Array],
    ) -> Array:
        """Joint covariance of basic targets, or of linear functions of them.

        ``place`` gives shape, copy, cell and row of a record, ``contrast`` the covariance of a distance within a group.
        """
        k, m = len(self.record_covariance), len(parts)
        coefficients = np.eye(m * k) if matrix is None else matrix
        is_mean = np.array([p.is_outside_file for p in parts])
        of_average, of_mean = (
            _gather_coefficients(coefficients, ~is_mean, k),
            _gather_coefficients(coefficients, is_mean, k),
        )
        with_average, with_mean = (np.any(x, axis=-1) for x in (of_average, of_mean))
        if np.any(with_average & with_mean):
            share, complement = self.split
            # A difference from the mean takes the other share: where the two cancel, nothing may be left behind.
            opposed = ~np.any(_gather_coefficients(coefficients, np.ones(m, dtype=bool), k), axis=-1)
            on = np.where(opposed[:, None], -of_mean @ complement, of_average + of_mean @ share)
            total = on @ self.average @ np.swapaxes(on, -1, -2) + of_mean @ self.rest @ of_mean.T
        else:
            total = of_average @ self.average @ of_average.T + of_mean @ self.mean @ of_mean.T
            if with_average.any() and with_mean.any():
                across = of_mean @ self.split[0] @ self.average @ of_average.T
                total = total + across + np.swapaxes(across, -1, -2)
        distances = self._distances_from_average(parts, place, contrast)
        return np.asarray(total + (distances if matrix is None else combined_covariance(matrix, distances)))

    def _distances_from_average(
        self, parts: Sequence[Term], place: Callable[[Term], Place], contrast: Callable[[int, int], Array]
    ) -> Array:
        """What parts have beside the average or the mean: distances from it, and what is new in a new record."""
        places = [None if p.kind is not Kind.RECORD else place(p) for p in parts]

        def pair(p: Term, one: Place | None, q: Term, two: Place | None) -> Array:
            if one is None or two is None:
                return self.record_covariance[None] * float(p.kind is Kind.NEW and q.kind is Kind.NEW)
            together, size = one[:2] == two[:2], float(self.channel.blocks[one[0]].shape.sizes[0])
            here = (float(together) / size - 1.0 / self.n) * self.between
            if together and size > 1:
                here = here + (float(one[3] == two[3]) - 1.0 / size) * contrast(one[0], one[2])
            return here

        each = list(zip(parts, places, strict=True))
        return from_blocks([[pair(p, one, q, two) for q, two in each] for p, one in each])


def _gather_coefficients(coefficients: Array, chosen: NDArray[np.bool_], k: int) -> Array:
    """Sum of the coefficients of the chosen parts; what cancels up to rounding is zero."""
    blocks = coefficients.reshape(len(coefficients), -1, k)[:, chosen]
    total = blocks.sum(axis=1)
    return np.where(np.abs(total) < 1e-13 * np.abs(blocks).sum(axis=1), 0.0, total)
