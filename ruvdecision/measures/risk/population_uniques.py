"""How many sample uniques are unique in the population: three models, and why to mistrust them.

Each model turns the sizes of the cells in a sample into the probability that a sample unique is also alone in its cell
in the population. Winkler (2004, section 4) has four objections, which hold for all three:

1. An agency that has the population file can count population uniques and need not estimate them.
2. With ten keys or more, some of them continuous, nearly all records are unique and nothing is left to model.
3. The models say how many sample uniques are population uniques, not which; a linkage experiment says which.
4. They are badly biased where the sample is not a simple random one: a file drawn from population uniques only, or from
   non-uniques only, may look the same to them. Subsets of real files come near either.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy.optimize import minimize, minimize_scalar
from scipy.special import digamma, expit, gammaln

from ...checks import check_choice, check_integer, checked
from ...errors import InputError, UnsupportedError
from ...numerics.quadrature import gauss_normal
from ...protocols import Array
from ..base import Measured
from ..frames import Flags, Ints
from ..tables import cells
from ..tables.loglinear import fit_loglinear
from .uniqueness import KeyMeasure, enough_population

Chances = tuple[Array | float, Array | float, dict[str, float]]


@dataclass(frozen=True, repr=False)
class _PopulationModel(KeyMeasure):
    """Expected share of released records that are unique in the population, under a model of the cells."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    population: int = checked(None, check_integer, required=True, low=1)

    def compare(self, state: None, released: pd.DataFrame) -> Measured:
        """Fit the model to the release."""
        n = len(released)
        enough_population(self.population, n)
        each, sizes = cells.class_sizes(released)
        unique = each == 1
        alone, match = np.zeros(n), np.zeros(n)
        more: dict[str, float] = {}
        if n == self.population:
            alone[unique] = match[unique] = 1.0  # the sample is the population
        elif unique.any():
            alone[unique], match[unique], more = self._match_chances(released, unique, sizes)
        parts = {
            "sample uniques": float(unique.sum()),
            "expected uniques": float(alone.sum()),
            "expected matches": float(match.sum()),
            "share of uniques": float(alone.sum() / unique.sum()) if unique.any() else 0.0,
        }
        return Measured(float(alone.mean()), parts=parts | more, records=alone)

    def _match_chances(self, released: pd.DataFrame, unique: Flags, sizes: Ints) -> Chances:
        """P(F = 1 | f = 1) and E(1/F | f = 1) of the sample uniques, F the size of the cell in the population."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class PoissonGammaUniques(_PopulationModel):
    """Expected share of released records that are population uniques, Gamma cell rates: Bethlehem et al. (1990).

    Assumes K cells whose population sizes are Poisson with rates N pi_k, pi_k Gamma(alpha, beta) with K alpha beta = 1,
    and a simple random sample. A sample unique is then a population unique with probability ((1 + n beta)/(1 + N
    beta))^(1 + alpha), the same for all. The Gamma fits files with very many small cells badly, as its authors report;
    the module states further criticism (Winkler 2004).

    Parameters
    ----------
    keys : names, optional
        The columns that an intruder knows; all by default.
    population : int
        Size of the population, N.
    combinations : int, optional
        Number of cells K, empty ones included; the product of the numbers of categories in the release by default. The
        result depends on it.
    method : "likelihood" or "moments"
        How alpha is estimated; moments is the paper's way.

    Notes
    -----
    `per_record` gives P(unique in the population), 0 for records that are not unique in the sample. ``parts`` has
    ``expected matches``: the sum over sample uniques of E(1/F), an intruder's expected correct links.

    Examples
    --------
    >>> value = PoissonGammaUniques(population=1000)([0, 1, 1, 2, 2, 2], [0, 1, 1, 2, 2, 2])
    >>> 0 < value < 1 / 6
    True
    """

    label: ClassVar[str] = "poisson_gamma_uniques"
    reference: ClassVar[str] = "Bethlehem, Keller and Pannekoek (1990), JASA 85, 38-45"

    combinations: int | None = checked(None, check_integer, low=1)
    method: str = checked("likelihood", check_choice, options=("likelihood", "moments"))

    def _match_chances(self, released: pd.DataFrame, unique: Flags, sizes: Ints) -> Chances:
        seen, n, big = len(sizes), len(released), self.population
        total = float(self.combinations or np.prod(np.array(cells.common_codes(released)[1], dtype=np.float64)))
        if total < seen:
            what = "combinations must be at least the number of those that occur"
            raise InputError(what, self.combinations, f"{seen} occur")
        mean = n / total
        alpha = _gamma_shape(sizes, total, self.method)
        if np.isinf(alpha):
            lost = (big - n) / total
            alone, match = np.exp(-lost), float(_poisson_mean_inverse(np.asarray(lost)))
        else:
            beta = 1.0 / (total * alpha)
            p = (1 + n * beta) / (1 + big * beta)
            alone = p ** (1 + alpha)
            match = p * -np.expm1(alpha * np.log(p)) / (alpha * (1 - p))
        return alone, match, {"alpha": alpha, "combinations": total, "mean": mean}


@dataclass(frozen=True, repr=False)
class LogLinearUniques(_PopulationModel):
    """Expected share of released records that are population uniques, log-linear: Skinner and Holmes (1998).

    Assumes population cells that are Poisson with log-linear rates and a Bernoulli sample of fraction n/N. A sample
    unique in a cell with fitted sample rate mu is a population unique with probability exp(-mu (N - n)/n), so records
    differ. Too small a model makes rates of rare cells too large and the risk too small; too rich a model does the
    reverse. The module states further criticism (Winkler 2004).

    Parameters
    ----------
    keys, population
        As in `PoissonGammaUniques`.
    margins : int
        1: independent keys, no table is held. 2: all two-way interactions, and so on; the whole table is held.
    overdispersed : bool
        Multiply every rate by a lognormal factor of mean 1, whose variance comes from the moments of the residuals, as
        Skinner and Holmes do. The whole table is held.

    Notes
    -----
    `per_record` and ``parts`` as in `PoissonGammaUniques`.

    Examples
    --------
    >>> file = [[0, 0], [0, 0], [0, 1], [1, 1]]
    >>> LogLinearUniques(population=8).per_record(file, file).round(4).tolist()
    [0.0, 0.0, 0.2231, 0.6065]
    """

    label: ClassVar[str] = "loglinear_uniques"
    reference: ClassVar[str] = "Skinner and Holmes (1998), Journal of Official Statistics 14, 361-372"

    margins: int = checked(1, check_integer, low=1)
    overdispersed: bool = False

    def _match_chances(self, released: pd.DataFrame, unique: Flags, sizes: Ints) -> Chances:
        (codes,), levels = cells.common_codes(released)
        n, p = codes.shape
        if self.margins > p:
            what = f"{self.name} cannot keep margins of {self.margins} keys"
            raise InputError(what, f"{p} keys", "Use a smaller number")
        ratio = (self.population - n) / n
        log_variance, more = 0.0, {}
        if self.margins == 1 and not self.overdispersed:
            shares = [np.bincount(codes[:, j], minlength=levels[j])[codes[unique, j]] / n for j in range(p)]
            mu = n * np.prod(shares, axis=0)
        else:
            table = cells.dense_table(self.name, codes, levels)
            kept = list(itertools.combinations(range(p), self.margins))
            fitted = fit_loglinear(table, kept, tolerance=1e-8).fitted
            mu = fitted[tuple(codes[unique].T)]
            if self.overdispersed:
                excess = float(((table - fitted) ** 2 - fitted).sum() / (fitted**2).sum())
                log_variance = float(np.log1p(max(excess, 0.0)))
                more["log variance"] = log_variance
        alone, match = _poisson_chances(mu, ratio, log_variance)
        return alone, match, more


@dataclass(frozen=True, repr=False)
class PitmanUniques(_PopulationModel):
    """Expected share of released records that are population uniques under Pitman's model: Hoshino (2001).

    Assumes an exchangeable sample from Pitman's two-parameter random partition, fitted by maximum likelihood to the
    sizes of the cells. Needs no number of cells. A sample unique is a population unique with probability Gamma(theta +
    N - 1 + alpha) Gamma(theta + n) / (Gamma(theta + n - 1 + alpha) Gamma(theta + N)), the same for all. It fits long
    tails better than the Poisson-Gamma model, but cannot be fitted where every record is unique, which is the rule with
    many keys; the module states further criticism (Winkler 2004).

    Parameters
    ----------
    keys, population
        As in `PoissonGammaUniques`.

    Notes
    -----
    `per_record` and ``parts`` as in `PoissonGammaUniques`; ``parts`` has alpha and theta, too.

    Examples
    --------
    >>> value = PitmanUniques(population=1000)([0, 1, 1, 2, 2, 2], [0, 1, 1, 2, 2, 2])
    >>> 0 < value < 1 / 6
    True
    """

    label: ClassVar[str] = "pitman_uniques"
    reference: ClassVar[str] = "Hoshino (2001), Journal of Official Statistics 17, 499-520"

    def _match_chances(self, released: pd.DataFrame, unique: Flags, sizes: Ints) -> Chances:
        n = len(released)
        if len(sizes) == n:
            what = f"{self.name} cannot be fitted where every record is unique"
            raise UnsupportedError(
                what, f"{n} uniques", "Use fewer keys, recode them, or measure RecordLinkage instead"
            )
        theta, alpha = fit_pitman(sizes)
        alone = float(np.exp(_log_ratio(theta + alpha - 1, theta, n, self.population)))
        return alone, _pitman_match(theta, alpha, n, self.population), {"theta": theta, "alpha": alpha}


def fit_pitman(sizes: Ints) -> tuple[float, float]:
    """Maximum likelihood of Pitman's (theta, alpha), 0 <= alpha < 1 and theta > -alpha, from the sizes of the cells."""
    counts = np.asarray(sizes, dtype=np.int64)
    n, u = int(counts.sum()), len(counts)
    size, many = np.unique(counts, return_counts=True)
    steps = np.arange(1, u, dtype=np.float64)

    def loss(x: Array) -> float:
        if np.any(np.abs(x) > 40):
            return 1e300
        alpha = float(expit(x[0]))
        theta = float(np.exp(x[1])) - alpha
        grow = np.log(theta + steps * alpha).sum() - (gammaln(theta + n) - gammaln(theta + 1))
        inside = many @ (gammaln(size - alpha) - gammaln(1 - alpha))
        return -float(grow + inside) if np.isfinite(grow + inside) else 1e300

    starts = [(np.log(a / (1 - a)), np.log(b)) for a in (0.05, 0.5, 0.9) for b in (1.0, float(max(u, 2)))]
    options = {"xatol": 1e-8, "fatol": 1e-10, "maxiter": 4000}
    with np.errstate(all="ignore"):
        found = [minimize(loss, s, method="Nelder-Mead", options=options) for s in starts]
    best = min(found, key=lambda r: r.fun)
    alpha = float(expit(best.x[0]))
    return float(np.exp(best.x[1])) - alpha, alpha


