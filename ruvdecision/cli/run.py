"""``ruvdecision run``: run a study, print its table and the choice, write its map."""

from __future__ import annotations

import argparse
from typing import Any

from .executor import executor_of
from .options import add_ending_options, add_result_options, add_running_options
from .outcomes import choose, close
from .output import check_out, write
from .printing import progress_line


def add(commands: Any) -> None:
    """Say what the command takes."""
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
    """Carry out the command."""
    from ..running.fingerprint import own_key
    from ..running.progress import host
    from ..studies import load_study, parse_settings

    settings = parse_settings(options.set)
    out = check_out(options, ["map"])
    with progress_line(options.quiet) as say:
        say(f"loading {options.file}")
        study = load_study(options.file)
        study.check(settings)
        say(f"running {study.name}")
        if out is not None:
            own_key(create=True)  # so that the report can name the data
        with host(say), executor_of(options) as executor:
            outcome = study.run(**settings, executor=executor, checkpoint=options.checkpoint)
        max_risk = study.max_risk if options.max_risk is None else options.max_risk
        choices, misses = choose(outcome, max_risk)
        # Write before printing: a reader of stdout that goes away early must not cost the files.
        written = write(outcome, out, max_risk, options, say)
        notes = [] if options.quiet else outcome.notes()
    return close(outcome, choices, misses, max_risk, notes, written, quiet=options.quiet)
