"""Files from elsewhere and files that were hurt: a right answer, or one clear line.

Never a wrong number, and nothing written over.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import places
import pytest
import xarray as xr
from edges import attempt, tried
from hypothesis import example, given, settings, strategies as st

import ruvdecision as ruv
from ruvdecision.data.read import Pieces, read_data
from ruvdecision.errors import InputError, RuvError
from ruvdecision.maps.rumap import RUMap
from ruvdecision.maps.storage import FORMAT, as_bytes, from_bytes
from ruvdecision.running.checkpoint import Checkpoint, kept_seed

ROOT = places.ROOT

# -- CSV -----------------------------------------------------------------------------------------------

AB = {"a": [1, 3], "b": [2, 4]}
#: Bytes of a file, and the table that they mean or words of the refusal.
CSV: dict[str, tuple[bytes, dict[str, list[Any]] | str]] = {
    "plain": (b"a,b\n1,2\n3,4\n", AB),
    "BOM": (b"\xef\xbb\xbfa,b\n1,2\n3,4\n", AB),
    "BOM and quotes": (b'\xef\xbb\xbf"a","b"\n1,2\n3,4\n', AB),
    "CR LF": (b"a,b\r\n1,2\r\n3,4\r\n", AB),
    "CR": (b"a,b\r1,2\r3,4\r", AB),
    "no line end": (b"a,b\n1,2\n3,4", AB),
    "blank lines": (b"\n\na,b\n1,2\n\n3,4\n\n", AB),
    "semicolons": (b"a;b\n1;2\n3;4\n", AB),
    "tabs": (b"a\tb\n1\t2\n3\t4\n", AB),
    "bars": (b"a|b\n1|2\n3|4\n", AB),
    "spaces around": (b" a , b\n1,2\n3,4\n", AB),
    "a separator at the end of each row": (b"a,b\n1,2,\n3,4,\n", AB),
    "decimal commas": (b"a;b\n1,5;2\n-2,25;3\n", {"a": [1.5, -2.25], "b": [2, 3]}),
    "decimal commas with three digits": (b"a;b\n1,125;2\n2,250;3\n", {"a": [1.125, 2.25], "b": [2, 3]}),
    "decimal commas with exponents": (b"a;b\n1,5e3;2\n2,5;3\n", {"a": [1500.0, 2.5], "b": [2, 3]}),
    "a line end in quotes": (b'a,b\n"x\ny",2\nz,4\n', {"a": ["x\ny", "z"], "b": [2, 4]}),
    "a line end in a name": (b'"a\nb",c\n1,2\n3,4\n', {"a\nb": [1, 3], "c": [2, 4]}),
    "quotes in quotes": (b'a,b\n"x ""y"" z",2\n"",4\n', {"a": ['x "y" z', np.nan], "b": [2, 4]}),
    "separators in quotes": (b'"a;b;c",d\n"1;2",2\n"3;4",4\n', {"a;b;c": ["1;2", "3;4"], "d": [2, 4]}),
    "mixed types": (b"a,b\n1,2\nx,4\n", {"a": ["1", "x"], "b": [2, 4]}),
    "row labels": (b",a,b\nr,1,2\ns,3,4\n", AB),
    "missing values": (b"a,b\n,2\n3,4\n", {"a": [np.nan, 3], "b": [2, 4]}),
    "a column of nothing": (b"a,b\n,2\n,4\n", {"a": [np.nan, np.nan], "b": [2, 4]}),
    "letters from everywhere": ("ä,名\n1,2\n3,4\n".encode(), {"ä": [1, 3], "名": [2, 4]}),
    "a long entry": (b"a,b\n" + b"x" * 200_000 + b",2\ny,4\n", {"a": ["x" * 200_000, "y"], "b": [2, 4]}),
    "names from an array": (b"0,1\n1,2\n3,4\n", {"0": [1, 3], "1": [2, 4]}),
    "codes with commas": (b'a,b\n"1,2",2\n"3",4\n', {"a": ["1,2", "3"], "b": [2, 4]}),
    "UTF-16": ("a,b\n1,2\n3,4\n".encode("utf-16"), "not encoded as UTF-8"),
    "UTF-16 without a mark": ("a,b\n1,2\n3,4\n".encode("utf-16-le"), "NUL bytes"),
    "UTF-32": ("a,b\n1,2\n3,4\n".encode("utf-32"), "not encoded as UTF-8"),
    "latin-1": ("a,b\nMüller,2\n".encode("latin-1"), "not encoded as UTF-8"),
    "latin-1 in a name": ("ä,b\n1,2\n".encode("latin-1"), "not encoded as UTF-8"),
    "half a character": (b"a,b\n\xed\xa0\x80,2\n", "not encoded as UTF-8"),
    "an open quote": (b'a,b\n"x,2\nz,3\n', "cannot be read as CSV"),
    "an open quote in a name": (b'"a,b\n1,2\n', "cannot be read as CSV"),
    "a long row": (b"a,b\n1,2,3\n4,5\n", "more entries than there are names"),
    "long rows": (b"a,b\n1,2,3\n4,5,6\n", "more entries than there are names"),
    "a long row later": (b"a,b\n1,2\n4,5,6\n", "Expected 2 fields in line 3, saw 3"),
    "an entry behind the last separator": (b"a,b\n1,2,\n3,4,5\n", "more entries than there are names"),
    "a short row": (b"a,b,c\n1,2\n4,5,6\n", "fewer entries.* 1 rows, the first in line 2"),
    "cut off": (b"a,b,c\n1,2,3\n4,", "fewer entries.* 1 rows, the first in line 3"),
    "the same name twice": (b"a,a\n1,2\n", "share a name"),
    "the same name but for spaces": (b"a, a\n1,2\n", "share a name"),
    "a name missing": (b"a,,c\n1,2,3\n", "without a name"),
    "empty": (b"", "is empty"),
    "line ends only": (b"\n\n", "is empty"),
    "a mark only": (b"\xef\xbb\xbf", "is empty"),
    "names only": (b"a,b\n", "no records"),
    "no names": (b"0.5,2\n0.7,4\n", "first line of .* holds numbers"),
    "NUL in a name": (b"a\0,b\n1,2\n", "NUL bytes"),
    "NULs": (bytes(100), "NUL bytes"),
    "a name without end": (b"a" * 200_000 + b",b\n1,2\n", "name without end"),
    "thousands": (b'a,b\n"1,234",2\n"2,345",3\n', "separators of thousands; got a"),
    "thousands and points": (b'a,b\n"1,234.5",2\n7,3\n', "separators of thousands; got a"),
    "thousands and decimal commas": (b"a;b\n1.234,5;2\n2,5;3\n", "separators of thousands; got a"),
    "Swiss thousands": (b"a,b\n1'234,2\n7,3\n", "separators of thousands; got a"),
    "a comment first": (b"# made by X\na,b\n1,2\n", "more entries than there are names"),
    "a page": (b"<!DOCTYPE html><html><body>no</body></html>", "no records"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(50), "not encoded as UTF-8"),
}
PACKED = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def in_pieces(path: Path) -> pd.DataFrame:
    return pd.concat(list(Pieces(path, 1)))


@pytest.mark.parametrize("packed", ["", *PACKED])
@pytest.mark.parametrize("name", CSV)
def test_csv_as_others_write_it(name: str, packed: str, tmp_path: Path) -> None:
    content, expected = CSV[name]
    path = tmp_path / f"file.csv{packed}"
    written = PACKED.get(packed, bytes)(content)
    path.write_bytes(written)
    for read in (read_data, in_pieces):
        found = attempt(read, path, kind="files read")
        if isinstance(expected, str):
            assert isinstance(found, InputError), found
            with pytest.raises(InputError, match=expected):
                raise found
        else:
            assert not isinstance(found, RuvError), found
            pd.testing.assert_frame_equal(
                found.reset_index(drop=True),
                pd.DataFrame(expected),
                check_dtype=False,
                check_column_type=False,
                check_index_type=False,
            )
    assert path.read_bytes() == written


@pytest.mark.slow
@settings(max_examples=80)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8),
        min_size=1,
        max_size=4,
        unique_by=str.strip,
    ),
    st.integers(1, 4),
    st.sampled_from([",", ";", "\t", "|"]),
    st.booleans(),
    st.data(),
)
def test_what_is_written_is_read(names: list[str], rows: int, separator: str, mark: bool, data: Any) -> None:
    """Names and numbers come back whatever the separator, or the file is refused.

    The names of two columns are never mixed up.
    """
    table = pd.DataFrame({n: data.draw(st.lists(st.floats(-1e9, 1e9), min_size=rows, max_size=rows)) for n in names})
    path = Path("written.csv")
    path.write_bytes(b"\xef\xbb\xbf" * mark + table.to_csv(index=False, sep=separator, lineterminator="\n").encode())
    found = attempt(read_data, path, kind="files read")
    pieces = attempt(in_pieces, path, kind="files read")
    assert isinstance(found, RuvError) == isinstance(pieces, RuvError)
    if not isinstance(found, RuvError) and len(names) > 1 and not any(c in "".join(names) for c in ',;\t|"'):
        assert list(found.columns) == [n.strip() for n in names]
        np.testing.assert_allclose(found.to_numpy(dtype=float), table.to_numpy(), rtol=1e-12)


@settings(max_examples=150)
@given(st.binary(max_size=60) | st.text(alphabet='ab1,;\t|"\n\r\0.é ', max_size=40).map(str.encode))
@example(b"a\n\n\n")
@example(b'"')
def test_any_bytes_are_a_table_or_a_refusal(content: bytes) -> None:
    path = Path("bytes.csv")
    path.write_bytes(content)
    whole, pieces = (attempt(read, path, kind="files read") for read in (read_data, in_pieces))
    assert isinstance(whole, RuvError) == isinstance(pieces, RuvError), (whole, pieces)
    if isinstance(whole, pd.DataFrame):
        assert whole.shape == pieces.shape
        assert list(whole.columns) == list(pieces.columns)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))


def test_errors_of_reading_quote_no_record() -> None:
    secret = "Zebedee-4711"
    for content in (
        f'a,b\n1,"{secret}\n',
        f"a,b\n1,2\n{secret},2,3\n",
        f"{secret},{secret}\x00\n1,2\n",
        f"0.4711,4711.5\n{secret},1\n",
    ):
        Path("s.csv").write_text(content)
        found = attempt(read_data, "s.csv", kind="files read")
        assert isinstance(found, RuvError)
        assert "Zebedee" not in str(found) and "4711" not in str(found)


# -- other kinds ---------------------------------------------------------------------------------------


def table() -> pd.DataFrame:
    return pd.DataFrame({"a": np.arange(30.0), "b": np.arange(30), "s": [f"n{i % 4}" for i in range(30)]})


def whole(kind: str) -> bytes:
    path = Path(f"whole.{kind}")
    if kind == "parquet":
        pytest.importorskip("pyarrow")
        table().to_parquet(path)
    elif kind == "dta":
        table().to_stata(path, write_index=False)
    elif kind in ("sav", "por", "xpt"):
        pyreadstat = pytest.importorskip("pyreadstat")
        {"sav": pyreadstat.write_sav, "por": pyreadstat.write_por, "xpt": pyreadstat.write_xport}[kind](
            table(), str(path)
        )
    else:
        table().to_csv(path, index=False)
    return path.read_bytes()


KINDS = ["parquet", "dta", "sav", "por", "xpt", "csv.gz", "csv.bz2", "csv.xz", "csv.zip"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_was_cut_short(kind: str) -> None:
    content = whole(kind)
    assert len(read_data(f"whole.{kind}")) == 30
    cuts = [0, 1, 4, len(content) // 4, len(content) // 2, len(content) - 20, len(content) - 1]
    for cut in cuts:
        Path(f"cut.{kind}").write_bytes(content[:cut])
        found = attempt(read_data, f"cut.{kind}", kind="files read")
        if not isinstance(found, InputError):
            # A SAS transport file does not say how many records it has, and these two end in blanks.
            assert kind in ("xpt", "por"), cut
            pd.testing.assert_frame_equal(
                found.set_axis(list("abs"), axis=1), table().head(len(found)), check_dtype=False
            )


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_with_the_wrong_ending(kind: str) -> None:
    content = whole(kind)
    for other in ("csv", *KINDS, "sas7bdat", "feather", "xlsx", ""):
        if other != kind and not (other == "csv" and kind == "csv"):
            Path(f"wrong.{other}").write_bytes(content)
            found = attempt(read_data, f"wrong.{other}", kind="files read")
            assert isinstance(found, InputError), other


def test_archives_with_more_or_less_than_one_file() -> None:
    for names in ([], ["a.csv", "b.csv"]):
        with zipfile.ZipFile("many.csv.zip", "w") as archive:
            for name in names:
                archive.writestr(name, "a,b\n1,2\n")
        assert isinstance(attempt(read_data, "many.csv.zip", kind="files read"), InputError)


HURT = """
import random, sys, warnings
from pathlib import Path
warnings.simplefilter("error")
from ruvdecision.errors import RuvError
from ruvdecision.data.read import read_data
path, count = Path(sys.argv[1]), int(sys.argv[2])
content, rng, refused = path.read_bytes(), random.Random(1), 0
for _ in range(count):
    hurt = bytearray(content)
    for _ in range(rng.choice([1, 1, 3, 20])):
        hurt[rng.randrange(len(hurt))] = rng.randrange(256)
    path.write_bytes(hurt)
    try:
        read_data(path)
    except RuvError as error:
        assert error.what and error.do
        refused += 1
