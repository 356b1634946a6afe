"""What the commands take, the executor that they ask for, and a parser that fails with one line.

Nothing heavy is imported: help must be quick.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from ..data.files import check_file, study_directory, study_source
from ..errors import InputError, UnsupportedError

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


MISSING = ("category", "wildcard", "pairwise", "impute", "omit", "raise")
"""`measures.missing.CHOICES`, without what that imports: help must be quick."""


class UsageError(Exception):
    """A command line that cannot be read."""


class Parser(argparse.ArgumentParser):
    """A parser that fails with one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def print_error(message: str, code: int = 2) -> int:
    """Say what is wrong in one line on stderr, and give back the exit code."""
    try:
        sys.stderr.write("ruvdecision: error: " + " ".join(message.split()) + "\n")
        sys.stderr.flush()
    except OSError:
        pass  # nobody can hear it; the exit code still tells
    return code


def add_run(commands: Commands) -> None:
    """Say what ``run`` takes."""
    runner = commands.add_parser(
        "run",
        help="run a study: print its table and the choice, write its map",
        description="Run a study file. A study is code: run only files that you trust.",
    )
    runner.add_argument("file", metavar="FILE", help="a study, e.g. models/trottini_fienberg_normal.py")
    add_result_options(runner)
    runner.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the study; may be given again"
    )
    add_running_options(runner)
    add_ending_options(runner)
    runner.set_defaults(command="run", find=lambda options: study_source(options.file))


def add_measure(commands: Commands) -> None:
    """Say what the command takes."""
    comparer = commands.add_parser(
        "measure",
        help="map releases that other tools made: compare data files with the original",
        description="Compare released data files with the original: CSV, parquet, Stata, SPSS or SAS, by their "
        "endings.",
    )
    comparer.add_argument("original", metavar="ORIGINAL", help="the confidential file")
    comparer.add_argument(
        "released",
        metavar="RELEASED",
        nargs="+",
        help="released files, or NAME=FILE; rows in the order of the original unless --key is given",
    )
    listed: dict[str, Any] = {"action": "append", "default": []}
    comparer.add_argument("--known", metavar="A,B", help="columns that the intruder knows (default: all)", **listed)
    again = 'a regression to compare, "y ~ a + b"; may be given again'
    comparer.add_argument("--model", metavar="FORMULA", help=again, **listed)
    comparer.add_argument(
        "--measures",
        action="append",
        default=[],
        metavar="NAMES",
        help='measures, "linkage,KL,l_diversity(target=income)"; or risk, utility, all: every one that suits the file '
        "(default: linkage, replicated_uniques and general utility; linkage, IO and EO with --model)",
    )
    whole = "columns for measures of the whole file (default: all)"
    comparer.add_argument("--columns", metavar="A,B", help=whole, **listed)
    comparer.add_argument(
        "--missing",
        choices=MISSING,
        help="how to take missing values (default: as suits each measure); a measure that cannot says so",
    )
    comparer.add_argument("--weights", metavar="COLUMN", help="the column of sampling weights, which every file has")
    comparer.add_argument("--by", metavar="COLUMN", help="give every measure for each value of this column as well")
    comparer.add_argument("--sep", metavar="S", help="what separates columns in CSV files (default: recognised)")
    comparer.add_argument("--decimal", metavar="D", help="the decimal sign in CSV files (default: recognised)")
    comparer.add_argument("--encoding", metavar="E", help="the encoding of CSV files, e.g. latin-1 (default: UTF-8)")
    comparer.add_argument("--key", metavar="COLUMN", help="the column that says whose record a row is")
    comparer.add_argument(
        "--risk", metavar="NAME", help="the measure on the risk axis (default: the first measure of risk)"
    )
    comparer.add_argument(
        "--utility", metavar="NAME", help="the measure on the utility axis (default: the first measure of utility)"
    )
    add_result_options(comparer)
    comparer.add_argument(
        "--plot", metavar="FILE", nargs="?", const="", help="write the map to a .png, .pdf or .svg file; alone: show it"
    )
    add_running_options(comparer)
    comparer.add_argument(
        "--chunksize",
        type=parse_count,
        metavar="N",
        help="read files N records at a time, for files larger than memory (parquet and CSV)",
    )
    add_ending_options(comparer)
    comparer.set_defaults(command="measure", find=_find_data)


