"""What every measure shares: comparing a release with the original, missing values, and work done once.

A measure is a number computed from an original and a released data set. To add one, write a frozen dataclass
that derives from `Measure`, sets the class attributes and defines `begin` (what depends on the original alone)
and `compare`. Everything else, from reading data to missing values, is done here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd

from ..checks import check_fields, check_kind, field_values, one_number
from ..errors import InputError, RuvError, UnsupportedError, kind_of
from ..masks.frame import Frame
from ..protocols import Array
from . import frames
from .frames import Data, Flags, Labels
from .missing import FILLED, UNFILLED, check_missing, fill_missing, warn_omitted, with_missing

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
    missing : str
        How missing values were taken ("wildcard", "omit", ...); empty if there were none.

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
    missing: str

    def __new__(
        cls,
        value: float,
        error: float = 0.0,
        parts: Mapping[str, float] | None = None,
        table: Table = None,
        records: Array | None = None,
        missing: str = "",
    ) -> Measured:
        self = super().__new__(cls, value)
        self.error, self.parts, self._table, self.records = float(error), dict(parts or {}), table, records
        self.missing = missing
        return self

    @classmethod
    def of(cls, result: float) -> Measured:
        """The same number with what belongs to it; a plain one has nothing."""
        if isinstance(result, Measured):
            return result
        number = one_number(result)
        if number is None:
            raise InputError("A measure must give one real number", kind_of(result), "Return a float or a Measured")
        return cls(number)

    @property
    def table(self) -> pd.DataFrame | None:
        """The table behind the number, or None."""
        if callable(self._table):
            # A map computes thousands of numbers and shows few tables.
            self._table = self._table()
        return self._table

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (float(self), self.error, self.parts, self._table, self.records, self.missing))


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
    release_only : bool
        True if the release alone is measured: the original only says which columns there are.
    takes_copies : bool
        True if a release is a list of imputed copies, compared all at once.
    columns_by_name : bool
        True if columns are taken in the order of their names, because theirs in the file would settle ties or meet
        random numbers.
    missing_choices : tuple of str
        What ``missing`` may be, the default first; `ruvdecision.measures.missing` says what each means.
    own_missing : tuple of str
        Those that the measure carries out itself, beside "wildcard" and "pairwise": it then gets tables with their
        missing values.
    own_columns : tuple of str
        Arguments that name one column each: those stand last in the tables, and are not among the others.
    per_record_file : "released" or "original"
        Whose rows a number per record speaks about.
    """

    label: ClassVar[str] = ""
    role: ClassVar[str] = "utility"
    direction: ClassVar[str] = "lower"
    range: ClassVar[tuple[float, float]] = (0.0, np.inf)
    reference: ClassVar[str] = ""
    matched: ClassVar[bool] = False
    release_only: ClassVar[bool] = False
    takes_copies: ClassVar[bool] = False
    columns_by_name: ClassVar[bool] = False
    missing_choices: ClassVar[tuple[str, ...]] = FILLED
    own_missing: ClassVar[tuple[str, ...]] = ()
    own_columns: ClassVar[tuple[str, ...]] = ()
    per_record_file: ClassVar[str] = "released"

    name: str = field(default="", kw_only=True)
    missing: str = field(default="", kw_only=True)
    by: Hashable = field(default=None, kw_only=True, metadata={"check": frames.one_name, "required": False})
    """A column whose values part the records: ``parts`` and ``table`` then have the measure of every part as well."""

    def __post_init__(self) -> None:
        check_kind("A measure's name", self.name, str, 'Write name="KL"')
        object.__setattr__(self, "name", self.name or self.default_name())
        object.__setattr__(self, "missing", check_missing(self.name, self.missing, self.missing_choices))
        check_fields(self)

    def refuse_unused(self, used: bool, by: str, write: str, *options: str) -> None:
        """Raise an error for options that are not at their defaults though nothing would use them."""
        idle = [] if used else [k for k in options if k in self.settings()]
        if idle:
            got = ", ".join(f"{k}={self.settings()[k]!r}" for k in idle)
            raise InputError(f"{' and '.join(idle)} would not be used: only {by} does", got, f"Write {write} as well")

    # -- what a new measure defines ------------------------------------------------------------------

    def begin(self, original: pd.DataFrame) -> Any:
        """Everything that can be computed from the original alone. ``original`` has the used columns only."""
        return original

    def compare(self, state: Any, released: pd.DataFrame) -> float:
        """Compare a release with what `begin` gave; a float or a `Measured`."""
        raise NotImplementedError

    def uses(self, original: pd.DataFrame) -> Labels | None:
        """Names of the columns that the measure looks at; None means all, and the files must then agree on them."""
        given = field_values(self)
        many = self.columns_argument()
        chosen = given.get(many)
        if self.own_columns:
            ones = ((name, given[name]) for name in self.own_columns)
            return frames.pick_apart(self.name, original, (many, chosen), *ones)
        return None if chosen is None else frames.pick_columns(self.name, chosen, original)

    def columns_argument(self) -> str:
        """The argument that chooses the columns, where there are several the one that does."""
        given = field_values(self)
        called = [name for name in ("columns", "known", "keys", "predictors") if name in given]
        return next((name for name in called if given[name] is not None), next(iter(called), "columns"))

    def default_name(self) -> str:
        """The column's name when the caller gives none."""
        return self.label or type(self).__name__

    # -- what a caller uses --------------------------------------------------------------------------

    def __call__(self, original: Data, released: Data) -> Measured:
        """Compute the measure for one release (DataFrame, Series or array; rows are respondents)."""
        return self.prepare(original)(released)

    def prepare(self, original: Data) -> Prepared:
        """Do once what depends on the original alone; the result is called with one release after another."""
        return self.prepared(original) if self.by is None else PreparedByGroup(self, original)

    def prepared(self, original: Data) -> Prepared:
        """The same for all records together."""
        return Prepared(self, original)

    @property
    def sign(self) -> float:
        """1 if larger values mean more utility (or more risk, for a risk), -1 if they mean less."""
        return 1.0 if (self.direction == "higher") == (self.role == "utility") else -1.0

    def settings(self) -> dict[str, Any]:
        """The arguments that differ from their defaults."""
        usual = {f.name: f.default for f in fields(self) if f.init}
        usual |= {"name": self.default_name(), "missing": self.missing_choices[0]}
        return {k: v for k, v in field_values(self).items() if k in usual and repr(v) != repr(usual[k])}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.settings().items())})"


