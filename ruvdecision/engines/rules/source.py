"""Where a snooper's records come from, what the truth is in them, and releases of many replicates at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...beliefs.normal import NormalBelief
from ...channels.steps import About, AddNoise, ClipTo, NoiseKind, resolve
from ...errors import InputError, UnsupportedError
from ...masks.base import Mask
from ...masks.frame import Frame
from ...numerics.semidefinite import symmetric_root
from ...protocols import Array
from ...targets import BaseTarget, Files, flat

Seeds = tuple[np.random.SeedSequence, np.random.SeedSequence, np.random.SeedSequence]


@dataclass(frozen=True, eq=False)
class Drawing:
    """Records of several replicates, shape (replicates, n, k), and what only a belief can tell."""

    records: Array
    mean: Array | None = None
    new: Array | None = None

    def moved(self, by: float) -> Drawing:
        """The same with the population mean elsewhere."""
        return Drawing(
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

    @classmethod
    def of(cls, belief: Any, data: Any) -> Source:
        if data is not None:
            frame = Frame.of(data)
            table, _ = frame.numeric("A Snooper")
            if belief is not None and belief.records != len(table):
                raise InputError(
                    f"data must have {belief.records} records, as the belief says",
                    len(table),
                    "Set records= to the size of the file",
                )
            return cls(len(table), table.shape[1], tuple(frame.columns), frame.kind, data, table, belief)
        if belief is None:
            raise InputError(
                "A snooper needs data or a belief",
                "neither",
                "Pass data= to evaluate, or give the Snooper belief=NormalBelief(...)",
            )
        if isinstance(belief, NormalBelief):
            return cls(
                belief.records,
                belief.k,
                tuple(belief.columns or range(belief.k)),
                "vector" if belief.scalar else "matrix",
                belief=belief,
            )
        shape = np.shape(belief.draw(np.random.default_rng(0)))
        if len(shape) not in (1, 2):
            raise UnsupportedError(
                "A snooper needs records in rows",
                f"a draw of shape {shape}",
                "Use a belief about records, or pass data=",
            )
        k = 1 if len(shape) == 1 else shape[1]
        return cls(shape[0], k, tuple(range(k)), "vector" if len(shape) == 1 else "matrix", belief=belief)

    def frame(self, records: Array) -> pd.DataFrame:
        """Records as a frame whose index tells the rows."""
        return pd.DataFrame(records, columns=pd.Index(self.columns))

    def draw(self, seeds: Sequence[Seeds]) -> Drawing:
        """Records of the replicates with these seeds."""
        if self.table is not None:
            return Drawing(np.broadcast_to(self.table, (len(seeds), self.n, self.k)))
        belief = self.belief
        if not isinstance(belief, NormalBelief):
            drawn = [np.asarray(belief.draw(np.random.default_rng(s[0])), dtype=np.float64) for s in seeds]
            return Drawing(np.stack(drawn).reshape(len(seeds), self.n, self.k))
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
        return Drawing(records, means, new)


def truth_of(target: BaseTarget, drawn: Drawing) -> Array:
    """The target in every replicate, shape (replicates, m)."""

    def plain(values: Array | None) -> Array | None:
        return values if values is None or values.shape[-1] > 1 else values[..., 0]

    records, mean = plain(drawn.records), plain(drawn.mean)
    known = {} if mean is None else {"mu": mean}
    do = "Use a NormalBelief without data. With data, ask for Record(j), Average(), Maximum(), ...; "
    do += 'Parameter("mu") goes with the rule "mean" and Quadratic()'
    return flat(target.in_files(Files(records, known, plain(drawn.new), do)))


# -- additive noise, all replicates at once ------------------------------------------------------------------


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
    def of(cls, mask: Mask, source: Source) -> EntryNoise | None:
        """What a mask does, if it is that alone and does not depend on records still to be drawn; else None."""
        found = resolve(mask, About(source.n, source.columns))
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
            sizes = sizes * step.size.of(source.table)
        place = next(i for i, part in enumerate(mask.parts) if part is found[0].mask)
        ok = np.all(np.isfinite(sizes))
        return cls(step.kind, sizes, lower, upper, (place, len(mask.parts))) if ok else None

    @property
    def draws(self) -> tuple[Any, ...]:
        """What masks must share to use the same standard draws."""
        return (self.kind, self.stream)

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
