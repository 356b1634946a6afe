"""Computing a topic's map: at once where it is quick, beside the page with progress and a way to stop where it is not.

A run can be stopped wherever it tells its progress, as everything of the package that takes long does.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

from ..errors import RuvError, safe_traceback
from ..running.progress import Stopped, report_progress_to
from .topic import Built, Values

#: How long a page may be kept waiting, in seconds; what takes longer goes on beside it.
PATIENCE = 0.4
#: What took less than this many seconds is computed again by itself when a slider moves. A first run may take longer:
#: it loads and compiles what later ones use.
QUICK, FIRST = 2.0, 30.0
#: Results that are kept.
KEPT = 24
Result = TypeVar("Result")


class Job(Generic[Result]):
    """Some work under way, or its outcome.

    >>> job = Job(lambda: 6 * 7).run_now()
    >>> job.result, job.failure
    (42, '')
    """

    def __init__(self, work: Callable[[], Result], debug: bool = False) -> None:
        self.work, self.debug = work, debug
        self.text, self.failure = "starting", ""
        self.result: Result | None = None
        self.stopped, self.ended = False, threading.Event()
        self.began, self.seconds = monotonic(), 0.0

    def run_now(self) -> Job[Result]:
        """Do it, and keep what comes of it; nothing is raised."""
        try:
            with report_progress_to(self._on_progress):
                self._on_progress("running")
                self.result = self.work()
        except Stopped:
            self.stopped = True
            self.failure = "Stopped."
        except Exception as error:
            if self.debug:
                sys.stderr.write(safe_traceback(error))
            self.failure = error_message(error)
        finally:
            self.seconds = monotonic() - self.began
            self.ended.set()
        return self

    def run_in_thread(self) -> Job[Result]:
        """Do it in a thread; a daemon, so that Ctrl-C ends the program in the middle of a long run too."""
        threading.Thread(target=self.run_now, daemon=True, name="ruvdecision-study").start()
        return self

    def _on_progress(self, text: str) -> None:
        if self.stopped:
            raise Stopped
        self.text = text


class Runner:
    """Computes with settings, one computation at a time, and keeps the last results.

    Parameters
    ----------
    build : callable
        ``build(values)`` is what is computed.
    quick : bool, optional
        Whether it may be computed while somebody waits; None lets the last run tell.
    debug : bool
        Write tracebacks of what fails to standard error.
    """

    def __init__(self, build: Callable[[Values], Built], quick: bool | None = True, debug: bool = False) -> None:
        self.build, self.always, self.debug = build, quick is True, debug
        self.quick, self.job = bool(quick), None  # type: bool, Job[Built] | None
        self._kept: OrderedDict[tuple[object, ...], Built] = OrderedDict()
        self._turn = threading.Lock()

    def request(self, values: Values, *, start: bool = True) -> Job[Built] | None:
        """The finished computation if there is one; otherwise the one that was started, or None if none was."""
        key = tuple(sorted((k, v) for k, v in values.items()))
        if key in self._kept:
            self._kept.move_to_end(key)
            return Job(lambda: self._kept[key]).run_now()
        if not start and not self.quick:
            return None
        if self.job is not None:
            self.job.stopped = True  # nobody waits for it any more

        def work() -> Built:
            with self._turn:
                found = self._kept[key] = self.build(values)
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self.quick = monotonic() - job.began < (FIRST if len(self._kept) == 1 else QUICK)
            return found

        job = self.job = Job(work, self.debug)
        if self.always:
            return job.run_now()
        job.run_in_thread().ended.wait(PATIENCE)
        return job

    def stop(self) -> None:
        """Stop what runs."""
        if self.job is not None:
            self.job.stopped = True


def error_message(error: Exception) -> str:
    """An error as the page may show it.

    Messages of this package never show a record. Those of other libraries may quote what they choked on, so the page
    shows their kind and not their text.

    >>> error_message(ValueError("could not convert string to float: 'secret'"))
    'That failed with a ValueError. Run the study with: ruvdecision run FILE --debug.'
    """
    chain = [error] if error.__cause__ is None else [error, error.__cause__]
    foreign = [type(one).__name__ for one in chain if not isinstance(one, RuvError)]
    if not foreign:
        return str(error)
    return f"That failed with a {foreign[0]}. Run the study with: ruvdecision run FILE --debug."
