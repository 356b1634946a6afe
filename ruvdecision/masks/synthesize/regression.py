"""The parametric models of sequential synthesis: linear regression and multinomial logistic regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import InputError
from ...protocols import Array
from ..columnkinds import Ints, spread, whole_like
from .sequential import Task, pick

__all__ = ["fit_logistic", "regression"]


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
    x = np.hstack([np.ones((n, 1)), task.original])
    new = np.hstack([np.ones((n, 1)), task.synthetic])
    u, s, v = np.linalg.svd(x, full_matrices=False)
    keep = s > 1e-10 * s[0]
    u, s, v = u[:, keep], s[keep], v[keep]
    df = n - len(s)
    if df < 1:
        raise InputError(
            f"A regression of {task.column.name!r} needs more than {len(s)} records", n, 'Give fewer columns, or use method="cart"'
        )
    centre, scale = y.mean(), float(spread(y)) or 1.0
    z = (y - centre) / scale
    turned = u.T @ z
    squares = float(((z - u @ turned) ** 2).sum())
    variance = squares / (rng.chisquare(df) if task.proper else df)
    if task.proper:
        turned = turned + np.sqrt(variance) * rng.standard_normal(len(s))
    return centre + scale * (new @ (v.T @ (turned / s)) + np.sqrt(variance) * rng.standard_normal(n))


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
    penalty = np.concatenate([[0.01], np.ones(x.shape[1])])[:, None] / n

    def objective(flat: Array) -> tuple[float, Array]:
        b = flat.reshape(d.shape[1], len(present))
        logp = log_softmax(d @ b, axis=1)
        gradient = np.exp(logp)
        gradient[np.arange(n), own] -= 1.0
        value = -float(logp[np.arange(n), own].mean()) + 0.5 * float((penalty * b**2).sum())
        return value, (d.T @ gradient / n + penalty * b).ravel()

    start = np.zeros((d.shape[1], len(present)))
    start[0] = np.log(np.bincount(own) / n)
    fitted = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 500, "gtol": 1e-6}).x.reshape(start.shape)

    def predict(z: Array) -> Array:
        chance = np.zeros((len(z), k))
        chance[:, present] = softmax(design(z) @ fitted, axis=1)
        return chance

    return predict
