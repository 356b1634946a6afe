"""What an intruder learns about values: after linkage, from intervals around released values, and by clustering."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ...checks import check_choice, check_integer, check_number, checked
from ...errors import InputError, UnsupportedError
from ...protocols import Array
from .. import frames
from ..base import Measured
from ..missing import IMPUTED, KNOWN
from ..tables import cells
from ..utility.cluster import METHODS, check_cluster_count, cluster_labels
from ..utility.distance import robust_covariance
from .coordinates import Space
from .linkage import DISTANCES
from .neighbours import BoxTree, Links, distinct_points, nearest
from .records import (
    OtherFile,
    PairedMeasure,
    RecordPairs,
    are_nobodys,
    excess_over_holdout,
    risk_without_pairs,
)

ISOLATED = 0.05
"""A released record farther than this from every other, in standard deviations, is isolated; sdcMicro's k and k2."""


@dataclass(frozen=True, repr=False)
class _AfterLinkage(PairedMeasure):
    """An intruder who knows some columns reads another one off the released records nearest to what he knows.

    He links original to released. Where several released records are equally near he takes the mean of their numbers,
    or one of their categories at random. Missing values, ``missing="pairwise"``: he links as in `RecordLinkage`;
    records whose unknown value is missing have nothing to lose and no number, and a blank tells him nothing.

    Nobody's own record is looked for, so the release may have any number of rows: of one that is part of the original
    by its row labels the records that it has count, of any other (a synthetic file) all records of the original.
    """

    missing_choices: ClassVar[tuple[str, ...]] = KNOWN
    own_columns: ClassVar[tuple[str, ...]] = ("unknown",)
    per_record_file: ClassVar[str] = "original"
    pairs: ClassVar[str] = "optional"

    unknown: Hashable = checked(None, frames.one_name, required=True)
    known: frames.Names = checked(None, frames.as_names)
    distance: str = checked("standardised", check_choice, options=DISTANCES)

    def begin(self, original: pd.DataFrame) -> tuple[Space, pd.Series]:
        """Scales of the known columns and the truth."""
        return Space(self.name, self.distance, original.iloc[:, :-1]), original.iloc[:, -1]

    def _link_and_read(
        self, state: tuple[Space, pd.Series], released: pd.DataFrame, held: pd.DataFrame | None = None
    ) -> _Reading:
        """Link the originals, or the records of a holdout, and look up the unknown column."""
        space, truth = state
        known = None if held is None else held.iloc[:, :-1]
        if held is not None:
            truth = held.iloc[:, -1]
        pairs = RecordPairs.of(self.name, space.original if known is None else known, released, alone=True)
        pairs = pairs.with_known_originals(self.name, truth.notna().to_numpy(dtype=bool))
        column = released.iloc[:, -1]
        number = frames.is_number(truth) and not pd.api.types.is_bool_dtype(truth.dtype)
        a: NDArray[Any]
        b: NDArray[Any]
        if number:
            a = frames.offsets_with_nan(self.name, truth, truth)
            b = frames.offsets_with_nan(self.name, column, truth, "the release")
        else:
            if column.notna().any():
                frames.refuse_mixed(self.name, truth, column)
            (a, b), _ = frames.joined_codes(truth, column)
        gapped = space.incomplete_records(known, released.iloc[:, :-1])
        if gapped is not None:
            links = gapped[0].take(pairs.original).links(gapped[1])
            return _Reading(a, b, np.arange(len(b)), links, pairs, number)
        left, right, _ = space.coordinates(known, released.iloc[:, :-1])
        if left.shape[1] == 0:
            left, right = np.zeros((len(left), 1)), np.zeros((len(right), 1))
        points, places = distinct_points(right)
        links = nearest(BoxTree.of(points), left[pairs.original])
        return _Reading(a, b, np.arange(len(b)) if places is None else places, links, pairs, number)


