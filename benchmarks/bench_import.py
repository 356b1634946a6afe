"""Importing the package against importing the libraries that it stands on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.timing import race


def run() -> Iterator[tuple[str, float, float, float, str]]:
    ours, theirs = race(
        lambda: fresh("import ruvdecision"), lambda: fresh("import numpy, scipy.stats, pandas, xarray"), rounds=7
    )
    yield "import ruvdecision / import numpy, scipy.stats, pandas, xarray", ours, theirs, ours / theirs, "<= 1.3"


def fresh(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)
