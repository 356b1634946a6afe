"""The command line: run a study, list the studies, measure releases that other tools made, open the page.

Exit codes: 0 when all went well, 2 for anything the caller can put right (one line on stderr says what),
130 after Ctrl-C. ``--debug`` shows the traceback as well, without the text of errors that may quote data. Results
go to stdout, progress and errors to stderr.

`options` says what the commands take; `commands` and `measure` carry them out, and `results` holds what these share.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence

from .._version import __version__
from ..errors import RuvError, safe_error_text, safe_traceback
from .options import Parser, UsageError, add_explore, add_measure, add_models, add_run, print_error

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    >>> main(["run", "no_such_study.py"])
    2
    """
    debug, options = False, argparse.Namespace(command=None)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show ± shows ? and not an error
    try:
        options = _build_parser().parse_args(argv)
        debug = vars(options).get("debug", False)
        options.find(options)  # the files that are named, before a second goes into what follows
        from .commands import COMMANDS  # the rest of the package, which takes a second: only where there is work

        code = COMMANDS[options.command](options)
        sys.stdout.flush()
        return code
    except SystemExit as ended:
        return int(ended.code or 0)  # --help and --version have printed what was asked for
    except UsageError as error:
        return print_error(str(error))
    except RuvError as error:
        if debug:
            sys.stderr.write(safe_traceback(error))
        return print_error(in_options(str(error)) if options.command == "measure" else str(error))
    except KeyboardInterrupt as error:
        if debug:
            sys.stderr.write(safe_traceback(error))
        return print_error("interrupted", code=130)
    except BrokenPipeError:
        # The reader (head, less) has gone.
        _close_output()
        return 1
    except OSError as error:
        if debug:
            sys.stderr.write(safe_traceback(error))
        _close_output()
        where = "" if error.filename is None else f" ({os.fsdecode(error.filename)})"
        return print_error(
            f"the system says: {error.strerror or error}{where}. Check space and permissions; --debug shows where."
        )
    except Exception as error:
        if debug:
            sys.stderr.write(safe_traceback(error))
        return print_error(f"unexpected {safe_error_text(error)}. Add --debug to see where.", code=1)


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="ruvdecision", description="Risk-utility maps for statistical disclosure limitation.")
    parser.add_argument("--version", action="version", version=f"ruvdecision {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (add_run, add_measure, add_explore, add_models):
        add(commands)
    return parser


def _close_output() -> None:
    """Keep Python from complaining once more when it closes an output that takes nothing."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


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
