"""Arguments that every posterior takes: levels, widths, weights, functions to average."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..checks import as_float_array, check_number
from ..errors import InputError
from ..protocols import Array


def check_level(name: str, q: ArrayLike) -> float:
    """Return a probability between 0 and 1, both included."""
    return check_number(name, q, low=0.0, high=1.0)


def check_width(width: ArrayLike, event: tuple[int, ...]) -> Array:
    """Return half-widths that are not negative, one for all components or one each."""
    array = as_float_array("width", width)
    if not (array >= 0).all() or np.isinf(array).any():
        raise InputError(
            "width must be a finite number that is not negative", width, "Give the half-width of the window"
        )
    if array.ndim and array.shape != event:
        raise InputError(
            f"width must be one number or have shape {event}",
            f"shape {array.shape}",
            "Give one half-width per component",
        )
    return array


def as_weight_matrix(weights: ArrayLike, event: tuple[int, ...]) -> Array:
    """Return a weight, a vector or a matrix of weights as a matrix for targets of this shape."""
    array = as_float_array("weights", weights)
    k = event[0] if event else 1
    if array.ndim == 0:
        return np.asarray(array * np.eye(k))
    if array.shape not in ((k,), (k, k)):
        raise InputError(
            f"weights must fit a target of {k} component{'s' if k > 1 else ''}",
            f"shape {array.shape}",
            "Give one number, one weight per component, or a square matrix",
        )
    return np.diag(array) if array.ndim == 1 else array


def trace_product(weights: Array, cov: Array) -> Array:
    """trace(W V), where a zero weight on an infinite variance counts as nothing."""
    infinite = np.isinf(cov)
    if not infinite.any():
        return np.asarray(np.einsum("ij,...ij->...", weights, cov))
    finite = np.einsum("ij,...ij->...", weights, np.where(infinite, 0.0, cov))
    return np.where(np.any(infinite & (weights != 0), axis=(-2, -1)), np.inf, finite)


def deeper(index: Any) -> tuple[Any, ...]:
    """An index of a batch, for arrays that have one more axis behind the batch."""
    index = index if isinstance(index, tuple) else (index,)
    return (*index, slice(None)) if any(i is Ellipsis for i in index) else index


def shaped(value: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return what a function gave back as an array of this shape, if it can be one."""
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape:
        try:
            array = np.broadcast_to(array, shape)
        except ValueError:
            raise InputError(
                f"The function must give back shape {shape}",
                f"shape {array.shape}",
                "Let it work on whole arrays, with the points along the first axis",
            ) from None
    return array
