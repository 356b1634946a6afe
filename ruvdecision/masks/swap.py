"""Data swapping: exchanging values between random pairs of records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..checks import check_columns, check_flags, check_number, checked
from ..errors import InputError
from .base import Mask
from .columnkinds import apart, as_columns, category_codes, put
from .frame import Frame
from .ordering import stable_order


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

    rate: float
    columns: Any
    where: Any = checked(None, check_flags)
    within: Any = checked(None, as_columns)

    opaque: ClassVar[str] = "values are exchanged between records, so each released value depends on the whole file"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", check_number("rate", self.rate, low=0, high=1, open_low=True))
        object.__setattr__(self, "columns", as_columns("columns", self.columns))
        if self.columns is None:
            raise InputError("columns must say what is swapped", None, 'Write Swap(rate=0.1, columns=["income"])')
        super().__post_init__()

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        positions = frame.positions(self.columns)
        source = np.arange(frame.n)
        for rows in self._classes(frame, positions):
            pairs = min(int(np.floor(self.rate * len(rows) / 2 + 0.5)), len(rows) // 2)
            chosen = rng.permutation(rows)[: 2 * pairs]
            source[chosen[:pairs]], source[chosen[pairs:]] = chosen[pairs:], chosen[:pairs]
        return put(frame, {i: frame.table.iloc[:, i].array.take(source) for i in positions})

    def _classes(self, frame: Frame, positions: list[int]) -> list[NDArray[np.int64]]:
        """Rows that may be partners of each other."""
        rows = np.arange(frame.n)
        if self.where is not None:
            if len(self.where) != frame.n:
                raise InputError(
                    f"where must have a boolean for each of the {frame.n} records",
                    f"{len(self.where)} of them",
                    "Give one boolean per record",
                )
            rows = rows[np.asarray(self.where)]
        if self.within is None or len(rows) == 0:
            return [rows]
        inside = check_columns("within", self.within, frame.columns)
        apart("columns", positions, "within", inside, frame.columns)
        codes = np.stack([category_codes(frame.table.iloc[:, i], missing_is_one=True)[0][rows] for i in inside], axis=1)
        label, count = np.unique(codes, axis=0, return_inverse=True, return_counts=True)[1:]
        return list(np.split(rows[stable_order(label.reshape(-1))], np.cumsum(count)[:-1]))
