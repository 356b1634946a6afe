"""How the documentation is built: ``make docs``. Nothing is fetched from the network."""

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE / "_ext")]

import ruvdecision  # noqa: E402

# numpydoc reads signatures from docstrings before `reference` can rename this section.
warnings.filterwarnings("ignore", message="Unknown section Class Attributes")

project = "ruvdecision"
author = "the ruvdecision developers"
copyright = author
version = release = ruvdecision.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc", "mathml", "reference"]
exclude_patterns = ["_build", "_ext"]
html_theme = "furo"
html_title = "ruvdecision"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
language = "en"
nitpicky = False

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

# The notebooks come with their outputs; tests/docs/test_notebooks.py runs them.
nb_execution_mode = "off"

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
default_role = "code"
# A hand-written `name` in a docstring is code; references that lead nowhere are not wanted.
add_module_names = False

# The gallery is drawn anew when its script has changed; MPLBACKEND is set by the script itself.
PICTURES, SCRIPT = HERE / "pictures", HERE / "make_pictures.py"
if not (PICTURES / "map.png").exists() or (PICTURES / "map.png").stat().st_mtime < SCRIPT.stat().st_mtime:
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    subprocess.run([sys.executable, str(SCRIPT), str(PICTURES)], check=True, env={**os.environ, "PYTHONPATH": paths})

# Notebooks live in their own folder; Sphinx reads what is below this one.
COPIES = HERE / "notebooks"
COPIES.mkdir(exist_ok=True)
for built in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
    copy = COPIES / built.name
    if not copy.exists() or copy.read_bytes() != built.read_bytes():
        shutil.copyfile(built, copy)
