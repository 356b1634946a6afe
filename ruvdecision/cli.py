"""The command line: run a study, list the studies, measure releases that other tools made, open the page.

Exit codes: 0 when all went well, 2 for anything the caller can put right (one line on stderr says what),
130 after Ctrl-C. ``--debug`` shows the traceback as well. Results go to stdout, progress and errors to stderr.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

from ._version import __version__
from .datafingerprint import own_key
from .errors import InfeasibleError, InputError, RuvError, UnsupportedError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from .rumap import RUMap
    from .studies import Outcome

__all__ = ["main"]

#: How many releases the printed table shows; the files always hold all of them.
SHOWN = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    >>> main(["run", "no_such_study.py"])
    2
    """
    debug = False
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show ± shows ? and not an error
    try:
        options = _parser().parse_args(argv)
        debug = getattr(options, "debug", False)
        code: int = options.command(options)
        sys.stdout.flush()
        return code
    except _UsageError as error:
        return _fail(str(error))
    except RuvError as error:
        if debug:
            traceback.print_exc()
        return _fail(str(error))
    except KeyboardInterrupt:
        if debug:
            traceback.print_exc()
        return _fail("interrupted", code=130)
    except BrokenPipeError:
        # The reader (head, less) has gone. Keep Python from complaining once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _fail(f"unexpected {type(error).__name__}: {error}. Add --debug to see where.", code=1)


def run(options: argparse.Namespace) -> int:
    """Carry out ``ruvdecision run``."""
    from .progress import host
    from .running import using
    from .studies import load_study, parse_settings

    settings = parse_settings(options.set)
    out = None if options.out is None else Path(options.out)
    if out is not None:
        _check_out(out, [*_names(["map"]), f"report.{options.format}"], options.force)
    with _progress(options.quiet) as say:
        say(f"loading {options.file}")
        study = load_study(options.file)
        say(f"running {study.name}")
        if out is not None:
            own_key(create=True)  # so that the report can name the data
        with host(say), _hands(options) as executor, using(executor, options.checkpoint):
            outcome = study.run(**settings)
        max_risk = study.max_risk if options.max_risk is None else options.max_risk
        choices, misses = _choose(outcome, max_risk)
        written: list[Path] = []
        if out is not None:
            # Write before printing: a reader of stdout that goes away early must not cost the files.
            say(f"writing to {out}")
            written = _write(outcome, out, max_risk, options.force, options)
        notes = [] if options.quiet else outcome.notes()
    _show(outcome, choices, max_risk, notes, written, quiet=options.quiet)
    if misses:
        sys.stdout.flush()
        raise _merge(misses, outcome)
    return _stopped(outcome)


def models(options: argparse.Namespace) -> int:
    """Carry out ``ruvdecision models``."""
    from .studies import find_studies

    found = find_studies(options.directory)
    if not found:
        raise InputError(f"There are no studies in {options.directory}", do="A study is a Python file with a function study")
    width = max(len(listing.name) for listing in found)
    for listing in found:
        _line(f"{listing.name:<{width}}  {listing.description}")
    return 0


def measure(options: argparse.Namespace) -> int:
    """Carry out ``ruvdecision measure``."""
    from .empirical import measure as compare
    from .files import read_data
    from .spelled import spell_measures, split_names
    from .studies import Outcome, Study

    measures = spell_measures(
        options.measures,
        known=split_names(options.known),
        models=options.model,
        columns=split_names(options.columns),
        missing=options.missing,
    )
    names = _release_names(options.released)
    out = None if options.out is None else Path(options.out)
    if out is not None:
        _check_out(out, [*_names(["map"]), f"report.{options.format}"], options.force)
    with _progress(options.quiet) as say:
        say(f"reading {options.original}")
        original = read_data(options.original) if options.chunksize is None else options.original
        with _hands(options) as executor:
            rumap = compare(
                original,
                releases=names,
                measures=measures,
                key=options.key,
                risk=options.risk,
                utility=options.utility,
                executor=executor,
                checkpoint=options.checkpoint,
                chunksize=options.chunksize,
            )
        size = f" ({len(original):,} records)" if options.chunksize is None else ""
        text = f"{len(names)} release{'s' * (len(names) != 1)} of {options.original}{size}"
        outcome = Outcome(Study(Path(options.original), text, lambda: rumap), rumap, {"map": rumap})
        choices, misses = _choose(outcome, options.max_risk)
        written: list[Path] = []
        if out is not None:
            say(f"writing to {out}")
            written = _write(outcome, out, options.max_risk, options.force, options)
        notes = [] if options.quiet else [*_frontier_lines(rumap), *rumap.notes]
    _show(outcome, choices, options.max_risk, notes, written, quiet=options.quiet)
    if misses:
        sys.stdout.flush()
        raise _merge(misses, outcome)
    return _stopped(outcome)


