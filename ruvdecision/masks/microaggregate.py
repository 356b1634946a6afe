"""Averaging the records in small groups; of numbers alone, and of numbers and categories together."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ..channels.layout import Partition
from ..channels.steps import AverageRows, FileFacts, Opaque, Step
from ..checks import (
    Columns,
    check_choice,
    check_columns,
    check_integer,
    check_mapping,
    check_number,
    check_one_of,
    check_sequence,
    checked,
    is_single,
)
from ..errors import InputError
from ..protocols import Array
from .base import Mask
from .columns import (
    Ints,
    as_columns,
    category_codes,
    few_categories,
    has_order,
    kind_of,
    ordered_values,
    refuse_missing,
    refuse_shared_columns,
    row_classes,
    stable_order,
    standard_deviations,
    whole_like,
)
from .frame import Frame
from .mdav import mdav
from .moments import sample_covariance

FIXED = 'Use by="rows" (groups fixed beforehand) with centre="mean", or measure its releases with ruv.measure'


@dataclass(frozen=True, repr=False)
class Microaggregate(Mask):
    """Replace every value by the mean (or median) of its group.

    Karr et al. (2006): Micir(p, 10) is ``Microaggregate(size=10, by="each")``, Micz(p, 3) and Micp(p, 3) are
    ``Microaggregate(size=3, by="zscore")`` and ``by="pc1"``, Micm(p, 3) is ``Microaggregate(size=3, by="mdav")`` and
    Micm(3, 7) is ``Microaggregate(size=7, by="mdav", block=3)``.

    Parameters
    ----------
    groups : int or one label per record, optional
        A number of groups of sizes as equal as possible: with n records the first ``n % groups`` groups have
        one record more. Or a label for every record, for groups fixed beforehand; then ``by`` must be "rows" or not
        given.
    size : int, optional
        Records per group, at least; the last group takes the remainder, so it has ``size`` to ``2 * size - 1``.
    by : {"rows", "each", "zscore", "pc1", "mdav"}, optional
        How groups are found; "mdav" if not given with ``size``, "rows" with ``groups``. "rows" takes the order of the
        file, so the groups do not depend on the data and the release is linear. The others look at the data: each
        variable apart ("each", individual ranking), the sum of z-scores ("zscore"), the first principal component
        ("pc1", from high to low: the sign is such that the largest loading is negative), or MDAV ("mdav", see
        `ruvdecision.masks.mdav`; time n^2, the others n log n). Sorting is stable: ties keep the order of the file.
    columns : names or positions, optional
        Columns to average; all of them (but those of ``within``) if not given. They alone decide the groups.
    block : int, optional
        Find groups for blocks of this many columns apart, in the order of the columns; the last block may have
        fewer. For "zscore", "pc1" and "mdav"; all columns together if not given.
    centre : {"mean", "median"}, default "mean"
        What stands for a group.
    within : names or positions, optional
        Columns of categories: a group never mixes records that differ in them (a missing category counts as one of its
        own). Each combination needs at least ``size`` records, and has its own remainder.
    standardise : bool, default True
        Whether "pc1" and "mdav" work on z-scores, with mean and standard deviation (divisor n - 1) of the whole
        file; a constant column has z-score zero. With False they work on the values as they are.

    What is missing stays missing, and a group's centre is that of the entries that are there. To find groups "each"
    ranks the entries that are there; "zscore", "pc1" and "mdav" put the column's mean in place of what is missing. A
    centre of fewer than ``size`` entries (two, with ``groups``) would show them: they become missing, too. Only groups
    by rows with the mean as centre, which do not look at the data, average whatever is there.

    >>> Microaggregate(groups=1).release([1.0, 2.0, 6.0])
    array([3., 3., 3.])
    >>> Microaggregate(size=2, by="each", centre="median").release([5.0, 1.0, 2.0, 9.0, 6.0])
    array([6. , 1.5, 1.5, 6. , 6. ])
    """

    groups: Any = None
    size: int | None = checked(None, check_integer, low=1)
    by: str | None = checked(None, check_choice, options=("rows", "each", "zscore", "pc1", "mdav"))
    columns: Columns = checked(None, as_columns)
    block: int | None = checked(None, check_integer, low=1)
    centre: str = checked("mean", check_choice, options=("mean", "median"))
    within: Columns = checked(None, as_columns)
    standardise: bool = True

    def __post_init__(self) -> None:
        check_one_of("Microaggregate", {"groups": self.groups, "size": self.size}, "Write Microaggregate(groups=1)")
        super().__post_init__()
        by = f"by={self.order!r}"
        if self.groups is not None:
            read = check_integer("groups", self.groups, low=1) if is_single(self.groups) else self._read_labels(by)
            object.__setattr__(self, "groups", read)
            if self.order == "mdav" or self.within is not None:
                what = "MDAV and groups within categories need size"
                raise InputError(what, f"groups={self.groups!r}", "Write Microaggregate(size=3, ...)")
        if self.block is not None and self.order not in ("zscore", "pc1", "mdav"):
            raise InputError('block goes with by="zscore", "pc1" or "mdav"', by, "Leave block out")
        if not self.standardise and self.order not in ("pc1", "mdav"):
            raise InputError('standardise=False goes with by="pc1" or "mdav"', by, "Leave standardise out")

    def _read_labels(self, by: str) -> tuple[Any, ...]:
        """Groups that are given record by record."""
        labels = check_sequence("groups", self.groups)
        if not labels or not all(map(is_single, labels)):
            what = "groups must be a number or one label per record"
            raise InputError(what, "something else", "Give a flat list of labels")
        if self.order != "rows":
            what, do = (
                "Groups given record by record leave nothing to sort",
                "Leave by out, or give the number of groups",
            )
            raise InputError(what, by, do)
        if any(v is None or v is pd.NA or v != v for v in labels):
            raise InputError("groups must have a label for every record", "missing labels", "Fill them in")
        return labels

    @property
    def order(self) -> str:
        """How groups are found: as ``by`` says, else by MDAV if their size is given and by rows if their number is."""
        return self.by if self.by is not None else "rows" if self.size is None else "mdav"

    def sizes(self, n: int) -> Ints:
        """Group sizes for ``n`` records, in order, where groups are cut out of an order."""
        if self.size is not None:
            if self.size > n:
                raise InputError(f"size={self.size} is more than the {n} records", self.size, "Use smaller groups")
            count = n // self.size
            sizes = np.full(count, self.size)
            sizes[-1] += n - count * self.size
            return sizes
        if self.groups > n:
            raise InputError(
                f"groups={self.groups} is more than the {n} records", self.groups, f"Use at most {n} groups"
            )
        sizes = np.full(self.groups, n // self.groups)
        sizes[: n % self.groups] += 1
        return sizes

    @property
    def _has_labels(self) -> bool:
        """Whether every record's group was given."""
        return self.groups is not None and not is_single(self.groups)

    @property
    def _has_fixed_groups(self) -> bool:
        """Whether groups do not depend on the values and means stand for them."""
        return self.order == "rows" and self.within is None and self.centre == "mean"

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        columns: Columns = self.columns
        classes = [np.arange(frame.n)]
        if self.within is not None:
            inside = check_columns("within", self.within, frame.columns)
            if columns is None:
                columns = [c for i, c in enumerate(frame.columns) if i not in inside]
                if not columns:
                    what = "within leaves no column to average"
                    raise InputError(what, [frame.columns[i] for i in inside], "Name fewer columns in within")
            else:
                refuse_shared_columns("columns", frame.positions(columns), "within", inside, frame.columns)
            classes = row_classes(frame, inside, classes[0])
            small = [f"{len(rows)} like row {rows[0]}" for rows in classes if len(rows) < (self.size or 1)]
            if small:
                raise InputError(
                    f"Every combination of {[frame.columns[i] for i in inside]} needs at least {self.size} records",
                    "; ".join(small[:5]),
                    "Merge categories with Recode first, or use smaller groups",
                )
        values, positions = frame.numeric("Microaggregate", columns, missing=True)
        if np.isinf(values).any():
            raise InputError("Microaggregate cannot take infinite values", "some", "Replace them first")
        values = np.asfortranarray(values)  # all work is column by column
        out = np.full_like(values, np.nan)
        k = values.shape[1]
        width, least = 1 if self.order == "each" else self.block or k, 1 if self._has_fixed_groups else self.size or 2
        for start in range(0, k, width):
            part, inner = values[:, start : start + width], classes
            found, holes = part, np.isnan(part)
            if holes.any() and not self._has_fixed_groups:
                if self.order == "each":
                    inner = [rows for rows in (r[~holes[r, 0]] for r in classes) if len(rows) >= least]
                else:
                    there = (~holes).sum(axis=0)
                    mean = np.where(holes, 0.0, part).sum(axis=0) / np.maximum(there, 1)
                    found = np.where(holes, mean, part)
            if inner:
                order, starts = self._find_groups(found, inner)
                _write_centres(part, order, starts, self.centre, least, out[:, start : start + width])
        return frame.replace(out, positions)

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        if not self._has_fixed_groups:
            why = "groups are found by the records' values" if self.centre == "mean" else "medians are no averages"
            return [Opaque(why=why, do=FIXED)]
        return [AverageRows(columns=about.positions(self.columns), rows=self._partition_of_rows(about.n))]

    def _partition_of_rows(self, n: int) -> Partition | None:
        """The groups of n rows, None if each is one row."""
        if self.size is None and not self._has_labels:
            self.sizes(n)
            return None if self.groups == n else Partition.consecutive_groups(n, self.groups)
        labels = self._group_labels(n)
        return None if labels.max() + 1 == n else Partition.of(labels, joins=True)

    def _group_labels(self, n: int) -> Any:
        if self._has_labels:
            if len(self.groups) != n:
                raise InputError(
                    f"groups must have a label for each of the {n} records",
                    f"{len(self.groups)} labels",
                    "Give one label per record",
                )
            return np.unique(np.asarray(self.groups), return_inverse=True)[1]
        sizes = self.sizes(n)
        return np.repeat(np.arange(len(sizes)), sizes)

    def _find_groups(self, values: Array, classes: list[Ints]) -> tuple[Ints, Ints]:
        """Rows put group by group, and where each group starts."""
        if self._has_labels:
            labels = self._group_labels(len(values))
            order = stable_order(labels)
            return order, np.concatenate([[0], np.cumsum(np.bincount(labels))[:-1]])
        score = _sorting_score(values, self.order, self.standardise)
        orders, starts, before = [], [], 0
        for rows in classes:
            inner = score if score is None or len(rows) == len(values) else score[rows]
            if self.order == "mdav":
                assert inner is not None
                assert self.size is not None
                if self.size > len(rows):
                    self.sizes(len(rows))
                labels = mdav(inner, self.size)
                order, sizes = stable_order(labels), np.bincount(labels)
            else:
                order = np.arange(len(rows)) if inner is None else stable_order(inner)
                sizes = self.sizes(len(rows))
            orders.append(rows[order])
            starts.append(before + np.concatenate([[0], np.cumsum(sizes)[:-1]]))
            before += len(rows)
        return np.concatenate(orders), np.concatenate(starts).astype(np.int64)


