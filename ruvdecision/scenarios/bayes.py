"""The snooper who uses Bayes' rule: belief, target, loss, solved by the exact engine wherever it applies.

Records are normal with known variance, their mean is unknown with a flat prior, a normal one, or known. The
snooper knows the noise variance. Uncertainty is the posterior variance of the target, averaged over releases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ..beliefs.normal import NormalBelief
from ..checks import check_integer, check_number, check_vector, is_label
from ..engines.normal.exact import Exact
from ..errors import InputError
from ..losses import Quadratic
from ..masks.base import Mask
from ..masks.noise import Noise
from ..masks.rows import Shuffle
from ..numerics.counts import order_statistic_cdf
from ..numerics.orderstatistics import paired_gap
from ..numerics.quadrature import gauss_legendre, gauss_normal
from ..protocols import Array
from ..targets import NewRecord, Parameter, Record
from ..users.user import User

Prior = str | tuple[str, float]
"""``"flat"``, ``"known"`` or ``("normal", prior variance)``."""
NAMED: Mapping[Prior, float] = {"flat": np.inf, "known": 0.0}
"""Variance of the population mean under the priors that have a name."""


def belief(n: int, variance: float, prior: Prior) -> NormalBelief:
    """The snooper's belief for ``prior`` = "flat", "known" or ("normal", prior variance)."""
    prior = check_prior(prior)
    if prior in NAMED:
        return NormalBelief(records=n, variance=variance, prior=str(prior))
    return NormalBelief(records=n, variance=variance, prior_variance=prior_variance(prior))


def snooper(n: int, variance: float, prior: Prior, knowledge: str, *, percentile: bool = False) -> User:
    """The user whose uncertainty a Bayes curve shows.

    Population knowledge is a record outside the file; sample and record knowledge are a record of the file. A
    population percentile mu + z sd is as uncertain as the mean, because the variance is known.

    >>> snooper(10, 1.0, "flat", "record").target
    Record(0)
    """
    target = Parameter("mu") if percentile else NewRecord() if knowledge == "population" else Record(0)
    return User(belief(n, variance, prior), target, Quadratic(), name=f"A snooper with {knowledge} knowledge")


def uncertainty(
    n: int, variance: float, noise_variance: ArrayLike, prior: Prior, knowledge: str, *, percentile: bool = False
) -> Array:
    """Expected posterior variance of a typical target (or of a population percentile), by the exact engine.

    With sample knowledge the file order tells nothing: the mask is noise followed by a shuffle.

    >>> round(float(1 / uncertainty(200, 1.0, 0.21, "known", "record")), 6)  # 1/l2 + 1/s2
    5.761905
    """
    grid = np.asarray(noise_variance, dtype=np.float64)
    masks: list[Mask] = [Noise(variance=float(v)) for v in grid.ravel()]
    if knowledge == "sample" and not percentile:
        masks = [m | Shuffle() for m in masks]
    user = snooper(n, variance, prior, knowledge, percentile=percentile)
    return Exact().solve(user, masks).uncertainty.reshape(grid.shape)


def posterior_variance_of_mean(n: int, variance: float, noise_variance: ArrayLike, prior: Prior) -> Array:
    """V, the posterior variance of the population mean."""
    precision = n / (variance + np.asarray(noise_variance, dtype=np.float64))
    with np.errstate(divide="ignore"):
        return np.asarray(1 / (precision + 1 / np.float64(prior_variance(prior))))


def order_statistic_mse(n: int, variance: float, noise_variance: ArrayLike, rank: int, prior: Prior) -> Array:
    """Expected posterior variance of the r-th smallest record of the file, for any rank.

    No simulation is needed. Given the release, draw the records twice from their posterior: half the mean
    squared difference of the two order statistics is the posterior variance. Before the release, with mu known,
    the two draws are n independent normal pairs of correlation rho = s2/(s2 + l2), so the expectation is
    s2 times half of `orderstatistics.paired_gap`. An unknown mean shifts all records by (1 - rho) mu, independently
    of the rest, and adds (1 - rho)^2 V.

    >>> round(float(order_statistic_mse(200, 1.0, 0.21, 200, "known")), 6)
    0.088249
    """
    noise_variance = np.asarray(noise_variance, dtype=np.float64)
    away = noise_variance / (variance + noise_variance)  # 1 - rho
    gap = paired_gap(n, rank, 2 * np.arcsin(np.sqrt(away / 2)))
    return np.asarray(variance * gap / 2 + away**2 * posterior_variance_of_mean(n, variance, noise_variance, prior))


def percentile_mse_with_unknown_variance(n: int, variance: float, noise_variance: ArrayLike, p: float) -> Array:
    """Large-n posterior variance of the population percentile when the variance is unknown too (flat priors).

    The noise variance is known. (s2 + l2)/n + z^2 (s2 + l2)^2 / (2 n s2).
    """
    z = float(special.ndtri(p))
    released = variance + np.asarray(noise_variance, dtype=np.float64)
    return np.asarray(released / n + z * z * released**2 / (2 * n * variance))


