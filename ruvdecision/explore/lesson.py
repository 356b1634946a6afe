"""What a topic of the page gives back: a map, the users behind it, and the Python code that makes the same map."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from ..maps.rumap import RUMap
from ..protocols import Array
from .controls import Control, Slider


class Drawable(Protocol):
    """A law that the page can draw."""

    def cdf(self, at: Any, /) -> Array: ...

    def mean(self) -> Any: ...

    def var(self) -> Any: ...


@dataclass(frozen=True)
class Law:
    """One number that a user wants: its law before and after the release, and what the example has in store.

    A vector target has one law per ``component``.
    """

    name: str
    posterior: Drawable
    prior: Drawable | None = None
    estimate: float | None = None
    truth: float | None = None
    component: int | None = None


@dataclass(frozen=True)
class BeliefPanel:
    """What a user believes about the target: a title, laws to draw, and a sentence below them."""

    who: str
    title: str
    laws: tuple[Law, ...] = ()
    words: str = ""


@dataclass(frozen=True)
class Built:
    """A map with what the page shows beside it.

    Parameters
    ----------
    rumap : RUMap
        The map.
    panels : callable, optional
        ``panels(mask, example)`` gives the posteriors after one release of an example file, whose number is
        ``example``.
    own : int, optional
        Row of the release that the reader's own settings describe.
    notes : sequence of str
        Sentences to show below the explanation.
    """

    rumap: RUMap
    panels: Callable[[Any, int], Sequence[BeliefPanel]] | None = None
    own: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lesson:
    """A built-in topic: closed form, so that it is computed while a slider moves."""

    kind: ClassVar[str] = "lesson"

    name: str
    title: str
    about: str
    controls: tuple[Control, ...]
    threshold: Slider
    build: Callable[[Mapping[str, Any]], Built]
    write: Callable[[Mapping[str, Any]], str]

    def begin(self) -> None:
        """A lesson is computed when it is asked for."""

    def start(self, values: Mapping[str, Any]) -> bool:
        """Whether something was started, which a lesson need not be."""
        return False

    def stop(self) -> None:
        """Nothing runs that could be stopped."""

    def waiting(self, values: Mapping[str, Any]) -> None:
        """Nobody waits for a lesson."""

    def outcome(self, values: Mapping[str, Any]) -> None:
        """A lesson has a map and nothing else."""

    def read_threshold(self, threshold: Slider, text: str) -> float:
        """The threshold that was sent."""
        return threshold.read(text)

    def code(self, values: Mapping[str, Any], max_risk: float, name: str | None = None) -> str:
        """Python code that makes the same map and the same choice."""
        return f'"""{self.title}."""\n\n{self.write(values)}{ending(max_risk)}'


def ending(max_risk: float) -> str:
    """The last lines of every script: the choice and the picture."""
    return (
        f"\nmax_risk = {max_risk!r}\n"
        "try:\n"
        "    print(rumap.choose(max_risk=max_risk))\n"
        "except ruv.InfeasibleError as error:\n"
        "    print(error)\n"
        'rumap.plot(max_risk=max_risk).figure.savefig("map.png", dpi=150)\n'
    )
