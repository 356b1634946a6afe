"""The parts of a report, free of any format: what `content` writes and `page` and `plain` put on paper."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

# Control characters and half surrogates are not text, and the marks that turn the direction of writing can make one
# release look like another. None of them belongs in a document that is signed.
_NOT_TEXT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufeff\ufffe\uffff]"
)


def clean(text: object) -> str:
    r"""Replace what is not readable text by U+FFFD; tabs and line ends stay.

    >>> clean("a\x00b") == "a\ufffdb"
    True
    """
    return _NOT_TEXT.sub("\ufffd", str(text))


@dataclass(frozen=True)
class Heading:
    """A heading of level 2 to 4; the document's title is the only one of level 1."""

    shape: ClassVar[str] = "heading"
    level: int
    text: str
    anchor: str = ""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; ``kind`` is empty, "decision", "warning" or "quiet"."""

    shape: ClassVar[str] = "paragraph"
    text: str
    kind: str = ""


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    shape: ClassVar[str] = "items"
    items: tuple[str, ...]


@dataclass(frozen=True)
class Terms:
    """Names with their values."""

    shape: ClassVar[str] = "terms"
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Line:
    """A row of a table; ``kind`` is empty, "chosen" or "doubtful". The first cell names the row."""

    cells: tuple[str, ...]
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """A table with a caption; ``numbers`` says which columns hold numbers, all but the first if not given."""

    shape: ClassVar[str] = "table"
    caption: str
    head: tuple[str, ...]
    lines: tuple[Line, ...]
    numbers: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if not self.numbers:
            object.__setattr__(self, "numbers", (False, *[True] * (len(self.head) - 1)))


@dataclass(frozen=True)
class Formula:
    """Lines of mathematics in plain letters."""

    shape: ClassVar[str] = "formula"
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """A picture, drawn when a format asks for it: ``draw(axes)`` draws, ``size`` is in inches.

    ``words`` say what it shows to somebody who cannot see it, ``anchor`` is its name among the figures.
    """

    shape: ClassVar[str] = "picture"
    draw: Callable[[Any], Any]
    caption: str
    words: str
    anchor: str
    size: tuple[float, float] = (8.6, 5.2)


@dataclass(frozen=True)
class Fold:
    """Parts that are shown when a reader asks for them."""

    shape: ClassVar[str] = "fold"
    summary: str
    blocks: tuple[Block, ...]


Block = Heading | Paragraph | Items | Terms | Table | Formula | Picture | Fold


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str
    subtitle: str
    blocks: tuple[Block, ...]


def folded(table: Table, most: int, summary: str) -> Block:
    """A table, behind its summary if it has more lines than ``most``."""
    return table if len(table.lines) <= most else Fold(summary, (table,))


def pictures(document: Document) -> list[Picture]:
    """The pictures of a document in their order."""
    return [block for block in document.blocks if isinstance(block, Picture)]