def add_explore(commands: Commands) -> None:
    """Say what ``explore`` takes."""
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
    page.add_argument(
        "--export", metavar="LESSON", help="write this lesson as LESSON.html, a page without a program, and end"
    )
    page.add_argument("--no-browser", action="store_true", help="do not open the browser")
    page.add_argument("--debug", action="store_true", help="show the traceback of an error")
    page.set_defaults(command="explore", find=lambda options: options.file and study_source(options.file))


def add_models(commands: Commands) -> None:
    """Say what ``models`` takes."""
    lister = commands.add_parser(
        "models", help="list the studies of a directory", description="List studies without running them."
    )
    lister.add_argument(
        "directory", metavar="DIR", nargs="?", default="models", help="where the studies are (default: models)"
    )
    lister.add_argument("--debug", action="store_true", help="show the traceback of an error")
    lister.set_defaults(command="models", find=lambda options: study_directory(options.directory))


def add_result_options(parser: argparse.ArgumentParser) -> None:
    """The threshold, where files go, and what the report looks like."""
    parser.add_argument(
        "--max-risk", type=parse_number, metavar="T", help="choose the release of most utility with risk at most T"
    )
    parser.add_argument(
        "--min-utility",
        type=parse_number,
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
        "--workers",
        type=partial(parse_count, most=4096),
        metavar="N",
        help="work in N processes (default: one); the map is the same",
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


def parse_count(text: str, most: int = 10**9) -> int:
    """A whole number from 1 on."""
    try:
        whole = int(text)
    except ValueError:
        whole = 0
    if not 1 <= whole <= most:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {most}; got {text[:40]!r}")
    return whole


def parse_number(text: str) -> float:
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


def _find_data(options: argparse.Namespace) -> None:
    """Look for all files, before the first is read."""
    for path in (options.original, *release_names(options.released).values()):
        check_file(path)


def release_names(given: Sequence[str]) -> dict[str, str]:
    """Names of releases: as given, NAME=FILE, or the file's name without its ending where that tells them apart."""
    pairs = [text.partition("=")[::2] if "=" in text and not Path(text).exists() else ("", text) for text in given]
    named = [(name.strip(), path) for name, path in pairs if name.strip()]
    if len({name for name, _ in named}) != len(named):
        raise InputError("Two releases have the same name", ", ".join(n for n, _ in named), "Give each its own")
    rest = _short_names([path for name, path in pairs if not name.strip()])
    both = [name for name, _ in named if name in rest]
    if both:
        raise InputError("Two releases have the same name", ", ".join(both), "Give each its own, NAME=FILE")
    found = {path: name for name, path in (*rest.items(), *named)}
    if len(found) != len(given):
        raise InputError("A released file is listed twice", ", ".join(given), "List it once")
    return {found[path]: path for _, path in pairs}


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    """Files by their names without endings where that is enough to tell them apart."""
    if len(set(paths)) != len(paths):
        raise InputError(
            "A released file is listed twice",
            ", ".join(p for p in dict.fromkeys(paths) if paths.count(p) > 1),
            "List it once",
        )
    # A name in bytes that are no UTF-8 can be opened, but neither printed nor kept.
    shown = [p.encode("utf-8", "replace").decode("utf-8") for p in paths]
    for short in (lambda p: Path(p).name.split(".")[0] or Path(p).name, lambda p: Path(p).name, str):
        names = [short(p) for p in shown]
        if len(set(names)) == len(names):
            break
    if len(set(names)) != len(names):
        raise InputError("Released files cannot be told apart by their names", ", ".join(names), "Rename them")
    return dict(zip(names, paths, strict=True))
