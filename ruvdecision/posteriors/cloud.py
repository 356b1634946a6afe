"""Expectations under many normal laws of one vector at once, by a few quasi-random points for each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy import special

from ..numerics.semidefinite import lower_root
from ..protocols import Array, Value
from . import normal
from .base import BLOCK
from .shapes import shaped

_TURNS = 8
_POINTS = 2**17
_DENSITIES = 2**26


@dataclass(frozen=True, eq=False)
class Cloud:
    """Scrambled Sobol points for every component, shifted by an amount of its own (Cranley and Patterson, 1976).

    With shifts of their own the components' errors average out; without, a few points would err for all alike. Eight
    independent turns show the error that is left.
    """

    weights: Array
    means: Array
    roots: Array
    """Lower triangular roots of the covariances, ``(S, k, k)``."""
    uniform: Array
    """``(turns, points, S, k)``"""

    @classmethod
    def of(cls, weights: Array, means: Array, covs: Array) -> Cloud:
        """Place the points: some hundred thousand in all, at least two in each turn and component."""
        count, k = means.shape
        per = 2 ** max(1, min(12, int(np.log2(_POINTS / (_TURNS * count) + 1))))
        return cls(weights, means, lower_root(covs), _uniform(k, per, count))

    def expect(self, f: Callable[[Array], Array]) -> Value:
        """E f of each component, and the error of their weighted mean."""
        return self._settle(shaped(f(self.theta), self.theta.shape[:1]).reshape(self.uniform.shape[:-1]))

    def outside(self, at: Array, width: Array) -> Value:
        """P(some coordinate is farther than its width from ``at``), one coordinate after the other (Genz, 1992)."""
        k = self.means.shape[1]
        drawn = np.zeros(self.uniform.shape)
        inside = np.zeros(self.uniform.shape[:-1])
        for j in range(k):
            mean = self.means[:, j] - at[j] + np.einsum("tpsi,si->tps", drawn[..., :j], self.roots[:, j, :j])
            sd = np.broadcast_to(self.roots[:, j, j], mean.shape)
            with np.errstate(divide="ignore"):
                inside += np.log1p(-np.minimum(normal.outside(mean, sd, width[j]), 1.0))
            if j == k - 1:
                break
            safe = np.where(sd > 0, sd, 1.0)
            a, b = special.ndtr((-width[j] - mean) / safe), special.ndtr((width[j] - mean) / safe)
            drawn[..., j] = special.ndtri(np.clip(a + self.uniform[..., j] * (b - a), 1e-300, 1 - 1e-16))
        return self._settle(-np.expm1(inside))

    @cached_property
    def minus_log_density(self) -> Value:
        """Mean of minus the log of the averaged density under each component; fewer points will do if they are many."""
        turns, per, count, k = self.uniform.shape
        room = max(2 * count, _DENSITIES // count)
        used = min(turns, room // count)
        keep = min(per, 2 ** int(np.log2(room // (used * count))))
        flat = self.theta.reshape(turns, per, count, k)[:used, :keep].reshape(-1, k)
        values = np.empty(len(flat))
        step = max(1, BLOCK // count)
        for start in range(0, len(flat), step):
            values[start : start + step] = self._log_density(flat[start : start + step])
        return self._settle(-values.reshape(used, keep, count))

    @cached_property
    def theta(self) -> Array:
        """The points, ``(turns * points * S, k)``."""
        z = special.ndtri(self.uniform)
        return np.asarray(self.means + np.einsum("sij,tpsj->tpsi", self.roots, z)).reshape(-1, self.means.shape[1])

    def _settle(self, seen: Array) -> Value:
        """Means over points ``(turns, points, S)`` for each component, and the error of their mean."""
        table = seen.mean(axis=1)
        turns = table @ self.weights
        return Value(np.asarray(table.mean(axis=0)), np.asarray(turns.std(ddof=1) / np.sqrt(len(turns))))

    @cached_property
    def _forms(self) -> tuple[Array, Array, Array]:
        """Mean and scale of the cloud, and each component's log density as a quadratic form in whitened coordinates."""
        centre = self.weights @ self.means
        scale = np.sqrt(self.weights @ (np.square(self.means - centre) + np.sum(np.square(self.roots), axis=-1)))
        means, roots = (self.means - centre) / scale, self.roots / scale[:, None]
        inverse = np.linalg.inv(roots)
        precision = np.swapaxes(inverse, -1, -2) @ inverse
        linear = np.einsum("sij,sj->si", precision, means)
        logdet = np.sum(np.log(np.diagonal(roots, axis1=-2, axis2=-1)), axis=-1) + np.sum(np.log(scale))
        k = means.shape[1]
        with np.errstate(divide="ignore"):
            constant = (
                np.log(self.weights) - 0.5 * k * np.log(2 * np.pi) - logdet - 0.5 * np.einsum("si,si->s", linear, means)
            )
        pairs = np.triu_indices(k)
        square = np.where(pairs[0] == pairs[1], -0.5, -1.0) * precision[:, pairs[0], pairs[1]]
        return centre, scale, np.concatenate([constant[:, None], linear, square], axis=1).T

    def _log_density(self, points: Array) -> Array:
        centre, scale, forms = self._forms
        x = (points - centre) / scale
        pairs = np.triu_indices(x.shape[1])
        # One matrix product gives every component at every point.
        logs = np.concatenate([np.ones((len(x), 1)), x, x[:, pairs[0]] * x[:, pairs[1]]], axis=1) @ forms
        top = np.max(logs, axis=1)
        return np.asarray(top + np.log(np.sum(np.exp(logs - top[:, None]), axis=1)))


@lru_cache(maxsize=8)
def _uniform(k: int, per: int, count: int) -> Array:
    """Points of every turn with the shift of every component, inside the open unit cube; always the same ones."""
    from scipy.stats import qmc

    blocks = []
    for turn in range(_TURNS):
        rng = np.random.default_rng([20020501, k, turn])
        base = qmc.Sobol(k, scramble=True, rng=rng).random_base2(int(np.log2(per)))
        shifts = qmc.Sobol(k, scramble=True, rng=rng).random_base2(int(np.ceil(np.log2(max(2, count)))))[:count]
        blocks.append((base[:, None] + shifts) % 1.0)
    block = np.clip(np.stack(blocks), 2.0**-40, 1 - 2.0**-40)
    block.setflags(write=False)
    return block
