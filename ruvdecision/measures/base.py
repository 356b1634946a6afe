"""What every measure shares: comparing a release with the original, missing values, and work done once.

A measure is a number computed from an original and a released data set. To add one, write a frozen dataclass
that derives from `Measure`, sets the class attributes and defines `begin` (what depends on the original alone)
and `compare`. Everything else, from reading data to missing values, is done here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd

from ..checks import check_choice, check_fields
from ..errors import InputError, UnsupportedError
from ..masks.frame import Frame
from ..protocols import Array
from . import frames
from .frames import Flags, Labels

Table: TypeAlias = pd.DataFrame | Callable[[], pd.DataFrame] | None


class Measured(float):
    """A number with what belongs to it.

    Attributes
    ----------
    error : float
        Standard error of the number; zero where it is not an estimate.
    parts : dict
        Numbers that the value is made of, by name (both directions, per variable, null value, ...).
    table : DataFrame or None
        A table behind the number, such as the coefficients of both fits; made when it is asked for.
    records : array or None
        One number per record, for measures that have it. Confidential: it never goes onto a map.

    Examples
    --------
    >>> value = Measured(0.5, error=0.1)
    >>> value + 1, value.error
    (1.5, 0.1)
    """

    error: float
    parts: dict[str, float]
    _table: Table
    records: Array | None

    def __new__(
        cls,
        value: float,
        error: float = 0.0,
        parts: Mapping[str, float] | None = None,
        table: Table = None,
        records: Array | None = None,
    ) -> Measured:
        self = super().__new__(cls, value)
        self.error, self.parts, self._table, self.records = float(error), dict(parts or {}), table, records
        return self

    @classmethod
    def of(cls, result: float) -> Measured:
        """The same number with what belongs to it; a plain one has nothing."""
        return result if isinstance(result, Measured) else cls(result)

    @property
    def table(self) -> pd.DataFrame | None:
        """The table behind the number, or None."""
        if callable(self._table):
            # A map computes thousands of numbers and shows few tables.
            self._table = self._table()
        return self._table

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (float(self), self.error, self.parts, self._table, self.records))


@dataclass(frozen=True, repr=False)
class Measure:
    """Base of all measures.

    Class attributes
    ----------------
    label : str
        Name of the column on a map, unless the instance is given another ``name``.
    role : "utility" or "risk"
        What the number speaks about.
    direction : "higher" or "lower"
        Which values are better for the agency. A distance is a utility whose lower values are better; a share
        of re-identified records is a risk whose lower values are better.
    range : (float, float)
        Smallest and largest value the measure can take.
    reference : str
        Where the definition comes from.
    matched : bool
        True if row i of the release must be the record of row i of the original; lengths must then agree.
    policies : tuple of str
        What ``nan_policy`` may be. ``"raise"`` refuses missing values by column, ``"omit"`` leaves out rows with a
        missing value (pairs of rows where records are matched) and reports how many in ``parts["omitted"]``,
        ``"category"`` treats missing as a value of its own.
    """

    label: ClassVar[str] = ""
    role: ClassVar[str] = "utility"
    direction: ClassVar[str] = "lower"
    range: ClassVar[tuple[float, float]] = (0.0, np.inf)
    reference: ClassVar[str] = ""
    matched: ClassVar[bool] = False
    policies: ClassVar[tuple[str, ...]] = ("raise", "omit")

    name: str = field(default="", kw_only=True)
    nan_policy: str = field(default="raise", kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputError("A measure's name is text", self.name, 'Write name="KL"')
        object.__setattr__(self, "name", self.name or self.default_name())
        check_choice("nan_policy", self.nan_policy, self.policies)
        check_fields(self)

    # -- what a new measure defines ------------------------------------------------------------------

    def begin(self, original: pd.DataFrame) -> Any:
        """Everything that can be computed from the original alone. ``original`` has the used columns only."""
        return original

    def compare(self, state: Any, released: pd.DataFrame) -> float:
        """Compare a release with what `begin` gave; a float or a `Measured`."""
        raise NotImplementedError

    def uses(self, original: pd.DataFrame) -> Labels | None:
        """Names of the columns that the measure looks at; None means all, and the files must then agree on them."""
        for name in ("columns", "known", "keys"):  # what a measure calls its columns
            chosen = getattr(self, name, None)
            if chosen is not None:
                return frames.pick(self.name, frames.as_names(name, chosen), original)
        return None

    # -- what a new measure defines if it can be computed from sums over records ----------------------

    def survey(self, piece: pd.DataFrame) -> Any:
        """What must be known of a whole file before its sums are taken, as far as this piece tells; None if nothing."""
        return None

    def settle(self, original: Any, released: Any) -> Any:
        """What both files' surveys make of `partial`'s ``plan``."""
        return None

    def partial(self, piece: pd.DataFrame, plan: Any, which: str) -> Any:
        """Sums over the records of one piece of a file, as an object with a method ``plus`` (see `measures.sums`)."""
        raise UnsupportedError(
            f"{self.name} is not a sum over records, so it cannot read files in pieces",
            do="Leave chunksize= out, or leave this measure out",
        )

    def paired(self, original: pd.DataFrame, released: pd.DataFrame, sums: Any) -> Any:
        """For a measure of matched records: sums over pairs of rows, where ``sums`` are those of the original."""
        raise NotImplementedError

    def total(self, original: Any, released: Any, plan: Any) -> float:
        """Compare the sums of two files; what `compare` would say of the files themselves."""
        raise NotImplementedError

    def default_name(self) -> str:
        """The column's name when the caller gives none."""
        return self.label or type(self).__name__

    # -- what a caller uses --------------------------------------------------------------------------

    def __call__(self, original: Any, released: Any) -> Measured:
        """Compute the measure for one release (DataFrame, Series or array; rows are respondents)."""
        return self.prepare(original)(released)

    def prepare(self, original: Any) -> Prepared:
        """Do once what depends on the original alone; the result is called with one release after another."""
        table = Frame.of(original).table
        used = self.uses(table)
        every = list(table.columns)
        return Prepared(self, table if used is None or used == every else frames.select(table, used), used, every)

    @property
    def sign(self) -> float:
        """1 if larger values mean more utility (or more risk, for a risk), -1 if they mean less."""
        return 1.0 if (self.direction == "higher") == (self.role == "utility") else -1.0

    def settings(self) -> dict[str, Any]:
        """The arguments that differ from their defaults."""
        given = [(f.name, getattr(self, f.name), f.default) for f in fields(self) if f.init]
        usual = {"name": self.default_name()}
        return {k: v for k, v, default in given if repr(v) != repr(usual.get(k, default))}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.settings().items())})"


