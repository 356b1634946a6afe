"""The package stays light: heavy libraries are imported when they are used, not before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import places
import pytest

ROOT = places.ROOT
HEAVY = ["pymc", "arviz", "pytensor", "matplotlib", "sklearn", "numba", "rich", "jinja2", "statsmodels"]

CLOSED_FORM = """
import ruvdecision as ruv
belief = ruv.NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)
intruder = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
scientist = ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic())
average = ruv.Microaggregate(groups=1)
masks = [ruv.Suppress(), average, *(ruv.Noise(variance=v) | average for v in (1.0, 2.08, 4.0))]
rumap = ruv.evaluate(masks, intruder=intruder, scientist=scientist)
rumap.frontier().to_dataframe()
assert abs(rumap.choose(max_risk=0.5).utility - 2.650980392) < 1e-8
str(rumap), repr(rumap)
"""


def loaded_after(code: str) -> list[str]:
    """Run code in a fresh interpreter and give back which heavy libraries it has loaded."""
    script = f"{code}\nimport sys\nprint('loaded:', *[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


def test_the_check_can_fail() -> None:
    assert loaded_after("import rich") == ["rich"]


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_after("import ruvdecision") == []


@pytest.mark.slow
def test_a_closed_form_map_loads_nothing_heavy() -> None:
    assert loaded_after(CLOSED_FORM) == []


@pytest.mark.slow
def test_the_command_line_waits_for_rich() -> None:
    assert loaded_after("import ruvdecision.cli, ruvdecision.studies") == []


def test_public_names_exist_and_are_listed_once() -> None:
    import ruvdecision

    names = ruvdecision.__all__
    assert len(names) == len(set(names))
    missing = [name for name in names if not hasattr(ruvdecision, name)]
    assert missing == []
    assert callable(ruvdecision.evaluate) and callable(ruvdecision.measure), "a module hides its function"


EVERY_MODULE = """
import importlib, pkgutil
import ruvdecision
names = [m.name for m in pkgutil.walk_packages(ruvdecision.__path__, "ruvdecision.") if not m.name.endswith(".__main__")]
for name in names:
    importlib.import_module(name)
for name in ruvdecision.__all__:
    getattr(ruvdecision, name)
print(len(names))
"""
# Nothing relies on `assert` or on docstrings, which -OO leaves out: the command line and its help work.
STRIPPED = """
import sys
from pathlib import Path
from ruvdecision.cli import main
if __debug__ or Path.__doc__:
    sys.exit("asserts or docstrings are still there")
if main(["run", sys.argv[1], "--max-risk", "0.5", "--out", sys.argv[2], "--date", "none"]):
    sys.exit("the study did not run")
try:
    main(["run", "--help"])
except SystemExit as stopped:
    sys.exit(stopped.code)
"""


@pytest.mark.slow
@pytest.mark.campaign(3)
@pytest.mark.parametrize("options", [[], ["-OO"], ["-bb", "-X", "dev"]], ids=["plain", "stripped", "strict"])
def test_every_module_can_be_imported_without_a_warning(options: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", *options, "-c", EVERY_MODULE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert int(done.stdout) > 150


@pytest.mark.long
def test_a_study_runs_without_asserts_and_docstrings(tmp_path: Path) -> None:
    study = ROOT / "models" / "trottini_fienberg_normal.py"
    command = [sys.executable, "-OO", "-W", "error", "-c", STRIPPED, str(study), str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "2.651" in done.stdout and "--max-risk" in done.stdout
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"map.nc", "map.csv", "map.png", "report.html"}


# Everything that draws, sorts or groups: masks of several kinds on names and numbers, users by simulation, panels, a
# report.
SEEDED = """
import hashlib, sys, tempfile
from pathlib import Path
import numpy as np, pandas as pd
import ruvdecision as ruv

rng = np.random.default_rng(1)
table = pd.DataFrame({"y": rng.normal(50, 10, 120), "a": rng.normal(0, 1, 120), "region": rng.choice(list("abcdef"), 120)})
masks = [ruv.Noise(share=0.2, columns=["y", "a"]), ruv.RankSwap(within=0.1, columns=["y"]), ruv.PRAM(stay=0.8, columns=["region"]),
         ruv.Swap(rate=0.2, columns=["region"]), ruv.Microaggregate(size=3, by="mdav", columns=["y", "a"]),
         ruv.Recode(categories=dict(zip("abcdef", "xxyyzz")), columns=["region"]),
         ruv.Noise(sd=1, columns=["y"]) | ruv.Round(5, columns=["y"])]
measures = [ruv.measures.RecordLinkage(known=["y", "a", "region"]), ruv.measures.Propensity(), ruv.measures.KAnonymity(keys=["region"]),
            ruv.measures.Hellinger(columns=["region"])]
maps = [ruv.measure(table, masks, measures=measures, replicates=3, seed=7)]
belief = ruv.NormalBelief(records=6, variance=2, prior_variance=5)
user = ruv.User(belief, ruv.Record(0), ruv.ZeroOne(0.5))
panel = ruv.Panel.vary(ruv.User(belief, ruv.Record(0), ruv.Absolute()), prior_variance=[1, 5])
guess, mean = ruv.Snooper("median", ruv.Record(0), belief=belief), ruv.Snooper("mean", ruv.Parameter("mu"), belief=belief)
laplace = [ruv.Noise(sd=s, kind="laplace") for s in (1.0, 2.0)]
maps.append(ruv.evaluate(laplace, intruder=guess, scientist=mean, replicates=40, seed=3))
maps.append(ruv.evaluate([ruv.Suppress(), ruv.Noise(variance=2.0)], intruder=panel, scientist=user, seed=3))
with tempfile.TemporaryDirectory() as folder:
    for i, rumap in enumerate(maps):
        print(hashlib.sha256(rumap.save(Path(folder) / f"{i}.nc").read_bytes()).hexdigest())
        print(hashlib.sha256(rumap.report(Path(folder) / f"{i}.md", date=None).read_bytes()).hexdigest())
"""


@pytest.mark.long
def test_a_seeded_map_does_not_depend_on_the_hash_seed() -> None:
    runs = []
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", SEEDED], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        runs.append(done.stdout.split())
    assert len(set(runs[0])) == 6
    assert runs[0] == runs[1]


def test_type_information_is_shipped() -> None:
    assert (ROOT / "ruvdecision" / "py.typed").is_file()
