"""Weights of places for a normal population with known mean whose release is not linear: intervals and other noise.

A released entry is one of four: the value (plus normal noise), an interval that holds it (rounded, top-coded, recoded),
the value plus noise that is not normal, or nothing. With E the entries of the first kind and R the rest,

    p(known | y) = p(known | y_E) P(y_R | y_E, known) / P(y_R | y_E).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import special

from ...beliefs.normal import NormalBelief
from ...channels.likelihood import ColumnLikelihood, Known, KnownLabels, Uninformative, join_rows
from ...channels.likelihood.laws import NoiseLaw, noise_law
from ...channels.likelihood.reader import CHANGES
from ...channels.likelihood.transformations import RandomRounding
from ...channels.steps import AddNoise, Drop, Entrywise, PermuteRows, SampleRows, facts_after, resolve
from ...errors import UnsupportedError
from ...masks.base import Mask
from ...masks.frame import Frame
from ...numerics.quadrature import gauss_legendre
from ...numerics.semidefinite import lower_root
from ...protocols import Array, Ints
from ..normal.releases import belief_facts
from .row_laws import DegenerateNormal, check_release_shape, keep_exact_matches

EASY = (Drop, PermuteRows, SampleRows, AddNoise, *CHANGES)


@dataclass(frozen=True, eq=False)
class IntervalRelease:
    """A release with a row for every place: numbers, and the interval that each entry tells; missing if nothing is."""

    values: Array
    low: Array
    high: Array
    columns: tuple[ColumnLikelihood, ...]


@dataclass(frozen=True, eq=False)
class CoarseRows:
    """Weights for a normal belief with a known mean; by quadrature where intervals of correlated columns meet."""

    belief: NormalBelief
    known: list[int]
    errors: Array
    noise: Array
    """Covariance of the normal noise."""
    steps: tuple[tuple[tuple[Entrywise, int], ...], ...]
    """What coarsens each column, in order, with the column's place in the step."""
    laws: tuple[NoiseLaw | RandomRounding | None, ...]
    """Noise that is not normal, or random rounding, for each column."""
    kept: int

    @staticmethod
    def applies_to(belief: NormalBelief, mask: Mask, data: Array | None = None) -> bool:
        """Whether all steps are of a kind that may be read here, and this is the place to read them."""
        found = [f.step for f in resolve(mask, belief_facts(belief, data))]
        known = belief.mu_covariance is not None and not belief.mu_covariance.any()
        coarse = any(s.not_linear is not None for s in found)
        return all(type(s) in EASY for s in found) and (known or coarse)

    @classmethod
    def of(
        cls, belief: NormalBelief, mask: Mask, known: Sequence[int], errors: Array, data: Array | None = None
    ) -> CoarseRows:
        """Follow a chain step by step. ``data`` gives the covariance that Noise(share=...) refers to."""
        if belief.mu_covariance is None or belief.mu_covariance.any():
            do = 'Use NormalBelief(..., prior_mean=..., prior="known"), with the mean of the file if need be'
            raise UnsupportedError(f"Which row is whose after {mask} needs a known population mean", do=do)
        k, about = belief.k, belief_facts(belief, data)
        noise: Array = np.zeros((k, k))
        steps: list[list[tuple[Entrywise, int]]] = [[] for _ in range(k)]
        laws: list[NoiseLaw | RandomRounding | None] = [None] * k
        found = resolve(mask, about)
        for step, part, _ in found:
            if isinstance(step, AddNoise):
                _refuse_further_steps(part, [j for j in step.columns if steps[j] or laws[j] is not None])
                covariance = _noise_covariance(step, part)
                if step.kind.is_normal:
                    noise[np.ix_(step.columns, step.columns)] += covariance
                    continue
                if np.any(covariance != np.diag(np.diag(covariance))):
                    what = f"{part} ties columns together by noise that is not normal"
                    raise UnsupportedError(what, do="Use variance= or sd=, one per column")
                for j, variance in zip(step.columns, np.diag(covariance), strict=True):
                    laws[j] = noise_law(step.kind, np.sqrt([variance])) if variance > 0 else None
            elif type(step) in CHANGES:
                for place, j in enumerate(step.columns):
                    named = any(s.releases_names for s, _ in steps[j])
                    if laws[j] is not None or named or (steps[j] and not step.is_deterministic):
                        _refuse_further_steps(part, [j])
                    change = CHANGES[type(step)](step, place)
                    if isinstance(change, RandomRounding):
                        laws[j] = change
                    else:
                        steps[j].append((step, place))
        _check_apart(belief.record_covariance + noise, steps, laws, about.names)
        columns = tuple(tuple(s) for s in steps)
        return cls(belief, list(known), errors, noise, columns, tuple(laws), facts_after(found, about).n)

    # -- reading -----------------------------------------------------------------------------------------

    def prepare(self, release: object) -> IntervalRelease:
        """What a release shows: the value of each entry, or the interval where it lay before it was coarsened."""
        frame = Frame.of(release)
        k, n = self.belief.k, self.belief.records
        check_release_shape(frame.table.shape, self.kept, k)
        values, low, high = np.full((3, n, k), np.nan)
        columns = []
        for j, steps in enumerate(self.steps):
            if steps and steps[-1][0].releases_names:
                column = frame.table.iloc[:, j]
                here = np.flatnonzero(column.notna().to_numpy())
                released: ColumnLikelihood = KnownLabels(column.iloc[here].tolist())
                values[here, j] = 0.0
            else:
                numbers = frame.numeric("A release", [frame.columns[j]], missing=True)[0][:, 0]
                here = np.flatnonzero(~np.isnan(numbers))
                released = Known(numbers[here])
                values[here, j] = numbers[here]
            for step, place in reversed(steps):
                released = released.pulled_back(CHANGES[type(step)](step, place))
            low[here, j], high[here, j] = released.support_bounds
            rest = np.setdiff1d(np.arange(n), here)
            columns.append(join_rows(n, [(here, released), (rest, Uninformative(len(rest)))]))
        return IntervalRelease(values, low, high, tuple(columns))

    # -- weights -----------------------------------------------------------------------------------------

    def log_match_weights(self, shown: IntervalRelease, known: Array) -> Array:
        """Log weight of every place for every respondent, ``(respondents, places)``, up to a constant for each."""
        n = self.belief.records
        values, low, high = shown.values, shown.low, shown.high
        missing = np.isnan(values)
        odd = np.array([law is not None for law in self.laws])
        pattern = ((low == high) & ~missing & ~odd).astype(np.int64) + 2 * missing
        kinds, which = np.unique(pattern, axis=0, return_inverse=True)
        which = which.reshape(-1)
        weights = np.empty((len(known), n))
        depth = np.zeros(n, dtype=np.int64)
        for kind, shape in enumerate(kinds):
            rows = np.flatnonzero(which == kind)
            point, rest = np.flatnonzero(shape == 1), np.flatnonzero(shape == 0)
            first = back = np.arange(len(rows))
            if not len(point):
                # Intervals alone: equal rows have equal weights, and rounding makes many equal.
                key = np.concatenate([low[rows][:, rest], high[rows][:, rest], np.zeros((len(rows), 1))], axis=1)
                _, first, back = np.unique(key, axis=0, return_index=True, return_inverse=True)
            part, deep = self._weights_of_pattern(shown, rows[first], point, rest, known)
            weights[:, rows] = part[:, back.reshape(-1)]
            depth[rows] = deep
        return keep_exact_matches(weights, depth)

    def _weights_of_pattern(
        self, shown: IntervalRelease, rows: Ints, point: Ints, rest: Ints, z: Array
    ) -> tuple[Array, int]:
        """Weights of rows of one pattern: columns ``point`` are values, ``rest`` are intervals or have other noise."""
        values, low, high = shown.values[rows], shown.low[rows], shown.high[rows]
        prior, centre, k = self.belief.record_covariance, self.belief.mu_mean, self.belief.k
        total, known = prior + self.noise, np.array(self.known)
        pick = np.eye(k)[self.known]
        scale = np.sqrt(np.diag(prior)[self.known] + self.errors)
        size = float(max(np.abs((z - centre[self.known]) / scale).max(), np.abs(centre[self.known] / scale).max()))
        # What is known given the values: x_K - A y_E in terms of x and of the noise, so that nothing cancels.
        gain = np.linalg.solve(total[np.ix_(point, point)], prior[np.ix_(point, known)]).T
        away = pick.copy()
        away[:, point] -= gain
        away[np.abs(away) < 1e-14] = 0.0
        covariance = away @ prior @ away.T + gain @ self.noise[np.ix_(point, point)] @ gain.T + np.diag(self.errors)
        gap = values[:, point] - centre[point]
        means = centre[self.known] + gap @ gain.T
        size = max(size, float(np.abs(means / scale).max(initial=0.0)))
        density = DegenerateNormal.of(covariance, scale, size)
        weights = density.log_density(z, means, size)
        if not len(rest):
            return weights, density.exact_directions
        # The other entries, given the values, and given what is known besides.
        slope = np.linalg.solve(total[np.ix_(point, point)], total[np.ix_(point, rest)]).T
        mean = centre[rest] + gap @ slope.T
        cov = total[np.ix_(rest, rest)] - slope @ total[np.ix_(point, rest)]
        cross = prior[np.ix_(rest, known)] - slope @ prior[np.ix_(point, known)]
        regression = cross @ density.inverse()
        remaining = cov - regression @ cross.T
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
            at = mean[possible] + (row - means[possible]) @ regression.T
            for i, j in enumerate(rest):
                if sure[i]:
                    at[:, i] = row[self.known.index(j)]
            now = remaining.copy()
            now[sure, :] = 0.0
            now[:, sure] = 0.0
            open_ = np.flatnonzero(~(sure & boxed))
            columns = rest[open_]
            y, start, stop = (table[possible][:, columns] for table in (values, low, high))
            after = self._log_chance(y, start, stop, columns, at[:, open_], now[np.ix_(open_, open_)])
            weights[t][possible] += after - before[possible]
        return weights, density.exact_directions

    def _log_chance(self, values: Array, low: Array, high: Array, columns: Ints, mean: Array, cov: Array) -> Array:
        """Log chance (or density) of entries whose values before coarsening have this normal law."""
        total = np.zeros(len(mean))
        boxed = np.flatnonzero([self.laws[j] is None for j in columns])
        for i, j in enumerate(columns):
            law = self.laws[j]
            if law is not None:
                with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                    total += law.log_density_convolved_with_normal(
                        values[:, i] - mean[:, i], float(np.sqrt(max(cov[i, i], 0.0)))
                    )
        if len(boxed):
            total += log_box(low[:, boxed], high[:, boxed], mean[:, boxed], cov[np.ix_(boxed, boxed)])
        return total


