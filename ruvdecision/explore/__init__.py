"""The page to play with: ``ruvdecision explore`` serves it from this machine to this machine.

A student moves sliders and sees the map, the chosen release, both posteriors and the sentence that explains the choice
change at once. Every number and every drawing is made by this package, on the server; the page itself holds no formula.
It is a small server of the standard library and one hand-written page with native controls, and not Panel or a like
framework, because then it

- needs nothing to be installed, starts as fast as the package is imported, and fetches nothing from a network;
- has the browser's own sliders, which work with the keyboard, a finger and a screen reader;
- answers a slider in a few hundredths of a second: one small request, one drawing;
- can be held to a strict policy: no inline script, no other site, no state on the server but the last few maps.

State lives in the page's address, so a setting is shared by sharing a link; no record is ever part of it. `LESSONS` are
the built-in topics, `study` turns a study file into one, `desk` answers, `server` speaks HTTP.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..studies import Study, load_study
from . import normal, snooper, twovariables
from .server import Server
from .study import StudyTopic

__all__ = ["LESSONS", "Server", "explore", "open_server"]

LESSONS = (normal.LESSON, snooper.LESSON, twovariables.LESSON)
"""The built-in lessons, in the order in which the page lists them."""


def explore(
    study: str | Path | Study | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    browser: bool = True,
    debug: bool = False,
) -> None:
    """Serve the page until Ctrl-C.

    Parameters
    ----------
    study : path or Study, optional
        A study file, whose numeric settings become sliders; the built-in lessons if not given. A study is code: open
        only files that you trust.
    settings : mapping, optional
        Settings of the study that the page does not move.
    host : str
        The address to listen at. Any but 127.0.0.1 opens the page to the network, and it says so.
    port : int, optional
        The port; 0 takes a free one. By default 8177, or the next free one.
    browser : bool
        Open the page in the browser.
    debug : bool
        Write tracebacks of the study to standard error.
    """
    server = open_server(study, settings=settings, host=host, port=port, debug=debug)
    sys.stdout.write(f"The page is at {server.url} (Ctrl-C ends it)\n")
    if not server.local:
        sys.stdout.write("Everybody on the network can reach it: leave --host out to keep it to this machine.\n")
    sys.stdout.flush()
    if browser:
        import webbrowser

        webbrowser.open(server.url)
    try:
        server.run()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()


def open_server(
    study: str | Path | Study | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    debug: bool = False,
) -> Server:
    """A server that listens already; ``with`` serves it from a thread, `Server.run` from here. See `explore`.

    >>> with open_server(port=0) as server:
    ...     sorted(server.desk.topics)
    ['normal', 'snooper', 'weights']
    """
    if study is None:
        return Server(LESSONS, host, port)
    topic = StudyTopic(study if isinstance(study, Study) else load_study(study), settings, debug)
    return Server([topic], host, port)
