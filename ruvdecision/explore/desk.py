"""What the page asks for, answered: scenes, downloads, runs of a study. No HTTP here; see `server`.

A request is a name and a flat mapping of texts. Everything in it is checked against the controls before anything is
computed, nothing in it is ever run, and what goes wrong comes back as a message.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._version import __version__
from ..checks import suggest
from ..errors import InputError, RuvError
from .controls import Slider, read_values
from .lesson import Built, Lesson
from .pictures import draw, write
from .scene import show
from .study import VIEW, StudyTopic

#: Maps that are kept, so that a new threshold or another look at the same map computes nothing.
KEPT = 24

EXAMPLE = Slider(
    "example",
    "Example file",
    range(1, 51),
    1,
    whole=True,
    hint="Posteriors need one file; it is drawn from the belief.",
)
WIDTH = Slider("width", "Width", (240, 1400), 720, whole=True)


@dataclass(frozen=True)
class Answer:
    """A status as HTTP counts them, a kind of content, the content, and a file name for downloads."""

    status: int
    kind: str
    body: bytes
    file: str = ""


class Desk:
    """Answers the page.

    Parameters
    ----------
    topics : sequence of topics
        The lessons, or one study.

    Examples
    --------
    >>> from ruvdecision.explore import LESSONS
    >>> answer = Desk(LESSONS).answer("scene", {"topic": "normal", "n": "10", "max_risk": "0.5"})
    >>> answer.status, json.loads(answer.body)["chosen"]["label"]
    (200, 'Noise(variance=2.08) | Microaggregate(groups=1)')
    """

    def __init__(self, topics: Sequence[Lesson | StudyTopic]) -> None:
        self.topics = {topic.name: topic for topic in topics}
        self._kept: OrderedDict[Any, Built] = OrderedDict()
        self._books = threading.Lock()

    def answer(self, wanted: str, query: Mapping[str, str], *, post: bool = False) -> Answer:
        """Answer one request; whatever goes wrong comes back as a message."""
        try:
            handler = {**ANSWERS, **POSTED}.get(wanted)
            if handler is None:
                return message("There is nothing at this address.", 404)
            if post != (wanted in POSTED):
                return message("This address takes another method.", 405)
            return handler(self, query)
        except RuvError as error:
            return message(str(error), 400)
        except Exception as error:
            # Its text may quote anything, so the page gets its kind only.
            return message(
                f"That failed with a {type(error).__name__}, which is a defect of ours. Other settings may work.", 500
            )

    # -- answers ---------------------------------------------------------------------------------------

    def page(self, query: Mapping[str, str]) -> Answer:
        """What the page needs to build its controls. A study starts here, so that its first map is there soon."""
        for topic in self.topics.values():
            topic.begin()
        topics = [
            {
                "name": topic.name,
                "title": topic.title,
                "about": topic.about,
                "kind": topic.kind,
                "controls": [c.describe() for c in topic.controls],
                "threshold": None if topic.threshold is None else topic.threshold.describe(),
            }
            for topic in self.topics.values()
        ]
        return as_json({"version": __version__, "topics": topics, "example": EXAMPLE.describe()})

    def scene(self, query: Mapping[str, str]) -> Answer:
        """The scene for these settings, or how far its computation has got."""
        asked = self._read(query)
        waiting = asked.topic.waiting(asked.values)
        if waiting is not None:
            return as_json(waiting[1], waiting[0])
        name, built, threshold = self._built(asked)
        max_risk = self._max_risk(query, asked.topic, threshold)
        found = show(built, max_risk, asked.look, asked.example, asked.width)
        found |= {"max_risk": max_risk, "threshold": threshold.describe(), "map_name": name}
        if isinstance(asked.topic, StudyTopic):
            found |= {"maps": list(asked.topic.outcome(asked.values).maps), "live": asked.topic.runner.quick}
        return as_json(found)

    def table(self, query: Mapping[str, str]) -> Answer:
        """The whole map as CSV."""
        asked = self._read(query)
        _, built, _ = self._built(asked)
        text = built.rumap.to_dataframe().to_csv(index=False, lineterminator="\n")
        return Answer(200, "text/csv; charset=utf-8", text.encode("utf-8"), f"{asked.topic.name}-map.csv")

    def picture(self, query: Mapping[str, str]) -> Answer:
        """The map as PNG, by the package's own plot or the study's own figure."""
        asked = self._read(query)
        _, built, threshold = self._built(asked)
        max_risk = self._max_risk(query, asked.topic, threshold)
        built.rumap.frontier()  # a map without any value has no picture; say so before drawing
        image = draw(built.rumap, max_risk, asked.topic.outcome(asked.values))
        return Answer(200, "image/png", image, f"{asked.topic.name}-map.png")

    def code(self, query: Mapping[str, str]) -> Answer:
        """Python code that makes the same map."""
        asked = self._read(query)
        threshold = asked.topic.threshold
        if threshold is None:
            _, _, threshold = self._built(asked)
        text = asked.topic.code(asked.values, self._max_risk(query, asked.topic, threshold), asked.map)
        return Answer(200, "text/x-python; charset=utf-8", text.encode("utf-8"), f"{asked.topic.name}_map.py")

    def report(self, query: Mapping[str, str]) -> Answer:
        """The report of the map, as `RUMap.report` writes it."""
        asked = self._read(query)
        _, built, threshold = self._built(asked)
        text = write(built.rumap, self._max_risk(query, asked.topic, threshold), asked.topic.title)
        return Answer(200, "text/html; charset=utf-8", text, f"{asked.topic.name}-report.html")

    def compute(self, query: Mapping[str, str]) -> Answer:
        """Start a study with these settings."""
        asked = self._read(query)
        if not asked.topic.start(asked.values):
            return message("A lesson needs no start.", 400)
        return as_json({"started": True}, 202)

    def stop(self, query: Mapping[str, str]) -> Answer:
        """Stop the study that runs."""
        for topic in self.topics.values():
            topic.stop()
        return as_json({"stopped": True})

    # -- reading ---------------------------------------------------------------------------------------

    def _read(self, query: Mapping[str, str]) -> _Asked:
        name = query.get("topic", next(iter(self.topics)))
        if name not in self.topics:
            raise InputError("There is no such topic on this page", name[:60], suggest(name[:60], list(self.topics)))
        topic = self.topics[name]
        view = {k: v for k, v in query.items() if k in VIEW}
        values = read_values(topic.controls, {k: v for k, v in query.items() if k not in view})
        extra = read_values([EXAMPLE, WIDTH], {k: v for k, v in view.items() if k in ("example", "width")})
        look = view.get("look", "chosen")
        if look not in ("chosen", "own") and not look.startswith("release:"):
            raise InputError("look must be chosen, own or a release", look[:60], "Pick a release on the map")
        return _Asked(topic, values, look, extra["example"], extra["width"], view.get("map"))

    def _max_risk(self, query: Mapping[str, str], topic: Lesson | StudyTopic, threshold: Slider) -> float:
        return topic.read_threshold(threshold, query["max_risk"]) if "max_risk" in query else threshold.default

    # -- maps ------------------------------------------------------------------------------------------

    def _built(self, asked: _Asked) -> tuple[str, Built, Slider]:
        topic = asked.topic
        if isinstance(topic, StudyTopic):
            name, built = topic.built(asked.values, asked.map)
            return name, built, topic.threshold_of(built.rumap)
        if asked.map is not None:
            raise InputError("A lesson has one map", asked.map[:60], "Leave map out")
        key = (topic.name, tuple(sorted(asked.values.items())))
        with self._books:
            built_or_none = self._kept.get(key)
            if built_or_none is not None:
                self._kept.move_to_end(key)
                return "map", built_or_none, topic.threshold
        built = topic.build(asked.values)
        with self._books:
            self._kept[key] = built
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return "map", built, topic.threshold


@dataclass(frozen=True)
class _Asked:
    """A request that has been read and checked."""

    topic: Lesson | StudyTopic
    values: Mapping[str, Any]
    look: str
    example: int
    width: float
    map: str | None


ANSWERS: dict[str, Callable[[Desk, Mapping[str, str]], Answer]] = {
    "page": Desk.page,
    "scene": Desk.scene,
    "map.csv": Desk.table,
    "map.png": Desk.picture,
    "map.py": Desk.code,
    "report.html": Desk.report,
}
POSTED: dict[str, Callable[[Desk, Mapping[str, str]], Answer]] = {"compute": Desk.compute, "stop": Desk.stop}


def message(text: str, status: int) -> Answer:
    """Something for the reader to read."""
    return as_json({"message": text}, status)


def as_json(content: Mapping[str, Any], status: int = 200) -> Answer:
    """Content as JSON; NaN and infinity are not JSON, so they may not be in it."""
    return Answer(
        status,
        "application/json; charset=utf-8",
        json.dumps(content, allow_nan=False, ensure_ascii=False).encode("utf-8"),
    )
