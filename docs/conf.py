"""How the documentation is built: ``make docs``, which works in a copy. Nothing is fetched from the network."""

import os
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = Path(os.environ.get("RUVDECISION_ROOT", HERE.parent))
sys.path[:0] = [str(ROOT), str(HERE / "_ext")]

import ruvdecision  # noqa: E402

# numpydoc reads signatures from docstrings before `reference` can rename this section.
warnings.filterwarnings("ignore", message="Unknown section Class Attributes")

project = "ruvdecision"
author = "the ruvdecision developers"
copyright = author
version = release = ruvdecision.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc", "mathml", "reference"]
exclude_patterns = ["_build", "_ext", "README.md"]
html_theme = "furo"
html_title = "ruvdecision"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["focus.js"]
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
