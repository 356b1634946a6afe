"""The notebooks run without a warning, describe their pictures, fold their solutions, and match their sources."""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import places
import pytest

ROOT = places.ROOT
FOLDER = ROOT / "notebooks"
NAMES = [p.stem for p in sorted(FOLDER.glob("[0-9][0-9]*_*.md"))]
LARGEST = 150_000
"""Bytes of a built notebook: outputs are kept small."""
FOLD = re.compile(r"<details>\n<summary>Solution</summary>\n\n(.*?)\n\n</details>", re.DOTALL)
CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
STRICT = """
import warnings
warnings.simplefilter("error")
# Jupyter's own parts warn about each other; what they say is not about the notebook.
for module in ("ipykernel", "IPython", "jupyter_client", "zmq", "tornado", "traitlets", "matplotlib_inline", "asyncio"):
    warnings.filterwarnings("ignore", module=module)
"""

pytest.importorskip("jupytext", reason="the notebooks need the extra docs")


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks_build", FOLDER / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def source(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def prose(name: str, builder: ModuleType) -> str:
    return "\n\n".join(c.source for c in builder.read(FOLDER / f"{name}.md").cells if c.cell_type == "markdown")


def headings(text: str) -> list[tuple[int, str]]:
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return [(len(marks), words) for marks, words in re.findall(r"^(#+) (.+)$", text, flags=re.MULTILINE)]


def test_there_are_nine_in_order() -> None:
    assert [name.partition("_")[0] for name in NAMES] == ["01", "02", "02b", "03", "03b", "04", "05", "06", "07"]


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("04")])
def test_every_exercise_has_a_cell_to_fill(name: str, builder: ModuleType) -> None:
    cells = [c.source for c in builder.read(FOLDER / f"{name}.md").cells if c.cell_type == "code"]
    exercises = [words for _, words in headings(prose(name, builder)) if words.startswith("Exercise")]
    turns = [code for code in cells if "# your turn" in code]
    # The last question of notebook 6 has no right answer.
    assert len(turns) == len(exercises) - name.startswith("06")
    assert all("assert " in code for code in turns)
    text = source(name)
    assert "sys.path" not in text
    assert not re.search(r"ruvdecision\.(numerics|engines|channels|maps|checks)", text)


# -- running ------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.filterwarnings(
    "default"
)  # of this process: Jupyter's client; the notebook's own warnings are errors in its kernel
@pytest.mark.parametrize("name", NAMES)
def test_it_runs_without_a_warning_and_so_do_its_solutions(name: str, builder: ModuleType) -> None:
    pytest.importorskip("nbclient")
    import nbformat

    notebook = builder.read(FOLDER / f"{name}.md")
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "markdown":
            # A solution is run where it stands: it may use what is above it.
            for i, code in enumerate(c for fold in FOLD.findall(cell.source) for c in CODE.findall(fold)):
                cells.append(
                    nbformat.v4.new_code_cell(code, id=f"{cell.id}-solution-{i}", metadata={"tags": ["solution"]})
                )
    notebook.cells = cells
    builder.run(notebook, before=STRICT)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error", output
            assert output.get("name") != "stderr", f"{cell.source}\n\n{output.get('text')}"
        shown = builder.pictures(cell)
        if "solution" not in cell.metadata.get("tags", []):
            assert bool(shown) == bool(builder.alt_text(cell)), (
                f"a picture and its alt text belong together:\n{cell.source}"
            )
            assert len(shown) <= 1, cell.source


@pytest.mark.long
@pytest.mark.filterwarnings("default")
def test_without_the_survey_file_the_stand_in_serves(builder: ModuleType) -> None:
    pytest.importorskip("nbclient")
    notebook = builder.read(FOLDER / "05_eight_masks.md")
    for cell in notebook.cells:
        cell.source = cell.source.replace("= records()", "= (stand_in(), 'a generated stand-in')")
    builder.run(notebook, before=STRICT)
    printed = "".join(o.text for c in notebook.cells for o in c.get("outputs", []) if o.get("name") == "stdout")
    assert "stand-in: 1,080 records of 12 variables" in printed


# -- what a reader gets -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_built_notebook_is_up_to_date(name: str, builder: ModuleType) -> None:
    assert builder.is_current(FOLDER / f"{name}.md"), "run python notebooks/build.py"


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_small_and_whole(name: str, builder: ModuleType) -> None:
    import nbformat

    path = FOLDER / f"{name}.ipynb"
    assert path.stat().st_size < LARGEST
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [c for c in notebook.cells if c.cell_type == "code"]
    assert all(c.execution_count for c in code), "every cell was run"
    assert [c.execution_count for c in code] == list(range(1, len(code) + 1)), "from top to bottom"
    for cell in code:
        for output in cell.outputs:
            assert output.output_type != "error" and output.get("name") != "stderr"
    assert str(ROOT) not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_every_picture_has_an_alt_text(name: str, builder: ModuleType) -> None:
    import nbformat

    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    found = [(cell, output) for cell in notebook.cells for output in builder.pictures(cell)]
    assert found
    for cell, output in found:
        text = output.metadata["image/png"]["alt"]
        assert text == builder.alt_text(cell) == output.data["text/plain"]
        assert len(text.split()) >= 15 and text.endswith("."), f"say what is seen: {text!r}"
    assert not re.search(r"!\[\]\(|<img(?![^>]*alt=)", prose(name, builder)), (
        "pictures in the text need an alt text, too"
    )


