"""Matching two data sets: columns that differ, lengths, types, categories that one file does not have."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..checks import check_columns, is_label, is_single
from ..errors import InputError
from ..masks.columns import is_categorical
from ..masks.frame import Frame, numpy_kind
from ..protocols import Array

Labels = list[Hashable]
Names: TypeAlias = Hashable | Iterable[Hashable] | None
Data: TypeAlias = pd.DataFrame | pd.Series | ArrayLike | Frame
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]

LARGE = 1e140
"""Larger values have no finite square to speak of."""
SMALL = 1e-302
"""Smaller sums of squares have lost digits, or are zero though the values differ."""


# -- columns by name ----------------------------------------------------------------------------------


def as_names(name: str, columns: Any) -> tuple[Hashable, ...]:
    """Column names as a tuple; one name may stand alone."""
    if is_single(columns):
        return (columns,)
    # A set has another order in every process, and order decides which random numbers a column gets.
    names = tuple(sorted(columns, key=str) if isinstance(columns, (set, frozenset)) else columns)
    if not names:
        raise InputError(f"{name} must name at least one column", columns, f"Leave {name} out to use them all")
    return names


def pick_columns(who: str, names: Names, table: pd.DataFrame) -> Labels:
    """The labels of the named columns (names, or positions where no column is called that); None means all."""
    known = table.columns.tolist()
    return known if names is None else [known[place] for place in check_columns(who, as_names(who, names), known)]


def one_name(name: str, value: Hashable) -> Hashable:
    """Check for an argument that names one column."""
    if value is None or not is_label(value) or isinstance(value, tuple):
        raise InputError(f"{name} must name one column", value, f'Write {name}="income"')
    return value


def pick_apart(who: str, table: pd.DataFrame, many: tuple[str, Names], *ones: tuple[str, Hashable]) -> Labels:
    """The labels of several columns, all others unless they are named, and then of those that stand alone.

    Each is given as (argument, names); None in place of a single name is left out.
    """
    alone: dict[Hashable, str] = {}
    for argument, name in ones:
        if name is not None:
            label = pick_columns(who, (name,), table)[0]
            if label in alone:
                what = f"A column cannot be {alone[label]} and {argument}"
                raise InputError(what, str(label), f"Name another column in {argument}=")
            alone[label] = argument
    labels = [c for c in table.columns if c not in alone] if many[1] is None else pick_columns(who, many[1], table)
    for label, argument in alone.items():
        if label in labels:
            do = f"Leave it out of {many[0]}=[...]"
            raise InputError(f"A column cannot be in {many[0]} and be {argument}", str(label), do)
    if not labels:
        raise InputError(f"{many[0]} must name some column", labels, f"Name one in {many[0]}=[...]")
    return [*labels, *alone]


def align_columns(who: str, chosen: Labels | None, every: Labels, data: Frame, argument: str = "columns") -> Frame:
    """A file with the original's chosen columns, in the original's order.

    With ``chosen`` None both files must have the same columns; those that differ are listed. An array has no names: its
    columns are those of the original (``every`` one, or the chosen ones), in order.
    """
    table, wanted = data.table, every if chosen is None else chosen
    if data.kind in ("matrix", "vector") and table.columns.tolist() != every:
        if table.shape[1] not in (len(every), len(wanted)):
            sizes = f"{len(every)} in the original and {table.shape[1]} in the release"
            raise InputError(f"{who} needs as many columns in both files", sizes, "Give data frames with column names")
        table = table.set_axis(every if table.shape[1] == len(every) else wanted, axis=1)
        data = Frame(table, "frame")
    if table.columns.tolist() == wanted:
        return data
    lost = [str(c) for c in wanted if c not in table.columns]
    extra = [str(c) for c in table.columns if c not in wanted] if chosen is None else []
    if lost or extra:
        sides = (("not in the release", lost), ("not in the original", extra))
        raise InputError(
            f"{who} needs the same columns in both files",
            "; ".join(f"{side}: {', '.join(names)}" for side, names in sides if names),
            f"Rename or drop them, or choose the common ones with {argument}=[...]",
        )
    # By position, which is much quicker than by label.
    return data.select([table.columns.get_loc(label) for label in wanted])


def refuse_lists(who: str, data: Frame) -> None:
    """Raise an error for columns whose entries are lists or dictionaries, as files of nested data have them."""
    single = (pd.CategoricalDtype, pd.StringDtype)  # categories can be hashed, and a text is one value
    places = [j for j, t in enumerate(data.dtypes) if t.kind == "O" and not isinstance(t, single)]
    nested = [str(data.columns[j]) for j in places if not all(map(is_label, data.table.iloc[:100, j]))]
    if nested:
        do = "Leave it out, or make columns of what is in it"
        raise InputError(
            f"{who} needs columns with one value per record", f"lists or the like in {', '.join(nested)}", do
        )


def grouping_column(who: str, data: Frame, label: Hashable) -> pd.Series:
    """A column whose values tell rows apart, of a type that pandas has an index of."""
    refuse_lists(who, data.select([data.table.columns.get_loc(label)]))
    column = data.table[label]
    return column.astype(np.float64) if column.dtype in (np.float16, np.longdouble) else column


# -- missing values ------------------------------------------------------------------------------------


def missing_rows(data: pd.DataFrame | Frame) -> Flags | None:
    """True for rows with a missing value; None if no column has any, which is the usual case and quick to find."""
    frame = data if isinstance(data, Frame) else Frame(data, "frame")
    table, kinds = frame.table, set(map(numpy_kind, frame.dtypes))
    if kinds <= set("iub"):
        return None  # whole numbers are never missing
    if kinds <= set("fiub"):
        with np.errstate(all="ignore"):
            if np.isfinite(table.to_numpy(dtype=np.float64).sum()):
                return None  # a missing value would have made the sum nan
    found = None
    for _, column in table.items():
        holes = np.asarray(column.isna())
        if holes.any():
            found = either_flag(found, holes)
    return found


def either_flag(a: Flags | None, b: Flags | None) -> Flags | None:
    """True where one of two is; None is true nowhere."""
    return b if a is None else a if b is None else a | b


def refuse_missing(who: str, which: str, table: pd.DataFrame, missing: Flags | None) -> None:
    """Raise an error that names the columns with missing values."""
    if missing is None:
        return
    named = [str(c) for c in table.columns if table[c].isna().any()]
    raise InputError(
        f"{who} cannot take missing values in {which}",
        f"{int(missing.sum())} rows with some, in columns {', '.join(named)}",
        "Fill them first, leave the columns out, or write missing= another choice",
    )


class PairingError(InputError):
    """Records cannot be paired: the files have other numbers of rows, and nothing says whose they are."""


def no_row_error(who: str, got: str) -> InputError:
    """The error of a file or of pairs without a complete row."""
    return InputError(f"{who} has no complete row left", got, "Choose columns with fewer missing values")


def check_enough_rows(who: str, n: int, least: int, which: str) -> None:
    """Raise an error for a file that is too short."""
    if n < least:
        raise InputError(f"{who} needs at least {least} rows in {which}", n, "Use a larger file")


# -- numbers -------------------------------------------------------------------------------------------


def is_number(column: Any) -> bool:
    """True for real numbers and booleans, by column or dtype; text, categories and times are not numbers."""
    dtype = getattr(column, "dtype", column)
    if numpy_kind(dtype):
        return numpy_kind(dtype) in "fiub"
    return bool(pd.api.types.is_numeric_dtype(dtype)) and not pd.api.types.is_complex_dtype(dtype)


def is_time(column: pd.Series) -> bool:
    """True for dates and durations."""
    return bool(pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype))


def refuse_mixed(who: str, a: pd.Series, b: pd.Series) -> None:
    """Raise an error for a column that is a number or a time in one of the files only."""
    if (is_number(a), is_time(a)) != (is_number(b), is_time(b)):
        kinds = f"{a.name}: {a.dtype} in the original, {b.dtype} in the release"
        raise InputError(f"{who} needs a column to be of one kind in both files", kinds, "Convert it in one of them")


def seconds_since_first(column: pd.Series, original: pd.Series) -> Array:
    """Times as seconds since the original's first."""
    return np.asarray((column - original.min()).dt.total_seconds(), dtype=np.float64)


