"""The kept page: the machine, the versions, the table of ratios, where we lose, and the load, in one Markdown file.

The two halves (``python -m benchmarks --out PAGE`` and ``python -m benchmarks.load --out PAGE``) are kept as numbers in
`out/benchmarks/` beside the project, so that either may run alone and the page still has both.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Row", "Table", "compose", "keep", "seconds"]

STORE = Path(__file__).parents[1] / "out" / "benchmarks"
PACKAGES = (
    "ruvdecision", "numpy", "scipy", "pandas", "scikit-learn", "numba", "statsmodels", "pymc", "nutpie", "matplotlib",
    "sdmetrics", "syntheval", "recordlinkage",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One line of the table; without a ratio it is a comparison that was not made, and ``why``."""

    name: str
    ours: float | None = None
    theirs: float | None = None
    ratio: float | None = None
    wanted: str = ""
    verdict: str = ""
    why: str = ""

    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        if self.ours is None or self.theirs is None or self.ratio is None:
            return self.name, "", "", "", self.why, self.verdict
        return self.name, seconds(self.ours), seconds(self.theirs), f"{self.ratio:.3g}", self.wanted, self.verdict


@dataclass(frozen=True)
class Table:
    """The rows of one benchmark, or of one part of the load."""

    title: str
    rows: list[Row] = field(default_factory=list)


def seconds(value: float) -> str:
    """Show a time with its unit."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def keep(
    path: Path,
    *,
    seconds: float,
    quick: bool,
    note: str = "",
    tables: list[Table] | None = None,
    load: dict[str, Any] | None = None,
) -> None:
    """Keep one half and write the page from what is kept of both."""
    STORE.mkdir(parents=True, exist_ok=True)
    about = {"seconds": seconds, "quick": quick, "note": note, "machine": machine()}
    if tables is not None:
        (STORE / "table.json").write_text(json.dumps({**about, "tables": [asdict(t) for t in tables]}))
    if load is not None:
        (STORE / "load.json").write_text(json.dumps({**about, "load": load}))
    halves = [
        json.loads(p.read_text()) if (p := STORE / name).exists() else None for name in ("table.json", "load.json")
    ]
    path.write_text(compose(*halves), encoding="utf-8")


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "absent"
    memory = 0
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return {
        "python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(), "memory": memory, "load": load, "versions": versions,
    }  # fmt: skip


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for text in cpuinfo.read_text(errors="replace").splitlines():
            if text.startswith("model name"):
                return text.split(":", 1)[1].strip()
    return platform.processor()


def compose(table: dict[str, Any] | None, load: dict[str, Any] | None) -> str:
    """The page, from what was kept."""
    parts = [
        "# Benchmarks: what was measured\n\nWritten by `make bench`; do not edit. `README.md` here says how it is "
        "measured.\n"
    ]
    for name, half in (("table of ratios", table), ("load", load)):
        if half is not None:
            parts.append(_about(name, half))
    if table is None:
        parts.append("## Ratios\n\nNot run here.\n")
    else:
        tables = [Table(t["title"], [Row(**r) for r in t["rows"]]) for t in table["tables"]]
        parts += [
            _losses(tables, load),
            _absent(tables),
            "## Ratios\n\nTimes are the best of several rounds, taken in turns; each row says which way round its "
            "ratio goes.\n",
        ]
        parts += [_markdown(t) for t in tables]
    if load is None:
        parts.append("## Load\n\nNot run here.\n")
    else:
        from .load import as_markdown

        parts.append(as_markdown(load["load"]))
    return "\n".join(parts)


def _about(name: str, half: dict[str, Any]) -> str:
    m = half["machine"]
    versions = ", ".join(f"{k} {v}" for k, v in m["versions"].items())
    text = (
        f"**The {name}**: {m['processor'] or m['system']}, {m['cores']} cores, {m['memory'] / 2**30:.0f} GiB, "
        f"Python {m['python']}; "
    )
    text += f"{versions}."
    text += f" It took {half['seconds'] / 60:.0f} minutes; the machine's load average was {m['load']:.1f} at its end."
    text += " **Quick run: small sizes, the numbers say little.**" if half["quick"] else ""
    text += f" **{half['note']}**" if half["note"] else ""
    return text + "\n"


def _losses(tables: list[Table], load: dict[str, Any] | None) -> str:
    lines = []
    for row in (row for t in tables for row in t.rows if row.verdict in ("MISS", "failed")):
        if row.ratio is None or row.ours is None or row.theirs is None:
            lines.append(f"- {row.name}: {row.why}")
            continue
        lines.append(
            f"- {row.name}: {row.ratio:.3g}, wanted {row.wanted} ({seconds(row.ours)} against {seconds(row.theirs)})"
        )
    if load is not None:
        from .load import misses

        lines += [f"- {text}" for text in misses(load["load"])]
    return "## Where we lose\n\n" + ("\n".join(lines) if lines else "Nothing misses what is wanted in this run.") + "\n"


def _absent(tables: list[Table]) -> str:
    rows = [row for t in tables for row in t.rows if row.verdict == "absent"]
    return "## Not compared\n\n" + "\n".join(f"- {row.name}: {row.why}" for row in rows) + "\n" if rows else ""


def _markdown(table: Table) -> str:
    lines = [f"### {table.title}\n", "| benchmark | ours | theirs | ratio | wanted | |", "|---|--:|--:|--:|--:|---|"]
    for row in table.rows:
        cells = [
            c.replace("|", "&#124;").replace(" / ", " **/** ", 1) if i == 0 else c for i, c in enumerate(row.cells())
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
