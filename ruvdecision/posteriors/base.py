"""All that follows from an expectation, a distribution function and draws: the base of every posterior."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ..checks import Index, as_float_array, check_number
from ..errors import InputError
from ..numerics.differences import ridders_derivative
from ..numerics.roots import bracket, least_near, monotone_root
from ..protocols import Array, Posterior, Value
from .modes import Neighbours, climb_box, merge_values, most_probable
from .normal import expm1_less, is_farther

BLOCK = 4_000_000
"""Numbers that one step of a calculation may hold."""
WIDEST = 1e154
"""A window that is wider holds all numbers whose squares are numbers."""
Pairs = Callable[[Array, Array], Array]
"""A function of values of the target and of a point, such as an estimate."""
Growth = tuple[float, float]
"""Powers like which a function grows to the left and to the right, with its sign."""
LEVEL: Growth = (0.0, 0.0)
_DRAWS = 4096
_POWER_TAIL = 1.02
"""A moment this close to the order of a power tail counts as infinite: nothing could settle it."""


class BasePosterior(ABC):
    """A law that knows `expect`, `cdf` and `sample`; everything else of the protocol follows from them.

    A law overrides what it knows better. What follows here is slow and, where it needs a density, of about eight digits
    for numbers; joint densities, entropies and modes of vectors are estimates from draws. Moments that the tails of the
    distribution function make infinite are infinite, whatever `expect` says.

    Examples
    --------
    >>> class Exponential(BasePosterior):
    ...     def cdf(self, at):
    ...         return -np.expm1(-np.maximum(at, 0.0))
    ...
    ...     def sample(self, size, rng):
    ...         return rng.exponential(size=size)
    ...
    ...     def expect(self, f, at=None):
    ...         x, w = np.polynomial.laguerre.laggauss(60)
    ...         return Value(w @ f(x), np.asarray(0.0))
    >>> law = Exponential()
    >>> float(law.quadratic().value.round(9)), float(law.quantile(0.5).round(9))
    (1.0, 0.693147181)
    """

    batch: tuple[int, ...] = ()
    event: tuple[int, ...] = ()
    trouble: str = ""
    """What speaks against the draws that the law is known by: they did not converge. Empty if nothing does."""

    # -- what a law must know --------------------------------------------------------------------------

    @abstractmethod
    def expect(self, f: Callable[[Array], Array], at: ArrayLike | None = None) -> Value:
        """E f(theta); see `Posterior.expect`."""

    @abstractmethod
    def cdf(self, at: ArrayLike) -> Array:
        """Distribution function of each component."""

    @abstractmethod
    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Independent draws, ``(size,) + batch + event``."""

    # -- shape and place -------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch={self.batch}, event={self.event})"

    @property
    def support(self) -> Array | None:
        """The finite set of values, or None for a continuum."""
        return None

    @property
    def centre(self) -> Array | None:
        """The point about which the law is symmetric and falls off; None where nothing is assumed about the shape."""
        return None

    def with_trouble(self, trouble: str) -> Self:
        """The same law with what speaks against its draws."""
        return self._of(**{**vars(self), "trouble": trouble}) if trouble else self

    def recentred(self) -> BasePosterior:
        """Itself: sums of differences keep their digits wherever a law lies."""
        return self

    def select(self, index: Index) -> BasePosterior:
        """The posteriors at ``index`` of the batch."""
        if self.batch:
            return _Selected(self, index)
        if index not in ((), Ellipsis):
            raise InputError("One posterior has no batch to select from", index, "Use select(())")
        return self

    def mixed(self, weights: Array) -> BasePosterior | None:
        """The mixture of the laws along the last axis of the batch as one law, where its kind has such a law."""
        return None

    # -- summaries -------------------------------------------------------------------------------------

    def mean(self) -> Array:
        return self._average(lambda x, _: x, growth=(-1.0, 1.0)).value

    def var(self) -> Array:
        return self._average(lambda x, a: np.square(x - a), self.mean(), growth=(2.0, 2.0)).value

    def cov(self) -> Array:
        if not self.event:
            return self.var()[..., None, None]
        k, mean = self.event[0], self.mean()
        found = np.empty(self.batch + (k, k))
        found[..., np.arange(k), np.arange(k)] = self.var()
        for i in range(k):
            for j in range(i):
                product = self.expect(lambda t: (t[..., i] - mean[..., i]) * (t[..., j] - mean[..., j]))  # noqa: B023
                found[..., i, j] = found[..., j, i] = product.value
        return found

    def quantile(self, q: float) -> Array:
        """Each component apart: the lowest value at which the distribution function reaches q, as far as it tells."""
        # Where rounding alone keeps the distribution function from q it has reached it.
        level = check_level("q", q)
        if self.support is not None:
            values = np.sort(self.support, axis=0)
            reached = self.cdf(values.reshape((-1,) + (1,) * len(self.batch) + self.event)) > max(level - 1e-13, 0.0)
            place = np.where(reached.any(axis=0), np.argmax(reached, axis=0), len(values) - 1)
            return np.asarray(
                np.take_along_axis(values, place.reshape((-1,) + self.event), axis=0).reshape(place.shape)
            )
        level = max(level, np.finfo(float).tiny)

        start, step = self._location_and_scale
        far = np.full(self.batch + self.event, 1e300)
        below, above = self.cdf(-far) >= level, self.cdf(far) < level

        def gap(x: Array) -> Array:
            # What the ends of the line do not reach is not finite, and need not be looked for.
            return np.where(below | above, x - start, self.cdf(x) - level)

        root = monotone_root(gap, *bracket(gap, start, step))
        return np.where(below, -np.inf, np.where(above, np.inf, root))

    def upper_quantile(self, tail: float) -> Array:
        return self.quantile(1 - check_level("tail", tail))

    def log_density(self, at: ArrayLike) -> Array:
        """Log density: the slope of the distribution function for numbers, nearest neighbours of draws for vectors."""
        if self.support is not None:
            hit = self._average(lambda t, a: np.all(t == a, axis=-1) if self.event else t == a, at, joint=True)
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(hit.value))
        if not self.event:
            at = np.asarray(at, dtype=np.float64)
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.asarray(
                    np.log(np.maximum(ridders_derivative(self.cdf, at, 0.25 * self._location_and_scale[1]), 0.0))
                )
        lead, rows = self._rows(at)
        found = np.empty(lead + self.batch)
        for index in np.ndindex(self.batch):
            points = rows[(slice(None), *index)]
            found[(..., *index)] = self._neighbours(index).log_density(points).reshape(lead)
        return found

    def mode(self, width: ArrayLike = 0.0) -> Array:
        """The highest point of the density, or centre of the most probable window: a scan, refined."""
        width = check_width(width, self.event)
        if self.centre is not None:
            return self.centre
        if self.support is not None:
            chances = np.moveaxis(np.exp(self._log_chances), 0, -1)
            return most_probable(*merge_values(self.support, chances), width)
        if self.event:
            wide = np.broadcast_to(width, self.event)
            modes = [self._vector_mode(index, wide) for index in np.ndindex(self.batch)]
            return np.array(modes).reshape(self.batch + self.event)
        half = float(width)

        def badness(x: Array) -> Array:
            if half:
                return self.outside(x, half).value
            logs = self.log_density(x)
            return -np.where(np.isposinf(logs), -np.inf, logs)

        points = self._mode_candidates(half)
        values = badness(points)
        return np.asarray(least_near(badness, np.broadcast_to(points, values.shape), values, tries=3)[0])

    def thinned_sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draws as independent as they come: of a chain those far apart, and none twice."""
        return self.sample(size, rng)

    def over_draws(
        self, at: Callable[[Array], Array], given: Callable[[Posterior], Array], size: int, rng: np.random.Generator
    ) -> Array | None:
        """A function at draws behind this law; or that of the laws that they leave the target; None without draws."""
        return None

    def less_certain(self, more: float) -> BasePosterior:
        """The same law with another share of its mass uncertain; of most laws none is."""
        return self

    # -- expectations ----------------------------------------------------------------------------------

    def through(self, ask: Callable[[Posterior, Array], Value], f: Callable[[Array], Array], at: ArrayLike) -> Value:
        """E f(theta), where ``ask(law, at)`` is the same in closed form for each law that this one may be made of."""
        return self.expect(f, at)

    def expect_last(self, f: Callable[[Array], Array], at: ArrayLike | None = None) -> Value:
        """E f of every law of the batch, for f that knows all axes of the batch but the last."""
        lead = self.batch[:-1]

        def wide(theta: Array) -> Array:
            # Laws along the last axis go along the axis of points.
            theta = np.broadcast_to(theta, theta.shape[:1] + self.batch + self.event)
            moved = np.moveaxis(theta, 1 + len(lead), 1)
            points = moved.reshape((-1,) + lead + self.event)
            return np.moveaxis(as_shape(f(points), points.shape[:1] + lead).reshape(moved.shape[:2] + lead), 1, -1)

        kinks = None
        if at is not None and not self.event:
            kinks = as_kinks(at, lead)[..., None]
        return self.expect(wide, kinks)

    def quadratic(self, weights: ArrayLike = 1.0) -> Value:
        matrix, mean = as_weight_matrix(weights, self.event), self.mean()
        if not self.event:
            return self._with_tails(self.expect(lambda t: matrix[0, 0] * np.square(t - mean)), (2.0, 2.0))
        found = self.expect(lambda t: np.einsum("...i,ij,...j->...", t - mean, matrix, t - mean))
        heavy = np.any((np.minimum(*self._tail_orders) <= 2 * _POWER_TAIL) & (np.diag(matrix) != 0), axis=-1)
        return Value(np.where(heavy, np.inf, found.value), np.where(heavy, 0.0, found.error))

    def lower_partial_moment(self, at: ArrayLike) -> Value:
        return self._average(lambda x, a: np.maximum(a - x, 0.0), at, (0.0,), growth=(1.0, 0.0))

    def upper_partial_moment(self, at: ArrayLike) -> Value:
        return self._average(lambda x, a: np.maximum(x - a, 0.0), at, (0.0,), growth=(0.0, 1.0))

    def power(self, at: ArrayLike, p: float, *, signed: bool = False) -> Value:
        def g(x: Array, a: Array) -> Array:
            with np.errstate(over="ignore"):  # a power out of reach is infinite
                size = np.abs(x - a) ** p
            return np.sign(x - a) * size if signed else size

        return self._average(g, at, (0.0,), growth=(-p if signed else p, p))

    def huber(self, at: ArrayLike, delta: float) -> Value:
        return self._average(lambda x, a: special.huber(delta, x - a), at, (-delta, delta), growth=(1.0, 1.0))

    def outside(self, at: ArrayLike, width: ArrayLike) -> Value:
        width = check_width(width, self.event)

        def miss(x: Array, a: Array) -> Array:
            far = is_farther(x, a, width)
            return np.asarray(far.any(axis=-1) if self.event else far, dtype=np.float64)

        return self._average(miss, at, () if self.event else (-float(width), float(width)), joint=True)

    def log_mgf(self, t: float, *, centred: bool = False) -> Value:
        mean = self.mean()
        exists = np.isfinite(mean)
        about = mean if exists.all() else np.where(exists, mean, self.quantile(0.5))

        # The mean of t (theta - mean) is zero and need not be summed: a small t keeps its digits.
        near = expm1_less if exists.all() else np.expm1
        found = self._average(lambda x, a: near(np.minimum(t * (x - a), 700.0)), about)
        lost = np.isfinite(self._tail_orders[1 if t > 0 else 0]) & (t != 0) | (centred & ~exists)
        value = np.where(lost, np.inf, np.log1p(np.where(lost, 0.0, found.value)))
        error = np.where(lost, 0.0, found.error / (1 + np.where(lost, 0.0, found.value)))
        return Value(value if centred else value + t * about, error)

    def mean_difference(self) -> Value:
        """Gini's mean difference, by 4 E (theta - m)(F(theta) - 1/2) with F halfway up its jumps."""
        mean = self.mean()

        def product(t: Array, column: Any = ...) -> Array:
            half_way = 0.5 * (self.cdf(t) + self.cdf(np.nextafter(t, -np.inf))) - 0.5
            return np.asarray(4 * (t - mean) * half_way)[column]

        columns = [(..., j) for j in range(self.event[0])] if self.event else [...]
        parts = [self.expect(partial(product, column=column)) for column in columns]
        return self._with_tails(Value.stacked(parts, axis=-1).reshaped(*self.batch, *self.event), (1.0, 1.0))

    def entropy(self) -> Value:
        """Shannon entropy: of the chances of a finite set, otherwise differential, by `log_density`."""
        if self.support is not None:
            return Value.exact(np.sum(special.entr(np.exp(self._log_chances)), axis=0))
        if not self.event:
            # Where rounding leaves no density there is next to no mass.
            return self.expect(lambda t: -np.maximum(self.log_density(t), -700.0))
        logs = np.stack([self._neighbours(index).logs for index in np.ndindex(self.batch)], axis=-1)
        logs = logs.reshape((-1,) + self.batch)
        return Value(-logs.mean(axis=0), logs.std(axis=0, ddof=1) / np.sqrt(len(logs)))

    # -- helpers ---------------------------------------------------------------------------------------

    @classmethod
    def _of(cls, **fields: Any) -> Self:
        """A law of fields that are known to be good."""
        self = object.__new__(cls)
        self.__dict__.update(fields)
        return self

    @cached_property
    def _draws(self) -> Array:
        return self.sample(_DRAWS, np.random.default_rng(20020501))

    @cached_property
    def _location_and_scale(self) -> tuple[Array, Array]:
        """Where to look first, and in which steps: the middle of some draws and the width of their middle half."""
        low, middle, high = np.quantile(self._draws, [0.25, 0.5, 0.75], axis=0)
        return middle, high - low

    @cached_property
    def _tail_orders(self) -> tuple[Array, Array]:
        """Order from which moments are infinite, left and right: that of a power tail, infinite for a lighter one.

        A power tail shows the same order over several decades of its mass; a lighter one falls faster and faster.
        """
        if self.support is not None:
            return (np.full(self.batch + self.event, np.inf),) * 2
        middle, found = self.quantile(0.5), []
        for quantile in (self.quantile, self.upper_quantile):
            near, far, farthest = (np.abs(quantile(tail) - middle) for tail in (1e-4, 1e-7, 1e-10))
            with np.errstate(divide="ignore", invalid="ignore"):
                first, second = np.log(1e3) / np.log(far / near), np.log(1e3) / np.log(farthest / far)
                found.append(np.where(np.abs(second / first - 1) < 0.02, second, np.inf))
        return found[0], found[1]

    @cached_property
    def _log_chances(self) -> Array:
        """Log probability of each value of a finite set, ``(states,) + batch``."""
        assert self.support is not None
        return self.log_density(self.support.reshape((-1,) + (1,) * len(self.batch) + self.event))

    def _rows(self, at: ArrayLike) -> tuple[tuple[int, ...], Array]:
        """The leading axes of ``at``, and its rows of shape ``batch + event``."""
        at, shape = np.asarray(at, dtype=np.float64), self.batch + self.event
        full = np.broadcast_to(at, np.broadcast_shapes(at.shape, shape))
        return full.shape[: full.ndim - len(shape)], full.reshape((-1,) + shape)

    def _average(
        self, g: Pairs, at: ArrayLike = 0.0, kinks: Sequence[float] = (), *, joint: bool = False, growth: Growth = LEVEL
    ) -> Value:
        """E g(theta, at) for each component, or one for all if ``joint``; leading axes of ``at`` stay.

        g has kinks at ``at`` plus those given, and grows to the left and right like these powers, with their sign.
        """
        lead, rows = self._rows(at)
        if joint or not self.event:
            parts = [
                self.expect(_function_of_target(g, row), np.stack([row + c for c in kinks]) if kinks else None)
                for row in rows
            ]
            value, error = Value.stacked(parts).reshaped(*lead, *self.batch)
        else:
            columns = range(self.event[0])
            parts = [
                self.expect(_function_of_target(g, row, j), row if kinks else None) for row in rows for j in columns
            ]
            stacks = Value.stacked(parts).reshaped(len(rows), -1, *self.batch)
            value, error = (np.moveaxis(a, 1, -1).reshape(lead + self.batch + self.event) for a in stacks)
        return self._with_tails(Value(value, error), growth)

    def _with_tails(self, found: Value, growth: Growth) -> Value:
        """The mean of a function that grows like these powers: infinite where the law's tails make it so."""
        if not any(growth):
            return found
        beyond = np.zeros(self.batch + self.event)
        for order, size in zip(self._tail_orders, growth, strict=True):
            heavy = (order <= abs(size) * _POWER_TAIL) & (size != 0)
            with np.errstate(invalid="ignore"):  # both ways at once is no number
                beyond = beyond + np.where(heavy, np.copysign(np.inf, size), 0.0)
        return Value(np.where(beyond == 0, found.value, beyond), np.where(beyond == 0, found.error, 0.0))

    def _mode_candidates(self, half_width: float) -> Array:
        """Where the mode may be near, ascending along the first axis."""
        middle, step = self._location_and_scale
        levels = [self.quantile(q) for q in np.linspace(0.005, 0.995, 100)]
        even = [middle + z * step for z in np.linspace(-3, 3, 61)]
        return np.sort(np.stack(levels + even), axis=0)

    def _neighbours(self, index: tuple[int, ...]) -> Neighbours:
        return Neighbours(np.moveaxis(self._draws, 0, -2)[index], np.full(_DRAWS, 1 / _DRAWS))

    def _vector_mode(self, index: tuple[int, ...], width: Array) -> Array:
        if width.any():
            return climb_box(np.moveaxis(self._draws, 0, -2)[index], np.full(_DRAWS, 1 / _DRAWS), width)
        return self._neighbours(index).densest_draw()


