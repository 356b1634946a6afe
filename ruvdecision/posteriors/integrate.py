"""Expectations of any function under a normal law: adaptive quadrature for a number, quasi-Monte Carlo for a vector."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..numerics.quadrature import adaptive
from ..protocols import Array, Value

# Beyond 38 standard deviations the density underflows.
_EDGES = np.array([-38.0, -22.0, -12.0, -6.0, -3.0, 0.0, 3.0, 6.0, 12.0, 22.0, 38.0])

SCRAMBLES = 16


def normal_expectation(f: Callable[[Array], Array], mean: Array, sd: Array, at: Array | None) -> Value:
    """E f(mean + sd Z) for arrays of means and sds; ``at`` holds kinks, ``(kinks,) + shape`` or None.

    f takes ``(points,) + shape`` and gives back the same. It is seen out to 38 sds, so that growth like exp(18 z) still
    fits into a float. An infinite sd is taken as the limit of large ones.
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


def scrambled_mean(means: list[Array]) -> Value:
    """Mean over scrambles, with the standard error that their scatter shows."""
    stack = np.stack([np.asarray(m) for m in means])
    return Value(np.asarray(stack.mean(axis=0)), np.asarray(stack.std(axis=0, ddof=1) / np.sqrt(len(stack))))


def limit(evaluate: Callable[[float], Value], infinite: NDArray[np.bool_]) -> Value:
    """The limit of an expectation as the infinite sds grow: itself if it settles, infinity if it grows."""
    with np.errstate(over="ignore", invalid="ignore"):
        first, second = evaluate(1e40), evaluate(1e50)
        grows = infinite & ((second.value > first.value * (1 + 1e-6)) | ~np.isfinite(second.value))
    value = np.where(grows, np.inf, second.value)
    return Value(value, np.where(np.isinf(value), 0.0, second.error))
