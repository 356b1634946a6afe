"""What two releases tell of the same entries: the product of their likelihoods."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...protocols import Array
from ..steps import TOLERANCE
from .base import ColumnLikelihood, Ints, Pair, evenly_spaced_points, impossible_release_error, midpoints
from .entries import Between, Known, join_rows, nothing_observed, observe_by_case
from .kernels import value_with_normal_noise
from .mathematics import NUMPY, Mathematics, Values
from .release import Averages, JointNormal, ReleaseLikelihood, as_one_matrix

PLACES = 33
"""Where two likelihoods are looked at together to find how far they pull apart."""


@dataclass(frozen=True, repr=False, eq=False)
class ProductObservation(ColumnLikelihood):
    """Two observations of the same entries, independent given them. Made by `combine_observations`."""

    per_entry = ("first", "second")

    first: ColumnLikelihood
    second: ColumnLikelihood

    def log(self, x: Values, math: Mathematics = NUMPY) -> Values:
        return self.first.log(x, math) + self.second.log(x, math)

    def log_label(self, label: Any) -> Array:
        return self.first.log_label(label) + self.second.log_label(label)

    @property
    def points_per_entry(self) -> int:
        return self.first.points_per_entry + self.second.points_per_entry

    @property
    def support_bounds(self) -> Pair:
        return np.maximum(self.first.low, self.second.low), np.minimum(self.first.high, self.second.high)

    @property
    def cuts(self) -> Array:
        return np.concatenate([self.first.cuts, self.second.cuts], axis=1)

    @property
    def panel_edges(self) -> Array:
        return np.concatenate([self.first.panel_edges, self.second.panel_edges], axis=1)

    def window(self, drop: float = 40.0) -> Pair:
        """Where both are in their windows, which are wider by what the two lose by lying apart."""
        windows = [part.window(0.5) for part in (self.first, self.second)]
        low, high = self.support_bounds
        spots = [np.clip(midpoints(a, b), low, high) for a, b in windows]
        x = evenly_spaced_points(np.minimum(*spots), np.maximum(*spots), PLACES).T
        logs = [np.asarray(part.log(x)) for part in (self.first, self.second)]
        with np.errstate(invalid="ignore"):
            apart = logs[0].max(axis=0) + logs[1].max(axis=0) - (logs[0] + logs[1]).max(axis=0)
        found = []
        for part in (self.first, self.second):
            # Windows of one drop for all entries: the largest that any of them needs.
            reach = float(np.max(np.where(np.isfinite(apart), np.maximum(apart, 0.0), 0.0), initial=0.0))
            found.append(part.window(drop + reach + 1.0))
        return np.maximum(found[0][0], found[1][0]), np.minimum(found[0][1], found[1][1])

    @property
    def scale(self) -> Array:
        return np.minimum(self.first.scale, self.second.scale)

    @property
    def support(self) -> Array | None:
        a, b = self.first.support, self.second.support
        return b if a is None else a if b is None else np.intersect1d(a, b)


def combine_observations(first: ColumnLikelihood, second: ColumnLikelihood) -> ColumnLikelihood:
    """What two observations of the same entries tell: what is known, a normal law, an interval, or their product."""
    known = ~np.isnan(first.known_values), ~np.isnan(second.known_values)
    sure = known[0] | known[1]
    silent = first.uninformative, second.uninformative
    normal = first.is_normal & second.is_normal & ~sure & ~silent[0] & ~silent[1]
    rest = ~sure & ~silent[0] & ~silent[1] & ~normal

    def value(rows: Ints) -> ColumnLikelihood:
        x = np.where(known[0], first.known_values, second.known_values)[rows]
        for part, own in ((first, known[0]), (second, known[1])):
            logs = np.asarray(part.take(rows).log(x))
            near = own[rows] & (np.abs(part.known_values[rows] - x) <= TOLERANCE * np.maximum(np.abs(x), 1e-300))
            if np.any((logs == -np.inf) & ~near):
                raise impossible_release_error("values that another release rules out")
        return Known(x)

    def noisy(rows: Ints) -> ColumnLikelihood:
        a, b = first.take(rows).normal, second.take(rows).normal
        assert a is not None and b is not None
        precision = 1.0 / a[1] + 1.0 / b[1]
        centre = (a[0] / a[1] + b[0] / b[1]) / precision
        return value_with_normal_noise(centre, np.sqrt(1.0 / precision))

    def others(rows: Ints) -> ColumnLikelihood:
        a, b = first.take(rows), second.take(rows)
        if isinstance(a, Between) and isinstance(b, Between):
            return _intersect(a, b)
        return ProductObservation(a, b)

    cases = [(sure, value), (silent[0] & ~sure, second.take), (silent[1] & ~silent[0] & ~sure, first.take)]
    return observe_by_case(first.n, [*cases, (normal, noisy), (rest, others)])


def _intersect(a: Between, b: Between) -> ColumnLikelihood:
    """Where both intervals are."""
    low, high = np.maximum(a.lower, b.lower), np.minimum(a.upper, b.upper)
    closed_low, closed_high = (
        np.where(x.support_bounds[i] == end, np.asarray(flag), True)
        & np.where(y.support_bounds[i] == end, np.asarray(other), True)
        for i, end, x, y, flag, other in (
            (0, low, a, b, a.closed_low, b.closed_low),
            (1, high, a, b, a.closed_high, b.closed_high),
        )
    )
    if np.any((low > high) | ((low == high) & ~(closed_low & closed_high))):
        raise impossible_release_error("values that another release rules out")
    return Between(low, high, closed_low, closed_high)


# -- whole releases ----------------------------------------------------------------------------------------------


def combine_releases(first: ReleaseLikelihood, second: ReleaseLikelihood) -> ReleaseLikelihood:
    """What two releases of the same records tell, independent given the records."""
    for one, other in ((first, second), (second, first)):
        if one.shuffled and not other.is_uninformative:
            raise UnsupportedError(
                "Shuffle in one release, beside another, has no likelihood here: which rows belong together is not "
                "known",
                do="Put Shuffle() before both: Shuffle() | (a & b)",
            )
    columns = tuple(combine_observations(a, b) for a, b in zip(first.columns, second.columns, strict=True))
    found = replace(first, columns=columns, shuffled=first.shuffled or second.shuffled, joint=None, averages=None)
    found = _multiply_joint_normals(found, first.joint, second.joint)
    return _with_averages(found, [r.averages for r in (first, second) if r.averages is not None])


def _multiply_joint_normals(found: ReleaseLikelihood, *laws: JointNormal | None) -> ReleaseLikelihood:
    """Rows with correlated noise from either release, and what else is told of their columns."""
    noisy = [law for law in laws if law is not None]
    if not noisy:
        return found
    covered = sorted({j for law in noisy for j in law.columns})
    n, k, columns = found.n, found.k, list(found.columns)
    known = np.stack([~np.isnan(columns[j].known_values) for j in covered], axis=1)
    # Rows whose records are known are told nothing more by noisy copies.
    whole = known.all(axis=1, keepdims=True)
    noisy = [replace(law, centre=np.where(whole, np.nan, law.centre)) for law in noisy]
    pieces = [(law.centre, np.broadcast_to(law.covariance, (n, k, k))) for law in noisy]
    for place, j in enumerate(covered):
        open_ = ~known[:, place] & ~columns[j].uninformative
        normal = columns[j].normal
        if (known[:, place] & ~known.all(axis=1)).any() or (open_.any() and normal is None):
            raise UnsupportedError(
                "Correlated noise in one release, and other than normal noise on the same columns in another, has no "
                "likelihood here",
                do="Use variance= or sd= (independent noise)",
            )
        if open_.any() and normal is not None:
            centre, covariance = np.full((n, k), np.nan), np.zeros((n, k, k))
            centre[open_, j], covariance[open_, j, j] = normal[0][open_], normal[1][open_]
            pieces.append((centre, covariance))
            columns[j] = observe_by_case(n, [(open_, nothing_observed), (~open_, columns[j].take)])
    precision, pushed = np.zeros((n, k, k)), np.zeros((n, k))
    for centre, covariance in pieces:
        for i in range(n):
            there = np.flatnonzero(~np.isnan(centre[i]))
            if len(there):
                block = covariance[i][np.ix_(there, there)]
                if np.linalg.eigvalsh(block)[0] <= 0:
                    raise UnsupportedError(
                        "Correlated noise that leaves some combination of columns as it is, beside another release, "
                        "has no likelihood here",
                        do="Give every column noise of its own too",
                    )
                inverse = np.linalg.inv(block)
                precision[i][np.ix_(there, there)] += inverse
                pushed[i, there] += inverse @ centre[i, there]
    centre, covariance = np.full((n, k), np.nan), np.zeros((n, k, k))
    for i in range(n):
        there = np.flatnonzero(np.diag(precision[i]) > 0)
        if len(there):
            covariance[i][np.ix_(there, there)] = np.linalg.inv(precision[i][np.ix_(there, there)])
            centre[i, there] = covariance[i][np.ix_(there, there)] @ pushed[i, there]
    joint = JointNormal(centre, as_one_matrix(covariance), tuple(covered))
    return replace(found, columns=tuple(columns), joint=joint)


def _with_averages(found: ReleaseLikelihood, averages: list[Averages]) -> ReleaseLikelihood:
    """Averages of the same groups as one, and without the members that are known."""
    if not averages:
        return found
    one = averages[0]
    if len(averages) > 1:
        two = averages[1]
        if not (np.array_equal(one.label, two.label) and np.array_equal(one.members, two.members)):
            raise UnsupportedError(
                "Averages over different groups in two releases have no likelihood here",
                do="Use a NormalBelief with engine=Exact(), or the same groups",
            )
        one = _combine_averages(one, two)
    known = np.stack([column.known_values for column in found.columns], axis=1)
    if not np.any(~np.isnan(known) & one.members):
        return replace(found, averages=one)
    return _without_known_members(found, one, known)


def _combine_averages(one: Averages, two: Averages) -> Averages:
    for a in (one, two):
        _refuse_correlated(a)
    variances = [a.variance for a in (one, two)]
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = [np.where(np.isnan(a.values), 0.0, 1.0 / v) for a, v in zip((one, two), variances, strict=True)]
        exact = [np.isinf(p) for p in precision]
        total = np.where(exact[0] | exact[1], 1.0, precision[0] + precision[1])
        shares = [
            np.where(exact[0] | exact[1], (e & ~(exact[0] if i else False)), p / total)
            for i, (e, p) in enumerate(zip(exact, precision, strict=True))
        ]
        value = sum(np.where(s > 0, s * np.nan_to_num(a.values), 0.0) for s, a in zip(shares, (one, two), strict=True))
        error = np.where(exact[0] | exact[1], 0.0, np.where(total > 0, 1.0 / np.where(total > 0, total, 1.0), 0.0))
    empty = np.isnan(one.values) & np.isnan(two.values)
    return Averages.of(one.label, np.where(empty, np.nan, value), one.members, error)


def _refuse_correlated(averages: Averages) -> None:
    off = ~np.eye(averages.values.shape[1], dtype=bool)
    if np.any(averages.covariance[:, off]):
        raise UnsupportedError(
            "Averages after noise that is correlated across columns, beside another release, have no likelihood here",
            do="Use variance= or sd=",
        )


def _without_known_members(found: ReleaseLikelihood, averages: Averages, known: Array) -> ReleaseLikelihood:
    """Known members leave their average; one that is left alone is told by it."""
    _refuse_correlated(averages)
    groups, k = averages.values.shape
    values, error, members = averages.values.copy(), averages.variance, averages.members.copy()
    columns = list(found.columns)
    for g in range(groups):
        for j in range(k):
            rows = np.flatnonzero((averages.label == g) & averages.members[:, j])
            open_ = rows[np.isnan(known[rows, j])]
            if np.isnan(values[g, j]) or len(open_) == len(rows):
                continue
            members[rows, j] = False
            if not len(open_):
                values[g, j] = np.nan
                continue
            share = len(rows) / len(open_)
            total = len(rows) * values[g, j] - np.nansum(known[rows, j])
            values[g, j], error[g, j] = total / len(open_), error[g, j] * share**2
            if len(open_) > 1:
                members[open_, j] = True
                continue
            spot, sd = values[g : g + 1, j].copy(), np.sqrt(error[g : g + 1, j])
            alone = Known(spot) if sd[0] == 0 else value_with_normal_noise(spot, sd)
            own = combine_observations(columns[j].take(open_), alone)
            others = np.delete(np.arange(found.n), open_)
            columns[j] = join_rows(found.n, [(open_, own), (others, columns[j].take(others))])
            values[g, j] = np.nan
    kept = Averages.of(averages.label, values, members, error)
    return replace(found, columns=tuple(columns), averages=kept if members.any() else None)
