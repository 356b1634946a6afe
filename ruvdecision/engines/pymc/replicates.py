"""The confidential records as the engines of PyMC models take them, and what releases of them tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...beliefs.pymc import PyMCBelief
from ...channels.likelihood import ReleaseLikelihood, observe, observe_matrix
from ...checks import Seed, as_generator
from ...errors import InputError
from ...masks.base import Mask
from ...masks.frame import Frame, files_of, for_each_file
from ...protocols import Array, Value
from ...running.replication import Watched, replicate_error, replicate_seeds
from ...targets import BaseTarget
from ..base import Problem
from .model import CompiledModel, compiled_model


def record_count_of(belief: PyMCBelief, problem: Problem) -> int:
    """Number of records: what the belief says, or that of the data or the release."""
    if problem.data is not None:
        return Frame.of(problem.data).n
    if problem.release is None or belief.size is not None:
        return belief.records
    return max(frame.n for frame in _released_frames(problem.masks[0], problem.release))


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
    names = belief.column_names(len(records))
    return Frame.of(pd.DataFrame(records if records.ndim == 2 else records[:, None], columns=names))


def observed_in(mask: Mask, records: Frame, compiled: CompiledModel, seed: Seed) -> ReleaseLikelihood:
    """What a release of the records tells."""
    return _observe_frames(mask, mask.apply(Frame.of(records), as_generator(seed)), compiled)


def _observe_frames(mask: Mask, released: Any, compiled: CompiledModel) -> ReleaseLikelihood:
    first, *others = files_of(released)
    if first.plain and not others:
        # No table is made of a release that only goes back through its mask.
        return observe_matrix(mask, first.numbers(), first.columns, first.labels.index, compiled.n)
    return observe(mask, for_each_file(lambda frame: frame.unwrap(), released), compiled.n)


def observed_release(
    belief: PyMCBelief, target: BaseTarget, mask: Mask, release: object, what: str
) -> tuple[CompiledModel, ReleaseLikelihood]:
    """The model for as many records as a release is about, and what the release tells."""
    if release is None:
        raise InputError(f"A {what} needs a release", None, "Pass what mask.release(data, rng) gave back")
    files = _released_frames(mask, release)
    n = belief.size if belief.size is not None else max(frame.n for frame in files)
    compiled = compiled_model(belief, n)
    belief.check_names(target, n)
    compiled.check_new_record(target)
    given = [frame.table if frame.kind in ("frame", "series") else frame.unwrap() for frame in files]
    return compiled, observe(mask, tuple(given) if mask.separate_releases else given[0], n)


def _released_frames(mask: Mask, release: Any) -> list[Frame]:
    """The files that were released: one, or one by each of several masks."""
    return list(map(Frame.of, files_of(release) if mask.separate_releases else (release,)))


class Replicate(NamedTuple):
    """One file with a release by each mask."""

    number: int
    observed: list[ReleaseLikelihood | None]
    """None where enough releases of a mask were looked at."""
    seed: np.random.SeedSequence
    """For whatever is drawn after the releases."""
    released: list[Any]
    """The releases themselves."""


def replicates_of(problem: Problem, compiled: CompiledModel, tally: ReplicateTally) -> Iterator[Replicate]:
    """The releases of every replicate; without data the files are drawn from the belief."""
    belief = problem.user.belief
    records = records_of(belief, problem.data)
    for r, (for_data, for_mask, seed) in enumerate(replicate_seeds(problem.seed)):
        if r and r >= tally.counts.max():
            return
        file = records if records is not None else drawn_records(belief, for_data)
        sources = [Watched(as_generator(for_mask).bit_generator) for _ in problem.masks]
        released = [mask.apply(Frame.of(file), rng) for mask, rng in zip(problem.masks, sources, strict=True)]
        if r == 0:
            # Random numbers that were not asked for, in a file that is given or of which nothing is released.
            still = [not rng.used for rng in sources]
            tally.fixed = np.array(still) & [records is not None or _nothing_released(one) for one in released]
            tally.counts[tally.fixed] = 1
        wanted = zip(problem.masks, released, tally.counts > r, strict=True)
        observed = [_observe_frames(m, one, compiled) if more else None for m, one, more in wanted]
        yield Replicate(r, observed, seed, released)


def _nothing_released(released: Any) -> bool:
    """Whether nothing is released."""
    return all(file.plain and np.isnan(file.numbers()).all() for file in files_of(released))


class ReplicateTally:
    """Uncertainties of every user and mask over the replicates, and what they come to."""

    def __init__(self, users: int, masks: int, count: int) -> None:
        self.counts = np.full(masks, count)
        """Releases of each mask that are looked at. They depend on nobody but the mask."""
        self.value, self.error = np.full((2, count, users, masks), np.nan)
        self.source = np.zeros((count, masks), dtype=int)
        """Numbers of the draws or nodes: entries with the same number share their error."""
        self.finished = np.zeros((count, masks), dtype=bool)
        self.fixed = np.zeros(masks, dtype=bool)
        """Masks that give the same release again and again."""

    def add(self, r: int, i: int, values: Sequence[Value], source: int = 0) -> None:
        """Uncertainties of all users after one release."""
        for u, found in enumerate(values):
            self.value[r, u, i], self.error[r, u, i] = float(found.value), float(found.error)
        self.source[r, i], self.finished[r, i] = source, True

    def stop_constant_masks(self, r: int) -> None:
        """Look at no more releases of masks after which all uncertainties are the same, up to rounding."""
        done = self.value[: r + 1]
        with np.errstate(invalid="ignore"):
            alike = np.all(np.ptp(done, axis=0) <= 1e-9 * np.abs(done).max(axis=0), axis=0)
        self.counts = np.where(alike, np.minimum(self.counts, r + 1), self.counts)

    def averages(self) -> list[Value]:
        """Mean over the replicates and its error, of each user for every mask.

        The spread between replicates contains errors within them that are independent; of A sources of error among R
        replicates the rest is a share (R - A) / (A (R - 1)). One release that another draw would change has no error.
        A release that failed is left out, and marked by the engine.
        """
        _, users, masks = self.value.shape
        mean, error = np.full((2, users, masks), np.nan)
        for i, count in enumerate(self.counts):
            value, within = self.value[:count, :, i], self.error[:count, :, i]
            there = ~np.isnan(value).any(axis=1)
            value, within, left = value[there], within[there], int(there.sum())
            if left:
                mean[:, i] = value.mean(axis=0)
            if self.fixed[i] and left:
                error[:, i] = within[0]
            elif left > 1:
                sources = len(set(self.source[:count, i][there].tolist()))
                share = (left - sources) / (sources * (left - 1))
                error[:, i] = np.hypot(replicate_error(value), np.sqrt(share * np.mean(np.square(within), axis=0)))
        return [Value(*pair) for pair in zip(mean, error, strict=True)]
