"""The record of a rank: smallest, largest, percentile."""

from __future__ import annotations

from dataclasses import MISSING, dataclass

from ..checks import check_integer, check_number, checked
from ..errors import InputError
from ..numerics.orderstatistics import percentile_rank
from ..protocols import Array
from .base import BaseTarget
from .terms import Files


class _Ranked(BaseTarget):
    """The record of a rank."""

    def in_files(self, files: Files) -> Array:
        return files.ranked(self.rank)

    def rank(self, n: int) -> int:
        raise NotImplementedError


@dataclass(frozen=True)
class OrderStatistic(_Ranked):
    """The confidential record of a given rank, 1 for the smallest; of several variables each is ranked apart.

    Ranks outside 1..n are refused when the number of records n is known. Records that are equal are ranked in the
    order of the file. For snoopers: Duncan et al. (2001), sections 4.2, 4.3 and V.

    >>> OrderStatistic(3).rank(10)
    3
    """

    order: int = checked(MISSING, check_integer, low=1)

    def rank(self, n: int) -> int:
        return check_integer("order", self.order, low=1, high=n)

    @property
    def label(self) -> str:
        return f"rank {self.order}"

    def describe(self) -> str:
        return f"the record of rank {self.order} from below"


@dataclass(frozen=True)
class Percentile(_Ranked):
    """The confidential record at the p-th sample percentile, the one of rank n p.

    Where n p is not a whole number the next rank up is used, ceil(n p); the minimum and the maximum have classes
    of their own. Duncan et al. (2001), section 4.2.

    >>> Percentile(0.99).rank(200), Percentile(0.1).rank(177)
    (198, 18)
    """

    p: float

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "p", check_number("p", self.p, low=0, high=1, open_low=True, open_high=True))
        except InputError:
            do = "The record of rank ceil(n p) is meant; use Minimum() or Maximum() for the ends"
            raise InputError("p must be a number strictly between 0 and 1", self.p, do) from None

    def rank(self, n: int) -> int:
        """The rank among ``n`` records, ceil(n p)."""
        return percentile_rank(n, self.p)

    @property
    def label(self) -> str:
        return f"percentile {self.p:g}"

    def note(self, n: int) -> str:
        if abs(n * self.p - self.rank(n)) <= 1e-9 * n:
            return ""
        used = f"the record of rank {self.rank(n)}, the next one up, is used"
        return f"np = {n} x {self.p:g} = {n * self.p:g} is not a whole number: {used}."

    def describe(self) -> str:
        return f"the record at sample percentile {self.p:g}, of rank ceil({self.p:g} n)"


@dataclass(frozen=True)
class Maximum(_Ranked):
    """The largest confidential record; of several variables each has its own."""

    def rank(self, n: int) -> int:
        """The rank among ``n`` records."""
        return n

    def describe(self) -> str:
        return "the largest record"


@dataclass(frozen=True)
class Minimum(_Ranked):
    """The smallest confidential record; of several variables each has its own."""

    def rank(self, n: int) -> int:
        """The rank among ``n`` records."""
        return 1

    def describe(self) -> str:
        return "the smallest record"
