"""Running tasks: the same results whoever does them, shared data sent once, a clean stop."""

from __future__ import annotations

import io
import logging
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import places
import pytest

import ruvdecision as ruv
from ruvdecision.cli import main
from ruvdecision.errors import InputError, RuvError
from ruvdecision.measure import measure
from ruvdecision.measures import NormalKL, RecordLinkage
from ruvdecision.running.progress import Bar, report_progress_to
from ruvdecision.running.run import RunResult, Task, run
from ruvdecision.studies import load_study

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


def stop_at(shared, i: int) -> int:
    if i == shared:
        raise KeyboardInterrupt
    return i


def tasks(function, count: int) -> list[Task]:
    return [Task(f"task {i}", function, (i,)) for i in range(count)]


# -- the same results ----------------------------------------------------------------------------------


@pytest.mark.campaign(4, "slow")
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
    assert run(tasks(fail_at, 40), shared={99}, executor=Plain()) == RunResult(list(range(40)), False)


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
    shares_done: list[float] = []
    run(tasks(fail_at, 4), shared=set(), on_progress=shares_done.append)
    assert shares_done == [0.0, 0.25, 0.5, 0.75, 1.0]


# -- sent once -----------------------------------------------------------------------------------------


@pytest.mark.slow
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
    # Few tasks carry the cargo: a carrier may meet a worker that has it already.
    assert 1 <= sum(weight > 1_000_000 for weight in pool.weights) <= 4


def test_what_cannot_be_sent_is_an_error_that_tells_no_data() -> None:
    with ThreadPoolExecutor(1) as threads:
        assert run(
            tasks(use, 2), shared={"square": lambda x: x, "open": (i for i in [])}, executor=threads
        ).results == [0, 1]
    with ProcessPoolExecutor(1) as pool:
        run(tasks(wait_a_little, 1), executor=pool)  # its worker is there already, so nothing is inherited
        with pytest.raises(InputError, match="cannot be sent to a worker; got TypeError") as caught:
            run(tasks(use, 2), shared={"secret": (i for i in [1])}, executor=pool)
        assert caught.value.__cause__ is None and caught.value.__context__ is None


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


@pytest.mark.campaign(3, "slow")
@pytest.mark.parametrize("wrong", [{0}, {5, 6, 7, 20}, {39}])
def test_the_first_error_is_raised_where_workers_must_be_sent_what_is_shared(wrong: set[int]) -> None:
    with ProcessPoolExecutor(2) as pool:
        run(tasks(wait_a_little, 4), executor=pool)  # workers are there already, so nothing is inherited
        with pytest.raises(ValueError, match=rf"^task {min(wrong)}$"):
            run(tasks(fail_at, 40), shared=wrong, executor=pool)
        assert run(tasks(fail_at, 40), shared={40}, executor=pool).results == list(range(40))


@pytest.mark.slow
def test_a_pool_that_breaks_is_an_error_and_the_checkpoint_goes_on(tmp_path: Path) -> None:
    found, counts, texts = None, [0], []
    while found is None:
        # `die_once` kills its worker at four of the tasks; two may go together.
        with ProcessPoolExecutor(2) as pool:
            try:
                found = run(tasks(die_once, 30), shared=tmp_path, executor=pool, checkpoint=tmp_path / "run")
            except RuvError as error:
                texts.append(str(error))
                counts.append(len(list((tmp_path / "run" / "tasks").iterdir())))
    assert found == RunResult([i * i for i in range(30)], False)
    assert all("The executor broke" in t and "with checkpoint= it goes on where it was" in t for t in texts)
    assert 2 <= len(texts) <= 4 and counts == sorted(counts) and counts[-1] < 30


def test_an_executor_that_takes_nothing_more_is_an_error() -> None:
    with pytest.raises(RuvError, match="The executor broke"):
        run(tasks(fail_at, 30), shared=set(), executor=Plain(breaks_after=7))


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
                    def on_progress(share):
                        told.append(share)
                        if len(told) == 6:
                            print("going", flush=True)
                    found = run([Task(str(i), slow, (i,)) for i in range(400)], executor=pool, on_progress=on_progress)
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


# -- bad input -----------------------------------------------------------------------------------------


