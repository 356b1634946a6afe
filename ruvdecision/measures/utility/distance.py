"""Broad utility: distances between the two files as clouds of points, and between records and their masked selves."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...checks import check_integer, check_number
from ...errors import InputError, UnsupportedError
from ...protocols import Array
from ..base import Measure, Measured, need
from ..frames import numeric, refuse_vanishing, spreads
from ..kernels import compiled
from ..sums import Moments, Same, Together
from .distribution_steps import step_differences
from .divergence import _definite, _moments, _summed

__all__ = ["Eigenvalues", "EnergyDistance", "IL1s", "Mahalanobis", "SlicedWasserstein", "Wasserstein", "wasserstein"]

TOGETHER = 8
"""Directions that are projected on at a time."""
KEPT = 20_000_000
"""Sorted projections of the original are kept for the next release if they are at most so many numbers."""


@dataclass(frozen=True, repr=False)
class _Cloud(Measure):
    """Numeric columns in units of the original's standard deviations."""

    columns: Any = None
    standardise: bool = True

    def units(self, original: pd.DataFrame) -> tuple[Array, Array]:
        """The original in its units, and the units."""
        values = numeric(self.name, original)
        if not self.standardise:
            return values, np.ones(values.shape[1])
        spread = _spread(self.name, values, original.columns)
        return values / spread, spread


@dataclass(frozen=True, repr=False)
class EnergyDistance(_Cloud):
    """Energy distance 2 E|X - Y| - E|X - X'| - E|Y - Y'| between the files, X and Y drawn from them. Zero for equal files.

    Exact, over all pairs: time n^2 for several variables (n log n for one), no matrix of distances is held. ``parts`` has the square
    root, which is a metric. Szekely and Rizzo (2013).

    Parameters
    ----------
    columns : names, optional
        Numeric columns.
    standardise : bool
        In units of the original's standard deviations.

    Examples
    --------
    >>> EnergyDistance(standardise=False)([0, 1], [2, 3])
    3.0
    """

    label: ClassVar[str] = "energy"
    reference: ClassVar[str] = "Szekely and Rizzo (2013)"

    def begin(self, original: pd.DataFrame) -> tuple[Array, Array, float]:
        values, units = self.units(original)
        if values.shape[1] == 1:
            return np.sort(values, axis=0), units, 0.0
        return values, units, _mean_distance(values, values)

    def compare(self, state: tuple[Array, Array, float], released: pd.DataFrame) -> Measured:
        first, units, within = state
        second = numeric(self.name, released, "the release") / units
        if second.shape[1] == 1:
            values, gap = step_differences(first[:, 0], np.sort(second[:, 0]))
            value = 2 * float(
                np.square(gap[:-1]) @ np.diff(values)
            )  # of one variable it is twice the area of (F - G)^2
        else:
            value = max(2 * _mean_distance(first, second) - within - _mean_distance(second, second), 0.0)
        return Measured(value, parts={"root": float(np.sqrt(value))})


@dataclass(frozen=True, repr=False)
class Wasserstein(_Cloud):
    """The mean over variables of the Wasserstein distance between the files' distributions of that variable.

    What it costs to move one distribution onto the other. Looks at margins only; `SlicedWasserstein` sees dependence too.

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

    order: float = 1.0

    label: ClassVar[str] = "Wasserstein"
    reference: ClassVar[str] = "Villani (2003), section 2.2"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "order", check_number("order", self.order, low=1))

    def begin(self, original: pd.DataFrame) -> tuple[Array, Array, list[str]]:
        values, units = self.units(original)
        return np.sort(values, axis=0), units, [str(c) for c in original.columns]

    def compare(self, state: tuple[Array, Array, list[str]], released: pd.DataFrame) -> Measured:
        first, units, names = state
        second = np.sort(numeric(self.name, released, "the release") / units, axis=0)
        each = _transport(first, second, self.order, _steps(len(first), len(second))) ** (1 / self.order)
        return Measured(float(each.mean()), parts=dict(zip(names, each.tolist(), strict=True)))


@dataclass(frozen=True, repr=False)
class SlicedWasserstein(_Cloud):
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

    Time n log n for each direction, and n p to project; memory n p, a few directions at a time. The sorted projections of the
    original are kept for the next release unless they are many.

    Examples
    --------
    >>> SlicedWasserstein()([[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]])
    0.0
    """

    projections: int = 200
    order: float = 2.0
    seed: int = 0

    label: ClassVar[str] = "sliced Wasserstein"
    reference: ClassVar[str] = "Rabin, Peyre, Delon and Bernot (2011)"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "projections", check_integer("projections", self.projections, low=2))
        object.__setattr__(self, "order", check_number("order", self.order, low=1))
        object.__setattr__(self, "seed", check_integer("seed", self.seed, low=0))

    def begin(self, original: pd.DataFrame) -> tuple[Array, list[Array] | None, Array, Array]:
        values, units = self.units(original)
        directions = np.random.default_rng(self.seed).standard_normal((values.shape[1], self.projections))
        directions /= np.linalg.norm(directions, axis=0)
        across = np.ascontiguousarray(values.T)
        kept = list(_projected(across, directions)) if len(values) * self.projections <= KEPT else None
        return across, kept, units, directions

    def compare(self, state: tuple[Array, list[Array] | None, Array, Array], released: pd.DataFrame) -> Measured:
        across, kept, units, directions = state
        second = np.ascontiguousarray((numeric(self.name, released, "the release") / units).T)
        steps = _steps(across.shape[1], second.shape[1])
        pairs = zip(
            _projected(across, directions) if kept is None else kept, _projected(second, directions), strict=True
        )
        power = np.array([_transport(a, b, self.order, steps) for a, b in pairs])
        mean = float(power.mean())
        if mean == 0:
            return Measured(0.0)
        value = mean ** (1 / self.order)
        # One variable has one direction up to sign, which does not matter: there is nothing random then.
        error = (
            0.0
            if len(directions) == 1
            else float(power.std(ddof=1)) / np.sqrt(len(power)) * value / (self.order * mean)
        )
        return Measured(value, float(error))


