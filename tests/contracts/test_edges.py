"""The rule for edge cases can fail: each way of breaking it is caught."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edges import CASES, EDGES, attempt, frame, same

from ruvdecision.errors import InputError


@pytest.mark.parametrize("name", EDGES)
def test_an_edge_is_made_anew_each_time(name: str) -> None:
    one, other = EDGES[name](), EDGES[name]()
    assert same(one, other) and (one is None or isinstance(one, str) or one is not other)


def test_a_result_and_a_proper_error_come_back() -> None:
    before = CASES["edges"]
    assert attempt(lambda x: x + 1, 1, kind="edges") == 2
    error = attempt(lambda x: (_ for _ in ()).throw(InputError("x must be 1", x, "Give 1")), 2, kind="edges")
    assert isinstance(error, InputError) and CASES["edges"] == before + 2


def changes(data: Any) -> None:
    data.iloc[0, 0] = 9.0


def warns(data: Any) -> None:
    warnings.warn("look", stacklevel=1)


def says_nothing(data: Any) -> None:
    raise InputError("x must be 1")


def breaks(data: Any) -> None:
    np.linalg.inv(np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("call", "failure"),
    [(changes, AssertionError), (warns, UserWarning), (says_nothing, AssertionError), (breaks, Exception)],
)
def test_whatever_breaks_the_rule_is_caught(call: Any, failure: type[Exception]) -> None:
    with pytest.raises(failure):
        attempt(call, frame(), kind="edges")


@pytest.mark.parametrize("name", EDGES)
def test_looking_does_not_count_as_a_change(name: str) -> None:
    assert attempt(id, EDGES[name](), kind="edges") is not None


def silent(source: str) -> list[int]:
    """Lines that make an error of ours without saying what to do."""
    kinds = {"RuvError", "InputError", "UnsupportedError", "InfeasibleError", "ConvergenceError"}
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in kinds:
            told = len(node.args) >= 3 or any(k.arg in ("do", None) for k in node.keywords)
            if not told and not any(isinstance(a, ast.Starred) for a in node.args):
                found.append(node.lineno)
    return found


@pytest.mark.slow
def test_every_error_in_the_source_says_what_to_do(root: Path) -> None:
    assert silent("raise InputError('x must be 1', x)") == [1]
    assert silent("raise errors.InputError('x must be 1', x, 'Give 1')") == []
    paths = sorted((root / "ruvdecision").rglob("*.py"))
    assert len(paths) > 250
    assert {str(p): lines for p in paths if (lines := silent(p.read_text(encoding="utf-8")))} == {}
