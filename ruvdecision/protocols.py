"""What each part of the package must offer. One word per idea; see the README's picture of the house.

Shapes
------
A posterior may be *batched*: one object holds the posteriors of many releases, so that a map of thousands
of masks is a handful of array operations. ``batch`` is the shape of that collection (``()`` for a single
posterior) and ``event`` the shape of one target: ``()`` for a number, ``(k,)`` for a vector. Every array that
a posterior gives back has shape ``batch + event`` (or ``batch + (k, k)`` for a covariance, ``batch`` for a
joint quantity such as the entropy).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .checks import Data, Index

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Root = np.random.SeedSequence | None
"""Where the random numbers of a run start."""


class Value(NamedTuple):
    """A number (or array of numbers) with its standard error; the error is zero where the value is exact."""

    value: Array
    error: Array

    @classmethod
    def exact(cls, value: ArrayLike) -> Value:
        """Wrap an exact value."""
        array = np.asarray(value, dtype=np.float64)
        return cls(array, np.zeros_like(array))

    @classmethod
    def joined(cls, parts: Iterable[Value], axis: int = 0) -> Value:
        """One array from several, along an axis."""
        value, error = zip(*parts, strict=True)
        return cls(np.concatenate(value, axis), np.concatenate(error, axis))

    @classmethod
    def stacked(cls, parts: Iterable[Value], axis: int = 0) -> Value:
        """One array from several, along a new axis; an empty one from none."""
        found = [np.broadcast_arrays(*part) for part in parts]
        value, error = (np.stack([pair[i] for pair in found], axis) if found else np.empty(0) for i in (0, 1))
        return cls(value, error)

    def reshaped(self, *shape: int) -> Value:
        """The same in another shape."""
        return Value(self.value.reshape(shape), self.error.reshape(shape))

    def broadcast_to(self, *shape: int) -> Value:
        """The same with this shape, broadcast."""
        return Value(np.broadcast_to(self.value, shape), np.broadcast_to(self.error, shape))

    def times(self, factor: float) -> Value:
        """The value and its error times a factor that is not negative."""
        return Value(np.asarray(self.value * factor), np.asarray(self.error * factor))

    def averaged(self, weights: Array) -> Value:
        """Weighted sum over the last axis. Errors may hang together, so they are added and not averaged out."""
        return Value(np.asarray(self.value @ weights), np.asarray(self.error @ weights))


@runtime_checkable
class Posterior(Protocol):
    """The law of a target given a release. A loss asks it for what it needs and never looks at its type.

    Arguments ``at`` are broadcast against ``batch + event``. Componentwise questions
    (`lower_partial_moment`, `power`, ...) answer for each component of a vector target apart.
    """

    @property
    def batch(self) -> tuple[int, ...]: ...
    @property
    def event(self) -> tuple[int, ...]: ...
    @property
    def support(self) -> Array | None:
        """The finite set of values, shape ``(states,) + event``, or None for a continuum."""

    @property
    def centre(self) -> Array | None:
        """The point about which the law is symmetric and falls off, ``batch + event``, or None.

        Any loss that grows with the distance from the truth has its best estimate there (Anderson, 1955).
        """

    @property
    def trouble(self) -> str:
        """What speaks against the draws that the law is known by; empty if nothing does."""

    def with_trouble(self, trouble: str) -> Posterior:
        """The same law with what speaks against its draws."""

    def recentred(self) -> Posterior:
        """The same law moved near the origin where that keeps digits; losses free of location look at it."""

    def select(self, index: Index) -> Posterior:
        """The posteriors at ``index`` of the batch, as numpy indexes ``batch``."""

    def mean(self) -> Array: ...
    def var(self) -> Array:
        """Variance of each component, ``batch + event``."""

    def cov(self) -> Array:
        """Covariance matrix, ``batch + (k, k)``; k = 1 for a number."""

    def quantile(self, q: float) -> Array: ...
    def upper_quantile(self, tail: float) -> Array:
        """The quantile 1 - ``tail``, also where that rounds to one."""

    def cdf(self, at: ArrayLike) -> Array: ...
    def mode(self, width: ArrayLike = 0.0) -> Array:
        """The most probable value; with ``width`` the centre of the most probable window of that half-width."""

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Independent draws, ``(size,) + batch + event``."""

    def thinned_sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draws as independent as they come: of a chain those far apart, and none twice."""

    def over_draws(
        self, at: Callable[[Array], Array], given: Callable[[Posterior], Array], size: int, rng: np.random.Generator
    ) -> Array | None:
        """A function at draws behind this law; or that of the laws that they leave the target; None without draws."""

    def less_certain(self, more: float) -> Posterior:
        """The same law with another share of its mass uncertain; of most laws none is."""

    def log_density(self, at: ArrayLike) -> Array:
        """Log density, or log probability on a finite set, a joint quantity."""

    def expect(self, f: Callable[[Array], Array], at: ArrayLike | None = None) -> Value:
        """E f(theta), with f vectorised over leading axes. ``at`` marks where f may have a kink or a jump.

        f receives an array of shape ``(points,) + batch + event`` (or broadcastable to it) and gives back
        ``(points,) + batch``.
        """

    def through(self, ask: Callable[[Posterior, Array], Value], f: Callable[[Array], Array], at: ArrayLike) -> Value:
        """E f(theta), where ``ask(law, at)`` is the same in closed form for each law that this one may be made of."""

    def quadratic(self, weights: ArrayLike = 1.0) -> Value:
        """E (theta - m)' W (theta - m) about the mean, a joint quantity."""

    def lower_partial_moment(self, at: ArrayLike) -> Value:
        """E max(at - theta, 0) for each component."""

    def upper_partial_moment(self, at: ArrayLike) -> Value:
        """E max(theta - at, 0) for each component."""

    def power(self, at: ArrayLike, p: float, *, signed: bool = False) -> Value:
        """E |theta - at|^p for each component; ``signed`` keeps the sign of theta - at."""

    def huber(self, at: ArrayLike, delta: float) -> Value:
        """E of Huber's loss of theta - at for each component."""

    def outside(self, at: ArrayLike, width: ArrayLike) -> Value:
        """P(some component of theta is farther than ``width`` from ``at``), a joint quantity."""

    def log_mgf(self, t: float, *, centred: bool = False) -> Value:
        """Log E exp(t theta) for each component; ``centred`` takes theta less its mean."""

    def mean_difference(self) -> Value:
        """Gini's mean difference, E |theta - theta'| for two independent copies, each component."""

    def entropy(self) -> Value:
        """Shannon entropy in nats, a joint quantity; differential for a continuum."""