class PartwisePosterior(BasePosterior):
    """A law made of others, to which it puts every question that is linear in a law."""

    @abstractmethod
    def ask_parts(self, ask: Callable[[Posterior, Array], Value], at: ArrayLike, *, joint: bool = False) -> Value:
        """One answer of what the parts answer; ``joint`` questions have one for all components."""

    def cdf(self, at: ArrayLike) -> Array:
        return self.ask_parts(lambda law, a: Value.exact(law.cdf(a)), at).value

    def lower_partial_moment(self, at: ArrayLike) -> Value:
        return self.ask_parts(lambda law, a: law.lower_partial_moment(a), at)

    def upper_partial_moment(self, at: ArrayLike) -> Value:
        return self.ask_parts(lambda law, a: law.upper_partial_moment(a), at)

    def power(self, at: ArrayLike, p: float, *, signed: bool = False) -> Value:
        return self.ask_parts(lambda law, a: law.power(a, p, signed=signed), at)

    def huber(self, at: ArrayLike, delta: float) -> Value:
        return self.ask_parts(lambda law, a: law.huber(a, delta), at)


class _Selected(BasePosterior):
    """Some laws of a batch, by questions to the whole batch."""

    def __init__(self, whole: BasePosterior, index: Index) -> None:
        self.size = int(np.prod(whole.batch))
        place = np.arange(self.size).reshape(whole.batch)[index]
        self.whole, self.batch, self.event, self.place = whole, np.shape(place), whole.event, np.ravel(place)
        # A law that is picked again needs a turn of its own.
        order = np.argsort(self.place, kind="stable")
        fresh = np.concatenate([[True], np.diff(self.place[order]) > 0])
        start = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
        self.turn = np.empty(len(order), dtype=np.intp)
        self.turn[order] = np.arange(len(order)) - start
        self.turns = [np.flatnonzero(self.turn == turn) for turn in range(int(self.turn.max(initial=-1)) + 1)]

    @property
    def support(self) -> Array | None:
        return self.whole.support

    def expect(self, f: Callable[[Array], Array], at: ArrayLike | None = None) -> Value:
        shape = self.batch + self.event
        value, error = np.empty(len(self.place)), np.empty(len(self.place))
        kinks = None if at is None else as_kinks(at, shape)
        kinks = None if kinks is None else np.broadcast_to(kinks, kinks.shape[:1] + shape)
        for mine in self.turns:

            def wide(theta: Array, mine: NDArray[np.intp] = mine) -> Array:
                points = len(theta)
                full = np.broadcast_to(theta, (points,) + self.whole.batch + self.event)
                picked = full.reshape((points, self.size) + self.event)[:, self.place]
                return self._placed(as_shape(f(picked.reshape((points,) + shape)), (points, *self.batch)), mine, ())

            found = self.whole.expect(wide, None if kinks is None else self._placed(kinks, mine, self.event))
            value[mine], error[mine] = (part.ravel()[self.place[mine]] for part in found)
        return Value(value.reshape(self.batch), error.reshape(self.batch))

    def cdf(self, at: ArrayLike) -> Array:
        lead, rows = self._rows(at)
        found = np.empty((len(rows), len(self.place)) + self.event)
        for mine in self.turns:
            answers = self.whole.cdf(self._placed(rows, mine, self.event))
            found[:, mine] = answers.reshape((len(rows), self.size) + self.event)[:, self.place[mine]]
        return found.reshape(lead + self.batch + self.event)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        drawn = self.whole.sample(size * len(self.turns), rng).reshape((size, len(self.turns), -1) + self.event)
        return drawn[:, self.turn, self.place].reshape((size,) + self.batch + self.event)

    def _placed(self, rows: Array, mine: NDArray[np.intp], event: tuple[int, ...]) -> Array:
        """Rows of numbers for some of the picked laws, where the whole batch has these laws; zero elsewhere."""
        full = np.zeros((len(rows), self.size) + event)
        full[:, self.place[mine]] = rows.reshape((len(rows), len(self.place)) + event)[:, mine]
        return full.reshape((len(rows),) + self.whole.batch + event)