def explore(options: argparse.Namespace) -> int:
    """Carry out ``ruvdecision explore``."""
    from .explore import explore as serve
    from .studies import parse_settings

    if options.set and options.file is None:
        raise InputError("--set is for a study file", ", ".join(options.set), "Name the file: ruvdecision explore models/FILE.py")
    serve(
        options.file,
        settings=parse_settings(options.set),
        host=options.host,
        port=options.port,
        browser=not options.no_browser,
        debug=options.debug,
    )
    return 0


def _stopped(outcome: Outcome) -> int:
    """The exit code: 130 if Ctrl-C came and the maps hold what was finished by then."""
    if not any(rumap.attrs.get("partial") for rumap in outcome.maps.values()):
        return 0
    sys.stdout.flush()
    return _fail("interrupted: the map has the releases that were finished", code=130)


@contextmanager
def _hands(options: argparse.Namespace) -> Iterator[Any]:
    """The executor that --workers or --dask ask for, or None."""
    if options.dask is not None:
        if options.workers is not None:
            raise InputError("--workers and --dask do not go together", f"{options.workers} and {options.dask}", "Give one of them")
        try:
            from distributed import Client
        except ImportError:
            raise UnsupportedError("--dask needs the package distributed, which is not installed", do="Install dask[distributed]") from None
        try:
            client = Client(options.dask, timeout="10s", set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            what = f"{type(error).__name__} at {options.dask}"
            raise InputError(
                "There is no dask scheduler to talk to", what, "Start one with dask scheduler, or check the address"
            ) from error
        with client:
            yield client.get_executor()
        return
    if options.workers is None or options.workers == 1:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor

    from .sharing import begin_worker

    # Ctrl-C is for this process, which then ends its workers: they should not answer it with tracebacks of their own.
    pool = ProcessPoolExecutor(options.workers, initializer=begin_worker)
    try:
        yield pool
    finally:
        workers = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()


def _release_names(paths: Sequence[str]) -> dict[str, str]:
    """Names of releases: the file's name without its ending where that is enough to tell them apart."""
    if len(set(paths)) != len(paths):
        raise InputError(
            "A released file is listed twice", ", ".join(p for p in dict.fromkeys(paths) if paths.count(p) > 1), "List it once"
        )
    for short in (lambda p: Path(p).name.split(".")[0] or Path(p).name, lambda p: Path(p).name, str):
        names = [short(p) for p in paths]
        if len(set(names)) == len(names):
            break
    return dict(zip(names, paths, strict=True))


def _frontier_lines(rumap: Any) -> list[str]:
    """Which releases no other one beats, by risk and utility and by all measures together."""
    lines = []
    try:
        best = rumap.frontier()
    except InputError:
        return []  # a map without risk or without utility; its notes say so
    lines.append(f"Frontier of {rumap.risk_score.name} and {rumap.utility_score.name}: {', '.join(best.releases)}")
    measures = list(rumap.attrs["better"])
    if len(measures) > 2:
        lines.append(f"Frontier of {', '.join(measures)}: {', '.join(rumap.frontier(columns=measures).releases)}")
    return lines


# -- arguments -----------------------------------------------------------------------------------------


class _UsageError(Exception):
    """A command line that cannot be read."""


class _Parser(argparse.ArgumentParser):
    """A parser that fails with one line."""

    def error(self, message: str) -> NoReturn:
        raise _UsageError(f"{message} (see {self.prog} --help)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="ruvdecision", description="Risk-utility maps for statistical disclosure limitation.")
    parser.add_argument("--version", action="version", version=f"ruvdecision {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    runner = commands.add_parser(
        "run",
        help="run a study: print its table and the choice, write its map",
        description="Run a study file. A study is code: run only files that you trust.",
    )
    runner.add_argument("file", metavar="FILE", help="a study, e.g. models/trottini_fienberg_normal.py")
    runner.add_argument("--max-risk", type=_number, metavar="T", help="choose the release of most utility with risk at most T")
    runner.add_argument("--out", metavar="DIR", help="write map.nc, map.csv, map.png and a report there (no files otherwise)")
    _add_report_options(runner)
    runner.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the study; may be given again")
    _add_running_options(runner)
    runner.add_argument("--force", action="store_true", help="write over files that exist")
    runner.add_argument("--quiet", action="store_true", help="print the choice only")
    runner.add_argument("--debug", action="store_true", help="show the traceback of an error")
    runner.set_defaults(command=run)

    comparer = commands.add_parser(
        "measure",
        help="map releases that other tools made: compare data files with the original",
        description="Compare released data files with the original: CSV, parquet, Stata, SPSS or SAS, by their endings.",
    )
    comparer.add_argument("original", metavar="ORIGINAL", help="the confidential file")
    comparer.add_argument(
        "released", metavar="RELEASED", nargs="+", help="released files, rows in the order of the original unless --key is given"
    )
    comparer.add_argument("--known", action="append", default=[], metavar="A,B", help="columns that the intruder knows (default: all)")
    comparer.add_argument(
        "--model", action="append", default=[], metavar="FORMULA", help='a regression to compare, "y ~ a + b"; may be given again'
    )
    comparer.add_argument(
        "--measures",
        action="append",
        default=[],
        metavar="NAMES",
        help='measures, "linkage,IO,KL,Cluster(clusters=50)" (default: linkage, and IO and EO with --model or else pMSE)',
    )
    comparer.add_argument(
        "--columns", action="append", default=[], metavar="A,B", help="columns for measures of the whole file (default: all)"
    )
    comparer.add_argument(
        "--missing", choices=("raise", "omit", "category"), help="what to do about missing values, where a measure can (default: raise)"
    )
    comparer.add_argument("--key", metavar="COLUMN", help="the column that says whose record a row is")
    comparer.add_argument("--risk", metavar="NAME", help="the measure on the risk axis (default: the first measure of risk)")
    comparer.add_argument("--utility", metavar="NAME", help="the measure on the utility axis (default: the first measure of utility)")
    comparer.add_argument("--max-risk", type=_number, metavar="T", help="choose the release of most utility with risk at most T")
    comparer.add_argument("--out", metavar="DIR", help="write map.nc, map.csv, map.png and a report there (no files otherwise)")
    _add_report_options(comparer)
    _add_running_options(comparer)
    comparer.add_argument(
        "--chunksize", type=_count, metavar="N", help="read files N records at a time, for files larger than memory (parquet and CSV)"
    )
    comparer.add_argument("--force", action="store_true", help="write over files that exist")
    comparer.add_argument("--quiet", action="store_true", help="print the choice only")
    comparer.add_argument("--debug", action="store_true", help="show the traceback of an error")
    comparer.set_defaults(command=measure)

    page = commands.add_parser(
        "explore",
        help="open a page with sliders: the lessons, or a study",
        description="Serve a page from this machine to this machine, until Ctrl-C. A study is code: open only files that you trust.",
    )
    page.add_argument("file", metavar="FILE", nargs="?", help="a study whose numeric settings become sliders (default: the lessons)")
    page.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting that the page does not move")
    page.add_argument("--port", type=int, metavar="PORT", help="the port (default: 8177, or the next free one)")
    page.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: 127.0.0.1, this machine only)")
    page.add_argument("--no-browser", action="store_true", help="do not open the browser")
    page.add_argument("--debug", action="store_true", help="show the traceback of an error")
    page.set_defaults(command=explore)

    lister = commands.add_parser("models", help="list the studies of a directory", description="List studies without running them.")
    lister.add_argument("directory", metavar="DIR", nargs="?", default="models", help="where the studies are (default: models)")
    lister.add_argument("--debug", action="store_true", help="show the traceback of an error")
    lister.set_defaults(command=models)
    return parser


def _add_report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("html", "md"), default="html", help="write report.html (default) or report.md")
    parser.add_argument(
        "--date",
        metavar="DATE",
        default="today",
        help="a date for the report (default: today; none: same map, same bytes)",
    )
    parser.add_argument("--figures", action="store_true", help="write the report's pictures as SVG and PDF to DIR/figures too")


