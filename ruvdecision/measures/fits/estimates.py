"""Statistics other than regressions whose intervals two data sets can be compared by: means, quantiles, correlations, any function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from ...checks import check_integer, check_number
from ...errors import InputError
from ...protocols import Array
from ..frames import as_names, numeric, pick, refuse_vanishing
from ..sums import Moments, Same, Together
from .regression import Fit

__all__ = ["Correlations", "Means", "Quantiles", "Statistic"]


@dataclass(frozen=True)
class _Compared:
    """A statistic of the original, ready to be compared with the release's."""

    statistic: Any
    fit: Fit

    def against(self, released: pd.DataFrame) -> tuple[Fit, Fit]:
        return self.fit, self.statistic.fit(released, "the release")


@dataclass(frozen=True)
class _Estimates:
    columns: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", as_names(self.columns))

    def variables(self, table: pd.DataFrame) -> list[Any]:
        """The columns that the statistic looks at."""
        return list(table.columns) if self.columns is None else pick(type(self).__name__, self.columns, table)

    def start(self, original: pd.DataFrame) -> _Compared:
        """Estimate from the original."""
        return _Compared(self, self.fit(original))

    def fit(self, table: pd.DataFrame, which: str = "the original") -> Fit:
        raise NotImplementedError

    def _values(self, table: pd.DataFrame, which: str, rows: int) -> tuple[Array, list[str]]:
        part = table[self.variables(table)]
        values = numeric(type(self).__name__, part, which)
        self._enough(len(values), which, rows)
        return values, [str(c) for c in part.columns]

    def _enough(self, n: int, which: str, rows: int) -> None:
        if n < rows:
            raise InputError(
                f"{type(self).__name__} needs at least {rows} rows in {which}", f"{n}", "Use a larger file"
            )

    def __str__(self) -> str:
        return f"{type(self).__name__}({'' if self.columns is None else ', '.join(map(str, self.columns))})"


@dataclass(frozen=True)
class _Summed(_Estimates):
    """Estimates from moments, which files in pieces can give, too."""

    def survey(self, piece: pd.DataFrame) -> None:
        """Nothing needs to be known before."""

    def settle(self, original: None, released: None) -> None:
        """Nothing needs to be settled."""

    def partial(self, piece: pd.DataFrame, plan: Any, which: str) -> Together:
        """Moments of one piece of a file."""
        part = piece[self.variables(piece)]
        moments = Moments.of(numeric(type(self).__name__, part, which))
        return Together({"columns": Same([str(c) for c in part.columns]), "moments": moments})

    def total(self, original: Together, released: Together, plan: Any) -> tuple[Fit, Fit]:
        """The fits of both files."""
        pairs = ((original, "the original"), (released, "the release"))
        first, second = (self._from(s.of["moments"], s.of["columns"].value, which) for s, which in pairs)
        return first, second

    def _from(self, sums: Moments, names: list[str], which: str) -> Fit:
        raise NotImplementedError


@dataclass(frozen=True)
class Means(_Summed):
    """Means of columns, with the t law of n - 1 degrees of freedom (normal data, or many records).

    >>> Means(["x"]).fit(pd.DataFrame({"x": [1.0, 2.0, 3.0]})).estimate.tolist()
    [2.0]
    """

    def fit(self, table: pd.DataFrame, which: str = "the original") -> Fit:
        """Estimate from one data set."""
        values, names = self._values(table, which, 2)
        return self._from(Moments.of(values), names, which)

    def _from(self, sums: Moments, names: list[str], which: str) -> Fit:
        self._enough(sums.n, which, 2)
        # Columns of equal numbers have standard error zero, whatever rounding does to their mean.
        scale = sums.covariance(1) / sums.n
        refuse_vanishing("Means", which, names, sums.high > sums.low, np.diag(scale))
        return Fit(tuple(f"mean {c}" for c in names), sums.mean, np.sqrt(np.diag(scale)), sums.n - 1.0, scale, sums.n)


@dataclass(frozen=True)
class Correlations(_Summed):
    """Pearson correlations of all pairs of columns on Fisher's z scale: normal with variance 1/(n - 3) (normal data).

    The overlap of probabilities does not depend on the scale; estimates are shown as z.

    >>> Correlations().fit(pd.DataFrame({"a": [1, 2, 3, 4, 5.0], "b": [1, 3, 2, 5, 4.0]})).estimate.round(6).tolist()
    [1.098612]
    """

    def fit(self, table: pd.DataFrame, which: str = "the original") -> Fit:
        """Estimate from one data set."""
        values, names = self._values(table, which, 4)
        return self._from(Moments.of(values), names, which)

    def _from(self, sums: Moments, names: list[str], which: str) -> Fit:
        self._enough(sums.n, which, 4)
        if len(names) < 2:
            raise InputError("Correlations need at least two columns", ", ".join(names), "Name more columns")
        refuse_vanishing("Correlations", which, names, sums.high > sums.low, np.diag(sums.covariance(1)))
        spread = sums.spreads()
        if np.any(spread == 0):
            raise InputError(
                f"Correlations need columns that vary in {which}",
                ", ".join(n for n, s in zip(names, spread, strict=True) if s == 0),
                "Leave constant columns out",
            )
        i, j = np.triu_indices(len(names), 1)
        r = (sums.covariance(1) / np.outer(spread, spread))[i, j]
        z = np.arctanh(np.clip(r, -1 + 1e-15, 1 - 1e-15))
        se = np.full(len(z), 1 / np.sqrt(sums.n - 3))
        return Fit(
            tuple(f"correlation {names[a]}, {names[b]}" for a, b in zip(i, j, strict=True)), z, se, np.inf, None, sums.n
        )


