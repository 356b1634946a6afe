"""Expectations of any function under a normal law: adaptive quadrature for a number, quasi-Monte Carlo for a vector."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..protocols import Array, Value

__all__ = ["adaptive", "limit", "normal_expectation", "sobol_normal"]

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
GAUSS[1::2] = np.polynomial.legendre.leggauss(10)[1]

# Beyond 38 standard deviations the density underflows.
_EDGES = np.array([-38.0, -22.0, -12.0, -6.0, -3.0, 0.0, 3.0, 6.0, 12.0, 22.0, 38.0])

SCRAMBLES = 16


def adaptive(
    f: Callable[[Array], Array], edges: Array, *, relative: float = 1e-13, rounds: int = 60, budget: int = 4000
) -> Value:
    """Integrate f over panels between ``edges`` (along the first axis), halving panels until all agree.

    f takes nodes of shape ``(points,) + shape`` and gives back the same shape. Panels are shared by the whole
    array of integrals, their places are not. The error is zero once the rule has converged.
    """
    low, high = edges[:-1], edges[1:]
    total = np.zeros(low.shape[1:])
    doubt = np.zeros(low.shape[1:])
    settled = np.zeros(low.shape[1:])
    used = 0
    for turn in range(rounds):
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        nodes = middle[:, None] + half[:, None] * NODES.reshape((1, 21) + (1,) * (low.ndim - 1))
        seen = f(nodes.reshape((-1,) + low.shape[1:])).reshape(nodes.shape)
        used += len(low)
        flat = seen.reshape(len(low), 21, -1)
        kronrod, gauss = ((rule @ flat).reshape(low.shape) * half for rule in (KRONROD, GAUSS))
        size = (KRONROD @ np.abs(flat)).reshape(low.shape) * half
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            error = np.abs(kronrod - gauss)
            # QUADPACK's rule: where Gauss is already close, Kronrod is closer still.
            error = np.where(error > 0, np.minimum(error, size * np.minimum(1.0, (200 * error / size) ** 1.5)), 0.0)
            error = np.where(np.isfinite(error), np.maximum(error - 50 * np.finfo(float).eps * size, 0.0), 0.0)
        scale = settled + np.sum(size, axis=0)
        bad = error > relative * scale
        split = bad.reshape(len(low), -1).any(axis=1)
        if turn == rounds - 1 or used + 2 * split.sum() > budget:
            split[:] = False
            doubt = doubt + np.sum(np.where(bad, error, 0.0), axis=0)
        total = total + np.sum(kronrod[~split], axis=0)
        settled = settled + np.sum(size[~split], axis=0)
        if not split.any():
            break
        low, high = np.concatenate([low[split], middle[split]]), np.concatenate([middle[split], high[split]])
    # What was refined as far as the budget allows but agrees to 1e-10 is as good as exact.
    return Value(np.asarray(total), np.where(doubt > 1e-10 * np.abs(total), doubt, 0.0))


def normal_expectation(f: Callable[[Array], Array], mean: Array, sd: Array, at: Array | None) -> Value:
    """E f(mean + sd Z) for arrays of means and sds; ``at`` holds kinks, ``(kinks,) + shape`` or None.

    f takes ``(points,) + shape`` and gives back the same. It is seen out to 38 sds, so that growth like exp(18 z) still fits
    into a float. An infinite sd is taken as the limit of large ones.
    """
    shape = np.broadcast_shapes(mean.shape, sd.shape)
    if np.any(np.isinf(sd)):
        return limit(
            lambda big: normal_expectation(f, mean, np.where(np.isinf(sd), big, sd), at),
            np.broadcast_to(np.isinf(sd), shape),
        )
    edges = np.broadcast_to(_EDGES.reshape((-1,) + (1,) * len(shape)), (len(_EDGES),) + shape)
    if at is not None:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            kinks = (at - mean) / sd
        kinks = np.clip(np.where(np.isfinite(kinks), kinks, 0.0), _EDGES[0], _EDGES[-1])
        edges = np.sort(np.concatenate([edges, np.broadcast_to(kinks, kinks.shape[:1] + shape)]), axis=0)

    def integrand(z: Array) -> Array:
        density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
        return np.asarray(f(mean + sd * z)) * density

    value = adaptive(integrand, edges)
    if np.any(sd == 0):
        point = np.asarray(f(np.broadcast_to(mean, shape)[None]))[0]
        value = Value(np.where(sd == 0, point, value.value), np.where(sd == 0, 0.0, value.error))
    return value


@lru_cache(maxsize=64)
def sobol_normal(size: int, points: int) -> Array:
    """Scrambled Sobol points turned normal, ``(scrambles, points, size)``, always the same ones."""
    from scipy import special
    from scipy.stats import qmc

    blocks = []
    for scramble in range(SCRAMBLES):
        uniform = qmc.Sobol(size, scramble=True, rng=np.random.default_rng([20020501, size, scramble])).random(points)
        blocks.append(special.ndtri(np.clip(uniform, 2.0**-40, 1 - 2.0**-40)))
    block = np.stack(blocks)
    block.setflags(write=False)
    return block


def scrambled_mean(means: list[Any]) -> Value:
    """Mean over scrambles, with the standard error that their scatter shows."""
    stack = np.stack([np.asarray(m) for m in means])
    return Value(np.asarray(stack.mean(axis=0)), np.asarray(stack.std(axis=0, ddof=1) / np.sqrt(len(stack))))


def limit(evaluate: Callable[[float], Value], infinite: Any) -> Value:
    """The limit of an expectation as the infinite sds grow: itself if it settles, infinity if it grows."""
    with np.errstate(over="ignore", invalid="ignore"):
        first, second = evaluate(1e40), evaluate(1e50)
        grows = infinite & ((second.value > first.value * (1 + 1e-6)) | ~np.isfinite(second.value))
    value = np.where(grows, np.inf, second.value)
    return Value(value, np.where(np.isinf(value), 0.0, second.error))
