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
from ..studies import Outcome
from .controls import Slider, read_values
from .lesson import Built, Lesson
from .pictures import draw, write
from .scene import show
from .study import VIEW, StudyTopic

__all__ = ["Answer", "Desk"]

#: Maps that are kept, so that a new threshold or another look at the same map computes nothing.
KEPT = 24
#: How long a quick study may keep a request waiting, in seconds.
PATIENCE = 1.5

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
        for study in self.topics.values():
            if isinstance(study, StudyTopic):
                study.begin()
        topics = [
            {
                "name": topic.name,
                "title": topic.title,
                "about": topic.about,
                "kind": "lesson" if isinstance(topic, Lesson) else "study",
                "controls": [c.describe() for c in topic.controls],
                "threshold": topic.threshold.describe() if isinstance(topic, Lesson) else None,
            }
            for topic in self.topics.values()
        ]
        return as_json({"version": __version__, "topics": topics, "example": EXAMPLE.describe()})

    def scene(self, query: Mapping[str, str]) -> Answer:
        """The scene for these settings, or how far its computation has got."""
        asked = self._read(query)
        if isinstance(asked.topic, StudyTopic):
            waiting = self._wait(asked.topic, asked.values)
            if waiting is not None:
                return waiting
        name, built, threshold = self._built(asked)
        max_risk = self._max_risk(query, threshold, isinstance(asked.topic, Lesson))
        found = show(built, max_risk, asked.look, asked.example, asked.width)
        found |= {"max_risk": max_risk, "threshold": threshold.describe(), "map_name": name}
        if isinstance(asked.topic, StudyTopic):
            outcome = self._outcome(asked)
            found |= {"maps": list(outcome.maps), "live": asked.topic.runner.quick}
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
        max_risk = self._max_risk(query, threshold, isinstance(asked.topic, Lesson))
        built.rumap.frontier()  # a map without any value has no picture; say so before drawing
        image = draw(built.rumap, max_risk, self._outcome(asked) if isinstance(asked.topic, StudyTopic) else None)
        return Answer(200, "image/png", image, f"{asked.topic.name}-map.png")

    def code(self, query: Mapping[str, str]) -> Answer:
        """Python code that makes the same map."""
        asked = self._read(query)
        if isinstance(asked.topic, Lesson):
            text = asked.topic.code(asked.values, self._max_risk(query, asked.topic.threshold, True))
        else:
            name, _, threshold = self._built(asked)
            text = asked.topic.code(
                asked.values,
                self._max_risk(query, threshold, isinstance(asked.topic, Lesson)),
                name if asked.map is not None else None,
            )
        return Answer(200, "text/x-python; charset=utf-8", text.encode("utf-8"), f"{asked.topic.name}_map.py")

    def report(self, query: Mapping[str, str]) -> Answer:
        """The report of the map, as `RUMap.report` writes it."""
        asked = self._read(query)
        _, built, threshold = self._built(asked)
        text = write(built.rumap, self._max_risk(query, threshold, isinstance(asked.topic, Lesson)), asked.topic.title)
        return Answer(200, "text/html; charset=utf-8", text, f"{asked.topic.name}-report.html")

    def compute(self, query: Mapping[str, str]) -> Answer:
        """Start a study with these settings."""
        asked = self._read(query)
        if not isinstance(asked.topic, StudyTopic):
            return message("A lesson needs no start.", 400)
        settings = asked.topic.settings(asked.values)
        if asked.topic.runner.outcome(settings) is None:
            asked.topic.runner.start(settings)
        return as_json({"started": True}, 202)

    def stop(self, query: Mapping[str, str]) -> Answer:
        """Stop the study that runs."""
        for topic in self.topics.values():
            if isinstance(topic, StudyTopic):
                topic.runner.stop()
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

    def _max_risk(self, query: Mapping[str, str], threshold: Slider, fixed: bool) -> float:
        if "max_risk" not in query:
            return threshold.default
        if not fixed:
            # A study's slider moves with its map, so a shared link may lie beyond it; `choose` says what makes no
            # sense.
            threshold = Slider("max_risk", threshold.label, (-1e12, 1e12), 0.0)
        return threshold.read(query["max_risk"])

    # -- maps ------------------------------------------------------------------------------------------

    def _built(self, asked: _Asked) -> tuple[str, Built, Slider]:
        topic = asked.topic
        if isinstance(topic, StudyTopic):
            name, built = topic.built(self._outcome(asked), asked.values, asked.map)
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

    def _outcome(self, asked: _Asked) -> Outcome:
        assert isinstance(asked.topic, StudyTopic)
        outcome = asked.topic.runner.outcome(asked.topic.settings(asked.values))
        if outcome is None:
            raise InputError("These settings have not been computed yet", do="Press Compute on the page first")
        return outcome

    def _wait(self, topic: StudyTopic, values: Mapping[str, Any]) -> Answer | None:
        """None if the map is there; otherwise how far it is, or that it must be asked for."""
        settings = topic.settings(values)
        runner = topic.runner
        if runner.outcome(settings) is not None:
            return None
        why = runner.failure(settings)
        if why is not None:
            return message(why, 400)
        job = runner.job(settings)
        if job is None and runner.quick:
            job = runner.start(settings)
            job.ended.wait(PATIENCE)
            if runner.outcome(settings) is not None:
                return None
            why = runner.failure(settings)
            if why is not None:
                return message(why, 400)
        if job is None:
            return as_json(
                {"waiting": "ask", "message": "These settings have not been computed yet. Press Compute."}, 202
            )
        return as_json({"waiting": "running", "message": f"Computing for {job.seconds:.0f} s: {job.text}"}, 202)


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
