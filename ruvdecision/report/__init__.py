"""The report: why a release was chosen, as one file that a review board can read, sign and keep.

A report is HTML (one page without scripts that fetches nothing), PDF (the same, printed) or Markdown (for archives).
The same map gives the same bytes on the same day, or on any day with ``date=None``.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..analyses.limit import Limit
from ..analyses.record_risk import RecordRisk
from ..analyses.sensitivity import Sensitivity
from ..checks import check_choice, check_filled, check_flag, check_kind, check_number, suggest
from ..data.write import as_output_path, check_output_paths, write_files
from ..decide.criteria import Rule
from ..errors import InputError, kind_of
from ..maps.rumap import RUMap
from ..maps.storage import fingerprint
from .content import compose
from .document import FORMATS, Document
from .extras import Extras
from .picture import draw_files

__all__ = ["fingerprint", "render_report", "report_files", "write_report"]

SUFFIXES = {".html": "html", ".htm": "html", ".pdf": "pdf", ".md": "md", ".markdown": "md"}


def write_report(
    rumap: RUMap | Mapping[str, RUMap],
    path: str | os.PathLike[str],
    max_risk: float | None = None,
    *,
    title: str | None = None,
    notes: str | Sequence[str] = (),
    format: str | None = None,
    date: str | datetime.date | None = "today",
    sensitivity: Sensitivity | Mapping[str, Sensitivity] | None = None,
    limit: Limit | Mapping[str, Limit] | None = None,
    record_risk: RecordRisk | Mapping[str, RecordRisk] | None = None,
    rule: Rule | None = None,
    seed: bool = False,
    figures: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write the report of a map to a file and return its path.

    The first page is what a board signs: the decision in words, the map with its frontier, threshold and choice, what
    the users do not know before and after in the data's unit, the worst user, what was tried, the conditions,
    signatures and the map's fingerprint. Annexes hold the users in words and formulas, the releases and who dominates
    the others, each measure with its meaning, how sure the choice is where numbers carry errors, what was done beside
    the map (limit, sensitivity, risk of every record), diagnostics, notes, the method with its papers, and the record:
    versions and seed. Long tables are folded in HTML and not printed. Only what the map holds can get in, so no
    confidential record does, and every text is escaped. The file appears whole or not at all, together with its
    figures.

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
    format : "html", "pdf" or "md", optional
        By default what the path's suffix says. PDF needs the extra ``ruvdecision[pdf]``.
    date : str or date, default "today"
        Written below the title; None leaves it out.
    sensitivity : Sensitivity, optional
        Adds the chapter on what the choice depends on, with a tornado.
    limit : Limit, optional
        Draws what no mechanism can pass into the map, and says how much of it the choice reaches.
    record_risk : RecordRisk, optional
        Adds the risk of every record; records are named by their position and never by a value.
    rule : mapping, optional
        Further arguments of `choose` that the choice was made with, ``{"confidence": 0.95}``.
    seed : bool, default False
        Give the seed itself. Who knows it can draw the map's random numbers again, so a report has a digest of it.
    figures : str or Path, optional
        A directory (made if it is not there) for every picture of the report as SVG and PDF, for papers.
    overwrite : bool, default False
        Write over a report and figures that exist.

    With several maps each of ``sensitivity``, ``limit`` and ``record_risk`` is a mapping from the map's name.

    Examples
    --------
    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.0], scientist=[0.5, 0.25])
    >>> write_report(rumap, "report.html", max_risk=0.5).name
    'report.html'
    """
    target = as_output_path(path)
    _format_of_path(target, format)
    check_output_paths([target], overwrite=overwrite)
    options = {"title": title, "notes": notes, "date": date, "sensitivity": sensitivity, "limit": limit, "seed": seed}
    files = report_files(
        rumap, target, max_risk, format=format, figures=figures, record_risk=record_risk, rule=rule, **options
    )
    # All of them together: a report never stands beside the pictures of another.
    return write_files(files, overwrite=overwrite, folders=figures is not None)[-1]


def report_files(
    rumap: RUMap | Mapping[str, RUMap],
    path: str | os.PathLike[str],
    max_risk: float | None = None,
    *,
    format: str | None = None,
    figures: str | os.PathLike[str] | None = None,
    **options: Any,
) -> dict[Path, bytes]:
    """The files that `write_report` would write, with the same arguments, by where they go; the report is the last.

    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.0], scientist=[0.5, 0.25])
    >>> [file.as_posix() for file in report_files(rumap, "out/report.md", figures="out/figures")]
    ['out/figures/map1.svg', 'out/figures/map1.pdf', 'out/report.md']
    """
    target, folder = as_output_path(path), None
    if figures is not None:
        check_kind("figures", figures, (str, os.PathLike), 'Write figures="figures/"')
        folder = Path(figures)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError("figures must be a directory", str(folder), "Name a directory for the SVG and PDF files")
    kind = _format_of_path(target, format)
    document = _make_document(rumap, max_risk, **options)
    found = {}
    if folder is not None:
        found = {folder / f"{p.anchor}.{end}": b for p in document.pictures for end, b in draw_files(p).items()}
    return found | {target: document.render(kind)}


