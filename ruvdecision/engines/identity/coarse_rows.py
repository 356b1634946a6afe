"""Weights of places for a normal population with known mean whose release is not linear: intervals and other noise.

A released entry is one of four: the value (plus normal noise), an interval that holds it (rounded, top-coded, recoded), the
value plus noise that is not normal, or nothing. With E the entries of the first kind and R the rest,

    p(known | y) = p(known | y_E) P(y_R | y_E, known) / P(y_R | y_E).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...beliefs.normal import NormalBelief
from ...checks import check_columns
from ...errors import InputError, UnsupportedError
from ...masks import Bottomcode, Noise, Recode, Release, Round, Shuffle, Subsample, Suppress, Topcode
from ...masks.base import Mask
from ...masks.frame import Frame
from ...protocols import Array
from .coarsening import Clip, Cut, Multiples, Step
from .entry_laws import EntryLaw, log_box
from .row_laws import Density, released_rows, settled

__all__ = ["CoarseRows", "deterministic"]

COARSE = (Round, Topcode, Bottomcode, Recode)
EASY = (Release, Suppress, Shuffle, Subsample, Noise, *COARSE)


def deterministic(mask: Mask) -> bool:
    """Whether a mask releases the same rows, in whatever order, every time."""
    return all(
        isinstance(s, (Release, Suppress, Shuffle, *COARSE)) and not getattr(s, "random", False) for s in mask.parts
    )


@dataclass(frozen=True, eq=False)
class CoarseRows:
    """Weights for a normal belief with a known mean; exact up to quadrature where intervals of correlated columns meet."""

    belief: NormalBelief
    known: list[int]
    errors: Array
    noise: Array
    """Covariance of the normal noise."""
    steps: tuple[tuple[Step, ...], ...]
    """What coarsens each column, in order."""
    laws: tuple[EntryLaw | None, ...]
    """Noise that is not normal, for each column."""
    kept: int

    @staticmethod
    def sensible(belief: NormalBelief, mask: Mask) -> bool:
        """Whether all steps are of a kind that may be read here, and this is the place to read them."""
        known = belief.doubt is not None and not belief.doubt.any()
        coarse = any(isinstance(s, COARSE) or (isinstance(s, Noise) and s.obstacle is not None) for s in mask.parts)
        return all(isinstance(s, EASY) for s in mask.parts) and (known or coarse)

    @classmethod
    def of(
        cls, belief: NormalBelief, mask: Mask, known: Sequence[int], errors: Array, data: Array | None = None
    ) -> CoarseRows:
        """Follow a chain step by step. ``data`` gives the covariance that Noise(share=...) refers to."""
        if belief.doubt is None or belief.doubt.any():
            raise UnsupportedError(
                f"Which row is whose after {mask} needs a known population mean",
                do='Use NormalBelief(..., prior_mean=..., prior="known"), with the mean of the file if nothing better is known',
            )
        k = belief.k
        names = list(belief.columns or range(k))
        noise: Array = np.zeros((k, k))
        steps: list[list[Step]] = [[] for _ in range(k)]
        laws: list[EntryLaw | None] = [None] * k
        touched = False
        for step in mask.parts:
            if isinstance(step, (Release, Shuffle, Subsample)):
                continue
            if isinstance(step, Suppress):
                touched = True
                continue
            chosen = Frame.of(np.zeros((1, k))).positions(_positions(step, names))
            if isinstance(step, Noise):
                _no_more(step, chosen, steps, laws)
                part = _size(step, len(chosen), belief, data, chosen, touched)
                at = np.ix_(chosen, chosen)
                if step.kind == "normal":
                    noise[at] += part
                elif np.any(part != np.diag(np.diag(part))):
                    raise UnsupportedError(
                        f"{step} ties columns together by noise that is not normal",
                        do="Use variance= or sd=, one per column",
                    )
                else:
                    for j, variance in zip(chosen, np.diag(part), strict=True):
                        laws[j] = EntryLaw.noise(step, float(variance)) if variance > 0 else None
                bounds = np.stack([np.broadcast_to(-np.inf if step.lower is None else np.asarray(step.lower), len(chosen)),
                                   np.broadcast_to(np.inf if step.upper is None else np.asarray(step.upper), len(chosen))])  # fmt: skip
                for j, (low, high) in zip(chosen, bounds.T, strict=True):
                    if np.isfinite(low) or np.isfinite(high):
                        _no_more(step, [j], [[] for _ in range(k)], laws)
                        steps[j].append(Clip(float(low), float(high)))
            else:
                _no_more(step, chosen, [[s for s in col if isinstance(s, Cut) and s.named] for col in steps], laws)
                for i, j in enumerate(chosen):
                    if isinstance(step, Round):
                        base = float(np.broadcast_to(np.asarray(step.base), len(chosen))[i])
                        if step.random:
                            _no_more(step, [j], steps, laws)
                            laws[j] = EntryLaw("dither", base)
                        else:
                            steps[j].append(Multiples(base))
                    elif isinstance(step, (Topcode, Bottomcode)):
                        if not step.recordwise:
                            raise UnsupportedError(
                                f"{step} looks at the whole file",
                                do='Give the threshold, at=..., with replace="threshold"',
                            )
                        at_ = float(np.broadcast_to(np.asarray(step.at), len(chosen))[i])
                        steps[j].append(Clip(-np.inf, at_) if isinstance(step, Topcode) else Clip(at_, np.inf))
                    elif isinstance(step, Recode):
                        steps[j].append(Cut.of(step))
            touched = True
        _check_apart(belief.spread + noise, steps, laws, names)
        columns = tuple(tuple(s) for s in steps)
        return cls(belief, list(known), errors, noise, columns, tuple(laws), released_rows(mask, belief.records))

    # -- reading -----------------------------------------------------------------------------------------

    def read(self, frame: Frame) -> Array:
        """Released entries as numbers; the intervals of `Recode` by their number."""
        k = self.belief.k
        if frame.table.shape != (self.kept, k):
            raise InputError(
                f"The release must have {self.kept} rows and {k} columns",
                f"shape {frame.table.shape}",
                "Pass what mask.release(data, rng) gave back",
            )
        columns = []
        for j in range(k):
            last = self.steps[j][-1] if self.steps[j] else None
            if isinstance(last, Cut) and last.named:
                columns.append(last.read(frame.table.iloc[:, j]))
            else:
                columns.append(frame.numeric("A release", [frame.columns[j]], missing=True)[0][:, 0])
        return np.stack(columns, axis=1)

    def bounds(self, values: Array) -> tuple[Array, Array]:
        """The interval that each entry tells, before it was coarsened; a point where it was not."""
        low, high = values.copy(), values.copy()
        for j, steps in enumerate(self.steps):
            here = ~np.isnan(values[:, j])
            a, b = low[here, j], high[here, j]
            for step in reversed(steps):
                a, b = step.back(a, b)
            low[here, j], high[here, j] = a, b
        return low, high

    # -- weights -----------------------------------------------------------------------------------------

    def prepare(self, frame: Frame) -> Array:
        """Released entries with a row for every place, missing for places that are not in the release."""
        values = self.read(frame)
        return np.concatenate([values, np.full((self.belief.records - len(values), values.shape[1]), np.nan)])

    def log_weights(self, values: Array, z: Array) -> Array:
        """Log weight of every place for every respondent, ``(respondents, places)``, up to a constant for each."""
        n = self.belief.records
        low, high = self.bounds(values)
        missing = np.isnan(values)
        odd = np.array([law is not None for law in self.laws])
        point = (low == high) & ~missing & ~odd
        pattern = point.astype(np.int64) + 2 * missing
        kinds, which = np.unique(pattern, axis=0, return_inverse=True)
        which = which.reshape(-1)
        weights = np.empty((len(z), n))
        depth = np.zeros(n, dtype=np.int64)
        for kind, shape in enumerate(kinds):
            rows = np.flatnonzero(which == kind)
            told = np.flatnonzero(shape == 1)
            rest = np.flatnonzero(shape == 0)
            if not len(told):
                # Intervals alone: equal rows have equal weights, and rounding makes many equal.
                key = np.concatenate([low[rows], high[rows]], axis=1)[:, np.tile(shape == 0, 2)]
                first, back = (np.unique(key, axis=0, return_index=True, return_inverse=True)[1:] if key.shape[1] else
                               (np.zeros(1, dtype=np.int64), np.zeros(len(rows), dtype=np.int64)))  # fmt: skip
            else:
                first, back = np.arange(len(rows)), np.arange(len(rows))
            few = rows[first]
            part, deep = self._weights(values[few], low[few], high[few], told, rest, z)
            weights[:, rows] = part[:, back.reshape(-1)]
            depth[rows] = deep
        return settled(weights, depth)

    def _weights(self, values: Array, low: Array, high: Array, told: Any, rest: Any, z: Array) -> tuple[Array, int]:
        """Weights of rows of one pattern: columns ``told`` are values, ``rest`` are intervals or have other noise."""
        spread, centre, k = self.belief.spread, self.belief.centre, self.belief.k
        total = spread + self.noise
        pick = np.eye(k)[self.known]
        scale = np.sqrt(np.diag(spread)[self.known] + self.errors)
        size = float(max(np.abs((z - centre[self.known]) / scale).max(), np.abs(centre[self.known] / scale).max()))
        # What is known given the values: x_K - A y_E in terms of x and of the noise, so that nothing cancels.
        gain = np.linalg.solve(total[np.ix_(told, told)], spread[np.ix_(told, self.known)]).T
        away = pick.copy()
        away[:, told] -= gain
        away[np.abs(away) < 1e-14] = 0.0
        covariance = away @ spread @ away.T + gain @ self.noise[np.ix_(told, told)] @ gain.T + np.diag(self.errors)
        gap = values[:, told] - centre[told]
        means = centre[self.known] + gap @ gain.T
        size = max(size, float(np.abs(means / scale).max(initial=0.0)))
        density = Density.of(covariance, scale, size)
        weights = density.log(z, means, size)
        if not len(rest):
            return weights, density.depth
        # The other entries, given the values, and given what is known besides.
        slope = np.linalg.solve(total[np.ix_(told, told)], total[np.ix_(told, rest)]).T
        mean = centre[rest] + gap @ slope.T
        cov = total[np.ix_(rest, rest)] - slope @ total[np.ix_(told, rest)]
        cross = spread[np.ix_(rest, self.known)] - slope @ spread[np.ix_(told, self.known)]
        pull = cross @ density.inverse()
        left = cov - pull @ cross.T
        sure = np.array(
            [j in self.known and self.errors[self.known.index(j)] == 0 and self.noise[j, j] == 0 for j in rest]
        )
        boxed = np.array([self.laws[j] is None for j in rest])
        before = self._log_chance(values[:, rest], low[:, rest], high[:, rest], rest, mean, cov)
        for t, row in enumerate(z):
            possible = weights[t] > -np.inf
            for i, j in enumerate(rest):
                if sure[i] and boxed[i]:
                    # What is known exactly and coarsened in a fixed way: it must come out as it was released.
                    possible &= self._comes_out(j, float(row[self.known.index(j)]), values[:, j])
            weights[t][~possible] = -np.inf
            if not possible.any():
                continue
            at = mean[possible] + (row - means[possible]) @ pull.T
            for i, j in enumerate(rest):
                if sure[i]:
                    at[:, i] = row[self.known.index(j)]
            now = left.copy()
            now[sure, :] = 0.0
            now[:, sure] = 0.0
            open_ = np.flatnonzero(~(sure & boxed))
            columns = rest[open_]
            after = self._log_chance(
                values[possible][:, columns],
                low[possible][:, columns],
                high[possible][:, columns],
                columns,
                at[:, open_],
                now[np.ix_(open_, open_)],
            )
            weights[t][possible] += after - before[possible]
        return weights, density.depth

    def _comes_out(self, column: int, value: float, released: Array) -> Any:
        x = np.array([value])
        for step in self.steps[column]:
            x = step.forward(x)
        return np.abs(released - x[0]) <= 1e-9 * max(1.0, abs(float(x[0])))

    def _log_chance(self, values: Array, low: Array, high: Array, columns: Any, mean: Array, cov: Array) -> Array:
        """Log chance (or density) of entries whose values before coarsening are normal with this mean and covariance."""
        total = np.zeros(len(mean))
        boxed = np.array([i for i, j in enumerate(columns) if self.laws[j] is None], dtype=np.int64)
        for i, j in enumerate(columns):
            law = self.laws[j]
            if law is not None:
                total += law.log(values[:, i], mean[:, i], float(max(cov[i, i], 0.0)))
        if len(boxed):
            total += log_box(low[:, boxed], high[:, boxed], mean[:, boxed], cov[np.ix_(boxed, boxed)])
        return total


# -- reading chains --------------------------------------------------------------------------------------


def _positions(step: Any, names: list[Any]) -> Any:
    columns = step.columns
    return None if columns is None else check_columns("columns", columns, names)


def _no_more(step: Mask, chosen: Sequence[int], steps: Sequence[Sequence[Any]], laws: Sequence[Any]) -> None:
    if any(steps[j] for j in chosen) or any(laws[j] is not None for j in chosen):
        raise UnsupportedError(
            f"{step} after intervals or after noise that is not normal has no law that Identity knows",
            do="Put normal noise first, then one such step",
        )


def _size(step: Noise, k: int, belief: NormalBelief, data: Array | None, chosen: Sequence[int], touched: bool) -> Array:
    """Covariance of the noise on the chosen columns; infinite noise is none, for its column is missing in the release."""
    value = getattr(step, step.unit)
    if step.common or step.keep_moments or step.matching_residuals or callable(value) or step.where is not None:
        raise UnsupportedError(
            f"{step} has no law that is the same for all records", do="Use plain noise here, sd= or variance="
        )
    if (
        isinstance(value, tuple)
        and step.unit in ("variance", "sd")
        and (isinstance(value[0], tuple) or len(value) not in (1, k))
    ):
        raise UnsupportedError(
            f"{step} sizes each record, which goes with normal noise in a known order only",
            do="Leave out the other steps, or put Shuffle() first",
        )
    scale = None
    if step.share is not None:
        if touched:
            raise UnsupportedError(
                f"{step} takes its size from what the masks before it give out", do="Put it first in the chain"
            )
        whole = belief.spread if data is None or len(data) < 2 else np.atleast_2d(np.cov(data, rowvar=False))
        scale = whole[np.ix_(chosen, chosen)]
    part = step.matrix(k, scale)
    endless = np.isinf(np.diag(part))
    return np.where(endless[:, None] | endless[None, :], 0.0, part)


def _check_apart(total: Array, steps: Sequence[Sequence[Step]], laws: Sequence[Any], names: Sequence[Any]) -> None:
    """Noise that is not normal stands alone, or in columns that have nothing to do with any other."""
    special = [j for j in range(len(names)) if steps[j] or laws[j] is not None]
    off = np.where(np.eye(len(total), dtype=bool), 0.0, total)
    for j in special:
        if laws[j] is not None and len(special) > 1 and off[j].any():
            raise UnsupportedError(
                f"Noise that is not normal, or random rounding, on {names[j]!r}, a correlated column, must be the only such step",
                do="Use normal noise, mask one column in this way, or believe in uncorrelated columns",
            )
    boxed = [j for j in special if laws[j] is None]
    if len(boxed) > 4 and off[np.ix_(boxed, boxed)].any():
        raise UnsupportedError(
            "Intervals of more than four correlated columns are too many to integrate over",
            do="Coarsen at most four of them",
        )
