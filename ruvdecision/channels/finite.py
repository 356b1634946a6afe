"""How a release comes from finitely many kinds of records: a matrix per kind of row, and who is in the file."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..checks import as_float_array, is_number
from ..errors import InputError, UnsupportedError
from ..numerics.semidefinite import null_rows, range_root, symmetric_root
from ..protocols import Array
from .samples import Samples, finish_channel, partitions_of, released_files, rows_held, sample_sizes
from .steps import (
    TOLERANCE,
    AddNoise,
    AverageRows,
    ClipTo,
    Copy,
    Cut,
    Drop,
    Entrywise,
    FileFacts,
    MaskLike,
    Matrix,
    PermuteRows,
    Resolved,
    RoundTo,
    SampleRows,
    Step,
    Transitions,
    resolve,
)

Ints = NDArray[np.int64]
Output = tuple[Any, ...]
SAME_NOISE = 1e-6
"""In standard deviations: what is drawn as copies of one noise differs by no more than this."""
LARGEST = 4_000_000
"""Most entries of a matrix of whole records."""
KNOWN = (
    "Release, Suppress, Stochastic, PRAM, Recode, Round, Clip, Topcode, Bottomcode, Noise, Subsample, Shuffle "
    "and chains of them"
)


class OutcomeList(Protocol):
    """The outcomes of a finite belief."""

    @property
    def names(self) -> tuple[Hashable, ...]: ...
    @property
    def numbers(self) -> Array: ...
    @property
    def labelled(self) -> bool: ...
    @property
    def columns(self) -> int: ...


class FiniteRecords(Protocol):
    """What a channel asks of a finite belief: how many records there are and what each can be."""

    @property
    def records(self) -> int: ...
    @property
    def levels(self) -> OutcomeList: ...
    @property
    def marginal(self) -> Array: ...
    @property
    def columns(self) -> Sequence[Hashable] | None: ...


@dataclass(frozen=True, eq=False)
class Kernel:
    """The law of what is released of one record.

    ``matrix[i, o]`` is the chance of output o for outcome i. ``outputs`` are tuples with one entry per column, None
    where nothing is released. ``noise`` is the covariance of Gaussian noise on top, None without noise.
    """

    matrix: Array
    outputs: tuple[Output, ...]
    noise: Array | None = None

    @property
    def uninformative(self) -> bool:
        """Whether the release tells nothing about the record."""
        return self.releases_nothing or (self.noise is None and bool(np.all(self.matrix == self.matrix[:1])))

    @property
    def releases_nothing(self) -> bool:
        """Whether nothing at all is released of the record."""
        return all(v is None for output in self.outputs for v in output)

    def levels(self) -> Array:
        """Outputs as numbers, missing where nothing is released."""
        return np.array([self.numbers(output) for output in self.outputs])

    def numbers(self, entries: Sequence[Any]) -> list[float]:
        """Entries as numbers, missing where there is none; names, which only stand beside noise, by their place."""
        found = []
        for i, v in enumerate(entries):
            if isinstance(v, str):
                names = list(dict.fromkeys(o[i] for o in self.outputs))
                found.append(float(names.index(v)) if v in names else -1.0)
            else:
                found.append(np.nan if v is None or v is pd.NA else float(v))
        return found

    def over(self, outputs: Sequence[Output]) -> Array:
        """The matrix with a column for each of these outputs."""
        wide = np.zeros((len(self.matrix), len(outputs)))
        place = {o: i for i, o in enumerate(outputs)}
        np.add.at(wide.T, [place[o] for o in self.outputs], self.matrix.T)
        return wide

    def copied(self, order: Ints) -> Kernel:
        """The same with columns side by side in this order."""
        noise = None if self.noise is None else self.noise[order[:, None], order]
        return replace(self, outputs=tuple(tuple(o[i] for i in order) for o in self.outputs), noise=noise)

    def outputs_on_line(self) -> tuple[Array, float, list[Ints]] | None:
        """Levels of one number that tells all that the noisy columns do, its standard deviation, and the outputs apart.

        Outputs that differ beside the noise are told apart. None if there is no such number.
        """
        if self.noise is None:
            return None
        noisy = np.flatnonzero(np.diag(self.noise) > 0)
        levels = self.levels()
        if len(noisy) > 1 and not np.all(levels[:, noisy] == levels[:, noisy[:1]]):
            return None
        root, null = self._noise_directions
        # Where copies of one noise tell the level apart from the noise, it is known.
        if np.abs(null.sum(axis=0)).max(initial=0.0) > SAME_NOISE * np.abs(root).max():
            return None
        rest = np.delete(np.nan_to_num(levels, nan=np.inf), noisy, axis=1)
        label = np.unique(rest, axis=0, return_inverse=True)[1].reshape(-1)
        sd = float(1.0 / np.linalg.norm(root.sum(axis=0)))
        return levels[:, noisy[0]], sd, [np.flatnonzero(label == i) for i in range(int(label.max()) + 1)]

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

    def hide_columns(self, columns: Sequence[int]) -> Kernel:
        """Release nothing of these columns."""
        outputs = tuple(tuple(None if i in columns else v for i, v in enumerate(o)) for o in self.outputs)
        noise = self.noise
        if noise is not None:
            noise = noise.copy()
            noise[list(columns), :] = 0.0
            noise[:, list(columns)] = 0.0
            noise = noise if noise.any() else None
        return replace(self, outputs=outputs, noise=noise).merged()

    def through(self, laws: Sequence[Sequence[tuple[Output, float]]]) -> Kernel:
        """Send every output through a further law: what may become of it, and with which chance."""
        outputs = list(dict.fromkeys(out for law in laws for out, _ in law))
        if len(self.outputs) * len(outputs) > LARGEST:
            raise UnsupportedError(
                "The mask gives too many kinds of records", do="Mask fewer columns, or recode them first"
            )
        place = {out: i for i, out in enumerate(outputs)}
        matrix = np.zeros((len(self.matrix), len(outputs)))
        for column, law in enumerate(laws):
            for out, p in law:
                matrix[:, place[out]] += self.matrix[:, column] * p
        return replace(self, matrix=matrix, outputs=tuple(outputs))

    def with_noise(self, covariance: Array) -> Kernel:
        """Add Gaussian noise."""
        if self.releases_nothing:
            return self
        width = len(self.outputs[0])
        noisy = np.flatnonzero(np.diag(covariance) > 0)
        if not all(output[i] is None or isinstance(output[i], float) for output in self.outputs for i in noisy):
            raise UnsupportedError(
                "Noise needs numbers, and the records are labels", do="Use Stochastic for categories"
            )
        endless = [i for i in range(width) if np.isinf(covariance[i, i])]
        kernel = self.hide_columns(endless) if endless else self
        finite = np.where(np.isinf(covariance), 0.0, covariance)
        finite[endless, :] = 0.0
        finite[:, endless] = 0.0
        if not finite.any() or kernel.releases_nothing:
            return kernel
        return replace(kernel, noise=finite if kernel.noise is None else kernel.noise + finite)

    def log_evidence(self, released: Sequence[Any]) -> Array:
        """Log chance (or density, up to a constant) of one released record for every outcome."""
        key = tuple(_hashable_entry(v) for v in released)
        if self.noise is None:
            found = self.matrix[:, self.outputs.index(key)] if key in self.outputs else np.zeros(0)
            with np.errstate(divide="ignore"):
                log_evidence = np.log(found)
        else:
            numbers = as_float_array("The release", self.numbers(key))
            log_evidence = self.log_evidence_with_noise(numbers[None])[0]
        if not np.any(log_evidence > -np.inf):
            raise InputError(
                "The release holds a value that the mask cannot give",
                "another",
                "Check that the release was made by this mask",
            )
        return log_evidence

    def log_evidence_with_noise(self, released: Array) -> Array:
        """Log density of released rows ``(rows, columns)`` for every outcome, up to a constant for each row."""
        log_density = self.log_densities(released)
        top = np.maximum(log_density.max(axis=1, keepdims=True), np.finfo(float).min)
        with np.errstate(divide="ignore"):
            return np.log(np.exp(log_density - top) @ self.matrix.T)

    def log_densities(self, released: Array) -> Array:
        """Log density of released rows ``(rows, columns)`` around every output, up to a constant."""
        assert self.noise is not None
        gap = released[:, None, :] - self.levels()[None]
        noisy = np.diag(self.noise) > 0
        root, null = self._noise_directions
        away = np.where(np.isnan(gap), 0.0, gap)
        differs = (np.abs(away[..., ~noisy]) > TOLERANCE).any(axis=-1)
        # Copies of one noise differ by what they were added to, up to the rounding of what is released.
        size = np.abs(np.nan_to_num(released[:, noisy])).sum(axis=1)
        rounding = TOLERANCE * size * np.abs(null).max(initial=0.0)
        differs |= (np.abs(away[..., noisy] @ null) > SAME_NOISE + rounding[:, None, None]).any(axis=-1)
        z = away[..., noisy] @ root
        return np.where(differs, -np.inf, -0.5 * np.sum(z**2, axis=-1))

    @cached_property
    def _noise_directions(self) -> tuple[Array, Array]:
        """Over the noisy columns: what makes the noise independent with variance one, and what takes it away."""
        assert self.noise is not None
        noisy = np.flatnonzero(np.diag(self.noise) > 0)
        part = self.noise[np.ix_(noisy, noisy)]
        sd = np.sqrt(np.diag(part))
        root, inverse = range_root(part, sd, 1e-12)
        return inverse.T, null_rows(root / sd[:, None]).T / sd[:, None]

    @cached_property
    def noise_volume(self) -> tuple[float, int]:
        """Log determinant of 2 pi times the noise's covariance on the space that it fills, and its dimension."""
        assert self.noise is not None
        noisy = np.flatnonzero(np.diag(self.noise) > 0)
        part, rank = 2 * np.pi * self.noise[np.ix_(noisy, noisy)], self._noise_directions[0].shape[1]
        if rank == len(noisy):
            return float(np.linalg.slogdet(part)[1]), rank
        return float(np.log(np.linalg.eigvalsh(part)[len(noisy) - rank :]).sum()), rank