def _format_of_path(path: Path, format: str | None) -> str:
    """Which format it is, as it is said or as the path's suffix says."""
    suffix = path.suffix.lower()
    if format is not None:
        return check_choice("format", format, FORMATS)
    if suffix not in SUFFIXES:
        do = f'End it in {" or ".join(SUFFIXES)}, or give format="html", "pdf" or "md"'
        raise InputError("The path must say which format it is", str(path), do)
    return SUFFIXES[suffix]


def render_report(
    rumap: RUMap | Mapping[str, RUMap], max_risk: float | None = None, *, format: str = "html", **options: Any
) -> str:
    """The report of a map as text, "html" or "md"; ``options`` are those of `write_report` that say what is in it.

    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.0], scientist=[0.5, 0.25])
    >>> render_report(rumap, max_risk=0.5, title="Pilot", format="md").splitlines()[0]
    '# Pilot'
    """
    check_choice("format", format, [kind for kind in FORMATS if kind != "pdf"])
    return _make_document(rumap, max_risk, **options).text(format)


def _make_document(
    rumap: RUMap | Mapping[str, RUMap],
    max_risk: float | None,
    *,
    title: str | None = None,
    notes: str | Sequence[str] = (),
    date: str | datetime.date | None = "today",
    rule: Rule | None = None,
    seed: bool = False,
    **analyses: Any,
) -> Document:
    """The report before it has a format; ``analyses`` are the sensitivity, the limit and the risk of every record."""
    maps = rumap if isinstance(rumap, Mapping) else {"map": rumap}
    do = "Write write_report(rumap, ...)"
    for one in check_filled("rumap", maps.values(), do):
        check_kind("What a report is made of", one, RUMap, do)
    try:
        lines = notes.splitlines() if isinstance(notes, str) else list(notes)
    except TypeError:
        raise InputError("notes must be text or a list of texts", notes, 'Write notes=["..."]') from None
    for name, given in (("title", title), *(("notes", line) for line in lines)):
        if given is not None and not isinstance(given, str):
            raise InputError(f"{name} must be text", kind_of(given), f"Give {name} as text")
    if isinstance(date, str) and date == "today":
        date = datetime.date.today()
    if isinstance(date, datetime.date):
        date = date.isoformat()
    if date is not None and not isinstance(date, str):
        raise InputError("date must be text or a date", date, "Write date=datetime.date.today()")
    max_risk = None if max_risk is None else check_number("max_risk", max_risk, infinite=True)
    shown: dict[str, Any] = {
        "rule": rule,
        "seed": check_flag("seed", seed, "Write seed=True to give the seed itself"),
    }
    heading = title if title is not None and title.strip() else "Which release to give out: risk and utility"
    parts = {name: _given_by_map(name, given, list(maps)) for name, given in analyses.items()}
    beside = {k: shown | {name: found.get(k) for name, found in parts.items()} for k in maps}
    extras = {str(k): Extras(**given) for k, given in beside.items()}
    return compose({str(k): m for k, m in maps.items()}, max_risk, heading, _join_continued_lines(lines), date, extras)


def _given_by_map(name: str, given: object, maps: list[str]) -> dict[str, Any]:
    """What was done beside each map, by the map's name."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if len(maps) > 1:
            do = f"Write {name}={{{maps[0]!r}: ...}}"
            raise InputError(f"With several maps {name} must say whose it is", type(given).__name__, do)
        return {maps[0]: given}
    strange = [k for k in given if k not in maps]
    if strange:
        do = suggest(str(strange[0]), [str(m) for m in maps])
        raise InputError(f"{name} names a map that is not in the report", strange, do)
    return dict(given)


def _join_continued_lines(lines: Sequence[str]) -> list[str]:
    """Join lines that go on, which a study indents, to the line that they go on from."""
    sentences: list[str] = []
    for line in lines:
        if sentences and line[:1].isspace() and line.strip():
            sentences[-1] += f" {line.strip()}"
        elif line.strip():
            sentences.append(line.strip())
    return sentences
