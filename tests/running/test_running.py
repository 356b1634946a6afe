"""Running tasks: the same results whoever does them, shared data sent once, dead workers replaced, a clean stop."""

from __future__ import annotations

import io
import logging
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import places
import pytest

import ruvdecision as ruv
from ruvdecision.cli import main
from ruvdecision.errors import InputError, RuvError
from ruvdecision.measure import measure
from ruvdecision.measures import NormalKL, RecordLinkage
from ruvdecision.running import sharing
from ruvdecision.running.progress import Bar, host
from ruvdecision.running.run import Outcome, Task, run, using

ROOT = places.ROOT


class Cargo:
    """Something large that leaves a line in a file each time it is sent and each time it arrives."""

    def __init__(self, log: Path, size: int = 1_000_000) -> None:
        self.log, self.data = log, os.urandom(size)

    def __getstate__(self) -> dict:
        with open(self.log, "a") as opened:
            opened.write("sent\n")
        return dict(self.__dict__)

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        with open(self.log, "a") as opened:
            opened.write(f"arrived {os.getpid()}\n")


class Weighing(ProcessPoolExecutor):
    """A pool that weighs what it is given to send."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.weights: list[int] = []

    def submit(self, function, /, *args, **kwargs):
        self.weights.append(len(pickle.dumps((function, args, kwargs))))
        return super().submit(function, *args, **kwargs)


class Plain(Executor):
    """The least that an executor is: it does the work at once, and says nothing about its size."""

    def __init__(self, breaks_after: int | None = None) -> None:
        self.left = breaks_after

    def submit(self, function, /, *args, **kwargs):
        future: Future = Future()
        if self.left is not None:
            if self.left == 0:
                raise BrokenExecutor("gone")
            self.left -= 1
        try:
            future.set_result(function(*pickle.loads(pickle.dumps(args)), **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def draw(shared, seed: int) -> np.ndarray:
    return shared * np.random.default_rng(seed).standard_normal(5)


def wait_a_little(shared, i: int) -> int:
    time.sleep(0.02)
    return os.getpid()


def weigh(shared, i: int) -> int:
    time.sleep(0.005)
    return len(shared.data) + i


def use(shared, i: int) -> float:
    return shared["square"](i)


def fail_at(shared, i: int) -> int:
    if i in shared:
        time.sleep(0.05 if i == min(shared) else 0)
        raise ValueError(f"task {i}")
    return i


def die_once(folder: Path, i: int) -> int:
    mark = Path(folder) / f"died {i}"
    if i % 7 == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.002)
    return i * i


def always_die(shared, i: int) -> int:
    if i == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return i


def stop_at(shared, i: int) -> int:
    if i == shared:
        raise KeyboardInterrupt
    return i


def nested(shared, i: int) -> list[int]:
    return run([Task(f"inner {j}", fail_at, (j,)) for j in range(3)], shared=set()).results


def tasks(function, count: int) -> list[Task]:
    return [Task(f"task {i}", function, (i,)) for i in range(count)]


# -- the same results ----------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_results_are_the_same_whoever_does_the_work(pool, workers: int) -> None:
    shared = np.arange(5.0)
    alone = run(tasks(draw, 30), shared=shared)
    with pool(workers) as executor:
        together = run(tasks(draw, 30), shared=shared, executor=executor)
    assert not alone.interrupted and not together.interrupted
    assert [a.tobytes() for a in alone.results] == [b.tobytes() for b in together.results]


def test_any_executor_will_do() -> None:
    assert run(tasks(fail_at, 40), shared={99}, executor=Plain()) == Outcome(list(range(40)), False)


@pytest.mark.parametrize("count", [0, 1])
def test_few_tasks(count: int) -> None:
    with ProcessPoolExecutor(1) as pool:
        assert run(tasks(fail_at, count), shared=set(), executor=pool).results == list(range(count))


def test_lambdas_and_closures_are_sent() -> None:
    factor = 3
    with ProcessPoolExecutor(2) as pool:
        run(tasks(wait_a_little, 4), executor=pool)  # workers are there already, so nothing is inherited
        found = run(tasks(use, 6), shared={"square": lambda x: factor * x**2}, executor=pool).results
    assert found == [3 * i**2 for i in range(6)]


def test_progress_is_told() -> None:
    told: list[float] = []
    run(tasks(fail_at, 4), shared=set(), tell=told.append)
    assert told == [0.0, 0.25, 0.5, 0.75, 1.0]


# -- sent once -----------------------------------------------------------------------------------------


def test_what_is_shared_goes_to_a_worker_once(tmp_path: Path) -> None:
    cargo = Cargo(tmp_path / "log")
    with Weighing(2) as pool:
        assert (
            len(set(run(tasks(wait_a_little, 20), executor=pool).results)) == 2
        )  # two workers, before there is any cargo
        pool.weights.clear()
        found = run(tasks(weigh, 60), shared=cargo, executor=pool).results
    assert found == [1_000_000 + i for i in range(60)]
    lines = cargo.log.read_text().splitlines()
    assert lines.count("sent") == 1
    arrived = [line for line in lines if line.startswith("arrived")]
    assert 1 <= len(arrived) == len(set(arrived)) <= 2
    assert len(pool.weights) == 60 and max(pool.weights) < 2_000  # the cargo itself is in none of them


def test_where_memory_cannot_be_shared_tasks_carry_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    cargo = Cargo(tmp_path / "log")
    with Weighing(2) as pool:
        run(tasks(wait_a_little, 20), executor=pool)
        pool.weights.clear()
        found = run(tasks(weigh, 60), shared=cargo, executor=pool).results
    assert found == [1_000_000 + i for i in range(60)]
    arrived = [line for line in cargo.log.read_text().splitlines() if line.startswith("arrived")]
    assert len(arrived) == len(set(arrived)) <= 2
    assert (
        1 <= sum(weight > 1_000_000 for weight in pool.weights) <= 6
    )  # a carrier may meet a worker that has it already


def test_memory_of_another_process_is_not_taken_for_ours() -> None:
    with sharing.Parcel([1, 2, 3]) as parcel, sharing.Parcel([9] * 50) as other:
        forged = parcel.handle._replace(token="elsewhere", place=other.handle.place)
        assert isinstance(sharing.call(forged, None, sharing.dumps((sum, ()))), sharing.Absent)
        right = parcel.handle._replace(token="elsewhere")
        assert sharing.call(right, None, sharing.dumps((sum, ()))) == 6
        sharing.forget("elsewhere")


def test_a_worker_keeps_few_things() -> None:
    before = set(sharing._HELD)
    for value in range(5):
        blob = sharing.dumps([value])
        sharing.call(sharing.Handle(f"t{value}", b"", ""), blob, sharing.dumps((sum, ())))
    assert set(sharing._HELD) - before == {"t3", "t4"}
    for token in ("t3", "t4"):
        sharing.forget(token)


def test_what_cannot_be_sent_is_an_error_that_tells_no_data() -> None:
    with ThreadPoolExecutor(1) as threads:
        assert run(
            tasks(use, 2), shared={"square": lambda x: x, "open": (i for i in [])}, executor=threads
        ).results == [0, 1]
    with ProcessPoolExecutor(1) as pool, pytest.raises(InputError, match="cannot be sent to a worker; got TypeError"):
        run(tasks(use, 2), shared={"secret": (i for i in [1])}, executor=pool)


# -- errors and deaths ---------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", [None, ThreadPoolExecutor, ProcessPoolExecutor])
def test_the_first_error_by_order_is_raised_as_it_is(pool, tmp_path: Path) -> None:
    executor = None if pool is None else pool(2)
    with pytest.raises(ValueError, match=r"^task 5$"):
        run(tasks(fail_at, 40), shared={5, 6, 7, 20}, executor=executor, checkpoint=tmp_path / "run")
    kept = len(list((tmp_path / "run" / "tasks").glob("*.json")))
    assert kept >= 5
    if executor is not None:
        executor.shutdown()


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2) as pool, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = run(tasks(die_once, 30), shared=tmp_path, executor=pool)
    assert found == Outcome([i * i for i in range(30)], False)
    assert len(list(tmp_path.glob("died *"))) == 4
    # Python itself may have a word about forking beside the test runner's threads.
    told = [str(w.message) for w in seen if w.category is RuntimeWarning]
    assert len(told) == 1 and "a new pool of the same size" in told[0]  # said once


def test_a_task_that_kills_every_worker_is_named(tmp_path: Path) -> None:
    died = pytest.raises(RuvError, match="The worker of task task 3 died each time")
    with ProcessPoolExecutor(2) as pool, warnings.catch_warnings(record=True, action="always"), died:
        run(tasks(always_die, 12), executor=pool, checkpoint=tmp_path / "run")
    names = [p.name for p in (tmp_path / "run" / "tasks").iterdir()]
    assert not any(name.startswith("task_3-") for name in names)


def test_an_executor_that_breaks_and_cannot_be_replaced_is_done_without() -> None:
    with pytest.warns(RuntimeWarning, match="this process goes on"):
        found = run(tasks(fail_at, 30), shared=set(), executor=Plain(breaks_after=7))
    assert found == Outcome(list(range(30)), False)


@pytest.mark.parametrize("pool", [None, ThreadPoolExecutor, ProcessPoolExecutor])
def test_ctrl_c_keeps_what_is_finished(pool) -> None:
    executor = None if pool is None else pool(1)
    found = run(tasks(stop_at, 50), shared=20, executor=executor)
    if executor is not None:
        executor.shutdown()
    assert found.interrupted
    assert found.results[:20] == list(range(20)) and found.results[20] is None and None in found.results[21:]


def test_ctrl_c_from_outside(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import signal, time
            from concurrent.futures import ProcessPoolExecutor
            from ruvdecision.running.run import Task, run
            def slow(shared, i):
                time.sleep(0.05)
                return i
            if __name__ == "__main__":
                signal.signal(signal.SIGINT, signal.default_int_handler)
                with ProcessPoolExecutor(2, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)) as pool:
                    told = []
                    def tell(share):
                        told.append(share)
                        if len(told) == 6:
                            print("going", flush=True)
                    found = run([Task(str(i), slow, (i,)) for i in range(400)], executor=pool, tell=tell)
                print(found.interrupted, sum(r is not None for r in found.results) >= 5, None in found.results)
            """
        )
    )
    process = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None and process.stdout.readline() == "going\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (out, process.returncode) == ("True True True\n", 0), err