@dataclass(frozen=True, eq=False)
class _Reading:
    """What an intruder reads: the released values at the points that he links each original to."""

    truth: NDArray[Any]
    values: NDArray[Any]
    places: frames.Ints
    """At which point each released record is; records at the same point are all linked."""
    links: Links
    pairs: RecordPairs
    number: bool

    @property
    def true_values(self) -> NDArray[Any]:
        """The true values of the linked originals."""
        return self.truth[self.pairs.original]

    def means(self) -> Array:
        """Mean released value over the links of each original; the file's mean where all of them are blank."""
        known = ~np.isnan(self.values)
        count = self._sum_over_links(np.bincount(self.places, weights=known))
        total = self._sum_over_links(np.bincount(self.places, weights=np.where(known, self.values, 0.0)))
        return np.divide(total, count, out=np.full(len(count), self.mean_value), where=count > 0)

    @property
    def mean_value(self) -> float:
        """The mean of the released values; of the true ones if all are blank."""
        known = self.values[~np.isnan(self.values)]
        return float(known.mean() if len(known) else self.true_values.mean())

    def read_rightly(self, near: float) -> Array:
        """Whether each original's value is read: a number within ``near``, or the share of links with its category."""
        return (
            (np.abs(self.means() - self.true_values) <= near).astype(np.float64) if self.number else self.share_read()
        )

    def share_read(self) -> Array:
        """Share of the links of each original that have its true category."""
        width = int(max(self.truth.max(), self.values.max())) + 2
        wanted = self.links.points * width + np.repeat(self.true_values, self.links.counts) + 1
        right = cells.counts_of(self.places * width + self.values + 1, wanted)  # a blank has code -1
        return np.add.reduceat(right, self.links.edges[:-1]) / self._sum_over_links(np.bincount(self.places))

    def _sum_over_links(self, by_point: NDArray[Any]) -> Array:
        return np.add.reduceat(by_point[self.links.points], self.links.edges[:-1])


@dataclass(frozen=True, repr=False)
class AttributeDisclosure(_AfterLinkage):
    """Share of records whose unknown value an intruder gets right after linking on what he knows.

    Right means: within ``within_sd`` of the original's standard deviations for a number, equal for a category (ties of
    the link count as fractions). A correct value does not need a correct link: in a group of equal values any link will
    do. ``parts["chance"]`` is the share he gets right without linking: by the release's mean, or by a random category
    drawn as the release has them.

    Parameters
    ----------
    unknown : column name
        What the intruder wants.
    known : list of column names, optional
        What he knows exactly; every other column by default.
    distance : "standardised", "mahalanobis" or "rank"
        As in `RecordLinkage`.
    within_sd : float
        How near counts as right for a number.
    holdout : DataFrame, array or path, optional
        Records of the same population from which the release was not made. ``parts["holdout"]`` is the share that he
        gets right of them, what the release tells about anybody; ``parts["excess"]`` is (value - holdout) / (1 -
        holdout), anonymeter's risk of inference.

    Examples
    --------
    >>> data = pd.DataFrame({"age": [20, 30, 40], "income": [1.0, 2.0, 3.0]})
    >>> float(AttributeDisclosure("income")(data, data))
    1.0
    """

    label: ClassVar[str] = "attribute_disclosure"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Lambert (1993), Journal of Official Statistics 9, 313-331; Winkler (2004), section 4"

    within_sd: float = checked(0.1, check_number, low=0)
    holdout: Any = checked(None, OtherFile.of)

    def compare(self, state: tuple[Space, pd.Series], released: pd.DataFrame) -> Measured:
        """Link, read, compare."""
        read = self._link_and_read(state, released)
        near = (
            self.within_sd * float(frames.standard_deviations(read.truth[~np.isnan(read.truth)])) * (1 + 1e-9)
            if read.number
            else 0.0
        )
        right = read.read_rightly(near)
        if read.number:
            chance = float((np.abs(read.mean_value - read.true_values) <= near).mean())
        else:
            shares = np.bincount(read.values + 1, minlength=read.truth.max() + 2) / len(read.values)
            chance = float(shares[read.true_values + 1].mean())
        parts, value = {"chance": chance}, float(right.mean())
        if self.holdout is not None:
            held = self.holdout.with_missing_handled(self.name, "the holdout", list(released.columns), self.missing)
            parts |= excess_over_holdout(
                value, float(self._link_and_read(state, released, held).read_rightly(near).mean())
            )
        return Measured(value, parts=parts, records=read.pairs.along_original(right))


