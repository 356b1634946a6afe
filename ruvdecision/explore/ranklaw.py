"""The posterior of a record by its rank, tabulated so that it can be drawn while a slider moves.

`scenarios.RankPosterior` integrates over the unknown mean at every point it is asked for. Here its distribution
function given the mean is tabulated once and the mean's normal shift is added to the table, which is the same law for a
fraction of the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special
from scipy.interpolate import PchipInterpolator

from ..numerics.orderstatistics import normal_moments
from ..protocols import Array
from ..scenarios import RankPosterior
from ..scenarios.bayes import mean_variance

__all__ = ["RankLaw", "RankPrior"]

#: Points of the table, and of the first look at where the law lies.
POINTS, ROUGH = 161, 65


@dataclass(frozen=True)
class RankPrior:
    """The law of the r-th smallest of n normal records with mean 0, before any release.

    >>> round(float(RankPrior(1, 1, 4.0).cdf(2.0)), 6)  # one record: the normal law itself
    0.841345
    """

    records: int
    rank: int
    variance: float

    def cdf(self, at: Any) -> Array:
        """Probability that the record is at most ``at``: that many of n uniform numbers are."""
        level = special.ndtr(np.asarray(at, dtype=float) / np.sqrt(self.variance))
        return np.asarray(special.betainc(self.rank, self.records - self.rank + 1, level))

    def mean(self) -> float:
        """Mean of the record."""
        return float(np.sqrt(self.variance) * normal_moments(self.records, self.rank).mean)

    def var(self) -> float:
        """Variance of the record."""
        return float(self.variance * normal_moments(self.records, self.rank).variance)


@dataclass(frozen=True, eq=False)
class RankLaw:
    """The law of the r-th smallest record given a release with normal noise; see `scenarios.RankPosterior`.

    Examples
    --------
    >>> law = RankLaw(np.array([0.3, 1.2, 4.0]), 3, 1.0, 0.5, "flat")
    >>> same = RankPosterior([0.3, 1.2, 4.0], 3, 1.0, 0.5, "flat")
    >>> bool(abs(law.mean() - same.mean()) < 1e-4 and abs(law.var() - same.var()) < 1e-4)
    True
    """

    release: Any
    rank: int
    variance: float
    noise_variance: float
    prior: str = "flat"

    def cdf(self, at: Any) -> Array:
        """Probability that the record is at most ``at``."""
        points = np.asarray(at, dtype=float)
        nodes, weights = np.polynomial.hermite_e.hermegauss(41)
        moved = points[..., None] - np.sqrt(self._shift) * nodes
        return np.asarray(self._given_mean(moved) @ weights / weights.sum())

    def mean(self) -> float:
        """Posterior mean."""
        return self._moments[0]

    def var(self) -> float:
        """Posterior variance."""
        return self._moments[1] + self._shift

    @property
    def _shift(self) -> float:
        """Variance of what the unknown mean adds: all records move by the share (1 - rho) of it."""
        away = self.noise_variance / (self.variance + self.noise_variance)
        return float(away**2 * mean_variance(len(self.release), self.variance, self.noise_variance, self.prior))

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        y = np.asarray(self.release, dtype=float)
        centre = 0.0 if self.prior == "known" else float(y.mean())
        # Under a flat prior the mean's posterior is centred at the released mean; at that mean it counts as known.
        law = RankPosterior(y, self.rank, self.variance, self.noise_variance, "known", centre)
        sd = float(np.sqrt(self.variance * self.noise_variance / (self.variance + self.noise_variance)))
        low, high = float(min(y.min(), centre) - 8 * sd), float(max(y.max(), centre) + 8 * sd)
        for _ in range(3):
            rough = np.linspace(low, high, ROUGH)
            level = law.cdf(rough)
            low = float(rough[max(int(np.searchsorted(level, 1e-9)) - 1, 0)])
            high = float(rough[min(int(np.searchsorted(level, 1 - 1e-9)), ROUGH - 1)])
        grid = np.linspace(low, high, POINTS)
        return grid, np.clip(law.cdf(grid), 0.0, 1.0)

    def _given_mean(self, at: Array) -> Array:
        grid, level = self._table
        inside = PchipInterpolator(grid, level)(np.clip(at, grid[0], grid[-1]))
        return np.where(at < grid[0], 0.0, np.where(at > grid[-1], 1.0, inside))

    @cached_property
    def _moments(self) -> tuple[float, float]:
        """Mean and variance given the mean, by the tail-integral formulas."""
        grid = self._table[0]
        fine = np.linspace(grid[0], grid[-1], 8 * POINTS)
        level = self._given_mean(fine)
        mean = float(fine[-1] - np.trapezoid(level, fine))
        spread = 2 * (fine - mean) * (np.where(fine > mean, 1.0, 0.0) - level)
        return mean, float(np.trapezoid(spread, fine))