def _check_column_weights(name: str, given: Any) -> dict[Hashable, float]:
    weights = check_mapping(name, given, f'Write {name}={{"age": 2}}')
    return {c: check_number(f"{name}[{c!r}]", w, low=0) for c, w in weights.items()}


@dataclass(frozen=True, repr=False)
class MicroaggregateMixed(Mask):
    """Replace every record by the centre of a group of similar ones; numbers and categories together.

    Groups are made by MDAV (see `ruvdecision.masks.mdav`) with the distance of `embed_mixed_records`, and replaced by
    their `centres`: mean of numbers (rounded for whole ones), lower median of dates and ordered categories, commonest
    of other categories. Time grows with the square of the number of records. Missing values are refused.
    Domingo-Ferrer and Torra (2005), Data Mining and Knowledge Discovery 11, 195-212.

    Parameters
    ----------
    size : int
        Least number of records in a group; groups have at most ``2 * size - 1``.
    columns : names or positions, optional
        Columns to aggregate; all of them if not given. They alone decide the groups.
    scale : {"sd", "range"}, default "sd"
        What a difference of numbers is divided by.
    weights : {column: number}, optional
        Weight of a column in the squared distance; 1 where not given.

    Examples
    --------
    >>> df = pd.DataFrame({"age": [20.0, 22.0, 60.0, 64.0], "sex": ["m", "m", "f", "f"]})
    >>> MicroaggregateMixed(size=2).release(df)["age"].tolist()
    [21.0, 21.0, 62.0, 62.0]
    """

    size: int = checked(MISSING, check_integer, low=1)
    columns: Columns = checked(None, as_columns)
    scale: str = checked("sd", check_choice, options=("sd", "range"))
    weights: Any = checked(None, _check_column_weights)

    opaque: ClassVar[str] = "groups are found by the records' values"

    def __hash__(self) -> int:
        # A mapping among the arguments has no hash of its own.
        return hash(self.family)

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        positions = frame.positions(self.columns)
        weights = self.weights
        if weights is not None:
            # Positions will do, as they do for columns.
            names = [frame.columns[i] for i in check_columns("weights", list(weights), frame.columns)]
            weights = dict(zip(names, weights.values(), strict=True))
        points = embed_mixed_records(frame.table.iloc[:, positions], scale=self.scale, weights=weights)
        return centres(frame, positions, mdav(points, self.size))