@dataclass(frozen=True, eq=False)
class RankPosterior:
    """Posterior law of the r-th smallest confidential record, given the released values.

    Given the release and mu the records are independent, x_i ~ N(mu + rho (y_i - mu), s2 (1 - rho)), so the
    number of them below t is a sum of independent indicators; for the maximum the distribution function is the
    product of n normal ones. The posterior of mu adds an independent normal shift.

    Examples
    --------
    >>> posterior = RankPosterior([0.3, 1.2, 4.0], rank=3, variance=1.0, noise_variance=0.5, prior="flat")
    >>> bool(0 < posterior.var() < 0.5)
    True
    """

    release: ArrayLike
    rank: int
    variance: float
    noise_variance: float
    prior: Prior = "flat"
    prior_mean: float = 0.0
    event: ClassVar[tuple[int, ...]] = ()
    support: ClassVar[None] = None

    def __post_init__(self) -> None:
        y = check_vector("release", self.release)
        if y.size == 0:
            raise InputError("release must hold at least one value", "none", "Give the released values")
        object.__setattr__(self, "release", y)
        object.__setattr__(self, "rank", check_integer("rank", self.rank, low=1, high=len(y)))
        for name, value in (("variance", self.variance), ("noise_variance", self.noise_variance)):
            object.__setattr__(self, name, check_number(name, value, low=0, open_low=True))
        object.__setattr__(self, "prior_mean", check_number("prior_mean", self.prior_mean))
        check_prior(self.prior)

    def cdf(self, at: ArrayLike) -> Array:
        """Probability that the order statistic is at most ``at``."""
        at = np.asarray(at, dtype=np.float64)
        nodes, weights = gauss_normal(41)
        sd = np.sqrt(self._variance_from_mean)
        if sd == 0:
            return self._cdf_given_mean(at.ravel()).reshape(at.shape)
        points = at.ravel()[:, None] - sd * nodes
        return np.asarray((self._cdf_given_mean(points.ravel()).reshape(points.shape) @ weights).reshape(at.shape))

    def mean(self) -> float:
        """Posterior mean, the snooper's estimate."""
        return self._moments[0]

    def var(self) -> float:
        """Posterior variance, the snooper's uncertainty."""
        return self._moments[1] + self._variance_from_mean

    @cached_property
    def _mean_variance(self) -> float:
        return float(posterior_variance_of_mean(np.size(self.release), self.variance, self.noise_variance, self.prior))

    @property
    def _variance_from_mean(self) -> float:
        """Variance of what the unknown mean adds: all records move by the share 1 - rho of it."""
        return (self.noise_variance / (self.variance + self.noise_variance)) ** 2 * self._mean_variance

    @property
    def _sd(self) -> float:
        """Standard deviation of a record given the release and mu."""
        return float(np.sqrt(self.variance * self.noise_variance / (self.variance + self.noise_variance)))

    @cached_property
    def _means(self) -> Array:
        """Mean of every record given the release and the posterior mean of mu."""
        y = np.asarray(self.release, dtype=np.float64)
        rho = self.variance / (self.variance + self.noise_variance)
        share = self._mean_variance * len(y) / (self.variance + self.noise_variance)  # one for the flat prior
        centre = share * float(y.mean()) + (1 - share) * self.prior_mean
        return np.asarray(centre + rho * (y - centre))

    def _cdf_given_mean(self, at: Array) -> Array:
        z = (at - self._means[:, None]) / self._sd
        return order_statistic_cdf(special.ndtr(z), special.ndtr(-z), self.rank)

    @cached_property
    def _moments(self) -> tuple[float, float]:
        """Mean and variance given the posterior mean of mu, by the tail-integral formulas."""
        low, high = float(self._means.min() - 9 * self._sd), float(self._means.max() + 9 * self._sd)
        # Narrow to where the distribution function moves; again and again, for a value far off may leave it little
        # room.
        for _ in range(12):
            grid = np.linspace(low, high, 129)
            level = self._cdf_given_mean(grid)
            # Sums over many records are right to 1e-13 or so: without a clear end the whole interval stays.
            start = int(np.flatnonzero(level <= 1e-14)[-1]) if level[0] <= 1e-14 else 0
            stop = int(np.flatnonzero(level >= 1 - 1e-14)[0]) if level[-1] >= 1 - 1e-14 else len(grid) - 1
            low, high = float(grid[start]), float(grid[stop])
            if stop - start >= 32:
                break
        mean = high - _integrate(self._cdf_given_mean, low, high)
        variance = _integrate(lambda t: 2 * (mean - t) * self._cdf_given_mean(t), low, mean)
        variance += _integrate(lambda t: 2 * (t - mean) * (1 - self._cdf_given_mean(t)), mean, high)
        return mean, variance


def _integrate(function: Callable[[Array], Array], low: float, high: float) -> float:
    nodes, weights = gauss_legendre(120)
    return float(weights @ function((low + high) / 2 + (high - low) / 2 * nodes) * (high - low) / 2)


def prior_variance(prior: Prior) -> float:
    """Variance of the population mean before any release: infinite for a flat prior, zero for a known mean."""
    prior = check_prior(prior)
    known = NAMED.get(prior)
    return float(prior[1]) if known is None else known


def check_prior(prior: Prior) -> Prior:
    """Return the prior in its one form, or list what it may be."""
    options = '"flat", "known" or ("normal", prior variance)'
    if is_label(prior) and prior in NAMED:
        return prior
    if isinstance(prior, Sequence) and len(prior) == 2 and prior[0] == "normal":
        return ("normal", check_number("The prior variance", prior[1], low=0, open_low=True))
    raise InputError(f"prior must be {options}", prior, 'Use prior="flat", for example')
