"""Adding noise to the records."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..channels.layout import Partition
from ..channels.steps import About, AddNoise, ClipTo, NoiseKind, Opaque, SizeOf, Step
from ..checks import check_flags, check_number
from ..errors import InputError
from ..protocols import Array
from .base import Mask
from .columnkinds import as_columns
from .frame import Frame
from .moments import correlate, correlate_like, with_moments_of
from .noisekind import as_bounds, as_kind, clip, draw
from .noisesize import as_size, evaluate, is_per_record, pattern
from .round import per_column

__all__ = ["Noise"]

UNITS = ("variance", "sd", "covariance", "share")
SCALAR_UNITS = ("variance", "sd")
OTHER_NOISE = (
    "Use Noise(variance=...) or Noise(covariance=...) with a size of its own, or measure its releases with ruv.measure"
)


@dataclass(frozen=True, repr=False, init=False)
class Noise(Mask):
    """Add noise with mean zero; normal noise of one size for all records unless said otherwise.

    Give exactly one of ``variance``, ``sd``, ``covariance``, ``share`` and ``matching_residuals``: the unit is always named.
    Whatever the kind, the noise has the variance that is given. Missing values stay missing, except with ``share``,
    ``keep_moments`` and ``matching_residuals``, which need complete columns and refuse others.

    Parameters
    ----------
    variance, sd : float, one number per column, one per record, or callable
        Variance or standard deviation of independent noise. Infinity is allowed: the entry then tells nothing, which is
        suppression, and it is released as missing. A list as long as there are columns is read as one number per column;
        otherwise it must have one number per record. An array with one row per record and one or all columns says it
        entry by entry. A callable gets the values of one column and gives back one number for each.
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
        Law of the noise. With a covariance between columns, independent draws of this law with variance one are multiplied
        by the symmetric root of the covariance.
    df : float, optional
        Degrees of freedom for ``kind="t"``, above 2 so that there is a variance.
    weights, centres : numbers, optional
        For ``kind="mixture"``: probabilities and means of the normal components, in standard deviations of the noise. The
        means must average to zero and their variance must be below 1; the components share what is left of it as their
        own variance. Without them two equal components lie at -0.9 and 0.9, so that few values stay near the original.
        (Roque, 2000; Yancey, Winkler and Creecy, 2002.)
    lower, upper : float or one number per column, optional
        Natural bounds: a released value beyond one is set to it (Duncan et al., 2001, eq. 11).
    where, times : booleans or callable, and a number, optional
        The noise's *variance* is ``times`` as large where ``where`` holds: one boolean per record, or a callable that gets
        the values of one column (Duncan et al., section V, doubles it for incomes above 35,000).
    keep_moments : bool, default False
        Kim (1986): after the noise a linear transform makes the sample mean and covariance of the release equal those of
        the file, x̄ + (y - ȳ) T with T' S_y T = S_x. Of all such T it is the one that moves the noisy records least (in
        units of the columns' standard deviations). With ``share=c`` T is close to 1 / sqrt(1 + c).
    matching_residuals : bool, default False
        In a chain: the noise has the covariance of what the step before it took away, the file before that step less the
        file after it, so ``Microaggregate(size=3, by="zscore") | Noise(matching_residuals=True)`` gives back the spread
        that averaging took (Karr, Oganian, Reiter and Woo).

    Closed forms know normal noise whose size does not depend on the values: ``kind="normal"`` without bounds,
    ``keep_moments``, ``matching_residuals`` and callables.

    >>> Noise(variance=2.08)
    Noise(variance=2.08)
    >>> Noise(sd=3, lower=0).release([1.0, 2.0, 30.0], 1).round(2)
    array([ 2.04,  4.46, 30.99])
    """

    variance: Any = None
    sd: Any = None
    covariance: Any = None
    share: float | None = None
    common: bool = False
    columns: Any = None
    kind: str = "normal"
    df: float | None = None
    weights: Any = None
    centres: Any = None
    lower: Any = None
    upper: Any = None
    where: Any = None
    times: float | None = None
    keep_moments: bool = False
    matching_residuals: bool = False

    def __init__(
        self,
        variance: Any = None,
        sd: Any = None,
        covariance: Any = None,
        share: float | None = None,
        common: bool = False,
        columns: Any = None,
        kind: str = "normal",
        df: float | None = None,
        weights: Any = None,
        centres: Any = None,
        lower: Any = None,
        upper: Any = None,
        where: Any = None,
        times: float | None = None,
        keep_moments: bool = False,
        matching_residuals: bool = False,
    ) -> None:
        given = self.__dict__
        plain = (
            type(variance) is float
            and variance >= 0.0
            and sd is covariance is share is columns is None
            and common is False
        )
        if (
            plain and type(kind) is str and kind == "normal" and df is weights is centres is lower is upper is where is times is None
            and keep_moments is matching_residuals is False
        ):  # fmt: skip
            # The common case, thousands of times in a grid: the class holds all the other values, and one family is enough.
            given["variance"], given["family"] = variance, PLAIN_FAMILY
            return
        given.update(
            variance=variance, sd=sd, covariance=covariance, share=share, common=common, columns=columns, kind=kind, df=df, weights=weights,
            centres=centres, lower=lower, upper=upper, where=where, times=times, keep_moments=keep_moments,
            matching_residuals=matching_residuals,
        )  # fmt: skip
        self._check()

    def _check(self) -> None:
        """Check the arguments and keep them in one form."""
        given = [
            name
            for name in (*UNITS, "matching_residuals")
            if getattr(self, name) is not None and getattr(self, name) is not False
        ]
        if len(given) != 1:
            raise InputError(
                "Noise needs one of variance, sd, covariance, share and matching_residuals",
                given,
                "Write Noise(variance=2) or Noise(sd=1.5)",
            )
        name = given[0]
        if name != "matching_residuals":
            self._set(name, as_size(name, getattr(self, name)))
        for flag in ("common", "keep_moments", "matching_residuals"):
            if not isinstance(getattr(self, flag), (bool, np.bool_)):
                raise InputError(
                    f"{flag} must be True or False", getattr(self, flag), f"Leave {flag} out if you do not need it"
                )
        self._set("columns", as_columns("columns", self.columns))
        for field, value in zip(
            ("df", "weights", "centres"), as_kind(self.kind, self.df, self.weights, self.centres), strict=True
        ):
            self._set(field, value)
        self._check_limits()
        uneven = callable(getattr(self, name)) or self.where is not None
        if self.common and (uneven or self.keep_moments):
            raise InputError(
                "common=True goes with noise of one size for all records, without keep_moments",
                repr(self),
                "Leave common out",
            )

    @property
    def unit(self) -> str:
        """Which of variance, sd, covariance, share and matching_residuals was given."""
        if self.variance is not None:
            return "variance"
        return next((name for name in UNITS if getattr(self, name) is not None), "matching_residuals")

    @property
    def even(self) -> float | None:
        """The standard deviation, if one finite number is that of all entries (``where`` apart); None otherwise."""
        value = self.variance if self.variance is not None else self.sd
        if type(value) is not float:
            return None
        # As from a covariance matrix, to the last bit.
        root = float(np.sqrt(value if self.variance is not None else value * value))
        return root if np.isfinite(root) else None

    @property
    def obstacle(self) -> str | None:
        """Why the release is not linear in the records plus Gaussian noise, or None if it is."""
        if self.kind != "normal":
            return f"its noise is {self.kind}, not normal"
        if self.lower is not None or self.upper is not None:
            return "values beyond a bound are set to it"
        if callable(getattr(self, self.unit)) or callable(self.where):
            return "the size of its noise depends on the values"
        if self.keep_moments or self.matching_residuals:
            return "it looks at the whole file's moments"
        return None

    def matrix(self, k: int, data_covariance: Array | None = None) -> Array:
        """Covariance of the noise on ``k`` columns, where it is the same for all records."""
        return self._matrices(k, np.array([self.numbers]), data_covariance)[0]

    # -- releasing -----------------------------------------------------------------------------------

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        if self.matching_residuals:
            raise InputError(
                "Noise(matching_residuals=True) matches what the mask before it took away",
                "no mask before it",
                "Write Microaggregate(size=3, by='zscore') | Noise(matching_residuals=True)",
            )
        return self._add(frame, None, rng)

    def follow(self, frame: Frame, before: Frame, rng: np.random.Generator) -> Frame:
        return self._add(frame, before if self.matching_residuals else None, rng)

    def _add(self, frame: Frame, before: Frame | None, rng: np.random.Generator) -> Frame:
        whole = self.share is not None or self.keep_moments or before is not None
        values, positions = frame.numeric("Noise", self.columns, missing=not whole)
        n, k = values.shape
        if whole and n < 2:
            raise InputError(
                f"{self} needs at least two records to have a covariance", n, "Use variance= or covariance="
            )
        noise = draw(self.kind, (1 if self.common else n, k), rng, self.df, self.weights, self.centres)
        unit = self.unit
        value = getattr(self, unit)
        wiped: Any = False
        if self.even is not None:
            noise *= self.even
        elif callable(value) or (unit in SCALAR_UNITS and is_per_record(value, n, k)):
            if self.common:
                raise InputError(
                    "common=True goes with noise of one size for all records",
                    f"{unit} for each record",
                    "Leave common out",
                )
            spread = (
                evaluate(unit, value, values) if callable(value) else np.asarray(value, dtype=np.float64).reshape(n, -1)
            )
            if spread.shape[1] not in (1, k):
                raise InputError(
                    f"Noise({unit}=...) must have one column or {k}",
                    f"shape {spread.shape}",
                    "Give one number per record, or one per entry",
                )
            spread = np.sqrt(spread) if unit == "variance" else spread
            wiped = np.isinf(spread)
            noise *= np.where(wiped, 0.0, spread)
        elif self.share is not None or before is not None:
            like = values if before is None else _residuals(frame, before, positions, values)
            noise = correlate_like(noise, like, 1.0 if self.share is None else self.share)
        else:
            matrix = self.matrix(k)
            wiped = np.isinf(np.diag(matrix))
            noise = correlate(noise, np.where(wiped[:, None] | wiped[None, :], 0.0, matrix) if wiped.any() else matrix)
        if self.where is not None:
            noise *= np.sqrt(np.where(self._chosen(values), float(self.times or 1.0), 1.0))
        released = values + noise if self.common else np.add(noise, values, out=noise)
        if np.any(wiped):
            if self.keep_moments:
                raise InputError(
                    "keep_moments cannot keep moments of what infinite noise wipes out",
                    repr(self),
                    "Use Suppress for those columns",
                )
            released = np.where(wiped, np.nan, released)
        if self.keep_moments:
            released = with_moments_of(values, released)
        if self.lower is not None or self.upper is not None:
            released = clip(released, self.lower, self.upper)
        return frame.replace(released, positions)

    def _chosen(self, values: Array) -> NDArray[np.bool_]:
        """Where the variance is multiplied, as a column or a matrix."""
        n, k = values.shape
        if not callable(self.where):
            return np.asarray(self._where(n), dtype=bool)[:, None]
        found = []
        for j in range(k):
            answer = np.asarray(self.where(values[:, j].copy()))
            if answer.shape != (n,) or answer.dtype != bool:
                raise InputError(
                    "where must give back one boolean per record",
                    f"shape {answer.shape} of {answer.dtype}",
                    "Write where=lambda x: x > 35_000",
                )
            found.append(answer)
        return np.stack(found, axis=1)

    def _where(self, n: int) -> tuple[bool, ...]:
        if len(self.where) != n:
            raise InputError(
                f"where must have a boolean for each of the {n} records",
                f"{len(self.where)} of them",
                "Give one boolean per record, or a callable",
            )
        return tuple(self.where)

    # -- closed forms --------------------------------------------------------------------------------

    @cached_property
    def family(self) -> Hashable:
        unit, value = self.unit, getattr(self, self.unit)
        rest: tuple[Hashable, ...] = () if self._simple else self._details
        if unit == "covariance":
            return (Noise, unit, len(value), self.common, self.columns, *rest)
        if not isinstance(value, tuple):
            return (Noise, unit, value if callable(value) else 0, self.common, self.columns, *rest)
        if isinstance(value[0], tuple):
            return (Noise, unit, value, self.common, self.columns, *rest)
        # Members may be one number per record: they go together if they tell the same records apart.
        return (Noise, unit, len(value), pattern(value), self.common, self.columns, *rest)

    @property
    def numbers(self) -> tuple[float, ...]:
        if type(self.variance) is float:
            return (self.variance,)
        if self.covariance is not None:
            return tuple(x for row in self.covariance for x in row)
        for value in (self.variance, self.sd, self.share):
            if value is not None:
                if callable(value) or (isinstance(value, tuple) and isinstance(value[0], tuple)):
                    return ()
                return value if isinstance(value, tuple) else (value,)
        return ()

    def steps(self, about: About, numbers: Array) -> list[Step]:
        if self.keep_moments or self.matching_residuals:
            return [Opaque(why="it looks at the whole file's moments", do=OTHER_NOISE)]
        if self.share is not None and about.touched:
            why = "it takes its size from what the masks before it give out, which is not known beforehand"
            return [Opaque(why=why, do="Put it first in the chain, or give covariance=")]
        if self.share is not None and about.covariance is None:
            return [Opaque(why="the size of its noise is a share of the file's own covariance", do=OTHER_NOISE)]
        chosen = about.positions(self.columns)
        covariance, rows = self._kinds(about, numbers, chosen)
        kind = NoiseKind(self.kind, self.df, self.weights, self.centres)
        found: list[Step] = [
            AddNoise(columns=chosen, rows=rows, covariance=covariance, kind=kind, common=self.common, size=self._size)
        ]
        if self.lower is not None or self.upper is not None:
            low, high = (
                per_column(name, end if value is None else value, len(chosen))
                for name, value, end in (("lower", self.lower, -np.inf), ("upper", self.upper, np.inf))
            )
            found.append(ClipTo(columns=chosen, lower=low, upper=high))
        return found

    @property
    def _size(self) -> SizeOf | None:
        """How the size of the noise depends on the value, None if it does not."""
        value, where = getattr(self, self.unit), self.where if callable(self.where) else None
        if not callable(value) and where is None:
            return None
        return SizeOf(value if callable(value) else None, self.unit, where, float(self.times or 1.0))

    def _kinds(self, about: About, numbers: Array, chosen: tuple[int, ...]) -> tuple[Array, Partition | None]:
        """Covariances of shape (masks, kinds of rows, k, k), and the rows of each kind, None if all are alike."""
        value, k, n = getattr(self, self.unit), len(chosen), about.n
        apart = self.unit in SCALAR_UNITS and is_per_record(value, n, k)
        if apart and self.common:
            raise InputError(
                "common=True goes with noise of one size for all records",
                f"{self.unit} for each record",
                "Leave common out",
            )
        keys = [pattern(value)] if apart else []
        if isinstance(self.where, tuple):
            keys.append(tuple(map(int, self._where(n))))
        labels, first = np.zeros(n if keys else 1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        if keys:
            _, first, labels = np.unique(np.array(keys), axis=1, return_index=True, return_inverse=True)
            labels = labels.reshape(-1)
        if callable(value):
            found = np.eye(k)[None, None]
        elif not apart:
            scale = None if about.covariance is None else about.covariance[np.ix_(chosen, chosen)]
            found = self._matrices(k, numbers, scale)[:, None]
        else:
            power = 1 if self.unit == "variance" else 2
            # One number per record is that of all columns; a table has one per column. Shape (masks, kinds, 1 or k).
            table = (
                np.asarray(value, dtype=np.float64)[first][None]
                if isinstance(value[0], tuple)
                else numbers[:, first, None]
            ) ** power
            if table.shape[2] not in (1, k):
                raise InputError(
                    f"Noise({self.unit}=...) must have one column or {k}",
                    f"shape {np.shape(value)}",
                    "Give one number per record, or one per entry",
                )
            found = np.zeros((len(table), len(first), k, k))
            found[..., np.arange(k), np.arange(k)] = table
        if isinstance(self.where, tuple):
            times = np.where(np.asarray(self.where)[first], float(self.times or 1.0), 1.0)
            found = found * times[:, None, None]
        return found, Partition.of(labels, joins=False) if len(first) > 1 else None

    def _matrices(self, k: int, numbers: Array, data_covariance: Array | None) -> Array:
        """Noise covariances of a family, shape (masks, k, k)."""
        unit = self.unit
        if unit == "covariance":
            size = len(self.covariance)
            if size != k:
                raise InputError(
                    f"Noise(covariance=...) must be {k} by {k}, one row per column",
                    f"{size} by {size}",
                    "Match the noise to the data's columns",
                )
            return numbers.reshape(-1, k, k)
        if unit == "share":
            if data_covariance is None:
                raise InputError(
                    "Noise(share=...) needs to know the data's covariance", None, "Use variance= or covariance="
                )
            return numbers[:, :, None] * data_covariance
        if numbers.shape[1] == 0:
            raise InputError(f"{self} has no one covariance for all records", None, "Use variance=, sd= or covariance=")
        variance = numbers if unit == "variance" else numbers**2
        if variance.shape[1] not in (1, k):
            raise InputError(
                f"Noise({unit}=...) must have {k} entries, one per column, or one per record",
                variance.shape[1],
                "Give one number, one per column, or one per record",
            )
        full = np.zeros((len(variance), k, k))
        full[:, np.arange(k), np.arange(k)] = variance
        return full

    # -- checking ------------------------------------------------------------------------------------

    @property
    def _simple(self) -> bool:
        return (
            self.kind == "normal" and self.where is None and self.lower is None and self.upper is None and not self.keep_moments
            and self.times is None and self.df is None and self.weights is None and self.centres is None
        )  # fmt: skip

    @property
    def _details(self) -> tuple[Hashable, ...]:
        return (
            self.kind,
            self.df,
            self.weights,
            self.centres,
            self.lower,
            self.upper,
            self.where,
            self.times,
            self.keep_moments,
        )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_limits(self) -> None:
        lower, upper = as_bounds(self.lower, self.upper)
        self._set("lower", lower)
        self._set("upper", upper)
        if self.keep_moments and (self.lower is not None or self.upper is not None):
            raise InputError(
                "Bounds would change the moments that keep_moments keeps",
                repr(self),
                "Leave out lower and upper, or keep_moments",
            )
        if (self.where is None) != (self.times is None):
            # Not the booleans themselves: they say which records are sensitive.
            got = "where alone" if self.times is None else "times alone"
            raise InputError("where and times go together", got, "Write where=x > 35_000, times=2")
        if self.where is not None:
            self._set("times", check_number("times", self.times, low=0, open_low=True))
            if not callable(self.where):
                self._set("where", check_flags("where", self.where))


PLAIN_FAMILY = (Noise, "variance", 0, False, None)


def _residuals(frame: Frame, before: Frame, positions: list[int], values: Array) -> Array:
    """The file before the last step less the file after it."""
    if before.n != frame.n or before.columns != frame.columns:
        raise InputError(
            "The mask before Noise(matching_residuals=True) must keep rows and columns",
            f"shapes {before.table.shape} and {frame.table.shape}",
            "Put Subsample first in the chain",
        )
    original, _ = before.numeric("Noise(matching_residuals=True)", [frame.columns[i] for i in positions])
    return original - values
