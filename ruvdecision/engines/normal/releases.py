"""Files of a normal belief: data and releases as matrices of numbers, and the channel that a mask is."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...beliefs.normal import NormalBelief
from ...channels.layout import Partition
from ...channels.linear import LinearChannel
from ...channels.samples import Samples, released_files, row_classes, rows_held, sample_sizes
from ...channels.steps import FileFacts
from ...errors import InputError, UnsupportedError
from ...masks.base import Mask
from ...masks.frame import Frame
from ...protocols import Array, Ints
from ...targets import BaseTarget, Kind


def channel_of(
    belief: NormalBelief,
    mask: Mask,
    numbers: Array | None = None,
    data: Array | None = None,
    samples: Samples | None = None,
) -> LinearChannel:
    """The channel of a mask, or of a family: one of its masks, and the numbers of all of them."""
    own = np.array([mask.numbers], dtype=np.float64) if numbers is None else numbers
    return LinearChannel.of(mask, belief_facts(belief, data), own, samples)


def belief_facts(belief: NormalBelief, data: Array | None = None) -> FileFacts:
    """What is known of the file beforehand; ``data`` has the covariance that noise may be a share of."""
    covariance = belief.record_covariance
    if data is not None and len(data) > 1:
        covariance = np.atleast_2d(np.cov(data, rowvar=False))
    return FileFacts(belief.records, tuple(belief.columns or range(belief.k)), covariance)


def linear_channel(
    belief: NormalBelief, mask: Mask, numbers: Array | None = None, data: Array | None = None
) -> LinearChannel | None:
    """The same, None if the mask is not linear-Gaussian."""
    try:
        return channel_of(belief, mask, numbers, data)
    except UnsupportedError:
        # Any of the chain's steps may be the one that is not linear; here it only matters that one is.
        return None


def rows_alike(channel: LinearChannel, rows: Ints) -> list[Ints] | None:
    """Labels of rows: rows with the same ones are treated alike. None if each is a case of its own."""
    if channel.open_samples:
        classes = row_classes(channel.open_samples, channel.layout.n)
        return None if classes is None else [classes[rows]]
    if channel.location == "known":
        shape, _, cell = channel.layout.place_of_rows()
        return [shape[rows], cell[rows]]
    if channel.location != "unknown":
        layout = channel.layout
        kept = min(int(p.starts[1]) for p in layout.partitions if p is not None and p.drawn)
        if len(np.unique(layout.place[layout.starts < kept][:, [0, 2]], axis=0)) > 1:
            return None
    # In the sample or not, and nothing else: the chances are the same for all.
    return [np.zeros(len(rows), dtype=np.int64)]


def as_records(belief: NormalBelief, data: object) -> Array:
    """Data as an n by k matrix of numbers that fits the belief."""
    values, _ = Frame.of(data).numeric("A NormalBelief")
    if values.shape != (belief.records, belief.k):
        what = f"data must have {belief.records} records of {belief.k} variables, as the belief says"
        do = "Set records= to the size of the file and covariance= to its columns"
        raise InputError(what, f"{values.shape[0]} records of {values.shape[1]}", do)
    return values


def released(belief: NormalBelief, channel: LinearChannel, release: object) -> tuple[Array, Ints]:
    """A release as a matrix of n rows in the channel's order, and where each record stands in that order.

    The channel puts the rows of a random sample first. Which they are is told by the labels of the release. Several
    releases stand side by side, each row in its place unless one sample was taken before them all.
    """
    found = [_numbers_of_release(belief, one) for one in release_files(belief, channel, release)]
    n = belief.records
    if channel.location != "drawn":
        values = np.concatenate([_values_of_all_rows(frame, v, n, len(found) > 1) for frame, v in found], axis=1)
        return _regroup_shuffled_rows(channel, values) if channel.scrambled else values, np.arange(n)
    kept = rows_held(found[0][0].unwrap(), n)
    order = np.concatenate([kept, np.setdiff1d(np.arange(n), kept)])
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    values = np.concatenate([v for _, v in found], axis=1)
    return np.concatenate([values, np.full((n - len(kept), values.shape[1]), np.nan)]), place


def release_files(belief: NormalBelief, channel: LinearChannel, release: object) -> list[Any]:
    """The file of every release: one, or as many as the mask makes."""
    count = channel.width // belief.k
    if count == 1:
        return [release]
    return released_files(release, count)


def samples_held(belief: NormalBelief, channel: LinearChannel, release: object) -> Samples:
    """Which rows the samples of single releases hold, told by their labels."""
    files, sizes = release_files(belief, channel, release), sample_sizes(channel.open_samples)
    return {first: rows_held(files[first // belief.k], belief.records) for first in sizes}


def _numbers_of_release(belief: NormalBelief, release: object) -> tuple[Frame, Array]:
    frame, n = Frame.of(release), belief.records
    values, _ = frame.numeric("A release", missing=True)
    if values.shape[1] != belief.k or values.shape[0] > n:
        what = f"The release must have {belief.k} columns and at most {n} rows"
        raise InputError(what, f"shape {values.shape}", "Pass what mask.release(data, rng) gave back")
    return frame, values


def _values_of_all_rows(frame: Frame, values: Array, n: int, by_label: bool) -> Array:
    """Values of n rows; those that are not in the file are missing."""
    if len(values) == n:
        return values
    full = np.full((n, values.shape[1]), np.nan)
    full[rows_held(frame.unwrap(), n) if by_label else slice(len(values))] = values
    return full


def _regroup_shuffled_rows(channel: LinearChannel, values: Array) -> Array:
    """Rows of shuffled groups put back together: the records of a group share their averaged values.

    Groups are of one size, so that it does not matter which of them comes first.
    """
    groups: list[Partition] = []
    for p in channel.layout.partitions:
        if p is not None and p.joins and not p.is_one_group and not any(p.same_as(q) for q in groups):
            groups.append(p)
    if len(groups) > 1:
        what = "Rows that were averaged in several ways and then shuffled cannot be put together again"
        raise UnsupportedError(what, do="Put Shuffle() first in the chain")
    starts, labels = groups[0].run_starts()
    places = np.argsort(np.repeat(labels, np.diff(np.append(starts, len(values)))), kind="stable")
    averaged = ~channel.blocks[0].contrasts_released[0]
    out = np.empty_like(values)
    out[places] = values[np.lexsort(values[:, averaged].T)]
    return out


def move_target(target: BaseTarget, place: Ints) -> BaseTarget:
    """The target with its records at their places in the channel's order."""
    return target if target.is_a(Kind.FILE) else target.with_rows_moved(lambda row: int(place[row]))
