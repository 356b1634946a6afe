"""``ruvdecision explore``: open a page with sliders."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import InputError


def add(commands: Any) -> None:
    """Say what the command takes."""
    page = commands.add_parser(
        "explore",
        help="open a page with sliders: the lessons, or a study",
        description="Serve a page from this machine to this machine, until Ctrl-C. A study is code: open only files "
        "that you trust.",
    )
    page.add_argument(
        "file", metavar="FILE", nargs="?", help="a study whose numeric settings become sliders (default: the lessons)"
    )
    page.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting that the page does not move"
    )
    page.add_argument("--port", type=int, metavar="PORT", help="the port (default: 8177, or the next free one)")
    page.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: 127.0.0.1, this machine only)"
    )
    page.add_argument("--no-browser", action="store_true", help="do not open the browser")
    page.add_argument("--debug", action="store_true", help="show the traceback of an error")
    page.set_defaults(command=explore)


def explore(options: argparse.Namespace) -> int:
    """Carry out the command."""
    from ..explore import explore as serve
    from ..studies import parse_settings

    if options.set and options.file is None:
        raise InputError(
            "--set is for a study file", ", ".join(options.set), "Name the file: ruvdecision explore models/FILE.py"
        )
    serve(
        options.file,
        settings=parse_settings(options.set),
        host=options.host,
        port=options.port,
        browser=not options.no_browser,
        debug=options.debug,
    )
    return 0
