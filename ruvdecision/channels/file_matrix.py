"""A matrix over whole files of categories: the one step that looks at all records at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import as_float_array
from ..errors import InputError
from ..numerics.counts import compositions
from ..protocols import Array
from .steps import Step

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class FileMatrix(Step):
    """One output for the whole file, drawn from the matrix row of what the file is.

    A file is told by the outcomes of the ``followed`` rows and by how many of the other records have each outcome.
    Files are numbered with the outcomes of ``followed`` first (the last runs fastest), then the counts as
    `compositions` lists them.
    """

    matrix: Array
    outputs: tuple[Any, ...]
    outcomes: int
    records: int
    followed: tuple[int, ...] = ()

    def index(self, codes: Ints, counts: Ints) -> Ints:
        """Number of every file, from the outcomes of the followed rows (a column each) and the counts of the others."""
        place = self._position_of_counts
        followed = np.zeros(len(counts), dtype=np.int64)
        for column in np.asarray(codes).reshape(len(counts), -1).T:
            followed = followed * self.outcomes + column
        return followed * len(place) + np.array([place[c] for c in map(tuple, counts.tolist())], dtype=np.int64)

    def index_of(self, codes: Ints) -> int:
        """Number of one file, from the outcome of every record."""
        others = np.delete(codes, list(self.followed))
        counts = np.bincount(others, minlength=self.outcomes)
        return int(self.index(codes[list(self.followed)][None], counts[None])[0])

    @cached_property
    def _position_of_counts(self) -> dict[tuple[int, ...], int]:
        listed = compositions(self.records - len(self.followed), self.outcomes).tolist()
        return {tuple(c): i for i, c in enumerate(listed)}

    def read(self, shown: Any) -> int:
        """Which output a released record shows."""
        shown = as_float_array("The release", shown)
        sizes = {np.size(v) for v in self.outputs}
        if sizes == {len(shown)}:
            gaps = np.abs(np.array([np.atleast_1d(v) for v in self.outputs], dtype=np.float64) - shown).max(axis=1)
        else:
            gaps = np.abs(np.arange(len(self.outputs)) - shown[0])
        if not gaps.min() <= 1e-9 * (1.0 + np.abs(shown).max()):
            raise InputError(
                "The release is none that this mechanism makes", None, "Pass what mask.release(data, rng) gave"
            )
        return int(np.argmin(gaps))