def test_workers_end_when_their_run_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, time
            from concurrent.futures import ProcessPoolExecutor
            from ruvdecision.running.run import Task, run
            def where(shared, i):
                time.sleep(0.02)
                return os.getpid()
            if __name__ == "__main__":
                pool = ProcessPoolExecutor(2)
                found = run([Task(str(i), where, (i,)) for i in range(8)], shared=[1], executor=pool)
                print(*set(found.results), flush=True)
                time.sleep(60)
            """
        )
    )
    process = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert process.stdout is not None
    workers = [int(word) for word in process.stdout.readline().split()]
    assert workers
    process.kill()
    process.wait()
    process.stdout.close()
    end = time.monotonic() + 20
    while any(map(_lives, workers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(_lives, workers))


def _lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# -- bad input -----------------------------------------------------------------------------------------


def test_bad_input() -> None:
    with pytest.raises(InputError, match="Tasks need keys that differ; got a"):
        run([Task("a", fail_at, (1,)), Task("a", fail_at, (2,))])
    with pytest.raises(InputError, match=r"must be a concurrent\.futures\.Executor; got int"):
        run(tasks(fail_at, 1), executor=2)  # type: ignore[arg-type]


# -- a place for runs ----------------------------------------------------------------------------------


def test_runs_inside_use_the_place(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1) as pool, using(pool, tmp_path / "runs"):
        first = run(tasks(wait_a_little, 3))
        second = run(tasks(wait_a_little, 2))
        assert run(tasks(nested, 2)).results == [[0, 1, 2]] * 2  # a run in a worker is the worker's own
    assert os.getpid() not in {*first.results, *second.results}
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["run-1", "run-2", "run-3"]
    with using(None, tmp_path / "alone"):
        assert run(tasks(nested, 2)).results == [[0, 1, 2]] * 2
    assert sorted(p.name for p in (tmp_path / "alone").iterdir()) == ["run-1"]
    assert run(tasks(wait_a_little, 1)).results == [os.getpid()]


STUDY = '''
"""A study with a class of its own."""
from dataclasses import dataclass
import numpy as np
import ruvdecision as ruv

@dataclass(frozen=True, repr=False)
class Twice(ruv.Mask):
    """Doubles."""

    factor: float = 2.0

    def apply(self, frame, rng):
        values, positions = frame.numeric("Twice")
        return frame.replace(values * self.factor, positions)

def study():
    data = np.random.default_rng(1).normal(size=(80, 2))
    masks = [Twice(), *(ruv.Noise(sd=s) for s in (0.1, 0.5, 1.0))]
    return ruv.measure(data, masks, measures=[ruv.RecordLinkage(), ruv.NormalKL()], replicates=3, seed=1)
'''


def test_the_command_line_has_workers_and_checkpoints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.py"
    path.write_text(STUDY)
    assert main(["run", str(path)]) == 0
    alone = capsys.readouterr().out
    for _ in range(2):
        assert main(["run", str(path), "--workers", "2", "--checkpoint", str(tmp_path / "keep")]) == 0
        assert capsys.readouterr().out == alone
    assert len(list((tmp_path / "keep" / "run-1" / "tasks").iterdir())) == 12
    path.write_text(STUDY.replace("sd=s", "sd=2 * s"))
    assert main(["run", str(path), "--checkpoint", str(tmp_path / "keep")]) == 2
    assert "belongs to another study; got other masks" in capsys.readouterr().err
    assert main(["run", str(path), "--workers", "2", "--dask", "tcp://127.0.0.1:1"]) == 2
    assert "do not go together" in capsys.readouterr().err
    assert main(["run", str(path), "--workers", "0"]) == 2
    assert "from 1 to" in capsys.readouterr().err


def test_the_command_line_reads_in_pieces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    for name in ("a", "b"):
        np.savetxt(tmp_path / f"{name}.csv", rng.normal(size=(50, 2)), delimiter=",", header="x,y", comments="")
    files = [
        str(tmp_path / "a.csv"),
        str(tmp_path / "b.csv"),
        "--measures",
        "KL",
        "--quiet",
        "--utility",
        "KL",
        "--max-risk",
        "1",
    ]
    assert main(["measure", *files[:-2]]) == 0
    assert main(["measure", *files[:-2], "--chunksize", "7", "--workers", "2"]) == 0
    assert main(["measure", *files[:2], "--measures", "linkage", "--chunksize", "7"]) == 2
    assert "linkage cannot read files in pieces" in capsys.readouterr().err


# -- progress ------------------------------------------------------------------------------------------


def test_time_left_follows_from_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    from ruvdecision.running import progress

    clock = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: clock[0])
    said: list[str] = []
    with host(said.append), Bar("Working") as bar:
        for share, at in ((0.5, 130.0), (0.6, 140.0), (0.75, 155.0), (1.0, 180.0)):
            clock[0] = at
            bar.tell(share, note="R-hat 1.02" if share == 0.75 else "")
    # Half was there at the start, so a tenth took ten seconds.
    assert said == ["Working: 50%", "Working: 60%, 40 s left", "Working: 75%, R-hat 1.02, 25 s left", "Working: 100%"]


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_a_bar_is_quiet_where_nobody_looks(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with Bar("Working") as bar:
        bar.start -= 60
        bar.tell(0.2)
        bar.tell(0.4, note="more")
    assert capsys.readouterr() == ("", "")
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with Bar("Working") as bar:
        bar.start -= 60
        bar.tell(0.2)
        bar.tell(0.4, note="R-hat 1.01")
    assert "Working" in screen.getvalue() and "R-hat 1.01" in screen.getvalue() and "left" in screen.getvalue()


# -- dask ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    size = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with (
        distributed.LocalCluster(**size, dashboard_address=None, silence_logs=logging.CRITICAL) as found,
        distributed.Client(found, set_as_default=False) as client,
    ):
        yield client


@pytest.mark.slow
def test_dask_gives_the_same(cluster, tmp_path: Path) -> None:
    cargo = Cargo(tmp_path / "log")
    assert run(tasks(weigh, 40), shared=cargo, executor=cluster.get_executor()).results == [
        1_000_000 + i for i in range(40)
    ]
    lines = cargo.log.read_text().splitlines()
    arrived = [line for line in lines if line.startswith("arrived")]
    assert lines.count("sent") == 1 and len(arrived) == len(set(arrived)) <= 2
    data = np.random.default_rng(3).normal(size=(60, 3))
    masks = [ruv.Noise(sd=0.3), ruv.Microaggregate(size=3, by="mdav")]
    arguments = {"measures": [RecordLinkage(), NormalKL()], "replicates": 4, "seed": 5}
    alone = measure(data, masks, **arguments)
    there = measure(data, masks, **arguments, executor=cluster.get_executor(), checkpoint=tmp_path / "run")
    for name, values in alone.columns.items():
        assert there.columns[name].tobytes() == values.tobytes(), name
    with pytest.raises(ValueError, match=r"^task 2$"):
        run(tasks(fail_at, 9), shared={2, 5}, executor=cluster.get_executor())
    cluster.run(lambda: None)
    assert cluster.run(_held) == {
        address: [] for address in cluster.scheduler_info()["workers"]
    }  # nothing stays on the workers


def _held() -> list[str]:
    return list(sharing._HELD)


@pytest.mark.slow
def test_a_dask_worker_that_dies_is_replaced(cluster, tmp_path: Path) -> None:
    found = run(tasks(die_once, 24), shared=tmp_path, executor=cluster.get_executor(), checkpoint=tmp_path / "run")
    assert found == Outcome([i * i for i in range(24)], False)
    assert len(list(tmp_path.glob("died *"))) == 3
    again = run(tasks(die_once, 24), shared=tmp_path, checkpoint=tmp_path / "run")
    assert again == found


@pytest.mark.slow
def test_the_command_line_works_on_dask(cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.py"
    path.write_text(STUDY)
    assert main(["run", str(path)]) == 0
    alone = capsys.readouterr().out
    assert main(["run", str(path), "--dask", cluster.scheduler.address]) == 0
    assert capsys.readouterr().out == alone
