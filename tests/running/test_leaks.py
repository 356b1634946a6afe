"""What is sent to workers holds the records, by need.

Nothing else about workers does, and a run leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import places
import pytest
from edges import tried
from sentinels import SECRETS, WHO, chain, files, labelled, leaks, numbers, table

import ruvdecision as ruv
from ruvdecision.running.run import Task, pickle_for_worker, run

ROOT = places.ROOT


def test_tasks_do_not_show_their_arguments() -> None:
    work = pickle_for_worker((max, (labelled(), WHO)))
    assert leaks(bytes(work)) and leaks(repr(work) + str(work) + f"{work!s}{work!r}") == []
    assert pickle.loads(work)[0] is max


def fail_on(shared: Any, row: int) -> float:
    """A task that goes wrong inside a library, which then quotes the record."""
    return float(f"{shared['name'][row]} {SECRETS[0]}")


@pytest.mark.parametrize("workers", [0, 1])
def test_errors_of_workers(workers: int) -> None:
    """Ours come back clean. Those of code that is not ours come back as they are: they are the caller's own."""
    data = labelled()
    calls = [
        lambda pool: ruv.measure(
            data, [ruv.Noise(sd=1.0, columns=["name"])], measures=[ruv.measures.NormalKL()], seed=1, executor=pool
        ),
        lambda pool: ruv.measure(
            data,
            [ruv.Recode(categories={"a": "b"}, columns=["trade"])],
            measures=[ruv.measures.TotalVariation()],
            executor=pool,
        ),
        lambda pool: ruv.evaluate(
            [ruv.Noise(sd=1.0)], intruder=SNOOPER, scientist=SNOOPER, data=numbers(), seed=1, executor=pool
        ),
    ]
    pool = ProcessPoolExecutor(1) if workers else None
    try:
        for call in calls:
            tried("leaks")
            with pytest.raises(ruv.RuvError) as caught:
                call(pool)
            assert leaks(chain(caught.value)) == []
        with pytest.raises(ValueError, match="Zebulon"):
            run([Task("one", fail_on, (6,))], shared=data, executor=pool)
    finally:
        if pool is not None:
            pool.shutdown()


def breaks(release: Any) -> float:
    return float(f"{WHO} {np.max(release)}")


SNOOPER = ruv.Snooper(breaks, ruv.Maximum())