@dataclass(frozen=True, eq=False)
class RecordEvidence:
    """What was released, as evidence: ``log_evidence[s, i]`` for every released record s and outcome i.

    ``rows[s]`` says whose record it is, -1 if that is not known. ``kinds[s]`` is the kernel it went through.
    """

    log_evidence: Array
    rows: Ints
    kinds: Ints

    @classmethod
    def of_nothing(cls, outcomes: int) -> RecordEvidence:
        """Where no record was released."""
        nobody = np.zeros(0, dtype=np.int64)
        return cls(np.zeros((0, outcomes)), nobody, nobody)


@dataclass(frozen=True, eq=False)
class FiniteChannel:
    """A mask as seen by a finite belief: kernels, which row has which, how many rows are kept, and their order."""

    kernels: tuple[Kernel, ...]
    kinds: Ints
    """The kernel of every row."""
    kept: int
    """How many rows are released, drawn at random if fewer than all."""
    ordered: bool = True
    releases: int = 1
    open_samples: tuple[Resolved, ...] = ()
    """The steps, where single releases hold samples of their own and this channel takes the first rows for them."""

    @classmethod
    def of(
        cls, belief: FiniteRecords, mask: MaskLike, covariance: Array | None = None, samples: Samples | None = None
    ) -> FiniteChannel:
        """Follow a mask step by step.

        ``covariance`` is the records', for noise that is a share of it; the belief's if not given. ``samples`` are the
        rows that samples of single releases hold, where there are several.
        """
        n, names = belief.records, [hashable_record(v) for v in belief.levels.names]
        channel = cls((Kernel(np.eye(len(names)), tuple(names)),), np.zeros(n, dtype=np.int64), n)
        found = resolve(mask, cls.file_facts(belief, covariance))
        for (step, part, _), rows in zip(found, partitions_of(found, n, samples), strict=True):
            if type(step) not in FINITE:
                why = f": {step.why}" if step.why else ""
                raise UnsupportedError(
                    f"Enumeration cannot invert {part}{why}", do=step.do or f"Finite beliefs know {KNOWN}"
                )
            own = step if step.release is None else replace(step, rows=rows)
            channel = FINITE[type(step)](channel, own, part)
        return finish_channel(channel, found, samples)

    def check_order(self, columns: Sequence[int], mask: MaskLike) -> None:
        """Raise if other releases tell of single rows beside a shuffled one."""
        if any(v is not None for k in self.kernels for o in k.outputs for i, v in enumerate(o) if i not in columns):
            raise UnsupportedError(
                f"{mask} in one release, beside another that tells of single rows, has too many cases: "
                "which rows belong together is not known",
                do="Put Shuffle() before both: Shuffle() | (a & b)",
            )

    @staticmethod
    def file_facts(belief: FiniteRecords, covariance: Array | None = None) -> FileFacts:
        """What a finite belief knows of the file beforehand."""
        if covariance is None and not belief.levels.labelled:
            covariance = record_covariance(belief)
        names = [hashable_record(v) for v in belief.levels.names]
        levels = tuple(tuple(dict.fromkeys(column)) for column in zip(*names, strict=True))
        columns = belief.columns or range(len(names[0]))
        return FileFacts(belief.records, tuple(columns), covariance, levels)

    def copied(self, step: Copy) -> FiniteChannel:
        """Put columns side by side several times, for as many releases."""
        order = step.order_of(len(self.kernels[0].outputs[0]))
        more = self.releases + step.times - 1
        return replace(self, kernels=tuple(k.copied(order) for k in self.kernels), releases=more)

    def change_kernels(self, step: Step, mask: MaskLike, change: Callable[[Kernel, int], Kernel]) -> FiniteChannel:
        """Change kernels: ``change`` gets a kernel and the label of its rows. Rows treated alike share a kernel."""
        n = len(self.kinds)
        if step.rows is None:
            return replace(self, kernels=tuple(change(k, 0) for k in self.kernels))
        if not self.ordered or self.sampled:
            raise UnsupportedError(
                f"{mask} after Shuffle or Subsample treats rows apart that nobody can name",
                do="Put it first in the chain",
            )
        pairs, kinds = np.unique(np.stack([self.kinds, step.rows.row_labels()]), axis=1, return_inverse=True)
        kernels = tuple(change(self.kernels[kind], int(label)) for kind, label in pairs.T)
        return replace(self, kernels=kernels, kinds=kinds.reshape(n).astype(np.int64))

    # -- asking ------------------------------------------------------------------------------------------

    @property
    def continuous(self) -> bool:
        """Whether some record goes out with noise."""
        return any(k.noise is not None for k in self.kernels)

    @property
    def sampled(self) -> bool:
        return self.kept < len(self.kinds)

    def mask_records(self, codes: Ints, rng: np.random.Generator) -> tuple[Array, Ints, Ints]:
        """Mask records, given as positions in the list of outcomes.

        Log evidence of each different released record, which of them stands in each row, and whose row that is.
        """
        n = len(self.kinds)
        rows = np.sort(rng.choice(n, size=self.kept, replace=False)) if self.sampled else np.arange(n)
        # The same draws whatever the mask's numbers are, so that curves over them are smooth.
        uniform = rng.random(n)
        normal = rng.standard_normal((n, max(len(o) for k in self.kernels for o in k.outputs)))
        evidence: list[Array] = []
        inverse = np.empty(len(rows), dtype=np.int64)
        for kind, kernel in enumerate(self.kernels):
            mine = np.flatnonzero(self.kinds[rows] == kind)
            if not len(mine):
                continue
            who = rows[mine]
            output = np.empty(len(mine), dtype=np.int64)
            for code in np.unique(codes[who]):
                members = codes[who] == code
                edges = np.cumsum(kernel.matrix[code])
                place = np.searchsorted(edges, uniform[who[members]] * edges[-1], side="right")
                output[members] = np.minimum(place, len(edges) - 1)
            offset = sum(map(len, evidence))
            if kernel.noise is None:
                with np.errstate(divide="ignore"):
                    evidence.append(np.log(kernel.matrix.T))
                inverse[mine] = offset + output
            else:
                released = kernel.levels()[output] + normal[who, : len(kernel.noise)] @ symmetric_root(kernel.noise)
                evidence.append(kernel.log_evidence_with_noise(released))
                inverse[mine] = offset + np.arange(len(mine))
        return np.concatenate(evidence), inverse, rows

    def simulate(self, codes: Ints, rng: np.random.Generator) -> RecordEvidence:
        """Evidence of a fresh release of records, given as positions in the list of outcomes."""
        evidence, inverse, rows = self.mask_records(codes, rng)
        order = np.arange(len(rows)) if self.ordered else rng.permutation(len(rows))
        shown = rows if self.ordered else np.full(len(rows), -1)
        return RecordEvidence(evidence[inverse][order], shown, self.kinds[rows][order])

    def read(self, release: Any) -> RecordEvidence:
        """Turn a release into evidence. A frame's or series' index says whose record it is."""
        release = self.side_by_side(release)
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
        # Without labels a sample says nothing about who is in it.
        rows = np.full(len(frame), -1)
        if self.ordered and not self.sampled:
            rows = np.arange(n)
        elif self.ordered and labels is not None and pd.api.types.is_integer_dtype(labels.dtype):
            rows = labels.astype(np.int64) if ((labels >= 0) & (labels < n)).all() else rows
        evidence, kinds = [], []
        for row, entry in zip(rows, frame.itertuples(index=False, name=None), strict=True):
            kind = int(self.kinds[row]) if row >= 0 else self._kind_of(entry)
            width = len(self.kernels[kind].outputs[0])
            if len(entry) != width:
                raise InputError(
                    f"The release must have {width} columns", len(entry), "Pass what mask.release(data, rng) gave"
                )
            evidence.append(self.kernels[kind].log_evidence(entry))
            kinds.append(kind)
        return RecordEvidence(np.array(evidence), rows, np.array(kinds, dtype=np.int64))

    def samples_held(self, release: Any) -> Samples:
        """Which rows the samples of single releases hold, told by their labels."""
        files, width = released_files(release, self.releases), len(self.kernels[0].outputs[0]) // self.releases
        return {first: rows_held(files[first // width], len(self.kinds)) for first in sample_sizes(self.open_samples)}

    def side_by_side(self, release: Any) -> Any:
        """Several releases as one file, with blanks where one of them does not have a row; a single one as it is."""
        if self.releases == 1:
            return release
        tables = map(pd.DataFrame, released_files(release, self.releases))
        files = [f.set_axis([(i, j) for j in range(f.shape[1])], axis=1) for i, f in enumerate(tables)]
        whole = [f for f in files if len(f) == self.kept]
        if not self.ordered or self.sampled or not whole:
            return pd.concat([f.reset_index(drop=True) if not self.ordered else f for f in files], axis=1)
        index = pd.RangeIndex(self.kept)
        return pd.concat([f.set_axis(index) if len(f) == self.kept else f.reindex(index) for f in files], axis=1)

    def _kind_of(self, entry: Sequence[Any]) -> int:
        """Which kernel a record without a name went through: suppressed rows show by their missing values."""
        hidden = tuple(_hashable_entry(v) is None for v in entry)
        fits = [i for i, k in enumerate(self.kernels) if any(tuple(v is None for v in o) == hidden for o in k.outputs)]
        if len(fits) != 1:
            raise UnsupportedError(
                "It cannot be told which rows of the release went through which mask", do="Release rows in their order"
            )
        return fits[0]


# -- reading steps -----------------------------------------------------------------------------------------


def _read_drop(channel: FiniteChannel, step: Drop | SampleRows, mask: MaskLike) -> FiniteChannel:
    hides = step.rows is None
    return channel.change_kernels(
        step, mask, lambda kernel, label: kernel.hide_columns(step.columns) if hides or label == 1 else kernel
    )


def _read_noise(channel: FiniteChannel, step: AddNoise, mask: MaskLike) -> FiniteChannel:
    if step.not_linear is not None:
        raise UnsupportedError(f"Enumeration cannot invert {mask}: {step.not_linear}", do="Use plain normal noise")
    if step.common and len(channel.kinds) > 1:
        raise UnsupportedError("Noise(common=True) ties the records together", do="Use Noise with one draw per record")

    def change(kernel: Kernel, label: int) -> Kernel:
        width = len(kernel.outputs[0])
        covariance = np.zeros((width, width))
        covariance[np.ix_(step.columns, step.columns)] = step.covariance[0, label]
        return kernel.with_noise(covariance) if covariance.any() else kernel

    return channel.change_kernels(step, mask, change)


def _read_average(channel: FiniteChannel, step: AverageRows, mask: MaskLike) -> FiniteChannel:
    if step.rows is not None:
        raise UnsupportedError(
            f"Enumeration cannot invert {mask} record by record: it averages rows",
            do="Leave the average out here; ruv.evaluate and ruv.posterior take it, for small files",
        )
    return channel


def _read_entries(channel: FiniteChannel, step: Entrywise, mask: MaskLike) -> FiniteChannel:
    """Each entry of an output by itself; entries that are not released stay so."""

    def change(kernel: Kernel, label: int) -> Kernel:
        _refuse_noise(kernel, mask, step.columns)
        known: dict[tuple[int, Hashable], Transitions] = {}
        laws = []
        for output in kernel.outputs:
            options: list[Transitions] = [[(v, 1.0)] for v in output]
            for place, column in enumerate(step.columns):
                key = (column, output[column])
                if output[column] is not None:
                    if key not in known:
                        known[key] = [(_hashable_entry(v), p) for v, p in step.transitions(output[column], place)]
                    options[column] = known[key]
            if len(kernel.outputs) * np.prod([float(len(o)) for o in options]) > LARGEST:
                raise UnsupportedError(
                    f"{mask} of so many columns gives too many kinds of records",
                    do="Mask fewer columns, or recode them first",
                )
            laws.append([(tuple(v for v, _ in one), float(np.prod([p for _, p in one]))) for one in product(*options)])
        return kernel.through(laws)

    return channel.change_kernels(step, mask, change)


def _read_record_matrix(channel: FiniteChannel, step: Matrix, mask: MaskLike) -> FiniteChannel:
    """A matrix of whole records; where it does not name them they are those that may go in, in their order."""
    if not step.whole:
        return _read_entries(channel, step, mask)

    def change(kernel: Kernel, label: int) -> Kernel:
        width = len(kernel.outputs[0])
        at = slice(0, width) if step.release is None else slice(step.columns[0], step.columns[-1] + 1)
        _refuse_noise(kernel, mask, range(at.start, at.stop))
        open_ = list(dict.fromkeys(o[at] for o in kernel.outputs if any(v is not None for v in o[at])))
        if not open_:
            return kernel
        place = {hashable_record(v): i for i, v in enumerate(step.inputs or open_)}
        released = [hashable_record(v) for v in step.released or open_]
        if len(place) != len(step.matrix):
            raise InputError(
                f"{mask.technique} must have one row per category, {len(place)} here",
                f"{len(step.matrix)} rows",
                "Give one row per outcome of the belief, in its order",
            )
        laws: list[list[tuple[Output, float]]] = []
        for whole in kernel.outputs:
            before, output, after = whole[: at.start], whole[at], whole[at.stop :]
            if all(v is None for v in output):
                laws.append([((*before, *(None for _ in released[0]), *after), 1.0)])
            elif output in place:
                row = step.matrix[place[output]]
                laws.append([((*before, *out, *after), float(p)) for out, p in zip(released, row, strict=True)])
            else:
                raise InputError(
                    f"{mask.technique} has no row for what the masks before it release",
                    list(output),
                    "Give inputs= to say which category each row stands for",
                )
        return kernel.through(laws)

    return channel.change_kernels(step, mask, change)


def _refuse_noise(kernel: Kernel, mask: MaskLike, columns: Sequence[int]) -> None:
    if kernel.noise is not None and np.any(np.diag(kernel.noise)[list(columns)] > 0):
        raise UnsupportedError(
            f"Enumeration cannot invert {mask}: noise makes a continuum of categories",
            do=f"Put {mask.technique} before Noise",
        )


FINITE: dict[type[Step], Callable[[FiniteChannel, Any, Any], FiniteChannel]] = {
    Drop: _read_drop,
    AddNoise: _read_noise,
    AverageRows: _read_average,
    ClipTo: _read_entries,
    RoundTo: _read_entries,
    Cut: _read_entries,
    Matrix: _read_record_matrix,
    Copy: lambda channel, step, mask: channel.copied(step),
    SampleRows: lambda channel, step, mask: (
        replace(channel, kept=step.kept) if step.release is None else _read_drop(channel, step, mask)
    ),
    PermuteRows: lambda channel, step, mask: replace(channel, ordered=False),
}
"""What each step does to a channel; other steps cannot be inverted by enumeration."""


def record_covariance(belief: FiniteRecords) -> Array:
    """Covariance of one record before the release."""
    numbers = belief.levels.numbers.reshape(len(belief.levels.names), -1)
    gap = numbers - belief.marginal @ numbers
    return np.asarray((gap * belief.marginal[:, None]).T @ gap)


def hashable_record(value: object) -> Output:
    """A record as a key, one entry per column: numbers as floats, missing as None."""
    return tuple(_hashable_entry(v) for v in (value if isinstance(value, tuple) else (value,)))


def _hashable_entry(value: object) -> Any:
    """A hashable entry: numbers as floats, missing as None."""
    if value is None or value is pd.NA:
        return None
    if is_number(value):
        return None if np.isnan(value) else float(value)
    return value
