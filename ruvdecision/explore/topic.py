"""What the page can show: topics (lessons, studies, a file of one's own), their controls, and what comes of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..maps.rumap import RUMap
from ..masks.base import Mask
from ..protocols import Array

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Slider:
    """A number out of a rising list of stops; the default is always one of them.

    >>> Slider("n", "Records", (1, 5, 9), 5).read("8.2")
    9
    """

    name: str
    label: str
    stops: Sequence[float]
    default: float
    hint: str = ""
    looks: bool = False
    """True if moving it turns the reader's eye to the release that it describes."""
    several: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "stops", tuple(sorted({*self.stops, self.default})))

    def read(self, text: str) -> float:
        """The stop that is nearest to what an address says, or the default if that is no number."""
        try:
            wanted = float(text) if len(text) <= 40 else math.nan
        except ValueError:
            wanted = math.nan
        return self.default if math.isnan(wanted) else min(self.stops, key=lambda stop: abs(stop - wanted))


@dataclass(frozen=True)
class Pick:
    """One of a few named options, or several of them: then the value is a tuple, at least one and at most ``most``.

    >>> Pick("loss", "Loss", {"squared": "squared error", "absolute": "absolute error"}).read("absolute")
    'absolute'
    """

    name: str
    label: str
    options: Mapping[Any, str]
    default: Hashable = None
    hint: str = ""
    most: int = 1
    looks: bool = False

    def __post_init__(self) -> None:
        if self.default is None:
            first = next(iter(self.options))
            object.__setattr__(self, "default", (first,) if self.several else first)

    @property
    def several(self) -> bool:
        """Whether several options may be ticked."""
        return self.most > 1

    def read(self, text: str) -> Hashable:
        """What an address says, or the default if that is none of the options."""
        known = {str(option): option for option in self.options}
        found = tuple(known[part] for part in text.split(",") if part in known)[: self.most]
        return (found if self.several else found[0]) if found else self.default


Control = Slider | Pick


class Drawable(Protocol):
    """What a drawing asks of a law."""

    @property
    def event(self) -> tuple[int, ...]: ...
    @property
    def support(self) -> Array | None: ...
    def cdf(self, at: ArrayLike) -> Array: ...
    def mean(self) -> Array | float: ...
    def var(self) -> Array | float: ...


@dataclass(frozen=True)
class LawView:
    """One number that a user wants: its law before and after the release, the estimate, and the truth of an example.

    A vector target has one law per ``component``.
    """

    name: str
    posterior: Drawable | None
    prior: Drawable | None = None
    estimate: float | None = None
    truth: float | None = None
    component: int | None = None


@dataclass(frozen=True)
class BeliefView:
    """What a user believes: whose belief it is, about what, the laws to draw, and a sentence."""

    who: str
    title: str
    laws: tuple[LawView, ...] = ()
    words: str = ""
    slow: bool = False
    """True if the posterior must be sampled, which is done when it is asked for."""


Believed: TypeAlias = Callable[[Mask, int, bool], list[BeliefView]]
"""What both users believe by mask and example file; the flag says whether slow posteriors are sampled too."""


@dataclass(frozen=True)
class Built:
    """A map with what the page shows beside it.

    Parameters
    ----------
    rumap : RUMap
        The map.
    beliefs : callable, optional
        ``beliefs(mask, example, slow)`` gives what both users believe after one release of the example file of that
        number; with ``slow`` posteriors that must be sampled are sampled.
    own : int, optional
        Row of the release that the reader's own settings describe.
    formulas : sequence of str
        Formulas as MathML, with the numbers of the settings in them.
    notes : sequence of str
        Sentences to show.
    release : callable, optional
        ``release(row)`` gives the released file of a row as a DataFrame, for downloading.
    said : callable, optional
        ``said(row)`` is a sentence on a row that its numbers do not say.
    """

    rumap: RUMap
    beliefs: Believed | None = None
    own: int | None = None
    formulas: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    release: Callable[[int], pd.DataFrame] | None = None
    said: Callable[[int], str] | None = None
    figure: Callable[[float | None], bytes | None] | None = None
    """Gives the own picture of a study as PNG, instead of the map."""
    maps: tuple[str, ...] = ()
    """Names of the maps of a panel, of which this is one."""


