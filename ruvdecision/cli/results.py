"""What the maps of a command lead to: the choice in each, the files, the text on stdout and the exit code."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from ..data.write import check_output_paths, is_valid_path, write_files
from ..decide import Choice
from ..errors import InfeasibleError, InputError, RuvError
from ..maps.rumap import RUMap
from ..maps.show import better_end, evenly_spaced, format_entry, with_readable_labels
from ..maps.storage import as_bytes
from ..running.progress import report_progress_to
from ..studies import Outcome, file_name
from .options import print_error

if TYPE_CHECKING:
    from rich.console import Console

#: How many releases the printed table shows; the files always hold all of them.
SHOWN = 20
FREE = "Add --force to write over them, or name another --out"
Say = Callable[[str], None]


@dataclass
class Results:
    """The choice in every map of a command, and the files that were written.

    Parameters
    ----------
    outcome : Outcome
        The maps. Those without a feasible release are kept apart, so that the others still show.
    max_risk : float or None
        The threshold.
    options : Namespace
        Of the command.
    """

    outcome: Outcome
    max_risk: float | None
    options: argparse.Namespace
    choices: dict[str, Choice] = field(default_factory=dict)
    misses: dict[str, InfeasibleError] = field(default_factory=dict)
    written: Sequence[Path] = ()

    def __post_init__(self) -> None:
        for name, rumap in self.outcome.maps.items() if self.max_risk is not None else ():
            try:
                self.choices[name] = rumap.choose(max_risk=self.max_risk, **self.rule)
            except InfeasibleError as error:
                self.misses[name] = error

    @property
    def rule(self) -> dict[str, Any]:
        """What the choice must meet besides the threshold."""
        floor = vars(self.options).get("min_utility")
        return {} if floor is None else {"min_utility": floor}

    def write(self, out: Path | None, say: Say) -> None:
        """Make all files and write them together. A panel has its maps apart and one report with all of them."""
        if out is None:
            return
        from ..plots.theme import use_files_only
        from ..report import report_files

        options, maps = self.options, self.outcome.maps
        say(f"writing to {options.out}")
        use_files_only()
        own = self.outcome.picture(self.max_risk)
        stems = {name: out / file_name(name) for name in maps}
        unknown = {name: np.isnan(rumap.risk) | np.isnan(rumap.utility) for name, rumap in maps.items()}
        drawn = [name for name in maps if own is None and not np.all(unknown[name])]
        kinds = {name: ("nc", "csv", "png") if name in drawn else ("nc", "csv") for name in maps}
        places = [stem.with_name(f"{stem.name}.{kind}") for name, stem in stems.items() for kind in kinds[name]]
        _check_places(out, [*places, *([out / "map.png"] if own else []), out / f"report.{options.format}"], options)
        files: dict[Path, bytes] = {}
        for name, rumap in maps.items():
            table = rumap.to_dataframe().to_csv(index=False, lineterminator="\n")
            made = [as_bytes(rumap), table.encode("utf-8", "replace")]
            made += [_draw_picture(rumap, self.max_risk, ".png", self.rule)] if name in drawn else []
            files |= {out / f"{stems[name].name}.{kind}": each for kind, each in zip(kinds[name], made, strict=True)}
        files |= {} if own is None else {out / "map.png": own}
        try:
            notes = self.outcome.notes()
        except RuvError as error:  # said again when the notes are printed: files are worth more
            notes = [f"The study's notes could not be had: {error}"]
        report = report_files(
            maps if self.outcome.panel else maps["map"],
            out / f"report.{options.format}",
            self.max_risk,
            title=self.outcome.study.description,
            notes=notes,
            rule=self.rule or None,
            date=None if options.date == "none" else options.date,
            figures=out / "figures" if options.figures else None,
        )
        page = out / f"report.{options.format}"
        files |= {page: report.pop(page)} | report
        found = write_files(files, overwrite=options.force, folders=True, do=FREE)
        self.written = [Path(options.out) / place.relative_to(out) for place in found]

    def draw(self, picture: Path | None) -> None:
        """Write the map to a file of its own, or show it in a window."""
        if self.options.plot is None:
            return
        (rumap,) = self.outcome.maps.values()
        if picture is None:
            from ..plots.theme import show_windows

            with_readable_labels(rumap).plot(max_risk=self.max_risk, rule=self.rule)
            show_windows()
            return
        from ..plots.theme import use_files_only

        use_files_only()
        found = write_files(
            {picture: _draw_picture(rumap, self.max_risk, picture.suffix, self.rule)},
            overwrite=self.options.force,
            do=FREE,
        )
        self.written = [*self.written, *(Path(self.options.plot) for _ in found)]

    def show(self, notes: Sequence[str]) -> int:
        """Print the tables, the choice, the notes and what was written; with --quiet the choice only.

        Returns the exit code, or raises the error of a threshold that no release meets.
        """
        panel, quiet = self.outcome.panel, self.options.quiet
        if not quiet:
            print_line(self.outcome.study.description)
        for name, rumap in self.outcome.maps.items():
            choice = self.choices.get(name)
            if not quiet:
                rest = "all are in the CSV file" if self.written else "--out DIR writes all of them to a CSV file"
                _print_table(rumap, choice, name if panel else None, rest)
            if choice is not None:
                print_line(f"{name}: {choice}" if panel else str(choice))
                if not quiet:
                    for text in ([f"In words: {choice.order}."] if choice.order else []) + list(choice.meaning):
                        print_line(f"  {text}")
        if not quiet:
            unasked = ["No threshold was given: add --max-risk T to choose a release."] * (self.max_risk is None)
            wrote = ["Wrote " + ", ".join(map(str, self.written))] if self.written else []
            for text in (*unasked, *notes, *wrote):
                print_line(text)
        sys.stdout.flush()
        if self.misses:
            name, first = next(iter(self.misses.items()))
            others, size = len(self.misses) - 1, len(self.outcome.maps)
            also = f" (and {others} more of the {size} maps)" if others else ""
            raise InfeasibleError(f"{name}{also}: {first.what}", first.got, first.do) if panel else first
        if any(rumap.attrs.get("partial") for rumap in self.outcome.maps.values()):
            return print_error("interrupted: the map has the releases that were finished", code=130)
        return 0


# -- files ---------------------------------------------------------------------------------------------


def check_out(options: argparse.Namespace) -> Path | None:
    """The directory of --out. One that cannot be written to, or files in the way, are refused before any work."""
    if options.out is None:
        if options.figures:
            raise InputError("--figures needs a directory", "no --out", "Add --out DIR")
        return None
    if not is_valid_path(options.out):
        raise InputError("--out must name a directory", repr(options.out), "Write --out out/, for example")
    if options.format == "pdf":
        from ..report.document import pdf_writer

        pdf_writer()
    # A study may change the working directory, but not where its files go.
    out = Path(os.path.abspath(options.out))
    names = ("map.nc", "map.csv", "map.png", f"report.{options.format}")
    _check_places(out, [out / name for name in names], options)
    if options.figures and os.path.lexists(out / "figures") and not (out / "figures").is_dir():
        raise InputError("The report's pictures go to a directory", f"the file {out / 'figures'}", "Name another --out")
    return out


def check_picture(options: argparse.Namespace) -> Path | None:
    """The file of --plot; None where it is to be shown. What cannot be is refused before any work."""
    if not options.plot:
        if options.plot is not None:
            from ..plots.theme import has_window

            if not has_window():
                raise InputError("--plot alone shows the map, and there is no window", None, "Write --plot map.png")
        return None
    place = Path(os.path.abspath(options.plot))
    if place.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InputError("--plot writes .png, .pdf or .svg", options.plot, "Write --plot map.png")
    check_output_paths([place], overwrite=options.force, do=FREE)
    return place


def _check_places(out: Path, places: Sequence[Path], options: argparse.Namespace) -> None:
    nearest = out
    while not os.path.lexists(nearest) and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir():
        raise InputError("--out must name a directory", options.out, f"{nearest} is a file; name another place")
    check_output_paths(places, overwrite=options.force, folders=True, do=FREE)


def _draw_picture(rumap: RUMap, max_risk: float | None, ending: str, rule: dict[str, Any]) -> bytes:
    from ..plots.theme import as_png, as_vector_graphics, figure_of

    with warnings.catch_warnings():
        # A letter that the font lacks is drawn as a box; the table and the report have it.
        warnings.filterwarnings("ignore", message=r"(?s)Glyph .* missing from")
        figure = figure_of(with_readable_labels(rumap).plot(max_risk=max_risk, rule=rule))
        return as_png(figure, 150) if ending.lower() == ".png" else as_vector_graphics(figure, ending[1:].lower())


# -- text ----------------------------------------------------------------------------------------------


def _print_table(rumap: RUMap, choice: Choice | None, title: str | None, rest: str) -> None:
    """Print a map's table: at most `SHOWN` releases, spread evenly, the chosen one always among them."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    rumap = rumap.worst()
    heads = _column_heads(rumap)
    chosen = None if choice is None else choice.position
    rows = sorted({*evenly_spaced(np.arange(len(rumap)), SHOWN).tolist(), *([] if chosen is None else [chosen])})
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, title=None if title is None else Text(title), title_justify="left")
    grid.add_column("")
    grid.add_column("release", overflow="fold")
    for column, head in heads.items():
        words = column in ("engine", "worst_user")
        grid.add_column(head, justify="left" if words else "right", no_wrap=not words)
    for i in rows:
        texts = ["*" if i == chosen else "", rumap.releases[i], *(format_entry(rumap, column, i) for column in heads)]
        grid.add_row(*map(Text, texts), style="bold" if i == chosen else None)
    _rich_console(sys.stdout).print(grid)
    if len(rows) < len(rumap):
        print_line(f"  ... and {len(rumap) - len(rows)} more ({rest})")