def _function_of_target(g: Pairs, at: Array, column: int | None = None) -> Callable[[Array], Array]:
    """G as a function of theta alone, of one component if a column is given."""
    if column is None:
        return lambda theta: g(theta, at)
    return lambda theta: g(theta[..., column], at[..., column])


# -- arguments that every posterior takes ---------------------------------------------------------------


def check_level(name: str, q: ArrayLike) -> float:
    """Return a probability between 0 and 1, both included."""
    return check_number(name, q, low=0.0, high=1.0)


def check_width(width: ArrayLike, event: tuple[int, ...]) -> Array:
    """Return half-widths that are not negative, one for all components or one each."""
    array = as_float_array("width", width)
    if not (array >= 0).all() or not (array <= WIDEST).all():
        what = f"width must be a number in [0, {WIDEST:g}]"
        raise InputError(what, width, "Give the half-width of the window")
    if array.ndim and array.shape != event:
        what = f"width must be one number or have shape {event}"
        raise InputError(what, f"shape {array.shape}", "Give one half-width per component")
    return array


def as_weight_matrix(weights: ArrayLike, event: tuple[int, ...]) -> Array:
    """Return a weight, a vector or a matrix of weights as a matrix for targets of this shape."""
    array = as_float_array("weights", weights)
    k = event[0] if event else 1
    if array.ndim == 0:
        return np.asarray(array * np.eye(k))
    if array.shape not in ((k,), (k, k)):
        what = f"weights must fit a target of {k} component{'s' if k > 1 else ''}"
        raise InputError(what, f"shape {array.shape}", "Give one number, one weight per component, or a square matrix")
    return np.diag(array) if array.ndim == 1 else array


