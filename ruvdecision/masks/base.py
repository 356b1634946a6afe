"""What every mask shares: releasing data of any kind, composing with ``|`` and ``&``, and saying its parameters.

A mask only masks. It gives back data, never a risk. To add one, write a frozen dataclass that derives
from `Mask` and says its `steps`: every engine that can take the steps takes the mask, in chains too. A mask
whose law is not known says how to `apply` it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, NamedTuple, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from ..channels.steps import Copy, FileFacts, Opaque, OwnLaw, Resolved, Step, facts_after, resolve
from ..checks import RELEASES, Seed, WithSettings, as_generator, as_tuple, show_setting
from ..errors import InputError, UnsupportedError, kind_of
from ..protocols import Array
from .applying import apply_step, frame_facts
from .frame import Frame, files_of, for_each_file

Ints = NDArray[np.int64]
Data = TypeVar("Data")
"""A DataFrame or a Series: what a mask is given and gives back."""


@dataclasses.dataclass(frozen=True, repr=False)
class Mask(WithSettings):
    """Base of all masks.

    Class attributes
    ----------------
    opaque : str
        Why the law of the release is not known, for masks without `steps`.
    """

    opaque: ClassVar[str] = "it does not say how likely a released value is"
    # What a mask of your own may say of its law itself, see `steps`.
    linear = partition = log_likelihood = likelihood_support = cast("Any", None)

    # -- releasing -----------------------------------------------------------------------------------

    @overload
    def release(self, data: NDArray[Any] | list[Any] | tuple[Any, ...], rng: Seed = None) -> NDArray[Any]: ...
    @overload
    def release(self, data: Data, rng: Seed = None) -> Data: ...
    def release(self, data: Any, rng: Seed = None) -> Any:
        """Mask ``data`` (DataFrame, Series, one- or two-dimensional array) and give back the same kind.

        Index and columns are kept; the input is never changed. ``rng`` is an int, a SeedSequence or a
        numpy Generator. Give none for a file that leaves the agency: what was drawn from a known seed can be drawn
        again and taken off.
        """
        return for_each_file(lambda frame: frame.unwrap(), self.apply(Frame.of(data), as_generator(rng, RELEASES)))

    def apply(self, frame: Frame, rng: np.random.Generator) -> Any:
        """Mask a `Frame`: step by step, unless a mask has a way of its own. Several releases are a tuple."""
        return self._step_by_step(frame, rng)[0]

    def apply_tracking_rows(self, frame: Frame, rng: np.random.Generator) -> tuple[Frame, Ints]:
        """What `apply` gives, and which row of the file stands in each row of it."""
        if type(self).apply is not Mask.apply:
            return self.apply(frame, rng), np.arange(frame.n)
        return self._step_by_step(frame, rng)

    def _step_by_step(self, frame: Frame, rng: np.random.Generator) -> tuple[Frame, Ints]:
        rows = np.arange(frame.n)
        for step in self.steps(frame_facts(frame), np.array([self.numbers], dtype=np.float64)):
            if isinstance(step, (Opaque, OwnLaw)):
                raise NotImplementedError(f"{type(self).__name__} must define apply(frame, rng)")
            frame, order = apply_step(step, frame, rng, self.technique)
            rows = rows if order is None else rows[order]
        return frame, rows

    def follow(self, frame: Frame, before: Frame, rng: np.random.Generator) -> Frame:
        """Mask a `Frame` as a step of a chain; ``before`` is the file before the previous step.

        Only a mask that looks at what the previous step did needs to define it.
        """
        return self.apply(frame, rng)

    def resized(self, variance: float, scale: float) -> Mask:
        """The same mask with noise of this average variance where its size can be kept secret, else the mask itself.

        ``scale`` is the variance of a record, for noise that is a share of it.
        """
        return self

    def publish(self, table: Any) -> Any:
        """What goes out of a table of counts; only masks of tables define it, see `ruvdecision.masks.cells.publish`."""
        raise UnsupportedError(
            f"{self} does not suppress cells of a table", do="With a TableBelief use SuppressCells, Suppress or Release"
        )

    def __or__(self, other: Mask) -> Mask:
        _only_masks("Only masks compose with |", [other], "Write Noise(variance=2) | Microaggregate(groups=1)")
        *before, last = self.parts
        if last.separate_releases:
            # Each of several releases goes through what follows, by itself.
            both = Joint(tuple(mask | other for mask in last.separate_releases))
            return Chain((*before, both)) if before else both
        return Chain(self.parts + other.parts)

    def __and__(self, other: Mask) -> Joint:
        _only_masks("Only masks compose with &", [other], "Write Noise(variance=2) & Round(base=5)")
        return Joint((self, other))

    def refines(self, other: Mask, belief: Any = None, *, records: int | None = None, columns: int = 1) -> bool:
        """Whether this release tells all that the other one does; see `ruvdecision.analyses.blackwell.refines`."""
        from ..analyses.blackwell import refines

        return refines(self, other, belief, records=records, columns=columns)

    # -- describing ----------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[Mask, ...]:
        """The masks that are applied one after the other."""
        return (self,)

    @property
    def separate_releases(self) -> tuple[Mask, ...]:
        """The masks of several releases that are made side by side; none if there is one release."""
        return ()

    @property
    def file_count(self) -> int:
        """How many files are released."""
        return sum(mask.file_count for mask in self.separate_releases) or 1

    @property
    def leaves(self) -> tuple[Mask, ...]:
        """The masks that this one is put together of, by whatever sign."""
        return (self,)

    def of_leaves(self, leaves: Iterator[Mask]) -> Mask:
        """The same put together of others."""
        return next(leaves)

    by_label: ClassVar[bool] = False
    """Whether it names rows by their labels, and `with_rows_by_position` must find them first."""

    def with_rows_by_position(self, place: Callable[[Hashable], int]) -> Mask:
        """The same mask of rows by position."""
        return self

    @property
    def public_mask(self) -> Mask | None:
        """What else is released, by a mask that is no secret; only engines put such releases together."""
        return None

    @property
    def technique(self) -> str:
        """Name of the technique without its parameters, ``'Noise | Microaggregate'``."""
        return type(self).__name__

    def parameters(self) -> dict[str, Any]:
        """The settings as columns of a map's table: numbers stay numbers, the rest becomes text."""
        plain = (int, float, str)
        return {
            k: v if isinstance(v, plain) and not isinstance(v, bool) else show_setting(v)
            for k, v in self.settings().items()
        }

    # -- law --------------------------------------------------------------------------------

    @cached_property
    def family(self) -> Hashable:
        """Masks of one family differ in `numbers` only, and are evaluated together in one vectorised go."""
        return (type(self), *(_as_hashable(getattr(self, f.name)) for f in dataclasses.fields(self)))

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers in which members of a family differ."""
        return ()

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        """The elementary steps of this mask, its law: see `ruvdecision.channels.steps`.

        ``about`` is what is known of the file beforehand, ``numbers`` has one row of `numbers` per member of the
        family. A mask of your own may say its law itself instead: by ``linear(channel, numbers)`` (and ``partition(n)``
        where rows differ), which sends a linear-Gaussian channel through the mask, or by ``log_likelihood(released, x,
        math)``, which gives back log p(released | x) entry by entry: ``released`` holds a column's n released values,
        ``x`` has shape (..., n), and ``math`` has exp, log, where and their like, for numpy and PyTensor alike. It may
        ask for ``column`` too, the column's name. With ``likelihood_support(released)`` it may say between which (low,
        high) x must lie.
        """
        if self.linear is not None or self.log_likelihood is not None:
            rows = None if self.partition is None else self.partition(about.n)
            return [OwnLaw(columns=about.positions(None), rows=rows, mask=self, numbers=numbers)]
        return [Opaque(why=self.opaque)]

    def resolved(self, about: FileFacts, numbers: Array) -> list[Resolved]:
        """The steps, each with its mask and what is known of the file before it."""
        found: list[Resolved] = []
        for step in self.steps(about, numbers):
            about = facts_after(found, about)
            found.append(Resolved(step, self, about))
        return found


@dataclasses.dataclass(frozen=True, repr=False)
class Several(Mask):
    """Masks put together: what chains and joint releases share."""

    masks: tuple[Mask, ...]
    sign: ClassVar[str]

    def __iter__(self) -> Iterator[Mask]:
        return iter(self.masks)

    @property
    def technique(self) -> str:
        return f" {self.sign} ".join(self._in_brackets(m, m.technique) for m in self.masks)

    def settings(self) -> dict[str, Any]:
        return {"masks": self.masks}

    def parameters(self) -> dict[str, Any]:
        """Parameters of every mask; a name that comes again gets a number, ``variance_2``."""
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
        return f" {self.sign} ".join(self._in_brackets(m, repr(m)) for m in self.masks)

    @property
    def leaves(self) -> tuple[Mask, ...]:
        return tuple(chain.from_iterable(m.leaves for m in self.masks))

    def of_leaves(self, leaves: Iterator[Mask]) -> Mask:
        return dataclasses.replace(self, masks=tuple(m.of_leaves(leaves) for m in self.masks))

    def _in_brackets(self, mask: Mask, text: str) -> str:
        """A mask inside the others: what is put together by another sign stands in brackets."""
        return f"({text})" if isinstance(mask, Several) else text

    @property
    def family(self) -> Hashable:  # type: ignore[override]
        found = self.__dict__.get("_family")
        if found is None:
            found = self.__dict__["_family"] = (type(self), *[m.family for m in self.masks])
        return found

    @property
    def numbers(self) -> tuple[float, ...]:
        found = self.__dict__.get("_numbers")
        if found is None:
            found = self.__dict__["_numbers"] = tuple(chain.from_iterable([m.numbers for m in self.masks]))
        return found


@dataclasses.dataclass(frozen=True, repr=False)
class Chain(Several):
    """Masks applied one after the other, left to right; made by ``|``."""

    sign = "|"

    def __post_init__(self) -> None:
        steps: list[Mask] = []
        for mask in _only_masks("A chain needs masks", as_tuple(self.masks), "Write mask_a | mask_b"):
            if steps and steps[-1].separate_releases:
                raise InputError("Several releases can only end a chain", mask, "Write (a & b) | c, which masks each")
            steps += mask.parts
        if not steps:
            raise InputError("A chain needs masks", "none", "Write mask_a | mask_b")
        object.__setattr__(self, "masks", tuple(steps))

    @property
    def parts(self) -> tuple[Mask, ...]:
        return self.masks

    @property
    def separate_releases(self) -> tuple[Mask, ...]:
        return self.masks[-1].separate_releases

    def apply(self, frame: Frame, rng: np.random.Generator) -> Any:
        return self.apply_tracking_rows(frame, rng)[0]

    def apply_tracking_rows(self, frame: Frame, rng: np.random.Generator) -> tuple[Frame, Ints]:
        # Each mask has its own stream, so that masks later in the chain do not shift those before them.
        before, rows = frame, np.arange(frame.n)
        for i, (mask, stream) in enumerate(zip(self.masks, rng.spawn(len(self.masks)), strict=True)):
            if i and type(mask).follow is not Mask.follow:
                before, frame = frame, mask.follow(frame, before, stream)
            else:
                after, order = mask.apply_tracking_rows(frame, stream)
                before, frame, rows = frame, after, rows[order]
        return frame, rows


@dataclasses.dataclass(frozen=True, repr=False)
class Joint(Several):
    """Several releases of the same records, each by its own mask and independent given the records; made by ``&``.

    ``release`` gives a tuple with one file per mask, in their order, each drawn from a stream of its own. After a chain
    all start from what the chain gives, ``Round(base=5) | (Noise(sd=1) & Noise(sd=2))``; before a mask each is masked
    by itself: ``(a & b) | c`` is ``(a | c) & (b | c)``.

    >>> from ruvdecision.masks import Noise, Round
    >>> both = Noise(sd=0.1) & Round(base=5)
    >>> both
    Noise(sd=0.1) & Round(base=5)
    >>> noisy, rounded = both.release([1.0, 8.0], 1)
    >>> rounded
    array([ 0., 10.])
    """

    sign = "&"

    def __post_init__(self) -> None:
        found: list[Mask] = []
        for mask in _only_masks("Joint releases need masks", as_tuple(self.masks), "Write mask_a & mask_b"):
            found += mask.masks if isinstance(mask, Joint) else (mask,)
        if len(found) < 2:
            raise InputError("Joint releases need at least two masks", len(found), "Write mask_a & mask_b")
        object.__setattr__(self, "masks", tuple(found))

    @property
    def separate_releases(self) -> tuple[Mask, ...]:
        return self.masks

    def apply(self, frame: Frame, rng: np.random.Generator) -> tuple[Frame, ...]:
        """One file per release; those of a mask that makes several stand in its place."""
        found = [mask.apply(frame, stream) for mask, stream in zip(self.masks, rng.spawn(len(self.masks)), strict=True)]
        return tuple(chain.from_iterable(map(files_of, found)))

    def apply_tracking_rows(self, frame: Frame, rng: np.random.Generator) -> tuple[Any, Ints]:
        return self.apply(frame, rng), np.arange(frame.n)

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        return [found.step for found in self.resolved(about, numbers)]

    def resolved(self, about: FileFacts, numbers: Array) -> list[Resolved]:
        """A copy of the columns for each release, and the steps of each on its own copy."""
        found = [Resolved(Copy(columns=about.positions(None), times=len(self.masks)), self, about)]
        start = first = 0
        for mask in self.masks:
            stop = start + len(mask.numbers)
            inner = resolve(mask, about, numbers[:, start:stop])
            found += [Resolved(f.step.on_copy(first, about.k), f.mask, f.about) for f in inner]
            start, first = stop, first + about.k + sum(f.step.added_columns for f in inner)
        return found

    def publish(self, table: Any) -> Any:
        """Cells and margins that any of the masks publishes."""
        from .cells import published_together

        return published_together(self.masks, table)


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
    return _only_masks(f"{name} must be a mask", [value], "Write ruv.Noise(variance=2), for example")[0]


def _only_masks(what: str, values: Sequence[Any], do: str) -> Sequence[Mask]:
    """The values, if all of them are masks."""
    strange = [value for value in values if not isinstance(value, Mask)]
    if strange:
        raise InputError(what, kind_of(strange[0]), do)
    return values


def _as_hashable(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, np.asarray(value).tobytes())
    if isinstance(value, (list, tuple)):
        return tuple(_as_hashable(v) for v in value)
    if isinstance(value, dict):
        # Mappings are equal in whatever order they were written.
        return frozenset((k, _as_hashable(v)) for k, v in value.items())
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value  # type: ignore[no-any-return]
