"""A report as Markdown, for archives: text that diffs, with its pictures at the very end."""

from __future__ import annotations

import base64
import re

from .blocks import (
    Block,
    Document,
    Fold,
    Formula,
    Heading,
    Items,
    Line,
    Paragraph,
    Picture,
    Table,
    Terms,
    clean,
    pictures,
)
from .picture import picture_png

_MARKS = re.compile(r"([\\`*_\[\]#|~$])")


def as_markdown(document: Document) -> str:
    r"""Write a document as Markdown (GitHub's kind, for its tables). Every text is escaped here, and only here.

    >>> as_markdown(Document("<b> *x*", "", ())).splitlines()[0]
    '# &lt;b&gt; \\*x\\*'
    """
    parts = [f"# {_text(document.title)}", _text(document.subtitle), *map(_block, document.blocks)]
    # A picture is a long line that nobody reads: it stands below the text, which refers to it.
    for picture in pictures(document):
        image = base64.b64encode(picture_png(picture)).decode("ascii")
        parts.append(f"[{picture.anchor}]: data:image/png;base64,{image}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _text(text: str) -> str:
    """Escape what Markdown or HTML would read as a mark; a line end becomes a space."""
    flat = " ".join(clean(text).split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    flat = _MARKS.sub(r"\\\1", flat)
    # A sign, or a number with a point and a space, would begin a list at the start of a line.
    return re.sub(r"^(?:([-+])|(\d+)([.)])(?=\s|$))", lambda m: f"{m[2] or ''}\\{m[1] or m[3]}", flat)


def _block(block: Block) -> str:
    match block:
        case Heading(level, text, _):
            return f"{'#' * level} {_text(text)}"
        case Paragraph(text, kind):
            return f"**{_text(text)}**" if kind in ("decision", "warning") else _text(text)
        case Items(items):
            return "\n".join(f"- {_text(item)}" for item in items)
        case Terms(pairs):
            return "\n".join(f"- **{_text(name)}:** {_text(value)}" for name, value in pairs)
        case Formula(lines):
            return "  \n".join(f"> {_text(line)}" for line in lines)
        case Picture():
            return f"![{_text(block.words)}][{block.anchor}]\n\n{_text(block.caption)}"
        case Fold(summary, blocks):
            return "\n\n".join([f"#### {_text(summary)}", *map(_block, blocks)])
        case Table():
            return _table(block)


def _table(table: Table) -> str:
    rule = " | ".join("---:" if number else "---" for number in table.numbers)
    lines = [f"| {' | '.join(map(_text, table.head))} |", f"| {rule} |", *map(_line, table.lines)]
    return f"{_text(table.caption)}\n\n" + "\n".join(lines)


def _line(line: Line) -> str:
    cells = [_text(cell) for cell in line.cells]
    if line.kind == "chosen":
        cells[0] = f"**{cells[0]}**"
    return f"| {' | '.join(cells)} |"