def _column_heads(rumap: RUMap) -> dict[str, str]:
    """The columns that a table shows, with their heads; risk and utility say which measure they are."""
    heads, shown = {f"{who}_uncertainty": f"{who} U" for who in rumap.uncertainties}, set()
    for role, score in (("risk", rumap.risk_score), ("utility", rumap.utility_score)):
        heads[role] = role if score.column is None else f"{role} ({score.name})"
        if score.as_stored:
            shown.add(score.column)
    heads |= {name: name for name in better_end(rumap) if name in rumap.columns and name not in shown}
    heads |= {"worst_user": "worst user"} if "worst_user" in rumap.columns else {}
    return heads | ({"engine": "engine"} if len(set(rumap.engine)) > 1 else {})


def _rich_console(stream: IO[str]) -> Console:
    from rich.console import Console

    # Not a terminal: a file or a pipe has no width, so do not fold lines for it.
    return Console(file=stream, highlight=False, soft_wrap=False, width=None if stream.isatty() else 240)


def print_line(text: str) -> None:
    """Print a line of text as it is."""
    # Plain print, not rich: labels may hold brackets, and a sentence should not be folded when it is piped.
    sys.stdout.write(text + "\n")


@contextmanager
def progress_line(quiet: bool) -> Iterator[Say]:
    """Show what is being done and for how long, on stderr, if somebody is there to see it."""
    if quiet or not sys.stderr.isatty():
        with report_progress_to(lambda text: None):
            yield lambda text: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    apart = {"transient": True, "redirect_stdout": False, "redirect_stderr": False}
    with Progress(*columns, console=_rich_console(sys.stderr), **apart) as progress:  # type: ignore[arg-type]
        task = progress.add_task("starting", total=None)
        doing = ""

        def say(text: str) -> None:
            nonlocal doing
            doing = text
            progress.update(task, description=text)

        # What evaluate has to tell goes on the same line.
        with report_progress_to(lambda text: progress.update(task, description=f"{doing}: {text}")):
            yield say
