"""``ruvdecision measure``: map releases that other tools made."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .options import Commands, add_ending_options, add_result_options, add_running_options, count, executor_of
from .results import Results, check_out, check_picture, progress_line

if TYPE_CHECKING:
    from ..maps.rumap import RUMap


MISSING = ("category", "wildcard", "pairwise", "impute", "omit", "raise")
"""`measures.missing.CHOICES`, without what that imports: help must be quick."""


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
        help='measures, "linkage,IO,KL,Cluster(clusters=50)"; or risk, utility, all: every one that suits the file '
        "(default: linkage, and IO and EO with --model or else general utility)",
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

    def spell(rows: int) -> list[Any]:
        return spell_measures(
            options.measures,
            known=split_names(options.known),
            models=options.model,
            columns=split_names(options.columns),
            missing=options.missing,
            weights=options.weights,
            by=options.by,
            rows=rows,
        )

    spell(0)  # a slip in a name should not cost the reading
    names = _release_names(options.released)
    out, picture = check_out(options), check_picture(options)
    for path in (options.original, *names.values()):
        check_file(path)  # all of them, before the first is read
    how = {k: getattr(options, k) for k in ("sep", "decimal", "encoding") if getattr(options, k) is not None}
    if how and options.chunksize is not None:
        given = ", ".join(f"--{k}" for k in how)
        raise InputError(
            f"--chunksize recognises how files are written and takes no {given}", do="Leave one of them out"
        )
    with progress_line(options.quiet) as say:
        say(f"reading {options.original}")
        original = read_data(options.original, **how) if options.chunksize is None else options.original
        releases = {name: read_data(path, **how) for name, path in names.items()} if how else names
        with executor_of(options) as executor:
            rumap = compare(
                original,
                releases=releases,
                measures=spell(0 if options.chunksize else len(original)),
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
        results.draw(picture)
        notes = [] if options.quiet else [*_frontier_lines(rumap), *_group_lines(rumap, options.by), *rumap.notes]
    return results.show(notes)


def _release_names(given: Sequence[str]) -> dict[str, str]:
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


def _group_lines(rumap: RUMap, by: str | None) -> list[str]:
    """What each measure says of every group, a line for each release."""
    lines = []
    for measure in rumap.attrs["better"] if by is not None else ():
        start = f"{measure}.{by}="
        groups = {name.removeprefix(start): v for name, v in rumap.columns.items() if name.startswith(start)}
        for i, release in enumerate(rumap.releases):
            each = ", ".join(f"{level} {values[i]:.4g}" for level, values in groups.items())
            lines.append(f"{measure} by {by}, {release}: {each}")
    return lines


#: How the command line says what Python's arguments say.
SAYINGS = (
    (r"\b(?:known|keys)=\[\.\.\.\]", "--known A,B"),
    (r"\bcolumns=\[\.\.\.\]", "--columns A,B"),
    (r"\bmeasures=\[[^]]*\]", "--measures NAMES"),
    (r"\b(missing|weights|by)=['\"](\w+)['\"]", r"--\1 \2"),
    (r"\b(weights|by)= out\b", r"--\1 out"),
    (r"\b(?:write )?missing= another choice", "give another --missing"),
    (r"\bencoding='([\w-]+)'", r"--encoding \1"),
    (r"\bchunksize=", "--chunksize"),
    (r"\bLeave (risk|utility|key|columns|known|model) out\b", r"Leave --\1 out"),
    (
        r"Set the respondents' key as the index of both files",
        "Say which column tells whose record a row is: --key COLUMN",
    ),
    (r"Sort it, released\.loc\S+, or drop its labels, \S+", "Sort its rows as the original's, or give --key COLUMN"),
    (r"Write releases=\{.*\}", "List the released files"),
)


def in_options(text: str) -> str:
    """An error's text with the command line's options instead of Python's arguments.

    >>> in_options("Choose the numeric ones with columns=[...], or convert these.")
    'Choose the numeric ones with --columns A,B, or convert these.'
    """
    for pattern, words in SAYINGS:
        text = re.sub(pattern, words, text)
    return text
