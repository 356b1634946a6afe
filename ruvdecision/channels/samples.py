"""Samples within one of several releases: which rows each may hold, and with which chance.

A sample of its own beside other releases tells rows apart that the others treat alike, and the labels of a release tell
whom it holds. So the law is that of known rows, averaged over who may be in the sample. Rows that nothing else tells
apart count as one class: then only how many of each class are in the sample matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import comb
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import InputError, UnsupportedError, kind_of
from .layout import Partition
from .steps import Copy, Resolved

AnyChannel = TypeVar("AnyChannel", bound=Any)
Ints = NDArray[np.int64]
Samples = dict[int, Ints]
"""The rows that the sample of each release holds, by the release's first column."""
MOST = 400
"""Most kinds of samples that are added up; of more some are drawn."""


def released_files(release: Any, count: int) -> list[Any]:
    """The file of each of several releases, as many as a mask makes."""
    if not isinstance(release, (tuple, list)) or len(release) != count:
        do = "Pass what mask.release(data, rng) gave back, a tuple"
        raise InputError(f"The mask makes {count} releases", kind_of(release), do)
    return list(release)


def rows_held(release: Any, n: int) -> Ints:
    """Which of n rows a sample holds, by the labels of its rows."""
    labels = release.index if isinstance(release, (pd.DataFrame, pd.Series)) else pd.Index(["not known"])
    if not pd.api.types.is_integer_dtype(labels.dtype) or labels.min() < 0 or labels.max() >= n:
        do = "Release a DataFrame with its rows numbered from 0 as index"
        raise InputError("A sample must tell which rows it holds", "a release without row numbers", do)
    return labels.to_numpy().astype(np.int64)


def sample_sizes(found: Sequence[Resolved]) -> dict[int, int]:
    """How many rows the sample of each release holds, of those releases that have one of their own."""
    own = [f.step for f in found if f.step.samples and f.step.rows is not None]
    return {step.release: step.kept for step in own if step.release is not None}


def partitions_of(found: Sequence[Resolved], n: int, samples: Samples | None = None) -> list[Partition | None]:
    """How each step tells all n rows apart, if these are the samples; the first rows if they are not given."""
    held: dict[int | None, Ints] = {}
    out: list[Partition | None] = []
    for step, mask, _ in found:
        own = held.get(step.release)
        again = step.samples and step.rows is not None
        if step.release is None:
            if again:
                held[None] = np.arange(step.kept)
            out.append(None if step.rows is None else step.rows.padded_to(n))
            continue
        if (own is not None and (again or isinstance(step, Copy))) or (again and None in held):
            raise UnsupportedError(
                f"{mask} in one of several releases goes on with a sample", do="Use one Subsample, last in that release"
            )
        if again:
            held[step.release] = np.arange(step.kept) if samples is None else samples[step.release]
            out.append(_partition_of_sample(np.zeros(step.kept, dtype=np.int64), held[step.release], n, rest=1))
        elif step.rows is None or own is None:
            out.append(None if step.rows is None else step.rows.padded_to(n))
        else:
            out.append(_partition_of_sample(step.rows.row_labels(), own, n, rest=-1, joins=step.rows.joins))
    return out


def _partition_of_sample(labels: Ints, rows: Ints, n: int, rest: int, joins: bool = False) -> Partition:
    every = np.full(n, rest, dtype=np.int64)
    every[rows] = labels
    return Partition.of(every, joins=joins)


def refuse_open_samples(channel: Any, what: str) -> None:
    """Raise if single releases of a channel hold samples of their own, over which somebody cannot average."""
    if channel.open_samples:
        raise UnsupportedError(
            f"A Subsample within one of several releases is not available for {what}",
            do="Sample before both, Subsample(...) | (a & b), or name the rows with Release(rows=[...])",
        )


def finish_channel(channel: AnyChannel, found: Sequence[Resolved], samples: Samples | None) -> AnyChannel:
    """A channel whose steps were all read: its order is checked, and samples that are not known stay open."""
    for step, mask, _ in found:
        if step.permutes and step.release is not None:
            channel.check_order(step.columns, mask)
    still_open = samples is None and bool(sample_sizes(found))
    return replace(channel, open_samples=tuple(found) if still_open else ())  # type: ignore[type-var]


def row_classes(found: Sequence[Resolved], n: int) -> Ints | None:
    """A label per row: rows of one label are treated alike but for who is in the sample. None if each is its own."""
    if len(sample_sizes(found)) > 1:
        return None
    seen: set[int] = set()
    columns = [np.zeros(n, dtype=np.int64)]
    for step, _, _ in found:
        if step.samples and step.rows is not None and step.release is not None:
            seen.add(step.release)
        elif step.rows is not None and not step.rows.is_one_group:
            if step.release in seen:
                return None
            columns.append(step.rows.padded_to(n).row_labels())
    return np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)


def sample_cases(
    found: Sequence[Resolved], n: int, rows: Sequence[int], count: int, seed: np.random.SeedSequence | None
) -> tuple[list[tuple[float, Samples]], bool]:
    """Weights and samples to average over, and whether they are all there are.

    ``rows`` are those that a target names. Where there are too many kinds of samples, ``count`` of them are drawn.
    """
    sizes, classes = sample_sizes(found), row_classes(found, n)
    if classes is None:
        classes = np.arange(n)
    else:
        followed = [int(r) % n for r in rows]
        classes = classes.copy()
        classes[followed] = classes.max() + 1 + np.arange(len(followed))
    groups = [np.flatnonzero(classes == c) for c in np.unique(classes)]
    cases: list[tuple[float, Samples]] = [(1.0, {})]
    for release, kept in sizes.items():
        own = _group_counts_in_sample(groups, kept, MOST // len(cases))
        if own is None:
            break
        cases = [(w * p, {**s, release: rows}) for w, s in cases for p, rows in own]
    else:
        return cases, True
    root = np.random.SeedSequence(0) if seed is None else seed
    rng = np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, 2**31 + 1)))
    drawn = [
        {release: np.sort(rng.choice(n, size=kept, replace=False)) for release, kept in sizes.items()}
        for _ in range(count)
    ]
    return [(1.0 / count, samples) for samples in drawn], False


def _group_counts_in_sample(groups: Sequence[Ints], kept: int, most: int) -> list[tuple[float, Ints]] | None:
    """How many of each group a sample may hold, with the chance and the first rows of each; None if too many ways."""
    total = comb(sum(map(len, groups)), kept)
    ways: list[tuple[int, list[Ints]]] = [(1, [])]
    left = sum(map(len, groups))
    for group in groups:
        left -= len(group)
        grown = []
        for way, rows in ways:
            open_ = kept - sum(map(len, rows))
            for m in range(max(0, open_ - left), min(len(group), open_) + 1):
                grown.append((way * comb(len(group), m), [*rows, group[:m]]))
        ways = grown
        if len(ways) > most:
            return None
    return [(way / total, np.sort(np.concatenate(rows))) for way, rows in ways]
