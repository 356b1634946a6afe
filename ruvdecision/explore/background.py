"""Running a study file beside the page: one run at a time, with progress, a way to stop it, and the last results kept.

A run can be stopped wherever it tells its progress, as everything of the package that takes long does.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping
from time import monotonic
from typing import Any

from ..errors import RuvError, traced
from ..running.progress import Stopped, host
from ..studies import Outcome, Study

#: Studies that ran in less than this many seconds are run again while a slider moves.
QUICK = 0.35
#: Results that are kept.
KEPT = 12


class Job:
    """One run of a study."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = dict(settings)
        self.started = monotonic()
        self.text = "waiting for its turn"
        self.message = ""
        self.stopped = False
        self.ended = threading.Event()

    def show(self, text: str) -> None:
        """Keep what the page shows of the run; a run that was stopped ends here."""
        if self.stopped:
            raise Stopped
        self.text = text

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return monotonic() - self.started


class Runner:
    """Runs one study, one run at a time, and keeps the last results.

    Parameters
    ----------
    study : Study
        The loaded study.
    debug : bool
        Write the traceback of a study that fails to standard error.

    Examples
    --------
    >>> from pathlib import Path
    >>> from ruvdecision.maps.rumap import RUMap
    >>> def study(u=2.0):
    ...     return RUMap.build(labels=["only"], intruder=[u], scientist=[1.0])
    >>> runner = Runner(Study(Path("tiny.py"), "A tiny study", study))
    >>> job = runner.start({"u": 4.0})
    >>> job.ended.wait(20)
    True
    >>> runner.outcome({"u": 4.0}).maps["map"].risk.tolist()
    [0.25]
    """

    def __init__(self, study: Study, debug: bool = False) -> None:
        self.study = study
        self.debug = debug
        self.quick = False
        self._turn = threading.Lock()
        self._books = threading.Lock()
        self._kept: OrderedDict[Any, Outcome] = OrderedDict()
        self._jobs: dict[Any, Job] = {}
        self._failed: OrderedDict[Any, str] = OrderedDict()

    def outcome(self, settings: Mapping[str, Any]) -> Outcome | None:
        """The result for these settings, if it is there."""
        with self._books:
            key = _key(settings)
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def failure(self, settings: Mapping[str, Any]) -> str | None:
        """Why these settings failed, if they did."""
        with self._books:
            return self._failed.get(_key(settings))

    def job(self, settings: Mapping[str, Any]) -> Job | None:
        """The run for these settings, if it is under way."""
        with self._books:
            return self._jobs.get(_key(settings))

    def start(self, settings: Mapping[str, Any]) -> Job:
        """Start a run, or join the one under way. Runs with other settings are told to stop: nobody waits for them."""
        key = _key(settings)
        with self._books:
            if key in self._jobs and not self._jobs[key].stopped:
                return self._jobs[key]
            for other in self._jobs.values():
                other.stopped = True
            job = self._jobs[key] = Job(settings)
            self._failed.pop(key, None)
        # A daemon: Ctrl-C ends the program even in the middle of a long run.
        threading.Thread(target=self._run, args=(key, job), daemon=True, name="ruvdecision-study").start()
        return job

    def stop(self) -> None:
        """Tell every run to stop."""
        with self._books:
            for job in self._jobs.values():
                job.stopped = True

    def _run(self, key: Any, job: Job) -> None:
        outcome, message = None, ""
        try:
            with self._turn, host(job.show):
                job.started = monotonic()
                job.show("running")
                outcome = self.study.run(**job.settings)
                self.quick = job.seconds < QUICK
        except Stopped:
            message = "stopped"
        except Exception as error:
            if self.debug:
                sys.stderr.write(traced(error))
            message = say_why(error)
        finally:
            with self._books:
                if outcome is not None:
                    self._kept[key] = outcome
                    while len(self._kept) > KEPT:
                        self._kept.popitem(last=False)
                elif not job.stopped:
                    self._failed[key] = message
                    while len(self._failed) > KEPT:
                        self._failed.popitem(last=False)
                job.message = message
                if self._jobs.get(key) is job:
                    del self._jobs[key]
            job.ended.set()


def say_why(error: Exception) -> str:
    """An error as the page may show it.

    Messages of this package never show a record. Those of other libraries may quote what they choked on, so the page
    shows their kind and not their text.

    >>> say_why(ValueError("could not convert string to float: 'secret'"))
    'The study failed with a ValueError. Run it with: ruvdecision run FILE --debug.'
    """
    cause = error.__cause__ if isinstance(error, RuvError) else error
    if isinstance(error, RuvError) and (cause is None or isinstance(cause, RuvError)):
        return str(error)
    return f"The study failed with a {type(cause).__name__}. Run it with: ruvdecision run FILE --debug."


def _key(settings: Mapping[str, Any]) -> Any:
    return tuple(sorted(settings.items()))
