"""Peers that cannot live in our environment: they read the two files, time themselves and print what they found.

anonymeter wants an older numpy than ours and has an environment of its own, `.venv-anonymeter` (``make bench-peers``);
R has its packages. Each gives back a reason instead of numbers where it is not here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

__all__ = ["anonymeter", "rscript"]

HERE = Path(__file__).parent
ABSENT = "not installed here"


def anonymeter(original: pd.DataFrame, released: pd.DataFrame, attacks: int) -> dict[str, Any] | str:
    """Seconds of each of anonymeter's attacks by name, or why there are none."""
    python = Path(os.environ.get("BENCH_ANONYMETER", HERE.parent / ".venv-anonymeter" / "bin" / "python"))
    if not python.exists():
        return f"{ABSENT}: make bench-peers sets up an environment of its own"
    said = _ask([str(python), str(HERE / "peer_anonymeter.py"), str(attacks)], original, released)
    return said if isinstance(said, str) else json.loads(said[-1])


def rscript(original: pd.DataFrame, released: pd.DataFrame) -> dict[str, Any] | str:
    """Seconds and value of each of R's tasks by name, and the installed ``packages``; or why there are none."""
    program = shutil.which("Rscript")
    if program is None:
        return f"R is {ABSENT}"
    said = _ask([program, "--vanilla", str(HERE / "peers.R")], original, released)
    if isinstance(said, str):
        return said
    found: dict[str, Any] = {"packages": ["base"]}
    for line in said:
        kind, *rest = line.split("\t")
        if kind == "package":
            found["packages"].append(rest[0])
        elif kind == "row":
            found[rest[0]] = (float(rest[1]), float(rest[2]))
    return found


def _ask(command: list[str], original: pd.DataFrame, released: pd.DataFrame) -> list[str] | str:
    """Run it on the two files as csv; its lines, or the last line of what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("original.csv", "released.csv")]
        for path, frame in zip(paths, (original, released), strict=True):
            frame.to_csv(path, index=False, float_format="%.17g")
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        try:
            done = subprocess.run(
                [*command, *map(str, paths)],
                env=environment,
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
                timeout=900,
            )
        except subprocess.TimeoutExpired:
            return "took more than 15 minutes"
    if done.returncode:
        said = done.stderr.strip().splitlines()
        return f"failed: {said[-1] if said else f'ended with {done.returncode}'}"
    return done.stdout.strip().splitlines()
