"""A progress bar for long work: on the terminal, on standard error, and only once the work has taken a while."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING

from ..checks import check_flag

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Stopped(BaseException):
    """A host stops what it hears from. Not an Exception: a study that catches those must not catch this."""


PATIENCE = 0.7
"""Seconds before a bar appears, so that quick work stays quiet."""

_HOST: ContextVar[Callable[[str], None] | None] = ContextVar("host", default=None)


@contextmanager
def report_progress_to(say: Callable[[str], None]) -> Iterator[None]:
    """Send what bars have to tell to ``say``, for a program that has a progress line of its own."""
    token = _HOST.set(say)
    try:
        yield
    finally:
        _HOST.reset(token)


class Bar:
    """Show how much of some work is done and how long the rest will take.

    The time left follows from the pace since the first word about the work, so that a run which goes on from a
    checkpoint does not count what was there already as fast work.

    Parameters
    ----------
    text : str
        What is being done.
    show : bool, optional
        True shows the bar, False never does; by default it is shown if standard error is a terminal.

    >>> with Bar("counting", show=False) as bar:
    ...     bar.update(0.5, note="R-hat 1.01")
    """

    def __init__(self, text: str, show: bool | None = None) -> None:
        self.text = text
        self.show = sys.stderr.isatty() if show is None else check_flag("progress", show, "Leave it out, or write True")
        self.start = monotonic()
        self._first: tuple[float, float] | None = None
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def update(self, share: float, note: str = "") -> None:
        """Say which share of the work is done, from 0 to 1, and perhaps a few words, such as the current R-hat."""
        share = min(max(share, 0.0), 1.0)
        left = self._seconds_left(share)
        say = _HOST.get()
        if say is not None:
            say(", ".join(part for part in (f"{self.text}: {share:.0%}", note, left) if part))
            return
        if not self.show or (self._bar is None and monotonic() - self.start < PATIENCE):
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TextColumn("{task.fields[note]}", markup=False),
                TextColumn("{task.fields[left]}"),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self.text, total=1.0, note="", left="")
        assert self._task is not None
        self._bar.update(self._task, completed=share, note=note, left=left)

    def _seconds_left(self, share: float) -> str:
        now = monotonic()
        if self._first is None or share < self._first[1]:
            self._first = (now, share)
        since, before = self._first
        if share <= before or share >= 1:
            return ""
        return time_left((now - since) * (1 - share) / (share - before))

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def time_left(seconds: float) -> str:
    """A time to wait in words.

    >>> time_left(42.4), time_left(150), time_left(7500)
    ('42 s left', '2 min 30 s left', '2 h 5 min left')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s left"
    if whole < 600:
        return f"{whole // 60} min {whole % 60} s left"
    minutes = round(seconds / 60)
    return f"{minutes} min left" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min left"
