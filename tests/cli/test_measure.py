"""``ruvdecision measure``: releases that other tools made, from files to table, map and choice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ruvdecision as ruv
from ruvdecision import cli
from ruvdecision.cli.measure_names import spell_measures, split_names
from ruvdecision.errors import InputError
from ruvdecision.maps.rumap import RUMap
from ruvdecision.measures import (
    Cluster,
    EllipsoidOverlap,
    GeneralUtility,
    IntervalOverlap,
    KAnonymity,
    LDiversity,
    Measure,
    NormalKL,
    RecordLinkage,
)
from ruvdecision.measures.battery import labelled_measures

NUMBERS = ["income", "age", "tax"]
MODEL = "income ~ age + region"


@pytest.fixture(scope="module")
def original() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    table = pd.DataFrame(rng.normal(size=(150, 3)), columns=NUMBERS)
    table["income"] += table["age"] + table["tax"]
    table["region"] = rng.choice(["north", "south", "west"], 150)
    table["id"] = rng.permutation(np.arange(1000, 1150))
    return table


@pytest.fixture(scope="module")
def noisy(original: pd.DataFrame) -> pd.DataFrame:
    return ruv.Noise(sd=0.3, columns=NUMBERS).release(original, 1)


@pytest.fixture
def files(tmp_path: Path, original: pd.DataFrame, noisy: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An original and three releases: a CSV whose rows are mixed, a Stata file, and the original itself."""
    monkeypatch.chdir(tmp_path)
    original.to_csv("original.csv", index=False)
    noisy.sample(frac=1, random_state=2).to_csv("noise.csv", index=False)
    ruv.RankSwap(within=0.1, columns=NUMBERS).release(original, 1).to_stata("swap.dta", write_index=False)
    original.to_csv("same.csv", index=False)
    return tmp_path


def run(*arguments: object) -> int:
    return cli.main(["measure", *map(str, arguments)])