def _add_running_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=_count, metavar="N", help="work in N processes (default: one); the map is the same")
    parser.add_argument("--dask", metavar="ADDRESS", help="work on the dask cluster whose scheduler is there, e.g. tcp://host:8786")
    parser.add_argument(
        "--checkpoint", metavar="DIR", help="keep what is finished there: a run that was stopped or killed goes on when started again"
    )


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on; got {text!r}")
    return number


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number; got {text!r}") from None
    if math.isnan(number):
        raise argparse.ArgumentTypeError(f"must be a number; got {text!r}")
    return number


# -- choosing ------------------------------------------------------------------------------------------


def _choose(outcome: Outcome, max_risk: float | None) -> tuple[dict[str, Any], dict[str, InfeasibleError]]:
    """Choose in every map; maps without a feasible release are kept apart, so that the others still show."""
    choices: dict[str, Any] = {}
    misses: dict[str, InfeasibleError] = {}
    if max_risk is not None:
        for name, rumap in outcome.maps.items():
            try:
                choices[name] = rumap.choose(max_risk=max_risk)
            except InfeasibleError as error:
                misses[name] = error
    return choices, misses


def _merge(misses: dict[str, InfeasibleError], outcome: Outcome) -> RuvError:
    name, first = next(iter(misses.items()))
    if not outcome.panel:
        return first
    others = len(misses) - 1
    also = f" (and {others} more of the {len(outcome.maps)} maps)" if others else ""
    return InfeasibleError(f"{name}{also}: {first.what}", first.got, first.do)


