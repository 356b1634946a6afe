"""Run the benchmarks, print a table of ratios: ``python -m benchmarks [WORD ...] [--quick] [--out FILE]``."""

from __future__ import annotations

import argparse
import importlib
import inspect
import operator
import os
import platform
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from .page import Row, Table, keep
from .rows import Absent

# Single threads on both sides, or the ratio would measure the machine.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


def main(arguments: Sequence[str]) -> int:
    """Run the benchmarks whose names hold one of the words, all of them without words."""
    asked = parse(arguments)
    names = find(asked.words)
    if not names:
        words = " or ".join(asked.words)
        print(f"no benchmark is named like {words}" if words else "there are no files bench_*.py here", file=sys.stderr)
        return 2
    print(f"Python {platform.python_version()} on {platform.machine()}, {os.cpu_count()} cores\n")
    head = ("benchmark", "ours", "theirs", "ratio", "wanted", "")
    print(line(head))
    print(line(["-" * w for w in WIDTHS]))
    start, failed, tables = perf_counter(), [], []
    for name in names:
        rows: list[Row] = []
        title = name
        try:
            module = importlib.import_module(f"benchmarks.{name}")
            title = (module.__doc__ or name).strip().splitlines()[0]
            for found in module.run(
                **({"quick": True} if asked.quick and "quick" in inspect.signature(module.run).parameters else {})
            ):
                rows.append(as_row(found))
                print(printed(rows[-1]), flush=True)
        except Exception as error:
            failed.append(name)
            rows.append(Row(f"the rest of {name}", verdict="failed", why=f"{type(error).__name__}: {error}"))
            traceback.print_exc()
        tables.append(Table(title, rows))
    said = [row.verdict for table in tables for row in table.rows]
    counted = sum(v not in ("absent", "failed") for v in said)
    print(f"\n{counted} ratios, {said.count('MISS')} not as wanted, {said.count('absent')} absent", end="")
    print(f"; failed: {', '.join(failed)}" if failed else "")
    if asked.out:
        keep(asked.out, tables=tables, seconds=perf_counter() - start, quick=asked.quick, note=asked.note)
        print(f"kept in {asked.out}")
    return 1 if failed else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("words", nargs="*", help="only the benchmarks whose file names hold one of these")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, a few minutes; the numbers say less")
    parser.add_argument(
        "--out", type=Path, help="keep the table as this page, with the load of benchmarks.load if that was kept"
    )
    parser.add_argument("--note", default="", help="a sentence for the page, such as what else the machine was doing")
    return parser.parse_args(arguments)


def find(words: Sequence[str]) -> list[str]:
    """Names of the benchmark modules, in order."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))
    return [name for name in names if not words or any(word in name for word in words)]


def as_row(found: Any) -> Row:
    """What a benchmark yielded, with its verdict."""
    if isinstance(found, Absent):
        return Row(found.name, verdict="absent", why=found.why)
    title, ours, theirs, ratio, wanted = found
    return Row(title, float(ours), float(theirs), float(ratio), wanted, verdict(ratio, wanted))


def verdict(ratio: float, wanted: str) -> str:
    """'ok' or 'MISS', or nothing where nothing is wanted."""
    if not wanted:
        return ""
    match = re.fullmatch(r"\s*(<=|>=|<|>)\s*([0-9.eE+-]+)\s*", wanted)
    if match is None:
        raise ValueError(f"wanted must read like '<= 10' or '>= 50'; got {wanted!r}")
    return "ok" if COMPARE[match[1]](ratio, float(match[2])) else "MISS"


WIDTHS = (64, 9, 9, 8, 8, 6)


def printed(row: Row) -> str:
    """The row as a line; of a peer that is not here, the reason."""
    if row.ratio is None:
        return f"{row.name:<{WIDTHS[0]}}  {row.verdict}: {row.why}"
    return line(row.cells())


def line(cells: Sequence[str]) -> str:
    """One line of the table: the name to the left, numbers to the right."""
    first, *rest = cells
    return "  ".join([f"{first:<{WIDTHS[0]}}", *(f"{c:>{w}}" for c, w in zip(rest, WIDTHS[1:], strict=True))]).rstrip()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
