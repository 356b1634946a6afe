"""Broad utility: how well a model tells released records from original ones.

A propensity score is the estimated probability that a record belongs to the release. If the files cannot be told apart
it is c, the release's share, for every record. The measures here are the mean squared distance of the scores from c
(pMSE) and its kin.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import linalg, special

from ...checks import as_generator, check_choice, check_integer, check_number, checked, is_integer
from ...errors import InputError, UnsupportedError
from ...numerics.glm import logistic
from ...numerics.threads import one_thread
from ...protocols import Array
from ..base import Measured, WeightedMeasure
from ..frames import Flags, Ints, Names, as_names, encode, is_number, is_time, joined_codes, refuse_mixed
from .cdf import Law, kolmogorov
from .cluster import check_cluster_count, linkage_cut, pool_files
from .trees import grow_classes, grow_tree

STATISTICS = ("pMSE", "U", "ratio", "z", "SPECKS")
RANGES = {"pMSE": (0.0, 0.25), "U": (0.0, np.inf), "ratio": (0.0, np.inf), "z": (-np.inf, np.inf), "SPECKS": (0.0, 1.0)}


FEW = 1000
"""So many records show whether many of a file are equal."""
ROUNDED = 1e-9
"""A score that is nearer to the release's share than this is equal to it."""
WOO = "Karr, Oganian, Reiter and Woo, New measures of data utility"


def _check_degree(name: str, degree: Any, options: tuple[int | str, ...]) -> int | str:
    wanted = int(degree) if is_integer(degree) else degree
    if type(wanted) not in (int, str) or wanted not in options:
        what = f"{name} must be one of {', '.join(map(repr, options))}"
        raise InputError(what, degree, f"Write {name}=2, for example")
    return wanted


