"""Build the notebooks: run each source (MyST Markdown) and write it as .ipynb, with its outputs, beside it.

``python notebooks/build.py`` builds all of them, ``python notebooks/build.py 02 04`` the second and the fourth, and
``--check`` says which are older than their sources without running anything. It needs jupytext, nbclient and ipykernel
(the extra ``docs``).
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
COLOURS = 96
"""Colours of a picture in a built notebook: few enough to keep it small, enough for smooth edges."""
SECONDS = 300
"""Longest time for one cell."""


def sources(wanted: Sequence[str] = ()) -> list[Path]:
    """Sources of the notebooks, in order; those whose names begin with one of ``wanted`` if any are."""
    found = sorted(HERE.glob("[0-9][0-9]*_*.md"))
    return [p for p in found if not wanted or any(p.name.startswith(w) for w in wanted)]


def read(source: Path) -> Any:
    """The notebook that a source describes, without outputs; its cells have the same names every time."""
    import jupytext

    notebook = jupytext.read(source)
    for i, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{i:02d}"
    notebook.metadata = {
        "jupytext": {"formats": "ipynb,md:myst"},
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "source_sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
    }
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def run(notebook: Any, folder: Path = HERE, before: str = "") -> Any:
    """Run a notebook in a kernel of its own, in ``folder``; ``before`` is run first and leaves no trace."""
    import nbformat
    from nbclient import NotebookClient

    if before:
        notebook.cells.insert(0, nbformat.v4.new_code_cell(before, id="before"))
    # The kernel says that its port is not encrypted; it listens on this machine alone.
    options = {"timeout": SECONDS, "kernel_name": "python3", "extra_arguments": ["--log-level=ERROR"]}
    client = NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}, **options)
    # The package of this tree, whatever else is installed.
    paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    # Pictures go into the notebook, also where plots are otherwise drawn to nowhere (make sets MPLBACKEND=Agg).
    inline = {"PYTHONPATH": os.pathsep.join(paths), "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    client.execute(env={**os.environ, **inline})
    if before:
        del notebook.cells[0]
    return notebook


def alt_text(cell: Any) -> str:
    """What the cell's picture shows, in words; empty if nothing is said."""
    return " ".join(str(cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")).split())


def pictures(cell: Any) -> list[Any]:
    """The outputs of a cell that are pictures."""
    return [o for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]


def tidy(notebook: Any) -> Any:
    """Leave what a reader needs: small pictures with alt texts, no times, no counters that differ between runs."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in pictures(cell):
            output.data = {"image/png": _small(output.data["image/png"]), "text/plain": alt_text(cell)}
            output.metadata = {"image/png": {"alt": alt_text(cell)}}
    return notebook


def is_current(source: Path) -> bool:
    """Whether the built notebook is there and was built from this very source."""
    import nbformat

    built = source.with_suffix(".ipynb")
    if not built.exists():
        return False
    there, meant = nbformat.read(built, as_version=4), read(source)
    same = [(c.cell_type, c.source) for c in there.cells] == [(c.cell_type, c.source) for c in meant.cells]
    return same and there.metadata.get("source_sha256") == meant.metadata["source_sha256"]


def build(source: Path) -> Path:
    """Run a source and write the notebook beside it."""
    import nbformat

    notebook = tidy(run(read(source)))
    target = source.with_suffix(".ipynb")
    target.write_bytes((nbformat.writes(notebook) + "\n").encode("utf-8"))
    return target


def _small(picture: str) -> str:
    """A PNG with a palette instead of full colours."""
    from PIL import Image

    with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
        flat = Image.new("RGB", image.size, "white")
        flat.paste(image, mask=image.convert("RGBA").getchannel("A"))
    held = io.BytesIO()
    flat.quantize(COLOURS, dither=Image.Dither.NONE).save(held, "PNG", optimize=True)
    return base64.b64encode(held.getvalue()).decode("ascii")


def main(arguments: Sequence[str] | None = None, say: Callable[[str], Any] = print) -> int:
    """Build, or check, the notebooks that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", help="beginnings of names, such as 02; all if none are given")
    parser.add_argument("--check", action="store_true", help="only say which are out of date; exit code 1 if any are")
    options = parser.parse_args(arguments)
    found = sources(options.notebooks)
    if not found:
        say(
            f"No notebook is called {' or '.join(options.notebooks)}; there are {', '.join(p.stem for p in sources())}."
        )
        return 2
    if options.check:
        old = [p.stem for p in found if not is_current(p)]
        say(
            f"Out of date: {', '.join(old)}. Run python notebooks/build.py." if old else "All notebooks are up to date."
        )
        return 1 if old else 0
    for source in found:
        say(f"{build(source).name} built")
    return 0


if __name__ == "__main__":
    sys.exit(main())
