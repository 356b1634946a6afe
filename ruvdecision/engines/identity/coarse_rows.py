"""Weights of places for a normal population with known mean whose release is not linear: intervals and other noise.

A released entry is one of four: the value (plus normal noise), an interval that holds it (rounded, top-coded, recoded),
the value plus noise that is not normal, or nothing. With E the entries of the first kind and R the rest,

    p(known | y) = p(known | y_E) P(y_R | y_E, known) / P(y_R | y_E).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...beliefs.normal import NormalBelief
from ...channels.likelihood import Known, KnownLabels, Observation, Uninformative, join
from ...channels.likelihood.laws import NoiseLaw, noise_law
from ...channels.likelihood.maps import RandomMultiples
from ...channels.likelihood.reader import CHANGES
from ...channels.steps import (
    About,
    AddNoise,
    ClipTo,
    Cut,
    Drop,
    PermuteRows,
    RoundTo,
    SampleRows,
    about_after,
    resolve,
)
from ...errors import InputError, UnsupportedError
from ...masks.base import Mask
from ...masks.frame import Frame
from ...protocols import Array
from .boxes import log_box
from .row_laws import Density, settled

COARSE = (ClipTo, RoundTo, Cut)
EASY = (Drop, PermuteRows, SampleRows, AddNoise, *COARSE)


def about_belief(belief: NormalBelief, data: Array | None = None) -> About:
    """What is known of the file beforehand; ``data`` has the covariance that noise may be a share of."""
    covariance = (
        belief.record_covariance if data is None or len(data) < 2 else np.atleast_2d(np.cov(data, rowvar=False))
    )
    return About(belief.records, tuple(belief.columns or range(belief.k)), covariance)


def deterministic(mask: Mask, about: About) -> bool:
    """Whether a mask releases the same rows, in whatever order, every time."""
    return all(
        isinstance(step, (Drop, PermuteRows, ClipTo, Cut)) or (isinstance(step, RoundTo) and not step.random)
        for step, _, _ in resolve(mask, about)
    )


@dataclass(frozen=True, eq=False)
class Shown:
    """A release with a row for every place: numbers, and the interval that each entry tells; missing if nothing is."""

    values: Array
    low: Array
    high: Array
    columns: tuple[Observation, ...]


@dataclass(frozen=True, eq=False)
class CoarseRows:
    """Weights for a normal belief with a known mean; by quadrature where intervals of correlated columns meet."""

    belief: NormalBelief
    known: list[int]
    errors: Array
    noise: Array
    """Covariance of the normal noise."""
    steps: tuple[tuple[tuple[ClipTo | RoundTo | Cut, int], ...], ...]
    """What coarsens each column, in order, with the column's place in the step."""
    laws: tuple[NoiseLaw | RandomMultiples | None, ...]
    """Noise that is not normal, or random rounding, for each column."""
    kept: int

    @staticmethod
    def sensible(belief: NormalBelief, mask: Mask, data: Array | None = None) -> bool:
        """Whether all steps are of a kind that may be read here, and this is the place to read them."""
        found = [f.step for f in resolve(mask, about_belief(belief, data))]
        known = belief.mu_covariance is not None and not belief.mu_covariance.any()
        coarse = any(isinstance(s, COARSE) or (isinstance(s, AddNoise) and s.obstacle is not None) for s in found)
        return all(isinstance(s, EASY) for s in found) and (known or coarse)

    @classmethod
    def of(
        cls, belief: NormalBelief, mask: Mask, known: Sequence[int], errors: Array, data: Array | None = None
    ) -> CoarseRows:
        """Follow a chain step by step. ``data`` gives the covariance that Noise(share=...) refers to."""
        if belief.mu_covariance is None or belief.mu_covariance.any():
            raise UnsupportedError(
                f"Which row is whose after {mask} needs a known population mean",
                do='Use NormalBelief(..., prior_mean=..., prior="known"), with the mean of the file if need be',
            )
        k, about = belief.k, about_belief(belief, data)
        noise: Array = np.zeros((k, k))
        steps: list[list[tuple[ClipTo | RoundTo | Cut, int]]] = [[] for _ in range(k)]
        laws: list[NoiseLaw | RandomMultiples | None] = [None] * k
        found = resolve(mask, about)
        for step, part, _ in found:
            if isinstance(step, AddNoise):
                _no_more(part, [j for j in step.columns if steps[j] or laws[j] is not None])
                covariance = _covariance(step, part)
                if step.kind.name == "normal":
                    noise[np.ix_(step.columns, step.columns)] += covariance
                    continue
                if np.any(covariance != np.diag(np.diag(covariance))):
                    raise UnsupportedError(
                        f"{part} ties columns together by noise that is not normal",
                        do="Use variance= or sd=, one per column",
                    )
                for j, variance in zip(step.columns, np.diag(covariance), strict=True):
                    laws[j] = noise_law(step.kind, np.sqrt([variance])) if variance > 0 else None
            elif isinstance(step, COARSE):
                dither = isinstance(step, RoundTo) and step.random
                for place, j in enumerate(step.columns):
                    if (
                        laws[j] is not None
                        or any(isinstance(s, Cut) and s.named for s, _ in steps[j])
                        or (dither and steps[j])
                    ):
                        _no_more(part, [j])
                    if isinstance(step, RoundTo) and step.random:
                        laws[j] = RandomMultiples(float(step.base[place]))
                    else:
                        steps[j].append((step, place))
        _check_apart(belief.record_covariance + noise, steps, laws, about.names)
        columns = tuple(tuple(s) for s in steps)
        return cls(belief, list(known), errors, noise, columns, tuple(laws), about_after(found, about).n)

    # -- reading -----------------------------------------------------------------------------------------

    def prepare(self, frame: Frame) -> Shown:
        """What a release shows: the value of each entry, or the interval where it lay before it was coarsened."""
        k, n = self.belief.k, self.belief.records
        if frame.table.shape != (self.kept, k):
            raise InputError(
                f"The release must have {self.kept} rows and {k} columns",
                f"shape {frame.table.shape}",
                "Pass what mask.release(data, rng) gave back",
            )
        values, low, high = np.full((3, n, k), np.nan)
        columns = []
        for j, steps in enumerate(self.steps):
            named = bool(steps) and isinstance(steps[-1][0], Cut) and steps[-1][0].named
            if named:
                released = frame.table.iloc[:, j]
                here = np.flatnonzero(released.notna().to_numpy())
                seen: Observation = KnownLabels(released.iloc[here].tolist())
                values[here, j] = 0.0
            else:
                numbers = frame.numeric("A release", [frame.columns[j]], missing=True)[0][:, 0]
                here = np.flatnonzero(~np.isnan(numbers))
                seen = Known(numbers[here])
                values[here, j] = numbers[here]
            for step, place in reversed(steps):
                seen = seen.before(CHANGES[type(step)](step, place))
            low[here, j], high[here, j] = seen.low, seen.high
            rest = np.setdiff1d(np.arange(n), here)
            columns.append(join(n, [(here, seen), (rest, Uninformative(len(rest)))]))
        return Shown(values, low, high, tuple(columns))

    # -- weights -----------------------------------------------------------------------------------------

    def log_weights(self, shown: Shown, z: Array) -> Array:
        """Log weight of every place for every respondent, ``(respondents, places)``, up to a constant for each."""
        n = self.belief.records
        values, low, high = shown.values, shown.low, shown.high
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
            part, deep = self._weights(shown, few, told, rest, z)
            weights[:, rows] = part[:, back.reshape(-1)]
            depth[rows] = deep
        return settled(weights, depth)

    def _weights(self, shown: Shown, rows: Any, told: Any, rest: Any, z: Array) -> tuple[Array, int]:
        """Weights of rows of one pattern: columns ``told`` are values, ``rest`` are intervals or have other noise."""
        values, low, high = shown.values[rows], shown.low[rows], shown.high[rows]
        spread, centre, k = self.belief.record_covariance, self.belief.mu_mean, self.belief.k
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
                    value = np.full(self.belief.records, float(row[self.known.index(j)]))
                    possible &= shown.columns[j].log(value)[rows] > -np.inf
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

    def _log_chance(self, values: Array, low: Array, high: Array, columns: Any, mean: Array, cov: Array) -> Array:
        """Log chance (or density) of entries whose values before coarsening have this normal law."""
        total = np.zeros(len(mean))
        boxed = np.array([i for i, j in enumerate(columns) if self.laws[j] is None], dtype=np.int64)
        for i, j in enumerate(columns):
            law = self.laws[j]
            if law is not None:
                with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                    total += law.log_density_on_normal(values[:, i] - mean[:, i], float(np.sqrt(max(cov[i, i], 0.0))))
        if len(boxed):
            total += log_box(low[:, boxed], high[:, boxed], mean[:, boxed], cov[np.ix_(boxed, boxed)])
        return total


