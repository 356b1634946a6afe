"""Checkpoints: nothing finished is lost, nothing foreign is taken, and the end is the same to the last bit."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import places
import pytest
import scipy.stats
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_array_equal

import ruvdecision as ruv
from ruvdecision.engines.rules.source import RecordSource
from ruvdecision.errors import InputError, RuvError, UnsupportedError
from ruvdecision.measure import measure
from ruvdecision.measures import NormalKL, RecordLinkage
from ruvdecision.measures.comparison import Finding
from ruvdecision.running import checkpoint as module
from ruvdecision.running.checkpoint import Checkpoint
from ruvdecision.running.digests import digest
from ruvdecision.running.encoding import decode, encode
from ruvdecision.running.run import Task, run

ROOT = places.ROOT
MEASURES = [RecordLinkage(), NormalKL()]
MASKS = [ruv.Noise(sd=0.2), ruv.Noise(sd=0.5) | ruv.Microaggregate(size=3, by="mdav"), ruv.RankSwap(within=0.2)]


def square(log: Path, i: int) -> dict[str, Any]:
    with open(log, "a") as opened:
        opened.write(f"{i}\n")
    return {"square": np.float64(i) ** 2, "odd": bool(i % 2)}


def tasks(count: int) -> list[Task]:
    return [Task(f"task {i}", square, (i,)) for i in range(count)]


def data(seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])


# -- results as text -----------------------------------------------------------------------------------

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.floats(width=32, allow_nan=False).map(np.float32),
    st.integers(0, 255).map(np.uint8),
    st.lists(st.floats(), max_size=4).map(np.array),
    st.lists(st.text(max_size=3), min_size=1, max_size=3).map(np.array),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=4), st.integers(), st.just("@")), inner, max_size=3),
    ),
    max_leaves=12,
)


def same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, (np.ndarray, np.generic)):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return bool(a == b) and (not isinstance(a, float) or np.signbit(a) == np.signbit(b))


@settings(deadline=None, max_examples=60)
@given(trees)
def test_results_come_back_to_the_last_bit(tree: Any) -> None:
    assert same(decode(encode(tree)), tree)


def test_the_layout_of_arrays_and_the_place_of_named_tuples_come_back() -> None:
    matrix = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert decode(encode(matrix)).flags.f_contiguous and same(decode(encode(matrix)), matrix)
    finding = Finding(0.5, 0.1, {"J": 1.0})
    assert decode(encode(finding)) == tuple(finding)
    objects = np.array([["a", None], [1.5, (2, 3)]], dtype=object)
    assert_array_equal(decode(encode(objects)), objects)


@dataclass(frozen=True)
class Foreign:
    x: int = 1


@pytest.mark.parametrize("value", [Foreign(), {1, 2}, object(), lambda: 1, b"bytes", np.zeros(2, dtype=[("a", float)])])
def test_what_needs_code_to_be_read_is_refused(value: object) -> None:
    with pytest.raises(UnsupportedError, match="A checkpoint cannot hold this result"):
        encode([value])


@pytest.mark.parametrize("name", ["os:system", "subprocess:Popen", "ruvdecision.protocols:Solution"])
def test_a_file_cannot_name_code_to_run(name: str, tmp_path: Path) -> None:
    with pytest.raises((KeyError, ValueError, TypeError)):
        decode(json.dumps({"@": name, "of": {}}))


# -- digests -------------------------------------------------------------------------------------------


def close_over(x: float) -> Any:
    return lambda u: u + x


HALF = 0.5


def uses_half(u: float) -> float:
    return u * HALF


FRAME = pd.DataFrame(
    {
        "a": [1.0, 2.0],
        "b": ["x", None],
        "c": pd.Categorical(["u", "v"]),
        "t": pd.to_datetime(["2020-01-01", "2021-01-01"]),
    }
)
DIFFERENT = [
    None, 0, 1, True, 1.0, np.float32(1), "1", b"1", [1], (1,), {"a": 1}, {"a": 2}, {1}, -0.0, 0.0, np.nan, 1.0 + 2**-52,
    np.array([1.0]), np.array([[1.0]]), np.array([1]), np.array(["x"]), np.array(["x", None], dtype=object),
    FRAME, FRAME.iloc[::-1], FRAME.rename(columns={"a": "z"}), FRAME.assign(b=["x", "None"]), FRAME.assign(b=["x", "y"]),
    FRAME.set_index("b"), FRAME["a"], FRAME.assign(a=[1, 2]), FRAME.assign(c=["u", "v"]), FRAME.assign(a=[1.0, np.nan]),
    pd.Series(["1", "2"]), pd.Series([1, 2], dtype=object), pd.Series([1, 2], dtype="Int64"),
    np.random.SeedSequence(1), np.random.SeedSequence(1, spawn_key=(1,)), np.random.default_rng(1), np.random.default_rng(2),
    ruv.Noise(sd=1), ruv.Noise(sd=1.5), ruv.Noise(sd=1) | ruv.Microaggregate(size=3, by="rows"), NormalKL(), NormalKL("both"),
    ruv.NormalBelief(records=3, variance=1, prior="flat"), ruv.NormalBelief(records=3, variance=2, prior="flat"),
    ruv.Record(0), ruv.Record(1),
    close_over(1.0), close_over(2.0), lambda u: u + 1, lambda u: u + 2, lambda u: "mean", lambda u: "sum", partial(pow, 2), partial(pow, 3),
    scipy.stats.norm(0, 1), scipy.stats.norm(0, 2), scipy.stats.t(3), int, float, np,
]  # fmt: skip


def test_digests_tell_things_apart() -> None:
    found = [digest(value, b"salt") for value in DIFFERENT]
    twins = [(i, j) for i in range(len(found)) for j in range(i) if found[i] == found[j]]
    assert not twins, [(DIFFERENT[i], DIFFERENT[j]) for i, j in twins]
    assert found == [digest(value, b"salt") for value in DIFFERENT]
    assert not set(found) & {digest(value, b"other") for value in DIFFERENT}


class Shrunk:
    """A loss of one's own with a setting, no dataclass."""

    def __init__(self, weight: float, places: list[int]) -> None:
        self.weight, self.places = weight, places


