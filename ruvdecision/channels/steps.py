"""The elementary things that a mask does to the records. A mask's law is its steps, and channels read nothing else.

A mask says ``steps(about, numbers)``: ``about`` is what is known of the file beforehand and goes forward with every
step, ``numbers`` holds one row per mask of a family. `resolve` lowers a whole chain. Readers
(`ruvdecision.channels.linear`, `finite`, `likelihood`) interpret the steps; a step that a reader cannot take is refused
in the name of its mask.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..checks import as_float_array, check_columns, is_number
from ..errors import InputError
from ..numerics.semidefinite import correlate
from ..protocols import Array
from .layout import Partition

Ints = NDArray[np.int64]
Labels = tuple[Hashable, ...]
Transitions = list[tuple[Hashable, float]]
"""The values that may come out for one that goes in, with their probabilities."""

TOLERANCE = 1e-9
"""Relative: a released number is a multiple, a label or an average if it differs from one by no more than this."""


@dataclass(frozen=True, eq=False)
class FileFacts:
    """What is known of a file beforehand: never its values.

    ``covariance`` is that of a record, of the data where there are some, otherwise of the belief. ``levels`` has the
    categories of each column: None for numbers, an empty tuple for categories that are not known. ``touched`` says that
    values were altered.
    """

    n: int
    names: tuple[Hashable, ...]
    covariance: Array | None = None
    levels: tuple[Labels | None, ...] = ()
    touched: bool = False

    @property
    def k(self) -> int:
        """Number of columns."""
        return len(self.names)

    def positions(self, columns: Sequence[Hashable] | Hashable | None) -> tuple[int, ...]:
        """Positions of the named columns; all of them for None."""
        return tuple(range(self.k)) if columns is None else tuple(check_columns("columns", columns, self.names))

    def categories(self, column: int) -> Labels | None:
        """Categories of one column, None if it holds numbers."""
        return self.levels[column] if self.levels else None

    def with_levels(self, new: dict[int, Labels | None]) -> FileFacts:
        """After a step that altered some columns."""
        levels = tuple(new.get(j, self.categories(j)) for j in range(self.k))
        return replace(self, touched=True, levels=levels if any(v is not None for v in levels) else ())


@dataclass(frozen=True, eq=False, kw_only=True)
class Step:
    """One elementary step: its columns by position, and how it tells rows apart (None: all alike)."""

    columns: tuple[int, ...] = ()
    rows: Partition | None = None
    release: int | None = None
    """The first column of the release to which the step belongs, where there are several; see `Copy`."""
    unnamed_is_all: ClassVar[bool] = True
    """Whether it is about all columns where it names none."""
    samples: ClassVar[bool] = False
    """Whether it is a sample of the rows, which may be all of them."""
    permutes: ClassVar[bool] = False
    """Whether the rows are put in random order."""
    whole_rows: ClassVar[bool] = False
    """Whether it is about a whole release, and names columns only where there are several."""

    @property
    def not_linear(self) -> str | None:
        """Why a release is not linear in the records plus normal noise after this step, or None if it is."""
        return None

    @property
    def why(self) -> str:
        """Why only simulation knows what it does; nothing for a step that has a law."""
        return ""

    @property
    def do(self) -> str | None:
        """What to do where a step is refused, if there is something better than other masks."""
        return None

    @property
    def is_deterministic(self) -> bool:
        """Whether the same values come out every time, in whatever order."""
        return False

    @property
    def releases_names(self) -> bool:
        """Whether what is released are names and not numbers."""
        return False

    @property
    def added_columns(self) -> int:
        """How many columns it adds."""
        return 0

    def on_copy(self, first: int, k: int) -> Step:
        """The same step on a copy of the file's k columns that begins at a position; see `Copy`."""
        every = self.unnamed_is_all and not self.columns
        columns = range(0 if self.release is None else self.release, k) if every else self.columns
        return replace(self, columns=tuple(first + j for j in columns), release=first + (self.release or 0))

    def after(self, about: FileFacts) -> FileFacts:
        """What is known of the file that comes out."""
        return replace(about, touched=True)

    def order(self, n: int, rng: np.random.Generator) -> Ints | None:
        """Which of n rows come out, drawn now, or None if all stay in their place."""
        return None

    def apply(self, values: Array, rng: np.random.Generator) -> Array:
        """New values of the step's columns; missing ones stay missing."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, kw_only=True)
class Drop(Step):
    """Entries are not released: in all rows, or in those with label 1."""

    unnamed_is_all = False

    def after(self, about: FileFacts) -> FileFacts:
        return about

    def apply(self, values: Array, rng: np.random.Generator) -> Array:
        gone = True if self.rows is None else (self.rows.row_labels() == 1)[:, None]
        return np.where(gone, np.nan, values)


@dataclass(frozen=True, eq=False, kw_only=True)
class SampleRows(Step):
    """A random sample of ``kept`` rows, in their order; ``rows`` is None if all are kept."""

    samples = whole_rows = True

    kept: int

    def after(self, about: FileFacts) -> FileFacts:
        return about if self.rows is None else replace(about, n=self.kept, touched=True)

    def order(self, n: int, rng: np.random.Generator) -> Ints:
        return np.sort(rng.choice(n, size=self.kept, replace=False))


@dataclass(frozen=True, eq=False, kw_only=True)
class PermuteRows(Step):
    """The rows are put in random order."""

    permutes = whole_rows = True

    def after(self, about: FileFacts) -> FileFacts:
        return about

    def order(self, n: int, rng: np.random.Generator) -> Ints:
        return rng.permutation(n)


@dataclass(frozen=True, eq=False, kw_only=True)
class AverageRows(Step):
    """Entries become the mean of their group, of those that are there; ``rows`` are the groups, or None."""

    def after(self, about: FileFacts) -> FileFacts:
        return about if self.rows is None else about.with_levels(dict.fromkeys(self.columns))

    def apply(self, values: Array, rng: np.random.Generator) -> Array:
        if self.rows is None:
            return values
        label = self.rows.row_labels()
        there = ~np.isnan(values)
        out = np.empty_like(values)
        for j in range(values.shape[1]):
            total = np.bincount(label, weights=np.where(there[:, j], values[:, j], 0.0))
            count = np.bincount(label, weights=there[:, j])
            out[:, j] = np.where(there[:, j], (total / np.maximum(count, 1))[label], np.nan)
        return out


@dataclass(frozen=True, eq=False, kw_only=True)
class Copy(Step):
    """The columns stand side by side ``times`` times: what several releases of one file start from.

    The steps of each release follow on its own copy; those that sample or permute rows name its columns too.
    """

    times: int

    @property
    def added_columns(self) -> int:
        return len(self.columns) * (self.times - 1)

    def order_of(self, width: int) -> Ints:
        """Which of the columns before stands at each place after."""
        end = self.columns[-1] + 1
        return np.array([*range(end), *self.columns * (self.times - 1), *range(end, width)], dtype=np.int64)


# -- noise -----------------------------------------------------------------------------------------------


class NoiseKind(NamedTuple):
    """The law of noise with mean zero and variance one: "normal", "laplace", "t" or "mixture" with its own numbers."""

    name: str = "normal"
    df: float | None = None
    weights: tuple[float, ...] | None = None
    centres: tuple[float, ...] | None = None

    @property
    def is_normal(self) -> bool:
        return self.name == "normal"

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Independent draws."""
        if self.name == "laplace":
            return rng.laplace(scale=np.sqrt(0.5), size=shape)
        if self.name == "t":
            assert self.df is not None
            return rng.standard_t(self.df, size=shape) * np.sqrt((self.df - 2.0) / self.df)
        if self.name == "mixture":
            centres, weights = np.asarray(self.centres), np.asarray(self.weights)
            component = np.searchsorted(np.cumsum(weights)[:-1], rng.random(shape), side="right")
            return np.asarray(centres[component] + np.sqrt(1.0 - weights @ centres**2) * rng.standard_normal(shape))
        return rng.standard_normal(shape)


