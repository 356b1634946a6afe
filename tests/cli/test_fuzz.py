"""The command line under arguments that nobody should write: exit code 0 or 2, one clear line, no stray file."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import places
import pytest
from edges import tried
from hypothesis import given, settings, strategies as st

from ruvdecision import cli
from ruvdecision.explore.server import Server

ROOT = places.ROOT
MAP = "RUMap.build(labels=['a', 'b'], intruder=[2.0, 1.0], scientist=[0.5, 0.25])"
HEAD = "from ruvdecision.maps.rumap import RUMap\n"
GOOD = f'"""Two releases."""\n{HEAD}def study(n=1, label="x", flag=False, grid=None):\n    return {MAP}\n'

#: Study files that are wrong in some way, by what is wrong.
BAD_STUDIES = {
    "empty": "",
    "no study": "x = 1\n",
    "syntax": "def study(:\n",
    "indent": "def study():\nreturn 3\n",
    "nul": "x = 1\0\n",
    "deep": "x = " + "(" * 300 + ")" * 300 + "\n",
    "study is a number": "study = 3\n",
    "study is a type": "study = dict\n",
    "raises while loading": "raise ValueError('no')\n",
    "exits while loading": "raise SystemExit(0)\n",
    "exits": "import sys\ndef study():\n    sys.exit(0)\n",
    "raises": "def study():\n    raise KeyError('gone')\n",
    "raises lines": "def study():\n    raise ValueError('one\\ntwo\\r\\nthree\\u2028four')\n",
    "raises strange text": "def study():\n    raise ValueError('\\ud800 \\x00 \\x1b[31m')\n",
    "raises what has no text": "class E(Exception):\n    def __str__(self): raise TypeError\ndef study():\n    raise "
    "E\n",
    "raises a base exception": "class E(BaseException): pass\ndef study():\n    raise E('x')\n",
    "raises GeneratorExit": "def study():\n    raise GeneratorExit\n",
    "raises an error of ours, its own way": (
        "from ruvdecision.errors import RuvError\nclass E(RuvError):\n    def __init__(self): super().__init__('a', "
        "'b', 'c')\n"
        "def study():\n    raise E\n"
    ),
    "raises a group": "def study():\n    raise ExceptionGroup('many', [ValueError('a'), TypeError('b')])\n",
    "recursion": "def study():\n    return study()\n",
    "memory": "def study():\n    raise MemoryError\n",
    "recursive assertion": "def study():\n    assert False\n",
    "nothing": "def study(): ...\n",
    "text": "def study():\n    return 'map'\n",
    "a map class": f"{HEAD}def study():\n    return RUMap\n",
    "an empty list": "def study():\n    return []\n",
    "an empty dict": "def study():\n    return {}\n",
    "a list with None": f"{HEAD}def study():\n    return [{MAP}, None]\n",
    "a generator that fails": f"{HEAD}def study():\n    yield {MAP}\n    raise ValueError('late')\n",
    "names that are the same": f"{HEAD}def study():\n    return {{'A b': {MAP}, 'a_B': {MAP}}}\n",
    "a bad map": f"{HEAD}def study():\n    return RUMap.build(labels=['a'], intruder=[1.0, 2.0], scientist=[1.0])\n",
    "too many arguments": "def study(a, b):\n    return a\n",
    "notes that are no function": f"{GOOD}notes = 3\n",
    "figure that is no function": f"{GOOD}figure = 'x'\n",
    "threshold is text": f"{GOOD}MAX_RISK = 'low'\n",
    "threshold is NaN": f"{GOOD}MAX_RISK = float('nan')\n",
    "threshold is true": f"{GOOD}MAX_RISK = True\n",
    "threshold is a list": f"{GOOD}MAX_RISK = [1]\n",
    "threshold is negative": f"{GOOD}MAX_RISK = -1\n",
    "imports what is not there": "import no_such_module_at_all\n",
    "imports itself wrongly": "from . import x\n",
}
#: Studies that are odd, and right.
ODD_STUDIES = {
    "prints": GOOD + "print('loud')\n",
    "docstring is a number": f"{GOOD}__doc__ = 3\n",
    "a class as study": f"{HEAD}class study:\n    def __new__(cls): return {MAP}\n",
    "threshold is huge": f"{GOOD}MAX_RISK = 10**400\n",
    "a lambda": f"{HEAD}study = lambda **all: {MAP}\n",
    "a generator": f"{HEAD}def study():\n    yield {MAP}\n",
    "changes the directory": f"import os, tempfile\n{HEAD}def study():\n    os.chdir(tempfile.gettempdir())\n    "
    f"return {MAP}\n",
    "latin": f"# -*- coding: latin-1 -*-\n{HEAD}def study():\n    return {MAP}\n",
    "labels": (
        f"{HEAD}def study():\n    odd = ['$x', '\\\\frac{{', 'half \\ud800', 'null \\x00', '\\u202e', ' ', '<b>', "
        "'=1+1', '💥' * 300]\n"
        "    u = [1.0 + i for i in range(len(odd))]\n    return RUMap.build(labels=odd, intruder=u, scientist=u)\n"
    ),
}
TEXTS = [
    "",
    " ",
    "nan",
    "-inf",
    "1e999",
    "-1",
    "0",
    "9" * 5000,
    "0x10",
    "１",
    "a=b",
    "=",
    "\0",
    "\ud800",
    "💥",
    "--",
    "-",
    "-x",
    "*",
    "~",
    "a\nb",
]
OPTIONS = [
    "--max-risk",
    "--out",
    "--set",
    "--format",
    "--date",
    "--figures",
    "--checkpoint",
    "--workers",
    "--force",
    "--quiet",
    "--debug",
]
MEASURE = ["--known", "--model", "--measures", "--columns", "--missing", "--key", "--risk", "--utility", "--chunksize"]


class Place:
    """A directory with studies, data and traps, that remembers what it held."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = {
            "good.py": GOOD,
            "bad.py": BAD_STUDIES["raises"],
            "panel.py": f"{HEAD}def study():\n    return {{'one': {MAP}, 'two': {MAP}}}\n",
            "data.csv": "a,b,g\n" + "".join(f"{i},{i * i % 7},{'xy'[i % 2]}\n" for i in range(12)),
            "other.csv": "a,b,g\n" + "".join(f"{i + 1},{i * i % 7},{'xy'[i % 2]}\n" for i in range(12)),
            "short.csv": "a,b\n1,2\n3\n",
            "letter.txt": "dear",
            "full/map.nc": "precious",
            "full/report.html": "signed",
            "half/map.png": "old",
        }
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        (folder / "void").mkdir()
        (folder / "gone.csv").symlink_to(folder / "nowhere.csv")
        (folder / "gone").symlink_to(folder / "nowhere")
        (folder / "loop").symlink_to(folder / "loop")
        os.mkfifo(folder / "pipe.csv")
        os.mkfifo(folder / "pipe.py")
        Path(os.fsdecode(os.fsencode(folder) + b"/n\xffme.csv")).write_text(files["other.csv"])
        self.names = [
            *files,
            "void",
            "full",
            "half",
            "gone",
            "gone.csv",
            "loop",
            "loop/x",
            "letter.txt/below",
            "pipe.csv",
            "new",
            "new/deep",
        ]
        self.names += [
            "new",
            "new/deep",
            os.fsdecode(b"n\xffme.csv"),
            "none.csv",
            "none.py",
            "x" * 300,
            "/dev/null",
            "/dev/full",
            ".",
            "..",
            "/",
        ]
        self.before = self.look()

    def look(self) -> dict[str, bytes | None]:
        found = {}
        for root, folders, names in os.walk(self.folder):
            found |= {os.path.join(root, name): None for name in folders}
            for name in names:
                path = Path(root, name)
                found[str(path)] = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        return found

    def run(self, *argv: str, code: tuple[int, ...] = (0, 2)) -> tuple[int, str, str]:
        """Run the command line there, hold it to the rules and put things back."""
        tried("command lines")
        out, err, home = io.StringIO(), io.StringIO(), Path.cwd()
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                found = cli.main(list(argv))
        finally:
            os.chdir(home)
        said = err.getvalue()
        assert found in code, (argv, found, said)
        lines = said.splitlines() if "--debug" not in argv else said.splitlines()[-1:]
        assert len(lines) == (found != 0), (argv, lines)
        assert all(
            line.startswith("ruvdecision: error: ") and "Traceback" not in line and "unexpected" not in line
            for line in lines
        )
        self.check("--force" in argv)
        return found, out.getvalue(), said

    def check(self, force: bool) -> None:
        now = self.look()
        fresh = {name: content for name, content in now.items() if name not in self.before}
        try:
            assert not [name for name in self.before if name not in now], "something was deleted"
            changed = [name for name in self.before if now[name] != self.before[name]]
            assert force or not changed, f"written over: {changed}"
            assert all(Path(name).name in ("map.nc", "map.png", "report.html") for name in changed)
            assert not [name for name in fresh if Path(name).name.startswith(".")], "an unfinished file was left"
            folders = [name for name, content in fresh.items() if content is None and os.path.isdir(name)]
            assert all(os.listdir(name) for name in folders), "an empty directory was left"
            # All files of a run, or none.
            for folder in {os.path.dirname(n) for n in fresh if n.endswith((".nc", ".csv", ".png", ".html", ".md"))}:
                there = os.listdir(folder)
                if not folder.endswith("figures"):
                    assert any(n.endswith(".nc") for n in there)
                    assert any(n.startswith("report.") for n in there)
        finally:
            for name in sorted(fresh, reverse=True):
                os.rmdir(name) if os.path.isdir(name) and not os.path.islink(name) else os.unlink(name)
            for name, content in self.before.items():
                if content is not None and now.get(name) != content:
                    Path(name).write_bytes(content)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("place"))


