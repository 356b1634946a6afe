"""Bringing a release and its original together: reading files, whose record a row is, what went wrong where."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..checks import suggest
from ..data.read import check_file, read_data
from ..errors import InputError, RuvError, kind_of
from ..masks.frame import Frame


def read(data: Any, which: str) -> Frame:
    """Data of any kind, or of the file that a path names; ``which`` is its name in errors."""
    if isinstance(data, (str, Path)):
        data = read_data(data)
    if data is None:
        what = f"measures compare with {which}, which is missing"
        raise InputError(what, None, "Give data=, a DataFrame or an array")
    return Frame.of(data)


def check_releases(releases: Any) -> dict[str, Any]:
    """Releases under names that differ; files that are not there are refused before any work is done."""
    if releases is None:
        return {}
    if not isinstance(releases, Mapping) or not releases:
        what = "must not be empty" if isinstance(releases, Mapping) else "must be a mapping from name to data"
        raise InputError(f"releases {what}", type(releases).__name__, 'Write releases={"swapped": frame}')
    named = {str(name): item for name, item in releases.items()}
    if len(named) != len(releases) or not all(name.strip() for name in named):
        raise InputError("Releases need names that differ", [str(name) for name in releases], "Give each its own name")
    for name, item in named.items():
        # A missing file should not cost the work on those before it.
        with about(name):
            for part in copies_of(item):
                if isinstance(part, (str, Path)):
                    check_file(part)
    return named


def is_copies(item: Any) -> bool:
    """True for a list of whole data sets, as multiple imputation gives."""
    return (
        isinstance(item, (list, tuple))
        and bool(item)
        and all(isinstance(p, (pd.DataFrame, pd.Series, np.ndarray, str, Path)) for p in item)
    )


def copies_of(item: Any) -> list[Any]:
    """The data sets of a release, which is usually one."""
    return list(item) if is_copies(item) else [item]


def check_key(key: Any, columns: pd.Index, which: str) -> None:
    """Raise an error for a key that is no column."""
    # Whoever passes data for a name should not find them in the message.
    if not isinstance(key, Hashable) or key not in columns:
        shown = str(key) if isinstance(key, Hashable) else kind_of(key)
        raise InputError(f"The key is not a column of {which}", shown, suggest(shown, [str(c) for c in columns]))


def keyed(frame: Frame, key: Any, which: str) -> Frame:
    """The records under their keys; the key is no variable any more."""
    if frame.kind != "frame":
        raise InputError(f"The key names a column, and {which} has no column names", frame.kind, "Give a DataFrame")
    table = frame.table
    check_key(key, table.columns, which)
    keys = table[key]
    holes, repeated = int(keys.isna().sum()), int(keys.duplicated().sum())
    if holes:
        raise InputError(f"The key {key} of {which} has missing values", f"{holes} rows", "Give every row its key")
    if repeated:
        what = f"The key {key} of {which} must be unique"
        raise InputError(what, f"{repeated} repeated", "Name a column that tells records apart")
    if table.shape[1] == 1:
        raise InputError(f"{which} has no column beside its key", str(key), "Name another key")
    return Frame(table.drop(columns=[key]).set_axis(pd.Index(keys.to_numpy(), name=key), axis=0), "frame")


def match(original: Frame, item: Any, key: Any) -> Any:
    """A release with its rows in the order of the original's, as far as anything says whose they are."""
    frame = read(item, "the release")
    if key is None:
        ours, theirs = original.table.index, frame.table.index
        if frame.kind == original.kind == "frame" and len(ours) == len(theirs) and not ours.equals(theirs):
            reordered = ours.is_unique and theirs.is_unique and len(ours.union(theirs, sort=False)) == len(ours)
            if reordered:
                raise InputError(
                    "its row labels are those of the original in another order, and rows are matched by position",
                    f"{len(ours)} rows",
                    "Sort it, released.loc[original.index], or drop its labels, released.reset_index(drop=True)",
                )
        return frame.unwrap()
    frame = keyed(frame, key, "the release")
    ours, theirs = original.table.index, frame.table.index
    strangers = int((~theirs.isin(ours)).sum())
    if strangers:
        kinds = f" (keys are {ours.dtype} in the original, {theirs.dtype} in the release)"
        what = f"it has keys that the original does not have{'' if ours.dtype == theirs.dtype else kinds}"
        raise InputError(what, f"{strangers} of {len(theirs)}", "Check the key column of both files")
    return frame.table.loc[ours[ours.isin(theirs)]]


@contextmanager
def about(label: str) -> Iterator[None]:
    """Errors inside say which release they are about."""
    try:
        yield
    except RuvError as error:
        raise type(error)(f"{label}: {error.what}", error.got, error.do) from error
