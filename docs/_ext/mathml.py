"""Formulas as MathML: every browser draws it, no script is fetched, and screen readers can read it."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError


def inline(self: Any, node: nodes.math) -> None:
    """Write a formula in a line of text."""
    self.body.append(self.starttag(node, "span", "", CLASS="math") + _drawn(node, as_block=False) + "</span>")
    raise nodes.SkipNode


def block(self: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own."""
    self.body.append(self.starttag(node, "div", CLASS="math") + _drawn(node, as_block=True) + "</div>\n")
    raise nodes.SkipNode


def _drawn(node: Any, as_block: bool) -> str:
    source = node.astext().strip()
    try:
        return tex2mathml(source, as_block=as_block)
    except Exception as error:
        raise ExtensionError(f"This formula cannot be turned into MathML: {source} ({error})") from error


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer under the name "mathml"."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