@dataclass(frozen=True, repr=False)
class _PropensityMeasure(WeightedMeasure):
    """What all propensity measures share: the numbers made of the scores, and their null values."""

    columns_by_name: ClassVar[bool] = True

    columns: Names = checked(None, as_names)
    statistic: str = checked("pMSE", check_choice, options=STATISTICS)
    null: str = "independent"
    permutations: int = checked(0, check_integer, low=0)
    seed: int = checked(0, check_integer, low=0)

    nulls: ClassVar[tuple[str, ...]] = ("independent", "permutation")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("null", self.null, self.nulls)
        object.__setattr__(self, "range", RANGES[self.statistic])
        if self.null == "permutation" and self.permutations < 2:
            raise InputError('null="permutation" needs permutations', self.permutations, "Write permutations=50")
        self.refuse_unused(self.null == "permutation", "that null", 'null="permutation"', "permutations")
        if self.statistic in ("ratio", "z") and self.null == "none":
            what = f"The statistic {self.statistic} needs a null value"
            raise InputError(what, "null='none'", 'Write null="permutation", permutations=50')

    def classifier_inputs(self, pooled: Array, levels: Ints | None) -> Any:
        """What depends on the pooled records but not on which file they come from."""
        raise NotImplementedError

    def scores_and_slopes(self, inputs: Any, source: Flags, weights: Array | None = None) -> tuple[Array, int]:
        """Propensity scores, and the number of coefficients (beside the constant) behind them."""
        raise NotImplementedError

    def closed_null(self, slopes: int, n: float, c: float) -> tuple[float, float] | None:
        """Expectation and standard deviation of pMSE when both files are samples of one population, if known."""
        unit = ((1 - c) ** 2 * c if self.null == "synthetic" else c * (1 - c)) / n
        return slopes * unit, float(np.sqrt(2 * slopes)) * unit

    def encoded_files(self, original: pd.DataFrame, released: pd.DataFrame) -> tuple[Array, Ints | None]:
        """Both files together as numbers, and how many levels each column has, 0 for a number; None if all are."""
        return np.concatenate(encode(self.name, original, released)[:2]), None

    def compare(
        self, state: tuple[pd.DataFrame, Array | None], released: pd.DataFrame, weights: Array | None = None
    ) -> Measured:
        original, own = state
        source = np.arange(len(original) + len(released)) >= len(original)
        often = None if own is None or weights is None else np.concatenate([w / w.mean() for w in (own, weights)])
        n, c = len(source), float(source.mean())
        with one_thread():
            pooled, levels = self.encoded_files(original, released)
            if self.null == "permutation":
                # Labels are drawn for records in the order of their values: that of the files means nothing.
                order = np.lexsort((source, *([] if often is None else [often]), *pooled.T))
                pooled, source, often = pooled[order], source[order], None if often is None else often[order]
            inputs = self.classifier_inputs(pooled, levels)
            scores, slopes = self.scores_and_slopes(inputs, source, often)
            gap = np.square(np.where(np.abs(scores - c) < ROUNDED, 0.0, scores - c))
            value = float(gap.sum() if often is None else often @ gap)
            if self.null == "permutation":
                law: tuple[float, float, float] | None = self._permuted_null(inputs, source, often)
            else:
                # Weights count for fewer records than there are (Kish).
                size = n if often is None else float(often.sum() ** 2 / (often @ often))
                closed = self.closed_null(slopes, size, c)
                law = None if closed is None else (*closed, 0.0)
        parts = {
            "U": value,
            "pMSE": value / n,
            "coefficients": float(slopes),
            **_score_separation(scores, source, often),
        }
        error = 0.0
        if law is not None:
            mean, sd, mean_error = law
            parts |= {
                "null": mean,
                "null sd": sd,
                "ratio": _ratio_or_infinite(value / n, mean),
                "z": _ratio_or_infinite(value / n - mean, sd),
            }
            # The null is an estimate where it comes from permutations; the error goes with whatever uses it.
            if self.statistic == "ratio":
                error = parts["ratio"] * _ratio_or_infinite(mean_error, mean)
            elif self.statistic == "z":
                error = _ratio_or_infinite(mean_error, sd)
        if np.isinf(parts[self.statistic]):
            got = f"{value / n:.3g} under a null of mean {parts['null']:.3g} and sd {parts['null sd']:.3g}"
            do = 'Ask for more permutations, or use statistic="pMSE"'
            raise UnsupportedError(f"{self.statistic} needs a null that varies", got, do)
        return Measured(parts[self.statistic], error, parts)

    def _permuted_null(self, inputs: Any, source: Flags, often: Array | None) -> tuple[float, float, float]:
        rng = as_generator(self.seed)
        shuffled = [rng.permutation(source) for _ in range(self.permutations)]

        def value(labels: Flags) -> float:
            c = np.average(labels, weights=often)
            return float(np.average((self.scores_and_slopes(inputs, labels, often)[0] - c) ** 2, weights=often))

        with ThreadPoolExecutor(max_workers=2) as workers:
            values = np.array(list(workers.map(value, shuffled)))
        sd = float(values.std(ddof=1))
        return float(values.mean()), sd, sd / float(np.sqrt(len(values)))


