"""A function of other targets, exact where it is linear."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag

from ..checks import as_float_array, check_finite, check_text
from ..errors import InputError
from ..numerics.differences import affine_form
from ..protocols import Array
from .base import BaseTarget, apply_over_points, is_target
from .names import Names
from .terms import Files, LinearForm, Term, flatten_points


@dataclass(frozen=True, init=False)
class Functional(BaseTarget):
    """A function of other targets.

    Parameters
    ----------
    function : callable or array
        A callable receives one argument per entry of ``of`` (a number, or an array of length k) and gives
        back a number or a vector. An array is a matrix of coefficients on the stacked entries. LinearForm
        functions are recognised, whichever way they are given, and stay exact.
    of : target or list of targets
        What the function is taken of.
    name : str, optional
        What the function gives, for tables and plots.

    Notes
    -----
    A function that is not linear is averaged over draws, with their error, under a normal belief, and over every file
    under a finite one. Under a PyMC model it is averaged over nodes or draws.

    Examples
    --------
    >>> from ruvdecision.targets import Average, Record
    >>> difference = Functional(lambda a, b: a - b, of=[Record(0), Record(1)])
    >>> ratio = Functional(lambda a, b: a / b, of=[Record(0), Average()], name="share of the mean")
    """

    function: Callable[..., Any] | Any
    parts: tuple[BaseTarget, ...]
    name: str | None = None

    def __init__(
        self,
        function: Callable[..., ArrayLike] | ArrayLike,
        of: BaseTarget | Sequence[BaseTarget],
        name: str | None = None,
    ) -> None:
        parts = tuple(of) if isinstance(of, Sequence) else (of,)
        if not parts or not all(map(is_target, parts)):
            raise InputError("A Functional is taken of targets", of, 'Write of=[Record(0), Parameter("mu")]')
        if not callable(function):
            matrix = check_finite("function", as_float_array("function", function))
            if matrix.ndim > 2 or matrix.size == 0:
                do = "Give one row of coefficients per number that is wanted"
                raise InputError("function must be callable or a matrix of coefficients", f"shape {matrix.shape}", do)
        if name is not None:
            check_text("name", name, "Leave it out, or say what the function gives")
        for key, value in (("function", function), ("parts", parts), ("name", name)):
            object.__setattr__(self, key, value)

    def in_files(self, files: Files) -> Array:
        values = [part.in_files(files) for part in self.parts]
        stacked = np.concatenate([flatten_points(v) for v in values], axis=1)
        return self._apply_to_stacked(
            stacked, [flatten_points(v).shape[1] for v in values], [v.ndim == 1 for v in values]
        )

    def _apply_to_stacked(self, stacked: Array, sizes: Sequence[int], numbers: Sequence[bool]) -> Array:
        """Of stacked values ``(points, sum(sizes))``; gives back ``(points, m)`` or ``(points,)``."""
        if not callable(self.function):
            matrix = np.atleast_2d(np.asarray(self.function, dtype=np.float64))
            if matrix.shape[1] != stacked.shape[-1]:
                what = f"The coefficients must have {stacked.shape[-1]} columns"
                raise InputError(what, f"shape {matrix.shape}", "Give one coefficient per entry of the targets")
            result = stacked @ matrix.T
            return result[..., 0] if np.ndim(self.function) == 1 else result
        edges = np.cumsum([0, *sizes])
        spans = zip(edges[:-1], edges[1:], numbers, strict=True)
        arguments = [stacked[:, a] if number else stacked[:, a:b] for a, b, number in spans]

        def function(*values: Array) -> Array:
            return np.asarray(self.function(*values), dtype=np.float64)

        return apply_over_points(function, arguments, ", ".join(p.describe() for p in self.parts))

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple(term for part in self.parts for term in part.terms)

    def with_rows_moved(self, place: Callable[[int], int]) -> Functional:
        return Functional(self.function, [part.with_rows_moved(place) for part in self.parts], self.name)

    @property
    def has_names(self) -> bool:
        return any(part.has_names for part in self.parts)

    def with_positions(self, names: Names) -> Functional:
        return Functional(self.function, [part.with_positions(names) for part in self.parts], self.name)

    def rows_in(self, n: int) -> NDArray[np.int64]:
        found = [part.rows_in(n) for part in self.parts]
        return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *found]))

    def linear(self, k: int, number: bool = False, widths: Mapping[str, int] | None = None) -> LinearForm | None:
        inner = [part.linear(k, number, widths) for part in self.parts]
        forms = [form for form in inner if form is not None]
        if len(forms) < len(inner):
            return None
        sizes, numbers = [len(f.constant) for f in forms], [f.number for f in forms]
        found = affine_form(lambda points: self._apply_to_stacked(points, sizes, numbers), sum(sizes))
        if found is None:
            return None
        matrix, constant, single = found
        if any(not np.array_equal(f.matrix, np.eye(len(f.matrix))) or f.constant.any() for f in forms):
            constant = constant + matrix @ np.concatenate([f.constant for f in forms])
            matrix = matrix @ block_diag(*(f.matrix for f in forms))
        return LinearForm(tuple(t for f in forms for t in f.terms), matrix, constant, single)

    def __repr__(self) -> str:
        return f"Functional(function={self.function!r}, of={self.parts!r}, name={self.name!r})"

    def describe(self) -> str:
        return self.name or f"a function of {', '.join(p.describe() for p in self.parts)}"