def test_digests_tell_the_settings_of_an_object_apart() -> None:
    found = [digest(Shrunk(w, p), b"") for w, p in ((0.5, [1]), (0.25, [1]), (0.5, [2]))]
    assert len(set(found)) == 3
    assert found[0] == digest(Shrunk(0.5, [1]), b"")


def test_digests_follow_what_a_function_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(uses_half, b"")
    monkeypatch.setattr(sys.modules[__name__], "HALF", 0.25)
    assert digest(uses_half, b"") != before


def test_digests_end_for_things_that_hold_themselves() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    assert digest(ring, b"") == digest(ring, b"")


def test_digests_do_not_depend_on_the_layout_or_the_process() -> None:
    wide = np.arange(12.0).reshape(3, 4)
    assert digest(wide, b"") == digest(np.asfortranarray(wide), b"")
    assert digest(pd.DataFrame(wide)[::2], b"") == digest(pd.DataFrame(wide)[::2].copy(), b"")
    code = "from ruvdecision.running.digests import digest; import ruvdecision as ruv\n"
    code += "print(digest([{'a', 'b', 'c', 'd', 'e'}, ruv.Noise(sd=1), {'k': 1.5}], b'x'))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    assert done.stdout.strip() == digest([{"a", "b", "c", "d", "e"}, ruv.Noise(sd=1), {"k": 1.5}], b"x")


# -- the directory -------------------------------------------------------------------------------------


def test_finished_tasks_are_not_done_again(tmp_path: Path) -> None:
    log, folder = tmp_path / "log", tmp_path / "run"
    first = run(tasks(6), shared=log, checkpoint=folder)
    (next((folder / "tasks").glob("task_2-*"))).unlink()
    damaged = next((folder / "tasks").glob("task_4-*"))
    damaged.write_text(damaged.read_text().replace("16", "17").replace("true", "false")[:-3])
    (folder / "tasks" / ".tmp-1-task").write_text("half a fi")
    shares_done: list[float] = []
    again = run(tasks(6), shared=log, checkpoint=folder, on_progress=shares_done.append)
    assert same(again.results, first.results)
    assert log.read_text().split() == ["0", "1", "2", "3", "4", "5", "2", "4"]
    assert shares_done == [4 / 6, 5 / 6, 1.0]
    assert not list((folder / "tasks").glob(".tmp-*"))
    assert same(run(tasks(6), shared=log, checkpoint=folder).results, first.results)


