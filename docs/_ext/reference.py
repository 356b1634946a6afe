"""The reference follows the public names: one page per chapter, generated from the names at the top and in the rooms.

A name that is exported and stands in no chapter is an error, so that the reference cannot fall behind the package.
"""

from __future__ import annotations

import importlib
import inspect
import re
import types
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

CHAPTERS: dict[str, tuple[str, str]] = {
    "beliefs": ("Beliefs", "What a user believes before the release: population model and prior together."),
    "targets": ("Targets", "What a user wants to know."),
    "losses": ("Losses", "What it costs a user to be wrong, and the uncertainty that follows from it."),
    "users": ("Users", "A belief, a target and a loss; snoopers with fixed rules; several users in the place of one."),
    "masks": ("Masks", "Techniques with their parameters. They compose with `|`, left to right."),
    "posteriors": (
        "Posteriors and channels",
        "The law of the target given the release, and how releases come from records.",
    ),
    "engines": ("Engines", "How a posterior is computed."),
    "maps": ("Maps", "Every candidate release with its risk, its utility and their errors."),
    "choosing": ("Choosing", "Frontier, choice, the best parameter value, and what no mechanism can pass."),
    "analyses": (
        "Sensitivity and risk by record",
        "What would change the choice, who is at risk, what publishing costs, whether a posterior is right.",
    ),
    "scenarios": ("Scenarios", "Additive noise against snoopers with different knowledge, in closed form."),
    "measures": ("Measures", "Empirical risk and utility, computed from an original and a released data set."),
    "showing": ("Plots and reports", "The map as a picture and as a page to sign."),
    "errors": ("Errors and protocols", "What goes wrong, and what a part of your own must offer."),
}
"""Chapters in the order of the flow: title and what is in them."""

# Where a name is defined says which chapter it belongs to; the longest beginning counts.
HOMES = {
    "beliefs": "beliefs",
    "targets": "targets",
    "losses": "losses",
    "users": "users",
    "masks": "masks",
    "posteriors": "posteriors",
    "channels": "posteriors",
    "engines": "engines",
    "maps": "maps",
    "evaluate": "maps",
    "measure": "maps",
    "running": "maps",
    "decide": "choosing",
    "analyses": "analyses",
    "analyses.optimise": "choosing",
    "analyses.limit": "choosing",
    "analyses.blackwell": "choosing",
    "scenarios": "scenarios",
    "measures": "measures",
    "plots": "showing",
    "report": "showing",
    "explore": "showing",
    "errors": "errors",
    "protocols": "errors",
}
ROOMS = ("masks", "posteriors", "channels", "users", "engines", "measures", "decide", "analyses", "plots")
"""Rooms whose public names have an entry of their own, beside those at the top of the package."""


def public_names() -> dict[str, Any]:
    """Every public name as one writes it after ``ruv.``, and what it stands for; top names are listed once."""
    package = importlib.import_module("ruvdecision")
    found = {name: getattr(package, name) for name in package.__all__ if not name.startswith("_")}
    top = {id(thing) for thing in found.values()}
    for room in ROOMS:
        names = {f"{room}.{name}": getattr(getattr(package, room), name) for name in getattr(package, room).__all__}
        found |= {name: thing for name, thing in names.items() if id(thing) not in top}
    return found


def chapters() -> dict[str, list[tuple[str, Any]]]:
    """Public names by chapter, with what they stand for."""
    found: dict[str, list[tuple[str, Any]]] = {chapter: [] for chapter in CHAPTERS}
    for name, thing in public_names().items():
        module = (
            thing.__name__
            if isinstance(thing, types.ModuleType)
            else getattr(thing, "__module__", type(thing).__module__)
        )
        parts = str(module).split(".")
        home = HOMES.get(".".join(parts[1:3])) or HOMES.get(parts[1] if len(parts) > 1 else "")
        if home is None:
            raise ExtensionError(
                f"ruvdecision.{name} ({module}) is in no chapter of the reference: add its module to HOMES in "
                f"{__file__}"
            )
        found[home].append((name, thing))
    return found


def page(chapter: str, names: list[tuple[str, Any]]) -> str:
    """One chapter as MyST Markdown: a directive per public name."""
    title, words = CHAPTERS[chapter]
    lines = [f"# {title}", "", words, ""]
    for name, thing in sorted(
        names, key=lambda pair: (isinstance(pair[1], types.ModuleType), inspect.isfunction(pair[1]), pair[0].lower())
    ):
        lines += [f"## {name}", "", "```{eval-rst}"]
        if isinstance(thing, types.ModuleType):
            lines += [
                f".. automodule:: {thing.__name__}",
                "   :no-members:" if thing.__name__.removeprefix("ruvdecision.") in ROOMS else "   :members:",
            ]
            lines += ["   :no-index:"]
        elif inspect.isclass(thing):
            lines += [f".. autoclass:: ruvdecision.{name}", "   :members:"]
        elif inspect.isfunction(thing):
            lines += [f".. autofunction:: ruvdecision.{name}"]
        else:
            lines += [f".. autodata:: ruvdecision.{name}"]
        lines += ["```", ""]
    return "\n".join(lines)


def write(app: Sphinx) -> None:
    """Write the pages before Sphinx reads them; unchanged pages are not written, and so not built again."""
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    for chapter, names in chapters().items():
        text, target = page(chapter, names), folder / f"{chapter}.md"
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def plain_bars(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Make a docstring what its reader sees in the source: |x| is an absolute value, not a substitution."""
    for i, line in enumerate(lines):
        if line.strip() == "Class Attributes" and i + 1 < len(lines):
            lines[i], lines[i + 1] = line.replace("Class ", ""), lines[i + 1].replace("-" * 16, "-" * 10)
        elif not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(``.*?``|`[^`]*`)", line)
            lines[i] = "".join(_literal(part) if part.startswith("`") else part.replace("|", "\\|") for part in parts)


def _literal(text: str) -> str:
    # A blank before the closing quotes, as in ``name: ``, is not taken for an end.
    return f"``{text[2:-2].strip()}``" if text.startswith("``") and text.endswith("``") and len(text) > 4 else text


def of_others(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out functions of other packages that a class only passes on: they are documented there."""
    thing = getattr(thing, "__func__", thing)
    own = str(getattr(thing, "__module__", None) or "").startswith("ruvdecision")
    return True if callable(thing) and not own else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Run before the sources are read."""
    app.connect("builder-inited", write)
    app.connect("autodoc-skip-member", of_others)
    # Before numpydoc, which comes at 500.
    app.connect("autodoc-process-docstring", plain_bars, priority=100)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