def embed_mixed_records(table: pd.DataFrame, *, scale: str = "sd", weights: Mapping[Any, float] | None = None) -> Array:
    """Return points whose squared Euclidean distances are the mixed distances of the records.

    d(x, y)^2 = sum over numbers and dates of w ((x - y)/s)^2 + sum over ordered categories of w ((r(x) - r(y))/s)^2
    + sum over booleans, text and other categories of w [x != y]. Here s is the column's sample standard deviation
    (divisor n - 1, ``scale="sd"``) or its range (``scale="range"``, Gower's), r the rank of an ordered category
    among those of its type, and w a weight, 1 unless given. A constant column adds nothing. Missing values are refused.

    >>> embed_mixed_records(pd.DataFrame({"a": [0.0, 1.0], "c": ["x", "y"]}), scale="range").round(4)
    array([[-0.5   ,  0.7071,  0.    ],
           [ 0.5   ,  0.    ,  0.7071]])
    """
    check_choice("scale", scale, ["sd", "range"])
    refuse_missing("A mixed distance", table)
    stray = [c for c in weights or {} if c not in table.columns]
    if stray:
        raise InputError("weights names columns that are not there", stray, f"Choose from {list(table.columns)}")
    blocks = []
    for name in table.columns:
        column = table[name]
        root = np.sqrt(check_number(f"weights[{name!r}]", (weights or {}).get(name, 1.0), low=0))
        numbers = _values_on_line(column)
        if numbers is None:
            codes, levels = few_categories("A mixed distance", column, "Recode it into fewer, or leave it out")
            # Two different indicators are sqrt(2) apart.
            blocks.append((codes[:, None] == np.arange(len(levels))) * (root / np.sqrt(2)))
            continue
        size = float(standard_deviations(numbers, ddof=1) if scale == "sd" else np.ptp(numbers))
        centred = numbers - numbers.mean()
        blocks.append(centred[:, None] / size * root if size > 0 else np.zeros((len(numbers), 1)))
    return np.hstack(blocks)


