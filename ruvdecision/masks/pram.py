"""The post-randomisation method: categories change at random with stated probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ..channels.steps import FileFacts, Matrix, Opaque, Step
from ..checks import (
    Columns,
    as_float_array,
    check_columns,
    check_distinct,
    check_finite,
    check_number,
    check_one_of,
    check_probabilities,
    check_sequence,
    check_square,
    checked,
    is_single,
    rows_where,
)
from ..errors import InputError
from ..protocols import Array
from .applying import frame_facts
from .base import Mask
from .columns import Ints, as_columns, category_codes, is_categorical
from .frame import Frame, numpy_kind
from .stochastic import Stochastic

MOST_CATEGORIES = 2000


@dataclass(frozen=True, repr=False)
class PRAM(Mask):
    """Replace each category by one drawn from its row of a transition matrix.

    Gouweleeuw et al. (1998), Journal of Official Statistics 14, 463-478. Records and columns are treated
    independently. Missing values stay missing and are no category.

    The order of categories, for the rows and columns of a matrix: that of ``categories`` if it is given; that of
    the labels, if the matrix is a DataFrame; that of the column, if it is categorical (unused categories included);
    otherwise the values that occur, sorted.

    Parameters
    ----------
    matrix : matrix, or {column: matrix}
        Row-stochastic: entry (i, j) is the chance that category i is released as j. One matrix serves every
        column in ``columns``; a mapping names its columns itself. A DataFrame carries its categories as labels.
    stay : float, or {column: float}
        Instead of a matrix: the chance that a category stays; the rest is shared evenly by the others.
    invariant : bool, default False
        Change the matrix so that the expected margins of the release are those of the file exactly. With P the
        matrix and t the margins, R = P Q, where Q takes a released category back to an original one by Bayes' rule, and
        t R = t. The chance to stay then differs from ``stay``; `transition` shows it.
    columns : names or positions, optional
        Columns to treat. Not given: the text, categorical and boolean columns of a DataFrame; every column of
        a Series or array, and the only column of a DataFrame that has one.
    categories : list, or {column: list}, optional
        All categories in order.

    Examples
    --------
    >>> PRAM(stay=0.8).transition(["a", "b", "c"])
    array([[0.8, 0.1, 0.1],
           [0.1, 0.8, 0.1],
           [0.1, 0.1, 0.8]])
    """

    matrix: Any = None
    stay: Any = None
    invariant: bool = False
    columns: Columns = checked(None, as_columns)
    categories: Any = None

    def __post_init__(self) -> None:
        do = "Write PRAM(stay=0.8) or PRAM(matrix=[[0.9, 0.1], [0.2, 0.8]])"
        check_one_of("PRAM", {"matrix": self.matrix, "stay": self.stay}, do)
        super().__post_init__()
        name, value, labels = "stay", self.stay, self.categories
        if self.matrix is not None:
            name, value = "matrix", self.matrix
        own, shared, read = {}, None, value
        if isinstance(labels, Mapping):
            own = {c: _check_categories(v) for c, v in labels.items()}
        elif labels is not None:
            shared = _check_categories(labels)
        if isinstance(value, Mapping):
            if self.columns is not None:
                what = f"A mapping of {name} names its columns itself"
                raise InputError(what, self.columns, "Leave columns out")
            stray = [c for c in own if c not in value]
            if stray or not value:
                what = f"{name} and categories must name the same columns"
                raise InputError(what, stray or "no column", "Write {column: matrix}")
            pairs = {c: _read_matrix(name, v, f"{name}[{c!r}]", own.get(c, shared)) for c, v in value.items()}
            read = {c: v for c, (v, _) in pairs.items()}
            labels = {c: found for c, (_, found) in pairs.items() if found is not None}
        elif own:
            read, *_ = [_read_matrix(name, value, f"{name} for {c!r}", found)[0] for c, found in own.items()]
            labels = own
        else:
            read, labels = _read_matrix(name, value, name, shared)
        object.__setattr__(self, name, read)
        object.__setattr__(self, "categories", labels or None)

    @cached_property
    def _laws(self) -> dict[Any, tuple[Any, tuple[Any, ...] | None]]:
        """Matrix, or chance to stay, and fixed categories of each column that is named; those of others under None."""
        value, known = self.stay if self.matrix is None else self.matrix, self.categories
        named = known if isinstance(known, dict) else {}
        if isinstance(value, dict):
            return {c: (v, named.get(c)) for c, v in value.items()}
        return {c: (value, found) for c, found in named.items()} | {None: (value, None if named else known)}

    def __hash__(self) -> int:
        # A mapping among the arguments has no hash of its own.
        return hash(self.family)

    def transition(self, categories: Sequence[Any], margins: Any = None, column: Any = None) -> Array:
        """Return the row-stochastic matrix on these categories, in this order: the channel of one entry.

        ``margins`` are the categories' counts or shares in the file; an invariant matrix needs them. ``column``
        says which matrix is meant when there are several.
        """
        wanted = _check_categories(categories)
        raw, names = self._matrix_of_column(column)
        if is_single(raw):
            k = len(wanted)
            p = np.full((k, k), (1.0 - raw) / max(k - 1, 1))
            np.fill_diagonal(p, raw if k > 1 else 1.0)
        else:
            p = np.array(raw)
            if names is not None:
                _same_categories(wanted, names)
                at = [names.index(c) for c in wanted]
                p = p[np.ix_(at, at)]
            elif len(p) != len(wanted):
                raise InputError(
                    f"The matrix has {len(p)} categories",
                    f"{len(wanted)}",
                    "Give one row per category, or say which they are with categories=[...]",
                )
        if not self.invariant:
            return p
        if margins is None:
            raise InputError(
                "An invariant matrix depends on the margins", None, "Give margins=, the count of each category"
            )
        return invariant_matrix(p, margins)

    def stochastic(self, categories: Sequence[Any], margins: Any = None, column: Any = None) -> Stochastic:
        """Return the same channel as a `Stochastic` mask on these categories, which finite beliefs can invert."""
        return Stochastic(self.transition(categories, margins, column), inputs=list(categories))

    # -- releasing -----------------------------------------------------------------------------------

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        # One stream per column, so that a column's release does not depend on which others are treated.
        streams = rng.spawn(frame.table.shape[1])
        about = frame_facts(frame) if frame.kind == "frame" else FileFacts(frame.n, tuple(frame.columns))
        named = self._columns_by_name(about)
        if self.columns is None and None in self._laws and frame.kind == "frame" and about.k > 1 and not about.levels:
            do = "Name the columns that hold categories with columns=[...]"
            raise InputError("PRAM found no text, categorical or boolean column", frame.columns, do)
        return frame.put(
            {i: self._apply_to_column(frame.table.iloc[:, i], own, streams[i]) for i, own in named.items()}
        )

    def _columns_by_name(self, about: FileFacts) -> dict[int, Any]:
        """The columns to treat, each with the name under which the arguments speak of it, or None."""
        own = [c for c in self._laws if c is not None]
        if None not in self._laws:
            return dict(zip(check_columns("The mapping of PRAM", own, about.names), own, strict=True))
        labelled = [i for i in range(about.k) if about.categories(i) is not None]
        chosen = about.positions(self.columns) if self.columns is not None or not labelled else labelled
        names = {i: c for c in own for i in check_columns("categories", c, about.names)}
        return {i: names.get(i) for i in chosen}

    def _apply_to_column(self, column: pd.Series, name: Any, rng: np.random.Generator) -> Any:
        own = column.dtype
        if numpy_kind(own) == "f" and own.itemsize not in (4, 8):
            column = column.astype(object)  # pandas has no index of half or long double precision
        levels = _categories_of_column(column, self._matrix_of_column(name)[1])
        codes = levels.get_indexer(pd.Index(column))
        present = column.notna().to_numpy()
        stray = (codes < 0) & present
        if stray.any():
            raise InputError(
                f"Column {column.name!r} has values that are no category of the matrix",
                f"some in {rows_where(stray)}",
                "Add them to categories=[...] and to the matrix, or recode them",
            )
        if not present.any():
            return column.array if column.dtype == own else column.astype(own).array
        margins = np.bincount(codes[present], minlength=len(levels))
        p = self.transition(list(levels), margins, name)
        fresh = codes.copy()
        fresh[present] = _draw_new_codes(codes[present], p, rng.random(len(codes))[present])
        released = _decode_like_column(fresh, levels, column)
        return released if column.dtype == own else pd.Series(released).astype(own).array

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        if self.invariant:
            why = "its matrix depends on the margins of the whole file"
            return [Opaque(why=why, do="Use PRAM without invariant=True, or Stochastic with the matrix itself")]
        found: list[Step] = []
        for column, name in self._columns_by_name(about).items():
            levels = self._matrix_of_column(name)[1]
            if levels is None and about.categories(column):
                levels = _sorted_levels(about.categories(column))
            if levels is None:
                why = "without categories= they are those that occur in the file, which are not known beforehand"
                return [Opaque(why=why, do="Give categories=[0, 1], all of them in order")]
            matrix = self.transition(levels, column=name)
            found.append(Matrix(columns=(column,), matrix=matrix, inputs=levels, released=levels))
        return found

    def _matrix_of_column(self, column: Any) -> tuple[Any, tuple[Any, ...] | None]:
        """The checked matrix (or chance to stay) of a column, and its categories if they are fixed."""
        if column is None and len(self._laws) == 1:
            return next(iter(self._laws.values()))
        if column not in self._laws and None not in self._laws:
            raise InputError("PRAM has no matrix for this column", column, f"Choose column= from {list(self._laws)}")
        return self._laws.get(column) or self._laws[None]


def _read_matrix(
    name: str, value: Any, title: str, labels: tuple[Any, ...] | None
) -> tuple[Any, tuple[Any, ...] | None]:
    """Check one matrix or chance to stay; give it back with its categories."""
    if name == "stay":
        return check_number(title, value, low=0, high=1), labels
    if isinstance(value, pd.DataFrame):
        own = _check_categories(value.index)
        _same_categories(_check_categories(value.columns), own)
        value = value.loc[list(own), list(own)].to_numpy()
        if labels is not None:
            _same_categories(labels, own)
        labels = own
    do = "Give one row and one column per category"
    array = check_square(title, value, do, None if labels is None else len(labels))
    try:
        array = check_probabilities(title, array)
    except InputError as error:
        raise InputError(
            f"Each row of {title} must be a probability distribution",
            error.what + f"; {error.got}",
            "Rows are original categories, columns released ones; each row sums to 1",
        ) from None
    return tuple(map(tuple, array.tolist())), labels


def invariant_matrix(matrix: Any, margins: Any) -> Array:
    """Return R = P Q with margins R = margins, from a transition matrix P.

    Q(k, j) = t_j P(j, k) / sum_i t_i P(i, k) is the chance that a released k was a j. A category that P never releases
    is left where it is by Q. Gouweleeuw et al. (1998), section 4.

    >>> invariant_matrix([[0.8, 0.2], [0.2, 0.8]], [3, 1]).round(4)
    array([[0.8242, 0.1758],
           [0.5275, 0.4725]])
    """
    p = check_probabilities("matrix", matrix)
    t = check_finite("margins", as_float_array("margins", margins))
    if t.shape != (len(p),) or np.any(t < 0) or t.sum() <= 0:
        raise InputError(
            f"margins must be {len(p)} counts, not all zero", t.tolist(), "Give the count of each category"
        )
    joint = t[:, None] * p
    reached = joint.sum(axis=0)
    back = np.where(reached[:, None] > 0, joint.T / np.where(reached > 0, reached, 1.0)[:, None], np.eye(len(p)))
    r = p @ back
    return np.asarray(r / r.sum(axis=1, keepdims=True))


def _draw_new_codes(codes: Ints, p: Array, u: Array) -> Ints:
    """Draw the new category of each entry; small u stays, so that a grid of matrices shares its random numbers."""
    k = len(p)
    fresh = np.empty_like(codes)
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(k + 1))
    for c in range(k):
        rows = order[edges[c] : edges[c + 1]]
        if not len(rows):
            continue
        turned = np.roll(p[c], -c)
        possible = np.flatnonzero(turned > 0)
        ends = np.cumsum(turned[possible])
        place = np.minimum(np.searchsorted(ends, u[rows], side="right"), len(possible) - 1)
        fresh[rows] = (possible[place] + c) % k
    return fresh


def _decode_like_column(codes: Ints, levels: pd.Index, column: pd.Series) -> Any:
    """Categories as values of the column's own type; -1 is missing."""
    if is_categorical(column):
        own = column.cat.categories.get_indexer(levels)
        new = own[np.unique(codes[codes >= 0])] < 0
        if np.any(new):
            raise InputError(
                f"The matrix releases categories that {column.name!r} does not have",
                list(levels[np.unique(codes[codes >= 0])[new]])[:5],
                "Add them with cat.add_categories",
            )
        return pd.Categorical.from_codes(np.where(codes >= 0, own[codes], -1), dtype=column.dtype)
    if np.all(codes >= 0):
        return pd.Series(levels.take(codes)).astype(column.dtype).array
    # Missing entries keep whatever stands for missing in this column.
    out = column.array.copy()
    out[np.flatnonzero(codes >= 0)] = pd.Series(levels.take(codes[codes >= 0])).astype(column.dtype).array
    return out


