"""The parts of a report and the formats that they are put on paper in: an HTML page, a PDF of it, and Markdown.

The HTML page has no scripts, fetches nothing, and can be read in light and dark and on paper; the PDF is that page,
printed. Markdown (GitHub's kind, for its tables) is for archives: text that diffs, with its pictures at the very end.
Each format is a template, and every text is escaped there and only there.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..errors import UnsupportedError
from ..maps.show import clean_text
from .picture import draw_png, draw_svg

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.figure import Figure

FORMATS = ("html", "md", "pdf")
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
    """A row of a table; ``kind`` is empty, "chosen", "doubtful" or "sign". The first cell names the row."""

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

    @property
    def aligned_rows(self) -> list[TableRow]:
        """The rows, with the numbers of a column below each other at their points and at the signs of their errors.

        >>> [
        ...     row.cells[1]
        ...     for row in Table("", ("", "x"), [TableRow(("a", "0.25")), TableRow(("b", "12"))]).aligned_rows
        ... ]
        ['0.25', '12\u2007\u2007\u2007']
        """
        cells = [list(row.cells) for row in self.rows]
        for j in (j for j, number in enumerate(self.numbers) if number):
            parts = [line[j].partition(" ± ") for line in cells]
            tails = [(len(value.rpartition(".")[2]) + 1) * ("." in value) for value, _, _ in parts]
            errors = [len(sign + error) for _, sign, error in parts]
            longest_tail, longest_error = max(tails, default=0), max(errors, default=0)
            for line, (value, sign, error), tail, size in zip(cells, parts, tails, errors, strict=True):
                wide = "\u2007" * (longest_tail - tail) if "e" not in value and value[-1:].isdigit() else ""
                line[j] = value + wide + sign + error + "\u2007" * (longest_error - size)
        return [TableRow(line, row.kind) for line, row in zip(cells, self.rows, strict=True)]

    def without_empty_end(self) -> Table:
        """The table without its last column, if nothing stands there."""
        if any(row.cells[-1] for row in self.rows):
            return self
        rows = [TableRow(row.cells[:-1], row.kind) for row in self.rows]
        return Table(self.caption, self.head[:-1], rows, self.numbers[:-1])

    def fold_if_long(self, most: int, summary: str) -> ReportBlock:
        """The table, behind a summary if it has more rows than ``most``."""
        return self if len(self.rows) <= most else Fold(summary, [self])


@dataclass(frozen=True)
class Formula(ReportBlock):
    """Lines of mathematics in plain letters."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Picture(ReportBlock):
    """A picture, drawn when a format asks for it: ``draw(figure)`` draws, ``size`` is in inches.

    ``words`` say what it shows to somebody who cannot see it, ``anchor`` is its name among the figures.
    """

    draw: Callable[[Figure], object]
    caption: str
    words: str
    anchor: str
    size: tuple[float, float] = (8.6, 4.4)


@dataclass(frozen=True)
class Fold(ReportBlock):
    """Parts that are shown when a reader asks for them."""

    summary: str
    blocks: Sequence[ReportBlock]


@dataclass(frozen=True)
class Annex:
    """What stands behind the first page, under a heading of its own."""

    title: str
    anchor: str
    blocks: Sequence[ReportBlock]


@dataclass(frozen=True)
class Document:
    """A whole report: the page that is signed, and what stands behind it."""

    title: str
    subtitle: str
    first: Sequence[ReportBlock]
    annexes: Sequence[Annex] = ()

    @property
    def pictures(self) -> list[Picture]:
        """The pictures in their order."""
        blocks = [*self.first, *(block for annex in self.annexes for block in annex.blocks)]
        return [block for block in blocks if isinstance(block, Picture)]

    def text(self, format: str) -> str:
        r"""The document as text in a format, "html" or "md".

        >>> Document("<b> *x*", "", ()).text("md").splitlines()[0]
        '# &lt;b&gt; \\*x\\*'
        >>> "<title>&lt;b&gt;</title>" in Document("<b>", "", ()).text("html")
        True
        """
        text = _load_template(format).render(document=self, style=_read_resource("page.css"))
        return text + "\n" if format == "html" else re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"

    def render(self, format: str) -> bytes:
        """The document as a file of a format, "html", "md" or "pdf"; line ends are the same on every system."""
        if format != "pdf":
            return self.text(format).encode("utf-8")
        # Nothing is fetched but the pixels that stand in the page itself.
        weasyprint = pdf_writer()
        fetcher = weasyprint.urls.URLFetcher(allowed_protocols=["data"])
        source = weasyprint.HTML(string=self.text("html"), url_fetcher=fetcher)
        return bytes(source.write_pdf(pdf_identifier=b"ruvdecision"))


