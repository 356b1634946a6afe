"""Drawings in a document: SVG for a page, PNG for Markdown, SVG and PDF for papers.

The same map gives the same bytes.
"""

from __future__ import annotations

import io
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import plots
from ..maps.rumap import RUMap
from ..maps.show import clean_text, with_readable_labels
from ..plots.map import SIZE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .document import Picture

Draw = Callable[["Figure"], object]

#: Nothing that changes from day to day or from machine to machine.
NO_DATE: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
#: Pixels per inch of what is too much to be shapes, such as the markers of a large cloud.
PIXELS = 200


def draw_svg(picture: Picture) -> str:
    """Draw a picture as an SVG element that can stand inside an HTML page.

    Texts stay texts: they can be searched and read aloud, and a script that the drawing's font lacks is set in the
    reader's. Ids begin with the picture's anchor, so that several drawings can share a page. Nothing is fetched from
    anywhere.
    """
    prefix = picture.anchor
    root = ET.fromstring(_draw_figure(picture.draw, picture.size, "svg")["svg"])
    for element in root.iter():
        # A page knows that svg is SVG, and ``xlink:href`` is ``href`` there.
        element.tag = _tag_name(element.tag)
        for key in [k for k in element.attrib if "}" in k]:
            element.set(_tag_name(key), element.attrib.pop(key))
        for child in [c for c in element if _tag_name(c.tag) in ("metadata", "style")]:
            element.remove(child)
        for key, value in element.attrib.items():
            if key == "id":
                element.set(key, f"{prefix}-{value}")
            elif "#" in value:
                element.set(key, re.sub(r"(^|url\()#", rf"\g<1>#{prefix}-", value))
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    # The drawing's one style rule spoke of every element, also of those outside it; these two are inherited anyway.
    root.set("style", "stroke-linejoin:round;stroke-linecap:butt")
    root.set("role", "img")
    root.set("aria-label", clean_text(picture.words))
    return ET.tostring(root, encoding="unicode")


def draw_png(picture: Picture) -> bytes:
    """Draw a picture as a PNG image."""
    return _draw_figure(picture.draw, picture.size, "png")["png"]


def draw_map_png(rumap: RUMap, max_risk: float | None) -> bytes:
    """Draw a map as a PNG image."""
    return _draw_figure(map_drawing(rumap, max_risk), SIZE, "png")["png"]


def draw_files(picture: Picture) -> dict[str, bytes]:
    """Draw a picture for papers: the bytes of an SVG and of a PDF file, by their endings.

    Letters stay letters in both.
    """
    return _draw_figure(picture.draw, picture.size, "svg", "pdf")


def map_drawing(rumap: RUMap, max_risk: float | None, **options: Any) -> Draw:
    """What draws a map into a figure, with labels that a drawing can hold."""
    return lambda figure: plots.rumap(with_readable_labels(rumap), max_risk, figure.subplots(), **options)


def _draw_figure(draw: Draw, size: tuple[float, float], *kinds: str) -> dict[str, bytes]:
    """What a figure of a size with this drawing is in files of these kinds."""
    from matplotlib.figure import Figure

    found = {}
    with _house_style():
        for kind in kinds:
            # Not through pyplot, which would keep the figure alive and might open a window.
            figure: Figure = Figure(figsize=size, layout="constrained")
            draw(figure)
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, dpi=110 if kind == "png" else PIXELS, metadata=NO_DATE[kind])
            found[kind] = buffer.getvalue()
    return found


@contextmanager
def _house_style() -> Iterator[None]:
    """Draw with matplotlib's own defaults, whatever the caller has set, and with ids that do not change."""
    import matplotlib as mpl

    # Where neighbours on a curve coincide, a label has no direction to stand aside to, and is left out.
    with mpl.rc_context(), warnings.catch_warnings(), np.errstate(invalid="ignore"):
        mpl.rcdefaults()
        mpl.rcParams.update({"svg.hashsalt": "ruvdecision", "svg.fonttype": "none", "pdf.fonttype": 42})
        # The reader's program has the letters that our font lacks.
        warnings.filterwarnings("ignore", message=r"(?s)Glyph .* missing from")
        yield


def _tag_name(tag: str) -> str:
    return tag.rpartition("}")[2]