NORMAL = NoiseKind()


@dataclass(frozen=True)
class NoiseSize:
    """The standard deviation of noise as a function of the value; with the unit "variance" its square."""

    function: Callable[[Any], Any]
    unit: str

    def at(self, x: Array) -> Array:
        """What the function says of values of any shape, in its own unit."""
        flat = np.ravel(x)
        answer = as_float_array(f"{self.unit}(x)", self.function(flat.copy()))
        if answer.shape not in ((), flat.shape):
            raise InputError(
                f"{self.unit} must give back one number per value",
                f"shape {answer.shape}",
                "Write it with array operations, sd=lambda x: 0.1 * np.abs(x)",
            )
        return np.broadcast_to(answer, flat.shape).reshape(np.shape(x))

    def standard_deviations(self, values: Array) -> Array:
        """Standard deviations for values of several columns, each handed over by itself; 0 where one is missing."""
        known = ~np.isnan(values)
        out = np.stack([self.at(column) for column in values.T], axis=1)
        if not np.all(out[known] >= 0):
            raise InputError(
                f"{self.unit} must give back numbers of at least 0",
                f"{int(np.sum(~(out[known] >= 0)))} others",
                "Take its absolute value",
            )
        out = np.where(known, out, 0.0)
        return np.sqrt(out) if self.unit == "variance" else out


