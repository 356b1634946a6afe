"""Whether a release keeps close to the records that it was made from, beside records that it has never seen.

A synthetic file of any length may copy records without pairing them. How near is near? Records of the same population
that took no part, the holdout, say it: a release that is as near to them as to the original tells nothing about who is
in the original.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from ...checks import check_choice, checked
from ...errors import InputError
from ...protocols import Array
from .. import frames
from ..base import Measured
from ..frames import Names
from ..missing import fill_missing, with_missing
from ..tables import cells
from .coordinates import Space
from .neighbours import BoxTree, is_tied, nearest, without_rounding
from .records import AveragedMeasure, OtherFile, excess_over_holdout

DISTANCES = ("standardised", "mahalanobis")
NEAR = 0.05
"""The share of originals that are this near to their own neighbour: how near is near without a holdout."""
MEAN_MAXIMUM = 0.8687311606361591
"""Mean of Kolmogorov's law, sqrt(pi / 2) log 2."""


@dataclass(frozen=True, repr=False)
class _InSpace(AveragedMeasure):
    """A risk from distances between original, release and holdout; columns as in `RecordLinkage`."""

    missing_choices: ClassVar[tuple[str, ...]] = ("category", "omit", "raise")
    own_missing: ClassVar[tuple[str, ...]] = ("category",)

    def _coordinates_of_files(
        self, original: pd.DataFrame, released: pd.DataFrame, holdout: OtherFile | None, distance: str
    ) -> tuple[Array, Array, Array]:
        """Coordinates of the original, the release and the holdout, which may be empty."""
        held = released.iloc[:0]
        if holdout is not None:
            held = holdout.with_missing_handled(self.name, "the holdout", list(original.columns), self.missing)
            for label in original.columns:
                frames.refuse_mixed(self.name, original[label], held[label])
        tables = [original, released, held]
        lacking = list(dict.fromkeys(c for t in tables for c in with_missing(t)))
        original, released, held = (fill_missing(self.missing, original, t, lacking) for t in tables)
        both = pd.concat([released, held], ignore_index=True) if len(held) else released
        left, right, _ = Space(self.name, distance, original).coordinates(None, both)
        if left.shape[1] == 0:
            left, right = np.zeros((len(left), 1)), np.zeros((len(right), 1))
        return left, right[: len(released)], right[len(released) :]


@dataclass(frozen=True, repr=False)
class ClosestRecord(_InSpace):
    """Share of released records that lie closer to an original record than to any record of a holdout.

    Of a release that tells nothing about who is in the original this is the original's share of both files together
    (``parts["baseline"]``); of one that repeats originals it is 1. Without a holdout: the share of released records
    nearer to an original than 5 % of the originals are to their own nearest neighbour; the baseline is then 0.05, as of
    another sample of the same size. `per_record` gives 1 for such released records.

    Parameters
    ----------
    known : list of column names, optional
        The columns that make the distance; all by default.
    holdout : DataFrame, array or path, optional
        Records of the same population from which the release was not made.
    distance : "standardised" or "mahalanobis"
        As in `RecordLinkage`.

    Notes
    -----
    ``error`` is the standard error over released records. ``parts``: ``baseline``, ``excess`` over it, the 5 % quantile
    and the median of the distance to the closest record (``DCR 5%``, ``DCR median``), the 5 % quantile of its ratio to
    the second closest (``NNDR 5%``), the share of exact ``copies``, and the same for the holdout (``holdout DCR 5%``).
    Distances are in the original's standard deviations.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> train, held = rng.normal(size=(200, 2)), rng.normal(size=(200, 2))
    >>> value = ClosestRecord(holdout=held)(train, train + 0.01)
    >>> bool(value > 0.95), value.parts["baseline"]
    (True, 0.5)
    """

    label: ClassVar[str] = "closest_record"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Platzer and Reutterer (2021), Frontiers in Big Data 4; Zhao, Kunar et al. (2021)"

    known: Names = checked(None, frames.as_names)
    holdout: Any = checked(None, OtherFile.of)
    distance: str = checked("standardised", check_choice, options=DISTANCES)

    def compare(self, state: pd.DataFrame, released: pd.DataFrame) -> Measured:
        """Find neighbours and compare."""
        left, points, held = self._coordinates_of_files(state, released, self.holdout, self.distance)
        near, parts = _two_nearest(cKDTree(left), points)
        if self.holdout is None:
            both = [near, _nearest_distances(cKDTree(left), left)[:, -1]]
            near, own = np.split(without_rounding(np.concatenate(both)), [len(near)])
            baseline = NEAR
            bound = np.quantile(own, NEAR, method="inverted_cdf") if len(left) > 1 else 0.0
            # Distances of categories are often the same: those at the bound count as far as the originals' do.
            part = (NEAR - (own < bound).mean()) / (own == bound).mean() if len(left) > 1 else 1.0
            closer = np.where(near == bound, part, near < bound)
        else:
            other, more = _two_nearest(cKDTree(held), points)
            baseline = len(left) / (len(left) + len(held))
            closer = np.where(is_tied(near, other), baseline, near < other)
            parts |= {f"holdout {name}": value for name, value in more.items()}
        value = float(closer.mean())
        error = float(closer.std(ddof=1) / np.sqrt(len(closer))) if len(closer) > 1 else 0.0
        return Measured(value, error, {"baseline": baseline, "excess": value - baseline} | parts, records=closer)


