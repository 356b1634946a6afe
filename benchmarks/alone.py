"""One case in a process of its own: how long it took and how much memory it had at its peak.

``python -m benchmarks.alone CASE N,P,RELEASES ...`` prints one line of JSON per size. The peak is that of the resident
set while the case ran, with the data and the libraries in it; ``before`` is what was resident when it started.
``seconds`` are the processor's, ``own`` those of them that were not spent in the kernel. Linux lets a process forget
its earlier peak; elsewhere the making of the data counts too.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import process_time
from typing import Any

__all__ = ["Size", "alone", "run_here"]

Size = tuple[int, int, int]
"""Records, columns, releases."""

ROOT = Path(__file__).parents[1]
SINGLE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
}
SHORT, LONG_ENOUGH = 5.0, 1.0
"""What takes less than 5 s is timed three times, each time from its start, and up to nine times until it took 1 s.

The best counts. The kernel's clock tells its share of a few milliseconds by chance.
"""


def alone(case: str, sizes: Sequence[Size], limit: float = 600.0) -> list[dict[str, Any]]:
    """Run the case at each size in one fresh process.

    Gives back ``size``, ``seconds``, ``own``, ``peak`` and ``before`` (bytes) for each that was reached, and ``failed``
    with the reason for the first that was not.
    """
    command = [sys.executable, "-m", "benchmarks.alone", case, *(",".join(map(str, s)) for s in sizes)]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, **SINGLE, "PYTHONPATH": path}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=limit
        )
        out, why = done.stdout, (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
    except subprocess.TimeoutExpired as late:
        out = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        why = f"more than {limit:g} s"
    found = [json.loads(text) for text in out.splitlines() if text.startswith("{")]
    if len(found) < len(sizes):
        found.append({"size": list(sizes[len(found)]), "failed": why})
    return found


def run_here(case: str, size: Size) -> dict[str, Any]:
    """Run the case in this process."""
    from .cases import CASES

    work = CASES[case].make(*size)
    _give_back()
    before = _status("VmRSS:") or 0
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    times = [_timed(work)]
    peak = _status("VmHWM:") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
    while times[0][0] < SHORT and (len(times) < 3 or (len(times) < 9 and sum(t[0] for t in times) < LONG_ENOUGH)):
        # Made anew: a map keeps what was asked of it, and a second asking would be another kind of work.
        times.append(_timed(CASES[case].make(*size)))
    total, own = (min(t[i] for t in times) for i in (0, 1))
    return {"size": list(size), "seconds": total, "own": own, "peak": peak, "before": before}


def _timed(work: Any) -> tuple[float, float]:
    """Seconds of the processor, in all and outside the kernel: one thread, and others may be at work on the machine."""
    start, kernel = process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_stime
    work()
    total = process_time() - start
    return total, total - (resource.getrusage(resource.RUSAGE_SELF).ru_stime - kernel)


def _give_back() -> None:
    """Return memory that is free but held: the case would use it again, and its growth would seem to begin late."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _status(key: str) -> int | None:
    with suppress(OSError):
        for text in Path("/proc/self/status").read_text().splitlines():
            if text.startswith(key):
                return 1024 * int(text.split()[1])
    return None


if __name__ == "__main__":
    for _text in sys.argv[2:]:
        _n, _p, _releases = map(int, _text.split(","))
        print(json.dumps(run_here(sys.argv[1], (_n, _p, _releases))), flush=True)
