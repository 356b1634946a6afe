"""No confidential record leaves by our hand: sentinel values are planted in data and every output is searched for them."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ruvdecision.beliefs import FiniteBelief, NormalBelief
from ruvdecision.datafingerprint import fingerprint_data, key_file
from ruvdecision.empirical import measure
from ruvdecision.errors import InputError, RuvError
from ruvdecision.evaluate import evaluate
from ruvdecision.losses import Absolute, Quadratic, ZeroOne
from ruvdecision.masks import Microaggregate, Noise, RankSwap, Suppress
from ruvdecision.measures import IntervalOverlap, NormalKL, RecordLinkage
from ruvdecision.recordrisk import record_risk
from ruvdecision.report import render_report, write_report
from ruvdecision.rumap import RUMap
from ruvdecision.targets import Maximum, Parameter, Record
from ruvdecision.users import Snooper, User

ROOT = Path(__file__).resolve().parents[1]

#: Numbers that occur nowhere else, and a name.
SECRETS = (90817.2635, 60504.3927, 70915.8264, 80624.1739, 50713.9462)
WHO = "Zebulon Quixby"


def sentinels() -> list[bytes]:
    """How a secret may look: as text with some digits, in scientific form, as bytes of either order."""
    looks: set[bytes] = {WHO.encode(), WHO.encode("utf-16-le")}
    for x in SECRETS:
        looks |= {f"{x:.{d}g}".encode() for d in (6, 7, 9)} | {
            repr(x).encode(),
            f"{x:.5e}"[:7].encode(),
            f"{x:,.2f}".encode(),
            f"{x:.0f}".encode(),
        }
        looks |= {np.array(x, dtype=t).tobytes() for t in ("<f8", ">f8", "<f4", ">f4")}
    return sorted(looks)


SENTINELS = sentinels()


def leaks(content: bytes | str) -> list[bytes]:
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    parts = [raw]
    if raw[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            parts += [archive.read(name) for name in archive.namelist()]
    return [s for s in SENTINELS for part in parts if s in part]


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def numbers() -> np.ndarray[Any, Any]:
    return np.array(SECRETS)


def table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"income": rng.normal(60000, 9000, 60).round(2), "age": rng.integers(20, 70, 60), "tax": rng.normal(9000, 900, 60).round(2)}
    )
    frame.loc[:4, "income"] = SECRETS
    return frame


@pytest.fixture(autouse=True)
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the test's key out of the home directory."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data home"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "data home"))


def modelled(**options: Any) -> RUMap:
    belief = NormalBelief(records=5, variance=1e8, prior_mean=6e4, prior_variance=1e8)
    masks = [Suppress(), Noise(sd=4000.0), Noise(sd=9000.0) | Microaggregate(groups=1)]
    intruder = User(belief, Record(0), Absolute())
    return evaluate(masks, intruder=intruder, scientist=User(belief, Parameter("mu"), Quadratic()), data=numbers(), seed=1, **options)


def snooped() -> RUMap:
    snooper = Snooper("max", Maximum())
    return evaluate(
        [Noise(sd=4000.0), Noise(sd=9000.0)], intruder=snooper, scientist=Snooper("mean", Record(2)), data=numbers(), seed=2, replicates=5
    )


def measured(**options: Any) -> RUMap:
    measures = [RecordLinkage(known=["age", "income"]), IntervalOverlap("income ~ age + tax"), NormalKL()]
    return measure(table(), [Noise(share=0.2), RankSwap(within=0.2)], measures=measures, replicates=2, seed=1, **options)


def test_the_search_finds_what_is_planted() -> None:
    assert leaks(f"the record is {SECRETS[0]:.9g}.")
    assert leaks(b"\x00" + np.float64(SECRETS[2]).tobytes())
    assert leaks(f"by {WHO}")
    assert leaks(table().to_csv())
    assert not leaks("nothing here, 12345.678")


@pytest.mark.parametrize("make", [modelled, snooped, measured])
def test_maps_and_reports_hold_no_record(make: Callable[[], RUMap], tmp_path: Path) -> None:
    rumap = make()
    rumap.save(tmp_path / "map.nc")
    rumap.to_dataframe().to_csv(tmp_path / "map.csv")
    for name in ("report.html", "report.md"):
        write_report(rumap, tmp_path / name, float(np.median(rumap.risk)), notes=["A note."], figures=tmp_path / "figures", overwrite=True)
    found = files(tmp_path)
    assert len(found) >= 6
    assert {name: leaks(content) for name, content in found.items() if leaks(content)} == {}
    for text in (
        repr(rumap),
        rumap._repr_html_(),
        str(rumap.dataset),
        repr(rumap[0]),
        str(rumap.choose(max_risk=np.inf)),
        str(dict(rumap.attrs)),
    ):
        assert leaks(text) == []


def test_a_checkpoint_and_its_logs_hold_no_record(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    modelled(checkpoint=tmp_path / "one", progress=True)
    measured(checkpoint=tmp_path / "two", progress=True)
    said = capfd.readouterr()
    found = files(tmp_path)
    assert len(found) >= 2
    assert {name: leaks(content) for name, content in found.items() if leaks(content)} == {}
    assert leaks(said.out + said.err) == []


def test_risk_of_every_record_names_positions_only(tmp_path: Path) -> None:
    belief = NormalBelief(records=5, variance=1e8, prior_mean=6e4, prior_variance=1e8)
    found = record_risk(
        [Noise(sd=4000.0), Suppress()], intruder=User(belief, Record(0), Quadratic()), data=numbers(), groups=[WHO, "b", "b", "b", "b"]
    )
    text = render_report(modelled(), record_risk=found)
    assert "Risk of every record" in text
    assert leaks(text) == []
    assert leaks(repr(found)) == []


BELIEF = NormalBelief(records=5, variance=1.0, prior_variance=1.0)
USER = User(BELIEF, Record(0), Quadratic())
FINITE = User(FiniteBelief(values=[0, 1], probabilities=[0.5, 0.5]), Record(0), ZeroOne())


def broken(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(name=[WHO] * len(frame), gap=[np.nan, *frame["income"][1:]])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: evaluate([Noise(sd=1.0)], intruder=USER, scientist=USER, data=np.array([*SECRETS, 1.0])),
        lambda: evaluate([Noise(sd=1.0)], intruder=USER, scientist=USER, data=np.array([*SECRETS[:4], np.nan])),
        lambda: evaluate([Noise(sd=1.0)], intruder=USER, scientist=USER, data=np.array([WHO, *map(str, SECRETS[:4])])),
        lambda: evaluate([Noise(sd=1.0)], intruder=FINITE, scientist=FINITE, data=np.array([SECRETS[0]])),
        lambda: Noise(sd=1.0).release(broken(table())[["name", "income"]], 1),
        lambda: Microaggregate(size=3, by="mdav").release(broken(table())[["gap", "income"]], 1),
        lambda: measure(broken(table()), [Noise(sd=1.0)], measures=[NormalKL(["name"])], seed=1),
        lambda: measure(broken(table()), [Noise(sd=1.0)], measures=[NormalKL(["gap"])], seed=1),
        lambda: measure(table(), releases={"r": table().iloc[:10]}, measures=[RecordLinkage(known=["income"])]),
        lambda: measure(table(), releases={"r": table()}, measures=[RecordLinkage(known=["incme"])]),
        lambda: measure(pd.concat([table(), table()]), releases={"r": table()}, measures=[NormalKL(["income"])], key="income"),
        lambda: render_report(numbers()),  # type: ignore[arg-type]
        lambda: write_report(table(), "report.html"),  # type: ignore[arg-type]
        lambda: render_report(modelled(), limit=table()),
        lambda: fingerprint_data(table(), key="short"),
        lambda: fingerprint_data(numbers(), key=numbers()),  # type: ignore[arg-type]
    ],
)
def test_errors_tell_no_record(wrong: Callable[[], Any]) -> None:
    with pytest.raises((RuvError, TypeError)) as caught:
        wrong()
    error: BaseException | None = caught.value
    while error is not None:
        assert leaks(str(error)) == []
        error = error.__cause__


def test_the_command_line_tells_no_record(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    original = table()
    original.to_csv(tmp_path / "original.csv", index=False)
    for name, sd in (("a", 3000.0), ("b", 9000.0)):
        (original + rng.normal(0, sd, original.shape)).to_csv(tmp_path / f"{name}.csv", index=False)
    command = [sys.executable, "-m", "ruvdecision", "measure", "original.csv", "a.csv", "b.csv", "--known", "age,income", "--out", "out"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    options: dict[str, Any] = {"cwd": tmp_path, "env": environment, "capture_output": True, "timeout": 300, "check": False}
    done = subprocess.run([*command, "--max-risk", "1"], **options)
    assert done.returncode == 0, done.stderr
    assert leaks(done.stdout + done.stderr) == []
    found = files(tmp_path / "out")
    assert {"map.nc", "map.csv", "map.png", "report.html"} <= set(found)
    assert {name: leaks(content) for name, content in found.items() if leaks(content)} == {}
    wrong = subprocess.run(
        [*command[:-3], "nobody", "--debug"], cwd=tmp_path, env=environment, capture_output=True, timeout=300, check=False
    )
    assert wrong.returncode == 2
    assert leaks(wrong.stdout + wrong.stderr) == []


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
    assert shared == fingerprint_data(table(), key="the agency's own secret") == fingerprint_data(table(), key=b"the agency's own secret")
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
