"""Open the page, or write one of its lessons as a file."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path

from ..checks import suggest
from ..data.write import as_output_path, write_files
from ..errors import InputError, UnsupportedError
from ..studies import Study, load_study

try:
    from .lessons import LESSONS
    from .page import static_page
    from .server import Server
    from .study import study_topic
except ImportError as error:
    if error.name != "panel":
        raise
    do = 'Install it with: pip install "ruvdecision[explore]"'
    raise UnsupportedError("The page needs the package panel, which is not installed", do=do) from None


def explore(
    study: str | Path | Study | None = None,
    *,
    settings: Mapping[str, object] | None = None,
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
    settings: Mapping[str, object] | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    debug: bool = False,
) -> Server:
    """A server that listens already; ``with`` serves it from a thread, `Server.run` from here. See `explore`.

    >>> with open_server(port=0) as server:
    ...     [topic.name for topic in server.topics]
    ['normal', 'snooper', 'weights', 'table', 'pram', 'microdata']
    """
    if study is None:
        return Server(LESSONS, host, port, debug)
    topic = study_topic(study if isinstance(study, Study) else load_study(study), settings)
    return Server([topic], host, port, debug)


def export_lesson(name: str, path: str | Path, *, overwrite: bool = False, dark: bool = False) -> Path:
    """Write a lesson as one HTML file that opens without any program: some of its states, computed beforehand.

    Parameters
    ----------
    name : str
        The lesson, as the page's address has it: "normal", "snooper", "weights", "table", "pram", "microdata".
    path : str or Path
        Where to write.
    overwrite : bool
        Write over a file that exists.
    dark : bool
        Draw on dark paper.

    >>> export_lesson("table", "table.html").name  # doctest: +SKIP
    'table.html'
    """
    known = {topic.name: topic for topic in LESSONS}
    if name not in known:
        raise InputError("There is no such lesson", name, suggest(name, list(known)))
    place = as_output_path(path)
    return write_files({place: static_page(known[name], dark).encode("utf-8")}, overwrite=overwrite)[-1]