@dataclass(frozen=True, repr=False)
class IL1s(Measure):
    """IL1s: the mean over records and variables of |x - y| / (sqrt(2) S), S the original's standard deviation of the variable.

    Compares each record with its own masked version. Yancey, Winkler and Creecy (2002). R's sdcMicro multiplies by sqrt(2) where the
    definition divides; its number, twice as large, is ``parts["sdcMicro"]``.

    Examples
    --------
    >>> round(IL1s()([0, 2], [1, 2]), 6)
    0.25
    """

    columns: Any = None

    label: ClassVar[str] = "IL1s"
    reference: ClassVar[str] = "Yancey, Winkler and Creecy (2002); Mateo-Sanz, Sebe and Domingo-Ferrer (2004)"
    matched: ClassVar[bool] = True

    def begin(self, original: pd.DataFrame) -> tuple[Array, Array, list[str]]:
        values = numeric(self.name, original)
        return values, _spread(self.name, values, original.columns), [str(c) for c in original.columns]

    def compare(self, state: tuple[Array, Array, list[str]], released: pd.DataFrame) -> Measured:
        first, spread, names = state
        return self._made_of(
            np.abs(numeric(self.name, released, "the release") - first).mean(axis=0) / (np.sqrt(2) * spread), names
        )

    def partial(self, piece: pd.DataFrame, plan: Any, which: str) -> Together:
        return _moments_of(self.name, piece, which)

    def paired(self, original: pd.DataFrame, released: pd.DataFrame, sums: Together) -> Moments:
        return Moments.of(np.abs(numeric(self.name, released, "the release") - numeric(self.name, original)))

    def total(self, original: Together, released: Moments, plan: Any) -> Measured:
        names = original.of["columns"].value
        spread = _varying(self.name, original.of["moments"], names, "the original")
        return self._made_of(released.mean / (np.sqrt(2) * spread), names)

    def _made_of(self, each: Array, names: list[str]) -> Measured:
        value = float(each.mean())
        return Measured(value, parts={"sdcMicro": 2 * value, **dict(zip(names, each.tolist(), strict=True))})


