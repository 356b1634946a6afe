"""Imports run down only. The order is ARCHITECTURE.md's picture of the house, from the roof to the ground."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import places
import pytest

ROOT = places.ROOT
PACKAGE = ROOT / "ruvdecision"

LAYERS = [
    {"cli", "__main__"},
    {"explore"},
    {"studies"},
    {"report"},
    {"plots"},
    {"analyses"},
    {"decide"},
    {"evaluate", "measure"},
    {"scenarios"},
    {"engines"},
    {"measures"},
    {"maps"},
    {"users"},
    {"beliefs", "masks", "targets", "losses"},
    {"channels", "posteriors"},
    {"running"},
    {"data", "numerics", "checks", "errors", "protocols", "_version"},
]
HEIGHT = {name: -depth for depth, names in enumerate(LAYERS) for name in names}

# What a map, a mask or a result offers as a method; the work is done higher up and fetched when it is asked for.
LAZY_UP = {
    ("maps", "plots"),
    ("maps", "decide"),
    ("maps", "report"),
    ("maps", "analyses"),
    ("maps", "engines"),
    ("masks", "analyses"),
    ("analyses", "plots"),
}

# Heavy libraries: who may import them, and always inside a function only.
LAZY_ONLY = {
    "pymc": {"beliefs.pymc", "engines.pymc"},
    "arviz": {"engines.pymc"},
    "pytensor": {"beliefs.pymc", "engines.pymc", "channels.likelihood.mathematics"},
    "nutpie": {"engines.pymc"},
    "matplotlib": {"plots", "analyses.calibrate", "report.picture"},
    "rich": {"cli.results", "studies", "running.progress"},
    "sklearn": None,
    "jinja2": {"report.document"},
    "numba": None,
}


@dataclass(frozen=True)
class Import:
    """One import: who, what (dotted name), where, and whether it runs when the module is imported."""

    module: str
    name: str
    line: int
    lazy: bool

    @property
    def ours(self) -> str | None:
        """The imported module inside the package, None if it is somebody else's."""
        return self.name.removeprefix("ruvdecision").lstrip(".") if self.name.split(".")[0] == "ruvdecision" else None


def test_every_module_has_a_layer() -> None:
    homeless = {part for part in map(part_of, modules()) if part and part not in HEIGHT}
    assert not homeless, f"give {sorted(homeless)} a place in LAYERS and in ARCHITECTURE.md's picture"


def test_the_picture_shows_every_room() -> None:
    house = (ROOT / "ARCHITECTURE.md").read_text("utf-8").split("## The house")[1].split("\n## ")[0]
    missing = {
        part
        for part in map(part_of, modules())
        if part and not part.startswith("_") and not re.search(rf"\b{part}\b", house)
    }
    assert not missing, f"the picture of the house lacks {sorted(missing)}"


def test_imports_run_down_only() -> None:
    upward = [
        f"{i.module}, line {i.line}: imports {i.ours}"
        for i in imports()
        if i.ours
        and part_of(i.module) in HEIGHT
        and HEIGHT.get(part_of(i.ours), 0) > HEIGHT[part_of(i.module)]
        and not (i.lazy and (part_of(i.module), part_of(i.ours)) in LAZY_UP)
    ]
    assert not upward, "\n".join(upward)


def test_no_module_needs_the_whole_package() -> None:
    whole = [f"{i.module}, line {i.line}" for i in imports() if i.ours == "" and i.module != ""]
    assert not whole, "import from the module itself, not from ruvdecision:\n" + "\n".join(whole)


def test_no_cycles_when_importing() -> None:
    graph: dict[str, set[str]] = {}
    for i in imports():
        if i.ours and not i.lazy and i.module != i.ours and not i.module.startswith(i.ours + "."):
            graph.setdefault(i.module, set()).add(i.ours)
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError
    assert order.index("errors") < order.index("checks")


@pytest.mark.parametrize("library", LAZY_ONLY)
def test_heavy_libraries_wait_until_they_are_used(library: str) -> None:
    allowed = LAZY_ONLY[library]
    for i in imports():
        if i.name.split(".")[0] == library:
            assert i.lazy, f"{i.module}, line {i.line}: import {library} inside the function that uses it"
            assert allowed is None or any(f"{i.module}.".startswith(f"{a}.") for a in allowed), (
                f"{i.module}, line {i.line}: only {sorted(allowed or ())} may import {library}"
            )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from .maps.rumap import RUMap", [("evaluate", "ruvdecision.maps.rumap", False)]),
        (
            "from . import maps, users",
            [("evaluate", "ruvdecision.maps", False), ("evaluate", "ruvdecision.users", False)],
        ),
        ("import ruvdecision.maps.rumap as r", [("evaluate", "ruvdecision.maps.rumap", False)]),
        ("def f():\n    from .plots import draw", [("evaluate", "ruvdecision.plots", True)]),
        ("class A:\n    import numba", [("evaluate", "numba", False)]),
        ("try:\n    import numba\nexcept ImportError:\n    pass", [("evaluate", "numba", False)]),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .plots import x",
            [("evaluate", "typing", False)],
        ),
    ],
)
def test_the_reader_of_imports_sees(source: str, expected: list[tuple[str, str, bool]]) -> None:
    seen = [(i.module, i.name, i.lazy) for i in read("evaluate", False, ast.parse(source))]
    assert seen == expected


def modules() -> dict[str, Path]:
    """Dotted names below the package, '' for the package itself."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(p for p in parts if p != "__init__")] = path
    return found


@cache
def imports() -> list[Import]:
    return [
        i
        for name, path in modules().items()
        for i in read(name, path.name == "__init__.py", ast.parse(path.read_text("utf-8")))
    ]


def part_of(module: str) -> str:
    return module.split(".")[0]


def read(module: str, is_package: bool, tree: ast.Module) -> list[Import]:
    """All imports of a module except those under TYPE_CHECKING, which never run."""
    home = ["ruvdecision", *module.split(".")] if module else ["ruvdecision"]
    found: list[Import] = []

    def visit(node: ast.AST, lazy: bool) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for child in node.orelse:
                visit(child, lazy)
            return
        if isinstance(node, ast.Import):
            found.extend(Import(module, alias.name, node.lineno, lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = home[: len(home) - node.level + (1 if is_package else 0)] if node.level else []
            source = ".".join([*base, *(node.module.split(".") if node.module else [])])
            if node.module is None or source == "ruvdecision":
                # from . import users: each name may be a module of its own
                found.extend(Import(module, f"{source}.{alias.name}", node.lineno, lazy) for alias in node.names)
            else:
                found.append(Import(module, source, node.lineno, lazy))
        inner = lazy or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for child in ast.iter_child_nodes(node):
            if isinstance(
                child, (ast.stmt, ast.ExceptHandler, ast.match_case)
            ):  # an import is never part of an expression
                visit(child, inner)

    visit(tree, False)
    return found