def test_workers_may_change_between_runs(tmp_path: Path) -> None:
    alone = measure(data(), MASKS, measures=MEASURES, replicates=4, seed=3)
    with ProcessPoolExecutor(2) as pool:
        first = measure(
            data(), MASKS, measures=MEASURES, replicates=4, seed=3, executor=pool, checkpoint=tmp_path / "run"
        )
    files = sorted((tmp_path / "run" / "tasks").iterdir())
    assert len(files) == 12
    for path in files[::2]:
        path.unlink()
    second = measure(data(), MASKS, measures=MEASURES, replicates=4, seed=3, checkpoint=tmp_path / "run")
    for rumap in (first, second):
        for name, values in alone.columns.items():
            assert rumap.columns[name].tobytes() == values.tobytes(), name


@pytest.mark.long
def test_masks_that_share_their_draws_stay_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulated snooper draws records and noise once for all masks; a checkpoint must not make it do so for each."""
    drawn: list[int] = []
    draw = RecordSource.draw
    monkeypatch.setattr(RecordSource, "draw", lambda self, seeds: drawn.append(len(seeds)) or draw(self, seeds))
    snooper = ruv.Snooper(np.max, ruv.Maximum())
    masks = [ruv.Noise(sd=0.1 * k) for k in range(1, 41)]
    users = {"intruder": snooper, "scientist": snooper}
    alone = ruv.evaluate(masks, **users, data=data(), seed=1, replicates=20)
    once = sum(drawn)
    drawn.clear()
    kept = ruv.evaluate(masks, **users, data=data(), seed=1, replicates=20, checkpoint=tmp_path / "run")
    assert sum(drawn) == once > 0
    assert kept.intruder.value.tobytes() == alone.intruder.value.tobytes()


def other_cell(table: pd.DataFrame) -> pd.DataFrame:
    changed = table.copy()
    changed.iloc[59, 2] = np.nextafter(changed.iloc[59, 2], 9)
    return changed


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"data": other_cell(data())}, "data"),
        ({"masks": [*MASKS[:2], ruv.RankSwap(within=0.25)]}, "masks"),
        ({"measures": [RecordLinkage(known=["a"]), NormalKL()]}, "measures"),
        ({"seed": 4}, "seed"),
        ({"replicates": 5}, "replicates and work"),
        ({"releases": {"r": data(2)}}, "releases and work"),
    ],
)
def test_another_study_is_refused(tmp_path: Path, change: dict[str, Any], part: str) -> None:
    arguments: dict[str, Any] = {
        "data": data(),
        "masks": MASKS,
        "measures": MEASURES,
        "replicates": 4,
        "seed": 3,
        "checkpoint": tmp_path / "run",
    }
    measure(**arguments)
    with pytest.raises(InputError, match=rf"belongs to another study; got other {part}\. Run the study"):
        measure(**arguments | change)
    measure(**arguments)  # and it is still good for its own


def test_a_run_without_a_seed_goes_on_too(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"measures": MEASURES, "replicates": 3, "checkpoint": tmp_path / "run"}
    first = measure(data(), MASKS, **arguments)
    for path in list((tmp_path / "run" / "tasks").iterdir())[:5]:
        path.unlink()
    again = measure(data(), MASKS, **arguments)
    assert first.attrs["seed"] == again.attrs["seed"]
    assert_array_equal(first.columns["KL"], again.columns["KL"])
    assert measure(data(), MASKS, measures=MEASURES).attrs["seed"] != first.attrs["seed"]
    (tmp_path / "run" / "seed.json").write_text("{}")
    with pytest.raises(InputError, match="The seed of the checkpoint"):
        measure(data(), MASKS, **arguments)


def test_files_are_known_by_their_content(tmp_path: Path) -> None:
    data(2).to_csv(tmp_path / "r.csv", index=False)
    arguments = {"releases": {"r": tmp_path / "r.csv"}, "measures": MEASURES, "checkpoint": tmp_path / "run"}
    first = measure(data(), **arguments)
    os.rename(tmp_path / "r.csv", tmp_path / "moved.csv")
    again = measure(data(), **arguments | {"releases": {"r": tmp_path / "moved.csv"}})
    assert_array_equal(first.columns["KL"], again.columns["KL"])
    other_cell(data(2)).to_csv(tmp_path / "moved.csv", index=False)
    with pytest.raises(InputError, match="other releases"):
        measure(data(), **arguments | {"releases": {"r": tmp_path / "moved.csv"}})


def test_other_software_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tasks(2), shared=tmp_path / "log", checkpoint=tmp_path / "run")
    real = module._software_versions()
    monkeypatch.setattr(module, "_software_versions", lambda: real | {"numpy": "0.1"})
    with pytest.raises(InputError, match=rf"last bits; got numpy {np.__version__} then, 0\.1 now"):
        run(tasks(2), shared=tmp_path / "log", checkpoint=tmp_path / "run")


def test_places_that_are_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="must be a directory; got the file"):
        run(tasks(1), shared=tmp_path / "log", checkpoint=tmp_path / "file")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="is not a checkpoint; got a directory with 1 other files"):
        run(tasks(1), shared=tmp_path / "log", checkpoint=tmp_path / "full")
    with pytest.raises(InputError, match="checkpoint must be a directory; got int"):
        run(tasks(1), shared=tmp_path / "log", checkpoint=3)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".tmp-3-manifest.json").write_text("{")  # killed while it was being made
    assert len(run(tasks(1), shared=tmp_path / "log", checkpoint=tmp_path / "empty").results) == 1
    (tmp_path / "empty" / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match="cannot be read"):
        run(tasks(1), shared=tmp_path / "log", checkpoint=tmp_path / "empty")
    manifest = {"format": "ruvdecision checkpoint, schema 99", "software": {}, "parts": {}, "sources": {}, "salt": "00"}
    (tmp_path / "empty" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="another kind; got ruvdecision checkpoint, schema 99"):
        run(tasks(1), shared=tmp_path / "log", checkpoint=tmp_path / "empty")


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with Checkpoint(tmp_path / "run", {"seed": 1}), pytest.raises(InputError, match="Another run is working"):
        Checkpoint(tmp_path / "run", {"seed": 1}).__enter__()
    script = "import sys, time; from ruvdecision.running.checkpoint import Checkpoint"
    script += "; kept = Checkpoint(sys.argv[1], {'seed': 1}).__enter__(); print('in', flush=True); time.sleep(60)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path / "run"], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None and process.stdout.readline() == "in\n"
    with pytest.raises(InputError, match="Another run is working"):
        Checkpoint(tmp_path / "run", {"seed": 1}).__enter__()
    process.kill()
    process.wait()
    process.stdout.close()
    with Checkpoint(tmp_path / "run", {"seed": 1}):
        pass


def test_no_record_is_in_a_checkpoint(tmp_path: Path) -> None:
    table = pd.DataFrame({"name": [f"Zebedee{i}" for i in range(40)], "income": 700_000.125 + np.arange(40)})
    masks = [ruv.Noise(sd=100.0, columns=["income"]), ruv.RankSwap(within=0.3, columns=["income"])]
    measure(
        table,
        masks,
        measures=[RecordLinkage(known=["income"]), NormalKL(columns=["income"])],
        seed=1,
        checkpoint=tmp_path / "run",
    )
    texts = [path.read_text() for path in (tmp_path / "run").rglob("*.json")]
    assert len(texts) == 3
    # With the point: four digits alone may stand in a digest by chance.
    assert not any("Zebedee" in text or re.search(r"7000\d\d\.", text) for text in texts)
    with Checkpoint(tmp_path / "one", {"data": table}), Checkpoint(tmp_path / "two", {"data": table}):
        pass
    first, second = (json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("one", "two"))
    assert first["salt"] != second["salt"] and first["parts"] != second["parts"]


# -- faults --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["fsync", "replace"])
def test_a_full_disk_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    log, folder = tmp_path / "log", tmp_path / "run"
    whole = run(tasks(9), shared=log)
    real, left = getattr(os, fault), [5 + (2 if fault == "fsync" else 1)]  # the manifest comes first

    def full(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, fault, full)
        with pytest.raises(
            RuvError, match="could not be written: No space left on device; got 5 finished tasks, which are kept"
        ) as caught:
            run(tasks(9), shared=log, checkpoint=folder)
    assert isinstance(caught.value.__cause__, OSError)
    assert len(list((folder / "tasks").iterdir())) == 5  # whole files only
    log.write_text("")
    again = run(tasks(9), shared=log, checkpoint=folder)
    assert same(again.results, whole.results)
    assert log.read_text().split() == ["5", "6", "7", "8"]


def test_a_full_disk_with_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, left = os.replace, [4]

    def full(*args: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(*args)

    with ProcessPoolExecutor(2) as pool:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", full)
            with pytest.raises(RuvError, match="3 finished tasks, which are kept"):
                run(tasks(40), shared=tmp_path / "log", checkpoint=tmp_path / "run", executor=pool)
        again = run(tasks(40), shared=tmp_path / "log", checkpoint=tmp_path / "run", executor=pool)
    assert same(again.results, run(tasks(40), shared=tmp_path / "log").results)


KILLED = """
import os, random, signal, sys, time
from concurrent.futures import ProcessPoolExecutor
import numpy as np
import ruvdecision as ruv
from ruvdecision.measure import measure
from ruvdecision.report import fingerprint