def test_bad_input() -> None:
    with pytest.raises(InputError, match="Tasks need keys that differ; got a"):
        run([Task("a", fail_at, (1,)), Task("a", fail_at, (2,))])
    with pytest.raises(InputError, match=r"must be an Executor; got an int"):
        run(tasks(fail_at, 1), executor=2)  # type: ignore[arg-type]


# -- the command line ----------------------------------------------------------------------------------


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

def study(executor=None, checkpoint=None):
    data = np.random.default_rng(1).normal(size=(80, 2))
    masks = [Twice(), *(ruv.Noise(sd=s) for s in (0.1, 0.5, 1.0))]
    measures = [ruv.measures.RecordLinkage(), ruv.measures.NormalKL()]
    return ruv.measure(data, masks, measures=measures, replicates=3, seed=1, executor=executor, checkpoint=checkpoint)
'''


def test_the_command_line_has_workers_and_checkpoints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.py"
    path.write_text(STUDY)
    assert main(["run", str(path)]) == 0
    alone = capsys.readouterr().out
    for _ in range(2):
        assert main(["run", str(path), "--workers", "2", "--checkpoint", str(tmp_path / "keep")]) == 0
        assert capsys.readouterr().out == alone
    assert len(list((tmp_path / "keep" / "tasks").iterdir())) == 12
    path.write_text(STUDY.replace("sd=s", "sd=2 * s"))
    assert main(["run", str(path), "--checkpoint", str(tmp_path / "keep")]) == 2
    assert "belongs to another study; got other masks and source of ruvdecision_study_mine" in capsys.readouterr().err
    assert main(["run", str(path), "--workers", "2", "--dask", "tcp://127.0.0.1:1"]) == 2
    assert "do not go together" in capsys.readouterr().err
    assert main(["run", str(path), "--workers", "0"]) == 2
    assert "from 1 to" in capsys.readouterr().err
    path.write_text(
        STUDY.replace("study(executor=None, checkpoint=None)", "study(executor=None)").replace(
            "checkpoint=checkpoint", ""
        )
    )
    assert main(["run", str(path), "--checkpoint", str(tmp_path / "other")]) == 2
    assert "mine takes no checkpoint. Write def study(..., checkpoint=None) in it" in capsys.readouterr().err
    assert load_study(path).settings == {}  # how a study is run is no setting of it


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_the_command_line_ends_its_workers(how: signal.Signals, tmp_path: Path) -> None:
    slow = "class Slow:\n    name, role = 'slow', 'utility'\n    def __call__(self, a, b):\n        import os, time\n"
    slow += f"        open(os.path.join({str(tmp_path)!r}, f'worker {{os.getpid()}}'), 'w').close()\n"
    slow += "        time.sleep(0.3)\n        return 1.0\n"
    study = STUDY.replace("def study", slow + "def study").replace("ruv.measures.NormalKL()", "Slow()")
    (tmp_path / "mine.py").write_text(study.replace("replicates=3", "replicates=300"))
    command = [sys.executable, "-m", "ruvdecision", "run", "mine.py", "--workers", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as process:
        while len(list(tmp_path.glob("worker *"))) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(how)
        assert process.wait(timeout=60) == 130
    assert not [path for path in tmp_path.glob("worker *") if Path("/proc", path.name.split()[1]).exists()]


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
    with report_progress_to(said.append), Bar("Working") as bar:
        for share, at in ((0.5, 130.0), (0.6, 140.0), (0.75, 155.0), (1.0, 180.0)):
            clock[0] = at
            bar.update(share, note="R-hat 1.02" if share == 0.75 else "")
    # Half was there at the start, so a tenth took ten seconds.
    assert said == ["Working: 50%", "Working: 60%, 40 s left", "Working: 75%, R-hat 1.02, 25 s left", "Working: 100%"]


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_a_bar_is_quiet_where_nobody_looks(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with Bar("Working") as bar:
        bar.start -= 60
        bar.update(0.2)
        bar.update(0.4, note="more")
    assert capsys.readouterr() == ("", "")
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with Bar("Working") as bar:
        bar.start -= 60
        bar.update(0.2)
        bar.update(0.4, note="R-hat 1.01")
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


@pytest.mark.long
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


@pytest.mark.long
def test_a_dask_worker_that_dies_is_replaced(cluster, tmp_path: Path) -> None:
    found = run(tasks(die_once, 24), shared=tmp_path, executor=cluster.get_executor(), checkpoint=tmp_path / "run")
    assert found == RunResult([i * i for i in range(24)], False)
    assert len(list(tmp_path.glob("died *"))) == 3
    again = run(tasks(die_once, 24), shared=tmp_path, checkpoint=tmp_path / "run")
    assert again == found


@pytest.mark.long
def test_the_command_line_works_on_dask(cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.py"
    path.write_text(STUDY)
    assert main(["run", str(path)]) == 0
    alone = capsys.readouterr().out
    assert main(["run", str(path), "--dask", cluster.scheduler.address]) == 0
    assert capsys.readouterr().out == alone


@pytest.fixture
def separate(tmp_path: Path):
    """A scheduler and three workers, each a process of its own, as on several machines."""
    psutil = pytest.importorskip("psutil")
    distributed = pytest.importorskip("distributed")
    where = str(tmp_path / "scheduler.json")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "dask"]
    start = [*dask, "scheduler", "--scheduler-file", where, "--port", "0", "--no-dashboard", "--host", "127.0.0.1"]
    scheduler = subprocess.Popen(start, **quiet)
    join = [*dask, "worker", "--scheduler-file", where, "--nthreads", "1", "--no-dashboard", "--no-nanny"]
    workers = [subprocess.Popen(join, **quiet) for _ in range(3)]
    try:
        with distributed.Client(scheduler_file=where, set_as_default=False, timeout="60s") as client:
            client.wait_for_workers(3, timeout=60)
            yield client, psutil.Process(scheduler.pid), workers
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


@pytest.mark.long
def test_a_thousand_points_on_a_cluster_of_processes_outlive_a_killed_worker(separate, tmp_path: Path) -> None:
    client, scheduler, workers = separate
    data = pd.DataFrame(np.random.default_rng(3).normal(size=(20_000, 6)), columns=list("abcdef"))
    masks = [ruv.Noise(sd=float(sd)) for sd in np.geomspace(0.01, 10, 1000)]
    arguments = {"measures": [RecordLinkage(known=["a"]), NormalKL()], "replicates": 1, "seed": 5}
    memory: list[int] = []

    def watch() -> None:
        done = 0
        while done < 950:
            time.sleep(0.1)
            done = sum(1 for path in (tmp_path / "run").rglob("*") if path.is_file())
            if done >= 100:
                memory.append(scheduler.memory_info().rss)
            if done >= 300 and workers[0].poll() is None:
                workers[0].send_signal(signal.SIGKILL)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    there = measure(data, masks, **arguments, executor=client.get_executor(), checkpoint=tmp_path / "run")
    watcher.join(10)
    assert workers[0].poll() == -signal.SIGKILL and len(memory) > 5
    # The file is a megabyte: it went through the scheduler once per worker, and nothing of it stayed there.
    assert max(memory) - memory[0] < 20e6
    alone = measure(data, masks[::50], **arguments)
    assert np.array_equal(there.risk[::50], alone.risk) and np.array_equal(there.utility[::50], alone.utility)


# -- a scheduler that is gone ----------------------------------------------------------------------------


class Gone(Executor):
    """Does some tasks, and then cannot be reached."""

    def __init__(self, left: int, error: BaseException, when: str) -> None:
        self.left, self.error, self.when = left, error, when

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.left == 0 and self.when == "submit":
            raise self.error
        if self.left == 0:
            future.set_exception(self.error)
        else:
            self.left -= 1
            future.set_result(function(*args, **kwargs))
        return future


Gone.__module__ = "distributed.cfexecutor"


@pytest.mark.parametrize("error", [OSError("Timed out"), ConnectionRefusedError("refused"), RuntimeError("shutdown")])
@pytest.mark.parametrize("when", ["submit", "result"])
def test_a_scheduler_that_dies_is_one_line_and_the_run_goes_on_later(tmp_path, error, when) -> None:
    if when == "result" and not isinstance(error, OSError):
        pytest.skip("an error of a task")
    tasks = [Task(f"task {i}", pow, (i,)) for i in range(12)]
    with pytest.raises(RuvError, match=f"the scheduler is gone; got {type(error).__name__}.* goes on where it was"):
        run(tasks, shared=2, executor=Gone(5, error, when), checkpoint=tmp_path / "run")
    assert len(list((tmp_path / "run" / "tasks").iterdir())) >= 4
    assert run(tasks, shared=2, checkpoint=tmp_path / "run").results == [2**i for i in range(12)]