@dataclass(frozen=True, repr=False)
class IntruderError(_AfterLinkage):
    """How far an intruder's value of an unknown column is off after linking on what he knows.

    For a number: the root mean squared error in units of the original's standard deviation, about 1 if linkage tells
    him no more than the mean; ``parts["error"]`` has it in the column's unit. For a category: his share of wrong
    values. Larger is safer. `per_record` gives the absolute error in the column's unit, or the probability of a wrong
    category.

    Parameters
    ----------
    unknown, known, distance
        As in `AttributeDisclosure`.

    Examples
    --------
    >>> data = pd.DataFrame({"age": [20, 30, 40], "income": [1.0, 2.0, 3.0]})
    >>> released = data.assign(income=[2.0, 2.0, 2.0])
    >>> round(float(IntruderError("income")(data, released)), 4)
    0.8165
    """

    label: ClassVar[str] = "attribute_error"
    direction: ClassVar[str] = "higher"
    reference: ClassVar[str] = AttributeDisclosure.reference

    def weigh(self, found: Measured, weights: Array) -> Measured:
        """The weighted mean of wrong categories, or the root of that of squared errors."""
        assert found.records is not None
        if "sd" not in found.parts:
            return super().weigh(found, weights)
        squares = Measured(found.parts["error"] ** 2, records=found.records**2)
        error = float(np.sqrt(super().weigh(squares, weights)))
        parts = found.parts | {"error": error, "unweighted": float(found)}
        return Measured(error / found.parts["sd"], parts=parts, records=found.records)

    def compare(self, state: tuple[Space, pd.Series], released: pd.DataFrame) -> Measured:
        """Link, read, compare."""
        read = self._link_and_read(state, released)
        if not read.number:
            wrong = 1.0 - read.share_read()
            return Measured(
                float(wrong.mean()), parts={"error": float(wrong.mean())}, records=read.pairs.along_original(wrong)
            )
        off = np.abs(read.means() - read.true_values)
        error = float(np.sqrt(np.mean(off**2)))
        sd = float(frames.standard_deviations(read.truth[~np.isnan(read.truth)]))
        if sd == 0:
            what = f"{self.name} needs an unknown column that varies"
            raise InputError(what, f"{self.unknown} is constant", "Choose another column")
        return Measured(error / sd, parts={"error": error, "sd": sd}, records=read.pairs.along_original(off))


