"""The commands ``run``, ``explore`` and ``models``; ``measure`` has a module of its own."""

from __future__ import annotations

import argparse

from .. import explore as page
from ..errors import InputError
from ..running.fingerprint import own_key
from ..running.progress import report_progress_to
from ..studies import file_name, find_studies, load_study, parse_settings
from .measure import measure
from .options import executor_of
from .results import Results, check_out, print_line, progress_line


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
