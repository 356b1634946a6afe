"""Changes that are functions y = g(x), increasing step by step, or random choices between two values of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ...checks import is_number
from ...errors import UnsupportedError
from ...protocols import Array
from ..steps import TOLERANCE, Labels
from .base import Change, ColumnLikelihood, Pair, impossible_release_error, midpoints, numbers_of
from .entries import Between, Known, observe_by_case
from .mathematics import NUMPY, TINY, Mathematics, Values, logsumexp

MOST_JUMPS = 2000


class MonotoneFunction(Change):
    """A function that never decreases, the same for all entries."""

    def value(self, x: Values, math: Mathematics = NUMPY) -> Values:
        """g(x)."""
        raise NotImplementedError

    def likelihood_from_observation(self, later: ColumnLikelihood) -> ColumnLikelihood:
        return PulledBackLikelihood(later, self)

    def preimage(self, low: Array, high: Array) -> Pair:
        """Ends of the x whose g(x) lies between two numbers, some values of g among them."""
        return self.likelihood_from_interval(Between(low, high)).support_bounds

    def nearest_attained(self, y: Array) -> Pair:
        """The nearest values of g at or below y, and at or above it."""
        raise NotImplementedError

    def cuts_between(self, low: Array, high: Array) -> Array:
        """Where g jumps or has a kink between two finite ends."""
        raise NotImplementedError


@dataclass(frozen=True)
class Clipping(MonotoneFunction):
    """Values beyond a bound are set to it; bounds may be infinite.

    >>> Clipping(0.0, np.inf).likelihood_from_value(np.array([0.0])).high
    array([0.])
    """

    lower: float
    upper: float

    def value(self, x: Values, math: Mathematics = NUMPY) -> Values:
        # Infinite bounds do nothing, and a gradient would see them.
        x = math.maximum(x, self.lower) if np.isfinite(self.lower) else x
        return math.minimum(x, self.upper) if np.isfinite(self.upper) else x

    def likelihood_from_value(self, values: NDArray[Any]) -> ColumnLikelihood:
        values = numbers_of(values)
        if np.any((values < self.lower) | (values > self.upper)):
            raise impossible_release_error("values beyond its bounds")
        below, above = values == self.lower, values == self.upper
        low, high = np.where(below, -np.inf, values), np.where(above, np.inf, values)
        return observe_by_case(
            len(values),
            [
                (~below & ~above, lambda rows: Known(values[rows])),
                (below | above, lambda rows: Between(low[rows], high[rows])),
            ],
        )

    def likelihood_from_interval(self, interval: Between) -> ColumnLikelihood:
        lower, upper = interval.support_bounds
        if np.any((lower > self.upper) | (upper < self.lower)):
            raise impossible_release_error("intervals beyond its bounds")
        low_in = (lower < self.lower) | ((lower == self.lower) & interval.closed_low)
        high_in = (upper > self.upper) | ((upper == self.upper) & interval.closed_high)
        low, high = np.where(low_in, -np.inf, lower), np.where(high_in, np.inf, upper)
        return Between(low, high, interval.closed_low, interval.closed_high)

    def nearest_attained(self, y: Array) -> Pair:
        near = np.clip(y, self.lower, self.upper)
        return near, near

    def cuts_between(self, low: Array, high: Array) -> Array:
        bounds = [bound for bound in (self.lower, self.upper) if np.isfinite(bound)]
        return np.tile(bounds, (len(low), 1))


@dataclass(frozen=True)
class Rounding(MonotoneFunction):
    """Values go to the nearest multiple of a base, halfway ones to the even multiple.

    >>> Rounding(5.0).likelihood_from_value(np.array([10.0])).low
    array([7.5])
    """

    base: float

    def value(self, x: Values, math: Mathematics = NUMPY) -> Values:
        return math.rint(x / self.base) * self.base

    def counts(self, values: NDArray[Any]) -> Array:
        """Of how many bases each value is the multiple."""
        return _check_whole_ratio(numbers_of(values) / self.base, "values that are no multiples of its base")

    def likelihood_from_value(self, values: NDArray[Any]) -> ColumnLikelihood:
        count = self.counts(values)
        even = count % 2 == 0
        return Between((count - 0.5) * self.base, (count + 0.5) * self.base, even, even)

    def likelihood_from_interval(self, interval: Between) -> ColumnLikelihood:
        first, last = _whole_between(interval, self.base, 0.0, "intervals without a multiple of its base")
        with np.errstate(invalid="ignore"):
            return Between((first - 0.5) * self.base, (last + 0.5) * self.base, first % 2 == 0, last % 2 == 0)

    def nearest_attained(self, y: Array) -> Pair:
        return np.floor(y / self.base) * self.base, np.ceil(y / self.base) * self.base

    def cuts_between(self, low: Array, high: Array) -> Array:
        return grid_between(self.base, low, high, 0.5)


@dataclass(frozen=True)
class RandomRounding(Rounding):
    """Values go to the multiple of a base below or above them, at random so that they are kept in expectation."""

    def likelihood_from_value(self, values: NDArray[Any]) -> ColumnLikelihood:
        return PulledBackRandomRounding(Known(self.counts(values) * self.base), self)

    def likelihood_from_interval(self, interval: Between) -> ColumnLikelihood:
        return PulledBackRandomRounding(interval, self)

    def likelihood_from_observation(self, later: ColumnLikelihood) -> ColumnLikelihood:
        return later if np.all(later.uninformative) else PulledBackRandomRounding(later, self)

    def preimage(self, low: Array, high: Array) -> Pair:
        # Only multiples inside count, and each is reached from less than one base away.
        first, last = np.ceil(low / self.base - TOLERANCE), np.floor(high / self.base + TOLERANCE)
        return (first - 1) * self.base, (last + 1) * self.base

    def cuts_between(self, low: Array, high: Array) -> Array:
        return grid_between(self.base, low, high, 0.0)

    def log_density_convolved_with_normal(self, gap: Array, sd: float) -> Array:
        """Log chance that a normal value ``gap`` below a multiple is rounded to it: E max(1 - |x - y| / base, 0)."""
        base = self.base
        if sd < TOLERANCE * base:
            return np.asarray(np.log(np.maximum(1.0 - np.abs(gap) / base, 0.0)))
        # The law is symmetric about zero; below it the three terms are small and keep their digits.
        a = -np.abs(gap) + np.array([base, 0.0, -base]).reshape(3, *(1,) * np.ndim(gap))
        part = a * special.ndtr(a / sd) + sd * np.exp(-0.5 * (a / sd) ** 2) / np.sqrt(2 * np.pi)
        return np.asarray(np.log(np.maximum(part[0] - 2 * part[1] + part[2], 0.0) / base))


@dataclass(frozen=True)
class EqualWidthBins(MonotoneFunction):
    """Intervals [j w, (j + 1) w); ``label`` says what they are called: "midpoint", "lower" or "interval"."""

    width: float
    label: str

    @property
    def _label_offset(self) -> float:
        return 0.5 if self.label == "midpoint" else 0.0

    def value(self, x: Values, math: Mathematics = NUMPY) -> Values:
        return (math.floor(x / self.width) + self._label_offset) * self.width

    def likelihood_from_value(self, values: NDArray[Any]) -> ColumnLikelihood:
        if self.label == "interval":
            try:
                # "[20, 30)": the lower edge says which.
                start = np.array([float(str(v)[1:].split(",")[0]) for v in values]) / self.width
            except ValueError:
                raise impossible_release_error("labels that are no intervals") from None
        else:
            start = numbers_of(values) / self.width - self._label_offset
        step = _check_whole_ratio(start, "values that name no interval of its width")
        return Between(step * self.width, (step + 1) * self.width, True, False)

    def likelihood_from_interval(self, interval: Between) -> ColumnLikelihood:
        first, last = _whole_between(interval, self.width, self._label_offset, "intervals without a value of its own")
        return Between(first * self.width, (last + 1) * self.width, True, np.isposinf(last))

    def likelihood_from_observation(self, later: ColumnLikelihood) -> ColumnLikelihood:
        if self.label == "interval":
            raise UnsupportedError(
                "The intervals of Recode(width=...) are not all known beforehand",
                do="Give bins=[...] instead of width=",
            )
        return super().likelihood_from_observation(later)

    def nearest_attained(self, y: Array) -> Pair:
        step = y / self.width - self._label_offset
        return (np.floor(step) + self._label_offset) * self.width, (np.ceil(step) + self._label_offset) * self.width

    def cuts_between(self, low: Array, high: Array) -> Array:
        return grid_between(self.width, low, high, 0.0)


@dataclass(frozen=True, eq=False)
class Bins(Change):
    """Intervals [a, b) between edges, the last one closed; ``names`` holds what each is called, a number or a label."""

    edges: Array
    names: Labels

    def likelihood_from_value(self, values: NDArray[Any]) -> ColumnLikelihood:
        place = {name: j for j, name in enumerate(self.names)}
        code = np.array(
            [self._nearest_interval(v) if place.get(v) is None else place[v] for v in values], dtype=np.int64
        )
        return Between(self.edges[code], self.edges[code + 1], True, code == len(self.edges) - 2)

    def _nearest_interval(self, value: object) -> int:
        """The interval that a number means: means of edges differ in the last digits after a file was written."""
        if isinstance(value, float):
            gaps = np.array([abs(name - value) if isinstance(name, float) else np.inf for name in self.names])
            near = int(np.argmin(gaps))
            if int(np.sum(gaps <= 4 * gaps[near])) == 1 and gaps[near] <= TOLERANCE * abs(value):
                return near
        raise impossible_release_error("a value or label that no interval has")

    def likelihood_from_observation(self, later: ColumnLikelihood) -> ColumnLikelihood:
        return Stepped(self.edges, np.stack([later.log_label(name) for name in self.names]))


@dataclass(frozen=True, repr=False, eq=False)
class PulledBackLikelihood(ColumnLikelihood):
    """p(released | g(x)): what a later observation of g(x) says about x."""

    per_entry = ("later",)

    later: ColumnLikelihood
    function: MonotoneFunction

    def log(self, x: Values, math: Mathematics = NUMPY) -> Values:
        return self.later.log(self.function.value(math.asarray(x) + np.zeros(self.n), math), math)

    @property
    def points_per_entry(self) -> int:
        return self.later.points_per_entry

    def _preimage_range(self, low: Array, high: Array) -> Pair:
        """The x whose g(x) lies between these, or is the nearest to them that g can give."""
        below, above = self.function.nearest_attained(midpoints(low, high))
        return self.function.preimage(np.minimum(low, below), np.maximum(high, above))

    @property
    def support_bounds(self) -> Pair:
        return self._preimage_range(*self.later.support_bounds)

    def window(self, drop: float = 40.0) -> Pair:
        return self._preimage_range(*self.later.window(drop))

    @property
    def cuts(self) -> Array:
        return np.concatenate([self.later.cuts, self.function.cuts_between(*self.window())], axis=1)

    @property
    def panel_edges(self) -> Array:
        return self.later.panel_edges

    @property
    def scale(self) -> Array:
        return self.later.scale


@dataclass(frozen=True, repr=False, eq=False)
class PulledBackRandomRounding(PulledBackLikelihood):
    """What is known of x if y is the multiple below or above it, at random with mean x.

    A known multiple makes a tent: probability 1 - |x - y| / base.

    >>> tent = RandomRounding(5.0).likelihood_from_value(np.array([10.0]))
    >>> np.exp(tent.log([[9.0], [10.0], [16.0]])).ravel().round(6)
    array([0.8, 1. , 0. ])
    """

    function: RandomRounding

    def log(self, x: Values, math: Mathematics = NUMPY) -> Values:
        x = math.asarray(x) + np.zeros(self.n)
        known, base = self.later.known_values, self.function.base
        if not np.isnan(known).any():
            away = math.abs(x - known) / base
            return math.where(away < 1.0, math.log(math.maximum(1.0 - away, TINY)), -np.inf)
        ratio = x / base
        below = math.floor(ratio)
        up = ratio - below
        low, high = self.later.log(below * base, math), self.later.log((below + 1.0) * base, math)
        # Finite stand-ins for -inf keep gradients finite; what they add is nothing.
        low, high = math.maximum(low, -1e300), math.maximum(high, -1e300)
        found = math.logaddexp(math.log(math.maximum(1.0 - up, TINY)) + low, math.log(math.maximum(up, TINY)) + high)
        return math.where(found > np.array(-1e299), found, -np.inf)

    @property
    def cuts(self) -> Array:
        return self.function.cuts_between(*self.window())

    @property
    def panel_edges(self) -> Array:
        return np.empty((self.n, 0))

    @property
    def scale(self) -> Array:
        return np.maximum(self.later.scale, self.function.base)


@dataclass(frozen=True, repr=False, eq=False)
class Stepped(ColumnLikelihood):
    """A likelihood that is constant on intervals, the same for all entries: ``logs`` has one row per interval.

    >>> Stepped(np.array([0.0, 1.0, 3.0]), np.log([[0.2], [0.8]])).log([[0.5], [3.0], [4.0]]).ravel().round(4)
    array([-1.6094, -0.2231,    -inf])
    """

    per_entry = ("logs",)

    edges: Array
    logs: Array

    def log(self, x: Values, math: Mathematics = NUMPY) -> Values:
        x = math.asarray(x) + np.zeros(self.n)
        found = math.where(x <= self.edges[-1], self.logs[-1], -np.inf) + math.zeros_like(x)
        for edge, row in zip(self.edges[-2:0:-1], self.logs[-2::-1], strict=True):
            found = math.where(x < edge, row, found)
        return math.where(x >= self.edges[0], found, -np.inf)

    def window(self, drop: float = 40.0) -> Pair:
        inside = (self.logs >= self.logs.max(axis=0) - drop) & (self.logs > -np.inf)
        if not inside.any(axis=0).all():
            raise impossible_release_error("a value that no interval can give")
        first, last = inside.argmax(axis=0), len(inside) - inside[::-1].argmax(axis=0)
        return self.edges[first], self.edges[last]

    @property
    def support_bounds(self) -> Pair:
        return self.window(np.inf)

    @property
    def cuts(self) -> Array:
        return np.tile(self.edges[1:-1], (self.n, 1))

    @property
    def scale(self) -> Array:
        low, high = self.window()
        return high - low


@dataclass(frozen=True, repr=False, eq=False)
class CategoryLikelihood(ColumnLikelihood):
    """log p(released | x) for x among some categories, ``logs`` of shape (categories, n).

    In numbers a category is itself if all categories are numbers, else its place among them, counted from 0.

    >>> CategoryLikelihood(("a", "b"), np.log([[0.9], [0.2]])).log([[0.0], [1.0], [0.5]]).ravel().round(4)
    array([-0.1054, -1.6094,    -inf])
    """

    per_entry = ("logs",)

    labels: Labels
    logs: Array

    def __post_init__(self) -> None:
        if np.any(np.isneginf(self.logs).all(axis=0)):
            raise impossible_release_error("a category that cannot come from any other")

    @classmethod
    def before_matrix(
        cls, later: ColumnLikelihood, inputs: Labels, outputs: Sequence[Any], matrix: Array
    ) -> CategoryLikelihood:
        """What is known about a category if ``later`` is known about the one drawn from its row of the matrix."""
        with np.errstate(divide="ignore"):
            steps = np.log(matrix)
        reached = np.stack([later.log_label(label) for label in outputs])
        return cls(tuple(inputs), np.stack([logsumexp(row[:, None] + reached, NUMPY) for row in steps]))

    @property
    def support(self) -> Array:
        return category_numbers(self.labels)

    def log(self, x: Values, math: Mathematics = NUMPY) -> Values:
        x = math.asarray(x) + np.zeros(self.n)
        found = math.zeros_like(x) - np.inf
        for value, row in zip(self.support, self.logs, strict=True):
            found = math.where(x == value, row, found)
        return found

    def log_label(self, label: Any) -> Array:
        return self.logs[self.labels.index(label)] if label in self.labels else np.full(self.n, -np.inf)

    @property
    def uninformative(self) -> NDArray[np.bool_]:
        return np.all(self.logs == self.logs[:1], axis=0)

    @property
    def support_bounds(self) -> Pair:
        possible, at = self.logs > -np.inf, self.support[:, None]
        return np.where(possible, at, np.inf).min(axis=0), np.where(possible, at, -np.inf).max(axis=0)

    @property
    def scale(self) -> Array:
        return np.full(self.n, float(np.ptp(self.support)) or 1.0)


def category_numbers(labels: Labels) -> Array:
    """The numbers that stand for categories: themselves if they are numbers, else 0, 1, ...

    >>> category_numbers([False, True]), category_numbers(["no", "yes"])
    (array([0., 1.]), array([0., 1.]))
    """
    numbers = [float(v) for v in labels if is_number(v)]
    return np.array(numbers) if len(numbers) == len(labels) else np.arange(float(len(labels)))


def grid_between(base: float, low: Array, high: Array, offset: float) -> Array:
    """Multiples of a base, shifted by a share of it, between two finite ends, these included.

    Shape (n, m), padded with missing values.
    """
    with np.errstate(invalid="ignore"):
        first, last = np.ceil(_near_whole(low / base - offset)), np.floor(_near_whole(high / base - offset))
    count = np.where(np.isfinite(last - first), np.maximum(last - first + 1, 0), np.inf)
    if np.any(count > MOST_JUMPS):
        raise UnsupportedError(
            f"A rounded value seen through wide noise has more than {MOST_JUMPS} steps",
            do="Put Noise before Round, or round to a larger base",
        )
    steps = np.arange(int(count.max(initial=0)))
    return np.where(steps < count[:, None], (first[:, None] + steps + offset) * base, np.nan)


def _near_whole(ratio: Array) -> Array:
    """0.3 / 0.1 is not 3 in binary, yet 0.3 is a multiple of 0.1."""
    with np.errstate(invalid="ignore"):
        whole = np.rint(ratio)
        near = np.abs(ratio - whole) <= np.minimum(TOLERANCE * np.maximum(np.abs(whole), 1.0), 0.25)
        return np.where(near, whole, ratio)


def _check_whole_ratio(ratio: Array, otherwise: str) -> Array:
    """Ratios that must be whole numbers."""
    found = _near_whole(ratio)
    if np.any(found != np.rint(found)):
        raise impossible_release_error(otherwise)
    return found


def _whole_between(interval: Between, unit: float, shift: float, otherwise: str) -> Pair:
    """The first and last whole number of units, beyond a shift, in intervals."""
    least, most = (_near_whole(end / unit - shift) for end in interval.support_bounds)
    first = np.ceil(least) + ((least == np.ceil(least)) & ~np.asarray(interval.closed_low))
    last = np.floor(most) - ((most == np.floor(most)) & ~np.asarray(interval.closed_high))
    if np.any(first > last):
        raise impossible_release_error(otherwise)
    return first, last
