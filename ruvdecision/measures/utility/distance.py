"""Broad utility: distances between the two files as clouds of points, and between records and their masked selves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special
from scipy.spatial.distance import cdist

from ...checks import as_generator, check_integer, check_number, checked
from ...errors import InputError, UnsupportedError
from ...numerics.compiled import compiled
from ...protocols import Array
from .. import frames
from ..base import Measured, SummedMeasure, WeightedMeasure
from ..frames import (
    Names,
    as_names,
    floats_with_nan,
    near_enough,
    no_row_error,
    nonzero_standard_deviations,
    numeric,
    refuse_constant,
)
from ..missing import IMPUTED, KNOWN
from ..sums import ColumnMoments, checked_covariance, moments_of, nonsingular_covariance
from .cdf import Law, step_differences

TOGETHER = 8
"""Directions that are projected on at a time."""
MCD_ROWS, MCD_STARTS = 1500, 100
"""Records, and sets of them, that the search for a robust covariance starts from."""
PISON_RAW = (
    (0.262024211897096, 0.604756680630497),
    (0.673292623522027, 0.691365864961895),
    (-1.42764571687802, 1.26263336932151),
    (-1.06141115981725, 1.28907991440387),
)
PISON_FINAL = (
    (1.11098143415027, 1.5182890270453),
    (3.11101712909049, 1.91401056721863),
    (-1.02842572724793, 1.67659883081926),
    (-0.26800273450853, 1.35968562893582),
)
"""Coefficients of `_small_file_factor` for the half of the records, and for those near it."""
FEW_PAIRS = 1_000_000
"""Pairs of records whose distances are taken at once: that is sooner done than numba is loaded."""
ALL_PAIRS = 50_000
"""Most records of a file all of whose distances are taken."""
KEPT = 20_000_000
"""Sorted projections of the original are kept for the next release if they are at most so many numbers."""


@dataclass(frozen=True, repr=False)
class _StandardisedMeasure(WeightedMeasure):
    """Numeric columns in units of the original's standard deviations."""

    missing_choices: ClassVar[tuple[str, ...]] = IMPUTED

    columns: Names = checked(None, as_names)
    standardise: bool = True

    def standardised(self, original: pd.DataFrame, weights: Array | None) -> tuple[Array, Array]:
        """The original in its units, and the units."""
        values = numeric(self.name, original)
        if not self.standardise:
            return values, np.ones(values.shape[1])
        sd = nonzero_standard_deviations(self.name, values, original.columns, weights=weights)
        return values / sd, sd

    def in_units(self, released: pd.DataFrame, units: Array) -> Array:
        """A release in the same units."""
        with np.errstate(over="ignore"):
            return near_enough(self.name, numeric(self.name, released, "the release") / units)


