"""The commands: run a study, measure releases that other tools made, open the page, list the studies."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .. import explore as page
from ..data.read import read_data
from ..errors import InputError
from ..maps.rumap import RUMap
from ..measure import measure as compare
from ..running.fingerprint import own_key
from ..running.progress import report_progress_to
from ..studies import Outcome, Study, file_name, find_studies, load_study, parse_settings
from .measure_names import spell_measures, split_names
from .options import executor_of, release_names
from .results import Results, check_out, check_picture, print_line, progress_line


def run(options: argparse.Namespace) -> int:
    """Run a study, print its table and the choice, write its map."""
    settings = parse_settings(options.set)
    out = check_out(options)
    with progress_line(options.quiet) as say:
        say(f"loading {options.file}")
        study = load_study(options.file)
        study.check_settings(settings)
        say(f"running {study.name}")
        if out is not None:
            own_key(create=True)  # so that the report can name the data
        with report_progress_to(say), executor_of(options) as executor:
            outcome = study.run(**settings, executor=executor, checkpoint=options.checkpoint)
        results = Results(outcome, study.max_risk if options.max_risk is None else options.max_risk, options)
        # Write before printing: a reader of stdout that goes away early must not cost the files.
        results.write(out, say)
        notes = [] if options.quiet else outcome.notes()
    return results.show(notes)


def measure(options: argparse.Namespace) -> int:
    """Map releases that other tools made."""

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
    names = release_names(options.released)
    out, picture = check_out(options), check_picture(options)
    how = {k: v for k, v in vars(options).items() if k in ("sep", "decimal", "encoding") and v is not None}
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


def explore(options: argparse.Namespace) -> int:
    """Open a page with sliders."""
    if options.set and options.file is None:
        do = "Name the file: ruvdecision explore models/FILE.py"
        raise InputError("--set is for a study file", ", ".join(options.set), do)
    if options.export is not None:
        print_line(f"wrote {page.export_lesson(options.export, f'{file_name(options.export)}.html')}")
        return 0
    where = {"host": options.host, "port": options.port, "browser": not options.no_browser}
    page.explore(options.file, settings=parse_settings(options.set), debug=options.debug, **where)
    return 0


def models(options: argparse.Namespace) -> int:
    """List the studies of a directory."""
    found = find_studies(options.directory)
    if not found:
        do = "A study is a Python file with a function study"
        raise InputError(f"There are no studies in {options.directory}", do=do)
    width = max(len(listing.name) for listing in found)
    for listing in found:
        print_line(f"{listing.name:<{width}}  {listing.description}")
    return 0


COMMANDS = {"run": run, "measure": measure, "explore": explore, "models": models}


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
