"""Synthesis one column after the other, each from a model given the columns before it: regressions or trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...errors import InputError, UnsupportedError
from ...protocols import Array
from ..applying import draw_categories
from ..columns import Ints, few_categories, kind_of, ordered_values, standard_deviations, whole_like
from ..frame import Frame
from ..moments import orthonormal


@dataclass(frozen=True, eq=False)
class ColumnTask:
    """What a model for one column gets: the column, and its predictors in the original and the synthetic file."""

    column: pd.Series
    """The values that are known."""
    kind: str
    codes: Ints | None
    """Category of each record, None for numbers and dates."""
    original: Array
    """Predictors of these records."""
    synthetic: Array
    """Predictors of the records to draw, as many as the file has."""
    proper: bool


Model = Callable[[ColumnTask, np.random.Generator], Any]
"""Gives the synthetic column in the original's type."""


def draw_sequential(
    frame: Frame,
    order: Sequence[int],
    given: Sequence[int],
    model: Model,
    rng: np.random.Generator,
    *,
    proper: bool,
    corner: bool,
) -> Frame:
    """Draw the columns at ``order`` one after the other.

    Each model is fitted on the original file, with the given columns and those before it in the order as
    predictors. It is applied to the given columns and the *synthetic* ones before it, so the product of the
    conditional laws is the joint law. Raghunathan, Reiter and Rubin (2003); Reiter (2005) for trees.
    ``corner`` leaves the first category of each predictor out, as regression wants it.

    Missing values are synthesised, too: whether a value is missing is drawn first, by the same model for a category,
    and the value from a model of the records that have one. As a predictor, missing is a category of its own; a number
    is at its mean, with an indicator beside it.
    """
    table, n = frame.table, frame.n
    encoders = {i: Encoder.of(table.iloc[:, i], corner=corner) for i in [*given, *order[:-1]]}
    blocks = {i: encoders[i](table.iloc[:, i]) for i in encoders}
    synthetic = {i: blocks[i] for i in given}
    before = list(given)
    drawn: dict[int, Any] = {}
    for i, stream in zip(order, rng.spawn(len(order)), strict=True):
        column = table.iloc[:, i]
        x, new = (np.hstack([np.zeros((n, 0)), *(part[j] for j in before)]) for part in (blocks, synthetic))
        known = column.notna().to_numpy(dtype=bool)
        if not known.any():
            drawn[i] = column.array  # nothing to draw from
        elif known.all():
            drawn[i] = model(_column_task(column, x, new, proper), stream)
        else:
            lost = np.asarray(
                model(_column_task(pd.Series(~known, name=column.name), x, new, proper), stream.spawn(1)[0])
            )
            values = model(_column_task(column[known], x[known], new, proper), stream)
            drawn[i] = pd.Series(values).mask(lost.astype(bool)).astype(column.dtype).array
        if i in encoders:
            synthetic[i] = encoders[i](pd.Series(drawn[i]))
        before.append(i)
    return frame.put(drawn)


def _column_task(column: pd.Series, original: Array, synthetic: Array, proper: bool) -> ColumnTask:
    kind = kind_of(column)
    codes = _categories_of(column)[0] if kind in ("category", "boolean") else None
    return ColumnTask(column, kind, codes, original, synthetic, proper)


@dataclass(frozen=True, eq=False)
class Encoder:
    """Turns a column into numbers: numbers and dates standardised, categories one indicator each."""

    centre: float = 0.0
    scale: float = 1.0
    levels: pd.Index | None = None
    corner: bool = False
    gaps: bool = False
    """Whether the original has missing values, which have an indicator of their own."""

    @classmethod
    def of(cls, column: pd.Series, *, corner: bool) -> Encoder:
        """Fit to the original column."""
        kind, gaps = kind_of(column), bool(column.isna().any())
        if kind in ("category", "boolean"):
            return cls(levels=pd.Index(_categories_of(column)[1]), corner=corner, gaps=gaps)
        known = column.dropna()
        x = ordered_values(known).astype(np.float64) if len(known) else np.zeros(1)
        return cls(float(x.mean()), float(standard_deviations(x)) or np.inf, gaps=gaps)

    def __call__(self, column: pd.Series) -> Array:
        lost = column.isna().to_numpy(dtype=bool)[:, None]
        if self.levels is None:
            # A constant column has infinite scale here, which makes it zero: it says nothing.
            block = np.zeros((len(column), 1))
            block[~lost[:, 0], 0] = (ordered_values(column[~lost[:, 0]]).astype(np.float64) - self.centre) / self.scale
        else:
            codes = np.asarray(self.levels.get_indexer(pd.Index(column)))
            block = (codes[:, None] == np.arange(1 if self.corner else 0, len(self.levels))).astype(np.float64)
        return np.hstack([block, lost]) if self.gaps else block


