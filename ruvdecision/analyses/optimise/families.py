"""Families of masks: their parameters, where each may lie, and which values are a list rather than a range."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...checks import check_number
from ...errors import InputError
from ...masks.base import Mask
from ...protocols import Array

__all__ = ["Family", "as_families", "inwards", "outwards", "spaced"]

GRID = 121
DO = "Write lambda variance: ruv.Noise(variance=variance)"


@dataclass(frozen=True)
class Family:
    """A function that gives a mask, the continuous parameters with their ranges, and those that are fixed."""

    name: str
    make: Callable[..., Mask]
    names: tuple[str, ...]
    box: tuple[tuple[float, float], ...]
    fixed: Mapping[str, Any]

    def mask(self, values: Sequence[float]) -> Mask:
        """The mask with these parameter values."""
        try:
            mask = self.make(**dict(zip(self.names, map(float, values), strict=True)), **self.fixed)
        except InputError as error:
            endless = [n for n, v in zip(self.names, values, strict=True) if np.isinf(v)]
            if not endless:
                raise
            raise InputError(
                error.what, error.got, f"Give {endless[0]} a finite upper bound: bounds={{{endless[0]!r}: (0, 1)}}"
            ) from None
        if not isinstance(mask, Mask):
            raise InputError("family must give back a mask", mask, DO)
        return mask


def as_families(family: Any, bounds: Any) -> tuple[dict[str, list[Family]], bool]:
    """Families by name, one per combination of listed values, and whether several were given."""
    several = isinstance(family, (Mapping, list, tuple))
    if isinstance(family, Mapping):
        given = {str(k): v for k, v in family.items()}
    elif several:
        given = {}
        for i, item in enumerate(family):
            own = str(item) if isinstance(item, Mask) else getattr(item, "__name__", "<lambda>")
            given[own if own != "<lambda>" and own not in given else f"family {i + 1}"] = item
    else:
        given = {"the family": family}
    if not given:
        raise InputError("There is no family to search", "none", DO)
    apart = dict(bounds or {}) if bounds is None or isinstance(bounds, Mapping) else None
    if apart is None:
        raise InputError("bounds must say where each parameter may lie", bounds, 'Write bounds={"variance": (0, 10)}')
    by_family = several and apart and all(k in given and isinstance(v, Mapping) for k, v in apart.items())
    known: set[str] = set()
    found = {}
    for name, item in given.items():
        if isinstance(item, Mask):
            found[name] = [Family(name, lambda item=item: item, (), (), {})]
            continue
        if not callable(item):
            raise InputError("family must be callable", item, DO)
        try:
            takes = inspect.signature(item).parameters
        except (TypeError, ValueError):  # something built in
            raise InputError("family must be a function of named parameters", item, DO) from None
        own = apart.get(name, {}) if by_family else apart
        known |= set(takes)
        if several and not by_family:
            own = {k: v for k, v in own.items() if k in takes}
        found[name] = _expand(name, item, own)
    lost = [k for k in apart if k not in known] if several and not by_family else []
    if lost:
        raise InputError(
            "bounds names a parameter that no family has", lost, f"They have {', '.join(sorted(known)) or 'none'}"
        )
    return found, several


def _expand(name: str, make: Any, bounds: Mapping[str, Any]) -> list[Family]:
    signature = inspect.signature(make)
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = [n for n, p in signature.parameters.items() if p.kind in plain and p.default is p.empty]
    names += [n for n in bounds if n in signature.parameters and n not in names]
    unknown = [n for n in bounds if n not in names]
    if unknown:
        raise InputError(
            "bounds names a parameter that the family does not have",
            unknown,
            f"Its parameters are {', '.join(names) or 'none'}",
        )
    if not names:
        raise InputError("family must have at least one parameter", str(signature), DO)
    listed = {n: _choices(n, bounds[n]) for n in names if n in bounds and _is_list(bounds[n])}
    free = [n for n in names if n not in listed]
    box = tuple(_range(n, bounds.get(n, (0.0, np.inf))) for n in free)
    combinations = itertools.product(*listed.values())
    return [Family(name, make, tuple(free), box, dict(zip(listed, values, strict=True))) for values in combinations]


def _is_list(given: Any) -> bool:
    """A pair of numbers is a range; a range object, a set, text or any other length is a list of values."""
    if isinstance(given, (range, set, frozenset, np.ndarray)):
        return True
    if not isinstance(given, (tuple, list)):
        return False
    return len(given) > 2 or any(isinstance(v, (str, bool)) for v in given)


def _choices(name: str, given: Any) -> list[Any]:
    values = sorted(given, key=lambda v: (str(type(v)), v)) if isinstance(given, (set, frozenset)) else list(given)
    if not values:
        raise InputError(f"bounds[{name!r}] lists no value", given, "Write a range, (low, high), or values, {2, 3, 5}")
    return [v.item() if isinstance(v, np.generic) else v for v in values]


def _range(name: str, pair: Any) -> tuple[float, float]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise InputError(f"bounds[{name!r}] must be a pair", pair, "Write (low, high)")
    low = check_number(f"lower bound of {name}", pair[0])
    high = check_number(f"upper bound of {name}", pair[1], infinite=True)
    if not low < high:
        raise InputError(f"The bounds of {name} must rise", pair, "Give low < high")
    return low, high


# -- coordinates -------------------------------------------------------------------------------------


def spaced(low: float, high: float) -> Array:
    """A grid that sees every scale: both ends, and in between geometric steps from the lower end."""
    if np.isfinite(high):
        return np.unique(
            np.concatenate([np.linspace(low, high, GRID), low + (high - low) * np.geomspace(1e-9, 1, GRID // 3)])
        )
    return np.concatenate([[low], low + np.geomspace(1e-8, 1e12, 2 * GRID), [np.inf]])


def outwards(t: Any, box: Sequence[tuple[float, float]], scales: Sequence[float]) -> list[float]:
    """From the unit box to parameter values: zero and one are the bounds, also infinite ones, one half is ``low + scale``."""
    out = []
    for x, (low, high), scale in zip(t, box, scales, strict=True):
        if np.isfinite(high):
            curve = (high - low) / scale - 1
            out.append(high if x >= 1 else low + (high - low) * x / (x + curve * (1 - x)))
        else:
            out.append(np.inf if x >= 1 else low + scale * x / (1 - x))
    return out


def inwards(values: Any, box: Sequence[tuple[float, float]], scales: Sequence[float]) -> Array:
    """From parameter values to the unit box."""
    out = []
    for v, (low, high), scale in zip(values, box, scales, strict=True):
        if np.isfinite(high):
            curve, share = (high - low) / scale - 1, (v - low) / (high - low)
            out.append(curve * share / (1 - share + curve * share))
        else:
            out.append(1.0 if np.isinf(v) else (v - low) / (scale + v - low))
    return np.array(out)