print(refused)
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_hurt_files_are_read_or_refused(kind: str) -> None:
    """In a process of its own: the libraries that read them are not ours.

    These kinds have no checksum, so some hurt goes unseen.
    """
    Path(f"hurt.{kind}").write_bytes(whole(kind))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", HURT, f"hurt.{kind}", "100"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    tried("files read", 100)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


# -- maps ----------------------------------------------------------------------------------------------


def rumap(**options: Any) -> RUMap:
    masks = [ruv.Suppress(), ruv.Noise(variance=2.0), ruv.Noise(sd=1.0) | ruv.Microaggregate(groups=1)]
    given: dict[str, Any] = {
        "masks": masks,
        "intruder": [4.0, 2.0, 1.0],
        "scientist": [3.0, 0.5, 0.25],
        "before": (4.0, 3.0),
    }
    given |= {
        "columns": {"IO": [0.1, 0.5, np.nan], "word": ["x", "", "z"]},
        "attrs": {"seed": 3},
        "provenance": ruv.maps.Provenance(notes=["A note."]),
        **options,
    }
    return RUMap.build(**given)


@cache
def saved() -> bytes:
    return as_bytes(rumap())


def same(one: RUMap, other: RUMap) -> None:
    """Two maps that are the same in all that a file keeps."""
    assert one.to_dataframe().equals(other.to_dataframe())
    assert (one.masks, one.notes, one.releases) == (other.masks, other.notes, other.releases)
    assert repr(dict(one.attrs)) == repr(dict(other.attrs))
    np.testing.assert_array_equal(np.stack(one.before), np.stack(other.before))


