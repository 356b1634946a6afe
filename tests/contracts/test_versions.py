"""Which versions are promised, which are tested: `pyproject.toml` and `constraints/` say the same."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib

import places
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = places.ROOT
STACKS = ROOT / "constraints"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Names under which a library is imported, where they are not its own.
IMPORTED = {"sklearn": "scikit-learn"}
# Comes with ArviZ 1 and does not exist for ArviZ 0; imported only where ArviZ 1 is.
WITH_ANOTHER = {"arviz_stats", "bokeh", "param", "tornado"}


def requirements() -> list[Requirement]:
    """All that is needed to use and to develop the package.

    The peers of the benchmarks are compared with, not needed.
    """
    extras = [lines for extra, lines in PROJECT["optional-dependencies"].items() if extra != "bench"]
    lines = [*PROJECT["dependencies"], *(line for lines in extras for line in lines)]
    return [r for r in map(Requirement, lines) if r.name != PROJECT["name"]]


def pins(name: str) -> dict[str, Version]:
    found: dict[str, Version] = {}
    for line in (STACKS / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            # Versions only: no addresses, no options, no markers.
            assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", line), line
            library, version = line.split("==")
            assert canonicalize_name(library) not in found, f"{library} stands in {name}.txt twice"
            found[canonicalize_name(library)] = Version(version)
    return found


def lowest(requirement: Requirement) -> Version:
    (bound,) = [s.version for s in requirement.specifier if s.operator == ">="]
    return Version(bound)


def test_every_dependency_has_one_lower_bound() -> None:
    names = [canonicalize_name(r.name) for r in requirements()]
    assert len(names) == len(set(names)) >= 30
    assert all(lowest(r) for r in requirements())


@pytest.mark.parametrize("name", ["py311", "py312", "py313", "minimum-py311", "minimum-py313"])
def test_every_dependency_is_pinned_inside_its_bounds(name: str) -> None:
    pinned = pins(name)
    wrong = [str(r) for r in requirements() if not r.specifier.contains(pinned[canonicalize_name(r.name)])]
    assert wrong == []


def test_the_lowest_versions_tested_are_those_promised() -> None:
    pinned = pins("minimum-py311")
    assert {r.name: lowest(r) for r in requirements()} == {
        r.name: pinned[canonicalize_name(r.name)] for r in requirements()
    }


def test_the_lowest_versions_of_the_later_python_are_never_below() -> None:
    early, late = pins("minimum-py311"), pins("minimum-py313")
    assert [r.name for r in requirements() if late[canonicalize_name(r.name)] < early[canonicalize_name(r.name)]] == []


def test_both_stacks_are_what_the_readme_promises() -> None:
    majors = {
        name: (pins(name)["pymc"].release[:2], pins(name)["arviz"].release[:2]) for name in ("py311", "minimum-py311")
    }
    assert majors == {"py311": ((5, 28), (0, 23)), "minimum-py311": ((5, 28), (0, 23))}
    for name in ("py312", "py313"):
        assert (pins(name)["pymc"].major, pins(name)["arviz"].major) == (6, 1)


@pytest.mark.slow
def test_what_the_package_imports_is_declared() -> None:
    declared = {canonicalize_name(r.name) for r in requirements() if str(r) in _for_users()}
    imported = {
        name.split(".")[0]
        for file in (ROOT / "ruvdecision").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        for name in _names(node)
    }
    outside = imported - set(sys.stdlib_module_names) - {"ruvdecision"} - WITH_ANOTHER
    assert {"numpy", "pymc", "sklearn", "nutpie"} <= outside  # the check sees imports at the top and inside functions
    # Dask brings distributed with it by the extra that we name.
    assert sorted(n for n in outside if canonicalize_name(IMPORTED.get(n, n)) not in declared | {"distributed"}) == []


def _for_users() -> set[str]:
    extras = PROJECT["optional-dependencies"]
    lines = [
        *PROJECT["dependencies"],
        *extras["files"],
        *extras["fast"],
        *extras["names"],
        *extras["cluster"],
        *extras["pdf"],
        *extras["explore"],
    ]
    return {str(Requirement(line)) for line in lines}


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level and node.module:
        return [node.module]
    return []


@pytest.mark.slow
def test_what_is_installed_fits_together() -> None:
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