@dataclass(frozen=True, repr=False)
class Eigenvalues(Measure):
    """The sum of |l - l'| / l over the eigenvalues of the two correlation matrices, largest to smallest.

    sdcMicro's "eigen" (and "robeigen" with ``robust``). Templ and Meindl (2008). A release without variation in a column has no
    correlation matrix: an error says which.

    Parameters
    ----------
    columns : names, optional
        Numeric columns.
    robust : bool
        Minimum covariance determinant estimates of the standardised data, by scikit-learn, instead of correlations.
    seed : int
        Where the search for the robust estimate starts.

    Examples
    --------
    >>> Eigenvalues()([[0, 0], [1, 1], [2, 1]], [[0, 0], [1, 1], [2, 1]])
    0.0
    """

    columns: Any = None
    robust: bool = False
    seed: int = 0

    label: ClassVar[str] = "eigenvalues"
    reference: ClassVar[str] = "Templ and Meindl (2008); sdcMicro's dUtility"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "seed", check_integer("seed", self.seed, low=0))

    def begin(self, original: pd.DataFrame) -> Array:
        values = numeric(self.name, original)
        _, cov = _moments(values, self.name, "the original", original.columns)
        _definite(cov, [str(c) for c in original.columns], self.name, values.shape)
        return self._spectrum(values, original.columns, "the original")

    def compare(self, state: Array, released: pd.DataFrame) -> Measured:
        other = self._spectrum(numeric(self.name, released, "the release"), released.columns, "the release")
        return Measured(float((np.abs(state - other) / state).sum()))

    def partial(self, piece: pd.DataFrame, plan: Any, which: str) -> Together:
        if self.robust:
            raise UnsupportedError(
                "Robust eigenvalues are no sum over records", do="Leave chunksize= out, or write robust=False"
            )
        return _moments_of(self.name, piece, which)

    def total(self, original: Together, released: Together, plan: Any) -> Measured:
        names = original.of["columns"].value
        mean, cov = _summed(original.of["moments"], self.name, "the original", names)
        _definite(cov, names, self.name, (original.of["moments"].n, len(mean)))
        spectra = []
        for sums, which in ((original.of["moments"], "the original"), (released.of["moments"], "the release")):
            spread = _varying(self.name, sums, names, which)
            spectra.append(np.linalg.eigvalsh(sums.covariance(1) / np.outer(spread, spread))[::-1])
        return Measured(float((np.abs(spectra[0] - spectra[1]) / spectra[0]).sum()))

    def _spectrum(self, values: Array, columns: Any, which: str) -> Array:
        scaled = (values - values.mean(axis=0)) / _spread(self.name, values, columns, which)
        cov: Array = self._determinant(scaled, which) if self.robust else scaled.T @ scaled / (len(scaled) - 1)
        return np.asarray(np.linalg.eigvalsh(cov)[::-1])

    def _determinant(self, scaled: Array, which: str) -> Array:
        """Minimum covariance determinant; half of the records must span all columns."""
        covariance = need("sklearn.covariance", "Robust eigenvalues")
        with warnings.catch_warnings():
            # scikit-learn warns where the half that it chose is degenerate, and goes on with what it has.
            warnings.simplefilter("error")
            try:
                return np.asarray(covariance.MinCovDet(random_state=self.seed).fit(scaled).covariance_)
            except (UserWarning, RuntimeWarning, ValueError):
                what = f"Robust eigenvalues need records of which every half has columns that vary, none a function of others, in {which}"
                raise InputError(
                    what,
                    f"{scaled.shape[0]} rows, {scaled.shape[1]} columns",
                    "Write robust=False, or use fewer columns",
                ) from None


@dataclass(frozen=True, repr=False)
class Mahalanobis(Measure):
    """The mean Mahalanobis distance between each record and its masked version, in the original's covariance.

    ``parts`` has the distance between the means of the files, and the mean absolute change of a record's own distance from
    the original's mean, which tells whether outliers stay outliers.

    Examples
    --------
    >>> round(Mahalanobis()([0, 2], [1, 2]), 6)
    0.353553
    """

    columns: Any = None

    label: ClassVar[str] = "Mahalanobis"
    reference: ClassVar[str] = "Templ and Meindl (2008)"
    matched: ClassVar[bool] = True

    def begin(self, original: pd.DataFrame) -> tuple[Any, Any, Array]:
        values = numeric(self.name, original)
        mean, cov = _moments(values, self.name, "the original", original.columns)
        _definite(cov, [str(c) for c in original.columns], self.name, values.shape)
        root = np.linalg.cholesky(cov * len(values) / (len(values) - 1))
        white = np.linalg.solve(root, (values - mean).T)
        return white, root, mean

    def compare(self, state: tuple[Array, Array, Array], released: pd.DataFrame) -> Measured:
        white, root, mean = state
        other = np.linalg.solve(root, (numeric(self.name, released, "the release") - mean).T)
        moved = np.linalg.norm(white - other, axis=0)
        outlying = np.abs(np.linalg.norm(white, axis=0) - np.linalg.norm(other, axis=0))
        parts = {
            "means": float(np.linalg.norm(other.mean(axis=1) - white.mean(axis=1))),
            "outlyingness": float(outlying.mean()),
        }
        return Measured(float(moved.mean()), parts=parts, records=moved)

    def partial(self, piece: pd.DataFrame, plan: Any, which: str) -> Together:
        return _moments_of(self.name, piece, which)

    def paired(self, original: pd.DataFrame, released: pd.DataFrame, sums: Together) -> Moments:
        mean, root = self._frame(sums)
        tables = ((original, "the original"), (released, "the release"))
        white, other = (np.linalg.solve(root, (numeric(self.name, table, which) - mean).T) for table, which in tables)
        size = [np.linalg.norm(v, axis=0) for v in (white, other)]
        return Moments.of(
            np.vstack([np.linalg.norm(white - other, axis=0), np.abs(size[0] - size[1]), other - white]).T
        )

    def total(self, original: Together, released: Moments, plan: Any) -> Measured:
        moved, outlying, *shift = released.mean
        return Measured(float(moved), parts={"means": float(np.linalg.norm(shift)), "outlyingness": float(outlying)})

    def _frame(self, sums: Together) -> tuple[Array, Array]:
        moments = sums.of["moments"]
        names = sums.of["columns"].value
        mean, cov = _summed(moments, self.name, "the original", names)
        _definite(cov, names, self.name, (moments.n, len(mean)))
        return mean, np.linalg.cholesky(cov * moments.n / (moments.n - 1))


