"""The documentation: its code runs, its references hold, it covers every public name, it builds without a warning."""

from __future__ import annotations

import ast
import itertools
import re
import shutil
import subprocess
import sys
import types
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import places
import pytest
from exports import public

ROOT = places.ROOT
DOCS = ROOT / "docs"
PAGES = [
    p for p in sorted(DOCS.rglob("*.md")) if p.relative_to(DOCS).parts[0] not in ("reference", "notebooks", "_build")
]
CODE = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
"""A block of code, and what it prints where the page says so."""


def relative(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


MODELS = DOCS / "howto" / "your_own_intruder.md"


#: Files that others distribute: a page that reads one is run where it stands beside the working copy.
PUBLIC_FILES = ("testdata.csv", "SD2011.csv")
#: Pages that compile several models.
SLOW = (MODELS, DOCS / "extending.md")


@pytest.mark.usefixtures("usual_printing")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(p, marks=pytest.mark.slow if p in SLOW else ())
        for p in PAGES
        if CODE.search(p.read_text(encoding="utf-8"))
    ],
    ids=relative,
)
def test_code_runs_as_written(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints what the page says that it prints."""
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    text = page.read_text(encoding="utf-8")
    for name in (n for n in PUBLIC_FILES if f'read_csv("{n}")' in text):
        if not (places.SHARED / "data" / name).exists():
            pytest.skip(f"{name} is not beside the working copy")
        shutil.copyfile(places.SHARED / "data" / name, tmp_path / name)
    for found in CODE.finditer(text):
        # Blank lines in front make a traceback name the page's own line.
        line = text[: found.start()].count("\n") + 1
        exec(compile("\n" * line + found[1], str(page), "exec", dont_inherit=True), module.__dict__)
        printed = [text.rstrip() for text in capsys.readouterr().out.rstrip().splitlines()]
        assert found[2] is None or printed == found[2].splitlines(), f"the block before line {line}"
    plt.close("all")


SAMPLED = "Sampling(draws=500, tune=300, chains=2, importance=True)"
CALIBRATED = {
    # Scales near zero ask for many nodes: weighted draws take a sixth of the time.
    "lognormal": ("incomes", 6, "Noise(sd=3)", ["Record(0)", "Parameter('median')"], SAMPLED),
    "survey": ("survey", 3, "Noise(sd=0.3)", ["Record(1, column='income')", "Parameter('mu')"], ""),
    "regression": ("wages", 12, "Noise(sd=0.5)", ["Record(11)", "Parameter('beta', component='age')"], ""),
    "hierarchical": ("regions", 9, "Noise(sd=1)", ["Record(0)", "Parameter('level')"], ""),
    "mixture": ("two_kinds", 8, "Noise(sd=2)", ["Record(0)", "Parameter('rich')"], ""),
    "zeros": ("earnings", 6, "Noise(sd=3)", ["Record(0)", "Parameter('employed')"], ""),
    "counts": ("visits", 6, "Round(base=3)", ["Record(0)", "Parameter('rate')"], ""),
    "categories": (
        "answers",
        6,
        "Stochastic([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])",
        ["Record(0)", "Parameter('p', component=0)"],
        "",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize(("name", "target"), [(k, t) for k, v in CALIBRATED.items() for t in v[3]])
def test_every_belief_of_the_page_is_calibrated(name: str, target: str) -> None:
    """Simulation-based calibration: ranks of the truth among posterior draws are uniform."""
    import numpy as np
    import pandas as pd

    import ruvdecision as ruv

    space: dict[str, Any] = {"np": np, "pd": pd, "ruv": ruv}
    for found in CODE.finditer(MODELS.read_text(encoding="utf-8")):
        # The models alone: functions, and the constants that they use.
        kept = [
            node
            for node in ast.parse(found[1]).body
            if isinstance(node, ast.FunctionDef)
            or (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper())
        ]
        exec(compile(ast.Module(kept, []), str(MODELS), "exec", dont_inherit=True), space)
    builder, size, mask, _, engine = CALIBRATED[name]
    belief = ruv.PyMCBelief(space[builder], size=size)
    options = {"simulations": 100, "draws": 99, "engine": eval(f"ruv.{engine}") if engine else "auto", "seed": 7}
    found = ruv.calibrate(belief, eval(f"ruv.{mask}"), eval(f"ruv.{target}"), **options)
    assert found.passed, found


def test_the_pages_that_were_promised_are_there() -> None:
    names = {relative(p) for p in PAGES}
    assert {
        "tutorial.md",
        "howto/other_tools.md",
        "howto/public_files.md",
        "howto/your_own_intruder.md",
        "howto/top_earner.md",
        "howto/several_intruders.md",
        "glossary.md",
        "papers.md",
        "installation.md",
        "faq.md",
        "citation.md",
        "howto/writing_a_study.md",
        "howto/reading_a_report.md",
        "teaching.md",
    } <= names


def test_commands_on_the_pages_exist() -> None:
    import shlex

    from ruvdecision.cli import _build_parser

    found = [
        c
        for p in PAGES
        for c in re.findall(
            r"(?:^|`)(ruvdecision (?:run|measure|models|explore)\b[^`\n]*)", p.read_text(encoding="utf-8"), flags=re.M
        )
    ]
    assert len(found) >= 2
    for command in found:
        options = _build_parser().parse_args(shlex.split(command, comments=True)[1:])
        if command.startswith("ruvdecision run"):
            assert (ROOT / options.file).is_file()


@pytest.mark.slow
def test_tests_that_are_named_exist() -> None:
    named = {n for p in PAGES for n in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", p.read_text(encoding="utf-8"))}
    assert len(named) >= 30
    for file, test in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, (
            f"{file} has no {test}"
        )
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        files = re.findall(r"`((?:tests|models|notebooks)/[\w./]*)`", text)
        assert [f for f in files if not (ROOT / f).exists()] == [], page


def test_every_row_of_the_misprints_has_a_proof_or_says_that_there_is_none() -> None:
    rows = [
        r
        for r in (DOCS / "papers.md").read_text(encoding="utf-8").splitlines()
        if r.startswith("| ") and not r.startswith("| where")
    ]
    assert len(rows) >= 40
    for row in rows:
        last = row.rstrip("| ").rsplit(" | ", 1)[1]
        # "below, figure 1": the page itself has the proof, and its blocks are run.
        assert last.startswith(("`tests/", "below, ")) or last in ("notation only", "wording only"), row


def test_the_glossary_is_the_vocabulary() -> None:
    glossary = (DOCS / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^([a-z][a-z -]*)\n: ", glossary, flags=re.MULTILINE)
    assert words == sorted(words)
    table = (ROOT / "README.md").read_text(encoding="utf-8").split("## Words")[1].split("\n## ")[0]
    readme = {
        w.strip() for row in re.findall(r"^\| ([a-z, ]+) \|", table, flags=re.MULTILINE) for w in row.split(",")
    } - {"word"}
    assert len(readme) > 10
    assert readme <= set(words)
    for name in re.findall(r"`([A-Z]\w+)(?:\(.*?\))?`", glossary):
        assert name in public(), name


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_pages_have_headings_in_order_and_pictures_with_words(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    levels = [len(m) for m in re.findall(r"^(#+) ", text, flags=re.MULTILINE)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert "![](" not in text


class Page(HTMLParser):
    """What a built page fetches, and its pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.silent: list[Any] = []
        self.formulas = self.folds = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        for key in ("src", "href"):
            if tag in ("script", "link", "img", "iframe") and (found.get(key) or "").startswith(
                ("http:", "https:", "//")
            ):
                self.fetched.append(str(found[key]))
        if tag == "img" and not (found.get("alt") or "").strip():
            self.silent.append(found.get("src"))
        self.formulas += tag == "math"
        self.folds += tag == "details"


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


@pytest.mark.long
def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    for needed in ("sphinx", "myst_nb", "numpydoc", "furo"):
        pytest.importorskip(needed, reason="the documentation needs the extra docs")
    # A checkout that cannot be written to: the build works in a copy.
    sources = tmp_path / "checkout"
    left_out = shutil.ignore_patterns(".*", "out", "tests", "__pycache__")
    shutil.copytree(ROOT, sources, ignore=left_out, copy_function=shutil.copyfile)
    before = {p.relative_to(sources) for p in sources.rglob("*")}
    for path in (sources, *sources.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    command = [sys.executable, str(sources / "docs" / "build.py"), str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    for path in (sources, *sources.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert {p.relative_to(sources) for p in sources.rglob("*")} == before
    assert done.returncode == 0, done.stderr[-4000:]
    assert "warning" not in done.stderr.lower(), done.stderr[-4000:]
    site = tmp_path / "site"
    pages = {p.relative_to(site).as_posix(): read(p) for p in site.rglob("*.html")}
    assert {name: p.fetched for name, p in pages.items() if p.fetched} == {}
    assert {name: p.silent for name, p in pages.items() if p.silent} == {}
    assert pages["reference.html"].formulas > 20 and pages["papers.html"].formulas > 20
    assert all(p.folds >= 2 for name, p in pages.items() if re.match(r"notebooks/\d", name))
    text = "".join(p.read_text(encoding="utf-8") for p in (site / "reference").glob("*.html"))
    missing = [n for n in public() if f'id="ruvdecision.{n}"' not in text and not re.search(rf"[>.]{n}<", text)]
    assert missing == []
