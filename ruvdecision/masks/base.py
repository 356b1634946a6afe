"""What every mask shares: releasing data of any kind, composing with ``|``, and saying its parameters.

A mask only masks. It gives back data, never a risk. To add one, write a frozen dataclass that derives
from `Mask` and defines `apply`; define `linear` (and `partition` where rows differ) if its release is linear in
the records plus Gaussian noise, and every closed-form map understands it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Iterator
from functools import cache, cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from ..checks import Seed, as_generator
from ..errors import InputError, UnsupportedError, kind_of
from ..protocols import Array
from .frame import Frame

if TYPE_CHECKING:
    from ..channels.layout import Partition
    from ..channels.likelihood import Observed
    from ..channels.linear import LinearChannel

__all__ = ["Batch", "Chain", "Family", "Mask", "check_mask", "show_number"]

Data = TypeVar("Data")
"""A DataFrame or a Series: what a mask is given and gives back."""


@dataclasses.dataclass(frozen=True, repr=False)
class Mask:
    """Base of all masks.

    Class attributes
    ----------------
    recordwise : bool
        True if each released record depends on its own original alone (and fresh randomness).
    no_law : str or None
        Why p(released | records) is not known entry by entry, for masks where it is not.
    """

    recordwise: ClassVar[bool] = True
    no_law: ClassVar[str | None] = None

    # -- releasing -----------------------------------------------------------------------------------

    @overload
    def release(self, data: NDArray[Any] | list[Any] | tuple[Any, ...], rng: Seed = None) -> NDArray[Any]: ...
    @overload
    def release(self, data: Data, rng: Seed = None) -> Data: ...
    def release(self, data: Any, rng: Seed = None) -> Any:
        """Mask ``data`` (DataFrame, Series, one- or two-dimensional array) and give back the same kind.

        Index and columns are kept; the input is never changed. ``rng`` is an int, a SeedSequence or a
        numpy Generator. Give none for a file that leaves the agency: what was drawn from a known seed can be drawn again
        and taken off.
        """
        return self.apply(Frame.of(data), as_generator(rng)).unwrap()

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        """Mask a `Frame`. This is the method that a new mask defines."""
        raise NotImplementedError

    def follow(self, frame: Frame, before: Frame, rng: np.random.Generator) -> Frame:
        """Mask a `Frame` as a step of a chain; ``before`` is the file before the previous step.

        Only a mask that looks at what the previous step did needs to define it.
        """
        return self.apply(frame, rng)

    def __or__(self, other: Mask) -> Mask:
        if not isinstance(other, Mask):
            raise InputError(
                "Only masks compose with |", type(other).__name__, "Write Noise(variance=2) | Microaggregate(groups=1)"
            )
        return Chain(self.parts + other.parts)

    def refines(self, other: Mask, belief: Any = None, *, records: int | None = None, columns: int = 1) -> bool:
        """Whether this release tells everything that the other one does; see `ruvdecision.analyses.blackwell.refines`."""
        from ..analyses.blackwell import refines

        return refines(self, other, belief, records=records, columns=columns)

    # -- describing ----------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[Mask, ...]:
        """The masks that are applied one after the other."""
        return (self,)

    @property
    def technique(self) -> str:
        """Name of the technique without its parameters, ``'Noise | Microaggregate'``."""
        return type(self).__name__

    def settings(self) -> dict[str, Any]:
        """The arguments that differ from their defaults, as they were given."""
        given, kind = {}, cast("Any", type(self))
        for name, default in _defaults(kind):
            value = getattr(self, name)
            if value is not default and not _same(value, default):
                given[name] = value
        return given

    def parameters(self) -> dict[str, Any]:
        """The settings as columns of a map's table: numbers stay numbers, the rest becomes text."""
        plain = (int, float, str)
        return {
            k: v if isinstance(v, plain) and not isinstance(v, bool) else show_number(v)
            for k, v in self.settings().items()
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={show_number(v)}' for k, v in self.settings().items())})"

    def __str__(self) -> str:
        return repr(self)

    # -- closed forms --------------------------------------------------------------------------------

    @cached_property
    def family(self) -> Hashable:
        """Masks of one family differ in `numbers` only, and are evaluated together in one vectorised go."""
        return (type(self), *(_freeze(getattr(self, f.name)) for f in dataclasses.fields(self)))

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers in which members of a family differ."""
        return ()

    def partition(self, n: int) -> Partition | None:
        """How the mask tells rows apart, or None if it treats all rows alike."""
        return None

    def linear(self, channel: LinearChannel, numbers: Array) -> LinearChannel:
        """Send a linear-Gaussian channel through this mask.

        ``numbers`` has shape ``(masks, len(self.numbers))``: one row per member of the family.
        """
        raise UnsupportedError(
            f"{self} has no linear-Gaussian channel",
            do="Measure its releases empirically with ruv.measure, or use a mask with a linear channel such as Noise(variance=...)",
        )

    # -- likelihood ----------------------------------------------------------------------------------

    def back(self, observed: Observed) -> Observed:
        """Turn what is known about this mask's output into what is known about its input.

        A mask of your own needs one method instead: ``log_likelihood(self, released, x, math)`` gives back log p(released | x)
        entry by entry, where ``released`` holds a column's n released values, ``x`` has shape (..., n), and ``math`` has exp, log,
        where and their like, for numpy and PyTensor alike. It may ask for ``column`` as well, the column's name. With
        ``likelihood_support(self, released)`` it may say between which (low, high) x must lie.
        """
        if not callable(getattr(self, "log_likelihood", None)):
            why = self.no_law or "it does not say how likely a released value is"
            raise UnsupportedError(
                f"{self} has no likelihood: {why}",
                do="Use Noise, MultiplicativeNoise, Round, Recode, Topcode, Bottomcode, Suppress, Subsample, Shuffle, PRAM, "
                "Microaggregate by rows, or a chain of them; write log_likelihood(released, x, math) for a mask of your own; "
                "or measure its releases with ruv.measure",
            )
        return observed.each(self, range(observed.k), lambda j, column: column.before_own(self, observed.names[j]))


@dataclasses.dataclass(frozen=True, repr=False)
class Chain(Mask):
    """Masks applied one after the other, left to right; made by ``|``."""

    masks: tuple[Mask, ...]

    def __post_init__(self) -> None:
        steps: list[Mask] = []
        for mask in self.masks:
            if not isinstance(mask, Mask):
                raise InputError("A chain needs masks", kind_of(mask), "Write mask_a | mask_b")
            steps += mask.parts
        if not steps:
            raise InputError("A chain needs masks", "none", "Write mask_a | mask_b")
        object.__setattr__(self, "masks", tuple(steps))

    @property
    def parts(self) -> tuple[Mask, ...]:
        return self.masks

    @property
    def recordwise(self) -> bool:  # type: ignore[override]
        return all(m.recordwise for m in self.masks)

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        # Each step has its own stream, so that steps later in the chain do not shift those before them.
        streams = rng.spawn(len(self.masks))
        before, frame = frame, self.masks[0].apply(frame, streams[0])
        for mask, stream in zip(self.masks[1:], streams[1:], strict=True):
            before, frame = frame, mask.follow(frame, before, stream)
        return frame

    def __iter__(self) -> Iterator[Mask]:
        return iter(self.masks)

    @property
    def technique(self) -> str:
        return " | ".join(m.technique for m in self.masks)

    def settings(self) -> dict[str, Any]:
        return {"masks": self.masks}

    def parameters(self) -> dict[str, Any]:
        """Parameters of every step; a name that comes again gets a number, ``variance_2``."""
        merged: dict[str, Any] = {}
        for mask in self.masks:
            for name, value in mask.parameters().items():
                key, count = name, 1
                while key in merged:
                    count += 1
                    key = f"{name}_{count}"
                merged[key] = value
        return merged

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.masks))

    @property
    def family(self) -> Hashable:  # type: ignore[override]
        found = self.__dict__.get("_family")
        if found is None:
            found = self.__dict__["_family"] = (Chain, *[m.family for m in self.masks])
        return found

    @property
    def numbers(self) -> tuple[float, ...]:
        found = self.__dict__.get("_numbers")
        if found is None:
            found = self.__dict__["_numbers"] = tuple(chain.from_iterable([m.numbers for m in self.masks]))
        return found

    def linear(self, channel: LinearChannel, numbers: Array) -> LinearChannel:
        start = 0
        for stage, mask in enumerate(self.masks):
            stop = start + len(mask.numbers)
            channel = mask.linear(channel.at_stage(stage), numbers[:, start:stop])
            start = stop
        return channel

    def back(self, observed: Observed) -> Observed:
        for mask in reversed(self.masks):
            observed = mask.back(observed)
        return observed


class Family(NamedTuple):
    """Masks that differ in their numbers only: where they stand in a list, and one row of numbers each."""

    positions: list[int]
    numbers: Array


class Batch(tuple[Mask, ...]):
    """Masks that are evaluated together. Their families are found once, whoever asks."""

    @classmethod
    def of(cls, masks: Iterable[Mask]) -> Batch:
        return masks if isinstance(masks, Batch) else cls(masks)

    @cached_property
    def families(self) -> list[Family]:
        """The masks by family, in the order in which families first appear."""
        found: dict[Hashable, tuple[list[int], list[tuple[float, ...]]]] = {}
        last: Hashable = None
        positions: list[int] = []
        rows: list[tuple[float, ...]] = []
        for i, mask in enumerate(self):
            family = mask.family
            # Neighbours in a grid are of one family: comparing is cheaper than hashing.
            if family != last or i == 0:
                positions, rows = found.setdefault(family, ([], []))
                last = family
            positions.append(i)
            rows.append(mask.numbers)
        return [Family(p, np.array(r, dtype=np.float64).reshape(len(p), -1)) for p, r in found.values()]

    def duplicate(self) -> tuple[int, int] | None:
        """Positions of two masks that are the same release, or None."""
        for family in self.families:
            if len(family.positions) > 1:
                first, count = np.array([0]), np.array([len(family.positions)])
                if width := family.numbers.shape[1]:
                    # Rows of several numbers are sorted as records, which is slow; one column need not be.
                    axis = 0 if width > 1 else None
                    _, first, count = np.unique(family.numbers, axis=axis, return_index=True, return_counts=True)
                if np.any(count > 1):
                    twin = int(first[np.argmax(count > 1)])
                    later = range(twin + 1, len(family.positions))
                    again = next(j for j in later if np.array_equal(family.numbers[j], family.numbers[twin]))
                    return family.positions[twin], family.positions[again]
        return None


def check_mask(name: str, value: Any) -> Mask:
    """Return ``value`` if it is a mask."""
    if not isinstance(value, Mask):
        raise InputError(f"{name} must be a mask", kind_of(value), "Write ruv.Noise(variance=2), for example")
    return value


def show_number(value: Any) -> str:
    """Show a setting the way a person would write it: 2.08, not 2.0800000000000001."""
    if isinstance(value, (bool, np.bool_)) or value is None or isinstance(value, str):
        return repr(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, np.timedelta64):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.10g}"
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        if len(value) > 12:
            return f"[{', '.join(show_number(v) for v in value[:3])}, ... {len(value)} entries]"
        return "[" + ", ".join(show_number(v) for v in value) + "]"
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return repr(value)


@cache
def _defaults(kind: type[Mask]) -> tuple[tuple[str, Any], ...]:
    """Names of a mask's arguments with their defaults; a map of many masks asks once for each kind."""
    return tuple((field.name, field.default) for field in dataclasses.fields(kind))


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, np.ndarray) or isinstance(default, np.ndarray):
        return False
    return type(value) is type(default) and bool(value == default)


def _freeze(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, np.asarray(value).tobytes())
    if isinstance(value, (list, tuple)):
        return tuple(_freeze(v) for v in value)
    if isinstance(value, dict):
        # Mappings are equal in whatever order they were written.
        return frozenset((k, _freeze(v)) for k, v in value.items())
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value  # type: ignore[no-any-return]
