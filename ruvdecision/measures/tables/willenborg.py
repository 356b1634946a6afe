"""Willenborg and de Waal's measures of information loss: entropy left about a record, and variance of an estimate."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.special import xlogy

from ...checks import (
    Seed,
    as_float_array,
    as_generator,
    check_finite,
    check_integer,
    check_kind,
    check_mapping,
    checked,
    fixed_seed,
    rows_where,
    suggest,
)
from ...errors import InputError, UnsupportedError, kind_of
from ...protocols import Array
from .. import frames
from ..base import Measured, SummedMeasure, WeightedMeasure, mean_or_function
from ..missing import COMPLETE, FILLED
from ..risk.records import PairedMeasure, RecordPairs
from ..sums import ColumnMoments, checked_covariance, moments_of
from . import cells
from .distances import entropy


@dataclass(frozen=True, repr=False)
class EntropyLoss(PairedMeasure):
    """Entropy that is left about the original value once the released one is seen, in nats per record.

    Per column H(original | released) = -sum over records of log P(original | released) expected under that law,
    averaged over records and then over columns. 0 if the release gives every value away (which is best for a
    scientist), the entropy of the original if it says nothing. `per_record` gives the uncertainty about each record.

    Without ``transition`` the conditional law is that of the pairs in the files, which understates the entropy when
    categories are many and records few. Willenborg and de Waal (2000); criticism in Winkler (2004), section 5.

    Parameters
    ----------
    columns : names, optional
        Categorical columns; all by default, each apart.
    transition : mapping from column to DataFrame, optional
        P(released | original), original categories as index and released ones as columns, such as a PRAM matrix. Bayes'
        rule with the original's frequencies gives the conditional law. Columns without one use the pairs.

    Examples
    --------
    >>> round(float(EntropyLoss()(["a", "a", "b", "b"], ["x", "x", "x", "x"])), 6)
    0.693147
    """

    label: ClassVar[str] = "entropy_loss"
    role: ClassVar[str] = "utility"
    weighs_records: ClassVar[bool] = False
    reference: ClassVar[str] = "Willenborg and de Waal (2000), Elements of Statistical Disclosure Control"
    missing_choices: ClassVar[tuple[str, ...]] = FILLED
    own_missing: ClassVar[tuple[str, ...]] = ("category",)

    columns: frames.Names = checked(None, frames.as_names)
    transition: Mapping[Hashable, pd.DataFrame] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        do = 'Write transition={"sex": frame}, a DataFrame of probabilities'
        given = {} if self.transition is None else check_mapping("transition", self.transition, do)
        for label, table in given.items():
            check_kind(f"transition of {label}", table, pd.DataFrame, do)

    def compare(self, state: tuple[pd.DataFrame, Array | None], released: pd.DataFrame) -> Measured:
        """Mean conditional entropy."""
        transition = self.transition or {}
        original, weights = state
        strange = [str(k) for k in transition if k not in original.columns]
        if strange:
            do = suggest(strange[0], [str(c) for c in original.columns])
            raise InputError("transition names a column that is not used", strange[0], do)
        pairs = RecordPairs.of(self.name, original, released)
        before, after = original.iloc[pairs.original], released.iloc[pairs.released]
        often = None if weights is None else weights[pairs.original]
        total, parts, start = np.zeros(len(after)), {}, 0.0
        for label in original.columns:
            if label in transition:
                law, seen = _conditional_from_transition(
                    label, transition[label], original[label], after[label], weights
                )
            else:
                law, seen = _conditional_from_pairs(before[label], after[label], often)
            left = -xlogy(law, law).sum(axis=0)[seen] + 0.0
            total += left / original.shape[1]
            parts[str(label)] = float(np.average(left, weights=often))
            (codes,), size = cells.joint_codes_of_tables(original[[label]])
            start += entropy(cells.frequencies(codes, size, weights)) / original.shape[1]
        value = float(np.average(total, weights=often))
        parts |= {"before": start, "share": value / start if start > 0 else 0.0}
        return Measured(value, parts=parts, records=pairs.along_released(total))


@dataclass(frozen=True, repr=False)
class VarianceInflation(SummedMeasure, WeightedMeasure):
    """Variance of an estimate from the original over its variance from the release, Var(est | D0) / Var(est | D).

    Willenborg and de Waal's variance inflation statistic as Winkler gives it: despite its name it is the reciprocal of
    an inflation. Noise brings it below 1; microaggregation brings it above 1, which is false precision and no gain.
    With several columns it is the geometric mean. ``parts`` has each column's ratio. A release whose estimate does not
    vary at all, because a column is constant, has an infinite ratio.

    Parameters
    ----------
    columns : names, optional
        Numeric columns for ``statistic="mean"``, all by default; the columns of the table that a callable sees.
    statistic : "mean" or callable
        ``"mean"`` uses s^2/n. A callable takes a DataFrame and gives a number; its variances are bootstrapped, both
        files with the same resampled rows where their lengths agree, and the result carries a standard error.
    draws : int
        Bootstrap samples.
    seed : int, SeedSequence or Generator
        Where they come from.

    Examples
    --------
    >>> round(float(VarianceInflation()([1.0, 2.0, 3.0], [0.0, 2.0, 4.0])), 6)
    0.25
    """

    label: ClassVar[str] = "variance_ratio"
    direction: ClassVar[str] = "higher"
    reference: ClassVar[str] = "Willenborg and de Waal (2000); Winkler (2004), section 5"
    missing_choices: ClassVar[tuple[str, ...]] = COMPLETE

    columns: frames.Names = checked(None, frames.as_names)
    statistic: Any = checked("mean", mean_or_function)
    draws: int = checked(200, check_integer, low=2)
    seed: Seed = checked(0, fixed_seed)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_unused(self.statistic != "mean", "a statistic of your own", "statistic=np.median", "draws")

    def begin(self, original: pd.DataFrame, *weights: Array) -> tuple[pd.DataFrame, Array]:
        """Standard errors from the original."""
        error = self._standard_errors(original, "the original", *weights)
        self._check_varies([str(c) for c in original.columns], error)
        return original, error

    def _check_varies(self, names: Sequence[str], error: Array) -> None:
        if np.any(error <= 0):
            flat = [c for c, v in zip(names, error, strict=False) if v <= 0]
            got = f"variance zero for {flat if self.statistic == 'mean' else 'the statistic'}"
            what = f"{self.name} needs an estimate that varies in the original"
            raise InputError(what, got, "Leave constant columns out")

    def compare(self, state: tuple[pd.DataFrame, Array], released: pd.DataFrame, *weights: Array) -> Measured:
        """Ratio of variances."""
        original, before = state
        return self._variance_ratio(
            [str(c) for c in original.columns], before, self._standard_errors(released, "the release", *weights)
        )

    def sums_of(self, piece: pd.DataFrame, plan: None, which: str, weights: Array | None = None) -> ColumnMoments:
        if self.statistic != "mean":
            what = f"{self.name} of a function is no sum over records"
            raise UnsupportedError(what, do='Leave chunksize= out, or write statistic="mean"')
        return moments_of(self.name, piece, which, weights)

    def compare_sums(self, original: ColumnMoments, released: ColumnMoments, plan: None) -> Measured:
        files = ((original, "the original"), (released, "the release"))
        squares = [np.diag(checked_covariance(self.name, which, sums, 1)) / sums.n for sums, which in files]
        self._check_varies(original.names, squares[0])
        return self._variance_ratio(original.names, *np.sqrt(squares))

    def _variance_ratio(self, names: Sequence[str], before: Array, after: Array) -> Measured:
        # Squared last: variances of tiny numbers would vanish. A ratio too large for a float is infinite.
        with np.errstate(over="ignore"):
            ratio = np.where(after > 0, before / np.where(after > 0, after, 1.0), np.inf) ** 2
            value = float(np.exp(2 * np.mean(np.log(before / after)))) if np.all(after > 0) else np.inf
        if self.statistic != "mean":
            # A variance from B draws has relative variance 2/(B - 1); the two are at worst independent.
            return Measured(value, error=value * 2 / np.sqrt(self.draws - 1) if np.isfinite(value) else np.inf)
        return Measured(value, parts={c: float(r) for c, r in zip(names, ratio, strict=True)})

    def _standard_errors(self, table: pd.DataFrame, which: str, weights: Array | None = None) -> Array:
        n = len(table)
        frames.check_enough_rows(self.name, n, 2, which)
        if self.statistic == "mean":
            return frames.standard_deviations(frames.numeric(self.name, table, which), weights) / np.sqrt(n)
        if weights is not None:
            what = f"{self.name} of a function cannot tell it the weights of records"
            raise UnsupportedError(what, do='Leave weights= out, or write statistic="mean"')
        rng = as_generator(self.seed)
        found = []
        for _ in range(self.draws):
            number = self.statistic(table.iloc[rng.integers(0, n, size=n)])
            try:
                found.append(float(number))
            except (TypeError, ValueError):
                raise InputError("The statistic must give one number", kind_of(number), "Return a float") from None
        return np.atleast_1d(
            frames.standard_deviations(check_finite("The statistic in bootstrap samples", np.array(found)))
        )


def _conditional_from_pairs(before: pd.Series, after: pd.Series, weights: Array | None) -> tuple[Array, frames.Ints]:
    """P(original | released) from pairs, originals by releases, and each record's released code."""
    (a,), rows = cells.joint_codes_of_tables(before.to_frame())
    (b,), columns = cells.joint_codes_of_tables(after.to_frame())
    counts = cells.dense_table("EntropyLoss", np.stack([a, b], axis=1), [rows, columns], weights)
    return counts / counts.sum(axis=0), b


