"""Gaussian conditioning with two hundred digits: every covariance written out, no formula shared with the package.

Floats become decimals exactly. A mask is applied to the covariances step by step, as its definition says, and the
targets are conditioned on what is left by elimination with the largest pivot first. A flat prior is a prior of variance
1e90.
"""

from __future__ import annotations

import decimal
from decimal import Decimal

import numpy as np

from ruvdecision.masks import Microaggregate, Noise, Release, Suppress

decimal.getcontext().prec = 200
NOTHING = Decimal("1e-150")
FLAT = Decimal("1e90")


class Draws:
    """Noise of a covariance given in decimals, which no mask takes."""

    unit, columns = "covariance", None

    def __init__(self, covariance, common):
        self.covariance, self.common = covariance, common


def exactly(x):
    """An array of decimals with exactly the values of the floats."""
    array = np.asarray(x)
    out = np.empty(array.shape, dtype=object)
    for index in np.ndindex(array.shape):
        value = array[index]
        out[index] = value if isinstance(value, Decimal) else Decimal(float(value))
    return out


def zeros(*shape):
    return np.full(shape, Decimal(0), dtype=object)


def matrix(x, k):
    """A number times the identity, a diagonal or a matrix, as a k by k matrix of decimals."""
    x = exactly(x)
    if x.ndim == 2:
        return x
    out = zeros(k, k)
    for i in range(k):
        out[i, i] = x.item() if x.ndim == 0 else x[i]
    return out


def prior_covariance(n, spread, doubt):
    """Covariance of (mu, x_1, ..., x_n, a new record)."""
    k = len(spread)
    total = np.tile(doubt, (n + 2, n + 2))
    for i in range(1, n + 2):
        total[i * k : i * k + k, i * k : i * k + k] += spread
    return total


def apply(mask, cross, own, n, k):
    """What the steps of a mask make of Cov(file, state) and Cov(file).

    Gives back both for the entries still in the file.
    """
    alive = np.ones((n, k), dtype=bool)
    for step in mask.parts:
        if isinstance(step, Release):
            continue
        if isinstance(step, (Noise, Draws)):
            chosen = list(range(k)) if step.columns is None else list(step.columns)
            size = getattr(step, step.unit)
            part = matrix(np.asarray(size), len(chosen))
            if step.unit == "sd":
                part = part @ part
            for i in range(n):
                for j in range(n) if step.common else [i]:
                    own[np.ix_([i * k + c for c in chosen], [j * k + c for c in chosen])] += part
        elif isinstance(step, Suppress):
            rows = range(n) if step.rows is None else [i % n for i in step.rows]
            columns = range(k) if step.columns is None else step.columns
            for i in rows:
                alive[i, list(columns)] = False
        elif isinstance(step, Microaggregate):
            sizes = step.sizes(n) if not isinstance(step.groups, tuple) else None
            labels = np.asarray(step.groups) if sizes is None else np.repeat(np.arange(len(sizes)), sizes)
            for j in range(k) if step.columns is None else step.columns:
                for label in np.unique(labels):
                    group = [i * k + j for i in range(n) if labels[i] == label and alive[i, j]]
                    if group:
                        share = Decimal(len(group))
                        cross[group] = cross[group].sum(axis=0) / share
                        own[group] = own[group].sum(axis=0) / share
                        own[:, group] = (own[:, group].sum(axis=1) / share)[:, None]
        else:
            raise TypeError(step)
    seen = np.flatnonzero(alive.ravel())
    return cross[seen], own[np.ix_(seen, seen)]


def condition(prior, cross, own):
    """Cov(state | file), by elimination of the file's entries, the largest first.

    Entries that repeat others add nothing.
    """
    prior, cross, own = prior.copy(), cross.copy(), own.copy()
    size = [own[i, i] for i in range(len(own))]
    left = list(range(len(own)))
    while left:
        pivot = max(left, key=lambda i: own[i, i] / size[i] if size[i] else Decimal(0))
        left.remove(pivot)
        variance = own[pivot, pivot]
        if not size[pivot] or variance <= NOTHING * size[pivot]:
            break
        row, share = cross[pivot].copy(), own[:, pivot] / variance
        for i in left:
            if share[i]:
                cross[i] = cross[i] - share[i] * row
                own[i] = own[i] - share[i] * own[pivot]
        prior = prior - np.outer(row / variance, row)
    return prior