@dataclass(frozen=True, repr=False)
class SummedMeasure(Measure):
    """A measure of two whole files that its sums say all about: define `partial` and `total`."""

    def begin(self, original: pd.DataFrame) -> Any:
        return self.partial(original, None, "the original")

    def compare(self, state: Any, released: pd.DataFrame) -> float:
        return self.total(state, self.partial(released, None, "the release"), None)


class Prepared:
    """A measure together with what it computed from the original; call it with a release."""

    def __init__(self, measure: Measure, original: pd.DataFrame, used: Labels | None, every: Labels) -> None:
        self.measure, self.original, self.used, self.every = measure, original, used, every
        self.missing = self._missing(original, "the original")
        self.state = measure.begin(self._complete(original, self.missing))

    def __call__(self, released: Any) -> Measured:
        measure = self.measure
        table = self.aligned(released)
        if measure.matched and len(table) != len(self.original):
            raise InputError(
                f"{measure.name} compares record by record and needs as many rows in both files",
                f"{len(self.original)} in the original and {len(table)} in the release",
                "Release every record, or use a measure that does not match records",
            )
        missing, state = self._missing(table, "the release"), self.state
        if measure.nan_policy == "omit" and measure.matched:
            either = frames.either(self.missing, missing)
            if either is not None and (self.missing is None or bool((either != self.missing).any())):
                # A pair counts only when both of its rows are complete, so the original loses rows too.
                state = measure.begin(self._complete(self.original, either))
            missing = either
        result = Measured.of(measure.compare(state, self._complete(table, missing)))
        if measure.nan_policy == "omit":
            result.parts["omitted"] = float(0 if missing is None else missing.sum())
        return result

    def aligned(self, released: Any) -> pd.DataFrame:
        """A release as a table with the used columns in the original's order."""
        return frames.align(self.measure.name, self.original, Frame.of(released), self.used, self.every)

    def _missing(self, table: pd.DataFrame, which: str) -> Flags | None:
        missing = frames.missing_rows(table)
        if self.measure.nan_policy == "raise":
            frames.refuse_missing(self.measure.name, which, table, missing)
        return missing

    def _complete(self, table: pd.DataFrame, missing: Flags | None) -> pd.DataFrame:
        if self.measure.nan_policy != "omit" or missing is None or not missing.any():
            return table
        if missing.all():
            raise frames.no_row(self.measure.name, f"{len(table)} rows, each with a missing value")
        return table[~missing]


def mean_or_function(name: str, value: Any) -> Any:
    """Check for a statistic: "mean", or a function of a table."""
    if not callable(value) and not (isinstance(value, str) and value == "mean"):
        raise InputError(f'{name} must be "mean" or a function of a table', value, f'Write {name}="mean"')
    return value


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS on one thread: many small problems lose more to waiting threads than they gain."""
    with _threads().limit(limits=1, user_api="blas"):
        yield


@cache
def _threads() -> Any:
    """The libraries' thread settings, looked up once because the search takes longer than a small problem."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
