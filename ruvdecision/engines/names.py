"""How a file meets the models: columns and rows by name, and entries that nobody knows.

A DataFrame is put into the order of the belief's columns, labels of rows and entries become positions, and entries that
are missing from the confidential data become entries that no mask can release: a mask m is evaluated as "drop them,
then m". That they are missing is taken to tell nothing about their values (missing at random).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..beliefs.finite import FiniteBelief
from ..beliefs.table.belief import TableBelief
from ..channels.steps import FileFacts, Resolved, resolve
from ..errors import InputError, UnsupportedError
from ..masks.base import Batch, Chain, Mask
from ..masks.frame import Frame, files_of, for_each_file
from ..masks.rows import Suppress
from ..protocols import Array
from ..targets import Names
from ..users.user import Snooper, User

if TYPE_CHECKING:
    from .base import Problem

Bools = NDArray[np.bool_]


def resolve_names(problem: Problem) -> Problem:
    """The problem with everything by position, columns in the belief's order, and no value missing from the data."""
    user: User | Snooper = problem.user
    belief = user.belief
    if isinstance(belief, TableBelief):
        return problem
    files: list[Any] = _released_files(problem.release) if problem.data is None else [problem.data]
    tables = [file for file in files if isinstance(file, (pd.DataFrame, pd.Series))]
    # What has rows; what else is wrong with a file is said by who reads it.
    kinds = (list, tuple, pd.DataFrame, pd.Series)
    rows = [f for f in files if isinstance(f, kinds) or (isinstance(f, np.ndarray) and f.ndim)]
    n = max(map(len, rows), default=None)
    if tables or user.target.has_names or _knows_by_label(user):
        names = None if belief is None else belief.column_names(n)
        if names is None:
            names = next((list(t.columns) for t in tables if isinstance(t, pd.DataFrame)), [])
        elif isinstance(user, User) and user.truth is not None:
            other = user.truth.column_names(n)
            if other is not None and list(other) != list(names):
                what = "The user's belief and the truth must name the columns alike, in one order"
                raise InputError(
                    what, f"{list(names)} and {list(other)}", "Both are about one file: set columns= alike"
                )
        found = Names(
            tables[0].index if tables else None,
            names,
            lambda name: () if belief is None else belief.entry_names(name, n),
        )
        user = _with_positions(user, found)
        release, masks = problem.release, problem.masks
        if any(leaf.by_label for mask in masks for leaf in mask.leaves):
            by_label = masks
            masks = problem.build_once(
                "labels", masks, lambda: Batch(_with_rows_by_position(m, found) for m in by_label)
            )
        if release is not None and tables:
            in_order = partial(with_columns_in_order, names=names, what="The release")
            release = for_each_file(lambda one: _drop_row_labels(in_order(one), problem), release)
        problem = replace(
            problem,
            users=(user,),
            masks=masks,
            data=with_columns_in_order(problem.data, names, "data"),
            release=release,
        )
    return problem if user.has_rule or user.target.asks_row else _without_gaps(problem, n)


# -- by name -----------------------------------------------------------------------------------------------


def with_columns_in_order(data: object, names: Sequence[Hashable], what: str) -> Any:
    """A DataFrame with its columns in this order; a missing or extra column is an error that lists both."""
    if not isinstance(data, pd.DataFrame) or not names or not data.columns.is_unique:
        return data
    there, wanted = list(data.columns), list(names)
    if there == wanted:
        return data
    missing, extra = [c for c in wanted if c not in there], [c for c in there if c not in wanted]
    if missing or extra:
        said = [f"{word} {columns}" for word, columns in (("missing", missing), ("extra", extra)) if columns]
        do = f"Rename them, or take the columns of the model: data[{wanted}]"
        raise InputError(f"{what} must have the columns {wanted}", f"{' and '.join(said)}, of {there}", do)
    return data[wanted]


def _drop_row_labels(release: object, problem: Problem) -> Any:
    """A release of all rows under their numbers; the labels of a sample tell whose rows it holds, and stay."""
    if not isinstance(release, (pd.DataFrame, pd.Series)) or pd.api.types.is_integer_dtype(release.index.dtype):
        return release
    try:
        steps = resolve(problem.masks[0], FileFacts(len(release), tuple(range(np.ndim(release)))))
    except (UnsupportedError, InputError):
        steps = []
    return release if any(found.step.samples for found in steps) else release.reset_index(drop=True)


def _knows_by_label(user: User | Snooper) -> bool:
    return user.knows is not None and any(leaf.by_label for leaf in user.knows.leaves)


def _with_positions(user: User | Snooper, names: Names) -> User | Snooper:
    changes: dict[str, Any] = {"target": user.target.with_positions(names)} if user.target.has_names else {}
    if _knows_by_label(user):
        changes["knows"] = _with_rows_by_position(user.knows, names)
    return replace(user, **changes) if changes else user


def _with_rows_by_position(mask: Any, names: Names) -> Mask:
    found: Mask = mask.of_leaves(
        iter([leaf.with_rows_by_position(names.row) if leaf.by_label else leaf for leaf in mask.leaves])
    )
    return found