@pytest.fixture(autouse=True, scope="module")
def served() -> Any:
    """The page is opened and closed at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Server, "run", lambda self: None)
        patch.setattr("webbrowser.open", lambda address: True)
        yield


@pytest.mark.parametrize("wrong", BAD_STUDIES)
def test_bad_studies_fail_in_one_line_and_leave_nothing(wrong: str, place: Place) -> None:
    path = place.folder / "odd.py"
    path.write_text(BAD_STUDIES[wrong], encoding="utf-8")
    try:
        place.before = place.look()
        assert place.run("run", "odd.py", "--out", "new")[0] == 2
        assert place.run("run", "odd.py", "--out", "new/deep", "--debug", "--format", "md")[0] == 2
        place.run("models", ".")
        if wrong != "a generator that fails":  # the page runs the study later
            place.run("explore", "odd.py", "--port", "0", "--no-browser")
    finally:
        path.unlink()
        place.before = place.look()


@pytest.mark.slow
@pytest.mark.campaign(3)
@pytest.mark.parametrize("odd", ODD_STUDIES)
def test_odd_studies_run(odd: str, place: Place) -> None:
    path = place.folder / "odd.py"
    path.write_text(ODD_STUDIES[odd], encoding="latin-1" if odd == "latin" else "utf-8")
    try:
        place.before = place.look()
        code, out, err = place.run("run", "odd.py", "--out", "new", "--max-risk", "1", "--date", "none")
        assert code == 0, err
        assert "Wrote new/" in out
    finally:
        path.unlink()
        place.before = place.look()


def test_a_study_that_is_interrupted(place: Place) -> None:
    path = place.folder / "odd.py"
    path.write_text("def study():\n    raise KeyboardInterrupt\n")
    try:
        place.before = place.look()
        assert place.run("run", "odd.py", "--out", "new", code=(130,))[0] == 130
    finally:
        path.unlink()
        place.before = place.look()


FIXED = [
    [],
    [""],
    ["--help"],
    ["--version"],
    ["run"],
    ["run", "--help"],
    ["nonsense"],
    ["run", "good.py", "extra"],
    ["run", "good.py", "--out", "full"],
    ["run", "good.py", "--out", "half"],
    ["run", "panel.py", "--out", "half"],
    ["run", "good.py", "--out", "letter.txt"],
    ["run", "good.py", "--out", "letter.txt/below"],
    ["run", "good.py", "--out", "gone"],
    ["run", "good.py", "--out", "gone/below"],
    ["run", "good.py", "--out", "loop"],
    ["run", "good.py", "--out", "/dev/null"],
    ["run", "good.py", "--out", "/dev/full"],
    ["run", "good.py", "--out", "/proc/none"],
    ["run", "good.py", "--out", "x" * 300],
    ["run", "good.py", "--out", "a\0b"],
    ["run", "good.py", "--out", ""],
    ["run", "good.py", "--figures"],
    ["run", "good.py", "--checkpoint", ""],
    ["run", "good.py", "--checkpoint", "full"],
    ["run", "good.py", "--workers", "9" * 30],
    ["run", "good.py", "--workers", "2.5"],
    ["run", "good.py", "--dask", "nonsense://nowhere"],
    ["run", "good.py", "--dask", ""],
    ["run", "good.py", "--set", 'label="\\d"'],
    ["run", "good.py", "--set", "n=" + "[" * 5000],
    ["run", "good.py", "--set", "n=" + "9" * 5000],
    ["run", "good.py", "--set", "flag=maybe"],
    ["run", "bad.py", "--out", "new/deep/er"],
    ["run", "loop"],
    ["run", "/dev/full"],
    ["run", "pipe.py"],
    ["explore", "pipe.py"],
    ["run", "gone"],
    ["run", "."],
    ["run", "\0"],
    ["run", "letter.txt"],
    ["models", "\0"],
    ["models", "loop"],
    ["models", "letter.txt"],
    ["models", "void"],
    ["models", "."],
    ["measure", "data.csv"],
    ["measure", "data.csv", "data.csv", "data.csv"],
    ["measure", "data.csv", "pipe.csv"],
    ["measure", "pipe.csv", "data.csv"],
    ["measure", "data.csv", "gone.csv"],
    ["measure", "data.csv", "loop"],
    ["measure", "data.csv", "."],
    ["measure", "data.csv", "/dev/full"],
    ["measure", "data.csv", "short.csv"],
    ["measure", "data.csv", "short.csv", "--chunksize", "1"],
    ["measure", "data.csv", "letter.txt"],
    ["measure", "data.csv", os.fsdecode(b"n\xffme.csv"), "--out", "new"],
    ["measure", "data.csv", "other.csv", "--known", ""],
    ["measure", "data.csv", "other.csv", "--known", ","],
    ["measure", "data.csv", "other.csv", "--model", ""],
    ["measure", "data.csv", "other.csv", "--model", "a ~ \0"],
    ["measure", "data.csv", "other.csv", "--model", "a ~ " + "(" * 400],
    ["measure", "data.csv", "other.csv", "--model", "a ~ __import__('os')"],
    ["measure", "data.csv", "other.csv", "--model", "~"],
    ["measure", "data.csv", "other.csv", "--measures", ""],
    ["measure", "data.csv", "other.csv", "--measures", "KL("],
    ["measure", "data.csv", "other.csv", "--measures", 'IO("\\d")'],
    ["measure", "data.csv", "other.csv", "--measures", "KL(" + "[" * 3000 + ")"],
    ["measure", "data.csv", "other.csv", "--measures", "KL(a=b)(c)"],
    ["measure", "data.csv", "other.csv", "--measures", "Cluster(clusters=" + "9" * 5000 + ")"],
    ["measure", "data.csv", "other.csv", "--measures", "Cluster(clusters=float('nan'))"],
    ["measure", "data.csv", "other.csv", "--measures", "Cluster(clusters=-1)"],
    ["measure", "data.csv", "other.csv", "--key", ""],
    ["measure", "data.csv", "other.csv", "--risk", ""],
    ["measure", "data.csv", "other.csv", "--utility", "\ud800"],
    ["measure", "data.csv", "other.csv", "--out", "full"],
    ["measure", "data.csv", "other.csv", "--out", "data.csv"],
    ["measure", "data.csv", "other.csv", "--out", "new", "--figures", "--format", "md", "--date", ""],
    ["measure", "data.csv", "other.csv", "--out", "full", "--force", "--date", "none"],
    ["run", "good.py", "--out", "full", "--force", "--date", "none", "--figures"],
    ["explore", "--port", "-1"],
    ["explore", "--port", "99999999"],
    ["explore", "--port", "x"],
    ["explore", "--port", "0", "--no-browser"],
    ["explore", "--set", "n=1"],
    ["explore", "good.py", "--port", "0", "--set", "n=nan"],
    ["explore", "good.py", "--port", "0", "--set", "none=1"],
    ["explore", "--host", "", "--port", "0"],
    ["explore", "--host", "256.256.256.256", "--port", "0"],
    ["explore", "--host", "\0", "--port", "0"],
    ["explore", "--host", "\ud800", "--port", "0"],
    ["explore", "--host", "x" * 300, "--port", "0"],
    ["explore", "loop"],
    ["explore", "letter.txt"],
]


@pytest.mark.slow
@pytest.mark.campaign(3)
@pytest.mark.parametrize(
    "argv", FIXED, ids=lambda argv: " ".join(argv)[:60].encode("ascii", "backslashreplace").decode() or "nothing"
)
def test_traps(argv: list[str], place: Place) -> None:
    place.run(*argv)


def words(place: Place) -> Any:
    """Words of a command line: names of files that are there, traps, numbers at the edge, any text."""
    name = st.sampled_from(place.names)
    odd = st.sampled_from(TEXTS) | st.text(max_size=6) | st.floats().map(str) | st.integers().map(str)
    return name | odd


def lines(place: Place) -> Any:
    """Command lines: mostly a command, its files, and options with and without values."""
    word = words(place)
    study = st.sampled_from(["good.py", "bad.py", "panel.py"]) | word
    data = st.sampled_from(["data.csv", "other.csv", "short.csv"]) | word
    safe = st.sampled_from(["new", "full", "half", "letter.txt", "gone", "new/deep"]) | st.sampled_from(TEXTS)
    pair = st.one_of(
        st.tuples(st.sampled_from(["--max-risk", "--set", "--format", "--date"]), word),
        st.tuples(
            st.just("--set"), st.builds("{}={}".format, st.sampled_from(["n", "label", "flag", "grid", "q"]), word)
        ),
        st.tuples(st.sampled_from(["--out", "--checkpoint"]), safe),
        st.sampled_from(OPTIONS).map(lambda o: (o,)),
    )
    measured = pair | st.tuples(
        st.sampled_from(MEASURE), word | st.sampled_from(["a,b", "a", "KL", "linkage", "IO", "a ~ b", "omit"])
    )
    # With --workers a number would start as many processes.
    return st.one_of(
        st.builds(lambda f, o: ["run", f, *sum(o, ())], study, st.lists(pair, max_size=4)),
        st.builds(
            lambda f, o: ["measure", *f, *sum(o, ())], st.lists(data, max_size=3), st.lists(measured, max_size=4)
        ),
        st.builds(lambda w: ["models", *w], st.lists(word, max_size=2)),
        st.builds(lambda f, w: ["explore", f, "--port", w], study, st.sampled_from(["0", *TEXTS])),
        st.lists(word | st.sampled_from(["run", "measure", "models", *OPTIONS, *MEASURE]), max_size=5),
    )


def fuzz(place: Place, examples: int) -> None:
    @settings(max_examples=examples)
    @given(lines(place))
    def holds(argv: list[str]) -> None:
        place.run(*argv)

    holds()


def test_any_command_line(place: Place) -> None:
    fuzz(place, 120)


@pytest.mark.long
def test_many_command_lines(place: Place) -> None:
    fuzz(place, 2500)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_an_output_that_takes_nothing() -> None:
    """As processes: what is printed cannot be written, and nobody is left to complain to but the exit code."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "ruvdecision", "models", str(ROOT / "models")]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, timeout=120)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "No space left on device" in done.stderr
