"""What a reader can move on the page: sliders, picks and switches. The server holds every value to its limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..checks import suggest
from ..errors import InputError

#: More stops than this make a slider that a keyboard cannot cross.
MOST_STOPS = 400


@dataclass(frozen=True)
class Slider:
    """A number between two limits. The slider stops at ``stops``; a typed number may lie between them.

    Parameters
    ----------
    name, label : str
        The setting, and what the page calls it.
    stops : sequence of numbers
        Where the slider stops; the least and the greatest are the limits. The default is always one of them.
    default : number
        Where it stands at first.
    whole : bool
        True for whole numbers only.
    hint : str
        One short sentence below the label.
    looks : bool
        True if moving it turns the reader's eye to the release that it describes.
    when : pair of a name and values, optional
        The page shows the control only while the pick of that name has one of these values.

    Examples
    --------
    >>> Slider("n", "Records", range(1, 101), 10, whole=True).read("12")
    12
    """

    name: str
    label: str
    stops: Sequence[float]
    default: float
    whole: bool = False
    hint: str = ""
    looks: bool = False
    when: tuple[str, tuple[str, ...]] | None = None

    def __post_init__(self) -> None:
        kind = int if self.whole else float
        object.__setattr__(self, "default", kind(self.default))
        # The slider must be able to come back to where it began.
        object.__setattr__(self, "stops", tuple(sorted({*(kind(x) for x in self.stops), self.default})))

    @property
    def low(self) -> float:
        """The least value that is allowed."""
        return self.stops[0]

    @property
    def high(self) -> float:
        """The greatest value that is allowed."""
        return self.stops[-1]

    def read(self, text: str) -> float:
        """The number that was sent, or an `InputError` that quotes the limits."""
        span = f"{self.label} must be a {'whole ' if self.whole else ''}number between {self.low:g} and {self.high:g}"
        try:
            # Python would read 1_0 as ten and a thousand digits as a number.
            number = float(text) if len(text) <= 40 and "_" not in text else math.nan
        except ValueError:
            number = math.nan
        if not self.low <= number <= self.high or (self.whole and number != math.floor(number)):
            raise InputError(span, _shown(text), "Move the slider, or type a number inside these limits")
        return int(number) if self.whole else number

    def describe(self) -> dict[str, Any]:
        """The control as the page builds it."""
        return {"kind": "slider", **asdict(self), "stops": list(self.stops)}


@dataclass(frozen=True)
class Pick:
    """One of a few named options.

    >>> Pick("loss", "Loss", {"squared": "squared error", "absolute": "absolute error"}).read("absolute")
    'absolute'
    """

    name: str
    label: str
    options: Mapping[str, str] = field(default_factory=dict)
    default: str = ""
    hint: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "default", self.default or next(iter(self.options)))

    def read(self, text: str) -> str:
        """The option that was sent, or an `InputError` that lists them."""
        if text not in self.options:
            names = ", ".join(map(repr, self.options))
            raise InputError(
                f"{self.label} must be one of {names}", _shown(text), suggest(text[:40], list(self.options))
            )
        return text

    def describe(self) -> dict[str, Any]:
        """The control as the page builds it."""
        return {"kind": "pick", **asdict(self), "options": [list(pair) for pair in self.options.items()]}


@dataclass(frozen=True)
class Switch:
    """Yes or no.

    >>> Switch("known", "Row known", True).read("no")
    False
    """

    name: str
    label: str
    default: bool = False
    hint: str = ""

    def read(self, text: str) -> bool:
        """True for "yes", False for "no"."""
        if text not in ("yes", "no"):
            raise InputError(f"{self.label} must be 'yes' or 'no'", _shown(text), "Use the switch")
        return text == "yes"

    def describe(self) -> dict[str, Any]:
        """The control as the page builds it."""
        return {"kind": "switch", **asdict(self)}


Control = Slider | Pick | Switch


def read_values(controls: Sequence[Control], sent: Mapping[str, str]) -> dict[str, Any]:
    """Values for all controls: what was sent, checked, and the defaults for the rest.

    >>> read_values([Slider("n", "Records", [1, 5, 9], 5, whole=True), Switch("known", "Row known")], {"n": "9"})
    {'n': 9, 'known': False}
    """
    known = {c.name: c for c in controls}
    for name in sent:
        if name not in known:
            raise InputError("There is no such setting on this page", _shown(name), suggest(name[:40], list(known)))
    return {name: c.read(sent[name]) if name in sent else c.default for name, c in known.items()}


def even(low: float, high: float, step: float) -> tuple[float, ...]:
    """Stops at equal distances, free of rounding dust.

    >>> even(0.1, 0.4, 0.1)
    (0.1, 0.2, 0.3, 0.4)
    """
    return tuple(float(f"{low + step * i:.10g}") for i in range(round((high - low) / step) + 1))


def rising(low: float, high: float, count: int = 60, digits: int = 2, whole: bool = False) -> tuple[float, ...]:
    """Stops at about equal ratios, with few digits each, and both limits as they are.

    >>> rising(1, 1000, 7)
    (1.0, 3.2, 10.0, 32.0, 100.0, 320.0, 1000.0)
    >>> rising(1, 10, 30, whole=True)
    (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    """
    inner = (float(f"{v:.{digits - 1}e}") for v in np.geomspace(low, high, min(count, MOST_STOPS)))
    kind: Any = round if whole else float
    return tuple(sorted({kind(v) for v in (low, high, *inner) if low <= kind(v) <= high}))


def counts(low: int, high: int) -> tuple[int, ...]:
    """Stops for a number of records: every one while they are few, equal ratios and round numbers after that.

    >>> counts(28, 60)
    (28, 29, 30, 34, 38, 42, 48, 50, 53, 60)
    """
    many = rising(30, high, max(2, round(24 * np.log10(high / 30))), whole=True)
    round_ones = (v for v in (50, 100, 200, 300, 500) if low <= v <= high)
    return tuple(sorted({*range(low, min(30, high) + 1), *(int(v) for v in many), *round_ones}))


def _shown(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
