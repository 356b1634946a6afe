"""Fits that two data sets are compared by: linear, logistic and Poisson regression, each by formula."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy import linalg

from ...checks import check_fields, check_kind
from ...errors import InputError, UnsupportedError
from ...numerics.glm import Likelihood, logistic, poisson
from ...numerics.products import column_products, column_sums
from ...protocols import Array
from ..frames import SMALL, Flags, categories_of, is_number, refuse_vanishing, vector
from ..sums import Triangle
from .formula import Design, FileKinds, ParsedFormula, design, read, variables_of_coefficients

TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Fit:
    """Estimates of a few quantities and the law that stands for what is not known about them.

    The law is a multivariate t with location ``estimate``, scale matrix ``scale`` and ``df`` degrees of freedom (normal
    if infinite). ``se`` is the root of the diagonal: the standard error, which for a t law is its scale and not its sd.
    """

    names: tuple[str, ...]
    estimate: Array
    se: Array
    df: float
    scale: Array | None = None
    n: int = 0

    def take(self, names: Sequence[str]) -> Fit:
        """The same fit for some of the quantities, in the given order."""
        at = [self.names.index(name) for name in names]
        return Fit(
            tuple(names),
            self.estimate[at],
            self.se[at],
            self.df,
            None if self.scale is None else self.scale[np.ix_(at, at)],
            self.n,
        )


@dataclass(frozen=True)
class Linear:
    """Ordinary least squares, ``Linear("income ~ age + region")``.

    Assumes independent normal errors of equal variance: the estimates then have a t law with n - p degrees of freedom.

    A formula has columns, operators and named transforms (C, I, Q, log, sqrt, exp, poly, scale, center, splines, ...).
    With ``allow_code=True`` it may be any Python that formulaic runs: give that to no formula from elsewhere.

    Examples
    --------
    >>> data = pd.DataFrame({"x": [0, 1, 2, 3], "y": [0, 1, 1, 3]})
    >>> Linear("y ~ x").fit(data).estimate.round(6).tolist()
    [-0.1, 0.9]
    """

    formula: str
    allow_code: bool = field(default=False, kw_only=True, repr=False)
    kind: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        check_fields(self)
        check_kind("A formula", self.formula, str, 'Write "y ~ a + b"')

    def variables(self, table: pd.DataFrame) -> list[Hashable]:
        """The columns that the model looks at."""
        return list(self._read_formula(table).variables)

    def _read_formula(self, table: pd.DataFrame) -> ParsedFormula:
        return read(self.formula, table, allow_code=self.allow_code)

    def fit_original(self, original: pd.DataFrame, weights: Array | None = None) -> FittedModel:
        """Read the formula and fit the original."""
        formula = self._read_formula(original)
        plan = design(formula, original)
        return FittedModel(
            self, formula, plan, original, self._fit_table(plan, original, "the original", weights), weights
        )

    def fit(self, table: pd.DataFrame, weights: Array | None = None) -> Fit:
        """Fit one data set, whose records may have weights."""
        return self.fit_original(table, weights).fit

    def _fit_table(self, plan: Design, table: pd.DataFrame, which: str, weights: Array | None = None) -> Fit:
        if weights is not None:
            work, names = _design_and_response(self, plan, table, which)
            return _fit_from_triangle(Triangle.of(work, weights), names, plan.intercept, which)
        matrix = table.to_numpy() if plan.is_plain else None
        if matrix is not None and matrix.dtype.kind in "fiu":
            # The table itself serves, and no design is built.
            at = [table.columns.get_loc(c) for c in (*(t[0] for t in plan.terms), plan.formula.response)]
            fit = _fit_by_normal_equations(matrix.astype(np.float64, copy=False), at, plan.names, plan.intercept, which)
            if fit is not None:
                return fit
        work, names = _design_and_response(self, plan, table, which)
        fit = None
        if matrix is None and len(work) > 2:
            fit = _fit_by_normal_equations(work.T, range(int(plan.intercept), len(work)), names, plan.intercept, which)
        return _fit_from_triangle(Triangle.of(work), names, plan.intercept, which) if fit is None else fit

    # -- files in pieces -----------------------------------------------------------------------------

    def survey(self, piece: pd.DataFrame) -> FileKinds:
        """The kinds of the variables, and the categories that occur in this piece."""
        formula = self._read_formula(piece)
        if self.kind != "linear":
            do = "Leave chunksize= out, or use a formula for least squares"
            raise UnsupportedError(f"A {self.kind} regression is not made of sums over records ({self.formula})", do=do)
        if formula.terms is None:
            raise _rich_formula_error(self.formula)
        return FileKinds.of(piece[list(formula.variables)], formula.factors)

    def settle(self, original: FileKinds, released: FileKinds) -> Design:
        """One design for both files, with the categories of both; the same that whole files would be given."""
        first, second = original.example(), released.example()
        formula = self._read_formula(first)
        plan = design(formula, first)
        if any(set(categories_of(second[v]).values) != set(levels.values) for v, levels in plan.levels.items()):
            plan = design(formula, first, second)
        if plan.spec is not None:
            raise _rich_formula_error(self.formula)
        return plan

    def sums_of(self, piece: pd.DataFrame, plan: Design, which: str, weights: Array | None = None) -> Triangle:
        """The triangular factor of one piece of a file."""
        work = plan.rows(piece, which)
        work[-1] = self._response_values(plan, piece, which)
        return Triangle.of(work, weights)

    def compare_sums(self, original: Triangle, released: Triangle, plan: Design) -> tuple[Fit, Fit]:
        """The fits of both files."""

        def fitted(sums: Triangle, which: str) -> Fit:
            names = plan.names
            if plan.levels:
                sums, names = sums.drop_absent_coefficients(), _occurring_names(names, sums.occurs)
            return _fit_from_triangle(sums, names, plan.intercept, which)

        return fitted(original, "the original"), fitted(released, "the release")

    def _response_values(self, plan: Design, table: pd.DataFrame, which: str) -> Array:
        column = plan.response(table)
        if not is_number(column):
            got = f"{column.name}: {column.dtype}"
            do = "Use Logistic for a response with two values"
            raise InputError(f"The response must be numeric in {which}", got, do)
        return vector("A regression", column, which)

    def __str__(self) -> str:
        return self.formula


@dataclass(frozen=True)
class Logistic(Linear):
    """Logistic regression by maximum likelihood; normal law with the inverse Fisher information.

    The response has two values: 0 and 1, true and false, or two categories of which the second is the event.

    Examples
    --------
    >>> data = pd.DataFrame({"x": [0, 0, 0, 1, 1, 1, 1, 0], "y": [0, 0, 1, 1, 1, 0, 1, 0]})
    >>> Logistic("y ~ x").fit(data).estimate.round(6).tolist()
    [-1.098612, 2.197225]
    """

    kind: ClassVar[str] = "logistic"
    likelihood: ClassVar[Likelihood] = logistic

    def _fit_table(self, plan: Design, table: pd.DataFrame, which: str, weights: Array | None = None) -> Fit:
        work, names = _design_and_response(self, plan, table, which)
        return _fit_by_likelihood(work[:-1], work[-1], names, self.likelihood, which, weights)

    def _response_values(self, plan: Design, table: pd.DataFrame, which: str) -> Array:
        column = plan.response(table)
        if not is_number(column):
            found = categories_of(column)
            if len(found) != 2:
                what = f"Logistic regression needs a response with two values in {which}"
                raise InputError(what, f"{len(found)} categories of {column.name}", "Combine categories")
            return found.codes(column).astype(np.float64)
        y = vector("A regression", column, which)
        others = int(np.sum((y != 0) & (y != 1)))
        if others:
            what, got = f"Logistic regression needs a response of 0 and 1 in {which}", f"{others} other values"
            raise InputError(what, f"{got} in {column.name}", "Do not mask the response with noise, or use Linear")
        if y.min() == y.max():
            what = f"Logistic regression needs both values of the response in {which}"
            raise InputError(what, f"one value in {column.name}", "Choose another response")
        return y


@dataclass(frozen=True)
class Poisson(Logistic):
    """Poisson regression with a log link by maximum likelihood; normal law with the inverse Fisher information.

    Examples
    --------
    >>> data = pd.DataFrame({"x": [0, 0, 1, 1], "y": [1, 3, 4, 4]})
    >>> Poisson("y ~ x").fit(data).estimate.round(6).tolist()
    [0.693147, 0.693147]
    """

    kind: ClassVar[str] = "Poisson"
    likelihood: ClassVar[Likelihood] = poisson

    def _response_values(self, plan: Design, table: pd.DataFrame, which: str) -> Array:
        y = Linear._response_values(self, plan, table, which)
        if y.min() < 0:
            got = f"{int(np.sum(y < 0))} negative values in {plan.response(table).name}"
            do = "Do not mask the response with noise, or use Linear"
            raise InputError(f"Poisson regression needs counts in {which}", got, do)
        if y.max() == 0:
            what = f"Poisson regression needs a count above zero in {which}"
            raise InputError(what, "zeros only", "Choose another response")
        return y


@dataclass(frozen=True)
class FittedModel:
    """A model that has been fitted to the original."""

    model: Linear
    formula: ParsedFormula
    plan: Design
    original: pd.DataFrame = field(repr=False)
    fit: Fit
    weights: Array | None = field(default=None, repr=False)

    def fits_with_release(self, released: pd.DataFrame, weights: Array | None = None) -> tuple[Fit, Fit]:
        """The fits of the original and of a release, with the same coding of categories.

        A coefficient that one file cannot give, because a category does not occur in it, is in one fit only.
        """
        answer = self.formula.response
        if (
            self.model.kind == "logistic"
            and answer is not None
            and not is_number(self.original[answer])
            and not is_number(released[answer])
        ):
            kinds = [set(categories_of(t[answer]).values) for t in (self.original, released)]
            if kinds[0] != kinds[1]:
                odd = f"{len(kinds[0] ^ kinds[1])} in one only"
                raise InputError(f"The response {answer} must have the same categories in both files", odd, "Recode it")
        same = all(
            set(categories_of(released[v]).values) == set(levels.values) for v, levels in self.plan.levels.items()
        )
        if same:
            return self.fit, self.model._fit_table(self.plan, released, "the release", weights)
        joint = design(self.formula, self.original, released)
        first = self.model._fit_table(joint, self.original, "the original", self.weights)
        return first, self.model._fit_table(joint, released, "the release", weights)


def _fit_by_normal_equations(
    matrix: Array, at: Sequence[int], names: Sequence[str], intercept: bool, which: str
) -> Fit | None:
    """Least squares from one product of a matrix with itself; None where that would cost digits.

    ``at`` says where the predictors are, and then the response; no column of ones is among them.
    """
    n, k = len(matrix), len(at) - 1
    _check_enough_rows(n, len(names), which)
    with np.errstate(all="ignore"):
        gram = column_products(matrix).take(at, axis=0).take(at, axis=1)
        raw = gram.diagonal()
        centre = np.zeros(k + 1)
        if intercept:
            centre = column_sums(matrix).take(at) / n
            gram = gram - n * (centre[:, None] * centre)
        squares, mixed = gram.diagonal(), gram[:k, k]
        # Far from the origin the centred sums lose digits; what is infinite or no number fails, too.
        if not (squares > 0.01 * raw).all() or raw.min() < SMALL:
            return None
        size = np.sqrt(squares[:k])
    unit = size[:, None] * size
    _, inflation, failed = linalg.lapack.dposv(gram[:k, :k] / unit, np.eye(k))
    # The inverse of the smallest eigenvalue of the correlations is at most the sum of variance inflation factors.
    if failed or inflation.trace() > 1e3:
        return None
    inverse = inflation / unit
    slopes = inverse @ mixed
    rss = float(squares[k] - slopes @ mixed)
    return (
        None
        if rss < 0.01 * squares[k]
        else _fit_from_slopes(tuple(names), intercept, n, centre, inverse, slopes, rss, which)
    )


def _fit_from_triangle(factor: Triangle, every: Sequence[str], intercept: bool, which: str) -> Fit:
    """Least squares from the triangular factor of the design and the response, by an orthogonal factorisation.

    The normal equations would square the condition number.
    """
    n, start = factor.n, int(intercept)
    # For weights with a mean of 1.
    triangle = factor.triangle if factor.weight == n else factor.triangle * np.sqrt(n / factor.weight)
    if not np.isfinite(triangle).all():
        got = "infinite or missing ones"
        raise InputError(f"A regression needs finite values in {which}", got, "Remove them first")
    _check_enough_rows(n, len(every), which)
    # The first column is all ones: what stands below its row belongs to centred columns.
    triangle = np.asarray(linalg.qr(triangle, mode="r")[0])
    centre = triangle[0, start:] / triangle[0, 0] if intercept else np.zeros(len(every) + 1)
    x, y = triangle[start:, start:-1], triangle[start:, -1]
    names = every[start:]
    with np.errstate(under="ignore"):
        squares = (triangle[start:, start:] ** 2).sum(axis=0)
    if squares.min() < SMALL:
        plain = [variables_of_coefficients([name]) for name in names]
        varies = np.asarray(triangle[start:, start:].any(axis=0))
        refuse_vanishing("A regression", which, [*plain, "the response"], varies, squares)
    length = np.sqrt(squares)
    # A column that is constant but for rounding has lost its digits to centring.
    tiny = length <= 1e-13 * np.sqrt(n) * np.abs(centre)
    if np.any(tiny[:-1]):
        flat = [name for name, bad in zip(names, tiny[:-1], strict=True) if bad]
        raise InputError(
            f"Predictors are constant in {which}", variables_of_coefficients(flat), "Leave them out of the formula"
        )
    if tiny[-1]:
        y, length[-1] = np.zeros(len(y)), 0.0  # a constant response: what centring left is rounding
    inverse, slopes, size = np.zeros((0, 0)), np.zeros(0), length[:-1]
    if len(names):
        q, r, order = linalg.qr(x / size, mode="economic", pivoting=True)
        _refuse_collinear(r, order, names, which)
        inner = linalg.solve_triangular(r, np.eye(len(order)))
        back = np.argsort(order)
        inverse = (inner @ inner.T)[np.ix_(back, back)] / np.outer(size, size)
        slopes = (inner @ (q.T @ y))[back] / size
    residual = y - x @ slopes
    rss = float(residual @ residual)
    if rss <= (1e-13 * length[-1]) ** 2:
        rss = 0.0  # an exact fit: what remains is rounding
    return _fit_from_slopes(tuple(every), intercept, n, centre, inverse, slopes, rss, which)


def _occurring_names(names: Sequence[str], occurs: Flags) -> tuple[str, ...]:
    """Names of the coefficients that some record speaks about; the response stands last."""
    return tuple(name for name, ok in zip(names, occurs[:-1], strict=True) if ok)


def _rich_formula_error(formula: str) -> UnsupportedError:
    return UnsupportedError(
        f"The formula {formula!r} looks at whole columns, which files in pieces do not have",
        do='Add the columns to the files and write "y ~ a + b", or leave chunksize= out',
    )


def _fit_from_slopes(
    names: tuple[str, ...],
    intercept: bool,
    n: int,
    centre: Array,
    inverse: Array,
    slopes: Array,
    rss: float,
    which: str,
) -> Fit:
    """A fit from the slopes, the inverse of the centred sums of squares and the residual sum of squares."""
    p, k = len(names), len(slopes)
    estimate, scale = slopes, inverse
    if intercept:
        lever = inverse @ centre[:k]
        estimate, scale = np.empty(p), np.empty((p, p))
        estimate[0], estimate[1:] = centre[k] - slopes @ centre[:k], slopes
        scale[0, 0], scale[0, 1:], scale[1:, 0], scale[1:, 1:] = 1 / n + centre[:k] @ lever, -lever, -lever, inverse
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        scale = rss / (n - p) * scale
    variance = scale.diagonal()
    if rss > 0 and not (np.isfinite(scale).all() and variance.min() > TINY):
        odd = [name for name, v in zip(names, variance, strict=True) if not TINY < v < np.inf]
        what = f"Variances of coefficients are out of a float's range in {which}"
        raise InputError(what, variables_of_coefficients(odd), "Use other units")
    return Fit(names, estimate, np.sqrt(variance), float(n - p), scale, n)


def _check_enough_rows(n: int, p: int, which: str) -> None:
    if n <= p:
        what = f"A regression with {p} coefficients needs more than {p} rows in {which}"
        raise InputError(what, f"{n} rows", "Use fewer predictors, or more records")


def _refuse_collinear(r: Array, order: Array, names: Sequence[str], which: str) -> None:
    """Refuse a pivoted triangle of collinear columns, and say which follow from which."""
    size = np.abs(np.diag(r))
    rank = int(np.sum(size > 1e-11 * size[0]))
    if rank == len(order):
        return
    depend = linalg.solve_triangular(r[:rank, :rank], r[:rank, rank:])
    said = []
    for j in range(depend.shape[1]):
        partners = [names[order[i]] for i in range(rank) if abs(depend[i, j]) > 1e-8]
        one = variables_of_coefficients([names[order[rank + j]]])
        said.append(
            f"{one} follows from {variables_of_coefficients(sorted(partners))}" if partners else f"{one} is constant"
        )
    got = "; ".join(dict.fromkeys(said))
    raise InputError(f"Predictors are collinear in {which}", got, "Leave one of them out of the formula")


def _design_and_response(model: Linear, plan: Design, table: pd.DataFrame, which: str) -> tuple[Array, Sequence[str]]:
    """Design rows with the response below, and names, without coefficients that no record of this file speaks about."""
    work = plan.rows(table, which)
    work[-1] = model._response_values(plan, table, which)
    names: Sequence[str] = plan.names
    if plan.levels:
        occurs = np.asarray(work.any(axis=1))
        occurs[-1] = True
        if not occurs.all():
            work, names = work[occurs], _occurring_names(names, occurs)
    if plan.spec is not None and not np.isfinite(work).all():
        bad = [name for name, row in zip([*names, "the response"], work, strict=True) if not np.isfinite(row).all()]
        what = f"The formula gives values that are not finite in {which}"
        raise InputError(what, variables_of_coefficients(bad), "Check logarithms, roots and divisions")
    return work, names


def _fit_by_likelihood(
    rows: Array, y: Array, names: Sequence[str], law: Likelihood, which: str, weights: Array | None = None
) -> Fit:
    """Maximum likelihood on standardised columns; collinear ones and an unbounded likelihood are refused."""
    p, n = rows.shape
    _check_enough_rows(n, p, which)
    size = np.sqrt((rows**2).mean(axis=1))
    size[size == 0] = 1.0
    x = rows / size[:, None]
    _, r, order = linalg.qr(x.T, mode="economic", pivoting=True)
    _refuse_collinear(r, order, names, which)
    start = np.zeros(p) if law is logistic else np.linalg.lstsq(x.T, np.log(y + 0.5 * y.mean()), rcond=None)[0]
    weights = None if weights is None else weights / weights.mean()
    found = law.maximise(x, y, start, weights)
    if not found.has_finite_coefficients(x):
        raise InputError(
            f"The {law.kind} regression has no finite estimate in {which}",
            "a likelihood that grows without end",
            "Some predictors separate the response; leave them out",
        )
    # By a triangle: the inverse of a sum of squares may have negative variances where columns are nearly collinear.
    root = linalg.qr((x * np.sqrt(found.variance)).T, mode="r", check_finite=False)[0][:p]
    inverse = linalg.solve_triangular(root, np.eye(p)) / size[:, None]
    cov = inverse @ inverse.T
    return Fit(tuple(names), found.coefficients / size, np.sqrt(np.diag(cov)), np.inf, cov, n)
