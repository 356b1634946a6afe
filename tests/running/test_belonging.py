"""What a checkpoint belongs to: whoever edits code of their own gets new numbers, never those of before."""

from __future__ import annotations

import importlib
import linecache
import runpy
import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ruvdecision as ruv
from ruvdecision.running.digests import sources

DATA = np.random.default_rng(1).normal(size=(40, 2))

HELPER = """
FACTOR = 1.0
def scale(values):
    return values * FACTOR
"""

MINE = """
from dataclasses import dataclass
import numpy as np
import ruvdecision as ruv
import {helper}

WEIGHTS = [1.0, 1.0]

@dataclass(frozen=True, repr=False)
class Keep(ruv.Mask):
    \"\"\"A mask of one's own.\"\"\"

    def apply(self, frame, rng):
        values, positions = frame.numeric("Keep")
        return frame.replace({helper}.scale(values) + 0.0, positions)

class Distance:
    name, role = "distance", "risk"

    def __call__(self, original, released):
        return float(np.abs(np.asarray(released) - original).mean() + WEIGHTS[0] + 1.0)

class Steep(ruv.Quadratic):
    def uncertainty(self, posterior, actions=None):
        found = super().uncertainty(posterior, actions)
        return found._replace(value=found.value * 1.0)

def late(release):
    from {helper}_late import guess
    return guess(release)

def measured(checkpoint):
    rumap = ruv.measure(DATA, [Keep()], measures=[Distance()], seed=1, checkpoint=checkpoint)
    return rumap.columns["distance"].tobytes()

def judged(checkpoint):
    belief = ruv.NormalBelief(records=5, variance=2, prior_mean=0, prior_variance=5)
    user = ruv.User(belief, ruv.Record(0), Steep())
    masks = [ruv.Noise(sd=1.0)]
    return ruv.evaluate(masks, intruder=user, scientist=user, checkpoint=checkpoint).intruder.value.tobytes()

def guessed(checkpoint):
    snooper = ruv.Snooper(late, ruv.Maximum())
    masks = [ruv.Noise(sd=1.0)]
    return ruv.evaluate(
        masks, intruder=snooper, scientist=snooper, data=DATA, seed=1, replicates=5, checkpoint=checkpoint
    ).intruder.value.tobytes()
"""

LATE = """
def guess(release):
    return float(release.max())
"""

EDITS = {
    "the mask's method": ("mine", "+ 0.0", "+ 5.0", "measured"),
    "the measure": ("mine", "+ 1.0", "+ 2.0", "measured"),
    "a list of the module": ("mine", "WEIGHTS = [1.0", "WEIGHTS = [3.0", "measured"),
    "a constant of a helper module": ("helper", "FACTOR = 1.0", "FACTOR = 2.0", "measured"),
    "a function of a helper module": ("helper", "values * FACTOR", "values * FACTOR + 1", "measured"),
    "the loss": ("mine", "found.value * 1.0", "found.value * 2.0", "judged"),
    "a module that is imported late": ("late", "release.max()", "release.max() + 1", "guessed"),
}


class Files:
    """The modules of a study in a directory of their own, under names that no other test has."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.count = folder, 0
        self.monkeypatch = monkeypatch
        self.names = {"mine": f"mine_{folder.name}", "helper": f"helper_{folder.name}"}
        self.names["late"] = f"{self.names['helper']}_late"
        self.texts = {"mine": MINE.format(helper=self.names["helper"]), "helper": HELPER, "late": LATE}
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def edit(self, name: str, old: str, new: str) -> None:
        assert self.texts[name].count(old) == 1
        self.texts[name] = self.texts[name].replace(old, new)

    def load(self) -> types.ModuleType:
        """As a new process finds them."""
        for name, text in self.texts.items():
            (self.folder / f"{self.names[name]}.py").write_text(text)
            self.monkeypatch.delitem(sys.modules, self.names[name], raising=False)
        importlib.invalidate_caches()
        module = importlib.import_module(self.names["mine"])
        module.__dict__["DATA"] = DATA
        return module


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    (tmp_path / "code").mkdir()
    return Files(tmp_path / "code", monkeypatch)


@pytest.mark.campaign(3)
@pytest.mark.parametrize("what", EDITS)
def test_an_edit_of_ones_own_code_is_noticed(files: Files, tmp_path: Path, what: str) -> None:
    name, old, new, call = EDITS[what]
    before = getattr(files.load(), call)(tmp_path / "run")
    assert getattr(files.load(), call)(tmp_path / "run") == before  # the same code goes on
    files.edit(name, old, new)
    edited = files.load()
    assert getattr(edited, call)(None) != before  # the edit does change the numbers
    with pytest.raises(ruv.InputError, match=f"belongs to another study; got other .*source of {files.names[name]}"):
        getattr(edited, call)(tmp_path / "run")


def test_modules_that_are_imported_later_are_no_other_study(files: Files, tmp_path: Path) -> None:
    before = files.load().guessed(tmp_path / "run")
    (files.folder / "unrelated_later.py").write_text("X = 1\n")
    importlib.import_module("unrelated_later")
    assert files.load().guessed(tmp_path / "run") == before


# -- code without a module to import -----------------------------------------------------------------------

SCRIPT = """
import numpy as np
import ruvdecision as ruv

