"""Adding noise to the records."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..channels import LinearChannel
from ..checks import as_float_array, check_columns, check_covariance, check_number
from ..errors import InputError, UnsupportedError
from ..protocols import Array
from .base import Mask
from .frame import Frame

__all__ = ["Noise"]


@dataclass(frozen=True, repr=False)
class Noise(Mask):
    """Add Gaussian noise with mean zero.

    Give exactly one of ``variance``, ``sd``, ``covariance`` and ``share``: the unit is always named.

    Parameters
    ----------
    variance, sd : float or one number per column
        Variance or standard deviation of independent noise. Infinity is allowed: the column then tells
        nothing, which is suppression, and its released entries are missing.
    covariance : matrix
        Covariance of the noise across columns.
    share : float
        The noise has this share of the data's own covariance (Karr et al.: Noise(.16)). With data it is the
        sample covariance (divisor n - 1); in a map without data the belief's covariance of a record stands
        for it.
    common : bool, default False
        One draw for the whole file instead of one per record.
    columns : names or positions, optional
        Columns that get noise; all of them if not given.

    >>> Noise(variance=2.08)
    Noise(variance=2.08)
    """

    variance: Any = None
    sd: Any = None
    covariance: Any = None
    share: float | None = None
    common: bool = False
    columns: Any = None

    def __post_init__(self) -> None:
        variance = self.variance
        if type(variance) is float and 0.0 <= variance and self.sd is None and self.covariance is None and self.share is None:
            if self.columns is None:
                return  # the common case, thousands of times in a grid
        given = [name for name in ("variance", "sd", "covariance", "share") if getattr(self, name) is not None]
        if len(given) != 1:
            raise InputError("Noise needs one of variance, sd, covariance and share", given, "Write Noise(variance=2) or Noise(sd=1.5)")
        name = given[0]
        value = getattr(self, name)
        if name == "covariance":
            matrix = check_covariance(name, value)
            object.__setattr__(self, name, tuple(map(tuple, matrix.tolist())))
        elif name == "share" or np.ndim(value) == 0:
            object.__setattr__(self, name, check_number(name, value, low=0, infinite=name != "share"))
        else:
            array = as_float_array(name, value)
            if array.ndim != 1 or len(array) == 0:
                raise InputError(f"{name} must be a number or one number per column", f"shape {array.shape}", "Use covariance= for a matrix")
            object.__setattr__(self, name, tuple(check_number(f"{name}[{i}]", float(v), low=0, infinite=True) for i, v in enumerate(array)))
        if not isinstance(self.common, (bool, np.bool_)):
            raise InputError("common must be True or False", self.common, "Use common=True for one draw for the whole file")
        if self.columns is not None:
            columns = (self.columns,) if isinstance(self.columns, (str, int, np.integer)) else tuple(self.columns)
            if not columns:
                raise InputError("columns must not be empty", [], "Leave columns out to add noise to all of them")
            object.__setattr__(self, "columns", columns)

    @property
    def unit(self) -> str:
        """Which of variance, sd, covariance and share was given."""
        if self.variance is not None:
            return "variance"
        return "sd" if self.sd is not None else "covariance" if self.covariance is not None else "share"

    def matrix(self, k: int, data_covariance: Array | None = None) -> Array:
        """Covariance of the noise on ``k`` columns."""
        return self._matrices(k, np.array([self.numbers]), data_covariance)[0]

    # -- releasing -----------------------------------------------------------------------------------

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        values, positions = frame.numeric("Noise", self.columns, missing=self.share is None)
        n, k = values.shape
        if self.share is not None and n < 2:
            raise InputError("Noise(share=...) needs at least two records to have a covariance", n, "Use variance= or covariance=")
        sample = np.atleast_2d(np.cov(values, rowvar=False)) if self.share is not None else None
        matrix = self.matrix(k, sample)
        wiped = np.isinf(np.diag(matrix))
        matrix = np.where(wiped[:, None] | wiped[None, :], 0.0, matrix)
        z = rng.standard_normal((1 if self.common else n, k))
        if np.count_nonzero(matrix - np.diag(np.diag(matrix))) == 0:
            noise = z * np.sqrt(np.diag(matrix))
        else:
            # A symmetric root also serves singular covariances.
            eigenvalues, vectors = np.linalg.eigh(matrix)
            noise = z @ ((vectors * np.sqrt(np.clip(eigenvalues, 0.0, None))) @ vectors.T)
        return frame.replace(np.where(wiped, np.nan, values + noise), positions)

    # -- closed forms --------------------------------------------------------------------------------

    @cached_property
    def family(self) -> Hashable:
        if self.variance is not None:
            shape = len(self.variance) if isinstance(self.variance, tuple) else 0
            return (Noise, "variance", shape, self.common, self.columns)
        if self.sd is not None:
            return (Noise, "sd", len(self.sd) if isinstance(self.sd, tuple) else 0, self.common, self.columns)
        if self.covariance is not None:
            return (Noise, "covariance", len(self.covariance), self.common, self.columns)
        return (Noise, "share", 0, self.common, self.columns)

    @property
    def numbers(self) -> tuple[float, ...]:
        for value in (self.variance, self.sd, self.share):
            if value is not None:
                return value if isinstance(value, tuple) else (value,)
        return tuple(x for row in self.covariance for x in row)

    def linear(self, channel: LinearChannel, numbers: Array) -> LinearChannel:
        if self.share is not None and channel.touched:
            raise UnsupportedError(
                f"{self} takes its size from what the masks before it give out, which is not known beforehand",
                do="Put it first in the chain, or give covariance=",
            )
        names = channel.names or tuple(range(channel.columns))
        chosen = None if self.columns is None else check_columns("columns", self.columns, names)
        scale = channel.scale if channel.scale is None or chosen is None else channel.scale[np.ix_(chosen, chosen)]
        k = channel.columns
        part = self._matrices(k if chosen is None else len(chosen), numbers, scale)
        if chosen is not None:
            whole = np.zeros((len(part), k, k))
            whole[:, np.array(chosen)[:, None], np.array(chosen)] = part
            part = whole
        return channel.add_noise(part, common=self.common)

    def _matrices(self, k: int, numbers: Array, data_covariance: Array | None) -> Array:
        """Noise covariances of a family, shape (masks, k, k)."""
        unit = self.unit
        if unit == "covariance":
            size = len(self.covariance)
            if size != k:
                raise InputError(f"Noise(covariance=...) must be {k} by {k}, one row per column", f"{size} by {size}", "Match the noise to the data's columns")
            return numbers.reshape(-1, k, k)
        if unit == "share":
            if data_covariance is None:
                raise InputError("Noise(share=...) needs to know the data's covariance", None, "Use variance= or covariance=")
            return numbers[:, :, None] * data_covariance
        variance = numbers if unit == "variance" else numbers**2
        if variance.shape[1] == 1:
            full = np.zeros((len(variance), k, k))
            full[:, np.arange(k), np.arange(k)] = variance
            return full
        if variance.shape[1] != k:
            raise InputError(f"Noise({unit}=...) must have {k} entries, one per column", variance.shape[1], "Give one number, or one per column")
        full = np.zeros((len(variance), k, k))
        full[:, np.arange(k), np.arange(k)] = variance
        return full
