"""Information loss of multiply imputed releases, after Little and Liu, with Winkler's formulas put right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, solve

from ...checks import as_float_array, check_finite, checked, is_single
from ...errors import InputError, UnsupportedError, kind_of
from ...masks.frame import Frame
from ...masks.synthesize.combine import combine_partial
from ...protocols import Array
from .. import frames
from ..base import Measured, Prepared, WeightedMeasure, mean_or_function
from ..frames import Data, Names


@dataclass(frozen=True, eq=False)
class Imputed:
    """What D imputed copies say about a quantity (a number, or k of them)."""

    estimate: Array
    """Mean of the copies' estimates."""
    within: Array
    """W, the mean of their variances (covariance matrices)."""
    between: Array
    """B, the variance (covariance matrix) of the estimates, divisor D - 1."""
    total: Array
    """T = W + B/D, the variance of the estimate."""
    gamma: float
    """Information loss: (B/D)/T; for k quantities trace((B/D) T^-1)/k."""
    copies: int


def little_liu(estimates: ArrayLike, variances: ArrayLike) -> Imputed:
    """Information loss gamma = (B/D)/T from the estimates and variances of D imputed copies.

    Between 0 (the copies agree) and 1. Winkler's text misprints it: T is the variance of the mean estimate and not the
    estimate, B sums squares, and gamma is a quotient, not a product. For k quantities with covariance matrices gamma is
    the mean eigenvalue of (B/D) T^-1, which any linear change of the quantities leaves alone. Little and Liu (2002).

    Parameters
    ----------
    estimates : array of shape (D,) or (D, k)
    variances : array of shape (D,), or (D, k, k) covariance matrices

    >>> fit = little_liu([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    >>> round(float(fit.total), 6), round(fit.gamma, 6)
    (1.333333, 0.25)
    """
    q = check_finite("estimates", as_float_array("estimates", estimates))
    v = check_finite("variances", as_float_array("variances", variances))
    if q.ndim == 1:
        c = combine_partial(q, v)
        return Imputed(c.estimate, c.within, c.between, c.variance, float(c.gamma), c.copies)
    if q.ndim != 2 or len(q) < 2 or v.shape != (*q.shape, q.shape[1]):
        do = "Give D estimates and D variances, or D rows of k and D matrices of k by k"
        raise InputError("Estimates and variances of imputed copies do not fit", f"shapes {q.shape} and {v.shape}", do)
    d, k = q.shape
    within, off = v.mean(axis=0), q - q.mean(axis=0)
    between = off.T @ off / (d - 1)
    total = within + between / d
    try:
        gamma = float(np.trace(solve(total, between / d, assume_a="pos"))) / k
    except LinAlgError:
        what = "The total covariance of the quantities must be positive definite"
        do = "Drop quantities that are functions of the others"
        raise InputError(what, np.diag(total).tolist(), do) from None
    return Imputed(q.mean(axis=0), within, between, total, gamma, d)


@dataclass(frozen=True, repr=False)
class ImputationLoss(WeightedMeasure):
    """Little and Liu's information loss of a release of D imputed copies: the mean gamma over the columns.

    The release is a list of data sets (or an array of three dimensions, copies first). The original is looked at for
    its columns only: gamma compares the copies among themselves, and falls to zero as D grows, whether or not the model
    behind them is any good.

    Parameters
    ----------
    columns : names, optional
        Numeric columns for ``statistic="mean"``, all by default; the columns of the table that a callable sees.
    statistic : "mean" or callable
        A callable takes a DataFrame and gives an estimate and its variance: two numbers, or a vector and a matrix.

    Examples
    --------
    >>> copies = [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]
    >>> round(float(ImputationLoss()([0.0, 1.0, 2.0], copies)), 6)
    0.5
    """

    label: ClassVar[str] = "imputation_loss"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Little and Liu (2002); Winkler (2004), section 5, with three misprints put right"
    takes_copies: ClassVar[bool] = True
    missing_choices: ClassVar[tuple[str, ...]] = ("omit", "raise")

    columns: Names = checked(None, frames.as_names)
    statistic: Any = checked("mean", mean_or_function)

    def prepared(self, original: Data) -> Prepared:
        """Remember the original's columns."""
        return _Copies(self, original)

    def compare(self, state: Any, released: Any, weights: Any = None) -> Measured:
        """Combine the copies, given as a list of tables."""
        if callable(self.statistic):
            if weights is not None:
                what = f"{self.name} of a function cannot tell it the weights of records"
                raise UnsupportedError(what, do='Leave weights= out, or write statistic="mean"')
            said = [self._call_statistic(t) for t in released]
            fit = little_liu([q for q, _ in said], [v for _, v in said])
            return Measured(fit.gamma, parts={"copies": float(fit.copies)})
        values = [frames.numeric(self.name, t, "the release") for t in released]
        frames.check_enough_rows(self.name, min(len(x) for x in values), 2, "every copy")
        often = [None] * len(values) if weights is None else weights
        means = [np.average(x, axis=0, weights=w) for x, w in zip(values, often, strict=True)]
        squares = [frames.standard_deviations(x, w) ** 2 / len(x) for x, w in zip(values, often, strict=True)]
        c = combine_partial(means, squares)
        parts = {str(name): float(g) for name, g in zip(state[0].columns, c.gamma, strict=True)}
        return Measured(float(c.gamma.mean()), parts=parts | {"copies": float(c.copies)})

    def _call_statistic(self, table: pd.DataFrame) -> tuple[Array, Array]:
        said = self.statistic(table)
        if not isinstance(said, (tuple, list)) or len(said) != 2:
            raise InputError("The statistic must give an estimate and its variance", kind_of(said), "Return a pair")
        return as_float_array("The estimate", said[0]), as_float_array("The variance", said[1])


class _Copies(Prepared):
    """Takes a list of releases where other measures take one."""

    def __call__(self, released: Any) -> Measured:
        measure: Any = self.measure
        if is_single(released) or getattr(released, "ndim", 3) < 3:
            do = "Give two copies or more, such as Synthesize(copies=5).releases(data, rng)"
            raise InputError(f"{measure.name} takes a list of imputed copies", type(released).__name__, do)
        used = [self.columns.of(Frame.of(copy)) for copy in released]
        copies = [frame.table for frame in used]
        if len(copies) < 2:
            raise InputError(f"{measure.name} takes two imputed copies or more", len(copies), "Release more copies")
        holes = [self.columns.incomplete_rows(frame, "a copy") for frame in used]
        complete = [self.columns.complete_rows(copy, hole) for copy, hole in zip(copies, holes, strict=True)]
        omitted = sum(map(len, copies)) - sum(map(len, complete))
        sides = zip(released, holes, strict=True)
        weights = [w for copy, hole in sides for w in self.columns.weights(Frame.of(copy), "a copy", hole)] or None
        return self.columns.result(measure.compare(self.state, complete, weights), omitted, omitted > 0)