def test_every_byte_of_a_map_counts() -> None:
    """Each byte is changed in turn: the map comes back as it was, or the file is refused."""
    content, original, seen = saved(), rumap(), 0
    step = max(len(content) // 400, 1)
    for position in {*range(0, len(content), step), *range(len(content) - 90, len(content))}:
        hurt = bytearray(content)
        hurt[position] ^= 1 << position % 8
        found = attempt(from_bytes, bytes(hurt), kind="maps hurt")
        if isinstance(found, RuvError):
            seen += 1
        else:
            same(found, original)  # only the line with the checksum was hurt
            assert position >= len(content) - 90
    assert seen > 400


@settings(max_examples=60)
@given(st.data())
def test_hurt_maps(data: Any) -> None:
    content = saved()
    cut = data.draw(st.integers(0, len(content)))
    filled = data.draw(st.binary(max_size=30))
    kind = data.draw(st.sampled_from(["cut", "insert", "replace", "append"]))
    hurt = {
        "cut": content[:cut],
        "insert": content[:cut] + filled + content[cut:],
        "replace": content[:cut] + filled + content[cut + len(filled) :],
        "append": content + filled,
    }[kind]
    # Without its line a map is only as safe as HDF5 makes it; those are tried in a process of their own, below.
    if b"\nruvdecision sha256 " not in hurt[-86:] and kind != "cut":
        hurt = hurt[:8]
    found = attempt(from_bytes, hurt, kind="maps hurt")
    if not isinstance(found, RuvError):
        same(found, rumap())


UNSEALED = """
import random, sys, warnings
from ruvdecision.errors import RuvError
from ruvdecision.maps.storage import from_bytes
content = open(sys.argv[1], "rb").read()[:-85]
start, refused = int(sys.argv[2]), 0
for seed in range(start, start + int(sys.argv[3])):
    rng = random.Random(seed)
    hurt = bytearray(content)
    for _ in range(rng.choice([1, 1, 4])):
        hurt[rng.randrange(len(hurt))] = rng.randrange(256)
    print(seed, flush=True)
    try:
        from_bytes(bytes(hurt))
    except RuvError as error:
        assert error.what and error.do
        refused += 1
print("refused", refused)
"""


@pytest.mark.long
def test_maps_without_a_checksum_do_not_end_in_a_traceback() -> None:
    """As written by format 1.

    The HDF5 library itself may fall over a hurt file; then the next process goes on after it.
    """
    Path("map.nc").write_bytes(as_bytes(rumap()))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    start, end, refused, falls = 0, 300, 0, 0
    while start < end:
        command = [sys.executable, "-c", UNSEALED, "map.nc", str(start), str(end - start)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
            out, code, err = done.stdout, done.returncode, done.stderr
        except subprocess.TimeoutExpired as stuck:
            out, code, err = (stuck.stdout or b"").decode(), -9, ""
        lines = out.splitlines()
        assert code <= 0, err  # a signal is the library's fall; a traceback would be ours
        if code == 0:
            refused += int(lines[-1].split()[1])
            break
        falls += 1
        assert falls < 20
        start = int(lines[-1]) + 1
    tried("maps hurt", end)
    assert refused > 20


def edited(change: Any) -> bytes:
    """A map whose attribute or variables were changed by another program."""
    buffer = io.BytesIO(saved()[:-85])
    with h5py.File(buffer, "r+") as opened:
        meta = json.loads(opened.attrs["ruvdecision_map"])
        change(opened, meta)
        opened.attrs["ruvdecision_map"] = json.dumps(meta)
    return buffer.getvalue()


def drop(name: str) -> Any:
    def change(opened: Any, meta: Any) -> None:
        del opened[name]

    return change


def put(**entries: Any) -> Any:
    return lambda opened, meta: meta.update(entries)


def without(name: str) -> Any:
    return lambda opened, meta: meta.pop(name)


def test_a_map_of_an_older_version() -> None:
    """Format 1 had no checksum and no escaped text; its masks and numbers are read as ever."""

    def age(opened: Any, meta: Any) -> None:
        meta["format"] = 1

    tried("maps hurt")
    same(from_bytes(edited(age)), rumap())
    assert json.loads(h5py.File(io.BytesIO(as_bytes(rumap()))).attrs["ruvdecision_map"])["format"] == FORMAT


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put(format=FORMAT + 1), f"newer version; got the file, format {FORMAT + 1}.*Update ruvdecision"),
        (put(format=10**30), "newer version"),
        (put(format=0), "damaged"),
        (put(format=-1), "damaged"),
        (put(format="2"), "damaged"),
        (put(format=None), "damaged"),
        (put(format=1.5), "damaged"),
        (without("format"), "damaged"),
        (without("names"), "damaged"),
        (without("users"), "damaged"),
        (put(users=[True]), "damaged"),
        (put(users=3), "damaged"),
        (put(names=[]), "damaged"),
        (put(columns=["none"]), "damaged"),
        (put(columns=3), "damaged"),
        (put(parameters={"a": 1}), "damaged"),
        (put(attrs={"a": 1}), "damaged"),
        (put(attrs=[["a", {"mask": "os", "settings": []}]]), "damaged"),
        (put(attrs=[["a", {"array": [1], "dtype": "nonsense", "shape": [1]}]]), "damaged"),
        (put(attrs=[["a", {"array": [1], "dtype": "<f8", "shape": [5]}]]), "damaged"),
        (put(notes=3), "damaged"),
        (put(risk={"name": "nonsense"}), "damaged|one of|no such"),
        (put(risk={"column": "none"}), "damaged|column that is not there"),
        (put(risk={"tabulated": True, "name": "x"}), "damaged"),
        (put(risk=3), "damaged"),
        (put(escaped=["word"]), "damaged"),
        (put(escaped=["none"]), "damaged"),
        (drop("engine"), "damaged"),
        (drop("before"), "damaged"),
        (drop("intruder_uncertainty"), "damaged"),
        (drop("scientist_error"), "damaged"),
        (drop("mask_spec"), "damaged"),
        (drop("technique"), "damaged"),
        (drop("word"), "damaged"),
    ],
)
def test_a_map_with_parts_missing_or_wrong(change: Any, words: str) -> None:
    found = attempt(from_bytes, edited(change), kind="maps hurt")
    assert isinstance(found, RuvError), found
    with pytest.raises(RuvError, match=words):
        raise found


