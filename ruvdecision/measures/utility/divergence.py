"""Broad utility: Kullback-Leibler divergence and information loss between the distributions of the two files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import linalg, special

from ...checks import check_choice, check_covariance, check_integer, check_number, check_vector, checked
from ...errors import InputError, UnsupportedError
from ...numerics.quadrature import quad_between
from ...protocols import Array
from .. import frames
from ..base import Measured, SummedMeasure, WeightedMeasure
from ..frames import Ints, Names, as_names, numeric
from ..missing import IMPUTED
from ..sums import ColumnMoments, checked_covariance, is_singular, moments_of, nonsingular_covariance

UNDER = ("original", "released", "both")
CELLS = {1: 4096, 2: 512, 3: 96}
"""Most grid points per axis of the kernel density, by dimension."""
FLOOR = 1e-300
_State: TypeAlias = tuple[Array, Array, float, Array | None]
"""The original in white coordinates, its mean and the whitening matrix, the bandwidth and the weights."""


@dataclass(frozen=True, repr=False)
class NormalKL(SummedMeasure, WeightedMeasure):
    """KL: the Kullback-Leibler divergence between normal laws with the moments of the two files, in nats.

    Only means and covariances (divided by n) count; assumes that these say all (normal data). Karr et al. (2006), eq.
    15. Their text writes d(released || original), but their tables hold d(original || released), which is the default
    here.

    Parameters
    ----------
    under : "original", "released" or "both"
        Under which law the log ratio is averaged: d(original || released), d(released || original), or their sum. All
        are in ``parts``.
    columns : names, optional
        Numeric columns.

    Notes
    -----
    A release with a singular covariance is infinitely far away. An original with one is an error: drop columns.

    Examples
    --------
    >>> value = NormalKL()([-1, 0, 1], [-2, 1, 4])
    >>> round(value, 6), round(value.parts["released || original"], 6)
    (0.737501, 3.651388)
    """

    under: str = checked("original", check_choice, options=UNDER)
    columns: Names = checked(None, as_names)

    label: ClassVar[str] = "KL"
    reference: ClassVar[str] = "Karr, Kohnen, Oganian, Reiter and Sanil (2006), eqs. 6 and 15"
    missing_choices: ClassVar[tuple[str, ...]] = IMPUTED

    def begin(self, original: pd.DataFrame, weights: Array | None = None) -> ColumnMoments:
        moments = moments_of(self.name, original, "the original", weights)
        nonsingular_covariance(self.name, moments)
        return moments

    def sums_of(self, piece: pd.DataFrame, plan: None, which: str, weights: Array | None = None) -> ColumnMoments:
        return moments_of(self.name, piece, which, weights)

    def compare_sums(self, original: ColumnMoments, released: ColumnMoments, plan: None) -> Measured:
        first = original.mean, nonsingular_covariance(self.name, original)
        second = released.mean, checked_covariance(self.name, "the release", released)
        if is_singular(second[1]):
            return _measured_divergence(self.under, np.inf, np.inf)
        return _measured_divergence(self.under, _normal_kl(*first, *second), _normal_kl(*second, *first))


@dataclass(frozen=True, repr=False)
class _Density(WeightedMeasure):
    """Kernel densities of both files on one grid, for one to three variables."""

    columns_by_name: ClassVar[bool] = True  # the grid lies along axes that are found one after the other
    missing_choices: ClassVar[tuple[str, ...]] = IMPUTED

    columns: Names = checked(None, as_names)
    bandwidth: float | None = checked(None, check_number, low=0, open_low=True)

    def begin(self, original: pd.DataFrame, weights: Array | None = None) -> _State:
        values = numeric(self.name, original)
        p = values.shape[1]
        if p > 3:
            raise UnsupportedError(
                f"{self.name} estimates densities of one to three variables, not of {p}",
                do="Choose columns=[...], or use NormalKL, MCM or Propensity",
            )
        moments = ColumnMoments.of(values, original.columns, weights)
        cov = nonsingular_covariance(self.name, moments)
        white = np.linalg.inv(np.linalg.cholesky(cov)).T
        # Scott's rule in units of the original's spread; one bandwidth for both files, so that equal files agree
        # exactly.
        width = len(values) ** (-1 / (p + 4)) if self.bandwidth is None else self.bandwidth
        mean = values.mean(axis=0) if weights is None else moments.mean
        return (values - mean) @ white, np.vstack([mean, white]), float(width), weights

    def densities(self, state: _State, released: pd.DataFrame, weights: Array | None) -> tuple[Array, Array, float]:
        """Both densities on a grid as probabilities of its cells, and the bandwidth that was used."""
        first, change, width, own = state
        second = (numeric(self.name, released, "the release") - change[0]) @ change[1:]
        p = first.shape[1]
        low = np.minimum(first.min(axis=0), second.min(axis=0)) - 6 * width
        high = np.maximum(first.max(axis=0), second.max(axis=0)) + 6 * width
        with np.errstate(over="ignore", divide="ignore"):  # a kernel may be finer than any grid
            size = np.minimum(np.ceil((high - low) / (width / 3)) + 1, CELLS[p]).astype(int)
        step = (high - low) / (size - 1)
        grids = []
        for points, often in ((first, own), (second, weights)):
            grid = _bin_linearly((points - low) / step, size, often)
            for axis in range(p):
                # Outliers may stretch the grid: the kernel is then never finer than the grid. Sharing the mass of a
                # point between two nodes has spread it by a variance of 1/6 (on average) already.
                scale = np.sqrt(max(width / step[axis], 1.0) ** 2 - 1 / 6)
                lag = np.arange(size[axis])
                kernel = np.exp(-0.5 * ((lag[:, None] - lag) / scale) ** 2)
                # A plain product keeps all terms positive, so far tails have their digits; a Fourier transform would
                # not.
                grid = np.moveaxis(np.tensordot(kernel, grid, axes=(1, axis)), 0, axis)
            grids.append(grid / grid.sum())
        return grids[0], grids[1], max(width, float(step.max()))


@dataclass(frozen=True, repr=False)
class DensityKL(_Density):
    """The Kullback-Leibler divergence between kernel densities of the two files, one to three variables, in nats.

    Gaussian kernels.

    Parameters
    ----------
    under : "original", "released" or "both"
        As for `NormalKL`.
    columns : names, optional
        One to three numeric columns.
    bandwidth : float, optional
        Kernel width in units of the original's spread (whitened); n^(-1/(p+4)), Scott's rule, unless given.

    Notes
    -----
    Smoothing pulls both densities together, so the value is below that of the true densities for large files, and has
    an upward bias from sampling noise. Densities below 1e-300 count as 1e-300. Records are counted on a grid, so time
    grows with n.

    Examples
    --------
    >>> DensityKL()([1.0, 2.0, 4.0], [1.0, 2.0, 4.0])
    0.0
    """

    under: str = checked("original", check_choice, options=UNDER)

    label: ClassVar[str] = "density KL"
    reference: ClassVar[str] = "Karr, Kohnen, Oganian, Reiter and Sanil (2006), section 2.3; Scott (1992)"

    def compare(self, state: _State, released: pd.DataFrame, weights: Array | None = None) -> Measured:
        f, g, width = self.densities(state, released, weights)
        ratio = np.log(np.maximum(f, FLOOR)) - np.log(np.maximum(g, FLOOR))
        forward, backward = max(float((f * ratio).sum()), 0.0), max(float(-(g * ratio).sum()), 0.0)
        return _measured_divergence(self.under, forward, backward, bandwidth=width)


@dataclass(frozen=True, repr=False)
class InformationLoss(_Density):
    """Half the integral of |f - g|: f the original's density, g that of the release, or what can be reconstructed.

    0 for equal files, 1 for files that have nothing in common. Two numbers go by this name:

    - Without ``noise_sd``: g is the kernel density of the released values as they are, of one to three variables. It
      counts what a user loses who takes the release for the records.
    - With ``noise_sd``: Agrawal and Aggarwal's (2001) own measure. A user who knows the law of the added noise
      reconstructs the density of the records from the release, one variable, by EM on a histogram (Agrawal and
      Srikant's iterated Bayes rule, put right so that it converges); g is what he finds, f the original's histogram.
      ``parts["released"]`` has the first number, for comparison.

    Parameters
    ----------
    columns, bandwidth
        As for `DensityKL`.
    noise_sd : float, optional
        Standard deviation of the noise that was added.
    noise : "normal" or "uniform"
        Its law.
    cells : int
        Cells of the histogram, over the original's range.

    Examples
    --------
    >>> InformationLoss()([1.0, 2.0, 4.0], [1.0, 2.0, 4.0])
    0.0
    >>> rng = np.random.default_rng(1)
    >>> x = rng.normal(size=4000)
    >>> value = InformationLoss(noise_sd=1.0, cells=20)(x, x + rng.normal(size=4000))
    >>> bool(value < value.parts["released"])
    True
    """

    noise_sd: float | None = checked(None, check_number, low=0, open_low=True)
    noise: str = checked("normal", check_choice, options=("normal", "uniform"))
    cells: int = checked(50, check_integer, low=2, high=2000)

    label: ClassVar[str] = "information loss"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Agrawal and Aggarwal (2001), Agrawal and Srikant (2000); Winkler (2004)"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_unused(self.noise_sd is not None, "the reconstruction", "noise_sd=1.0", "noise", "cells")

    def begin(self, original: pd.DataFrame, weights: Array | None = None) -> _State:
        if self.noise_sd is not None and original.shape[1] != 1:
            what = f"{self.name} reconstructs one variable"
            raise UnsupportedError(what, f"{original.shape[1]} columns", 'Choose it with columns="income"')
        return super().begin(original, weights)

    def compare(self, state: _State, released: pd.DataFrame, weights: Array | None = None) -> Measured:
        f, g, width = self.densities(state, released, weights)
        plain = float(0.5 * np.abs(f - g).sum())
        if self.noise_sd is None:
            return Measured(plain, parts={"bandwidth": width})
        (middle,), (white,) = state[1]
        x = state[0][:, 0] / white + middle
        y = numeric(self.name, released, "the release")[:, 0]
        edges = np.linspace(x.min(), x.max(), self.cells + 1)
        found, turns = reconstruct(y, edges, self.noise_sd, self.noise, weights=weights)
        cell = np.searchsorted(edges[1:-1], x, side="right")
        true = np.bincount(cell, weights=frames.shares(state[3], len(x)), minlength=self.cells)
        return Measured(0.5 * float(np.abs(true - found).sum()), parts={"released": plain, "iterations": float(turns)})


def reconstruct(
    released: ArrayLike,
    edges: ArrayLike,
    sd: float,
    noise: str = "normal",
    most: int = 2000,
    weights: Array | None = None,
) -> tuple[Array, int]:
    """Probabilities of the cells between ``edges`` for a variable that was released with independent noise, by EM.

    The likelihood is that of the released values, counted in fine cells, for a variable that is uniform in each cell.
    EM stops when the log-likelihood of the file gains less than 0.001. Gives the number of iterations, too.

    >>> rng = np.random.default_rng(1)
    >>> x = rng.choice([0.0, 2.0], p=[0.3, 0.7], size=20_000) + rng.random(20_000)
    >>> found, _ = reconstruct(x + 0.5 * rng.normal(size=x.size), [0, 1, 2, 3], 0.5)
    >>> [round(float(p), 1) for p in found]
    [0.3, 0.0, 0.7]
    """
    cuts, y = np.asarray(edges, dtype=np.float64), np.asarray(released, dtype=np.float64)
    sd = max(sd, 1e-12 * float(cuts[-1] - cuts[0]))  # less cannot be told from none
    step = min(float(np.diff(cuts).min()), sd / 8)
    low, high = min(y.min(), cuts[0]) - step, max(y.max(), cuts[-1]) + 2 * step
    fine = np.arange(low, high, step) if (high - low) / step < 20_000 else np.linspace(low, high, 20_000)
    often = None if weights is None else weights / weights.mean()
    counts = np.histogram(y, fine, weights=often)[0].astype(np.float64)
    # Integrals of the noise's distribution function, whose differences are means over a cell; a uniform noise has the
    # half-width sqrt(3) of its standard deviation.
    if noise == "normal":
        z = (fine[:, None] - cuts) / sd
        area = sd * (z * special.ndtr(z) + np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi))
    else:
        z = (fine[:, None] - cuts) / (np.sqrt(3) * sd)
        area = np.sqrt(3) * sd * np.where(z > 1, z, np.square(np.maximum(z + 1, 0.0)) / 4)
    below = -np.diff(area, axis=1) / np.diff(cuts)
    chance = np.maximum(np.diff(below, axis=0)[counts > 0], 0.0)
    counts = counts[counts > 0]
    p, before, turn = np.full(len(cuts) - 1, 1 / (len(cuts) - 1)), -np.inf, 0
    while turn < most:
        turn += 1
        seen = np.maximum(chance @ p, FLOOR)
        p = p * (chance.T @ (counts / seen)) / counts.sum()
        p = p / p.sum()
        now = float(counts @ np.log(seen))
        if now - before < 1e-3:
            break
        before = now
    return p, turn


def normal_kl(mean: ArrayLike, cov: ArrayLike, other_mean: ArrayLike, other_cov: ArrayLike) -> float:
    """d(N(mean, cov) || N(other_mean, other_cov)) in nats.

    Half of (m1 - m2)' S2^-1 (m1 - m2) - sum(1 - l + log l), l the eigenvalues of S1 S2^-1.

    Examples
    --------
    >>> round(normal_kl(0, 1, 1, 4), 11)
    0.44314718056
    """
    m1, m2 = (check_vector("mean", np.atleast_1d(m)) for m in (mean, other_mean))
    s1, s2 = (check_covariance("cov", np.atleast_2d(s), len(m1), definite=True) for s in (cov, other_cov))
    if len(m2) != len(m1):
        raise InputError(
            "Both means must have the same length", f"{len(m1)} and {len(m2)}", "Compare laws of the same variables"
        )
    return _normal_kl(m1, s1, m2, s2)


def density_kl(f: Callable[[float], float], g: Callable[[float], float], at: Sequence[float]) -> float:
    """Integral of f log(f / g) for two densities of one variable.

    ``at`` lists where the densities live, from end to end, with their kinks and jumps in between; ends may be infinite.

    Examples
    --------
    >>> density_kl(lambda x: 1.0, lambda x: 0.5, [0, 1])
    0.6931471805599453
    """

    def part(x: float) -> float:
        a, b = f(x), g(x)
        return 0.0 if a <= 0 else np.inf if b <= 0 else a * float(np.log(a / b))

    return _panels_of_integral(part, at)


def density_loss(f: Callable[[float], float], g: Callable[[float], float], at: Sequence[float]) -> float:
    """Agrawal and Aggarwal's information loss of two densities: half the integral of |f - g|.

    ``at`` is as for `density_kl`.

    Examples
    --------
    >>> density_loss(lambda x: float(0 <= x <= 1), lambda x: 0.5 * (0 <= x <= 2), [0, 1, 2])
    0.5
    """
    return 0.5 * _panels_of_integral(lambda x: abs(f(x) - g(x)), at)


def _measured_divergence(under: str, forward: float, backward: float, **more: float) -> Measured:
    chosen = {"original": forward, "released": backward, "both": forward + backward}[under]
    return Measured(chosen, parts={"original || released": forward, "released || original": backward, **more})


def _panels_of_integral(part: Callable[[float], float], at: Sequence[float]) -> float:
    points = [float(x) for x in at]
    if len(points) < 2 or any(b <= a for a, b in pairwise(points)):
        raise InputError(
            "at must list two or more points in increasing order", points, "Write at=[-inf, 0, inf], for example"
        )
    return quad_between(part, points)


def _normal_kl(m1: Array, s1: Array, m2: Array, s2: Array) -> float:
    # Eigenvalues of S1 relative to S2 by a symmetric problem; x - log(1 + x) with x = l - 1 keeps the digits of small
    # differences.
    root = np.linalg.cholesky(s2)
    half = linalg.solve_triangular(root, np.column_stack([s1 - s2, m1 - m2]), lower=True)
    inner = linalg.solve_triangular(root, half[:, :-1].T, lower=True)
    excess = np.linalg.eigvalsh((inner + inner.T) / 2)
    # Far from one, the ratios themselves have the digits: one plus the excess would drown a variance that is 1e-14 of
    # the other.
    ratio = (
        np.linalg.svd(linalg.solve_triangular(root, np.linalg.cholesky(s1), lower=True), compute_uv=False)[::-1] ** 2
    )
    near = np.abs(excess) < 0.5
    terms = np.where(near, excess - np.log1p(np.where(near, excess, 0.0)), ratio - 1 - np.log(np.maximum(ratio, FLOOR)))
    return float(0.5 * (half[:, -1] @ half[:, -1] + terms.sum()))


def _bin_linearly(where: Array, size: Ints, weights: Array | None) -> Array:
    """Share the mass of each point among the corners of its grid cell."""
    p = where.shape[1]
    base = np.minimum(np.floor(where).astype(np.int64), size - 2)
    rest = where - base
    grid = np.zeros(int(np.prod(size)))
    for corner in np.ndindex(*(2,) * p):
        index = np.ravel_multi_index((base + np.array(corner)).T, tuple(size))
        mass = np.prod(np.where(np.array(corner) == 1, rest, 1 - rest), axis=1)
        grid += np.bincount(index, weights=mass if weights is None else weights * mass, minlength=len(grid))
    return grid.reshape(tuple(size))
