"""Multiplying the records by noise around one."""

from __future__ import annotations

from dataclasses import dataclass

from ..channels.steps import FactorKind, FileFacts, Multiply, Step
from ..checks import Columns, check_choice, check_number, checked
from ..errors import InputError
from ..protocols import Array
from .base import Mask
from .columns import as_columns

NEEDS = {"normal": ("sd",), "lognormal": ("sd",), "mixture": ("away", "sd"), "split": ("least", "most")}


@dataclass(frozen=True, repr=False)
class MultiplicativeNoise(Mask):
    """Multiply every value by an independent factor with mean one.

    The noise is in proportion to the value, so that large values are protected as well as small ones; zeros stay zero,
    and means are kept in expectation. Kim and Winkler (2003) for normal factors; Evans, Zayatz and Slanta (1998) for
    factors that keep away from one.

    Parameters
    ----------
    sd : float, optional
        Standard deviation of the factor ("normal", "lognormal"), or of each component ("mixture"). Not for "split".
    kind : {"normal", "lognormal", "mixture", "split"}, default "normal"
        Law of the factor. "normal" may change signs if ``sd`` is large; "lognormal" never does. "mixture" has two
        normal components with equal weights, around ``1 - away`` and ``1 + away``; its standard deviation is
        ``sqrt(away**2 + sd**2)``. "split" is uniform where the factor differs from 1 by ``least`` to ``most``, on
        either side, so no value stays nearer to its original than a share ``least`` of it.
    away : float, optional
        Distance of the two components from one, for "mixture".
    least, most : float, optional
        Least and largest distance of the factor from one, for "split"; ``0 <= least < most``.
    per : {"entry", "record"}, default "entry"
        "record" uses one factor for all chosen columns of a record, which keeps their ratios.
    columns : names or positions, optional
        Numeric columns to multiply, all of them if not given. Missing values stay missing.

    >>> MultiplicativeNoise(kind="split", least=0.1, most=0.2).release([100.0, 100.0, 0.0], 1).round(1)
    array([114.6, 112.8,   0. ])
    """

    sd: float | None = None
    kind: str = checked("normal", check_choice, options=tuple(NEEDS))
    away: float | None = None
    least: float | None = None
    most: float | None = None
    per: str = checked("entry", check_choice, options=("entry", "record"))
    columns: Columns = checked(None, as_columns)

    def __post_init__(self) -> None:
        super().__post_init__()
        needs = NEEDS[self.kind]
        for name in ("sd", "away", "least", "most"):
            value = getattr(self, name)
            if (value is not None) != (name in needs):
                wanted = " and ".join(f"{x}=" for x in needs)
                what = f'MultiplicativeNoise(kind="{self.kind}") needs {wanted}'
                raise InputError(what, f"{name}={value!r}", "Give these and no others")
            if value is not None:
                object.__setattr__(self, name, check_number(name, value, low=0))
        if self.least is not None and self.most is not None and not self.least < self.most:
            raise InputError(
                "least must be below most", {"least": self.least, "most": self.most}, "Write least=0.1, most=0.2"
            )

    def steps(self, about: FileFacts, numbers: Array) -> list[Step]:
        factor = FactorKind(self.kind, *(float(v or 0.0) for v in (self.sd, self.away, self.least, self.most)))
        return [Multiply(columns=about.positions(self.columns), factor=factor, common=self.per == "record")]
