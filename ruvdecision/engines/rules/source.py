"""Where a snooper's records come from, and what the truth is in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...beliefs.normal import NormalBelief
from ...errors import InputError, UnsupportedError
from ...masks.frame import Frame
from ...numerics.semidefinite import symmetric_root
from ...protocols import Array
from ...targets import BaseTarget, Files, flat

Seeds = tuple[np.random.SeedSequence, np.random.SeedSequence, np.random.SeedSequence]


@dataclass(frozen=True, eq=False)
class DrawnRecords:
    """Records of several replicates, shape (replicates, n, k), and what only a belief can tell."""

    records: Array
    mean: Array | None = None
    new: Array | None = None

    def moved(self, by: float) -> DrawnRecords:
        """The same with the population mean elsewhere."""
        return DrawnRecords(
            self.records + by,
            None if self.mean is None else self.mean + by,
            None if self.new is None else self.new + by,
        )


@dataclass(frozen=True, eq=False)
class Source:
    """Records at hand, or a belief to draw them from."""

    n: int
    k: int
    columns: tuple[Any, ...]
    kind: str
    """What a release looks like: "vector", "matrix", "series" or "frame"."""
    given: Any = None
    """The data as they were given, if any."""
    table: Array | None = None
    belief: Any = None
    normal: NormalBelief | None = None
    """The belief if it is a normal one and the records come from it."""

    @classmethod
    def of(cls, belief: Any, data: Any) -> Source:
        if data is not None:
            frame = Frame.of(data)
            table, _ = frame.numeric("A Snooper")
            if belief is not None and belief.records != len(table):
                what = f"data must have {belief.records} records, as the belief says"
                raise InputError(what, len(table), "Set records= to the size of the file")
            return cls(len(table), table.shape[1], tuple(frame.columns), frame.kind, data, table, belief)
        if belief is None:
            do = "Pass data= to evaluate, or give the Snooper belief=NormalBelief(...)"
            raise InputError("A snooper needs data or a belief", "neither", do)
        if isinstance(belief, NormalBelief):
            names, kind = tuple(belief.columns or range(belief.k)), "vector" if belief.scalar else "matrix"
            return cls(belief.records, belief.k, names, kind, belief=belief, normal=belief)
        shape = np.shape(belief.draw(np.random.default_rng(0)))
        if len(shape) not in (1, 2):
            do = "Use a belief about records, or pass data="
            raise UnsupportedError("A snooper needs records in rows", f"a draw of shape {shape}", do)
        k = 1 if len(shape) == 1 else shape[1]
        return cls(shape[0], k, tuple(range(k)), "vector" if len(shape) == 1 else "matrix", belief=belief)

    @property
    def vector(self) -> bool:
        """Whether a release is one variable without a name."""
        return self.kind == "vector"

    def frame(self, records: Array) -> pd.DataFrame:
        """Records as a frame whose index tells the rows."""
        return pd.DataFrame(records, columns=pd.Index(self.columns))

    def draw(self, seeds: Sequence[Seeds]) -> DrawnRecords:
        """Records of the replicates with these seeds."""
        if self.table is not None:
            return DrawnRecords(np.broadcast_to(self.table, (len(seeds), self.n, self.k)))
        belief = self.normal
        if belief is None:
            drawn = [np.asarray(self.belief.draw(np.random.default_rng(s[0])), dtype=np.float64) for s in seeds]
            return DrawnRecords(np.stack(drawn).reshape(len(seeds), self.n, self.k))
        records, new = np.empty((len(seeds), self.n, self.k)), np.empty((len(seeds), self.k))
        root = symmetric_root(belief.record_covariance)
        # Under a flat prior the loss does not depend on the mean (`check_flat` sees to it), so any mean will do.
        prior = np.zeros((self.k, self.k)) if belief.mu_covariance is None else symmetric_root(belief.mu_covariance)
        means = np.empty((len(seeds), self.k))
        for i, (for_data, _, for_new) in enumerate(seeds):
            rng = np.random.default_rng(for_data)
            means[i] = belief.mu_mean + rng.standard_normal(self.k) @ prior
            records[i] = means[i] + rng.standard_normal((self.n, self.k)) @ root
            new[i] = means[i] + np.random.default_rng(for_new).standard_normal(self.k) @ root
        return DrawnRecords(records, means, new)


def released_rows(release: pd.DataFrame, n: int, who: str) -> Array:
    """Released values in the order of the rows; rows that a sample left out are missing."""
    try:
        values = release.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):  # a mask that turned numbers into words
        values, _ = Frame.of(release).numeric(who, missing=True)
    labels = release.index.to_numpy()
    if len(labels) < n and np.issubdtype(labels.dtype, np.integer) and len(np.unique(labels)) == len(labels):
        whole = np.full((n, values.shape[1]), np.nan)
        whole[labels] = values
        return whole
    return values


def truth_of(target: BaseTarget, drawn: DrawnRecords) -> Array:
    """The target in every replicate, shape (replicates, m)."""

    def plain(values: Array | None) -> Array | None:
        return values if values is None or values.shape[-1] > 1 else values[..., 0]

    records, mean = plain(drawn.records), plain(drawn.mean)
    known = {} if mean is None else {"mu": mean}
    do = "Use a NormalBelief without data. With data, ask for Record(j), Average(), Maximum(), ...; "
    do += 'Parameter("mu") goes with the rule "mean" and Quadratic()'
    return flat(target.in_files(Files(records, known, plain(drawn.new), do)))