@dataclass(frozen=True, repr=False)
class Membership(_InSpace):
    """How well an intruder tells who is in the original by the distance to the closest released record.

    He holds the records of people, half of whom are in the file, and takes those for members to whom a released record
    is near. The value is the area under his receiver operating characteristic: the probability that a member lies
    nearer to the release than somebody of the holdout does; 0.5 is guessing. `per_record` gives each original's.

    Parameters
    ----------
    known, distance
        As in `ClosestRecord`.
    holdout : DataFrame, array or path
        Records of the same population that are not in the original, and from which the release was not made.

    Notes
    -----
    ``error`` is DeLong's standard error. ``parts``: ``advantage``, the largest difference of true and false positive
    rates over all thresholds, its binomial standard error ``advantage_error``, and ``advantage_chance``, its mean if
    nothing can be told (a maximum is never 0).

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> train, held = rng.normal(size=(200, 2)), rng.normal(size=(200, 2))
    >>> bool(Membership(holdout=held)(train, train + 0.01) > 0.95)
    True
    """

    label: ClassVar[str] = "membership"
    per_record_file: ClassVar[str] = "original"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Shokri et al. (2017); Hilprecht et al. (2019); DeLong, DeLong and Clarke-Pearson (1988)"

    known: Names = checked(None, frames.as_names)
    holdout: Any = checked(None, OtherFile.of, required=True)
    distance: str = checked("standardised", check_choice, options=DISTANCES)

    def compare(self, state: pd.DataFrame, released: pd.DataFrame) -> Measured:
        """Find neighbours and rank."""
        left, points, held = self._coordinates_of_files(state, released, self.holdout, self.distance)
        tree = cKDTree(points)
        n, m = len(left), len(held)
        gaps = _nearest_distances(tree, np.concatenate([left, held]))[:, 0]
        inside, outside = np.split(without_rounding(gaps), [n])
        each, other = 1.0 - _share_below(outside, inside), _share_below(inside, outside)
        errors = [np.var(v, ddof=1) / len(v) if len(v) > 1 else 0.0 for v in (each, other)]
        at = np.unique(np.concatenate([inside, outside]))
        hit, miss = (np.searchsorted(np.sort(x), at, side="right") / len(x) for x in (inside, outside))
        best = int(np.argmax(hit - miss))
        variance = hit[best] * (1 - hit[best]) / n + miss[best] * (1 - miss[best]) / m
        parts = {
            "advantage": float(hit[best] - miss[best]),
            "advantage_error": float(np.sqrt(variance)),
            "advantage_chance": float(min(MEAN_MAXIMUM * np.sqrt((n + m) / (n * m)), 1.0)),
        }
        return Measured(float(each.mean()), float(np.sqrt(sum(errors))), parts, records=each)


