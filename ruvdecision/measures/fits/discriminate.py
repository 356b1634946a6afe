"""Models that tell two files apart: logistic regression on polynomials, and an optimally pruned tree."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from scipy import linalg, special

from ...protocols import Array
from ..kernels import compiled

__all__ = ["design_rows", "logistic_scores", "polynomial", "tree_scores"]


def polynomial(values: Array, degree: int | str) -> Array:
    """Monomials of the columns without the constant: all up to a degree, or those of Woo's models "I" and "II".

    >>> polynomial(np.array([[2.0, 3.0]]), 2).tolist()
    [[2.0, 3.0, 4.0, 6.0, 9.0]]
    """
    return _monomials(np.ascontiguousarray(np.asarray(values, dtype=np.float64).T), degree)[1:].T


def design_rows(pooled: Array, degree: int | str) -> Array:
    """Rows of a constant and of the linearly independent monomials of the columns, centred and scaled."""
    rows = np.ascontiguousarray(pooled.T)
    if degree == "II":
        # Not the same functions about another origin: the raw variables, in their own units.
        rows /= np.maximum(np.abs(rows).max(axis=1), 1e-300)[:, None]
    else:
        # A full polynomial spans the same functions about any origin; about the mean it keeps its digits.
        _standardise(rows)
    work = _monomials(rows, degree)
    terms = work[1:]
    size = _standardise(terms)
    alive = size > 1e-13
    if not alive.all():
        terms = terms[alive]
        work = np.vstack([work[:1], terms])
    n = work.shape[1]
    if len(terms) and (n <= len(terms) or float(np.linalg.eigvalsh(terms @ terms.T / n)[0]) < 1e-8):
        # An orthogonal basis of what is left spans the same functions and keeps the digits.
        q, r, _ = linalg.qr(terms.T, mode="economic", pivoting=True)
        size = np.abs(np.diag(r))
        work = np.vstack([work[:1], q[:, size > 1e-10 * size[0]].T * np.sqrt(n)])
    return work


def logistic_scores(design: Array, source: Any) -> tuple[Array, bool]:
    """Fitted probabilities of a logistic regression, and whether the files can be separated by it.

    ``design`` has one row per coefficient, the first of ones, rows linearly independent. Newton's method that keeps its matrix as long
    as it does its work; separated records tend to 0 and 1.
    """
    y = np.asarray(source, dtype=np.float64)
    n = len(y)
    share = float(y.mean())
    eta = np.full(n, special.logit(share))
    mean = np.full(n, share)
    value = None
    factor, fresh, last, first = None, True, np.inf, True
    for _ in range(300):
        if factor is None:
            if first:
                info = share * (1 - share) * (design @ design.T)
            else:
                root = design * np.sqrt(mean * (1 - mean))
                info = root @ root.T
            # Separated records lose their weight; a touch on the diagonal keeps the steps finite.
            info[np.diag_indices_from(info)] += 1e-13 * np.trace(info) / len(info) + 1e-300
            factor, fresh, first = _factor(info), True, False
        score = design @ (y - mean)
        step = linalg.cho_solve(factor, score, check_finite=False)
        left = float(score @ step)
        if not fresh and left > 0.01 * last:
            # An old matrix that gains less than two digits is worn out.
            factor, last = None, np.inf
            continue
        if left <= 1e-26 * n or (left <= 1e-18 * n and left > 0.01 * last):
            break
        last = left
        move = step @ design
        if max(-float(move.min()), float(move.max())) < 1.0:
            # A Newton step that changes no log odds by more than one cannot overshoot.
            eta, value = eta + move, None
        else:
            value = _deviance(eta, y) if value is None else value
            part = 1.0
            while (found := _deviance(eta + part * move, y)) > value + 1e-13 * n and part > 1e-10:
                part /= 2
            eta, value = eta + part * move, found
        mean = special.expit(eta)
        if value is not None and value < 1e-14 * n:
            break  # separated: nothing is left to gain
        fresh = False
        if left > 1e-3 * n:
            factor = None
    return mean, bool(np.all((eta > 0) == (y > 0.5)) and _deviance(eta, y) < 1e-6 * n)


def tree_scores(
    values: Array, order: Any, source: Any, cp: float, min_split: int = 20, min_leaf: int = 7, max_depth: int = 30
) -> tuple[Array, int]:
    """Scores of the optimally pruned regression tree and its number of leaves; ``order`` sorts each row of ``values``."""
    y = np.asarray(source, dtype=np.float64)
    c = float(y.mean())
    if len(values) == 0:  # files of one category have nothing to split by
        return np.full(len(y), c), 1
    leaf, leaves = compiled("grow_tree")(
        values, order, y, min_split, min_leaf, max_depth, 1e-12 * len(y), cp * len(y) * c * (1 - c)
    )
    return (np.bincount(leaf, weights=y) / np.bincount(leaf))[leaf], int(leaves)


def _factor(info: Array) -> Any:
    touch = 0.0
    while True:
        try:
            return linalg.cho_factor(info + touch * np.eye(len(info)), check_finite=False)
        except linalg.LinAlgError:
            touch = max(10 * touch, 1e-12 * float(np.trace(info)) / len(info) + 1e-300)


def _deviance(eta: Array, y: Array) -> float:
    return float((np.logaddexp(0.0, eta) - y * eta).sum())


def _monomials(rows: Array, degree: int | str) -> Array:
    """A row of ones and the monomials below it."""
    p, n = rows.shape
    top = 2 if isinstance(degree, str) else degree
    terms: list[tuple[int, ...]] = [t for d in range(1, top + 1) for t in combinations_with_replacement(range(p), d)]
    if degree == "II":
        terms += [(i, i, j, j) for i in range(p) for j in range(i + 1, p)] + [(i, i, i) for i in range(p)]
    out = np.empty((len(terms) + 1, n))
    out[0] = 1.0
    place: dict[tuple[int, ...], int] = {(): 0}
    for k, term in enumerate(terms, start=1):
        if term[:-1] in place:
            np.multiply(out[place[term[:-1]]], rows[term[-1]], out=out[k])
        else:
            out[k] = np.prod(rows[list(term)], axis=0)
        place[term] = k
    return out


def _standardise(rows: Array) -> Array:
    """Centre and scale rows in place; returns the sizes they had. Rows without variation are left at zero."""
    rows -= rows.mean(axis=1)[:, None]
    # By the largest first: the squares of tiny numbers would vanish.
    peak = np.maximum(rows.max(axis=1), -rows.min(axis=1))
    rows /= np.where(peak > 0, peak, 1.0)[:, None]
    size = np.sqrt(np.einsum("ij,ij->i", rows, rows) / rows.shape[1])
    rows /= np.where(size > 0, size, 1.0)[:, None]
    return size * peak
