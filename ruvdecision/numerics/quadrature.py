"""Integrals: one adaptive rule for arrays of them, and the nodes of Gauss's rules, each computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from ..protocols import Array, Value


@lru_cache(maxsize=64)
def gauss_legendre(order: int) -> tuple[Array, Array]:
    """Nodes and weights of Gauss's rule on (-1, 1)."""
    return _read_only(*np.polynomial.legendre.leggauss(order))


@lru_cache(maxsize=64)
def gauss_normal(order: int) -> tuple[Array, Array]:
    """Nodes and weights of Gauss's rule for the mean of a function of a standard normal; the weights sum to one."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    return _read_only(nodes, weights / weights.sum())


def _read_only(nodes: Array, weights: Array) -> tuple[Array, Array]:
    # Everybody gets the same arrays, so nobody may write into them.
    nodes.setflags(write=False)
    weights.setflags(write=False)
    return nodes, weights


# Kronrod's 21 points around Gauss's 10 (Piessens et al., QUADPACK, 1983): the difference is an error for free.
_HALF = np.array([
    0.995657163025808080735527280689003, 0.973906528517171720077964012084452, 0.930157491355708226001207180059508,
    0.865063366688984510732096688423493, 0.780817726586416897063717578345042, 0.679409568299024406234327365114874,
    0.562757134668604683339000099272694, 0.433395394129247190799265943165784, 0.294392862701460198131126603103866,
    0.148874338981631210884826001129720,
])  # fmt: skip
_WEIGHT = np.array([
    0.011694638867371874278064396062192, 0.032558162307964727478818972459390, 0.054755896574351996031381300244580,
    0.075039674810919952767043140916190, 0.093125454583697605535065465083366, 0.109387158802297641899210590325805,
    0.123491976262065851077958109585166, 0.134709217311473325928054001771707, 0.142775938577060080797094273138717,
    0.147739104901338491374841515972068,
])  # fmt: skip
NODES = np.concatenate([-_HALF, [0.0], _HALF[::-1]])
KRONROD = np.concatenate([_WEIGHT, [0.149445554002916905664936468389821], _WEIGHT[::-1]])
GAUSS = np.zeros(21)
GAUSS[1::2] = gauss_legendre(10)[1]


LEAST = 1e-10 * float(np.finfo(float).tiny)
"""An error that no refinement mends: so close to zero numbers have a few digits only."""


def gauss_kronrod(values: Array, half: Array) -> tuple[Array, Array, Array]:
    """Kronrod's sum over each panel, its error by QUADPACK's rule, and its size.

    ``values`` are ``(panels, 21) + shape`` at the nodes, ``half`` the half-widths of the panels, ``(panels,) + shape``.
    """
    flat = values.reshape(len(values), 21, -1)
    kronrod, gauss = ((rule @ flat).reshape(half.shape) * half for rule in (KRONROD, GAUSS))
    size = (KRONROD @ np.abs(flat)).reshape(half.shape) * half
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        error = np.abs(kronrod - gauss)
        # Where Gauss is already close, Kronrod is closer still.
        error = np.where(error > 0, np.minimum(error, size * np.minimum(1.0, (200 * error / size) ** 1.5)), 0.0)
        error = np.where(np.isfinite(error), np.maximum(error - 50 * np.finfo(float).eps * size, 0.0), 0.0)
    return kronrod, error, size


def quad_between(f: Callable[[float], float], points: Sequence[float]) -> float:
    """Integral of a function of one number over the stretches between points, whose ends may be infinite (QUADPACK)."""
    from scipy import integrate

    return float(sum(integrate.quad(f, a, b, limit=400, epsabs=1e-13, epsrel=1e-12)[0] for a, b in pairwise(points)))


def adaptive(
    f: Callable[[Array], Array],
    edges: Array,
    *,
    relative: float = 1e-13,
    absolute: float = 0.0,
    rounds: int = 60,
    budget: int = 4000,
) -> Value:
    """Integrate f over panels between ``edges`` (along the first axis), halving panels until all agree.

    f takes nodes of shape ``(points,) + shape`` and gives back the same shape. Panels are shared by the whole
    array of integrals, their places are not. The error is zero once the rule has converged. ``absolute`` is an error of
    the whole integral that does not matter; a panel may have its share of it. After ``rounds`` halvings or ``budget``
    panels it ends, and what is lacking is the error.

    SciPy's `quad_vec` and `cubature` take one region for all integrals; laws of a batch need panels and kinks of their
    own.
    """
    low, high = edges[:-1], edges[1:]
    total = np.zeros(low.shape[1:])
    lacking = np.zeros(low.shape[1:])
    span = edges[-1] - edges[0]
    settled = np.zeros(low.shape[1:])
    used = 0
    for turn in range(rounds):
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        nodes = middle[:, None] + half[:, None] * NODES.reshape((1, 21) + (1,) * (low.ndim - 1))
        values = f(nodes.reshape((-1,) + low.shape[1:])).reshape(nodes.shape)
        used += len(low)
        kronrod, error, size = gauss_kronrod(values, half)
        scale = settled + np.sum(size, axis=0)
        allowed = np.maximum(relative * scale, LEAST)
        if absolute:
            # A kink keeps the two rules apart, but only in its own ever shorter panel.
            allowed = np.maximum(allowed, absolute * np.maximum(2 * half / span, 1e-3))
        bad = error > allowed
        split = bad.reshape(len(low), -1).any(axis=1)
        if turn == rounds - 1 or used + 2 * split.sum() > budget:
            split[:] = False
            lacking = lacking + np.sum(np.where(bad, error, 0.0), axis=0)
        total = total + np.sum(kronrod[~split], axis=0)
        settled = settled + np.sum(size[~split], axis=0)
        if not split.any():
            break
        low, high = np.concatenate([low[split], middle[split]]), np.concatenate([middle[split], high[split]])
    # What was refined as far as the budget allows but agrees to 1e-10 is as good as exact.
    return Value(np.asarray(total), np.where(lacking > 1e-10 * np.abs(total), lacking, 0.0))
