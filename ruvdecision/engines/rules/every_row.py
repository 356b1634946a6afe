"""Snoopers who take the row of each record for it: the error of every row at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...beliefs.normal import NormalBelief
from ...channels.linear import LinearChannel
from ...errors import UnsupportedError
from ...losses.base import is_bayes_loss
from ...masks.base import Mask
from ...posteriors import Gaussian
from ...protocols import Array, Ints, Solution, Value
from ...running.replication import replicate_seeds
from ...targets import Kind
from ...users.rules import Row
from ...users.user import Snooper
from ..base import Problem
from ..normal.releases import linear_channel, rows_alike
from .costs import costs_of_estimates
from .source import RecordSource

REPLICATES = 200
"""Releases that are drawn for a snooper when nothing else was asked for."""


def is_own_row(user: Snooper) -> bool:
    """Whether the rule takes the row of the target's own record, whichever that is."""
    rule, target = user.estimator, user.target
    if not isinstance(rule, Row):
        return False
    return rule.row is None or (target.verbatim and target.asks(Kind.RECORD) and target.terms[0].row == rule.row)


def every_row(problem: Problem, rows: Ints) -> Solution | None:
    """The row of each record taken for it: all records on the same releases, or one of each kind without data."""
    user, masks = problem.user, problem.masks
    if not is_own_row(user):
        return None
    source = RecordSource.of(user.belief, problem.data)
    found, name = loss_of_given_rows(user, masks, rows, source), "exact"
    if found is None:
        # One of each kind is enough; a flat prior has to be looked at, which is done record by record.
        if source.normal and (source.normal.flat or len(np.unique(row_kinds(problem, rows), axis=0)) < len(rows)):
            return None
        found, name = loss_of_drawn_rows(problem, rows, source), "simulated"
    return Solution(found.value, found.error, float("nan"), [name] * len(masks))


def row_kinds(problem: Problem, rows: Ints) -> Ints:
    """A label per row: rows with one label have the same uncertainty."""
    user, belief = problem.user, problem.user.belief
    alone = rows[:, None]
    # A rule that looks at certain rows tells their records apart, and so do the data.
    if not (user.estimator.averages or is_own_row(user)) or problem.data is not None:
        return alone
    if not isinstance(belief, NormalBelief):
        return alone
    columns: list[Ints] = []
    for family in problem.masks.families:
        channel = linear_channel(belief, problem.masks[family.positions[0]])
        alike = None if channel is None else rows_alike(channel, rows)
        if alike is None:
            return alone
        columns += alike
    return np.stack(columns, axis=1)


def loss_of_given_rows(user: Snooper, masks: Sequence[Mask], rows: Ints, source: RecordSource) -> Value | None:
    """Records at hand and a linear-Gaussian release: the error of each row is normal, with known mean and covariance.

    The masks are of one family. None if that is not so, or the loss is not one of the error alone.
    """
    loss, table = user.loss, source.table
    if table is None or not loss.location_free or not is_bayes_loss(loss) or source.n < 2:
        return None
    numbers = np.array([m.numbers for m in masks], dtype=np.float64).reshape(len(masks), -1)
    channel = linear_channel(source.belief_without_law, masks[0], numbers, table)
    if channel is None or channel.location != "known" or channel.wiped is not None:
        return None
    mean, covariance, there = _release_law(channel, table)
    mean, covariance, there = mean[rows], covariance[:, rows], there[rows]
    bias, lead = mean - table[rows], len(masks)
    costs_of_estimates(
        loss, np.zeros((1, source.k)), np.zeros((1, source.k)), Row()
    )  # a loss of intervals refuses a number
    bias, covariance = (
        np.broadcast_to(bias, (lead, *bias.shape)),
        np.broadcast_to(covariance, (lead, *covariance.shape[1:])),
    )
    if source.k == 1:
        found = loss.expected(Gaussian.scalar(-bias[..., 0], covariance[..., 0, 0]), np.zeros(bias.shape[:-1]))
    else:
        found = loss.expected(Gaussian(-bias, covariance), np.zeros(bias.shape))
    value = np.where(there.all(axis=1), np.broadcast_to(found.value, bias.shape[:-1]), np.inf)
    return Value(value, np.where(there.all(axis=1), np.broadcast_to(found.error, bias.shape[:-1]), 0.0))


def loss_of_drawn_rows(problem: Problem, rows: Ints, source: RecordSource) -> Value:
    """Average over releases, all rows on the same ones; they are those that each record would see alone."""
    user, masks = problem.user, problem.masks
    count = REPLICATES if problem.replicates is None else problem.replicates
    value, error = np.empty((len(masks), len(rows))), np.empty((len(masks), len(rows)))
    for i, mask in enumerate(masks):
        first: Any = None
        total, squares, held = (np.zeros(len(rows)) for _ in range(3))
        for s in replicate_seeds(problem.seed, count):
            records = source.draw([s]).records[0]
            released = source.rows(mask.release(source.frame(records), s[1]), "A row")
            cost = costs_of_estimates(user.loss, released[rows], records[rows], Row())
            there = ~np.isnan(cost)
            # Sums about the first loss: their spread keeps its digits where the losses are large and alike.
            first = np.where(there, cost, 0.0) if first is None else first
            off = np.where(there, cost - first, 0.0)
            held, total, squares = held + there, total + off, squares + off**2
        sometimes = (held > 0) & (held < count)
        if sometimes.any():
            what = f"After {mask} some releases hold no value for the row of a record, others do"
            do = "Use a User with Bayes' rule, who knows what to think then"
            raise UnsupportedError(what, f"{int(sometimes.sum())} of {len(rows)} records", do)
        mean = total / count
        value[i] = np.where(held > 0, first + mean, np.inf)
        noise = np.sqrt(np.maximum(squares / count - mean**2, 0.0) / (count - 1)) if count > 1 else np.nan
        error[i] = np.where(held > 0, noise, 0.0)
        problem.progress((i + 1) / len(masks))
    return Value(value, error)


def _release_law(channel: LinearChannel, table: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Mean ``(n, k)`` and covariance ``(masks or 1, n, k, k)`` of each released row, and what is released."""
    k = channel.columns
    shape, copy, cell = channel.layout.place_of_rows()
    lead = np.broadcast_shapes((1,), *(b.r.shape[:1] for b in channel.blocks), *(c.shape[:1] for c in channel.common))
    mean, covariance = np.zeros(table.shape), np.zeros((*lead, len(table), k, k))
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
        within = block.w[0] * block.contrasts_released[:, :, None]
        mean[mine] = moved[row, at] + np.einsum("nij,nj->ni", within[at], off)
        there[mine] = block.released[at]
        for i, size in enumerate(block.shape.sizes):
            piece = slice(i * k, i * k + k)
            own = block.r[:, piece, piece] / size + (1.0 - 1.0 / size) * block.rw[:, i]
            for load, common in zip(block.loads, channel.common, strict=True):
                part = load[:, piece] / roots[i]
                own = own + part @ common @ np.swapaxes(part, -1, -2)
            covariance[:, mine[at == i]] = own[:, None]
    return mean, covariance, there
