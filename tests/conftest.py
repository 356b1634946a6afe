"""Settings that every test shares. They must be in place before numpy and matplotlib are imported."""

from __future__ import annotations

import collections
import contextlib
import os
import warnings
from collections.abc import Iterator

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ["MPLBACKEND"] = "Agg"
# No test looks at, or makes, the key of whoever runs it.
os.environ["RUVDECISION_KEY"] = "a key for the tests only"

from pathlib import Path  # noqa: E402

import edges  # noqa: E402
import places  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# The same examples on every run and every machine: a failure is news, not luck.
settings.register_profile(
    "house", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")

ROOT = places.ROOT


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's root directory."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Data files that others distribute, which lie beside the project and do not belong to it."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the directory shared/ with data files is not beside the project")
    return folder


@pytest.fixture
def usual_printing() -> Iterator[None]:
    """numpy's own defaults: libraries that other tests import (qif) set theirs."""
    import numpy as np

    with np.printoptions(precision=8, floatmode="maxprec", suppress=False, formatter=None, legacy=False):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases of a campaign one in so many is quick; the others are long, or what the campaign says."""
    seen = collections.Counter[str]()
    for item in items:
        mark = item.get_closest_marker("campaign")
        if mark is not None:
            name = item.nodeid.split("[")[0]
            if seen[name] % mark.args[0]:
                item.add_marker(mark.args[1] if len(mark.args) > 1 else "long")
            seen[name] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the count of edge cases from a worker of pytest-xdist to the process that prints it."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["cases"] = dict(edges.CASES)


def pytest_configure(config: pytest.Config) -> None:
    """Gather the workers' counts, where there are workers, and import ArviZ once before they do.

    Its first import of a day writes a file under one name for all processes: two workers at once, and one of them fails.
    """
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(_Gather())
        if getattr(config.option, "numprocesses", None):
            with warnings.catch_warnings(action="ignore"), contextlib.suppress(ImportError):
                import arviz  # noqa: F401


class _Gather:
    def pytest_testnodedown(self, node: object) -> None:
        edges.CASES.update(getattr(node, "workeroutput", {}).get("cases", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many edge cases were tried."""
    if edges.CASES:
        each = ", ".join(f"{kind} {count:,}" for kind, count in sorted(edges.CASES.items()))
        terminalreporter.write_line(f"edge cases tried: {edges.CASES.total():,} ({each})")
