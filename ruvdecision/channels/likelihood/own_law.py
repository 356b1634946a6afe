"""A user's mask that says how likely a released value is, in one method."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError, UnsupportedError
from ...numerics.roots import border
from ...protocols import Array
from .base import Change, ColumnLikelihood, Ints, Pair, evenly_spaced_points, unbounded_ends
from .mathematics import NUMPY, Mathematics, Values


@dataclass(frozen=True, eq=False)
class OwnLawChange(Change):
    """The change that a user's mask with a ``log_likelihood`` makes to a column."""

    mask: Any
    column: Hashable

    def likelihood_from_value(self, values: NDArray[Any]) -> ColumnLikelihood:
        return OwnLawLikelihood(self.mask, values, self.column)

    def likelihood_from_observation(self, later: ColumnLikelihood) -> ColumnLikelihood:
        if np.all(later.uninformative):
            return later
        raise UnsupportedError(
            f"{self.mask} says how likely a released value is, but a later mask of the chain alters that value",
            do="Put it last in the chain, or write one mask for both steps with its own log_likelihood",
        )


@dataclass(frozen=True, repr=False, eq=False)
class OwnLawLikelihood(ColumnLikelihood):
    """The likelihood of a mask with a method ``log_likelihood(released, x, math)``, which may ask for ``column`` too.

    Its ``likelihood_support(released)``, if there is one, gives back the least and largest x that are possible. Where
    the likelihood lives is found by looking at it on a grid around the released value (or the middle of the support),
    from 1e-12 to 1e18 times its size; a peak that is narrower than its distance from there times 0.01 may be missed.
    """

    per_entry = ("released",)

    mask: Any
    released: NDArray[Any]
    column: Hashable

    def log(self, x: Values, math: Mathematics = NUMPY) -> Values:
        x = math.asarray(x) + np.zeros(self.n)
        method = self.mask.log_likelihood
        extra = {"column": self.column} if "column" in inspect.signature(method).parameters else {}
        found = method(self.released, x, math, **extra)
        if math is NUMPY:
            found = np.asarray(found, dtype=np.float64)
            if np.shape(found) != np.shape(x):
                raise InputError(
                    f"log_likelihood of {type(self.mask).__name__} must give back one number per value of x",
                    f"shape {np.shape(found)} for x of shape {np.shape(x)}",
                    "Write it with array operations, entry by entry",
                )
            if np.isnan(found).any() or np.isposinf(found).any():
                raise InputError(
                    f"log_likelihood of {type(self.mask).__name__} must give back log probabilities",
                    "missing or infinite ones",
                    "Give back -inf where the released value is impossible, with math.where",
                )
        return found

    @property
    def support_bounds(self) -> Pair:
        method = self.mask.likelihood_support
        if method is None:
            return unbounded_ends(self.n)
        low, high = (
            np.array(np.broadcast_to(np.asarray(end, dtype=np.float64), (self.n,))) for end in method(self.released)
        )
        if not np.all(low < high):
            raise InputError(
                f"likelihood_support of {type(self.mask).__name__} must give back (low, high)",
                "low not below high",
                "Swap them",
            )
        return low, high

    def window(self, drop: float = 40.0) -> Pair:
        low, high = self.support_bounds
        grid = self._window_grid(low, high)
        values = self._log_likelihood_at(grid)
        for _ in range(3):
            # A peak between two points of the grid: look closer around the largest.
            best = values.argmax(axis=0)
            a = np.take_along_axis(grid, np.maximum(best - 1, 0)[None], axis=0)
            b = np.take_along_axis(grid, np.minimum(best + 1, len(grid) - 1)[None], axis=0)
            finer = a + (b - a) * np.linspace(0, 1, 33)[:, None]
            grid = np.concatenate([grid, finer])
            order = np.argsort(grid, axis=0, kind="stable")
            values = np.take_along_axis(np.concatenate([values, self._log_likelihood_at(finer)]), order, axis=0)
            grid = np.take_along_axis(grid, order, axis=0)
        top = values.max(axis=0)
        if np.any(np.isneginf(top)):
            raise InputError(
                f"log_likelihood of {type(self.mask).__name__} is -inf wherever it was looked at",
                f"{int(np.isneginf(top).sum())} entries",
                "Define likelihood_support(released) to say where x can lie",
            )
        inside = values >= top - drop
        first, last = inside.argmax(axis=0), len(grid) - 1 - inside[::-1].argmax(axis=0)
        return self._window_border(grid, first, -1, top - drop, low), self._window_border(
            grid, last, 1, top - drop, high
        )

    def _log_likelihood_at(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(self.log(x))

    def _window_grid(self, low: Array, high: Array) -> Array:
        """Points around the released value, denser near it, inside the support; shape (m, n), increasing."""
        try:
            centre = np.asarray(self.released, dtype=np.float64)
        except (TypeError, ValueError):
            centre = np.zeros(self.n)
        # Just inside: densities may be -inf at the ends themselves.
        inner_low, inner_high = np.nextafter(low, np.inf), np.nextafter(high, -np.inf)
        centre = np.clip(np.where(np.isfinite(centre), centre, 0.0), inner_low, inner_high)
        size = np.maximum(np.abs(centre), 1e-6)
        steps = np.concatenate(
            [10.0 ** np.arange(-12, -3, 0.25), 10.0 ** np.arange(-3, 3, 0.02), 10.0 ** np.arange(3, 18.1, 0.25)]
        )
        offsets = np.concatenate([-steps[::-1], [0.0], steps])[:, None]
        points = [centre + offsets * size]
        both = np.isfinite(low) & np.isfinite(high)
        share = np.linspace(0, 1, 101)[1:-1, None]
        with np.errstate(invalid="ignore"):
            points.append(np.where(both, low + (high - low) * share, centre))
        return np.sort(np.clip(np.concatenate(points), inner_low, inner_high), axis=0)

    def _window_border(self, grid: Array, at: Ints, side: int, level: Array, end: Array) -> Array:
        """The border of the window beyond a point of the grid; the support's end if it lies there."""
        beyond = at + side
        outermost = (beyond < 0) | (beyond >= len(grid))
        inner = np.take_along_axis(grid, at[None], axis=0)[0]
        outer = np.take_along_axis(grid, np.clip(beyond, 0, len(grid) - 1)[None], axis=0)[0]
        found = border(lambda x: self._log_likelihood_at(x) >= level, inner, outer, parts=16, rounds=10)
        return np.where(outermost, end, found)

    @property
    def panel_edges(self) -> Array:
        parts = [evenly_spaced_points(*self.window(drop), 9) for drop in (40.0, 8.0, 0.5)]
        with contextlib.suppress(TypeError, ValueError):  # labels have no place among numbers
            parts.append(np.asarray(self.released, dtype=np.float64)[:, None])
        return np.concatenate(parts, axis=1)
