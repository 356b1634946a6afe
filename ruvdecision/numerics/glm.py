"""Logistic and Poisson regression by maximum likelihood: the one such fit of the package.

Its own Newton method, because measures fit thousands of models: it keeps a factored information matrix as long as that
serves, and is several times quicker than scikit-learn's solvers to the last digit (benchmarks/bench_measures.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

from ..errors import ConvergenceError
from ..protocols import Array

AT_ONCE = 16_384
"""Records whose products are summed at a time."""


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of responses given linear predictors ``eta``, with the canonical link."""

    kind: str

    def mean(self, eta: Array) -> Array:
        """Expected responses."""
        return special.expit(eta) if self.kind == "logistic" else np.exp(np.minimum(eta, 700.0))

    def variance(self, mean: Array) -> Array:
        """Variances of the responses."""
        return mean * (1 - mean) if self.kind == "logistic" else mean

    def loss(self, eta: Array, y: Array, weights: Array | None = None) -> float:
        """Minus the log likelihood, up to what depends on the responses alone."""
        total = np.logaddexp(0.0, eta) if self.kind == "logistic" else np.exp(np.minimum(eta, 700.0))
        each = total - y * eta
        return float(each.sum() if weights is None else weights @ each)

    def _slope(self, eta: Array, y: Array, move: Array, weights: Array | None) -> float:
        """How the log likelihood grows as the predictors move."""
        gap = y - self.mean(eta)
        return float(move @ (gap if weights is None else weights * gap))

    def maximise(self, design: Array, y: Array, start: Array, weights: Array | None = None) -> MaximumLikelihood:
        """Newton's method from ``start``; ``design`` has one row per coefficient, linearly independent.

        With ``weights``, whose mean is 1, the likelihood is that of so many records each; the variances are then
        multiplied by them. Where the likelihood has no finite maximum, fitted means of the records that cause it tend
        to their limits.
        """
        n = len(y)
        beta, value, factor = start, None, None
        eta = start @ design
        mean = self.mean(eta)
        fresh, last, before = True, np.inf, np.inf
        for _ in range(300):
            if factor is None:
                often = self.variance(mean) if weights is None else weights * self.variance(mean)
                factor, fresh = _cholesky_or_ridge(_information_matrix(design, np.sqrt(often))), True
            score = design @ (y - mean if weights is None else weights * (y - mean))
            step = linalg.cho_solve(factor, score, check_finite=False)
            gain = float(score @ step)
            if not fresh and gain > 0.01 * last:
                # An old matrix that gains less than two digits is worn out.
                factor, last = None, np.inf
                continue
            if gain <= 1e-26 * n or (gain <= 1e-16 * n and gain > 0.01 * last):
                break
            # Gains of Newton's steps vanish quickly, unless the likelihood grows without end.
            slow, last, before = gain > 0.1 * before, gain, gain
            move = step @ design
            reach = max(-float(move.min()), float(move.max()))
            part = 1.0
            if reach < 1.0:
                # A Newton step that moves no predictor by more than one cannot overshoot.
                value = None
            else:
                value = self.loss(eta, y, weights) if value is None else value
                while (found := self.loss(eta + part * move, y, weights)) > value + 1e-13 * n and part > 1e-10:
                    part /= 2
                value = found
            if slow and part == 1.0:
                # The log likelihood is concave: it grows on as long as its slope along the step is positive.
                while part < 64 and self._slope(eta + 2 * part * move, y, move, weights) > 0:
                    part, value = 2 * part, None
            beta, eta = beta + part * step, eta + part * move
            mean = self.mean(eta)
            if self.kind == "logistic" and value is not None and value < 1e-14 * n:
                break  # separated: nothing is left to gain
            fresh = False
            if slow or gain > 1e-3 * n:
                factor = None
        apart = self.kind == "logistic" and np.all((eta > 0) == (y > 0.5)) and self.loss(eta, y) < 1e-6 * n
        variance = self.variance(mean) if weights is None else weights * self.variance(mean)
        return MaximumLikelihood(beta, mean, variance, bool(apart))


@dataclass(frozen=True, eq=False)
class MaximumLikelihood:
    """Where a likelihood is greatest."""

    coefficients: Array
    mean: Array
    """Fitted mean of each response."""
    variance: Array
    separated: bool
    """True if the predictors tell all responses apart."""

    def has_finite_coefficients(self, design: Array) -> bool:
        """False if coefficients grow without end: records whose means are not at their limits do not determine them."""
        heavy = self.variance > 1e-12 * self.variance.max()
        return not self.separated and bool(np.linalg.matrix_rank(design[:, heavy]) == len(design))


logistic, poisson = Likelihood("logistic"), Likelihood("Poisson")


def _information_matrix(design: Array, root: Array) -> Array:
    """Weighted sums of products of the design's rows, as many records at a time as the processor's cache holds."""
    total = np.zeros((len(design), len(design)))
    for start in range(0, design.shape[1], AT_ONCE):
        part = design[:, start : start + AT_ONCE] * root[start : start + AT_ONCE]
        total += part @ part.T
    return total


def _cholesky_or_ridge(information: Array) -> tuple[Array, bool]:
    """Cholesky factor; records without weight may have left a singular matrix, which a touch on the diagonal mends."""
    touch, size = 0.0, float(np.trace(information)) / len(information)
    for _ in range(40):  # tenfold each time: at the end the matrix is nothing to it
        try:
            found = linalg.cho_factor(information + touch * np.eye(len(information)), check_finite=False)
            return found  # type: ignore[no-any-return]
        except linalg.LinAlgError:
            touch = max(10 * touch, 1e-12 * size + 1e-300)
    raise ConvergenceError("The information of a regression has no root", do="Look for values that are no numbers")
