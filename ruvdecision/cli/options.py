"""Arguments that several commands share, the executor that they ask for, and a parser that fails with one line."""

from __future__ import annotations

import argparse
import math
import multiprocessing
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import NoReturn, TypeAlias

from ..errors import InputError, UnsupportedError

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


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
        "--min-utility",
        type=number,
        metavar="U",
        help="and utility at least U, a floor for what is worth it",
    )
    parser.add_argument(
        "--out", metavar="DIR", help="write map.nc, map.csv, map.png and a report there (no files otherwise)"
    )
    parser.add_argument(
        "--format", choices=("html", "pdf", "md"), default="html", help="write report.html (default), .pdf or .md"
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
        found = float(text)
    except ValueError:
        found = math.nan
    if math.isnan(found):
        raise argparse.ArgumentTypeError(f"must be a number; got {text!r}")
    return found


@contextmanager
def executor_of(options: argparse.Namespace) -> Iterator[Executor | None]:
    """The executor that --workers or --dask ask for, or None."""
    if options.dask is not None:
        if options.workers is not None:
            got = f"{options.workers} and {options.dask}"
            raise InputError("--workers and --dask do not go together", got, "Give one of them")
        try:
            from distributed import Client
        except ImportError:
            what = "--dask needs the package distributed, which is not installed"
            raise UnsupportedError(what, do="Install dask[distributed]") from None
        try:
            client = Client(options.dask, timeout="10s", set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            got, do = f"{type(error).__name__} at {options.dask}", "Start one with dask scheduler, or check the address"
            raise InputError("There is no dask scheduler to talk to", got, do) from error
        with client:
            yield client.get_executor()
        return
    if options.workers is None or options.workers == 1:
        yield None
        return
    pool = ProcessPoolExecutor(options.workers, initializer=_begin_worker)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the workers end, too
    try:
        yield pool
    finally:
        signal.signal(signal.SIGTERM, before)
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in multiprocessing.active_children():
            worker.terminate()


def _begin_worker() -> None:
    # Ctrl-C is for the process that started the workers, which then ends them: they should not answer with tracebacks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
