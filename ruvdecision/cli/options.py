"""Arguments that several commands share, and a parser that fails with one line."""

from __future__ import annotations

import argparse
import math
from typing import NoReturn


class UsageError(Exception):
    """A command line that cannot be read."""


class Parser(argparse.ArgumentParser):
    """A parser that fails with one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def add_result_options(parser: argparse.ArgumentParser) -> None:
    """The threshold, where files go, and what the report looks like."""
    parser.add_argument(
        "--max-risk", type=number, metavar="T", help="choose the release of most utility with risk at most T"
    )
    parser.add_argument(
        "--out", metavar="DIR", help="write map.nc, map.csv, map.png and a report there (no files otherwise)"
    )
    parser.add_argument(
        "--format", choices=("html", "md"), default="html", help="write report.html (default) or report.md"
    )
    parser.add_argument(
        "--date",
        metavar="DATE",
        default="today",
        help="a date for the report (default: today; none: same map, same bytes)",
    )
    parser.add_argument(
        "--figures", action="store_true", help="write the report's pictures as SVG and PDF to DIR/figures too"
    )


def add_running_options(parser: argparse.ArgumentParser) -> None:
    """Who does the work, and where it is kept."""
    parser.add_argument(
        "--workers", type=workers, metavar="N", help="work in N processes (default: one); the map is the same"
    )
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="work on the dask cluster whose scheduler is there, e.g. tcp://host:8786"
    )
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="keep what is finished there: a run that was stopped or killed goes on when started again",
    )


def add_ending_options(parser: argparse.ArgumentParser) -> None:
    """What every command that writes a map takes last."""
    parser.add_argument("--force", action="store_true", help="write over files that exist")
    parser.add_argument("--quiet", action="store_true", help="print the choice only")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")


def count(text: str, most: int = 10**9) -> int:
    """A whole number from 1 on."""
    try:
        whole = int(text)
    except ValueError:
        whole = 0
    if not 1 <= whole <= most:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {most}; got {text[:40]!r}")
    return whole


def workers(text: str) -> int:
    """How many processes; more than any machine has cores is a slip of the finger."""
    return count(text, 4096)


def number(text: str) -> float:
    """A number; infinity is one."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number; got {text!r}") from None
    if math.isnan(number):
        raise argparse.ArgumentTypeError(f"must be a number; got {text!r}")
    return number
