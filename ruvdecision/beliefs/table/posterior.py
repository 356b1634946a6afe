"""The posterior of a whole table when there are too many tables to list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ...errors import UnsupportedError
from ...posteriors import BasePosterior, Drawn
from ...protocols import Array, Posterior, Value
from .completions import Completions

DRAWS = 4000


@dataclass(frozen=True, eq=False, repr=False)
class TablePosterior(BasePosterior):
    """The law of all cells of a table at once, ``event = (cells,)``, without a list of the tables.

    What concerns each cell apart comes from the laws of the cells; entropy, moments and the most probable table
    come from counting; other joint questions are answered by draws, with their error.
    """

    completions: Completions
    cells: Sequence[Posterior]
    seed: int

    def __repr__(self) -> str:
        return f"TablePosterior(cells={len(self.cells)}, {'exact' if self.completions.exact else 'sampled'})"

    def __post_init__(self) -> None:
        self.__dict__["event"] = (len(self.cells),)

    @property
    def support(self) -> Array | None:
        """Distinct tables that were drawn: all of them are too many to list."""
        return self._tables.support

    # -- from counting -----------------------------------------------------------------------------------

    def mean(self) -> Array:
        return np.stack([c.mean() for c in self.cells])

    def var(self) -> Array:
        return np.stack([c.var() for c in self.cells])

    def cov(self) -> Array:
        return self.completions.moments()[1] if self.completions.exact else self._tables.cov()

    def entropy(self) -> Value:
        return self.completions.entropy()

    def mode(self, width: ArrayLike = 0.0) -> Array:
        if np.any(np.asarray(width) >= 1):
            return self._tables.mode(width)
        if not self.completions.exact:
            raise UnsupportedError(
                "The most probable table needs exact counting", do="Raise limit=, or use LogScore or Quadratic"
            )
        return self.completions.best().astype(np.float64)

    def log_density(self, at: ArrayLike) -> Array:
        """Log probability of whole tables; minus infinity for tables that do not agree with what is known."""
        at = np.asarray(at, dtype=np.float64)
        whole = np.rint(at)
        agrees = np.all((at == whole) & (at >= 0), axis=-1) & np.all(
            np.maximum(whole, 0) @ self.completions.matrix.T == self.completions.sums, axis=-1
        )
        logs = self.completions.log_weight(np.maximum(whole, 0).astype(np.int64)) - float(
            self.completions.log_total.value
        )
        return np.where(agrees, logs, -np.inf)

    def outside(self, at: ArrayLike, width: ArrayLike) -> Value:
        width = np.asarray(width, dtype=np.float64)
        if np.any(width >= 0.5):
            return self._tables.outside(at, width)
        near = np.rint(np.asarray(at, dtype=np.float64))
        close = np.all(np.abs(near - at) <= width, axis=-1)
        chance = np.where(close, np.exp(self.log_density(near)), 0.0)
        return Value(1.0 - chance, chance * float(self.completions.log_total.error))

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        return self.completions.sample(size, rng).astype(np.float64)

    def quadratic(self, weights: ArrayLike = 1.0) -> Value:
        if not self.completions.exact:
            return self._tables.quadratic(weights)
        w = np.asarray(weights, dtype=np.float64)
        if w.ndim < 2:
            return Value.exact(np.sum(np.broadcast_to(w, self.event) * self.var()))
        return Value.exact(np.sum(w * self.cov()))

    # -- each cell apart ---------------------------------------------------------------------------------

    def quantile(self, q: float) -> Array:
        return np.stack([c.quantile(q) for c in self.cells])

    def upper_quantile(self, tail: float) -> Array:
        return np.stack([c.upper_quantile(tail) for c in self.cells])

    def cdf(self, at: ArrayLike) -> Array:
        return self._apart(lambda c, a: Value.exact(c.cdf(a)), at).value

    def below(self, at: ArrayLike) -> Value:
        return self._apart(lambda c, a: c.below(a), at)

    def above(self, at: ArrayLike) -> Value:
        return self._apart(lambda c, a: c.above(a), at)

    def power(self, at: ArrayLike, p: float, *, signed: bool = False) -> Value:
        return self._apart(lambda c, a: c.power(a, p, signed=signed), at)

    def huber(self, at: ArrayLike, delta: float) -> Value:
        return self._apart(lambda c, a: c.huber(a, delta), at)

    def log_mgf(self, t: float, *, centred: bool = False) -> Value:
        return _stack([c.log_mgf(t, centred=centred) for c in self.cells])

    def mean_difference(self) -> Value:
        return _stack([c.mean_difference() for c in self.cells])

    # -- by draws ----------------------------------------------------------------------------------------

    def expect(self, f: Callable[[Array], Array], at: ArrayLike | None = None) -> Value:
        return self._tables.expect(f, at)

    @cached_property
    def _tables(self) -> Drawn:
        if self.completions.exact:
            return Drawn(self.completions.sample(DRAWS, np.random.default_rng([self.seed, 3])), discrete=True)
        tables, log_weights = self.completions.weighted()
        return Drawn(tables, np.exp(log_weights - log_weights.max()), discrete=True)

    def _apart(self, question: Callable[[Posterior, Array], Value], at: ArrayLike) -> Value:
        at = np.asarray(at, dtype=np.float64)
        at = np.broadcast_to(at, np.broadcast_shapes(at.shape, self.event))
        return _stack([question(c, at[..., i]) for i, c in enumerate(self.cells)])


def _stack(parts: Sequence[Value]) -> Value:
    return Value(
        np.stack([p.value for p in parts], axis=-1),
        np.stack([np.broadcast_to(p.error, np.shape(p.value)) for p in parts], axis=-1),
    )