@dataclass(frozen=True, repr=False)
class IntervalDisclosure(PairedMeasure):
    """Share of records whose original values lie in narrow intervals around the released ones.

    Needs no linkage: it says how well the release gives away a record that the intruder has found already. The interval
    is the released value plus or minus ``width_sd`` of the original's standard deviations (SDID), or runs between the
    released values whose ranks are ``width_rank`` of the file below and above. Missing values, ``missing="pairwise"``:
    a value that the original lacks does not count, and a blank in the release gives nothing away.

    A release with another number of rows and no row labels of the original, as a synthetic file is, has no true pairs.
    The original nearest to a released row is then taken for its own, and what is given away that way counts as far as
    it is more than originals give away about the nearest other original: another sample of numbers has a value near 0,
    a file of the originals' own rows has 1. A missing value is looked for as the original's median. ``parts`` has the
    share of ``copies``, and of the other rows the share that give somebody away, ``nearer``, and what another sample
    would, ``chance``; ``error`` is the standard error.

    Parameters
    ----------
    columns : list of column names, optional
        Numeric columns; all by default.
    width_sd : float, optional
        Half-width in standard deviations; 0.05 unless ``width_rank`` is given.
    width_rank : float, optional
        Half-width in ranks, as a share of the file.
    across : "all", "any" or "mean"
        A record counts if all its columns, or any of them, lie inside; or with the share of them that do.
    spread_of : "original" or "released"
        Whose standard deviations; those of the release give sdcMicro's ``dRisk``.
    paired : bool
        False if rows are nobody's though the release has as many as the original, as those of a synthetic file.
    outlying : bool
        Multiply the width by the record's robust Mahalanobis distance, so that outliers, which are found more easily,
        count as given away sooner; each file is standardised by its own mean and standard deviation. Needs true pairs.
        With ``width_sd=0.0005, across="any"`` sdcMicro's ``dRiskRMD``, with its ``risk1``, ``risk2`` (of these, records
        without another released one within 0.05), ``wrisk1`` and ``wrisk2`` (0.05 times the distances of those records,
        summed, times their share) in ``parts``.

    Examples
    --------
    >>> float(IntervalDisclosure(width_sd=0.5)([0.0, 1.0, 2.0], [0.4, 1.0, 3.0]))
    0.6666666666666666
    """

    label: ClassVar[str] = "SDID"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = (
        "Mateo-Sanz, Sebe and Domingo-Ferrer (2004), Outlier protection in continuous microdata masking"
    )

    missing_choices: ClassVar[tuple[str, ...]] = KNOWN
    pairs: ClassVar[str] = "wanted"
    needs_pairs: ClassVar[str] = "outlying"

    columns: frames.Names = checked(None, frames.as_names)
    width_sd: float | None = checked(None, check_number, low=0)
    width_rank: float | None = checked(None, check_number, low=0, high=1)
    across: str = checked("all", check_choice, options=("all", "any", "mean"))
    spread_of: str = checked("original", check_choice, options=("original", "released"))
    paired: bool = True
    outlying: bool = False

    def __post_init__(self) -> None:
        if self.width_sd is not None and self.width_rank is not None:
            got = f"width_sd={self.width_sd} and width_rank={self.width_rank}"
            raise InputError("An interval has one width", got, "Give one of them")
        if self.width_sd is None and self.width_rank is None:
            object.__setattr__(self, "width_sd", 0.05)
        super().__post_init__()
        if self.outlying and self.width_rank is not None:
            raise InputError("outlying widens intervals in standard deviations", "width_rank", "Give width_sd")
        if self.outlying and not self.paired:
            raise InputError("outlying looks at true pairs", "paired=False", "Leave one of them out")
        plain = self.width_rank is None and not self.outlying
        self.refuse_unused(plain, "a width in standard deviations without outlying", "width_sd=0.05", "spread_of")

    def default_name(self) -> str:
        """SDID, or the rank version's name."""
        return "SDID" if self.width_rank is None else "rank_interval"

    def begin(self, original: pd.DataFrame) -> tuple[pd.DataFrame, Array]:
        """The original as numbers."""
        return original, _offsets_with_nan(self.name, original, original)

    def compare(self, state: tuple[pd.DataFrame, Array], released: pd.DataFrame) -> Measured:
        """Count the originals inside."""
        table, values = state
        masked = _offsets_with_nan(self.name, released, table)
        if not self.paired or are_nobodys(released):
            return self._risk_where_no_row_is_known(table, values, masked)
        pairs = RecordPairs.of(self.name, table, released)
        truth, shown = values[pairs.original], masked[pairs.released]
        if self.outlying and self.width_sd is not None:
            if np.isnan(values).any() or np.isnan(masked).any():
                what = f"{self.name} has no pairwise rule for Mahalanobis distances"
                raise UnsupportedError(what, "missing values", 'Write missing="impute" or "omit"')
            sides = (values, "the original"), (masked, "the release")
            own, other = (
                (v - v.mean(axis=0)) / frames.nonzero_standard_deviations(self.name, v, table.columns, which)
                for v, which in sides
            )
            robust = robust_covariance(own, "the original")
            far = np.sqrt(np.einsum("ij,ij->i", own, np.linalg.solve(robust, own.T).T))[pairs.original]
            gap = np.abs(own[pairs.original] - other[pairs.released])
            inside = gap < self.width_sd * far[:, None]
            lone = cKDTree(other).query(other, k=min(2, len(other)))[0].reshape(len(other), -1)[:, -1][pairs.released]
        else:
            inside = self._inside_intervals(truth, shown, masked, values if self.spread_of == "original" else masked)
        risk, parts = self._risk_of_rows(inside, truth, table)
        for kind, counted in enumerate((risk, risk * (lone > ISOLATED)), 1) if self.outlying else ():
            weighted = float(counted.sum() * (counted @ far) * ISOLATED / len(risk))
            parts |= {f"risk{kind}": float(counted.mean()), f"wrisk{kind}": weighted}
        return Measured(float(risk.mean()), parts=parts, records=pairs.along_released(risk))

    def _risk_where_no_row_is_known(self, table: pd.DataFrame, values: Array, masked: Array) -> Measured:
        """The same for the original nearest to each released row, beyond what originals show of each other."""
        known = ~np.isnan(values)
        middle = [float(np.median(v[k])) if k.any() else 0.0 for v, k in zip(values.T, known.T, strict=True)]
        # Where something is missing the nearest is looked for with the median, beside a column that says so.
        ours, theirs = (np.hstack([np.where(np.isnan(v), middle, v), np.isnan(v)]) for v in (values, masked))
        unit = frames.standard_deviations(ours)
        unit = np.where(unit > 0, unit, 1.0)
        different, first, kind = np.unique(ours, axis=0, return_index=True, return_inverse=True)
        points, tree = values[first], cKDTree(different / unit)
        wide = values if self.spread_of == "original" else masked
        linked = tree.query(theirs / unit)[1]
        near = points[linked]
        share, parts = self._risk_of_rows(self._inside_intervals(near, masked, masked, wide), near, table)
        usual = np.zeros(len(values))
        if len(points) > 1:
            two = tree.query(different / unit, k=2)[1]
            other = points[np.where(two[:, 0] == np.arange(len(points)), two[:, 1], two[:, 0])][kind.reshape(-1)]
            usual, _ = self._risk_of_rows(self._inside_intervals(other, values, values, wide), other, table)
        error = float(usual.std() / np.sqrt(len(usual)))
        copy = (different[linked] == theirs).all(axis=1)
        found = risk_without_pairs(copy, share, share, float(usual.mean()), error)
        return Measured(float(found.risk.mean()), found.error, parts | found.parts, records=found.risk)

    def _inside_intervals(self, truth: Array, shown: Array, masked: Array, wide: Array) -> frames.Flags:
        """Which true values lie in the intervals around those shown, a row of a file ``masked``.

        ``wide`` is the file whose standard deviations count.
        """
        if self.width_sd is not None:
            sd = np.array(
                [frames.standard_deviations(v[~np.isnan(v)]) if not np.isnan(v).all() else 0.0 for v in wide.T]
            )
            return np.asarray(np.abs(truth - shown) <= self.width_sd * sd * (1 + 1e-9))
        inside = np.zeros(truth.shape, dtype=bool)
        for j in range(masked.shape[1]):
            ranked = np.sort(masked[~np.isnan(masked[:, j]), j])
            steps = int((self.width_rank or 0.0) * len(ranked) + 1e-9)
            if not len(ranked):
                continue
            low = ranked[np.clip(np.searchsorted(ranked, shown[:, j], "left") - steps, 0, len(ranked) - 1)]
            high = ranked[np.minimum(np.searchsorted(ranked, shown[:, j], "right") - 1 + steps, len(ranked) - 1)]
            inside[:, j] = (low <= truth[:, j]) & (truth[:, j] <= high) & ~np.isnan(shown[:, j])
        return inside

    def _risk_of_rows(self, inside: frames.Flags, truth: Array, table: pd.DataFrame) -> tuple[Array, dict[str, float]]:
        """What is given away of each record, and of each column."""
        known = ~np.isnan(truth)
        share = inside.sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        risk = {"all": share == 1.0, "any": share > 0.0, "mean": share}[self.across].astype(np.float64)
        rates = inside.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        return risk, {str(c): float(v) for c, v in zip(table.columns, rates, strict=True)}