def test_a_map_with_more_than_it_needs() -> None:
    """Another program may add variables, attributes and groups."""

    def add(opened: Any, meta: Any) -> None:
        opened.attrs["history"] = "ncatted"
        opened["extra"] = np.arange(5)
        opened.create_group("group")["inside"] = 3.0
        meta["more"] = {"later": 1}

    tried("maps hurt")
    same(from_bytes(edited(add)), rumap())


def foreign(name: str) -> Path:
    path = Path(name)
    if name == "plain.nc":
        xr.Dataset({"x": ("y", [1.0, 2.0])}).to_netcdf(path, engine="h5netcdf")
    elif name == "classic.nc":
        xr.Dataset({"x": ("y", [1.0, 2.0])}).to_netcdf(path, engine="scipy")
    elif name == "groups.nc":
        with h5py.File(path, "w") as opened:
            opened.create_group("a/b/c")["x"] = np.arange(3)
    elif name == "types.h5":
        with h5py.File(path, "w") as opened:
            opened["x"] = np.zeros(3, dtype=[("a", "f8"), ("b", "i4")])
            opened["y"] = h5py.Empty("f8")
            opened["z"] = np.zeros((2, 3))
    elif name == "name.h5":
        with h5py.File(path, "w") as opened:
            opened.attrs["ruvdecision_map"] = np.arange(4)
    elif name == "bytes.h5":
        with h5py.File(path, "w") as opened:
            opened.attrs["ruvdecision_map"] = np.bytes_(b"\xff\xfe")
    elif name == "deep.h5":
        with h5py.File(path, "w") as opened:
            opened.attrs["ruvdecision_map"] = "[" * 20_000 + "]" * 20_000
    elif name == "empty.h5":
        h5py.File(path, "w").close()
    elif name == "signature.nc":
        path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(200))
    elif name == "text.nc":
        path.write_text("hello")
    elif name == "nothing.nc":
        path.write_bytes(b"")
    return path