@dataclass(frozen=True, eq=False, kw_only=True)
class AddNoise(Step):
    """Noise with mean zero.

    ``covariance`` has shape (masks or 1, kinds of rows, columns, columns): rows with label i have kind i. An infinite
    variance wipes the column out. ``size``, a function of the value, multiplies the noise. ``common`` is one draw for
    the whole file.
    """

    covariance: Array
    kind: NoiseKind = NORMAL
    common: bool = False
    size: NoiseSize | None = None
    do = "Use plain normal noise, or measure its releases with ruv.measure"

    @property
    def not_linear(self) -> str | None:
        if not self.kind.is_normal:
            return f"its noise is {self.kind.name}, not normal"
        return None if self.size is None else "the size of its noise depends on the values"

    def after(self, about: FileFacts) -> FileFacts:
        return about.with_levels(dict.fromkeys(self.columns))

    def of_rows(self, n: int) -> Array:
        """The first mask's covariance of every row, shape (n, columns, columns), (1, ...) if it is that of all."""
        return self.covariance[0] if self.rows is None else self.covariance[0, self.rows.row_labels()]

    def standard_deviations(self, n: int) -> Array | None:
        """Those of every entry, shape (n or 1, columns), where columns are independent; else None."""
        matrices = self.of_rows(n)
        variances = matrices.diagonal(axis1=1, axis2=2)
        return np.sqrt(variances) if np.count_nonzero(matrices) == np.count_nonzero(variances) else None

    def apply(self, values: Array, rng: np.random.Generator) -> Array:
        n, k = values.shape
        noise = self.kind.draw((1 if self.common else n, k), rng)
        sd = self.standard_deviations(n) if self.size is None else self.size.standard_deviations(values)
        wiped: NDArray[np.bool_] = np.isinf(0.0 if sd is None else sd)
        if sd is not None:
            noise *= np.where(wiped, 0.0, sd)
        elif self.rows is None:
            noise = correlate(noise, self.covariance[0, 0])
        else:
            label = self.rows.row_labels()
            for i, matrix in enumerate(self.covariance[0]):
                noise[label == i] = correlate(noise[label == i], matrix)
        released = values + noise if self.common else np.add(noise, values, out=noise)
        return np.where(wiped, np.nan, released) if np.any(wiped) else released


