"""Snoopers who take the row of each record for it: the error of every row at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..beliefs.normal import NormalBelief
from ..channels.linear import LinearChannel
from ..errors import UnsupportedError
from ..masks.base import Mask
from ..posteriors import Gaussian
from ..protocols import Array, Value
from ..running.replication import replicate_seeds
from ..users.rules import Row
from ..users.user import Snooper
from .normal.exact import Exact
from .rules.fixed_rule import REPLICATES
from .rules.simulated import costs
from .rules.source import Source, released_rows

Ints = NDArray[np.int64]


def given_rows(user: Snooper, masks: Sequence[Mask], rows: Ints, source: Source) -> Value | None:
    """Records at hand and a linear-Gaussian release: the error of each row is normal, with known mean and covariance.

    The masks are of one family. None if that is not so, or the loss is not one of the error alone.
    """
    loss, table = user.loss, source.table
    if table is None or not loss.location_free or not hasattr(loss, "expected") or source.n < 2:
        return None
    belief = NormalBelief(records=source.n, covariance=np.eye(source.k), prior="flat", columns=source.columns)
    numbers = np.array([m.numbers for m in masks], dtype=np.float64).reshape(len(masks), -1)
    try:
        channel = Exact()._channel(belief, masks[0], numbers, table)
    except UnsupportedError:
        return None
    if channel.location != "known" or channel.wiped is not None:
        return None
    mean, spread, there = _release_law(channel, table)
    mean, spread, there = mean[rows], spread[:, rows], there[rows]
    bias, lead = mean - table[rows], len(masks)
    costs(loss, np.zeros((1, source.k)), np.zeros((1, source.k)), Row())  # a loss of intervals refuses a number
    bias, spread = np.broadcast_to(bias, (lead, *bias.shape)), np.broadcast_to(spread, (lead, *spread.shape[1:]))
    if source.k == 1:
        found = loss.expected(Gaussian.scalar(-bias[..., 0], spread[..., 0, 0]), np.zeros(bias.shape[:-1]))
    else:
        found = loss.expected(Gaussian(-bias, spread), np.zeros(bias.shape))
    value = np.where(there.all(axis=1), np.broadcast_to(found.value, bias.shape[:-1]), np.inf)
    return Value(value, np.where(there.all(axis=1), np.broadcast_to(found.error, bias.shape[:-1]), 0.0))


def drawn_rows(
    user: Snooper,
    masks: Sequence[Mask],
    rows: Ints,
    source: Source,
    replicates: int | None,
    seed: Any,
    tell: Any = None,
) -> Value:
    """Average over releases, all rows on the same ones; they are those that each record would see alone."""
    count = REPLICATES if replicates is None else replicates
    value, error = np.empty((len(masks), len(rows))), np.empty((len(masks), len(rows)))
    for i, mask in enumerate(masks):
        first: Any = None
        total, squares, held = (np.zeros(len(rows)) for _ in range(3))
        for s in replicate_seeds(seed, count):
            records = source.draw([s]).records[0]
            released = released_rows(mask.release(source.frame(records), s[1]), len(records), "A row")
            cost = costs(user.loss, released[rows], records[rows], Row())
            there = ~np.isnan(cost)
            # Sums about the first loss: their spread keeps its digits where the losses are large and alike.
            first = np.where(there, cost, 0.0) if first is None else first
            off = np.where(there, cost - first, 0.0)
            held, total, squares = held + there, total + off, squares + off**2
        sometimes = (held > 0) & (held < count)
        if sometimes.any():
            raise UnsupportedError(
                f"After {mask} some releases hold no value for the row of a record, others do",
                f"{int(sometimes.sum())} of {len(rows)} records",
                "Use a User with Bayes' rule, who knows what to think then",
            )
        mean = total / count
        value[i] = np.where(held > 0, first + mean, np.inf)
        spread = np.sqrt(np.maximum(squares / count - mean**2, 0.0) / (count - 1)) if count > 1 else np.nan
        error[i] = np.where(held > 0, spread, 0.0)
        if tell is not None:
            tell((i + 1) / len(masks))
    return Value(value, error)


def _release_law(channel: LinearChannel, table: Array) -> tuple[Array, Array, Any]:
    """Mean ``(n, k)`` and covariance ``(masks or 1, n, k, k)`` of each released row, and what is released."""
    k = channel.columns
    shape, copy, cell = channel.layout.rows()
    lead = np.broadcast_shapes((1,), *(b.r.shape[:1] for b in channel.blocks), *(c.shape[:1] for c in channel.common))
    mean, spread = np.zeros(table.shape), np.zeros((*lead, len(table), k, k))
    there = np.zeros(table.shape, dtype=bool)
    for t, block in enumerate(channel.blocks):
        mine = np.flatnonzero(shape == t)
        if not len(mine):
            continue
        roots, c = block.shape.roots, len(block.shape.sizes)
        total = np.zeros((block.shape.count, c, k))
        np.add.at(total, (copy[mine], cell[mine]), table[mine])
        centre = total / roots[:, None]
        moved = (centre.reshape(-1, c * k) @ block.b[0].T).reshape(-1, c, k) / roots[:, None]
        at, row = cell[mine], copy[mine]
        off = table[mine] - total[row, at] / block.shape.sizes[at][:, None]
        within = block.w[0] * block.told[:, :, None]
        mean[mine] = moved[row, at] + np.einsum("nij,nj->ni", within[at], off)
        there[mine] = block.alive[at]
        for i, size in enumerate(block.shape.sizes):
            piece = slice(i * k, i * k + k)
            own = block.r[:, piece, piece] / size + (1.0 - 1.0 / size) * block.rw[:, i]
            for load, covariance in zip(block.loads, channel.common, strict=True):
                part = load[:, piece] / roots[i]
                own = own + part @ covariance @ np.swapaxes(part, -1, -2)
            spread[:, mine[at == i]] = own[:, None]
    return mean, spread, there
