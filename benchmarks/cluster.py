"""Past one machine: an empirical map on a dask cluster, and how it would grow, from constants measured here.

``python -m benchmarks.cluster [--points 1000] [--records 20000] [--workers 2]``

Measured: seconds per point, bytes that travel per point and per worker, and the seconds that the client and the
scheduler, which share this process, need for a point that takes no time; seconds are the processor's. A simulation
with these constants then counts points that wait for a worker, and workers that wait for the scheduler, which hands out
one point after the other.
"""

from __future__ import annotations

import argparse
import heapq
import logging
import pickle
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd

import ruvdecision as ruv
from ruvdecision.running.run import Task, run

BANDWIDTH = 125e6
"""Bytes per second of the simulated network: one gigabit."""


@dataclass(frozen=True)
class Costs:
    """What one point and one worker cost."""

    work: float
    """Seconds of a worker per point."""
    handing: float
    """Seconds of client and scheduler per point; they serve one point after the other."""
    point_bytes: float
    cargo_bytes: float
    """What every worker gets once."""


def simulate(costs: Costs, workers: int, points: int, bandwidth: float = BANDWIDTH) -> tuple[float, str]:
    """Seconds until all points are done, and what they waited for.

    The scheduler sends the data to one worker after the other as it first meets them, then points; a point is handed
    out when a worker is free and the scheduler is.
    """
    free = [0.0] * workers
    heapq.heapify(free)
    met, clock, end = 0, 0.0, 0.0
    for _ in range(points):
        ready = heapq.heappop(free)
        clock = max(clock, ready) + costs.handing + costs.point_bytes / bandwidth
        if met < workers:
            met += 1
            clock += costs.cargo_bytes / bandwidth
        end = max(end, clock + costs.work)
        heapq.heappush(free, clock + costs.work)
    parts = {
        "work": points * costs.work / workers,
        "scheduler": points * costs.handing,
        "sending data": met * costs.cargo_bytes / bandwidth,
        "sending points": points * costs.point_bytes / bandwidth,
    }
    return end, max(parts, key=lambda name: parts[name])


class Counting(Executor):
    """Does everything here, through pickles, as another process would see it; counts their bytes."""

    def __init__(self) -> None:
        self.sent = self.received = 0

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        token, number, cargo, work = args
        future: Future[Any] = Future()
        result = function(token, number, cargo, work)
        self.sent += len(pickle.dumps((token, number, work)))
        self.received += len(pickle.dumps(result))
        future.set_result(result)
        return future


def nothing(shared: Any, number: int) -> int:
    """A point that takes no time."""
    return number


def grid(points: int) -> list[ruv.Mask]:
    """Masks of an empirical map."""
    return [ruv.Noise(sd=float(sd)) for sd in np.geomspace(0.01, 10, points)]


def table(records: int, columns: int = 6) -> pd.DataFrame:
    """A file of correlated columns."""
    rng = np.random.default_rng(3)
    values = rng.standard_normal((records, columns)) @ rng.standard_normal((columns, columns))
    return pd.DataFrame(values, columns=[f"x{j}" for j in range(columns)])


def measured(data: pd.DataFrame, points: int, executor: Executor | None = None, **options: Any) -> ruv.RUMap:
    """The map: linkage and a general utility of every release."""
    measures = [ruv.measures.RecordLinkage(known=list(data.columns[:3])), ruv.measures.NormalKL()]
    return ruv.measure(data, grid(points), measures=measures, replicates=1, seed=1, executor=executor, **options)


def main(arguments: Sequence[str]) -> int:
    """Measure, simulate, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args(arguments)
    from distributed import Client, LocalCluster

    data, some = table(asked.records), max(asked.points // 20, 10)
    measured(data, 2)  # compiles
    start = process_time()
    measured(data, some)
    work = (process_time() - start) / some
    counting = Counting()
    measured(data, some, counting)
    size = {"n_workers": asked.workers, "threads_per_worker": 1, "processes": True}
    with (
        LocalCluster(**size, dashboard_address=None, silence_logs=logging.CRITICAL) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        idle = [Task(str(i), nothing, (i,)) for i in range(2000)]
        run(idle[:50], executor=client.get_executor())
        start = process_time()
        run(idle, executor=client.get_executor())
        handing = (process_time() - start) / len(idle)
        start = perf_counter()
        measured(data, asked.points, client.get_executor())
        took = perf_counter() - start
    sent = (counting.sent + counting.received) / some
    costs = Costs(work, handing, sent, len(pickle.dumps(data)))
    print(f"{asked.points} points of {asked.records} records on {asked.workers} workers here: {took:.1f} s\n")
    print(f"seconds of work per point {work:.4f}, of client and scheduler {handing * 1e3:.2f} ms")
    print(f"bytes per point {sent:.0f}, per worker once {costs.cargo_bytes:.0f}\n")
    print("| workers | seconds | points per second | efficiency | waits for |\n|--:|--:|--:|--:|:--|")
    for workers in (1, 10, 100, 1000):
        seconds, waits = simulate(costs, workers, asked.points)
        share = asked.points * work / workers / seconds
        print(f"| {workers} | {seconds:.2f} | {asked.points / seconds:.0f} | {share:.0%} | {waits} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
