"""The report: why a release was chosen, as one file that a review board can read, sign and keep.

A report is HTML (one page without scripts that fetches nothing) or Markdown (for archives). The same map gives the same
bytes, as there is no date in it unless the caller gives one.
"""

from __future__ import annotations

import datetime
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..checks import check_choice
from ..errors import InputError
from ..rumap import RUMap
from .content import compose
from .fingerprint import fingerprint
from .page import as_html
from .plain import as_markdown

__all__ = ["fingerprint", "render_report", "write_report"]

FORMATS = {"html": as_html, "md": as_markdown}
SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md"}


def write_report(
    rumap: RUMap | Mapping[str, RUMap],
    path: Any,
    max_risk: float | None = None,
    *,
    title: str | None = None,
    notes: str | Sequence[str] = (),
    format: str | None = None,
    date: str | datetime.date | None = None,
) -> Path:
    """Write the report of a map to a file and return its path.

    It holds the decision in one sentence, the map with its frontier, threshold and choice, the users in words, the table
    of releases, measures if there are any, diagnostics, notes, the method with its papers, and the record: versions, seed
    and a fingerprint of the map. Only what the map holds can get in, so no confidential record does, and every text is
    escaped. The file appears whole or not at all; one that exists is written over.

    Parameters
    ----------
    rumap : RUMap or mapping of names to maps
        The map. Several named maps, a panel, give one report with a chapter each and a table of all choices.
    path : str or Path
        Where to write.
    max_risk : float, optional
        The threshold. If no release meets it, the report says so and names the nearest miss.
    title : str, optional
        The heading.
    notes : str or list of str
        What the study has to say, a sentence each.
    format : "html" or "md", optional
        By default what the path's suffix says.
    date : str or date, optional
        Written below the title.

    Examples
    --------
    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.0], scientist=[0.5, 0.25])
    >>> write_report(rumap, "report.html", max_risk=0.5).name
    'report.html'
    """
    target = Path(path)
    if format is None:
        if target.suffix.lower() not in SUFFIXES:
            raise InputError(
                "The path must say which format it is", str(target), f'End it in {" or ".join(SUFFIXES)}, or give format="html" or "md"'
            )
        format = SUFFIXES[target.suffix.lower()]
    if target.is_dir() or not target.parent.is_dir():
        raise InputError("A report is written to a file in a directory that exists", str(target), 'Write report("report.html")')
    text = render_report(rumap, max_risk, title=title, notes=notes, format=format, date=date)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        # Bytes, not text: line ends are the same on every system.
        temporary.write_bytes(text.encode("utf-8"))
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return target


def render_report(
    rumap: RUMap | Mapping[str, RUMap],
    max_risk: float | None = None,
    *,
    title: str | None = None,
    notes: str | Sequence[str] = (),
    format: str = "html",
    date: str | datetime.date | None = None,
) -> str:
    """The report of a map as text; see `write_report`.

    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.0], scientist=[0.5, 0.25])
    >>> render_report(rumap, max_risk=0.5, title="Pilot", format="md").splitlines()[0]
    '# Pilot'
    """
    maps = rumap if isinstance(rumap, Mapping) else {"map": rumap}
    if not maps or not all(isinstance(m, RUMap) for m in maps.values()):
        got = [type(m).__name__ for m in maps.values()] or "none"
        raise InputError("A report needs a map, or several maps by name", got, "Write write_report(rumap, ...)")
    check_choice("format", format, list(FORMATS))
    lines = notes.splitlines() if isinstance(notes, str) else _listed("notes", notes)
    for name, given in (("title", title), *(("notes", line) for line in lines)):
        if given is not None and not isinstance(given, str):
            raise InputError(f"{name} must be text", given, f"Give {name} as text")
    if isinstance(date, datetime.date):
        date = date.isoformat()
    if date is not None and not isinstance(date, str):
        raise InputError("date must be text or a date", date, "Write date=datetime.date.today()")
    heading = title if title is not None and title.strip() else "Which release to give out: risk and utility"
    document = compose({str(k): m for k, m in maps.items()}, max_risk, heading, _sentences(lines), date)
    return FORMATS[format](document)


def _listed(name: str, given: Any) -> list[Any]:
    try:
        return list(given)
    except TypeError:
        raise InputError(f"{name} must be text or a list of texts", given, f'Write {name}=["..."]') from None


def _sentences(lines: Sequence[str]) -> list[str]:
    """Join lines that go on, which a study indents, to the line that they go on from."""
    sentences: list[str] = []
    for line in lines:
        if sentences and line[:1].isspace() and line.strip():
            sentences[-1] += f" {line.strip()}"
        elif line.strip():
            sentences.append(line.strip())
    return sentences
