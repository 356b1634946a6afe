"""No confidential record leaves by our hand.

Secrets are planted in data and everything that comes out is searched for them.

Every public route that takes data is run here; errors are searched in test_leaks_errors, the page in test_leaks_page,
workers and what a run leaves behind in test_leaks_workers. SECURITY.md says what is promised and what is not.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import places
import pytest
from edges import tried
from examples import CATEGORICAL, MASKS, MEASURES, measure_names, spelt
from sentinels import CATEGORY, DATE, LARGEST, SECRETS, SMALLEST, WHO, WHOLE, files, labelled, leaks, numbers, table

import ruvdecision as ruv
from ruvdecision import cli, measures
from ruvdecision.errors import InputError
from ruvdecision.maps.rumap import RUMap
from ruvdecision.report import render_report, write_report
from ruvdecision.running.fingerprint import fingerprint_data, key_file

ROOT = places.ROOT


@pytest.fixture(autouse=True)
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the test's key out of the home directory."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data home"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "data home"))


# -- every route that takes data -------------------------------------------------------------------------

BELIEF = ruv.NormalBelief(records=5, variance=1e8, prior_mean=6e4, prior_variance=1e8)
OTHER = ruv.NormalBelief(records=5, variance=2e8, prior_mean=5e4, prior_variance=1e8)
INTRUDER, SCIENTIST = (
    ruv.User(BELIEF, ruv.Record(0), ruv.Absolute()),
    ruv.User(BELIEF, ruv.Parameter("mu"), ruv.Quadratic()),
)
AVERAGE = ruv.Microaggregate(groups=1)
GRID = [ruv.Suppress(), ruv.Noise(sd=4000.0), ruv.Noise(sd=9000.0) | AVERAGE]
TRADES = ruv.FiniteBelief(values=["baker", "smith", "mason"], probabilities=[0.2, 0.3, 0.5])
PAIR = ruv.NormalBelief(
    records=60, covariance=np.diag([8e7, 8e5]), prior_mean=[6e4, 9e3], prior_covariance=np.diag([1e8, 1e6])
)


def modelled(intruder: Any = INTRUDER, masks: Any = GRID, scientist: Any = SCIENTIST, **options: Any) -> RUMap:
    return ruv.evaluate(masks, intruder=intruder, scientist=scientist, **{"data": numbers(), "seed": 1, **options})


def snooped(rule: Any, target: Any, **options: Any) -> RUMap:
    snooper = ruv.Snooper(rule, target)
    return modelled(snooper, GRID[1:2], ruv.Snooper("mean", ruv.Record(2)), **{"seed": 2, "replicates": 5, **options})


def measured(**options: Any) -> RUMap:
    compared = [
        ruv.measures.RecordLinkage(known=["age", "income"]),
        ruv.measures.IntervalOverlap("income ~ age + tax"),
        ruv.measures.NormalKL(),
    ]
    given = {
        "masks": [ruv.Noise(share=0.2), ruv.RankSwap(within=0.2)],
        "measures": compared,
        "replicates": 2,
        "seed": 1,
    }
    return ruv.measure(table(), **{**given, **options})


def every_measure(names: list[str]) -> RUMap:
    """All measures of numbers, or of categories, on one map with all their parts."""
    category = names[0] in CATEGORICAL
    given = {n: dict(MEASURES.get(n, {})) for n in names}
    words = {"a": "income", "b": "age", "c": "tax", "g": "trade", "h": "owner", "a ~ b + c": "income ~ age + tax"}
    known = {n: {k: spelt(v, words) for k, v in g.items()} for n, g in given.items()}
    known |= {n: {"columns": ["income", "tax"]} for n in ("DensityKL", "InformationLoss") if n in names}
    data = labelled()[["trade", "owner"]] if category else table()
    masks = [ruv.PRAM(stay=0.7)] if category else [ruv.Noise(share=0.2)]
    return ruv.measure(data, masks, measures=[getattr(measures, n)(**g) for n, g in known.items()], seed=1, parts=True)


def every_mask() -> RUMap:
    """All masks of records.

    What they find in the data (thresholds, groups, shares) must not get into labels and parameters.
    """
    others = {"Stochastic", "LocalSuppress", "SuppressCells", "Mechanism", "Combine", "Suppress", "Recode", "Subsample"}
    numeric = [m for n, m in MASKS.items() if n not in others]
    found = [
        ruv.Topcode(quantile=0.98),
        ruv.Bottomcode(quantile=0.02),
        ruv.Recode(width=1e6, label="midpoint"),
        ruv.Microaggregate(size=3, by="mdav"),
    ]
    found += [
        ruv.masks.MomentNoise(share=0.1),
        ruv.Noise(sd=lambda x: abs(x) / 9),
        ruv.Synthesize(method="copula"),
    ]
    return ruv.measure(table()[["wealth", "income"]], [*numeric, *found], measures=[ruv.measures.Mahalanobis()], seed=1)


def in_pieces(folder: Path) -> RUMap:
    labelled().to_csv(folder / "original.csv", index=False)
    released = labelled().assign(income=lambda t: t["income"] + 500, trade="baker")
    released.to_csv(folder / "released.csv", index=False)
    compared = [
        ruv.measures.NormalKL(columns=["income", "tax"]),
        ruv.measures.Hellinger(columns=["trade"]),
        ruv.measures.IntervalOverlap("income ~ age + owner"),
    ]
    paths = {"one": str(folder / "released.csv")}
    rumap = ruv.measure(str(folder / "original.csv"), releases=paths, measures=compared, chunksize=7, parts=True)
    for file in ("original.csv", "released.csv"):
        (folder / file).unlink()
    return rumap


ROUTES: dict[str, Callable[[Path], Any]] = {
    "exact": lambda _: modelled(),
    "without closed form": lambda _: modelled(
        ruv.User(BELIEF, ruv.Record(0), ruv.CustomLoss(lambda e, t: abs(e - t) ** 1.5)), GRID[1:2], replicates=3
    ),
    "enumeration": lambda _: ruv.evaluate(
        [ruv.PRAM(stay=0.8)],
        intruder=ruv.User(TRADES, ruv.Record(0), ruv.ZeroOne()),
        scientist=ruv.User(TRADES, ruv.Record(0), ruv.ZeroOne()),
        data=np.array(["smith"]),
        seed=1,
    ),
    "identity": lambda _: modelled(
        ruv.User(BELIEF, ruv.Identity(0, known=[0]), ruv.ZeroOne()), GRID[1:2], replicates=5
    ),
    "each record": lambda _: modelled(ruv.User(BELIEF, ruv.EachRecord(), ruv.Absolute()), GRID[1:2]),
    "wrong belief": lambda _: modelled(ruv.User(OTHER, ruv.Record(0), ruv.Quadratic(), truth=BELIEF), GRID[1:]),
    "unknown mask": lambda _: modelled(
        ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic(), knows_mask=False), GRID[1:2], replicates=3
    ),
    "panel": lambda _: modelled(ruv.Panel.vary(INTRUDER, prior_variance=[1e7, 1e8]), GRID[1:]),
    "rule of the largest": lambda _: snooped("max", ruv.Maximum()),
    "rule of the row": lambda _: snooped("row", ruv.Record(0)),
    "rule of the caller": lambda _: snooped(lambda release: float(np.max(release)), ruv.Percentile(0.5)),
    "two variables": lambda _: modelled(
        ruv.User(PAIR, ruv.Record(0), ruv.Quadratic()),
        [ruv.Noise(share=0.3)],
        ruv.User(PAIR, ruv.Parameter("mu"), ruv.Quadratic()),
        data=table()[["income", "tax"]],
    ),
    "model and measures": lambda _: modelled(masks=GRID[1:2], measures=[ruv.measures.Mahalanobis()]),
    "measures": lambda _: measured(parts=True),
    "releases": lambda _: measured(
        masks=None, releases={"a": table() + 1.5, "b": table() * 1.1}, replicates=1, seed=None
    ),
    "measures of numbers": lambda _: every_measure(
        [n for n in measure_names() if n not in {*CATEGORICAL, "ImputationLoss"}]
    ),
    "measures of categories": lambda _: every_measure([n for n in measure_names() if n in CATEGORICAL]),
    "masks": lambda _: every_mask(),
    "files in pieces": in_pieces,
    "risk of every record": lambda _: ruv.analyses.record_risk(GRID[:2], INTRUDER, data=numbers(), seed=1),
    "price of publishing": lambda _: ruv.analyses.price_of_publishing(
        GRID[1:2], intruder=INTRUDER, scientist=SCIENTIST, data=numbers(), seed=1, replicates=3
    ),
    "worth": lambda _: ruv.analyses.worth(INTRUDER, GRID[1], data=numbers(), seed=1),
    "sensitivity": lambda _: ruv.sensitivity(
        GRID[1:],
        {"intruder.belief.prior_variance": [1e7, 1e9]},
        intruder=INTRUDER,
        scientist=SCIENTIST,
        data=numbers(),
        max_risk=1.0,
        seed=1,
    ),
    "optimise": lambda _: ruv.optimise(
        ruv.analyses.MaskFamily(lambda sd: ruv.Noise(sd=sd), sd=(1e3, 1e5)),
        max_risk=1e-3,
        intruder=INTRUDER,
        scientist=SCIENTIST,
        data=numbers(),
    ),
    "scenario with records": lambda _: ruv.scenarios.empirical(numbers(), [1e6, 1e7], seed=1, replicates=5),
    "scenario of a sample": lambda _: ruv.scenarios.additive_noise(
        n=5, variance=1e8, noise_variance=[1e6, 1e7], knowledge="sample", data=numbers()
    ),
}


def look_at(result: Any, folder: Path, pictures: bool = False) -> dict[str, Any]:
    """Everything that a result can be turned into; a picture has what its plot has, so most routes are drawn once."""
    shown: dict[str, Any] = {"repr": repr(result), "str": str(result), "pickle": pickled(result)}
    for name in ("_repr_html_", "to_dataframe", "summary", "riskiest"):
        if callable(getattr(result, name, None)):
            found = getattr(result, name)()
            shown[name] = found if isinstance(found, str) else found.to_csv() + repr(found)
    for name in ("sentence", "notes", "attrs", "secret"):
        shown[name] = str(getattr(result, name, ""))
    if isinstance(result, RUMap):
        known = result.risk[np.isfinite(result.risk)]
        threshold = float(np.median(known)) if known.size else None
        write_report(
            result,
            folder / "report.html",
            threshold,
            notes=["A note."],
            figures=folder / "figures" if pictures else None,
        )
        write_report(result, folder / "report.md", threshold, notes=["A note."])
        result.save(folder / "map.nc")
        shown |= {
            "dataset": str(result.dataset) + str(result.dataset.to_dict()),
            "row": repr(result[0]),
            "choice": str(result[0]),
        }
    if hasattr(result, "plot") and pictures:
        figure = result.plot().figure
        for kind in ("png", "svg", "pdf"):
            figure.savefig(folder / f"plot.{kind}")
        _close()
    return shown | files(folder)


def pickled(result: Any) -> bytes:
    try:
        return pickle.dumps(result)
    except (pickle.PicklingError, AttributeError, TypeError):  # a function of the caller's
        import cloudpickle

        return bytes(cloudpickle.dumps(result))


def _close() -> None:
    import matplotlib.pyplot as plt

    plt.close("all")


#: Routes whose results are drawn as well, one per kind of picture.
DRAWN = ("exact", "measures", "risk of every record", "price of publishing", "sensitivity", "scenario with records")


@pytest.mark.long
@pytest.mark.parametrize("route", DRAWN)
def test_no_picture_holds_a_record(route: str, tmp_path: Path) -> None:
    shown = look_at(ROUTES[route](tmp_path), tmp_path, pictures=True)
    tried("leaks", len(shown))
    assert {"plot.png", "plot.svg", "plot.pdf"} <= set(shown)
    assert {name: leaks(content) for name, content in shown.items() if leaks(content)} == {}


@pytest.mark.slow
@pytest.mark.campaign(4)
@pytest.mark.parametrize("route", ROUTES)
def test_no_artefact_holds_a_record(
    route: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    logging.getLogger("fontTools").setLevel(logging.WARNING)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        result = ROUTES[route](tmp_path)
        shown = look_at(result, tmp_path, pictures=route == "exact")
    said = capfd.readouterr()
    shown |= {"output": said.out + said.err, "log": caplog.text, "warnings": "\n".join(str(w.message) for w in heard)}
    tried("leaks", len(shown))
    assert len(shown) >= 8
    assert {name: leaks(content) for name, content in shown.items() if leaks(content)} == {}


def test_the_search_finds_what_is_planted(tmp_path: Path) -> None:
    """A search that finds nothing anywhere proves nothing: every secret, in every dress."""
    import matplotlib.pyplot as plt

    for x in (*SECRETS, LARGEST, SMALLEST):
        for dress in (f"{x:.9g}", f"{x:.6g}", f"{x!r}", f"{x:,.2f}", f"{x:.5e}", f"{x:.0f}", f"<td>{x:.2f}</td>"):
            assert leaks(f"the record is {dress}."), dress
        assert leaks(b"\x00" + np.float64(x).tobytes()) and leaks(np.array([x], dtype=">f8").tobytes())
    for text in (f"by {WHO}", f"a {CATEGORY}", f"id {WHOLE}", f"born {DATE}", f"born {DATE:%d.%m.%Y}"):
        assert leaks(text), text
    for frame in (table(), labelled()):
        assert leaks(frame.to_csv()) and leaks(frame.to_json(date_format="iso")) and leaks(pickle.dumps(frame))
    # In a checkpoint's arrays, a netCDF file, a PDF's streams, a PNG's words and a picture inside a page.
    from ruvdecision.running.encoding import encode

    assert leaks(encode(numbers())) and leaks(encode({"a": (1, np.array([0.5, LARGEST]))}))
    table()[["income"]].to_xarray().to_netcdf(tmp_path / "map.nc", engine="h5netcdf")
    figure, ax = plt.subplots()
    ax.set_title(WHO)
    ax.set_xticks([0, 1], [f"{LARGEST:.2f}", CATEGORY])
    figure.savefig(tmp_path / "plot.svg", metadata={"Title": WHO})
    figure.savefig(tmp_path / "plot.png", metadata={"Title": WHO})
    figure.savefig(tmp_path / "plot.pdf", metadata={"Title": WHO})
    plt.close(figure)
    assert {name: bool(leaks(content)) for name, content in files(tmp_path).items()} == dict.fromkeys(
        files(tmp_path), True
    )
    assert not leaks("nothing here, 12345.678") and not leaks(np.arange(100.0).tobytes())


@pytest.mark.long
@pytest.mark.parametrize("make", [lambda n: measured_of(n), lambda n: modelled_of(n)])
def test_no_picture_has_a_mark_per_record(make: Callable[[int], RUMap], tmp_path: Path) -> None:
    """A picture that draws every record tells where it lies: many more records, and the pictures have no more marks."""
    counts = []
    for n in (40, 240):
        rumap = make(n)
        write_report(rumap, tmp_path / f"{n}.html", 1.0, figures=tmp_path / f"figures {n}")
        rumap.plot().figure.savefig(tmp_path / f"figures {n}" / "plot.svg")
        _close()
        drawn = {name: content for name, content in files(tmp_path / f"figures {n}").items() if name.endswith(".svg")}
        counts.append(
            {
                name: len(re.findall(rb"<(?:use|circle|ellipse|rect|image)\b", content))
                for name, content in drawn.items()
            }
        )
    tried("leaks", len(counts[0]))
    assert len(counts[0]) >= 2
    # Marks on the axes come and go; two hundred more records would be two hundred more marks.
    assert all(counts[1][name] - counts[0][name] < 50 for name in counts[0]), counts


def measured_of(rows: int) -> RUMap:
    return ruv.measure(
        table(rows), [ruv.Noise(share=0.2)], measures=[ruv.measures.RecordLinkage(), ruv.measures.NormalKL()], seed=1
    )


def modelled_of(rows: int) -> RUMap:
    belief = ruv.NormalBelief(records=rows, variance=1e8, prior_mean=6e4, prior_variance=1e8)
    user = ruv.User(belief, ruv.Record(0), ruv.Absolute())
    return modelled(user, [ruv.Noise(sd=9e3)], user, data=table(rows)["income"])


def test_a_checkpoint_and_its_logs_hold_no_record(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    modelled(checkpoint=tmp_path / "one", progress=True)
    measured(checkpoint=tmp_path / "two", progress=True)
    snooped("max", ruv.Maximum(), checkpoint=tmp_path / "three")
    modelled(masks=GRID[1:2], measures=[ruv.measures.Mahalanobis()], checkpoint=tmp_path / "four")
    said = capfd.readouterr()
    found = files(tmp_path)
    tried("leaks", len(found))
    assert len(found) >= 8
    assert {name: leaks(content) for name, content in found.items() if leaks(content)} == {}
    assert leaks(said.out + said.err) == []


@pytest.mark.skipif(os.name == "nt", reason="rights of Unix")
@pytest.mark.parametrize("seed", [None, 1])
def test_a_checkpoint_is_for_its_owner(seed: int | None, tmp_path: Path) -> None:
    modelled(checkpoint=tmp_path / "run", seed=seed)
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700


class Bait:
    """Unpickling it would be noticed."""

    def __reduce__(self) -> Any:
        return (os.mkdir, ("bait taken",))


def test_reading_a_map_or_a_checkpoint_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ruvdecision.maps import storage
    from ruvdecision.running.encoding import decode

    monkeypatch.chdir(tmp_path)
    for name in (
        "os:mkdir",
        "ruvdecision.data.read:read_data",
        "ruvdecision.studies:load_study",
        "ruvdecision.data.read:os.mkdir",
        "builtins:eval",
        "x",
    ):
        with pytest.raises(ValueError, match="nothing that a checkpoint holds"):
            decode(f'{{"@": "{name}", "of": {{"path": "bait taken"}}}}')
    for mask in ("system", "Mask.__init__", "base", "__import__", "LATER"):
        with pytest.raises(LookupError):
            storage.decode({"mask": mask, "settings": [["path", "bait taken"]]})
    (tmp_path / "map.nc").write_bytes(pickle.dumps(Bait()))
    with pytest.raises(InputError, match="not a map"):
        RUMap.load("map.nc")
    # Nor is there anything in these modules that could.
    for module in ("maps/storage", "running/encoding", "running/checkpoint"):
        text = (ROOT / "ruvdecision" / f"{module}.py").read_text(encoding="utf-8")
        assert not re.search(r"\b(pickle\.|eval\(|exec\(|__import__|allow_pickle=True)", text), module
    assert not (tmp_path / "bait taken").exists()


def test_a_seed_is_a_key() -> None:
    """SECURITY.md warns of it.

    With the seed that stands in a map, the noise of a release can be drawn again and taken off.
    """
    mask, seed = ruv.Noise(sd=9000.0), int(modelled(masks=GRID[1:2]).attrs["seed"])
    released = mask.release(numbers(), seed)
    np.testing.assert_allclose(released - mask.release(np.zeros(5), seed), numbers(), rtol=1e-12)
    assert not np.array_equal(mask.release(numbers()), mask.release(numbers()))  # without one nobody can


def test_risk_of_every_record_names_positions_only() -> None:
    found = ruv.analyses.record_risk(
        [ruv.Noise(sd=4000.0), ruv.Suppress()], INTRUDER, data=numbers(), groups=[WHO, "b", "b", "b", "b"]
    )
    text = render_report(modelled(), record_risk=found)
    assert "Risk of every record" in text
    assert leaks(text) == []
    assert leaks(repr(found)) == []


@pytest.mark.long
def test_the_command_line_tells_no_record(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    original = table()
    original.to_csv(tmp_path / "original.csv", index=False)
    for name, sd in (("a", 3000.0), ("b", 9000.0)):
        (original + rng.normal(0, sd, original.shape)).to_csv(tmp_path / f"{name}.csv", index=False)
    command = [
        sys.executable,
        "-m",
        "ruvdecision",
        "measure",
        "original.csv",
        "a.csv",
        "b.csv",
        "--known",
        "age,income",
        "--out",
        "out",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    options: dict[str, Any] = {
        "cwd": tmp_path,
        "env": environment,
        "capture_output": True,
        "timeout": 300,
        "check": False,
    }
    done = subprocess.run([*command, "--max-risk", "1"], **options)
    assert done.returncode == 0, done.stderr
    assert leaks(done.stdout + done.stderr) == []
    found = files(tmp_path / "out")
    assert {"map.nc", "map.csv", "map.png", "report.html"} <= set(found)
    assert {name: leaks(content) for name, content in found.items() if leaks(content)} == {}
    wrong = subprocess.run(
        [*command[:-3], "nobody", "--debug"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert wrong.returncode == 2
    assert leaks(wrong.stdout + wrong.stderr) == []


FAILING = """
import ruvdecision as ruv

