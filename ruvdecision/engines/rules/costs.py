"""What a rule's estimates cost: the loss in every replicate, and equation 14 from the moments of releases."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import InputError
from ...losses.base import is_bayes_loss
from ...posteriors.base import as_weight_matrix
from ...protocols import Array
from ...users.rules import Rule


def mean_moments(values: Array) -> Array:
    """Mean and covariance of the mean, estimated from one release each: shape (replicates, k + k * k)."""
    n, k = values.shape[1:]
    with np.errstate(invalid="ignore", divide="ignore"):
        # Sums over a table of one variable are several times faster than the general ones.
        table = values[..., 0] if k == 1 else values
        mean, count = table.sum(axis=1) / n, np.full(len(values), n)
        if not np.isnan(mean).any():
            off = table - mean[:, None]
        else:
            present = np.asarray(~np.isnan(values).any(axis=2))
            count = present.sum(axis=1)
            there = present.reshape(table.shape[:2] + (1,) * (k > 1))
            mean = np.where(there, table, 0.0).sum(axis=1) / count.reshape((-1,) + (1,) * (k > 1))
            off = np.where(there, table - mean[:, None], 0.0)
        square = np.einsum("rn,rn->r", off, off) if k == 1 else np.einsum("rna,rnb->rab", off, off)
        covariance = square.reshape(-1, k, k) / ((count - 1) * count)[:, None, None]
        mean = mean.reshape(-1, k)
    return np.concatenate([mean, covariance.reshape(len(values), -1)], axis=1)


def sampling_shares(moments: Array, truth: Array, loss: Any) -> tuple[Array, Array]:
    """Eq. 14 as a mean over replicates: each one's share, and the variance of the mean of means, which is taken off.

    ``moments`` are those of `mean_moments`, (..., replicates, k + k * k), ``truth`` is the mean of the records, (k,).
    """
    k, count = len(truth), moments.shape[-2]
    matrix = as_weight_matrix(loss.weights, (k,))
    mean, sampling = moments[..., :k], moments[..., k:].reshape(*moments.shape[:-1], k, k)
    centre = mean.mean(axis=-2, keepdims=True)
    bias, away = centre - truth, mean - centre
    # bias' W bias plus its first-order change with each replicate: their variance is the error by the delta method.
    shares = np.einsum("...ab,ab->...", sampling, matrix) + np.sum((2 * away + bias) * (bias @ matrix), axis=-1)
    return shares, np.einsum("...ra,ab,...rb->...", away, matrix, away) / (max(count - 1, 1) * count)


def costs_of_estimates(loss: Any, estimates: Array, truth: Array, rule: Rule) -> Array:
    """Loss in every replicate; NaN where there is no estimate."""
    count, m = truth.shape
    lost = np.asarray(np.isnan(estimates).any(axis=1))
    if np.all(lost):
        return np.full(count, np.nan)
    wanted = truth[:, 0] if m == 1 else truth
    given = estimates[:, 0] if estimates.shape[1] == 1 and m == 1 else estimates
    # The rows without an estimate are filled, so that the loss sees numbers only, and marked afterwards.
    filled = np.where(lost[:, None], 0.0, given) if given.ndim == 2 else np.where(lost, 0.0, given)
    try:
        values = np.asarray(
            loss.cost(filled, wanted, m > 1) if is_bayes_loss(loss) else loss(filled, wanted), dtype=np.float64
        )
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        values = np.empty(0)
    if values.shape != (count,):
        check_sizes(estimates.shape[1], m, rule)
        what = f"The loss {loss!r} must give one number per estimate"
        raise InputError(what, f"shape {values.shape}", "Sum over the components")
    return np.where(lost, np.nan, values)


def check_sizes(given: int, wanted: int, rule: Rule) -> None:
    """Refuse a rule that gives more or fewer numbers than the target has."""
    if given != wanted:
        what = f"The rule {rule!r} must give {wanted} number{'s' if wanted > 1 else ''}, as many as the target has"
        raise InputError(what, given, "Use a callable that gives back what the target is, or a Functional target")
