"""``ruvdecision measure``: map releases that other tools made."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .options import Commands, add_ending_options, add_result_options, add_running_options, count, executor_of
from .results import Results, check_out, progress_line

if TYPE_CHECKING:
    from ..maps.rumap import RUMap


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
        help="released files, rows in the order of the original unless --key is given",
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
        help='measures, "linkage,IO,KL,Cluster(clusters=50)" (default: linkage, and IO and EO with --model or else '
        "pMSE)",
    )
    whole = "columns for measures of the whole file (default: all)"
    comparer.add_argument("--columns", metavar="A,B", help=whole, **listed)
    comparer.add_argument(
        "--missing",
        choices=("raise", "omit", "category"),
        help="what to do about missing values, where a measure can (default: raise)",
    )
    comparer.add_argument("--key", metavar="COLUMN", help="the column that says whose record a row is")
    comparer.add_argument(
        "--risk", metavar="NAME", help="the measure on the risk axis (default: the first measure of risk)"
    )
    comparer.add_argument(
        "--utility", metavar="NAME", help="the measure on the utility axis (default: the first measure of utility)"
    )
    add_result_options(comparer)
    add_running_options(comparer)
    comparer.add_argument(
        "--chunksize",
        type=count,
        metavar="N",
        help="read files N records at a time, for files larger than memory (parquet and CSV)",
    )
    add_ending_options(comparer)
    comparer.set_defaults(command=measure)


def measure(options: argparse.Namespace) -> int:
    """Carry out the command."""
    from ..data.read import check_file, read_data
    from ..measure import measure as compare
    from ..studies import Outcome, Study
    from .measure_names import spell_measures, split_names

    measures = spell_measures(
        options.measures,
        known=split_names(options.known),
        models=options.model,
        columns=split_names(options.columns),
        missing=options.missing,
    )
    names = _release_names(options.released)
    out = check_out(options)
    for path in (options.original, *options.released):
        check_file(path)  # all of them, before the first is read
    with progress_line(options.quiet) as say:
        say(f"reading {options.original}")
        original = read_data(options.original) if options.chunksize is None else options.original
        with executor_of(options) as executor:
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
        results = Results(outcome, options.max_risk, options)
        results.write(out, say)
        notes = [] if options.quiet else [*_frontier_lines(rumap), *rumap.notes]
    return results.show(notes)


def _release_names(paths: Sequence[str]) -> dict[str, str]:
    """Names of releases: the file's name without its ending where that is enough to tell them apart."""
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


def _frontier_lines(rumap: RUMap) -> list[str]:
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