@dataclass(frozen=True, repr=False)
class WeightedMeasure(Measure):
    """A measure in which records may count differently, by a column of sampling weights that each file has.

    Means, tables, distribution functions and likelihoods are weighted; only the weights' ratios matter, and equal
    weights are no weights. Standard errors are those of weighted least squares with as many records as the file has
    (analytic weights), not of the sample's design. The column of weights itself is not compared. Where records are
    paired, a pair has the original's weight.

    `begin` (and `sums_of`) are then given the weights as one more argument, and so is `compare` unless records are
    paired; a risk that is a mean over records says `weigh` instead.
    """

    weights: Hashable = field(default=None, kw_only=True, metadata={"check": frames.one_name, "required": False})
    """The column of weights; None if every record counts once."""

    weighs_records: ClassVar[bool] = False
    """True if the number is made of one number per record (`weigh`), and nothing else has weights."""

    def begin(self, original: pd.DataFrame, *weights: Any, **named: Any) -> Any:
        return original if self.weighs_records else (original, *(weights or (None,)))

    def weigh(self, found: Measured, weights: Array) -> Measured:
        """The number made of those of the records, each with the weight of its row."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class SummedMeasure(Measure):
    """A measure made of sums over records, so that it can read files in pieces: `sums_of` and `compare_sums`.

    A sum is an object with a method ``plus`` (see `measures.sums`).
    """

    surveyed: ClassVar[bool] = False
    """Whether something must be known of both files before their sums are taken: `survey` and `settle`."""

    def begin(self, original: pd.DataFrame, *weights: Any, **named: Any) -> Any:
        return self.sums_of(original, None, "the original", *weights)

    def compare(self, state: Any, released: pd.DataFrame, *weights: Any, **named: Any) -> float:
        return self.compare_sums(state, self.sums_of(released, None, "the release", *weights), None)

    def survey(self, piece: pd.DataFrame) -> Any:
        """What must be known of a whole file beforehand, as far as this piece tells."""
        raise NotImplementedError

    def settle(self, original: Any, released: Any) -> Any:
        """What both files' surveys make of `sums_of`'s ``plan``."""
        raise NotImplementedError

    def sums_of(self, piece: pd.DataFrame, plan: Any, which: str, *weights: Any, **named: Any) -> Any:
        """Sums over the records of one piece of a file."""
        raise NotImplementedError

    def sums_of_pairs(
        self, original: pd.DataFrame, released: pd.DataFrame, sums: Any, *weights: Any, **named: Any
    ) -> Any:
        """For a measure of matched records: sums over pairs of rows, where ``sums`` are those of the original."""
        raise NotImplementedError

    def compare_sums(self, original: Any, released: Any, plan: Any) -> float:
        """Compare the sums of two files; what `compare` would say of the files themselves."""
        raise NotImplementedError


class UsedColumns:
    """The columns that a measure looks at, by the original's names, and what becomes of missing values in them.

    Every file that a measure is given passes through here, whole or in pieces.
    """

    def __init__(self, measure: Measure, original: pd.DataFrame) -> None:
        self.who, self.missing, self.own = (
            measure.name,
            measure.missing,
            measure.missing in {*measure.own_missing, *UNFILLED},
        )
        self.asked, self.by_name = measure.missing != measure.missing_choices[0], measure.columns_by_name
        self.every, self.argument = original.columns.tolist(), measure.columns_argument()
        self.weight: Hashable = None
        self.chosen: Labels | None
        if isinstance(measure, WeightedMeasure) and measure.weights is not None:
            self.weight = frames.pick_columns(measure.name, (measure.weights,), original)[0]
            rest = original.drop(columns=[self.weight])
            if not rest.shape[1]:
                what = f"{measure.name} needs a column besides the weights"
                raise InputError(what, str(self.weight), "Add the columns that are to be compared")
            self.chosen = frames.pick_columns(measure.name, measure.uses(rest), rest)
        else:
            self.chosen = measure.uses(original)

    def of(self, data: Frame) -> Frame:
        """The used columns of a file, in the original's order or by name."""
        used = frames.align_columns(self.who, self.chosen, self.every, data, self.argument)
        frames.refuse_lists(self.who, used)
        return used.select(np.argsort(list(map(str, used.columns)), kind="stable").tolist()) if self.by_name else used

    def weights(self, data: Frame, which: str, without: Flags | None = None) -> tuple[Array, ...]:
        """The weights of a file's rows, as one more argument or none; ``without`` are rows that are left out."""
        if self.weight is None:
            return ()
        if self.weight in data.table.columns:
            found = frames.positive_weights(self.who, data.table[self.weight], which)
        else:
            wanted = self.every if data.table.shape[1] == len(self.every) else [self.weight]
            found = frames.positive_weights(
                self.who, frames.align_columns(self.who, wanted, self.every, data).table[self.weight], which
            )
        return self.weights_of_kept_rows((found,), without)

    def weights_of_kept_rows(self, weights: tuple[Array, ...], without: Flags | None) -> tuple[Array, ...]:
        """Weights of the rows that are not left out."""
        return weights if without is None or self.missing != "omit" else tuple(w[~without] for w in weights)

    def incomplete_rows(self, used: Frame, which: str) -> Flags | None:
        """Rows with a missing value, None if there are none; missing values are refused if they must be."""
        found = frames.missing_rows(used)
        if self.missing == "raise":
            frames.refuse_missing(self.who, which, used.table, found)
        return found

    def complete_rows(self, table: pd.DataFrame, incomplete: Flags | None) -> pd.DataFrame:
        """The rows that are not left out; some must remain."""
        if incomplete is None or self.missing != "omit":
            return table
        if incomplete.all():
            raise frames.no_row_error(self.who, f"{len(table)} rows, each with a missing value")
        return table[~incomplete]

    def rows_to_leave_out(self, used: Frame, which: str) -> Flags | None:
        """Rows of a piece of a file to leave out; filling in asks for the whole file and is refused."""
        found = self.incomplete_rows(used, which)
        if found is not None and self.missing != "omit" and not self.own:
            what = f"{self.who} takes missing values as {self.missing!r}, which asks for whole files"
            raise InputError(
                what, f"{int(found.sum())} rows with some", 'Write missing="omit", or leave chunksize= out'
            )
        return found if self.missing == "omit" else None

    def result(self, value: float, omitted: int, met: bool) -> Measured:
        """The measure's number, with how missing values were taken if some were met, and how many rows left out."""
        measured = Measured.of(value)
        measured.missing = self.missing if met else ""
        if self.missing == "omit" and (met or self.asked):
            measured.parts["omitted"] = float(omitted)
        return measured