FOREIGN = [
    "plain.nc",
    "classic.nc",
    "groups.nc",
    "types.h5",
    "name.h5",
    "bytes.h5",
    "deep.h5",
    "empty.h5",
    "signature.nc",
    "text.nc",
]


@pytest.mark.parametrize("name", [*FOREIGN, "nothing.nc"])
def test_netcdf_files_that_are_not_ours(name: str) -> None:
    path = foreign(name)
    before = path.read_bytes()
    found = attempt(RUMap.load, path, kind="maps hurt")
    assert isinstance(found, InputError), found
    assert str(path) in str(found) or "damaged" in str(found)
    with pytest.raises(InputError, match="exists already"):
        rumap().save(path)
    assert path.read_bytes() == before


def test_places_that_hold_no_map() -> None:
    os.mkfifo("pipe.nc")
    os.symlink("nowhere.nc", "gone.nc")
    for path in ("none.nc", ".", "pipe.nc", "gone.nc", "/dev/null", "a\0b", ""):
        assert isinstance(attempt(RUMap.load, path, kind="maps hurt"), InputError)
    for strange in (3, None, 2.5, [], b"x"):
        assert isinstance(attempt(RUMap.load, strange, kind="maps hurt"), InputError)


# -- checkpoints ---------------------------------------------------------------------------------------

