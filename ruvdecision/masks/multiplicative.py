"""Multiplying the records by noise around one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..checks import check_choice, check_number
from ..errors import InputError, UnsupportedError
from ..protocols import Array
from .base import Mask
from .columnkinds import as_columns
from .frame import Frame

if TYPE_CHECKING:
    from ..channels.likelihood import Observed

__all__ = ["MultiplicativeNoise"]

KINDS = ("normal", "lognormal", "mixture", "split")
NEEDS = {"normal": ("sd",), "lognormal": ("sd",), "mixture": ("away", "sd"), "split": ("least", "most")}


@dataclass(frozen=True, repr=False)
class MultiplicativeNoise(Mask):
    """Multiply every value by an independent factor with mean one.

    The noise is in proportion to the value, so that large values are protected as well as small ones; zeros stay zero, and
    means are kept in expectation. Kim and Winkler (2003) for normal factors; Evans, Zayatz and Slanta (1998) for factors that
    keep away from one.

    Parameters
    ----------
    sd : float, optional
        Standard deviation of the factor ("normal", "lognormal"), or of each component ("mixture"). Not for "split".
    kind : {"normal", "lognormal", "mixture", "split"}, default "normal"
        Law of the factor. "normal" may change signs if ``sd`` is large; "lognormal" never does. "mixture" has two normal
        components with equal weights, around ``1 - away`` and ``1 + away``; its standard deviation is
        ``sqrt(away**2 + sd**2)``. "split" is uniform where the factor differs from 1 by ``least`` to ``most``, on either
        side, so no value stays nearer to its original than a share ``least`` of it.
    away : float, optional
        Distance of the two components from one, for "mixture".
    least, most : float, optional
        Least and largest distance of the factor from one, for "split"; ``0 <= least < most``.
    per : {"entry", "record"}, default "entry"
        "record" uses one factor for all chosen columns of a record, which keeps their ratios.
    columns : names or positions, optional
        Numeric columns to multiply, all of them if not given. Missing values stay missing.

    >>> MultiplicativeNoise(kind="split", least=0.1, most=0.2).release([100.0, 100.0, 0.0], 1).round(1)
    array([110.2, 119. ,   0. ])
    """

    sd: float | None = None
    kind: str = "normal"
    away: float | None = None
    least: float | None = None
    most: float | None = None
    per: str = "entry"
    columns: Any = None

    recordwise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_choice("per", self.per, ("entry", "record"))
        needs = NEEDS[self.kind]
        for name in ("sd", "away", "least", "most"):
            value = getattr(self, name)
            if (value is not None) != (name in needs):
                wanted = " and ".join(f"{x}=" for x in needs)
                raise InputError(
                    f'MultiplicativeNoise(kind="{self.kind}") needs {wanted}',
                    f"{name}={value!r}",
                    "Give these and no others",
                )
            if value is not None:
                object.__setattr__(self, name, check_number(name, value, low=0))
        if self.least is not None and self.most is not None and not self.least < self.most:
            raise InputError(
                "least must be below most", {"least": self.least, "most": self.most}, "Write least=0.1, most=0.2"
            )
        object.__setattr__(self, "columns", as_columns("columns", self.columns))

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        values, positions = frame.numeric("MultiplicativeNoise", self.columns, missing=True)
        return frame.replace(
            values * self._factors((frame.n, values.shape[1] if self.per == "entry" else 1), rng), positions
        )

    def back(self, observed: Observed) -> Observed:
        """The density of a value times a factor; a released zero was a zero."""
        from ..channels.likelihood import Known, Observation
        from ..channels.likelihood.factor import Factor, LognormalFactor, NormalFactor, SplitFactor
        from ..channels.likelihood.simple import split

        positions = observed.positions(self.columns)
        if self.per == "record" and len(positions) > 1:
            raise UnsupportedError(
                f"{self} multiplies several columns of a record by one factor, so that they are not independent",
                do='Use per="entry", or name one column with columns=',
            )
        if self.sd == 0 and self.kind == "mixture" and self.away:
            raise UnsupportedError(f"{self} has no density: its factor takes two values", do="Give sd above 0")
        if self.sd == 0:
            return observed

        def factor(n: int) -> Factor:
            if self.kind == "split":
                return SplitFactor(n, float(self.least or 0.0), float(self.most or 0.0))
            if self.kind == "lognormal":
                return LognormalFactor(n, float(self.sd or 0.0))
            return NormalFactor(n, float(self.sd or 0.0), float(self.away or 0.0))

        def change(j: int, column: Observation) -> Observation:
            zero = column.known == 0
            return split(
                column.n,
                [
                    (zero, lambda rows: Known(np.zeros(len(rows)))),
                    (~zero, lambda rows: column.take(rows).before_kernel(factor(len(rows)))),
                ],
            )

        return observed.each(self, positions, change)

    def _factors(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        if self.kind == "split":
            least, most = float(self.least or 0.0), float(self.most or 0.0)
            u = rng.random(shape)
            side = np.where(u < 0.5, -1.0, 1.0)
            # The same number decides side and distance: u is uniform again after its first binary digit is taken off.
            return 1.0 + side * (least + (most - least) * np.where(u < 0.5, 2 * u, 2 * u - 1))
        sd = float(self.sd or 0.0)
        if self.kind == "mixture":
            side = np.where(rng.random(shape) < 0.5, -1.0, 1.0)
            return 1.0 + side * float(self.away or 0.0) + sd * rng.standard_normal(shape)
        z = rng.standard_normal(shape)
        if self.kind == "lognormal":
            variance = np.log1p(sd**2)
            return np.asarray(np.exp(np.sqrt(variance) * z - variance / 2))
        return 1.0 + sd * z
