"""Map files that were made to do harm: they read nothing else, take no more room than they have, and end in one error."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import random
import subprocess
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from edges import attempt
from places import ROOT

import ruvdecision as ruv
from ruvdecision.errors import InputError, RuvError
from ruvdecision.maps.storage import as_bytes, from_bytes

SECRET = "Zebulon Quixby, 417 shillings"


@cache
def saved() -> bytes:
    masks = [ruv.Suppress(), ruv.Noise(variance=2.0), ruv.Noise(sd=1.0) | ruv.Microaggregate(groups=1)]
    given: dict[str, Any] = {"intruder": [4.0, 2.0, 1.0], "scientist": [3.0, 0.5, 0.25], "before": (4.0, 3.0)}
    columns = {"IO": [0.1, 0.5, np.nan], "word": ["x", "", "z"], "flag": [True, False, True]}
    return as_bytes(ruv.RUMap.build(masks=masks, columns=columns, attrs={"seed": "3"}, **given))


def edited(change: Any) -> bytes:
    """A map that another program changed, with a checksum that is right."""
    buffer = io.BytesIO(saved()[:-85])
    with h5py.File(buffer, "r+") as opened:
        meta = json.loads(opened.attrs["ruvdecision_map"])
        change(opened, meta)
        opened.attrs["ruvdecision_map"] = json.dumps(meta)
    return sealed(buffer.getvalue())


def sealed(content: bytes) -> bytes:
    return content + b"\nruvdecision sha256 " + hashlib.sha256(content).hexdigest().encode() + b"\n"


def replaced(name: str, make: Any) -> Any:
    def change(opened: Any, meta: Any) -> None:
        if name in opened:
            del opened[name]
        make(opened, name)

    return change


def external(opened: Any, name: str) -> None:
    opened.create_dataset(name, (3,), dtype="S10", external=[(os.path.abspath("secret"), 0, 30)])


def external_numbers(opened: Any, name: str) -> None:
    opened.create_dataset(name, (3,), dtype="u1", external=[(os.path.abspath("secret"), 0, 3)])


def virtual(opened: Any, name: str) -> None:
    layout = h5py.VirtualLayout((3,), "f8")
    layout[:] = h5py.VirtualSource(os.path.abspath("other.h5"), "x", (3,))
    opened.create_virtual_dataset(name, layout)


def linked(opened: Any, name: str) -> None:
    opened[name] = h5py.ExternalLink(os.path.abspath("other.h5"), "x")


def soft(opened: Any, name: str) -> None:
    opened[name] = h5py.SoftLink("/release")


def huge(opened: Any, name: str) -> None:
    opened.create_dataset(name, (10**9,), dtype="f8", chunks=(10**6,), compression="gzip")


def huge_in_two(opened: Any, name: str) -> None:
    opened.create_dataset(name, (3, 10**9), dtype="f8", chunks=(1, 10**6))


def in_large_pieces(opened: Any, name: str) -> None:
    """Three numbers in a chunk of 2^24: HDF5 unpacks all of it to read one."""
    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    made.set_chunk((2**24,))
    made.set_deflate(9)
    space = h5py.h5s.create_simple((3,), (h5py.h5s.UNLIMITED,))
    h5py.h5d.create(opened.id, name.encode(), h5py.h5t.IEEE_F64LE, space, made)


def swelling(filters: int, checked: bool = False) -> Any:
    """Three numbers whose chunk unpacks to 128 MB, once or twice packed, or with a checksum that its chunk is without."""

    def make(opened: Any, name: str) -> None:
        made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        made.set_chunk((3,))
        packed = zlib.compress(bytes(2**27), 9)
        for _ in range(filters):
            made.set_deflate(9)
        for _ in range(filters - 1):
            packed = zlib.compress(packed, 9)
        if checked:
            made.set_fletcher32()
        variable = h5py.h5d.create(opened.id, name.encode(), h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((3,)), made)
        variable.write_direct_chunk((0,), packed, filter_mask=2 * checked)

    return make


def one_chunk_of_many_names(opened: Any, meta: Any) -> None:
    """64 columns that are one and the same chunk, which unpacks to 16 MB."""
    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    made.set_chunk((2**21,))
    made.set_deflate(9)
    space = h5py.h5s.create_simple((3,), (h5py.h5s.UNLIMITED,))
    variable = h5py.h5d.create(opened.id, b"large", h5py.h5t.IEEE_F64LE, space, made)
    variable.write_direct_chunk((0,), zlib.compress(bytes(2**24), 9))
    for i in range(64):
        opened[f"large{i}"] = opened["large"]
        meta["columns"].append(f"large{i}")


def named_numbers(opened: Any, name: str) -> None:
    opened.create_dataset(name, (3,), dtype=h5py.enum_dtype({"A": 1, "B": 2}, basetype="i1"))


def compound(opened: Any, name: str) -> None:
    opened[name] = np.zeros(3, dtype=[("a", "f8")])


def references(opened: Any, name: str) -> None:
    opened.create_dataset(name, (3,), dtype=h5py.ref_dtype)


def ragged(opened: Any, name: str) -> None:
    opened.create_dataset(name, (3,), dtype=h5py.vlen_dtype("f8"))


def group(opened: Any, name: str) -> None:
    opened.create_group(name)


def empty(opened: Any, name: str) -> None:
    opened[name] = h5py.Empty("f8")


def packed(opened: Any, name: str) -> None:
    opened.create_dataset(name, data=np.arange(3.0), chunks=(3,), scaleoffset=2)


MAKERS = [external, external_numbers, virtual, linked, soft, huge, huge_in_two, in_large_pieces, compound]
MAKERS += [references, ragged, group, empty, packed, named_numbers]
NAMES = ["release", "technique", "engine", "intruder_uncertainty", "scientist_error", "IO", "word", "flag", "before"]
NAMES += ["mask_spec"]


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("secret").write_text(SECRET)
    with h5py.File("other.h5", "w") as opened:
        opened["x"] = np.array([417.0, 417.0, 417.0])


@pytest.mark.usefixtures("secret")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make", MAKERS)
def test_a_variable_that_is_not_what_it_should_be(make: Any, name: str) -> None:
    found = attempt(from_bytes, edited(replaced(name, make)), kind="maps made to harm")
    assert isinstance(found, InputError), found
    assert "417" not in str(found)
    assert "Zebulon" not in str(found)


@pytest.mark.usefixtures("secret")
@pytest.mark.parametrize("make", [external, virtual, linked, huge])
def test_only_what_the_table_of_contents_lists_is_looked_at(make: Any) -> None:
    found = from_bytes(edited(replaced("unlisted", make)))
    assert "unlisted" not in found.columns
    assert found.to_dataframe().equals(from_bytes(saved()).to_dataframe())


@pytest.mark.slow
def test_a_small_file_stays_small(tmp_path: Path) -> None:
    """16 KB that claimed 400 million numbers took 3.2 GB."""

    def grow(opened: Any, meta: Any) -> None:
        n = 400_000_000
        for name in [*NAMES, "intruder_error", "scientist_uncertainty"]:
            shape, kind = ((2, n) if name == "before" else (n,)), opened[name].dtype
            string = h5py.check_string_dtype(kind) is not None
            del opened[name]
            kind = h5py.string_dtype() if string else kind
            opened.create_dataset(name, shape, dtype=kind, chunks=tuple(min(s, 2**20) for s in shape))

    content = edited(grow)
    assert len(content) < 100_000
    words, grown = memory_of(content, tmp_path)
    assert "damaged" in words
    assert grown < 200_000  # kilobytes


def memory_of(content: bytes, folder: Path) -> tuple[str, int]:
    """What loading a file says in a process of its own, and by how many kilobytes that grows."""
    script = "import resource, sys; from ruvdecision.maps.storage import load\n"
    script += "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
    script += "try:\n    load(sys.argv[1])\nexcept ValueError as error:\n    print(error)\n"
    script += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    (folder / "small.nc").write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder / "small.nc")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
    )
    words, grown = done.stdout.splitlines()
    return words, int(grown)


def with_long_texts(where: str) -> Any:
    """One long text among many short ones: 79 KB that numpy makes 900 MB of."""
    texts = {"array": ["x" * 30_000, *[""] * 7_500], "dtype": "<U1", "shape": [7_501]}

    def change(opened: Any, meta: Any) -> None:
        if where == "attrs":
            meta["attrs"].append(["odd", texts])
        else:
            opened["mask_spec"][1] = json.dumps({"mask": "Noise", "settings": [["columns", texts]]})

    return change


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        replaced("IO", swelling(1)),
        replaced("IO", swelling(2)),
        replaced("IO", swelling(1, checked=True)),
        one_chunk_of_many_names,
        with_long_texts("attrs"),
        with_long_texts("masks"),
    ],
    ids=["packed", "packed twice", "packed and without its checksum", "many names", "texts", "texts of a mask"],
)
def test_what_unpacks_to_much_more_is_refused(change: Any, tmp_path: Path) -> None:
    words, grown = memory_of(edited(change), tmp_path)
    assert "damaged" in words
    assert grown < 100_000


def test_what_other_programs_pack_is_read() -> None:
    def pack(opened: Any, meta: Any) -> None:
        for name in ("IO", "before"):
            values = opened[name][()]
            del opened[name]
            opened.create_dataset(name, data=values, chunks=values.shape, compression=9, shuffle=True, fletcher32=True)

    expected = from_bytes(saved()).to_dataframe()
    assert from_bytes(edited(pack)).to_dataframe().equals(expected)


@pytest.mark.parametrize(
    "attr",
    [
        {"array": ["a"], "dtype": "<U2000000000", "shape": [1]},
        {"array": [1], "dtype": "V2000000000", "shape": [1]},
        {"array": [1], "dtype": "O", "shape": [1]},
        {"array": [1], "dtype": [["a", "<f8"]], "shape": [1]},
        {"array": [1], "dtype": "<f8", "shape": [10**12]},
        {"array": [1], "dtype": "<f8", "shape": "x"},
        {"array": 3, "dtype": "M8[s]", "shape": []},
        {"mask": "__class__", "settings": []},
        {"mask": ["Noise"], "settings": []},
        {"mask": "Noise", "settings": [["variance", -1.0]]},
        {"mask": "Noise", "settings": 3},
        {"tuple": 3},
        {"dict": [[[1], 2]]},
        {"float": "x" * 10},
        {"float": [1]},
        {},
    ],
)
def test_settings_that_are_none(attr: Any) -> None:
    def in_attrs(opened: Any, meta: Any) -> None:
        meta["attrs"].append(["odd", attr])

    def in_masks(opened: Any, meta: Any) -> None:
        opened["mask_spec"][1] = json.dumps(attr)

    found = attempt(from_bytes, edited(in_attrs), kind="maps made to harm")
    assert isinstance(found, ruv.RUMap if attr.get("dtype", "")[:2] == "<U" else InputError), found
    rumap = attempt(from_bytes, edited(in_masks), kind="maps made to harm")
    if isinstance(rumap, ruv.RUMap) and attr.get("dtype", "")[:2] != "<U":
        assert rumap.masks is not None
        assert rumap.masks[1] is None
        assert "was not restored" in rumap.notes[-1]


JUNK: list[Any] = [None, True, 0, -1, 1e400, float("nan"), 10**40, "", "x", "../x", "release", "before", [], {}, [[]]]
JUNK += [["x"], {"x": 1}, [1, 2], "\0", "\ud800", "9" * 5000, {"mask": "Noise", "settings": [["sd", 1]]}]


def spoilt(rng: random.Random) -> bytes:
    """A map whose table of contents, or a variable of it, was changed at random; its checksum is right."""

    def change(opened: Any, meta: Any) -> None:
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            where: Any = meta
            key: Any = rng.choice(list(meta))
            while isinstance(where[key], (dict, list)) and where[key] and rng.random() < 0.6:
                where = where[key]
                key = rng.choice(list(where)) if isinstance(where, dict) else rng.randrange(len(where))
            if isinstance(where, dict) and rng.random() < 0.2:
                del where[key]
            else:
                where[key] = copy.deepcopy(rng.choice(JUNK))
            if not meta:
                break
        if rng.random() < 0.3:
            replaced(rng.choice(NAMES), rng.choice([m for m in MAKERS if "ext" not in m.__name__]))(opened, meta)

    return edited(change)


def fuzz(first: int, count: int) -> int:
    refused = 0
    for seed in range(first, first + count):
        found = attempt(from_bytes, spoilt(random.Random(seed)), kind="maps made to harm")
        refused += isinstance(found, RuvError)
    return refused


@pytest.mark.slow
@pytest.mark.usefixtures("secret")
def test_5300_tables_of_contents_at_random() -> None:
    assert fuzz(0, 5300) > 2650


HURT = """
import random, signal, sys
from ruvdecision.errors import RuvError
from ruvdecision.maps.storage import from_bytes
content, reached = open(sys.argv[1], "rb").read()[:-85], 0
for seed in range(int(sys.argv[2]), int(sys.argv[3])):
    rng = random.Random(seed)
    hurt = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8])):
        hurt[rng.randrange(len(hurt))] = rng.choice([0, 1, 255, rng.randrange(256)])
    if rng.random() < 0.1:
        del hurt[rng.randrange(len(hurt)):]
    print(seed, flush=True)
    signal.alarm(10)  # HDF5 may read some files without end: that ends this process, too
    try:
        from_bytes(bytes(hurt))
    except RuvError as error:
        assert error.what and error.do
print("end")
"""


def hurt(first: int, end: int, folder: Path) -> list[int]:
    """Load maps with bytes changed and no checksum, in processes of their own; which of them HDF5 itself fell over."""
    (folder / "map.nc").write_bytes(saved())
    environment, falls = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}, []
    while first < end:
        command = [sys.executable, "-c", HURT, str(folder / "map.nc"), str(first), str(end)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, env=environment, timeout=20 + (end - first) / 10
            )
            out, code, err = done.stdout, done.returncode, done.stderr
        except subprocess.TimeoutExpired as stuck:
            out, code, err = (stuck.stdout or b"").decode(), -9, ""
        assert code <= 0, err  # a signal is the library's fall; a traceback would be ours
        if code == 0:
            break
        falls.append(int(out.split()[-1]))
        first = falls[-1] + 1
    return falls


@pytest.mark.long
def test_bytes_at_random(tmp_path: Path) -> None:
    assert len(hurt(0, 300, tmp_path)) < 20


@pytest.mark.long
def test_5000_files_with_bytes_at_random(tmp_path: Path) -> None:
    """HDF5 is written in C and may fall; we count how often, and SECURITY.md says what that means."""
    assert len(hurt(1000, 6000, tmp_path)) < 300