# -- files ---------------------------------------------------------------------------------------------


def _names(stems: Sequence[str]) -> list[str]:
    return [f"{stem}.{kind}" for stem in stems for kind in ("nc", "csv", "png")]


def _check_out(out: Path, names: Sequence[str], force: bool) -> None:
    """Refuse a directory that cannot be written to, or files in the way, before any work is done."""
    nearest = out
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir():
        raise InputError("--out must name a directory", str(out), f"{nearest} is a file; name another place")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError("--out must name a directory that can be written to", str(out), "Name another place, or change its permissions")
    taken = [str(out / name) for name in names if (out / name).exists()]
    if taken and not force:
        raise InputError("Files exist already", ", ".join(taken), "Add --force to write over them, or name another --out")


def _write(outcome: Outcome, out: Path, max_risk: float | None, force: bool, options: argparse.Namespace) -> list[Path]:
    """Write all files beside their places first and move them there together: whole files or none.

    A panel has its maps apart and one report with all of them.
    """
    from .report import write_report
    from .studies import file_name

    _use_files_only()
    figure = outcome.figure(max_risk)
    stems = {name: file_name(name) for name in outcome.maps}
    names = [f"{stem}.{kind}" for stem in stems.values() for kind in (("nc", "csv") if figure is not None else ("nc", "csv", "png"))]
    if figure is not None:
        names.append("map.png")
    names.append(f"report.{options.format}")
    _check_out(out, names, force)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".ruvdecision-", dir=out) as folder:
            stage = Path(folder)
            for name, rumap in outcome.maps.items():
                rumap.save(stage / f"{stems[name]}.nc")
                rumap.to_dataframe().to_csv(stage / f"{stems[name]}.csv", index=False)
                if figure is None:
                    _save_figure(rumap.plot(max_risk=max_risk).figure, stage / f"{stems[name]}.png")
            if figure is not None:
                _save_figure(figure, stage / "map.png")
            maps = outcome.maps if outcome.panel else outcome.maps["map"]
            title, report = outcome.study.description, stage / names[-1]
            date, figures = None if options.date == "none" else options.date, stage / "figures" if options.figures else None
            write_report(maps, report, max_risk, title=title, notes=_spoken(outcome), date=date, figures=figures)
            if figures is not None:
                drawn = [f"figures/{p.name}" for p in sorted(figures.iterdir())]
                _check_out(out, drawn, options.force)
                (out / "figures").mkdir(exist_ok=True)
                names += drawn
            for name in names:
                os.replace(stage / name, out / name)
    except OSError as error:
        what = error.strerror or str(error)
        raise InputError(f"{out} could not be written", what, "Check space and permissions, or name another --out") from error
    return [out / name for name in names]


def _spoken(outcome: Outcome) -> list[str]:
    """The study's notes for the report. If they fail, that is said when they are printed; the files are worth more."""
    try:
        return outcome.notes()
    except RuvError as error:
        return [f"The study's notes could not be had: {error}"]


def _use_files_only() -> None:
    """Draw into files and open no window, unless the caller has set matplotlib up already."""
    if "matplotlib.pyplot" not in sys.modules:
        import matplotlib

        matplotlib.use("Agg")


def _save_figure(figure: Figure, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)  # pyplot keeps every figure alive, and a panel may have many


# -- printing ------------------------------------------------------------------------------------------


