"""What every measure shares: comparing a release with the original, missing values, and work done once.

A measure is a number computed from an original and a released data set. To add one, write a frozen dataclass
that derives from `Measure`, sets the class attributes and defines `begin` (what depends on the original alone)
and `compare`. Everything else, from reading data to missing values, is done here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ..checks import check_choice
from ..errors import InputError, UnsupportedError
from ..masks.frame import Frame
from . import frames

__all__ = ["Measure", "Measured", "Prepared", "need", "one_thread"]


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
    _table: Any
    records: np.ndarray[Any, Any] | None

    def __new__(
        cls,
        value: float,
        error: float = 0.0,
        parts: Mapping[str, float] | None = None,
        table: Any = None,
        records: Any = None,
    ) -> Measured:
        self = super().__new__(cls, value)
        self.error, self.parts, self._table, self.records = float(error), dict(parts or {}), table, records
        return self

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
        for f in fields(self):
            if isinstance(f.default, bool) and not isinstance(getattr(self, f.name), (bool, np.bool_)):
                # Any text is true to Python, "no" as well.
                raise InputError(f"{f.name} must be True or False", getattr(self, f.name), f"Write {f.name}=True")
        if "columns" in {f.name for f in fields(self)}:
            object.__setattr__(self, "columns", frames.as_names(getattr(self, "columns")))  # noqa: B009

    # -- what a new measure defines ------------------------------------------------------------------

    def begin(self, original: pd.DataFrame) -> Any:
        """Everything that can be computed from the original alone. ``original`` has the used columns only."""
        return original

    def compare(self, state: Any, released: pd.DataFrame) -> Any:
        """Compare a release with what `begin` gave; a float or a `Measured`."""
        raise NotImplementedError

    def uses(self, original: pd.DataFrame) -> list[Any] | None:
        """Names of the columns that the measure looks at; None means all, and the files must then agree on them."""
        chosen = getattr(self, "columns", None)
        return None if chosen is None else frames.pick(self.name, chosen, original)

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

    def total(self, original: Any, released: Any, plan: Any) -> Any:
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
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        default = {f.name: f.default for f in fields(self)}
        return {
            k: v
            for k, v in given.items()
            if not (k == "name" and v == self.default_name()) and (v is not default[k] and repr(v) != repr(default[k]))
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.settings().items())})"


class Prepared:
    """A measure together with what it computed from the original; call it with a release."""

    def __init__(self, measure: Measure, original: pd.DataFrame, used: list[Any] | None, every: list[Any]) -> None:
        self.measure, self.original, self.used, self.every = measure, original, used, every
        self.missing = frames.missing_rows(original)
        if measure.nan_policy == "raise":
            frames.refuse_missing(measure.name, "the original", original, self.missing)
        self.state = measure.begin(self._complete(original, self.missing))

    def __call__(self, released: Any) -> Measured:
        measure = self.measure
        table = frames.align(measure.name, self.original, Frame.of(released), self.used, self.every)
        if measure.matched and len(table) != len(self.original):
            raise InputError(
                f"{measure.name} compares record by record and needs as many rows in both files",
                f"{len(self.original)} in the original and {len(table)} in the release",
                "Release every record, or use a measure that does not match records",
            )
        missing = frames.missing_rows(table)
        state = self.state
        if measure.nan_policy == "raise":
            frames.refuse_missing(measure.name, "the release", table, missing)
        elif measure.nan_policy == "omit" and measure.matched:
            either = _either(self.missing, missing)
            if either is not None and (self.missing is None or bool((either != self.missing).any())):
                # A pair counts only when both of its rows are complete, so the original loses rows too.
                state = measure.begin(self._complete(self.original, either))
            missing = either
        result = measure.compare(state, self._complete(table, missing))
        if not isinstance(result, Measured):
            result = Measured(result)
        if measure.nan_policy == "omit":
            result.parts["omitted"] = float(0 if missing is None else missing.sum())
        return result

    def _complete(self, table: pd.DataFrame, missing: Any) -> pd.DataFrame:
        if self.measure.nan_policy != "omit" or missing is None or not missing.any():
            return table
        if missing.all():
            raise InputError(
                f"{self.measure.name} has no complete row left",
                f"{len(table)} rows, each with a missing value",
                "Choose columns with fewer missing values",
            )
        return table[~missing]


def _either(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a | b


def need(package: str, who: str, extra: str = "") -> Any:
    """Import a package that only some measures need, or say which one to install."""
    try:
        return import_module(package)
    except ImportError:
        root = {"sklearn": "scikit-learn"}.get(package.split(".")[0], package.split(".")[0])
        raise UnsupportedError(
            f"{who} needs the package {root}, which is not installed", do=f"Install {root}{extra}"
        ) from None


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS on one thread: many small problems lose more to waiting threads than they gain."""
    controller = _threads()
    if controller is None:
        yield
        return
    with controller.limit(limits=1, user_api="blas"):
        yield


@cache
def _threads() -> Any:
    """The libraries' thread settings, looked up once because the search takes longer than a small problem."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