RESULTS = {"first": (0.5, {"a": np.arange(3.0)}), "second": ["x", None, 2**80], "third": np.array([[1.0, np.nan]])}


def checkpoint(name: str = "run") -> Path:
    with Checkpoint(name, {"seed": 1}) as kept:
        for key, result in RESULTS.items():
            kept.put(key, result)
    return Path(name)


def read_back(folder: Path) -> dict[str, Any]:
    with Checkpoint(folder, {"seed": 1}) as kept:
        return {key: kept.get(key) for key in RESULTS}


@settings(max_examples=80)
@given(
    st.sampled_from(["first", "second", "third", "manifest"]), st.integers(0, 10**6), st.integers(0, 255), st.booleans()
)
def test_hurt_checkpoints(which: str, position: int, byte: int, cut: bool) -> None:
    """A task whose file was hurt is done again; a hurt manifest is refused, or says what it said."""
    folder = Path("run")
    if not folder.exists():
        checkpoint()
    path = folder / "manifest.json" if which == "manifest" else next((folder / "tasks").glob(f"{which}-*"))
    content = path.read_bytes()
    at = position % len(content)
    path.write_bytes(content[:at] if cut else content[:at] + bytes([byte]) + content[at + 1 :])
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ruvdecision.running.checkpoint.sources", dict)  # reading all of them takes its time
            found = attempt(read_back, folder, kind="checkpoints hurt")
    finally:
        path.write_bytes(content)
    if isinstance(found, RuvError):
        assert which == "manifest"
        return
    for key, result in RESULTS.items():
        if found[key] is not None:
            assert repr(found[key][0]) == repr(result)
        else:
            assert key == which


