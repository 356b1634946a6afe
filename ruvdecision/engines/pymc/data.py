"""The confidential records as the engines of PyMC models take them, and what releases of them tell."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...beliefs.pymc import PyMCBelief
from ...channels.likelihood import ReleaseLikelihood, observe, observe_numbers
from ...checks import Seed, as_generator
from ...errors import InputError
from ...masks.base import Mask
from ...masks.frame import Frame
from ...protocols import Array, Value
from ...running.replication import over_replicates, replicate_error, replicate_seeds
from ...targets import BaseTarget
from ..base import Problem
from .model import CompiledModel, compiled_model


def size_of(belief: PyMCBelief, problem: Problem) -> int:
    """Number of records: what the belief says, or that of the data or the release."""
    told = problem.data if problem.data is not None else problem.release
    return (
        Frame.of(told).n if told is not None and (problem.data is not None or belief.size is None) else belief.records
    )


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
    return _observed(mask, mask.apply(Frame.of(records), as_generator(seed)), compiled)


def _observed(mask: Mask, released: Frame, compiled: CompiledModel) -> ReleaseLikelihood:
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
    frame = Frame.of(release)
    n = belief.size if belief.size is not None else frame.n
    compiled = compiled_model(belief, n)
    belief.check_names(target, n)
    return compiled, observe(mask, frame.table if frame.kind in ("frame", "series") else release, n)


class Replicate(NamedTuple):
    """One file with a release by each mask."""

    number: int
    observed: list[ReleaseLikelihood | None]
    """None where a mask gives the same release as in the first replicate."""
    seed: np.random.SeedSequence
    """For whatever is drawn after the releases."""


def replicates_of(problem: Problem, compiled: CompiledModel, tally: Tally) -> Iterator[Replicate]:
    """The releases of every replicate; without data the files are drawn from the belief."""
    belief = problem.user.belief
    records = records_of(belief, problem.data)
    first: list[bytes] = []
    for r, (for_data, for_mask, seed) in enumerate(replicate_seeds(problem.seed)):
        if r > 1 and r == tally.count:
            return
        file = records if records is not None else drawn_records(belief, for_data)
        released = [mask.apply(Frame.of(file), as_generator(for_mask)) for mask in problem.masks]
        prints = [_print(one) for one in released]
        same = np.array([r > 0 and p == f for p, f in zip(prints, first or prints, strict=True)])
        first = first or prints
        if r == 1:
            tally.fixed = same
        elif r > 1:
            tally.fixed &= same
        if r == tally.count:
            return  # one more was only drawn to see whether it is another
        tally.repeat(r, same)
        found = zip(problem.masks, released, same, strict=True)
        yield Replicate(r, [None if s else _observed(m, one, compiled) for m, one, s in found], seed)


def _print(released: Frame) -> bytes:
    """What tells one release from another."""
    table = released.numbers() if released.plain else released.unwrap()
    return pickle.dumps((np.asarray(table), np.asarray(released.labels.index)))


class Tally:
    """Uncertainties of every user and mask over the replicates, and what they come to."""

    def __init__(self, users: int, masks: int, count: int) -> None:
        self.count = count
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

    def repeat(self, r: int, same: NDArray[np.bool_]) -> None:
        """What was found in the first replicate is found again."""
        for array in (self.value, self.error, self.source, self.finished):
            array[r, ..., same] = array[0, ..., same]

    def alike(self) -> bool:
        """Whether all replicates so far have the same uncertainties, up to rounding."""
        done = self.value[self.finished.all(axis=1)]
        with np.errstate(invalid="ignore"):
            return bool(np.all(np.ptp(done, axis=0) <= 1e-9 * np.abs(done).max(axis=0)))

    def end_at(self, count: int) -> None:
        """Let it be fewer replicates."""
        self.count = min(self.count, count)
        self.value, self.error, self.source, self.finished = (
            a[: self.count] for a in (self.value, self.error, self.source, self.finished)
        )

    def averages(self) -> list[Value]:
        """Mean over the replicates and its error, of each user for every mask.

        The spread between replicates contains errors within them that are independent; of A sources of error among R
        replicates the rest is a share (R - A) / (A (R - 1)). One release that another draw would change has no error.
        """
        count = self.count
        if count == 1:
            error = np.where(self.fixed, self.error[0], np.nan)
            return [Value(*pair) for pair in zip(self.value[0], error, strict=True)]
        sources = np.array([len(set(column)) for column in self.source.T.tolist()])
        share = (count - sources) / (sources * (count - 1))
        found = []
        for value, error in zip(np.moveaxis(self.value, 1, 0), np.moveaxis(self.error, 1, 0), strict=True):
            mean, spread = over_replicates(value), np.where(self.fixed, 0.0, replicate_error(value))
            within = np.sqrt(share * np.mean(np.square(error), axis=0))
            for i in np.flatnonzero(np.isnan(mean)):
                # A release that failed marks its point; the others tell what they can.
                there = ~np.isnan(value[:, i])
                if there.sum() > 1:
                    mean[i], spread[i] = value[there, i].mean(), replicate_error(value[there, i])
                    within[i] = np.sqrt(share[i] * np.mean(np.square(error[there, i])))
            found.append(Value(mean, np.hypot(spread, within)))
        return found

    @property
    def releases(self) -> list[int]:
        """How many different releases stand behind each number."""
        return np.where(self.fixed, 1, self.count).tolist()  # type: ignore[no-any-return]
