"""Logistic and Poisson regression by maximum likelihood: the one such fit of the package.

Its own Newton method, because measures fit thousands of models: it keeps a factored information matrix as long as that
serves, and is several times quicker than scikit-learn's solvers to the last digit (benchmarks/bench_measures.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

from ..protocols import Array

__all__ = ["Likelihood", "Maximum", "logistic", "poisson"]


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

    def loss(self, eta: Array, y: Array) -> float:
        """Minus the log likelihood, up to what depends on the responses alone."""
        total = np.logaddexp(0.0, eta) if self.kind == "logistic" else np.exp(np.minimum(eta, 700.0))
        return float((total - y * eta).sum())

    def maximise(self, design: Array, y: Array, start: Array) -> Maximum:
        """Newton's method from ``start``; ``design`` has one row per coefficient, linearly independent.

        Where the likelihood has no finite maximum, fitted means of the records that cause it tend to their limits.
        """
        n = len(y)
        beta, value, factor = start, None, None
        eta = start @ design
        mean = self.mean(eta)
        fresh, regular, last, reach = True, True, np.inf, 0.0
        for _ in range(300):
            if factor is None:
                root = design * np.sqrt(self.variance(mean))
                (factor, regular), fresh = _factor(root @ root.T), True
            score = design @ (y - mean)
            step = linalg.cho_solve(factor, score, check_finite=False)
            gain = float(score @ step)
            if not fresh and gain > 0.01 * last:
                # An old matrix that gains less than two digits is worn out.
                factor, last = None, np.inf
                continue
            if gain <= 1e-26 * n or (gain <= 1e-18 * n and gain > 0.01 * last):
                break
            last = gain
            move = step @ design
            reach = max(-float(move.min()), float(move.max()))
            part = 1.0
            if reach < 1.0:
                # A Newton step that moves no predictor by more than one cannot overshoot.
                value = None
            else:
                value = self.loss(eta, y) if value is None else value
                while (found := self.loss(eta + part * move, y)) > value + 1e-13 * n and part > 1e-10:
                    part /= 2
                value = found
            beta, eta = beta + part * step, eta + part * move
            mean = self.mean(eta)
            if self.kind == "logistic" and value is not None and value < 1e-14 * n:
                break  # separated: nothing is left to gain
            fresh = False
            if gain > 1e-3 * n:
                factor = None
        # Where records are separated each step moves them by about one for ever, though nothing is left to gain.
        return Maximum(beta, mean, self.variance(mean), regular and reach < 0.1, self._separated(eta, y))

    def _separated(self, eta: Array, y: Array) -> bool:
        return bool(self.kind == "logistic" and np.all((eta > 0) == (y > 0.5)) and self.loss(eta, y) < 1e-6 * len(y))


@dataclass(frozen=True, eq=False)
class Maximum:
    """Where a likelihood is greatest."""

    coefficients: Array
    mean: Array
    """Fitted mean of each response."""
    variance: Array
    settled: bool
    """False if coefficients grow without end."""
    separated: bool
    """True if the predictors tell all responses apart."""


logistic, poisson = Likelihood("logistic"), Likelihood("Poisson")


def _factor(information: Array) -> tuple[tuple[Array, bool], bool]:
    """Cholesky factor, and False if records without weight had left a singular matrix, which was mended."""
    touch, size = 0.0, float(np.trace(information)) / len(information)
    while True:
        try:
            return linalg.cho_factor(information + touch * np.eye(len(information)), check_finite=False), touch == 0
        except linalg.LinAlgError:
            touch = max(10 * touch, 1e-12 * size + 1e-300)