def numeric(who: str, table: pd.DataFrame, which: str = "the original") -> Array:
    """The table as a float matrix; columns that are not numbers, and infinite values, are refused by name."""
    bad = [str(c) for c, dtype in zip(table.columns, table.dtypes, strict=True) if not is_number(dtype)]
    if bad:
        do = "Choose the numeric ones with columns=[...], or convert these"
        raise InputError(f"{who} needs numeric columns in {which}", f"non-numeric {', '.join(bad)}", do)
    with np.errstate(over="ignore"):  # longer floats may be too large; that is said below
        values = table.to_numpy(dtype=np.float64, na_value=np.nan)
    # The ends tell most of the time and need no temporary array; a value that is no number fails both comparisons.
    if values.size and not (values.max() < LARGE and values.min() > -LARGE):
        usable = (np.abs(values) < LARGE).all(axis=0)
        named = ", ".join(str(c) for c, ok in zip(table.columns, usable, strict=True) if not ok)
        got = f"infinite, missing or beyond 1e140 in columns {named}"
        raise InputError(f"{who} needs finite values in {which}", got, "Remove or replace them first")
    return values


def offsets_from_minimum(who: str, table: pd.DataFrame, original: pd.DataFrame, which: str = "the original") -> Array:
    """Columns of numbers less the original's smallest, as floats: whole numbers beyond 2^53 stay apart.

    What is compared should not depend on where zero is: far from it floats, and rooms for their rounding, are coarse.
    """
    values, least = numeric(who, table, which), numeric(who, original).min(axis=0, initial=np.inf)
    out = values - np.where(np.isfinite(least), least, 0.0)
    ends = np.abs(values).max(axis=0, initial=0.0)
    for j in np.flatnonzero(np.maximum(ends, np.abs(least)) >= 2.0**53):
        column, other = table.iloc[:, j], original.iloc[:, j]
        if len(other) and pd.api.types.is_integer_dtype(other.dtype):
            base = int(other.min())
            if pd.api.types.is_integer_dtype(column.dtype):
                out[:, j] = [int(x) - base for x in column.tolist()]
            else:
                out[:, j] = (values[:, j] - float(base)) + float(int(float(base)) - base)
    return out