def _log_ratio(a: float, b: float, n: int, big: int) -> float:
    """Log of the product over m from n to big - 1 of (a + m)/(b + m)."""
    if big - n <= 100_000:
        m = np.arange(n, big, dtype=np.float64)
        return float(np.log1p((a - b) / (b + m)).sum())
    return float((gammaln(a + big) - gammaln(b + big)) - (gammaln(a + n) - gammaln(b + n)))


def _pitman_match(theta: float, alpha: float, n: int, big: int) -> float:
    """E(1/F | f = 1): the other members of the cell are Beta-binomial(N - n, 1 - alpha, theta + n - 1 + alpha)."""
    rest = big - n
    b = theta + n - 1 + alpha
    # E 1/(1 + X) = (B(-alpha, b) - B(-alpha, b + rest + 1)) / ((rest + 1) B(1 - alpha, b)), by continuation in alpha.
    top = b + rest + 1
    scale = np.exp(gammaln(b + 1 - alpha) - gammaln(b)) / (rest + 1)
    if alpha < 1e-7:
        return float(scale * (digamma(top) - digamma(b)))
    ends = [np.exp(gammaln(x) - gammaln(x - alpha)) for x in (top, b)]
    return float(scale * (ends[0] - ends[1]) / alpha)


def _gamma_shape(sizes: Ints, total: float, method: str) -> float:
    """Alpha of the negative binomial of the cells' sizes; infinite where they vary no more than Poisson counts."""
    counts = np.asarray(sizes, dtype=np.float64)
    n, empty = counts.sum(), total - len(sizes)
    mean = n / total
    variance = ((counts**2).sum() - total * mean**2) / max(total - 1, 1)
    if method == "moments":
        return float(mean**2 / (variance - mean)) if variance > mean * (1 + 1e-12) else np.inf
    size, many = np.unique(counts, return_counts=True)
    size, many = np.append(size, 0.0), np.append(many, empty).astype(np.float64)

    def loss(x: float) -> float:
        a = np.exp(x)
        each = gammaln(size + a) - gammaln(a) + a * np.log(a / (a + mean)) + size * np.log(mean / (a + mean))
        return -float(many @ each)

    # The score for 1/alpha at 0 has the sign of sum f(f - 1) - n mean: no maximum inside if it is not positive.
    if (counts * (counts - 1)).sum() <= n * mean:
        return np.inf
    best = minimize_scalar(loss, bounds=(-30.0, 25.0), method="bounded", options={"xatol": 1e-10})
    return float(np.exp(best.x))


def _poisson_chances(mu: Array, ratio: float, log_variance: float) -> tuple[Array, Array]:
    """P(F = 1 | f = 1) and E(1/F | f = 1) for sample rates mu, times a lognormal factor."""
    lost = mu * ratio
    if log_variance <= 0:
        return np.exp(-lost), _poisson_mean_inverse(lost)
    nodes, weights = gauss_normal(60)
    sd = np.sqrt(log_variance)
    factor = np.exp(sd * nodes - log_variance / 2)
    # Weights are those of the factor given one record in the sample: f = 1 has likelihood factor exp(-mu factor).
    given = weights * factor * np.exp(-mu[:, None] * factor)
    given /= given.sum(axis=1, keepdims=True)
    each = lost[:, None] * factor
    return (given * np.exp(-each)).sum(axis=1), (given * _poisson_mean_inverse(each)).sum(axis=1)


def _poisson_mean_inverse(lost: Array) -> Array:
    """E 1/(1 + X) for X Poisson."""
    safe = np.where(lost > 0, lost, 1.0)
    return np.where(lost > 0, -np.expm1(-safe) / safe, 1.0)
