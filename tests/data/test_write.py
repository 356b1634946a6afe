"""Files are written whole or not at all, together or none of them, and never over another unless that is asked for."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import places
import pytest
from edges import tried

from ruvdecision.data.write import check_output_paths, place_files, unfinished_files, write_files
from ruvdecision.errors import InputError, RuvError
from ruvdecision.maps.rumap import RUMap
from ruvdecision.running.fingerprint import key_file, own_key

ROOT = places.ROOT
STEPS = ["open", "fsync", "link", "replace", "chmod"]


def small() -> RUMap:
    return RUMap.build(labels=["a", "b"], intruder=[2.0, 1.0], scientist=[0.5, 0.25])


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything below a directory, with the bytes of its files."""
    return {str(p.relative_to(folder)): None if p.is_dir() else p.read_bytes() for p in sorted(folder.rglob("*"))}


class Fault:
    """An operation of the system that fails at its n-th call, and works before and after."""

    def __init__(self, patch: pytest.MonkeyPatch, step: str, at: int, error: BaseException) -> None:
        self.calls, self.hit, self.survived = 0, False, False
        real = getattr(os, step)

        def call(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls == at + 1:
                self.hit = True
                raise error
            return real(*arguments, **options)

        patch.setattr(os, step, call)


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "interrupt"]
)
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_fault_at_any_step_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, overwrite: bool, error: BaseException
) -> None:
    """Three files, one of them new: whichever call fails, all are there as they were, and nothing else is."""
    (tmp_path / "keep.txt").write_text("beside")
    if overwrite:
        for name in ("a.txt", "b.txt"):
            (tmp_path / name).write_text(f"old {name}")
    contents = {
        tmp_path / "a.txt": b"new a",
        tmp_path / "b.txt": b"new b",
        tmp_path / "deep" / "er" / "c.txt": b"new c",
    }
    before, faults = tree(tmp_path), 0
    for at in range(40):
        with monkeypatch.context() as patch:
            fault = Fault(patch, step, at, error)
            expected = RuvError if isinstance(error, OSError) else KeyboardInterrupt
            with contextlib.suppress(expected):
                write_files(contents, overwrite=overwrite, folders=True)
                fault.survived = True
            if not fault.survived:
                assert fault.hit
                faults += 1
                tried("faults while writing")
                assert tree(tmp_path) == before
                continue
        assert tree(tmp_path) == before | {
            "a.txt": b"new a",
            "b.txt": b"new b",
            "deep": None,
            "deep/er": None,
            "deep/er/c.txt": b"new c",
        }
        if not fault.hit:
            break
        # The fault was got around: by copying where there are no hard links.
        assert step == "link"
        for place in contents:
            place.unlink()
        (tmp_path / "deep" / "er").rmdir()
        (tmp_path / "deep").rmdir()
        if overwrite:
            for name in ("a.txt", "b.txt"):
                (tmp_path / name).write_text(f"old {name}")
    else:
        pytest.fail("the fault never went away")
    used = {"open": True, "fsync": True, "link": True, "replace": overwrite, "chmod": overwrite}
    assert (faults > 0 or step == "link") == used[step]


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*arguments: Any, **options: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", unknown)
    write_files({tmp_path / "a": b"1", tmp_path / "b": b"2"})
    with pytest.raises(InputError, match="Files exist already"):
        write_files({tmp_path / "a": b"3", tmp_path / "b": b"4"})
    with pytest.raises(FileExistsError):
        place_files({tmp_path / "c": b"5", tmp_path / "a": b"3"})
    assert tree(tmp_path) == {"a": b"1", "b": b"2"}
    write_files({tmp_path / "a": b"3", tmp_path / "b": b"4"}, overwrite=True)
    assert tree(tmp_path) == {"a": b"3", "b": b"4"}


def test_of_many_writers_one_wins(tmp_path: Path) -> None:
    """Without looking first, as two processes would that looked at the same instant."""

    def write(i: int) -> bool:
        try:
            place_files({tmp_path / "one": b"%d" % i, tmp_path / "two": b"%d" % i})
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = [i for i, ok in enumerate(pool.map(write, range(40))) if ok]
    tried("faults while writing", 40)
    assert len(won) == 1
    assert tree(tmp_path) == {"one": b"%d" % won[0], "two": b"%d" % won[0]}


