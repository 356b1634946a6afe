"""The density of a release under a finite belief, together with the values of the target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ...errors import InputError
from ...protocols import Array
from .law import FiniteLaw


def log_joint(law: FiniteLaw, release: Any) -> tuple[Array, float] | None:
    """Log density of a release together with the target's values, and the dimension of its continuous part.

    None if impossible.
    """
    channel = law.channel
    frame = pd.DataFrame(release).to_numpy(dtype=object)
    if channel.ordered and not channel.sampled and all(k.noise is not None for k in channel.kernels):
        return _log_joint_of_numbers(law, frame)
    try:
        slots = channel.read(release)
    except InputError:
        return None
    offset, rank = 0.0, 0.0
    for slot, kind in enumerate(slots.kinds):
        kernel = channel.kernels[kind]
        if kernel.noise is None:
            continue
        # Evidence is kept relative to the nearest output; across masks the size of the density counts.
        spread = np.diag(kernel.noise) > 0
        seen = np.array([np.nan if pd.isna(v) else float(v) for v in frame[slot]])
        offset += float(kernel.log_densities(seen[None])[0].max())
        offset -= 0.5 * float(np.linalg.slogdet(2 * np.pi * kernel.noise[np.ix_(spread, spread)])[1])
        rank += float(spread.sum())
    known = slots.rows >= 0
    if known.all() or law._order_is_idle(slots):
        evidence = np.zeros((law.belief.records, len(law.belief.levels)))
        evidence[slots.rows if known.all() else np.arange(len(slots.rows))] = slots.log_evidence
        joint = law._labelled(evidence)
    else:
        joint = law._unlabelled(slots)
    return joint + offset, rank


def _log_joint_of_numbers(law: FiniteLaw, frame: Any) -> tuple[Array, float] | None:
    """The same where every row goes out with noise and keeps its place: all rows of a kind at once."""
    channel = law.channel
    numbers = np.array([[np.nan if pd.isna(v) else float(v) for v in row] for row in frame])
    evidence = np.empty((len(channel.kinds), len(law.belief.levels)))
    offset, rank = 0.0, 0.0
    for kind, kernel in enumerate(channel.kernels):
        mine = channel.kinds == kind
        blank = np.asarray(np.isnan(kernel.levels()).all(axis=0))
        if numbers.shape != (len(channel.kinds), len(blank)) or np.any(np.isnan(numbers[mine]) != blank):
            return None
        assert kernel.noise is not None
        logs = kernel.log_densities(numbers[mine])
        top = logs.max(axis=1, keepdims=True)
        if np.any(top == -np.inf):
            return None
        with np.errstate(divide="ignore"):
            evidence[mine] = np.log(np.exp(logs - top) @ kernel.matrix.T)
        spread = np.diag(kernel.noise) > 0
        size = float(np.linalg.slogdet(2 * np.pi * kernel.noise[np.ix_(spread, spread)])[1])
        offset += float(top.sum()) - 0.5 * float(mine.sum()) * size
        rank += float(mine.sum()) * float(spread.sum())
    return law._labelled(evidence) + offset, rank
