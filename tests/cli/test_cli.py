"""The command line: what it prints, what it writes, and one clear line when something is wrong."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import places
import pytest
from hypothesis import given, settings, strategies as st

from ruvdecision import cli
from ruvdecision._version import __version__
from ruvdecision.errors import InputError
from ruvdecision.maps.rumap import RUMap
from ruvdecision.studies import file_name, find_studies, load_study, parse_settings

ROOT = places.ROOT

STUDY = '''"""Three releases, made by hand.

More words that are not listed.
"""

from ruvdecision.maps.rumap import RUMap

MAX_RISK = 0.5


def study(shift=0.0, label="open", many=3, flag=False, extra=None):
    labels = [label] + [f"level {i}" for i in range(1, many)]
    uncertainty = [1.0 + i + shift for i in range(many)]
    return RUMap.build(labels=labels, intruder=uncertainty, scientist=[u / 4 for u in uncertainty])


def notes(rumap):
    yield f"The paper prints 42; here it is {rumap.size}."
'''

PANEL = '''"""Two maps side by side."""

from ruvdecision.maps.rumap import RUMap


def study():
    one = RUMap.build(labels=["a", "b"], intruder=[1.0, 2.0], scientist=[1.0, 2.0])
    two = RUMap.build(labels=["a", "b"], intruder=[4.0, 8.0], scientist=[1.0, 2.0])
    return {"Z 1": one, "Z/2": two}
'''


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write(tmp_path / "by_hand.py", STUDY)


@pytest.fixture
def panel(tmp_path: Path) -> Path:
    return write(tmp_path / "pair.py", PANEL)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def fails(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 2) -> str:
    """Run the command line, expect it to fail, and give back its one line on stderr."""
    assert cli.main([str(a) for a in arguments]) == code
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("ruvdecision: error: ")
    assert "Traceback" not in lines[0]
    return lines[0]


# -- running -------------------------------------------------------------------------------------------


def test_run_prints_table_choice_and_notes(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", str(study), "--max-risk", "0.4"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert err == ""
    assert lines[0] == "Three releases, made by hand."
    assert any(line.split()[:2] == ["open", "1"] for line in lines)
    (chosen,) = [line for line in lines if line.strip().startswith("* ")]
    assert chosen.split()[1:3] == ["level", "2"]  # risk 1/3, the only one below 0.4
    assert "The paper prints 42; here it is 3." in lines
    assert any("level 2" in line and "0.4" in line for line in lines if "*" not in line)
    assert list(study.parent.glob("*.nc")) == []


def test_the_studys_own_threshold_is_used_and_can_be_overruled(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", str(study), "--quiet"]) == 0
    own = capsys.readouterr().out
    assert cli.main(["run", str(study), "--quiet", "--max-risk", "2"]) == 0
    other = capsys.readouterr().out
    assert len(own.splitlines()) == len(other.splitlines()) == 1
    assert "level 1" in own
    assert "open" in other


def test_without_a_threshold_it_says_how_to_choose(panel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", str(panel)]) == 0
    assert "--max-risk" in capsys.readouterr().out


def test_run_writes_four_files(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "out"
    assert cli.main(["run", str(study), "--max-risk", "0.5", "--out", str(out)]) == 0
    assert sorted(p.name for p in out.iterdir()) == ["map.csv", "map.nc", "map.png", "report.html"]
    table = pd.read_csv(out / "map.csv")
    assert table["release"].tolist() == ["open", "level 1", "level 2"]
    assert table["risk"].tolist() == pytest.approx([1, 1 / 2, 1 / 3], rel=1e-12)
    assert RUMap.load(out / "map.nc").to_dataframe()["utility"].tolist() == pytest.approx([4, 2, 4 / 3], rel=1e-12)
    assert (out / "map.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    report = (out / "report.html").read_text("utf-8")
    assert "<h1>Three releases, made by hand.</h1>" in report
    assert "Release level 1: risk 0.5 (threshold 0.5), utility 2" in report
    assert "<li>The paper prints 42; here it is 3.</li>" in report
    assert (
        f"Wrote {out / 'map.nc'}, {out / 'map.csv'}, {out / 'map.png'}, {out / 'report.html'}"
        in capsys.readouterr().out
    )


def test_the_report_in_markdown_with_a_date(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert cli.main(["run", str(study), "--out", str(out), "--format", "md", "--date", "<Monday>", "--quiet"]) == 0
    assert sorted(p.name for p in out.iterdir()) == ["map.csv", "map.nc", "map.png", "report.md"]
    lines = (out / "report.md").read_text("utf-8").splitlines()
    assert lines[0] == "# Three releases, made by hand."
    assert lines[2].endswith("&lt;Monday&gt;.")
    assert "- The paper prints 42; here it is 3." in lines


def test_a_pdf_that_cannot_be_made_is_refused_before_the_study_runs(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    write(study, STUDY.replace("labels = [label]", "raise AssertionError('it ran')\n    labels = [label]"))
    assert "WeasyPrint" in fails(capsys, "run", study, "--out", tmp_path / "out", "--format", "pdf")


@pytest.mark.slow
def test_a_report_is_not_written_over(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    write(out / "report.html", "signed")
    write(study, STUDY.replace("labels = [label]", "raise AssertionError('it ran')\n    labels = [label]"))
    assert "report.html" in fails(capsys, "run", study, "--out", out)  # refused before the study runs
    write(study, STUDY)
    assert cli.main(["run", str(study), "--out", str(out), "--format", "md"]) == 0  # another file
    assert (out / "report.html").read_text() == "signed"
    for name in ("map.nc", "map.csv", "map.png"):
        (out / name).unlink()
    assert "report.md" in fails(capsys, "run", study, "--out", out, "--format", "md")
    assert cli.main(["run", str(study), "--out", str(out), "--force"]) == 0
    assert (out / "report.html").read_text("utf-8").startswith("<!DOCTYPE")


def test_notes_that_fail_do_not_cost_the_files(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(study, STUDY + "    raise KeyError('gone')\n")
    assert "notes() of" in fails(capsys, "run", study, "--out", tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["map.csv", "map.nc", "map.png", "report.html"]
    assert "notes could not be had" in (tmp_path / "out" / "report.html").read_text("utf-8")


def test_settings_reach_the_study(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = ["shift=1", "label=a [b] name", "flag=true", "extra={'x': 1}"]
    assert cli.main(["run", str(study), *(word for pair in changed for word in ("--set", pair))]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["*", "a", "[b]", "name", "2", "0.5", "0.5", "2"] in rows  # brackets are text, not markup
    assert ["level", "2", "4", "1", "0.25", "1"] in rows


def test_a_long_table_is_cut_and_keeps_the_choice(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", str(study), "--set", "many=400", "--max-risk", "0.0144"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = [line for line in lines if line.lstrip("* ").startswith(("open", "level "))]
    assert 20 <= len([line for line in shown if "more" not in line]) <= 23
    assert any(line.strip().startswith("* ") and "level 69" in line for line in lines)  # 1/70 is the first below 0.0144
    assert any(line.strip().startswith("... and 379 more") for line in lines)


def test_the_table_shows_errors_of_sampled_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '''"""Sampled."""
import numpy as np
from ruvdecision.protocols import Value
from ruvdecision.maps.rumap import Provenance, RUMap
def study():
    intruder = Value(np.array([2.0, 4.0]), np.array([0.2, 0.0]))
    return RUMap.build(labels=["a", "b"], intruder=intruder, scientist=[1.0, 2.0],
                       provenance=Provenance(["sampling", "exact"]))
'''
    assert cli.main(["run", str(write(tmp_path / "sampled.py", text))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("0.5 ± 0.05" in line and line.rstrip().endswith("sampling") for line in lines)
    assert any(" 0.25 " in line and "±" not in line and line.rstrip().endswith("exact") for line in lines)


@pytest.mark.slow
def test_a_panel_is_shown_and_written_by_name(panel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert cli.main(["run", str(panel), "--max-risk", "0.6", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert [line.split(":")[0] for line in printed.splitlines() if line.startswith(("Z 1: ", "Z/2: "))] == [
        "Z 1",
        "Z/2",
    ]
    assert sorted(p.name for p in out.iterdir()) == [
        "Z_1.csv",
        "Z_1.nc",
        "Z_1.png",
        "Z_2.csv",
        "Z_2.nc",
        "Z_2.png",
        "report.html",
    ]
    report = (out / "report.html").read_text("utf-8")  # one for all of them
    assert [report.count(f">{name}</") >= 3 for name in ("Z 1", "Z/2")] == [True, True]


@pytest.mark.campaign(2, "slow")
@pytest.mark.parametrize("signature", ["result", "result, max_risk=None"])
def test_a_study_may_draw_its_own_picture(panel: Path, tmp_path: Path, signature: str) -> None:
    seen = "max_risk" if "max_risk" in signature else "None"
    body = (
        f"from matplotlib.figure import Figure\n    f = Figure()\n    f.suptitle(f'{{sorted(result)}} "
        f"{{{seen}}}')\n    return f\n"
    )
    own = f"\n\ndef figure({signature}):\n    {body}"
    path = write(panel, PANEL + own)
    assert cli.main(["run", str(path), "--max-risk", "0.6", "--out", str(tmp_path / "out")]) == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "Z_1.csv",
        "Z_1.nc",
        "Z_2.csv",
        "Z_2.nc",
        "map.png",
        "report.html",
    ]


def test_a_study_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "beside_it_helper.py", "SIZE = 5\n")
    text = STUDY.replace("def study(", "from beside_it_helper import SIZE\n\n\ndef study(").replace(
        "many=3", "many=SIZE"
    )
    before = list(sys.path)
    assert next(iter(load_study(write(tmp_path / "user.py", text)).run().maps.values())).size == 5
    assert sys.path == before


# -- refusing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, ["no such study file", "absent.py"]),
        ("x = = 1\n", ["not valid Python", "line 1"]),
        ("\x00\x01", ["not valid Python"]),
        ("x = 1\n", ["no function named study"]),
        ("study = 3\n", ["no function named study"]),
        ("import no_such_module_anywhere\n", ["failed while loading", "no_such_module_anywhere", "line 1"]),
        ("def study():\n    return 1 / 0\n", ["study() of", "ZeroDivisionError", "line 2", "--debug"]),
        ("def study():\n    raise SystemExit('two\\nlines')\n", ["SystemExit", "two lines"]),
        ("def study():\n    return 3\n", ["must give back an RUMap", "got int"]),
        ("def study():\n    return []\n", ["must give back an RUMap", "an empty list"]),
        ("def study():\n    return {'a': 3}\n", ["must give back an RUMap", "got int"]),
        ("MAX_RISK = 'low'\ndef study():\n    return 3\n", ["MAX_RISK", "must be a number"]),
        ("notes = 3\ndef study():\n    return 3\n", ["notes of", "must be a function"]),
        ("def study(n):\n    return 3\n", ["needs a value for n", "--set n="]),
        (
            "from ruvdecision.maps.rumap import RUMap\ndef study():\n    return RUMap.build()\n",
            ["line 3", "A map needs masks or labels"],
        ),
    ],
)
def test_a_bad_study_is_refused_in_one_line(
    text: str | None, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "absent.py"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    line = fails(capsys, "run", path)
    for word in words:
        assert word in line


def test_a_directory_and_bytes_are_not_studies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "directory" in fails(capsys, "run", tmp_path)
    (tmp_path / "picture.py").write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")
    assert "not valid Python" in fails(capsys, "run", tmp_path / "picture.py")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "shfit=1"], ["no setting of that name", "shfit", "Did you mean 'shift'", "many=3"]),
        (["--set", "q=1"], ["no setting", "shift=0.0", "label='open'", "flag=False"]),
        (["--set", "shift"], ["name=value", "shift"]),
        (["--set", "=3"], ["name=value"]),
        (["--set", "shift=1", "--set", "shift=2"], ["given twice", "shift"]),
        (["--set", "many=ten"], ["many must be a number", "ten", "default is 3"]),
        (["--set", "flag=3"], ["flag must be true or false"]),
        (["--set", "label=3"], ["label must be text"]),
        (["--max-risk", "high"], ["--max-risk", "must be a number", "high"]),
        (["--max-risk", "nan"], ["--max-risk", "must be a number"]),
        (["--max-risk"], ["--max-risk", "expected one argument"]),
        (["--format", "docx"], ["--format", "docx", "html"]),
        (["--no-such-option"], ["--no-such-option"]),
    ],
)
def test_bad_arguments_are_refused_in_one_line(
    arguments: list[str], words: list[str], study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = fails(capsys, "run", study, *arguments)
    for word in words:
        assert word in line


def test_no_command_and_an_unknown_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "COMMAND" in fails(capsys)
    assert "'rnu'" in fails(capsys, "rnu")


@pytest.mark.slow
def test_an_infeasible_threshold_keeps_the_map(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert cli.main(["run", str(study), "--max-risk", "0.01", "--out", str(out)]) == 2
    printed, err = capsys.readouterr()
    assert len(err.splitlines()) == 1
    assert "0.333" in err  # the nearest miss
    assert "level 2" in printed
    assert "No release is chosen. No release has risk at most 0.01" in (out / "report.html").read_text("utf-8")
    assert sorted(p.name for p in out.iterdir()) == ["map.csv", "map.nc", "map.png", "report.html"]


def test_a_panel_names_the_map_that_is_infeasible(panel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", str(panel), "--max-risk", "0.3"]) == 2
    printed, err = capsys.readouterr()
    assert err.startswith("ruvdecision: error: Z 1: ")
    assert any(line.startswith("Z/2: ") for line in printed.splitlines())
    line = fails(capsys, "run", panel, "--max-risk", "0.001")
    assert "Z 1 (and 1 more of the 2 maps)" in line


def test_a_threshold_that_cannot_be(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "-1" in fails(capsys, "run", study, "--max-risk", "-1")


def test_files_are_not_written_over(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    write(out / "map.csv", "precious")
    write(study, STUDY.replace("labels = [label]", "raise AssertionError('it ran')\n    labels = [label]"))
    line = fails(capsys, "run", study, "--out", out)  # refused before the study runs
    assert "map.csv" in line
    assert "--force" in line
    assert (out / "map.csv").read_text() == "precious"
    write(study, STUDY)
    assert cli.main(["run", str(study), "--out", str(out), "--force"]) == 0
    assert pd.read_csv(out / "map.csv").shape[0] == 3


def test_files_of_a_panel_are_not_written_over(panel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    write(out / "Z_2.nc", "precious")
    assert "Z_2.nc" in fails(capsys, "run", panel, "--out", out)
    assert [p.name for p in out.iterdir()] == ["Z_2.nc"]
    assert (out / "Z_2.nc").read_text() == "precious"


def test_out_must_be_a_directory(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is a file" in fails(capsys, "run", study, "--out", study)
    assert "is a file" in fails(capsys, "run", study, "--out", study / "below")


@pytest.mark.slow
@pytest.mark.campaign(4)
@pytest.mark.parametrize("step", ["fsync", "link"])
@pytest.mark.parametrize("which", range(4))
def test_a_failure_while_writing_leaves_nothing(
    step: str,
    which: int,
    study: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    real, left = getattr(os, step), [which]

    def full(*arguments: object) -> object:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(os, step, full)
    if step == "link":  # nor can the name be taken in the other way
        monkeypatch.setattr(os, "replace", full)
    assert "No space left" in fails(capsys, "run", study, "--out", tmp_path / "deep" / "out")
    assert not (tmp_path / "deep").exists()


def test_two_names_that_would_share_a_file(panel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(panel, PANEL.replace('"Z/2"', '"Z_1"'))
    assert "names that differ" in fails(capsys, "run", panel)


def test_debug_shows_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "broken.py", "def study():\n    return 1 / 0\n")
    assert cli.main(["run", str(path), "--debug"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "ZeroDivisionError: division by zero" in err
    assert err.splitlines()[-1].startswith("ruvdecision: error: ")


def test_a_failing_note_or_figure_is_named(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(study, STUDY + "    raise KeyError('gone')\n")
    assert "notes() of" in fails(capsys, "run", study)
    write(study, STUDY + "\n\ndef figure(rumap):\n    return 3\n")
    assert "matplotlib Figure" in fails(capsys, "run", study, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_interrupt_is_one_line(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(study, "def study():\n    raise KeyboardInterrupt\n")
    assert "interrupted" in fails(capsys, "run", study, code=130)


# -- listing -------------------------------------------------------------------------------------------


def test_models_lists_without_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "b_second.py", '"""Second. """\nraise SystemExit\ndef study(): ...\n')
    write(tmp_path / "a_first.py", "study = print\n")
    write(tmp_path / "c_helper.py", '"""No study here."""\n')
    write(tmp_path / "d_broken.py", "def study(:\n")
    write(tmp_path / "_private.py", "def study(): ...\n")
    assert cli.main(["models", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["a_first", "b_second", "d_broken"]
    assert lines[0].endswith("(no description)")
    assert lines[1].endswith("Second.")
    assert "line 1" in lines[2]


def test_models_of_nowhere_and_of_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no such directory" in fails(capsys, "models", tmp_path / "absent")
    assert "no studies" in fails(capsys, "models", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert "models" in fails(capsys, "models")


def test_our_own_studies_are_listed_and_described() -> None:
    listed = {listing.name: listing.description for listing in find_studies(ROOT / "models")}
    assert {"trottini_fienberg_normal", "trottini_fienberg_multivariate", "suppressed_table"} <= set(listed)
    assert all(text and not text.startswith("(") for text in listed.values())


@pytest.mark.slow
def test_the_first_study_gives_the_papers_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert (
        cli.main(["run", str(ROOT / "models" / "trottini_fienberg_normal.py"), "--max-risk", "0.5", "--out", str(out)])
        == 0
    )
    printed = capsys.readouterr().out
    assert "2.08" in printed
    assert "2.651" in printed or "2.65098" in printed
    assert list(out.glob("*.png"))


# -- settings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-2.5e3", -2500.0),
        ("[1, 2]", [1, 2]),
        ("inf", float("inf")),
        ("-inf", float("-inf")),
        ("True", True),
        ("false", False),
        ("none", None),
        *[
            ("'3'", "3"),
            ("a=b", "a=b"),
            ("", ""),
            ("1 +", "1 +"),
            ("__import__('os')", "__import__('os')"),
            (" x ", "x"),
        ],
    ],
)
def test_values_are_literals_or_text(text: str, value: object) -> None:
    (seen,) = parse_settings([f"name={text}"]).values()
    assert seen == value
    assert type(seen) is type(value)


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}", fullmatch=True),
        st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans(), st.text()),
        max_size=4,
    )
)
def test_settings_survive_the_command_line(values: dict[str, object]) -> None:
    assert parse_settings([f"{k}={v!r}" for k, v in values.items()]) == values


@settings(max_examples=60)
@given(st.text(max_size=30))
def test_any_text_is_a_setting_or_a_clear_refusal(text: str) -> None:
    name, sign, _ = text.partition("=")
    if sign and name.strip().isidentifier():
        assert list(parse_settings([text])) == [name.strip()]
    else:
        with pytest.raises(InputError, match="name=value"):
            parse_settings([text])


@settings(max_examples=60)
@given(st.text(max_size=30))
def test_file_names_are_safe(text: str) -> None:
    name = file_name(text)
    assert name
    assert not name.startswith(".")
    assert not set(name) & set("/\\: \0")


def test_a_study_without_limits_takes_any_setting(tmp_path: Path) -> None:
    body = "return [RUMap.build(labels=list(all), intruder=[1.0], scientist=[1.0])]"
    text = f"from ruvdecision.maps.rumap import RUMap\ndef study(**all):\n    {body}\n"
    outcome = load_study(write(tmp_path / "free.py", text)).run(anything=1)
    assert list(outcome.maps) == ["map1"]
    assert outcome.panel


# -- as a process --------------------------------------------------------------------------------------


def start(*arguments: object, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ruvdecision", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    # A shell's background job ignores Ctrl-C, and its children inherit that: the command must hear it all the same.
    if os.name == "posix":
        options.setdefault("preexec_fn", functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL))
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options
    )  # type: ignore[call-overload,no-any-return]


def test_version_and_help() -> None:
    assert start("--version").communicate()[0] == f"ruvdecision {__version__}\n"
    out, err = start("run", "--help").communicate()
    assert "--max-risk" in out
    assert err == ""


@pytest.mark.slow
def test_ctrl_c_ends_a_long_study(tmp_path: Path) -> None:
    flag = tmp_path / "started"
    path = write(
        tmp_path / "long.py",
        f"import pathlib, time\ndef study():\n    pathlib.Path({str(flag)!r}).touch()\n    time.sleep(60)\n",
    )
    process = start("run", path)
    for _ in range(600):
        if flag.exists() or process.poll() is not None:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "ruvdecision: error: interrupted\n")


@pytest.mark.long
def test_a_reader_that_goes_away_costs_no_files(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start("run", study, "--out", out)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 1
    assert err == ""
    assert sorted(p.name for p in out.iterdir()) == ["map.csv", "map.nc", "map.png", "report.html"]


@pytest.mark.parametrize(
    "script",
    [
        "import ruvdecision",
        "from ruvdecision.cli import main; main(['--help'])",
        "from ruvdecision.cli import main; main(['--version'])",
        "from ruvdecision.cli import main; main(['measure', '--help'])",
        "from ruvdecision.cli import main; assert main(['measure', '--nonsense']) == 2",
        "from ruvdecision.cli import main; assert main(['nonsense']) == 2",
        "from ruvdecision.cli import main; assert main(['run', 'absent.py']) == 2",
        "from ruvdecision.cli import main; assert main(['measure', 'absent.csv', 'x=absent.csv']) == 2",
        "from ruvdecision.cli import main; assert main(['explore', 'absent.py']) == 2",
        "from ruvdecision.cli import main; assert main(['models', 'absent']) == 2",
    ],
)
def test_nothing_heavy_is_imported_before_work_begins(script: str) -> None:
    heavy = "import sys; print([n for n in ('numpy', 'pandas', 'scipy', 'xarray', 'matplotlib') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", f"{script}; {heavy}"], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.mark.slow
def test_functions_that_have_the_names_of_their_modules() -> None:
    """Whoever imports the module first, the package's name is the function."""
    script = (
        "import ruvdecision.evaluate, ruvdecision.measure; import ruvdecision as ruv; from ruvdecision import measure\n"
    )
    script += (
        "import ruvdecision.analyses.worth; print(ruv.evaluate.__name__, ruv.measure.__name__, measure is ruv.measure)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == ["evaluate", "measure", "True"], done.stderr