@dataclass(frozen=True, repr=False)
class Propensity(_PropensityMeasure):
    """pMSE of a logistic model with a polynomial of the variables.

    Parameters
    ----------
    degree : 1, 2, 3, "products", "I" or "II"
        All monomials up to that degree. "products" are those of two different columns, without squares: synthpop's
        ``maxorder=1``. "I" is Woo's model I, the full quadratic; "II" her model II, which adds cubes
        and products of two squares, of the raw variables because it is not invariant to their origin.
    columns : names, optional
        Numeric columns stay numbers; others become indicators.
    statistic : "pMSE", "U", "ratio", "z" or "SPECKS"
        The mean of (score - c)^2, its sum as Woo has it, pMSE over its null value, its distance from it in standard
        deviations, or the Kolmogorov-Smirnov distance between the scores of the files. All are in ``parts``.
    null : "independent", "synthetic" or "permutation"
        The null value: q c(1 - c)/N for two independent samples and q coefficients; q (1 - c)^2 c/N for a synthetic
        file drawn from the fitted true model (Snoke et al., 2018); or the mean over ``permutations`` relabelled files.
    permutations, seed : int
        For the permutation null.

    Notes
    -----
    A mask that moves records a little makes files more alike than independent samples: the ratio may be far below 1.
    Where the files can be separated, scores are the limits 0 and 1.

    Examples
    --------
    >>> round(Propensity(statistic="U")([0, 0, 0, 1], [0, 1, 1, 1]), 9)
    0.5
    """

    degree: int | str = checked(1, _check_degree, options=(1, 2, 3, "products", "I", "II"))

    label: ClassVar[str] = "pMSE"
    reference: ClassVar[str] = f"{WOO}, eq. 2.5; Snoke et al. (2018)"
    nulls: ClassVar[tuple[str, ...]] = ("independent", "synthetic", "permutation")

    def classifier_inputs(self, pooled: Array, levels: Ints | None) -> tuple[Array, Ints | None]:
        return _design_of_distinct_records(pooled, self.degree)

    def scores_and_slopes(
        self, inputs: tuple[Array, Ints | None], source: Flags, weights: Array | None = None
    ) -> tuple[Array, int]:
        return logistic_scores(*inputs, source, weights)[0], len(inputs[0]) - 1


@dataclass(frozen=True, repr=False)
class TreePropensity(_PropensityMeasure):
    """pMSE of a tree (CART) with the meaning of rpart's cp, for a regression tree or a classification tree.

    Both are grown by the squared error of the file label, which for two files is Gini's index. They differ in what cp
    counts. ``"anova"``: squared error; the tree is pruned to the subtree that minimises error + cp R(root) per leaf,
    R(root) = N c(1 - c), the exact minimiser (rpart's recursion sometimes prunes more). ``"class"``: misclassified
    records, R(root) = N min(c, 1 - c), by rpart's own recursion; the tree of synthpop's ``utility.gen``. With the same
    cp a classification tree of files of equal size is larger, and finds differences that a regression tree cuts off.

    Parameters
    ----------
    kind : "anova" or "class"
        rpart's method. Both cut categories into two sets.
    cp : float
        Complexity parameter: a split must lower the error by this share of the root's.
    min_split, min_leaf, max_depth : int
        A node needs ``min_split`` records to be split, a leaf holds at least ``min_leaf``; rpart's defaults. synthpop
        writes 15 and 5.
    null : "none" or "permutation"
        A large tree finds differences between equal files too; there is no formula for how many.
    columns, statistic, permutations, seed
        As for `Propensity`.

    Notes
    -----
    A release that keeps every margin exactly (rank swapping) offers no first split at all: its value is 0 by
    construction.

    Examples
    --------
    >>> TreePropensity(cp=0.24, statistic="U")([0, 0, 0, 1] * 10, [0, 1, 1, 1] * 10)
    5.0
    """

    null: str = "none"
    kind: str = checked("anova", check_choice, options=("anova", "class"))
    cp: float = checked(0.001, check_number, low=0)
    min_split: int = checked(20, check_integer, low=2)
    min_leaf: int = checked(7, check_integer, low=1)
    max_depth: int = checked(30, check_integer, low=1)

    label: ClassVar[str] = "tree pMSE"
    reference: ClassVar[str] = f"{WOO}, eq. 2.5; Breiman et al. (1984)"
    nulls: ClassVar[tuple[str, ...]] = ("none", "permutation")

    def encoded_files(self, original: pd.DataFrame, released: pd.DataFrame) -> tuple[Array, Ints | None]:
        parts, levels = [], []
        for label in original.columns:
            a, b = original[label], released[label]
            categories = not (is_number(a) or is_time(a))
            both = joined_codes(a, b)[0] if categories else encode(self.name, a.to_frame(), b.to_frame())[:2]
            refuse_mixed(self.name, a, b)
            parts.append(np.concatenate([np.reshape(v, -1) for v in both]).astype(np.float64))
            levels.append(int(parts[-1].max()) + 1 if categories else 0)
        return np.stack(parts, axis=1), np.array(levels, dtype=np.int64)

    def closed_null(self, slopes: int, n: float, c: float) -> None:
        """None is known for a tree."""

    def classifier_inputs(self, pooled: Array, levels: Ints | None) -> tuple[Array, Ints, Ints]:
        values = np.ascontiguousarray(pooled.T)
        order = np.ascontiguousarray(np.argsort(values, axis=1, kind="stable"))
        return values, order, np.zeros(len(values), dtype=np.int64) if levels is None else levels

    def scores_and_slopes(
        self, inputs: tuple[Array, Ints, Ints], source: Flags, weights: Array | None = None
    ) -> tuple[Array, int]:
        values, order, levels = inputs
        limits = self.min_split, self.min_leaf, self.max_depth
        if self.kind == "anova":
            scores, leaves = tree_scores(values, order, levels, source, self.cp, *limits, weights=weights)
            return scores, leaves - 1
        often = np.ones(len(source)) if weights is None else weights
        leaf, leaves = grow_classes(values, order, levels, often * source, often, *limits, self.cp)
        return _leaf_means(leaf, source, often), int(leaves) - 1


