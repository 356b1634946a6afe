"""``ruvdecision models``: list the studies of a directory."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import InputError
from .printing import line


def add(commands: Any) -> None:
    """Say what the command takes."""
    lister = commands.add_parser(
        "models", help="list the studies of a directory", description="List studies without running them."
    )
    lister.add_argument(
        "directory", metavar="DIR", nargs="?", default="models", help="where the studies are (default: models)"
    )
    lister.add_argument("--debug", action="store_true", help="show the traceback of an error")
    lister.set_defaults(command=models)


def models(options: argparse.Namespace) -> int:
    """Carry out the command."""
    from ..studies import find_studies

    found = find_studies(options.directory)
    if not found:
        raise InputError(
            f"There are no studies in {options.directory}", do="A study is a Python file with a function study"
        )
    width = max(len(listing.name) for listing in found)
    for listing in found:
        line(f"{listing.name:<{width}}  {listing.description}")
    return 0