@pytest.mark.parametrize("name", NAMES)
def test_headings_are_in_order(name: str, builder: ModuleType) -> None:
    found = headings(prose(name, builder))
    levels = [level for level, _ in found]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), found
    assert found[0][1].startswith(f"{name.partition('_')[0].lstrip('0')}. ")
    assert len({words for _, words in found}) == len(found)
    assert found[-1][1] == "What to take home"


@pytest.mark.parametrize("name", NAMES)
def test_every_exercise_has_a_folded_solution_that_runs(name: str, builder: ModuleType) -> None:
    text = prose(name, builder)
    exercises = [words for _, words in headings(text) if words.startswith("Exercise")]
    assert exercises == [f"Exercise {i + 1}" for i in range(len(exercises))] and len(exercises) >= 2
    folds = FOLD.findall(text)
    assert len(folds) == len(exercises) == text.count("<details>") == text.count("</details>")
    for fold in folds:
        assert any("assert " in code for code in CODE.findall(fold)), f"a solution shows that it is right:\n{fold}"
    assert not CODE.findall(FOLD.sub("", text)), "code outside a fold is a cell, so that it is run"


@pytest.mark.parametrize("name", NAMES)
def test_it_is_read_in_fifteen_minutes(name: str, builder: ModuleType) -> None:
    cells = builder.read(FOLDER / f"{name}.md").cells
    words = sum(len(FOLD.sub("", c.source).split()) for c in cells if c.cell_type == "markdown")
    lines = sum(len(c.source.splitlines()) for c in cells if c.cell_type == "code")
    # 150 words and 20 lines of code a minute.
    assert words / 150 + lines / 20 <= 15, (words, lines)
    longest = max((len(s.split()), s) for s in re.split(r"(?<=[.?!:])\s", _sentences(cells)))
    assert longest[0] <= 45, f"too long for plain language: {longest[1]}"


def _sentences(cells: list[Any]) -> str:
    plain = "\n\n".join(c.source for c in cells if c.cell_type == "markdown")
    plain = re.sub(r"^```.*?^```$|^\|.*$|^#.*$|<[^>]+>", "", plain, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\n\n|\n- ", ". ", plain)


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", source(name))
    assert [link for link in links if not (FOLDER / link).exists()] == []
    if name != NAMES[-1]:
        assert f"{NAMES[NAMES.index(name) + 1]}.ipynb" in links


# -- the builder --------------------------------------------------------------------------------------


def test_a_changed_source_is_seen(builder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for suffix in (".md", ".ipynb"):
        (tmp_path / f"{NAMES[0]}{suffix}").write_bytes((FOLDER / f"{NAMES[0]}{suffix}").read_bytes())
    monkeypatch.setattr(builder, "HERE", tmp_path)
    said: list[str] = []
    assert builder.main(["--check"], said.append) == 0
    changed = tmp_path / f"{NAMES[0]}.md"
    changed.write_text(changed.read_text(encoding="utf-8").replace("variance=2,", "variance=3,"), encoding="utf-8")
    assert builder.main(["--check"], said.append) == 1
    assert NAMES[0] in said[-1]
    changed.with_suffix(".ipynb").unlink()
    assert builder.main(["--check", "01"], said.append) == 1
    assert builder.main(["99"], said.append) == 2
    assert "99" in said[-1]


def test_pictures_get_small_and_keep_their_words(builder: ModuleType) -> None:
    import base64
    import io

    import nbformat
    from PIL import Image

    held = io.BytesIO()
    Image.effect_noise((120, 80), 60).convert("RGBA").save(held, "PNG")
    picture = base64.b64encode(held.getvalue()).decode("ascii")
    output = nbformat.v4.new_output("display_data", data={"image/png": picture, "text/plain": "<Figure at 0x7f>"})
    cell = nbformat.v4.new_code_cell(
        "draw()", outputs=[output], metadata={"mystnb": {"image": {"alt": "A grey\n field."}}}
    )
    cell.metadata["execution"] = {"iopub.status.busy": "now"}
    notebook = builder.tidy(nbformat.v4.new_notebook(cells=[cell]))
    found = notebook.cells[0].outputs[0]
    assert found.data["text/plain"] == "A grey field." == found.metadata["image/png"]["alt"]
    assert len(found.data["image/png"]) < len(picture)
    assert "execution" not in notebook.cells[0].metadata
    with Image.open(io.BytesIO(base64.b64decode(found.data["image/png"]))) as image:
        assert image.size == (120, 80)
