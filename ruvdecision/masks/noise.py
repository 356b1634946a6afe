"""Adding noise to the records."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..channels.layout import Partition
from ..channels.steps import AddNoise, FileFacts, NoiseKind, NoiseSize, Opaque, Step
from ..checks import (
    Columns,
    as_float_array,
    as_tuple,
    check_choice,
    check_covariance,
    check_flag,
    check_number,
    check_one_of,
    check_probabilities,
    checked,
    is_single,
)
from ..errors import InputError
from ..protocols import Array
from .base import Mask
from .columns import as_columns, refuse_missing
from .frame import Frame
from .moments import correlate_like, with_moments_of

UNITS = ("variance", "sd", "covariance", "share")
OTHER_NOISE = (
    "Use Noise(variance=...) or Noise(covariance=...) with a size of its own, or measure its releases with ruv.measure"
)


@dataclass(frozen=True, repr=False, init=False)
class Noise(Mask):
    """Add noise with mean zero; normal noise of one size for all records unless said otherwise.

    Give exactly one of ``variance``, ``sd``, ``covariance`` and ``share``: the unit is always named. Whatever the kind,
    the noise has the variance that is given. Missing values stay missing; ``share`` is then one of the covariance of
    the complete records. Natural bounds are a mask after it, ``Noise(sd=3) | Clip(lower=0)``.

    Parameters
    ----------
    variance, sd : float, one number per column, one per record, or callable
        Variance or standard deviation of independent noise. Infinity is allowed: the entry then tells nothing, which is
        suppression, and it is released as missing. A list as long as there are columns is read as one number per
        column; otherwise it must have one number per record. An array with one row per record and one or all columns
        says it entry by entry. A callable gets the values of one column and gives back one number for each:
        ``variance=lambda x: 2 * (1 + (x > 35_000))`` is twice as large for incomes above 35,000 (Duncan et al., section
        V).
    covariance : matrix
        Covariance of the noise across columns.
    share : float
        The noise has this share of the data's own covariance (Karr et al.: Noise(.16)). With data it is the
        sample covariance (divisor n - 1); in a map without data the belief's covariance of a record stands
        for it.
    common : bool, default False
        One draw for the whole file instead of one per record. With an infinite size it is suppression like any infinite
        noise: the entries are missing, so that differences between records do not show either.
    columns : names or positions, optional
        Columns that get noise; all of them if not given.
    kind : {"normal", "laplace", "t", "mixture"}, default "normal"
        Law of the noise. With a covariance between columns, independent draws of this law with variance one are
        multiplied by the symmetric root of the covariance.
    df : float, optional
        Degrees of freedom for ``kind="t"``, above 2 so that there is a variance.
    weights, centres : numbers, optional
        For ``kind="mixture"``: probabilities and means of the normal components, in standard deviations of the noise.
        The means must average to zero and their variance must be below 1; the components share what is left of it as
        their own variance. Without them two equal components lie at -0.9 and 0.9, so that few values stay near the
        original. (Roque, 2000; Yancey, Winkler and Creecy, 2002.)

    Closed forms know normal noise whose size does not depend on the values.

    >>> Noise(variance=2.08)
    Noise(variance=2.08)
    >>> from ruvdecision.masks import Clip
    >>> (Noise(sd=3) | Clip(lower=0)).technique
    'Noise | Clip'
    """

    variance: Any = None
    sd: Any = None
    covariance: Any = None
    share: float | None = None
    common: bool = False
    columns: Columns = None
    kind: str = "normal"
    df: float | None = None
    weights: Any = None
    centres: Any = None

    def __init__(
        self,
        variance: Any = None,
        sd: Any = None,
        covariance: Any = None,
        share: float | None = None,
        common: bool = False,
        columns: Columns = None,
        kind: str = "normal",
        df: float | None = None,
        weights: Any = None,
        centres: Any = None,
    ) -> None:
        given = self.__dict__
        if (
            type(variance) is float and variance >= 0.0
            and sd is covariance is share is columns is df is weights is centres is None
            and common is False and type(kind) is str and kind == "normal" and type(self) is Noise
        ):  # fmt: skip
            # The common case, thousands of times in a grid: the class holds all the other values, and one family is
            # enough.
            given["variance"], given["family"] = variance, PLAIN_FAMILY
            return
        given.update(
            variance=variance, sd=sd, covariance=covariance, share=share, common=common, columns=columns, kind=kind
        )
        given.update(df=df, weights=weights, centres=centres)
        self._check_arguments()

    def _check_arguments(self) -> None:
        """Check the arguments and keep them in one form."""
        found, name = self.__dict__, type(self).__name__
        do = f"Write {name}(variance=2) or {name}(sd=1.5)"
        unit = check_one_of(name, {unit: found[unit] for unit in UNITS}, do)
        found[unit] = as_size(unit, found[unit])
        check_flag("common", self.common, "Leave common out if you do not need it")
        found["columns"] = as_columns("columns", self.columns)
        _, found["df"], found["weights"], found["centres"] = as_kind(self.kind, self.df, self.weights, self.centres)
        if self.common and callable(found[unit]):
            raise InputError("common=True goes with noise of one size for all records", repr(self), "Leave common out")

    @cached_property
    def unit(self) -> str:
        """Which of variance, sd, covariance and share was given."""
        return "variance" if self.variance is not None else next(u for u in UNITS if getattr(self, u) is not None)

    @property
    def _given_size(self) -> Any:
        """What was given: a number, a tuple of them, a tuple of rows, or a function of the value."""
        return getattr(self, self.unit)

    @property
    def law(self) -> NoiseKind:
        """The law of the noise, scaled to variance one."""
        return NoiseKind(self.kind, self.df, self.weights, self.centres)

    def matrix(self, k: int, data_covariance: Array | None = None) -> Array:
        """Covariance of the noise on ``k`` columns, where it is the same for all records."""
        return self._covariances_of_family(k, np.array([self.numbers]), data_covariance)[0]

    # -- releasing -----------------------------------------------------------------------------------

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        values, positions = frame.numeric(type(self).__name__, self.columns, missing=True)
        if self.share is not None and np.isinf(values).any():
            refuse_missing(type(self).__name__, frame.table.iloc[:, positions], only_infinite=True)
        return frame.replace(self._add_noise(values, rng), positions)

    def _add_noise(self, values: Array, rng: np.random.Generator) -> Array:
        """The values with noise; missing where infinite noise has wiped them out."""
        n, k = values.shape
        if self.share is None:
            return self._noise_step(n, tuple(range(k)), np.array([self.numbers]), None).apply(values, rng)
        holes = np.isnan(values).any(axis=1)
        whole = values[~holes] if holes.any() else values
        if len(whole) < 2:
            do = "Use variance= or covariance="
            raise InputError(f"{self} needs at least two complete records to have a covariance", len(whole), do)
        return values + correlate_like(self.law.draw((1 if self.common else n, k), rng), whole, self.share)

    def resized(self, variance: float, scale: float) -> Mask:
        unit, given = self.unit, self._given_size
        if callable(given) or not np.all(np.isfinite(np.asarray(given, dtype=np.float64))):
            return self
        value = np.asarray(given, dtype=np.float64)
        if unit != "share" and not value.any():
            # No noise at all has no shape of its own.
            value = np.eye(len(value)) if value.ndim == 2 else np.ones_like(value)
        now: Any
        if unit == "share":
            now = variance / scale
        elif unit == "covariance":
            now = value * (variance / np.trace(np.atleast_2d(value)) * len(np.atleast_2d(value)))
        elif unit == "sd":
            now = value * np.sqrt(variance / np.mean(value**2))
        else:
            now = value * (variance / np.mean(value))
        return type(self)(**{**self.settings(), unit: float(now) if np.ndim(now) == 0 else now})

    # -- the law -------------------------------------------------------------------------------------

    @cached_property
    def family(self) -> Hashable:
        if type(self.variance) is float and self.kind == "normal":
            return (type(self), "variance", 0, self.common, self.columns)  # thousands of times in a grid
        unit, value = self.unit, self._given_size
        shape: tuple[Hashable, ...] = (value if callable(value) else 0,)
        if _is_table(value) and unit != "covariance":
            shape = (value,)
        elif isinstance(value, tuple):
            # Members may be one number per record: they go together if they tell the same records apart.
            shape = (len(value), None if unit == "covariance" else number_equal_entries(value))
        return (type(self), unit, *shape, self.common, self.columns, *(() if self.kind == "normal" else self.law))

    @property
    def numbers(self) -> tuple[float, ...]:
        if type(self.variance) is float:
            return (self.variance,)
        value = self._given_size
        if self.covariance is not None:
            return tuple(x for row in value for x in row)
        if callable(value) or _is_table(value):
            return ()
        return as_tuple(value)

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        if self.share is not None and about.touched:
            why = "it takes its size from what the masks before it give out, which is not known beforehand"
            return [Opaque(why=why, do="Put it first in the chain, or give covariance=")]
        if self.share is not None and about.covariance is None:
            return [Opaque(why="the size of its noise is a share of the file's own covariance", do=OTHER_NOISE)]
        return [self._noise_step(about.n, about.positions(self.columns), numbers, about.covariance)]

    def _noise_step(self, n: int, chosen: tuple[int, ...], numbers: Array, data_covariance: Array | None) -> AddNoise:
        """The noise on n records: covariances of shape (masks, kinds of rows, k, k), and the rows of each kind."""
        value, k, rows = self._given_size, len(chosen), None
        size = NoiseSize(value, self.unit) if callable(value) else None
        if size is not None:
            covariance = np.eye(k)[None, None]
        elif self.unit in ("variance", "sd") and is_per_record(value, n, k):
            if self.common:
                what, got = "common=True goes with noise of one size for all records", f"{self.unit} for each record"
                raise InputError(what, got, "Leave common out")
            labels = np.array(number_equal_entries(value))
            first = np.unique(labels, return_index=True)[1]
            # One number per record is that of all columns; a table has one per column. Shape (masks, kinds, 1 or k).
            table = np.asarray(value)[first][None] if _is_table(value) else numbers[:, first, None]
            if table.shape[2] not in (1, k):
                what = f"Noise({self.unit}=...) must have one column or {k}"
                got = f"shape {np.shape(value)}"
                raise InputError(what, got, "Give one number per record, or one per entry")
            covariance = np.zeros((len(table), len(first), k, k))
            covariance[..., np.arange(k), np.arange(k)] = table ** (1 if self.unit == "variance" else 2)
            rows = Partition.of(labels, joins=False) if len(first) > 1 else None
        else:
            scale = None if data_covariance is None else data_covariance[np.ix_(chosen, chosen)]
            covariance = self._covariances_of_family(k, numbers, scale)[:, None]
        return AddNoise(columns=chosen, rows=rows, covariance=covariance, kind=self.law, common=self.common, size=size)

    def _covariances_of_family(self, k: int, numbers: Array, data_covariance: Array | None) -> Array:
        """Noise covariances of a family, shape (masks, k, k)."""
        unit = self.unit
        if unit == "covariance":
            size = len(self.covariance)
            if size != k:
                what = f"Noise(covariance=...) must be {k} by {k}, one row per column"
                raise InputError(what, f"{size} by {size}", "Match the noise to the data's columns")
            return numbers.reshape(-1, k, k)
        if unit == "share":
            if data_covariance is None:
                what = "Noise(share=...) needs to know the data's covariance"
                raise InputError(what, None, "Use variance= or covariance=")
            return numbers[:, :, None] * data_covariance
        if numbers.shape[1] == 0:
            raise InputError(f"{self} has no one covariance for all records", None, "Use variance=, sd= or covariance=")
        with np.errstate(over="ignore"):  # infinite noise leaves nothing
            variance = numbers if unit == "variance" else numbers**2
        if variance.shape[1] not in (1, k):
            what = f"Noise({unit}=...) must have {k} entries, one per column, or one per record"
            raise InputError(what, variance.shape[1], "Give one number, one per column, or one per record")
        full = np.zeros((len(variance), k, k))
        full[:, np.arange(k), np.arange(k)] = variance
        return full


PLAIN_FAMILY = (Noise, "variance", 0, False, None)


@dataclass(frozen=True, repr=False, init=False)
class MomentNoise(Noise):
    """Noise after which the release has the sample mean and covariance of the file (Kim, 1986).

    Arguments are those of `Noise`. A linear transform makes it so, x̄ + (y - ȳ) T with T' S_y T = S_x. Of all such T it
    is the one that moves the noisy records least (in units of the columns' standard deviations). With ``share=c`` T is
    close to 1 / sqrt(1 + c). Columns must be complete.

    >>> float(MomentNoise(share=0.16).release([1.0, 2.0, 6.0], 1).mean().round(12))
    3.0
    """

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if self.common:
            raise InputError("MomentNoise draws for each record", "common=True", "Leave common out")

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        values, positions = frame.numeric("MomentNoise", self.columns)
        if len(values) < 2:
            raise InputError(f"{self} needs at least two records to have a covariance", len(values), "Use Noise")
        released = self._add_noise(values, rng)
        if np.isnan(released).any():
            what = "MomentNoise cannot keep moments of what infinite noise wipes out"
            raise InputError(what, repr(self), "Use Suppress for those columns")
        return frame.replace(with_moments_of(values, released), positions)

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        return [Opaque(why="it looks at the whole file's moments", do=OTHER_NOISE)]


@dataclass(frozen=True, repr=False)
class ResidualNoise(Mask):
    """In a chain: noise with the covariance of what the mask before it took away, the file before less the file after.

    ``Microaggregate(size=3, by="zscore") | ResidualNoise()`` gives back the spread that averaging took (Karr, Oganian,
    Reiter and Woo).

    Parameters
    ----------
    columns : names or positions, optional
        Columns that get noise; all of them if not given. They must be complete.
    kind, df : as for `Noise`
        Law of the noise.
    """

    columns: Columns = checked(None, as_columns)
    kind: str = "normal"
    df: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "df", as_kind(self.kind, self.df).df)

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        raise InputError(
            "ResidualNoise matches what the mask before it took away",
            "no mask before it",
            "Write Microaggregate(size=3, by='zscore') | ResidualNoise()",
        )

    def follow(self, frame: Frame, before: Frame, rng: np.random.Generator) -> Frame:
        values, positions = frame.numeric("ResidualNoise", self.columns)
        if before.n != frame.n or before.columns != frame.columns:
            raise InputError(
                "The mask before ResidualNoise must keep rows and columns",
                f"shapes {before.table.shape} and {frame.table.shape}",
                "Put Subsample first in the chain",
            )
        if len(values) < 2:
            raise InputError(f"{self} needs at least two records to have a covariance", len(values), "Use Noise")
        original, _ = before.numeric("ResidualNoise", [frame.columns[i] for i in positions])
        noise = NoiseKind(self.kind, self.df).draw(values.shape, rng)
        return frame.replace(values + correlate_like(noise, original - values), positions)

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        return [Opaque(why="it looks at the whole file's moments", do=OTHER_NOISE)]


# -- arguments -------------------------------------------------------------------------------------------


def as_kind(kind: str, df: Any, weights: Any = None, centres: Any = None) -> NoiseKind:
    """The law with the numbers that it needs; arguments of other kinds are refused."""
    check_choice("kind", kind, ("normal", "laplace", "t", "mixture"))
    if kind == "t":
        if df is None:
            raise InputError('Noise(kind="t") needs df', None, "Give degrees of freedom above 2, df=5")
        df = check_number("df", df, low=2, open_low=True)
    elif df is not None:
        raise InputError('df goes with kind="t"', f"kind={kind!r}", "Leave df out")
    if kind != "mixture":
        if weights is not None or centres is not None:
            raise InputError('weights and centres go with kind="mixture"', f"kind={kind!r}", "Leave them out")
        return NoiseKind(kind, df)
    if centres is None and weights is None:
        return NoiseKind(kind, df, (0.5, 0.5), (-0.9, 0.9))
    if centres is None:
        raise InputError('Noise(kind="mixture") needs the components\' centres', None, "Write centres=[-0.9, 0.9]")
    at = as_float_array("centres", centres)
    if at.ndim != 1 or len(at) == 0 or not np.all(np.isfinite(at)):
        raise InputError("centres must be a list of numbers", centres, "Write centres=[-0.9, 0.9]")
    share = check_probabilities("weights", np.full(len(at), 1.0 / len(at)) if weights is None else weights, len(at))
    if share.ndim != 1:
        raise InputError(
            "weights must be a list of probabilities", f"shape {share.shape}", "Give one weight per component"
        )
    if abs(share @ at) > 1e-9:
        raise InputError(
            "The components' centres must average to zero", float(share @ at), "Shift centres by their weighted mean"
        )
    if share @ at**2 >= 1.0:
        raise InputError(
            "The variance of the components' centres must be below 1",
            float(share @ at**2),
            "Bring the centres nearer to zero; they count standard deviations of the noise",
        )
    return NoiseKind(kind, df, tuple(share.tolist()), tuple(at.tolist()))


def as_size(name: str, value: Any) -> Any:
    """A size of noise in the form in which it is kept: number, tuple, tuple of tuples or callable."""
    if name == "covariance":
        return tuple(map(tuple, check_covariance(name, value).tolist()))
    if name == "share" or (is_single(value) and not callable(value)):
        return check_number(name, value, low=0, infinite=name != "share")
    if callable(value):
        return value
    array = as_float_array(name, value)
    if array.ndim > 2 or array.size == 0:
        raise InputError(
            f"{name} must be a number, one per column, one per record or one per entry",
            f"shape {array.shape}",
            "Use covariance= for a matrix",
        )
    if np.isnan(array).any() or array.min() < 0:
        wrong = array[~(array >= 0)]
        raise InputError(
            f"{name} must be made of numbers in [0, inf]",
            float(wrong.flat[0]),
            f"Give every {name} inside that interval",
        )
    return tuple(array.tolist()) if array.ndim == 1 else tuple(map(tuple, array.tolist()))


def is_per_record(value: Any, n: int, k: int) -> bool:
    """Whether a size is given record by record: a table, or a list that is not one number per column."""
    if _is_table(value) and len(value) != n:
        what = f"Noise for each entry must have {n} rows, one per record"
        raise InputError(what, len(value), "Give one row per record")
    return _is_table(value) or (not is_single(value) and len(value) == n and n not in (1, k))


def _is_table(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], tuple)


def number_equal_entries(value: tuple[Any, ...]) -> tuple[int, ...]:
    """Number equal entries alike, in the order in which they come."""
    places: dict[Any, int] = {}
    return tuple(places.setdefault(v, len(places)) for v in value)
