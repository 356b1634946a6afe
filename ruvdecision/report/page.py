"""A report as one HTML page: no scripts, nothing fetched, readable in light and dark and on paper."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from .blocks import Document, Heading, clean
from .picture import draw_svg

if TYPE_CHECKING:
    from jinja2 import Template


def as_html(document: Document) -> str:
    """Write a document as one HTML page. Every text is escaped by the template, and only there.

    >>> "&lt;b&gt;" in as_html(Document("<b>", "", ()))
    True
    """
    chapters = [b for b in document.blocks if isinstance(b, Heading) and b.level == 2]
    return _template().render(document=document, chapters=chapters, draw=draw_svg, style=_read("page.css")) + "\n"


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    def readable(text: Any) -> Any:
        return text if hasattr(text, "__html__") else clean(text)  # what a macro gives back is text already

    options: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "undefined": StrictUndefined}
    return Environment(autoescape=True, finalize=readable, **options).from_string(_read("page.html"))


@cache
def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
