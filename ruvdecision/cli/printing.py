"""What a command prints: the table of releases, the choice, the notes; on stderr what it is doing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from ..maps.rumap import RUMap
    from ..studies import Outcome

#: How many releases the printed table shows; the files always hold all of them.
SHOWN = 20


def show(
    outcome: Outcome,
    choices: dict[str, Any],
    max_risk: float | None,
    notes: Sequence[str],
    written: Sequence[Path],
    *,
    quiet: bool,
) -> None:
    """Print the maps' tables, the choice, the notes and the files that were written; with ``quiet`` the choice only."""
    if not quiet:
        line(outcome.study.description)
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
            line(f"{name}: {chosen}" if outcome.panel else str(chosen))
    if quiet:
        return
    if max_risk is None:
        line("No threshold was given: add --max-risk T to choose a release.")
    for note in notes:
        line(note)
    if written:
        line("Wrote " + ", ".join(map(str, written)))


def _heads(rumap: RUMap) -> dict[str, str]:
    """The columns of numbers that a table shows, with their heads; risk and utility say which measure they are."""
    from ..maps.scores import Column

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
        line(f"  ... and {len(table) - len(rows)} more ({rest})")


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


def line(text: str) -> None:
    """Print a line of text as it is."""
    # Plain print, not rich: labels may hold brackets, and a sentence should not be folded when it is piped.
    sys.stdout.write(text + "\n")


@contextmanager
def progress_line(quiet: bool) -> Iterator[Any]:
    """Show what is being done and for how long, on stderr, if somebody is there to see it."""
    from ..running.progress import host

    if quiet or not sys.stderr.isatty():
        with host(lambda text: None):
            yield lambda text: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(
        *columns, console=_console(sys.stderr), transient=True, redirect_stdout=False, redirect_stderr=False
    ) as progress:
        task = progress.add_task("starting", total=None)
        doing = [""]

        def say(text: str) -> None:
            doing[0] = text
            progress.update(task, description=text)

        # What evaluate has to tell goes on the same line.
        with host(lambda text: progress.update(task, description=f"{doing[0]}: {text}")):
            yield say


def complain(message: str, code: int = 2) -> int:
    """Say what is wrong in one line on stderr, and give back the exit code."""
    try:
        sys.stderr.write("ruvdecision: error: " + " ".join(message.split()) + "\n")
        sys.stderr.flush()
    except OSError:
        pass  # nobody can hear it; the exit code still tells
    return code