def _categories_of(column: pd.Series) -> tuple[Ints, Any]:
    """The category of each record, and the observed categories in the order of the file."""
    do = "Recode it into fewer, or leave it out with columns=[...] and given=[...]"
    return few_categories("Sequential synthesis", column, do)


# -- regressions -----------------------------------------------------------------------------------------


def regression(task: ColumnTask, rng: np.random.Generator) -> Any:
    """Draw a column from its regression on the columns before it.

    Numbers: linear regression with normal errors; whole numbers are rounded. With ``proper`` variance and
    coefficients are drawn from their posterior under the usual flat prior first. Categories and booleans:
    multinomial logistic regression; with ``proper`` it is fitted to a bootstrap sample of the records, an approximate
    draw of its coefficients. Without predictors both reduce to the column's own normal law or shares.
    """
    if task.kind == "time":
        raise InputError(
            'Synthesize(method="regression") has no model for dates',
            f"column {task.column.name!r}",
            'Use method="cart", or leave it out with columns=[...]',
        )
    if task.codes is None:
        return whole_like(_draw_linear(task, rng), task.column)
    return _draw_categories(task, task.codes, rng)


def _draw_linear(task: ColumnTask, rng: np.random.Generator) -> Array:
    y = task.column.to_numpy(dtype=np.float64)
    n = len(y)
    q, r = orthonormal(task.original)
    df = n - 1 - len(q)
    if df < 1:
        raise InputError(
            f"A regression of {task.column.name!r} needs more than {len(q) + 1} records",
            n,
            'Give fewer columns, or use method="cart"',
        )
    centre, scale = y.mean(), float(standard_deviations(y)) or 1.0
    z = (y - centre) / scale
    along = np.einsum("ij,j->i", q, z)
    squares = float(np.square(z - np.einsum("ij,i->j", q, along)).sum())
    variance = squares / (rng.chisquare(df) if task.proper else df)
    level = 0.0
    if task.proper:
        # Coefficients of orthonormal directions, the constant one first, are independent with the errors' variance.
        error = np.sqrt(variance) * rng.standard_normal(len(q) + 1)
        level, along = error[0] / np.sqrt(n), along + error[1:]
    new = task.synthetic - task.original.mean(axis=0)
    mean = level + np.einsum("ij,j->i", new, _coefficients(r, along))
    return np.asarray(centre + scale * (mean + np.sqrt(variance) * rng.standard_normal(len(mean))))


def _coefficients(r: Array, along: Array) -> Array:
    """Coefficients of the columns behind R; a column that depends on those before it has none of its own."""
    slopes = np.zeros(r.shape[1])
    own = np.argmax(r != 0, axis=1) if len(r) else np.zeros(0, dtype=np.int64)
    for i in range(len(r) - 1, -1, -1):
        slopes[own[i]] = (along[i] - np.sum(r[i] * slopes)) / r[i, own[i]]
    return slopes


def _draw_categories(task: ColumnTask, codes: Ints, rng: np.random.Generator) -> Any:
    n, m, k = len(codes), len(task.synthetic), int(codes.max()) + 1
    first = np.unique(codes, return_index=True)[1]
    rows = rng.integers(0, n, size=n) if task.proper else np.arange(n)
    if task.original.shape[1] == 0:
        share = np.bincount(codes[rows], minlength=k) / n
        chance = np.broadcast_to(share, (m, k))
    else:
        chance = fit_logistic(task.original[rows], codes[rows], k)(task.synthetic)
    return task.column.array.take(first[draw_categories(chance, rng.random(m))])


