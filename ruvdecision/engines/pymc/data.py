"""The confidential records as the engines of PyMC models take them, and what a release of them tells."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...beliefs.pymc import PyMCBelief
from ...channels.likelihood import ReleaseLikelihood, observe, observe_numbers
from ...checks import as_generator
from ...errors import InputError
from ...masks.frame import Frame
from ...protocols import Array
from .model import CompiledModel, compiled_model


def size_of(belief: PyMCBelief, data: Any) -> int:
    """Number of records: that of the data, or what the belief says."""
    return belief.records if data is None else Frame.of(data).n


def records_of(belief: PyMCBelief, data: Any) -> Frame | None:
    """The confidential records as a table with rows numbered from 0, checked against the model."""
    if data is None:
        return None
    frame = Frame.of(data)
    if belief.size is not None and belief.size != frame.n:
        raise InputError(
            f"The belief is about {belief.size} records",
            f"{frame.n} rows of data",
            "Leave out size=, or set it to the file's",
        )
    values, _ = frame.numeric("A PyMCBelief")
    compiled = compiled_model(belief, frame.n)
    if values.shape[1] != compiled.k:
        raise InputError(
            f"data must have {compiled.k} columns, as the variable {belief.variable!r} has",
            f"{values.shape[1]} columns",
            "Take the columns that the model is about",
        )
    return Frame.of(frame.table.reset_index(drop=True))


def observed_in(mask: Any, records: Any, compiled: CompiledModel, seed: Any) -> ReleaseLikelihood:
    """What a release of the records tells."""
    released = mask.apply(Frame.of(records), as_generator(seed))
    if released.plain:
        # No table is made of a release that only goes back through its mask.
        return observe_numbers(mask, released.numbers(), released.columns, released.labels.index, compiled.n)
    return observe(mask, released.unwrap(), compiled.n)


def as_frame(records: Array) -> Frame:
    """Drawn records as a table with rows numbered from 0."""
    return Frame.of(pd.DataFrame(records if records.ndim == 2 else records[:, None]))
