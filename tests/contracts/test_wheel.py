"""The wheel and the source archive: what they hold, and that the installed package works away from the source tree.

The environment is empty but for the wheel; the libraries are lent to it by the environment that runs the tests, which
saves minutes. `.ci/run` installs the wheel with everything that it asks for into an environment with nothing in it.
"""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

import places
import pytest

from ruvdecision._version import __version__

ROOT = places.ROOT
README = (ROOT / "README.md").read_text(encoding="utf-8")
pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Place:
    """An environment with the wheel in it, and an empty directory to stand in."""

    python: Path
    command: Path
    here: Path

    def run(self, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        # Nothing may lead back to the source tree.
        outside = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "MYPYPATH")}
        done = subprocess.run(
            [str(a) for a in arguments], cwd=self.here, env=outside, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source archive. The wheel is built from the archive, which so proves to be whole."""
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", out, ROOT], capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    if done.returncode and re.search(
        r"(No matching distribution found for|Could not find a version that satisfies).*hatchling", said
    ):
        pytest.skip("hatchling, which builds the wheel, cannot be fetched here")
    assert done.returncode == 0, said
    (wheel,), (source,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, source


@pytest.fixture(scope="module")
def place(archives: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder, here = tmp_path_factory.mktemp("environment"), tmp_path_factory.mktemp("elsewhere")
    venv.create(folder, with_pip=False, symlinks=True)
    bin_folder = folder / ("Scripts" if os.name == "nt" else "bin")
    python = bin_folder / "python"
    (own,) = folder.glob("lib/python3.*/site-packages")
    # A path named in a .pth file is searched, but its own .pth files are not read: the editable install stays out of
    # sight.
    (own / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        archives[0],
    ]
    subprocess.run([str(a) for a in install], check=True, capture_output=True)
    return Place(python, bin_folder / "ruvdecision", here)


@pytest.fixture(scope="module")
def metadata(archives: tuple[Path, Path]) -> Message:
    with zipfile.ZipFile(archives[0]) as wheel:
        return email.message_from_bytes(wheel.read(f"ruvdecision-{__version__}.dist-info/METADATA"))


def files(folder: str) -> set[str]:
    """The files of a directory of the source tree, without what running them has left behind."""
    left = {"__pycache__", "_build", ".ipynb_checkpoints"}
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not left & set(path.parts) and not path.name.startswith("kernel-ipc-")
    }


# -- what they hold ------------------------------------------------------------------------------------


def test_the_wheel_is_the_package_and_nothing_else(archives: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(archives[0]) as wheel:
        names = {name for name in wheel.namelist() if not name.startswith(f"ruvdecision-{__version__}.dist-info/")}
        licences = [name for name in wheel.namelist() if name.endswith("licenses/LICENSE")]
        commands = wheel.read(f"ruvdecision-{__version__}.dist-info/entry_points.txt").decode()
    assert names == files("ruvdecision")
    assert "ruvdecision/py.typed" in names
    assert len(licences) == 1
    assert commands.split() == ["[console_scripts]", "ruvdecision", "=", "ruvdecision.cli:main"]


def test_two_builds_are_the_same_bytes(archives: tuple[Path, Path], tmp_path: Path) -> None:
    """Built again from another place, at another time, from files of another date."""
    with tarfile.open(archives[1]) as source:
        source.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    for path in tree.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    command = [sys.executable, "-m", "build", "--outdir", tmp_path / "dist", tree]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    for archive in archives:
        assert (tmp_path / "dist" / archive.name).read_bytes() == archive.read_bytes(), archive.name


def test_the_source_archive_is_all_that_the_tests_need(archives: tuple[Path, Path]) -> None:
    with tarfile.open(archives[1]) as source:
        held = {name.split("/", 1)[1] for name in source.getnames() if "/" in name}
    folders = ["ruvdecision", "tests", "models", "benchmarks", "docs", "notebooks", "constraints"]
    assert set.union(*map(files, folders)) - held == set()
    single = {
        "pyproject.toml",
        "LICENSE",
        "Makefile",
        *files(".ci"),
        "CITATION.cff",
        "PKG-INFO",
        ".gitignore",
        *(page.name for page in ROOT.glob("*.md")),
    }
    assert single - held == set()
    assert {name for name in held if name.split("/")[0] not in folders} == single


def test_the_metadata_says_what_is_so(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"], metadata["License-Expression"]) == (
        "ruvdecision",
        __version__,
        "BSD-3-Clause",
    )
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert metadata["Requires-Python"] == "<3.14,>=3.11"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    # There is no address to name.
    assert (
        metadata.get_all("Project-URL") is None and metadata["Home-page"] is None and metadata["Author-email"] is None
    )
    assert {"files", "fast", "cluster"} <= set(metadata.get_all("Provides-Extra", []))


def test_the_long_description_is_the_readme_and_can_be_shown(metadata: Message) -> None:
    from markdown_it import MarkdownIt

    assert metadata["Description-Content-Type"] == "text/markdown"
    payload = metadata.get_payload(decode=True)
    assert isinstance(payload, bytes)
    text = payload.decode("utf-8")
    assert text.strip() == README.strip()
    page = MarkdownIt("commonmark").enable("table").render(text)
    assert (
        "<h1>ruvdecision</h1>" in page
        and page.count("<table>") >= 2
        and page.count('<pre><code class="language-') == text.count("\n```\n")
    )


# -- used from outside ----------------------------------------------------------------------------------


def test_what_is_imported_is_the_wheel(place: Place) -> None:
    done = place.run(
        place.python, "-W", "error", "-c", "import ruvdecision; print(ruvdecision.__file__, ruvdecision.__version__)"
    )
    file, version = done.stdout.split()
    assert Path(file).is_relative_to(place.python.parents[1]) and ROOT not in Path(file).parents
    assert version == __version__
    said = "from importlib.metadata import version; print(version('ruvdecision'))"
    assert place.run(place.python, "-c", said).stdout.strip() == __version__


def test_the_first_example_of_the_readme(place: Place) -> None:
    found = re.search(r"^```python\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)
    assert found is not None
    done = place.run(place.python, "-W", "error", "-c", found[1])
    assert "2.08" in done.stdout and "2.651" in done.stdout


def test_the_command_line(place: Place) -> None:
    assert place.run(place.command, "--version").stdout.split() == ["ruvdecision", __version__]
    # The wheel brings no studies: one line says where they are.
    done = place.run(place.command, "models", code=2)
    assert "come with the source" in done.stderr and len(done.stderr.splitlines()) == 1
    name = "trottini_fienberg_normal.py"
    (place.here / name).write_bytes((ROOT / "models" / name).read_bytes())
    assert place.run(place.command, "models", ".").stdout.startswith("trottini_fienberg_normal")
    done = place.run(place.command, "run", name, "--max-risk", "0.5", "--out", "out", "--date", "none")
    assert "2.651" in done.stdout
    assert {p.name for p in (place.here / "out").iterdir()} == {"map.nc", "map.csv", "map.png", "report.html"}
    page = (place.here / "out" / "report.html").read_text(encoding="utf-8")
    assert "<style>" in page and str(ROOT) not in page


PAGE = """
import sys
import urllib.request
import ruvdecision as ruv
try:
    with ruv.explore.open_server(port=0) as server:
        with urllib.request.urlopen(server.url) as answer:
            print(answer.status, b"ruvdecision" in answer.read())
except ruv.UnsupportedError as error:
    print(error)
"""


def test_the_page_opens_or_says_what_it_needs(place: Place) -> None:
    found = place.run(place.python, "-c", PAGE).stdout.strip()
    assert found == "200 True" or 'pip install "ruvdecision[explore]"' in found


# -- types --------------------------------------------------------------------------------------------


def test_a_typed_program_passes_and_runs(place: Place, tmp_path: Path) -> None:
    for file in (ROOT / "tests" / "typed_client").iterdir():
        if file.is_file():
            (place.here / file.name).write_bytes(file.read_bytes())
    checker = [place.python, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", tmp_path, "client.py"]
    assert "no issues found in 1 source file" in place.run(*checker).stdout
    assert "the typed client ran" in place.run(place.python, "-W", "error", "client.py").stdout
    # The check can fail: without its ignores, every line of wrong use is an error.
    text = (place.here / "client.py").read_text(encoding="utf-8")
    wrong = text.count("# type: ignore[")
    (place.here / "client.py").write_text(text.replace("# type: ignore[", "# ["), encoding="utf-8")
    said = place.run(*checker, code=1).stdout
    assert wrong >= 15 and len(set(re.findall(r"^client\.py:(\d+): error", said, flags=re.MULTILINE))) == wrong
