"""A progress bar for long work: on the terminal, on standard error, and only once the work has taken a while."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from types import TracebackType
from typing import Any

__all__ = ["Bar", "host"]

PATIENCE = 0.7
"""Seconds before a bar appears, so that quick work stays quiet."""

_HOST: ContextVar[Callable[[str], None] | None] = ContextVar("host", default=None)


@contextmanager
def host(say: Callable[[str], None]) -> Iterator[None]:
    """Send what bars have to tell to ``say``, for a program that has a progress line of its own."""
    token = _HOST.set(say)
    try:
        yield
    finally:
        _HOST.reset(token)


class Bar:
    """Show how much of some work is done and how long the rest will take.

    Parameters
    ----------
    text : str
        What is being done.
    show : bool, optional
        True shows the bar, False never does; by default it is shown if standard error is a terminal.

    >>> with Bar("counting", show=False) as bar:
    ...     bar.tell(0.5)
    """

    def __init__(self, text: str, show: bool | None = None) -> None:
        self.text = text
        self.show = sys.stderr.isatty() if show is None else bool(show)
        self.start = monotonic()
        self._bar: Any = None
        self._task: Any = None

    def tell(self, share: float) -> None:
        """Say which share of the work is done, from 0 to 1."""
        say = _HOST.get()
        if say is not None:
            say(f"{self.text}: {min(max(share, 0.0), 1.0):.0%}")
            return
        if not self.show or (self._bar is None and monotonic() - self.start < PATIENCE):
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self.text, total=1.0)
        self._bar.update(self._task, completed=min(max(share, 0.0), 1.0))

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