# -- reading chains --------------------------------------------------------------------------------------


def _refuse_further_steps(mask: Mask, columns: Sequence[int]) -> None:
    if columns:
        what = f"{mask} after intervals or after noise that is not normal has no law that Identity knows"
        raise UnsupportedError(what, do="Put normal noise first, then one such step")


def _noise_covariance(step: AddNoise, mask: Mask) -> Array:
    """Covariance of the noise; infinite noise is none, for its column is missing in the release."""
    if step.common or step.size is not None:
        what = f"{mask} has no law that is the same for all records"
        raise UnsupportedError(what, do="Use plain noise here, sd= or variance=")
    if step.rows is not None:
        what = f"{mask} sizes each record, which goes with normal noise in a known order only"
        raise UnsupportedError(what, do="Leave out the other steps, or put Shuffle() first")
    found = step.covariance[0, 0]
    endless = np.isinf(np.diag(found))
    return np.where(endless[:, None] | endless[None, :], 0.0, found)


def _check_apart(
    total: Array, steps: Sequence[Sequence[object]], laws: Sequence[object], names: Sequence[Hashable]
) -> None:
    """Noise that is not normal stands alone, or in columns that have nothing to do with any other."""
    odd = [j for j in range(len(names)) if steps[j] or laws[j] is not None]
    off = np.where(np.eye(len(total), dtype=bool), 0.0, total)
    for j in odd:
        if laws[j] is not None and len(odd) > 1 and off[j].any():
            what = f"Other noise than normal, or random rounding, on {names[j]!r}, a correlated column"
            do = "Use normal noise, mask one column in this way, or believe in uncorrelated columns"
            raise UnsupportedError(f"{what}, must stand alone", do=do)
    boxed = [j for j in odd if laws[j] is None]
    if len(boxed) > 4 and off[np.ix_(boxed, boxed)].any():
        what = "Intervals of more than four correlated columns are too many to integrate over"
        raise UnsupportedError(what, do="Coarsen at most four of them")


