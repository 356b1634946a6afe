"""Numerics once: roots, integrals, square roots of covariances and logistic fits are written in `numerics/` alone.

What has a reason to stand elsewhere is listed here, and its docstring says what `numerics/` lacks for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import TypeGuard

import places
import pytest

PACKAGE = places.ROOT / "ruvdecision"

SCIPY = ["bisect", "brenth", "brentq", "elementwise", "newton", "ridder", "root_scalar", "toms748"]
LIBRARIES = {
    "root finder": {f"scipy.optimize.{name}" for name in SCIPY},
    "integrator": {"scipy.integrate", "numpy.trapezoid", "numpy.trapz", "numpy.polynomial.legendre.leggauss"},
    "logistic fit": {"sklearn.linear_model.LogisticRegression"},
}

ELSEWHERE = {
    "logistic fit": {"masks.synthesize.sequential.fit_logistic", "measures.utility.train_on_release._fresh_model"},
    "bisection": {
        "analyses.limit.mixtures._branch_and_bound",
        "analyses.limit.normal.best_matrix",
        "channels.likelihood.kernels._jumps_on_grid",
    },
    "square root": {"analyses.limit.informed._unknown_directions"},
}
KINDS = [*LIBRARIES, "bisection", "square root"]


@pytest.mark.parametrize("kind", KINDS)
def test_each_method_is_written_in_numerics_alone(kind: str) -> None:
    found = {place: docstring for place, docstring in uses(kind) if not place.startswith("numerics.")}
    assert set(found) == ELSEWHERE.get(kind, set())
    assert [place for place, docstring in found.items() if "numerics/" not in docstring] == []


def test_what_is_looked_for_would_be_found() -> None:
    text = """
import numpy as np
from scipy import integrate, optimize as o
from sklearn import linear_model as lm

def f(g, c):
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if g(middle) < 0 else (low, middle)
    values, vectors = np.linalg.eigh(c)
    o.brentq(g, 0, 1), integrate.quad(g, 0, 1), lm.LogisticRegression()
    return vectors * np.sqrt(values)
"""
    (function,) = functions(ast.parse(text))
    names = imported_names(ast.parse(text))
    assert [kind for kind in KINDS if is_of_kind(function, kind, names)] == KINDS


def uses(kind: str) -> Iterator[tuple[str, str]]:
    """Functions that use such a method, and their docstrings."""
    for module, names, parts in modules():
        for function in parts:
            if is_of_kind(function, kind, names):
                yield f"{module}.{function.name}", ast.get_docstring(function) or ""


@cache
def modules() -> list[tuple[str, dict[str, str], list[ast.FunctionDef]]]:
    """Each module with what its imported names stand for, and its functions."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found.append((module, imported_names(tree), functions(tree)))
    return found


def is_of_kind(function: ast.FunctionDef, kind: str, names: dict[str, str]) -> bool:
    if kind in LIBRARIES:
        return any(dotted(node, names).startswith(tuple(LIBRARIES[kind])) for node in ast.walk(function))
    return any(map({"bisection": is_bisection, "square root": is_square_root}[kind], ast.walk(function)))


def is_bisection(node: ast.AST) -> bool:
    """A loop that halves the stretch between two numbers and goes on with one of its halves."""
    if not isinstance(node, ast.For | ast.While):
        return False
    assigned = [(variables(a.targets), unchanged(a.value)) for a in ast.walk(node) if isinstance(a, ast.Assign)]
    for half in ast.walk(node):
        if isinstance(half, ast.Assign) and (ends := ends_of_half(half.value)):
            middle = variables(half.targets)
            moved = {name for targets, sources in assigned if sources & middle for name in targets & ends}
            if moved == ends:
                return True
    return False


def ends_of_half(value: ast.expr) -> set[str]:
    """{a, b} of (a + b) / 2, 0.5 * (a + b) or a + (b - a) / 2, wherever it stands in an expression."""
    for node in ast.walk(value):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Mult):
            factor, inner = (node.right, node.left) if isinstance(node.op, ast.Div) else (node.left, node.right)
            by_two = isinstance(factor, ast.Constant) and factor.value == (2 if isinstance(node.op, ast.Div) else 0.5)
            if by_two and isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Add | ast.Sub):
                ends = [inner.left, inner.right]
                if all(isinstance(end, ast.Name) for end in ends):
                    return {end.id for end in ends if isinstance(end, ast.Name)}
    return set()


def is_square_root(node: ast.AST) -> bool:
    """A function that takes the roots of eigenvalues."""
    if not isinstance(node, ast.FunctionDef):
        return False
    eigenvalues = set()
    for assign in ast.walk(node):
        if isinstance(assign, ast.Assign) and isinstance(assign.targets[0], ast.Tuple) and calls(assign.value, "eigh"):
            eigenvalues |= variables(assign.targets[0].elts[:1])
    return any(calls(call, "sqrt") and variables(call.args) & eigenvalues for call in ast.walk(node))


def calls(node: ast.AST, method: str) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method


def unchanged(value: ast.AST) -> set[str]:
    """Variables of an expression that no arithmetic changes."""
    if isinstance(value, ast.Name):
        return {value.id}
    parts = [] if isinstance(value, ast.BinOp) else ast.iter_child_nodes(value)
    return {name for part in parts for name in unchanged(part)}


def variables(nodes: list[ast.expr]) -> set[str]:
    return {name.id for node in nodes for name in ast.walk(node) if isinstance(name, ast.Name)}


def functions(tree: ast.AST) -> list[ast.FunctionDef]:
    """Functions and methods; those inside others belong to them."""
    found: list[ast.FunctionDef] = []
    for node in ast.iter_child_nodes(tree):
        found += [node] if isinstance(node, ast.FunctionDef) else functions(node)
    return found


def imported_names(tree: ast.AST) -> dict[str, str]:
    """What each imported name stands for."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {
                a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names
            }
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return names


def dotted(node: ast.AST, names: dict[str, str]) -> str:
    """The full name of what an expression names, "" if it is none."""
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value, names)
        return f"{owner}.{node.attr}" if owner else ""
    return names.get(node.id, "") if isinstance(node, ast.Name) else ""
