"""Brute-force Gaussian conditioning: every matrix written out, no shortcut shared with the package.

Records are stacked record by record, column by column. The joint covariance of (mu, records, release) is formed and
conditioned on the release by the textbook formula.
"""

from __future__ import annotations

import numpy as np

from ruvdecision.masks import Microaggregate, Noise, Release, Suppress


def dense_channel(mask, n, k):
    """A, R and which entries are in the file, from the definition of each mask."""
    a, r, alive = np.eye(n * k), np.zeros((n * k, n * k)), np.ones(n * k, dtype=bool)
    for step in mask.parts:
        if isinstance(step, Release):
            continue
        if isinstance(step, Noise):
            cov = np.zeros((k, k))
            cols = list(range(k)) if step.columns is None else list(step.columns)
            if step.variance is not None:
                part = np.diag(np.broadcast_to(np.asarray(step.variance, float), len(cols)))
            elif step.sd is not None:
                part = np.diag(np.broadcast_to(np.asarray(step.sd, float) ** 2, len(cols)))
            else:
                part = np.asarray(step.covariance)
            cov[np.ix_(cols, cols)] = part
            r = r + np.kron(np.ones((n, n)) if step.common else np.eye(n), cov)
        elif isinstance(step, Suppress):
            rows = range(n) if step.rows is None else [i % n for i in step.rows]
            cols = range(k) if step.columns is None else step.columns
            for i in rows:
                for j in cols:
                    alive[i * k + j] = False
        elif isinstance(step, Microaggregate):
            if isinstance(step.groups, tuple):
                labels = np.asarray(step.groups)
            else:
                sizes = step.sizes(n)
                labels = np.repeat(np.arange(len(sizes)), sizes)
            cols = range(k) if step.columns is None else step.columns
            e = np.eye(n * k)
            for i in range(n):
                for j in cols:
                    if not alive[i * k + j]:
                        continue
                    mates = [m for m in range(n) if labels[m] == labels[i] and alive[m * k + j]]
                    e[i * k + j] = 0
                    for m in mates:
                        e[i * k + j, m * k + j] = 1 / len(mates)
            a, r = e @ a, e @ r @ e.T
        else:
            raise TypeError(step)
    return a, r, alive


def joint(n, spread, doubt):
    """Covariance of (mu, x_1, ..., x_n, new record)."""
    k = len(spread)
    total = np.kron(np.ones((n + 2, n + 2)), doubt)
    for i in range(1, n + 2):
        total[i * k : i * k + k, i * k : i * k + k] += spread
    return total


def condition(mask, n, spread, doubt):
    """Posterior covariance of (mu, x_1, ..., x_n, new) and the gain from the released entries."""
    k = len(spread)
    prior = joint(n, spread, doubt)
    a, r, alive = dense_channel(mask, n, k)
    keep = np.flatnonzero(alive)
    h = np.zeros((len(keep), (n + 2) * k))
    h[:, k : (n + 1) * k] = a[keep]
    v = h @ prior @ h.T + r[np.ix_(keep, keep)]
    gain = prior @ h.T @ np.linalg.pinv(v, rcond=1e-11, hermitian=True) if len(keep) else np.zeros((len(prior), 0))
    return prior - gain @ h @ prior, gain, h, keep