# -- chances of boxes: that normal vectors lie in intervals --------------------------------------------

NODES = {3: 32, 4: 16}
"""Gauss-Legendre nodes per direction for boxes of this many columns."""
BLOCK = 2_000_000


def log_interval(low: Array, high: Array) -> Array:
    """Log P(low < Z < high) of a standard normal, in either tail."""
    flip = low > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    top, bottom = special.log_ndtr(b), special.log_ndtr(a)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(bottom == -np.inf, top, top + np.log1p(-np.exp(np.minimum(bottom - top, 0.0)))))


def log_box(low: Array, high: Array, mean: Array, cov: Array) -> Array:
    """Log P(low < X < high) for rows of normal vectors with these means and one covariance.

    Uncorrelated columns multiply. Two correlated ones are integrated piece by piece, good to ten digits in the tails
    too. Three and four use the separation of variables of Genz (1992) with Gauss-Legendre nodes, good to about three
    digits.
    """
    size = len(cov)
    sd = np.sqrt(np.maximum(np.diag(cov), 0.0))
    flat = sd == 0
    # A column without variance is a matter of yes or no.
    total = np.sum(np.where((low <= mean) & (mean <= high) | ~flat, 0.0, -np.inf), axis=1)
    live = np.flatnonzero(~flat)
    a, b = (low[:, live] - mean[:, live]) / sd[live], (high[:, live] - mean[:, live]) / sd[live]
    rho = cov[np.ix_(live, live)] / np.outer(sd[live], sd[live])
    alone = log_interval(a, b)
    size = len(live)
    if size < 2 or not np.any(np.where(np.eye(size, dtype=bool), 0.0, np.abs(rho)) > 1e-14):
        return np.asarray(total + alone.sum(axis=1))
    # The rarest interval first: what comes after it is smooth on it.
    orders, which = np.unique(np.argsort(alone, axis=1, kind="stable"), axis=0, return_inverse=True)
    for kind, order in enumerate(orders):
        rows = np.flatnonzero(which.reshape(-1) == kind)
        lower = lower_root(rho[np.ix_(order, order)])
        step = max(1, BLOCK // (_PIECES if size == 2 else len(_cube_nodes(size)[0]) * size))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            left, right = a[part][:, order], b[part][:, order]
            total[part] += (
                _log_box_of_pair(left, right, lower) if size == 2 else _log_box_by_separation(left, right, lower)
            )
    return total


_NODE, _WEIGHT = gauss_legendre(14)
_PIECES = 14 * 12


def _log_box_of_pair(low: Array, high: Array, lower: Array) -> Array:
    """Two standard normals with lower factor ((1, 0), (slope, rest)): integrate over the first."""
    slope, rest = lower[1, 0], lower[1, 1]
    a, b = low[:, 0], high[:, 0]
    # Beyond these ends nothing counts that has forty e-folds less than the best.
    start = np.where(b < 0, np.maximum(a, -np.sqrt(np.where(b < 0, b, 0.0) ** 2 + 80.0)), np.maximum(a, -9.5))
    stop = np.where(a > 0, np.minimum(b, np.sqrt(np.where(a > 0, a, 0.0) ** 2 + 80.0)), np.minimum(b, 9.5))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Where the second interval begins and ends to matter.
        turns = [edge / slope + shift * rest / slope for edge in (low[:, 1], high[:, 1]) for shift in (-4.0, 0.0, 4.0)]
        fixed = [np.full(len(a), x) for x in (-4.0, -1.5, 0.0, 1.5, 4.0)]
        ends = np.sort(np.clip(np.nan_to_num(np.stack([start, *turns, *fixed, stop]), nan=0.0), start, stop), axis=0)
        half = np.diff(ends, axis=0) / 2
        x = (ends[:-1] + half)[:, None] + half[:, None] * _NODE[:, None]
        weight = np.log(half[:, None] * _WEIGHT[:, None])
        if rest > 0:
            second = log_interval((low[:, 1] - slope * x) / rest, (high[:, 1] - slope * x) / rest)
        else:
            second = np.where((low[:, 1] <= slope * x) & (slope * x <= high[:, 1]), 0.0, -np.inf)
        terms = weight - 0.5 * x**2 - 0.5 * np.log(2 * np.pi) + second
        return np.asarray(special.logsumexp(terms.reshape(-1, len(a)), axis=0))


@cache
def _cube_nodes(size: int) -> tuple[Array, Array]:
    """Nodes (points, size - 1) in the unit cube and the logarithms of their weights."""
    node, weight = gauss_legendre(NODES[size])
    grid = np.stack(np.meshgrid(*[(node + 1) / 2] * (size - 1), indexing="ij"), axis=-1).reshape(-1, size - 1)
    weights = np.stack(np.meshgrid(*[weight / 2] * (size - 1), indexing="ij"), axis=-1).reshape(-1, size - 1)
    return grid, np.log(weights).sum(axis=1)


def _log_box_by_separation(low: Array, high: Array, lower: Array) -> Array:
    grid, log_weight = _cube_nodes(len(lower))
    size = len(lower)
    drawn = np.zeros((size, len(grid), len(low)))
    total = np.zeros((len(grid), len(low)))
    for j in range(size):
        shift = np.tensordot(lower[j, :j], drawn[:j], axes=1) if j else np.zeros((len(grid), len(low)))
        if lower[j, j] == 0:
            total += np.where((low[:, j] <= shift) & (shift <= high[:, j]), 0.0, -np.inf)
            continue
        a, b = (low[:, j] - shift) / lower[j, j], (high[:, j] - shift) / lower[j, j]
        total += log_interval(a, b)
        if j < size - 1:
            flip = a > 0
            a, b = np.where(flip, -b, a), np.where(flip, -a, b)
            pa, pb = special.ndtr(a), special.ndtr(b)
            u = np.where(flip, 1.0 - grid[:, j, None], grid[:, j, None])
            x = special.ndtri(np.clip(pa + u * (pb - pa), 1e-300, 1 - 1e-16))
            drawn[j] = np.where(flip, -x, x)
    return np.asarray(special.logsumexp(total + log_weight[:, None], axis=0))