def _categories_of_column(column: pd.Series, names: tuple[Any, ...] | None) -> pd.Index:
    """The categories of a column: as they are named, as its type has them, or those that occur, sorted."""
    categorical = is_categorical(column)
    if names is not None:
        return pd.Index(list(names), dtype=object if categorical else None)
    levels = column.cat.categories if categorical else pd.Index(category_codes(column)[1])
    if not categorical:
        try:
            levels = levels.sort_values()
        except TypeError:
            raise InputError(
                f"The categories of {column.name!r} have no order",
                f"{len(levels)} of several kinds",
                "Give categories=[...], or turn them all into text",
            ) from None
    if len(levels) > MOST_CATEGORIES:
        raise InputError(
            f"PRAM takes at most {MOST_CATEGORIES} categories in a column",
            f"{len(levels)} in {column.name!r}",
            "Recode it into fewer, or leave it out with columns=[...]",
        )
    return levels


def _sorted_levels(levels: Any) -> tuple[Any, ...]:
    """Categories as PRAM finds them in a file: sorted."""
    try:
        return tuple(sorted(levels))
    except TypeError:
        raise InputError(
            "The categories have no order", list(levels)[:5], "Give PRAM categories=[...], or turn them all into text"
        ) from None


def _check_categories(value: Any) -> tuple[Any, ...]:
    return check_distinct("categories", check_sequence("categories", value), "List each category once")


def _same_categories(got: Sequence[Any], known: Sequence[Any]) -> None:
    if set(got) != set(known):
        odd = [c for c in got if c not in known] or [c for c in known if c not in got]
        raise InputError(
            "Categories and matrix do not agree",
            f"{len(odd)} on one side only",
            "Label rows and columns with the same categories",
        )
