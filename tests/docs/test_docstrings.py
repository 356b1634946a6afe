"""Examples in docstrings run, and print what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import numpy as np
import pandas as pd
import places
import pytest

ROOT = places.ROOT
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules() -> list[str]:
    found = []
    for path in sorted((ROOT / "ruvdecision").rglob("*.py")):
        if ">>> " in path.read_text(encoding="utf-8"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found.append(".".join(p for p in parts if p != "__init__"))
    return found


@pytest.mark.usefixtures("usual_printing")
@pytest.mark.parametrize("name", modules())
def test_examples_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import ruvdecision

    monkeypatch.chdir(tmp_path)  # an example may save a file
    names = {"ruv": ruvdecision, "np": np, "pd": pd}
    results = doctest.testmod(importlib.import_module(name), extraglobs=names, optionflags=OPTIONS)
    report = capsys.readouterr().out
    _close_figures()
    assert results.attempted > 0
    assert results.failed == 0, report


def _close_figures() -> None:
    import matplotlib.pyplot as plt

    plt.close("all")
