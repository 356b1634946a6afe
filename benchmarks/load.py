"""The load: large maps, large files and many replicates, each alone in a process, and how time and memory grow.

``python -m benchmarks.load [WORD ...] [--quick] [--out benchmarks/RESULTS.md]``
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from .alone import Size, alone
from .cases import CASES
from .growth import AXES, Curve, draw
from .page import keep, seconds

RELEASES, RECORDS, COLUMNS, REPLICATES = 100_000, 1_000_000, 20, 500

GROWTH: dict[str, dict[str, tuple[list[int], Size]]] = {
    # case: {axis: (sizes, the size of the others)}
    **{c: {"releases": ([3_000, 10_000, 30_000, 100_000], (0, 0, 0))} for c in (
        "evaluate, closed form", "choose", "frontier", "to_dataframe", "save and load", "plot to a file", "report",
        "choose, with errors", "frontier of four columns",
    )},
    "dominated": {"releases": ([2_000, 4_000, 8_000, 16_000], (0, 0, 0))},
    "measure with replicates": {
        "releases": ([25, 50, 100, 200], (2_000, 10, 0)), "n": ([3_000, 10_000, 30_000, 100_000], (0, 10, 5)),
    },
    **{c: {"n": ([30_000, 100_000, 300_000, 1_000_000], (0, 10, 1)), "p": ([5, 10, 20, 40], (200_000, 0, 1))} for c in (
        "Noise", "RankSwap", "Microaggregate, each", "Propensity", "NormalKL", "IntervalOverlap", "Marginals",
    )},
    **{c: {"n": ([30_000, 100_000, 300_000, 1_000_000], (0, 10, 1))} for c in (
        "DataShuffle", "RecordLinkage, 3 known", "KAnonymity", "EnergyDistance", "measure in pieces from csv",
    )},
    "TreePropensity": {"n": ([10_000, 30_000, 100_000], (0, 10, 1))},
    "Synthesize, cart": {"n": ([3_000, 10_000, 30_000], (0, 10, 1)), "p": ([5, 10, 20], (5_000, 0, 1))},
    **{c: {"n": ([2_000, 4_000, 8_000, 16_000], (0, 10, 1))} for c in (
        "Microaggregate, mdav", "MD, all columns", "FellegiSunter", "Cluster, average",
    )},
}  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Run the load and print it; exit code 1 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("words", nargs="*", help="only the cases whose names hold one of these")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the sizes")
    parser.add_argument("--out", type=Path, help="keep the result in this page, and growth.png beside it")
    parser.add_argument("--note", default="", help="a sentence for the page")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that a process may take")
    asked = parser.parse_args(arguments)
    start = perf_counter()
    shrink = 100 if asked.quick else 1
    chosen = [c for c in CASES if not asked.words or any(w in c for w in asked.words)]
    heavy = [show_load(found) for found in load(chosen, shrink, asked.limit)]
    curves = [show_curve(found) for found in growth(chosen, shrink, asked.limit)]
    if asked.out:
        if curves:
            draw(curves, asked.out.parent / "growth.png", quick=asked.quick)
        kept = {"load": heavy, "curves": [asdict(c) for c in curves]}
        keep(asked.out, load=kept, seconds=perf_counter() - start, quick=asked.quick, note=asked.note)
        print(f"kept in {asked.out}")
    bad = [f["case"] for f in heavy if "failed" in f] + [c.case for c in curves if c.verdict == "failed"]
    print(
        f"\n{len(heavy)} loads, {len(curves)} curves, {sum(c.verdict == 'MISS' for c in curves)} not of the stated "
        "order",
        end="",
    )
    print(f"; failed: {', '.join(bad)}" if bad else "")
    return 1 if bad else 0


def load(names: Sequence[str], shrink: int, limit: float) -> Any:
    """Each case at its full size, or with as many records as it promises, if these are fewer."""
    for name in names:
        case = CASES[name]
        if case.kind == "map":
            size = (0, 0, min(RELEASES, case.most_releases) // shrink)
        elif name == "measure with replicates":
            size = (10_000, 10, REPLICATES) if shrink == 1 else (1_000, 10, 20)
        else:
            size = (max(500, min(RECORDS, case.most) // shrink), COLUMNS, 1)
        yield {"case": name, "kind": case.kind, "order": case.order, **alone(name, [size], limit)[0]}


def growth(names: Sequence[str], shrink: int, limit: float) -> Any:
    """Curves of the representative cases."""
    for name in names:
        case = CASES[name]
        for axis, (sizes, others) in GROWTH.get(name, {}).items():
            if shrink > 1 and axis == "n":
                sizes = [max(500 * 2**i, size // shrink) for i, size in enumerate(sizes)]
            elif shrink > 1 and axis == "releases":
                sizes = [max(5 * 2**i, size // shrink) for i, size in enumerate(sizes)]
            elif shrink > 1:
                others = (max(500, others[0] // shrink), others[1], others[2])
            at = list(AXES).index(axis)
            asked: list[Size] = [(*others[:at], s, *others[at + 1 :]) for s in sizes]  # type: ignore[misc]
            found = alone(name, asked, limit)
            good = [f for f in found if "failed" not in f]
            promised = {"n": case.n, "p": case.p, "releases": case.releases}[axis]
            memory = {"n": case.memory, "p": case.memory, "releases": case.memory_releases}[axis]
            yield Curve(
                name, axis, case.order, promised, memory, [f["size"][at] for f in good], [f["own"] for f in good],
                [float(f["peak"] - f["before"]) for f in good], next((f["failed"] for f in found if "failed" in f), ""),
            )  # fmt: skip


def show_load(found: dict[str, Any]) -> dict[str, Any]:
    """Print one load."""
    print(f"{found['case']:<32} {_size(found):<24} {_time(found):>10} {_peak(found):>9}  {found['order']}", flush=True)
    return found


def show_curve(curve: Curve) -> Curve:
    """Print one curve."""
    print(
        f"{curve.case:<32} against {AXES[curve.axis]:<9} {' '.join(_slopes(curve))}  {curve.order}  {curve.verdict}",
        flush=True,
    )
    return curve


def as_markdown(kept: dict[str, Any]) -> str:
    """The load as a part of the page."""
    lines = [
        "## Load\n",
        "Each line ran alone in a process of its own. The peak is that of the whole process, with Python, the "
        "libraries and the data;",
    ]
    lines += [
        "what the work itself added is in brackets. Cases whose order is quadratic run at fewer records, and their "
        "documentation says so.\n"
    ]
    lines += ["| case | size | time | peak (added) | stated order |", "|---|---|--:|--:|---|"]
    for f in kept["load"]:
        lines.append(f"| {f['case']} | {_size(f)} | {_time(f)} | {_peak(f)} | {f['order']} |")
    lines += [
        "\n## Growth\n",
        "![Time and peak memory against records, columns and releases, with the slopes found and "
        "promised](growth.png)\n",
    ]
    lines += [
        "The exponent is the slope of logarithms over the three largest sizes (of memory, over those that add 16 MB or "
        "more); "
        "0.2 above the promise is a MISS.\n"
    ]
    lines += [
        "| case | against | sizes | time: found, promised | memory: found, promised | stated order | |",
        "|---|---|---|--:|--:|---|---|",
    ]
    for c in (Curve(**c) for c in kept["curves"]):
        sizes = f"{c.sizes[0]:,} to {c.sizes[-1]:,}" if c.sizes else ""
        lines.append(
            f"| {c.case} | {AXES[c.axis]} | {sizes} | {' | '.join(_slopes(c))} | {c.order} | {c.failed or c.verdict} |"
        )
    return "\n".join(lines) + "\n"


def misses(kept: dict[str, Any]) -> list[str]:
    """What failed, and what grows faster than it promises, one sentence each."""
    found = [f"{f['case']}, {_size(f)}: {f['failed']}" for f in kept["load"] if "failed" in f]
    for curve in (Curve(**c) for c in kept["curves"]):
        if curve.verdict != "ok":
            time, memory = _slopes(curve)
            what = curve.failed or f"exponents found and promised are {time} of time and {memory} of memory"
            found.append(f"growth of {curve.case} with {AXES[curve.axis]}: {what}")
    return found


def _slopes(curve: Curve) -> tuple[str, str]:
    time = "" if curve.slope is None else f"{curve.slope:.2f}, {curve.promised:g}"
    memory = "small" if curve.memory_slope is None else f"{curve.memory_slope:.2f}, {curve.promised_memory:g}"
    return time, memory


def _size(found: dict[str, Any]) -> str:
    n, p, releases = found["size"]
    if found["kind"] == "map":
        return f"{releases:,} releases"
    return f"{n:,} × {p}" + (f", {releases} replicates" if releases > 1 else "")


def _time(found: dict[str, Any]) -> str:
    return found.get("failed") or seconds(found["seconds"])


def _peak(found: dict[str, Any]) -> str:
    return (
        "" if "failed" in found else f"{found['peak'] / 1e6:,.0f} MB ({(found['peak'] - found['before']) / 1e6:,.0f})"
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
