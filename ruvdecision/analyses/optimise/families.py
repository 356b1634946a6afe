"""Families of masks: their parameters, where each may lie, and which values are a list rather than a range."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ...checks import as_python_value, as_tuple, check_kind, check_number, is_single, name_of
from ...errors import InputError
from ...masks.base import Mask
from ...protocols import Array

GRID = 121
EVERYWHERE = (0.0, np.inf)
"""Where a parameter lies unless its family says otherwise."""
DO = "Write lambda variance: ruv.Noise(variance=variance)"
Bounds = tuple[float, float] | Iterable[object]
"""Where a parameter may lie: a range (low, high), or a list of its values."""


class MaskFamily:
    """Masks that differ in the values of some parameters.

    Parameters
    ----------
    make : callable
        Gives a mask for parameter values: ``lambda variance: ruv.Noise(variance=variance) | average``.
    **bounds
        Range of each parameter, ``variance=(0.1, 10)``; (0, inf) where not given. The upper bound may be infinite, and
        the mask must then accept it: infinite noise is suppression. A ``range``, a set or a list of three or more lists
        the values that a parameter may take (whole numbers, names); every combination is searched.

    Examples
    --------
    >>> from ruvdecision.masks import Noise
    >>> [part.names for part in MaskFamily(lambda variance: Noise(variance=variance), variance=(0, 10)).parts("noise")]
    [('variance',)]
    """

    def __init__(self, make: Callable[..., Mask], /, **bounds: Bounds) -> None:
        if not callable(make):
            raise InputError("family must be callable", make, DO)
        try:
            signature = inspect.signature(make)
        except (TypeError, ValueError):  # something built in
            raise InputError("family must be a function of named parameters", make, DO) from None
        plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        names = [n for n, p in signature.parameters.items() if p.kind in plain and p.default is p.empty]
        names += [n for n in bounds if n in signature.parameters and n not in names]
        unknown = [n for n in bounds if n not in names]
        if unknown:
            what = "bounds names a parameter that the family does not have"
            raise InputError(what, unknown, f"Its parameters are {', '.join(names) or 'none'}")
        if not names:
            raise InputError("family must have at least one parameter", str(signature), DO)
        self.make = make
        self.listed = {n: values for n in names if (values := _listed_values(n, bounds.get(n, EVERYWHERE))) is not None}
        self.box = {n: _parameter_range(n, bounds.get(n, EVERYWHERE)) for n in names if n not in self.listed}

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={values}" for name, values in (self.box | self.listed).items())
        return f"MaskFamily({name_of(self.make) or '<lambda>'}, {bounds})"

    def parts(self, name: str) -> list[FamilyPart]:
        """One part of the family per combination of listed values; in each, all other parameters are continuous."""
        combinations = itertools.product(*self.listed.values())
        fixed = [dict(zip(self.listed, values, strict=True)) for values in combinations]
        return [FamilyPart(name, self.make, tuple(self.box), tuple(self.box.values()), values) for values in fixed]


FamilyLike = Mask | MaskFamily | Callable[..., Mask]


@dataclass(frozen=True)
class FamilyPart:
    """A function that gives a mask, the continuous parameters with their ranges, and those that are fixed."""

    name: str
    make: Callable[..., Mask]
    names: tuple[str, ...] = ()
    box: tuple[tuple[float, float], ...] = ()
    fixed: Mapping[str, object] | None = None

    @property
    def lowest(self) -> Mask:
        """The mask with every parameter at its lower bound."""
        return self.mask([low for low, _ in self.box])

    def mask(self, values: Sequence[float] | Array) -> Mask:
        """The mask with these parameter values."""
        try:
            mask = self.make(**dict(zip(self.names, map(float, values), strict=True)), **(self.fixed or {}))
        except InputError as error:
            endless = [n for n, v in zip(self.names, values, strict=True) if np.isinf(v)]
            if not endless:
                raise
            do = f"Give {endless[0]} a finite upper bound: MaskFamily(..., {endless[0]}=(0, 1))"
            raise InputError(error.what, error.got, do) from None
        return check_kind("What family gives back", mask, Mask, DO)


def as_families(
    family: FamilyLike | Mapping[str, FamilyLike] | Sequence[FamilyLike],
) -> tuple[dict[str, list[FamilyPart]], bool]:
    """Families by name, one part per combination of listed values, and whether several were given."""
    if is_single(family):
        return {"the family": _named_parts(cast("FamilyLike", family))[1]("the family")}, False
    given: dict[str, Callable[[str], list[FamilyPart]]] = {}
    if isinstance(family, Mapping):
        given = {str(name): _named_parts(item)[1] for name, item in family.items()}
    else:
        for i, item in enumerate(cast("Sequence[FamilyLike]", family)):
            own, parts = _named_parts(item)
            given[own if own and own not in given else f"family {i + 1}"] = parts
    if not given:
        raise InputError("There is no family to search", "none", DO)
    return {name: parts(name) for name, parts in given.items()}, True


def _named_parts(item: FamilyLike) -> tuple[str, Callable[[str], list[FamilyPart]]]:
    """What a family calls itself, and its parts under the name that it gets; a mask is a family of one."""
    if isinstance(item, Mask):
        return str(item), lambda name: [FamilyPart(name, lambda: item)]
    family = item if isinstance(item, MaskFamily) else MaskFamily(item)
    return name_of(family.make), family.parts


def _listed_values(name: str, given: Bounds) -> list[object] | None:
    """The values that a parameter may take, if they are listed; a pair of numbers is a range, which lists none."""
    if isinstance(given, (tuple, list)):
        if len(given) <= 2 and not any(isinstance(v, (str, bool)) for v in given):
            return None
    elif not isinstance(given, (range, set, frozenset, np.ndarray)) or is_single(given):
        return None
    values = sorted(given, key=lambda v: (str(type(v)), v)) if isinstance(given, (set, frozenset)) else list(given)
    if not values:
        raise InputError(f"{name} lists no value", given, "Write a range, (low, high), or values, {2, 3, 5}")
    return [as_python_value(v) for v in values]


def _parameter_range(name: str, pair: object) -> tuple[float, float]:
    ends = as_tuple(pair)
    if len(ends) != 2:
        raise InputError(f"The bounds of {name} must be a pair", pair, f"Write {name}=(low, high)")
    low = check_number(f"lower bound of {name}", ends[0])
    high = check_number(f"upper bound of {name}", ends[1], infinite=True)
    if not low < high:
        raise InputError(f"The bounds of {name} must rise", pair, "Give low < high")
    return low, high


# -- coordinates -------------------------------------------------------------------------------------


def search_grid(low: float, high: float) -> Array:
    """A grid that covers every scale: both ends, and in between geometric steps from the lower end."""
    if np.isfinite(high):
        near = low + (high - low) * np.geomspace(1e-9, 1, GRID // 3)
        return np.unique(np.concatenate([np.linspace(low, high, GRID), near]))
    return np.concatenate([[low], low + np.geomspace(1e-8, 1e12, GRID), [np.inf]])


class UnitBox:
    """Parameters as coordinates: zero and one are the bounds, also infinite ones, and one half is low + scale."""

    def __init__(self, box: Sequence[tuple[float, float]], scales: Sequence[float]) -> None:
        self.low, self.high = np.array(box, dtype=float).reshape(-1, 2).T
        self.scale = np.array(scales, dtype=float)
        self.finite: NDArray[np.bool_] = np.isfinite(self.high)
        self.width = np.where(self.finite, self.high - self.low, 1.0)
        self.curve = self.width / self.scale - 1

    def values(self, t: Array) -> Array:
        """Parameter values at coordinates, (..., parameters)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = self.low + self.width * t / (t + self.curve * (1 - t))
            outside = self.low + self.scale * t / (1 - t)
        return np.where(t >= 1, self.high, np.where(self.finite, inside, outside))

    def coordinates(self, values: Sequence[float] | Array) -> Array:
        """Coordinates of parameter values."""
        v = np.asarray(values, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (v - self.low) / self.width
            inside = self.curve * share / (1 - share + self.curve * share)
            outside = np.where(np.isinf(v), 1.0, (v - self.low) / (self.scale + v - self.low))
        return np.where(self.finite, inside, outside)