@dataclass(frozen=True, repr=False)
class ClusteredPropensity(_PropensityMeasure):
    """pMSE of the modified logistic model: cluster both files together, then fit a logistic model in every cluster.

    Parameters
    ----------
    clusters : int
        Number of clusters by average linkage on squared distances, in time n^2 and memory n.
    degree : 1, 2 or 3
        Degree of the polynomial in each cluster.
    separable : "limit" or "share"
        Scores of a cluster where the model separates the files: the limits of the likelihood, 0 and 1, or the cluster's
        share. The paper does not say which it used. A cluster from one file alone has scores 0 or 1 either way.
    standardise : bool
        Cluster in units of the standard deviations of both files together; the paper does not.
    columns, statistic, null, permutations, seed
        As for `Propensity`; the closed null, clusters x (1 + coefficients) x c(1 - c)/N, is approximate.

    Examples
    --------
    >>> ClusteredPropensity(clusters=2, statistic="U")([0, 1, 10], [0, 1, 10])
    0.0
    """

    clusters: int = checked(100, check_integer, low=1)
    degree: int | str = checked(1, _check_degree, options=(1, 2, 3))
    separable: str = checked("limit", check_choice, options=("limit", "share"))
    standardise: bool = False

    label: ClassVar[str] = "clustered pMSE"
    reference: ClassVar[str] = f"{WOO}, section 2.3"

    def compare(
        self, state: tuple[pd.DataFrame, Array | None], released: pd.DataFrame, weights: Array | None = None
    ) -> Measured:
        check_cluster_count(self.clusters, len(state[0]) + len(released))
        return super().compare(state, released, weights)

    def classifier_inputs(self, pooled: Array, levels: Ints | None) -> list[tuple[Ints, tuple[Array, Ints | None]]]:
        if self.standardise:
            # Relabelling must not change the clusters, so the scale is that of both files together.
            pooled = pool_files(pooled, pooled[:0], True)
        labels = linkage_cut(pooled, (self.clusters,))[0]
        order = np.argsort(labels, kind="stable")
        members = np.split(order, np.cumsum(np.bincount(labels))[:-1])
        return [(rows, _design_of_distinct_records(pooled[rows], self.degree)) for rows in members]

    def scores_and_slopes(
        self, inputs: list[tuple[Ints, tuple[Array, Ints | None]]], source: Flags, weights: Array | None = None
    ) -> tuple[Array, int]:
        scores = np.empty(len(source))
        slopes = 0
        for rows, design in inputs:
            own = source[rows]
            slopes += len(design[0])
            if own.all() or not own.any():
                scores[rows] = own
                continue
            often = None if weights is None else weights[rows]
            found, separated = logistic_scores(*design, own, often)
            scores[rows] = np.average(own, weights=often) if separated and self.separable == "share" else found
        return scores, slopes