@dataclass(frozen=True)
class Quantiles(_Estimates):
    """Quantiles of columns with the standard errors of Maritz and Jarrett (1978), normal law.

    They are those of an infinite bootstrap of the order statistic, in closed form: no random numbers.

    >>> Quantiles(["x"], at=[0.5]).fit(pd.DataFrame({"x": [3.0, 1.0, 2.0]})).estimate.round(6).tolist()
    [2.0]
    """

    at: Any = (0.25, 0.5, 0.75)

    def __post_init__(self) -> None:
        super().__post_init__()
        several = isinstance(self.at, (list, tuple, pd.Series)) or (
            isinstance(self.at, np.ndarray) and self.at.ndim > 0
        )
        at = tuple(self.at) if several else (self.at,)
        if not at:
            raise InputError("Quantiles need a probability", "none", "Write at=[0.25, 0.5, 0.75]")
        object.__setattr__(
            self, "at", tuple(check_number("at", q, low=0, high=1, open_low=True, open_high=True) for q in at)
        )

    def fit(self, table: pd.DataFrame, which: str = "the original") -> Fit:
        """Estimate from one data set."""
        values, names = self._values(table, which, 2)
        ordered = np.sort(values, axis=0)
        n = len(ordered)
        labels, estimates, errors = [], [], []
        grid = np.arange(n + 1) / n
        for q in self.at:
            # The order statistic that the quantile falls on: its bootstrap weights are increments of a beta law.
            m = q * (n + 1)
            a, b = min(max(m, 1.0), float(n)), min(max(n + 1 - m, 1.0), float(n))
            weight = np.diff(special.betainc(a, b, grid))
            centre = np.quantile(ordered, q, axis=0)
            moved = ordered - centre
            # In units of the largest: the squares of tiny numbers would vanish.
            peak = np.maximum(np.abs(moved).max(axis=0), np.finfo(np.float64).tiny)
            second = weight @ (moved / peak) ** 2 - (weight @ (moved / peak)) ** 2
            for c, name in enumerate(names):
                labels.append(f"quantile {q:g} of {name}")
                estimates.append(float(centre[c]))
                errors.append(float(peak[c] * np.sqrt(max(second[c], 0.0))))
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
        Bootstrap samples. The same resampled rows are used for the original and the release when they have as many rows.
    seed : int
        Where the random numbers start.

    Examples
    --------
    >>> spread = Statistic(lambda x: x.std(axis=0, ddof=1), columns=["x"], draws=50)
    >>> spread.fit(pd.DataFrame({"x": [1.0, 2.0, 3.0]})).estimate.tolist()
    [1.0]
    """

    function: Callable[[Array], Any] = field(default=np.mean)
    draws: int = 500
    seed: int = 0
    label: str = "statistic"

    def __init__(
        self,
        function: Callable[[Array], Any],
        columns: Any = None,
        draws: int = 500,
        seed: int = 0,
        label: str = "statistic",
    ) -> None:
        object.__setattr__(self, "columns", as_names(columns))
        if not callable(function):
            raise InputError("A Statistic needs a function", function, "Write Statistic(lambda x: x.mean(axis=0))")
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "draws", check_integer("draws", draws, low=20))
        object.__setattr__(self, "seed", check_integer("seed", seed, low=0))
        if not isinstance(label, str):
            raise InputError("The label of a Statistic is text", label, 'Write label="spread"')
        object.__setattr__(self, "label", label)

    def fit(self, table: pd.DataFrame, which: str = "the original") -> Fit:
        """Estimate from one data set."""
        values, _ = self._values(table, which, 2)
        estimate = np.atleast_1d(np.asarray(self.function(values), dtype=np.float64))
        if estimate.ndim != 1 or not np.isfinite(estimate).all():
            got = f"shape {estimate.shape}, {int(np.sum(~np.isfinite(estimate)))} not finite"
            raise InputError(
                f"The function must give finite numbers for {which}", got, "Give back a number or a vector"
            )
        rng = np.random.default_rng(self.seed)
        samples = [
            np.atleast_1d(
                np.asarray(self.function(values[rng.integers(0, len(values), len(values))]), dtype=np.float64)
            )
            for _ in range(self.draws)
        ]
        odd = next((s.size for s in samples if s.shape != estimate.shape), None)
        if odd is not None:
            raise InputError(
                f"The function must give as many numbers for every bootstrap sample of {which}",
                f"{len(estimate)} for the file and {odd} for a sample",
                "Give back a vector of fixed length",
            )
        again = np.stack(samples)
        if not np.isfinite(again).all():
            raise InputError(
                f"The function gives values that are not finite for bootstrap samples of {which}",
                self.label,
                "Choose a statistic that every sample has",
            )
        scale = np.atleast_2d(np.cov(again, rowvar=False))
        names = (self.label,) if len(estimate) == 1 else tuple(f"{self.label}[{i}]" for i in range(len(estimate)))
        return Fit(names, estimate, np.sqrt(np.diag(scale)), np.inf, scale, len(values))

    def __str__(self) -> str:
        return self.label