@dataclass(frozen=True, repr=False)
class ClusteringAttack(PairedMeasure):
    """Share of released records linked to their own original by clustering both files together.

    The intruder standardises the known columns, clusters all records of both files and links a released record to an
    original of its cluster, any of them with the same probability. Without originals in its cluster a record is not
    linked. With as many clusters as records, clusters are pairs more often than not. Needs true pairs: of a synthetic
    file of another length measure `RecordLinkage`. Bacher, Brand and Bender (2002).

    Parameters
    ----------
    known : list of column names, optional
        The columns that the intruder knows; all by default.
    clusters : int, optional
        How many clusters; as many as there are released records by default, and never more than different points.
    method : "average" or "kmeans"
        Average linkage on squared distances (time n^2, memory n) or k-means.
    seed : int
        Where k-means starts.

    Examples
    --------
    >>> float(ClusteringAttack()([0.0, 5.0, 9.0], [0.1, 5.2, 8.8]))
    1.0
    """

    columns_by_name: ClassVar[bool] = True
    label: ClassVar[str] = "clustering_attack"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Bacher, Brand and Bender (2002); Winkler (2004), section 4"
    missing_choices: ClassVar[tuple[str, ...]] = IMPUTED

    known: frames.Names = checked(None, frames.as_names)
    clusters: int | None = checked(None, check_integer, low=1)
    method: str = checked("average", check_choice, options=METHODS)
    seed: int = checked(0, check_integer, low=0)

    def begin(self, original: pd.DataFrame) -> Space:
        """Scales of the known columns."""
        return Space(self.name, "standardised", original)

    def compare(self, state: Space, released: pd.DataFrame) -> Measured:
        """Cluster and count."""
        pairs = RecordPairs.of(self.name, state.original, released)
        left, right, _ = state.coordinates(None, released)
        n, m = len(left), len(right)
        wanted = m if self.clusters is None else self.clusters
        check_cluster_count(wanted, n + m)
        if left.shape[1] == 0:
            labels = np.zeros(n + m, dtype=np.int64)
        else:
            pooled = np.concatenate([left, right])
            # Equal records cannot be told apart, so more clusters than different points would be made by file order
            # alone.
            wanted = min(wanted, len(np.unique(pooled, axis=0)))
            labels = cluster_labels(pooled, (wanted,), self.method, self.seed)[0]
        ours, theirs = labels[n:], labels[:n]
        originals = np.bincount(theirs, minlength=labels.max() + 1)
        together = ours[pairs.released] == theirs[pairs.original]
        risk = np.where(together, 1.0 / np.maximum(originals[ours[pairs.released]], 1), 0.0)
        parts = {"clusters": float(wanted), "together": float(together.mean())}
        return Measured(float(risk.mean()), parts=parts, records=pairs.along_released(risk))


def _offsets_with_nan(who: str, table: pd.DataFrame, original: pd.DataFrame) -> Array:
    """Numeric columns as floats, NaN where they are missing."""
    frames.numeric(who, original.iloc[:0])  # refuses what is not a number, by name
    which = "the original" if table is original else "the release"
    return np.stack([frames.offsets_with_nan(who, table[c], original[c], which) for c in original.columns], axis=1)