class Prepared:
    """A measure together with what it computed from the original; call it with a release."""

    quiet = False
    """True where somebody else tells of records that were left out though a release protects them: a map's notes."""
    paired = False
    """True if rows of the two files are the same record, by position or label."""

    def __init__(self, measure: Measure, original: Data) -> None:
        frame = Frame.of(original)
        self.measure, self.labels = measure, frame.table.index
        frame = self.with_paired_rows(frame)
        self.columns = UsedColumns(measure, frame.table)
        used = None if measure.release_only and measure.missing != "omit" else self.columns.of(frame)
        # Of a release alone the original only says which columns there are.
        self.original = frame.table.iloc[:0] if used is None or measure.release_only else used.table
        self.weights = self.columns.weights(frame, "the original")
        self.records = isinstance(measure, WeightedMeasure) and measure.weighs_records
        holes = None if used is None else self.columns.incomplete_rows(used, "the original")
        self.before = int(holes.sum()) if measure.missing == "omit" and holes is not None else 0
        self.incomplete = None if measure.release_only else holes
        self.lacking = [] if self.incomplete is None else with_missing(self.original)
        self.state = self._begin_on_original(self.incomplete, self.lacking)

    def _begin_on_original(self, incomplete: Flags | None, lacking: Labels) -> Any:
        """What the measure makes of the original, without these rows or with these columns filled in."""
        table = self._take_table(self.columns.complete_rows(self.original, incomplete), lacking)
        weights = () if self.records else self.columns.weights_of_kept_rows(self.weights, incomplete)
        return self.measure.begin(table, *weights)

    def _take_table(self, table: pd.DataFrame, lacking: Labels) -> pd.DataFrame:
        if self.columns.own or self.columns.missing not in ("category", "impute"):
            return table
        return fill_missing(self.columns.missing, table if self.measure.release_only else self.original, table, lacking)

    def __call__(self, released: Data) -> Measured:
        measure, columns, frame = self.measure, self.columns, self.with_paired_rows(Frame.of(released))
        used = columns.of(frame)
        table = used.table
        if measure.matched and len(table) != len(self.original):
            raise frames.PairingError(
                f"{measure.name} compares record by record and needs as many rows in both files",
                f"{len(self.original)} in the original and {len(table)} in the release",
                "Release every record, or use a measure that does not match records",
            )
        incomplete, state, lacking = columns.incomplete_rows(used, "the release"), self.state, self.lacking
        met = self.incomplete is not None or incomplete is not None
        blanked = 0
        if columns.missing == "omit":
            blanked = max((0 if incomplete is None else int(incomplete.sum())) - self.before, 0)
            if measure.matched:
                incomplete = frames.either_flag(self.incomplete, incomplete)
                if incomplete is not None and (self.incomplete is None or bool((incomplete != self.incomplete).any())):
                    # A pair counts only when both of its rows are complete, so the original loses rows too.
                    state = self._begin_on_original(incomplete, [])
        elif incomplete is not None:
            lacking = lacking + [c for c in with_missing(table) if c not in lacking]
            if columns.missing == "category" and not columns.own and len(lacking) > len(self.lacking):
                state = self._begin_on_original(None, lacking)  # both files get the same indicators
        alone = self.records or self.paired or measure.matched
        weights = () if alone else columns.weights(frame, "the release", incomplete)
        value = measure.compare(state, self._take_table(columns.complete_rows(table, incomplete), lacking), *weights)
        if self.records and columns.weight is not None:
            own = measure.per_record_file == "original"
            weights = (
                columns.weights_of_kept_rows(self.weights, self.incomplete)
                if own
                else columns.weights(frame, "the release", incomplete)
            )
            value = measure.weigh(Measured.of(value), *weights)  # type: ignore[attr-defined]
        found = columns.result(value, 0 if incomplete is None else int(incomplete.sum()), met)
        if blanked and measure.role == "risk":
            found.parts["blanked"] = float(blanked)
            if not self.quiet:
                warn_omitted(measure.name, blanked + self.before, len(table), blanked)
        return found

    def columns_used_of(self, released: Data) -> pd.DataFrame:
        """The columns of a release that the measure looks at."""
        return self.columns.of(Frame.of(released)).table

    def with_paired_rows(self, frame: Frame) -> Frame:
        """A file with its rows labelled as the measure wants them; the original comes first."""
        return frame


