"""What a release tells about one column of records, entry by entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import UnsupportedError
from ...protocols import Array
from .mathematics import NUMPY

if TYPE_CHECKING:
    from .kernel import Kernel
    from .laws import Law
    from .maps import Map


class Cuts(NamedTuple):
    """Where the likelihood of each of n entries is not smooth inside its support.

    Between two cuts it is smooth. It is to be taken inside such a piece, never at its end: at a jump the two sides
    differ.
    """

    places: Array
    """Shape (n, m), padded with missing values."""
    jumps: NDArray[np.bool_]
    """Which of them are jumps, the others being kinks; same shape."""

    @classmethod
    def none(cls, n: int) -> Cuts:
        """No cut at all."""
        return cls.at_kinks(np.empty((n, 0)))

    @classmethod
    def at_kinks(cls, places: Array) -> Cuts:
        """The likelihood is continuous there, its slope is not."""
        return cls(places, np.zeros(places.shape, dtype=bool))

    @classmethod
    def at_jumps(cls, places: Array) -> Cuts:
        """The likelihood jumps there."""
        return cls(places, np.ones(places.shape, dtype=bool))

    @classmethod
    def joined(cls, parts: Sequence[Cuts]) -> Cuts:
        """Cuts of several origins."""
        return cls(*(np.concatenate([part[i] for part in parts], axis=1) for i in (0, 1)))


class Observation:
    """What a release tells about one column: p(released | x) for each of n entries, as a function of one number x.

    Immutable. The likelihood is normalised in the *released* value: a density where that value is continuous, a
    probability where it has a point mass. A mask turns what is known about its output into what is known about its
    input by one of the ``before_`` methods; the base does it by summing over the output.
    """

    n: int

    # -- the likelihood ------------------------------------------------------------------------------

    def log(self, x: Any, math: Any = NUMPY) -> Any:
        """Log likelihood of ``x``, which broadcasts to shape (..., n)."""
        raise NotImplementedError

    def take(self, rows: Any) -> Observation:
        """The same for some of the entries, by their positions."""
        raise NotImplementedError

    def log_label(self, label: Any) -> Array:
        """Log likelihood of the entries being this category, shape (n,)."""
        try:
            value = float(label)
        except (TypeError, ValueError):
            return np.full(self.n, -np.inf)
        return np.asarray(np.broadcast_to(self.log(np.full(self.n, value)), (self.n,)))

    @property
    def cost(self) -> int:
        """How many numbers one look at one entry takes."""
        return 1

    # -- where it lives ------------------------------------------------------------------------------

    @property
    def known(self) -> Array:
        """Value of x where it is known exactly, missing elsewhere; shape (n,)."""
        return np.full(self.n, np.nan)

    @property
    def uninformative(self) -> Any:
        """Which entries the release tells nothing about; booleans of shape (n,)."""
        return np.zeros(self.n, dtype=bool)

    @property
    def low(self) -> Array:
        """Least x that is possible; shape (n,), may be -inf."""
        return np.full(self.n, -np.inf)

    @property
    def high(self) -> Array:
        """Largest x that is possible; shape (n,), may be inf."""
        return np.full(self.n, np.inf)

    @property
    def cuts(self) -> Cuts:
        """Where the likelihood jumps or has a kink inside its support."""
        return Cuts.none(self.n)

    @property
    def grades(self) -> Array:
        """More cuts that suit integration, beside those at jumps and kinks.

        Shape (n, m), padded with missing values.
        """
        return np.empty((self.n, 0))

    def window(self, drop: float = 40.0) -> tuple[Array, Array]:
        """Lowest and highest x with a log likelihood within ``drop`` of the largest.

        Infinite where it never falls so far.
        """
        return self.low, self.high

    @property
    def scale(self) -> Array:
        """Length over which the likelihood changes: the noise's standard deviation, the width of an interval.

        Inf if uninformative.
        """
        low, high = self.window(0.5)
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(high - low), np.maximum((high - low) / 2, np.finfo(float).tiny), np.inf)

    @property
    def normal(self) -> tuple[Array, Array] | None:
        """Centre and variance if the likelihood is normal in x for every entry: 0 is known, inf is uninformative.

        Else None.
        """
        return None

    @property
    def support(self) -> Array | None:
        """The values that x can have if it is a category, else None."""
        return None

    # -- one mask further back -----------------------------------------------------------------------

    def before_noise(self, law: Law) -> Observation:
        """What is known about x if this is known about x + noise."""
        from .kernel import Location

        return self.before_kernel(Location(law))

    def before_kernel(self, kernel: Kernel) -> Observation:
        """What is known about x if this is known about y, drawn from a density p(y | x)."""
        from .convolved import Convolved

        return Convolved(self, kernel)

    def before_map(self, function: Map) -> Observation:
        """What is known about x if this is known about y = g(x)."""
        return function.pull(self)

    def before_own(self, mask: Any, column: Any) -> Observation:
        """What is known about x if this is known about the release of a user's mask with its own likelihood."""
        if bool(np.all(self.uninformative)):
            return self
        raise UnsupportedError(
            f"{mask} says how likely a released value is, but a later mask of the chain alters that value",
            do="Put it last in the chain, or write one mask for both steps with its own log_likelihood",
        )

    def __repr__(self) -> str:
        # Never the values: a release may be as confidential as the records.
        return f"{type(self).__name__}(n={self.n})"


def as_row(value: Any, n: int | None = None) -> Array:
    """A read-only row of floats, of length ``n`` if that is given."""
    array = np.array(value, dtype=np.float64)
    if array.ndim != 1 or (n is not None and len(array) != n):
        array = np.array(np.broadcast_to(array, (n,))) if n is not None else np.atleast_1d(array)
    array.flags.writeable = False
    return array
