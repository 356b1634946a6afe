"""Steps applied to a file: values in the types of their columns, rows with their labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from ..channels.steps import ClipTo, Cut, Drop, FileFacts, Matrix, RoundTo, Step
from ..errors import InputError
from ..protocols import Array
from .columns import Ints, category_codes, is_categorical, kind_of, replace_keeping_integers, with_blanks
from .frame import Frame, real_like


def frame_facts(frame: Frame) -> FileFacts:
    """What a mask may know of a file beforehand: rows, names, and the categories of categorical columns."""
    names = frame.labels.columns
    if frame.plain:
        return FileFacts(frame.n, tuple(names))
    levels = []
    for i in range(len(names)):
        column = frame.table.iloc[:, i]
        categorical = is_categorical(column)
        unknown = () if kind_of(column) in ("category", "boolean") else None
        levels.append(tuple(column.cat.categories) if categorical else unknown)
    return FileFacts(frame.n, tuple(names), levels=tuple(levels) if any(v is not None for v in levels) else ())


def apply_step(step: Step, frame: Frame, rng: np.random.Generator, who: str) -> tuple[Frame, Ints | None]:
    """The file after a step, and which of its rows stand where, None if all stay in their place."""
    order = step.order(frame.n, rng)
    if order is not None:
        if not step.permutes:
            return frame.take(order), order
        # The index keeps its labels in their old order: it is the records that move.
        table = pd.DataFrame(frame.table.iloc[order]).set_axis(frame.table.index, axis=0)
        return Frame(table, frame.kind, frame.dtype), order
    return APPLY.get(type(step), _apply_to_numbers)(frame, step, rng, who), None


def _apply_to_numbers(frame: Frame, step: Step, rng: np.random.Generator, who: str) -> Frame:
    values, positions = _numeric_values(frame, step, who)
    replace = replace_keeping_integers if isinstance(step, (ClipTo, RoundTo)) else Frame.replace
    return replace(frame, step.apply(values, rng), positions)


def _numeric_values(frame: Frame, step: Step, who: str) -> tuple[Array, list[int]]:
    every = step.columns == tuple(range(len(frame.columns)))
    return frame.numeric(who, None if every else [frame.columns[i] for i in step.columns], missing=True)


def _apply_drop(frame: Frame, step: Drop, rng: np.random.Generator, who: str) -> Frame:
    blank = np.ones(frame.n, dtype=bool) if step.rows is None else step.rows.row_labels() == 1
    return frame.put({i: with_blanks(frame.table.iloc[:, i], blank, frame.kind) for i in step.columns})


def _apply_cut(frame: Frame, step: Cut, rng: np.random.Generator, who: str) -> Frame:
    """Numbers as intervals: ordered categories, or numbers in the type of the old column."""
    values, positions = _numeric_values(frame, step, who)
    new: dict[int, Any] = {}
    for i, column in zip(positions, values.T, strict=True):
        old, known = frame.table.iloc[:, i], ~np.isnan(column)
        code, edges = step.codes(column, old.name)
        called = step.interval_names(edges)
        if step.releases_names:
            names = pd.Index(list(called))
            new[i] = pd.Categorical.from_codes(np.where(known, code, -1), categories=names, ordered=True)
        else:
            new[i] = real_like(np.where(known, np.array(called)[code], np.nan), old)
    return frame.put(new)


def _apply_matrix(frame: Frame, step: Matrix, rng: np.random.Generator, who: str) -> Frame:
    """Categories drawn from their rows."""
    new = {}
    released = np.empty(len(step.released), dtype=object)
    released[:] = list(step.released)
    for i in step.columns:
        column = frame.table.iloc[:, i]
        codes, names = category_codes(column)
        place = np.array([step.inputs.index(v) if v in step.inputs else -1 for v in names] + [-1], dtype=np.int64)
        rows = place[codes]
        if np.any((rows < 0) & (codes >= 0)):
            raise InputError(
                f"Column {column.name!r} has values that are no category of {who}", "others", "Name all categories"
            )
        drawn = draw_categories(step.matrix[rows], rng.random(frame.n))
        new[i] = pd.Series(np.where(codes < 0, np.nan, released[drawn])).infer_objects().array
    return frame.put(new)


def draw_categories(probabilities: Array, u: Array) -> Ints:
    """Categories at these points of each row's distribution function; one of probability zero is never drawn."""
    total = np.cumsum(probabilities, axis=1)
    chosen = (total <= (u * total[:, -1])[:, None]).sum(axis=1)
    last = probabilities.shape[1] - 1 - np.argmax(probabilities[:, ::-1] > 0, axis=1)
    return np.minimum(chosen, last)


APPLY: dict[type[Step], Callable[[Frame, Any, np.random.Generator, str], Frame]] = {
    Drop: _apply_drop,
    Cut: _apply_cut,
    Matrix: _apply_matrix,
}
"""How steps keep the types of columns; the others give real numbers."""