def posterior(mask, n, spread, doubt):
    """Covariance of (mu, x_1, ..., x_n, a new record) given the release; ``doubt`` may be "flat"."""
    spread = exactly(np.atleast_2d(spread))
    k = len(spread)
    prior = prior_covariance(n, spread, matrix(FLAT, k) if isinstance(doubt, str) else matrix(doubt, k))
    inside = slice(k, (n + 1) * k)
    return condition(prior, *apply(mask, prior[inside].copy(), prior[inside, inside].copy(), n, k))


def summed(posterior_covariance, n, k, weights=None):
    """U of the quadratic loss for every basic target, from the covariance of (mu, x_1, ..., x_n, a new record)."""
    weights = matrix(1.0, k) if weights is None else exactly(weights)
    block = lambda i, j: posterior_covariance[i * k : i * k + k, j * k : j * k + k]  # noqa: E731
    trace = lambda c: sum((weights * c).ravel(), Decimal(0))  # noqa: E731
    rows = range(1, n + 1)
    found = {
        "mu": trace(block(0, 0)),
        "new": trace(block(n + 1, n + 1)),
        "first": trace(block(1, 1)),
        "last": trace(block(n, n)),
    }
    found["all"] = sum((trace(block(i, i)) for i in rows), Decimal(0))
    found["average"] = sum((trace(block(i, j)) for i in rows for j in rows), Decimal(0)) / Decimal(n) ** 2
    found["gap"] = trace(block(1, 1) + block(0, 0) - block(0, 1) - block(1, 0))
    return found


def large_file(n, size, spread, doubt, noise, *, averaged, common=0.0):
    """U of the quadratic loss for a file of n records with noise on each, averaged in groups of ``size`` or not.

    The file is put down to the first record, the mean of the others of its group and the mean of all other groups:
    given the population mean the rest tells nothing more.
    """
    spread, noise, common = (
        exactly(np.atleast_2d(spread)),
        exactly(np.atleast_2d(noise)),
        exactly(np.atleast_2d(common)),
    )
    k = len(spread)
    doubt = matrix(FLAT, k) if isinstance(doubt, str) else matrix(doubt, k)
    counts = [Decimal(c) for c in (1, size - 1, n - size) if c]
    parts = len(counts)
    prior = np.tile(doubt, (parts + 2, parts + 2))
    own = np.tile(doubt + common, (parts, parts))
    for i, count in enumerate(counts):
        at, place = slice((i + 1) * k, (i + 2) * k), slice(i * k, i * k + k)
        prior[at, at] += spread / count
        own[place, place] += (spread + noise) / count
    last = slice((parts + 1) * k, None)
    prior[last, last] += spread
    cross = prior[k : (parts + 1) * k].copy()
    if averaged and size > 1:
        turn = zeros((parts - 1) * k, parts * k)
        for j in range(k):
            turn[j, j], turn[j, k + j] = 1 / Decimal(size), Decimal(size - 1) / Decimal(size)
            for i in range(1, parts - 1):
                turn[i * k + j, (i + 1) * k + j] = Decimal(1)
        cross, own = turn @ cross, turn @ own @ turn.T
    left = condition(prior, cross, own)
    block = lambda i, j: left[i * k : i * k + k, j * k : j * k + k]  # noqa: E731
    trace = lambda c: sum((c[j, j] for j in range(k)), Decimal(0))  # noqa: E731
    pairs = [(i, j) for i in range(parts) for j in range(parts)]
    average = sum((counts[i] * counts[j] * trace(block(i + 1, j + 1)) for i, j in pairs), Decimal(0)) / Decimal(n) ** 2
    return {
        "mu": trace(block(0, 0)),
        "first": trace(block(1, 1)),
        "new": trace(block(parts + 1, parts + 1)),
        "average": average,
    }


def error(got, want):
    """Relative error of a float against a decimal; exact zero and infinity must be met exactly."""
    if abs(want) < Decimal("1e-100"):
        return 0.0 if got == 0 else np.inf
    if want > Decimal("1e80"):
        return 0.0 if got == np.inf else np.inf
    if not np.isfinite(got):
        return np.inf
    return float(abs(Decimal(float(got)) - want) / abs(want))


def nudged(x, rng):
    """The same numbers, each moved by about half a unit in the last place of a double; symmetric matrices stay so."""
    if isinstance(x, str) or np.ndim(x) < 2:
        return x
    z = np.triu(rng.standard_normal(np.shape(x)))
    moved = exactly(x)
    return moved + moved * exactly(z + np.triu(z, 1).T) * Decimal(2) ** -53
