"""The parametric models of sequential synthesis: linear regression and multinomial logistic regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import InputError
from ...protocols import Array
from ..columnkinds import Ints, spread, whole_like
from ..moments import orthonormal
from .sequential import Task, pick

__all__ = ["fit_logistic", "regression"]

WORK = 200_000


def regression(task: Task, rng: np.random.Generator) -> Any:
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


def _linear(task: Task, rng: np.random.Generator) -> Array:
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


def _categories(task: Task, codes: Ints, rng: np.random.Generator) -> Any:
    n, k = len(codes), int(codes.max()) + 1
    first = np.unique(codes, return_index=True)[1]
    rows = rng.integers(0, n, size=n) if task.proper else np.arange(n)
    if task.original.shape[1] == 0:
        share = np.bincount(codes[rows], minlength=k) / n
        chance = np.broadcast_to(share, (n, k))
    else:
        chance = fit_logistic(task.original[rows], codes[rows], k)(task.synthetic)
    return task.column.array.take(first[pick(chance, rng.random(n))])


def fit_logistic(x: Array, codes: Ints, k: int) -> Any:
    """Fit a multinomial logistic regression and give back the function that predicts its probabilities.

    Coefficients of the standardised predictors have a standard normal prior, intercepts a normal one of variance
    100: data that a plane separates keep finite coefficients, and with many records the prior does not matter.
    A category without records gets no probability.
    """
    from scipy.optimize import minimize
    from scipy.special import log_softmax, softmax

    n = len(x)
    centre, scale = x.mean(axis=0), spread(x)
    scale = np.where(scale > 0, scale, np.inf)
    present = np.flatnonzero(np.bincount(codes, minlength=k))
    own = np.searchsorted(present, codes)
    design = lambda z: np.hstack([np.ones((len(z), 1)), (z - centre) / scale])  # noqa: E731
    d = design(x)
    # Few records at a time: products so small are not shared between threads, so their last digits do not depend on them.
    step = max(WORK // (d.shape[1] * len(present)), 16)
    blocks = [slice(i, i + step) for i in range(0, n, step)]
    penalty = np.concatenate([[0.01], np.ones(x.shape[1])])[:, None] / n

    def objective(flat: Array) -> tuple[float, Array]:
        b = flat.reshape(d.shape[1], len(present))
        total, slope = 0.0, np.zeros_like(b)
        for part in blocks:
            logp, at = log_softmax(d[part] @ b, axis=1), (np.arange(len(own[part])), own[part])
            gradient = np.exp(logp)
            gradient[at] -= 1.0
            total -= float(logp[at].sum())
            slope += d[part].T @ gradient
        return total / n + 0.5 * float((penalty * b**2).sum()), (slope / n + penalty * b).ravel()

    start = np.zeros((d.shape[1], len(present)))
    start[0] = np.log(np.bincount(own) / n)
    fitted = minimize(
        objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 500, "gtol": 1e-6}
    ).x.reshape(start.shape)

    def predict(z: Array) -> Array:
        chance = np.zeros((len(z), k))
        chance[:, present] = softmax(design(z) @ fitted, axis=1)
        return chance

    return predict