def fails(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("ruvdecision: error: ")
    return lines[0]


@pytest.mark.slow
def test_table_map_frontier_and_files(files, original, noisy, capsys):
    released = ["noise.csv", "swap.dta", "same.csv"]
    assert (
        run(
            "original.csv",
            *released,
            "--known",
            "age,region",
            "--model",
            MODEL,
            "--key",
            "id",
            "--max-risk",
            0.5,
            "--out",
            "out",
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "3 releases of original.csv (150 records)" in out
    for head in ("risk (linkage)", "utility (IO)", "EO"):
        assert head in out
    assert "Release noise" in out
    assert "Frontier of linkage and IO: swap, noise, same" in out
    assert "Frontier of linkage, IO, EO" in out
    assert {"map.nc", "map.csv", "map.png"} <= {p.name for p in (files / "out").iterdir()}
    rumap = RUMap.load(files / "out" / "map.nc")
    assert rumap.releases == ("noise", "swap", "same")
    data = original.drop(columns="id")
    assert rumap.columns["linkage"][0] == pytest.approx(
        float(RecordLinkage(known=["age", "region"])(data, noisy.drop(columns="id")))
    )
    assert rumap.columns["IO"][0] == pytest.approx(float(IntervalOverlap(MODEL)(data, noisy)))
    assert rumap.columns["EO"][0] == pytest.approx(float(EllipsoidOverlap(MODEL)(data, noisy)))
    assert rumap.columns["linkage"][2] == 1.0
    assert rumap.columns["IO"][2] == pytest.approx(0.95)
    table = pd.read_csv(files / "out" / "map.csv")
    assert table["release"].tolist() == ["noise", "swap", "same"]
    assert table["linkage"].tolist() == pytest.approx(rumap.risk.tolist())


@pytest.mark.parametrize(("measure", "missing"), [("linkage", "utility"), ("Hellinger", "risk")])
def test_a_map_of_one_axis_is_written_without_a_picture(measure, missing, files, capsys):
    """There is nothing to draw, and the work was done."""
    assert run("original.csv", "same.csv", "--measures", measure, "--out", "out") == 0
    assert f"the map has no {missing}" in capsys.readouterr().out
    assert {p.name for p in (files / "out").iterdir()} == {"map.nc", "map.csv", "report.html"}


def test_by_gives_every_group(files, original, noisy, capsys):
    assert (
        run("original.csv", "noise.csv", "--key", "id", "--measures", "linkage,KL", "--by", "region", "--out", "o") == 0
    )
    table = pd.read_csv(files / "o" / "map.csv")
    south = [t[t["region"] == "south"][NUMBERS] for t in (original, noisy)]
    assert table["KL.region=south"][0] == pytest.approx(float(NormalKL()(*south)))
    shown = f"south {table['KL.region=south'][0]:.4g}, west {table['KL.region=west'][0]:.4g}"
    assert f"KL by region, noise: north {table['KL.region=north'][0]:.4g}, {shown}" in capsys.readouterr().out
    assert "names a column that is not there" in fails(capsys, "original.csv", "same.csv", "--by", "regoin")
    assert "--by out" in fails(capsys, "original.csv", "same.csv", "--by", "id", "--measures", "KL", "--chunksize", 50)


def test_rows_in_another_order_are_noticed_without_a_key(files, capsys):
    """Links to the row in the same place would find nobody: the same file would look far safer."""
    for arguments in (("--key", "id"), ()):
        assert (
            run(
                "original.csv",
                "noise.csv",
                "--columns",
                "income,age,tax",
                "--measures",
                f"linkage(known={NUMBERS}),KL",
                "--out",
                "o",
                "--force",
                *arguments,
            )
            == 0
        )
        found = RUMap.load(files / "o" / "map.nc")
        assert 0.2 <= found.risk[0] <= 1.0
        assert any("not in the order of the data" in note for note in found.notes) == (not arguments)
    capsys.readouterr()


def test_measures_axes_and_quiet(files, capsys):
    common = ["original.csv", "noise.csv", "swap.dta", "--key", "id", "--columns", "income,age,tax"]
    assert (
        run(
            *common,
            "--measures",
            "KL, Cluster(clusters=20)",
            "--measures",
            "linkage",
            "--utility",
            "cluster",
            "--max-risk",
            1,
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "utility (reciprocal of cluster)" in out
    assert run(*common, "--measures", "KL,linkage", "--max-risk", 1, "--quiet") == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 1
    assert out.startswith("Release ")
    assert run(*common, "--measures", "KL") == 0
    assert "No measure of risk was given" in capsys.readouterr().out


def test_names_of_releases(files, capsys, original):
    (files / "b").mkdir()
    original.to_csv(files / "b" / "same.csv", index=False)
    assert run("original.csv", "same.csv", "b/same.csv", "--measures", "pMSE,linkage") == 0
    out = capsys.readouterr().out
    assert "b/same.csv" in out
    assert "listed twice" in fails(capsys, "original.csv", "same.csv", "same.csv")


def test_missing_values(files, capsys, original):
    original.assign(tax=original["tax"].where(original["tax"] > -1)).to_csv("holes.csv", index=False)
    chosen = ("original.csv", "holes.csv", "--measures", "KL", "--columns", "income,tax", "--missing")
    message = fails(capsys, *chosen, "raise")
    assert "holes: KL cannot take missing values in the release" in message
    assert "tax" in message and "--missing" in message
    assert run(*chosen, "omit") == 0
    assert "KL cannot take missing values as 'wildcard'; got --missing wildcard" in fails(capsys, *chosen, "wildcard")


@pytest.mark.slow
def test_words_of_the_command_line(files, capsys, original, tmp_path):
    """Names for files, how CSV files are written, a battery, a picture; errors name options and not arguments."""
    table = original.assign(region=original["region"].replace("south", "süd"))
    table.to_csv("german.csv", sep="~", decimal=",", encoding="latin-1", index=False)
    read = ("--sep", "~", "--decimal", ",", "--encoding", "latin-1")
    assert run("german.csv", "A=german.csv", "--plot", "map.svg", *read) == 0
    shown = capsys.readouterr().out
    assert "A" in shown and "id is different for every record and unchanged in every release" in shown
    assert (tmp_path / "map.svg").read_bytes()[:5] == b"<?xml"
    assert "--encoding latin-1" in fails(capsys, "german.csv", "german.csv")
    assert "--force" in fails(capsys, "original.csv", "same.csv", "--plot", "map.svg")
    assert ".png, .pdf or .svg" in fails(capsys, "original.csv", "same.csv", "--plot", "map.txt")
    assert "--columns A,B" in fails(capsys, "original.csv", "same.csv", "--measures", "KL")
    assert "--chunksize" in fails(capsys, "original.csv", "same.csv", "--sep", ",", "--chunksize", "10")
    original.to_csv("semicolons.csv", sep=";", decimal=",", index=False)
    assert run("semicolons.csv", "same.csv", "--measures", "utility", "--columns", "income,age,tax") == 0
    assert "Left out because they need arguments: " in capsys.readouterr().out


def test_a_destroyed_file_is_not_recommended(files, capsys, original):
    means = original.assign(**{c: original[c].mean() for c in [*NUMBERS, "id"]}, region="north")
    means.to_csv("means.csv", index=False)
    ruv.Noise(sd=2.0, columns=[*NUMBERS, "id"]).release(original, 1).to_csv("noise2.csv", index=False)
    assert run("original.csv", "means.csv", "noise2.csv", "--max-risk", "1") == 0
    assert "Release noise2" in capsys.readouterr().out


def test_errors_in_one_line(files, capsys, original):
    assert "no such data file; got nope.csv" in fails(capsys, "original.csv", "noise.csv", "nope.csv")
    assert "no such data file; got nope.csv" in fails(capsys, "nope.csv", "noise.csv")
    assert "There is no such measure; got KLL. Did you mean 'KL'?" in fails(
        capsys, "original.csv", "noise.csv", "--measures", "KLL"
    )
    assert "needs a model" in fails(capsys, "original.csv", "noise.csv", "--measures", "IO")
    assert "key is not a column of the original; got person" in fails(
        capsys, "original.csv", "noise.csv", "--key", "person"
    )
    assert "names a column that is not there; got wages" in fails(
        capsys, "original.csv", "same.csv", "--known", "wages"
    )
    assert "wages" in fails(capsys, "original.csv", "same.csv", "--model", "wages ~ age")
    original.drop(columns="tax").to_csv("short.csv", index=False)
    short = fails(capsys, "original.csv", "short.csv")
    assert "short: linkage needs the same columns in both files; got not in the release: tax" in short
    assert "choose the common ones with --known A,B" in short  # the option that this measure listens to
    short = fails(capsys, "original.csv", "short.csv", "--known", "age")
    assert "general utility needs the same columns" in short and "with --columns A,B" in short
    original.head(20).to_csv("few.csv", index=False)
    assert "few: linkage cannot tell whose rows were released" in fails(
        capsys, "original.csv", "few.csv", "--measures", "linkage(one_to_one=True),pMSE"
    )
    assert "No release has risk at most 0.001" in fails(capsys, "original.csv", "same.csv", "--max-risk", 0.001)
    assert "The risk names a column that is not there; got nothing" in fails(
        capsys, "original.csv", "same.csv", "--risk", "nothing"
    )
    assert "required" in fails(capsys, "original.csv")
    assert "must be a number" in fails(capsys, "original.csv", "same.csv", "--max-risk", "low")


def test_files_are_not_written_over(files, capsys):
    arguments = ["original.csv", "same.csv", "--measures", "pMSE,linkage", "--out", "out"]
    assert run(*arguments) == 0
    before = (files / "out" / "map.nc").read_bytes()
    assert "Files exist already" in fails(capsys, *arguments)
    assert (files / "out" / "map.nc").read_bytes() == before
    assert run(*arguments, "--force") == 0


# -- spelling ------------------------------------------------------------------------------------------


def test_spelling():
    made = spell_measures(
        ["linkage(distance='rank'), KL", "Cluster(clusters=[5, 9], standardise=True)"], known=["a"], columns=["a", "b"]
    )
    assert made == [
        RecordLinkage(known=["a"], distance="rank"),
        NormalKL(columns=["a", "b"]),
        Cluster(clusters=[5, 9], standardise=True, columns=["a", "b"]),
    ]
    assert spell_measures([], models=["y ~ a"]) == [
        RecordLinkage(),
        IntervalOverlap("y ~ a"),
        EllipsoidOverlap("y ~ a"),
    ]
    assert spell_measures([])[:: len(spell_measures([])) - 1] == [RecordLinkage(), GeneralUtility()]
    assert spell_measures(["IO"], models=["y ~ a", "y ~ b"]) == [IntervalOverlap(["y ~ a", "y ~ b"])]
    assert spell_measures(['IO("y ~ a", level=0.9)'], models=["z ~ b"]) == [IntervalOverlap("y ~ a", level=0.9)]
    assert spell_measures(["k-anonymity"], known=["a"], missing="omit") == [KAnonymity(keys=["a"], missing="omit")]
    words = spell_measures(["l_diversity(target=ill, keys=[age, 'a b'], kind=entropy)"])
    assert words == [LDiversity(["age", "a b"], "ill", kind="entropy")]
    assert spell_measures(["INTERVAL overlap(model='y ~ a')"]) == [IntervalOverlap("y ~ a")]
    assert split_names(["a, b", " c ,"]) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("KL(under=)", "cannot be read"),
        ("KL(under=__import__('os'))", "cannot be read"),
        ("KL(**{'under': 'both'})", "cannot be read"),
        ("KL(beneath='both')", "no such argument; got beneath"),
        ("KL('both', ['a'], 3)", "takes fewer arguments"),
        ("KL('both', under='both')", "given twice; got under"),
        ("KL(under='sideways')", "under must be one of"),
        ("KL((", "cannot be read|spelled"),
        ("(3)", "spelled"),
        ("nothing", "no such measure"),
    ],
)
def test_bad_spelling(text, message):
    with pytest.raises(InputError, match=message):
        spell_measures([text])


def test_every_measure_can_be_spelled():
    every = labelled_measures()
    assert len(every) >= 30
    assert all(issubclass(c, Measure) for c in every.values())
    assert {"IO", "EO", "KL", "MD", "MCM", "pMSE", "linkage", "fellegi_sunter", "k_anonymity"} <= set(every)


def test_the_choices_of_missing_are_those_of_the_measures() -> None:
    from ruvdecision.cli.options import MISSING
    from ruvdecision.measures.missing import CHOICES

    assert MISSING == CHOICES


def test_weights(files, capsys, original):
    weighted = original.assign(w=np.arange(1.0, len(original) + 1))
    weighted.to_csv("weighted.csv", index=False)
    assert (
        run("weighted.csv", "weighted.csv", "--measures", "linkage,KL", "--columns", "income,tax", "--weights", "w")
        == 0
    )
    message = fails(capsys, "weighted.csv", "weighted.csv", "--measures", "k_anonymity", "--weights", "w")
    assert "no use for --weights" in message
    assert "Marginals" not in fails(capsys, "weighted.csv", "weighted.csv", "--measures", "marginals", "--weights", "v")
