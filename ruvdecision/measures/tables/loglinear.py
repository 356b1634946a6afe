"""Log-linear models of a table by iterative proportional fitting, and what a release does to their fit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import rel_entr, xlogy
from scipy.stats import chi2

from ...checks import as_float_array, check_finite, check_integer, check_number, checked, is_single
from ...errors import InputError
from ...protocols import Array
from .. import frames
from ..base import Measured, WeightedMeasure
from ..missing import FILLED
from . import cells


@dataclass(frozen=True, eq=False)
class LogLinearFit:
    """A fitted log-linear model."""

    fitted: Array
    """Expected counts, with the margins of the table that the model keeps."""
    deviance: float
    """Likelihood ratio statistic G^2 = 2 sum f log(f / fitted) against the saturated model."""
    df: int
    """Cells minus parameters. Cells that a margin of zero rules out are not taken off."""

    @property
    def pvalue(self) -> float:
        """Probability of a deviance at least as large if the model holds; 1 without degrees of freedom."""
        return float(chi2.sf(self.deviance, self.df)) if self.df > 0 else 1.0


def fit_loglinear(
    table: ArrayLike, margins: Sequence[Sequence[int]], *, tolerance: float = 1e-10, steps: int = 10_000
) -> LogLinearFit:
    """Fit a hierarchical log-linear model by iterative proportional fitting.

    Parameters
    ----------
    table : array
        Counts, one axis per variable.
    margins : list of lists of axes
        The margins that the model keeps, ``[[0], [1]]`` for independence. An axis in no margin is taken as uniform.
    tolerance : float
        Stop when no margin is off by more than this share of the total.
    steps : int
        Most rounds.

    >>> fit_loglinear([[10, 20], [30, 40]], [[0], [1]]).fitted.tolist()
    [[12.0, 18.0], [28.0, 42.0]]
    """
    counts = check_finite("table", as_float_array("table", table))
    total = counts.sum()
    if counts.ndim == 0 or np.any(counts < 0) or total <= 0:
        raise InputError("A table has counts that are not negative", f"shape {counts.shape}", "Give an array of counts")
    kept = [tuple(sorted(set(m))) for m in margins]
    if any(a < 0 or a >= counts.ndim for m in kept for a in m):
        what = "A margin names an axis that the table does not have"
        raise InputError(what, [list(m) for m in kept], f"Axes run from 0 to {counts.ndim - 1}")
    sums = [tuple(a for a in range(counts.ndim) if a not in m) for m in kept]
    wanted = [counts.sum(axis=s, keepdims=True) for s in sums]
    fitted = np.full(counts.shape, total / counts.size)
    for _ in range(steps):
        worst = 0.0
        for s, goal in zip(sums, wanted, strict=True):
            now = fitted.sum(axis=s, keepdims=True)
            worst = max(worst, float(np.abs(now - goal).max()))
            fitted *= np.divide(goal, now, out=np.zeros_like(goal), where=now > 0)
        if worst <= tolerance * total:
            break
    else:
        got = f"a margin is off by {worst:.3g} after {steps} rounds"
        raise InputError("The log-linear model did not converge", got, "Merge sparse categories")
    deviance = max(2 * float((xlogy(counts, counts) - xlogy(counts, fitted)).sum()), 0.0)
    # Free parameters: one per term of the hierarchy, each term the product of levels minus 1.
    terms = {t for m in kept for k in range(len(m) + 1) for t in itertools.combinations(m, k)}
    free = sum(int(np.prod([counts.shape[a] - 1 for a in t])) for t in terms)
    return LogLinearFit(fitted, deviance, counts.size - free)


@dataclass(frozen=True, repr=False)
class LogLinearLoss(WeightedMeasure):
    """What a scientist loses who fits a log-linear model to the release: log likelihood of the original, per record.

    The same model is fitted to both files. The value is the mean log likelihood of the original records under the
    original's fit minus under the release's fit, in nats; it equals the Kullback-Leibler divergence between the fits. 0
    is best. It is infinite if the release's fit rules out a combination that the original has; ``smoothing`` avoids
    that. ``parts`` compares the goodness of fit itself: deviance, degrees of freedom and p-value in both files.

    Parameters
    ----------
    columns : names, optional
        The columns of the table; all by default. The whole table is held.
    margins : int or list of lists of column names
        The model: 1 for independence, 2 for all two-way interactions, ..., or the margins that it keeps, as
        ``[["sex", "age"], ["region"]]``.
    smoothing : float
        Added to every cell of both tables, as records spread over the table: a cell gets ``smoothing`` records.

    Examples
    --------
    >>> data = [[0, 0], [0, 0], [0, 1], [1, 1]]
    >>> float(LogLinearLoss(margins=1)(data, data))
    0.0
    """

    label: ClassVar[str] = "loglinear_loss"
    reference: ClassVar[str] = "Bishop, Fienberg and Holland (1975); Winkler (2004), section 5"
    missing_choices: ClassVar[tuple[str, ...]] = FILLED
    own_missing: ClassVar[tuple[str, ...]] = ("category",)

    columns: frames.Names = checked(None, frames.as_names)
    margins: Any = checked(2, lambda name, m: check_integer(name, m, low=1) if is_single(m) else m)
    smoothing: float = checked(0.0, check_number, low=0)

    def compare(
        self, state: tuple[pd.DataFrame, Array | None], released: pd.DataFrame, weights: Array | None = None
    ) -> Measured:
        """Fit both and compare."""
        original, own = state
        codes, levels = cells.common_codes(original, released)
        margins = self._margins_to_keep(original)
        counts = [None if w is None else w / w.mean() for w in (own, weights)]
        tables = [cells.dense_table(self.name, c, levels, w) for c, w in zip(codes, counts, strict=True)]
        before, after = (fit_loglinear(t + self.smoothing, margins) for t in tables)
        f, g = before.fitted / before.fitted.sum(), after.fitted / after.fitted.sum()
        # Cells of the original alone decide; where its fit is zero the divergence has no term.
        value = float(rel_entr(f, g).sum())
        parts: dict[str, float] = {}
        for which, fit in (("original", before), ("released", after)):
            parts |= {f"deviance {which}": fit.deviance, f"df {which}": float(fit.df), f"p {which}": fit.pvalue}
        return Measured(max(value, 0.0), parts=parts)

    def _margins_to_keep(self, table: pd.DataFrame) -> list[list[int]]:
        names = list(table.columns)
        if is_single(self.margins):
            if self.margins > len(names):
                what = f"{self.name} cannot keep margins of {self.margins} columns"
                raise InputError(what, f"{len(names)} columns", "Use a smaller number")
            return [list(m) for m in itertools.combinations(range(len(names)), self.margins)]
        picked = [frames.pick_columns(self.name, m, table) for m in self.margins]
        chosen = [[names.index(c) for c in margin] for margin in picked]
        if not chosen:
            raise InputError("margins must hold a margin", self.margins, "Use margins=1 for independence")
        lost = [str(names[j]) for j in range(len(names)) if all(j not in m for m in chosen)]
        if lost:
            what = "Every column must be in a margin of the model"
            raise InputError(what, f"none with {', '.join(lost)}", "Add them, or leave the columns out")
        return chosen
