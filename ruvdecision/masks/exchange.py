"""Values that move to other records: between pairs, between near ranks, by a model; and ranks of bootstrap samples."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ..checks import Columns, check_columns, check_flags, check_integer, check_number, checked
from ..errors import InputError
from ..numerics.compiled import compiled
from ..numerics.semidefinite import symmetric_root
from ..protocols import Array
from .base import Mask
from .columns import (
    Ints,
    as_columns,
    few_categories,
    has_order,
    ordered_values,
    rank_columns,
    refuse_missing,
    refuse_shared_columns,
    replace_keeping_integers,
    row_classes,
    stable_order,
)
from .frame import Frame
from .synthesize.copula import normal_scores


@dataclass(frozen=True, repr=False)
class Swap(Mask):
    """Exchange the values of the chosen columns between random pairs of records.

    A pair exchanges all chosen columns at once, so their joint distribution is kept exactly, and so is that of the
    other columns; what changes is how the two go together. Works for columns of every kind, missing values included,
    and keeps dtypes. Dalenius and Reiss (1982); Winkler (2004) for swapping records at risk only.

    Parameters
    ----------
    rate : float
        Share of the records that are swapped, in (0, 1]: ``floor(rate * m / 2 + 1/2)`` pairs of the m records that take
        part, at most m // 2. A record is in one pair at most. Partners may happen to have equal values.
    columns : names or positions
        Columns whose values are exchanged.
    where : one boolean per record, optional
        Records that take part, such as those at risk; all of them if not given. Both partners are among them.
    within : names or positions, optional
        Partners agree in these columns, so that swapping keeps every table by them. The rate holds in each of their
        combinations.

    >>> Swap(rate=1, columns=[1]).release([[1, 10], [2, 20]], 1)
    array([[ 1, 20],
           [ 2, 10]])
    """

    rate: float = checked(MISSING, check_number, low=0, high=1, open_low=True)
    columns: Columns = checked(MISSING, as_columns)
    where: Any = checked(None, check_flags)
    within: Columns = checked(None, as_columns)

    opaque: ClassVar[str] = "values are exchanged between records, so each released value depends on the whole file"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns is None:
            raise InputError("columns must say what is swapped", None, 'Write Swap(rate=0.1, columns=["income"])')

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        positions = frame.positions(self.columns)
        source = np.arange(frame.n)
        for rows in self._partner_classes(frame, positions):
            pairs = min(int(np.floor(self.rate * len(rows) / 2 + 0.5)), len(rows) // 2)
            chosen = rng.permutation(rows)[: 2 * pairs]
            source[chosen[:pairs]], source[chosen[pairs:]] = chosen[pairs:], chosen[:pairs]
        return frame.with_values_from_rows(dict.fromkeys(positions, source))

    def _partner_classes(self, frame: Frame, positions: list[int]) -> list[Ints]:
        """Rows that may be partners of each other."""
        rows = np.arange(frame.n)
        if self.where is not None:
            if len(self.where) != frame.n:
                what = f"where must have a boolean for each of the {frame.n} records"
                raise InputError(what, f"{len(self.where)} of them", "Give one boolean per record")
            rows = rows[np.asarray(self.where)]
        if self.within is None or len(rows) == 0:
            return [rows]
        inside = check_columns("within", self.within, frame.columns)
        refuse_shared_columns("columns", positions, "within", inside, frame.columns)
        return row_classes(frame, inside, rows)


@dataclass(frozen=True, repr=False)
class RankSwap(Mask):
    """Exchange each variable's values between records whose ranks are close.

    Each column apart: the window is w = floor(within * n) ranks. Walk up the ranks; each rank that is still free
    exchanges its value with a rank drawn uniformly from the free ones among the next w, and stays if there is none.
    Margins are kept value for value, dtypes too, and no value moves by more than w ranks. Equal values are ranked in
    the order of the file. In a file so small that w = 0 nothing moves. Moore (1996); Karr et al. (2006): Rank(.15) is
    ``RankSwap(within=.15)``. The cost is that of sorting.

    Parameters
    ----------
    within : float
        The window as a share of the records, in (0, 1].
    columns : names or positions, optional
        Columns to swap, all of them if not given: numbers, dates or ordered categories, without missing values.

    >>> RankSwap(within=0.5).release([10.0, 20.0, 30.0, 40.0], 1)
    array([30., 40., 10., 20.])
    """

    within: float = checked(MISSING, check_number, low=0, high=1, open_low=True)
    columns: Columns = checked(None, as_columns)

    opaque: ClassVar[str] = (
        "values are exchanged between records of nearly the same rank, so each released value depends on the whole file"
    )

    def window(self, n: int) -> int:
        """Most ranks by which a value may move in a file of ``n`` records."""
        # 0.29 * 100 is a little less than 29 in binary; the share that was meant is not.
        return min(int(np.floor(self.within * n * (1 + 1e-12))), n)

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        orders = {}
        for i in frame.positions(self.columns):
            column = frame.table.iloc[:, i]
            if column.dtype == np.float64 and np.isfinite(values := column.to_numpy()).all():
                orders[i] = stable_order(values)  # the usual case, without a detour
                continue
            if not has_order(column):
                raise InputError(
                    "RankSwap needs numeric columns, dates or ordered categories",
                    f"{column.dtype} in {frame.columns[i]!r}",
                    "Leave it out with columns=[...], or make it an ordered category",
                )
            refuse_missing("RankSwap", frame.table.iloc[:, [i]], only_infinite=True)
            known = np.flatnonzero(column.notna())
            orders[i] = known[stable_order(ordered_values(column.iloc[known]))]
        sources = {}
        for i, order in orders.items():
            sources[i] = np.arange(frame.n)  # a missing value stays where it is
            sources[i][order] = order[rank_partners(rng.random(len(order)), self.window(len(order)))]
        return frame.with_values_from_rows(sources)


@compiled(steps=lambda draws, window: 5 * len(draws))
def rank_partners(draws: Any, window: int) -> Any:
    """Pair ranks with ranks at most ``window`` above them; the partner of a rank that stays is itself.

    Walk up the ranks. Each free rank takes a partner, uniform among the free ranks of the next ``window``:
    number ``floor(draw * count)`` of them. A Fenwick tree counts and finds free ranks, so n ranks cost n log n.
    """
    n = len(draws)
    partner = np.arange(n)
    tree = np.empty(n + 1, dtype=np.int64)
    for i in range(n + 1):
        tree[i] = i & -i
    top = 1
    while top * 2 <= n:
        top *= 2
    for i in range(n):
        if partner[i] != i:
            continue  # taken from below, and off the tree since then
        j = i + 1
        while j <= n:
            tree[j] -= 1
            j += j & -j
        # All free ranks lie above i, so a count over the first ranks counts those in the window.
        count = 0
        j = min(i + 1 + window, n)
        while j > 0:
            count += tree[j]
            j -= j & -j
        if count == 0:
            continue
        wanted = min(int(draws[i] * count), count - 1) + 1
        found = 0
        step = top
        while step > 0:
            if found + step <= n and tree[found + step] < wanted:
                found += step
                wanted -= tree[found]
            step //= 2
        partner[i] = found
        partner[found] = i
        j = found + 1
        while j <= n:
            tree[j] -= 1
            j += j & -j
    return partner


@dataclass(frozen=True, repr=False)
class Resample(Mask):
    """Replace the value of each rank by the mean of that order statistic over bootstrap samples.

    Each column apart: draw ``times`` bootstrap samples of all n values and sort them; the i-th smallest value becomes
    the mean of their i-th smallest. Ranks are kept (equal values are ranked in the order of the file); with ``times=1``
    only original values come out. Heer (1993); Karr et al. (2006): Resamp(3) is ``Resample(times=3)``.

    Parameters
    ----------
    times : int, default 3
        Number of bootstrap samples.
    columns : names or positions, optional
        Numeric columns to resample, all of them if not given. What is missing stays missing and has no rank.

    >>> Resample(times=1).release([3.0, 1.0, 2.0], 5)
    array([3., 1., 1.])
    """

    times: int = checked(3, check_integer, low=1, high=1_000_000)
    columns: Columns = checked(None, as_columns)

    opaque: ClassVar[str] = "each released value is a mean of order statistics of the whole file"
    always_shown: ClassVar[tuple[str, ...]] = ("times",)

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        values, positions = frame.numeric("Resample", self.columns, missing=True)
        refuse_missing("Resample", frame.table.iloc[:, positions], only_infinite=True)
        values = np.asfortranarray(values)
        out = values.copy()
        for j in range(values.shape[1]):
            rows = np.flatnonzero(~np.isnan(values[:, j]))
            order = rows[stable_order(values[rows, j])]
            ranked, n = values[:, j][order], len(rows)
            if n == 0:
                continue
            total = np.zeros(n)
            for _ in range(self.times):
                sample = ranked[rng.integers(0, n, size=n)]
                sample.sort()
                if self.times > 1:
                    # Distances from the smallest value keep a constant column as it is, to the last digit.
                    sample -= ranked[0]
                total += sample
            # Rounding must not carry a mean beyond the values that it is a mean of.
            out[order, j] = total if self.times == 1 else np.clip(ranked[0] + total / self.times, ranked[0], ranked[-1])
        # One sample gives original values back, so whole numbers stay whole numbers.
        return replace_keeping_integers(frame, out, positions) if self.times == 1 else frame.replace(out, positions)


@dataclass(frozen=True, repr=False)
class DataShuffle(Mask):
    """Shuffle confidential columns so that, given the other columns, the release is independent of the original.

    Muralidhar and Sarathy (2006), Management Science 52, 658-670. Values become normal scores. The confidential
    scores are regressed on those of ``given``; new scores are drawn from the fitted conditional law, without a
    look at the confidential record; each column's own values are then laid out in the order of the new scores.
    Margins are kept value for value. Rank correlations, within ``columns`` and with ``given``, are kept up to sampling
    error as far as the scores are jointly normal. An intruder who knows ``given`` learns nothing more about a
    record than the model tells.

    Parameters
    ----------
    columns : names or positions
        Confidential columns to shuffle: numbers, booleans, dates or ordered categories.
    given : names or positions, optional
        Columns that everybody may see, of any kind; they stay as they are. Text and unordered categories count as one
        indicator per category. None: the columns are shuffled jointly, given nothing.

    A missing value stays missing where it is, in a shuffled column, and counts as the middle score in the regression; a
    given column that has some adds an indicator of them. Infinite values are refused. All other columns stay and play
    no part.

    Examples
    --------
    >>> df = pd.DataFrame({"age": [30, 41, 52, 38], "income": [2, 3, 5, 4]})
    >>> sorted(DataShuffle(columns=["income"], given=["age"]).release(df, 1)["income"].tolist())
    [2, 3, 4, 5]
    """

    columns: Columns = checked(None, as_columns)
    given: Columns = checked(None, as_columns, empty=True)

    opaque: ClassVar[str] = "values are exchanged between records by ranks of the whole file"

    def __post_init__(self) -> None:
        if self.columns is None:
            do = "Write DataShuffle(columns=[...], given=[...])"
            raise InputError("DataShuffle needs the confidential columns", None, do)
        super().__post_init__()

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        chosen = check_columns("columns", self.columns, frame.columns)
        given = check_columns("given", self.given, frame.columns) if self.given else []
        refuse_shared_columns("columns", chosen, "given", given, frame.columns)
        refuse_missing("DataShuffle", frame.table.iloc[:, [*chosen, *given]], only_infinite=True)
        n = frame.n
        there = [np.flatnonzero(frame.table.iloc[:, i].notna()) for i in chosen]
        ranked = [
            rank_columns("DataShuffle", frame.table.iloc[rows, [i]])[0] for i, rows in zip(chosen, there, strict=True)
        ]
        x = np.zeros((n, len(chosen)))
        for j, rows in enumerate(there):
            if len(rows):
                x[rows, j] = normal_scores(ranked[j])
        u = _regression_basis(frame.table.iloc[:, given])
        fitted = u @ (u.T @ x)
        df = n - u.shape[1]
        if df < 1:
            what = f"DataShuffle needs more than {u.shape[1]} records for what is given"
            raise InputError(what, n, "Give fewer columns or categories")
        residual = x - fitted
        y = fitted + rng.standard_normal(x.shape) @ symmetric_root(residual.T @ residual / df)
        sources = {}
        for j, i in enumerate(chosen):
            rows = there[j]
            sources[i] = np.arange(n)
            sources[i][rows[np.argsort(y[rows, j], kind="stable")]] = rows[ranked[j].order]
        return frame.with_values_from_rows(sources)


def _regression_basis(part: pd.DataFrame) -> Array:
    """Orthonormal basis of what the regression may use: the intercept, scores, and indicators of categories."""
    blocks = [np.ones((len(part), 1))]
    for name in part.columns:
        there = part[name].notna().to_numpy(dtype=bool)
        if not there.all():
            blocks.append(there[:, None].astype(np.float64))
        if not there.any():
            continue
        if has_order(part[name]):
            scores = np.zeros((len(part), 1))
            scores[there, 0] = normal_scores(rank_columns("DataShuffle", part.loc[there, [name]])[0])
            blocks.append(scores)
        else:
            do = "Recode it into fewer, or leave it out of given=[...]"
            codes, levels = few_categories("DataShuffle", part[name], do)
            blocks.append((codes[:, None] == np.arange(1, len(levels))).astype(np.float64))
    u, s, _ = np.linalg.svd(np.hstack(blocks), full_matrices=False)
    return np.asarray(u[:, s > 1e-10 * s[0]])
