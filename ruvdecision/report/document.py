"""The parts of a report and the two formats that they are put on paper in: an HTML page and Markdown.

The HTML page has no scripts, fetches nothing, and can be read in light and dark and on paper. Markdown (GitHub's kind,
for its tables) is for archives: text that diffs, with its pictures at the very end. Each format is a template, and
every text is escaped there and only there.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ..maps.show import clean
from .picture import draw_png, draw_svg

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.axes import Axes

FORMATS = ("html", "md")
_MARKS = re.compile(r"([\\`*_\[\]#|~$])")


class ReportBlock:
    """A part of a report."""

    @property
    def shape(self) -> str:
        """How templates call this kind of part."""
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Heading(ReportBlock):
    """A heading of level 2 to 4; the document's title is the only one of level 1."""

    level: int
    text: str
    anchor: str = ""


@dataclass(frozen=True)
class Paragraph(ReportBlock):
    """A paragraph; ``kind`` is empty, "decision", "warning" or "quiet"."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Items(ReportBlock):
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True)
class Terms(ReportBlock):
    """Names with their values."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class TableRow:
    """A row of a table; ``kind`` is empty, "chosen" or "doubtful". The first cell names the row."""

    cells: Sequence[str]
    kind: str = ""


@dataclass(frozen=True)
class Table(ReportBlock):
    """A table with a caption; ``numbers`` says which columns hold numbers, all but the first if not given."""

    caption: str
    head: Sequence[str]
    rows: Sequence[TableRow]
    numbers: Sequence[bool] = ()

    def __post_init__(self) -> None:
        if not self.numbers:
            object.__setattr__(self, "numbers", (False, *[True] * (len(self.head) - 1)))

    def without_empty_end(self) -> Table:
        """The table without its last column, if nothing stands there."""
        if any(row.cells[-1] for row in self.rows):
            return self
        rows = [TableRow(row.cells[:-1], row.kind) for row in self.rows]
        return Table(self.caption, self.head[:-1], rows, self.numbers[:-1])

    def folded(self, most: int, summary: str) -> ReportBlock:
        """The table, behind a summary if it has more rows than ``most``."""
        return self if len(self.rows) <= most else Fold(summary, [self])


@dataclass(frozen=True)
class Formula(ReportBlock):
    """Lines of mathematics in plain letters."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Picture(ReportBlock):
    """A picture, drawn when a format asks for it: ``draw(axes)`` draws, ``size`` is in inches.

    ``words`` say what it shows to somebody who cannot see it, ``anchor`` is its name among the figures.
    """

    draw: Callable[[Axes], object]
    caption: str
    words: str
    anchor: str
    size: tuple[float, float] = (8.6, 5.2)


@dataclass(frozen=True)
class Fold(ReportBlock):
    """Parts that are shown when a reader asks for them."""

    summary: str
    blocks: Sequence[ReportBlock]


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str
    subtitle: str
    blocks: Sequence[ReportBlock]

    @property
    def chapters(self) -> list[Heading]:
        """The headings of level 2."""
        return [block for block in self.blocks if isinstance(block, Heading) and block.level == 2]

    @property
    def pictures(self) -> list[Picture]:
        """The pictures in their order."""
        return [block for block in self.blocks if isinstance(block, Picture)]

    def render(self, format: str) -> str:
        r"""The document as text in a format, "html" or "md".

        >>> Document("<b> *x*", "", ()).render("md").splitlines()[0]
        '# &lt;b&gt; \\*x\\*'
        >>> "<title>&lt;b&gt;</title>" in Document("<b>", "", ()).render("html")
        True
        """
        text = _template(format).render(document=self, style=_read("page.css"))
        return text + "\n" if format == "html" else re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


@cache
def _template(format: str) -> Template:
    from jinja2 import Environment, StrictUndefined
    from jinja2.filters import do_mark_safe

    def put(text: Any) -> Any:
        # What a macro gives back is text of the format already; the rest is made into it here.
        return text if hasattr(text, "__html__") else clean(text) if format == "html" else do_mark_safe(_marked(text))

    options: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "undefined": StrictUndefined}
    environment = Environment(autoescape=True, finalize=put, **options)
    environment.filters["svg"] = lambda picture: do_mark_safe(draw_svg(picture))
    environment.filters["png"] = lambda picture: do_mark_safe(base64.b64encode(draw_png(picture)).decode())
    return environment.from_string(_read(f"page.{format}"))


def _marked(text: object) -> str:
    """Escape what Markdown or HTML would read as a mark; a line end becomes a space."""
    flat = " ".join(clean(text).split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    flat = _MARKS.sub(r"\\\1", flat)
    # A sign, or a number with a point and a space, would begin a list at the start of a line.
    return re.sub(r"^(?:([-+])|(\d+)([.)])(?=\s|$))", lambda m: f"{m[2] or ''}\\{m[1] or m[3]}", flat)


@cache
def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
