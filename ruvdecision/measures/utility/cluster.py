"""Broad utility: cluster both files together and see whether every cluster has its share of either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ...checks import as_tuple, check_choice, check_integer, check_integers, checked, is_single
from ...errors import InputError
from ...numerics.compiled import compiled
from ...protocols import Array
from ..base import Measured, WeightedMeasure
from ..frames import Ints, Names, as_names, encode, standard_deviations

METHODS = ("average", "kmeans")


def _cluster_counts(name: str, given: Any) -> int | tuple[int, ...]:
    counts = check_integers(name, given, f"Write {name}=100", low=1)
    return counts[0] if is_single(given) else counts


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
        counts = as_tuple(self.clusters)
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
        sd = standard_deviations(first) if len(first) > 1 else np.ones(first.shape[1])
        pooled = pooled / np.where(sd > 0, sd, 1.0)
    return pooled


# -- average linkage without the matrix of all distances, which scipy's holds ------------------------


def _near_order(points: Array, box: int) -> Ints:
    """An order in which neighbours in the list are near in space: halve along the widest coordinate down to a box."""
    n, p = points.shape
    order = np.arange(n)
    stack = [(0, n)]
    while len(stack) > 0:
        a, b = stack.pop()
        if b - a <= box:
            continue
        part = order[a:b].copy()
        widest = 0
        width = -1.0
        for d in range(p):
            column = points[part, d]
            extent = column.max() - column.min()
            if extent > width:
                width = extent
                widest = d
        # Whole boxes on the left, so that boxes of the list are boxes in space.
        half = ((b - a) // 2 + box - 1) // box * box
        ranked = np.argsort(points[part, widest])
        order[a:b] = part[ranked]
        stack.append((a, a + half))
        stack.append((a + half, b))
    return order


def _half_linkage_distance(centre: Array, deviation: Array, i: int, j: int) -> float:
    """Mean squared distance between the clusters i and j, but for the deviation of j."""
    total = deviation[i]
    for d in range(centre.shape[1]):
        gap = centre[i, d] - centre[j, d]
        total += gap * gap
    return total


@compiled(_near_order, _half_linkage_distance)
def average_linkage(points: Array, sizes: Ints) -> tuple[Ints, Array]:
    """Average linkage on squared Euclidean distances by nearest-neighbour chains, in memory O(n).

    The mean squared distance between two clusters is the squared distance of their centroids plus both mean squared
    deviations, so a cluster is its centroid, deviation and size. ``points`` is (n, p), ``sizes`` the number of equal
    records at each point; their squared distances must be finite. Clusters lie in boxes of near neighbours, and a box
    that is farther than the best so far is not searched. Gives the merged pairs, named by one point of each cluster,
    and the heights.
    """
    n, p = points.shape
    box = 32
    merges = np.empty((max(n - 1, 0), 2), dtype=np.int64)
    height = np.empty(max(n - 1, 0))
    chain = np.empty(n, dtype=np.int64)
    centre = points.copy()
    deviation = np.zeros(n)
    size = sizes.astype(np.float64)
    label = np.arange(n)
    place = np.arange(n)
    linked = np.zeros(n, dtype=np.bool_)
    boxes = (n + box - 1) // box
    low = np.empty((boxes, p))
    high = np.empty((boxes, p))
    least = np.empty(boxes)
    used = 0  # slots that hold a cluster or held one since the last renewal
    active = n
    length = 0
    done = 0
    while active > 1:
        if used == 0 or active * 2 < used:
            # Gather the living clusters, near ones together, and draw the boxes anew.
            keep = np.flatnonzero(size[: n if used == 0 else used] > 0)
            order = keep[_near_order(centre[keep], box)]
            centre[:active] = centre[order]
            deviation[:active] = deviation[order]
            size[:active] = size[order]
            label[:active] = label[order]
            for s in range(active):
                place[label[s]] = s
            used = active
            boxes = (used + box - 1) // box
            for b in range(boxes):
                least[b] = np.inf
                for d in range(p):
                    low[b, d] = np.inf
                    high[b, d] = -np.inf
                for s in range(b * box, min((b + 1) * box, used)):
                    least[b] = min(least[b], deviation[s])
                    for d in range(p):
                        low[b, d] = min(low[b, d], centre[s, d])
                        high[b, d] = max(high[b, d], centre[s, d])
        if length == 0:
            s = 0
            while size[s] == 0:
                s += 1
            chain[0] = label[s]
            linked[label[s]] = True
            length = 1
        top = place[chain[length - 1]]
        near = -1
        best = np.inf
        if length > 1:
            # Ties go to the last link: the chain could not end otherwise.
            near = place[chain[length - 2]]
            best = _half_linkage_distance(centre, deviation, near, top)
        home = top // box
        for turn in range(-1, boxes):
            b = home if turn < 0 else turn
            if turn == home:
                continue
            bound = least[b]
            for d in range(p):
                at = centre[top, d]
                gap = max(low[b, d] - at, at - high[b, d])
                if gap > 0:
                    bound += gap * gap
            if bound >= best:
                continue
            for s in range(b * box, min((b + 1) * box, used)):
                if size[s] > 0 and s != top:
                    distance = _half_linkage_distance(centre, deviation, s, top)
                    if distance < best:
                        best = distance
                        near = s
        if length > 1 and linked[label[near]]:
            # Back to an earlier link: by rounding alone, so it is a tie, and the last link will do as well.
            near = place[chain[length - 2]]
        if length > 1 and near == place[chain[length - 2]]:
            best = _half_linkage_distance(centre, deviation, near, top)
            linked[label[near]] = False
            linked[label[top]] = False
            merges[done, 0] = label[near]
            merges[done, 1] = label[top]
            height[done] = best + deviation[top]
            done += 1
            length -= 2
            total = size[near] + size[top]
            share = size[top] / total
            between = 0.0
            b = near // box
            for d in range(p):
                gap = centre[top, d] - centre[near, d]
                between += gap * gap
                centre[near, d] += share * gap
                low[b, d] = min(low[b, d], centre[near, d])
                high[b, d] = max(high[b, d], centre[near, d])
            deviation[near] = (1 - share) * deviation[near] + share * deviation[top] + share * (1 - share) * between
            least[b] = min(least[b], deviation[near])  # a bound may be too low, never too high
            size[near] = total
            size[top] = 0.0
            active -= 1
        else:
            chain[length] = label[near]
            linked[label[near]] = True
            length += 1
    return merges, height
