"""Targets of a file in which every record, or every group's mean, got the same noise.

Then the file splits into its average, the distances of the groups from it and those of the records within their groups,
which the release shows apart from each other. Given the release, with S, F and E the covariances of a record, of the
population mean and of the noise, and C that of noise common to all records,

    Cov(average) = (F + S/n) : (E/n + C),    Cov(mean) = F : (S/n + E/n + C),    Cov(distance) = S : E,

where X : Y = X (X + Y)^-1 Y. A record is a sum of the three: only variances are added, so that a nearly singular S
costs no digits. FORMULAS, sections 2 and 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...channels.linear import LinearChannel
from ...numerics.semidefinite import combined, filtered, parallel, shares
from ...protocols import Array
from ...targets import Kind, Term


class ExchangeableLaw:
    """Covariances of basic targets, for a whole family of masks at once."""

    def __init__(self, channel: LinearChannel, spread: Array, doubt: Array | None, first: Any) -> None:
        n, block = channel.layout.n, channel.blocks[0]
        self.channel, self.spread, self.between, self.n = channel, spread, first.left, n
        noise = sum(channel.common, np.zeros((1, *spread.shape)))
        if block.plain and block.alive.all():
            noise = noise + block.r / n
            if doubt is None:
                self.average, self.mean, self.rest = noise, noise + spread / n, spread[None] / n
                self.split = (np.eye(len(spread))[None], np.zeros((1, *spread.shape)))
                return
            self.average, self.mean = parallel(doubt + spread / n, noise), parallel(doubt[None], spread / n + noise)
        else:
            assert doubt is not None
            h, own = block.b[:, first.seen], block.r[:, first.seen[:, None], first.seen] / n
            turned = np.swapaxes(h, -1, -2)
            self.average = filtered(doubt[None] + spread / n, h, own + h @ noise @ turned)
            self.mean = filtered(doubt[None], h, own + h @ (noise + spread / n) @ turned)
        # The mean is its share of the average, and a rest that the release has nothing to do with.
        self.split = shares(doubt[None], spread[None] / n)
        self.rest = parallel(doubt[None], spread[None] / n, self.split)

    @classmethod
    def of(
        cls, channel: LinearChannel, spread: Array, doubt: Array | None, blocks: Sequence[Any]
    ) -> ExchangeableLaw | None:
        """The law, or None where records are treated differently."""
        first = channel.blocks[0]
        if doubt is None and not (first.plain and first.alive.all()):
            return None
        for block, solved in zip(channel.blocks, blocks, strict=True):
            pairs = ((block.r, first.r), (block.b, first.b), (block.alive, first.alive))
            if (
                len(block.shape.sizes) > 1
                or solved.sight is None
                or not all(x is y or np.array_equal(x, y) for x, y in pairs)
            ):
                return None
        return cls(channel, spread, doubt, blocks[0])

    def covariance(
        self,
        parts: Sequence[Term],
        matrix: Array | None,
        place: Callable[[Term], tuple[int, int, int, int]],
        contrast: Callable[[int, int], Array],
    ) -> Array:
        """Joint covariance of basic targets, or of linear functions of them.

        ``place`` gives shape, copy, cell and row of a record, ``contrast`` the covariance of a distance within a group.
        """
        k, m = len(self.spread), len(parts)
        turn = np.eye(m * k) if matrix is None else matrix
        is_mean = np.array([p.outside for p in parts])
        of_average, of_mean = _gathered(turn, ~is_mean, k), _gathered(turn, is_mean, k)
        with_average, with_mean = (np.any(x, axis=-1) for x in (of_average, of_mean))
        if np.any(with_average & with_mean):
            share, away = self.split
            # A difference from the mean takes the other share: where the two cancel, nothing may be left behind.
            opposed = ~np.any(_gathered(turn, np.ones(m, dtype=bool), k), axis=-1)
            on = np.where(opposed[:, None], -of_mean @ away, of_average + of_mean @ share)
            total = on @ self.average @ np.swapaxes(on, -1, -2) + of_mean @ self.rest @ of_mean.T
        else:
            total = of_average @ self.average @ of_average.T + of_mean @ self.mean @ of_mean.T
            if with_average.any() and with_mean.any():
                across = of_mean @ self.split[0] @ self.average @ of_average.T
                total = total + across + np.swapaxes(across, -1, -2)
        left = self._distances(parts, place, contrast)
        return np.asarray(total + (left if matrix is None else combined(matrix, left)))

    def _distances(
        self,
        parts: Sequence[Term],
        place: Callable[[Term], tuple[int, int, int, int]],
        contrast: Callable[[int, int], Array],
    ) -> Array:
        """What parts have beside the average or the mean: distances from it, and what is new in a new record."""
        k = len(self.spread)
        at = [None if p.kind is not Kind.RECORD else place(p) for p in parts]
        found: dict[tuple[int, int], Array] = {}
        for i, p in enumerate(parts):
            for j, q in enumerate(parts):
                one, two = at[i], at[j]
                if p.kind is Kind.NEW and q.kind is Kind.NEW:
                    found[i, j] = self.spread[None]
                elif one is not None and two is not None:
                    together = one[:2] == two[:2]
                    size = float(self.channel.blocks[one[0]].shape.sizes[0])
                    here = (float(together) / size - 1.0 / self.n) * self.between
                    if together and size > 1:
                        here = here + (float(one[3] == two[3]) - 1.0 / size) * contrast(one[0], one[2])
                    found[i, j] = here
        lead = np.broadcast_shapes((1,), *(x.shape[:1] for x in found.values()))
        left = np.zeros(lead + (len(parts) * k,) * 2)
        for (i, j), x in found.items():
            left[:, i * k : i * k + k, j * k : j * k + k] = x
        return left


def _gathered(turn: Array, chosen: Any, k: int) -> Array:
    """Sum of the coefficients of the chosen parts; what cancels up to rounding is zero."""
    blocks = turn.reshape(len(turn), -1, k)[:, chosen]
    total = blocks.sum(axis=1)
    return np.where(np.abs(total) < 1e-13 * np.abs(blocks).sum(axis=1), 0.0, total)
