"""The commands ``run``, ``explore`` and ``models``; ``measure`` has a module of its own."""

from __future__ import annotations

import argparse

from ..errors import InputError
from .options import Commands, add_ending_options, add_result_options, add_running_options, executor_of
from .results import Results, check_out, line, progress_line


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
    runner.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Run a study, print its table and the choice, write its map."""
    from ..running.fingerprint import own_key
    from ..running.progress import host
    from ..studies import load_study, parse_settings

    settings = parse_settings(options.set)
    out = check_out(options)
    with progress_line(options.quiet) as say:
        say(f"loading {options.file}")
        study = load_study(options.file)
        study.check(settings)
        say(f"running {study.name}")
        if out is not None:
            own_key(create=True)  # so that the report can name the data
        with host(say), executor_of(options) as executor:
            outcome = study.run(**settings, executor=executor, checkpoint=options.checkpoint)
        results = Results(outcome, study.max_risk if options.max_risk is None else options.max_risk, options)
        # Write before printing: a reader of stdout that goes away early must not cost the files.
        results.write(out, say)
        notes = [] if options.quiet else outcome.notes()
    return results.show(notes)


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
    page.set_defaults(command=explore)


def explore(options: argparse.Namespace) -> int:
    """Open a page with sliders."""
    from ..explore import explore as serve, export_lesson
    from ..studies import file_name, parse_settings

    if options.set and options.file is None:
        do = "Name the file: ruvdecision explore models/FILE.py"
        raise InputError("--set is for a study file", ", ".join(options.set), do)
    if options.export is not None:
        line(f"wrote {export_lesson(options.export, f'{file_name(options.export)}.html')}")
        return 0
    where = {"host": options.host, "port": options.port, "browser": not options.no_browser}
    serve(options.file, settings=parse_settings(options.set), debug=options.debug, **where)
    return 0


def add_models(commands: Commands) -> None:
    """Say what ``models`` takes."""
    lister = commands.add_parser(
        "models", help="list the studies of a directory", description="List studies without running them."
    )
    lister.add_argument(
        "directory", metavar="DIR", nargs="?", default="models", help="where the studies are (default: models)"
    )
    lister.add_argument("--debug", action="store_true", help="show the traceback of an error")
    lister.set_defaults(command=models)


def models(options: argparse.Namespace) -> int:
    """List the studies of a directory."""
    from ..studies import find_studies

    found = find_studies(options.directory)
    if not found:
        do = "A study is a Python file with a function study"
        raise InputError(f"There are no studies in {options.directory}", do=do)
    width = max(len(listing.name) for listing in found)
    for listing in found:
        line(f"{listing.name:<{width}}  {listing.description}")
    return 0