def test_places_that_no_file_can_have(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    before = sorted(os.listdir(tmp_path))
    bad = {
        tmp_path: "directory",
        tmp_path / "file" / "below": "not a directory",
        tmp_path / "none" / "below": "no directory",
        tmp_path / "gone": "exists already",
        tmp_path / "loop": "cannot be written|exists already",
        tmp_path / ("x" * 300): "cannot be written",
        tmp_path / "a\0b": "no name",
        "": "no name",
        ".": "no name",
        3: "named by its path",
        None: "named by its path",
    }
    for place, words in bad.items():
        tried("faults while writing")
        with pytest.raises(InputError, match=words):
            small().save(place)
        with pytest.raises(InputError, match=words):
            small().report(place, format="md")
    for place in (tmp_path / "pipe", "/dev/null", "/dev/full"):
        if os.path.exists(place):
            tried("faults while writing")
            with pytest.raises(InputError, match="regular file"):
                small().save(place, overwrite=True)
            with pytest.raises(InputError, match="exists already"):
                small().save(place)
    assert sorted(os.listdir(tmp_path)) == before
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_links_and_permissions_stay(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    kept = small().save(tmp_path / "elsewhere" / "map.nc")
    kept.chmod(0o640)
    (tmp_path / "map.nc").symlink_to(kept)
    other = RUMap.build(labels=["c"], intruder=[3.0], scientist=[1.0])
    other.save(tmp_path / "map.nc", overwrite=True)
    assert (tmp_path / "map.nc").is_symlink()
    assert RUMap.load(kept).releases == ("c",)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    assert [p.name for p in (tmp_path / "elsewhere").iterdir()] == ["map.nc"]


def test_places_are_checked_before_any_work(tmp_path: Path) -> None:
    check_output_paths([tmp_path / "a" / "b" / "c"], folders=True)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a").write_text("x")
    with pytest.raises(InputError, match="is not a directory"):
        check_output_paths([tmp_path / "a" / "b" / "c"], folders=True)


LIMITED = """
import resource, sys
from pathlib import Path
from ruvdecision.cli import main
from ruvdecision.maps.rumap import RUMap
rumap = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.0], scientist=[0.5, 0.25])
out = Path(sys.argv[1])
rumap.save(out / "map.nc"); rumap.report(out / "report.html"); main(["run", sys.argv[2], "--out", str(out / "first"), "--quiet"])
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
for call in (
    lambda: rumap.save(out / "map.nc", overwrite=True), lambda: rumap.save(out / "new.nc"),
    lambda: rumap.report(out / "report.html", overwrite=True), lambda: rumap.report(out / "new.md", figures=out / "figures"),
):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error.__cause__.strerror)
for place, more in (("first", ["--force"]), ("second", [])):
    print(main(["run", sys.argv[2], "--out", str(out / place), *more]))
"""


@pytest.mark.long
def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """A limit of the system on the size of files, which the HDF5 library would meet, too."""
    pytest.importorskip("resource")
    study = tmp_path / "tiny.py"
    body = "RUMap.build(labels=['only'], intruder=[2.0], scientist=[1.0])"
    study.write_text(f"from ruvdecision.maps.rumap import RUMap\ndef study():\n    return {body}\n")
    out = tmp_path / "out"
    out.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, out, study], env=environment, capture_output=True, text=True, timeout=300
    )
    tried("faults while writing", 6)
    assert done.stdout.splitlines()[-6:] == ["RuvError File too large"] * 4 + ["2", "2"], done.stdout + done.stderr
    assert [line.split(" could not")[0][:20] for line in done.stderr.splitlines()] == ["ruvdecision: error: "] * 2
    assert sorted(p.name for p in out.rglob("*")) == sorted(
        ["map.nc", "report.html", "first", "map.nc", "map.csv", "map.png", "report.html"]
    )
    assert RUMap.load(out / "map.nc").size == 2
    assert RUMap.load(out / "first" / "map.nc").size == 1


def test_the_key_is_made_once_and_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUVDECISION_KEY")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "data"))
    with monkeypatch.context() as patch:
        Fault(patch, "fsync", 0, OSError(28, "No space left on device"))
        assert own_key(create=True) is None
    assert not (tmp_path / "data").exists()
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: own_key(create=True), range(16)))
    assert len(keys) == 1 and None not in keys
    assert list(key_file().parent.iterdir()) == [key_file()]
    assert os.name != "posix" or stat.S_IMODE(key_file().stat().st_mode) == 0o600


def test_unfinished_files_are_known_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed leaves at most such files.

    Here it is killed at the moment the file is to get its name.
    """
    script = "import os, sys, signal; from ruvdecision.data.write import write_files\n"
    script += "os.link = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\nwrite_files({sys.argv[1]: b'x'})"
    subprocess.run(
        [sys.executable, "-c", script, tmp_path / "a"], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    )
    assert not (tmp_path / "a").exists()
    assert len(list(tmp_path.iterdir())) == len(list(unfinished_files(tmp_path))) == 1