class FactorKind(NamedTuple):
    """The law of a factor with mean one: "normal", "lognormal", "mixture" around 1 - away and 1 + away, or "split"."""

    name: str
    sd: float = 0.0
    away: float = 0.0
    least: float = 0.0
    most: float = 0.0

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Independent draws."""
        if self.name == "split":
            u = rng.random(shape)
            side = np.where(u < 0.5, -1.0, 1.0)
            # The same number decides side and distance: u is uniform again after its first binary digit is taken off.
            return 1.0 + side * (self.least + (self.most - self.least) * np.where(u < 0.5, 2 * u, 2 * u - 1))
        if self.name == "mixture":
            side = np.where(rng.random(shape) < 0.5, -1.0, 1.0)
            return 1.0 + side * self.away + self.sd * rng.standard_normal(shape)
        z = rng.standard_normal(shape)
        if self.name == "lognormal":
            variance = np.log1p(self.sd**2)
            return np.asarray(np.exp(np.sqrt(variance) * z - variance / 2))
        return 1.0 + self.sd * z


@dataclass(frozen=True, eq=False, kw_only=True)
class Multiply(Step):
    """Values are multiplied by random factors; with ``common`` one factor for all columns of a record."""

    not_linear = "values are multiplied by noise"

    factor: FactorKind
    common: bool = False

    def after(self, about: FileFacts) -> FileFacts:
        return about.with_levels(dict.fromkeys(self.columns))

    def apply(self, values: Array, rng: np.random.Generator) -> Array:
        return values * self.factor.draw((len(values), 1 if self.common else values.shape[1]), rng)


# -- entry by entry --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Entrywise(Step):
    """A step of each entry by itself: `transitions` gives what may come out for a value, with probabilities."""

    @property
    def is_deterministic(self) -> bool:
        return True

    def transitions(self, value: Hashable, place: int) -> Transitions:
        """What may come out for a value in the column at this place of ``columns``, with probabilities."""
        raise NotImplementedError

    def after(self, about: FileFacts) -> FileFacts:
        new: dict[int, Labels | None] = {}
        for place, column in enumerate(self.columns):
            old = about.categories(column)
            found = [] if not old else [v for value in old for v, _ in self.transitions(value, place)]
            new[column] = self.outputs(old) if not found else tuple(dict.fromkeys(found))
        return about.with_levels(new)

    def outputs(self, old: Labels | None) -> Labels | None:
        """Categories that come out if those that go in are not known."""
        return old


@dataclass(frozen=True, eq=False, kw_only=True)
class _Numeric(Entrywise):
    """A step of numbers that draws nothing."""

    def transitions(self, value: Hashable, place: int) -> Transitions:
        row = np.zeros((1, len(self.columns)))
        row[0, place] = as_number(value)
        return [(float(self.apply(row, np.random.default_rng(0))[0, place]), 1.0)]


@dataclass(frozen=True, eq=False, kw_only=True)
class ClipTo(_Numeric):
    """Values beyond a bound are set to it; ``lower`` and ``upper`` have one number per column and may be infinite."""

    not_linear = "values beyond a bound are set to it"

    lower: Array
    upper: Array

    def apply(self, values: Array, rng: np.random.Generator) -> Array:
        return np.clip(values, self.lower, self.upper)


@dataclass(frozen=True, eq=False, kw_only=True)
class RoundTo(_Numeric):
    """Values become multiples of a base (one number per column): the nearest, or one of the two nearest at random."""

    not_linear = "values are rounded"

    base: Array
    random: bool = False

    @property
    def is_deterministic(self) -> bool:
        return not self.random

    def transitions(self, value: Hashable, place: int) -> Transitions:
        if not self.random:
            return super().transitions(value, place)
        base = self.base[place]
        ratio = as_number(value) / base
        nearest, below = np.rint(ratio), np.floor(ratio)
        if abs(ratio - nearest) <= TOLERANCE * max(abs(nearest), 1.0):
            return [(float(multiples_of(nearest, base)), 1.0)]
        up = float(ratio - below)
        return [(float(multiples_of(below, base)), 1.0 - up), (float(multiples_of(below + 1, base)), up)]

    def apply(self, values: Array, rng: np.random.Generator) -> Array:
        with np.errstate(over="ignore"):  # beyond the range of numbers a value is a multiple, see below
            ratio = values / self.base
        nearest = np.rint(ratio)
        if self.random:
            lower = np.floor(ratio)
            with np.errstate(invalid="ignore"):  # infinite values are their own multiples
                up = rng.random(values.shape) < ratio - lower
                # 0.3 / 0.1 is not 3 in binary, yet 0.3 is a multiple of 0.1 and stays.
                multiple = np.abs(ratio - nearest) <= 1e-12 * np.maximum(np.abs(nearest), 1.0)
            nearest = np.where(multiple, nearest, lower + up)
        # Where a base is less than the last digit of a value, the value is a multiple of it.
        return np.where(np.abs(ratio) >= 2.0**53, values, multiples_of(nearest, self.base))


def multiples_of(count: Any, base: Any) -> Array:
    """Multiples of the bases: 3 of 0.1 are 0.3, not 0.30000000000000004."""
    with np.errstate(over="ignore", invalid="ignore"):  # of bases near the smallest number
        inverse = np.rint(1.0 / base)
        fraction = (base < 1) & (np.abs(1.0 / base - inverse) < 1e-9 * inverse)
        return np.where(fraction, count / np.where(fraction, inverse, 1.0), count * base) + 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Cut(Entrywise):
    """Numbers become intervals [a, b): between ``edges``, the last one closed, or of one ``width``.

    ``label`` says what an interval is called: "interval" (its name), "midpoint", "lower", or a tuple with a name for
    each.
    """

    not_linear = "numbers become intervals"

    edges: tuple[float, ...] | None = None
    width: float = 1.0
    label: str | Labels = "interval"

    @property
    def releases_names(self) -> bool:
        """Whether what is released are names and not numbers."""
        return not isinstance(self.label, str) or self.label == "interval"

    def transitions(self, value: Hashable, place: int) -> Transitions:
        code, edges = self.codes(np.array([as_number(value)]), "of the belief")
        return [(self.interval_names(edges)[int(code[0])], 1.0)]

    def outputs(self, old: Labels | None) -> Labels | None:
        if not self.releases_names:
            return None
        return () if self.edges is None else self.interval_names(np.asarray(self.edges))

    def codes(self, column: Array, name: Hashable) -> tuple[Ints, Array]:
        """The interval of every number, 0 where it is missing, and the edges of the intervals."""
        known = ~np.isnan(column)
        if self.edges is not None:
            edges = np.asarray(self.edges)
            outside = known & ((column < edges[0]) | (column > edges[-1]))
            if outside.any():
                raise InputError(
                    f"bins must cover column {name!r}",
                    f"{int(outside.sum())} values outside [{edges[0]:g}, {edges[-1]:g}]",
                    "Let the first edge be -inf and the last one inf",
                )
            inner = np.searchsorted(edges, np.where(known, column, edges[0]), side="right") - 1
            return np.clip(inner, 0, len(edges) - 2), edges
        if np.isinf(column).any():
            raise InputError(
                "Recode(width=...) cannot take infinite values",
                f"some in column {name!r}",
                "Use bins= with infinite ends",
            )
        with np.errstate(over="ignore"):
            step = np.floor(np.where(known, column, column[known][0] if known.any() else 0.0) / self.width)
        if np.abs(step).max() >= 2.0**53:
            raise InputError(
                f"width is too small beside the values of column {name!r} to tell intervals apart",
                self.width,
                "Use wider intervals",
            )
        first = int(step.min())
        count = int(step.max()) - first + 1
        if count > 1_000_000:
            raise InputError(
                "width must not cut the data into more than a million intervals", self.width, "Use wider intervals"
            )
        return (step - first).astype(np.int64), np.asarray(
            (first + np.arange(count + 1)) * self.width, dtype=np.float64
        )

    def interval_names(self, edges: Array) -> Labels:
        """What the intervals between edges are called."""
        if not isinstance(self.label, str):
            return self.label
        if self.label == "interval":
            return tuple(_interval_names(edges, self.edges is not None))
        number = edges[:-1] + (edges[1:] - edges[:-1]) / 2 if self.label == "midpoint" else edges[:-1]
        return tuple(number.tolist())


def _interval_names(edges: Array, closed: bool) -> list[str]:
    """Names of intervals, closed on the left; the last one on both sides if ``closed``."""
    shown = [f"{e:.10g}" for e in edges]
    if len(set(shown)) < len(shown):
        shown = [f"{e:.17g}" for e in edges]
    names = []
    for i, (a, b) in enumerate(pairwise(shown)):
        start = "(" if a == "-inf" else "["
        end = "]" if closed and i == len(shown) - 2 and b != "inf" else ")"
        names.append(f"{start}{a}, {b}{end}")
    return names


@dataclass(frozen=True, eq=False, kw_only=True)
class Matrix(Entrywise):
    """A category becomes one that is drawn from its row of a matrix.

    ``whole``: the categories are whole records, for readers that take a record as one; then empty ``inputs`` are those
    that may go in, in their order, and empty ``released`` the same.
    """

    not_linear = "categories are drawn anew"

    matrix: Array
    inputs: Labels
    released: Labels
    whole: bool = False

    def transitions(self, value: Hashable, place: int) -> Transitions:
        if value not in self.inputs:
            raise InputError(
                "The matrix has no row for a category that may go in", value, "Give categories= that name all of them"
            )
        row = self.matrix[self.inputs.index(value)]
        return [(out, float(p)) for out, p in zip(self.released, row, strict=True) if p > 0]

    def after(self, about: FileFacts) -> FileFacts:
        rows = self.released
        if not rows:
            return replace(about, touched=True)
        if self.whole and about.k > 1 and all(isinstance(v, tuple) and len(v) == about.k for v in rows):
            columns = zip(*rows, strict=True)  # type: ignore[arg-type]
            return about.with_levels({j: tuple(dict.fromkeys(c)) for j, c in enumerate(columns)})
        return about.with_levels(dict.fromkeys(self.columns, tuple(dict.fromkeys(rows))))


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanOfTail(Step):
    """Values beyond a threshold become their mean; ``above`` says on which side. ``at`` has one number per column."""

    not_linear = "values beyond a threshold become their mean"

    at: Array
    above: bool

    def apply(self, values: Array, rng: np.random.Generator) -> Array:
        tail = values > self.at if self.above else values < self.at
        count = np.maximum(tail.sum(axis=0), 1)
        return np.where(tail, np.where(tail, values, 0.0).sum(axis=0) / count, values)


# -- what steps do not say ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnLaw(Step):
    """A user's mask that says its law itself: ``linear(channel, numbers)`` or ``log_likelihood(released, x, math)``."""

    whole_rows = True

    mask: Any
    numbers: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class Opaque(Step):
    """What only simulation knows: why, and what to do instead."""

    why: str = ""
    do: str | None = None

    @property
    def not_linear(self) -> str | None:
        return self.why


