"""How a release comes from finitely many kinds of records: a matrix per kind of row, and who is in the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...beliefs.finite import FiniteBelief
from ...checks import as_float_array, check_columns, check_index
from ...errors import InputError, UnsupportedError
from ...masks import Noise, Release, Shuffle, Subsample, Suppress
from ...masks.base import Mask
from ...masks.stochastic import Stochastic
from ...numerics.semidefinite import symmetric_root
from ...protocols import Array

__all__ = ["FiniteChannel", "Kernel", "Slots"]

Ints = NDArray[np.int64]
STEPS = (Release, Suppress, Stochastic, Noise, Subsample, Shuffle)
KNOWN = "Release, Suppress, Stochastic, PRAM, Recode, Round, Topcode, Bottomcode, Noise, Subsample, Shuffle and chains of them"


@dataclass(frozen=True, eq=False)
class Kernel:
    """The law of what is released of one record.

    ``matrix[i, o]`` is the chance of output o for outcome i. ``outputs`` are tuples with one entry per column, None
    where nothing is released. ``noise`` is the covariance of Gaussian noise on top, None without noise.
    """

    matrix: Array
    outputs: tuple[tuple[Any, ...], ...]
    noise: Array | None = None

    @property
    def silent(self) -> bool:
        """Whether the release tells nothing about the record."""
        return self.blank or (self.noise is None and bool(np.all(self.matrix == self.matrix[:1])))

    @property
    def blank(self) -> bool:
        """Whether nothing at all is released of the record."""
        return all(v is None for output in self.outputs for v in output)

    def levels(self) -> Array:
        """Outputs as numbers, missing where nothing is released."""
        return np.array([[np.nan if v is None else float(v) for v in output] for output in self.outputs])

    def merged(self) -> Kernel:
        """The same law with equal outputs put together."""
        distinct = list(dict.fromkeys(self.outputs))
        if len(distinct) == len(self.outputs):
            return self
        place = {o: i for i, o in enumerate(distinct)}
        matrix = np.zeros((len(self.matrix), len(distinct)))
        for column, output in enumerate(self.outputs):
            matrix[:, place[output]] += self.matrix[:, column]
        return replace(self, matrix=matrix, outputs=tuple(distinct))

    def hide(self, columns: Sequence[int]) -> Kernel:
        """Release nothing of these columns."""
        outputs = tuple(tuple(None if i in columns else v for i, v in enumerate(o)) for o in self.outputs)
        noise = self.noise
        if noise is not None:
            noise = noise.copy()
            noise[list(columns), :] = 0.0
            noise[:, list(columns)] = 0.0
            noise = noise if noise.any() else None
        return replace(self, outputs=outputs, noise=noise).merged()

    def through(self, step: Stochastic, names: tuple[Any, ...]) -> Kernel:
        """Send the output through a further matrix."""
        if self.noise is not None:
            raise UnsupportedError(
                f"{step} needs categories, and noise makes a continuum of them", do="Put Stochastic before Noise"
            )
        # Rows that are already suppressed stay so.
        open_ = [o for o in self.outputs if any(v is not None for v in o)]
        if not open_:
            return self
        table = step.table
        place = {_tuple(n): i for i, n in enumerate(step.inputs if step.inputs is not None else names)}
        if len(place) != len(table):
            raise InputError(
                f"{step.technique} must have one row per category, {len(place)} here",
                f"{len(table)} rows",
                "Give one row per outcome of the belief, in its order",
            )
        labels = tuple(_tuple(v) for v in step.labels(tuple(names)))
        blank = tuple(None for _ in self.outputs[0])
        extended = np.zeros((len(self.outputs), len(labels) + 1))
        for row, output in enumerate(self.outputs):
            if output == blank:
                extended[row, -1] = 1.0
            elif output in place:
                extended[row, :-1] = table[place[output]]
            else:
                raise InputError(
                    "Stochastic has no row for what the masks before it release",
                    list(output),
                    "Give inputs= to say which category each row stands for",
                )
        if not any(o == blank for o in self.outputs):
            extended, outputs = extended[:, :-1], labels
        else:
            outputs = (*labels, tuple(None for _ in labels[0]))
        return Kernel(self.matrix @ extended, outputs).merged()

    def blurred(self, covariance: Array) -> Kernel:
        """Add Gaussian noise."""
        if self.blank:
            return self
        width = len(self.outputs[0])
        if not all(v is None or isinstance(v, float) for output in self.outputs for v in output):
            raise UnsupportedError(
                "Noise needs numbers, and the records are labels", do="Use Stochastic for categories"
            )
        endless = [i for i in range(width) if np.isinf(covariance[i, i])]
        kernel = self.hide(endless) if endless else self
        finite = np.where(np.isinf(covariance), 0.0, covariance)
        finite[endless, :] = 0.0
        finite[:, endless] = 0.0
        if not finite.any() or kernel.blank:
            return kernel
        return replace(kernel, noise=finite if kernel.noise is None else kernel.noise + finite)

    def log_evidence(self, seen: Array | Sequence[Any]) -> Array:
        """Log chance (or density, up to a constant) of one released record for every outcome."""
        with np.errstate(divide="ignore"):
            if self.noise is None:
                key = tuple(_plain(v) for v in seen)
                if key not in self.outputs:
                    raise InputError(
                        "The release holds a value that the mask cannot give",
                        "another",
                        "Check that the release was made by this mask",
                    )
                return np.log(self.matrix[:, self.outputs.index(key)])
            log_density = self.log_densities(as_float_array("The release", list(seen))[None])[0]
            top = log_density.max()
            if top == -np.inf:
                raise InputError(
                    "The release holds a value that the mask cannot give",
                    "another",
                    "Check that the release was made by this mask",
                )
            return np.log(self.matrix @ np.exp(log_density - top))

    def log_densities(self, seen: Array) -> Array:
        """Log density of released rows ``(rows, columns)`` around every output, up to a constant."""
        assert self.noise is not None
        gap = seen[:, None, :] - self.levels()[None]
        spread = np.diag(self.noise) > 0
        part = self.noise[np.ix_(spread, spread)]
        lower = np.linalg.cholesky(part) if _definite(part) else None
        if lower is None:
            raise UnsupportedError(
                "Noise with a singular covariance on several columns is not supported for a finite belief",
                do="Give noise that is not a copy of other noise",
            )
        z = np.linalg.solve(lower, np.where(np.isnan(gap), 0.0, gap)[..., spread][..., None])[..., 0]
        log_density = -0.5 * np.sum(z**2, axis=-1)
        exact = ~spread
        if exact.any():
            miss = np.abs(gap[..., exact]) > 1e-9
            log_density = np.where((miss & ~np.isnan(gap[..., exact])).any(axis=-1), -np.inf, log_density)
        return log_density


@dataclass(frozen=True, eq=False)
class Slots:
    """What was released, as evidence: ``log_evidence[s, i]`` for every released record s and outcome i.

    ``rows[s]`` says whose record it is, -1 if that is not known. ``kinds[s]`` is the kernel it went through.
    """

    log_evidence: Array
    rows: Ints
    kinds: Ints


@dataclass(frozen=True, eq=False)
class FiniteChannel:
    """A mask as seen by a finite belief: kernels, which row has which, how many rows are kept, and their order."""

    kernels: tuple[Kernel, ...]
    kinds: Ints
    """The kernel of every row."""
    kept: int
    """How many rows are released, drawn at random if fewer than all."""
    ordered: bool = True
    touched: bool = False
    """Whether a mask has changed the values."""

    @classmethod
    def of(cls, belief: FiniteBelief, mask: Mask, scale: Array | None = None) -> FiniteChannel:
        """Follow a mask step by step. ``scale`` is the covariance that Noise(share=...) refers to."""
        n, levels = belief.records, belief.levels
        start = Kernel(np.eye(len(levels)), tuple(_tuple(v) for v in levels.names))
        channel = cls((start,), np.zeros(n, dtype=np.int64), n)
        names: tuple[Any, ...] = levels.names
        if not all(isinstance(step, STEPS) for step in mask.parts):
            from .matrices import as_matrices

            mask = as_matrices(belief, mask)
        for step in mask.parts:
            if isinstance(step, Release):
                continue
            if isinstance(step, Suppress):
                channel = channel._suppress(step, n, levels.columns)
            elif isinstance(step, Stochastic):
                if step.columns is not None:
                    raise UnsupportedError(
                        "Stochastic(columns=...) masks columns apart, and a finite belief takes a record as one category",
                        do="Leave columns out and give the matrix of whole records",
                    )
                channel = replace(channel, kernels=tuple(k.through(step, names) for k in channel.kernels))
                names = tuple(dict.fromkeys(step.labels(names)))
            elif isinstance(step, Noise):
                channel = channel._noise(step, belief, scale)
            elif isinstance(step, Subsample):
                channel = replace(channel, kept=step.kept(channel.kept))
            elif isinstance(step, Shuffle):
                channel = replace(channel, ordered=False)
            else:
                raise UnsupportedError(f"Enumeration cannot invert {step}", do=f"It knows {KNOWN}")
            channel = replace(channel, touched=True)
        return channel

    def _suppress(self, step: Suppress, n: int, columns: int) -> FiniteChannel:
        width = max((len(o) for k in self.kernels for o in k.outputs), default=columns)
        hidden = (
            list(range(width)) if step.columns is None else check_columns("columns", step.columns, list(range(width)))
        )
        if step.rows is None:
            return replace(self, kernels=tuple(k.hide(hidden) for k in self.kernels))
        if not self.ordered or self.kept < n:
            raise UnsupportedError(
                f"{step} after Shuffle or Subsample hides rows that nobody can name", do="Suppress rows first"
            )
        rows = {check_index("rows", r, n) for r in step.rows}
        inside = np.isin(np.arange(n), sorted(rows))
        kernels: list[Kernel] = []
        kinds = np.empty(n, dtype=np.int64)
        for kind, kernel in enumerate(self.kernels):
            for flag in (False, True):
                members = (self.kinds == kind) & (inside == flag)
                if members.any():
                    kinds[members] = len(kernels)
                    kernels.append(kernel.hide(hidden) if flag else kernel)
        return replace(self, kernels=tuple(kernels), kinds=kinds)

    def _noise(self, step: Noise, belief: FiniteBelief, scale: Array | None) -> FiniteChannel:
        width = max(len(o) for k in self.kernels for o in k.outputs)
        n = len(self.kinds)
        why = getattr(step, "obstacle", None)
        if why is not None:
            raise UnsupportedError(f"Enumeration cannot invert {step}: {why}", do="Use plain normal noise")
        if step.common and n > 1:
            raise UnsupportedError(
                "Noise(common=True) ties the records together", do="Use Noise with one draw per record"
            )
        chosen = (
            list(range(width)) if step.columns is None else check_columns("columns", step.columns, list(range(width)))
        )
        spread = None
        if step.share is not None:
            if belief.levels.labelled:
                raise UnsupportedError(
                    "Noise(share=...) needs numbers, and the records are labels", do="Use Stochastic for categories"
                )
            if self.touched:
                raise UnsupportedError(
                    f"{step} takes its size from what the masks before it give out, which is not known beforehand",
                    do="Put it first in the chain, or give covariance=",
                )
            spread = (record_covariance(belief) if scale is None else scale)[np.ix_(chosen, chosen)]
        sizes = _noise_of_rows(step, n, len(chosen), spread)
        if len(sizes) > 1 and (not self.ordered or self.sampled):
            raise UnsupportedError(
                f"{step} after Shuffle or Subsample sizes rows that nobody can name", do="Put it first in the chain"
            )
        kinds = np.empty(n, dtype=np.int64)
        kernels: list[Kernel] = []
        place: dict[tuple[int, int], int] = {}
        which = np.arange(n) if len(sizes) > 1 else np.zeros(n, dtype=np.int64)
        distinct: dict[bytes, int] = {}
        for row in range(n):
            size = sizes[which[row]]
            pair = (int(self.kinds[row]), distinct.setdefault(size.tobytes(), len(distinct)))
            if pair not in place:
                place[pair] = len(kernels)
                covariance = np.zeros((width, width))
                covariance[np.ix_(chosen, chosen)] = size
                kernel = self.kernels[pair[0]]
                kernels.append(kernel.blurred(covariance) if covariance.any() else kernel)
            kinds[row] = place[pair]
        return replace(self, kernels=tuple(kernels), kinds=kinds)

    # -- asking ------------------------------------------------------------------------------------------

    @property
    def continuous(self) -> bool:
        """Whether some record goes out with noise."""
        return any(k.noise is not None for k in self.kernels)

    @property
    def sampled(self) -> bool:
        return self.kept < len(self.kinds)

    def simulate(self, codes: Ints, rng: np.random.Generator) -> Slots:
        """Mask records, given as positions in the list of outcomes."""
        n = len(self.kinds)
        rows = np.sort(rng.choice(n, size=self.kept, replace=False)) if self.sampled else np.arange(n)
        uniform = rng.random(n)
        width = max(len(o) for k in self.kernels for o in k.outputs)
        # The same draws whatever the variance is, so that curves over it are smooth.
        z = rng.standard_normal((n, width))
        evidence = []
        for row in rows:
            kernel = self.kernels[self.kinds[row]]
            running = np.cumsum(kernel.matrix[codes[row]])
            output = min(int(np.searchsorted(running, uniform[row] * running[-1], side="right")), len(running) - 1)
            if kernel.noise is None:
                with np.errstate(divide="ignore"):
                    evidence.append(np.log(kernel.matrix[:, output]))
            else:
                evidence.append(
                    kernel.log_evidence(
                        kernel.levels()[output] + symmetric_root(kernel.noise) @ z[row, : len(kernel.noise)]
                    )
                )
        order = np.arange(len(rows)) if self.ordered else rng.permutation(len(rows))
        shown = rows if self.ordered else np.full(len(rows), -1)
        return Slots(np.array(evidence)[order], shown, self.kinds[rows][order])

    def read(self, release: Any) -> Slots:
        """Turn a release into evidence. A frame's or series' index says whose record it is."""
        if isinstance(release, (pd.DataFrame, pd.Series)):
            frame, labels = pd.DataFrame(release), np.asarray(release.index)
        else:
            array = np.asarray(release)
            frame = pd.DataFrame(array if array.ndim == 2 else array.reshape(-1, 1))
            labels = None
        if len(frame) != self.kept:
            raise InputError(
                f"The release must have {self.kept} records", len(frame), "Pass what mask.release(data, rng) gave"
            )
        n = len(self.kinds)
        if not self.ordered:
            rows = np.full(len(frame), -1)
        elif not self.sampled:
            rows = np.arange(n)
        elif (
            labels is not None and pd.api.types.is_integer_dtype(labels.dtype) and ((labels >= 0) & (labels < n)).all()
        ):
            rows = labels.astype(np.int64)
        else:
            # Without labels a sample says nothing about who is in it.
            rows = np.full(len(frame), -1)
        evidence, kinds = [], []
        for slot, entry in enumerate(frame.itertuples(index=False, name=None)):
            kind = int(self.kinds[rows[slot]]) if rows[slot] >= 0 else self._kind_of(entry)
            kernel = self.kernels[kind]
            if len(entry) != len(kernel.outputs[0]):
                raise InputError(
                    f"The release must have {len(kernel.outputs[0])} columns",
                    len(entry),
                    "Pass what mask.release(data, rng) gave",
                )
            seen = [_plain(v) for v in entry]
            if kernel.noise is None:
                evidence.append(kernel.log_evidence(seen))
            else:
                evidence.append(kernel.log_evidence([np.nan if v is None else v for v in seen]))
            kinds.append(kind)
        return Slots(np.array(evidence), rows, np.array(kinds, dtype=np.int64))

    def _kind_of(self, entry: Sequence[Any]) -> int:
        """Which kernel a record without a name went through: suppressed rows show by their missing values."""
        hidden = tuple(_plain(v) is None for v in entry)
        fits = [i for i, k in enumerate(self.kernels) if any(tuple(v is None for v in o) == hidden for o in k.outputs)]
        if len(fits) != 1:
            raise UnsupportedError(
                "It cannot be told which rows of the release went through which mask", do="Release rows in their order"
            )
        return fits[0]


def record_covariance(belief: FiniteBelief) -> Array:
    """Covariance of one record before the release."""
    numbers = belief.levels.numbers.reshape(len(belief.levels), -1)
    gap = numbers - belief.marginal @ numbers
    return np.asarray((gap * belief.marginal[:, None]).T @ gap)


def _noise_of_rows(step: Noise, n: int, k: int, spread: Array | None) -> list[Array]:
    """Covariance of the noise: one for all records, or one for each."""
    value, where = getattr(step, step.unit), getattr(step, "where", None)
    apart = (
        isinstance(value, tuple)
        and step.unit in ("variance", "sd")
        and (isinstance(value[0], tuple) or len(value) not in (1, k))
    )
    if not apart:
        sizes = [step.matrix(k, spread)]
    else:
        if len(value) != n:
            raise InputError(
                f"{step} must have one size for each of the {n} records", len(value), "Give one number per record"
            )
        table = np.broadcast_to(np.asarray(value, dtype=np.float64).reshape(n, -1), (n, k))
        sizes = [np.diag(row if step.unit == "variance" else row**2) for row in table]
    if where is None:
        return sizes
    if len(where) != n:
        raise InputError(
            f"where must have a boolean for each of the {n} records", len(where), "Give one boolean per record"
        )
    return [(sizes[r] if apart else sizes[0]) * (float(step.times or 1.0) if where[r] else 1.0) for r in range(n)]


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(_plain(v) for v in value) if isinstance(value, tuple) else (_plain(value),)


def _plain(value: Any) -> Any:
    """A hashable entry: numbers as floats, missing as None."""
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)):
        return float(value)
    if isinstance(value, (int, float, np.integer, np.floating)):
        return None if np.isnan(value) else float(value)
    return None if value is pd.NA else value


def _definite(matrix: Array) -> bool:
    scale = np.sqrt(np.diag(matrix))
    return bool(np.linalg.eigvalsh(matrix / np.outer(scale, scale))[0] > 1e-12)