def centres(frame: Frame, positions: list[int], labels: Ints) -> Frame:
    """Replace the columns by the centre of each group: mean of numbers, median of what has order, commonest category.

    The median is the lower one, so that it is a value of the group. Of equally common categories the one that comes
    first in the group is taken. Whole numbers are rounded.
    """
    group = np.unique(labels, return_inverse=True)[1].reshape(-1)
    size = np.bincount(group)
    new: dict[int, Any] = {}
    for i in positions:
        column = frame.table.iloc[:, i]
        numbers = _values_on_line(column)
        if numbers is not None and kind_of(column) == "number":
            new[i] = whole_like((np.bincount(group, weights=numbers) / size)[group], column)
            continue
        if numbers is not None:
            order = np.lexsort((np.arange(len(group)), numbers, group))
            middle = order[np.concatenate([[0], np.cumsum(size)[:-1]]) + (size - 1) // 2]
        else:
            middle = _rows_of_commonest(group, category_codes(column)[0])
        new[i] = column.array.take(middle[group])
    return frame.put(new)


def _rows_of_commonest(group: Ints, codes: Ints) -> Ints:
    """A row of each group that holds its commonest category."""
    pair, first, count = np.unique(group * (int(codes.max()) + 1) + codes, return_index=True, return_counts=True)
    owner = pair // (int(codes.max()) + 1)
    best = np.lexsort((first, -count, owner))
    return first[best[np.unique(owner[best], return_index=True)[1]]]


def _values_on_line(column: pd.Series) -> Array | None:
    """Values on a line, or None for booleans and categories without an order."""
    return ordered_values(column).astype(np.float64) if has_order(column) and kind_of(column) != "boolean" else None


def _sorting_score(values: Array, by: str, standardise: bool) -> Array | None:
    """What records are sorted by, the points for MDAV, or None for the order of the file."""
    if by == "rows":
        return None
    if by == "each":
        return values[:, 0]
    if by == "zscore" or standardise:
        values = _z_scores(values)
    if by == "zscore":
        return np.asarray(values.sum(axis=1))
    if by == "mdav":
        return values
    if not standardise:
        # In units of the largest value: the direction is the same, and squares neither overflow nor vanish.
        values = values / (float(np.abs(values).max()) or 1.0)
        values = values - values.mean(axis=0)
    direction = np.linalg.eigh(sample_covariance(values))[1][:, -1] if len(values) > 1 else np.ones(values.shape[1])
    # The sign of a principal component is free, but it decides which end takes the remainder. The largest loading is
    # made negative (the first of them in a draw), which gives the reference files.
    size = np.abs(direction)
    return np.asarray(values @ (direction * -np.sign(direction[np.argmax(size >= size.max() * (1 - 1e-9))])))


def _z_scores(values: Array) -> Array:
    """Columns less their mean over their standard deviation (divisor n - 1); zero for a constant column."""
    out = np.empty_like(values)
    for j in range(values.shape[1]):
        x = values[:, j]
        least, greatest = x.min(), x.max()
        if least == greatest:
            out[:, j] = 0.0
            continue
        # Very large or very small values would overflow or vanish when they are squared.
        scale = max(abs(least), abs(greatest))
        if not 1e-100 < scale < 1e100:
            x = x / scale
        centred = x - x.mean()
        out[:, j] = centred / np.sqrt(np.square(centred).sum() / (len(x) - 1))
    return out


def _write_centres(values: Array, order: Ints, starts: Ints, centre: str, least: int, out: Array) -> None:
    """Write the mean or median of each group into ``out``, in file order; of what is there, if that is enough."""
    sizes = np.diff(np.append(starts, len(order)))
    group = np.repeat(np.arange(len(starts)), sizes)
    for j in range(values.shape[1]):
        taken = values[:, j][order]
        holes = np.isnan(taken)
        if holes.any():
            count = np.add.reduceat((~holes).astype(np.int64), starts)
            if centre == "mean":
                result = np.add.reduceat(np.where(holes, 0.0, taken), starts) / np.maximum(count, 1)
            else:
                ranked = taken[np.lexsort((taken, group))]  # what is missing comes last
                low, high = ranked[starts + np.maximum(count - 1, 0) // 2], ranked[starts + count // 2]
                result = np.where(count % 2 == 1, low, low + (high - low) / 2)
            out[order, j] = np.where(holes | (count < least)[group], np.nan, result[group])
            continue
        if centre == "mean":
            # Means are taken about the group's first value: a group of equal values keeps its value to the last digit.
            origin = taken[starts]
            result = origin + np.add.reduceat(taken - origin[group], starts) / sizes
        else:
            ranked = taken[np.lexsort((taken, group))]
            low, high = ranked[starts + (sizes - 1) // 2], ranked[starts + sizes // 2]
            result = low + (high - low) / 2
        out[order, j] = result[group]
