"""PRAM, recoding, rounding and top-coding as matrices of whole records, which finite beliefs can invert."""

from __future__ import annotations

from functools import reduce
from itertools import product
from operator import or_
from typing import Any

import numpy as np
import pandas as pd

from ...beliefs.finite import FiniteBelief
from ...checks import check_columns
from ...errors import InputError, UnsupportedError
from ...masks import PRAM, Bottomcode, Recode, Release, Round, Stochastic, Topcode
from ...masks.base import Mask
from ...masks.frame import Frame

__all__ = ["as_matrices"]

LARGEST = 4_000_000
"""Most entries of a matrix of whole records."""


def as_matrices(belief: FiniteBelief, mask: Mask) -> Mask:
    """The chain with PRAM, recoding, rounding and top-coding written as matrices of whole records."""
    names: tuple[Any, ...] = tuple(v if isinstance(v, tuple) else (v,) for v in belief.levels.names)
    steps: list[Mask] = []
    for step in mask.parts:
        found: Mask = step
        if isinstance(step, PRAM):
            found = _pram(step, names)
        elif isinstance(step, (Recode, Round, Topcode, Bottomcode)):
            if not step.recordwise or getattr(step, "random", False):
                raise UnsupportedError(
                    f"{step} does not treat each record by itself in a fixed way",
                    do="Use Recode, Round(base) or Topcode(at=...)",
                )
            frame = step.apply(Frame.of(pd.DataFrame(list(names))), np.random.default_rng(0)).table
            labels = [tuple(_plain(v) for v in row) for row in frame.itertuples(index=False, name=None)]
            found = _matrix(names, dict(enumerate([{label: 1.0} for label in labels])))
        if isinstance(found, Stochastic):
            raw = found.labels(names)
            names = tuple(dict.fromkeys(v if isinstance(v, tuple) else (v,) for v in raw))
        steps.append(found)
    return reduce(or_, steps, Release()) if len(steps) > 1 else steps[0]


def _pram(step: PRAM, names: tuple[Any, ...]) -> Stochastic:
    """PRAM of some columns as a matrix of whole records."""
    if step.invariant:
        raise UnsupportedError("Invariant PRAM depends on the margins of the file", do="Give the matrix itself")
    width = len(names[0])
    mapping = step.stay if step.matrix is None else step.matrix
    if isinstance(mapping, dict):
        columns = dict(
            zip(check_columns("The mapping of PRAM", list(mapping), list(range(width))), mapping, strict=True)
        )
    else:
        chosen = range(width) if step.columns is None else check_columns("columns", step.columns, list(range(width)))
        columns = dict.fromkeys(chosen)
    moves: dict[int, dict[Any, dict[Any, float]]] = {}
    for column, name in columns.items():
        levels = step._of(name)[1]
        if levels is None:
            # Without categories PRAM reads them from the file, sorted; the belief's own are what it may find there.
            found = {n[column] for n in names}
            try:
                levels = tuple(sorted(found))
            except TypeError:
                raise InputError(
                    "The categories have no order",
                    list(found)[:5],
                    "Give PRAM categories=[...], or turn them all into text",
                ) from None
        levels = tuple(_plain(v) for v in levels)
        matrix = step.transition(levels, column=name)
        moves[column] = {
            a: {b: float(p) for b, p in zip(levels, row, strict=True) if p > 0}
            for a, row in zip(levels, matrix, strict=True)
        }
    rows: dict[int, dict[Any, float]] = {}
    for i, record in enumerate(names):
        options = []
        for j, value in enumerate(record):
            if j in moves and value not in moves[j]:
                raise InputError(
                    "PRAM has no category for an outcome of the belief", value, "Give categories= that name all of them"
                )
            options.append(moves[j][value].items() if j in moves else [(value, 1.0)])
        if len(names) * np.prod([float(len(o)) for o in options]) > LARGEST:
            raise UnsupportedError(
                "PRAM of so many columns gives too many kinds of records", do="Mask fewer columns, or recode them first"
            )
        rows[i] = {
            tuple(v for v, _ in combined): float(np.prod([p for _, p in combined])) for combined in product(*options)
        }
    return _matrix(names, rows)


def _matrix(names: tuple[Any, ...], rows: dict[int, dict[Any, float]]) -> Stochastic:
    """A matrix from the law of every record."""
    outputs = list(dict.fromkeys(v for law in rows.values() for v in law))
    if len(names) * len(outputs) > LARGEST:
        raise UnsupportedError(
            "The mask gives too many kinds of records", do="Mask fewer columns, or recode them first"
        )
    place = {v: j for j, v in enumerate(outputs)}
    matrix = np.zeros((len(names), len(outputs)))
    for i, law in rows.items():
        for value, p in law.items():
            matrix[i, place[value]] += p
    return Stochastic(matrix, outputs=outputs, inputs=list(names))


def _plain(value: Any) -> Any:
    """Numbers as floats, as finite beliefs hold them."""
    return float(value) if isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)) else value