def _show(
    outcome: Outcome, choices: dict[str, Any], max_risk: float | None, notes: Sequence[str], written: Sequence[Path], *, quiet: bool
) -> None:
    if not quiet:
        _line(outcome.study.description)
    for name, rumap in outcome.maps.items():
        chosen = choices.get(name)
        if not quiet:
            _table(
                rumap.to_dataframe(),
                _heads(rumap),
                None if chosen is None else str(chosen.release),
                name if outcome.panel else None,
                "all are in the CSV file" if written else "--out DIR writes all of them to a CSV file",
            )
        if chosen is not None:
            _line(f"{name}: {chosen}" if outcome.panel else str(chosen))
    if quiet:
        return
    if max_risk is None:
        _line("No threshold was given: add --max-risk T to choose a release.")
    for note in notes:
        _line(note)
    if written:
        _line("Wrote " + ", ".join(map(str, written)))


def _heads(rumap: RUMap) -> dict[str, str]:
    """The columns of numbers that a table shows, with their heads; risk and utility say which measure they are."""
    from .scores import Column

    heads = {"intruder_uncertainty": "intruder U", "scientist_uncertainty": "scientist U"}
    heads = {k: v for k, v in heads.items() if getattr(rumap, k.split("_")[0]) is not None}
    shown = set()
    for role in ("risk", "utility"):
        score = getattr(rumap, f"{role}_score")
        heads[role] = f"{role} ({score.name})" if isinstance(score, Column) else role
        if isinstance(score, Column) and score.score is None:
            shown.add(score.column)
    better = rumap.attrs.get("better", {})
    measures = {k: None for part in (better if isinstance(better, list) else [better]) for k in part}
    return heads | {name: name for name in measures if name in rumap.columns and name not in shown}


def _table(table: pd.DataFrame, numbers: dict[str, str], chosen: str | None, title: str | None, rest: str) -> None:
    """Print a map's table: at most `SHOWN` releases, spread evenly, the chosen one always among them."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    rows = _pick(table, chosen)
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, title=None if title is None else Text(title), title_justify="left")
    grid.add_column("")
    grid.add_column("release", overflow="fold")
    for head in numbers.values():
        grid.add_column(head, justify="right", no_wrap=True)
    engines = sorted(set(table["engine"].astype(str))) if "engine" in table else []
    if len(engines) > 1:
        grid.add_column("engine")
    for position in rows:
        row = table.iloc[position]
        is_chosen = chosen is not None and str(row["release"]) == chosen
        cells = [_cell(row, column) for column in numbers]
        extra = [str(row["engine"])] if len(engines) > 1 else []
        texts = ["*" if is_chosen else "", str(row["release"]), *cells, *extra]
        grid.add_row(*map(Text, texts), style="bold" if is_chosen else None)
    _console(sys.stdout).print(grid)
    if len(rows) < len(table):
        _line(f"  ... and {len(table) - len(rows)} more ({rest})")


def _pick(table: pd.DataFrame, chosen: str | None) -> list[int]:
    total = len(table)
    if total <= SHOWN:
        return list(range(total))
    rows = {round(i * (total - 1) / (SHOWN - 1)) for i in range(SHOWN)}
    if chosen is not None:
        rows.update(i for i, release in enumerate(table["release"].astype(str)) if release == chosen)
    return sorted(rows)


def _cell(row: pd.Series[Any], column: str) -> str:
    text = f"{row[column]:.6g}"
    error = row.get(f"{column}_error", 0.0)
    return f"{text} ± {error:.2g}" if error is not None and error > 0 else text


def _console(stream: IO[str]) -> Any:
    from rich.console import Console

    # Not a terminal: a file or a pipe has no width, so do not fold lines for it.
    return Console(file=stream, highlight=False, soft_wrap=False, width=None if stream.isatty() else 240)


def _line(text: str) -> None:
    # Plain print, not rich: labels may hold brackets, and a sentence should not be folded when it is piped.
    sys.stdout.write(text + "\n")


@contextmanager
def _progress(quiet: bool) -> Iterator[Any]:
    """Show what is being done and for how long, on stderr, if somebody is there to see it."""
    from .progress import host

    if quiet or not sys.stderr.isatty():
        with host(lambda text: None):
            yield lambda text: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=_console(sys.stderr), transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
        task = progress.add_task("starting", total=None)
        doing = [""]

        def say(text: str) -> None:
            doing[0] = text
            progress.update(task, description=text)

        # What evaluate has to tell goes on the same line.
        with host(lambda text: progress.update(task, description=f"{doing[0]}: {text}")):
            yield say


def _fail(message: str, code: int = 2) -> int:
    """Say what is wrong in one line on stderr."""
    try:
        sys.stderr.write("ruvdecision: error: " + " ".join(message.split()) + "\n")
        sys.stderr.flush()
    except BrokenPipeError:
        pass
    return code