folder, rng = sys.argv[1], random.Random(7)
data = np.random.default_rng(1).normal(size=(250, 3))
masks = [ruv.Noise(sd=0.1 * k) for k in range(1, 7)]
measures = [ruv.measures.RecordLinkage(), ruv.measures.NormalKL()]

def work(checkpoint, executor=None):
    return measure(data, masks, measures=measures, replicates=10, seed=1, checkpoint=checkpoint, executor=executor)

whole = fingerprint(work(None))
start = time.monotonic()
work(folder + "/timed")
span = time.monotonic() - start
kills, ends, progress = 0, 0, []
while kills < 20:
    child = os.fork()
    os.setpgid(child, child or os.getpid())  # so that its workers are killed, too
    if child == 0:
        if kills % 4 == 3:
            with ProcessPoolExecutor(2) as pool:
                found = work(folder + "/run", pool)
        else:
            found = work(folder + "/run")
        os._exit(0 if fingerprint(found) == whole else 7)
    time.sleep(rng.uniform(0.0, 0.6 * span))
    os.killpg(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    kills += code != 0
    if code == 0:
        ends += 1
        for name in os.listdir(folder + "/run/tasks")[:45]:
            os.remove(folder + "/run/tasks/" + name)
    tasks = folder + "/run/tasks"
    progress.append(len([n for n in os.listdir(tasks) if not n.startswith(".")]) if os.path.isdir(tasks) else 0)
assert fingerprint(work(folder + "/run")) == whole
print("same", kills, len(set(progress)) > 3)
"""


@pytest.mark.long
def test_twenty_kills_change_nothing(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(textwrap.dedent(KILLED))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, script, tmp_path], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "same 20 True\n", done.stdout + done.stderr


def test_a_partial_map_after_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    @dataclass(frozen=True)
    class Impatient:
        name = "impatient"
        role = "utility"

        def __call__(self, original: Any, released: Any) -> float:
            asked.append(1)
            if len(asked) == 8:
                raise KeyboardInterrupt
            return 1.0

    arguments: dict[str, Any] = {"measures": [NormalKL(), Impatient()], "replicates": 3, "seed": 1}
    rumap = measure(data(), MASKS, **arguments)
    assert list(rumap.releases) == [str(MASKS[0]), str(MASKS[1])] and rumap.attrs["partial"] == "yes"
    assert rumap.notes[0] == "Stopped before the end: 2 of 3 releases were finished."
    whole = measure(data(), MASKS, measures=[NormalKL()], replicates=3, seed=1)
    assert_array_equal(rumap.columns["KL"], whole.columns["KL"][:2])
    asked[:] = [1] * 6
    with pytest.raises(KeyboardInterrupt):
        measure(data(), MASKS, **arguments)


def test_a_solution_with_other_numbers_is_another_result() -> None:
    outcome = Finding(0.5, 0.1, {})
    assert encode(outcome) != encode(outcome._replace(value=np.nextafter(0.5, 1)))


# -- directories that somebody prepared ----------------------------------------------------------------


def test_a_link_in_a_checkpoint_is_not_followed(tmp_path: Path) -> None:
    folder, victim = tmp_path / "run", tmp_path / "victim"
    run(tasks(2), shared=tmp_path / "log", checkpoint=folder)
    victim.write_text("precious")
    for place in (next((folder / "tasks").iterdir()), folder / "seed.json", folder / "lock", folder / "tasks" / "new"):
        kept = place.read_bytes() if place.exists() else None
        place.unlink(missing_ok=True)
        place.symlink_to(victim)
        with pytest.raises(InputError, match="holds what no run puts there"):
            run(tasks(2), shared=tmp_path / "log", checkpoint=folder)
        place.unlink()
        if kept is not None:
            place.write_bytes(kept)
    assert victim.read_text() == "precious"
    os.rename(folder / "tasks", tmp_path / "elsewhere")
    (folder / "tasks").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="holds what no run puts there"):
        run(tasks(2), shared=tmp_path / "log", checkpoint=folder)
    os.unlink(folder / "tasks")
    os.mkfifo(folder / "tasks")  # to open it would be to wait for ever
    with pytest.raises(InputError, match="holds what no run puts there"):
        run(tasks(2), shared=tmp_path / "log", checkpoint=folder)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system knows no owners")
def test_a_checkpoint_belongs_to_whoever_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    run(tasks(1), shared=tmp_path / "log", checkpoint=folder)
    folder.chmod(0o777)
    with pytest.raises(InputError, match="open to others"):
        run(tasks(1), shared=tmp_path / "log", checkpoint=folder)
    for inside in (folder / "tasks", folder / "manifest.json", next((folder / "tasks").iterdir())):
        mode = stat.S_IMODE(inside.stat().st_mode)
        inside.chmod(mode | 0o022)
        folder.chmod(0o755)
        with pytest.raises(InputError, match="open to others"):
            run(tasks(1), shared=tmp_path / "log", checkpoint=folder)
        folder.chmod(0o700)  # behind this nobody else gets there
        run(tasks(1), shared=tmp_path / "log", checkpoint=folder)
        inside.chmod(mode)
    (tmp_path / "new").mkdir()
    (tmp_path / "new").chmod(0o775)
    run(tasks(1), shared=tmp_path / "log", checkpoint=tmp_path / "new")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.raises(InputError, match="belongs to another user"):
        run(tasks(1), shared=tmp_path / "log", checkpoint=folder)
    with pytest.raises(InputError, match="belongs to another user"):
        measure(data(), MASKS, measures=MEASURES, checkpoint=folder)


def test_a_planted_seed_is_not_used(tmp_path: Path) -> None:
    """Who plants the seed of a run knows its noise. Beside a manifest it could not have been planted without the data."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    (folder / "seed.json").write_text('{"entropy": "417"}')
    first = measure(data(), MASKS, measures=MEASURES, checkpoint=folder)
    assert first.attrs["seed"] != "417"
    assert measure(data(), MASKS, measures=MEASURES, checkpoint=folder).attrs["seed"] == first.attrs["seed"]
    (folder / "seed.json").write_text('{"entropy": "417"}')
    with pytest.raises(InputError, match="other seed"):
        measure(data(), MASKS, measures=MEASURES, checkpoint=folder)


ODD = ["null", "3", "[]", "{}", '"x"', "{", "\ud800".encode("utf-8", "surrogatepass"), "[" * 100_000, "1e400", "\0"]
ODD += ['{"entropy": 1e400}', '{"entropy": -1}', '{"entropy": []}', '{"entropy": "' + "9" * 6000 + '"}']


def odd_manifests(folder: Path) -> list[Any]:
    good = json.loads((folder / "manifest.json").read_text())
    junk = [None, 3, [], {}, "x", [[1, 2]], 1e400, "00" * 5000, {"a": {"b": 1}}, {"class": "os.system"}]
    # No source in common is no reason to refuse.
    changed = [good | {n: x} for n in good for x in junk if not (n == "sources" and isinstance(x, dict))]
    return [
        *ODD,
        *(json.dumps(item) for item in changed),
        *(json.dumps({k: good[k] for k in good if k != n}) for n in good),
    ]


@pytest.mark.slow
def test_odd_manifests_seeds_and_tasks_end_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def again() -> Any:
        return measure(data(), MASKS[:1], measures=MEASURES, checkpoint=folder)

    first = again()
    for name, texts in (("manifest.json", odd_manifests(folder)), ("seed.json", ODD)):
        good = (folder / name).read_bytes()
        for text in texts:
            (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
            with pytest.raises(InputError):
                again()
        (folder / name).write_bytes(good)
    task = next((folder / "tasks").iterdir())
    key = json.loads(task.read_text().partition("\n")[2])["tuple"][0]
    for text in ["{", '{"dtype": "V9", "shape": [1], "bytes": "", "order": "C", "scalar": false}', '{"class": "os"}']:
        content = f'{{"tuple": ["{key}", {text}]}}'
        task.write_text(f"{module._checksum(content)}\n{content}")
        with contextlib.suppress(RuvError):
            again()  # done again, or refused
    task.unlink()
    assert_array_equal(again().columns["KL"], first.columns["KL"])


def measured(folder: Path | None) -> Any:
    return measure(data(), MASKS[:2], measures=MEASURES, replicates=2, seed=3, checkpoint=folder).to_dataframe()


def measured_in_pieces(folder: Path | None) -> Any:
    releases = {"r": data(2), "s": [data(3), data(4)]}
    return measure(data(), releases=releases, measures=[NormalKL()], chunksize=20, checkpoint=folder).to_dataframe()


def evaluated(folder: Path | None) -> Any:
    user = ruv.User(ruv.NormalBelief(records=4, variance=1, prior_variance=2), ruv.Record(0), ruv.Quadratic())
    return ruv.evaluate(
        MASKS[:1] + [ruv.Noise(sd=0.7)], intruder=user, scientist=user, checkpoint=folder
    ).to_dataframe()


def calibrated(folder: Path | None) -> Any:
    belief = ruv.NormalBelief(records=4, variance=1, prior_mean=0, prior_variance=2)
    found = ruv.calibrate(belief, ruv.Noise(sd=0.5), ruv.Record(0), simulations=12, seed=1, checkpoint=folder)
    return pd.DataFrame({"rank": found.ranks[:, 0]})


def first_leaves_changed(good: Any) -> list[Any]:
    """A good result with a part left out, doubled or of another kind, at every depth."""
    if isinstance(good, dict):
        kept = [{k: v for k, v in good.items() if k != name} for name in good]
        return kept + [good | {k: x} for k, v in good.items() for x in (*other_kinds(v), *first_leaves_changed(v))]
    if isinstance(good, (list, tuple)):
        changed = [[*good[:i], x, *good[i + 1 :]] for i, part in enumerate(good) for x in other_kinds(part)]
        changed += [[x, *good[1:]] for first in good[:1] for x in first_leaves_changed(first)]
        return [type(good)(x) for x in (*[good[1:]][: len(good)], (*good, "x"), *changed)]
    if isinstance(good, np.ndarray):
        return [good[1:], good[None], np.concatenate([good, good]), good.astype(str), good.astype(complex)]
    return []


def other_kinds(good: Any) -> list[Any]:
    return [x for x in WRONG if type(x) is not type(good)]


WRONG: list[Any] = [None, {}, [], [[]], "x", {"J": []}, np.array(["a"]), np.zeros((2, 2), dtype=complex), [None] * 9]


@pytest.mark.slow
@pytest.mark.parametrize("study", [measured, measured_in_pieces, evaluated, calibrated])
def test_a_result_of_another_shape_is_done_again(study: Callable[[Path | None], Any], tmp_path: Path) -> None:
    """Planted with a right checksum, it ended in a bare TypeError, KeyError or KeyboardInterrupt when it was joined."""
    folder = tmp_path / "run"
    right = study(folder)
    task = sorted((folder / "tasks").iterdir())[0]
    whole = task.read_bytes()
    key, good = decode(task.read_text().partition("\n")[2])
    planted = [*WRONG, 3, good, *first_leaves_changed(good)]
    assert len(planted) > 20
    for result in planted:
        text = encode((key, result))
        task.write_text(f"{module._checksum(text)}\n{text}")
        place = task.stat().st_ino
        pd.testing.assert_frame_equal(study(folder), right, check_exact=True)
        assert task.read_bytes() == whole and (task.stat().st_ino == place) == (result is good)