def vector(who: str, column: pd.Series, which: str = "the original") -> Array:
    """One column as a float vector, refused as in `numeric`."""
    return numeric(who, column.to_frame(), which)[:, 0]


def positive_weights(who: str, column: pd.Series, which: str = "the file") -> Array:
    """Weights as numbers, which must be positive; a missing one is refused."""
    if not is_number(column):
        raise InputError(
            f"{who} needs weights that are numbers", f"{column.name}: {column.dtype}", "Name another column"
        )
    weights = column.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~((weights > 0) & (weights < LARGE))
    if bad.any():
        what = f"{who} needs positive weights in {which}"
        raise InputError(what, f"{int(bad.sum())} in {column.name} are not", "Leave those records out")
    return weights


def shares(weights: Array | None, n: int) -> Array:
    """Weights with a sum of 1; equal ones without weights."""
    return np.full(n, 1.0 / n) if weights is None else weights / weights.sum()


def weighted_quantile(ordered: Array, q: Any, weights: Array | None = None) -> Any:
    """Quantiles of values in order: numpy's linear interpolation, where value i of n stands at (i - 1)/(n - 1).

    With weights it stands at the weight of what is below it over the weight of all others.

    >>> round(float(weighted_quantile(np.array([1.0, 2.0, 9.0]), 0.5, np.array([3.0, 1.0, 1.0]))), 4)
    1.6667
    """
    if weights is None:
        return np.quantile(ordered, q)
    below = np.cumsum(weights) - weights
    return np.interp(q, below / np.maximum(weights.sum() - weights, 1e-300), ordered)


def floats_with_nan(who: str, column: pd.Series, original: pd.Series, which: str = "the original") -> Array:
    """Numbers, or times as seconds since the original's first, as floats, NaN where they are missing.

    A column without any value may be of any kind.
    """
    return _where_known(who, column, original, lambda there: vector(who, there, which))