def _conditional_from_transition(
    label: Hashable, transition: pd.DataFrame, before: pd.Series, after: pd.Series, weights: Array | None
) -> tuple[Array, frames.Ints]:
    """P(original | released) by Bayes' rule from P(released | original)."""
    matrix = check_finite("transition", as_float_array("transition", transition.to_numpy()))
    if np.any(matrix < 0) or not np.allclose(matrix.sum(axis=1), 1, rtol=0, atol=1e-9):
        what = f"The rows of the transition matrix of {label} must be probabilities that sum to 1"
        raise InputError(what, matrix.sum(axis=1).tolist(), "Original categories are the rows")
    for axis, column, which in ((transition.index, before, "original"), (transition.columns, after, "released")):
        unknown = ~column.isin(axis).to_numpy(dtype=bool)
        if unknown.any():
            got = f"others in {rows_where(unknown)}"
            do = "Give one row per original and one column per released category"
            raise InputError(f"The transition matrix of {label} lacks {which} categories", got, do)
    often = pd.Series(frames.shares(weights, len(before))).groupby(before.to_numpy()).sum()
    prior = often.reindex(transition.index, fill_value=0.0).to_numpy()
    joint = prior[:, None] * matrix
    seen = transition.columns.get_indexer(pd.Index(after.to_numpy()))
    reached = joint.sum(axis=0)
    if np.any(reached[seen] <= 0):
        what = f"The release of {label} has categories that the transition matrix cannot produce"
        bad = f"some in {rows_where(reached[seen] <= 0)}"
        raise InputError(what, bad, "Check that the matrix is the one that was used")
    return joint / np.where(reached > 0, reached, 1.0), seen
