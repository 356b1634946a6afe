"""The confidential records as the engines of PyMC models take them, and what releases of them tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from ...beliefs.pymc import PyMCBelief
from ...channels.likelihood import ReleaseLikelihood, observe, observe_numbers
from ...checks import Seed, as_generator
from ...errors import InputError
from ...masks.base import Mask
from ...masks.frame import Frame
from ...protocols import Array
from ...running.replication import replicate_seeds
from ...targets import BaseTarget
from ..base import Problem
from .model import CompiledModel, compiled_model


def size_of(belief: PyMCBelief, data: object) -> int:
    """Number of records: that of the data, or what the belief says."""
    return belief.records if data is None else Frame.of(data).n


def records_of(belief: PyMCBelief, data: object) -> Frame | None:
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


def drawn_records(belief: PyMCBelief, seed: Seed) -> Frame:
    """Records drawn from the belief as a table with rows numbered from 0."""
    records: Array = belief.draw(np.random.default_rng(seed))
    return Frame.of(pd.DataFrame(records if records.ndim == 2 else records[:, None]))


def observed_in(mask: Mask, records: Frame, compiled: CompiledModel, seed: Seed) -> ReleaseLikelihood:
    """What a release of the records tells."""
    released = mask.apply(Frame.of(records), as_generator(seed))
    if isinstance(released, tuple):
        return observe(mask, tuple(frame.unwrap() for frame in released), compiled.n)
    if released.plain:
        # No table is made of a release that only goes back through its mask.
        return observe_numbers(mask, released.numbers(), released.columns, released.labels.index, compiled.n)
    return observe(mask, released.unwrap(), compiled.n)


def observed_release(
    belief: PyMCBelief, target: BaseTarget, mask: Mask, release: object, what: str
) -> tuple[CompiledModel, ReleaseLikelihood]:
    """The model for as many records as a release is about, and what the release tells."""
    if release is None:
        raise InputError(f"A {what} needs a release", None, "Pass what mask.release(data, rng) gave back")
    files = (
        [Frame.of(one) for one in release] if mask.side_by_side and isinstance(release, tuple) else [Frame.of(release)]
    )
    n = belief.size if belief.size is not None else max(frame.n for frame in files)
    compiled = compiled_model(belief, n)
    belief.check_names(target, n)
    given = [frame.table if frame.kind in ("frame", "series") else frame.unwrap() for frame in files]
    return compiled, observe(mask, tuple(given) if mask.side_by_side else given[0], n)


class Replicate(NamedTuple):
    """One file with a release by each mask."""

    number: int
    observed: list[ReleaseLikelihood]
    seed: np.random.SeedSequence
    """For whatever is drawn after the releases."""


def replicates_of(problem: Problem, compiled: CompiledModel, count: int) -> Iterator[Replicate]:
    """The releases of every replicate; without data the files are drawn from the belief."""
    belief = problem.user.belief
    records = records_of(belief, problem.data)
    for r, (for_data, for_mask, seed) in enumerate(replicate_seeds(problem.seed, count)):
        file = records if records is not None else drawn_records(belief, for_data)
        yield Replicate(r, [observed_in(mask, file, compiled, for_mask) for mask in problem.masks], seed)
