"""Statistics other than regressions that two files can be compared by: means, quantiles, correlations, functions."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from ...checks import as_generator, check_fields, check_integer, check_kind, check_number, checked, is_single
from ...errors import InputError, UnsupportedError
from ...protocols import Array
from ..frames import (
    Names,
    as_names,
    check_enough_rows,
    numeric,
    pick_columns,
    refuse_constant,
    refuse_vanishing,
    weighted_quantile,
)
from ..sums import ColumnMoments, moments_of
from .regression import Fit


@dataclass(frozen=True)
class _Compared:
    """A statistic of the original, ready to be compared with the release's."""

    statistic: _Estimates
    fit: Fit

    def fits_with_release(self, released: pd.DataFrame, *weights: Array) -> tuple[Fit, Fit]:
        return self.fit, self.statistic.fit(released, "the release", *weights)


class _Estimates:
    """What the statistics share: the columns they look at and the numbers in them."""

    columns: Names

    def __post_init__(self) -> None:
        check_fields(self)

    def variables(self, table: pd.DataFrame) -> list[Hashable]:
        """The columns that the statistic looks at."""
        return pick_columns(type(self).__name__, self.columns, table)

    def fit_original(self, original: pd.DataFrame, *weights: Array) -> _Compared:
        """Estimate from the original."""
        return _Compared(self, self.fit(original, "the original", *weights))

    def fit(self, table: pd.DataFrame, which: str = "the original", weights: Array | None = None) -> Fit:
        """Estimate from one data set, whose records may have weights."""
        raise NotImplementedError

    def _numeric_values(self, table: pd.DataFrame, which: str) -> tuple[Array, list[str]]:
        part = table[self.variables(table)]
        values = numeric(type(self).__name__, part, which)
        check_enough_rows(type(self).__name__, len(values), 2, which)
        return values, [str(c) for c in part.columns]

    def __str__(self) -> str:
        named = () if self.columns is None else as_names("columns", self.columns)
        return f"{type(self).__name__}({', '.join(map(str, named))})"


@dataclass(frozen=True)
class _Summed(_Estimates):
    """Estimates from moments, which files in pieces can give, too."""

    columns: Names = checked(None, as_names)

    def survey(self, piece: pd.DataFrame) -> None:
        """Nothing needs to be known before."""

    def settle(self, original: None, released: None) -> None:
        """Nothing needs to be settled."""

    def sums_of(self, piece: pd.DataFrame, plan: None, which: str, weights: Array | None = None) -> ColumnMoments:
        """Moments of one piece of a file."""
        return moments_of(type(self).__name__, piece[self.variables(piece)], which, weights)

    def compare_sums(self, original: ColumnMoments, released: ColumnMoments, plan: None) -> tuple[Fit, Fit]:
        """The fits of both files."""
        return self._fit_from_sums(original, "the original"), self._fit_from_sums(released, "the release")

    def fit(self, table: pd.DataFrame, which: str = "the original", weights: Array | None = None) -> Fit:
        """Estimate from one data set."""
        return self._fit_from_sums(self.sums_of(table, None, which, weights), which)

    def _fit_from_sums(self, sums: ColumnMoments, which: str) -> Fit:
        raise NotImplementedError


@dataclass(frozen=True)
class Means(_Summed):
    """Means of columns, with the t law of n - 1 degrees of freedom (normal data, or many records).

    >>> Means(["x"]).fit(pd.DataFrame({"x": [1.0, 2.0, 3.0]})).estimate.tolist()
    [2.0]
    """

    def _fit_from_sums(self, sums: ColumnMoments, which: str) -> Fit:
        check_enough_rows("Means", sums.n, 2, which)
        # Columns of equal numbers have standard error zero, whatever rounding does to their mean.
        scale = sums.covariance(1) / sums.n
        refuse_vanishing("Means", which, sums.names, sums.varies, np.diag(scale))
        names = tuple(f"mean {c}" for c in sums.names)
        return Fit(names, sums.mean, np.sqrt(np.diag(scale)), sums.n - 1.0, scale, sums.n)


@dataclass(frozen=True)
class Correlations(_Summed):
    """Pearson correlations of all pairs of columns on Fisher's z scale: normal with variance 1/(n - 3) (normal data).

    The overlap of probabilities does not depend on the scale; estimates are shown as z.

    >>> Correlations().fit(pd.DataFrame({"a": [1, 2, 3, 4, 5.0], "b": [1, 3, 2, 5, 4.0]})).estimate.round(6).tolist()
    [1.098612]
    """

    def _fit_from_sums(self, sums: ColumnMoments, which: str) -> Fit:
        check_enough_rows("Correlations", sums.n, 4, which)
        names = sums.names
        if len(names) < 2:
            raise InputError("Correlations need at least two columns", ", ".join(names), "Name more columns")
        covariance = sums.covariance(1)
        refuse_vanishing("Correlations", which, names, sums.varies, np.diag(covariance))
        sd = np.sqrt(np.diag(covariance))
        refuse_constant("Correlations", which, names, sd)
        i, j = np.triu_indices(len(names), 1)
        z = np.arctanh(np.clip((covariance / np.outer(sd, sd))[i, j], -1 + 1e-15, 1 - 1e-15))
        labels = tuple(f"correlation {names[a]}, {names[b]}" for a, b in zip(i, j, strict=True))
        return Fit(labels, z, np.full(len(z), 1 / np.sqrt(sums.n - 3)), np.inf, None, sums.n)