def offsets_with_nan(who: str, column: pd.Series, original: pd.Series, which: str = "the original") -> Array:
    """The same less the original's smallest number, for what does not depend on where zero is."""
    base = original.dropna().to_frame()
    return _where_known(
        who, column, original, lambda there: offsets_from_minimum(who, there.to_frame(), base, which)[:, 0]
    )


def _where_known(who: str, column: pd.Series, original: pd.Series, numbers: Callable[[pd.Series], Array]) -> Array:
    values, known = np.full(len(column), np.nan), column.notna().to_numpy(dtype=bool)
    if known.any():
        refuse_mixed(who, original, column)
        there = column[known]
        values[known] = seconds_since_first(there, original) if is_time(column) else numbers(there)
    return values


def near_enough(who: str, points: Array) -> Array:
    """Coordinates, which have squares: a release may be beyond all bounds in the original's units."""
    if points.size and not np.nanmax(np.abs(points), initial=0.0) < LARGE:
        got = "values more than 1e140 of the original's standard deviations away"
        raise InputError(f"{who} needs releases that can be compared with the original", got, "Check the units")
    return points


def standard_deviations(values: Array, weights: Array | None = None) -> Array:
    """Standard deviations of the columns; zero for one row and for equal numbers, whose mean may be off by rounding."""
    width, n = np.ptp(values, axis=0), len(values)
    if n < 2:
        return np.zeros(values.shape[1:])
    # In units of the range, a power of two: the squares of tiny numbers would vanish.
    _, exponent = np.frexp(width)
    scaled = np.ldexp(values, -exponent)
    if weights is None:
        sd = scaled.std(axis=0, ddof=1)
    else:
        share = shares(weights, n)
        sd = np.sqrt(share @ (scaled - share @ scaled) ** 2 * (n / (n - 1)))
    return np.where(width > 0, np.ldexp(sd, exponent), 0.0)


def nonzero_standard_deviations(
    who: str, values: Array, names: Iterable[Hashable], which: str = "the original", weights: Array | None = None
) -> Array:
    """Standard deviations of columns; one that does not vary is refused by name."""
    check_enough_rows(who, len(values), 2, which)
    found = standard_deviations(values, weights)
    refuse_constant(who, which, names, found)
    return found


def refuse_constant(who: str, which: str, names: Iterable[Hashable], sd: Array) -> None:
    """Raise an error that names the columns without variation."""
    flat = ", ".join(str(c) for c, s in zip(names, sd, strict=True) if s == 0)
    if flat:
        what = f"{who} needs columns that vary in {which}"
        raise InputError(what, f"constant {flat}", "Leave them out with columns=[...]")


def refuse_vanishing(who: str, which: str, names: Iterable[Hashable], varies: Flags, squares: Array) -> None:
    """Raise an error for columns that vary, but so little that the sum of their squares has lost digits."""
    gone = [str(name) for name, v, s in zip(names, varies, squares, strict=True) if v and s < SMALL]
    if gone:
        what = f"{who} needs values whose squares do not vanish in {which}"
        raise InputError(what, ", ".join(gone), "Use smaller units")


# -- categories ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnCategories:
    """The values of a column that is not a number, in a fixed order."""

    values: Labels

    @cached_property
    def index(self) -> pd.Index:
        """The values as objects: pandas has no index of some types of numbers."""
        return pd.Index(self.values, dtype=object)

    def __len__(self) -> int:
        return len(self.values)

    def codes(self, column: pd.Series) -> Ints:
        """Position of each value among the categories, -1 for a value that is not there."""
        if is_categorical(column):
            own, known = column.cat.codes.to_numpy(), column.cat.categories.astype(object)
            places = self.index.get_indexer(known) if len(known) else np.zeros(0, dtype=np.intp)
            return np.append(places, -1)[own]
        own, found = pd.factorize(column)  # each value is looked up once
        places = self.index.get_indexer(pd.Index(found.astype(object), dtype=object))
        return np.append(places, -1)[own]

    def plus(self, column: pd.Series) -> ColumnCategories:
        """These and the ones that only ``column`` has, which come last."""
        return self.joined(categories_of(column))

    def joined(self, others: ColumnCategories) -> ColumnCategories:
        """These and then the others' that are new."""
        known = set(self.values)
        new = [v for v in others.values if v not in known]
        return ColumnCategories(self.values + new) if new else self


