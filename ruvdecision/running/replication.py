"""Random numbers for replicated releases: the same for every mask, whatever runs them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from ..protocols import Array, Value

REPLICATES = 100
"""Releases that are drawn when an uncertainty depends on the release and nothing else was asked for."""

Seeds = tuple[np.random.SeedSequence, np.random.SeedSequence, np.random.SeedSequence]


def replicate_seeds(seed: np.random.SeedSequence | None, count: int | None = None) -> Iterator[Seeds]:
    """Three independent seeds per replicate: for the records, for the mask and for draws from posteriors.

    They depend on the root seed and the replicate's number alone, so that all masks of a map share their random
    numbers and a curve over a parameter is smooth.
    """
    root = np.random.SeedSequence(0) if seed is None else seed
    for r in itertools.count() if count is None else range(count):
        key = (*root.spawn_key, r)
        yield (
            np.random.SeedSequence(root.entropy, spawn_key=(*key, 0)),
            np.random.SeedSequence(root.entropy, spawn_key=(*key, 1)),
            np.random.SeedSequence(root.entropy, spawn_key=(*key, 2)),
        )


def mean_over_replicates(values: Array) -> Array:
    """Mean over the first axis, each entry summed by itself: the same bits whichever masks it is computed with."""
    return np.asarray(np.ascontiguousarray(np.moveaxis(values, 0, -1)).mean(axis=-1))


def replicate_error(values: Array) -> Array:
    """Standard error of that mean, from at least two replicates. A mean that is infinite has none.

    >>> replicate_error(np.array([[1.0, -np.inf], [3.0, -np.inf]]))
    array([1., 0.])
    """
    infinite = np.isinf(values).any(axis=0)
    sd = np.where(infinite, 0.0, values).std(axis=0, ddof=1)
    return np.asarray(sd / np.sqrt(len(values)))


def mean_of_replicates(each: Value) -> Value:
    """Mean of numbers with the error that their spread shows; of a single one its own error."""
    error = replicate_error(each.value) if len(each.value) > 1 else each.error[0]
    return Value(np.asarray(each.value.mean()), np.asarray(error))


class Watched(np.random.Generator):
    """A generator that knows whether it, or one that it spawned for a mask of a chain, was asked for a number."""

    def __init__(self, bits: np.random.BitGenerator) -> None:
        super().__init__(bits)
        self.start = bits.state
        self.children: list[Watched] = []

    def spawn(self, n_children: int) -> list[np.random.Generator]:
        found = [Watched(bits) for bits in self.bit_generator.spawn(n_children)]
        self.children += found
        return [*found]

    @property
    def used(self) -> bool:
        """Whether any number was drawn."""
        return self.bit_generator.state != self.start or any(child.used for child in self.children)
