"""The law of noise, scaled to mean zero and variance one, and the bounds of what is released."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import as_float_array, check_choice, check_number, check_probabilities
from ..errors import InputError
from ..protocols import Array

__all__ = ["as_bounds", "as_kind", "clip", "draw"]

KINDS = ("normal", "laplace", "t", "mixture")


def draw(
    kind: str, shape: tuple[int, int], rng: np.random.Generator, df: float | None, weights: Any, centres: Any
) -> Array:
    """Independent draws with mean zero and variance one."""
    if kind == "laplace":
        return rng.laplace(scale=np.sqrt(0.5), size=shape)
    if kind == "t":
        assert df is not None
        return rng.standard_t(df, size=shape) * np.sqrt((df - 2.0) / df)
    if kind == "mixture":
        centres, weights = np.asarray(centres), np.asarray(weights)
        component = np.searchsorted(np.cumsum(weights)[:-1], rng.random(shape), side="right")
        return np.asarray(centres[component] + np.sqrt(1.0 - weights @ centres**2) * rng.standard_normal(shape))
    return rng.standard_normal(shape)


def as_kind(kind: str, df: Any, weights: Any, centres: Any) -> tuple[float | None, Any, Any]:
    """Return df, weights and centres as the kind needs them; arguments of other kinds are refused."""
    check_choice("kind", kind, KINDS)
    if kind == "t":
        if df is None:
            raise InputError('Noise(kind="t") needs df', None, "Give degrees of freedom above 2, df=5")
        df = check_number("df", df, low=2, open_low=True)
    elif df is not None:
        raise InputError('df goes with kind="t"', f"kind={kind!r}", "Leave df out")
    if kind != "mixture":
        if weights is not None or centres is not None:
            raise InputError('weights and centres go with kind="mixture"', f"kind={kind!r}", "Leave them out")
        return df, None, None
    if centres is None and weights is None:
        return df, (0.5, 0.5), (-0.9, 0.9)
    if centres is None:
        raise InputError('Noise(kind="mixture") needs the components\' centres', None, "Write centres=[-0.9, 0.9]")
    at = as_float_array("centres", centres)
    if at.ndim != 1 or len(at) == 0 or not np.all(np.isfinite(at)):
        raise InputError("centres must be a list of numbers", centres, "Write centres=[-0.9, 0.9]")
    share = check_probabilities("weights", np.full(len(at), 1.0 / len(at)) if weights is None else weights, len(at))
    if share.ndim != 1:
        raise InputError(
            "weights must be a list of probabilities", f"shape {share.shape}", "Give one weight per component"
        )
    if abs(share @ at) > 1e-9:
        raise InputError(
            "The components' centres must average to zero", float(share @ at), "Shift centres by their weighted mean"
        )
    if share @ at**2 >= 1.0:
        raise InputError(
            "The variance of the components' centres must be below 1",
            float(share @ at**2),
            "Bring the centres nearer to zero; they count standard deviations of the noise",
        )
    return df, tuple(share.tolist()), tuple(at.tolist())


def as_bounds(lower: Any, upper: Any) -> tuple[Any, Any]:
    """Return bounds as numbers or tuples of one number per column."""
    kept: list[Any] = []
    for name, value in (("lower", lower), ("upper", upper)):
        if value is None:
            kept.append(None)
            continue
        array = as_float_array(name, value)
        if array.ndim > 1 or array.size == 0 or np.isnan(array).any():
            raise InputError(f"{name} must be a number or one number per column", value, f"Write {name}=0")
        kept.append(float(array) if array.ndim == 0 else tuple(array.tolist()))
    if lower is not None and upper is not None:
        low, high = np.atleast_1d(kept[0]), np.atleast_1d(kept[1])
        if len(low) != len(high) and 1 not in (len(low), len(high)):
            raise InputError(
                "lower and upper must be for the same columns",
                f"{len(low)} and {len(high)} numbers",
                "Give one number per column",
            )
        if np.any(low >= high):
            raise InputError(
                "lower must lie below upper", {"lower": lower, "upper": upper}, "Swap them, or leave one out"
            )
    return kept[0], kept[1]


def clip(values: Array, lower: Any, upper: Any) -> Array:
    """Set values beyond a bound to it; missing values stay missing."""
    k = values.shape[1]
    for name, value in (("lower", lower), ("upper", upper)):
        if isinstance(value, tuple) and len(value) not in (1, k):
            raise InputError(
                f"{name} must have {k} entries, one per column", len(value), "Give one number, or one per column"
            )
    return np.asarray(np.clip(values, -np.inf if lower is None else lower, np.inf if upper is None else upper))
