"""What a report says about a map, or about a panel of maps: everything is read from the maps and nothing else.

No confidential record can get into a report, because a map holds none: it has labels, parameters, summaries and what
the study itself had to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..decide import Choice, choose, explain, not_dominated
from ..errors import InfeasibleError
from ..maps.rumap import RUMap
from .blocks import Block, Document, Fold, Heading, Items, Line, Paragraph, Picture, Table, Terms
from .doubts import LIMITS, beyond, doubtful, doubts, is_diagnostic
from .extras import Extras, reasons, sections, sureness
from .fingerprint import fingerprint
from .methods import method_notes, references
from .numbers import HEADS, count, entry, evenly, number, user_columns
from .people import users
from .picture import map_drawing

#: Tables with more lines than this are folded, behind an excerpt of `EXCERPT` lines.
OPEN, EXCERPT = 40, 20
#: Lines of the releases that are not on the frontier; more of them are left out, evenly.
REST = 200
#: Lines of the table of doubts.
DOUBTS = 50


def compose(
    maps: Mapping[str, RUMap],
    max_risk: float | None,
    title: str,
    notes: Sequence[str],
    date: str | None,
    extras: Mapping[str, Extras] | None = None,
) -> Document:
    """Write the report of one map (whatever its name) or of several named ones."""
    panel = len(maps) > 1
    beside = {name: (extras or {}).get(name, Extras()) for name in maps}
    decisions = {name: _decide(rumap, max_risk, beside[name].rule) for name, rumap in maps.items()}
    blocks: list[Block] = [Heading(2, "Decision", "decision")]
    if panel:
        blocks.append(_decisions(decisions, max_risk))
    for k, (name, rumap) in enumerate(maps.items(), start=1):
        anchor, level = f"map{k}", 3 if panel else 2
        blocks += [Heading(2, name, anchor)] if panel else []
        blocks += _chapter(rumap, decisions[name], max_risk, anchor, level, beside[name])
    if notes:
        blocks += [Heading(2, "What the study has to say", "notes"), Items(tuple(notes))]
    blocks += [Heading(2, "Method", "method"), *map(Paragraph, method_notes(list(maps.values())))]
    blocks += [Heading(3, "References", "references"), Items(tuple(references(list(maps.values()))))]
    blocks += _signatures()
    releases = count(sum(len(m) for m in maps.values()), "candidate release")
    parts = [
        f"{count(len(maps), 'map')} with {releases}" if panel else releases,
        f"threshold on the risk: {_threshold(max_risk)}",
    ]
    return Document(title, "; ".join([*parts, date] if date else parts) + ".", tuple(blocks))


# -- the decision --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Decision:
    """What was decided about one map: a choice, or why there is none."""

    sentence: str
    choice: Choice | None = None
    failed: bool = False

    @property
    def kind(self) -> str:
        unsure = self.choice is not None and (self.choice.within_error or not self.choice.row.converged)
        return "warning" if self.failed or unsure else "decision"


def _decide(rumap: RUMap, max_risk: float | None, rule: Mapping[str, Any] | None) -> _Decision:
    if max_risk is None and "by" not in (rule or {}):
        return _Decision(
            "No threshold on the risk was given, so no release is chosen; the frontier shows what can be had."
        )
    try:
        choice = choose(rumap, max_risk, **(rule or {}))
    except InfeasibleError as error:
        return _Decision(f"No release is chosen. {error}", failed=True)
    return _Decision(str(choice), choice)


def _decisions(decisions: Mapping[str, _Decision], max_risk: float | None) -> Table:
    lines = []
    for name, decision in decisions.items():
        row = decision.choice
        cells = (row.release, number(row.risk), number(row.utility)) if row is not None else ("none", "", "")
        lines.append(Line((name, *cells), "doubtful" if decision.kind == "warning" else ""))
    caption = f"The choice in every map; threshold on the risk: {_threshold(max_risk)}"
    return Table(caption, ("map", "chosen release", "risk", "utility"), tuple(lines), (False, False, True, True))


def _threshold(max_risk: float | None) -> str:
    return "none" if max_risk is None or np.isinf(max_risk) else number(max_risk)


def _circumstances(rumap: RUMap, choice: Choice | None, front: Any) -> list[str]:
    """What a board asks next: how many were allowed, and what the threshold costs."""
    facts = []
    if choice is not None:
        verb = ("meets" if choice.allowed == 1 else "meet") + " the threshold"
        if np.isinf(choice.max_risk) or choice.confidence is not None:
            verb = f"{'is' if choice.allowed == 1 else 'are'} allowed"
        facts.append(f"{choice.allowed:,} of {count(len(rumap), 'release')} {verb}.")
        known = np.flatnonzero(~np.isnan(rumap.utility) & ~np.isnan(rumap.risk))
        best = rumap[int(known[np.argmax(rumap.utility[known])])]
        if best.utility > choice.utility and best.risk > choice.max_risk:
            facts.append(
                f"Without a threshold the most useful release would be {best.release}: utility "
                f"{number(best.utility, 4)} "
                f"instead of {number(choice.utility, 4)}, at a risk of {number(best.risk, 4)}."
            )
    if front.any():
        verb, them = ("is", "it") if front.sum() == 1 else ("are", "them")
        facts.append(
            f"{front.sum():,} of {count(len(rumap), 'release')} {verb} on the frontier: no other release beats {them}."
        )
    else:
        facts.append("No release has both a risk and a utility, so there is no frontier.")
    if choice is not None and not np.isnan([choice.risk, choice.utility]).any():
        facts.append(str(explain(rumap, choice)))
    return facts


# -- one map -------------------------------------------------------------------------------------------


def _chapter(
    rumap: RUMap, decision: _Decision, max_risk: float | None, anchor: str, level: int, extras: Extras
) -> list[Block]:
    front = not_dominated(rumap.risk, rumap.utility)
    order = np.flatnonzero(front)
    order = order[np.lexsort((rumap.utility[order], rumap.risk[order]))]
    blocks: list[Block] = [
        Paragraph(decision.sentence, decision.kind),
        Items(tuple(_circumstances(rumap, decision.choice, front))),
        Heading(level, "The map", f"{anchor}-map"),
    ]
    if (~np.isnan(rumap.risk) & ~np.isnan(rumap.utility)).any():
        words = _in_words(rumap, decision, max_risk, order)
        caption = (
            "Utility to the right, risk upwards: good releases lie at the lower right. The grey band is the frontier"
        )
        caption += "" if max_risk is None or np.isinf(max_risk) else ", the dashed line the threshold"
        caption += "" if extras.limit is None else ", the dotted line the limit of all mechanisms"
        caption += "." if decision.choice is None else ", the star the chosen release."
        caption += "" if rumap.converged.all() else " Open markers did not converge."
        blocks.append(
            Picture(map_drawing(rumap, max_risk, limit=extras.limit, rule=extras.rule), caption, words, anchor)
        )
    else:
        blocks.append(Paragraph("There is nothing to draw: no release has both a risk and a utility.", "warning"))
    modelled = rumap.intruder is not None or rumap.scientist is not None
    blocks += [
        Heading(level, "The users" if modelled else "Risk and utility", f"{anchor}-users"),
        *users(rumap, decision.choice),
    ]
    blocks += [Heading(level, "The releases", f"{anchor}-releases"), *_releases(rumap, order, front, decision.choice)]
    measured = [k for k in rumap.columns if not is_diagnostic(rumap, k) and not _is_error(rumap, k)]
    if measured:
        blocks += [
            Heading(level, "Measures and other columns", f"{anchor}-measures"),
            *_measures(rumap, measured, order, decision.choice),
        ]
    sure = sureness(rumap, decision.choice, order, max_risk)
    if sure:
        blocks += [Heading(level, "How sure that is", f"{anchor}-sure"), *sure]
    blocks += sections(rumap, decision.choice, max_risk, extras, anchor, level)
    blocks += [Heading(level, "Diagnostics", f"{anchor}-diagnostics"), *_diagnostics(rumap, decision.choice)]
    if rumap.notes:
        blocks += [Heading(level, "Remarks on the map", f"{anchor}-remarks"), Items(tuple(rumap.notes))]
    return [*blocks, Heading(level, "Record", f"{anchor}-record"), Terms(tuple(_record(rumap)))]


def _in_words(rumap: RUMap, decision: _Decision, max_risk: float | None, order: Any) -> str:
    def spread(values: Any) -> str:
        known = values[~np.isnan(values)]
        return f"{number(float(known.min()), 4)} to {number(float(known.max()), 4)}"

    words = [f"Risk-utility map of {count(len(rumap), 'release')}."]
    words.append(f"Utility from {spread(rumap.utility)}, risk from {spread(rumap.risk)}.")
    ends = [rumap[int(i)] for i in (order[[0, -1]] if order.size > 1 else order)]
    at = [f"{r.release} (risk {number(r.risk, 4)}, utility {number(r.utility, 4)})" for r in ends]
    words.append(
        f"The frontier runs from {at[0]} to {at[1]}." if len(at) == 2 else f"The frontier is one release, {at[0]}."
    )
    if max_risk is not None and not np.isinf(max_risk):
        words.append(f"The threshold is a horizontal line at risk {number(max_risk)}.")
    if decision.choice is not None:
        row = decision.choice
        words.append(
            f"The chosen release is {row.release}, with risk {number(row.risk, 4)} and utility "
            f"{number(row.utility, 4)}."
        )
    elif decision.failed:
        words.append("No release meets the threshold.")
    return " ".join(words)


def _releases(rumap: RUMap, order: Any, front: Any, choice: Choice | None) -> list[Block]:
    blocks: list[Block] = []
    columns = user_columns(rumap) + (["engine"] if len(set(rumap.engine)) > 1 else [])
    if order.size:
        blocks += _tables(rumap, order, choice, "Releases on the frontier, in order of risk", columns)
    rest = np.flatnonzero(~front)
    if rest.size:
        shown = evenly(rest, REST)
        left = (
            f"; {rest.size - shown.size} more are left out evenly, the map's own table has all"
            if shown.size < rest.size
            else ""
        )
        caption = f"Releases that are not on the frontier, as listed ({shown.size}{left})"
        table = _table(rumap, shown, choice, caption, columns)
        why = zip(table.lines, reasons(rumap, shown), strict=True)
        lines = tuple(Line((*line.cells, reason), line.kind) for line, reason in why)
        table = Table(caption, (*table.head, "why not"), lines, (*table.numbers, False))
        blocks.append(Fold(f"The other {count(rest.size, 'release')}", (table,)))
    return blocks


def _measures(rumap: RUMap, names: Sequence[str], order: Any, choice: Choice | None) -> list[Block]:
    """Columns that are the same everywhere are said once; the others are tables."""
    blocks: list[Block] = []
    same = [k for k in names if len(rumap) > 1 and len({str(x) for x in rumap.columns[k].tolist()}) == 1]
    if same:
        blocks.append(Terms(tuple((k, entry(rumap, k, 0)) for k in same)))
    varying = [k for k in names if k not in same]
    if varying:
        if order.size:
            blocks += _tables(rumap, order, choice, "Measures of the releases on the frontier", varying)
        rest = np.setdiff1d(np.arange(len(rumap)), order)
        if rest.size:
            shown = evenly(rest, REST)
            left = f", {rest.size - shown.size} more left out evenly" if shown.size < rest.size else ""
            table = _table(rumap, shown, choice, f"Measures of the other releases ({shown.size}{left})", varying)
            blocks.append(Fold(f"Measures of the other {count(rest.size, 'release')}", (table,)))
    return blocks


# -- tables --------------------------------------------------------------------------------------------


def _tables(rumap: RUMap, rows: Any, choice: Choice | None, caption: str, columns: Sequence[str]) -> list[Block]:
    """All rows; if they are many, an excerpt that is always seen and the whole in a fold."""
    if rows.size <= OPEN:
        return [_table(rumap, rows, choice, f"{caption} ({rows.size})", columns)]
    few = set(evenly(rows, EXCERPT).tolist())
    if choice is not None:
        few.add(choice.row.position)
    excerpt = np.array([i for i in rows.tolist() if i in few])
    whole = _table(rumap, rows, choice, f"{caption} ({rows.size})", columns)
    return [
        _table(rumap, excerpt, choice, f"{caption} ({excerpt.size} of {rows.size})", columns),
        Fold(f"All {rows.size} of them", (whole,)),
    ]


def _table(rumap: RUMap, rows: Any, choice: Choice | None, caption: str, columns: Sequence[str]) -> Table:
    chosen = None if choice is None else choice.row.position
    doubt = doubtful(rumap)
    lines = []
    for i in rows.tolist():
        marks = (
            ["chosen"] * (i == chosen)
            + ["not converged"] * (not rumap.converged[i])
            + ["see diagnostics"] * bool(doubt[i])
        )
        kind = "chosen" if i == chosen else "doubtful" if doubt[i] or not rumap.converged[i] else ""
        lines.append(Line((rumap.releases[i], *(entry(rumap, k, i) for k in columns), ", ".join(marks)), kind))
    words = HEADS | {name: f"{name} ({end} is better)" for name, end in _better(rumap).items()}
    numbers = [
        k not in ("engine",) and (k not in rumap.columns or rumap.columns[k].dtype.kind in "biuf") for k in columns
    ]
    marked = any(line.cells[-1] for line in lines)
    if not marked:
        lines = [Line(line.cells[:-1], line.kind) for line in lines]
    head = ("release", *(words.get(k, k) for k in columns), *(["mark"] if marked else []))
    return Table(caption, head, tuple(lines), (False, *numbers, *([False] if marked else [])))


def _better(rumap: RUMap) -> dict[str, str]:
    """Which values of a measure are better, as far as the map knows; joined maps keep one list each."""
    known = rumap.attrs.get("better", {})
    parts = known if isinstance(known, list) else [known]
    return {str(name): str(end) for part in parts if isinstance(part, Mapping) for name, end in part.items()}


def _is_error(rumap: RUMap, name: str) -> bool:
    return name.endswith("_error") and name.removesuffix("_error") in rumap.columns


# -- diagnostics, record, signatures -------------------------------------------------------------------


def _diagnostics(rumap: RUMap, choice: Choice | None) -> list[Block]:
    engines = Counter(name or "not said" for name in rumap.engine)
    facts = ["Computed by: " + ", ".join(f"{name} ({count(k, 'release')})" for name, k in engines.items()) + "."]
    inexact = int(np.sum((rumap.risk_error > 0) | (rumap.utility_error > 0)))
    if inexact:
        facts.append(
            f"{inexact:,} of {count(len(rumap), 'release')} with a standard error (after ±); the frontier does not "
            "allow for it."
        )
    else:
        facts.append("No number carries a standard error.")
    blocks: list[Block] = [Items(tuple(facts))]
    if choice is not None and choice.remarks:
        blocks.append(Paragraph(f"About the chosen release: {'; '.join(choice.remarks)}.", "warning"))
    found = doubts(rumap)
    if found:
        lines = [Line((rumap.releases[i], "; ".join(why)), "doubtful") for i, why in list(found.items())[:DOUBTS]]
        more = f", the first {DOUBTS} are shown" if len(found) > DOUBTS else ""
        caption = f"Releases to look at twice ({len(found)}{more})"
        blocks.append(Table(caption, ("release", "why"), tuple(lines), (False, False)))
    else:
        blocks.append(
            Paragraph("Nothing is marked: every sampler converged, every number is finite, no error is large.")
        )
    # The members of a panel have their own table.
    named = [
        k
        for k in rumap.columns
        if is_diagnostic(rumap, k) and not k.endswith(("converged", "]_uncertainty", "]_error"))
    ]
    lines, texts = [], []
    for name in named:
        column = rumap.columns[name]
        if column.dtype.kind not in "biuf":
            texts.append(f"{name}: {_counted(column)}.")
            continue
        known = column[~np.isnan(column.astype(float))].astype(float)
        cells = [number(float(f(known))) if known.size else "none" for f in (np.min, np.median, np.max)]
        bad = int(beyond(rumap, name).sum())
        lines.append(Line((name, *cells, _beyond(name, bad)), "doubtful" if bad else ""))
    marked = any(line.cells[-1] for line in lines)
    if not marked:
        lines = [Line(line.cells[:-1]) for line in lines]
    if lines:
        head = ("column", "smallest", "median", "largest", "mark")[: 4 + marked]
        kinds = (False, True, True, True, False)[: 4 + marked]
        blocks.append(Table("Diagnostics over all releases", head, tuple(lines), kinds))
    return [*blocks, Items(tuple(texts))] if texts else blocks


def _counted(column: Any) -> str:
    """How often each text of a column occurs, the first few."""
    texts = Counter(map(str, column.tolist()))
    shown = [f"{_short(text, 80) or 'nothing'} ({count(k, 'release')})" for text, k in list(texts.items())[:6]]
    return ", ".join(shown) + (f" and {len(texts) - 6} more" if len(texts) > 6 else "")


def _beyond(name: str, bad: int) -> str:
    if not bad:
        return ""
    way, limit = next(v for k, v in LIMITS.items() if name == k or name.endswith(f"_{k}"))
    return f"{count(bad, 'release')} {way} {number(limit)}"


def _record(rumap: RUMap) -> list[tuple[str, str]]:
    """Where the numbers come from. A map's attributes are its maker's; long ones are cut."""
    known = dict(rumap.attrs)
    versions = [
        f"{k} {_short(known.pop(k))}"
        for k in ("ruvdecision", "python", "numpy", "scipy", "pymc", "arviz", "pytensor", "nutpie")
        if k in known
    ]
    pairs = [("fingerprint of the map", f"sha256 {fingerprint(rumap)}")]
    taken = known.pop("data_fingerprint", None)
    if taken:
        what = (
            "a hash of the confidential records with a key that the agency keeps: it tells nothing without the "
            "key, "
            "and with it whether"
        )
        pairs.append(("fingerprint of the data", f"{_short(taken)} ({what} other records are the same)"))
    for said in ("intruder", "scientist", "better"):  # they have their own places
        known.pop(said, None)
    if known.get("replicates") in (0, "default"):
        known["replicates"] = "not set"
    pairs += [(str(k).replace("_", " "), _short(v)) for k, v in known.items() if v is not None and _short(v)]
    return [*pairs, ("versions", ", ".join(versions) or "not known")]


def _short(entry: Any, most: int = 300) -> str:
    text = ", ".join(map(str, entry)) if isinstance(entry, (list, tuple)) else str(entry)
    return text if len(text) <= most else text[: most - 1] + "…"


def _signatures() -> list[Block]:
    lines = tuple(Line((who, "", "", "")) for who in ("prepared by", "reviewed by", "approved by"))
    table = Table("Signatures", ("", "name", "date", "signature"), lines, (False, False, False, False))
    return [Heading(2, "Signed", "signed"), table]