# -- reading chains --------------------------------------------------------------------------------------


def _no_more(mask: Mask, columns: Sequence[int]) -> None:
    if columns:
        raise UnsupportedError(
            f"{mask} after intervals or after noise that is not normal has no law that Identity knows",
            do="Put normal noise first, then one such step",
        )


def _covariance(step: AddNoise, mask: Mask) -> Array:
    """Covariance of the noise; infinite noise is none, for its column is missing in the release."""
    if step.common or step.size is not None:
        raise UnsupportedError(
            f"{mask} has no law that is the same for all records", do="Use plain noise here, sd= or variance="
        )
    if step.rows is not None:
        raise UnsupportedError(
            f"{mask} sizes each record, which goes with normal noise in a known order only",
            do="Leave out the other steps, or put Shuffle() first",
        )
    found = step.covariance[0, 0]
    endless = np.isinf(np.diag(found))
    return np.where(endless[:, None] | endless[None, :], 0.0, found)


def _check_apart(total: Array, steps: Sequence[Sequence[Any]], laws: Sequence[Any], names: Sequence[Any]) -> None:
    """Noise that is not normal stands alone, or in columns that have nothing to do with any other."""
    special = [j for j in range(len(names)) if steps[j] or laws[j] is not None]
    off = np.where(np.eye(len(total), dtype=bool), 0.0, total)
    for j in special:
        if laws[j] is not None and len(special) > 1 and off[j].any():
            raise UnsupportedError(
                f"Other noise than normal, or random rounding, on {names[j]!r}, a correlated column, must stand alone",
                do="Use normal noise, mask one column in this way, or believe in uncorrelated columns",
            )
    boxed = [j for j in special if laws[j] is None]
    if len(boxed) > 4 and off[np.ix_(boxed, boxed)].any():
        raise UnsupportedError(
            "Intervals of more than four correlated columns are too many to integrate over",
            do="Coarsen at most four of them",
        )
