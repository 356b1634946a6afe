"""Run the benchmarks and print one table of ratios: ``python -m benchmarks [WORD ...]``."""

from __future__ import annotations

import importlib
import operator
import os
import platform
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

# Single threads on both sides, or the ratio would measure the machine.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


def main(words: Sequence[str]) -> int:
    """Run the benchmarks whose names hold one of the words, all of them without words."""
    names = find(words)
    if not names:
        print(f"no benchmark is named like {' or '.join(words)}" if words else "there are no files bench_*.py here", file=sys.stderr)
        return 2
    print(f"Python {platform.python_version()} on {platform.machine()}, {os.cpu_count()} cores\n")
    head = ("benchmark", "ours", "theirs", "ratio", "wanted", "")
    print(line(head))
    print(line(["-" * w for w in WIDTHS]))
    failed, missed, rows = [], 0, 0
    for name in names:
        try:
            for row in importlib.import_module(f"benchmarks.{name}").run():
                title, ours, theirs, ratio, wanted = row
                said = verdict(ratio, wanted)
                missed += said == "MISS"
                rows += 1
                print(line((title, seconds(ours), seconds(theirs), f"{ratio:.3g}", wanted, said)), flush=True)
        except Exception:
            failed.append(name)
            traceback.print_exc()
    print(f"\n{rows} ratios, {missed} not as wanted" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


def find(words: Sequence[str]) -> list[str]:
    """Names of the benchmark modules, in order."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))
    return [name for name in names if not words or any(word in name for word in words)]


def verdict(ratio: float, wanted: str) -> str:
    """'ok' or 'MISS', or nothing where nothing is wanted."""
    if not wanted:
        return ""
    match = re.fullmatch(r"\s*(<=|>=|<|>)\s*([0-9.eE+-]+)\s*", wanted)
    if match is None:
        raise ValueError(f"wanted must read like '<= 10' or '>= 50'; got {wanted!r}")
    return "ok" if COMPARE[match[1]](ratio, float(match[2])) else "MISS"


def seconds(value: float) -> str:
    """Show a time with its unit."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


WIDTHS = (64, 9, 9, 8, 8, 4)


def line(cells: Sequence[str]) -> str:
    """One line of the table: the name to the left, numbers to the right."""
    first, *rest = cells
    return "  ".join([f"{first:<{WIDTHS[0]}}", *(f"{c:>{w}}" for c, w in zip(rest, WIDTHS[1:], strict=True))]).rstrip()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
