"""The parametric models of sequential synthesis: linear regression and multinomial logistic regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import InputError
from ...protocols import Array
from ..columnkinds import Ints, spread, whole_like
from ..moments import orthonormal
from .sequential import ColumnTask, pick


def regression(task: ColumnTask, rng: np.random.Generator) -> Any:
    """Draw a column from its regression on the columns before it.

    Numbers: linear regression with normal errors; whole numbers are rounded. With ``proper`` variance and
    coefficients are drawn from their posterior under the usual flat prior first. Categories and booleans:
    multinomial logistic regression; with ``proper`` it is fitted to a bootstrap sample of the records, an approximate
    draw of its coefficients. Without predictors both reduce to the column's own normal law or shares.
    """
    if task.kind == "time":
        raise InputError(
            'Synthesize(method="regression") has no model for dates',
            f"column {task.column.name!r}",
            'Use method="cart", or leave it out with columns=[...]',
        )
    if task.codes is None:
        return whole_like(_linear(task, rng), task.column)
    return _categories(task, task.codes, rng)


def _linear(task: ColumnTask, rng: np.random.Generator) -> Array:
    y = task.column.to_numpy(dtype=np.float64)
    n = len(y)
    q, r = orthonormal(task.original)
    df = n - 1 - len(q)
    if df < 1:
        raise InputError(
            f"A regression of {task.column.name!r} needs more than {len(q) + 1} records",
            n,
            'Give fewer columns, or use method="cart"',
        )
    centre, scale = y.mean(), float(spread(y)) or 1.0
    z = (y - centre) / scale
    along = np.einsum("ij,j->i", q, z)
    squares = float(np.square(z - np.einsum("ij,i->j", q, along)).sum())
    variance = squares / (rng.chisquare(df) if task.proper else df)
    level = 0.0
    if task.proper:
        # Coefficients of orthonormal directions, the constant one first, are independent with the errors' variance.
        doubt = np.sqrt(variance) * rng.standard_normal(len(q) + 1)
        level, along = doubt[0] / np.sqrt(n), along + doubt[1:]
    new = task.synthetic - task.original.mean(axis=0)
    mean = level + np.einsum("ij,j->i", new, _slopes(r, along))
    return np.asarray(centre + scale * (mean + np.sqrt(variance) * rng.standard_normal(n)))


def _slopes(r: Array, along: Array) -> Array:
    """Coefficients of the columns behind R; a column that depends on those before it has none of its own."""
    slopes = np.zeros(r.shape[1])
    own = np.argmax(r != 0, axis=1) if len(r) else np.zeros(0, dtype=np.int64)
    for i in range(len(r) - 1, -1, -1):
        slopes[own[i]] = (along[i] - np.sum(r[i] * slopes)) / r[i, own[i]]
    return slopes


def _categories(task: ColumnTask, codes: Ints, rng: np.random.Generator) -> Any:
    n, k = len(codes), int(codes.max()) + 1
    first = np.unique(codes, return_index=True)[1]
    rows = rng.integers(0, n, size=n) if task.proper else np.arange(n)
    if task.original.shape[1] == 0:
        share = np.bincount(codes[rows], minlength=k) / n
        chance = np.broadcast_to(share, (n, k))
    else:
        chance = fit_logistic(task.original[rows], codes[rows], k)(task.synthetic)
    return task.column.array.take(first[pick(chance, rng.random(n))])


def fit_logistic(x: Array, codes: Ints, k: int) -> Callable[[Array], Array]:
    """Fit a multinomial logistic regression and give back the function that predicts its probabilities.

    Coefficients of the standardised predictors have a standard normal prior, intercepts a normal one of variance
    100: data that a plane separates keep finite coefficients, and with many records the prior does not matter.
    A category without records gets no probability.
    """
    from scipy.special import softmax
    from sklearn.linear_model import LogisticRegression

    centre, scale = x.mean(axis=0), spread(x)
    scale = np.where(scale > 0, scale, np.inf)
    # A constant of ten gives the intercept its prior of ten times the standard deviation.
    design = lambda z: np.hstack([np.full((len(z), 1), 10.0), (z - centre) / scale])  # noqa: E731
    present = np.unique(codes)
    coefficients = np.zeros((x.shape[1] + 1, len(present)))
    if len(present) > 1:
        # Of two categories scikit-learn fits the difference of their coefficients, whose prior variance is two.
        variance = 2.0 if len(present) == 2 else 1.0
        fit = LogisticRegression(C=variance, fit_intercept=False, tol=1e-8, max_iter=1000).fit(design(x), codes)
        coefficients = np.vstack([np.zeros_like(fit.coef_), fit.coef_]).T if len(present) == 2 else fit.coef_.T

    def predict(z: Array) -> Array:
        chance = np.zeros((len(z), k))
        chance[:, present] = softmax(design(z) @ coefficients, axis=1)
        return chance

    return predict