def _check_probabilities(name: str, given: Any) -> tuple[float, ...]:
    at = (given,) if is_single(given) else tuple(given)
    if not at:
        raise InputError("Quantiles need a probability", "none", f"Write {name}=[0.25, 0.5, 0.75]")
    return tuple(check_number(name, q, low=0, high=1, open_low=True, open_high=True) for q in at)


@dataclass(frozen=True)
class Quantiles(_Estimates):
    """Quantiles of columns with the standard errors of Maritz and Jarrett (1978), normal law.

    They are those of an infinite bootstrap of the order statistic, in closed form: no random numbers.

    >>> Quantiles(["x"], at=[0.5]).fit(pd.DataFrame({"x": [3.0, 1.0, 2.0]})).estimate.round(6).tolist()
    [2.0]
    """

    columns: Names = checked(None, as_names)
    at: Any = checked((0.25, 0.5, 0.75), _check_probabilities)

    def fit(self, table: pd.DataFrame, which: str = "the original", weights: Array | None = None) -> Fit:
        values, names = self._numeric_values(table, which)
        n = len(values)
        labels, estimates, errors = [], [], []
        order = np.argsort(values, axis=0, kind="stable")
        ordered = np.take_along_axis(values, order, axis=0)
        for q in self.at:
            # The order statistic that the quantile falls on: its bootstrap weights are increments of a beta law.
            m = q * (n + 1)
            a, b = min(max(m, 1.0), float(n)), min(max(n + 1 - m, 1.0), float(n))
            even = np.diff(special.betainc(a, b, np.arange(n + 1) / n))
            for c, name in enumerate(names):
                w, weight = None, even
                if weights is not None:
                    w = weights[order[:, c]]
                    weight = np.diff(special.betainc(a, b, np.minimum(np.append(0.0, np.cumsum(w) / w.sum()), 1.0)))
                centre = float(weighted_quantile(ordered[:, c], q, w))
                moved = ordered[:, c] - centre
                # In units of the largest: the squares of tiny numbers would vanish.
                peak = max(float(np.abs(moved).max()), float(np.finfo(np.float64).tiny))
                second = weight @ (moved / peak) ** 2 - (weight @ (moved / peak)) ** 2
                labels.append(f"quantile {q:g} of {name}")
                estimates.append(centre)
                errors.append(float(peak * np.sqrt(max(second, 0.0))))
        return Fit(tuple(labels), np.array(estimates), np.array(errors), np.inf, None, n)


@dataclass(frozen=True)
class Statistic(_Estimates):
    """Any function of a data set, with a bootstrap covariance and a normal law.

    Parameters
    ----------
    function : callable
        Takes the matrix of the chosen columns (rows are records) and gives a number or a vector.
    columns : names, optional
        The columns it sees.
    draws : int
        Bootstrap samples. The same resampled rows are used for the original and the release when they have as many
        rows.
    seed : int
        Where the random numbers start.

    Examples
    --------
    >>> spread = Statistic(lambda x: x.std(axis=0, ddof=1), columns=["x"], draws=50)
    >>> spread.fit(pd.DataFrame({"x": [1.0, 2.0, 3.0]})).estimate.tolist()
    [1.0]
    """

    function: Callable[[Array], Any]
    columns: Names = checked(None, as_names)
    draws: int = checked(500, check_integer, low=20)
    seed: int = checked(0, check_integer, low=0)
    label: str = "statistic"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.function):
            raise InputError("A Statistic needs a function", self.function, "Write Statistic(lambda x: x.mean(axis=0))")
        check_kind("The label of a Statistic", self.label, str, 'Write label="spread"')

    def fit(self, table: pd.DataFrame, which: str = "the original", weights: Array | None = None) -> Fit:
        if weights is not None:
            do = "Let the function weigh a column of its own, or use Means, Quantiles, Correlations or a formula"
            raise UnsupportedError(f"{self.label} is a function that is not told the weights of records", do=do)
        values, _ = self._numeric_values(table, which)
        ask = lambda x: np.atleast_1d(np.asarray(self.function(x), dtype=np.float64))  # noqa: E731
        estimate, n = ask(values), len(values)
        if estimate.ndim != 1 or not np.isfinite(estimate).all():
            got = f"shape {estimate.shape}, {int(np.sum(~np.isfinite(estimate)))} not finite"
            what = f"The function must give finite numbers for {which}"
            raise InputError(what, got, "Give back a number or a vector")
        rng = as_generator(self.seed)
        samples = [ask(values[rng.integers(0, n, n)]) for _ in range(self.draws)]
        odd = next((s.size for s in samples if s.shape != estimate.shape), None)
        if odd is not None:
            raise InputError(
                f"The function must give as many numbers for every bootstrap sample of {which}",
                f"{len(estimate)} for the file and {odd} for a sample",
                "Give back a vector of fixed length",
            )
        again = np.stack(samples)
        if not np.isfinite(again).all():
            what = f"The function gives values that are not finite for bootstrap samples of {which}"
            raise InputError(what, self.label, "Choose a statistic that every sample has")
        scale = np.atleast_2d(np.cov(again, rowvar=False))
        names = (self.label,) if len(estimate) == 1 else tuple(f"{self.label}[{i}]" for i in range(len(estimate)))
        return Fit(names, estimate, np.sqrt(np.diag(scale)), np.inf, scale, n)

    def __str__(self) -> str:
        return self.label