def categories_of(column: pd.Series) -> ColumnCategories:
    """The categories that occur: in the order of a categorical column, or sorted (by text where types are mixed)."""
    return factorise(column)[1]


def factorise(column: pd.Series) -> tuple[Ints, ColumnCategories]:
    """Each value's place among the categories that occur, -1 for a missing one, and these; looked up once."""
    if is_categorical(column):
        own, every = column.cat.codes.to_numpy(), list(column.cat.categories.astype(object))
        order = np.flatnonzero(np.bincount(own[own >= 0], minlength=len(every)))
    else:
        own, found = pd.factorize(column)
        every = list(found.astype(object))
        order = np.array(sorted_places(every), dtype=np.intp)
    places = np.full(len(every) + 1, -1)
    places[order] = np.arange(len(order))
    return places[own], ColumnCategories([every[c] for c in order])


def sorted_places(values: Labels) -> list[int]:
    """The order of values, by text where types are mixed."""
    try:
        return sorted(range(len(values)), key=values.__getitem__)  # type: ignore[arg-type]
    except TypeError:
        return sorted(range(len(values)), key=lambda i: (type(values[i]).__name__, str(values[i])))


OTHERS = "\ue000"
"""No text of a file: a letter that Unicode gives no meaning."""


def group_names(levels: ColumnCategories, column: pd.Series) -> NDArray[np.str_]:
    """The group of each record, by its value: "nan" for a missing one, `OTHERS` for one that is not among the levels.

    Not by its text: 1 in a file without gaps is 1.0 in one with some, and a date has several spellings.
    """
    known = np.array([*map(str, levels.values), OTHERS])
    return np.where(column.isna(), "nan", known[levels.codes(column)])


def joined_codes(*columns: pd.Series) -> tuple[list[Ints], ColumnCategories]:
    """Codes of columns over the categories of all of them together, those of the first in front."""
    codes, own = zip(*map(factorise, columns), strict=True)
    levels: ColumnCategories = own[0]
    for others in own[1:]:
        levels = levels.joined(others)
    places = {value: place for place, value in enumerate(levels.values)}
    moved = [np.array([*(places[v] for v in each.values), -1]) for each in own]
    return [place[code] for place, code in zip(moved, codes, strict=True)], levels


def indicators(*columns: pd.Series) -> tuple[list[Array], ColumnCategories]:
    """Columns of 0 and 1 for each category of several columns together, and these."""
    codes, levels = joined_codes(*columns)
    return [(c[:, None] == np.arange(len(levels))).astype(np.float64) for c in codes], levels


def encode(who: str, original: pd.DataFrame, released: pd.DataFrame) -> tuple[Array, Array, list[str]]:
    """Both tables as float matrices with the same columns, and the columns' names.

    A column that is a number in both files stays one. Any other becomes indicators of all levels but the first,
    over the levels of both files together, so that a category which only one of them has is kept.
    """
    if all(map(is_number, original.dtypes)) and all(map(is_number, released.dtypes)):
        return numeric(who, original), numeric(who, released, "the release"), [str(c) for c in original.columns]
    left, right, names = [], [], []
    for label in original.columns:
        a, b = original[label], released[label]
        refuse_mixed(who, a, b)
        if is_number(a):
            left.append(vector(who, a)[:, None])
            right.append(vector(who, b, "the release")[:, None])
            names.append(str(label))
        elif is_time(a):
            left.append(seconds_since_first(a, a)[:, None])
            right.append(seconds_since_first(b, a)[:, None])
            names.append(str(label))
        else:
            (first, second), levels = indicators(a, b)
            left.append(first[:, 1:])
            right.append(second[:, 1:])
            names += [f"{label}[{v}]" for v in levels.values[1:]]
    return np.concatenate(left, axis=1), np.concatenate(right, axis=1), names
