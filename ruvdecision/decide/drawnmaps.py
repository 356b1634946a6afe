"""Fronts and winners of many drawn maps, without looking at the releases that cannot matter.

A few draws at a time give every release a box: its lowest and highest drawn cost in each column. A release whose box lies wholly
above the box of another one is dominated in each of these draws, whatever they are exactly, so that leaving it out changes no front.
What is left is usually a small part of the map. Time grows with draws times releases, and with the sort of what is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..protocols import Array
from .dominance import minimal, ranks

__all__ = ["DrawnMaps"]

AT_ONCE = 16
"""Draws that share their boxes: more of them make wider boxes, fewer make more passes."""
PIVOTS = 64
"""Releases that others are held against where more than two columns are compared."""
FEW = 256
"""Fewer releases than this are all looked at."""
HIGH = 3.0
"""A release that is good even so many standard errors above its cost is a likely one to dominate others."""


class DrawnMaps:
    """Releases with costs (columns, releases), less is better, and their standard errors; drawn maps are counted."""

    def __init__(self, costs: Array, scale: Array) -> None:
        self.costs, self.scale = costs, scale
        self._pivots = _likely(costs + HIGH * scale) if costs.shape[1] > FEW else None

    def fronts(self, units: Array) -> Array:
        """In how many drawn maps each release is on the front; ``units`` are errors (draws, columns, releases)."""
        hits = np.zeros(self.costs.shape[1])
        for part, low, high in self._boxes(units):
            left = slice(None) if self._pivots is None else np.flatnonzero(~_above(high[:, self._pivots], low))
            drawn = self.costs[:, left] + self.scale[:, left] * part[:, :, left]
            if len(self.costs) == 2:
                hits[left] += _on_front(drawn[:, 0], drawn[:, 1]).sum(axis=0)
            else:
                hits[left] += sum(minimal(np.stack([ranks(c, 0.0) for c in draw], axis=1)) for draw in drawn)
        return hits

    def winners(self, units: Array, edge: float) -> Array:
        """In how many drawn maps each release has the least second cost of those whose first cost is at most ``edge``.

        Ties go to the lower first cost, ties in both to the release that is listed first.
        """
        hits = np.zeros(self.costs.shape[1])
        for part, low, high in self._boxes(units):
            safe = high[0] <= edge
            # Whatever is drawn, somebody who is allowed costs no more than this.
            ceiling = high[1][safe].min() if safe.any() else np.inf
            left = np.flatnonzero((low[0] <= edge) & (low[1] <= ceiling))
            if not left.size:
                continue
            first, second = np.moveaxis(self.costs[:2, left] + self.scale[:2, left] * part[:, :2, left], 1, 0)
            allowed = first <= edge
            lowest = np.where(allowed, second, np.inf).min(axis=1, keepdims=True)
            allowed &= second <= lowest
            lowest = np.where(allowed, first, np.inf).min(axis=1, keepdims=True)
            allowed &= first <= lowest
            winner = np.argmax(allowed, axis=1)[allowed.any(axis=1)]
            hits[left] += np.bincount(winner, minlength=left.size)
        return hits

    def _boxes(self, units: Array) -> Iterator[tuple[Array, Array, Array]]:
        """A few draws at a time, with the lowest and the highest cost of each release in them."""
        for start in range(0, len(units), AT_ONCE):
            part = units[start : start + AT_ONCE]
            # Rounding keeps order, so that these are costs of drawn maps to the last digit.
            yield part, self.costs + self.scale * part.min(axis=0), self.costs + self.scale * part.max(axis=0)


def _likely(costs: Array) -> Any:
    """Positions of releases that dominate many others."""
    places = np.stack([ranks(c, 0.0) for c in costs], axis=1)
    front = np.flatnonzero(minimal(places))
    if len(costs) <= 2 or front.size <= PIVOTS:
        return front
    return front[np.argsort(places[front].sum(axis=1), kind="stable")[:PIVOTS]]


def _above(pivots: Array, low: Array) -> Any:
    """True for each column of ``low`` that is above some column of ``pivots`` everywhere."""
    if len(low) == 1:
        return low[0] > pivots[0].min()
    if len(low) == 2:
        order = np.argsort(pivots[0], kind="stable")
        lowest = np.r_[np.inf, np.minimum.accumulate(pivots[1, order])]
        return lowest[np.searchsorted(pivots[0, order], low[0], side="left")] < low[1]
    found = np.zeros(low.shape[1], dtype=bool)
    for pivot in pivots.T:
        found |= (low > pivot[:, None]).all(axis=0)
    return found


def _on_front(x: Array, y: Array) -> Any:
    """Fronts of many drawn maps at once, each row one map; less is better in both."""
    order = np.lexsort((y, x), axis=-1)
    x, y = np.take_along_axis(x, order, -1), np.take_along_axis(y, order, -1)
    lowest = np.minimum.accumulate(y, axis=-1)
    good = np.ones(x.shape, dtype=bool)
    good[:, 1:] = y[:, 1:] < lowest[:, :-1]
    # Points that tie in both share the verdict of the first of them.
    twin = np.zeros(x.shape, dtype=bool)
    twin[:, 1:] = (x[:, 1:] == x[:, :-1]) & (y[:, 1:] == y[:, :-1])
    leader = np.maximum.accumulate(np.where(twin, 0, np.arange(x.shape[-1])), axis=-1)
    good = np.take_along_axis(good, leader, -1)
    result = np.empty_like(good)
    np.put_along_axis(result, order, good, -1)
    return result