def pdf_writer() -> ModuleType:
    """WeasyPrint, or an error that says how to get it; asked before long work whose report is to be a PDF."""
    try:
        import weasyprint
        import weasyprint.urls
    except (ImportError, OSError) as error:  # the package, or Pango that it draws letters with
        do = 'Install it: pip install "ruvdecision[pdf]", and Pango where the system lacks it; or print the HTML'
        raise UnsupportedError("A PDF needs WeasyPrint", f"{type(error).__name__}: {error}", do) from None
    found: ModuleType = weasyprint
    return found


def fragment(blocks: Sequence[ReportBlock]) -> str:
    """Parts of a report as HTML for a page of somebody else's.

    >>> fragment([Items(["a < b"])]).split()
    ['<ul>', '<li>a', '&lt;', 'b</li>', '</ul>']
    """
    return _load_template("html", alone=True).render(blocks=blocks)


@cache
def _load_template(format: str, alone: bool = False) -> Template:
    from jinja2 import Environment, StrictUndefined
    from jinja2.filters import do_mark_safe

    def put(text: object) -> object:
        # What a macro gives back is text of the format already; the rest is made into it here.
        return (
            text
            if hasattr(text, "__html__")
            else clean_text(text)
            if format == "html"
            else do_mark_safe(_escape_markup(text))
        )

    options: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "undefined": StrictUndefined}
    environment = Environment(autoescape=True, finalize=put, **options)
    environment.filters["mathml"] = lambda line: do_mark_safe(as_mathml(line))
    environment.filters["svg"] = lambda picture: do_mark_safe(draw_svg(picture))
    environment.filters["png"] = lambda picture: do_mark_safe(base64.b64encode(draw_png(picture)).decode())
    text = _read_resource(f"page.{format}")
    return environment.from_string(text.partition("<!DOCTYPE")[0] + "{{ show(blocks) }}" if alone else text)


# -- formulas ------------------------------------------------------------------------------------------

_LOW = dict(zip("₀₁₂₃₄₅₆₇₈₉ᵢⱼₖₘₙ₋₊₍₎", "0123456789ijkmn−+()", strict=True))
_HIGH = {"²": "2", "ᵀ": "T", "′": "′"}
_TOKEN = re.compile(
    r"(?P<mtext>[A-Za-z_][A-Za-z_0-9'’*]+(?: [A-Za-z_][A-Za-z_0-9'’*]+)*)|(?P<mn>\d+(?:[.,]\d+)*)"
    r"|(?P<mi>[^\W\d_₀-₎ᵢⱼₖₘₙᵀ])|(?P<mo>\S)"
)


def as_mathml(line: str) -> str:
    """A formula in plain letters as MathML: letters, numbers, signs, words, with their indices and powers.

    A sign is marked "s" where a space stands before it and "e" where one stands after it, for a program that prints
    without knowing MathML.

    >>> as_mathml("x₀ = 2").partition(">")[2]
    '<msub><mi>x</mi><mrow><mn>0</mn></mrow></msub><mo class="s e">=</mo><mn>2</mn></math>'
    """
    line = clean_text(line)
    found: list[str] = []
    scripts = {"sub": "", "sup": ""}
    for here, after in pairwise([*_TOKEN.finditer(line), None]):
        assert here is not None
        text, kind = here.group(), str(here.lastgroup)
        if text in _LOW or text in _HIGH:
            scripts["sub" if text in _LOW else "sup"] += _LOW.get(text) or _HIGH[text]
            if after is not None and after.group() in _LOW | _HIGH:
                continue
            base, tag = found.pop() if found else "<mrow></mrow>", "m" + "".join(k for k, v in scripts.items() if v)
            rows = [f"<mrow>{''.join(map(_mathml_sign, v))}</mrow>" for v in scripts.values() if v]
            found.append(f"<{tag}>{base}{''.join(rows)}</{tag}>")
            scripts = {"sub": "", "sup": ""}
            continue
        spaces = [line[: here.start()].endswith(" "), line[here.end() : here.end() + 1] == " "]
        marks = " ".join(mark for mark, there in zip("se", spaces, strict=True) if there and kind == "mo")
        given = (f' class="{marks}"' if marks else "") + (' stretchy="false"' if text in "()[]|" else "")
        if kind == "mtext":
            text = "\u00a0" * spaces[0] + text + "\u00a0" * spaces[1]
        found.append(f"<{kind}{given}>{html.escape(text)}</{kind}>")
    return f'<math alttext="{html.escape(line)}">{"".join(found)}</math>'


def _mathml_sign(sign: str) -> str:
    kind = "mn" if sign.isdigit() else "mi" if sign.isalpha() else "mo"
    return f"<{kind}>{sign}</{kind}>"


def _escape_markup(text: object) -> str:
    """Escape what Markdown or HTML would read as a mark; a line end becomes a space."""
    flat = " ".join(clean_text(text).split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    flat = _MARKS.sub(r"\\\1", flat)
    # A sign, or a number with a point and a space, would begin a list at the start of a line.
    return re.sub(r"^(?:([-+])|(\d+)([.)])(?=\s|$))", lambda m: f"{m[2] or ''}\\{m[1] or m[3]}", flat)


@cache
def _read_resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
