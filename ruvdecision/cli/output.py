"""The files of a run: the map, its table, its picture and the report, all of them or none."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.write import check_places, nameable, write_files
from ..errors import InputError, RuvError

if TYPE_CHECKING:
    from ..maps.rumap import RUMap
    from ..studies import Outcome

FREE = "Add --force to write over them, or name another --out"


def check_out(options: argparse.Namespace, stems: Sequence[str]) -> Path | None:
    """The directory of --out. One that cannot be written to, or files in the way, are refused before any work."""
    if options.out is None:
        if options.figures:
            raise InputError("--figures needs a directory", "no --out", "Add --out DIR")
        return None
    if not nameable(options.out):
        raise InputError("--out must name a directory", repr(options.out), "Write --out out/, for example")
    # A study may change the working directory, but not where its files go.
    out = Path(os.path.abspath(options.out))
    _check(
        out,
        [*(f"{stem}.{kind}" for stem in stems for kind in ("nc", "csv", "png")), f"report.{options.format}"],
        options,
    )
    if options.figures and os.path.lexists(out / "figures") and not (out / "figures").is_dir():
        raise InputError("The report's pictures go to a directory", f"the file {out / 'figures'}", "Name another --out")
    return out


def write(
    outcome: Outcome, out: Path | None, max_risk: float | None, options: argparse.Namespace, say: Callable[[str], Any]
) -> list[Path]:
    """Make all files and write them together. A panel has its maps apart and one report with all of them."""
    from ..maps.storage import as_bytes
    from ..plots.theme import use_files_only
    from ..report import report_files
    from ..studies import file_name

    if out is None:
        return []
    say(f"writing to {options.out}")
    use_files_only()
    own = outcome.picture(max_risk)
    stems = {name: file_name(name) for name in outcome.maps}
    names = [
        f"{stem}.{kind}"
        for stem in stems.values()
        for kind in (("nc", "csv") if own is not None else ("nc", "csv", "png"))
    ]
    names += [*(["map.png"] if own is not None else []), f"report.{options.format}"]
    _check(out, names, options)
    files: dict[Path, bytes] = {}
    for name, rumap in outcome.maps.items():
        files[out / f"{stems[name]}.nc"] = as_bytes(rumap)
        files[out / f"{stems[name]}.csv"] = (
            rumap.to_dataframe().to_csv(index=False, lineterminator="\n").encode("utf-8", "replace")
        )
        if own is None:
            files[out / f"{stems[name]}.png"] = _png(rumap, max_risk)
    if own is not None:
        files[out / "map.png"] = own
    files |= report_files(
        outcome.maps if outcome.panel else outcome.maps["map"],
        out / f"report.{options.format}",
        max_risk,
        title=outcome.study.description,
        notes=_spoken(outcome),
        date=None if options.date == "none" else options.date,
        figures=out / "figures" if options.figures else None,
    )
    places = write_files(
        {out / name: files.pop(out / name) for name in names} | files, overwrite=options.force, folders=True, do=FREE
    )
    return [Path(options.out) / place.relative_to(out) for place in places]


def _check(out: Path, names: Sequence[str], options: argparse.Namespace) -> None:
    nearest = out
    while not os.path.lexists(nearest) and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir():
        raise InputError("--out must name a directory", options.out, f"{nearest} is a file; name another place")
    check_places([out / name for name in names], overwrite=options.force, folders=True, do=FREE)


def _spoken(outcome: Outcome) -> list[str]:
    """The study's notes for the report. If they fail, that is said when they are printed; the files are worth more."""
    try:
        return outcome.notes()
    except RuvError as error:
        return [f"The study's notes could not be had: {error}"]


def _png(rumap: RUMap, max_risk: float | None) -> bytes:
    from ..plots.theme import as_png
    from ..report.picture import readable

    with warnings.catch_warnings():
        # A letter that the font lacks is drawn as a box; the table and the report have it.
        warnings.filterwarnings("ignore", message=r"(?s)Glyph .* missing from")
        return as_png(readable(rumap).plot(max_risk=max_risk).figure, dpi=150)