SCRIPT = f"""
import sys, time
from concurrent.futures import ProcessPoolExecutor
import numpy as np
import ruvdecision as ruv

class Slow:
    name, role = "slow", "utility"
    def __call__(self, original, released):
        time.sleep(0.3)
        return 1.0

if __name__ == "__main__":
    data = np.repeat(np.array({list(SECRETS)}), 40)
    with ProcessPoolExecutor(2) as pool:
        print("ready", flush=True)
        ruv.measure(data, [ruv.Noise(sd=float(s)) for s in range(1, 60)], measures=[Slow()], executor=pool, checkpoint="run", seed=1)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT", "SIGTERM"])
def test_a_run_that_is_ended_leaves_no_record(how: str, tmp_path: Path) -> None:
    shared = set(os.listdir("/dev/shm")) if Path("/dev/shm").is_dir() else set()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp"), "HOME": str(tmp_path)}
    child = subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdout is not None and child.stdout.readline() == b"ready\n"
    for _ in range(600):
        if (tmp_path / "run" / "tasks").is_dir() and any((tmp_path / "run" / "tasks").iterdir()):
            break
        time.sleep(0.1)
    os.kill(child.pid, getattr(signal, how))
    child.wait(timeout=60)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # Python leaves the workers of a killed pool waiting
    _, told = child.communicate(timeout=60)
    found = files(tmp_path)
    found.pop("script.py")
    tried("leaks", len(found))
    assert any(name.startswith("run/tasks") for name in found)
    assert {name: leaks(content) for name, content in found.items() if leaks(content)} == {}
    assert leaks(told) == []
    # What a killed pool leaves are names of empty locks at most; none of it is larger than a page.
    for name in set(os.listdir("/dev/shm")) - shared if Path("/dev/shm").is_dir() else ():
        assert os.stat(f"/dev/shm/{name}").st_size <= 4096


@pytest.mark.long
def test_a_dask_cluster_sees_no_record_in_names_and_logs(caplog: pytest.LogCaptureFixture) -> None:
    distributed = pytest.importorskip("distributed")
    data = labelled()
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, silence_logs=False
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        pool = client.get_executor()
        released = {"theirs": table() + 1.5, "more": table() * 1.1}
        ruv.measure(table(), releases=released, measures=[ruv.measures.NormalKL()], executor=pool)
        wrong = {"theirs": data.assign(trade="baker", income=[WHO] * len(data))}
        with pytest.raises(ruv.RuvError) as caught:
            ruv.measure(data, releases=wrong, measures=[ruv.measures.NormalKL(columns=["income"])], executor=pool)
        assert leaks(chain(caught.value)) == []
        with pytest.raises(
            ValueError, match="Zebulon"
        ):  # a task of the caller's own, whose error dask logs with its arguments
            run([Task("one", fail_here, (data,))], executor=pool)
        log = str(list(cluster.scheduler.transition_log)) + str(client.get_events()) + str(client.get_worker_logs())
        log = log.replace("float(argument", "")
    tried("leaks", 3)
    assert "run_on_worker-" in log
    names = [entry for entry in log.split("'") if entry.startswith(("run_on_worker-", "_Sealed", "bytes-"))]
    assert names and leaks("\n".join(names)) == []
    failed = [record.getMessage() for record in caplog.records if "Compute Failed" in record.getMessage()]
    assert failed, "dask's log was not heard"
    for text in failed:
        task = text.split("Task:")[1].split("Exception:")[0]
        assert leaks(task) == []


def fail_here(shared: Any, data: Any) -> float:
    return float(WHO)


MODEL = f"""
import os, sys
import numpy as np
import ruvdecision as ruv

def incomes(n):
    import pymc as pm
    with pm.Model() as model:
        pm.Normal("x", pm.Normal("mu", 6e4, 1e4), {{sigma}}, shape=n)
    return model

user = ruv.User(ruv.PyMCBelief(incomes), ruv.Record(0), ruv.Absolute())
data = np.array({list(SECRETS)})
rumap = ruv.evaluate([ruv.Noise(sd=9000.0)], intruder=user, scientist=user, data=data, engine={{engine}}, replicates=1, seed=1)
print(rumap)
rumap.save("map.nc")
"""


@pytest.mark.long
@pytest.mark.parametrize("engine", ["ruv.Quadrature()", "ruv.Sampling(draws=50, tune=100, chains=2)"])
def test_compiled_models_hold_no_record(engine: str, tmp_path: Path) -> None:
    """PyTensor and numba write what they compile to disk; records are inputs of that code and not constants in it."""
    (tmp_path / "script.py").write_text(MODEL.format(engine=engine, sigma='pm.HalfNormal("s", 1e4)'))
    flags = f"base_compiledir={tmp_path / 'pytensor'}"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
    }
    environment |= {"PYTENSOR_FLAGS": flags, "TMPDIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, timeout=560, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = files(tmp_path)
    found.pop("script.py")
    tried("leaks", len(found))
    assert leaks(done.stdout + done.stderr) == []
    assert {name: leaks(content) for name, content in found.items() if leaks(content)} == {}


@pytest.mark.long
def test_a_sampler_that_fails_tells_no_record() -> None:
    def impossible(n: int) -> Any:
        import pymc as pm

        with pm.Model() as model:
            mu = pm.Normal("mu", 0, 1)
            pm.Uniform("x", mu, mu + 1e-6, shape=n)
        return model

    user = ruv.User(ruv.PyMCBelief(impossible), ruv.Record(0), ruv.Absolute())
    engine = ruv.Sampling(draws=20, tune=20, chains=2)
    tried("leaks")
    with pytest.raises(ruv.RuvError) as caught:
        ruv.evaluate(
            [ruv.Noise(sd=1e-3)], intruder=user, scientist=user, data=numbers(), engine=engine, replicates=1, seed=1
        )
    assert leaks(chain(caught.value)) == []