def _released_files(release: object) -> list[Any]:
    """The files of a release: none, one, or several side by side."""
    return [] if release is None else list(files_of(release))


# -- entries that nobody knows -----------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class _Lost(Suppress):
    """Entries that the file does not have. Its covariance is not known either, of which noise may be a share."""

    def resolved(self, about: FileFacts, numbers: Array) -> list[Resolved]:
        return super().resolved(replace(about, touched=True), numbers)


@dataclass(frozen=True, repr=False)
class _Incomplete(Chain):
    """A mask of a file that does not have some entries: they are dropped first. It is called by the mask's name."""

    called: str = ""
    lost: Mask | None = None

    def __repr__(self) -> str:
        return self.called

    @property
    def technique(self) -> str:
        return self.called.split("(")[0]


def _without_gaps(problem: Problem, n: int | None) -> Problem:
    """Entries that are missing from the data, or from a release that the mask would have them in, are dropped first."""
    user, masks = problem.user, problem.masks
    if problem.data is not None:
        try:
            frame = Frame.of(problem.data)
        except InputError:
            return problem  # what is wrong with the data is said by who reads them
        gaps = frame.table.isna().to_numpy()
        if not gaps.any():
            # They may have been filled already, for another user.
            lost = masks[0].lost if masks and isinstance(masks[0], _Incomplete) else None
            if lost is None or user.knows is None or isinstance(user.knows, _Incomplete):
                return problem
            return replace(problem, users=(replace(user, knows=_mask_after_loss(lost, user.knows)),))
        problem = replace(problem, data=_fill_gaps(user.belief, frame, gaps))
    elif problem.release is not None and n is not None:
        gaps = _unexplained_gaps(masks[0], [Frame.of(file) for file in _released_files(problem.release)], user)
        if gaps is None or not gaps.any():
            return problem
    else:
        return problem
    lost = reduce(or_, (_Lost([j], np.flatnonzero(gap).tolist()) for j, gap in enumerate(gaps.T) if gap.any()))
    if user.knows is not None:
        user = replace(user, knows=_mask_after_loss(lost, user.knows))
    # Users share the masks, by which engines know what they built.
    found = problem.build_once("gaps", masks, lambda: Batch(_mask_after_loss(lost, mask) for mask in masks))
    return replace(problem, users=(user,), masks=found)


def _mask_after_loss(lost: Mask, mask: Mask) -> _Incomplete:
    return _Incomplete((lost, mask), called=repr(mask), lost=lost)


def _fill_gaps(belief: Any, frame: Frame, gaps: Bools) -> Any:
    """The data with some value in every gap. None of them is released, and none is looked at."""
    table = frame.table.copy()
    if isinstance(belief, FiniteBelief):
        whole = [value if isinstance(value, tuple) else (value,) for value in belief.levels.names]
        table = table.astype(object)
        for row in np.flatnonzero(gaps.any(axis=1)).tolist():
            known = [(j, table.iat[row, j]) for j in np.flatnonzero(~gaps[row])]
            fits = next((v for v in whole if len(v) == gaps.shape[1] and all(v[j] == own for j, own in known)), None)
            if fits is None:
                raise InputError("data holds a value that the belief does not know", f"row {row}", "Look at its values")
            for j in np.flatnonzero(gaps[row]).tolist():
                table.iat[row, j] = fits[j]
        return replace(frame, table=table.infer_objects()).unwrap()
    for j in np.flatnonzero(gaps.any(axis=0)).tolist():
        column = table.iloc[:, j]
        if pd.api.types.is_numeric_dtype(column.dtype):
            there = column.dropna()
            table.isetitem(j, column.fillna(there.iloc[0] if len(there) else 0).to_numpy(dtype=np.float64))
    return replace(frame, table=table).unwrap()


def _unexplained_gaps(mask: Mask, files: list[Frame], user: User) -> Bools | None:
    """Which entries are missing from a release although the mask would not drop them."""
    every = [file.table.isna().to_numpy() for file in files]
    shape, names = every[0].shape, tuple(files[0].columns)
    if not any(e.any() for e in every):
        return None
    asked = mask if user.knows is None else mask & user.knows
    about = FileFacts(shape[0], names)
    try:
        steps = [found.step for found in resolve(asked, about)]
        if any(step.samples for step in steps) or any(e.shape != shape for e in every):
            return None  # whose rows they are is told by labels
        whole = pd.DataFrame(np.arange(float(np.prod(shape))).reshape(shape), columns=pd.Index(names))
        dropped = [frame.isna().to_numpy() for frame in _released_files(asked.release(whole, 0))]
    except (UnsupportedError, InputError, NotImplementedError):
        return None  # what is wrong with mask or release is said by who reads them
    gaps = np.any([e & ~d for e, d in zip(every, dropped, strict=False)], axis=0)
    if gaps.any() and any(step.permutes for step in steps):
        what = "Missing values in a release whose rows were shuffled belong to nobody knows whom"
        raise UnsupportedError(what, do="Ask for evaluate with the data, or fill them first")
    return np.asarray(gaps)