@dataclass(frozen=True)
class Topic:
    """Something to play with.

    Parameters
    ----------
    name, title, about : str
        Its name in the address, its heading, and a few sentences.
    controls : sequence of Slider and Pick
        What moves.
    build : callable
        ``build(values)`` gives a `Built`.
    write : callable
        ``write(values)`` gives Python code that makes the same map as ``rumap``.
    threshold : float, optional
        Where the largest tolerable risk stands at first; the middle of the map's risks if not given.
    questions : pairs of str
        Questions to answer before moving anything, with their answers.
    play : str, optional
        The slider that the play button moves.
    quick : bool
        Whether it may be computed while a slider moves; None if the first run tells.
    shared : bool
        Whether the address may hold its settings.
    states : mapping, optional
        Values of some controls that a static file holds.
    """

    name: str
    title: str
    about: str
    controls: tuple[Control, ...]
    build: Callable[[Values], Built]
    write: Callable[[Values], str] | None = None
    threshold: float | None = None
    questions: tuple[tuple[str, str], ...] = ()
    play: str | None = None
    quick: bool | None = True
    shared: bool = True
    states: Mapping[str, tuple[Hashable, ...]] | None = None

    @property
    def defaults(self) -> Values:
        """Where all controls stand at first."""
        return {c.name: c.default for c in self.controls}

    def code(self, values: Values, max_risk: float) -> str:
        """Python code that makes the same map and the same choice."""
        made = self.write(values) if self.write else ""
        return (
            f'"""{self.title}."""\n\n{made}\nmax_risk = {max_risk!r}\n'
            "try:\n    print(rumap.choose(max_risk=max_risk))\nexcept ruv.InfeasibleError as error:\n    print(error)\n"
            'rumap.plot(max_risk=max_risk).figure.savefig("map.png", dpi=150)\n'
        )


def even_stops(low: float, high: float, step: float) -> tuple[float, ...]:
    """Stops at equal distances, free of rounding dust.

    >>> even_stops(0.1, 0.4, 0.1)
    (0.1, 0.2, 0.3, 0.4)
    """
    return tuple(round(low + step * i, 10) for i in range(round((high - low) / step) + 1))


def geometric_stops(
    low: float, high: float, count: int = 60, digits: int = 2, whole: bool = False
) -> tuple[float, ...]:
    """Stops at about equal ratios, with few digits each, and both limits as they are.

    >>> geometric_stops(1, 1000, 7)
    (1.0, 3.2, 10.0, 32.0, 100.0, 320.0, 1000.0)
    >>> geometric_stops(1, 10, 30, whole=True)
    (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    """
    inner = (float(f"{v:.{digits - 1}e}") for v in np.geomspace(low, high, count))
    kind: Callable[[float], float] = round if whole else float
    return tuple(sorted({kind(v) for v in (low, high, *inner) if low <= kind(v) <= high}))


def threshold_stops(rumap: RUMap, default: float | None) -> tuple[tuple[float, ...], float]:
    """Stops for the largest tolerable risk of a map, and where it stands at first."""
    known = rumap.risk[np.isfinite(rumap.risk)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    if default is None or not math.isfinite(default):
        default = float(f"{np.median(known):.2g}") if known.size else 0.5
    low, high = min(low, default), max(high, default)
    if low > 0 and high > 20 * low:
        stops = geometric_stops(float(f"{0.9 * low:.2g}"), float(f"{1.1 * high:.2g}"), 160, 3)
    else:
        room = 0.1 * (high - low) or 0.1 * abs(high) or 1.0
        first = max(low - room, low / 2) if low > 0 else low - room
        stops = tuple(float(f"{v:.3g}") for v in np.linspace(first, high + room, 161))
    score, most = rumap.risk_score, max(high, rumap.risk_score.highest)
    return tuple(sorted({default, *(s for s in stops if score.lowest < s <= most)})), default


# -- formulas ------------------------------------------------------------------------------------------


def mathml(*parts: str) -> str:
    """A line of mathematics.

    >>> mathml("U", "=", fraction("1", "2"))
    '<math display="block"><mi>U</mi><mo>=</mo><mfrac><mn>1</mn><mn>2</mn></mfrac></math>'
    """
    return f'<math display="block">{"".join(map(_mathml_token, parts))}</math>'


def fraction(a: str | Sequence[str], b: str | Sequence[str]) -> str:
    """A fraction."""
    return f"<mfrac>{_mathml_group(a)}{_mathml_group(b)}</mfrac>"


def power(a: str | Sequence[str], b: str) -> str:
    """A power; several parts get parentheses."""
    return f"<msup>{_mathml_group(a if isinstance(a, str) else ['(', *a, ')'])}{_mathml_group(b)}</msup>"


def subscript(a: str, b: str) -> str:
    """A name with an index."""
    return f"<msub>{_mathml_group(a)}{_mathml_group(b)}</msub>"


def _mathml_group(parts: str | Sequence[str]) -> str:
    return _mathml_token(parts) if isinstance(parts, str) else f"<mrow>{''.join(map(_mathml_token, parts))}</mrow>"


def _mathml_token(part: str) -> str:
    if part.startswith("<"):
        return part
    kind = "mn" if part[:1].isdigit() or (part[:1] == "−" and len(part) > 1) else "mi" if part.isalpha() else "mo"
    if len(part) > 2 and kind != "mn":
        kind, part = "mtext", f"&nbsp;{part}&nbsp;"
    return f"<{kind}>{part}</{kind}>"
