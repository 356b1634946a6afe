"""Where a snooper's records come from, the truth in them, and their releases."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ...beliefs.normal import NormalBelief
from ...channels.steps import AddNoise, ClipTo, FileFacts, NoiseKind, resolve
from ...errors import InputError, UnsupportedError
from ...masks.base import Mask
from ...masks.frame import Frame
from ...numerics.semidefinite import symmetric_root
from ...protocols import Array
from ...running.replication import Seeds
from ...targets import BaseTarget, Files, flatten_points
from ...users.rules import Released


@dataclass(frozen=True, eq=False)
class DrawnRecords:
    """Records of several replicates, shape (replicates, n, k), and what only a belief can tell."""

    records: Array
    mean: Array | None = None
    new: Array | None = None

    def truth(self, target: BaseTarget) -> Array:
        """A target in every replicate, shape (replicates, m)."""

        def plain(values: Array | None) -> Array | None:
            return values if values is None or values.shape[-1] > 1 else values[..., 0]

        records, mean = plain(self.records), plain(self.mean)
        known = {} if mean is None else {"mu": mean}
        do = "Use a NormalBelief without data. With data, ask for Record(j), Average(), Maximum(), ...; "
        do += 'Parameter("mu") goes with the rule "mean" and Quadratic()'
        return flatten_points(target.in_files(Files(records, known, plain(self.new), do)))

    def moved(self, by: float) -> DrawnRecords:
        """The same with the population mean elsewhere."""
        mean, new = (None if known is None else known + by for known in (self.mean, self.new))
        return DrawnRecords(self.records + by, mean, new)


@dataclass(frozen=True, eq=False)
class RecordSource:
    """Records at hand, or a belief to draw them from."""

    n: int
    k: int
    columns: tuple[Hashable, ...]
    kind: str
    """What a release looks like: "vector", "matrix", "series" or "frame"."""
    given: object = None
    """The data as they were given, if any."""
    table: Array | None = None
    belief: Any = None
    normal: NormalBelief | None = None
    """The belief if it is a normal one and the records come from it."""

    @classmethod
    def of(cls, belief: Any, data: object) -> RecordSource:
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
    def belief_without_law(self) -> NormalBelief:
        """A belief that has the size and the columns of the data; its law is not used."""
        return NormalBelief(records=self.n, covariance=np.eye(self.k), prior="flat", columns=self.columns)

    @property
    def vector(self) -> bool:
        """Whether a release is one variable without a name."""
        return self.kind == "vector"

    def frame(self, records: Array) -> pd.DataFrame:
        """Records as a frame whose index tells the rows."""
        return pd.DataFrame(records, columns=pd.Index(self.columns))

    def rows(self, release: pd.DataFrame, who: str) -> Array:
        """Released values in the order of the rows; rows that a sample left out are missing."""
        try:
            values = release.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):  # a mask that turned numbers into words
            values, _ = Frame.of(release).numeric(who, missing=True)
        labels = release.index.to_numpy()
        if len(labels) < self.n and np.issubdtype(labels.dtype, np.integer) and len(np.unique(labels)) == len(labels):
            whole = np.full((self.n, values.shape[1]), np.nan)
            whole[labels] = values
            return whole
        return values

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
        # Under a flat prior the loss does not depend on the mean, as `SnooperWork` checks, so any mean will do.
        prior = np.zeros((self.k, self.k)) if belief.mu_covariance is None else symmetric_root(belief.mu_covariance)
        means = np.empty((len(seeds), self.k))
        for i, (for_data, _, for_new) in enumerate(seeds):
            rng = np.random.default_rng(for_data)
            means[i] = belief.mu_mean + rng.standard_normal(self.k) @ prior
            records[i] = means[i] + rng.standard_normal((self.n, self.k)) @ root
            new[i] = means[i] + np.random.default_rng(for_new).standard_normal(self.k) @ root
        return DrawnRecords(records, means, new)


# -- releases of many replicates at once --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EntryNoise:
    """Noise on every entry by itself, cut off at bounds: the releases of many replicates can be made at once."""

    kind: NoiseKind
    sizes: Array
    """Standard deviation of every entry, (n or 1, k)."""
    lower: Array
    upper: Array
    stream: tuple[int, int]
    """Which of a chain's masks adds the noise, and how many masks there are: each has a stream of its own."""

    @classmethod
    def of(cls, mask: Mask, source: RecordSource) -> EntryNoise | None:
        """What a mask does, if it is that alone and does not depend on records still to be drawn; else None."""
        found = resolve(mask, FileFacts(source.n, source.columns))
        if not found or not isinstance(found[0].step, AddNoise) or found[0].step.common:
            return None
        step, every = found[0].step, tuple(range(source.k))
        lower, upper = np.full(source.k, -np.inf), np.full(source.k, np.inf)
        for later, _, _ in found[1:]:
            if not isinstance(later, ClipTo) or later.columns != every:
                return None
            # A bound after another: what one sets, the next may set again.
            lower, upper = (np.clip(end, later.lower, later.upper) for end in (lower, upper))
        sizes = step.standard_deviations(source.n)
        if sizes is None or step.columns != every:
            return None
        if step.size is not None:
            if source.table is None:
                return None
            sizes = sizes * step.size.standard_deviations(source.table)
        place = next(i for i, part in enumerate(mask.parts) if part is found[0].mask)
        ok = np.all(np.isfinite(sizes))
        return cls(step.kind, sizes, lower, upper, (place, len(mask.parts))) if ok else None

    def draw(self, n: int, k: int, seeds: Sequence[Seeds]) -> Array:
        """Standard draws ``(replicates, n, k)``, the very ones that ``mask.release`` would use with these seeds."""
        place, masks = self.stream
        streams = (np.random.default_rng(s[1]) for s in seeds)
        return np.stack([self.kind.draw((n, k), r if masks == 1 else r.spawn(masks)[place]) for r in streams])

    def release(self, records: Array, draws: Array, row: int | None = None) -> Array:
        """Released values of several replicates: all rows, or one of them."""
        if row is not None:
            records, draws = records[:, [row]], draws[:, [row]]
        released = draws * (self.sizes if row is None or len(self.sizes) == 1 else self.sizes[[row]])
        released += records
        if np.isfinite(self.lower).any() or np.isfinite(self.upper).any():
            np.clip(released, self.lower, self.upper, out=released)
        return released


class NoisyValues(Released):
    """Records with noise: made when somebody looks, and one row alone where no more is asked."""

    def __init__(self, noise: EntryNoise, records: Array, draws: Array) -> None:
        super().__init__(records)
        self._noise, self._draws = noise, draws

    @cached_property
    def values(self) -> Array:
        return self._noise.release(self._given, self._draws)

    def row(self, place: int) -> Array:
        made = "values" in self.__dict__
        return super().row(place) if made else self._noise.release(self._given, self._draws, place)[:, 0]