class PreparedByGroup(Prepared):
    """A measure of all records, and of each group of them that shares a value of a column.

    Each file is parted by its own values, but pairs of records stay together: they are in the original's group.
    """

    def __init__(self, measure: Measure, original: Data) -> None:
        frame, plain = Frame.of(original), replace(measure, by=None)
        if measure.takes_copies:
            raise UnsupportedError(f"{measure.name} cannot be taken by groups", f"by={measure.by!r}", "Leave by= out")
        self.measure, self.labels = measure, frame.table.index
        self.by = frames.pick_columns(measure.name, (measure.by,), frame.table)[0]
        # A column that parts the records is not one of those that are compared, unless it is named.
        self.drop = [self.by] if plain.uses(frame.table) is None and frame.table.shape[1] > 1 else []
        self.whole = plain.prepared(frame.table.drop(columns=self.drop))
        self.columns, self.original, self.state = self.whole.columns, self.whole.original, self.whole.state
        column = frames.grouping_column(measure.name, frame, self.by)
        self.levels = frames.categories_of(column)
        names = frames.group_names(self.levels, column)
        self.groups: dict[str, tuple[pd.Index, Prepared | RuvError]] = {}
        for name in [*map(str, self.levels.values), *(["nan"] if column.isna().any() else [])]:
            part = frame.table[names == name]
            own = self._measure_of_group(plain, name, len(part) / len(frame.table))
            self.groups[name] = part.index, _result_or_error(own.prepared, part.drop(columns=self.drop))

    def _measure_of_group(self, plain: Measure, name: str, share: float) -> Measure:
        """The measure of one group: another file that it is given is parted, too, and so is a population's size."""
        given = field_values(plain)
        own = {k: v.part(self.by, self.levels, name) for k, v in given.items() if hasattr(v, "part")}
        if isinstance(given.get("population"), int):  # the same share of every group is in the sample
            own["population"] = round(share * given["population"])
        return replace(plain, **own)

    def columns_used_of(self, released: Data) -> pd.DataFrame:
        return self.whole.columns_used_of(Frame.of(released).table.drop(columns=self.drop))

    def __call__(self, released: Data) -> Measured:
        frame = Frame.of(released)
        table = frame.table
        frames.pick_columns(self.measure.name, (self.by,), table)
        whole = self.whole(table.drop(columns=self.drop))
        paired = (
            self.whole.paired
            and self.whole.with_paired_rows(Frame(table, "frame")).table.index.isin(range(len(self.labels))).all()
        )
        if paired and len(table) == len(self.labels):
            table = table.set_axis(self.labels, axis=0)
        column = frames.grouping_column(self.measure.name, frame, self.by)
        names = frames.group_names(self.levels, column)
        rows: dict[str, dict[str, Any]] = {}
        for name, (labels, prepared) in self.groups.items():
            part = table[table.index.isin(labels) if paired else names == name].drop(columns=self.drop)
            part = part if paired else part.set_axis(pd.RangeIndex(-len(part), 0), axis=0)  # nobody's rows
            found = _result_or_error(prepared, part) if callable(prepared) else prepared
            why = str(found) if isinstance(found, RuvError) else ""
            measured = Measured.of(np.nan if isinstance(found, RuvError) else found)
            rows[name] = {"value": float(measured), "error": measured.error, "records": len(part), "note": why}
        groups = pd.DataFrame(rows).T.rename_axis(self.by)
        parts = whole.parts | {f"{self.by}={level}": row["value"] for level, row in rows.items()}
        return Measured(float(whole), whole.error, parts, groups, whole.records, whole.missing)


def _result_or_error(call: Callable[..., Any], part: pd.DataFrame) -> Any:
    """What a call gives, or its error: a group may be too small for a measure."""
    try:
        return call(part)
    except RuvError as error:
        return error


def mean_or_function(name: str, value: Any) -> Any:
    """Check for a statistic: "mean", or a function of a table."""
    if not callable(value) and not (isinstance(value, str) and value == "mean"):
        raise InputError(f'{name} must be "mean" or a function of a table', value, f'Write {name}="mean"')
    return value