def _score_separation(scores: Array, source: Flags, weights: Array | None) -> dict[str, float]:
    """How far the scores tell the files apart.

    SPECKS, the Kolmogorov-Smirnov distance between the scores of the files; PO50, the percentage of records on the
    right side of 0.5, beyond 50; and Mann and Whitney's U. Scores that differ by rounding are one: separated records
    have the limits 0 and 1, and which of them is nearer means nothing.
    """
    scores = np.round(scores, 9)
    mine, others = (Law.of(scores[s], None if weights is None else weights[s]) for s in (source, ~source))
    right = np.average(np.where(source, scores > 0.5, scores <= 0.5), weights=weights)
    # Half of those with the same score: numbers below it count whole, and so do those up to it. In order, so that the
    # search does not jump about in memory.
    at, n = mine.values, len(source) - int(source.sum())
    below = (others.below(at) + others.below(np.nextafter(at, -np.inf))) / 2 * n
    often = None if mine.upto is None or weights is None else np.diff(mine.upto, prepend=0.0) * weights[source].sum()
    above = float(below.sum() if often is None else often @ below)
    return {"SPECKS": kolmogorov(mine, others), "PO50": 100 * float(right) - 50, "Mann-Whitney": above}


def _ratio_or_infinite(a: float, b: float) -> float:
    return a / b if b > 0 else (np.inf if a > 0 else 0.0)


# -- models that tell two files apart --------------------------------------------------------------------


def polynomial(values: Array, degree: int | str) -> Array:
    """Monomials of the columns without the constant: up to a degree, "products", or of Woo's models "I" and "II".

    >>> polynomial(np.array([[2.0, 3.0]]), 2).tolist()
    [[2.0, 3.0, 4.0, 6.0, 9.0]]
    """
    return _monomials(np.ascontiguousarray(np.asarray(values, dtype=np.float64).T), degree)[1:].T


def design_rows(pooled: Array, degree: int | str) -> Array:
    """Rows of a constant and of the linearly independent monomials of the columns, centred and scaled."""
    rows = np.ascontiguousarray(pooled.T)
    if degree == "II":
        # Not the same functions about another origin: the raw variables, in their own units.
        rows /= np.maximum(np.abs(rows).max(axis=1), 1e-300)[:, None]
    else:
        # A full polynomial spans the same functions about any origin; about the mean it keeps its digits.
        _standardise_rows(rows)
    work = _monomials(rows, degree)
    terms = work[1:]
    size = _standardise_rows(terms)
    alive = size > 1e-13
    if not alive.all():
        terms = terms[alive]
        work = np.vstack([work[:1], terms])
    n = work.shape[1]
    if len(terms) and (n <= len(terms) or float(np.linalg.eigvalsh(terms @ terms.T / n)[0]) < 1e-8):
        # An orthogonal basis of what is left spans the same functions and keeps the digits.
        q, r, _ = linalg.qr(terms.T, mode="economic", pivoting=True)
        size = np.abs(np.diag(r))
        work = np.vstack([work[:1], q[:, size > 1e-10 * size[0]].T * np.sqrt(n)])
    return work


def _design_of_distinct_records(pooled: Array, degree: int | str) -> tuple[Array, Ints | None]:
    """Rows of the design with one column for each kind of equal records, and the kind of each record; None if none are.

    It is quicker, and where files can be separated in part, coefficients without bound would tell equal records apart
    by the rounding of their columns.
    """
    # Equal records have equal numbers, and others hardly ever: no sine of a whole number is a sum of others.
    mixed = pooled @ np.sin(np.arange(1.0, pooled.shape[1] + 1.0))
    if len(np.unique(mixed[:FEW])) == len(mixed[:FEW]):
        return design_rows(pooled, degree), None
    _, first, row = np.unique(mixed, return_index=True, return_inverse=True)
    if not np.array_equal(pooled[first][row], pooled):
        return design_rows(pooled, degree), None
    return design_rows(pooled[first], degree), row