def fit_logistic(x: Array, codes: Ints, k: int) -> Callable[[Array], Array]:
    """Fit a multinomial logistic regression and give back the function that predicts its probabilities.

    Coefficients of the standardised predictors have a standard normal prior, intercepts a normal one of variance
    100: data that a plane separates keep finite coefficients, and with many records the prior does not matter.
    A category without records gets no probability. `numerics/glm` has neither more than two categories nor priors.
    """
    from scipy.special import softmax
    from sklearn.linear_model import LogisticRegression

    centre, scale = x.mean(axis=0), standard_deviations(x)
    scale = np.where(scale > 0, scale, np.inf)
    # A constant of ten gives the intercept its prior of ten times the standard deviation.
    design = lambda z: np.hstack([np.full((len(z), 1), 10.0), (z - centre) / scale])  # noqa: E731
    present = np.unique(codes)
    coefficients = np.zeros((x.shape[1] + 1, len(present)))
    if len(present) > 1:
        # Of two categories scikit-learn fits the difference of their coefficients, whose prior variance is two.
        variance = 2.0 if len(present) == 2 else 1.0
        fit = LogisticRegression(C=variance, fit_intercept=False, tol=1e-8, max_iter=1000).fit(design(x), codes)
        coefficients = np.vstack([np.zeros_like(fit.coef_), fit.coef_]).T if len(present) == 2 else fit.coef_.T

    def predict(z: Array) -> Array:
        chance = np.zeros((len(z), k))
        chance[:, present] = softmax(design(z) @ coefficients, axis=1)
        return chance

    return predict


# -- trees -----------------------------------------------------------------------------------------------


def cart(min_leaf: int) -> Model:
    """Return the model: a regression tree for numbers and dates, a classification tree (Gini) for categories.

    Reiter (2005), Journal of Official Statistics 21, 441-462. The tree grows until leaves have fewer than twice
    ``min_leaf`` records; a synthetic record takes the value of a random original record in its leaf. With
    ``proper`` tree and donors come from a bootstrap sample of the records. Without predictors all records are one leaf.
    """

    def model(task: ColumnTask, rng: np.random.Generator) -> Any:
        n, m = len(task.column), len(task.synthetic)
        least = min(min_leaf, n)
        rows = rng.integers(0, n, size=n) if task.proper else np.arange(n)
        if task.original.shape[1] == 0:
            donors = rows[rng.integers(0, n, size=m)]
        else:
            leaf, fallen = _tree_leaves(task, rows, least, rng)
            donors = rows[_random_leaf_members(leaf, fallen, rng.random(m))]
        return task.column.array.take(donors)

    return model


def _tree_leaves(task: ColumnTask, rows: Ints, min_leaf: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Leaf of each fitted record and of each synthetic one."""
    try:
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
    except ImportError:
        raise UnsupportedError(
            'Synthesize(method="cart") needs scikit-learn', do="Install scikit-learn, or use regression"
        ) from None

    # The seed only decides between splits of equal gain, but those are common in small leaves.
    seed = int(rng.integers(0, 2**31 - 1))
    # Trees look at single precision: far from zero different values would be equal.
    centre, scale = task.original.mean(axis=0), np.ptp(task.original, axis=0)
    x, drawn = ((part - centre) / np.where(scale > 0, scale, 1.0) for part in (task.original[rows], task.synthetic))
    if task.codes is None:
        y = ordered_values(task.column).astype(np.float64)
        y = (y - y.mean()) / (float(standard_deviations(y)) or 1.0)
        tree = DecisionTreeRegressor(min_samples_leaf=min_leaf, random_state=seed).fit(x, y[rows])
    else:
        tree = DecisionTreeClassifier(min_samples_leaf=min_leaf, random_state=seed).fit(x, task.codes[rows])
    return np.asarray(tree.apply(x), dtype=np.int64), np.asarray(tree.apply(drawn), dtype=np.int64)


def _random_leaf_members(leaf: Ints, fallen: Ints, u: Array) -> Ints:
    """A random member of the leaf of each synthetic record."""
    order = np.argsort(leaf, kind="stable")
    inside = leaf[order]
    start, stop = np.searchsorted(inside, fallen, side="left"), np.searchsorted(inside, fallen, side="right")
    return np.asarray(
        order[start + np.minimum((u * (stop - start)).astype(np.int64), stop - start - 1)], dtype=np.int64
    )
