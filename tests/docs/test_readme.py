"""The README tells the truth: its Python runs as written, its commands exist, its links lead somewhere."""

from __future__ import annotations

import re
import shlex
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import places
import pytest

from ruvdecision.cli import _build_parser

ROOT = places.ROOT
README = (ROOT / "README.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block of the README: its language, text, line, and the section that it stands in."""

    language: str
    text: str
    line: int
    section: str


def blocks() -> list[Block]:
    found, section, language, start, held = [], "(top)", None, 0, []
    for number, line in enumerate(README.splitlines(), start=1):
        fence = re.match(r"```(\w*)\s*$", line)
        if language is None and fence:
            language, start, held = fence[1], number, []
        elif language is not None and fence:
            found.append(Block(language, "\n".join(held) + "\n", start, section))
            language = None
        elif language is not None:
            held.append(line)
        elif line.startswith("#"):
            section = line.lstrip("# ")
    assert language is None, f"the block of line {start} is not closed"
    return found


def sections(language: str) -> dict[str, list[Block]]:
    grouped: dict[str, list[Block]] = {}
    for block in blocks():
        if block.language == language:
            grouped.setdefault(block.section, []).append(block)
    return grouped


@pytest.mark.slow
@pytest.mark.parametrize("section", sections("python"))
def test_python_runs_as_written(section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("readme")
    monkeypatch.setitem(sys.modules, "readme", module)  # dataclasses look their module up
    for block in sections("python")[section]:
        # Blank lines in front make a traceback name the README's own line.
        exec(
            compile("\n" * block.line + block.text, str(ROOT / "README.md"), "exec", dont_inherit=True), module.__dict__
        )


def test_the_first_screen_gives_the_papers_choice(capsys: pytest.CaptureFixture[str]) -> None:
    first = blocks()[0]
    namespace: dict[str, object] = {}
    exec(first.text, namespace)
    choice = namespace["rumap"].choose(max_risk=0.5)  # type: ignore[attr-defined]
    assert choice.utility == pytest.approx(2.650980392, abs=5e-10)  # T-F section 5.1; their "r" is the variance
    assert choice.risk == pytest.approx(0.5, rel=1e-9)
    assert "2.08" in choice.release
    assert "2.08" in capsys.readouterr().out
    assert len([line for line in first.text.splitlines() if line.strip() and not line.startswith("import")]) <= 10


def commands() -> list[str]:
    lines = [line for block in blocks() if block.language == "bash" for line in block.text.splitlines()]
    return [line.split("#")[0].strip() for line in lines if line.split("#")[0].strip()]


@pytest.mark.parametrize("command", commands())
def test_commands_exist(command: str) -> None:
    words = shlex.split(command)
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
        wanted = [word for word in words[1:] if "=" not in word]
        assert wanted
        assert set(wanted) <= set(targets)
    else:
        assert words[0] == "ruvdecision"
        options = _build_parser().parse_args(words[1:])
        if getattr(options, "file", None):
            assert (ROOT / options.file).is_file()


def test_settings_in_commands_exist() -> None:
    from ruvdecision.studies import load_study, parse_settings

    for command in commands():
        if command.startswith("ruvdecision run"):
            options = _build_parser().parse_args(shlex.split(command)[1:])
            load_study(ROOT / options.file).check_settings(parse_settings(options.set))


def test_inline_make_targets_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    for name in ("README.md", "CONTRIBUTING.md"):
        named = re.findall(r"(?:`|^    )make ([a-z-]+)", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert named
        assert set(named) <= set(targets)


def test_files_that_are_named_exist() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    named = re.findall(r"`((?:tests|docs|benchmarks|models|constraints|ruvdecision)/[\w./]*)`", README)
    assert links
    missing = [path for path in [*links, *named] if not (ROOT / path).exists()]
    assert missing == []


@pytest.mark.long
def test_the_pymc_example_gives_one_answer_over_seeds() -> None:
    """Another seed is another release: the numbers move within their errors, and the choice stays."""
    (found,) = [b for b in blocks() if "PyMCBelief(incomes)" in b.text]
    space: dict[str, object] = {}
    exec("import numpy as np\nimport ruvdecision as ruv\n" + found.text, space)
    maps = [
        eval(f"ruv.evaluate(noises, intruder=richest, scientist=typical, data=data, seed={s})", space)
        for s in (2, 3, 4)
    ]  # type: ignore[arg-type]
    maps.append(space["sampled"])
    assert {m.choose(max_risk=0.4).release for m in maps} == {"Noise(sd=5)"}
    for m in maps:
        assert np.isfinite(m.before).all()
        for who in ("intruder", "scientist"):
            one, two = (
                (getattr(x, f"{who}_uncertainty"), x.to_dataframe()[f"{who}_error"].to_numpy()) for x in (m, maps[0])
            )
            assert np.all(np.abs(one[0] - two[0]) <= 4 * np.hypot(one[1], two[1]))