def test_checkpoints_of_another_run_or_kind() -> None:
    folder = checkpoint()
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    for parts, words in (
        ({"seed": 2}, "another study; got other seed"),
        ({"seed": 1, "data": 3}, "other data"),
        ({}, "other seed"),
    ):
        tried("checkpoints hurt")
        with pytest.raises(InputError, match=words), Checkpoint(folder, parts):
            pass
    manifest = json.loads((folder / "manifest.json").read_text())
    changes: list[tuple[dict[str, Any], str]] = [
        ({"format": "ruvdecision checkpoint, schema 1"}, "another kind; got ruvdecision checkpoint, schema 1"),
        ({"format": "other"}, "another kind"),
        ({"format": 3}, "another kind; got 3"),
        ({"sources": 3}, "cannot be read"),
        ({"sources": {"ruvdecision": "other"}}, "other source of ruvdecision"),
        ({"software": {}}, "other software"),
        ({"software": []}, "other software|cannot be read"),
        ({"software": 3}, "cannot be read"),
        ({"parts": []}, "cannot be read"),
        ({"parts": 3}, "cannot be read"),
        ({"salt": "zz"}, "cannot be read"),
        ({"salt": 3}, "cannot be read"),
    ]
    for change, words in changes:
        tried("checkpoints hurt")
        (folder / "manifest.json").write_text(json.dumps(manifest | change))
        with pytest.raises(InputError, match=words):
            read_back(folder)
    for text in ("", "null", "[]", "3", "[" * 50_000, "\0", '{"format": 1e999}'):
        tried("checkpoints hurt")
        (folder / "manifest.json").write_text(text)
        with pytest.raises(InputError, match=r"cannot be read|another kind"):
            read_back(folder)
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    assert before == {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_checkpoint_that_was_killed_while_it_wrote() -> None:
    folder = checkpoint()
    for place in (folder, folder / "tasks"):
        (place / ".tmp-0123").write_bytes(b"half")
    assert all(found is not None for found in read_back(folder).values())
    assert not list(folder.rglob(".tmp-*"))


def test_seeds_that_cannot_be_read() -> None:
    folder = Path("seeded")
    first = kept_seed(folder).entropy
    with Checkpoint(folder, {"seed": 1}):  # which writes the seed with its manifest
        pass
    assert kept_seed(folder).entropy == first
    for text in ("", "{", "[]", '{"entropy": -1}', '{"entropy": null}', '{"entropy": "x"}', "{}", "[" * 50_000, "\0"):
        (folder / "seed.json").write_text(text)
        found = attempt(kept_seed, folder, kind="checkpoints hurt")
        assert isinstance(found, InputError)
        assert (folder / "seed.json").read_text() == text


@pytest.mark.parametrize("where", ["", " ", "a\0b", 3, None, "file", "file/below", "other", "gone"])
def test_places_that_can_hold_no_checkpoint(where: Any) -> None:
    Path("file").write_text("x")
    Path("other").mkdir()
    (Path("other") / "letter.txt").write_text("dear")
    os.symlink("nowhere", "gone")
    before = sorted(str(p) for p in Path().rglob("*"))
    for call in (kept_seed, lambda place: Checkpoint(place, {"seed": 1}).__enter__()):
        found = attempt(call, where, kind="checkpoints hurt")
        # A seed is written with the manifest, so that only a checkpoint finds out that nothing can be written.
        assert isinstance(found, RuvError) or (call is kept_seed and where in ("file/below", "gone"))
        assert sorted(str(p) for p in Path().rglob("*")) == before