def study(how="value"):
    secret = "".join(["Zebulon", " ", "Quixby"])
    if how == "value":
        float(secret)
    if how == "key":
        {}[secret]
    if how == "chained":
        try:
            float(secret)
        except ValueError as error:
            raise ruv.InputError("This is wrong", 1, "Do that") from error
    if how == "mask":
        ruv.Recode(categories={"a": "b"}).release([secret])
    raise RuntimeError(secret)
"""


@pytest.mark.parametrize("how", ["value", "key", "chained", "mask", "other"])
def test_a_failed_study_tells_no_record(how: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With --debug there is the traceback, with places, kinds and source lines, and without what libraries quote."""
    (tmp_path / "study.py").write_text(FAILING)
    for more in ([], ["--debug"]):
        tried("leaks")
        assert cli.main(["run", str(tmp_path / "study.py"), "--set", f"how={how}", *more]) == 2
        said = capfd.readouterr()
        assert leaks(said.out + said.err) == []
        assert ("Traceback" in said.err) == bool(more) and "line" in said.err


@pytest.mark.parametrize(
    "arguments",
    [["--known", "name"], ["--measures", "KL"], ["--model", "income ~ trade + name"], ["--key", "trade"], []],
)
def test_a_failed_comparison_tells_no_record(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    labelled().to_csv(tmp_path / "a.csv", index=False)
    labelled().assign(income=WHO, trade=CATEGORY).to_csv(tmp_path / "b.csv", index=False)
    tried("leaks")
    assert cli.main(["measure", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), *arguments, "--debug"]) == 2
    said = capfd.readouterr()
    assert leaks(said.out + said.err) == [] and "Traceback" in said.err