def trace_product(weights: Array, cov: Array) -> Array:
    """trace(W V), where a zero weight on an infinite variance counts as nothing."""
    infinite = np.isinf(cov)
    if not infinite.any():
        return np.asarray(np.einsum("ij,...ij->...", weights, cov))
    finite = np.einsum("ij,...ij->...", weights, np.where(infinite, 0.0, cov))
    return np.where(np.any(infinite & (weights != 0), axis=(-2, -1)), np.inf, finite)


def index_below_batch(index: Index) -> tuple[Any, ...]:
    """An index of a batch, for arrays that have one more axis behind the batch."""
    index = index if isinstance(index, tuple) else (index,)
    return (*index, slice(None)) if any(i is Ellipsis for i in index) else index


def as_kinks(at: ArrayLike, batch: tuple[int, ...]) -> Array:
    """Kinks of a function of each law of a batch, along a first axis of their own, even if there is one."""
    kinks = np.asarray(at, dtype=np.float64)
    return kinks if kinks.ndim > len(batch) else kinks[None]


def as_shape(value: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return what a function gave back as an array of this shape, if it can be one."""
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape:
        try:
            array = np.broadcast_to(array, shape)
        except ValueError:
            do = "Let it work on whole arrays, with the points along the first axis"
            raise InputError(f"The function must give back shape {shape}", f"shape {array.shape}", do) from None
    return array