@dataclass(frozen=True, repr=False)
class EnergyDistance(_StandardisedMeasure):
    """Energy distance 2 E|X - Y| - E|X - X'| - E|Y - Y'| between the files, X and Y drawn from them; 0 for equal files.

    Of one variable exact, in time n log n. Of several exact over all pairs up to 50,000 records, in time n^2, without
    a matrix of distances; of longer files by ``projections``: the distance is a constant times the mean over all
    directions of the distance of the projections (each n log n), and ``error`` the standard error over those drawn.
    ``parts`` has the square root, which is a metric. Szekely and Rizzo (2013); Baringhaus and Franz (2004).

    Parameters
    ----------
    columns : names, optional
        Numeric columns.
    standardise : bool
        In units of the original's standard deviations.
    projections : int, optional
        Use so many directions, drawn in orthogonal sets and the same for all releases, whatever the size of the files;
        100 for long files.
    seed : int
        Where the directions start.

    Examples
    --------
    >>> EnergyDistance(standardise=False)([0, 1], [2, 3])
    3.0
    """

    projections: int | None = checked(None, check_integer, low=2)
    seed: int = checked(0, check_integer, low=0)

    columns_by_name: ClassVar[bool] = True
    label: ClassVar[str] = "energy"
    reference: ClassVar[str] = "Szekely and Rizzo (2013); Baringhaus and Franz (2004)"

    def begin(self, original: pd.DataFrame, weights: Array | None = None) -> Any:
        values, units = self.standardised(original, weights)
        return values, units, weights, {}

    def compare(self, state: Any, released: pd.DataFrame, weights: Array | None = None) -> Measured:
        first, units, own, known = state
        second = self.in_units(released, units)
        error = 0.0
        if second.shape[1] == 1:
            value = _energy_distance_1d(Law.of(first[:, 0], own), Law.of(second[:, 0], weights))
        elif self.projections is None and max(len(first), len(second)) <= ALL_PAIRS:
            shares = frames.shares(own, len(first)), frames.shares(weights, len(second))
            if "within" not in known:
                known["within"] = _mean_distance(first, first, shares[0], shares[0])
            across = _mean_distance(first, second, *shares)
            value = max(2 * across - known["within"] - _mean_distance(second, second, shares[1], shares[1]), 0.0)
        else:
            value, error = self._sliced_distance(first, second, own, weights)
        return Measured(value, error, parts={"root": float(np.sqrt(value))})

    def _sliced_distance(
        self, first: Array, second: Array, own: Array | None, weights: Array | None
    ) -> tuple[float, float]:
        """The mean over directions, and its standard error over sets of orthogonal ones."""
        rng, p = as_generator(self.seed), first.shape[1]
        # |v| is this times the mean of |v projected| over all directions.
        scale = np.sqrt(np.pi) * np.exp(special.gammaln((p + 1) / 2) - special.gammaln(p / 2))
        sets = max(2, -(-(self.projections or 100) // p))
        found = []
        for _ in range(sets):
            directions = np.linalg.qr(rng.standard_normal((p, p)))[0]
            laws = [
                _sorted_projections(np.ascontiguousarray(v.T), directions, w)
                for v, w in ((first, own), (second, weights))
            ]
            found.append(scale * float(np.mean([_energy_distance_1d(a, b) for a, b in zip(*laws, strict=True)])))
        return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(sets))


@dataclass(frozen=True, repr=False)
class Wasserstein(_StandardisedMeasure):
    """The mean over variables of the Wasserstein distance between the files' distributions of that variable.

    What it costs to move one distribution onto the other. Looks at margins only; `SlicedWasserstein` sees dependence
    too.

    Parameters
    ----------
    order : float
        1 for the mean distance, 2 for the root of the mean squared distance, any number from 1 on.
    columns, standardise
        As for `EnergyDistance`. Each variable's distance is in ``parts``.

    Examples
    --------
    >>> Wasserstein(standardise=False)([0, 1], [2, 3])
    2.0
    """

    order: float = checked(1.0, check_number, low=1)

    label: ClassVar[str] = "Wasserstein"
    reference: ClassVar[str] = "Villani (2003), section 2.2"

    def begin(self, original: pd.DataFrame, weights: Array | None = None) -> tuple[list[Law], Array, list[str]]:
        values, units = self.standardised(original, weights)
        return [Law.of(v, weights) for v in values.T], units, [str(c) for c in original.columns]

    def compare(
        self, state: tuple[list[Law], Array, list[str]], released: pd.DataFrame, weights: Array | None = None
    ) -> Measured:
        first, units, names = state
        second = [Law.of(v, weights) for v in self.in_units(released, units).T]
        power = _transport_costs(first, second, self.order)
        each = power ** (1 / self.order)
        return Measured(float(each.mean()), parts=dict(zip(names, each.tolist(), strict=True)))


@dataclass(frozen=True, repr=False)
class SlicedWasserstein(_StandardisedMeasure):
    """Sliced Wasserstein distance: the Wasserstein distance of projections, averaged over random directions.

    Parameters
    ----------
    projections : int
        Number of directions, uniform on the sphere; the error is the Monte Carlo standard error over them.
    order : float
        As for `Wasserstein`; the average is taken of the distance to that power, and its root returned.
    seed : int
        Where the directions start; equal for all releases, so that differences between releases are sharp.
    columns, standardise
        As for `EnergyDistance`.

    Time n log n for each direction, and n p to project; memory n p, a few directions at a time. The sorted projections
    of the original are kept for the next release unless they are many.

    Examples
    --------
    >>> SlicedWasserstein()([[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]])
    0.0
    """

    projections: int = checked(200, check_integer, low=2)
    order: float = checked(2.0, check_number, low=1)
    seed: int = checked(0, check_integer, low=0)

    columns_by_name: ClassVar[bool] = True
    label: ClassVar[str] = "sliced Wasserstein"
    reference: ClassVar[str] = "Rabin, Peyre, Delon and Bernot (2011)"

    def begin(
        self, original: pd.DataFrame, weights: Array | None = None
    ) -> tuple[Array, list[Law] | None, Array, Array, Array | None]:
        values, units = self.standardised(original, weights)
        directions = as_generator(self.seed).standard_normal((values.shape[1], self.projections))
        directions /= np.linalg.norm(directions, axis=0)
        across = np.ascontiguousarray(values.T)
        kept = (
            list(_sorted_projections(across, directions, weights)) if len(values) * self.projections <= KEPT else None
        )
        return across, kept, units, directions, weights

    def compare(self, state: Any, released: pd.DataFrame, weights: Array | None = None) -> Measured:
        across, kept, units, directions, own = state
        second = np.ascontiguousarray(self.in_units(released, units).T)
        before = _sorted_projections(across, directions, own) if kept is None else kept
        power = _transport_costs(before, _sorted_projections(second, directions, weights), self.order)
        mean = float(power.mean())
        if mean == 0:
            return Measured(0.0)
        value = mean ** (1 / self.order)
        if len(directions) == 1:
            return Measured(value)  # one variable has one direction up to sign: there is nothing random
        return Measured(value, float(power.std(ddof=1) / np.sqrt(len(power)) * value / (self.order * mean)))


@dataclass(frozen=True, repr=False)
class IL1s(SummedMeasure, WeightedMeasure):
    """IL1s: the mean over records and variables of |x - y| / (sqrt(2) S), S the variable's original standard deviation.

    Compares each record with its own masked version. Yancey, Winkler and Creecy (2002). R's sdcMicro calls this number
    ``IL1old``, and the *sum* over records and variables, which grows with the file, ``IL1s``: ``parts["sdcMicro"]``.
    ``parts["IL1"]`` is its ``IL1``: the sum of 100 |x - y| / |x|, values x = 0 left out. Missing values,
    ``missing="pairwise"``: each variable's mean is over the entries that both files know.

    Examples
    --------
    >>> value = IL1s()([0, 2], [1, 2])
    >>> round(value, 6), round(value.parts["sdcMicro"], 6)
    (0.25, 0.5)
    """

    columns: Names = checked(None, as_names)

    label: ClassVar[str] = "IL1s"
    reference: ClassVar[str] = "Yancey, Winkler and Creecy (2002); Mateo-Sanz, Sebe and Domingo-Ferrer (2004)"
    matched: ClassVar[bool] = True
    missing_choices: ClassVar[tuple[str, ...]] = KNOWN

    def begin(
        self, original: pd.DataFrame, weights: Array | None = None
    ) -> tuple[pd.DataFrame, Array, list[str], Array]:
        numeric(self.name, original.iloc[:0])
        often, sd = np.ones(len(original)) if weights is None else weights / weights.mean(), []
        for c in original:
            there = original[c].notna().to_numpy(dtype=bool)
            values = numeric(self.name, original.loc[there, [c]])
            sd.append(
                nonzero_standard_deviations(self.name, values, [c], weights=None if weights is None else often[there])[
                    0
                ]
            )
        return original, np.array(sd), [str(c) for c in original.columns], often

    def compare(self, state: tuple[pd.DataFrame, Array, list[str], Array], released: pd.DataFrame) -> Measured:
        original, sd, names, often = state
        if (original.isna() | released.isna().to_numpy()).all().any():
            raise no_row_error(self.name, "a column that no record has in both files")
        sums = []
        for c in original.columns:
            x, y = (
                floats_with_nan(self.name, original[c], original[c]),
                floats_with_nan(self.name, released[c], original[c], "the release"),
            )
            both = ~np.isnan(x) & ~np.isnan(y)
            sums.append((often[both].sum(), *(often[both] @ _absolute_and_relative_changes(x[both], y[both]))))
        count, change, percent = np.array(sums).T
        return self._measured_from_sums(count, change / count, sd, percent, names)

    def sums_of(self, piece: pd.DataFrame, plan: None, which: str, weights: Array | None = None) -> ColumnMoments:
        return moments_of(self.name, piece, which, weights)

    def sums_of_pairs(
        self, original: pd.DataFrame, released: pd.DataFrame, sums: ColumnMoments, weights: Array | None = None
    ) -> ColumnMoments:
        x, y = numeric(self.name, original), numeric(self.name, released, "the release")
        changes = np.hstack([_absolute_and_relative_changes(x[:, [j]], y[:, [j]]) for j in range(x.shape[1])])
        return ColumnMoments.of(changes, weights=weights)

    def compare_sums(self, original: ColumnMoments, released: ColumnMoments, plan: None) -> Measured:
        sd = _column_standard_deviations(self.name, original, "the original")
        count = np.full(len(sd), original.n)
        percent = released.mean[1::2] * count
        return self._measured_from_sums(count, released.mean[::2], sd, percent, original.names)

    def _measured_from_sums(
        self, count: Array, change: Array, sd: Array, percent: Array, names: Sequence[str]
    ) -> Measured:
        with np.errstate(over="ignore"):
            each = near_enough(self.name, change / sd) / np.sqrt(2)
        parts = {"sdcMicro": float(each @ count), "IL1": float(percent.sum())}
        return Measured(float(each.mean()), parts=parts | dict(zip(names, each.tolist(), strict=True)))


def _absolute_and_relative_changes(x: Array, y: Array) -> Array:
    """|x - y| and 100 |x - y| / |x| side by side, the latter 0 where x is."""
    gap, size = np.abs(x - y), np.abs(x)
    with np.errstate(over="ignore"):  # a share of next to nothing may be beyond all numbers
        percent = np.divide(100 * gap, size, out=np.zeros_like(gap), where=size > 0)
    return np.stack([gap, percent], axis=-1).reshape(len(x), -1)


@dataclass(frozen=True, repr=False)
class Eigenvalues(SummedMeasure, WeightedMeasure):
    """The sum of |l - l'| / l over the eigenvalues of the two correlation matrices, largest to smallest.

    sdcMicro's "eigen" (and "robeigen" with ``robust``). Templ and Meindl (2008). A release without variation in a
    column has no correlation matrix: an error says which. ``parts["IL_correl"]`` is sdcMicro's: how far the diagonals
    of the inverse correlation matrices, each of length 1, are apart, over sqrt(2).

    Parameters
    ----------
    columns : names, optional
        Numeric columns.
    robust : bool
        Minimum covariance determinant estimates of the standardised data instead of correlations.
    seed : int
        Where the search for the robust estimate starts.

    Examples
    --------
    >>> Eigenvalues()([[0, 0], [1, 1], [2, 1]], [[0, 0], [1, 1], [2, 1]])
    0.0
    """

    columns: Names = checked(None, as_names)
    robust: bool = False
    seed: int = checked(0, check_integer, low=0)

    label: ClassVar[str] = "eigenvalues"
    reference: ClassVar[str] = "Templ and Meindl (2008); sdcMicro's dUtility"
    missing_choices: ClassVar[tuple[str, ...]] = IMPUTED

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.robust and self.weights is not None:
            what = f"{self.name} chooses half of the records and has no rule for weights"
            raise UnsupportedError(what, f"weights={self.weights!r}", "Write robust=False, or leave weights= out")

    def begin(self, original: pd.DataFrame, weights: Array | None = None) -> tuple[Array, ColumnMoments]:
        moments = moments_of(self.name, original, "the original", weights)
        nonsingular_covariance(self.name, moments)
        if self.robust:
            return self._robust_moments(original, "the original"), moments
        return self._eigenvalues_of(moments, "the original"), moments

    def compare(
        self, state: tuple[Array, ColumnMoments], released: pd.DataFrame, weights: Array | None = None
    ) -> Measured:
        if self.robust:
            return _relative_spectrum_change(state[0], self._robust_moments(released, "the release"))
        return self._compare_spectra(*state, moments_of(self.name, released, "the release", weights))

    def sums_of(self, piece: pd.DataFrame, plan: None, which: str, weights: Array | None = None) -> ColumnMoments:
        if self.robust:
            do = "Leave chunksize= out, or write robust=False"
            raise UnsupportedError("Robust eigenvalues are no sum over records", do=do)
        return moments_of(self.name, piece, which, weights)

    def compare_sums(self, original: ColumnMoments, released: ColumnMoments, plan: None) -> Measured:
        nonsingular_covariance(self.name, original)
        return self._compare_spectra(self._eigenvalues_of(original, "the original"), original, released)

    def _compare_spectra(self, before: Array, original: ColumnMoments, released: ColumnMoments) -> Measured:
        after = self._eigenvalues_of(released, "the release")
        # A column's variance inflation: the diagonal of the inverse, which a singular release does not have.
        if after[-1] <= 1e-12 * len(after):
            return _relative_spectrum_change(before, after)
        first, second = (np.diag(np.linalg.inv(self._correlation_matrix(m))) for m in (original, released))
        gap = first / np.linalg.norm(first) - second / np.linalg.norm(second)
        return _relative_spectrum_change(before, after, {"IL_correl": float(np.linalg.norm(gap) / np.sqrt(2))})

    def _eigenvalues_of(self, moments: ColumnMoments, which: str) -> Array:
        _column_standard_deviations(self.name, moments, which)
        return np.asarray(np.linalg.eigvalsh(self._correlation_matrix(moments))[::-1])

    def _correlation_matrix(self, moments: ColumnMoments) -> Array:
        sd = moments.standard_deviations()
        return moments.covariance(1) / np.outer(sd, sd)

    def _robust_moments(self, table: pd.DataFrame, which: str) -> Array:
        values = numeric(self.name, table, which)
        scaled = (values - values.mean(axis=0)) / nonzero_standard_deviations(self.name, values, table.columns, which)
        flat = which == "the release"  # the original's eigenvalues divide
        return np.asarray(np.linalg.eigvalsh(robust_covariance(scaled, which, self.seed, flat))[::-1]).clip(0)


@dataclass(frozen=True, repr=False)
class Mahalanobis(SummedMeasure, WeightedMeasure):
    """The mean Mahalanobis distance between each record and its masked version, in the original's covariance.

    ``parts`` has the distance between the means of the files, and the mean absolute change of a record's own distance
    from the original's mean, which tells whether outliers stay outliers.

    Examples
    --------
    >>> round(Mahalanobis()([0, 2], [1, 2]), 6)
    0.353553
    """

    columns: Names = checked(None, as_names)

    label: ClassVar[str] = "Mahalanobis"
    reference: ClassVar[str] = "Templ and Meindl (2008)"
    matched: ClassVar[bool] = True
    missing_choices: ClassVar[tuple[str, ...]] = IMPUTED

    def begin(self, original: pd.DataFrame, weights: Array | None = None) -> tuple[Array, _Whitening, Array | None]:
        white = _Whitening.of(self.name, moments_of(self.name, original, "the original", weights))
        return white(original, "the original"), white, weights

    def compare(self, state: tuple[Array, _Whitening, Array | None], released: pd.DataFrame) -> Measured:
        first, white, weights = state
        moved, outlying, shift = _record_displacements(first, white(released, "the release"))
        mean = [np.average(v, axis=-1, weights=weights) for v in (moved, outlying, shift)]
        parts = {"means": float(np.linalg.norm(mean[2])), "outlyingness": float(mean[1])}
        return Measured(float(mean[0]), parts=parts, records=moved)

    def sums_of(self, piece: pd.DataFrame, plan: None, which: str, weights: Array | None = None) -> ColumnMoments:
        return moments_of(self.name, piece, which, weights)

    def sums_of_pairs(
        self, original: pd.DataFrame, released: pd.DataFrame, sums: ColumnMoments, weights: Array | None = None
    ) -> ColumnMoments:
        white = _Whitening.of(self.name, sums)
        moves = np.vstack(_record_displacements(white(original, "the original"), white(released, "the release")))
        return ColumnMoments.of(moves.T, weights=weights)

    def compare_sums(self, original: ColumnMoments, released: ColumnMoments, plan: None) -> Measured:
        moved, outlying, *shift = released.mean
        return Measured(float(moved), parts={"means": float(np.linalg.norm(shift)), "outlyingness": float(outlying)})


@dataclass(frozen=True, eq=False)
class _Whitening:
    """Turns a table into coordinates in which the original's covariance is the identity; records are columns."""

    who: str
    mean: Array
    root: Array

    @classmethod
    def of(cls, who: str, original: ColumnMoments) -> _Whitening:
        nonsingular_covariance(who, original)
        return cls(who, original.mean, np.asarray(np.linalg.cholesky(original.covariance(1))))

    def __call__(self, table: pd.DataFrame, which: str) -> Array:
        return np.asarray(np.linalg.solve(self.root, (numeric(self.who, table, which) - self.mean).T))


def _smallest_half(x: Array, half: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Mean and covariance of the ``half`` records whose covariance has the smallest determinant: FastMCD.

    Rousseeuw and Van Driessen (1999): from many sets of p + 1 records, repeatedly take the half that is nearest to the
    mean of the last in its covariance, first on some of the records, then from the best sets on all of them.
    """
    n, p = x.shape
    part = x if n <= MCD_ROWS else x[rng.choice(n, MCD_ROWS, replace=False)]
    size = max(-(-half * len(part) // n), min(p + 1, len(part)))

    def moments(points: Array) -> tuple[Array, Array]:
        mean = points.mean(axis=1)
        away = points - mean[:, None]
        return mean, np.swapaxes(away, 1, 2) @ away / points.shape[1]

    def nearest(rows: Array, mean: Array, covariance: Array, many: int) -> tuple[Array, Array]:
        floor = 1e-10 * np.trace(covariance, axis1=1, axis2=2)[:, None, None] * np.eye(p) + 1e-300 * np.eye(p)
        white = np.swapaxes(np.linalg.inv(np.linalg.cholesky(covariance + floor)), 1, 2)
        away = rows @ white - mean[:, None] @ white
        distance = np.einsum("sij,sij->si", away, away)
        return moments(rows[np.argpartition(distance, many - 1, axis=1)[:, :many]])

    chosen = np.argsort(rng.random((MCD_STARTS, len(part))), axis=1)[:, : min(p + 1, len(part))]
    mean, covariance = moments(part[chosen])
    for _ in range(2):
        mean, covariance = nearest(part, mean, covariance, size)
    best = np.argsort(np.linalg.det(covariance), kind="stable")[:5]
    mean, covariance = mean[best], covariance[best]
    last = np.full(len(best), np.inf)
    for _ in range(200):
        mean, covariance = nearest(x, mean, covariance, half)
        now = np.linalg.det(covariance)
        if (now >= last * (1 - 1e-12)).all():
            break
        last = now
    place = int(np.argmin(now))
    return mean[place], covariance[place]


def robust_covariance(scaled: Array, which: str, seed: int = 0, flat: bool = False) -> Array:
    """Minimum covariance determinant: of half of the records, then of those within its 97.5 % ellipsoid.

    Factors for consistency under the normal and for small files are those of R's covMcd. Half of the records may lie on
    a plane, as groups of equal records do: then, if ``flat`` may be, the covariance of all records on it.
    """
    n, p = scaled.shape
    half = (n + p + 1) // 2
    mean, covariance = _smallest_half(scaled, half, as_generator(seed))
    variances, axes = np.linalg.eigh(covariance)
    none = variances <= 1e-12 * max(float(variances[-1]), 1e-300)
    away = scaled - mean
    if n <= p or (none.any() and not flat):
        what = "Robust eigenvalues need columns that vary in any half of the records, none a function of others"
        raise InputError(what, f"{n} rows, {p} columns in {which}", "Write robust=False, or use fewer columns")
    if none.any():
        on = (np.abs(away @ axes[:, none]) < 1e-6).all(axis=1)
        return np.cov(scaled[on].T).reshape(p, p)
    raw = covariance * (half / (half - 1) * _consistency_factor(half / n, p) * _small_file_factor(n, p, PISON_RAW))
    near = np.einsum("ij,ij->i", away, np.linalg.solve(raw, away.T).T) < special.chdtri(p, 0.025)
    if near.all():
        return np.cov(scaled.T).reshape(p, p)
    return np.cov(scaled[near].T).reshape(p, p) * (
        _consistency_factor(float(near.mean()), p) * _small_file_factor(n, p, PISON_FINAL)
    )


def _consistency_factor(share: float, p: int) -> float:
    """Normal variance over that of the innermost share of p normal variables."""
    if share >= 1:
        return 1.0
    return share / float(special.gammainc(p / 2 + 1, special.chdtri(p, 1 - share) / 2))


def _small_file_factor(n: int, p: int, table: tuple[tuple[float, float], ...]) -> float:
    """The factor of Pison, Van Aelst and Willems (2002) for half of n records; none for very small files.

    One and two variables have laws of their own, 1 - exp(a) / n^b; of more, the law goes through -a / p^b at
    n = 2 p^2 and n = 3 p^2.
    """
    if p > 2:
        at = np.log([2.0 * p * p, 3.0 * p * p])
        low, high = (np.log(-a) - b * np.log(p) for a, b in table[2:])
        b = (low - high) / (at[1] - at[0])
        a = low + b * at[0]
    else:
        a, b = table[p - 1]
    left = 1.0 - np.exp(a - b * np.log(n))
    return 1.0 / float(left) if n > max(10, 2 * p + 4) else 1.0


def wasserstein(first: ArrayLike, second: ArrayLike, order: float = 1.0) -> float:
    """Wasserstein distance of two samples of one variable, of any sizes.

    >>> wasserstein([0, 1], [2, 3])
    2.0
    """
    a, b = (Law.of(np.asarray(v, dtype=np.float64).reshape(-1), None) for v in (first, second))
    return float(_transport_costs([a], [b], check_number("order", order, low=1))[0] ** (1 / order))


def _sorted_projections(across: Array, directions: Array, weights: Array | None) -> Iterator[Law]:
    """The sorted projection on each direction; ``across`` is (variables, records): projections lie in one piece."""
    for start in range(0, directions.shape[1], TOGETHER):
        for row in directions[:, start : start + TOGETHER].T @ across:
            yield Law.of(row, weights)


def _transport_costs(first: Iterable[Law], second: Iterable[Law], order: float) -> Array:
    """Integral of |quantile - quantile|^order of each pair of laws."""
    found: list[float] = []
    steps: Any = None
    for (a, upto_a), (b, upto_b) in zip(first, second, strict=True):
        if upto_a is None and upto_b is None and len(a) == len(b):
            gap = np.abs(a - b)
            found.append(float((gap if order == 1 else gap**order).mean()))
            continue
        # Quantile functions are steps: between two steps of either both are constant.
        if upto_a is not None or upto_b is not None:
            both = [np.arange(1, len(v) + 1) / len(v) if u is None else u for v, u in ((a, upto_a), (b, upto_b))]
            ends = np.union1d(*both)
            middle = ends - np.diff(ends, prepend=0) / 2
            places = [np.minimum(np.searchsorted(u, middle), len(u) - 1) for u in both]
            steps = np.diff(ends, prepend=0), places[0], places[1]
        elif steps is None:
            # Whole numbers keep the steps exact, and they are the same for all laws of these lengths.
            n, m = len(a), len(b)
            ends = np.union1d(np.arange(1, n + 1) * m, np.arange(1, m + 1) * n)
            steps = np.diff(ends, prepend=0) / (n * m), (ends - 1) // m, (ends - 1) // n
        width, one, other = steps
        gap = np.abs(a[one] - b[other])
        found.append(float(width @ (gap if order == 1 else gap**order)))
    return np.array(found)


def _energy_distance_1d(first: Law, second: Law) -> float:
    """Energy distance of one variable: twice the area of (F - G)^2."""
    pieces = step_differences(first, second)
    return 2 * sum(float(np.square(gap[:-1]) @ np.diff(values)) for values, gap in pieces)


def _mean_distance(first: Array, second: Array, a: Array, b: Array) -> float:
    """Mean Euclidean distance over all pairs of records with several variables, each record with its share."""
    if len(a) * len(b) <= FEW_PAIRS:
        return float(a @ cdist(first, second) @ b)
    across = np.ascontiguousarray(first.T), np.ascontiguousarray(second.T)
    return float(sum_distances(*across, a * len(a), b * len(b), first is second)) / (len(a) * len(b))


def _record_displacements(white: Array, other: Array) -> tuple[Array, Array, Array]:
    """How far each record moved, how much its distance from the mean changed, and its move; records are columns."""
    size = [np.linalg.norm(v, axis=0) for v in (white, other)]
    return np.linalg.norm(white - other, axis=0), np.abs(size[0] - size[1]), other - white


def _relative_spectrum_change(spectrum: Array, other: Array, parts: dict[str, float] | None = None) -> Measured:
    return Measured(float((np.abs(spectrum - other) / spectrum).sum()), parts=parts)


def _column_standard_deviations(who: str, sums: ColumnMoments, which: str) -> Array:
    """Standard deviations from sums; columns of equal numbers are refused by name."""
    sd = np.sqrt(np.diag(checked_covariance(who, which, sums, 1)))
    refuse_constant(who, which, sums.names, sd)
    return sd


@compiled(fastmath=frozenset({"nnan", "ninf", "nsz", "contract", "reassoc"}))
def sum_distances(first: Array, second: Array, a: Array, b: Array, same: bool) -> float:
    """Sum of Euclidean distances over all pairs of columns, weighted; with ``same`` each counts twice, taken once."""
    p, n = first.shape
    m = second.shape[1]
    total = 0.0
    square = np.empty(256)
    # A few columns at a time stay in the processor's nearest memory while all the others pass by.
    for low in range(0, m, 256):
        high = min(low + 256, m)
        for i in range(min(n, high - 1) if same else n):
            start = max(low, i + 1) if same else low
            size = high - start
            for j in range(size):
                square[j] = 0.0
            for d in range(p):
                at = first[d, i]
                row = second[d, start:high]
                for j in range(size):
                    gap = row[j] - at
                    square[j] += gap * gap
            part = 0.0
            for j in range(size):
                part += b[start + j] * np.sqrt(square[j])
            total += a[i] * part
    return 2.0 * total if same else total