def wasserstein(first: Any, second: Any, order: float = 1.0) -> float:
    """Wasserstein distance of two samples of one variable, of any sizes.

    >>> wasserstein([0, 1], [2, 3])
    2.0
    """
    a, b = (np.sort(np.asarray(v, dtype=np.float64).reshape(-1, 1), axis=0) for v in (first, second))
    return float(_transport(a, b, check_number("order", order, low=1), _steps(len(a), len(b)))[0] ** (1 / order))


def _projected(across: Array, directions: Array) -> Iterator[Array]:
    """The sorted projection on each direction; ``across`` is (variables, records), so that projections lie in one piece."""
    for start in range(0, directions.shape[1], TOGETHER):
        for row in directions[:, start : start + TOGETHER].T @ across:
            yield np.sort(row)


def _steps(n: int, m: int) -> tuple[Array, Any, Any] | None:
    """Widths of the steps of two quantile functions, and which value of each belongs to them; None if the files have one length."""
    if n == m:
        return None
    # Quantile functions are steps: between two steps of either both are constant. Whole numbers keep the steps exact.
    steps = np.union1d(np.arange(1, n + 1) * m, np.arange(1, m + 1) * n)
    return np.diff(steps, prepend=0) / (n * m), (steps - 1) // m, (steps - 1) // n


def _transport(first: Array, second: Array, order: float, steps: tuple[Array, Any, Any] | None) -> Any:
    """Integral of |quantile - quantile|^order of each column; columns are sorted, ``steps`` are of their lengths."""
    if steps is None:
        gap = np.abs(first - second)
        return gap.mean(axis=0) if order == 1 else (gap**order).mean(axis=0)
    width, one, other = steps
    gap = np.abs(first[one] - second[other])
    return width @ (gap if order == 1 else gap**order)


def _mean_distance(first: Array, second: Array) -> float:
    """Mean Euclidean distance over all pairs of records with several variables."""
    total = compiled("sum_distances")(np.ascontiguousarray(first.T), np.ascontiguousarray(second.T), first is second)
    return float(total) / (len(first) * len(second))


def _moments_of(who: str, piece: pd.DataFrame, which: str) -> Together:
    return Together(
        {"columns": Same([str(c) for c in piece.columns]), "moments": Moments.of(numeric(who, piece, which))}
    )


def _varying(who: str, sums: Moments, columns: Any, which: str) -> Array:
    """Standard deviations from sums; columns of equal numbers are refused by name."""
    if sums.n < 2:
        raise InputError(f"{who} needs at least two rows in {which}", f"{sums.n}", "Use a larger file")
    refuse_vanishing(who, which, columns, sums.high > sums.low, np.diag(sums.covariance(1)))
    spread = sums.spreads()
    if np.any(spread == 0):
        flat = [str(c) for c, s in zip(columns, spread, strict=True) if s == 0]
        raise InputError(
            f"{who} needs columns that vary in {which}",
            f"constant {', '.join(flat)}",
            "Leave them out with columns=[...]",
        )
    return spread


def _spread(who: str, values: Array, columns: Any, which: str = "the original") -> Array:
    if len(values) < 2:
        raise InputError(f"{who} needs at least two rows in {which}", f"{len(values)}", "Use a larger file")
    spread = spreads(values)
    if np.any(spread == 0):
        flat = [str(c) for c, s in zip(columns, spread, strict=True) if s == 0]
        raise InputError(
            f"{who} needs columns that vary in {which}",
            f"constant {', '.join(flat)}",
            "Leave them out with columns=[...]",
        )
    return spread
