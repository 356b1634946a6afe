"""Normal records with an unknown normal mean: the belief of Trottini and Fienberg's two examples."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import ArrayLike

from ..checks import (
    check_choice,
    check_covariance,
    check_index,
    check_integer,
    check_names,
    check_number,
    check_one_of,
    check_vector,
    field_values,
    is_single,
    show_setting,
    suggest,
)
from ..errors import InputError, UnsupportedError
from ..protocols import Array
from ..targets import BaseTarget, Kind
from .base import BaseBelief, DrawnFile


@dataclass(frozen=True, eq=False)
class NormalBelief(BaseBelief):
    """Records are independent draws from a normal population with known variance and unknown mean ``mu``.

    x_i | mu ~ N(mu, variance), mu ~ N(prior_mean, prior_variance), or the same in k dimensions.

    Parameters
    ----------
    records : int
        Number of records in the file, n.
    variance : float
        Variance of one record, for one variable.
    covariance : matrix
        Covariance of one record, for k variables. Give this or ``variance``.
    prior_mean : float or vector, default 0
        Prior mean of ``mu``.
    prior_variance : float
        Prior variance of ``mu``, for one variable. Infinity is the flat prior, zero a known mean.
    prior_covariance : matrix
        Prior covariance of ``mu``, for k variables. May be singular; all zeros is a known mean.
    prior : {"flat", "known"}, optional
        Instead of a prior variance.
    columns : list of names, optional
        Names of the k variables, so that masks and targets may name them. A DataFrame must have exactly these columns,
        in any order; without names its columns are taken in the order in which they come.

    Examples
    --------
    >>> NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)
    NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)
    """

    records: int
    variance: float | None = None
    prior_mean: ArrayLike = 0.0
    prior_variance: float | None = None
    covariance: ArrayLike | None = None
    prior_covariance: ArrayLike | None = None
    prior: str | None = None
    columns: Sequence[Hashable] | None = None
    record_covariance: Array = field(init=False, repr=False)
    """Covariance of a record, always k by k."""
    mu_mean: Array = field(init=False, repr=False)
    """Prior mean, always of length k."""
    mu_covariance: Array | None = field(init=False, repr=False)
    """Prior covariance of the mean, k by k; None for the flat prior."""

    def __post_init__(self) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        put("records", check_integer("records", self.records, low=1))
        do = "Give variance= for one variable, covariance= for several"
        check_one_of("NormalBelief", {"variance": self.variance, "covariance": self.covariance}, do)
        if self.covariance is None:
            put("record_covariance", np.array([[check_number("variance", self.variance, low=0, open_low=True)]]))
        else:
            put("record_covariance", check_covariance("covariance", self.covariance, definite=True))
        k = len(self.record_covariance)
        mean = self.prior_mean
        put(
            "mu_mean",
            np.full(k, check_number("prior_mean", mean)) if is_single(mean) else check_vector("prior_mean", mean, k),
        )
        put("mu_covariance", self._read_prior(k))
        if self.columns is not None:
            put("columns", check_names("columns", self.columns, k))

    def _read_prior(self, k: int) -> Array | None:
        do = 'Give prior_variance=5, or prior="flat", or prior="known"'
        priors = {"prior_variance": self.prior_variance, "prior_covariance": self.prior_covariance, "prior": self.prior}
        check_one_of("NormalBelief", priors, do)
        if self.prior is not None:
            return None if check_choice("prior", self.prior, ["flat", "known"]) == "flat" else np.zeros((k, k))
        if self.prior_covariance is not None:
            return check_covariance("prior_covariance", self.prior_covariance, k)
        variance = check_number("prior_variance", self.prior_variance, low=0, infinite=True)
        return None if np.isinf(variance) else variance * np.eye(k)

    # -- what it is ----------------------------------------------------------------------------------

    @property
    def k(self) -> int:
        """Number of variables."""
        return len(self.record_covariance)

    @property
    def scalar(self) -> bool:
        """True if a record is a number rather than a vector."""
        return self.variance is not None

    @property
    def flat(self) -> bool:
        """True if the prior on the mean is flat."""
        return self.mu_covariance is None

    @property
    def parameters(self) -> tuple[str, ...]:
        return ("mu",)

    def entry_names(self, name: str, n: int | None = None) -> Sequence[Sequence[Hashable]]:
        return () if self.columns is None or name != "mu" else (self.columns,)

    def check_target(self, target: BaseTarget) -> None:
        target.rows_in(self.records)
        if target.entry is not None:
            check_index("column", target.entry[1], self.k)
        for term in () if target.asks_row else target.terms:
            if term.kind is Kind.PARAMETER:
                if term.name != "mu":
                    raise InputError("NormalBelief has no such parameter", term.name, suggest(term.name, ["mu"]))
                if term.component is not None:
                    check_index("component", term.component, self.k)

    def draw(self, rng: np.random.Generator) -> Array:
        """Draw the population mean and then the records, shape (records,) or (records, k)."""
        return self._draw_mean_and_records(rng, self.records)[1]

    def draw_file(self, rng: np.random.Generator, new: bool = False) -> DrawnFile:
        mean, rows = self._draw_mean_and_records(rng, self.records + 1)
        return self._as_file(rows[:-1], {"mu": mean}, rows[-1])

    def _draw_mean_and_records(self, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
        if self.mu_covariance is None:
            raise UnsupportedError("A flat prior cannot be drawn from", do="Give prior_variance=, or pass data=")
        mean = rng.multivariate_normal(self.mu_mean, self.mu_covariance, method="eigh")
        rows = mean + rng.multivariate_normal(np.zeros(self.k), self.record_covariance, size=count, method="eigh")
        return (mean[0], rows[:, 0]) if self.scalar else (mean, rows)

    def describe(self) -> str:
        size = "one variable" if self.k == 1 else f"{self.k} variables"
        centre = f"mean {_format_vector(self.mu_mean)}" if self.k <= 4 else "a given mean"
        prior = "an unknown mean (flat prior)"
        if self.mu_covariance is not None:
            certain = f"a known mean ({centre.removeprefix('mean ')})"
            prior = (
                f"an unknown mean (normal prior, {centre}, {_covariance_words(self.mu_covariance)})"
                if self.mu_covariance.any()
                else certain
            )
        known = _covariance_words(self.record_covariance)
        return f"that {self.records:,} records of {size} are normal with {prior} and known spread ({known})"

    def __repr__(self) -> str:
        held = field_values(self)
        given = {f.name: held[f.name] for f in fields(self) if f.init and held[f.name] is not None}
        return f"NormalBelief({', '.join(f'{name}={show_setting(v)}' for name, v in given.items())})"


def _covariance_words(matrix: Array) -> str:
    """A covariance in words; a large one would hide the sentence that it stands in."""
    if len(matrix) == 1:
        return f"variance {matrix[0, 0]:.6g}"
    return (
        f"covariance [{', '.join(_format_vector(row) for row in matrix)}]" if len(matrix) <= 4 else "a given covariance"
    )


def _format_vector(vector: Array) -> str:
    return f"{vector[0]:.6g}" if len(vector) == 1 else f"[{', '.join(f'{v:.6g}' for v in vector)}]"
