"""What a user wants to know: one record, all records, a parameter, a function of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .checks import as_float_array, check_finite, check_integer
from .errors import InputError
from .protocols import Array

__all__ = ["Average", "Functional", "NewRecord", "Parameter", "Record", "Records"]


@dataclass(frozen=True)
class Record:
    """The confidential record of one respondent, by its row (counted from 0).

    >>> Record(3)
    Record(3)
    """

    row: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "row", check_integer("row", self.row))

    def __repr__(self) -> str:
        return f"Record({self.row})"

    def describe(self) -> str:
        return f"record {self.row}"


@dataclass(frozen=True)
class Records:
    """All confidential records at once."""

    def describe(self) -> str:
        return "all records"


@dataclass(frozen=True)
class NewRecord:
    """A record of a respondent who is not in the file, drawn from the same population."""

    def describe(self) -> str:
        return "the record of somebody outside the file"


@dataclass(frozen=True)
class Parameter:
    """A parameter of the population model, by name.

    ``component`` picks one entry of a vector parameter.

    >>> Parameter("mu")
    Parameter('mu')
    """

    name: str
    component: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError("A parameter is named by text", self.name, 'Write Parameter("mu")')
        if self.component is not None:
            object.__setattr__(self, "component", check_integer("component", self.component))

    def __repr__(self) -> str:
        return f"Parameter({self.name!r})" if self.component is None else f"Parameter({self.name!r}, component={self.component})"

    def describe(self) -> str:
        return f"the parameter {self.name}" + ("" if self.component is None else f"[{self.component}]")


@dataclass(frozen=True)
class Average:
    """The mean of the confidential records in the file (not of the population)."""

    def describe(self) -> str:
        return "the average of the records in the file"


@dataclass(frozen=True)
class Functional:
    """A function of other targets.

    Parameters
    ----------
    function : callable or array
        A callable receives one argument per entry of ``of`` (a number, or an array of length k) and gives
        back a number or a vector. An array is a matrix of coefficients on the stacked entries. Linear
        functions are recognised, whichever way they are given, and stay exact.
    of : target or list of targets
        What the function is taken of.

    Examples
    --------
    >>> difference = Functional(lambda a, b: a - b, of=[Record(0), Record(1)])
    >>> ratio = Functional(lambda a, b: a / b, of=[Record(0), Average()], name="share of the mean")
    """

    function: Callable[..., Any] | Any
    of: Any
    name: str | None = None
    parts: tuple[Any, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = tuple(self.of) if isinstance(self.of, Sequence) else (self.of,)
        if not parts or not all(hasattr(p, "describe") for p in parts):
            raise InputError("A Functional is taken of targets", self.of, 'Write of=[Record(0), Parameter("mu")]')
        if any(isinstance(p, Functional) for p in parts):
            raise InputError("A Functional of a Functional is not supported", self.of, "Write one function of records and parameters")
        if not callable(self.function):
            check_finite("function", as_float_array("function", self.function))
        object.__setattr__(self, "of", parts)
        object.__setattr__(self, "parts", parts)

    def __call__(self, stacked: Array, sizes: Sequence[int], scalars: Sequence[bool]) -> Array:
        """Apply to stacked values ``(..., sum(sizes))``; gives back ``(..., m)`` or ``(...)``."""
        if not callable(self.function):
            matrix = np.atleast_2d(np.asarray(self.function, dtype=np.float64))
            if matrix.shape[1] != stacked.shape[-1]:
                raise InputError(f"The coefficients must have {stacked.shape[-1]} columns", f"shape {matrix.shape}", "Give one coefficient per entry of the targets")
            result = stacked @ matrix.T
            return result[..., 0] if np.ndim(self.function) == 1 else result
        edges = np.cumsum([0, *sizes])
        flat = stacked.reshape(-1, stacked.shape[-1])
        rows = []
        for point in flat:
            arguments = [
                float(point[a]) if scalar else point[a:b] for a, b, scalar in zip(edges[:-1], edges[1:], scalars, strict=True)
            ]
            rows.append(np.asarray(self.function(*arguments), dtype=np.float64))
        result = np.stack(rows)
        if result.ndim > 2:
            raise InputError("The function must give a number or a vector", f"shape {result.shape[1:]}", "Flatten what it gives back")
        return result.reshape(stacked.shape[:-1] + result.shape[1:])

    def linear(self, sizes: Sequence[int], scalars: Sequence[bool]) -> tuple[Array, Array, bool] | None:
        """Return (matrix, constant, is a number) if the function is affine, else None.

        A callable is probed at the origin, along each axis and at ten random points of three sizes.
        """
        width = int(np.sum(sizes))
        try:
            with np.errstate(all="ignore"):
                constant = self(np.zeros((1, width)), sizes, scalars)[0]
                axes = self(np.eye(width), sizes, scalars)
        except (ZeroDivisionError, FloatingPointError, ValueError, OverflowError):
            return None
        scalar = constant.ndim == 0
        constant = np.atleast_1d(constant)
        matrix = (axes.reshape(width, -1) - constant).T
        if not (np.all(np.isfinite(constant)) and np.all(np.isfinite(matrix))):
            return None
        if callable(self.function):
            rng = np.random.default_rng(0)
            probes = np.concatenate([rng.standard_normal((4, width)) * s for s in (1e-2, 1.0, 1e3)])
            try:
                with np.errstate(all="ignore"):
                    seen = self(probes, sizes, scalars).reshape(len(probes), -1)
            except (ZeroDivisionError, FloatingPointError, ValueError, OverflowError):
                return None
            told = probes @ matrix.T + constant
            room = 1e-9 * (1.0 + np.abs(constant) + np.abs(probes) @ np.abs(matrix).T)
            if not np.all(np.abs(seen - told) <= room):
                return None
        return matrix, constant, scalar

    def describe(self) -> str:
        if self.name:
            return self.name
        of = ", ".join(p.describe() for p in self.parts)
        return f"a function of {of}"
