"""Record linkage by nearest neighbour: how many released records lie nearest to their own original."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from ...checks import Seed, as_generator, check_choice, check_integer, check_number, checked, fixed_seed, suggest
from ...errors import InputError, UnsupportedError
from ...protocols import Array
from .. import frames
from ..base import Measured
from ..missing import PAIRED
from ..tables import cells
from .coordinates import Space, tree_of_points
from .incomplete import IncompleteRecords
from .neighbours import BoxTree, Surroundings, nearest, share_of_own_links
from .records import PairedMeasure, RecordPairs, are_nobodys, risk_without_pairs

DISTANCES = ("standardised", "mahalanobis", "rank")
LINKS = ("released to original", "original to released")
MOST_ASSIGNED = 15_000
"""Most records in a one-to-one assignment, which holds the matrix of all distances (1.8 GB for so many)."""


PerColumn: TypeAlias = float | Mapping[Hashable, float] | None


def check_number_per_column(name: str, value: PerColumn, high: float = np.inf) -> PerColumn:
    """Check for a number, or one for each column."""
    if isinstance(value, Mapping):
        return {k: check_number(f"{name} of {k}", v, low=0, high=high) for k, v in value.items()}
    return check_number(name, value, low=0, high=high)


def number_of_column(value: PerColumn, label: Hashable, default: float | None = None) -> float | None:
    """The number of one column; the default if it has none."""
    found = value.get(label) if isinstance(value, Mapping) else value
    return default if found is None else float(found)


def named_columns(*values: PerColumn) -> list[Hashable]:
    """The columns that mappings name."""
    return [label for value in values if isinstance(value, Mapping) for label in value]


@dataclass(frozen=True, repr=False)
class RecordLinkage(PairedMeasure):
    """Share of records whose nearest neighbour in the other file is their own record.

    An intruder knows some columns of the respondents and links by distance. A link that is shared by m records at the
    same least distance counts 1/m. The agency knows the true pairs and counts the correct links, so the value is what
    an intruder with a file of *all* original records would achieve: a conservative experiment (Winkler 2004, section
    4).

    A release with another number of rows and no row labels of the original, as a synthetic file is, has no true pairs:
    no row is known to be anybody's. A row is then taken to be somebody's as far as the files alone show it. `measure`
    does the same with a file without a key whose rows are in another order, and says so.

    - A row that equals k originals in the known columns is a copy of one of them, and a link to it is right with
      probability 1/k.
    - Of the other rows some may lie nearer to an original than chance has it. Of another sample from the same
      population any of the nearest rows is as likely to be from either file, so the nearest row of the two files
      together, rows equal to the own one apart, is of the other file with a probability c that is its share of these
      rows. Where this holds for a share s of the rows, (s - c) / (1 - c) of them must be somebody's; none if s < c.

    So another sample of numbers has a value near 0, and a file of the originals' own rows the value that it has with
    labels. Categories that equal somebody's by chance count as copies: the intruder cannot tell. ``error`` is then the
    standard error over rows; ``parts`` has the share of ``copies``, and s and c of the other rows, ``nearer`` and
    ``chance``.

    Parameters
    ----------
    known : list of column names, optional
        The columns that the intruder knows; all of them by default.
    distance : "standardised", "mahalanobis" or "rank"
        ``"standardised"``: Euclidean after division by the original's standard deviation; in a column of categories
        every mismatch costs the same, and so much that two random originals differ as much on average as in a numeric
        column. ``"mahalanobis"``: with the original's covariance; numeric columns only. ``"rank"``: Euclidean between
        mid-ranks, each file ranked apart and divided by its length, so that monotone recodings of a file do not matter.
        Columns that are constant in the original cannot tell records apart and are left out.
    link : "released to original" or "original to released"
        Which record looks for its neighbour in which file. The two shares differ; say which one you report.
    one_to_one : bool
        Link all records at once so that no two share a partner and the sum of squared distances is least. The method is
        defined by the matrix of all distances and holds it. Rows that are equal within a file share their partners;
        other ties are settled by the solver. Needs true pairs.
    paired : bool
        False if rows are nobody's though the release has as many as the original, as those of a synthetic file.
    error_sd : number or mapping from column to number, optional
        Standard deviation, in the column's unit, of a normal error in what the intruder knows of numeric columns.
    error_rate : number or mapping from column to number, optional
        Probability that the intruder knows a wrong category, drawn evenly from the others, for columns of categories.
    draws : int
        How often the intruder's errors are drawn; ``error`` of the result is the standard error over the draws.
    seed : int, SeedSequence or Generator
        Where those errors come from.

    Notes
    -----
    **Missing values**, ``missing="pairwise"``: a record looks for its neighbour by the columns that it knows. Where the
    other record does not know one, the distance is the mean over the original's values of that column. A record that is
    blank everywhere is as near to all: its share is 1/n.

    `per_record` gives the share of each record of the file that looks for neighbours, NaN for records without a partner
    in the other file or left out for missing values. Reference: Domingo-Ferrer and Torra (2001).

    Examples
    --------
    >>> float(RecordLinkage()([0.0, 1.0, 2.0, 10.0], [0.1, 1.9, 0.9, 10.3]))
    0.5
    >>> RecordLinkage().per_record([0.0, 1.0], [0.5, 0.5]).tolist()
    [0.5, 0.5]
    """

    label: ClassVar[str] = "linkage"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Domingo-Ferrer and Torra (2001); Winkler (2004), section 4"
    missing_choices: ClassVar[tuple[str, ...]] = PAIRED
    pairs: ClassVar[str] = "wanted"

    known: frames.Names = checked(None, frames.as_names)
    distance: str = checked("standardised", check_choice, options=DISTANCES)
    link: str = checked("released to original", check_choice, options=LINKS)
    one_to_one: bool = False
    paired: bool = True
    error_sd: PerColumn = checked(None, check_number_per_column)
    error_rate: PerColumn = checked(None, check_number_per_column, high=1.0)
    draws: int = checked(1, check_integer, low=1)
    seed: Seed = checked(0, fixed_seed)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.draws > 1 and self.error_sd is None and self.error_rate is None:
            what = "draws repeats the intruder's errors, and he makes none"
            raise InputError(what, self.draws, "Give error_sd or error_rate, or leave draws out")
        check_pairs_option(self.one_to_one, self.paired)
        # The records that look for neighbours.
        object.__setattr__(self, "per_record_file", "released" if self.link == LINKS[0] else "original")

    def begin(self, original: pd.DataFrame) -> Space:
        """Scales of the original, and its tree where records look for neighbours among the originals."""
        space = Space(self.name, self.distance, original)
        self._check_errors(space)
        return space

    def compare(self, state: Space, released: pd.DataFrame) -> Measured:
        """Link the release and count correct links."""
        if not self.paired or are_nobodys(released):
            return self._risk_where_no_row_is_known(state, released)
        pairs = RecordPairs.of(self.name, state.original, released)
        shares = []
        for known in self._intruder_file(state):
            gapped = state.incomplete_records(known, released) if self.missing == "pairwise" else None
            if gapped is not None:
                shares.append(self._shares_known(*gapped, pairs))
                continue
            left, right, fixed = state.coordinates(known, released)
            tree = state.tree if fixed and self.link == LINKS[0] and not self.one_to_one else None
            shares.append(self._shares_of_own(left, right, pairs, tree))
        rates = np.mean(shares, axis=1)
        error = float(np.std(rates, ddof=1) / np.sqrt(len(rates))) if len(rates) > 1 else 0.0
        along = pairs.along_released if self.link == LINKS[0] else pairs.along_original
        parts = {"linked": float(len(pairs.original))}
        return Measured(float(rates.mean()), error, parts, records=along(np.mean(shares, axis=0)))

    def _risk_where_no_row_is_known(self, state: Space, released: pd.DataFrame) -> Measured:
        """What links are worth where no row is known to be anybody's."""
        found = []
        for known in self._intruder_file(state):
            gapped = state.incomplete_records(known, released) if self.missing == "pairwise" else None
            asks = self.per_record_file == "released"
            if gapped is None:
                left, right, _ = state.coordinates(known, released)
                around = Surroundings.of(right, left) if asks else Surroundings.of(left, right)
            else:
                around = gapped[1].surroundings_among(gapped[0]) if asks else gapped[0].surroundings_among(gapped[1])
            size, equals = (len(state.original), around.other) if asks else (len(released), around.own)
            copy = around.other > 0
            chance = size / (size + len(copy) - around.own)
            found.append(risk_without_pairs(copy, 1.0 / np.maximum(equals, 1), around.share, chance))
        rates, own = np.mean([f.risk for f in found], axis=1), float(np.mean([f.error for f in found]))
        error = np.hypot(own, np.std(rates, ddof=1) / np.sqrt(len(rates))) if len(rates) > 1 else own
        parts = {"linked": 0.0}
        for name in dict.fromkeys(k for f in found for k in f.parts):  # a draw may have copies alone
            parts[name] = float(np.mean([f.parts[name] for f in found if name in f.parts]))
        return Measured(float(rates.mean()), float(error), parts, records=np.mean([f.risk for f in found], axis=0))

    def links(self, original: frames.Data, released: frames.Data) -> pd.DataFrame:
        """Who is linked to whom: row, linked row, weight of the link (ties share) and distance. Confidential.

        Rows are positions in each file. The intruder's errors, if any, are drawn once.
        """
        prepared = self.prepare(original)
        state: Space = prepared.state
        table = prepared.columns_used_of(released)
        frames.refuse_missing(self.name, "the release", table, frames.missing_rows(table))
        left, right, _ = state.coordinates(next(self._intruder_file(state)), table)
        # Originals may have been left out for missing values.
        places = state.original.index.to_numpy(), np.arange(len(table))
        asking, asked = (right, left) if self.link == LINKS[0] else (left, right)
        rows, linked = places[::-1] if self.link == LINKS[0] else places
        if self.one_to_one:
            who, whom, gap = _one_to_one_links(self.name, asking, asked)
            return pd.DataFrame({"row": rows[who], "linked": linked[whom], "weight": 1.0, "distance": np.sqrt(gap)})
        if asking.shape[1] == 0:
            asking, asked = np.zeros((len(asking), 1)), np.zeros((len(asked), 1))
        found = nearest(BoxTree.of(asked), asking)
        row = np.repeat(np.arange(len(asking)), found.counts)
        weight, distance = 1.0 / found.counts[row], found.distance[row]
        return pd.DataFrame({"row": rows[row], "linked": linked[found.points], "weight": weight, "distance": distance})

    def _shares_known(self, left: IncompleteRecords, right: IncompleteRecords, pairs: RecordPairs) -> Array:
        """As `_shares_of_own`, where some values are missing."""
        if self.one_to_one:
            what = f"{self.name} has no pairwise rule for one_to_one"
            raise UnsupportedError(what, "missing values", 'Write missing="impute", or one_to_one=False')
        sides = [(right, pairs.released), (left, pairs.original)]
        (ours, mine), (theirs, own) = sides if self.link == LINKS[0] else reversed(sides)
        return ours.take(mine).share_of_own_links(theirs, own)

    def _shares_of_own(self, left: Array, right: Array, pairs: RecordPairs, tree: BoxTree | None) -> Array:
        """Share of the own record in each asking record's link, over the pairs."""
        ours, theirs = (right, left) if self.link == LINKS[0] else (left, right)
        mine, own = (pairs.released, pairs.original) if self.link == LINKS[0] else (pairs.original, pairs.released)
        if self.one_to_one:
            row, linked, _ = _one_to_one_links(self.name, ours, theirs)
            return exchanged_shares(row, linked, _distinct_rows(ours), _distinct_rows(theirs), mine, own)
        if theirs.shape[1] == 0:
            return np.full(len(mine), 1.0 / len(theirs))  # nothing tells records apart: everybody is a tie
        grown = tree_of_points(theirs) if tree is None else tree
        whole = mine is own and len(mine) == len(ours) == len(theirs)  # the usual case, which needs no copies
        return share_of_own_links(grown, ours if whole else ours[mine], theirs if whole else theirs[own])

    def _intruder_file(self, state: Space) -> Iterator[pd.DataFrame | None]:
        """The intruder's file, once per draw; None where he knows the originals as they are."""
        if self.error_sd is None and self.error_rate is None:
            yield None
            return
        rng = as_generator(self.seed)
        for _ in range(self.draws):
            table = state.original.copy()
            for label in table.columns:
                column = table[label]
                if label in state.numbers:
                    if sd := number_of_column(self.error_sd, label):
                        table[label] = column.to_numpy(dtype=np.float64) + sd * rng.standard_normal(len(column))
                elif rate := number_of_column(self.error_rate, label):
                    table[label] = _misreport_categories(column, rate, rng)
            yield table

    def _check_errors(self, state: Space) -> None:
        columns = list(state.original.columns)
        for name, value, wanted, kind in (
            ("error_sd", self.error_sd, state.numbers, "numeric"),
            ("error_rate", self.error_rate, state.categories, "a category"),
        ):
            strange = [k for k in named_columns(value) if k not in wanted]
            if strange:
                near = suggest(str(strange[0]), [str(c) for c in wanted])
                do = f"It must be {kind}" if strange[0] in columns else near
                raise InputError(f"{name} names a column that it cannot be about", str(strange[0]), do)
            if value is not None and not wanted:
                what = f"{name} is given but no known column is {kind}"
                raise InputError(what, [str(c) for c in columns], f"Leave {name} out")