@runtime_checkable
class Loss(Protocol):
    """What it costs a user to be wrong.

    ``location_free`` says that the uncertainty depends on the shape of the posterior and not on where it
    lies; then a Gaussian posterior has the same uncertainty whatever was released.
    """

    # Read-only here and below: a frozen field, a class attribute and a property all will do.
    @property
    def location_free(self) -> bool: ...

    def __call__(self, estimate: Any, truth: Any) -> Array:
        """Loss of an estimate (an action) when the target is ``truth``, vectorised over leading axes."""

    def estimate(self, posterior: Posterior, actions: str | ArrayLike | None = None) -> Any:
        """The act with the least expected loss; ``actions`` restricts the choice to a finite set."""

    def uncertainty(self, posterior: Posterior, actions: str | ArrayLike | None = None) -> Value:
        """That least expected loss, shape ``batch``."""


@runtime_checkable
class Target(Protocol):
    """The quantity that a user wants to know; `targets.BaseTarget` has all that follows from this."""

    def describe(self) -> str: ...

    def of(self, records: Array, parameters: Mapping[str, Array] | None = None) -> object:
        """The value in a file ``(n,)`` or ``(n, k)``, a number or a vector."""

    def linear(self, k: int, number: bool = False, widths: Mapping[str, int] | None = None) -> object:
        """Weights on records, their average, a new record and parameters, if the target is affine in them.

        Else None.
        """

    def rank(self, n: int) -> int | None:
        """The rank among ``n`` records, if it is the record of a rank."""


@runtime_checkable
class Belief(Protocol):
    """A user's joint law of parameters and records before the release."""

    @property
    def records(self) -> int:
        """How many records there are."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters that a target may ask for."""

    def draw(self, rng: np.random.Generator) -> Data:
        """Draw a data set from the belief, as the masks take it."""


class Solution(NamedTuple):
    """What an engine gives back for a user and a list of masks: one entry per mask."""

    uncertainty: Array
    error: Array
    before: float
    """Uncertainty before any release, U0."""
    engine: Sequence[str] | str
    """Which engine gave each entry; one word if it gave all of them."""
    diagnostics: Mapping[str, Any] = {}
    """Further columns, one entry per mask each (R-hat, effective sample size, ...)."""
    draws: Mapping[int, Mapping[str, xr.Dataset]] = {}
    """Draws that were asked to be kept, by the mask's position."""
    averaged: bool = False
    """Whether some entry is an average over drawn releases, so that another seed may give another."""
    before_error: float = 0.0
    """Standard error of ``before``."""

    def words(self, count: int) -> list[str]:
        """Which engine gave each of ``count`` entries."""
        return [self.engine] * count if isinstance(self.engine, str) else list(self.engine)


@runtime_checkable
class Engine(Protocol):
    """How posteriors are computed; `engines.BaseEngine` has all that follows from this."""

    @property
    def name(self) -> str: ...

    def plan(self, problem: Any) -> Any:
        """A plan for a problem, or a refusal that says why there is none and what can be used instead."""

    def posterior(self, user: Any, mask: Any, release: Any = None) -> Posterior:
        """Posterior of the user's target after one release (before the data are known where it does not matter)."""


@runtime_checkable
class Measure(Protocol):
    """An empirical risk or utility, computed from an original and a released data set."""

    @property
    def name(self) -> str: ...
    @property
    def role(self) -> str: ...

    def __call__(self, original: Any, released: Any) -> float: ...
