"""The package stays light: heavy libraries are imported when they are used, not before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ["pymc", "arviz", "pytensor", "matplotlib", "sklearn", "numba", "rich", "statsmodels"]

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
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


def test_the_check_can_fail() -> None:
    assert loaded_after("import rich") == ["rich"]


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_after("import ruvdecision") == []


def test_a_closed_form_map_loads_nothing_heavy() -> None:
    assert loaded_after(CLOSED_FORM) == []


def test_the_command_line_waits_for_rich() -> None:
    assert loaded_after("import ruvdecision.cli, ruvdecision.studies") == []


def test_public_names_exist_and_are_listed_once() -> None:
    import ruvdecision

    names = ruvdecision.__all__
    assert len(names) == len(set(names))
    missing = [name for name in names if not hasattr(ruvdecision, name)]
    assert missing == []


def test_type_information_is_shipped() -> None:
    assert (ROOT / "ruvdecision" / "py.typed").is_file()