@dataclass(frozen=True, repr=False)
class Linkability(_InSpace):
    """How often two intruders who know different columns of a person meet in the same released record.

    One looks for the released record nearest in the columns ``known``, one in the columns ``other``; a release that
    brings them together lets two files about the same people be joined. Nearest records share a link, so the value is
    the mean over the original's records of the probability that both choose the same. No record is paired with another:
    the release may have any number of rows. `per_record` gives each original's.

    Parameters
    ----------
    known, other : list of column names
        What each of them knows; no column is in both.
    holdout : DataFrame, array or path, optional
        Records of the same population from which the release was not made.
    distance : "standardised" or "mahalanobis"
        As in `RecordLinkage`.

    Notes
    -----
    anonymeter's linkability with one neighbour, whose distances are scaled by ranges instead. ``error`` is the standard
    error over records. ``parts``: ``chance``, that of two records chosen at random; with a holdout the value for its
    records (``holdout``), and (value - holdout) / (1 - holdout), the ``excess`` that comes from being in the file.

    Examples
    --------
    >>> file = pd.DataFrame({"age": [20, 30, 40, 50], "pay": [1, 2, 3, 4]})
    >>> float(Linkability("age", "pay")(file, pd.concat([file, file], ignore_index=True)))
    0.5
    """

    label: ClassVar[str] = "linkability"
    per_record_file: ClassVar[str] = "original"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Giomi, Boenisch, Wehmeyer and Tasnadi (2023), PoPETs 2023(2), 312-328"

    known: Names = checked(None, frames.as_names, required=True)
    other: Names = checked(None, frames.as_names, required=True)
    holdout: Any = checked(None, OtherFile.of)
    distance: str = checked("standardised", check_choice, options=DISTANCES)

    def uses(self, original: pd.DataFrame) -> frames.Labels:
        """The columns of the one and then of the other."""
        known, other = (frames.pick_columns(self.name, names, original) for names in (self.known, self.other))
        both = [str(c) for c in known if c in other]
        if both:
            raise InputError("known and other must name different columns", ", ".join(both), "Name each column once")
        return known + other

    def compare(self, state: pd.DataFrame, released: pd.DataFrame) -> Measured:
        """Link by each set of columns, and see whether the links meet."""
        names: Any = self.known
        split = list(state.columns[: len(names)]), list(state.columns[len(names) :])
        sides = [self._coordinates_of_files(state[c], released[c], self.holdout, self.distance) for c in split]
        kinds = [np.unique(points, axis=0, return_inverse=True) for _, points, _ in sides]
        trees, at = [BoxTree.of(k[0]) for k in kinds], [k[1].reshape(-1) for k in kinds]

        def meetings(which: int) -> Array:
            links = [nearest(tree, side[which]) for tree, side in zip(trees, sides, strict=True)]
            size = [np.add.reduceat(np.bincount(a)[k.points], k.edges[:-1]) for a, k in zip(at, links, strict=True)]
            # every tie of the one with every tie of the other, by person
            first, second = links
            many = first.counts * second.counts
            row = np.repeat(np.arange(len(many)), many)
            a = np.repeat(first.points, np.repeat(second.counts, first.counts))
            turn = np.arange(len(row)) - np.cumsum(many)[row]
            b = second.points[second.edges[row] + turn % second.counts[row]]
            width = len(kinds[1][0])
            together = np.bincount(row, cells.counts_of(at[0] * width + at[1], a * width + b), minlength=len(many))
            return np.asarray(together / (size[0] * size[1]), dtype=np.float64)

        each = meetings(0)
        value, parts = float(each.mean()), {"chance": 1.0 / len(released)}
        if self.holdout is not None:
            parts |= excess_over_holdout(value, float(meetings(2).mean()))
        error = float(each.std(ddof=1) / np.sqrt(len(each))) if len(each) > 1 else 0.0
        return Measured(value, error, parts, records=each)


def _nearest_distances(tree: cKDTree, points: Array) -> Array:
    """Distances to the closest and to the second closest point, the same where there is one point only."""
    found = tree.query(points, k=[1, min(2, tree.n)])[0]
    return np.asarray(found, dtype=np.float64)


def _two_nearest(tree: cKDTree, points: Array) -> tuple[Array, dict[str, float]]:
    """Distance of each point to its closest one, and the usual figures."""
    first, second = _nearest_distances(tree, points).T
    ratio = np.divide(first, second, out=np.ones(len(first)), where=second > 0)
    parts = {
        "DCR 5%": float(np.quantile(first, NEAR)),
        "DCR median": float(np.median(first)),
        "NNDR 5%": float(np.quantile(ratio, NEAR)),
        "copies": float((first == 0).mean()),
    }
    return first, parts


def _share_below(sample: Array, at: Array) -> Array:
    """Share of a sample below each value, those equal to it counted half."""
    ranked = np.sort(sample)
    return (np.searchsorted(ranked, at, "left") + np.searchsorted(ranked, at, "right")) / (2.0 * len(ranked))