# -- the fingerprint of the data -----------------------------------------------------------------------


def test_the_fingerprint_needs_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUVDECISION_KEY")
    assert fingerprint_data(table()) == "" and not key_file().exists()
    first = fingerprint_data(table(), create=True)
    assert first == fingerprint_data(table())
    assert key_file().exists()
    assert os.name == "nt" or key_file().stat().st_mode & 0o777 == 0o600
    assert first != fingerprint_data(table().iloc[::-1])
    changed = table()
    changed.loc[0, "income"] += 0.01
    assert first != fingerprint_data(changed)
    monkeypatch.setenv("RUVDECISION_KEY", "the agency's own secret")
    shared = fingerprint_data(table())
    assert shared != first
    assert (
        shared
        == fingerprint_data(table(), key="the agency's own secret")
        == fingerprint_data(table(), key=b"the agency's own secret")
    )
    # The key has a name, which tells two keys apart and is the same for all data.
    assert shared.split("key ")[1] == fingerprint_data(numbers()).split("key ")[1] != first.split("key ")[1]
    assert "secret" not in shared


def test_no_place_for_a_key_means_no_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "file"))
    monkeypatch.delenv("RUVDECISION_KEY")
    assert fingerprint_data(numbers(), create=True) == ""
    monkeypatch.setenv("RUVDECISION_KEY", "too short")
    with pytest.raises(InputError, match="at least 16"):
        fingerprint_data(numbers())
