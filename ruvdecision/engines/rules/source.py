"""Where a snooper's records come from, the truth in them, their releases, and what a rule's estimates cost."""

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
from ...posteriors.base import as_weight_matrix
from ...protocols import Array
from ...running.replication import Seeds
from ...targets import BaseTarget, Files, flat
from ...users.rules import Released, Rule


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
        return flat(target.in_files(Files(records, known, plain(self.new), do)))

    def moved(self, by: float) -> DrawnRecords:
        """The same with the population mean elsewhere."""
        mean, new = (None if known is None else known + by for known in (self.mean, self.new))
        return DrawnRecords(self.records + by, mean, new)


@dataclass(frozen=True, eq=False)
class Source:
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
    def of(cls, belief: Any, data: object) -> Source:
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
        # Under a flat prior the loss does not depend on the mean (`check_flat` sees to it), so any mean will do.
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
    def of(cls, mask: Mask, source: Source) -> EntryNoise | None:
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
            sizes = sizes * step.size.of(source.table)
        place = next(i for i, part in enumerate(mask.parts) if part is found[0].mask)
        ok = np.all(np.isfinite(sizes))
        return cls(step.kind, sizes, lower, upper, (place, len(mask.parts))) if ok else None

    @property
    def draws(self) -> tuple[NoiseKind, tuple[int, int]]:
        """What masks must share to use the same standard draws."""
        return self.kind, self.stream

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


# -- costs -----------------------------------------------------------------------------------------------


def mean_moments(values: Array, overwrite: bool = False) -> Array:
    """Mean and covariance of the mean, estimated from one release each: shape (replicates, k + k * k)."""
    n, k = values.shape[1:]
    with np.errstate(invalid="ignore", divide="ignore"):
        # Sums over a table of one variable are several times faster than the general ones.
        table = values[..., 0] if k == 1 else values
        mean, count = table.sum(axis=1) / n, np.full(len(values), n)
        if not np.isnan(mean).any():
            off = np.subtract(table, mean[:, None], out=table if overwrite else None)
        else:
            present = np.asarray(~np.isnan(values).any(axis=2))
            count = present.sum(axis=1)
            there = present.reshape(table.shape[:2] + (1,) * (k > 1))
            mean = np.where(there, table, 0.0).sum(axis=1) / count.reshape((-1,) + (1,) * (k > 1))
            off = np.where(there, table - mean[:, None], 0.0)
        square = np.einsum("rn,rn->r", off, off) if k == 1 else np.einsum("rna,rnb->rab", off, off)
        covariance = square.reshape(-1, k, k) / ((count - 1) * count)[:, None, None]
        mean = mean.reshape(-1, k)
    return np.concatenate([mean, covariance.reshape(len(values), -1)], axis=1)


def sampling_shares(moments: Array, truth: Array, loss: Any) -> tuple[Array, Array]:
    """Eq. 14 as a mean over replicates: each one's share, and the variance of the mean of means, which is taken off.

    ``moments`` are those of `mean_moments`, (..., replicates, k + k * k), ``truth`` is the mean of the records, (k,).
    """
    k, count = len(truth), moments.shape[-2]
    matrix = as_weight_matrix(loss.weights, (k,))
    mean, sampling = moments[..., :k], moments[..., k:].reshape(*moments.shape[:-1], k, k)
    centre = mean.mean(axis=-2, keepdims=True)
    bias, away = centre - truth, mean - centre
    # bias' W bias plus its first-order change with each replicate: their variance is the error by the delta method.
    shares = np.einsum("...ab,ab->...", sampling, matrix) + np.sum((2 * away + bias) * (bias @ matrix), axis=-1)
    return shares, np.einsum("...ra,ab,...rb->...", away, matrix, away) / (max(count - 1, 1) * count)


def costs(loss: Any, estimates: Array, truth: Array, rule: Rule) -> Array:
    """Loss in every replicate; NaN where there is no estimate."""
    count, m = truth.shape
    lost = np.asarray(np.isnan(estimates).any(axis=1))
    if np.all(lost):
        return np.full(count, np.nan)
    wanted = truth[:, 0] if m == 1 else truth
    given = estimates[:, 0] if estimates.shape[1] == 1 and m == 1 else estimates
    # The rows without an estimate are filled, so that the loss sees numbers only, and marked afterwards.
    filled = np.where(lost[:, None], 0.0, given) if given.ndim == 2 else np.where(lost, 0.0, given)
    try:
        values = np.asarray(
            loss.cost(filled, wanted, m > 1) if hasattr(loss, "cost") else loss(filled, wanted), dtype=np.float64
        )
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        values = np.empty(0)
    if values.shape != (count,):
        check_sizes(estimates.shape[1], m, rule)
        what = f"The loss {loss!r} must give one number per estimate"
        raise InputError(what, f"shape {values.shape}", "Sum over the components")
    return np.where(lost, np.nan, values)


def check_sizes(given: int, wanted: int, rule: Rule) -> None:
    """Refuse a rule that gives more or fewer numbers than the target has."""
    if given != wanted:
        what = f"The rule {rule!r} must give {wanted} number{'s' if wanted > 1 else ''}, as many as the target has"
        raise InputError(what, given, "Use a callable that gives back what the target is, or a Functional target")