class MaskLike(Protocol):
    """What `resolve` asks of a mask."""

    @property
    def parts(self) -> Sequence[Any]: ...
    @property
    def separate_releases(self) -> Sequence[Any]: ...
    @property
    def file_count(self) -> int: ...
    @property
    def technique(self) -> str: ...
    @property
    def numbers(self) -> tuple[float, ...]: ...


class Resolved(NamedTuple):
    """A step, the mask that it belongs to, and what is known of the file before it."""

    step: Any
    mask: Any
    about: FileFacts


def resolve(mask: MaskLike, about: FileFacts, numbers: Array | None = None) -> list[Resolved]:
    """The steps of a mask or chain, in order; ``numbers`` has one row per mask of the family."""
    if numbers is None:
        numbers = np.array([mask.numbers], dtype=np.float64)
    found: list[Resolved] = []
    start = 0
    for part in mask.parts:
        stop = start + len(part.numbers)
        about = facts_after(found, about)
        found += part.resolved(about, numbers[:, start:stop])
        start = stop
    return found


def facts_after(found: Sequence[Resolved], about: FileFacts) -> FileFacts:
    """What is known of the file after all steps; ``about`` is what was known before them."""
    return found[-1].step.after(found[-1].about) if found else about  # type: ignore[no-any-return]


def as_number(value: Hashable) -> float:
    """A value that a step of numbers takes."""
    if is_number(value):
        return float(value)
    raise InputError("A step of numbers needs numbers", "labels", "Use Recode(categories=...) or PRAM for labels")
