"""Broad utility: cluster both files together and see whether every cluster has its share of either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ...checks import check_choice, check_integer, checked
from ...errors import InputError
from ...protocols import Array
from ..base import Measured, WeightedMeasure
from ..frames import Ints, Names, as_names, encode, standard_deviations
from .average_linkage import average_linkage

METHODS = ("average", "kmeans")


def _cluster_counts(name: str, given: Any) -> int | tuple[int, ...]:
    if not isinstance(given, (list, tuple)):
        return check_integer(name, given, low=1)
    if not given:
        raise InputError(f"{name} must hold a number", given, f"Write {name}=100")
    return tuple(check_integer(name, g, low=1) for g in given)


@dataclass(frozen=True, repr=False)
class Cluster(WeightedMeasure):
    """U = sum over clusters of n_i (n_i1 / n_i - c)^2, c the original's share of all records. Zero is best.

    Both files are clustered together, by average linkage on squared distances as in the paper, or by k-means, which
    scales to large files. Two independent samples of one population have an expectation of (g - 1) c (1 - c), given in
    ``parts["null"]``.

    Parameters
    ----------
    clusters : int or list of int
        g, the number of clusters. One tree serves several; the value is the first one's and all are in ``parts``. Equal
        records are never parted, so there are at most as many clusters as different records.
    method : "average" or "kmeans"
        Average linkage takes time n^2 and memory n; k-means (scikit-learn) time and memory n.
    columns : names, optional
        Numeric columns stay numbers; others become indicators.
    standardise : bool
        Divide by the original's standard deviations first. The paper does not.
    seed : int
        Where k-means starts.

    Examples
    --------
    >>> round(Cluster(clusters=2)([0, 1, 10], [0.5, 11, 10.5]), 6)
    0.166667
    """

    clusters: int | tuple[int, ...] = checked(100, _cluster_counts)
    method: str = checked("average", check_choice, options=METHODS)
    columns: Names = checked(None, as_names)
    standardise: bool = False
    seed: int = checked(0, check_integer, low=0)

    columns_by_name: ClassVar[bool] = True
    label: ClassVar[str] = "cluster"
    reference: ClassVar[str] = "Karr, Oganian, Reiter and Woo, New measures of data utility, eq. 2.4"

    def compare(
        self, state: tuple[pd.DataFrame, Array | None], released: pd.DataFrame, weights: Array | None = None
    ) -> Measured:
        first, second, _ = encode(self.name, state[0], released)
        counts = self.clusters if isinstance(self.clusters, tuple) else (self.clusters,)
        source = np.arange(len(first) + len(second)) < len(first)
        pooled = pool_files(first, second, self.standardise)
        often = np.ones(len(source))
        if weights is not None and state[1] is not None:
            often = np.concatenate([w / w.mean() for w in (state[1], weights)])
        share = float(source.mean())
        parts, used = {}, 0
        for g, labels in zip(counts, cluster_labels(pooled, counts, self.method, self.seed), strict=True):
            sizes = np.bincount(labels, weights=often)
            own = np.bincount(labels, weights=source * often)
            parts[f"g={g}"] = float(((own / sizes - share) ** 2 * sizes).sum())
            used = used or len(sizes)
        value = parts[f"g={counts[0]}"]
        unit = share * (1 - share)
        return Measured(value, parts=parts | {"null": (used - 1) * unit, "maximum": len(source) * unit})


def cluster_labels(pooled: Array, counts: tuple[int, ...], method: str, seed: int = 0) -> list[Ints]:
    """Labels 0, 1, ... of every record for each number of clusters."""
    n = len(pooled)
    check_cluster_count(max(counts), n)
    if method == "average":
        return linkage_cut(pooled, counts)
    from sklearn.cluster import KMeans

    # In the order of the values: that of the records must not meet random numbers.
    order = np.lexsort(pooled.T) if pooled.shape[1] else np.arange(n)
    points = _about_zero(pooled[order])
    # Points that differ by less than the squares of their distances can tell are one to k-means.
    distinct = len(np.unique(np.round(points, 12), axis=0)) if points.shape[1] else 1
    found = []
    for g in counts:
        if min(g, distinct) == 1:
            found.append(np.zeros(n, dtype=np.int64))
            continue
        fit = KMeans(n_clusters=min(g, distinct), n_init=1, random_state=seed).fit(points)
        found.append(np.unique(fit.labels_[np.argsort(order)], return_inverse=True)[1])
    return found


def check_cluster_count(count: int, n: int) -> None:
    """Raise an error for more clusters than records."""
    if count > n:
        what = f"clusters must be at most the number of records of both files, {n}"
        raise InputError(what, count, "Ask for fewer clusters")


def linkage_cut(points: Array, counts: tuple[int, ...]) -> list[Ints]:
    """Average linkage on squared Euclidean distances, cut into each number of clusters.

    Memory grows with the number of records, not with its square. Equal records are always together: where more clusters
    are wanted than there are different records, each of these is one.
    """
    distinct, where, sizes = np.unique(points, axis=0, return_inverse=True, return_counts=True)
    where = where.reshape(-1)
    merges, height = average_linkage(np.ascontiguousarray(_about_zero(distinct)), sizes.astype(np.int64))
    order = np.argsort(height, kind="stable")
    found = []
    for g in counts:
        # Clusters are what the lowest merges connect.
        first, second = merges[order[: max(len(distinct) - g, 0)]].T
        links = coo_array((np.ones(len(first)), (first, second)), shape=(len(distinct), len(distinct)))
        found.append(connected_components(links, directed=False)[1].astype(np.int64)[where])
    return found


def _about_zero(points: Array) -> Array:
    """The points about their middle, in units of a power of two: digits are kept and squares are finite.

    Origin and unit do not matter to clusters.
    """
    middle = points / 2
    middle = middle - (middle.min(axis=0) / 2 + middle.max(axis=0) / 2)
    _, exponent = np.frexp(np.abs(middle).max(initial=0.0))
    return np.ldexp(middle, -int(exponent))


def pool_files(first: Array, second: Array, standardise: bool) -> Array:
    """Both files below each other, in units of the original's standard deviations if asked."""
    pooled = np.concatenate([first, second])
    if standardise:
        spread = standard_deviations(first) if len(first) > 1 else np.ones(first.shape[1])
        pooled = pooled / np.where(spread > 0, spread, 1.0)
    return pooled