def logistic_scores(
    design: Array, row: Ints | None, source: NDArray[Any], weights: Array | None = None
) -> tuple[Array, bool]:
    """Fitted probabilities of a logistic regression, and whether the files can be separated by it.

    ``design`` has one row per coefficient, the first of ones, rows linearly independent; ``row`` is the column of each
    record, if it is not its own, and ``source`` says whether it is released. Separated records tend to 0 and 1.
    """
    share = source.astype(np.float64)
    if row is not None:
        often = np.bincount(row, weights).astype(np.float64)
        share = np.bincount(row, share if weights is None else weights * share) / often
        weights = often / often.mean()
    start = np.zeros(len(design))
    start[0] = special.logit(np.average(share, weights=weights))
    fit = logistic.maximise(design, share, start, weights)
    return fit.mean if row is None else fit.mean[row], fit.separated


def tree_scores(
    values: Array,
    order: Ints,
    levels: Ints,
    source: Flags,
    cp: float,
    min_split: int = 20,
    min_leaf: int = 7,
    max_depth: int = 30,
    weights: Array | None = None,
) -> tuple[Array, int]:
    """Scores of the optimally pruned regression tree and its number of leaves; ``order`` sorts the rows of ``values``.

    Its own kernel, because permutations share the sorted orders: that is what keeps the null distribution quicker than
    scikit-learn's trees one by one (benchmarks/bench_measures.py).
    """
    n, often = len(source), np.ones(len(source)) if weights is None else weights
    c = float(np.average(source, weights=weights))
    if len(values) == 0:  # files of one category have nothing to split by
        return np.full(n, c), 1
    penalty = cp * n * c * (1 - c)
    leaf, leaves = grow_tree(
        values, order, levels, often * source, often, min_split, min_leaf, max_depth, 1e-12 * n, penalty
    )
    return _leaf_means(leaf, source, often), int(leaves)


def _leaf_means(leaf: Ints, source: Flags, often: Array) -> Array:
    """The release's share of each record's leaf."""
    return (np.bincount(leaf, weights=often * source) / np.bincount(leaf, weights=often))[leaf]


def _monomials(rows: Array, degree: int | str) -> Array:
    """A row of ones and the monomials below it."""
    p, n = rows.shape
    top = 2 if isinstance(degree, str) else degree
    terms: list[tuple[int, ...]] = [t for d in range(1, top + 1) for t in combinations_with_replacement(range(p), d)]
    if degree == "products":
        terms = [t for t in terms if len(set(t)) == len(t)]
    if degree == "II":
        terms += [(i, i, j, j) for i in range(p) for j in range(i + 1, p)] + [(i, i, i) for i in range(p)]
    out = np.empty((len(terms) + 1, n))
    out[0] = 1.0
    place: dict[tuple[int, ...], int] = {(): 0}
    for k, term in enumerate(terms, start=1):
        if term[:-1] in place:
            np.multiply(out[place[term[:-1]]], rows[term[-1]], out=out[k])
        else:
            out[k] = np.prod(rows[list(term)], axis=0)
        place[term] = k
    return out


def _standardise_rows(rows: Array) -> Array:
    """Centre and scale rows in place; returns the sizes they had. Rows without variation are left at zero."""
    rows -= rows.mean(axis=1)[:, None]
    # By the largest first: the squares of tiny numbers would vanish.
    peak = np.maximum(rows.max(axis=1), -rows.min(axis=1))
    rows /= np.where(peak > 0, peak, 1.0)[:, None]
    size = np.sqrt(np.einsum("ij,ij->i", rows, rows) / rows.shape[1])
    rows /= np.where(size > 0, size, 1.0)[:, None]
    return size * peak
