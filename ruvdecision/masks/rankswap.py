"""Rank swapping: exchanging values with records of nearly the same rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..checks import check_number, checked
from ..errors import InputError
from ..numerics.compiled import compiled
from .base import Mask
from .columnkinds import as_columns, kind_of, put, refuse_missing
from .frame import Frame
from .ordering import stable_order


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

    within: float
    columns: Any = checked(None, as_columns)

    opaque: ClassVar[str] = (
        "values are exchanged between records of nearly the same rank, so each released value depends on the whole file"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "within", check_number("within", self.within, low=0, high=1, open_low=True))

    def window(self, n: int) -> int:
        """Most ranks by which a value may move in a file of ``n`` records."""
        # 0.29 * 100 is a little less than 29 in binary; the share that was meant is not.
        return min(int(np.floor(self.within * n * (1 + 1e-12))), n)

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        positions = frame.positions(self.columns)
        keys = [sort_keys("RankSwap", frame, i) for i in positions]
        window = self.window(frame.n)
        swapped = {}
        for position, key in zip(positions, keys, strict=True):
            order = stable_order(key)
            partner = rank_partners(rng.random(frame.n), window)
            source = np.empty(frame.n, dtype=np.int64)
            source[order] = order[partner]
            swapped[position] = frame.table.iloc[:, position].array.take(source)
        return put(frame, swapped)


@compiled()
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


def sort_keys(who: str, frame: Frame, position: int) -> NDArray[Any]:
    """What a column is ranked by; columns without an order, and missing values, are refused."""
    column = frame.table.iloc[:, [position]]
    series = column.iloc[:, 0]
    kind = kind_of(series)
    if kind == "category" and not getattr(series.dtype, "ordered", False):
        raise InputError(
            f"{who} needs numeric columns, dates or ordered categories",
            f"{series.dtype} in {frame.columns[position]!r}",
            "Leave it out with columns=[...], or make it an ordered category",
        )
    refuse_missing(who, column)
    if kind == "category":
        return np.asarray(series.cat.codes)
    keys = series.astype("int64").to_numpy() if kind == "time" else series.to_numpy()
    return keys.astype(np.float64) if keys.dtype == object else keys
