"""Where a snooper's records come from, what the truth is in them, and releases of many replicates at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...beliefs.normal import NormalBelief
from ...errors import InputError, UnsupportedError
from ...masks.base import Mask
from ...masks.frame import Frame
from ...masks.noise import Noise
from ...masks.noisekind import draw
from ...masks.noisesize import evaluate, is_per_record
from ...numerics.semidefinite import symmetric_root
from ...protocols import Array
from ...targets import BaseTarget, Files, flat

__all__ = ["Drawing", "Source", "add_noise", "draw_noise", "noise_law", "noise_sizes", "truth_of"]

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
        root = symmetric_root(belief.spread)
        # Under a flat prior the loss does not depend on the mean (`check_flat` sees to it), so any mean will do.
        prior = np.zeros((self.k, self.k)) if belief.doubt is None else symmetric_root(belief.doubt)
        means = np.empty((len(seeds), self.k))
        for i, (for_data, _, for_new) in enumerate(seeds):
            rng = np.random.default_rng(for_data)
            means[i] = belief.centre + rng.standard_normal(self.k) @ prior
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


def noise_law(mask: Mask) -> Any:
    """What masks must share to use the same standard draws; None if the mask is not plain noise record by record."""
    if (
        not isinstance(mask, Noise)
        or mask.unit not in ("variance", "sd")
        or mask.columns is not None
        or mask.common
        or mask.keep_moments
    ):
        return None
    if isinstance(mask.lower, tuple) or isinstance(mask.upper, tuple):
        return None
    return (mask.kind, mask.df, mask.weights, mask.centres)


def noise_sizes(mask: Any, table: Array | None, n: int, k: int) -> Array | None:
    """Standard deviation of every entry, (n or 1, k); None if it is infinite or depends on records that are still to be drawn."""
    value = getattr(mask, mask.unit)
    if table is None and (callable(value) or callable(mask.where)):
        return None
    if callable(value):
        assert table is not None
        spread = evaluate(mask.unit, value, table)
    elif is_per_record(value, n, k):
        spread = np.asarray(value, dtype=np.float64).reshape(n, -1)
        if spread.shape[1] not in (1, k):
            return None  # mask.release says what is wrong
    else:
        spread = np.diag(mask.matrix(k))[None] if mask.unit == "variance" else np.sqrt(np.diag(mask.matrix(k)))[None]
    if mask.unit == "variance":
        spread = np.sqrt(spread)
    if mask.where is not None:
        chosen = mask._chosen(np.zeros((n, k)) if table is None else table)
        spread = spread * np.sqrt(np.where(chosen, float(mask.times or 1.0), 1.0))
    return spread if np.all(np.isfinite(spread)) else None


def draw_noise(law: Any, n: int, k: int, seeds: Sequence[Seeds]) -> Array:
    """Standard draws ``(replicates, n, k)``, the very ones that ``mask.release`` would use with these seeds."""
    kind, df, weights, centres = law
    return np.stack([draw(kind, (n, k), np.random.default_rng(s[1]), df, weights, centres) for s in seeds])


def add_noise(mask: Any, records: Array, draws: Array, sizes: Array) -> Array:
    """Released values of several replicates, cut off at the mask's bounds."""
    released = draws * sizes
    released += records
    if mask.lower is not None or mask.upper is not None:
        np.clip(released, mask.lower, mask.upper, out=released)
    return released