SHIFT = [1.0]

def helper(x):
    return x + SHIFT[0]

class Distance:
    name, role = "distance", "risk"
    power = 1
    def __call__(self, original, released):
        return helper(float(np.abs(np.asarray(released) - original).mean())) ** self.power

workers = 2
rumap = ruv.measure(DATA, [ruv.Noise(sd=0.5)], measures=[Distance()], seed=1, checkpoint=RUN)
found = rumap.columns["distance"].tobytes()
"""

SCRIPT_EDITS = [("x + SHIFT[0]", "x - SHIFT[0]"), ("[1.0]", "[2.0]"), ("power = 1", "power = 2"), (".mean()", ".max()")]


def as_script(text: str, run: Path, tmp_path: Path) -> bytes:
    (tmp_path / "script.py").write_text(text)
    return bytes(runpy.run_path(str(tmp_path / "script.py"), {"DATA": DATA, "RUN": run}, "__main__")["found"])


def as_cells(text: str, run: Path, tmp_path: Path, filename: str = "<cell {}>") -> bytes:
    """Run every paragraph as a notebook does: no file, and the text where tracebacks look for it."""
    module = types.ModuleType("__main__")
    module.__dict__.update(DATA=DATA, RUN=run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "__main__", module)
        for i, cell in enumerate(textwrap.dedent(text).split("\n\n")):
            name = filename.format(i)
            if filename != "<string>":
                linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
            exec(compile(cell, name, "exec"), module.__dict__)
    return bytes(module.__dict__["found"])


@pytest.mark.campaign(4)
@pytest.mark.parametrize("way", [as_script, as_cells])
@pytest.mark.parametrize(("old", "new"), SCRIPT_EDITS)
def test_an_edit_of_a_script_or_a_cell_is_noticed(
    way: Callable[[str, Path, Path], bytes], old: str, new: str, tmp_path: Path
) -> None:
    before = way(SCRIPT, tmp_path / "run", tmp_path)
    assert way(SCRIPT, tmp_path / "run", tmp_path) == before
    # What does not bear on the numbers may change, such as the number of workers.
    assert way(SCRIPT.replace("workers = 2", "workers = 3"), tmp_path / "run", tmp_path) == before
    assert SCRIPT.count(old) == 1
    edited = SCRIPT.replace(old, new)
    assert way(edited, tmp_path / "other", tmp_path) != before
    with pytest.raises(ruv.InputError, match="belongs to another study; got other measures"):
        way(edited, tmp_path / "run", tmp_path)


def test_code_without_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ruv.InputError, match=r"The source of Distance\.__call__ is not known"):
        as_cells(SCRIPT, tmp_path / "run", tmp_path, "<string>")


def test_functions_of_libraries_are_told_apart(tmp_path: Path) -> None:
    def solve(rule: Callable[..., object]) -> ruv.RUMap:
        snooper = ruv.Snooper(rule, ruv.Maximum())
        return ruv.evaluate(
            [ruv.Noise(sd=1.0)], intruder=snooper, scientist=snooper, data=DATA, seed=1, checkpoint=tmp_path / "run"
        )

    solve(np.max)
    with pytest.raises(ruv.InputError, match="got other users"):
        solve(np.median)


def test_what_a_library_compiles_elsewhere_is_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made.py").write_text("X = 1\n")
    for name in ("numpy.made_elsewhere", "mine_elsewhere"):
        module = types.ModuleType(name)
        module.__file__ = str(tmp_path / "made.py")
        monkeypatch.setitem(sys.modules, name, module)
    found = sources()
    assert "mine_elsewhere" in found and not {"numpy", "numpy.made_elsewhere", "pytest", "json"} & found.keys()