def _one_to_one_links(who: str, asking: Array, asked: Array) -> tuple[frames.Ints, frames.Ints, Array]:
    check_assignment_size(who, len(asking), len(asked))
    cost = cdist(asking, asked, "sqeuclidean") if asking.shape[1] else np.zeros((len(asking), len(asked)))
    who_, whom = linear_sum_assignment(cost)
    return who_, whom, cost[who_, whom]


def check_pairs_option(one_to_one: bool, paired: bool) -> None:
    """Raise an error for an assignment of rows that are nobody's."""
    if one_to_one and not paired:
        raise InputError("one_to_one counts true pairs", "paired=False", "Leave one of them out")


def check_assignment_size(who: str, n: int, m: int, what: str = "distances") -> None:
    """Raise an error for files that are too long for a one-to-one assignment."""
    if max(n, m) > MOST_ASSIGNED:
        raise UnsupportedError(
            f"{who} with one_to_one holds the matrix of all {what} and stops at {MOST_ASSIGNED} records",
            f"{n} and {m} records",
            "Use one_to_one=False, or link a sample",
        )


def exchanged_shares(
    row: frames.Ints,
    linked: frames.Ints,
    kinds_a: frames.Ints,
    kinds_b: frames.Ints,
    mine: frames.Ints,
    own: frames.Ints,
) -> Array:
    """Expected correct links when equal rows exchange their partners at random: any such exchange is as good.

    ``row`` is assigned to ``linked``; ``kinds`` number the different rows of both files, and ``mine`` and ``own`` are
    the true pairs.
    """
    size_a, size_b = np.bincount(kinds_a), np.bincount(kinds_b)
    width = len(size_b)
    links = kinds_a[row].astype(np.int64) * width + kinds_b[linked]
    found = cells.counts_of(links, kinds_a[mine].astype(np.int64) * width + kinds_b[own])
    return found / (size_a[kinds_a[mine]] * size_b[kinds_b[own]])


def _distinct_rows(points: Array) -> frames.Ints:
    """Number of the distinct row that each row equals."""
    if points.shape[1] == 0:
        return np.zeros(len(points), dtype=np.int64)
    return np.unique(points, axis=0, return_inverse=True)[1].reshape(-1)


def _misreport_categories(column: pd.Series, rate: float, rng: np.random.Generator) -> pd.Series:
    """The column with some values exchanged for another category, each other one as likely."""
    codes, levels = frames.factorise(column)
    wrong = rng.random(len(codes)) < rate
    if len(levels) > 1:
        moved = (codes + rng.integers(1, len(levels), size=len(codes))) % len(levels)
        codes = np.where(wrong, moved, codes)
    codes = np.where(column.isna(), -1, codes)
    values = pd.Series(pd.Categorical.from_codes(codes, categories=levels.values), index=column.index)
    return values.astype(column.dtype)
