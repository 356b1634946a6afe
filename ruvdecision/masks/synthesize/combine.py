"""Combining what several synthetic copies of one file say into one estimate with a valid variance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ...checks import as_float_array, check_finite, check_number
from ...errors import InputError
from ...protocols import Array


@dataclass(frozen=True, eq=False)
class Combined:
    """An estimate from several synthetic copies, with its variance and degrees of freedom.

    Every array has the shape of one estimate: ``()`` for a number, ``(k,)`` for k coefficients.
    """

    estimate: Array
    """Mean of the copies' estimates."""
    variance: Array
    """Variance of that mean as an estimate of the population's value, T."""
    df: Array
    """Degrees of freedom of the t reference distribution; infinite if the copies agree."""
    between: Array
    """Variance of the estimates between copies, B (divisor m - 1)."""
    within: Array
    """Mean of the copies' own variances, W."""
    copies: int
    rule: str
    """"partial" or "full"."""
    adjusted: Array
    """True where the rule for full synthesis gave no positive variance and its replacement stands."""

    @property
    def error(self) -> Array:
        """Standard error, the root of the variance."""
        return np.sqrt(self.variance)

    @property
    def gamma(self) -> Array:
        """Share of the variance that the synthesis adds under the partial rule, (B/m)/T."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.variance > 0, self.between / self.copies / self.variance, 0.0)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return the lower and upper ends of the interval of this level from the t distribution."""
        from scipy.stats import norm, t

        tail = (1 + check_number("level", level, low=0, high=1, open_low=True, open_high=True)) / 2
        finite = np.where(np.isfinite(self.df), self.df, 1.0)
        half = np.where(np.isfinite(self.df), t.ppf(tail, finite), norm.ppf(tail)) * self.error
        return self.estimate - half, self.estimate + half

    def __repr__(self) -> str:
        show = lambda x: np.array2string(x, precision=6)  # noqa: E731
        numbers = f"estimate={show(self.estimate)}, error={show(self.error)}, df={show(self.df)}"
        return f"Combined({numbers}, copies={self.copies}, rule={self.rule!r})"


def combine_partial(estimates: ArrayLike, variances: ArrayLike) -> Combined:
    """Combine estimates from partially synthetic copies: T = W + B/m, df = (m - 1)(1 + m W/B)^2.

    Assumes copies drawn independently from a model fitted to the file, with the estimator's usual variance
    computed on each copy. It holds whether or not the model's parameters were drawn first (``proper``), and also
    when every value was replaced, as long as each copy has as many records as the file. Reiter (2003), Survey
    Methodology 29, 181-188.

    Parameters
    ----------
    estimates : array
        One row per copy: m numbers, or m by k.
    variances : array of the same shape
        The squared standard error that each copy gives for each estimate.

    Examples
    --------
    >>> float(combine_partial([1.0, 2.0, 3.0], [0.5, 0.5, 0.8]).variance)
    0.9333333333333333
    """
    q, u = _check_estimates(estimates, variances)
    m = len(q)
    between, within = q.var(axis=0, ddof=1), u.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = np.where(between > 0, (m - 1) * (1 + m * within / between) ** 2, np.inf)
    variance = within + between / m
    return Combined(q.mean(axis=0), variance, df, between, within, m, "partial", np.zeros(variance.shape, dtype=bool))


def combine_full(estimates: ArrayLike, variances: ArrayLike, *, size_ratio: float = 1.0) -> Combined:
    """Combine estimates from fully synthetic copies: T = (1 + 1/m) B - W, df = (m - 1)(1 - W/((1 + 1/m) B))^2.

    Assumes every value is synthetic and *proper*: each copy drew the model's parameters from their posterior
    first (``Synthesize(proper=True)`` or ``Synthesize(belief=...)``). With plug-in draws B is too small, and
    `combine_partial` is the valid rule. Raghunathan, Reiter and Rubin (2003), Journal of Official Statistics
    19, 1-16.

    T may come out negative by chance. Then ``size_ratio * W`` stands for it (Reiter 2002, Journal of Official
    Statistics 18, 531-543), and ``adjusted`` says so.

    Parameters
    ----------
    estimates, variances : array
        As in `combine_partial`.
    size_ratio : float, default 1
        Records in a copy over records in the confidential file.

    Examples
    --------
    >>> round(float(combine_full([1.0, 2.0, 3.0], [0.5, 0.5, 0.8]).variance), 6)
    0.733333
    """
    q, u = _check_estimates(estimates, variances)
    ratio = check_number("size_ratio", size_ratio, low=0, open_low=True)
    m = len(q)
    between, within = q.var(axis=0, ddof=1), u.mean(axis=0)
    inflated = (1 + 1 / m) * between
    raw = inflated - within
    adjusted = raw <= 0
    with np.errstate(divide="ignore", invalid="ignore"):
        df = np.where(between > 0, (m - 1) * (1 - within / inflated) ** 2, np.inf)
    # At raw = 0 exactly the formula gives zero degrees of freedom; m - 1 is the least that makes sense there.
    df = np.where(adjusted, np.maximum(df, m - 1), df)
    return Combined(q.mean(axis=0), np.where(adjusted, ratio * within, raw), df, between, within, m, "full", adjusted)


def _check_estimates(estimates: ArrayLike, variances: ArrayLike) -> tuple[Array, Array]:
    q = check_finite("estimates", as_float_array("estimates", estimates))
    u = check_finite("variances", as_float_array("variances", variances))
    if q.ndim not in (1, 2) or len(q) < 2:
        raise InputError(
            "Combining needs at least two copies, one row each",
            f"shape {q.shape}",
            "Use Synthesize(copies=5).releases(data, rng)",
        )
    if u.shape != q.shape:
        raise InputError(
            "variances must have the shape of the estimates",
            f"{u.shape} against {q.shape}",
            "Give one variance per estimate",
        )
    if np.any(u < 0):
        raise InputError("variances must not be negative", float(u.min()), "Give squared standard errors")
    return q, u
